//! Framing: how encoded records are delimited.
//!
//! Invariant: one record is exactly one line, one element, one datagram.

use std::ops::Range;

use weir_model::{RecordFlags, RecordView, Selection};

use super::Encoding;

/// How records are combined into a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One JSON object per line (NDJSON).
    Lines,
    /// One JSON array of objects.
    Array,
}

impl Framing {
    /// Appends the records in `range`. In an array each is preceded by a comma.
    pub fn append(self, records: &Selection, range: Range<usize>, out: &mut Vec<u8>) {
        for record in records.part(range) {
            if self == Self::Array {
                out.push(b',');
            }
            Encoding::Json.line(records, &record, out);
        }
    }

    /// Completes the body: the first comma becomes the start of the array.
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

/// Appends a record as a datagram of at most `bytes_max` bytes, without a line end. Returns false
/// if the body had to be shortened; the record is then marked as truncated.
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

/// Appends a record whose body is shortened until it fits, marked as truncated.
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
        // How much escapes and the rest of the object add is not known beforehand.
        keep = keep.saturating_sub((len - max).min(keep / 2 + 1));
    }
    out.truncate(start + max);
}

fn without_escapes(flags: RecordFlags) -> RecordFlags {
    RecordFlags(flags.0 & !RecordFlags::JSON_ESCAPED.0)
}

/// Returns the end of the last complete character at or before `at` in UTF-8 text.
fn floor(bytes: &[u8], at: usize) -> usize {
    let is_inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(at)).unwrap_or(at)
}
