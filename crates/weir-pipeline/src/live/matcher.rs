//! The thread that matches every record for all live tails and readers of envelopes.
//!
//! Invariants: a batch is matched for all tails and readers that had joined when it was appended;
//! expressions are compiled as one set, so many of them cost little more than one; compiling is
//! left to the joining callers; the thread ends with the last tail or reader.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use weir_expr::{
    CalculatedField, CompileError, Expr, Hits, Limits, Rule, RuleSet, Scratch, WithCalculatedFields,
};
use weir_journal::{Next, Subscriber};
use weir_model::{Batch, RecordView, SourceId};

use super::LiveError;
use super::envelopes::{Dispatcher, Index};
use super::hub::{Hub, MatchedBatch, Matches, Names, Wanted};
use super::limits::{BACKLOG_BYTES, REGEXP_BYTES_MAX, SET_BYTES_MAX};
use crate::drain::relocated_source;
use crate::rule::{Draft, Origin, RecordFields};
use crate::source::SourceNames;
use crate::view::PipelineView;

/// Checks whether an expression is allowed in a tail.
pub(super) fn check(expression: &Expr) -> Result<(), CompileError> {
    let limits = Limits { rules: 1, regexp_bytes: REGEXP_BYTES_MAX };
    RuleSet::compile(&[rule(expression)], limits).map(|_| ())
}

fn rule(expression: &Expr) -> Rule {
    Rule { name: String::new(), when: expression.clone() }
}

/// The expressions of all tails, compiled as one set.
#[derive(Debug)]
pub(super) struct Set {
    rules: RuleSet,
    /// Each expression once with its number, in the order of the rules.
    expressions: Vec<(u64, Expr)>,
}

impl Set {
    /// Compiles expressions that were each compiled separately before ([`check`]).
    pub(super) fn compile(expressions: Vec<(u64, Expr)>) -> Result<Self, LiveError> {
        let rules: Vec<Rule> = expressions.iter().map(|(_, expr)| rule(expr)).collect();
        let limits = Limits { rules: rules.len(), regexp_bytes: SET_BYTES_MAX };
        match RuleSet::compile(&rules, limits) {
            Ok(rules) => Ok(Self { rules, expressions }),
            Err(CompileError::TooLarge { max, .. }) => Err(LiveError::TooLargeTogether { max }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the expressions with their numbers.
    pub(super) fn expressions(&self) -> &[(u64, Expr)] {
        &self.expressions
    }

    /// Returns the number of this expression.
    pub(super) fn number_of(&self, query: &Expr) -> Option<u64> {
        let known = self.expressions.iter().find(|(_, expr)| expr == query);
        known.map(|(number, _)| *number)
    }
}

/// Starts the thread, which reads records appended from now on.
pub(super) fn spawn(hub: Arc<Hub>, view: &PipelineView) -> io::Result<()> {
    let backlog_bytes = BACKLOG_BYTES.max(hub.budget.backlog());
    // Records moved to the stream of a drain were matched in their original stream.
    let subscriber = view.journal.subscribe(backlog_bytes, Some(relocated_source()));
    let names = view.source_names.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let thread = std::thread::Builder::new().name("weir-live".to_owned());
    thread.spawn(move || {
        let ending = EndIfPanicking(&hub);
        runtime.block_on(run(&hub, subscriber, Matcher::new(names)));
        drop(ending);
    })?;
    Ok(())
}

/// Ends all tails if the thread panics, so that they do not wait forever.
struct EndIfPanicking<'a>(&'a Hub);

impl Drop for EndIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

async fn run(hub: &Hub, mut subscriber: Subscriber, mut matcher: Matcher) {
    loop {
        let next = tokio::select! {
            next = subscriber.next() => Some(next),
            () = hub.changed.notified() => None,
        };
        // After the batch was taken, so that all tails that had joined when it was appended are
        // known.
        match hub.wanted(matcher.version) {
            Wanted::Same => {}
            Wanted::Nothing => return,
            Wanted::Changed { version, set, names, index } => {
                matcher.change(version, set, names, index);
            }
        }
        match next {
            None => {}
            Some(None) => return hub.end(),
            Some(Some(Next::Gap { count, .. })) => {
                hub.missed(count);
                matcher.dispatcher.missed(count);
            }
            Some(Some(Next::Batch(batch))) => {
                matcher.dispatch(&batch, subscriber.is_behind());
                let (source, matches) = matcher.look(&batch);
                if !matches.is_empty() {
                    hub.push(MatchedBatch::new(batch, source, matches));
                }
            }
        }
    }
}

#[derive(Debug)]
struct Source {
    name: Arc<str>,
    origin: Origin,
    /// It receives envelopes.
    has_envelopes: bool,
}

/// The current set, and the working state.
#[derive(Debug)]
struct Matcher {
    names: Arc<SourceNames>,
    /// Version of the names from which `sources` was made.
    names_version: u64,
    sources: HashMap<SourceId, Source>,
    version: u64,
    set: Option<(Arc<Set>, Scratch)>,
    /// Number of each expression of the set, and the records of the batch that it matches.
    found: Vec<(u64, Vec<u32>)>,
    calculated_fields: Arc<[CalculatedField]>,
    hits: Hits,
    draft: RefCell<Draft>,
    dispatcher: Dispatcher,
}

impl Matcher {
    /// Creates a matcher without expressions.
    fn new(names: Arc<SourceNames>) -> Self {
        Self {
            names,
            names_version: 0,
            sources: HashMap::new(),
            version: 0,
            set: None,
            found: Vec::new(),
            calculated_fields: Arc::default(),
            hits: Hits::default(),
            draft: RefCell::default(),
            dispatcher: Dispatcher::default(),
        }
    }

    /// Replaces the set.
    fn change(&mut self, version: u64, set: Option<Arc<Set>>, names: Names, index: Arc<Index>) {
        let known = set.iter().flat_map(|set| &set.expressions);
        self.found = known.map(|(number, _)| (*number, Vec::new())).collect();
        self.set = set.map(|set| {
            let scratch = set.rules.scratch();
            (set, scratch)
        });
        (self.version, self.calculated_fields) = (version, names.calculated_fields);
        self.draft.get_mut().set_renames(names.renames);
        self.dispatcher.change(index);
    }

    /// Gives the records of a batch to readers of envelopes. Called before [`Self::look`].
    fn dispatch(&mut self, batch: &Batch, is_behind: bool) {
        let version = self.names.version();
        if std::mem::replace(&mut self.names_version, version) != version {
            self.sources.clear();
        }
        let id = batch.header().source;
        let source = self.sources.entry(id).or_insert_with(|| {
            let (name, has_envelopes) = self.names.get(id);
            Source { origin: Origin::new(&name), name, has_envelopes }
        });
        self.dispatcher.dispatch(batch, &source.name, source.has_envelopes, is_behind);
    }

    /// Returns the name of the batch's source, and the matches of each expression.
    fn look(&mut self, batch: &Batch) -> (Arc<str>, Vec<Matches>) {
        let Self { sources, set, found, calculated_fields, hits, draft, .. } = self;
        let Some(source) = sources.get_mut(&batch.header().source) else {
            return ("".into(), Vec::new());
        };
        let Some((set, scratch)) = set else { return (source.name.clone(), Vec::new()) };
        source.origin.set_arrival(batch.header().observed_ns);
        let mut look_at =
            |resource: u16, records: &mut dyn Iterator<Item = (u32, RecordView<'_>)>| {
                source.origin.set_resource(batch.resource(resource).encoded);
                let origin = &source.origin;
                let mut pass = set.rules.batch(origin, scratch);
                for (index, view) in records {
                    draft.get_mut().begin(&view);
                    pass.record(
                        &WithCalculatedFields::new(
                            &RecordFields { origin, view, draft },
                            calculated_fields,
                        ),
                        hits,
                    );
                    for rule in hits.iter() {
                        found[rule].1.push(index);
                    }
                }
            };
        if batch.resource_count() < 2 {
            look_at(0, &mut (0..).zip(batch.records()));
        } else {
            // One resource after the other, so that conditions on it are evaluated once for all its
            // records.
            let mut records: Vec<_> = (0..).zip(batch.records()).collect();
            records.sort_by_key(|(_, view)| view.resource());
            for same in records.chunk_by(|(_, a), (_, b)| a.resource() == b.resource()) {
                look_at(same[0].1.resource(), &mut same.iter().copied());
            }
            for (_, indexes) in found.iter_mut() {
                indexes.sort_unstable();
            }
        }
        let is_some = |(_, indexes): &&mut (u64, Vec<u32>)| !indexes.is_empty();
        let taken = found.iter_mut().filter(is_some).map(|(expression, indexes)| {
            let matches = Matches { expression: *expression, indexes: indexes.as_slice().into() };
            indexes.clear();
            matches
        });
        (source.name.clone(), taken.collect())
    }
}
