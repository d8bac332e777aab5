//! Values with units, as written in the configuration and on the command line: sizes (`64MiB`,
//! `1GB`), shares of something (`10%`) and durations (`300ms`, `5m`, `1h30m`).
//!
//! Invariants: nothing is silently rounded (a text that is not a whole number of bytes or
//! nanoseconds is an error), and the output of [`format_size`] and [`format_duration`] parses as
//! the same value. The output of the `approx_*` functions is for people and cannot be parsed.

use std::time::Duration;

/// Why a text is not a value with a unit. The error message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is empty.
    #[error("is empty; write a number and a unit, such as {example}")]
    Empty {
        /// A valid example.
        example: &'static str,
    },
    /// It does not begin with a number.
    #[error("does not begin with a number; write a number and a unit, such as {example}")]
    NoNumber {
        /// A valid example.
        example: &'static str,
    },
    /// A number without a unit.
    #[error("has no unit; write {suggestion}")]
    NoUnit {
        /// The same number with the units that it could have.
        suggestion: String,
    },
    /// A unit that does not exist.
    #[error("has the unknown unit {unit:?}; {hint}")]
    UnknownUnit {
        /// The given unit.
        unit: String,
        /// A suggestion.
        hint: String,
    },
    /// Not a whole number of the smallest unit.
    #[error("is not a whole number of {smallest}")]
    NotWhole {
        /// `bytes` or `nanoseconds`.
        smallest: &'static str,
    },
    /// More than the type can hold.
    #[error("is too large")]
    TooLarge,
    /// The parts of a duration are not in descending order.
    #[error("has its units out of order; write large units first, such as 1h30m")]
    Order,
    /// A share outside 0 to 100 %.
    #[error("is not between 0% and 100%")]
    ShareRange,
}

/// A size in bytes, or a share of something whose size is known later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeOrShare {
    /// Bytes.
    Bytes(u64),
    /// Hundredths of a percent: `10%` is 1,000.
    Share(u32),
}

impl SizeOrShare {
    /// Returns the size in bytes, given the total that a share refers to. Rounds down.
    pub fn resolve(self, whole_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => {
                let bytes = u128::from(whole_bytes) * u128::from(share) / 10_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Units of sizes. Order: the last one that divides the size is used for printing.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

/// Units of durations in nanoseconds, small to large. Weeks are parsed, but not printed.
const DURATION_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const WEEK: (&str, u64) = ("w", 7 * 86_400_000_000_000);

const SIZE_EXAMPLE: &str = "64MiB";
const DURATION_EXAMPLE: &str = "5s";

/// Parses a size such as `64MiB`, `1.5GB` or `0B`.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_number(text.trim(), SIZE_EXAMPLE)?;
    let unit = unit.trim();
    if unit.is_empty() {
        if number == "0" {
            return Ok(0);
        }
        return Err(UnitError::NoUnit { suggestion: format!("{number}B or {number}MiB") });
    }
    let factor = SIZE_UNITS
        .iter()
        .find(|(name, _)| *name == unit || (unit == "KB" && *name == "kB"))
        .map(|(_, factor)| *factor)
        .ok_or_else(|| unknown_size_unit(number, unit))?;
    scale(number, factor, "bytes")
}

/// Parses a size or a share: `1GiB`, `10%`, `2.5%`.
pub fn parse_size_or_share(text: &str) -> Result<SizeOrShare, UnitError> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return parse_size(text).map(SizeOrShare::Bytes);
    };
    let (number, rest) = split_number(number.trim(), "10%")?;
    if !rest.trim().is_empty() {
        return Err(UnitError::NoNumber { example: "10%" });
    }
    let share = scale(number, 100, "hundredths of a percent")?;
    match u32::try_from(share) {
        Ok(share) if share <= 10_000 => Ok(SizeOrShare::Share(share)),
        _ => Err(UnitError::ShareRange),
    }
}

/// Parses a duration such as `300ms`, `1.5s` or `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let mut rest = text.trim();
    let (mut total_ns, mut previous_factor) = (0_u64, u64::MAX);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    loop {
        let (number, tail) = split_number(rest, DURATION_EXAMPLE)?;
        let tail = tail.trim_start();
        let unit_len = tail.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        if unit.is_empty() {
            return Err(UnitError::NoUnit { suggestion: format!("{number}s or {number}ms") });
        }
        let factor = duration_factor(number, unit)?;
        if factor >= previous_factor {
            return Err(UnitError::Order);
        }
        previous_factor = factor;
        let part_ns = scale(number, factor, "nanoseconds")?;
        total_ns = total_ns.checked_add(part_ns).ok_or(UnitError::TooLarge)?;
        rest = tail.trim_start();
        if rest.is_empty() {
            return Ok(Duration::from_nanos(total_ns));
        }
    }
}

fn duration_factor(number: &str, unit: &str) -> Result<u64, UnitError> {
    let unit = if unit == "µs" || unit == "μs" { "us" } else { unit };
    DURATION_UNITS
        .iter()
        .chain(&[WEEK])
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(|| UnitError::UnknownUnit {
            unit: unit.to_owned(),
            hint: match unit.to_ascii_lowercase().as_str() {
                "sec" | "secs" | "second" | "seconds" | "s" => format!("write {number}s"),
                "min" | "mins" | "minute" | "minutes" | "m" => format!("write {number}m"),
                "hour" | "hours" | "hr" | "hrs" | "h" => format!("write {number}h"),
                "day" | "days" | "d" => format!("write {number}d"),
                "msec" | "millis" | "milliseconds" | "ms" => format!("write {number}ms"),
                "week" | "weeks" => format!("write {number}w"),
                _ => "the units are ns, us, ms, s, m, h, d and w".to_owned(),
            },
        })
}

/// Formats a size exactly, with the largest unit that gives a whole number.
pub fn format_size(bytes: u64) -> String {
    format_exact(bytes, SIZE_UNITS, "B")
}

/// Formats a size or a share exactly.
pub fn format_size_or_share(value: SizeOrShare) -> String {
    match value {
        SizeOrShare::Bytes(bytes) => format_size(bytes),
        SizeOrShare::Share(share) if share % 100 == 0 => format!("{}%", share / 100),
        SizeOrShare::Share(share) => {
            let text = format!("{}.{:02}", share / 100, share % 100);
            format!("{}%", text.trim_end_matches('0'))
        }
    }
}

/// Formats a duration exactly, large units first: `5m`, `1h30m`. Durations beyond 584 years are
/// formatted as 584 years.
pub fn format_duration(duration: Duration) -> String {
    let total_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if total_ns == 0 {
        return "0s".to_owned();
    }
    let mut left = total_ns;
    let mut text = String::new();
    for (name, factor) in DURATION_UNITS.iter().rev() {
        if left >= *factor {
            text.push_str(&(left / factor).to_string());
            text.push_str(name);
            left %= factor;
        }
    }
    text
}

/// Formats a size for people: three digits and a unit, such as `1.46 GiB`.
pub fn approx_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{} {}", three_digits(value), UNITS[unit])
    }
}

/// Formats a duration for people: three digits and a unit, such as `1.2 s`, `340 ms` or `2h05m`.
pub fn approx_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let whole = duration.as_secs();
    match () {
        () if duration.is_zero() => "0 s".to_owned(),
        () if seconds < 0.000_999_5 => format!("{} us", three_digits(seconds * 1e6)),
        () if seconds < 0.999_5 => format!("{} ms", three_digits(seconds * 1e3)),
        () if whole < 100 => format!("{} s", three_digits(seconds)),
        () if whole < 3_600 => format!("{}m{:02}s", whole / 60, whole % 60),
        () if whole < 86_400 => format!("{}h{:02}m", whole / 3_600, whole / 60 % 60),
        () => format!("{}d{:02}h", whole / 86_400, whole / 3_600 % 24),
    }
}

/// Formats a time in UTC as RFC 3339 with milliseconds: `2026-11-21T20:57:26.000Z`.
pub fn format_rfc3339(unix_ns: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    let unix_ms = unix_ns.div_euclid(1_000_000);
    let (year, month, day) = civil_date(unix_ms.div_euclid(DAY_MS));
    let ms = unix_ms.rem_euclid(DAY_MS);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1_000 % 60, ms % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Uses
/// eras of 400 years that begin in March, so that the leap day is the last of its year.
fn civil_date(unix_day: i64) -> (i64, i64, i64) {
    let day = unix_day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_month)
}

/// Formats a count for people: `1,234,567`.
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn split_number<'a>(text: &'a str, example: &'static str) -> Result<(&'a str, &'a str), UnitError> {
    if text.is_empty() {
        return Err(UnitError::Empty { example });
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let well_formed = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit())
        && number.matches('.').count() <= 1;
    if well_formed { Ok((number, rest)) } else { Err(UnitError::NoNumber { example }) }
}

/// Returns `number * factor`, exactly. `number` consists of digits with at most one point in
/// between.
fn scale(number: &str, factor: u64, smallest: &'static str) -> Result<u64, UnitError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let whole: u128 = whole.parse().map_err(|_| UnitError::TooLarge)?;
    // More than 18 decimals of the largest unit are never a whole number of the smallest.
    if fraction.len() > 18 {
        return Err(UnitError::NotWhole { smallest });
    }
    let denominator = 10_u128.pow(fraction.len() as u32);
    let numerator: u128 = if fraction.is_empty() { 0 } else { fraction.parse().unwrap_or(0) };
    let part = numerator * u128::from(factor);
    if !part.is_multiple_of(denominator) {
        return Err(UnitError::NotWhole { smallest });
    }
    whole
        .checked_mul(u128::from(factor))
        .and_then(|n| u64::try_from(n + part / denominator).ok())
        .ok_or(UnitError::TooLarge)
}

fn unknown_size_unit(number: &str, unit: &str) -> UnitError {
    let hint = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => format!("did you mean {number}KiB (1,024) or {number}kB (1,000)?"),
        "m" | "mb" | "mib" => format!("did you mean {number}MiB or {number}MB?"),
        "g" | "gb" | "gib" => format!("did you mean {number}GiB or {number}GB?"),
        "t" | "tb" | "tib" => format!("did you mean {number}TiB or {number}TB?"),
        "b" | "byte" | "bytes" => format!("did you mean {number}B?"),
        _ => "the units are B, kB, KiB, MB, MiB, GB, GiB, TB and TiB".to_owned(),
    };
    UnitError::UnknownUnit { unit: unit.to_owned(), hint }
}

/// The fewest digits win; among equals the binary unit, then the larger one.
fn format_exact(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    if value == 0 {
        return format!("0{smallest}");
    }
    units
        .iter()
        .filter(|(_, factor)| value.is_multiple_of(*factor))
        .map(|(name, factor)| (value / factor, *name))
        .min_by_key(|(n, name)| (n.to_string().len(), !name.contains('i')))
        .map_or_else(|| format!("{value}{smallest}"), |(n, name)| format!("{n}{name}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_exactly() {
        for (text, bytes) in [
            ("0", 0),
            ("0B", 0),
            ("1B", 1),
            ("64MiB", 64 << 20),
            ("1GB", 1_000_000_000),
            ("1 GiB", 1 << 30),
            ("1.5KiB", 1536),
            ("0.5kB", 500),
            ("10KB", 10_000),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_get_a_suggestion() {
        for (text, message) in [
            ("", "is empty; write a number and a unit, such as 64MiB"),
            ("big", "does not begin with a number; write a number and a unit, such as 64MiB"),
            ("-1MiB", "does not begin with a number; write a number and a unit, such as 64MiB"),
            ("64", "has no unit; write 64B or 64MiB"),
            ("64mb", "has the unknown unit \"mb\"; did you mean 64MiB or 64MB?"),
            ("64k", "has the unknown unit \"k\"; did you mean 64KiB (1,024) or 64kB (1,000)?"),
            ("1.0001KiB", "is not a whole number of bytes"),
            ("1..5KiB", "does not begin with a number; write a number and a unit, such as 64MiB"),
            ("16777216TiB", "is too large"),
            ("99999999999999999999999999999999999999999B", "is too large"),
            (
                "5 apples",
                "has the unknown unit \"apples\"; the units are B, kB, KiB, MB, MiB, GB, GiB, TB and TiB",
            ),
        ] {
            assert_eq!(parse_size(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn shares_resolve_against_the_whole() {
        assert_eq!(parse_size_or_share("10%").map(|s| s.resolve(1_000)), Ok(100));
        assert_eq!(parse_size_or_share("2.5%").map(|s| s.resolve(u64::MAX)), Ok(u64::MAX / 40));
        assert_eq!(parse_size_or_share("1KiB").map(|s| s.resolve(5)), Ok(1024));
        assert_eq!(parse_size_or_share("101%"), Err(UnitError::ShareRange));
        assert_eq!(format_size_or_share(SizeOrShare::Share(250)), "2.5%");
        assert_eq!(format_size_or_share(SizeOrShare::Share(1_000)), "10%");
    }

    #[test]
    fn durations_are_read_exactly() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("300ms", 300),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_get_a_suggestion() {
        for (text, message) in [
            ("", "is empty; write a number and a unit, such as 5s"),
            ("5", "has no unit; write 5s or 5ms"),
            ("5 sec", "has the unknown unit \"sec\"; write 5s"),
            ("10S", "has the unknown unit \"S\"; write 10s"),
            ("5x", "has the unknown unit \"x\"; the units are ns, us, ms, s, m, h, d and w"),
            ("30m1h", "has its units out of order; write large units first, such as 1h30m"),
            ("0.1ns", "is not a whole number of nanoseconds"),
            ("999999999d", "is too large"),
            ("soon", "does not begin with a number; write a number and a unit, such as 5s"),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn values_print_with_the_unit_that_a_person_would_choose() {
        assert_eq!(format_size(64 << 20), "64MiB");
        assert_eq!(format_size(1_000_000_000), "1GB");
        assert_eq!(format_size(1 << 30), "1GiB");
        assert_eq!(format_size(1_537), "1537B");
        assert_eq!(format_duration(Duration::from_mins(90)), "1h30m");
        assert_eq!(format_duration(Duration::from_millis(1_500)), "1s500ms");
        assert_eq!(format_duration(Duration::ZERO), "0s");
        assert_eq!(approx_size(1_572_864), "1.50 MiB");
        assert_eq!(approx_size(1_023), "1.00 KiB");
        assert_eq!(approx_size(512), "512 B");
        assert_eq!(approx_duration(Duration::from_millis(340)), "340 ms");
        assert_eq!(approx_duration(Duration::from_mins(125)), "2h05m");
        assert_eq!(group_digits(1_234_567), "1,234,567");
        assert_eq!(group_digits(12), "12");
    }

    #[test]
    fn moments_print_as_rfc_3339_also_on_leap_days_and_before_1970() {
        for (unix_ns, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1_000_000, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
            (1_795_294_646_123_000_000, "2026-11-21T20:57:26.123Z"),
            (4_107_542_399_999_000_000, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(format_rfc3339(unix_ns), text);
        }
    }

    proptest! {
        #[test]
        fn every_size_reads_back_as_it_was_printed(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn every_duration_reads_back_as_it_was_printed(ns: u64) {
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_readers_panic(text in "\\PC{0,20}") {
            let _outcome = (parse_size(&text), parse_duration(&text), parse_size_or_share(&text));
        }
    }
}
