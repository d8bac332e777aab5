//! How encoded records are told apart: where one ends and the next begins.
//!
//! Invariant: one record is exactly one line, one element, one datagram.

use std::ops::Range;

use weir_model::{RecordFlags, RecordView, Selection};

use super::Encoding;

/// How JSON objects are put together in one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One per line (NDJSON).
    Lines,
    /// As the elements of one array.
    Array,
}

impl Framing {
    /// Appends records number `range`. In an array each has a comma before it.
    pub fn append(self, records: &Selection, range: Range<usize>, out: &mut Vec<u8>) {
        for record in records.part(range) {
            if self == Self::Array {
                out.push(b',');
            }
            Encoding::Json.line(records, &record, out);
        }
    }

    /// Makes a body of what was appended: the first comma is where the array begins.
    pub fn complete(self, body: &mut Vec<u8>) {
        if self == Self::Array {
            match body.first_mut() {
                Some(first) => *first = b'[',
                None => body.push(b'['),
            }
            body.push(b']');
        }
    }
}

/// Appends a record as a datagram of at most `bytes_max` bytes, without the end of the line. Returns
/// false when part of the body had to be left out; then the record is marked as truncated.
pub fn datagram(
    encoding: Encoding,
    records: &Selection,
    record: &RecordView<'_>,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    whole(encoding, records, record, out);
    let is_whole = out.len() - start <= bytes_max;
    if !is_whole {
        out.truncate(start);
        shortened(encoding, records, record, bytes_max, out);
    }
    is_whole
}

fn whole(encoding: Encoding, records: &Selection, record: &RecordView<'_>, out: &mut Vec<u8>) {
    encoding.line(records, record, out);
    out.pop();
}

/// Appends a record of which so much of the body is left out that it fits, marked as truncated.
fn shortened(
    encoding: Encoding,
    records: &Selection,
    record: &RecordView<'_>,
    max: usize,
    out: &mut Vec<u8>,
) {
    let body = record.plain_body();
    let start = out.len();
    let mut keep = body.len().min(max);
    loop {
        let mut view = *record;
        view.body = body.get(..floor(&body, keep)).unwrap_or_default();
        view.flags = without_escapes(record.flags).with(RecordFlags::TRUNCATED);
        whole(encoding, records, &view, out);
        let len = out.len() - start;
        if len <= max || keep == 0 {
            break;
        }
        out.truncate(start);
        // What escapes and the rest of the object add is not known beforehand.
        keep = keep.saturating_sub((len - max).min(keep / 2 + 1));
    }
    out.truncate(start + max);
}

fn without_escapes(flags: RecordFlags) -> RecordFlags {
    RecordFlags(flags.0 & !RecordFlags::JSON_ESCAPED.0)
}

/// The end of the last whole character at or before `at`, in what is UTF-8.
fn floor(bytes: &[u8], at: usize) -> usize {
    let is_inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(at)).unwrap_or(at)
}
