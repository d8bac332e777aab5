//! Records as syslog messages, in RFC 5424 or RFC 3164.
//!
//! A record that arrived as a message of the configured format is sent unchanged. For others the
//! header is built from the record: the facility is `user` if there is none, the severity `notice`,
//! as RFC 3164 lets relays assume; host and program are those of the resource. RFC 5424 also
//! carries the attributes as structured data: those that came from structured data in their own
//! elements, others with a permitted name in [`ATTRIBUTES_ID`].
//!
//! Invariants: a message written here follows its RFC strictly; it has at most the permitted number
//! of bytes; with [`SyslogOutputFraming::Lines`] it is exactly one line, in which newlines are
//! written as `\n` (two characters), and NUL bytes as `\0`.

use std::collections::HashMap;
use std::sync::Arc;

use weir_model::{RecordFlags, RecordView, Resource, Selection, Severity, unescape_json_into};

use crate::attributes::{Attributes, Scalar};
use crate::json::cut_utf8;
use crate::syslog::header::{self, APP_NAME_MAX, HOSTNAME_MAX, MESSAGE_ID_MAX, PROCESS_ID_MAX};
use crate::syslog::stamp::StampReader;
use crate::syslog::{SyslogFormat, SyslogMessage};
use crate::time::{civil_from_days, format_rfc3339_ns, push_number};

/// Name of the element for attributes that did not come from structured data. The enterprise number
/// is reserved for documentation: weir has none of its own.
const ATTRIBUTES_ID: &[u8] = b"attributes@32473";

/// Maximum length of the names of structured data.
const NAME_MAX: usize = 32;

/// Maximum length of a tag of RFC 3164.
const TAG_MAX: usize = 32;

/// Resources whose header fields are kept: more than are active at once on a busy node.
const RESOURCES_MAX: usize = 4096;

/// Facility of records without one: `user`.
const FACILITY_DEFAULT: u8 = 1;

const DAY_SECONDS: i64 = 86_400;

/// How messages are delimited on their way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyslogOutputFraming {
    /// Each message after its length and a space.
    OctetCounted,
    /// One message per line.
    Lines,
    /// Not at all: each is a datagram, or in a frame of RELP.
    Unframed,
}

/// Header fields that all records of a resource share, with permitted characters only.
#[derive(Debug)]
struct Identity {
    hostname: Vec<u8>,
    app_name: Vec<u8>,
    tag: Vec<u8>,
}

/// Writes records as messages; one per output.
#[derive(Debug)]
pub struct SyslogEncoder {
    format: SyslogFormat,
    /// The host of records whose resource names none.
    hostname: String,
    utc_offset_seconds: i32,
    identities: HashMap<Vec<u8>, Arc<Identity>>,
    stamps: StampReader,
    attributes: Attributes,
    message: Vec<u8>,
}

impl SyslogEncoder {
    /// Creates an encoder. `hostname` is the host of records whose resource names none.
    pub fn new(format: SyslogFormat, hostname: &str) -> Self {
        Self {
            format,
            hostname: hostname.to_owned(),
            utc_offset_seconds: 0,
            identities: HashMap::new(),
            stamps: StampReader::new(),
            attributes: Attributes::new(),
            message: Vec::new(),
        }
    }

    /// Sets the zone of the times of RFC 3164, in seconds east of UTC.
    pub fn set_utc_offset(&mut self, seconds: i32) {
        self.utc_offset_seconds = seconds;
    }

    /// Appends a record as one message of at most `message_bytes_max` bytes, without its framing.
    /// Returns false if it had to be shortened.
    pub fn encode(
        &mut self,
        framing: SyslogOutputFraming,
        records: &Selection,
        record: &RecordView<'_>,
        message_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        if self.is_ready(record.original()) {
            message.extend_from_slice(record.original());
        } else {
            self.build(records, record, &mut message);
        }
        if framing == SyslogOutputFraming::Lines {
            escape_line_ends(&mut message);
        }
        let kept = cut_utf8(&message, message_bytes_max);
        let is_whole = kept == message.len();
        message.truncate(kept);
        match framing {
            SyslogOutputFraming::OctetCounted => {
                push_number(message.len() as u64, out);
                out.push(b' ');
                out.extend_from_slice(&message);
            }
            SyslogOutputFraming::Lines => {
                out.extend_from_slice(&message);
                out.push(b'\n');
            }
            SyslogOutputFraming::Unframed => out.extend_from_slice(&message),
        }
        self.message = message;
        is_whole
    }

    /// Returns whether the bytes of the sender are a message of the wanted format.
    fn is_ready(&mut self, original: &[u8]) -> bool {
        if original.is_empty() {
            return false;
        }
        let message: SyslogMessage<'_> = header::read(original, &mut self.stamps, 0);
        message.format == Some(self.format)
            && message.priority.is_some()
            && message.is_standard
            && !message.is_malformed
            && (self.format == SyslogFormat::Rfc5424 || !message.hostname.is_empty())
    }

    fn build(&mut self, records: &Selection, record: &RecordView<'_>, out: &mut Vec<u8>) {
        let facility = record.facility().code().unwrap_or(FACILITY_DEFAULT);
        out.push(b'<');
        push_number(u64::from(facility) * 8 + severity_code(record.severity), out);
        out.push(b'>');
        let identity = self.identity(records.resource_of(record).encoded);
        let time_ns = time_of(records, record);
        match self.format {
            SyslogFormat::Rfc5424 => self.rfc5424(record, &identity, time_ns, out),
            SyslogFormat::Rfc3164 => self.rfc3164(record, &identity, time_ns, out),
        }
        push_body(record, out);
    }

    fn rfc5424(
        &mut self,
        record: &RecordView<'_>,
        identity: &Identity,
        time_ns: i64,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"1 ");
        push_time(time_ns, out);
        push_field(&identity.hostname, out);
        push_field(&identity.app_name, out);
        push_field(&permitted(record.process_id(), PROCESS_ID_MAX), out);
        push_field(&permitted(record.message_id(), MESSAGE_ID_MAX), out);
        let start = out.len();
        self.attributes.clear();
        if !record.attributes.is_empty()
            && self.attributes.read_members(record.attributes).is_some()
        {
            push_elements(&self.attributes, out);
        }
        if out.len() == start {
            out.push(b'-');
        }
        if !record.body.is_empty() {
            out.push(b' ');
        }
    }

    fn rfc3164(
        &mut self,
        record: &RecordView<'_>,
        identity: &Identity,
        time_ns: i64,
        out: &mut Vec<u8>,
    ) {
        let seconds = time_ns.div_euclid(1_000_000_000) + i64::from(self.utc_offset_seconds);
        push_stamp(seconds, out);
        push_field(&identity.hostname, out);
        if identity.tag.is_empty() {
            return;
        }
        out.extend_from_slice(&identity.tag);
        if !record.process_id().is_empty() {
            out.push(b'[');
            let process_id = permitted(record.process_id(), PROCESS_ID_MAX);
            out.extend(process_id.iter().map(|b| if *b == b']' { b'_' } else { *b }));
            out.push(b']');
        }
        out.extend_from_slice(b": ");
    }

    fn identity(&mut self, resource: &[u8]) -> Arc<Identity> {
        if let Some(identity) = self.identities.get(resource) {
            return Arc::clone(identity);
        }
        if self.identities.len() >= RESOURCES_MAX {
            self.identities.clear();
        }
        let attributes = Resource::decode(resource);
        let hostname = attributes.text("host.name").or_else(|| attributes.peer());
        let hostname = hostname.filter(|name| !name.is_empty()).unwrap_or(&self.hostname);
        let app_name = attributes.text("service.name").unwrap_or_default();
        let is_of_tag = |b: &u8| !matches!(b, b':' | b'[' | b']');
        let tag = permitted(app_name.as_bytes(), TAG_MAX);
        let identity = Arc::new(Identity {
            hostname: permitted(hostname.as_bytes(), HOSTNAME_MAX),
            app_name: permitted(app_name.as_bytes(), APP_NAME_MAX),
            tag: tag.into_iter().map(|b| if is_of_tag(&b) { b } else { b'_' }).collect(),
        });
        self.identities.insert(resource.to_vec(), Arc::clone(&identity));
        identity
    }
}

/// Returns the time of a record, or else when it was received.
pub(super) fn time_of(records: &Selection, record: &RecordView<'_>) -> i64 {
    match record.timestamp_ns {
        1.. => record.timestamp_ns,
        _ => records.batch().header().observed_ns,
    }
}

/// Appends a time with six digits, as many as RFC 5424 permits, and a space.
pub(super) fn push_time(time_ns: i64, out: &mut Vec<u8>) {
    format_rfc3339_ns(time_ns, out);
    out.truncate(out.len() - b"000Z".len());
    out.extend_from_slice(b"Z ");
}

/// Returns the syslog severity for a number of OpenTelemetry's: the most severe one that is not
/// above it.
fn severity_code(severity: Severity) -> u64 {
    match severity.0 {
        0 => 5,
        1..=8 => 7,
        number => {
            let known = Severity::OF_SYSLOG.iter().position(|(known, _)| known.0 <= number);
            known.unwrap_or(7) as u64
        }
    }
}

/// Returns the text with only printable ASCII characters, and at most `max` of them.
fn permitted(text: &[u8], max: usize) -> Vec<u8> {
    text.iter().take(max).map(|b| if b.is_ascii_graphic() { *b } else { b'_' }).collect()
}

/// Appends a field of the header and a space.
fn push_field(field: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(if field.is_empty() { b"-" } else { field });
    out.push(b' ');
}

/// Appends `Oct 11 22:14:15 `.
fn push_stamp(seconds: i64, out: &mut Vec<u8>) {
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let (_, month, day) = civil_from_days(seconds.div_euclid(DAY_SECONDS));
    let of_day = seconds.rem_euclid(DAY_SECONDS);
    let two = |number: i64| [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
    out.extend_from_slice(MONTHS.get(month as usize - 1).copied().unwrap_or_default());
    out.push(b' ');
    let [tens, ones] = two(day);
    out.extend_from_slice(&[if tens == b'0' { b' ' } else { tens }, ones]);
    for (before, number) in [(b' ', of_day / 3600), (b':', of_day / 60 % 60), (b':', of_day % 60)] {
        out.push(before);
        out.extend_from_slice(&two(number));
    }
    out.push(b' ');
}

fn push_body(record: &RecordView<'_>, out: &mut Vec<u8>) {
    if record.flags.contains(RecordFlags::JSON_ESCAPED) {
        unescape_json_into(record.body, out);
    } else {
        out.extend_from_slice(record.body);
    }
}

/// Returns the element and the name that an attribute belongs to; `None` if its name is not
/// permitted, or it is in the header anyway.
fn place_of(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (id, name) = match path.strip_prefix(b"syslog.") {
        // The part after `@` has no dots, the one before it may.
        Some(rest) => {
            let from = memchr::memchr(b'@', rest).unwrap_or(0);
            let at = from + memchr::memchr(b'.', rest.get(from..)?)?;
            (rest.get(..at)?, rest.get(at + 1..)?)
        }
        None => (ATTRIBUTES_ID, path),
    };
    let is_permitted = |name: &[u8]| {
        (1..=NAME_MAX).contains(&name.len())
            && name.iter().all(|b| b.is_ascii_graphic() && !matches!(b, b'=' | b']' | b'"'))
    };
    (is_permitted(id) && is_permitted(name)).then_some((id, name))
}

/// Appends the elements of structured data; nothing if there are none.
fn push_elements(attributes: &Attributes, out: &mut Vec<u8>) {
    let placed = || attributes.iter().filter_map(|(path, value)| Some((place_of(path)?, value)));
    for (index, ((id, _), _)) in placed().enumerate() {
        if placed().take(index).any(|((earlier, _), _)| earlier == id) {
            continue;
        }
        out.push(b'[');
        out.extend_from_slice(id);
        for ((_, name), value) in placed().skip(index).filter(|((other, _), _)| *other == id) {
            out.push(b' ');
            out.extend_from_slice(name);
            out.extend_from_slice(b"=\"");
            push_value(value, out);
            out.push(b'"');
        }
        out.push(b']');
    }
}

fn push_value(value: Scalar<'_>, out: &mut Vec<u8>) {
    let text = match value {
        Scalar::Text(text) => text,
        Scalar::Null => return,
        Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_) => return value.write_json(out),
    };
    for byte in String::from_utf8_lossy(text).bytes() {
        if matches!(byte, b'"' | b'\\' | b']') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

fn escape_line_ends(message: &mut Vec<u8>) {
    if memchr::memchr2(b'\n', 0, message).is_none() {
        return;
    }
    let mut escaped = Vec::with_capacity(message.len() + 16);
    for byte in message.iter() {
        match byte {
            b'\n' => escaped.extend_from_slice(b"\\n"),
            0 => escaped.extend_from_slice(b"\\0"),
            byte => escaped.push(*byte),
        }
    }
    *message = escaped;
}
