//! The header of a syslog message: its priority, and the two formats of what follows.
//!
//! Invariants: every part is a part of the message's own bytes; whatever is not a header is text.

use weir_model::{Facility, Severity};

use super::elements;
use super::stamp::{Stamp, StampReader, without_blanks};
use super::{SyslogFormat, SyslogMessage};

/// Maximum lengths of the fields of RFC 5424.
pub(crate) const HOSTNAME_MAX: usize = 255;
pub(crate) const APP_NAME_MAX: usize = 48;
pub(crate) const PROCESS_ID_MAX: usize = 128;
pub(crate) const MESSAGE_ID_MAX: usize = 32;

/// Maximum length of a tag; RFC 3164 allows 32 characters, but names of services are longer.
const TAG_MAX: usize = 64;

/// Maximum number of blanks in the name of a program, which then must have a process id.
const TAG_BLANKS_MAX: usize = 2;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses `<165>`; returns the number, at most 191, and what follows.
#[inline]
pub(crate) fn priority(line: &[u8]) -> Option<(u8, &[u8])> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u16::from(*byte & 0x0f));
    let (number, rest) = match line {
        [b'<', a @ b'0'..=b'9', b'>', rest @ ..] => (digit(a)?, rest),
        [b'<', a @ b'0'..=b'9', b, b'>', rest @ ..] => (digit(a)? * 10 + digit(b)?, rest),
        [b'<', a @ b'0'..=b'9', b, c, b'>', rest @ ..] => {
            (digit(a)? * 100 + digit(b)? * 10 + digit(c)?, rest)
        }
        _ => return None,
    };
    (number <= 191).then_some((number as u8, rest))
}

/// Returns the severity of a line that begins with a syslog priority, and the rest of the line.
pub(crate) fn severity_of_priority(line: &[u8]) -> Option<(Severity, &[u8])> {
    let (priority, rest) = priority(line)?;
    Some((severity(priority), rest))
}

pub(crate) fn severity(priority: u8) -> Severity {
    let known = Severity::OF_SYSLOG.get(usize::from(priority % 8));
    known.map_or(Severity::UNSPECIFIED, |(severity, _)| *severity)
}

/// Parses a message without a line end.
#[inline]
pub(crate) fn read<'l>(
    line: &'l [u8],
    stamps: &mut StampReader,
    observed_ns: i64,
) -> SyslogMessage<'l> {
    let mut message = SyslogMessage { line, body: line, ..SyslogMessage::default() };
    let text = match priority(line) {
        Some((priority, text)) => {
            message.priority = Some(priority);
            message.facility = Facility::of_code(priority / 8);
            message.severity = severity(priority);
            message.body = text;
            if let Some(text) = text.strip_prefix(b"1 ")
                && rfc5424(text, stamps, &mut message).is_some()
            {
                return message;
            }
            text
        }
        None => line,
    };
    rfc3164(text, stamps, observed_ns, &mut message);
    message
}

/// Returns the next word, and what follows the blank after it.
#[inline]
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = memchr::memchr(b' ', text).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(len)?;
    (!word.is_empty()).then_some((word, rest.get(1..).unwrap_or_default()))
}

/// Parses what follows `<165>1 `. Sets nothing if it is not a header.
#[inline]
fn rfc5424<'l>(
    text: &'l [u8],
    stamps: &mut StampReader,
    message: &mut SyslogMessage<'l>,
) -> Option<()> {
    let (time, rest) = word(text)?;
    let standard_ns = stamps.rfc3339(time);
    let is_standard = time == b"-" || standard_ns.is_some();
    let time_ns = if is_standard { standard_ns } else { Some(stamps.without_zone(time)?) };
    let (hostname, rest) = word(rest)?;
    let (app_name, rest) = word(rest)?;
    let (process_id, rest) = word(rest)?;
    let (message_id, rest) = word(rest)?;
    let data_len = match rest {
        [b'-'] | [b'-', b' ', ..] => Some(1),
        [b'[', ..] => elements::read(rest, |_| ()),
        _ => None,
    };
    let (data, body) = rest.split_at_checked(data_len.unwrap_or(0))?;
    let is_nil = data == b"-";
    let body = if data_len.is_some() { body.strip_prefix(b" ").unwrap_or(body) } else { body };
    let lengths = [
        (hostname.len(), HOSTNAME_MAX),
        (app_name.len(), APP_NAME_MAX),
        (process_id.len(), PROCESS_ID_MAX),
        (message_id.len(), MESSAGE_ID_MAX),
    ];
    message.is_malformed = data_len.is_none();
    message.is_standard = is_standard && lengths.iter().all(|(len, max)| len <= max);
    message.format = Some(SyslogFormat::Rfc5424);
    message.time_ns = time_ns;
    message.hostname = unless_nil(hostname);
    message.app_name = unless_nil(app_name);
    message.process_id = unless_nil(process_id);
    message.message_id = unless_nil(message_id);
    message.structured_data = if is_nil { &[] } else { data };
    message.body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    Some(())
}

#[inline]
fn unless_nil(field: &[u8]) -> &[u8] {
    if field == b"-" { &[] } else { field }
}

/// Parses everything that is not RFC 5424.
#[inline]
fn rfc3164<'l>(
    text: &'l [u8],
    stamps: &mut StampReader,
    observed_ns: i64,
    message: &mut SyslogMessage<'l>,
) {
    let device = match stamps.read(text, observed_ns) {
        Some(stamp) => Device { hostname: &[], stamp, is_marked: false },
        None => match device(text, stamps, observed_ns) {
            Some(device) => device,
            None => return without_time(text, message),
        },
    };
    let Device { hostname, stamp, is_marked } = device;
    message.format = Some(SyslogFormat::Rfc3164);
    message.is_standard = stamp.is_standard && !is_marked;
    message.time_ns = stamp.time_ns;
    message.hostname = hostname;
    message.body = stamp.rest;
    let mut rest = stamp.rest;
    if !stamp.has_colon
        && hostname.is_empty()
        && let Some((host, after)) = host(stamp.rest).or_else(|| cisco_host(stamp.rest))
    {
        message.hostname = host;
        // Cisco writes ` : ` after the host.
        rest = without_blanks(after);
        rest = rest.strip_prefix(b": ").unwrap_or(rest);
        message.body = rest;
    }
    if let Some(tag) = tag(rest) {
        tag.set(message);
    }
}

/// A message without a time: only names that cannot be part of a text are used.
fn without_time<'l>(text: &'l [u8], message: &mut SyslogMessage<'l>) {
    message.is_malformed = message.priority.is_none();
    let tag = tag(text).filter(|tag| tag.app_name.starts_with(b"%") || !tag.process_id.is_empty());
    if let Some(tag) = tag.filter(|_| message.priority.is_some()) {
        tag.set(message);
    }
}

/// What network devices write before and around the time.
struct Device<'l> {
    hostname: &'l [u8],
    stamp: Stamp<'l>,
    is_marked: bool,
}

/// Parses `45: *Mar  1 18:46:11.123: ` as Cisco's devices write it: a sequence number, perhaps a
/// host, and a mark that tells how far the clock can be trusted.
fn device<'l>(text: &'l [u8], stamps: &mut StampReader, observed_ns: i64) -> Option<Device<'l>> {
    let mut rest = text;
    let mut hostname: &[u8] = &[];
    // A number, and a host.
    for labels in 0..=2 {
        rest = without_blanks(rest);
        let unmarked = match rest {
            [b'*' | b'.' | b':', after @ ..] => without_blanks(after),
            _ => rest,
        };
        if let Some(stamp) = stamps.read(unmarked, observed_ns) {
            return Some(Device { hostname, stamp, is_marked: true });
        }
        let label_len = rest.iter().take(HOSTNAME_MAX).position(|b| matches!(b, b':' | b' '))?;
        let (label, after) = rest.split_at_checked(label_len)?;
        rest = after.strip_prefix(b":")?;
        let is_number = label.iter().all(u8::is_ascii_digit);
        match labels {
            0 if is_number => {}
            1 if is_host(label) => hostname = label,
            _ => return None,
        }
    }
    None
}

/// Returns the host at the start of what follows the time, and the rest; `None` if what comes first
/// is something else.
#[inline]
fn host(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (host, rest) = word(text)?;
    if text.starts_with(b"last message repeated ") || host.len() > HOSTNAME_MAX || !is_host(host) {
        return None;
    }
    // A name that is followed by a colon or a process id is that of a program.
    match host {
        [.., b':'] if !host.ends_with(b"::") => None,
        [.., b']'] if host.contains(&b'[') && !host.starts_with(b"[") => None,
        _ => Some((host, rest)),
    }
}

/// Parses `fw1: %ASA-6-302013: `, which has a host where others have the program; returns the host
/// and what follows the blank.
fn cisco_host(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (host, rest) = word(text)?;
    let host = host.strip_suffix(b":")?;
    let name = tag(rest).filter(|tag| tag.process_id.is_empty())?.app_name;
    // A facility, a severity from 0 to 7 and a mnemonic.
    let mut parts = name.strip_prefix(b"%")?.split(|byte| *byte == b'-');
    let has_severity = parts.any(|part| matches!(part, [b'0'..=b'7']));
    let is_plain = host.len() <= HOSTNAME_MAX && is_host(host) && !host.contains(&b'[');
    (has_severity && is_plain).then_some((host, rest))
}

#[inline]
fn is_host(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| HOST_BYTES.contains(*byte))
}

/// The program that a message is from.
struct Tag<'l> {
    app_name: &'l [u8],
    process_id: &'l [u8],
    body: &'l [u8],
}

impl<'l> Tag<'l> {
    #[inline]
    fn set(self, message: &mut SyslogMessage<'l>) {
        message.app_name = self.app_name;
        message.process_id = self.process_id;
        message.body = self.body;
    }
}

/// Parses `program: text`, `program[123]: text` and `program[123] text`.
#[inline]
fn tag(text: &[u8]) -> Option<Tag<'_>> {
    let window = text.get(..TAG_MAX + 1).unwrap_or(text);
    let mut blanks = 0;
    for (at, byte) in window.iter().enumerate() {
        match byte {
            b':' if blanks == 0 => return tag_with_colon(text, at),
            b'[' => return tag_with_process(text, at, blanks > 0),
            b' ' if at > 0 && blanks < TAG_BLANKS_MAX => blanks += 1,
            byte if TAG_BYTES.contains(*byte) => {}
            _ => return None,
        }
    }
    None
}

fn tag_with_colon(text: &[u8], at: usize) -> Option<Tag<'_>> {
    let (app_name, rest) = text.split_at_checked(at)?;
    let body = match rest {
        // `std::bad_alloc`, `http://`, `10.0.0.1:514`.
        [_, b':' | b'/' | b'\\' | b'0'..=b'9', ..] if !app_name.starts_with(b"%") => return None,
        [_, body @ ..] => body.strip_prefix(b" ").unwrap_or(body),
        [] => return None,
    };
    (!app_name.is_empty()).then_some(Tag { app_name, process_id: &[], body })
}

/// A name with blanks must be followed by a number in brackets and a colon, since it could be text.
fn tag_with_process(text: &[u8], at: usize, has_blanks: bool) -> Option<Tag<'_>> {
    let (app_name, rest) = text.split_at_checked(at)?;
    let inside = rest.get(1..)?;
    let len = inside.iter().take(PROCESS_ID_MAX + 1).position(|b| *b == b']')?;
    let (process_id, rest) = inside.split_at_checked(len)?;
    let rest = rest.get(1..)?;
    let is_number = !process_id.is_empty() && process_id.iter().all(u8::is_ascii_digit);
    let body = match rest {
        [b':', b' ', body @ ..] | [b':', body @ ..] => body,
        [b' ', body @ ..] if is_number && !has_blanks => body,
        [] if is_number && !has_blanks => rest,
        _ => return None,
    };
    let is_name = !app_name.is_empty() && !app_name.ends_with(b" ");
    let is_process =
        if has_blanks { is_number } else { process_id.iter().all(u8::is_ascii_graphic) };
    (is_name && is_process).then_some(Tag { app_name, process_id, body })
}

/// A set of bytes.
struct Bytes([bool; 256]);

impl Bytes {
    /// Letters, digits, `more`, and perhaps everything that is not ASCII.
    #[cfg_attr(
        not(test),
        expect(clippy::indexing_slicing, reason = "computed by the compiler, which checks it")
    )]
    const fn new(more: &[u8], has_others: bool) -> Self {
        let mut is_in = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            is_in[byte] = (byte as u8).is_ascii_alphanumeric() || (has_others && byte >= 128);
            byte += 1;
        }
        let mut index = 0;
        while index < more.len() {
            is_in[more[index] as usize] = true;
            index += 1;
        }
        Self(is_in)
    }

    #[inline]
    fn contains(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or_default()
    }
}

static HOST_BYTES: Bytes = Bytes::new(b".-_:/%@[]()#+~", true);
static TAG_BYTES: Bytes = Bytes::new(b".-_/()%@#+~*!$&^\\", false);
