//! In-memory catalog of what is stored: open segments, head chunks and deletions.
//!
//! Invariants: everything that a query sees is changed in one step under one lock, which is never
//! held during I/O; a file is removed only when no one reads it any more.

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

/// A segment that is part of the store.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) entry: SegmentEntry,
    /// `None` while it cannot be read.
    pub(super) open: Option<Arc<OpenSegment>>,
}

/// The catalog; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) segments: BTreeMap<u64, Live>,
    /// Head chunks; only the last one grows.
    pub(super) chunks: Vec<Arc<HeadChunk>>,
    /// Deletions that queries apply.
    pub(super) deletions: Arc<[Deletion]>,
    /// All deletions on record, by number.
    pub(super) deletion_entries: BTreeMap<u64, DeletionEntry>,
    /// Pairs of deletion and segment for which the segment has no matching record.
    pub(super) clean: HashSet<(u64, u64)>,
    /// Segments that are not read, with the reason.
    pub(super) damaged: BTreeSet<String>,
    pub(super) is_catching_up: bool,
    pub(super) counters: Counters,
    /// Obsolete files, removed as soon as no one reads them.
    pub(super) graveyard: Vec<(Option<Arc<OpenSegment>>, SegmentFiles)>,
}

impl Catalog {
    /// Sets the deletions that queries apply. One that can no longer be parsed deletes nothing.
    pub(super) fn set_deletions(&mut self, contents: &Contents) {
        let pending = contents.deletions.values().filter(|deletion| deletion.done_ns.is_none());
        self.deletions = pending.filter_map(DeletionEntry::parsed).collect();
        self.deletion_entries.clone_from(&contents.deletions);
        let segments = &self.segments;
        self.clean.retain(|(deletion, segment)| {
            segments.contains_key(segment) && contents.deletions.contains_key(deletion)
        });
    }

    /// Returns the segments that may still have records matching the deletion, in order.
    pub(super) fn concerned_by(&self, id: u64, deletion: &DeletionEntry) -> Vec<&Live> {
        let segments = self.segments.values();
        segments.filter(|live| self.may_concern(id, deletion, &live.entry)).collect()
    }

    /// Returns whether the segment may have records matching the deletion.
    pub(super) fn may_concern(
        &self,
        id: u64,
        deletion: &DeletionEntry,
        segment: &SegmentEntry,
    ) -> bool {
        deletion.may_concern(segment) && !self.clean.contains(&(id, segment.id))
    }
}

/// Shared between the intake and the flusher thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Chunk to be flushed.
    pub(super) sealed: Option<Sealed>,
    /// Chunks that are stored and whose deliveries are to be settled.
    pub(super) stored: Vec<Held>,
    /// Empty rows that reuse the memory of a full chunk that was stored, for the next chunk.
    pub(super) spare: Option<Rows>,
    /// Flushes requested, and flushes completed.
    pub(super) flushes_wanted: u64,
    pub(super) flushes_served: u64,
    /// Requested deletions.
    pub(super) deletions: Requests<WantedDeletion>,
    /// Deletions to be cancelled, by number.
    pub(super) cancels: Requests<u64>,
    /// A chunk was handed over and is not stored yet.
    pub(super) is_flushing: bool,
    /// Out of time at shutdown: what is not stored stays in its journal.
    pub(super) is_given_up: bool,
    /// The intake has ended.
    pub(super) has_ended: bool,
}

impl Queue {
    /// Returns whether there is something to write.
    pub(super) fn has_work(&self) -> bool {
        self.sealed.is_some() || !self.cancels.is_empty() || self.is_deletion_due()
    }

    /// Returns whether every record that the next deletion concerns is in a segment.
    fn is_deletion_due(&self) -> bool {
        let next = self.deletions.front();
        next.is_some_and(|wanted| wanted.after_flush <= self.flushes_served)
    }

    /// Takes the next deletion, once every record that it concerns is in a segment.
    pub(super) fn next_deletion(&mut self) -> Option<Request<WantedDeletion>> {
        self.is_deletion_due().then(|| self.deletions.pop()).flatten()
    }
}

/// Metrics with one writing thread and any number of readers.
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

/// State shared by all parts of a store.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: StoreConfig,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    catalog: Mutex<Catalog>,
    queue: Mutex<Queue>,
    /// Wakes the flusher thread.
    pub(super) work: Condvar,
    /// Wakes the intake.
    pub(super) progress: Notify,
    /// A flush was completed.
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

    /// Returns a snapshot of everything that may have records in the range.
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
        // Rows added after this point are not part of the snapshot. A chunk that is flushed in the
        // meantime is still used here, and its segment is not in the list.
        let counted = |chunk: Arc<HeadChunk>| {
            let rows = chunk.read().len();
            (rows > 0).then_some((chunk, rows))
        };
        snapshot.chunks = chunks.into_iter().filter_map(counted).collect();
        snapshot
    }

    /// Records the error for the health report.
    pub(super) fn note_error(&self, error: &dyn std::fmt::Display) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        let mut last = self.counts.error.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&text) {
            tracing::error!(error = text, "store write failed; retrying");
        }
        *last = Some(text);
    }

    /// Clears the error after a successful write.
    pub(super) fn clear_error(&self) {
        let mut last = self.counts.error.lock().unwrap_or_else(PoisonError::into_inner);
        if last.take().is_some() {
            tracing::info!("store writes succeed again");
        }
    }
}
