//! A record that was read back from the store, owned.

use weir_codec::{Scalar, unpack_loggregator_envelope};
use weir_expr::{Value, lag_ns};
use weir_model::{Position, StreamId};

use super::{Form, Original};

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// Present, with the value null.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
}

impl From<Scalar<'_>> for AttributeValue {
    fn from(value: Scalar<'_>) -> Self {
        match value {
            Scalar::Null => Self::Null,
            Scalar::Bool(truth) => Self::Bool(truth),
            Scalar::Int(number) => Self::Int(number),
            Scalar::Float(number) => Self::Float(number),
            Scalar::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
        }
    }
}

impl From<Value<'_>> for AttributeValue {
    /// Objects have no value of their own, only their attributes have.
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null | Value::Object => Self::Null,
            Value::Bool(truth) => Self::Bool(truth),
            Value::Int(number) => Self::Int(number),
            Value::Float(number) => Self::Float(number),
            Value::Text(text) => Scalar::Text(text).into(),
        }
    }
}

/// Returns the value as expressions use it.
pub(crate) fn value_of(scalar: Scalar<'_>) -> Value<'_> {
    match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(truth) => Value::Bool(truth),
        Scalar::Int(number) => Value::Int(number),
        Scalar::Float(number) => Value::Float(number),
        Scalar::Text(text) => Value::Text(text),
    }
}

impl AttributeValue {
    /// Returns the value, borrowed.
    pub fn as_scalar(&self) -> Scalar<'_> {
        match self {
            Self::Null => Scalar::Null,
            Self::Bool(truth) => Scalar::Bool(*truth),
            Self::Int(number) => Scalar::Int(*number),
            Self::Float(number) => Scalar::Float(*number),
            Self::Text(text) => Scalar::Text(text.as_bytes()),
        }
    }
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    /// Time of the event, nanoseconds since 1970.
    pub time_ns: i64,
    /// Sequence number in the order in which the store took records in.
    pub sequence: u64,
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// Its position in the stream: the position after the record.
    pub position: Position,
    /// The original form of the record.
    pub form: Form,
    /// The service that wrote the record.
    pub service: Option<String>,
    /// The host on which it was written.
    pub host: Option<String>,
    /// The source that received it.
    pub source: Option<String>,
    /// Its status, as the canonical name if it has one.
    pub status: Option<String>,
    /// Its tags, as a JSON array of strings.
    pub tags: Option<String>,
    /// The resource of its batch, as a JSON object.
    pub resource: Option<String>,
    /// The message; `None` when its body has none.
    pub message: Option<String>,
    /// The trace that it belongs to.
    pub trace_id: Option<String>,
    /// The span that it belongs to.
    pub span_id: Option<String>,
    /// Paths in order with their values in order, without those that are kept in the fields above
    /// according to [`Form`].
    pub attributes: Vec<(String, Vec<AttributeValue>)>,
    /// The bytes in which it was received, packed without message and time: see
    /// [`Self::received_bytes`].
    pub received: Option<Vec<u8>>,
    /// When weir received it, nanoseconds since 1970; `None` if it was stored by a release that did
    /// not store this.
    pub arrival_ns: Option<i64>,
    /// The original bytes, if the record came with bytes that are not UTF-8.
    pub original: Option<Original>,
}

impl StoredRecord {
    /// Returns the bytes in which the record was received, if its source is one whose are kept.
    pub fn received_bytes(&self) -> Option<Vec<u8>> {
        let text = self.message.as_deref().map(str::as_bytes);
        unpack_loggregator_envelope(self.received.as_deref()?, text, self.time_ns)
    }

    /// Returns how long after its event it arrived, in nanoseconds, if its arrival is known.
    pub fn lag_ns(&self) -> Option<i64> {
        self.arrival_ns.map(|arrival_ns| lag_ns(arrival_ns, self.time_ns))
    }

    /// Returns all attributes that the record came with, including those kept in fields of their
    /// own.
    pub fn all_attributes(&self) -> Vec<(String, Vec<AttributeValue>)> {
        let mut all = self.attributes.clone();
        let mut buffer = Vec::new();
        let texts = [
            (self.form.message_path(), &self.message),
            (self.form.trace_path(), &self.trace_id),
            (self.form.span_path(), &self.span_id),
        ];
        for (path, text) in texts {
            if let (Some(path), Some(text)) = (path, text) {
                all.push((path.to_owned(), vec![AttributeValue::Text(text.clone())]));
            }
        }
        if let Some((path, style)) = self.form.time_path() {
            all.push((path.to_owned(), vec![style.value(self.time_ns, &mut buffer).into()]));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

/// Adds a value to its path. Values of one path are kept together, and paths in order.
pub(crate) fn add_attribute(
    attributes: &mut Vec<(String, Vec<AttributeValue>)>,
    path: &str,
    value: Scalar<'_>,
) {
    let at = attributes.partition_point(|(known, _)| known.as_str() < path);
    match attributes.get_mut(at) {
        Some((known, values)) if known == path => values.push(value.into()),
        _ => attributes.insert(at, (path.to_owned(), vec![value.into()])),
    }
}
