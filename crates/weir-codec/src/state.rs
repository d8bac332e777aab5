//! The state of a decoder besides its position: format, whether it is skipping the rest of a line,
//! and the open partial lines. Stored in the resume state of each batch.
//!
//! Version 1, numbers little-endian: version `u8` = 1, format `u8`, flags `u8` (1 skipping, 2 in a
//! run of NULs, 4 UTF-16), lead `u32` (position minus file offset), then for stdout and stderr:
//! parts `u64`, and if that is not 0: timestamp `i64`, record flags `u8`, length of the attributes
//! `u32`, of the body `u32`, attributes, body.
//!
//! Version 2 is written while records wait for further lines; after the above follow, for stdout
//! and stderr: lines of text `u32`, lines of the file `u64`, state of the rule `u8`, severity `u8`,
//! timestamp `i64`, record flags `u8`, length of the attributes `u32`, of the body `u32`,
//! attributes, body.
//!
//! Invariant: any bytes either restore a decoder that keeps all its invariants, or are rejected.

use weir_model::limits::LINE_BYTES_MAX;
use weir_model::{RecordFlags, Severity};

use crate::join::{OpenLine, Partials};
use crate::json::{Content, content, is_json_object};
use crate::multiline::{OpenRecord, State};
use crate::{Format, LineDecoder};

const VERSION: u8 = 1;
const VERSION_WITH_RECORDS: u8 = 2;
const SKIPPING: u8 = 1;
const NUL_RUN: u8 = 2;
const UTF16: u8 = 4;

/// Why bytes are not a state of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Written by a release that this one cannot read.
    #[error("decoder state version {0} is not supported by this release")]
    Version(u8),
    /// Not a valid state of this version.
    #[error("decoder state is damaged")]
    Damaged,
}

impl LineDecoder {
    /// Appends the current state. At most `LINE_BYTES_MAX` plus 128 bytes.
    pub fn state(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.is_skipping) * SKIPPING
            + u8::from(self.is_in_nul_run) * NUL_RUN
            + u8::from(self.is_utf16) * UTF16;
        let has_records = self.partials.is_any_record_of_concern();
        let version = if has_records { VERSION_WITH_RECORDS } else { VERSION };
        out.extend_from_slice(&[version, self.format() as u8, flags]);
        let lead = self.position() - self.file_offset();
        out.extend_from_slice(&(lead as u32).to_le_bytes());
        for line in &self.partials.open {
            out.extend_from_slice(&line.parts.to_le_bytes());
            if !line.is_open() {
                continue;
            }
            out.extend_from_slice(&line.timestamp_ns.to_le_bytes());
            out.push(line.flags.0);
            out.extend_from_slice(&(line.attributes.len() as u32).to_le_bytes());
            out.extend_from_slice(&(line.body.len() as u32).to_le_bytes());
            out.extend_from_slice(&line.attributes);
            out.extend_from_slice(&line.body);
        }
        for record in self.partials.records.iter().filter(|_| has_records) {
            out.extend_from_slice(&record.rows.to_le_bytes());
            out.extend_from_slice(&record.lines.to_le_bytes());
            out.extend_from_slice(&[record.state.0, record.severity.0]);
            out.extend_from_slice(&record.timestamp_ns.to_le_bytes());
            out.push(record.flags.0);
            out.extend_from_slice(&(record.attributes.len() as u32).to_le_bytes());
            out.extend_from_slice(&(record.body.len() as u32).to_le_bytes());
            out.extend_from_slice(&record.attributes);
            out.extend_from_slice(&record.body);
        }
    }

    /// Restores a decoder that continues where the one that wrote `state` was, with the stream at
    /// offset `position`. It has the same format; continue reading at [`LineDecoder::file_offset`].
    pub fn restore(state: &[u8], line_bytes_max: usize, position: u64) -> Result<Self, StateError> {
        let mut fields = Fields(state);
        let version = fields.u8()?;
        if version != VERSION && version != VERSION_WITH_RECORDS {
            return Err(StateError::Version(version));
        }
        let format = Format::from_code(fields.u8()?).ok_or(StateError::Damaged)?;
        let flags = fields.u8()?;
        let lead = u64::from(fields.u32()?);
        let offset = position.checked_sub(lead).ok_or(StateError::Damaged)?;
        let mut decoder = Self::new(format, line_bytes_max, offset);
        decoder.floor = position;
        decoder.is_skipping = flags & SKIPPING != 0;
        decoder.is_in_nul_run = flags & NUL_RUN != 0;
        decoder.is_utf16 = flags & UTF16 != 0;
        for line in &mut decoder.partials.open {
            *line = fields.open_line(format)?;
        }
        if version == VERSION_WITH_RECORDS {
            for record in &mut decoder.partials.records {
                *record = fields.open_record()?;
            }
        }
        let is_valid = fields.0.is_empty() && decoder.partials.bytes() <= LINE_BYTES_MAX;
        if is_valid { Ok(decoder) } else { Err(StateError::Damaged) }
    }

    /// Returns the open partial lines in a state, if the file that it belongs to is gone.
    pub fn partials_of(state: &[u8]) -> Result<Partials, StateError> {
        // Any position that is not before the lead will do.
        Ok(Self::restore(state, LINE_BYTES_MAX, u64::MAX)?.take_partials())
    }
}

/// Maximum number of lines that open data may consist of; far more than its bytes.
const LINES_MAX: u64 = (u32::MAX as u64) << 16;

/// Records guarantee that escaped bodies and attributes are valid JSON.
fn is_sound(flags: RecordFlags, attributes: &[u8], body: &[u8]) -> bool {
    let is_escaped = flags.contains(RecordFlags::JSON_ESCAPED);
    (!is_escaped || content(body) == Content::End)
        && (attributes.is_empty() || is_json_object(attributes))
}

/// The bytes left to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], StateError> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(StateError::Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(StateError::Damaged)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8, StateError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn u32(&mut self) -> Result<u32, StateError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, StateError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn open_line(&mut self, format: Format) -> Result<OpenLine, StateError> {
        let parts = self.u64()?;
        if parts == 0 {
            return Ok(OpenLine::default());
        }
        let timestamp_ns = self.u64()?.cast_signed();
        let flags = RecordFlags(self.u8()?);
        let (attributes, body) = self.content()?;
        let is_escaped = flags.contains(RecordFlags::JSON_ESCAPED);
        let is_valid = is_escaped == (format == Format::DockerJson)
            && is_sound(flags, &attributes, &body)
            && parts <= LINES_MAX;
        if !is_valid {
            return Err(StateError::Damaged);
        }
        Ok(OpenLine { parts, timestamp_ns, flags, body, attributes })
    }

    fn open_record(&mut self) -> Result<OpenRecord, StateError> {
        let rows = self.u32()?;
        let lines = self.u64()?;
        let state = State(self.u8()?);
        let severity = Severity(self.u8()?);
        let timestamp_ns = self.u64()?.cast_signed();
        let flags = RecordFlags(self.u8()?);
        let (attributes, body) = self.content()?;
        let is_empty = lines == 0 && attributes.is_empty() && body.is_empty();
        let is_valid = is_sound(flags, &attributes, &body)
            && (rows > 0 || is_empty)
            && (u64::from(rows)..=LINES_MAX).contains(&lines);
        if !is_valid {
            return Err(StateError::Damaged);
        }
        Ok(OpenRecord { rows, lines, state, timestamp_ns, severity, flags, body, attributes })
    }

    /// Reads attributes and body.
    fn content(&mut self) -> Result<(Vec<u8>, Vec<u8>), StateError> {
        let attributes_len = self.u32()? as usize;
        let body_len = self.u32()? as usize;
        let attributes = self.bytes(attributes_len)?.to_vec();
        Ok((attributes, self.bytes(body_len)?.to_vec()))
    }
}
