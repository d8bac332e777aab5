//! Finds the codes of a page that belong to a set, without unpacking them.
//!
//! Codes are packed into a few bits each. A table maps every pattern of several adjacent codes to
//! those that pass, so that one lookup decides several codes.

use super::decode::{Reader, number_at, window};
use super::encode::bit_width;

/// Bits of a pattern, so that its table fits into the first-level cache.
const PATTERN_BITS: u32 = 12;
/// Maximum number of codes in a pattern: the result for each is one bit of a byte.
const NEIGHBORS_MAX: u32 = 8;

/// A set of codes of a dictionary.
#[derive(Debug)]
pub struct CodeSet {
    passes: Vec<bool>,
    width: u32,
    /// Number of codes in a pattern.
    neighbors: u32,
    /// For each pattern one bit per code, the first code lowest.
    patterns: Vec<u8>,
}

impl CodeSet {
    /// Creates the set of codes for which `passes` is true, indexed by code.
    pub fn new(passes: Vec<bool>) -> Self {
        let width = bit_width(passes.len().saturating_sub(1) as u64);
        let neighbors = PATTERN_BITS.checked_div(width).unwrap_or(1).clamp(1, NEIGHBORS_MAX);
        let mut set = Self { passes, width, neighbors, patterns: Vec::new() };
        set.patterns.reserve(1 << (width * neighbors));
        for pattern in 0..1_usize << (width * neighbors) {
            let first = set.contains((pattern & ((1 << width) - 1)) as u32);
            // The codes after the first one are the first codes of an earlier pattern.
            let others = match pattern {
                0 if first => u8::MAX,
                0 => 0,
                _ => set.patterns[pattern >> width] << 1,
            };
            let mask = (1_u32 << neighbors) - 1;
            set.patterns.push((others | u8::from(first)) & mask as u8);
        }
        set
    }

    /// Returns whether no code passes.
    pub fn is_empty(&self) -> bool {
        !self.passes.contains(&true)
    }

    /// Returns whether the code passes.
    #[inline]
    pub fn contains(&self, code: u32) -> bool {
        self.passes.get(code as usize) == Some(&true)
    }

    /// Tests codes encoded as [`super::decode::hybrid`] reads them. Returns one bit for each of
    /// `count` codes, 64 to a word. Any bits after them are 0.
    pub(super) fn passing(&self, bytes: &[u8], width: u32, count: usize) -> Option<Vec<u64>> {
        let mut found = Bits::of(count);
        let mut reader = Reader::new(bytes);
        while found.len < count {
            let run = reader.run(width, count - found.len)?;
            match run.packed {
                None => found.fill(self.contains(run.code), run.count),
                Some(packed) if width == self.width => {
                    self.add_patterns(packed, run.count, &mut found);
                }
                Some(packed) => {
                    for number in 0..run.count {
                        let code = number_at(packed, number * width as usize, width);
                        found.push(u64::from(self.contains(code as u32)), 1);
                    }
                }
            }
        }
        Some(found.words)
    }

    fn add_patterns(&self, packed: &[u8], count: usize, found: &mut Bits) {
        let bits = (self.width * self.neighbors) as usize;
        let mask = (1_u64 << bits) - 1;
        // Patterns that fit into the bits of one lookup, whatever bit it starts at.
        let looks = (57 / bits.max(1)).min(64 / self.neighbors as usize);
        let step = looks * self.neighbors as usize;
        let mut done = 0;
        while done < count {
            let mut rest = window(packed, done * self.width as usize);
            let mut passes = 0;
            for look in 0..looks {
                let pattern = self.patterns[(rest & mask) as usize];
                passes |= u64::from(pattern) << (look * self.neighbors as usize);
                rest >>= bits;
            }
            let len = step.min(count - done);
            found.push(passes, len);
            done += len;
        }
    }
}

/// A sequence of bits.
struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// Allocates space for `count` bits.
    fn of(count: usize) -> Self {
        // One extra word, because a push may write into it.
        Self { words: vec![0; count.div_ceil(64) + 1], len: 0 }
    }

    /// Appends the lowest `count` bits, at most 64.
    #[inline]
    fn push(&mut self, bits: u64, count: usize) {
        let bits = if count < 64 { bits & ((1 << count) - 1) } else { bits };
        let (word, shift) = (self.len / 64, self.len % 64);
        self.words[word] |= bits << shift;
        if shift > 0 {
            self.words[word + 1] |= bits >> (64 - shift);
        }
        self.len += count;
    }

    fn fill(&mut self, is_set: bool, count: usize) {
        if is_set {
            let end = self.len + count;
            while self.len < end {
                self.push(u64::MAX, (end - self.len).min(64));
            }
        } else {
            self.len += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn code_set_filters_like_single_codes(
            runs in proptest::collection::vec((any::<u32>(), 1_usize..40), 0..40),
            passes in proptest::collection::vec(any::<bool>(), 1..300),
            wider in 0_u32..3,
        ) {
            let distinct = passes.len() as u32;
            let codes: Vec<u32> = runs
                .into_iter()
                .flat_map(|(code, run)| (0..run as u32).map(move |n| (code + n % 9 / 8) % distinct))
                .collect();
            let width = encode::bit_width(u64::from(distinct - 1)) + wider;
            let mut bytes = Vec::new();
            encode::hybrid(&codes, width, &mut bytes);
            let set = CodeSet::new(passes.clone());
            let found = set.passing(&bytes, width, codes.len()).unwrap();
            let bit = |number: usize| found[number / 64] >> (number % 64) & 1 == 1;
            for (number, code) in codes.iter().enumerate() {
                prop_assert_eq!(bit(number), passes[*code as usize], "{} of {:?}", number, codes);
            }
            prop_assert!((codes.len()..found.len() * 64).all(|number| !bit(number)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, count in 0_usize..2000, width in 0_u32..40) {
            let set = CodeSet::new(vec![true, false, true, true, false]);
            let mut codes = Vec::new();
            let is_whole = super::super::decode::hybrid(&bytes, width, count, &mut codes).is_some();
            prop_assert_eq!(set.passing(&bytes, width, count).is_some(), is_whole);
        }
    }
}
