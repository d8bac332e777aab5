//! Lines in a format given by a template: access logs of nginx and Apache, and any other fixed
//! order of variables with text between them.
//!
//! A template uses the notation of nginx's `log_format`: `$name` is a variable, everything else is
//! literal text. Known variables become attributes named by the naming convention, with their types
//! (times in nanoseconds); others keep their own name. A value of `-` means none.

use weir_model::Severity;

use super::{Attributes, Scalar, Stated, month_number};
use crate::parse_rfc3339;
use crate::structured::digits;
use crate::time::Moment;

/// The named formats.
const PRESETS: [(&str, &str); 3] = [
    (
        "common",
        r#"$remote_host $remote_logname $remote_user [$time_local] "$request" $status $bytes_sent"#,
    ),
    (
        "combined",
        r#"$remote_host $remote_logname $remote_user [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent""#,
    ),
    (
        "nginx",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
    ),
];

/// How the text of a variable is converted to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    /// A number if it is written as one, otherwise text.
    Word,
    Text,
    /// Seconds with a fraction, to nanoseconds. Several values (one per upstream) are summed.
    Nanoseconds,
    /// The same, in seconds, as in logs of the same program in JSON.
    Seconds,
    /// `GET /path HTTP/1.1`.
    Request,
    /// `10/Oct/2000:13:55:36 -0700`: the record's time.
    TimeLocal,
    /// RFC 3339: the record's time.
    TimeIso,
    /// Seconds since 1970 with a fraction: the record's time.
    Epoch,
}

/// Variables of nginx and Apache with their attributes.
const VARIABLES: [(&str, &str, Conversion); 26] = [
    ("remote_addr", "network.client.ip", Conversion::Text),
    ("remote_host", "network.client.ip", Conversion::Text),
    ("remote_port", "network.client.port", Conversion::Word),
    ("remote_logname", "usr.logname", Conversion::Text),
    ("remote_user", "usr.id", Conversion::Text),
    ("time_local", "", Conversion::TimeLocal),
    ("time_iso8601", "", Conversion::TimeIso),
    ("msec", "", Conversion::Epoch),
    ("request", "", Conversion::Request),
    ("request_method", "http.method", Conversion::Text),
    ("request_uri", "http.url", Conversion::Text),
    ("uri", "http.url_details.path", Conversion::Text),
    ("args", "http.url_details.queryString", Conversion::Text),
    ("server_protocol", "http.protocol", Conversion::Text),
    ("host", "http.url_details.host", Conversion::Text),
    ("status", "http.status_code", Conversion::Word),
    ("body_bytes_sent", "network.bytes_written", Conversion::Word),
    ("bytes_sent", "network.bytes_written", Conversion::Word),
    ("request_length", "network.bytes_read", Conversion::Word),
    ("http_referer", "http.referer", Conversion::Text),
    ("http_user_agent", "http.useragent", Conversion::Text),
    ("request_id", "http.request_id", Conversion::Text),
    ("request_time", "duration", Conversion::Nanoseconds),
    ("upstream_connect_time", "upstream_connect_time", Conversion::Seconds),
    ("upstream_header_time", "upstream_header_time", Conversion::Seconds),
    ("upstream_response_time", "upstream_response_time", Conversion::Seconds),
];

/// Why a template is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFormatError {
    /// It contains no variable.
    #[error("the format has no variable; write one as $name")]
    NoVariable,
    /// `$` without a name after it.
    #[error("the $ at byte {0} is not followed by a name")]
    NoName(usize),
    /// The end of the first variable cannot be determined.
    #[error("${0} and ${1} have no separator between them")]
    NoSeparator(String, String),
    /// No format has this name.
    #[error("unknown format {0:?}; the access-log formats are common, combined and nginx")]
    UnknownPreset(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    path: String,
    kind: Conversion,
    /// The text after the value; empty only at the end of the line.
    until: Vec<u8>,
}

/// A compiled template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFormat {
    /// The text that the line begins with.
    prefix: Vec<u8>,
    variables: Vec<Variable>,
}

impl LineFormat {
    /// Compiles a template in the notation of nginx's `log_format`.
    pub fn parse(template: &str) -> Result<Self, LineFormatError> {
        let mut pieces = template.split('$');
        let prefix = pieces.next().unwrap_or_default();
        let mut format = Self { prefix: prefix.into(), variables: Vec::new() };
        let mut at = prefix.len();
        let mut last = String::new();
        for piece in pieces {
            let (piece, braced) = match piece.strip_prefix('{') {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = piece.find(|c| !is_name(c)).unwrap_or(piece.len());
            let (name, mut until) = piece.split_at(end);
            if name.is_empty() {
                return Err(LineFormatError::NoName(at));
            }
            if braced {
                until = until.strip_prefix('}').ok_or(LineFormatError::NoName(at))?;
            }
            if format.variables.last().is_some_and(|before| before.until.is_empty()) {
                return Err(LineFormatError::NoSeparator(last, name.to_owned()));
            }
            at += 1 + piece.len() + usize::from(braced);
            name.clone_into(&mut last);
            format.variables.push(variable(name, until));
        }
        if format.variables.is_empty() {
            return Err(LineFormatError::NoVariable);
        }
        Ok(format)
    }

    /// Returns the format of that name: `common`, `combined` or `nginx`.
    pub fn preset(name: &str) -> Result<Self, LineFormatError> {
        let found = PRESETS.iter().find(|(preset, _)| *preset == name);
        let (_, template) = found.ok_or_else(|| LineFormatError::UnknownPreset(name.to_owned()))?;
        Self::parse(template)
    }

    pub(super) fn read(&self, line: &[u8], attributes: &mut Attributes) -> Option<Stated> {
        let mut rest = line.strip_prefix(self.prefix.as_slice())?;
        let mut stated = Stated { time_ns: None, severity: Severity::UNSPECIFIED };
        for variable in &self.variables {
            let len = variable.value_len(rest)?;
            let (value, after) = rest.split_at_checked(len)?;
            variable.add(value, attributes, &mut stated)?;
            rest = after.get(variable.until.len()..)?;
        }
        // A longer format of the same family: the rest is ignored.
        (rest.is_empty() || rest.first() == Some(&b' ')).then_some(stated)
    }
}

fn variable(name: &str, until: &str) -> Variable {
    let known = VARIABLES.iter().find(|(variable, ..)| *variable == name);
    let (path, kind) = known.map_or((name, Conversion::Word), |(_, path, kind)| (*path, *kind));
    Variable { path: path.to_owned(), kind, until: until.into() }
}

impl Variable {
    /// Returns the length of the value at the start of `rest`.
    fn value_len(&self, rest: &[u8]) -> Option<usize> {
        match self.until.as_slice() {
            [] => Some(rest.len()),
            [b'"', ..] => self.quoted_len(rest),
            // A list (one time per upstream) contains spaces.
            until if matches!(self.kind, Conversion::Seconds | Conversion::Nanoseconds) => {
                let mut from = 0;
                loop {
                    let at = from + find(rest.get(from..)?, until)?;
                    let (value, after) = rest.split_at_checked(at)?;
                    if !value.ends_with(b",") && !value.ends_with(b":") && !after.starts_with(b" :")
                    {
                        return Some(at);
                    }
                    from = at + 1;
                }
            }
            until => find(rest, until),
        }
    }

    /// A quote within the value is escaped by a backslash.
    fn quoted_len(&self, rest: &[u8]) -> Option<usize> {
        let mut from = 0;
        loop {
            let at = from + find(rest.get(from..)?, &self.until)?;
            let before = rest.get(..at)?;
            let backslashes = before.iter().rev().take_while(|b| **b == b'\\').count();
            if backslashes % 2 == 0 {
                return Some(at);
            }
            from = at + 1;
        }
    }

    /// Returns `None` if the value is not valid for this variable.
    fn add(&self, value: &[u8], attributes: &mut Attributes, stated: &mut Stated) -> Option<()> {
        if value == b"-" || value.is_empty() {
            return Some(());
        }
        let path = self.path.as_bytes();
        match self.kind {
            Conversion::Word => attributes.add(path, Scalar::of_word(value)),
            Conversion::Text => attributes.add(path, Scalar::Text(value)),
            Conversion::Nanoseconds => {
                if let Some(time_ns) = seconds_sum(value) {
                    attributes.add(path, Scalar::Int(time_ns));
                }
            }
            Conversion::Seconds => {
                if let Some(time_ns) = seconds_sum(value) {
                    attributes.add(path, Scalar::Float(time_ns as f64 / 1e9));
                }
            }
            Conversion::Request => request(value, attributes),
            Conversion::TimeLocal => stated.time_ns = Some(time_local(value)?),
            Conversion::TimeIso => stated.time_ns = Some(parse_rfc3339(value)?),
            Conversion::Epoch => stated.time_ns = Some(seconds(value)?),
        }
        Some(())
    }
}

/// Returns the first occurrence of `wanted`, which is not empty. Within a line it is near, and a
/// search with a setup cost would take longer.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    memchr::memchr_iter(first, text)
        .find(|at| text.get(*at..).is_some_and(|t| t.starts_with(wanted)))
}

/// Parses `GET /a?b HTTP/1.1`; whatever else a client sent is kept as the URL.
fn request(value: &[u8], attributes: &mut Attributes) {
    let mut words = value.splitn(3, |b| *b == b' ');
    let (Some(method), Some(url), version) = (words.next(), words.next(), words.next()) else {
        return attributes.add(b"http.url", Scalar::Text(value));
    };
    attributes.add(b"http.method", Scalar::Text(method));
    attributes.add(b"http.url", Scalar::Text(url));
    if let Some(version) = version.and_then(|v| v.strip_prefix(b"HTTP/")) {
        attributes.add(b"http.version", Scalar::Text(version));
    }
}

/// Sums times of several upstreams: `0.010, 0.020 : 0.030`; upstreams that did not answer are `-`.
fn seconds_sum(value: &[u8]) -> Option<i64> {
    let times = value.split(|b| matches!(b, b',' | b':')).map(<[u8]>::trim_ascii);
    times.filter_map(seconds).reduce(i64::saturating_add)
}

/// Parses seconds with at most nine decimals, into nanoseconds.
fn seconds(value: &[u8]) -> Option<i64> {
    let (whole, fraction) = match value.iter().position(|b| *b == b'.') {
        Some(point) => (value.get(..point)?, value.get(point + 1..)?),
        None => (value, b"".as_slice()),
    };
    let whole = digits(whole)?;
    if fraction.is_empty() {
        return whole.checked_mul(1_000_000_000);
    }
    let scale = 10_i64.checked_pow(9_u32.checked_sub(fraction.len() as u32)?)?;
    whole.checked_mul(1_000_000_000)?.checked_add(digits(fraction)?.checked_mul(scale)?)
}

/// `10/Oct/2000:13:55:36 -0700`.
fn time_local(value: &[u8]) -> Option<i64> {
    let [d1, d2, b'/', m1, m2, m3, b'/', rest @ ..] = value else { return None };
    let ([y1, y2, y3, y4, b':', time @ ..], two) = (rest, |tens, ones| digits(&[tens, ones]))
    else {
        return None;
    };
    let [h1, h2, b':', mi1, mi2, b':', s1, s2, b' ', zone @ ..] = time else { return None };
    let [sign @ (b'+' | b'-'), z1, z2, z3, z4] = zone else { return None };
    let moment = Moment {
        year: digits(&[*y1, *y2, *y3, *y4])?,
        month: month_number(&[*m1, *m2, *m3])? as i64,
        day: two(*d1, *d2)?,
        hour: two(*h1, *h2)?,
        minute: two(*mi1, *mi2)?,
        second: two(*s1, *s2)?,
        nanos: 0,
    };
    let (hours, minutes) = (two(*z1, *z2)?, two(*z3, *z4)?);
    let east_ns = (hours * 3600 + minutes * 60) * 1_000_000_000;
    let is_zone = hours < 24 && minutes < 60;
    let west_ns = if *sign == b'+' { -east_ns } else { east_ns };
    is_zone.then_some(moment.time_ns()?.saturating_add(west_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &LineFormat, line: &str) -> Option<(String, Option<i64>)> {
        let mut attributes = Attributes::new();
        let stated = attributes.read_line(line.as_bytes(), format)?;
        let mut out = Vec::new();
        attributes.write_json(&mut out);
        Some((String::from_utf8(out).unwrap(), stated.time_ns))
    }

    #[test]
    fn a_combined_line_becomes_attributes_of_the_convention() {
        let line = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a\"b.gif HTTP/1.0" 200 2326 "-" "Mozilla/4.08 [en]""#;
        let (json, time) = read(&LineFormat::preset("combined").unwrap(), line).unwrap();
        assert_eq!(
            json,
            r#"{"network.client.ip":"127.0.0.1","usr.id":"frank","http.method":"GET","http.url":"/a\\\"b.gif","http.version":"1.0","http.status_code":200,"network.bytes_written":2326,"http.useragent":"Mozilla/4.08 [en]"}"#
        );
        assert_eq!(time, Some(971_211_336_000_000_000));
        // The shorter format also reads the longer line.
        assert!(read(&LineFormat::preset("common").unwrap(), line).is_some());
        assert!(read(&LineFormat::preset("nginx").unwrap(), line).is_some());
    }

    #[test]
    fn times_of_nginx_become_nanoseconds() {
        let format =
            LineFormat::parse("$status $request_time $upstream_response_time $pod").unwrap();
        let (json, _) = read(&format, "200 0.123 0.010, 0.020 : - web-1").unwrap();
        assert_eq!(
            json,
            r#"{"http.status_code":200,"duration":123000000,"upstream_response_time":0.03,"pod":"web-1"}"#
        );
        let (json, _) = read(&format, "502 1.5 - x").unwrap();
        assert_eq!(json, r#"{"http.status_code":502,"duration":1500000000,"pod":"x"}"#);
    }

    #[test]
    fn lines_of_another_format_are_refused() {
        let format = LineFormat::preset("common").unwrap();
        for line in ["", "hello", r#"1.2.3.4 - - [yesterday] "GET / HTTP/1.0" 200 1"#, "1 2 3 [4"] {
            assert_eq!(read(&format, line), None, "{line}");
        }
    }

    #[test]
    fn templates_that_cannot_work_are_refused_with_the_reason() {
        let error = |template| LineFormat::parse(template).unwrap_err().to_string();
        assert_eq!(error("plain"), "the format has no variable; write one as $name");
        assert_eq!(error("a $ b"), "the $ at byte 2 is not followed by a name");
        assert_eq!(error("$a$b"), "$a and $b have no separator between them");
        assert!(LineFormat::preset("apache").is_err());
        assert!(LineFormat::parse("${a}x$b").is_ok());
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in ".{0,200}") {
            let _ = read(&LineFormat::preset("combined").unwrap(), &line);
            let format = LineFormat::parse("$request_time, \"$a\" $b").unwrap();
            let _ = read(&format, &line);
        }
    }
}
