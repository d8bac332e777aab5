//! The services of which records are stored: how many records, from when to when, and where.
//!
//! Invariants: segments do not change, and their rows are sorted by service, so the services of a
//! row group are determined once and cached, within a limit; above the limit, they are determined
//! again. The result has a limited number of services.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use weir_expr::Value;

use super::column::Column;
use super::eval::Evaluator;
use super::page::{Source, whole_numbers};
use super::plan::Plan;
use super::prune::ALL;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run};
use super::unit::{RowLocation, Unit};
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::Fixed;
use crate::limits::SERVICE_SPANS_CACHED_MAX;
use crate::query::{
    Budget, Filter, PartialReason, QueryError, ServiceSpan, Services, ServicesRequest,
};

/// The records of a service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    rows: u64,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// The first and the last of its rows in the row group.
    first_row: u32,
    last_row: u32,
}

impl Span {
    fn of(time_ns: i64, row: usize) -> Self {
        let row = row as u32;
        Self { rows: 1, first_ns: time_ns, last_ns: time_ns, first_row: row, last_row: row }
    }

    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.first_row = self.first_row.min(other.first_row);
        self.last_row = self.last_row.max(other.last_row);
    }

    /// Returns the rows that are between its first and its last one.
    pub(super) fn range(&self) -> Range<usize> {
        self.first_row as usize..self.last_row as usize + 1
    }

    /// Returns whether all rows in that range are its own.
    pub(super) fn is_dense(&self) -> bool {
        self.rows == self.range().len() as u64
    }
}

/// Services by name; of records without a service, their sources.
#[derive(Debug, Default)]
pub(super) struct GroupServices {
    services: HashMap<Box<[u8]>, Span>,
    sources: HashMap<Box<[u8]>, Span>,
}

impl GroupServices {
    /// Returns the records that count as those of this service: its own, and those without a
    /// service of the source of that name.
    pub(super) fn of(&self, name: &[u8]) -> [Option<&Span>; 2] {
        [self.services.get(name), self.sources.get(name)]
    }

    fn len(&self) -> usize {
        self.services.len() + self.sources.len()
    }

    fn add_to(&self, to: &mut HashMap<Box<[u8]>, Span>) {
        for (name, span) in self.services.iter().chain(&self.sources) {
            match to.get_mut(name) {
                Some(known) => known.add(*span),
                None => _ = to.insert(name.clone(), *span),
            }
        }
    }

    /// Adds the rows of a page.
    fn add_page(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        let times = at.reader.column(&Source::Fixed(Fixed::Time))?;
        let times = whole_numbers(&times)?;
        let first = at.reader.first_row();
        let services = at.reader.column(&Source::Fixed(Fixed::Service))?;
        let left = add(&services, times, first, rows, &mut self.services);
        if !left.is_empty() {
            let sources = at.reader.column(&Source::Fixed(Fixed::Source))?;
            add(&sources, times, first, &left, &mut self.sources);
        }
        Ok(())
    }
}

/// Adds the rows with a value in this column, by that value. Returns the others.
fn add(
    names: &Column,
    times: &[i64],
    first: usize,
    rows: &RowSet,
    to: &mut HashMap<Box<[u8]>, Span>,
) -> RowSet {
    let mut left = rows.clone();
    left.subtract(&names.present(rows.len()));
    let view = names.view();
    let mut run: Option<(&[u8], Span)> = None;
    for number in 0..view.len() {
        let row = names.row(number);
        let Value::Text(name) = view.value(number) else { continue };
        let Some(time_ns) = times.get(row).filter(|_| rows.contains(row)) else { continue };
        let span = Span::of(*time_ns, first + row);
        match &mut run {
            Some((known, known_span)) if *known == name => known_span.add(span),
            _ => end_run(run.replace((name, span)), to),
        }
    }
    end_run(run, to);
    left
}

fn end_run(run: Option<(&[u8], Span)>, to: &mut HashMap<Box<[u8]>, Span>) {
    let Some((name, span)) = run else { return };
    match to.get_mut(name) {
        Some(known) => known.add(span),
        None => _ = to.insert(name.into(), span),
    }
}

/// The name and the identity of a segment, and a row group of it.
type CacheKey = (String, u32, usize);

/// The cached services of row groups.
#[derive(Debug, Default)]
pub struct SpanCache(Mutex<Cached>);

#[derive(Debug, Default)]
struct Cached {
    groups: HashMap<CacheKey, Arc<GroupServices>>,
    /// Number of services in all of them.
    spans: usize,
}

impl SpanCache {
    /// Returns the services of the current unit, if that is a row group. Afterwards, no page is
    /// current.
    pub(super) fn of_group(
        &self,
        at: &mut Evaluator,
    ) -> Result<Option<Arc<GroupServices>>, ScanStop> {
        let RowLocation::Group { segment, group } = &at.reader.unit.location else {
            return Ok(None);
        };
        let key = (segment.name.clone(), segment.segment.identity(), *group);
        if let Some(known) = self.lock().groups.get(&key) {
            return Ok(Some(known.clone()));
        }
        let mut found = GroupServices::default();
        for page in 0..at.reader.unit.page_count() {
            at.check_budget()?;
            at.reader.begin_page(page);
            found.add_page(at, &RowSet::all(at.reader.rows()))?;
        }
        let found = Arc::new(found);
        let mut cached = self.lock();
        if cached.spans + found.len() > SERVICE_SPANS_CACHED_MAX {
            *cached = Cached::default();
        }
        cached.spans += found.len();
        cached.groups.insert(key, found.clone());
        Ok(Some(found))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The services of the units of one thread.
struct Collector<'a> {
    cache: &'a SpanCache,
    done: HashMap<Box<[u8]>, Span>,
    /// The services of units that have to be read row by row.
    others: GroupServices,
}

impl Sink for Collector<'_> {
    fn pages(&mut self, at: &mut Evaluator) -> Result<u64, ScanStop> {
        let unit: Unit = at.reader.unit.clone();
        if at.matches_all_rows(&unit)
            && let Some(known) = self.cache.of_group(at)?
        {
            known.add_to(&mut self.done);
            return Ok(0);
        }
        Ok(ALL)
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        self.others.add_page(at, rows)
    }
}

/// Returns the services of which records are stored.
///
/// # Errors
/// See [`QueryError`].
pub fn services(
    snapshot: &Snapshot,
    request: &ServicesRequest,
    cache: &SpanCache,
    budget: &Budget,
) -> Result<Services, QueryError> {
    let filter = Filter::all(request.access.clone());
    let plan = Plan::new(&filter, &snapshot.deletions, budget)?;
    let units = Unit::of(snapshot, plan.range);
    let make = || Collector { cache, done: HashMap::new(), others: GroupServices::default() };
    let done = run(snapshot, &units, &plan, budget, make)?;
    let mut all: BTreeMap<Box<[u8]>, Span> = BTreeMap::new();
    for mut collector in done.sinks {
        collector.others.add_to(&mut collector.done);
        for (name, span) in collector.done {
            all.entry(name).and_modify(|known| known.add(span)).or_insert(span);
        }
    }
    let mut coverage = done.coverage;
    if all.len() > request.limit && !coverage.partial_reasons.contains(&PartialReason::Memory) {
        coverage.partial_reasons.push(PartialReason::Memory);
    }
    let spans = all.into_iter().take(request.limit).map(|(name, span)| ServiceSpan {
        name: String::from_utf8_lossy(&name).into_owned(),
        rows: span.rows,
        first_ns: span.first_ns,
        last_ns: span.last_ns,
    });
    Ok(Services { spans: spans.collect(), coverage })
}
