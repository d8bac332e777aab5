//! Which records of the sources were moved to the stream of a drain, up to the *high water* of each
//! stream of a source: after a crash the sources' batches come again, and whatever is at or before
//! it has its fate already.
//!
//! Invariants: while a drain lags, everything that it is given is moved or discarded, so the
//! records of a source's stream are in few ranges; a record at or before the high water and in none
//! of them was delivered while the drain was direct. Ranges are kept until the batches themselves
//! are settled.

use std::collections::BTreeMap;

use weir_journal::CursorMemory;
use weir_model::{DiscardReason, Position, StreamId};

use super::taken::Fate;

/// Maximum number of ranges in a frame, each of a stream of a listener or a file. Records of
/// further ones would only be sent twice after a crash.
const RANGES_MAX: usize = 4096;

/// Encoded size of a range: stream, first and last position, fate.
const RANGE_BYTES: usize = 34;

/// Encoded size of a range in the first form of the state, which only had the last position.
const FIRST_FORM_BYTES: usize = 20;

/// The first byte of a state. Its length is odd, that of the first form is not.
const FORM: u8 = 2;

/// Records of one stream with the same fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: Position,
    last: Position,
    is_discarded: bool,
    /// The drain has lagged without a break; 0: in an earlier run.
    period: u32,
}

/// Records that were moved, by stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MovedRecords {
    ranges: BTreeMap<StreamId, Vec<Range>>,
    period: u32,
}

impl MovedRecords {
    /// Notes that a record of a stream was moved, or discarded instead.
    pub(super) fn note(&mut self, stream: StreamId, at: Position, is_discarded: bool) {
        let period = self.period;
        let ranges = self.ranges.entry(stream).or_default();
        // Records behind it may have been discarded while it was being sent.
        let next = ranges.partition_point(|range| range.last < at);
        if ranges.get(next).is_some_and(|range| range.first <= at) {
            return;
        }
        match next.checked_sub(1).and_then(|before| ranges.get_mut(before)) {
            Some(before) if before.is_discarded == is_discarded && before.period == period => {
                before.last = at;
            }
            _ => ranges.insert(next, Range { first: at, last: at, is_discarded, period }),
        }
    }

    /// Notes that the drain is direct again: what it is given until it lags again is not moved.
    pub(super) fn end_period(&mut self) {
        self.period += 1;
    }

    /// Returns the fate of a record, if it has one already.
    pub(super) fn fate(&self, stream: StreamId, at: Position) -> Option<Fate> {
        let ranges = self.ranges.get(&stream)?;
        let next = ranges.partition_point(|range| range.last < at);
        let range = ranges.get(next)?;
        Some(match range.is_discarded {
            _ if at < range.first => Fate::Delivered,
            true => Fate::discarded(DiscardReason::BufferFull),
            false => Fate::Moved,
        })
    }

    /// Forgets settled records if there are many ranges. If there are few they are kept until the
    /// next start: settled records could come again if weir was killed before that is on stable
    /// storage.
    pub(super) fn forget_some(&mut self, sources: &CursorMemory) {
        if self.ranges.values().map(Vec::len).sum::<usize>() > RANGES_MAX / 4 {
            self.retain(|stream, last| {
                sources.committed(stream).is_some_and(|committed| committed < last)
            });
        }
    }

    /// Forgets, at the start, settled records. The journal may know nothing about a stream whose
    /// frames were written just before a crash.
    pub(super) fn forget(&mut self, sources: &CursorMemory) {
        self.retain(|stream, last| {
            sources.committed(stream).is_none_or(|committed| committed < last)
        });
    }

    fn retain(&mut self, is_needed: impl Fn(StreamId, Position) -> bool) {
        self.ranges.retain(|stream, ranges| {
            ranges.retain(|range| is_needed(*stream, range.last));
            !ranges.is_empty()
        });
    }

    /// Returns the state of a frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut state = vec![FORM];
        let all = self.ranges.iter();
        let all = all.flat_map(|(stream, ranges)| ranges.iter().map(move |range| (stream, range)));
        for (stream, range) in all.take(RANGES_MAX) {
            state.extend_from_slice(&stream.0.to_le_bytes());
            for at in [range.first, range.last] {
                state.extend_from_slice(&at.epoch.to_le_bytes());
                state.extend_from_slice(&at.offset.to_le_bytes());
            }
            state.extend_from_slice(&u16::from(range.is_discarded).to_le_bytes());
        }
        state
    }

    /// Reads the state of a frame.
    pub(super) fn decode(state: &[u8]) -> Self {
        let mut moved = Self { ranges: BTreeMap::new(), period: 1 };
        let (entries, size) = match state.split_first() {
            Some((&FORM, entries)) if entries.len().is_multiple_of(RANGE_BYTES) => {
                (entries, RANGE_BYTES)
            }
            _ => (state, FIRST_FORM_BYTES),
        };
        for entry in entries.chunks_exact(size) {
            let Some((stream, range)) = read(entry) else { continue };
            moved.ranges.entry(stream).or_default().push(range);
        }
        moved
    }
}

/// Reads a range in either form.
fn read(entry: &[u8]) -> Option<(StreamId, Range)> {
    let (stream, rest) = entry.split_first_chunk::<8>()?;
    let position = |bytes: &mut &[u8]| {
        let (epoch, rest) = bytes.split_first_chunk::<4>()?;
        let (offset, rest) = rest.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(Position::new(u32::from_le_bytes(*epoch), u64::from_le_bytes(*offset)))
    };
    let mut rest = rest;
    let first = position(&mut rest)?;
    let (first, last, is_discarded) = match position(&mut rest) {
        Some(last) => (first, last, rest.first() == Some(&1)),
        None => (Position::default(), first, false),
    };
    let range = Range { first, last, is_discarded, period: 0 };
    Some((StreamId(u64::from_le_bytes(*stream)), range))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(7);

    fn at(offset: u64) -> Position {
        Position::new(5, offset)
    }

    #[test]
    fn every_record_up_to_the_high_water_has_a_fate() {
        let mut moved = MovedRecords::default();
        for offset in [10, 11, 15] {
            moved.note(STREAM, at(offset), false);
        }
        moved.note(STREAM, at(16), true);
        moved.end_period();
        moved.note(STREAM, at(30), true);
        moved.note(STREAM, at(28), false);
        moved.note(STREAM, at(29), false);
        moved.note(STREAM, at(29), true);
        moved.note(StreamId(u64::MAX), Position::new(u32::MAX, u64::MAX), false);
        let lost = Fate::discarded(DiscardReason::BufferFull);
        for moved in [MovedRecords::decode(&moved.encode()), moved] {
            for (offset, fate) in [
                (9, Some(Fate::Delivered)),
                (10, Some(Fate::Moved)),
                (12, Some(Fate::Moved)),
                (15, Some(Fate::Moved)),
                (16, Some(lost)),
                (17, Some(Fate::Delivered)),
                (27, Some(Fate::Delivered)),
                (29, Some(Fate::Moved)),
                (30, Some(lost)),
                (31, None),
            ] {
                assert_eq!(moved.fate(STREAM, at(offset)), fate, "{offset}");
            }
            assert_eq!(moved.fate(StreamId(1), at(1)), None);
        }
    }

    #[test]
    fn states_of_the_first_form_are_high_waters() {
        let mut state = Vec::new();
        for stream in [1_u64, 2] {
            state.extend_from_slice(&stream.to_le_bytes());
            state.extend_from_slice(&5_u32.to_le_bytes());
            state.extend_from_slice(&9_u64.to_le_bytes());
        }
        let moved = MovedRecords::decode(&state);
        let fates = [at(3), at(9), at(10)].map(|at| moved.fate(StreamId(2), at));
        assert_eq!(fates, [Some(Fate::Moved), Some(Fate::Moved), None]);
        assert_eq!(MovedRecords::decode(b"short").fate(STREAM, at(0)), None);
    }
}
