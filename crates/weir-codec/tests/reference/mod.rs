//! What docker json-file and CRI files mean, written as simply as possible: the whole file in
//! memory, a tree of values for every line, no limits.

use serde_json::Value;
use weir_codec::{Format, parse_rfc3339};
use weir_model::RecordFlags;

use crate::common::OBSERVED_NS;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expected {
    pub(crate) offset: u64,
    pub(crate) time_ns: i64,
    pub(crate) flags: RecordFlags,
    pub(crate) body: Vec<u8>,
    pub(crate) attributes: Value,
}

#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) records: Vec<Expected>,
    pub(crate) lines: u64,
    pub(crate) malformed: u64,
}

struct Message {
    text: Vec<u8>,
    is_last: bool,
    time_ns: i64,
    flags: RecordFlags,
    attributes: Value,
}

#[derive(Default)]
struct Open {
    parts: u64,
    first: Option<Message>,
}

/// Raw non-ASCII bytes pass through the JSON parser as private characters.
const PRIVATE: u32 = 0xf700;

pub(crate) fn to_text(line: &[u8]) -> String {
    let private = |b: &u8| {
        if b.is_ascii() { char::from(*b) } else { char::from_u32(PRIVATE + u32::from(*b)).unwrap() }
    };
    line.iter().map(private).collect()
}

fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for c in text.chars() {
        match u32::from(c).checked_sub(PRIVATE) {
            Some(byte @ 0x80..=0xff) => bytes.push(byte as u8),
            _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn docker(line: &[u8]) -> Option<Message> {
    let value: Value = serde_json::from_str(&to_text(line)).ok()?;
    let object = value.as_object()?;
    let time = object.get("time").and_then(Value::as_str).and_then(|t| parse_rfc3339(t.as_bytes()));
    let flags = match object.get("stream").and_then(Value::as_str) {
        Some("stdout") => RecordFlags::STDOUT,
        Some("stderr") => RecordFlags::STDERR,
        _ => RecordFlags::default(),
    };
    let log = match object.get("log") {
        None if flags != RecordFlags::default() && time.is_some() => "",
        None => return None,
        Some(log) => log.as_str()?,
    };
    let attributes = object.get("attrs").filter(|a| a.as_object().is_some_and(|a| !a.is_empty()));
    Some(Message {
        text: to_bytes(log.strip_suffix('\n').unwrap_or(log)),
        is_last: log.ends_with('\n'),
        time_ns: time.unwrap_or(OBSERVED_NS),
        flags,
        attributes: attributes.cloned().unwrap_or_default(),
    })
}

fn cri(line: &[u8]) -> Option<Message> {
    let mut words = line.splitn(4, |b| *b == b' ');
    let time_ns = parse_rfc3339(words.next()?)?;
    let flags = match words.next()? {
        b"stdout" => RecordFlags::STDOUT,
        b"stderr" => RecordFlags::STDERR,
        _ => return None,
    };
    let tags = words.next()?;
    let text = words.next();
    let tags = if text.is_none() { tags.strip_suffix(b"\r").unwrap_or(tags) } else { tags };
    let is_last = match tags.split(|b| *b == b':').next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    let text = text.unwrap_or_default();
    let text = text.strip_suffix(b"\r").unwrap_or(text).to_vec();
    Some(Message { text, is_last, time_ns, flags, attributes: Value::Null })
}

/// Reads a whole file; open lines are flushed at its end.
pub(crate) fn read(file: &[u8], format: Format) -> Reading {
    let mut reading = Reading::default();
    let mut open = [Open::default(), Open::default()];
    let is_utf16 = file.starts_with(b"\xff\xfe") || file.starts_with(b"\xfe\xff");
    let mut at = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    while at < file.len() {
        let nuls = file[at..].iter().take_while(|b| **b == 0).count();
        if nuls > 0 && !is_utf16 {
            reading.lines += 1;
            at += nuls;
            at += usize::from(file.get(at) == Some(&b'\n'));
            continue;
        }
        let mut end = file[at..].iter().position(|b| *b == b'\n').map_or(file.len(), |n| at + n);
        let mut next = (end + 1).min(file.len());
        let message = if is_utf16 {
            None
        } else if format == Format::DockerJson {
            docker(&file[at..end])
        } else {
            cri(&file[at..end])
        };
        if message.is_none()
            && format == Format::DockerJson
            && !is_utf16
            && let Some(nul) = file[at..end].iter().position(|b| *b == 0)
        {
            end = at + nul;
            next = end;
        }
        if let Some(message) = message {
            take(&mut reading, &mut open, message, next as u64);
        } else {
            reading.lines += 1;
            reading.malformed += 1;
            reading.records.push(Expected {
                offset: next as u64,
                time_ns: OBSERVED_NS,
                flags: RecordFlags::MALFORMED,
                body: file[at..end].to_vec(),
                attributes: Value::Null,
            });
        }
        at = next;
    }
    for (n, line) in (1..).zip(open.into_iter().filter(|line| line.parts > 0)) {
        let message = line.first.unwrap();
        emit(&mut reading, message, line.parts, file.len() as u64 + n);
    }
    reading
}

fn take(reading: &mut Reading, open: &mut [Open; 2], message: Message, offset: u64) {
    let slot = &mut open[usize::from(message.flags == RecordFlags::STDERR)];
    slot.parts += 1;
    let is_last = message.is_last;
    slot.first = Some(match slot.first.take() {
        None => message,
        Some(mut first) => {
            first.text.extend_from_slice(&message.text);
            first.flags = first.flags.with(message.flags);
            if is_last {
                first.attributes = message.attributes;
            }
            first
        }
    });
    if is_last {
        let slot = std::mem::take(slot);
        emit(reading, slot.first.unwrap(), slot.parts, offset);
    }
}

fn emit(reading: &mut Reading, message: Message, parts: u64, offset: u64) {
    reading.lines += parts;
    let flags = if parts > 1 { message.flags.with(RecordFlags::JOINED) } else { message.flags };
    reading.records.push(Expected {
        offset,
        time_ns: message.time_ns,
        flags,
        body: message.text,
        attributes: message.attributes,
    });
}
