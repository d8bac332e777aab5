//! What is compiled from the rules: each distinct term once (an atom), each rule as a tree over
//! atoms, and for each rule the atoms without which it cannot match (its triggers).
//!
//! A record is first searched for triggers, all at once; only rules with a trigger that is there
//! are evaluated. So rules that do not match cost nothing, whatever their number and order.

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::meta;

use super::field::FieldIndex;
use super::literal::{self, Literal};
use super::phrase;
use super::scan::Scanner;
use super::together::Together;
use super::{AtomId, Limits, Rule, RuleId};
use crate::ast::{Expr, ExprKind, Field, Reserved, Span, Term, Test};
use crate::error::CompileError;
use crate::glob::Glob;

/// Shortest literal by which a regexp is looked for. Regexps without one are cheaper together.
const REGEXP_LITERAL_BYTES_MIN: usize = 4;

/// A term that stands in at least one rule.
#[derive(Debug)]
pub(super) struct Atom {
    pub(super) term: Term,
    pub(super) kind: AtomKind,
    pub(super) regexp: Option<meta::Regex>,
    /// Rules that are looked at when this is true.
    pub(super) triggers: Vec<RuleId>,
}

/// How an atom is found to be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtomKind {
    /// A search of the message that can only succeed where one of its literals stands.
    Gated,
    /// A regexp over the message without a literal: run together with the others.
    Together,
    /// Some other test of the message.
    Message,
    /// A test of the field with this number.
    Field(usize),
    /// A search of everything.
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

/// An atom that a literal belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listener {
    pub(super) atom: AtomId,
    /// The literal is this word of a phrase without wildcards: whether the phrase stands there is
    /// seen by looking at what is beside it.
    pub(super) word: Option<u32>,
    /// What must stand beside it: of many phrases with the same word, few have that too.
    pub(super) beside: Beside,
}

/// The hash of a word beside another; see [`phrase::hash`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Beside {
    Nothing,
    Next(u32),
    Previous(u32),
}

impl Beside {
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

/// One rule, compiled.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) node: Node,
    /// Atoms of which one is true whenever the rule matches; `None` when there are none such.
    pub(super) triggers: Option<Vec<AtomId>>,
    /// Whether the message must be searched for literals while the rule is alive.
    pub(super) uses_scan: bool,
    pub(super) uses_together: bool,
    /// Fields whose tests trigger it, each once.
    pub(super) trigger_fields: Vec<usize>,
}

/// The rules, compiled.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) atoms: Vec<Atom>,
    pub(super) conditions: Vec<Condition>,
    pub(super) fields: Vec<FieldIndex>,
    /// Per field, the rules that test it.
    pub(super) rules_of_field: Vec<Vec<RuleId>>,
    pub(super) literals: Vec<Literal>,
    /// Whether no literal has a byte that JSON may escape with one letter.
    pub(super) is_never_escaped: bool,
    /// Per literal.
    pub(super) listeners: Vec<Vec<Listener>>,
    /// Atoms whose literals have letters that two characters beyond ASCII fold to.
    pub(super) folding_exceptions: Vec<AtomId>,
    pub(super) together: Arc<Together>,
    /// Rules without triggers.
    pub(super) untriggered: Vec<RuleId>,
    /// Per field, how many rules it triggers.
    pub(super) triggers_of_field: Vec<u32>,
    /// How many rules need the message to be searched for literals.
    pub(super) scanning: u32,
    /// How many rules the automaton triggers.
    pub(super) together_rules: u32,
}

/// Compiles rule after rule.
#[derive(Default)]
struct Compiler {
    atoms: Vec<Atom>,
    atom_ids: HashMap<String, AtomId>,
    fields: Vec<FieldIndex>,
    rules_of_field: Vec<Vec<RuleId>>,
    literals: Vec<Literal>,
    literal_ids: HashMap<Literal, u32>,
    listeners: Vec<Vec<Listener>>,
    folding_exceptions: Vec<AtomId>,
    together: Vec<AtomId>,
    regexp_bytes: usize,
}

impl Plan {
    pub(super) fn compile(rules: &[Rule], limits: Limits) -> Result<Self, CompileError> {
        let mut compiler = Compiler::default();
        let mut conditions = Vec::with_capacity(rules.len());
        let mut untriggered = Vec::new();
        for (id, rule) in rules.iter().enumerate() {
            let id = id as RuleId;
            let node = compiler.node(rule, &rule.when.normalised())?;
            if compiler.regexp_bytes > limits.regexp_bytes {
                let (bytes, max) = (compiler.regexp_bytes, limits.regexp_bytes);
                return Err(CompileError::TooLarge { rule: rule.name.clone(), bytes, max });
            }
            let condition = compiler.condition(node, id);
            if condition.triggers.is_none() {
                untriggered.push(id);
            }
            conditions.push(condition);
        }
        let together = Arc::new(Together::new(&compiler.together, &compiler.atoms));
        let mut triggers_of_field = vec![0; compiler.fields.len()];
        for field in conditions.iter().flat_map(|condition| &condition.trigger_fields) {
            triggers_of_field[*field] += 1;
        }
        let count = |test: fn(&Condition) -> bool| {
            conditions.iter().filter(|condition| test(condition)).count() as u32
        };
        Ok(Self {
            scanning: count(|condition| condition.uses_scan),
            together_rules: count(|condition| condition.uses_together),
            triggers_of_field,
            atoms: compiler.atoms,
            conditions,
            fields: compiler.fields,
            rules_of_field: compiler.rules_of_field,
            is_never_escaped: compiler.literals.iter().all(Literal::is_never_escaped),
            literals: compiler.literals,
            listeners: compiler.listeners,
            folding_exceptions: compiler.folding_exceptions,
            together,
            untriggered,
        })
    }
}

impl Compiler {
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

    /// The parts, cheap ones first: the others are often not needed then.
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
            Test::Regexp(regexp) => Some(regexp.compile().map_err(|message| {
                let (rule, pattern) = (rule.name.clone(), regexp.pattern.clone());
                CompileError::Regexp { rule, span, pattern, message }
            })?),
            _ => None,
        };
        self.regexp_bytes += regexp.as_ref().map_or(0, meta::Regex::memory_usage);
        let kind = self.kind(term, id);
        self.atoms.push(Atom { term: term.clone(), kind, regexp, triggers: Vec::new() });
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
        let literals = match test {
            Test::Regexp(regexp) => regexp.hir().ok().and_then(|hir| literal::required(&hir)),
            Test::Words(phrase) => literal::of_phrase(&phrase.words).map(|literal| vec![literal]),
            _ => None,
        };
        // A short literal of a regexp is found so often that it saves nothing.
        let least = match test {
            Test::Regexp(_) => REGEXP_LITERAL_BYTES_MIN,
            _ => Scanner::LITERAL_BYTES_MIN,
        };
        let long_enough = |list: &Vec<Literal>| list.iter().all(|l| l.len() >= least);
        match (literals.filter(long_enough), test) {
            (Some(literals), _) => {
                self.listen(id, test, literals);
                AtomKind::Gated
            }
            (None, Test::Regexp(_)) => {
                self.together.push(id);
                AtomKind::Together
            }
            _ => AtomKind::Message,
        }
    }

    fn listen(&mut self, atom: AtomId, test: &Test, literals: Vec<Literal>) {
        let is_regexp = matches!(test, Test::Regexp(_));
        if is_regexp && literals.iter().any(Literal::has_folding_exception) {
            self.folding_exceptions.push(atom);
        }
        for literal in literals {
            let word = match test {
                Test::Words(phrase) if phrase.words.iter().all(|word| word.as_text().is_some()) => {
                    let is_literal =
                        |word: &Glob| word.as_text().map(str::as_bytes) == Some(literal.bytes());
                    phrase.words.iter().position(is_literal).map(|index| index as u32)
                }
                _ => None,
            };
            let next = self.literals.len() as u32;
            let id = *self.literal_ids.entry(literal.clone()).or_insert(next);
            if id == next {
                self.literals.push(literal);
                self.listeners.push(Vec::new());
            }
            let beside = match (test, word) {
                (Test::Words(phrase), Some(word)) => Beside::of(&phrase.words, word as usize),
                _ => Beside::Nothing,
            };
            self.listeners[id as usize].push(Listener { atom, word, beside });
        }
    }

    fn condition(&mut self, node: Node, rule: RuleId) -> Condition {
        let triggers = self.access(&node).map(|(triggers, _)| triggers);
        for atom in triggers.iter().flatten() {
            self.atoms[*atom as usize].triggers.push(rule);
        }
        let mut atoms = Vec::new();
        collect(&node, &mut atoms);
        let kinds = || atoms.iter().map(|atom| self.atoms[*atom as usize].kind);
        let uses_scan = kinds().any(|kind| kind == AtomKind::Gated);
        let mut trigger_fields = Vec::new();
        let mut uses_together = false;
        for atom in triggers.iter().flatten() {
            match self.atoms[*atom as usize].kind {
                AtomKind::Field(field) => trigger_fields.push(field),
                AtomKind::Together => uses_together = true,
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
        Condition { node, triggers, uses_scan, uses_together, trigger_fields }
    }

    /// Atoms of which one must be true, and what looking for them costs. Of what must all be
    /// true the cheapest is chosen.
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

    /// What it costs to find out whether an atom is true, and to look at its rules where it is, in
    /// units of no meaning.
    fn cost(&self, atom: AtomId) -> u32 {
        let Atom { kind, term, .. } = &self.atoms[atom as usize];
        match (kind, &term.field) {
            // A single word stands in many records, a sentence in few.
            (AtomKind::Gated, _) => match &term.test {
                Test::Words(phrase) if phrase.words.len() == 1 => 3,
                _ => 1,
            },
            (AtomKind::Field(_), Field::Attribute(_)) => 30,
            (AtomKind::Field(_), _) if !FieldIndex::is_looked_up(&term.test) => 6,
            (AtomKind::Field(_), Field::Reserved(key)) if !has_few_values(*key) => 2,
            (AtomKind::Field(_), _) => 4,
            (AtomKind::Message, _) => 10,
            (AtomKind::Together, _) => 20,
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

/// Whether a test of the field is true of many records.
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
