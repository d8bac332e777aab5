//! Numbers for people, with the unit that they are known to have.
//!
//! What a number measures is known of standard attributes (`duration` is nanoseconds), of names
//! that say so (`_ms`, `_bytes`), and of measures by their units.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_expr::{Dimension, Measure};
use weir_host::units::{approx_duration, approx_size, group_digits};

use super::request::Figure;

/// What numbers measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unit {
    /// Nothing that is known.
    None,
    /// Time; so many nanoseconds each.
    Time(f64),
    /// Bytes; so many each.
    Size(f64),
}

impl Unit {
    /// That of a figure.
    pub(super) fn of(figure: &Figure, measures: &BTreeMap<String, String>) -> Self {
        let is_number = matches!(figure.aggregation.as_str(), "count" | "cardinality");
        let Some(metric) = figure.metric.as_deref().filter(|_| !is_number) else {
            return Self::None;
        };
        let path = metric.strip_prefix('@').unwrap_or(metric);
        if let Some(measure) = measures.get(path) {
            return match Measure::parse(measure).ok().and_then(|measure| measure.dimension()) {
                Some(Dimension::Time) => Self::Time(1.0),
                Some(Dimension::Size) => Self::Size(1.0),
                None => Self::None,
            };
        }
        let name = path.rsplit('.').next().unwrap_or(path);
        match name.rsplit('_').next().unwrap_or(name) {
            "duration" | "ns" | "nanos" => Self::Time(1.0),
            "us" | "micros" => Self::Time(1e3),
            "ms" | "millis" => Self::Time(1e6),
            "seconds" | "secs" => Self::Time(1e9),
            "bytes" => Self::Size(1.0),
            _ => Self::None,
        }
    }

    /// The number for people.
    pub(super) fn show(self, number: f64) -> String {
        match self {
            Self::Time(ns) if number >= 0.0 => {
                approx_duration(Duration::from_nanos((number * ns) as u64))
            }
            Self::Size(bytes) if number >= 0.0 => approx_size((number * bytes) as u64),
            _ => plain(number),
        }
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
        let measures = [("delay".to_owned(), "@a - 5ms".to_owned())].into();
        let show = |figure: &str, number| Unit::of(&Figure::parse(figure), &measures).show(number);
        assert_eq!(show("avg:@duration", 1.5e6), "1.50 ms");
        assert_eq!(show("p99:@http.duration_ms", 1500.0), "1.50 s");
        assert_eq!(show("sum:@network.bytes", 2048.0), "2.00 KiB");
        assert_eq!(show("max:@delay", 2e9), "2.00 s");
        assert_eq!(show("count:@duration", 1234.0), "1,234");
        assert_eq!(show("avg:@size", 1234.5678), "1,234.568");
        assert_eq!(show("avg:@size", -0.25), "-0.25");
        assert_eq!(show("avg:@size", 1e-9), "1.00e-9");
        assert_eq!(show("min:@duration", 0.0), "0 s");
    }
}
