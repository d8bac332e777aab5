//! When the keys of waiting batches are counted.
//!
//! Invariants:
//! - Only destinations that discard by key have keys counted, and of batches with several keys only
//!   once their buffer has filled to a share ([`KEYS_SHARE`]): until then nothing is counted.
//! - A batch in memory is counted when it is appended, or before something is discarded. Those that
//!   are only on disk (of an earlier run, or written before the buffer filled) are read by the
//!   writer; meanwhile the buffer may exceed its limit, or what it had when that began, by as much
//!   as its limit: what is read is usually read faster than it arrives.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_model::Batch;

use super::keys::Keys;
use super::{CursorStream, Entry, Location, State, Status};
use crate::limits::{GROUP_BYTES, KEYS_SHARE};
use crate::spec::WhenFull;

impl Entry {
    /// Notes the keys of the destination's records in the batch of a waiting entry, from which
    /// nothing was cut.
    pub(super) fn note_keys(&mut self, index: usize, batch: &Batch) {
        let keys = batch.routed_keys(index, batch.records_up_to(self.skip_to));
        // A frame that was read back may be of another content, if it is damaged.
        if keys.iter().map(|(_, rows)| rows).sum::<u64>() == self.routed {
            self.keys = Keys::of(keys);
        }
    }

    fn is_uncounted(&self) -> bool {
        self.status == Status::Waiting && matches!(self.keys, Keys::Unknown)
    }
}

impl State {
    /// Returns the keys of those records of a batch that a destination gets, from `first_record`
    /// on, if it may have to discard by key.
    pub(super) fn keys_of(&self, index: usize, batch: &Batch, first_record: usize) -> Keys {
        let cursor = &self.cursors[index];
        if cursor.when_full() != WhenFull::DropOldest {
            return Keys::Unknown;
        }
        if batch.resource_count() <= 1 {
            return Keys::One(batch.resource(0).key);
        }
        if cursor.pending_bytes < cursor.limit() / KEYS_SHARE {
            return Keys::Unknown;
        }
        Keys::of(batch.routed_keys(index, first_record))
    }

    /// Counts the keys of waiting entries that are in memory and were not counted yet. Returns
    /// those that are only on disk.
    fn count_in_memory(&mut self, index: usize) -> BTreeSet<u64> {
        let mut on_disk = BTreeSet::new();
        for stream in &self.cursors[index].turns {
            let known = self.streams.get_mut(stream);
            let cs = known.and_then(|known| known.cursor_streams.get_mut(index));
            let entries = cs.into_iter().flat_map(CursorStream::waiting_mut);
            for entry in entries.filter(|entry| entry.is_uncounted()) {
                let slot = self.slots.get(&entry.seq);
                match slot.and_then(|slot| slot.batch.as_ref()) {
                    Some(batch) => entry.note_keys(index, batch),
                    None => {
                        on_disk.insert(entry.seq);
                    }
                }
            }
        }
        on_disk
    }

    /// Counts what can be counted before something is discarded by key.
    pub(super) fn count_keys(&mut self, index: usize) {
        let on_disk = self.count_in_memory(index);
        self.cursors[index].has_uncounted |= !on_disk.is_empty();
    }

    /// Has the keys of what waits for a destination on disk counted, if its buffer has filled to a
    /// share.
    pub(super) fn begin_counting(&mut self, index: usize) {
        let cursor = &mut self.cursors[index];
        if cursor.when_full() != WhenFull::DropOldest {
            return;
        }
        let is_due = cursor.pending_bytes >= cursor.limit() / KEYS_SHARE;
        if is_due && std::mem::take(&mut cursor.has_uncounted) {
            let limit = cursor.limit();
            cursor.counting_limit = limit.max(cursor.pending_bytes).saturating_add(limit);
            let on_disk = self.count_in_memory(index);
            self.to_count.extend(on_disk);
        }
    }

    /// Returns whether the buffer of a destination may exceed its limit for a moment, until it is
    /// known whose records fill it.
    pub(super) fn may_wait_for_keys(&self, index: usize, bytes: u64) -> bool {
        let cursor = &self.cursors[index];
        self.is_counting() && cursor.pending_bytes + bytes <= cursor.counting_limit
    }

    /// Returns whether frames are to be counted, or are being counted.
    pub(crate) fn is_counting(&self) -> bool {
        self.is_reading_keys || !self.to_count.is_empty()
    }

    /// Returns frames to count, at most about one MiB of them.
    pub(super) fn take_uncounted(&mut self) -> Vec<(u64, Location)> {
        let (mut bytes, mut frames) = (0, Vec::new());
        if self.to_count.is_empty() {
            return frames;
        }
        while bytes < GROUP_BYTES
            && let Some(seq) = self.to_count.pop_first()
        {
            let location = self.slots.get(&seq).and_then(|slot| slot.location);
            if let Some(location) = location {
                bytes += u64::from(location.len);
                frames.push((seq, location));
            }
        }
        self.is_reading_keys = !frames.is_empty();
        self.end_counting();
        frames
    }

    /// Makes the limits of buffers apply again once nothing is left to count.
    fn end_counting(&mut self) {
        if !self.is_counting() {
            self.cursors.iter_mut().for_each(|cursor| cursor.counting_limit = 0);
        }
    }

    /// Records the content of frames that were to be counted.
    pub(crate) fn counted(&mut self, frames: &[(u64, Arc<Batch>)]) {
        self.is_reading_keys = false;
        self.end_counting();
        for (seq, batch) in frames {
            let known = self.streams.get_mut(&batch.header().stream);
            let listed = known.into_iter().flat_map(|known| known.cursor_streams.iter_mut());
            for (index, cs) in listed {
                let by_key = self.cursors[index].when_full() == WhenFull::DropOldest;
                let entry = cs.entries.binary_search_by_key(seq, |entry| entry.seq);
                let entry = entry.ok().filter(|_| by_key).and_then(|at| cs.entries.get_mut(at));
                if let Some(entry) = entry.filter(|entry| entry.is_uncounted()) {
                    entry.note_keys(index, batch);
                }
            }
        }
    }
}
