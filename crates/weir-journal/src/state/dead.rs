//! Space in a segment that is taken by dead frames, and how much of it was freed.
//!
//! Invariants: ranges neither overlap nor touch (adjacent ones are merged); a range is either
//! punched completely or not yet.

use std::collections::{BTreeMap, BTreeSet};

/// Dead ranges of one segment.
#[derive(Debug)]
pub(crate) struct DeadRanges {
    /// Minimum size of what is punched at once.
    bytes_min: u64,
    /// Start -> (length, bytes of it that are punched).
    ranges: BTreeMap<u64, (u64, u64)>,
    punched: u64,
    /// Offsets of dead frames whose space is freed with the whole segment, never before.
    kept: BTreeSet<u64>,
}

impl DeadRanges {
    pub(crate) fn new(bytes_min: u64) -> Self {
        Self { bytes_min, ranges: BTreeMap::new(), punched: 0, kept: BTreeSet::new() }
    }

    /// Keeps the space of the frame at this offset, even once it is dead.
    pub(crate) fn keep(&mut self, offset: u64) {
        self.kept.insert(offset);
    }

    /// Adds a dead frame. Returns the range to punch, if enough adjacent space is dead.
    pub(crate) fn add(&mut self, offset: u64, len: u64) -> Option<(u64, u64)> {
        if self.kept.contains(&offset) {
            return None;
        }
        let (mut start, mut total, mut punched) = (offset, len, 0);
        if let Some((&before, &(before_len, before_punched))) =
            self.ranges.range(..offset).next_back()
            && before + before_len == offset
        {
            self.ranges.remove(&before);
            (start, total, punched) = (before, total + before_len, before_punched);
        }
        if let Some((after_len, after_punched)) = self.ranges.remove(&(offset + len)) {
            total += after_len;
            punched += after_punched;
        }
        self.ranges.insert(start, (total, punched));
        (total - punched >= self.bytes_min).then_some((start, total))
    }

    /// Returns all ranges that are worth punching and not punched yet.
    pub(crate) fn ready(&self) -> Vec<(u64, u64)> {
        let is_ready = |(_, (len, punched)): &(&u64, &(u64, u64))| len - punched >= self.bytes_min;
        self.ranges.iter().filter(is_ready).map(|(start, (len, _))| (*start, *len)).collect()
    }

    /// Records that the range was punched.
    pub(crate) fn punched(&mut self, start: u64) {
        if let Some((len, punched)) = self.ranges.get_mut(&start) {
            self.punched += *len - *punched;
            *punched = *len;
        }
    }

    /// Returns the number of bytes that punching those would free.
    pub(crate) fn ready_bytes(&self) -> u64 {
        let left = self.ranges.values().map(|(len, punched)| len - punched);
        left.filter(|bytes| *bytes >= self.bytes_min).sum()
    }

    /// Returns the number of bytes freed.
    pub(crate) fn punched_bytes(&self) -> u64 {
        self.punched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_dead_frames_are_punched_once_they_lie_together() {
        let step = 4096;
        let mut dead = DeadRanges::new(4 * step);
        assert_eq!(dead.add(0, step), None);
        assert_eq!(dead.add(2 * step, step), None);
        assert_eq!(dead.add(3 * step, step), None);
        assert_eq!(dead.add(step, step), Some((0, 4 * step)));
        dead.punched(0);
        assert_eq!(dead.punched_bytes(), 4 * step);
        assert_eq!(dead.add(4 * step, step), None, "only a quarter of the range is new");
        assert_eq!(dead.add(5 * step, 3 * step), Some((0, 8 * step)));
        dead.punched(0);
        assert_eq!(dead.punched_bytes(), 8 * step);
    }
}
