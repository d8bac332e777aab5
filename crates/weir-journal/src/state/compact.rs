//! Compaction: which frames on disk are rewritten with only the records that are still needed.
//!
//! A frame stays until its last record is settled, so a destination that is stuck and needs one
//! record in five hundred would keep all of them. Frames of closed segments that are mostly useless
//! are rewritten, at the end, with what is still needed; the old ones are then dead like any other.
//!
//! Invariants:
//! - Base and end, book and state of a frame stay. Of its records those stay that are part of an
//!   entry of some destination, settled or not: what is not committed is sent again after a crash.
//!   Those that were cut from an entry go, and are part of the committed book from then on, if
//!   their source cannot read them again and the cursor log states what is owed up to there.
//! - The old frame is dead only once the new one is on stable storage, and its space is freed only
//!   once the positions that made some of its records useless are durable too. Until then both
//!   exist, and the old one counts, as it contains everything that the new one does; the record of
//!   the positions also says that the new one counts from then on ([`MovedFrames`]).
//! - A frame is rewritten again only if more of its records have become useless, so compaction
//!   terminates.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use weir_model::{Batch, DiscardReason, Share, StreamId};

use super::append::charge_of;
use super::{Checkpoint, Entry, Location, MergePass, State, StreamState};
use crate::limits::{COMPACT_COMMITS, FAILED_MOVES_MAX, GROUP_BYTES};

/// A frame to rewrite.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub(crate) seq: u64,
    pub(crate) stream: StreamId,
    pub(crate) from: Location,
    /// What destinations may still need of it.
    pub(crate) shares: Vec<Share>,
    /// Destinations that have discarded some of it, with the number of records.
    pub(crate) cuts: Vec<(usize, u64)>,
}

/// What is being rewritten: frames that are reduced, and frames that are merged.
#[derive(Debug, Default)]
pub(crate) struct Rewriting {
    /// Slots whose frames are to be reduced, and how many were.
    pub(crate) moves: VecDeque<u64>,
    pub(crate) frames_compacted: u64,
    /// The earliest time to check for frames to reduce.
    pub(crate) compact_at: Duration,
    /// Size of the segments, and what destinations were charged, when no frames were found to
    /// reduce the last time: nothing changes until these do.
    pub(crate) nothing_to_move_at: Option<(u64, u64)>,
    /// How far waiting batches were searched for small frames to merge, and how many were merged.
    pub(crate) merge_pass: MergePass,
    pub(crate) frames_merged: u64,
    /// Which of the new frames count instead of the old ones.
    pub(crate) moved_frames: MovedFrames,
    /// Size of the new frames while the old ones still take space.
    pub(crate) moved_bytes: u64,
}

/// Which rewritten frames count instead of the old ones, should a start find both.
#[derive(Debug, Default)]
pub(crate) struct MovedFrames {
    /// Segment and offset of the last one that is on stable storage: all up to there, except those
    /// that failed.
    pub(crate) up_to: (u64, u64),
    /// Those after this place could not be flushed, up to the end of that segment.
    pub(crate) failed: Vec<((u64, u64), u64)>,
    /// The cursor log does not contain it yet.
    pub(crate) is_dirty: bool,
}

impl MovedFrames {
    /// Returns whether a frame that was found here counts instead of an earlier one.
    pub(crate) fn counts(&self, at: Location) -> bool {
        let here = (at.segment, at.offset);
        let is_failed =
            |(after, segment): &((u64, u64), u64)| here > *after && at.segment <= *segment;
        here <= self.up_to && !self.failed.iter().any(is_failed)
    }

    /// Records that those that were not flushed yet never will be; they are in that segment.
    pub(crate) fn note_failed(&mut self, segment: u64) {
        if self.failed.len() == FAILED_MOVES_MAX {
            self.failed.remove(0);
        }
        self.failed.push((self.up_to, segment));
        self.is_dirty = true;
    }
}

impl StreamState {
    /// Returns the number of records that were cut from an entry and need not stay in its frame:
    /// all or none. They are neither read again nor owed.
    fn removable(&self, entry: &Entry) -> u64 {
        let is_stated = entry.checkpoint.end <= self.furthest.end && entry.inside.is_empty();
        let is_removable = self.is_unrepeatable && is_stated && !entry.is_joined;
        if is_removable { entry.cut.rows } else { 0 }
    }
}

impl State {
    /// Returns frames to rewrite now, at most about one MiB of them; otherwise when to check again.
    pub(super) fn take_moves(&mut self, now: Duration) -> Result<Vec<Move>, Option<Duration>> {
        if self.rewriting.moves.is_empty() {
            if self.segments.len() <= 2 || self.rewriting.moved_bytes > 0 {
                return Err(None);
            }
            let charged = self.cursors.iter().map(|c| c.pending_bytes + c.kept_bytes).sum();
            let usage = (self.disk_bytes(), charged);
            let is_known = self.rewriting.nothing_to_move_at == Some(usage);
            if is_known || !self.is_mostly_useless(usage) {
                return Err(None);
            }
            if now < self.rewriting.compact_at {
                return Err(Some(self.rewriting.compact_at));
            }
            self.rewriting.compact_at = now + self.config.commit_interval * COMPACT_COMMITS;
            self.choose_moves();
            if self.rewriting.moves.is_empty() {
                self.rewriting.nothing_to_move_at = Some(usage);
                return Err(None);
            }
        }
        let mut bytes = 0;
        let mut moves = Vec::new();
        while bytes < GROUP_BYTES
            && let Some(seq) = self.rewriting.moves.pop_front()
        {
            let Some(slot) = self.slots.get(&seq).filter(|slot| !slot.is_copied) else { continue };
            let Some(from) = slot.location.filter(|at| self.is_compactible(at.segment)) else {
                continue;
            };
            let stream = slot.stream;
            bytes += u64::from(from.len);
            let (shares, cuts) = self.shares_of(seq);
            moves.push(Move { seq, stream, from, shares, cuts });
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
    fn is_mostly_useless(&self, (disk_bytes, charged): (u64, u64)) -> bool {
        disk_bytes > 2 * (charged + self.config.segment_bytes)
    }

    pub(super) fn is_compactible(&self, segment: u64) -> bool {
        self.segments.get(&segment).is_some_and(|s| s.is_indexed && s.sealed && !s.is_strange)
    }

    /// Queues frames of segments of which at most half is needed.
    fn choose_moves(&mut self) {
        let claims = self.claims();
        let mut needed: BTreeMap<u64, (u64, Vec<u64>)> = BTreeMap::new();
        for (seq, slot) in &self.slots {
            let is_movable = |at: &Location| !slot.is_copied && self.is_compactible(at.segment);
            let Some(at) = slot.location.filter(is_movable) else { continue };
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
            self.rewriting.moves.extend(frames);
        }
    }

    /// Returns the number of records of each batch that destinations need, summed over these.
    fn claims(&self) -> HashMap<u64, u64> {
        let mut claims: HashMap<u64, u64> = HashMap::new();
        for known in self.streams.values() {
            let entries = known.cursor_streams.iter().flat_map(|(_, cs)| &cs.entries);
            for entry in entries {
                *claims.entry(entry.seq).or_default() += entry.routed - known.removable(entry);
            }
        }
        for (seq, rows) in self.cursors.iter().flat_map(|cursor| cursor.held.iter().copied()) {
            *claims.entry(seq).or_default() += rows;
        }
        claims
    }

    /// Returns what each destination needs that has the batch in an entry, or keeps it while it is
    /// not configured, and how many records those have discarded that do not need them.
    fn shares_of(&self, seq: u64) -> (Vec<Share>, Vec<(usize, u64)>) {
        let (mut shares, mut cuts) = (Vec::new(), Vec::new());
        let stream = self.slots.get(&seq).map(|slot| slot.stream);
        let Some(known) = stream.and_then(|stream| self.streams.get(&stream)) else {
            return (shares, cuts);
        };
        for (cursor, cs) in known.cursor_streams.iter() {
            let at = cs.entries.binary_search_by_key(&seq, |entry| entry.seq);
            let Some(entry) = at.ok().map(|at| &cs.entries[at]) else { continue };
            let removable = known.removable(entry);
            if removable == 0 {
                shares.push(Share::all(cursor));
                continue;
            }
            shares.push(Share { cursor, without: entry.cut.keys.clone() });
            cuts.push((cursor, removable));
        }
        let keeps = |index: &usize| {
            self.cursors[*index].held.binary_search_by_key(&seq, |(seq, _)| *seq).is_ok()
        };
        shares.extend(self.absent.iter().copied().filter(keeps).map(Share::all));
        (shares, cuts)
    }

    /// Records that a frame was rewritten, but not yet flushed.
    pub(crate) fn move_placed(&mut self, batch: &Batch, to: Location) {
        self.add_frame(batch, to, Checkpoint::of(batch));
        self.note_frame(batch.header().stream, to);
        self.rewriting.moved_bytes += u64::from(to.len);
    }

    /// Records that space was freed.
    pub(crate) fn note_reclaimed(&mut self) {
        if self.rewriting.moves.is_empty() {
            self.rewriting.moved_bytes = 0;
        }
        self.note_disk_use();
    }

    /// Records that the rewritten frame, with this many records, is on stable storage.
    pub(crate) fn moved(&mut self, moved: &Move, to: Location, records: u64, now: Duration) {
        let Move { seq, stream, from, .. } = *moved;
        self.rewriting.moved_frames.up_to =
            self.rewriting.moved_frames.up_to.max((to.segment, to.offset));
        self.rewriting.moved_frames.is_dirty = true;
        for (index, rows) in &moved.cuts {
            self.commit_cut(*index, stream, seq, *rows);
            self.mark_dirty(stream, now);
        }
        let slot = self.slots.get_mut(&seq).filter(|slot| slot.location == Some(from));
        let Some(slot) = slot else { return self.end_whole(to) };
        slot.location = Some(to);
        slot.records = records;
        self.dead.push(from);
    }

    /// Adds records that were cut from an entry, and that are no longer in its frame, to the
    /// committed book: the destination is not owed them any more.
    fn commit_cut(&mut self, index: usize, stream: StreamId, seq: u64, rows: u64) {
        let Some((cursor, cs)) = self.reader(index, stream) else { return };
        let Ok(at) = cs.entries.binary_search_by_key(&seq, |e| e.seq) else { return };
        let cut = &mut cs.entries[at].cut;
        let bytes = cut.bytes * rows / cut.rows.max(1);
        cut.rows -= rows;
        cut.bytes -= bytes;
        cursor.cut_bytes -= bytes;
        cs.entries[at].routed -= rows;
        for entry in cs.entries.range_mut(at..) {
            entry.through -= rows;
            entry.inside.iter_mut().for_each(|(_, through)| *through -= rows);
        }
        let book = &mut cursor.committed_book;
        book.routed += rows;
        book.discarded[DiscardReason::BufferFull as usize] += rows;
        cursor.is_book_dirty = true;
    }
}
