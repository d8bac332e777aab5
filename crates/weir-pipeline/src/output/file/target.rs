//! One output file: open, append, undo, detect that it was moved away, rotate.
//!
//! Invariant: `end` is the length up to which the file is known to be complete; whatever follows
//! after a failure is cut off before the next byte is written.

use std::io::{self, IoSlice};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Disk, DiskFile, OpenMode};

use super::archive;
use super::dir::Dir;
use crate::output::Rotation;

/// How far back from its end a file is searched for its last complete line: slightly more than the
/// longest line that weir itself writes.
const TORN_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Capacity for lines that a file keeps: many files may be open.
const PENDING_BYTES_KEPT: usize = 64 * 1024;

/// Device and inode of a path.
type Identity = Option<(u64, u64)>;

struct Open {
    file: Box<dyn DiskFile>,
    identity: Identity,
    /// Length up to which everything is written.
    end: u64,
    /// Length up to which everything is settled.
    settled: u64,
    /// Length at the start of the current round of writing.
    before: u64,
    /// When it was last written to, seconds since 1970.
    written_unix_s: i64,
}

/// A file of an output.
pub(super) struct Target {
    pub(super) dir: Arc<Dir>,
    pub(super) name: String,
    open: Option<Open>,
    /// Lines to be written next.
    pub(super) pending: Vec<u8>,
    /// The file may contain bytes after `end`.
    dirty: bool,
    /// The handle must not be used for another flush.
    must_reopen: bool,
    /// Written but not flushed.
    is_unsynced: bool,
    /// Number of the last round in which it got lines.
    pub(super) round: u64,
    /// Earliest timestamp for the next rotated file: after the previous one.
    free_from_ns: i64,
}

impl Target {
    pub(super) fn new(dir: Dir, name: String) -> Self {
        Self {
            dir: Arc::new(dir),
            name,
            open: None,
            pending: Vec::new(),
            dirty: false,
            must_reopen: false,
            is_unsynced: false,
            round: 0,
            free_from_ns: i64::MIN,
        }
    }

    /// Opens the file if it is not open.
    pub(super) fn ready(&mut self, disk: &dyn Disk) -> io::Result<()> {
        if self.open.is_some() {
            return Ok(());
        }
        let path = self.dir.join(&self.name);
        let mode = if self.dir.is_guarded { OpenMode::CreateInPlace } else { OpenMode::Create };
        let file = disk.open(&path, mode)?;
        let end = whole_lines(&*file)?;
        let (identity, written_unix_s) = match std::fs::metadata(&path) {
            Ok(meta) => (Some((meta.dev(), meta.ino())), meta.mtime()),
            Err(_) => (None, 0),
        };
        self.open = Some(Open { file, identity, end, settled: end, before: end, written_unix_s });
        Ok(())
    }

    /// Returns the length including pending lines.
    pub(super) fn len(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.end) + self.pending.len() as u64
    }

    /// Returns when a non-empty file was last written to, in seconds since 1970.
    pub(super) fn written_unix_s(&self) -> Option<i64> {
        self.open.as_ref().filter(|open| open.end > 0).map(|open| open.written_unix_s)
    }

    /// Starts a round of writing: records the length to return to after a failure.
    pub(super) fn begin(&mut self) {
        if let Some(open) = &mut self.open {
            open.before = open.end;
        }
    }

    /// Appends pending lines.
    pub(super) fn write(&mut self, disk: &dyn Disk, now_unix_s: i64) -> io::Result<u64> {
        if self.pending.is_empty() {
            return Ok(0);
        }
        self.ready(disk)?;
        let Some(open) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        // Something truncated the file (copytruncate): continue at its new end.
        let len = open.file.len()?;
        if len < open.end {
            open.end = len;
            open.settled = open.settled.min(len);
            open.before = open.before.min(len);
        }
        self.dirty = true;
        self.is_unsynced = true;
        open.file.write_all_at(&mut [IoSlice::new(&self.pending)], open.end)?;
        let bytes = self.pending.len() as u64;
        open.end += bytes;
        open.written_unix_s = now_unix_s;
        self.dirty = false;
        self.pending.clear();
        if self.pending.capacity() > PENDING_BYTES_KEPT {
            self.pending = Vec::new();
        }
        Ok(bytes)
    }

    /// Makes everything written durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let Some(open) = self.open.as_ref().filter(|_| self.is_unsynced && !self.must_reopen) {
            let synced = open.file.sync_data();
            self.must_reopen = synced.is_err();
            synced?;
        }
        self.is_unsynced = false;
        Ok(())
    }

    /// Marks everything written as settled.
    pub(super) fn settled(&mut self) {
        if let Some(open) = &mut self.open {
            open.settled = open.end;
        }
    }

    /// Discards what this round wrote, and pending lines.
    pub(super) fn roll_back(&mut self) {
        self.pending.clear();
        if let Some(open) = &mut self.open {
            open.end = open.end.min(open.before);
            self.dirty = true;
        }
    }

    /// Discards everything that is not settled.
    pub(super) fn take_back(&mut self) {
        self.pending.clear();
        if let Some(open) = &mut self.open {
            open.end = open.settled;
            open.before = open.before.min(open.end);
            self.dirty = true;
        }
    }

    /// Cuts off what a failed write left behind, and closes a handle that must not be flushed
    /// again.
    pub(super) fn clean_up(&mut self) -> io::Result<()> {
        if self.dirty
            && let Some(open) = &self.open
            && open.file.len()? > open.end
        {
            open.file.set_len(open.end)?;
        }
        self.dirty = false;
        if self.must_reopen {
            self.open = None;
            self.must_reopen = false;
            self.is_unsynced = false;
        }
        Ok(())
    }

    /// Returns true if its path leads to another file by now (logrotate).
    pub(super) fn is_moved(&self) -> bool {
        let path = self.dir.join(&self.name);
        self.open.as_ref().is_some_and(|open| identity(&path) != open.identity)
    }

    /// Rotates the file to a name that no other file has in any form, and that sorts after those of
    /// all earlier ones, even removed ones. It must have been flushed.
    pub(super) fn put_aside(&mut self, disk: &dyn Disk, unix_ns: i64) -> io::Result<()> {
        const MS: i64 = 1_000_000;
        let mut unix_ns = unix_ns.max(self.free_from_ns);
        let free = loop {
            let name = archive::rotated(&self.name, unix_ns);
            unix_ns += MS;
            let is_there = |form: &String| self.dir.join(form).symlink_metadata().is_ok();
            if !archive::forms(&name).any(|form| is_there(&form)) {
                break self.dir.join(&name);
            }
        };
        disk.rename(&self.dir.join(&self.name), &free)?;
        self.free_from_ns = unix_ns;
        self.open = None;
        self.is_unsynced = false;
        disk.sync_dir(self.dir.path())
    }
}

impl Rotation {
    /// Returns true if the file must be rotated before the part of `pending` that begins at
    /// `start`.
    pub(super) fn is_due(&self, file: &Target, start: usize, now_unix_s: i64) -> bool {
        if file.len() == (file.pending.len() - start) as u64 {
            return false;
        }
        let period =
            |every: Duration, unix_s: i64| unix_s.div_euclid(every.as_secs().max(1).cast_signed());
        let is_other = |every: Duration| {
            file.written_unix_s().is_some_and(|at| period(every, at) != period(every, now_unix_s))
        };
        self.size_bytes.is_some_and(|max| file.len() > max) || self.every.is_some_and(is_other)
    }
}

fn identity(path: &Path) -> Identity {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Returns the length of the file up to its last complete line; cuts off an incomplete one that a
/// crash left. A file without any line end within reach was not written by weir and is left as it
/// is.
fn whole_lines(file: &dyn DiskFile) -> io::Result<u64> {
    let len = file.len()?;
    let mut block = vec![0; 64 * 1024];
    let mut end = len;
    while end > 0 && len - end < TORN_BYTES_MAX {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        if let Some(at) = memchr::memrchr(b'\n', part) {
            let whole = start + at as u64 + 1;
            if whole < len {
                tracing::warn!(bytes = len - whole, "cut off an incomplete last line");
                file.set_len(whole)?;
            }
            return Ok(whole);
        }
        end = start;
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use weir_host::{Compression, RealDisk};

    use super::*;

    /// Returns the names in a directory except that of the file itself.
    fn aside(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "app.log").collect();
        names.sort();
        names
    }

    #[test]
    fn files_put_aside_within_a_moment_sort_by_age_whatever_becomes_of_them() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::named(&RealDisk, home.path()).unwrap();
        let mut file = Target::new(dir, "app.log".to_owned());
        let path = |name: &str| home.path().join(name);
        let mut put_aside = |unix_ns| {
            let before = aside(home.path());
            std::fs::write(path("app.log"), "line\n").unwrap();
            file.put_aside(&RealDisk, unix_ns).unwrap();
            let after = aside(home.path());
            assert_eq!(after[..before.len()], before, "the newest is last");
            after.last().unwrap().clone()
        };
        let now_ns = 1_700_000_000_123_456_789;
        let first = put_aside(now_ns);
        for compression in Compression::FORMATS {
            let packed = put_aside(now_ns);
            let form = format!("{packed}{}", compression.suffix());
            std::fs::rename(path(&packed), path(&form)).unwrap();
        }
        std::fs::remove_file(path(&first)).unwrap();
        // The clock was set back.
        let last = put_aside(now_ns - 5_000_000_000);
        assert!(last > first, "{last} {first}");
        // Another process starts with the existing files.
        let again = Dir::named(&RealDisk, home.path()).unwrap();
        file = Target::new(again, "app.log".to_owned());
        std::fs::write(path("app.log"), "line\n").unwrap();
        file.put_aside(&RealDisk, now_ns).unwrap();
        assert_eq!(aside(home.path()).len(), 4);
    }
}
