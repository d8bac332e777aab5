//! Findings about rules: rules that never match, always match, duplicate another rule, or must be
//! searched for in every record.

use std::collections::HashMap;

use super::literal;
use super::{Finding, Rule};
use crate::ast::{Bound, Expr, ExprKind, Field, Range, Reserved, Term, Test};
use crate::status::Status;

/// Returns the findings of all rules, in order.
pub(super) fn of(rules: &[Rule]) -> Vec<Finding> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut findings = Vec::new();
    for (rule, written) in rules.iter().enumerate() {
        let normal = written.when.normalized();
        if let Some(reason) = unsatisfiable_reason(&normal) {
            findings.push(Finding::Never { rule, reason });
        } else if normal.is_always() {
            findings.push(Finding::Always { rule });
        }
        match seen.entry(normal.to_string()) {
            std::collections::hash_map::Entry::Occupied(earlier) => {
                findings.push(Finding::Duplicate { rule, of: *earlier.get() });
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(rule);
            }
        }
        without_literal(rule, &normal, &mut findings);
    }
    findings
}

fn without_literal(rule: usize, expr: &Expr, findings: &mut Vec<Finding>) {
    expr.for_each_term(&mut |term, _| {
        // A single byte occurs in every record.
        let is_byte = |literal: &literal::Literal| literal.len() < 2;
        if let (Field::Message, Test::Regexp(regexp)) = (&term.field, &term.test)
            && let literals = regexp.hir().ok().and_then(|hir| literal::required(&hir))
            && literals.is_none_or(|literals| literals.iter().any(is_byte))
        {
            findings.push(Finding::NoLiteral { rule, pattern: regexp.to_string() });
        }
    });
}

impl Expr {
    /// Returns why no record can match, if that is certain.
    pub fn unsatisfiable_reason(&self) -> Option<String> {
        unsatisfiable_reason(&self.normalized())
    }
}

/// Returns why no record can match, if that is certain. `expr` is in its normal form.
fn unsatisfiable_reason(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Not(inner) if inner.is_always() => {
            Some("it contains a condition and its opposite, or excludes everything".to_owned())
        }
        ExprKind::All | ExprKind::Not(_) => None,
        ExprKind::And(parts) => {
            parts.iter().find_map(unsatisfiable_reason).or_else(|| contradiction(parts))
        }
        ExprKind::Or(parts) => {
            let reasons: Option<Vec<String>> = parts.iter().map(unsatisfiable_reason).collect();
            reasons.and_then(|mut reasons| reasons.pop())
        }
        ExprKind::Term(term) => never_passes(term),
    }
}

/// Finds a key that has at most one value but would need two.
fn contradiction(parts: &[Expr]) -> Option<String> {
    let mut wanted: HashMap<Reserved, &Term> = HashMap::new();
    for part in parts {
        let ExprKind::Term(term) = &part.kind else { continue };
        let (Field::Reserved(key), Test::Equals(literal)) = (&term.field, &term.test) else {
            continue;
        };
        let differs = |other: &&Term| match &other.test {
            Test::Equals(other) if *key == Reserved::Status => {
                Status::parse(other.text.as_bytes()) != Status::parse(literal.text.as_bytes())
            }
            Test::Equals(other) => {
                other.text != literal.text && (other.number.is_none() || literal.number.is_none())
            }
            _ => false,
        };
        if let Some(other) = wanted.get(key).filter(|other| differs(other)) {
            return Some(format!("{other} and {term} cannot both be true"));
        }
        wanted.insert(*key, term);
    }
    None
}

fn never_passes(term: &Term) -> Option<String> {
    let is_status = term.field == Field::Reserved(Reserved::Status);
    let unknown = |text: &str| {
        (is_status && Status::parse(text.as_bytes()).is_none())
            .then(|| format!("{text} is not a status"))
    };
    match &term.test {
        Test::Range(range) => {
            let known = range.literals().find_map(|literal| unknown(&literal.text));
            known.or_else(|| is_empty(range, is_status).then(|| format!("{term} is empty")))
        }
        Test::Equals(literal) => unknown(&literal.text),
        _ => None,
    }
}

fn is_empty(range: &Range, is_status: bool) -> bool {
    let (Some(low), Some(high)) = (range.low.literal(), range.high.literal()) else { return false };
    let order = match (low.number, high.number) {
        _ if is_status => {
            let status = |text: &str| Status::parse(text.as_bytes());
            status(&low.text).partial_cmp(&status(&high.text))
        }
        (Some(low), Some(high)) => low.value.compare(high.value),
        _ => Some(low.text.cmp(&high.text)),
    };
    let is_open =
        matches!(range.low, Bound::Excluded(_)) || matches!(range.high, Bound::Excluded(_));
    order.is_some_and(|order| order.is_gt() || (is_open && order.is_eq()))
}
