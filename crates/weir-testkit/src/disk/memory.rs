//! Files in memory, where data that would survive a power cut is kept separate from data that can
//! be read.
//!
//! Invariants: `durable` content changes only by a flush of that file, `durable` names only by a
//! flush of that directory; everything in between is a pending change that a crash may keep, lose,
//! tear or reorder. This is deliberately stricter than any one file system.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Unit of allocation, bytes.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Number of a file, never reused.
pub(crate) type Inode = u64;

/// A change of content that is not durable yet.
#[derive(Debug, Clone)]
pub(crate) enum DiskChange {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
    Punch { offset: u64, len: u64 },
}

/// A change of names that is not durable yet.
#[derive(Debug, Clone)]
pub(crate) enum NameChange {
    Link(PathBuf, Inode),
    Rename { from: PathBuf, to: PathBuf, inode: Inode },
    Unlink(PathBuf),
}

/// Bytes with the set of pages that occupy space.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pages: BTreeSet<u64>,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) current: Content,
    pub(crate) durable: Content,
    /// Changes since the last flush, in order.
    pub(crate) pending: Vec<DiskChange>,
    /// Changes whose flush failed: no later flush makes them durable.
    pub(crate) doubtful: Vec<DiskChange>,
    pub(crate) handles: u64,
    /// The handle that holds the lock.
    pub(crate) lock: Option<u64>,
}

/// The whole disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) nodes: BTreeMap<Inode, Node>,
    pub(crate) names: BTreeMap<PathBuf, Inode>,
    pub(crate) durable_names: BTreeMap<PathBuf, Inode>,
    pub(crate) pending_names: Vec<NameChange>,
    pub(crate) dirs: BTreeSet<PathBuf>,
    pub(crate) next_inode: Inode,
    pub(crate) next_handle: u64,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) read_only: bool,
    /// Flushes of files whose flush had failed before: an error of the caller.
    pub(crate) flushes_after_failure: u64,
}

impl Content {
    pub(crate) fn apply(&mut self, change: &DiskChange) {
        match change {
            DiskChange::Write { offset, bytes } => self.write(*offset, bytes),
            DiskChange::SetLen(len) => self.set_len(*len),
            DiskChange::Punch { offset, len } => self.punch(*offset, *len),
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset as usize..end].copy_from_slice(bytes);
        self.pages.extend(pages(offset, bytes.len() as u64));
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        self.bytes.resize(len as usize, 0);
        self.pages.split_off(&len.div_ceil(PAGE_BYTES));
    }

    /// Like the real call: partial pages at the edges become zeros, whole pages become free, and
    /// the length is unchanged.
    fn punch(&mut self, offset: u64, len: u64) {
        let end = (offset + len).min(self.bytes.len() as u64);
        if offset >= end {
            return;
        }
        self.bytes[offset as usize..end as usize].fill(0);
        let whole = offset.div_ceil(PAGE_BYTES)..end / PAGE_BYTES;
        self.pages.retain(|page| !whole.contains(page));
    }

    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }

    /// Returns how many bytes of a write at `offset` fit if `free_bytes` can still be allocated.
    pub(crate) fn fitting(&self, offset: u64, len: u64, free_bytes: u64) -> u64 {
        let mut free_pages = free_bytes / PAGE_BYTES;
        for page in pages(offset, len).filter(|page| !self.pages.contains(page)) {
            if free_pages == 0 {
                return (page * PAGE_BYTES).saturating_sub(offset).min(len);
            }
            free_pages -= 1;
        }
        len
    }
}

fn pages(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES)
}

impl Node {
    pub(crate) fn change(&mut self, change: DiskChange) {
        self.current.apply(&change);
        self.pending.push(change);
    }

    pub(crate) fn flush(&mut self) {
        for change in self.pending.drain(..) {
            self.durable.apply(&change);
        }
    }
}

impl NameChange {
    /// Returns the directory whose flush makes it durable.
    pub(crate) fn dir(&self) -> &Path {
        let path = match self {
            Self::Link(path, _) | Self::Unlink(path) => path,
            Self::Rename { to, .. } => to,
        };
        path.parent().unwrap_or(Path::new(""))
    }

    pub(crate) fn apply(&self, names: &mut BTreeMap<PathBuf, Inode>) {
        match self {
            Self::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            Self::Unlink(path) => {
                names.remove(path);
            }
        }
    }
}

impl Memory {
    pub(crate) fn rename_or_link(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    pub(crate) fn create(&mut self, path: &Path) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.nodes.insert(inode, Node::default());
        self.rename_or_link(NameChange::Link(path.to_owned(), inode));
        inode
    }

    pub(crate) fn flush_names(&mut self, dir: &Path) {
        let (here, elsewhere) =
            std::mem::take(&mut self.pending_names).into_iter().partition(|c| c.dir() == dir);
        self.pending_names = elsewhere;
        let here: Vec<NameChange> = here;
        for change in here {
            change.apply(&mut self.durable_names);
        }
        self.forget_unreachable();
    }

    /// Returns the bytes occupied by files that have a name or are open.
    pub(crate) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<Inode> = self.names.values().copied().collect();
        self.nodes
            .iter()
            .filter(|(inode, node)| node.handles > 0 || named.contains(inode))
            .map(|(_, node)| node.current.allocated_bytes())
            .sum()
    }

    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.capacity_bytes.map(|capacity| capacity.saturating_sub(self.used_bytes()))
    }

    fn forget_unreachable(&mut self) {
        let mut named: BTreeSet<Inode> =
            self.names.values().chain(self.durable_names.values()).copied().collect();
        named.extend(self.pending_names.iter().filter_map(|change| match change {
            NameChange::Link(_, inode) | NameChange::Rename { inode, .. } => Some(*inode),
            NameChange::Unlink(_) => None,
        }));
        self.nodes.retain(|inode, node| node.handles > 0 || named.contains(inode));
    }
}
