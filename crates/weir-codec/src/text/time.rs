//! The time at the beginning of a text line, in the formats that loggers use, and the time in a
//! field, in formats that RFC 3339 does not cover.
//!
//! Invariant: a date whose order of day, month and year is ambiguous (`17/06/09`) is not
//! recognized.

use super::ZONES;
use crate::attributes::month_number;
use crate::time::{Moment, civil_from_days};

const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// Returns the time at the start of `line`, or in brackets there.
pub(super) fn read(line: &[u8], near_ns: i64) -> Option<i64> {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"[").unwrap_or(line);
    match line {
        [b'0'..=b'9', ..] => year_first(line),
        [b'I' | b'W' | b'E' | b'F', b'0'..=b'9', ..] => {
            nearest_year(near_ns, |year| klog(line.get(1..)?, year))
        }
        [b'A'..=b'Z', _, _, b' ', ..] => {
            with_year_last(line).or_else(|| nearest_year(near_ns, |year| syslog(line, year)))
        }
        _ => None,
    }
}

/// Returns the time in that year, or an adjacent one, in which it is nearest.
pub(crate) fn nearest_year(near_ns: i64, at: impl Fn(i64) -> Option<i64>) -> Option<i64> {
    let (year, ..) = civil_from_days(near_ns.div_euclid(DAY_NS));
    let times = [year, year - 1, year + 1].map(at).into_iter().flatten();
    times.min_by_key(|time_ns| time_ns.abs_diff(near_ns))
}

/// Parses the number in the first `len` bytes, with blanks for leading zeros.
pub(crate) fn number(text: &[u8], len: usize) -> Option<(i64, &[u8])> {
    let (digits, rest) = text.split_at_checked(len)?;
    let digits = std::str::from_utf8(digits).ok()?.trim_start_matches(' ');
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| is_number)?, rest))
}

pub(crate) fn after<'a>(text: &'a [u8], any_of: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = text.split_first()?;
    any_of.contains(first).then_some(rest)
}

/// Parses `hh:mm:ss`, with an optional fraction, into `moment`.
pub(crate) fn clock<'a>(text: &'a [u8], moment: &mut Moment) -> Option<&'a [u8]> {
    let (hour, rest) = number(text, 2)?;
    let (minute, rest) = number(after(rest, b":")?, 2)?;
    let (second, rest) = number(after(rest, b":")?, 2)?;
    (moment.hour, moment.minute, moment.second) = (hour, minute, second);
    let Some(fraction) = after(rest, b".,") else { return Some(rest) };
    let len = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
    if len == 0 {
        return Some(rest);
    }
    let (nanos, _) = number(fraction, len.min(9))?;
    moment.nanos = nanos * 10_i64.pow(9 - len.min(9) as u32);
    fraction.get(len..)
}

/// `2026-01-31T12:34:56.789+01:00`, `2026/01/31 12:34:56`, `2026-01-31 12:34:56,789 +0100`.
fn year_first(line: &[u8]) -> Option<i64> {
    let (time_ns, rest) = date_and_clock(line)?;
    Some(time_ns.saturating_sub(zone(rest)?))
}

/// Like [`year_first`], if `text` contains nothing but the time: `2026-01-31 12:34:56,789`,
/// `...56+0100`. Without a zone it is UTC.
pub(crate) fn of_field(text: &[u8]) -> Option<i64> {
    let (time_ns, rest) = date_and_clock(text)?;
    let east_ns = match rest.strip_prefix(b" ").unwrap_or(rest) {
        b"" if rest.is_empty() => 0,
        b"Z" | b"z" | b"UTC" | b"GMT" => 0,
        zone => offset(zone)?,
    };
    Some(time_ns.saturating_sub(east_ns))
}

/// Parses a date that begins with its year, and a time of day, as UTC; also returns what follows.
pub(crate) fn date_and_clock(line: &[u8]) -> Option<(i64, &[u8])> {
    let mut moment = Moment::default();
    let (year, rest) = number(line, 4)?;
    let (month, rest) = number(after(rest, b"-/")?, 2)?;
    let (day, rest) = number(after(rest, b"-/")?, 2)?;
    (moment.year, moment.month, moment.day) = (year, month, day);
    let rest = clock(after(rest, b"Tt _")?, &mut moment)?;
    Some((moment.time_ns()?, rest))
}

/// Returns nanoseconds east of UTC; 0 if there is no zone, none if it is a zone with another name,
/// or if the time was a part of something else.
fn zone(text: &[u8]) -> Option<i64> {
    let near = text.strip_prefix(b" ").unwrap_or(text);
    let is_apart = near.len() < text.len();
    let is_of_zone = |b: &&u8| b.is_ascii_alphanumeric() || b"+-:".contains(b);
    let (word, rest) = near.split_at(near.iter().take_while(is_of_zone).count());
    let word = word.strip_suffix(b":").unwrap_or(word);
    if let Some(east_ns) = offset(word) {
        // ` -12` and ` -1234 bytes` are numbers.
        let is_number = word.len() < 5 || matches!(rest, [b' ', b'a'..=b'z', ..]);
        return Some(if is_apart && is_number { 0 } else { east_ns });
    }
    match word {
        b"Z" | b"UTC" | b"GMT" => Some(0),
        _ if ZONES.contains(&word) => None,
        [b'+' | b'-' | b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9', ..] if !is_apart => None,
        _ => Some(0),
    }
}

/// `+hh`, `+hhmm` or `+hh:mm`, in nanoseconds.
pub(crate) fn offset(word: &[u8]) -> Option<i64> {
    let (sign @ (b'+' | b'-'), digits) = word.split_first()? else { return None };
    let (hours, rest) = number(digits, 2)?;
    let minutes = match rest {
        [] => 0,
        [b':', minutes @ ..] | minutes if minutes.len() == 2 => number(minutes, 2)?.0,
        _ => return None,
    };
    let east_ns = (hours * 3600 + minutes * 60) * 1_000_000_000;
    let is_one = hours <= 14 && minutes < 60;
    is_one.then_some(if *sign == b'+' { east_ns } else { -east_ns })
}

/// `0131 12:34:56.789`, or with a year before it.
fn klog(line: &[u8], year: i64) -> Option<i64> {
    let mut moment = Moment { year, ..Moment::default() };
    let mut rest = line;
    if line.iter().take_while(|b| b.is_ascii_digit()).count() == 8 {
        (moment.year, rest) = number(line, 4)?;
    }
    let (month, rest) = number(rest, 2)?;
    let (day, rest) = number(rest, 2)?;
    (moment.month, moment.day) = (month, day);
    clock(after(rest, b" ")?, &mut moment)?;
    moment.time_ns()
}

/// `Jan 31 12:34:56`.
fn syslog(line: &[u8], year: i64) -> Option<i64> {
    let mut moment = Moment { year, ..Moment::default() };
    day_and_clock(line, &mut moment)?;
    moment.time_ns()
}

fn day_and_clock<'a>(line: &'a [u8], moment: &mut Moment) -> Option<&'a [u8]> {
    let (month, rest) = line.split_at_checked(3)?;
    moment.month = month_number(month)? as i64;
    let (day, rest) = number(after(rest, b" ")?, 2)?;
    moment.day = day;
    clock(after(rest, b" ")?, moment)
}

/// `Sun Dec 04 04:47:44 2005`, as Apache and `ctime` write it.
fn with_year_last(line: &[u8]) -> Option<i64> {
    let mut moment = Moment::default();
    let rest = day_and_clock(line.get(4..)?, &mut moment)?;
    let (year, _) = number(after(rest, b" ")?, 4)?;
    moment.year = year;
    moment.time_ns()
}
