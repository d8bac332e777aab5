//! The tails that there are, and the one backlog of what was found for them, and missed by them.
//!
//! Invariants: a tail gets what was found for it in order, each once, or counted in a gap that
//! stands where it is missing; what nobody waits for any more is let go; the lock is held for no
//! work but this, and for none that depends on what is asked for. What a tail asks for is compiled
//! by whoever joins, one after the other, before anything changes for others.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use weir_codec::Renames;
use weir_expr::{Expr, NamedMeasure};
use weir_model::Batch;

use super::limits::BACKLOG_BYTES;
use super::matcher::{self, Set};
use super::{LiveError, LiveEvent, Rows};
use crate::view::PipelineView;

/// All live tails of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
    /// Held by the one who compiles.
    turn: Mutex<()>,
    /// What is asked for has changed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    tails: HashMap<u64, Tail>,
    next_tail: u64,
    /// What is looked for: everything that a tail asks for, and what one asked for that has left
    /// since it was compiled.
    set: Option<Arc<Set>>,
    /// Number of the next expression, as in `Tail::expression`.
    next_expression: u64,
    names: Names,
    /// Counts changes of set and names.
    version: u64,
    backlog: VecDeque<Waiting>,
    /// Number of the first of `backlog`, counted over all that were ever in it.
    first: u64,
    backlog_bytes: u64,
    /// There is a thread that looks at records.
    is_running: bool,
}

#[derive(Debug)]
struct Tail {
    expression: u64,
    /// Number of the next of `State::backlog` to look at.
    next: u64,
    /// Records that were missed before those of the backlog, and not told yet.
    missed: u64,
    wake: Arc<Notify>,
    /// Nothing will come any more.
    is_over: bool,
}

/// What was found in a batch.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) batch: Arc<Batch>,
    /// Name of its source.
    pub(super) source: Arc<str>,
    /// Which of its records each expression describes; those that describe none are left out.
    pub(super) matches: Vec<Matches>,
}

/// An entry of the backlog.
#[derive(Debug)]
struct Waiting {
    entry: Entry,
    /// Tails that have not taken it yet.
    unread: usize,
}

#[derive(Debug)]
enum Entry {
    /// For those whose expressions describe something in it.
    Found(Found),
    /// Here so many records were missed, by all who had joined.
    Gap(u64),
}

/// The records of a batch that an expression describes.
#[derive(Debug)]
pub(super) struct Matches {
    pub(super) expression: u64,
    pub(super) indexes: Arc<[u32]>,
}

/// What a tail finds.
#[derive(Debug)]
pub(super) enum Taken {
    Event(LiveEvent),
    Nothing,
    Over,
}

/// What is to be looked for.
#[derive(Debug)]
pub(super) enum Wanted {
    /// The same as before.
    Same,
    /// Nothing: the thread ends.
    Nothing,
    /// This.
    Changed { version: u64, set: Arc<Set>, names: Names },
}

/// What attributes are called that records do not have by that name.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Names {
    pub(super) measures: Arc<[NamedMeasure]>,
    pub(super) renames: Arc<Renames>,
}

impl Found {
    pub(super) fn new(batch: Arc<Batch>, source: Arc<str>, matches: Vec<Matches>) -> Self {
        Self { batch, source, matches }
    }

    fn of(&self, expression: u64) -> Option<&Arc<[u32]>> {
        let is_it = |matches: &&Matches| matches.expression == expression;
        self.matches.iter().find(is_it).map(|matches| &matches.indexes)
    }
}

impl Entry {
    /// How many records a tail that asks for this has or misses here; `None` when the entry is not
    /// for it.
    fn records(&self, expression: u64) -> Option<u64> {
        match self {
            Self::Found(found) => found.of(expression).map(|indexes| indexes.len() as u64),
            Self::Gap(records) => Some(*records),
        }
    }

    /// Memory that it holds.
    fn bytes(&self) -> u64 {
        let batch = match self {
            Self::Found(found) => found.batch.memory_bytes(),
            Self::Gap(_) => 0,
        };
        (batch + size_of::<Waiting>()) as u64
    }
}

impl Hub {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a tail, which sees everything that is appended from now on; while others follow, also
    /// what was appended shortly before and nobody has looked at yet. Measures that are changed
    /// later are told in the units that they have now.
    pub(super) fn join(
        self: &Arc<Self>,
        view: &PipelineView,
        query: &Expr,
        wake: Arc<Notify>,
    ) -> Result<u64, LiveError> {
        let mut state = self.state();
        let query = &query.clone().in_units(&state.names.measures);
        if let Some(expression) = state.followed(query) {
            return Ok(self.enter(&mut state, view, expression, wake)?);
        }
        drop(state);
        matcher::check(query)?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        // Another may have asked for it meanwhile, or until now.
        let compiled = state.set.as_ref().and_then(|set| set.number_of(query));
        let expression = if let Some(expression) = compiled {
            expression
        } else {
            let (expression, wanted) = state.wanted_with(query);
            drop(state);
            // Meanwhile tails may leave, and others join that ask for what one of these asks for:
            // nobody comes to need what is not in this set.
            let set = Set::compile(wanted)?;
            state = self.state();
            state.set = Some(Arc::new(set));
            state.version += 1;
            expression
        };
        Ok(self.enter(&mut state, view, expression, wake)?)
    }

    /// Adds a tail that asks for an expression of the set.
    fn enter(
        self: &Arc<Self>,
        state: &mut State,
        view: &PipelineView,
        expression: u64,
        wake: Arc<Notify>,
    ) -> io::Result<u64> {
        if !state.is_running {
            matcher::spawn(self.clone(), view)?;
            state.is_running = true;
        }
        let id = state.add(expression, wake);
        self.changed.notify_one();
        Ok(id)
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

    /// What to look for, when it is not that of this version. With nothing to look for the thread
    /// that asks must end: the next tail starts another one. What was compiled goes with it.
    pub(super) fn wanted(&self, version: u64) -> Wanted {
        let mut state = self.state();
        if state.tails.is_empty() {
            (state.is_running, state.set) = (false, None);
            return Wanted::Nothing;
        }
        match &state.set {
            Some(set) if state.version != version => {
                let (set, names) = (set.clone(), state.names.clone());
                Wanted::Changed { version: state.version, set, names }
            }
            _ => Wanted::Same,
        }
    }

    /// Something was found.
    pub(super) fn push(&self, found: Found) {
        self.state().push(Entry::Found(found));
    }

    /// So many records were missed by all tails, behind what was found before.
    pub(super) fn missed(&self, records: u64) {
        self.state().push(Entry::Gap(records));
    }

    /// Nothing will come any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_running = false;
        for tail in state.tails.values_mut() {
            tail.is_over = true;
            tail.wake.notify_one();
        }
    }

    /// What comes next for a tail.
    pub(super) fn take(&self, id: u64) -> Taken {
        self.state().take(id)
    }
}

impl State {
    /// The number of this expression, if a tail asks for it.
    fn followed(&self, query: &Expr) -> Option<u64> {
        self.set.as_ref()?.number_of(query).filter(|number| self.is_followed(*number))
    }

    fn is_followed(&self, expression: u64) -> bool {
        self.tails.values().any(|tail| tail.expression == expression)
    }

    /// What tails ask for, and this, with the number that it gets.
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
        self.let_go();
    }

    fn push(&mut self, entry: Entry) {
        let mut unread = 0;
        for tail in self.tails.values() {
            if entry.records(tail.expression).is_some() {
                unread += 1;
                tail.wake.notify_one();
            }
        }
        // Also when nobody asks any more for what was found.
        if unread == 0 {
            return;
        }
        self.backlog_bytes += entry.bytes();
        self.backlog.push_back(Waiting { entry, unread });
        while self.backlog_bytes > BACKLOG_BYTES && self.backlog.len() > 1 {
            self.lose_first();
        }
    }

    /// Lets go of the oldest, and counts it for those who have not taken it.
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

    /// Lets go of what everybody has taken.
    fn let_go(&mut self) {
        while self.backlog.front().is_some_and(|waiting| waiting.unread == 0) {
            self.pop_first();
        }
    }

    fn take(&mut self, id: u64) -> Taken {
        let end = self.first + self.backlog.len() as u64;
        let Some(tail) = self.tails.get_mut(&id) else { return Taken::Over };
        if tail.missed > 0 {
            let records = std::mem::take(&mut tail.missed);
            return Taken::Event(LiveEvent::Gap { records });
        }
        let from = tail.next.max(self.first);
        let seen = (from - self.first) as usize;
        for (number, waiting) in (from..end).zip(self.backlog.iter_mut().skip(seen)) {
            let event = match &waiting.entry {
                Entry::Gap(records) => LiveEvent::Gap { records: *records },
                Entry::Found(found) => {
                    let Some(indexes) = found.of(tail.expression).cloned() else { continue };
                    let (batch, source) = (found.batch.clone(), found.source.clone());
                    LiveEvent::Rows(Rows { batch, source, indexes })
                }
            };
            waiting.unread -= 1;
            tail.next = number + 1;
            self.let_go();
            return Taken::Event(event);
        }
        tail.next = end;
        if tail.is_over { Taken::Over } else { Taken::Nothing }
    }
}

#[cfg(test)]
mod tests;
