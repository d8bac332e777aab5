//! Directories that are kept open, so that no name above a file can be replaced underneath it.
//!
//! Invariant: below the base, every step is one name, opened relative to the previous step, and
//! none of them is a symbolic link; so no link created below the base can lead out of it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use weir_host::Disk;

/// A directory with files of an output.
#[derive(Debug)]
pub(super) struct Dir {
    /// How its files are accessed: by its name, or through `handle`.
    path: PathBuf,
    /// Names in it must not be links.
    pub(super) is_guarded: bool,
    _handle: Option<OwnedFd>,
}

impl Dir {
    /// Opens the directory of a path without fields: links are up to the operator.
    pub(super) fn named(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        disk.create_dir_all(path)?;
        Ok(Self { path: path.to_owned(), is_guarded: false, _handle: None })
    }

    /// Opens the directory with these names below the base; missing ones are created.
    pub(super) fn below<'a>(
        disk: &dyn Disk,
        base: &Path,
        names: impl Iterator<Item = &'a str>,
    ) -> io::Result<Self> {
        disk.create_dir_all(base)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut handle = rustix::fs::open(base, flags, Mode::empty())?;
        for name in names {
            handle =
                match rustix::fs::openat(&handle, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                    Err(Errno::NOENT) => {
                        match rustix::fs::mkdirat(&handle, name, Mode::RWXU) {
                            Ok(()) => rustix::fs::fsync(&handle)?,
                            Err(Errno::EXIST) => {}
                            Err(error) => return Err(error.into()),
                        }
                        rustix::fs::openat(&handle, name, flags | OFlags::NOFOLLOW, Mode::empty())?
                    }
                    handle => handle?,
                };
        }
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd()).into();
        Ok(Self { path, is_guarded: true, _handle: Some(handle) })
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}
