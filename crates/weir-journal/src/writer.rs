//! The journal's one thread that touches the disk: appends groups of frames, spills a full ring,
//! flushes positions, reclaims space.
//!
//! Invariants: the lock is never held during I/O; a frame's bytes are synced before its ticket
//! resolves; space is reclaimed only after the positions that make it unneeded are durable; a
//! failed sync is never repeated on the same file: the segment is closed and the frames that are
//! still in memory go to the next one.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Disk, DiskFile};
use weir_model::Batch;

use crate::Shared;
use crate::cursor_log::{self, CursorLog, Records};
use crate::limits::{APPEND_GROUP_INTERVAL, DISK_RETRY_INTERVAL, GROUP_BYTES, PUNCH_BYTES_MIN};
use crate::recovery::Opened;
use crate::segment::{self, IndexEntry, SEGMENT_HEADER_LEN};
use crate::spec::RefusedReason;
use crate::state::{Location, SegmentState, State};

/// What the lock holder asks the disk to do next.
#[derive(Debug)]
enum Work {
    /// Frames to write; they must be synced when `sync` is set.
    Frames {
        batches: Vec<(u64, Arc<Batch>)>,
        sync: bool,
    },
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
    /// Positions that could not be written yet, with the space that waits for them.
    unwritten: Vec<Location>,
    _lock: Box<dyn DiskFile>,
}

/// The segment that is being appended to.
#[derive(Debug)]
struct Current {
    id: u64,
    file: Arc<dyn DiskFile>,
    len: u64,
    index: Vec<IndexEntry>,
    synced_len: u64,
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
            _lock: opened.lock,
        }
    }

    /// Runs until the journal is shut down.
    pub(crate) fn run(mut self) {
        loop {
            match self.wait_for_work() {
                Work::Frames { batches, sync } => self.write_frames(batches, sync),
                Work::Positions { records, dead } => self.write_positions(&records, dead),
                Work::Stop => break,
            }
        }
        self.seal_current();
    }

    fn wait_for_work(&self) -> Work {
        let mut state = self.shared.lock();
        loop {
            let now = self.shared.clock.monotonic();
            match next_work(&mut state, now) {
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

    fn write_frames(&mut self, batches: Vec<(u64, Arc<Batch>)>, sync: bool) {
        let written = self.append_group(&batches).and_then(|locations| {
            if sync { self.sync_current().map(|()| locations) } else { Ok(locations) }
        });
        let mut state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        match written {
            Ok(locations) => {
                frames_written(&mut state, &batches, &locations, sync);
                state.flushes += u64::from(sync);
            }
            Err(error) => {
                drop(state);
                self.abandon_segment();
                state = self.shared.lock();
                frames_failed(&mut state, &batches, &error, now);
            }
        }
        // Frames that were settled while they were being written are free now.
        for (seq, _) in &batches {
            let free = state.slots.get(seq).is_some_and(|s| s.holders == 0 && s.ticket.is_none());
            if free {
                state.remove_slot(*seq);
            }
        }
        state.wake_sources_if_room();
    }

    /// Appends frames to the current segment, beginning a new one when it is full.
    fn append_group(&mut self, batches: &[(u64, Arc<Batch>)]) -> io::Result<Vec<Location>> {
        self.check_space(batches)?;
        let mut locations = Vec::with_capacity(batches.len());
        for group in batches.chunks(256) {
            self.open_segment_if_needed()?;
            let Some(current) = &mut self.current else { continue };
            let heads: Vec<[u8; 16]> = group.iter().map(|(_, b)| b.frame_parts().0).collect();
            let mut parts = Vec::with_capacity(group.len() * 2);
            let mut at = current.len;
            for ((_, batch), head) in group.iter().zip(&heads) {
                parts.push(IoSlice::new(head));
                parts.push(IoSlice::new(batch.frame_rest()));
                let len = batch.frame_bytes() as u32;
                let location = Location { segment: current.id, offset: at, len };
                locations.push(location);
                current.index.push(IndexEntry {
                    location,
                    stream: batch.header().stream.0,
                    keys: batch.keys().collect(),
                });
                at += u64::from(len);
            }
            let written = current.file.write_all_at(&mut parts, current.len);
            if let Err(error) = written {
                current.index.truncate(current.index.len() - group.len());
                let _reads_as_torn_otherwise = current.file.set_len(current.len);
                return Err(error);
            }
            current.len = at;
        }
        Ok(locations)
    }

    /// Refuses to write beyond the journal's own limit or into the last of the free space.
    fn check_space(&self, batches: &[(u64, Arc<Batch>)]) -> io::Result<()> {
        let bytes: u64 = batches.iter().map(|(_, b)| b.frame_bytes() as u64).sum();
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
        let (limit, dir) = {
            let state = self.shared.lock();
            (state.config.segment_bytes, state.config.dir.clone())
        };
        if self.current.as_ref().is_some_and(|c| c.len >= limit) {
            self.sync_current()?;
            self.seal_current();
        }
        if self.current.is_some() {
            return Ok(());
        }
        let id = self.next_segment;
        self.next_segment += 1;
        let file: Arc<dyn DiskFile> = Arc::from(segment::create(&*self.disk, &dir, id)?);
        let len = SEGMENT_HEADER_LEN;
        let segment = SegmentState { file: file.clone(), len, live_frames: 0, sealed: false };
        self.shared.lock().segments.insert(id, segment);
        self.current = Some(Current { id, file, len, index: Vec::new(), synced_len: len });
        Ok(())
    }

    fn sync_current(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.synced_len == current.len {
            return Ok(());
        }
        current.file.sync_data()?;
        current.synced_len = current.len;
        Ok(())
    }

    /// Closes the current segment with its index. The index is a convenience: losing it only
    /// costs a scan, so it is not synced and its failure is not an error.
    fn seal_current(&mut self) {
        let Some(mut current) = self.current.take() else { return };
        let footer = segment::encode_footer(&current.index);
        if current.file.write_all_at(&mut [IoSlice::new(&footer)], current.len).is_ok() {
            current.len += footer.len() as u64;
        }
        self.seal_in_state(current.id, current.len);
    }

    /// After a failed write or sync: never touches the file again.
    fn abandon_segment(&mut self) {
        if let Some(current) = self.current.take() {
            self.seal_in_state(current.id, current.len);
        }
    }

    fn seal_in_state(&self, id: u64, len: u64) {
        let mut state = self.shared.lock();
        if let Some(segment) = state.segments.get_mut(&id) {
            segment.sealed = true;
            segment.len = len;
        }
        // A segment without live frames goes with the next reclaim.
        if state.segments.get(&id).is_some_and(|s| s.live_frames == 0) {
            state.dead.push(Location { segment: id, offset: 0, len: 0 });
            let now = self.shared.clock.monotonic();
            state.positions_since.get_or_insert(now);
        }
    }

    fn write_positions(&mut self, records: &Records, dead: Vec<Location>) {
        self.unwritten.extend(dead);
        let written = if self.cursor_log.needs_rewrite() {
            let snapshot = cursor_log::snapshot(&self.shared.lock());
            self.cursor_log.rewrite(&*self.disk, &snapshot)
        } else if records.is_empty() {
            Ok(())
        } else {
            self.cursor_log.write(records)
        };
        if let Err(error) = written {
            self.positions_failed(&error);
            return;
        }
        let dead = std::mem::take(&mut self.unwritten);
        {
            let mut state = self.shared.lock();
            state.flushes += u64::from(!records.is_empty());
            self.shared.flushed.notify_all();
        }
        self.reclaim(dead);
    }

    /// The log could not be written: the next attempt writes everything anew.
    fn positions_failed(&mut self, error: &io::Error) {
        tracing::error!(%error, "positions could not be written; after a crash now, more would be sent again");
        let snapshot = cursor_log::snapshot(&self.shared.lock());
        let rewritten = self.cursor_log.rewrite(&*self.disk, &snapshot);
        let mut state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        match rewritten {
            Ok(()) => self.shared.flushed.notify_all(),
            Err(error) => {
                note_disk_error(&mut state, &error, now);
                state.names_dirty = true;
                for cursor in 0..state.cursors.len() {
                    let streams: Vec<_> = state.cursors[cursor].streams.keys().copied().collect();
                    for stream in streams {
                        state.mark_dirty(cursor, stream, now);
                    }
                }
                state.positions_since = Some(now + DISK_RETRY_INTERVAL);
            }
        }
    }

    /// Deletes segments that nobody needs and punches holes where frames are dead.
    fn reclaim(&self, mut dead: Vec<Location>) {
        if dead.is_empty() {
            return;
        }
        dead.sort_unstable();
        let mut state = self.shared.lock();
        let mut ranges: Vec<(Arc<dyn DiskFile>, u64, u64)> = Vec::new();
        let mut deleted = Vec::new();
        for group in dead.chunk_by(|a, b| a.segment == b.segment) {
            let id = group[0].segment;
            let Some(segment) = state.segments.get_mut(&id) else { continue };
            let frames = group.iter().filter(|l| l.len > 0).count() as u64;
            segment.live_frames = segment.live_frames.saturating_sub(frames);
            if segment.sealed && segment.live_frames == 0 {
                state.segments.remove(&id);
                deleted.push(segment::file_name(&state.config.dir, id));
                continue;
            }
            let file = segment.file.clone();
            for run in group.chunk_by(|a, b| a.offset + u64::from(a.len) == b.offset) {
                let len: u64 = run.iter().map(|l| u64::from(l.len)).sum();
                if len >= PUNCH_BYTES_MIN {
                    ranges.push((file.clone(), run[0].offset, len));
                }
            }
        }
        drop(state);
        for path in &deleted {
            if let Err(error) = self.disk.remove(path) {
                tracing::warn!(path = %path.display(), %error, "segment could not be deleted");
            }
        }
        for (file, offset, len) in ranges {
            // Space that cannot be punched comes back when the whole segment goes.
            let _later = file.punch(offset, len);
        }
    }
}

/// The next thing to do, or how long to wait for one (for ever = `Err(None)`).
fn next_work(state: &mut State, now: Duration) -> Result<Work, Option<Duration>> {
    let mut wait: Option<Duration> = None;
    let mut wait_until = |at: Duration| {
        let left = at.saturating_sub(now);
        wait = Some(wait.map_or(left, |w| w.min(left)));
    };
    let disk_ready = state.disk_error.is_none() || now >= state.disk_retry_at || state.stopping;
    if !disk_ready {
        wait_until(state.disk_retry_at);
    }
    if let Some(since) = state.durable_since.filter(|_| disk_ready) {
        let due = since + APPEND_GROUP_INTERVAL;
        if state.stopping || now >= due || state.durable_waiting_bytes >= GROUP_BYTES {
            return Ok(Work::Frames { batches: take_durable(state), sync: true });
        }
        wait_until(due);
    }
    if state.spill_wanted && disk_ready {
        let batches = take_spill(state);
        if !batches.is_empty() {
            return Ok(Work::Frames { batches, sync: false });
        }
        state.spill_wanted = false;
    }
    if let Some(since) = state.positions_since {
        let due = since + state.config.commit_interval;
        if state.stopping || now >= due {
            state.positions_since = None;
            let records = Records::collect(state);
            return Ok(Work::Positions { records, dead: std::mem::take(&mut state.dead) });
        }
        wait_until(due);
    }
    if state.stopping {
        return Ok(Work::Stop);
    }
    Err(wait)
}

fn take_durable(state: &mut State) -> Vec<(u64, Arc<Batch>)> {
    state.durable_since = None;
    state.durable_waiting_bytes = 0;
    let mut batches = Vec::new();
    for seq in std::mem::take(&mut state.durable_waiting) {
        if let Some(slot) = state.slots.get_mut(&seq)
            && let Some(batch) =
                slot.batch.clone().filter(|_| slot.location.is_none() && !slot.writing)
        {
            slot.writing = true;
            batches.push((seq, batch));
        }
    }
    batches
}

/// The oldest batches of a full ring, until it would be three quarters full.
fn take_spill(state: &mut State) -> Vec<(u64, Arc<Batch>)> {
    let target = state.config.ring_bytes / 4 * 3;
    let mut left = state.ring_bytes;
    let mut batches = Vec::new();
    let mut bytes = 0;
    for (seq, slot) in &mut state.slots {
        if left <= target || bytes >= 8 * GROUP_BYTES {
            break;
        }
        if slot.writing || slot.location.is_some() {
            continue;
        }
        if let Some(batch) = &slot.batch {
            left -= slot.memory_bytes;
            bytes += slot.memory_bytes;
            slot.writing = true;
            batches.push((*seq, batch.clone()));
        }
    }
    batches
}

fn frames_written(
    state: &mut State,
    batches: &[(u64, Arc<Batch>)],
    locations: &[Location],
    sync: bool,
) {
    state.disk_error = None;
    for ((seq, _), location) in batches.iter().zip(locations) {
        state.frames_written += 1;
        if let Some(segment) = state.segments.get_mut(&location.segment) {
            segment.live_frames += 1;
            segment.len = segment.len.max(location.offset + u64::from(location.len));
        }
        let Some(slot) = state.slots.get_mut(seq) else {
            state.dead.push(*location);
            continue;
        };
        slot.writing = false;
        slot.location = Some(*location);
        if let Some(ticket) = slot.ticket.take() {
            let _nobody_waits = ticket.send(Ok(()));
        }
        if !sync {
            slot.batch = None;
            let (stream, bytes) = (slot.stream, slot.memory_bytes);
            state.forget_memory(stream, bytes);
        }
    }
}

fn frames_failed(
    state: &mut State,
    batches: &[(u64, Arc<Batch>)],
    error: &io::Error,
    now: Duration,
) {
    note_disk_error(state, error, now);
    let text = error.to_string();
    for (seq, batch) in batches {
        let Some(slot) = state.slots.get_mut(seq) else { continue };
        slot.writing = false;
        if let Some(ticket) = slot.ticket.take() {
            let _nobody_waits = ticket.send(Err(RefusedReason::Disk { error: text.clone() }));
        } else if slot.durable {
            let bytes = batch.memory_bytes() as u64;
            state.want_durable(*seq, bytes, now);
        }
    }
}

fn note_disk_error(state: &mut State, error: &io::Error, now: Duration) {
    let text = error.to_string();
    if state.disk_error.as_deref() != Some(&text) {
        tracing::error!(%error, "the journal cannot write; sources wait, deliveries go on");
    }
    state.disk_error = Some(text);
    state.disk_retry_at = now + DISK_RETRY_INTERVAL;
}
