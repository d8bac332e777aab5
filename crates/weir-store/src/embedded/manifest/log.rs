//! The manifest's files: generations of a log, each begun with a snapshot.
//!
//! Invariants: a generation is there under its name only when its snapshot is flushed; after a
//! failed write or flush nothing is added to it again, the next change begins a new generation
//! that states everything; a record that was not flushed for certain is never contradicted by
//! what is removed meanwhile, because whoever changes the manifest tries on until it is written.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use weir_host::record_file::{self, HEADER_LEN};
use weir_host::{Disk, DiskFile, OpenMode};

use super::codec::{self, RecordKind};
use super::{Change, Contents};
use crate::limits::MANIFEST_BYTES_MIN;

const FILE_MAGIC: [u8; 4] = *b"WMAN";
/// The version that is written.
const VERSION: u16 = 1;

/// Why a manifest cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A later release wrote it.
    #[error(
        "{file} has format version {version}, which this release does not know; it was left untouched"
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u16,
    },
    /// The operating system refused.
    #[error("{what} {path}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What came back.
        error: io::Error,
    },
}

/// What opening found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Stretches of bytes that are no record, between or before records.
    pub(crate) damaged: u64,
    /// The end of the newest generation is no record: it was being written, or it is damaged.
    pub(crate) is_torn: bool,
    /// Copies of damaged generations.
    pub(crate) set_aside: Vec<String>,
}

impl Recovered {
    /// A record may be missing.
    pub(crate) fn may_have_forgotten(&self) -> bool {
        self.damaged > 0 || self.is_torn
    }
}

/// An open manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    dir: PathBuf,
    generation: u64,
    /// `None` while nothing may be added to the newest generation.
    file: Option<Box<dyn DiskFile>>,
    salt: [u8; 8],
    len: u64,
    /// Length right after the last rewriting.
    snapshot_len: u64,
    /// It is not written anew below this length.
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

/// Older before newer.
fn generations_of(files: &[PathBuf]) -> Vec<u64> {
    let mut generations: Vec<u64> = files.iter().filter_map(|p| generation_of(p)).collect();
    generations.sort_unstable();
    generations
}

/// All generations, of which every version is looked at before anything is done with one.
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
            // Unreadable is damaged: weir starts.
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
    /// Replays all generations in `dir`, older before newer. Nothing is written.
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

    /// What the manifest in `dir` says, for those who only look: damage is passed over.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Contents, ManifestError> {
        let io_error = |error| ManifestError::Io { what: "cannot read", path: dir.into(), error };
        let generations = generations_of(&disk.list(dir).map_err(io_error)?);
        let mut contents = Contents::default();
        for (_, bytes) in read_logs(disk, dir, &generations)? {
            replay(&bytes, &mut contents);
        }
        Ok(contents)
    }

    /// What it says now.
    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Lets a short log be written anew too, so that a test need not write a long one.
    #[cfg(test)]
    pub(crate) fn set_bytes_min(&mut self, bytes: u64) {
        self.bytes_min = bytes;
    }

    /// Makes a change durable, and then counts with it. After an error it may or may not be
    /// durable: the same change has to be tried again, before any other.
    pub(crate) fn commit(&mut self, disk: &dyn Disk, change: &Change) -> io::Result<()> {
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

    /// Adds a record. The file is used again only if that went well.
    fn append(&mut self, file: Box<dyn DiskFile>, change: &Change) -> io::Result<()> {
        let record = codec::encode(RecordKind::Change, change, &self.salt);
        file.write_all_at(&mut [IoSlice::new(&record)], self.len)?;
        file.sync_data()?;
        self.len += record.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    /// Begins a new generation with everything.
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
        // From here on the new generation is what the next start may find.
        self.generation = generation;
        disk.sync_dir(&self.dir)?;
        (self.file, self.salt) = (Some(file), salt);
        self.len = bytes.len() as u64;
        self.snapshot_len = self.len;
        self.forget_old(disk);
        Ok(())
    }

    /// The generation before the newest stays as a second copy; still older ones go.
    fn forget_old(&self, disk: &dyn Disk) {
        for path in disk.list(&self.dir).unwrap_or_default() {
            if generation_of(&path).is_some_and(|generation| generation + 1 < self.generation) {
                let _stays_until_next_time = disk.remove(&path);
            }
        }
    }

    /// Removes every generation but the newest, and copies of damaged ones: they may state what
    /// was asked to be deleted.
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

/// Applies every whole record. Returns the stretches that hold none and stand before one that
/// does, and whether the end is none.
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
    // A generation has its snapshot before it has its name.
    let damaged = damage.stretches + u64::from(is_header_damaged) + u64::from(is_empty);
    (damaged, damage.is_torn || is_empty)
}

/// Keeps a copy of a damaged generation for whoever wants to look at it.
fn set_aside(disk: &dyn Disk, path: &Path, bytes: &[u8], recovered: &mut Recovered) {
    match record_file::set_aside(disk, path, bytes) {
        Ok(aside) => recovered.set_aside.push(aside.display().to_string()),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a damaged manifest could not be set aside");
        }
    }
}
