//! Stored records as envelopes.
//!
//! Invariant: a received envelope is returned unchanged, except that deprecated tags become `tags`,
//! and a missing time or source ID is taken from the record. A record without received bytes (of
//! another source, changed by a rule, or stored before they were kept) is converted from its
//! columns.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_codec::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric, LoggregatorTags,
    convert_loggregator_tags, encode_loggregator_envelope, encode_loggregator_metrics,
    encode_loggregator_source, encode_loggregator_time, has_loggregator_tags,
};
use weir_model::{RecordFlags, RecordKind, Severity};
use weir_pipeline::live::EnvelopeOrigin;
use weir_store::embedded::columns::{AttributeValue, StoredRecord};

use crate::explore::nested_attributes;

/// Returns the envelope of a record of this source; `is_envelope` if the source receives envelopes.
/// `None` if the record cannot be written as one.
pub(super) fn envelope_of(
    record: &StoredRecord,
    source_id: &str,
    is_envelope: bool,
) -> Option<Vec<u8>> {
    match record.received_bytes() {
        Some(bytes) => as_received(bytes, source_id, record.time_ns),
        None if is_envelope && record.form.flags().contains(RecordFlags::MALFORMED) => None,
        None => written_anew(record, is_envelope),
    }
}

fn as_received(bytes: Vec<u8>, source_id: &str, time_ns: i64) -> Option<Vec<u8>> {
    let mut tags = LoggregatorTags::default();
    let envelope = LoggregatorEnvelope::parse(&bytes, &mut tags).ok()?;
    let (has_source, has_time) = (!envelope.source_id.is_empty(), envelope.timestamp_ns != 0);
    let mut bytes = if has_loggregator_tags(&bytes, false) {
        let mut converted = Vec::with_capacity(bytes.len());
        convert_loggregator_tags(&bytes, true, &mut converted).ok()?;
        converted
    } else {
        bytes
    };
    if !has_source {
        encode_loggregator_source(source_id.as_bytes(), &mut bytes);
    }
    if !has_time {
        encode_loggregator_time(time_ns, &mut bytes);
    }
    Some(bytes)
}

fn written_anew(record: &StoredRecord, is_envelope: bool) -> Option<Vec<u8>> {
    let source = record.source.as_deref().unwrap_or_default();
    let resource = record.resource.as_deref().unwrap_or_default();
    let mut origin = EnvelopeOrigin::new(resource.as_bytes(), is_envelope, source);
    if let Some(service) = &record.service {
        origin.source_id.clone_from(service);
    }
    let metric = Metric::of(record);
    let payload;
    let mut measurements = Vec::new();
    let message = match record.form.kind() {
        RecordKind::Log => {
            payload = payload_of(record);
            LoggregatorMessage::Log { payload: &payload, is_error: is_error(record) }
        }
        RecordKind::Counter => LoggregatorMessage::Counter {
            name: metric.name.as_bytes(),
            delta: metric.value as u64,
            total: metric.total as u64,
        },
        RecordKind::Gauge => {
            let (name, unit) = (metric.name.as_bytes(), metric.unit.as_bytes());
            let one = LoggregatorMetric { name, unit, value: metric.value };
            encode_loggregator_metrics(&[one], &mut measurements);
            LoggregatorMessage::Gauge(LoggregatorGauge(&measurements))
        }
        RecordKind::Timer => LoggregatorMessage::Timer {
            name: metric.name.as_bytes(),
            start_ns: record.time_ns.saturating_sub((metric.value * 1e9) as i64),
            stop_ns: record.time_ns,
        },
        RecordKind::Event => LoggregatorMessage::Event { title: metric.name.as_bytes(), body: b"" },
    };
    if record.form.kind() != RecordKind::Log && metric.name.is_empty() {
        return None;
    }
    let own = if is_envelope && record.form.kind() == RecordKind::Log {
        own_tags(record)
    } else {
        metric.tags
    };
    let tags: Vec<(&str, &str)> = origin
        .tags
        .iter()
        .chain(&own)
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let envelope = LoggregatorEnvelope {
        timestamp_ns: record.time_ns,
        source_id: origin.source_id.as_bytes(),
        instance_id: origin.instance_id.as_bytes(),
        message,
        ..LoggregatorEnvelope::default()
    };
    let mut bytes = Vec::new();
    encode_loggregator_envelope(&envelope, &tags, &mut bytes);
    Some(bytes)
}

/// The text of a log: its body, or the object that was its body.
fn payload_of(record: &StoredRecord) -> Vec<u8> {
    if is_object(record) {
        let all = record.all_attributes().into_iter().map(|(path, values)| (path, json(values)));
        let object = Value::Object(nested_attributes(all.collect()));
        return object.to_string().into_bytes();
    }
    match (&record.original, &record.message) {
        (Some(original), _) => original.message().to_vec(),
        (None, Some(message)) => message.clone().into_bytes(),
        (None, None) => Vec::new(),
    }
}

fn is_object(record: &StoredRecord) -> bool {
    record.form.message_path().is_some() || record.message.is_none()
}

fn json(mut values: Vec<AttributeValue>) -> Value {
    fn one(value: AttributeValue) -> Value {
        match value {
            AttributeValue::Null => Value::Null,
            AttributeValue::Bool(truth) => truth.into(),
            AttributeValue::Int(number) => number.into(),
            AttributeValue::Float(number) => number.into(),
            AttributeValue::Text(text) => text.into(),
        }
    }
    match values.len() {
        1 => values.pop().map_or(Value::Null, one),
        _ => values.into_iter().map(one).collect(),
    }
}

fn is_error(record: &StoredRecord) -> bool {
    let flags = record.form.flags();
    flags.contains(RecordFlags::STDERR)
        || !flags.contains(RecordFlags::STDOUT) && record.form.severity() >= Severity::ERROR
}

/// Tags of a log that are not those of its source: its attributes besides the body.
fn own_tags(record: &StoredRecord) -> BTreeMap<String, String> {
    if is_object(record) {
        return BTreeMap::new();
    }
    let first = |values: &[AttributeValue]| values.first().map(text);
    let attributes = record.attributes.iter();
    attributes.filter_map(|(path, values)| Some((path.clone(), first(values)?))).collect()
}

fn text(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Text(text) => text.clone(),
        other => json(vec![other.clone()]).to_string(),
    }
}

/// A metric with one measurement, in the attributes of its record.
#[derive(Debug, Default)]
struct Metric {
    name: String,
    value: f64,
    total: f64,
    unit: String,
    tags: BTreeMap<String, String>,
}

impl Metric {
    fn of(record: &StoredRecord) -> Self {
        let mut metric = Self::default();
        if record.form.kind() == RecordKind::Log {
            return metric;
        }
        for (path, values) in record.all_attributes() {
            match (path.as_str(), values.as_slice()) {
                ("name", [AttributeValue::Text(name)]) => metric.name.clone_from(name),
                ("unit", [AttributeValue::Text(unit)]) => metric.unit.clone_from(unit),
                ("value", [value]) => metric.value = number(value),
                ("total", [value]) => metric.total = number(value),
                ("tags", tags) => {
                    let (pairs, _) = tags.as_chunks();
                    metric.tags =
                        pairs.iter().map(|[key, value]| (text(key), text(value))).collect();
                }
                _ => {}
            }
        }
        metric
    }
}

fn number(value: &AttributeValue) -> f64 {
    match value {
        AttributeValue::Int(number) => *number as f64,
        AttributeValue::Float(number) => *number,
        AttributeValue::Null | AttributeValue::Bool(_) | AttributeValue::Text(_) => f64::NAN,
    }
}
