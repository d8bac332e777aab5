//! Reference implementation of expressions: evaluated term by term, with nothing prepared or
//! cached. It is slow, and everything else is tested against it.

use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::util::syntax;

use crate::ast::{Expr, ExprKind, Field, Regexp, Term, Test};
use crate::fields::{Fields, Value};
use crate::value::{canonical, has_phrase, passes};

/// Returns whether the record matches the expression. A regular expression that cannot be compiled
/// matches nothing.
pub fn matches(expr: &Expr, record: &dyn Fields) -> bool {
    match &expr.kind {
        ExprKind::All => true,
        ExprKind::Not(inner) => !matches(inner, record),
        ExprKind::And(parts) => parts.iter().all(|part| matches(part, record)),
        ExprKind::Or(parts) => parts.iter().any(|part| matches(part, record)),
        ExprKind::Term(term) => term_matches(term, record),
    }
}

fn term_matches(term: &Term, record: &dyn Fields) -> bool {
    let message_passes = || {
        let text = record.body().plain();
        match &term.test {
            Test::Exists => !text.is_empty(),
            Test::Words(phrase) => has_phrase(&text, &phrase.words),
            Test::Regexp(regexp) => is_found(regexp, &text),
            _ => false,
        }
    };
    match term.field {
        Field::Message => message_passes(),
        Field::Any => message_passes() || any_value_passes(term, record),
        _ => any_value_passes(term, record),
    }
}

fn any_value_passes(term: &Term, record: &dyn Fields) -> bool {
    let mut any = false;
    record.visit(&term.field, &mut |value| any |= value_passes(term, value));
    any
}

fn value_passes(term: &Term, value: Value<'_>) -> bool {
    let mut buffer = Vec::new();
    match &term.test {
        Test::Regexp(regexp) => canonical(&term.field, value)
            .text(&mut buffer)
            .is_some_and(|text| is_found(regexp, text)),
        test => passes(&term.field, test, value, &mut buffer),
    }
}

/// Searches with the simplest engine available, so that the others are tested against it.
fn is_found(regexp: &Regexp, text: &[u8]) -> bool {
    let syntax = syntax::Config::new().utf8(false).case_insensitive(regexp.case_insensitive);
    let engine = PikeVM::builder()
        .syntax(syntax)
        .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
        .build(&regexp.pattern);
    engine.is_ok_and(|engine| engine.is_match(&mut engine.create_cache(), text))
}
