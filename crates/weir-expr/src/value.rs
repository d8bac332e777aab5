//! Whether a value passes a test: the definition shared by the naive evaluator and the rule set.

use std::cmp::Ordering;

use crate::ast::{Bound, Field, Literal, Range, Reserved, Test};
use crate::fields::Value;
use crate::glob::Glob;
use crate::status::Status;
use crate::words;

/// Returns whether the value of the field passes a test that needs no compiled regexp.
pub(crate) fn passes(field: &Field, test: &Test, value: Value<'_>, buffer: &mut Vec<u8>) -> bool {
    let value = canonical(field, value);
    match test {
        Test::Exists => value != Value::Null,
        Test::Equals(literal) => equals(field, literal, value, buffer),
        Test::Range(range) if is_status(field) => status_in_range(range, value),
        Test::Range(range) if range.is_numeric() => number_in_range(range, value),
        Test::Range(range) => value
            .text(buffer)
            .is_some_and(|text| in_range(range, |end| Some(text.cmp(end.text.as_bytes())))),
        Test::Glob(glob) => value.text(buffer).is_some_and(|text| glob.matches(text)),
        Test::Words(phrase) => {
            value.text(buffer).is_some_and(|text| has_phrase(text, &phrase.words))
        }
        Test::Cidr(networks) => value
            .text(buffer)
            .is_some_and(|text| networks.iter().any(|network| network.contains(text))),
        Test::Regexp(_) => false,
    }
}

fn is_status(field: &Field) -> bool {
    *field == Field::Reserved(Reserved::Status)
}

/// Returns a status by its canonical name, whatever its source called it; other values unchanged.
pub(crate) fn canonical<'a>(field: &Field, value: Value<'a>) -> Value<'a> {
    if !is_status(field) {
        return value;
    }
    Status::of_value(value).map_or(value, |status| Value::Text(status.name().as_bytes()))
}

fn equals(field: &Field, literal: &Literal, value: Value<'_>, buffer: &mut Vec<u8>) -> bool {
    let wanted = canonical(field, Value::Text(literal.text.as_bytes()));
    if let (Some(number), Value::Int(_) | Value::Float(_)) = (literal.number, value)
        && let Some(value) = value.number()
        && number.value.compare(value.value) == Some(Ordering::Equal)
    {
        return true;
    }
    match (wanted, value.text(buffer)) {
        (Value::Text(wanted), Some(text)) => wanted == text,
        _ => false,
    }
}

fn number_in_range(range: &Range, value: Value<'_>) -> bool {
    let Some(number) = value.number() else { return false };
    let is_comparable = number.dimension.is_none() || number.dimension == range.dimension();
    is_comparable && in_range(range, |end| number.compare(end.number?))
}

fn status_in_range(range: &Range, value: Value<'_>) -> bool {
    let Value::Text(text) = value else { return false };
    let Some(status) = Status::parse(text) else { return false };
    in_range(range, |end| Some(status.cmp(&Status::parse(end.text.as_bytes())?)))
}

/// `compare` returns the order of the value and a bound; `None` when they cannot be compared.
fn in_range(range: &Range, compare: impl Fn(&Literal) -> Option<Ordering>) -> bool {
    let above = match &range.low {
        Bound::Unbounded => true,
        Bound::Included(low) => compare(low).is_some_and(Ordering::is_ge),
        Bound::Excluded(low) => compare(low).is_some_and(Ordering::is_gt),
    };
    above
        && match &range.high {
            Bound::Unbounded => true,
            Bound::Included(high) => compare(high).is_some_and(Ordering::is_le),
            Bound::Excluded(high) => compare(high).is_some_and(Ordering::is_lt),
        }
}

/// Returns whether the words occur in the text, adjacent to each other.
pub(crate) fn has_phrase(text: &[u8], phrase: &[Glob]) -> bool {
    let mut found = words::split(text);
    loop {
        let mut following = found.clone();
        if phrase.iter().all(|want| following.next().is_some_and(|word| want.matches_folded(word)))
        {
            return true;
        }
        if found.next().is_none() {
            return false;
        }
    }
}
