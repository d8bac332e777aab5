//! The reading side of one required destination.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_model::{Batch, DiscardReason, Position, RecordView, SourceId, StreamId};

use crate::Shared;
use crate::segment::{self, ReadError};
use crate::state::{Location, Place, Taken};

/// A required destination's reader. Exactly one task uses it.
#[derive(Debug)]
pub struct Cursor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
}

/// A batch that the destination has taken. It stays in flight until [`Cursor::ack`].
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The batch.
    pub batch: Arc<Batch>,
    /// Records of the batch below this index were committed before a restart: skip them.
    pub first_record: usize,
    /// Records from there on that are routed to this destination.
    pub record_count: u64,
    pub(crate) cursor: usize,
    pub(crate) seq: u64,
}

/// Deliveries that a destination holds itself and will settle together ([`Cursor::hold`]).
#[derive(Debug, Default)]
pub struct Held {
    /// Entries of each stream in order, with the records that each stands for.
    streams: HashMap<StreamId, Vec<(u64, u64)>>,
    receipts: usize,
}

impl Held {
    /// How many the journal has to remember: at least one for each stream. A bounded number
    /// should be held at a time.
    pub fn len(&self) -> usize {
        self.receipts
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.receipts == 0
    }
}

/// What the journal knows about one destination's positions, from any thread.
#[derive(Debug, Clone)]
pub struct CursorMemory {
    shared: Arc<Shared>,
    index: usize,
}

impl CursorMemory {
    /// How far the destination has settled the stream; `None` when the journal does not know the
    /// stream, or has forgotten it because it ended and was settled whole. What is appended to it
    /// after that is new.
    pub fn committed(&self, stream: StreamId) -> Option<Position> {
        self.shared.lock().committed(self.index, stream)
    }

    /// Waits until everything that the journal knows now is on stable storage. An error says that
    /// the disk failed: it is tried again by itself.
    pub fn flush(&self) -> Result<(), String> {
        self.shared.flush()
    }
}

/// What became of a delivery's records. The numbers add up to its `record_count`, else the book
/// does not balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Acknowledged by the destination.
    pub delivered: u64,
    /// Written to the dead-letter file, which was synced.
    pub dead_lettered: u64,
    /// Given up.
    pub discarded: Option<(DiscardReason, u64)>,
    /// Further sendings of records (beside the first one).
    pub resent: u64,
}

impl Delivery {
    /// The stream that the batch belongs to.
    pub fn stream(&self) -> StreamId {
        self.batch.header().stream
    }

    /// The records that this destination must deliver, in order, each with its index.
    pub fn records(&self) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        let rows = self.batch.routed_rows(self.cursor);
        let (first, last) = (self.first_record, self.batch.record_count());
        (first..last)
            .zip(self.batch.records_in(first..last))
            .filter(move |(i, _)| rows.contains(*i))
    }
}

impl Outcome {
    /// Everything was delivered.
    pub fn delivered(count: u64) -> Self {
        Self { delivered: count, ..Self::default() }
    }
}

impl Cursor {
    /// Name of a source whose records this destination gets.
    pub fn source_name(&self, source: SourceId) -> Option<String> {
        self.shared.lock().sources.get(&source).map(|source| source.name.clone())
    }

    /// Index of this destination's bit in route masks.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Waits until there is something worth sending: `bytes` of batches wait, or the oldest has
    /// waited for `age`, or (at once) the journal is closing or [`Self::take_settle_wanted`] is true. After [`Self::take`] found nothing
    /// that it may take, waits for an acknowledgement or for another batch first.
    pub async fn ready(&mut self, bytes: u64, age: Duration) {
        let notify = self.shared.lock().cursors[self.index].notify.clone();
        loop {
            let notified = notify.notified();
            let wait = {
                let mut state = self.shared.lock();
                let now = self.shared.clock.monotonic();
                let closing = state.closing;
                let cursor = &mut state.cursors[self.index];
                cursor.ready_bytes = bytes.max(1);
                let waiting = if cursor.starved { 0 } else { cursor.waiting_bytes };
                let waited = now.saturating_sub(cursor.waiting_since);
                if (closing && !cursor.starved)
                    || cursor.settle_wanted
                    || waiting >= cursor.ready_bytes
                    || (waiting > 0 && waited >= age)
                {
                    return;
                }
                (waiting > 0).then(|| age.saturating_sub(waited))
            };
            match wait {
                Some(left) => drop(tokio::time::timeout(left, notified).await),
                None => notified.await,
            }
        }
    }

    /// Takes the next batch, fairly over streams (deficit round robin in bytes), passing over
    /// streams for which `busy` is true (an earlier batch of theirs is in flight). `None` when
    /// there is nothing to take or the window is used up.
    pub fn take(&mut self, busy: impl Fn(StreamId) -> bool) -> Option<Delivery> {
        loop {
            let taken = self.shared.change(|state| state.take(self.index, &busy))?;
            if let Some(delivery) = self.fetch(&taken) {
                return Some(delivery);
            }
            let outcome = Outcome {
                discarded: Some((DiscardReason::Damaged, taken.routed)),
                ..Outcome::default()
            };
            self.shared.change(|state| {
                state.note_lost(self.index, taken.stream, taken.routed, DiscardReason::Damaged);
            });
            self.settle(taken.stream, taken.seq, outcome);
        }
    }

    /// Gets the batch, from disk if need be; `None` when it cannot be read any more.
    fn fetch(&self, taken: &Taken) -> Option<Delivery> {
        let batch = match &taken.place {
            Place::Memory(batch) => batch.clone(),
            Place::Disk(location) => Arc::new(self.read(taken, *location)?),
            Place::Nowhere => return None,
        };
        let first_record = batch.records_up_to(taken.skip_to);
        let (record_count, seq) = (taken.routed, taken.seq);
        Some(Delivery { batch, first_record, record_count, cursor: self.index, seq })
    }

    /// Reads the batch where it stands, also if it is written anew meanwhile.
    fn read(&self, taken: &Taken, mut location: Location) -> Option<Batch> {
        loop {
            let file = self.shared.lock().segments.get(&location.segment).map(|s| s.file.clone());
            let gone = || Err(ReadError::Io(std::io::ErrorKind::NotFound.into()));
            let read = || file.as_ref().map_or_else(gone, |f| segment::read_frame(&**f, location));
            // Once more: a device may fail a single read and then answer.
            let error = match read().or_else(|_| read()) {
                Ok(batch) => return Some(batch),
                Err(error) => error,
            };
            let now_at = self.shared.lock().slots.get(&taken.seq).and_then(|slot| slot.location);
            if let Some(moved) = now_at.filter(|now_at| *now_at != location) {
                // It was written anew elsewhere in the meantime.
                location = moved;
                continue;
            }
            tracing::error!(%error, records = taken.routed, "a batch in the journal cannot be read any more; its records are discarded");
            self.shared.lock().note_damage(location);
            return None;
        }
    }

    /// Settles a delivery. Positions move on when all earlier batches of the stream are settled,
    /// and are durable within the commit interval.
    pub fn ack(&mut self, delivery: &Delivery, outcome: Outcome) {
        self.settle(delivery.stream(), delivery.seq, outcome);
    }

    /// The destination has a copy of the delivery's records and will make them durable later,
    /// together with all that is in `held`. The delivery stays in flight until
    /// [`Self::ack_held`], but it is not kept for this destination in memory, uses up none of its
    /// window and buffer, and is no reason to write it to disk.
    pub fn hold(&mut self, delivery: &Delivery, held: &mut Held) {
        let (stream, seq, count) = (delivery.stream(), delivery.seq, delivery.record_count);
        let receipts = held.streams.entry(stream).or_default();
        let before = receipts.last().map(|(seq, _)| *seq);
        let joined = self.shared.change(|state| state.hold(self.index, stream, seq, before));
        if let Some(last) = receipts.last_mut().filter(|_| joined) {
            *last = (seq, last.1 + count);
        } else {
            receipts.push((seq, count));
            held.receipts += 1;
        }
    }

    /// Everything in `held` is durable at the destination.
    pub fn ack_held(&mut self, held: Held) {
        for (stream, receipts) in held.streams {
            for (seq, count) in receipts {
                self.settle(stream, seq, Outcome::delivered(count));
            }
        }
    }

    /// True once after something that the destination holds has become impossible to read again:
    /// its file is gone. It should be settled within seconds. [`Self::ready`] returns for it.
    pub fn take_settle_wanted(&mut self) -> bool {
        std::mem::take(&mut self.shared.lock().cursors[self.index].settle_wanted)
    }

    /// What the journal knows about this destination's positions.
    pub fn memory(&self) -> CursorMemory {
        CursorMemory { shared: self.shared.clone(), index: self.index }
    }

    /// Every source has looked once for what it reads ([`crate::Journal::release_unclaimed`]).
    pub fn sources_are_open(&self) -> bool {
        self.shared.lock().sources_are_open
    }

    fn settle(&self, stream: StreamId, seq: u64, outcome: Outcome) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.settle(self.index, stream, seq, outcome, now));
    }

    /// Bytes that wait and are not taken yet.
    pub fn waiting_bytes(&self) -> u64 {
        self.shared.lock().cursors[self.index].waiting_bytes
    }

    /// True once the journal is closing and nothing more will come.
    pub fn is_closing(&self) -> bool {
        self.shared.lock().closing
    }
}
