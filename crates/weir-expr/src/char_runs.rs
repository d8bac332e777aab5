//! Finds where a regexp without a literal could match: sequences of characters that all belong to
//! the classes of one of its runs, such as `/[0-9]{9}/`.
//!
//! The last byte of a possible run is examined first: if it belongs to none of the classes, the
//! next run starts after it at the earliest, so most bytes are never examined.
//!
//! Invariant: each match contains a run. Non-ASCII bytes are treated as members of every class,
//! because a class can match multi-byte characters.

use regex_syntax::hir::Hir;

use crate::set::classes::{self, Set};

/// Maximum length of a run: about that of a hexadecimal hash.
const LEN_MAX: usize = 32;

/// The runs of one regexp.
#[derive(Debug, Clone)]
pub(crate) struct CharRuns {
    is_of_kind: Box<[bool; 256]>,
    len: usize,
}

impl CharRuns {
    /// Returns `None` if too many texts would have one.
    pub(crate) fn of(hir: &Hir) -> Option<Self> {
        let run = classes::required_up_to(hir, LEN_MAX)?;
        let all = run.iter().fold(0, |all: Set, set| all | set);
        if !classes::is_selective(&vec![all; run.len()]) {
            return None;
        }
        let is_of_kind = |byte: usize| byte >= 128 || all >> byte & 1 == 1;
        Some(Self { is_of_kind: Box::new(std::array::from_fn(is_of_kind)), len: run.len() })
    }

    /// Returns the first `len` bytes of the first run that starts at `from` or later.
    pub(crate) fn find(&self, bytes: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
        let is_of_kind = |byte: &u8| self.is_of_kind[usize::from(*byte)];
        let mut end = from + self.len;
        while let Some(last) = bytes.get(end - 1) {
            if is_of_kind(last) {
                let start = end - self.len;
                let before = bytes.get(start..end - 1)?;
                match before.iter().rposition(|byte| !is_of_kind(byte)) {
                    Some(other) => end = start + other + 1 + self.len,
                    None => return Some(start..end),
                }
            } else {
                end += self.len;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn char_runs(pattern: &str) -> Option<CharRuns> {
        CharRuns::of(&regex_syntax::parse(pattern).unwrap())
    }

    #[test]
    fn first_run_is_found_anywhere() {
        let nine = char_runs("[0-9]{9}").unwrap();
        for before in 0..40 {
            let text = format!("{}12345678 a 1234567890 b", "x".repeat(before));
            let place = before + 11;
            assert_eq!(nine.find(text.as_bytes(), 0), Some(place..place + 9), "{before}");
            assert_eq!(nine.find(text.as_bytes(), place + 1), Some(place + 1..place + 10));
            assert_eq!(nine.find(text.as_bytes(), place + 2), None);
            assert_eq!(nine.find(text.as_bytes(), text.len() + 1), None);
        }
    }

    #[test]
    fn only_selective_patterns_have_runs() {
        for pattern in ["[a-z]{8}", ".*", "[0-9]", "[0-9]{4} [a-z]{4}", "[0-9]{9}|x", "a?b?c?d?"] {
            assert!(char_runs(pattern).is_none(), "{pattern}");
        }
        assert!(char_runs(r"\b[0-9a-f]{16}\b").is_some());
    }

    #[test]
    fn multibyte_characters_may_be_in_any_class() {
        let digits = char_runs(r"\d{8}").unwrap();
        let arabic = "x ٠١٢٣٤٥٦٧ y";
        assert!(digits.find(arabic.as_bytes(), 0).is_some());
    }
}
