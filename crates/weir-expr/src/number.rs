//! Numbers of the language: integers, fractions, and numbers with a unit of time or size.
//!
//! Invariant: a number with a unit is its value in the base unit of its dimension, nanoseconds or
//! bytes, exact whenever it fits in 64 bits, or in the unit of its field. NaN and infinity are not
//! numbers here.

use std::cmp::Ordering;

use crate::unit::Unit;

/// The dimension of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Durations; the base unit is the nanosecond.
    Time,
    /// Sizes; the base unit is the byte.
    Size,
}

/// A value that is compared as a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Numeric {
    /// An integer.
    Int(i64),
    /// A float, finite.
    Float(f64),
}

impl Numeric {
    /// Returns it as a float, rounded if necessary.
    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    /// Compares by value, exactly, even an integer with a fraction. `None` when one of them is not
    /// a number.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Int(a), Self::Float(b)) => compare_mixed(a, b),
            (Self::Float(a), Self::Int(b)) => compare_mixed(b, a).map(Ordering::reverse),
        }
    }
}

/// Compares an integer with a float without rounding either.
fn compare_mixed(whole: i64, float: f64) -> Option<Ordering> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        None
    } else if float >= TWO_TO_63 {
        Some(Ordering::Less)
    } else if float < -TWO_TO_63 {
        Some(Ordering::Greater)
    } else {
        let order = whole.cmp(&(float.trunc() as i64));
        Some(order.then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal)))
    }
}

/// A number as it was written, converted to its base unit, or to that of the field it is compared
/// with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// The value: unchanged when there is no unit, otherwise in nanoseconds, bytes, or the unit of
    /// the field ([`Self::in_unit`]).
    pub value: Numeric,
    /// The dimension of the unit, if one was written.
    pub dimension: Option<Dimension>,
    /// The value in nanoseconds or bytes, whatever the unit of `value`.
    base: Numeric,
}

/// Names of units, their dimension, and their size in base units.
const UNITS: [(&str, Dimension, i64); 29] = [
    ("ns", Dimension::Time, 1),
    ("us", Dimension::Time, 1_000),
    ("µs", Dimension::Time, 1_000),
    ("μs", Dimension::Time, 1_000),
    ("ms", Dimension::Time, 1_000_000),
    ("s", Dimension::Time, 1_000_000_000),
    ("m", Dimension::Time, 60_000_000_000),
    ("min", Dimension::Time, 60_000_000_000),
    ("h", Dimension::Time, 3_600_000_000_000),
    ("d", Dimension::Time, 86_400_000_000_000),
    ("B", Dimension::Size, 1),
    ("b", Dimension::Size, 1),
    ("kB", Dimension::Size, 1_000),
    ("KB", Dimension::Size, 1_000),
    ("kb", Dimension::Size, 1_000),
    ("MB", Dimension::Size, 1_000_000),
    ("mb", Dimension::Size, 1_000_000),
    ("GB", Dimension::Size, 1_000_000_000),
    ("gb", Dimension::Size, 1_000_000_000),
    ("TB", Dimension::Size, 1_000_000_000_000),
    ("tb", Dimension::Size, 1_000_000_000_000),
    ("KiB", Dimension::Size, 1 << 10),
    ("kib", Dimension::Size, 1 << 10),
    ("MiB", Dimension::Size, 1 << 20),
    ("mib", Dimension::Size, 1 << 20),
    ("GiB", Dimension::Size, 1 << 30),
    ("gib", Dimension::Size, 1 << 30),
    ("TiB", Dimension::Size, 1 << 40),
    ("tib", Dimension::Size, 1 << 40),
];

impl Number {
    /// Parses `-12`, `0.5`, `1e6`, `300ms`, `10MiB`. Anything else is not a number.
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = text.split_at(number_len(text.as_bytes())?);
        if unit.is_empty() {
            return Some(Self::plain(scaled(digits, 1)?));
        }
        let (_, dimension, factor) = UNITS.iter().find(|(name, _, _)| *name == unit)?;
        let base = scaled(digits, *factor)?;
        Some(Self { value: base, dimension: Some(*dimension), base })
    }

    /// Creates a number without a unit.
    pub(crate) fn plain(value: Numeric) -> Self {
        Self { value, dimension: None, base: value }
    }

    /// Parses the value of the header `X-Request-Start` (or `X-Queue-Start`) as servers write it:
    /// `t=` and the time since 1970 in seconds (nginx's `t=${msec}`), milliseconds or microseconds
    /// (Apache's `%t`); the magnitude determines which. The result has a unit: nanoseconds since
    /// 1970.
    pub fn parse_moment(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("t=")?;
        if number_len(digits.as_bytes())? != digits.len() {
            return None;
        }
        // From 2001 to 2286, in each of the units.
        let unit = match scaled(digits, 1)?.float() {
            size if !(1e9..1e19).contains(&size) => return None,
            size if size < 1e10 => Unit::Second,
            size if (1e12..1e13).contains(&size) => Unit::Millisecond,
            size if (1e15..1e16).contains(&size) => Unit::Microsecond,
            size if size >= 1e18 => Unit::Nanosecond,
            _ => return None,
        };
        let base = scaled(digits, unit.base_units())?;
        Some(Self { value: base, dimension: Some(Dimension::Time), base })
    }

    /// Converts it to the unit; unchanged if the unit has another dimension, or no unit was
    /// written.
    #[must_use]
    pub fn in_unit(self, unit: Unit) -> Self {
        if self.dimension != Some(unit.dimension()) {
            return self;
        }
        let value = match (self.base, unit.base_units()) {
            (Numeric::Int(whole), units) if whole % units == 0 => Numeric::Int(whole / units),
            (base, units) => Numeric::Float(base.float() / units as f64),
        };
        Self { value, ..self }
    }

    /// Converts it to nanoseconds or bytes.
    pub(crate) fn in_base(self) -> Self {
        Self { value: self.base, ..self }
    }

    /// Compares the number, a value of a field, with the number written in the query. A value with
    /// a unit of its own, which only a text can have, is compared in base units.
    pub(crate) fn compare(self, beside: Self) -> Option<Ordering> {
        let beside = if self.dimension.is_some() { beside.base } else { beside.value };
        self.value.compare(beside)
    }

    /// Parses bytes that came with a record.
    pub fn parse_bytes(text: &[u8]) -> Option<Self> {
        // The first byte rules out almost every value that is not a number.
        let first = *text.first()?;
        if text.starts_with(b"t=") {
            return Self::parse_moment(std::str::from_utf8(text).ok()?);
        }
        if !(first.is_ascii_digit() || matches!(first, b'-' | b'+' | b'.')) {
            return None;
        }
        Self::parse(std::str::from_utf8(text).ok()?)
    }
}

/// Returns the length of `[+-] digits [. digits] [e [+-] digits]` at the start.
fn number_len(text: &[u8]) -> Option<usize> {
    let digits = |at: usize| text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let mut at = sign + digits(sign);
    let mut any = at > sign;
    if text.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        any |= fraction > 0;
        at += 1 + fraction;
    }
    if !any {
        return None;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    Some(at)
}

/// Returns the letters after a number that are not a unit, if the text has this form.
pub(crate) fn unknown_unit(text: &str) -> Option<&str> {
    let (_, unit) = text.split_at(number_len(text.as_bytes())?);
    let is_unknown = UNITS.iter().all(|(name, _, _)| *name != unit);
    (is_unknown && !unit.is_empty() && unit.chars().all(char::is_alphabetic)).then_some(unit)
}

/// Returns whether it is a number, with or without a unit, that exceeds the range of floats.
pub(crate) fn is_too_large(text: &str) -> bool {
    let Some(len) = number_len(text.as_bytes()) else { return false };
    let (_, unit) = text.split_at(len);
    let is_number = unit.is_empty() || UNITS.iter().any(|(name, _, _)| *name == unit);
    is_number && Number::parse(text).is_none()
}

/// Returns the unit that was probably meant by an unknown one.
pub(crate) fn unit_like(unknown: &str) -> Option<&'static str> {
    let lower = unknown.to_lowercase();
    let same = || UNITS.iter().map(|(name, _, _)| *name).find(|name| name.to_lowercase() == lower);
    Some(match lower.as_str() {
        "nsec" | "nanos" | "nanosecond" | "nanoseconds" => "ns",
        "usec" | "micros" | "microsecond" | "microseconds" => "us",
        "msec" | "millis" | "millisecond" | "milliseconds" => "ms",
        "sec" | "secs" | "second" | "seconds" => "s",
        "mins" | "minute" | "minutes" => "min",
        "hr" | "hrs" | "hour" | "hours" => "h",
        "day" | "days" => "d",
        "byte" | "bytes" => "B",
        "k" => "kB",
        "m" => "MB",
        "g" => "GB",
        "t" => "TB",
        "ki" => "KiB",
        "mi" => "MiB",
        "gi" => "GiB",
        "ti" => "TiB",
        _ => return same(),
    })
}

/// Returns the value times a whole number; a float is taken as its shortest decimal form, so 0.612
/// seconds are exactly 612,000,000 nanoseconds.
pub(crate) fn times(value: Numeric, factor: i64) -> Option<Numeric> {
    /// A number has one decimal form of at most 15 digits.
    const EXACT_MAX: f64 = 1e15;
    if let Numeric::Int(whole) = value
        && let Some(product) = whole.checked_mul(factor)
    {
        return Some(Numeric::Int(product));
    }
    let product = (value.float() * factor as f64).round();
    if product.abs() < EXACT_MAX && (product / factor as f64).total_cmp(&value.float()).is_eq() {
        return Some(Numeric::Int(product as i64));
    }
    scaled(&format!("{:e}", value.float()), factor)
}

/// Computes `digits * factor`: an integer if the product is one and fits, otherwise the nearest
/// float.
fn scaled(digits: &str, factor: i64) -> Option<Numeric> {
    if let Some(whole) = scaled_exactly(digits, factor) {
        return Some(Numeric::Int(whole));
    }
    let value = digits.parse::<f64>().ok()? * factor as f64;
    value.is_finite().then_some(Numeric::Float(value))
}

fn scaled_exactly(digits: &str, factor: i64) -> Option<i64> {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (is_negative, whole) = match whole.strip_prefix('-') {
        Some(whole) => (true, whole),
        None => (false, whole.strip_prefix('+').unwrap_or(whole)),
    };
    // Only a sign, digits and a point are possible here.
    let add = |value: i128, digit: u8| value.checked_mul(10)?.checked_add(i128::from(digit - b'0'));
    let mut value = whole.bytes().chain(fraction.bytes()).try_fold(0, add)?;
    value = if is_negative { -value } else { value }.checked_mul(i128::from(factor))?;
    let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 {
        value = value.checked_mul(power)?;
    } else if value % power == 0 {
        value /= power;
    } else {
        return None;
    }
    i64::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> Option<i64> {
        match Number::parse(text)?.value {
            Numeric::Int(value) => Some(value),
            Numeric::Float(_) => None,
        }
    }

    #[test]
    fn numbers_are_exact_where_they_fit() {
        assert_eq!(int("9223372036854775807"), Some(i64::MAX));
        assert_eq!(int("300ms"), Some(300_000_000));
        assert_eq!(int("0.3s"), Some(300_000_000));
        assert_eq!(int("1.5MiB"), Some(1_572_864));
        assert_eq!(int("1e3"), Some(1_000));
        assert_eq!(int("-2.50e1"), Some(-25));
        assert_eq!(Number::parse("0.5").unwrap().value, Numeric::Float(0.5));
        assert_eq!(Number::parse("1e30").unwrap().value, Numeric::Float(1e30));
        assert_eq!(Number::parse(".5").unwrap().value, Numeric::Float(0.5));
    }

    #[test]
    fn number_is_converted_to_the_unit_of_its_field() {
        let told = |text: &str, unit| Number::parse(text).unwrap().in_unit(unit);
        for (text, unit, value) in [
            ("300ms", Unit::Millisecond, Numeric::Int(300)),
            ("1.5s", Unit::Millisecond, Numeric::Int(1_500)),
            ("300ms", Unit::Second, Numeric::Float(0.3)),
            ("1us", Unit::Nanosecond, Numeric::Int(1_000)),
            ("1e11s", Unit::Millisecond, Numeric::Float(1e14)),
            ("300ms", Unit::Byte, Numeric::Int(300_000_000)),
            ("2KiB", Unit::Byte, Numeric::Int(2_048)),
            ("300", Unit::Millisecond, Numeric::Int(300)),
        ] {
            assert_eq!(told(text, unit).value, value, "{text} in {}", unit.symbol());
            assert_eq!(told(text, unit).in_base(), Number::parse(text).unwrap());
            assert_eq!(told(text, Unit::Nanosecond).in_unit(unit), told(text, unit));
        }
        let value = |text: &str| Number::parse(text).unwrap();
        let limit = told("300ms", Unit::Second);
        assert_eq!(value("0.3").compare(limit), Some(Ordering::Equal));
        assert_eq!(value("300ms").compare(limit), Some(Ordering::Equal));
        assert_eq!(value("299ms").compare(limit), Some(Ordering::Less));
    }

    #[test]
    fn moments_of_request_headers_have_a_unit() {
        let moment = |text: &str| Number::parse_bytes(text.as_bytes());
        for text in ["t=1700000000.123", "t=1700000000123", "t=1700000000123000"] {
            let number = moment(text).unwrap();
            assert_eq!(number.value, Numeric::Int(1_700_000_000_123_000_000), "{text}");
            assert_eq!(number.dimension, Some(Dimension::Time));
            assert_eq!(number.in_unit(Unit::Millisecond).value, Numeric::Int(1_700_000_000_123));
        }
        for text in ["t=", "t=5", "t=1700000000ms", "t=-1700000000", "t=17000000000", "true", "t"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn floats_are_multiplied_as_they_are_written() {
        for (value, product) in [
            (Numeric::Float(0.612), Numeric::Int(612_000_000)),
            (Numeric::Float(0.57), Numeric::Int(570_000_000)),
            (Numeric::Float(1_700_000_000.735), Numeric::Int(1_700_000_000_735_000_000)),
            (Numeric::Int(-3), Numeric::Int(-3_000_000_000)),
            (Numeric::Float(1e299), Numeric::Float(1e308)),
            (Numeric::Float(1e-10), Numeric::Float(0.1)),
        ] {
            assert_eq!(times(value, 1_000_000_000), Some(product), "{value:?}");
        }
    }

    #[test]
    fn invalid_numbers_are_rejected() {
        for text in ["", "-", ".", "e5", "1x", "1 ms", "nan", "inf", "1e999", "0x10", "1.2.3", "5M"]
        {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    #[test]
    fn integers_and_floats_compare_without_rounding() {
        let big = Numeric::Int((1 << 53) + 1);
        assert_eq!(big.compare(Numeric::Float((1_i64 << 53) as f64)), Some(Ordering::Greater));
        assert_eq!(Numeric::Int(3).compare(Numeric::Float(3.5)), Some(Ordering::Less));
        assert_eq!(Numeric::Int(-3).compare(Numeric::Float(-3.5)), Some(Ordering::Greater));
        assert_eq!(Numeric::Float(3.0).compare(Numeric::Int(3)), Some(Ordering::Equal));
        assert_eq!(Numeric::Int(i64::MAX).compare(Numeric::Float(1e30)), Some(Ordering::Less));
        assert_eq!(Numeric::Int(1).compare(Numeric::Float(f64::NAN)), None);
    }
}
