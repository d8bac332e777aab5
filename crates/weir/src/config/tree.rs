//! TOML as a tree in which every key and value knows its place, and the merging of several files
//! into one.
//!
//! Invariants: a key is there once, whichever file it is from (a second definition is an error
//! that names both places); syntax errors are collected, and what could be read is kept, so that
//! they do not hide other faults.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::diagnostic::Diagnostics;
use super::text::{Place, Texts};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: NodeValue,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    Text(String),
    /// `None` when it does not fit in 64 bits.
    Integer(Option<i64>),
    Float,
    Bool(bool),
    Datetime,
    Array(Vec<Node>),
    Table(NodeTable),
}

/// A table, in the order of its text.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeTable {
    pub(crate) entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

impl NodeTable {
    /// The entry of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl NodeValue {
    /// What it is, for people.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Float => "a number with a fraction",
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
            let span = error.span().unwrap_or(0..0);
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            let first = first_definition(&text.text, span.clone());
            let place = Place { file, span };
            let diagnostic = match message.as_str() {
                "duplicate key" => diagnostics.error(Some(place), "", "the key is defined twice"),
                _ => diagnostics.error(Some(place), "", format!("not valid TOML: {message}")),
            };
            if let Some(span) = first.filter(|_| message == "duplicate key") {
                diagnostic.other(Some(Place { file, span }), "it is also defined at");
            }
        }
        merge(&mut merged, table(root.get_ref(), file), &[], diagnostics);
    }
    merged
}

/// Where the key at `span` stood before: the nearest line above that begins in the same way. The
/// parser says only where the second one is.
fn first_definition(text: &str, span: Range<usize>) -> Option<Range<usize>> {
    let key = text.get(span.clone())?;
    let line_start = text[..span.start].rfind('\n').map_or(0, |i| i + 1);
    let mut end = line_start;
    for line in text[..line_start].split_inclusive('\n').rev() {
        let start = end - line.len();
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start().trim_start_matches('[');
        let is_key = code
            .strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(['=', ']', '.']));
        // A dotted header ends in the key: `[source.app]` defines `app`.
        let is_header = line.trim_start().starts_with('[')
            && code.split(']').next().is_some_and(|path| path.rsplit('.').next() == Some(key));
        if is_key || is_header {
            return Some(start + indent..start + indent + key.len());
        }
        end = start;
    }
    None
}

/// Parses one value as it is written in TOML: a default of a field.
pub(crate) fn parse_value(text: &str) -> Node {
    let (value, _errors) = DeValue::parse_recoverable(text);
    node(&value, 0)
}

/// Tables merge key by key, but for a source or an output, which is defined in one place.
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
            (_, _) => {
                let key_path = key_path.join(".");
                diagnostics
                    .error(Some(entry.key_place), &key_path, format!("{key_path} is defined twice"))
                    .other(Some(old.key_place.clone()), "it is also defined at")
                    .help("keep one of the two");
            }
        }
    }
}

fn table(table: &DeTable<'_>, file: usize) -> NodeTable {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_place: Place { file, span: key.span() },
            node: node(value, file),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_place.span.start);
    NodeTable { entries }
}

fn node(value: &Spanned<DeValue<'_>>, file: usize) -> Node {
    let value_of = |value: &DeValue<'_>| match value {
        DeValue::String(text) => NodeValue::Text(text.to_string()),
        DeValue::Integer(n) => NodeValue::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()),
        DeValue::Float(_) => NodeValue::Float,
        DeValue::Boolean(value) => NodeValue::Bool(*value),
        DeValue::Datetime(_) => NodeValue::Datetime,
        DeValue::Array(items) => NodeValue::Array(array(items, file)),
        DeValue::Table(entries) => NodeValue::Table(table(entries, file)),
    };
    Node { place: Place { file, span: value.span() }, value: value_of(value.get_ref()) }
}

fn array(items: &DeArray<'_>, file: usize) -> Vec<Node> {
    items.iter().map(|item| node(item, file)).collect()
}
