//! Warnings about expressions that are valid, but probably not intended: a misspelt key is a tag
//! that no record has; a value that only resembles a number or an address block is compared as
//! text; a size compared with a time field is a bare number.
//!
//! Invariant: nothing here affects the meaning of an expression; it only informs the author.

use std::net::IpAddr;

use crate::ast::{Expr, Field, Literal, Range, Reserved, Span, Term, Test};
use crate::network::Network;
use crate::number::{self, Dimension};
use crate::unit::Units;

const TIME_UNITS: &str = "ns us ms s m h d";
const SIZE_UNITS: &str = "B kB MB GB TB KiB MiB GiB TiB";

/// A part of an expression that may not mean what was intended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// Where it was written.
    pub span: Span,
    /// Its actual meaning.
    pub message: String,
    /// The probable intention.
    pub help: String,
    /// The tag whose name is likely to be a mistake; `None` if it is something else.
    pub tag: Option<String>,
}

impl Expr {
    /// Returns the parts that are likely to be mistakes, in order; `text` is what this was parsed
    /// from. A value in quotes is always meant as text.
    pub fn lints(&self, text: &str) -> Vec<Lint> {
        let mut lints = Vec::new();
        self.for_each_term(&mut |term, span| {
            let is_quoted = text.get(span.start..span.end).is_some_and(|text| text.contains('"'));
            let mut add = |(message, help), tag| lints.push(Lint { span, message, help, tag });
            if let Field::Tag(key) = &term.field
                && let Some(near) = key_like(key)
            {
                let message = format!("{key} is not a reserved key, so it is searched as a tag");
                add((message, format!("did you mean {near}?")), Some(key.clone()));
            }
            if let Some(found) = of_test(term).filter(|_| !is_quoted) {
                add(found, None);
            }
        });
        lints
    }
}

/// The message of a lint, and its hint.
type MessageAndHint = (String, String);

/// Returns the reserved key whose name resembles the given one.
pub fn key_like(written: &str) -> Option<&'static str> {
    let known = Reserved::ALL.iter().map(|key| key.name()).chain(["message", "tags"]);
    known.filter(|known| is_near(written, known)).min_by_key(|known| distance(written, known))
}

/// Returns whether one is probably a misspelling of the other. Short words that start differently
/// (`post` and `host`) are different words.
fn is_near(written: &str, known: &str) -> bool {
    let most = if written.len().min(known.len()) < 6 { 1 } else { 2 };
    let folded = |text: &str| text.to_ascii_lowercase().replace(['-', '.'], "_");
    let written = folded(written);
    written.as_bytes().first() == known.as_bytes().first()
        && written.len().abs_diff(known.len()) <= most
        && distance(&written, known) <= most
}

/// Returns the edit distance: insertions, deletions, replacements and swaps of adjacent letters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let moved = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if is_swapped { moved.min(rows[i - 2][j - 2] + 1) } else { moved }
            };
        }
    }
    rows[a.len()][b.len()]
}

fn of_test(term: &Term) -> Option<MessageAndHint> {
    match &term.test {
        Test::Equals(literal) => of_block(&term.field, literal),
        Test::Range(range) if term.field != Field::Reserved(Reserved::Status) => {
            of_unit(&term.field, range).or_else(|| of_range(range))
        }
        _ => None,
    }
}

/// Detects an address with a prefix that would be compared as text.
fn of_block(field: &Field, literal: &Literal) -> Option<MessageAndHint> {
    let text = &literal.text;
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }
    let message = format!("{text} is compared as text, not as an address block");
    let key = field.to_string();
    if Network::parse(text).is_some() {
        return Some((message, format!("did you mean CIDR({key},{text})?")));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    let help = format!("did you mean CIDR({key},{address}/{most})? a prefix is at most {most}");
    Some((message, help))
}

/// Detects a size compared with a time field, or the other way round.
fn of_unit(field: &Field, range: &Range) -> Option<MessageAndHint> {
    let own = Units::default().of(field, &[])?.dimension();
    let literal = range.literals().find(|literal| {
        literal.number.and_then(|number| number.dimension).is_some_and(|written| written != own)
    })?;
    let (kind, units) = match own {
        Dimension::Time => ("a time", TIME_UNITS),
        Dimension::Size => ("a size", SIZE_UNITS),
    };
    let message = format!("{field} is {kind}, but {} is not", literal.text);
    Some((message, format!("valid units are {units}")))
}

/// Detects a number followed by letters that are not a unit.
fn of_range(range: &Range) -> Option<MessageAndHint> {
    let (text, unit) = range.literals().find_map(|literal| {
        let unit = literal.number.is_none().then(|| number::unknown_unit(&literal.text))??;
        Some((&literal.text, unit))
    })?;
    let message = format!("unknown unit {unit}: {text} is compared as text");
    let help = match number::unit_like(unit) {
        Some(known) => format!("did you mean {}{known}?", &text[..text.len() - unit.len()]),
        None => format!("valid units are {TIME_UNITS}, and {SIZE_UNITS}"),
    };
    Some((message, help))
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn found(text: &str) -> Vec<(String, String)> {
        let lints = parse(text).unwrap().lints(text);
        let written = |d: crate::Lint| (text[d.span.start..d.span.end].to_owned(), d.help);
        lints.into_iter().map(written).collect()
    }

    #[test]
    fn suspicious_terms_get_a_lint_with_help() {
        for (text, written, help) in [
            ("servce:web", "servce:web", "did you mean service?"),
            ("a -Status:error", "Status:error", "did you mean status?"),
            ("hsot:x OR b", "hsot:x", "did you mean host?"),
            ("_exists_:traceid", "_exists_:traceid", "did you mean trace_id?"),
            ("msg_id:x", "msg_id:x", "did you mean msgid?"),
            ("mesage:x", "mesage:x", "did you mean message?"),
            ("host:10.0.0.0/33", "host:10.0.0.0/33", "a prefix is at most 32"),
            ("@ip:10.0.0.0/8", "@ip:10.0.0.0/8", "did you mean CIDR(@ip,10.0.0.0/8)?"),
            ("host:fd00\\:\\:/8", "host:fd00\\:\\:/8", "CIDR(host,fd00::/8)"),
            ("@d:>300parsecs", "@d:>300parsecs", "valid units are ns us"),
            ("@d:>5sec", "@d:>5sec", "did you mean 5s?"),
            ("@d:[1 TO 5M]", "@d:[1 TO 5M]", "did you mean 5MB?"),
            ("@d:<=5MIB", "@d:<=5MIB", "did you mean 5MiB?"),
            ("@wait_ms:>5MB", "@wait_ms:>5MB", "valid units are ns us ms s m h d"),
            ("@sent.bytes:[1s TO 2s]", "@sent.bytes:[1s TO 2s]", "valid units are B kB"),
        ] {
            let found = found(text);
            let [(place, advised)] = &found[..] else { panic!("{text}: {found:?}") };
            assert_eq!(place, written, "{text}");
            assert!(advised.contains(help), "{text}: {advised}");
        }
    }

    #[test]
    fn ordinary_terms_get_no_lint() {
        for text in [
            "service:web",
            "env:prod team:a version:1.2",
            "post:1 cost:2 state:on server:a app:b",
            "@servce:web",
            "CIDR(host,10.0.0.0/8)",
            "host:10.0.0.1",
            "@path:10.0.0.0/x",
            "@version:>1.2.3",
            "@date:>2026-01-02",
            "@d:>300ms @size:[1KiB TO 2MiB}",
            "@d_ms:>2s @d_bytes:>2 @duration:>1h @size_bytes:<5MB",
            "@d:>\"5sec\" @name:>m host:\"10.0.0.0/8\"",
            "status:>=warn",
            "servce",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
