//! What a configuration key is: its name, type, default and meaning, as data. Reading, validation,
//! the JSON Schema and the reference are all derived from the same fields.
//!
//! Invariant: a default is written as in TOML and is read in the same way as a value from a file,
//! so an invalid default fails every test.

use std::time::Duration;

/// A key.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) value_type: ValueType,
    pub(crate) default: FieldDefault,
    /// Its meaning: full sentences for the reference.
    pub(crate) doc: &'static str,
}

/// A day, for the bounds of durations.
pub(crate) const DAY: Duration = Duration::from_hours(24);
/// A millisecond, for the bounds of durations.
pub(crate) const MS: Duration = Duration::from_millis(1);

/// A key in a table of keys.
pub(crate) const fn field(
    name: &'static str,
    value_type: ValueType,
    default: FieldDefault,
    doc: &'static str,
) -> Field {
    Field { name, value_type, default, doc }
}

/// The type of a duration within these bounds.
pub(crate) const fn time(min: Duration, max: Duration) -> ValueType {
    ValueType::Duration { min, max }
}

/// What applies if a key is not set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldDefault {
    /// The key must be set.
    Required,
    /// No value; the text says what that means.
    Unset(&'static str),
    /// This value, as TOML.
    Value(&'static str),
}

/// One word of a choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub(crate) word: &'static str,
    pub(crate) doc: &'static str,
}

/// The type of a value.
#[derive(Debug)]
pub(crate) enum ValueType {
    /// `true` or `false`.
    Bool,
    /// Non-empty text.
    Text,
    /// A file or directory.
    Path,
    /// A socket address to listen on: `127.0.0.1:7080`.
    Listen,
    /// `http://` or `https://`, host, optional port and path.
    Url,
    /// A list of file patterns.
    Globs,
    /// A list of name patterns.
    Names,
    /// A list of paths.
    Paths,
    /// A list of IP networks.
    Networks,
    /// One of several words.
    Choice(&'static [Word]),
    /// One of several words, or a duration.
    ChoiceOrDuration(&'static [Word]),
    /// One of several words, or a table.
    ChoiceOrTable(&'static [Word], &'static [Field]),
    /// A number of bytes.
    Size { min: u64, max: u64 },
    /// A number of bytes, or a percentage.
    SizeOrShare { min: u64 },
    /// A duration.
    Duration { min: Duration, max: Duration },
    /// A whole number.
    Count { min: u64, max: u64 },
    /// `{ env = "NAME" }` or `{ file = "/path" }`.
    Secret,
    /// A search expression.
    Expression,
    /// A percentage.
    Share,
    /// A table with arbitrary keys.
    Values,
    /// A list of texts and tables.
    Items,
    /// A nested table.
    Table(&'static [Field]),
    /// A list of tables.
    Tables(&'static [Field]),
}

impl ValueType {
    /// What to write, in words: `a size such as "64MiB"`.
    pub(crate) fn expectation(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Text => "text in quotes".to_owned(),
            Self::Path => "a path in quotes".to_owned(),
            Self::Listen => "an address such as \"127.0.0.1:7080\"".to_owned(),
            Self::Url => "a URL such as \"https://host:8088\"".to_owned(),
            Self::Globs => "a list of file patterns such as [\"/var/log/app/*.log\"]".to_owned(),
            Self::Names => "a list of names such as [\"web-*\"]".to_owned(),
            Self::Paths => "a list of paths such as [\"/var/log/pods\"]".to_owned(),
            Self::Networks => "a list of networks such as [\"10.0.0.0/8\"]".to_owned(),
            Self::Choice(words) => format!("one of {}", quoted(words)),
            Self::ChoiceOrDuration(words) => {
                format!("one of {}, or a duration such as \"1s\"", quoted(words))
            }
            Self::ChoiceOrTable(words, _) => format!("one of {}, or a table", quoted(words)),
            Self::Size { .. } => "a size such as \"64MiB\"".to_owned(),
            Self::SizeOrShare { .. } => {
                "a size such as \"10GiB\", or a share such as \"10%\"".into()
            }
            Self::Duration { .. } => "a duration such as \"500ms\" or \"5m\"".to_owned(),
            Self::Count { .. } => "a whole number".to_owned(),
            Self::Secret => "{ env = \"NAME\" } or { file = \"/path\" }".to_owned(),
            Self::Expression => "a search expression in quotes".to_owned(),
            Self::Share => "a share such as \"10%\"".to_owned(),
            Self::Values => "a table such as { \"@env\" = \"prod\" }".to_owned(),
            Self::Items => "a list such as [\"card\", \"email\"]".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Tables(_) => "a list of tables".to_owned(),
        }
    }

    /// Its name in the reference.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Text => "text",
            Self::Path => "path",
            Self::Listen => "address",
            Self::Url => "URL",
            Self::Globs => "list of patterns",
            Self::Names => "list of names",
            Self::Paths => "list of paths",
            Self::Networks => "list of networks",
            Self::Choice(_) => "word",
            Self::ChoiceOrDuration(_) => "word or duration",
            Self::ChoiceOrTable(..) => "word or table",
            Self::Size { .. } => "size",
            Self::SizeOrShare { .. } => "size or share",
            Self::Duration { .. } => "duration",
            Self::Count { .. } => "number",
            Self::Secret => "secret",
            Self::Expression => "expression",
            Self::Share => "share",
            Self::Values | Self::Table(_) => "table",
            Self::Items => "list",
            Self::Tables(_) => "list of tables",
        }
    }
}

/// `"a", "b" or "c"`.
pub(crate) fn quoted(words: &[Word]) -> String {
    list_or(words.iter().map(|w| w.word))
}

/// `"a", "b" or "c"`.
pub(crate) fn list_or<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
