//! Which call fails, and how: counts every call by kind and triggers the faults that a test set.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

/// Kinds of calls, for counting and for selecting faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// Opening or creating a file.
    Open,
    /// Creating directories.
    CreateDir,
    /// Listing a directory.
    List,
    /// Renaming.
    Rename,
    /// Removing a file.
    Remove,
    /// Making names durable.
    SyncDir,
    /// Querying space.
    Space,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making content durable.
    SyncData,
    /// Truncating or extending.
    SetLen,
    /// Punching holes.
    Punch,
}

impl CallKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Open,
        Self::CreateDir,
        Self::List,
        Self::Rename,
        Self::Remove,
        Self::SyncDir,
        Self::Space,
        Self::Read,
        Self::Write,
        Self::SyncData,
        Self::SetLen,
        Self::Punch,
    ];

    /// Returns true if the call can change what is on disk, or its durability.
    pub fn changes_disk(self) -> bool {
        !matches!(self, Self::List | Self::Space | Self::Read)
    }
}

/// What a fault does to its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// "No space left on device".
    NoSpace,
    /// "Input/output error". On `SyncData`, data that was not yet durable never will be, although
    /// it can still be read and later flushes of the file succeed.
    Io,
    /// "Read-only file system".
    ReadOnly,
    /// "Interrupted system call": nothing happened.
    Interrupted,
    /// Writes or reads at most this many bytes (at least one).
    Short(usize),
    /// The machine stops in this call: a write or rename may or may not have happened, and this and
    /// every later call fails. Then examine what [`super::FaultyDisk::crash`] leaves.
    Crash,
}

impl FaultKind {
    fn error(self) -> Option<io::Error> {
        let errno = match self {
            Self::NoSpace => Errno::NOSPC,
            Self::Io | Self::Crash => Errno::IO,
            Self::ReadOnly => Errno::ROFS,
            Self::Interrupted => Errno::INTR,
            Self::Short(_) => return None,
        };
        Some(errno.into())
    }
}

/// A pending fault.
#[derive(Debug, Clone)]
pub struct Fault {
    kind: FaultKind,
    call: Option<CallKind>,
    path_part: Option<String>,
    skip: u64,
    times: u64,
}

impl Fault {
    /// Creates a fault that triggers once, in the next call that could change the disk.
    pub fn new(kind: FaultKind) -> Self {
        Self { kind, call: None, path_part: None, skip: 0, times: 1 }
    }

    /// Triggers only in calls of this kind.
    #[must_use]
    pub fn on(mut self, call: CallKind) -> Self {
        self.call = Some(call);
        self
    }

    /// Triggers only for paths that contain this text.
    #[must_use]
    pub fn path(mut self, part: &str) -> Self {
        self.path_part = Some(part.to_owned());
        self
    }

    /// Triggers in the `n`th matching call from now (1 = the next).
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// Triggers this many times in a row.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Triggers from then on always, until [`Faults::clear`].
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    fn matches(&self, call: CallKind, path: &Path) -> bool {
        self.call.map_or(call.changes_disk(), |wanted| wanted == call)
            && self.path_part.as_deref().is_none_or(|p| path.to_string_lossy().contains(p))
    }
}

/// How a call proceeds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Maximum number of bytes that it may transfer.
    pub(crate) limit: Option<usize>,
    /// The machine stops here.
    pub(crate) crash: bool,
}

/// Counts and faults, shared by a disk and its files.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counts: [u64; CallKind::ALL.len()],
    faults: Vec<Fault>,
    fired: u64,
}

impl Faults {
    /// Adds a fault; several may be pending at once, and the first that matches triggers.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Removes all pending faults.
    pub fn clear(&self) {
        self.lock().faults.clear();
    }

    /// Returns the number of calls of a kind so far, including failed ones.
    pub fn calls(&self, kind: CallKind) -> u64 {
        self.lock().counts[kind as usize]
    }

    /// Returns the number of calls so far that could change the disk, for loops that fail the Nth
    /// call.
    pub fn changing_calls(&self) -> u64 {
        let inner = self.lock();
        CallKind::ALL.iter().filter(|k| k.changes_disk()).map(|k| inner.counts[*k as usize]).sum()
    }

    /// Returns how often a fault triggered.
    pub fn fired(&self) -> u64 {
        self.lock().fired
    }

    /// Counts a call and returns how it proceeds.
    pub(crate) fn enter(&self, call: CallKind, path: &Path) -> io::Result<Verdict> {
        let mut inner = self.lock();
        inner.counts[call as usize] += 1;
        let Some(kind) = inner.fire(call, path) else { return Ok(Verdict::default()) };
        inner.fired += 1;
        match kind {
            FaultKind::Crash => Ok(Verdict { limit: None, crash: true }),
            FaultKind::Short(n) => Ok(Verdict { limit: Some(n.max(1)), crash: false }),
            other => Err(other.error().unwrap_or_else(|| io::ErrorKind::Other.into())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Every matching fault counts the call down; the first one that is due triggers.
    fn fire(&mut self, call: CallKind, path: &Path) -> Option<FaultKind> {
        let mut due = None;
        for fault in self.faults.iter_mut().filter(|f| f.matches(call, path)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if due.is_none() {
                due = Some(fault.kind);
                fault.times = if fault.times == u64::MAX { u64::MAX } else { fault.times - 1 };
            }
        }
        self.faults.retain(|f| f.times > 0);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_fires_in_the_nth_matching_call_and_only_as_often_as_asked() {
        let faults = Faults::default();
        let path = Path::new("/d/log");
        faults.inject(Fault::new(FaultKind::NoSpace).on(CallKind::Write).nth(2).times(2));
        assert!(faults.enter(CallKind::Write, path).is_ok());
        assert!(faults.enter(CallKind::Read, path).is_ok());
        for _ in 0..2 {
            let error = faults.enter(CallKind::Write, path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        assert!(faults.enter(CallKind::Write, path).is_ok());
        assert_eq!((faults.calls(CallKind::Write), faults.fired()), (4, 2));
        assert_eq!(faults.changing_calls(), 4);
    }

    #[test]
    fn a_fault_applies_only_to_matching_paths() {
        let faults = Faults::default();
        faults.inject(Fault::new(FaultKind::Io).path("cursor").forever());
        assert!(faults.enter(CallKind::Open, Path::new("/d/segment")).is_ok());
        assert!(faults.enter(CallKind::Open, Path::new("/d/cursor.log")).is_err());
        assert!(faults.enter(CallKind::SyncData, Path::new("/d/cursor.log")).is_err());
        faults.clear();
        assert!(faults.enter(CallKind::SyncData, Path::new("/d/cursor.log")).is_ok());
    }
}
