//! The records around one, in its stream.
//!
//! A stream is in the order of its positions. Its records are near each other in time too, so
//! units are looked at in rounds, the nearest in time first, until there are enough records on
//! both sides: those of a stream that is rarely written are found however far apart they are.

use std::collections::BTreeMap;

use super::eval::Evaluator;
use super::page::{Source, whole_numbers};
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{Halt, Sink, run};
use super::search::{Spot, records_of};
use super::unit::Unit;
use crate::embedded::columns::StoredRecord;
use crate::embedded::segment::Fixed;
use crate::embedded::snapshot::Snapshot;
use crate::query::{
    Budget, ContextRequest, Coverage, Filter, QueryError, RecordContext, RecordId, TimeRange,
};

const DAY_NS: i64 = 86_400_000_000_000;

/// How far from the record its neighbours are looked for in each round, in time. The record itself
/// is found in the first.
const REACHES_NS: [i64; 3] = [DAY_NS, 30 * DAY_NS, i64::MAX];

/// A position as it is compared.
type Place = (u32, u64);

/// The rows of one stream that are nearest to a position.
struct Near {
    id: RecordId,
    before: usize,
    after: usize,
    found: BTreeMap<Place, Spot>,
}

impl Near {
    fn place(&self) -> Place {
        (self.id.position.epoch, self.id.position.offset)
    }

    /// There are as many on both sides as are asked for.
    fn is_full(&self) -> bool {
        let before = self.found.range(..self.place()).count();
        let after = self.found.len() - before - usize::from(self.has_record());
        before >= self.before && after >= self.after
    }

    fn has_record(&self) -> bool {
        self.found.contains_key(&self.place())
    }

    /// Leaves out what is further away than those that are asked for.
    fn trim(&mut self) {
        let place = self.place();
        while self.found.range(..place).count() > self.before {
            self.found.pop_first();
        }
        while self
            .found
            .range((std::ops::Bound::Excluded(place), std::ops::Bound::Unbounded))
            .count()
            > self.after
        {
            self.found.pop_last();
        }
    }
}

impl Sink for Near {
    fn narrow(&mut self, at: &mut Evaluator, mut rows: RowSet) -> Result<RowSet, Halt> {
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

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), Halt> {
        let times = at.reader.column(&Source::Fixed(Fixed::Time))?;
        let offsets = at.reader.column(&Source::Fixed(Fixed::Offset))?;
        let epochs = at.reader.column(&Source::Fixed(Fixed::Epoch))?;
        let (times, offsets) = (whole_numbers(&times)?, whole_numbers(&offsets)?);
        let unit = at.reader.unit_number;
        for row in rows.iter() {
            let weir_expr::Value::Int(epoch) = epochs.view().value(row) else { continue };
            let offset = offsets[row].cast_unsigned();
            let rank = (times[row], offset);
            let spot = Spot { rank, unit, row: at.reader.first_row() + row };
            self.found.insert((epoch as u32, offset), spot);
        }
        self.trim();
        Ok(())
    }
}

/// The records around one; `None` when there is no such record, or it may not be seen.
///
/// # Errors
/// See [`QueryError`].
pub fn context(
    snapshot: &Snapshot,
    request: &ContextRequest,
    budget: &Budget,
) -> Result<Option<RecordContext>, QueryError> {
    let id = request.id;
    let plan = Plan::new(&Filter::all(request.access.clone()), &snapshot.deletions)?;
    let mut units = Unit::of(snapshot, TimeRange::ALL);
    let distance = |unit: &Unit| {
        let before = id.time_ns.saturating_sub(unit.last_ns);
        before.max(unit.first_ns.saturating_sub(id.time_ns)).max(0)
    };
    units.sort_by_key(distance);
    let (before, after) = (request.before, request.after);
    let make = || Near { id, before, after, found: BTreeMap::new() };
    let (mut near, mut coverage) = (make(), Coverage::default());
    let mut from = 0;
    for reach_ns in REACHES_NS {
        let to = units.partition_point(|unit| distance(unit) <= reach_ns);
        let done = run(snapshot, &units[from..to], &plan, budget, make)?;
        for (place, spot) in done.sinks.into_iter().flat_map(|sink| sink.found) {
            near.found.insert(place, Spot { unit: from + spot.unit, ..spot });
        }
        near.trim();
        coverage.add(done.coverage);
        if !near.has_record() {
            return Ok(None);
        }
        if near.is_full() {
            break;
        }
        from = to;
    }
    let spots: Vec<Spot> = near.found.into_values().collect();
    let mut records = records_of(&units, &spots, &mut coverage)?;
    let is_it = |record: &StoredRecord| record.position == id.position;
    let Some(at) = records.iter().position(is_it) else { return Ok(None) };
    let after = records.split_off(at + 1);
    let record = records.pop();
    Ok(record.map(|record| RecordContext { before: records, record, after, coverage }))
}
