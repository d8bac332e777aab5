//! Parsing of times in requests.
//!
//! ```text
//! time   := "now" step* round? | RFC 3339 | date | date and time without zone
//!         | milliseconds since 1970
//! step   := ("+" | "-") digits unit          units: ms s m h d w M y
//! round  := "/" unit                         down to its beginning
//! ```
//!
//! Days, longer units, and times without a zone are in the zone of the request; the default is UTC.
//!
//! Invariant: no text causes a panic, and no time exceeds the range of `i64` nanoseconds.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use weir_codec::parse_rfc3339;
use weir_host::Zone;

const MS_NS: i64 = 1_000_000;
const SECOND_NS: i64 = 1_000 * MS_NS;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const HOUR_NS: i64 = 60 * MINUTE_NS;
const DAY_NS: i64 = 24 * HOUR_NS;

const EXPECTED: &str = "write now-15m, now-1d/d, an ISO 8601 time such as 2026-11-21T20:00:00Z, \
                        or milliseconds since 1970";

/// A time in a request.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum TimeText {
    /// Milliseconds since 1970.
    Number(i64),
    /// `now-15m`, ISO 8601, or milliseconds since 1970.
    Text(String),
}

/// Not derived, since the derived error would be that no variant of an enumeration matches.
impl<'de> Deserialize<'de> for TimeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimeTextVisitor;

        impl Visitor<'_> for TimeTextVisitor {
            type Value = TimeText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a time: {EXPECTED}")
            }

            fn visit_i64<E: Error>(self, ms: i64) -> Result<TimeText, E> {
                Ok(TimeText::Number(ms))
            }

            fn visit_u64<E: Error>(self, ms: u64) -> Result<TimeText, E> {
                // This is out of range too.
                Ok(TimeText::Number(i64::try_from(ms).unwrap_or(i64::MAX)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TimeText, E> {
                Ok(TimeText::from(text))
            }
        }

        deserializer.deserialize_any(TimeTextVisitor)
    }
}

impl TimeText {
    /// Nanoseconds since 1970.
    pub(super) fn resolve(&self, now_ns: i64, zone: &Zone) -> Result<i64, String> {
        match self {
            Self::Number(ms) => from_ms(*ms),
            Self::Text(text) => parse(text.trim(), now_ns, zone),
        }
    }
}

/// From a query string.
impl std::fmt::Display for TimeText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(ms) => write!(f, "{ms}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for TimeText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

fn from_ms(ms: i64) -> Result<i64, String> {
    ms.checked_mul(MS_NS).ok_or_else(|| format!("{ms} ms is out of range (1677 to 2262)"))
}

fn parse(text: &str, now_ns: i64, zone: &Zone) -> Result<i64, String> {
    let wrong = || format!("{text:?} is not a valid time; {EXPECTED}");
    if let Some(steps) = text.strip_prefix("now") {
        return math(steps, now_ns, zone).ok_or_else(wrong);
    }
    if let Ok(ms) = text.parse() {
        return from_ms(ms);
    }
    let full = with_seconds(text);
    if let Some(time_ns) = parse_rfc3339(full.as_bytes()) {
        return Ok(time_ns);
    }
    let local = [format!("{full}Z"), format!("{text}T00:00:00Z")];
    let local_ns = local.iter().find_map(|text| parse_rfc3339(text.as_bytes()));
    local_ns.map(|local_ns| zone.time_ns(local_ns)).ok_or_else(wrong)
}

/// `2026-11-21T20:00` has hours and minutes only, with or without a zone after them.
fn with_seconds(text: &str) -> String {
    match text.split_at_checked("2026-11-21T20:00".len()) {
        Some((minute, rest)) if minute.as_bytes()[13] == b':' && !rest.starts_with(':') => {
            format!("{minute}:00{rest}")
        }
        _ => text.to_owned(),
    }
}

/// The part after `now`.
fn math(steps: &str, now_ns: i64, zone: &Zone) -> Option<i64> {
    let (mut rest, mut time_ns) = (steps.trim_start(), now_ns);
    while let Some(sign) = rest.chars().next() {
        rest = rest[sign.len_utf8()..].trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        time_ns = match sign {
            '+' => step(time_ns, number.parse().ok()?, unit, zone)?,
            '-' => step(time_ns, number.parse::<i64>().ok()?.checked_neg()?, unit, zone)?,
            '/' if number.is_empty() && tail.trim().is_empty() => round(time_ns, unit, zone)?,
            _ => return None,
        };
        rest = tail.trim_start();
    }
    Some(time_ns)
}

fn unit_ns(unit: &str) -> Option<i64> {
    Some(match unit {
        "ms" => MS_NS,
        "s" => SECOND_NS,
        "m" => MINUTE_NS,
        "h" | "H" => HOUR_NS,
        "d" | "D" => DAY_NS,
        "w" => 7 * DAY_NS,
        _ => return None,
    })
}

fn step(time_ns: i64, count: i64, unit: &str, zone: &Zone) -> Option<i64> {
    let local_ns = zone.local_ns(time_ns);
    let months = match unit {
        "M" => count,
        "y" => count.checked_mul(12)?,
        _ => {
            let unit_ns = unit_ns(unit)?;
            // The local time of a day ago is the same, however long the day was.
            let is_local = unit_ns >= DAY_NS && !zone.is_utc();
            let begin_ns = if is_local { local_ns } else { time_ns };
            let end_ns = i128::from(begin_ns) + i128::from(count) * i128::from(unit_ns);
            // A time before all others is valid: `now-400000d` means from the beginning.
            let end_ns = end_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            return Some(if is_local { zone.time_ns(end_ns) } else { end_ns });
        }
    };
    let (year, month, day) = civil(local_ns);
    let index = (year * 12 + month - 1).checked_add(months)?;
    let (year, month) = (index.div_euclid(12), index.rem_euclid(12) + 1);
    // In a month without a 31st it is the last day.
    let day = day.min(days_of_month(year, month));
    let local_ns = begin_of(year, month, day)?.saturating_add(local_ns.rem_euclid(DAY_NS));
    Some(zone.time_ns(local_ns))
}

fn round(time_ns: i64, unit: &str, zone: &Zone) -> Option<i64> {
    let (year, month, _) = civil(zone.local_ns(time_ns));
    let local_ns = match unit {
        "M" => begin_of(year, month, 1)?,
        "y" => begin_of(year, 1, 1)?,
        _ => return Some(zone.begin_of(time_ns, unit_ns(unit)?)),
    };
    Some(zone.time_ns(local_ns))
}

/// Year, month and day, in the Gregorian calendar.
fn civil(time_ns: i64) -> (i64, i64, i64) {
    let text = weir_host::units::format_rfc3339(time_ns);
    let part = |range: std::ops::Range<usize>| {
        text.get(range).and_then(|digits| digits.parse().ok()).unwrap_or(1)
    };
    (part(0..4), part(5..7), part(8..10))
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn begin_of(year: i64, month: i64, day: i64) -> Option<i64> {
    parse_rfc3339(format!("{year:04}-{month:02}-{day:02}T00:00:00Z").as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_host::units::format_rfc3339;

    use super::*;

    /// 2026-03-31 is a Tuesday.
    fn at(text: &str) -> String {
        in_zone(text, "2026-03-31T13:14:15.678Z", &Zone::UTC)
    }

    fn in_zone(text: &str, now: &str, zone: &Zone) -> String {
        let now_ns = parse_rfc3339(now.as_bytes()).unwrap();
        match TimeText::from(text).resolve(now_ns, zone) {
            Ok(time_ns) => format_rfc3339(time_ns),
            Err(error) => error,
        }
    }

    #[test]
    fn all_time_formats_are_parsed() {
        for (text, want) in [
            ("now", "2026-03-31T13:14:15.678Z"),
            ("now-15m", "2026-03-31T12:59:15.678Z"),
            ("now - 15m", "2026-03-31T12:59:15.678Z"),
            ("now+1h", "2026-03-31T14:14:15.678Z"),
            ("now-1d/d", "2026-03-30T00:00:00.000Z"),
            ("now/d", "2026-03-31T00:00:00.000Z"),
            ("now/w", "2026-03-30T00:00:00.000Z"),
            ("now-1w", "2026-03-24T13:14:15.678Z"),
            ("now-1M", "2026-02-28T13:14:15.678Z"),
            ("now/M", "2026-03-01T00:00:00.000Z"),
            ("now-1y/y", "2025-01-01T00:00:00.000Z"),
            ("now-500ms", "2026-03-31T13:14:15.178Z"),
            ("now-1h-5m", "2026-03-31T12:09:15.678Z"),
            ("now-400000d", "1677-09-21T00:12:43.145Z"),
            ("1767225600000", "2026-01-01T00:00:00.000Z"),
            ("2026-01-01", "2026-01-01T00:00:00.000Z"),
            ("2026-01-01T01:00:00", "2026-01-01T01:00:00.000Z"),
            ("2026-01-01 01:00:00", "2026-01-01T01:00:00.000Z"),
            ("2026-01-01T01:00:00.5+01:00", "2026-01-01T00:00:00.500Z"),
            ("2026-01-01T01:00", "2026-01-01T01:00:00.000Z"),
            ("2026-01-01 01:00", "2026-01-01T01:00:00.000Z"),
            ("2026-01-01T01:00Z", "2026-01-01T01:00:00.000Z"),
            ("2026-01-01T01:00+01:00", "2026-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(at(text), want, "{text}");
        }
        assert_eq!(TimeText::Number(1000).resolve(0, &Zone::UTC), Ok(SECOND_NS));
    }

    #[test]
    fn times_without_zone_use_the_query_zone() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        // Half an hour before midnight, on a day of 25 hours.
        let now = "2026-10-25T22:30:00Z";
        for (text, want) in [
            ("now", "2026-10-25T22:30:00.000Z"),
            ("now/d", "2026-10-24T22:00:00.000Z"),
            ("now-1d", "2026-10-24T21:30:00.000Z"),
            ("now-1d/d", "2026-10-23T22:00:00.000Z"),
            ("now-24h", "2026-10-24T22:30:00.000Z"),
            ("now/h", "2026-10-25T22:00:00.000Z"),
            ("now+1d/d", "2026-10-25T23:00:00.000Z"),
            ("now/w", "2026-10-18T22:00:00.000Z"),
            ("now/M", "2026-09-30T22:00:00.000Z"),
            ("now+1M/M", "2026-10-31T23:00:00.000Z"),
            ("now/y", "2025-12-31T23:00:00.000Z"),
            ("2026-10-25", "2026-10-24T22:00:00.000Z"),
            ("2026-10-25 12:00:00", "2026-10-25T11:00:00.000Z"),
            ("2026-10-25 12:00", "2026-10-25T11:00:00.000Z"),
            ("2026-10-25T12:00:00Z", "2026-10-25T12:00:00.000Z"),
            ("now-400000d", "1677-09-21T00:12:43.145Z"),
        ] {
            assert_eq!(in_zone(text, now, &zone), want, "{text}");
        }
    }

    #[test]
    fn invalid_times_are_reported() {
        let of_now = ["now-15", "now-m", "now-1x", "now/d-1h", "now15m", "15m"];
        let others = ["", "yesterday", "2026-01-01T25:00", "2026-01-01T01:00:", "2026-01-01äö:00"];
        for text in of_now.into_iter().chain(others) {
            assert!(
                at(text).contains("is not a valid time; write now-15m"),
                "{text}: {}",
                at(text)
            );
        }
        assert!(TimeText::Number(i64::MAX).resolve(0, &Zone::UTC).is_err());
    }

    proptest! {
        #[test]
        fn parser_never_panics(text in "now[-+/0-9a-zM ]{0,24}", now_ns: i64) {
            let text = TimeText::Text(text);
            for zone in ["UTC", "Europe/Berlin", "-11:30"] {
                let _time = text.resolve(now_ns, &Zone::parse(zone).unwrap());
            }
        }
    }
}
