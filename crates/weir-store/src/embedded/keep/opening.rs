//! Opening a store: the manifest, every segment, and whatever an interrupted run left behind.
//!
//! Rules, in this order. Unfinished files (`.tmp`) are removed. While the manifest is intact, it is
//! authoritative: files that it does not list are removed. When it may have lost something (it is
//! missing, damaged, its end is torn, a segment is newer than all that it lists, or a listed one is
//! missing), every intact segment on disk is adopted, unless its sequences are all in listed
//! segments or it overlaps with a larger one: a segment gets its final name only when it is
//! complete, and its metadata says which sequences it holds; the positions are read from its rows.
//! A damaged segment is set aside. The store opens even when the disk is not writable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::Disk;
use weir_model::{Position, StreamId};

use super::catalog::{Catalog, LiveSegment};
use crate::embedded::read::snapshot::OpenSegment;
use crate::embedded::segment::{Fixed, PageBuffer, PageValues, Role, Segment, SegmentError};
use crate::embedded::write::files::{
    SET_ASIDE_EXTENSION, SegmentFiles, has_extension, id_of, name_of, set_aside_path,
    set_aside_rows,
};
use crate::embedded::write::flusher::PendingCommit;
use crate::embedded::write::manifest::{
    Contents, DeletionEntry, Manifest, ManifestChange, ManifestError, SegmentEntry,
};
use crate::limits::SEQUENCE_GAP;

/// Reported for a segment that is not the one that the manifest lists.
const OTHER_COUNT: &str = "the number of records differs from the manifest";

/// Result of opening a store.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    pub(crate) manifest: Manifest,
    pub(crate) catalog: Catalog,
    /// Differences from the manifest, to be committed first.
    pub(crate) pending: Option<PendingCommit>,
}

/// Files below the store's directory, by kind.
#[derive(Debug, Default)]
struct StoreFiles {
    /// In the top directory.
    top: Vec<PathBuf>,
    segments: BTreeMap<u64, PathBuf>,
    sidecars: Vec<PathBuf>,
    temporary: Vec<PathBuf>,
    bad: BTreeMap<u64, PathBuf>,
}

/// Opens the store in `dir`, which is created when missing.
pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<OpenedStore, ManifestError> {
    let io_error = |what| {
        let path = dir.to_owned();
        move |error| ManifestError::Io { what, path, error }
    };
    disk.create_dir_all(dir).map_err(io_error("cannot create"))?;
    let found = find(disk, dir).map_err(io_error("cannot read"))?;
    let (manifest, recovered) = Manifest::open(disk, dir, &found.top)?;
    for path in &found.temporary {
        let _removed_next_time = disk.remove(path);
    }
    let is_new = *manifest.contents() == Contents::default();
    let may_be_incomplete =
        recovered.may_have_forgotten() || (is_new && !found.segments.is_empty());
    let mut opening = Recovery {
        disk,
        dir,
        found: &found,
        catalog: Catalog { is_catching_up: true, ..Catalog::default() },
        change: ManifestChange::default(),
    };
    for set_aside in &recovered.set_aside {
        let text = format!("the manifest was damaged; a copy was kept as {set_aside}");
        opening.catalog.damaged.insert(text);
    }
    opening.open_known(manifest.contents());
    let may_be_incomplete = may_be_incomplete || opening.is_outdated(manifest.contents());
    if may_be_incomplete {
        opening.adopt();
    }
    opening.remove_unknown();
    let ended = |deletion: &DeletionEntry| deletion.done_ns.is_some();
    if !may_be_incomplete && manifest.contents().deletions.values().any(ended) {
        // A deletion ended, and the machine stopped before the older copies that contain it were
        // removed.
        if let Err(error) = manifest.forget_history(disk) {
            tracing::warn!(%error, "old generations of the manifest cannot be removed");
        }
    }
    let Recovery { mut catalog, mut change, .. } = opening;
    catalog.set_deletions(manifest.contents());
    let mut counters = manifest.contents().counters;
    let last = |live: &LiveSegment| (live.entry.id + 1, live.entry.sequences.1 + 1);
    for (next_segment, next_sequence) in catalog.segments.values().map(last) {
        counters.next_segment = counters.next_segment.max(next_segment);
        counters.next_sequence = counters.next_sequence.max(next_sequence);
    }
    // The numbers of files that are no longer listed are not reused.
    let numbers = found.segments.keys().chain(found.bad.keys()).max();
    counters.next_segment = counters.next_segment.max(numbers.map_or(1, |id| id + 1));
    change.counters = counters;
    let is_changed = may_be_incomplete || !change.removed.is_empty();
    let pending = is_changed.then(|| PendingCommit { change, ..PendingCommit::default() });
    counters.next_sequence += SEQUENCE_GAP;
    catalog.counters = counters;
    Ok(OpenedStore { manifest, catalog, pending })
}

/// Scans the directory and its subdirectories for days and hours.
fn find(disk: &dyn Disk, dir: &Path) -> io::Result<StoreFiles> {
    let is_number = |path: &Path, digits: usize| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.len() == digits && name.bytes().all(|b| b.is_ascii_digit())
    };
    let top = disk.list(dir)?;
    let mut found = StoreFiles::default();
    for day in top.iter().filter(|path| is_number(path, 8)) {
        for hour in disk.list(day)?.iter().filter(|path| is_number(path, 2)) {
            disk.list(hour)?.into_iter().for_each(|path| found.add(path));
        }
    }
    found.top = top;
    Ok(found)
}

impl StoreFiles {
    fn add(&mut self, path: PathBuf) {
        if has_extension(&path, "tmp") {
            self.temporary.push(path);
        } else if let Some(id) = id_of(&path) {
            if has_extension(&path, "parquet") {
                self.segments.insert(id, path);
            } else if has_extension(&path, "widx") {
                self.sidecars.push(path);
            } else if has_extension(&path, SET_ASIDE_EXTENSION) {
                self.bad.insert(id, path);
            }
        }
    }
}

struct Recovery<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    found: &'a StoreFiles,
    catalog: Catalog,
    change: ManifestChange,
}

impl Recovery<'_> {
    /// Opens the segments that the manifest lists.
    fn open_known(&mut self, contents: &Contents) {
        for entry in contents.segments.values() {
            let files = SegmentFiles::new(self.dir, entry.id, entry.hour);
            match files.open(self.disk) {
                Ok(open) if open.segment.row_count() == entry.rows => {
                    let live = LiveSegment { entry: *entry, open: Some(Arc::new(open)) };
                    self.catalog.segments.insert(entry.id, live);
                }
                Ok(_) => self.set_aside(entry.id, &files, OTHER_COUNT, Some(entry.rows)),
                Err(SegmentError::Damaged(what)) => {
                    self.set_aside(entry.id, &files, what, Some(entry.rows));
                }
                Err(error) => self.keep_unreadable(entry, &files, &error),
            }
        }
        for (id, path) in &self.found.bad {
            let records = with_records(set_aside_rows(path));
            self.catalog.damaged.insert(format!("{} was damaged{records}", name_of(*id)));
        }
    }

    /// Returns whether the manifest is intact but outdated: a segment is newer than all that it
    /// lists, or a listed one is missing. Its last records are missing or were never written.
    fn is_outdated(&self, contents: &Contents) -> bool {
        let is_gone = |id: &u64| !self.found.segments.contains_key(id);
        let unknown = |(id, _): &(&u64, &PathBuf)| !contents.segments.contains_key(*id);
        let is_newer = |(_, path): (&u64, &PathBuf)| {
            let segment = SegmentFiles::of(path.clone()).open_segment(self.disk).ok();
            let provenance = segment.as_ref().and_then(Segment::provenance);
            provenance.is_some_and(|p| p.sequences.0 >= contents.counters.next_sequence)
        };
        contents.segments.keys().any(is_gone)
            || self.found.segments.iter().filter(unknown).any(is_newer)
    }

    /// Leaves a segment alone that cannot be read now but perhaps later.
    fn keep_unreadable(
        &mut self,
        entry: &SegmentEntry,
        files: &SegmentFiles,
        error: &SegmentError,
    ) {
        let is_missing =
            matches!(error, SegmentError::Io(error) if error.kind() == io::ErrorKind::NotFound);
        if is_missing && self.found.bad.contains_key(&entry.id) {
            // It was set aside, and the machine stopped before the manifest was updated.
            self.change.removed.push(entry.id);
            return;
        }
        tracing::error!(segment = %files.segment.display(), %error, "segment cannot be read");
        let records = with_records(Some(entry.rows));
        self.catalog.damaged.insert(format!("{}: {error}{records}", files.segment.display()));
        self.catalog.segments.insert(entry.id, LiveSegment { entry: *entry, open: None });
    }

    /// Keeps a damaged segment under another name, for inspection.
    fn set_aside(&mut self, id: u64, files: &SegmentFiles, what: &str, rows: Option<u64>) {
        let aside = set_aside_path(&files.segment, rows);
        tracing::error!(segment = %files.segment.display(), what, "segment is damaged; set aside");
        let records = with_records(rows);
        self.catalog.damaged.insert(format!("{}: {what}{records}", aside.display()));
        let dir = files.segment.parent().unwrap_or(Path::new(""));
        let renamed = self.disk.rename(&files.segment, &aside);
        if renamed.and_then(|()| self.disk.sync_dir(dir)).is_ok() {
            let _removed_next_time = self.disk.remove(&files.sidecar);
            self.change.removed.push(id);
        }
    }

    /// Adopts segments that the manifest does not list, and drops those contained in a larger one.
    fn adopt(&mut self) {
        let mut all: Vec<(SegmentEntry, Option<Arc<OpenSegment>>)> =
            std::mem::take(&mut self.catalog.segments)
                .into_values()
                .map(|live| (live.entry, live.open))
                .collect();
        let known: BTreeSet<u64> = all.iter().map(|(entry, _)| entry.id).collect();
        let readable: Vec<(u64, u64)> = all
            .iter()
            .filter(|(_, open)| open.is_some())
            .map(|(entry, _)| entry.sequences)
            .collect();
        for (id, path) in self.found.segments.iter().filter(|(id, _)| !known.contains(id)) {
            let files = SegmentFiles::of(path.clone());
            match files.open(self.disk) {
                Ok(open) => {
                    let entry = entry_of(*id, &open);
                    let entry = entry.filter(|entry| !is_covered(entry.sequences, &readable));
                    all.extend(entry.map(|entry| (entry, Some(Arc::new(open)))));
                }
                Err(SegmentError::Damaged(what)) => self.set_aside(*id, &files, what, None),
                Err(error) => {
                    tracing::warn!(segment = %path.display(), %error, "unlisted segment ignored");
                }
            }
        }
        // Readable ones first, then larger ones, then newer ones.
        let weight = |(entry, open): &(SegmentEntry, Option<_>)| {
            (open.is_some(), entry.sequences.1 - entry.sequences.0, entry.id)
        };
        all.sort_by_key(|one| std::cmp::Reverse(weight(one)));
        let mut kept: Vec<SegmentEntry> = Vec::new();
        for (entry, open) in all {
            let (first, last) = entry.sequences;
            if kept.iter().any(|k| k.sequences.0 <= last && first <= k.sequences.1) {
                if known.contains(&entry.id) {
                    self.change.removed.push(entry.id);
                }
                continue;
            }
            kept.push(entry);
            if !known.contains(&entry.id) {
                self.change.added.push(entry);
                tracing::warn!(segment = entry.id, "segment adopted");
                if let Some(open) = &open {
                    self.adopt_positions(&open.segment);
                }
            }
            self.catalog.segments.insert(entry.id, LiveSegment { entry, open });
        }
    }

    fn adopt_positions(&mut self, segment: &Segment) {
        match positions_of(segment) {
            Ok(positions) => self.change.positions.extend(positions),
            Err(error) => {
                tracing::error!(%error, "unreadable positions; records may be stored twice");
            }
        }
    }

    /// Removes segments and sidecars that are not part of the store.
    fn remove_unknown(&self) {
        let is_unknown = |path: &&PathBuf| {
            let id = id_of(path);
            id.is_none_or(|id| !self.catalog.segments.contains_key(&id))
        };
        let all = self.found.segments.values().chain(&self.found.sidecars);
        for path in all.filter(is_unknown) {
            let _removed_next_time = self.disk.remove(path);
        }
    }
}

/// Returns a phrase with the number of records that cannot be read, where it is known.
pub(crate) fn with_records(rows: Option<u64>) -> String {
    rows.map_or_else(String::new, |rows| format!(", with {rows} records"))
}

/// Returns whether all sequences of a segment are in other segments: it was replaced by them, or
/// was meant to replace them.
fn is_covered(sequences: (u64, u64), others: &[(u64, u64)]) -> bool {
    let mut next = sequences.0;
    let mut others: Vec<_> = others.to_vec();
    others.sort_unstable();
    for (first, last) in others {
        if first <= next && next <= last {
            next = last + 1;
        }
    }
    next > sequences.1
}

/// Builds the manifest entry for a segment; `None` when it was not written by a store.
fn entry_of(id: u64, open: &OpenSegment) -> Option<SegmentEntry> {
    let provenance = *open.segment.provenance()?;
    (provenance.id == id).then_some(())?;
    Some(SegmentEntry {
        id,
        stored_ns: provenance.stored_ns,
        hour: provenance.hour,
        tier: provenance.tier,
        rows: open.segment.row_count(),
        raw_bytes: provenance.raw_bytes,
        segment_bytes: open.segment.file_bytes().ok()?,
        sidecar_bytes: open
            .sidecar
            .as_ref()
            .map_or(0, crate::embedded::sidecar::Sidecar::file_bytes),
        times_ns: open.segment.time_range_ns().unwrap_or_default(),
        sequences: provenance.sequences,
    })
}

/// Returns the last position of each stream that has records in the segment.
fn positions_of(segment: &Segment) -> Result<HashMap<StreamId, Position>, SegmentError> {
    let mut buffer = PageBuffer::new()?;
    let mut last: HashMap<StreamId, Position> = HashMap::new();
    for group in 0..segment.group_count() {
        let mut column = |fixed| read_numbers(segment, group, fixed, &mut buffer);
        let streams = column(Fixed::Stream)?;
        let epochs = column(Fixed::Epoch)?;
        let offsets = column(Fixed::Offset)?;
        for ((stream, epoch), offset) in streams.into_iter().zip(epochs).zip(offsets) {
            let position = Position::new(epoch as u32, offset);
            let known = last.entry(StreamId(stream)).or_default();
            *known = (*known).max(position);
        }
    }
    Ok(last)
}

fn read_numbers(
    segment: &Segment,
    group: usize,
    fixed: Fixed,
    buffer: &mut PageBuffer,
) -> Result<Vec<u64>, SegmentError> {
    let damaged = SegmentError::Damaged("invalid record values");
    let column = segment.column(&Role::Fixed(fixed)).ok_or(damaged)?;
    let dictionary = segment.dictionary(group, column, buffer)?;
    let mut numbers = Vec::with_capacity(segment.group_rows(group));
    for page in 0..segment.page_count(group) {
        segment.read_page(group, column, page, buffer)?;
        match (buffer.values(), &dictionary) {
            (PageValues::Ints(values), _) => {
                numbers.extend(values.iter().map(|value| value.cast_unsigned()));
            }
            (
                PageValues::Codes(codes),
                Some(crate::embedded::segment::Dictionary::Ints(values)),
            ) => {
                let value = |code: &u32| values.get(*code as usize).map(|v| v.cast_unsigned());
                numbers.extend(codes.iter().filter_map(value));
            }
            _ => return Err(SegmentError::Damaged("invalid record values")),
        }
    }
    Ok(numbers)
}
