//! Records as HEC events, or as raw lines.
//!
//! Invariants: one record is one event (or one line); nothing is allocated per record; everything
//! that the records of a batch have in common is rendered once per resource and kept in a bounded
//! cache. Bodies that are still JSON-escaped are copied as they are. A body that is a JSON object
//! is sent as a string nevertheless: the collector indexes the exact text and extracts its fields
//! at search time, and objects need not be validated. Invalid UTF-8 is replaced in events (JSON
//! cannot carry it) and kept in raw mode.
#![cfg_attr(
    not(test),
    expect(clippy::indexing_slicing, reason = "one of three streams; places just written to")
)]

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;
use weir_model::{RecordFlags, RecordView, Resource, Selection};

use super::line::{attributes_of, push_header, raw_line};
use crate::{escape_json_into, percent_encoded};

/// Resources whose rendering is cached: more than the files active at once on a busy node.
const RESOURCES_MAX: usize = 4096;
/// Room reserved per event in addition to its body and the rendered text after it.
const EVENT_OVERHEAD_BYTES: usize = 64;

/// How events are sent to HEC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HecMode {
    /// JSON events.
    Event,
    /// Raw lines.
    Raw,
}

/// Metadata of events unless the record's resource overrides it.
#[derive(Debug, Clone)]
pub struct HecMetadata {
    /// The index.
    pub index: Option<String>,
    /// The source type.
    pub sourcetype: Option<String>,
    /// The source; else the path of the record's file.
    pub source: Option<String>,
    /// The host.
    pub host: String,
}

/// Names of resource attributes that set an event's metadata, as in the Splunk exporter of
/// OpenTelemetry.
const INDEX: &str = "com.splunk.index";
const SOURCETYPE: &str = "com.splunk.sourcetype";
const SOURCE: &str = "com.splunk.source";
const HOST: &str = "host.name";
const PATH: &str = "log.file.path";

/// Everything after the body, for one resource.
#[derive(Debug)]
struct Tails {
    /// Complete, by standard stream: none, stdout, stderr.
    complete: [Vec<u8>; 3],
    /// Without the closing braces; ends within `fields`.
    open: Vec<u8>,
    /// `open` ends after a field.
    has_fields: bool,
    /// Raw mode: the metadata as a query string.
    query: Arc<str>,
    /// The index was set by the resource, not by the configuration.
    own_index: bool,
}

/// Writes records for a collector; one per output.
#[derive(Debug)]
pub struct HecEncoder {
    mode: HecMode,
    rendered: Rendered,
    head: Head,
}

/// What follows the body in the events of each resource, rendered once.
#[derive(Debug)]
struct Rendered {
    defaults: HecMetadata,
    tails: HashMap<Vec<u8>, Arc<Tails>>,
}

/// The rendering for the records being encoded: it changes with their resource.
struct Current<'a> {
    rendered: &'a mut Rendered,
    records: &'a Selection,
    number: u16,
    tails: Arc<Tails>,
}

impl<'a> Current<'a> {
    fn new(rendered: &'a mut Rendered, records: &'a Selection) -> Self {
        let tails = rendered.tails(records.batch().resource(0).encoded);
        Self { rendered, records, number: 0, tails }
    }

    #[inline]
    fn of(&mut self, record: &RecordView<'_>) -> &Tails {
        if record.resource() != self.number {
            self.number = record.resource();
            self.tails = self.rendered.tails(self.records.batch().resource(self.number).encoded);
        }
        &self.tails
    }
}

impl HecEncoder {
    /// Creates an encoder with default metadata.
    pub fn new(mode: HecMode, defaults: HecMetadata) -> Self {
        let rendered = Rendered { defaults, tails: HashMap::new() };
        Self { mode, rendered, head: Head::new() }
    }

    /// Calls `visit` with the query of the request that records must be sent in, and the number of
    /// consecutive records it applies to. Records with different queries cannot share a request. It
    /// is always empty for events, which carry their own metadata.
    pub fn queries(&mut self, records: &Selection, mut visit: impl FnMut(&Arc<str>, usize)) {
        if self.mode == HecMode::Event {
            return visit(&Arc::from(""), records.len());
        }
        if records.batch().resource_count() < 2 {
            let tails = self.rendered.tails(records.batch().resource(0).encoded);
            return visit(&tails.query, records.len());
        }
        let mut current = Current::new(&mut self.rendered, records);
        for (_, record) in records.records() {
            visit(&current.of(&record).query, 1);
        }
    }

    /// Returns true if record number `number` sets an index of its own.
    pub fn has_own_index(&mut self, records: &Selection, number: usize) -> bool {
        let mut current = Current::new(&mut self.rendered, records);
        let record = records.part(number..number + 1).next();
        record.is_some_and(|record| current.of(&record).own_index)
    }

    /// Appends the records in `range`.
    pub fn encode(
        &mut self,
        records: &Selection,
        range: std::ops::Range<usize>,
        out: &mut Vec<u8>,
    ) {
        if self.mode == HecMode::Raw {
            records.part(range).for_each(|record| raw_line(&record, out));
            return;
        }
        // The finished text is validated once, while it is in the processor cache; only if it turns
        // out not to be UTF-8 is it encoded again, body by body.
        let start = out.len();
        self.encode_events(records, range.clone(), Bodies::AsTheyAre, usize::MAX, out);
        if records.batch().is_utf8() {
            return;
        }
        if simdutf8::basic::from_utf8(&out[start..]).is_err() {
            out.truncate(start);
            self.encode_events(records, range, Bodies::Repaired, usize::MAX, out);
        }
    }

    /// Returns the length of the events of these records, if it is known before they are encoded:
    /// bodies that are copied as they are, without additional fields.
    pub fn length(&mut self, records: &Selection, range: std::ops::Range<usize>) -> Option<usize> {
        if self.mode == HecMode::Raw || !records.batch().is_utf8() {
            return None;
        }
        let mut current = Current::new(&mut self.rendered, records);
        let observed_ns = records.batch().header().observed_ns;
        let mut len = 0;
        let counted = records.visit(range, |record| {
            if !is_plain(&record)
                || !record.flags.contains(RecordFlags::JSON_ESCAPED)
                || is_blank(&record)
            {
                return ControlFlow::Break(());
            }
            let head = Head::len_at(time_of(&record, observed_ns));
            let tail = current.of(&record).complete[stream_number(record.flags)].len();
            len += head + record.body.len() + QUOTE.len() + tail;
            ControlFlow::Continue(())
        });
        counted.is_continue().then_some(len)
    }

    /// Appends events whose [`Self::length`] is known, until `out` is that long; returns their
    /// number.
    pub fn encode_checked(
        &mut self,
        records: &Selection,
        range: std::ops::Range<usize>,
        until: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        self.encode_events(records, range, Bodies::AsTheyAre, until, out)
    }

    fn encode_events(
        &mut self,
        records: &Selection,
        range: std::ops::Range<usize>,
        bodies: Bodies,
        until: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut current = Current::new(&mut self.rendered, records);
        let observed_ns = records.batch().header().observed_ns;
        let mut count = 0;
        let head = &mut self.head;
        let _until_enough = records.visit(range, |record| {
            if out.len() >= until {
                return ControlFlow::Break(());
            }
            let tails = current.of(&record);
            let tail = &tails.complete[stream_number(record.flags)];
            out.reserve(record.body.len() + tail.len() + EVENT_OVERHEAD_BYTES);
            out.extend_from_slice(head.at(time_of(&record, observed_ns)));
            push_body(&record, bodies, out);
            if is_plain(&record) {
                out.extend_from_slice(tail);
            } else {
                push_special(tails, &record, out);
            }
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }
}

impl Rendered {
    fn tails(&mut self, resource: &[u8]) -> Arc<Tails> {
        if let Some(tails) = self.tails.get(resource) {
            return tails.clone();
        }
        if self.tails.len() >= RESOURCES_MAX {
            self.tails.clear();
        }
        let tails = Arc::new(self.defaults.render(&Resource::decode(resource)));
        self.tails.insert(resource.to_vec(), tails.clone());
        tails
    }
}

/// What to do with bodies that are copied without validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    /// Nothing.
    AsTheyAre,
    /// Replace whatever is not UTF-8.
    Repaired,
}

/// Returns the time of the event: a record without a time of its own has that of its batch.
#[inline]
fn time_of(record: &RecordView<'_>, observed_ns: i64) -> i64 {
    if record.timestamp_ns > 0 { record.timestamp_ns } else { observed_ns }
}

/// Returns true if the record has nothing to send but the body and the stream.
#[inline]
fn is_plain(record: &RecordView<'_>) -> bool {
    record.attributes.is_empty()
        && record.severity.0 == 0
        && !record.flags.contains(RecordFlags::TRUNCATED)
        && !record.has_header()
}

#[inline]
fn stream_number(flags: RecordFlags) -> usize {
    if flags.contains(RecordFlags::STDERR) {
        2
    } else {
        usize::from(flags.contains(RecordFlags::STDOUT))
    }
}

/// Appends the body and the closing quote; the opening quote is part of the head. A body that
/// consists only of white space, which collectors refuse as blank, is wrapped in an object.
#[inline]
fn push_body(record: &RecordView<'_>, bodies: Bodies, out: &mut Vec<u8>) {
    if is_blank(record) {
        out.pop();
        out.extend_from_slice(b"{\"message\":\"");
        escape_json_into(&record.plain_body(), out);
        out.extend_from_slice(b"\"}");
        return;
    }
    if !record.flags.contains(RecordFlags::JSON_ESCAPED) {
        escape_json_into(record.body, out);
    } else if bodies == Bodies::Repaired {
        out.extend_from_slice(String::from_utf8_lossy(record.body).as_bytes());
    } else {
        out.extend_from_slice(record.body);
    }
    out.extend_from_slice(QUOTE);
}

/// Follows a body.
const QUOTE: &[u8] = b"\"";

/// Longer bodies are not checked: a collector that considers so much white space blank refuses that
/// one event, and it goes to the dead-letter file.
const BLANK_BYTES_MAX: usize = 256;

#[inline]
fn is_blank(record: &RecordView<'_>) -> bool {
    let space = |b: &u8| b.is_ascii_whitespace() || (b < &0x20);
    if record.body.len() > BLANK_BYTES_MAX {
        return false;
    }
    match record.body.first() {
        None => true,
        Some(b) if space(b) || *b == b'\\' => record.plain_body().iter().all(space),
        Some(_) => false,
    }
}

/// Appends what follows the body of a record with attributes, severity, flags or a header.
fn push_special(tails: &Tails, record: &RecordView<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&tails.open);
    // Where the first field would be.
    let first = if tails.has_fields { 0 } else { out.len() };
    let push = |text: &str, out: &mut Vec<u8>| {
        if out.len() > first {
            out.push(b',');
        }
        out.extend_from_slice(text.as_bytes());
    };
    match stream_number(record.flags) {
        1 => push(r#""log.iostream":"stdout""#, out),
        2 => push(r#""log.iostream":"stderr""#, out),
        _ => {}
    }
    if !record.severity.text().is_empty() {
        push(&format!(r#""severity_text":"{}""#, record.severity.text()), out);
    }
    if record.flags.contains(RecordFlags::TRUNCATED) {
        push(r#""log.truncated":"true""#, out);
    }
    let own = attributes_of(record.attributes);
    push_header(record, own.as_ref(), first, out);
    if let Some(fields) = own.as_ref().and_then(flat_fields) {
        push(&fields, out);
    }
    out.extend_from_slice(b"}}");
}

/// Returns attributes as the content of a flat object, which is all that a collector accepts as
/// fields: nested values become their JSON text, nulls are left out. `None` if nothing is left.
fn flat_fields(attributes: &serde_json::Map<String, Value>) -> Option<String> {
    let mut out = String::new();
    for (key, value) in attributes {
        push_field(key, value, &mut out);
    }
    (!out.is_empty()).then_some(out)
}

fn push_field(key: &str, value: &Value, out: &mut String) {
    let value = match value {
        Value::Null => return,
        Value::Array(_) | Value::Object(_) => Value::String(value.to_string()),
        plain => plain.clone(),
    };
    let comma = if out.is_empty() { "" } else { "," };
    // Writing to a string does not fail.
    let _written = write!(out, "{comma}{}:{value}", Value::from(key));
}

impl HecMetadata {
    fn render(&self, resource: &Resource) -> Tails {
        let text = |name: &str| resource.text(name).map(ToOwned::to_owned);
        let own_index = text(INDEX).is_some();
        let metadata = [
            ("host", text(HOST).or_else(|| Some(self.host.clone()))),
            ("source", text(SOURCE).or_else(|| self.source.clone()).or_else(|| text(PATH))),
            ("sourcetype", text(SOURCETYPE).or_else(|| self.sourcetype.clone())),
            ("index", text(INDEX).or_else(|| self.index.clone())),
        ];
        let mut open = String::new();
        let mut query = String::new();
        for (key, value) in metadata {
            let Some(value) = value else { continue };
            let _written = write!(open, ",\"{key}\":{}", Value::from(value.as_str()));
            query.push(if query.is_empty() { '?' } else { '&' });
            let _written = write!(query, "{key}={}", percent_encoded(&value));
        }
        let mut fields = String::new();
        let used = [HOST, SOURCE, SOURCETYPE, INDEX];
        for (key, value) in resource.iter().filter(|(key, _)| !used.contains(key)) {
            push_field(key, value, &mut fields);
        }
        let complete = ["", "stdout", "stderr"].map(|stream| complete(&open, &fields, stream));
        let _written = write!(open, ",\"fields\":{{{fields}");
        let has_fields = !fields.is_empty();
        Tails { complete, open: open.into_bytes(), has_fields, query: query.into(), own_index }
    }
}

/// Returns the complete rest of an event after the closing quote of its body.
fn complete(metadata: &str, fields: &str, stream: &str) -> Vec<u8> {
    let comma = if fields.is_empty() { "" } else { "," };
    match (stream, fields) {
        ("", "") => format!("{metadata}}}"),
        ("", _) => format!("{metadata},\"fields\":{{{fields}}}}}"),
        _ => format!("{metadata},\"fields\":{{{fields}{comma}\"log.iostream\":\"{stream}\"}}}}"),
    }
    .into_bytes()
}

/// `{"time":1700000000.123456789,"event":"`, kept and patched: seconds rarely change.
#[derive(Debug)]
struct Head {
    bytes: Vec<u8>,
    seconds: u64,
}

const TIME_AT: usize = br#"{"time":"#.len();
const EVENT: &[u8] = br#","event":""#;

impl Head {
    fn new() -> Self {
        Self { bytes: Vec::new(), seconds: u64::MAX }
    }

    #[inline]
    fn at(&mut self, time_ns: i64) -> &[u8] {
        let time_ns = time_ns.max(0).cast_unsigned();
        let (seconds, nanos) = (time_ns / 1_000_000_000, (time_ns % 1_000_000_000) as u32);
        if seconds != self.seconds {
            self.bytes = format!("{{\"time\":{seconds}.000000000").into_bytes();
            self.bytes.extend_from_slice(EVENT);
            self.seconds = seconds;
        }
        let end = self.bytes.len() - EVENT.len();
        if let Some(digits) = self.bytes[TIME_AT..end].last_chunk_mut::<9>() {
            write_nanos(nanos, digits);
        }
        &self.bytes
    }

    /// Returns the length of the head at that time.
    #[inline]
    fn len_at(time_ns: i64) -> usize {
        let seconds = time_ns.max(0).cast_unsigned() / 1_000_000_000;
        // Since 2001, and for the whole range of the type, there are ten digits.
        let digits = match seconds {
            1_000_000_000.. => 10,
            _ => seconds.checked_ilog10().map_or(1, |log| log as usize + 1),
        };
        TIME_AT + digits + b".000000000".len() + EVENT.len()
    }
}

/// Writes nine digits: one, then eight that are computed in parallel in one word, the first in its
/// lowest byte. Divisions are multiplications with the reciprocal, exact for numbers of this size.
#[inline]
fn write_nanos(nanos: u32, digits: &mut [u8; 9]) {
    let (first, rest) = (nanos / 100_000_000, u64::from(nanos % 100_000_000));
    let fours = (rest / 10_000) | ((rest % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - tens * 10) << 8);
    digits[0] = b'0' + first as u8;
    digits[1..].copy_from_slice(&(ones | 0x3030_3030_3030_3030).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::write_nanos;

    #[test]
    fn nanoseconds_are_written_as_nine_digits() {
        let edges = [0, 9, 10, 99, 100, 9_999, 10_000, 99_999_999, 100_000_000, 999_999_999];
        for nanos in edges.into_iter().chain((0..1_000_000_000).step_by(7_919)) {
            let mut digits = [0; 9];
            write_nanos(nanos, &mut digits);
            assert_eq!(String::from_utf8_lossy(&digits), format!("{nanos:09}"));
        }
    }
}
