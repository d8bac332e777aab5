//! One line of the container runtime interface: `TIMESTAMP STREAM TAGS CONTENT`.
//!
//! Invariants: the content is kept as raw bytes; tags after the first (`P` or `F`) are accepted and
//! skipped; one trailing carriage return is not part of the content.

use std::ops::Range;

use weir_model::RecordFlags;

use crate::time::TimeParser;

/// A parsed line. Spans are relative to the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CriLine {
    pub(crate) body: Range<usize>,
    /// The line ends the message: its tag is `F`.
    pub(crate) is_last: bool,
    pub(crate) time_ns: i64,
    /// STDOUT or STDERR.
    pub(crate) iostream: RecordFlags,
}

/// Maximum length of an RFC 3339 timestamp, including the blank after it.
const TIME_MAX: usize = 40;

/// Parses a line; `None` if it is not in this format.
#[inline]
pub(crate) fn parse(line: &[u8], times: &mut TimeParser) -> Option<CriLine> {
    let window = line.get(..TIME_MAX).unwrap_or(line);
    let blank = window.iter().position(|b| *b == b' ')?;
    let (time, rest) = line.split_at_checked(blank)?;
    let (rest, iostream) = match rest.strip_prefix(b" stdout ") {
        Some(rest) => (rest, RecordFlags::STDOUT),
        None => (rest.strip_prefix(b" stderr ")?, RecordFlags::STDERR),
    };
    let (tag, rest) = rest.split_first()?;
    let is_last = match tag {
        b'F' => true,
        b'P' => false,
        _ => return None,
    };
    let body = match rest {
        [] | b"\r" => &[],
        [b' ', body @ ..] => body,
        [b':', tags @ ..] => after_tags(tags)?,
        _ => return None,
    };
    let start = line.len() - body.len();
    let len = body.strip_suffix(b"\r").unwrap_or(body).len();
    Some(CriLine { body: start..start + len, is_last, time_ns: times.parse(time)?, iostream })
}

fn after_tags(tags: &[u8]) -> Option<&[u8]> {
    match tags.iter().position(|b| *b == b' ') {
        Some(blank) => tags.get(blank + 1..),
        None => Some(&[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[u8]) -> Option<(String, bool, i64, Option<&'static str>)> {
        let cri = parse(line, &mut TimeParser::default())?;
        let body = String::from_utf8_lossy(&line[cri.body]).into_owned();
        Some((body, cri.is_last, cri.time_ns, cri.iostream.iostream()))
    }

    #[test]
    fn lines_of_the_format_are_read() {
        let cases: [(&[u8], &str, bool, &str); 9] = [
            (b"1970-01-01T00:00:01Z stdout F hello world", "hello world", true, "stdout"),
            (b"1970-01-01T00:00:01Z stderr P part1-", "part1-", false, "stderr"),
            (b"1970-01-01T00:00:01Z stdout F:extra tagged", "tagged", true, "stdout"),
            (b"1970-01-01T00:00:01Z stdout P:a:b  x", " x", false, "stdout"),
            (b"1970-01-01T00:00:01Z stdout F ", "", true, "stdout"),
            (b"1970-01-01T00:00:01Z stdout F", "", true, "stdout"),
            (b"1970-01-01T00:00:01Z stdout F:x", "", true, "stdout"),
            (b"1970-01-01T01:00:01+01:00 stdout F a\r", "a", true, "stdout"),
            (b"1970-01-01T00:00:01.000000000Z stdout F a\r\r", "a\r", true, "stdout"),
        ];
        for (line, body, is_last, stream) in cases {
            let want = Some((body.to_owned(), is_last, 1_000_000_000, Some(stream)));
            assert_eq!(parsed(line), want, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            " ",
            "hello",
            "1970-01-01T00:00:01Z",
            "1970-01-01T00:00:01Z stdout",
            "1970-01-01T00:00:01Z stdout X a",
            "1970-01-01T00:00:01Z stdin F a",
            "x stdout F a",
            "1970-01-01T00:00:01Z stdout Fa",
            "1970-01-01T00:00:01Z  stdout F a",
        ] {
            assert_eq!(parsed(line.as_bytes()), None, "{line}");
        }
    }
}
