//! A subset of the rows of a page, one bit each.

use crate::limits::PAGE_ROWS;

const WORDS: usize = PAGE_ROWS / 64;

/// Rows of a page. Invariant: no bit is set at or beyond `len`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowSet {
    words: Box<[u64; WORDS]>,
    len: usize,
}

impl RowSet {
    /// Creates an empty set for `len` rows, at most [`PAGE_ROWS`].
    pub(crate) fn none(len: usize) -> Self {
        Self { words: Box::new([0; WORDS]), len: len.min(PAGE_ROWS) }
    }

    /// Creates a set of all rows.
    pub(crate) fn all(len: usize) -> Self {
        let mut set = Self::none(len);
        for (index, word) in set.words.iter_mut().enumerate() {
            let left = set.len.saturating_sub(index * 64);
            *word = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
        }
        set
    }

    /// Creates a set of the rows whose bit is set, 64 to a word.
    pub(crate) fn of_words(len: usize, words: &[u64]) -> Self {
        let mut set = Self::all(len);
        let others = words.iter().copied().chain(std::iter::repeat(0));
        set.words.iter_mut().zip(others).for_each(|(word, other)| *word &= other);
        set
    }

    /// Creates a set of the rows whose value passes.
    pub(crate) fn of_values<T: Copy>(values: &[T], passes: impl Fn(T) -> bool) -> Self {
        let mut set = Self::none(values.len());
        for (word, values) in set.words.iter_mut().zip(values.chunks(64)) {
            let (eights, rest) = values.as_chunks::<8>();
            for (number, eight) in eights.iter().enumerate() {
                let bits = std::array::from_fn::<u8, 8, _>(|at| u8::from(passes(eight[at])) << at);
                *word |= u64::from(bits.iter().fold(0, |all, bit| all | bit)) << (number * 8);
            }
            for (number, value) in rest.iter().enumerate() {
                *word |= u64::from(passes(*value)) << (eights.len() * 8 + number);
            }
        }
        set
    }

    /// Creates a set of the rows for which `is_in` returns true.
    pub(crate) fn of(len: usize, mut is_in: impl FnMut(usize) -> bool) -> Self {
        let mut set = Self::none(len);
        for start in (0..set.len).step_by(64) {
            let end = (start + 64).min(set.len);
            set.words[start / 64] =
                (start..end).fold(0, |word, row| word | u64::from(is_in(row)) << (row - start));
        }
        set
    }

    /// Returns the number of rows of the page.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn insert(&mut self, row: usize) {
        debug_assert!(row < self.len);
        self.words[row / 64 % WORDS] |= 1 << (row % 64);
    }

    #[inline]
    pub(crate) fn contains(&self, row: usize) -> bool {
        self.words[row / 64 % WORDS] >> (row % 64) & 1 == 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the number of rows in the set.
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        self.words.iter_mut().zip(other.words.iter()).for_each(|(a, b)| *a &= b);
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        self.words.iter_mut().zip(other.words.iter()).for_each(|(a, b)| *a |= b);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.words.iter_mut().zip(other.words.iter()).for_each(|(a, b)| *a &= !b);
    }

    /// Returns the rows in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_set_contains_the_added_rows() {
        for len in [0, 1, 63, 64, 65, 1000, PAGE_ROWS] {
            let all = RowSet::all(len);
            assert_eq!(all.count(), len);
            let odd = RowSet::of(len, |row| row % 2 == 1);
            let mut even = all.clone();
            even.subtract(&odd);
            assert!(even.iter().all(|row| row % 2 == 0 && row < len));
            let mut both = even.clone();
            both.intersect(&odd);
            assert!(both.is_empty());
            even.unite(&odd);
            assert_eq!(even, all);
            let mut by_hand = RowSet::none(len);
            odd.iter().for_each(|row| by_hand.insert(row));
            assert_eq!(by_hand, odd);
            assert!(odd.iter().all(|row| odd.contains(row)));
        }
    }
}
