//! A page of records, newest or oldest first.
//!
//! Each thread keeps the best rows it has found; rows that cannot be among the best because of
//! their time are not read. Whole records are assembled at the end, only for the rows to be
//! returned, as far as the query's memory allows: the remaining ones are on the next page.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::eval::Evaluator;
use super::fields::unknown_fields;
use super::page::{Source, whole_numbers};
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run, thread_count};
use super::unit::{RowLocation, Unit};
use crate::embedded::columns::StoredRecord;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::{Detail, Fixed, PageBuffer};
use crate::query::{
    Budget, Coverage, Order, PageKey, PartialReason, QueryError, SearchPage, SearchRequest,
};

/// A key in the requested order: the smallest comes first.
type Rank = (i64, u64);

/// The location of a record.
#[derive(Debug, Clone)]
pub(super) struct RowRef {
    pub(super) rank: Rank,
    pub(super) unit: usize,
    /// Index among the rows of the unit.
    pub(super) row: usize,
}

impl PartialEq for RowRef {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for RowRef {}

impl PartialOrd for RowRef {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RowRef {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// Transforms keys so that the smallest comes first.
#[derive(Debug, Clone, Copy)]
struct SortOrder {
    order: Order,
}

impl SortOrder {
    fn time(self, time_ns: i64) -> i64 {
        match self.order {
            Order::OldestFirst => time_ns,
            // Inverting all bits cannot overflow, unlike negation.
            Order::NewestFirst => !time_ns,
        }
    }

    fn rank(self, time_ns: i64, sequence: u64) -> Rank {
        match self.order {
            Order::OldestFirst => (time_ns, sequence),
            Order::NewestFirst => (!time_ns, !sequence),
        }
    }

    fn key(self, rank: Rank) -> PageKey {
        match self.order {
            Order::OldestFirst => PageKey { time_ns: rank.0, sequence: rank.1 },
            Order::NewestFirst => PageKey { time_ns: !rank.0, sequence: !rank.1 },
        }
    }

    /// Returns the best time that rows in this range can have.
    fn best(self, (first_ns, last_ns): (i64, i64)) -> i64 {
        self.time(first_ns).min(self.time(last_ns))
    }
}

/// The best rows found by one thread.
pub(super) struct TopRows<'a> {
    sort: SortOrder,
    /// One more than is returned, which shows whether there is a next page.
    limit: usize,
    after: Option<Rank>,
    unit: usize,
    found: BinaryHeap<RowRef>,
    /// The worst time that can still be part of the page, shared by all threads.
    bound: &'a AtomicI64,
}

impl<'a> TopRows<'a> {
    pub(super) fn new(request: &SearchRequest, bound: &'a AtomicI64) -> Self {
        let sort = SortOrder { order: request.order };
        Self {
            sort,
            limit: request.limit.saturating_add(1),
            after: request.after.map(|key| sort.rank(key.time_ns, key.sequence)),
            unit: 0,
            found: BinaryHeap::new(),
            bound,
        }
    }

    /// Returns whether rows with times in this range may be part of the page.
    pub(super) fn is_of_use_until(&self, times: (i64, i64)) -> bool {
        self.sort.best(times) <= self.bound.load(Ordering::Relaxed)
    }

    fn is_of_use(&self, best_time: i64) -> bool {
        let is_behind = self.after.is_none_or(|after| best_time >= after.0);
        best_time <= self.bound.load(Ordering::Relaxed) && is_behind
    }

    fn push(&mut self, rank: Rank, row: usize) {
        if self.after.is_some_and(|after| rank <= after) {
            return;
        }
        if self.found.len() >= self.limit {
            match self.found.peek() {
                Some(worst) if rank < worst.rank => drop(self.found.pop()),
                _ => return,
            }
        }
        self.found.push(RowRef { rank, unit: self.unit, row });
        if self.found.len() >= self.limit
            && let Some(worst) = self.found.peek()
        {
            self.bound.fetch_min(worst.rank.0, Ordering::Relaxed);
        }
    }
}

impl Sink for TopRows<'_> {
    fn may_contribute(&self, unit: &Unit) -> bool {
        let worst = self.sort.time(unit.first_ns).max(self.sort.time(unit.last_ns));
        let is_behind = self.after.is_none_or(|after| worst >= after.0);
        let best = self.sort.best(unit.times());
        best <= self.bound.load(Ordering::Relaxed) && is_behind
    }

    fn page_order(&self, unit: &Unit) -> Vec<usize> {
        let mut pages: Vec<usize> = (0..unit.page_count()).collect();
        pages.sort_by_key(|page| self.sort.best(unit.page_times[*page]));
        pages
    }

    fn narrow(&mut self, at: &mut Evaluator, mut rows: RowSet) -> Result<RowSet, ScanStop> {
        let bound = self.bound.load(Ordering::Relaxed);
        if self.sort.best(at.reader.page_times()) > bound {
            return Ok(RowSet::none(rows.len()));
        }
        if self.after.is_none() && bound == i64::MAX {
            return Ok(rows);
        }
        let times = at.reader.column(&Source::Fixed(Fixed::Time))?;
        let times = whole_numbers(&times)?;
        rows.intersect(&RowSet::of(rows.len(), |row| {
            let time = self.sort.time(times[row]);
            time <= bound && self.after.is_none_or(|after| time >= after.0)
        }));
        Ok(rows)
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        let times = at.reader.column(&Source::Fixed(Fixed::Time))?;
        let sequences = at.reader.column(&Source::Fixed(Fixed::Sequence))?;
        let (times, sequences) = (whole_numbers(&times)?, whole_numbers(&sequences)?);
        self.unit = at.reader.unit_number;
        for row in rows.iter() {
            if self.is_of_use(self.sort.time(times[row])) {
                let rank = self.sort.rank(times[row], sequences[row].cast_unsigned());
                self.push(rank, at.reader.first_row() + row);
            }
        }
        Ok(())
    }
}

/// Returns a page of records.
///
/// # Errors
/// See [`QueryError`].
pub fn search(
    snapshot: &Snapshot,
    request: &SearchRequest,
    budget: &Budget,
) -> Result<SearchPage, QueryError> {
    let plan = Plan::new(&request.filter, &snapshot.deletions, budget)?;
    let bound = AtomicI64::new(i64::MAX);
    let make = || TopRows::new(request, &bound);
    let mut page = page_of(snapshot, request, &plan, budget, Detail::All, make, |rows| rows)?;
    let has_found = !page.records.is_empty();
    page.coverage.unknown_fields =
        unknown_fields(snapshot, &request.filter, [], has_found, budget)?;
    Ok(page)
}

/// Returns the page that sinks of this kind find; `top` are the best rows of one.
pub(super) fn page_of<'a, S: Sink>(
    snapshot: &Snapshot,
    request: &SearchRequest,
    plan: &Plan,
    budget: &Budget,
    detail: Detail,
    make: impl Fn() -> S + Sync,
    top: impl Fn(S) -> TopRows<'a>,
) -> Result<SearchPage, QueryError> {
    let sort = SortOrder { order: request.order };
    let mut units = Unit::of(snapshot, plan.range);
    units.sort_by_key(|unit| sort.best(unit.times()));
    let done = run(snapshot, &units, plan, budget, make)?;
    let mut found: Vec<RowRef> = done.sinks.into_iter().flat_map(|sink| top(sink).found).collect();
    found.sort();
    let fitting = fitting(&units, &found, budget.memory_left_bytes());
    let has_more = found.len() > request.limit.min(fitting);
    found.truncate(request.limit.min(fitting));
    let mut page = SearchPage { coverage: done.coverage, ..SearchPage::default() };
    page.records = records_of(&units, &found, detail, &mut page.coverage)?;
    let is_cut = page
        .coverage
        .partial_reasons
        .iter()
        .any(|reason| matches!(reason, PartialReason::Deadline | PartialReason::Memory));
    if has_more || (is_cut && !found.is_empty()) {
        page.next = found.last().map(|last| sort.key(last.rank));
    }
    Ok(page)
}

/// Returns approximately how many of the records fit into memory; a page has at least one.
fn fitting(units: &[Unit], found: &[RowRef], memory_bytes: usize) -> usize {
    let mut row_bytes = vec![None; units.len()];
    let mut left = memory_bytes;
    let fits = |row_ref: &&RowRef| {
        let bytes = *row_bytes[row_ref.unit].get_or_insert_with(|| units[row_ref.unit].row_bytes());
        left.checked_sub(bytes).map(|rest| left = rest).is_some()
    };
    found.iter().take_while(fits).count().max(1)
}

/// Returns the records at some locations, in order. Those of a segment that turns out to be damaged
/// are left out, and the segment is named.
pub(super) fn records_of(
    units: &[Unit],
    rows: &[RowRef],
    detail: Detail,
    coverage: &mut Coverage,
) -> Result<Vec<StoredRecord>, QueryError> {
    let mut by_location: Vec<(usize, &RowRef)> = rows.iter().enumerate().collect();
    by_location.sort_by_key(|(_, row_ref)| (row_ref.unit, row_ref.row));
    let parts: Vec<&[(usize, &RowRef)]> =
        by_location.chunk_by(|a, b| a.1.unit == b.1.unit).collect();
    let next = AtomicUsize::new(0);
    let work = || read_parts(units, &parts, &next, detail);
    let threads = thread_count(parts.len());
    let results = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        results
    });
    let mut records: Vec<(usize, StoredRecord)> = Vec::with_capacity(rows.len());
    for result in results {
        let (found, damaged) = result?;
        records.extend(found);
        for name in damaged {
            add_damaged(coverage, name);
        }
    }
    records.sort_by_key(|(place, _)| *place);
    Ok(records.into_iter().map(|(_, record)| record).collect())
}

/// Records with their places, and the names of damaged segments.
type PartsRead = (Vec<(usize, StoredRecord)>, Vec<String>);

/// Reads the records of one unit after the other, as long as there are some.
fn read_parts(
    units: &[Unit],
    parts: &[&[(usize, &RowRef)]],
    next: &AtomicUsize,
    detail: Detail,
) -> Result<PartsRead, QueryError> {
    let (mut records, mut damaged) = PartsRead::default();
    let mut buffer = PageBuffer::new()?;
    while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
        let rows: Vec<usize> = part.iter().map(|(_, row_ref)| row_ref.row).collect();
        let Some(unit) = part.first().and_then(|(_, row_ref)| units.get(row_ref.unit)) else {
            continue;
        };
        let found = match &unit.location {
            RowLocation::Group { segment, group } => {
                segment.segment.records_in(detail, *group, &rows, &mut buffer)
            }
            RowLocation::Head(chunk) => {
                let chunk = chunk.read();
                Ok(match detail {
                    Detail::All => chunk.records(&rows),
                    Detail::Received => chunk.received_records(&rows),
                })
            }
        };
        match found {
            Ok(found) => records.extend(part.iter().map(|(place, _)| *place).zip(found)),
            Err(error) if error.is_damage() => damaged.push(unit.name()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((records, damaged))
}

fn add_damaged(coverage: &mut Coverage, name: String) {
    let damaged = coverage.partial_reasons.iter_mut().find_map(|reason| match reason {
        PartialReason::Damaged { segments } => Some(segments),
        _ => None,
    });
    match damaged {
        Some(segments) if segments.contains(&name) => {}
        Some(segments) => segments.push(name),
        None => coverage.partial_reasons.push(PartialReason::Damaged { segments: vec![name] }),
    }
}
