//! Estimated aggregates: percentiles and the number of distinct values.
//!
//! Percentiles: a few numbers are kept as they are; more are counted in classes, 64 to each power
//! of two, so that the middle of a class differs from any number in it by at most 1/128. (The idea
//! is that of `DDSketch` by Masson, Rim and Lee, VLDB 2019; the class is taken from the bits of the
//! number instead of its logarithm.) Distinct values: all hashes while they are few, then
//! `HyperLogLog` with 16,384 registers and the estimator of Ertl ("New cardinality estimation
//! algorithms for `HyperLogLog` sketches", 2017), with a mean error of 0.8 %.

use std::collections::HashSet;

use crate::embedded::hash::FoldState;

/// Low bits of a number that do not affect its class.
const CLASS_SHIFT: u32 = 46;

/// Maximum number of numbers kept before they are counted in classes.
const NUMBERS_MAX: usize = 64;

/// Memory used by the numbers of a sketch: the few that are kept, or the counts of as many
/// neighboring classes, which is a power of two.
pub(super) const SKETCH_BYTES: usize = NUMBERS_MAX * size_of::<f64>();

/// Numbers whose percentiles are to be computed.
#[derive(Debug, Clone)]
pub(super) enum Sketch {
    /// The individual numbers, at most [`NUMBERS_MAX`].
    Few(Vec<f64>),
    Many(Classified),
}

/// Numbers counted by class.
#[derive(Debug, Clone, Default)]
pub(super) struct Classified {
    positive: Classes,
    negative: Classes,
    zeros: u64,
    count: u64,
    least: f64,
    most: f64,
}

/// Counts of neighboring classes.
#[derive(Debug, Clone, Default)]
struct Classes {
    first: u32,
    counts: Vec<u64>,
}

impl Classes {
    #[inline]
    fn add(&mut self, class: u32, count: u64) {
        let at = class.wrapping_sub(self.first) as usize;
        if let Some(found) = self.counts.get_mut(at) {
            *found += count;
        } else {
            self.widen(class);
            self.counts[(class - self.first) as usize] += count;
        }
    }

    #[cold]
    fn widen(&mut self, class: u32) {
        if self.counts.is_empty() {
            self.first = class;
            self.counts.push(0);
        } else if class < self.first {
            let missing = (self.first - class) as usize;
            self.counts.splice(..0, std::iter::repeat_n(0, missing));
            self.first = class;
        } else {
            self.counts.resize((class - self.first) as usize + 1, 0);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (at, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.add(other.first + at as u32, *count);
        }
    }
}

fn class_of(number: f64) -> u32 {
    (number.abs().to_bits() >> CLASS_SHIFT) as u32
}

/// Returns the middle of a class.
fn number_of(class: u32) -> f64 {
    let bits = u64::from(class) << CLASS_SHIFT;
    f64::from_bits(bits | 1 << (CLASS_SHIFT - 1))
}

impl Default for Sketch {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Sketch {
    /// Adds a number, which must be finite.
    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        match self {
            Self::Many(classified) => classified.add(number),
            Self::Few(numbers) if numbers.len() < NUMBERS_MAX => numbers.push(number),
            Self::Few(numbers) => *self = Self::Many(Classified::of(numbers, number)),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (_, Self::Few(others)) => others.iter().for_each(|number| self.add(*number)),
            (Self::Many(classified), Self::Many(others)) => classified.merge(others),
            (Self::Few(numbers), Self::Many(others)) => {
                let mut classified = others.clone();
                for number in numbers {
                    classified.add(*number);
                }
                *self = Self::Many(classified);
            }
        }
    }

    /// Returns the number below which `percent` of all numbers lie: exact when they are few, the
    /// middle of its class otherwise; `None` when there are none.
    pub(super) fn percentile(&self, percent: f64) -> Option<f64> {
        match self {
            Self::Many(classified) => classified.percentile(percent),
            Self::Few(numbers) => {
                let mut sorted = numbers.clone();
                sorted.sort_unstable_by(f64::total_cmp);
                let last = sorted.len().checked_sub(1)?;
                sorted.get(rank_of_percentile(percent, last as u64) as usize).copied()
            }
        }
    }
}

/// Returns the index from 0 to `last` of the number at this percentile, in sorted order.
fn rank_of_percentile(percent: f64, last: u64) -> u64 {
    (percent.clamp(0.0, 100.0) / 100.0 * last as f64).round() as u64
}

impl Classified {
    #[cold]
    fn of(numbers: &[f64], last: f64) -> Self {
        let mut classified = Self::default();
        numbers.iter().chain([&last]).for_each(|number| classified.add(*number));
        classified
    }

    #[inline]
    fn add(&mut self, number: f64) {
        if self.count == 0 {
            (self.least, self.most) = (number, number);
        }
        self.count += 1;
        self.least = self.least.min(number);
        self.most = self.most.max(number);
        if number > 0.0 {
            self.positive.add(class_of(number), 1);
        } else if number < 0.0 {
            self.negative.add(class_of(number), 1);
        } else {
            self.zeros += 1;
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            (self.least, self.most) = (other.least, other.most);
        }
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.zeros += other.zeros;
        self.positive.merge(&other.positive);
        self.negative.merge(&other.negative);
    }

    fn percentile(&self, percent: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let wanted = rank_of_percentile(percent, last);
        let negative = self
            .negative
            .counts
            .iter()
            .enumerate()
            .rev()
            .map(|(at, count)| (-number_of(self.negative.first + at as u32), *count));
        let positive = self
            .positive
            .counts
            .iter()
            .enumerate()
            .map(|(at, count)| (number_of(self.positive.first + at as u32), *count));
        let mut seen = 0;
        for (number, count) in negative.chain([(0.0, self.zeros)]).chain(positive) {
            seen += count;
            if seen > wanted {
                return Some(number.clamp(self.least, self.most));
            }
        }
        Some(self.most)
    }
}

/// Maximum number of values kept before the count is estimated.
const EXACT_MAX: usize = 4096;
const REGISTER_BITS: u32 = 14;
const REGISTERS: usize = 1 << REGISTER_BITS;

/// The number of distinct values.
#[derive(Debug, Clone)]
pub(super) enum Distinct {
    Exact(HashSet<u64, FoldState>),
    Estimated(Box<[u8; REGISTERS]>),
}

impl Default for Distinct {
    fn default() -> Self {
        Self::Exact(HashSet::default())
    }
}

impl Distinct {
    /// Adds the hash of a value.
    pub(super) fn add(&mut self, hash: u64) {
        match self {
            Self::Exact(seen) => {
                seen.insert(hash);
                if seen.len() > EXACT_MAX {
                    let mut registers = Box::new([0; REGISTERS]);
                    register_all(&mut registers, seen);
                    *self = Self::Estimated(registers);
                }
            }
            Self::Estimated(registers) => register(registers, hash),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (_, Self::Exact(seen)) => seen.iter().for_each(|hash| self.add(*hash)),
            (Self::Estimated(registers), Self::Estimated(others)) => {
                registers.iter_mut().zip(others.iter()).for_each(|(a, b)| *a = (*a).max(*b));
            }
            (Self::Exact(seen), Self::Estimated(others)) => {
                let mut registers = others.clone();
                register_all(&mut registers, seen);
                *self = Self::Estimated(registers);
            }
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Exact(seen) => seen.len() as u64,
            Self::Estimated(registers) => estimate(registers).round() as u64,
        }
    }
}

fn register_all(registers: &mut [u8; REGISTERS], hashes: &HashSet<u64, FoldState>) {
    for hash in hashes {
        register(registers, *hash);
    }
}

fn register(registers: &mut [u8; REGISTERS], hash: u64) {
    let at = (hash >> (64 - REGISTER_BITS)) as usize;
    let rank = (hash << REGISTER_BITS).leading_zeros().min(64 - REGISTER_BITS) + 1;
    registers[at] = registers[at].max(rank as u8);
}

/// Computes Ertl's improved raw estimator, algorithm 6.
fn estimate(registers: &[u8; REGISTERS]) -> f64 {
    const RANKS: usize = (64 - REGISTER_BITS) as usize;
    let mut counts = [0_u32; RANKS + 2];
    for rank in registers {
        counts[usize::from(*rank)] += 1;
    }
    let m = REGISTERS as f64;
    let mut z = m * tau(1.0 - f64::from(counts[RANKS + 1]) / m);
    for rank in (1..=RANKS).rev() {
        z = 0.5 * (z + f64::from(counts[rank]));
    }
    z += m * sigma(f64::from(counts[0]) / m);
    m * m / (2.0 * std::f64::consts::LN_2 * z)
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::embedded::hash::hash_bytes;

    proptest! {
        #[test]
        fn percentiles_have_one_percent_error_at_most(
            numbers in prop::collection::vec(
                prop_oneof![-1e6_f64..1e6, -3.0_f64..3.0, Just(0.0), 1e-9_f64..1e12], 1..300,
            ),
            cut in 0_usize..300,
            percent in 0.0_f64..=100.0,
        ) {
            let (mut sketch, mut other) = (Sketch::default(), Sketch::default());
            for (at, number) in numbers.iter().enumerate() {
                if at < cut { sketch.add(*number) } else { other.add(*number) }
            }
            sketch.merge(&other);
            let mut sorted = numbers.clone();
            sorted.sort_by(f64::total_cmp);
            let exact = sorted[(percent / 100.0 * (numbers.len() - 1) as f64).round() as usize];
            let found = sketch.percentile(percent).unwrap();
            let is_close = (found - exact).abs() <= exact.abs() * 0.01;
            let is_exact = found.to_bits() == exact.to_bits();
            let is_right = if numbers.len() <= NUMBERS_MAX { is_exact } else { is_close };
            prop_assert!(is_right, "{} for {} of {}", found, exact, numbers.len());
        }
    }

    #[test]
    fn percentiles_of_few_numbers_are_exact_after_any_merge() {
        let sketch_of = |numbers: std::ops::Range<u32>| {
            let mut sketch = Sketch::default();
            numbers.for_each(|number| sketch.add(f64::from(number) + 1001.0));
            sketch
        };
        let max = NUMBERS_MAX as u32;
        for cut in [0, 1, max / 2, max] {
            let mut sketch = sketch_of(0..cut);
            sketch.merge(&sketch_of(cut..max));
            assert_eq!(sketch.percentile(50.0), Some(1033.0), "{cut}");
            assert_eq!(sketch.percentile(75.0), Some(1048.0), "{cut}");
            assert!(matches!(sketch, Sketch::Few(_)), "{cut}");
            // One more number, and they are counted in classes of width 16.
            sketch.merge(&sketch_of(max..max + 1));
            assert!(matches!(sketch, Sketch::Many(_)), "{cut}");
            assert_eq!(sketch.percentile(50.0), Some(1032.0), "{cut}");
            let mut few = sketch_of(0..1);
            few.merge(&sketch);
            assert!((few.percentile(50.0).unwrap() / 1032.0 - 1.0).abs() < 0.01, "{cut}");
        }
    }

    #[test]
    fn memory_of_few_numbers_is_counted() {
        let mut sketch = Sketch::default();
        (0..NUMBERS_MAX).for_each(|number| sketch.add(number as f64));
        let Sketch::Few(numbers) = &sketch else { panic!("not kept as numbers") };
        assert!(numbers.capacity() * size_of::<f64>() <= SKETCH_BYTES, "{}", numbers.capacity());
    }

    #[test]
    fn distinct_count_has_three_percent_error_at_most() {
        assert_eq!(Sketch::default().percentile(50.0), None);
        for count in [0_u64, 1, 4096, 4097, 10_000, 50_000, 300_000] {
            let (mut distinct, mut other) = (Distinct::default(), Distinct::default());
            for value in 0..count {
                let hash = hash_bytes(value.to_string().as_bytes());
                if value % 3 == 0 {
                    other.add(hash);
                } else {
                    distinct.add(hash);
                }
                distinct.add(hash_bytes(b"0"));
            }
            distinct.merge(&other);
            let found = distinct.count();
            let is_exact = count <= EXACT_MAX as u64;
            let off = found.abs_diff(count) as f64 / count.max(1) as f64;
            assert!(if is_exact { off == 0.0 } else { off < 0.03 }, "{found} for {count}");
        }
    }
}
