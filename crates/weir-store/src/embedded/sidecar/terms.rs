//! Terms: 64-bit hashes of words and of values, by which pages are found.
//!
//! A word is what [`weir_expr::words`] says, in lower case. A value is hashed with the name of its
//! column, a number by its text in JSON. Invariant: whoever asks and whoever builds use these
//! functions and no others.

use crate::embedded::columns::canonical;
use crate::embedded::hash::{finish, hash_bytes, hash_more, hash_within};
use weir_codec::Scalar;

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
///
/// Where words begin and end is found for 64 bytes at a time: one branch per byte would be
/// mispredicted at every end of a word.
pub(super) fn for_each_word(text: &[u8], folded: &mut Vec<u8>, mut each: impl FnMut(u64)) {
    folded.clear();
    folded.extend_from_slice(text);
    folded.make_ascii_lowercase();
    // No word byte; and room for what `hash_within` reads.
    folded.resize(text.len() + 64, b' ');
    let mut start = None;
    let mut carry = 0;
    for (index, block) in folded.as_chunks::<64>().0.iter().enumerate() {
        let mask = word_mask(block);
        let mut edges = mask ^ (mask << 1 | carry);
        carry = mask >> 63;
        while edges != 0 {
            let at = index * 64 + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            match start.take() {
                None => start = Some(at),
                Some(start) => each(hash_within(folded, start, at - start)),
            }
        }
    }
}

/// A bit for each byte that belongs to a word, among bytes in lower case.
fn word_mask(block: &[u8; 64]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    /// Moves the high bits of eight bytes next to each other.
    const GATHER: u64 = 0x0002_0408_1020_4081;
    let mut mask = 0;
    for (index, bytes) in block.as_chunks().0.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        let low = word & !HIGH;
        // The high bit of a byte is set where it is at least `least`: nothing is carried over.
        let from = |least: u8| low + (0x80 - u64::from(least)) * ONES;
        let letters = from(b'a') & !from(b'z' + 1);
        let digits = from(b'0') & !from(b'9' + 1);
        let found = (letters | digits | word) & HIGH;
        mask |= ((found >> 7).wrapping_mul(GATHER << 7) >> 56) << (index * 8);
    }
    mask
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

/// Terms that were put in last, looked at before the set is: most words of logs are few.
const RECENT: usize = 1024;

/// Distinct terms.
#[derive(Debug, Default, Clone)]
pub(super) struct TermSet {
    /// Open addressing; 0 = free. A power of two, at most half full.
    slots: Vec<u64>,
    len: usize,
}

/// Remembers terms that a set has.
#[derive(Debug)]
pub(super) struct Recent(Box<[u64; RECENT]>);

impl Default for Recent {
    fn default() -> Self {
        Self(Box::new([0; RECENT]))
    }
}

impl Recent {
    /// Another set begins.
    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Puts a term into the set, unless that was just done.
    #[inline]
    pub(super) fn insert(&mut self, term: u64, set: &mut TermSet) {
        let slot = &mut self.0[(term >> 32) as usize % RECENT];
        if *slot != term {
            *slot = term;
            set.insert(term);
        }
    }
}

impl TermSet {
    /// Room for terms of so many rows.
    pub(super) fn of_rows(rows: usize) -> Self {
        Self { slots: vec![0; (rows * 4).next_power_of_two().max(64)], len: 0 }
    }

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
    use proptest::strategy::Strategy as _;

    proptest::proptest! {
        #[test]
        fn words_are_those_of_the_language(text in proptest::collection::vec(
            proptest::prop_oneof![
                proptest::prelude::any::<u8>(),
                proptest::char::range(' ', '~').prop_map(|c| c as u8),
            ],
            0..300,
        )) {
            let wanted: Vec<u64> = weir_expr::words::split(&text).map(word_term).collect();
            proptest::prop_assert_eq!(words_of(&text), wanted);
        }
    }

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
