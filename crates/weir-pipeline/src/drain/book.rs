//! The book of a drain: the records it was given since weir started, and their fates.
//!
//! Invariant: `routed = delivered + discarded + waiting`. `waiting` is counted independently, so
//! that an error in counting shows as a book that does not balance.

use weir_model::DiscardReason;

/// The counts of one drain. Records that an earlier run left in its stream count as routed when
/// they are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainBook {
    /// Records that the drain was given.
    pub routed: u64,
    /// Records that its destination has accepted.
    pub delivered: u64,
    /// Records discarded, by reason.
    pub discarded: [u64; DiscardReason::COUNT],
    /// Records that are neither delivered nor discarded.
    pub waiting: u64,
    /// Records that were moved to its stream because it lagged.
    pub moved: u64,
    /// Records that came from an earlier run.
    pub recovered: u64,
}

impl DrainBook {
    pub(super) fn route(&mut self) {
        self.routed += 1;
        self.waiting += 1;
    }

    /// Counts records that an earlier run left.
    pub(super) fn recover(&mut self, records: u64) {
        self.routed += records;
        self.waiting += records;
        self.recovered += records;
    }

    /// Removes records from the counts: they are counted when they are taken again.
    pub(super) fn forget(&mut self, records: u64) {
        self.routed -= records;
        self.waiting -= records;
        self.recovered -= records;
    }

    /// Counts discarded records as waiting again.
    pub(super) fn take_back(&mut self, reason: DiscardReason, records: u64) {
        self.discarded[reason as usize] -= records;
        self.waiting += records;
    }

    pub(super) fn deliver(&mut self, records: u64) {
        self.delivered += records;
        self.waiting -= records;
    }

    pub(super) fn discard(&mut self, reason: DiscardReason, records: u64) {
        debug_assert!(self.waiting >= records, "{records} discarded of {self:?}");
        self.discarded[reason as usize] += records;
        self.waiting -= records;
    }

    /// Returns the number of records discarded for any reason.
    pub fn discarded_total(&self) -> u64 {
        self.discarded.iter().sum()
    }

    /// Returns the number of unaccounted records; 0 when the book balances.
    pub fn unaccounted(&self) -> i64 {
        self.routed as i64 - (self.delivered + self.discarded_total() + self.waiting) as i64
    }
}
