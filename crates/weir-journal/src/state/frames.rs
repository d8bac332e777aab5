//! Updates of slots and segments as frames are written, flushed, fail, or are no longer needed.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_host::{DiskFile, is_disk_full};
use weir_model::Batch;

use super::{Checkpoint, Location, SegmentState, State};
use crate::limits::DISK_RETRY_INTERVAL;
use crate::segment::{self, ReadError};
use crate::spec::RefusedReason;

/// A range to free in the file system.
pub(crate) struct Hole {
    pub(crate) segment: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Hole {
    pub(crate) fn new(id: u64, segment: &SegmentState, start: u64, len: u64) -> Self {
        Self { segment: id, file: segment.file.clone(), start, len }
    }
}

impl State {
    /// Marks a frame as dead that the next start may consider needed, because only this run knows
    /// that it is not. It therefore stays intact as long as its segment exists.
    pub(crate) fn end_whole(&mut self, at: Location) {
        if let Some(segment) = self.segments.get_mut(&at.segment) {
            segment.dead.keep(at.offset);
        }
        self.dead.push(at);
    }

    /// Counts frames as dead. Returns what can be punched, and which segments can be removed as a
    /// whole (true: set aside instead).
    pub(crate) fn collect_obsolete(
        &mut self,
        dead: &[Location],
    ) -> (Vec<Hole>, Vec<(PathBuf, bool)>) {
        let (mut holes, mut deleted) = (Vec::new(), Vec::new());
        for group in dead.chunk_by(|a, b| a.segment == b.segment) {
            let id = group[0].segment;
            let Some(segment) = self.segments.get_mut(&id) else { continue };
            let mut ready = BTreeMap::new();
            for frame in group.iter().filter(|l| l.len > 0) {
                segment.live_frames = segment.live_frames.saturating_sub(1);
                if let Some((start, len)) = segment.dead.add(frame.offset, u64::from(frame.len)) {
                    // In ascending order of offsets, a later range replaces one that it contains.
                    ready.insert(start, len);
                }
            }
            if segment.sealed && segment.live_frames == 0 {
                deleted.push((segment::file_name(&self.config.dir, id), segment.is_strange));
                self.segments.remove(&id);
                self.removed.insert(id);
                continue;
            }
            // A damaged segment is kept for inspection until the whole of it is set aside.
            if segment.is_indexed && !segment.is_strange {
                let ready = ready.into_iter();
                holes.extend(ready.map(|(start, len)| Hole::new(id, segment, start, len)));
            }
        }
        (holes, deleted)
    }

    /// Records that a frame cannot be read: its segment is kept for inspection.
    pub(crate) fn note_damage(&mut self, at: Location) {
        let Some(segment) = self.segments.get_mut(&at.segment) else { return };
        if !std::mem::replace(&mut segment.is_strange, true) {
            tracing::error!(
                segment = at.segment,
                offset = at.offset,
                "a journal segment is damaged and will be set aside"
            );
        }
        self.recovery.damaged_bytes += u64::from(at.len);
    }

    /// Records a new segment, with all destinations that were not dropped in its table of names.
    pub(crate) fn add_segment(&mut self, id: u64, file: Arc<dyn DiskFile>, len: u64) {
        let named = self.cursors.iter().enumerate().filter(|(_, c)| !c.dropped);
        let names = named.map(|(index, _)| index).collect();
        self.segments.insert(id, SegmentState::new(file, len, names, &self.config));
    }

    /// Records a frame at the end of its segment.
    pub(super) fn add_frame(&mut self, batch: &Batch, at: Location, checkpoint: Arc<Checkpoint>) {
        let Some(segment) = self.segments.get_mut(&at.segment) else { return };
        segment.live_frames += 1;
        segment.index.add(at, batch, checkpoint);
        segment.len = segment.len.max(at.offset + u64::from(at.len));
    }

    /// Records that the frames are written, but not flushed.
    pub(crate) fn frames_placed(&mut self, batches: &[(u64, Arc<Batch>)], locations: &[Location]) {
        for ((seq, batch), location) in batches.iter().zip(locations) {
            self.frames_written += 1;
            let slot = self.slots.get(seq);
            let checkpoint =
                slot.map_or_else(|| Checkpoint::of(batch), |slot| slot.checkpoint.clone());
            self.add_frame(batch, *location, checkpoint);
            match self.slots.get_mut(seq) {
                Some(slot) => slot.location = Some(*location),
                None => self.dead.push(*location),
            }
            self.note_frame(batch.header().stream, *location);
        }
        self.note_disk_use();
    }

    pub(crate) fn frames_written(&mut self, batches: &[(u64, Arc<Batch>)], sync: bool) {
        for (seq, _) in batches {
            let Some(slot) = self.slots.get_mut(seq) else { continue };
            slot.writing = false;
            if sync {
                continue;
            }
            // Durability was requested while the frame was being written.
            self.sync_wanted |= slot.durable && !slot.synced;
            if slot.batch.take().is_some() {
                let (stream, bytes) = (slot.stream, slot.memory_bytes);
                self.forget_memory(stream, bytes);
            }
        }
    }

    /// Records that the frame is safe, unless it was taken back and is elsewhere now. Its tickets
    /// are resolved, unless something before it cannot be made safe: then it first has to reach its
    /// destinations.
    pub(crate) fn frame_synced(&mut self, seq: u64, location: Location, now: Duration) {
        let Some(slot) = self.slots.get_mut(&seq).filter(|s| s.location == Some(location)) else {
            return;
        };
        slot.synced = true;
        let (stream, tickets) = (slot.stream, std::mem::take(&mut slot.tickets));
        if slot.durable {
            let checkpoint = slot.checkpoint.clone();
            self.reach_on_disk(stream, &checkpoint, seq, now);
        }
        let earlier = self.stranded_up_to(stream, seq);
        if let Some(earlier) = earlier.and_then(|seq| self.slots.get_mut(&seq)) {
            earlier.tickets.extend(tickets);
        } else {
            for ticket in tickets {
                let _nobody_waits = ticket.send(Ok(()));
            }
        }
        // It only had to be flushed; a slot that is being written is freed by the writer.
        if self.slots.get(&seq).is_some_and(|slot| !slot.writing) {
            self.end_writing(seq, now);
        }
    }

    /// Records that a frame whose flush failed cannot be read back either: this may succeed later,
    /// when a destination takes it, but it will never be safe.
    pub(crate) fn frame_stranded(&mut self, seq: u64, error: &ReadError, now: Duration) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        for ticket in slot.tickets.drain(..) {
            let _nobody_waits = ticket.send(Err(RefusedReason::Disk { error: error.to_string() }));
        }
        let (stream, is_soon, checkpoint) = (slot.stream, slot.is_soon, slot.checkpoint.clone());
        self.stranded.insert((stream, seq));
        if is_soon {
            self.state_before_frames(stream, &checkpoint, now);
        }
        // Perhaps it only had to reach the disk because it was discarded.
        self.forget_settled(stream, seq, now);
    }

    /// Records that a frame whose flush failed is in memory again (`batch` if it was not there any
    /// more) and waits for the next attempt.
    pub(crate) fn frame_taken_back(&mut self, seq: u64, batch: Option<Batch>) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        slot.writing = false;
        if slot.synced {
            return;
        }
        let location = slot.location.take();
        if let Some(batch) = batch.filter(|_| slot.batch.is_none()) {
            slot.memory_bytes = batch.memory_bytes() as u64;
            slot.batch = Some(Arc::new(batch));
            self.ring_bytes += slot.memory_bytes;
            if let Some(stream) = self.streams.get_mut(&slot.stream) {
                stream.ring_bytes += slot.memory_bytes;
            }
        }
        let (durable, bytes, since) = (slot.durable, slot.memory_bytes, slot.appended_at);
        self.dead.extend(location);
        self.spill_from = self.spill_from.min(seq);
        if durable {
            self.want_durable(seq, bytes, since);
        } else {
            self.spill_wanted = true;
        }
    }

    /// Reports the failure to everyone who waits for the disk; the frames are retried nevertheless.
    pub(crate) fn refuse_waiting(&mut self) {
        let error = self.frames_error.clone().unwrap_or_default();
        for seq in &self.durable_waiting {
            let Some(slot) = self.slots.get_mut(seq) else { continue };
            for ticket in slot.tickets.drain(..) {
                let _nobody_waits = ticket.send(Err(RefusedReason::Disk { error: error.clone() }));
            }
        }
    }

    pub(crate) fn note_frames_error(&mut self, error: &io::Error, now: Duration) {
        let text = error.to_string();
        if self.frames_error.as_deref() != Some(&text) {
            tracing::error!(%error, "journal write failed; sources wait, deliveries continue");
        }
        self.frames_error = Some(text);
        self.is_disk_full = is_disk_full(error);
        self.disk_retry_at = now + DISK_RETRY_INTERVAL;
    }
}
