//! The units of numbers, as far as they are known: for standard attributes by convention, for
//! others by their names, for calculated fields by what they are calculated from.
//!
//! Invariant: a unit is assigned only where the convention, the name or the arithmetic is
//! unambiguous; anything mixed has none. A number with a unit that is compared with a field of
//! another unit is converted to that of the field, so that `@wait_ms:>2s` works as expected.

use crate::ast::{Bound, Expr, ExprKind, Field, Literal, Term, Test};
use crate::calculated_field::{CalculatedField, Operator};
use crate::number::Dimension;

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds, the base unit of all times.
    Nanosecond,
    /// A microsecond.
    Microsecond,
    /// A millisecond.
    Millisecond,
    /// A second.
    Second,
    /// Bytes, the base unit of all sizes.
    Byte,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 5] =
        [Self::Nanosecond, Self::Microsecond, Self::Millisecond, Self::Second, Self::Byte];

    /// Returns its symbol: `ns`, `us`, `ms`, `s`, `B`.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Nanosecond => "ns",
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
            Self::Second => "s",
            Self::Byte => "B",
        }
    }

    /// Returns the unit with a symbol.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.symbol() == symbol)
    }

    /// Returns its dimension.
    pub(crate) fn dimension(self) -> Dimension {
        match self {
            Self::Byte => Dimension::Size,
            _ => Dimension::Time,
        }
    }

    /// Returns its size in nanoseconds or bytes.
    pub(crate) fn base_units(self) -> i64 {
        match self {
            Self::Nanosecond | Self::Byte => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => 1_000_000_000,
        }
    }

    /// Returns the unit of a field in records with these calculated fields. `duration` is in
    /// nanoseconds, as in Datadog's standard attributes; for other attributes the end of the name
    /// determines it. The same applies to a calculated field, before its arithmetic is considered:
    /// `wait_ms = @wait_seconds * 1000`.
    pub fn of(field: &Field, calculated_fields: &[CalculatedField]) -> Option<Self> {
        Self::of_within(field, calculated_fields, &mut Vec::new()).ok().flatten()
    }

    /// `computing` lists calculated fields whose unit is being determined: one that depends on
    /// itself has none.
    fn of_within(
        field: &Field,
        calculated_fields: &[CalculatedField],
        computing: &mut Vec<usize>,
    ) -> Result<Option<Self>, MixedUnits> {
        let Field::Attribute(path) = field else { return Ok(None) };
        let Some(number) = calculated_fields.iter().position(|named| named.path == *path) else {
            return Ok(Self::of_name(path));
        };
        if let Some(unit) = Self::from_path(path) {
            return Ok(Some(unit));
        }
        if computing.contains(&number) {
            return Ok(None);
        }
        computing.push(number);
        let unit = calculated_fields[number]
            .formula
            .unit(&mut |field: &Field| Self::of_within(field, calculated_fields, computing));
        computing.pop();
        unit
    }

    fn of_name(path: &str) -> Option<Self> {
        if last_word(path) == "duration" { Some(Self::Nanosecond) } else { Self::from_path(path) }
    }

    /// Returns the unit that the end of an attribute's name indicates.
    pub fn from_path(path: &str) -> Option<Self> {
        Some(match last_word(path) {
            "ns" | "nanos" => Self::Nanosecond,
            "us" | "micros" => Self::Microsecond,
            "ms" | "millis" => Self::Millisecond,
            "seconds" | "secs" => Self::Second,
            "bytes" => Self::Byte,
            _ => return None,
        })
    }

    /// Returns the base unit to which a number with a unit is converted.
    pub(crate) fn base(dimension: Dimension) -> Self {
        match dimension {
            Dimension::Time => Self::Nanosecond,
            Dimension::Size => Self::Byte,
        }
    }
}

fn last_word(path: &str) -> &str {
    path.rsplit(['.', '_']).next().unwrap_or(path)
}

impl Expr {
    /// Converts numbers for records with these calculated fields: a number with a unit is converted
    /// to the unit of its field where that is known, and to nanoseconds or bytes elsewhere.
    /// [`crate::parse`] derives units only from the names of fields.
    #[must_use]
    pub fn in_units(mut self, calculated_fields: &[CalculatedField]) -> Self {
        self.set_units(calculated_fields);
        self
    }

    fn set_units(&mut self, calculated_fields: &[CalculatedField]) {
        match &mut self.kind {
            ExprKind::All => {}
            ExprKind::Not(inner) => inner.set_units(calculated_fields),
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                for part in parts {
                    part.set_units(calculated_fields);
                }
            }
            ExprKind::Term(Term { field, test }) => {
                let unit = Unit::of(field, calculated_fields);
                literals(test).for_each(|literal| literal.set_unit(unit));
            }
        }
    }
}

/// Returns the values that a test compares with.
fn literals(test: &mut Test) -> impl Iterator<Item = &mut Literal> {
    let found: [Option<&mut Literal>; 2] = match test {
        Test::Equals(literal) => [Some(literal), None],
        Test::Range(range) => [&mut range.low, &mut range.high].map(|bound| match bound {
            Bound::Unbounded => None,
            Bound::Included(literal) | Bound::Excluded(literal) => Some(literal),
        }),
        _ => [None, None],
    };
    found.into_iter().flatten()
}

impl Literal {
    fn set_unit(&mut self, unit: Option<Unit>) {
        self.number = self.number.map(|number| match unit {
            Some(unit) => number.in_unit(unit),
            None => number.in_base(),
        });
    }
}

/// Numbers of different units were combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MixedUnits;

impl Operator {
    /// Returns the unit of the result for those of the operands.
    pub(crate) fn unit(
        self,
        left: Option<Unit>,
        right: Option<Unit>,
    ) -> Result<Option<Unit>, MixedUnits> {
        match (self, left, right) {
            (Self::Add | Self::Subtract, Some(a), Some(b)) if a != b => Err(MixedUnits),
            (Self::Multiply, Some(_), Some(_)) => Err(MixedUnits),
            (Self::Add | Self::Subtract | Self::Multiply, a, b) => Ok(a.or(b)),
            (Self::Divide, a, None) => Ok(a),
            (Self::Divide, Some(a), Some(b)) if a == b => Ok(None),
            (Self::Divide, _, Some(_)) => Err(MixedUnits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calculated_field::Formula;

    fn unit(text: &str) -> Option<Unit> {
        let named = |(path, text): (&str, &str)| CalculatedField {
            path: path.to_owned(),
            formula: Formula::parse(text).unwrap(),
        };
        let calculated_fields =
            [("it", text), ("delay", "@duration - @upstream"), ("loop", "@loop + @duration")];
        Unit::of(&Field::Attribute("it".to_owned()), &calculated_fields.map(named))
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
            ("@a_ms - 5ms", Some(Unit::Millisecond)),
            ("5ms - @a_ms", Some(Unit::Millisecond)),
            ("@a_ms + @duration", Some(Unit::Nanosecond)),
            ("@a_ms + @duration + 1s", Some(Unit::Nanosecond)),
            ("@b_seconds - (@a_ms - 5ms)", Some(Unit::Millisecond)),
            ("@a_ms / @b_ms", None),
            ("@a_ms / @b_seconds", None),
            ("@a_ms * @b_ms + @c_ms", None),
            ("@duration * @a_ms", None),
            ("@delay / 2", Some(Unit::Nanosecond)),
            ("@loop", Some(Unit::Nanosecond)),
            ("@it + @a_ms", Some(Unit::Millisecond)),
        ] {
            assert_eq!(unit(text), wanted, "{text}");
        }
        let named = |path: &str| CalculatedField {
            path: path.to_owned(),
            formula: Formula::parse("@wait_seconds * 1000").unwrap(),
        };
        for (path, unit) in [("wait_ms", Unit::Millisecond), ("wait", Unit::Second)] {
            assert_eq!(Unit::of(&Field::Attribute(path.to_owned()), &[named(path)]), Some(unit));
        }
    }

    #[test]
    fn literals_with_a_unit_are_converted_to_that_of_the_field() {
        let formula = Formula::parse("@a_ms - @b_ms").unwrap();
        let calculated_fields = [CalculatedField { path: "delay".to_owned(), formula }];
        for (text, alone, with_fields) in [
            ("@a.wait_ms:>2s", 2_000, 2_000),
            ("@a.wait_ms:[* TO 3us]", 0, 0),
            ("@duration:>=2s", 2_000_000_000, 2_000_000_000),
            ("@duration_seconds:2s", 2, 2),
            ("NOT (a OR @delay:<2s)", 2_000_000_000, 2_000),
            ("@size_bytes:2KiB", 2_048, 2_048),
            ("@wait_ms:>2KiB", 2_048, 2_048),
            ("@other:>2s", 2_000_000_000, 2_000_000_000),
        ] {
            let number = |mut expr: Expr| {
                let mut found = None;
                expr.for_each_term(&mut |term, _| {
                    let mut test = term.test.clone();
                    if let Some(literal) = literals(&mut test).next() {
                        found = literal.number.map(|number| number.value.float() as i64);
                    }
                });
                expr.set_units(&[]);
                (found.unwrap(), expr)
            };
            let parsed = crate::parse(text).unwrap();
            let (value, again) = number(parsed.clone());
            assert_eq!((value, &again), (alone, &parsed), "{text}");
            let (value, again) = number(parsed.clone().in_units(&calculated_fields));
            assert_eq!((value, &again), (with_fields, &parsed), "{text}");
        }
    }

    #[test]
    fn unit_symbols_are_unique() {
        for unit in Unit::ALL {
            assert_eq!(Unit::from_symbol(unit.symbol()), Some(unit));
        }
        assert_eq!(Unit::from_symbol("m"), None);
    }
}
