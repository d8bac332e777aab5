//! Rules: where each record goes, and what is changed in it before.
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
use weir_model::limits::{ATTRIBUTES_BYTES_MAX, FRAME_BYTES_MAX};
use weir_model::{
    BatchBuilder, DiscardReason, Full, RecordFlags, RecordView, SourceBook, StreamId, hash64,
};

pub use action::{Action, BodyFormat, SetValue, Target};
pub use draft::Origin;
pub use generations::{Generations, GenerationsError};
pub use redact::{PRESETS, Pattern, Preset, Redaction, Replacement, Scope};
pub use stats::{RuleMetrics, RuleStats};
pub use switch::RuleSwitch;
pub use template::{Template, TemplateError, field};
pub use trial::{Outcome, Reason, Trial};

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
    /// None: they are discarded, whatever other rules say.
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
    order: Vec<u32>,
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
            order: Vec::new(),
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
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Records are truncated to fit, since they cannot be read again in smaller pieces.
    pub must_fit: bool,
}

/// The changes that rules made to records of a batch.
#[derive(Debug, Default)]
struct Changes {
    bytes: Vec<u8>,
    records: Vec<Changed>,
}

#[derive(Debug)]
struct Changed {
    index: usize,
    /// The new message in `bytes`; `None` if unchanged.
    message: Option<std::ops::Range<usize>>,
    /// The new attributes in `bytes`; `None` if unchanged.
    attributes: Option<std::ops::Range<usize>>,
    /// The new resource in `bytes`; `None` if unchanged.
    resource: Option<std::ops::Range<usize>>,
    severity: weir_model::Severity,
    timestamp_ns: i64,
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
        Ok(Self { generation, set, by_index, default_to, stats })
    }

    /// Creates an empty set of rules: everything goes to the outputs with these cursor indexes.
    pub fn to_all(generation: u32, cursors: impl IntoIterator<Item = usize>) -> Self {
        let default_to = in_order(cursors.into_iter());
        let stats = std::sync::Arc::new(RuleStats::new([]));
        Self { generation, set: None, by_index: Vec::new(), default_to, stats }
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
        let Some(set) = &self.set else { return Ok(()) };
        if subject.batch.record_count() == 0 {
            return Ok(());
        }
        work.discarded.clear();
        work.changes.bytes.clear();
        work.changes.records.clear();
        work.tally.clear(self.by_index.len());
        work.tally.records = subject.batch.record_count() as u64;
        self.records(set, work, subject)?;
        if !work.changes.records.is_empty() {
            write_changes(work, subject)?;
        } else if !work.discarded.is_empty() {
            let mut next = work.discarded.iter().map(|(index, _)| *index).peekable();
            subject.batch.retain(|index| next.next_if_eq(&index).is_none());
        }
        for (_, reason) in &work.discarded {
            subject.book.records -= 1;
            subject.book.discard(*reason, 1);
        }
        self.stats.add(&work.tally, subject.clock.unix_ns());
        Ok(())
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
        let mut order = std::mem::take(&mut work.order);
        order.clear();
        order.extend(0..subject.batch.record_count() as u32);
        order.sort_by_key(|index| subject.batch.resource_of(*index as usize));
        let mut rest = &order[..];
        let mut matched = Ok(());
        while let Some(first) = rest.first().filter(|_| matched.is_ok()) {
            let number = subject.batch.resource_of(*first as usize);
            let is_of = |index: &u32| subject.batch.resource_of(*index as usize) == number;
            let (same, others) = rest.split_at(rest.partition_point(is_of));
            rest = others;
            let indexes = same.iter().map(|index| *index as usize);
            matched = self.records_of(number, indexes, matcher, work, subject);
        }
        work.order = order;
        work.discarded.sort_unstable_by_key(|(index, _)| *index);
        work.changes.records.sort_unstable_by_key(|change| change.index);
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
            if work.changes.bytes.len() > FRAME_BYTES_MAX && !subject.must_fit {
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
            self.unrouted(work, index);
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
        if work.to.is_empty() {
            self.unrouted(work, index);
        } else {
            subject.batch.route(index, &work.to)?;
        }
        Ok(())
    }

    /// Sends a record that no rule routes to the default outputs, or discards and counts it.
    fn unrouted(&self, work: &mut Workspace, index: usize) {
        work.tally.unrouted += 1;
        if self.default_to.is_empty() {
            work.discarded.push((index, DiscardReason::Unrouted));
        }
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

impl Changes {
    fn note(&mut self, index: usize, draft: &mut Draft, origin: &Origin) {
        let message = draft.changed_message().map(|message| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(message);
            start..self.bytes.len()
        });
        let attributes = draft.are_attributes_changed.then(|| {
            let start = self.bytes.len();
            draft.own.write_json(&mut self.bytes);
            while self.bytes.len() - start > ATTRIBUTES_BYTES_MAX {
                self.bytes.truncate(start);
                draft.own.cut_in_half();
                draft.own.write_json(&mut self.bytes);
            }
            start..self.bytes.len()
        });
        let resource = draft.changed_resource(origin).map(|resource| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&resource);
            start..self.bytes.len()
        });
        let (severity, timestamp_ns) = (draft.severity, draft.timestamp_ns);
        self.records.push(Changed { index, message, attributes, resource, severity, timestamp_ns });
    }
}

/// Rewrites the batch with the changes and without discarded records: of the block that was read,
/// only the bodies and attributes of the records remain, and the originals of unchanged records.
fn write_changes(work: &mut Workspace, subject: &mut Subject<'_>) -> Result<(), TooLarge> {
    let old = &mut *subject.batch;
    let mut written = write_records(work, old, false);
    if written.is_err() && subject.must_fit {
        written = write_records(work, old, true);
    }
    subject.book.truncated += written?;
    std::mem::swap(old, &mut work.spare);
    Ok(())
}

/// Space for the columns of a record.
const ROW_BYTES: usize = 64;

/// Writes all records to the spare builder. With `is_cut`, no record grows at the expense of later
/// ones, and originals are dropped, so that all fit. Returns how many records were truncated.
fn write_records(work: &mut Workspace, old: &BatchBuilder, is_cut: bool) -> Result<u64, TooLarge> {
    let Workspace { spare, discarded, changes, .. } = work;
    spare.rewrite_of(old);
    let mut discarded = discarded.iter().map(|(index, _)| *index).peekable();
    let mut changed = changes.records.iter().peekable();
    let bytes_of = |index| {
        let view = old.record(index);
        view.body.len() + view.attributes.len() + id_bytes(&view) + ROW_BYTES
    };
    let mut later: usize = (0..old.record_count()).filter(|_| is_cut).map(bytes_of).sum();
    let mut cut_count = 0;
    for index in 0..old.record_count() {
        let change = changed.next_if(|change| change.index == index);
        if is_cut {
            later -= bytes_of(index);
        }
        if discarded.next_if_eq(&index).is_some() {
            continue;
        }
        let mut view = old.record(index);
        if let Some(change) = change {
            change.apply(&changes.bytes, &mut view);
        }
        if is_cut {
            let kept = later + id_bytes(&view) + ROW_BYTES;
            cut_count += u64::from(cut(&mut view, spare.room().saturating_sub(kept)));
        }
        let original = if is_cut || change.is_some() { &[] } else { view.original() };
        let resource = change.and_then(|change| change.resource.clone());
        let resource = match resource.map(|span| &changes.bytes[span]) {
            // Nothing is truncated for it.
            Some(encoded) if !is_cut || fits(spare, &view, later + encoded.len()) => {
                spare.resource(old.resource_at(view.resource()).key, encoded)
            }
            _ => Ok(view.resource()),
        };
        let resource = if is_cut { resource.unwrap_or(view.resource()) } else { resource? };
        spare.copy(&view, original, resource)?;
        spare.route_as(old, index);
    }
    Ok(cut_count)
}

impl Changed {
    fn apply<'a>(&self, bytes: &'a [u8], view: &mut RecordView<'a>) {
        if let Some(span) = &self.message {
            view.body = &bytes[span.clone()];
            // The message is stored without escapes.
            view.flags = of_body(view.body, view.flags.without(RecordFlags::JSON_ESCAPED));
        }
        if let Some(span) = &self.attributes {
            view.attributes = &bytes[span.clone()];
        }
        (view.severity, view.timestamp_ns) = (self.severity, self.timestamp_ns);
    }
}

/// Truncates a record to `room` bytes: drops all attributes, then the end of the body. Returns true
/// if something was dropped.
fn cut(view: &mut RecordView<'_>, room: usize) -> bool {
    let bytes = view.body.len() + view.attributes.len();
    if bytes <= room {
        return false;
    }
    if view.attributes.len() > room {
        view.attributes = &[];
    }
    let keep = weir_codec::cut_body(view.body, view.flags, room - view.attributes.len());
    view.body = &view.body[..keep];
    view.flags = of_body(view.body, view.flags.with(RecordFlags::TRUNCATED));
    true
}

/// Returns true if there is room for the record and `beside` more bytes.
fn fits(spare: &BatchBuilder, view: &RecordView<'_>, beside: usize) -> bool {
    let bytes = view.body.len() + view.attributes.len() + id_bytes(view);
    bytes + beside + 2 * ROW_BYTES <= spare.room()
}

/// Returns the size of what is never truncated.
fn id_bytes(view: &RecordView<'_>) -> usize {
    view.process_id().len() + view.message_id().len()
}

/// Returns the flags of a record with another body, which may no longer be an object.
fn of_body(body: &[u8], flags: RecordFlags) -> RecordFlags {
    if flags.contains(RecordFlags::JSON_OBJECT) && !weir_codec::is_json_object(body) {
        flags.without(RecordFlags::JSON_OBJECT)
    } else {
        flags
    }
}

/// Returns indexes of cursors in the order required by a batch.
fn in_order(cursors: impl Iterator<Item = usize>) -> Vec<u16> {
    let mut cursors: Vec<u16> = cursors.filter_map(|cursor| u16::try_from(cursor).ok()).collect();
    cursors.sort_unstable();
    cursors.dedup();
    cursors
}
