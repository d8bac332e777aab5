//! The units of numbers, if known: as declared, for standard attributes by convention, for others
//! by their names, for calculated fields by their operands.
//!
//! Invariant: a unit is assigned only where the declaration, the convention, the name or the
//! arithmetic is unambiguous; anything mixed has none. A number with a unit that is compared with a
//! field of another unit is converted to that of the field, so that `@wait_ms:>2s` works as
//! expected. Rules, live tails and the store all use [`Units`], so that the same expression finds
//! the same records in all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Bound, Expr, ExprKind, Field, Literal, Term, Test};
use crate::calculated_field::{CalculatedField, Operator};
use crate::convention::unit_of_known_name;
use crate::lag::LAG;
use crate::number::{Dimension, unit_like};

macro_rules! units {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal, $dimension:ident, $base_units:literal;)*) => {
        /// The unit of a number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Unit { $($(#[$doc])* $name,)* }

        impl Unit {
            /// All units.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns its symbol: `ns`, `min`, `KiB`.
            pub fn symbol(self) -> &'static str {
                match self { $(Self::$name => $symbol,)* }
            }

            /// Returns its dimension.
            pub fn dimension(self) -> Dimension {
                match self { $(Self::$name => Dimension::$dimension,)* }
            }

            /// Returns its size in nanoseconds or bytes.
            pub fn base_units(self) -> i64 {
                match self { $(Self::$name => $base_units,)* }
            }
        }
    };
}

units! {
    /// Nanoseconds, the base unit of all times.
    Nanosecond = "ns", Time, 1;
    /// A microsecond.
    Microsecond = "us", Time, 1_000;
    /// A millisecond.
    Millisecond = "ms", Time, 1_000_000;
    /// A second.
    Second = "s", Time, 1_000_000_000;
    /// A minute.
    Minute = "min", Time, 60_000_000_000;
    /// An hour.
    Hour = "h", Time, 3_600_000_000_000;
    /// Bytes, the base unit of all sizes.
    Byte = "B", Size, 1;
    /// 1,000 bytes.
    Kilobyte = "kB", Size, 1_000;
    /// 1,024 bytes.
    Kibibyte = "KiB", Size, 1_024;
    /// 1,000,000 bytes.
    Megabyte = "MB", Size, 1_000_000;
    /// 1,048,576 bytes.
    Mebibyte = "MiB", Size, 1_048_576;
    /// 1,000,000,000 bytes.
    Gigabyte = "GB", Size, 1_000_000_000;
    /// 1,073,741,824 bytes.
    Gibibyte = "GiB", Size, 1_073_741_824;
}

impl Unit {
    /// Returns the unit with a symbol.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|unit| unit.symbol() == symbol)
    }

    /// Returns the unit that was probably meant by an unknown symbol: `msec`, `kib`.
    pub fn like(unknown: &str) -> Option<Self> {
        unit_like(unknown).and_then(Self::from_symbol)
    }

    /// Returns the unit that the end of an attribute's name indicates.
    pub fn from_path(path: &str) -> Option<Self> {
        Some(match last_word(path) {
            "ns" | "nanos" | "nsec" | "nanoseconds" => Self::Nanosecond,
            "us" | "micros" | "usec" | "microseconds" => Self::Microsecond,
            "ms" | "millis" | "msec" | "milliseconds" if path != "msec" => Self::Millisecond,
            "seconds" | "secs" => Self::Second,
            // A single letter is the whole name of too many things.
            "s" if path.ends_with("_s") => Self::Second,
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

/// The units of attributes: declared ones, and for all others those derived from their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Units {
    /// By path, without `@`.
    declared: Arc<BTreeMap<String, Unit>>,
}

impl Units {
    /// Declares the units of attributes, by path without `@`.
    pub fn new(declared: BTreeMap<String, Unit>) -> Self {
        Self { declared: Arc::new(declared) }
    }

    /// Returns the declared units, by path.
    pub fn declared(&self) -> &BTreeMap<String, Unit> {
        &self.declared
    }

    /// Returns the unit of a field in records with these calculated fields. A declared unit takes
    /// precedence. `lag` is in nanoseconds, and `duration` is, as in Datadog's standard attributes;
    /// for other attributes the end of the name determines it, or the program that is known to use
    /// the name. Of these only the end of the name applies to a calculated field, before its
    /// arithmetic is considered: `wait_ms = @wait_seconds * 1000`.
    pub fn of(&self, field: &Field, calculated_fields: &[CalculatedField]) -> Option<Unit> {
        self.of_within(field, calculated_fields, &mut Vec::new()).ok().flatten()
    }

    /// Returns the unit of a stored attribute.
    pub fn of_attribute(&self, path: &str) -> Option<Unit> {
        let by_name = || match last_word(path) {
            "duration" => Some(Unit::Nanosecond),
            _ if path == LAG => Some(Unit::Nanosecond),
            _ => unit_of_known_name(path).or_else(|| Unit::from_path(path)),
        };
        self.declared.get(path).copied().or_else(by_name)
    }

    /// `computing` lists calculated fields whose unit is being determined: one that depends on
    /// itself has none.
    fn of_within(
        &self,
        field: &Field,
        calculated_fields: &[CalculatedField],
        computing: &mut Vec<usize>,
    ) -> Result<Option<Unit>, MixedUnits> {
        let Field::Attribute(path) = field else { return Ok(None) };
        let Some(number) = calculated_fields.iter().position(|named| named.path == *path) else {
            return Ok(self.of_attribute(path));
        };
        if let Some(unit) = self.declared.get(path).copied().or_else(|| Unit::from_path(path)) {
            return Ok(Some(unit));
        }
        if computing.contains(&number) {
            return Ok(None);
        }
        computing.push(number);
        let unit = calculated_fields[number]
            .formula
            .unit(&mut |field: &Field| self.of_within(field, calculated_fields, computing));
        computing.pop();
        unit
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
    pub fn in_units(mut self, units: &Units, calculated_fields: &[CalculatedField]) -> Self {
        self.set_units(units, calculated_fields);
        self
    }

    fn set_units(&mut self, units: &Units, calculated_fields: &[CalculatedField]) {
        match &mut self.kind {
            ExprKind::All => {}
            ExprKind::Not(inner) => inner.set_units(units, calculated_fields),
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                for part in parts {
                    part.set_units(units, calculated_fields);
                }
            }
            ExprKind::Term(Term { field, test }) => {
                let unit = units.of(field, calculated_fields);
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
        Units::default().of(&Field::Attribute("it".to_owned()), &calculated_fields.map(named))
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
            let field = Field::Attribute(path.to_owned());
            assert_eq!(Units::default().of(&field, &[named(path)]), Some(unit));
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
                expr.set_units(&Units::default(), &[]);
                (found.unwrap(), expr)
            };
            let parsed = crate::parse(text).unwrap();
            let (value, again) = number(parsed.clone());
            assert_eq!((value, &again), (alone, &parsed), "{text}");
            let (value, again) =
                number(parsed.clone().in_units(&Units::default(), &calculated_fields));
            assert_eq!((value, &again), (with_fields, &parsed), "{text}");
        }
    }

    #[test]
    fn names_of_known_programs_have_their_units() {
        for (path, unit) in [
            ("request_time", Some(Unit::Second)),
            ("network.nginx.request_time", Some(Unit::Second)),
            ("upstream_response_time", Some(Unit::Second)),
            ("msec", Some(Unit::Second)),
            ("wait_msec", Some(Unit::Millisecond)),
            ("my_request_time", None),
            ("network.unicorn.queueing_delay", Some(Unit::Second)),
            ("unicorn.service_time", Some(Unit::Second)),
            ("queueing_delay", None),
            ("haproxy.Tr", Some(Unit::Millisecond)),
            ("tr", None),
            ("time_backend_response", Some(Unit::Millisecond)),
            ("upstream_service_time", Some(Unit::Millisecond)),
            ("DURATION", Some(Unit::Millisecond)),
            ("duration", Some(Unit::Nanosecond)),
            ("lag", Some(Unit::Nanosecond)),
            ("consumer.lag", None),
            ("taken_us", Some(Unit::Microsecond)),
            ("taken_s", Some(Unit::Second)),
            ("s", None),
        ] {
            assert_eq!(Units::default().of_attribute(path), unit, "{path}");
        }
    }

    #[test]
    fn declared_unit_takes_precedence() {
        let declared = [("took", Unit::Millisecond), ("duration", Unit::Second)];
        let declared = declared.map(|(path, unit)| (path.to_owned(), unit));
        let units = Units::new(declared.into());
        let of = |path: &str| units.of(&Field::Attribute(path.to_owned()), &[]);
        assert_eq!(of("took"), Some(Unit::Millisecond));
        assert_eq!(of("duration"), Some(Unit::Second));
        assert_eq!(of("a.duration"), Some(Unit::Nanosecond));
        let formula = Formula::parse("@took_s * 2").unwrap();
        let took = [CalculatedField { path: "took".to_owned(), formula }];
        let field = Field::Attribute("took".to_owned());
        assert_eq!(units.of(&field, &took), Some(Unit::Millisecond));
        assert_eq!(Units::default().of(&field, &took), Some(Unit::Second));
    }

    #[test]
    fn sizes_that_do_not_divide_each_other_are_added_in_bytes() {
        let declared = [("a", Unit::Kilobyte), ("b", Unit::Kibibyte), ("c", Unit::Megabyte)];
        let declared = declared.map(|(path, unit)| (path.to_owned(), unit));
        let units = Units::new(declared.into());
        for (text, unit) in
            [("@a + @b", Unit::Byte), ("@a + @c", Unit::Kilobyte), ("@c - 1GiB", Unit::Megabyte)]
        {
            let formula = Formula::parse(text).unwrap();
            let sum = [CalculatedField { path: "sum".to_owned(), formula }];
            let sum = CalculatedField::resolve_units(sum, &units);
            assert_eq!(units.of(&Field::Attribute("sum".to_owned()), &sum), Some(unit), "{text}");
        }
    }

    #[test]
    fn units_are_part_of_the_language() {
        for unit in Unit::ALL {
            assert_eq!(Unit::from_symbol(unit.symbol()), Some(*unit));
            let one = crate::Number::parse(&format!("1{}", unit.symbol())).unwrap();
            assert_eq!(one.value, crate::Numeric::Int(unit.base_units()));
            assert_eq!(one.dimension, Some(unit.dimension()));
        }
        assert_eq!(Unit::from_symbol("m"), None);
    }
}
