//! The records around one, in its stream.
//!
//! A stream is in the order of its positions. Its records are near each other in time too, so
//! units are looked at in the order of their distance in time, and those that cannot hold anything
//! nearer than what was found are left out.

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
    Budget, ContextRequest, Filter, QueryError, RecordContext, RecordId, TimeRange,
};

/// How far from the record its neighbours are looked for, in time: a day. Records of a stream
/// whose times are further apart than this are not shown beside each other.
const REACH_NS: i64 = 86_400_000_000_000;

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
    let range = TimeRange {
        from_ns: id.time_ns.saturating_sub(REACH_NS),
        to_ns: id.time_ns.saturating_add(REACH_NS),
    };
    let filter = Filter { range, ..Filter::all(request.access.clone()) };
    let plan = Plan::new(&filter, &snapshot.deletions)?;
    let mut units = Unit::of(snapshot, range);
    let distance = |unit: &Unit| {
        let before = id.time_ns.saturating_sub(unit.last_ns);
        before.max(unit.first_ns.saturating_sub(id.time_ns)).max(0)
    };
    units.sort_by_key(distance);
    let (before, after) = (request.before, request.after);
    let make = || Near { id, before, after, found: BTreeMap::new() };
    let done = run(snapshot, &units, &plan, budget, make)?;
    let mut near = make();
    done.sinks.into_iter().for_each(|sink| near.found.extend(sink.found));
    near.trim();
    let place = near.place();
    if !near.found.contains_key(&place) {
        return Ok(None);
    }
    let spots: Vec<Spot> = near.found.into_values().collect();
    let mut coverage = done.coverage;
    let mut records = records_of(&units, &spots, &mut coverage)?;
    let is_it = |record: &StoredRecord| record.position == id.position;
    let Some(at) = records.iter().position(is_it) else { return Ok(None) };
    let after = records.split_off(at + 1);
    let record = records.pop();
    Ok(record.map(|record| RecordContext { before: records, record, after, coverage }))
}
