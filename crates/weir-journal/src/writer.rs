//! The journal's only thread that accesses the disk: it appends groups of frames, writes out a full
//! ring, flushes positions, and frees space.
//!
//! Invariants: the lock is never held during I/O; a frame's bytes are synced before its ticket
//! resolves; space is freed only after the positions that make it unneeded are durable; a failed
//! sync is never repeated on the same file: the segment is closed, and the frames that are still in
//! memory go to the next one.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_host::units::approx_size;
use weir_host::{Disk, DiskFile, WakeFd, check_free_space, is_disk_full};
use weir_model::{Batch, StreamId};

use crate::JournalShared;
use crate::cursor_log::{self, CursorLog, Records};
use crate::index::SegmentIndex;
use crate::limits::{
    DISK_RETRY_INTERVAL, FRAMES_PER_WRITE, GROUP_BYTES, SEGMENT_FRAMES_MAX, TIGHT_BYTES,
};
use crate::recovery::{Lock, Opened};
use crate::segment::{self, ReadError, SALT_LEN};
use crate::spec::{RefusedReason, Step};
use crate::state::{Hole, Location, Merge, MergePart, Move, Work, group_by_arrival};

#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<JournalShared>,
    disk: Arc<dyn Disk>,
    cursor_log: CursorLog,
    current: Option<OpenSegment>,
    next_segment: u64,
    /// Space to free after positions that could not be written yet.
    unwritten: Vec<Location>,
    /// When to try again to rewrite a cursor log that is long.
    shorten_after: Duration,
    lock: Lock,
}

/// The segment that is being appended to.
#[derive(Debug)]
struct OpenSegment {
    id: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    len: u64,
    frames: usize,
    /// Frames that are written but not flushed.
    unsynced: Vec<UnsyncedFrame>,
    names_version: u64,
    salt: [u8; SALT_LEN],
    /// A flush failed: neither write nor flush it again.
    failed: bool,
}

/// A written frame that may not be on disk.
#[derive(Debug)]
struct UnsyncedFrame {
    seq: u64,
    at: Location,
    /// It is elsewhere on stable storage, too.
    rewritten: Option<Rewritten>,
}

/// What a frame was made from.
#[derive(Debug, Clone)]
enum Rewritten {
    /// A frame of which a part is no longer needed; with the number of records that are left.
    Reduced(Move, u64),
    /// Several frames.
    Merged(Merge, Arc<Batch>),
}

impl Rewritten {
    fn seq(&self) -> u64 {
        match self {
            Self::Reduced(moved, _) => moved.seq,
            Self::Merged(merge, _) => merge.seq(),
        }
    }

    /// Number of frames of which a part was removed. Merged frames are counted in `State`.
    fn frames_compacted(&self) -> u64 {
        match self {
            Self::Reduced(..) => 1,
            Self::Merged(..) => 0,
        }
    }
}

impl OpenSegment {
    fn append(&mut self, group: &[(u64, Arc<Batch>)]) -> io::Result<Vec<Location>> {
        let heads: Vec<[u8; 16]> = group.iter().map(|(_, b)| b.frame_parts().0).collect();
        let mut parts = Vec::with_capacity(group.len() * 2);
        let mut locations = Vec::with_capacity(group.len());
        let mut at = self.len;
        for ((_, batch), head) in group.iter().zip(&heads) {
            parts.push(IoSlice::new(head));
            parts.push(IoSlice::new(batch.frame_rest()));
            let len = batch.frame_bytes() as u32;
            locations.push(Location { segment: self.id, offset: at, len });
            at += u64::from(len);
        }
        if let Err(error) = self.file.write_all_at(&mut parts, self.len) {
            // Anything after this length is not a frame of ours. If it cannot be cut off either,
            // nothing more is written here.
            self.failed |= self.file.set_len(self.len).is_err();
            return Err(error);
        }
        self.len = at;
        self.frames += group.len();
        Ok(locations)
    }
}

impl Drop for Writer {
    /// Ensures that no caller waits for the thread after it has ended.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopped = true;
        for slot in state.slots.values_mut() {
            for ticket in slot.tickets.drain(..) {
                let _nobody_waits = ticket.send(Err(RefusedReason::Closed));
            }
        }
        state.fail_position_tickets(&RefusedReason::Closed);
        self.shared.flushed.notify_all();
    }
}

impl Writer {
    pub(crate) fn new(shared: Arc<JournalShared>, disk: Arc<dyn Disk>, opened: Opened) -> Self {
        Self {
            shared,
            disk,
            cursor_log: opened.cursor_log,
            current: None,
            next_segment: opened.next_segment,
            unwritten: Vec::new(),
            shorten_after: Duration::ZERO,
            lock: opened.lock,
        }
    }

    /// Runs until the journal is shut down.
    pub(crate) fn run(mut self) {
        loop {
            let work = self.wait_for_work();
            if !self.perform(work) {
                return;
            }
        }
    }

    /// Performs the next step that is due.
    pub(crate) fn step(&mut self) -> Step {
        let now = self.shared.clock.monotonic();
        let next = self.shared.change(|state| state.next_work(now));
        match next.map(|work| self.perform(work)) {
            Ok(true) => Step::Worked,
            Ok(false) => Step::Ended,
            Err(wait) => Step::Idle { wait },
        }
    }

    /// Returns false if that was the last task.
    fn perform(&mut self, work: Work) -> bool {
        match work {
            Work::Frames { batches, sync } => self.write_frames(&batches, sync),
            Work::Probe => self.probe(),
            Work::Positions { records, dead } => self.write_positions(&records, dead),
            Work::CountKeys(frames) => self.count_keys(&frames),
            Work::Compact(moves) => self.compact(moves),
            Work::Merge(merges) => self.merge(merges),
            Work::EndSegment => self.end_segment(),
            Work::Stop => {
                let closed = self.close_segment().and_then(|()| self.lock.check());
                if let Err(error) = closed {
                    let now = self.shared.clock.monotonic();
                    self.shared.change(|state| state.note_frames_error(&error, now));
                }
                return false;
            }
        }
        true
    }

    fn wait_for_work(&self) -> Work {
        let mut state = self.shared.lock();
        loop {
            let now = self.shared.clock.monotonic();
            let next = state.next_work(now);
            if let Some(wakes) = state.take_wakes() {
                drop(state);
                wakes.iter().for_each(WakeFd::wake);
                state = self.shared.lock();
                // Changes since then have not woken the writer: check again.
                if next.is_err() {
                    continue;
                }
            }
            match next {
                Ok(work) => return work,
                Err(Some(wait)) => {
                    let wait = wait.max(Duration::from_micros(200));
                    let waited = self.shared.work.wait_timeout(state, wait);
                    state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                }
                Err(None) => {
                    let waited = self.shared.work.wait(state);
                    state = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                }
            }
        }
    }

    fn write_frames(&mut self, batches: &[(u64, Arc<Batch>)], sync: bool) {
        let appended = self.append_frames(batches);
        let written = appended.and_then(|()| if sync { self.sync_current() } else { Ok(()) });
        match written {
            Ok(()) => self.shared.lock().frames_written(batches, sync),
            Err(error) => self.frames_failed(batches, &error),
        }
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| {
            for (seq, _) in batches {
                state.end_writing(*seq, now);
            }
            state.wake_sources_if_room();
        });
    }

    /// Retries what failed before with a new segment, which is written and flushed.
    fn probe(&mut self) {
        let bytes = self.shared.lock().failed_bytes;
        let tried = self.check_space(bytes).and_then(|()| self.open_segment_if_needed());
        if tried.as_ref().is_err_and(is_disk_full) {
            // Space is freed only in closed segments.
            let _reported_already = self.close_segment();
            // Perhaps no position is due.
            let _reported_already = self.positions_take_space() && self.shorten_positions();
        }
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| match tried {
            Ok(()) => {
                tracing::info!("journal writes succeed again");
                (state.frames_error, state.is_disk_full) = (None, false);
                // These may succeed again as well, and something may have to be stated first.
                state.positions_since = state.positions_since.map(|since| since.min(now));
                state.wake_sources();
            }
            Err(error) => {
                state.note_frames_error(&error, now);
                state.refuse_waiting();
            }
        });
    }

    /// Ends the current segment if that frees much: space is freed only in closed ones.
    fn end_segment(&mut self) {
        if self.shared.lock().freeable_bytes() >= GROUP_BYTES
            && let Err(error) = self.close_segment()
        {
            tracing::warn!(%error, "a journal segment could not be closed");
        }
    }

    /// Appends frames to the current segment, starting a new one when it is full.
    fn append_frames(&mut self, batches: &[(u64, Arc<Batch>)]) -> io::Result<()> {
        self.check_space(batches.iter().map(|(_, b)| b.frame_bytes() as u64).sum())?;
        for group in batches.chunks(FRAMES_PER_WRITE) {
            self.open_segment_if_needed()?;
            if let Some(current) = &mut self.current {
                let locations = current.append(group)?;
                let placed = group.iter().zip(&locations);
                let placed = placed.map(|((seq, _), at)| (*seq, *at));
                current.unsynced.extend(placed.map(|(seq, at)| UnsyncedFrame {
                    seq,
                    at,
                    rewritten: None,
                }));
                self.shared.lock().frames_placed(group, &locations);
            }
        }
        Ok(())
    }

    /// Reads frames, so that their keys are known. One that cannot be read is reported when it is
    /// taken.
    fn count_keys(&self, frames: &[(u64, Location)]) {
        let read =
            |(seq, at): &(u64, Location)| Some((*seq, Arc::new(self.read_frame(*at)?.ok()?)));
        let frames: Vec<_> = frames.iter().filter_map(read).collect();
        self.shared.lock().counted(&frames);
    }

    /// Rewrites frames with only the records that are still needed.
    fn compact(&mut self, moves: Vec<Move>) {
        let rewritten: Vec<_> = moves.into_iter().filter_map(|m| self.reduced(m)).collect();
        self.append_rewritten(&rewritten);
        let mut state = self.shared.lock();
        state.sync_wanted |= state.rewriting.moves.is_empty();
    }

    /// Merges small frames into larger ones.
    fn merge(&mut self, merges: Vec<Merge>) {
        let within_ns = self.shared.lock().arrival_span_max_ns();
        let mut merged = Vec::new();
        for Merge { stream, parts } in merges {
            // One that cannot be read is reported when it is taken.
            let read = |part: MergePart| {
                let batch = self.read_frame(part.from)?.ok()?;
                Some((part, batch))
            };
            let read: Vec<_> = parts.into_iter().map_while(read).collect();
            self.shared.lock().note_arrivals(&read);
            for group in group_by_arrival(read, within_ns) {
                self.merge_group(stream, &group, &mut merged);
            }
        }
        self.append_rewritten(&merged);
        self.shared.lock().sync_wanted = true;
    }

    /// Merges frames into one, or into several if they do not fit.
    fn merge_group(
        &self,
        stream: StreamId,
        group: &[(MergePart, Batch)],
        merged: &mut Vec<(Rewritten, Arc<Batch>)>,
    ) {
        let parts: Vec<_> = group.iter().map(|(part, batch)| (batch, &part.shares[..])).collect();
        if let Some(batch) = Batch::merge_all(&parts).map(Arc::new) {
            let parts = group.iter().map(|(part, _)| part.clone()).collect();
            let merge = Merge { stream, parts };
            merged.push((Rewritten::Merged(merge, batch.clone()), batch));
            return;
        }
        if group.len() < 4 {
            return self.shared.lock().note_unmergeable(group);
        }
        let (first, second) = group.split_at(group.len() / 2);
        self.merge_group(stream, first, merged);
        self.merge_group(stream, second, merged);
    }

    /// Reads a frame; `None` if its segment is gone.
    fn read_frame(&self, at: Location) -> Option<Result<Batch, ReadError>> {
        let file = self.shared.lock().segments.get(&at.segment).map(|s| s.file.clone())?;
        Some(segment::read_frame(&*file, at))
    }

    /// Appends frames that were rewritten, or gives up the rewriting.
    fn append_rewritten(&mut self, frames: &[(Rewritten, Arc<Batch>)]) {
        let Err(error) = self.append_moved(frames) else { return };
        self.shared.lock().stop_rewriting();
        if !is_disk_full(&error) {
            self.frames_failed(&[], &error);
        }
    }

    /// Returns a frame without the records that are no longer needed; `None` if it cannot be read,
    /// which is reported when it is taken.
    fn reduced(&self, moved: Move) -> Option<(Rewritten, Arc<Batch>)> {
        let from = moved.from;
        let Ok(batch) = self.read_frame(from)? else {
            self.shared.lock().note_damage(from);
            return None;
        };
        let left = batch.only_for(&moved.shares).unwrap_or(batch);
        let records = left.record_count() as u64;
        Some((Rewritten::Reduced(moved, records), Arc::new(left)))
    }

    /// Appends frames that were rewritten.
    fn append_moved(&mut self, frames: &[(Rewritten, Arc<Batch>)]) -> io::Result<()> {
        let bytes = frames.iter().map(|(_, batch)| batch.frame_bytes() as u64).sum();
        self.check_space(bytes)?;
        for group in frames.chunks(FRAMES_PER_WRITE) {
            self.open_segment_if_needed()?;
            let Some(current) = &mut self.current else { return Ok(()) };
            let batches: Vec<_> =
                group.iter().map(|(of, batch)| (of.seq(), batch.clone())).collect();
            let locations = current.append(&batches)?;
            let mut state = self.shared.lock();
            for ((of, batch), at) in group.iter().zip(locations) {
                let (seq, rewritten) = (of.seq(), Some(of.clone()));
                current.unsynced.push(UnsyncedFrame { seq, at, rewritten });
                state.rewriting.frames_compacted += of.frames_compacted();
                state.move_placed(batch, at);
            }
        }
        Ok(())
    }

    /// Space that is left for positions: frames are only freed once positions are on disk, so a
    /// disk without any space for them would stay full.
    fn positions_reserve(&self) -> u64 {
        self.cursor_log.reserve_bytes()
    }

    /// Returns whether the cursor log should be rewritten because it takes space that is scarce.
    fn positions_take_space(&self) -> bool {
        if !self.cursor_log.is_mostly_history() {
            return false;
        }
        let (dir, free_min) = {
            let config = &self.shared.lock().config;
            (config.dir.clone(), config.free_bytes_min)
        };
        let scarce = free_min.saturating_add(2 * self.positions_reserve() + TIGHT_BYTES);
        self.disk.space(&dir).is_ok_and(|space| space.free_bytes < scarce)
    }

    /// Refuses to write beyond the journal's own limit or the minimum free space, or when the
    /// directory is gone.
    fn check_space(&self, bytes: u64) -> io::Result<()> {
        self.lock.check()?;
        let (limit, free_min, used, dir) = {
            let state = self.shared.lock();
            let config = &state.config;
            (config.bytes_max, config.free_bytes_min, state.limited_bytes(), config.dir.clone())
        };
        if used + bytes > limit {
            let state = self.shared.lock();
            let most = state.largest_keeper();
            let text = format!(
                "the journal's disk limit of {} is reached, most of it used for {most}",
                approx_size(limit)
            );
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let free_min = free_min.saturating_add(self.positions_reserve());
        let hint = " (journal.keep_free, and space for positions)";
        check_free_space(&*self.disk, &dir, bytes, free_min, hint)
    }

    fn open_segment_if_needed(&mut self) -> io::Result<()> {
        let (limit, dir, names_version, names) = {
            let state = self.shared.lock();
            let named = state.cursors.iter().enumerate().filter(|(_, c)| !c.dropped);
            let names = named.map(|(index, c)| (index, c.id, c.name.as_str(), c.is_active()));
            let version = state.names_version;
            let is_same = self.current.as_ref().is_some_and(|c| c.names_version == version);
            let names = if is_same { Vec::new() } else { segment::encode_names(names) };
            (state.config.segment_bytes, state.config.dir.clone(), version, names)
        };
        let is_full = |c: &OpenSegment| c.len >= limit || c.frames >= SEGMENT_FRAMES_MAX;
        let is_done = |c: &OpenSegment| c.failed || is_full(c) || c.names_version != names_version;
        if self.current.as_ref().is_some_and(is_done) {
            self.close_segment()?;
            // The names were left out above if only the length made a new segment necessary.
            return self.open_segment_if_needed();
        }
        if self.current.is_some() {
            return Ok(());
        }
        let id = self.next_segment;
        self.next_segment += 1;
        let (file, len) = segment::create(&*self.disk, &dir, id, &names)?;
        let file: Arc<dyn DiskFile> = Arc::from(file);
        self.shared.change(|state| {
            state.add_segment(id, file.clone(), len);
            state.removed_for_good();
        });
        let (unsynced, salt) = (Vec::new(), segment::salt_of(&names));
        let (path, failed) = (segment::file_name(&dir, id), false);
        let frames = 0;
        self.current = Some(OpenSegment {
            id,
            path,
            file,
            len,
            frames,
            unsynced,
            names_version,
            salt,
            failed,
        });
        Ok(())
    }

    fn sync_current(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.unsynced.is_empty() {
            return Ok(());
        }
        let synced = current.file.sync_data();
        if let Err(error) = synced.and_then(|()| segment::in_place(&*current.file, &current.path)) {
            current.failed = true;
            return Err(error);
        }
        let now = self.shared.clock.monotonic();
        let mut state = self.shared.lock();
        state.flushes += 1;
        for frame in current.unsynced.drain(..) {
            match frame.rewritten {
                None => state.frame_synced(frame.seq, frame.at, now),
                Some(Rewritten::Reduced(moved, records)) => {
                    state.moved(&moved, frame.at, records, now);
                }
                Some(Rewritten::Merged(merge, batch)) => {
                    state.merged(&merge, &batch, frame.at, now);
                }
            }
        }
        Ok(())
    }

    /// Flushes the current segment and ends it with its index, unless it failed: then it is left as
    /// it is, and unflushed frames are read back into memory as far as possible.
    fn close_segment(&mut self) -> io::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let result = if current.failed { Ok(()) } else { self.sync_current() };
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let is_indexed = !current.failed && self.write_index(&mut current);
        if current.failed {
            self.take_back(&current);
        }
        let mut holes = Vec::new();
        let mut state = self.shared.lock();
        if let Some(segment) = state.segments.get_mut(&current.id) {
            segment.sealed = true;
            segment.index = SegmentIndex::default();
            segment.is_indexed = is_indexed;
            segment.len = current.len;
            // A segment without live frames is removed by the next reclaim.
            if segment.live_frames == 0 {
                state.dead.push(Location { segment: current.id, offset: 0, len: 0 });
            } else if is_indexed {
                let ready = segment.dead.ready().into_iter();
                holes.extend(ready.map(|(start, len)| Hole::new(current.id, segment, start, len)));
            }
        }
        drop(state);
        self.punch(holes);
        result
    }

    /// Ends the segment with its index, on stable storage. All frames must be safe, because an
    /// index asserts that nothing before it can be torn. Returns false if that failed; then nothing
    /// in the segment is punched, and the next start scans it and writes the index.
    fn write_index(&self, current: &mut OpenSegment) -> bool {
        let index = {
            let mut state = self.shared.lock();
            let segment = state.segments.get_mut(&current.id);
            segment.map(|s| std::mem::take(&mut s.index)).unwrap_or_default()
        };
        let encoded = index.encode(current.salt);
        let dir = self.shared.lock().config.dir.clone();
        let (bytes, free_min) = (encoded.len() as u64, self.positions_reserve());
        let space = check_free_space(&*self.disk, &dir, bytes, free_min, " for positions");
        let written = space
            .and_then(|()| current.file.write_all_at(&mut [IoSlice::new(&encoded)], current.len));
        if written.is_err() {
            // A part of an index would be taken for damage. If it cannot be cut off, it is set
            // aside.
            let _harmless = current.file.set_len(current.len);
        }
        let written = written.and_then(|()| current.file.sync_data());
        match &written {
            Ok(()) => current.len += encoded.len() as u64,
            Err(error) => {
                tracing::warn!(segment = current.id, %error, "the index of a journal segment could not be written");
            }
        }
        self.shared.lock().flushes += u64::from(written.is_ok());
        written.is_ok()
    }

    /// Handles frames whose flush failed, which leaves them permanently uncertain: they go to the
    /// next segment. Their bytes are in memory, or still in the cache of the operating system.
    fn take_back(&self, current: &OpenSegment) {
        if current.unsynced.iter().any(|frame| frame.rewritten.is_some()) {
            self.shared.lock().rewriting.moved_frames.note_failed(current.id);
        }
        for UnsyncedFrame { seq, at: location, rewritten } in &current.unsynced {
            if rewritten.is_some() {
                self.shared.lock().dead.push(*location);
                continue;
            }
            let is_away = {
                let state = self.shared.lock();
                let slot = state.slots.get(seq).filter(|s| s.location == Some(*location));
                let Some(slot) = slot else { continue };
                slot.batch.is_none()
            };
            let read = || segment::read_frame(&*current.file, *location);
            // Try twice: a device may fail a single read and then succeed.
            let read = is_away.then(|| read().or_else(|_| read()));
            let mut state = self.shared.lock();
            let now = self.shared.clock.monotonic();
            match read {
                Some(Err(error)) => {
                    tracing::warn!(%error, "a frame of a failed segment cannot be read back");
                    state.frame_stranded(*seq, &error, now);
                }
                Some(Ok(batch)) => state.frame_taken_back(*seq, Some(batch)),
                None => state.frame_taken_back(*seq, None),
            }
        }
    }

    /// Handles a group of which nothing is safe. It is retried with the next segment, or with this
    /// one if only space was missing.
    fn frames_failed(&mut self, batches: &[(u64, Arc<Batch>)], error: &io::Error) {
        if let Some(current) = &mut self.current {
            current.failed |= !is_disk_full(error);
            if current.failed {
                let _reported_already = self.close_segment();
            }
        }
        let mut state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        state.failed_bytes = batches.iter().map(|(_, b)| b.frame_bytes() as u64).sum();
        state.note_frames_error(error, now);
        for (seq, _) in batches {
            state.frame_taken_back(*seq, None);
        }
        state.sync_wanted = self.current.as_ref().is_some_and(|c| !c.unsynced.is_empty());
        state.refuse_waiting();
    }

    fn write_positions(&mut self, records: &Records, dead: Vec<Location>) {
        self.unwritten.extend(dead);
        if let Err(error) = self.store_positions(records)
            && !self.positions_failed(&error)
        {
            return;
        }
        let dead = std::mem::take(&mut self.unwritten);
        self.reclaim(dead);
        let mut state = self.shared.lock();
        state.flushes += u64::from(!records.is_empty());
        state.positions_written(self.shared.clock.monotonic());
        self.shared.flushed.notify_all();
    }

    /// Adds records to the cursor log, or rewrites it with them if it is too long.
    fn store_positions(&mut self, records: &Records) -> io::Result<()> {
        self.lock.check()?;
        if self.cursor_log.has_failed() {
            return self.rewrite_positions();
        }
        if (self.cursor_log.is_long() || self.positions_take_space()) && self.shorten_positions() {
            return Ok(());
        }
        if records.is_empty() { Ok(()) } else { self.cursor_log.write(records) }
    }

    /// Rewrites a cursor log that is long. If that fails, for lack of space, it is still good for a
    /// while. Returns whether the log is complete, with everything that has changed.
    fn shorten_positions(&mut self) -> bool {
        let now = self.shared.clock.monotonic();
        if now < self.shorten_after {
            return false;
        }
        let rewritten = self.rewrite_positions();
        if let Err(error) = &rewritten {
            self.shorten_after = now + DISK_RETRY_INTERVAL;
            tracing::warn!(%error, "the cursor log could not be rewritten");
        }
        rewritten.is_ok()
    }

    /// Rewrites all positions; that also flushes the directory.
    fn rewrite_positions(&mut self) -> io::Result<()> {
        let snapshot = cursor_log::snapshot(&self.shared.lock());
        self.cursor_log.rewrite(&*self.disk, &snapshot)?;
        self.shared.lock().removed_for_good();
        Ok(())
    }

    /// Rewrites all positions after the log could not be written. Returns false if that fails, too.
    fn positions_failed(&mut self, error: &io::Error) -> bool {
        tracing::error!(%error, "positions could not be written; a crash would cause more records to be sent again");
        self.cursor_log.lacks_records();
        let rewritten = self
            .lock
            .check()
            .and_then(|()| self.rewrite_positions())
            .and_then(|()| self.lock.check());
        let Err(error) = rewritten else { return true };
        let mut state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        state.positions_error = Some(error.to_string());
        state.fail_position_tickets(&RefusedReason::Disk { error: error.to_string() });
        state.positions_since = Some(now + DISK_RETRY_INTERVAL).filter(|_| !state.stopping);
        self.shared.flushed.notify_all();
        false
    }

    /// Deletes segments that are no longer needed and punches holes where frames are dead.
    fn reclaim(&self, mut dead: Vec<Location>) {
        if dead.is_empty() {
            return;
        }
        dead.sort_unstable();
        let (holes, deleted) = self.shared.lock().collect_obsolete(&dead);
        for (path, is_strange) in &deleted {
            let gone = if *is_strange {
                self.disk.rename(path, &path.with_extension("bad"))
            } else {
                self.disk.remove(path)
            };
            if let Err(error) = gone {
                tracing::warn!(path = %path.display(), %error, "segment could not be deleted");
            }
        }
        self.punch(holes);
        self.shared.change(|state| {
            // Missing space may be available now.
            state.note_reclaimed();
            state.disk_retry_at = Duration::ZERO;
            state.wake_sources_if_room();
        });
    }

    fn punch(&self, holes: Vec<Hole>) {
        for hole in holes {
            // Space that cannot be punched is freed with the whole segment.
            if hole.file.punch(hole.start, hole.len).is_ok()
                && let Some(segment) = self.shared.lock().segments.get_mut(&hole.segment)
            {
                segment.dead.punched(hole.start);
            }
        }
    }
}
