//! Many texts in one buffer.

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

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4
    }
}

impl Texts {
    /// The texts as those of a page.
    pub(crate) fn as_page(&self) -> crate::embedded::segment::PageTexts<'_> {
        crate::embedded::segment::PageTexts { ends: &self.ends, bytes: &self.bytes }
    }
}
