//! A batch with fewer of its records: what is left for those that still need any of it.

use crate::Batch;
use crate::builder::BatchBuilder;
use crate::frame::HEADER_LEN;
use crate::merge::Copied;

impl Batch {
    /// The records that any of these destinations gets, routed to them alone, in a batch from the
    /// same base to the same end, with the same book and state. `None` when that cannot be built.
    pub fn only_for(&self, cursors: &[usize]) -> Option<Self> {
        let mut builder = BatchBuilder::new(self.header().base());
        let wanted: Vec<_> = cursors.iter().map(|cursor| self.routed_rows(*cursor)).collect();
        let is_kept = |index: usize| wanted.iter().any(|rows| rows.contains(index));
        let mut resources = Copied::default();
        if self.resource_count() == 1 {
            // The only one, that of a batch without records too.
            resources.keep_all(&mut builder, self)?;
        }
        self.copy_records(&mut builder, &mut resources, is_kept)?;
        if self.is_utf8() {
            builder.vouch_utf8(HEADER_LEN..builder.arena().len());
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
