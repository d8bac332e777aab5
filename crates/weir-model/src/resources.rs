//! The resource table of a frame: the producers of its rows, without duplicates.
//!
//! Invariants: entries are numbered in the order in which they were added; the size of the whole
//! table is limited ([`crate::limits::RESOURCE_TABLE_BYTES_MAX`]); two resources are equal if key
//! and text are.

use crate::intern::{Interner, hash};

/// Size of an entry: key, start of its text after the entries, length of the text.
pub(crate) const ENTRY_BYTES: usize = 16;

/// One entry of a frame's resource table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceView<'a> {
    /// Identifies the records of this producer in the store, and for drains, quotas and recent
    /// logs. 0 = nothing in particular.
    pub key: u64,
    /// The encoded [`crate::Resource`]; empty if there is none.
    pub encoded: &'a [u8],
}

impl ResourceView<'_> {
    /// Returns its size in a table, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        ENTRY_BYTES + self.encoded.len()
    }
}

/// The resources of a frame that is being filled.
#[derive(Debug)]
pub(crate) struct ResourceTable {
    all: Interner<u8>,
    /// The one requested last, because the next row often has the same.
    last: usize,
}

impl ResourceTable {
    pub(crate) fn new() -> Self {
        Self { all: Interner::new(), last: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.last = 0;
    }

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.all.copy_from(&other.all);
        self.last = other.last;
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the size of the table in the frame, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.all.len() * ENTRY_BYTES + self.all.item_count()
    }

    pub(crate) fn get(&self, number: u16) -> ResourceView<'_> {
        let (key, encoded) = self.all.get(usize::from(number)).unwrap_or_default();
        ResourceView { key, encoded }
    }

    /// Returns the number of a resource, if it is present.
    pub(crate) fn find(&mut self, resource: ResourceView<'_>) -> Option<u16> {
        let ResourceView { key, encoded } = resource;
        if self.all.get(self.last) == Some((key, encoded)) {
            return Some(self.last as u16);
        }
        let found = self.all.find(hash_of(resource), key, encoded)?;
        self.last = usize::from(found);
        Some(found)
    }

    /// Adds a resource that is not present.
    pub(crate) fn add(&mut self, resource: ResourceView<'_>) -> u16 {
        let number = self.all.add(hash_of(resource), resource.key, resource.encoded);
        self.last = usize::from(number);
        number
    }

    /// Writes the table, which is [`Self::bytes`] long.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let (entries, texts) = out.split_at_mut(self.all.len() * ENTRY_BYTES);
        let mut at = 0;
        for (number, entry) in entries.as_chunks_mut::<ENTRY_BYTES>().0.iter_mut().enumerate() {
            let (key, encoded) = self.all.get(number).unwrap_or_default();
            entry[..8].copy_from_slice(&key.to_le_bytes());
            entry[8..12].copy_from_slice(&(at as u32).to_le_bytes());
            entry[12..].copy_from_slice(&(encoded.len() as u32).to_le_bytes());
            texts[at..at + encoded.len()].copy_from_slice(encoded);
            at += encoded.len();
        }
    }
}

fn hash_of(resource: ResourceView<'_>) -> u64 {
    let (words, rest) = resource.encoded.as_chunks::<8>();
    let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    hash(resource.key ^ resource.encoded.len() as u64, words.chain([rest]))
}

/// Reads entry `number` of a table of `count` entries in a frame; an empty one if there is no such
/// entry.
pub(crate) fn read(table: &[u8], count: usize, number: usize) -> ResourceView<'_> {
    let entries = table.get(..count * ENTRY_BYTES).unwrap_or_default();
    let Some(entry) = entries.as_chunks::<ENTRY_BYTES>().0.get(number) else {
        return ResourceView::default();
    };
    let key = u64::from_le_bytes(std::array::from_fn(|i| entry[i]));
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i])) as usize;
    let start = count * ENTRY_BYTES + u32_at(8);
    ResourceView { key, encoded: table.get(start..start + u32_at(12)).unwrap_or_default() }
}
