//! A snapshot of the books.
//!
//! Invariant: reading them changes nothing.

use std::time::Duration;

use weir_model::{SourceBook, StreamId};

use super::{CursorState, CursorStream, Entry, State, Status};
use crate::spec::{CursorLedger, JournalStatus, SourceLedger, WaitingBatch};

impl State {
    pub(crate) fn source_ledgers(&self) -> Vec<SourceLedger> {
        let mut all: Vec<SourceLedger> = self
            .sources
            .iter()
            .map(|(id, source)| {
                let live = self.streams.values().filter(|s| s.source == Some(*id));
                let mut book = source.folded;
                let mut streams = 0;
                for stream in live {
                    book.add(&stream.checkpoint.book());
                    streams += 1;
                }
                SourceLedger { id: *id, name: source.name.clone(), streams, book }
            })
            // Records that a destination moves have no source: they were not received there.
            .filter(|source| !source.name.is_empty() || source.book != SourceBook::default())
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns for each destination when the first batch was appended that it has not received yet.
    fn oldest_waiting(&self) -> Vec<Option<Duration>> {
        let mut oldest: Vec<Option<Duration>> = vec![None; self.cursors.len()];
        let is_there = |e: &&Entry| matches!(e.status, Status::Settled(_) | Status::Held);
        for (index, cs) in self.streams.values().flat_map(|known| known.cursor_streams.iter()) {
            let entry = cs.entries.iter().find(|e| !is_there(e));
            let slot = entry.and_then(|entry| self.slots.get(&entry.seq));
            let Some(at) = slot.map(|slot| slot.appended_at) else { continue };
            oldest[index] = Some(oldest[index].map_or(at, |earlier| earlier.min(at)));
        }
        oldest
    }

    pub(crate) fn cursor_ledgers(&self, now: Duration) -> Vec<CursorLedger> {
        let oldest = self.oldest_waiting();
        let ledger = |(index, c): (usize, &CursorState)| CursorLedger {
            name: c.name.clone(),
            index,
            active: c.is_attached(),
            when_full: c.when_full(),
            book: c.total,
            in_flight: c.in_flight,
            taken: c.taken,
            pending_bytes: c.pending_bytes,
            buffer_bytes_max: c.limit(),
            lag_seconds: oldest[index].map_or(0.0, |at| now.saturating_sub(at).as_secs_f64()),
            blocking: c.blocking,
        };
        self.cursors.iter().enumerate().filter(|(_, c)| !c.dropped).map(ledger).collect()
    }

    pub(crate) fn status(&self) -> JournalStatus {
        JournalStatus {
            ring_bytes: self.ring_bytes,
            ring_bytes_max: self.config.ring_bytes,
            disk_bytes: self.disk_bytes(),
            disk_bytes_max: self.config.bytes_max,
            segments: self.segments.len() as u64,
            frames_written: self.frames_written,
            frames_compacted: self.rewriting.frames_compacted,
            frames_merged: self.rewriting.frames_merged,
            flushes: self.flushes,
            disk_error: self.disk_error().cloned(),
            recovery: self.recovery.clone(),
        }
    }

    /// Returns what waits for a destination.
    pub(crate) fn waiting(&self, index: usize) -> Vec<WaitingBatch> {
        let Some(cursor) = self.cursors.get(index) else { return Vec::new() };
        let mut waiting = Vec::new();
        for stream in cursor.turns.iter().copied() {
            let cs = self.cursor_stream(index, stream);
            let entries = cs.into_iter().flat_map(CursorStream::waiting);
            waiting.extend(entries.map(|entry| self.waiting_batch(stream, entry)));
        }
        waiting
    }

    fn waiting_batch(&self, stream: StreamId, entry: &Entry) -> WaitingBatch {
        let is_in_memory = || self.slots.get(&entry.seq).is_some_and(|slot| slot.batch.is_some());
        WaitingBatch {
            stream,
            seq: entry.seq,
            end: entry.checkpoint.end,
            records: entry.routed,
            bytes: entry.bytes + entry.cut.bytes,
            discarded: entry.cut.rows,
            discarded_keys: entry.cut.keys.clone(),
            has_known_keys: entry.keys.are_all_known() || is_in_memory(),
        }
    }

    /// Returns how many bytes ending the open segment would free.
    pub(crate) fn freeable_bytes(&self) -> u64 {
        let open = self.segments.values().filter(|segment| !segment.sealed);
        open.map(|segment| segment.dead.ready_bytes()).sum()
    }

    /// Returns the size of the frames on disk that only this destination has not settled.
    pub(crate) fn bytes_kept_only_for(&self, index: usize) -> u64 {
        let entries = self.streams.values().filter_map(|stream| stream.cursor_streams.get(index));
        let entries = entries.flat_map(|cs| &cs.entries);
        let entries = entries.filter(|entry| !matches!(entry.status, Status::Settled(_)));
        let slots = entries.filter_map(|entry| self.slots.get(&entry.seq));
        let last = slots.filter(|slot| slot.holders == 1);
        last.filter_map(|slot| slot.location).map(|at| u64::from(at.len)).sum()
    }

    /// Allows no further appends; readers drain the rest.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        for cursor in &mut self.cursors {
            cursor.notify.notify_one();
        }
        for subscriber in self.subscribers.drain(..).filter_map(|s| s.upgrade()) {
            subscriber.close();
        }
    }
}
