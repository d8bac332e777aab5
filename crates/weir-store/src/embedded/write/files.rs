//! Names of the store's files, and how the files are created.
//!
//! Invariants: a segment gets its final name only after its content and its sidecar are flushed;
//! names are made durable before anything refers to them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::units::format_rfc3339;
use weir_host::{Disk, DiskFile, OpenMode};

use crate::embedded::read::snapshot::OpenSegment;
use crate::embedded::segment::{Segment, SegmentError, SegmentSummary};
use crate::embedded::sidecar::{Sidecar, SidecarError};

pub(crate) const HOUR_NS: i64 = 3_600_000_000_000;

/// Returns the hour of a time, counted from 1970. Earlier times count as the first hour.
pub(crate) fn hour_of(unix_ns: i64) -> u32 {
    u32::try_from(unix_ns.div_euclid(HOUR_NS)).unwrap_or(0)
}

/// Returns the name of a segment without directory and extension.
pub(crate) fn name_of(id: u64) -> String {
    format!("seg-{id:012}")
}

/// Returns the name under which a damaged segment is kept for inspection. It includes the number of
/// records that are lost with it, since the footer can no longer be read.
pub(crate) fn set_aside_path(segment: &Path, rows: Option<u64>) -> PathBuf {
    let stem = segment.file_stem().unwrap_or_default().display().to_string();
    let rows = rows.map_or_else(String::new, |rows| format!("-{rows}"));
    segment.with_file_name(format!("{stem}{rows}.{SET_ASIDE_EXTENSION}"))
}

/// Returns the number of records in a segment that was set aside, if it was known.
pub(crate) fn set_aside_rows(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.rsplit_once('-').filter(|(name, _)| *name != "seg")?.1.parse().ok()
}

/// Returns the number of a segment or sidecar that has its final name.
pub(crate) fn id_of(path: &Path) -> Option<u64> {
    let name = path.file_stem()?.to_str()?.strip_prefix("seg-")?;
    let is_aside = has_extension(path, SET_ASIDE_EXTENSION);
    name.split_once('-').filter(|_| is_aside).map_or(name, |(id, _)| id).parse().ok()
}

pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Extension of segments that were set aside.
pub(crate) const SET_ASIDE_EXTENSION: &str = "bad";

/// `DIR/20260131/23`.
pub(crate) fn hour_dir(dir: &Path, hour: u32) -> PathBuf {
    // 2026-01-31T23:...
    let text = format_rfc3339(i64::from(hour).saturating_mul(HOUR_NS));
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or("00").to_owned();
    dir.join(format!("{}{}{}", part(0..4), part(5..7), part(8..10))).join(part(11..13))
}

/// The two files of a segment.
#[derive(Debug, Clone)]
pub(crate) struct SegmentFiles {
    pub(crate) segment: PathBuf,
    pub(crate) sidecar: PathBuf,
}

impl SegmentFiles {
    pub(crate) fn new(dir: &Path, id: u64, hour: u32) -> Self {
        Self::of(hour_dir(dir, hour).join(name_of(id)).with_extension("parquet"))
    }

    /// Returns the file names for this segment.
    pub(crate) fn of(segment: PathBuf) -> Self {
        let sidecar = segment.with_extension("widx");
        Self { segment, sidecar }
    }

    /// Removes both files, the segment first: a sidecar alone has no meaning.
    pub(crate) fn remove(&self, disk: &dyn Disk) -> io::Result<()> {
        for path in [&self.segment, &self.sidecar] {
            match disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn open_segment(&self, disk: &dyn Disk) -> Result<Segment, SegmentError> {
        Segment::open(Arc::from(disk.open(&self.segment, OpenMode::Read)?))
    }

    pub(crate) fn open_sidecar(
        &self,
        disk: &dyn Disk,
        segment: &Segment,
    ) -> Result<Sidecar, SidecarError> {
        Sidecar::open(Arc::from(disk.open(&self.sidecar, OpenMode::Read)?), segment)
    }

    /// Returns whether the sidecar was written by a later release; it is then left alone.
    pub(crate) fn has_later_sidecar(&self, disk: &dyn Disk, segment: &Segment) -> bool {
        matches!(self.open_sidecar(disk, segment), Err(SidecarError::Version(_)))
    }

    /// Opens both files. A sidecar that cannot be used costs only time.
    pub(crate) fn open(&self, disk: &dyn Disk) -> Result<OpenSegment, SegmentError> {
        let segment = self.open_segment(disk)?;
        let sidecar = self.open_sidecar(disk, &segment).ok();
        let name = self.segment.file_name().unwrap_or_default().display().to_string();
        Ok(OpenSegment { name, segment, sidecar })
    }
}

/// A file that is being written, under a temporary name.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    pub(crate) file: Arc<dyn DiskFile>,
    temporary: PathBuf,
    path: PathBuf,
}

impl TemporaryFile {
    pub(crate) fn create(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        match disk.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = Arc::from(disk.open(&temporary, OpenMode::CreateNew)?);
        Ok(Self { file, temporary, path: path.to_owned() })
    }

    /// Flushes the content and renames the file to its final name, which is not durable yet.
    pub(crate) fn publish(&self, disk: &dyn Disk) -> io::Result<()> {
        self.file.sync_data()?;
        disk.rename(&self.temporary, &self.path)
    }

    /// Removes the files written so far.
    pub(crate) fn discard(&self, disk: &dyn Disk) {
        for path in [&self.temporary, &self.path] {
            let _removed_at_the_next_start = disk.remove(path);
        }
    }
}

/// Writes segment and sidecar with `write`, and makes both durable under their final names. After
/// an error the files are removed, now or by the next start.
pub(crate) fn create_segment(
    disk: &dyn Disk,
    files: &SegmentFiles,
    write: impl FnOnce(&dyn DiskFile, &dyn DiskFile) -> Result<SegmentSummary, SidecarError>,
) -> Result<(SegmentSummary, OpenSegment), SidecarError> {
    let dir = files.segment.parent().unwrap_or(Path::new(""));
    disk.create_dir_all(dir)?;
    let segment = TemporaryFile::create(disk, &files.segment)?;
    let sidecar = match TemporaryFile::create(disk, &files.sidecar) {
        Ok(sidecar) => sidecar,
        Err(error) => {
            segment.discard(disk);
            return Err(error.into());
        }
    };
    let written = write(&*segment.file, &*sidecar.file).and_then(|summary| {
        sidecar.publish(disk)?;
        segment.publish(disk)?;
        disk.sync_dir(dir)?;
        Ok((summary, files.open(disk)?))
    });
    if written.is_err() {
        segment.discard(disk);
        sidecar.discard(disk);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_is_stored_in_the_directory_of_its_hour() {
        let hour = hour_of(1_769_900_399_000_000_000);
        let files = SegmentFiles::new(Path::new("/store"), 17, hour);
        let expected = Path::new("/store/20260131/22/seg-000000000017.parquet");
        assert_eq!(files.segment, expected);
        assert_eq!(id_of(&files.sidecar), Some(17));
        assert_eq!(id_of(Path::new("/store/other-17.parquet")), None);
        assert_eq!(hour_dir(Path::new("/"), hour_of(-1)), Path::new("/19700101/00"));
    }
}
