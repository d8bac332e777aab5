//! Reads everything that is stored, and reports what is damaged or missing.
//!
//! Invariant: nothing is changed, so it can run next to a running weir. Files that weir removes in
//! the meantime are ignored: it removes a segment from the manifest before it removes the file, so
//! a file that is gone counts as missing only if the manifest, read after that, still lists it.
//! Records are counted once: not those of a file that was replaced and awaits removal, or that is
//! about to replace others.

use std::io;
use std::path::{Path, PathBuf};

use weir_host::{Disk, OpenMode};

use super::opening::with_records;
use crate::embedded::segment::{ChunkInfo, PageBuffer, Segment, SegmentError};
use crate::embedded::sidecar::{Sidecar, SidecarError};
use crate::embedded::write::files::{
    SET_ASIDE_EXTENSION, SegmentFiles, has_extension, id_of, set_aside_path, set_aside_rows,
};
use crate::embedded::write::manifest::{Manifest, ManifestError, SegmentEntry};

/// The result for one segment.
#[derive(Debug)]
pub struct Verified {
    /// Its file.
    pub path: PathBuf,
    /// Number of records, as far as its footer can be read; 0 when the manifest does not list it.
    pub rows: u64,
    /// The manifest does not list it: it was replaced by others, or is not finished.
    pub is_spare: bool,
    /// How many bytes of the file and its sidecar were read.
    pub bytes: u64,
    /// Size of both files: this segment's part of [`bytes_to_verify`].
    pub file_bytes: u64,
    /// What is wrong with the segment.
    pub fault: Option<Fault>,
    /// What is wrong with its sidecar, which can be rebuilt.
    pub sidecar_fault: Option<SidecarError>,
}

/// What is wrong with a segment.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// It is in the manifest but not on disk.
    #[error("the segment is missing, with {rows} records")]
    Missing {
        /// How many records it had.
        rows: u64,
    },
    /// It was damaged and is kept for inspection.
    #[error("the segment was damaged and set aside{}; searches skip it", with_records(*.rows))]
    SetAside {
        /// How many records it had, where known.
        rows: Option<u64>,
    },
}

impl Verified {
    /// Creates the result for a file that is not read.
    fn unread(path: PathBuf, fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::of(path) }
    }

    /// Creates the result for a file that has not been checked yet.
    fn of(path: PathBuf) -> Self {
        let (fault, sidecar_fault) = (None, None);
        Self { path, rows: 0, is_spare: false, bytes: 0, file_bytes: 0, fault, sidecar_fault }
    }
}

/// Reads every page of every segment below the directory of a store, and its sidecar. Calls `each`
/// after each segment, in order of name, then for each segment that was set aside or is missing.
///
/// # Errors
/// A directory cannot be listed, or the manifest was written by a later release.
pub fn verify(
    dir: &Path,
    disk: &dyn Disk,
    mut each: impl FnMut(Verified),
) -> Result<(), ManifestError> {
    let io_error = |error| ManifestError::Io { what: "cannot read", path: dir.into(), error };
    let named = Manifest::read(disk, dir)?.segments;
    for path in files_below(dir, disk, "parquet").map_err(io_error)? {
        // Without a manifest, every segment counts.
        let is_named = |id: u64| named.is_empty() || named.contains_key(&id);
        let is_spare = !id_of(&path).is_some_and(is_named);
        if let Some(verified) = verify_segment(path, disk) {
            let rows = if is_spare { 0 } else { verified.rows };
            each(Verified { rows, is_spare, ..verified });
        }
    }
    for path in files_below(dir, disk, SET_ASIDE_EXTENSION).map_err(io_error)? {
        let rows = set_aside_rows(&path);
        each(Verified::unread(path, Fault::SetAside { rows }));
    }
    for (path, rows) in missing(dir, disk)? {
        each(Verified::unread(path, Fault::Missing { rows }));
    }
    Ok(())
}

/// Returns the segments that the manifest lists but that are missing when it is read again, with
/// the number of their records. Segments that were set aside are not included.
fn missing(dir: &Path, disk: &dyn Disk) -> Result<Vec<(PathBuf, u64)>, ManifestError> {
    let file = |entry: &SegmentEntry| SegmentFiles::new(dir, entry.id, entry.hour).segment;
    let is_gone = |path: &Path| {
        let opened = disk.open(path, OpenMode::Read);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let is_missing = |entry: &&SegmentEntry| {
        let aside = [None, Some(entry.rows)].map(|rows| set_aside_path(&file(entry), rows));
        is_gone(&file(entry)) && aside.iter().all(|path| is_gone(path))
    };
    let named = Manifest::read(disk, dir)?.segments;
    let mut missing: Vec<SegmentEntry> = named.values().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        let named = Manifest::read(disk, dir)?.segments;
        missing.retain(|entry| named.contains_key(&entry.id));
    }
    Ok(missing.iter().map(|entry| (file(entry), entry.rows)).collect())
}

/// Returns the total size of the files that [`verify`] would read, segments and sidecars, as far as
/// it can be determined.
///
/// # Errors
/// A directory cannot be listed.
pub fn bytes_to_verify(dir: &Path, disk: &dyn Disk) -> io::Result<u64> {
    let segments = files_below(dir, disk, "parquet")?.into_iter();
    Ok(segments.map(|path| file_bytes(&SegmentFiles::of(path), disk)).sum())
}

/// Returns the size of the files of a segment; 0 if they were removed in the meantime.
fn file_bytes(files: &SegmentFiles, disk: &dyn Disk) -> u64 {
    let len = |path: &PathBuf| disk.open(path, OpenMode::Read).and_then(|file| file.len());
    [&files.segment, &files.sidecar].into_iter().filter_map(|path| len(path).ok()).sum()
}

/// Lists files in the directories of days and, within them, of hours.
fn files_below(dir: &Path, disk: &dyn Disk, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for day in disk.list(dir)? {
        // Something that is not a directory lists nothing.
        for hour in disk.list(&day).unwrap_or_default() {
            let files = disk.list(&hour).unwrap_or_default();
            found.extend(files.into_iter().filter(|path| has_extension(path, extension)));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns `None` when it was removed in the meantime.
fn verify_segment(path: PathBuf, disk: &dyn Disk) -> Option<Verified> {
    let files = SegmentFiles::of(path.clone());
    let mut verified = Verified { file_bytes: file_bytes(&files, disk), ..Verified::of(path) };
    let segment = match files.open_segment(disk) {
        Ok(segment) => segment,
        Err(SegmentError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            verified.fault = Some(error.into());
            return Some(verified);
        }
    };
    verified.rows = segment.row_count();
    verified.fault = read_all(&segment, &mut verified.bytes).err().map(Fault::from);
    match files.open_sidecar(disk, &segment) {
        Ok(sidecar) => {
            verified.bytes += sidecar.file_bytes();
            verified.sidecar_fault = read_sidecar(&sidecar, &segment).err();
        }
        Err(error) => verified.sidecar_fault = Some(error),
    }
    Some(verified)
}

fn read_all(segment: &Segment, bytes: &mut u64) -> Result<(), SegmentError> {
    let mut buffer = PageBuffer::new()?;
    for group in 0..segment.group_count() {
        for column in 0..segment.columns().len() {
            *bytes += segment.chunk(group, column).map_or(0, ChunkInfo::packed_bytes);
            segment.dictionary(group, column, &mut buffer)?;
            for page in 0..segment.page_count(group) {
                segment.read_page(group, column, page, &mut buffer)?;
            }
        }
    }
    Ok(())
}

/// Reads all data, and decodes what can be decoded.
fn read_sidecar(sidecar: &Sidecar, segment: &Segment) -> Result<(), SidecarError> {
    sidecar.check_data()?;
    for group in 0..segment.group_count() {
        sidecar.counts(group)?;
        sidecar.grams(group)?;
    }
    sidecar.rest_paths().map(drop)
}

#[cfg(test)]
mod tests {
    use weir_host::RealDisk;

    use super::*;
    use crate::embedded::columns::{NewRow, Rows};
    use crate::embedded::sidecar::write_segment_with_sidecar;
    use crate::embedded::write::manifest::ManifestChange;

    #[test]
    fn verify_reports_damage_and_reads_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let hour = dir.path().join("20260101/07");
        std::fs::create_dir_all(&hour).unwrap();
        std::fs::write(dir.path().join("other"), "not a directory").unwrap();
        let mut rows = Rows::new();
        for number in 0..100 {
            let row = NewRow { sequence: number, message: Some(b"hello"), ..NewRow::default() };
            rows.push(&row, std::iter::empty()).unwrap();
        }
        for name in ["seg-1", "seg-2", "seg-3", "seg-4"] {
            let open = |extension: &str| {
                let path = hour.join(name).with_extension(extension);
                RealDisk.open(&path, OpenMode::CreateNew).unwrap()
            };
            write_segment_with_sidecar(&rows, 1, None, &*open("parquet"), &*open("widx")).unwrap();
        }
        let damage = |name: &str, at: fn(usize) -> usize| {
            let path = hour.join(name);
            let mut bytes = std::fs::read(&path).unwrap();
            let at = at(bytes.len());
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let damaged = damage("seg-2.parquet", |_| 20);
        damage("seg-4.widx", |len| len / 2);
        std::fs::remove_file(hour.join("seg-3.widx")).unwrap();

        let files = ["seg-1", "seg-2", "seg-4"].iter().flat_map(|name| {
            ["parquet", "widx"].map(|extension| hour.join(name).with_extension(extension))
        });
        let files = files.chain([hour.join("seg-3.parquet")]);
        let bytes: u64 = files.map(|path| std::fs::metadata(path).unwrap().len()).sum();
        assert_eq!(bytes_to_verify(dir.path(), &RealDisk).unwrap(), bytes);

        let mut found = Vec::new();
        verify(dir.path(), &RealDisk, |verified| found.push(verified)).unwrap();
        let (mut manifest, _) = Manifest::open(&RealDisk, dir.path(), &[]).unwrap();
        let entry = SegmentEntry { id: 3, rows: 100, ..SegmentEntry::default() };
        manifest
            .commit(&RealDisk, &ManifestChange { added: vec![entry], ..ManifestChange::default() })
            .unwrap();
        let mut counted = Vec::new();
        let count = |verified: Verified| counted.push((verified.rows, verified.is_spare));
        verify(dir.path(), &RealDisk, count).unwrap();
        assert_eq!(counted[..4], [(0, true), (0, true), (100, false), (0, true)]);
        let faults: Vec<_> =
            found.iter().map(|v| (v.rows, v.fault.is_some(), v.sidecar_fault.is_some())).collect();
        let wanted = [(false, false), (true, false), (false, true), (false, true)];
        assert_eq!(faults, wanted.map(|(segment, sidecar)| (100, segment, sidecar)));
        assert_eq!(found[1].path, damaged);
        assert_eq!(found.iter().map(|verified| verified.file_bytes).sum::<u64>(), bytes);
    }

    #[test]
    fn verify_reports_missing_segments() {
        let dir = tempfile::tempdir().unwrap();
        let (mut manifest, _) = Manifest::open(&RealDisk, dir.path(), &[]).unwrap();
        let entry = |id, rows| SegmentEntry { id, rows, hour: 7, ..SegmentEntry::default() };
        let added = vec![entry(1, 10), entry(2, 20), entry(3, 30)];
        manifest.commit(&RealDisk, &ManifestChange { added, ..ManifestChange::default() }).unwrap();
        manifest
            .commit(&RealDisk, &ManifestChange { removed: vec![1], ..ManifestChange::default() })
            .unwrap();
        let files = SegmentFiles::new(dir.path(), 3, 7);
        std::fs::create_dir_all(files.segment.parent().unwrap()).unwrap();
        let aside = set_aside_path(&files.segment, Some(30));
        std::fs::write(&aside, "damaged").unwrap();

        let mut found = Vec::new();
        verify(dir.path(), &RealDisk, |verified| found.push(verified)).unwrap();
        let [set_aside, missing] = &found[..] else { panic!("{found:?}") };
        assert_eq!(set_aside.path, aside);
        assert!(
            matches!(set_aside.fault, Some(Fault::SetAside { rows: Some(30) })),
            "{set_aside:?}"
        );
        assert_eq!(missing.path, SegmentFiles::new(dir.path(), 2, 7).segment);
        assert!(matches!(missing.fault, Some(Fault::Missing { rows: 20 })), "{missing:?}");
        assert_eq!(missing.rows, 0, "no record was read");
    }
}
