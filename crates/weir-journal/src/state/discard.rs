//! Discarding waiting batches of a destination: the oldest of its heaviest stream, to make room, or
//! all, because it was dropped.
//!
//! Invariant: discarded batches are settled like any other, and counted with their reason.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use weir_model::{DiscardReason, StreamId};

use super::State;
use crate::Outcome;

impl State {
    /// Discards the oldest waiting batches of the heaviest stream until at most `target` bytes wait
    /// for the destination (or nothing more can be discarded).
    pub(super) fn discard_oldest(&mut self, index: usize, target: u64, now: Duration) {
        if self.cursors[index].pending_bytes <= target {
            return;
        }
        // Among equally heavy streams, the one that has waited longest.
        let weigh = |state: &Self, stream: StreamId| {
            let cs = state.cursor_stream(index, stream)?;
            let oldest = cs.entries.get(cs.next)?.seq;
            (cs.waiting_bytes > 0).then_some((cs.waiting_bytes, Reverse(oldest), stream))
        };
        let waiting = self.cursors[index].turns.iter();
        let mut heaviest: BinaryHeap<_> =
            waiting.filter_map(|stream| weigh(self, *stream)).collect();
        while self.cursors[index].pending_bytes > target
            && let Some((waiting_bytes, _, stream)) = heaviest.pop()
        {
            // Down to half of what it has, then determine the heaviest stream again.
            self.discard_from(index, stream, target, waiting_bytes / 2, now);
            heaviest.extend(weigh(self, stream));
        }
    }

    fn discard_from(
        &mut self,
        index: usize,
        stream: StreamId,
        target: u64,
        floor: u64,
        now: Duration,
    ) {
        loop {
            let cursor = &self.cursors[index];
            let Some(cs) = self.cursor_stream(index, stream) else { return };
            if cursor.pending_bytes <= target || cs.waiting_bytes == 0 || cs.waiting_bytes < floor {
                return;
            }
            if !self.discard_next(index, stream, DiscardReason::BufferFull, now) {
                return;
            }
        }
    }

    /// Discards the next batch of the stream that waits for the destination. Returns false if none
    /// does.
    fn discard_next(
        &mut self,
        index: usize,
        stream: StreamId,
        reason: DiscardReason,
        now: Duration,
    ) -> bool {
        let Some(cs) = self.cursor_stream(index, stream) else { return false };
        let Some(entry) = cs.entries.get(cs.next) else { return false };
        let (seq, routed) = (entry.seq, entry.routed);
        self.mark_taken(index, stream);
        let outcome = Outcome { discarded: Some((reason, routed)), ..Outcome::default() };
        self.settle(index, stream, seq, outcome, now);
        true
    }

    /// Discards all waiting batches of a destination without a reader.
    pub(super) fn discard_waiting(&mut self, index: usize, now: Duration) {
        for stream in self.streams_of(index) {
            while self.discard_next(index, stream, DiscardReason::CursorDropped, now) {}
        }
        (self.cursors[index].spec, self.cursors[index].is_detached) = (None, false);
    }
}
