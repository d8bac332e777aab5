//! Envelopes to bytes.

use super::envelope::{LoggregatorEnvelope, LoggregatorMessage, LoggregatorMetric};
use super::wire::{Fields, LoggregatorError, Value, put_bytes_field, put_number, put_number_field};

/// Appends an envelope with these tags. What is in `envelope.bytes` has no effect.
pub fn encode_loggregator_envelope(
    envelope: &LoggregatorEnvelope<'_>,
    tags: &[(&str, &str)],
    out: &mut Vec<u8>,
) {
    put_number_field(1, envelope.timestamp_ns as u64, out);
    for (field, text) in [(2, envelope.source_id), (8, envelope.instance_id)] {
        if !text.is_empty() {
            put_bytes_field(field, text, out);
        }
    }
    for (key, value) in tags {
        encode_loggregator_tag(key, value, out);
    }
    let mut part = Vec::new();
    let field = match envelope.message {
        LoggregatorMessage::None => return,
        LoggregatorMessage::Log { payload, is_error } => {
            put_bytes_field(1, payload, &mut part);
            put_number_field(2, u64::from(is_error), &mut part);
            4
        }
        LoggregatorMessage::Counter { name, delta, total } => {
            put_bytes_field(1, name, &mut part);
            put_number_field(2, delta, &mut part);
            put_number_field(3, total, &mut part);
            5
        }
        LoggregatorMessage::Gauge(gauge) => {
            part.extend_from_slice(gauge.0);
            6
        }
        LoggregatorMessage::Timer { name, start_ns, stop_ns } => {
            put_bytes_field(1, name, &mut part);
            put_number_field(2, start_ns as u64, &mut part);
            put_number_field(3, stop_ns as u64, &mut part);
            7
        }
        LoggregatorMessage::Event { title, body } => {
            put_bytes_field(1, title, &mut part);
            put_bytes_field(2, body, &mut part);
            10
        }
    };
    put_bytes_field(field, &part, out);
}

/// Appends a tag to an envelope; it replaces an earlier one of that name.
pub fn encode_loggregator_tag(key: &str, value: &str, out: &mut Vec<u8>) {
    let mut entry = Vec::with_capacity(key.len() + value.len() + 8);
    put_bytes_field(1, key.as_bytes(), &mut entry);
    put_bytes_field(2, value.as_bytes(), &mut entry);
    put_bytes_field(9, &entry, out);
}

/// Appends a source to an envelope; it replaces an earlier one.
pub fn encode_loggregator_source(source_id: &[u8], out: &mut Vec<u8>) {
    put_bytes_field(2, source_id, out);
}

/// Appends the measurements of a gauge, for [`LoggregatorGauge`](super::LoggregatorGauge).
pub fn encode_loggregator_metrics(metrics: &[LoggregatorMetric<'_>], out: &mut Vec<u8>) {
    for metric in metrics {
        let (mut entry, mut value) = (Vec::new(), Vec::new());
        put_bytes_field(1, metric.unit, &mut value);
        put_number(2 << 3 | 1, &mut value);
        value.extend_from_slice(&metric.value.to_bits().to_le_bytes());
        put_bytes_field(1, metric.name, &mut entry);
        put_bytes_field(2, &value, &mut entry);
        put_bytes_field(1, &entry, out);
    }
}

/// Appends an envelope to the bytes of an `EnvelopeBatch`.
pub fn add_to_loggregator_batch(envelope: &[u8], batch: &mut Vec<u8>) {
    put_bytes_field(1, envelope, batch);
}

/// Appends an envelope about a counter with another total. Everything else stays as it is, including
/// fields that are not known.
pub fn encode_loggregator_total(
    envelope: &[u8],
    total: u64,
    out: &mut Vec<u8>,
) -> Result<(), LoggregatorError> {
    let mut fields = Fields::new(envelope);
    let mut before = fields.rest();
    let mut counter = Vec::new();
    while let Some(field) = fields.next() {
        let after = fields.rest();
        match field? {
            (5, Value::Bytes(message)) => {
                counter.clear();
                counter.extend_from_slice(message);
            }
            _ => out.extend_from_slice(before.get(..before.len() - after.len()).unwrap_or(before)),
        }
        before = after;
    }
    // Of a field that occurs twice, the last value counts.
    put_number_field(3, total, &mut counter);
    put_bytes_field(5, &counter, out);
    Ok(())
}
