//! Short slices, each stored once and found by hash: used to build a frame's tables while rows are
//! pushed.
//!
//! Invariants: numbers are assigned in the order in which slices are added; nothing is allocated
//! once the buffers have grown, and clearing keeps them; a lookup takes constant time, however many
//! slices there are.

/// Slots of an empty table; a power of two.
const SLOTS_MIN: usize = 16;
/// An odd number without a pattern, as multiplicative hashing requires.
const FACTOR: u64 = 0x517c_c1b7_2722_0a95;

/// Slices of `T`, each with a tag that is part of its identity.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    items: Vec<T>,
    entries: Vec<Entry>,
    /// Number of an entry plus one, 0 = free; at least half of them are free.
    slots: Vec<u16>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u64,
    hash: u64,
    start: u32,
    len: u32,
}

/// Hashes a tag and words.
pub(crate) fn hash(tag: u64, words: impl Iterator<Item = u64>) -> u64 {
    let mixed = words.fold(tag, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR));
    // The low bits select the slot, and in a product they depend only on the low bits.
    mixed ^ (mixed >> 32)
}

impl<T: Copy + Eq> Interner<T> {
    pub(crate) fn new() -> Self {
        Self { items: Vec::new(), entries: Vec::new(), slots: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.entries.clear();
        self.slots.clear();
    }

    /// Becomes a copy of `other`, reusing its own memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.items.clone_from(&other.items);
        self.entries.clone_from(&other.entries);
        self.slots.clone_from(&other.slots);
    }

    /// Returns the number of slices.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the total number of items.
    pub(crate) fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Returns tag and items of slice `number`.
    pub(crate) fn get(&self, number: usize) -> Option<(u64, &[T])> {
        let entry = self.entries.get(number)?;
        Some((entry.tag, self.items_of(entry)))
    }

    fn items_of(&self, entry: &Entry) -> &[T] {
        &self.items[entry.start as usize..(entry.start + entry.len) as usize]
    }

    /// Returns the number of a slice.
    pub(crate) fn find(&self, hash: u64, tag: u64, items: &[T]) -> Option<u16> {
        let is_it = |number: u16| {
            let entry = &self.entries[usize::from(number)];
            entry.hash == hash && entry.tag == tag && self.items_of(entry) == items
        };
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        while let Some(number) = self.slots[at].checked_sub(1) {
            if is_it(number) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Adds a slice that is not present; returns its number.
    pub(crate) fn add(&mut self, hash: u64, tag: u64, items: &[T]) -> u16 {
        if self.entries.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let number = self.entries.len() as u16;
        let (start, len) = (self.items.len() as u32, items.len() as u32);
        self.entries.push(Entry { tag, hash, start, len });
        self.items.extend_from_slice(items);
        self.occupy(hash, number);
        number
    }

    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots.clear();
        self.slots.resize(count, 0);
        for number in 0..self.entries.len() {
            self.occupy(self.entries[number].hash, number as u16);
        }
    }

    fn occupy(&mut self, hash: u64, number: u16) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = number + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_found_by_content() {
        let mut all = Interner::new();
        for number in 0..1000_u16 {
            let items = [number % 10, number];
            let hash = hash(u64::from(number % 3), items.iter().map(|item| u64::from(*item)));
            assert_eq!(all.find(hash, u64::from(number % 3), &items), None);
            assert_eq!(all.add(hash, u64::from(number % 3), &items), number);
            assert_eq!(all.find(hash, u64::from(number % 3), &items), Some(number));
            // A hash alone does not identify a slice.
            assert_eq!(all.find(hash, 7, &items), None);
            assert_eq!(all.find(hash, u64::from(number % 3), &items[..1]), None);
        }
        assert_eq!(all.get(999), Some((0, &[9, 999][..])));
        assert_eq!((all.len(), all.item_count(), all.get(1000)), (1000, 2000, None));
        let mut copy = Interner::new();
        copy.copy_from(&all);
        all.clear();
        assert_eq!((all.len(), all.find(1, 1, &[1])), (0, None));
        assert_eq!(copy.get(5), Some((2, &[5, 5][..])));
    }
}
