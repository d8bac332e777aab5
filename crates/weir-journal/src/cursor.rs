//! The reading side of a required destination.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_model::{
    Batch, CursorBook, DiscardReason, Position, RecordView, Selection, Share, SourceId, StreamId,
};

use crate::JournalShared;
use crate::fetch::{self, Wanted};
use crate::state::{BatchLocation, PartOutcome, Receipt, State, TakenBatch};

/// The reader of a required destination. Used by exactly one task. Once it is replaced or detached,
/// it receives no more batches, and its settlements are ignored.
#[derive(Debug)]
pub struct Cursor {
    pub(crate) shared: Arc<JournalShared>,
    pub(crate) index: usize,
    pub(crate) reader: u64,
}

/// A batch taken by the destination. It stays in flight until [`Cursor::ack`].
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The batch.
    pub batch: Arc<Batch>,
    /// Records of the batch below this index were committed before a restart: skip them.
    pub first_record: usize,
    /// Number of records from that index on that this destination must deliver.
    pub record_count: u64,
    /// Those that are routed to it, without those that were discarded.
    pub(crate) share: Share,
    pub(crate) seq: u64,
}

/// Deliveries that a destination holds itself and will settle together ([`Cursor::hold`]).
#[derive(Debug, Default)]
pub struct Held {
    /// The entries of each stream in order, with the number of records in each.
    streams: HashMap<StreamId, Vec<(u64, u64)>>,
    receipts: usize,
}

impl Held {
    /// Returns how many entries the journal has to remember: at least one for each stream. The
    /// number of held deliveries should be bounded.
    pub fn len(&self) -> usize {
        self.receipts
    }

    /// Returns whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.receipts == 0
    }
}

/// The journal's view of one destination's positions; usable from any thread.
#[derive(Debug, Clone)]
pub struct CursorMemory {
    shared: Arc<JournalShared>,
    index: usize,
}

impl CursorMemory {
    /// Returns up to which position the destination has settled the stream. `None` when the journal
    /// does not know the stream, or has forgotten it because it ended and was settled completely.
    /// Records appended to it after that are new.
    pub fn committed(&self, stream: StreamId) -> Option<Position> {
        self.shared.lock().committed(self.index, stream)
    }

    /// Returns the committed counts of a part of the destination: see [`Cursor::ack_parts`].
    pub fn part(&self, part: u64) -> CursorBook {
        self.shared.lock().cursors[self.index].parts.book(part)
    }

    /// Returns how many records of a stream are not behind the committed position, including those
    /// that were discarded.
    pub fn uncommitted(&self, stream: StreamId) -> u64 {
        let state = self.shared.lock();
        let place = state.cursor_stream(self.index, stream);
        place.map_or(0, |place| place.through() - place.committed_through)
    }

    /// Asks the journal to free the disk space that nothing in it needs any more. Returns the size
    /// of the frames on disk that only this destination has not settled: settling them frees as
    /// much.
    pub fn request_space(&self) -> u64 {
        self.shared.change(|state| {
            state.space_wanted = true;
            state.bytes_kept_only_for(self.index)
        })
    }

    /// Waits until everything that the journal knows now is on stable storage. An error means that
    /// the disk failed; the journal retries on its own.
    pub fn flush(&self) -> Result<(), String> {
        self.shared.flush()
    }
}

/// A batch that was taken and is being read: given back if the destination stops waiting for it.
struct Unread<'a> {
    cursor: &'a Cursor,
    stream: StreamId,
    seq: u64,
    is_read: bool,
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if !self.is_read {
            self.cursor.make_wait(self.stream, self.seq);
        }
    }
}

/// The outcome of a delivery's records. The numbers must add up to its `record_count`, otherwise
/// the ledger does not balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Acknowledged by the destination.
    pub delivered: u64,
    /// Written to the dead-letter file and synced.
    pub dead_lettered: u64,
    /// Discarded.
    pub discarded: Option<(DiscardReason, u64)>,
    /// Number of records sent again (not counting the first time).
    pub resent: u64,
    /// Moved to another destination of the journal, whose book they are in.
    pub moved: u64,
    /// Matched by no drain of the destination.
    pub unbound: u64,
}

impl Delivery {
    /// Returns the stream that the batch belongs to.
    pub fn stream(&self) -> StreamId {
        self.batch.header().stream
    }

    /// Returns the records that this destination must deliver, in order, each with its index.
    pub fn records(&self) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        let rows = self.batch.routed_rows_without(self.share.cursor, &self.share.without);
        let (first, last) = (self.first_record, self.batch.record_count());
        (first..last)
            .zip(self.batch.records_in(first..last))
            .filter(move |(i, _)| rows.contains(*i))
    }

    /// Returns the same records, to be passed on with their batch.
    pub fn selection(&self) -> Selection {
        let (batch, count) = (self.batch.clone(), self.record_count as usize);
        Selection::of_share(batch, self.first_record, count, self.share.clone())
    }
}

impl Outcome {
    /// Reports all records as delivered.
    pub fn delivered(count: u64) -> Self {
        Self { delivered: count, ..Self::default() }
    }
}

impl Cursor {
    /// Returns the name of a source whose records this destination receives.
    pub fn source_name(&self, source: SourceId) -> Option<String> {
        self.shared.lock().sources.get(&source).map(|source| source.name.clone())
    }

    /// Returns the index of this destination's bit in route masks.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Waits until there is something worth sending: `bytes` of batches are waiting, the oldest has
    /// waited for `age`, or (immediately) the journal is closing or [`Self::take_settle_wanted`] is
    /// true. After [`Self::take`] found nothing that it may take, first waits for an
    /// acknowledgement or another batch.
    pub async fn ready(&mut self, bytes: u64, age: Duration) {
        let notify = self.shared.lock().cursors[self.index].notify.clone();
        loop {
            let notified = notify.notified();
            let wait = {
                let mut state = self.shared.lock();
                let now = self.shared.clock.monotonic();
                let closing = self.is_closing_in(&state);
                let cursor = &mut state.cursors[self.index];
                if cursor.reader != self.reader {
                    return;
                }
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

    /// Takes the next batch, fairly across streams (deficit round robin in bytes), skipping streams
    /// for which `busy` is true (an earlier batch of theirs is in flight). `None` when there is
    /// nothing to take or the window is exhausted.
    ///
    /// A batch that is only on disk is read by a thread of the journal, so that a slow disk does
    /// not hold up the event loop. Safe to cancel: a batch that is being read is given back.
    pub async fn take(&mut self, busy: impl Fn(StreamId) -> bool) -> Option<Delivery> {
        loop {
            let taken = self.next_taken(&busy)?;
            let batch = match &taken.location {
                BatchLocation::Memory(batch) => Some(batch.clone()),
                BatchLocation::Disk(wanted) => self.read(*wanted, &taken).await,
                BatchLocation::Missing => None,
            };
            let delivery = self.delivery(taken, batch);
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    /// Like [`Self::take`], for a destination with a thread of its own: reads the disk itself.
    pub fn take_blocking(&mut self, busy: impl Fn(StreamId) -> bool) -> Option<Delivery> {
        loop {
            let taken = self.next_taken(&busy)?;
            let batch = match &taken.location {
                BatchLocation::Memory(batch) => Some(batch.clone()),
                BatchLocation::Disk(wanted) => fetch::read_here(&self.shared, *wanted),
                BatchLocation::Missing => None,
            };
            let delivery = self.delivery(taken, batch);
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    async fn read(&self, wanted: Wanted, taken: &TakenBatch) -> Option<Arc<Batch>> {
        let (stream, seq) = (taken.stream, taken.seq);
        let mut unread = Unread { cursor: self, stream, seq, is_read: false };
        let batch = fetch::read(&self.shared, wanted).await;
        unread.is_read = true;
        batch
    }

    fn next_taken(&self, busy: &impl Fn(StreamId) -> bool) -> Option<TakenBatch> {
        self.shared
            .change(|state| self.is_current(state).then(|| state.take(self.index, busy)).flatten())
    }

    /// Returns the delivery of a batch; one that can no longer be read is settled as damaged.
    fn delivery(&self, taken: TakenBatch, batch: Option<Arc<Batch>>) -> Option<Delivery> {
        let (record_count, seq) = (taken.routed, taken.seq);
        let Some(batch) = batch else {
            let outcome = Outcome {
                discarded: Some((DiscardReason::Damaged, record_count)),
                ..Outcome::default()
            };
            self.shared.change(|state| {
                state.note_lost(self.index, taken.stream, record_count, DiscardReason::Damaged);
            });
            self.settle(taken.stream, seq, outcome);
            return None;
        };
        let first_record = batch.records_up_to(taken.skip_to);
        let share = Share { cursor: self.index, without: taken.without };
        Some(Delivery { batch, first_record, record_count, share, seq })
    }

    /// Settles a delivery. The committed position advances once all earlier batches of the stream
    /// are settled, and is durable within the commit interval.
    pub fn ack(&mut self, delivery: &Delivery, outcome: Outcome) {
        self.ack_parts(delivery, outcome, Vec::new());
    }

    /// Notes when the destination was done with a delivery, or has its own copy of it.
    fn note(&self, state: &mut State, delivery: &Delivery, is_delivered: bool, at: Duration) {
        let header = delivery.batch.header();
        let all = delivery.batch.record_count() as u64;
        state.receipts.add(Receipt {
            cursor: self.index,
            stream: header.stream,
            range: (header.base(), header.end()),
            observed_ns: header.observed_ns,
            appended_at: state.slots.get(&delivery.seq).map(|slot| slot.appended_at),
            at,
            is_for_all: delivery.record_count == all && !header.merged,
            is_delivered,
        });
    }

    /// Settles a delivery of which each part of the destination got a share, or several did. Their
    /// counts are persisted together with the position, as those of the destination are.
    ///
    /// A destination with [`WhenFull::DropOldestOfStream`](crate::WhenFull) has its streams as
    /// parts, without stating them.
    pub fn ack_parts(&mut self, delivery: &Delivery, outcome: Outcome, parts: Vec<PartOutcome>) {
        let now = self.shared.clock.monotonic();
        let is_delivered = outcome.delivered == delivery.record_count;
        self.shared.change(|state| {
            if self.is_current(state) {
                state.cursors[self.index].parts.settle(delivery.seq, parts);
                self.note(state, delivery, is_delivered, now);
                state.settle(self.index, delivery.stream(), delivery.seq, outcome, now);
            }
        });
    }

    /// Returns the parts of which it has counts.
    pub fn parts(&self) -> Vec<u64> {
        self.shared.lock().cursors[self.index].parts.known().collect()
    }

    /// Forgets the counts of a part.
    pub fn forget_part(&mut self, part: u64) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| {
            if state.cursors[self.index].parts.forget(part) {
                state.positions_since.get_or_insert(now);
            }
        });
    }

    /// Gives a delivery back, unsettled: it is the next of its stream to be taken. The caller
    /// should pass over its stream for a while ([`Self::take`]).
    pub fn put_back(&mut self, delivery: &Delivery) {
        self.make_wait(delivery.stream(), delivery.seq);
    }

    fn make_wait(&self, stream: StreamId, seq: u64) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| {
            if self.is_current(state) {
                state.put_back(self.index, stream, seq, now);
            }
        });
    }

    /// Returns whether all that this destination has not settled of a stream is on stable storage.
    pub fn is_written(&self, stream: StreamId) -> bool {
        self.shared.lock().is_written(self.index, stream)
    }

    /// Discards what waits of a stream and is not on stable storage, because the disk is full or
    /// failing. Returns whether the rest is; what was taken is not discarded.
    pub fn discard_unwritten(&mut self, stream: StreamId) -> bool {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| {
            self.is_current(state) && state.discard_unwritten(self.index, stream, now)
        })
    }

    /// Marks a delivery as held: the destination has its own copy of the records and will make them
    /// durable later, together with everything else in `held`. The delivery stays in flight until
    /// [`Self::ack_held`], but is no longer kept in memory for this destination, does not count
    /// towards its window and buffer, and is not written to disk on its account.
    pub fn hold(&mut self, delivery: &Delivery, held: &mut Held) {
        let (stream, seq, count) = (delivery.stream(), delivery.seq, delivery.record_count);
        let receipts = held.streams.entry(stream).or_default();
        let before = receipts.last().map(|(seq, _)| *seq);
        let now = self.shared.clock.monotonic();
        let joined = self.shared.change(|state| {
            let is_current = self.is_current(state);
            if is_current {
                self.note(state, delivery, true, now);
            }
            is_current && state.hold(self.index, stream, seq, before)
        });
        if let Some(last) = receipts.last_mut().filter(|_| joined) {
            *last = (seq, last.1 + count);
        } else {
            receipts.push((seq, count));
            held.receipts += 1;
        }
    }

    /// Reports that everything in `held` is durable at the destination.
    pub fn ack_held(&mut self, held: Held) {
        for (stream, receipts) in held.streams {
            for (seq, count) in receipts {
                self.settle(stream, seq, Outcome::delivered(count));
            }
        }
    }

    /// Returns true once after something that the destination holds can no longer be read again,
    /// because its file is gone. It should be settled within seconds. [`Self::ready`] returns for
    /// it.
    pub fn take_settle_wanted(&mut self) -> bool {
        std::mem::take(&mut self.shared.lock().cursors[self.index].settle_wanted)
    }

    /// Returns the journal's view of this destination's positions.
    pub fn memory(&self) -> CursorMemory {
        CursorMemory { shared: self.shared.clone(), index: self.index }
    }

    /// Returns whether this destination has taken its backlog: every batch that was appended before
    /// [`crate::Journal::end_backlog`] was called and before this reader was attached, whatever has
    /// been appended since. `unfinished` is a delivery that was taken and does not count as such,
    /// because the destination does not have all of its records yet.
    pub fn has_taken_backlog(&self, unfinished: Option<&Delivery>) -> bool {
        let state = self.shared.lock();
        let end = state.cursors[self.index].backlog_end;
        unfinished.is_none_or(|delivery| delivery.seq >= end) && state.has_taken_backlog(self.index)
    }

    fn settle(&self, stream: StreamId, seq: u64, outcome: Outcome) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| {
            if self.is_current(state) {
                state.settle(self.index, stream, seq, outcome, now);
            }
        });
    }

    /// Returns whether no other reader has taken the place of this one.
    fn is_current(&self, state: &State) -> bool {
        state.cursors[self.index].reader == self.reader
    }

    /// Returns the size of the waiting batches, in bytes, excluding those already taken.
    pub fn waiting_bytes(&self) -> u64 {
        self.shared.lock().cursors[self.index].waiting_bytes
    }

    /// Returns whether the disk is full, most of it with what waits for this destination.
    pub fn fills_disk(&self) -> bool {
        let state = self.shared.lock();
        state.is_disk_full && state.retains_most() == Some(self.index)
    }

    /// Returns whether nothing more will be appended for this destination: the journal is closing,
    /// the destination is being removed, or another reader has taken the place of this one.
    pub fn is_closing(&self) -> bool {
        self.is_closing_in(&self.shared.lock())
    }

    fn is_closing_in(&self, state: &State) -> bool {
        state.closing || state.cursors[self.index].is_closing || !self.is_current(state)
    }
}
