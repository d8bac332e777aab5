//! When destinations were done with what they took last, for whoever follows one record.
//!
//! Invariants: nothing in the journal depends on it; the oldest receipts are forgotten first, and
//! there are at most [`RECEIPTS_MAX`]; a receipt is about a whole batch, so what it says of a
//! record holds for every record of that batch.

use std::collections::VecDeque;
use std::time::Duration;

use weir_model::{Position, StreamId};

use super::{Entry, State, Status};
use crate::limits::RECEIPTS_MAX;
use crate::spec::RecordState;

/// A destination was done with a batch, or has its own copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) cursor: usize,
    pub(crate) stream: StreamId,
    /// Where the batch begins, and where it ends.
    pub(crate) range: (Position, Position),
    /// When it arrived, nanoseconds since 1970.
    pub(crate) observed_ns: i64,
    /// When it was appended, as far as the journal still knew.
    pub(crate) appended_at: Option<Duration>,
    pub(crate) at: Duration,
    /// Every record of it was for the destination.
    pub(crate) is_for_all: bool,
    /// All of those were delivered.
    pub(crate) is_delivered: bool,
}

/// The last receipts of all destinations, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Receipts(VecDeque<Receipt>);

/// What is known of one record and one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) state: RecordState,
    pub(crate) observed_ns: Option<i64>,
    pub(crate) appended_at: Option<Duration>,
    /// When the destination was done with it, or had its own copy.
    pub(crate) done_at: Option<Duration>,
    pub(crate) is_for_all: bool,
    pub(crate) is_delivered: bool,
}

impl Receipt {
    fn is_about(&self, stream: StreamId, position: Position) -> bool {
        let (base, end) = self.range;
        self.stream == stream && base < position && position <= end
    }
}

impl Receipts {
    pub(crate) fn add(&mut self, receipt: Receipt) {
        if self.0.len() == RECEIPTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(receipt);
    }

    /// Forgets the receipts of a destination, whose slot another one gets.
    pub(crate) fn forget(&mut self, cursor: usize) {
        self.0.retain(|receipt| receipt.cursor != cursor);
    }

    /// Returns the receipts for batches with that record, the newest last.
    fn about(&self, stream: StreamId, position: Position) -> Vec<Receipt> {
        self.0.iter().filter(|receipt| receipt.is_about(stream, position)).copied().collect()
    }
}

impl State {
    /// Returns what is known of a record and each of these destinations.
    pub(crate) fn traces(
        &self,
        cursors: impl Iterator<Item = usize>,
        stream: StreamId,
        position: Position,
    ) -> Vec<(usize, Trace)> {
        let receipts = self.receipts.about(stream, position);
        let of = |cursor| receipts.iter().rev().find(|receipt| receipt.cursor == cursor);
        cursors.map(|cursor| (cursor, self.trace(cursor, stream, position, of(cursor)))).collect()
    }

    fn trace(
        &self,
        cursor: usize,
        stream: StreamId,
        position: Position,
        receipt: Option<&Receipt>,
    ) -> Trace {
        let entry = self.entry_with(cursor, stream, position);
        let slot = entry.and_then(|entry| self.slots.get(&entry.seq));
        let is_all_of = |entry: &Entry| {
            let batch = slot.and_then(|slot| slot.batch.as_ref());
            let is_it = |base: Position| base < position;
            batch.is_some_and(|batch| is_it(batch.header().base()) && !batch.header().merged)
                && slot.is_some_and(|slot| slot.records == entry.routed)
        };
        let is_for_all = entry.is_some_and(is_all_of);
        let slot = slot.filter(|_| is_for_all);
        let of_receipt = receipt.and_then(|receipt| receipt.appended_at);
        Trace {
            state: self.record_state(cursor, stream, position, entry),
            observed_ns: receipt
                .map(|receipt| receipt.observed_ns)
                .or_else(|| slot.and_then(|slot| slot.observed_ns)),
            appended_at: of_receipt.or_else(|| slot.map(|slot| slot.appended_at)),
            done_at: receipt.map(|receipt| receipt.at),
            is_for_all: receipt.map_or(is_for_all, |receipt| receipt.is_for_all),
            is_delivered: receipt.is_some_and(|receipt| receipt.is_delivered),
        }
    }

    /// Returns the first batch of a destination that ends at or after a record, if the destination
    /// has not committed the record.
    fn entry_with(&self, cursor: usize, stream: StreamId, position: Position) -> Option<&Entry> {
        let cs = self.streams.get(&stream)?.cursor_streams.get(cursor)?;
        let first = cs.entries.partition_point(|entry| entry.checkpoint.end < position);
        cs.entries.get(first).filter(|_| cs.committed < position)
    }

    fn record_state(
        &self,
        cursor: usize,
        stream: StreamId,
        position: Position,
        entry: Option<&Entry>,
    ) -> RecordState {
        // A stream is forgotten once everything of it is settled.
        let Some(known) = self.streams.get(&stream) else { return RecordState::Settled };
        let Some(committed) = known.committed(cursor) else { return RecordState::Unknown };
        match entry.map(|entry| entry.status) {
            _ if position <= committed => RecordState::Settled,
            Some(Status::Waiting | Status::Taken) => RecordState::Waiting,
            Some(Status::Held) => RecordState::Held,
            Some(Status::Settled(_)) => RecordState::Settled,
            None if position <= known.checkpoint.end => RecordState::Settled,
            None => RecordState::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(cursor: usize, stream: u64, range: (u64, u64)) -> Receipt {
        let (base, end) = (Position::new(0, range.0), Position::new(0, range.1));
        Receipt {
            cursor,
            stream: StreamId(stream),
            range: (base, end),
            observed_ns: 0,
            appended_at: None,
            at: Duration::from_secs(range.1),
            is_for_all: true,
            is_delivered: true,
        }
    }

    #[test]
    fn a_record_is_in_the_batch_that_ends_at_or_after_it() {
        let mut receipts = Receipts::default();
        receipts.add(receipt(0, 1, (0, 10)));
        receipts.add(receipt(0, 1, (10, 20)));
        receipts.add(receipt(1, 1, (0, 20)));
        let at = |stream, offset| -> Vec<(usize, u64)> {
            let found = receipts.about(StreamId(stream), Position::new(0, offset));
            found.iter().map(|receipt| (receipt.cursor, receipt.at.as_secs())).collect()
        };
        assert_eq!(at(1, 10), [(0, 10), (1, 20)]);
        assert_eq!(at(1, 11), [(0, 20), (1, 20)]);
        assert_eq!([at(2, 1), at(1, 21), at(1, 0)], [[], [], []]);
        receipts.forget(0);
        assert_eq!(receipts.0.len(), 1);
    }

    #[test]
    fn the_oldest_receipts_are_forgotten() {
        let mut receipts = Receipts::default();
        for end in 1..=RECEIPTS_MAX as u64 + 5 {
            receipts.add(receipt(0, 1, (end - 1, end)));
        }
        assert_eq!(receipts.0.len(), RECEIPTS_MAX);
        assert_eq!(receipts.0[0].range.1, Position::new(0, 6));
    }
}
