//! Records as lines.
//!
//! Invariant: one record is exactly one line; a newline within a body is written as `\n` (two
//! characters). `Raw` and `Syslog` keep bytes that are not UTF-8, `Json` replaces them.
#![cfg_attr(
    not(test),
    expect(clippy::indexing_slicing, reason = "places that were found in the same text")
)]

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use weir_model::{HeaderField, RecordFlags, RecordView, Selection, unescape_json};

use super::syslog_line::syslog_line;
use crate::{escape_json_into, format_rfc3339_ns};

/// How a record is written as a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// The body as bytes, newlines inside it escaped as `\n`.
    Raw,
    /// One JSON object per record in OpenTelemetry's terms.
    Json,
    /// Time, host, program and body, as in the files of syslog servers.
    Syslog,
}

impl Encoding {
    /// Appends all records, each as a line.
    pub fn lines(self, records: &Selection, out: &mut Vec<u8>) {
        match self {
            Self::Raw => records.records().for_each(|(_, record)| raw_line(&record, out)),
            Self::Json | Self::Syslog => {
                records.records().for_each(|(_, record)| self.line(records, &record, out));
            }
        }
    }

    /// Appends one of the records as a line.
    pub fn line(self, records: &Selection, record: &RecordView<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Raw => raw_line(record, out),
            Self::Json => {
                let observed_ns = records.batch().header().observed_ns;
                json_line(record, observed_ns, records.resource_of(record).encoded, out);
            }
            Self::Syslog => syslog_line(records, record, out),
        }
    }
}

/// Appends the body as bytes and ends the line.
pub(super) fn raw_line(record: &RecordView<'_>, out: &mut Vec<u8>) {
    if record.flags.contains(RecordFlags::JSON_ESCAPED) {
        push_unescaped(record.body, out);
    } else {
        push_without_newlines(record.body, out);
    }
    out.push(b'\n');
}

/// Decodes JSON escapes, except for newlines, which stay as they are written.
fn push_unescaped(escaped: &[u8], out: &mut Vec<u8>) {
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (escape, after) = rest[at..].split_at(escape_len(&rest[at..]));
        match escape {
            b"\\\"" | b"\\\\" => out.push(escape[1]),
            b"\\n" => out.extend_from_slice(escape),
            _ => push_without_newlines(&unescape_json(escape), out),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}

/// Returns the length of the escape that `text` starts with; a surrogate pair counts as one.
fn escape_len(text: &[u8]) -> usize {
    const HIGH: RangeInclusive<u32> = 0xd8..=0xdb;
    const LOW: RangeInclusive<u32> = 0xdc..=0xdf;
    // The first two digits of an escape determine which half of a pair it is, if any.
    let half = |at: usize| match text.get(at..at + 4) {
        Some([b'\\', b'u', high, low]) => {
            let digit = |b: u8| char::from(b).to_digit(16);
            Some(digit(*high)? * 16 + digit(*low)?)
        }
        _ => None,
    };
    let is = |at: usize, range: &RangeInclusive<u32>| half(at).is_some_and(|n| range.contains(&n));
    let len = match text {
        _ if is(0, &HIGH) && is(6, &LOW) => 12,
        [_, b'u', ..] => 6,
        _ => 2,
    };
    len.min(text.len())
}

fn push_without_newlines(text: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for at in memchr::memchr_iter(b'\n', text) {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(b"\\n");
        from = at + 1;
    }
    out.extend_from_slice(&text[from..]);
}

/// Appends one JSON object in the terms of the OpenTelemetry log data model, and ends the line.
fn json_line(record: &RecordView<'_>, observed_ns: i64, resource: &[u8], out: &mut Vec<u8>) {
    open_json(record, observed_ns, resource, out);
    out.extend_from_slice(b"}\n");
}

/// Appends a record as that JSON object without its closing brace, so that members can be added.
/// `resource` is the JSON of its resource.
pub fn open_json(record: &RecordView<'_>, observed_ns: i64, resource: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"timestamp\":\"");
    format_rfc3339_ns(record.timestamp_ns, out);
    out.extend_from_slice(b"\",\"observed_timestamp\":\"");
    format_rfc3339_ns(observed_ns, out);
    if !record.severity.text().is_empty() {
        out.extend_from_slice(b"\",\"severity_text\":\"");
        out.extend_from_slice(record.severity.text().as_bytes());
    }
    out.extend_from_slice(b"\",\"body\":\"");
    push_json_body(record, out);
    out.push(b'"');
    push_attributes(record, out);
    if !resource.is_empty() && resource != b"{}" {
        out.extend_from_slice(b",\"resource\":");
        out.extend_from_slice(resource);
    }
}

/// Appends the body as the content of a JSON string; bytes that are not UTF-8 are replaced.
fn push_json_body(record: &RecordView<'_>, out: &mut Vec<u8>) {
    if !record.flags.contains(RecordFlags::JSON_ESCAPED) {
        escape_json_into(record.body, out);
    } else if simdutf8::basic::from_utf8(record.body).is_ok() {
        out.extend_from_slice(record.body);
    } else {
        out.extend_from_slice(String::from_utf8_lossy(record.body).as_bytes());
    }
}

fn push_attributes(record: &RecordView<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b",\"attributes\":{");
    let first = out.len();
    let own = attributes_of(record.attributes);
    if let Some(own) = own.as_ref().and_then(|own| serde_json::to_vec(own).ok()) {
        out.extend_from_slice(&own[1..own.len() - 1]);
    }
    push_header(record, own.as_ref(), first, out);
    let mut push = |text: &[u8]| {
        if out.len() > first {
            out.push(b',');
        }
        out.extend_from_slice(text);
    };
    match record.flags.iostream() {
        Some("stderr") => push(b"\"log.iostream\":\"stderr\""),
        Some(_) => push(b"\"log.iostream\":\"stdout\""),
        None => {}
    }
    if record.flags.contains(RecordFlags::TRUNCATED) {
        push(b"\"log.truncated\":true");
    }
    if out.len() == first {
        out.truncate(start);
    } else {
        out.push(b'}');
    }
}

/// Appends the columns of a syslog header as members of the JSON object whose first member begins
/// at `first`. An attribute of the same name takes precedence.
pub(super) fn push_header(
    record: &RecordView<'_>,
    attributes: Option<&Map<String, Value>>,
    first: usize,
    out: &mut Vec<u8>,
) {
    if !record.has_header() {
        return;
    }
    for field in HeaderField::COLUMNS {
        let (name, text) = (field.attribute(), record.header_field(field));
        if text.is_empty() || attributes.is_some_and(|known| known.contains_key(name)) {
            continue;
        }
        if out.len() > first {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":\"");
        escape_json_into(text, out);
        out.push(b'"');
    }
}

/// Parses attributes; `None` if there are none, or if they are not a JSON object (they came from
/// outside, and one bad record must not spoil its line).
pub(super) fn attributes_of(attributes: &[u8]) -> Option<Map<String, Value>> {
    if attributes.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(attributes);
    serde_json::from_str(&text).ok().filter(|parsed: &Map<String, Value>| !parsed.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unescaped(escaped: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_unescaped(escaped, &mut out);
        out
    }

    #[test]
    fn an_unpaired_surrogate_does_not_swallow_the_next_pair() {
        let two = "\u{fffd}\u{b80aa}".as_bytes();
        assert_eq!(unescaped(br"\uDA0A\udAa0\udcaa"), two);
    }

    #[test]
    fn newlines_stay_escaped_and_nothing_else_does() {
        assert_eq!(
            unescaped(br#"a\nb\u000ac \"q\" \\ \t\u00e9\ud83d\ude00"#),
            "a\\nb\\nc \"q\" \\ \té😀".as_bytes()
        );
    }

    proptest! {
        #[test]
        fn unescaping_in_place_agrees_with_the_model(
            text in r#"([a-z]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-f]{2}\\u[dD][c-f][0-9a-f]{2}){0,20}"#
        ) {
            let mut want = Vec::new();
            push_without_newlines(&unescape_json(text.as_bytes()), &mut want);
            prop_assert_eq!(unescaped(text.as_bytes()), want);
        }
    }
}
