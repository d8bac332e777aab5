//! Merges two small consecutive batches of one stream, so that a trickle of lines that is not being
//! read does not take a frame per line.

use crate::Batch;
use crate::builder::{BatchBuilder, Seal};
use crate::frame::HEADER_LEN;
use crate::limits::FRAME_BYTES_MAX;

impl Batch {
    /// Returns the records of `first` and then `second` in one batch, with the end, book and state
    /// of `second`. Its arrival is the earlier one, so that no record arrives later than it did.
    /// `None` if they are not consecutive, differ in the common properties of a batch
    /// (including routes, but not resources), or do not fit in one frame.
    pub fn merge(first: &Self, second: &Self) -> Option<Self> {
        let (a, b) = (first.header(), second.header());
        let follows = a.stream == b.stream && a.end() == b.base();
        let alike = a.repeatable == b.repeatable && a.rule_generation == b.rule_generation;
        let fits = first.frame_bytes() + second.frame_bytes() < FRAME_BYTES_MAX / 2;
        if !follows || !alike || !fits {
            return None;
        }
        let destinations =
            first.single_route().filter(|route| second.single_route().as_ref() == Some(route))?;
        let mut builder = BatchBuilder::new(a.base());
        let mut resources = ResourceMap::default();
        resources.keep_all(&mut builder, first)?;
        first.copy_records(&mut builder, &mut resources, |_| true)?;
        let mut resources = ResourceMap::default();
        resources.keep_all(&mut builder, second)?;
        second.copy_records(&mut builder, &mut resources, |_| true)?;
        if first.is_utf8() && second.is_utf8() {
            builder.mark_utf8(HEADER_LEN..builder.arena().len());
        }
        builder.route_all(&destinations);
        let observed_ns = a.observed_ns.min(b.observed_ns);
        Some(builder.seal(&Seal { observed_ns, ..second.seal_as(&second.book()) }))
    }

    /// Copies the records for whose index `is_kept` returns true to a builder.
    pub(crate) fn copy_records(
        &self,
        builder: &mut BatchBuilder,
        resources: &mut ResourceMap,
        is_kept: impl Fn(usize) -> bool,
    ) -> Option<()> {
        for (_, record) in self.records().enumerate().filter(|(index, _)| is_kept(*index)) {
            let resource = resources.number(builder, self, record.resource())?;
            builder.copy(&record, record.original(), resource).ok()?;
        }
        Some(())
    }

    /// Returns the common properties of its records, to seal others with.
    pub(crate) fn seal_as<'a>(&'a self, book: &'a crate::SourceBook) -> Seal<'a> {
        let header = self.header();
        Seal {
            repeatable: header.repeatable,
            stream: header.stream,
            group: header.group,
            source: header.source,
            end: header.end(),
            observed_ns: header.observed_ns,
            rule_generation: header.rule_generation,
            book,
            state: self.state(),
        }
    }
}

/// Maps the numbers of the resources of a batch to those in the batch that its records are copied
/// to.
#[derive(Debug, Default)]
pub(crate) struct ResourceMap(Vec<Option<u16>>);

impl ResourceMap {
    /// Copies every resource, so that a batch without records keeps its resources.
    pub(crate) fn keep_all(&mut self, builder: &mut BatchBuilder, from: &Batch) -> Option<()> {
        for number in 0..from.resource_count() {
            self.number(builder, from, number as u16)?;
        }
        Some(())
    }

    fn number(&mut self, builder: &mut BatchBuilder, from: &Batch, number: u16) -> Option<u16> {
        let at = usize::from(number);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        if let Some(known) = self.0[at] {
            return Some(known);
        }
        // An empty one if there is none: number 0 may be another resource here.
        let resource = from.resource(number);
        let copied = builder.resource(resource.key, resource.encoded).ok()?;
        self.0[at] = Some(copied);
        Some(copied)
    }
}
