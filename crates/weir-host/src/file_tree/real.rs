//! The files of this machine.

use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, Statx, StatxFlags};
use rustix::process::{Resource, getrlimit};

use super::{Errno, FileId, FileStat, FileTree, Inotify, TreeEntry, TreeFile, TreeWatch};

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The real tree of files, watched by inotify.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFileTree;

impl FileTree for RealFileTree {
    fn open(&self, path: &Path) -> Result<Box<dyn TreeFile>, Errno> {
        // NONBLOCK: the name may have become a pipe, which must not block the source. NOATIME: the
        // file system would otherwise update the access time after every write that is read.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let fd = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
            // Permitted only for the owner of the file and privileged processes.
            Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
            other => other,
        }?;
        Ok(Box::new(fd))
    }

    fn stat(&self, path: &Path) -> Result<FileStat, Errno> {
        Ok(rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, WANTED)?.into())
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn list(&self, dir: &Path, each: &mut dyn FnMut(TreeEntry)) -> io::Result<()> {
        for entry in dir.read_dir()?.flatten() {
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_file() => FileType::RegularFile,
                Ok(kind) if kind.is_dir() => FileType::Directory,
                Ok(kind) if kind.is_symlink() => FileType::Symlink,
                Ok(_) | Err(_) => FileType::Unknown,
            };
            each(TreeEntry { name: entry.file_name(), inode: entry.ino(), kind });
        }
        Ok(())
    }

    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        if file.metadata()?.len() > bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn watch(&self) -> (Box<dyn TreeWatch>, Option<Errno>) {
        let (watch, refused) = Inotify::new();
        (Box::new(watch), refused)
    }

    fn descriptors_max(&self) -> usize {
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
    }
}

impl TreeFile for OwnedFd {
    fn stat(&self) -> Result<FileStat, Errno> {
        Ok(rustix::fs::statx(self.as_fd(), c"", AtFlags::EMPTY_PATH, WANTED)?.into())
    }

    fn read_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno> {
        loop {
            match rustix::io::preadv(self, parts, offset) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    fn data_from(&self, offset: u64) -> Result<u64, Errno> {
        rustix::fs::seek(self, SeekFrom::Data(offset))
    }

    fn own_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.as_raw_fd()).into()
    }
}

impl From<Statx> for FileStat {
    fn from(stat: Statx) -> Self {
        let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let ns = |sec: i64, nsec: u32| sec * 1_000_000_000 + i64::from(nsec);
        Self {
            id: FileId {
                device: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
                inode: stat.stx_ino,
                born_ns: if has_birth {
                    ns(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)
                } else {
                    0
                },
            },
            kind: FileType::from_raw_mode(u32::from(stat.stx_mode)),
            size: stat.stx_size,
            links: u64::from(stat.stx_nlink),
        }
    }
}
