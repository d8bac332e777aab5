//! Literals: text that must occur in a message before a pattern can match it.
//!
//! Invariant: if [`required`] returns a list, every text that the pattern matches contains at least
//! one literal of the list, *unless* it contains one of the two non-ASCII characters that case
//! folding maps to ASCII letters ([`has_folding_exception`]).

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::glob::{Glob, Piece};

/// Maximum length of a literal; more would not be more selective.
const BYTES_MAX: usize = 48;

/// Maximum number of alternatives of one pattern: each is a literal to search for.
const ALTERNATIVES_MAX: usize = 24;

/// Maximum number of strings that are combined inside a pattern.
const STRINGS_MAX: usize = 16;

/// A text in which some ASCII letters match both cases.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Literal {
    /// The bytes; letters that match both cases are in lower case.
    bytes: Vec<u8>,
    /// 0x20 where both cases match, otherwise 0.
    either: Vec<u8>,
}

impl Literal {
    /// Creates a literal that ignores the case of ASCII letters.
    fn folded(text: &str) -> Self {
        let mut literal = Self::default();
        for byte in text.bytes() {
            literal.push(byte, byte.is_ascii_alphabetic());
        }
        literal
    }

    fn exact(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), either: vec![0; bytes.len()] }
    }

    fn push(&mut self, byte: u8, either: bool) {
        self.bytes.push(if either { byte.to_ascii_lowercase() } else { byte });
        self.either.push(if either { 0x20 } else { 0 });
    }

    fn then(&self, next: &Self) -> Self {
        let joined = |a: &[u8], b: &[u8]| [a, b].concat();
        Self { bytes: joined(&self.bytes, &next.bytes), either: joined(&self.either, &next.either) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the text starts with it.
    #[inline]
    pub(crate) fn starts(&self, text: &[u8]) -> bool {
        text.get(..self.len()).is_some_and(|text| {
            let pairs = text.iter().zip(&self.either).zip(&self.bytes);
            pairs.fold(0, |differs, ((text, either), byte)| differs | ((text | either) ^ byte)) == 0
        })
    }

    /// Returns whether it occurs unchanged in a JSON-escaped text, provided that no character is
    /// written as `\uXXXX`.
    pub(crate) fn is_never_escaped(&self) -> bool {
        !self.bytes.iter().any(|byte| matches!(byte, ..0x20 | b'"' | b'\\' | b'/' | 0x7f))
    }

    /// Returns whether it has letters matching both cases to which a non-ASCII character folds too.
    pub(crate) fn has_folding_exception(&self) -> bool {
        let mut pairs = self.bytes.iter().zip(&self.either);
        pairs.any(|(byte, either)| *either != 0 && matches!(byte, b's' | b'k'))
    }

    /// Returns its parts, in lower case, that occur in some case in every text in which the pattern
    /// is found: the whole literal, except for letters to which a non-ASCII character folds.
    pub(crate) fn certain_parts(&self) -> Vec<Vec<u8>> {
        let mut parts = vec![Vec::new()];
        for (byte, either) in self.bytes.iter().zip(&self.either) {
            if *either != 0 && matches!(byte, b's' | b'k') {
                parts.push(Vec::new());
            } else if let Some(part) = parts.last_mut() {
                part.push(byte.to_ascii_lowercase());
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Returns its information content in bits: roughly how rare such a text is in logs.
    pub(crate) fn bits(&self) -> u32 {
        self.bytes.iter().map(|byte| bits(*byte)).sum()
    }

    /// Keeps only its rarest part, if it is too long.
    fn shortened(self) -> Self {
        if self.len() <= BYTES_MAX {
            return self;
        }
        let best = rarest_window(&self.bytes, BYTES_MAX);
        let part = |bytes: &[u8]| bytes[best..best + BYTES_MAX].to_vec();
        Self { bytes: part(&self.bytes), either: part(&self.either) }
    }
}

/// Returns the start of the rarest `len` bytes.
pub(crate) fn rarest_window(bytes: &[u8], len: usize) -> usize {
    let weight = |start: &usize| bytes[*start..*start + len].iter().map(|b| bits(*b)).sum::<u32>();
    (0..=bytes.len() - len).rev().max_by_key(weight).unwrap_or(0)
}

/// Returns the approximate information content of a byte of log text, in bits.
pub(crate) fn bits(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        b' ' | b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b'r' | b's' => 4,
        b'0'..=b'2' | b'l' | b'd' | b'c' | b'u' | b'.' | b'-' | b':' | b'/' | b'"' | b'=' => 5,
        b'3'..=b'9' | b'm' | b'p' | b'h' | b'g' | b'f' | b'b' | b'_' | b',' => 6,
        _ => 8,
    }
}

/// Detects `ſ` and `K` (the Kelvin sign): ignoring case they equal `s` and `k`, so a pattern can
/// match a text that contains them in place of these letters.
pub(crate) fn has_folding_exception(text: &[u8]) -> bool {
    !text.is_ascii()
        && (memchr::memmem::find(text, "\u{17f}".as_bytes()).is_some()
            || memchr::memmem::find(text, "\u{212a}".as_bytes()).is_some())
}

/// Returns literals of which at least one must occur; `None` when nothing is certain.
pub(crate) fn required(hir: &Hir) -> Option<Vec<Literal>> {
    let found = analyze(hir);
    best(found.best, found.exact)
}

/// Returns the rarest literal among the words of a phrase. `None` if all are only wildcards.
pub(crate) fn of_phrase(words: &[Glob]) -> Option<Literal> {
    let texts = words.iter().flat_map(Glob::pieces).filter_map(|piece| match piece {
        Piece::Text(text) => Some(Literal::folded(text)),
        Piece::Any | Piece::One => None,
    });
    texts.max_by_key(Literal::bits).map(Literal::shortened)
}

/// What is known about the texts that a part of a pattern matches.
struct LiteralInfo {
    /// All of these texts, if they are few.
    exact: Option<Vec<Literal>>,
    /// Literals of which at least one occurs in each text.
    best: Option<Vec<Literal>>,
}

impl LiteralInfo {
    fn exactly(strings: Vec<Literal>) -> Self {
        Self { exact: Some(strings), best: None }
    }

    fn unknown() -> Self {
        Self { exact: None, best: None }
    }
}

fn analyze(hir: &Hir) -> LiteralInfo {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => LiteralInfo::exactly(vec![Literal::default()]),
        HirKind::Literal(literal) => LiteralInfo::exactly(vec![Literal::exact(&literal.0)]),
        HirKind::Class(class) => {
            let strings = of_class(class);
            LiteralInfo { exact: strings, best: None }
        }
        HirKind::Capture(capture) => analyze(&capture.sub),
        HirKind::Repetition(repetition) => {
            let sub = analyze(&repetition.sub);
            match (repetition.min, repetition.max) {
                (0, Some(1)) => {
                    let mut exact = sub.exact;
                    if let Some(exact) = &mut exact {
                        exact.push(Literal::default());
                    }
                    LiteralInfo { exact, best: None }
                }
                (0, _) => LiteralInfo::unknown(),
                (min, max) => repeated(&sub, min, max == Some(min)),
            }
        }
        HirKind::Concat(parts) => concat(parts),
        HirKind::Alternation(parts) => alternation(parts),
    }
}

fn repeated(sub: &LiteralInfo, min: u32, is_exact: bool) -> LiteralInfo {
    let Some(strings) = &sub.exact else {
        return LiteralInfo { exact: None, best: sub.best.clone() };
    };
    let mut product = strings.clone();
    for count in 1..min {
        match multiplied(&product, strings) {
            Some(longer) => product = longer,
            None => return LiteralInfo { exact: None, best: best(None, Some(product)) },
        }
        if count > BYTES_MAX as u32 {
            return LiteralInfo { exact: None, best: best(None, Some(product)) };
        }
    }
    if is_exact {
        LiteralInfo::exactly(product)
    } else {
        LiteralInfo { exact: None, best: best(None, Some(product)) }
    }
}

fn concat(parts: &[Hir]) -> LiteralInfo {
    let mut run = vec![Literal::default()];
    let mut found = None;
    let mut is_exact = true;
    for part in parts {
        let part = analyze(part);
        if let Some(strings) = part.exact {
            if let Some(longer) = multiplied(&run, &strings) {
                run = longer;
                continue;
            }
            found = best(found, Some(std::mem::replace(&mut run, strings)));
        } else {
            found = best(found, Some(std::mem::take(&mut run)));
            run.push(Literal::default());
            found = best(found, part.best);
        }
        is_exact = false;
    }
    if is_exact {
        return LiteralInfo::exactly(run);
    }
    LiteralInfo { exact: None, best: best(found, Some(run)) }
}

fn alternation(parts: &[Hir]) -> LiteralInfo {
    let looks: Vec<LiteralInfo> = parts.iter().map(analyze).collect();
    let count: Option<usize> = looks.iter().map(|l| l.exact.as_ref().map(Vec::len)).sum();
    if count.is_some_and(|count| count <= STRINGS_MAX) {
        return LiteralInfo::exactly(
            looks.into_iter().filter_map(|look| look.exact).flatten().collect(),
        );
    }
    let each: Option<Vec<Vec<Literal>>> =
        looks.into_iter().map(|look| best(look.best, look.exact)).collect();
    let all = each.map(|lists| lists.into_iter().flatten().collect::<Vec<_>>());
    LiteralInfo { exact: None, best: all.filter(|all| all.len() <= ALTERNATIVES_MAX) }
}

/// Returns every string of `first` followed by every string of `second`, unless there are too many.
fn multiplied(first: &[Literal], second: &[Literal]) -> Option<Vec<Literal>> {
    let longest = |list: &[Literal]| list.iter().map(Literal::len).max().unwrap_or(0);
    if first.len() * second.len() > STRINGS_MAX || longest(first) + longest(second) > 4 * BYTES_MAX
    {
        return None;
    }
    Some(first.iter().flat_map(|a| second.iter().map(|b| a.then(b))).collect())
}

/// Returns the more selective list. A list is as selective as its least selective literal.
fn best(one: Option<Vec<Literal>>, other: Option<Vec<Literal>>) -> Option<Vec<Literal>> {
    let usable = |list: &Vec<Literal>| {
        !list.is_empty() && list.len() <= ALTERNATIVES_MAX && list.iter().all(|l| l.len() > 0)
    };
    let bits = |list: &Vec<Literal>| {
        let least = list.iter().map(Literal::bits).min().unwrap_or(0);
        least.min(100).saturating_sub(3 * list.len().ilog2())
    };
    let lists = [one, other].into_iter().flatten().filter(usable);
    let list = lists.max_by_key(bits)?;
    let mut short: Vec<Literal> = list.into_iter().map(Literal::shortened).collect();
    short.sort();
    short.dedup();
    Some(short)
}

/// Returns the characters of a class as strings, if they are few; both cases of an ASCII letter
/// count as one.
fn of_class(class: &Class) -> Option<Vec<Literal>> {
    let mut strings = Vec::new();
    match class {
        Class::Unicode(class) => {
            let is_few = class.ranges().len() <= STRINGS_MAX
                && class.iter().map(regex_syntax::hir::ClassUnicodeRange::len).sum::<usize>()
                    <= STRINGS_MAX;
            if !is_few {
                return None;
            }
            let chars: Vec<char> = class.iter().flat_map(|r| r.start()..=r.end()).collect();
            let has_both = |lower: char| chars.contains(&lower) && chars.contains(&swapped(lower));
            for c in &chars {
                let is_exception =
                    (*c == '\u{17f}' && has_both('s')) || (*c == '\u{212a}' && has_both('k'));
                if !is_exception {
                    strings.push(of_char(*c, c.is_ascii_alphabetic() && has_both(*c)));
                }
            }
        }
        Class::Bytes(class) => {
            let bytes: Vec<u8> = class.iter().flat_map(|r| r.start()..=r.end()).collect();
            if bytes.len() > STRINGS_MAX {
                return None;
            }
            for byte in &bytes {
                let both = byte.is_ascii_alphabetic() && bytes.contains(&(byte ^ 0x20));
                let mut literal = Literal::default();
                literal.push(*byte, both);
                strings.push(literal);
            }
        }
    }
    strings.sort();
    strings.dedup();
    Some(strings)
}

fn swapped(c: char) -> char {
    if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
}

fn of_char(c: char, both: bool) -> Literal {
    if both {
        let mut literal = Literal::default();
        literal.push(c as u8, true);
        return literal;
    }
    Literal::exact(c.encode_utf8(&mut [0; 4]).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Regexp;

    fn literals(pattern: &str) -> Vec<String> {
        let regexp = Regexp { pattern: pattern.to_owned(), case_insensitive: false };
        let found = required(&regexp.hir().unwrap()).unwrap_or_default();
        let text = |l: Literal| String::from_utf8(l.bytes().to_vec()).unwrap();
        found.into_iter().map(text).collect()
    }

    #[test]
    fn required_literals_are_found() {
        for (pattern, want) in [
            ("connection from .* refused", &["connection from "][..]),
            (r"\d+ bytes sent", &[" bytes sent"]),
            ("(?i)Error", &["error"]),
            ("timed? out", &["time out", "timed out"]),
            ("(foo|bar)baz", &["barbaz", "foobaz"]),
            ("(foo.*|bar)baz", &["baz"]),
            ("(foo.*x|quux)", &["foo", "quux"]),
            ("a{3}b", &["aaab"]),
            ("(abc){2,}", &["abcabc"]),
            ("[ab]cd", &["acd", "bcd"]),
            ("^GET /", &["GET /"]),
            (r"\w+", &[]),
            ("(a|.*)", &[]),
            ("x?", &[]),
            ("(?i)é", &["É", "é"]),
            ("[sſ]top", &["stop", "ſtop"]),
        ] {
            assert_eq!(literals(pattern), want, "{pattern}");
        }
    }

    #[test]
    fn case_insensitive_literals_match_either_case() {
        let hir = Regexp { pattern: "a(?i)skB".to_owned(), case_insensitive: false }.hir().unwrap();
        let [literal] = &required(&hir).unwrap()[..] else { panic!() };
        assert!(literal.starts(b"aSKb") && literal.starts(b"askbx"));
        assert!(!literal.starts(b"Askb") && !literal.starts(b"ask"));
        assert!(has_folding_exception("aſkb".as_bytes()) && !has_folding_exception("é".as_bytes()));
    }
}
