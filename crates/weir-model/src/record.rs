//! Records in terms of OpenTelemetry's log data model.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{RecordKind, Resource};

/// Severity number of OpenTelemetry's log data model (1..=24), 0 when unknown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Severity(pub u8);

impl Severity {
    /// Not stated by the source.
    pub const UNSPECIFIED: Self = Self(0);
    /// TRACE.
    pub const TRACE: Self = Self(1);
    /// DEBUG.
    pub const DEBUG: Self = Self(5);
    /// INFO.
    pub const INFO: Self = Self(9);
    /// Syslog notice, which OpenTelemetry maps to INFO2.
    pub const NOTICE: Self = Self(10);
    /// WARN.
    pub const WARN: Self = Self(13);
    /// ERROR.
    pub const ERROR: Self = Self(17);
    /// Syslog critical: ERROR2.
    pub const CRITICAL: Self = Self(18);
    /// Syslog alert: ERROR3.
    pub const ALERT: Self = Self(19);
    /// FATAL; syslog emergency.
    pub const FATAL: Self = Self(21);

    /// Returns its name: that of a severity of syslog between two ranges, or else the short name of
    /// the range; empty if unspecified.
    pub fn text(self) -> &'static str {
        match self {
            Self::NOTICE => return "NOTICE",
            Self::CRITICAL => return "CRITICAL",
            Self::ALERT => return "ALERT",
            _ => {}
        }
        match self.0 {
            1..=4 => "TRACE",
            5..=8 => "DEBUG",
            9..=12 => "INFO",
            13..=16 => "WARN",
            17..=20 => "ERROR",
            21..=24 => "FATAL",
            _ => "",
        }
    }
}

/// A syslog facility, which tells what part of a system a message is from, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Facility(u8);

impl Facility {
    /// Not stated by the source.
    pub const NONE: Self = Self(0);

    /// Returns the facility with that syslog number (0 to 23); none if there is no such facility.
    pub fn of_code(code: u8) -> Self {
        if code < 24 { Self(code + 1) } else { Self::NONE }
    }

    /// Returns its number, if there is one.
    pub fn code(self) -> Option<u8> {
        self.0.checked_sub(1)
    }

    /// Returns its representation in a frame: its number plus one, or 0 for none.
    pub(crate) fn cell(self) -> u8 {
        self.0
    }

    pub(crate) fn of_cell(cell: u8) -> Self {
        cell.checked_sub(1).map_or(Self::NONE, Self::of_code)
    }
}

/// Properties of a record's body, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordFlags(pub u8);

impl RecordFlags {
    /// The body is the valid content of a JSON string, still escaped; it can be copied between
    /// quotes in JSON output unchanged.
    pub const JSON_ESCAPED: Self = Self(1);
    /// The container wrote it to stderr.
    pub const STDERR: Self = Self(1 << 1);
    /// The container wrote it to stdout.
    pub const STDOUT: Self = Self(1 << 2);
    /// The line was longer than the limit; the body is its start.
    pub const TRUNCATED: Self = Self(1 << 3);
    /// The body was joined from several lines, or parts of a line.
    pub const JOINED: Self = Self(1 << 4);
    /// The line could not be parsed in its source's format; the body is the unchanged line.
    pub const MALFORMED: Self = Self(1 << 5);
    /// The body is a JSON object (JSON lines).
    pub const JSON_OBJECT: Self = Self(1 << 6);
    /// The body is logfmt.
    pub const LOGFMT: Self = Self(1 << 7);

    /// Returns whether all of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns this without what is in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns `stdout`, `stderr` or nothing.
    pub fn iostream(self) -> Option<&'static str> {
        if self.contains(Self::STDERR) {
            Some("stderr")
        } else if self.contains(Self::STDOUT) {
            Some("stdout")
        } else {
            None
        }
    }
}

/// A single record, owned and decoded: for the dead-letter file, the terminal and tests. The
/// pipeline never creates one per record; it works on [`crate::RecordView`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LogRecord {
    /// Time of the event, nanoseconds since 1970.
    pub timestamp: i64,
    /// When weir read it, nanoseconds since 1970.
    pub observed_timestamp: i64,
    /// OpenTelemetry's severity number.
    pub severity_number: Severity,
    /// The message, unescaped. Bytes that are not UTF-8 are preserved.
    pub body: Vec<u8>,
    /// Attributes as the JSON object given by the source, empty if there are none.
    pub attributes: String,
    /// The producer of the record.
    pub resource: Resource,
    /// Its kind.
    #[serde(default)]
    pub kind: RecordKind,
    /// Its syslog facility number, if the source states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facility: Option<u8>,
    /// The sender's name for the process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub process_id: String,
    /// The sender's name for this type of message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_id: String,
}

/// Decodes JSON string escapes. `escaped` is the content of a JSON string; invalid escapes are kept
/// unchanged. Lone surrogates become U+FFFD.
pub fn unescape_json(escaped: &[u8]) -> Cow<'_, [u8]> {
    if !escaped.contains(&b'\\') {
        return Cow::Borrowed(escaped);
    }
    let mut out = Vec::with_capacity(escaped.len());
    unescape_json_into(escaped, &mut out);
    Cow::Owned(out)
}

/// Like [`unescape_json`], appending to a buffer that can be reused.
pub fn unescape_json_into(escaped: &[u8], out: &mut Vec<u8>) {
    let mut rest = escaped;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'\\' {
            let run = rest.iter().position(|b| *b == b'\\').unwrap_or(rest.len());
            out.extend_from_slice(&rest[..run]);
            rest = &rest[run..];
            continue;
        }
        rest = unescape_one(tail, out);
    }
}

/// Like [`unescape_json`], also returning where in `escaped` each byte of the result starts, and
/// finally where it ends.
pub fn unescape_json_with_places(escaped: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut out, mut places) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = escaped.get(at) {
        let rest = match byte {
            b'\\' => unescape_one(&escaped[at + 1..], &mut out),
            byte => {
                out.push(*byte);
                &escaped[at + 1..]
            }
        };
        places.resize(out.len(), at);
        at = escaped.len() - rest.len();
    }
    places.push(at);
    (out, places)
}

/// Decodes one escape whose backslash has been consumed; returns what follows it.
fn unescape_one<'a>(tail: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((&kind, after)) = tail.split_first() else {
        out.push(b'\\');
        return tail;
    };
    let plain = match kind {
        b'"' | b'\\' | b'/' => kind,
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        b'u' => return unescape_unicode(after, out),
        _ => {
            out.extend_from_slice(&[b'\\', kind]);
            return after;
        }
    };
    out.push(plain);
    after
}

fn unescape_unicode<'a>(after: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some(high) = hex4(after) else {
        out.extend_from_slice(b"\\u");
        return after;
    };
    let mut rest = &after[4..];
    let mut code = high;
    if (0xd800..0xdc00).contains(&high)
        && rest.starts_with(b"\\u")
        && let Some(low) = hex4(&rest[2..]).filter(|low| (0xdc00..0xe000).contains(low))
    {
        code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        rest = &rest[6..];
    }
    let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    rest
}

fn hex4(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(..4)?;
    digits.iter().try_fold(0, |n, b| Some(n * 16 + char::from(*b).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_of_syslog_keep_their_names() {
        let names = Severity::OF_SYSLOG.map(|(severity, _)| severity.text());
        let want = ["FATAL", "ALERT", "CRITICAL", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG"];
        assert_eq!(names, want);
        assert_eq!(
            [0, 1, 12, 20, 24, 25].map(|n| Severity(n).text()),
            ["", "TRACE", "INFO", "ERROR", "FATAL", ""]
        );
    }

    #[test]
    fn escapes_are_decoded_and_other_text_is_kept() {
        let check = |escaped: &str, plain: &str| {
            assert_eq!(String::from_utf8_lossy(&unescape_json(escaped.as_bytes())), plain);
        };
        check("plain", "plain");
        check(r#"a\"b\\c\/d\n\t\r\b\f"#, "a\"b\\c/d\n\t\r\u{8}\u{c}");
        check(r"\u003ca\u003e \u00e9 \ud83d\ude00", "<a> é 😀");
        check(r"\ud83d!", "\u{fffd}!");
        check(r"\q \u12", r"\q \u12");
        check("\\", "\\");
    }

    #[test]
    fn unescaping_agrees_with_a_json_parser() {
        proptest::proptest!(|(text in ".*")| {
            let quoted = serde_json::to_string(&text).unwrap();
            let inside = &quoted.as_bytes()[1..quoted.len() - 1];
            assert_eq!(&*unescape_json(inside), text.as_bytes());
            let (plain, places) = unescape_json_with_places(inside);
            assert_eq!((plain.as_slice(), places.len()), (text.as_bytes(), plain.len() + 1));
            for (at, _) in text.char_indices() {
                let (before, after) = inside.split_at(places[at]);
                assert_eq!(&*unescape_json(before), &text.as_bytes()[..at]);
                assert_eq!(&*unescape_json(after), &text.as_bytes()[at..]);
            }
        });
    }
}
