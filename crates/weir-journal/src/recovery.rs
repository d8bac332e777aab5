//! Opening a data directory: the lock, the cursor log, every segment.
//!
//! Weir always starts: damaged bytes are copied aside, counted and reported, and everything
//! around them is delivered. The one thing that stops it is a format version that it does not
//! know; such a file is left untouched.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::{Disk, DiskFile, OpenMode};
use weir_model::{Batch, Position, StreamId};

use crate::cursor_log::{self, CursorLog};
use crate::segment::{self, IndexEntry, Opening, Scan};
use crate::spec::JournalError;
use crate::state::{CommitTail, DeadRanges, Location, RecoveredFrame, SegmentState, State};

/// What opening leaves behind for the writer.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) cursor_log: CursorLog,
    pub(crate) next_segment: u64,
    /// Held as long as the journal lives.
    pub(crate) lock: Box<dyn DiskFile>,
}

/// Locks the directory and reads everything into `state`.
pub(crate) fn open(disk: &dyn Disk, state: &mut State) -> Result<Opened, JournalError> {
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
    // Every version is looked at before anything is written.
    let openings = ids
        .iter()
        .map(|id| Ok((*id, read_opening(disk, &segment::file_name(&dir, *id))?)))
        .collect::<Result<Vec<_>, JournalError>>()?;
    let cursor_log = cursor_log::recover(disk, &dir, &files, state, |state| {
        for (_, opening) in &openings {
            cursor_log::complete_names(state, &opening.names);
        }
    })?;
    for (id, opening) in &openings {
        recover_segment(disk, &dir, *id, opening, state)?;
    }
    load_partial_positions(state);
    let last = ids.iter().copied().chain(state.ended.values().map(|(segment, _)| *segment)).max();
    state.forget_ended();
    Ok(Opened { cursor_log, next_segment: last.unwrap_or(0) + 1, lock })
}

pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("lock")
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskFile>, JournalError> {
    let path = lock_path(dir);
    let locked = disk.open(&path, OpenMode::Create).and_then(|file| Ok((file.try_lock()?, file)));
    match locked {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => Err(JournalError::Locked { dir: dir.to_owned() }),
        Err(error) => Err(JournalError::Io { what: "cannot lock", path, error }),
    }
}

fn read_opening(disk: &dyn Disk, path: &Path) -> Result<Opening, JournalError> {
    let file = disk.open(path, OpenMode::Read).map_err(|error| JournalError::Io {
        what: "cannot open",
        path: path.to_owned(),
        error,
    })?;
    segment::read_opening(&*file, path)
}

fn recover_segment(
    disk: &dyn Disk,
    dir: &Path,
    id: u64,
    opening: &Opening,
    state: &mut State,
) -> Result<(), JournalError> {
    let path = segment::file_name(dir, id);
    let io_error = |what| {
        let path = path.clone();
        move |error| JournalError::Io { what, path, error }
    };
    let file = disk.open(&path, OpenMode::ReadWrite).map_err(io_error("cannot open"))?;
    let mut frames = Vec::new();
    let scan = segment::scan(&*file, id, opening.frames_at, |at, batch| frames.push((at, batch)))
        .map_err(io_error("cannot read"))?;
    let safe_aside = report_damage(disk, &path, &*file, &scan, state);
    if frames.is_empty() {
        drop(file);
        if safe_aside {
            let _tried_again_next_time = disk.remove(&path);
        }
        return Ok(());
    }
    let len = close_torn(&*file, &scan, &frames, &path);
    let segment = SegmentState {
        file: Arc::from(file),
        len,
        live_frames: frames.len() as u64,
        sealed: true,
        dead: DeadRanges::default(),
        index: Vec::new(),
    };
    state.segments.insert(id, segment);
    for (location, batch) in frames {
        recover_frame(location, &batch, &opening.absent, state);
    }
    Ok(())
}

/// Gives a segment that was open when the machine stopped its proper end, so that the next start
/// does not take its torn end for damage. Returns the length.
fn close_torn(file: &dyn DiskFile, scan: &Scan, frames: &[(Location, Batch)], path: &Path) -> u64 {
    if !scan.closed {
        let entries: Vec<IndexEntry> =
            frames.iter().map(|(at, b)| IndexEntry::of(*at, b)).collect();
        let footer = segment::encode_footer(&entries);
        let closed = file
            .set_len(scan.end)
            .and_then(|()| file.write_all_at(&mut [IoSlice::new(&footer)], scan.end))
            .and_then(|()| file.sync_data());
        if let Err(error) = closed {
            tracing::warn!(path = %path.display(), %error, "a segment could not be closed; the next start tries again");
        }
    }
    file.len().unwrap_or(scan.end)
}

/// Copies damaged ranges to `.bad` files beside the segment. False when that failed: then the
/// segment must stay.
fn report_damage(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn DiskFile,
    scan: &Scan,
    state: &mut State,
) -> bool {
    state.recovery.torn_bytes += scan.torn_bytes;
    let mut all_safe = true;
    for (from, to) in &scan.damaged {
        state.recovery.damaged_bytes += to - from;
        let aside = path.with_extension(format!("{from}.bad"));
        let copied = copy_aside(disk, file, (*from, *to), &aside);
        if let Err(error) = &copied {
            tracing::warn!(path = %aside.display(), %error, "damaged bytes could not be set aside");
        }
        all_safe &= copied.is_ok();
        tracing::warn!(
            path = %path.display(),
            from,
            to,
            aside = %aside.display(),
            "damaged bytes in a journal segment were skipped"
        );
        state.recovery.set_aside.push(aside.display().to_string());
    }
    all_safe
}

/// The name says where the bytes come from, so that the same damage is copied only once however
/// often weir starts.
fn copy_aside(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    (from, to): (u64, u64),
    aside: &Path,
) -> io::Result<()> {
    let mut bytes = vec![0; (to - from) as usize];
    for (number, page) in bytes.chunks_mut(4096).enumerate() {
        let at = from + number as u64 * 4096;
        if let Err(error) = file.read_exact_at(page, at)
            && !segment::is_damage(&error)
        {
            return Err(error);
        }
    }
    let out = disk.open(aside, OpenMode::Create)?;
    if out.len()? == to - from {
        return Ok(());
    }
    out.write_all_at(&mut [IoSlice::new(&bytes)], 0)?;
    out.sync_data()?;
    aside.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}

fn recover_frame(location: Location, batch: &Batch, absent: &Arc<[usize]>, state: &mut State) {
    let header = batch.header();
    let here = (location.segment, location.offset);
    if state.ended.get(&header.stream).is_some_and(|last| here <= *last) {
        state.dead.push(location);
        return;
    }
    if let Some(known) = state.streams.get_mut(&header.stream) {
        known.last_frame = known.last_frame.max(Some(here));
    }
    let mut routed = Vec::new();
    for (index, cursor) in state.cursors.iter().enumerate() {
        let count = batch.routed_count(index);
        if count > 0 && !cursor.dropped {
            routed.push((index, count));
        }
    }
    let wanted = |(index, _): &(usize, u64)| {
        let stream = state.cursors[*index].streams.get(&header.stream);
        stream.is_none_or(|cs| cs.committed < header.end())
    };
    if !routed.iter().any(wanted) {
        state.dead.push(location);
        return;
    }
    state.recovery.frames += 1;
    state.recovery.frame_bytes += u64::from(location.len);
    let frame = RecoveredFrame {
        location,
        source: header.source,
        group: header.group,
        base: header.base(),
        repeatable: header.repeatable,
        tail: CommitTail::of(batch),
        absent: absent.clone(),
        routed,
        positions: Vec::new(),
    };
    state.recovered.entry(header.stream).or_default().push(frame);
}

/// Frames are sorted by position; those of which a part may be skipped (a position was committed
/// inside, or they overlap an earlier frame) get the exact positions of their records.
fn load_partial_positions(state: &mut State) {
    let committed: HashMap<StreamId, Vec<Position>> = state
        .recovered
        .keys()
        .map(|stream| {
            let of = |c: &crate::state::CursorState| Some(c.streams.get(stream)?.committed);
            let furthest = state.streams.get(stream).map(|known| known.furthest.end);
            (*stream, state.cursors.iter().filter_map(of).chain(furthest).collect())
        })
        .collect();
    let segments = &state.segments;
    for (stream, frames) in &mut state.recovered {
        frames.sort_by_key(|f| (f.base, f.tail.end, f.location));
        let mut reached = Position::default();
        for frame in frames {
            let inside = |p: &Position| *p > frame.base && *p < frame.tail.end;
            if inside(&reached) || committed[stream].iter().any(inside) {
                frame.positions = exact_positions(segments, frame);
            }
            reached = reached.max(frame.tail.end);
        }
    }
}

fn exact_positions(
    segments: &std::collections::BTreeMap<u64, SegmentState>,
    frame: &RecoveredFrame,
) -> Vec<(usize, Vec<Position>)> {
    let Some(segment) = segments.get(&frame.location.segment) else { return Vec::new() };
    let Ok(batch) = segment::read_frame(&*segment.file, frame.location) else { return Vec::new() };
    let of_cursor = |(index, _): &(usize, u64)| {
        let routed = batch.records().enumerate().filter(|(i, _)| batch.is_routed(*i, *index));
        (*index, routed.map(|(_, r)| r.position).collect())
    };
    frame.routed.iter().map(of_cursor).collect()
}
