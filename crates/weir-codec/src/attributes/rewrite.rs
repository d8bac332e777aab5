//! Rewrites a JSON object with some of its values changed or removed.
//!
//! Invariants: unchanged parts are copied byte for byte; the result is valid JSON; inserted text is
//! escaped, and a number that becomes text is quoted.

use weir_model::unescape_json;

use super::PATH_BYTES_MAX;
use crate::escape_json_into;
use crate::json::{DEPTH_MAX, Scanner};

/// What to do with a member or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Keep it.
    Keep,
    /// Replace it with this text.
    Text(Vec<u8>),
    /// Remove it if it is a member; as an element of an array, it becomes null.
    Remove,
}

/// The parts for which [`rewrite_json`] asks for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The key of a member, unescaped, before its value is visited.
    Key(&'a [u8]),
    /// A text, unescaped.
    Text(&'a [u8]),
    /// A number as written.
    Number(&'a [u8]),
}

/// Asks what to do with each key, text and number of an object; `path` is as in
/// [`super::Attributes`], and for a key it includes the key. Keys can be removed with their values,
/// or renamed. Returns `None` if the object is not valid JSON, or if nothing changes.
pub fn rewrite_json(
    object: &[u8],
    change: &mut dyn FnMut(&[u8], Part<'_>) -> Change,
) -> Option<Vec<u8>> {
    let mut rewriter = Rewriter {
        bytes: object,
        scanner: Scanner::new(object),
        change,
        path: Vec::new(),
        out: Vec::new(),
        copied: 0,
        depth: 0,
        is_changed: false,
    };
    rewriter.object()?;
    rewriter.scanner.white_space();
    if !rewriter.scanner.is_at_end() || !rewriter.is_changed {
        return None;
    }
    rewriter.copy_to(object.len());
    Some(rewriter.out)
}

struct Rewriter<'a, 'b> {
    bytes: &'a [u8],
    scanner: Scanner<'a>,
    change: &'b mut dyn FnMut(&[u8], Part<'_>) -> Change,
    path: Vec<u8>,
    out: Vec<u8>,
    /// How much of `bytes` was copied to `out`, or removed.
    copied: usize,
    depth: usize,
    is_changed: bool,
}

impl Rewriter<'_, '_> {
    fn copy_to(&mut self, end: usize) {
        if !self.is_changed {
            // The first change: most objects have none, and cost no memory.
            self.out.reserve(self.bytes.len());
        }
        self.out.extend_from_slice(self.bytes.get(self.copied..end).unwrap_or_default());
        self.copied = end.max(self.copied);
    }

    fn ask(&mut self, part: Part<'_>) -> Change {
        (self.change)(&self.path, part)
    }

    /// Replaces the bytes from `start` to `end` with a text.
    fn replace(&mut self, start: usize, end: usize, text: &[u8]) {
        self.copy_to(start);
        self.out.push(b'"');
        escape_json_into(text, &mut self.out);
        self.out.push(b'"');
        self.copied = end;
        self.is_changed = true;
    }

    fn object(&mut self) -> Option<()> {
        self.scanner.take(b'{')?;
        if self.scanner.take(b'}').is_some() {
            return Some(());
        }
        let outer = self.path.len();
        // Whether a member of this object was written, so that the next one needs a comma.
        let mut has_members = false;
        let mut comma_at = None;
        loop {
            let key = self.scanner.string()?;
            let key_text = unescape_json(self.bytes.get(key.clone())?);
            if outer > 0 {
                self.path.push(b'.');
            }
            let room = PATH_BYTES_MAX.saturating_sub(self.path.len()).min(key_text.len());
            self.path.extend_from_slice(key_text.get(..room)?);
            let verdict = self.ask(Part::Key(&key_text));
            self.scanner.take(b':')?;
            if verdict == Change::Remove {
                self.copy_to(comma_at.unwrap_or(key.start - 1));
                self.copied = self.scanner.value()?.end;
                self.is_changed = true;
            } else {
                if let (Some(comma), false) = (comma_at, has_members) {
                    // All members before this one were removed, and so was the comma.
                    self.copy_to(comma);
                    self.copied = comma + 1;
                }
                if let Change::Text(new) = verdict {
                    self.replace(key.start - 1, key.end + 1, &new);
                }
                has_members = true;
                self.value()?;
            }
            self.path.truncate(outer);
            if self.scanner.take(b'}').is_some() {
                return Some(());
            }
            self.scanner.white_space();
            comma_at = Some(self.scanner.offset());
            self.scanner.take(b',')?;
        }
    }

    fn array(&mut self) -> Option<()> {
        self.scanner.take(b'[')?;
        if self.scanner.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value()?;
            if self.scanner.take(b']').is_some() {
                return Some(());
            }
            self.scanner.take(b',')?;
        }
    }

    fn value(&mut self) -> Option<()> {
        self.scanner.white_space();
        match self.scanner.peek()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            _ => self.leaf(),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth >= DEPTH_MAX {
            return None;
        }
        read(self)?;
        self.depth -= 1;
        Some(())
    }

    fn leaf(&mut self) -> Option<()> {
        let span = self.scanner.value()?;
        let change = match self.bytes.get(span.clone())? {
            [b'"', text @ .., b'"'] => {
                let text = unescape_json(text);
                self.ask(Part::Text(&text))
            }
            number @ [b'-' | b'0'..=b'9', ..] => self.ask(Part::Number(number)),
            _ => Change::Keep,
        };
        match change {
            Change::Keep => {}
            Change::Text(text) => self.replace(span.start, span.end, &text),
            Change::Remove => {
                self.copy_to(span.start);
                self.out.extend_from_slice(b"null");
                self.copied = span.end;
                self.is_changed = true;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn without(object: &str, path: &str) -> Option<String> {
        let mut change = |found: &[u8], part: Part<'_>| match part {
            Part::Key(_) if found == path.as_bytes() => Change::Remove,
            _ => Change::Keep,
        };
        rewrite_json(object.as_bytes(), &mut change).map(|out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn members_are_removed_wherever_they_stand() {
        let cases = [
            (r#"{"a":1,"b":2,"c":3}"#, "a", r#"{"b":2,"c":3}"#),
            (r#"{"a":1,"b":2,"c":3}"#, "b", r#"{"a":1,"c":3}"#),
            (r#"{"a":1,"b":2,"c":3}"#, "c", r#"{"a":1,"b":2}"#),
            (r#"{"a":1}"#, "a", "{}"),
            (
                r#"{ "a" : {"b":[1,{"x":2}]} , "c" : 1 }"#,
                "a.b.x",
                r#"{ "a" : {"b":[1,{}]} , "c" : 1 }"#,
            ),
            (r#"{"a":1,"a":2,"b":3}"#, "a", r#"{"b":3}"#),
            (r#"{"a":1,"b":3,"a":2}"#, "a", r#"{"b":3}"#),
        ];
        for (object, path, want) in cases {
            let got = without(object, path).unwrap();
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(read(&got), read(want), "{object} without {path}: {got}");
        }
        assert_eq!(without(r#"{"a":1}"#, "b"), None);
        assert_eq!(without(r#"{"a":1"#, "a"), None);
    }

    #[test]
    fn texts_and_numbers_are_changed_and_the_rest_stays_byte_for_byte() {
        let object = br#"{ "n": 41, "t":"a\u0062c", "l":[true, "abc",null], "k":{"abc":1.50}}"#;
        let mut change = |_: &[u8], part: Part<'_>| match part {
            Part::Text(b"abc") => Change::Text(b"\"\n".to_vec()),
            Part::Number(b"41") => Change::Text(b"x".to_vec()),
            Part::Key(b"abc") => Change::Text(b"renamed".to_vec()),
            _ => Change::Keep,
        };
        let out = rewrite_json(object, &mut change).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{ "n": "x", "t":"\"\n", "l":[true, "\"\n",null], "k":{"renamed":1.50}}"#
        );
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            "[a-c\"\\\\\n]{0,4}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::btree_map("[a-c]{1,2}", inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The same, using a tree.
    fn prune(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(map) => {
                map.retain(|key, _| !key.starts_with('a'));
                map.values_mut().for_each(prune);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(prune),
            serde_json::Value::String(text) if text.contains('b') => *text = "B".to_owned(),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn rewriting_agrees_with_a_tree(map in proptest::collection::btree_map("[a-c]{1,2}", value(), 0..6), pretty: bool) {
            let mut tree = serde_json::Value::Object(map.into_iter().collect());
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
            let mut change = |_: &[u8], part: Part<'_>| match part {
                Part::Key(key) if key.starts_with(b"a") => Change::Remove,
                Part::Text(text) if text.contains(&b'b') => Change::Text(b"B".to_vec()),
                _ => Change::Keep,
            };
            let out = rewrite_json(text.as_bytes(), &mut change);
            let before = tree.clone();
            prune(&mut tree);
            let seen = out.map_or(before, |out| serde_json::from_slice(&out).unwrap());
            prop_assert_eq!(seen, tree);
        }
    }
}
