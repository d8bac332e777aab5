//! Queries over metrics and their results (`logcache.v1.PromQLQuerier`), in Protocol Buffers.
//!
//! Source of the messages: `api/v1/promql.proto` of cloudfoundry/go-log-cache. Invariants: requests
//! are not validated here; as in the original, a time is a text with seconds since 1970 and three
//! decimals.

use std::collections::BTreeMap;

use super::wire::{Fields, LoggregatorError, Value, put_bytes_field, put_double_field, put_entry};

/// A query at one time: an `InstantQueryRequest`. A missing text is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromqlInstant {
    /// The query.
    pub query: String,
    /// The time: seconds since 1970, or RFC 3339; now if empty.
    pub time: String,
}

/// A query at several times: a `RangeQueryRequest`. A missing text is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromqlRange {
    /// The query.
    pub query: String,
    /// The first time: seconds since 1970, or RFC 3339.
    pub start: String,
    /// The last time, in the same forms.
    pub end: String,
    /// The step between two times: seconds, or a number with a unit.
    pub step: String,
}

impl PromqlInstant {
    /// Reads the bytes of an `InstantQueryRequest`.
    pub fn parse(message: &[u8]) -> Result<Self, LoggregatorError> {
        let [query, time] = texts(message)?;
        Ok(Self { query, time })
    }
}

impl PromqlRange {
    /// Reads the bytes of a `RangeQueryRequest`.
    pub fn parse(message: &[u8]) -> Result<Self, LoggregatorError> {
        let [query, start, end, step] = texts(message)?;
        Ok(Self { query, start, end, step })
    }
}

/// Reads the texts of the first fields.
fn texts<const N: usize>(message: &[u8]) -> Result<[String; N], LoggregatorError> {
    let mut texts = [const { String::new() }; N];
    for field in Fields::new(message) {
        let (number, value) = field?;
        let text = (number as usize).checked_sub(1).and_then(|index| texts.get_mut(index));
        if let (Some(text), Value::Bytes(bytes)) = (text, value) {
            *text = String::from_utf8_lossy(bytes).into_owned();
        }
    }
    Ok(texts)
}

/// Values with the same labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromqlSeries<'s> {
    /// Names and values of the labels.
    pub labels: &'s BTreeMap<String, String>,
    /// Milliseconds since 1970, and the value.
    pub points: &'s [(i64, f64)],
}

/// Returns the bytes of an `InstantQueryResult` with a value without labels.
pub fn encode_promql_scalar(at_ms: i64, value: f64) -> Vec<u8> {
    let mut result = Vec::new();
    put_bytes_field(1, &point(at_ms, value), &mut result);
    result
}

/// Returns the bytes of an `InstantQueryResult` with series that have one value each.
pub fn encode_promql_vector<'s>(series: impl Iterator<Item = PromqlSeries<'s>>) -> Vec<u8> {
    list(2, series)
}

/// Returns the bytes of an `InstantQueryResult` with series.
pub fn encode_promql_matrix<'s>(series: impl Iterator<Item = PromqlSeries<'s>>) -> Vec<u8> {
    list(3, series)
}

/// Returns the bytes of a `RangeQueryResult`.
pub fn encode_promql_range<'s>(series: impl Iterator<Item = PromqlSeries<'s>>) -> Vec<u8> {
    list(1, series)
}

/// Samples and series have the same form, except that a sample has only one point.
fn list<'s>(field: u64, series: impl Iterator<Item = PromqlSeries<'s>>) -> Vec<u8> {
    let (mut result, mut all, mut one) = (Vec::new(), Vec::new(), Vec::new());
    for PromqlSeries { labels, points } in series {
        one.clear();
        for (name, value) in labels {
            put_entry(1, name.as_bytes(), value.as_bytes(), &mut one);
        }
        for (at_ms, value) in points {
            put_bytes_field(2, &point(*at_ms, *value), &mut one);
        }
        put_bytes_field(1, &one, &mut all);
    }
    put_bytes_field(field, &all, &mut result);
    result
}

/// A `Point`; a `Scalar` has the same form.
fn point(at_ms: i64, value: f64) -> Vec<u8> {
    let mut point = Vec::with_capacity(32);
    put_bytes_field(1, format!("{:.3}", at_ms as f64 / 1000.0).as_bytes(), &mut point);
    put_double_field(2, value, &mut point);
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_query_is_read() {
        let mut bytes = Vec::new();
        for (field, text) in (1..).zip(["up", "1", "2.5", "15s", "unknown"]) {
            put_bytes_field(field, text.as_bytes(), &mut bytes);
        }
        let text = str::to_owned;
        let instant = PromqlInstant { query: text("up"), time: text("1") };
        assert_eq!(PromqlInstant::parse(&bytes), Ok(instant));
        let range = PromqlRange {
            query: text("up"),
            start: text("1"),
            end: text("2.5"),
            step: text("15s"),
        };
        assert_eq!(PromqlRange::parse(&bytes), Ok(range));
        assert_eq!(PromqlRange::parse(&[]), Ok(PromqlRange::default()));
        assert!(PromqlRange::parse(&[0x0a, 9]).is_err());
    }

    #[test]
    fn results_have_the_form_of_the_original() {
        let value = |value: f64| value.to_bits().to_le_bytes();
        let point = |time: &[u8], number: f64| {
            [&[0x0a, time.len() as u8], time, &[0x11], &value(number)].concat()
        };
        let scalar = point(b"1795288411.500", 0.0);
        let expected = [&[0x0a, scalar.len() as u8], &scalar[..]].concat();
        assert_eq!(encode_promql_scalar(1_795_288_411_500, 0.0), expected);
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let series = PromqlSeries { labels: &labels, points: &[(-1000, 1.0), (0, 2.0)] };
        let (first, second) = (point(b"-1.000", 1.0), point(b"0.000", 2.0));
        let points =
            [&[0x12, first.len() as u8], &first[..], &[0x12, second.len() as u8], &second[..]]
                .concat();
        let one = [&b"\x0a\x06\x0a\x01a\x12\x01b"[..], &points].concat();
        let all = [&[0x0a, one.len() as u8], &one[..]].concat();
        for (field, encoded) in [
            (0x0a, encode_promql_range(std::iter::once(series))),
            (0x12, encode_promql_vector(std::iter::once(series))),
            (0x1a, encode_promql_matrix(std::iter::once(series))),
        ] {
            assert_eq!(encoded, [&[field, all.len() as u8], &all[..]].concat());
        }
        // A result without series is a result.
        assert_eq!(encode_promql_vector(std::iter::empty()), [0x12, 0]);
    }
}
