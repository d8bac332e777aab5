//! Rotated files: their names, their compression, and how many are kept.
//!
//! A rotated file is called `NAME.20261122T011500.123Z`, after the time (UTC) at which it was
//! rotated; if it is compressed, `.gz` or `.zst` is appended. Names sort by age.
//!
//! Invariants: a file is removed only after its compressed form is complete, named and on stable
//! storage; if weir is stopped during tidying, the next one finishes the work; tidying runs on its
//! own thread, and failed steps are retried the next time.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use weir_host::{Compression, Compressor, Disk, OpenMode};

use super::dir::Dir;
use crate::stats::OutputStats;

/// `.20261122T011500.123Z`
const MOMENT_BYTES: usize = 21;
/// Suffix of a file that is still being compressed.
const UNFINISHED: &str = ".tmp";
/// Bytes that are compressed at a time; each block becomes a member, or frame, of the file.
const BLOCK_BYTES: usize = 1024 * 1024;
/// Directories and names that wait to be tidied; others are tidied after their next rotation.
const JOBS_MAX: usize = 256;

/// Returns the name of a file that is rotated now.
pub(super) fn rotated(name: &str, unix_ns: i64) -> String {
    let mut time = Vec::new();
    weir_codec::format_rfc3339_ns(unix_ns, &mut time);
    let digits = |range: std::ops::Range<usize>| {
        let part = time.get(range).unwrap_or_default();
        part.iter().filter(|b| b.is_ascii_digit()).map(|b| char::from(*b)).collect::<String>()
    };
    format!("{name}.{}T{}.{}Z", digits(0..10), digits(11..19), digits(20..23))
}

/// Returns the names that a rotated file may have: uncompressed or compressed.
pub(super) fn forms(name: &str) -> impl Iterator<Item = String> {
    [Compression::None]
        .iter()
        .chain(&Compression::FORMATS)
        .map(move |f| format!("{name}{}", f.suffix()))
}

/// Format of a rotated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Packed,
    /// Incomplete, because weir was stopped while compressing it.
    Unfinished,
}

/// Returns the format that a name indicates, and the name without its suffix.
fn form(name: &str) -> (Form, &str) {
    let unpacked = |name: &str| {
        let mut suffixes = Compression::FORMATS.iter().map(|format| format.suffix());
        suffixes.find_map(|suffix| name.strip_suffix(suffix).map(str::len))
    };
    if let Some(len) = name.strip_suffix(UNFINISHED).and_then(unpacked) {
        return (Form::Unfinished, &name[..len]);
    }
    match unpacked(name) {
        Some(len) => (Form::Packed, &name[..len]),
        None => (Form::Plain, name),
    }
}

/// Returns the name that a rotated file had before, if it is one.
pub(super) fn original(name: &str) -> Option<&str> {
    let (_, name) = form(name);
    let at = name.len().checked_sub(MOMENT_BYTES).filter(|at| *at > 0)?;
    let fits = |(i, byte): (usize, u8)| match i {
        0 | 16 => byte == b'.',
        9 => byte == b'T',
        20 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    let is_moment = name.as_bytes()[at..].iter().copied().enumerate().all(fits);
    is_moment.then(|| &name[..at])
}

/// Tidies rotated files on a thread of its own.
#[derive(Debug)]
pub(super) struct Archiver {
    jobs: Option<SyncSender<(Arc<Dir>, String)>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

/// What to do with rotated files.
#[derive(Debug, Clone)]
pub(super) struct ArchiveSettings {
    /// How to compress them.
    pub(super) compress: Compression,
    /// How many to keep per file; `None` = all.
    pub(super) keep: Option<usize>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) stats: Arc<OutputStats>,
    pub(super) output: String,
}

impl Archiver {
    /// Starts the thread.
    pub(super) fn start(upkeep: ArchiveSettings) -> io::Result<Self> {
        let (jobs, todo) = mpsc::sync_channel::<(Arc<Dir>, String)>(JOBS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let name = format!("archive:{}", upkeep.output);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            for (dir, name) in todo {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(error) = upkeep.tidy(&dir, &name, &stopped) {
                    let text = format!("cannot tidy rotated files of {name}: {error}");
                    tracing::warn!(output = %upkeep.output, "{text}; retrying at next rotation");
                    upkeep.stats.errors.count("archive", &text);
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), stop })
    }

    /// Requests tidying of the rotated files of `name`.
    pub(super) fn tidy(&self, dir: &Arc<Dir>, name: &str) {
        if let Some(jobs) = &self.jobs {
            // A full queue does no harm: the next rotation asks again.
            let _ = jobs.try_send((dir.clone(), name.to_owned()));
        }
    }
}

impl Drop for Archiver {
    /// Stops between two blocks; the next start continues.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl ArchiveSettings {
    fn tidy(&self, dir: &Dir, name: &str, stop: &AtomicBool) -> io::Result<()> {
        let mut names = self.names(dir, name)?;
        if let Some(mut compressor) = Compressor::new(self.compress) {
            for plain in names.iter().filter(|name| form(name).0 == Form::Plain) {
                let is_packed = |name: &String| form(name) == (Form::Packed, plain);
                if !names.iter().any(is_packed)
                    && !self.compress(dir, plain, &mut compressor, stop)?
                {
                    return Ok(());
                }
                self.disk.remove(&dir.join(plain))?;
            }
            names = self.names(dir, name)?;
        }
        let is_unfinished = |name: &String| form(name).0 == Form::Unfinished;
        for unfinished in names.iter().filter(|name| is_unfinished(name)) {
            self.disk.remove(&dir.join(unfinished))?;
        }
        names.retain(|name| !is_unfinished(name));
        let excess = self.keep.map_or(0, |keep| names.len().saturating_sub(keep));
        for old in &names[..excess] {
            self.disk.remove(&dir.join(old))?;
        }
        if excess > 0 { self.disk.sync_dir(dir.path()) } else { Ok(()) }
    }

    /// Returns the rotated files of `name`, oldest first.
    fn names(&self, dir: &Dir, name: &str) -> io::Result<Vec<String>> {
        let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_file());
        let paths = self.disk.list(dir.path())?;
        let own = paths.iter().filter_map(|path| {
            let found = path.file_name()?.to_str()?;
            (original(found)? == name && is_file(path)).then(|| found.to_owned())
        });
        let mut names: Vec<String> = own.collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Creates the compressed form of a file. Returns false if it was told to stop.
    fn compress(
        &self,
        dir: &Dir,
        name: &str,
        compressor: &mut Compressor,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        let packed_name = format!("{name}{}", compressor.compression().suffix());
        let temporary = dir.join(&format!("{packed_name}{UNFINISHED}"));
        let from = self.disk.open(&dir.join(name), OpenMode::ReadInPlace)?;
        let to = self.disk.open(&temporary, OpenMode::CreateInPlace)?;
        to.set_len(0)?;
        let (len, mut read, mut end) = (from.len()?, 0, 0);
        let mut block = vec![0; BLOCK_BYTES.min(len as usize)];
        let mut packed = Vec::new();
        while read < len {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let part = &mut block[..BLOCK_BYTES.min((len - read) as usize)];
            from.read_exact_at(part, read)?;
            packed.clear();
            compressor.compress(part, &mut packed).map_err(io::Error::other)?;
            to.write_all_at(&mut [IoSlice::new(&packed)], end)?;
            read += part.len() as u64;
            end += packed.len() as u64;
        }
        to.sync_data()?;
        self.disk.rename(&temporary, &dir.join(&packed_name))?;
        self.disk.sync_dir(dir.path())?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_names_are_known_again_and_sort_by_age() {
        let early = rotated("a.log", 1_700_000_000_123_456_789);
        assert_eq!(early, "a.log.20231114T221320.123Z");
        assert!(early < rotated("a.log", 1_700_000_001_000_000_000));
        assert_eq!(original(&early), Some("a.log"));
        assert_eq!(original(&format!("{early}.gz")), Some("a.log"));
        assert_eq!(original(&format!("{early}.gz.tmp")), Some("a.log"));
        assert_eq!(original(&format!("{early}.zst")), Some("a.log"));
        assert_eq!(original(&format!("{early}.zst.tmp")), Some("a.log"));
        for other in ["a.log", "a.log.gz", "a.log.20231114T221320.123", ".20231114T221320.123Z"] {
            assert_eq!(original(other), None, "{other}");
        }
    }
}
