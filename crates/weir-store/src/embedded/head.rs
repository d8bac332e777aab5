//! What was taken in and is in no segment yet: a chunk that grows, and one that is being flushed.
//!
//! Invariants: a record goes into exactly one chunk, and is seen by queries as soon as it is in
//! it; a chunk's positions are those of its records, so that what it says is stored is stored;
//! a delivery is settled with the chunk that has its last record.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_journal::{CursorMemory, Delivery, Held};
use weir_model::{Position, StreamId};

use super::columns::Intake;
use super::snapshot::HeadChunk;
use crate::limits::HELD_MAX;
use crate::query::UnparsedRows;

/// What the store asks of where its records come from.
pub trait Upstream: Send {
    /// How far it believes the store to be; `None` when it does not know the stream, or has
    /// forgotten it: what comes of it then is new.
    fn committed(&self, stream: StreamId) -> Option<Position>;
    /// Makes durable what it knows of streams and positions. A stream whose records are stored
    /// must never be unknown after a crash, else they would be stored again.
    ///
    /// # Errors
    /// What the disk said.
    fn flush(&self) -> Result<(), String>;
}

impl Upstream for CursorMemory {
    fn committed(&self, stream: StreamId) -> Option<Position> {
        CursorMemory::committed(self, stream)
    }

    fn flush(&self) -> Result<(), String> {
        CursorMemory::flush(self)
    }
}

/// A chunk that takes no more records.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) chunk: Arc<HeadChunk>,
    /// Up to where each stream's records are in this chunk or earlier ones.
    pub(super) positions: HashMap<StreamId, Position>,
    /// First and last sequence.
    pub(super) sequences: (u64, u64),
    /// Bytes of the records as they came in.
    pub(super) raw_bytes: u64,
    /// What is settled once the chunk is stored.
    pub(super) held: Held,
    /// It could take no more: the next one will grow as large.
    pub(super) is_full: bool,
}

/// Why a chunk has to be sealed before more can be taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkFull;

/// The intake's side of the head.
#[derive(Debug)]
pub(super) struct Head {
    intake: Intake,
    chunk: Arc<HeadChunk>,
    chunk_bytes_max: usize,
    positions: HashMap<StreamId, Position>,
    held: Held,
    raw_bytes: u64,
    first_sequence: u64,
    next_sequence: u64,
    /// When the first record of the chunk came.
    begun: Option<Duration>,
    /// Records up to here were stored before this start.
    stored: HashMap<StreamId, Position>,
}

impl Head {
    /// An empty one: what is stored already up to these positions is passed over.
    pub(super) fn new(
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

    /// Adds the records of a delivery, from the given one on; returns how many were stored before.
    /// The error says at which record to go
    /// on once the chunk is sealed. The write lock is held for this delivery.
    pub(super) fn push(
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

    /// What is to be settled with the present chunk, to add to it.
    pub(super) fn hold(&mut self, now: Duration) -> &mut Held {
        self.begun.get_or_insert(now);
        &mut self.held
    }

    /// Records that were not what they look like, since start.
    pub(super) fn unparsed(&self) -> UnparsedRows {
        self.intake.unparsed()
    }

    /// The chunk has as much as it should have.
    pub(super) fn is_full(&self) -> bool {
        let rows = self.chunk.read();
        rows.is_full() || rows.memory_bytes() >= self.chunk_bytes_max || self.held.len() >= HELD_MAX
    }

    /// Since when there is something to seal.
    pub(super) fn begun(&self) -> Option<Duration> {
        self.begun
    }

    /// Takes the chunk out; the next records go into `next`.
    pub(super) fn seal(&mut self, next: Arc<HeadChunk>) -> Sealed {
        let sequences = (self.first_sequence, self.next_sequence.saturating_sub(1));
        let is_full = self.is_full();
        self.first_sequence = self.next_sequence;
        self.begun = None;
        Sealed {
            chunk: std::mem::replace(&mut self.chunk, next),
            positions: std::mem::take(&mut self.positions),
            sequences,
            raw_bytes: std::mem::take(&mut self.raw_bytes),
            held: std::mem::take(&mut self.held),
            is_full,
        }
    }
}
