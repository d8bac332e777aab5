//! A tree of files in memory, whose programs may act between any two calls of the process that
//! follows it.
//!
//! Invariants: names, inodes, birth times and reports behave like those of a local file system of
//! Linux with inotify, in their least convenient form: an inode number is reused as soon as its
//! file is gone, birth times have the resolution of a timer tick, and a directory is listed in
//! parts between which names move.

mod nodes;
mod watch;

use std::fmt;
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_host::file_tree::{
    Errno, FileStat, FileTree, Interest, TreeEntry, TreeFile, TreeWatch, WatchEvent,
};
use weir_host::{Clock, WakeFd};

use self::nodes::Nodes;
use crate::FakeClock;

/// Number of names that a directory returns at a time.
const LISTED_AT_A_TIME: usize = 4;

/// A tree in memory. Clones are the same tree.
#[derive(Clone)]
pub struct FakeTree(Arc<Shared>);

type Change = Box<dyn FnMut() + Send>;

struct Shared {
    nodes: Mutex<Nodes>,
    clock: FakeClock,
    /// What happens before each call of the process that follows the files.
    between: Mutex<Option<Change>>,
}

impl fmt::Debug for FakeTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeTree").finish_non_exhaustive()
    }
}

impl FakeTree {
    /// Creates a tree with an empty root.
    pub fn new(clock: FakeClock) -> Self {
        let nodes = Mutex::new(Nodes::new());
        Self(Arc::new(Shared { nodes, clock, between: Mutex::new(None) }))
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn between(&self) -> MutexGuard<'_, Option<Change>> {
        self.0.between.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `change` before each call of the process that follows the files, until
    /// [`Self::stop_changes`]. It may change the tree.
    pub fn change_between_calls(&self, change: impl FnMut() + Send + 'static) {
        *self.between() = Some(Box::new(change));
    }

    /// Undoes [`Self::change_between_calls`].
    pub fn stop_changes(&self) {
        *self.between() = None;
    }

    fn called(&self) -> MutexGuard<'_, Nodes> {
        // Taken out, so that it can use the tree itself.
        let change = self.between().take();
        if let Some(mut change) = change {
            change();
            self.between().get_or_insert(change);
        }
        self.nodes()
    }

    /// Limits the number of watches and of reports that wait (afterwards some are lost), and the
    /// descriptors of the process.
    pub fn set_limits(&self, limits: TreeLimits) {
        self.nodes().limits = limits;
    }

    /// Makes the next reads of files fail.
    pub fn fail_reads(&self, count: u32) {
        self.nodes().failing_reads = count;
    }

    /// Creates a directory. Returns false if the name exists.
    pub fn make_dir(&self, path: &str) -> bool {
        let now = self.0.clock.unix_ns();
        self.nodes().make_dir(path.as_ref(), now)
    }

    /// Opens a file for appending, and creates it if it does not exist. `None` if that is not
    /// possible.
    pub fn append_to(&self, path: &str) -> Option<FakeWriter> {
        let now = self.0.clock.unix_ns();
        let dentry = self.nodes().open_for_writing(path.as_ref(), now)?;
        Some(FakeWriter { tree: self.clone(), dentry })
    }

    /// Renames a file or directory, replacing a file of that name.
    pub fn rename(&self, from: &str, to: &str) -> bool {
        self.nodes().rename(from.as_ref(), to.as_ref())
    }

    /// Removes a name of a file, or an empty directory.
    pub fn remove(&self, path: &str) -> bool {
        self.nodes().remove(path.as_ref())
    }

    /// Gives a file another name.
    pub fn link(&self, from: &str, to: &str) -> bool {
        self.nodes().link(from.as_ref(), to.as_ref())
    }

    /// Creates a symbolic link.
    pub fn symlink(&self, target: &str, path: &str) {
        let now = self.0.clock.unix_ns();
        self.nodes().symlink(target.as_ref(), path.as_ref(), now);
    }

    /// Returns the content of a file.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.nodes().content(path.as_ref())
    }

    /// Returns every file below a directory under each of its names, with its content.
    pub fn files_below(&self, dir: &str) -> Vec<(PathBuf, Vec<u8>)> {
        self.nodes().files_below(dir.as_ref())
    }

    /// Returns whether reports wait for the process.
    pub fn has_reports(&self) -> bool {
        self.nodes().has_reports()
    }
}

/// Limits of the system.
#[derive(Debug, Clone, Copy)]
pub struct TreeLimits {
    /// Number of watches.
    pub watches_max: usize,
    /// Number of reports that wait; further ones are lost.
    pub reports_max: usize,
    /// Number of descriptors of the process.
    pub descriptors_max: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { watches_max: 8192, reports_max: 16_384, descriptors_max: 1024 }
    }
}

/// A file that a program has open. It continues to write to it whatever happens to its names.
#[derive(Debug)]
pub struct FakeWriter {
    tree: FakeTree,
    dentry: u64,
}

impl FakeWriter {
    /// Appends to the file.
    pub fn append(&self, bytes: &[u8]) {
        self.tree.nodes().append(self.dentry, bytes);
    }

    /// Truncates the file.
    pub fn truncate(&self, len: usize) {
        self.tree.nodes().truncate(self.dentry, len);
    }
}

impl Drop for FakeWriter {
    fn drop(&mut self) {
        self.tree.nodes().close_writer(self.dentry);
    }
}

impl FileTree for FakeTree {
    fn open(&self, path: &Path) -> Result<Box<dyn TreeFile>, Errno> {
        let inode = self.called().open(path)?;
        Ok(Box::new(FakeFile { tree: self.clone(), inode }))
    }

    fn stat(&self, path: &Path) -> Result<FileStat, Errno> {
        self.called().stat(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(self.called().canonicalize(path)?)
    }

    fn list(&self, dir: &Path, each: &mut dyn FnMut(TreeEntry)) -> io::Result<()> {
        let mut after = None;
        loop {
            let part = self.called().list(dir, after, LISTED_AT_A_TIME)?;
            let Some((last, _)) = part.last() else { return Ok(()) };
            after = Some(*last);
            for (_, entry) in part {
                each(entry);
            }
        }
    }

    fn read(&self, path: &Path, _bytes_max: u64) -> io::Result<Vec<u8>> {
        self.called().content(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn watch(&self) -> (Box<dyn TreeWatch>, Option<Errno>) {
        let queue = self.nodes().add_queue();
        (Box::new(FakeWatch { tree: self.clone(), queue }), None)
    }

    fn descriptors_max(&self) -> usize {
        self.nodes().limits.descriptors_max
    }
}

/// A file that the process has open.
#[derive(Debug)]
struct FakeFile {
    tree: FakeTree,
    inode: u64,
}

impl TreeFile for FakeFile {
    fn stat(&self) -> Result<FileStat, Errno> {
        Ok(self.tree.called().stat_of(self.inode))
    }

    fn read_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno> {
        self.tree.called().read_at(self.inode, parts, offset)
    }

    fn data_from(&self, offset: u64) -> Result<u64, Errno> {
        let size = self.tree.called().stat_of(self.inode).size;
        if offset < size { Ok(offset) } else { Err(Errno::NXIO) }
    }

    fn own_path(&self) -> PathBuf {
        nodes::own_path(self.inode)
    }
}

impl Drop for FakeFile {
    fn drop(&mut self) {
        self.tree.nodes().close(self.inode);
    }
}

/// The reports of the process. It never waits: time passes only on the clock.
#[derive(Debug)]
struct FakeWatch {
    tree: FakeTree,
    queue: usize,
}

impl TreeWatch for FakeWatch {
    fn add_dir(&self, dir: &Path, interest: Interest) -> Result<i32, Errno> {
        self.tree.called().watch_dir(self.queue, dir, interest)
    }

    fn add_file(&self, file: &dyn TreeFile) -> Result<i32, Errno> {
        self.tree.called().watch_file(self.queue, &file.own_path())
    }

    fn remove(&self, wd: i32) {
        self.tree.called().unwatch(self.queue, wd);
    }

    fn drain(&self, tell: &mut dyn FnMut(WatchEvent<'_>)) -> bool {
        let reports = self.tree.called().take_reports(self.queue);
        for report in &reports {
            tell(report.as_event());
        }
        true
    }

    fn wait(&self, _wake: &WakeFd, _for_events: bool, _timeout: Duration) -> bool {
        true
    }
}

impl Drop for FakeWatch {
    fn drop(&mut self) {
        self.tree.nodes().remove_queue(self.queue);
    }
}

#[cfg(test)]
mod tests;
