//! Tags of records: which keys exist, and whether any record has a given tag.
//!
//! A tag is an attribute of the resource, or an entry of the record's own `tags`. As with
//! attributes, a reader who may not see all records learns nothing about tags that only other
//! records have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use weir_codec::Scalar;
use weir_expr::{Expr, Field, Test, Value};

use super::column::View;
use super::eval::Evaluator;
use super::page::Source;
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run};
use super::unit::Unit;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::Fixed;
use crate::query::{Budget, Coverage, Filter, QueryError, resource_attributes, tags_of};

/// The columns that contain tags.
const COLUMNS: [Fixed; 2] = [Fixed::Resource, Fixed::Tags];

/// The keys found by one thread.
#[derive(Default)]
struct TagKeyCollector {
    /// With the number of units that have them.
    found: BTreeMap<String, u64>,
    of_unit: BTreeSet<String>,
    /// For each column, which texts of the dictionary were read.
    read: [Vec<bool>; COLUMNS.len()],
}

impl TagKeyCollector {
    fn add(&mut self, column: Fixed, text: &[u8]) {
        let mut add = |key: String| {
            if self.of_unit.insert(key.clone()) {
                *self.found.entry(key).or_default() += 1;
            }
        };
        if column == Fixed::Resource {
            let attributes = resource_attributes(text);
            let is_there = |(_, value): &(&[u8], Scalar<'_>)| *value != Scalar::Null;
            let paths = attributes.iter().filter(is_there);
            paths.for_each(|(path, _)| add(String::from_utf8_lossy(path).into_owned()));
        } else {
            let tags = tags_of(text);
            let keys = tags.iter().filter_map(|tag| tag.split_once(':'));
            keys.for_each(|(key, _)| add(key.to_owned()));
        }
    }
}

impl Sink for TagKeyCollector {
    fn begin_unit(&mut self) {
        self.of_unit.clear();
        self.read = Default::default();
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        for (number, fixed) in COLUMNS.into_iter().enumerate() {
            let column = at.reader.column(&Source::Fixed(fixed))?;
            let view = column.view();
            for value in (0..view.len()).filter(|value| rows.contains(column.row(*value))) {
                if let View::Codes(codes, dictionary) = view {
                    let read = &mut self.read[number];
                    read.resize(dictionary.len(), false);
                    let of_code = read.get_mut(codes[value] as usize);
                    if of_code.is_none_or(|is_read| std::mem::replace(is_read, true)) {
                        continue;
                    }
                }
                if let Value::Text(text) = view.value(value) {
                    self.add(fixed, text);
                }
            }
        }
        Ok(())
    }
}

/// Returns the tag keys of the records that match the filter, with the number of units that have
/// them, and how complete the result is.
pub(super) fn tag_keys(
    snapshot: &Snapshot,
    filter: &Filter,
    budget: &Budget,
) -> Result<(BTreeMap<String, u64>, Coverage), QueryError> {
    let plan = Plan::new(filter, &snapshot.deletions, budget)?;
    let units = Unit::of(snapshot, plan.range);
    let done = run(snapshot, &units, &plan, budget, TagKeyCollector::default)?;
    let mut keys: BTreeMap<String, u64> = BTreeMap::new();
    for (key, parts) in done.sinks.into_iter().flat_map(|sink| sink.found) {
        *keys.entry(key).or_default() += parts;
    }
    Ok((keys, done.coverage))
}

/// Determines whether there is any row.
struct AnyRow<'a>(&'a AtomicBool);

impl Sink for AnyRow<'_> {
    fn may_contribute(&self, _unit: &Unit) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    fn narrow(&mut self, _at: &mut Evaluator, rows: RowSet) -> Result<RowSet, ScanStop> {
        Ok(if self.0.load(Ordering::Relaxed) { RowSet::none(rows.len()) } else { rows })
    }

    fn rows(&mut self, _at: &mut Evaluator, _rows: &RowSet) -> Result<(), ScanStop> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns whether some visible record in the range has the tag, as far as is known.
pub(super) fn may_have_tag(
    snapshot: &Snapshot,
    filter: &Filter,
    key: &str,
    budget: &Budget,
) -> Result<bool, QueryError> {
    let query = Expr::term(Field::Tag(key.to_owned()), Test::Exists);
    let filter = Filter { query, range: filter.range, ..Filter::all(filter.access.clone()) };
    let plan = Plan::new(&filter, &snapshot.deletions, budget)?;
    let is_there = AtomicBool::new(false);
    let units = Unit::of(snapshot, plan.range);
    let done = run(snapshot, &units, &plan, budget, || AnyRow(&is_there))?;
    Ok(is_there.load(Ordering::Relaxed) || done.coverage.is_partial())
}
