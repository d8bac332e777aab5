//! The fixed header of a frame: format version 2, described in `docs/internals/frame.md`.
//!
//! Invariants: all numbers are little-endian; every offset is relative to the start of the frame;
//! the checksum covers everything but itself; unsupported content is rejected as such, never
//! guessed at and never taken for damage.

use crate::columns::Columns;
use crate::kind::Kinds;
use crate::limits::FRAME_BYTES_MAX;
use crate::{Position, SourceId, StreamId, resources, routes};

/// Size of the fixed header; the arena starts here.
pub const HEADER_LEN: usize = 128;

pub(crate) const MAGIC: [u8; 4] = *b"WFRM";
pub(crate) const VERSION: u16 = 2;
/// The offset of the checksum, and of what it covers.
const CHECKSUM_AT: usize = 12;
const COVERED_AT: usize = 16;

/// Reasons why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There are fewer bytes than the header has, or than it states.
    #[error("frame is truncated: {have} of {want} bytes")]
    Short {
        /// Bytes available.
        have: usize,
        /// Bytes expected.
        want: usize,
    },
    /// The bytes do not start with the magic.
    #[error("no frame starts here")]
    Magic,
    /// Written by a release that is not compatible with this one.
    #[error("frame version {0} is not supported by this release")]
    Version(u16),
    /// Of a supported version, with content that was introduced later.
    #[error("frame {what} {number} is not supported by this release")]
    Unknown {
        /// The kind of content: a flag, a column, a kind of record.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// The content differs from what was written.
    #[error("frame checksum mismatch")]
    Checksum,
    /// A field points outside the frame.
    #[error("frame field {0} is out of bounds")]
    Bounds(&'static str),
}

impl FrameError {
    /// Returns whether the bytes may be intact, but of another release: they must be kept.
    /// [`crate::Batch::from_frame`] verifies that they are intact; a header alone cannot tell.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Unknown { .. })
    }
}

/// What a reader must support to read a set of frames, as recorded for them: the versions, flags,
/// columns and kinds that occur in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameFeatures {
    version: u16,
    flags: u16,
    columns: u32,
    kinds: u16,
}

impl FrameFeatures {
    /// Length of the result of [`Self::to_bytes`].
    pub const LEN: usize = 10;

    /// Adds the features of another frame.
    pub fn add(&mut self, header: &FrameHeader) {
        self.version = VERSION;
        self.flags |= header.flags();
        self.columns |= header.columns.bits();
        self.kinds |= header.kinds.bits();
    }

    /// Returns whether this release can read all of them. Earlier versions must not be mixed with
    /// it.
    pub fn is_known(&self) -> bool {
        *self == Self::default() || self.known().is_ok()
    }

    /// Returns columns and kinds if this release supports all of them, otherwise the first
    /// unsupported feature.
    fn known(&self) -> Result<(Columns, Kinds), FrameError> {
        let unknown = |what| move |number| FrameError::Unknown { what, number };
        if self.version != VERSION {
            return Err(FrameError::Version(self.version));
        }
        let unknown_flags = self.flags & !(FLAG_REPEATABLE | FLAG_MERGED);
        if unknown_flags != 0 {
            return Err(unknown("flag")(unknown_flags.trailing_zeros()));
        }
        let columns = Columns::of_bits(self.columns).map_err(unknown("column"))?;
        Ok((columns, Kinds::of_bits(self.kinds).map_err(unknown("kind"))?))
    }

    /// Encodes version (2), flags (2), columns (4) and kinds (2), as in a header; all zero if there
    /// is no frame.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&self.version.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.columns.to_le_bytes());
        bytes[8..].copy_from_slice(&self.kinds.to_le_bytes());
        bytes
    }

    /// Decodes the result of [`Self::to_bytes`].
    pub fn of_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [v0, v1, f0, f1, c0, c1, c2, c3, k0, k1] = bytes;
        Self {
            version: u16::from_le_bytes([v0, v1]),
            flags: u16::from_le_bytes([f0, f1]),
            columns: u32::from_le_bytes([c0, c1, c2, c3]),
            kinds: u16::from_le_bytes([k0, k1]),
        }
    }
}

/// The fixed header, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The source can read these records again (files), so the frame need not survive a crash.
    pub repeatable: bool,
    /// It takes the place of several earlier frames: records between its base and its end that it
    /// does not contain are needed by no destination.
    pub merged: bool,
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
    /// Number of records in the frame.
    pub record_count: u32,
    /// Offset at which reading of this batch started.
    pub base_offset: u64,
    /// Offset after everything that the batch consumed.
    pub end_offset: u64,
    /// When the records were read, nanoseconds since 1970.
    pub observed_ns: i64,
    /// Generation of the rules that routed the records.
    pub rule_generation: u32,
    /// Kinds of the records.
    pub kinds: Kinds,
    pub(crate) columns: Columns,
    pub(crate) columns_at: u32,
    pub(crate) tail_at: u32,
    pub(crate) arena_len: u32,
    pub(crate) route_count: u16,
    pub(crate) routes_len: u32,
    pub(crate) resource_count: u16,
    pub(crate) resources_len: u32,
    pub(crate) book_len: u32,
    pub(crate) state_len: u32,
}

const FLAG_REPEATABLE: u16 = 1;
const FLAG_MERGED: u16 = 2;

impl FrameHeader {
    /// Returns the position before the first record.
    pub fn base(&self) -> Position {
        Position::new(self.epoch, self.base_offset)
    }

    /// Returns the position after the last record and everything consumed with it.
    pub fn end(&self) -> Position {
        Position::new(self.epoch, self.end_offset)
    }

    fn flags(&self) -> u16 {
        (u16::from(self.repeatable) * FLAG_REPEATABLE) | (u16::from(self.merged) * FLAG_MERGED)
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
        put(&self.flags().to_le_bytes());
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
        put(&self.columns.bits().to_le_bytes());
        put(&self.columns_at.to_le_bytes());
        put(&self.tail_at.to_le_bytes());
        put(&self.arena_len.to_le_bytes());
        put(&self.routes_len.to_le_bytes());
        put(&self.resources_len.to_le_bytes());
        put(&self.book_len.to_le_bytes());
        put(&self.state_len.to_le_bytes());
        put(&self.route_count.to_le_bytes());
        put(&self.resource_count.to_le_bytes());
        put(&self.kinds.bits().to_le_bytes());
        put(&[0; 14]);
    }

    /// Returns the length of the frame, of any version, that seems to start here; `None` if none
    /// does. Does not check the content.
    pub fn stated_len(bytes: &[u8]) -> Option<usize> {
        let head: &[u8; COVERED_AT] = bytes.first_chunk()?;
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let is_one = head[..4] == MAGIC
            && (HEADER_LEN..=FRAME_BYTES_MAX).contains(&len)
            && len.is_multiple_of(8);
        is_one.then_some(len)
    }

    /// Decodes a header and checks that its sections lie within the stated length. Reads only the
    /// header and does not check the content.
    pub fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let header: &[u8; HEADER_LEN] =
            bytes.first_chunk().ok_or(FrameError::Short { have: bytes.len(), want: HEADER_LEN })?;
        if header[..4] != MAGIC {
            return Err(FrameError::Magic);
        }
        if Self::stated_len(header).is_none() {
            return Err(FrameError::Bounds("frame_len"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let (version, flags) = (u16_at(4), u16_at(6));
        let features = FrameFeatures { version, flags, columns: u32_at(76), kinds: u16_at(112) };
        let (columns, kinds) = features.known()?;
        let decoded = Self {
            repeatable: flags & FLAG_REPEATABLE != 0,
            merged: flags & FLAG_MERGED != 0,
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
            columns,
            columns_at: u32_at(80),
            tail_at: u32_at(84),
            arena_len: u32_at(88),
            routes_len: u32_at(92),
            resources_len: u32_at(96),
            book_len: u32_at(100),
            state_len: u32_at(104),
            route_count: u16_at(108),
            resource_count: u16_at(110),
            kinds,
        };
        decoded.check_bounds()?;
        Ok(decoded)
    }

    fn check_bounds(&self) -> Result<(), FrameError> {
        let frame_len = self.frame_len as usize;
        if HEADER_LEN + self.arena_len as usize > self.columns_at as usize {
            return Err(FrameError::Bounds("arena_len"));
        }
        let columns = self.record_count as usize * self.columns.row_bytes();
        if self.columns_at as usize + columns > self.tail_at as usize {
            return Err(FrameError::Bounds("record_count"));
        }
        if usize::from(self.route_count) * routes::ENTRY_BYTES > self.routes_len as usize {
            return Err(FrameError::Bounds("route_count"));
        }
        if usize::from(self.resource_count) * resources::ENTRY_BYTES > self.resources_len as usize {
            return Err(FrameError::Bounds("resource_count"));
        }
        if self.state_at() + self.state_len as usize > frame_len {
            return Err(FrameError::Bounds("tail"));
        }
        if self.end_offset < self.base_offset {
            return Err(FrameError::Bounds("end_offset"));
        }
        Ok(())
    }

    /// Returns where the resource table starts; the route table starts the tail.
    pub(crate) fn resources_at(&self) -> usize {
        self.tail_at as usize + self.routes_len as usize
    }

    pub(crate) fn book_at(&self) -> usize {
        self.resources_at() + self.resources_len as usize
    }

    pub(crate) fn state_at(&self) -> usize {
        self.book_at() + self.book_len as usize
    }
}

/// Returns the checksum of a whole frame, as it should be in its header.
pub(crate) fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..CHECKSUM_AT]), &frame[COVERED_AT..])
}

pub(crate) fn stored_checksum(frame: &[u8]) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| frame[CHECKSUM_AT + i]))
}

/// Returns the first bytes of a frame with the checksum filled in; the rest of the frame follows
/// unchanged.
pub(crate) fn head_with_checksum(frame: &[u8]) -> [u8; COVERED_AT] {
    let mut head: [u8; COVERED_AT] = std::array::from_fn(|i| frame[i]);
    head[CHECKSUM_AT..].copy_from_slice(&checksum(frame).to_le_bytes());
    head
}
