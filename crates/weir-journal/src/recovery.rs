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
use crate::segment::{self, SEGMENT_HEADER_LEN, Scan};
use crate::spec::JournalError;
use crate::state::{CommitTail, Location, RecoveredFrame, SegmentState, State};

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
    check_versions(disk, &files)?;
    let (cursor_log, damaged) = cursor_log::recover(disk, &dir, &files, state)?;
    cursor_log::settle_totals(state);
    state.recovery.damaged_cursor_records = damaged;
    let mut ids: Vec<u64> = files.iter().filter_map(|p| segment::id_of(p)).collect();
    ids.sort_unstable();
    for (at, id) in ids.iter().enumerate() {
        let is_last = at + 1 == ids.len();
        recover_segment(disk, &dir, *id, is_last, state)?;
    }
    load_partial_positions(state);
    Ok(Opened { cursor_log, next_segment: ids.last().copied().unwrap_or(0) + 1, lock })
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskFile>, JournalError> {
    let path = dir.join("lock");
    let locked = disk.open(&path, OpenMode::Create).and_then(|file| Ok((file.try_lock()?, file)));
    match locked {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => Err(JournalError::Locked { dir: dir.to_owned() }),
        Err(error) => Err(JournalError::Io { what: "cannot lock", path, error }),
    }
}

/// Looks at every segment's version before anything is written.
fn check_versions(disk: &dyn Disk, files: &[PathBuf]) -> Result<(), JournalError> {
    for path in files.iter().filter(|p| segment::id_of(p).is_some()) {
        let file = disk.open(path, OpenMode::Read).map_err(|error| JournalError::Io {
            what: "cannot open",
            path: path.clone(),
            error,
        })?;
        segment::check_header(&*file, path)?;
    }
    Ok(())
}

fn recover_segment(
    disk: &dyn Disk,
    dir: &Path,
    id: u64,
    is_last: bool,
    state: &mut State,
) -> Result<(), JournalError> {
    let path = segment::file_name(dir, id);
    let io_error = |what| {
        let path = path.clone();
        move |error| JournalError::Io { what, path, error }
    };
    let file = disk.open(&path, OpenMode::ReadWrite).map_err(io_error("cannot open"))?;
    let has_header = segment::check_header(&*file, &path)?;
    let start = if has_header { SEGMENT_HEADER_LEN } else { 0 };
    let mut frames = Vec::new();
    let scan = segment::scan(&*file, id, start, |location, batch| frames.push((location, batch)))
        .map_err(io_error("cannot read"))?;
    let len = file.len().map_err(io_error("cannot read"))?;
    report_damage(disk, &path, &*file, &scan, (len, is_last), state);
    if frames.is_empty() {
        drop(file);
        let _tried_again_next_time = disk.remove(&path);
        return Ok(());
    }
    let live_frames = frames.len() as u64;
    let segment = SegmentState { file: Arc::from(file), len, live_frames, sealed: true };
    state.segments.insert(id, segment);
    for (location, batch) in frames {
        recover_frame(location, &batch, state);
    }
    Ok(())
}

/// Copies damaged ranges to a `.bad` file beside the segment. What was being written at the very
/// end when the machine stopped is no damage: nobody was told that it was safe.
fn report_damage(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn DiskFile,
    scan: &Scan,
    (len, is_last): (u64, bool),
    state: &mut State,
) {
    let mut ranges = scan.damaged.clone();
    if scan.torn && !is_last {
        ranges.push((scan.end, len));
    }
    if ranges.is_empty() {
        return;
    }
    state.recovery.damaged_bytes += ranges.iter().map(|(from, to)| to - from).sum::<u64>();
    let aside = path.with_extension("bad");
    if let Err(error) = copy_ranges(disk, file, &ranges, &aside) {
        tracing::warn!(path = %aside.display(), %error, "damaged bytes could not be set aside");
    }
    tracing::warn!(
        path = %path.display(),
        ranges = ?ranges,
        aside = %aside.display(),
        "damaged bytes in a journal segment were skipped"
    );
    state.recovery.set_aside.push(aside.display().to_string());
}

fn copy_ranges(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    ranges: &[(u64, u64)],
    aside: &Path,
) -> io::Result<()> {
    let out = disk.open(aside, OpenMode::Create)?;
    let mut at = out.len()?;
    for (from, to) in ranges {
        let mut bytes = vec![0; (to - from) as usize];
        file.read_exact_at(&mut bytes, *from)?;
        out.write_all_at(&mut [IoSlice::new(&bytes)], at)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

fn recover_frame(location: Location, batch: &Batch, state: &mut State) {
    let header = batch.header();
    let mut routed = Vec::new();
    for (index, cursor) in state.cursors.iter().enumerate() {
        let count = batch.routed_count(index);
        if count > 0 && !cursor.dropped {
            routed.push((index, count));
        }
    }
    let wanted = |(index, _): &(usize, u64)| {
        let stream = state.cursors[*index].streams.get(&header.stream);
        stream.is_none_or(|cs| cs.committed.end < header.end())
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
        tail: CommitTail::of(batch),
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
            let of = |c: &crate::state::CursorState| Some(c.streams.get(stream)?.committed.end);
            (*stream, state.cursors.iter().filter_map(of).collect())
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
