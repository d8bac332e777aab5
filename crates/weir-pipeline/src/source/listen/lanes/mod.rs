//! From records to the journal: the streams of a listener, its *lanes*.
//!
//! A source that receives records cannot ask for them again, so it numbers them itself: a record's
//! position is its number in its lane. After a restart each lane starts a new epoch, later than any
//! that the journal, or one of its destinations, knows: otherwise a new record could be mistaken
//! for one that was delivered before a crash and never reached the disk.
//!
//! There are two kinds. Records of a request that is acknowledged stay together in the lane of
//! their connection, and the client waits for the disk (`acknowledged`). Records without
//! acknowledgement are gathered over all connections, by the host that they are of, for a few
//! milliseconds (`gathered`).
//!
//! Invariants: numbers and books advance only with records that were appended or are certain to be
//! appended next, so `lines = records + joined + discarded` holds even if batches are refused; a
//! wait for room in the journal does not hold up other work.

mod acknowledged;
mod gathered;
mod received;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use weir_host::Clock;
use weir_journal::{Journal, RefusedReason, ResumePoint, StreamSpec};
use weir_model::{BatchBuilder, Full, Position, Seal, SourceBook, SourceId, StreamId, hash64};

use super::limits::LANES;
use crate::rule::RuleSwitch;
use crate::stats::{SourceStats, add, sub};

pub(in crate::source) use acknowledged::{AcknowledgedLanes, Refusal};
pub(in crate::source) use gathered::{Blocked, GatheredLanes};

/// Adds a record to a batch, as the one that ends at that offset, and counts it.
pub(in crate::source) type Push<'p> =
    dyn FnMut(usize, &mut BatchBuilder, u64, &mut SourceBook) -> Result<(), Full> + 'p;

/// Dependencies of all lanes of a listener.
#[derive(Debug, Clone)]
pub(in crate::source) struct LaneContext {
    pub(in crate::source) name: String,
    /// Number of the thread among those of the source: each has lanes of its own.
    pub(in crate::source) thread: usize,
    pub(in crate::source) journal: Journal,
    pub(in crate::source) rules: Arc<RuleSwitch>,
    pub(in crate::source) clock: Arc<dyn Clock>,
    pub(in crate::source) stats: Arc<SourceStats>,
    /// How long a record without acknowledgement waits for others to fill a batch.
    pub(in crate::source) gather_time: Duration,
}

/// The context, and whether the journal has room.
#[derive(Debug)]
struct LaneState {
    source: SourceId,
    context: LaneContext,
    /// Notifies those that wait for room.
    room: Notify,
    blocked_since: Cell<Option<Duration>>,
    /// The reason of the last refusal for lack of room.
    full: RefCell<RefusedReason>,
}

impl LaneState {
    fn new(context: LaneContext) -> Self {
        Self {
            source: SourceId::of(&context.name),
            context,
            room: Notify::new(),
            blocked_since: Cell::new(None),
            full: RefCell::new(RefusedReason::RingFull),
        }
    }

    /// Notes that the journal refused an append.
    fn set_blocked(&self, reason: &RefusedReason) {
        self.context.stats.count_refused(reason);
        if matches!(reason, RefusedReason::RingFull | RefusedReason::BufferFull { .. }) {
            self.full.replace(reason.clone());
        }
        if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(self.context.clock.monotonic()));
            add(&self.context.stats.blocked_threads, 1);
        }
    }

    /// Notes that the journal has room again, or accepted a batch.
    fn set_unblocked(&self) {
        if let Some(since) = self.blocked_since.take() {
            let blocked = self.context.clock.monotonic().saturating_sub(since);
            add(&self.context.stats.blocked_ns, blocked.as_nanos() as u64);
            sub(&self.context.stats.blocked_threads, 1);
        }
    }

    /// Returns how long the journal has had no room.
    fn blocked_for(&self) -> Option<Duration> {
        let since = self.blocked_since.get()?;
        Some(self.context.clock.monotonic().saturating_sub(since))
    }
}

impl Drop for LaneState {
    fn drop(&mut self) {
        self.set_unblocked();
    }
}

/// One stream of a listener, as of the last appended batch.
#[derive(Debug)]
struct Lane {
    stream: StreamId,
    position: Position,
    book: SourceBook,
}

impl Lane {
    /// Opens all lanes of a source, each with the position of earlier runs.
    fn open_all(shared: &LaneState) -> Vec<(Self, ResumePoint)> {
        let unix_ns = shared.context.clock.unix_ns();
        let now_seconds = u32::try_from(unix_ns / 1_000_000_000).unwrap_or_default();
        let first = shared.context.thread * LANES;
        (first..first + LANES)
            .map(|number| Self::open(&shared.context.journal, shared.source, number, now_seconds))
            .collect()
    }

    fn open(
        journal: &Journal,
        source: SourceId,
        number: usize,
        now_seconds: u32,
    ) -> (Self, ResumePoint) {
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
        // The clock makes epochs new even to destinations that remember more than this data
        // directory; the journal's epochs protect against a wrong clock.
        let epoch = now_seconds.max(resume.last_epoch.saturating_add(1));
        (Self { stream, position: Position::new(epoch, 0), book: resume.book }, resume)
    }

    /// Returns the seal of a batch that ends at `end` and was received at `observed_ns`.
    fn seal<'b>(
        &self,
        shared: &LaneState,
        observed_ns: i64,
        end: Position,
        rule_generation: u32,
        book: &'b SourceBook,
    ) -> Seal<'b> {
        Seal {
            repeatable: false,
            stream: self.stream,
            group: 0,
            source: shared.source,
            end,
            observed_ns,
            rule_generation,
            book,
            state: b"",
        }
    }
}
