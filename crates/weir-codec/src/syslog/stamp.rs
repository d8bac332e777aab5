//! The time in the header of a syslog message that is not RFC 5424, as devices write it.
//!
//! `Oct 11 22:14:15` (RFC 3164; the day is padded with a blank, a zero, or not at all), with a
//! year before it, after the day, or after the time, with a fraction, and with a zone; or RFC 3339,
//! also without a zone.
//!
//! A time without a zone is in the zone that is configured. A time without a year is in the year
//! that brings it nearest to the time of receipt.

use crate::attributes::month_number;
use crate::text::time::{after, clock, date_and_clock, nearest_year, number, offset};
use crate::time::{Moment, TimeParser, read_fraction};

const SECOND_NS: i64 = 1_000_000_000;
/// A remembered time is in the nearest year as long as it is this near.
const NEAR_NS: u64 = 100 * 86_400 * 1_000_000_000;
/// `Oct 11 22:14:15`.
const STAMP_LEN: usize = 15;
/// `22:14:15`.
const CLOCK_LEN: usize = 8;

/// Abbreviations of zones, with seconds east of UTC. Those that have several meanings are read as
/// the configured zone.
const ZONES: [(&[u8], Option<i64>); 26] = [
    (b"UTC", Some(0)),
    (b"GMT", Some(0)),
    (b"Z", Some(0)),
    (b"WET", Some(0)),
    (b"WEST", Some(3600)),
    (b"CET", Some(3600)),
    (b"CEST", Some(7200)),
    (b"MET", Some(3600)),
    (b"MEST", Some(7200)),
    (b"EET", Some(7200)),
    (b"EEST", Some(10_800)),
    (b"MSK", Some(10_800)),
    (b"EST", Some(-18_000)),
    (b"EDT", Some(-14_400)),
    (b"CDT", Some(-18_000)),
    (b"MST", Some(-25_200)),
    (b"MDT", Some(-21_600)),
    (b"PST", Some(-28_800)),
    (b"PDT", Some(-25_200)),
    (b"JST", Some(32_400)),
    (b"KST", Some(32_400)),
    (b"AEST", Some(36_000)),
    (b"AEDT", Some(39_600)),
    (b"CST", None),
    (b"IST", None),
    (b"BST", None),
];

/// A time, and what follows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp<'l> {
    /// None if there is no such time, such as February 30.
    pub(crate) time_ns: Option<i64>,
    /// What follows the time and the blanks after it.
    pub(crate) rest: &'l [u8],
    /// A colon follows the time, so what comes next is not a host.
    pub(crate) has_colon: bool,
    /// It is in the form of RFC 3164, or RFC 3339 with its zone.
    pub(crate) is_standard: bool,
}

/// Reads times, and remembers what most of them share with the one before.
#[derive(Debug, Clone)]
pub(crate) struct StampReader {
    times: TimeParser,
    utc_offset_ns: i64,
    /// The last time in the form of RFC 3164.
    last: [u8; STAMP_LEN],
    /// That time, as if the configured zone were UTC.
    last_local_ns: i64,
}

/// What follows a time.
struct Zone<'l> {
    /// Nanoseconds east of UTC, if stated.
    east_ns: Option<i64>,
    rest: &'l [u8],
    has_colon: bool,
}

impl StampReader {
    pub(crate) fn new() -> Self {
        Self {
            times: TimeParser::default(),
            utc_offset_ns: 0,
            last: [0; STAMP_LEN],
            last_local_ns: i64::MIN,
        }
    }

    /// Sets the zone of times without one.
    pub(crate) fn set_utc_offset(&mut self, seconds: i32) {
        self.utc_offset_ns = i64::from(seconds) * SECOND_NS;
        self.last = [0; STAMP_LEN];
    }

    /// Parses RFC 3339 that spans the whole text.
    #[inline]
    pub(crate) fn rfc3339(&mut self, text: &[u8]) -> Option<i64> {
        self.times.parse(text)
    }

    /// Parses a date and time of day without a zone that span the whole text.
    pub(crate) fn without_zone(&self, text: &[u8]) -> Option<i64> {
        let (time_ns, rest) = date_and_clock(text)?;
        rest.is_empty().then(|| time_ns.saturating_sub(self.utc_offset_ns))
    }

    /// Returns the time at the start of a text.
    #[inline]
    pub(crate) fn read<'l>(&mut self, text: &'l [u8], near_ns: i64) -> Option<Stamp<'l>> {
        if let Some((stamp, rest)) = text.split_first_chunk::<STAMP_LEN>()
            && *stamp == self.last
            && self.last_local_ns.abs_diff(near_ns) < NEAR_NS
            && let Some(stamp) = self.again(rest)
        {
            return Some(stamp);
        }
        match text.first()? {
            b'0'..=b'9' => self.year_first(text),
            b'A'..=b'Z' => self.month_first(text, None, near_ns),
            _ => None,
        }
    }

    /// The last time again, perhaps with a fraction and a zone. `None` if something else follows.
    #[inline]
    fn again<'l>(&self, rest: &'l [u8]) -> Option<Stamp<'l>> {
        if let [b' ', after @ ..] = rest
            && !may_continue(after)
        {
            let time_ns = Some(self.last_local_ns.saturating_sub(self.utc_offset_ns));
            return Some(Stamp { time_ns, rest: after, has_colon: false, is_standard: true });
        }
        let (nanos, after) = match rest {
            [b'.' | b',', fraction @ ..] => read_fraction(fraction)?,
            _ => (0, rest),
        };
        if after.strip_prefix(b" ").and_then(year_word).is_some() {
            return None;
        }
        let mut stamp = self.stamp(Some(self.last_local_ns.saturating_add(nanos)), &zone(after)?);
        stamp.is_standard = rest.strip_prefix(b" ") == Some(stamp.rest);
        Some(stamp)
    }

    fn year_first<'l>(&mut self, text: &'l [u8]) -> Option<Stamp<'l>> {
        if !matches!(text, [_, _, _, _, b'-' | b'/' | b' ', ..]) {
            return None;
        }
        let len = memchr::memchr(b' ', text).unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(len)?;
        if let Some(time_ns) = self.times.parse(word) {
            let (time_ns, rest) = (Some(time_ns), without_blanks(rest));
            return Some(Stamp { time_ns, rest, has_colon: false, is_standard: true });
        }
        if let Some((local_ns, rest)) = date_and_clock(text) {
            let zone = zone(rest)?;
            return Some(self.stamp(Some(local_ns), &zone));
        }
        let (year, rest) = number(text, 4)?;
        self.month_first(rest.strip_prefix(b" ")?, Some(year), 0)
    }

    fn month_first<'l>(
        &mut self,
        text: &'l [u8],
        year: Option<i64>,
        near_ns: i64,
    ) -> Option<Stamp<'l>> {
        let mut moment = Moment::default();
        let (month, rest) = text.split_at_checked(3)?;
        moment.month = month_number(month)? as i64;
        let rest = after(rest, b" ")?;
        let (day, rest) = number(rest, 2).or_else(|| number(rest, 1))?;
        moment.day = day;
        let mut rest = after(rest, b" ")?;
        let mut year = year;
        if year.is_none()
            && let Some((stated, next)) = year_word(rest)
        {
            (year, rest) = (Some(stated), next);
        }
        // Two digits each for hour, minute and second.
        let whole_end = text.len() - rest.len() + CLOCK_LEN;
        let mut rest = clock(rest, &mut moment)?;
        if year.is_none()
            && let Some((stated, next)) = rest.strip_prefix(b" ").and_then(year_word)
        {
            year = Some(stated);
            // Without the blank that follows, so that a zone can.
            rest = rest.get(rest.len() - next.len() - 1..)?;
        }
        let zone = zone(rest)?;
        if let Some(year) = year {
            let local_ns = Moment { year, ..moment }.time_ns();
            return Some(self.stamp(local_ns, &zone));
        }
        let near_ns = near_ns.saturating_add(self.utc_offset_ns);
        let local_ns = nearest_year(near_ns, |year| Moment { year, ..moment }.time_ns());
        let is_whole = whole_end == STAMP_LEN;
        if let Some(stamp) = text.first_chunk::<STAMP_LEN>().filter(|_| is_whole)
            && let Some(local_ns) = local_ns
        {
            (self.last, self.last_local_ns) = (*stamp, local_ns.saturating_sub(moment.nanos));
            return self.again(text.get(STAMP_LEN..)?);
        }
        let mut stamp = self.stamp(local_ns, &zone);
        stamp.is_standard = is_whole && rest.strip_prefix(b" ") == Some(stamp.rest);
        Some(stamp)
    }

    fn stamp<'l>(&self, local_ns: Option<i64>, zone: &Zone<'l>) -> Stamp<'l> {
        let east_ns = zone.east_ns.unwrap_or(self.utc_offset_ns);
        Stamp {
            time_ns: local_ns.map(|local_ns| local_ns.saturating_sub(east_ns)),
            rest: zone.rest,
            has_colon: zone.has_colon,
            is_standard: false,
        }
    }
}

/// Returns true if a year or a zone may follow a time.
#[inline]
fn may_continue(rest: &[u8]) -> bool {
    match rest {
        [b' ' | b'+' | b'-', ..] => true,
        [b'0'..=b'9', ..] => year_word(rest).is_some(),
        [b'A'..=b'Z', ..] => zone_word(rest).is_some(),
        _ => false,
    }
}

/// Parses `2026 `, or `2026: `; returns what follows the blank or colon. `2001:db8::1` is a host.
fn year_word(text: &[u8]) -> Option<(i64, &[u8])> {
    match text {
        [b'1', b'9', _, _, after @ ..] | [b'2', b'0', _, _, after @ ..]
            if matches!(after, [b' ', ..] | [b':'] | [b':', b' ', ..]) =>
        {
            let (year, rest) = number(text, 4)?;
            Some((year, rest.get(1..)?))
        }
        _ => None,
    }
}

/// Parses the zone and the colon that may follow a time; `None` if it is followed by anything that
/// shows that it is not a time.
fn zone(text: &[u8]) -> Option<Zone<'_>> {
    let word = text.strip_prefix(b" ").unwrap_or(text);
    let (east_ns, rest) = match zone_word(word) {
        Some((east_s, rest)) => (east_s.map(|seconds| seconds * SECOND_NS), rest),
        None => (None, text),
    };
    let (rest, has_colon) = match rest {
        [b':', rest @ ..] => (rest, true),
        [b' ', ..] | [] => (rest, false),
        _ => return None,
    };
    Some(Zone { east_ns, rest: without_blanks(rest), has_colon })
}

/// Parses the name or offset of a zone, in seconds east of UTC.
fn zone_word(text: &[u8]) -> Option<(Option<i64>, &[u8])> {
    let is_of_offset = |b: &u8| b.is_ascii_digit() || b"+-".contains(b);
    let len = match text.first()? {
        b'A'..=b'Z' => text.iter().take_while(|b| b.is_ascii_uppercase()).count(),
        b'+' | b'-' => {
            let digits = text.iter().take_while(|b| is_of_offset(b)).count();
            let more = matches!(text.get(digits..), Some([b':', b'0'..=b'9', b'0'..=b'9', ..]));
            if more { digits + 3 } else { digits }
        }
        _ => return None,
    };
    let (word, rest) = text.split_at_checked(len)?;
    if !matches!(rest, [] | [b' ' | b':', ..]) {
        return None;
    }
    if let Some((_, east_s)) = ZONES.iter().find(|(name, _)| *name == word) {
        return Some((*east_s, rest));
    }
    offset(word).map(|east_ns| (Some(east_ns / SECOND_NS), rest))
}

pub(crate) fn without_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|b| **b == b' ').count();
    text.get(blanks..).unwrap_or_default()
}
