//! The index that closes a segment: which frames it contains, for which destinations, and up to
//! which position its streams were known. Format: `docs/internals/journal.md`.
//!
//! Invariants: it is written after frames that were flushed, and is flushed itself before any space
//! of its segment is freed. So a frame that it lists but that is missing was freed or is damaged,
//! and what it contained can be counted without it. The checksum covers the segment's salt, so no
//! logged content can pass for an index.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use weir_host::DiskFile;
use weir_model::{Batch, FrameFeatures, FrameHeader, Position, SourceId, StreamId};

use crate::fields::{Fields, put_bytes, put_checkpoint, put_encoded, put_u32};
use crate::segment::SALT_LEN;
use crate::state::{Checkpoint, Location};

const MAGIC: [u8; 4] = *b"WIDX";
/// Checksum, length and magic.
const END_LEN: usize = 12;
const FLAG_REPEATABLE: u8 = 1;
/// The entry includes the book and state at the end of the frame.
const FLAG_CHECKPOINT: u8 = 2;
/// The frame takes the place of several others.
const FLAG_MERGED: u8 = 4;
/// Larger states stay in their frames: the whole index must be read at the start.
const STATE_BYTES_MAX: usize = 1024;

/// Properties of a frame other than its location: enough to recognize it anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FrameKey {
    pub(crate) stream: StreamId,
    pub(crate) base: Position,
    pub(crate) end: Position,
    pub(crate) len: u32,
}

impl FrameKey {
    pub(crate) fn of(header: &FrameHeader) -> Self {
        Self {
            stream: header.stream,
            base: header.base(),
            end: header.end(),
            len: header.frame_len,
        }
    }
}

/// A frame in the index of its segment.
#[derive(Debug, Clone)]
pub(crate) struct IndexEntry {
    pub(crate) location: Location,
    pub(crate) key: FrameKey,
    pub(crate) repeatable: bool,
    /// It takes the place of several others.
    pub(crate) merged: bool,
    /// Number of records in it.
    pub(crate) records: u64,
    /// What a commit at its end persists, unless that is large: then only the frame contains it.
    pub(crate) checkpoint: Option<Arc<Checkpoint>>,
    /// Number of records for each destination that gets any.
    pub(crate) routed: Vec<(usize, u64)>,
    pub(crate) keys: Vec<u64>,
}

/// The last statement of a segment about a stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamEnd {
    pub(crate) source: SourceId,
    pub(crate) group: u64,
    pub(crate) checkpoint: Arc<Checkpoint>,
}

/// The index of a segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SegmentIndex {
    /// The features a release must support to read the frames, which are not read where the index
    /// suffices.
    pub(crate) features: FrameFeatures,
    pub(crate) entries: Vec<IndexEntry>,
    pub(crate) streams: BTreeMap<StreamId, StreamEnd>,
}

impl SegmentIndex {
    /// Adds a frame that is located after all others, with what a commit at its end persists.
    pub(crate) fn add(&mut self, location: Location, batch: &Batch, checkpoint: Arc<Checkpoint>) {
        let header = batch.header();
        self.features.add(header);
        self.entries.push(IndexEntry {
            location,
            key: FrameKey::of(header),
            repeatable: header.repeatable,
            merged: header.merged,
            records: u64::from(header.record_count),
            checkpoint: Some(checkpoint.clone())
                .filter(|checkpoint| checkpoint.state().len() <= STATE_BYTES_MAX),
            routed: batch.routed_counts(),
            keys: batch.keys(),
        });
        let is_known = self.streams.get(&header.stream);
        if is_known.is_none_or(|known| known.checkpoint.end <= checkpoint.end) {
            let (source, group) = (header.source, header.group);
            self.streams.insert(header.stream, StreamEnd { source, group, checkpoint });
        }
    }

    /// Returns the frames that carry the key.
    pub(crate) fn with_key(&self, key: u64) -> Vec<Location> {
        let has_key = |entry: &&IndexEntry| entry.keys.contains(&key);
        self.entries.iter().filter(has_key).map(|entry| entry.location).collect()
    }

    /// Encodes the index that ends the segment with that salt. Its length and the magic come last,
    /// so that it can be found from the end of the file.
    pub(crate) fn encode(&self, salt: [u8; SALT_LEN]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entries.len() * 64 + self.streams.len() * 96 + 24);
        out.extend_from_slice(&self.features.to_bytes());
        put_u32(&mut out, self.entries.len() as u32);
        self.entries.iter().for_each(|entry| encode_entry(entry, &mut out));
        put_u32(&mut out, self.streams.len() as u32);
        for (stream, end) in &self.streams {
            for number in [stream.0, end.source.0, end.group] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            put_checkpoint(&mut out, &end.checkpoint);
        }
        let sum = checksum(salt, &out);
        put_u32(&mut out, sum);
        let len = out.len() as u32 + 8;
        put_u32(&mut out, len);
        out.extend_from_slice(&MAGIC);
        out
    }

    fn decode(bytes: &[u8], segment: u64) -> Self {
        let mut fields = Fields(bytes);
        let features = FrameFeatures::of_bytes(fields.array());
        let mut index = Self { features, ..Self::default() };
        for _ in 0..fields.count() {
            index.entries.push(decode_entry(&mut fields, segment));
        }
        for _ in 0..fields.count() {
            let stream = StreamId(fields.u64());
            let (source, group) = (SourceId(fields.u64()), fields.u64());
            index
                .streams
                .insert(stream, StreamEnd { source, group, checkpoint: fields.checkpoint() });
        }
        index
    }
}

fn encode_entry(entry: &IndexEntry, out: &mut Vec<u8>) {
    out.extend_from_slice(&entry.location.offset.to_le_bytes());
    put_u32(out, entry.key.len);
    let repeatable = u8::from(entry.repeatable) * FLAG_REPEATABLE;
    let checkpoint = u8::from(entry.checkpoint.is_some()) * FLAG_CHECKPOINT;
    let merged = u8::from(entry.merged) * FLAG_MERGED;
    out.push(repeatable | checkpoint | merged);
    // A frame has fewer records than that.
    put_u32(out, entry.records as u32);
    out.extend_from_slice(&entry.key.stream.0.to_le_bytes());
    put_u32(out, entry.key.base.epoch);
    out.extend_from_slice(&entry.key.base.offset.to_le_bytes());
    out.extend_from_slice(&entry.key.end.offset.to_le_bytes());
    put_encoded(out, |out| {
        for (destination, count) in &entry.routed {
            put_u32(out, *destination as u32);
            put_u32(out, *count as u32);
        }
    });
    let keys: Vec<u8> = entry.keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    put_bytes(out, &keys);
    if let Some(checkpoint) = &entry.checkpoint {
        put_checkpoint(out, checkpoint);
    }
}

fn decode_entry(fields: &mut Fields<'_>, segment: u64) -> IndexEntry {
    let (offset, len, flags) = (fields.u64(), fields.u32(), fields.u8());
    let records = u64::from(fields.u32());
    let (stream, epoch) = (StreamId(fields.u64()), fields.u32());
    let [base, end] = [fields.u64(), fields.u64()].map(|at| Position::new(epoch, at));
    let (mut routed, mut keys) = (Fields(fields.bytes()), Fields(fields.bytes()));
    let mut entry = IndexEntry {
        location: Location { segment, offset, len },
        key: FrameKey { stream, base, end, len },
        repeatable: flags & FLAG_REPEATABLE != 0,
        merged: flags & FLAG_MERGED != 0,
        records,
        checkpoint: (flags & FLAG_CHECKPOINT != 0).then(|| fields.checkpoint()),
        routed: Vec::new(),
        keys: Vec::new(),
    };
    while !routed.0.is_empty() {
        entry.routed.push((routed.u32() as usize, u64::from(routed.u32())));
    }
    while !keys.0.is_empty() {
        entry.keys.push(keys.u64());
    }
    entry
}

fn checksum(salt: [u8; SALT_LEN], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt), bytes)
}

/// Reads the index at the end of a closed segment, and the offset at which it starts, if there is
/// an intact one.
pub(crate) fn read(
    file: &dyn DiskFile,
    segment: u64,
    salt: [u8; SALT_LEN],
    frames_at: u64,
) -> io::Result<Option<(SegmentIndex, u64)>> {
    let file_len = file.len()?;
    let mut end = [0; 8];
    if file_len < frames_at + END_LEN as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut end, file_len - 8)?;
    let len = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if end[4..] != MAGIC || len < END_LEN as u64 || len > file_len - frames_at {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, file_len - len)?;
    let (content, tail) = bytes.split_at(bytes.len() - END_LEN);
    let stored = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    if checksum(salt, content) != stored {
        return Ok(None);
    }
    Ok(Some((SegmentIndex::decode(content, segment), file_len - len)))
}
