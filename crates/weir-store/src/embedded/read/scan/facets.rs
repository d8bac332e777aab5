//! The fields that records have, with their most common values, in a single pass.
//!
//! Invariant: the number of records that have a field is exact. So are its values and their counts,
//! unless there are too many to be held: then the rarer half is repeatedly dropped, which leaves
//! frequent values with counts that may be too low; or all are dropped when hardly a value repeats,
//! because the values of an identifier are not useful.

use std::cmp::Reverse;

use weir_expr::{Field, Reserved};

use super::accumulator::{AccumulatorKind, Accumulators};
use super::eval::Evaluator;
use super::fields::{fields, unknown_fields};
use super::group::{ByRow, GroupField, PART_SHARE, parts_of};
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run, thread_count};
use super::unit::Unit;
use crate::embedded::columns::AttributeValue;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::SegmentError;
use crate::limits::{FACET_FIELDS_MAX, FACET_VALUES_MAX};
use crate::query::{
    Aggregation, Budget, ComputeValue, Facet, Facets, FacetsRequest, FieldInfo, Filter, GroupBy,
    GroupKey, QueryError, ValueType, compare_keys,
};

/// A field whose values repeat less often than this on average has no useful values.
const REPEATS_MIN: u64 = 4;

/// Counts of one thread.
struct ValueCounter {
    fields: Vec<FieldCounts>,
    matched: u64,
    /// Memory limit for the texts of all values.
    bytes_max: usize,
}

/// The values of one field.
struct FieldCounts {
    values: GroupField,
    /// For each value, by its number: how many records have it.
    counts: Vec<u64>,
    /// Number of records that have the field.
    records: u64,
    certainty: Certainty,
    /// All numbers in one cell, when values are numbers.
    numbers: Option<Accumulators>,
}

/// How complete the values of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    /// All values are present.
    Exact,
    /// Rare values were dropped.
    Frequent,
    /// The values are not useful.
    Useless,
}

impl FieldCounts {
    fn new(wanted: &CountedField) -> Self {
        let values = GroupField::new(&GroupBy::top(wanted.field.clone(), usize::MAX));
        let numbers = (wanted.value_type == ValueType::Number).then(|| {
            let mut numbers = Accumulators::new(AccumulatorKind::Numbers);
            numbers.resize(1);
            numbers
        });
        let (counts, certainty) = (Vec::new(), Certainty::Exact);
        Self { values, counts, records: 0, certainty, numbers }
    }

    /// Counts the records that have the field and adds up their numbers; returns those records.
    fn add_records(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<RowSet, SegmentError> {
        let columns = at.columns_of(&self.values.by.field)?;
        let unit = at.unit_of(&self.values.by.field);
        let cells = ByRow { first: vec![0; rows.len()], extra: Vec::new() };
        let mut left = rows.clone();
        for columns in &columns {
            let mut present = RowSet::none(rows.len());
            for column in columns {
                if let Some(numbers) = &mut self.numbers {
                    numbers.add_column(column, unit, &left, &cells);
                }
                present.unite(&column.present(rows.len()));
            }
            left.subtract(&present);
        }
        let mut present = rows.clone();
        present.subtract(&left);
        self.records += present.count() as u64;
        Ok(present)
    }

    /// Counts the values of records that have the field.
    fn add_values(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), SegmentError> {
        let numbers = self.values.numbers(at, rows)?;
        self.counts.resize(self.values.keys.len(), 0);
        for row in rows.iter() {
            numbers.each(row, |number| self.counts[number as usize] += 1);
        }
        self.fit();
        Ok(())
    }

    fn fit(&mut self) {
        while self.counts.len() > FACET_VALUES_MAX {
            self.forget_some();
        }
    }

    /// Drops the rarer half of the values, or all when hardly one repeats.
    fn forget_some(&mut self) {
        let counted: u64 = self.counts.iter().sum();
        if counted < REPEATS_MIN * self.counts.len() as u64 || self.counts.len() < 2 {
            self.forget_all();
        } else {
            self.forget_rare();
        }
    }

    fn forget_all(&mut self) {
        self.certainty = Certainty::Useless;
        self.values = GroupField::new(&self.values.by);
        self.counts = Vec::new();
    }

    /// Keeps the more frequent half of the values.
    fn forget_rare(&mut self) {
        self.certainty = Certainty::Frequent;
        let mut numbers: Vec<u32> = (0..self.counts.len() as u32).collect();
        let half = numbers.len() / 2;
        let size = |number: &u32| (Reverse(self.counts[*number as usize]), *number);
        numbers.select_nth_unstable_by_key(half, size);
        let fewer = GroupField::new(&self.values.by);
        let all = std::mem::replace(&mut self.values, fewer);
        let counts = std::mem::take(&mut self.counts);
        for number in &numbers[..half] {
            self.add_value(&all, *number, counts[*number as usize]);
        }
    }

    /// Adds records with a value that another thread knows by this number.
    fn add_value(&mut self, of: &GroupField, number: u32, records: u64) {
        let key = || of.keys[number as usize].clone();
        let mine = self.values.number_of(of.text(number), key);
        self.counts.resize(self.values.keys.len(), 0);
        self.counts[mine as usize] += records;
    }

    /// Adds the counts of another thread.
    fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.certainty = self.certainty.max(other.certainty);
        if let (Some(mine), Some(theirs)) = (&mut self.numbers, &other.numbers) {
            mine.merge(0, theirs, 0);
        }
        if self.certainty == Certainty::Useless {
            return self.forget_all();
        }
        for (number, records) in (0..).zip(&other.counts) {
            self.add_value(&other.values, number, *records);
        }
        self.fit();
    }

    /// Returns the smallest and the largest number.
    fn range(&self) -> Option<(f64, f64)> {
        let number = |aggregation| match self.numbers.as_ref()?.value(aggregation, &[0]) {
            ComputeValue::Number(number) => Some(number),
            _ => None,
        };
        number(Aggregation::Min).zip(number(Aggregation::Max))
    }

    /// Returns the most common values.
    fn top(&self, count: usize) -> Vec<(AttributeValue, u64)> {
        let mut found: Vec<(&GroupKey, u64)> =
            self.values.keys.iter().zip(self.counts.iter().copied()).collect();
        found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| compare_keys(a.0, b.0)));
        found.truncate(count);
        let value = |(key, records): (&GroupKey, u64)| match key {
            GroupKey::Value(value) => Some((value.clone(), records)),
            _ => None,
        };
        found.into_iter().filter_map(value).collect()
    }
}

impl ValueCounter {
    /// Drops values of the fields that use the most memory until all texts fit.
    fn fit(&mut self) {
        let bytes = |field: &FieldCounts| field.values.text_bytes();
        while self.fields.iter().map(bytes).sum::<usize>() > self.bytes_max
            && let Some(largest) = self.fields.iter_mut().max_by_key(|field| bytes(field))
        {
            largest.forget_some();
        }
    }
}

impl Sink for ValueCounter {
    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        self.matched += rows.count() as u64;
        at.read_rest_of(self.fields.iter().map(|field| &field.values.by.field))?;
        for number in 0..self.fields.len() {
            at.check_budget()?;
            let field = &mut self.fields[number];
            let rows = field.add_records(at, rows)?;
            let named = std::iter::once(&field.values.by.field);
            for part in parts_of(at, named, &rows, self.bytes_max / PART_SHARE)? {
                let field = &mut self.fields[number];
                if field.certainty < Certainty::Useless && !part.is_empty() {
                    field.add_values(at, &part)?;
                    self.fit();
                }
            }
        }
        Ok(())
    }
}

/// Returns the fields of records, with their most common values.
///
/// # Errors
/// See [`QueryError`].
pub fn facets(
    snapshot: &Snapshot,
    request: &FacetsRequest,
    budget: &Budget,
) -> Result<Facets, QueryError> {
    let plan = Plan::new(&request.filter, &snapshot.deletions, budget)?;
    let units = Unit::of(snapshot, plan.range);
    let wanted = wanted(snapshot, request, budget)?;
    let bytes_max = budget.memory_left_bytes() / (thread_count(units.len()) + 1);
    let make = || {
        let fields = wanted.iter().map(FieldCounts::new).collect();
        ValueCounter { fields, matched: 0, bytes_max }
    };
    let done = run(snapshot, &units, &plan, budget, make)?;
    let (mut counted, mut coverage) = (make(), done.coverage);
    for sink in done.sinks {
        counted.matched += sink.matched;
        let pairs = counted.fields.iter_mut().zip(&sink.fields);
        pairs.for_each(|(mine, theirs)| mine.merge(theirs));
        counted.fit();
    }
    let has_found = counted.matched > 0;
    let named = request.fields.iter();
    coverage.unknown_fields = unknown_fields(snapshot, &request.filter, named, has_found, budget)?;
    let found = wanted.into_iter().zip(&counted.fields).filter(|(_, counts)| counts.records > 0);
    let mut found: Vec<(CountedField, &FieldCounts)> = found.collect();
    found.sort_by_key(|(_, counts)| Reverse(counts.records));
    let left_out = found.len().saturating_sub(request.limit) as u64;
    found.truncate(request.limit);
    let facets = found.into_iter().map(|(wanted, counts)| Facet {
        name: wanted.name,
        value_type: wanted.value_type,
        records: counts.records,
        distinct: (counts.certainty == Certainty::Exact).then_some(counts.counts.len() as u64),
        values: counts.top(request.values),
        range: counts.range(),
    });
    Ok(Facets { facets: facets.collect(), left_out, matched: counted.matched, coverage })
}

/// A field whose values are counted.
struct CountedField {
    field: Field,
    name: String,
    value_type: ValueType,
}

/// Returns the requested fields, or those that are common in the range.
fn wanted(
    snapshot: &Snapshot,
    request: &FacetsRequest,
    budget: &Budget,
) -> Result<Vec<CountedField>, QueryError> {
    let Filter { range, access, calculated_fields, .. } = &request.filter;
    let computed = calculated_fields.iter().map(|calculated| (&calculated.path, ValueType::Number));
    let computed = computed.map(|(path, value_type)| (Field::Attribute(path.clone()), value_type));
    let computed: Vec<(Field, ValueType)> = computed.collect();
    let stored = fields(snapshot, *range, access, budget)?;
    let stored = stored.fields.iter().map(|info| (field_of(info), info.value_type));
    let is_new = |(field, _): &(Field, _)| computed.iter().all(|(known, _)| known != field);
    let mut known: Vec<_> = computed.iter().cloned().chain(stored.filter(is_new)).collect();
    if !request.fields.is_empty() {
        let type_of = |field: &Field| known.iter().find(|(known, _)| known == field);
        let value_type = |field| type_of(field).map_or(ValueType::Text, |(_, found)| *found);
        known = request.fields.iter().map(|f| (f.clone(), value_type(f))).collect();
    }
    known.truncate(FACET_FIELDS_MAX);
    let wanted = known.into_iter().map(|(field, value_type)| {
        let name = field.to_string();
        CountedField { field, name, value_type }
    });
    Ok(wanted.collect())
}

/// Returns a field by its name.
fn field_of(info: &FieldInfo) -> Field {
    match (info.name.strip_prefix('@'), Reserved::from_name(&info.name)) {
        (Some(path), _) => Field::Attribute(path.to_owned()),
        (None, Some(key)) => Field::Reserved(key),
        (None, None) => Field::Tag(info.name.clone()),
    }
}
