//! After a restart: where sources resume, and which recovered frames are still needed.
//!
//! A repeatable source reads again from the lowest position that any destination still needs and
//! that the disk does not cover; frames after that position would be delivered twice, so they are
//! dropped. Frames of streams that are no longer opened are all that is left of them, and are
//! delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use weir_model::{DiscardReason, Position, SourceId, StreamId};

use super::append::charge_of;
use super::stream::between;
use super::{
    Checkpoint, CursorState, CursorStream, Cut, Entry, Keys, Location, OwedRows, Slot, State,
    Status, StreamState,
};
use crate::spec::{Furthest, KnownStream, ResumePoint, StreamSpec};

/// A frame found in a segment at start.
#[derive(Debug, Clone)]
pub(crate) struct RecoveredFrame {
    pub(crate) location: Location,
    pub(crate) source: SourceId,
    pub(crate) group: u64,
    pub(crate) base: Position,
    /// The source can read these records again.
    pub(crate) repeatable: bool,
    /// It takes the place of several others.
    pub(crate) merged: bool,
    pub(crate) checkpoint: Arc<Checkpoint>,
    /// Cursors of the destinations that were not configured when it was written.
    pub(crate) absent: Arc<[usize]>,
    /// Number of records in it.
    pub(crate) records: u64,
    /// Number of records routed to each cursor (cursors without any are left out).
    pub(crate) routed: Vec<(usize, u64)>,
    /// Positions of those records, loaded only where part of the frame may be skipped.
    pub(crate) positions: Vec<(usize, Vec<Position>)>,
    /// The frame is missing, and only its entry in the segment's index is known: the reason under
    /// which its records are discarded if no source reads them again.
    pub(crate) missing: Option<DiscardReason>,
}

impl RecoveredFrame {
    /// Returns whether its source can read it again for a destination that was not configured when
    /// it was written, and would have received its share of it.
    fn was_missed_by(&self, cursor: usize) -> bool {
        self.repeatable && self.absent.contains(&cursor)
    }

    /// Creates the slot for it, needed by `holders` destinations.
    fn slot(&self, stream: StreamId, holders: u32, now: Duration) -> Slot {
        Slot {
            batch: None,
            location: Some(self.location),
            stream,
            checkpoint: self.checkpoint.clone(),
            records: self.records,
            memory_bytes: 0,
            holders,
            readers: holders,
            appended_at: now,
            observed_ns: None,
            writing: false,
            durable: true,
            is_soon: false,
            queued: false,
            synced: true,
            is_discarded: false,
            is_copied: false,
            is_unmergeable: false,
            tickets: Vec::new(),
        }
    }

    /// Returns the number of records for that cursor after `position`.
    pub(crate) fn routed_after(&self, cursor: usize, position: Position) -> u64 {
        if position >= self.checkpoint.end {
            return 0;
        }
        let exact = self.positions.iter().find(|(c, _)| *c == cursor);
        if let Some((_, positions)) = exact.filter(|_| position > self.base) {
            return (positions.len() - positions.partition_point(|p| *p <= position)) as u64;
        }
        self.routed.iter().find(|(c, _)| *c == cursor).map_or(0, |(_, count)| *count)
    }
}

impl State {
    /// Returns where the source of a stream resumes; `None` when nothing is known about the stream,
    /// or when a damaged log may have lost the position of one of its destinations.
    fn resume_checkpoint(
        &self,
        stream: StreamId,
        frames: &[RecoveredFrame],
    ) -> Option<Arc<Checkpoint>> {
        let known = self.streams.get(&stream)?;
        let may_have_forgotten = |(index, c): (usize, &CursorState)| {
            c.is_active() && !known.cursor_streams.is_known_to(index)
        };
        // Even one that seems to be new may have been there before.
        let is_log_damaged = self.recovery.damaged_cursor_records > 0;
        if is_log_damaged && self.cursors.iter().enumerate().any(may_have_forgotten) {
            return None;
        }
        let content = Content::of(known, frames);
        if let Some(lowest) = self.lowest(stream, frames, content) {
            return Some(self.mark_at(stream, frames, content, lowest));
        }
        // Only destinations that are no longer configured know it: continue where they stopped.
        let idle = self.absent.iter().filter_map(|index| known.committed(*index)).max()?;
        Some(self.mark_at(stream, frames, content, idle))
    }

    /// Returns the lowest position, over the active destinations, up to which each has what it
    /// needs or finds it in frames. Only frames up to that position are used, so it may be lower
    /// than what a single destination would need.
    fn lowest(
        &self,
        stream: StreamId,
        frames: &[RecoveredFrame],
        content: Content,
    ) -> Option<Position> {
        let known = self.streams.get(&stream)?;
        let mut limit: Option<Position> = None;
        loop {
            let reached = |(index, c): (usize, &CursorState)| {
                let committed = known.committed(index).filter(|_| c.is_active())?;
                let is_out = |frame: &RecoveredFrame| {
                    frame.was_missed_by(index)
                        || limit.is_some_and(|limit| frame.checkpoint.end > limit)
                };
                Some(content.covered_up_to(committed, frames, is_out))
            };
            let lowest = self.cursors.iter().enumerate().filter_map(reached).min()?;
            if limit == Some(lowest) {
                return Some(lowest);
            }
            limit = Some(lowest);
        }
    }

    /// Returns the last position up to `at` from which the source can resume, which means that its
    /// state there is known.
    fn mark_at(
        &self,
        stream: StreamId,
        frames: &[RecoveredFrame],
        content: Content,
        at: Position,
    ) -> Arc<Checkpoint> {
        let known = self.streams.get(&stream);
        let of_cursors = self.cursor_streams(stream).map(|(_, cs)| &cs.mark);
        let of_stream = known.into_iter().flat_map(|known| {
            [&known.furthest, &known.checkpoint].into_iter().chain(known.epoch_begins())
        });
        let of_frames =
            frames.iter().filter(|f| f.missing.is_none()).map(|frame| &frame.checkpoint);
        let candidates = of_cursors.chain(of_stream).chain(of_frames);
        let is_usable =
            |checkpoint: &&Arc<Checkpoint>| checkpoint.end <= at && checkpoint.end >= content.begin;
        let best = candidates.filter(is_usable).max_by_key(|checkpoint| checkpoint.end);
        let begin = || Checkpoint::at(content.begin.min(at));
        best.cloned().unwrap_or_else(|| Arc::new(begin()))
    }

    /// Returns the furthest known position, with the state and book that belong to it.
    fn furthest(&self, stream: StreamId, frames: &[RecoveredFrame]) -> Option<Arc<Checkpoint>> {
        let stated = self.streams.get(&stream).map(|known| &known.furthest);
        let last = frames.iter().map(|frame| &frame.checkpoint);
        last.chain(stated).max_by_key(|checkpoint| checkpoint.end).cloned()
    }

    /// Returns the furthest position in the cursor log: the log states what destinations are owed
    /// up to there, and the destinations that are done are there.
    fn stated(&self, stream: StreamId) -> Arc<Checkpoint> {
        self.streams.get(&stream).map(|known| known.furthest.clone()).unwrap_or_default()
    }

    /// Returns the latest known epoch of the stream.
    fn last_epoch(&self, stream: StreamId, frames: &[RecoveredFrame]) -> u32 {
        let seen = self.cursor_streams(stream).map(|(_, cs)| cs.seen().epoch);
        let stored = frames.iter().map(|frame| frame.checkpoint.end.epoch);
        let known = self.streams.get(&stream);
        let appended = known.map(|s| s.checkpoint.end.epoch.max(s.furthest.end.epoch));
        seen.chain(stored).chain(appended).max().unwrap_or_default()
    }

    /// Returns the streams of a source, also those of which only frames are known.
    pub(crate) fn stream_ids(&self, source: SourceId) -> Vec<StreamId> {
        let stated = self.streams.iter().filter(|(_, known)| known.source == Some(source));
        let is_of_source = |frame: &RecoveredFrame| frame.source == source;
        let found = self.recovered.iter().filter(|(_, frames)| frames.iter().any(is_of_source));
        let mut ids: Vec<StreamId> =
            stated.map(|(id, _)| *id).chain(found.map(|(id, _)| *id)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    pub(crate) fn known_streams(&self, source: SourceId) -> Vec<KnownStream> {
        // What a source of this run has closed was read to its end.
        let is_ended =
            |id: &StreamId| self.streams.get(id).is_some_and(|s| s.is_opened && s.closed);
        let ids = self.stream_ids(source).into_iter().filter(|id| !is_ended(id));
        ids.map(|stream| self.known_stream(stream)).collect()
    }

    pub(crate) fn furthest_streams(&self, source: SourceId) -> Vec<(StreamId, ResumePoint)> {
        let frames = |id| self.recovered.get(&id).map_or(&[][..], Vec::as_slice);
        let furthest = |id| Some((id, ResumePoint::at(&*self.furthest(id, frames(id))?, true)));
        self.stream_ids(source).into_iter().filter_map(furthest).collect()
    }

    /// Returns what was appended last to a stream that a source of this run has opened.
    pub(crate) fn appended(&self, stream: StreamId) -> Option<ResumePoint> {
        let known = self.streams.get(&stream).filter(|known| known.is_opened && !known.closed)?;
        Some(ResumePoint::at(&known.checkpoint, true))
    }

    fn known_stream(&self, stream: StreamId) -> KnownStream {
        if let Some(known) = self.streams.get(&stream).filter(|known| known.is_opened) {
            let (group, furthest) = (known.group, ResumePoint::at(known.done(), true));
            let resume = ResumePoint::at(&known.checkpoint, true);
            let resume = ResumePoint { furthest: furthest.furthest, ..resume };
            return KnownStream { stream, group, resume, furthest };
        }
        let frames = self.recovered.get(&stream).map_or(&[][..], Vec::as_slice);
        let point = |checkpoint: Option<Arc<Checkpoint>>| {
            checkpoint.map(|checkpoint| ResumePoint::at(&checkpoint, true)).unwrap_or_default()
        };
        let resume = point(self.resume_checkpoint(stream, frames));
        let furthest = point(self.furthest(stream, frames));
        let resume = ResumePoint { furthest: furthest.furthest, ..resume };
        let of_frames = frames.last().map(|frame| frame.group);
        let group = self.streams.get(&stream).map(|known| known.group).or(of_frames);
        KnownStream { stream, group: group.unwrap_or_default(), resume, furthest }
    }

    pub(crate) fn open_stream(&mut self, spec: &StreamSpec<'_>, now: Duration) -> ResumePoint {
        if let Some(resume) = self.continue_stream(spec, now) {
            return resume;
        }
        let frames = self.recovered.remove(&spec.stream).unwrap_or_default();
        let known = self.resume_checkpoint(spec.stream, &frames);
        let is_known = known.is_some();
        let known_stream = self.streams.get(&spec.stream).map(|known| &**known);
        let begin = begin_of_unknown(known_stream, spec, &frames);
        let last = self.furthest(spec.stream, &frames);
        let is_repeatable = self.streams.get(&spec.stream).is_none_or(|s| !s.is_unrepeatable)
            && frames.iter().all(|frame| frame.repeatable);
        let is_gone = spec.gone || !is_repeatable;
        let gone = last.filter(|_| is_gone && (is_known || !frames.is_empty()));
        let (resume, is_found) = match (gone, known) {
            (Some(last), _) => (last, true),
            (None, Some(known)) => (known, true),
            (None, None) => {
                let reached = Content::default().covered_up_to(begin.end, &frames, |_| false);
                let is_it =
                    |f: &&RecoveredFrame| f.missing.is_none() && f.checkpoint.end == reached;
                let frame = frames.iter().find(is_it);
                (frame.map_or(&begin, |frame| &frame.checkpoint).clone(), reached != begin.end)
            }
        };
        let last_epoch = self.last_epoch(spec.stream, &frames).max(resume.end.epoch);
        let furthest = self.furthest(spec.stream, &frames);
        let furthest = Furthest::at(furthest.as_deref().unwrap_or(&resume));
        let stated = self.stated(spec.stream);
        let stream = self.streams.entry(spec.stream).or_default();
        stream.source = Some(spec.source);
        stream.group = spec.group;
        (stream.closed, stream.is_opened) = (false, true);
        stream.is_unrepeatable = !is_repeatable;
        if stream.furthest.end == Position::default() {
            stream.furthest = resume.clone();
        }
        // Nothing is appended yet: destinations that are done are at the furthest position.
        stream.checkpoint = stream.furthest.clone();
        self.sources.entry(spec.source).or_default();
        if !is_known {
            self.begin_old_destinations(spec.stream, &begin, now);
        }
        self.begin_where_frames_wait(spec.stream, &frames, now);
        self.begin_where_unknown(spec.stream, &resume, now);
        if spec.gone {
            self.count_missed(spec.stream, &frames);
        }
        let keep_up_to = Some(resume.end).filter(|_| !is_gone);
        self.admit_recovered(spec.stream, frames, keep_up_to, &stated, now);
        if resume.end > stated.end {
            self.keep_absent(spec.stream, &stated);
        }
        if let Some(stream) = self.streams.get_mut(&spec.stream) {
            stream.checkpoint = resume.clone();
        }
        self.settle_cursor_streams(spec.stream, now);
        ResumePoint { last_epoch, furthest, ..ResumePoint::at(&resume, is_found) }
    }

    /// Continues a stream that a source of this run has opened before: after everything that was
    /// appended, since destinations have it or find it here. `None` if there is no such stream.
    fn continue_stream(&mut self, spec: &StreamSpec<'_>, now: Duration) -> Option<ResumePoint> {
        let known = self.streams.get_mut(&spec.stream).filter(|known| known.is_opened)?;
        (known.source, known.group, known.closed) = (Some(spec.source), spec.group, false);
        if spec.gone {
            self.skip_to_furthest(spec.stream, now);
            self.persist_stream(spec.stream, now);
        }
        let last_epoch = self.last_epoch(spec.stream, &[]);
        let known = self.streams.get(&spec.stream)?;
        let furthest = Furthest::at(known.done());
        Some(ResumePoint { last_epoch, furthest, ..ResumePoint::at(&known.checkpoint, true) })
    }

    /// Makes destinations of earlier runs start with the first frame of a stream that the log does
    /// not know: the machine stopped before that was written.
    fn begin_old_destinations(&mut self, stream: StreamId, at: &Arc<Checkpoint>, now: Duration) {
        let is_old = |c: &CursorState| c.is_active() && !c.fresh;
        let old: Vec<bool> = self.cursors.iter().map(is_old).collect();
        self.introduce(stream, now, |index| old[index].then(|| at.clone()));
    }

    /// Makes a destination whose position is missing from the log, while frames on disk are routed
    /// to it, start with these, even if it is not configured. That is persisted before the progress
    /// of another destination: otherwise it would seem to have started where that one is.
    fn begin_where_frames_wait(
        &mut self,
        stream: StreamId,
        frames: &[RecoveredFrame],
        now: Duration,
    ) {
        let Some(first) = frames.first() else { return };
        let begin = Arc::new(Checkpoint::at(first.base));
        let routed = frames.iter().flat_map(|frame| frame.routed.iter().map(|(index, _)| *index));
        let routed: BTreeSet<usize> = routed.collect();
        self.introduce(stream, now, |index| routed.contains(&index).then(|| begin.clone()));
    }

    /// Makes a destination that does not know the stream start where its source resumes.
    fn begin_where_unknown(&mut self, stream: StreamId, at: &Arc<Checkpoint>, now: Duration) {
        let absent = self.absent.clone();
        self.introduce(stream, now, |index| (!absent.contains(&index)).then(|| at.clone()));
    }

    /// Releases the frames that no source has claimed.
    pub(crate) fn release_unclaimed(&mut self, now: Duration) {
        self.sources_are_open = true;
        self.release_without_frames(now);
        // Sorted, because the iteration order of a map varies: the delivery order must not.
        let mut unclaimed: Vec<_> = std::mem::take(&mut self.recovered).into_iter().collect();
        unclaimed.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, frames) in unclaimed {
            let (last, stated) = (self.furthest(stream, &frames), self.stated(stream));
            if let Some(frame) = frames.last() {
                self.count_missed(stream, &frames);
                let state = self.streams.entry(stream).or_default();
                state.source = Some(frame.source);
                state.group = frame.group;
                state.is_unrepeatable |= !frame.repeatable;
                // Its source may have closed it already. Before every destination has all of the
                // frames, the stream would look finished to the first one, and once it is
                // forgotten, its frames count as dead.
                state.closed = false;
            }
            self.begin_where_frames_wait(stream, &frames, now);
            self.admit_recovered(stream, frames, None, &stated, now);
            if let Some(state) = self.streams.get_mut(&stream) {
                state.checkpoint = last
                    .filter(|last| last.end > state.checkpoint.end)
                    .unwrap_or(state.checkpoint.clone());
                state.closed = true;
            }
            self.settle_cursor_streams(stream, now);
            self.fold_if_done(stream, now);
        }
        // What an earlier run left is known before more is received.
        for index in 0..self.cursors.len() {
            self.begin_counting(index);
        }
    }

    /// Records that every source has appended what its streams had when it opened them: that, and
    /// what the journal has from earlier, is the backlog of every destination.
    pub(crate) fn end_backlog(&mut self) {
        self.is_backlog_read = true;
        for cursor in &mut self.cursors {
            cursor.backlog_end = self.next_seq;
        }
    }

    /// Releases streams that were not opened, have no frames left, and cannot be read again by
    /// their sources: what destinations are owed of them is lost.
    fn release_without_frames(&mut self, now: Duration) {
        let is_lost = |stream: &StreamId, known: &StreamState| {
            let is_owed = || known.cursor_streams.iter().any(|(_, cs)| cs.owed_rows.rows > 0);
            known.is_unrepeatable && !self.recovered.contains_key(stream) && is_owed()
        };
        let lost = self.streams.iter().filter(|(stream, known)| is_lost(stream, known));
        let mut lost: Vec<_> = lost.map(|(id, _)| *id).collect();
        lost.sort_unstable();
        for stream in lost {
            self.close_stream(stream, now);
        }
    }

    /// Counts bytes that destinations missed while they were not configured, and that no source can
    /// read again for them: how many rows of them were theirs is unknown.
    fn count_missed(&mut self, stream: StreamId, frames: &[RecoveredFrame]) {
        let Some(last) = self.furthest(stream, frames).map(|checkpoint| checkpoint.end) else {
            return;
        };
        let Some(known) = self.streams.get(&stream) else { return };
        for (index, cursor) in self.cursors.iter().enumerate() {
            if !cursor.is_active() || cursor.fresh {
                continue;
            }
            let Some(committed) = known.committed(index) else { continue };
            let is_owed = known.cursor_streams.get(index).is_some_and(|cs| cs.owed_rows.rows > 0);
            let was_away = committed < known.furthest.end
                || frames.iter().any(|frame| frame.was_missed_by(index));
            if was_away && !is_owed && last.epoch == committed.epoch {
                let missed = last.offset.saturating_sub(committed.offset);
                self.recovery.lost_bytes = self.recovery.lost_bytes.saturating_add(missed);
            }
        }
    }

    /// Creates slots for recovered frames, only up to `keep_up_to` if given; the rest are dead.
    /// What destinations are owed and do not find in them is counted as lost, unless it is read
    /// again: up to `stated` according to the cursor log, after it according to the indexes of
    /// segments.
    fn admit_recovered(
        &mut self,
        stream: StreamId,
        frames: Vec<RecoveredFrame>,
        keep_up_to: Option<Position>,
        stated: &Arc<Checkpoint>,
        now: Duration,
    ) {
        let Some(known) = self.streams.get(&stream) else { return };
        let content = Content::of(known, &frames);
        let furthest = known.furthest.clone();
        let is_gone = keep_up_to.is_none();
        let begin = known.begin_of(content.epoch).cloned();
        let unknown = || Arc::new(Checkpoint::at(content.begin));
        let begin = begin.unwrap_or_else(unknown);
        let mut is_older_settled = content.epoch == 0 || is_gone;
        let mut is_settled = !is_gone;
        let mut on_disk = None;
        let mut missing_rows = BTreeMap::new();
        for frame in frames {
            self.note_frame(stream, frame.location);
            if !is_older_settled && frame.base.epoch >= content.epoch {
                is_older_settled = true;
                self.lose_older(stream, &begin, now);
            }
            if !is_settled && frame.base >= furthest.end {
                is_settled = true;
                self.lose(stream, &furthest, |owed_rows| owed_rows.rows, now);
            }
            let behind = keep_up_to.is_some_and(|limit| frame.checkpoint.end > limit);
            let is_readable = frame.repeatable && frame.base.epoch >= content.epoch;
            if (behind || frame.missing.is_some()) && is_readable && !is_gone {
                self.end_whole(frame.location);
                if let Some(known) = self.streams.get_mut(&stream) {
                    known.pass_over(frame.checkpoint.end, frame.location);
                }
                continue;
            }
            if let Some(reason) = frame.missing {
                self.lose_frame(stream, &frame, (stated, &mut missing_rows), reason, now);
            } else {
                self.admit_frame(stream, &frame, stated, now);
            }
            // Frames may overlap: the last one is not always the one that reaches furthest.
            let reached = on_disk
                .as_ref()
                .map_or(furthest.end, |checkpoint: &Arc<Checkpoint>| checkpoint.end);
            if (!is_readable || is_gone) && frame.checkpoint.end > reached {
                on_disk = Some(frame.checkpoint);
            }
        }
        if !is_older_settled {
            self.lose_older(stream, &begin, now);
        }
        if !is_settled {
            self.lose(stream, &furthest, |owed_rows| owed_rows.rows, now);
        }
        // Only now: what is missing before `furthest` may never have been on stable storage.
        if let Some(checkpoint) = on_disk {
            self.reach_on_disk(stream, &checkpoint, self.next_seq, now);
        }
        self.mark_dirty(stream, now);
    }

    /// Counts a missing frame that no source reads again. Up to the furthest position in the cursor
    /// log, its records are part of what destinations are owed: only those after it are counted
    /// here, from the index of the segment. `missing_rows` are those of earlier missing frames, by
    /// destination, that are part of what it is owed.
    fn lose_frame(
        &mut self,
        stream: StreamId,
        frame: &RecoveredFrame,
        (stated, missing_rows): (&Arc<Checkpoint>, &mut BTreeMap<usize, u64>),
        reason: DiscardReason,
        now: Duration,
    ) {
        self.dead.push(frame.location);
        for (index, _) in frame.routed.iter().copied() {
            let Some(seen) = self.seen_from(index, stream, stated) else { continue };
            let rows = frame.routed_after(index, seen);
            if rows == 0 || self.cursors[index].dropped || frame.was_missed_by(index) {
                continue;
            }
            // What is owed and is in no other frame is in this one.
            let known = self.streams.get(&stream).and_then(|s| s.cursor_streams.get(index));
            let unpaid = known.map_or(0, |cs| cs.owed_rows.rows);
            let missing = missing_rows.entry(index).or_default();
            let owed = rows.min(unpaid - unpaid.min(*missing));
            *missing += owed;
            if frame.checkpoint.end > stated.end && rows > owed {
                self.count_lost(index, stream, &frame.checkpoint, (rows - owed, reason), now);
            }
        }
    }

    /// Counts as lost what destinations are owed from epochs before that of `begin`, because the
    /// stream's content was replaced.
    fn lose_older(&mut self, stream: StreamId, begin: &Arc<Checkpoint>, now: Duration) {
        let part = |owed_rows: &OwedRows| owed_rows.before(begin.end.epoch);
        if self.cursor_streams(stream).any(|(_, cs)| part(&cs.owed_rows) > 0) {
            self.lose(stream, begin, part, now);
        }
    }

    /// Returns up to where a destination has the stream while recovered frames are admitted: one
    /// that is done has it up to `stated`, as the log says, whatever others have lost in the
    /// meantime.
    fn seen_from(
        &self,
        index: usize,
        stream: StreamId,
        stated: &Arc<Checkpoint>,
    ) -> Option<Position> {
        let streams = &self.streams.get(&stream)?.cursor_streams;
        streams.position(index, CursorStream::seen, stated.end)
    }

    fn admit_frame(
        &mut self,
        stream: StreamId,
        frame: &RecoveredFrame,
        stated: &Arc<Checkpoint>,
        now: Duration,
    ) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let mut holders = 0;
        for (index, _) in frame.routed.iter().copied() {
            let cursor = &self.cursors[index];
            let is_missed = cursor.is_active() && frame.was_missed_by(index);
            let seen = self.seen_from(index, stream, stated).unwrap_or_default();
            let routed = frame.routed_after(index, seen);
            // What it missed does not advance it: a later frame may hold the same records for it.
            if cursor.dropped || is_missed || routed == 0 {
                continue;
            }
            holders += 1;
            let charge = charge_of(u64::from(frame.location.len), routed, frame.records);
            let Some(known) = self.streams.get_mut(&stream) else { continue };
            let cs = known.cursor_streams.get_or_insert(index, || CursorStream::begin(stated));
            let until = cs.owed_rows.until.max(seen);
            cs.owed_rows.pay(
                routed - routed.min(frame.routed_after(index, until)),
                frame.checkpoint.end.epoch,
            );
            let is_kept = !self.cursors[index].is_active();
            let before = if is_kept { cs.kept_up_to(seen) } else { cs.through() };
            let through = before + routed;
            let up_to = |at| through - routed.min(frame.routed_after(index, at));
            let inside = self.furthest_within(stream, between(seen, frame.checkpoint.end), up_to);
            if is_kept {
                // Kept until the destination comes back or is dropped.
                let positions = inside.into_iter().chain([(frame.checkpoint.end, through)]);
                self.keep_frame(index, stream, (seq, routed), positions, charge);
                continue;
            }
            let entry = Entry {
                seq,
                checkpoint: frame.checkpoint.clone(),
                routed,
                through,
                inside,
                skip_to: seen,
                bytes: charge,
                status: Status::Waiting,
                keys: Keys::Unknown,
                cut: Cut::default(),
                is_joined: false,
            };
            self.enter_entry(index, stream, entry, now);
            self.cursors[index].has_uncounted = true;
        }
        if holders == 0 {
            self.end_whole(frame.location);
            return;
        }
        if let Some(known) = self.streams.get_mut(&stream) {
            known.slots += 1;
        }
        self.slots.insert(seq, frame.slot(stream, holders, now));
    }

    /// Keeps the rows of a frame, which ends at the last of `positions`, for a destination that is
    /// not configured.
    fn keep_frame(
        &mut self,
        index: usize,
        stream: StreamId,
        (seq, routed): (u64, u64),
        positions: impl Iterator<Item = (Position, u64)>,
        charge: u64,
    ) {
        let cursor = &mut self.cursors[index];
        cursor.held.push((seq, routed));
        cursor.kept_bytes += charge;
        cursor.total.routed += routed;
        cursor.in_flight += routed;
        if let Some(cs) = self.cursor_stream_mut(index, stream) {
            cs.kept.extend(positions);
        }
    }
}

impl ResumePoint {
    pub(super) fn at(checkpoint: &Checkpoint, known: bool) -> Self {
        Self {
            position: checkpoint.end,
            state: checkpoint.state().to_vec(),
            book: checkpoint.book(),
            known,
            last_epoch: checkpoint.end.epoch,
            furthest: Furthest::at(checkpoint),
        }
    }
}

impl Furthest {
    fn at(checkpoint: &Checkpoint) -> Self {
        Self { position: checkpoint.end, book: checkpoint.book() }
    }
}

/// Returns where a stream is read again of which the log does not know enough: where its latest
/// content starts, so that no destination takes it for what it has; or where its source says, or
/// with its first frame on disk.
fn begin_of_unknown(
    known: Option<&StreamState>,
    spec: &StreamSpec<'_>,
    frames: &[RecoveredFrame],
) -> Arc<Checkpoint> {
    let mut book = Vec::new();
    spec.book.encode(&mut book);
    if let Some(known) = known {
        let content = Content::of(known, frames);
        if content.begin > spec.start {
            let begin = || Arc::new(Checkpoint::new(content.begin, &book, spec.state));
            return known.begin_of(content.epoch).cloned().unwrap_or_else(begin);
        }
    }
    let start = Checkpoint::new(spec.start, &book, spec.state);
    let first = frames.first().filter(|f| f.base < spec.start);
    Arc::new(first.map_or(start, |f| Checkpoint::at(f.base)))
}

/// The part of a stream that its source can still read: its latest epoch, from its start. Content
/// appended in earlier epochs is gone, except for the frames on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Content {
    epoch: u32,
    begin: Position,
    /// The log states it, and knows no later epoch.
    is_stated: bool,
}

impl Content {
    fn of(known: &StreamState, frames: &[RecoveredFrame]) -> Self {
        if known.is_unrepeatable {
            return Self::default();
        }
        // Only the log knows where an epoch started, and with which counts. A source cannot resume
        // from frames alone: their rows are read again, if that is still possible.
        let has_begin = |epoch: &u32| known.begin_of(*epoch).is_some();
        let epochs = frames.iter().map(|frame| frame.checkpoint.end.epoch).filter(has_begin);
        let epoch = epochs.chain([known.furthest.end.epoch]).max().unwrap_or_default();
        let begin = known.begin_of(epoch).map(|begin| begin.end);
        Self { epoch, begin: begin.unwrap_or(Position::new(epoch, 0)), is_stated: true }
    }

    /// Returns the last position reached from `committed` by consecutive frames, up to the first
    /// gap or unusable frame. Before a frame that its source cannot repeat, or that is of an
    /// earlier epoch, nothing can fill a gap, so it is not treated as one.
    fn covered_up_to(
        self,
        committed: Position,
        frames: &[RecoveredFrame],
        is_out: impl Fn(&RecoveredFrame) -> bool,
    ) -> Position {
        let mut reached = committed;
        let is_there = |f: &&RecoveredFrame| f.missing.is_none() && f.checkpoint.end > committed;
        for frame in frames.iter().filter(is_there) {
            let is_older = frame.base.epoch < self.epoch;
            if self.is_stated && frame.repeatable && frame.base.epoch > self.epoch {
                break;
            }
            if !is_older && reached.epoch < self.epoch {
                reached = self.begin;
            }
            if frame.checkpoint.end <= reached {
                continue;
            }
            let is_hole = frame.base > reached && frame.base.epoch == reached.epoch;
            if frame.repeatable && !is_older && (is_hole || is_out(frame)) {
                break;
            }
            reached = frame.checkpoint.end;
        }
        if reached.epoch < self.epoch { self.begin } else { reached }
    }
}
