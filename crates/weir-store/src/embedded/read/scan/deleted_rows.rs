//! The rows of a segment that are to be deleted.
//!
//! Invariant: these are exactly the rows that queries hide because of the same deletions.

use std::collections::BTreeMap;

use super::eval::Evaluator;
use super::page::{Source, whole_numbers};
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run};
use super::unit::{RowLocation, Unit};
use crate::embedded::read::snapshot::{Deletion, Snapshot};
use crate::embedded::segment::Fixed;
use crate::query::{Access, Budget, Filter, PartialReason, QueryError};

/// Rows that are to be deleted.
#[derive(Debug, Default)]
pub(in crate::embedded) struct DeletedRows {
    /// For each row group with such rows: whether a row is one of them.
    groups: BTreeMap<usize, Vec<bool>>,
}

impl DeletedRows {
    pub(in crate::embedded) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns which rows of a row group are to be deleted, if it has any.
    pub(in crate::embedded) fn group(&self, group: usize) -> Option<&[bool]> {
        self.groups.get(&group).map(Vec::as_slice)
    }

    /// Adds a row of a group with `rows` rows. Returns false when it was already there.
    fn add(&mut self, group: usize, rows: usize, row: usize) -> bool {
        let known = self.groups.entry(group).or_insert_with(|| vec![false; rows]);
        known.get_mut(row).is_some_and(|is_in| !std::mem::replace(is_in, true))
    }
}

/// Collects rows by row group.
struct RowCollector {
    before_sequence: u64,
    rows: Vec<(usize, usize)>,
}

impl Sink for RowCollector {
    fn narrow(&mut self, at: &mut Evaluator, mut rows: RowSet) -> Result<RowSet, ScanStop> {
        let sequences = at.reader.column(&Source::Fixed(Fixed::Sequence))?;
        let sequences = whole_numbers(&sequences)?;
        let is_early = |row: usize| sequences[row].cast_unsigned() < self.before_sequence;
        rows.intersect(&RowSet::of(rows.len(), is_early));
        Ok(rows)
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        let RowLocation::Group { group, .. } = at.reader.unit.location else { return Ok(()) };
        let first = at.reader.first_row();
        self.rows.extend(rows.iter().map(|row| (group, first + row)));
        Ok(())
    }
}

/// Finds the rows of a segment that the deletions concern, and how many each deletion adds to the
/// previous ones. Returns `None` when the segment is damaged.
pub(in crate::embedded) fn find_deleted_rows(
    snapshot: &Snapshot,
    deletions: &[&Deletion],
    budget: &Budget,
) -> Result<Option<(DeletedRows, Vec<u64>)>, QueryError> {
    let mut deleted = DeletedRows::default();
    let mut counts = Vec::with_capacity(deletions.len());
    for deletion in deletions {
        let query = deletion.query.clone();
        let filter = Filter { query, range: deletion.range, ..Filter::all(Access::all()) };
        let plan = Plan::new(&filter, &[], budget)?;
        let units = Unit::of(snapshot, plan.range);
        let before_sequence = deletion.before_sequence;
        let make = || RowCollector { before_sequence, rows: Vec::new() };
        let done = run(snapshot, &units, &plan, budget, make)?;
        if done.coverage.partial_reasons.iter().any(|s| matches!(s, PartialReason::Damaged { .. }))
        {
            return Ok(None);
        }
        let mut count = 0;
        for (group, row) in done.sinks.into_iter().flat_map(|sink| sink.rows) {
            let rows = snapshot.segments.first().map_or(0, |open| open.segment.group_rows(group));
            count += u64::from(deleted.add(group, rows, row));
        }
        counts.push(count);
    }
    Ok(Some((deleted, counts)))
}
