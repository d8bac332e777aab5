//! A dead letter and its representation in the file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_model::{LogRecord, RecordFlags, RecordKind, Resource, Severity};

/// A record that its destination refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Line", from = "Line")]
pub struct DeadLetter {
    /// When it was refused, nanoseconds since 1970.
    pub time_ns: i64,
    /// Name of the output.
    pub output: String,
    /// The reason, as given by the destination.
    pub reason: String,
    /// The destination's code, if it returned one.
    pub code: Option<u16>,
    /// The record.
    pub record: LogRecord,
    /// Flags that the decoded record does not hold (standard stream, truncation).
    pub flags: u8,
}

impl DeadLetter {
    /// Creates a dead letter. `flags` are those of the record in its batch.
    pub fn new(
        time_ns: i64,
        output: &str,
        reason: &str,
        code: Option<u16>,
        record: LogRecord,
        flags: u8,
    ) -> Self {
        // The record's body is unescaped.
        let flags = flags & !RecordFlags::JSON_ESCAPED.0;
        let (output, reason) = (output.to_owned(), reason.to_owned());
        Self { time_ns, output, reason, code, record, flags }
    }
}

/// The representation in the file: text if the body is text, hexadecimal otherwise.
#[derive(Clone, Serialize, Deserialize)]
struct Line {
    time_ns: i64,
    output: String,
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    timestamp: i64,
    observed_timestamp: i64,
    severity_number: Severity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_hex: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    attributes: String,
    resource: Resource,
    #[serde(default, skip_serializing_if = "is_log")]
    kind: RecordKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    facility: Option<u8>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    process_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message_id: String,
    #[serde(default)]
    flags: u8,
}

impl From<DeadLetter> for Line {
    fn from(letter: DeadLetter) -> Self {
        let record = letter.record;
        let (body, body_hex) = match String::from_utf8(record.body) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(to_hex(error.as_bytes()))),
        };
        Self {
            time_ns: letter.time_ns,
            output: letter.output,
            reason: letter.reason,
            code: letter.code,
            timestamp: record.timestamp,
            observed_timestamp: record.observed_timestamp,
            severity_number: record.severity_number,
            body,
            body_hex,
            attributes: record.attributes,
            resource: record.resource,
            kind: record.kind,
            facility: record.facility,
            process_id: record.process_id,
            message_id: record.message_id,
            flags: letter.flags,
        }
    }
}

impl From<Line> for DeadLetter {
    fn from(line: Line) -> Self {
        let body = match (line.body, line.body_hex) {
            (Some(text), _) => text.into_bytes(),
            (None, Some(hex)) => from_hex(&hex),
            (None, None) => Vec::new(),
        };
        Self {
            time_ns: line.time_ns,
            output: line.output,
            reason: line.reason,
            code: line.code,
            record: LogRecord {
                timestamp: line.timestamp,
                observed_timestamp: line.observed_timestamp,
                severity_number: line.severity_number,
                body,
                attributes: line.attributes,
                resource: line.resource,
                kind: line.kind,
                facility: line.facility,
                process_id: line.process_id,
                message_id: line.message_id,
            },
            flags: line.flags,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_log(kind: &RecordKind) -> bool {
    *kind == RecordKind::Log
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let value = |b: u8| char::from(b).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().as_chunks::<2>().0.iter().map(|[h, l]| value(*h) << 4 | value(*l)).collect()
}

/// Reads a file entry by entry; `None` if the file does not exist.
pub(super) fn read_file(
    path: &Path,
) -> io::Result<Option<impl Iterator<Item = io::Result<DeadLetter>> + use<>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let lines = BufReader::new(file).split(b'\n');
    Ok(Some(lines.map(|line| Ok(serde_json::from_slice(&line?)?))))
}
