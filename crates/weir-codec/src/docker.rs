//! One line of docker's json-file driver: `{"log":"…\n","stream":"stdout","time":"…"}`.
//!
//! Invariants: the body is a span of the line, still escaped, and valid content of a JSON string;
//! keys may come in any order and unknown ones with any value are read over. The form that docker
//! writes is taken apart from its end, where shapes and lengths are known, so that the body is
//! read only once; whatever does not fit goes through the general scanner, and both must agree.

use std::borrow::Cow;
use std::ops::Range;

use weir_model::{RecordFlags, unescape_json};

use crate::json::{Content, Scanner, content, whole_content};
use crate::time::TimeParser;

/// What a line says. Spans are relative to the line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DockerLine {
    /// Still escaped, without the final line feed.
    pub(crate) body: Range<usize>,
    /// The line ends the message: `log` ended in a line feed.
    pub(crate) is_last: bool,
    /// The object under `attrs`, empty when there is none.
    pub(crate) attributes: Range<usize>,
    /// `None` when it is missing or no RFC 3339.
    pub(crate) time_ns: Option<i64>,
    /// STDOUT, STDERR or nothing.
    pub(crate) iostream: RecordFlags,
    /// The line is ASCII; false says nothing.
    pub(crate) is_ascii: bool,
}

const HEAD: &[u8] = br#"{"log":""#;
/// Length of a time with all nine decimals; docker leaves zeros at the end out.
const FULL_TIME_LEN: usize = b"2026-11-21T19:12:31.335106123Z".len();
/// Longest time that the fast path looks for: a zone offset instead of the `Z`.
const TIME_LEN_MAX: usize = FULL_TIME_LEN + 5;

/// Reads a line; `None` if it is no line of this format.
#[inline]
pub(crate) fn parse(
    line: &[u8],
    times: &mut TimeParser,
    known: &mut KnownAttributes,
) -> Option<DockerLine> {
    if let Some(parsed) = parse_usual(line, times, known) {
        return Some(parsed);
    }
    let parsed = parse_any(line, times)?;
    known.learn(line.get(parsed.attributes.clone())?);
    Some(parsed)
}

/// The attributes of the last line that had some, known to be a valid object. They are those of
/// the container: nearly always the next line has the same.
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

    /// What comes before the attributes, when the line goes on with these.
    fn strip_from<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        if self.is_empty() {
            return None;
        }
        line.strip_suffix(self.0.as_slice())?.strip_suffix(br#","attrs":"#)
    }
}

/// Reads the exact form that docker writes, with no attributes or the known ones.
#[inline]
pub(crate) fn parse_usual(
    line: &[u8],
    times: &mut TimeParser,
    known: &KnownAttributes,
) -> Option<DockerLine> {
    let inner = line.strip_prefix(HEAD)?.strip_suffix(b"\"}")?;
    let (before, time) = split_time(inner)?;
    let attributes_end = HEAD.len() + before.len();
    let (before, attributes) = match known.strip_from(before) {
        Some(before) => (before, attributes_end - known.0.len()..attributes_end),
        None => (before, 0..0),
    };
    let (before, iostream) = match before.strip_suffix(br#"","stream":"stdout""#) {
        Some(before) => (before, RecordFlags::STDOUT),
        None => (before.strip_suffix(br#"","stream":"stderr""#)?, RecordFlags::STDERR),
    };
    // When the backslash of a final `\n` is itself escaped, the rest ends in half an escape and
    // does not read: the general scanner then decides.
    let (body, is_last) = match before.strip_suffix(b"\\n") {
        Some(body) => (body, true),
        None => (before, false),
    };
    let is_ascii = whole_content(body)?;
    Some(DockerLine {
        body: HEAD.len()..HEAD.len() + body.len(),
        is_last,
        attributes,
        time_ns: Some(times.parse(time)?),
        iostream,
        // The known attributes are not looked at again.
        is_ascii: is_ascii && known.is_empty(),
    })
}

/// Splits a line without its end into what comes before the key `time`, and the time.
#[inline]
fn split_time(inner: &[u8]) -> Option<(&[u8], &[u8])> {
    const KEY: &[u8] = br#","time":""#;
    let split = |len: usize| {
        let (before, time) = inner.split_at_checked(inner.len().checked_sub(len)?)?;
        Some((before.strip_suffix(KEY)?, time))
    };
    // Nine out of ten times have all decimals.
    if let Some(parts) = split(FULL_TIME_LEN) {
        return Some(parts);
    }
    let window = inner.last_chunk::<{ TIME_LEN_MAX + 1 }>()?;
    split(window.iter().rev().position(|b| *b == b'"')?)
}

/// Reads any object with the keys of this format. Of keys that stand there twice the last counts.
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
        // Docker leaves `log` out when it is empty. An object that has not the other keys
        // either is of another format.
        let is_docker = parsed.iostream.iostream().is_some() && parsed.time_ns.is_some();
        return is_docker.then_some(parsed);
    };
    let content = line.get(log.clone())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let kept = without_newline(content);
    parsed.is_last = kept < content.len();
    parsed.body = log.start + 1..log.start + 1 + kept;
    Some(parsed)
}

/// Keys are plain, but need not be.
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

/// Length of valid string content without the line feed that it ends in (its whole length when
/// it ends in none).
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

/// The readable beginning of a line that is too long to be looked at whole: the span of valid
/// string content of `log` in `head`. `None` if the line does not begin as docker writes it.
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
