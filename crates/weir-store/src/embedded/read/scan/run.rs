//! Runs a plan over a snapshot: units are distributed over threads, each with its own evaluator.
//!
//! Invariants: every unit is processed by one thread; a damaged unit is missing from the answer and
//! named in it, without affecting anything else; the budget is checked before every page.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::eval::Evaluator;
use super::page::PageReader;
use super::plan::Plan;
use super::prune::ALL;
use super::row_set::RowSet;
use super::unit::Unit;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::SegmentError;
use crate::limits::QUERY_THREADS_MAX;
use crate::query::{Budget, Coverage, PartialReason, QueryError, ScanStats, StopReason};

/// Reasons for which work ends early.
#[derive(Debug)]
pub(super) enum ScanStop {
    Stop(StopReason),
    Segment(SegmentError),
}

impl From<SegmentError> for ScanStop {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

impl From<StopReason> for ScanStop {
    fn from(stop: StopReason) -> Self {
        Self::Stop(stop)
    }
}

/// Consumes the matching rows. Each thread has its own.
pub(super) trait Sink: Send {
    /// Returns whether the unit can contribute anything; if not, it is skipped.
    fn may_contribute(&self, _unit: &Unit) -> bool {
        true
    }

    /// Returns the pages of the current unit that can contribute anything, one bit each, judging by
    /// what is cheap to read.
    fn pages(&mut self, _at: &mut Evaluator) -> Result<u64, ScanStop> {
        Ok(ALL)
    }

    /// Returns the order in which the pages of a unit are processed.
    fn page_order(&self, unit: &Unit) -> Vec<usize> {
        (0..unit.page_count()).collect()
    }

    /// Called when all rows of a unit match and need not be read. Returns true if it has handled
    /// them.
    fn take_unit(&mut self, _unit: &Unit) -> bool {
        false
    }

    /// Returns those rows of a page, all within the range, that can still contribute anything.
    fn narrow(&mut self, _at: &mut Evaluator, rows: RowSet) -> Result<RowSet, ScanStop> {
        Ok(rows)
    }

    /// Called at the start of each unit.
    fn begin_unit(&mut self) {}

    /// Takes the matching rows of a page; at least one.
    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop>;
}

/// The combined result of all threads.
#[derive(Debug)]
pub(super) struct RunResult<S> {
    pub(super) sinks: Vec<S>,
    pub(super) coverage: Coverage,
}

/// Runs the plan with sinks created by `make`.
pub(super) fn run<S: Sink>(
    snapshot: &Snapshot,
    units: &[Unit],
    plan: &Plan,
    budget: &Budget,
    make: impl Fn() -> S + Sync,
) -> Result<RunResult<S>, QueryError> {
    let next = AtomicUsize::new(0);
    let work = || work(units, &next, plan, budget, make());
    let threads = thread_count(units.len());
    let results: Vec<_> = if threads == 1 {
        vec![work()]
    } else {
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut results = vec![work()];
            results.extend(others.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
            results
        })
    };
    let mut coverage = Coverage::default();
    let mut sinks = Vec::new();
    let mut damaged: BTreeSet<String> = snapshot.damaged.iter().cloned().collect();
    let mut partial_reasons = BTreeSet::new();
    for result in results {
        let result = result?;
        if !plan.is_restricted {
            coverage.scanned.add(result.scanned);
        }
        damaged.extend(result.damaged);
        partial_reasons.extend(result.stop.map(|stop| stop == StopReason::Memory));
        sinks.push(result.sink);
    }
    let of_stop =
        |is_memory| if is_memory { PartialReason::Memory } else { PartialReason::Deadline };
    coverage.partial_reasons.extend(partial_reasons.into_iter().map(of_stop));
    if snapshot.is_catching_up {
        coverage.partial_reasons.push(PartialReason::CatchingUp);
    }
    if !damaged.is_empty() {
        let segments = damaged.into_iter().collect();
        coverage.partial_reasons.push(PartialReason::Damaged { segments });
    }
    Ok(RunResult { sinks, coverage })
}

/// Returns the number of threads, and therefore sinks, for so many units.
pub(super) fn thread_count(units: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.min(QUERY_THREADS_MAX).min(units).max(1)
}

/// The result of one thread.
struct WorkerResult<S> {
    sink: S,
    scanned: ScanStats,
    damaged: Vec<String>,
    stop: Option<StopReason>,
}

fn work<S: Sink>(
    units: &[Unit],
    next: &AtomicUsize,
    plan: &Plan,
    budget: &Budget,
    sink: S,
) -> Result<WorkerResult<S>, QueryError> {
    let mut result =
        WorkerResult { sink, scanned: ScanStats::default(), damaged: Vec::new(), stop: None };
    let Some(first) = units.first() else { return Ok(result) };
    let mut at = Evaluator::new(plan.clone(), PageReader::new(first.clone()), budget.clone());
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(unit) = units.get(number) else { break };
        if !result.sink.may_contribute(unit) {
            continue;
        }
        at.begin_unit(number, unit.clone());
        match work_on(unit, &mut at, budget, &mut result.sink) {
            Ok(()) => {}
            Err(ScanStop::Stop(StopReason::Cancelled)) => return Err(QueryError::Cancelled),
            Err(ScanStop::Stop(stop)) => {
                result.stop = Some(stop);
                break;
            }
            Err(ScanStop::Segment(error)) if error.is_damage() => result.damaged.push(unit.name()),
            Err(ScanStop::Segment(error)) => return Err(QueryError::Read(error)),
        }
    }
    result.scanned = at.reader.scanned;
    Ok(result)
}

fn work_on<S: Sink>(
    unit: &Unit,
    at: &mut Evaluator,
    budget: &Budget,
    sink: &mut S,
) -> Result<(), ScanStop> {
    budget.check()?;
    sink.begin_unit();
    if at.matches_all_rows(unit) && sink.take_unit(unit) {
        return Ok(());
    }
    let mut mask = sink.pages(at)?;
    if mask != 0 {
        mask &= at.pages();
    }
    for page in sink.page_order(unit) {
        if mask >> page.min(63) & 1 == 0 {
            at.reader.scanned.pages_pruned += 1;
            continue;
        }
        budget.check()?;
        at.reader.begin_page(page);
        let candidates = at.in_range()?;
        let candidates = sink.narrow(at, candidates)?;
        let rows = at.matching(&candidates)?;
        if !rows.is_empty() {
            sink.rows(at, &rows)?;
        }
    }
    Ok(())
}
