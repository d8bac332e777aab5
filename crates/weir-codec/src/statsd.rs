//! Converts statsd metrics, as lines in datagrams, to Loggregator envelopes.
//!
//! `name:value|type|@rate|#tag:value,tag` with the types `c` (counter), `g` (gauge, with a sign
//! relative to its last value), and `ms`, `h` and `d` (measured values); Datadog's clients send
//! several values (`name:1:2|d`). The source of a metric is its tag `source_id`, or else the first
//! part of its name, as in Loggregator's own injector: `origin.name`.
//!
//! Formats: <https://github.com/statsd/statsd/blob/master/docs/metric_types.md> and
//! <https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/>.
//!
//! Invariants: hostile bytes are an error, never a panic; memory is bounded ([`GAUGES_MAX`]).

use std::collections::HashMap;

use crate::loggregator::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    encode_loggregator_envelope, encode_loggregator_metrics,
};

/// Maximum number of gauges whose last value is kept, for relative changes. Beyond that, all start
/// again at zero.
const GAUGES_MAX: usize = 10_000;

/// Maximum number of values of a line.
const VALUES_MAX: usize = 1024;

/// Why a line is not a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatsdError {
    /// It is not of the form `name:value|type`.
    #[error("a line is not of the form name:value|type")]
    Form,
    /// It has a type that is not supported: sets, events and service checks.
    #[error("a line has a type other than c, g, ms, h and d")]
    Type,
    /// Its value is not a number, or is out of range for its type.
    #[error("a line has an invalid value")]
    Value,
    /// Its rate is not a number above 0 and up to 1.
    #[error("a line has an invalid sample rate")]
    Rate,
    /// It has more values than a line may have.
    #[error("a line has more than {} values", VALUES_MAX)]
    Values,
    /// It is not UTF-8.
    #[error("a line is not UTF-8")]
    Encoding,
}

/// Decodes statsd lines.
#[derive(Debug, Default)]
pub struct StatsdDecoder {
    /// Last values of gauges, by source, name and tags as in their lines.
    gauges: HashMap<String, f64>,
    metrics: Vec<u8>,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricType {
    Counter,
    Gauge,
    /// In milliseconds.
    Time,
    /// Without a unit.
    Measured,
}

/// The parts of a line.
#[derive(Debug)]
struct Line<'l> {
    source_id: &'l str,
    name: &'l str,
    values: &'l str,
    kind: MetricType,
    rate: f64,
    tags: Vec<(&'l str, &'l str)>,
}

impl<'l> Line<'l> {
    fn parse(line: &'l [u8], default_source: &'l str) -> Result<Self, StatsdError> {
        let line = std::str::from_utf8(line).map_err(|_| StatsdError::Encoding)?;
        let mut parts = line.split('|');
        let metric = parts.next().unwrap_or_default();
        let kind = match parts.next().ok_or(StatsdError::Form)? {
            "c" => MetricType::Counter,
            "g" => MetricType::Gauge,
            "ms" => MetricType::Time,
            "h" | "d" => MetricType::Measured,
            _ => return Err(StatsdError::Type),
        };
        let (name, values) = metric.split_once(':').ok_or(StatsdError::Form)?;
        let (mut rate, mut tags) = (1.0, Vec::new());
        for part in parts {
            if let Some(text) = part.strip_prefix('@') {
                rate = text.parse().map_err(|_| StatsdError::Rate)?;
            } else if let Some(list) = part.strip_prefix('#') {
                let pairs = list.split(',').filter(|tag| !tag.is_empty());
                tags.extend(pairs.map(|tag| tag.split_once(':').unwrap_or((tag, ""))));
            }
            // Fields of later versions of the protocol, such as the container, are ignored.
        }
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(StatsdError::Rate);
        }
        let stated = tags.iter().position(|(key, _)| *key == "source_id");
        let stated = stated.map(|at| tags.remove(at).1).filter(|source| !source.is_empty());
        let (source_id, name) = match (stated, name.split_once('.')) {
            (Some(source), _) => (source, name),
            (None, Some((origin, rest))) if !origin.is_empty() && !rest.is_empty() => {
                (origin, rest)
            }
            (None, _) => (default_source, name),
        };
        if name.is_empty() {
            return Err(StatsdError::Form);
        }
        Ok(Self { source_id, name, values, kind, rate, tags })
    }
}

impl StatsdDecoder {
    /// Reads a line, without its line end, and calls `envelope` with the bytes of an envelope for
    /// each of its values, except increments of zero: in an envelope without a total they would
    /// state that the total is zero. `default_source` is the source id of a metric without one.
    ///
    /// # Errors
    /// If it is not a metric, or has too many values. Values before an invalid or excess one have
    /// become envelopes.
    pub fn decode(
        &mut self,
        line: &[u8],
        default_source: &str,
        timestamp_ns: i64,
        mut envelope: impl FnMut(&[u8]),
    ) -> Result<(), StatsdError> {
        let line = Line::parse(line, default_source)?;
        let mut bytes = Vec::new();
        for (index, text) in line.values.split(':').enumerate() {
            if index == VALUES_MAX {
                return Err(StatsdError::Values);
            }
            let value: f64 = text.parse().map_err(|_| StatsdError::Value)?;
            if !value.is_finite() {
                return Err(StatsdError::Value);
            }
            bytes.clear();
            if self.write(&line, text, value, timestamp_ns, &mut bytes)? {
                envelope(&bytes);
            }
        }
        Ok(())
    }

    /// Writes the envelope of a value. Returns false if it has none.
    fn write(
        &mut self,
        line: &Line<'_>,
        text: &str,
        value: f64,
        timestamp_ns: i64,
        out: &mut Vec<u8>,
    ) -> Result<bool, StatsdError> {
        let name = line.name.as_bytes();
        let mut gauge = |unit: &[u8], value| {
            self.metrics.clear();
            encode_loggregator_metrics(
                &[LoggregatorMetric { name, unit, value }],
                &mut self.metrics,
            );
        };
        let message = match line.kind {
            MetricType::Counter => {
                let increment = (value / line.rate).round();
                if !(0.0..=9.0e18).contains(&increment) {
                    return Err(StatsdError::Value);
                }
                if increment == 0.0 {
                    return Ok(false);
                }
                LoggregatorMessage::Counter { name, delta: increment as u64, total: 0 }
            }
            MetricType::Gauge => {
                let value = last_value(&mut self.gauges, line, text, value);
                gauge(b"gauge", value);
                LoggregatorMessage::Gauge(LoggregatorGauge(&self.metrics))
            }
            MetricType::Time => {
                gauge(b"ms", value);
                LoggregatorMessage::Gauge(LoggregatorGauge(&self.metrics))
            }
            MetricType::Measured => {
                gauge(b"", value);
                LoggregatorMessage::Gauge(LoggregatorGauge(&self.metrics))
            }
        };
        let envelope = LoggregatorEnvelope {
            timestamp_ns,
            source_id: line.source_id.as_bytes(),
            message,
            ..LoggregatorEnvelope::default()
        };
        encode_loggregator_envelope(&envelope, &line.tags, out);
        Ok(true)
    }
}

/// Returns the value of a gauge, which is relative to the last one if it has a sign.
fn last_value(gauges: &mut HashMap<String, f64>, line: &Line<'_>, text: &str, value: f64) -> f64 {
    let key = format!("{}\0{}\0{:?}", line.source_id, line.name, line.tags);
    if gauges.len() >= GAUGES_MAX && !gauges.contains_key(&key) {
        gauges.clear();
    }
    let last = gauges.entry(key).or_default();
    *last = if text.starts_with(['+', '-']) { *last + value } else { value };
    *last
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loggregator::{LoggregatorTags, write_loggregator_json};

    /// Returns the envelopes of a line as JSON, or the error.
    fn decode(decoder: &mut StatsdDecoder, line: &str) -> Result<Vec<String>, StatsdError> {
        let mut all = Vec::new();
        decoder.decode(line.as_bytes(), "statsd", 7, |envelope| {
            let mut json = Vec::new();
            write_loggregator_json(envelope, &mut json).unwrap();
            all.push(String::from_utf8(json).unwrap());
        })?;
        Ok(all)
    }

    fn one(line: &str) -> String {
        decode(&mut StatsdDecoder::default(), line).unwrap().remove(0)
    }

    #[test]
    fn every_type_becomes_an_envelope_of_its_source() {
        let counter = one("router.requests:3|c|@0.1|#env:prod,canary");
        assert!(counter.contains(r#""source_id":"router""#), "{counter}");
        assert!(counter.contains(r#""name":"requests","delta":"30""#), "{counter}");
        assert!(counter.contains(r#""env":"prod""#) && counter.contains(r#""canary":"""#));
        let gauge = one("router.a.b:1.5|g");
        assert!(gauge.contains(r#""a.b":{"unit":"gauge","value":1.5}"#), "{gauge}");
        let time = one("latency:320|ms|#source_id:app-guid");
        assert!(time.contains(r#""source_id":"app-guid""#), "{time}");
        assert!(time.contains(r#""latency":{"unit":"ms","value":320}"#), "{time}");
        assert!(one("latency:1|h").contains(r#""source_id":"statsd""#));
        let values = decode(&mut StatsdDecoder::default(), "a.b:1:2:3|d|c:container").unwrap();
        assert_eq!(values.len(), 3);
    }

    #[test]
    fn increments_of_zero_have_no_envelope() {
        let mut decoder = StatsdDecoder::default();
        for line in ["a.b:0|c", "a.b:0.4|c", "a.b:-0|c"] {
            assert_eq!(decode(&mut decoder, line), Ok(Vec::new()), "{line}");
        }
        assert_eq!(decode(&mut decoder, "a.b:1:0:2|c").unwrap().len(), 2);
        assert!(one("a.b:0|g").contains(r#""value":0"#));
    }

    #[test]
    fn excess_values_are_an_error_after_the_envelopes_of_the_others() {
        let mut decoder = StatsdDecoder::default();
        for excess in [0, 1] {
            let line = format!("a.b:{}|h", vec!["1"; VALUES_MAX + excess].join(":"));
            let mut count = 0;
            let result = decoder.decode(line.as_bytes(), "statsd", 0, |_| count += 1);
            assert_eq!((result.is_err(), count), (excess > 0, VALUES_MAX));
        }
    }

    #[test]
    fn gauges_with_a_sign_are_relative() {
        let mut decoder = StatsdDecoder::default();
        for (line, expected) in [
            ("a.g:10|g", r#""value":10}"#),
            ("a.g:+5|g", r#""value":15}"#),
            ("a.g:-20|g", r#""value":-5}"#),
            ("a.g:-20|g|#x:y", r#""value":-20}"#),
            ("a.g:1|g", r#""value":1}"#),
        ] {
            let json = decode(&mut decoder, line).unwrap().remove(0);
            assert!(json.contains(expected), "{line}: {json}");
        }
    }

    #[test]
    fn invalid_metrics_are_errors() {
        for (line, error) in [
            ("", StatsdError::Form),
            ("a.b", StatsdError::Form),
            ("a.b|c", StatsdError::Form),
            ("a.b:1", StatsdError::Form),
            (":1|c", StatsdError::Form),
            ("a.b:1|s", StatsdError::Type),
            ("_e{1,1}:a|b", StatsdError::Type),
            ("a.b:x|c", StatsdError::Value),
            ("a.b:-1|c", StatsdError::Value),
            ("a.b:inf|g", StatsdError::Value),
            ("a.b:1e300|c", StatsdError::Value),
            ("a.b:1|c|@0", StatsdError::Rate),
            ("a.b:1|c|@x", StatsdError::Rate),
            ("a.b:1|c|@2", StatsdError::Rate),
        ] {
            let found = decode(&mut StatsdDecoder::default(), line);
            assert_eq!(found, Err(error), "{line}");
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_become_envelopes_or_errors(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut decoder = StatsdDecoder::default();
            let _any_result = decoder.decode(&line, "s", 0, |envelope| {
                LoggregatorEnvelope::parse(envelope, &mut LoggregatorTags::default()).unwrap();
            });
        }

        #[test]
        fn lines_like_metrics_become_envelopes_or_errors(line in "[a-c._]{0,5}:[-+0-9.:e]{0,9}\\|(c|g|ms|h|d|s)(\\|[@#][a-z0-9:,.]{0,9})?") {
            let mut decoder = StatsdDecoder::default();
            let _any_result = decoder.decode(line.as_bytes(), "s", 0, |envelope| {
                LoggregatorEnvelope::parse(envelope, &mut LoggregatorTags::default()).unwrap();
            });
        }
    }
}
