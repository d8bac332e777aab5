//! Files and directories of weir's own data, injected so that tests can lose writes, fill the
//! disk and fail any call. (Log files that are tailed are not weir's data and are not read here.)
//!
//! Invariants: no retry and no hidden buffering: one call is one system call, short writes are
//! the caller's to finish; files are created with mode 0600 and directories with 0700.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};

/// How a file is opened. All files are opened for reading and writing except by `Read` and
/// `ReadInPlace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist; read only.
    Read,
    /// Must exist.
    ReadWrite,
    /// Must not exist.
    CreateNew,
    /// Created when missing.
    Create,
    /// As `Read`; fails when the name itself is a symbolic link.
    ReadInPlace,
    /// As `Create`; fails when the name itself is a symbolic link.
    CreateInPlace,
}

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it.
    pub total_bytes: u64,
    /// What an unprivileged process may still use.
    pub free_bytes: u64,
}

/// Directories and names.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a directory and its parents, each made durable in its parent.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Names of the files in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Renames within a directory, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes created, renamed and removed names durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Space of the file system that holds `dir`.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads at an offset; returns how much was read, 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset; may write less than asked.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Makes content (and size) durable. After an error the content is in doubt for ever:
    /// never sync the same file again, write the data elsewhere.
    fn sync_data(&self) -> io::Result<()>;
    /// Size in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Gives the blocks of a range back to the file system; the range reads as zeros.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Takes an exclusive lock that ends with the process; false when another holds it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Whether that name still leads to this file: not when it was removed, renamed or replaced.
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

    /// Writes all parts, going on after short writes.
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

/// Most slices that one `pwritev` call takes (`IOV_MAX` on Linux).
const SLICES_MAX: usize = 1024;

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let flags = OFlags::CLOEXEC
            | match mode {
                OpenMode::Read => OFlags::RDONLY,
                OpenMode::ReadWrite => OFlags::RDWR,
                OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
                OpenMode::Create => OFlags::RDWR | OFlags::CREATE,
                // Whatever stands there: a pipe must not make the call wait.
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

/// The directory that a bare file name is in has no name.
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
