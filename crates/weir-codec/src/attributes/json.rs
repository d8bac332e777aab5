//! JSON objects to attributes.

use super::shape::ValueSpan;
use super::{Attributes, PATH_BYTES_MAX, Scalar, Stated};
use crate::json::{Scanner, replace_lone_surrogates};
use crate::{Format, structured};
use weir_model::unescape_json;

/// Maximum nesting depth whose members become paths; deeper ones are omitted.
const DEPTH_MAX: usize = 32;

/// Adds the members of an object that spans the whole text.
pub(super) fn read(object: &[u8], attributes: &mut Attributes) -> Option<Stated> {
    let mut path = std::mem::take(&mut attributes.path);
    let mut spans = std::mem::take(&mut attributes.spans);
    path.clear();
    spans.clear();
    let first = attributes.entries.len();
    let mut walk = Walk { bytes: object, scanner: Scanner::new(object), attributes, path, spans };
    let is_object = walk.object(0).is_some();
    walk.scanner.white_space();
    let is_whole = is_object && walk.scanner.is_at_end();
    Walk { path: attributes.path, spans: attributes.spans, .. } = walk;
    if !is_whole {
        return None;
    }
    if !attributes.is_cut {
        let Attributes { shapes, spans, entries, text, .. } = attributes;
        let entries = entries.get(first..).unwrap_or_default().iter();
        let paths = entries.map(|entry| text.get(entry.path.clone()).unwrap_or_default());
        shapes.learn(object, spans, paths);
    }
    Some(structured::look(Format::Json, object).into())
}

/// Returns the object with its lone surrogates replaced by U+FFFD, since strict parsers reject
/// them; `None` if it has none.
pub(super) fn without_lone_surrogates(object: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(object, b"\\u")?;
    let mut object = object.to_vec();
    replace_lone_surrogates(&mut object).then_some(object)
}

/// Parses a number that spans the whole text.
pub(super) fn number(text: &[u8]) -> Option<Scalar<'static>> {
    if let Some((len, number)) = short_number(text)
        && len == text.len()
    {
        return Some(number);
    }
    let mut scanner = Scanner::new(text);
    scanner.value().filter(|span| span.start == 0)?;
    if !scanner.is_at_end() || !matches!(text.first()?, b'-' | b'0'..=b'9') {
        return None;
    }
    number_value(text)
}

/// Returns the value of a JSON number; `None` if no type can hold it. That includes whole numbers
/// beyond 64 bits: they are usually identifiers rather than quantities, and as floats they would be
/// equal to thousands of others.
fn number_value(text: &[u8]) -> Option<Scalar<'static>> {
    let text = std::str::from_utf8(text).ok()?;
    let is_whole = !text.contains(['.', 'e', 'E']);
    match text.parse::<i64>() {
        Ok(number) if is_whole && text != "-0" => Some(Scalar::Int(number)),
        Err(_) if is_whole => None,
        _ => text.parse::<f64>().ok().filter(|n| n.is_finite()).map(Scalar::Float),
    }
}

/// Whole numbers of this many digits always fit their type.
const SURE_DIGITS: usize = 18;

/// Returns the value at the start of `rest` that is not text, object or array, and its length.
#[inline]
pub(super) fn bare_value(rest: &[u8]) -> Option<(usize, Scalar<'_>)> {
    if let Some(found) = short_number(rest) {
        return Some(found);
    }
    if let b'"' | b'{' | b'[' = rest.first()? {
        return None;
    }
    let text = rest.get(Scanner::new(rest).value()?).filter(|text| rest.starts_with(text))?;
    Some((text.len(), bare_scalar(text)))
}

/// Parses a whole number of few digits, the most common case.
#[inline]
fn short_number(rest: &[u8]) -> Option<(usize, Scalar<'static>)> {
    let sign = usize::from(rest.first() == Some(&b'-'));
    let digits = rest.get(sign..)?;
    let (mut number, mut len) = (0_i64, 0);
    for byte in digits.iter().take(SURE_DIGITS) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + i64::from(digit);
        len += 1;
    }
    let is_as_json = len == 1 || digits.first() != Some(&b'0');
    let is_number = len > 0 && is_as_json && (sign == 0 || number != 0);
    match digits.get(len) {
        Some(b'0'..=b'9' | b'.' | b'e' | b'E') => None,
        _ if is_number => Some((sign + len, Scalar::Int(if sign == 0 { number } else { -number }))),
        _ => None,
    }
}

/// Returns the value of a whole JSON text that is not text, object or array.
fn bare_scalar(text: &[u8]) -> Scalar<'_> {
    match text {
        b"true" => Scalar::Bool(true),
        b"false" => Scalar::Bool(false),
        b"null" => Scalar::Null,
        // A number that no type can hold is kept as written.
        text => number_value(text).unwrap_or(Scalar::Text(text)),
    }
}

struct Walk<'a, 'b> {
    bytes: &'a [u8],
    scanner: Scanner<'a>,
    attributes: &'b mut Attributes,
    path: Vec<u8>,
    spans: Vec<ValueSpan>,
}

impl Walk<'_, '_> {
    fn object(&mut self, depth: usize) -> Option<()> {
        self.scanner.take(b'{')?;
        if self.scanner.take(b'}').is_some() {
            return Some(());
        }
        let outer = self.path.len();
        loop {
            let key = self.scanner.string()?;
            if outer > 0 {
                self.path.push(b'.');
            }
            self.path.extend_from_slice(&unescape_json(self.bytes.get(key)?));
            self.scanner.take(b':')?;
            self.value(depth)?;
            self.path.truncate(outer);
            if self.scanner.take(b'}').is_some() {
                return Some(());
            }
            self.scanner.take(b',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.scanner.take(b'[')?;
        if self.scanner.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(depth)?;
            if self.scanner.take(b']').is_some() {
                return Some(());
            }
            self.scanner.take(b',')?;
        }
    }

    /// Reads the value of the current path.
    fn value(&mut self, depth: usize) -> Option<()> {
        self.scanner.white_space();
        let too_deep = depth >= DEPTH_MAX || self.path.len() > PATH_BYTES_MAX;
        match self.scanner.peek()? {
            b'{' if !too_deep => return self.object(depth + 1),
            b'[' if !too_deep => return self.array(depth + 1),
            _ => {}
        }
        let span = self.scanner.value()?;
        let value = match self.bytes.get(span.clone())? {
            [b'"', text @ .., b'"'] => {
                let text = unescape_json(text);
                self.spans.push(ValueSpan { span: span.start + 1..span.end - 1, is_text: true });
                self.attributes.add(&self.path, Scalar::Text(&text));
                return Some(());
            }
            [b'{' | b'[', ..] => {
                self.attributes.is_cut = true;
                return Some(());
            }
            text => bare_scalar(text),
        };
        self.spans.push(ValueSpan { span, is_text: false });
        self.attributes.add(&self.path, value);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(text: &str) -> Vec<(String, String)> {
        let mut attributes = Attributes::new();
        attributes.read_json(text.as_bytes()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        attributes.iter().map(|(path, value)| (text(path), format!("{value:?}"))).collect()
    }

    #[test]
    fn nested_members_become_paths_and_elements_values_of_one_path() {
        let found = paths(r#"{"a":{"b":[{"c":1},{"c":2.5}]},"t":true,"n":null,"huge":1e400}"#);
        let want = [
            ("a.b.c", "Int(1)"),
            ("a.b.c", "Float(2.5)"),
            ("t", "Bool(true)"),
            ("n", "Null"),
            ("huge", &format!("{:?}", Scalar::Text(b"1e400"))),
        ];
        assert_eq!(found, want.map(|(path, value)| (path.to_owned(), value.to_owned())));
    }

    #[test]
    fn whole_numbers_beyond_their_type_keep_every_digit() {
        for text in ["18446744073709551615", "18446744073709551614", "-9223372036854775809"] {
            let mut attributes = Attributes::new();
            attributes.read_json(format!("{{\"id\":{text}}}").as_bytes()).unwrap();
            let values: Vec<_> = attributes.values(b"id").collect();
            assert_eq!(values, [Scalar::Text(text.as_bytes())]);
            assert_eq!(Scalar::of_word(text.as_bytes()), Scalar::Text(text.as_bytes()));
        }
        for (text, want) in [
            ("9223372036854775807", Scalar::Int(i64::MAX)),
            ("-9223372036854775808", Scalar::Int(i64::MIN)),
            ("1e19", Scalar::Float(1e19)),
            ("-0", Scalar::Float(-0.0)),
        ] {
            assert_eq!(Scalar::of_word(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn escapes_are_undone_in_keys_and_values() {
        let mut attributes = Attributes::new();
        attributes.read_json(br#"{"k\u0065y":"a\nb\u00e9"}"#).unwrap();
        let values: Vec<_> = attributes.values(b"key").collect();
        assert_eq!(values, [Scalar::Text("a\nbé".as_bytes())]);
    }

    #[test]
    fn nesting_without_end_is_refused_or_left_out() {
        let deep = format!("{}1{}", "{\"a\":".repeat(60), "}".repeat(60));
        let mut attributes = Attributes::new();
        assert!(attributes.read_json(deep.as_bytes()).is_some());
        assert!(attributes.is_cut() && attributes.is_empty());
        let endless = "{\"a\":[".repeat(1_000_000);
        assert!(attributes.read_json(endless.as_bytes()).is_none());
    }

    proptest! {
        #[test]
        fn what_is_read_agrees_with_a_json_parser(keys in proptest::collection::btree_map("[a-z\"\\\\é]{1,6}", ".{0,12}", 0..8)) {
            let text = serde_json::to_string(&keys).unwrap();
            let mut attributes = Attributes::new();
            attributes.read_json(text.as_bytes()).unwrap();
            let found: std::collections::BTreeMap<String, String> = attributes
                .iter()
                .map(|(path, value)| {
                    let Scalar::Text(text) = value else { panic!("{value:?}") };
                    (String::from_utf8(path.to_vec()).unwrap(), String::from_utf8(text.to_vec()).unwrap())
                })
                .collect();
            prop_assert_eq!(found, keys);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut attributes = Attributes::new();
            if attributes.read_json(&bytes).is_some() {
                let mut out = Vec::new();
                attributes.write_json(&mut out);
                prop_assert!(crate::is_json_object(&out));
            }
        }
    }
}
