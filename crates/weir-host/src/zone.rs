//! Time zones, and the buckets into which they divide time.
//!
//! A bucket begins where the local time of its zone is a multiple of the interval, counted from
//! midnight of 1970-01-01, or from a Monday if the interval consists of whole weeks. If the clock
//! is set forward over that beginning, the bucket begins at the change. If it is set back by less
//! than an interval, the current bucket gets longer, so a day may have 25 hours; if it is set back
//! by an interval or more, the buckets are repeated.
//!
//! Invariants: every time is in one bucket, and a bucket has no gaps; which one does not depend on
//! the requested range. The zone database is that of this build, whatever the machine has; nothing
//! here panics or leaves the range of `i64` nanoseconds.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use crate::units::format_rfc3339;

const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const WEEK_NS: i64 = 7 * 24 * 60 * MINUTE_NS;
/// 1970-01-01 was a Thursday; weeks begin on Mondays.
const MONDAY_NS: i64 = 4 * 24 * 60 * MINUTE_NS;

/// Maximum offset of a zone from UTC.
const OFFSET_MINUTES_MAX: i64 = 18 * 60;

/// Why a text is not a time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time zone; {hint}")]
pub struct ZoneError {
    /// The given text.
    text: String,
    /// What to write instead.
    hint: String,
}

/// A time zone: the local time at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl Zone {
    /// UTC.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// Parses a zone name from the database (`Europe/Berlin`, case-insensitive), or an offset from
    /// UTC (`+02:00`, `UTC-5`, `GMT+5:30`; east is positive).
    ///
    /// # Errors
    /// If it is neither; the message makes a suggestion.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        let name = text.trim();
        if ["UTC", "GMT", "Z"].iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(Self::UTC);
        }
        let lower = name.to_ascii_lowercase();
        let offset =
            lower.strip_prefix("utc").or_else(|| lower.strip_prefix("gmt")).unwrap_or(&lower);
        if let Some(minutes) = offset_minutes(offset) {
            let offset = Offset::from_seconds((minutes * 60) as i32);
            let zone = offset.map(TimeZone::fixed).map(Self);
            return zone.map_err(|_| Self::unknown(text));
        }
        let known = TimeZoneDatabase::bundled();
        let zone = known.get(name).ok().filter(|zone| !zone.is_unknown());
        let zone = Self(zone.ok_or_else(|| Self::unknown(text))?);
        // `Etc/UTC` and the like.
        let first = timestamp(i64::MIN.into());
        let is_utc = zone.offset_ns(0) == 0 && zone.0.following(first).next().is_none();
        Ok(if is_utc { Self::UTC } else { zone })
    }

    fn unknown(text: &str) -> ZoneError {
        let hint = match nearest(text) {
            Some(near) => format!("did you mean {near}?"),
            None => "write a name such as Europe/Berlin, or an offset from UTC such as +02:00"
                .to_owned(),
        };
        ZoneError { text: text.chars().take(64).collect(), hint }
    }

    /// Returns its name, or its offset from UTC.
    pub fn name(&self) -> String {
        match self.0.iana_name() {
            Some(name) => name.to_owned(),
            None => offset_text(self.offset_ns(0)),
        }
    }

    /// Returns true if it is UTC.
    pub fn is_utc(&self) -> bool {
        *self == Self::UTC
    }

    /// Returns how far its local time is ahead of UTC at a time, nanoseconds.
    pub fn offset_ns(&self, time_ns: i64) -> i64 {
        i64::from(self.0.to_offset(timestamp(time_ns.into())).seconds()) * SECOND_NS
    }

    /// Formats a time as local time, with milliseconds and the offset from UTC:
    /// `2026-10-25T02:00:00.000+01:00`.
    pub fn format_rfc3339(&self, time_ns: i64) -> String {
        let offset_ns = self.offset_ns(time_ns);
        // An offset with seconds, as used before there were zones, cannot be expressed.
        if self.is_utc() || offset_ns % MINUTE_NS != 0 {
            return format_rfc3339(time_ns);
        }
        let mut text = format_rfc3339(self.local_ns(time_ns));
        text.pop();
        text + &offset_text(offset_ns)
    }

    /// Returns the local time at a time, expressed like a UTC time.
    pub fn local_ns(&self, time_ns: i64) -> i64 {
        time_ns.saturating_add(self.offset_ns(time_ns))
    }

    /// Returns the time of a local time, which is expressed like a UTC time: the first of two if
    /// the local time occurs twice, and shifted by the change if the clock is set forward over it.
    pub fn time_ns(&self, local_ns: i64) -> i64 {
        let civil = Offset::UTC.to_datetime(timestamp(local_ns.into()));
        let time = self.0.to_ambiguous_timestamp(civil).compatible();
        time.map_or(local_ns, |time| clamped(time.as_nanosecond()))
    }

    /// Returns the start of the bucket of a time. This is the definition, evaluated separately for
    /// each time; [`Calendar`] gives the same result for many.
    pub fn begin_of(&self, time_ns: i64, interval_ns: i64) -> i64 {
        let (time, interval) = (i128::from(time_ns), i128::from(interval_ns.max(1)));
        let local = time + i128::from(self.offset_ns(time_ns));
        let origin = i128::from(origin_ns(interval_ns));
        let floor = (local - origin).div_euclid(interval) * interval + origin;
        let mut begins = Vec::new();
        for begin in [floor, floor + interval] {
            self.add_times_of(begin, interval, &mut begins);
        }
        // The last time that the clock was set back by at least an interval, if any.
        let last = self.0.preceding(timestamp(time + 1)).next();
        begins.extend(last.and_then(|last| {
            let set = last.timestamp().as_nanosecond();
            let before = self.0.to_offset(timestamp(set - 1));
            let back = i128::from(before.seconds() - last.offset().seconds());
            (back * i128::from(SECOND_NS) >= interval).then_some(set)
        }));
        let begin = begins.into_iter().filter(|begin| *begin <= time).max();
        begin.map_or(i64::MIN, clamped)
    }

    /// Adds the times at which a bucket begins that starts at a local time: at the change if the
    /// clock is set forward over it, and twice only if the whole bucket is repeated.
    fn add_times_of(&self, local: i128, interval: i128, begins: &mut Vec<i128>) {
        let at = |offset: Offset| local - i128::from(offset.seconds()) * i128::from(SECOND_NS);
        let civil = Offset::UTC.to_datetime(timestamp(local));
        match self.0.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => begins.push(at(offset)),
            AmbiguousOffset::Gap { after, .. } => {
                let set = self.0.following(timestamp(at(after))).next();
                begins.extend(set.map(|set| set.timestamp().as_nanosecond()));
            }
            AmbiguousOffset::Fold { before, after } => {
                begins.push(at(before));
                if at(after) - at(before) >= interval {
                    begins.push(at(after));
                }
            }
        }
    }
}

/// Returns the local time from which buckets are counted.
fn origin_ns(interval_ns: i64) -> i64 {
    if interval_ns % WEEK_NS == 0 { MONDAY_NS } else { 0 }
}

fn timestamp(time_ns: i128) -> Timestamp {
    // Times in the store are far within the range that it can express.
    Timestamp::from_nanosecond(time_ns).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn clamped(time_ns: i128) -> i64 {
    time_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// `+2`, `-05`, `+0530`, `+05:30`.
fn offset_minutes(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
        Some(_) => return None,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2)?,
        None => (digits, "0"),
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_right = (1..=2).contains(&hours.len()) && is_number(hours) && is_number(minutes);
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let total = hours * 60 + minutes;
    (is_right && minutes < 60 && total <= OFFSET_MINUTES_MAX).then_some(sign * total)
}

fn offset_text(offset_ns: i64) -> String {
    let sign = if offset_ns < 0 { '-' } else { '+' };
    let minutes = (offset_ns / MINUTE_NS).abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Returns the known name that may be meant: a similar one, or one with the same city.
fn nearest(text: &str) -> Option<String> {
    let wanted = text.trim().to_ascii_lowercase().replace(' ', "_");
    // Names are short; a long text is none of them.
    if wanted.is_empty() || wanted.len() > 40 {
        return None;
    }
    let near_max = (wanted.len() / 3).min(3);
    let known = TimeZoneDatabase::bundled();
    let distance = |name: &str| {
        let name = name.to_ascii_lowercase();
        let city = name.rsplit('/').next().unwrap_or(&name);
        let of_city = strsim::osa_distance(&wanted, city);
        strsim::osa_distance(&wanted, &name).min(of_city)
    };
    let names = known.available().map(|name| (distance(name.as_str()), name.as_str().to_owned()));
    let near = names.filter(|(distance, _)| *distance <= near_max).min();
    near.map(|(_, name)| name)
}

/// The time between two changes of the clock.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "names of values with a unit end with the unit")]
struct Part {
    from_ns: i64,
    offset_ns: i64,
    /// Start of the bucket that is current when the part begins; may be the start of the part.
    open_ns: i64,
    /// Start of the first bucket after that one, if the clock were not set again before.
    first_ns: i64,
}

/// The buckets of an interval in a zone.
#[derive(Debug, Clone)]
pub struct Calendar {
    interval_ns: i64,
    /// In order, two per year in most zones; the first begins before all times.
    parts: Vec<Part>,
}

impl Calendar {
    /// Creates the buckets of `interval_ns`, which must be greater than 0, in a zone.
    pub fn new(zone: &Zone, interval_ns: i64) -> Self {
        let interval_ns = interval_ns.max(1);
        let (from_ns, offset_ns) = (i64::MIN, zone.offset_ns(i64::MIN));
        let first = Part { from_ns, offset_ns, open_ns: from_ns, first_ns: from_ns };
        let mut calendar = Self { interval_ns, parts: vec![first] };
        for change in zone.0.following(timestamp(i64::MIN.into())) {
            let Ok(set_ns) = i64::try_from(change.timestamp().as_nanosecond()) else { break };
            calendar.set_clock(set_ns, i64::from(change.offset().seconds()) * SECOND_NS);
        }
        calendar
    }

    /// Returns the length of a bucket without clock changes, nanoseconds.
    pub fn interval_ns(&self) -> i64 {
        self.interval_ns
    }

    /// Starts a part.
    fn set_clock(&mut self, from_ns: i64, offset_ns: i64) {
        let before_ns = self.parts[self.parts.len() - 1].offset_ns;
        if offset_ns == before_ns {
            return;
        }
        let (open_ns, end_ns) = self.bucket(from_ns - 1);
        // Where it would end by the current clock.
        let end_ns = end_ns.saturating_add(before_ns - offset_ns);
        let is_new = before_ns - offset_ns >= self.interval_ns || end_ns <= from_ns;
        let mut part = Part { from_ns, offset_ns, open_ns, first_ns: end_ns };
        if is_new {
            part.open_ns = from_ns;
            part.first_ns = clamped(self.floor(&part, from_ns) + i128::from(self.interval_ns));
        }
        self.parts.push(part);
    }

    /// Returns the start of the bucket of the time, by the clock of the part.
    fn floor(&self, part: &Part, time_ns: i64) -> i128 {
        let ahead = i128::from(part.offset_ns - origin_ns(self.interval_ns));
        let interval = i128::from(self.interval_ns);
        (i128::from(time_ns) + ahead).div_euclid(interval) * interval - ahead
    }

    /// Returns start (inclusive) and end (exclusive) of the bucket of a time.
    pub fn bucket(&self, time_ns: i64) -> (i64, i64) {
        let mut next = self.parts.partition_point(|part| part.from_ns <= time_ns);
        let part = &self.parts[next - 1];
        let (begin_ns, mut end_ns) = if time_ns < part.first_ns {
            (part.open_ns, part.first_ns)
        } else {
            let begin = self.floor(part, time_ns);
            (clamped(begin), clamped(begin + i128::from(self.interval_ns)))
        };
        while let Some(part) = self.parts.get(next).filter(|part| part.from_ns <= end_ns) {
            if part.open_ns == part.from_ns {
                end_ns = part.from_ns;
                break;
            }
            end_ns = part.first_ns;
            next += 1;
        }
        (begin_ns, end_ns)
    }

    /// Returns true if all buckets of times from `first_ns` to `last_ns`, inclusive, begin at a
    /// whole minute of UTC.
    pub fn is_of_minutes(&self, first_ns: i64, last_ns: i64) -> bool {
        let first = self.parts.partition_point(|part| part.from_ns <= first_ns) - 1;
        let mut parts = self.parts[first..].iter().take_while(|part| part.from_ns <= last_ns);
        let is_whole = |part: &Part| {
            let is_inside = part.from_ns > first_ns;
            part.offset_ns % MINUTE_NS == 0 && (!is_inside || part.from_ns % MINUTE_NS == 0)
        };
        self.interval_ns % MINUTE_NS == 0 && parts.all(is_whole)
    }
}

#[cfg(test)]
mod tests;
