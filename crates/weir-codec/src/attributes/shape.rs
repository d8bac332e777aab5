//! The common shapes of the JSON objects of a stream: the text between their values.
//!
//! Lines written by the same statement of a program differ only in their values. So the texts
//! around the values are remembered, as a tree: each path from its root to an end is the shape of
//! an object that was read before. An object of a known shape is read by comparing these texts and
//! finding the ends of its values, without parsing keys, and its paths are copied at once.
//!
//! Invariants: reading by shape gives exactly what [`super::json::read`] gives, or nothing; the
//! tree is bounded, and objects that are never alike soon cost nothing here.

use std::ops::Range;

use super::json::bare_value;
use super::{ATTRIBUTES_MAX, Cell, Entry, Scalar, Stated};
use crate::json::text_len;
use crate::structured::ScannedFields;
use crate::time::TimeParser;
use weir_model::unescape_json_into;

/// Maximum number of texts, after which all are forgotten and learning starts over.
const NODES_MAX: usize = 1024;
/// Maximum total size of the texts.
const TEXTS_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of texts that may follow the same texts: more are not the keys of one program.
const CHILDREN_MAX: usize = 16;
/// Maximum number of values of a remembered object.
const VALUES_MAX: usize = 256;
/// The cost of learning a shape, and the maximum credit. Each object that is read earns one credit,
/// so if no two objects are alike, few are learned.
const LEARNING_COST: u32 = 32;
const CREDIT_MAX: u32 = 256 * LEARNING_COST;

/// The position of a value in its object, without the quotes of a text.
#[derive(Debug, Clone)]
pub(super) struct ValueSpan {
    pub(super) span: Range<usize>,
    pub(super) is_text: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A text follows; its quotes belong to the surrounding texts.
    Text,
    /// Any other value follows.
    Bare,
    /// Nothing follows.
    End,
}

/// A text between values.
#[derive(Debug, Clone)]
struct Node {
    before: Range<usize>,
    kind: Kind,
    /// The path of the value in the paths of the object; for an end, the range of these paths in
    /// the texts.
    path: Range<usize>,
    /// The key in the texts, if it is one that states time or severity.
    stated: Range<usize>,
    /// First of the possible successors, and the next alternative to this node.
    child: Option<usize>,
    sibling: Option<usize>,
}

/// The known shapes.
#[derive(Debug, Clone)]
pub(super) struct Shapes {
    nodes: Vec<Node>,
    texts: Vec<u8>,
    /// First of the possible first texts.
    root: Option<usize>,
    credit: u32,
    /// How often everything was forgotten.
    generation: u64,
}

impl Default for Shapes {
    fn default() -> Self {
        let (nodes, texts) = (Vec::new(), Vec::new());
        Self { nodes, texts, root: None, credit: CREDIT_MAX, generation: 0 }
    }
}

impl Shapes {
    /// Reads an object of a known shape: its entries, whose texts are appended to `text`. Returns
    /// what it states, if requested, and the number of its shape. If it returns `None`, the caller
    /// must undo what was added.
    pub(super) fn read<const IS_ASKED: bool>(
        &self,
        object: &[u8],
        text: &mut Vec<u8>,
        entries: &mut Vec<Entry>,
        times: &mut TimeParser,
    ) -> Option<(Stated, u64)> {
        let (base, first) = (text.len(), entries.len());
        let mut seen = ScannedFields::default();
        let mut at = 0;
        let mut next = self.root;
        loop {
            let number = self.following(next, object.get(at..)?)?;
            let node = self.nodes.get(number)?;
            at += node.before.len();
            if node.kind == Kind::End {
                self.add_paths(node, first, text, entries);
                let is_all = at == object.len() && entries.len() <= ATTRIBUTES_MAX;
                let shape = self.generation << 32 | number as u64;
                return is_all.then(|| (seen.into(), shape));
            }
            if entries.len() == first {
                text.extend_from_slice(object);
            }
            let rest = object.get(at..)?;
            let (len, value) = match node.kind {
                Kind::Bare => bare_cell(rest, base + at)?,
                _ => text_cell(rest, base + at, text)?,
            };
            let is_stated = IS_ASKED && !node.stated.is_empty();
            if is_stated && !seen.is_enough_at(at) {
                let key = self.texts.get(node.stated.clone())?;
                seen.next_field(key, rest.get(..len)?, node.kind == Kind::Text, times);
            }
            entries.push(Entry { path: node.path.clone(), value });
            at += len;
            next = node.child;
        }
    }

    /// Returns the text at the start of `rest`, among one and its alternatives.
    #[inline]
    fn following(&self, first: Option<usize>, rest: &[u8]) -> Option<usize> {
        let mut next = first;
        loop {
            let number = next?;
            let node = self.nodes.get(number)?;
            let before = self.texts.get(node.before.clone())?;
            if rest.starts_with(before) {
                let after = rest.get(before.len());
                let is_value = !matches!(after, None | Some(b'"' | b'{' | b'[' | b' '));
                match node.kind {
                    Kind::Text => return Some(number),
                    Kind::Bare if is_value => return Some(number),
                    Kind::End if after.is_none() => return Some(number),
                    _ => {}
                }
            }
            next = node.sibling;
        }
    }

    /// Sets the paths of the entries from `first` on.
    fn add_paths(&self, end: &Node, first: usize, text: &mut Vec<u8>, entries: &mut [Entry]) {
        let base = text.len();
        text.extend_from_slice(self.texts.get(end.path.clone()).unwrap_or_default());
        for entry in entries.get_mut(first..).unwrap_or_default() {
            entry.path = entry.path.start + base..entry.path.end + base;
        }
    }

    /// Remembers the shape of an object with these values, whose paths are `paths`.
    pub(super) fn learn<'a>(
        &mut self,
        object: &[u8],
        values: &[ValueSpan],
        paths: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    ) {
        self.credit = (self.credit + 1).min(CREDIT_MAX);
        let is_fit = values.len() == paths.len() && values.len() <= VALUES_MAX;
        if !is_fit || self.credit < LEARNING_COST {
            return;
        }
        self.credit -= LEARNING_COST;
        let bytes = object.len() + paths.clone().map(<[u8]>::len).sum::<usize>();
        if self.nodes.len() + values.len() >= NODES_MAX
            || self.texts.len() + bytes > TEXTS_BYTES_MAX
        {
            self.forget();
        }
        let _ = self.add(object, values, paths);
    }

    /// Records that an object was read by its shape.
    pub(super) fn record_hit(&mut self) {
        self.credit = (self.credit + 1).min(CREDIT_MAX);
    }

    fn forget(&mut self) {
        let (credit, generation) = (self.credit, self.generation + 1);
        *self = Self { credit, generation, ..Self::default() };
    }

    /// Returns `None` if too much follows the same texts.
    fn add<'a>(
        &mut self,
        object: &[u8],
        values: &[ValueSpan],
        paths: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Option<()> {
        let (mut parent, mut at, mut path_at) = (None, 0, 0);
        for (value, path) in values.iter().zip(paths.clone()) {
            let before = object.get(at..value.span.start)?;
            let kind = if value.is_text { Kind::Text } else { Kind::Bare };
            let number = self.child(parent, before, kind)?;
            if let Some(node) = self.nodes.get_mut(number) {
                node.path = path_at..path_at + path.len();
                let key_end = before.len() - stated_tail(before, path).unwrap_or(before.len());
                if key_end > 0 {
                    let start = node.before.start + key_end - path.len();
                    node.stated = start..start + path.len();
                }
            }
            path_at += path.len();
            (parent, at) = (Some(number), value.span.end);
        }
        let end = self.child(parent, object.get(at..)?, Kind::End)?;
        let start = self.texts.len();
        let node = self.nodes.get_mut(end)?;
        if node.path.is_empty() {
            paths.for_each(|path| self.texts.extend_from_slice(path));
            node.path = start..self.texts.len();
        }
        Some(())
    }

    /// Returns the successor of `parent` with this text; it is added if it does not exist.
    fn child(&mut self, parent: Option<usize>, before: &[u8], kind: Kind) -> Option<usize> {
        let first = match parent {
            Some(parent) => self.nodes.get(parent)?.child,
            None => self.root,
        };
        let (mut next, mut count) = (first, 0);
        while let Some(number) = next {
            let node = self.nodes.get(number)?;
            if node.kind == kind && self.texts.get(node.before.clone())? == before {
                return Some(number);
            }
            (next, count) = (node.sibling, count + 1);
        }
        if count >= CHILDREN_MAX {
            return None;
        }
        let (number, start) = (self.nodes.len(), self.texts.len());
        self.texts.extend_from_slice(before);
        let before = start..self.texts.len();
        let (path, stated) = (0..0, 0..0);
        self.nodes.push(Node { before, kind, path, stated, child: None, sibling: first });
        match parent {
            Some(parent) => self.nodes.get_mut(parent)?.child = Some(number),
            None => self.root = Some(number),
        }
        Some(number)
    }
}

/// Returns the number of bytes after the key in the text before a value, if the key occurs there
/// unescaped and states time or severity. An element of an array states nothing.
fn stated_tail(before: &[u8], path: &[u8]) -> Option<usize> {
    if !ScannedFields::may_state(path) {
        return None;
    }
    let colon = before.strip_suffix(b"\"").unwrap_or(before).trim_ascii_end();
    let key = colon.strip_suffix(b":")?.trim_ascii_end().strip_suffix(b"\"")?;
    let is_key = key.strip_suffix(path)?.ends_with(b"\"");
    is_key.then(|| before.len() - key.len())
}

/// Reads the text at the start of `rest`, which is also at `at` in `text`, and its length as
/// written.
#[inline]
fn text_cell(rest: &[u8], at: usize, text: &mut Vec<u8>) -> Option<(usize, Cell)> {
    let (len, is_plain) = text_len(rest)?;
    if is_plain {
        return Some((len, Cell::Text(at..at + len)));
    }
    let start = text.len();
    unescape_json_into(rest.get(..len)?, text);
    Some((len, Cell::Text(start..text.len())))
}

/// Reads the value at the start of `rest` that is not text, and its length as written.
#[inline]
fn bare_cell(rest: &[u8], at: usize) -> Option<(usize, Cell)> {
    let (len, value) = bare_value(rest)?;
    let cell = match value {
        Scalar::Null => Cell::Null,
        Scalar::Bool(truth) => Cell::Bool(truth),
        Scalar::Int(number) => Cell::Int(number),
        Scalar::Float(number) => Cell::Float(number),
        Scalar::Text(_) => Cell::Text(at..at + len),
    };
    Some((len, cell))
}

#[cfg(test)]
mod tests {
    use super::super::{Attributes, json};
    use proptest::prelude::*;

    /// What a reader without shapes returns.
    fn plain(object: &[u8]) -> Option<(String, super::Stated)> {
        let mut attributes = Attributes::new();
        let stated = json::read(object, &mut attributes)?;
        Some((format!("{:?}", attributes.iter().collect::<Vec<_>>()), stated))
    }

    fn read(attributes: &mut Attributes, object: &[u8]) -> Option<(String, super::Stated)> {
        attributes.clear();
        let stated = attributes.read_json(object)?;
        Some((format!("{:?}", attributes.iter().collect::<Vec<_>>()), stated))
    }

    #[test]
    fn an_object_like_one_before_is_read_by_its_shape() {
        let mut attributes = Attributes::new();
        let object = br#"{"time":"2026-11-21T00:00:00Z","level":"warn","n":1,"o":{"p":[1,"x"]}}"#;
        let like = br#"{"time":"2026-11-21T00:00:01Z","level":"info","n":-7.5,"o":{"p":[2,"\n"]}}"#;
        read(&mut attributes, object);
        assert_eq!(attributes.shape(), None);
        assert_eq!(read(&mut attributes, like), plain(like));
        let shape = attributes.shape();
        assert!(shape.is_some());
        assert_eq!(read(&mut attributes, object), plain(object));
        assert_eq!(attributes.shape(), shape);
        attributes.add(b"more", super::Scalar::Null);
        assert_eq!(attributes.shape(), None);
    }

    #[test]
    fn shapes_that_begin_alike_are_told_apart() {
        let mut attributes = Attributes::new();
        let objects: [&[u8]; 14] = [
            br#"{"a":1}"#,
            br#"{"a":"1"}"#,
            br#"{"a": 1}"#,
            br#"{"a":1 }"#,
            br#"{"a":1,"b":2}"#,
            br#"{"a":{"b":2}}"#,
            br#"{"a":[2]}"#,
            br#"{"a":[]}"#,
            br"{}",
            br#"{"a":[1,{"b":2}]}"#,
            br#"{"a":[1,{"b":"2"}],"level":"error"}"#,
            br#"{"level":["error"]}"#,
            br#"{"\u006cevel":"error"}"#,
            br#"{"a":true,"b":2}"#,
        ];
        for _ in 0..3 {
            for object in objects {
                let text = String::from_utf8_lossy(object);
                assert_eq!(read(&mut attributes, object), plain(object), "{text}");
                for cut in 0..object.len() {
                    let cut = &object[..cut];
                    assert_eq!(read(&mut attributes, cut), plain(cut), "{text} cut");
                }
            }
        }
    }

    #[test]
    fn objects_that_are_never_alike_are_soon_not_remembered() {
        let mut attributes = Attributes::new();
        for number in 0..100_000 {
            let object = format!("{{\"key{number}\":1,\"b\":{{\"key{number}\":2}}}}");
            assert_eq!(read(&mut attributes, object.as_bytes()), plain(object.as_bytes()));
        }
        assert!(attributes.shapes.credit < super::LEARNING_COST);
        assert!(attributes.shapes.nodes.len() <= super::NODES_MAX);
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?(e[0-9]{1,3})?",
            "\"[a-z\" é]{0,40}",
            "\"([a-z{}:,]|\\\\n|\\\\u0041|\\\\\"){0,50}\"",
            "\\[(1,)?\"x\"\\]",
            "\\{\"time\":[0-9]{1,13}\\}",
            "[01tn-]{1,3}",
        ]
    }

    fn object() -> impl Strategy<Value = String> {
        let key = prop_oneof![Just("a"), Just("time"), Just("level"), Just("a\\u0062")];
        let member = (key, prop_oneof![Just(":"), Just(" : ")], value());
        proptest::collection::vec(member, 0..4).prop_map(|members| {
            let members: Vec<String> = members
                .iter()
                .map(|(key, colon, value)| format!("\"{key}\"{colon}{value}"))
                .collect();
            format!("{{{}}}", members.join(","))
        })
    }

    proptest! {
        #[test]
        fn a_shape_changes_nothing(objects in proptest::collection::vec(object(), 1..40)) {
            let mut attributes = Attributes::new();
            for object in objects.iter().chain(&objects) {
                prop_assert_eq!(read(&mut attributes, object.as_bytes()), plain(object.as_bytes()));
            }
        }
    }
}
