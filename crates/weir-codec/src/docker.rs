//! One line of docker's json-file driver: `{"log":"…\n","stream":"stdout","time":"…"}`.
//!
//! Invariants: the body is a span of the line, still escaped, and valid content of a JSON string;
//! keys may be in any order, and unknown ones with any value are skipped. In the form that docker
//! writes, the end of the body leads directly to the end of the line: the form and length of what
//! follows it are known, so that no search for the line feed is needed. Anything else goes through
//! the general scanner, and both must agree.

use std::borrow::Cow;
use std::ops::Range;

use weir_model::{RecordFlags, unescape_json};

use crate::json::{Content, Scanner, content, content_from, is_ascii_text};
use crate::time::TimeParser;

/// A parsed line. Spans are relative to the line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DockerLine {
    /// Still escaped, without the final line feed.
    pub(crate) body: Range<usize>,
    /// The line ends the message: `log` ended in a line feed.
    pub(crate) is_last: bool,
    /// The object under `attrs`, empty if there is none.
    pub(crate) attributes: Range<usize>,
    /// `None` if it is missing or not RFC 3339.
    pub(crate) time_ns: Option<i64>,
    /// STDOUT, STDERR or nothing.
    pub(crate) iostream: RecordFlags,
    /// The line is ASCII; false means unknown.
    pub(crate) is_ascii: bool,
}

const HEAD: &[u8] = br#"{"log":""#;
/// Length of a time with all nine decimals; docker omits trailing zeros.
const FULL_TIME_LEN: usize = b"2026-11-21T19:12:31.335106123Z".len();
/// Maximum length of a time on the fast path: with a zone offset instead of the `Z`.
const TIME_LEN_MAX: usize = FULL_TIME_LEN + 5;

/// Parses a line; `None` if it is not in this format.
#[inline]
pub(crate) fn parse(
    line: &[u8],
    times: &mut TimeParser,
    known: &mut KnownAttributes,
) -> Option<DockerLine> {
    if let Some((parsed, end)) = parse_usual(line, times, known)
        && end == line.len()
    {
        return Some(parsed);
    }
    let parsed = parse_any(line, times)?;
    known.learn(line.get(parsed.attributes.clone())?);
    Some(parsed)
}

/// The attributes of the last line that had some, known to be a valid object. They are those of the
/// container: nearly always the next line has the same.
#[derive(Debug, Default)]
pub(crate) struct KnownAttributes(Vec<u8>);

impl KnownAttributes {
    const BYTES_MAX: usize = 4096;

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn learn(&mut self, attributes: &[u8]) {
        if !attributes.is_empty() && attributes.len() <= Self::BYTES_MAX {
            self.0.clear();
            self.0.extend_from_slice(attributes);
        }
    }

    /// Returns the rest after the attributes, if the line continues with these.
    fn strip_from<'a>(&self, tail: &'a [u8]) -> Option<&'a [u8]> {
        if self.is_empty() {
            return None;
        }
        tail.strip_prefix(br#","attrs":"#)?.strip_prefix(self.0.as_slice())
    }
}

/// Parses the exact form that docker writes, with no attributes or the known ones, at the start of
/// `rest`; also returns where the object ends. It contains no line feed.
#[inline]
pub(crate) fn parse_usual(
    rest: &[u8],
    times: &mut TimeParser,
    known: &KnownAttributes,
) -> Option<(DockerLine, usize)> {
    let text = rest.strip_prefix(HEAD)?;
    let (text, tail) = text.split_at_checked(end_of_text(text)?)?;
    let (tail, iostream) = match tail.strip_prefix(br#"","stream":"stdout""#) {
        Some(tail) => (tail, RecordFlags::STDOUT),
        None => (tail.strip_prefix(br#"","stream":"stderr""#)?, RecordFlags::STDERR),
    };
    let (tail, attributes) = match known.strip_from(tail) {
        Some(tail) => (tail, rest.len() - tail.len() - known.0.len()..rest.len() - tail.len()),
        None => (tail, 0..0),
    };
    let (time, tail) = split_time(tail)?;
    let kept = without_newline(text);
    let is_ascii = is_ascii_text(text)?;
    let line = DockerLine {
        body: HEAD.len()..HEAD.len() + kept,
        is_last: kept < text.len(),
        attributes,
        time_ns: Some(times.parse(time)?),
        iostream,
        // The known attributes are not checked again.
        is_ascii: is_ascii && known.is_empty(),
    };
    Some((line, rest.len() - tail.len()))
}

/// Returns the position of the quote after a text, which may still contain control bytes.
#[inline]
fn end_of_text(bytes: &[u8]) -> Option<usize> {
    let at = memchr::memchr2(b'\\', b'"', bytes)?;
    // Most texts have no escape other than the line feed at their end.
    if bytes.get(at..)?.starts_with(br#"\n""#) {
        return Some(at + 2);
    }
    match content_from(bytes, at) {
        Content::Quote(end) => Some(end),
        Content::End | Content::Invalid(_) => None,
    }
}

/// Splits the end of an object at its key `time` into the time and what follows the object.
#[inline]
fn split_time(tail: &[u8]) -> Option<(&[u8], &[u8])> {
    let value = tail.strip_prefix(br#","time":""#)?;
    let split = |len: usize| {
        let (time, end) = value.split_at_checked(len)?;
        Some((time, end.strip_prefix(b"\"}")?))
    };
    // Nine out of ten times have all decimals.
    split(FULL_TIME_LEN)
        .or_else(|| split(value.iter().take(TIME_LEN_MAX + 1).position(|b| *b == b'"')?))
}

/// Parses any object with the keys of this format. Of duplicate keys, the last one counts.
fn parse_any(line: &[u8], times: &mut TimeParser) -> Option<DockerLine> {
    let mut scanner = Scanner::new(line);
    let mut parsed = DockerLine::default();
    let mut log = None;
    scanner.take(b'{')?;
    if scanner.take(b'}').is_none() {
        loop {
            let key = line.get(scanner.string()?)?;
            scanner.take(b':')?;
            let value = scanner.value()?;
            match key_name(key).as_ref() {
                b"log" => log = Some(value),
                b"stream" => parsed.iostream = iostream(line.get(value)?),
                b"time" => parsed.time_ns = time(line.get(value)?, times),
                b"attrs" => parsed.attributes = object_or_none(line, value),
                _ => {}
            }
            if scanner.take(b'}').is_some() {
                break;
            }
            scanner.take(b',')?;
        }
    }
    scanner.white_space();
    if !scanner.is_at_end() {
        return None;
    }
    let Some(log) = log else {
        // Docker omits `log` when it is empty. An object without the other keys is of another
        // format.
        let is_docker = parsed.iostream.iostream().is_some() && parsed.time_ns.is_some();
        return is_docker.then_some(parsed);
    };
    let content = line.get(log.clone())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let kept = without_newline(content);
    parsed.is_last = kept < content.len();
    parsed.body = log.start + 1..log.start + 1 + kept;
    Some(parsed)
}

/// Keys are usually plain, but need not be.
#[inline]
fn key_name(key: &[u8]) -> Cow<'_, [u8]> {
    if key.contains(&b'\\') { unescape_json(key) } else { Cow::Borrowed(key) }
}

fn time(value: &[u8], times: &mut TimeParser) -> Option<i64> {
    times.parse(value.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

fn iostream(value: &[u8]) -> RecordFlags {
    match value {
        b"\"stdout\"" => RecordFlags::STDOUT,
        b"\"stderr\"" => RecordFlags::STDERR,
        _ => RecordFlags::default(),
    }
}

fn object_or_none(line: &[u8], value: Range<usize>) -> Range<usize> {
    match line.get(value.clone()) {
        Some([b'{', .., b'}']) if value.len() > 2 => value,
        _ => 0..0,
    }
}

/// Returns the length of valid string content without a final line feed (its whole length if it has
/// none).
fn without_newline(log: &[u8]) -> usize {
    for newline in [b"\\n".as_slice(), b"\\u000a", b"\\u000A"] {
        let Some(before) = log.strip_suffix(newline) else { continue };
        let backslashes = before.iter().rev().take_while(|b| **b == b'\\').count();
        if backslashes % 2 == 0 {
            return before.len();
        }
    }
    log.len()
}

/// Returns the readable beginning of a line that is too long to be examined completely: the span of
/// valid string content of `log` in `head`. `None` if the line does not begin as docker writes it.
pub(crate) fn beginning(head: &[u8]) -> Option<Range<usize>> {
    let log = head.strip_prefix(HEAD)?;
    let len = match content(log) {
        Content::End => log.len(),
        Content::Quote(at) | Content::Invalid(at) => at,
    };
    Some(HEAD.len()..HEAD.len() + len)
}

#[cfg(test)]
#[path = "docker_tests.rs"]
mod tests;
