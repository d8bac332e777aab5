//! The producer of a record: the attributes of a container, file, application or host, shared by
//! many records of a batch.

use serde::{Deserialize, Serialize};

/// A scalar attribute value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
}

/// The tenant that the records belong to, as determined by a token, certificate or listener.
pub const TENANT: &str = "weir.tenant";
/// The sender: the address at the other end of the connection.
pub const PEER: &str = "network.peer.address";
/// A list of tags, each `name:value` or a word, for what has no attribute of its own.
pub const TAGS: &str = "tags";

/// Attributes named by OpenTelemetry's semantic conventions (`host.name`, `service.name`,
/// `container.id`, `k8s.pod.name`, `log.file.path`, ...), in the order given by the source. Encoded
/// in a frame as one compact JSON object, next to the key of the resource. Tenant, peer and tags
/// are ordinary attributes: [`TENANT`], [`PEER`], [`TAGS`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resource {
    /// Parsed through a JSON map, which keeps the source's order.
    attributes: serde_json::Map<String, serde_json::Value>,
}

impl Resource {
    /// Creates a resource without attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an attribute, replacing an earlier value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::Bool(b) => b.into(),
            Value::Int(i) => i.into(),
            Value::Float(f) => f.into(),
            Value::Text(t) => t.into(),
        };
        self.attributes.insert(key.to_owned(), value);
    }

    /// Returns the resource with one more attribute.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    /// Returns the text of an attribute, if it exists and is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attributes.get(key)?.as_str()
    }

    /// Sets the tags, replacing earlier ones.
    pub fn set_tags<'a>(&mut self, tags: impl IntoIterator<Item = &'a str>) {
        let tags: Vec<serde_json::Value> = tags.into_iter().map(Into::into).collect();
        self.attributes.insert(TAGS.to_owned(), tags.into());
    }

    /// Returns the tags that are text.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.attributes.get(TAGS).and_then(serde_json::Value::as_array);
        tags.into_iter().flatten().filter_map(serde_json::Value::as_str)
    }

    /// Returns the tenant that the records belong to.
    pub fn tenant(&self) -> Option<&str> {
        self.text(TENANT)
    }

    /// Returns the address of the sender.
    pub fn peer(&self) -> Option<&str> {
        self.text(PEER)
    }

    /// Returns every attribute in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        self.attributes.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Returns whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    /// Returns the compact JSON object that is stored in a frame.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&self.attributes).unwrap_or_default()
    }

    /// Decodes what [`Self::encode`] wrote; anything else results in an empty resource.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_peer_and_tags_are_attributes_that_read_back() {
        let mut resource =
            Resource::new().with("host.name", "vm").with(TENANT, "team-a").with(PEER, "192.0.2.7");
        resource.set_tags(["deployment:cf", "canary"]);
        let again = Resource::decode(&resource.encode());
        assert_eq!(again, resource);
        assert_eq!((again.tenant(), again.peer()), (Some("team-a"), Some("192.0.2.7")));
        assert_eq!(again.tags().collect::<Vec<_>>(), ["deployment:cf", "canary"]);
        assert_eq!(Resource::new().tags().count(), 0);
    }
}
