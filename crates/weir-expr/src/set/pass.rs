//! Matching: first what is decided once per batch, then record by record.

use regex_automata::{Input, meta};

use super::field::FieldIndex;
use super::literal::has_folding_exception;
use super::phrase::WordPosition;
use super::plan::{AtomKind, Node, Plan};
use super::regex_group::GroupMatch;
use super::tuning::{RegexGroupTuning, Tuning};
use super::{AtomId, BatchPass, Hits, Meter, RuleId, RuleSet};
use crate::ast::{Field, Test};
use crate::fields::{Constants, Fields};
use crate::value::{canonical, has_phrase, passes};

/// The buffers and caches that one thread needs to match. Created by [`RuleSet::scratch`], and to
/// be used only with that set.
#[derive(Debug)]
pub struct Scratch {
    batch: BatchState,
    record: RecordState,
    message: UnescapedMessage,
    caches: Vec<Option<Box<meta::Cache>>>,
    groups: RegexGroupTuning,
    tuning: Tuning,
    /// Texts of numbers.
    buffer: Vec<u8>,
}

/// What holds for all records of the batch.
#[derive(Debug, Default)]
struct BatchState {
    /// For each atom whether it is true, if that is the same for all records.
    known: Vec<Option<bool>>,
    /// Atoms that are set in `known`.
    decided: Vec<AtomId>,
    /// For each rule whether it must be evaluated record by record.
    alive: Vec<bool>,
    /// Rules that every record matches.
    hits: Vec<RuleId>,
    /// Rules that must be evaluated for every record.
    tried: Vec<RuleId>,
    /// For each field whether it is the same for all records.
    constant: Vec<bool>,
    /// For each field how many undecided rules it triggers.
    triggers_of_field: Vec<u32>,
    /// Fields that trigger undecided rules and differ from record to record.
    trigger_fields: Vec<usize>,
    scanning: u32,
    regex_group: u32,
}

/// What is known about the current record. A mark equal to `stamp` refers to this record, so that
/// nothing needs to be cleared.
#[derive(Debug, Default)]
struct RecordState {
    stamp: u64,
    /// For each atom `stamp * 2 + truth`.
    truth: Vec<u64>,
    /// For each atom the record in which one of its literals was found.
    found: Vec<u64>,
    /// For each rule the record for which it was evaluated.
    tried: Vec<u64>,
    /// For each field the record in which its values were visited.
    visited: Vec<u64>,
    candidates: Vec<AtomId>,
    /// Which literals were searched for.
    scanned: bool,
    scanned_on_demand: bool,
    /// The record for which a rule demanded the literals that are searched for on demand.
    asked: u64,
    regex_group: bool,
}

/// The unescaped message, computed on demand.
#[derive(Debug, Default)]
struct UnescapedMessage {
    plain: Vec<u8>,
    is_made: bool,
}

impl UnescapedMessage {
    fn text<'a>(&'a mut self, raw: &'a [u8], is_plain: bool) -> &'a [u8] {
        if is_plain {
            return raw;
        }
        if !self.is_made {
            self.plain.clear();
            weir_model::unescape_json_into(raw, &mut self.plain);
            self.is_made = true;
        }
        &self.plain
    }
}

impl RecordState {
    fn set(&mut self, atom: AtomId, truth: bool) {
        self.truth[atom as usize] = self.stamp << 1 | u64::from(truth);
    }

    fn get(&self, atom: AtomId) -> Option<bool> {
        let mark = self.truth[atom as usize];
        (mark >> 1 == self.stamp).then_some(mark & 1 == 1)
    }
}

impl Scratch {
    pub(super) fn new(plan: &Plan) -> Self {
        let (atoms, rules, fields) = (plan.atoms.len(), plan.conditions.len(), plan.fields.len());
        Self {
            batch: BatchState {
                known: vec![None; atoms],
                alive: vec![true; rules],
                constant: vec![false; fields],
                triggers_of_field: vec![0; fields],
                ..BatchState::default()
            },
            record: RecordState {
                truth: vec![0; atoms],
                found: vec![0; atoms],
                tried: vec![0; rules],
                visited: vec![0; fields],
                ..RecordState::default()
            },
            message: UnescapedMessage::default(),
            caches: (0..atoms).map(|_| None).collect(),
            groups: RegexGroupTuning::new(plan),
            tuning: Tuning::new(plan),
            buffer: Vec::new(),
        }
    }

    /// Decides what the constants determine.
    pub(super) fn begin_batch(&mut self, plan: &Plan, constants: &dyn Constants) {
        self.record.stamp += 1;
        self.forget_batch(plan);
        for (index, field) in plan.fields.iter().enumerate() {
            self.take_constant(plan, index, field, constants);
        }
        for (index, rules) in plan.rules_of_field.iter().enumerate() {
            if self.batch.constant[index] {
                for rule in rules {
                    self.decide(plan, *rule);
                }
            }
        }
        let batch = &mut self.batch;
        let fields = 0..plan.fields.len();
        batch.trigger_fields.extend(
            fields.filter(|field| !batch.constant[*field] && batch.triggers_of_field[*field] > 0),
        );
    }

    fn forget_batch(&mut self, plan: &Plan) {
        let batch = &mut self.batch;
        for atom in batch.decided.drain(..) {
            batch.known[atom as usize] = None;
        }
        batch.alive.fill(true);
        batch.hits.clear();
        batch.tried.clear();
        batch.tried.extend(&plan.untriggered);
        batch.constant.fill(false);
        batch.trigger_fields.clear();
        batch.triggers_of_field.copy_from_slice(&plan.triggers_of_field);
        batch.scanning = plan.scanning;
        batch.regex_group = plan.regex_group_rules;
    }

    fn take_constant(
        &mut self,
        plan: &Plan,
        index: usize,
        field: &FieldIndex,
        constants: &dyn Constants,
    ) {
        let Self { batch, caches, buffer, .. } = self;
        let mut passed = Vec::new();
        let is_constant = constants.constant(&field.field, &mut |value| {
            let mut search = |atom: AtomId, text: &[u8]| is_found(plan, caches, atom, text);
            field.of_value(value, buffer, &mut search, &mut |atom| passed.push(atom));
        });
        if !is_constant {
            return;
        }
        batch.constant[index] = true;
        for atom in &field.atoms {
            batch.known[*atom as usize] = Some(false);
            batch.decided.push(*atom);
        }
        for atom in passed {
            batch.known[atom as usize] = Some(true);
        }
    }

    /// Removes a rule if the constants decide it.
    fn decide(&mut self, plan: &Plan, rule: RuleId) {
        let tried = &mut self.record.tried[rule as usize];
        if std::mem::replace(tried, self.record.stamp) == self.record.stamp {
            return;
        }
        let condition = &plan.conditions[rule as usize];
        let batch = &mut self.batch;
        match decided(&condition.node, &batch.known) {
            None => {
                let mut triggers = condition.triggers.iter().flatten();
                if triggers.any(|atom| batch.known[*atom as usize] == Some(true)) {
                    batch.tried.push(rule);
                }
            }
            Some(hit) => {
                batch.alive[rule as usize] = false;
                batch.scanning -= u32::from(condition.uses_scan);
                batch.regex_group -= u32::from(condition.uses_regex_group);
                for field in &condition.trigger_fields {
                    batch.triggers_of_field[*field] -= 1;
                }
                if hit {
                    batch.hits.push(rule);
                }
            }
        }
    }
}

/// Returns the value of a condition if the known atoms decide it.
fn decided(node: &Node, known: &[Option<bool>]) -> Option<bool> {
    match node {
        Node::Constant(value) => Some(*value),
        Node::Atom(atom) => known[*atom as usize],
        Node::Not(inner) => decided(inner, known).map(|value| !value),
        Node::And(parts) => decided_parts(parts, known, false),
        Node::Or(parts) => decided_parts(parts, known, true),
    }
}

/// Combines the values of parts: a single part that is `deciding` decides the result; otherwise all
/// parts must be known.
fn decided_parts(parts: &[Node], known: &[Option<bool>], deciding: bool) -> Option<bool> {
    let mut all_known = true;
    for part in parts {
        match decided(part, known) {
            Some(value) if value == deciding => return Some(deciding),
            Some(_) => {}
            None => all_known = false,
        }
    }
    all_known.then_some(!deciding)
}

fn is_found(
    plan: &Plan,
    caches: &mut [Option<Box<meta::Cache>>],
    atom: AtomId,
    text: &[u8],
) -> bool {
    let Some(regexp) = &plan.atoms[atom as usize].regexp else { return false };
    let cache = caches[atom as usize].get_or_insert_with(|| Box::new(regexp.create_cache()));
    regexp.search_half_with(cache, &Input::new(text).earliest(true)).is_some()
}

impl BatchPass<'_> {
    /// Finds the rules that the record matches. Allocates nothing once buffers have grown.
    #[inline]
    pub fn record(&mut self, record: &dyn Fields, hits: &mut Hits) {
        self.run(record, hits, None);
    }

    /// Like [`Self::record`], measuring the time: for a sample of records, because reading the
    /// clock costs more than most rules.
    pub fn record_metered(&mut self, record: &dyn Fields, hits: &mut Hits, meter: &mut dyn Meter) {
        self.run(record, hits, Some(meter));
    }

    fn run(&mut self, record: &dyn Fields, hits: &mut Hits, meter: Option<&mut dyn Meter>) {
        hits.clear();
        let state = &mut self.scratch.record;
        state.stamp += 1;
        state.scanned = false;
        state.scanned_on_demand = false;
        state.regex_group = false;
        state.candidates.clear();
        self.scratch.message.is_made = false;
        let body = record.body();
        let is_plain = !body.json_escaped || memchr::memchr(b'\\', body.bytes).is_none();
        for rule in &self.scratch.batch.hits {
            hits.push(*rule as usize);
        }
        let mut run = RecordPass {
            set: self.set,
            scratch: self.scratch,
            record,
            raw: body.bytes,
            is_plain,
            hits,
        };
        match meter {
            None => run.all(RecordPass::try_rule),
            Some(meter) => {
                let start = meter.now_ns();
                let mut rules_ns = 0;
                run.all(|run, rule| {
                    let before = meter.now_ns();
                    run.try_rule(rule);
                    let took = meter.now_ns().saturating_sub(before);
                    rules_ns += took;
                    meter.rule(rule as usize, took);
                });
                let took = meter.now_ns().saturating_sub(start);
                meter.shared(took.saturating_sub(rules_ns));
            }
        }
        hits.sort();
    }
}

/// The evaluation of one record.
struct RecordPass<'a> {
    set: &'a RuleSet,
    scratch: &'a mut Scratch,
    record: &'a dyn Fields,
    raw: &'a [u8],
    /// The raw message contains no escapes.
    is_plain: bool,
    hits: &'a mut Hits,
}

impl RecordPass<'_> {
    /// Finds what triggers rules, and calls `each` for every triggered rule.
    #[inline]
    fn all(&mut self, mut each: impl FnMut(&mut Self, RuleId)) {
        if self.scratch.batch.scanning > 0 {
            self.scan(false);
            self.trigger(&mut each);
        }
        if self.scratch.batch.regex_group > 0 {
            self.run_regex_group();
            self.trigger(&mut each);
        }
        for index in 0..self.scratch.batch.trigger_fields.len() {
            let field = self.scratch.batch.trigger_fields[index];
            self.visit(field);
            self.trigger(&mut each);
        }
        for index in 0..self.scratch.batch.tried.len() {
            let rule = self.scratch.batch.tried[index];
            self.look_at(rule, &mut each);
        }
    }

    /// Evaluates the rules of the atoms that were found.
    fn trigger(&mut self, each: &mut impl FnMut(&mut Self, RuleId)) {
        let plan = &self.set.plan;
        while let Some(atom) = self.scratch.record.candidates.pop() {
            for rule in &plan.atoms[atom as usize].triggers {
                self.look_at(*rule, each);
            }
        }
    }

    fn look_at(&mut self, rule: RuleId, each: &mut impl FnMut(&mut Self, RuleId)) {
        let state = &mut self.scratch.record;
        if !self.scratch.batch.alive[rule as usize] || state.tried[rule as usize] == state.stamp {
            return;
        }
        state.tried[rule as usize] = state.stamp;
        each(self, rule);
    }

    fn try_rule(&mut self, rule: RuleId) {
        let set = self.set;
        if self.is_true(&set.plan.conditions[rule as usize].node) {
            self.hits.push(rule as usize);
        }
    }

    /// Searches the message for the literals that trigger rules, or for the others.
    fn scan(&mut self, on_demand: bool) {
        let plan = &self.set.plan;
        let Scratch { batch, record: state, message, tuning, groups, .. } = &mut *self.scratch;
        let may_scan_raw = self.is_plain
            || (plan.is_never_escaped && memchr::memmem::find(self.raw, b"\\u").is_none());
        let text = if may_scan_raw { self.raw } else { message.text(self.raw, false) };
        // Next to an escape sequence, word boundaries in the raw text are misleading.
        let is_text = self.is_plain || !may_scan_raw;
        if !on_demand || batch.scanning == 0 {
            tuning.see(text, plan);
            groups.see(plan);
        }
        let scanners = &tuning.scanners;
        state.scanned |= !on_demand || scanners.is_one;
        state.scanned_on_demand |= on_demand || scanners.is_one;
        let scanner =
            if on_demand && !scanners.is_one { &scanners.on_demand } else { &scanners.always };
        scanner.scan(&plan.literals, text, |literal, start| {
            let mut place = None;
            for literal_use in &plan.literal_uses[literal as usize] {
                let atom = literal_use.atom;
                let Some(word) = literal_use.word.filter(|_| is_text) else {
                    if state.found[atom as usize] != state.stamp {
                        state.found[atom as usize] = state.stamp;
                        state.candidates.push(atom);
                    }
                    continue;
                };
                let len = plan.literals[literal as usize].len();
                let place = place.get_or_insert_with(|| WordPosition::new(text, start, len));
                if !place.is_possible(literal_use.adjacent) {
                    continue;
                }
                let Test::Words(phrase) = &plan.atoms[atom as usize].term.test else { continue };
                if place.has_phrase(&phrase.words, word as usize) && state.get(atom).is_none() {
                    state.set(atom, true);
                    state.candidates.push(atom);
                }
            }
        });
        if !plan.folding_exceptions.is_empty() && has_folding_exception(text) {
            for atom in &plan.folding_exceptions {
                state.found[*atom as usize] = state.stamp;
                state.candidates.push(*atom);
            }
        }
    }

    /// Searches the message for all patterns that are searched for together.
    fn run_regex_group(&mut self) {
        let plan = &self.set.plan;
        let Scratch { record: state, message, groups, caches, .. } = &mut *self.scratch;
        if std::mem::replace(&mut state.regex_group, true) {
            return;
        }
        let text = message.text(self.raw, self.is_plain);
        groups.run(text, &mut |found| {
            let (atom, is_match) = match found {
                GroupMatch::Match(atom) => (atom, true),
                GroupMatch::Possible(atom) => (atom, is_found(plan, caches, atom, text)),
            };
            if is_match {
                state.set(atom, true);
                state.candidates.push(atom);
            }
        });
    }

    /// Runs all tests of a field.
    fn visit(&mut self, field: usize) {
        let plan = &self.set.plan;
        let Scratch { record: state, caches, buffer, .. } = &mut *self.scratch;
        if std::mem::replace(&mut state.visited[field], state.stamp) == state.stamp {
            return;
        }
        let index = &plan.fields[field];
        self.record.visit(&index.field, &mut |value| {
            let mut search = |atom: AtomId, text: &[u8]| is_found(plan, caches, atom, text);
            index.of_value(value, buffer, &mut search, &mut |atom| {
                if state.get(atom).is_none() {
                    state.set(atom, true);
                    state.candidates.push(atom);
                }
            });
        });
    }

    fn is_true(&mut self, node: &Node) -> bool {
        match node {
            Node::Constant(value) => *value,
            Node::Atom(atom) => self.atom(*atom),
            Node::Not(inner) => !self.is_true(inner),
            Node::And(parts) => parts.iter().all(|part| self.is_true(part)),
            Node::Or(parts) => parts.iter().any(|part| self.is_true(part)),
        }
    }

    fn atom(&mut self, atom: AtomId) -> bool {
        if let Some(known) = self.scratch.batch.known[atom as usize] {
            return known;
        }
        let set = self.set;
        let data = &set.plan.atoms[atom as usize];
        if data.is_on_demand {
            self.ask();
        }
        if let Some(truth) = self.scratch.record.get(atom) {
            return truth;
        }
        let truth = match data.kind {
            AtomKind::Prefiltered => {
                let state = &self.scratch.record;
                let is_scanned = state.scanned || data.is_on_demand;
                let is_possible = !is_scanned || state.found[atom as usize] == state.stamp;
                is_possible && self.prefiltered_passes(atom)
            }
            AtomKind::Message => self.message_passes(atom),
            AtomKind::Any => self.message_passes(atom) || self.any_passes(atom),
            AtomKind::RegexGroup => {
                self.run_regex_group();
                self.scratch.record.get(atom) == Some(true)
            }
            AtomKind::Field(field) => {
                self.visit(field);
                self.scratch.record.get(atom) == Some(true)
            }
        };
        self.scratch.record.set(atom, truth);
        truth
    }

    /// Searches for the on-demand literals, once per record.
    fn ask(&mut self) {
        let state = &mut self.scratch.record;
        if std::mem::replace(&mut state.asked, state.stamp) == state.stamp {
            return;
        }
        let is_scanned = state.scanned_on_demand;
        self.scratch.tuning.ask();
        if !is_scanned {
            self.scan(true);
        }
    }

    /// Evaluates a test for which a literal was found.
    fn prefiltered_passes(&mut self, atom: AtomId) -> bool {
        if self.scratch.groups.has(atom) {
            self.run_regex_group();
            return self.scratch.record.get(atom) == Some(true);
        }
        let passes = self.message_passes(atom);
        if !passes {
            self.scratch.groups.missed(atom);
        }
        passes
    }

    fn message_passes(&mut self, atom: AtomId) -> bool {
        let plan = &self.set.plan;
        let Scratch { message, caches, .. } = &mut *self.scratch;
        let text = message.text(self.raw, self.is_plain);
        match &plan.atoms[atom as usize].term.test {
            Test::Exists => !text.is_empty(),
            Test::Words(phrase) => has_phrase(text, &phrase.words),
            Test::Regexp(_) => is_found(plan, caches, atom, text),
            _ => false,
        }
    }

    fn any_passes(&mut self, atom: AtomId) -> bool {
        let plan = &self.set.plan;
        let Scratch { caches, buffer, .. } = &mut *self.scratch;
        let test = &plan.atoms[atom as usize].term.test;
        let mut any = false;
        self.record.visit(&Field::Any, &mut |value| {
            any = any
                || match test {
                    Test::Regexp(_) => canonical(&Field::Any, value)
                        .text(buffer)
                        .is_some_and(|text| is_found(plan, caches, atom, text)),
                    test => passes(&Field::Any, test, value, buffer),
                };
        });
        any
    }
}
