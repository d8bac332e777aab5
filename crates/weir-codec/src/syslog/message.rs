//! Converts a message to a record.

use std::ops::Range;

use weir_model::{BatchBuilder, Facility, Full, NewRecord, RecordFlags, Severity, SourceBook};

use super::elements::ElementWriter;
use super::framing::without_line_end;
use super::header;
use super::stamp::StampReader;

/// The format of a message's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyslogFormat {
    /// `<165>1 2003-10-11T22:14:15.003Z host app 8710 ID47 [ex@1 a="b"] text`.
    Rfc5424,
    /// `<34>Oct 11 22:14:15 host su[42]: text`, and what devices write in its place.
    Rfc3164,
}

/// A parsed message. Its parts are parts of `line`, and empty if they are missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SyslogMessage<'l> {
    /// The whole message, without a line end.
    pub line: &'l [u8],
    /// The format of its header; `None` if it has at most a priority.
    pub format: Option<SyslogFormat>,
    /// Facility, if there is a priority.
    pub facility: Facility,
    /// Severity, if there is a priority.
    pub severity: Severity,
    /// The time in its header, nanoseconds since 1970.
    pub time_ns: Option<i64>,
    /// The host that it is from.
    pub hostname: &'l [u8],
    /// The program that it is from.
    pub app_name: &'l [u8],
    /// The process that it is from.
    pub process_id: &'l [u8],
    /// The type of message.
    pub message_id: &'l [u8],
    /// Well-formed structured data.
    pub structured_data: &'l [u8],
    /// The text after the header.
    pub body: &'l [u8],
    /// Nothing in it was recognized, or its structured data is not well-formed and part of the
    /// body.
    pub is_malformed: bool,
    /// The number in front, if there is one.
    pub(crate) priority: Option<u8>,
    /// The time and the words of its header are in the form that its RFC describes.
    pub(crate) is_standard: bool,
}

impl SyslogMessage<'_> {
    /// Returns the span of a part of the message in a copy of the line that starts at `start`.
    pub(crate) fn span_of(&self, part: &[u8], start: usize) -> Range<usize> {
        let at = part.as_ptr().addr().checked_sub(self.line.as_ptr().addr());
        match at.filter(|at| at + part.len() <= self.line.len() && !part.is_empty()) {
            Some(at) => start + at..start + at + part.len(),
            None => 0..0,
        }
    }
}

/// Properties of a message that are not in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyslogOrigin {
    /// Number of the record's resource in the batch.
    pub resource: u16,
    /// Offset in the stream after the record.
    pub end_offset: u64,
    /// Time of receipt, nanoseconds since 1970: the time of messages without one.
    pub observed_ns: i64,
    /// The message is only the beginning of one that was too long. The caller counts how many bytes
    /// were skipped ([`SourceBook::abandon`]).
    pub is_truncated: bool,
}

/// Parses messages and adds them to batches; one per connection, or per thread.
#[derive(Debug, Clone)]
pub struct SyslogDecoder {
    stamps: StampReader,
    elements: ElementWriter,
    attributes: Vec<u8>,
}

impl Default for SyslogDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl SyslogDecoder {
    /// Creates a decoder that reads times without a zone as UTC.
    pub fn new() -> Self {
        Self {
            stamps: StampReader::new(),
            elements: ElementWriter::default(),
            attributes: Vec::new(),
        }
    }

    /// Sets the zone of times without one, in seconds east of UTC.
    pub fn set_utc_offset(&mut self, seconds: i32) {
        self.stamps.set_utc_offset(seconds);
    }

    /// Parses a message, received at `observed_ns` (nanoseconds since 1970): a time without a year
    /// is in the year that brings it nearest to that. A line end is not part of the message.
    #[inline]
    pub fn parse<'l>(&mut self, line: &'l [u8], observed_ns: i64) -> SyslogMessage<'l> {
        header::read(without_line_end(line), &mut self.stamps, observed_ns)
    }

    /// Adds a message to a batch as a record, and counts it. After [`Full`] nothing was added or
    /// counted: push the message again to the next batch.
    pub fn push(
        &mut self,
        batch: &mut BatchBuilder,
        message: &SyslogMessage<'_>,
        origin: &SyslogOrigin,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        self.attributes.clear();
        if !message.structured_data.is_empty() {
            self.elements.write(message.structured_data, &mut self.attributes);
        }
        let line = message.line;
        if batch.room() < line.len() + self.attributes.len() {
            return Err(Full);
        }
        let original = batch.append(line)?;
        let attributes = batch.append(&self.attributes)?;
        let start = original.start;
        let pushed = batch.push(&NewRecord {
            timestamp_ns: message.time_ns.unwrap_or(origin.observed_ns),
            end_offset: origin.end_offset,
            body: message.span_of(message.body, start),
            attributes: attributes.clone(),
            severity: message.severity,
            flags: flags(message, origin),
            process_id: message.span_of(message.process_id, start),
            message_id: message.span_of(message.message_id, start),
            original,
            resource: origin.resource,
            facility: message.facility,
            ..NewRecord::default()
        });
        if pushed.is_err() {
            batch.retract(start);
            return pushed;
        }
        if simdutf8::basic::from_utf8(line).is_ok() {
            batch.mark_utf8(start..attributes.end);
        }
        book.lines += 1;
        book.records += 1;
        book.malformed += u64::from(message.is_malformed);
        book.truncated += u64::from(origin.is_truncated);
        book.bytes_read += line.len() as u64;
        Ok(())
    }
}

fn flags(message: &SyslogMessage<'_>, origin: &SyslogOrigin) -> RecordFlags {
    let mut flags = RecordFlags::default();
    if message.is_malformed {
        flags = flags.with(RecordFlags::MALFORMED);
    }
    if origin.is_truncated {
        flags = flags.with(RecordFlags::TRUNCATED);
    }
    flags
}
