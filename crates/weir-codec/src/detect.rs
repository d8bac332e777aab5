//! The formats of lines, and detection of the format of a file from its first lines.
//!
//! Invariant: once the first line is complete, the result never depends on what follows.

use crate::time::TimeParser;
use crate::{cri, docker, json, structured};

/// Number of bytes by which an incomplete first line is judged.
pub const DETECT_BYTES_MAX: usize = 16 * 1024;

/// The format of the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Format {
    /// The line is the body.
    Raw = 0,
    /// docker's json-file driver.
    DockerJson = 1,
    /// Container runtime interface of Kubernetes.
    Cri = 2,
    /// One JSON object per line.
    Json = 3,
    /// `key=value key="quoted value"`.
    Logfmt = 4,
}

impl Format {
    pub(crate) const ALL: [Self; 5] =
        [Self::Raw, Self::DockerJson, Self::Cri, Self::Json, Self::Logfmt];

    /// Returns the name in configuration and status.
    pub fn text(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::DockerJson => "docker_json",
            Self::Cri => "cri",
            Self::Json => "json",
            Self::Logfmt => "logfmt",
        }
    }

    /// Returns the format of that name.
    pub fn from_text(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.text() == name)
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|format| *format as u8 == code)
    }
}

/// Detects the format from the first bytes of a file (`head` begins at offset 0). `None`: no line
/// with content is complete yet, so ask again when there are more bytes.
///
/// A file that begins with a UTF-16 byte order mark is `Raw`; the decoder counts its lines as
/// malformed.
pub fn detect(head: &[u8]) -> Option<Format> {
    if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return Some(Format::Raw);
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let is_blank = |b: &u8| matches!(b, 0 | b'\n' | b'\r');
    let start = text.iter().position(|b| !is_blank(b))?;
    let text = text.get(start..)?;
    match memchr::memchr(b'\n', text) {
        Some(len) => Some(of_line(text.get(..len)?)),
        None if text.len() >= DETECT_BYTES_MAX => Some(of_beginning(text)),
        None => None,
    }
}

fn of_line(line: &[u8]) -> Format {
    let mut times = TimeParser::default();
    let docker = docker::parse(line, &mut times, &mut docker::KnownAttributes::default());
    if docker.is_some_and(|line| line.time_ns.is_some()) {
        Format::DockerJson
    } else if cri::parse(line, &mut times).is_some() {
        Format::Cri
    } else if json::is_json_object(line) {
        Format::Json
    } else if structured::is_surely_logfmt(line) {
        Format::Logfmt
    } else {
        Format::Raw
    }
}

/// The first line is long and not complete yet.
fn of_beginning(text: &[u8]) -> Format {
    if docker::beginning(text).is_some() {
        Format::DockerJson
    } else if cri::parse(text, &mut TimeParser::default()).is_some() {
        Format::Cri
    } else if text.starts_with(b"{\"") {
        Format::Json
    } else if structured::is_surely_logfmt(text) {
        Format::Logfmt
    } else {
        Format::Raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &str = r#"{"log":"hi\n","stream":"stdout","time":"2026-11-21T19:12:31.3Z"}"#;
    const CRI: &str = "2026-11-21T19:12:31.3+01:00 stdout F hi";
    const LOGFMT: &str = r#"time=2026-11-21T19:12:31Z level=info msg="a b""#;

    #[test]
    fn a_complete_first_line_determines_the_format() {
        let cases = [
            (DOCKER, Format::DockerJson),
            (r#"{"time":"2026-11-21T19:12:31Z","log":"x","attrs":{"a":"b"}}"#, Format::DockerJson),
            (r#"{"log":"x","level":"info"}"#, Format::Json),
            (CRI, Format::Cri),
            (r#"{"msg":"x"}"#, Format::Json),
            (r#"{"msg":"x""#, Format::Raw),
            (LOGFMT, Format::Logfmt),
            ("hello a=b", Format::Raw),
            ("hello", Format::Raw),
            ("2026-11-21T19:12:31.3Z INFO hello", Format::Raw),
        ];
        for (line, want) in cases {
            assert_eq!(detect(format!("{line}\n").as_bytes()), Some(want), "{line}");
            assert_eq!(detect(format!("\u{feff}{line}\r\nmore").as_bytes()), Some(want), "{line}");
            assert_eq!(detect(format!("\0\0\n\n{line}\nmore").as_bytes()), Some(want), "{line}");
            assert_eq!(detect(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn no_format_is_detected_before_the_first_line() {
        for head in [&b""[..], b"\n", b"\r\n", b"\0\0\0", b"\xef\xbb", b"\xef\xbb\xbf", b"abc"] {
            assert_eq!(detect(head), None, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn a_long_first_line_is_judged_by_its_beginning() {
        let long = "x".repeat(DETECT_BYTES_MAX);
        let cases = [
            (r#"{"log":""#, Format::DockerJson),
            ("2026-11-21T19:12:31Z stderr P ", Format::Cri),
            (r#"{"msg":""#, Format::Json),
            ("a=1 b=2 c=", Format::Logfmt),
            ("", Format::Raw),
        ];
        for (start, want) in cases {
            assert_eq!(detect(format!("{start}{long}").as_bytes()), Some(want), "{start}");
        }
    }

    #[test]
    fn utf16_is_raw() {
        assert_eq!(detect(b"\xff\xfea\0\n\0"), Some(Format::Raw));
        assert_eq!(detect(b"\xfe\xff\0a"), Some(Format::Raw));
    }
}
