//! The public interface of the embedded store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_codec::Renames;
use weir_host::{Clock, Disk};
use weir_journal::Cursor;

use super::keep::catalog::StoreState;
use super::keep::opening::{self, OpenedStore};
use super::read::snapshot::Snapshot;
use super::write::flusher::Flusher;
use super::write::head::Upstream;
use super::write::manifest::{ManifestError, Retired};
use super::write::threads::{self, IntakeWorker, Threads};
use crate::query::{ColumnReport, ServiceReport, StoreMetrics, StoreReport, TimeRange};

/// Location and limits of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreConfig {
    /// Its directory; created when missing.
    pub dir: PathBuf,
    /// Memory for records that are not in a segment yet; see
    /// [`crate::limits::HEAD_BYTES_MIN`].
    pub head_bytes: u64,
    /// Maximum time that records stay there.
    pub flush_interval: Duration,
    /// How long records are kept; `None` = forever.
    pub retention: Option<Duration>,
    /// Maximum disk space for segments and sidecars; `None` = unlimited.
    pub retention_bytes: Option<u64>,
    /// zstd level for new segments.
    pub level: i32,
    /// Disk space that must remain free.
    pub free_bytes_min: u64,
    /// Free space reserved for flushes in addition to that: a flush gives space back, since the
    /// journal can release the records that it has stored.
    pub flush_bytes_reserved: u64,
    /// Names under which attributes are stored.
    pub renames: Renames,
    /// Sources whose records are stored together with the bytes in which they were received.
    pub received_of: BTreeSet<String>,
}

/// The embedded store.
#[derive(Debug)]
pub struct EmbeddedStore {
    pub(super) shared: Arc<StoreState>,
    /// Present until the store is started.
    flusher: Mutex<Option<Flusher>>,
    threads: Mutex<Option<Threads>>,
}

impl EmbeddedStore {
    /// Opens or creates a store. Nothing is taken in before [`Self::start`]. A directory must not
    /// be used by two stores (the lock of the journal next to it prevents that).
    ///
    /// # Errors
    /// An unsupported format, or a directory that cannot be read.
    pub fn open(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ManifestError> {
        let OpenedStore { manifest, catalog, pending } = opening::open(&*disk, &config.dir)?;
        let shared = Arc::new(StoreState::new(config, disk, clock, catalog));
        let mut flusher = Flusher::new(shared.clone(), manifest, pending);
        // Commit what was found at opening now, if possible.
        if flusher.is_busy() {
            flusher.step();
        }
        Ok(Self { shared, flusher: Mutex::new(Some(flusher)), threads: Mutex::new(None) })
    }

    /// Takes in what the cursor yields, on two threads, until [`Self::stop`].
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(&self, cursor: Cursor) -> std::io::Result<()> {
        let Some((intake, flusher)) = self.parts(cursor) else { return Ok(()) };
        let threads = threads::spawn(intake, flusher)?;
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) = Some(threads);
        Ok(())
    }

    /// Returns the two halves, to be driven by threads or, step by step, by a test.
    pub(super) fn parts(&self, cursor: Cursor) -> Option<(IntakeWorker, Flusher)> {
        let memory = cursor.memory();
        self.parts_with(cursor, Box::new(memory))
    }

    pub(super) fn parts_with(
        &self,
        cursor: Cursor,
        upstream: Box<dyn Upstream>,
    ) -> Option<(IntakeWorker, Flusher)> {
        let flusher = self.flusher.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut flusher = flusher?;
        let positions = flusher.contents().positions.iter();
        let is_behind = |(stream, position): (&_, &_)| {
            let committed = upstream.committed(*stream)?;
            (committed < *position).then_some((*stream, *position))
        };
        let stored = positions.filter_map(is_behind).collect();
        flusher.set_upstream(upstream);
        Some((IntakeWorker::new(self.shared.clone(), cursor, stored), flusher))
    }

    /// Takes in what is left within the deadline, and makes it durable. Call this after closing the
    /// journal, then call [`Self::join`].
    pub fn stop(&self, deadline: Duration) {
        if let Some(threads) = &*self.threads.lock().unwrap_or_else(PoisonError::into_inner) {
            threads.stop(deadline);
        }
    }

    /// Waits for the threads. Returns false when one panicked.
    pub fn join(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        threads.is_none_or(Threads::join)
    }

    pub(super) fn is_running(&self) -> bool {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns whether it is still taking in what was received before it started.
    pub fn is_catching_up(&self) -> bool {
        self.shared.catalog().is_catching_up
    }

    /// Makes all records that are visible now durable. Returns false when that did not happen
    /// within `timeout`.
    pub fn flush_now(&self, timeout: Duration) -> bool {
        let wanted = {
            let mut queue = self.shared.queue();
            queue.flushes_wanted += 1;
            queue.flushes_wanted
        };
        self.shared.progress.notify_one();
        let queue = self.shared.queue();
        let is_waiting = |queue: &mut super::keep::catalog::WorkQueue| {
            queue.flushes_served < wanted && !queue.has_ended
        };
        let waited = self.shared.served.wait_timeout_while(queue, timeout, is_waiting);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.flushes_served >= wanted
    }

    /// Returns the current metrics.
    pub fn metrics(&self) -> StoreMetrics {
        let snapshot = self.snapshot(TimeRange::ALL);
        let catalog = self.shared.catalog();
        let sum = |of: fn(&super::write::manifest::SegmentEntry) -> u64| {
            catalog.segments.values().map(|live| of(&live.entry)).sum()
        };
        let counts = &self.shared.counts;
        let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let Retired { segments, rows, bytes } = catalog.counters.retired;
        StoreMetrics {
            rows: sum(|entry| entry.rows),
            head_rows: snapshot.chunks.iter().map(|(_, rows)| *rows as u64).sum(),
            head_bytes: head_bytes(&snapshot),
            segments: catalog.segments.len() as u64,
            disk_bytes: sum(|entry| entry.segment_bytes + entry.sidecar_bytes),
            raw_bytes: sum(|entry| entry.raw_bytes),
            received_rows: get(&counts.received_rows),
            skipped_rows: get(&counts.skipped_rows),
            unparsed: *counts.unparsed.lock().unwrap_or_else(PoisonError::into_inner),
            flushed_bytes: get(&counts.flushed_bytes),
            flushes: get(&counts.flushes),
            flush_seconds: get(&counts.flush_us) as f64 / 1e6,
            merges: get(&counts.merges),
            merge_seconds: get(&counts.merge_us) as f64 / 1e6,
            intake_cpu_seconds: get(&counts.intake_cpu_ns) as f64 / 1e9,
            flush_cpu_seconds: get(&counts.flush_cpu_ns) as f64 / 1e9,
            failures: get(&counts.failures),
            error: counts.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            is_full: get(&counts.is_full) > 0,
            is_catching_up: catalog.is_catching_up,
            damaged: catalog.damaged.iter().cloned().collect(),
            retired_segments: segments,
            retired_rows: rows,
            retired_bytes: bytes,
            deleted_rows: catalog.counters.deleted,
            deletions_pending: catalog.deletions.len() as u64,
        }
    }

    /// Returns what is stored and how much space it uses; reads the sidecars.
    pub fn report(&self) -> StoreReport {
        let metrics = self.metrics();
        let snapshot = self.snapshot(TimeRange::ALL);
        let entries: Vec<_> =
            self.shared.catalog().segments.values().map(|live| live.entry).collect();
        let mut services: BTreeMap<String, u64> = BTreeMap::new();
        let mut columns: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for open in &snapshot.segments {
            count_services(open, &mut services);
            for (index, column) in open.segment.columns().iter().enumerate() {
                let sizes = columns.entry(column.name()).or_default();
                for group in 0..open.segment.group_count() {
                    if let Some(chunk) = open.segment.chunk(group, index) {
                        sizes.0 += chunk.packed_bytes();
                        sizes.1 += chunk.plain_bytes();
                    }
                }
            }
        }
        let mut services: Vec<ServiceReport> =
            services.into_iter().map(|(name, rows)| ServiceReport { name, rows }).collect();
        services.sort_by_key(|class| std::cmp::Reverse(class.rows));
        let column =
            |(name, (packed_bytes, plain_bytes))| ColumnReport { name, packed_bytes, plain_bytes };
        let mut columns: Vec<ColumnReport> = columns.into_iter().map(column).collect();
        columns.sort_by_key(|column| std::cmp::Reverse(column.packed_bytes));
        StoreReport {
            segments: metrics.segments,
            rows: metrics.rows,
            head_rows: metrics.head_rows,
            head_bytes: metrics.head_bytes,
            raw_bytes: metrics.raw_bytes,
            segment_bytes: entries.iter().map(|entry| entry.segment_bytes).sum(),
            sidecar_bytes: entries.iter().map(|entry| entry.sidecar_bytes).sum(),
            first_time_ns: entries.iter().map(|entry| entry.times_ns.0).min(),
            last_time_ns: entries.iter().map(|entry| entry.times_ns.1).max(),
            unparsed: metrics.unparsed,
            has_caught_up: !metrics.is_catching_up,
            damaged: metrics.damaged,
            services,
            columns,
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
        self.join();
    }
}

fn head_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.chunks.iter().map(|(chunk, _)| chunk.read().memory_bytes() as u64).sum()
}

/// Adds the records of a segment by service, from its minute counts.
fn count_services(open: &super::read::snapshot::OpenSegment, services: &mut BTreeMap<String, u64>) {
    let Some(sidecar) = &open.sidecar else { return };
    for group in 0..open.segment.group_count() {
        let Ok(Some(counts)) = sidecar.counts(group) else { continue };
        for entry in counts.entries() {
            let name = entry.service.map(|service| counts.services().get(service as usize));
            let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
            *services.entry(name).or_default() += entry.rows;
        }
    }
}
