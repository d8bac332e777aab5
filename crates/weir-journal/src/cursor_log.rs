//! The cursor log: names, books, and for each stream up to which position it is known and what each
//! destination is owed, in records that supersede each other.
//!
//! Each record is either complete or absent (magic, length, CRC-32C). All of them state absolute
//! values, so replaying one twice, or an old log before a new one, changes nothing. Format:
//! `docs/internals/journal.md`.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::record_file::{self, HEADER_LEN};
use weir_host::{Disk, DiskFile, OpenMode};
use weir_model::limits::CURSORS_MAX;
use weir_model::{CursorBook, Position, SourceBook, SourceId, StreamId};

use crate::fields::{Fields, put_bytes, put_checkpoint, put_encoded, put_u32};
use crate::limits::{
    CURSOR_LOG_BYTES_MIN, CURSOR_LOG_TIGHT_BYTES_MIN, POSITIONS_RESERVE_BYTES_MIN,
};
use crate::segment::{in_place, is_damage};
use crate::spec::JournalError;
use crate::state::{
    AbandonedFrames, Checkpoint, CursorState, CursorStream, CursorStreams, EndedStream,
    MovedFrames, OwedRows, Parts, State, StreamState,
};

const FILE_MAGIC: [u8; 4] = *b"WCUR";
const VERSION: u16 = 2;

/// Kinds of records (`Snapshot`, `Group`) and of the entries in them (all others).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum EntryKind {
    Cursor = 1,
    CursorDropped = 2,
    Source = 3,
    /// A stream: the furthest known position, and the position of each destination that is not
    /// there.
    Stream = 4,
    /// Streams that ended, with the totals that now include them: one record, so that the counts
    /// can be neither lost nor doubled.
    Fold = 5,
    /// The full state: replaces what was replayed before. It is a single record, so that a damaged
    /// one leaves the previous generation in effect.
    Snapshot = 6,
    /// Streams that ended while their frames are still in existing segments: frames up to this
    /// location are dead.
    Ended = 7,
    /// Everything of one flush, complete or absent, so that a replayed state is always one that
    /// existed (a destination that never saw a stream must not be confused with one whose first
    /// record of it was torn off).
    Group = 8,
    /// The counts of a destination, as of the positions in the same record.
    Book = 9,
    /// The location up to which rewritten frames count instead of the old ones, should both be
    /// found.
    Moved = 10,
    /// The counts of a part of a destination, as of the positions in the same record; without any
    /// if the part was forgotten.
    Part = 11,
}

/// How a stream's entry gives the position of a destination. Destinations that it does not list
/// have settled everything up to the furthest position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum CursorPosition {
    /// It is behind, and is owed rows.
    Behind = 1,
    /// It does not know the stream.
    Unknown = 2,
}

const FLAG_UNREPEATABLE: u8 = 1;
const FLAG_DURABLE: u8 = 2;

/// An open cursor log.
#[derive(Debug)]
pub(crate) struct CursorLog {
    dir: PathBuf,
    generation: u64,
    /// `None` while no generation could be written at all.
    file: Option<Box<dyn DiskFile>>,
    salt: [u8; 8],
    len: u64,
    /// Length right after the last rewrite.
    snapshot_len: u64,
    /// Length of the previous generation, which is a second copy.
    previous_len: u64,
    /// A write or sync failed: the file must not be written or synced again.
    failed: bool,
}

fn file_name(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("cursors-{generation:010}.wcur"))
}

/// Returns the number in a cursor log's file name.
pub(crate) fn generation_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("cursors-")?.strip_suffix(".wcur")?.parse().ok()
}

/// Replays all logs of the directory, oldest first, into `state`, and starts a new generation.
/// `complete` adds state from other files before it is written.
pub(crate) fn recover(
    disk: &dyn Disk,
    dir: &Path,
    files: &[PathBuf],
    state: &mut State,
    complete: impl FnOnce(&mut State),
) -> Result<CursorLog, JournalError> {
    let mut generations: Vec<u64> = files.iter().filter_map(|p| generation_of(p)).collect();
    generations.sort_unstable();
    for generation in &generations {
        let path = file_name(dir, *generation);
        let damaged = replay(disk, &path, state)?;
        if damaged > 0 {
            tracing::warn!(path = %path.display(), damaged, "damaged records in a cursor log were skipped");
            set_aside(disk, &path, state);
        }
        state.recovery.damaged_cursor_records += damaged;
    }
    complete(state);
    settle_totals(state);
    let generation = generations.last().copied().unwrap_or(0) + 1;
    let mut log = CursorLog {
        dir: dir.to_owned(),
        generation: generation - 1,
        file: None,
        salt: [0; 8],
        len: generations.last().map_or(0, |newest| len_of(disk, &file_name(dir, *newest))),
        snapshot_len: 0,
        previous_len: 0,
        failed: true,
    };
    // Start even with a full disk: positions wait in memory until there is space.
    if let Err(error) = log.rewrite(disk, &Records::snapshot(state)) {
        tracing::error!(%error, "positions cannot be written");
        // The replayed records must not change, either: weir may have been killed before they were
        // flushed.
        if let Some(newest) = generations.last() {
            let opened = disk.open(&file_name(dir, *newest), OpenMode::ReadWrite);
            let _at_least_tried = opened.and_then(|file| file.sync_data());
        }
        state.positions_error = Some(error.to_string());
        state.positions_since = Some(std::time::Duration::ZERO);
        return Ok(log);
    }
    // The previous one stays as a second copy; older ones are removed.
    for old in generations.iter().rev().skip(1) {
        let _stays_until_next_time = disk.remove(&file_name(dir, *old));
    }
    Ok(log)
}

/// Returns the length of a log; 0 if it cannot be determined.
fn len_of(disk: &dyn Disk, path: &Path) -> u64 {
    disk.open(path, OpenMode::Read).and_then(|file| file.len()).unwrap_or(0)
}

/// Keeps a copy of a damaged log for inspection.
fn set_aside(disk: &dyn Disk, path: &Path, state: &mut State) {
    let copied =
        record_file::read(disk, path).and_then(|bytes| record_file::set_aside(disk, path, &bytes));
    match copied {
        Ok(aside) => state.recovery.set_aside.push(aside.display().to_string()),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a damaged log could not be set aside");
        }
    }
}

/// Adds names of destinations that a segment lists but the log has lost.
pub(crate) fn complete_names(state: &mut State, names: &[(usize, u64, String)]) {
    for (index, id, name) in names.iter().filter(|(index, ..)| *index < CURSORS_MAX) {
        name_slot(state, *index, *id, name);
    }
}

/// Assigns a slot to this destination, unless a later one has it.
fn name_slot(state: &mut State, index: usize, id: u64, name: &str) {
    let cursor = cursor_slot(state, index);
    let is_next = !cursor.name.is_empty() && cursor.id < id;
    if is_next {
        *cursor = CursorState { fresh: false, ..CursorState::new(String::new(), id) };
    }
    if cursor.name.is_empty() {
        (cursor.name, cursor.id) = (name.to_owned(), id);
    }
    if is_next {
        state.forget_destination(index);
    }
}

fn replay(disk: &dyn Disk, path: &Path, state: &mut State) -> Result<u64, JournalError> {
    let bytes = match record_file::read(disk, path) {
        Ok(bytes) => bytes,
        Err(error) if is_damage(&error) => return Ok(1),
        Err(error) => {
            return Err(JournalError::Io { what: "cannot read", path: path.to_owned(), error });
        }
    };
    if bytes.len() < HEADER_LEN {
        return Ok(u64::from(!bytes.is_empty()));
    }
    let (header, records) = bytes.split_at(HEADER_LEN);
    let is_damaged = match record_file::version(header, FILE_MAGIC) {
        Some(VERSION) => false,
        Some(version) => return Err(JournalError::Version { file: path.to_owned(), version }),
        // Even then the records are intact, unless the salt itself is damaged.
        None => true,
    };
    // A torn end is not damage.
    let damage = record_file::replay(records, &header[8..], |payload| {
        apply(payload, state);
        Some(())
    });
    Ok(u64::from(is_damaged) + damage.ranges)
}

/// Applies a record: its kind, then its entries.
fn apply(payload: &[u8], state: &mut State) {
    let Some((&kind, entries)) = payload.split_first() else { return };
    if kind == EntryKind::Snapshot as u8 {
        state.cursors.clear();
        state.streams.clear();
        state.sources.clear();
        state.ended.clear();
    }
    let mut entries = Fields(entries);
    while !entries.0.is_empty() {
        apply_entry(entries.bytes(), state);
    }
}

fn apply_entry(entry: &[u8], state: &mut State) {
    let Some((&kind, rest)) = entry.split_first() else { return };
    let mut fields = Fields(rest);
    match kind {
        k if k == EntryKind::Cursor as u8 => {
            let index = fields.u32() as usize;
            let id = fields.u64();
            let name = String::from_utf8_lossy(fields.bytes()).into_owned();
            name_slot(state, index, id, &name);
        }
        k if k == EntryKind::CursorDropped as u8 => {
            let index = fields.u32() as usize;
            let cursor = cursor_slot(state, index);
            (cursor.dropped, cursor.parts) = (true, Parts::default());
        }
        k if k == EntryKind::Source as u8 => {
            let id = SourceId(fields.u64());
            let source = state.sources.entry(id).or_default();
            source.name = String::from_utf8_lossy(fields.bytes()).into_owned();
        }
        k if k == EntryKind::Stream as u8 => apply_stream(&mut fields, state),
        k if k == EntryKind::Book as u8 => {
            let index = fields.u32() as usize;
            cursor_slot(state, index).committed_book = CursorBook::decode(fields.bytes());
        }
        k if k == EntryKind::Part as u8 => {
            let (index, part) = (fields.u32() as usize, fields.u64());
            let book = CursorBook::decode(fields.bytes());
            cursor_slot(state, index).parts.restore(part, book);
        }
        k if k == EntryKind::Moved as u8 => {
            state.rewriting.moved_frames.up_to = (fields.u64(), fields.u64());
            let failed = |fields: &mut Fields<'_>| ((fields.u64(), fields.u64()), fields.u64());
            state.rewriting.moved_frames.failed =
                (0..fields.u8()).map(|_| failed(&mut fields)).collect();
        }
        k if k == EntryKind::Fold as u8 => apply_fold(&mut fields, state),
        k if k == EntryKind::Ended as u8 => {
            let stream = StreamId(fields.u64());
            let last = (fields.u64(), fields.u64());
            state.ended.insert(stream, last);
        }
        // A kind of a later release that can still be read by this one: it is not needed here.
        _ => {}
    }
}

fn apply_fold(fields: &mut Fields<'_>, state: &mut State) {
    for _ in 0..fields.count() {
        let stream = StreamId(fields.u64());
        state.streams.remove(&stream);
    }
    for _ in 0..fields.count() {
        let id = SourceId(fields.u64());
        state.sources.entry(id).or_default().folded = SourceBook::decode(fields.bytes());
    }
}

fn cursor_slot(state: &mut State, index: usize) -> &mut CursorState {
    let index = index.min(CURSORS_MAX - 1);
    while state.cursors.len() <= index {
        let mut unnamed = CursorState::new(String::new(), 0);
        unnamed.fresh = false;
        state.cursors.push(unnamed);
    }
    &mut state.cursors[index]
}

fn apply_stream(fields: &mut Fields<'_>, state: &mut State) {
    let stream = StreamId(fields.u64());
    let group = fields.u64();
    let source = Some(SourceId(fields.u64()));
    let flags = fields.u8();
    let furthest = fields.checkpoint();
    let epoch_begins: VecDeque<_> = (0..fields.u8()).map(|_| fields.checkpoint()).collect();
    let marks: Vec<_> = (0..fields.u8()).map(|_| fields.checkpoint()).collect();
    let known_cursors = (fields.u32() as usize).min(CURSORS_MAX);
    if let Some(last) = known_cursors.checked_sub(1) {
        let _exists_now = cursor_slot(state, last);
    }
    let mut cursor_streams = CursorStreams::of_known(known_cursors);
    for _ in 0..fields.count() {
        let (index, position_kind) = (fields.u32() as usize, fields.u8());
        if position_kind == CursorPosition::Unknown as u8 {
            cursor_streams.set_unknown(index);
            continue;
        }
        let committed = Position::new(fields.u32(), fields.u64());
        let (rows, rows_before) = (fields.u64(), fields.u64());
        let candidates = marks.iter().chain(&epoch_begins).chain([&furthest]);
        let mark = candidates.filter(|mark| mark.end <= committed).max_by_key(|mark| mark.end);
        let begin = || Checkpoint::at(Position::new(committed.epoch, 0));
        let mark = mark.cloned().unwrap_or_else(|| Arc::new(begin()));
        let owed_rows = OwedRows { until: furthest.end, rows, rows_before };
        let cs = CursorStream { committed, mark, owed_rows, ..CursorStream::default() };
        if index < known_cursors {
            cursor_streams.set(index, cs);
        }
    }
    let place = |fields: &mut Fields<'_>| Position::new(fields.u32(), fields.u64());
    let abandoned = |fields: &mut Fields<'_>| AbandonedFrames {
        after: place(fields),
        last: (fields.u64(), fields.u64()),
    };
    let abandoned = (0..fields.u8()).map(|_| abandoned(fields)).collect();
    let checkpoint = furthest.clone();
    let mut known = StreamState {
        source,
        group,
        checkpoint,
        furthest,
        is_unrepeatable: flags & FLAG_UNREPEATABLE != 0,
        is_durable: flags & FLAG_DURABLE != 0,
        cursor_streams,
        ..StreamState::default()
    };
    known.restore_past(epoch_begins, abandoned);
    state.streams.insert(stream, Box::new(known));
}

/// The entries of one record.
#[derive(Debug)]
pub(crate) struct Records {
    kind: EntryKind,
    entries: Vec<u8>,
}

impl Records {
    fn new(kind: EntryKind) -> Self {
        Self { kind, entries: Vec::new() }
    }

    fn record(&mut self, kind: EntryKind, fill: impl FnOnce(&mut Vec<u8>)) {
        put_encoded(&mut self.entries, |out| {
            out.push(kind as u8);
            fill(out);
        });
    }

    /// Encodes the record for a file with that salt.
    fn encode(&self, salt: &[u8]) -> Vec<u8> {
        record_file::record(salt, |out| {
            out.push(self.kind as u8);
            out.extend_from_slice(&self.entries);
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn names(&mut self, state: &State) {
        for (index, cursor) in state.cursors.iter().enumerate() {
            self.record(EntryKind::Cursor, |out| {
                put_u32(out, index as u32);
                out.extend_from_slice(&cursor.id.to_le_bytes());
                put_bytes(out, cursor.name.as_bytes());
            });
            if cursor.dropped {
                self.record(EntryKind::CursorDropped, |out| put_u32(out, index as u32));
            }
        }
        for (id, source) in &state.sources {
            self.record(EntryKind::Source, |out| {
                out.extend_from_slice(&id.0.to_le_bytes());
                put_bytes(out, source.name.as_bytes());
            });
        }
    }

    /// Adds ended streams, while their locations are still known.
    fn ended(&mut self, state: &State, streams: impl Iterator<Item = StreamId>) {
        for stream in streams {
            let Some((segment, offset)) = state.ended.get(&stream) else { continue };
            self.record(EntryKind::Ended, |out| {
                out.extend_from_slice(&stream.0.to_le_bytes());
                out.extend_from_slice(&segment.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
            });
        }
    }

    fn fold(&mut self, state: &State, ended: &[EndedStream]) {
        self.record(EntryKind::Fold, |out| {
            put_u32(out, ended.len() as u32);
            for folded in ended {
                out.extend_from_slice(&folded.stream.0.to_le_bytes());
            }
            put_u32(out, state.sources.len() as u32);
            for (id, source) in &state.sources {
                out.extend_from_slice(&id.0.to_le_bytes());
                put_encoded(out, |out| source.folded.encode(out));
            }
        });
    }

    fn book(&mut self, index: usize, book: &CursorBook) {
        self.record(EntryKind::Book, |out| {
            put_u32(out, index as u32);
            put_encoded(out, |out| book.encode(out));
        });
    }

    fn part(&mut self, index: usize, part: u64, book: &CursorBook) {
        self.record(EntryKind::Part, |out| {
            put_u32(out, index as u32);
            out.extend_from_slice(&part.to_le_bytes());
            put_encoded(out, |out| book.encode(out));
        });
    }

    fn moved(&mut self, moved: &MovedFrames) {
        self.record(EntryKind::Moved, |out| {
            let (segment, offset) = moved.up_to;
            out.extend_from_slice(&segment.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
            out.push(moved.failed.len() as u8);
            for ((segment, offset), last) in &moved.failed {
                for number in [segment, offset, last] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
        });
    }

    /// Adds the positions of a stream and its destinations.
    fn stream(&mut self, state: &State, stream: StreamId, known: &StreamState) {
        let furthest = &known.furthest;
        let lowest = |is_active: bool| {
            let of = |(index, _): &(usize, &CursorStream)| {
                let cursor = &state.cursors[*index];
                !cursor.dropped && cursor.is_active() == is_active
            };
            let listed = known.cursor_streams.iter().filter(of).map(|(_, cs)| cs);
            listed.filter(|cs| cs.committed < furthest.end).min_by_key(|cs| cs.committed)
        };
        let marks: Vec<_> =
            [true, false].into_iter().filter_map(lowest).map(|cs| &cs.mark).collect();
        self.record(EntryKind::Stream, |out| {
            out.extend_from_slice(&stream.0.to_le_bytes());
            out.extend_from_slice(&known.group.to_le_bytes());
            out.extend_from_slice(&known.source.map_or(0, |s| s.0).to_le_bytes());
            let unrepeatable = u8::from(known.is_unrepeatable) * FLAG_UNREPEATABLE;
            let durable = u8::from(known.is_durable) * FLAG_DURABLE;
            out.push(unrepeatable | durable);
            put_checkpoint(out, furthest);
            out.push(known.epoch_begins().len() as u8);
            for begin in known.epoch_begins() {
                put_checkpoint(out, begin);
            }
            out.push(marks.len() as u8);
            for mark in marks {
                put_checkpoint(out, mark);
            }
            put_u32(out, known.cursor_streams.known() as u32);
            put_cursor_positions(out, &known.cursor_streams, furthest.end);
            out.push(known.abandoned().len() as u8);
            for abandoned in known.abandoned() {
                put_u32(out, abandoned.after.epoch);
                let (segment, offset) = abandoned.last;
                for number in [abandoned.after.offset, segment, offset] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
        });
    }

    /// Collects everything that changed since the last call: names, positions, ended streams.
    pub(crate) fn collect(state: &mut State) -> Self {
        let mut records = Self::new(EntryKind::Group);
        if std::mem::take(&mut state.names_dirty) {
            records.names(state);
        }
        for (index, cursor) in state.cursors.iter_mut().enumerate() {
            if std::mem::take(&mut cursor.is_book_dirty) {
                records.book(index, &cursor.committed_book);
            }
            for (part, book) in cursor.parts.take_changed() {
                records.part(index, part, &book);
            }
        }
        for stream in std::mem::take(&mut state.dirty_streams) {
            let Some(known) = state.streams.get_mut(&stream) else { continue };
            known.is_dirty = false;
            let known = &state.streams[&stream];
            records.stream(state, stream, known);
        }
        if std::mem::take(&mut state.rewriting.moved_frames.is_dirty) {
            records.moved(&state.rewriting.moved_frames);
        }
        let ended = std::mem::take(&mut state.folded);
        if !ended.is_empty() {
            records.ended(state, ended.iter().map(|folded| folded.stream));
            records.fold(state, &ended);
        }
        records
    }

    /// Collects the whole state.
    fn snapshot(state: &State) -> Self {
        let mut all = Self::new(EntryKind::Snapshot);
        all.names(state);
        all.ended(state, state.ended.keys().copied());
        all.fold(state, &[]);
        all.moved(&state.rewriting.moved_frames);
        for (index, cursor) in state.cursors.iter().enumerate() {
            all.book(index, &cursor.committed_book);
            for (part, book) in cursor.parts.all() {
                all.part(index, part, &book);
            }
        }
        for (stream, known) in &state.streams {
            all.stream(state, *stream, known);
        }
        all
    }
}

/// Writes every destination that is not at `furthest`.
fn put_cursor_positions(out: &mut Vec<u8>, cursor_streams: &CursorStreams, furthest: Position) {
    let is_behind = |(_, cs): &(usize, &CursorStream)| cs.committed < furthest;
    let behind = || cursor_streams.iter().filter(is_behind);
    put_u32(out, (cursor_streams.unknown().len() + behind().count()) as u32);
    for index in cursor_streams.unknown() {
        put_u32(out, *index as u32);
        out.push(CursorPosition::Unknown as u8);
    }
    for (index, cs) in behind() {
        put_u32(out, index as u32);
        out.push(CursorPosition::Behind as u8);
        put_u32(out, cs.committed.epoch);
        let (owed, owed_before) = cs.owed(furthest);
        for number in [cs.committed.offset, owed, owed_before] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// A generation that is complete and flushed, under a temporary name.
struct NextGeneration {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    salt: [u8; 8],
    len: u64,
}

/// Writes a new generation under a temporary name and flushes it.
fn write_generation(disk: &dyn Disk, dir: &Path, records: &Records) -> io::Result<NextGeneration> {
    let path = dir.join("cursors.tmp");
    let _leftover = disk.remove(&path);
    let file = disk.open(&path, OpenMode::CreateNew)?;
    let salt = record_file::new_salt();
    let header = record_file::header(FILE_MAGIC, VERSION, salt);
    let record = records.encode(&salt);
    let written = file.write_all_at(&mut [IoSlice::new(&header), IoSlice::new(&record)], 0);
    if let Err(error) = written.and_then(|()| file.sync_data()) {
        // On a full disk its space is needed.
        let _removed_before_the_next = disk.remove(&path);
        return Err(error);
    }
    let len = (HEADER_LEN + record.len()) as u64;
    Ok(NextGeneration { path, file, salt, len })
}

impl CursorLog {
    /// Returns how much space the log may need before frames can be freed: until it is rewritten,
    /// and for that.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        POSITIONS_RESERVE_BYTES_MIN.max(2 * self.len).max(4 * self.snapshot_len)
    }

    /// Appends records and makes them durable.
    pub(crate) fn write(&mut self, records: &Records) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| !self.failed) else {
            return Err(io::Error::other("the cursor log failed and must be rewritten"));
        };
        let record = records.encode(&self.salt);
        let mut parts = [IoSlice::new(&record)];
        let path = file_name(&self.dir, self.generation);
        let written = file.write_all_at(&mut parts, self.len).and_then(|()| file.sync_data());
        let written = written.and_then(|()| in_place(&**file, &path));
        self.failed = written.is_err();
        self.len += record.len() as u64;
        written
    }

    /// Returns whether it is so long, and so much of it history, that it should be rewritten.
    pub(crate) fn is_long(&self) -> bool {
        self.len > CURSOR_LOG_BYTES_MIN.max(self.snapshot_len * 4)
    }

    /// Returns whether rewriting it frees so much that it should be done when space is scarce. The
    /// previous generation counts: it is removed then.
    pub(crate) fn is_mostly_history(&self) -> bool {
        self.len + self.previous_len > CURSOR_LOG_TIGHT_BYTES_MIN.max(self.snapshot_len * 8)
    }

    /// Returns whether it must be rewritten before anything is added to it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Notes that it lacks records that should have been added to it.
    pub(crate) fn lacks_records(&mut self) {
        self.failed = true;
    }

    /// Starts the next generation with the full state. If there is no space for it, nothing
    /// changes.
    pub(crate) fn rewrite(&mut self, disk: &dyn Disk, records: &Records) -> io::Result<()> {
        // Segments that were removed must stay removed, because their streams may be forgotten now.
        disk.sync_dir(&self.dir)?;
        let next = write_generation(disk, &self.dir, records)?;
        // Until this succeeds, nothing may be appended to the old generation: if the attempt gets
        // as far as renaming, the new generation takes precedence over such records.
        self.failed = true;
        disk.rename(&next.path, &file_name(&self.dir, self.generation + 1))?;
        disk.sync_dir(&self.dir)?;
        *self = Self {
            dir: std::mem::take(&mut self.dir),
            generation: self.generation + 1,
            file: Some(next.file),
            salt: next.salt,
            len: next.len,
            snapshot_len: next.len,
            previous_len: self.len,
            failed: false,
        };
        // The previous generation stays as a second copy until the next one is written.
        if let Some(old) = self.generation.checked_sub(2) {
            let _gone_already = disk.remove(&file_name(&self.dir, old));
        }
        Ok(())
    }
}

/// Takes a snapshot for [`CursorLog::rewrite`]; called with the lock held.
pub(crate) fn snapshot(state: &State) -> Records {
    Records::snapshot(state)
}

/// Resets the totals after replay: exactly what is committed is settled, and nothing is in flight.
fn settle_totals(state: &mut State) {
    for cursor in &mut state.cursors {
        cursor.committed_book.routed = cursor.committed_book.settled();
        cursor.total = cursor.committed_book;
    }
}
