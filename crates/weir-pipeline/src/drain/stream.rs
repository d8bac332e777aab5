//! The stream of a lagging drain: its own records only, in the journal, until it has caught up.
//!
//! Invariants: records are numbered from 1 in each epoch, and each start begins a later epoch. The
//! state of each frame tells which records of the sources were moved to the stream, up to there.

use weir_host::Clock;
use weir_journal::{CursorMemory, Delivery, Journal, StreamSpec};
use weir_model::{Position, SourceBook, SourceId, StreamId, hash64};

use super::finished::FinishedRecords;
use super::moved::MovedRecords;
use super::taken::{Fate, Row};

/// Returns the source id of all these streams in the journal. There is no source with this name,
/// since nothing is received here.
pub(crate) fn source() -> SourceId {
    SourceId(hash64(b"\0drains"))
}

/// Returns the stream of a drain.
pub(super) fn stream_of(drain: u64) -> StreamId {
    StreamId(hash64(&[b"drain".as_slice(), &drain.to_le_bytes()].concat()))
}

/// The positions up to which the stream of a drain is written and read.
#[derive(Debug)]
pub(super) struct DrainStream {
    pub(super) id: StreamId,
    /// The end of the last appended frame, in this or an earlier run.
    end: Position,
    /// The start of the next frame.
    next: Position,
    /// The end of the last taken batch.
    read: Position,
    /// Records of the sources that are or were in it.
    moved: MovedRecords,
    /// Number of records that earlier runs have left.
    left: u64,
}

impl DrainStream {
    pub(super) fn open(
        journal: &Journal,
        (sources, lagging): (&CursorMemory, &CursorMemory),
        clock: &dyn Clock,
        drain: u64,
    ) -> Self {
        let id = stream_of(drain);
        let resume = journal.open_stream(&StreamSpec {
            stream: id,
            group: 0,
            source: source(),
            start: Position::default(),
            state: b"",
            book: SourceBook::default(),
            gone: false,
        });
        let now_seconds = u32::try_from(clock.unix_ns() / 1_000_000_000).unwrap_or_default();
        // As in the lanes of listeners: neither a wrong clock nor a lost directory repeats an
        // epoch.
        let epoch = now_seconds.max(resume.last_epoch.saturating_add(1));
        let next = Position::new(epoch, 0);
        let read = lagging.committed(id).unwrap_or(resume.position);
        let mut moved = MovedRecords::decode(&resume.state);
        moved.forget(sources);
        let left = lagging.uncommitted(id);
        Self { id, end: resume.position, next, read, moved, left }
    }

    pub(super) fn next(&self) -> Position {
        self.next
    }

    /// Returns the number of records that earlier runs have left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the fate of a record of a source that has one: it is or was in the stream, or was
    /// delivered or discarded before later ones were moved there.
    pub(super) fn fate(&self, stream: StreamId, position: Position) -> Option<Fate> {
        self.moved.fate(stream, position)
    }

    /// Notes the fate of a record of a source: it is in the stream, or was discarded instead.
    pub(super) fn note_fate(&mut self, stream: StreamId, position: Position, fate: Fate) {
        self.moved.note(stream, position, fate);
    }

    /// Notes the fates of finished records before this one, which is moved or discarded.
    pub(super) fn note_finished(&mut self, row: &Row, finished: &mut FinishedRecords) {
        let stream = row.taken.stream();
        for span in finished.take_before(stream, row.position()) {
            self.moved.note_span(stream, span);
        }
    }

    /// Forgets records of the sources that are settled, if there are many.
    pub(super) fn forget_some(&mut self, sources: &CursorMemory) {
        self.moved.forget_some(sources);
    }

    /// Returns a copy of what was moved, to restore it.
    pub(super) fn moved(&self) -> MovedRecords {
        self.moved.clone()
    }

    /// Returns the state of a frame.
    pub(super) fn state(&self) -> Vec<u8> {
        self.moved.encode()
    }

    /// Restores what was moved, since the frames were not appended.
    pub(super) fn restore(&mut self, moved: MovedRecords) {
        self.moved = moved;
    }

    /// Notes that frames were appended.
    pub(super) fn appended(&mut self, end: Position) {
        (self.end, self.next) = (end, end);
    }

    /// Returns whether a batch of the stream was appended by an earlier run.
    pub(super) fn is_earlier(&self, delivery: &Delivery) -> bool {
        delivery.batch.header().epoch < self.next.epoch
    }

    /// Notes that a batch was taken. Returns how many records before it, in its epoch, the journal
    /// has discarded.
    pub(super) fn taken(&mut self, delivery: &Delivery) -> u64 {
        let header = delivery.batch.header();
        let missing = header.base().offset.saturating_sub(self.read_in(header.epoch));
        self.read = header.end();
        missing
    }

    /// Returns whether a batch is the last one that was taken and not put back. If a later one is
    /// finished, this one cannot be put back: what is found missing after it is taken again would
    /// include the records of that one.
    pub(super) fn is_last(&self, delivery: &Delivery) -> bool {
        let end = delivery.batch.header().end();
        if end.epoch == self.read.epoch { end == self.read } else { self.read.offset == 0 }
    }

    /// Notes that the last taken batch, with `lost` records before it, will be taken again.
    pub(super) fn put_back(&mut self, delivery: &Delivery, lost: u64) {
        let base = delivery.batch.header().base();
        self.read = Position::new(base.epoch, base.offset.saturating_sub(lost));
    }

    /// Returns the number of the last record of an epoch that was taken.
    fn read_in(&self, epoch: u32) -> u64 {
        if self.read.epoch == epoch { self.read.offset } else { 0 }
    }

    /// If everything that was appended is settled, returns how many records at the end of this
    /// epoch the journal has discarded.
    pub(super) fn is_settled(&self, lagging: &CursorMemory) -> Option<u64> {
        let is_settled = lagging.committed(self.id).is_none_or(|at| at >= self.end);
        let written = if self.end.epoch == self.next.epoch { self.end.offset } else { 0 };
        is_settled.then(|| written.saturating_sub(self.read_in(self.next.epoch)))
    }

    /// Notes that the stream was taken to its end, and its drain is direct again.
    pub(super) fn read_to_end(&mut self) {
        self.read = self.end;
        self.moved.end_period();
    }
}
