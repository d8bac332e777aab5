//! The reading side: fair turns, settlement, positions.

use std::sync::Arc;
use std::time::Duration;

use weir_model::{Batch, CursorBook, DiscardReason, Position, StreamId};

use super::{Entry, Slot, State, Status};
use crate::Outcome;
use crate::fetch::Wanted;
use crate::limits::QUANTUM_BYTES;

/// A batch handed to a reader; its bytes may still have to be read from disk.
#[derive(Debug)]
pub(crate) struct TakenBatch {
    pub(crate) stream: StreamId,
    pub(crate) seq: u64,
    pub(crate) routed: u64,
    pub(crate) skip_to: Position,
    /// Records of these keys were discarded.
    pub(crate) without: Vec<u64>,
    pub(crate) location: BatchLocation,
}

#[derive(Debug)]
pub(crate) enum BatchLocation {
    Memory(Arc<Batch>),
    Disk(Wanted),
    /// The slot is gone: a bug, treated like a damaged frame so that it is counted.
    Missing,
}

impl State {
    /// Returns the next batch by deficit round robin in bytes over the streams that are not busy.
    pub(crate) fn take(
        &mut self,
        index: usize,
        busy: impl Fn(StreamId) -> bool,
    ) -> Option<TakenBatch> {
        let stream = self.next_turn(index, busy);
        let cursor = &mut self.cursors[index];
        let Some(stream) = stream else {
            cursor.starved = cursor.waiting_bytes > 0;
            return None;
        };
        let cs = self.streams.get_mut(&stream)?.cursor_streams.get_mut(index)?;
        let entry = cs.entries.get(cs.next)?;
        let (seq, routed, skip_to) = (entry.seq, entry.left(), entry.skip_to);
        let without = entry.cut.keys.clone();
        cs.deficit = cs.deficit.saturating_sub(entry.bytes);
        let at = cs.next;
        self.mark_taken(index, stream, at);
        if self.ring_wanted > 0 && self.cursors[index].is_idle() {
            self.spill_wanted |= self.is_starving();
        }
        if self.ahead_wanted && !self.is_ahead_by_one_in(2) {
            self.wake_sources();
        }
        let location = match self.slots.get(&seq) {
            None => BatchLocation::Missing,
            Some(slot) => match (&slot.batch, slot.location) {
                (Some(batch), _) => BatchLocation::Memory(batch.clone()),
                (None, Some(location)) => {
                    let is_shared = slot.holders > 1;
                    BatchLocation::Disk(Wanted { seq, location, is_shared, records: routed })
                }
                (None, None) => BatchLocation::Missing,
            },
        };
        Some(TakenBatch { stream, seq, routed, skip_to, without, location })
    }

    fn next_turn(&mut self, index: usize, busy: impl Fn(StreamId) -> bool) -> Option<StreamId> {
        let (cursor, streams) = (&mut self.cursors[index], &mut self.streams);
        let window = cursor.window();
        let left = self.config.taken_bytes_max.saturating_sub(self.taken_bytes);
        let mut passed_over = 0;
        while passed_over < cursor.turns.len() {
            let stream = *cursor.turns.front()?;
            let cs = streams.get_mut(&stream)?.cursor_streams.get_mut(index)?;
            let bytes = cs.entries.get(cs.next).map_or(0, |e| e.bytes);
            if busy(stream) {
                passed_over += 1;
                cursor.turns.rotate_left(1);
                continue;
            }
            let is_too_much = cursor.taken_bytes + bytes > window || bytes > left;
            if cursor.taken_bytes > 0 && is_too_much {
                return None;
            }
            if cs.deficit >= bytes {
                return Some(stream);
            }
            passed_over = 0;
            cs.deficit += QUANTUM_BYTES;
            if cs.deficit < bytes || cursor.turns.len() > 1 {
                cursor.turns.rotate_left(1);
            }
        }
        None
    }

    /// Returns whether the destination has taken every batch that was appended before each source
    /// had appended what its streams had when it opened them, and before its reader was attached.
    pub(crate) fn has_taken_backlog(&self, index: usize) -> bool {
        let end = self.cursors[index].backlog_end;
        let is_later = |stream: &StreamId| {
            let next = self.cursor_stream(index, *stream).and_then(|cs| cs.entries.get(cs.next));
            next.is_none_or(|entry| entry.seq >= end)
        };
        self.is_backlog_read && self.cursors[index].turns.iter().all(is_later)
    }

    /// Marks a waiting entry of a stream as `Taken` and updates the sums.
    pub(crate) fn mark_taken(&mut self, index: usize, stream: StreamId, at: usize) {
        let Some((cursor, cs)) = self.reader(index, stream) else { return };
        let Some(entry) = cs.entries.get_mut(at) else { return };
        entry.status = Status::Taken;
        let bytes = entry.bytes;
        cs.waiting_bytes -= bytes;
        cursor.waiting_bytes -= bytes;
        cursor.taken_bytes += bytes;
        cursor.taken += entry.left();
        while cs.entries.get(cs.next).is_some_and(|e| e.status != Status::Waiting) {
            cs.next += 1;
        }
        if cs.next == cs.entries.len() {
            cs.in_turn = false;
            cs.deficit = 0;
            if cursor.turns.front() == Some(&stream) {
                cursor.turns.pop_front();
            } else {
                cursor.turns.retain(|s| *s != stream);
            }
        }
        self.taken_bytes += bytes;
    }

    /// Makes a taken entry wait again.
    pub(crate) fn put_back(&mut self, index: usize, stream: StreamId, seq: u64, now: Duration) {
        let Some((cursor, cs)) = self.reader(index, stream) else { return };
        let Ok(at) = cs.entries.binary_search_by_key(&seq, |e| e.seq) else { return };
        let entry = &mut cs.entries[at];
        if entry.status != Status::Taken {
            return;
        }
        entry.status = Status::Waiting;
        let bytes = entry.bytes;
        if cursor.waiting_bytes == 0 {
            cursor.waiting_since = now;
        }
        cs.waiting_bytes += bytes;
        cursor.waiting_bytes += bytes;
        cursor.taken_bytes -= bytes;
        cursor.taken -= entry.left();
        cs.next = cs.next.min(at);
        if !cs.in_turn {
            cs.in_turn = true;
            cursor.turns.push_back(stream);
        }
        self.taken_bytes -= bytes;
    }

    /// Settles a taken entry: books, window, slot, and the committed position if it is next.
    pub(crate) fn settle(
        &mut self,
        index: usize,
        stream: StreamId,
        seq: u64,
        outcome: Outcome,
        now: Duration,
    ) {
        let Some((cursor, cs)) = self.reader(index, stream) else { return };
        let Ok(at) = cs.entries.binary_search_by_key(&seq, |e| e.seq) else { return };
        let entry = &mut cs.entries[at];
        let was_held = entry.status == Status::Held;
        if !was_held && entry.status != Status::Taken {
            return;
        }
        entry.status = Status::Settled(outcome);
        let bytes = entry.bytes;
        cs.pending_bytes -= bytes;
        cursor.pending_bytes -= bytes;
        cursor.pending_batches -= 1;
        cursor.taken_bytes -= bytes;
        cursor.taken -= entry.left();
        cursor.in_flight -= entry.left();
        cursor.cut_bytes -= std::mem::take(&mut entry.cut.bytes);
        let is_cut = entry.cut.rows > 0;
        add_outcome(&mut cursor.total, &outcome);
        if cursor.starved {
            cursor.starved = false;
            cursor.notify.notify_one();
        }
        self.taken_bytes -= bytes;
        if let Some(slot) = self.slots.get_mut(&seq) {
            slot.is_discarded |= is_cut || outcome.discarded.is_some();
        }
        if !was_held {
            self.stop_reading(seq);
        }
        self.release(seq);
        if was_held {
            self.no_longer_held(stream, seq);
        }
        self.commit_prefix(index, stream, now);
        self.give_up_unwritable(seq, now);
        if self.cursor_stream(index, stream).is_some_and(|cs| cs.entries.is_empty()) {
            self.settle_cursor_streams(stream, now);
            self.fold_if_done(stream, now);
        }
        self.wake_sources_if_room();
    }

    /// Records that the writer has finished with a slot. If it was settled in the meantime, it is
    /// freed now, and its stream may end.
    pub(crate) fn end_writing(&mut self, seq: u64, now: Duration) {
        let Some(slot) = self.slots.get(&seq) else { return };
        let (stream, is_settled) = (slot.stream, slot.holders == 0);
        if is_settled {
            self.remove_slot(seq);
            self.fold_if_done(stream, now);
        } else {
            self.forget_if_unread(seq);
        }
    }

    /// Records that the destination has a copy of a taken entry, which then counts neither towards
    /// its window nor its buffer, nor uses memory if no one else reads it. It is merged with
    /// `before`, an entry of the stream that the destination holds and will settle together with
    /// this one, unless that one must reach the disk. Returns true if they were merged.
    pub(crate) fn hold(
        &mut self,
        index: usize,
        stream: StreamId,
        seq: u64,
        before: Option<u64>,
    ) -> bool {
        let Some((cursor, cs)) = self.reader(index, stream) else { return false };
        let Ok(at) = cs.entries.binary_search_by_key(&seq, |e| e.seq) else { return false };
        let entry = &mut cs.entries[at];
        if entry.status != Status::Taken {
            return false;
        }
        entry.status = Status::Held;
        let bytes = std::mem::take(&mut entry.bytes);
        cs.pending_bytes -= bytes;
        cursor.pending_bytes -= bytes;
        cursor.taken_bytes -= bytes;
        if cursor.starved {
            cursor.starved = false;
            cursor.notify.notify_one();
        }
        self.taken_bytes -= bytes;
        self.stop_reading(seq);
        let is_joined = before.is_some_and(|before| self.join_held(index, stream, seq, before));
        self.wake_sources_if_room();
        is_joined
    }

    /// Merges the held entry `before` into that of `seq`, if they are adjacent. It then needs no
    /// slot of its own any more.
    fn join_held(&mut self, index: usize, stream: StreamId, seq: u64, before: u64) -> bool {
        let is_free = |seq: u64| {
            let is_free = |s: &Slot| s.location.is_none() && !s.durable && !s.writing;
            self.slots.get(&seq).is_some_and(is_free)
        };
        let are_free = is_free(before) && is_free(seq);
        let Some(cs) = self.cursor_stream(index, stream) else { return false };
        let index_of = |seq: u64| cs.entries.binary_search_by_key(&seq, |e| e.seq);
        let (Ok(from), Ok(at)) = (index_of(before), index_of(seq)) else { return false };
        let is_next = from + 1 == at && cs.entries[from].status == Status::Held;
        if !is_next || !are_free {
            return false;
        }
        let first = &cs.entries[from];
        let (end, through) = (first.checkpoint.end, first.through);
        let last = cs.entries[at].checkpoint.end;
        let is_other_epoch = end.epoch < last.epoch;
        let is_boundary = is_other_epoch || self.may_be_furthest(index, stream, (end, last));
        let Some(cs) = self.cursor_stream_mut(index, stream) else { return false };
        let mut inside = std::mem::take(&mut cs.entries[from].inside);
        inside.extend(is_boundary.then_some((end, through)));
        let last = &mut cs.entries[at];
        inside.append(&mut last.inside);
        last.inside = inside;
        last.is_joined = true;
        let first = cs.entries.remove(from);
        if let (Some(first), Some(last)) = (first, cs.entries.get_mut(from)) {
            last.routed += first.routed;
            last.cut.add(&first.cut);
        }
        cs.next -= 1;
        self.cursors[index].pending_batches -= 1;
        self.release(before);
        true
    }

    /// Removes and returns the first entry, if it is settled.
    fn pop_settled(&mut self, index: usize, stream: StreamId) -> Option<(Entry, Outcome)> {
        let cs = self.cursor_stream_mut(index, stream)?;
        let Status::Settled(outcome) = cs.entries.front()?.status else { return None };
        cs.next -= 1;
        Some((cs.entries.pop_front()?, outcome))
    }

    /// Advances the committed position over the settled entries at the front.
    pub(crate) fn commit_prefix(&mut self, index: usize, stream: StreamId, now: Duration) {
        let mut moved = None;
        while let Some((entry, outcome)) = self.pop_settled(index, stream)
            && let Some(cs) = self.cursor_stream_mut(index, stream)
        {
            cs.commit(&entry);
            let cursor = &mut self.cursors[index];
            let count = |book: &mut CursorBook| {
                book.routed += entry.routed;
                add_outcome(book, &outcome);
                book.discarded[DiscardReason::BufferFull as usize] += entry.cut.rows;
            };
            count(&mut cursor.committed_book);
            cursor.is_book_dirty |= entry.routed > 0;
            cursor.parts.commit(entry.seq);
            if cursor.divides_by_stream() && entry.routed > 0 {
                cursor.parts.change(stream.0, count);
            }
            self.forget_settled(stream, entry.seq, now);
            moved = Some(entry.checkpoint);
        }
        if let Some(checkpoint) = moved {
            self.reach(stream, &checkpoint);
            self.mark_dirty(stream, now);
        }
    }
}

pub(super) fn add_outcome(book: &mut CursorBook, outcome: &Outcome) {
    book.delivered += outcome.delivered;
    book.dead_lettered += outcome.dead_lettered;
    book.resent += outcome.resent;
    book.moved += outcome.moved;
    book.unbound += outcome.unbound;
    if let Some((reason, count)) = outcome.discarded {
        book.discarded[reason as usize] += count;
    }
}
