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

use super::deletion::QueuedDeletion;
use crate::embedded::columns::Rows;
use crate::embedded::read::snapshot::{Deletion, HeadChunk, OpenSegment};
use crate::embedded::store::StoreConfig;
use crate::embedded::write::files::SegmentFiles;
use crate::embedded::write::head::SealedChunk;
use crate::embedded::write::manifest::{Contents, Counters, DeletionEntry, SegmentEntry};
use crate::embedded::write::requests::{Request, RequestQueue};
use crate::query::UnparsedRows;

/// A segment that is part of the store.
#[derive(Debug, Clone)]
pub(crate) struct LiveSegment {
    pub(crate) entry: SegmentEntry,
    /// `None` while it cannot be read.
    pub(crate) open: Option<Arc<OpenSegment>>,
}

/// The catalog; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) segments: BTreeMap<u64, LiveSegment>,
    /// Head chunks; only the last one grows.
    pub(crate) chunks: Vec<Arc<HeadChunk>>,
    /// Deletions that queries apply.
    pub(crate) deletions: Arc<[Deletion]>,
    /// All deletions on record, by number.
    pub(crate) deletion_entries: BTreeMap<u64, DeletionEntry>,
    /// Pairs of deletion and segment for which the segment has no matching record.
    pub(crate) clean: HashSet<(u64, u64)>,
    /// Segments that are not read, with the reason.
    pub(crate) damaged: BTreeSet<String>,
    pub(crate) is_catching_up: bool,
    pub(crate) counters: Counters,
    /// Obsolete files, removed as soon as no one reads them.
    pub(crate) obsolete: Vec<(Option<Arc<OpenSegment>>, SegmentFiles)>,
}

impl Catalog {
    /// Sets the deletions that queries apply. One that can no longer be parsed deletes nothing.
    pub(crate) fn set_deletions(&mut self, contents: &Contents) {
        let pending = contents.deletions.values().filter(|deletion| deletion.done_ns.is_none());
        self.deletions = pending.filter_map(DeletionEntry::parsed).collect();
        self.deletion_entries.clone_from(&contents.deletions);
        let segments = &self.segments;
        self.clean.retain(|(deletion, segment)| {
            segments.contains_key(segment) && contents.deletions.contains_key(deletion)
        });
    }

    /// Returns the segments that may still have records matching the deletion, in order.
    pub(crate) fn affected_by(&self, id: u64, deletion: &DeletionEntry) -> Vec<&LiveSegment> {
        let segments = self.segments.values();
        segments.filter(|live| self.may_affect(id, deletion, &live.entry)).collect()
    }

    /// Returns whether the segment may have records matching the deletion.
    pub(crate) fn may_affect(
        &self,
        id: u64,
        deletion: &DeletionEntry,
        segment: &SegmentEntry,
    ) -> bool {
        deletion.may_affect(segment) && !self.clean.contains(&(id, segment.id))
    }
}

/// Shared between the intake and the flusher thread.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    /// Chunk to be flushed.
    pub(crate) sealed: Option<SealedChunk>,
    /// Chunks that are stored and whose deliveries are to be settled.
    pub(crate) stored: Vec<Held>,
    /// Empty rows that reuse the memory of a full chunk that was stored, for the next chunk.
    pub(crate) spare: Option<Rows>,
    /// Flushes requested, and flushes completed.
    pub(crate) flushes_wanted: u64,
    pub(crate) flushes_served: u64,
    /// Requested deletions.
    pub(crate) deletions: RequestQueue<QueuedDeletion>,
    /// Deletions to be cancelled, by number.
    pub(crate) cancels: RequestQueue<u64>,
    /// A chunk was handed over and is not stored yet.
    pub(crate) is_flushing: bool,
    /// Out of time at shutdown: what is not stored stays in its journal.
    pub(crate) is_given_up: bool,
    /// The intake has ended.
    pub(crate) has_ended: bool,
}

impl WorkQueue {
    /// Returns whether there is something to write.
    pub(crate) fn has_work(&self) -> bool {
        self.sealed.is_some() || !self.cancels.is_empty() || self.is_deletion_due()
    }

    /// Returns whether every record that the next deletion concerns is in a segment.
    fn is_deletion_due(&self) -> bool {
        let next = self.deletions.front();
        next.is_some_and(|queued| queued.after_flush <= self.flushes_served)
    }

    /// Takes the next deletion, once every record that it concerns is in a segment.
    pub(crate) fn next_deletion(&mut self) -> Option<Request<QueuedDeletion>> {
        self.is_deletion_due().then(|| self.deletions.pop()).flatten()
    }
}

/// Metrics with one writing thread and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    pub(crate) received_rows: AtomicU64,
    pub(crate) skipped_rows: AtomicU64,
    pub(crate) unparsed: Mutex<UnparsedRows>,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_us: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) merge_us: AtomicU64,
    pub(crate) intake_cpu_ns: AtomicU64,
    pub(crate) flush_cpu_ns: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) is_full: AtomicU64,
    pub(crate) error: Mutex<Option<String>>,
}

/// State shared by all parts of a store.
#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) config: StoreConfig,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    catalog: Mutex<Catalog>,
    queue: Mutex<WorkQueue>,
    /// Wakes the flusher thread.
    pub(crate) work: Condvar,
    /// Wakes the intake.
    pub(crate) progress: Notify,
    /// A flush was completed.
    pub(crate) served: Condvar,
    pub(crate) counts: StoreCounters,
}

impl StoreState {
    pub(crate) fn new(
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
            counts: StoreCounters::default(),
        }
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn files(&self, entry: &SegmentEntry) -> SegmentFiles {
        SegmentFiles::new(&self.config.dir, entry.id, entry.hour)
    }

    /// Records the error for the health report.
    pub(crate) fn record_error(&self, error: &dyn std::fmt::Display) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        let mut last = self.counts.error.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&text) {
            tracing::error!(error = text, "store write failed; retrying");
        }
        *last = Some(text);
    }

    /// Clears the error after a successful write.
    pub(crate) fn clear_error(&self) {
        let mut last = self.counts.error.lock().unwrap_or_else(PoisonError::into_inner);
        if last.take().is_some() {
            tracing::info!("store writes succeed again");
        }
    }
}
