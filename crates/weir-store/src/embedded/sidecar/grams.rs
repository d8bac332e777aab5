//! Trigrams in words: which pages contain them.
//!
//! A whole word is looked up in the filters; a part of a word, as in wildcards and regular
//! expressions, is looked up by its trigrams. Characters are mapped to 32 classes, so a table has
//! an entry for every possible trigram and omits none. Invariant: a page with a text inside its
//! words has all trigrams of that text.

use super::terms::Word;

/// Character classes: letters regardless of case, digits in pairs, everything beyond ASCII.
const CLASS_BITS: usize = 5;
/// Number of trigrams of character classes.
const GRAMS: usize = 1 << (3 * CLASS_BITS);
/// Maximum size of a table: a bit for each page of a row group.
pub(super) const TABLE_BYTES_MAX: usize = GRAMS * 8;

/// Returns the class of a byte of a word; letters in either case. `None` for bytes between words.
fn class_of(byte: u8) -> Option<u16> {
    match byte.to_ascii_lowercase() {
        letter @ b'a'..=b'z' => Some(u16::from(letter - b'a')),
        digit @ b'0'..=b'9' => Some(26 + u16::from((digit - b'0') / 2)),
        0x80.. => Some(31),
        _ => None,
    }
}

/// Calls `each` with the trigrams of a text that are inside words.
fn for_each_gram(text: &[u8], mut each: impl FnMut(usize)) {
    let (mut gram, mut len) = (0, 0);
    for byte in text {
        let Some(class) = class_of(*byte) else {
            len = 0;
            continue;
        };
        gram = (gram << CLASS_BITS | usize::from(class)) % GRAMS;
        len += 1;
        if len >= 3 {
            each(gram);
        }
    }
}

/// The trigrams in the words of one page.
#[derive(Debug, Clone)]
pub(super) struct PageGrams(Box<[u64; GRAMS / 64]>);

impl Default for PageGrams {
    fn default() -> Self {
        Self(Box::new([0; GRAMS / 64]))
    }
}

impl PageGrams {
    /// Adds a word.
    pub(super) fn add(&mut self, word: Word<'_>) {
        let mut room = [0; 16];
        for_each_gram(word.bytes(&mut room), |gram| self.0[gram / 64] |= 1 << (gram % 64));
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let places = self.0.iter().enumerate().filter(|(_, word)| **word != 0);
        places.flat_map(|(place, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place * 64 + bit)
        })
    }
}

/// Returns the number of bytes for the pages of a trigram.
fn stride_of(pages: usize) -> usize {
    pages.div_ceil(8)
}

/// Returns for each trigram the pages that have it, one bit each, the first page lowest.
pub(super) fn table_of(pages: &[PageGrams]) -> Vec<u8> {
    let stride = stride_of(pages.len());
    let mut table = vec![0; GRAMS * stride];
    for (page, grams) in pages.iter().enumerate() {
        for gram in grams.iter() {
            table[gram * stride + page / 8] |= 1 << (page % 8);
        }
    }
    table
}

/// Trigrams of words, and the pages of a row group that have them.
#[derive(Debug)]
pub struct Grams {
    table: Vec<u8>,
    stride: usize,
}

impl Grams {
    /// Wraps a table; `None` when it does not fit this number of pages.
    pub(super) fn new(table: Vec<u8>, pages: usize) -> Option<Self> {
        let stride = stride_of(pages);
        (table.len() == GRAMS * stride).then_some(Self { table, stride })
    }

    /// Returns the pages on which a message may contain the text, ignoring the case of ASCII
    /// letters, one bit each. Only the parts of the text inside its words are considered.
    pub fn pages(&self, text: &[u8]) -> u64 {
        let mut pages = u64::MAX;
        for_each_gram(text, |gram| {
            let row = self.table.get(gram * self.stride..(gram + 1) * self.stride);
            let bytes = row.unwrap_or_default().iter().rev();
            pages &= bytes.fold(0, |mask, byte| mask << 8 | u64::from(*byte));
        });
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::Words;
    use super::*;

    fn grams(texts: &[&str]) -> Grams {
        let pages: Vec<PageGrams> = texts
            .iter()
            .map(|text| {
                let mut grams = PageGrams::default();
                let mut words = Words::default();
                let mut each = |word: Word<'_>, _| grams.add(word);
                words.add(text.as_bytes(), 0, &mut each);
                words.end(&mut each);
                grams
            })
            .collect();
        Grams::new(table_of(&pages), pages.len()).unwrap()
    }

    #[test]
    fn grams_select_pages_by_parts_of_words() {
        let grams = grams(&["Connection refused", "took 1234 ms", "größer", "x"]);
        for (text, pages) in [
            ("nect", 1),
            ("NECT", 1),
            ("onrefus", 0),
            ("on refus", 1),
            ("refused by peer", 0),
            ("on r", u64::MAX),
            ("235", 2),
            ("2347", 0),
            ("öße", 4),
            ("", u64::MAX),
        ] {
            assert_eq!(grams.pages(text.as_bytes()), pages, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn grams_never_exclude_a_page_with_the_text(
            texts in proptest::collection::vec("[a-cA-C0-3é .]{0,30}", 1..20),
            part in "[a-cA-C0-3é .]{0,6}",
        ) {
            let grams = grams(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            let found = grams.pages(part.to_lowercase().as_bytes());
            for (page, text) in texts.iter().enumerate() {
                let has = text.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
                proptest::prop_assert!(!has || found >> page & 1 == 1, "{part} in {text}");
            }
        }
    }
}
