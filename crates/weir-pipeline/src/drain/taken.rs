//! A batch that the drains have taken, and the fate of each of its records.
//!
//! Invariants: a batch is finished when every drain has finished every record that it was given;
//! the fate of a record is the worst one at any of its drains. The fate at each drain is kept too,
//! for the drain's book.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use weir_journal::{Delivery, Outcome, PartOutcome};
use weir_model::{DiscardReason, Position, RecordView, StreamId};

/// Where a batch comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A source.
    Source,
    /// The stream of a lagging drain.
    Stream,
}

/// The fate of a record, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// It is not routed to the drains.
    Elsewhere,
    /// It matches no drain.
    Unbound,
    /// Delivered.
    Delivered,
    /// Moved to the stream of a lagging drain.
    Moved,
    /// Discarded.
    Discarded(u8),
}

impl Fate {
    /// Discarded for a reason.
    pub(super) fn discarded(reason: DiscardReason) -> Self {
        Self::Discarded(reason as u8)
    }

    /// Returns the outcome of this many records with this fate.
    fn outcome(self, records: u64) -> Outcome {
        match self {
            Self::Elsewhere | Self::Unbound => Outcome::default(),
            Self::Delivered => Outcome::delivered(records),
            Self::Moved => Outcome { moved: records, ..Outcome::default() },
            Self::Discarded(reason) => {
                let discarded = Some((DiscardReason::ALL[usize::from(reason)], records));
                Outcome { discarded, ..Outcome::default() }
            }
        }
    }
}

/// A batch that was taken from the journal.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) delivery: Delivery,
    pub(super) origin: Origin,
    pub(super) at: Duration,
    /// Number of records before it, in its stream, that are lost.
    pub(super) lost: Cell<u64>,
    /// Number of records, over all drains, that are not finished.
    open: Cell<usize>,
    fates: RefCell<Vec<Fate>>,
    /// If it comes from a source: by drain, the fates of records that it has finished.
    by_drain: RefCell<Vec<(u64, Fate)>>,
}

impl Taken {
    pub(super) fn new(delivery: Delivery, origin: Origin, at: Duration) -> Self {
        let fates = RefCell::new(vec![Fate::Elsewhere; delivery.batch.record_count()]);
        // One for the distribution itself: see `given`.
        let (lost, open, by_drain) = (Cell::new(0), Cell::new(1), RefCell::default());
        Self { delivery, origin, at, lost, open, fates, by_drain }
    }

    pub(super) fn stream(&self) -> StreamId {
        self.delivery.stream()
    }

    /// Notes that a record was routed to the drains, even if it matches none.
    pub(super) fn note(&self, index: usize) {
        self.fates.borrow_mut()[index] = Fate::Unbound;
    }

    /// Notes that a drain was given a record.
    pub(super) fn give(&self) {
        self.open.set(self.open.get() + 1);
    }

    /// Notes that all records were given to drains. Returns true if none of them is open.
    pub(super) fn given(&self) -> bool {
        self.open.set(self.open.get() - 1);
        self.open.get() == 0
    }

    /// Notes the fate of a record at one drain. Returns true if it was the last open one.
    pub(super) fn finish(&self, index: usize, fate: Fate) -> bool {
        let mut fates = self.fates.borrow_mut();
        fates[index] = fates[index].max(fate);
        debug_assert!(self.open.get() > 0, "a record was finished twice");
        self.open.set(self.open.get() - 1);
        self.open.get() == 0
    }

    /// Notes the fate of one of its records at a drain, for the drain's book. What becomes of the
    /// stream of a drain is counted by the journal.
    pub(super) fn note_fate(&self, drain: u64, fate: Fate) {
        if self.origin == Origin::Source {
            self.by_drain.borrow_mut().push((drain, fate));
        }
    }

    /// Returns the outcomes by drain, for the journal.
    pub(super) fn parts(&self) -> Vec<PartOutcome> {
        let mut by_drain = self.by_drain.take();
        by_drain.sort_unstable();
        let part = |same: &[(u64, Fate)]| {
            let (part, fate) = same[0];
            PartOutcome { part, outcome: fate.outcome(same.len() as u64) }
        };
        by_drain.chunk_by(|one, next| one == next).map(part).collect()
    }

    /// Returns whether none of the `count` records that were given to drains is finished.
    pub(super) fn is_untouched(&self, count: usize) -> bool {
        self.open.get() == count
    }

    /// Returns the outcome for the journal. If records were discarded for several reasons, all are
    /// counted under the most frequent one; the books of the drains are exact.
    pub(super) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut discarded = [0_u64; DiscardReason::COUNT];
        for fate in self.fates.borrow().iter() {
            match fate {
                Fate::Elsewhere => {}
                Fate::Unbound => outcome.unbound += 1,
                Fate::Delivered => outcome.delivered += 1,
                Fate::Moved => outcome.moved += 1,
                Fate::Discarded(reason) => discarded[usize::from(*reason)] += 1,
            }
        }
        let most = DiscardReason::ALL.iter().max_by_key(|reason| discarded[**reason as usize]);
        let total: u64 = discarded.iter().sum();
        outcome.discarded = most.filter(|_| total > 0).map(|reason| (*reason, total));
        outcome
    }
}

/// A record for one drain.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) taken: Rc<Taken>,
    pub(super) index: u32,
}

impl Row {
    pub(super) fn record(&self) -> RecordView<'_> {
        self.taken.delivery.batch.record(self.index as usize)
    }

    /// Its approximate size in the stream of a drain.
    pub(super) fn drain_bytes(&self) -> usize {
        let record = self.record();
        record.original().len().max(record.body.len())
    }

    pub(super) fn position(&self) -> Position {
        self.record().position
    }
}
