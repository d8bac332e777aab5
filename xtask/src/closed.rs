//! Finds wildcards in matches over types that are closed lists.
//!
//! A new source, output or aggregation must be handled at each place that depends on the type; the
//! compiler reports these places if none of them has an arm for "all others".

use std::path::Path;

use anyhow::{Context as _, Result};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Arm, ExprMatch, ItemImpl, Pat, Type};

use crate::paths;

/// The closed lists.
const CLOSED: [&str; 33] = [
    "AccumulatorKind",
    "Accumulators",
    "Aggregation",
    "Encoding",
    "Envelopes",
    "FileCompression",
    "Format",
    "Framing",
    "Fsync",
    "FsyncPolicy",
    "HecMode",
    "HttpAuth",
    "HttpMethod",
    "ListenEndpoint",
    "LogFormat",
    "LogLevel",
    "OutputKind",
    "OutputType",
    "Production",
    "Protocol",
    "ReadFrom",
    "Ready",
    "SocketProtocol",
    "SourceKind",
    "SourceThread",
    "SourceType",
    "SyslogFormat",
    "SyslogFramingKind",
    "SyslogOutputDelimiter",
    "SyslogOutputProtocol",
    "SyslogProtocol",
    "SyslogTransport",
    "WhenFull",
];

/// Returns every wildcard, with its file and line.
pub(crate) fn problems() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in paths::files(&[".rs"])? {
        let text = paths::read(&path)?;
        let names_one = |name: &&str| text.contains(&format!("{name}::"));
        if text.contains(" Self::") || CLOSED.iter().any(names_one) {
            problems.extend(in_file(&path, &text)?);
        }
    }
    Ok(problems)
}

fn in_file(path: &Path, text: &str) -> Result<Vec<String>> {
    let file = syn::parse_file(text).with_context(|| format!("cannot parse {}", path.display()))?;
    let mut finder = Finder { self_type: None, lines: Vec::new() };
    finder.visit_file(&file);
    let problem = |(line, name): (usize, String)| {
        format!(
            "{}:{line}: `_` in a match over {name}: list the remaining variants, so that a new one is not forgotten",
            path.display()
        )
    };
    Ok(finder.lines.into_iter().map(problem).collect())
}

struct Finder {
    /// The type of `Self`.
    self_type: Option<String>,
    lines: Vec<(usize, String)>,
}

impl Finder {
    /// Returns the closed list of which an arm names a variant.
    fn closed(&self, arm: &Arm) -> Option<String> {
        let mut names = Names(Vec::new());
        // A guard may compare something else.
        names.visit_pat(match &arm.pat {
            Pat::Guard(guarded) => &guarded.pat,
            pattern => pattern,
        });
        names.0.into_iter().find_map(|name| {
            let name = if name == "Self" { self.self_type.clone()? } else { name };
            CLOSED.contains(&name.as_str()).then_some(name)
        })
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let outer = self.self_type.take();
        if let Type::Path(path) = &*item.self_ty {
            self.self_type = path.path.segments.last().map(|segment| segment.ident.to_string());
        }
        visit::visit_item_impl(self, item);
        self.self_type = outer;
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        if let Some(name) = expr.arms.iter().find_map(|arm| self.closed(arm)) {
            let wild = expr.arms.iter().filter(|arm| is_wild(&arm.pat));
            self.lines.extend(wild.map(|arm| (arm.pat.span().start().line, name.clone())));
        }
        visit::visit_expr_match(self, expr);
    }
}

/// Returns whether the pattern matches every variant: `_` or a name, alone, with a guard, or in a
/// tuple or `Some` that contains nothing else.
fn is_wild(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Guard(guarded) => is_wild(&guarded.pat),
        Pat::Ident(name) => name.subpat.is_none() && is_binding(&name.ident.to_string()),
        Pat::Reference(reference) => is_wild(&reference.pat),
        Pat::Paren(inner) => is_wild(&inner.pat),
        Pat::Tuple(tuple) => tuple.elems.iter().all(is_wild),
        Pat::TupleStruct(of) => of.path.is_ident("Some") && of.elems.iter().all(is_wild),
        _ => false,
    }
}

/// Constants and variants begin with a capital letter.
fn is_binding(name: &str) -> bool {
    name.starts_with(|first: char| first.is_lowercase() || first == '_')
}

/// Returns the types before the variants of a pattern.
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(segment) = path.segments.iter().rev().nth(1) {
            self.0.push(segment.ident.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[usize]) {
        let found = in_file(Path::new("a.rs"), text).expect("it is Rust");
        let lines: Vec<usize> =
            found.iter().filter_map(|problem| problem.split(':').nth(1)?.parse().ok()).collect();
        assert_eq!(lines, expected, "{found:?}");
    }

    #[test]
    fn a_wildcard_over_a_closed_list_is_found() {
        check("fn f() { match a {\nOutputType::File => 1,\n_ => 2 } }", &[3]);
        check("fn f() { match a {\nx::SourceKind::File(_) => 1,\n_ if b => 2, _ => 3 } }", &[3, 3]);
        check("fn f() { match a {\nSome(Format::Raw) => 1,\n_ => 2 } }", &[3]);
        check("impl WhenFull { fn f() { match self {\nSelf::Block => 1,\n_ => 2 } } }", &[3]);
        check("fn f() { match a {\nSourceThread::Tail => 1,\nother => 2 } }", &[3]);
        check(
            "fn f() { match (a, b) {\n(SourceThread::Tail, SourceThread::Tail) => 1,\n(_, _) => 2 } }",
            &[3],
        );
        check("fn f() { match a {\nSome(Format::Raw) => 1,\nSome(_) => 2, None => 3 } }", &[3]);
    }

    #[test]
    fn wildcards_over_other_types_are_allowed() {
        check("fn f() { match a { Some(x) => 1, None if b == Format::Raw => 2, None => 3 } }", &[]);
        check("fn f() { match a { Some(_) => 1, _ => 2 } }", &[]);
        check("impl Other { fn f() { match self { Self::A => 1, _ => 2 } } }", &[]);
        check("fn f() { match a { OutputType::File => match b { 1 => 1, _ => 2 } } }", &[]);
        check("fn f() { match a { OutputType::File => 1, OutputType::Http => 2 } }", &[]);
        check(
            "fn f() { match (a, b) { (SourceThread::Tail, Some(_)) => 1, (SourceThread::Tail, None) => 2 } }",
            &[],
        );
    }
}
