//! Structured data of RFC 5424: `[id name="value" ...][...]`, and the attributes made from it.
//!
//! In values, `"`, `\` and `]` are escaped by a backslash; a backslash before anything else stands
//! for itself. Each value becomes the attribute `syslog.<id>.<name>`; the values of a name that is
//! repeated, in one element or in elements with the same id, become an array, as everywhere in
//! [`Attributes`].
//!
//! Invariants: nothing is allocated once the buffers are warm; at most
//! [`ATTRIBUTES_MAX`](crate::ATTRIBUTES_MAX) values are written.

use crate::attributes::{ATTRIBUTES_MAX, Attributes, PATH_BYTES_MAX, Scalar, short_hash};
use crate::escape::escape_json_into;
use crate::structured::quoted_len;

/// What the names of attributes from structured data begin with.
const PREFIX: &[u8] = b"syslog.";

/// One value of structured data; still escaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Calls `visit` with each value; returns the length of the structured data at the start of
/// `text`. `None` if it is not well-formed; some values may have been visited by then.
#[inline]
pub(crate) fn read<'a>(text: &'a [u8], mut visit: impl FnMut(Parameter<'a>)) -> Option<usize> {
    let mut rest = text;
    while let Some(element) = rest.strip_prefix(b"[") {
        let end = element.iter().position(|b| matches!(b, b' ' | b']'))?;
        let (id, mut after) = element.split_at_checked(end)?;
        if id.is_empty() || !id.iter().all(|b| is_name_byte(*b)) {
            return None;
        }
        loop {
            let blanks = after.iter().take_while(|b| **b == b' ').count();
            let pair = after.get(blanks..)?;
            if let Some(next) = pair.strip_prefix(b"]") {
                rest = next;
                break;
            }
            if blanks == 0 {
                return None;
            }
            let equals = pair.iter().position(|b| !is_name_byte(*b))?;
            let (name, value) = pair.split_at_checked(equals)?;
            let value = value.strip_prefix(b"=\"")?;
            let len = quoted_len(value)?;
            if name.is_empty() {
                return None;
            }
            visit(Parameter { id, name, value: value.get(..len)? });
            after = value.get(len + 1..)?;
        }
    }
    Some(text.len() - rest.len())
}

#[inline]
fn is_name_byte(byte: u8) -> bool {
    !matches!(byte, b'=' | b']' | b'"' | b' ' | b'[')
}

/// Appends a value without its escapes.
pub(crate) fn unescape_into(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        out.extend_from_slice(before);
        match escape {
            [_, next @ (b'"' | b'\\' | b']'), after @ ..] => {
                out.push(*next);
                rest = after;
            }
            [backslash, after @ ..] => {
                out.push(*backslash);
                rest = after;
            }
            [] => rest = escape,
        }
    }
    out.extend_from_slice(rest);
}

/// Adds the values of structured data to a set of attributes. Returns `None` if it is not
/// well-formed.
pub(crate) fn add_to(text: &[u8], attributes: &mut Attributes) -> Option<usize> {
    let (mut path, mut plain) = (Vec::new(), Vec::new());
    read(text, |parameter| {
        path.clear();
        for part in [PREFIX, parameter.id, b".", parameter.name] {
            path.extend_from_slice(part);
        }
        plain.clear();
        unescape_into(parameter.value, &mut plain);
        attributes.add(&path, Scalar::Text(&plain));
    })
}

/// Writes the values of structured data as one JSON object.
#[derive(Debug, Clone, Default)]
pub(crate) struct ElementWriter {
    plain: Vec<u8>,
    /// For data with repeated names, or too much of it.
    attributes: Attributes,
}

impl ElementWriter {
    /// Appends a JSON object with the values of well-formed structured data; nothing if there are
    /// none.
    pub(crate) fn write(&mut self, data: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        if self.write_unique(data, out) {
            return;
        }
        out.truncate(start);
        self.attributes.clear();
        if add_to(data, &mut self.attributes).is_some() && !self.attributes.is_empty() {
            self.attributes.write_json(out);
        }
    }

    /// Returns false if a name may be repeated, or if there is more than attributes can have.
    fn write_unique(&mut self, data: &[u8], out: &mut Vec<u8>) -> bool {
        let (mut seen, mut count, mut is_unique) = ([0_u64; 16], 0, true);
        let plain = &mut self.plain;
        let (is_plain, has_escapes) = (is_plain(data), memchr::memchr(b'\\', data).is_some());
        out.reserve(data.len() * 2);
        let read = read(data, |Parameter { id, name, value }| {
            let hash = short_hash(name).wrapping_add(short_hash(id).wrapping_mul(31)) % 1024;
            let bit = 1 << (hash % 64);
            let word = seen.get_mut(hash / 64);
            let is_new = word.is_some_and(|word| {
                let is_new = *word & bit == 0;
                *word |= bit;
                is_new
            });
            let is_short = PREFIX.len() + id.len() + 1 + name.len() <= PATH_BYTES_MAX;
            is_unique &= is_new && is_short && count < ATTRIBUTES_MAX;
            if !is_unique {
                return;
            }
            out.extend_from_slice(if count == 0 { b"{\"syslog." } else { b",\"syslog." });
            count += 1;
            let push_name = |name: &[u8], out: &mut Vec<u8>| {
                if is_plain && !has_escapes {
                    out.extend_from_slice(name);
                } else {
                    escape_json_into(name, out);
                }
            };
            push_name(id, out);
            out.push(b'.');
            push_name(name, out);
            out.extend_from_slice(b"\":\"");
            if is_plain && !has_escapes {
                out.extend_from_slice(value);
            } else if is_plain {
                push_plain_value(value, out);
            } else {
                plain.clear();
                unescape_into(value, plain);
                escape_json_into(plain, out);
            }
            out.push(b'"');
        });
        if count > 0 {
            out.push(b'}');
        }
        is_unique && read.is_some()
    }
}

/// Appends a value without control characters as the content of a JSON string, in which the same
/// characters are escaped, except for `]`.
fn push_plain_value(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        out.extend_from_slice(before);
        rest = match escape {
            [_, next @ (b'"' | b'\\'), after @ ..] => {
                out.extend_from_slice(&[b'\\', *next]);
                after
            }
            [_, b']', after @ ..] => {
                out.push(b']');
                after
            }
            [_, after @ ..] => {
                out.extend_from_slice(b"\\\\");
                after
            }
            [] => escape,
        };
    }
    out.extend_from_slice(rest);
}

/// Returns true for ASCII text without control characters.
#[expect(clippy::needless_bitwise_bool, reason = "a lazy operator would be a branch per byte")]
#[inline]
fn is_plain(data: &[u8]) -> bool {
    !data.iter().fold(false, |any, b| any | (*b < 0x20) | (*b >= 0x80))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(data: &[u8]) -> String {
        let mut out = Vec::new();
        ElementWriter::default().write(data, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn collected(data: &[u8]) -> String {
        let (mut attributes, mut out) = (Attributes::new(), Vec::new());
        if add_to(data, &mut attributes).is_some() && !attributes.is_empty() {
            attributes.write_json(&mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_become_attributes_and_repeated_names_arrays() {
        assert_eq!(
            written(br#"[ex@1 a="1" b="x\"y\]z\\\n"][two][three q=""]"#),
            r#"{"syslog.ex@1.a":"1","syslog.ex@1.b":"x\"y]z\\\\n","syslog.three.q":""}"#
        );
        assert_eq!(
            written(br#"[a x="1" y="2"][a x="3"][b x="4"]"#),
            r#"{"syslog.a.x":["1","3"],"syslog.a.y":"2","syslog.b.x":"4"}"#
        );
        assert_eq!(written(b"[two]"), "");
        let many = format!("[id{}]", r#" a="1""#.repeat(5000));
        assert_eq!(written(many.as_bytes()).matches("\"1\"").count(), ATTRIBUTES_MAX);
    }

    #[test]
    fn malformed_structured_data_is_not_parsed() {
        for text in [
            "[",
            "[]",
            "[ ]",
            "[id",
            "[id a]",
            "[id a=]",
            "[id a=\"]",
            "[id a=\"x\"b=\"y\"]",
            "[id =\"x\"]",
            "[id a=\"x\"",
            "[id a=\"x\\\"]",
            "[=x a=\"1\"]",
            "[a][b",
        ] {
            assert_eq!(read(text.as_bytes(), |_| ()), None, "{text}");
        }
        assert_eq!(read(b"", |_| ()), Some(0));
        assert_eq!(read(b"[a][b  c=\"d\" ] [e]", |_| ()), Some(14));
    }

    proptest! {
        #[test]
        fn both_ways_to_write_agree(
            data in r#"(\[[a-c\\é]{1,2}( [a-b\\é]{1,2}="([a-z]|\\["\\\]a]|é|\t){0,5}"){0,3}\]){0,3}"#
        ) {
            prop_assert_eq!(written(data.as_bytes()), collected(data.as_bytes()));
        }

        #[test]
        fn any_bytes_give_an_object_or_nothing(data: Vec<u8>) {
            let data = [b"[a b=\"".as_slice(), &data, b"\"]"].concat();
            if read(&data, |_| ()).is_some() {
                prop_assert!(crate::is_json_object(written(&data).as_bytes()));
            }
        }
    }
}
