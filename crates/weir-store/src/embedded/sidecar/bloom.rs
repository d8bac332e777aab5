//! The second level: for each page a Bloom filter of 32-byte blocks, all of the same length.
//!
//! Blocks with the same number are stored together, page after page: a term is in the same block in
//! every page, so one read shows all pages that may contain it. The filter is Parquet's split block
//! Bloom filter (its `BloomFilter.md`), with 8 bits per term.

use super::terms::TermSet;

/// Size of a block in bytes.
pub(super) const BLOCK_BYTES: usize = 32;
/// Number of terms of a page per block of its filter.
const TERMS_PER_BLOCK: usize = BLOCK_BYTES;

const SALT: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// Returns the block of a term.
pub(super) fn block_of(term: u64, blocks: u32) -> u32 {
    (((term >> 32) * u64::from(blocks)) >> 32) as u32
}

/// Returns the bits of a term in its block.
fn bits_of(term: u64) -> [u32; 8] {
    SALT.map(|salt| 1 << ((term as u32).wrapping_mul(salt) >> 27))
}

/// Builds the filters of some pages; returns the number of blocks of each, and the data.
pub(super) fn build(pages: &[TermSet]) -> (u32, Vec<u8>) {
    let most = pages.iter().map(TermSet::len).max().unwrap_or(0);
    let blocks = most.div_ceil(TERMS_PER_BLOCK).max(1) as u32;
    let mut bytes = vec![0; blocks as usize * pages.len() * BLOCK_BYTES];
    for (page, terms) in pages.iter().enumerate() {
        for term in terms.iter() {
            let block = block_of(term, blocks) as usize;
            let at = (block * pages.len() + page) * BLOCK_BYTES;
            let words = bytes[at..at + BLOCK_BYTES].as_chunks_mut::<4>().0;
            for (word, bit) in words.iter_mut().zip(bits_of(term)) {
                *word = (u32::from_le_bytes(*word) | bit).to_le_bytes();
            }
        }
    }
    (blocks, bytes)
}

/// Returns the pages that may contain a term, given the blocks of all pages in which it would be.
pub(super) fn pages_of(row: &[u8], term: u64) -> u64 {
    let bits = bits_of(term);
    let mut mask = 0;
    for (page, block) in row.as_chunks::<BLOCK_BYTES>().0.iter().enumerate() {
        let words = block.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let missing = words.zip(bits).fold(0, |missing, (word, bit)| missing | (bit & !word));
        mask |= u64::from(missing == 0) << page;
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::hash::hash_bytes;

    #[test]
    fn bloom_filter_finds_the_pages_of_a_term() {
        let term = |page: u64, n: u64| hash_bytes(&(page << 32 | n).to_le_bytes());
        let pages: Vec<TermSet> = (0..64)
            .map(|page| {
                let mut set = TermSet::default();
                for n in 0..2000 {
                    set.insert(term(page, n));
                }
                set
            })
            .collect();
        let (blocks, bytes) = build(&pages);
        let row_len = 64 * BLOCK_BYTES;
        let (mut found, mut others) = (0, 0);
        for page in 0..64 {
            for n in 0..2000 {
                let term = term(page, n);
                let at = block_of(term, blocks) as usize * row_len;
                let mask = pages_of(&bytes[at..at + row_len], term);
                found += mask >> page & 1;
                others += mask.count_ones() - 1;
            }
        }
        assert_eq!(found, 64 * 2000);
        let share = f64::from(others) / (64.0 * 2000.0 * 63.0);
        assert!(share < 0.04, "{share}");
    }
}
