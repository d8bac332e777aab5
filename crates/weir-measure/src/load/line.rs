//! The ID of every generated line, by which loss, duplicates, disorder and damage can be counted
//! exactly at the other end.
//!
//! Format: `weir/STREAM/GENERATION/SEQ/LEN/CRC PAYLOAD`. LEN and CRC (CRC-32C, hex, over stream,
//! generation, sequence number and payload) are computed over the *canonical* payload: without
//! invalid UTF-8 and U+FFFD, since hops that carry JSON can only replace bad bytes. LEN determines
//! where the payload ends, so the ID is also found and checked inside other text.

use std::borrow::Cow;
use std::io::Write as _;

const MARK: &[u8] = b"weir/";

/// The identity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineId<'a> {
    /// Name of the writer.
    pub stream: &'a str,
    /// Number of the writer's file (increases with each rotation).
    pub generation: u64,
    /// Number of the line in its stream, from 0.
    pub seq: u64,
    /// The payload is complete and undamaged.
    pub intact: bool,
}

impl<'a> LineId<'a> {
    /// Appends the line (without line end) to `out`.
    pub fn write(stream: &str, generation: u64, seq: u64, payload: &[u8], out: &mut Vec<u8>) {
        let text = canonical(payload);
        let crc = checksum(stream, generation, seq, &text);
        // Writing to a vector cannot fail.
        let _infallible = write!(out, "weir/{stream}/{generation}/{seq}/{}/{crc:08x} ", text.len());
        out.extend_from_slice(payload);
    }

    /// Finds the ID in a delivered text; `None` if there is none.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let start = if text.starts_with(MARK) { 0 } else { memchr::memmem::find(text, MARK)? };
        let text = &text[start + MARK.len()..];
        let mut rest = text;
        let mut field = |end: u8| {
            let at = memchr::memchr(end, &rest[..rest.len().min(256)])?;
            let (field, tail) = rest.split_at(at);
            rest = &tail[1..];
            std::str::from_utf8(field).ok()
        };
        let stream = field(b'/')?;
        let generation = field(b'/')?.parse().ok()?;
        let seq = field(b'/')?.parse().ok()?;
        let len: usize = field(b'/')?.parse().ok()?;
        let crc = u32::from_str_radix(field(b' ')?, 16).ok()?;
        let payload = canonical(rest);
        let intact =
            payload.get(..len).is_some_and(|p| checksum(stream, generation, seq, p) == crc);
        Some(Self { stream, generation, seq, intact })
    }
}

fn checksum(stream: &str, generation: u64, seq: u64, payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c(stream.as_bytes());
    let crc = crc32c::crc32c_append(crc, &generation.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &seq.to_le_bytes());
    crc32c::crc32c_append(crc, payload)
}

/// Returns the bytes that every hop can carry.
fn canonical(bytes: &[u8]) -> Cow<'_, [u8]> {
    const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();
    let clean = memchr::memmem::find(bytes, REPLACEMENT).is_none();
    if clean && std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut kept = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for part in chunk.valid().split('\u{fffd}') {
            kept.extend_from_slice(part.as_bytes());
        }
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        LineId::write("app-1", 3, 42, payload, &mut out);
        out
    }

    #[test]
    fn a_line_is_found_inside_other_text() {
        let text = [b"{\"msg\":\"", &line(b"hello world")[..], b"\"}"].concat();
        let id = LineId::parse(&text).unwrap();
        assert_eq!(id, LineId { stream: "app-1", generation: 3, seq: 42, intact: true });
    }

    #[test]
    fn damage_and_cuts_are_seen() {
        let mut text = line(b"hello world");
        let cut = LineId::parse(&text[..text.len() - 1]).unwrap();
        assert!(!cut.intact);
        *text.last_mut().unwrap() ^= 1;
        assert!(!LineId::parse(&text).unwrap().intact);
        assert_eq!(LineId::parse(b"something else"), None);
    }

    proptest! {
        #[test]
        fn any_payload_survives_the_replacement_of_bad_bytes(payload: Vec<u8>) {
            let text = line(&payload);
            prop_assert!(LineId::parse(&text).unwrap().intact);
            let replaced = String::from_utf8_lossy(&text).into_owned();
            prop_assert!(LineId::parse(replaced.as_bytes()).unwrap().intact);
        }
    }
}
