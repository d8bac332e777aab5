//! Envelopes as JSON, in the mapping of Protocol Buffers: 64-bit integers as text, bytes in base64,
//! and fields with default values included.
//!
//! Invariant: the result is valid JSON for any envelope; keys of maps are sorted and unique.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::envelope::{LoggregatorEnvelope, LoggregatorMessage, LoggregatorMetric};
use super::envelope::{LoggregatorTagValue, LoggregatorTags};
use super::tags::key_and_value;
use super::wire::{Fields, LoggregatorError, Value};
use crate::escape::write_json_text as write_text;

/// Numbers of the types of logs.
const LOG_OUT: i32 = 0;
const LOG_ERR: i32 = 1;

/// Appends an envelope as a JSON object.
pub fn write_loggregator_json(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), LoggregatorError> {
    let envelope = LoggregatorEnvelope::parse(bytes, &mut LoggregatorTags::default())?;
    let (mut tags, mut deprecated) = (BTreeMap::new(), BTreeMap::new());
    for field in Fields::new(bytes) {
        let (number, Value::Bytes(entry)) = field? else { continue };
        match number {
            9 => {
                let (key, value) = key_and_value(entry)?;
                tags.insert(key, value);
            }
            3 => {
                let (key, value) = key_and_value(entry)?;
                deprecated.insert(key, LoggregatorTagValue::parse(value)?);
            }
            _ => {}
        }
    }
    out.extend_from_slice(b"{\"timestamp\":");
    write_integer(envelope.timestamp_ns, out);
    for (name, text) in [("source_id", envelope.source_id), ("instance_id", envelope.instance_id)] {
        write_key(name, out);
        write_text(text, out);
    }
    write_key("deprecated_tags", out);
    write_object(deprecated.iter(), out, |value, out| write_tag_value(*value, out));
    write_key("tags", out);
    write_object(tags.iter(), out, |value, out| write_text(value, out));
    write_message(&envelope, out);
    out.push(b'}');
    Ok(())
}

/// Returns the type of a log. An unknown one is written as a number.
fn log_type(envelope: &[u8]) -> i32 {
    let last = |message, wanted| {
        let fields = Fields::new(message).flatten().filter(move |(number, _)| *number == wanted);
        fields.map(|(_, value)| value).last()
    };
    let Some(Value::Bytes(log)) = last(envelope, 4) else { return LOG_OUT };
    match last(log, 2) {
        Some(Value::Number(number)) => number as i32,
        _ => LOG_OUT,
    }
}

fn write_message(envelope: &LoggregatorEnvelope<'_>, out: &mut Vec<u8>) {
    match envelope.message {
        LoggregatorMessage::None => {}
        LoggregatorMessage::Log { payload, is_error } => {
            out.extend_from_slice(b",\"log\":{\"payload\":\"");
            out.extend_from_slice(STANDARD.encode(payload).as_bytes());
            out.extend_from_slice(b"\",\"type\":");
            match if is_error { log_type(envelope.bytes) } else { LOG_OUT } {
                LOG_OUT => out.extend_from_slice(b"\"OUT\"}"),
                LOG_ERR => out.extend_from_slice(b"\"ERR\"}"),
                unknown => out.extend_from_slice(format!("{unknown}}}").as_bytes()),
            }
        }
        LoggregatorMessage::Counter { name, delta, total } => {
            out.extend_from_slice(b",\"counter\":{\"name\":");
            write_text(name, out);
            out.extend_from_slice(
                format!(",\"delta\":\"{delta}\",\"total\":\"{total}\"}}").as_bytes(),
            );
        }
        LoggregatorMessage::Gauge(gauge) => {
            let metrics: BTreeMap<&[u8], LoggregatorMetric<'_>> =
                gauge.metrics().map(|metric| (metric.name, metric)).collect();
            out.extend_from_slice(b",\"gauge\":{\"metrics\":");
            write_object(metrics.iter(), out, |metric, out| {
                out.extend_from_slice(b"{\"unit\":");
                write_text(metric.unit, out);
                write_key("value", out);
                write_double(metric.value, out);
                out.push(b'}');
            });
            out.push(b'}');
        }
        LoggregatorMessage::Timer { name, start_ns, stop_ns } => {
            out.extend_from_slice(b",\"timer\":{\"name\":");
            write_text(name, out);
            write_key("start", out);
            write_integer(start_ns, out);
            write_key("stop", out);
            write_integer(stop_ns, out);
            out.push(b'}');
        }
        LoggregatorMessage::Event { title, body } => {
            out.extend_from_slice(b",\"event\":{\"title\":");
            write_text(title, out);
            write_key("body", out);
            write_text(body, out);
            out.push(b'}');
        }
    }
}

/// Begins a value that is not the first of its object.
fn write_key(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\"{number}\"").as_bytes());
}

fn write_object<'m, V: 'm>(
    entries: impl Iterator<Item = (&'m &'m [u8], &'m V)>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&V, &mut Vec<u8>),
) {
    out.push(b'{');
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(key, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

fn write_tag_value(value: LoggregatorTagValue<'_>, out: &mut Vec<u8>) {
    match value {
        LoggregatorTagValue::Text(text) => {
            out.extend_from_slice(b"{\"text\":");
            write_text(text, out);
        }
        LoggregatorTagValue::Integer(number) => {
            out.extend_from_slice(b"{\"integer\":");
            write_integer(number, out);
        }
        LoggregatorTagValue::Decimal(number) => {
            out.extend_from_slice(b"{\"decimal\":");
            write_double(number, out);
        }
    }
    out.push(b'}');
}

/// Writes a number in the shortest form; very large and small ones with an exponent, and NaN and
/// infinity as text.
fn write_double(number: f64, out: &mut Vec<u8>) {
    let size = number.abs();
    let text = if number.is_nan() {
        "\"NaN\"".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" }.to_owned()
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        // The sign of the exponent is always written.
        if text.contains("e-") { text } else { text.replace('e', "e+") }
    } else {
        number.to_string()
    };
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tags::convert_loggregator_tags;
    use super::super::{LoggregatorGauge, encode_loggregator_envelope, encode_loggregator_metrics};
    use super::*;

    fn json(message: LoggregatorMessage<'_>, tags: &[(&str, &str)]) -> String {
        let envelope = LoggregatorEnvelope {
            timestamp_ns: 1_795_288_497_064_689_882,
            source_id: b"app",
            instance_id: b"7",
            message,
            ..Default::default()
        };
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        encode_loggregator_envelope(&envelope, tags, &mut bytes);
        write_loggregator_json(&bytes, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_kind_is_written_as_the_original_does() {
        let head = r#"{"timestamp":"1795288497064689882","source_id":"app","instance_id":"7","deprecated_tags":{},"tags":"#;
        let log = LoggregatorMessage::Log { payload: b"a line", is_error: false };
        let expected = r#"{"k":"v \"1\""},"log":{"payload":"YSBsaW5l","type":"OUT"}}"#;
        assert_eq!(json(log, &[("k", "old"), ("k", "v \"1\"")]), format!("{head}{expected}"));
        let counter = LoggregatorMessage::Counter { name: b"c", delta: 1, total: 0 };
        let expected = r#"{},"counter":{"name":"c","delta":"1","total":"0"}}"#;
        assert_eq!(json(counter, &[]), format!("{head}{expected}"));
        let mut metrics = Vec::new();
        let metric = |name: &'static [u8], value| LoggregatorMetric { name, unit: b"bytes", value };
        encode_loggregator_metrics(&[metric(b"n", 3.0), metric(b"m", 0.5)], &mut metrics);
        let gauge = LoggregatorMessage::Gauge(LoggregatorGauge(&metrics));
        let expected = r#"{},"gauge":{"metrics":{"m":{"unit":"bytes","value":0.5},"n":{"unit":"bytes","value":3}}}}"#;
        assert_eq!(json(gauge, &[]), format!("{head}{expected}"));
        let timer = LoggregatorMessage::Timer { name: b"http", start_ns: 5, stop_ns: -6 };
        let expected = r#"{},"timer":{"name":"http","start":"5","stop":"-6"}}"#;
        assert_eq!(json(timer, &[]), format!("{head}{expected}"));
        let event = LoggregatorMessage::Event { title: b"", body: b"\n" };
        let expected = r#"{},"event":{"title":"","body":"\n"}}"#;
        assert_eq!(json(event, &[]), format!("{head}{expected}"));
        let none = LoggregatorMessage::None;
        assert_eq!(json(none, &[]), format!("{head}{{}}}}"));
    }

    #[test]
    fn types_of_logs_that_are_not_known_are_numbers() {
        let log_of = |number: &[u8]| {
            let log = [b"\x0a\x01x\x10\x00\x10", number].concat();
            let mut out = Vec::new();
            let envelope = [&[0x22, log.len() as u8], &log[..]].concat();
            write_loggregator_json(&envelope, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.split_once("\"type\":").unwrap().1.to_owned()
        };
        assert_eq!(log_of(&[1]), "\"ERR\"}}");
        assert_eq!(log_of(&[7]), "7}}");
        assert_eq!(log_of(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "-1}}");
        // Only the lowest 32 bits count.
        assert_eq!(log_of(b"\x80\x80\x80\x80\x10"), "\"OUT\"}}");
    }

    #[test]
    fn tags_of_both_forms_are_written_and_converted() {
        let mut bytes = b"\x1a\x11\x0a\x01n\x12\x0c\x10".to_vec();
        bytes.truncate(0);
        let tag = |key: &[u8], value: &[u8], out: &mut Vec<u8>| {
            let mut entry = Vec::new();
            super::super::wire::put_bytes_field(1, key, &mut entry);
            super::super::wire::put_bytes_field(2, value, &mut entry);
            super::super::wire::put_bytes_field(3, &entry, out);
        };
        tag(b"n", b"\x10\x07", &mut bytes);
        tag(b"t", b"\x0a\x03new", &mut bytes);
        let half = [&[0x19][..], &0.5_f64.to_le_bytes()].concat();
        tag(b"d", &half, &mut bytes);
        encode_loggregator_envelope(
            &LoggregatorEnvelope::default(),
            &[("t", "replaced"), ("u", "own")],
            &mut bytes,
        );
        let (mut preferred, mut deprecated, mut out) = (Vec::new(), Vec::new(), Vec::new());
        convert_loggregator_tags(&bytes, true, &mut preferred).unwrap();
        convert_loggregator_tags(&bytes, false, &mut deprecated).unwrap();
        for envelope in [&bytes, &preferred, &deprecated] {
            write_loggregator_json(envelope, &mut out).unwrap();
            out.push(b'\n');
        }
        let expected = concat!(
            r#"{"timestamp":"0","source_id":"","instance_id":"","deprecated_tags":{"d":{"decimal":0.5},"n":{"integer":"7"},"t":{"text":"new"}},"tags":{"t":"replaced","u":"own"}}"#,
            "\n",
            r#"{"timestamp":"0","source_id":"","instance_id":"","deprecated_tags":{},"tags":{"d":"0.5","n":"7","t":"new","u":"own"}}"#,
            "\n",
            r#"{"timestamp":"0","source_id":"","instance_id":"","deprecated_tags":{"d":{"text":"0.5"},"n":{"text":"7"},"t":{"text":"new"},"u":{"text":"own"}},"tags":{}}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut same = Vec::new();
        convert_loggregator_tags(&preferred, true, &mut same).unwrap();
        assert_eq!(same, preferred);
    }

    #[test]
    fn numbers_have_the_form_of_the_original() {
        let all = [0.0, -1.5, 1e20, 1e21, 1e-6, 1.5e-7, f64::NAN, f64::NEG_INFINITY];
        let mut out = Vec::new();
        for number in all {
            write_double(number, &mut out);
            out.push(b' ');
        }
        let expected = "0 -1.5 100000000000000000000 1e+21 0.000001 1.5e-7 \"NaN\" \"-Infinity\" ";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_json(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut out = Vec::new();
            if write_loggregator_json(&bytes, &mut out).is_ok() {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
            }
            let _converted = convert_loggregator_tags(&bytes, false, &mut out);
        }
    }
}
