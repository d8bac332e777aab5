//! Merging: which small frames on disk are rewritten as one.
//!
//! A destination that is down while others are not has one batch waiting for every batch that was
//! appended, however small: a trickle from many senders would use up the permitted number of
//! batches ([`SLOTS_MAX`](crate::limits::SLOTS_MAX)) within minutes, with hardly anything on disk.
//! From a number of batches on, frames of closed segments that follow each other in their stream
//! are therefore merged into one frame, at the end. So the number of batches grows with the bytes
//! that wait, not with the time.
//!
//! Invariants:
//! - Between the first and the last frame of a run, its stream has no other batch that is needed,
//!   and every destination that has an entry for one of them waits for it, undiminished. The new
//!   frame contains exactly the records of those entries.
//! - The new frame asserts that no destination needs what it lacks between its base and its end.
//!   Some of that may be settled only in memory, so a start uses it, instead of the old frames,
//!   only if the cursor log says that it counts ([`MovedFrames`](super::MovedFrames)): that record
//!   contains all positions of that moment, and the old frames are freed after it.
//! - If something was taken or discarded meanwhile, the new frame is dead. It may still be found,
//!   and count, at a start: its content is that of the old frames, as long as none of these is
//!   rewritten with fewer records. Hence they are never rewritten again, and its space is freed
//!   only with its segment.
//! - A run is at least half as large again as its largest frame, so a byte is rewritten only a few
//!   times until its frame is large enough.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use weir_model::{Batch, Position, Share, StreamId};

use super::append::charge_of;
use super::{Entry, Location, Slot, State, Status};
use crate::limits::{
    GROUP_BYTES, MERGE_AHEAD_SHARE, MERGE_ANY_ARRIVAL_BATCHES, MERGE_FRAMES_ARRIVAL_NS_MAX,
    MERGE_WINDOW_BATCHES, MERGE_WINDOW_BATCHES_MIN, MERGED_BYTES_MAX, SMALL_FRAME_BYTES_MAX,
};

/// Frames to merge into one, in order.
#[derive(Debug, Clone)]
pub(crate) struct Merge {
    pub(crate) stream: StreamId,
    pub(crate) parts: Vec<MergePart>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct MergePart {
    pub(crate) seq: u64,
    pub(crate) from: Location,
    /// What destinations need of it.
    pub(crate) shares: Vec<Share>,
}

impl Merge {
    /// Returns the number of the batch that takes the place of all.
    pub(crate) fn seq(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.seq)
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.from.len)).sum()
    }
}

/// How far the streams were searched for small frames.
#[derive(Debug, Default)]
pub(crate) struct MergePass {
    streams: VecDeque<StreamId>,
    /// The first batch of the first stream to look at.
    from: u64,
    /// Number of batches from which the next pass begins.
    begins_at: usize,
}

/// Frames that follow each other, and the destinations that wait for some of them.
#[derive(Debug, Default)]
struct Run {
    parts: Vec<MergePart>,
    bytes: u64,
    cursors: BTreeSet<usize>,
}

/// The entries of a batch: cursor index, and index of the entry.
type Entries = Vec<(usize, usize)>;

impl State {
    /// Returns frames to merge now, about one MiB of them; none if there are few batches.
    pub(super) fn take_merges(&mut self) -> Vec<Merge> {
        let (mut merges, mut bytes) = (Vec::new(), 0);
        if !self.may_merge() {
            return merges;
        }
        // Bounds the time for which the lock is held.
        for _ in 0..8 {
            let Some(stream) = self.rewriting.merge_pass.streams.front().copied() else { break };
            let (found, next) = self.find_runs(stream, self.rewriting.merge_pass.from);
            bytes += found.iter().map(Merge::bytes).sum::<u64>();
            merges.extend(found);
            self.rewriting.merge_pass.from = next.unwrap_or_default();
            if next.is_none() {
                self.rewriting.merge_pass.streams.pop_front();
            }
            if bytes >= GROUP_BYTES {
                break;
            }
        }
        if self.rewriting.merge_pass.streams.is_empty() {
            self.rewriting.merge_pass.begins_at = self.next_pass_at();
        }
        merges
    }

    /// Returns whether a pass is under way, and goes on to look for frames after this call.
    pub(super) fn is_merging(&self) -> bool {
        !self.rewriting.merge_pass.streams.is_empty()
            && self.rewriting.moved_bytes <= self.config.segment_bytes
    }

    /// Returns within which time frames must have arrived to be merged.
    pub(crate) fn arrival_span_max_ns(&self) -> u64 {
        let is_crowded = self.slots.len() >= MERGE_ANY_ARRIVAL_BATCHES;
        if is_crowded { u64::MAX } else { MERGE_FRAMES_ARRIVAL_NS_MAX }
    }

    /// Gives up rewriting, for now.
    pub(crate) fn stop_rewriting(&mut self) {
        self.rewriting.moves.clear();
        self.rewriting.merge_pass.streams.clear();
        self.rewriting.merge_pass.begins_at = self.next_pass_at();
    }

    fn next_pass_at(&self) -> usize {
        let min = self.config.merge_from_batches;
        (self.slots.len() + (min / 4).max(1)).max(min)
    }

    /// Begins a pass if there are enough batches for it. Returns false if there is nothing to do,
    /// or if what was rewritten takes too much space until the old frames are freed.
    fn may_merge(&mut self) -> bool {
        self.rewriting.merge_pass.begins_at =
            self.rewriting.merge_pass.begins_at.min(self.next_pass_at());
        let is_under_way = !self.rewriting.merge_pass.streams.is_empty();
        let begins_at = self.rewriting.merge_pass.begins_at.max(self.config.merge_from_batches);
        if is_under_way || self.slots.len() < begins_at.max(1) {
            return self.is_merging();
        }
        if !self.rewriting.moves.is_empty()
            || self.rewriting.moved_bytes > 0
            || self.disk_error().is_some()
        {
            return false;
        }
        let several = self.streams.iter().filter(|(_, known)| known.slots > 1);
        let mut streams: Vec<_> = several.map(|(id, _)| *id).collect();
        streams.sort_unstable();
        (self.rewriting.merge_pass.streams, self.rewriting.merge_pass.from) = (streams.into(), 0);
        true
    }

    /// Returns runs of small frames among the next batches of the stream, from this one on, and the
    /// first batch after those; `None` if these were the last.
    fn find_runs(&self, stream: StreamId, from: u64) -> (Vec<Merge>, Option<u64>) {
        let mut found = Vec::new();
        if self.is_kept_for_absent(stream) {
            return (found, None);
        }
        let (batches, next) = self.next_batches(stream, from);
        let mut run = Run::default();
        for (seq, entries) in &batches {
            let Some(slot) = self.slots.get(seq) else {
                // Settled by all, but not by those that are behind a gap.
                if entries.iter().any(|(index, _)| run.cursors.contains(index)) {
                    std::mem::take(&mut run).end(stream, &mut found);
                }
                continue;
            };
            let Some(part) = self.small_part(stream, (*seq, slot), entries) else {
                std::mem::take(&mut run).end(stream, &mut found);
                continue;
            };
            if !self.continues(&run, &part, slot) {
                std::mem::take(&mut run).end(stream, &mut found);
            }
            run.bytes += u64::from(part.from.len);
            run.parts.push(part);
            run.cursors.extend(entries.iter().map(|(index, _)| *index));
        }
        run.end(stream, &mut found);
        (found, next)
    }

    /// Returns the next batches of the stream with their entries, and the first batch after those;
    /// `None` if these were the last.
    fn next_batches(&self, stream: StreamId, from: u64) -> (BTreeMap<u64, Entries>, Option<u64>) {
        let listed = self.cursor_streams(stream).count();
        let window = (MERGE_WINDOW_BATCHES / listed.max(1)).max(MERGE_WINDOW_BATCHES_MIN);
        let mut batches: BTreeMap<u64, Entries> = BTreeMap::new();
        let mut until = None;
        for (index, cs) in self.cursor_streams(stream) {
            let first = cs.entries.partition_point(|entry| entry.seq < from);
            for (at, entry) in cs.entries.iter().enumerate().skip(first).take(window) {
                batches.entry(entry.seq).or_default().push((index, at));
            }
            let next = cs.entries.get(first + window).map(|entry| entry.seq);
            until = until.into_iter().chain(next).min();
        }
        if let Some(until) = until {
            // Some destination may have more entries from there on.
            batches.split_off(&until);
        }
        (batches, until)
    }

    /// Returns whether frames of the stream are kept for a destination that is not configured: only
    /// it knows which.
    fn is_kept_for_absent(&self, stream: StreamId) -> bool {
        let keeps = |index: &usize| {
            self.cursor_stream(*index, stream).is_some_and(|cs| !cs.kept.is_empty())
        };
        self.absent.iter().any(keeps)
    }

    /// Returns the frame of a batch if it can be merged with others.
    fn small_part(
        &self,
        stream: StreamId,
        (seq, slot): (u64, &Slot),
        entries: &Entries,
    ) -> Option<MergePart> {
        let is_idle = slot.batch.is_none() && !slot.writing && slot.synced;
        let is_idle = is_idle && !slot.is_copied && !slot.is_unmergeable;
        let is_small = |at: &Location| {
            u64::from(at.len) <= SMALL_FRAME_BYTES_MAX && self.is_compactible(at.segment)
        };
        let from = slot.location.filter(|at| is_idle && is_small(at))?;
        let ahead = self.config.merge_from_batches / MERGE_AHEAD_SHARE;
        let is_far = |(index, at): &(usize, usize)| {
            let cs = self.cursor_stream(*index, stream);
            cs.is_some_and(|cs| *at >= cs.next + ahead && cs.entries[*at].is_whole())
        };
        if entries.len() != slot.holders as usize || !entries.iter().all(is_far) {
            return None;
        }
        let shares = entries.iter().map(|(index, _)| Share::all(*index)).collect();
        Some(MergePart { seq, from, shares })
    }

    /// Returns whether a frame can be merged with those of the run.
    fn continues(&self, run: &Run, part: &MergePart, slot: &Slot) -> bool {
        let first = run.parts.first().and_then(|first| self.slots.get(&first.seq));
        let within_ns = self.arrival_span_max_ns();
        let is_alike = first.is_none_or(|first| {
            let times = first.observed_ns.zip(slot.observed_ns);
            first.durable == slot.durable
                && first.checkpoint.end.epoch == slot.checkpoint.end.epoch
                && times.is_none_or(|(first, other)| first.abs_diff(other) <= within_ns)
        });
        // A batch belongs to a destination's backlog as a whole, or not at all.
        let is_split = |first: &MergePart| {
            let mut ends = self.cursors.iter().map(|cursor| cursor.backlog_end);
            ends.any(|end| first.seq < end && end <= part.seq)
        };
        is_alike
            && !run.parts.first().is_some_and(is_split)
            && run.bytes + u64::from(part.from.len) <= MERGED_BYTES_MAX
    }

    /// Records when the records of frames arrived, as these say.
    pub(crate) fn note_arrivals(&mut self, parts: &[(MergePart, Batch)]) {
        for (part, batch) in parts {
            if let Some(slot) = self.slots.get_mut(&part.seq) {
                slot.observed_ns = Some(batch.header().observed_ns);
            }
        }
    }

    /// Records that these frames do not fit in one.
    pub(crate) fn note_unmergeable(&mut self, parts: &[(MergePart, Batch)]) {
        for (part, _) in parts {
            if let Some(slot) = self.slots.get_mut(&part.seq) {
                slot.is_unmergeable = true;
            }
        }
    }

    /// Records that a merged frame is on stable storage: its batch takes the place of the others,
    /// unless one of them was taken, settled or reduced in the meantime.
    pub(crate) fn merged(&mut self, merge: &Merge, batch: &Batch, to: Location, now: Duration) {
        self.rewriting.moved_frames.up_to =
            self.rewriting.moved_frames.up_to.max((to.segment, to.offset));
        self.rewriting.moved_frames.is_dirty = true;
        let Some(members) = self.unchanged_members(merge) else {
            for part in &merge.parts {
                if let Some(slot) = self.slots.get_mut(&part.seq) {
                    slot.is_copied = true;
                }
            }
            return self.end_whole(to);
        };
        let boundaries = self.boundaries(merge, &members);
        for (index, (first, count)) in &members {
            self.join_waiting(*index, merge, (*first, *count), &boundaries, (batch, to));
        }
        let mut appended_at = now;
        for part in &merge.parts {
            let Some(slot) = self.slots.get(&part.seq) else { continue };
            appended_at = appended_at.min(slot.appended_at);
            if part.seq == merge.seq() {
                continue;
            }
            if !slot.durable {
                self.no_longer_volatile(merge.stream);
            }
            self.remove_slot(part.seq);
        }
        let Some(slot) = self.slots.get_mut(&merge.seq()) else { return };
        self.dead.extend(slot.location.replace(to));
        slot.records = batch.record_count() as u64;
        (slot.holders, slot.readers) = (members.len() as u32, members.len() as u32);
        (slot.appended_at, slot.observed_ns) = (appended_at, Some(batch.header().observed_ns));
        self.rewriting.frames_merged += merge.parts.len() as u64;
        self.mark_dirty(merge.stream, now);
    }

    /// Returns for each destination its first entry and the number of entries for the frames, if
    /// all is as it was when these were chosen.
    fn unchanged_members(&self, merge: &Merge) -> Option<BTreeMap<usize, (usize, usize)>> {
        if self.is_kept_for_absent(merge.stream) {
            return None;
        }
        let mut members: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for part in &merge.parts {
            let slot = self.slots.get(&part.seq)?;
            if slot.location != Some(part.from) || slot.holders as usize != part.shares.len() {
                return None;
            }
            for share in &part.shares {
                let cs = self.cursor_stream(share.cursor, merge.stream)?;
                let at = cs.entries.binary_search_by_key(&part.seq, |entry| entry.seq).ok()?;
                let (first, count) = members.entry(share.cursor).or_insert((at, 0));
                if at != *first + *count || !cs.entries[at].is_whole() {
                    return None;
                }
                *count += 1;
            }
        }
        let is_last = |(index, (first, count)): (&usize, &(usize, usize))| {
            let cs = self.cursor_stream(*index, merge.stream);
            let next = cs.and_then(|cs| cs.entries.get(first + count));
            next.is_none_or(|next| next.seq > merge.seq())
        };
        members.iter().all(is_last).then_some(members)
    }

    /// Returns the positions between the frames at which `furthest` is or may come to be: where
    /// other entries of some destination end.
    fn boundaries(
        &self,
        merge: &Merge,
        members: &BTreeMap<usize, (usize, usize)>,
    ) -> BTreeSet<Position> {
        let mut boundaries = BTreeSet::new();
        let Some(known) = self.streams.get(&merge.stream) else { return boundaries };
        boundaries.insert(known.furthest.end);
        let first = merge.parts.first().map_or(0, |part| part.seq);
        for (index, cs) in known.cursor_streams.iter() {
            let from = cs.entries.partition_point(|entry| entry.seq < first);
            let to = cs.entries.partition_point(|entry| entry.seq < merge.seq());
            let (begin, count) = members.get(&index).copied().unwrap_or_default();
            let others = (from..to).filter(|at| !(begin..begin + count).contains(at));
            boundaries.extend(others.map(|at| cs.entries[at].checkpoint.end));
        }
        boundaries
    }

    /// Replaces consecutive entries of a destination by one for the frame that merges theirs.
    fn join_waiting(
        &mut self,
        index: usize,
        merge: &Merge,
        (first, count): (usize, usize),
        boundaries: &BTreeSet<Position>,
        (batch, to): (&Batch, Location),
    ) {
        let seq = merge.seq();
        let Some(checkpoint) = self.slots.get(&seq).map(|slot| slot.checkpoint.clone()) else {
            return;
        };
        let by_key = self.cursors[index].when_full() == crate::spec::WhenFull::DropOldest;
        let Some((cursor, cs)) = self.reader(index, merge.stream) else { return };
        let joined: Vec<Entry> = cs.entries.drain(first..first + count).collect();
        let (Some(begin), Some(last)) = (joined.first(), joined.last()) else { return };
        let routed = joined.iter().map(|entry| entry.routed).sum();
        let before: u64 = joined.iter().map(|entry| entry.bytes).sum();
        let bytes = charge_of(u64::from(to.len), routed, batch.record_count() as u64);
        let (skip_to, through) = (begin.skip_to, last.through);
        let mut entry = Entry {
            seq,
            routed,
            through,
            inside: inside_of(&joined, boundaries, checkpoint.end),
            skip_to,
            bytes,
            status: Status::Waiting,
            keys: super::Keys::Unknown,
            cut: super::Cut::default(),
            is_joined: false,
            checkpoint,
        };
        if by_key {
            entry.note_keys(index, batch);
        }
        cs.entries.insert(first, entry);
        for sum in [&mut cs.waiting_bytes, &mut cs.pending_bytes] {
            *sum = *sum - before + bytes;
        }
        for sum in [&mut cursor.waiting_bytes, &mut cursor.pending_bytes] {
            *sum = *sum - before + bytes;
        }
        cursor.pending_batches -= count as u64 - 1;
    }
}

impl Entry {
    /// Returns whether all of it waits.
    fn is_whole(&self) -> bool {
        self.status == Status::Waiting && self.cut.rows == 0 && !self.is_joined
    }
}

impl Run {
    /// Adds the parts of the run that are worth merging.
    fn end(self, stream: StreamId, found: &mut Vec<Merge>) {
        add_worthwhile(stream, &self.parts, found);
    }
}

fn add_worthwhile(stream: StreamId, parts: &[MergePart], found: &mut Vec<Merge>) {
    let lens = || parts.iter().map(|part| u64::from(part.from.len));
    let Some((largest, len)) = lens().enumerate().max_by_key(|(_, len)| *len) else { return };
    if parts.len() < 2 {
        return;
    }
    if 2 * lens().sum::<u64>() >= 3 * len {
        found.push(Merge { stream, parts: parts.to_vec() });
        return;
    }
    add_worthwhile(stream, &parts[..largest], found);
    add_worthwhile(stream, &parts[largest + 1..], found);
}

/// Returns the positions inside an entry that replaces others, with the records up to there.
fn inside_of(
    joined: &[Entry],
    boundaries: &BTreeSet<Position>,
    end: Position,
) -> Vec<(Position, u64)> {
    let mut inside: BTreeMap<Position, u64> = BTreeMap::new();
    let Some(first) = joined.first() else { return Vec::new() };
    for position in boundaries.range(first.checkpoint.end..end) {
        let count = joined.partition_point(|entry| entry.checkpoint.end <= *position);
        if let Some(last) = count.checked_sub(1) {
            inside.insert(*position, joined[last].through);
        }
    }
    // Where one of them had such a position, the count is exact.
    inside.extend(joined.iter().flat_map(|entry| entry.inside.iter().copied()));
    inside.into_iter().collect()
}

/// Groups frames that arrived close enough to each other to have one time of arrival. Each group
/// has at least two.
pub(crate) fn group_by_arrival(
    parts: Vec<(MergePart, Batch)>,
    within_ns: u64,
) -> Vec<Vec<(MergePart, Batch)>> {
    let mut groups: Vec<Vec<(MergePart, Batch)>> = Vec::new();
    for (part, batch) in parts {
        let observed_ns = batch.header().observed_ns;
        let is_close = |group: &&mut Vec<(MergePart, Batch)>| {
            group[0].1.header().observed_ns.abs_diff(observed_ns) <= within_ns
        };
        match groups.last_mut().filter(is_close) {
            Some(group) => group.push((part, batch)),
            None => groups.push(vec![(part, batch)]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}
