//! Inodes and names.
//!
//! Invariants: an inode exists as long as it has a name or is open; a name keeps its number when it
//! is moved, so that a program that has the file open is reported under the current name, and under
//! the last one when there is none.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IoSliceMut;
use std::path::{Component, Path, PathBuf};

use weir_host::file_tree::{Errno, FileId, FileStat, FileType, Interest, NameChange, TreeEntry};
use weir_model::hash64;

use super::TreeLimits;
use super::watch::{Queue, Report};

/// Resolution of birth times, a timer tick.
const TICK_NS: i64 = 4_000_000;

/// Maximum number of links that are followed.
const LINKS_MAX: u32 = 40;

const ROOT: u64 = 2;

const OWN_PATH: &str = "/proc/self/fd/";

/// Returns the path that leads to an open file.
pub(super) fn own_path(inode: u64) -> PathBuf {
    format!("{OWN_PATH}{inode}").into()
}

#[derive(Debug)]
enum Content {
    File(Vec<u8>),
    Dir(BTreeMap<OsString, u64>),
    Link(PathBuf),
}

#[derive(Debug)]
struct Inode {
    content: Content,
    links: u64,
    opens: u64,
    born_ns: i64,
}

/// A name in a directory.
#[derive(Debug, Clone)]
struct Dentry {
    dir: u64,
    name: OsString,
    inode: u64,
}

#[derive(Debug)]
pub(super) struct Nodes {
    inodes: BTreeMap<u64, Inode>,
    /// Names by number, also those that are gone.
    dentries: Vec<Dentry>,
    next_inode: u64,
    /// Numbers of inodes that are gone.
    free: Vec<u64>,
    next_rename: u32,
    queues: BTreeMap<usize, Queue>,
    next_queue: usize,
    opens: usize,
    pub(super) failing_reads: u32,
    pub(super) limits: TreeLimits,
}

impl Nodes {
    pub(super) fn new() -> Self {
        let root = Inode { content: Content::Dir(BTreeMap::new()), links: 1, opens: 0, born_ns: 0 };
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            dentries: Vec::new(),
            next_inode: ROOT + 1,
            free: Vec::new(),
            next_rename: 0,
            queues: BTreeMap::new(),
            next_queue: 0,
            opens: 0,
            failing_reads: 0,
            limits: TreeLimits::default(),
        }
    }

    fn dir(&self, inode: u64) -> Result<&BTreeMap<OsString, u64>, Errno> {
        match &self.inodes[&inode].content {
            Content::Dir(names) => Ok(names),
            Content::File(_) | Content::Link(_) => Err(Errno::NOTDIR),
        }
    }

    fn dir_mut(&mut self, inode: u64) -> Option<&mut BTreeMap<OsString, u64>> {
        match &mut self.inodes.get_mut(&inode)?.content {
            Content::Dir(names) => Some(names),
            Content::File(_) | Content::Link(_) => None,
        }
    }

    fn dentry(&self, dir: u64, name: &OsStr) -> Result<u64, Errno> {
        self.dir(dir)?.get(name).copied().ok_or(Errno::NOENT)
    }

    /// Returns the inode that a path leads to, and its path without links.
    fn walk(&self, path: &Path, follows_last: bool) -> Result<(u64, PathBuf), Errno> {
        let (mut inode, mut real) = (ROOT, PathBuf::from("/"));
        let mut left: Vec<OsString> = names_of(path).rev().collect();
        let mut links = 0;
        while let Some(name) = left.pop() {
            let next = self.dentries[self.dentry(inode, &name)? as usize].inode;
            match &self.inodes[&next].content {
                Content::Link(target) if follows_last || !left.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP);
                    }
                    left.extend(names_of(target).rev());
                    if target.is_absolute() {
                        (inode, real) = (ROOT, PathBuf::from("/"));
                    }
                }
                Content::Link(_) | Content::Dir(_) | Content::File(_) => {
                    inode = next;
                    real.push(&name);
                }
            }
        }
        Ok((inode, real))
    }

    /// Returns the directory and the last name of a path.
    fn place(&self, path: &Path) -> Option<(u64, OsString)> {
        let (dir, _) = self.walk(path.parent()?, true).ok()?;
        self.dir(dir).ok()?;
        Some((dir, path.file_name()?.to_owned()))
    }

    fn note_name(&mut self, dir: u64, name: &OsStr, change: NameChange) {
        let max = self.limits.reports_max;
        self.queues.values_mut().for_each(|queue| queue.note_name(dir, name, change, max));
    }

    fn change_of(&self, inode: u64, change: NameChange) -> NameChange {
        match self.inodes[&inode].content {
            Content::Dir(_) => NameChange::Unknown,
            Content::File(_) | Content::Link(_) => change,
        }
    }

    fn add(&mut self, path: &Path, content: Content, now_ns: i64) -> Option<u64> {
        let (dir, name) = self.place(path)?;
        if self.dir(dir).ok()?.contains_key(&name) {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.next_inode += 1;
            self.next_inode - 1
        });
        let born_ns = now_ns - now_ns.rem_euclid(TICK_NS);
        self.inodes.insert(number, Inode { content, links: 0, opens: 0, born_ns });
        self.name(dir, name, number)
    }

    /// Gives an inode a name.
    fn name(&mut self, dir: u64, name: OsString, inode: u64) -> Option<u64> {
        let number = self.dentries.len() as u64;
        self.dir_mut(dir)?.insert(name.clone(), number);
        self.inodes.get_mut(&inode)?.links += 1;
        let change = self.change_of(inode, NameChange::Created);
        self.note_name(dir, &name, change);
        self.dentries.push(Dentry { dir, name, inode });
        Some(number)
    }

    pub(super) fn make_dir(&mut self, path: &Path, now_ns: i64) -> bool {
        self.add(path, Content::Dir(BTreeMap::new()), now_ns).is_some()
    }

    pub(super) fn symlink(&mut self, target: &Path, path: &Path, now_ns: i64) {
        let _exists = self.add(path, Content::Link(target.to_owned()), now_ns);
    }

    pub(super) fn open_for_writing(&mut self, path: &Path, now_ns: i64) -> Option<u64> {
        let existing = self.walk(path, true).ok();
        let dentry = match existing {
            None => self.add(path, Content::File(Vec::new()), now_ns)?,
            Some((_, real)) => {
                let (dir, name) = self.place(&real)?;
                self.dentry(dir, &name).ok()?
            }
        };
        let inode = self.inodes.get_mut(&self.dentries[dentry as usize].inode)?;
        if !matches!(inode.content, Content::File(_)) {
            return None;
        }
        inode.opens += 1;
        Some(dentry)
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> bool {
        let (Ok((inode, _)), Some((dir, name))) = (self.walk(from, true), self.place(to)) else {
            return false;
        };
        let is_free = self.dir(dir).is_ok_and(|names| !names.contains_key(&name));
        let is_file = matches!(self.inodes[&inode].content, Content::File(_));
        is_free && is_file && self.name(dir, name, inode).is_some()
    }

    pub(super) fn remove(&mut self, path: &Path) -> bool {
        let Some((dir, name)) = self.place(path) else { return false };
        let Ok(dentry) = self.dentry(dir, &name) else { return false };
        let inode = self.dentries[dentry as usize].inode;
        if self.dir(inode).is_ok_and(|names| !names.is_empty()) {
            return false;
        }
        let change = self.change_of(inode, NameChange::Removed);
        if let Some(names) = self.dir_mut(dir) {
            names.remove(&name);
        }
        self.note_name(dir, &name, change);
        self.unname(inode);
        true
    }

    fn unname(&mut self, inode: u64) {
        if let Some(node) = self.inodes.get_mut(&inode) {
            node.links -= 1;
        }
        self.collect(inode);
    }

    /// Frees an inode that has no name and is not open.
    fn collect(&mut self, inode: u64) {
        let is_gone = |node: &Inode| node.links == 0 && node.opens == 0;
        if !self.inodes.get(&inode).is_some_and(is_gone) {
            return;
        }
        self.inodes.remove(&inode);
        self.free.push(inode);
        let max = self.limits.reports_max;
        self.queues.values_mut().for_each(|queue| queue.note_gone(inode, max));
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> bool {
        let (Some((dir, name)), Some((to_dir, to_name))) = (self.place(from), self.place(to))
        else {
            return false;
        };
        let Ok(dentry) = self.dentry(dir, &name) else { return false };
        let inode = self.dentries[dentry as usize].inode;
        let replaced = self.dentry(to_dir, &to_name).ok().map(|d| self.dentries[d as usize].inode);
        let is_dir = |inode: u64| self.dir(inode).is_ok();
        if replaced == Some(inode) || replaced.is_some_and(|old| is_dir(old) || is_dir(inode)) {
            return false;
        }
        if let Some(names) = self.dir_mut(dir) {
            names.remove(&name);
        }
        if let Some(names) = self.dir_mut(to_dir) {
            names.insert(to_name.clone(), dentry);
        }
        self.dentries[dentry as usize] = Dentry { dir: to_dir, name: to_name.clone(), inode };
        self.next_rename += 1;
        let away = self.change_of(inode, NameChange::MovedFrom(self.next_rename));
        self.note_name(dir, &name, away);
        let here = self.change_of(inode, NameChange::MovedTo(self.next_rename));
        self.note_name(to_dir, &to_name, here);
        let max = self.limits.reports_max;
        if self.dir(inode).is_ok() {
            self.queues.values_mut().for_each(|queue| queue.note_moved(inode, max));
        }
        if let Some(old) = replaced {
            self.unname(old);
        }
        true
    }

    fn note_write(&mut self, dentry: u64) {
        let Dentry { dir, name, inode } = self.dentries[dentry as usize].clone();
        let max = self.limits.reports_max;
        self.queues.values_mut().for_each(|queue| queue.note_write(dir, &name, inode, max));
    }

    fn bytes_mut(&mut self, dentry: u64) -> Option<&mut Vec<u8>> {
        match &mut self.inodes.get_mut(&self.dentries[dentry as usize].inode)?.content {
            Content::File(bytes) => Some(bytes),
            Content::Dir(_) | Content::Link(_) => None,
        }
    }

    pub(super) fn append(&mut self, dentry: u64, bytes: &[u8]) {
        if let Some(content) = self.bytes_mut(dentry) {
            content.extend_from_slice(bytes);
        }
        self.note_write(dentry);
    }

    pub(super) fn truncate(&mut self, dentry: u64, len: usize) {
        if let Some(content) = self.bytes_mut(dentry) {
            content.truncate(len);
        }
        self.note_write(dentry);
    }

    pub(super) fn close_writer(&mut self, dentry: u64) {
        let inode = self.dentries[dentry as usize].inode;
        if let Some(node) = self.inodes.get_mut(&inode) {
            node.opens -= 1;
        }
        self.collect(inode);
    }

    pub(super) fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let (inode, _) = self.walk(path, true).ok()?;
        match &self.inodes[&inode].content {
            Content::File(bytes) => Some(bytes.clone()),
            Content::Dir(_) | Content::Link(_) => None,
        }
    }

    pub(super) fn files_below(&self, dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let names = self.walk(dir, true).ok().and_then(|(inode, _)| self.dir(inode).ok());
        let mut files = Vec::new();
        for (name, dentry) in names.into_iter().flatten() {
            let path = dir.join(name);
            match &self.inodes[&self.dentries[*dentry as usize].inode].content {
                Content::File(bytes) => files.push((path, bytes.clone())),
                Content::Dir(_) => files.extend(self.files_below(&path)),
                Content::Link(_) => {}
            }
        }
        files
    }

    pub(super) fn open(&mut self, path: &Path) -> Result<u64, Errno> {
        let (inode, _) = self.walk(path, true)?;
        if self.opens >= self.limits.descriptors_max {
            return Err(Errno::MFILE);
        }
        self.opens += 1;
        if let Some(node) = self.inodes.get_mut(&inode) {
            node.opens += 1;
        }
        Ok(inode)
    }

    pub(super) fn close(&mut self, inode: u64) {
        self.opens -= 1;
        if let Some(node) = self.inodes.get_mut(&inode) {
            node.opens -= 1;
        }
        self.collect(inode);
    }

    pub(super) fn stat(&self, path: &Path) -> Result<FileStat, Errno> {
        Ok(self.stat_of(self.walk(path, false)?.0))
    }

    pub(super) fn stat_of(&self, inode: u64) -> FileStat {
        let node = &self.inodes[&inode];
        let (kind, size) = match &node.content {
            Content::File(bytes) => (FileType::RegularFile, bytes.len()),
            Content::Dir(_) => (FileType::Directory, 0),
            Content::Link(target) => (FileType::Symlink, target.as_os_str().len()),
        };
        let id = FileId { device: 1 << 32, inode, born_ns: node.born_ns };
        FileStat { id, kind, size: size as u64, links: node.links }
    }

    pub(super) fn canonicalize(&self, path: &Path) -> Result<PathBuf, Errno> {
        Ok(self.walk(path, true)?.1)
    }

    /// Returns the next names after a place in the order of the directory, each with its place.
    pub(super) fn list(
        &self,
        dir: &Path,
        after: Option<u64>,
        count: usize,
    ) -> Result<Vec<(u64, TreeEntry)>, Errno> {
        let (inode, _) = self.walk(dir, true)?;
        let mut all: Vec<(u64, TreeEntry)> = self
            .dir(inode)?
            .iter()
            .map(|(name, dentry)| {
                let inode = self.dentries[*dentry as usize].inode;
                let kind = self.stat_of(inode).kind;
                let place = hash64(name.as_encoded_bytes());
                (place, TreeEntry { name: name.clone(), inode, kind })
            })
            .filter(|(place, _)| after.is_none_or(|after| *place > after))
            .collect();
        all.sort_by_key(|(place, _)| *place);
        all.truncate(count);
        Ok(all)
    }

    pub(super) fn read_at(
        &mut self,
        inode: u64,
        parts: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, Errno> {
        if self.failing_reads > 0 {
            self.failing_reads -= 1;
            return Err(Errno::IO);
        }
        let Content::File(bytes) = &self.inodes[&inode].content else { return Err(Errno::ISDIR) };
        let mut left = bytes.get(offset as usize..).unwrap_or_default();
        let before = left.len();
        for part in parts {
            let count = part.len().min(left.len());
            part[..count].copy_from_slice(&left[..count]);
            left = &left[count..];
        }
        Ok(before - left.len())
    }

    pub(super) fn add_queue(&mut self) -> usize {
        self.next_queue += 1;
        self.queues.insert(self.next_queue, Queue::default());
        self.next_queue
    }

    pub(super) fn remove_queue(&mut self, queue: usize) {
        self.queues.remove(&queue);
    }

    fn queue(&mut self, number: usize) -> Result<&mut Queue, Errno> {
        let max = self.limits.watches_max;
        let queue = self.queues.get_mut(&number).ok_or(Errno::BADF)?;
        if queue.len() >= max { Err(Errno::NOSPC) } else { Ok(queue) }
    }

    pub(super) fn watch_dir(
        &mut self,
        queue: usize,
        dir: &Path,
        interest: Interest,
    ) -> Result<i32, Errno> {
        let (inode, _) = self.walk(dir, true)?;
        self.dir(inode)?;
        Ok(self.queue(queue)?.watch_dir(inode, interest))
    }

    pub(super) fn watch_file(&mut self, queue: usize, own_path: &Path) -> Result<i32, Errno> {
        let number = own_path.to_str().and_then(|path| path.strip_prefix(OWN_PATH)?.parse().ok());
        let inode = number.ok_or(Errno::NOENT)?;
        Ok(self.queue(queue)?.watch_file(inode))
    }

    pub(super) fn unwatch(&mut self, queue: usize, wd: i32) {
        let max = self.limits.reports_max;
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.remove(wd, max);
        }
    }

    pub(super) fn take_reports(&mut self, queue: usize) -> Vec<Report> {
        self.queues.get_mut(&queue).map(Queue::take).unwrap_or_default()
    }

    pub(super) fn has_reports(&self) -> bool {
        self.queues.values().any(|queue| !queue.is_empty())
    }
}

fn names_of(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        _the_tree_has_no_others => None,
    })
}
