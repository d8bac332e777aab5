//! Aggregates over groups of records.
//!
//! Each thread counts separately, with groups keyed by the numbers that it assigned to their
//! values; at the end everything is merged by the texts of the values. Groups are ordered and
//! limited field by field: the top values of the first field, within each of them the top values of
//! the second, and so on.
//!
//! When there are more groups than fit into memory, the smaller half is repeatedly merged into
//! groups that keep only the leading values in common. Frequent groups survive, with a count that
//! may be too low by what was counted before the group was kept, and the aggregates of the leading
//! fields are exact.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_expr::{Field, Reserved};
use weir_host::Calendar;

use super::accumulator::{AccumulatorKind, AccumulatorSpec, Accumulators};
use super::eval::Evaluator;
use super::fields::unknown_fields;
use super::group::{ByRow, GroupField, NONE, PART_SHARE, parts_of};
use super::page::{Source, whole_numbers};
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run, thread_count};
use super::unit::{RowLocation, Unit};
use crate::embedded::columns::Texts;
use crate::embedded::hash::{FoldState, Interner};
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::{Fixed, SegmentError};
use crate::embedded::sidecar::MinuteCounts;
use crate::query::{
    Aggregate, AggregateRequest, Bucket, Budget, Compute, ComputeValue, GroupKey, PartialReason,
    QueryError, SortBy, StopReason, compare_keys, compare_ranks, rank_of,
};

const MINUTE_NS: i64 = 60_000_000_000;

/// Memory used by a group besides its aggregates and the texts of its values.
const GROUP_BYTES: usize = 112;

/// Memory used by a group's time bucket besides its aggregates.
const TIME_BUCKET_BYTES: usize = 48;

/// Below this number, groups are not reduced further: they would never fit anyway.
const GROUPS_MIN: usize = 32;

/// Time buckets of groups.
#[derive(Debug)]
struct TimeSeries {
    calendar: Arc<Calendar>,
    cells: HashMap<(u32, i64), u32, FoldState>,
    /// Group and start of each cell.
    keys: Vec<(u32, i64)>,
    /// Start and end of the bucket that was looked up last.
    last: (i64, i64),
}

impl TimeSeries {
    fn new(calendar: &Arc<Calendar>) -> Self {
        let (cells, keys) = (HashMap::default(), Vec::new());
        Self { calendar: Arc::clone(calendar), cells, keys, last: (0, 0) }
    }

    fn cell(&mut self, group: u32, time_ns: i64) -> u32 {
        // Neighboring rows are usually in the same bucket.
        if !(self.last.0..self.last.1).contains(&time_ns) {
            self.last = self.calendar.bucket(time_ns);
        }
        let begin = self.last.0;
        let next = self.keys.len() as u32;
        let cell = *self.cells.entry((group, begin)).or_insert(next);
        if cell == next {
            self.keys.push((group, begin));
        }
        cell
    }
}

/// Counts of one thread.
#[derive(Debug)]
struct GroupAggregator {
    fields: Vec<GroupField>,
    /// Groups, keyed by the numbers of their values, four bytes each.
    groups: Interner,
    specs: Vec<AccumulatorSpec>,
    accumulators: Vec<Accumulators>,
    series: Vec<TimeSeries>,
    matched: u64,
    /// How many of them are in a group.
    grouped: u64,
    /// Memory limit for groups.
    bytes_max: usize,
    is_approximate: bool,
}

/// Returns what has to be kept for each requested aggregate.
fn specs_of(request: &AggregateRequest) -> Vec<AccumulatorSpec> {
    let sorts = request.group_by.iter().filter_map(|group| match &group.sort.by {
        SortBy::Aggregate(compute) => Some(compute),
        SortBy::Value => None,
    });
    let mut specs: Vec<AccumulatorSpec> = Vec::new();
    for spec in request.computes.iter().chain(sorts).map(AccumulatorSpec::of) {
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    if !request.group_by.is_empty() && !specs.contains(&AccumulatorSpec::ROWS) {
        // Used to decide which groups are small.
        specs.push(AccumulatorSpec::ROWS);
    }
    specs
}

/// Returns the calendars of the requested aggregates, one for each interval.
fn calendars_of(request: &AggregateRequest) -> Vec<Arc<Calendar>> {
    let mut intervals: Vec<i64> =
        specs_of(request).iter().filter_map(|spec| spec.interval_ns).collect();
    intervals.sort_unstable();
    intervals.dedup();
    let calendar = |interval_ns| Arc::new(Calendar::new(&request.zone, interval_ns));
    intervals.into_iter().map(calendar).collect()
}

impl GroupAggregator {
    fn new(request: &AggregateRequest, calendars: &[Arc<Calendar>], bytes_max: usize) -> Self {
        let fields = request.group_by.iter().map(GroupField::new).collect();
        let series = calendars.iter().map(TimeSeries::new).collect();
        let mut aggregator = Self::empty(fields, specs_of(request), series, bytes_max);
        if aggregator.fields.is_empty() {
            aggregator.group(&[]);
        }
        aggregator
    }

    fn empty(
        fields: Vec<GroupField>,
        specs: Vec<AccumulatorSpec>,
        series: Vec<TimeSeries>,
        bytes_max: usize,
    ) -> Self {
        Self {
            fields,
            groups: Interner::default(),
            accumulators: specs.iter().map(|spec| Accumulators::new(spec.kind)).collect(),
            series,
            specs,
            matched: 0,
            grouped: 0,
            bytes_max,
            is_approximate: false,
        }
    }

    /// Returns the number of groups.
    fn len(&self) -> usize {
        self.groups.texts().len()
    }

    /// Returns the approximate memory used by the groups.
    fn bytes(&self) -> usize {
        let of_spec = |spec| {
            let cells = self.series_of(spec).map_or(self.len(), |of| self.series[of].keys.len());
            cells * self.accumulators[spec].cell_bytes()
        };
        let time_buckets: usize = self.series.iter().map(|series| series.keys.len()).sum();
        let accumulators: usize = (0..self.specs.len()).map(of_spec).sum();
        let texts: usize = self.fields.iter().map(GroupField::text_bytes).sum();
        self.len() * GROUP_BYTES + texts + time_buckets * TIME_BUCKET_BYTES + accumulators
    }

    /// Reduces the groups until they fit. A single group may have as many time buckets as were
    /// requested.
    fn fit(&mut self) -> Result<(), StopReason> {
        while !self.fields.is_empty() && self.bytes() > self.bytes_max {
            if self.len() < GROUPS_MIN {
                return Err(StopReason::Memory);
            }
            self.merge_smaller_half();
        }
        Ok(())
    }

    /// Keeps the larger half of the groups, and merges the others.
    fn merge_smaller_half(&mut self) {
        let rows = self.specs.iter().position(|spec| *spec == AccumulatorSpec::ROWS);
        let Some(Accumulators::Counts(counts)) = rows.map(|rows| &self.accumulators[rows]) else {
            return;
        };
        let size = |group: &u32| (Reverse(counts[*group as usize]), *group);
        let mut groups: Vec<u32> = (0..self.len() as u32).collect();
        let half = groups.len() / 2;
        groups.select_nth_unstable_by_key(half, size);
        let mut is_kept = vec![false; groups.len()];
        groups[..half].iter().for_each(|group| is_kept[*group as usize] = true);
        let fields = self.fields.iter().map(|field| GroupField::new(&field.by)).collect();
        let series = self.series.iter().map(|series| TimeSeries::new(&series.calendar)).collect();
        let fewer = Self::empty(fields, self.specs.clone(), series, self.bytes_max);
        let all = std::mem::replace(self, fewer);
        self.merge(&all, |group| is_kept[group]);
        self.is_approximate = true;
    }

    fn series_of(&self, spec: usize) -> Option<usize> {
        let interval_ns = self.specs[spec].interval_ns?;
        self.series.iter().position(|series| series.calendar.interval_ns() == interval_ns)
    }

    /// Returns the number of a group, adding it if needed.
    fn group(&mut self, numbers: &[u32]) -> u32 {
        let mut key = [0; 4 * 8];
        let numbers = &numbers[..numbers.len().min(8)];
        for (bytes, number) in key.chunks_exact_mut(4).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let key = &key[..numbers.len() * 4];
        if let Some(known) = self.groups.number(key) {
            return known;
        }
        let group = self.groups.intern(key);
        self.grow_accumulators();
        group
    }

    /// Creates a cell for every existing group and bucket.
    fn grow_accumulators(&mut self) {
        for spec in 0..self.specs.len() {
            let count = match self.series_of(spec) {
                Some(series) => self.series[series].keys.len(),
                None => self.len(),
            };
            self.accumulators[spec].resize(count);
        }
    }

    /// Returns the groups of the rows of a page.
    fn groups_of(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<ByRow, SegmentError> {
        let mut groups = ByRow::none(rows.len());
        if self.fields.is_empty() {
            rows.iter().for_each(|row| groups.first[row] = 0);
            return Ok(groups);
        }
        let mut fields = std::mem::take(&mut self.fields);
        let numbers: Result<Vec<ByRow>, _> =
            fields.iter_mut().map(|field| field.numbers(at, rows)).collect();
        self.fields = fields;
        let numbers = numbers?;
        let mut of_first: Vec<u32> = Vec::new();
        for row in rows.iter() {
            if let [only] = &numbers[..]
                && only.extra.is_empty()
            {
                let number = only.first[row];
                if number != NONE {
                    groups.first[row] = self.group_of_one(number, &mut of_first);
                }
                continue;
            }
            let mut combined = Vec::new();
            combine(&numbers, row, &mut Vec::new(), &mut combined);
            for (place, key) in combined.into_iter().enumerate() {
                let group = self.group(&key);
                if place == 0 {
                    groups.first[row] = group;
                } else {
                    groups.extra.push((row as u16, group));
                }
            }
        }
        Ok(groups)
    }

    /// Returns the group of a value when there is one field; `known` caches those of this page.
    fn group_of_one(&mut self, number: u32, known: &mut Vec<u32>) -> u32 {
        let at = number as usize;
        if let Some(group) = known.get(at).filter(|group| **group != NONE) {
            return *group;
        }
        let group = self.group(&[number]);
        if known.len() <= at {
            known.resize(at + 1, NONE);
        }
        known[at] = group;
        group
    }

    /// Returns the cells of the groups: one per group, or one per group and time bucket.
    fn cells_of(
        &mut self,
        series: Option<usize>,
        groups: &ByRow,
        times: &[i64],
        rows: &RowSet,
    ) -> ByRow {
        let Some(series) = series else {
            return ByRow { first: groups.first.clone(), extra: groups.extra.clone() };
        };
        let series = &mut self.series[series];
        let mut cells = ByRow::none(rows.len());
        for row in rows.iter().filter(|row| groups.first[*row] != NONE) {
            cells.first[row] = series.cell(groups.first[row], times[row]);
        }
        let of_extra =
            |(row, group): &(u16, u32)| (*row, series.cell(*group, times[usize::from(*row)]));
        cells.extra = groups.extra.iter().map(of_extra).collect();
        cells
    }

    fn add(
        &mut self,
        spec: usize,
        cells: &ByRow,
        rows: &RowSet,
        at: &mut Evaluator,
    ) -> Result<(), SegmentError> {
        if let (AccumulatorKind::Rows, Accumulators::Counts(counts)) =
            (self.specs[spec].kind, &mut self.accumulators[spec])
        {
            rows.iter().for_each(|row| cells.each(row, |cell| counts[cell as usize] += 1));
            return Ok(());
        }
        let Some(field) = self.specs[spec].field.clone() else { return Ok(()) };
        let mut left = rows.clone();
        let unit = at.unit_of(&field);
        for columns in at.columns_of(&field)? {
            let mut present = RowSet::none(rows.len());
            for column in columns {
                self.accumulators[spec].add_column(&column, unit, &left, cells);
                present.unite(&column.present(rows.len()));
            }
            left.subtract(&present);
        }
        Ok(())
    }

    /// Returns whether only records are counted, without grouping.
    fn is_total(&self) -> bool {
        let has_parts = !self.fields.is_empty() || !self.series.is_empty();
        !has_parts && self.specs.iter().all(|spec| spec.kind == AccumulatorKind::Rows)
    }

    fn count_total(&mut self, rows: u64) {
        for counts in &mut self.accumulators {
            if let Accumulators::Counts(counts) = counts {
                counts[0] += rows;
            }
        }
    }

    /// Returns whether the sidecar's counts are sufficient: only records are counted, grouped by
    /// service and status, and no time bucket starts within a minute.
    fn is_in_counts(&self, unit: &Unit) -> bool {
        let is_known = |field: &GroupField| {
            let by_name = [Reserved::Service, Reserved::Status].map(Field::Reserved);
            let is_plain = field.by.histogram.is_none() && field.by.total.is_none();
            by_name.contains(&field.by.field) && is_plain
        };
        let is_of_minutes =
            |series: &TimeSeries| series.calendar.is_of_minutes(unit.first_ns, unit.last_ns);
        self.fields.iter().all(is_known)
            && self.specs.iter().all(|spec| spec.kind == AccumulatorKind::Rows)
            && self.series.iter().all(is_of_minutes)
    }

    fn add_counts(&mut self, counts: &MinuteCounts) {
        for entry in counts.entries() {
            let mut numbers = Vec::with_capacity(self.fields.len());
            let mut fields = std::mem::take(&mut self.fields);
            for field in &mut fields {
                let (texts, code): (&Texts, _) = match field.by.field {
                    Field::Reserved(Reserved::Service) => (counts.services(), entry.service),
                    _ => (counts.statuses(), entry.status),
                };
                numbers.push(field.number_of_text(code.map(|code| texts.get(code as usize))));
            }
            self.fields = fields;
            self.matched += entry.rows;
            let Some(numbers) = numbers.into_iter().collect::<Option<Vec<u32>>>() else { continue };
            self.grouped += entry.rows;
            let group = self.group(&numbers);
            for series in &mut self.series {
                series.cell(group, entry.minute.saturating_mul(MINUTE_NS));
            }
            self.grow_accumulators();
            for spec in 0..self.specs.len() {
                let cell = match self.series_of(spec) {
                    Some(series) => {
                        self.series[series].cell(group, entry.minute.saturating_mul(MINUTE_NS))
                    }
                    None => group,
                };
                if let Accumulators::Counts(cells) = &mut self.accumulators[spec] {
                    cells[cell as usize] += entry.rows;
                }
            }
        }
    }

    /// Returns the group for a group of `other`: the same one if it is `kept`, otherwise the one it
    /// is merged into; [`NONE`] when they do not share even the first value.
    fn group_like(&mut self, other: &Self, key: &[u8], kept: bool) -> u32 {
        let numbers: Vec<u32> = numbers_of(key).collect();
        let is_value = |field: usize| !other.fields[field].is_rest(numbers[field]);
        let last = || (0..numbers.len()).rev().find(|field| is_value(*field)).unwrap_or(0);
        let values = if kept { numbers.len() } else { last() };
        if values == 0 && !kept {
            return NONE;
        }
        let fields = self.fields.iter_mut().zip(&other.fields).zip(&numbers).enumerate();
        let numbers: Vec<u32> = fields
            .map(|(place, ((mine, theirs), number))| {
                if place >= values {
                    return mine.rest();
                }
                let key = &theirs.keys[*number as usize];
                mine.number_of(theirs.text(*number), || key.clone())
            })
            .collect();
        self.group(&numbers)
    }

    /// Adds the counts of `other`; its groups that are not to be kept are merged.
    fn merge(&mut self, other: &Self, is_kept: impl Fn(usize) -> bool) {
        self.matched += other.matched;
        self.grouped += other.grouped;
        self.is_approximate |= other.is_approximate;
        let mut group_of = Vec::new();
        for (group, key) in other.groups.texts().iter().enumerate() {
            group_of.push(self.group_like(other, key, is_kept(group)));
        }
        let mut cell_of: Vec<Vec<u32>> = Vec::new();
        for (mine, theirs) in self.series.iter_mut().zip(&other.series) {
            let cells = theirs.keys.iter().map(|(group, begin)| match group_of[*group as usize] {
                NONE => NONE,
                group => mine.cell(group, *begin),
            });
            cell_of.push(cells.collect());
        }
        self.grow_accumulators();
        for spec in 0..self.specs.len() {
            let cells = match self.series_of(spec) {
                Some(series) => &cell_of[series],
                None => &group_of,
            };
            for (theirs, mine) in cells.iter().enumerate().filter(|(_, mine)| **mine != NONE) {
                self.accumulators[spec].merge(*mine as usize, &other.accumulators[spec], theirs);
            }
        }
    }
}

/// Returns the numbers of a group's values.
fn numbers_of(key: &[u8]) -> impl Iterator<Item = u32> {
    key.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Collects every combination of the values of a row, if it has a value of each field.
fn combine(numbers: &[ByRow], row: usize, key: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    let Some((first, rest)) = numbers.split_first() else { return found.push(key.clone()) };
    let mut of_row = Vec::new();
    first.each(row, |number| of_row.push(number));
    for number in of_row {
        key.push(number);
        combine(rest, row, key, found);
        key.pop();
    }
}

impl Sink for GroupAggregator {
    fn take_unit(&mut self, unit: &Unit) -> bool {
        if self.is_total() {
            self.matched += unit.rows as u64;
            self.grouped += unit.rows as u64;
            self.count_total(unit.rows as u64);
            return true;
        }
        let RowLocation::Group { segment, group } = &unit.location else { return false };
        let sidecar = segment.sidecar.as_ref().filter(|_| self.is_in_counts(unit));
        let counts = sidecar.and_then(|sidecar| sidecar.counts(*group).ok().flatten());
        counts.is_some_and(|counts| {
            self.add_counts(&counts);
            true
        })
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        self.matched += rows.count() as u64;
        if self.is_total() {
            self.grouped += rows.count() as u64;
            self.count_total(rows.count() as u64);
            return Ok(());
        }
        let part_bytes = self.bytes_max / PART_SHARE;
        let fields = self.fields.iter().map(|field| &field.by.field);
        for part in parts_of(at, fields, rows, part_bytes)? {
            // A part may exceed the memory limit.
            self.fit()?;
            self.add_rows(at, &part)?;
        }
        Ok(())
    }
}

impl GroupAggregator {
    fn add_rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), SegmentError> {
        let groups = self.groups_of(at, rows)?;
        self.grouped += groups.first.iter().filter(|group| **group != NONE).count() as u64;
        let times = if self.series.is_empty() {
            None
        } else {
            Some(at.reader.column(&Source::Fixed(Fixed::Time))?)
        };
        let times = match &times {
            Some(times) => whole_numbers(times)?,
            None => &[],
        };
        let mut cells: Vec<(Option<usize>, ByRow)> = Vec::new();
        for spec in 0..self.specs.len() {
            let series = self.series_of(spec);
            if !cells.iter().any(|(known, _)| *known == series) {
                let of_series = self.cells_of(series, &groups, times, rows);
                cells.push((series, of_series));
            }
        }
        self.grow_accumulators();
        for spec in 0..self.specs.len() {
            let series = self.series_of(spec);
            if let Some((_, cells)) = cells.iter().find(|(known, _)| *known == series) {
                self.add(spec, cells, rows, at)?;
            }
        }
        Ok(())
    }
}

/// Computes aggregates over groups of records.
///
/// # Errors
/// See [`QueryError`].
pub fn aggregate(
    snapshot: &Snapshot,
    request: &AggregateRequest,
    budget: &Budget,
) -> Result<Aggregate, QueryError> {
    check(request)?;
    let plan = Plan::new(&request.filter, &snapshot.deletions, budget)?;
    let units = Unit::of(snapshot, plan.range);
    let memory_bytes = budget.memory_left_bytes();
    let bytes_max = memory_bytes / thread_count(units.len());
    let calendars = calendars_of(request);
    let empty = |bytes_max| GroupAggregator::new(request, &calendars, bytes_max);
    let done = run(snapshot, &units, &plan, budget, || empty(bytes_max))?;
    let (mut aggregator, mut coverage) = (empty(memory_bytes), done.coverage);
    for sink in done.sinks {
        if aggregator.len() < sink.len() {
            // Add the smaller one to the larger one.
            let smaller = std::mem::replace(&mut aggregator, sink);
            aggregator.bytes_max = memory_bytes;
            aggregator.merge(&smaller, |_| true);
        } else {
            aggregator.merge(&sink, |_| true);
        }
        if aggregator.fit().is_err() {
            coverage.partial_reasons.push(PartialReason::Memory);
        }
    }
    let of_computes = request.computes.iter().filter_map(|compute| compute.field.as_ref());
    let named = of_computes.chain(request.group_by.iter().map(|group| &group.field));
    let (matched, grouped) = (aggregator.matched, aggregator.grouped);
    coverage.unknown_fields =
        unknown_fields(snapshot, &request.filter, named, matched > 0, budget)?;
    let is_approximate = aggregator.is_approximate;
    let buckets = ResultBuilder::new(&aggregator, request).buckets();
    Ok(Aggregate { buckets, matched, grouped, is_approximate, coverage })
}

fn check(request: &AggregateRequest) -> Result<(), QueryError> {
    let computes = request.computes.iter();
    if request.group_by.len() > 8 {
        return Err(QueryError::Invalid("at most 8 fields can be grouped by".to_owned()));
    }
    if computes.clone().any(|compute| compute.interval_ns.is_some_and(|ns| ns <= 0)) {
        return Err(QueryError::Invalid("the interval must be greater than zero".to_owned()));
    }
    let needs_field = |compute: &Compute| {
        compute.field.is_none() && compute.aggregation != crate::query::Aggregation::Count
    };
    if computes.clone().any(needs_field) {
        return Err(QueryError::Invalid("a numeric aggregate needs a field".to_owned()));
    }
    let is_flat = |group: &crate::query::GroupBy| {
        group
            .histogram
            .is_some_and(|histogram| histogram.interval.is_nan() || histogram.interval <= 0.0)
    };
    if request.group_by.iter().any(is_flat) {
        return Err(QueryError::Invalid("the histogram step must be greater than zero".to_owned()));
    }
    Ok(())
}

/// Arranges the counts in the requested order.
struct ResultBuilder<'a> {
    aggregator: &'a GroupAggregator,
    request: &'a AggregateRequest,
    /// Numbers of the values of each group.
    keys: Vec<Vec<u32>>,
    /// For each series: the cells of each group, by time.
    steps: Vec<Vec<Vec<(i64, u32)>>>,
}

impl<'a> ResultBuilder<'a> {
    fn new(aggregator: &'a GroupAggregator, request: &'a AggregateRequest) -> Self {
        let keys: Vec<Vec<u32>> =
            aggregator.groups.texts().iter().map(|key| numbers_of(key).collect()).collect();
        let steps = aggregator.series.iter().map(|series| {
            let mut of_group = vec![Vec::new(); keys.len()];
            for (cell, (group, begin)) in series.keys.iter().enumerate() {
                of_group[*group as usize].push((*begin, cell as u32));
            }
            of_group
        });
        Self { aggregator, request, steps: steps.collect(), keys }
    }

    fn buckets(&self) -> Vec<Bucket> {
        let all: Vec<u32> = (0..self.keys.len() as u32).collect();
        let mut buckets = Vec::new();
        self.add_level(0, &all, &mut Vec::new(), &mut buckets);
        buckets
    }

    fn add_level(
        &self,
        level: usize,
        groups: &[u32],
        by: &mut Vec<GroupKey>,
        buckets: &mut Vec<Bucket>,
    ) {
        let Some(field) = self.aggregator.fields.get(level) else {
            let value = |compute| self.value(compute, groups);
            let computes = self.request.computes.iter().map(value).collect();
            return buckets.push(Bucket { by: by.clone(), computes });
        };
        let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for group in groups {
            let number = self.keys[*group as usize][level];
            if !field.is_rest(number) {
                members.entry(number).or_default().push(*group);
            }
        }
        let mut found: Vec<(&GroupKey, Vec<u32>)> = members
            .into_iter()
            .map(|(number, members)| (&field.keys[number as usize], members))
            .collect();
        self.sort(field, &mut found);
        let is_total = |key: &GroupKey| matches!(key, GroupKey::Total(_));
        let (total, mut shown): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(key, _)| is_total(key));
        shown.truncate(field.by.limit);
        for (key, members) in shown.iter().chain(&total) {
            by.push((*key).clone());
            self.add_level(level + 1, members, by, buckets);
            by.pop();
        }
    }

    fn sort(&self, field: &GroupField, found: &mut Vec<(&GroupKey, Vec<u32>)>) {
        found.sort_by(|a, b| compare_keys(a.0, b.0));
        let descending = field.by.sort.descending;
        match &field.by.sort.by {
            SortBy::Value if descending => found.reverse(),
            SortBy::Value => {}
            SortBy::Aggregate(compute) => {
                let mut ranked: Vec<_> = std::mem::take(found)
                    .into_iter()
                    .map(|entry| (rank_of(&self.value(compute, &entry.1)), entry))
                    .collect();
                ranked.sort_by(|a, b| compare_ranks(a.0, b.0, descending));
                found.extend(ranked.into_iter().map(|(_, entry)| entry));
            }
        }
    }

    /// Returns an aggregate over several groups.
    fn value(&self, compute: &Compute, groups: &[u32]) -> ComputeValue {
        let spec = AccumulatorSpec::of(compute);
        let Some(number) = self.aggregator.specs.iter().position(|known| *known == spec) else {
            return ComputeValue::None;
        };
        let accumulators = &self.aggregator.accumulators[number];
        let Some(series) = self.aggregator.series_of(number) else {
            return accumulators.value(compute.aggregation, groups);
        };
        let mut steps: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for group in groups {
            for (begin, cell) in &self.steps[series][*group as usize] {
                steps.entry(*begin).or_default().push(*cell);
            }
        }
        let of_step = |(begin, of_step): (i64, Vec<u32>)| {
            (begin, accumulators.value(compute.aggregation, &of_step))
        };
        ComputeValue::Series(steps.into_iter().map(of_step).collect())
    }
}
