//! From records to the journal: the batches of one request, appended together and acknowledged when
//! they are on stable storage.
//!
//! A listener has a few streams, its *lanes*; a connection stays in one, so consecutive requests of
//! a client on a connection keep their order everywhere. A record's position is its number in its
//! lane. Records cannot be requested again, so after a restart each lane starts a new epoch, later
//! than any that the journal, or one of its destinations, knows: otherwise a new record could be
//! mistaken for one that was delivered before a crash and never reached the disk.
//!
//! Invariants: only one request at a time numbers the records of a lane; its batches are appended
//! together or not at all; numbers and book advance only with what was appended, so `lines =
//! records + joined + discarded` holds whatever is refused.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::time::{Instant, timeout_at};
use weir_host::Clock;
use weir_journal::{Journal, RefusedReason, StreamSpec, WritePolicy};
use weir_model::{
    Batch, BatchBuilder, Full, Position, Seal, SourceBook, SourceId, StreamId, hash64,
};

use super::super::limits::{BATCH_BYTES, DURABLE_WAIT, LANES, ROOM_WAIT};
use crate::rule::{RuleSwitch, Subject, Workspace};
use crate::stats::{SourceStats, add};

/// Why records were refused. None of them was appended, or (`Disk` and `Slow`, after they were
/// appended) they may still be delivered: the client sends them again, since they were not
/// acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::source) enum Refusal {
    /// A buffer is full.
    Full(String),
    /// The disk cannot store them.
    Disk(String),
    /// Weir is stopping.
    Closed,
    /// The disk did not respond in time.
    Slow,
    /// The records go to more sets of destinations than a frame can name.
    TooLarge,
}

/// One stream of a listener.
#[derive(Debug)]
pub(in crate::source) struct Lane {
    stream: StreamId,
    position: Position,
    book: SourceBook,
}

/// The turn of a request in its lane.
#[derive(Debug)]
pub(in crate::source) struct Turn<'l> {
    lane: MutexGuard<'l, Lane>,
    /// When it stops waiting for room.
    deadline: Instant,
}

/// The batches of one request, and the state of their lane after them.
#[derive(Debug)]
pub(in crate::source) struct PreparedBatches {
    batches: Vec<Batch>,
    position: Position,
    book: SourceBook,
}

/// Adds record `index` of a request to a batch, as the one that ends at that offset, and counts it.
pub(in crate::source) type Push<'p> =
    dyn FnMut(usize, &mut BatchBuilder, u64, &mut SourceBook) -> Result<(), Full> + 'p;

/// Creates batches; reused for one request after another.
#[derive(Debug)]
struct BatchAssembler {
    builder: BatchBuilder,
    work: Workspace,
}

/// All lanes of a listener.
#[derive(Debug)]
pub(in crate::source) struct Lanes {
    source: SourceId,
    journal: Journal,
    rules: Arc<RuleSwitch>,
    clock: Arc<dyn Clock>,
    stats: Arc<SourceStats>,
    all: Vec<Mutex<Lane>>,
    assembler: RefCell<BatchAssembler>,
    room: Notify,
    blocked_since: Cell<Option<Duration>>,
    /// Why the last request was refused for lack of room.
    full: RefCell<RefusedReason>,
}

impl Lanes {
    /// Opens the streams of a source.
    pub(in super::super) fn open(
        name: &str,
        journal: Journal,
        rules: Arc<RuleSwitch>,
        clock: Arc<dyn Clock>,
        stats: Arc<SourceStats>,
    ) -> Rc<Self> {
        let source = SourceId::of(name);
        let now_seconds = u32::try_from(clock.unix_ns() / 1_000_000_000).unwrap_or_default();
        let lanes =
            (0..LANES).map(|number| Mutex::new(Lane::open(&journal, source, number, now_seconds)));
        Rc::new(Self {
            source,
            all: lanes.collect(),
            journal,
            rules,
            clock,
            stats,
            assembler: RefCell::new(BatchAssembler {
                builder: BatchBuilder::new(Position::default()),
                work: Workspace::new(name),
            }),
            room: Notify::new(),
            blocked_since: Cell::new(None),
            full: RefCell::new(RefusedReason::RingFull),
        })
    }

    /// Waits for the turn of a request in its lane. The turns are in the order of the calls.
    pub(in crate::source) async fn enter(&self, lane: usize) -> Result<Turn<'_>, Refusal> {
        let deadline = self.deadline();
        let lane = timeout_at(deadline, self.all[lane % LANES].lock()).await;
        let Ok(lane) = lane else {
            let reason = self.full.borrow().clone();
            return Err(self.refused(&reason));
        };
        Ok(Turn { lane, deadline })
    }

    /// Deadline of waiting for a turn and for room. If there has been no room for long, the request
    /// tries once and does not wait.
    fn deadline(&self) -> Instant {
        let now = Instant::now();
        let has_long_been_full = self
            .blocked_since
            .get()
            .is_some_and(|since| self.clock.monotonic().saturating_sub(since) >= ROOM_WAIT);
        if has_long_been_full { now } else { now + ROOM_WAIT }
    }

    /// Creates the batches of a request of `count` records, and applies the rules to them.
    pub(in crate::source) fn prepare(
        &self,
        turn: &Turn<'_>,
        count: usize,
        push: &mut Push<'_>,
    ) -> Result<PreparedBatches, Refusal> {
        let lane = &*turn.lane;
        let mut prepared =
            PreparedBatches { batches: Vec::new(), position: lane.position, book: lane.book };
        let mut assembler = self.assembler.borrow_mut();
        let (mut done, mut batch_len_max) = (0, count);
        while done < count {
            match self.assemble(
                &mut assembler,
                lane,
                &mut prepared,
                done..count.min(done + batch_len_max),
                push,
            ) {
                Ok(records) => {
                    done += records;
                    batch_len_max = count;
                }
                // Rules made it too large: try again with half of them, finally with one that is
                // truncated.
                Err(records) if records > 1 => batch_len_max = records / 2,
                Err(_) => return Err(Refusal::TooLarge),
            }
        }
        Ok(prepared)
    }

    /// Creates one batch of the first of these records. `Ok`: the number of records in it; `Err`:
    /// the number that was too large.
    fn assemble(
        &self,
        assembler: &mut BatchAssembler,
        lane: &Lane,
        prepared: &mut PreparedBatches,
        records: std::ops::Range<usize>,
        push: &mut Push<'_>,
    ) -> Result<usize, usize> {
        let BatchAssembler { builder, work } = assembler;
        builder.reset(prepared.position);
        // Nothing is known about the sender but the source; there is always room for one resource.
        let _is_there = builder.resource(self.source.0, b"{}");
        let mut book = prepared.book;
        let mut end = prepared.position;
        for index in records {
            let offset = end.offset + 1;
            if push(index, builder, offset, &mut book).is_err() {
                break;
            }
            end.offset = offset;
            if builder.arena().len() >= BATCH_BYTES {
                break;
            }
        }
        let count = (end.offset - prepared.position.offset) as usize;
        if count == 0 {
            return Err(0);
        }
        let rules = self.rules.current();
        let mut subject = Subject {
            must_fit: count == 1,
            batch: builder,
            stream: lane.stream,
            book: &mut book,
            clock: self.clock.as_ref(),
        };
        rules.apply(work, &mut subject).map_err(|_| count)?;
        prepared.batches.push(builder.seal(&Seal {
            repeatable: false,
            stream: lane.stream,
            group: 0,
            source: self.source,
            end,
            observed_ns: self.clock.unix_ns(),
            rule_generation: rules.generation(),
            book: &book,
            state: b"",
        }));
        (prepared.position, prepared.book) = (end, book);
        Ok(count)
    }

    /// Appends the batches of a request, all or none, and returns once they are on stable storage.
    /// Other requests have their turn in the lane as soon as the batches are appended.
    pub(in crate::source) async fn append(
        &self,
        turn: Turn<'_>,
        prepared: PreparedBatches,
    ) -> Result<(), Refusal> {
        let Turn { mut lane, deadline } = turn;
        let mut batches = prepared.batches;
        let tickets = loop {
            // Before trying, so that room made in between is not missed.
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            match self.journal.append_all(batches, WritePolicy::OnAppend) {
                Ok(tickets) => break tickets,
                Err(refused) => {
                    let refusal = self.refused(&refused.reason);
                    let may_pass = matches!(refusal, Refusal::Full(_));
                    if !may_pass || timeout_at(deadline, room).await.is_err() {
                        return Err(refusal);
                    }
                    batches = refused.batches;
                }
            }
        };
        (lane.position, lane.book) = (prepared.position, prepared.book);
        drop(lane);
        self.set_unblocked();
        let deadline = Instant::now() + DURABLE_WAIT;
        for ticket in tickets {
            match timeout_at(deadline, ticket.durable()).await {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => return Err(self.refused(&reason)),
                Err(_) => return Err(Refusal::Slow),
            }
        }
        Ok(())
    }

    fn refused(&self, reason: &RefusedReason) -> Refusal {
        add(&self.stats.blocked_total, 1);
        if matches!(reason, RefusedReason::RingFull | RefusedReason::BufferFull { .. }) {
            self.full.replace(reason.clone());
        }
        if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(self.clock.monotonic()));
            self.stats.is_blocked.store(true, Ordering::Relaxed);
        }
        if let RefusedReason::Disk { error } = reason {
            self.stats.errors.count("journal_disk", error);
        }
        Refusal::of(reason)
    }

    /// The journal has room again, or took something.
    fn set_unblocked(&self) {
        if let Some(since) = self.blocked_since.take() {
            let blocked = self.clock.monotonic().saturating_sub(since);
            add(&self.stats.blocked_ns, blocked.as_nanos() as u64);
            self.stats.is_blocked.store(false, Ordering::Relaxed);
        }
    }

    /// Lets requests that wait for room try again.
    pub(in super::super) fn wake(&self) {
        self.set_unblocked();
        self.room.notify_waiters();
    }
}

impl Lane {
    fn open(journal: &Journal, source: SourceId, number: usize, now_seconds: u32) -> Self {
        let id = [&source.0.to_le_bytes()[..], b"lane", &number.to_le_bytes()].concat();
        let stream = StreamId(hash64(&id));
        let resume = journal.open_stream(&StreamSpec {
            stream,
            group: 0,
            source,
            start: Position::default(),
            state: b"",
            book: SourceBook::default(),
            gone: false,
        });
        // With the clock, numbers are new even to destinations that remember more than this data
        // directory; with the journal's numbers, a wrong clock cannot make them old.
        let epoch = now_seconds.max(resume.last_epoch.saturating_add(1));
        Self { stream, position: Position::new(epoch, 0), book: resume.book }
    }
}

impl Refusal {
    fn of(reason: &RefusedReason) -> Self {
        match reason {
            RefusedReason::RingFull => Self::Full("the buffer in memory is full".to_owned()),
            RefusedReason::BufferFull { cursor } => {
                Self::Full(format!("the buffer of output {cursor} is full"))
            }
            RefusedReason::Disk { error } => Self::Disk(error.clone()),
            RefusedReason::Closed => Self::Closed,
        }
    }
}
