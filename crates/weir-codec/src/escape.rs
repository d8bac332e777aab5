//! Writes bytes as the content of a JSON string.
//!
//! Invariant: the result is valid UTF-8 and valid JSON string content whatever the bytes were;
//! invalid UTF-8 becomes U+FFFD, once per invalid sequence.

/// Appends `bytes` escaped as the content of a JSON string, without the surrounding quotes.
pub fn escape_json_into(bytes: &[u8], out: &mut Vec<u8>) {
    if is_plain(bytes) {
        return out.extend_from_slice(bytes);
    }
    out.reserve(bytes.len());
    // Checking everything at once is many times faster than chunk by chunk.
    if std::str::from_utf8(bytes).is_ok() {
        return escape_valid(bytes, out);
    }
    for chunk in bytes.utf8_chunks() {
        escape_valid(chunk.valid().as_bytes(), out);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Appends `bytes` as a JSON string, with its quotes.
pub(crate) fn write_json_text(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escape_json_into(bytes, out);
    out.push(b'"');
}

/// Returns true for short ASCII text without characters to escape, as most names and values are.
#[expect(clippy::needless_bitwise_bool, reason = "a lazy operator would be a branch per byte")]
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    bytes.len() <= 64 && !bytes.iter().fold(false, |any, b| any | (*b >= 0x80) | needs_escape(*b))
}

fn escape_valid(text: &[u8], out: &mut Vec<u8>) {
    let (blocks, rest) = text.as_chunks::<64>();
    for block in blocks {
        escape_block(block, out);
    }
    escape_block(rest, out);
}

/// Escapes one block: it is copied as a whole if nothing in it needs an escape, which is checked in
/// one pass of vector instructions.
#[inline]
fn escape_block(block: &[u8], out: &mut Vec<u8>) {
    if !block.iter().fold(false, |any, b| any | needs_escape(*b)) {
        out.extend_from_slice(block);
        return;
    }
    for byte in block {
        if needs_escape(*byte) {
            push_escape(*byte, out);
        } else {
            out.push(*byte);
        }
    }
}

#[expect(clippy::needless_bitwise_bool, reason = "a lazy operator would be a branch per byte")]
#[inline]
fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        8 => b'b',
        12 => b'f',
        _ => {
            let hex = |digit: u8| if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        escape_json_into(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_control_byte_is_escaped() {
        let all: Vec<u8> = (0..=0x7f).collect();
        let want = serde_json::to_string(std::str::from_utf8(&all).unwrap()).unwrap();
        assert_eq!(format!("\"{}\"", escaped(&all)), want);
    }

    #[test]
    fn broken_utf8_becomes_replacement_characters() {
        assert_eq!(escaped(b"a\xffb\xe2\x82"), "a\u{fffd}b\u{fffd}");
    }

    proptest! {
        #[test]
        fn escaping_agrees_with_a_json_writer(text in "(.|[a-z\"\\\\\n]{0,80}){0,20}") {
            prop_assert_eq!(format!("\"{}\"", escaped(text.as_bytes())), serde_json::to_string(&text).unwrap());
        }

        #[test]
        fn any_bytes_give_the_lossy_text(bytes: Vec<u8>) {
            let read: String = serde_json::from_str(&format!("\"{}\"", escaped(&bytes))).unwrap();
            prop_assert_eq!(read, String::from_utf8_lossy(&bytes));
        }
    }
}
