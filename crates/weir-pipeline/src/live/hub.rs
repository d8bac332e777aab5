//! The live tails, and the shared backlog of records found for them or missed by them.
//!
//! Invariants: a tail receives its matches in order, each record once, or counted in a gap at the
//! position where it is missing; entries that no tail waits for are released; the lock is held only
//! for this bookkeeping, never for work that depends on an expression. The expression of a tail is
//! compiled by the joining caller, one caller at a time, before anything changes for others.
//! Readers of envelopes have queues of their own, and are only registered here.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use weir_codec::{LoggregatorRequest, Renames};
use weir_expr::{CalculatedField, Expr, Units};
use weir_model::Batch;

use super::envelopes::{
    Budget, Form, Index, Reader, ReaderClient, ReaderServicesStats, ReaderStatus, Reading,
};
use super::limits::BACKLOG_BYTES;
use super::matcher::{self, Set};
use super::{LiveError, LiveEvent, Rows};
use crate::view::PipelineView;

/// All live tails of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    state: Mutex<HubState>,
    /// Held while a caller compiles.
    turn: Mutex<()>,
    /// Notified when the set of expressions or readers changes.
    pub(super) changed: Notify,
    /// Memory limit of readers of envelopes.
    pub(super) budget: Arc<Budget>,
    pub(super) reader_services: ReaderServicesStats,
}

#[derive(Debug, Default)]
struct HubState {
    tails: HashMap<u64, Tail>,
    next_tail: u64,
    /// The compiled set of the expressions of all tails, including those that have left since it
    /// was compiled.
    set: Option<Arc<Set>>,
    /// Number of the next expression, as in `Tail::expression`.
    next_expression: u64,
    names: Names,
    /// Readers of envelopes, and the index of their selectors.
    readings: Vec<Reading>,
    index: Arc<Index>,
    /// Version of the set, the names and the index.
    version: u64,
    backlog: VecDeque<BacklogEntry>,
    /// Number of the first entry of `backlog`, counted over all that were ever in it.
    first: u64,
    backlog_bytes: u64,
    /// A thread is matching records.
    is_running: bool,
}

#[derive(Debug)]
struct Tail {
    expression: u64,
    /// Number of the next entry of `HubState::backlog` to look at.
    next: u64,
    /// Records missed before those of the backlog, and not reported yet.
    missed: u64,
    wake: Arc<Notify>,
    /// The pipeline has ended.
    is_over: bool,
}

/// The matches in a batch.
#[derive(Debug)]
pub(super) struct MatchedBatch {
    pub(super) batch: Arc<Batch>,
    /// Name of the source.
    pub(super) source: Arc<str>,
    /// Which records each expression matches; expressions without matches are omitted.
    pub(super) matches: Vec<Matches>,
}

/// An entry of the backlog.
#[derive(Debug)]
struct BacklogEntry {
    entry: Entry,
    /// Number of tails that have not taken it yet.
    unread: usize,
}

#[derive(Debug)]
enum Entry {
    /// Matches, for the tails of their expressions.
    Matched(MatchedBatch),
    /// Number of records missed here by all tails that had joined.
    Gap(u64),
}

/// The records of a batch that an expression matches.
#[derive(Debug)]
pub(super) struct Matches {
    pub(super) expression: u64,
    pub(super) indexes: Arc<[u32]>,
}

/// The next event of a tail.
#[derive(Debug)]
pub(super) enum TailNext {
    Event(LiveEvent),
    Nothing,
    Over,
}

/// The set of expressions and readers to match.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Unchanged.
    Same,
    /// Empty: the thread ends.
    Nothing,
    /// A new set.
    Changed { version: u64, set: Option<Arc<Set>>, names: Names, index: Arc<Index> },
}

/// Calculated fields, and alternative names and units of attributes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Names {
    pub(super) calculated_fields: Arc<[CalculatedField]>,
    pub(super) renames: Arc<Renames>,
    pub(super) units: Units,
}

impl MatchedBatch {
    pub(super) fn new(batch: Arc<Batch>, source: Arc<str>, matches: Vec<Matches>) -> Self {
        Self { batch, source, matches }
    }

    fn of(&self, expression: u64) -> Option<&Arc<[u32]>> {
        let is_it = |matches: &&Matches| matches.expression == expression;
        self.matches.iter().find(is_it).map(|matches| &matches.indexes)
    }
}

impl Entry {
    /// Returns how many records a tail with this expression has or misses here; `None` if the entry
    /// is not for it.
    fn records(&self, expression: u64) -> Option<u64> {
        match self {
            Self::Matched(found) => found.of(expression).map(|indexes| indexes.len() as u64),
            Self::Gap(records) => Some(*records),
        }
    }

    /// Returns the memory that it occupies.
    fn bytes(&self) -> u64 {
        let batch = match self {
            Self::Matched(found) => found.batch.memory_bytes(),
            Self::Gap(_) => 0,
        };
        (batch + size_of::<BacklogEntry>()) as u64
    }
}

impl Hub {
    fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a tail, which matches records appended from now on and, if others are active, also
    /// records appended shortly before and not matched yet. Later changes of units do not affect
    /// it.
    pub(super) fn join(
        self: &Arc<Self>,
        view: &PipelineView,
        query: &Expr,
        wake: Arc<Notify>,
    ) -> Result<u64, LiveError> {
        let mut state = self.state();
        let query = &query.clone().in_units(&state.names.units, &state.names.calculated_fields);
        if let Some(expression) = state.followed(query) {
            return Ok(self.enter(&mut state, view, expression, wake)?);
        }
        drop(state);
        matcher::check(query)?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        // Another caller may have joined with it meanwhile, or a tail with it may just have left.
        let compiled = state.set.as_ref().and_then(|set| set.number_of(query));
        let expression = if let Some(expression) = compiled {
            expression
        } else {
            let (expression, wanted) = state.wanted_with(query);
            drop(state);
            // Meanwhile tails may leave, and others may join with the expression of one of these:
            // all expressions that can be needed are in this set.
            let set = Set::compile(wanted)?;
            state = self.state();
            state.set = Some(Arc::new(set));
            state.version += 1;
            expression
        };
        Ok(self.enter(&mut state, view, expression, wake)?)
    }

    /// Adds a tail that follows an expression of the set.
    fn enter(
        self: &Arc<Self>,
        state: &mut HubState,
        view: &PipelineView,
        expression: u64,
        wake: Arc<Notify>,
    ) -> io::Result<u64> {
        self.start(state, view)?;
        let id = state.add(expression, wake);
        self.changed.notify_one();
        Ok(id)
    }

    /// Starts the thread unless it runs.
    fn start(self: &Arc<Self>, state: &mut HubState, view: &PipelineView) -> io::Result<()> {
        if !state.is_running {
            matcher::spawn(self.clone(), view)?;
            state.is_running = true;
        }
        Ok(())
    }

    /// Adds a reader of envelopes, which receives records appended from now on.
    pub(super) fn read(
        self: &Arc<Self>,
        view: &PipelineView,
        client: Option<ReaderClient>,
        form: Form,
        request: LoggregatorRequest,
    ) -> io::Result<Arc<Reader>> {
        let mut state = self.state();
        self.start(&mut state, view)?;
        let stats = client.map(|client| self.reader_services.of(client.service).clone());
        let (stats, budget) = (stats.unwrap_or_default(), self.budget.clone());
        let reader = Reader::new(form, client, stats, budget, view.clock.clone());
        state.readings.push(Reading { reader: reader.clone(), request });
        state.index_readings();
        drop(state);
        self.changed.notify_one();
        Ok(reader)
    }

    /// Returns the current readers of envelopes.
    pub(super) fn readers(&self) -> Vec<ReaderStatus> {
        let state = self.state();
        let readers = state.readings.iter();
        readers.filter_map(|reading| reading.reader.status(&reading.request)).collect()
    }

    /// Removes a reader of envelopes.
    pub(super) fn stop_reading(&self, reader: &Arc<Reader>) {
        let mut state = self.state();
        state.readings.retain(|reading| !Arc::ptr_eq(&reading.reader, reader));
        state.index_readings();
        drop(state);
        reader.leave();
        self.changed.notify_one();
    }

    pub(super) fn leave(&self, id: u64) {
        self.state().leave(id);
        self.changed.notify_one();
    }

    pub(super) fn set_names(&self, names: Names) {
        let mut state = self.state();
        if state.names != names {
            state.names = names;
            state.version += 1;
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Returns what to match, if it has changed since this version. If there is nothing, the
    /// calling thread must end, and the compiled set is dropped; the next tail starts another
    /// thread.
    pub(super) fn wanted(&self, version: u64) -> Wanted {
        let mut state = self.state();
        if state.tails.is_empty() && state.set.take().is_some() {
            state.version += 1;
        }
        if state.tails.is_empty() && state.readings.is_empty() {
            state.is_running = false;
            return Wanted::Nothing;
        }
        if state.version == version {
            return Wanted::Same;
        }
        let (set, names, index) = (state.set.clone(), state.names.clone(), state.index.clone());
        Wanted::Changed { version: state.version, set, names, index }
    }

    /// Adds matches.
    pub(super) fn push(&self, found: MatchedBatch) {
        self.state().push(Entry::Matched(found));
    }

    /// Notes that all tails missed this many records, after the matches so far.
    pub(super) fn missed(&self, records: u64) {
        self.state().push(Entry::Gap(records));
    }

    /// Notes that the pipeline has ended.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_running = false;
        for tail in state.tails.values_mut() {
            tail.is_over = true;
            tail.wake.notify_one();
        }
        state.readings.iter().for_each(|reading| reading.reader.end());
    }

    /// Returns the next event for a tail.
    pub(super) fn take(&self, id: u64) -> TailNext {
        self.state().take(id)
    }
}

impl HubState {
    /// Updates the index of the selectors of readers.
    fn index_readings(&mut self) {
        self.index = Arc::new(Index::new(&self.readings));
        self.version += 1;
    }

    /// Returns the number of this expression, if a tail follows it.
    fn followed(&self, query: &Expr) -> Option<u64> {
        self.set.as_ref()?.number_of(query).filter(|number| self.is_followed(*number))
    }

    fn is_followed(&self, expression: u64) -> bool {
        self.tails.values().any(|tail| tail.expression == expression)
    }

    /// Returns the expressions of all tails and this one, and the number assigned to this one.
    fn wanted_with(&mut self, query: &Expr) -> (u64, Vec<(u64, Expr)>) {
        let expression = self.next_expression;
        self.next_expression += 1;
        let known = self.set.iter().flat_map(|set| set.expressions());
        let followed = known.filter(|(number, _)| self.is_followed(*number)).cloned();
        (expression, followed.chain([(expression, query.clone())]).collect())
    }

    fn add(&mut self, expression: u64, wake: Arc<Notify>) -> u64 {
        let id = self.next_tail;
        self.next_tail += 1;
        let next = self.first + self.backlog.len() as u64;
        self.tails.insert(id, Tail { expression, next, missed: 0, wake, is_over: false });
        id
    }

    fn leave(&mut self, id: u64) {
        let Some(tail) = self.tails.remove(&id) else { return };
        let seen = tail.next.saturating_sub(self.first) as usize;
        for waiting in self.backlog.iter_mut().skip(seen) {
            if waiting.entry.records(tail.expression).is_some() {
                waiting.unread -= 1;
            }
        }
        self.drop_read();
    }

    fn push(&mut self, entry: Entry) {
        let mut unread = 0;
        for tail in self.tails.values() {
            if entry.records(tail.expression).is_some() {
                unread += 1;
                tail.wake.notify_one();
            }
        }
        // Also if the tails that it was found for have left.
        if unread == 0 {
            return;
        }
        self.backlog_bytes += entry.bytes();
        self.backlog.push_back(BacklogEntry { entry, unread });
        while self.backlog_bytes > BACKLOG_BYTES && self.backlog.len() > 1 {
            self.lose_first();
        }
    }

    /// Drops the oldest entry, and counts it for tails that have not taken it.
    fn lose_first(&mut self) {
        let number = self.first;
        let Some(lost) = self.pop_first() else { return };
        for tail in self.tails.values_mut().filter(|tail| tail.next <= number) {
            tail.missed += lost.records(tail.expression).unwrap_or(0);
        }
    }

    fn pop_first(&mut self) -> Option<Entry> {
        let first = self.backlog.pop_front()?.entry;
        self.backlog_bytes -= first.bytes();
        self.first += 1;
        Some(first)
    }

    /// Drops entries that all tails have taken.
    fn drop_read(&mut self) {
        while self.backlog.front().is_some_and(|waiting| waiting.unread == 0) {
            self.pop_first();
        }
    }

    fn take(&mut self, id: u64) -> TailNext {
        let end = self.first + self.backlog.len() as u64;
        let Some(tail) = self.tails.get_mut(&id) else { return TailNext::Over };
        if tail.missed > 0 {
            let records = std::mem::take(&mut tail.missed);
            return TailNext::Event(LiveEvent::Gap { records });
        }
        let from = tail.next.max(self.first);
        let seen = (from - self.first) as usize;
        for (number, waiting) in (from..end).zip(self.backlog.iter_mut().skip(seen)) {
            let event = match &waiting.entry {
                Entry::Gap(records) => LiveEvent::Gap { records: *records },
                Entry::Matched(found) => {
                    let Some(indexes) = found.of(tail.expression).cloned() else { continue };
                    let (batch, source) = (found.batch.clone(), found.source.clone());
                    LiveEvent::Rows(Rows { batch, source, indexes })
                }
            };
            waiting.unread -= 1;
            tail.next = number + 1;
            self.drop_read();
            return TailNext::Event(event);
        }
        tail.next = end;
        if tail.is_over { TailNext::Over } else { TailNext::Nothing }
    }
}

#[cfg(test)]
mod tests;
