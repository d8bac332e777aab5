//! Opening a data directory: the lock, the cursor log, every segment.
//!
//! Weir always starts: damaged bytes are copied aside, counted and reported, and everything around
//! them is delivered. The only exception is an unsupported format version of a file or of a frame
//! in it; such a file is left untouched.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock, Disk, DiskFile, OpenMode};
use weir_model::{Batch, DiscardReason, Position, StreamId};

use crate::cursor_log::{self, CursorLog};
use crate::index::{self, FrameKey, IndexEntry, SegmentIndex, StreamEnd};
use crate::limits::{BEGINNING_BYTES_MAX, COPY_BYTES};
use crate::scan::{self, Scan};
use crate::segment::{self, ReadError, SegmentHeader};
use crate::spec::JournalError;
use crate::state::{Checkpoint, Location, MovedFrames, RecoveredFrame, SegmentState, State};

/// State that opening passes on to the writer.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) cursor_log: CursorLog,
    pub(crate) next_segment: u64,
    pub(crate) lock: Lock,
}

/// Held while the journal exists; while its name refers to it, the directory belongs to the
/// journal.
#[derive(Debug)]
pub(crate) struct Lock {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl Lock {
    /// Returns an error if the directory was removed or replaced: anything written to it would be
    /// lost, or belong to another process.
    pub(crate) fn check(&self) -> io::Result<()> {
        segment::in_place(&*self.file, &self.path)
    }
}

/// Until when frames are read only to verify them.
#[derive(Clone, Copy)]
struct Verification<'a> {
    clock: &'a dyn Clock,
    until: Duration,
}

impl Verification<'_> {
    fn is_over(&self) -> bool {
        self.clock.monotonic() >= self.until
    }
}

/// Locks the directory and reads everything into `state`.
pub(crate) fn open(
    disk: &dyn Disk,
    clock: &dyn Clock,
    state: &mut State,
) -> Result<Opened, JournalError> {
    let until = clock.monotonic() + state.config.verify_time_max;
    let verification = Verification { clock, until };
    let dir = state.config.dir.clone();
    let io_error = |what, path: &Path| {
        let path = path.to_owned();
        move |error| JournalError::Io { what, path, error }
    };
    disk.create_dir_all(&dir).map_err(io_error("cannot create", &dir))?;
    let lock = lock(disk, &dir)?;
    let files = disk.list(&dir).map_err(io_error("cannot read", &dir))?;
    let mut ids: Vec<u64> = files.iter().filter_map(|p| segment::id_of(p)).collect();
    ids.sort_unstable();
    // Check every version before anything is written.
    let headers = ids
        .iter()
        .map(|id| Ok((*id, read_header(disk, &segment::file_name(&dir, *id))?)))
        .collect::<Result<Vec<_>, JournalError>>()?;
    let cursor_log = cursor_log::recover(disk, &dir, &files, state, |state| {
        for (_, header) in &headers {
            cursor_log::complete_names(state, &header.names);
        }
    })?;
    let is_log_whole = files.iter().any(|path| cursor_log::generation_of(path).is_some())
        && state.recovery.damaged_cursor_records == 0;
    let mut abandoned = HashSet::new();
    for (id, header) in &headers {
        let (id, path) = (*id, segment::file_name(&dir, *id));
        let is_newest = ids.last() == Some(&id);
        let segment =
            SegmentRecovery { disk, verification, path, id, header, is_newest, is_log_whole };
        if segment.recover(state)? == HowEnded::Abandoned {
            abandoned.insert(id);
        }
    }
    state.note_absent();
    forget_superseded(state, is_log_whole, &abandoned);
    load_partial_positions(state);
    forget_missing_copies(state);
    let used = files.iter().filter_map(|path| segment::number_of(path));
    let last = used.chain(state.ended.values().map(|(segment, _)| *segment)).max();
    state.forget_ended();
    Ok(Opened { cursor_log, next_segment: last.unwrap_or(0) + 1, lock })
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Lock, JournalError> {
    let path = dir.join("lock");
    let locked = disk.open(&path, OpenMode::Create).and_then(|file| Ok((file.try_lock()?, file)));
    match locked {
        Ok((true, file)) => Ok(Lock { file, path }),
        Ok((false, _)) => Err(JournalError::Locked { dir: dir.to_owned() }),
        Err(error) => Err(JournalError::Io { what: "cannot lock", path, error }),
    }
}

fn read_header(disk: &dyn Disk, path: &Path) -> Result<SegmentHeader, JournalError> {
    let file = disk.open(path, OpenMode::Read).map_err(|error| JournalError::Io {
        what: "cannot open",
        path: path.to_owned(),
        error,
    })?;
    segment::read_header(&*file, path)
}

/// How a segment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HowEnded {
    /// With its index, or with the process.
    Normally,
    /// After an error of the disk: what was not flushed was written again to a later segment. Here,
    /// it may be in the system's cache alone, and no later flush writes it to the disk. So it gets
    /// no index either, which would vouch for it.
    Abandoned,
}

/// A segment during recovery.
struct SegmentRecovery<'a> {
    disk: &'a dyn Disk,
    verification: Verification<'a>,
    path: PathBuf,
    id: u64,
    header: &'a SegmentHeader,
    /// Nothing was written after it: its end may be torn.
    is_newest: bool,
    /// The cursor log is intact: space that it does not mention was never freed.
    is_log_whole: bool,
}

impl SegmentRecovery<'_> {
    fn io_error(&self, what: &'static str) -> impl Fn(io::Error) -> JournalError + use<> {
        let path = self.path.clone();
        move |error| JournalError::Io { what, path: path.clone(), error }
    }

    fn recover(&self, state: &mut State) -> Result<HowEnded, JournalError> {
        let file = self.disk.open(&self.path, OpenMode::ReadWrite);
        let file = file.map_err(self.io_error("cannot open"))?;
        // Weir may have been killed before that: what is found now must not change any more, above
        // all not when the power is lost later.
        let is_flushed = !self.is_newest || file.sync_data().is_ok();
        let index = self.index_alone(&*file, state).map_err(self.io_error("cannot read"))?;
        if let Some(index) = index.filter(|_| is_flushed) {
            self.recover_by_index(file, index, state);
            return Ok(HowEnded::Normally);
        }
        let mut frames = Vec::new();
        let scan = scan::scan(&*file, self.id, self.header, |at, batch| frames.push((at, batch)));
        let mut scan = scan.map_err(self.io_error("cannot read"))?;
        if let Some((offset, error)) = scan.unknown {
            return Err(JournalError::Unknown { file: self.path.clone(), offset, error });
        }
        let is_without_index = !self.is_newest && scan.index.is_none();
        // Where something is damaged, the index may be among it.
        let is_abandoned = is_without_index && scan.damaged.is_empty();
        if is_without_index {
            // This is not the end of what was written.
            scan.damaged.extend(scan.torn.take());
            scan.torn_bytes = 0;
        }
        note_last_frames(&scan, state);
        let missing = self.missing(&scan, state);
        let len = file.len().map_err(self.io_error("cannot read"))?;
        if frames.is_empty() && missing.is_empty() {
            self.end_empty(&*file, len, &scan, state);
            return Ok(HowEnded::Normally);
        }
        let is_safe_aside = self.report_damage(&*file, &scan, state);
        let names = self.header.names.iter().map(|(index, ..)| *index).collect();
        let mut segment = SegmentState::new(Arc::from(file), len, names, &state.config);
        segment.is_indexed = scan.index.is_some() && is_flushed;
        if scan.index.is_none() && is_safe_aside && !is_abandoned {
            self.close_torn(&mut segment, &scan, &frames);
        }
        segment.live_frames = (frames.len() + missing.len()) as u64;
        segment.sealed = true;
        segment.is_strange = scan.missing.iter().any(|(entry, is_zero)| {
            *is_zero && missing.iter().any(|(_, frame)| frame.location == entry.location)
        });
        state.segments.insert(self.id, segment);
        for (location, batch) in frames {
            let header = batch.header();
            let frame = RecoveredFrame {
                location,
                source: header.source,
                group: header.group,
                base: header.base(),
                repeatable: header.repeatable,
                merged: header.merged,
                checkpoint: Checkpoint::of(&batch),
                absent: self.header.absent.clone(),
                records: u64::from(header.record_count),
                routed: batch.routed_counts(),
                positions: Vec::new(),
                missing: None,
            };
            recover_frame(header.stream, frame, self.header, state);
        }
        for (stream, frame) in missing {
            state.recovered.entry(stream).or_default().push(frame);
        }
        Ok(if is_abandoned { HowEnded::Abandoned } else { HowEnded::Normally })
    }

    /// Returns the index if it is sufficient without reading every byte: the log and the header of
    /// the segment are intact, no bytes were added or lost between the frames, this release
    /// supports everything in them, and those that their source would read again are present, as
    /// far as there is time to verify that. Whether the others are present is checked when they are
    /// taken.
    fn index_alone(&self, file: &dyn DiskFile, state: &State) -> io::Result<Option<SegmentIndex>> {
        if !self.is_log_whole || self.header.names.is_empty() {
            return Ok(None);
        }
        let read = index::read(file, self.id, self.header.salt, self.header.frames_at);
        let (index, index_at) = match read {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(None),
            Err(error) if segment::is_damage(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let frames_end = index
            .entries
            .last()
            .map_or(self.header.frames_at, |last| last.location.offset + u64::from(last.key.len));
        if frames_end != index_at || !index.features.is_known() {
            return Ok(None);
        }
        for entry in &index.entries {
            if self.is_entry_dead(entry, state) {
                continue;
            }
            let is_there = || {
                if self.verification.is_over() {
                    return true;
                }
                let batch = segment::read_frame(file, entry.location);
                batch.is_ok_and(|batch| FrameKey::of(batch.header()) == entry.key)
            };
            if entry.checkpoint.is_none() || (entry.repeatable && !is_there()) {
                return Ok(None);
            }
        }
        Ok(Some(index))
    }

    fn is_entry_dead(&self, entry: &IndexEntry, state: &State) -> bool {
        let mut routed = entry.routed.clone();
        keep_meant(&mut routed, self.header, state);
        let here = (entry.key.stream, entry.key.end, entry.location);
        is_dead(here, entry.repeatable, &routed, state)
    }

    /// Recovers the frames from the index, which contains everything needed until they are taken. A
    /// segment without any needed frame is removed like all others: if its removal is undone by a
    /// crash, its frames are known to be dead.
    fn recover_by_index(&self, file: Box<dyn DiskFile>, index: SegmentIndex, state: &mut State) {
        let names = self.header.names.iter().map(|(index, ..)| *index).collect();
        let len = file.len().unwrap_or_default();
        let mut segment = SegmentState::new(Arc::from(file), len, names, &state.config);
        segment.is_indexed = true;
        segment.sealed = true;
        segment.live_frames = index.entries.len() as u64;
        state.segments.insert(self.id, segment);
        if index.entries.is_empty() {
            state.dead.push(Location { segment: self.id, offset: 0, len: 0 });
        }
        for mut entry in index.entries {
            let stream = entry.key.stream;
            let Some(end) = index.streams.get(&stream) else { continue };
            let unknown = || Arc::new(Checkpoint::at(entry.key.end));
            let checkpoint = entry.checkpoint.take().unwrap_or_else(unknown);
            let routed = std::mem::take(&mut entry.routed);
            let frame = self.indexed(&entry, end, checkpoint, routed);
            recover_frame(stream, frame, self.header, state);
        }
    }

    /// Describes a frame from its index entry.
    fn indexed(
        &self,
        entry: &IndexEntry,
        end: &StreamEnd,
        checkpoint: Arc<Checkpoint>,
        routed: Vec<(usize, u64)>,
    ) -> RecoveredFrame {
        RecoveredFrame {
            location: entry.location,
            source: end.source,
            group: end.group,
            base: entry.key.base,
            repeatable: entry.repeatable,
            merged: entry.merged,
            checkpoint,
            absent: self.header.absent.clone(),
            records: entry.records,
            routed,
            positions: Vec::new(),
            missing: None,
        }
    }

    /// Returns frames that the index lists and some destination still needs, but that are missing.
    /// Zeros in place of a frame that is no longer needed are freed space.
    fn missing(&self, scan: &Scan, state: &mut State) -> Vec<(StreamId, RecoveredFrame)> {
        let mut missing = Vec::new();
        let Some(index) = &scan.index else { return missing };
        let mut tails: HashMap<StreamId, Arc<Checkpoint>> = HashMap::new();
        for (entry, is_zero) in &scan.missing {
            let stream = entry.key.stream;
            let Some(end) = index.streams.get(&stream) else { continue };
            let mut routed = entry.routed.clone();
            keep_meant(&mut routed, self.header, state);
            let is_given_back = |(index, _): &(usize, u64)| {
                *is_zero && !self.is_log_whole && state.committed(*index, stream).is_none()
            };
            let here = (stream, entry.key.end, entry.location);
            if is_dead(here, entry.repeatable, &routed, state) || routed.iter().any(is_given_back) {
                continue;
            }
            // Of a frame among others only its end is known. A later one provides more.
            let last = tails.get(&stream).cloned().unwrap_or_default();
            let checkpoint = if end.checkpoint.end == entry.key.end {
                end.checkpoint.clone()
            } else {
                let (book, state) = (last.encoded_book(), last.state());
                Arc::new(Checkpoint::new(entry.key.end, book, state))
            };
            tails.insert(stream, checkpoint.clone());
            // The source of a repeatable frame may have been told to read it again.
            let is_doubtful = *is_zero && entry.repeatable;
            if *is_zero && !is_doubtful {
                state.recovery.damaged_bytes += u64::from(entry.key.len);
            }
            let reason = if is_doubtful { DiscardReason::Vanished } else { DiscardReason::Damaged };
            let frame = self.indexed(entry, end, checkpoint, routed);
            missing.push((stream, RecoveredFrame { missing: Some(reason), ..frame }));
        }
        missing
    }

    /// Removes a segment without anything that is needed, unless its emptiness is unexplained: then
    /// it is set aside unchanged.
    fn end_empty(&self, file: &dyn DiskFile, len: u64, scan: &Scan, state: &mut State) {
        let is_being_begun = self.is_newest && len <= BEGINNING_BYTES_MAX;
        let is_header_only = self.header.frames_at > 0 && len <= self.header.frames_at;
        if scan.index.is_some() || is_being_begun || is_header_only || len == 0 {
            if self.report_damage(file, scan, state) {
                state.removed.insert(self.id);
                let _tried_again_next_time = self.disk.remove(&self.path);
            }
            return;
        }
        if self.is_newest {
            state.recovery.torn_bytes += scan.torn_bytes;
        } else {
            state.recovery.damaged_bytes += len - self.header.frames_at;
        }
        let aside = self.path.with_extension("bad");
        let moved = self.disk.rename(&self.path, &aside);
        let moved = moved.and_then(|()| self.disk.sync_dir(&state.config.dir));
        match moved {
            Ok(()) => {
                tracing::warn!(aside = %aside.display(), len, "journal segment without readable content was set aside");
                state.recovery.set_aside.push(aside.display().to_string());
            }
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "an unreadable segment could not be set aside");
            }
        }
    }

    /// Properly ends a segment that was open when the machine stopped, so that the next start does
    /// not take its torn end for damage.
    fn close_torn(&self, segment: &mut SegmentState, scan: &Scan, frames: &[(Location, Batch)]) {
        let mut index = SegmentIndex::default();
        for (location, batch) in frames {
            index.add(*location, batch, Checkpoint::of(batch));
        }
        let encoded = index.encode(self.header.salt);
        let file = &segment.file;
        let closed = file
            .set_len(scan.end)
            .and_then(|()| file.write_all_at(&mut [IoSlice::new(&encoded)], scan.end))
            .and_then(|()| file.sync_data());
        if let Err(error) = &closed {
            tracing::warn!(path = %self.path.display(), %error, "a segment could not be closed; the next start retries");
        }
        segment.is_indexed = closed.is_ok();
        segment.len = segment.file.len().unwrap_or(scan.end);
    }

    /// Copies damaged ranges, and what is cut off, to `.bad` files next to the segment. Returns
    /// false if that failed: then the segment must stay as it is.
    fn report_damage(&self, file: &dyn DiskFile, scan: &Scan, state: &mut State) -> bool {
        state.recovery.torn_bytes += scan.torn_bytes;
        let mut all_safe = true;
        let damaged = scan.damaged.iter().map(|range| (range, false));
        for ((from, to), is_torn) in damaged.chain(scan.torn.iter().map(|range| (range, true))) {
            let aside = self.path.with_extension(format!("{from}.bad"));
            let copied = copy_aside(self.disk, file, (*from, *to), &aside);
            if let Err(error) = &copied {
                tracing::warn!(path = %aside.display(), %error, "damaged bytes could not be set aside");
            }
            all_safe &= copied.is_ok();
            if is_torn {
                continue;
            }
            state.recovery.damaged_bytes += to - from;
            tracing::warn!(
                path = %self.path.display(),
                from,
                to,
                aside = %aside.display(),
                "damaged bytes in a journal segment were skipped"
            );
            state.recovery.set_aside.push(aside.display().to_string());
        }
        all_safe
    }
}

/// Copies a byte range to a `.bad` file whose name contains the origin of the bytes, so that the
/// same damage is copied only once however often weir starts.
fn copy_aside(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    (from, to): (u64, u64),
    aside: &Path,
) -> io::Result<()> {
    let out = disk.open(aside, OpenMode::Create)?;
    if out.len()? == to - from {
        return Ok(());
    }
    let mut at = from;
    while at < to {
        let mut bytes = vec![0; (to - at).min(COPY_BYTES) as usize];
        for (number, page) in bytes.chunks_mut(4096).enumerate() {
            if let Err(error) = file.read_exact_at(page, at + number as u64 * 4096)
                && !segment::is_damage(&error)
            {
                return Err(error);
            }
        }
        out.write_all_at(&mut [IoSlice::new(&bytes)], at - from)?;
        at += bytes.len() as u64;
    }
    out.sync_data()?;
    aside.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}

/// Returns whether a frame is no longer needed: its stream ended after it, it was given up, or
/// every destination that it is routed to has committed its end.
fn is_dead(
    (stream, end, location): (StreamId, Position, Location),
    repeatable: bool,
    routed: &[(usize, u64)],
    state: &State,
) -> bool {
    let here = (location.segment, location.offset);
    let is_ended = state.ended.get(&stream).is_some_and(|last| here <= *last);
    let is_wanted = |(index, _): &(usize, u64)| {
        state.committed(*index, stream).is_none_or(|committed| committed < end)
    };
    let is_given_up =
        || repeatable && state.streams.get(&stream).is_some_and(|s| s.is_given_up(end, here));
    is_ended || is_given_up() || !routed.iter().any(is_wanted)
}

/// Removes destinations that were dropped, even if their slots are in use again.
fn keep_meant(routed: &mut Vec<(usize, u64)>, header: &SegmentHeader, state: &State) {
    let is_meant = |(index, _): &(usize, u64)| {
        let cursor = state.cursors.get(*index).filter(|cursor| !cursor.dropped);
        cursor.is_some_and(|cursor| header.means(*index, cursor.id))
    };
    routed.retain(is_meant);
}

/// Records that a frame of the stream is here, or was here before its space was freed.
fn note_last_frame(stream: StreamId, location: Location, state: &mut State) {
    let here = (location.segment, location.offset);
    let is_ended = state.ended.get(&stream).is_some_and(|last| here <= *last);
    if let Some(known) = state.streams.get_mut(&stream).filter(|_| !is_ended) {
        known.note_frame(here);
    }
}

/// Records frames whose space was freed. They are still in the index, and will be at the next
/// start: once their stream is forgotten, they must be known to be dead like those that are
/// present.
fn note_last_frames(scan: &Scan, state: &mut State) {
    for entry in scan.index.iter().flat_map(|index| &index.entries) {
        note_last_frame(entry.key.stream, entry.location, state);
    }
}

fn recover_frame(
    stream: StreamId,
    mut frame: RecoveredFrame,
    header: &SegmentHeader,
    state: &mut State,
) {
    let location = frame.location;
    note_last_frame(stream, location, state);
    keep_meant(&mut frame.routed, header, state);
    if is_dead((stream, frame.checkpoint.end, location), frame.repeatable, &frame.routed, state) {
        state.dead.push(location);
        return;
    }
    state.recovery.frames += 1;
    state.recovery.frame_bytes += u64::from(location.len);
    state.recovered.entry(stream).or_default().push(frame);
}

/// Sorts frames by position, and removes those of which the cursor log says that the rewritten one
/// counts, and those of abandoned segments that were written again.
fn forget_superseded(state: &mut State, is_log_whole: bool, abandoned: &HashSet<u64>) {
    let (moved, dead) = (&state.rewriting.moved_frames, &mut state.dead);
    let mut void = Vec::new();
    for frames in state.recovered.values_mut() {
        forget_replaced(frames, moved, is_log_whole, (dead, &mut void));
        frames.sort_by_key(|f| (f.base, f.checkpoint.end, f.location));
        frames.dedup_by(|later, earlier| {
            let is_same =
                (later.base, later.checkpoint.end) == (earlier.base, earlier.checkpoint.end);
            let is_there = later.missing.is_none() && earlier.missing.is_none();
            let is_written_again = abandoned.contains(&earlier.location.segment);
            let counts = is_written_again || moved.counts(later.location);
            let is_superseded = is_same && is_there && counts;
            if is_superseded {
                std::mem::swap(later, earlier);
                dead.push(later.location);
            }
            is_superseded
        });
    }
    for at in void {
        state.end_whole(at);
    }
}

/// Removes frames that are part of a merged one that counts, and merged ones that do not count: the
/// frames that they were made from are still there, unless the log lacks what it once contained.
fn forget_replaced(
    frames: &mut Vec<RecoveredFrame>,
    moved: &MovedFrames,
    is_log_whole: bool,
    (dead, void): (&mut Vec<Location>, &mut Vec<Location>),
) {
    if !frames.iter().any(|frame| frame.merged) {
        return;
    }
    // A merged frame may be part of another one, which comes first.
    frames.sort_by_key(|f| (f.base, Reverse(f.checkpoint.end), Reverse(f.location)));
    let mut open: Vec<(Position, Location)> = Vec::new();
    frames.retain(|frame| {
        let (end, at) = (frame.checkpoint.end, frame.location);
        open.retain(|(open_end, _)| *open_end > frame.base);
        let is_within = |(open_end, later): &(Position, Location)| end <= *open_end && at < *later;
        let is_replaced = frame.missing.is_none() && open.iter().any(is_within);
        let is_void = frame.merged && is_log_whole && !moved.counts(at);
        if frame.merged && frame.missing.is_none() && moved.counts(at) && !is_replaced {
            open.push((end, at));
        }
        if is_replaced {
            dead.push(at);
        } else if is_void {
            // Once a later one counts, this one seems to.
            void.push(at);
        }
        !is_replaced && !is_void
    });
}

/// Removes missing frames whose content is in other frames too: uncertain writes were repeated. Of
/// those that its source had begun to read again, only the rest is missing.
fn forget_missing_copies(state: &mut State) {
    for frames in state.recovered.values_mut() {
        if frames.iter().all(|frame| frame.missing.is_none()) {
            continue;
        }
        let (mut missing, mut present): (Vec<_>, Vec<_>) =
            frames.drain(..).partition(|frame| frame.missing.is_some());
        let covered = covered_ranges(&present);
        // One that was merged or moved may be missing together with what it was made from.
        let mut reached = Position::default();
        missing.sort_by_key(|f| (f.base, Reverse(f.checkpoint.end)));
        for mut frame in missing {
            if frame.checkpoint.end <= reached {
                state.dead.push(frame.location);
                continue;
            }
            reached = frame.checkpoint.end;
            let at = covered.partition_point(|(begin, _)| *begin <= frame.base);
            let around = at.checked_sub(1).map(|at| covered[at].1);
            match around.filter(|end| *end > frame.base) {
                Some(end) if frame.checkpoint.end <= end => state.dead.push(frame.location),
                Some(end) => {
                    cut_beginning(&mut frame, &present, end);
                    frames.push(frame);
                }
                None => frames.push(frame),
            }
        }
        frames.append(&mut present);
        frames.sort_by_key(|f| (f.base, f.checkpoint.end, f.location));
    }
}

/// Returns what frames cover without a gap, in order. They are sorted.
fn covered_ranges(present: &[RecoveredFrame]) -> Vec<(Position, Position)> {
    let mut covered: Vec<(Position, Position)> = Vec::new();
    for frame in present {
        match covered.last_mut().filter(|(_, end)| frame.base <= *end) {
            Some((_, end)) => *end = frame.checkpoint.end.max(*end),
            None => covered.push((frame.base, frame.checkpoint.end)),
        }
    }
    covered
}

/// Removes what is before `end` from a missing frame, as the others cover it: the rows that are
/// found in them are not missing.
fn cut_beginning(missing: &mut RecoveredFrame, present: &[RecoveredFrame], end: Position) {
    let mut reached = missing.base;
    for frame in present.iter().filter(|frame| frame.base < end) {
        for (index, rows) in &mut missing.routed {
            // Rules may route repeated rows differently than before.
            *rows -= frame.routed_after(*index, reached).min(*rows);
        }
        reached = reached.max(frame.checkpoint.end);
    }
    missing.routed.retain(|(_, rows)| *rows > 0);
    missing.base = end;
}

/// Frames of which a part may be skipped (a position was committed inside, or they overlap an
/// earlier frame), or inside which a missing one begins, get the exact positions of their records.
fn load_partial_positions(state: &mut State) {
    let committed: HashMap<StreamId, Vec<Position>> = state
        .recovered
        .keys()
        .map(|stream| {
            let listed = state.cursor_streams(*stream).map(|(_, cs)| cs.committed);
            let furthest = state.streams.get(stream).map(|known| known.furthest.end);
            (*stream, listed.chain(furthest).collect())
        })
        .collect();
    let segments = &state.segments;
    let mut damaged = Vec::new();
    for (stream, frames) in &mut state.recovered {
        let mut reached = Position::default();
        let is_missing = |frame: &&RecoveredFrame| frame.missing.is_some();
        let begins: Vec<Position> = frames.iter().filter(is_missing).map(|f| f.base).collect();
        for frame in frames {
            if frame.missing.is_some() {
                continue;
            }
            let inside = |p: &Position| *p > frame.base && *p < frame.checkpoint.end;
            if inside(&reached) || committed[stream].iter().chain(&begins).any(inside) {
                let Some(positions) = exact_positions(segments, frame) else {
                    // Its rows are not where the index says: only the log knows their number.
                    frame.missing = Some(DiscardReason::Damaged);
                    damaged.push(frame.location);
                    continue;
                };
                frame.positions = positions;
            }
            reached = reached.max(frame.checkpoint.end);
        }
    }
    for at in damaged {
        state.note_damage(at);
    }
}

/// Returns the positions of the frame's records for each destination, or `None` if it is damaged.
fn exact_positions(
    segments: &std::collections::BTreeMap<u64, SegmentState>,
    frame: &RecoveredFrame,
) -> Option<Vec<(usize, Vec<Position>)>> {
    let Some(segment) = segments.get(&frame.location.segment) else { return Some(Vec::new()) };
    let batch = match segment::read_frame(&*segment.file, frame.location) {
        Ok(batch) => batch,
        Err(ReadError::Io(error)) if !segment::is_damage(&error) => return Some(Vec::new()),
        Err(_) => return None,
    };
    let of_cursor = |(index, _): &(usize, u64)| {
        let rows = batch.routed_rows(*index);
        let routed = batch.records().enumerate().filter(|(i, _)| rows.contains(*i));
        (*index, routed.map(|(_, r)| r.position).collect())
    };
    Some(frame.routed.iter().map(of_cursor).collect())
}
