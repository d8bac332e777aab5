//! The book of a drain: the records it was given since it was added, and their fates.
//!
//! Invariants: `routed = delivered + discarded + waiting`. `waiting` is counted independently, so
//! that an error in counting shows as a book that does not balance. What is settled survives a
//! restart: the journal keeps it in the record of the position that it belongs to, for the batches
//! of sources and for the stream of the drain. Both roll back with their positions.

use weir_model::{CursorBook, DiscardReason};

/// The counts of one drain.
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
    /// Records that an earlier run has left, as found at the last start.
    pub recovered: u64,
}

impl DrainBook {
    /// Creates the book of a drain from what the journal keeps: what was settled in the batches of
    /// sources, and in its own stream.
    pub(super) fn restored(direct: &CursorBook, stream: &CursorBook) -> Self {
        let mut book = Self { moved: direct.moved, ..Self::default() };
        for settled in [direct, stream] {
            book.delivered += settled.delivered;
            for (sum, count) in book.discarded.iter_mut().zip(settled.discarded) {
                *sum += count;
            }
        }
        book.routed = book.delivered + book.discarded_total();
        book
    }

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

    /// Counts discarded records as waiting again.
    pub(super) fn take_back(&mut self, reason: DiscardReason, records: u64) {
        self.discarded[reason as usize] -= records;
        self.waiting += records;
    }

    pub(super) fn deliver(&mut self, records: u64) {
        debug_assert!(self.waiting >= records, "{records} delivered of {self:?}");
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
