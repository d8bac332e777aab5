//! The fields of a record: flat paths with typed values.
//!
//! Invariants: one [`Attributes`] is reused for one record after another and allocates nothing once
//! it is warm; a line that does not parse in a format leaves no trace of the attempt; at most
//! [`ATTRIBUTES_MAX`] values are kept, and [`Attributes::is_cut`] reports whether there were more.
//!
//! Nested objects become paths with dots, elements of arrays are values of the same path:
//! `{"http":{"method":"GET"},"tags":["a","b"]}` is `http.method` = GET, `tags` = a, `tags` = b.

mod access_log;
mod json;
mod logfmt;
mod renames;
mod rewrite;
mod shape;
mod syslog;

pub use access_log::{LineFormat, LineFormatError};
pub use renames::Renames;
pub use rewrite::{Change, Part, rewrite_json};

use std::io::Write as _;
use std::ops::Range;

use weir_model::Severity;

use crate::time::{TimeParser, push_number};
use crate::{escape_json_into, structured};

/// Maximum number of values per record: far more than people write, and a limit on what a hostile
/// record can make every rule search.
pub const ATTRIBUTES_MAX: usize = 1024;

/// Maximum length of a path in bytes; longer ones are omitted.
pub const PATH_BYTES_MAX: usize = 1024;

/// A value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// Present, without a value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text; bytes that are not UTF-8 survive.
    Text(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// Returns the value of an unquoted word: a number or a truth value if it is written as in JSON
    /// (so not `007`), otherwise text.
    pub fn of_word(word: &'a [u8]) -> Self {
        match word {
            b"true" => Self::Bool(true),
            b"false" => Self::Bool(false),
            [b'0'..=b'9' | b'-', ..] => json::number(word).unwrap_or(Self::Text(word)),
            _ => Self::Text(word),
        }
    }

    /// Appends the value as JSON, from which the same value can be read again.
    pub fn write_json(self, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        match self {
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Int(number) => push_int(number, out),
            Self::Float(number) if number.is_finite() => drop(write!(out, "{number:?}")),
            Self::Null | Self::Float(_) => out.extend_from_slice(b"null"),
            Self::Text(text) => {
                out.push(b'"');
                escape_json_into(text, out);
                out.push(b'"');
            }
        }
    }
}

/// Returns ten bits that distinguish names by their length and both ends.
#[inline]
pub(crate) fn short_hash(name: &[u8]) -> usize {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let ends = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => {
            u64::from_le_bytes(*first).wrapping_mul(3) ^ u64::from_le_bytes(*last)
        }
        _ => name.iter().fold(0, |ends, byte| ends << 8 | u64::from(*byte)),
    };
    ((ends ^ name.len() as u64).wrapping_mul(SPREAD) >> 54) as usize
}

fn push_int(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    push_number(number.unsigned_abs(), out);
}

/// What a line states besides its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stated {
    /// Time of the event, nanoseconds since 1970.
    pub time_ns: Option<i64>,
    /// Severity; `UNSPECIFIED` if it states none.
    pub severity: Severity,
}

impl From<structured::ScannedFields> for Stated {
    fn from(seen: structured::ScannedFields) -> Self {
        Self { time_ns: seen.time_ns(), severity: seen.severity }
    }
}

/// Returns the number of a month from its name in log lines.
pub(crate) fn month_number(name: &[u8]) -> Option<usize> {
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    MONTHS.iter().position(|month| *month == name).map(|index| index + 1)
}

#[derive(Debug, Clone)]
enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Range<usize>),
}

#[derive(Debug, Clone)]
struct Entry {
    path: Range<usize>,
    value: Cell,
}

/// Paths and values of one record, in the order in which they were found.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    /// Bytes of all paths and texts.
    text: Vec<u8>,
    entries: Vec<Entry>,
    is_cut: bool,
    /// The path of the member being read; kept to reuse its memory.
    path: Vec<u8>,
    /// The positions of the values of the object being read; kept to reuse their memory.
    spans: Vec<shape::ValueSpan>,
    /// Shapes of objects read earlier, over all records.
    shapes: shape::Shapes,
    times: TimeParser,
    /// The shape that all entries come from, if there is one.
    shape: Option<u64>,
}

impl Attributes {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes everything, for the next record.
    pub fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
        self.is_cut = false;
        self.shape = None;
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there were more values than allowed.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns an identifier of the paths and their order: if it is equal to that of an earlier
    /// record read into this, so are they. `None` if unknown.
    pub fn shape(&self) -> Option<u64> {
        self.shape
    }

    /// Returns all paths and values in order; a path occurs once for each of its values.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Scalar<'_>)> + Clone {
        self.entries.iter().map(|entry| (self.slice(&entry.path), self.scalar(&entry.value)))
    }

    /// Returns the value with that index in the order of [`Self::iter`].
    #[inline]
    pub fn get(&self, index: usize) -> Option<Scalar<'_>> {
        self.entries.get(index).map(|entry| self.scalar(&entry.value))
    }

    /// Returns every value of a path.
    pub fn values<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = Scalar<'a>> {
        self.iter().filter(move |(found, _)| *found == path).map(|(_, value)| value)
    }

    /// Adds the members of a JSON object. Returns `None`, without adding anything, if it is not
    /// one.
    pub fn read_json(&mut self, object: &[u8]) -> Option<Stated> {
        self.read_object::<true>(object)
    }

    /// Like [`Self::read_json`], for callers that do not need what the object states.
    pub fn read_members(&mut self, object: &[u8]) -> Option<()> {
        self.read_object::<false>(object).map(drop)
    }

    fn read_object<const IS_ASKED: bool>(&mut self, object: &[u8]) -> Option<Stated> {
        let (first, start) = (self.entries.len(), self.text.len());
        let Self { shapes, text, entries, times, .. } = self;
        if let Some((stated, shape)) = shapes.read::<IS_ASKED>(object, text, entries, times) {
            self.shapes.record_hit();
            self.shape = (first == 0).then_some(shape);
            return Some(stated);
        }
        self.entries.truncate(first);
        self.text.truncate(start);
        self.attempt(|attributes| json::read(object, attributes)).or_else(|| {
            let repaired = json::without_lone_surrogates(object)?;
            self.attempt(|attributes| json::read(&repaired, attributes))
        })
    }

    /// Adds `key=value` pairs. Returns `None`, without adding anything, if there are none.
    pub fn read_logfmt(&mut self, line: &[u8]) -> Option<Stated> {
        self.attempt(|attributes| logfmt::read(line, attributes))
    }

    /// Like [`Self::read_logfmt`], for a line that may not be logfmt: one that does not begin with
    /// a pair is prose, which may also contain pairs.
    pub fn read_if_logfmt(&mut self, line: &[u8]) -> Option<Stated> {
        let first = structured::next_pair(line.trim_ascii_start());
        let is_pair = first.is_some_and(|(_, value, _)| value.is_some());
        if is_pair { self.read_logfmt(line) } else { None }
    }

    /// Adds the variables of a line in an access-log format. Returns `None`, without adding
    /// anything, if the line is in another format.
    pub fn read_line(&mut self, line: &[u8], format: &LineFormat) -> Option<Stated> {
        self.attempt(|attributes| format.read(line, attributes))
    }

    /// Adds the header of a syslog line (RFC 5424 or RFC 3164, with or without its priority).
    /// Returns `None`, without adding anything, if there is none. A time with neither year nor zone
    /// is UTC, in the year that brings it nearest to `near_ns`, nanoseconds since 1970.
    pub fn read_syslog(&mut self, line: &[u8], near_ns: i64) -> Option<Stated> {
        self.attempt(|attributes| syslog::read(line, near_ns, attributes))
    }

    fn attempt(&mut self, read: impl FnOnce(&mut Self) -> Option<Stated>) -> Option<Stated> {
        let (entries, text, is_cut) = (self.entries.len(), self.text.len(), self.is_cut);
        let stated = read(self);
        self.shape = None;
        if stated.is_none() {
            self.entries.truncate(entries);
            self.text.truncate(text);
            self.is_cut = is_cut;
        }
        stated
    }

    /// Adds a value to a path, keeping existing ones.
    pub fn add(&mut self, path: &[u8], value: Scalar<'_>) {
        self.shape = None;
        if self.entries.len() >= ATTRIBUTES_MAX || path.is_empty() || path.len() > PATH_BYTES_MAX {
            self.is_cut = true;
            return;
        }
        let path = self.keep(path);
        let value = match value {
            Scalar::Null => Cell::Null,
            Scalar::Bool(truth) => Cell::Bool(truth),
            Scalar::Int(number) => Cell::Int(number),
            Scalar::Float(number) => Cell::Float(number),
            Scalar::Text(text) => Cell::Text(self.keep(text)),
        };
        self.entries.push(Entry { path, value });
    }

    /// Returns true if the path, or one below it, has a value.
    pub fn has(&self, path: &[u8]) -> bool {
        self.iter().any(|(found, _)| renames::below(found, path).is_some())
    }

    /// Sets a path to one value, replacing existing values of it and of the paths below it.
    pub fn set(&mut self, path: &[u8], value: Scalar<'_>) {
        self.remove(path);
        self.add(path, value);
    }

    /// Removes a path and those below it. Returns false if there is none.
    pub fn remove(&mut self, path: &[u8]) -> bool {
        self.shape = None;
        let before = self.entries.len();
        let text = &self.text;
        self.entries.retain(|entry| {
            let found = text.get(entry.path.clone()).unwrap_or_default();
            renames::below(found, path).is_none()
        });
        self.entries.len() < before
    }

    /// Drops the second half of the values, because all of them together are too large.
    pub fn cut_in_half(&mut self) {
        self.entries.truncate(self.entries.len() / 2);
        self.is_cut = true;
        self.shape = None;
    }

    /// Replaces texts and numbers for which `change` returns a text; numbers are passed to it as
    /// JSON. Returns true if any was replaced.
    pub fn change_values(
        &mut self,
        mut change: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>,
    ) -> bool {
        let mut number = Vec::new();
        let mut is_changed = false;
        for index in 0..self.entries.len() {
            let Some(Entry { path, value }) = self.entries.get(index) else { continue };
            let path = self.slice(path);
            let new = match value {
                Cell::Text(text) => change(path, self.slice(text)),
                Cell::Int(_) | Cell::Float(_) => {
                    number.clear();
                    self.scalar(value).write_json(&mut number);
                    change(path, &number)
                }
                Cell::Null | Cell::Bool(_) => None,
            };
            let Some(new) = new else { continue };
            let new = self.keep(&new);
            if let Some(entry) = self.entries.get_mut(index) {
                entry.value = Cell::Text(new);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Renames the paths for which `change` returns another one. Returns true if any was renamed.
    pub fn change_paths(&mut self, change: impl Fn(&[u8]) -> Option<Vec<u8>>) -> bool {
        let mut is_changed = false;
        for index in 0..self.entries.len() {
            let path = self.entries.get(index).map(|entry| self.slice(&entry.path));
            let Some(new) = path.and_then(&change) else { continue };
            let new = self.keep(&new);
            self.shape = None;
            if let Some(entry) = self.entries.get_mut(index) {
                entry.path = new;
                is_changed = true;
            }
        }
        is_changed
    }

    /// Appends one compact JSON object with the paths as keys; several values of a path become an
    /// array.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let may_repeat = self.may_repeat();
        for (index, (path, value)) in self.iter().enumerate() {
            if may_repeat && self.iter().take(index).any(|(earlier, _)| earlier == path) {
                continue;
            }
            if index > 0 {
                out.push(b',');
            }
            out.push(b'"');
            escape_json_into(path, out);
            out.extend_from_slice(b"\":");
            if may_repeat {
                self.write_values(path, out);
            } else {
                value.write_json(out);
            }
        }
        out.push(b'}');
    }

    /// Writes the value of a path, or a list of its values.
    fn write_values(&self, path: &[u8], out: &mut Vec<u8>) {
        let mut values = self.values(path);
        let (Some(first), Some(second)) = (values.next(), values.next()) else {
            return self.values(path).for_each(|value| value.write_json(out));
        };
        out.push(b'[');
        first.write_json(out);
        for value in std::iter::once(second).chain(values) {
            out.push(b',');
            value.write_json(out);
        }
        out.push(b']');
    }

    /// Returns false if no path has several values, as far as this can be determined without
    /// comparing all pairs.
    fn may_repeat(&self) -> bool {
        let mut seen = [0_u64; 16];
        self.iter().any(|(path, _)| {
            let hash = short_hash(path);
            let bit = 1 << (hash % 64);
            let Some(word) = seen.get_mut(hash / 64) else { return true };
            let is_seen = *word & bit != 0;
            *word |= bit;
            is_seen
        })
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(bytes);
        start..self.text.len()
    }

    #[inline]
    fn slice(&self, span: &Range<usize>) -> &[u8] {
        self.text.get(span.clone()).unwrap_or_default()
    }

    #[inline]
    fn scalar(&self, cell: &Cell) -> Scalar<'_> {
        match cell {
            Cell::Null => Scalar::Null,
            Cell::Bool(truth) => Scalar::Bool(*truth),
            Cell::Int(number) => Scalar::Int(*number),
            Cell::Float(number) => Scalar::Float(*number),
            Cell::Text(span) => Scalar::Text(self.slice(span)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(attributes: &Attributes) -> String {
        let mut out = Vec::new();
        attributes.write_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_path_is_set_and_removed_with_what_is_below_it() {
        let mut attributes = Attributes::new();
        attributes.read_json(br#"{"a":{"b":1,"c":[2,3]},"ab":"x"}"#).unwrap();
        assert_eq!(json(&attributes), r#"{"a.b":1,"a.c":[2,3],"ab":"x"}"#);
        attributes.set(b"a", Scalar::Bool(true));
        assert_eq!(json(&attributes), r#"{"ab":"x","a":true}"#);
        assert!(attributes.remove(b"ab") && !attributes.remove(b"ab"));
        assert_eq!(json(&attributes), r#"{"a":true}"#);
    }

    #[test]
    fn a_line_of_logfmt_begins_with_a_pair() {
        let mut attributes = Attributes::new();
        assert!(attributes.read_if_logfmt(b" at=info cached rows=3").is_some());
        assert_eq!(json(&attributes), r#"{"at":"info","cached":true,"rows":3}"#);
    }

    #[test]
    fn text_that_does_not_parse_leaves_no_trace() {
        let mut attributes = Attributes::new();
        attributes.add(b"kept", Scalar::Int(1));
        assert_eq!(attributes.read_json(br#"{"a":1,"b":"#), None);
        assert_eq!(attributes.read_json(b"[1]"), None);
        assert_eq!(attributes.read_logfmt(b"just words"), None);
        let prose = b"Dec 10 11:04:43 host sshd[1]: authentication failure; logname= uid=0 euid=0";
        assert_eq!(attributes.read_if_logfmt(prose), None);
        assert_eq!(attributes.read_syslog(b"no header here", 0), None);
        assert_eq!(json(&attributes), r#"{"kept":1}"#);
    }

    #[test]
    fn a_record_of_too_many_attributes_is_cut() {
        let members: Vec<String> = (0..100_000).map(|i| format!("\"k{i}\":{i}")).collect();
        let text = format!("{{{}}}", members.join(","));
        let mut attributes = Attributes::new();
        attributes.read_json(text.as_bytes()).unwrap();
        assert!(attributes.is_cut());
        assert_eq!(attributes.iter().count(), ATTRIBUTES_MAX);
        attributes.clear();
        assert!(!attributes.is_cut() && attributes.is_empty());
    }

    #[test]
    fn texts_are_changed_in_place() {
        let mut attributes = Attributes::new();
        attributes.read_json(br#"{"a":"secret","b":"open","n":1}"#).unwrap();
        let is_changed =
            attributes.change_values(|_, text| (text == b"secret").then(|| b"***".to_vec()));
        assert!(is_changed);
        assert_eq!(json(&attributes), r#"{"a":"***","b":"open","n":1}"#);
        assert!(!attributes.change_values(|_, _| None));
    }

    #[test]
    fn numbers_are_changed_to_texts_and_paths_renamed() {
        let mut attributes = Attributes::new();
        attributes.read_json(br#"{"n":41,"f":1.5,"t":true,"o":{"n":42}}"#).unwrap();
        let is_changed = attributes.change_values(|path, number| {
            (path == b"n" || number == b"1.5").then(|| [b"was ", number].concat())
        });
        assert!(is_changed);
        assert!(attributes.change_paths(|path| (path == b"o.n").then(|| b"p".to_vec())));
        assert_eq!(json(&attributes), r#"{"n":"was 41","f":"was 1.5","t":true,"p":42}"#);
        assert!(!attributes.change_paths(|_| None));
    }

    #[test]
    fn words_have_the_type_that_json_would_give_them() {
        let cases: [(&[u8], Scalar<'_>); 8] = [
            (b"12", Scalar::Int(12)),
            (b"-1.5", Scalar::Float(-1.5)),
            (b"007", Scalar::Text(b"007")),
            (b"1.2.3.4", Scalar::Text(b"1.2.3.4")),
            (b"true", Scalar::Bool(true)),
            (b"-", Scalar::Text(b"-")),
            (b"5ms", Scalar::Text(b"5ms")),
            (b"", Scalar::Text(b"")),
        ];
        for (word, want) in cases {
            assert_eq!(Scalar::of_word(word), want, "{}", String::from_utf8_lossy(word));
        }
    }
}
