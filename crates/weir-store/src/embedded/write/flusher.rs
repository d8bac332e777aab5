//! All writing to disk: turns chunks into segments, with one manifest change at a time.
//!
//! Invariants: one thread does all of it, one step at a time; a change that may have reached the
//! disk is retried until it certainly has, before anything else is done; everything that a change
//! refers to is on stable storage before it, and everything that it replaces is removed only after
//! it; a file whose flush failed is never flushed again: the retry writes other files. A
//! cancellation of a deletion comes before any other new work, even during the pause after a
//! failure, because it needs no space for data.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use weir_host::check_free_space;

use super::files::{SegmentFiles, create_segment, hour_of};
use super::head::{SealedChunk, Upstream};
use super::manifest::{Contents, Counters, Manifest, ManifestChange, SegmentEntry};
use crate::embedded::keep::catalog::{LiveSegment, StoreState, WorkQueue};
use crate::embedded::read::snapshot::OpenSegment;
use crate::embedded::segment::{Provenance, SegmentError};
use crate::embedded::sidecar::{SidecarError, write_segment_with_sidecar};

/// Pauses after a failure: doubled each time, from the first to the second.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// How often to look for work when nothing is requested.
pub(crate) const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was done; there may be more.
    Worked,
    /// There was nothing to do.
    Idle,
    /// The step failed, and is retried after this time.
    Failed(Duration),
}

/// A change that must become durable, and what it makes visible.
#[derive(Debug, Default)]
pub(crate) struct PendingCommit {
    pub(crate) change: ManifestChange,
    pub(crate) opened: Vec<(SegmentEntry, OpenSegment)>,
    pub(crate) sealed: Option<SealedChunk>,
    /// Receives the number of the deletion once the change is durable.
    pub(crate) reply: Option<(SyncSender<u64>, u64)>,
}

/// The flusher; see the module documentation.
pub(crate) struct Flusher {
    pub(crate) shared: Arc<StoreState>,
    pub(crate) manifest: Manifest,
    upstream: Option<Box<dyn Upstream>>,
    pending: Option<PendingCommit>,
    /// The chunk to be written as a segment next.
    sealed: Option<SealedChunk>,
    failures: u32,
    retry_at: Duration,
    opened_at: Duration,
    /// First sequence of the chunk for which segments were removed last.
    made_room_for: Option<u64>,
    /// Segments that are no longer merged or given a sidecar, because an attempt has failed.
    pub(crate) skipped: HashSet<u64>,
    /// Segments found to be damaged: their deleted records cannot be removed.
    pub(crate) unreadable: HashSet<u64>,
}

impl std::fmt::Debug for Flusher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flusher").field("failures", &self.failures).finish_non_exhaustive()
    }
}

impl Flusher {
    pub(crate) fn new(
        shared: Arc<StoreState>,
        manifest: Manifest,
        pending: Option<PendingCommit>,
    ) -> Self {
        let (upstream, sealed) = (None, None);
        let (failures, retry_at) = (0, Duration::ZERO);
        let opened_at = shared.clock.monotonic();
        let (skipped, unreadable) = (HashSet::new(), HashSet::new());
        Self {
            shared,
            manifest,
            upstream,
            pending,
            sealed,
            failures,
            retry_at,
            opened_at,
            made_room_for: None,
            skipped,
            unreadable,
        }
    }

    pub(crate) fn set_upstream(&mut self, upstream: Box<dyn Upstream>) {
        self.upstream = Some(upstream);
    }

    /// Returns how long the store has been open.
    pub(crate) fn uptime(&self) -> Duration {
        self.shared.clock.monotonic().saturating_sub(self.opened_at)
    }

    pub(crate) fn contents(&self) -> &Contents {
        self.manifest.contents()
    }

    /// Performs the next step.
    pub(crate) fn step(&mut self) -> Step {
        let now = self.shared.clock.monotonic();
        let is_cancel = self.can_cancel(&self.shared.queue());
        if now < self.retry_at && !is_cancel {
            return Step::Failed(self.retry_at.saturating_sub(now));
        }
        match if is_cancel { self.cancel_deletion() } else { self.work() } {
            // The cause of the previous failure may persist.
            Ok(_) if is_cancel => Step::Worked,
            Ok(worked) => {
                self.failures = 0;
                self.shared.clear_error();
                if worked { Step::Worked } else { Step::Idle }
            }
            Err(error) => {
                let pause = RETRY_MIN.saturating_mul(1 << self.failures.min(16)).min(RETRY_MAX);
                self.failures += 1;
                self.retry_at = now + pause;
                self.shared.record_error(&error);
                Step::Failed(pause)
            }
        }
    }

    fn work(&mut self) -> Result<bool, SidecarError> {
        if self.pending.is_some() {
            self.commit_pending()?;
            return Ok(true);
        }
        match self.flush_waiting() {
            Ok(true) => Ok(true),
            Ok(false) => Ok(self.begin_deletion()? || self.run_maintenance()?),
            // Segments that exceed the retention may take up the space.
            Err(error) => {
                if self.collect_obsolete() || self.retire(0)? || self.make_room(&error)? {
                    return Ok(true);
                }
                Err(error)
            }
        }
    }

    /// On a full disk where the journal keeps what only waits for the chunk, neither could ever
    /// write again: the oldest segments are removed in favor of the chunk, which lets the journal
    /// free as much. Returns false if that is not so, or has not been enough for this chunk.
    fn make_room(&mut self, error: &SidecarError) -> Result<bool, SidecarError> {
        let (Some(sealed), Some(upstream)) = (&self.sealed, &self.upstream) else {
            return Ok(false);
        };
        if !is_disk_full(error) {
            return Ok(false);
        }
        let (first, bytes) = (sealed.sequences.0, sealed.raw_bytes);
        let freed_by_flush = upstream.request_space();
        if freed_by_flush < bytes / 2 || self.made_room_for.replace(first) == Some(first) {
            return Ok(false);
        }
        tracing::warn!(bytes, "the disk is full; removing the oldest segments for newer records");
        self.retire(bytes)
    }

    /// Returns whether a deletion is to be cancelled and no other change must become durable first.
    pub(crate) fn can_cancel(&self, queue: &WorkQueue) -> bool {
        self.pending.is_none() && !queue.cancels.is_empty()
    }

    /// Writes the waiting chunk. Returns false when there is none.
    pub(crate) fn flush_waiting(&mut self) -> Result<bool, SidecarError> {
        if self.sealed.is_none() {
            self.sealed = self.shared.queue().sealed.take();
        }
        let Some(sealed) = self.sealed.take() else { return Ok(false) };
        self.flush(sealed)?;
        Ok(true)
    }

    /// Removes obsolete files that no one reads any more. Returns true when there were some.
    pub(crate) fn collect_obsolete(&self) -> bool {
        let is_free = |(open, _): &mut (Option<Arc<OpenSegment>>, _)| {
            open.as_ref().is_none_or(|open| Arc::strong_count(open) == 1)
        };
        let free: Vec<_> = self.shared.catalog().obsolete.extract_if(.., is_free).collect();
        let count = free.len();
        let is_left = |(_, files): &(_, SegmentFiles)| {
            let removed = files.remove(&*self.shared.disk);
            removed.is_err_and(|error| {
                let path = files.segment.display();
                tracing::warn!(%path, %error, "an obsolete file cannot be removed yet");
                true
            })
        };
        let left: Vec<_> = free.into_iter().filter(is_left).collect();
        let is_progress = left.len() < count;
        self.shared.catalog().obsolete.extend(left);
        is_progress
    }

    /// Returns whether there is something to write that the intake waits for.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending.is_some() || self.sealed.is_some()
    }

    /// Writes a chunk as a segment and commits it.
    fn flush(&mut self, sealed: SealedChunk) -> Result<(), SidecarError> {
        if sealed.chunk.read().is_empty() {
            self.settle(sealed);
            return Ok(());
        }
        let begun = self.shared.clock.monotonic();
        let forgotten = self.forgotten(&sealed);
        let written = self.flush_upstream().map_err(SidecarError::Io);
        let (entry, open) = match written.and_then(|()| self.write_chunk(&sealed)) {
            Ok(written) => written,
            Err(error) => {
                self.sealed = Some(sealed);
                return Err(error);
            }
        };
        let positions = sealed.positions.iter().map(|(s, p)| (*s, *p)).collect();
        let change = ManifestChange {
            added: vec![entry],
            positions,
            forgotten,
            counters: self.counters(sealed.sequences.1 + 1),
            ..ManifestChange::default()
        };
        let opened = vec![(entry, open)];
        let sealed = Some(sealed);
        let committed = self.commit(PendingCommit { change, opened, sealed, reply: None });
        let taken = self.shared.clock.monotonic().saturating_sub(begun);
        self.shared.counts.flush_us.fetch_add(taken.as_micros() as u64, Ordering::Relaxed);
        committed.map_err(Into::into)
    }

    fn write_chunk(
        &mut self,
        sealed: &SealedChunk,
    ) -> Result<(SegmentEntry, OpenSegment), SidecarError> {
        let rows = sealed.chunk.read();
        self.check_space(sealed.raw_bytes, 0)?;
        let provenance = self.provenance(sealed.sequences, None, 0, sealed.raw_bytes);
        let level = self.shared.config.level;
        self.create(&provenance, |segment, sidecar| {
            write_segment_with_sidecar(&rows, level, Some(&provenance), segment, sidecar)
        })
    }

    /// Returns the provenance of a segment made now, with the next number. `stored_ns`: `None` =
    /// now.
    pub(crate) fn provenance(
        &mut self,
        sequences: (u64, u64),
        stored_ns: Option<i64>,
        tier: u8,
        raw_bytes: u64,
    ) -> Provenance {
        let now = self.shared.clock.unix_ns();
        let id = {
            // Failed attempts use up numbers too.
            let mut catalog = self.shared.catalog();
            let id = catalog.counters.next_segment.max(1);
            catalog.counters.next_segment = id + 1;
            id
        };
        let stored_ns = stored_ns.unwrap_or(now);
        Provenance { id, sequences, stored_ns, hour: hour_of(now), tier, raw_bytes }
    }

    /// Writes the files of a segment.
    pub(crate) fn create(
        &self,
        provenance: &Provenance,
        write: impl FnOnce(
            &dyn weir_host::DiskFile,
            &dyn weir_host::DiskFile,
        ) -> Result<crate::embedded::segment::SegmentSummary, SidecarError>,
    ) -> Result<(SegmentEntry, OpenSegment), SidecarError> {
        let Provenance { id, sequences, stored_ns, hour, tier, raw_bytes } = *provenance;
        let mut entry = SegmentEntry {
            id,
            stored_ns,
            hour,
            tier,
            raw_bytes,
            sequences,
            ..SegmentEntry::default()
        };
        let files = self.shared.files(&entry);
        let (summary, open) = create_segment(&*self.shared.disk, &files, write)?;
        entry.rows = summary.rows;
        entry.segment_bytes = summary.file_bytes;
        entry.sidecar_bytes =
            open.sidecar.as_ref().map_or(0, crate::embedded::sidecar::Sidecar::file_bytes);
        entry.times_ns = summary.time_range_ns.unwrap_or_default();
        Ok((entry, open))
    }

    /// Returns an error if writing this many bytes would leave less than the minimum free space and
    /// the space reserved for flushes.
    pub(crate) fn check_maintenance_space(&self, bytes: u64) -> io::Result<()> {
        self.check_space(bytes, self.shared.config.flush_bytes_reserved)
    }

    fn check_space(&self, bytes: u64, reserved: u64) -> io::Result<()> {
        let config = &self.shared.config;
        let free_min = config.free_bytes_min.saturating_add(reserved);
        check_free_space(&*self.shared.disk, &config.dir, bytes, free_min, "")
    }

    pub(crate) fn counters(&self, next_sequence: u64) -> Counters {
        let mut counters = self.shared.catalog().counters;
        counters.next_sequence = counters.next_sequence.max(next_sequence);
        counters
    }

    /// Makes the upstream's state durable. A segment with records of a stream must not exist before
    /// the stream is certain to be known after a crash: otherwise the stream would seem to have
    /// ended, and its records would be stored again.
    fn flush_upstream(&self) -> io::Result<()> {
        let Some(upstream) = &self.upstream else { return Ok(()) };
        upstream.flush().map_err(io::Error::other)
    }

    /// Returns the streams in the manifest that have ended and will not be sent again. This is
    /// determined before the upstream makes its state durable: a stream that it has forgotten by
    /// then is also forgotten after a crash.
    fn forgotten(&self, sealed: &SealedChunk) -> Vec<weir_model::StreamId> {
        let Some(upstream) = &self.upstream else { return Vec::new() };
        let known = self.contents().positions.keys().copied();
        let is_over = |stream: &weir_model::StreamId| {
            !sealed.positions.contains_key(stream) && upstream.committed(*stream).is_none()
        };
        known.filter(is_over).collect()
    }

    /// Makes the pending change durable, then visible.
    pub(crate) fn commit(&mut self, pending: PendingCommit) -> io::Result<()> {
        self.pending = Some(pending);
        self.commit_pending()
    }

    fn commit_pending(&mut self) -> io::Result<()> {
        let Some(pending) = &self.pending else { return Ok(()) };
        self.manifest.commit(&*self.shared.disk, &pending.change)?;
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let mut catalog = self.shared.catalog();
        for id in &pending.change.removed {
            if let Some(live) = catalog.segments.remove(id) {
                let files = self.shared.files(&live.entry);
                catalog.obsolete.push((live.open, files));
            }
        }
        for (entry, open) in pending.opened {
            let live = LiveSegment { entry, open: Some(Arc::new(open)) };
            catalog.segments.insert(entry.id, live);
        }
        if let Some(sealed) = &pending.sealed {
            catalog.chunks.retain(|known| !Arc::ptr_eq(known, &sealed.chunk));
        }
        catalog.set_deletions(self.manifest.contents());
        let (now, known) = (self.manifest.contents().counters, catalog.counters);
        catalog.counters = Counters {
            next_segment: known.next_segment,
            next_sequence: known.next_sequence.max(now.next_sequence),
            ..now
        };
        drop(catalog);
        if let Some((reply, id)) = pending.reply {
            // The requester may have given up.
            let _nobody_waits = reply.send(id);
        }
        if let Some(sealed) = pending.sealed {
            let counts = &self.shared.counts;
            counts.flushes.fetch_add(1, Ordering::Relaxed);
            counts.flushed_bytes.fetch_add(sealed.raw_bytes, Ordering::Relaxed);
            self.settle(sealed);
        }
        Ok(())
    }

    /// Reports that the chunk is stored, so that the intake may settle its deliveries.
    fn settle(&self, sealed: SealedChunk) {
        let chunk = sealed.chunk;
        self.shared.catalog().chunks.retain(|known| !Arc::ptr_eq(known, &chunk));
        // A query may still be reading it.
        let chunk = Arc::into_inner(chunk).filter(|_| sealed.is_full);
        let spare = chunk.map(|chunk| chunk.into_rows().emptied());
        let mut queue = self.shared.queue();
        queue.spare = spare;
        queue.stored.push(sealed.held);
        queue.is_flushing = false;
        drop(queue);
        self.shared.progress.notify_one();
    }
}

/// Returns true if there was not enough disk space.
fn is_disk_full(error: &SidecarError) -> bool {
    match error {
        SidecarError::Io(error) | SidecarError::Segment(SegmentError::Io(error)) => {
            error.kind() == io::ErrorKind::StorageFull
        }
        SidecarError::Damaged(_) | SidecarError::Version(_) | SidecarError::Segment(_) => false,
    }
}
