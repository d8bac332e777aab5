//! Hand-written parsing and formatting of RFC 3339: every line has a timestamp, so it must cost
//! nanoseconds.
//!
//! Invariants: every accepted time fits `i64` nanoseconds since 1970 (times outside its range, 1677
//! to 2262, are clamped to it); a leap second counts as the second after it.

const SECOND_NS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;
/// `2026-11-21T19:12:31`: the part before the fraction.
const WHOLE_LEN: usize = 19;

/// Parses an RFC 3339 date and time into nanoseconds since 1970. It must span the whole of `text`.
/// `t`, `z` and a blank between date and time are accepted; decimals beyond the ninth are ignored.
pub fn parse_rfc3339(text: &[u8]) -> Option<i64> {
    TimeParser::default().parse(text)
}

/// Parses RFC 3339 and remembers the last whole second, which most lines share with the previous
/// one.
#[derive(Debug, Clone, Default)]
pub struct TimeParser {
    whole: [u8; WHOLE_LEN],
    /// `whole` in seconds since 1970, read as UTC.
    seconds: i64,
}

impl TimeParser {
    /// Parses the next time, like [`parse_rfc3339`].
    #[inline]
    pub fn parse(&mut self, text: &[u8]) -> Option<i64> {
        let (whole, rest) = text.split_first_chunk::<WHOLE_LEN>()?;
        if *whole != self.whole {
            self.seconds = whole_seconds(whole)?;
            self.whole = *whole;
        }
        if let [b'.', fraction @ .., b'Z'] = rest
            && let Some(nanos) = read_nine_digits(fraction)
        {
            return Some(self.seconds.saturating_mul(SECOND_NS).saturating_add(nanos));
        }
        let (nanos, zone) = match rest {
            [b'.' | b',', fraction @ ..] => read_fraction(fraction)?,
            _ => (0, rest),
        };
        let offset = match zone {
            b"Z" | b"z" => 0,
            _ => read_offset(zone)?,
        };
        let seconds = self.seconds - offset;
        Some(seconds.saturating_mul(SECOND_NS).saturating_add(nanos))
    }
}

fn whole_seconds(text: &[u8; WHOLE_LEN]) -> Option<i64> {
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        mo1,
        mo2,
        b'-',
        d1,
        d2,
        b'T' | b't' | b' ',
        h1,
        h2,
        b':',
        mi1,
        mi2,
        b':',
        s1,
        s2,
    ] = *text
    else {
        return None;
    };
    let moment = Moment {
        year: two_digits(y1, y2)? * 100 + two_digits(y3, y4)?,
        month: two_digits(mo1, mo2)?,
        day: two_digits(d1, d2)?,
        hour: two_digits(h1, h2)?,
        minute: two_digits(mi1, mi2)?,
        second: two_digits(s1, s2)?,
        nanos: 0,
    };
    moment.seconds()
}

/// A time in its parts, in UTC.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) nanos: i64,
}

impl Moment {
    /// Returns seconds since 1970; `None` if there is no such day or time.
    #[inline]
    fn seconds(&self) -> Option<i64> {
        let Self { year, month, day, hour, minute, second, .. } = *self;
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        Some(days_from_civil(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second)
    }

    /// Returns nanoseconds since 1970; `None` if there is no such day or time.
    pub(crate) fn time_ns(&self) -> Option<i64> {
        Some(self.seconds()?.saturating_mul(SECOND_NS).saturating_add(self.nanos))
    }
}

#[inline]
fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then_some(i64::from(tens) * 10 + i64::from(ones))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01 in the proleptic Gregorian calendar. Years begin in March
/// here, so that the leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns year, month and day of a number of days since 1970-01-01 (Howard Hinnant's
/// `civil_from_days`).
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Parses at least one digit of a fraction; returns nanoseconds and what follows the digits.
#[inline]
pub(crate) fn read_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let mut nanos = 0;
    let mut digits = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if digits < 9 {
            nanos = nanos * 10 + i64::from(digit);
        }
        digits += 1;
    }
    if digits == 0 {
        return None;
    }
    for _ in digits..9 {
        nanos *= 10;
    }
    Some((nanos, text.get(digits..)?))
}

/// Parses the usual fraction, eight digits of it at once: pairs, then fours, then all.
#[inline]
fn read_nine_digits(text: &[u8]) -> Option<i64> {
    let ([digits], [last]) = text.as_chunks::<8>() else { return None };
    let word = u64::from_le_bytes(*digits);
    let is_digits = word & 0xf0f0_f0f0_f0f0_f0f0 == 0x3030_3030_3030_3030
        && word.wrapping_add(0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0
            == 0x3030_3030_3030_3030;
    if !is_digits || !last.is_ascii_digit() {
        return None;
    }
    let ones = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let all = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    Some(all as i64 * 10 + i64::from(last - b'0'))
}

/// Parses `+hh:mm` or `-hh:mm`; returns seconds east of UTC.
fn read_offset(zone: &[u8]) -> Option<i64> {
    let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] = *zone else { return None };
    let (hours, minutes) = (two_digits(h1, h2)?, two_digits(m1, m2)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    Some(if sign == b'+' { seconds } else { -seconds })
}

/// Appends seconds since 1970 with nine decimals, as event collectors accept them:
/// `1700000000.123456789`.
pub fn format_unix_time(time_ns: i64, out: &mut Vec<u8>) {
    if time_ns < 0 {
        out.push(b'-');
    }
    let magnitude = time_ns.unsigned_abs();
    let (seconds, nanos) = (magnitude / 1_000_000_000, magnitude % 1_000_000_000);
    push_number(seconds, out);
    push_fraction(nanos as u32, out);
}

/// Appends a time as RFC 3339 in UTC, always with nine decimals: `2026-11-21T19:12:31.335106123Z`.
pub fn format_rfc3339_ns(time_ns: i64, out: &mut Vec<u8>) {
    let seconds = time_ns.div_euclid(SECOND_NS);
    let nanos = time_ns.rem_euclid(SECOND_NS);
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY_SECONDS));
    let second_of_day = seconds.rem_euclid(DAY_SECONDS);
    let [y1, y2] = pair(year / 100);
    let [y3, y4] = pair(year % 100);
    let [mo1, mo2] = pair(month);
    let [d1, d2] = pair(day);
    let [h1, h2] = pair(second_of_day / 3600);
    let [mi1, mi2] = pair(second_of_day / 60 % 60);
    let [s1, s2] = pair(second_of_day % 60);
    out.extend_from_slice(&[
        y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b'T', h1, h2, b':', mi1, mi2, b':', s1, s2,
    ]);
    push_fraction(nanos as u32, out);
    out.push(b'Z');
}

#[inline]
fn pair(number: i64) -> [u8; 2] {
    let number = number as u8;
    [b'0' + number / 10 % 10, b'0' + number % 10]
}

/// Appends the digits of a number.
pub(crate) fn push_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(20 - count..).unwrap_or_default());
}

/// Appends `.` and nine digits.
#[inline]
fn push_fraction(mut nanos: u32, out: &mut Vec<u8>) {
    let mut digits = [b'.'; 10];
    for digit in digits.iter_mut().skip(1).rev() {
        *digit = b'0' + (nanos % 10) as u8;
        nanos /= 10;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rfc3339(time_ns: i64) -> String {
        let mut out = Vec::new();
        format_rfc3339_ns(time_ns, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn unix(time_ns: i64) -> String {
        let mut out = Vec::new();
        format_unix_time(time_ns, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_times_are_read() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:01.5z", 1_500_000_000),
            ("1969-12-31t23:59:59.999999999Z", -1),
            ("2023-11-14T22:13:20.123456789Z", 1_700_000_000_123_456_789),
            ("2023-11-14T22:13:20.000000009Z", 1_700_000_000_000_000_009),
            ("2023-11-14T22:13:20.1234567899Z", 1_700_000_000_123_456_789),
            ("2023-11-14 22:13:20,123Z", 1_700_000_000_123_000_000),
            ("2023-11-15T03:43:20+05:30", 1_700_000_000_000_000_000),
            ("2023-11-14T14:13:20-08:00", 1_700_000_000_000_000_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
            ("9999-12-31T23:59:59Z", i64::MAX),
            ("0000-01-01T00:00:00Z", i64::MIN),
        ];
        for (text, want) in cases {
            assert_eq!(parse_rfc3339(text.as_bytes()), Some(want), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "2023",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20Z ",
            "2023-13-14T22:13:20Z",
            "2023-00-14T22:13:20Z",
            "2023-02-29T22:13:20Z",
            "1900-02-29T00:00:00Z",
            "2023-11-31T22:13:20Z",
            "2023-11-14T24:13:20Z",
            "2023-11-14T22:60:20Z",
            "2023-11-14T22:13:61Z",
            "2023-11-14T22:13:20+0530",
            "2023-11-14T22:13:20+24:00",
            "2023-11-14T22:13:20+05:60",
            "2023-11-14X22:13:20Z",
            "2O23-11-14T22:13:20Z",
            "2023-11-14T22:13:20.1a",
            "2023-11-14T22:13:20.12345678:Z",
            "2023-11-14T22:13:20.1234:6789Z",
            "2023-11-14T22:13:20./23456789Z",
        ] {
            assert_eq!(parse_rfc3339(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_parser_that_remembers_the_second_reads_every_time() {
        let mut parser = TimeParser::default();
        for (text, want) in [
            ("1970-01-01T00:00:01.1Z", Some(1_100_000_000)),
            ("1970-01-01T00:00:01.2Z", Some(1_200_000_000)),
            ("1970-01-01T00:00:0x.2Z", None),
            ("1970-01-01T00:00:01.3Z", Some(1_300_000_000)),
            ("1970-01-01T00:00:02.3Z", Some(2_300_000_000)),
        ] {
            assert_eq!(parser.parse(text.as_bytes()), want);
        }
    }

    #[test]
    fn times_are_written_at_the_ends_of_the_range() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(rfc3339(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(rfc3339(i64::MIN), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(unix(1_700_000_000_123_456_789), "1700000000.123456789");
        assert_eq!(unix(5), "0.000000005");
        assert_eq!(unix(-1_500_000_000), "-1.500000000");
        assert_eq!(unix(i64::MIN), "-9223372036.854775808");
    }

    proptest! {
        #[test]
        fn every_time_survives_writing_and_reading(time_ns: i64) {
            prop_assert_eq!(parse_rfc3339(rfc3339(time_ns).as_bytes()), Some(time_ns));
        }

        #[test]
        fn days_count_one_by_one(day in -700_000_i64..3_000_000) {
            let (year, month, of_month) = civil_from_days(day);
            prop_assert_eq!(days_from_civil(year, month, of_month), day);
            let (year2, month2, of_month2) = civil_from_days(day + 1);
            let is_next = (year2, month2, of_month2) == (year, month, of_month + 1);
            let is_first = of_month2 == 1 && of_month == days_in_month(year, month);
            prop_assert!(is_next || is_first);
        }
    }
}
