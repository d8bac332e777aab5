//! Many texts in one buffer.

/// Page size in which the system provides memory.
const SYSTEM_PAGE_BYTES: usize = 4096;

/// Returns the memory used by a vector, in bytes. Capacity that was never written to does not
/// count, because the system provides memory on the first write.
pub(super) fn allocated_bytes<T>(values: &Vec<T>) -> usize {
    let written = (values.len() * size_of::<T>()).next_multiple_of(SYSTEM_PAGE_BYTES);
    written.min(values.capacity() * size_of::<T>())
}

/// Returns an empty vector that reuses the memory, unless little of it was used.
pub(super) fn emptied<T>(mut values: Vec<T>) -> Vec<T> {
    if values.len() < values.capacity() / 2 {
        values.shrink_to_fit();
    }
    values.clear();
    values
}

/// Texts one after the other in one buffer, indexed by their end offsets.
///
/// Invariant: at most `u32::MAX` bytes in total; callers that push bound them by
/// [`crate::limits::ROW_GROUP_BYTES_MAX`].
#[derive(Debug, Default, Clone)]
pub struct Texts {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Texts {
    /// Adds a text.
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns text `index`; empty when there is none.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let end = self.ends.get(index).copied().unwrap_or(0) as usize;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before));
        self.bytes.get(start.copied().unwrap_or(0) as usize..end).unwrap_or_default()
    }

    /// Returns all texts in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the texts that `codes` (indexes into these texts) refer to, in the order of first
    /// use, and the codes as indexes into those.
    pub(crate) fn in_order_of_use(&self, codes: &[u32]) -> (Self, Vec<u32>) {
        const UNSEEN: u32 = u32::MAX;
        let mut used = Self::default();
        let mut places = vec![UNSEEN; self.len()];
        let codes = codes.iter().map(|code| {
            let place = &mut places[*code as usize];
            if *place == UNSEEN {
                *place = used.len() as u32;
                used.push(self.get(*code as usize));
            }
            *place
        });
        let codes = codes.collect();
        (used, codes)
    }

    /// Returns the total length of all texts in bytes.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        allocated_bytes(&self.bytes) + allocated_bytes(&self.ends)
    }

    /// Returns an empty collection that reuses the memory.
    pub(super) fn emptied(self) -> Self {
        Self { ends: emptied(self.ends), bytes: emptied(self.bytes) }
    }
}

impl Texts {
    /// Returns the texts as those of a page.
    pub(crate) fn as_page(&self) -> crate::embedded::segment::PageTexts<'_> {
        crate::embedded::segment::PageTexts { ends: &self.ends, bytes: &self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_capacity_is_not_counted_as_memory() {
        let mut numbers: Vec<u64> = Vec::with_capacity(1 << 20);
        assert_eq!(allocated_bytes(&numbers), 0);
        numbers.push(1);
        assert_eq!(allocated_bytes(&numbers), SYSTEM_PAGE_BYTES);
        numbers.resize(1 << 20, 1);
        assert_eq!(allocated_bytes(&numbers), 8 << 20);
        assert_eq!(allocated_bytes(&vec![1_u8; 3]), 3, "a small vector counts in full");
    }

    #[test]
    fn memory_is_kept_only_if_it_will_be_filled() {
        let mut texts = Texts::default();
        (0..1000).for_each(|_| texts.push(b"a text"));
        let room = texts.bytes.capacity();
        let mut texts = texts.emptied();
        assert_eq!((texts.len(), texts.byte_count(), texts.bytes.capacity()), (0, 0, room));
        texts.push(b"another");
        assert_eq!(texts.get(0), b"another");
        assert!(texts.emptied().bytes.capacity() < room, "most of the memory was not used");
    }
}
