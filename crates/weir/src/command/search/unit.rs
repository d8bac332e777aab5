//! Numbers in readable form, with the unit that the answer reports for them.
//!
//! Aggregates are rounded; values are exact, and can be searched for as they are shown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use weir_expr::{Dimension, Unit, Units as KnownUnits};
use weir_host::units::{approx_duration, approx_size, group_digits};

use super::rows::cell;

/// The number for people.
pub(super) fn show(number: f64, unit: Option<Unit>) -> String {
    let Some(unit) = unit else { return plain(number) };
    if number < 0.0 { format!("-{}", measured(-number, unit)) } else { measured(number, unit) }
}

fn measured(number: f64, unit: Unit) -> String {
    let base_units = (number * unit.base_units() as f64) as u64;
    match unit.dimension() {
        Dimension::Time => approx_duration(Duration::from_nanos(base_units)),
        Dimension::Size => approx_size(base_units),
    }
}

/// Units of fields.
#[derive(Debug, Default)]
pub(super) struct Units(BTreeMap<String, String>);

impl Units {
    /// Adds the units from an answer, by field as written.
    pub(super) fn add(&mut self, units: &BTreeMap<String, String>) {
        self.0.extend(units.iter().map(|(field, unit)| (field.clone(), unit.clone())));
    }

    /// The unit to show after the values of an attribute.
    pub(super) fn of(&self, name: &str) -> Option<Unit> {
        to_show(name, self.0.get(name).map(String::as_str))
    }
}

/// The unit to show after the values of an attribute for which the answer reports this unit; none
/// if the name of the attribute contains it.
pub(super) fn to_show(name: &str, reported: Option<&str>) -> Option<Unit> {
    let path = name.strip_prefix('@').unwrap_or(name);
    let by_name = || KnownUnits::default().of_attribute(path);
    match Unit::from_path(path) {
        Some(_) => None,
        None => reported.and_then(Unit::from_symbol).or_else(by_name),
    }
}

/// A value on one line, without terminal control characters.
pub(super) fn value(value: &Value, unit: Option<Unit>) -> String {
    match (value, unit) {
        (Value::Number(number), Some(unit)) => exact(&number.to_string(), unit),
        _ => cell(value),
    }
}

/// A number with its unit, in a form that can be searched for.
fn exact(number: &str, unit: Unit) -> String {
    const STEPS: [(u64, usize, &str); 3] =
        [(1_000_000_000, 9, "s"), (1_000_000, 6, "ms"), (1_000, 3, "us")];
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let whole: Option<u64> = digits.strip_suffix(".0").unwrap_or(digits).parse().ok();
    let step = whole.and_then(|ns| STEPS.into_iter().find(|(step, ..)| *step <= ns));
    match (unit, whole, step) {
        (Unit::Nanosecond, Some(ns), Some((step, places, symbol))) => {
            let text = format!("{sign}{}.{:0places$}", ns / step, ns % step);
            let text = text.trim_end_matches('0').trim_end_matches('.');
            format!("{text}{symbol}")
        }
        _ => format!("{number}{}", unit.symbol()),
    }
}

/// Integers without decimals, other numbers with up to three.
fn plain(number: f64) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    let size = number.abs();
    if size >= 1e15 {
        return format!("{number:.3e}");
    }
    let thousandths = (size * 1000.0).round() as u64;
    if thousandths == 0 && size > 0.0 {
        return format!("{number:.2e}");
    }
    let text = format!("{sign}{}.{:03}", group_digits(thousandths / 1000), thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use serde_json::json;
    use weir_expr::Number;

    use super::*;

    #[test]
    fn numbers_are_shown_with_units() {
        for (number, unit, wanted) in [
            (1.5e6, Some(Unit::Nanosecond), "1.50 ms"),
            (1500.0, Some(Unit::Millisecond), "1.50 s"),
            (2.0, Some(Unit::Second), "2.00 s"),
            (2048.0, Some(Unit::Byte), "2.00 KiB"),
            (0.0, Some(Unit::Nanosecond), "0 s"),
            (-2e6, Some(Unit::Nanosecond), "-2.00 ms"),
            (-2048.0, Some(Unit::Byte), "-2.00 KiB"),
            (1234.0, None, "1,234"),
            (1234.5678, None, "1,234.568"),
            (-0.25, None, "-0.25"),
            (1e-9, None, "1.00e-9"),
        ] {
            assert_eq!(show(number, unit), wanted, "{number} {unit:?}");
        }
    }

    #[test]
    fn values_are_exact_and_can_be_searched_for() {
        for (number, unit, wanted) in [
            (json!(1_214_000_000), Unit::Nanosecond, "1.214s"),
            (json!(3_600_000_000_000_u64), Unit::Nanosecond, "3600s"),
            (json!(65_000_000), Unit::Nanosecond, "65ms"),
            (json!(-1_234_567), Unit::Nanosecond, "-1.234567ms"),
            (json!(1_500.0), Unit::Nanosecond, "1.5us"),
            (json!(1_500.5), Unit::Nanosecond, "1500.5ns"),
            (json!(0), Unit::Nanosecond, "0ns"),
            (json!(12), Unit::Millisecond, "12ms"),
            (json!(0.25), Unit::Second, "0.25s"),
            (json!(86_157), Unit::Byte, "86157B"),
        ] {
            let shown = value(&number, Some(unit));
            assert_eq!(shown, wanted);
            let read = Number::parse(&shown).map(|number| number.in_unit(unit).value);
            let wanted = Number::parse(&number.to_string()).map(|number| number.value);
            let is_same = read.zip(wanted).and_then(|(a, b)| a.compare(b));
            assert_eq!(is_same, Some(Ordering::Equal), "{number} {unit:?}");
        }
        assert_eq!(value(&json!("a\nb"), Some(Unit::Second)), "a⏎b", "no number");
        assert_eq!(value(&json!(1_000_000), None), "1000000");
    }

    #[test]
    fn unit_is_omitted_if_the_name_has_it() {
        let mut units = Units::default();
        let reported = [("@delay", "ns"), ("@wait_ms", "ms")];
        units.add(&reported.map(|(field, unit)| (field.to_owned(), unit.to_owned())).into());
        let shown = |name| units.of(name).map(Unit::symbol);
        assert_eq!(shown("@delay"), Some("ns"), "computed");
        assert_eq!(shown("@http.duration"), Some("ns"), "by convention");
        assert_eq!((shown("@wait_ms"), shown("@size_bytes")), (None, None), "by its name");
        assert_eq!((shown("@n"), shown("service")), (None, None));
    }
}
