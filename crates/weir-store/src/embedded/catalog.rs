//! What is stored, in memory: segments that are open, chunks of the head, what was deleted.
//!
//! Invariants: everything that a query sees is changed in one step under one lock, which is never
//! held during I/O; a file is removed only when nobody reads it any more.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use weir_host::{Clock, Disk};
use weir_journal::Held;

use super::columns::Rows;
use super::deletion::WantedDeletion;
use super::files::SegmentFiles;
use super::head::Sealed;
use super::manifest::{Contents, Counters, DeletionEntry, SegmentEntry};
use super::requests::{Request, Requests};
use super::snapshot::{Deletion, HeadChunk, OpenSegment, Snapshot};
use super::store::StoreConfig;
use crate::query::{TimeRange, UnparsedRows};

/// A segment that counts.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) entry: SegmentEntry,
    /// `None` when it cannot be read at present.
    pub(super) open: Option<Arc<OpenSegment>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) segments: BTreeMap<u64, Live>,
    /// The last one grows.
    pub(super) chunks: Vec<Arc<HeadChunk>>,
    /// Those that queries apply.
    pub(super) deletions: Arc<[Deletion]>,
    /// All that are remembered, by number.
    pub(super) deletion_entries: BTreeMap<u64, DeletionEntry>,
    /// Deletions and the segments that have no record that they are about.
    pub(super) clean: HashSet<(u64, u64)>,
    /// Segments that are not read, and why.
    pub(super) damaged: BTreeSet<String>,
    pub(super) is_catching_up: bool,
    pub(super) counters: Counters,
    /// Files that go as soon as nobody reads them.
    pub(super) graveyard: Vec<(Option<Arc<OpenSegment>>, SegmentFiles)>,
}

impl Catalog {
    /// The deletions as queries apply them. One that cannot be parsed any more deletes nothing.
    pub(super) fn set_deletions(&mut self, contents: &Contents) {
        let pending = contents.deletions.values().filter(|deletion| deletion.done_ns.is_none());
        self.deletions = pending.filter_map(DeletionEntry::parsed).collect();
        self.deletion_entries.clone_from(&contents.deletions);
        let segments = &self.segments;
        self.clean.retain(|(deletion, segment)| {
            segments.contains_key(segment) && contents.deletions.contains_key(deletion)
        });
    }

    /// Segments that may still have records that the deletion is about, in their order.
    pub(super) fn concerned_by(&self, id: u64, deletion: &DeletionEntry) -> Vec<&Live> {
        let segments = self.segments.values();
        segments.filter(|live| self.may_concern(id, deletion, &live.entry)).collect()
    }

    /// The segment may have records that the deletion is about, as far as is known.
    pub(super) fn may_concern(
        &self,
        id: u64,
        deletion: &DeletionEntry,
        segment: &SegmentEntry,
    ) -> bool {
        deletion.may_concern(segment) && !self.clean.contains(&(id, segment.id))
    }
}

/// Between the thread that takes in and the one that flushes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// To be flushed.
    pub(super) sealed: Option<Sealed>,
    /// Stored, to be settled.
    pub(super) stored: Vec<Held>,
    /// No rows, in the memory of a full chunk that was stored, for the next one.
    pub(super) spare: Option<Rows>,
    /// Flushes that were asked for, and those that were served.
    pub(super) flushes_wanted: u64,
    pub(super) flushes_served: u64,
    /// Records that are to be deleted.
    pub(super) deletions: Requests<WantedDeletion>,
    /// Deletions that are to be cancelled, by number.
    pub(super) cancels: Requests<u64>,
    /// A chunk was handed over and is not stored yet.
    pub(super) is_flushing: bool,
    /// Time is up: what is not stored stays where it comes from.
    pub(super) is_given_up: bool,
    /// The thread that takes in has ended.
    pub(super) has_ended: bool,
}

impl Queue {
    /// Something is to be written.
    pub(super) fn has_work(&self) -> bool {
        self.sealed.is_some() || !self.cancels.is_empty() || self.is_deletion_due()
    }

    /// Everything that the next deletion is about is in segments.
    fn is_deletion_due(&self) -> bool {
        let next = self.deletions.front();
        next.is_some_and(|wanted| wanted.after_flush <= self.flushes_served)
    }

    /// Takes the next deletion, once everything that it is about is in segments.
    pub(super) fn next_deletion(&mut self) -> Option<Request<WantedDeletion>> {
        self.is_deletion_due().then(|| self.deletions.pop()).flatten()
    }
}

/// Figures that one thread writes and anybody reads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) taken_rows: AtomicU64,
    pub(super) skipped_rows: AtomicU64,
    pub(super) unparsed: Mutex<UnparsedRows>,
    pub(super) flushed_bytes: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) flush_us: AtomicU64,
    pub(super) merges: AtomicU64,
    pub(super) merge_us: AtomicU64,
    pub(super) intake_cpu_ns: AtomicU64,
    pub(super) flush_cpu_ns: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) is_full: AtomicU64,
    pub(super) error: Mutex<Option<String>>,
}

/// What all parts of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: StoreConfig,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    catalog: Mutex<Catalog>,
    queue: Mutex<Queue>,
    /// Wakes the thread that flushes.
    pub(super) work: Condvar,
    /// Wakes the thread that takes in.
    pub(super) progress: Notify,
    /// A flush was served.
    pub(super) served: Condvar,
    pub(super) counts: Counts,
}

impl Shared {
    pub(super) fn new(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        catalog: Catalog,
    ) -> Self {
        Self {
            config,
            disk,
            clock,
            catalog: Mutex::new(catalog),
            queue: Mutex::default(),
            work: Condvar::new(),
            progress: Notify::new(),
            served: Condvar::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn files(&self, entry: &SegmentEntry) -> SegmentFiles {
        SegmentFiles::new(&self.config.dir, entry.id, entry.hour)
    }

    /// Everything that is stored and may have records of the range.
    pub(super) fn snapshot(&self, range: TimeRange) -> Snapshot {
        let (chunks, mut snapshot) = {
            let catalog = self.catalog();
            let overlaps =
                |live: &&Live| range.overlaps(live.entry.times_ns.0, live.entry.times_ns.1);
            let segments = catalog.segments.values().filter(overlaps);
            let snapshot = Snapshot {
                chunks: Vec::new(),
                segments: segments.filter_map(|live| live.open.clone()).collect(),
                deletions: catalog.deletions.clone(),
                is_catching_up: catalog.is_catching_up,
                damaged: catalog.damaged.iter().cloned().collect(),
            };
            (catalog.chunks.clone(), snapshot)
        };
        // Rows that are added from here on are not counted. A chunk that is flushed meanwhile is
        // still this one, and its segment is not in the list.
        let counted = |chunk: Arc<HeadChunk>| {
            let rows = chunk.read().len();
            (rows > 0).then_some((chunk, rows))
        };
        snapshot.chunks = chunks.into_iter().filter_map(counted).collect();
        snapshot
    }

    /// Notes what went wrong, for health.
    pub(super) fn note_error(&self, error: &dyn std::fmt::Display) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        let mut last = self.counts.error.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&text) {
            tracing::error!(error = text, "the store cannot write; it tries again by itself");
        }
        *last = Some(text);
    }

    /// It is well again.
    pub(super) fn clear_error(&self) {
        let mut last = self.counts.error.lock().unwrap_or_else(PoisonError::into_inner);
        if last.take().is_some() {
            tracing::info!("the store can write again");
        }
    }
}
