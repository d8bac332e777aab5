//! Severity and time in the head of a plain text line.
//!
//! Loggers write time, level and names before the message, in many different orders. So a line is
//! read from its beginning while it looks like a head: times, numbers, months, text in brackets,
//! separators, and a few names that are not words of a language. A level counts only there; the
//! first item that may be prose ends the scan.
//!
//! Invariants: scans no more than [`HEAD_BYTES`] of a line and [`ITEMS_MAX`] items in it; allocates
//! nothing; a level that the limit cuts through is not recognized.

mod items;
pub(crate) mod time;

use memchr::memmem;
use weir_model::{Severity, unescape_json_into};

use crate::Stated;
use crate::attributes::month_number;
use crate::structured::severity_of_word;
use crate::syslog::header::severity_of_priority;
use items::{Item, Items};

/// How far into a line the scan goes: far beyond time, process, thread and logger of any format.
const HEAD_BYTES: usize = 256;

/// Maximum number of items of a head.
const ITEMS_MAX: usize = 16;

/// Maximum number of names (files, loggers, hosts, users) before the level.
const NAMES_MAX: usize = 3;

/// Returns the severity that the head of a text line states; `UNSPECIFIED` if it states none.
///
/// Recognized are the priority of syslog, the letter of klog and of Ruby's logger, levels in
/// capitals (`ERROR`, `WARN:`, `app.ERROR:`), in brackets (`[error]`, `[core:error]`), or followed
/// by a colon (`Error:`), and the first lines of stack traces.
pub fn severity_of_text(line: &[u8]) -> Severity {
    if line.first() == Some(&b'{') {
        return Severity::UNSPECIFIED;
    }
    stated_severity(line).unwrap_or(Severity::UNSPECIFIED)
}

/// Like [`severity_of_text`], for a text with JSON escapes.
pub fn severity_of_escaped_text(line: &[u8]) -> Severity {
    // No character takes more bytes than `\u0000`; one more shows that the line continues.
    let head = line.get(..6 * (HEAD_BYTES + 1)).unwrap_or(line);
    if memchr::memchr(b'\\', head).is_none() {
        return severity_of_text(line);
    }
    let mut text = Vec::with_capacity(head.len());
    unescape_json_into(head, &mut text);
    severity_of_text(&text)
}

/// Returns what the head of a text line states, if it states anything.
///
/// Times without a zone are UTC; times without a year are in the year that brings them nearest to
/// `near_ns`, nanoseconds since 1970.
pub fn read_text(line: &[u8], near_ns: i64) -> Option<Stated> {
    let stated = Stated {
        time_ns: time_of_text(without_priority(line), near_ns),
        severity: severity_of_text(line),
    };
    (stated != Stated::default()).then_some(stated)
}

/// Returns the time at the beginning of a line: see [`read_text`].
pub(crate) fn time_of_text(line: &[u8], near_ns: i64) -> Option<i64> {
    time::read(line, near_ns)
}

fn without_priority(line: &[u8]) -> &[u8] {
    severity_of_priority(line).map_or(line, |(_, rest)| rest.strip_prefix(b"1 ").unwrap_or(rest))
}

fn stated_severity(line: &[u8]) -> Option<Severity> {
    if let Some((severity, _)) = severity_of_priority(line) {
        return Some(severity);
    }
    let mut walk = Walk { items: Items::new(line, HEAD_BYTES), ..Walk::default() };
    let start = walk.items.rest();
    if let Some(severity) = letter(start) {
        return Some(severity);
    }
    for _ in 0..ITEMS_MAX {
        match walk.next()? {
            Step::Level(severity) => return Some(severity),
            Step::GoOn => {}
        }
    }
    None
}

/// klog and glog: `E0131 12:34:56.789`, `I20260131 12:34:56.789`; Ruby: `E, [2026-01-31T...`.
fn letter(line: &[u8]) -> Option<Severity> {
    let (letter, rest) = line.split_first()?;
    let severity = match letter {
        b'D' => Severity::DEBUG,
        b'I' => Severity::INFO,
        b'W' => Severity::WARN,
        b'E' => Severity::ERROR,
        b'F' | b'A' => Severity::FATAL,
        _ => return None,
    };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let is_klog = matches!(digits, 4 | 8)
        && matches!(rest.get(digits..), Some([b' ', h, _, b':', ..]) if h.is_ascii_digit());
    (is_klog || rest.starts_with(b", [")).then_some(severity)
}

/// First words of failure reports that have no level before them.
const BEGINNINGS: [(&[u8], Severity); 6] = [
    (b"Traceback (most recent call last):", Severity::ERROR),
    (b"Exception in thread ", Severity::ERROR),
    (b"Parse error:", Severity::ERROR),
    (b"Fatal error:", Severity::FATAL),
    (b"fatal error:", Severity::FATAL),
    (b"thread '", Severity::FATAL),
];

fn beginning(text: &[u8]) -> Option<Severity> {
    if !matches!(text.first(), Some(b'T' | b'E' | b'P' | b'F' | b'f' | b't')) {
        return None;
    }
    let (start, severity) = BEGINNINGS.iter().find(|(start, _)| text.starts_with(start))?;
    // Rust's panic hook names the thread first.
    let is_sure = !start.ends_with(b"'") || memmem::find(text, b"' panicked at ").is_some();
    is_sure.then_some(*severity)
}

enum Step {
    Level(Severity),
    GoOn,
}

/// A scan of one line, item by item.
#[derive(Default)]
struct Walk<'a> {
    items: Items<'a>,
    count: usize,
    names: usize,
    has_time: bool,
    /// A month was read: a host may follow the time, as syslog writes it.
    has_month: bool,
    follows_separator: bool,
}

impl Walk<'_> {
    /// Returns `None` at the end of the head.
    fn next(&mut self) -> Option<Step> {
        if let Some(severity) = beginning(self.items.rest()) {
            return Some(Step::Level(severity));
        }
        let item = self.items.next()?;
        let follows_separator = std::mem::replace(
            &mut self.follows_separator,
            matches!(item, Item::Separator | Item::Tab),
        );
        let step = match item {
            Item::Separator | Item::Tab => Some(Step::GoOn),
            Item::Group(inside) => Some(self.group(inside)),
            Item::Word(word) => self.word(word, follows_separator),
        };
        self.count += 1;
        step
    }

    fn group(&mut self, inside: &[u8]) -> Step {
        let inside = inside.trim_ascii();
        if let Some(severity) = any_case(inside).or_else(|| level_of_module(inside)) {
            return Step::Level(severity);
        }
        self.has_time |= is_time(inside);
        let mut words = inside.split(|b| *b == b' ').filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default();
        let found = if first.first().is_some_and(u8::is_ascii_digit) {
            words.find_map(capitals)
        } else {
            // `[INFO  my_crate::part]`.
            capitals(first).filter(|_| words.next().is_some() && words.next().is_none())
        };
        found.map_or(Step::GoOn, Step::Level)
    }

    fn word(&mut self, word: &[u8], follows_separator: bool) -> Option<Step> {
        if word.first().is_some_and(u8::is_ascii_digit) && is_number(word) {
            self.has_time |= is_time(word);
            return Some(Step::GoOn);
        }
        if let Some(severity) = capitals(word).or_else(|| with_colon(word)) {
            return Some(Step::Level(severity));
        }
        if let Some(severity) = any_case(word)
            && self.is_fenced(follows_separator)
        {
            return Some(Step::Level(severity));
        }
        if self.count == 0 && is_exception(word) {
            return Some(Step::Level(Severity::ERROR));
        }
        self.is_of_head(word, follows_separator).then_some(Step::GoOn)
    }

    /// Returns true if the word is between separators.
    fn is_fenced(&self, follows_separator: bool) -> bool {
        (follows_separator || self.count == 0) && self.items.is_before_separator()
    }

    /// Returns true if the word may precede a level.
    fn is_of_head(&mut self, word: &[u8], follows_separator: bool) -> bool {
        let letters = word.strip_suffix(b",").unwrap_or(word);
        if month_number(letters).is_some() || DAYS.contains(&letters) {
            self.has_month = true;
            return true;
        }
        let is_zone = self.has_time && (ZONES.contains(&word) || is_offset(word));
        if is_zone || word == b"PHP" {
            return true;
        }
        if self.has_month && self.has_time && is_name(word) && self.items.is_before_program() {
            self.has_month = false;
            return true;
        }
        let is_program = word.ends_with(b":") && self.has_time && is_name(word);
        let is_in_fence = follows_separator && self.items.is_before_separator() && is_name(word);
        let is_odd = is_name(word) && word.iter().any(|b| b.is_ascii_digit() || ODD.contains(b));
        self.names += 1;
        self.names <= NAMES_MAX && (is_program || is_in_fence || is_odd)
    }
}

const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const ZONES: [&[u8]; 12] =
    [b"UTC", b"GMT", b"Z", b"AM", b"PM", b"CET", b"CEST", b"EST", b"EDT", b"PST", b"PDT", b"MSK"];
/// Characters in names of files, loggers, hosts and users that no word of a language contains.
const ODD: [u8; 7] = *b"._/[@#(";

/// Letters and digits, and what joins them; a sentence ends with a full stop, an argument contains
/// a quote or an equals sign.
fn is_name(word: &[u8]) -> bool {
    let is_fine = |b: &u8| b.is_ascii_alphanumeric() || b"._/[]@#()$-:<>~+".contains(b);
    word.iter().all(is_fine) && !word.ends_with(b".") && word.iter().any(u8::is_ascii_alphanumeric)
}

/// Digits, and what separates them in times, addresses and identifiers.
fn is_number(word: &[u8]) -> bool {
    let is_fine = |b: &u8| matches!(b, b'-' | b'_' | b':' | b'.' | b'/' | b',' | b'+' | b'#');
    word.iter().all(|b| b.is_ascii_alphanumeric() || is_fine(b))
}

/// Returns true if it contains something like `12:34`.
fn is_time(word: &[u8]) -> bool {
    let is_digit = |b: &u8| b.is_ascii_digit();
    memchr::memchr_iter(b':', word).any(|at| {
        let before = word.get(at.saturating_sub(2)..at).unwrap_or_default();
        let after = word.get(at + 1..at + 3).unwrap_or_default();
        before.len() == 2 && before.iter().chain(after).filter(|b| is_digit(b)).count() == 4
    })
}

/// `+0100`, `-08:00`.
fn is_offset(word: &[u8]) -> bool {
    matches!(word, [b'+' | b'-', digits @ ..] if digits.len() >= 4
        && digits.iter().all(|b| b.is_ascii_digit() || *b == b':'))
}

/// Returns the level of a word without punctuation, in any case.
fn any_case(word: &[u8]) -> Option<Severity> {
    let severity = severity_of_word(word);
    (severity != Severity::UNSPECIFIED).then_some(severity)
}

/// Parses a level in capitals, alone or before punctuation; or after the name of a channel
/// (`app.ERROR:`).
fn capitals(word: &[u8]) -> Option<Severity> {
    let len = word.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let (level, rest) = word.split_at_checked(len)?;
    if len >= 3 && matches!(rest, [] | [b':' | b',' | b';' | b'|' | b'[' | b'/', ..]) {
        return any_case(level);
    }
    let at = memchr::memrchr(b'.', word).filter(|_| word.ends_with(b":"))?;
    let level = word.get(at + 1..word.len() - 1)?;
    let is_level = level.iter().all(u8::is_ascii_uppercase) && word.iter().all(|b| *b != b'=');
    any_case(level).filter(|_| is_level && is_name(word))
}

/// `Error:`, `warning:`.
fn with_colon(word: &[u8]) -> Option<Severity> {
    any_case(word.strip_suffix(b":")?)
}

/// Parses `core:error`, as Apache writes module and level.
fn level_of_module(inside: &[u8]) -> Option<Severity> {
    let colon = memchr::memrchr(b':', inside)?;
    let (module, level) = (inside.get(..colon)?, inside.get(colon + 1..)?);
    let is_fine = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_';
    any_case(level).filter(|_| module.iter().chain(level).all(is_fine))
}

/// `ValueError:`, `java.lang.IllegalStateException:`.
fn is_exception(word: &[u8]) -> bool {
    let name = word.strip_suffix(b":").unwrap_or_default();
    let is_fine = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'$');
    name.iter().all(is_fine) && (name.ends_with(b"Error") || name.ends_with(b"Exception"))
}

#[cfg(test)]
mod tests;
