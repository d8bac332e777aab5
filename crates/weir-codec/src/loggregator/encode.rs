//! Encodes envelopes.

use super::envelope::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
};
use super::wire::{
    Fields, LoggregatorError, Value, put_bytes_field, put_entry, put_metric, put_number_field,
};

const COUNTER: u32 = 5;
const GAUGE: u32 = 6;

/// Appends an envelope with these tags. `envelope.bytes` is ignored.
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
    put_entry(9, key.as_bytes(), value.as_bytes(), out);
}

/// Appends a time, in nanoseconds since 1970, to an envelope; it replaces an earlier one.
pub fn encode_loggregator_time(timestamp_ns: i64, out: &mut Vec<u8>) {
    put_number_field(1, timestamp_ns as u64, out);
}

/// Appends a source id to an envelope; it replaces an earlier one.
pub fn encode_loggregator_source(source_id: &[u8], out: &mut Vec<u8>) {
    put_bytes_field(2, source_id, out);
}

/// Appends the measurements of a gauge, for [`LoggregatorGauge`](super::LoggregatorGauge).
pub fn encode_loggregator_metrics(metrics: &[LoggregatorMetric<'_>], out: &mut Vec<u8>) {
    for metric in metrics {
        put_metric(metric.name, metric.unit, metric.value, out);
    }
}

/// Appends an envelope to the bytes of an `EnvelopeBatch`.
pub fn add_to_loggregator_batch(envelope: &[u8], batch: &mut Vec<u8>) {
    put_bytes_field(1, envelope, batch);
}

/// Appends an envelope with other measurements. Everything else is unchanged, including unknown
/// fields.
pub fn encode_loggregator_gauge(
    envelope: &[u8],
    gauge: LoggregatorGauge<'_>,
    out: &mut Vec<u8>,
) -> Result<(), LoggregatorError> {
    copy_others(envelope, GAUGE, out)?;
    put_bytes_field(u64::from(GAUGE), gauge.0, out);
    Ok(())
}

/// Appends all fields of a message except this one. Returns the value of that field, if it exists.
fn copy_others<'e>(
    envelope: &'e [u8],
    field: u32,
    out: &mut Vec<u8>,
) -> Result<Option<&'e [u8]>, LoggregatorError> {
    let mut fields = Fields::new(envelope);
    let mut before = fields.rest();
    let mut found = None;
    while let Some(read) = fields.next() {
        let after = fields.rest();
        match read? {
            (number, Value::Bytes(message)) if number == field => found = Some(message),
            _ => out.extend_from_slice(before.get(..before.len() - after.len()).unwrap_or(before)),
        }
        before = after;
    }
    Ok(found)
}

/// Appends the envelope of a counter with another total. Everything else is unchanged, including
/// unknown fields.
pub fn encode_loggregator_total(
    envelope: &[u8],
    total: u64,
    out: &mut Vec<u8>,
) -> Result<(), LoggregatorError> {
    let mut counter = copy_others(envelope, COUNTER, out)?.unwrap_or_default().to_vec();
    // The last value of a repeated field applies.
    put_number_field(3, total, &mut counter);
    put_bytes_field(u64::from(COUNTER), &counter, out);
    Ok(())
}
