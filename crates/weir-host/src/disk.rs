//! Files and directories of weir's own data, injected so that tests can lose writes, fill the
//! disk and fail any call. (Log files that are tailed are not weir's data and are not read here.)
//!
//! Invariants: there are no retries and no hidden buffering: one call is one system call, and the
//! caller handles short writes; files are created with mode 0600 and directories with 0700.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};

use crate::units::approx_size;

/// How a file is opened: for reading and writing, except with `Read` and `ReadInPlace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist; read only.
    Read,
    /// Must exist.
    ReadWrite,
    /// Must not exist.
    CreateNew,
    /// Created if missing.
    Create,
    /// Like `Read`; fails if the name itself is a symbolic link.
    ReadInPlace,
    /// Like `Create`; fails if the name itself is a symbolic link.
    CreateInPlace,
}

/// Space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Total space.
    pub total_bytes: u64,
    /// Space available to an unprivileged process.
    pub free_bytes: u64,
}

/// Operations on directories and names.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a directory and its parents, each made durable in its parent.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Returns the names of the files in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Renames within a directory, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes created, renamed and removed names durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Returns the space of the file system that holds `dir`.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads at an offset; returns the number of bytes read, 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset; may write less than requested.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Makes content (and size) durable. After an error, it is never certain again what is on disk:
    /// do not sync the same file again, but write the data elsewhere.
    fn sync_data(&self) -> io::Result<()>;
    /// Returns the size in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns true if the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Truncates or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns the blocks of a range to the file system; the range reads as zeros.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Takes an exclusive lock that ends with the process; returns false if another process holds
    /// it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Returns true if the path still leads to this file: it was not removed, renamed or replaced.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}

impl dyn DiskFile + '_ {
    /// Reads exactly `buf.len()` bytes or fails with `UnexpectedEof`.
    pub fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes all parts, continuing after short writes.
    pub fn write_all_at(&self, parts: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        let mut left = parts;
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.write_at(left, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    IoSlice::advance_slices(&mut left, n);
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// The operating system's disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// Maximum number of slices that one `pwritev` call takes (`IOV_MAX` on Linux).
const SLICES_MAX: usize = 1024;

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let flags = OFlags::CLOEXEC
            | match mode {
                OpenMode::Read => OFlags::RDONLY,
                OpenMode::ReadWrite => OFlags::RDWR,
                OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
                OpenMode::Create => OFlags::RDWR | OFlags::CREATE,
                // Whatever is at the path: a pipe must not block the call.
                OpenMode::ReadInPlace => OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK,
                OpenMode::CreateInPlace => OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW,
            };
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Box::new(RealFile(file)))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.as_os_str().is_empty() || dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new(""));
        self.create_dir_all(parent)?;
        match rustix::fs::mkdir(dir, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => self.sync_dir(parent),
            Err(e) => Err(e.into()),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(or_here(dir))?.map(|entry| entry.map(|e| e.path())).collect()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(rustix::fs::open(
            or_here(dir),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)?)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(or_here(dir))?;
        Ok(DiskSpace {
            total_bytes: stat.f_blocks * stat.f_frsize,
            free_bytes: stat.f_bavail * stat.f_frsize,
        })
    }
}

/// Replaces a file as a whole: after a crash it is the one before, or this one.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let file = disk.open(&temporary, OpenMode::Create)?;
    file.set_len(0)?;
    file.write_all_at(&mut [IoSlice::new(bytes)], 0)?;
    file.sync_data()?;
    disk.rename(&temporary, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Reads a file, at most its first `bytes_max` bytes.
pub fn read_file(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Returns an error if writing `bytes` into `dir` would leave less than `free_min` bytes free.
/// `hint` is added to its text.
///
/// # Errors
/// Also if the free space cannot be determined.
pub fn check_free_space(
    disk: &dyn Disk,
    dir: &Path,
    bytes: u64,
    free_min: u64,
    hint: &str,
) -> io::Result<()> {
    let free = disk.space(dir)?.free_bytes;
    if free >= free_min.saturating_add(bytes) {
        return Ok(());
    }
    let (free, min) = (approx_size(free), approx_size(free_min));
    let text = format!("only {free} of disk space is free; {min} must stay free{hint}");
    Err(io::Error::new(io::ErrorKind::StorageFull, text))
}

/// Returns true if an error means that there is not enough space, or that a quota is used up.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the current directory for the empty parent of a bare file name.
fn or_here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

#[derive(Debug)]
struct RealFile(std::os::fd::OwnedFd);

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.0, buf, offset)?)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.0, &parts[..parts.len().min(SLICES_MAX)], offset)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.0)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.0)?.st_size.cast_unsigned())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.0, len)?)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.0, flags, offset, len)?)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = rustix::fs::fstat(&self.0)?;
        match rustix::fs::stat(path) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_directory_of_a_bare_file_name_is_the_one_that_weir_runs_in() {
        let names = |dir: &str| -> BTreeSet<_> {
            let paths = RealDisk.list(Path::new(dir)).unwrap();
            paths.iter().filter_map(|path| path.file_name().map(ToOwned::to_owned)).collect()
        };
        assert_eq!(names(""), names("."));
        assert!(!names("").is_empty());
        RealDisk.sync_dir(Path::new("")).unwrap();
        assert!(RealDisk.space(Path::new("")).unwrap().total_bytes > 0);
    }

    #[test]
    fn a_file_knows_whether_a_name_leads_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| dir.path().join(name));
        let file = RealDisk.open(&path, OpenMode::CreateNew).unwrap();
        assert!(file.is_at(&path).unwrap());
        assert!(!file.is_at(&path.join("below")).unwrap());
        RealDisk.rename(&path, &other).unwrap();
        assert!(!file.is_at(&path).unwrap() && file.is_at(&other).unwrap());
        drop(RealDisk.open(&path, OpenMode::CreateNew).unwrap());
        assert!(!file.is_at(&path).unwrap(), "another file has the name");
    }
}
