//! Numeric comparisons, in the form that is fastest for a column of integers.

use weir_expr::{Bound, Field, Literal, Numeric, Range, Reserved, Term, Test, Value};

/// The integers from `first` to `last`, inclusive; none when `first` is greater than `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IntRange {
    pub(super) first: i64,
    pub(super) last: i64,
}

const NONE: IntRange = IntRange { first: 1, last: 0 };

impl IntRange {
    /// Returns the integers that pass the term; `None` when they do not form a range, or are not
    /// known.
    pub(super) fn of(term: &Term) -> Option<Self> {
        if term.field == Field::Reserved(Reserved::Status) {
            return None;
        }
        match &term.test {
            Test::Range(range) if range.is_numeric() => Some(Self::of_range(range)),
            Test::Equals(literal) => Some(Self::of_literal(literal)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn contains(self, value: i64) -> bool {
        self.first <= value && value <= self.last
    }

    /// Returns whether some integer of the range is between these, inclusive.
    pub(super) fn overlaps(self, first: i64, last: i64) -> bool {
        self.first <= last && first <= self.last && self.first <= self.last
    }

    fn of_literal(literal: &Literal) -> Self {
        let whole = match literal.number.map(|number| number.value) {
            Some(Numeric::Int(whole)) => Some(whole),
            Some(Numeric::Float(_)) => None,
            // Quoted: the text of a number.
            None => literal.text.parse().ok().filter(|whole: &i64| {
                let mut buffer = Vec::new();
                Value::Int(*whole).text(&mut buffer) == Some(literal.text.as_bytes())
            }),
        };
        whole.map_or(NONE, |whole| Self { first: whole, last: whole })
    }

    fn of_range(range: &Range) -> Self {
        let number = |literal: &Literal| literal.number.map(|number| number.value);
        let first = match &range.low {
            Bound::Unbounded => Some(i64::MIN),
            Bound::Included(low) => number(low).and_then(|low| least(low, true)),
            Bound::Excluded(low) => number(low).and_then(|low| least(low, false)),
        };
        let last = match &range.high {
            Bound::Unbounded => Some(i64::MAX),
            Bound::Included(high) => number(high).and_then(|high| most(high, true)),
            Bound::Excluded(high) => number(high).and_then(|high| most(high, false)),
        };
        first.zip(last).map_or(NONE, |(first, last)| Self { first, last })
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Returns the smallest integer above the bound.
fn least(bound: Numeric, is_included: bool) -> Option<i64> {
    match bound {
        Numeric::Int(whole) if is_included => Some(whole),
        Numeric::Int(whole) => whole.checked_add(1),
        Numeric::Float(float) if float >= TWO_TO_63 => None,
        Numeric::Float(float) if float < -TWO_TO_63 => Some(i64::MIN),
        Numeric::Float(float) => {
            let up = float.ceil() as i64;
            let is_whole = float.fract() == 0.0;
            if is_whole && !is_included { up.checked_add(1) } else { Some(up) }
        }
    }
}

/// Returns the largest integer below the bound.
fn most(bound: Numeric, is_included: bool) -> Option<i64> {
    match bound {
        Numeric::Int(whole) if is_included => Some(whole),
        Numeric::Int(whole) => whole.checked_sub(1),
        Numeric::Float(float) if float < -TWO_TO_63 => None,
        Numeric::Float(float) if float >= TWO_TO_63 => Some(i64::MAX),
        Numeric::Float(float) => {
            let down = float.floor() as i64;
            let is_whole = float.fract() == 0.0;
            if is_whole && !is_included { down.checked_sub(1) } else { Some(down) }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_expr::{ExprKind, TermMatcher, parse};

    use super::*;

    const QUERIES: [&str; 14] = [
        "@a:5",
        "@a:\"5\"",
        "@a:\"05\"",
        "@a:5.0",
        "@a:5.5",
        "@a:>5",
        "@a:>=5.5",
        "@a:<5.5",
        "@a:<-3",
        "@a:[1 TO 5}",
        "@a:{-2 TO 1e30]",
        "@a:>1e30",
        "@a:[* TO -1e30]",
        "@a:>9223372036854775806",
    ];

    proptest! {
        #[test]
        fn range_contains_exactly_the_matching_numbers(
            value in prop_oneof![-10_i64..10, any::<i64>(), Just(i64::MAX), Just(i64::MIN)],
        ) {
            for query in QUERIES {
                let expr = parse(query).unwrap();
                let ExprKind::Term(term) = &expr.kind else { panic!("{query} is not a term") };
                let range = IntRange::of(term).unwrap();
                let wanted = TermMatcher::new(term).unwrap().value(Value::Int(value));
                prop_assert_eq!(range.contains(value), wanted, "{} of {}", query, value);
            }
        }
    }
}
