//! After a restart: where sources go on, and which recovered frames are still wanted.
//!
//! A source that can repeat itself reads again from the lowest position that any destination
//! still needs and that the disk does not cover; frames behind that place would come twice, so
//! they are dropped. Frames of streams that nobody opens any more are all that is left of them,
//! and are delivered.

use std::sync::Arc;
use std::time::Duration;

use weir_model::{Position, SourceId, StreamId};

use super::{
    CommitTail, CursorState, CursorStream, Entry, Location, Slot, State, Status, StreamState,
};
use crate::spec::{KnownStream, ResumePoint, StreamSpec};

/// A frame found in a segment at start.
#[derive(Debug, Clone)]
pub(crate) struct RecoveredFrame {
    pub(crate) location: Location,
    pub(crate) source: SourceId,
    pub(crate) group: u64,
    pub(crate) base: Position,
    /// The source can read these records again.
    pub(crate) repeatable: bool,
    pub(crate) tail: Arc<CommitTail>,
    /// Cursors of destinations that were not configured when it was written.
    pub(crate) absent: Arc<[usize]>,
    /// Records routed to each cursor (cursors without any are left out).
    pub(crate) routed: Vec<(usize, u64)>,
    /// Positions of those records, loaded only where part of the frame may be skipped.
    pub(crate) positions: Vec<(usize, Vec<Position>)>,
}

impl RecoveredFrame {
    /// Its source can read it again for a destination that was not configured when it was written,
    /// and would have got its share of it.
    fn was_missed_by(&self, cursor: usize) -> bool {
        self.repeatable && self.absent.contains(&cursor)
    }

    /// Bytes of it behind `position`.
    fn bytes_after(&self, position: Position) -> u64 {
        let end = self.tail.end;
        if end <= position {
            return 0;
        }
        let base =
            if self.base.epoch == position.epoch { self.base.max(position) } else { self.base };
        end.offset.saturating_sub(base.offset)
    }

    /// Records for that cursor behind `position`.
    fn routed_after(&self, cursor: usize, position: Position) -> u64 {
        let exact = self.positions.iter().find(|(c, _)| *c == cursor);
        if let Some((_, positions)) = exact.filter(|_| position > self.base) {
            return (positions.len() - positions.partition_point(|p| *p <= position)) as u64;
        }
        self.routed.iter().find(|(c, _)| *c == cursor).map_or(0, |(_, count)| *count)
    }
}

impl State {
    /// Where the source of a stream goes on; `None` when nothing is known of the stream, or when
    /// a damaged log may have forgotten how far one of its destinations was.
    fn resume_point(&self, stream: StreamId, holes: Holes) -> Option<ResumePoint> {
        let frames = self.recovered.get(&stream).map_or(&[][..], Vec::as_slice);
        let may_have_forgotten =
            |c: &CursorState| c.is_active() && !c.fresh && !c.streams.contains_key(&stream);
        if self.recovery.damaged_cursor_records > 0 && self.cursors.iter().any(may_have_forgotten) {
            return None;
        }
        let lowest = self.lowest(stream, frames, holes);
        // Only destinations that are no longer configured know it: go on where they stopped.
        let idle = || {
            self.cursors
                .iter()
                .filter(|c| !c.dropped)
                .filter_map(|c| c.streams.get(&stream))
                .map(|cs| &cs.committed)
                .max_by_key(|t| t.end)
        };
        let tail = lowest.or_else(idle)?;
        Some(ResumePoint::at(tail, true))
    }

    /// The lowest place over the active destinations up to which each has what it needs, or finds
    /// it in frames. Of those only the ones up to that place are used, so that it may be lower than
    /// what one destination alone would need.
    fn lowest<'a>(
        &'a self,
        stream: StreamId,
        frames: &'a [RecoveredFrame],
        holes: Holes,
    ) -> Option<&'a Arc<CommitTail>> {
        let mut limit: Option<Position> = None;
        loop {
            let reached = |(index, c): (usize, &'a CursorState)| {
                let committed = &c.streams.get(&stream).filter(|_| c.is_active())?.committed;
                let is_out = |frame: &RecoveredFrame| {
                    frame.was_missed_by(index) || limit.is_some_and(|limit| frame.tail.end > limit)
                };
                Some(covered_up_to(committed, frames, holes, is_out))
            };
            let cursors = self.cursors.iter().enumerate();
            let lowest = cursors.filter_map(reached).min_by_key(|tail| tail.end)?;
            if limit == Some(lowest.end) {
                return Some(lowest);
            }
            limit = Some(lowest.end);
        }
    }

    /// Latest epoch of the stream that anything has heard of.
    fn last_epoch(&self, stream: StreamId, frames: &[RecoveredFrame]) -> u32 {
        let seen = self.cursors.iter().filter_map(|c| c.streams.get(&stream));
        let seen = seen.map(|cs| cs.seen().epoch);
        let stored = frames.iter().map(|frame| frame.tail.end.epoch);
        let appended = self.streams.get(&stream).map(|s| s.tail.end.epoch);
        seen.chain(stored).chain(appended).max().unwrap_or_default()
    }

    pub(crate) fn known_streams(&self, source: SourceId) -> Vec<KnownStream> {
        let of_source = |(stream, state): (&StreamId, &StreamState)| {
            if state.source != Some(source) {
                return None;
            }
            let resume = self.resume_point(*stream, Holes::AreReadAgain).unwrap_or_default();
            Some(KnownStream { stream: *stream, group: state.group, resume })
        };
        self.streams.iter().filter_map(of_source).collect()
    }

    pub(crate) fn open_stream(&mut self, spec: &StreamSpec<'_>, now: Duration) -> ResumePoint {
        let holes = if spec.gone { Holes::Stay } else { Holes::AreReadAgain };
        let known = self.resume_point(spec.stream, holes);
        let is_known = known.is_some();
        let frames = self.recovered.remove(&spec.stream).unwrap_or_default();
        let begin = begin_of_unknown(spec, &frames);
        let mut resume = known.unwrap_or_else(|| {
            let covered = covered_up_to(&begin, &frames, holes, |_| false);
            let known = covered.end != begin.end;
            ResumePoint::at(covered, known)
        });
        resume.last_epoch = self.last_epoch(spec.stream, &frames).max(resume.position.epoch);
        let stream = self.streams.entry(spec.stream).or_default();
        stream.source = Some(spec.source);
        stream.group = spec.group;
        stream.closed = false;
        stream.tail = Arc::new(CommitTail {
            end: resume.position,
            state: resume.state.as_slice().into(),
            book: resume.book,
        });
        self.sources.entry(spec.source).or_default();
        if !is_known {
            self.begin_old_destinations(spec.stream, &begin, now);
        }
        self.begin_where_frames_wait(spec.stream, &frames, now);
        self.begin_where_unknown(spec.stream, now);
        if spec.gone {
            self.count_lost(spec.stream, &frames);
        }
        let keep_up_to = Some(resume.position).filter(|_| !spec.gone);
        self.admit_recovered(spec.stream, frames, keep_up_to, now);
        resume
    }

    /// Destinations of earlier runs begin with the first frame of a stream of which the log knows
    /// nothing: the machine stopped before that was written.
    fn begin_old_destinations(&mut self, stream: StreamId, at: &Arc<CommitTail>, now: Duration) {
        for index in 0..self.cursors.len() {
            let cursor = &mut self.cursors[index];
            if cursor.is_active() && !cursor.fresh && !cursor.streams.contains_key(&stream) {
                let begin = CursorStream { committed: at.clone(), ..CursorStream::default() };
                cursor.streams.insert(stream, begin);
                self.mark_dirty(index, stream, now);
            }
        }
    }

    /// A destination of which the log does not know how far it was, while frames on disk are routed
    /// to it, begins with these, also while it is not configured. That is persisted before another
    /// one's progress: else it would look as if it had begun where that one is.
    fn begin_where_frames_wait(
        &mut self,
        stream: StreamId,
        frames: &[RecoveredFrame],
        now: Duration,
    ) {
        let Some(first) = frames.first() else { return };
        let begin = Arc::new(CommitTail { end: first.base, ..CommitTail::default() });
        for index in 0..self.cursors.len() {
            let cursor = &mut self.cursors[index];
            let waits = |f: &RecoveredFrame| f.routed.iter().any(|(routed, _)| *routed == index);
            if !cursor.streams.contains_key(&stream) && frames.iter().any(waits) {
                let begin = CursorStream { committed: begin.clone(), ..CursorStream::default() };
                cursor.streams.insert(stream, begin);
                self.mark_dirty(index, stream, now);
            }
        }
    }

    /// A destination that has never heard of the stream starts where its source goes on.
    pub(super) fn begin_where_unknown(&mut self, stream: StreamId, now: Duration) {
        let Some(tail) = self.streams.get(&stream).map(|s| s.tail.clone()) else { return };
        for index in 0..self.cursors.len() {
            let cursor = &mut self.cursors[index];
            if cursor.is_active() && !cursor.streams.contains_key(&stream) {
                let fresh = CursorStream { committed: tail.clone(), ..CursorStream::default() };
                cursor.streams.insert(stream, fresh);
                self.mark_dirty(index, stream, now);
            }
        }
    }

    /// Releases what nobody claimed.
    pub(crate) fn release_unclaimed(&mut self, now: Duration) {
        self.sources_are_open = true;
        // In an order that does not go by a map's: what is delivered first is the same every time.
        let mut unclaimed: Vec<_> = std::mem::take(&mut self.recovered).into_iter().collect();
        unclaimed.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, frames) in unclaimed {
            let resume = frames.last().map(|f| (f.tail.clone(), f.source, f.group));
            self.count_lost(stream, &frames);
            if let Some((tail, source, group)) = resume {
                let state = self.streams.entry(stream).or_default();
                state.source = Some(source);
                state.group = group;
                if tail.end > state.tail.end {
                    state.tail = tail;
                }
                // Its source may have closed it already. Until every destination has all of the
                // frames before it, it would look finished to the first one, and once it is
                // forgotten, its frames count as dead.
                state.closed = false;
            }
            self.begin_where_frames_wait(stream, &frames, now);
            self.admit_recovered(stream, frames, None, now);
            if let Some(state) = self.streams.get_mut(&stream) {
                state.closed = true;
            }
            self.fold_if_done(stream, now);
        }
    }

    /// Bytes between what a destination committed and the first frame that is left: no file and
    /// no frame holds them. They may have been delivered just before the crash. And those of frames
    /// that a destination missed, and that nobody can read again for it.
    fn count_lost(&mut self, stream: StreamId, frames: &[RecoveredFrame]) {
        for (index, cursor) in self.cursors.iter().enumerate().filter(|(_, c)| c.is_active()) {
            let Some(cs) = cursor.streams.get(&stream) else { continue };
            let missed = frames.iter().filter(|f| f.was_missed_by(index));
            let missed: u64 = missed.map(|f| f.bytes_after(cs.committed.end)).sum();
            self.recovery.lost_bytes += missed;
            let reached = covered_up_to(&cs.committed, frames, Holes::AreReadAgain, |_| false).end;
            let next = frames.iter().find(|f| f.base > reached);
            if let Some(frame) = next.filter(|f| f.base.epoch == reached.epoch) {
                self.recovery.lost_bytes += frame.base.offset - reached.offset;
            }
        }
    }

    /// Makes slots of recovered frames, those up to `keep_up_to` if given; the rest are dead.
    fn admit_recovered(
        &mut self,
        stream: StreamId,
        frames: Vec<RecoveredFrame>,
        keep_up_to: Option<Position>,
        now: Duration,
    ) {
        for frame in frames {
            self.note_frame(stream, frame.location, true);
            let behind = keep_up_to.is_some_and(|limit| frame.tail.end > limit);
            if behind && frame.repeatable {
                self.dead.push(frame.location);
                continue;
            }
            self.admit_frame(stream, &frame, now);
        }
    }

    fn admit_frame(&mut self, stream: StreamId, frame: &RecoveredFrame, now: Duration) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let mut holders = 0;
        for index in 0..self.cursors.len() {
            let cursor = &self.cursors[index];
            if cursor.dropped {
                continue;
            }
            let seen = cursor.streams.get(&stream).map_or(Position::default(), CursorStream::seen);
            if !cursor.is_active() {
                // Kept for the day when the destination comes back or is dropped.
                let routed = frame.routed_after(index, seen);
                if routed > 0 {
                    let cursor = &mut self.cursors[index];
                    cursor.held.push((seq, routed));
                    cursor.total.routed += routed;
                    cursor.in_flight += routed;
                    holders += 1;
                    if let Some(known) = self.streams.get_mut(&stream) {
                        known.held += 1;
                    }
                }
                continue;
            }
            // What it missed does not move it on: a later frame may hold the same records for it.
            if frame.tail.end <= seen || frame.was_missed_by(index) {
                continue;
            }
            let entry = Entry {
                seq,
                tail: frame.tail.clone(),
                routed: frame.routed_after(index, seen),
                skip_to: seen,
                bytes: u64::from(frame.location.len),
                status: Status::Waiting,
                is_joined: false,
            };
            holders += u32::from(self.enter_entry(index, stream, entry, now));
        }
        if holders == 0 {
            self.dead.push(frame.location);
            return;
        }
        let slot = Slot {
            batch: None,
            location: Some(frame.location),
            stream,
            memory_bytes: 0,
            holders,
            readers: holders,
            appended_at: now,
            writing: false,
            durable: true,
            queued: false,
            synced: true,
            tickets: Vec::new(),
        };
        self.slots.insert(seq, slot);
    }
}

impl ResumePoint {
    fn at(tail: &CommitTail, known: bool) -> Self {
        Self {
            position: tail.end,
            state: tail.state.to_vec(),
            book: tail.book,
            known,
            last_epoch: tail.end.epoch,
        }
    }
}

/// Where a stream begins of which the log knows nothing: where its source says, or with the first
/// frame of it that is on disk.
fn begin_of_unknown(spec: &StreamSpec<'_>, frames: &[RecoveredFrame]) -> Arc<CommitTail> {
    let start = CommitTail { end: spec.start, state: spec.state.into(), book: spec.book };
    let first = frames.first().filter(|f| f.base < spec.start);
    Arc::new(first.map_or(start, |f| CommitTail { end: f.base, ..CommitTail::default() }))
}

/// What becomes of places that no frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holes {
    AreReadAgain,
    /// Nobody can read them any more.
    Stay,
}

/// The last place that is reached from `committed` by frames that follow each other without a
/// hole, or one that is out of use. A new epoch follows an old one: frames are written in the order of their stream. Nothing
/// fills a hole before a frame that its source cannot repeat, so it is no hole.
fn covered_up_to<'a>(
    committed: &'a Arc<CommitTail>,
    frames: &'a [RecoveredFrame],
    holes: Holes,
    is_out: impl Fn(&RecoveredFrame) -> bool,
) -> &'a Arc<CommitTail> {
    let mut reached = committed;
    for frame in frames {
        if frame.tail.end <= reached.end {
            continue;
        }
        let hole = frame.base > reached.end && frame.base.epoch == reached.end.epoch;
        if holes == Holes::AreReadAgain && frame.repeatable && (hole || is_out(frame)) {
            break;
        }
        reached = &frame.tail;
    }
    reached
}
