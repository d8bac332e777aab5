//! The file itself: open, append, cut back, notice that it was rotated away.
//!
//! Invariant: `end` is the length of the file as this writer knows it to be whole; whatever
//! stands behind it after a failure is cut off before the next byte is written.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::{Disk, DiskFile, OpenMode};

use crate::config::Encoding;
use crate::output::lines;
use crate::output::parcel::Parcel;

/// How far back from its end a file is searched for its last whole line: a bit more than the
/// longest line that weir itself writes.
const TORN_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Device and inode of a path.
type Identity = Option<(u64, u64)>;

struct Open {
    file: Box<dyn DiskFile>,
    identity: Identity,
    /// Length up to which everything is written.
    end: u64,
    /// Length up to which everything is settled.
    settled: u64,
}

/// Appends parcels to a path.
pub(super) struct Writer {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    encoding: Encoding,
    open: Option<Open>,
    backlog: VecDeque<Parcel>,
    buffer: Vec<u8>,
    /// The file may hold bytes behind `end`.
    dirty: bool,
    /// The handle must not be used for another flush.
    in_doubt: bool,
    reopen: bool,
}

/// What one write brought to the file.
pub(super) struct Written {
    pub(super) parcels: Vec<Parcel>,
    pub(super) bytes: u64,
}

impl Writer {
    pub(super) fn new(disk: Arc<dyn Disk>, path: PathBuf, encoding: Encoding) -> Self {
        Self {
            disk,
            path,
            encoding,
            open: None,
            backlog: VecDeque::new(),
            buffer: Vec::new(),
            dirty: false,
            in_doubt: false,
            reopen: false,
        }
    }

    pub(super) fn push(&mut self, parcel: Parcel) {
        self.backlog.push_back(parcel);
    }

    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Opens the path anew before the next write.
    pub(super) fn ask_reopen(&mut self) {
        self.reopen = true;
    }

    /// Appends the whole backlog. After an error nothing of it counts as written.
    pub(super) fn write_backlog(&mut self) -> io::Result<Written> {
        self.clean_up()?;
        self.buffer.clear();
        for parcel in &self.backlog {
            lines::encode(parcel, self.encoding, &mut self.buffer);
        }
        let open = self.opened()?;
        // Somebody emptied the file (copytruncate): go on at its new end.
        let len = open.file.len()?;
        if len < open.end {
            open.end = len;
            open.settled = open.settled.min(len);
        }
        let end = open.end;
        self.dirty = true;
        let Some(open) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        open.file.write_all_at(&mut [IoSlice::new(&self.buffer)], end)?;
        open.end += self.buffer.len() as u64;
        self.dirty = false;
        let bytes = self.buffer.len() as u64;
        Ok(Written { parcels: self.backlog.drain(..).collect(), bytes })
    }

    /// Makes everything written durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &self.open {
            Some(open) if !self.in_doubt => open.file.sync_data(),
            _ => Ok(()),
        }
    }

    /// Everything written counts from now on.
    pub(super) fn settled(&mut self) {
        if let Some(open) = &mut self.open {
            open.settled = open.end;
        }
    }

    /// After a failed flush: these go before the backlog once more, in a file opened anew.
    pub(super) fn write_again(&mut self, parcels: Vec<Parcel>) {
        for parcel in parcels.into_iter().rev() {
            self.backlog.push_front(parcel);
        }
        if let Some(open) = &mut self.open {
            open.end = open.settled;
        }
        self.dirty = true;
        self.in_doubt = true;
    }

    /// Cuts off what a failed write left behind, and lets go of a handle in doubt.
    fn clean_up(&mut self) -> io::Result<()> {
        if self.dirty
            && let Some(open) = &self.open
            && open.file.len()? > open.end
        {
            open.file.set_len(open.end)?;
        }
        self.dirty = false;
        if self.in_doubt {
            self.open = None;
            self.in_doubt = false;
        }
        Ok(())
    }

    /// Whether the path names another file by now (logrotate), or opening anew was asked for.
    pub(super) fn must_reopen(&self) -> bool {
        self.open.as_ref().is_some_and(|open| self.reopen || identity(&self.path) != open.identity)
    }

    /// Closes the file; the next write opens the path. What was written must be settled.
    pub(super) fn let_go(&mut self) {
        self.open = None;
        self.reopen = false;
    }

    /// At the end of the output: tries once to leave whole lines behind.
    pub(super) fn leave(&mut self) {
        if let Err(error) = self.clean_up() {
            tracing::warn!(path = %self.path.display(), %error, "a torn line was left behind");
        }
    }

    fn opened(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            self.open = Some(open(&*self.disk, &self.path)?);
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn identity(path: &Path) -> Identity {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn open(disk: &dyn Disk, path: &Path) -> io::Result<Open> {
    if let Some(dir) = path.parent() {
        disk.create_dir_all(dir)?;
    }
    let file = disk.open(path, OpenMode::Create)?;
    let end = whole_lines(&*file)?;
    Ok(Open { file, identity: identity(path), end, settled: end })
}

/// Length of the file up to its last whole line; cuts off a torn one that a crash left. A file
/// without any line end in reach is not of weir's making and is left as it is.
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
                tracing::warn!(bytes = len - whole, "a torn last line was cut off");
                file.set_len(whole)?;
            }
            return Ok(whole);
        }
        end = start;
    }
    Ok(len)
}
