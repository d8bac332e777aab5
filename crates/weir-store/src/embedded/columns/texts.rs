//! Many texts in one buffer.

/// What the system gives memory in.
const SYSTEM_PAGE_BYTES: usize = 4096;

/// Bytes of memory that a vector takes: room that nothing was ever written to takes none, as the
/// system gives memory when it is written to.
pub(super) fn taken_bytes<T>(values: &Vec<T>) -> usize {
    let written = (values.len() * size_of::<T>()).next_multiple_of(SYSTEM_PAGE_BYTES);
    written.min(values.capacity() * size_of::<T>())
}

/// No value, in the memory of these, unless they used little of it.
pub(super) fn emptied<T>(mut values: Vec<T>) -> Vec<T> {
    if values.len() < values.capacity() / 2 {
        values.shrink_to_fit();
    }
    values.clear();
    values
}

/// Texts one after the other in one buffer, found by where each ends.
///
/// Invariant: at most `u32::MAX` bytes in all; whoever pushes bounds them by
/// [`crate::limits::ROW_GROUP_BYTES_MAX`].
#[derive(Debug, Default, Clone)]
pub struct Texts {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Texts {
    /// Adds one.
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Text `index`; empty when there is none.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let end = self.ends.get(index).copied().unwrap_or(0) as usize;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before));
        self.bytes.get(start.copied().unwrap_or(0) as usize..end).unwrap_or_default()
    }

    /// All of them in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Those of the texts that `codes`, places among them, refer to, in the order of their first
    /// use; and the codes as places among those.
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

    /// Bytes of all texts together.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        taken_bytes(&self.bytes) + taken_bytes(&self.ends)
    }

    /// None, in the memory of these.
    pub(super) fn emptied(self) -> Self {
        Self { ends: emptied(self.ends), bytes: emptied(self.bytes) }
    }
}

impl Texts {
    /// The texts as those of a page.
    pub(crate) fn as_page(&self) -> crate::embedded::segment::PageTexts<'_> {
        crate::embedded::segment::PageTexts { ends: &self.ends, bytes: &self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_was_never_written_to_is_no_memory() {
        let mut numbers: Vec<u64> = Vec::with_capacity(1 << 20);
        assert_eq!(taken_bytes(&numbers), 0);
        numbers.push(1);
        assert_eq!(taken_bytes(&numbers), SYSTEM_PAGE_BYTES);
        numbers.resize(1 << 20, 1);
        assert_eq!(taken_bytes(&numbers), 8 << 20);
        assert_eq!(taken_bytes(&vec![1_u8; 3]), 3, "of a small vector all");
    }

    #[test]
    fn memory_is_kept_for_what_will_fill_it() {
        let mut texts = Texts::default();
        (0..1000).for_each(|_| texts.push(b"a text"));
        let room = texts.bytes.capacity();
        let mut texts = texts.emptied();
        assert_eq!((texts.len(), texts.byte_count(), texts.bytes.capacity()), (0, 0, room));
        texts.push(b"another");
        assert_eq!(texts.get(0), b"another");
        assert!(texts.emptied().bytes.capacity() < room, "most of it was not used");
    }
}
