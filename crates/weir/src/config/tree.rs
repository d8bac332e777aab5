//! TOML as a tree in which every key and value has its place, and the merging of several files into
//! one.
//!
//! Invariants: each key occurs once, whichever file it is from (a second definition is an error
//! that names both places); syntax errors are collected, and what could be read is kept, so that
//! they do not hide other errors.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::diagnostic::{Diagnostics, NOT_TOML};
use super::text::{SourceLocation, Texts};

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) location: SourceLocation,
    pub(crate) value: NodeValue,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    Text(String),
    /// `None` if it does not fit in 64 bits.
    Integer(Option<i64>),
    Float(f64),
    Bool(bool),
    Datetime,
    Array(Vec<Node>),
    Table(NodeTable),
}

/// A table, in the order of the text.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeTable {
    pub(crate) entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_location: SourceLocation,
    pub(crate) node: Node,
}

impl NodeTable {
    /// Returns the entry of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl NodeValue {
    /// A description of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number with a fraction",
            Self::Bool(_) => "true or false",
            Self::Datetime => "a date or time",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Reads all files and merges them.
pub(crate) fn parse(texts: &Texts, diagnostics: &mut Diagnostics) -> NodeTable {
    let mut merged = NodeTable::default();
    for (file, text) in texts.files().iter().enumerate() {
        let (root, errors) = DeTable::parse_recoverable(&text.text);
        for error in &errors {
            syntax_error(error, file, &text.text, diagnostics);
        }
        merge(&mut merged, table(root.get_ref(), file), &[], diagnostics);
    }
    merged
}

fn syntax_error(error: &toml::de::Error, file: usize, text: &str, diagnostics: &mut Diagnostics) {
    let span = error.span().unwrap_or(0..0);
    let location = Some(SourceLocation { file, span: span.clone() });
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    if message != "duplicate key" {
        let wrong = diagnostics.error(location, "", format!("{NOT_TOML}: {message}"));
        if let Some(help) = syntax_help(text, span.start, &message) {
            wrong.help(help);
        }
        return;
    }
    match first_definition(text, span) {
        // The keys of a duplicate table: the table itself has been reported.
        None if diagnostics.has_errors() => {}
        first => {
            let first = first.map(|span| SourceLocation { file, span });
            diagnostics
                .error(location, "", "this is defined twice")
                .other(first, "it is also defined at");
        }
    }
}

/// Suggestions for common mistakes that are not valid TOML.
fn syntax_help(text: &str, at: usize, message: &str) -> Option<String> {
    let line_start = text.get(..at)?.rfind('\n').map_or(0, |i| i + 1);
    let line = text[line_start..].lines().next()?.trim();
    let tables = "write key = value, and tables as [source.NAME]";
    if line.starts_with('{') {
        return Some(format!("this is JSON, but the configuration must be TOML: {tables}"));
    }
    if message.contains("escape") {
        return Some(
            "within \"...\" a backslash is written \\\\; within '...' it is literal".to_owned(),
        );
    }
    let Some((key, value)) = line.split_once('=') else {
        let is_yaml = line.contains(':') && !line.starts_with('[');
        return is_yaml
            .then(|| format!("this is YAML, but the configuration must be TOML: {tables}"));
    };
    // The text may be a secret, so it is not repeated.
    let value = value.trim_start();
    let is_bare = value.starts_with(|c: char| c.is_alphabetic() || matches!(c, '/' | '“' | '‘'));
    is_bare.then(|| format!("text must be in straight quotes: {} = \"...\"", key.trim()))
}

/// Finds where the key at `span` was defined before, which the parser does not report: for the key
/// of a value the nearest line above in the same table, for a table the nearest equal header.
fn first_definition(text: &str, span: Range<usize>) -> Option<Range<usize>> {
    let key = text.get(span.clone())?;
    let line_start = text[..span.start].rfind('\n').map_or(0, |i| i + 1);
    let second = text[line_start..].lines().next()?.trim();
    let is_header = second.starts_with('[');
    let mut end = line_start;
    for line in text[..line_start].split_inclusive('\n').rev() {
        let start = end - line.len();
        end = start;
        let code = line.trim();
        if is_header && code == second {
            let offset = span.start - line_start;
            return Some(start + offset..start + offset + key.len());
        }
        let rest = code.strip_prefix(key).map(str::trim_start);
        if !is_header && rest.is_some_and(|rest| rest.starts_with(['=', '.'])) {
            let indent = line.len() - line.trim_start().len();
            return Some(start + indent..start + indent + key.len());
        }
        if !is_header && code.starts_with('[') {
            return None;
        }
    }
    None
}

/// Parses one value in TOML syntax: the default of a field.
pub(crate) fn parse_value(text: &str) -> Node {
    let (value, _errors) = DeValue::parse_recoverable(text);
    node(&value, 0)
}

/// Merges tables key by key, except for a source or an output, which is defined in one place. Lists
/// of tables (`[[rule]]`) are concatenated in the order of the files.
fn merge(into: &mut NodeTable, from: NodeTable, path: &[&str], diagnostics: &mut Diagnostics) {
    for entry in from.entries {
        let is_component = matches!(path, ["source" | "output"]);
        let mut key_path = path.to_vec();
        let Some(old) = into.entries.iter_mut().find(|old| old.key == entry.key) else {
            into.entries.push(entry);
            continue;
        };
        key_path.push(&entry.key);
        match (&mut old.node.value, entry.node.value) {
            (NodeValue::Table(old), NodeValue::Table(new)) if !is_component => {
                merge(old, new, &key_path, diagnostics);
            }
            (NodeValue::Array(old), NodeValue::Array(new)) if path.is_empty() => old.extend(new),
            (_, _) => {
                let key_path = key_path.join(".");
                diagnostics
                    .error(
                        Some(entry.key_location),
                        &key_path,
                        format!("{key_path} is defined twice"),
                    )
                    .other(Some(old.key_location.clone()), "it is also defined at")
                    .help("remove one of them");
            }
        }
    }
}

fn table(table: &DeTable<'_>, file: usize) -> NodeTable {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_location: SourceLocation { file, span: key.span() },
            node: node(value, file),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_location.span.start);
    NodeTable { entries }
}

fn node(value: &Spanned<DeValue<'_>>, file: usize) -> Node {
    let value_of = |value: &DeValue<'_>| match value {
        DeValue::String(text) => NodeValue::Text(text.to_string()),
        DeValue::Integer(n) => NodeValue::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()),
        DeValue::Float(number) => {
            NodeValue::Float(number.as_str().replace('_', "").parse().unwrap_or(f64::NAN))
        }
        DeValue::Boolean(value) => NodeValue::Bool(*value),
        DeValue::Datetime(_) => NodeValue::Datetime,
        DeValue::Array(items) => NodeValue::Array(array(items, file)),
        DeValue::Table(entries) => NodeValue::Table(table(entries, file)),
    };
    Node { location: SourceLocation { file, span: value.span() }, value: value_of(value.get_ref()) }
}

fn array(items: &DeArray<'_>, file: usize) -> Vec<Node> {
    items.iter().map(|item| node(item, file)).collect()
}
