//! Many rules compiled into one matcher: [`RuleSet`].
//!
//! Usage: compile once per generation of rules; create one [`Scratch`] per thread; call
//! [`RuleSet::batch`] for each batch with its constants, and [`BatchPass::record`] for each record.
//!
//! Invariant: the result is exactly that of [`crate::naive::matches`] for each rule separately,
//! whatever the order of the rules.

pub(crate) mod classes;
mod field;
mod findings;
mod hits;
pub(crate) mod literal;
mod pass;
mod phrase;
mod plan;
mod prefilter;
mod regex_group;
mod scan;
mod tuning;

use crate::ast::Expr;
use crate::error::CompileError;
use crate::fields::{Constants, Fields};
use crate::limits;
use plan::Plan;

pub use hits::Hits;
pub use pass::Scratch;

/// A distinct term of a set.
type AtomId = u32;
/// A rule by its index.
type RuleId = u32;

/// A named condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Used in messages.
    pub name: String,
    /// Which records.
    pub when: Expr,
}

/// The limits of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of rules.
    pub rules: usize,
    /// Maximum size of all compiled regular expressions together, in bytes.
    pub regexp_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rules: limits::RULES_MAX, regexp_bytes: limits::RULE_SET_BYTES_MAX }
    }
}

/// Something notable about a rule; reported by `config check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// No record can match the rule.
    Never {
        /// The rule.
        rule: usize,
        /// The reason.
        reason: String,
    },
    /// Every record matches the rule.
    Always {
        /// The rule.
        rule: usize,
    },
    /// The rule is equivalent to an earlier one.
    Duplicate {
        /// The rule.
        rule: usize,
        /// The earlier one.
        of: usize,
    },
    /// A pattern without a required literal: every record must be searched for it.
    NoLiteral {
        /// The rule.
        rule: usize,
        /// The pattern, as written.
        pattern: String,
    },
}

/// Compiled rules, shared by all threads.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    plan: Plan,
}

/// The rules evaluated for one batch. Created by [`RuleSet::batch`].
#[derive(Debug)]
pub struct BatchPass<'a> {
    set: &'a RuleSet,
    scratch: &'a mut Scratch,
}

/// Measures the cost of individual rules; the caller provides the clock.
pub trait Meter {
    /// Returns the time of a monotonic clock in nanoseconds.
    fn now_ns(&mut self) -> u64;
    /// Reports the time spent on finding out which rules to evaluate.
    fn shared(&mut self, ns: u64);
    /// Reports the time spent on evaluating this rule.
    fn rule(&mut self, rule: usize, ns: u64);
}

impl RuleSet {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Too many rules, or a regular expression that is too large when compiled.
    pub fn compile(rules: &[Rule], limits: Limits) -> Result<Self, CompileError> {
        if rules.len() > limits.rules {
            return Err(CompileError::TooManyRules { count: rules.len(), max: limits.rules });
        }
        Ok(Self { rules: rules.to_vec(), plan: Plan::compile(rules, limits)? })
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the findings about the rules, in order. Recomputed on every call.
    pub fn findings(&self) -> Vec<Finding> {
        findings::of(&self.rules)
    }

    /// Creates buffers and caches for one thread.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.plan)
    }

    /// Decides everything that is the same for all records of a batch.
    pub fn batch<'a>(
        &'a self,
        constants: &dyn Constants,
        scratch: &'a mut Scratch,
    ) -> BatchPass<'a> {
        scratch.begin_batch(&self.plan, constants);
        BatchPass { set: self, scratch }
    }
}

/// A single compiled expression: for live tail, monitors and searches.
#[derive(Debug)]
pub struct Compiled {
    set: RuleSet,
    scratch: Scratch,
    hits: Hits,
}

impl Compiled {
    /// Compiles the expression.
    ///
    /// # Errors
    /// A regular expression that is too large when compiled.
    pub fn new(expr: &Expr) -> Result<Self, CompileError> {
        let rule = Rule { name: String::new(), when: expr.clone() };
        let set = RuleSet::compile(&[rule], Limits::default())?;
        Ok(Self { scratch: set.scratch(), hits: Hits::default(), set })
    }

    /// Returns whether the record matches the expression.
    pub fn matches(&mut self, record: &dyn Fields) -> bool {
        let mut hits = std::mem::take(&mut self.hits);
        self.batch(&crate::NoConstants).record(record, &mut hits);
        let is_match = !hits.is_empty();
        self.hits = hits;
        is_match
    }

    /// Starts a pass over a batch; hits are rule 0 or none.
    pub fn batch<'a>(&'a mut self, constants: &dyn Constants) -> BatchPass<'a> {
        self.set.batch(constants, &mut self.scratch)
    }
}
