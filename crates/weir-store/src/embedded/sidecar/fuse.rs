//! The first level: an 8-bit binary fuse filter over all terms of a row group.
//!
//! A lookup takes three probes of one byte each, in three adjacent parts of an array. A term that
//! was inserted is always found; another term is reported with a probability of 1 in 256. Source of
//! the construction: Graf and Lemire, "Binary Fuse Filters", 2022.

use crate::embedded::hash::hash_bytes;

/// Maximum number of attempts to build, each with another seed; each fails with a probability far
/// below 1 in 100.
const ATTEMPTS_MAX: u64 = 100;

/// The layout of the filter, which determines the probes of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FuseShape {
    pub(super) seed: u64,
    /// Size of a part in bytes; a power of two.
    pub(super) part_len: u32,
    /// Number of parts in which a first probe can be; two more follow.
    pub(super) part_count: u32,
}

impl FuseShape {
    /// Returns the layout for this number of terms.
    fn of(terms: usize) -> Self {
        let count = terms.max(2) as f64;
        let part_len = 1_u32 << ((count.ln() / 3.33_f64.ln() + 2.25) as u32).min(18);
        let factor = (0.875 + 0.25 * 1_000_000_f64.ln() / count.ln()).max(1.125);
        let capacity = (count * factor).round() as u32;
        let part_count = capacity.div_ceil(part_len).saturating_sub(2).max(1);
        Self { seed: 0, part_len, part_count }
    }

    /// Returns the size of the filter in bytes.
    pub(super) fn len(&self) -> usize {
        (self.part_count as usize + 2) * self.part_len as usize
    }

    /// Returns the positions of the three probes of a term, and the byte that they combine to.
    pub(super) fn probes(&self, term: u64) -> ([usize; 3], u8) {
        let hash = mix(term.wrapping_add(self.seed));
        let first_count = u64::from(self.part_count) * u64::from(self.part_len);
        let first = ((u128::from(hash) * u128::from(first_count)) >> 64) as usize;
        let part_len = self.part_len as usize;
        let mask = part_len - 1;
        let second = (first + part_len) ^ ((hash >> 18) as usize & mask);
        let third = (first + 2 * part_len) ^ (hash as usize & mask);
        ([first, second, third], (hash ^ (hash >> 32)) as u8)
    }
}

/// Mixes the bits with the finalizer of `MurmurHash3`.
fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Builds a filter over distinct terms. `None` if that fails with every seed, which does not happen
/// with distinct terms.
pub(super) fn build(terms: &[u64]) -> Option<(FuseShape, Vec<u8>)> {
    let shape = FuseShape::of(terms.len());
    (0..ATTEMPTS_MAX).find_map(|attempt| {
        let seed = hash_bytes(&attempt.to_le_bytes());
        let shape = FuseShape { seed, ..shape };
        let order = peel(&shape, terms)?;
        let mut bytes = vec![0; shape.len()];
        for (term, place) in order.into_iter().rev() {
            let (probes, wanted) = shape.probes(term);
            bytes[place] = 0;
            bytes[place] = probes.iter().fold(wanted, |byte, probe| byte ^ bytes[*probe]);
        }
        Some((shape, bytes))
    })
}

/// Repeatedly removes a term that is the only one left in one of its slots. Returns the order in
/// which this succeeds for all terms, with the slot of each.
fn peel(shape: &FuseShape, terms: &[u64]) -> Option<Vec<(u64, usize)>> {
    // For each slot the number of terms with a probe there, and their XOR.
    let mut places = vec![(0_u32, 0_u64); shape.len()];
    for term in terms {
        for probe in shape.probes(*term).0 {
            places[probe].0 += 1;
            places[probe].1 ^= term;
        }
    }
    let mut alone: Vec<usize> = (0..places.len()).filter(|place| places[*place].0 == 1).collect();
    let mut order = Vec::with_capacity(terms.len());
    while let Some(place) = alone.pop() {
        let (1, term) = places[place] else { continue };
        order.push((term, place));
        for probe in shape.probes(term).0 {
            places[probe].0 -= 1;
            places[probe].1 ^= term;
            if places[probe].0 == 1 {
                alone.push(probe);
            }
        }
    }
    (order.len() == terms.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(shape: &FuseShape, bytes: &[u8], term: u64) -> bool {
        let (probes, wanted) = shape.probes(term);
        probes.iter().fold(0, |byte, probe| byte ^ bytes[*probe]) == wanted
    }

    #[test]
    fn fuse_filter_finds_every_term() {
        for count in [0, 1, 2, 3, 10, 100, 5000, 200_000_u64] {
            let terms: Vec<u64> = (1..=count).map(mix).collect();
            let (shape, bytes) = build(&terms).unwrap();
            assert!(terms.iter().all(|term| has(&shape, &bytes, *term)), "{count}");
            if count > 2 {
                let others = (count + 1..count + 100_001).filter(|n| has(&shape, &bytes, mix(*n)));
                let others = others.count();
                assert!((200..600).contains(&others), "{others} of 100,000 with {count} terms");
            }
            if count > 100_000 {
                assert!((bytes.len() as u64) < count * 5 / 4, "{} bytes", bytes.len());
            }
        }
    }

    #[test]
    fn fuse_probes_stay_within_the_filter() {
        let (shape, bytes) = build(&[mix(1), mix(2), mix(3)]).unwrap();
        for n in 0..100_000 {
            let (probes, _) = shape.probes(mix(n));
            assert!(probes.iter().all(|probe| *probe < bytes.len()));
            assert!(probes[0] != probes[1] && probes[1] != probes[2]);
        }
    }
}
