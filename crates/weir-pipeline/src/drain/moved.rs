//! Which records of the sources were moved to the stream of a drain, up to the *high water* of each
//! stream of a source: after a crash the sources' batches come again, and whatever is at or before
//! it has its fate already.
//!
//! Invariants: while a drain lags, everything that it is given is moved or discarded, so the
//! records of a source's stream are in few ranges; a record at or before the high water and in none
//! of them was delivered while the drain was direct; records that were discarded then, or finished
//! before others that were moved, have ranges of their own. Ranges are kept until the batches
//! themselves are settled.

use std::collections::BTreeMap;

use weir_journal::CursorMemory;
use weir_model::{DiscardReason, Position, StreamId};

use super::finished::Span;
use super::taken::Fate;

/// Maximum number of ranges in a frame, each of a stream of a listener or a file. Records of
/// further ones would only be sent twice after a crash.
const RANGES_MAX: usize = 4096;

/// Encoded size of a range: stream, first and last position, fate.
const RANGE_BYTES: usize = 34;

/// Encoded size of a range in the first form of the state, which only had the last position.
const FIRST_FORM_BYTES: usize = 20;

/// Set in the number of a fate: the rest is the reason for which the records were discarded.
const DISCARDED: u16 = 0x100;

/// The first byte of a state. Its length is odd, that of the first form is not.
const FORM: u8 = 2;

/// Records of one stream with the same fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: Position,
    last: Position,
    fate: Fate,
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
    pub(super) fn note(&mut self, stream: StreamId, at: Position, fate: Fate) {
        let period = self.period;
        let ranges = self.ranges.entry(stream).or_default();
        // Records after it may have been discarded while it was being sent.
        let next = ranges.partition_point(|range| range.last < at);
        if ranges.get(next).is_some_and(|range| range.first <= at) {
            return;
        }
        match next.checked_sub(1).and_then(|before| ranges.get_mut(before)) {
            Some(before) if before.fate == fate && before.period == period => before.last = at,
            _ => ranges.insert(next, Range { first: at, last: at, fate, period }),
        }
    }

    /// Notes records that had a fate before others were moved.
    pub(super) fn note_span(&mut self, stream: StreamId, span: Span) {
        let Span { first, last, fate } = span;
        let ranges = self.ranges.entry(stream).or_default();
        let own = Range { first, last, fate, period: self.period };
        let next = ranges.partition_point(|range| range.last < first);
        let around = ranges.get(next).copied().filter(|range| range.first <= first);
        let parts = match around {
            // Records before and after it were discarded while it was not noted.
            Some(around) => [
                Range {
                    last: Position::new(first.epoch, first.offset.saturating_sub(1)),
                    ..around
                },
                own,
                Range { first: Position::new(last.epoch, last.offset + 1), ..around },
            ],
            None => return ranges.insert(next, own),
        };
        ranges.splice(next..=next, parts.into_iter().filter(|range| range.first <= range.last));
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
        Some(if at < range.first { Fate::Delivered } else { range.fate })
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
            state.extend_from_slice(&code_of(range.fate).to_le_bytes());
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

/// Returns the number of a fate in a state.
fn code_of(fate: Fate) -> u16 {
    match fate {
        Fate::Elsewhere | Fate::Unbound | Fate::Moved => 0,
        Fate::Discarded(reason) if usize::from(reason) == DiscardReason::BufferFull as usize => 1,
        Fate::Delivered => 2,
        Fate::Discarded(reason) => DISCARDED | u16::from(reason),
    }
}

/// Returns the fate with this number.
fn fate_of(code: u16) -> Fate {
    match code {
        1 => Fate::discarded(DiscardReason::BufferFull),
        2 => Fate::Delivered,
        _ if code & DISCARDED != 0 && usize::from(code ^ DISCARDED) < DiscardReason::COUNT => {
            Fate::Discarded((code ^ DISCARDED) as u8)
        }
        _ => Fate::Moved,
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
    let (first, last, fate) = match position(&mut rest) {
        Some(last) => (first, last, fate_of(u16::from_le_bytes(*rest.first_chunk()?))),
        None => (Position::default(), first, Fate::Moved),
    };
    let range = Range { first, last, fate, period: 0 };
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
        let lost = Fate::discarded(DiscardReason::BufferFull);
        for offset in [10, 11, 15] {
            moved.note(STREAM, at(offset), Fate::Moved);
        }
        moved.note(STREAM, at(16), lost);
        moved.end_period();
        moved.note(STREAM, at(30), lost);
        moved.note(STREAM, at(28), Fate::Moved);
        moved.note(STREAM, at(29), Fate::Moved);
        moved.note(STREAM, at(29), Fate::Moved);
        moved.note(StreamId(u64::MAX), Position::new(u32::MAX, u64::MAX), Fate::Moved);
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
    fn records_that_had_a_fate_before_others_were_moved_keep_it() {
        let rejected = Fate::discarded(DiscardReason::Rejected);
        let lost = Fate::discarded(DiscardReason::BufferFull);
        let span = |first, last, fate| Span { first: at(first), last: at(last), fate };
        let mut moved = MovedRecords::default();
        // The first of the stream, then some between others that were moved.
        moved.note_span(STREAM, span(2, 4, rejected));
        moved.note_span(STREAM, span(7, 7, rejected));
        moved.note(STREAM, at(9), Fate::Moved);
        moved.note_span(STREAM, span(11, 12, Fate::Delivered));
        moved.note(STREAM, at(13), Fate::Moved);
        // Noted only after those around it were discarded.
        moved.note(STREAM, at(20), lost);
        moved.note(STREAM, at(24), lost);
        moved.note_span(STREAM, span(22, 22, Fate::Delivered));
        for moved in [MovedRecords::decode(&moved.encode()), moved] {
            for (offset, fate) in [
                (1, Some(Fate::Delivered)),
                (2, Some(rejected)),
                (4, Some(rejected)),
                (5, Some(Fate::Delivered)),
                (7, Some(rejected)),
                (8, Some(Fate::Delivered)),
                (9, Some(Fate::Moved)),
                (11, Some(Fate::Delivered)),
                (13, Some(Fate::Moved)),
                (20, Some(lost)),
                (22, Some(Fate::Delivered)),
                (23, Some(lost)),
                (24, Some(lost)),
                (25, None),
            ] {
                assert_eq!(moved.fate(STREAM, at(offset)), fate, "{offset}");
            }
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
