//! A query ready to run: terms compiled, the tree ordered by cost.
//!
//! Invariant: what is compiled, and what it allocates at run time, counts towards the query's
//! memory limit, and compiling stops at the query's deadline.

use std::sync::Arc;

use weir_expr::limits::REGEXP_CACHE_BYTES;
use weir_expr::{CompileError, Expr, ExprKind, Field, Term, TermMatcher, Test};

use crate::embedded::read::snapshot::Deletion;
use crate::limits::{QUERY_THREADS_MAX, REGEXP_CACHE_BYTES_MIN, REGEXP_CACHE_SHARE};
use crate::query::{Budget, CalculatedField, Filter, QueryError, StopReason, TimeRange, Units};

/// The index of a term in the plan.
pub(super) type TermId = usize;

/// The condition that rows must satisfy.
#[derive(Debug, Clone)]
pub(super) enum Node {
    All,
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Term(TermId),
}

impl Node {
    /// Returns whether every row passes.
    pub(super) fn is_all(&self) -> bool {
        match self {
            Self::All => true,
            Self::And(parts) => parts.iter().all(Self::is_all),
            _ => false,
        }
    }
}

/// Deleted records: the rows that match, with a sequence below the number and a time in the range.
#[derive(Debug, Clone)]
pub(super) struct DeletedFilter {
    pub(super) node: Arc<Node>,
    pub(super) range: TimeRange,
    pub(super) before_sequence: u64,
}

/// A compiled query. Each thread works with a clone.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) node: Arc<Node>,
    pub(super) terms: Vec<TermMatcher>,
    /// Terms from this index on are those of access restrictions and deletions, for which
    /// calculated fields are not used.
    pub(super) first_plain_term: TermId,
    pub(super) range: TimeRange,
    pub(super) calculated_fields: Arc<[CalculatedField]>,
    pub(super) units: Units,
    pub(super) deleted: Vec<DeletedFilter>,
    /// The reader may not see all records.
    pub(super) is_restricted: bool,
}

impl Plan {
    /// # Errors
    /// Regular expressions that need more memory or time than the query has.
    pub(super) fn new(
        filter: &Filter,
        deletions: &[Deletion],
        budget: &Budget,
    ) -> Result<Self, QueryError> {
        let mut terms = TermCompiler::new(filter, deletions, budget);
        let query = filter.query.clone().in_units(&filter.units, &filter.calculated_fields);
        let query = query.normalized();
        let query = terms.node_of(&query)?;
        let first_plain_term = terms.all.len();
        let node = match filter.access.restriction() {
            Some(only) => Node::And(vec![query, terms.node_of(&only.normalized())?]),
            None => query,
        };
        let is_of_range = |deletion: &&Deletion| deletion.range.intersects(filter.range);
        let deleted = deletions.iter().filter(is_of_range).map(|deletion| {
            Ok(DeletedFilter {
                node: Arc::new(terms.node_of(&deletion.query.normalized())?),
                range: deletion.range,
                before_sequence: deletion.before_sequence,
            })
        });
        let deleted = deleted.collect::<Result<_, QueryError>>()?;
        let mut plan = Self {
            node: Arc::new(Node::All),
            terms: terms.all,
            first_plain_term,
            range: filter.range,
            calculated_fields: filter.calculated_fields.clone().into(),
            units: filter.units.clone(),
            deleted,
            is_restricted: filter.access.restriction().is_some(),
        };
        plan.put_in_order(node);
        Ok(plan)
    }

    /// Returns the term.
    pub(super) fn term(&self, id: TermId) -> &Term {
        self.terms[id].term()
    }

    /// Puts cheap parts first, since they often make the others unnecessary.
    fn put_in_order(&mut self, mut node: Node) {
        self.sort(&mut node);
        self.node = Arc::new(node);
    }

    /// Sorts the parts of the node; returns its approximate cost.
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

/// Returns the approximate cost of a term. Messages are most of the data; a term on any field may
/// need all columns.
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

/// Compiles terms within the limits of the query.
struct TermCompiler<'a> {
    budget: &'a Budget,
    /// What each regular expression may cache in each thread.
    cache_bytes: usize,
    /// How much of the query's memory the terms have used so far.
    bytes: usize,
    all: Vec<TermMatcher>,
}

impl<'a> TermCompiler<'a> {
    fn new(filter: &Filter, deletions: &[Deletion], budget: &'a Budget) -> Self {
        let of_query = std::iter::once(&filter.query).chain(filter.access.restriction());
        let all = of_query.chain(deletions.iter().map(|deletion| &deletion.query));
        let regexps = all.map(Expr::regexp_count).sum::<usize>().max(1);
        // One share is for cached states, the rest for compiled code and collected data.
        let share = budget.memory_left_bytes() / REGEXP_CACHE_SHARE / QUERY_THREADS_MAX / regexps;
        let cache_bytes = share.clamp(REGEXP_CACHE_BYTES_MIN, REGEXP_CACHE_BYTES);
        Self { budget, cache_bytes, bytes: 0, all: Vec::new() }
    }

    fn node_of(&mut self, expr: &Expr) -> Result<Node, QueryError> {
        Ok(match &expr.kind {
            ExprKind::All => Node::All,
            ExprKind::Not(inner) => Node::Not(Box::new(self.node_of(inner)?)),
            ExprKind::And(parts) => Node::And(self.nodes_of(parts)?),
            ExprKind::Or(parts) => Node::Or(self.nodes_of(parts)?),
            ExprKind::Term(term) => Node::Term(self.add(term)?),
        })
    }

    fn nodes_of(&mut self, parts: &[Expr]) -> Result<Vec<Node>, QueryError> {
        parts.iter().map(|part| self.node_of(part)).collect()
    }

    fn add(&mut self, term: &Term) -> Result<TermId, QueryError> {
        // A query is not paused before it can return anything.
        self.budget.check_limits().map_err(|stop| match stop {
            StopReason::Cancelled => QueryError::Cancelled,
            StopReason::Deadline | StopReason::Memory => QueryError::TooSlow,
        })?;
        let matcher = TermMatcher::with_cache(term, self.cache_bytes)?;
        if matches!(term.test, Test::Regexp(_)) {
            let bytes = matcher.compiled_bytes() + self.cache_bytes * QUERY_THREADS_MAX;
            let max = self.bytes + self.budget.memory_left_bytes();
            self.bytes += bytes;
            let (rule, bytes_all) = (String::new(), self.bytes);
            let too_large = |_| CompileError::TooLarge { rule, bytes: bytes_all, max };
            self.budget.take(bytes).map_err(too_large)?;
        }
        self.all.push(matcher);
        Ok(self.all.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_expr::parse;
    use weir_testkit::FakeClock;

    use super::*;
    use crate::query::Access;

    const MIB: usize = 1 << 20;

    fn compiled(pattern: &str, count: usize, budget: &Budget) -> Result<Plan, QueryError> {
        let all: Vec<String> = (0..count).map(|n| format!("message:/{pattern}{n}/")).collect();
        let query = parse(&all.join(" OR ")).unwrap();
        Plan::new(&Filter { query, ..Filter::all(Access::all()) }, &[], budget)
    }

    fn budget(time: Option<Duration>, bytes: usize) -> Budget {
        Budget::new(Arc::new(FakeClock::default()), time, bytes)
    }

    #[test]
    fn regexps_count_against_the_memory_of_the_query() {
        let all = budget(None, 32 * MIB);
        let error = compiled("(x.{300})", 2000, &all).unwrap_err();
        let QueryError::Expression(CompileError::TooLarge { bytes, max, .. }) = error else {
            panic!("{error}");
        };
        assert_eq!(max, 32 * MIB);
        assert!(bytes > max && bytes < max + 4 * MIB, "{bytes}");
        let all = budget(None, 32 * MIB);
        compiled("ab", 100, &all).unwrap();
        let promoted = 32 * MIB - all.memory_left_bytes();
        assert!((MIB..16 * MIB).contains(&promoted), "{promoted}");
    }

    #[test]
    fn compilation_stops_at_the_deadline() {
        let ended = compiled("ab", 10, &budget(Some(Duration::ZERO), 32 * MIB));
        assert!(matches!(ended, Err(QueryError::TooSlow)), "{ended:?}");
    }
}
