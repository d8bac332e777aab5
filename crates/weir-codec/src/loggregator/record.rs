//! Converts envelopes to records.

use std::ops::Range;

use weir_model::limits::LINE_BYTES_MAX;
use weir_model::{
    AbandonReason, BatchBuilder, Full, NewRecord, RecordFlags, RecordKind, Severity, SourceBook,
};

use super::envelope::{
    LoggregatorEnvelope, LoggregatorMessage, LoggregatorMetric, LoggregatorTagValue,
};
use crate::escape::write_json_text as write_text;
use crate::join::cut_body;
use crate::time::push_number;

/// Properties of an envelope that are not in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoggregatorOrigin<'o> {
    /// Number of the record's resource in the batch.
    pub resource: u16,
    /// Offset in the stream after the record.
    pub end_offset: u64,
    /// Time of receipt, nanoseconds since 1970: the time of envelopes without one.
    pub observed_ns: i64,
    /// Fields to append to the envelope, such as missing tags.
    pub added: &'o [u8],
}

/// Adds envelopes to batches; one per thread.
#[derive(Debug, Clone, Default)]
pub struct LoggregatorDecoder {
    body: Vec<u8>,
    attributes: Vec<u8>,
}

/// The fields of the record of an envelope.
struct Outline<'e> {
    kind: RecordKind,
    severity: Severity,
    flags: RecordFlags,
    /// The body, if it is a part of the envelope.
    text: Option<&'e [u8]>,
}

impl LoggregatorDecoder {
    /// Adds an envelope to a batch as one record, and counts it. `tags` are those that its resource
    /// does not have: attributes of a log, and tags of a metric. After [`Full`] nothing was added
    /// or counted: push the envelope again to the next batch.
    ///
    /// An envelope of more than [`LINE_BYTES_MAX`] is truncated: its record has no original, and
    /// the beginning of its body.
    pub fn push<'t>(
        &mut self,
        batch: &mut BatchBuilder,
        envelope: &LoggregatorEnvelope<'_>,
        tags: impl Iterator<Item = (&'t [u8], LoggregatorTagValue<'t>)>,
        origin: &LoggregatorOrigin<'_>,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        self.body.clear();
        self.attributes.clear();
        let outline = self.outline(envelope, tags);
        let timestamp_ns = match envelope.timestamp_ns {
            0 => origin.observed_ns,
            stated_ns => stated_ns,
        };
        let record = NewRecord {
            timestamp_ns,
            end_offset: origin.end_offset,
            severity: outline.severity,
            flags: outline.flags,
            resource: origin.resource,
            kind: outline.kind,
            ..NewRecord::default()
        };
        self.add(batch, (envelope.bytes, origin.added), outline.text, record, book)
    }

    /// Adds bytes that are not an envelope, unchanged.
    pub fn push_malformed(
        &mut self,
        batch: &mut BatchBuilder,
        bytes: &[u8],
        origin: &LoggregatorOrigin<'_>,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        self.body.clear();
        self.attributes.clear();
        let kept = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
        let start = batch.arena().len();
        let body = batch.append(kept)?;
        let mut flags = RecordFlags::MALFORMED;
        if kept.len() < bytes.len() {
            flags = flags.with(RecordFlags::TRUNCATED);
        }
        let record = NewRecord {
            timestamp_ns: origin.observed_ns,
            end_offset: origin.end_offset,
            body,
            flags,
            resource: origin.resource,
            ..NewRecord::default()
        };
        push_counted(batch, start, &record, kept.len(), bytes.len(), book)
    }

    /// Determines the fields of the record, and writes a body that is not a part of the envelope.
    fn outline<'e, 't>(
        &mut self,
        envelope: &LoggregatorEnvelope<'e>,
        tags: impl Iterator<Item = (&'t [u8], LoggregatorTagValue<'t>)>,
    ) -> Outline<'e> {
        let none = RecordFlags::default();
        let (kind, text) = match envelope.message {
            LoggregatorMessage::Log { payload, is_error } => {
                write_attributes(tags, &mut self.attributes);
                let (severity, flags) = if is_error {
                    (Severity::ERROR, RecordFlags::STDERR)
                } else {
                    (Severity::INFO, RecordFlags::STDOUT)
                };
                return Outline { kind: RecordKind::Log, severity, flags, text: Some(payload) };
            }
            LoggregatorMessage::None => {
                write_attributes(tags, &mut self.attributes);
                (RecordKind::Log, Some(&b""[..]))
            }
            LoggregatorMessage::Counter { name, delta, total } => {
                write_name(name, &mut self.body);
                self.body.extend_from_slice(b"\"value\":");
                push_number(delta, &mut self.body);
                if total != 0 {
                    self.body.extend_from_slice(b",\"total\":");
                    push_number(total, &mut self.body);
                }
                write_tags(&[], tags, &mut self.body);
                (RecordKind::Counter, None)
            }
            LoggregatorMessage::Gauge(gauge) => {
                write_metrics(gauge.metrics(), &mut self.body);
                write_tags(&[], tags, &mut self.body);
                (RecordKind::Gauge, None)
            }
            LoggregatorMessage::Timer { name, start_ns, stop_ns } => {
                write_name(name, &mut self.body);
                let seconds = (i128::from(stop_ns) - i128::from(start_ns)) as f64 / 1e9;
                self.body.extend_from_slice(b"\"value\":");
                write_number(seconds, &mut self.body);
                self.body.extend_from_slice(b",\"unit\":\"s\"");
                write_tags(&[], tags, &mut self.body);
                (RecordKind::Timer, None)
            }
            LoggregatorMessage::Event { title, body } => {
                write_name(title, &mut self.body);
                self.body.extend_from_slice(b"\"value\":1");
                write_tags(&[(b"title", title), (b"text", body)], tags, &mut self.body);
                (RecordKind::Event, None)
            }
        };
        let flags = if text.is_some() { none } else { RecordFlags::JSON_OBJECT };
        Outline { kind, severity: Severity::UNSPECIFIED, flags, text }
    }

    /// Adds the record with its bytes; `text` is its body if that is a part of the envelope.
    fn add(
        &self,
        batch: &mut BatchBuilder,
        (envelope, added): (&[u8], &[u8]),
        text: Option<&[u8]>,
        mut record: NewRecord,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let start = batch.arena().len();
        let parts = self.attributes.len() + if text.is_none() { self.body.len() } else { 0 };
        let is_whole = envelope.len() + added.len() + parts <= LINE_BYTES_MAX;
        let mut kept = envelope.len();
        let placed = if is_whole {
            self.place_whole(batch, (envelope, added), text, &mut record)
        } else {
            self.place_beginning(batch, text, &mut record).map(|len| kept = len)
        };
        if placed.is_err() {
            batch.retract(start);
            return Err(Full);
        }
        push_counted(batch, start, &record, kept, envelope.len(), book)
    }

    fn place_whole(
        &self,
        batch: &mut BatchBuilder,
        (envelope, added): (&[u8], &[u8]),
        text: Option<&[u8]>,
        record: &mut NewRecord,
    ) -> Result<(), Full> {
        let start = batch.append(envelope)?.start;
        record.original = start..batch.append(added)?.end;
        record.body = match text {
            Some(text) => within(envelope, text, record.original.start),
            None => batch.append(&self.body)?,
        };
        record.attributes = batch.append(&self.attributes)?;
        Ok(())
    }

    /// Returns how much of the body was kept.
    fn place_beginning(
        &self,
        batch: &mut BatchBuilder,
        text: Option<&[u8]>,
        record: &mut NewRecord,
    ) -> Result<usize, Full> {
        let body = text.unwrap_or(&self.body);
        let len = cut_body(body, record.flags, LINE_BYTES_MAX);
        record.body = batch.append(body.get(..len).unwrap_or(body))?;
        // The truncated body is not an object.
        record.flags = record.flags.without(RecordFlags::JSON_OBJECT).with(RecordFlags::TRUNCATED);
        Ok(len)
    }
}

/// Adds a record and counts it: `kept` of its `len` bytes.
fn push_counted(
    batch: &mut BatchBuilder,
    start: usize,
    record: &NewRecord,
    kept: usize,
    len: usize,
    book: &mut SourceBook,
) -> Result<(), Full> {
    if batch.push(record).is_err() {
        batch.retract(start);
        return Err(Full);
    }
    book.lines += 1;
    book.records += 1;
    book.malformed += u64::from(record.flags.contains(RecordFlags::MALFORMED));
    book.bytes_read += kept.min(len) as u64;
    if record.flags.contains(RecordFlags::TRUNCATED) {
        book.truncated += 1;
        book.abandon(AbandonReason::LineTooLong, len.saturating_sub(kept) as u64);
    }
    Ok(())
}

/// Returns the span of a part of the envelope, in a copy of it that starts at `start`.
fn within(envelope: &[u8], part: &[u8], start: usize) -> Range<usize> {
    let at = part.as_ptr().addr().checked_sub(envelope.as_ptr().addr());
    match at.filter(|at| at + part.len() <= envelope.len() && !part.is_empty()) {
        Some(at) => start + at..start + at + part.len(),
        None => 0..0,
    }
}

/// Begins the object of a metric.
fn write_name(name: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"name\":");
    write_text(name, out);
    out.push(b',');
}

/// Writes a number; infinity and NaN, which JSON does not have, become `null`.
fn write_number(number: f64, out: &mut Vec<u8>) {
    if serde_json::to_writer(&mut *out, &number).is_err() {
        out.extend_from_slice(b"null");
    }
}

/// Writes one measurement as a metric, and several as a list.
fn write_metrics<'e>(
    metrics: impl Iterator<Item = LoggregatorMetric<'e>> + Clone,
    out: &mut Vec<u8>,
) {
    let is_one = metrics.clone().nth(1).is_none();
    if !is_one {
        out.extend_from_slice(b"{\"metrics\":[");
    }
    let mut count = 0;
    for metric in metrics {
        if count > 0 {
            out.push(b',');
        }
        count += 1;
        write_name(metric.name, out);
        out.extend_from_slice(b"\"value\":");
        write_number(metric.value, out);
        if !metric.unit.is_empty() {
            out.extend_from_slice(b",\"unit\":");
            write_text(metric.unit, out);
        }
        if !is_one {
            out.push(b'}');
        }
    }
    if count == 0 {
        write_name(b"", out);
        out.extend_from_slice(b"\"value\":null");
    }
    if !is_one {
        out.push(b']');
    }
}

/// Ends the object of a metric, with these tags.
fn write_tags<'t>(
    first: &[(&[u8], &[u8])],
    tags: impl Iterator<Item = (&'t [u8], LoggregatorTagValue<'t>)>,
    out: &mut Vec<u8>,
) {
    let first = first.iter().map(|(key, text)| (*key, LoggregatorTagValue::Text(text)));
    let mut opening: &[u8] = b",\"tags\":[";
    for (key, value) in first {
        write_tag(&mut opening, key, value, out);
    }
    for (key, value) in tags {
        write_tag(&mut opening, key, value, out);
    }
    out.extend_from_slice(if opening == b"," { b"]}" } else { b"}" });
}

fn write_tag(opening: &mut &[u8], key: &[u8], value: LoggregatorTagValue<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(opening);
    *opening = b",";
    out.push(b'[');
    write_text(key, out);
    out.push(b',');
    write_value(value, out);
    out.push(b']');
}

fn write_value(value: LoggregatorTagValue<'_>, out: &mut Vec<u8>) {
    match value {
        LoggregatorTagValue::Text(text) => write_text(text, out),
        LoggregatorTagValue::Integer(_) | LoggregatorTagValue::Decimal(_) => {
            out.push(b'"');
            value.write(out);
            out.push(b'"');
        }
    }
}

/// Writes tags as the attributes of a log; nothing if there are none.
fn write_attributes<'t>(
    tags: impl Iterator<Item = (&'t [u8], LoggregatorTagValue<'t>)>,
    out: &mut Vec<u8>,
) {
    for (key, value) in tags {
        out.push(if out.is_empty() { b'{' } else { b',' });
        write_text(key, out);
        out.push(b':');
        write_value(value, out);
    }
    if !out.is_empty() {
        out.push(b'}');
    }
}
