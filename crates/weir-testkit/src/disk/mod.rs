//! Disks for tests: [`FaultyDisk`] is in memory and knows what a power cut would leave;
//! [`FailingDisk`] wraps another disk and only fails calls.
//!
//! Invariants: one call of the trait is one counted call; the same calls and the same seed give the
//! same disk; after [`FaultyDisk::crash`] or [`FaultyDisk::kill`] the old disk is dead (every call
//! fails), so that threads of the crashed process cannot reach the survivor.

mod crash;
mod failing;
mod faults;
mod memory;

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::io::Errno;
use weir_host::{Disk, DiskFile, DiskSpace, OpenMode};

pub use failing::FailingDisk;
pub use faults::{CallKind, Fault, FaultKind, Faults};
use memory::{DiskChange, Inode, Memory, NameChange, Node};

/// Size that a disk without a capacity reports, in bytes.
const UNLIMITED_BYTES: u64 = 1 << 40;

/// A disk in memory that can fail any call, fill up, and lose what was not flushed. Clones share
/// the disk.
#[derive(Debug, Clone, Default)]
pub struct FaultyDisk {
    shared: Arc<DiskState>,
}

#[derive(Debug, Default)]
struct DiskState {
    state: Mutex<DiskFiles>,
    faults: Faults,
    witness: Witness,
}

/// An observer that is notified of every call, before and after it, while no lock is held.
#[derive(Default)]
struct Witness(OnceLock<Box<Watch>>);

type Watch = dyn Fn(CallKind, &Path, Moment) + Send + Sync;

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "Witness" } else { "None" })
    }
}

/// When an observer is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The call begins: nothing has happened yet.
    Before,
    /// It has ended, successfully or not.
    After,
}

#[derive(Debug, Default)]
struct DiskFiles {
    memory: Memory,
    dead: bool,
}

impl FaultyDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the pending faults and the counts so far.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Shorthand for [`Faults::inject`].
    pub fn inject(&self, fault: Fault) {
        self.shared.faults.inject(fault);
    }

    /// Notifies an observer of every call on this disk, before and after it. The observer may block
    /// the calling thread. Only the first observer counts; it does not outlive this disk.
    pub fn watch(&self, witness: impl Fn(CallKind, &Path, Moment) + Send + Sync + 'static) {
        let _only_the_first = self.shared.witness.0.set(Box::new(witness));
    }

    /// Limits the space that files may occupy, in bytes (whole pages of 4 KiB); `None` = unlimited.
    /// A write that does not fit is short, and fails if nothing fits.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.lock().memory.capacity_bytes = bytes;
    }

    /// While this is set, every change fails with "read-only file system".
    pub fn set_read_only(&self, read_only: bool) {
        self.shared.lock().memory.read_only = read_only;
    }

    /// Returns the bytes that files occupy, not counting holes.
    pub fn used_bytes(&self) -> u64 {
        self.shared.lock().memory.used_bytes()
    }

    /// Returns the number of flushes of files whose flush had failed before. Must stay 0.
    pub fn flushes_after_failure(&self) -> u64 {
        self.shared.lock().memory.flushes_after_failure
    }

    /// Returns true once the machine stopped: by [`FaultKind::Crash`], [`Self::crash`] or
    /// [`Self::kill`].
    pub fn is_dead(&self) -> bool {
        self.shared.lock().dead
    }

    /// Cuts the power. Returns the disk of the next boot, without faults: it contains what was
    /// flushed, and the seed decides about the rest. This disk is dead from now on; call again with
    /// another seed for another outcome of the same cut.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        self.next_disk(|memory| crash::survivors(memory, seed))
    }

    /// Kills the process: the next disk contains everything that was written, flushed or not (and
    /// what was not flushed remains so). This disk is dead from now on.
    #[must_use]
    pub fn kill(&self) -> Self {
        self.next_disk(crash::reopened)
    }

    fn next_disk(&self, survivors: impl FnOnce(&Memory) -> Memory) -> Self {
        let mut state = self.shared.lock();
        state.dead = true;
        let next = DiskFiles { memory: survivors(&state.memory), dead: false };
        let state = Mutex::new(next);
        Self { shared: Arc::new(DiskState { state, ..DiskState::default() }) }
    }

    /// Returns all file names, in order.
    pub fn names(&self) -> Vec<PathBuf> {
        self.shared.lock().memory.names.keys().cloned().collect()
    }

    /// Returns the content of a file, for tests that inspect or damage it.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.shared.lock();
        let inode = state.memory.names.get(path)?;
        Some(state.memory.nodes[inode].current.bytes.clone())
    }

    /// Replaces a file's content (created if missing), durably and without counting: damage done
    /// from outside.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.shared.lock();
        let memory = &mut state.memory;
        let inode = match memory.names.get(path) {
            Some(inode) => *inode,
            None => memory.create(path),
        };
        let mut node = Node::default();
        node.change(DiskChange::Write { offset: 0, bytes: bytes.to_vec() });
        node.flush();
        memory.nodes.insert(inode, node);
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        memory.flush_names(&dir);
        memory.dirs.insert(dir);
    }
}

impl DiskState {
    fn lock(&self) -> MutexGuard<'_, DiskFiles> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one call on the live disk. `limit` in the closure is the maximum number of transferred
    /// bytes. A call in which the machine crashes takes effect (as a change that is not flushed),
    /// but its caller never learns of it.
    fn call<T>(
        &self,
        kind: CallKind,
        path: &Path,
        run: impl FnOnce(&mut Memory, Option<usize>) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(witness) = self.witness.0.get() else { return self.call_unseen(kind, path, run) };
        witness(kind, path, Moment::Before);
        let result = self.call_unseen(kind, path, run);
        witness(kind, path, Moment::After);
        result
    }

    fn call_unseen<T>(
        &self,
        kind: CallKind,
        path: &Path,
        run: impl FnOnce(&mut Memory, Option<usize>) -> io::Result<T>,
    ) -> io::Result<T> {
        let verdict = self.faults.enter(kind, path);
        let mut state = self.lock();
        if state.dead {
            return Err(Errno::IO.into());
        }
        let verdict = verdict?;
        if state.memory.read_only && kind.changes_disk() && kind != CallKind::Open {
            return Err(Errno::ROFS.into());
        }
        if verdict.crash {
            state.dead = true;
            // A flush in which the machine stops guarantees nothing.
            if !matches!(kind, CallKind::SyncData | CallKind::SyncDir) {
                let _nobody_learns = run(&mut state.memory, None);
            }
            return Err(Errno::IO.into());
        }
        run(&mut state.memory, verdict.limit)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let (inode, handle) = self.shared.call(CallKind::Open, path, |memory, _| {
            let is_read = matches!(mode, OpenMode::Read | OpenMode::ReadInPlace);
            if memory.read_only && !is_read {
                return Err(Errno::ROFS.into());
            }
            let inode = match (memory.names.get(path).copied(), mode) {
                (Some(_), OpenMode::CreateNew) => return Err(Errno::EXIST.into()),
                (Some(inode), _) => inode,
                (None, OpenMode::Read | OpenMode::ReadInPlace | OpenMode::ReadWrite) => {
                    return Err(Errno::NOENT.into());
                }
                (None, OpenMode::Create | OpenMode::CreateInPlace | OpenMode::CreateNew) => {
                    if !memory.dirs.contains(path.parent().unwrap_or(Path::new(""))) {
                        return Err(Errno::NOENT.into());
                    }
                    memory.create(path)
                }
            };
            memory.next_handle += 1;
            if let Some(node) = memory.nodes.get_mut(&inode) {
                node.handles += 1;
            }
            Ok((inode, memory.next_handle))
        })?;
        let writable = !matches!(mode, OpenMode::Read | OpenMode::ReadInPlace);
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(FaultyFile { shared, path: path.to_owned(), inode, handle, writable }))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.shared.call(CallKind::CreateDir, dir, |memory, _| {
            memory.dirs.extend(dir.ancestors().map(Path::to_owned));
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.shared.call(CallKind::List, dir, |memory, _| {
            if !memory.dirs.contains(dir) {
                return Err(Errno::NOENT.into());
            }
            let all = memory.names.keys().chain(&memory.dirs);
            Ok(all.filter(|p| p.parent() == Some(dir)).cloned().collect())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.call(CallKind::Rename, to, |memory, _| {
            let inode = *memory.names.get(from).ok_or(Errno::NOENT)?;
            let (from, to) = (from.to_owned(), to.to_owned());
            memory.rename_or_link(NameChange::Rename { from, to, inode });
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.call(CallKind::Remove, path, |memory, _| {
            if !memory.names.contains_key(path) {
                return Err(Errno::NOENT.into());
            }
            memory.rename_or_link(NameChange::Unlink(path.to_owned()));
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.shared.call(CallKind::SyncDir, dir, |memory, _| {
            memory.flush_names(dir);
            Ok(())
        })
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.shared.call(CallKind::Space, dir, |memory, _| {
            let total_bytes = memory.capacity_bytes.unwrap_or(UNLIMITED_BYTES);
            Ok(DiskSpace {
                total_bytes,
                free_bytes: total_bytes.saturating_sub(memory.used_bytes()),
            })
        })
    }
}

/// An open file of a [`FaultyDisk`].
#[derive(Debug)]
struct FaultyFile {
    shared: Arc<DiskState>,
    path: PathBuf,
    inode: Inode,
    handle: u64,
    writable: bool,
}

impl FaultyFile {
    fn call<T>(
        &self,
        kind: CallKind,
        run: impl FnOnce(&mut Memory, Inode, Option<usize>) -> io::Result<T>,
    ) -> io::Result<T> {
        if kind.changes_disk() && kind != CallKind::SyncData && !self.writable {
            return Err(Errno::BADF.into());
        }
        self.shared.call(kind, &self.path, |memory, limit| run(memory, self.inode, limit))
    }
}

fn node(memory: &mut Memory, inode: Inode) -> io::Result<&mut Node> {
    memory.nodes.get_mut(&inode).ok_or_else(|| Errno::BADF.into())
}

/// Returns how many bytes of a write are accepted: limited by the fault and by the space.
fn accepted(memory: &Memory, inode: Inode, offset: u64, len: usize) -> io::Result<usize> {
    let Some(free) = memory.free_bytes() else { return Ok(len) };
    let content = memory.nodes.get(&inode).map(|node| &node.current);
    match content.map_or(0, |content| content.fitting(offset, len as u64, free)) {
        0 if len > 0 => Err(Errno::NOSPC.into()),
        fitting => Ok(fitting as usize),
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(CallKind::Read, |memory, inode, limit| {
            let bytes = &node(memory, inode)?.current.bytes;
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            let n = rest.len().min(buf.len()).min(limit.unwrap_or(usize::MAX));
            buf[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        })
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.call(CallKind::Write, |memory, inode, limit| {
            let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            bytes.truncate(limit.unwrap_or(usize::MAX));
            bytes.truncate(accepted(memory, inode, offset, bytes.len())?);
            let n = bytes.len();
            if n > 0 {
                node(memory, inode)?.change(DiskChange::Write { offset, bytes });
            }
            Ok(n)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let result = self.call(CallKind::SyncData, |memory, inode, _| {
            let failed_before = !node(memory, inode)?.doubtful.is_empty();
            memory.flushes_after_failure += u64::from(failed_before);
            node(memory, inode)?.flush();
            Ok(())
        });
        if result.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted) {
            let mut state = self.shared.lock();
            if let (false, Ok(node)) = (state.dead, node(&mut state.memory, self.inode)) {
                let lost = std::mem::take(&mut node.pending);
                node.doubtful.extend(lost);
            }
        }
        result
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.shared.lock();
        if state.dead {
            return Err(Errno::IO.into());
        }
        Ok(node(&mut state.memory, self.inode)?.current.bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(CallKind::SetLen, |memory, inode, _| {
            node(memory, inode)?.change(DiskChange::SetLen(len));
            Ok(())
        })
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.call(CallKind::Punch, |memory, inode, _| {
            node(memory, inode)?.change(DiskChange::Punch { offset, len });
            Ok(())
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.shared.lock();
        if state.dead {
            return Err(Errno::IO.into());
        }
        let node = node(&mut state.memory, self.inode)?;
        let holder = *node.lock.get_or_insert(self.handle);
        Ok(holder == self.handle)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(self.shared.lock().memory.names.get(path) == Some(&self.inode))
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Ok(node) = node(&mut state.memory, self.inode) {
            node.handles = node.handles.saturating_sub(1);
            if node.lock == Some(self.handle) {
                node.lock = None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
