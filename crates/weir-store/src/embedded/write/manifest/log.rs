//! The manifest's files: generations of a log, each starting with a snapshot.
//!
//! Invariants: a generation has its final name only once its snapshot is flushed; after a failed
//! write or flush nothing more is appended to it, and the next change starts a new generation with
//! the full state; nothing is removed that would contradict a record whose flush is uncertain,
//! because the caller that changes the manifest retries until it is written.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use weir_host::record_file::{self, HEADER_LEN};
use weir_host::{Disk, DiskFile, OpenMode};

use super::codec::{self, RecordKind};
use super::{Contents, ManifestChange};
use crate::limits::MANIFEST_BYTES_MIN;

const FILE_MAGIC: [u8; 4] = *b"WMAN";
/// The version that this release writes.
const VERSION: u16 = 1;

/// Reasons why a manifest cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It was written by a later release.
    #[error(
        "{file} has format version {version}, which this release does not support; it was left untouched"
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u16,
    },
    /// An operating system error.
    #[error("{what} {path}: {error}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The error returned.
        error: io::Error,
    },
}

/// Result of opening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Byte ranges between or before records that are not a record.
    pub(crate) damaged: u64,
    /// The end of the newest generation is not a record: a write was interrupted, or it is damaged.
    pub(crate) is_torn: bool,
    /// Copies of damaged generations.
    pub(crate) set_aside: Vec<String>,
}

impl Recovered {
    /// Returns whether a record may be missing.
    pub(crate) fn may_have_forgotten(&self) -> bool {
        self.damaged > 0 || self.is_torn
    }
}

/// An open manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    dir: PathBuf,
    generation: u64,
    /// `None` when nothing may be appended to the newest generation.
    file: Option<Box<dyn DiskFile>>,
    salt: [u8; 8],
    len: u64,
    /// Length right after the last rewrite.
    snapshot_len: u64,
    /// Minimum length for a rewrite.
    bytes_min: u64,
    contents: Contents,
}

fn file_name(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("MANIFEST-{generation:010}.log"))
}

fn generation_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("MANIFEST-")?.strip_suffix(".log")?.parse().ok()
}

/// Returns the generation numbers, oldest first.
fn generations_of(files: &[PathBuf]) -> Vec<u64> {
    let mut generations: Vec<u64> = files.iter().filter_map(|p| generation_of(p)).collect();
    generations.sort_unstable();
    generations
}

/// Reads all generations, and checks the version of each before any is used.
fn read_logs(
    disk: &dyn Disk,
    dir: &Path,
    generations: &[u64],
) -> Result<Vec<(PathBuf, Vec<u8>)>, ManifestError> {
    let read = |generation: &u64| {
        let path = file_name(dir, *generation);
        let bytes = record_file::read(disk, &path);
        let bytes = bytes.or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Err(ManifestError::Io { what: "cannot read", path: path.clone(), error })
            }
            // Treat an unreadable file as damaged: weir must start.
            _ => Ok(Vec::new()),
        })?;
        let header = bytes.get(..HEADER_LEN).unwrap_or_default();
        match record_file::version(header, FILE_MAGIC) {
            None | Some(VERSION) => Ok((path, bytes)),
            Some(version) => Err(ManifestError::Version { file: path, version }),
        }
    };
    generations.iter().map(read).collect()
}

impl Manifest {
    /// Replays all generations in `dir`, oldest first. Writes nothing.
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        files: &[PathBuf],
    ) -> Result<(Self, Recovered), ManifestError> {
        let generations = generations_of(files);
        let logs = read_logs(disk, dir, &generations)?;
        let mut contents = Contents::default();
        let mut recovered = Recovered::default();
        for (place, (path, bytes)) in logs.iter().enumerate() {
            let is_newest = place + 1 == logs.len();
            let (damaged, is_torn) = replay(bytes, &mut contents);
            recovered.is_torn = is_newest && is_torn;
            recovered.damaged += damaged;
            if damaged > 0 {
                tracing::warn!(path = %path.display(), damaged, "the store's manifest is damaged");
                set_aside(disk, path, bytes, &mut recovered);
            }
        }
        let generation = generations.last().copied().unwrap_or(0);
        let dir = dir.to_owned();
        let manifest = Self {
            dir,
            generation,
            file: None,
            salt: [0; 8],
            len: 0,
            snapshot_len: 0,
            bytes_min: MANIFEST_BYTES_MIN,
            contents,
        };
        Ok((manifest, recovered))
    }

    /// Reads the manifest in `dir` without opening it for writing, ignoring damage.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Contents, ManifestError> {
        let io_error = |error| ManifestError::Io { what: "cannot read", path: dir.into(), error };
        let generations = generations_of(&disk.list(dir).map_err(io_error)?);
        let mut contents = Contents::default();
        for (_, bytes) in read_logs(disk, dir, &generations)? {
            replay(&bytes, &mut contents);
        }
        Ok(contents)
    }

    /// Returns the current contents.
    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Lowers the minimum length for a rewrite, so that tests need not write a long log.
    #[cfg(test)]
    pub(crate) fn set_bytes_min(&mut self, bytes: u64) {
        self.bytes_min = bytes;
    }

    /// Makes a change durable and applies it. After an error it may or may not be durable: the same
    /// change must be retried before any other.
    pub(crate) fn commit(&mut self, disk: &dyn Disk, change: &ManifestChange) -> io::Result<()> {
        let mut next = self.contents.clone();
        next.apply(change);
        let is_grown = self.len > self.bytes_min && self.len > self.snapshot_len * 4;
        let is_appended = !is_grown && !change.ends_deletion();
        let appended = match self.file.take().filter(|_| is_appended) {
            Some(file) => self.append(file, change),
            None => Err(io::ErrorKind::Other.into()),
        };
        if appended.is_err() {
            self.rewrite(disk, &next)?;
        }
        if change.ends_deletion() {
            self.forget_history(disk)?;
        }
        self.contents = next;
        Ok(())
    }

    /// Appends a record. The file is used again only if that succeeds.
    fn append(&mut self, file: Box<dyn DiskFile>, change: &ManifestChange) -> io::Result<()> {
        let record = codec::encode(RecordKind::Change, change, &self.salt);
        file.write_all_at(&mut [IoSlice::new(&record)], self.len)?;
        file.sync_data()?;
        self.len += record.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    /// Starts a new generation with the full state.
    fn rewrite(&mut self, disk: &dyn Disk, contents: &Contents) -> io::Result<()> {
        let salt = record_file::new_salt();
        let mut bytes = record_file::header(FILE_MAGIC, VERSION, salt).to_vec();
        bytes.extend(codec::encode(RecordKind::Snapshot, &contents.as_change(), &salt));
        let temporary = self.dir.join("MANIFEST.tmp");
        match disk.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.open(&temporary, OpenMode::CreateNew)?;
        file.write_all_at(&mut [IoSlice::new(&bytes)], 0)?;
        file.sync_data()?;
        let generation = self.generation + 1;
        disk.rename(&temporary, &file_name(&self.dir, generation))?;
        // From here on the next start may find the new generation.
        self.generation = generation;
        disk.sync_dir(&self.dir)?;
        (self.file, self.salt) = (Some(file), salt);
        self.len = bytes.len() as u64;
        self.snapshot_len = self.len;
        self.forget_old(disk);
        Ok(())
    }

    /// Removes old generations, except the one before the newest, which stays as a second copy.
    fn forget_old(&self, disk: &dyn Disk) {
        for path in disk.list(&self.dir).unwrap_or_default() {
            if generation_of(&path).is_some_and(|generation| generation + 1 < self.generation) {
                let _stays_until_next_time = disk.remove(&path);
            }
        }
    }

    /// Removes every generation but the newest, and copies of damaged ones: they may contain what
    /// was requested to be deleted.
    pub(crate) fn forget_history(&self, disk: &dyn Disk) -> io::Result<()> {
        let newest = file_name(&self.dir, self.generation);
        let is_old = |path: &PathBuf| {
            let as_log = path.with_extension("log");
            *path != newest && generation_of(&as_log).is_some()
        };
        let old: Vec<PathBuf> = disk.list(&self.dir)?.into_iter().filter(is_old).collect();
        for path in &old {
            disk.remove(path)?;
        }
        if old.is_empty() { Ok(()) } else { disk.sync_dir(&self.dir) }
    }
}

/// Applies every intact record. Returns the number of unreadable byte ranges that are followed by a
/// record, and whether the end is unreadable.
fn replay(bytes: &[u8], contents: &mut Contents) -> (u64, bool) {
    let Some((header, records)) = bytes.split_at_checked(HEADER_LEN) else { return (1, true) };
    let mut is_empty = true;
    let damage = record_file::replay(records, &header[8..], |payload| {
        let (kind, change) = codec::decode(payload)?;
        if kind == RecordKind::Snapshot {
            *contents = Contents::default();
        }
        contents.apply(&change);
        is_empty = false;
        Some(())
    });
    let is_header_damaged = record_file::version(header, FILE_MAGIC).is_none();
    // A generation gets its name only once it has its snapshot.
    let damaged = damage.ranges + u64::from(is_header_damaged) + u64::from(is_empty);
    (damaged, damage.is_torn || is_empty)
}

/// Keeps a copy of a damaged generation for inspection.
fn set_aside(disk: &dyn Disk, path: &Path, bytes: &[u8], recovered: &mut Recovered) {
    match record_file::set_aside(disk, path, bytes) {
        Ok(aside) => recovered.set_aside.push(aside.display().to_string()),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a damaged manifest could not be set aside");
        }
    }
}
