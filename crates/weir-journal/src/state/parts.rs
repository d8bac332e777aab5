//! The books of the parts of a destination: of each of the recipients among which it divides what
//! it gets.
//!
//! Invariants: the book of a part changes together with the committed book of its destination, and
//! is persisted in the same record, so both roll back with the positions. For a destination that
//! divides what it gets by stream, each stream is a part; others state at each acknowledgement
//! what became of the records of which part. A part without counts is not kept.

use std::collections::{BTreeSet, HashMap};

use weir_model::CursorBook;

use super::read::add_outcome;
use crate::Outcome;

/// What became of records of one part of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartOutcome {
    /// Identifies the part among those of its destination.
    pub part: u64,
    /// The counts.
    pub outcome: Outcome,
}

/// The parts of a destination.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Counts of what is committed.
    books: HashMap<u64, CursorBook>,
    /// Parts whose book has changed since it was last written.
    dirty: BTreeSet<u64>,
    /// Outcomes of entries that are settled and not committed, by sequence number.
    settled: HashMap<u64, Vec<PartOutcome>>,
}

impl Parts {
    /// Notes the outcomes of an entry, until it is committed.
    pub(crate) fn settle(&mut self, seq: u64, outcomes: Vec<PartOutcome>) {
        if !outcomes.is_empty() {
            self.settled.insert(seq, outcomes);
        }
    }

    /// Adds the outcomes of an entry to the books.
    pub(crate) fn commit(&mut self, seq: u64) {
        for PartOutcome { part, outcome } in self.settled.remove(&seq).unwrap_or_default() {
            self.change(part, |book| {
                add_outcome(book, &outcome);
                book.routed = book.settled();
            });
        }
    }

    /// Changes the book of a part.
    pub(crate) fn change(&mut self, part: u64, change: impl FnOnce(&mut CursorBook)) {
        change(self.books.entry(part).or_default());
        self.dirty.insert(part);
    }

    /// Returns the book of a part; without counts if the part is not known.
    pub(crate) fn book(&self, part: u64) -> CursorBook {
        self.books.get(&part).copied().unwrap_or_default()
    }

    pub(crate) fn is_known(&self, part: u64) -> bool {
        self.books.contains_key(&part)
    }

    /// Forgets the counts of a part. Returns true if there were any.
    pub(crate) fn forget(&mut self, part: u64) -> bool {
        let is_known = self.books.remove(&part).is_some();
        if is_known {
            self.dirty.insert(part);
        }
        is_known
    }

    /// Returns the parts that have counts.
    pub(crate) fn known(&self) -> impl Iterator<Item = u64> {
        self.books.keys().copied()
    }

    /// Sets the book of a part to what was persisted.
    pub(crate) fn restore(&mut self, part: u64, book: CursorBook) {
        if book == CursorBook::default() {
            self.books.remove(&part);
        } else {
            self.books.insert(part, book);
        }
    }

    /// Returns every book.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, CursorBook)> {
        self.books.iter().map(|(part, book)| (*part, *book))
    }

    /// Returns the books that have changed since the last call; one without counts if a part was
    /// forgotten.
    pub(crate) fn take_changed(&mut self) -> Vec<(u64, CursorBook)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|part| (part, self.book(part))).collect()
    }
}
