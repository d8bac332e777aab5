//! Time zones, and the stretches of time that figures are told by in them.
//!
//! A stretch begins where the local time of its zone is a multiple of the interval, counted from
//! midnight of 1970-01-01, or from a Monday when it is of whole weeks. Where the clock is set
//! forward over that beginning, the stretch begins there. Where it is set back by less than an
//! interval, the stretch that is under way gets longer, so a day may have 25 hours; where it is set
//! back by an interval or more, the stretches come once more.
//!
//! Invariants: every time is in one stretch, and a stretch has no gaps; which one does not depend
//! on what range is asked for. The database of zones is that of this build, whatever the machine
//! has; nothing here panics or leaves the range of `i64` nanoseconds.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use crate::units::format_rfc3339;

const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const WEEK_NS: i64 = 7 * 24 * 60 * MINUTE_NS;
/// 1970-01-01 was a Thursday; weeks begin on Mondays.
const MONDAY_NS: i64 = 4 * 24 * 60 * MINUTE_NS;

/// Farther from UTC is no zone.
const OFFSET_MINUTES_MAX: i64 = 18 * 60;

/// Why a text is no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no time zone; {hint}")]
pub struct ZoneError {
    /// What was written.
    text: String,
    /// What would be right.
    hint: String,
}

/// A time zone: what clocks show there, at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl Zone {
    /// The zone that all others are told by.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// A zone by its name in the database (`Europe/Berlin`, in any case), or by its distance from
    /// UTC (`+02:00`, `UTC-5`, `GMT+5:30`; east of it is positive).
    ///
    /// # Errors
    /// When it is neither; the text suggests one.
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

    /// Its name, or its distance from UTC.
    pub fn name(&self) -> String {
        match self.0.iana_name() {
            Some(name) => name.to_owned(),
            None => offset_text(self.offset_ns(0)),
        }
    }

    /// Whether it is UTC.
    pub fn is_utc(&self) -> bool {
        *self == Self::UTC
    }

    /// How far its clocks are ahead of UTC at a time, nanoseconds.
    pub fn offset_ns(&self, time_ns: i64) -> i64 {
        i64::from(self.0.to_offset(timestamp(time_ns.into())).seconds()) * SECOND_NS
    }

    /// A time as its clocks show it, with milliseconds and the distance from UTC:
    /// `2026-10-25T02:00:00.000+01:00`.
    pub fn format_rfc3339(&self, time_ns: i64) -> String {
        let offset_ns = self.offset_ns(time_ns);
        // An offset with seconds, as before there were zones, cannot be expressed.
        if self.is_utc() || offset_ns % MINUTE_NS != 0 {
            return format_rfc3339(time_ns);
        }
        let mut text = format_rfc3339(self.local_ns(time_ns));
        text.pop();
        text + &offset_text(offset_ns)
    }

    /// What its clocks show at a time, told as a time of UTC.
    pub fn local_ns(&self, time_ns: i64) -> i64 {
        time_ns.saturating_add(self.offset_ns(time_ns))
    }

    /// When its clocks show this, which is told as a time of UTC: the first of two times, and where
    /// the clock is set forward over it, as much later as it is set.
    pub fn time_ns(&self, local_ns: i64) -> i64 {
        let civil = Offset::UTC.to_datetime(timestamp(local_ns.into()));
        let time = self.0.to_ambiguous_timestamp(civil).compatible();
        time.map_or(local_ns, |time| clamped(time.as_nanosecond()))
    }

    /// The beginning of the stretch of a time. This is the definition, looked up for each time
    /// anew; [`Calendar`] says the same of many.
    pub fn begin_of(&self, time_ns: i64, interval_ns: i64) -> i64 {
        let (time, interval) = (i128::from(time_ns), i128::from(interval_ns.max(1)));
        let local = time + i128::from(self.offset_ns(time_ns));
        let origin = i128::from(origin_ns(interval_ns));
        let floor = (local - origin).div_euclid(interval) * interval + origin;
        let mut begins = Vec::new();
        for begin in [floor, floor + interval] {
            self.add_times_of(begin, interval, &mut begins);
        }
        // The last time that the clock was set back by an interval, if it was.
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

    /// When a stretch begins that begins at a local time: where the clock is set forward over it
    /// then, and twice only when the whole stretch comes twice.
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

/// The point of the local time that stretches are counted from.
fn origin_ns(interval_ns: i64) -> i64 {
    if interval_ns % WEEK_NS == 0 { MONDAY_NS } else { 0 }
}

fn timestamp(time_ns: i128) -> Timestamp {
    // Times of the store are far inside of what it can express.
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

/// The known name that is meant, perhaps: nearly the same, or the same city.
fn nearest(text: &str) -> Option<String> {
    let wanted = text.trim().to_ascii_lowercase().replace(' ', "_");
    // Names are short; what is not is none of them.
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

/// A time between two changes of the clock.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "a unit stands last in the name of what has one")]
struct Part {
    from_ns: i64,
    offset_ns: i64,
    /// The beginning of the stretch that is under way when it begins, which may be that.
    open_ns: i64,
    /// Where the first stretch behind that one would begin, if the clock were not set again before.
    first_ns: i64,
}

/// The stretches of an interval in a zone.
#[derive(Debug, Clone)]
pub struct Calendar {
    interval_ns: i64,
    /// In order, two for each year of most zones; the first begins before all times.
    parts: Vec<Part>,
}

impl Calendar {
    /// Stretches of `interval_ns`, which must be more than 0, in a zone.
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

    /// Length of a stretch when no clock is set, nanoseconds.
    pub fn interval_ns(&self) -> i64 {
        self.interval_ns
    }

    /// Begins a part.
    fn set_clock(&mut self, from_ns: i64, offset_ns: i64) {
        let before_ns = self.parts[self.parts.len() - 1].offset_ns;
        if offset_ns == before_ns {
            return;
        }
        let (open_ns, end_ns) = self.stretch(from_ns - 1);
        // Where it would end by the clock as it is now.
        let end_ns = end_ns.saturating_add(before_ns - offset_ns);
        let is_new = before_ns - offset_ns >= self.interval_ns || end_ns <= from_ns;
        let mut part = Part { from_ns, offset_ns, open_ns, first_ns: end_ns };
        if is_new {
            part.open_ns = from_ns;
            part.first_ns = clamped(self.floor(&part, from_ns) + i128::from(self.interval_ns));
        }
        self.parts.push(part);
    }

    /// Where a stretch begins that has the time, as the clock is in the part.
    fn floor(&self, part: &Part, time_ns: i64) -> i128 {
        let ahead = i128::from(part.offset_ns - origin_ns(self.interval_ns));
        let interval = i128::from(self.interval_ns);
        (i128::from(time_ns) + ahead).div_euclid(interval) * interval - ahead
    }

    /// Beginning and end of the stretch of a time: it has all times from the one on and before the
    /// other.
    pub fn stretch(&self, time_ns: i64) -> (i64, i64) {
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

    /// Whether all stretches that have times from `first_ns` to `last_ns`, ends included, begin
    /// with a whole minute of UTC.
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
