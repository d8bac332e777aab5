//! Reduces a batch to the records that some destinations still need.

use crate::Batch;
use crate::builder::BatchBuilder;
use crate::frame::HEADER_LEN;
use crate::merge::ResourceMap;

/// The records of a batch that a destination needs: those routed to it, without those of some keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Cursor index of the destination.
    pub cursor: usize,
    /// Keys of resources.
    pub without: Vec<u64>,
}

impl Share {
    /// Returns all records that are routed to the destination.
    pub fn all(cursor: usize) -> Self {
        Self { cursor, without: Vec::new() }
    }
}

impl Batch {
    /// Returns the records in these shares, routed to the destinations of those alone, in a batch
    /// with the same base, end, book and state. `None` if that cannot be built.
    pub fn only_for(&self, shares: &[Share]) -> Option<Self> {
        let mut builder = BatchBuilder::new(self.header().base());
        let rows_of = |share: &Share| self.routed_rows_without(share.cursor, &share.without);
        let wanted: Vec<_> = shares.iter().map(|share| (share.cursor, rows_of(share))).collect();
        let is_kept = |index: usize| wanted.iter().any(|(_, rows)| rows.contains(index));
        let mut resources = ResourceMap::default();
        if self.resource_count() == 1 {
            // If there is only one, it is kept even in a batch without records.
            resources.keep_all(&mut builder, self)?;
        }
        self.copy_records(&mut builder, &mut resources, is_kept)?;
        if self.is_utf8() {
            builder.mark_utf8(HEADER_LEN..builder.arena().len());
        }
        builder.route_all(&[]);
        let kept = (0..self.record_count()).filter(|index| is_kept(*index));
        for (index, original) in kept.enumerate() {
            let has_it = |cursor: u16| {
                let is_it = |(other, _): &&(usize, _)| *other == usize::from(cursor);
                wanted.iter().find(is_it).is_some_and(|(_, rows)| rows.contains(original))
            };
            let mut destinations = self.destinations_of(original).to_list();
            destinations.retain(|cursor| has_it(*cursor));
            builder.route(index, &destinations).ok()?;
        }
        let book = self.book();
        Some(builder.seal(&self.seal_as(&book)))
    }
}
