//! A record in JSON: for test cases of rules, for the reference page, for tests. Also the
//! definition of attribute paths, which every other implementation of [`Fields`] follows.

use serde_json::Value as Json;

use crate::ast::Field;
use crate::fields::{Body, Fields, Value, Visitor};
use crate::lag::{LAG, visit_lag};

/// A record written as one JSON object: `message`, `tags` (a list of `key:value`), `attributes` (an
/// object), `lag_ns` (an integer), and reserved keys such as `service`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SampleRecord {
    body: Vec<u8>,
    json_escaped: bool,
    reserved: serde_json::Map<String, Json>,
    tags: Vec<String>,
    attributes: Json,
    lag_ns: Option<i64>,
}

/// Reasons why a text is not a record.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The text is not a JSON object.
    #[error("failed to read the record: {0}")]
    Json(#[from] serde_json::Error),
    /// A member has the wrong type or an unknown key.
    #[error("the record's \"{key}\" must be {expected}")]
    Member {
        /// The key of the member.
        key: String,
        /// The expected type or key.
        expected: &'static str,
    },
}

impl SampleRecord {
    /// Creates a record with only a message.
    pub fn with_message(message: impl Into<Vec<u8>>) -> Self {
        Self { body: message.into(), ..Self::default() }
    }

    /// Creates a record whose message is still escaped, as between the quotes of a JSON string.
    pub fn with_escaped_message(message: impl Into<Vec<u8>>) -> Self {
        Self { body: message.into(), json_escaped: true, ..Self::default() }
    }

    /// Parses `{"message": "...", "service": "...", "tags": [...], "attributes": {...}}`; `lag_ns`
    /// is how long after its event it arrived.
    ///
    /// # Errors
    /// Invalid JSON, and members that are unknown or of the wrong type.
    pub fn from_json(text: &str) -> Result<Self, SampleError> {
        let members: serde_json::Map<String, Json> = serde_json::from_str(text)?;
        let mut record = Self::default();
        for (key, value) in members {
            let wrong = |expected| SampleError::Member { key: key.clone(), expected };
            match (&*key, value) {
                ("message", Json::String(text)) => record.body = text.into_bytes(),
                ("message", _) => return Err(wrong("a string")),
                ("tags", Json::Array(tags)) => {
                    let text = |tag: Json| tag.as_str().map(str::to_owned);
                    let tags: Option<Vec<String>> = tags.into_iter().map(text).collect();
                    record.tags = tags.ok_or_else(|| wrong("a list of strings"))?;
                }
                ("tags", _) => return Err(wrong("a list of strings")),
                ("lag_ns", lag_ns) => {
                    record.lag_ns = Some(lag_ns.as_i64().ok_or_else(|| wrong("an integer"))?);
                }
                ("attributes", attributes @ Json::Object(_)) => record.attributes = attributes,
                ("attributes", _) => return Err(wrong("an object")),
                (name, value) if crate::Reserved::from_name(name).is_some() => {
                    record.reserved.insert(key, value);
                }
                _ => return Err(wrong("message, tags, attributes, lag_ns or a reserved key")),
            }
        }
        Ok(record)
    }

    /// Returns the same record with its message escaped as JSON.
    #[must_use]
    pub fn escaped(&self) -> Self {
        let plain = self.body().plain();
        let quoted = Json::from(String::from_utf8_lossy(&plain).into_owned()).to_string();
        let body = quoted.as_bytes()[1..quoted.len() - 1].to_vec();
        Self { body, json_escaped: true, ..self.clone() }
    }

    /// Sets a reserved key.
    #[must_use]
    pub fn with(mut self, key: crate::Reserved, value: impl Into<Json>) -> Self {
        self.reserved.insert(key.name().to_owned(), value.into());
        self
    }

    /// Adds a tag, `key:value` or a bare word.
    #[must_use]
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the attributes, an object.
    #[must_use]
    pub fn with_attributes(mut self, attributes: Json) -> Self {
        self.attributes = attributes;
        self
    }
}

impl Fields for SampleRecord {
    fn body(&self) -> Body<'_> {
        Body { bytes: &self.body, json_escaped: self.json_escaped }
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        match field {
            Field::Message => {}
            Field::Reserved(key) => {
                if let Some(value) = self.reserved.get(key.name()) {
                    visit_here(value, visit);
                }
            }
            Field::Tags => {
                for tag in &self.tags {
                    visit(Value::Text(tag.as_bytes()));
                }
            }
            Field::Tag(key) => {
                let pairs = self.tags.iter().filter_map(|tag| tag.split_once(':'));
                for (_, value) in pairs.filter(|(name, _)| name == key) {
                    visit(Value::Text(value.as_bytes()));
                }
            }
            Field::Attribute(path) if path == LAG => {
                visit_lag(|visit| visit_path(&self.attributes, path, visit), self.lag_ns, visit);
            }
            Field::Attribute(path) => visit_path(&self.attributes, path, visit),
            Field::Any => {
                for value in self.reserved.values() {
                    visit_all(value, visit);
                }
                for tag in &self.tags {
                    visit(Value::Text(tag.as_bytes()));
                }
                visit_all(&self.attributes, visit);
            }
        }
    }
}

/// Calls `visit` for each value that the path leads to. A dot in a path either enters an object or
/// is part of a key, and all interpretations that lead to a value apply; arrays along the path are
/// traversed.
pub fn visit_path(value: &Json, path: &str, visit: &mut Visitor<'_>) {
    match value {
        Json::Array(elements) => {
            for element in elements {
                visit_path(element, path, visit);
            }
        }
        Json::Object(members) => {
            if let Some(value) = members.get(path) {
                visit_here(value, visit);
            }
            for (at, _) in path.match_indices('.') {
                if let Some(value) = members.get(&path[..at]) {
                    visit_path(value, &path[at + 1..], visit);
                }
            }
        }
        _ => {}
    }
}

fn visit_here(value: &Json, visit: &mut Visitor<'_>) {
    match value {
        Json::Array(elements) => elements.iter().for_each(|element| visit_here(element, visit)),
        Json::Object(members) if members.is_empty() => {}
        Json::Object(_) => visit(Value::Object),
        Json::Null => visit(Value::Null),
        Json::Bool(value) => visit(Value::Bool(*value)),
        Json::String(text) => visit(Value::Text(text.as_bytes())),
        Json::Number(number) => visit(match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, Some(float)) => Value::Float(float),
            (None, None) => Value::Null,
        }),
    }
}

/// Visits every scalar at any depth.
fn visit_all(value: &Json, visit: &mut Visitor<'_>) {
    match value {
        Json::Array(elements) => elements.iter().for_each(|element| visit_all(element, visit)),
        Json::Object(members) => members.values().for_each(|member| visit_all(member, visit)),
        scalar => visit_here(scalar, visit),
    }
}
