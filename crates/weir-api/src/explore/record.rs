//! A stored record in the format of Datadog's API.
//!
//! Attributes are nested objects: `http.status_code` is `status_code` inside `http`. Where this is
//! impossible because a part of the path has a value itself, the rest of the path remains one name
//! with dots: `a` = 1 and `a.b` = 2 become `{"a": 1, "a.b": 2}`. Several values of one path become
//! a list. Calculated fields are part of the attributes; attributes of the resource are tags, since
//! that is how a query refers to them.
//!
//! Invariant: the result depends on the record alone, not on the order of its attributes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use weir_codec::{Attributes, Scalar, format_rfc3339_ns};
use weir_expr::{Field, Fields as _, Reserved, WithCalculatedFields, tag_path};
use weir_host::units::format_rfc3339;
use weir_store::embedded::columns::{AttributeValue, StoredRecord};
use weir_store::query::{CalculatedField, RecordId, StoredFields};

use super::cursor::encode_id;

/// Maximum nesting: names at deeper levels are not meaningful. JSON parsers often stop at 128.
const DEPTH_MAX: usize = 64;

/// A record.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// Permanent id of the record, for requesting its context.
    pub id: String,
    /// Always `log`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The content of the record.
    pub attributes: LogAttributes,
    /// Additional details, if `weir.details` was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weir: Option<LogDetails>,
}

/// The content of a record.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogAttributes {
    /// Time of the record, ISO 8601 with milliseconds.
    pub timestamp: String,
    /// The host that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The service that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The severity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its tags, `key:value` or single words: its own, `source:` with the source that received it,
    /// and the attributes of its resource except host and service.
    pub tags: Vec<String>,
    /// All other attributes, nested.
    pub attributes: Map<String, Value>,
}

/// Additional details of a record.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogDetails {
    /// Time of the record, RFC 3339 with nanoseconds.
    pub timestamp: String,
    /// Its stream, 16 hexadecimal digits.
    pub stream: String,
    /// Its position in the stream, `epoch:offset`.
    pub position: String,
    /// The source that received it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When weir received it, RFC 3339 with nanoseconds; absent for a record that was stored before
    /// this was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<String>,
    /// From its time to its arrival, in nanoseconds: `@lag`, unless it has an attribute of that
    /// name. Negative if the clock of its sender is ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ns: Option<i64>,
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
    /// Creates the entry of a record with calculated fields, and with additional details if
    /// `with_details` is set.
    pub(super) fn new(
        record: StoredRecord,
        with_details: bool,
        calculated_fields: &[CalculatedField],
    ) -> Self {
        let (stream, position) = (record.stream, record.position);
        let id = encode_id(&RecordId { time_ns: record.time_ns, stream, position });
        let weir = with_details.then(|| LogDetails {
            timestamp: precise_time(record.time_ns),
            stream: stream.to_string(),
            position: position.to_string(),
            source: record.source.clone(),
            arrival: record.arrival_ns.map(precise_time),
            lag_ns: record.lag_ns(),
        });
        let attributes = LogAttributes {
            timestamp: format_rfc3339(record.time_ns),
            tags: tags(&record),
            attributes: nested(&record, computed(&record, calculated_fields)),
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

/// The attributes of a resource, given as JSON, as tags: that is how a query refers to them. Host
/// and service are left out: they are separate members of the entry.
pub fn resource_tags(resource: &str) -> Vec<String> {
    let mut attributes = Attributes::new();
    // Anything but an object is an empty resource, as everywhere.
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

/// The value as JSON; numbers that JSON cannot represent become null.
pub(super) fn json_value(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Null => Value::Null,
        AttributeValue::Bool(truth) => (*truth).into(),
        AttributeValue::Int(number) => (*number).into(),
        AttributeValue::Float(number) => (*number).into(),
        AttributeValue::Text(text) => text.as_str().into(),
    }
}

/// The calculated fields of a record, by path.
fn computed(record: &StoredRecord, calculated_fields: &[CalculatedField]) -> Vec<(String, Value)> {
    if calculated_fields.is_empty() {
        return Vec::new();
    }
    let fields = StoredFields::new(record);
    let record = WithCalculatedFields::new(&fields, calculated_fields);
    let mut computed: Vec<(String, Value)> = Vec::new();
    for CalculatedField { path, .. } in calculated_fields {
        if computed.iter().any(|(known, _)| known == path) {
            continue;
        }
        record.visit(&Field::Attribute(path.clone()), &mut |value| {
            computed.push((path.clone(), json_value(&value.into())));
        });
    }
    computed
}

/// All attributes except message and time, which are separate members. A calculated field takes
/// precedence over an attribute with the same path.
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

/// Converts attributes of a [`LogEntry`] from paths with dots to nested objects. Where a path
/// continues from one that has a value, the rest of it remains one name.
pub fn nested_attributes(mut flat: Vec<(String, Value)>) -> Map<String, Value> {
    // A path comes before those that continue it.
    flat.sort_by(|a, b| a.0.cmp(&b.0));
    let mut objects = Map::new();
    for (path, value) in flat {
        insert(&mut objects, &path, value, DEPTH_MAX);
    }
    objects
}

/// Puts a value at a path, nested at most `depth` levels.
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
    fn attribute_paths_are_nested_without_loss() {
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
