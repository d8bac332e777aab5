//! The records around a given one, in its stream.
//!
//! A stream is ordered by position. Its records are mostly close together in time too, so units are
//! scanned in rounds, nearest in time first; the records of a rarely written stream are found
//! however far apart they are. Two facts limit what has to be read.
//!
//! Records of a stream are stored sequentially, so their sequences are in the order of their
//! positions. (Records that arrive again after damage start at some earlier position and continue
//! without a gap.) Therefore, once a side is full, no sequence beyond its end is needed: for the
//! last record of a stream, which never has enough records after it, nothing that was stored
//! earlier has to be searched. In addition, the dictionary of streams shows which streams a row
//! group contains at all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::eval::Evaluator;
use super::page::{Source, whole_numbers};
use super::plan::Plan;
use super::prune::ALL;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run};
use super::search::{RowRef, records_of};
use super::unit::{RowLocation, Unit};
use crate::embedded::columns::StoredRecord;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::{Detail, Dictionary, Fixed, Role};
use crate::query::{
    Budget, ContextRequest, Coverage, Filter, Kept, QueryError, RecordContext, RecordId, TimeRange,
};

const DAY_NS: i64 = 86_400_000_000_000;

/// How far from the record, in time, its neighbors are searched for in each round. The record
/// itself is found in the first round.
const SEARCH_RADII_NS: [i64; 3] = [DAY_NS, 30 * DAY_NS, i64::MAX];

/// A position in a form that can be compared.
type Rank = (u32, u64);

/// A row of the stream.
#[derive(Debug, Clone)]
struct StreamRow {
    row_ref: RowRef,
    sequence: u64,
}

/// The sequences that are still needed. All threads narrow them.
#[derive(Debug)]
struct SequenceBounds {
    first: AtomicU64,
    last: AtomicU64,
}

/// The rows of one stream that are nearest to a position.
struct NeighborRows<'a> {
    id: RecordId,
    before: usize,
    after: usize,
    wanted: &'a SequenceBounds,
    found: BTreeMap<Rank, StreamRow>,
}

impl NeighborRows<'_> {
    fn rank(&self) -> Rank {
        (self.id.position.epoch, self.id.position.offset)
    }

    fn has_record(&self) -> bool {
        self.found.contains_key(&self.rank())
    }

    /// Returns the number of rows before the record, and after it.
    fn sides(&self) -> (usize, usize) {
        let before = self.found.range(..self.rank()).count();
        (before, self.found.len() - before - usize::from(self.has_record()))
    }

    /// Removes rows beyond the requested number, and narrows the sequences to those that can still
    /// be nearer.
    fn trim(&mut self) {
        let (before, after) = self.sides();
        for _ in self.before..before {
            self.found.pop_first();
        }
        for _ in self.after..after {
            self.found.pop_last();
        }
        let rank = self.rank();
        if before >= self.before
            && let Some((_, found)) = self.found.first_key_value().filter(|(at, _)| **at <= rank)
        {
            self.wanted.first.fetch_max(found.sequence, Ordering::Relaxed);
        }
        if after >= self.after
            && let Some((_, found)) = self.found.last_key_value().filter(|(at, _)| **at >= rank)
        {
            self.wanted.last.fetch_min(found.sequence, Ordering::Relaxed);
        }
    }

    /// Returns whether the unit may have rows of the stream, judging by what is in memory.
    fn may_have_stream(&self, unit: &Unit) -> bool {
        let RowLocation::Group { segment, group } = &unit.location else { return true };
        let known = segment.segment.group_range(Fixed::Stream, *group);
        known.is_none_or(|(least, most)| (least..=most).contains(&self.id.stream.0.cast_signed()))
    }
}

impl Sink for NeighborRows<'_> {
    fn may_contribute(&self, unit: &Unit) -> bool {
        let is_of_use = unit.sequences().is_none_or(|(first, last)| {
            first <= self.wanted.last.load(Ordering::Relaxed)
                && last >= self.wanted.first.load(Ordering::Relaxed)
        });
        is_of_use && self.may_have_stream(unit)
    }

    fn pages(&mut self, at: &mut Evaluator) -> Result<u64, ScanStop> {
        let RowLocation::Group { segment, .. } = &at.reader.unit.location else { return Ok(ALL) };
        let Some(column) = segment.segment.column(&Role::Fixed(Fixed::Stream)) else {
            return Ok(ALL);
        };
        Ok(match at.reader.dictionary(column)?.as_deref() {
            Some(Dictionary::Ints(all)) if !all.contains(&self.id.stream.0.cast_signed()) => 0,
            _ => ALL,
        })
    }

    fn narrow(&mut self, at: &mut Evaluator, mut rows: RowSet) -> Result<RowSet, ScanStop> {
        let streams = at.reader.column(&Source::Fixed(Fixed::Stream))?;
        let wanted = self.id.stream.0.cast_signed();
        let mut of_stream = RowSet::none(rows.len());
        let view = streams.view();
        for n in 0..view.len() {
            if view.value(n) == weir_expr::Value::Int(wanted) {
                of_stream.insert(streams.row(n));
            }
        }
        rows.intersect(&of_stream);
        Ok(rows)
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        let [times, offsets, sequences] = [Fixed::Time, Fixed::Offset, Fixed::Sequence]
            .map(|fixed| at.reader.column(&Source::Fixed(fixed)));
        let epochs = at.reader.column(&Source::Fixed(Fixed::Epoch))?;
        let (times, offsets, sequences) = (times?, offsets?, sequences?);
        let (times, offsets) = (whole_numbers(&times)?, whole_numbers(&offsets)?);
        let sequences = whole_numbers(&sequences)?;
        let unit = at.reader.unit_number;
        for row in rows.iter() {
            let weir_expr::Value::Int(epoch) = epochs.view().value(row) else { continue };
            let offset = offsets[row].cast_unsigned();
            let rank = (times[row], offset);
            let row_ref = RowRef { rank, unit, row: at.reader.first_row() + row };
            let sequence = sequences[row].cast_unsigned();
            self.found.insert((epoch as u32, offset), StreamRow { row_ref, sequence });
        }
        self.trim();
        Ok(())
    }
}

/// Returns the distance between the times of a unit and a given time.
fn distance_ns(unit: &Unit, time_ns: i64) -> i64 {
    let before = time_ns.saturating_sub(unit.last_ns);
    before.max(unit.first_ns.saturating_sub(time_ns)).max(0)
}

/// Returns the units of each round; `units` must be sorted by distance.
fn rounds(units: &[Unit], time_ns: i64) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    SEARCH_RADII_NS.into_iter().map(move |reach_ns| {
        let to = units.partition_point(|unit| distance_ns(unit, time_ns) <= reach_ns);
        std::mem::replace(&mut from, to)..to
    })
}

/// Returns the records around a given one; `None` when there is no such record, or access to it is
/// not allowed.
///
/// # Errors
/// See [`QueryError`]; [`QueryError::Inconclusive`] when it may be in a segment that could not be
/// read.
pub fn context(
    snapshot: &Snapshot,
    request: &ContextRequest,
    budget: &Budget,
) -> Result<Option<RecordContext>, QueryError> {
    let id = request.id;
    let plan = Plan::new(&Filter::all(request.access.clone()), &snapshot.deletions, budget)?;
    let mut units = Unit::of(snapshot, TimeRange::ALL);
    units.sort_by_key(|unit| distance_ns(unit, id.time_ns));
    let (before, after) = (request.before, request.after);
    let wanted = SequenceBounds { first: AtomicU64::new(0), last: AtomicU64::new(u64::MAX) };
    let make = || NeighborRows { id, before, after, wanted: &wanted, found: BTreeMap::new() };
    let (mut near, mut coverage) = (make(), Coverage::default());
    for round in rounds(&units, id.time_ns) {
        let first = round.start;
        let done = run(snapshot, &units[round], &plan, budget, make)?;
        for (rank, mut found) in done.sinks.into_iter().flat_map(|sink| sink.found) {
            found.row_ref.unit += first;
            near.found.insert(rank, found);
        }
        near.trim();
        coverage.add(done.coverage);
        if !near.has_record() {
            let reason = coverage.partial_reasons.into_iter().next();
            return reason.map_or(Ok(None), |reason| Err(QueryError::Inconclusive(reason)));
        }
    }
    let kept = near.found.get(&near.rank()).map(|found| kept_in(&units[found.row_ref.unit]));
    let row_refs: Vec<RowRef> = near.found.into_values().map(|found| found.row_ref).collect();
    let mut records = records_of(&units, &row_refs, Detail::All, &mut coverage)?;
    let is_it = |record: &StoredRecord| record.position == id.position;
    let Some(at) = records.iter().position(is_it) else { return Ok(None) };
    let after = records.split_off(at + 1);
    let found = records.pop().zip(kept);
    Ok(found.map(|(record, kept)| RecordContext { before: records, record, after, kept, coverage }))
}

/// Returns where the records of a unit are kept.
fn kept_in(unit: &Unit) -> Kept {
    let RowLocation::Group { segment, .. } = &unit.location else { return Kept::InMemory };
    let provenance = segment.segment.provenance();
    Kept::InSegment {
        stored_ns: provenance.map(|provenance| provenance.stored_ns),
        is_merged: provenance.is_some_and(|provenance| provenance.tier > 0),
    }
}
