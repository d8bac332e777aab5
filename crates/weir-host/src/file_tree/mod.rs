//! Files that other programs write, rename and remove at any moment, as a tailing source sees them:
//! names, open files and reports of changes.
//!
//! Invariants: every call may see a different tree, as other programs run in between; an open file
//! remains readable whatever happens to its names; a link at the end of a path is not followed,
//! except by [`FileTree::canonicalize`].

mod inotify;
mod real;

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use inotify::Inotify;
pub use real::RealFileTree;
pub use rustix::fs::FileType;
pub use rustix::io::Errno;

use crate::WakeFd;

/// The identity of a file on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device, as major and minor number.
    pub device: u64,
    /// Inode number; the file system reuses it once the file is gone.
    pub inode: u64,
    /// Birth time in nanoseconds since 1970; 0 if the file system does not record it.
    pub born_ns: i64,
}

/// The attributes of a file at one moment.
#[derive(Debug, Clone, Copy)]
pub struct FileStat {
    /// Identity.
    pub id: FileId,
    /// File type.
    pub kind: FileType,
    /// Length in bytes.
    pub size: u64,
    /// Number of names.
    pub links: u64,
}

/// A name in a directory.
#[derive(Debug, Clone)]
pub struct TreeEntry {
    /// The name.
    pub name: OsString,
    /// The inode that it led to when the directory was read.
    pub inode: u64,
    /// The type of the file, [`FileType::Unknown`] where the file system does not tell.
    pub kind: FileType,
}

/// The tree of files.
pub trait FileTree: Send + Sync + Debug {
    /// Opens a file for reading, in a way that changes nothing (not even its access time) and does
    /// not block, whatever it is.
    fn open(&self, path: &Path) -> Result<Box<dyn TreeFile>, Errno>;
    /// Returns the attributes of what a path leads to.
    fn stat(&self, path: &Path) -> Result<FileStat, Errno>;
    /// Returns the path with all links resolved.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
    /// Calls `each` for the names in a directory. A name that is added, removed or renamed
    /// meanwhile may be missing, or occur twice.
    fn list(&self, dir: &Path, each: &mut dyn FnMut(TreeEntry)) -> io::Result<()>;
    /// Reads a whole file of at most `bytes_max` bytes, following links.
    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>>;
    /// Creates an object that reports changes. If the system refuses that, it refuses every
    /// directory, and the error says why.
    fn watch(&self) -> (Box<dyn TreeWatch>, Option<Errno>);
    /// Returns the maximum number of descriptors that this process may have open.
    fn descriptors_max(&self) -> usize;
}

/// An open file.
pub trait TreeFile: Send + Debug {
    /// Returns its attributes.
    fn stat(&self) -> Result<FileStat, Errno>;
    /// Reads from `offset` into the parts, one after the other; returns the number of bytes read,
    /// less than requested only at the end of the file.
    fn read_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno>;
    /// Returns the offset of the next data at or after `offset`, not counting holes. `NXIO` if
    /// there is none.
    fn data_from(&self, offset: u64) -> Result<u64, Errno>;
    /// Returns a path that leads to this file as long as it is open, even if it has no name.
    fn own_path(&self) -> PathBuf;
}

/// Reports changes in watched directories.
///
/// A refused directory is a result, not an error: the caller lists it at intervals. Lost reports
/// are reported, never ignored.
pub trait TreeWatch: Send + Debug {
    /// Watches a directory, in addition to what it is already watched for. Returns its number in
    /// the reports; a directory that is reached by another path has the same.
    fn add_dir(&self, dir: &Path, interest: Interest) -> Result<i32, Errno>;
    /// Watches a file for its next write.
    fn add_file(&self, file: &dyn TreeFile) -> Result<i32, Errno>;
    /// Stops watching. What is gone is not an error.
    fn remove(&self, wd: i32);
    /// Reports the changes since the last call. Returns false if more are waiting.
    fn drain(&self, tell: &mut dyn FnMut(WatchEvent<'_>)) -> bool;
    /// Waits until `wake` is set or, with `for_events`, there is something to report, but at most
    /// for `timeout`. Returns false if `wake` is certainly not set.
    fn wait(&self, wake: &WakeFd, for_events: bool, timeout: Duration) -> bool;
}

/// What happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameChange {
    /// A file was created under it.
    Created,
    /// The file that had it was removed.
    Removed,
    /// A rename moved something to it, replacing what had the name. The number is the cookie of the
    /// rename, the same on both sides.
    MovedTo(u32),
    /// A rename moved it away.
    MovedFrom(u32),
    /// Anything else: changed permissions, fewer links, any change to a directory.
    Unknown,
}

/// An event for a watched directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEvent<'a> {
    /// The file of that name was written to.
    Written(i32, &'a OsStr),
    /// A file that is watched itself was written to.
    FileWritten(i32),
    /// Something happened to a name.
    Touched(i32, &'a OsStr, NameChange),
    /// The directory itself was removed or moved away, or the watch of a file has ended.
    Gone(i32),
    /// Events were lost.
    Overflow,
}

/// Which events of a directory are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// Changes of names only: no file in it is followed.
    Names,
    /// Changes of names, and writes.
    Writes,
}
