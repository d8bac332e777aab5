//! Whether a phrase stands where one of its words was found.

use crate::glob::Glob;
use crate::words::is_word_byte;

/// A place in a message where a literal stands, and the words beside it.
pub(super) struct Place<'a> {
    /// What is before the word, and what is behind it; `None` when it is only part of a word.
    beside: Option<(&'a [u8], &'a [u8])>,
    next: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Place<'a> {
    pub(super) fn new(text: &'a [u8], start: usize, len: usize) -> Self {
        let (before, rest) = text.split_at(start);
        let behind = &rest[len..];
        let is_word = !before.last().is_some_and(|byte| is_word_byte(*byte))
            && !behind.first().is_some_and(|byte| is_word_byte(*byte));
        let next = if is_word { next_word(behind) } else { None };
        Self { beside: is_word.then_some((before, behind)), next }
    }

    /// Whether the words stand here, the one at `index` being the one that was found. The words
    /// have no wildcards.
    pub(super) fn has_phrase(&self, words: &[Glob], index: usize) -> bool {
        let Some((mut before, _)) = self.beside else { return false };
        let mut next = self.next;
        for word in &words[index + 1..] {
            let Some((found, behind)) = next else { return false };
            if !is_same(word, found) {
                return false;
            }
            next = next_word(behind);
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

fn is_same(word: &Glob, found: &[u8]) -> bool {
    word.as_text().is_some_and(|text| text.as_bytes().eq_ignore_ascii_case(found))
}

/// The first word, and what is behind it.
fn next_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = text.iter().position(|byte| is_word_byte(*byte))?;
    let rest = &text[start..];
    let len = rest.iter().position(|byte| !is_word_byte(*byte)).unwrap_or(rest.len());
    Some(rest.split_at(len))
}

/// What is before the last word, and that word.
fn previous_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().rposition(|byte| is_word_byte(*byte))? + 1;
    let start =
        text[..end].iter().rposition(|byte| !is_word_byte(*byte)).map_or(0, |place| place + 1);
    Some((&text[..start], &text[start..end]))
}
