//! Lanes of requests that are acknowledged: the batches of one request are appended together, and
//! the client is answered when they are on stable storage.
//!
//! A connection stays in one lane, so consecutive requests of a client on a connection keep their
//! order everywhere.
//!
//! Invariants: only one request at a time numbers the records of a lane; its batches are appended
//! together or not at all.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};
use weir_journal::{RefusedReason, WritePolicy};
use weir_model::{Batch, BatchBuilder, Position, SourceBook};

use super::super::limiter::Claim;
use super::super::limits::{BATCH_BYTES, DURABLE_WAIT, LANES, ROOM_WAIT};
use super::{Lane, LaneContext, LaneState, Push};
use crate::rule::{Subject, Workspace};

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
    /// The quota that their records have used.
    claim: Option<Claim>,
}

/// Creates batches; reused for one request after another.
#[derive(Debug)]
struct BatchAssembler {
    builder: BatchBuilder,
    work: Workspace,
}

/// All lanes of a listener.
#[derive(Debug)]
pub(in crate::source) struct AcknowledgedLanes {
    shared: LaneState,
    all: Vec<Mutex<Lane>>,
    assembler: RefCell<BatchAssembler>,
}

impl AcknowledgedLanes {
    /// Opens the streams of a source.
    pub(in super::super) fn open(context: LaneContext) -> Rc<Self> {
        let shared = LaneState::new(context);
        let lanes = Lane::open_all(&shared).into_iter();
        Rc::new(Self {
            all: lanes.map(|(lane, _)| Mutex::new(lane)).collect(),
            assembler: RefCell::new(BatchAssembler {
                builder: BatchBuilder::new(Position::default()),
                work: Workspace::new(&shared.context.name),
            }),
            shared,
        })
    }

    /// Waits for the turn of a request in its lane. The turns are in the order of the calls.
    pub(in crate::source) async fn enter(&self, lane: usize) -> Result<Turn<'_>, Refusal> {
        let deadline = self.deadline();
        let lane = timeout_at(deadline, self.all[lane % LANES].lock()).await;
        let Ok(lane) = lane else {
            let reason = self.shared.full.borrow().clone();
            return Err(self.refused(&reason));
        };
        Ok(Turn { lane, deadline })
    }

    /// Deadline of waiting for a turn and for room. If there has been no room for long, the request
    /// tries once and does not wait.
    fn deadline(&self) -> Instant {
        let now = Instant::now();
        let has_long_been_full = self.shared.blocked_for().is_some_and(|time| time >= ROOM_WAIT);
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
        let Lane { position, book, .. } = *lane;
        let mut prepared = PreparedBatches { batches: Vec::new(), position, book, claim: None };
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
        // The resource only has the source; there is always room for one resource.
        let _is_there = builder.resource(self.shared.source.0, b"{}");
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
        let rules = self.shared.context.rules.current();
        let observed_ns = self.shared.context.clock.unix_ns();
        let mut subject = Subject {
            observed_ns,
            must_fit: count == 1,
            batch: builder,
            stream: lane.stream,
            book: &mut book,
            clock: self.shared.context.clock.as_ref(),
        };
        rules.apply(work, &mut subject).map_err(|_| count)?;
        let seal = lane.seal(&self.shared, observed_ns, end, rules.generation(), &book);
        prepared.batches.push(builder.seal(&seal));
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
            let mut room = std::pin::pin!(self.shared.room.notified());
            room.as_mut().enable();
            match self.shared.context.journal.append_all(batches, WritePolicy::OnAppend) {
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
        if let Some(claim) = prepared.claim {
            claim.settle();
        }
        drop(lane);
        self.shared.set_unblocked();
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
        self.shared.set_blocked(reason);
        Refusal::of(reason)
    }

    /// Lets requests that wait for room try again.
    pub(in super::super) fn wake(&self) {
        self.shared.set_unblocked();
        self.shared.room.notify_waiters();
    }
}

impl PreparedBatches {
    /// Settles the claim when the batches are appended; if they are refused, it is given back.
    pub(in crate::source) fn with_claim(self, claim: Option<Claim>) -> Self {
        Self { claim, ..self }
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
