//! Many rules compiled as one matcher: [`RuleSet`].
//!
//! Use: compile once per generation of rules; make one [`Scratch`] per thread; per batch call
//! [`RuleSet::batch`] with what is constant in it; per record [`BatchPass::record`].
//!
//! Invariant: the result is exactly what [`crate::naive::matches`] gives for each rule by itself,
//! whatever the order of the rules.

pub(crate) mod classes;
mod field;
mod findings;
mod gate;
mod hits;
pub(crate) mod literal;
mod pass;
mod phrase;
mod plan;
mod scan;
mod together;
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
/// A rule by its place.
type RuleId = u32;

/// A condition with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// For messages.
    pub name: String,
    /// Which records.
    pub when: Expr,
}

/// What a set may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rules in the set.
    pub rules: usize,
    /// Bytes of all compiled regular expressions together.
    pub regexp_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rules: limits::RULES_MAX, regexp_bytes: limits::RULE_SET_BYTES_MAX }
    }
}

/// What is remarkable about a rule; for `config check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// No record can match the rule.
    Never {
        /// The rule.
        rule: usize,
        /// Why.
        reason: String,
    },
    /// Every record matches the rule.
    Always {
        /// The rule.
        rule: usize,
    },
    /// The rule says the same as an earlier one.
    Duplicate {
        /// The rule.
        rule: usize,
        /// The earlier one.
        of: usize,
    },
    /// A pattern in which no text is certain: every record must be searched for it.
    NoLiteral {
        /// The rule.
        rule: usize,
        /// The pattern, as it is written.
        pattern: String,
    },
}

/// Rules, compiled. Shared by all threads.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    plan: Plan,
}

/// The rules as they stand for one batch. Made by [`RuleSet::batch`].
#[derive(Debug)]
pub struct BatchPass<'a> {
    set: &'a RuleSet,
    scratch: &'a mut Scratch,
}

/// Measures what single rules cost; the caller owns the clock.
pub trait Meter {
    /// Nanoseconds of a monotonic clock.
    fn now_ns(&mut self) -> u64;
    /// Finding out which rules to look at took so long.
    fn shared(&mut self, ns: u64);
    /// Looking at this rule took so long.
    fn rule(&mut self, rule: usize, ns: u64);
}

impl RuleSet {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Too many rules, or a regular expression that is too large when it is compiled.
    pub fn compile(rules: &[Rule], limits: Limits) -> Result<Self, CompileError> {
        if rules.len() > limits.rules {
            return Err(CompileError::TooManyRules { count: rules.len(), max: limits.rules });
        }
        Ok(Self { rules: rules.to_vec(), plan: Plan::compile(rules, limits)? })
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// No rules at all.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What is remarkable about the rules, in their order. Computed anew at each call.
    pub fn findings(&self) -> Vec<Finding> {
        findings::of(&self.rules)
    }

    /// Buffers and caches for one thread.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.plan)
    }

    /// Decides what can be decided for all records of a batch.
    pub fn batch<'a>(
        &'a self,
        constants: &dyn Constants,
        scratch: &'a mut Scratch,
    ) -> BatchPass<'a> {
        scratch.begin_batch(&self.plan, constants);
        BatchPass { set: self, scratch }
    }
}

/// One expression by itself, compiled: for live tail, monitors, searches.
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
    /// A regular expression that is too large when it is compiled.
    pub fn new(expr: &Expr) -> Result<Self, CompileError> {
        let rule = Rule { name: String::new(), when: expr.clone() };
        let set = RuleSet::compile(&[rule], Limits::default())?;
        Ok(Self { scratch: set.scratch(), hits: Hits::default(), set })
    }

    /// Whether the record is one that the expression describes.
    pub fn matches(&mut self, record: &dyn Fields) -> bool {
        let mut hits = std::mem::take(&mut self.hits);
        self.batch(&crate::NoConstants).record(record, &mut hits);
        let is_match = !hits.is_empty();
        self.hits = hits;
        is_match
    }

    /// A pass over a batch; hits are rule 0 or none.
    pub fn batch<'a>(&'a mut self, constants: &dyn Constants) -> BatchPass<'a> {
        self.set.batch(constants, &mut self.scratch)
    }
}
