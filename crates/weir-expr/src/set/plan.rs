//! The compiled form of the rules: each distinct term once (an atom), each rule as a tree over
//! atoms, and for each rule the atoms without which it cannot match (its triggers).
//!
//! A record is first searched for all triggers at once; only rules with a trigger that occurs are
//! evaluated. So rules that do not match cost nothing, whatever their number and order.
//!
//! Invariant: the order of rules affects only their numbers. Atoms, literals and fields are
//! numbered in an order derived from the content of the rules, so that tables, automata and memory
//! layout are the same for the same rules in any order.

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::meta;

use super::field::FieldIndex;
use super::literal::{self, Literal};
use super::phrase;
use super::prefilter::Prefilter;
use super::regex_group::RegexGroup;
use super::scan::Scanner;
use super::{AtomId, Limits, Rule, RuleId};
use crate::ast::{Expr, ExprKind, Field, Reserved, Span, Term, Test};
use crate::error::CompileError;
use crate::glob::Glob;
use crate::limits::{REGEXP_CACHE_BYTES, RULE_CACHE_BYTES_MIN, RULE_SET_CACHE_BYTES_MAX};

/// Minimum length of a literal used to find a regexp. Regexps without one are cheaper together.
const REGEXP_LITERAL_BYTES_MIN: usize = 4;

/// A term that occurs in at least one rule.
#[derive(Debug)]
pub(super) struct Atom {
    pub(super) term: Term,
    pub(super) kind: AtomKind,
    pub(super) regexp: Option<meta::Regex>,
    /// Rules that are evaluated when this is true.
    pub(super) triggers: Vec<RuleId>,
    /// Its literals are searched for only on demand, because they do not trigger any rule.
    pub(super) is_on_demand: bool,
}

/// How an atom is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtomKind {
    /// A search of the message that can only succeed where one of its literals occurs.
    Prefiltered,
    /// A regexp over the message without a literal: searched for together with the others.
    RegexGroup,
    /// Another test of the message.
    Message,
    /// A test of the field with this number.
    Field(usize),
    /// A search of all fields.
    Any,
}

/// A rule's condition over atoms.
#[derive(Debug)]
pub(super) enum Node {
    Constant(bool),
    Atom(AtomId),
    Not(Box<Node>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
}

/// An atom that uses a literal.
#[derive(Debug, Clone, Copy)]
pub(super) struct LiteralUse {
    pub(super) atom: AtomId,
    /// The literal is this word of a phrase without wildcards: whether the phrase occurs there is
    /// checked by comparing the adjacent words.
    pub(super) word: Option<u32>,
    /// The adjacent word: of many phrases with the same word, few also have this one.
    pub(super) adjacent: AdjacentWord,
}

/// The hash of an adjacent word; see [`phrase::hash`].
#[derive(Debug, Clone, Copy)]
pub(super) enum AdjacentWord {
    Nothing,
    Next(u32),
    Previous(u32),
}

impl AdjacentWord {
    fn of(words: &[Glob], index: usize) -> Self {
        let hash = |word: &Glob| word.as_text().map(|text| phrase::hash(text.as_bytes()));
        let previous = index.checked_sub(1).and_then(|before| words.get(before));
        match (words.get(index + 1).and_then(hash), previous.and_then(hash)) {
            (Some(next), _) => Self::Next(next),
            (None, Some(previous)) => Self::Previous(previous),
            (None, None) => Self::Nothing,
        }
    }
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) node: Node,
    /// Atoms of which at least one is true whenever the rule matches; `None` if there are none.
    pub(super) triggers: Option<Vec<AtomId>>,
    /// Whether each message must be searched for literals while the rule is undecided.
    pub(super) uses_scan: bool,
    pub(super) uses_regex_group: bool,
    /// Fields whose tests trigger it, without duplicates.
    pub(super) trigger_fields: Vec<usize>,
}

/// The compiled rules.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) atoms: Vec<Atom>,
    pub(super) conditions: Vec<Condition>,
    pub(super) fields: Vec<FieldIndex>,
    /// For each field the rules that test it.
    pub(super) rules_of_field: Vec<Vec<RuleId>>,
    pub(super) literals: Vec<Literal>,
    /// Whether no literal has a byte that JSON may escape with one letter.
    pub(super) is_never_escaped: bool,
    /// For each literal.
    pub(super) literal_uses: Vec<Vec<LiteralUse>>,
    pub(super) prefilters: Vec<Prefilter>,
    /// Atoms whose literals have letters to which two non-ASCII characters fold.
    pub(super) folding_exceptions: Vec<AtomId>,
    pub(super) regex_group: Arc<RegexGroup>,
    /// Rules without triggers.
    pub(super) untriggered: Vec<RuleId>,
    /// For each field how many rules it triggers.
    pub(super) triggers_of_field: Vec<u32>,
    /// How many rules require the message to be searched for literals.
    pub(super) scanning: u32,
    /// How many rules the automaton triggers.
    pub(super) regex_group_rules: u32,
}

/// Compiles the rules one after the other.
#[derive(Default)]
struct Compiler {
    atoms: Vec<Atom>,
    atom_ids: HashMap<String, AtomId>,
    fields: Vec<FieldIndex>,
    rules_of_field: Vec<Vec<RuleId>>,
    literals: Vec<Literal>,
    literal_ids: HashMap<Literal, u32>,
    literal_uses: Vec<Vec<LiteralUse>>,
    prefilters: Vec<Prefilter>,
    folding_exceptions: Vec<AtomId>,
    regex_group: Vec<AtomId>,
    regexp_bytes: usize,
    regexp_bytes_max: usize,
    /// What each regexp may cache in each thread.
    cache_bytes: usize,
}

impl Plan {
    pub(super) fn compile(rules: &[Rule], limits: Limits) -> Result<Self, CompileError> {
        let conditions: Vec<Expr> = rules.iter().map(|rule| rule.when.normalized()).collect();
        let as_written: Vec<usize> = (0..rules.len()).collect();
        let mut by_text = as_written.clone();
        by_text.sort_by_cached_key(|id| conditions[*id].to_string());
        Self::in_order(rules, &conditions, &by_text, limits)
            // Report the error that comes first in the order in which the rules were configured.
            .or_else(|_| Self::in_order(rules, &conditions, &as_written, limits))
    }

    /// Compiles the rules one after another in this order; their numbers do not change.
    fn in_order(
        rules: &[Rule],
        normal: &[Expr],
        order: &[usize],
        limits: Limits,
    ) -> Result<Self, CompileError> {
        let regexp_bytes_max = limits.regexp_bytes;
        let regexps = normal.iter().map(Expr::regexp_count).sum::<usize>().max(1);
        let share = RULE_SET_CACHE_BYTES_MAX / regexps;
        let cache_bytes = share.clamp(RULE_CACHE_BYTES_MIN, REGEXP_CACHE_BYTES);
        let mut compiler = Compiler { regexp_bytes_max, cache_bytes, ..Compiler::default() };
        let mut compiled = Vec::with_capacity(rules.len());
        for id in order {
            let rule = &rules[*id];
            let node = compiler.node(rule, &normal[*id])?;
            compiled.push((*id, compiler.condition(node, *id as RuleId)));
        }
        let none = |(_, condition): &&(usize, Condition)| condition.triggers.is_none();
        let untriggered = compiled.iter().filter(none).map(|(id, _)| *id as RuleId).collect();
        compiled.sort_by_key(|(id, _)| *id);
        let conditions = compiled.into_iter().map(|(_, condition)| condition).collect();
        Ok(compiler.plan(conditions, untriggered))
    }
}

impl Compiler {
    fn plan(mut self, conditions: Vec<Condition>, untriggered: Vec<RuleId>) -> Plan {
        self.decide_what_is_on_demand(&conditions, &untriggered);
        let regex_group = Arc::new(RegexGroup::new(&self.regex_group, &self.atoms));
        let mut triggers_of_field = vec![0; self.fields.len()];
        for field in conditions.iter().flat_map(|condition| &condition.trigger_fields) {
            triggers_of_field[*field] += 1;
        }
        let count = |test: fn(&Condition) -> bool| {
            conditions.iter().filter(|condition| test(condition)).count() as u32
        };
        Plan {
            scanning: count(|condition| condition.uses_scan),
            regex_group_rules: count(|condition| condition.uses_regex_group),
            triggers_of_field,
            atoms: self.atoms,
            conditions,
            fields: self.fields,
            rules_of_field: self.rules_of_field,
            is_never_escaped: self.literals.iter().all(Literal::is_never_escaped),
            literals: self.literals,
            literal_uses: self.literal_uses,
            prefilters: self.prefilters,
            folding_exceptions: self.folding_exceptions,
            regex_group,
            untriggered,
        }
    }

    /// Searches on demand for literals that do not trigger a rule. Rules without triggers always
    /// demand them.
    fn decide_what_is_on_demand(&mut self, conditions: &[Condition], untriggered: &[RuleId]) {
        let mut asked = Vec::new();
        for rule in untriggered {
            collect(&conditions[*rule as usize].node, &mut asked);
        }
        for atom in &mut self.atoms {
            atom.is_on_demand = atom.kind == AtomKind::Prefiltered && atom.triggers.is_empty();
        }
        for atom in asked {
            self.atoms[atom as usize].is_on_demand = false;
        }
        for prefilter in &mut self.prefilters {
            prefilter.is_on_demand = self.atoms[prefilter.atom as usize].is_on_demand;
        }
    }

    fn node(&mut self, rule: &Rule, expr: &Expr) -> Result<Node, CompileError> {
        Ok(match &expr.kind {
            ExprKind::All => Node::Constant(true),
            ExprKind::Not(inner) => match self.node(rule, inner)? {
                Node::Constant(value) => Node::Constant(!value),
                inner => Node::Not(Box::new(inner)),
            },
            ExprKind::And(parts) => Node::And(self.nodes(rule, parts)?),
            ExprKind::Or(parts) => Node::Or(self.nodes(rule, parts)?),
            ExprKind::Term(term) => match &term.test {
                Test::Words(phrase) if phrase.words.is_empty() && term.field == Field::Message => {
                    Node::Constant(true)
                }
                _ => Node::Atom(self.atom(rule, term, expr.span)?),
            },
        })
    }

    /// Compiles the parts, cheap ones first, since they often make the others unnecessary.
    fn nodes(&mut self, rule: &Rule, parts: &[Expr]) -> Result<Box<[Node]>, CompileError> {
        let nodes: Result<Vec<Node>, CompileError> =
            parts.iter().map(|part| self.node(rule, part)).collect();
        let mut nodes = nodes?;
        nodes.sort_by_key(|node| self.cost_of_node(node));
        Ok(nodes.into())
    }

    fn atom(&mut self, rule: &Rule, term: &Term, span: Span) -> Result<AtomId, CompileError> {
        let key = format!("{term:?}");
        if let Some(id) = self.atom_ids.get(&key) {
            return Ok(*id);
        }
        let id = self.atoms.len() as AtomId;
        let regexp = match &term.test {
            Test::Regexp(regexp) => Some(regexp.compile(self.cache_bytes).map_err(|message| {
                let (rule, pattern) = (rule.name.clone(), regexp.pattern.clone());
                CompileError::Regexp { rule, span, pattern, message }
            })?),
            _ => None,
        };
        self.regexp_bytes += regexp.as_ref().map_or(0, meta::Regex::memory_usage);
        if self.regexp_bytes > self.regexp_bytes_max {
            let (bytes, max) = (self.regexp_bytes, self.regexp_bytes_max);
            return Err(CompileError::TooLarge { rule: rule.name.clone(), bytes, max });
        }
        let kind = self.kind(term, id);
        self.atoms.push(Atom {
            term: term.clone(),
            kind,
            regexp,
            triggers: Vec::new(),
            is_on_demand: false,
        });
        self.atom_ids.insert(key, id);
        Ok(id)
    }

    fn kind(&mut self, term: &Term, id: AtomId) -> AtomKind {
        match term.field {
            Field::Any => AtomKind::Any,
            Field::Message => self.message_kind(&term.test, id),
            _ => {
                let known = self.fields.iter().position(|index| index.field == term.field);
                let index = known.unwrap_or_else(|| {
                    self.fields.push(FieldIndex::new(term.field.clone()));
                    self.rules_of_field.push(Vec::new());
                    self.fields.len() - 1
                });
                self.fields[index].insert(id, &term.test);
                AtomKind::Field(index)
            }
        }
    }

    fn message_kind(&mut self, test: &Test, id: AtomId) -> AtomKind {
        match test {
            Test::Regexp(regexp) => {
                let literals = regexp.hir().ok().and_then(|hir| literal::required(&hir));
                // A short literal of a regexp is found so often that it saves nothing.
                let long_enough = |l: &Literal| l.len() >= REGEXP_LITERAL_BYTES_MIN;
                let Some(literals) = literals.filter(|all| all.iter().all(long_enough)) else {
                    self.regex_group.push(id);
                    return AtomKind::RegexGroup;
                };
                if literals.iter().any(Literal::has_folding_exception) {
                    self.folding_exceptions.push(id);
                }
                self.add_literal_uses(id, literals);
            }
            Test::Words(phrase) => match literal::of_phrase(&phrase.words) {
                Some(rarest) if rarest.len() >= Scanner::LITERAL_BYTES_MIN => {
                    self.add_phrase_uses(id, &phrase.words, rarest);
                }
                _ => return AtomKind::Message,
            },
            _ => return AtomKind::Message,
        }
        AtomKind::Prefiltered
    }

    fn add_literal_uses(&mut self, atom: AtomId, literals: Vec<Literal>) {
        let ids = literals.into_iter().map(|literal| self.literal(literal));
        let prefilter =
            Prefilter { atom, literals: ids.collect(), is_any_enough: false, is_on_demand: false };
        for id in &prefilter.literals {
            let literal_use = LiteralUse { atom, word: None, adjacent: AdjacentWord::Nothing };
            self.literal_uses[*id as usize].push(literal_use);
        }
        self.prefilters.push(prefilter);
    }

    /// Registers a phrase for each of its words, to be compared with the adjacent words.
    fn add_phrase_uses(&mut self, atom: AtomId, words: &[Glob], rarest: Literal) {
        if words.iter().any(|word| word.as_text().is_none()) {
            // What a wildcard matches cannot be checked by comparing adjacent words.
            return self.add_literal_uses(atom, vec![rarest]);
        }
        let mut prefilter =
            Prefilter { atom, literals: Vec::new(), is_any_enough: true, is_on_demand: false };
        for (index, word) in words.iter().enumerate() {
            let usable = literal::of_phrase(std::slice::from_ref(word)).filter(|literal| {
                literal.len() >= Scanner::LITERAL_BYTES_MIN
                    && word.as_text().map(str::as_bytes) == Some(literal.bytes())
            });
            let Some(literal) = usable else { continue };
            let id = self.literal(literal);
            // For a repeated word the first occurrence is sufficient.
            if !prefilter.literals.contains(&id) {
                let adjacent = AdjacentWord::of(words, index);
                let literal_use = LiteralUse { atom, word: Some(index as u32), adjacent };
                self.literal_uses[id as usize].push(literal_use);
                prefilter.literals.push(id);
            }
        }
        if prefilter.literals.is_empty() {
            return self.add_literal_uses(atom, vec![rarest]);
        }
        self.prefilters.push(prefilter);
    }

    fn literal(&mut self, literal: Literal) -> u32 {
        let next = self.literals.len() as u32;
        let id = *self.literal_ids.entry(literal.clone()).or_insert(next);
        if id == next {
            self.literals.push(literal);
            self.literal_uses.push(Vec::new());
        }
        id
    }

    fn condition(&mut self, node: Node, rule: RuleId) -> Condition {
        let triggers = self.access(&node).map(|(triggers, _)| triggers);
        for atom in triggers.iter().flatten() {
            self.atoms[*atom as usize].triggers.push(rule);
        }
        let mut atoms = Vec::new();
        collect(&node, &mut atoms);
        let kinds = || atoms.iter().map(|atom| self.atoms[*atom as usize].kind);
        let is_gated = |atom: &AtomId| self.atoms[*atom as usize].kind == AtomKind::Prefiltered;
        let uses_scan = triggers.as_ref().unwrap_or(&atoms).iter().any(is_gated);
        let mut trigger_fields = Vec::new();
        let mut uses_regex_group = false;
        for atom in triggers.iter().flatten() {
            match self.atoms[*atom as usize].kind {
                AtomKind::Field(field) => trigger_fields.push(field),
                AtomKind::RegexGroup => uses_regex_group = true,
                _ => {}
            }
        }
        trigger_fields.sort_unstable();
        trigger_fields.dedup();
        for kind in kinds().collect::<Vec<_>>() {
            if let AtomKind::Field(field) = kind
                && self.rules_of_field[field].last() != Some(&rule)
            {
                self.rules_of_field[field].push(rule);
            }
        }
        Condition { node, triggers, uses_scan, uses_regex_group, trigger_fields }
    }

    /// Returns atoms of which at least one must be true, and the cost of searching for them. Of
    /// several conditions that must all be true, the cheapest is chosen.
    fn access(&self, node: &Node) -> Option<(Vec<AtomId>, u32)> {
        match node {
            Node::Constant(true) | Node::Not(_) => None,
            Node::Constant(false) => Some((Vec::new(), 0)),
            Node::Atom(atom) => {
                let data = &self.atoms[*atom as usize];
                let is_found = !matches!(data.kind, AtomKind::Message | AtomKind::Any);
                is_found.then(|| (vec![*atom], self.cost(*atom)))
            }
            Node::And(parts) => {
                parts.iter().filter_map(|part| self.access(part)).min_by_key(|(_, cost)| *cost)
            }
            Node::Or(parts) => {
                let mut joined = (Vec::new(), 0);
                for part in parts {
                    let (atoms, cost) = self.access(part)?;
                    joined.0.extend(atoms);
                    joined.1 += cost;
                }
                joined.0.sort_unstable();
                joined.0.dedup();
                Some(joined)
            }
        }
    }

    /// Returns the cost, in arbitrary units, of finding out whether an atom is true and of
    /// evaluating its rules where it is.
    fn cost(&self, atom: AtomId) -> u32 {
        let Atom { kind, term, .. } = &self.atoms[atom as usize];
        match (kind, &term.field) {
            // A single word occurs in many records, a sentence in few.
            (AtomKind::Prefiltered, _) => match &term.test {
                Test::Words(phrase) if phrase.words.len() == 1 => 3,
                _ => 1,
            },
            (AtomKind::Field(_), Field::Attribute(_)) => 30,
            (AtomKind::Field(_), _) if !FieldIndex::is_looked_up(&term.test) => 6,
            (AtomKind::Field(_), Field::Reserved(key)) if !has_few_values(*key) => 2,
            (AtomKind::Field(_), _) => 4,
            (AtomKind::Message, _) => 10,
            (AtomKind::RegexGroup, _) => 20,
            (AtomKind::Any, _) => 100,
        }
    }

    fn cost_of_node(&self, node: &Node) -> u32 {
        match node {
            Node::Constant(_) => 0,
            Node::Atom(atom) => self.cost(*atom),
            Node::Not(inner) => self.cost_of_node(inner),
            Node::And(parts) | Node::Or(parts) => parts.iter().map(|p| self.cost_of_node(p)).sum(),
        }
    }
}

/// Returns whether a test of the field is true for many records.
fn has_few_values(key: Reserved) -> bool {
    matches!(key, Reserved::Status | Reserved::IoStream | Reserved::Source | Reserved::Facility)
}

fn collect(node: &Node, atoms: &mut Vec<AtomId>) {
    match node {
        Node::Constant(_) => {}
        Node::Atom(atom) => atoms.push(*atom),
        Node::Not(inner) => collect(inner, atoms),
        Node::And(parts) | Node::Or(parts) => parts.iter().for_each(|part| collect(part, atoms)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::set::prefilter::Scanners;

    const WHENS: [&str; 24] = [
        "/connection to \\S+ refused/",
        "/connection to \\S+ refused/i",
        "/(order|invoice) kept after \\d+ attempts/",
        "/\\b10\\d{4}[a-f]{3}\\b/",
        "/^\\S+ [A-Z]{2}42 /",
        "/\\w+/",
        "service:web",
        "service:(web OR api*)",
        "service:web status:error \"lookup missed\"",
        "status:>warn -\"lookup missed\"",
        "@duration:>300ms",
        "@duration:[1 TO 5] kiss",
        "\"cache lookup missed\" -order",
        "cache lookup",
        "ca*e",
        "NOT debug",
        "*",
        "-*",
        "*:timeout",
        "@ip:10.0.0.0/8 OR /disk full/",
        "_exists_:@user.id",
        "@user.id:/^u\\d+$/",
        "/disk full/ /ask|kiss/i",
        "service:web",
    ];

    /// Returns everything that determines the cost of a record, with rules identified by their
    /// content instead of their number.
    fn outline(whens: &[&str]) -> (Vec<String>, Scanners, [Scanners; 2]) {
        let rule = |when: &&str| Rule { name: String::new(), when: crate::parse(when).unwrap() };
        let rules: Vec<Rule> = whens.iter().map(rule).collect();
        let plan = Plan::compile(&rules, Limits::default()).unwrap();
        let texts = |ids: &[RuleId]| {
            let mut texts: Vec<&str> = ids.iter().map(|id| whens[*id as usize]).collect();
            texts.sort_unstable();
            texts
        };
        let mut lines: Vec<String> = Vec::new();
        for Atom { term, kind, triggers, .. } in &plan.atoms {
            lines.push(format!("{term} {kind:?} {:?}", texts(triggers)));
        }
        let mut conditions: Vec<String> = whens
            .iter()
            .zip(&plan.conditions)
            .map(|(when, condition)| format!("{when} {condition:?}"))
            .collect();
        conditions.sort_unstable();
        lines.append(&mut conditions);
        for (field, rules) in plan.fields.iter().zip(&plan.rules_of_field) {
            lines.push(format!("{:?} {:?} {:?}", field.field, field.atoms, texts(rules)));
        }
        lines.push(format!("{:?} {:?} {:?}", plan.literals, plan.literal_uses, plan.prefilters));
        lines.push(format!("{:?} {:?}", plan.folding_exceptions, plan.regex_group.atoms));
        lines.push(format!("{:?} {:?}", texts(&plan.untriggered), plan.triggers_of_field));
        let seen = b"order 12 of the cache was kept, connection to the disk refused";
        let tuned = [false, true].map(|is_one| Scanners::tuned(&plan, seen, is_one));
        (lines, Scanners::new(&plan), tuned)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn plan_does_not_depend_on_the_order_of_rules(
            shuffled in Just(WHENS.to_vec()).prop_shuffle(),
        ) {
            prop_assert_eq!(outline(&shuffled), outline(&WHENS));
        }
    }

    #[test]
    fn error_of_a_too_large_set_names_the_first_excess_rule() {
        let rule =
            |name: &str, when| Rule { name: name.to_owned(), when: crate::parse(when).unwrap() };
        let rules = [rule("first", r"/zz\d+/"), rule("second", r"/aa\d+/")];
        let limits = Limits { regexp_bytes: 1, ..Limits::default() };
        let error = Plan::compile(&rules, limits).unwrap_err();
        assert!(matches!(error, CompileError::TooLarge { rule, .. } if rule == "first"));
    }
}
