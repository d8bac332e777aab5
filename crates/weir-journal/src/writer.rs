//! The journal's one thread that touches the disk: appends groups of frames, spills a full ring,
//! flushes positions, reclaims space.
//!
//! Invariants: the lock is never held during I/O; a frame's bytes are synced before its ticket
//! resolves; space is reclaimed only after the positions that make it unneeded are durable; a
//! failed sync is never repeated on the same file: the segment is closed and the frames that are
//! still in memory go to the next one.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Disk, DiskFile, WakeFd};
use weir_model::Batch;

use crate::Shared;
use crate::cursor_log::{self, CursorLog, Records};
use crate::index::SegmentIndex;
use crate::limits::{APPEND_GROUP_INTERVAL, DISK_RETRY_INTERVAL, FRAMES_PER_WRITE, GROUP_BYTES};
use crate::recovery::{Lock, Opened};
use crate::segment::{self, ReadError, SALT_LEN};
use crate::spec::{RefusedReason, Step};
use crate::state::{CommitTail, Location, SegmentState, State};

/// What the lock holder asks the disk to do next.
#[derive(Debug)]
enum Work {
    /// Frames to write; they, and those before them, must be flushed when `sync` is set.
    Frames {
        batches: Vec<(u64, Arc<Batch>)>,
        sync: bool,
    },
    /// Find out whether frames can be written again.
    Probe,
    /// Records for the cursor log, and frames whose space may go once those are durable.
    Positions {
        records: Records,
        dead: Vec<Location>,
    },
    Stop,
}

#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    cursor_log: CursorLog,
    current: Option<Current>,
    next_segment: u64,
    /// Space that waits for positions that could not be written yet.
    unwritten: Vec<Location>,
    lock: Lock,
}

/// The segment that is being appended to.
#[derive(Debug)]
struct Current {
    id: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    len: u64,
    /// Slots whose frames were written and not flushed.
    unsynced: Vec<(u64, Location)>,
    names_version: u64,
    salt: [u8; SALT_LEN],
    /// A flush failed: neither written nor flushed again.
    failed: bool,
}

impl Current {
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
            // What stands behind the length is no frame of ours. Should it not be cut off
            // either, nothing more is written here.
            self.failed |= self.file.set_len(self.len).is_err();
            return Err(error);
        }
        self.len = at;
        let placed = group.iter().zip(&locations).map(|((seq, _), location)| (*seq, *location));
        self.unsynced.extend(placed);
        Ok(locations)
    }
}

impl Drop for Writer {
    /// However the thread ends, nobody waits for it in vain.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopped = true;
        for slot in state.slots.values_mut() {
            for ticket in slot.tickets.drain(..) {
                let _nobody_waits = ticket.send(Err(RefusedReason::Closed));
            }
        }
        self.shared.flushed.notify_all();
    }
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, disk: Arc<dyn Disk>, opened: Opened) -> Self {
        Self {
            shared,
            disk,
            cursor_log: opened.cursor_log,
            current: None,
            next_segment: opened.next_segment,
            unwritten: Vec::new(),
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

    /// Does the next thing that is due now.
    pub(crate) fn step(&mut self) -> Step {
        let now = self.shared.clock.monotonic();
        let next = self.shared.change(|state| next_work(state, now));
        match next.map(|work| self.perform(work)) {
            Ok(true) => Step::Worked,
            Ok(false) => Step::Ended,
            Err(wait) => Step::Idle { wait },
        }
    }

    /// False when that was the last thing to do.
    fn perform(&mut self, work: Work) -> bool {
        match work {
            Work::Frames { batches, sync } => self.write_frames(&batches, sync),
            Work::Probe => self.probe(),
            Work::Positions { records, dead } => self.write_positions(&records, dead),
            Work::Stop => {
                if let Err(error) = self.close_segment() {
                    tracing::warn!(%error, "the last journal segment could not be closed");
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
            let next = next_work(&mut state, now);
            if let Some(wakes) = state.take_wakes() {
                drop(state);
                wakes.iter().for_each(WakeFd::wake);
                state = self.shared.lock();
                // What is new since then has woken nobody: it is looked for again.
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
            Ok(()) => frames_written(&mut self.shared.lock(), batches, sync),
            Err(error) => self.frames_failed(batches, &error),
        }
        self.shared.change(|state| {
            // Frames that were settled while they were being written are free now.
            for (seq, _) in batches {
                if state.slots.get(seq).is_some_and(|s| s.holders == 0) {
                    state.remove_slot(*seq);
                } else {
                    state.forget_if_unread(*seq);
                }
            }
            state.wake_sources_if_room();
        });
    }

    /// Tries what failed before with a fresh segment, which is written and flushed.
    fn probe(&mut self) {
        let bytes = self.shared.lock().failed_bytes;
        let tried = self.check_space(bytes).and_then(|()| self.open_segment_if_needed());
        if tried.as_ref().is_err_and(is_space) {
            // Only a closed segment gives space back.
            let _reported_already = self.close_segment();
        }
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| match tried {
            Ok(()) => {
                tracing::info!("the journal can write again");
                state.frames_error = None;
                state.wake_sources();
            }
            Err(error) => {
                note_frames_error(state, &error, now);
                refuse_waiting(state);
            }
        });
    }

    /// Appends frames to the current segment, beginning a new one when it is full.
    fn append_frames(&mut self, batches: &[(u64, Arc<Batch>)]) -> io::Result<()> {
        self.check_space(batches.iter().map(|(_, b)| b.frame_bytes() as u64).sum())?;
        for group in batches.chunks(FRAMES_PER_WRITE) {
            self.open_segment_if_needed()?;
            if let Some(current) = &mut self.current {
                let locations = current.append(group)?;
                frames_placed(&mut self.shared.lock(), group, &locations);
            }
        }
        Ok(())
    }

    /// Refuses to write beyond the journal's own limit or into the last of the free space, or when
    /// the directory is gone.
    fn check_space(&self, bytes: u64) -> io::Result<()> {
        self.lock.check()?;
        let (limit, free_min, used, dir) = {
            let state = self.shared.lock();
            let config = &state.config;
            (config.limit_bytes, config.free_bytes_min, state.disk_bytes(), config.dir.clone())
        };
        if used + bytes > limit {
            let text = format!("the journal's limit of {limit} bytes of disk is used up");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let space = self.disk.space(&dir)?;
        if space.free_bytes < free_min.saturating_add(bytes) {
            let text = format!("only {} bytes of the disk are free", space.free_bytes);
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        Ok(())
    }

    fn open_segment_if_needed(&mut self) -> io::Result<()> {
        let (limit, dir, names_version, names) = {
            let state = self.shared.lock();
            let names = state.cursors.iter().enumerate();
            let names = names.map(|(index, c)| (index, c.name.as_str(), c.is_active()));
            let version = state.names_version;
            let is_same = self.current.as_ref().is_some_and(|c| c.names_version == version);
            let names = if is_same { Vec::new() } else { segment::encode_names(names) };
            (state.config.segment_bytes, state.config.dir.clone(), version, names)
        };
        let is_done = |c: &Current| c.failed || c.len >= limit || c.names_version != names_version;
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
        self.shared.lock().segments.insert(id, SegmentState::new(file.clone(), len));
        let (unsynced, salt) = (Vec::new(), segment::salt_of(&names));
        let (path, failed) = (segment::file_name(&dir, id), false);
        self.current = Some(Current { id, path, file, len, unsynced, names_version, salt, failed });
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
        for (seq, location) in current.unsynced.drain(..) {
            frame_synced(&mut state, seq, location, now);
        }
        Ok(())
    }

    /// Flushes the current segment and ends it with its index, unless it failed: then it is left
    /// as it is, and what was not flushed is taken back into memory as far as it can be read.
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
            // A segment without live frames goes with the next reclaim.
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

    /// Ends the segment with its index, on stable storage: only behind frames that are safe, for it
    /// says that nothing before it can be torn. False when that failed; then nothing in the segment
    /// is punched, and the next start scans it and writes the index.
    fn write_index(&self, current: &mut Current) -> bool {
        let index = {
            let mut state = self.shared.lock();
            let segment = state.segments.get_mut(&current.id);
            segment.map(|s| std::mem::take(&mut s.index)).unwrap_or_default()
        };
        let encoded = index.encode(current.salt);
        let written = current.file.write_all_at(&mut [IoSlice::new(&encoded)], current.len);
        if written.is_err() {
            // A part of an index would pass for damage. Should it not go, it is set aside.
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

    /// After a failed flush what was written is in doubt for ever: those frames go to the next
    /// segment. Their bytes are in memory, or still in the cache of the operating system.
    fn take_back(&self, current: &Current) {
        for (seq, location) in &current.unsynced {
            let is_away = {
                let state = self.shared.lock();
                let slot = state.slots.get(seq).filter(|s| s.location == Some(*location));
                let Some(slot) = slot else { continue };
                slot.batch.is_none()
            };
            let read = || segment::read_frame(&*current.file, *location);
            // Once more: a device may fail a single read and then answer.
            let read = is_away.then(|| read().or_else(|_| read()));
            let mut state = self.shared.lock();
            let now = self.shared.clock.monotonic();
            match read {
                Some(Err(error)) => {
                    tracing::warn!(%error, "a frame of a failed segment cannot be read back");
                    frame_stranded(&mut state, *seq, &error);
                }
                Some(Ok(batch)) => frame_taken_back(&mut state, *seq, Some(batch), now),
                None => frame_taken_back(&mut state, *seq, None, now),
            }
        }
    }

    /// Nothing of the group is safe. It is tried again with the next segment, or with this one
    /// if only space was missing.
    fn frames_failed(&mut self, batches: &[(u64, Arc<Batch>)], error: &io::Error) {
        if let Some(current) = &mut self.current {
            current.failed |= !is_space(error);
            if current.failed {
                let _reported_already = self.close_segment();
            }
        }
        let mut state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        state.failed_bytes = batches.iter().map(|(_, b)| b.frame_bytes() as u64).sum();
        note_frames_error(&mut state, error, now);
        for (seq, _) in batches {
            frame_taken_back(&mut state, *seq, None, now);
        }
        state.sync_wanted = self.current.as_ref().is_some_and(|c| !c.unsynced.is_empty());
        refuse_waiting(&mut state);
    }

    fn write_positions(&mut self, records: &Records, dead: Vec<Location>) {
        self.unwritten.extend(dead);
        let written = if let Err(error) = self.lock.check() {
            Err(error)
        } else if self.cursor_log.needs_rewrite() {
            let snapshot = cursor_log::snapshot(&self.shared.lock());
            self.cursor_log.rewrite(&*self.disk, &snapshot)
        } else if records.is_empty() {
            Ok(())
        } else {
            self.cursor_log.write(records)
        };
        if let Err(error) = written
            && !self.positions_failed(&error)
        {
            return;
        }
        let dead = std::mem::take(&mut self.unwritten);
        self.reclaim(dead);
        let mut state = self.shared.lock();
        state.flushes += u64::from(!records.is_empty());
        state.positions_error = None;
        state.commits_done = state.commits_begun;
        self.shared.flushed.notify_all();
    }

    /// The log could not be written: everything is written anew. False when that fails, too.
    fn positions_failed(&mut self, error: &io::Error) -> bool {
        tracing::error!(%error, "positions could not be written; after a crash now, more would be sent again");
        let snapshot = cursor_log::snapshot(&self.shared.lock());
        let rewritten = self
            .lock
            .check()
            .and_then(|()| self.cursor_log.rewrite(&*self.disk, &snapshot))
            .and_then(|()| self.lock.check());
        let Err(error) = rewritten else { return true };
        let mut state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        state.positions_error = Some(error.to_string());
        state.positions_since = Some(now + DISK_RETRY_INTERVAL).filter(|_| !state.stopping);
        self.shared.flushed.notify_all();
        false
    }

    /// Deletes segments that nobody needs and punches holes where frames are dead.
    fn reclaim(&self, mut dead: Vec<Location>) {
        if dead.is_empty() {
            return;
        }
        dead.sort_unstable();
        let (holes, deleted) = bury(&mut self.shared.lock(), &dead);
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
            // Room that was missing may be there now.
            state.disk_retry_at = Duration::ZERO;
            state.wake_sources_if_room();
        });
    }

    fn punch(&self, holes: Vec<Hole>) {
        for hole in holes {
            // Space that cannot be punched comes back when the whole segment goes.
            if hole.file.punch(hole.start, hole.len).is_ok()
                && let Some(segment) = self.shared.lock().segments.get_mut(&hole.segment)
            {
                segment.dead.punched(hole.start);
            }
        }
    }
}

impl Hole {
    fn new(id: u64, segment: &SegmentState, start: u64, len: u64) -> Self {
        Self { segment: id, file: segment.file.clone(), start, len }
    }
}

fn is_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A range to give back to the file system.
struct Hole {
    segment: u64,
    file: Arc<dyn DiskFile>,
    start: u64,
    len: u64,
}

/// Counts frames as dead: what can be punched, and which segments can go as a whole (with true:
/// set aside).
fn bury(state: &mut State, dead: &[Location]) -> (Vec<Hole>, Vec<(PathBuf, bool)>) {
    let (mut holes, mut deleted) = (Vec::new(), Vec::new());
    for group in dead.chunk_by(|a, b| a.segment == b.segment) {
        let id = group[0].segment;
        let Some(segment) = state.segments.get_mut(&id) else { continue };
        let mut ready = BTreeMap::new();
        for frame in group.iter().filter(|l| l.len > 0) {
            segment.live_frames = segment.live_frames.saturating_sub(1);
            if let Some((start, len)) = segment.dead.add(frame.offset, u64::from(frame.len)) {
                // Growing upwards in the order of offsets, a later range replaces what it holds.
                ready.insert(start, len);
            }
        }
        if segment.sealed && segment.live_frames == 0 {
            deleted.push((segment::file_name(&state.config.dir, id), segment.is_strange));
            state.segments.remove(&id);
            continue;
        }
        if segment.is_indexed {
            let ready = ready.into_iter();
            holes.extend(ready.map(|(start, len)| Hole::new(id, segment, start, len)));
        }
    }
    if !deleted.is_empty() {
        state.forget_ended();
    }
    (holes, deleted)
}

/// The earliest of several moments to wait for.
#[derive(Default)]
struct Timer(Option<Duration>);

impl Timer {
    /// True when that moment has come; else it is waited for.
    fn is_due(&mut self, at: Duration, now: Duration) -> bool {
        let left = at.saturating_sub(now);
        if !left.is_zero() {
            self.0 = Some(self.0.map_or(left, |earlier| earlier.min(left)));
        }
        left.is_zero()
    }
}

/// The next thing to do, or how long to wait for one (for ever = `Err(None)`).
fn next_work(state: &mut State, now: Duration) -> Result<Work, Option<Duration>> {
    let mut timer = Timer::default();
    let gave_up = state.stopping && state.positions_error.is_some();
    if !state.dead.is_empty() && !gave_up {
        state.positions_since.get_or_insert(now);
    }
    if let Some(work) = frames_work(state, now, &mut timer) {
        return Ok(work);
    }
    if state.statements_due.is_some_and(|at| state.stopping || timer.is_due(at, now)) {
        state.positions_since.get_or_insert(now);
    }
    if state.flush_now && state.statements_due.is_some() {
        state.positions_since.get_or_insert(now);
    }
    if let Some(since) = state.positions_since {
        let at_once = state.stopping || state.flush_now;
        if at_once || timer.is_due(since + state.config.commit_interval, now) {
            state.positions_since = None;
            state.statements_due = None;
            state.flush_now = false;
            state.commits_begun += 1;
            let records = Records::collect(state);
            return Ok(Work::Positions { records, dead: std::mem::take(&mut state.dead) });
        }
    }
    if state.stopping {
        return Ok(Work::Stop);
    }
    Err(timer.0)
}

fn frames_work(state: &mut State, now: Duration, timer: &mut Timer) -> Option<Work> {
    if state.frames_error.is_some() {
        // When shutting down, what failed is tried once more and then never: ending must not hang.
        let retry = if state.stopping {
            !std::mem::replace(&mut state.tried_at_last, true)
        } else {
            timer.is_due(state.disk_retry_at, now)
        };
        return retry.then_some(Work::Probe);
    }
    if let Some(since) = state.durable_since {
        let at_once = state.stopping || state.durable_waiting_bytes >= GROUP_BYTES;
        if at_once || timer.is_due(since + APPEND_GROUP_INTERVAL, now) {
            state.sync_wanted = false;
            return Some(Work::Frames { batches: take_durable(state), sync: true });
        }
    }
    if std::mem::take(&mut state.sync_wanted) {
        return Some(Work::Frames { batches: Vec::new(), sync: true });
    }
    if state.ring_wanted > 0 && !state.spill_wanted && state.ring_bytes > state.ring_target() {
        let due = state.spill_due_at().is_some_and(|at| timer.is_due(at, now));
        state.spill_wanted = due || state.spill_is_due(now);
    }
    if state.ahead_wanted && state.spill_due_at().is_none_or(|at| timer.is_due(at, now)) {
        state.wake_sources();
    }
    if state.spill_wanted {
        let batches = take_spill(state);
        if !batches.is_empty() {
            return Some(Work::Frames { batches, sync: false });
        }
        state.spill_wanted = false;
        state.wake_sources_if_room();
    }
    None
}

fn take_durable(state: &mut State) -> Vec<(u64, Arc<Batch>)> {
    state.durable_since = None;
    state.durable_waiting_bytes = 0;
    let mut batches = Vec::new();
    for seq in std::mem::take(&mut state.durable_waiting) {
        let Some(slot) = state.slots.get_mut(&seq) else { continue };
        slot.queued = false;
        let to_write = slot.batch.clone().filter(|_| slot.location.is_none() && !slot.writing);
        if let Some(batch) = to_write {
            slot.writing = true;
            batches.push((seq, batch));
        }
    }
    batches
}

/// The oldest batches of a full ring, until it would be three quarters full. Those that are on
/// disk already are only forgotten here; those that must be flushed are on their way anyhow.
fn take_spill(state: &mut State) -> Vec<(u64, Arc<Batch>)> {
    let target = state.ring_target();
    // Finds where memory begins.
    let _oldest = state.spill_due_at();
    let mut left = state.ring_bytes;
    let mut batches = Vec::new();
    let mut forgotten = Vec::new();
    let mut bytes = 0;
    for (seq, slot) in state.slots.range_mut(state.spill_from..) {
        if left <= target || bytes >= 8 * GROUP_BYTES {
            break;
        }
        let Some(batch) = slot.batch.as_ref().filter(|_| !slot.writing) else { continue };
        if slot.location.is_some() {
            forgotten.push((slot.stream, slot.memory_bytes));
            slot.batch = None;
        } else if !slot.durable {
            batches.push((*seq, batch.clone()));
            slot.writing = true;
            bytes += slot.memory_bytes;
        } else {
            continue;
        }
        left -= slot.memory_bytes;
    }
    for (stream, bytes) in forgotten {
        state.forget_memory(stream, bytes);
    }
    batches
}

/// The frames stand on disk, but not yet for certain.
fn frames_placed(state: &mut State, batches: &[(u64, Arc<Batch>)], locations: &[Location]) {
    for ((seq, batch), location) in batches.iter().zip(locations) {
        state.frames_written += 1;
        let slot = state.slots.get(seq);
        let tail = slot.map_or_else(|| CommitTail::of(batch), |slot| slot.tail.clone());
        if let Some(segment) = state.segments.get_mut(&location.segment) {
            segment.live_frames += 1;
            segment.index.add(*location, batch, tail);
            segment.len = segment.len.max(location.offset + u64::from(location.len));
        }
        match state.slots.get_mut(seq) {
            Some(slot) => slot.location = Some(*location),
            None => state.dead.push(*location),
        }
        let is_needed = state.slots.get(seq).is_some_and(|slot| slot.holders > 0);
        state.note_frame(batch.header().stream, *location, is_needed);
    }
}

fn frames_written(state: &mut State, batches: &[(u64, Arc<Batch>)], sync: bool) {
    for (seq, _) in batches {
        let Some(slot) = state.slots.get_mut(seq) else { continue };
        slot.writing = false;
        if sync {
            continue;
        }
        // Somebody asked for durability while the frame was being written.
        state.sync_wanted |= slot.durable && !slot.synced;
        if slot.batch.take().is_some() {
            let (stream, bytes) = (slot.stream, slot.memory_bytes);
            state.forget_memory(stream, bytes);
        }
    }
}

/// The frame is safe, unless it was taken back and stands elsewhere now. Who waits for it is told,
/// unless something before it cannot be made safe: then it has to reach its destinations first.
fn frame_synced(state: &mut State, seq: u64, location: Location, now: Duration) {
    let Some(slot) = state.slots.get_mut(&seq).filter(|s| s.location == Some(location)) else {
        return;
    };
    slot.synced = true;
    let (stream, tickets) = (slot.stream, std::mem::take(&mut slot.tickets));
    if slot.durable {
        let tail = slot.tail.clone();
        state.reach_on_disk(stream, &tail, seq, now);
    }
    let earlier = state.stranded_up_to(stream, seq);
    if let Some(earlier) = earlier.and_then(|seq| state.slots.get_mut(&seq)) {
        earlier.tickets.extend(tickets);
    } else {
        for ticket in tickets {
            let _nobody_waits = ticket.send(Ok(()));
        }
    }
    // It had only to be flushed any more; what is being written is freed by whoever writes it.
    if state.slots.get(&seq).is_some_and(|s| s.holders == 0 && !s.writing) {
        state.remove_slot(seq);
    }
}

/// A frame that may not be on disk after all cannot be read back either: perhaps it can later, when
/// a destination takes it, but it will never be safe.
fn frame_stranded(state: &mut State, seq: u64, error: &ReadError) {
    let Some(slot) = state.slots.get_mut(&seq) else { return };
    for ticket in slot.tickets.drain(..) {
        let _nobody_waits = ticket.send(Err(RefusedReason::Disk { error: error.to_string() }));
    }
    let stream = slot.stream;
    state.stranded.insert((stream, seq));
}

/// A frame that may not be on disk after all is in memory again (`batch` when it was not there
/// any more) and waits for the next attempt.
fn frame_taken_back(state: &mut State, seq: u64, batch: Option<Batch>, now: Duration) {
    let Some(slot) = state.slots.get_mut(&seq).filter(|s| !s.synced) else { return };
    slot.writing = false;
    let location = slot.location.take();
    if let Some(batch) = batch.filter(|_| slot.batch.is_none()) {
        slot.memory_bytes = batch.memory_bytes() as u64;
        slot.batch = Some(Arc::new(batch));
        state.ring_bytes += slot.memory_bytes;
        if let Some(stream) = state.streams.get_mut(&slot.stream) {
            stream.ring_bytes += slot.memory_bytes;
        }
    }
    let (durable, bytes) = (slot.durable, slot.memory_bytes);
    state.dead.extend(location);
    state.spill_from = state.spill_from.min(seq);
    if durable {
        state.want_durable(seq, bytes, now);
    } else {
        state.spill_wanted = true;
    }
}

/// Whoever waits for the disk is told that it fails; the frames are tried again all the same.
fn refuse_waiting(state: &mut State) {
    let error = state.frames_error.clone().unwrap_or_default();
    for seq in &state.durable_waiting {
        let Some(slot) = state.slots.get_mut(seq) else { continue };
        for ticket in slot.tickets.drain(..) {
            let _nobody_waits = ticket.send(Err(RefusedReason::Disk { error: error.clone() }));
        }
    }
}

fn note_frames_error(state: &mut State, error: &io::Error, now: Duration) {
    let text = error.to_string();
    if state.frames_error.as_deref() != Some(&text) {
        tracing::error!(%error, "the journal cannot write; sources wait, deliveries go on");
    }
    state.frames_error = Some(text);
    state.disk_retry_at = now + DISK_RETRY_INTERVAL;
}
