//! Frequent words: for words that many messages of a row group contain, the rows that have them.
//!
//! A filter does not help with a word that is on every page, and most of the cost of searching for
//! words is decompressing messages. So the rows are stored for the most frequent words, as many as
//! fit into a fraction of the size of the messages. Invariant: what is stored about a word is
//! exact; words are compared by their bytes, never by a hash alone. The words are chosen from the
//! messages alone, so rebuilding the sidecar yields the same bytes.

use std::collections::HashMap;

use super::terms::{Word, Words};
use crate::embedded::hash::FoldState;
use crate::embedded::segment::SegmentError;

/// Maximum number of words of a row group: each has a bit per row while they are collected.
const WORDS_MAX: usize = 128;
/// The number for words that are not among them.
const NOT_KEPT: u8 = u8::MAX;
const _: () = assert!(WORDS_MAX <= NOT_KEPT as usize, "each word needs a number of its own");
/// Number of messages that are sampled to choose the words.
const SAMPLES: usize = 4096;
/// Maximum size of the sampled messages, in bytes. Every word in them is kept in memory, and where
/// every word is different, as in encoded bytes, a word takes ten times its length.
const SAMPLE_BYTES: usize = 2 * 1024 * 1024;
/// A word is frequent when at least one message in this many has it, and more than one.
const RARITY: usize = 256;
/// At most one byte is spent on frequent words for this many bytes of messages.
const BYTES_SHARE: usize = 32;
/// zstd level for the rows of words.
const LEVEL: i32 = 1;

/// The frequent words of a row group, and the rows that have them.
#[derive(Debug)]
pub(super) struct FrequentWords {
    words: Vec<FrequentWord>,
    numbers: HashMap<Vec<u8>, u8, FoldState>,
    /// For each word by number, which of the current 64 rows have it. This keeps the updates in a
    /// small area of memory; a word that is not kept is updated too, which is cheaper than a
    /// branch.
    block: [u64; 1 << u8::BITS],
    /// Index of the current rows in [`FrequentWord::rows`].
    block_at: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct FrequentWord {
    /// In lower case.
    text: Vec<u8>,
    /// One bit for each row.
    rows: Vec<u64>,
}

/// How many of the sampled messages contain a word.
#[derive(Debug)]
struct WordCount {
    text: Vec<u8>,
    messages: usize,
    last: u32,
}

impl FrequentWords {
    /// Chooses words from the messages of `rows` rows.
    pub(super) fn choose(messages: &[&[u8]], rows: usize) -> Self {
        let mut chosen = count_words(messages);
        chosen.truncate(WORDS_MAX);
        let numbers = (0..).zip(&chosen).map(|(number, seen)| (seen.text.clone(), number));
        let kept = |text| FrequentWord { text, rows: vec![0; rows.div_ceil(64)] };
        Self {
            numbers: numbers.collect(),
            words: chosen.into_iter().map(|seen| kept(seen.text)).collect(),
            block: [0; 1 << u8::BITS],
            block_at: 0,
            bytes_max: messages.iter().map(|text| text.len()).sum::<usize>() / BYTES_SHARE,
        }
    }

    /// Returns the number of a word, for use with [`Self::add`].
    pub(super) fn number(&self, word: Word<'_>) -> u8 {
        self.numbers.get(word.bytes(&mut [0; 16])).copied().unwrap_or(NOT_KEPT)
    }

    /// Records that a row has the word with that number; rows must come in order.
    #[inline]
    pub(super) fn add(&mut self, number: u8, row: u32) {
        let at = row as usize / 64;
        if at != self.block_at {
            self.end_block();
            self.block_at = at;
        }
        self.block[usize::from(number)] |= 1 << (row % 64);
    }

    fn end_block(&mut self) {
        for (kept, rows) in self.words.iter_mut().zip(&self.block) {
            kept.rows[self.block_at] |= rows;
        }
        self.block.fill(0);
    }

    /// Encodes the words with their rows, as many as there is room for: see [`find`].
    pub(super) fn encode(&mut self) -> Result<Vec<u8>, SegmentError> {
        self.end_block();
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        let (mut list, mut data) = (Vec::new(), Vec::new());
        // Words of the same statement are in the same rows.
        let mut places: HashMap<Vec<u8>, u32, FoldState> = HashMap::default();
        for word in &self.words {
            let bytes: Vec<u8> = word.rows.iter().flat_map(|rows| rows.to_le_bytes()).collect();
            let packed = compressor.compress(&bytes)?;
            let known = places.get(&packed).copied();
            let entry_bytes = ENTRY_BYTES + word.text.len();
            let more = entry_bytes + if known.is_some() { 0 } else { packed.len() };
            if list.len() + data.len() + more > self.bytes_max {
                break;
            }
            let at = known.unwrap_or(data.len() as u32);
            list.extend_from_slice(&at.to_le_bytes());
            list.extend_from_slice(&(packed.len() as u32).to_le_bytes());
            list.extend_from_slice(&(word.text.len() as u32).to_le_bytes());
            list.extend_from_slice(&word.text);
            if known.is_none() {
                data.extend_from_slice(&packed);
                places.insert(packed, at);
            }
        }
        if list.is_empty() {
            return Ok(list);
        }
        Ok([&(list.len() as u32).to_le_bytes(), &list[..], &data].concat())
    }
}

/// Returns a sample of the messages, spread evenly.
fn samples<'a>(messages: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let bytes: usize = messages.iter().map(|text| text.len()).sum();
    let step = messages.len().div_ceil(SAMPLES).max(bytes.div_ceil(SAMPLE_BYTES)).max(1);
    // The sample may happen to consist of long messages.
    let mut left = 2 * SAMPLE_BYTES;
    let fits = |text: &&[u8]| {
        let rest = left.checked_sub(text.len());
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    messages.iter().step_by(step).copied().filter(fits).collect()
}

/// Returns the words that many of the sampled messages contain, the most frequent first.
fn count_words(messages: &[&[u8]]) -> Vec<WordCount> {
    let mut seen: HashMap<u64, WordCount, FoldState> = HashMap::default();
    let mut each = |word: Word<'_>, message: u32| {
        let of_word = seen.entry(word.term()).or_insert_with(|| {
            let text = word.bytes(&mut [0; 16]).to_vec();
            WordCount { text, messages: 0, last: u32::MAX }
        });
        if of_word.last != message {
            of_word.last = message;
            of_word.messages += 1;
        }
    };
    let mut words = Words::default();
    let samples = samples(messages);
    let count = samples.len();
    for (number, text) in samples.into_iter().enumerate() {
        words.add(text, number as u32, &mut each);
    }
    words.end(&mut each);
    let least = (count / RARITY).max(2);
    let mut seen: Vec<WordCount> =
        seen.into_values().filter(|seen| seen.messages >= least).collect();
    seen.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.text.cmp(&b.text)));
    seen
}

/// Size of a list entry besides its word, in bytes.
const ENTRY_BYTES: usize = 12;

/// Finds the position of a word's rows after the list: offset and length. The list has an entry for
/// each word: offset, length, the length of the word (4 bytes each), the word.
///
/// `Err` when it is not a valid list, `None` when the word is not in it.
pub(super) fn find(mut list: &[u8], word: &[u8]) -> Result<Option<(u64, u64)>, InvalidWordList> {
    while !list.is_empty() {
        let (entry, rest) = list.split_first_chunk::<ENTRY_BYTES>().ok_or(InvalidWordList)?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
        let (text, rest) = rest.split_at_checked(number(8) as usize).ok_or(InvalidWordList)?;
        if text == word {
            return Ok(Some((u64::from(number(0)), u64::from(number(4)))));
        }
        list = rest;
    }
    Ok(None)
}

/// The data is not a valid list of words.
#[derive(Debug)]
pub(super) struct InvalidWordList;

/// Unpacks the rows of a word, one bit each. `None` when the data does not match the number of
/// rows.
pub(super) fn unpack(packed: &[u8], rows: usize) -> Option<Vec<u64>> {
    let bytes = zstd::bulk::decompress(packed, rows.div_ceil(64) * 8).ok()?;
    let words: Vec<u64> =
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    (words.len() == rows.div_ceil(64)).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_long_messages_are_sampled() {
        let long: Vec<Vec<u8>> = (0..500)
            .map(|number| {
                let mut text = format!("begin {number} ").repeat(8000).into_bytes();
                text.extend_from_slice(b"end");
                text
            })
            .collect();
        let messages: Vec<&[u8]> = long.iter().map(Vec::as_slice).collect();
        let chosen = samples(&messages);
        let bytes: usize = chosen.iter().map(|text| text.len()).sum();
        assert!((SAMPLE_BYTES / 2..=2 * SAMPLE_BYTES).contains(&bytes), "{bytes}");
        assert!(chosen.len() > 10 && chosen.contains(&messages[0]));
        let words: Vec<String> = count_words(&messages)
            .iter()
            .map(|seen| String::from_utf8_lossy(&seen.text).into())
            .collect();
        assert_eq!(words, ["begin", "end"], "found in all messages, up to their ends");

        let short = vec![b"a message".as_slice(); 10_000];
        assert_eq!(samples(&short).len(), 10_000_usize.div_ceil(3), "thousands of short messages");
        let giant = vec![b'x'; 3 * SAMPLE_BYTES];
        assert!(samples(&[&giant, &giant]).is_empty(), "no message that is too long on its own");
    }
}
