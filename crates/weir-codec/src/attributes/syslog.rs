//! The header of a syslog line to attributes: RFC 5424, and RFC 3164 as programs write it.
//!
//! Names follow the convention for syslog fields: `syslog.hostname`, `syslog.appname`,
//! `syslog.procid`, `syslog.msgid`, `syslog.facility`, `syslog.severity`; structured data is
//! `syslog.<id>.<name>`.

use std::borrow::Cow;

use weir_model::Severity;

use super::{Attributes, Scalar, Stated, month_number};
use crate::parse_rfc3339;
use crate::structured::quoted_len;
use crate::text::time_of_text;

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

const SEVERITIES: [(&str, Severity); 8] = [
    ("emergency", Severity::FATAL),
    ("alert", Severity::ALERT),
    ("critical", Severity::CRITICAL),
    ("error", Severity::ERROR),
    ("warning", Severity::WARN),
    ("notice", Severity::NOTICE),
    ("info", Severity::INFO),
    ("debug", Severity::DEBUG),
];

pub(super) fn read(line: &[u8], near_ns: i64, attributes: &mut Attributes) -> Option<Stated> {
    let mut stated = Stated::default();
    let rest = match priority(line) {
        Some((priority, rest)) => {
            let facility = FACILITIES.get(usize::from(priority / 8))?;
            let (severity, number) = SEVERITIES.get(usize::from(priority % 8))?;
            attributes.add(b"syslog.facility", Scalar::Text(facility.as_bytes()));
            attributes.add(b"syslog.severity", Scalar::Text(severity.as_bytes()));
            stated.severity = *number;
            rest
        }
        None => line,
    };
    match rest.strip_prefix(b"1 ") {
        Some(rest) if rest.len() < line.len() => rfc5424(rest, attributes, &mut stated)?,
        _ => rfc3164(rest, near_ns, attributes, &mut stated)?,
    }
    Some(stated)
}

/// Returns the severity of a line that begins with a syslog priority, and the rest of the line.
pub(crate) fn severity_of_priority(line: &[u8]) -> Option<(Severity, &[u8])> {
    let (priority, rest) = priority(line)?;
    Some((SEVERITIES.get(usize::from(priority % 8))?.1, rest))
}

/// `<165>`, at most `<191>`.
fn priority(line: &[u8]) -> Option<(u8, &[u8])> {
    let rest = line.strip_prefix(b"<")?;
    let len = rest.iter().take(4).position(|b| *b == b'>')?;
    let (number, rest) = rest.split_at_checked(len)?;
    let number: u8 = std::str::from_utf8(number).ok()?.parse().ok()?;
    (number <= 191).then_some((number, rest.get(1..)?))
}

/// Returns the next word, and what follows the space after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = text.iter().position(|b| *b == b' ').unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(len)?;
    (!word.is_empty()).then_some((word, rest.get(1..).unwrap_or_default()))
}

fn rfc5424(text: &[u8], attributes: &mut Attributes, stated: &mut Stated) -> Option<()> {
    let (time, mut rest) = word(text)?;
    stated.time_ns = parse_rfc3339(time);
    if stated.time_ns.is_none() && time != b"-" {
        return None;
    }
    for path in ["syslog.hostname", "syslog.appname", "syslog.procid", "syslog.msgid"] {
        let (value, after) = word(rest)?;
        if value != b"-" {
            attributes.add(path.as_bytes(), Scalar::Text(value));
        }
        rest = after;
    }
    if rest.first() == Some(&b'[') {
        structured_data(rest, attributes)?;
    }
    Some(())
}

/// Parses `[id name="value" ...][...]`. In values, `"`, `\` and `]` are escaped by a backslash.
fn structured_data(text: &[u8], attributes: &mut Attributes) -> Option<()> {
    let mut rest = text;
    let mut path = Vec::new();
    while let Some(element) = rest.strip_prefix(b"[") {
        let end = element.iter().position(|b| matches!(b, b' ' | b']'))?;
        let (id, mut after) = element.split_at_checked(end)?;
        while let Some(pair) = after.strip_prefix(b" ") {
            let equals = pair.iter().position(|b| *b == b'=')?;
            let (name, value) = pair.split_at_checked(equals)?;
            let value = value.strip_prefix(b"=\"")?;
            let len = quoted_len(value)?;
            path.clear();
            for part in [b"syslog.".as_slice(), id, b".", name] {
                path.extend_from_slice(part);
            }
            let value_text = unescape_value(value.get(..len)?);
            attributes.add(&path, Scalar::Text(&value_text));
            after = value.get(len + 1..)?;
        }
        rest = after.strip_prefix(b"]")?;
    }
    Some(())
}

fn unescape_value(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return text.into();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        match after.split_first() {
            Some((next @ (b'"' | b'\\' | b']'), after)) if *byte == b'\\' => {
                out.push(*next);
                rest = after;
            }
            _ => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out.into()
}

/// Parses `Oct 11 22:14:15 host app[123]: text`, or with an RFC 3339 time in front. The old form
/// has neither year nor zone: it is UTC, in the year that brings it nearest to `near_ns`.
fn rfc3164(
    text: &[u8],
    near_ns: i64,
    attributes: &mut Attributes,
    stated: &mut Stated,
) -> Option<()> {
    let rest = match text.get(..16) {
        Some([month @ .., b' ', _, _, b' ', _, _, b':', _, _, b':', _, _, b' '])
            if month_number(month).is_some() =>
        {
            stated.time_ns = time_of_text(text, near_ns);
            text.get(16..)?
        }
        _ => {
            let (time, rest) = word(text)?;
            stated.time_ns = Some(parse_rfc3339(time)?);
            rest
        }
    };
    let (host, rest) = word(rest)?;
    let tag_len = rest.iter().position(|b| matches!(b, b':' | b' ')).filter(|len| *len > 0)?;
    let tag = rest.get(..tag_len)?;
    // A program name in brackets and with a space is still followed by a colon.
    rest.iter().take(tag_len + 64).position(|b| *b == b':')?;
    attributes.add(b"syslog.hostname", Scalar::Text(host));
    let (app, process) = match tag.iter().position(|b| *b == b'[') {
        Some(at) if tag.ends_with(b"]") => (tag.get(..at)?, tag.get(at + 1..tag.len() - 1)?),
        _ => (tag, b"".as_slice()),
    };
    attributes.add(b"syslog.appname", Scalar::Text(app));
    if !process.is_empty() {
        attributes.add(b"syslog.procid", Scalar::Text(process));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01.
    const NEAR_NS: i64 = 1_767_225_600_000_000_000;

    fn read_all(line: &str) -> Option<(String, Stated)> {
        let mut attributes = Attributes::new();
        let stated = attributes.read_syslog(line.as_bytes(), NEAR_NS)?;
        let mut out = Vec::new();
        attributes.write_json(&mut out);
        Some((String::from_utf8(out).unwrap(), stated))
    }

    #[test]
    fn rfc_5424_is_read_with_its_structured_data() {
        let line = r#"<165>1 2003-10-11T22:14:15.003Z host app 8710 ID47 [ex@1 iut="3" t="a\"\]b"][two] text"#;
        let (json, stated) = read_all(line).unwrap();
        assert_eq!(
            json,
            r#"{"syslog.facility":"local4","syslog.severity":"notice","syslog.hostname":"host","syslog.appname":"app","syslog.procid":"8710","syslog.msgid":"ID47","syslog.ex@1.iut":"3","syslog.ex@1.t":"a\"]b"}"#
        );
        assert_eq!(stated.severity, Severity(10));
        assert_eq!(stated.time_ns, Some(1_065_910_455_003_000_000));
        let (json, stated) = read_all("<0>1 - - - - - -").unwrap();
        assert_eq!(json, r#"{"syslog.facility":"kern","syslog.severity":"emergency"}"#);
        assert_eq!(stated.time_ns, None);
    }

    #[test]
    fn rfc_3164_is_read_with_and_without_priority() {
        let (json, stated) = read_all("<34>Oct 11 22:14:15 mymachine su: failed").unwrap();
        assert_eq!(
            json,
            r#"{"syslog.facility":"auth","syslog.severity":"critical","syslog.hostname":"mymachine","syslog.appname":"su"}"#
        );
        let time_ns = parse_rfc3339(b"2025-10-11T22:14:15Z");
        assert_eq!(stated, Stated { time_ns, severity: Severity(18) });
        let (json, stated) =
            read_all("Jan  4 15:16:01 combo sshd(pam_unix)[19939]: failure").unwrap();
        assert_eq!(stated.time_ns, parse_rfc3339(b"2026-01-04T15:16:01Z"));
        assert_eq!(
            json,
            r#"{"syslog.hostname":"combo","syslog.appname":"sshd(pam_unix)","syslog.procid":"19939"}"#
        );
    }

    #[test]
    fn other_lines_have_no_header() {
        for line in ["", "<", "<999>x", "<34>", "hello world: x", "<13>1 yesterday a b c d - x"] {
            assert_eq!(read_all(line), None, "{line}");
        }
    }
}
