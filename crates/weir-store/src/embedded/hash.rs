//! The hash function for texts, and a table that assigns numbers to distinct texts.
//!
//! Invariant: the function is part of the sidecar format and never changes within a version of it.
//! It reads eight bytes at a time, little-endian, the last ones padded with zeros, and folds each
//! word in by a multiplication to 128 bits whose halves are combined.

use super::columns::Texts;

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// Returns the hash of some bytes.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    finish(hash_more(SEED, bytes))
}

/// Folds in more bytes, including their length, so that `ab`, `c` differs from `a`, `bc`.
#[inline]
pub(crate) fn hash_more(state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = fold(state, bytes.len() as u64);
    for word in words {
        hash = fold(hash, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        hash = fold(hash, last_word(bytes, rest.len()));
    }
    hash
}

/// Returns the last `count` bytes (1 to 7) as a number, read without a loop.
#[inline]
fn last_word(bytes: &[u8], count: usize) -> u64 {
    if let Some(last) = bytes.last_chunk() {
        return u64::from_le_bytes(*last) >> (64 - 8 * count);
    }
    // Fewer than eight bytes: two halves that may overlap.
    if let Some((first, last)) = bytes.first_chunk().zip(bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (count - 4));
    }
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns the hash of `len` bytes (1 to 16), which are the lowest bytes of a number whose other
/// bytes are zero. The result is that of [`hash_bytes`], but faster. The code path does not depend
/// on `len`, because the length of words is unpredictable.
#[inline]
pub(crate) fn hash_short(bytes: u128, len: usize) -> u64 {
    let one = fold(fold(SEED, len as u64), bytes as u64);
    let two = fold(one, (bytes >> 64) as u64);
    finish(if len > 8 { two } else { one })
}

/// Returns the hash of everything folded in.
#[inline]
pub(crate) fn finish(state: u64) -> u64 {
    fold(state, FACTOR)
}

#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ SEED) * u128::from(FACTOR);
    (product as u64) ^ (product >> 64) as u64 ^ word.rotate_left(32)
}

/// Hasher for map keys that consist of numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FoldHasher(u64);

/// Builds a [`FoldHasher`].
pub(crate) type FoldState = std::hash::BuildHasherDefault<FoldHasher>;

impl std::hash::Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_more(self.0, bytes);
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = fold(self.0, u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = fold(self.0, number);
    }

    fn write_i64(&mut self, number: i64) {
        self.0 = fold(self.0, number.cast_unsigned());
    }
}

/// Assigns numbers to texts in the order in which they are first seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Interner {
    texts: Texts,
    /// Open addressing: number + 1, or 0. A power of two, at most half full.
    slots: Vec<u32>,
    last: Option<u32>,
}

impl Interner {
    /// Returns the number of a text, assigning one if needed.
    pub(crate) fn intern(&mut self, text: &[u8]) -> u32 {
        if let Some(last) = self.last_if(text) {
            return last;
        }
        let code = self.look_up(text);
        self.last = Some(code);
        code
    }

    /// Returns the number of the last text if this text equals it: neighbors are usually equal.
    #[inline]
    pub(crate) fn last_if(&self, text: &[u8]) -> Option<u32> {
        self.last.filter(|last| self.texts.get(*last as usize) == text)
    }

    fn look_up(&mut self, text: &[u8]) -> u32 {
        if self.slots.len() < (self.texts.len() + 1) * 2 {
            self.grow();
        }
        match self.slot(text) {
            (_, slot @ 1..) => slot - 1,
            (at, 0) => {
                self.texts.push(text);
                self.slots[at] = self.texts.len() as u32;
                self.slots[at] - 1
            }
        }
    }

    /// Returns where a text is or would be, and what is stored there. There must be a free slot.
    fn slot(&self, text: &[u8]) -> (usize, u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash_bytes(text) as usize & mask;
        loop {
            match self.slots[at] {
                slot @ 1.. if self.texts.get(slot as usize - 1) != text => at = (at + 1) & mask,
                slot => return (at, slot),
            }
        }
    }

    /// Returns the number of a text that has one.
    pub(crate) fn number(&self, text: &[u8]) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slot(text).1.checked_sub(1)
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(16);
        self.slots.clear();
        self.slots.resize(size, 0);
        for (code, text) in self.texts.iter().enumerate() {
            let mut at = hash_bytes(text) as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = code as u32 + 1;
        }
    }

    /// Returns all texts by number.
    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Returns the texts without the table.
    pub(crate) fn into_texts(self) -> Texts {
        self.texts
    }

    /// Returns the memory used, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.texts.memory_bytes() + self.slots.capacity() * 4
    }
}

/// Assigns indexes to numbers in the order in which they are first seen.
#[derive(Debug, Default)]
pub(crate) struct NumberInterner {
    numbers: Vec<u64>,
    /// Open addressing: number and its index + 1, or 0. A power of two, at most half full.
    slots: Vec<(u64, u32)>,
}

impl NumberInterner {
    /// Returns the index of a number, assigning one if needed.
    #[inline]
    pub(crate) fn intern(&mut self, number: u64) -> u32 {
        if self.slots.len() < (self.numbers.len() + 1) * 2 {
            self.grow();
        }
        let at = self.slot(number);
        let slot = &mut self.slots[at];
        if slot.1 == 0 {
            self.numbers.push(number);
            *slot = (number, self.numbers.len() as u32);
        }
        slot.1 - 1
    }

    /// Returns the slot where a number is or would be.
    #[inline]
    fn slot(&self, number: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = fold(SEED, number) as usize & mask;
        while self.slots[at].1 != 0 && self.slots[at].0 != number {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(16);
        self.slots.clear();
        self.slots.resize(size, (0, 0));
        for place in 0..self.numbers.len() {
            let at = self.slot(self.numbers[place]);
            self.slots[at] = (self.numbers[place], place as u32 + 1);
        }
    }

    /// Returns all numbers by index.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_functions_agree_for_every_length() {
        let buffer: Vec<u8> = (0..200_u8).map(|n| n.wrapping_mul(73)).collect();
        for len in 0..100 {
            let mut padded = buffer[..len].to_vec();
            padded.resize(len.next_multiple_of(8), 0);
            let words = padded.as_chunks::<8>().0.iter();
            let plain = words
                .fold(fold(SEED, len as u64), |hash, word| fold(hash, u64::from_le_bytes(*word)));
            assert_eq!(hash_bytes(&buffer[..len]), finish(plain), "{len}");
            if (1..=16).contains(&len) {
                padded.resize(16, 0);
                let bytes = u128::from_le_bytes(padded.try_into().unwrap());
                assert_eq!(hash_short(bytes, len), finish(plain), "{len}");
            }
        }
    }

    #[test]
    fn equal_numbers_are_interned_once() {
        let mut interner = NumberInterner::default();
        for number in (0..2000_u64).chain(0..2000) {
            assert_eq!(u64::from(interner.intern(number << 40)), number);
        }
        assert_eq!(interner.numbers().len(), 2000);
    }

    #[test]
    fn texts_are_interned_once() {
        let mut interner = Interner::default();
        let texts: Vec<String> = (0..5000).map(|i| format!("text {}", i % 1000)).collect();
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(interner.intern(text.as_bytes()) as usize, index % 1000);
        }
        assert_eq!(interner.intern(b""), 1000);
        assert_eq!(interner.texts().len(), 1001);
    }

    #[test]
    fn hash_values_are_stable() {
        let hashes = [b"".as_slice(), b"error", b"checkout", b"timeout after 30s"].map(hash_bytes);
        let known: [u64; 4] = [
            0xbd6a_f561_4791_e607,
            0x17b8_5ba0_4972_a34f,
            0xbdf9_9b63_579d_fdc5,
            0xed4d_43cf_1df9_a062,
        ];
        assert_eq!(hashes, known);
    }

    #[test]
    fn hashes_of_similar_texts_differ_in_half_of_their_bits() {
        let mut flips = 0;
        for i in 0..10_000_u32 {
            let one = hash_bytes(format!("request {i}").as_bytes());
            let other = hash_bytes(format!("request {}", i + 1).as_bytes());
            flips += (one ^ other).count_ones();
        }
        assert!((310_000..330_000).contains(&flips), "{flips}");
    }
}
