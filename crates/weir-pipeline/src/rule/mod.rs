//! Rules: where each record is routed, and how it is changed before.
//!
//! Every `when` sees the record as decoded, so the order of rules does not affect what matches.
//! Then the actions of the matching rules run in the order of the configuration, up to the first
//! rule that is `final`; they change the record for all outputs. All this happens once, before the
//! batch is sealed: what a rule discards or hides never reaches a disk.
//!
//! Invariants: every record that is discarded is counted in the stream's book in the same batch; a
//! batch in which nothing changes is only routed, in place; one that would not fit in a frame is
//! returned unchanged ([`TooLarge`]) and read again in smaller pieces.

mod action;
mod changes;
mod draft;
mod generations;
mod redact;
mod stats;
mod switch;
mod template;
mod trial;

use std::cell::RefCell;

use weir_expr::{BatchPass, Expr, Hits, Limits, RuleSet, Scratch};
use weir_host::Clock;
use weir_model::limits::FRAME_BYTES_MAX;
use weir_model::{
    BatchBuilder, DiscardReason, Full, Kinds, RecordKind, SourceBook, StreamId, hash64,
};

use crate::groups::Groups;
pub use action::{Action, BodyFormat, SetValue, Target};
pub use draft::Origin;
pub use generations::{Generations, GenerationsError};
pub use redact::{PRESETS, Pattern, Preset, Redaction, Replacement, Scope};
pub use stats::{RuleMetrics, RuleStats};
pub use switch::RuleSwitch;
pub use template::{Template, TemplateError, field};
pub use trial::{Outcome, Reason, Trial};

use changes::{Changes, write_changes};
pub(crate) use draft::{Draft, RecordFields};
use stats::{SAMPLE_EVERY, Stopwatch, Tally};

/// A validated rule of the configuration.
#[derive(Debug, Clone)]
pub struct RulePlan {
    /// Its name.
    pub name: String,
    /// Which records it applies to.
    pub when: Expr,
    /// Names of the outputs that get these records.
    pub to: Vec<String>,
    /// Later rules are not applied to a matching record.
    pub is_final: bool,
    /// How many of the records to keep.
    pub keep: Keep,
    /// Actions applied to the records, in order.
    pub actions: Vec<Action>,
}

/// How many of the records that match a rule are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keep {
    /// All records.
    All,
    /// This fraction (0 to 1): always the same records, also when they are read again.
    Share(f64),
    /// None: they are discarded, regardless of other rules.
    None,
}

/// The batch does not fit in a frame with what rules add to it: read less at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

impl From<Full> for TooLarge {
    fn from(_: Full) -> Self {
        Self
    }
}

/// The rules of one generation of the configuration, ready to run.
#[derive(Debug)]
pub struct Rules {
    generation: u32,
    set: Option<RuleSet>,
    by_index: Vec<Rule>,
    /// Destinations of records that no rule routes: indexes of cursors, in order.
    default_to: Vec<u16>,
    /// Cursors that do not get records of every kind, with those that they get.
    partial: Vec<(u16, Kinds)>,
    stats: std::sync::Arc<RuleStats>,
}

#[derive(Debug)]
struct Rule {
    /// Indexes of cursors, in order.
    to: Vec<u16>,
    is_final: bool,
    keep: Keep,
    actions: Vec<Action>,
}

/// Working memory of a thread that runs rules, reused from batch to batch.
#[derive(Debug)]
pub struct Workspace {
    origin: Origin,
    draft: RefCell<Draft>,
    hits: Hits,
    /// Buffers of the matcher, and the generation that they belong to.
    scratch: Option<(u32, Scratch)>,
    /// Destinations of the current record.
    to: Vec<u16>,
    /// Records by resource, if a batch has several.
    by_resource: Groups,
    tally: Tally,
    /// Number of records so far, to sample one in many.
    seen: u64,
    /// Discarded records, empty if there are none.
    discarded: Vec<(usize, DiscardReason)>,
    changes: Changes,
    spare: BatchBuilder,
}

impl Workspace {
    /// Creates working memory for records of a source.
    pub fn new(source: &str) -> Self {
        Self {
            origin: Origin::new(source),
            draft: RefCell::default(),
            hits: Hits::default(),
            scratch: None,
            to: Vec::new(),
            by_resource: Groups::default(),
            tally: Tally::default(),
            seen: 0,
            discarded: Vec::new(),
            changes: Changes::default(),
            spare: BatchBuilder::new(weir_model::Position::default()),
        }
    }
}

/// The batch that rules are applied to.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The records with their resources.
    pub batch: &'a mut BatchBuilder,
    /// The stream of the records.
    pub stream: StreamId,
    /// The counts of the stream, which include these records.
    pub book: &'a mut SourceBook,
    /// When they were received, nanoseconds since 1970: what the batch is sealed with.
    pub observed_ns: i64,
    /// The clock, to measure the cost of rules.
    pub clock: &'a dyn Clock,
    /// Records are truncated to fit, since they cannot be read again in smaller pieces.
    pub must_fit: bool,
}

impl Rules {
    /// Compiles the rules. `cursor_of` returns the cursor index of an output; `default_to` are the
    /// indexes of the outputs for records that no rule routes.
    pub fn new(
        generation: u32,
        plans: &[RulePlan],
        default_to: &[usize],
        cursor_of: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, weir_expr::CompileError> {
        let expressions: Vec<weir_expr::Rule> = plans
            .iter()
            .map(|plan| weir_expr::Rule { name: plan.name.clone(), when: plan.when.clone() })
            .collect();
        let set = if plans.is_empty() {
            None
        } else {
            Some(RuleSet::compile(&expressions, Limits::default())?)
        };
        let by_index = plans
            .iter()
            .map(|plan| Rule {
                to: in_order(plan.to.iter().filter_map(|name| cursor_of(name))),
                is_final: plan.is_final,
                keep: plan.keep,
                actions: plan.actions.clone(),
            })
            .collect();
        let stats = std::sync::Arc::new(RuleStats::new(plans.iter().map(|plan| plan.name.clone())));
        let default_to = in_order(default_to.iter().copied());
        Ok(Self { generation, set, by_index, default_to, partial: Vec::new(), stats })
    }

    /// Creates an empty set of rules: everything goes to the outputs with these cursor indexes.
    pub fn to_all(generation: u32, cursors: impl IntoIterator<Item = usize>) -> Self {
        let default_to = in_order(cursors.into_iter());
        let stats = std::sync::Arc::new(RuleStats::new([]));
        let (by_index, partial) = (Vec::new(), Vec::new());
        Self { generation, set: None, by_index, default_to, partial, stats }
    }

    /// Routes to these cursors only records of these kinds. One that would go to nothing else is
    /// treated as if no rule routed it.
    #[must_use]
    pub fn with_partial(self, partial: impl IntoIterator<Item = (usize, Kinds)>) -> Self {
        let narrow = |(cursor, kinds)| Some((u16::try_from(cursor).ok()?, kinds));
        Self { partial: partial.into_iter().filter_map(narrow).collect(), ..self }
    }

    /// Returns the generation number, for the frame header.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Continues the statistics of the rules that were in force before.
    fn continue_from(&mut self, earlier: &Self, now_ns: i64) {
        if let Some(stats) = std::sync::Arc::get_mut(&mut self.stats) {
            stats.continue_from(&earlier.stats, now_ns);
        }
    }

    /// Returns the statistics of the rules.
    pub fn stats(&self) -> &std::sync::Arc<RuleStats> {
        &self.stats
    }

    /// Routes the records of a batch, whose resources are set, and applies the rules to them; must
    /// be called right before the batch is sealed. On [`TooLarge`], neither the batch nor the book
    /// was changed.
    pub fn apply(&self, work: &mut Workspace, subject: &mut Subject<'_>) -> Result<(), TooLarge> {
        subject.batch.route_all(&self.default_to);
        if subject.batch.record_count() == 0 {
            return Ok(());
        }
        work.discarded.clear();
        if !self.partial.is_empty() {
            self.route_by_kind(work, subject)?;
        }
        let Some(set) = &self.set else {
            discard(work, subject);
            return Ok(());
        };
        work.discarded.clear();
        work.changes.clear();
        work.tally.clear(self.by_index.len());
        work.tally.records = subject.batch.record_count() as u64;
        work.origin.set_arrival(subject.observed_ns);
        self.records(set, work, subject)?;
        if work.changes.is_empty() {
            discard(work, subject);
        } else {
            write_changes(work, subject)?;
            count_discarded(work, subject);
        }
        self.stats.add(&work.tally, subject.clock.unix_ns());
        Ok(())
    }

    /// Routes each record to those of the default outputs that carry it.
    fn route_by_kind(
        &self,
        work: &mut Workspace,
        subject: &mut Subject<'_>,
    ) -> Result<(), TooLarge> {
        for index in 0..subject.batch.record_count() {
            let kind = subject.batch.record(index).kind();
            work.to.clear();
            work.to.extend_from_slice(&self.default_to);
            self.keep_carrying(kind, &mut work.to);
            if work.to.is_empty() && self.set.is_none() {
                work.discarded.push((index, DiscardReason::Unrouted));
            } else if work.to.len() < self.default_to.len() {
                subject.batch.route(index, &work.to)?;
            }
        }
        Ok(())
    }

    /// Removes destinations that do not carry records of this kind.
    fn keep_carrying(&self, kind: RecordKind, to: &mut Vec<u16>) {
        if !self.partial.is_empty() {
            to.retain(|cursor| self.carries(*cursor, kind));
        }
    }

    /// Returns whether a destination gets records of this kind.
    fn carries(&self, cursor: u16, kind: RecordKind) -> bool {
        let partial = self.partial.iter().find(|(partial, _)| *partial == cursor);
        partial.is_none_or(|(_, kinds)| kinds.contains(kind))
    }

    fn records(
        &self,
        set: &RuleSet,
        work: &mut Workspace,
        subject: &mut Subject<'_>,
    ) -> Result<(), TooLarge> {
        let scratch = work.scratch.take().filter(|(generation, _)| *generation == self.generation);
        let mut scratch = scratch.map_or_else(|| set.scratch(), |(_, scratch)| scratch);
        let matched = if subject.batch.resource_count() < 2 {
            let indexes = 0..subject.batch.record_count();
            self.records_of(0, indexes, &mut (set, &mut scratch), work, subject)
        } else {
            self.records_by_resource(&mut (set, &mut scratch), work, subject)
        };
        work.scratch = Some((self.generation, scratch));
        matched
    }

    /// One resource after the other, so that conditions on it are evaluated once for all its
    /// records.
    fn records_by_resource(
        &self,
        matcher: &mut (&RuleSet, &mut Scratch),
        work: &mut Workspace,
        subject: &mut Subject<'_>,
    ) -> Result<(), TooLarge> {
        let mut groups = std::mem::take(&mut work.by_resource);
        let batch = &*subject.batch;
        groups.group(batch.record_count(), |index| usize::from(batch.resource_of(index)));
        let mut matched = Ok(());
        for number in 0..groups.len() {
            let indexes = groups.items(number);
            if indexes.len() > 0 && matched.is_ok() {
                matched = self.records_of(number as u16, indexes, matcher, work, subject);
            }
        }
        work.by_resource = groups;
        work.discarded.sort_unstable_by_key(|(index, _)| *index);
        work.changes.sort();
        matched
    }

    /// Matches the records of one resource.
    fn records_of(
        &self,
        resource: u16,
        indexes: impl Iterator<Item = usize>,
        (set, scratch): &mut (&RuleSet, &mut Scratch),
        work: &mut Workspace,
        subject: &mut Subject<'_>,
    ) -> Result<(), TooLarge> {
        work.origin.set_resource(subject.batch.resource_at(resource).encoded);
        let mut pass = set.batch(&work.origin, scratch);
        for index in indexes {
            self.record(&mut pass, work, subject, index)?;
            if work.changes.bytes() > FRAME_BYTES_MAX && !subject.must_fit {
                return Err(TooLarge);
            }
        }
        Ok(())
    }

    /// Matches one record, routes it and changes its draft.
    fn record(
        &self,
        pass: &mut BatchPass<'_>,
        work: &mut Workspace,
        subject: &mut Subject<'_>,
        index: usize,
    ) -> Result<(), TooLarge> {
        let view = subject.batch.record(index);
        work.draft.get_mut().begin(&view);
        let fields = RecordFields { origin: &work.origin, view, draft: &work.draft };
        work.seen += 1;
        if work.seen.is_multiple_of(SAMPLE_EVERY) {
            let mut stopwatch = Stopwatch { clock: subject.clock, stats: &self.stats };
            pass.record_metered(&fields, &mut work.hits, &mut stopwatch);
        } else {
            pass.record(&fields, &mut work.hits);
        }
        if work.hits.is_empty() {
            self.unrouted(work, index, view.kind());
            return Ok(());
        }
        let draft = work.draft.get_mut();
        work.to.clear();
        let mut routes = 0;
        for hit in work.hits.iter() {
            let rule = &self.by_index[hit];
            work.tally.hits[hit] += 1;
            if let Some(reason) = rule.discards(subject.stream, view.position) {
                work.discarded.push((index, reason));
                return Ok(());
            }
            work.to.extend_from_slice(&rule.to);
            routes += usize::from(!rule.to.is_empty());
            for action in &rule.actions {
                let fits = action.apply(&work.origin, &view, draft);
                work.tally.unparsed[hit] += u64::from(!fits);
            }
            if rule.is_final {
                break;
            }
        }
        if draft.is_changed(&view) {
            work.changes.note(index, draft, &work.origin);
        }
        if routes > 1 {
            work.to.sort_unstable();
            work.to.dedup();
        }
        let kind = view.kind();
        self.keep_carrying(kind, &mut work.to);
        if work.to.is_empty() {
            self.unrouted(work, index, kind);
        } else {
            subject.batch.route(index, &work.to)?;
        }
        Ok(())
    }

    /// Sends a record that no rule routes to the default outputs, or discards and counts it.
    fn unrouted(&self, work: &mut Workspace, index: usize, kind: RecordKind) {
        work.tally.unrouted += 1;
        if !self.default_to.iter().any(|cursor| self.carries(*cursor, kind)) {
            work.discarded.push((index, DiscardReason::Unrouted));
        }
    }
}

/// Removes and counts discarded records of a batch in which nothing else changes.
fn discard(work: &Workspace, subject: &mut Subject<'_>) {
    if !work.discarded.is_empty() {
        let mut next = work.discarded.iter().map(|(index, _)| *index).peekable();
        subject.batch.retain(|index| next.next_if_eq(&index).is_none());
    }
    count_discarded(work, subject);
}

fn count_discarded(work: &Workspace, subject: &mut Subject<'_>) {
    for (_, reason) in &work.discarded {
        subject.book.records -= 1;
        subject.book.discard(*reason, 1);
    }
}

impl Rule {
    /// Returns why the record is discarded, if it is.
    fn discards(&self, stream: StreamId, position: weir_model::Position) -> Option<DiscardReason> {
        match self.keep {
            Keep::All => None,
            Keep::None => Some(DiscardReason::Rule),
            Keep::Share(share) => {
                let mut id = [0; 20];
                id[..8].copy_from_slice(&stream.0.to_le_bytes());
                id[8..16].copy_from_slice(&position.offset.to_le_bytes());
                id[16..].copy_from_slice(&position.epoch.to_le_bytes());
                let place = hash64(&id) as f64 / u64::MAX as f64;
                (place >= share).then_some(DiscardReason::Sampled)
            }
        }
    }
}

/// Returns indexes of cursors in the order required by a batch.
fn in_order(cursors: impl Iterator<Item = usize>) -> Vec<u16> {
    let mut cursors: Vec<u16> = cursors.filter_map(|cursor| u16::try_from(cursor).ok()).collect();
    cursors.sort_unstable();
    cursors.dedup();
    cursors
}
