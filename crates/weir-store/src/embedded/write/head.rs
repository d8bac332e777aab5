//! Records that are not in a segment yet: a growing chunk, and one that is being flushed.
//!
//! Invariants: a record goes into exactly one chunk, and queries see it as soon as it is there; a
//! chunk's positions are those of its records, so a position that is reported as stored is stored;
//! a delivery is settled with the chunk that has its last record.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_journal::{CursorMemory, Delivery, Held};
use weir_model::{Position, StreamId};

use crate::embedded::columns::Intake;
use crate::embedded::read::snapshot::HeadChunk;
use crate::limits::HELD_DELIVERIES_MAX;
use crate::query::UnparsedRows;

/// What the store needs from the origin of its records.
pub trait Upstream: Send {
    /// Returns up to which position the upstream believes the stream to be stored; `None` when it
    /// does not know the stream or has forgotten it, so that whatever arrives for it is new.
    fn committed(&self, stream: StreamId) -> Option<Position>;
    /// Makes its knowledge of streams and positions durable. A stream whose records are stored must
    /// never be unknown after a crash, otherwise they would be stored again.
    ///
    /// # Errors
    /// The error of the disk.
    fn flush(&self) -> Result<(), String>;
    /// Asks it to free the disk space that nothing in it needs any more. Returns how many bytes it
    /// frees once everything that it has sent is stored.
    fn request_space(&self) -> u64;
}

impl Upstream for CursorMemory {
    fn committed(&self, stream: StreamId) -> Option<Position> {
        CursorMemory::committed(self, stream)
    }

    fn flush(&self) -> Result<(), String> {
        CursorMemory::flush(self)
    }

    fn request_space(&self) -> u64 {
        CursorMemory::request_space(self)
    }
}

/// A chunk that takes no more records.
#[derive(Debug)]
pub(crate) struct SealedChunk {
    pub(crate) chunk: Arc<HeadChunk>,
    /// Up to which position each stream's records are in this chunk or earlier ones.
    pub(crate) positions: HashMap<StreamId, Position>,
    /// First and last sequence.
    pub(crate) sequences: (u64, u64),
    /// Size of the records as received, in bytes.
    pub(crate) raw_bytes: u64,
    /// Deliveries that are settled once the chunk is stored.
    pub(crate) held: Held,
    /// The chunk could take no more, so the next one is expected to grow as large.
    pub(crate) is_full: bool,
}

/// The chunk must be sealed before more can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkFull;

/// The intake's side of the head.
#[derive(Debug)]
pub(crate) struct Head {
    intake: Intake,
    chunk: Arc<HeadChunk>,
    chunk_bytes_max: usize,
    positions: HashMap<StreamId, Position>,
    held: Held,
    raw_bytes: u64,
    first_sequence: u64,
    next_sequence: u64,
    /// When the first record of the chunk arrived.
    begun: Option<Duration>,
    /// Records up to these positions were stored before this start.
    stored: HashMap<StreamId, Position>,
}

impl Head {
    /// Creates an empty head that skips records up to these positions, which are already stored.
    pub(crate) fn new(
        chunk: Arc<HeadChunk>,
        intake: Intake,
        head_bytes: u64,
        next_sequence: u64,
        stored: HashMap<StreamId, Position>,
    ) -> Self {
        Self {
            intake,
            chunk,
            chunk_bytes_max: (head_bytes / 2) as usize,
            positions: HashMap::new(),
            held: Held::default(),
            raw_bytes: 0,
            first_sequence: next_sequence,
            next_sequence,
            begun: None,
            stored,
        }
    }

    /// Adds the records of a delivery from the given one on. Returns how many had already been
    /// stored. The error gives the record to continue with after the chunk has been sealed. The
    /// write lock is held for the whole call.
    pub(crate) fn push(
        &mut self,
        delivery: &Delivery,
        from: usize,
        source: &str,
        now: Duration,
    ) -> Result<u64, (ChunkFull, usize)> {
        let mut skipped = 0;
        let stream = delivery.stream();
        let stored = self.stored.get(&stream).copied();
        self.intake.begin_batch(source, &delivery.batch);
        let mut rows = self.chunk.write();
        let mut last = None;
        let mut full = None;
        for (index, record) in delivery.records().filter(|(index, _)| *index >= from) {
            if stored.is_some_and(|stored| record.position <= stored) {
                skipped += 1;
                continue;
            }
            let pushed = self.intake.push(&mut rows, self.next_sequence, &delivery.batch, &record);
            if pushed.is_err() {
                full = Some(index);
                break;
            }
            self.begun.get_or_insert(now);
            self.next_sequence += 1;
            self.raw_bytes += record.body.len() as u64 + 1;
            last = Some(record.position);
        }
        if let Some(last) = last {
            self.positions.insert(stream, last);
        }
        if let Some(index) = full {
            return Err((ChunkFull, index));
        }
        let end = delivery.batch.header().end();
        if stored.is_some_and(|stored| stored <= end) {
            self.stored.remove(&stream);
        }
        Ok(skipped)
    }

    /// Returns the deliveries to be settled with the current chunk, to add to them.
    pub(crate) fn hold(&mut self, now: Duration) -> &mut Held {
        self.begun.get_or_insert(now);
        &mut self.held
    }

    /// Returns how many records could not be parsed as what they look like, since the start.
    pub(crate) fn unparsed(&self) -> UnparsedRows {
        self.intake.unparsed()
    }

    /// Returns whether the chunk has reached its target size.
    pub(crate) fn is_full(&self) -> bool {
        let rows = self.chunk.read();
        rows.is_full()
            || rows.memory_bytes() >= self.chunk_bytes_max
            || self.held.len() >= HELD_DELIVERIES_MAX
    }

    /// Returns since when there is something to seal.
    pub(crate) fn begun(&self) -> Option<Duration> {
        self.begun
    }

    /// Takes the chunk out; further records go into `next`.
    pub(crate) fn seal(&mut self, next: Arc<HeadChunk>) -> SealedChunk {
        let sequences = (self.first_sequence, self.next_sequence.saturating_sub(1));
        let is_full = self.is_full();
        self.first_sequence = self.next_sequence;
        self.begun = None;
        SealedChunk {
            chunk: std::mem::replace(&mut self.chunk, next),
            positions: std::mem::take(&mut self.positions),
            sequences,
            raw_bytes: std::mem::take(&mut self.raw_bytes),
            held: std::mem::take(&mut self.held),
            is_full,
        }
    }
}
