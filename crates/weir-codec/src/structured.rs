//! A quick scan of JSON lines and logfmt: the time, anywhere under its usual names, and the
//! severity, if it is near the start. The body is kept as it is; its fields are parsed when they
//! are needed.
//!
//! Invariants: scans [`LOOK_BYTES`] of a line, and more only until it has found the time; allocates
//! nothing; ignores whatever it does not understand.

use weir_model::{RecordFlags, Severity};

use crate::Format;
use crate::json::Scanner;
use crate::text::time::of_field;
use crate::time::TimeParser;

/// How far into a line the scan goes once the time is found. Most loggers write time and level
/// first; without the level a record can still be found, without its time it is in the wrong place.
pub(crate) const LOOK_BYTES: usize = 512;

/// Result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScannedFields {
    time_ns: Option<i64>,
    /// The value of `date`, which can be the day that a record is about: used only if there is no
    /// other time.
    date_ns: Option<i64>,
    pub(crate) severity: Severity,
    /// `JSON_OBJECT`, `LOGFMT` or `MALFORMED`.
    pub(crate) flags: RecordFlags,
}

impl ScannedFields {
    /// Returns true if [`Self::field`] uses values with this key.
    pub(crate) fn may_state(key: &[u8]) -> bool {
        let times: [&[u8]; 5] = [b"time", b"timestamp", b"@timestamp", b"ts", b"date"];
        let severities: [&[u8]; 4] = [b"level", b"severity", b"status", b"lvl"];
        times.contains(&key) || severities.contains(&key)
    }

    /// Returns the time of the event, nanoseconds since 1970.
    pub(crate) fn time_ns(&self) -> Option<i64> {
        self.time_ns.or(self.date_ns)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.time_ns.is_some() && self.severity != Severity::UNSPECIFIED
    }

    /// Returns true if nothing after that many bytes is worth scanning.
    pub(crate) fn is_enough_at(&self, bytes: usize) -> bool {
        self.is_complete() || (bytes >= LOOK_BYTES && self.time_ns.is_some())
    }

    /// Processes a field. `is_text` distinguishes `"30"` from `30`.
    pub(crate) fn field(&mut self, key: &[u8], value: &[u8], is_text: bool) {
        self.next_field(key, value, is_text, &mut TimeParser::default());
    }

    /// Like [`Self::field`], with a parser that has seen the times of earlier lines.
    pub(crate) fn next_field(
        &mut self,
        key: &[u8],
        value: &[u8],
        is_text: bool,
        times: &mut TimeParser,
    ) {
        match key {
            b"time" | b"timestamp" | b"@timestamp" | b"ts" if self.time_ns.is_none() => {
                self.time_ns = time_of_field(value, times);
            }
            b"date" if self.time_ns.is_none() && self.date_ns.is_none() => {
                self.date_ns = time_of_field(value, times);
            }
            b"level" | b"severity" | b"status" | b"lvl"
                if self.severity == Severity::UNSPECIFIED =>
            {
                self.severity =
                    if is_text { severity_of_word(value) } else { Severity::UNSPECIFIED };
                // Numbers under `status` are HTTP status codes.
                if self.severity == Severity::UNSPECIFIED && key == b"level" {
                    self.severity = severity_of_number(value);
                }
            }
            _ => {}
        }
    }
}

/// Scans a line of `format` (JSON or logfmt).
pub(crate) fn look(format: Format, line: &[u8]) -> ScannedFields {
    let mut seen = ScannedFields::default();
    if format == Format::Logfmt {
        let pairs = look_logfmt(line, &mut seen);
        seen.flags = if pairs > 0 { RecordFlags::LOGFMT } else { RecordFlags::MALFORMED };
        return seen;
    }
    match line.trim_ascii() {
        [b'{', .., b'}'] => {
            seen.flags = RecordFlags::JSON_OBJECT;
            let _: Option<()> = look_json(line, &mut seen);
        }
        _ => seen.flags = RecordFlags::MALFORMED,
    }
    seen
}

/// Scans the members of an object until enough is found or it ends.
fn look_json(line: &[u8], seen: &mut ScannedFields) -> Option<()> {
    let mut scanner = Scanner::new(line);
    scanner.take(b'{')?;
    loop {
        let key = line.get(scanner.string()?)?;
        scanner.take(b':')?;
        let place = scanner.value()?;
        if seen.is_enough_at(place.start) {
            return Some(());
        }
        match line.get(place)? {
            [b'"', text @ .., b'"'] => seen.field(key, text, true),
            value => seen.field(key, value, false),
        }
        scanner.take(b',')?;
    }
}

/// Scans `key=value` pairs; returns how many there are before the first non-pair, or before enough
/// is found.
fn look_logfmt(line: &[u8], seen: &mut ScannedFields) -> usize {
    let mut rest = line;
    let mut pairs = 0;
    while let Some((key, value, after)) = next_pair(rest.trim_ascii_start()) {
        pairs += usize::from(value.is_some());
        if let Some(value) = value {
            seen.field(key, value, true);
        }
        if seen.is_enough_at(line.len() - after.len()) {
            break;
        }
        rest = after;
    }
    pairs
}

/// Returns true if every word is a pair, and there are at least two.
pub(crate) fn is_surely_logfmt(line: &[u8]) -> bool {
    let mut rest = line.get(..LOOK_BYTES).unwrap_or(line).trim_ascii_start();
    let mut pairs = 0;
    while let Some((_, Some(_), after)) = next_pair(rest) {
        pairs += 1;
        rest = after.trim_ascii_start();
    }
    // The rest may be a pair that the scan cut off.
    pairs >= 2 && (rest.is_empty() || line.len() > LOOK_BYTES)
}

pub(crate) type Pair<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

/// Returns the key at the start of `text`, its value if it has one, and what follows.
pub(crate) fn next_pair(text: &[u8]) -> Option<Pair<'_>> {
    let is_key = |b: &u8| *b > b' ' && *b != b'=' && *b != b'"';
    let key_len = text.iter().position(|b| !is_key(b)).unwrap_or(text.len());
    let (key, rest) = text.split_at_checked(key_len).filter(|(key, _)| !key.is_empty())?;
    let value = match rest {
        [b'=', value @ ..] => value,
        [b'"', ..] => return None,
        _ => return Some((key, None, rest)),
    };
    let [b'"', quoted @ ..] = value else {
        let len = value.iter().position(|b| *b <= b' ').unwrap_or(value.len());
        let (value, rest) = value.split_at_checked(len)?;
        return Some((key, Some(value), rest));
    };
    let len = quoted_len(quoted)?;
    Some((key, Some(quoted.get(..len)?), quoted.get(len + 1..)?))
}

/// Returns the length of a text up to the quote that ends it; escaped quotes do not.
pub(crate) fn quoted_len(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Parses a time as loggers write it into a field.
fn time_of_field(value: &[u8], times: &mut TimeParser) -> Option<i64> {
    times.parse(value).or_else(|| parse_epoch(value)).or_else(|| of_field(value))
}

/// Parses seconds since 1970 with an optional fraction, or milli-, micro- or nanoseconds, which are
/// distinguished by their magnitude.
fn parse_epoch(text: &[u8]) -> Option<i64> {
    let point = text.iter().position(|b| *b == b'.').unwrap_or(text.len());
    let whole = digits(text.get(..point)?)?;
    let fraction = text.get(point + 1..).unwrap_or_default();
    let unit_ns: i64 = match whole {
        ..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let mut time = whole.checked_mul(unit_ns)?;
    let mut step = unit_ns;
    for digit in fraction {
        step /= 10;
        time = time.checked_add(i64::from(digit.is_ascii_digit().then(|| digit - b'0')?) * step)?;
    }
    Some(time)
}

/// Parses the whole number that digits represent.
pub(crate) fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter().try_fold(0_i64, |n, b| {
        let digit = b.is_ascii_digit().then(|| i64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// Length of the longest severity name.
const SEVERITY_WORD_BYTES_MAX: usize = 13;

/// Returns the severity of a word, case-insensitively; `UNSPECIFIED` if it is not one.
pub(crate) fn severity_of_word(word: &[u8]) -> Severity {
    let mut lower = [0; SEVERITY_WORD_BYTES_MAX];
    let Some(lower) = lower.get_mut(..word.len()) else { return Severity::UNSPECIFIED };
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    match &*lower {
        b"trace" | b"trc" | b"trce" => Severity::TRACE,
        b"debug" | b"dbg" | b"dbug" | b"verbose" | b"vrb" => Severity::DEBUG,
        b"info" | b"inf" | b"information" | b"informational" | b"ok" => Severity::INFO,
        b"notice" | b"note" => Severity::NOTICE,
        b"warn" | b"warning" | b"wrn" => Severity::WARN,
        b"error" | b"err" | b"severe" | b"fail" => Severity::ERROR,
        b"critical" | b"crit" => Severity::CRITICAL,
        b"alert" => Severity::ALERT,
        b"fatal" | b"ftl" | b"panic" | b"pnc" | b"dpanic" | b"emergency" | b"emerg" => {
            Severity::FATAL
        }
        _ => Severity::UNSPECIFIED,
    }
}

/// The levels of pino and bunyan; other numbers mean different things to different loggers.
fn severity_of_number(number: &[u8]) -> Severity {
    match number {
        b"10" => Severity::TRACE,
        b"20" => Severity::DEBUG,
        b"30" => Severity::INFO,
        b"40" => Severity::WARN,
        b"50" => Severity::ERROR,
        b"60" => Severity::FATAL,
        _ => Severity::UNSPECIFIED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(format: Format, line: &str) -> (Option<i64>, u8, RecordFlags) {
        let seen = look(format, line.as_bytes());
        (seen.time_ns(), seen.severity.0, seen.flags)
    }

    #[test]
    fn json_time_and_severity_are_found_under_their_usual_names() {
        let cases = [
            (r#"{"time":"1970-01-01T00:00:01Z","level":"info","msg":"x"}"#, Some(1_000_000_000), 9),
            (
                r#" {"msg":{"level":"error"},"@timestamp":"1970-01-01T00:00:01Z"} "#,
                Some(1_000_000_000),
                0,
            ),
            (r#"{"level":30,"time":1700000000123,"pid":1}"#, Some(1_700_000_000_123_000_000), 9),
            (r#"{"level":"WARN","ts":1700000000.25}"#, Some(1_700_000_000_250_000_000), 13),
            (
                r#"{"severity":"CRITICAL","timestamp":1700000000123456}"#,
                Some(1_700_000_000_123_456_000),
                18,
            ),
            (r#"{"status":200,"ts":1700000000123456789}"#, Some(1_700_000_000_123_456_789), 0),
            (r#"{"status":"error","time":"yesterday"}"#, None, 17),
            (r#"{"time":-5,"level":null}"#, None, 0),
            (r#"{"time":"1970-01-01 00:00:01"}"#, Some(1_000_000_000), 0),
            (r#"{"ts":"1970-01-01T00:00:01,25","level":"info"}"#, Some(1_250_000_000), 9),
            (r#"{"@timestamp":"1970/01/01 01:00:01.5 +0100"}"#, Some(1_500_000_000), 0),
            (r#"{"timestamp":"1970-01-01T00:00:01.5+0000"}"#, Some(1_500_000_000), 0),
            (r#"{"time":"1970-01-01 00:00:01 UTC"}"#, Some(1_000_000_000), 0),
            (r#"{"time":"1970-01-01 00:00:01 and more"}"#, None, 0),
            (r#"{"time":"1970-01-01 00:00:01 "}"#, None, 0),
            (r#"{"time":"1970-01-01 24:00:01"}"#, None, 0),
            (r#"{"time":"1970-01-01"}"#, None, 0),
            // What Fluent Bit writes; anything else is more likely the time.
            (r#"{"date":1700000000.25,"log":"x"}"#, Some(1_700_000_000_250_000_000), 0),
            (r#"{"date":"1999-01-01T00:00:00Z","level":"info","ts":1}"#, Some(1_000_000_000), 9),
            (r#"{"ts":1,"date":"1999-01-01T00:00:00Z"}"#, Some(1_000_000_000), 0),
            (r#"{"date":"1999-01-01","level":"info"}"#, None, 9),
            (r#"{"a":1 "level":"info"}"#, None, 0),
            ("{}", None, 0),
        ];
        for (line, time, severity) in cases {
            assert_eq!(
                seen(Format::Json, line),
                (time, severity, RecordFlags::JSON_OBJECT),
                "{line}"
            );
        }
    }

    #[test]
    fn logfmt_time_and_severity_are_found() {
        let cases = [
            (r#"time=1970-01-01T00:00:01Z level=info msg="a b""#, Some(1_000_000_000), 9),
            (r#"msg="a \"level=error\" b" debug lvl=loud ts=1"#, Some(1_000_000_000), 0),
            ("level=warn", None, 13),
            (r#"time="1970-01-01T00:00:01Z" level="eRRor""#, Some(1_000_000_000), 17),
            ("a= level=notice", None, 10),
        ];
        for (line, time, severity) in cases {
            assert_eq!(seen(Format::Logfmt, line), (time, severity, RecordFlags::LOGFMT), "{line}");
        }
    }

    #[test]
    fn lines_of_another_format_are_malformed() {
        for line in ["", "{", "}", "hello", "[1]", "\"level=info\""] {
            assert_eq!(seen(Format::Json, line), (None, 0, RecordFlags::MALFORMED), "{line}");
            assert_eq!(seen(Format::Logfmt, line), (None, 0, RecordFlags::MALFORMED), "{line}");
        }
    }

    #[test]
    fn the_time_is_found_however_far_it_is_and_the_rest_within_a_bound() {
        let (time, x) = (Some(1_000_000_000), "x".repeat(LOOK_BYTES));
        let far = format!(r#"{{"ts":1,"msg":"{x}","level":"info"}}"#);
        assert_eq!(seen(Format::Json, &far), (time, 0, RecordFlags::JSON_OBJECT));
        let far = format!(r#"{{"msg":"{x}","more":{{"ts":7}},"level":"info","ts":1}}"#);
        assert_eq!(seen(Format::Json, &far), (time, 9, RecordFlags::JSON_OBJECT));
        let far = format!(r#"ts=1 msg="{x}" level=info"#);
        assert_eq!(seen(Format::Logfmt, &far), (time, 0, RecordFlags::LOGFMT));
        let far = format!(r#"a=b msg="{x}" level=info ts=1"#);
        assert_eq!(seen(Format::Logfmt, &far), (time, 9, RecordFlags::LOGFMT));
    }
}
