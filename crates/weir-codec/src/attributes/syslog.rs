//! The header of a syslog line to attributes: RFC 5424, and RFC 3164 as programs write it.
//!
//! Names follow the convention for syslog fields: `syslog.hostname`, `syslog.appname`,
//! `syslog.procid`, `syslog.msgid`, `syslog.facility`, `syslog.severity`; structured data is
//! `syslog.<id>.<name>`.
//!
//! Any line may be read, not only what arrives by syslog, so the header must be complete: a time in
//! the form of its RFC, a host, and a program.

use weir_model::Facility;

use super::{Attributes, Scalar, Stated};
use crate::syslog::header;
use crate::syslog::stamp::StampReader;
use crate::syslog::{SyslogFormat, SyslogMessage, elements};

/// How far after the first word of the text a colon may be, if that word is to be the name of a
/// program: names can contain blanks.
const NAME_BYTES_MAX: usize = 64;

pub(super) fn read(line: &[u8], near_ns: i64, attributes: &mut Attributes) -> Option<Stated> {
    let message = header::read(line, &mut StampReader::new(), near_ns);
    if !message.is_standard {
        return None;
    }
    let app_name = match message.format? {
        SyslogFormat::Rfc5424 if message.body.starts_with(b"[") && message.is_malformed => {
            return None;
        }
        SyslogFormat::Rfc5424 => message.app_name,
        SyslogFormat::Rfc3164 => app_name(&message)?,
    };
    if let Some(priority) = message.priority {
        let facility = Facility::of_code(priority / 8).name();
        let severity = header::severity(priority).syslog_name();
        attributes.add(b"syslog.facility", Scalar::Text(facility.as_bytes()));
        attributes.add(b"syslog.severity", Scalar::Text(severity.as_bytes()));
    }
    for (path, value) in [
        ("syslog.hostname", message.hostname),
        ("syslog.appname", app_name),
        ("syslog.procid", message.process_id),
        ("syslog.msgid", message.message_id),
    ] {
        if !value.is_empty() {
            attributes.add(path.as_bytes(), Scalar::Text(value));
        }
    }
    if !message.structured_data.is_empty() {
        elements::add_to(message.structured_data, attributes)?;
    }
    Some(Stated { time_ns: message.time_ns, severity: message.severity })
}

/// Returns the name of the program of a message in the form of RFC 3164, if its header is complete.
/// A name that is not followed by a colon may be the beginning of one with blanks in it.
fn app_name<'l>(message: &SyslogMessage<'l>) -> Option<&'l [u8]> {
    if message.hostname.is_empty() {
        return None;
    }
    let rest = message.line.get(message.span_of(message.hostname, 0).end + 1..)?;
    let len = rest.iter().position(|b| matches!(b, b':' | b' ')).filter(|len| *len > 0)?;
    rest.iter().take(len + NAME_BYTES_MAX).position(|b| *b == b':')?;
    if !message.app_name.is_empty() {
        return Some(message.app_name);
    }
    rest.get(..len)?.split(|b| *b == b'[').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use weir_model::Severity;

    use super::*;
    use crate::parse_rfc3339;

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
