//! Applies rules to individual records: for tests next to the rules, and to find out why a record
//! is routed the way it is. Uses the same code as a running weir, without the rest of the pipeline.

use weir_expr::{Expr, ExprKind};
use weir_model::{BatchBuilder, DiscardReason, LogRecord, Position, Resource, Seal};
use weir_model::{SourceBook, SourceId, StreamId};

use super::draft::RecordFields;
use super::{RulePlan, Rules, Subject, Workspace};

/// Rules with the outputs that they name, and the source of the records.
#[derive(Debug)]
pub struct Trial {
    plans: Vec<RulePlan>,
    rules: Rules,
    outputs: Vec<String>,
    work: Workspace,
}

/// The outcome for a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The matching rules, by name and in order, including those after a final one.
    pub rules: Vec<String>,
    /// The outputs that get it.
    pub to: Vec<String>,
    /// Why it is discarded.
    pub discarded: Option<DiscardReason>,
    /// The record as outputs get it; `None` if it is discarded.
    pub record: Option<LogRecord>,
}

/// A part of an expression, whether it matches a record, and its own parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The part as written.
    pub text: String,
    /// Whether it matches.
    pub holds: bool,
    /// Its operands; empty for a single term.
    pub parts: Vec<Reason>,
}

impl Trial {
    /// Compiles the rules.
    pub fn new(
        plans: &[RulePlan],
        outputs: &[String],
        default_to: Option<&[String]>,
        source: &str,
    ) -> Result<Self, weir_expr::CompileError> {
        let index = |name: &str| outputs.iter().position(|output| output == name);
        let default_to: Vec<usize> = match default_to {
            Some(names) => names.iter().filter_map(|name| index(name)).collect(),
            None => (0..outputs.len()).collect(),
        };
        Ok(Self {
            rules: Rules::new(1, plans, &default_to, index)?,
            plans: plans.to_vec(),
            outputs: outputs.to_vec(),
            work: Workspace::new(source),
        })
    }

    /// Sets the source of the next records.
    pub fn set_source(&mut self, source: &str) {
        self.work = Workspace::new(source);
    }

    /// Returns the outcome for the one record in the batch, which arrives at its own time.
    pub fn run(&mut self, batch: &mut BatchBuilder, resource: &Resource) -> Outcome {
        let resource = resource.encode();
        let rules = self.matching(batch, &resource);
        // It is the only resource of a batch of one record.
        let _fits = batch.resource(0, &resource);
        let mut book = SourceBook { lines: 1, records: 1, ..SourceBook::default() };
        let end = batch.record(0).position;
        let observed_ns = batch.record(0).timestamp_ns;
        let stream = StreamId(0);
        let mut subject = Subject {
            batch,
            stream,
            book: &mut book,
            observed_ns,
            clock: &weir_host::RealClock::new(),
            must_fit: true,
        };
        // A batch with `must_fit` always fits.
        let _fits = self.rules.apply(&mut self.work, &mut subject);
        let discarded =
            DiscardReason::ALL.iter().copied().find(|reason| book.discarded[*reason as usize] > 0);
        let sealed = batch.seal(&seal(&book, end));
        let is_kept = sealed.record_count() > 0;
        let to = |index: &usize| is_kept && sealed.is_routed(0, *index);
        Outcome {
            rules,
            to: (0..self.outputs.len()).filter(to).map(|i| self.outputs[i].clone()).collect(),
            discarded,
            record: is_kept.then(|| sealed.to_log_record(0)),
        }
    }

    fn matching(&mut self, batch: &BatchBuilder, resource: &[u8]) -> Vec<String> {
        self.with_fields(batch, resource, |plans, fields| {
            let matching =
                plans.iter().filter(|plan| weir_expr::naive::matches(&plan.when, fields));
            matching.map(|plan| plan.name.clone()).collect()
        })
    }

    /// Explains why each rule matches the one record in the batch, or does not: its name and the
    /// parts of its condition.
    pub fn explain(&mut self, batch: &BatchBuilder, resource: &Resource) -> Vec<(String, Reason)> {
        self.with_fields(batch, &resource.encode(), |plans, fields| {
            plans.iter().map(|plan| (plan.name.clone(), reason(&plan.when, fields))).collect()
        })
    }

    fn with_fields<T>(
        &mut self,
        batch: &BatchBuilder,
        resource: &[u8],
        look: impl FnOnce(&[RulePlan], &RecordFields<'_>) -> T,
    ) -> T {
        self.work.origin.set_resource(resource);
        let view = batch.record(0);
        self.work.origin.set_arrival(view.timestamp_ns);
        self.work.draft.get_mut().begin(&view);
        let fields = RecordFields { origin: &self.work.origin, view, draft: &self.work.draft };
        look(&self.plans, &fields)
    }
}

fn reason(expression: &Expr, fields: &RecordFields<'_>) -> Reason {
    let parts = match &expression.kind {
        ExprKind::All | ExprKind::Term(_) => Vec::new(),
        ExprKind::Not(inner) => vec![reason(inner, fields)],
        ExprKind::And(parts) | ExprKind::Or(parts) => {
            parts.iter().map(|part| reason(part, fields)).collect()
        }
    };
    Reason {
        text: expression.to_string(),
        holds: weir_expr::naive::matches(expression, fields),
        parts,
    }
}

fn seal(book: &SourceBook, end: Position) -> Seal<'_> {
    Seal {
        repeatable: true,
        stream: StreamId(0),
        group: 0,
        source: SourceId(0),
        end,
        observed_ns: 0,
        rule_generation: 1,
        book,
        state: &[],
    }
}
