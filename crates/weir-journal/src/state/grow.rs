//! Appending to the last batch of a stream instead of creating a slot for each of many small ones.
//!
//! Invariant: only a batch that waits in memory, untouched, for every destination that it is routed
//! to grows; so for each of them it is as if both had been appended as one.

use std::sync::Arc;
use std::time::Duration;

use weir_model::{Batch, StreamId};

use super::append::{charge, routed_from};
use super::{Checkpoint, CursorStream, State, Status};
use crate::limits::{
    MERGE_ALWAYS_BYTES, MERGE_ARRIVAL_NS_MAX, MERGE_BACKLOG_SLOTS, MERGE_BYTES_MAX,
};

impl State {
    /// Appends to the stream's last batch instead of creating a new slot, if both are small and
    /// that one is still waiting for every destination.
    pub(super) fn merge_into_last(
        &mut self,
        batch: &Batch,
        checkpoint: &Arc<Checkpoint>,
        now: Duration,
    ) -> bool {
        let stream = batch.header().stream;
        let is_backlog = self.slots.len() >= MERGE_BACKLOG_SLOTS;
        let is_worth_a_slot = batch.frame_bytes() >= MERGE_ALWAYS_BYTES && !is_backlog;
        if batch.frame_bytes() > MERGE_BYTES_MAX || batch.record_count() == 0 || is_worth_a_slot {
            return false;
        }
        let Some(seq) = self.mergeable_seq(stream) else { return false };
        let Some(slot) = self.slots.get(&seq) else { return false };
        let Some(last) = slot.batch.as_ref().filter(|b| b.frame_bytes() <= MERGE_BYTES_MAX) else {
            return false;
        };
        if !is_backlog && !arrived_together(last, batch) {
            return false;
        }
        let Some(merged) = Batch::merge(last, batch) else { return false };
        let merged = Arc::new(merged);
        let memory_bytes = merged.memory_bytes() as u64;
        let grown = memory_bytes.saturating_sub(slot.memory_bytes);
        for (index, rows) in merged.routed_counts() {
            self.grow_last_entry((index, rows), stream, &merged, checkpoint, now);
        }
        self.ring_bytes += grown;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.ring_bytes += grown;
        }
        if let Some(slot) = self.slots.get_mut(&seq) {
            slot.memory_bytes += grown;
            slot.records = merged.record_count() as u64;
            slot.batch = Some(merged);
            slot.checkpoint = checkpoint.clone();
        }
        true
    }

    /// Returns the slot of the stream's last batch, if it is waiting, not taken and complete, for
    /// every destination that it is routed to.
    fn mergeable_seq(&self, stream: StreamId) -> Option<u64> {
        let last = |cs: &CursorStream| cs.entries.back().map(|entry| entry.seq);
        let seq = self.cursor_streams(stream).filter_map(|(_, cs)| last(cs)).max()?;
        let slot = self.slots.get(&seq)?;
        let batch = slot.batch.as_ref()?;
        let is_untouched = |(index, _): (usize, u64)| {
            let last = self.cursor_stream(index, stream).and_then(|cs| cs.entries.back());
            !self.is_active(index)
                || last.is_some_and(|e| {
                    e.seq == seq
                        && e.status == Status::Waiting
                        && e.cut.rows == 0
                        && e.skip_to <= batch.header().base()
                })
        };
        let is_free = !slot.writing && slot.location.is_none() && !slot.durable;
        (is_free && batch.routed_counts().into_iter().all(is_untouched)).then_some(seq)
    }

    fn grow_last_entry(
        &mut self,
        (index, routed): (usize, u64),
        stream: StreamId,
        merged: &Batch,
        checkpoint: &Arc<Checkpoint>,
        now: Duration,
    ) {
        if !self.is_active(index) {
            return;
        }
        let Some(cs) = self.cursor_stream(index, stream) else { return };
        let (seen, through) = (cs.seen(), cs.through());
        let before = cs.entries.back().map_or(0, |entry| entry.routed);
        let after = |at| routed_from(merged, index, merged.records_up_to(at));
        let up_to = |at| through + routed.saturating_sub(before + after(at));
        // The previous end of the entry is inside it from now on.
        let inside = self.furthest_within(stream, seen..checkpoint.end, up_to);
        let keys = self.keys_of(index, merged, 0);
        let Some((cursor, cs)) = self.reader(index, stream) else { return };
        let Some(entry) = cs.entries.back_mut() else { return };
        let more = routed - entry.routed;
        let grown = charge(merged, routed).saturating_sub(entry.bytes);
        entry.checkpoint = checkpoint.clone();
        entry.inside.extend(inside);
        entry.keys = keys;
        entry.routed = routed;
        entry.through += more;
        entry.bytes += grown;
        cs.waiting_bytes += grown;
        cs.pending_bytes += grown;
        cursor.pending_bytes += grown;
        cs.pay_owed_rows(checkpoint.end, more);
        cursor.total.routed += more;
        cursor.in_flight += more;
        self.note_waiting(index, grown, now);
    }
}

/// Returns whether the merged batch, which has the arrival of the earlier one, still tells well
/// enough when each record arrived.
fn arrived_together(first: &Batch, second: &Batch) -> bool {
    let [first_ns, second_ns] = [first, second].map(|batch| batch.header().observed_ns);
    first_ns.abs_diff(second_ns) <= MERGE_ARRIVAL_NS_MAX
}
