//! The original bytes of a record that is not entirely UTF-8.
//!
//! Columns hold text that every engine can read, so invalid bytes are replaced there, as
//! `String::from_utf8_lossy` does. The original bytes are kept separately, for the whole record.
//!
//! Encoding, numbers little-endian: length of the message (4), message, then for each attribute:
//! length of the path (4), path, kind (1), value: nothing for null (0), one byte for a boolean (1),
//! eight bytes for an integer (2) or a float (3), length (4) and bytes for text (4).

use weir_codec::Scalar;

/// A record as it was received: its message and its attributes in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Original {
    bytes: Vec<u8>,
}

impl Original {
    /// Encodes a record.
    pub(crate) fn encode<'a>(
        message: &[u8],
        attributes: impl Iterator<Item = (&'a [u8], Scalar<'a>)>,
        out: &mut Vec<u8>,
    ) {
        put(message, out);
        for (path, value) in attributes {
            put(path, out);
            match value {
                Scalar::Null => out.push(0),
                Scalar::Bool(truth) => out.extend_from_slice(&[1, u8::from(truth)]),
                Scalar::Int(number) => {
                    out.push(2);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                Scalar::Float(number) => {
                    out.push(3);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                Scalar::Text(text) => {
                    out.push(4);
                    put(text, out);
                }
            }
        }
    }

    /// Wraps an encoded record.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Returns the encoding.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the message.
    pub fn message(&self) -> &[u8] {
        take_text(&self.bytes).map_or(&[], |(message, _)| message)
    }

    /// Returns the attributes.
    pub fn attributes(&self) -> impl Iterator<Item = (&[u8], Scalar<'_>)> {
        let mut rest = take_text(&self.bytes).map_or(&[][..], |(_, rest)| rest);
        std::iter::from_fn(move || {
            let (path, after) = take_text(rest)?;
            let (value, after) = take_value(after)?;
            rest = after;
            Some((path, value))
        })
    }
}

fn put(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn take_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

fn take_value(bytes: &[u8]) -> Option<(Scalar<'_>, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    Some(match kind {
        0 => (Scalar::Null, rest),
        1 => {
            let (truth, rest) = rest.split_first()?;
            (Scalar::Bool(*truth != 0), rest)
        }
        2 => {
            let (number, rest) = rest.split_first_chunk()?;
            (Scalar::Int(i64::from_le_bytes(*number)), rest)
        }
        3 => {
            let (number, rest) = rest.split_first_chunk()?;
            (Scalar::Float(f64::from_le_bytes(*number)), rest)
        }
        4 => {
            let (text, rest) = take_text(rest)?;
            (Scalar::Text(text), rest)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn original_record_round_trips_and_rejects_truncation() {
        let attributes: [(&[u8], Scalar<'_>); 5] = [
            (b"a\xff", Scalar::Text(b"\xfe")),
            (b"a\xff", Scalar::Null),
            (b"n", Scalar::Int(-5)),
            (b"f", Scalar::Float(0.5)),
            (b"t", Scalar::Bool(true)),
        ];
        let mut bytes = Vec::new();
        Original::encode(b"m\xff", attributes.into_iter(), &mut bytes);
        let original = Original::new(bytes.clone());
        assert_eq!(original.message(), b"m\xff");
        assert_eq!(original.attributes().collect::<Vec<_>>(), attributes);
        for len in 0..bytes.len() {
            let cut = Original::new(bytes[..len].to_vec());
            assert!(cut.attributes().count() < attributes.len());
        }
    }
}
