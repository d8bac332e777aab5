//! Terms: 64-bit hashes of words and values, used to find pages.
//!
//! Words are split as defined by [`weir_expr::words`], in lower case. A value is hashed with the
//! name of its column, a number by its JSON text. Invariant: both lookups and builders use these
//! functions only.

use crate::embedded::columns::canonical;
use crate::embedded::hash::{finish, hash_bytes, hash_more, hash_short};
use weir_codec::Scalar;

/// Seed that separates values from words.
const VALUE_SEED: u64 = 0x5eed_0000_0000_0001;

/// Returns the term of a word of the message, ignoring the case of its ASCII letters.
pub fn word_term(word: &[u8]) -> u64 {
    hash_bytes(&word.to_ascii_lowercase())
}

/// Returns the terms of the words of a text.
pub fn words_of(text: &[u8]) -> Vec<u64> {
    let mut terms = Vec::new();
    let mut words = Words::default();
    let mut each = |word: Word<'_>, _| terms.push(word.term());
    words.add(text, 0, &mut each);
    words.end(&mut each);
    terms
}

/// A word in lower case.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word<'a> {
    /// Up to sixteen bytes, padded with zeros, and their number. No byte of a word is zero.
    Short(u128, usize),
    /// A longer word.
    Long(&'a [u8]),
}

impl<'a> Word<'a> {
    #[inline]
    pub(super) fn term(self) -> u64 {
        match self {
            Self::Short(bytes, len) => hash_short(bytes, len),
            Self::Long(bytes) => hash_bytes(bytes),
        }
    }

    /// Returns its bytes; those of a short word are put into `room`.
    pub(super) fn bytes<'b>(self, room: &'b mut [u8; 16]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Short(bytes, len) => {
                *room = bytes.to_le_bytes();
                &room[..len]
            }
            Self::Long(bytes) => bytes,
        }
    }
}

/// Texts are processed together once they have this many bytes.
const PIECE_BYTES: usize = 8 * 1024;
/// Edges of words that are written at once, whether or not there are as many.
const EDGES: usize = 16;

/// Masks for the lowest bytes of a number, by count.
const LOWEST: [u128; 17] = {
    let mut masks = [0; 17];
    let mut count = 1;
    while count <= 16 {
        masks[count] = u128::MAX >> (128 - 8 * count);
        count += 1;
    }
    masks
};

/// Splits texts into words.
///
/// The edges of words are found for 64 bytes at a time, and stored before any word is processed: a
/// branch per byte or word would be mispredicted at every end of a word.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Texts, each followed by a blank.
    folded: Vec<u8>,
    /// The end of each text, and its row.
    ends: Vec<(u32, u32)>,
    /// Starts and ends of words, alternating.
    edges: Vec<u32>,
}

impl Words {
    /// Adds the text of a row; `each` may be called with all words so far, and their rows.
    pub(super) fn add(&mut self, text: &[u8], row: u32, each: &mut impl FnMut(Word<'_>, u32)) {
        if self.folded.len() + text.len() >= PIECE_BYTES {
            self.end(each);
        }
        self.folded.extend_from_slice(text);
        self.folded.push(b' ');
        self.ends.push((self.folded.len() as u32, row));
    }

    /// Calls `each` with every remaining word and its row. `each` is called in this place only, and
    /// by reference, so that it is inlined into the loop and a word stays in registers; as a
    /// separate call it made the whole loop a third slower.
    pub(super) fn end(&mut self, each: &mut impl FnMut(Word<'_>, u32)) {
        self.folded.make_ascii_lowercase();
        // Separators, which also leave room to read sixteen bytes at the start of any word.
        self.folded.resize(self.folded.len() + 64, b' ');
        let count = self.find_edges();
        let mut rows = self.ends.drain(..);
        let (mut text_end, mut row) = (0, 0);
        for [start, end] in self.edges[..count].as_chunks().0 {
            while *start >= text_end
                && let Some(next) = rows.next()
            {
                (text_end, row) = next;
            }
            let (start, end) = (*start as usize, *end as usize);
            let front = self.folded[start..].first_chunk().map_or(0, |b| u128::from_le_bytes(*b));
            let word = match end - start {
                len @ 1..=16 => Word::Short(front & LOWEST[len], len),
                _ => Word::Long(&self.folded[start..end]),
            };
            each(word, row);
        }
        drop(rows);
        self.folded.clear();
    }

    /// Stores the edges of words, and returns how many there are.
    fn find_edges(&mut self) -> usize {
        let (mut count, mut carry) = (0, 0);
        for (index, block) in self.folded.as_chunks::<64>().0.iter().enumerate() {
            let mask = word_mask(block);
            let mut edges = mask ^ (mask << 1 | carry);
            carry = mask >> 63;
            let after = count + edges.count_ones() as usize;
            while count < after {
                if self.edges.len() < count + EDGES {
                    self.edges.resize(count + 64 * EDGES, 0);
                }
                for edge in &mut self.edges[count..count + EDGES] {
                    *edge = (index * 64) as u32 + edges.trailing_zeros();
                    edges &= edges.wrapping_sub(1);
                }
                count += EDGES;
            }
            count = after;
        }
        count
    }
}

/// Returns one bit for each byte that belongs to a word, among bytes in lower case.
fn word_mask(block: &[u8; 64]) -> u64 {
    /// Gathers the lowest bits of eight bytes into the top byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    // A separate loop, so that it is vectorized: sixteen bytes at a time.
    let mut is_word = [0_u8; 64];
    for (is_word, byte) in is_word.iter_mut().zip(block) {
        let is_letter = byte.wrapping_sub(b'a') < 26;
        let is_digit = byte.wrapping_sub(b'0') < 10;
        *is_word = u8::from(is_letter) | u8::from(is_digit) | *byte >> 7;
    }
    let words = is_word.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    words.rev().fold(0, |mask, word| mask << 8 | word.wrapping_mul(GATHER) >> 56)
}

/// Returns the term of a value in a column, by the column's name: `@path` for attributes. `None`
/// for nulls.
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

/// Returns the term of a text in a column.
pub(super) fn text_term(column: &str, text: &[u8]) -> u64 {
    finish(hash_more(hash_more(VALUE_SEED, column.as_bytes()), text))
}

/// Number of slots for recently seen words: large enough that few words collide.
const RECENT: usize = 16_384;

/// A set of distinct terms.
#[derive(Debug, Default, Clone)]
pub(super) struct TermSet {
    /// Open addressing; 0 = free. A power of two, at most half full.
    slots: Vec<u64>,
    len: usize,
}

/// Recently seen short words, and the number of each. Most words in logs repeat, and what was
/// recorded for one need not be recorded again.
#[derive(Debug)]
pub(super) struct RecentWords {
    /// Indexed by [`slot_of`]; 0 = none.
    words: Box<[u128]>,
    numbers: Box<[u8]>,
}

impl Default for RecentWords {
    fn default() -> Self {
        Self { words: vec![0; RECENT].into(), numbers: vec![0; RECENT].into() }
    }
}

/// Returns the slot for a word of up to sixteen bytes.
#[inline]
fn slot_of(word: u128) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    ((word as u64 ^ (word >> 61) as u64).wrapping_mul(FACTOR) >> 32) as usize % RECENT
}

impl RecentWords {
    /// Forgets all words.
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the number of a word, if it is remembered.
    #[inline]
    pub(super) fn number(&self, word: Word<'_>) -> Option<u8> {
        let Word::Short(bytes, _) = word else { return None };
        let slot = slot_of(bytes);
        (self.words[slot] == bytes).then(|| self.numbers[slot])
    }

    /// Remembers a word, if it is short.
    pub(super) fn remember(&mut self, word: Word<'_>, number: u8) {
        if let Word::Short(bytes, _) = word {
            let slot = slot_of(bytes);
            (self.words[slot], self.numbers[slot]) = (bytes, number);
        }
    }
}

impl TermSet {
    /// Creates a set with room for the terms of this many rows.
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

    /// Returns the terms, in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().copied().filter(|term| *term != 0)
    }
}

/// Maps 0 to another term, because 0 marks a free slot.
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
        fn words_are_split_as_in_expressions(text in proptest::collection::vec(
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
    fn words_are_case_insensitive() {
        assert_eq!(
            words_of(b"Error: time-out"),
            [b"error", b"TIME!".as_slice(), b"out"]
                .map(|w| { word_term(w.strip_suffix(b"!").unwrap_or(w)) })
        );
    }

    #[test]
    fn value_terms_depend_on_column_and_numeric_value() {
        let text = Scalar::Text(b"5");
        assert_ne!(value_term("@a", text), value_term("@b", text));
        assert_eq!(value_term("@a", text), value_term("@a", Scalar::Float(5.0)));
        assert_eq!(value_term("@a", Scalar::Null), None);
    }

    #[test]
    fn term_set_contains_each_term_once() {
        let mut set = TermSet::default();
        for term in (0..10_000_u64).chain(0..10_000) {
            set.insert(hash_bytes(&term.to_le_bytes()));
        }
        assert_eq!((set.len(), set.iter().count()), (10_000, 10_000));
    }
}
