//! Records as lines of the files of a syslog server: `2026-01-31T12:00:00.123456Z web1 sshd[42]:
//! text`.
//!
//! The priority is not part of such a line. Weir and other programs parse it again as syslog.
//!
//! Invariants: one record is exactly one line; the header has neither blanks nor control characters
//! in its names, so that it can be told from the body.

use std::borrow::Cow;

use memchr::memmem;
use weir_model::{RecordView, Resource, Selection};

use super::line::raw_line;
use super::syslog::{push_time, time_of};

/// Appends a record and ends the line.
pub(super) fn syslog_line(records: &Selection, record: &RecordView<'_>, out: &mut Vec<u8>) {
    push_time(time_of(records, record), out);
    let resource = records.resource_of(record).encoded;
    let host = text_of(resource, r#""host.name":""#).filter(|host| !host.is_empty());
    match host.or_else(|| text_of(resource, r#""network.peer.address":""#)) {
        Some(host) => push_name(host.as_bytes(), out),
        None => out.push(b'-'),
    }
    out.push(b' ');
    let program = text_of(resource, r#""service.name":""#).unwrap_or_default();
    if !program.is_empty() {
        push_name(program.as_bytes(), out);
        if !record.process_id().is_empty() {
            out.push(b'[');
            push_name(record.process_id(), out);
            out.push(b']');
        }
        out.extend_from_slice(b": ");
    }
    raw_line(record, out);
}

/// Appends a name with `_` in place of blanks and control characters.
fn push_name(name: &[u8], out: &mut Vec<u8>) {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    out.extend(name.iter().map(|byte| if is_blank(byte) { b'_' } else { *byte }));
}

/// Returns an attribute of an encoded resource, if it is text; `member` is its key as it is
/// encoded, with the quote that begins a text. Decodes the whole resource only if something in it
/// is escaped or nested.
fn text_of<'r>(resource: &'r [u8], member: &str) -> Option<Cow<'r, str>> {
    if resource.iter().skip(1).any(|byte| matches!(byte, b'\\' | b'{')) {
        let key = member.trim_matches(['"', ':']);
        return Resource::decode(resource).text(key).map(|text| text.to_owned().into());
    }
    let start = memmem::find(resource, member.as_bytes())?;
    let text = resource.get(start + member.len()..)?;
    let len = memchr::memchr(b'"', text)?;
    std::str::from_utf8(text.get(..len)?).ok().map(Cow::Borrowed)
}
