//! The furthest known position of a stream, and the rows of it that each destination is owed.
//!
//! Invariants:
//! - `furthest` never moves back. It is what the cursor log guarantees: it has the source's counts
//!   and state there, and every destination either has settled all rows up to there or is owed a
//!   number of them that is stated in the same record. Whatever vanishes afterwards (file, segment,
//!   window), `lost = owed - found`, exactly and for each destination.
//! - `Entry::through` and `CursorStream::committed_through` count the rows of one destination since
//!   the stream was opened, so the number of rows in entries up to any position is the difference
//!   of two counts.
//! - A destination that is done with a stream is at the further one of `checkpoint` and `furthest`
//!   ([`StreamState::done`]): after `checkpoint` only while the source reads settled rows again.
//! - What is owed and is in no entry are [`OwedRows`]: rows of an earlier run that the source reads
//!   again, or that turn out to be gone.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use weir_model::{DiscardReason, Position, SourceId, StreamId};

use super::read::add_outcome;
use super::{
    Checkpoint, CursorState, CursorStreams, Cut, Entry, Keys, Location, State, Status, StreamStart,
};
use crate::limits::{EPOCHS_MAX, GIVEN_UP_MAX};
use crate::spec::{LostRecords, ResumePoint};
use crate::{Outcome, limits::STATEMENT_INTERVAL};

/// A stream as seen by its source.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct StreamState {
    pub(crate) source: Option<SourceId>,
    pub(crate) group: u64,
    pub(crate) ring_bytes: u64,
    /// The end of everything appended, with the counts up to there.
    pub(crate) checkpoint: Arc<Checkpoint>,
    /// The furthest position that a destination has settled, or that is permanently on stable
    /// storage.
    pub(crate) furthest: Arc<Checkpoint>,
    /// Its source cannot read again what it has appended.
    pub(crate) is_unrepeatable: bool,
    /// All rows up to `furthest` were settled or on stable storage: any that are missing are
    /// damaged.
    pub(crate) is_durable: bool,
    /// Number of batches that some destination still needs and that need not survive a crash,
    /// because their source can read them again.
    pub(crate) volatile_slots: u64,
    pub(crate) closed: bool,
    /// A source of this run has opened it: the journal has everything that was read of it.
    pub(crate) is_opened: bool,
    /// Number of batches that some destination needs, even one that is not configured, or that the
    /// writer is processing.
    pub(crate) slots: u64,
    /// It is in the list of streams that changed.
    pub(crate) is_dirty: bool,
    /// Positions of the destinations that are not done.
    pub(crate) cursor_streams: CursorStreams,
    /// What most streams never have.
    pub(crate) past: Option<Box<StreamPast>>,
}

/// Epochs and frames of a stream. A stream whose file was never truncated and whose batches were
/// all delivered from memory has neither, so that it takes little memory once it is quiet.
#[derive(Debug, Default)]
pub(crate) struct StreamPast {
    /// Where epochs started, from that of `furthest` on, as far as that is known.
    epoch_begins: VecDeque<Arc<Checkpoint>>,
    /// The last frame of it that was written, by segment and offset.
    last_frame: Option<(u64, u64)>,
    /// Frames on disk before which its source resumed, as it can read them again: the end of the
    /// furthest one, and segment and offset of the last one.
    passed_over: Option<(Position, (u64, u64))>,
    /// Such frames that are permanently dead: the source found other content there.
    abandoned: Vec<AbandonedFrames>,
}

impl StreamState {
    /// Advances `furthest`; returns true if it moved.
    pub(super) fn reach(&mut self, checkpoint: &Arc<Checkpoint>) -> bool {
        let is_further = checkpoint.end > self.furthest.end;
        // The same position may get another state and book: the last ones appended are right.
        let is_newer =
            checkpoint.end == self.furthest.end && Arc::ptr_eq(checkpoint, &self.checkpoint);
        self.is_durable &= !is_further;
        if is_further || is_newer {
            self.furthest = checkpoint.clone();
            let epoch = checkpoint.end.epoch;
            if let Some(past) = &mut self.past {
                past.epoch_begins.retain(|begin| begin.end.epoch >= epoch);
            }
        }
        is_further
    }

    /// Returns the position of destinations that have nothing left to do in the stream.
    pub(crate) fn done(&self) -> &Arc<Checkpoint> {
        if self.checkpoint.end >= self.furthest.end { &self.checkpoint } else { &self.furthest }
    }

    /// Returns up to where a destination has settled the stream; `None` when it does not know it.
    pub(crate) fn committed(&self, index: usize) -> Option<Position> {
        self.cursor_streams.position(index, |cs| cs.committed, self.done().end)
    }

    /// Returns up to where the stream was appended for a destination.
    pub(crate) fn seen(&self, index: usize) -> Option<Position> {
        self.cursor_streams.position(index, CursorStream::seen, self.done().end)
    }

    /// Records a batch that starts an epoch, which is where the source resumes when everything
    /// before it is gone. Returns true if it does start one.
    pub(crate) fn note_epoch(&mut self, base: Position, checkpoint: &Arc<Checkpoint>) -> bool {
        let is_begun = base == checkpoint.end && checkpoint.end.epoch > self.checkpoint.end.epoch;
        if is_begun {
            let epoch_begins = &mut self.past_mut().epoch_begins;
            epoch_begins.push_back(checkpoint.clone());
            if epoch_begins.len() > EPOCHS_MAX {
                epoch_begins.pop_front();
            }
        }
        is_begun
    }

    /// Returns whether a repeatable frame that ends and is located here was given up.
    pub(crate) fn is_given_up(&self, end: Position, here: (u64, u64)) -> bool {
        self.abandoned().iter().any(|abandoned| end > abandoned.after && here <= abandoned.last)
    }

    /// Records that its source resumes before this frame, and can read it again.
    pub(crate) fn pass_over(&mut self, end: Position, at: Location) {
        let here = (at.segment, at.offset);
        let passed_over = &mut self.past_mut().passed_over;
        let (furthest, last) = passed_over.unwrap_or((end, here));
        *passed_over = Some((furthest.max(end), last.max(here)));
    }

    /// Records that another epoch starts: frames that were passed over and not read again never
    /// will be. Returns true if there are any.
    pub(crate) fn give_up(&mut self) -> bool {
        let after = self.checkpoint.end;
        let Some(past) = &mut self.past else { return false };
        let passed_over = past.passed_over.take().filter(|(furthest, _)| *furthest > after);
        let Some((_, last)) = passed_over else { return false };
        past.abandoned.retain(|other| other.after < after || other.last > last);
        if past.abandoned.len() == GIVEN_UP_MAX {
            past.abandoned.remove(0);
        }
        past.abandoned.push(AbandonedFrames { after, last });
        true
    }

    /// Returns where that epoch started.
    pub(crate) fn begin_of(&self, epoch: u32) -> Option<&Arc<Checkpoint>> {
        self.epoch_begins().find(|begin| begin.end.epoch == epoch)
    }

    /// Returns where epochs started, from that of `furthest` on, as far as that is known.
    pub(crate) fn epoch_begins(&self) -> impl ExactSizeIterator<Item = &Arc<Checkpoint>> {
        static NONE: VecDeque<Arc<Checkpoint>> = VecDeque::new();
        self.past.as_ref().map_or(&NONE, |past| &past.epoch_begins).iter()
    }

    /// Returns the frames that were given up.
    pub(crate) fn abandoned(&self) -> &[AbandonedFrames] {
        self.past.as_ref().map_or(&[], |past| &past.abandoned)
    }

    /// Sets where epochs started, and the frames that were given up, to what was persisted.
    pub(crate) fn restore_past(
        &mut self,
        epoch_begins: VecDeque<Arc<Checkpoint>>,
        abandoned: Vec<AbandonedFrames>,
    ) {
        if !epoch_begins.is_empty() || !abandoned.is_empty() {
            let past = self.past_mut();
            (past.epoch_begins, past.abandoned) = (epoch_begins, abandoned);
        }
    }

    /// Forgets given-up frames in segments before `first`.
    pub(crate) fn forget_abandoned(&mut self, first: u64) {
        if let Some(past) = &mut self.past {
            past.abandoned.retain(|abandoned| abandoned.last.0 >= first);
        }
    }

    /// Records that a frame of it was written here, by segment and offset.
    pub(crate) fn note_frame(&mut self, here: (u64, u64)) {
        let last_frame = &mut self.past_mut().last_frame;
        *last_frame = (*last_frame).max(Some(here));
    }

    /// Returns the last frame of it that was written, by segment and offset.
    pub(crate) fn last_frame(&self) -> Option<(u64, u64)> {
        self.past.as_ref().and_then(|past| past.last_frame)
    }

    fn past_mut(&mut self) -> &mut StreamPast {
        self.past.get_or_insert_default()
    }
}

/// Frames that the source was expected to read again when another epoch started. They are in no
/// source's book: a later start would deliver them in addition to the new content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AbandonedFrames {
    /// They end after this position.
    pub(crate) after: Position,
    /// They are located up to here, by segment and offset.
    pub(crate) last: (u64, u64),
}

/// Rows that a destination is owed and that are in none of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OwedRows {
    /// They are before this position.
    pub(crate) until: Position,
    pub(crate) rows: u64,
    /// How many of them belong to epochs before that of `until`: no source reads them again.
    pub(crate) rows_before: u64,
}

impl OwedRows {
    /// Returns the number of rows in epochs before this one.
    pub(crate) fn before(&self, epoch: u32) -> u64 {
        if self.until.epoch < epoch { self.rows } else { self.rows_before }
    }

    /// Records that rows of it were found, and are in an entry now.
    pub(crate) fn pay(&mut self, rows: u64, epoch: u32) {
        // Rules may route repeated rows differently than before.
        self.rows -= rows.min(self.rows);
        if epoch < self.until.epoch {
            self.rows_before -= rows.min(self.rows_before);
        }
        self.rows_before = self.rows_before.min(self.rows);
    }
}

/// Lost rows, until the entry that settles them is committed. That entry may end after the position
/// of the rows, after frames that follow them or where another epoch starts; they are nevertheless
/// owed only up to their own position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LostRows {
    /// Sequence number of the entry.
    seq: u64,
    /// The rows were before this position.
    until: Position,
    rows: u64,
    reason: DiscardReason,
}

/// Returns the range of positions between two others, exclusive.
pub(super) fn between(begin: Position, end: Position) -> (Bound<Position>, Bound<Position>) {
    (Bound::Excluded(begin), Bound::Excluded(end))
}

/// A stream as seen by one cursor.
#[derive(Debug, Default)]
pub(crate) struct CursorStream {
    /// Everything up to here is settled.
    pub(crate) committed: Position,
    /// A position from which the source can resume for this destination: `committed` or an earlier
    /// one.
    pub(crate) mark: Arc<Checkpoint>,
    /// Number of rows entered up to `committed`.
    pub(crate) committed_through: u64,
    pub(crate) entries: VecDeque<Entry>,
    /// Entries before this index are taken or settled.
    pub(crate) next: usize,
    pub(crate) deficit: u64,
    pub(crate) waiting_bytes: u64,
    pub(crate) pending_bytes: u64,
    pub(crate) in_turn: bool,
    pub(crate) owed_rows: OwedRows,
    /// Rows that are lost and not committed.
    pub(crate) lost: Vec<LostRows>,
    /// Frames that are kept while the destination is not configured, in order: their ends, and the
    /// number of rows up to there. If `furthest` is inside one, that position is listed here too.
    pub(crate) kept: Vec<(Position, u64)>,
}

impl CursorStream {
    /// Creates the state of a destination that starts here.
    pub(crate) fn begin(at: &Arc<Checkpoint>) -> Self {
        Self { committed: at.end, mark: at.clone(), ..Self::default() }
    }

    /// Returns the position up to which batches have been appended for this cursor, or are kept for
    /// it.
    pub(crate) fn seen(&self) -> Position {
        let kept = self.kept.last().map_or(self.committed, |(end, _)| *end);
        self.entries.back().map_or(kept, |e| e.checkpoint.end)
    }

    /// Records that everything up to there is settled and nothing before it waits. Returns true if
    /// that is a change.
    fn move_to(&mut self, checkpoint: &Arc<Checkpoint>) -> bool {
        let is_moved = self.committed < checkpoint.end;
        (self.committed, self.mark) = (checkpoint.end, checkpoint.clone());
        is_moved
    }

    /// Records that the first entry is settled, as is everything before it.
    pub(super) fn commit(&mut self, entry: &Entry) {
        (self.committed, self.mark) = (entry.checkpoint.end, entry.checkpoint.clone());
        self.committed_through = entry.through;
        self.lost.retain(|lost| lost.seq != entry.seq);
    }

    /// Adds an entry that need not be taken.
    pub(crate) fn push_settled(&mut self, entry: Entry) {
        let at_front = self.next == self.entries.len();
        self.entries.push_back(entry);
        self.next += usize::from(at_front);
    }

    /// Returns the entries that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Entry> {
        self.entries.range(self.next..).filter(|entry| entry.status == Status::Waiting)
    }

    /// Returns the entries that wait.
    pub(super) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.range_mut(self.next..).filter(|entry| entry.status == Status::Waiting)
    }

    /// Returns the index of the first entry that waits.
    pub(super) fn first(&self) -> Option<usize> {
        (self.next < self.entries.len()).then_some(self.next)
    }

    /// Records that rows owed by an earlier run were appended again, up to `end`.
    pub(crate) fn pay_owed_rows(&mut self, end: Position, rows: u64) {
        self.owed_rows.pay(rows, end.epoch);
        self.forgive(end);
    }

    /// Cancels the owed rows once everything that an earlier run owed was appended again: rows that
    /// were not among it are routed elsewhere now.
    fn forgive(&mut self, end: Position) {
        if end >= self.owed_rows.until {
            self.owed_rows = OwedRows::default();
        }
    }

    /// Returns the number of rows entered so far.
    pub(crate) fn through(&self) -> u64 {
        self.entries.back().map_or(self.committed_through, |e| e.through)
    }

    /// Returns the number of rows entered up to `end` and not committed.
    fn entered_up_to(&self, end: Position) -> u64 {
        let count = self.entries.partition_point(|e| e.checkpoint.end <= end);
        let inside = self.entries.get(count).and_then(|entry| {
            let inside = entry.inside.iter().rev().find(|(at, _)| *at <= end);
            inside.map(|(_, through)| *through)
        });
        let last = count.checked_sub(1).map(|last| &self.entries[last]);
        let before = last.map(|entry| entry.through);
        let is_further = |lost: &&LostRows| last.is_none_or(|entry| entry.seq < lost.seq);
        let lost = self.lost.iter().filter(|lost| lost.until <= end).filter(is_further);
        let lost: u64 = lost.map(|lost| lost.rows).sum();
        inside.or(before).unwrap_or(self.committed_through) - self.committed_through + lost
    }

    /// Returns the number of rows kept, up to `end`, while the destination is not configured.
    pub(crate) fn kept_up_to(&self, end: Position) -> u64 {
        let count = self.kept.partition_point(|(at, _)| *at <= end);
        count.checked_sub(1).map_or(0, |last| self.kept[last].1)
    }

    /// Returns what the destination is owed up to `end`: in total, and from the epochs before that
    /// of `end`. Rows that were settled after a gap count as owed until the gap is closed.
    pub(crate) fn owed(&self, end: Position) -> (u64, u64) {
        debug_assert!(
            self.owed_rows.rows == 0 || self.owed_rows.until <= end,
            "the owed rows end after `end`"
        );
        let there = |end| self.entered_up_to(end) + self.kept_up_to(end);
        let owed = there(end) + self.owed_rows.rows;
        let before = there(Position::new(end.epoch, 0)) + self.owed_rows.before(end.epoch);
        (owed, before.min(owed))
    }
}

impl State {
    pub(crate) fn cursor_stream(&self, index: usize, stream: StreamId) -> Option<&CursorStream> {
        self.streams.get(&stream)?.cursor_streams.get(index)
    }

    pub(crate) fn cursor_stream_mut(
        &mut self,
        index: usize,
        stream: StreamId,
    ) -> Option<&mut CursorStream> {
        self.streams.get_mut(&stream)?.cursor_streams.get_mut(index)
    }

    /// Returns a destination that is not done with the stream, with its position.
    pub(super) fn reader(
        &mut self,
        index: usize,
        stream: StreamId,
    ) -> Option<(&mut CursorState, &mut CursorStream)> {
        let place = self.streams.get_mut(&stream)?.cursor_streams.get_mut(index)?;
        Some((&mut self.cursors[index], place))
    }

    /// Returns the destinations that are not done with the stream.
    pub(crate) fn cursor_streams(
        &self,
        stream: StreamId,
    ) -> impl Iterator<Item = (usize, &CursorStream)> {
        self.streams.get(&stream).into_iter().flat_map(|known| known.cursor_streams.iter())
    }

    /// Returns up to where a destination has settled the stream; `None` when it does not know it.
    pub(crate) fn committed(&self, index: usize, stream: StreamId) -> Option<Position> {
        self.streams.get(&stream)?.committed(index)
    }

    /// Introduces the stream to destinations that do not know it, where `begin` returns a position.
    pub(crate) fn introduce(
        &mut self,
        stream: StreamId,
        now: Duration,
        begin: impl Fn(usize) -> Option<Arc<Checkpoint>>,
    ) {
        let cursors = self.cursors.len();
        let known = self.streams.entry(stream).or_default();
        let done = known.done().end;
        let has_begun = known.cursor_streams.introduce(cursors, |index| match begin(index) {
            None => StreamStart::None,
            Some(at) if at.end == done => StreamStart::Done,
            Some(at) => StreamStart::At(Box::new(CursorStream::begin(&at))),
        });
        if has_begun {
            self.mark_dirty(stream, now);
        }
    }

    /// Advances destinations that have nothing left to do in the stream: nothing appended up to
    /// here is for them, or it is settled.
    pub(crate) fn settle_cursor_streams(&mut self, stream: StreamId, now: Duration) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let (cursors, checkpoint) = (&self.cursors, known.checkpoint.clone());
        let is_further = checkpoint.end >= known.furthest.end;
        let (mut listed, mut is_changed) = (0, false);
        known.cursor_streams.retain(|index, cs| {
            if !cursors[index].is_active() {
                return true;
            }
            cs.forgive(checkpoint.end);
            if cs.entries.is_empty() && cs.committed <= checkpoint.end {
                is_changed |= cs.move_to(&checkpoint);
                if is_further && cs.owed_rows.rows == 0 {
                    is_changed = true;
                    return false;
                }
            }
            listed += 1;
            true
        });
        if listed < self.active {
            is_changed |= known.reach(&checkpoint);
        }
        if is_changed {
            self.mark_dirty(stream, now);
        }
    }

    /// Records that the stream's entry in the cursor log has changed.
    pub(crate) fn mark_dirty(&mut self, stream: StreamId, now: Duration) {
        self.note_dirty(stream);
        self.positions_since.get_or_insert(now);
    }

    fn note_dirty(&mut self, stream: StreamId) {
        if let Some(known) = self.streams.get_mut(&stream)
            && !std::mem::replace(&mut known.is_dirty, true)
        {
            self.dirty_streams.push(stream);
        }
    }

    /// Records that a batch that need not survive a crash is no longer needed, or must be durable
    /// now.
    pub(crate) fn no_longer_volatile(&mut self, stream: StreamId) {
        if let Some(known) = self.streams.get_mut(&stream) {
            debug_assert!(known.volatile_slots > 0, "every slot was counted when it was appended");
            known.volatile_slots = known.volatile_slots.saturating_sub(1);
        }
    }

    /// Returns the position among these, inside an entry, at which `furthest` is, with the number
    /// of records up to there: the stream may be divided into other batches than those that an
    /// earlier run had settled.
    pub(crate) fn furthest_within(
        &self,
        stream: StreamId,
        range: impl RangeBounds<Position>,
        up_to: impl Fn(Position) -> u64,
    ) -> Vec<(Position, u64)> {
        let furthest = self.streams.get(&stream).map(|known| known.furthest.end);
        let within = furthest.filter(|furthest| range.contains(furthest));
        within.map(|at| (at, up_to(at))).into_iter().collect()
    }

    /// Returns whether another destination has settled the stream up to a position from `from`
    /// (inclusive) to `to` (exclusive) and no further, or may come to that.
    pub(crate) fn may_be_furthest(
        &self,
        index: usize,
        stream: StreamId,
        (from, to): (Position, Position),
    ) -> bool {
        let Some(furthest) = self.streams.get(&stream).map(|known| known.furthest.end) else {
            return false;
        };
        let is_behind = |(other, cs): (usize, &CursorStream)| {
            other != index && self.cursors[other].is_active() && cs.committed < from
        };
        furthest < to && (furthest >= from || self.cursor_streams(stream).any(is_behind))
    }

    /// Records that a destination has settled the stream up to here.
    pub(crate) fn reach(&mut self, stream: StreamId, checkpoint: &Arc<Checkpoint>) {
        if let Some(known) = self.streams.get_mut(&stream) {
            known.reach(checkpoint);
        }
    }

    /// Records that unrepeatable rows are on stable storage up to here. That is stated soon: should
    /// they be damaged, their number is known.
    pub(crate) fn reach_on_disk(
        &mut self,
        stream: StreamId,
        checkpoint: &Arc<Checkpoint>,
        seq: u64,
        now: Duration,
    ) {
        let is_stranded = self.stranded_up_to(stream, seq).is_some();
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let is_further = known.reach(checkpoint);
        // Frames are flushed in order, except those that need not be.
        let is_durable = known.volatile_slots == 0 && !is_stranded;
        let is_news = is_durable && checkpoint.end == known.furthest.end && !known.is_durable;
        // Otherwise the loss would be reported again at the next start, and as damage.
        let is_vanished = |lost: &LostRows| lost.reason == DiscardReason::Vanished;
        let is_changed =
            is_news && !known.cursor_streams.iter().any(|(_, cs)| cs.lost.iter().any(is_vanished));
        known.is_durable |= is_changed;
        if is_further || is_changed {
            self.note_dirty(stream);
            self.statements_due.get_or_insert(now + STATEMENT_INTERVAL);
        }
    }

    /// Returns what every destination is owed up to `furthest`, if that is read again from `base`
    /// on: new destinations or other rules change the number that was stated.
    pub(crate) fn owed_again(
        &self,
        stream: StreamId,
        base: Position,
    ) -> Option<Vec<(usize, (u64, u64))>> {
        let furthest = self.streams.get(&stream).map(|known| known.furthest.end)?;
        let owed = |(index, cs): (usize, &CursorStream)| (index, cs.owed(furthest));
        let is_any = |(_, owed): &(usize, (u64, u64))| *owed != (0, 0);
        (base < furthest).then(|| self.cursor_streams(stream).map(owed).filter(is_any).collect())
    }

    /// Records that what destinations are still owed of the stream is gone, up to `at`: it is
    /// counted for each of them, and they continue after that position. `part` returns how much of
    /// owed rows that are.
    pub(crate) fn lose(
        &mut self,
        stream: StreamId,
        at: &Arc<Checkpoint>,
        part: impl Fn(&OwedRows) -> u64,
        now: Duration,
    ) {
        let listed: Vec<usize> = self.cursor_streams(stream).map(|(index, _)| index).collect();
        for index in listed {
            let Some(cs) = self.cursor_stream_mut(index, stream) else { continue };
            let rows = part(&cs.owed_rows);
            cs.owed_rows.rows -= rows;
            // Those of earlier epochs are lost first.
            cs.owed_rows.rows_before = cs.owed_rows.rows_before.saturating_sub(rows);
            let reason = self.loss_reason(stream);
            self.count_lost(index, stream, at, (rows, reason), now);
        }
        self.mark_dirty(stream, now);
    }

    /// Counts lost rows of one destination.
    pub(crate) fn count_lost(
        &mut self,
        index: usize,
        stream: StreamId,
        at: &Arc<Checkpoint>,
        (rows, reason): (u64, DiscardReason),
        now: Duration,
    ) {
        // First, because the stream may end with them.
        self.note_lost(index, stream, rows, reason);
        let discarded = (rows > 0).then_some((reason, rows));
        let outcome = Outcome { discarded, ..Outcome::default() };
        if self.cursors[index].is_active() {
            self.enter_lost(index, stream, at, (rows, outcome), now);
            return;
        }
        let cursor = &mut self.cursors[index];
        for book in [&mut cursor.total, &mut cursor.committed_book] {
            book.routed += rows;
            add_outcome(book, &outcome);
        }
        cursor.is_book_dirty |= rows > 0;
        if rows > 0 && cursor.parts.is_known(stream.0) {
            cursor.parts.change(stream.0, |book| {
                book.routed += rows;
                add_outcome(book, &outcome);
            });
        }
    }

    /// Settles rows that are in no batch, and advances the destination's position past them.
    fn enter_lost(
        &mut self,
        index: usize,
        stream: StreamId,
        at: &Arc<Checkpoint>,
        (rows, outcome): (u64, Outcome),
        now: Duration,
    ) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if rows == 0 && known.cursor_streams.get(index).is_none() {
            return;
        }
        let done = known.done().clone();
        let until = known.furthest.end.min(at.end);
        let cs = known.cursor_streams.get_or_insert(index, || CursorStream::begin(&done));
        let (skip_to, through) = (cs.seen(), cs.through() + rows);
        if rows == 0 && at.end <= skip_to {
            return;
        }
        // Frames may reach further than the lost rows: positions never move back.
        let checkpoint = if at.end < skip_to {
            let last = cs.entries.back().map_or(&cs.mark, |entry| &entry.checkpoint);
            last.clone()
        } else {
            at.clone()
        };
        let entry = Entry {
            seq,
            checkpoint,
            routed: rows,
            through,
            inside: Vec::new(),
            skip_to,
            bytes: 0,
            status: Status::Settled(outcome),
            keys: Keys::Unknown,
            cut: Cut::default(),
            is_joined: false,
        };
        if let Some((reason, rows)) = outcome.discarded {
            cs.lost.push(LostRows { seq, until, rows, reason });
        }
        cs.push_settled(entry);
        let cursor = &mut self.cursors[index];
        cursor.total.routed += rows;
        add_outcome(&mut cursor.total, &outcome);
        self.commit_prefix(index, stream, now);
    }

    /// Returns the reason for a loss: what was on stable storage can only have been damaged.
    fn loss_reason(&self, stream: StreamId) -> DiscardReason {
        let is_durable = self.streams.get(&stream).is_some_and(|known| known.is_durable);
        if is_durable { DiscardReason::Damaged } else { DiscardReason::Vanished }
    }

    /// Records which records are lost, for the health report.
    pub(crate) fn note_lost(
        &mut self,
        index: usize,
        stream: StreamId,
        rows: u64,
        reason: DiscardReason,
    ) {
        if rows == 0 {
            return;
        }
        let reason = reason.text();
        let source = self.streams.get(&stream).and_then(|known| known.source);
        let name = |id: &SourceId| self.sources.get(id).map(|source| source.name.clone());
        let source = source.as_ref().and_then(name).unwrap_or_default();
        let destination = self.cursors[index].name.clone();
        let lost = &mut self.recovery.lost;
        let is_same = |lost: &&mut LostRecords| {
            lost.source == source && lost.destination == destination && lost.reason == reason
        };
        if let Some(known) = lost.iter_mut().find(is_same) {
            known.records += rows;
        } else {
            tracing::error!(
                source,
                destination,
                reason,
                records = rows,
                "records were lost and counted as discarded; further losses are not logged"
            );
            lost.push(LostRecords { source, destination, reason, records: rows });
        }
    }

    /// Handles a source that cannot continue in the stream's current content: what is before the
    /// furthest position of earlier runs and was not appended again is lost. Returns that position,
    /// after which the source continues, if it is further than what was appended.
    pub(crate) fn skip_to_furthest(
        &mut self,
        stream: StreamId,
        now: Duration,
    ) -> Option<ResumePoint> {
        let known = self.streams.get_mut(&stream)?;
        let furthest = known.furthest.clone();
        let is_further = furthest.end > known.checkpoint.end;
        if is_further {
            known.checkpoint = furthest.clone();
        }
        if is_further || self.cursor_streams(stream).any(|(_, cs)| cs.owed_rows.rows > 0) {
            self.lose(stream, &furthest, |owed_rows| owed_rows.rows, now);
            self.settle_cursor_streams(stream, now);
        }
        is_further.then(|| ResumePoint::at(&furthest, true))
    }
}
