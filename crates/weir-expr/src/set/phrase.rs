//! Checks whether a phrase occurs where one of its words was found.

use super::plan::AdjacentWord;
use crate::glob::Glob;
use crate::words::is_word_byte;

/// The hash value for a missing word.
const NO_WORD: u64 = u64::MAX;

/// A position in a message where a literal occurs, and the words next to it.
pub(super) struct WordPosition<'a> {
    /// The text before and after the word; `None` if the literal is only part of a word.
    beside: Option<(&'a [u8], &'a [u8])>,
    /// Hashes of the adjacent words, computed on demand; [`NO_WORD`] where there is none.
    next: Option<u64>,
    previous: Option<u64>,
}

impl<'a> WordPosition<'a> {
    pub(super) fn new(text: &'a [u8], start: usize, len: usize) -> Self {
        let (before, rest) = text.split_at(start);
        let after = &rest[len..];
        let is_word = !before.last().is_some_and(|byte| is_word_byte(*byte))
            && !after.first().is_some_and(|byte| is_word_byte(*byte));
        Self { beside: is_word.then_some((before, after)), next: None, previous: None }
    }

    /// Returns whether a phrase with these adjacent words can occur here.
    pub(super) fn is_possible(&mut self, wanted: AdjacentWord) -> bool {
        let Some((before, after)) = self.beside else { return false };
        match wanted {
            AdjacentWord::Nothing => true,
            AdjacentWord::Next(wanted) => {
                let next = || next_word(after).map_or(NO_WORD, |(word, _)| u64::from(hash(word)));
                *self.next.get_or_insert_with(next) == u64::from(wanted)
            }
            AdjacentWord::Previous(wanted) => {
                let previous =
                    || previous_word(before).map_or(NO_WORD, |(_, word)| u64::from(hash(word)));
                *self.previous.get_or_insert_with(previous) == u64::from(wanted)
            }
        }
    }

    /// Returns whether the words occur here, the one at `index` being the one that was found. The
    /// words have no wildcards.
    pub(super) fn has_phrase(&self, words: &[Glob], index: usize) -> bool {
        let Some((mut before, mut after)) = self.beside else { return false };
        for word in &words[index + 1..] {
            match next_word(after) {
                Some((found, rest)) if is_same(word, found) => after = rest,
                _ => return false,
            }
        }
        words[..index].iter().rev().all(|word| match previous_word(before) {
            Some((rest, found)) => {
                before = rest;
                is_same(word, found)
            }
            None => false,
        })
    }
}

/// Returns the hash of a word, which is the same for words that differ only in the case of ASCII
/// letters.
pub(super) fn hash(word: &[u8]) -> u32 {
    let mix = |hash: u32, byte: &u8| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    };
    word.iter().fold(0x811c_9dc5, mix)
}

fn is_same(word: &Glob, found: &[u8]) -> bool {
    word.as_text().is_some_and(|text| text.as_bytes().eq_ignore_ascii_case(found))
}

/// Returns the first word, and the text after it.
fn next_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = text.iter().position(|byte| is_word_byte(*byte))?;
    let rest = &text[start..];
    let len = rest.iter().position(|byte| !is_word_byte(*byte)).unwrap_or(rest.len());
    Some(rest.split_at(len))
}

/// Returns the text before the last word, and that word.
fn previous_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().rposition(|byte| is_word_byte(*byte))? + 1;
    let start =
        text[..end].iter().rposition(|byte| !is_word_byte(*byte)).map_or(0, |place| place + 1);
    Some((&text[..start], &text[start..end]))
}
