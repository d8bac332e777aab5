//! Lanes of records that are not acknowledged: they are gathered over all connections until a batch
//! is full or its oldest record has waited for [`LaneContext::gather_time`].
//!
//! While the journal refuses a batch, the lanes take no more records ([`Blocked`]): transports stop
//! reading, so that senders with flow control wait, and the kernel counts the datagrams that it
//! drops.
//!
//! Invariants: a record that was taken is appended, in order, as soon as the journal has room; the
//! number of records taken is written to a file after each read ([`Self::mark_received`]), so after
//! a kill the difference to the journal is known, and counted as discarded.
//!
//! [`Self::mark_received`]: GatheredLanes::mark_received

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use weir_host::Disk;
use weir_journal::WritePolicy;
use weir_model::{
    AbandonReason, Batch, BatchBuilder, DiscardReason, Full, Position, RecordFlags, SourceBook,
};

use super::super::limits::{BATCH_BYTES, LANES};
use super::received::ReceivedCounts;
use super::{Lane, LaneContext, LaneState};
use crate::rule::{Subject, TooLarge, Workspace};

/// The journal has no room: wait for [`GatheredLanes::room`], then try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) struct Blocked;

/// All lanes of a listener.
#[derive(Debug)]
pub(in crate::source) struct GatheredLanes {
    shared: LaneState,
    all: RefCell<Vec<GatheredLane>>,
    sealer: RefCell<Sealer>,
    received: RefCell<ReceivedCounts>,
    /// When the oldest record arrived that is not appended yet.
    oldest_at: Cell<Option<Instant>>,
    has_oldest: Notify,
    /// Number of times that all gathered records were sealed.
    flush_count: Cell<u64>,
    has_flushed: Notify,
}

#[derive(Debug)]
struct GatheredLane {
    /// Up to the last sealed batch.
    lane: Lane,
    /// Records that are not sealed yet.
    builder: BatchBuilder,
    /// Their counts, for the book.
    unsealed: SourceBook,
    /// Batches that the journal refused, in order.
    refused: Vec<Batch>,
}

/// Working memory for sealing a batch.
#[derive(Debug)]
struct Sealer {
    work: Workspace,
    /// The first part of a batch that has to be divided.
    first: BatchBuilder,
    /// The rest.
    rest: BatchBuilder,
}

impl GatheredLanes {
    /// Opens the streams of a source, and counts records that an earlier process received but did
    /// not store before it was killed. The counts are kept in `received_file`.
    pub(in crate::source) fn open(
        context: LaneContext,
        disk: &dyn Disk,
        received_file: &Path,
    ) -> Rc<Self> {
        let shared = LaneState::new(context);
        let LaneContext { name, stats, .. } = &shared.context;
        let mut received = ReceivedCounts::open(disk, received_file, stats.clone());
        let mut lanes = Vec::new();
        for (number, (mut lane, resume)) in Lane::open_all(&shared).into_iter().enumerate() {
            // Also later than an epoch without stored records.
            let epoch = lane.position.epoch.max(received.last_epoch(number).saturating_add(1));
            lane.position = Position::new(epoch, 0);
            let lost = received.begin(number, resume.furthest.position, lane.position);
            let mut lane = GatheredLane::new(lane);
            if lost > 0 {
                let at_least = received.is_lower_bound();
                tracing::warn!(source = name, lost, at_least, "records lost when weir was killed");
                lane.unsealed.lines += lost;
                lane.unsealed.discard(DiscardReason::Crash, lost);
            }
            lanes.push(lane);
        }
        let lanes = Rc::new(Self {
            sealer: RefCell::new(Sealer::new(name)),
            all: RefCell::new(lanes),
            received: RefCell::new(received),
            oldest_at: Cell::new(None),
            has_oldest: Notify::new(),
            flush_count: Cell::new(0),
            has_flushed: Notify::new(),
            shared,
        });
        lanes.mark_received();
        lanes.flush();
        lanes
    }

    /// Returns the lane of records with this hash.
    pub(in crate::source) fn lane_of(hash: u64) -> usize {
        (hash % LANES as u64) as usize
    }

    /// Adds a record. `push` adds it to a batch as the record that ends at that offset, and counts
    /// it; it is called again if the first batch is full.
    pub(in crate::source) fn push(
        &self,
        lane: usize,
        mut push: impl FnMut(&mut BatchBuilder, u64, &mut SourceBook) -> Result<(), Full>,
    ) -> Result<(), Blocked> {
        let mut all = self.all.borrow_mut();
        let lane = &mut all[lane];
        loop {
            if !lane.refused.is_empty() {
                return Err(Blocked);
            }
            if lane.try_push(&mut push).is_ok() {
                break;
            }
            debug_assert!(lane.builder.record_count() > 0, "a record fits in an empty frame");
            self.seal(lane);
        }
        if self.oldest_at.get().is_none() {
            self.set_oldest(Instant::now());
        }
        if lane.builder.arena().len() >= BATCH_BYTES {
            self.seal(lane);
        }
        Ok(())
    }

    /// Counts lines that were lost before they could be read.
    pub(in crate::source) fn count_lost(&self, reason: DiscardReason, lines: u64) {
        if let Some(lane) = self.all.borrow_mut().first_mut() {
            lane.unsealed.lines += lines;
            lane.unsealed.discard(reason, lines);
            self.set_oldest(Instant::now());
        }
    }

    /// Counts messages, with their bytes, that were discarded for their quota. The counts are
    /// appended with the next records, or soon after a call of [`Self::append_counts`]: a message
    /// that is discarded must not cost a batch.
    pub(in crate::source) fn count_limited(&self, added: &SourceBook) {
        if let Some(lane) = self.all.borrow_mut().first_mut() {
            lane.unsealed.add(added);
        }
    }

    /// Makes counts that no records follow be appended in time.
    pub(in crate::source) fn append_counts(&self) {
        if self.all.borrow().iter().any(GatheredLane::is_due) {
            self.set_oldest(Instant::now());
        }
    }

    /// Counts bytes of messages that were too long.
    pub(in crate::source) fn count_skipped(&self, bytes: u64) {
        if let Some(lane) = self.all.borrow_mut().first_mut() {
            lane.unsealed.abandon(AbandonReason::LineTooLong, bytes);
            self.set_oldest(Instant::now());
        }
    }

    /// Writes down how many records were received. Call it after each read.
    pub(in crate::source) fn mark_received(&self) {
        let ends = self.all.borrow();
        let ends = ends.iter().map(GatheredLane::end);
        self.received.borrow_mut().write(ends);
    }

    /// Waits until the journal has room.
    pub(in crate::source) async fn room(&self) {
        loop {
            // Before looking, so that room made in between is not missed.
            let mut room = std::pin::pin!(self.shared.room.notified());
            room.as_mut().enable();
            if self.all.borrow().iter().all(|lane| lane.refused.is_empty()) {
                return;
            }
            room.await;
        }
    }

    /// Appends refused batches, once the journal has room again.
    pub(in crate::source) fn wake(&self) {
        let mut all = self.all.borrow_mut();
        let is_free = all.iter_mut().map(|lane| self.append(lane)).filter(|taken| !taken).count();
        drop(all);
        if is_free == 0 {
            self.shared.set_unblocked();
            self.shared.room.notify_waiters();
        }
    }

    /// Appends batches whose records have waited long enough; never returns.
    pub(in crate::source) async fn flush_in_time(&self) {
        loop {
            let notified = self.has_oldest.notified();
            match self.oldest_at.get() {
                None => notified.await,
                Some(oldest_at) => {
                    sleep_until(oldest_at + self.shared.context.gather_time).await;
                    self.flush();
                }
            }
        }
    }

    /// Appends everything, as far as the journal has room.
    pub(in crate::source) fn flush(&self) {
        self.oldest_at.set(None);
        for lane in self.all.borrow_mut().iter_mut().filter(|lane| lane.is_due()) {
            if lane.refused.is_empty() {
                self.seal(lane);
            } else {
                self.set_oldest(Instant::now());
            }
        }
        if self.oldest_at.get().is_none() {
            self.flush_count.set(self.flush_count.get() + 1);
            self.has_flushed.notify_waiters();
        }
    }

    /// Waits until the journal has all records gathered so far.
    pub(in crate::source) async fn appended(&self) {
        let before = self.flush_count.get();
        while self.flush_count.get() == before && self.oldest_at.get().is_some() {
            let mut flushed = std::pin::pin!(self.has_flushed.notified());
            flushed.as_mut().enable();
            flushed.await;
        }
        self.room().await;
    }

    /// Appends everything, waiting for room.
    pub(in crate::source) async fn drain(&self) {
        loop {
            self.room().await;
            self.flush();
            if self.oldest_at.get().is_none()
                && self.all.borrow().iter().all(GatheredLane::is_empty)
            {
                return;
            }
        }
    }

    fn set_oldest(&self, now: Instant) {
        if self.oldest_at.get().is_none() {
            self.oldest_at.set(Some(now));
            self.has_oldest.notify_one();
        }
    }

    /// Seals the records of a lane and appends them, in one batch unless rules make it too large.
    fn seal(&self, lane: &mut GatheredLane) {
        let sealer = &mut *self.sealer.borrow_mut();
        while lane.is_due() {
            let mut count = lane.builder.record_count();
            while sealer.seal(&self.shared, lane, count).is_err() {
                count = (count / 2).max(1);
            }
        }
        self.append(lane);
    }

    /// Appends the batches of a lane. Returns false if the journal refused them.
    fn append(&self, lane: &mut GatheredLane) -> bool {
        if lane.refused.is_empty() {
            return true;
        }
        let batches = std::mem::take(&mut lane.refused);
        match self.shared.context.journal.append_all(batches, WritePolicy::Soon) {
            Ok(_) => true,
            Err(refused) => {
                self.shared.set_blocked(&refused.reason);
                lane.refused = refused.batches;
                false
            }
        }
    }
}

impl GatheredLane {
    fn new(lane: Lane) -> Self {
        let builder = BatchBuilder::new(lane.position);
        Self { lane, builder, unsealed: SourceBook::default(), refused: Vec::new() }
    }

    /// The position after the last record.
    fn end(&self) -> Position {
        let Position { epoch, offset } = self.lane.position;
        Position::new(epoch, offset + self.builder.record_count() as u64)
    }

    /// Returns whether there is something to seal.
    fn is_due(&self) -> bool {
        self.unsealed != SourceBook::default()
    }

    /// Returns whether nothing waits for the journal.
    fn is_empty(&self) -> bool {
        self.refused.is_empty() && !self.is_due()
    }

    fn try_push(
        &mut self,
        push: &mut impl FnMut(&mut BatchBuilder, u64, &mut SourceBook) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let end = self.end().offset + 1;
        push(&mut self.builder, end, &mut self.unsealed)
    }
}

impl Sealer {
    fn new(name: &str) -> Self {
        Self {
            work: Workspace::new(name),
            first: BatchBuilder::new(Position::default()),
            rest: BatchBuilder::new(Position::default()),
        }
    }

    /// Seals the first `count` records of a lane as a batch. If they are too many for one, nothing
    /// has changed.
    fn seal(
        &mut self,
        shared: &LaneState,
        lane: &mut GatheredLane,
        count: usize,
    ) -> Result<(), TooLarge> {
        let is_all = count == lane.builder.record_count();
        let mut added = lane.unsealed;
        if !is_all {
            added = self.divide(lane, count);
        }
        let mut book = lane.lane.book;
        book.add(&added);
        let Position { epoch, offset } = lane.lane.position;
        let end = Position::new(epoch, offset + count as u64);
        let rules = shared.context.rules.current();
        let batch = if is_all { &mut lane.builder } else { &mut self.first };
        let observed_ns = shared.context.clock.unix_ns();
        let mut subject = Subject {
            observed_ns,
            batch: &mut *batch,
            stream: lane.lane.stream,
            book: &mut book,
            clock: shared.context.clock.as_ref(),
            must_fit: count <= 1,
        };
        let applied = rules.apply(&mut self.work, &mut subject);
        if applied.is_err() && count > 1 {
            return Err(TooLarge);
        }
        if applied.is_err() {
            debug_assert!(false, "one record is truncated until it fits");
            // A record is never stored without applying the rules, which may redact it.
            book.records -= added.records;
            book.discard(DiscardReason::Rule, added.records);
            batch.retain(|_| false);
        }
        let seal = lane.lane.seal(shared, observed_ns, end, rules.generation(), &book);
        lane.refused.push(batch.seal(&seal));
        (lane.lane.position, lane.lane.book) = (end, book);
        if is_all {
            lane.unsealed = SourceBook::default();
        } else {
            std::mem::swap(&mut lane.builder, &mut self.rest);
            subtract(&mut lane.unsealed, &added);
        }
        Ok(())
    }

    /// Copies the first `count` records and the others to separate builders. Returns the counts of
    /// the first ones.
    fn divide(&mut self, lane: &GatheredLane, count: usize) -> SourceBook {
        let Position { epoch, offset } = lane.lane.position;
        let all = lane.builder.record_count();
        self.first.reset(lane.lane.position);
        self.rest.reset(Position::new(epoch, offset + count as u64));
        copy(&lane.builder, 0..count, &mut self.first);
        copy(&lane.builder, count..all, &mut self.rest);
        let mut added = SourceBook::default();
        for flags in (0..count).map(|index| lane.builder.record(index).flags) {
            added.lines += 1;
            added.records += 1;
            added.truncated += u64::from(flags.contains(RecordFlags::TRUNCATED));
            added.malformed += u64::from(flags.contains(RecordFlags::MALFORMED));
        }
        added
    }
}

/// Copies records with their resources. There is room: they are a part of a batch that fitted.
fn copy(from: &BatchBuilder, records: Range<usize>, to: &mut BatchBuilder) {
    for index in records {
        let view = from.record(index);
        let resource = from.resource_at(view.resource());
        let copied = to
            .resource(resource.key, resource.encoded)
            .and_then(|resource| to.copy(&view, view.original(), resource));
        debug_assert!(copied.is_ok(), "a part of a frame fits in a frame");
    }
}

fn subtract(book: &mut SourceBook, added: &SourceBook) {
    book.lines -= added.lines;
    book.records -= added.records;
    book.truncated -= added.truncated;
    book.malformed -= added.malformed;
}
