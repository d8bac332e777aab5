//! Reads a table against its fields: every key must be known and every value of the right type and
//! within its bounds; defaults are filled in.
//!
//! Invariant: a section holds a value for each of its fields, even after an error (then a
//! placeholder, so that the later checks can continue; no plan is made in that case).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_host::units::{self, SizeOrShare};
use weir_host::{Secret, SecretError};
use weir_pipeline::config::{OutputType, SourceType};

use super::choices::Choice;
use super::diagnostic::Diagnostics;
use super::field::{Field, FieldDefault, ValueType, Word, quoted};
use super::tables::{ComponentType as _, TABLES, TOP};
use super::text::SourceLocation;
use super::tree::{Entry, Node, NodeTable, NodeValue, parse_value};

/// A value that was read.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Bool(bool),
    Text(String),
    Word(&'static str),
    Size(u64),
    SizeOrShare(SizeOrShare),
    Duration(Duration),
    Count(u64),
    Listen(SocketAddr),
    List(Vec<(String, SourceLocation)>),
    /// The same, with the file that it was read from.
    Secret(Secret, Option<PathBuf>),
    Table(Section),
    Tables(Vec<Section>),
    Values(NodeTable),
    Items(Vec<Node>),
}

/// A table that was read.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// Such as `output.splunk`.
    pub(crate) path: String,
    /// Where the table starts.
    pub(crate) location: Option<SourceLocation>,
    values: BTreeMap<&'static str, (Option<Value>, Option<SourceLocation>)>,
}

impl Section {
    /// Where the value of a key is, or else where the table starts.
    pub(crate) fn location(&self, name: &str) -> Option<SourceLocation> {
        let own = self.values.get(name).and_then(|(_, location)| location.clone());
        own.or_else(|| self.location.clone())
    }

    /// Whether the key is set.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|(_, location)| location.is_some())
    }

    /// Whether the table has such a key, set or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// `output.splunk.endpoint`.
    pub(crate) fn key_path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let value = self.values.get(name);
        debug_assert!(value.is_some(), "{} has no field {name}", self.path);
        value.and_then(|(value, _)| value.as_ref())
    }

    /// The placeholder for a value that is absent or invalid. A value of another type is an error
    /// of the caller.
    fn absent<T: Default>(&self, name: &str, value: Option<&Value>) -> T {
        debug_assert!(value.is_none(), "{}: {name} is of another type: {value:?}", self.path);
        T::default()
    }

    /// The value of a boolean field.
    pub(crate) fn bool(&self, name: &str) -> bool {
        match self.get(name) {
            Some(Value::Bool(value)) => *value,
            other => self.absent(name, other),
        }
    }

    /// The value of a text, path or URL field.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            other => self.absent(name, other),
        }
    }

    /// The value of a path field.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The value of a choice.
    pub(crate) fn choice<T: Choice>(&self, name: &str) -> T {
        let chosen = self.optional_choice(name);
        let is_word = matches!(self.get(name), Some(Value::Word(_)));
        debug_assert!(
            chosen.is_some() || !is_word,
            "{}: the words of {name} are of another type",
            self.path
        );
        chosen.unwrap_or(T::VALUES[0])
    }

    /// The value of a choice; `None` where something else was written, or nothing.
    pub(crate) fn optional_choice<T: Choice>(&self, name: &str) -> Option<T> {
        match self.get(name) {
            Some(Value::Word(word)) => T::of(word),
            _ => None,
        }
    }

    /// The word of a choice, as it is written.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The value of a size field, bytes.
    pub(crate) fn size(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(Value::Size(bytes)) => *bytes,
            other => self.absent(name, other),
        }
    }

    /// The value of a size-or-share field.
    pub(crate) fn size_or_share(&self, name: &str) -> SizeOrShare {
        match self.get(name) {
            Some(Value::SizeOrShare(value)) => *value,
            _ => SizeOrShare::Bytes(0),
        }
    }

    /// The value of a duration field.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        match self.get(name) {
            Some(Value::Duration(duration)) => *duration,
            other => self.absent(name, other),
        }
    }

    /// The value of a number field.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Value::Count(count)) => Some(*count),
            other => self.absent(name, other),
        }
    }

    /// The value of an address field.
    pub(crate) fn listen(&self, name: &str) -> Option<SocketAddr> {
        match self.get(name) {
            Some(Value::Listen(address)) => Some(*address),
            other => self.absent(name, other),
        }
    }

    /// The items of a list field, each with its place if it was written.
    pub(crate) fn list(&self, name: &str) -> &[(String, SourceLocation)] {
        match self.get(name) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// Whether a list was written, is valid, and is empty.
    pub(crate) fn is_empty_list(&self, name: &str) -> bool {
        self.is_set(name) && matches!(self.get(name), Some(Value::List(items)) if items.is_empty())
    }

    /// The entries of a table with arbitrary keys.
    pub(crate) fn values(&self, name: &str) -> &[Entry] {
        match self.get(name) {
            Some(Value::Values(table)) => &table.entries,
            _ => &[],
        }
    }

    /// The items of a list of texts and tables.
    pub(crate) fn items(&self, name: &str) -> &[Node] {
        match self.get(name) {
            Some(Value::Items(items)) => items,
            _ => &[],
        }
    }

    /// The value of a share field, from 0 to 1.
    pub(crate) fn share(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Some(Value::SizeOrShare(SizeOrShare::Share(share))) => Some(f64::from(*share) / 1e4),
            _ => None,
        }
    }

    /// The value of a secret field.
    pub(crate) fn secret(&self, name: &str) -> Option<Secret> {
        match self.get(name) {
            Some(Value::Secret(secret, _)) => Some(secret.clone()),
            _ => None,
        }
    }

    /// The file that a secret was read from.
    pub(crate) fn secret_file(&self, name: &str) -> Option<&Path> {
        match self.get(name) {
            Some(Value::Secret(_, file)) => file.as_deref(),
            _ => None,
        }
    }

    /// The sections of a list of tables.
    pub(crate) fn tables(&self, name: &str) -> &[Section] {
        match self.get(name) {
            Some(Value::Tables(sections)) => sections,
            _ => &[],
        }
    }

    /// The section of a table field, if it was written.
    pub(crate) fn table(&self, name: &str) -> Option<&Section> {
        match self.get(name) {
            Some(Value::Table(section)) => Some(section),
            _ => None,
        }
    }
}

/// Reads a table. `also_known` are keys that are read elsewhere (`type`).
pub(crate) fn read(
    table: &NodeTable,
    fields: &[&'static [Field]],
    also_known: &[&str],
    path: &str,
    location: Option<SourceLocation>,
    diagnostics: &mut Diagnostics,
) -> Section {
    let mut section = Section { path: path.to_owned(), location, values: BTreeMap::new() };
    let all = || fields.iter().flat_map(|group| group.iter());
    let names: Vec<&str> =
        all().map(|field| field.name).chain(also_known.iter().copied()).collect();
    for field in all() {
        let entry = table.get(field.name);
        let key_path = section.key_path(field.name);
        let mut reader = Reader { key_path: &key_path, diagnostics };
        let value = match (entry, field.default) {
            (Some(entry), _) => {
                let value = reader.value(field, &entry.node);
                (value, Some(entry.node.location.clone()))
            }
            (None, FieldDefault::Value(text)) => (reader.value(field, &parse_value(text)), None),
            (None, FieldDefault::Unset(_)) => (None, None),
            // Misspelt: the message about the unknown key is enough.
            (None, FieldDefault::Required) if is_misspelt(table, field.name, &names) => {
                (None, None)
            }
            (None, FieldDefault::Required) => {
                let expected = field.value_type.expectation();
                reader
                    .diagnostics
                    .error(section.location.clone(), &key_path, format!("{key_path} is missing"))
                    .help(format!("add {} = {}", field.name, example(field, &expected)));
                (None, None)
            }
        };
        section.values.insert(field.name, value);
    }
    for entry in &table.entries {
        let key = entry.key.as_str();
        if !names.contains(&key) {
            unknown_key(key, &entry.key_location, path, &names, diagnostics);
        }
    }
    section
}

/// An example of a required key.
fn example(field: &Field, expected: &str) -> String {
    match &field.value_type {
        ValueType::Secret => "{ env = \"NAME\" } or { file = \"/path\" }".to_owned(),
        ValueType::Url => "\"https://host:8088\"".to_owned(),
        ValueType::Globs => "[\"/var/log/app/*.log\"]".to_owned(),
        ValueType::Path => "\"/path/to/file\"".to_owned(),
        _ => expected.to_owned(),
    }
}

/// Whether an unknown key of the table is similar to this name.
fn is_misspelt(table: &NodeTable, name: &str, names: &[&str]) -> bool {
    table
        .entries
        .iter()
        .filter(|entry| !names.contains(&entry.key.as_str()))
        .any(|entry| super::diagnostic::nearest(&entry.key, names.iter().copied()) == Some(name))
}

/// The name of a top-level table.
fn is_table_name(key: &str) -> bool {
    TABLES.iter().any(|table| table.name == key)
        || [SourceType::FAMILY, OutputType::FAMILY].contains(&key)
}

/// Reports an unknown key.
fn unknown_key(
    key: &str,
    location: &SourceLocation,
    path: &str,
    names: &[&str],
    diagnostics: &mut Diagnostics,
) {
    let (key_path, inside) = if path.is_empty() {
        (key.to_owned(), "at the top of the file".to_owned())
    } else {
        (format!("{path}.{key}"), format!("in [{path}]"))
    };
    let near = super::diagnostic::nearest(key, names.iter().copied());
    let mut known = names.to_vec();
    known.sort_unstable();
    let diagnostic = diagnostics.error(
        Some(location.clone()),
        &key_path,
        format!("unknown key {key:?} {inside}"),
    );
    match near {
        Some(near) => diagnostic.help(format!("did you mean {near:?}?")),
        None => diagnostic.help(format!("known keys: {}", known.join(", "))),
    };
    if near.is_some_and(|near| near == "token") {
        diagnostic.secret();
    }
    if !path.is_empty() && TOP.iter().any(|field| field.name == key) {
        diagnostic.help(format!("{key} belongs above the first [table]"));
    } else if !path.is_empty() && is_table_name(key) {
        diagnostic.help(format!("keys below [{path}] belong to it: write [{key}.NAME]"));
    }
}

/// A shell would expand it to a different path.
pub(crate) fn is_shell(path: &str) -> bool {
    path.starts_with('~') || path.contains('$')
}

/// Reads one value; reports an error and returns none if it is invalid.
struct Reader<'a> {
    key_path: &'a str,
    diagnostics: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn value(&mut self, field: &Field, node: &Node) -> Option<Value> {
        match &field.value_type {
            ValueType::Bool => self.bool(field, node),
            ValueType::Text | ValueType::Path | ValueType::Url | ValueType::Expression => {
                self.text(field, node).map(Value::Text)
            }
            ValueType::Share => self.share(field, node),
            ValueType::Values => match &node.value {
                NodeValue::Table(table) => Some(Value::Values(table.clone())),
                _ => self.wrong_type(field, node),
            },
            ValueType::Items => match &node.value {
                NodeValue::Array(items) => Some(Value::Items(items.clone())),
                _ => self.wrong_type(field, node),
            },
            ValueType::Listen => self.listen(field, node),
            ValueType::Globs | ValueType::Names | ValueType::Paths | ValueType::Networks => {
                self.list(field, node)
            }
            ValueType::Choice(words) => self.choice(field, node, words),
            ValueType::ChoiceOrDuration(words) => self.choice_or_duration(field, node, words),
            ValueType::Size { min, max } => self.size(field, node, *min, *max),
            ValueType::SizeOrShare { min } => self.size_or_share(field, node, *min),
            ValueType::Duration { min, max } => self.duration(field, node, *min, *max),
            ValueType::Count { min, max } => self.count(field, node, *min, *max),
            ValueType::Secret => self.secret(node),
            ValueType::Table(fields) => self.table(field, node, fields),
            ValueType::Tables(fields) => self.tables(field, node, fields),
            ValueType::ChoiceOrTable(words, fields) => match node.value {
                NodeValue::Table(_) => self.table(field, node, fields),
                _ => self.choice(field, node, words),
            },
        }
    }

    fn wrong(
        &mut self,
        node: &Node,
        problem: impl std::fmt::Display,
    ) -> &mut super::diagnostic::Diagnostic {
        let message = format!("{} {problem}", self.key_path);
        self.diagnostics.error(Some(node.location.clone()), self.key_path, message)
    }

    fn wrong_type<T>(&mut self, field: &Field, node: &Node) -> Option<T> {
        let expected = field.value_type.expectation();
        let found = node.value.type_name();
        let diagnostic = self.wrong(node, format!("must be {expected}, not {found}"));
        if let (
            NodeValue::Integer(Some(n)),
            ValueType::Size { .. } | ValueType::SizeOrShare { .. },
        ) = (&node.value, &field.value_type)
        {
            diagnostic.help(format!("write {0} = \"{n}B\" or \"{n}MiB\"", field.name));
        }
        if let (NodeValue::Integer(Some(n)), ValueType::Duration { .. }) =
            (&node.value, &field.value_type)
        {
            diagnostic.help(format!("write {0} = \"{n}s\" or \"{n}ms\"", field.name));
        }
        if let (NodeValue::Text(text), ValueType::Globs | ValueType::Names | ValueType::Paths) =
            (&node.value, &field.value_type)
        {
            diagnostic.help(format!("write {} = [{text:?}]", field.name));
        }
        if let (NodeValue::Text(text), ValueType::Count { .. } | ValueType::Bool) =
            (&node.value, &field.value_type)
            && (text.parse::<u64>().is_ok() || text.parse::<bool>().is_ok())
        {
            diagnostic.help(format!("write {} = {text}, without quotes", field.name));
        }
        None
    }

    fn bool(&mut self, field: &Field, node: &Node) -> Option<Value> {
        match node.value {
            NodeValue::Bool(value) => Some(Value::Bool(value)),
            _ => self.wrong_type(field, node),
        }
    }

    /// Non-empty text.
    fn text(&mut self, field: &Field, node: &Node) -> Option<String> {
        match &node.value {
            NodeValue::Text(text) if text.trim().is_empty() => {
                let expected = field.value_type.expectation();
                self.wrong(node, "is empty").help(format!("write {expected}, or remove the key"));
                None
            }
            NodeValue::Text(text) if text.contains('\0') => {
                self.wrong(node, "contains a NUL character");
                None
            }
            NodeValue::Text(text)
                if matches!(field.value_type, ValueType::Path) && is_shell(text) =>
            {
                self.not_replaced(node);
                None
            }
            NodeValue::Text(text) => Some(text.clone()),
            _ => self.wrong_type(field, node),
        }
    }

    fn not_replaced(&mut self, node: &Node) {
        self.wrong(node, "contains ~ or $, which are not expanded").help("write the full path");
    }

    fn listen(&mut self, field: &Field, node: &Node) -> Option<Value> {
        let text = self.text(field, node)?;
        if let Ok(address) = text.parse() {
            return Some(Value::Listen(address));
        }
        let diagnostic = self.wrong(node, "is not an IP address and a port");
        match text.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_err() => {
                diagnostic.help(format!("{port:?} is not a port; ports are 0 to 65535"));
            }
            Some(("localhost" | "", port)) => {
                diagnostic.help(format!("write \"127.0.0.1:{port}\""));
            }
            Some(_) => {
                diagnostic
                    .help("write an IP address, such as \"127.0.0.1:7080\" or \"[::1]:7080\"");
            }
            None => {
                diagnostic.help("write an address and a port, such as \"127.0.0.1:7080\"");
            }
        }
        None
    }

    fn list(&mut self, field: &Field, node: &Node) -> Option<Value> {
        let NodeValue::Array(items) = &node.value else {
            return self.wrong_type(field, node);
        };
        let (mut list, mut is_right) = (Vec::new(), true);
        for item in items {
            match &item.value {
                NodeValue::Text(text)
                    if matches!(field.value_type, ValueType::Paths) && is_shell(text) =>
                {
                    is_right = false;
                    self.not_replaced(item);
                }
                NodeValue::Text(text) if !text.trim().is_empty() && !text.contains('\0') => {
                    list.push((text.clone(), item.location.clone()));
                }
                NodeValue::Text(_) => {
                    is_right = false;
                    self.wrong(item, "contains an empty item").help("remove it");
                }
                other => {
                    is_right = false;
                    let found = other.type_name();
                    self.wrong(item, format!("contains {found}; its items must be text in quotes"));
                }
            }
        }
        is_right.then_some(Value::List(list))
    }

    fn choice(&mut self, field: &Field, node: &Node, words: &'static [Word]) -> Option<Value> {
        let NodeValue::Text(text) = &node.value else {
            return self.wrong_type(field, node);
        };
        if let Some(word) = words.iter().find(|w| w.word == text) {
            return Some(Value::Word(word.word));
        }
        self.wrong(node, format!("must be {}, not {text:?}", quoted(words)))
            .nearest(text, words.iter().map(|w| w.word));
        None
    }

    fn choice_or_duration(
        &mut self,
        field: &Field,
        node: &Node,
        words: &'static [Word],
    ) -> Option<Value> {
        let is_duration = matches!(&node.value, NodeValue::Text(t) if t.starts_with(|c: char| c.is_ascii_digit()));
        if is_duration {
            return self.duration(field, node, Duration::from_millis(1), Duration::from_hours(24));
        }
        match &node.value {
            NodeValue::Text(text) if words.iter().all(|w| w.word != text) => {
                let expected = field.value_type.expectation();
                self.wrong(node, format!("must be {expected}, not {text:?}"))
                    .nearest(text, words.iter().map(|w| w.word));
                None
            }
            _ => self.choice(field, node, words),
        }
    }

    fn size(&mut self, field: &Field, node: &Node, min: u64, max: u64) -> Option<Value> {
        let NodeValue::Text(text) = &node.value else {
            return self.wrong_type(field, node);
        };
        let bytes = match units::parse_size(text) {
            Ok(bytes) => bytes,
            Err(error) => return self.unit_error(node, text, &error),
        };
        let (least, most) = (units::format_size(min), units::format_size(max));
        if bytes < min {
            self.wrong(node, format!("is {text}; the minimum is {least}"));
            return None;
        }
        if bytes > max {
            self.wrong(node, format!("is {text}; the maximum is {most}"));
            return None;
        }
        Some(Value::Size(bytes))
    }

    fn size_or_share(&mut self, field: &Field, node: &Node, min: u64) -> Option<Value> {
        let NodeValue::Text(text) = &node.value else {
            return self.wrong_type(field, node);
        };
        match units::parse_size_or_share(text) {
            Ok(SizeOrShare::Bytes(bytes)) if bytes < min => {
                let least = units::format_size(min);
                self.wrong(node, format!("is {text}; the minimum is {least}"));
                None
            }
            Ok(value) => Some(Value::SizeOrShare(value)),
            Err(error) => self.unit_error(node, text, &error),
        }
    }

    fn share(&mut self, field: &Field, node: &Node) -> Option<Value> {
        let NodeValue::Text(text) = &node.value else {
            return self.wrong_type(field, node);
        };
        match units::parse_size_or_share(text) {
            Ok(SizeOrShare::Bytes(_)) => self.wrong_type(field, node),
            Ok(value) => Some(Value::SizeOrShare(value)),
            Err(error) => self.unit_error(node, text, &error),
        }
    }

    fn unit_error<T>(&mut self, node: &Node, text: &str, error: &units::UnitError) -> Option<T> {
        let problem = error.to_string();
        let (what, help) = problem.split_once("; ").unwrap_or((&problem, ""));
        let diagnostic = self.wrong(node, format!("= {text:?} {what}"));
        if !help.is_empty() {
            diagnostic.help(help);
        }
        None
    }

    fn duration(
        &mut self,
        field: &Field,
        node: &Node,
        min: Duration,
        max: Duration,
    ) -> Option<Value> {
        let NodeValue::Text(text) = &node.value else {
            return self.wrong_type(field, node);
        };
        let duration = match units::parse_duration(text) {
            Ok(duration) => duration,
            Err(error) => return self.unit_error(node, text, &error),
        };
        if duration < min {
            self.wrong(node, format!("is {text}; the minimum is {}", units::format_duration(min)));
            return None;
        }
        if duration > max {
            self.wrong(node, format!("is {text}; the maximum is {}", units::format_duration(max)));
            return None;
        }
        Some(Value::Duration(duration))
    }

    fn count(&mut self, field: &Field, node: &Node, min: u64, max: u64) -> Option<Value> {
        let NodeValue::Integer(number) = node.value else {
            return self.wrong_type(field, node);
        };
        match number.and_then(|n| u64::try_from(n).ok()) {
            Some(n) if (min..=max).contains(&n) => Some(Value::Count(n)),
            _ => {
                self.wrong(node, format!("must be from {min} to {max}"));
                None
            }
        }
    }

    fn table(&mut self, field: &Field, node: &Node, fields: &'static [Field]) -> Option<Value> {
        let NodeValue::Table(table) = &node.value else {
            return self.wrong_type(field, node);
        };
        let location = Some(node.location.clone());
        let section = read(table, &[fields], &[], self.key_path, location, self.diagnostics);
        Some(Value::Table(section))
    }

    fn tables(&mut self, field: &Field, node: &Node, fields: &'static [Field]) -> Option<Value> {
        let NodeValue::Array(items) = &node.value else {
            return self.wrong_type(field, node);
        };
        let mut sections = Vec::new();
        for item in items {
            let NodeValue::Table(table) = &item.value else {
                let found = item.value.type_name();
                self.wrong(item, format!("contains {found}; its items must be tables"));
                return None;
            };
            let location = Some(item.location.clone());
            let path = format!("{}[{}]", self.key_path, sections.len());
            sections.push(read(table, &[fields], &[], &path, location, self.diagnostics));
        }
        Some(Value::Tables(sections))
    }

    fn secret(&mut self, node: &Node) -> Option<Value> {
        let NodeValue::Table(table) = &node.value else {
            self.wrong(node, "cannot be written in the configuration itself")
                .help("name an environment variable, { env = \"HEC_TOKEN\" }, or a file, { file = \"/run/secrets/hec_token\" }")
                .secret();
            return None;
        };
        let [entry] = table.entries.as_slice() else {
            self.wrong(node, "must have exactly one of env and file")
                .help("write { env = \"NAME\" } or { file = \"/path\" }")
                .secret();
            return None;
        };
        let NodeValue::Text(from) = &entry.node.value else {
            self.wrong(node, "must be a name in quotes").secret();
            return None;
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let secret = match entry.key.as_str() {
            "env" if from.is_empty() || !from.chars().all(is_name) => {
                self.wrong(node, format!("{from:?} is not the name of an environment variable"))
                    .help("write the bare name, such as { env = \"HEC_TOKEN\" }")
                    .secret();
                return None;
            }
            "env" => Secret::from_env(from),
            "file" => Secret::from_file(Path::new(from)),
            other => {
                let problem = format!("has the unknown key {other:?}");
                self.wrong(node, problem)
                    .help("write { env = \"NAME\" } or { file = \"/path\" }")
                    .secret();
                return None;
            }
        };
        match secret {
            Ok(secret) => {
                let file = (entry.key == "file").then(|| PathBuf::from(from));
                Some(Value::Secret(secret, file))
            }
            Err(error) => {
                let advice = match error {
                    SecretError::NotText { .. } | SecretError::TooLong { .. } => {
                        "a secret is a single line of text".to_owned()
                    }
                    _ if entry.key == "env" => {
                        format!("set it before starting weir: export {from}=...")
                    }
                    _ => "write the secret to that file, readable by weir only".to_owned(),
                };
                self.wrong(node, format!("could not be read: {error}")).help(advice);
                None
            }
        }
    }
}
