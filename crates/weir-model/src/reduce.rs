//! Reduces a batch to the records that some destinations still need.

use crate::Batch;
use crate::builder::BatchBuilder;
use crate::frame::HEADER_LEN;
use crate::merge::ResourceMap;

impl Batch {
    /// Returns the records that any of these destinations gets, routed to them alone, in a batch
    /// with the same base, end, book and state. `None` if that cannot be built.
    pub fn only_for(&self, cursors: &[usize]) -> Option<Self> {
        let mut builder = BatchBuilder::new(self.header().base());
        let wanted: Vec<_> = cursors.iter().map(|cursor| self.routed_rows(*cursor)).collect();
        let is_kept = |index: usize| wanted.iter().any(|rows| rows.contains(index));
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
            let mut destinations = self.destinations_of(original).to_list();
            destinations.retain(|cursor| cursors.contains(&usize::from(*cursor)));
            builder.route(index, &destinations).ok()?;
        }
        let book = self.book();
        Some(builder.seal(&self.seal_as(&book)))
    }
}
