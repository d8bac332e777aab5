//! What numbers measure, as far as it is known: of standard attributes by convention, of others by
//! names that say so, of measures by what they are computed from.
//!
//! Invariant: a unit is stated only where the convention, the name or the arithmetic leaves no
//! other; whatever is mixed has none.

use crate::ast::Field;
use crate::measure::{NamedMeasure, Operator};
use crate::number::Dimension;

/// What one of a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A nanosecond, as which the language knows all times.
    Nanosecond,
    /// A microsecond.
    Microsecond,
    /// A millisecond.
    Millisecond,
    /// A second.
    Second,
    /// A byte, as which the language knows all sizes.
    Byte,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Nanosecond, Self::Microsecond, Self::Millisecond, Self::Second, Self::Byte];

    /// Its symbol: `ns`, `us`, `ms`, `s`, `B`.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Nanosecond => "ns",
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
            Self::Second => "s",
            Self::Byte => "B",
        }
    }

    /// The unit of a symbol.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.symbol() == symbol)
    }

    /// That of a field in records with these computed attributes. `duration` is nanoseconds, as in
    /// Datadog's standard attributes; other attributes say it by the end of their names.
    pub fn of(field: &Field, measures: &[NamedMeasure]) -> Option<Self> {
        Self::of_within(field, measures, &mut Vec::new()).ok().flatten()
    }

    /// `computing` are measures whose units are being looked for: one of itself has no value.
    fn of_within(
        field: &Field,
        measures: &[NamedMeasure],
        computing: &mut Vec<usize>,
    ) -> Result<Option<Self>, Mixed> {
        let Field::Attribute(path) = field else { return Ok(None) };
        let Some(number) = measures.iter().position(|named| named.path == *path) else {
            return Ok(Self::of_name(path));
        };
        if computing.contains(&number) {
            return Ok(None);
        }
        computing.push(number);
        let unit = measures[number]
            .measure
            .unit(&mut |field: &Field| Self::of_within(field, measures, computing));
        computing.pop();
        unit
    }

    fn of_name(path: &str) -> Option<Self> {
        let name = path.rsplit('.').next().unwrap_or(path);
        Some(match name.rsplit('_').next().unwrap_or(name) {
            "duration" | "ns" | "nanos" => Self::Nanosecond,
            "us" | "micros" => Self::Microsecond,
            "ms" | "millis" => Self::Millisecond,
            "seconds" | "secs" => Self::Second,
            "bytes" => Self::Byte,
            _ => return None,
        })
    }

    /// As which the language knows what was written with a unit.
    pub(crate) fn base(dimension: Dimension) -> Self {
        match dimension {
            Dimension::Time => Self::Nanosecond,
            Dimension::Size => Self::Byte,
        }
    }
}

/// Numbers of different units were put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mixed;

impl Operator {
    /// The unit of what comes out, by those of what goes in.
    pub(crate) fn unit(
        self,
        left: Option<Unit>,
        right: Option<Unit>,
    ) -> Result<Option<Unit>, Mixed> {
        match (self, left, right) {
            (Self::Add | Self::Subtract, Some(a), Some(b)) if a != b => Err(Mixed),
            (Self::Multiply, Some(_), Some(_)) => Err(Mixed),
            (Self::Add | Self::Subtract | Self::Multiply, a, b) => Ok(a.or(b)),
            (Self::Divide, a, None) => Ok(a),
            (Self::Divide, Some(a), Some(b)) if a == b => Ok(None),
            (Self::Divide, _, Some(_)) => Err(Mixed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measure;

    fn unit(text: &str) -> Option<Unit> {
        let named = |(path, text): (&str, &str)| NamedMeasure {
            path: path.to_owned(),
            measure: Measure::parse(text).unwrap(),
        };
        let measures =
            [("it", text), ("delay", "@duration - @upstream"), ("loop", "@loop + @duration")];
        Unit::of(&Field::Attribute("it".to_owned()), &measures.map(named))
    }

    #[test]
    fn units_follow_from_names_and_arithmetic() {
        for (text, wanted) in [
            ("@duration", Some(Unit::Nanosecond)),
            ("@http.duration", Some(Unit::Nanosecond)),
            ("@a.wait_ms", Some(Unit::Millisecond)),
            ("@network.bytes / 2", Some(Unit::Byte)),
            ("@status_code", None),
            ("-(@a_ms - @b_ms) * 3", Some(Unit::Millisecond)),
            ("@a_ms - @b", Some(Unit::Millisecond)),
            ("@a - 5ms", Some(Unit::Nanosecond)),
            ("@a_ms - 5ms", None),
            ("@a_ms + @duration", None),
            ("@a_ms + @duration + 1s", None),
            ("@a_ms / @b_ms", None),
            ("@a_ms / @b_seconds", None),
            ("@duration * @a_ms", None),
            ("@delay / 2", Some(Unit::Nanosecond)),
            ("@loop", Some(Unit::Nanosecond)),
            ("@it + @a_ms", Some(Unit::Millisecond)),
        ] {
            assert_eq!(unit(text), wanted, "{text}");
        }
    }

    #[test]
    fn symbols_are_of_one_unit_each() {
        for unit in Unit::ALL {
            assert_eq!(Unit::from_symbol(unit.symbol()), Some(unit));
        }
        assert_eq!(Unit::from_symbol("m"), None);
    }
}
