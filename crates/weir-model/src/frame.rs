//! The fixed header of a frame: format version 1, described in `docs/internals/frame.md`.
//!
//! Invariants: all numbers little-endian; every offset is from the start of the frame; the
//! checksum covers everything but itself; unknown versions are refused, never guessed at.

use crate::limits::FRAME_BYTES_MAX;
use crate::{Position, SourceId, StreamId};

/// Bytes of the fixed header; the arena begins here.
pub const HEADER_LEN: usize = 128;

pub(crate) const MAGIC: [u8; 4] = *b"WFRM";
pub(crate) const VERSION: u16 = 1;
/// Where the checksum stands, and where what it covers begins.
const CHECKSUM_AT: usize = 12;
const COVERED_AT: usize = 16;

/// What kind of records a batch holds; outputs declare the classes that they carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BatchClass {
    /// Log records.
    Logs = 1,
    /// Metrics, one JSON object per body.
    Metrics = 2,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Fewer bytes than the header, or than the header announces.
    #[error("frame is cut short: {have} of {want} bytes")]
    Short {
        /// Bytes there.
        have: usize,
        /// Bytes announced.
        want: usize,
    },
    /// The bytes do not start with the magic.
    #[error("no frame starts here")]
    Magic,
    /// Written by a release that this one cannot read.
    #[error("frame version {0} is not known to this release")]
    Version(u16),
    /// The content is not what was written.
    #[error("frame checksum does not match")]
    Checksum,
    /// A field points outside the frame.
    #[error("frame field {0} is out of bounds")]
    Bounds(&'static str),
}

/// The fixed header, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Kind of records.
    pub class: BatchClass,
    /// The source can read these records again (files), so a crash may forget the frame.
    pub repeatable: bool,
    /// Total length in bytes, header included; a multiple of 8.
    pub frame_len: u32,
    /// The stream that all records belong to.
    pub stream: StreamId,
    /// Streams of one group continue each other (the files of one container); 0 = none.
    pub group: u64,
    /// The source that produced the stream.
    pub source: SourceId,
    /// Epoch of all positions in the frame.
    pub epoch: u32,
    /// Records in the frame.
    pub record_count: u32,
    /// Offset at which reading of this batch began.
    pub base_offset: u64,
    /// Offset after everything that the batch consumed.
    pub end_offset: u64,
    /// When the records were read, nanoseconds since 1970.
    pub observed_ns: i64,
    /// Generation of the rules that routed the records.
    pub rule_generation: u32,
    pub(crate) has_attributes: bool,
    pub(crate) columns_at: u32,
    pub(crate) tail_at: u32,
    pub(crate) arena_len: u32,
    pub(crate) route_count: u16,
    pub(crate) route_words: u16,
    pub(crate) key_count: u32,
    pub(crate) resource_len: u32,
    pub(crate) book_len: u32,
    pub(crate) state_len: u32,
}

const FLAG_ATTRIBUTES: u8 = 1;
const FLAG_REPEATABLE: u8 = 2;

impl FrameHeader {
    /// Position before the first record.
    pub fn base(&self) -> Position {
        Position::new(self.epoch, self.base_offset)
    }

    /// Position after the last record and everything consumed with it.
    pub fn end(&self) -> Position {
        Position::new(self.epoch, self.end_offset)
    }

    /// Writes the header with a checksum of zero.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        let flags = u8::from(self.has_attributes) * FLAG_ATTRIBUTES
            + u8::from(self.repeatable) * FLAG_REPEATABLE;
        put(&[self.class as u8, flags]);
        put(&self.frame_len.to_le_bytes());
        put(&[0; 4]);
        put(&self.stream.0.to_le_bytes());
        put(&self.group.to_le_bytes());
        put(&self.source.0.to_le_bytes());
        put(&self.base_offset.to_le_bytes());
        put(&self.end_offset.to_le_bytes());
        put(&self.observed_ns.to_le_bytes());
        put(&self.epoch.to_le_bytes());
        put(&self.record_count.to_le_bytes());
        put(&self.rule_generation.to_le_bytes());
        put(&self.columns_at.to_le_bytes());
        put(&self.tail_at.to_le_bytes());
        put(&self.arena_len.to_le_bytes());
        put(&self.key_count.to_le_bytes());
        put(&self.resource_len.to_le_bytes());
        put(&self.book_len.to_le_bytes());
        put(&self.state_len.to_le_bytes());
        put(&self.route_count.to_le_bytes());
        put(&self.route_words.to_le_bytes());
        put(&[0; 20]);
    }

    /// Decodes a header and checks that its sections lie within the announced length. Reads only
    /// the header; says nothing about the content.
    pub fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let header: &[u8; HEADER_LEN] =
            bytes.first_chunk().ok_or(FrameError::Short { have: bytes.len(), want: HEADER_LEN })?;
        if header[..4] != MAGIC {
            return Err(FrameError::Magic);
        }
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let class = match header[6] {
            1 => BatchClass::Logs,
            2 => BatchClass::Metrics,
            _ => return Err(FrameError::Bounds("class")),
        };
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let decoded = Self {
            class,
            has_attributes: header[7] & FLAG_ATTRIBUTES != 0,
            repeatable: header[7] & FLAG_REPEATABLE != 0,
            frame_len: u32_at(8),
            stream: StreamId(u64_at(16)),
            group: u64_at(24),
            source: SourceId(u64_at(32)),
            base_offset: u64_at(40),
            end_offset: u64_at(48),
            observed_ns: u64_at(56).cast_signed(),
            epoch: u32_at(64),
            record_count: u32_at(68),
            rule_generation: u32_at(72),
            columns_at: u32_at(76),
            tail_at: u32_at(80),
            arena_len: u32_at(84),
            key_count: u32_at(88),
            resource_len: u32_at(92),
            book_len: u32_at(96),
            state_len: u32_at(100),
            route_count: u16_at(104),
            route_words: u16_at(106),
        };
        decoded.check_bounds()?;
        Ok(decoded)
    }

    /// Bytes that one record takes in the columns.
    pub(crate) fn column_bytes(has_attributes: bool) -> usize {
        8 + 4 + 4 + 4 + 2 + 1 + 1 + if has_attributes { 8 } else { 0 }
    }

    fn check_bounds(&self) -> Result<(), FrameError> {
        let frame_len = self.frame_len as usize;
        if !(HEADER_LEN..=FRAME_BYTES_MAX).contains(&frame_len) || !frame_len.is_multiple_of(8) {
            return Err(FrameError::Bounds("frame_len"));
        }
        if HEADER_LEN + self.arena_len as usize > self.columns_at as usize {
            return Err(FrameError::Bounds("arena_len"));
        }
        let columns = self.record_count as usize * Self::column_bytes(self.has_attributes);
        if self.columns_at as usize + columns > self.tail_at as usize {
            return Err(FrameError::Bounds("record_count"));
        }
        let routes = usize::from(self.route_count) * self.route_bytes();
        let tail = routes
            + self.key_count as usize * 8
            + self.resource_len as usize
            + self.book_len as usize
            + self.state_len as usize;
        if self.tail_at as usize + tail > frame_len {
            return Err(FrameError::Bounds("tail"));
        }
        if self.end_offset < self.base_offset {
            return Err(FrameError::Bounds("end_offset"));
        }
        Ok(())
    }

    /// Bytes of one entry of the route table: count, padding, words of the destination mask.
    pub(crate) fn route_bytes(&self) -> usize {
        8 + usize::from(self.route_words) * 8
    }
}

/// The checksum of a whole frame, as it should stand in its header.
pub(crate) fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..CHECKSUM_AT]), &frame[COVERED_AT..])
}

pub(crate) fn stored_checksum(frame: &[u8]) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| frame[CHECKSUM_AT + i]))
}

/// The first bytes of a frame with the checksum filled in; what follows is the frame itself.
pub(crate) fn head_with_checksum(frame: &[u8]) -> [u8; COVERED_AT] {
    let mut head: [u8; COVERED_AT] = std::array::from_fn(|i| frame[i]);
    head[CHECKSUM_AT..].copy_from_slice(&checksum(frame).to_le_bytes());
    head
}
