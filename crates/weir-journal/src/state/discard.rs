//! Discarding what waits for a destination: the oldest records of its heaviest key, to make room,
//! or all, because it was dropped.
//!
//! Invariants:
//! - What is discarded is at every moment a part of the group that weighs most at that moment, so
//!   groups that weigh less lose nothing while there is a heavier one.
//! - Discarded batches are settled like any other, and counted with their reason; records that are
//!   cut from a batch are counted at once ([`super::keys`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use weir_model::{DiscardReason, StreamId};

use super::keys::{Group, GroupMap, Part};
use super::{CursorStream, Entry, State, Status};
use crate::Outcome;
use crate::limits::DISCARD_GROUPS_MAX;

/// What is discarded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscardBy {
    /// Records of a key.
    Key,
    /// Whole batches of a stream: only these free memory and disk.
    Stream,
}

/// A group with its weight and its oldest entry: among equally heavy ones, the one that has waited
/// longest is discarded first.
type Weighed = (u64, Reverse<u64>, Group);

/// The heaviest groups, with their parts from the oldest on.
#[derive(Debug)]
struct Heaviest {
    groups: BinaryHeap<Weighed>,
    parts: GroupMap<VecDeque<Part>>,
    /// The weight of the heaviest one that is not among them.
    floor: u64,
}

impl State {
    /// Discards the oldest waiting records of the heaviest key, or batches of the heaviest stream,
    /// until at most `target` bytes wait for the destination (or nothing more can be discarded).
    pub(super) fn discard_oldest(
        &mut self,
        index: usize,
        target: u64,
        by: DiscardBy,
        now: Duration,
    ) {
        if self.cursors[index].pending_bytes <= target {
            return;
        }
        if by == DiscardBy::Key {
            self.count_keys(index);
        }
        while self.cursors[index].pending_bytes > target
            && self.discard_heaviest(index, target, by, now)
        {}
    }

    /// Discards parts of the heaviest groups, until there is a heavier one than those. Returns
    /// false if there is nothing to discard.
    fn discard_heaviest(
        &mut self,
        index: usize,
        target: u64,
        by: DiscardBy,
        now: Duration,
    ) -> bool {
        let need = self.cursors[index].pending_bytes - target;
        let Heaviest { mut groups, mut parts, floor } = self.weigh(index, need, by);
        let mut has_discarded = false;
        while self.cursors[index].pending_bytes > target
            && let Some((weight, _, group)) = groups.pop()
        {
            if has_discarded && weight < floor {
                break;
            }
            let Some(of_group) = parts.get_mut(&group) else { continue };
            let Some(part) = of_group.pop_front() else { continue };
            has_discarded |= self.discard_part(index, &part, now);
            if let Some(next) = of_group.front() {
                groups.push((weight - part.bytes, Reverse(next.seq), group));
            }
        }
        has_discarded
    }

    /// Finds the heaviest groups, so many that making all of them as light as the next one would
    /// free as many bytes as needed.
    fn weigh(&self, index: usize, need: u64, by: DiscardBy) -> Heaviest {
        let mut all = self.weights(index, by);
        let mut chosen = Vec::new();
        let (mut freed, mut before, mut floor) = (0, 0, 0);
        while let Some(next) = all.pop() {
            let weight = next.0;
            let count = chosen.len();
            freed += count as u64 * (u64::max(before, weight) - weight);
            if count > 0 && freed >= need || count == DISCARD_GROUPS_MAX {
                floor = weight;
                break;
            }
            before = weight;
            chosen.push(next);
        }
        let parts = match by {
            DiscardBy::Key => self.parts_by_key(index, &chosen),
            DiscardBy::Stream => self.parts_by_stream(index, &chosen, need),
        };
        Heaviest { groups: chosen.into(), parts, floor }
    }

    /// Returns the parts of these groups.
    fn parts_by_key(&self, index: usize, chosen: &[Weighed]) -> GroupMap<VecDeque<Part>> {
        let nothing = |(_, _, group): &Weighed| (*group, VecDeque::new());
        let mut parts: GroupMap<VecDeque<Part>> = chosen.iter().map(nothing).collect();
        self.visit_waiting(index, &mut |part| {
            if let Some(of_group) = parts.get_mut(&part.group) {
                of_group.push_back(part);
            }
        });
        for of_group in parts.values_mut() {
            of_group.make_contiguous().sort_by_key(|part| part.seq);
        }
        parts
    }

    /// Returns the oldest batches of these streams, as many of each as may be needed.
    fn parts_by_stream(
        &self,
        index: usize,
        chosen: &[Weighed],
        need: u64,
    ) -> GroupMap<VecDeque<Part>> {
        let mut parts: GroupMap<VecDeque<Part>> = GroupMap::default();
        for stream in chosen.iter().filter_map(|(_, _, group)| group.stream()) {
            let mut left = need;
            let cs = self.cursor_stream(index, stream);
            for entry in cs.into_iter().flat_map(CursorStream::waiting) {
                let part = entry.as_part(stream);
                parts.entry(part.group).or_default().push_back(part);
                left = left.saturating_sub(part.bytes);
                if left == 0 {
                    break;
                }
            }
        }
        parts
    }

    /// Returns what each group weighs.
    fn weights(&self, index: usize, by: DiscardBy) -> BinaryHeap<Weighed> {
        let turns = self.cursors[index].turns.iter();
        let of_stream = |stream: &StreamId| {
            let cs = self.cursor_stream(index, *stream)?;
            let oldest = cs.entries.get(cs.next)?.seq;
            Some((cs.waiting_bytes, Reverse(oldest), Group::Stream(*stream)))
        };
        match by {
            DiscardBy::Stream => turns.filter_map(of_stream).collect(),
            DiscardBy::Key => {
                let mut weights: GroupMap<(u64, u64)> = GroupMap::default();
                self.visit_waiting(index, &mut |part| {
                    let (weight, oldest) = weights.entry(part.group).or_insert((0, part.seq));
                    *weight += part.bytes;
                    *oldest = part.seq.min(*oldest);
                });
                let of_group = |(group, (weight, oldest))| (weight, Reverse(oldest), group);
                weights.into_iter().map(of_group).collect()
            }
        }
    }

    /// Calls `visit` with each part of what waits for the destination, in order per stream.
    fn visit_waiting(&self, index: usize, visit: &mut impl FnMut(Part)) {
        for stream in &self.cursors[index].turns {
            let cs = self.cursor_stream(index, *stream);
            for entry in cs.into_iter().flat_map(CursorStream::waiting) {
                entry.visit_parts(*stream, visit);
            }
        }
    }

    /// Discards what waits of an entry.
    pub(super) fn discard_entry(
        &mut self,
        index: usize,
        stream: StreamId,
        at: usize,
        reason: DiscardReason,
        now: Duration,
    ) {
        let entry = self.cursor_stream(index, stream).and_then(|cs| cs.entries.get(at));
        let Some((seq, rows)) = entry.map(|entry| (entry.seq, entry.left())) else { return };
        self.mark_taken(index, stream, at);
        let outcome = Outcome { discarded: Some((reason, rows)), ..Outcome::default() };
        self.settle(index, stream, seq, outcome, now);
    }

    /// Discards the batches of a stream that wait for a destination and cannot be written. Returns
    /// whether all that the destination has not settled of the stream is on stable storage then.
    pub(crate) fn discard_unwritten(
        &mut self,
        index: usize,
        stream: StreamId,
        now: Duration,
    ) -> bool {
        let waiting = self.cursor_stream(index, stream).into_iter().flat_map(CursorStream::waiting);
        let unwritten = waiting.filter(|entry| !self.is_on_disk(entry.seq));
        let parts: Vec<Part> = unwritten.map(|entry| entry.as_part(stream)).collect();
        for part in &parts {
            self.discard_part(index, part, now);
        }
        self.is_written(index, stream)
    }

    /// Returns whether all that a destination has not settled of a stream is on stable storage.
    pub(crate) fn is_written(&self, index: usize, stream: StreamId) -> bool {
        let mut entries = self.cursor_stream(index, stream).into_iter().flat_map(|cs| &cs.entries);
        let is_settled = |entry: &Entry| matches!(entry.status, Status::Settled(_));
        entries.all(|entry| is_settled(entry) || self.is_on_disk(entry.seq))
    }

    /// Returns whether a batch is on stable storage, or not needed any more.
    fn is_on_disk(&self, seq: u64) -> bool {
        self.slots.get(&seq).is_none_or(|slot| slot.synced)
    }

    /// Discards all waiting batches of a destination without a reader.
    pub(super) fn discard_waiting(&mut self, index: usize, now: Duration) {
        for stream in self.streams_of(index) {
            while let Some(at) = self.cursor_stream(index, stream).and_then(CursorStream::first) {
                self.discard_entry(index, stream, at, DiscardReason::CursorDropped, now);
            }
        }
        (self.cursors[index].spec, self.cursors[index].is_detached) = (None, false);
    }
}
