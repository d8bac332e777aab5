//! A disk that wraps another one (such as the real one), counts its calls and fails those chosen by
//! a test.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::{Disk, DiskFile, DiskSpace, OpenMode};

use super::faults::{CallKind, Faults, Verdict};

/// Counts and fails calls of another disk. [`super::FaultKind::Crash`] is just an error here: only
/// a [`super::FaultyDisk`] knows what a crash leaves. Clones share the faults.
#[derive(Debug, Clone)]
pub struct FailingDisk {
    inner: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

impl FailingDisk {
    /// Wraps `inner`.
    pub fn over(inner: Arc<dyn Disk>) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// Returns the pending faults and the counts so far.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

/// Counts a call and returns how many bytes it may transfer.
fn enter(faults: &Faults, kind: CallKind, path: &Path) -> io::Result<usize> {
    let Verdict { limit, crash } = faults.enter(kind, path)?;
    if crash {
        return Err(rustix::io::Errno::IO.into());
    }
    Ok(limit.unwrap_or(usize::MAX))
}

impl Disk for FailingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        enter(&self.faults, CallKind::Open, path)?;
        let inner = self.inner.open(path, mode)?;
        Ok(Box::new(FailingFile { inner, path: path.to_owned(), faults: Arc::clone(&self.faults) }))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        enter(&self.faults, CallKind::CreateDir, dir)?;
        self.inner.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        enter(&self.faults, CallKind::List, dir)?;
        self.inner.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        enter(&self.faults, CallKind::Rename, to)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        enter(&self.faults, CallKind::Remove, path)?;
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        enter(&self.faults, CallKind::SyncDir, dir)?;
        self.inner.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        enter(&self.faults, CallKind::Space, dir)?;
        self.inner.space(dir)
    }
}

#[derive(Debug)]
struct FailingFile {
    inner: Box<dyn DiskFile>,
    path: PathBuf,
    faults: Arc<Faults>,
}

impl DiskFile for FailingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let limit = enter(&self.faults, CallKind::Read, &self.path)?.min(buf.len());
        self.inner.read_at(&mut buf[..limit], offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let limit = enter(&self.faults, CallKind::Write, &self.path)?;
        if limit == usize::MAX {
            return self.inner.write_at(parts, offset);
        }
        let part = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| &part[..]);
        self.inner.write_at(&[IoSlice::new(&part[..limit.min(part.len())])], offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        enter(&self.faults, CallKind::SyncData, &self.path)?;
        self.inner.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        enter(&self.faults, CallKind::SetLen, &self.path)?;
        self.inner.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        enter(&self.faults, CallKind::Punch, &self.path)?;
        self.inner.punch(offset, len)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.inner.is_at(path)
    }
}
