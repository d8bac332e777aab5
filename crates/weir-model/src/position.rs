//! The identity of a record: stream, epoch and offset. Positions, not journal offsets, are
//! authoritative.

use std::fmt;

/// Hashes names and identities to 64 bits. Permanently stable, because ids are stored on disk
/// (format: FNV-1a over the bytes, then the finalizer of `MurmurHash3`).
pub fn hash64(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// One ordered sequence of records: a file, a connection, a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A configured source, by the hash of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u64);

impl SourceId {
    /// Returns the id of the source with that name.
    pub fn of(name: &str) -> Self {
        Self(hash64(name.as_bytes()))
    }
}

/// A position in a stream: everything before it has been consumed. For a file the offset is a byte
/// offset, and the epoch is incremented when the file was truncated. A record's position is the one
/// *after* it, so "committed up to P" means every record with position <= P.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position {
    /// Incremented when offsets start again (truncation, restart of a source that cannot repeat).
    pub epoch: u32,
    /// Bytes for files, records for sources that cannot repeat.
    pub offset: u64,
}

impl Position {
    /// Creates the position `offset` in epoch `epoch`.
    pub fn new(epoch: u32, offset: u64) -> Self {
        Self { epoch, offset }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.offset)
    }
}
