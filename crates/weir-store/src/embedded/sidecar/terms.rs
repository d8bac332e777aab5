//! Terms: 64-bit hashes of words and of values, by which pages are found.
//!
//! A word is what [`weir_expr::words`] says, in lower case. A value is hashed with the name of its
//! column, a number by its text in JSON. Invariant: whoever asks and whoever builds use these
//! functions and no others.

use weir_codec::Scalar;
use weir_expr::words;

use crate::embedded::columns::canonical;
use crate::embedded::hash::{finish, hash_bytes, hash_more};

/// Keeps values apart from words.
const VALUE_SEED: u64 = 0x5eed_0000_0000_0001;

/// The term of a word of the message, in any case of its ASCII letters.
pub fn word_term(word: &[u8]) -> u64 {
    hash_bytes(&word.to_ascii_lowercase())
}

/// The terms of the words of a text.
pub fn words_of(text: &[u8]) -> Vec<u64> {
    let mut terms = Vec::new();
    for_each_word(text, &mut Vec::new(), |term| terms.push(term));
    terms
}

/// Calls `each` with the term of every word.
pub(super) fn for_each_word(text: &[u8], folded: &mut Vec<u8>, mut each: impl FnMut(u64)) {
    folded.clear();
    folded.extend_from_slice(text);
    folded.make_ascii_lowercase();
    for word in words::split(folded) {
        each(hash_bytes(word));
    }
}

/// The term of a value in a column, by its name: `@path` for attributes. `None` for nulls.
pub fn value_term(column: &str, value: Scalar<'_>) -> Option<u64> {
    let mut text = Vec::new();
    let text = match canonical(value) {
        Scalar::Null => return None,
        Scalar::Text(text) => text,
        value => {
            value.write_json(&mut text);
            &text
        }
    };
    Some(text_term(column, text))
}

/// The same for a text.
pub(super) fn text_term(column: &str, text: &[u8]) -> u64 {
    finish(hash_more(hash_more(VALUE_SEED, column.as_bytes()), text))
}

/// Distinct terms.
#[derive(Debug, Default, Clone)]
pub(super) struct TermSet {
    /// Open addressing; 0 = free. A power of two, at most half full.
    slots: Vec<u64>,
    len: usize,
}

impl TermSet {
    #[inline]
    pub(super) fn insert(&mut self, term: u64) {
        if self.slots.len() < (self.len + 1) * 2 {
            self.grow();
        }
        self.put(not_zero(term));
    }

    fn put(&mut self, term: u64) {
        let mask = self.slots.len() - 1;
        let mut at = term as usize & mask;
        while self.slots[at] != 0 {
            if self.slots[at] == term {
                return;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = term;
        self.len += 1;
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1024);
        let slots = std::mem::replace(&mut self.slots, vec![0; size]);
        self.len = 0;
        slots.into_iter().filter(|term| *term != 0).for_each(|term| self.put(term));
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The terms, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().copied().filter(|term| *term != 0)
    }
}

/// Terms in filters are never 0.
#[inline]
pub(super) fn not_zero(term: u64) -> u64 {
    term.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_in_any_case() {
        assert_eq!(
            words_of(b"Error: time-out"),
            [b"error", b"TIME!".as_slice(), b"out"]
                .map(|w| { word_term(w.strip_suffix(b"!").unwrap_or(w)) })
        );
    }

    #[test]
    fn values_are_of_their_column_and_numbers_are_values() {
        let text = Scalar::Text(b"5");
        assert_ne!(value_term("@a", text), value_term("@b", text));
        assert_eq!(value_term("@a", text), value_term("@a", Scalar::Float(5.0)));
        assert_eq!(value_term("@a", Scalar::Null), None);
    }

    #[test]
    fn a_set_has_each_term_once() {
        let mut set = TermSet::default();
        for term in (0..10_000_u64).chain(0..10_000) {
            set.insert(hash_bytes(&term.to_le_bytes()));
        }
        assert_eq!((set.len(), set.iter().count()), (10_000, 10_000));
    }
}
