//! Where lines are written: a path that may contain fields, `/log/{host}/{service}.log`, and the
//! time of receipt, `/log/{arrival:%Y-%m-%d}.log`.
//!
//! Invariants: the complete directories before the first field are the base; whatever a record
//! contains, its file is below the base, exactly as many directories deep as the template: a value
//! never adds a directory, never becomes `.` or `..`, contains no control characters and is
//! truncated to the maximum length of a name. Two long values that differ have different names.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use weir_codec::civil_from_days;
use weir_expr::{Field, Fields};
use weir_model::hash64;

use super::archive;
use crate::rule::{self, TemplateError};

/// Maximum length of a file or directory name (`NAME_MAX` of Linux), in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Reserved for what rotation appends to the name of a file.
const SUFFIX_BYTES: usize = 40;
/// Maximum length of the text between two slashes, excluding fields: leaves them enough room.
const TEXT_BYTES_MAX: usize = 100;
/// Maximum number of fields between two slashes, and of parts of a time.
const NAME_FIELDS_MAX: usize = 4;
/// What a time begins with, as in `{arrival:%Y-%m-%d}`.
const ARRIVAL: &str = "arrival:";
/// Replaces missing values, and characters that are not allowed in a name.
const SUBSTITUTE: char = '_';
/// The shortest part of a time that a path can contain.
pub(super) const HOUR_NS: i64 = 3600 * 1_000_000_000;

/// The path of an output of type `file`.
#[derive(Debug, Clone, PartialEq)]
pub struct FilePath {
    text: String,
    /// The directory that files stay below; for a path without fields, the file itself.
    base: PathBuf,
    /// Names below the base; the last is the file name.
    names: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Field(Field),
    /// A part of the time of receipt, in UTC.
    Time(TimePart),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimePart {
    Year,
    Month,
    Day,
    Hour,
}

impl TimePart {
    fn of(letter: char) -> Option<Self> {
        match letter {
            'Y' => Some(Self::Year),
            'm' => Some(Self::Month),
            'd' => Some(Self::Day),
            'H' => Some(Self::Hour),
            _ => None,
        }
    }

    /// Returns the number of its digits.
    fn digits(self) -> usize {
        if self == Self::Year { 4 } else { 2 }
    }

    fn push(self, time_ns: i64, out: &mut String) {
        let hours = time_ns.div_euclid(HOUR_NS);
        let (year, month, day) = civil_from_days(hours.div_euclid(24));
        let number = match self {
            Self::Year => year,
            Self::Month => month,
            Self::Day => day,
            Self::Hour => hours.rem_euclid(24),
        };
        // Writing to a string does not fail.
        let _written = write!(out, "{number:0digits$}", digits = self.digits());
    }
}

/// Why a path is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilePathError {
    /// Its braces are invalid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// `..` after a field.
    #[error("{0:?} is not allowed after the first field")]
    Dots(String),
    /// A name is too long or has too many fields.
    #[error(
        "{0:?} is too long: at most {TEXT_BYTES_MAX} bytes and {NAME_FIELDS_MAX} fields are \
         allowed between slashes"
    )]
    Long(String),
    /// It ends in a slash.
    #[error("ends with a slash: the file name is missing")]
    Directory,
    /// A part of a time that is not supported.
    #[error("{{{ARRIVAL}{0}}} may contain %Y, %m, %d and %H, and no slash")]
    Time(String),
    /// `{message}`.
    #[error("{{message}} cannot be used in a path, as it can be anything")]
    Message,
}

impl FilePath {
    /// Parses a path; a literal brace is written twice.
    pub fn parse(text: &str) -> Result<Self, FilePathError> {
        let names = split(text)?;
        let has_field = |name: &Vec<Piece>| name.iter().any(|p| !matches!(p, Piece::Text(_)));
        let Some(first) = names.iter().position(has_field) else {
            let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
            return Ok(Self { text: text.to_owned(), base: names.join("/").into(), names: vec![] });
        };
        let mut names = names;
        let below = names.split_off(first);
        let base: Vec<String> = names.iter().map(|name| plain(name)).collect();
        let base = match base.join("/") {
            root if root.is_empty() && first > 0 => "/".to_owned(),
            base if base.is_empty() => ".".to_owned(),
            base => base,
        };
        if below.last().is_some_and(Vec::is_empty) {
            return Err(FilePathError::Directory);
        }
        let names: Vec<_> = below.into_iter().filter(|name| !name.is_empty()).collect();
        names.iter().try_for_each(|name| check(name))?;
        Ok(Self { text: text.to_owned(), base: base.into(), names })
    }

    /// Returns true if it contains fields.
    pub fn is_template(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the text as configured.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the directory that files stay below; without fields, the file itself.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns an example file, with `FIELD` in place of each field.
    pub fn example(&self) -> PathBuf {
        let name = |name: &Vec<Piece>| -> String {
            let text = |piece: &Piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Field(_) => "FIELD".to_owned(),
                Piece::Time(part) => "0".repeat(part.digits()),
            };
            name.iter().map(text).collect()
        };
        let names: PathBuf = self.names.iter().map(name).collect();
        if self.is_template() { self.base.join(names) } else { self.base.clone() }
    }

    /// Returns every field in it.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.names.iter().flatten().filter_map(|piece| match piece {
            Piece::Field(field) => Some(field),
            Piece::Text(_) | Piece::Time(_) => None,
        })
    }

    /// Returns whether the time of receipt is part of it.
    pub(super) fn has_time(&self) -> bool {
        self.names.iter().flatten().any(|piece| matches!(piece, Piece::Time(_)))
    }

    /// Appends the path of a record's file, relative to the base; nothing without fields.
    pub(super) fn fill(&self, record: &impl Fields, arrival_ns: i64, out: &mut String) {
        for (at, name) in self.names.iter().enumerate() {
            if at > 0 {
                out.push('/');
            }
            let start = out.len();
            fill_name(name, record, arrival_ns, out);
            if matches!(&out[start..], "" | "." | "..") {
                out.truncate(start);
                out.push(SUBSTITUTE);
            }
            // Never write to a rotated file, nor let rotation remove it for another file.
            if at + 1 == self.names.len() && archive::original(&out[start..]).is_some() {
                out.push(SUBSTITUTE);
            }
        }
    }

    /// Returns the same path with links resolved, as far as its directories exist.
    pub(crate) fn resolved(&self) -> Self {
        let base = if self.is_template() {
            resolve(&self.base)
        } else {
            // The file itself may be a link; its rotated files are next to it.
            let parent = resolve(self.base.parent().unwrap_or(Path::new("")));
            self.base.file_name().map_or(parent.clone(), |name| parent.join(name))
        };
        Self { base, ..self.clone() }
    }

    /// Returns true if this output may write or may have written a file: its file, or a rotated
    /// one. Compares names only; see [`Self::resolved`].
    pub fn covers(&self, path: &Path) -> bool {
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { return false };
        let file = archive::original(file).unwrap_or(file);
        if !self.is_template() {
            return path.with_file_name(file) == self.base;
        }
        let Ok(below) = path.strip_prefix(&self.base) else { return false };
        let mut given: Vec<&str> = below.iter().filter_map(|part| part.to_str()).collect();
        if let Some(last) = given.last_mut() {
            *last = file;
        }
        given.len() == self.names.len()
            && given.iter().zip(&self.names).all(|(given, name)| could_be(given, name))
    }
}

fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = |dir: &Path| {
        let rest = path.strip_prefix(dir).ok()?;
        dir.canonicalize().ok().map(|real| real.join(rest).components().collect())
    };
    path.ancestors().find_map(real).unwrap_or_else(|| path.clone())
}

/// Splits a text into its names, each into its pieces.
fn split(text: &str) -> Result<Vec<Vec<Piece>>, FilePathError> {
    let mut names = vec![Vec::new()];
    let mut rest = text;
    let push = |names: &mut Vec<Vec<Piece>>, text: &str| {
        let Some(name) = names.last_mut() else { return };
        match name.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => name.push(Piece::Text(text.to_owned())),
        }
    };
    while let Some(at) = rest.find(['{', '}', '/']) {
        let offset = text.len() - rest.len() + at;
        push(&mut names, &rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at + 1..];
        if sign == "/" {
            names.push(Vec::new());
        } else if let Some(after) = rest.strip_prefix(sign) {
            push(&mut names, sign);
            rest = after;
        } else if sign == "}" {
            return Err(TemplateError::Close(offset).into());
        } else {
            let end = rest.find('}').ok_or(TemplateError::Open(offset))?;
            let inside = rest[..end].trim();
            rest = &rest[end + 1..];
            let Some(name) = names.last_mut() else { continue };
            if let Some(format) = inside.strip_prefix(ARRIVAL) {
                push_time(format, name)?;
                continue;
            }
            match rule::field(inside).ok_or(TemplateError::Empty(offset))? {
                Field::Message => return Err(FilePathError::Message),
                field => name.push(Piece::Field(field)),
            }
        }
    }
    push(&mut names, rest);
    Ok(names)
}

/// Appends the pieces of the format of a time.
fn push_time(format: &str, name: &mut Vec<Piece>) -> Result<(), FilePathError> {
    let invalid = || FilePathError::Time(format.to_owned());
    let mut rest = format;
    while let Some((text, after)) = rest.split_once('%') {
        let letter = after.chars().next().ok_or_else(invalid)?;
        name.push(Piece::Text(text.to_owned()));
        name.push(Piece::Time(TimePart::of(letter).ok_or_else(invalid)?));
        rest = &after[letter.len_utf8()..];
    }
    if rest.len() == format.len() || format.contains('/') {
        return Err(invalid());
    }
    name.push(Piece::Text(rest.to_owned()));
    Ok(())
}

fn plain(name: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Field(_) | Piece::Time(_) => String::new(),
    };
    name.iter().map(text).collect()
}

fn check(name: &[Piece]) -> Result<(), FilePathError> {
    let text = plain(name);
    let fields = name.iter().filter(|piece| matches!(piece, Piece::Field(_))).count();
    let times = name.iter().filter(|piece| matches!(piece, Piece::Time(_))).count();
    if fields + times == 0 && (text == ".." || text == ".") {
        return Err(FilePathError::Dots(text));
    }
    if text.len() > TEXT_BYTES_MAX || fields > NAME_FIELDS_MAX || times > NAME_FIELDS_MAX {
        return Err(FilePathError::Long(text));
    }
    Ok(())
}

fn fill_name(name: &[Piece], record: &impl Fields, arrival_ns: i64, out: &mut String) {
    let room = room_for_fields(name);
    let mut buffer = Vec::new();
    for piece in name {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Time(part) => part.push(arrival_ns, out),
            Piece::Field(field) => {
                let start = out.len();
                let mut is_first = true;
                record.visit(field, &mut |value| {
                    if let Some(text) = value.text(&mut buffer).filter(|_| is_first) {
                        push_value(text, room, out);
                        is_first = false;
                    }
                });
                if out.len() == start {
                    out.push(SUBSTITUTE);
                }
            }
        }
    }
}

/// Returns the number of bytes available to each field of a name.
fn room_for_fields(name: &[Piece]) -> usize {
    let (mut room, mut fields) = (NAME_BYTES_MAX - SUFFIX_BYTES, 0);
    for piece in name {
        match piece {
            Piece::Text(text) => room -= text.len(),
            Piece::Time(part) => room -= part.digits(),
            Piece::Field(_) => fields += 1,
        }
    }
    room / fields.max(1)
}

/// Appends the parts of a value that are allowed in a name, at most `max` bytes.
fn push_value(value: &[u8], max: usize, out: &mut String) {
    /// `~` and eight digits.
    const MARK_BYTES: usize = 9;
    let is_long = value.len() > max;
    let is_allowed = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'/';
    if !is_long
        && value.iter().all(is_allowed)
        && let Ok(text) = std::str::from_utf8(value)
    {
        return out.push_str(text);
    }
    let kept = if is_long { &value[..max - MARK_BYTES] } else { value };
    for chunk in kept.utf8_chunks() {
        let clean = |c: char| if c == '/' || c.is_control() { SUBSTITUTE } else { c };
        // Control characters of two bytes become one: never longer than before.
        out.extend(chunk.valid().chars().map(clean));
        if !chunk.invalid().is_empty() {
            out.push(SUBSTITUTE);
        }
    }
    if is_long {
        // Writing to a string does not fail.
        let _written = write!(out, "~{:08x}", hash64(value) as u32);
    }
}

/// Returns true if some values could turn `name` into `given`.
fn could_be(given: &str, name: &[Piece]) -> bool {
    let mut rest = given;
    let mut is_open = false;
    for (at, piece) in name.iter().enumerate() {
        let Piece::Text(text) = piece else {
            is_open = true;
            continue;
        };
        let is_last = at + 1 == name.len();
        let found = match (is_open, is_last) {
            (false, true) => (rest == text).then_some(""),
            (false, false) => rest.strip_prefix(text.as_str()),
            (true, true) => rest.ends_with(text.as_str()).then_some(""),
            (true, false) => rest.split_once(text.as_str()).map(|(_, rest)| rest),
        };
        let Some(found) = found else { return false };
        rest = found;
        is_open = false;
    }
    is_open || rest.is_empty()
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
