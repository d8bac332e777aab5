//! A stored record as clients of Datadog know it.
//!
//! Attributes stand in nested objects: `http.status_code` is `status_code` inside `http`. Where
//! that cannot be, since a part of the path has a value of its own, the rest of the path stays one
//! name with dots: of `a` = 1 and `a.b` = 2 comes `{"a": 1, "a.b": 2}`. Several values of one path
//! are a list. What is computed of a record stands among its attributes; those of its resource are
//! tags, since that is how a query asks for them.
//!
//! Invariant: what is made depends on the record alone, not on the order of its attributes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use weir_codec::{Attributes, Scalar, format_rfc3339_ns, parse_rfc3339};
use weir_expr::{Computed, Field, Fields as _, Reserved, tag_path};
use weir_host::units::format_rfc3339;
use weir_model::{Position, StreamId};
use weir_store::embedded::columns::{AttributeValue, StoredRecord};
use weir_store::query::{NamedMeasure, RecordId, StoredFields};

use super::cursor::encode_id;

/// Deepest nesting: what goes deeper has no names that people gave. Readers of JSON give up at
/// 128.
const DEPTH_MAX: usize = 64;

/// A record.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// What the record is called for ever: asks for its context.
    pub id: String,
    /// Always `log`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What it says.
    pub attributes: LogAttributes,
    /// What only weir knows, if `weir.details` asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weir: Option<LogDetails>,
}

/// What a record says.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogAttributes {
    /// When it happened, ISO 8601 with milliseconds.
    pub timestamp: String,
    /// The host that it was written on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The service that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// How bad it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its tags, `key:value` or bare words: its own, `source:` with the source that took it in, and
    /// the attributes of its resource, but for host and service.
    pub tags: Vec<String>,
    /// All other attributes, nested.
    pub attributes: Map<String, Value>,
}

/// What only weir knows of a record.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogDetails {
    /// When it happened, RFC 3339 with nanoseconds.
    pub timestamp: String,
    /// Its stream, 16 hexadecimal digits.
    pub stream: String,
    /// Its position in the stream, `epoch:offset`.
    pub position: String,
    /// The source that took it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl LogDetails {
    /// The id of the record; `None` where these are not the details of one. So a record that comes
    /// in has its id before it is stored.
    pub fn id(&self) -> Option<String> {
        let time_ns = parse_rfc3339(self.timestamp.as_bytes())?;
        let stream = StreamId(u64::from_str_radix(&self.stream, 16).ok()?);
        let (epoch, offset) = self.position.split_once(':')?;
        let position = Position::new(epoch.parse().ok()?, offset.parse().ok()?);
        Some(encode_id(&RecordId { time_ns, stream, position }))
    }
}

impl LogAttributes {
    /// The first value of the tag, as a query would find it.
    pub fn tag(&self, key: &str) -> Option<&str> {
        let path = tag_path(key);
        let of = |wanted: &str| {
            self.tags.iter().find_map(|tag| tag.strip_prefix(wanted)?.strip_prefix(':'))
        };
        of(path).or_else(|| of(key))
    }
}

impl LogEntry {
    /// The record with attributes that are computed, and with what only weir knows if
    /// `with_details`.
    pub(super) fn new(record: StoredRecord, with_details: bool, measures: &[NamedMeasure]) -> Self {
        let (stream, position) = (record.stream, record.position);
        let id = encode_id(&RecordId { time_ns: record.time_ns, stream, position });
        let weir = with_details.then(|| LogDetails {
            timestamp: precise_time(record.time_ns),
            stream: stream.to_string(),
            position: position.to_string(),
            source: record.source.clone(),
        });
        let attributes = LogAttributes {
            timestamp: format_rfc3339(record.time_ns),
            tags: tags(&record),
            attributes: nested(&record, computed(&record, measures)),
            host: record.host,
            service: record.service,
            status: record.status,
            message: record.message,
        };
        Self { id, type_name: "log".to_owned(), attributes, weir }
    }
}

/// RFC 3339 with nanoseconds.
pub(super) fn precise_time(time_ns: i64) -> String {
    let mut text = Vec::with_capacity(30);
    format_rfc3339_ns(time_ns, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// The tags of a record.
pub(super) fn tags(record: &StoredRecord) -> Vec<String> {
    let json = record.tags.as_deref().unwrap_or("[]");
    let mut tags: Vec<String> = serde_json::from_str(json).unwrap_or_default();
    tags.extend(record.source.iter().map(|source| format!("source:{source}")));
    tags.extend(resource_tags(record.resource.as_deref().unwrap_or("{}")));
    tags
}

/// The attributes of a resource, given as JSON, as tags: that is how a query asks for them. Host and
/// service are left out: they stand beside the tags of a record.
pub fn resource_tags(resource: &str) -> Vec<String> {
    let mut attributes = Attributes::new();
    // What is no object is an empty resource, as everywhere.
    let _ = attributes.read_json(resource.as_bytes());
    let is_beside = |path: &str| {
        let mut keys = [Reserved::Host, Reserved::Service].into_iter();
        keys.any(|key| key.resource_paths().contains(&path))
    };
    let mut tags = Vec::new();
    for (path, value) in attributes.iter() {
        let path = String::from_utf8_lossy(path);
        if value == Scalar::Null || is_beside(&path) {
            continue;
        }
        let mut text = Vec::new();
        match value {
            Scalar::Text(value) => text.extend_from_slice(value),
            value => value.write_json(&mut text),
        }
        tags.push(format!("{path}:{}", String::from_utf8_lossy(&text)));
    }
    tags
}

/// The value in JSON; what JSON has no number for is null.
pub(super) fn json_value(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Null => Value::Null,
        AttributeValue::Bool(truth) => (*truth).into(),
        AttributeValue::Int(number) => (*number).into(),
        AttributeValue::Float(number) => (*number).into(),
        AttributeValue::Text(text) => text.as_str().into(),
    }
}

/// What is computed of a record, by its path.
fn computed(record: &StoredRecord, measures: &[NamedMeasure]) -> Vec<(String, Value)> {
    if measures.is_empty() {
        return Vec::new();
    }
    let fields = StoredFields::new(record);
    let record = Computed::new(&fields, measures);
    let mut computed: Vec<(String, Value)> = Vec::new();
    for NamedMeasure { path, .. } in measures {
        if computed.iter().any(|(known, _)| known == path) {
            continue;
        }
        record.visit(&Field::Attribute(path.clone()), &mut |value| {
            computed.push((path.clone(), json_value(&value.into())));
        });
    }
    computed
}

/// All attributes but message and time, which stand beside. What is computed counts before an
/// attribute of the same path.
fn nested(record: &StoredRecord, computed: Vec<(String, Value)>) -> Map<String, Value> {
    let mut flat = computed;
    let computed = flat.len();
    for (path, values) in &record.attributes {
        if flat[..computed].iter().any(|(known, _)| known == path) {
            continue;
        }
        let value = match &values[..] {
            [value] => json_value(value),
            values => values.iter().map(json_value).collect(),
        };
        flat.push((path.clone(), value));
    }
    let ids =
        [(record.form.trace_path(), &record.trace_id), (record.form.span_path(), &record.span_id)];
    for (path, text) in ids {
        if let (Some(path), Some(text)) = (path, text) {
            flat.push((path.to_owned(), text.as_str().into()));
        }
    }
    nested_attributes(flat)
}

/// Attributes as a [`LogEntry`] has them: by paths with dots before, in nested objects now. Where
/// a path goes on from one that has a value, the rest of it stays one name.
pub fn nested_attributes(mut flat: Vec<(String, Value)>) -> Map<String, Value> {
    // A path stands before those that go on from it.
    flat.sort_by(|a, b| a.0.cmp(&b.0));
    let mut objects = Map::new();
    for (path, value) in flat {
        insert(&mut objects, &path, value, DEPTH_MAX);
    }
    objects
}

/// Puts a value at a path, as deep as objects go, at most `depth`.
fn insert(object: &mut Map<String, Value>, path: &str, value: Value, depth: usize) {
    if let Some((first, rest)) = path.split_once('.')
        && depth > 0
        && !first.is_empty()
        && !rest.is_empty()
    {
        let inner = object.entry(first).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(inner) = inner {
            return insert(inner, rest, value, depth - 1);
        }
    }
    object.insert(path.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nest(pairs: &[(&str, Value)]) -> Value {
        let pairs = pairs.iter().map(|(path, value)| ((*path).to_owned(), value.clone()));
        nested_attributes(pairs.collect()).into()
    }

    #[test]
    fn the_details_of_a_record_tell_its_id() {
        let (time_ns, stream) = (1_767_225_600_123_456_789, StreamId(0xab00_0000_0000_0001));
        let position = Position::new(7, 1 << 40);
        let details = LogDetails {
            timestamp: precise_time(time_ns),
            stream: stream.to_string(),
            position: position.to_string(),
            source: None,
        };
        let id = encode_id(&RecordId { time_ns, stream, position });
        assert_eq!(details.id(), Some(id));
        assert_eq!(LogDetails { position: "7".to_owned(), ..details }.id(), None);
    }

    #[test]
    fn paths_become_objects_and_none_is_lost() {
        let nested = nest(&[
            ("http.status_code", json!(500)),
            ("http.url", json!("/")),
            ("plain", json!(true)),
        ]);
        assert_eq!(nested, json!({ "http": { "status_code": 500, "url": "/" }, "plain": true }));
        let conflict = nest(&[("a.b.c", json!(3)), ("a", json!(1)), ("a.b", json!(2))]);
        assert_eq!(conflict, json!({ "a": 1, "a.b": 2, "a.b.c": 3 }));
        let deep = nest(&[("x.a", json!(1)), ("x.a.b", json!(2))]);
        assert_eq!(deep, json!({ "x": { "a": 1, "a.b": 2 } }));
        let odd = nest(&[(".a", json!(1)), ("b.", json!(2)), ("c..d", json!(3)), ("", json!(4))]);
        let deep = nest(&[(&"a.".repeat(100_000), json!(1))]);
        assert!(deep.to_string().matches('{').count() == DEPTH_MAX + 1);
        assert_eq!(odd, json!({ ".a": 1, "b.": 2, "c": { ".d": 3 }, "": 4 }));
    }
}
