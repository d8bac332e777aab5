//! Numbers for people, with the unit that the answer says they have.

use std::time::Duration;

use weir_expr::Unit;
use weir_host::units::{approx_duration, approx_size, group_digits};

/// The number for people.
pub(super) fn show(number: f64, unit: Option<Unit>) -> String {
    let time = |ns: f64| approx_duration(Duration::from_nanos((number * ns) as u64));
    match unit.filter(|_| number >= 0.0) {
        None => plain(number),
        Some(Unit::Nanosecond) => time(1.0),
        Some(Unit::Microsecond) => time(1e3),
        Some(Unit::Millisecond) => time(1e6),
        Some(Unit::Second) => time(1e9),
        Some(Unit::Byte) => approx_size(number as u64),
    }
}

/// Whole numbers whole, others with up to three digits behind the point.
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
    use super::*;

    #[test]
    fn numbers_are_shown_with_what_they_measure() {
        for (number, unit, wanted) in [
            (1.5e6, Some(Unit::Nanosecond), "1.50 ms"),
            (1500.0, Some(Unit::Millisecond), "1.50 s"),
            (2.0, Some(Unit::Second), "2.00 s"),
            (2048.0, Some(Unit::Byte), "2.00 KiB"),
            (0.0, Some(Unit::Nanosecond), "0 s"),
            (-2e6, Some(Unit::Nanosecond), "-2,000,000"),
            (1234.0, None, "1,234"),
            (1234.5678, None, "1,234.568"),
            (-0.25, None, "-0.25"),
            (1e-9, None, "1.00e-9"),
        ] {
            assert_eq!(show(number, unit), wanted, "{number} {unit:?}");
        }
    }
}
