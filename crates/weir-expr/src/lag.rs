//! `@lag`: how long after its event a record arrived, for records that have no attribute of that
//! name.
//!
//! Invariant: rules, live tails and the store all use [`visit_lag`], so that `@lag` is the same in
//! all of them.

use crate::fields::{Value, Visitor};

/// Path of the attribute, without `@`.
pub const LAG: &str = "lag";

/// Returns the time from an event until weir received its record, in nanoseconds. It is negative if
/// the clock of the sender is ahead of that of weir.
pub fn lag_ns(arrival_ns: i64, time_ns: i64) -> i64 {
    arrival_ns.saturating_sub(time_ns)
}

/// Visits the values of the attribute `lag`, for which `attribute` calls its argument. If it has
/// none, visits `lag_ns` instead; it is `None` if the arrival is not known.
pub fn visit_lag(
    attribute: impl FnOnce(&mut Visitor<'_>),
    lag_ns: Option<i64>,
    visit: &mut Visitor<'_>,
) {
    let mut has_value = false;
    attribute(&mut |value| {
        has_value |= !matches!(value, Value::Null | Value::Object);
        visit(value);
    });
    if let Some(lag_ns) = lag_ns.filter(|_| !has_value) {
        visit(Value::Int(lag_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_of_the_record_takes_precedence() {
        let seen = |own: &[Value<'_>], lag: Option<i64>| {
            let mut seen = Vec::new();
            let attribute = |visit: &mut Visitor<'_>| own.iter().for_each(|value| visit(*value));
            visit_lag(attribute, lag, &mut |value| seen.push(format!("{value:?}")));
            seen
        };
        assert_eq!(seen(&[], Some(5)), ["Int(5)"]);
        assert_eq!(seen(&[Value::Int(7), Value::Bool(true)], Some(5)), ["Int(7)", "Bool(true)"]);
        assert_eq!(seen(&[Value::Null], Some(5)), ["Null", "Int(5)"], "null is no value");
        assert_eq!(seen(&[Value::Object], Some(5)), ["Object", "Int(5)"]);
        assert_eq!(seen(&[], None), [""; 0]);
    }

    #[test]
    fn times_at_the_ends_of_the_range_do_not_overflow() {
        assert_eq!(lag_ns(10, 4), 6);
        assert_eq!(lag_ns(4, 10), -6, "the sender's clock is ahead");
        assert_eq!(lag_ns(i64::MAX, i64::MIN), i64::MAX);
        assert_eq!(lag_ns(i64::MIN, i64::MAX), i64::MIN);
    }
}
