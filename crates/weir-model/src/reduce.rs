//! Reduces batches to the records that some destinations still need.

use crate::Batch;
use crate::builder::{BatchBuilder, Seal};
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
        Self::of_shares(&[(self, shares)], self.header().merged)
    }

    /// Returns the records in the shares of several batches of one stream and epoch, in one batch
    /// from the base of the first to the end of the last, with the book and state of the last and
    /// the earliest arrival. It takes the place of all of them ([`FrameHeader::merged`]). `None` if
    /// they overlap, or do not fit in one frame.
    ///
    /// [`FrameHeader::merged`]: crate::FrameHeader::merged
    pub fn merge_all(parts: &[(&Self, &[Share])]) -> Option<Self> {
        let (last, _) = parts.last()?;
        let alike = |(part, _): &(&Self, &[Share])| {
            let (header, of) = (part.header(), last.header());
            (header.stream, header.repeatable, header.epoch) == (of.stream, of.repeatable, of.epoch)
        };
        let follows =
            |pair: &[(&Self, &[Share])]| pair[0].0.header().end() <= pair[1].0.header().base();
        if !parts.iter().all(alike) || !parts.windows(2).all(follows) {
            return None;
        }
        Self::of_shares(parts, true)
    }

    /// Returns the records in the shares of batches that follow each other.
    fn of_shares(parts: &[(&Self, &[Share])], is_merged: bool) -> Option<Self> {
        let ((first, _), (last, _)) = (parts.first()?, parts.last()?);
        let mut builder = BatchBuilder::new(first.header().base());
        builder.route_all(&[]);
        builder.reserve_state(last.state().len());
        if is_merged {
            builder.mark_merged();
        }
        for (part, shares) in parts {
            part.add_shares(&mut builder, shares)?;
        }
        if parts.iter().all(|(part, _)| part.is_utf8()) {
            builder.mark_utf8(HEADER_LEN..builder.arena().len());
        }
        let observed_ns = parts.iter().map(|(part, _)| part.header().observed_ns).min()?;
        let book = last.book();
        Some(builder.seal(&Seal { observed_ns, ..last.seal_as(&book) }))
    }

    /// Adds the records in these shares, routed to the destinations of those alone, to a batch
    /// whose first route is that to nowhere.
    fn add_shares(&self, builder: &mut BatchBuilder, shares: &[Share]) -> Option<()> {
        let rows_of = |share: &Share| self.routed_rows_without(share.cursor, &share.without);
        let wanted: Vec<_> = shares.iter().map(|share| (share.cursor, rows_of(share))).collect();
        let is_kept = |index: usize| wanted.iter().any(|(_, rows)| rows.contains(index));
        let before = builder.record_count();
        let mut resources = ResourceMap::default();
        if before == 0 && self.resource_count() == 1 {
            // If there is only one, it is kept even in a batch without records.
            resources.keep_all(builder, self)?;
        }
        self.copy_records(builder, &mut resources, is_kept)?;
        let kept = (0..self.record_count()).filter(|index| is_kept(*index));
        for (index, original) in kept.enumerate() {
            let has_it = |cursor: u16| {
                let is_it = |(other, _): &&(usize, _)| *other == usize::from(cursor);
                wanted.iter().find(is_it).is_some_and(|(_, rows)| rows.contains(original))
            };
            let mut destinations = self.destinations_of(original).to_list();
            destinations.retain(|cursor| has_it(*cursor));
            builder.route(before + index, &destinations).ok()?;
        }
        Some(())
    }
}
