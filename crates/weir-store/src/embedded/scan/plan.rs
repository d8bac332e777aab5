//! A query, ready to be run: its terms compiled, its tree in the order in which it is cheap.

use std::sync::Arc;

use weir_expr::{CompileError, Expr, ExprKind, Field, Term, TermMatcher, Test};

use crate::embedded::snapshot::Deletion;
use crate::query::{Filter, NamedMeasure, TimeRange};

/// A term by its place among those of the plan.
pub(super) type TermId = usize;

/// What is asked of each row.
#[derive(Debug, Clone)]
pub(super) enum Node {
    All,
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Term(TermId),
}

impl Node {
    /// Every row passes.
    pub(super) fn is_all(&self) -> bool {
        match self {
            Self::All => true,
            Self::And(parts) => parts.iter().all(Self::is_all),
            _ => false,
        }
    }
}

/// Records that were deleted: the rows that match, with a sequence below the number, at a time of
/// the range.
#[derive(Debug, Clone)]
pub(super) struct Deleted {
    pub(super) node: Arc<Node>,
    pub(super) range: TimeRange,
    pub(super) before_sequence: u64,
}

/// A query, compiled. Each thread works with a clone.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) node: Arc<Node>,
    pub(super) terms: Vec<TermMatcher>,
    /// Terms from here on are those of access and deletions: computed attributes do not count.
    pub(super) first_plain_term: TermId,
    pub(super) range: TimeRange,
    pub(super) measures: Arc<[NamedMeasure]>,
    pub(super) deleted: Vec<Deleted>,
}

impl Plan {
    /// # Errors
    /// A regular expression that is too large when it is compiled.
    pub(super) fn new(filter: &Filter, deletions: &[Deletion]) -> Result<Self, CompileError> {
        let mut terms = Vec::new();
        let query = filter.query.clone().in_units(&filter.measures).normalised();
        let query = node_of(&query, &mut terms)?;
        let first_plain_term = terms.len();
        let node = match filter.access.restriction() {
            Some(only) => Node::And(vec![query, node_of(&only.normalised(), &mut terms)?]),
            None => query,
        };
        let is_of_range = |deletion: &&Deletion| deletion.range.meets(filter.range);
        let deleted = deletions.iter().filter(is_of_range).map(|deletion| {
            Ok(Deleted {
                node: Arc::new(node_of(&deletion.query.normalised(), &mut terms)?),
                range: deletion.range,
                before_sequence: deletion.before_sequence,
            })
        });
        let deleted = deleted.collect::<Result<_, CompileError>>()?;
        let mut plan = Self {
            node: Arc::new(Node::All),
            terms,
            first_plain_term,
            range: filter.range,
            measures: filter.measures.clone().into(),
            deleted,
        };
        plan.put_in_order(node);
        Ok(plan)
    }

    /// The term.
    pub(super) fn term(&self, id: TermId) -> &Term {
        self.terms[id].term()
    }

    /// Cheap parts first: they often make the others unnecessary.
    fn put_in_order(&mut self, mut node: Node) {
        self.sort(&mut node);
        self.node = Arc::new(node);
    }

    /// Puts the parts of the node in order; returns about what it costs.
    fn sort(&self, node: &mut Node) -> u32 {
        match node {
            Node::All => 0,
            Node::Not(inner) => self.sort(inner),
            Node::And(parts) | Node::Or(parts) => {
                let mut costs: Vec<(u32, Node)> =
                    parts.drain(..).map(|mut part| (self.sort(&mut part), part)).collect();
                costs.sort_by_key(|(cost, _)| *cost);
                let total = costs.iter().map(|(cost, _)| cost).sum();
                parts.extend(costs.into_iter().map(|(_, part)| part));
                total
            }
            Node::Term(id) => cost_of(self.term(*id)),
        }
    }
}

/// Messages are most of what there is to read; anything may need all columns.
fn cost_of(term: &Term) -> u32 {
    let of_field = match term.field {
        Field::Reserved(_) | Field::Tag(_) | Field::Tags => 1,
        Field::Attribute(_) => 3,
        Field::Message => 40,
        Field::Any => 400,
    };
    let of_test = match term.test {
        Test::Exists | Test::Equals(_) | Test::Range(_) => 1,
        Test::Glob(_) | Test::Words(_) => 2,
        Test::Cidr(_) | Test::Regexp(_) => 4,
    };
    of_field * of_test
}

fn node_of(expr: &Expr, terms: &mut Vec<TermMatcher>) -> Result<Node, CompileError> {
    let all = |parts: &[Expr], terms: &mut Vec<TermMatcher>| {
        parts.iter().map(|part| node_of(part, terms)).collect::<Result<Vec<_>, _>>()
    };
    Ok(match &expr.kind {
        ExprKind::All => Node::All,
        ExprKind::Not(inner) => Node::Not(Box::new(node_of(inner, terms)?)),
        ExprKind::And(parts) => Node::And(all(parts, terms)?),
        ExprKind::Or(parts) => Node::Or(all(parts, terms)?),
        ExprKind::Term(term) => {
            terms.push(TermMatcher::new(term)?);
            Node::Term(terms.len() - 1)
        }
    })
}
