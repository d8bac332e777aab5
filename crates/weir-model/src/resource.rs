//! Who produced a record: the attributes of a container, file or host, shared by a whole batch.

use serde::{Deserialize, Serialize};

/// A scalar attribute value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
}

/// Attributes named by OpenTelemetry's semantic conventions (`host.name`, `container.id`,
/// `k8s.pod.name`, `log.file.path`, ...), in the order in which the source gave them.
/// Encoded in a frame as one compact JSON object.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resource {
    /// Parsed through a JSON map, which keeps the source's order.
    attributes: serde_json::Map<String, serde_json::Value>,
}

impl Resource {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets one attribute, replacing an earlier value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::Bool(b) => b.into(),
            Value::Int(i) => i.into(),
            Value::Float(f) => f.into(),
            Value::Text(t) => t.into(),
        };
        self.attributes.insert(key.to_owned(), value);
    }

    /// The same with one more attribute.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    /// The text of an attribute, when there is one and it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attributes.get(key)?.as_str()
    }

    /// Every attribute in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        self.attributes.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// No attributes at all.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    /// The compact JSON object that stands in a frame.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&self.attributes).unwrap_or_default()
    }

    /// Reads what [`Self::encode`] wrote; anything else is an empty resource.
    pub fn decode(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}
impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}
