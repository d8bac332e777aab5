//! Compaction: which frames on disk are rewritten with only the records that are still needed.
//!
//! A frame stays until its last record is settled, so a destination that is stuck and needs one
//! record in five hundred would keep all of them. Frames of closed segments that are mostly useless
//! are rewritten, at the end, with what is still needed; the old ones are then dead like any other.
//!
//! Invariants:
//! - Base and end, book and state of a frame stay. Of its records those stay that are part of an
//!   entry of some destination, settled or not: what is not committed is sent again after a crash.
//! - The old frame is dead only once the new one is on stable storage, and its space is freed only
//!   once the positions that made some of its records useless are durable too. Until then both
//!   exist; the old one comes first, and contains everything that the new one does.
//! - A frame is rewritten again only if more of its records have become useless, so compaction
//!   terminates.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use weir_model::{Batch, Share};

use super::append::charge_of;
use super::{Checkpoint, CursorStream, Location, State};
use crate::limits::{COMPACT_COMMITS, GROUP_BYTES};

/// A frame to rewrite.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) seq: u64,
    pub(crate) from: Location,
    /// What destinations may still need of it.
    pub(crate) shares: Vec<Share>,
}

impl State {
    /// Returns frames to rewrite now, at most about one MiB of them; otherwise when to check again.
    pub(super) fn take_moves(&mut self, now: Duration) -> Result<Vec<Move>, Option<Duration>> {
        if self.moves.is_empty() {
            if !self.is_mostly_useless() || self.moved_bytes > 0 {
                return Err(None);
            }
            if now < self.compact_at {
                return Err(Some(self.compact_at));
            }
            self.compact_at = now + self.config.commit_interval * COMPACT_COMMITS;
            self.choose_moves();
        }
        let mut bytes = 0;
        let mut moves = Vec::new();
        while bytes < GROUP_BYTES
            && let Some(seq) = self.moves.pop_front()
        {
            let Some(slot) = self.slots.get(&seq) else { continue };
            let Some(from) = slot.location.filter(|at| self.is_compactible(at.segment)) else {
                continue;
            };
            let shares = self.cursors_with(seq).into_iter().map(Share::all).collect();
            bytes += u64::from(from.len);
            moves.push(Move { seq, from, shares });
        }
        if moves.is_empty() {
            // The previous ones are flushed now.
            self.sync_wanted = true;
            return Err(Some(now));
        }
        Ok(moves)
    }

    /// Returns whether segments take more than twice what destinations are charged, plus two
    /// segments.
    fn is_mostly_useless(&self) -> bool {
        if self.segments.len() <= 2 {
            return false;
        }
        let charged: u64 = self.cursors.iter().map(|c| c.pending_bytes + c.kept_bytes).sum();
        self.disk_bytes() > 2 * (charged + self.config.segment_bytes)
    }

    fn is_compactible(&self, segment: u64) -> bool {
        self.segments.get(&segment).is_some_and(|s| s.is_indexed && s.sealed && !s.is_strange)
    }

    /// Queues frames of segments of which at most half is needed.
    fn choose_moves(&mut self) {
        let claims = self.claims();
        let mut needed: BTreeMap<u64, (u64, Vec<u64>)> = BTreeMap::new();
        for (seq, slot) in &self.slots {
            let Some(at) = slot.location.filter(|at| self.is_compactible(at.segment)) else {
                continue;
            };
            let rows = claims.get(seq).copied().unwrap_or(0).min(slot.records);
            let (bytes, frames) = needed.entry(at.segment).or_default();
            *bytes += charge_of(u64::from(at.len), rows, slot.records).min(u64::from(at.len));
            frames.push(*seq);
        }
        // The most useless first, one segment's worth at a time: until their space is freed, both
        // copies take some.
        let held = |id: &u64| self.segments.get(id).map_or(0, |s| s.len - s.dead.punched_bytes());
        let is_useless = |(id, (bytes, _)): &(u64, (u64, Vec<u64>))| 2 * bytes <= held(id);
        let mut useless: Vec<_> = needed.into_iter().filter(is_useless).collect();
        useless.sort_by_cached_key(|(id, (bytes, _))| bytes * 1024 / held(id).max(1));
        let mut left = self.config.segment_bytes;
        for (_, (bytes, frames)) in useless {
            let fits = left == self.config.segment_bytes || bytes <= left;
            if !fits {
                return;
            }
            left = left.saturating_sub(bytes);
            self.moves.extend(frames);
        }
    }

    /// Returns the number of records of each batch that are part of entries, summed over the
    /// destinations.
    fn claims(&self) -> HashMap<u64, u64> {
        let mut claims: HashMap<u64, u64> = HashMap::new();
        let streams = self.streams.values().flat_map(|known| known.cursor_streams.iter());
        let entries = streams.flat_map(|(_, cs)| cs.entries.iter().map(|e| (e.seq, e.routed)));
        let kept = self.cursors.iter().flat_map(|cursor| cursor.held.iter().copied());
        for (seq, rows) in entries.chain(kept) {
            *claims.entry(seq).or_default() += rows;
        }
        claims
    }

    /// Returns the destinations that have the batch in an entry, or keep it while they are not
    /// configured.
    fn cursors_with(&self, seq: u64) -> Vec<usize> {
        let Some(slot) = self.slots.get(&seq) else { return Vec::new() };
        let listed = self.cursor_streams(slot.stream);
        let has = |(index, cs): (usize, &CursorStream)| {
            cs.entries.binary_search_by_key(&seq, |entry| entry.seq).is_ok().then_some(index)
        };
        let keeps = |index: &usize| {
            self.cursors[*index].held.binary_search_by_key(&seq, |(seq, _)| *seq).is_ok()
        };
        listed.filter_map(has).chain(self.absent.iter().copied().filter(keeps)).collect()
    }

    /// Records that the frame was rewritten, but not yet flushed.
    pub(crate) fn move_placed(&mut self, batch: &Batch, to: Location) {
        self.add_frame(batch, to, Checkpoint::of(batch));
        self.note_frame(batch.header().stream, to);
        self.frames_compacted += 1;
        self.moved_bytes += u64::from(to.len);
    }

    /// Records that space was freed.
    pub(crate) fn note_reclaimed(&mut self) {
        if self.moves.is_empty() {
            self.moved_bytes = 0;
        }
        self.note_disk_use();
    }

    /// Records that the rewritten frame, with this many records, is on stable storage.
    pub(crate) fn moved(&mut self, seq: u64, from: Location, to: Location, records: u64) {
        let slot = self.slots.get_mut(&seq).filter(|slot| slot.location == Some(from));
        let Some(slot) = slot else { return self.dead.push(to) };
        slot.location = Some(to);
        slot.records = records;
        self.dead.push(from);
    }
}
