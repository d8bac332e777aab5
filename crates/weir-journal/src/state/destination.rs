//! A required destination: its waiting batches, what it is charged for them, its reader, and its
//! book.
//!
//! Invariants: `pending_bytes` is what is charged for its entries that are neither settled nor
//! held, over all streams; `taken_bytes` of that are taken; `waiting_bytes` is the rest. A
//! destination has at most one reader, and an earlier one changes nothing any more. One without a
//! reader never refuses anything, and what waits for it is on disk soon.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use weir_model::limits::CURSORS_MAX;
use weir_model::{Batch, CursorBook, DiscardReason, StreamId};

use super::{Parts, State, Status};
use crate::spec::{CursorSpec, DropCursorError, WhenFull};

/// A required destination.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct CursorState {
    pub(crate) name: String,
    /// Distinguishes successive destinations in the same slot; increases with each.
    pub(crate) id: u64,
    pub(crate) spec: Option<CursorSpec>,
    /// Identifies the current reader; increases with each.
    pub(crate) reader: u64,
    /// It was removed while weir runs, and has no reader: batches routed to it wait.
    pub(crate) is_detached: bool,
    /// Nothing more will be routed to it: its reader ends once it has delivered what waits.
    pub(crate) is_closing: bool,
    pub(crate) dropped: bool,
    /// It was dropped in this run: batches that are routed to it may still be on their way.
    pub(crate) was_just_dropped: bool,
    /// Seen for the first time in this run.
    pub(crate) fresh: bool,
    /// Streams with waiting batches, in order of their turns.
    pub(crate) turns: VecDeque<StreamId>,
    pub(crate) waiting_bytes: u64,
    pub(crate) pending_bytes: u64,
    /// Number of batches that are not settled.
    pub(crate) pending_batches: u64,
    pub(crate) taken_bytes: u64,
    pub(crate) in_flight: u64,
    pub(crate) taken: u64,
    /// Counts of everything, as of now.
    pub(crate) total: CursorBook,
    /// Counts of what is committed, over all streams; persisted with the positions.
    pub(crate) committed_book: CursorBook,
    /// `committed_book` has changed since it was last written.
    pub(crate) is_book_dirty: bool,
    /// The books of its parts.
    pub(crate) parts: Parts,
    pub(crate) waiting_since: Duration,
    /// Batches before this one are the backlog: see [`State::has_taken_backlog`].
    pub(crate) backlog_end: u64,
    pub(crate) notify: Arc<Notify>,
    pub(crate) ready_bytes: u64,
    /// `take` found nothing that it may take; wait for an acknowledgement or another stream.
    pub(crate) starved: bool,
    pub(crate) blocking: bool,
    /// Size of the largest batch that was refused because the whole buffer is full; 0 = none.
    pub(crate) buffer_wanted: u64,
    /// A batch was refused because too many wait.
    pub(crate) batches_wanted: bool,
    /// A batch was refused because most of the journal's disk space is kept for this destination.
    pub(crate) disk_wanted: bool,
    /// Streams that were refused because they hold more than their share, with the size needed.
    pub(crate) over_share: Vec<(StreamId, u64)>,
    /// Something that it holds can no longer be read again: it should make that durable soon.
    pub(crate) settle_wanted: bool,
    /// Slots that an inactive destination still needs, with the number of its records in them.
    pub(crate) held: Vec<(u64, u64)>,
    /// What is charged for those.
    pub(crate) kept_bytes: u64,
    /// Of some waiting batches on disk, the keys may not be known.
    pub(crate) has_uncounted: bool,
    /// What its buffer may have instead of its limit until these are known.
    pub(crate) counting_limit: u64,
    /// What was charged for records that were cut from batches that are not settled: these still
    /// take that space.
    pub(crate) cut_bytes: u64,
}

impl CursorState {
    pub(crate) fn new(name: String, id: u64) -> Self {
        Self { name, id, fresh: true, ..Self::default() }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.spec.is_some()
    }

    /// Returns whether it is configured and read.
    pub(crate) fn is_attached(&self) -> bool {
        self.is_active() && !self.is_detached
    }

    /// Returns whether less waits than its reader waits for before it starts to send.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting_bytes < self.ready_bytes.max(1)
    }

    pub(super) fn limit(&self) -> u64 {
        let spec = self.spec.as_ref().filter(|_| !self.is_detached);
        spec.map_or(u64::MAX, |s| s.buffer_bytes_max)
    }

    /// Returns how many bytes may be taken at once: never the whole buffer, so that `drop_oldest`
    /// always finds something that is waiting.
    pub(super) fn window(&self) -> u64 {
        self.spec.as_ref().map_or(0, |s| s.window_bytes.min(s.buffer_bytes_max / 2))
    }

    /// Returns whether a source that this destination stopped may retry; `batches_fit` means that
    /// the number of waiting batches is no longer too large, `disk_fits` that the disk space kept
    /// for it is not needed.
    pub(super) fn has_room_again(
        &self,
        (batches_fit, disk_fits): (bool, bool),
        pending_of: impl Fn(StreamId) -> u64,
    ) -> bool {
        let limit = self.limit();
        let share = limit / crate::limits::STREAM_SHARE;
        let fits_share = |(stream, bytes): &(StreamId, u64)| {
            let own = pending_of(*stream);
            own + bytes <= share || own == 0 || own == self.pending_bytes
        };
        let fits = self.pending_bytes + self.buffer_wanted <= limit - limit / 16;
        (self.batches_wanted && batches_fit)
            || (self.disk_wanted && disk_fits)
            || (self.buffer_wanted > 0 && (fits || self.pending_bytes == 0))
            || self.over_share.iter().any(fits_share)
    }

    pub(super) fn when_full(&self) -> WhenFull {
        self.spec.as_ref().map_or(WhenFull::Block, |s| s.when_full)
    }

    /// Returns whether each stream is a part of it.
    pub(crate) fn divides_by_stream(&self) -> bool {
        self.when_full() == WhenFull::DropOldestOfStream
    }
}

impl State {
    /// Returns the slot of the destination with that name, or a slot for it: a new one, or that of
    /// a dropped destination that no segment lists any more. `None` when there are too many.
    pub(crate) fn slot_of(&mut self, name: &str, now: Duration) -> Option<usize> {
        if let Some(index) = self.cursor_of(name) {
            self.names_version += u64::from(!self.cursors[index].is_active());
            return Some(index);
        }
        let id = self.cursors.iter().map(|c| c.id).max().unwrap_or(0) + 1;
        let fresh = CursorState::new(name.to_owned(), id);
        let is_named = |index: usize| self.segments.values().any(|s| s.names.contains(&index));
        let is_free = |(index, c): &(usize, &CursorState)| {
            c.dropped && !c.was_just_dropped && !is_named(*index)
        };
        let free = self.cursors.iter().enumerate().find(is_free).map(|(index, _)| index);
        let index = free.unwrap_or(self.cursors.len());
        if index >= CURSORS_MAX {
            return None;
        }
        self.names_version += 1;
        if free.is_none() {
            self.cursors.push(fresh);
            return Some(index);
        }
        self.cursors[index] = fresh;
        self.receipts.forget(index);
        for stream in self.forget_destination(index) {
            self.mark_dirty(stream, now);
        }
        Some(index)
    }

    /// Returns the slot of the destination with that name.
    pub(crate) fn cursor_of(&self, name: &str) -> Option<usize> {
        self.cursors.iter().position(|cursor| cursor.name == name && !cursor.dropped)
    }

    /// Makes the slot's new destination unknown to all streams. Returns the streams that its
    /// predecessor knew.
    pub(crate) fn forget_destination(&mut self, index: usize) -> Vec<StreamId> {
        let mut changed = Vec::new();
        for (stream, known) in &mut self.streams {
            if known.cursor_streams.is_known_to(index) {
                known.cursor_streams.set_unknown(index);
                changed.push(*stream);
            }
        }
        changed
    }

    /// Gives the destination a reader, which replaces an earlier one. Returns its identifier.
    pub(crate) fn attach(&mut self, index: usize, spec: CursorSpec, now: Duration) -> u64 {
        self.return_taken(index, now);
        let cursor = &mut self.cursors[index];
        cursor.backlog_end = self.next_seq;
        cursor.spec = Some(spec);
        cursor.has_uncounted = true;
        (cursor.is_detached, cursor.is_closing) = (false, false);
        cursor.reader += 1;
        cursor.reader
    }

    /// Tells the reader of a destination that nothing more will be routed to it.
    pub(crate) fn close_destination(&mut self, index: usize) {
        self.cursors[index].is_closing = true;
        self.cursors[index].notify.notify_one();
    }

    /// Detaches the reader of a destination: its waiting batches, and those still routed to it, are
    /// kept on disk and hold up nothing.
    pub(crate) fn detach(&mut self, index: usize, now: Duration) {
        self.return_taken(index, now);
        let cursor = &mut self.cursors[index];
        cursor.is_detached = true;
        cursor.reader += 1;
        // For a reader that is stuck: it finds that it was replaced.
        cursor.notify.notify_one();
        for stream in self.streams_of(index) {
            self.spill_stream(stream);
        }
        self.note_absent();
        self.wake_sources();
    }

    /// Queues everything of a stream that is in memory for the disk. The stream can still be read
    /// again, so this need not be flushed; but it is complete, because after a gap its source would
    /// read again.
    pub(super) fn spill_stream(&mut self, stream: StreamId) {
        let entries = self.cursor_streams(stream).flat_map(|(_, cs)| &cs.entries);
        let all: Vec<u64> = entries.map(|entry| entry.seq).collect();
        self.spill_queue.extend(all);
    }

    /// Returns the streams of which something waits for the destination, in order: they are taken
    /// in the same order each time.
    pub(super) fn streams_of(&self, index: usize) -> Vec<StreamId> {
        let waits = |known: &super::StreamState| {
            known.cursor_streams.get(index).is_some_and(|cs| !cs.entries.is_empty())
        };
        let waiting = self.streams.iter().filter(|(_, known)| waits(known));
        let mut streams: Vec<StreamId> = waiting.map(|(stream, _)| *stream).collect();
        streams.sort_unstable();
        streams
    }

    /// Makes batches that a reader has taken and not settled wait again, for the next one.
    fn return_taken(&mut self, index: usize, now: Duration) {
        for stream in self.streams_of(index) {
            let Some((cursor, cs)) = self.reader(index, stream) else { continue };
            let mut returned_bytes = 0;
            for entry in cs.entries.iter_mut().filter(|entry| entry.status == Status::Taken) {
                entry.status = Status::Waiting;
                returned_bytes += entry.bytes;
                cursor.taken -= entry.left();
            }
            cs.waiting_bytes += returned_bytes;
            cursor.taken_bytes -= returned_bytes;
            cursor.waiting_bytes += returned_bytes;
            let first = cs.entries.iter().position(|entry| entry.status == Status::Waiting);
            cs.next = first.unwrap_or(cs.entries.len());
            if first.is_some() && !cs.in_turn {
                cs.in_turn = true;
                cursor.turns.push_back(stream);
            }
            self.taken_bytes -= returned_bytes;
        }
        let cursor = &mut self.cursors[index];
        cursor.starved = false;
        cursor.waiting_since = now;
    }

    /// Returns the slot of the destination with that name if it can be dropped.
    fn droppable(&self, name: &str) -> Result<usize, DropCursorError> {
        let owned = || name.to_owned();
        let Some(index) = self.cursor_of(name) else {
            let existing = self.cursors.iter().filter(|cursor| !cursor.dropped);
            let existing = existing.map(|cursor| cursor.name.clone()).collect();
            return Err(DropCursorError::Unknown { name: owned(), existing });
        };
        let cursor = &self.cursors[index];
        if self.closing {
            return Err(DropCursorError::Closed);
        }
        match (cursor.is_attached(), cursor.is_closing) {
            (false, _) => Ok(index),
            (true, false) => Err(DropCursorError::Configured { name: owned() }),
            (true, true) => Err(DropCursorError::Stopping { name: owned() }),
        }
    }

    /// Forgets a destination that is no longer configured; batches that it still needed are
    /// discarded. Returns the number of records in them.
    pub(crate) fn drop_cursor(
        &mut self,
        name: &str,
        now: Duration,
    ) -> Result<u64, DropCursorError> {
        let index = self.droppable(name)?;
        let discarded =
            |cursor: &CursorState| cursor.total.discarded[DiscardReason::CursorDropped as usize];
        let before = discarded(&self.cursors[index]);
        if self.cursors[index].is_active() {
            self.discard_waiting(index, now);
        }
        let cursor = &mut self.cursors[index];
        (cursor.dropped, cursor.was_just_dropped) = (true, true);
        let held = std::mem::take(&mut cursor.held);
        cursor.kept_bytes = 0;
        cursor.parts = Parts::default();
        let mut streams = Vec::new();
        let mut owed = 0;
        for (stream, known) in &mut self.streams {
            if let Some(cs) = known.cursor_streams.remove(index) {
                owed += cs.owed_rows.rows;
                streams.push(*stream);
            }
        }
        let kept: u64 = held.iter().map(|(_, routed)| routed).sum();
        cursor.in_flight -= kept;
        cursor.total.routed += owed;
        cursor.total.discarded[DiscardReason::CursorDropped as usize] += kept + owed;
        cursor.committed_book = cursor.total;
        cursor.is_book_dirty = true;
        let records = discarded(cursor) - before;
        debug_assert_eq!(cursor.in_flight, 0, "everything is discarded");
        // Health and metrics list what exists.
        self.recovery.lost.retain(|lost| lost.destination != name);
        for (seq, _) in held {
            if let Some(stream) = self.slots.get(&seq).map(|slot| slot.stream) {
                streams.push(stream);
            }
            self.release(seq);
        }
        for stream in streams {
            self.mark_dirty(stream, now);
            self.fold_if_done(stream, now);
        }
        self.note_absent();
        self.names_dirty = true;
        self.positions_since.get_or_insert(now);
        Ok(records)
    }

    /// Returns whether there is a configured destination in that slot.
    pub(super) fn is_active(&self, index: usize) -> bool {
        self.cursors.get(index).is_some_and(CursorState::is_active)
    }

    /// Returns whether a batch is routed to a destination that was removed while weir runs.
    pub(super) fn is_kept_for_removed(&self, batch: &Batch) -> bool {
        let is_removed = |index: usize| self.cursors.get(index).is_some_and(|c| c.is_detached);
        self.detached > 0 && batch.routed_counts().into_iter().any(|(index, _)| is_removed(index))
    }

    /// Updates the totals over all destinations after a change.
    pub(crate) fn note_absent(&mut self) {
        let is_absent = |(_, c): &(usize, &CursorState)| !c.is_active() && !c.dropped;
        let absent = self.cursors.iter().enumerate().filter(is_absent);
        self.absent = absent.map(|(index, _)| index).collect();
        self.active = self.cursors.iter().filter(|c| c.is_active()).count();
        self.detached = self.cursors.iter().filter(|c| c.is_detached).count();
    }
}
