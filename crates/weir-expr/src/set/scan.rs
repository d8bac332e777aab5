//! Finds which of many literals occur in a text, examining only a fraction of its bytes.
//!
//! A window as long as the shortest literal of the pass is chosen in each literal. All pieces of
//! the window with a fixed length (grams) are indexed. A text that contains the literal contains
//! one of these grams at *every* sequence of positions that are one more than `window - gram`
//! apart, so only such positions are examined, with a load, a multiplication and one bit of a table
//! that fits into the first-level cache. Where the bit is set, the gram is looked up, and each
//! literal that contains it there is compared. In contrast, an Aho-Corasick automaton examines
//! every byte, and each step depends on the previous one.
//!
//! The cost depends on how often the chosen grams occur in texts, and rules consist of the same
//! words as logs. So the choice is based on texts that were actually seen: [`Scanner::tuned`].
//!
//! Invariant: every occurrence of every literal is reported at least once, however it was tuned.

use std::collections::HashMap;

use super::literal::{self, Literal};

/// Bits that are 1 in folded bytes, so that both cases of a letter give the same gram.
const FOLD: u64 = 0x2020_2020_2020_2020;

/// Possible lengths of grams, in bytes. Long grams are rarer in texts, short ones allow larger
/// distances between positions.
const GRAMS: [usize; 5] = [2, 3, 4, 6, 8];

/// Literals shorter than one of these may get a pass of their own, so that fewer positions need to
/// be examined for the others.
const SPLITS: [usize; 3] = [4, 8, 14];

/// Maximum distance between two positions: more would save little and fill the table.
const STRIDE_MAX: usize = 13;

/// Size of the table in bits: 4 to 32 KiB, which leaves room in a first-level cache.
const TABLE_BITS: std::ops::RangeInclusive<u32> = 15..=18;

/// The cost of examining a position, the additional cost of a set bit, and the additional cost of
/// comparing a literal, in fifths of a nanosecond.
const COSTS: [usize; 3] = [6, 40, 25];

/// All literals of a set of rules, prepared for searching.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanner {
    passes: Vec<GramIndex>,
}

/// An index of some of the literals.
#[derive(Debug, PartialEq, Eq)]
struct GramIndex {
    /// Length of a gram in bytes.
    gram: usize,
    /// Distance in bytes between the positions that are examined.
    stride: usize,
    /// Ones where a gram is in an eight-byte load.
    mask: u64,
    /// One bit per gram hash.
    table: Vec<u64>,
    shift: u32,
    /// Grams with their entries, by hash with linear probing; the length is a power of two.
    slots: Vec<GramSlot>,
    slot_shift: u32,
    entries: Vec<GramEntry>,
}

/// A gram and the range of its entries; `count` is 0 in an empty slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct GramSlot {
    gram: u64,
    first: u32,
    count: u32,
}

/// A literal that has the gram at this offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GramEntry {
    literal: u32,
    offset: u32,
}

impl Scanner {
    /// Minimum length of a literal that can be searched for.
    pub(crate) const LITERAL_BYTES_MIN: usize = GRAMS[0];

    /// Builds an index of some of the literals without knowing the texts.
    pub(crate) fn new(literals: &[Literal], wanted: &[u32]) -> Self {
        let (long, short): (Vec<u32>, Vec<u32>) =
            wanted.iter().partition(|index| literals[**index as usize].len() >= SPLITS[0]);
        let passes = [short, long].into_iter().filter(|indices| !indices.is_empty());
        let frequencies = Frequencies::default();
        let pass = |indices: Vec<u32>| {
            let gram = match shortest(literals, &indices) {
                0..=3 => 2,
                4..=7 => 4,
                8..=11 => 6,
                _ => 8,
            };
            GramIndex::new(literals, &indices, gram, &frequencies)
        };
        Self { passes: passes.map(pass).collect() }
    }

    /// Builds the cheapest index of some of the literals for texts like these, whose frequencies
    /// are known.
    pub(crate) fn tuned(
        literals: &[Literal],
        wanted: &[u32],
        texts: &[u8],
        frequencies: &Frequencies,
    ) -> Self {
        if wanted.is_empty() {
            return Self::default();
        }
        let best_of = |indices: &[u32]| {
            let usable = GRAMS.iter().filter(|gram| **gram <= shortest(literals, indices));
            let passes = usable.map(|gram| {
                let pass = GramIndex::new(literals, indices, *gram, frequencies);
                (pass.cost(texts), pass)
            });
            passes.min_by_key(|(cost, _)| *cost)
        };
        let whole = best_of(wanted).map(|(cost, pass)| (cost, vec![pass]));
        let splits = SPLITS.iter().filter_map(|split| {
            let is_long = |index: &u32| literals[*index as usize].len() >= *split;
            let (long, short): (Vec<u32>, Vec<u32>) = wanted.iter().partition(|i| is_long(i));
            let ((cost_a, a), (cost_b, b)) = (best_of(&long)?, best_of(&short)?);
            Some((cost_a + cost_b, vec![a, b]))
        });
        let best = splits.chain(whole).min_by_key(|(cost, _)| *cost);
        Self { passes: best.map(|(_, passes)| passes).unwrap_or_default() }
    }

    /// Calls `found` with the index of a literal and its start.
    #[inline]
    pub(crate) fn scan(
        &self,
        literals: &[Literal],
        text: &[u8],
        mut found: impl FnMut(u32, usize),
    ) {
        for pass in &self.passes {
            pass.scan(text, &mut |place, gram| {
                for entry in pass.entries_of(gram) {
                    let Some(start) = place.checked_sub(entry.offset as usize) else { continue };
                    if literals[entry.literal as usize].starts(&text[start..]) {
                        found(entry.literal, start);
                    }
                }
            });
        }
    }
}

/// Returns the length of the shortest of these literals; 0 when there are none.
fn shortest(literals: &[Literal], indices: &[u32]) -> usize {
    indices.iter().map(|index| literals[*index as usize].len()).min().unwrap_or(0)
}

impl GramIndex {
    fn new(literals: &[Literal], indices: &[u32], gram: usize, texts: &Frequencies) -> Self {
        let stride = (shortest(literals, indices) + 1).saturating_sub(gram).clamp(1, STRIDE_MAX);
        let mask = u64::MAX >> (64 - 8 * gram);
        let mut by_gram: HashMap<u64, Vec<GramEntry>> = HashMap::new();
        // The best window depends on those chosen before, but the order of rules must not matter.
        let mut indices = indices.to_vec();
        indices.sort_by_key(|index| &literals[*index as usize]);
        for index in &indices {
            let bytes = literals[*index as usize].bytes();
            let start = best_window(bytes, gram, stride, texts, &by_gram);
            for offset in start..start + stride {
                let entries = by_gram.entry(load(&bytes[offset..], mask)).or_default();
                entries.push(GramEntry { literal: *index, offset: offset as u32 });
            }
        }
        let wanted = (by_gram.len() * 32).next_power_of_two().ilog2();
        let bits = wanted.clamp(*TABLE_BITS.start(), *TABLE_BITS.end());
        let slot_bits = (by_gram.len() * 4).next_power_of_two().ilog2();
        let mut pass = Self {
            gram,
            stride,
            mask,
            table: vec![0; 1 << (bits - 6)],
            shift: 64 - bits,
            slots: vec![GramSlot::default(); 1 << slot_bits],
            slot_shift: 64 - slot_bits,
            entries: Vec::new(),
        };
        let mut grams: Vec<(u64, Vec<GramEntry>)> = by_gram.into_iter().collect();
        // The order of a hash map differs from run to run, but tables must not.
        grams.sort_by_key(|(gram, _)| *gram);
        for (gram, entries) in grams {
            pass.insert(gram, &entries);
        }
        pass
    }

    fn insert(&mut self, gram: u64, entries: &[GramEntry]) {
        let bit = hash(gram) >> self.shift;
        self.table[(bit >> 6) as usize] |= 1 << (bit & 63);
        let mask = self.slots.len() - 1;
        let mut at = (hash(gram) >> self.slot_shift) as usize & mask;
        while self.slots[at].count > 0 {
            at = (at + 1) & mask;
        }
        let (first, count) = (self.entries.len() as u32, entries.len() as u32);
        self.slots[at] = GramSlot { gram, first, count };
        self.entries.extend_from_slice(entries);
    }

    fn entries_of(&self, gram: u64) -> &[GramEntry] {
        let mask = self.slots.len() - 1;
        let mut at = (hash(gram) >> self.slot_shift) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.count == 0 {
                return &[];
            }
            if slot.gram == gram {
                return &self.entries[slot.first as usize..][..slot.count as usize];
            }
            at = (at + 1) & mask;
        }
    }

    /// Calls `hit` with each examined position whose bit is set, and its gram.
    #[inline]
    fn scan(&self, text: &[u8], hit: &mut dyn FnMut(usize, u64)) {
        let (stride, mask, shift) = (self.stride, self.mask, self.shift);
        let table = &self.table[..];
        let index_mask = table.len() - 1;
        let mut place = 0;
        while let Some(eight) = text.get(place..).and_then(<[u8]>::first_chunk::<8>) {
            let gram = (u64::from_le_bytes(*eight) | FOLD) & mask;
            let bit = hash(gram) >> shift;
            // The mask is redundant given the shift, but lets the compiler omit a bounds check.
            if table[(bit >> 6) as usize & index_mask] >> (bit & 63) & 1 == 1 {
                hit(place, gram);
            }
            place += stride;
        }
        while let Some(rest) = text.get(place..).filter(|rest| rest.len() >= self.gram) {
            let gram = load(rest, mask);
            let bit = hash(gram) >> shift;
            if table[(bit >> 6) as usize & index_mask] >> (bit & 63) & 1 == 1 {
                hit(place, gram);
            }
            place += stride;
        }
    }

    /// Returns the cost of scanning these texts.
    fn cost(&self, texts: &[u8]) -> usize {
        let (mut hits, mut compared) = (0, 0);
        self.scan(texts, &mut |_, gram| {
            hits += 1;
            compared += self.entries_of(gram).len();
        });
        let [place, hit, compare] = COSTS;
        texts.len() / self.stride * place + hits * hit + compared * compare
    }
}

/// Loads the first bytes, at most eight, folded, and applies the mask.
fn load(bytes: &[u8], mask: u64) -> u64 {
    let mut eight = [0; 8];
    let len = bytes.len().min(8);
    eight[..len].copy_from_slice(&bytes[..len]);
    (u64::from_le_bytes(eight) | FOLD) & mask
}

#[inline]
fn hash(gram: u64) -> u64 {
    gram.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// How often the grams of the literals occur in texts that were seen.
#[derive(Debug, Default)]
pub(crate) struct Frequencies {
    counts: HashMap<u64, u32>,
    is_known: bool,
}

impl Frequencies {
    pub(crate) fn of(literals: &[Literal], texts: &[u8]) -> Self {
        let mut counts = HashMap::new();
        let each_gram = |bytes: &[u8], visit: &mut dyn FnMut(u64)| {
            for gram in GRAMS {
                let mask = u64::MAX >> (64 - 8 * gram);
                bytes.windows(gram).for_each(|bytes| visit(load(bytes, mask)));
            }
        };
        for literal in literals {
            each_gram(literal.bytes(), &mut |gram| {
                counts.insert(gram, 0);
            });
        }
        each_gram(texts, &mut |gram| {
            if let Some(count) = counts.get_mut(&gram) {
                *count += 1;
            }
        });
        Self { counts, is_known: true }
    }

    /// Returns an upper bound for how often a text of at least two bytes was seen; 0 when nothing
    /// is known.
    pub(crate) fn at_most(&self, bytes: &[u8]) -> u32 {
        let gram = GRAMS.into_iter().rev().find(|gram| *gram <= bytes.len()).unwrap_or(GRAMS[0]);
        let mask = u64::MAX >> (64 - 8 * gram);
        let counts = bytes.windows(gram).map(|bytes| self.counts.get(&load(bytes, mask)));
        counts.map(|count| count.copied().unwrap_or(0)).min().unwrap_or(0)
    }

    /// Returns how often a gram occurs, in arbitrary units.
    fn weight(&self, gram: u64, bytes: &[u8]) -> u64 {
        if self.is_known {
            return u64::from(self.counts.get(&gram).copied().unwrap_or(0)) * 1024;
        }
        let bits: u32 = bytes.iter().map(|byte| literal::bits(*byte)).sum();
        (1 << 40) >> bits.min(40)
    }
}

/// Returns the start of the cheapest window: each gram found costs a look-up, and a comparison with
/// every literal that contains it.
fn best_window(
    bytes: &[u8],
    gram: usize,
    stride: usize,
    texts: &Frequencies,
    indexed: &HashMap<u64, Vec<GramEntry>>,
) -> usize {
    let mask = u64::MAX >> (64 - 8 * gram);
    let costs: Vec<u64> = bytes
        .windows(gram)
        .map(|bytes| {
            let gram = load(bytes, mask);
            let others = indexed.get(&gram).map_or(0, |entries| entries.len() as u64);
            // Grams that never occur still differ: shared ones keep the table small.
            texts.weight(gram, bytes) * (2 + others) + u64::from(others == 0)
        })
        .collect();
    let cost = |start: &usize| costs[*start..*start + stride].iter().sum::<u64>();
    (0..=costs.len() - stride).min_by_key(cost).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::set::literal::of_phrase;
    use crate::{Glob, Piece};

    fn literal(text: &str) -> Literal {
        of_phrase(&[Glob::new([Piece::Text(text.to_owned())])]).unwrap()
    }

    proptest! {
        #[test]
        fn every_occurrence_of_every_literal_is_found(
            texts in prop::collection::vec("[abcd]{2,3}|[abcd]{4,7}|[ab]{8,20}", 1..6),
            long_only in any::<bool>(),
            text in "[abcdABCD]{0,60}",
            sample in "[abcd]{0,200}",
        ) {
            let texts: Vec<&String> =
                texts.iter().filter(|text| !long_only || text.len() > 7).collect();
            let literals: Vec<Literal> = texts.iter().map(|text| literal(text)).collect();
            let all: Vec<u32> = (0..literals.len() as u32).collect();
            let frequencies = Frequencies::of(&literals, sample.as_bytes());
            let tuned = Scanner::tuned(&literals, &all, sample.as_bytes(), &frequencies);
            for scanner in [Scanner::new(&literals, &all), tuned] {
                let mut found = Vec::new();
                scanner.scan(&literals, text.as_bytes(), |literal, start| {
                    found.push((literal as usize, start));
                });
                for (index, wanted) in texts.iter().enumerate() {
                    for start in 0..text.len() {
                        let is_there = text[start..].to_lowercase().starts_with(wanted.as_str());
                        prop_assert_eq!(found.contains(&(index, start)), is_there);
                    }
                }
            }
        }
    }
}
