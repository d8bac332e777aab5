//! Taking a batch in: limits, policies, books, entries of every destination.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_model::{Batch, DiscardReason, StreamId};

use super::{CommitTail, Entry, Slot, State, Status, StreamState};
use crate::limits::{MERGE_BYTES_MAX, SLOTS_MAX, STREAM_SHARE};
use crate::spec::{RefusedReason, WhenFull, WritePolicy};
use crate::{Outcome, Refused};

/// Resolves when the batch is on stable storage; `None` when nobody asked for that.
pub(crate) type Durable = Option<oneshot::Receiver<Result<(), RefusedReason>>>;

impl State {
    pub(crate) fn append(
        &mut self,
        batch: Batch,
        policy: WritePolicy,
        now: Duration,
    ) -> Result<Durable, Refused> {
        if let Err(reason) = self.admit(&batch, policy, now) {
            if !matches!(reason, RefusedReason::Closed) {
                self.room_wanted = true;
            }
            return Err(Refused { batch: Box::new(batch), reason });
        }
        let batch = Arc::new(batch);
        self.publish(&batch);
        self.account_stream(&batch);
        if policy == WritePolicy::OnLag && self.merge_into_last(&batch, now) {
            return Ok(None);
        }
        Ok(self.insert(batch, policy, now))
    }

    /// Whether there is room; discards for `drop_oldest` destinations to make some.
    fn admit(
        &mut self,
        batch: &Batch,
        policy: WritePolicy,
        now: Duration,
    ) -> Result<(), RefusedReason> {
        if self.closing {
            return Err(RefusedReason::Closed);
        }
        if policy == WritePolicy::OnAppend
            && let Some(error) = &self.disk_error
        {
            return Err(RefusedReason::Disk { error: error.clone() });
        }
        let stream = batch.header().stream;
        let bytes = batch.memory_bytes() as u64;
        for index in 0..self.cursors.len() {
            self.admit_to_cursor(index, stream, bytes, batch, now)?;
        }
        self.admit_to_ring(stream, bytes, now)
    }

    fn admit_to_cursor(
        &mut self,
        index: usize,
        stream: StreamId,
        bytes: u64,
        batch: &Batch,
        now: Duration,
    ) -> Result<(), RefusedReason> {
        let cursor = &mut self.cursors[index];
        if !cursor.is_active() || batch.routed_count(index) == 0 {
            return Ok(());
        }
        let limit = cursor.limit();
        let over = cursor.pending_bytes > 0 && cursor.pending_bytes + bytes > limit;
        match cursor.when_full() {
            WhenFull::DropOldest if over => {
                let target = limit.saturating_sub(bytes + limit / 32);
                self.discard_oldest(index, target, now);
                Ok(())
            }
            WhenFull::DropOldest => Ok(()),
            WhenFull::Block => {
                let own = cursor.streams.get(&stream).map_or(0, |cs| cs.pending_bytes);
                let others = own < cursor.pending_bytes;
                if over || (others && own + bytes > limit / STREAM_SHARE) {
                    cursor.blocking = true;
                    return Err(RefusedReason::BufferFull { cursor: cursor.name.clone() });
                }
                Ok(())
            }
        }
    }

    fn admit_to_ring(
        &mut self,
        stream: StreamId,
        bytes: u64,
        now: Duration,
    ) -> Result<(), RefusedReason> {
        let limit = self.config.ring_bytes;
        let own = self.streams.get(&stream).map_or(0, |s| s.ring_bytes);
        let after = self.ring_bytes + bytes;
        let hogging = own > limit / STREAM_SHARE && own < self.ring_bytes && after > limit / 4 * 3;
        if (after <= limit && !hogging || self.ring_bytes == 0) && self.slots.len() < SLOTS_MAX {
            return Ok(());
        }
        if self.spill_is_due(now) {
            self.spill_wanted = true;
            if let Some(error) = self.disk_error.clone() {
                return self
                    .discard_for_ring(bytes, now)
                    .then_some(())
                    .ok_or(RefusedReason::Disk { error });
            }
        }
        Err(RefusedReason::RingFull)
    }

    /// Whether a full ring should go to disk: another destination would starve, or the slowest
    /// has kept the ring full for a while. Otherwise the source simply waits: its file is the
    /// better buffer.
    pub(crate) fn spill_is_due(&self, now: Duration) -> bool {
        let active = || self.cursors.iter().filter(|c| c.is_active());
        let starving =
            active().any(|c| c.waiting_bytes == 0) && active().any(|c| c.waiting_bytes > 0);
        let oldest = self.slots.values().find(|s| s.batch.is_some()).map(|s| s.appended_at);
        starving || oldest.is_some_and(|at| now.saturating_sub(at) >= self.config.spill_after)
    }

    /// The ring is full and the disk cannot take it: destinations that may discard make room.
    fn discard_for_ring(&mut self, bytes: u64, now: Duration) -> bool {
        for index in 0..self.cursors.len() {
            if self.cursors[index].when_full() == WhenFull::DropOldest {
                let target = self.cursors[index].pending_bytes.saturating_sub(bytes * 4);
                self.discard_oldest(index, target, now);
            }
        }
        self.ring_bytes + bytes <= self.config.ring_bytes
    }

    /// Discards the oldest waiting batches of the heaviest stream until at most `target` bytes
    /// wait for the destination (or nothing more can be discarded).
    fn discard_oldest(&mut self, index: usize, target: u64, now: Duration) {
        while self.cursors[index].pending_bytes > target {
            let heaviest =
                self.cursors[index].streams.iter().max_by_key(|(_, cs)| cs.waiting_bytes);
            let Some((&stream, cs)) = heaviest.filter(|(_, cs)| cs.waiting_bytes > 0) else {
                return;
            };
            // Down to half of what it has, then look again which one is the heaviest.
            let floor = cs.waiting_bytes / 2;
            self.discard_from(index, stream, target, floor, now);
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
            let cursor = &mut self.cursors[index];
            let Some(cs) = cursor.streams.get_mut(&stream) else { return };
            if cursor.pending_bytes <= target || cs.waiting_bytes == 0 || cs.waiting_bytes < floor {
                return;
            }
            let Some(entry) = cs.entries.get(cs.next) else { return };
            let (seq, routed) = (entry.seq, entry.routed);
            self.mark_taken(index, stream);
            let outcome = Outcome {
                discarded: Some((DiscardReason::BufferFull, routed)),
                ..Outcome::default()
            };
            self.settle(index, stream, seq, outcome, now);
        }
    }

    fn publish(&mut self, batch: &Arc<Batch>) {
        if self.subscribers.is_empty() {
            return;
        }
        let seq = self.next_seq;
        self.subscribers.retain(|s| s.upgrade().is_some_and(|s| s.push(seq, batch)));
    }

    fn account_stream(&mut self, batch: &Batch) {
        let header = batch.header();
        let stream = self.streams.entry(header.stream).or_insert_with(StreamState::default);
        stream.source = Some(header.source);
        stream.group = header.group;
        stream.book = batch.book();
        stream.end = header.end();
        self.sources.entry(header.source).or_default();
    }

    fn insert(&mut self, batch: Arc<Batch>, policy: WritePolicy, now: Duration) -> Durable {
        let seq = self.next_seq;
        self.next_seq += 1;
        let tail = CommitTail::of(&batch);
        let mut holders = 0;
        for index in 0..self.cursors.len() {
            holders += u32::from(self.enter(index, seq, &batch, &tail, now));
        }
        let durable = policy == WritePolicy::OnAppend;
        if holders == 0 && !durable {
            return None;
        }
        let stream = batch.header().stream;
        let memory_bytes = batch.memory_bytes() as u64;
        let (ticket, durable_rx) = if durable { split(oneshot::channel()) } else { (None, None) };
        self.ring_bytes += memory_bytes;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.ring_bytes += memory_bytes;
        }
        let slot = Slot {
            batch: Some(batch),
            location: None,
            stream,
            memory_bytes,
            holders,
            appended_at: now,
            writing: false,
            durable,
            ticket,
        };
        self.slots.insert(seq, slot);
        if durable {
            self.want_durable(seq, memory_bytes, now);
        }
        durable_rx
    }

    pub(crate) fn want_durable(&mut self, seq: u64, bytes: u64, now: Duration) {
        self.durable_waiting.push_back(seq);
        self.durable_waiting_bytes += bytes;
        self.durable_since.get_or_insert(now);
    }

    /// Enters the batch into one destination's books; true when that destination must deliver it.
    fn enter(
        &mut self,
        index: usize,
        seq: u64,
        batch: &Batch,
        tail: &Arc<CommitTail>,
        now: Duration,
    ) -> bool {
        let stream = batch.header().stream;
        if !self.cursors[index].is_active() {
            return false;
        }
        let cs = self.cursors[index].streams.entry(stream).or_default();
        let skip_to = cs.seen();
        if tail.end <= skip_to {
            return false;
        }
        let first_record = batch.records_up_to(skip_to);
        let routed = routed_from(batch, index, first_record);
        let entry = Entry {
            seq,
            tail: tail.clone(),
            routed,
            skip_to,
            bytes: batch.memory_bytes() as u64,
            status: Status::Waiting,
        };
        self.enter_entry(index, stream, entry, now)
    }

    /// Queues an entry; one without records for the destination only moves its position.
    pub(crate) fn enter_entry(
        &mut self,
        index: usize,
        stream: StreamId,
        mut entry: Entry,
        now: Duration,
    ) -> bool {
        let cursor = &mut self.cursors[index];
        let cs = cursor.streams.entry(stream).or_default();
        if entry.routed == 0 {
            entry.status = Status::Settled(Outcome::default());
            entry.bytes = 0;
            let at_front = cs.next == cs.entries.len();
            cs.entries.push_back(entry);
            if at_front {
                cs.next += 1;
            }
            self.commit_prefix(index, stream, now);
            return false;
        }
        cursor.total.routed += entry.routed;
        cursor.in_flight += entry.routed;
        cs.waiting_bytes += entry.bytes;
        cs.pending_bytes += entry.bytes;
        cursor.pending_bytes += entry.bytes;
        if !cs.in_turn {
            cs.in_turn = true;
            cursor.turns.push_back(stream);
        }
        let bytes = entry.bytes;
        cs.entries.push_back(entry);
        self.note_waiting(index, bytes, now);
        true
    }

    /// Wakes the reader when that changes what it waits for.
    fn note_waiting(&mut self, index: usize, bytes: u64, now: Duration) {
        let cursor = &mut self.cursors[index];
        let before = cursor.waiting_bytes;
        cursor.waiting_bytes += bytes;
        if before == 0 {
            cursor.waiting_since = now;
        }
        let crossed = before < cursor.ready_bytes && cursor.waiting_bytes >= cursor.ready_bytes;
        if before == 0 || crossed || cursor.starved {
            cursor.starved = false;
            cursor.notify.notify_one();
        }
    }

    /// Appends to the stream's last batch instead of making a new slot, when that one is small
    /// and still waiting for every destination.
    fn merge_into_last(&mut self, batch: &Arc<Batch>, now: Duration) -> bool {
        let stream = batch.header().stream;
        if batch.frame_bytes() > MERGE_BYTES_MAX || batch.record_count() == 0 {
            return false;
        }
        let Some(seq) = self.mergeable_seq(stream) else { return false };
        let Some(slot) = self.slots.get(&seq) else { return false };
        let Some(last) = slot.batch.as_ref().filter(|b| b.frame_bytes() <= MERGE_BYTES_MAX) else {
            return false;
        };
        let Some(merged) = Batch::merge(last, batch) else { return false };
        let merged = Arc::new(merged);
        let tail = CommitTail::of(&merged);
        let memory_bytes = merged.memory_bytes() as u64;
        let grown = memory_bytes.saturating_sub(slot.memory_bytes);
        for index in 0..self.cursors.len() {
            self.grow_last_entry(index, stream, &merged, &tail, grown, now);
        }
        self.ring_bytes += grown;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.ring_bytes += grown;
        }
        if let Some(slot) = self.slots.get_mut(&seq) {
            slot.memory_bytes += grown;
            slot.batch = Some(merged);
        }
        true
    }

    /// The slot of the stream's last batch, when it waits untouched in every active cursor.
    fn mergeable_seq(&self, stream: StreamId) -> Option<u64> {
        let mut active = self.cursors.iter().filter(|c| c.is_active());
        let last = |c: &super::CursorState| {
            let cs = c.streams.get(&stream)?;
            let entry = cs.entries.back()?;
            let base = self.slots.get(&entry.seq)?.batch.as_ref()?.header().base();
            let whole = entry.skip_to <= base && entry.routed > 0;
            (entry.status == Status::Waiting && whole).then_some(entry.seq)
        };
        let seq = last(active.next()?)?;
        let slot = self.slots.get(&seq)?;
        let free = !slot.writing && slot.location.is_none() && !slot.durable;
        (free && active.all(|c| last(c) == Some(seq))).then_some(seq)
    }

    fn grow_last_entry(
        &mut self,
        index: usize,
        stream: StreamId,
        merged: &Batch,
        tail: &Arc<CommitTail>,
        grown: u64,
        now: Duration,
    ) {
        let cursor = &mut self.cursors[index];
        let Some(cs) = cursor.streams.get_mut(&stream) else { return };
        let Some(entry) = cs.entries.back_mut().filter(|_| cursor.spec.is_some()) else { return };
        let routed = merged.routed_count(index);
        let more = routed - entry.routed;
        entry.routed = routed;
        entry.tail = tail.clone();
        entry.bytes += grown;
        cs.waiting_bytes += grown;
        cs.pending_bytes += grown;
        cursor.pending_bytes += grown;
        cursor.total.routed += more;
        cursor.in_flight += more;
        self.note_waiting(index, grown, now);
    }
}

/// Records routed to the destination from `first_record` on.
pub(crate) fn routed_from(batch: &Batch, cursor: usize, first_record: usize) -> u64 {
    if first_record == 0 {
        return batch.routed_count(cursor);
    }
    (first_record..batch.record_count()).filter(|i| batch.is_routed(*i, cursor)).count() as u64
}

type Split<T> = (Option<oneshot::Sender<T>>, Option<oneshot::Receiver<T>>);

fn split<T>((tx, rx): (oneshot::Sender<T>, oneshot::Receiver<T>)) -> Split<T> {
    (Some(tx), Some(rx))
}
