//! The records of one batch that one destination gets.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use crate::{Batch, RecordView, ResourceView, StreamId};

/// Some records of a batch, in order: from one on, those that are routed to a destination.
#[derive(Debug, Clone)]
pub struct Selection {
    batch: Arc<Batch>,
    first_record: usize,
    count: usize,
    /// The destination whose routed records count; `None` = all of them.
    destination: Option<usize>,
}

impl Selection {
    /// The `count` records, from the one with index `first_record` on, that are routed to the
    /// destination with index `destination`.
    pub fn routed(
        batch: Arc<Batch>,
        first_record: usize,
        count: usize,
        destination: usize,
    ) -> Self {
        let is_all = count == batch.record_count() - first_record;
        Self { first_record, count, destination: (!is_all).then_some(destination), batch }
    }

    /// Every record of a batch.
    pub fn all(batch: Arc<Batch>) -> Self {
        Self { first_record: 0, count: batch.record_count(), destination: None, batch }
    }

    /// The batch that they are of.
    pub fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    /// The stream of the batch.
    pub fn stream(&self) -> StreamId {
        self.batch.header().stream
    }

    /// How many they are.
    #[expect(clippy::len_without_is_empty, reason = "nothing selects no record")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Who produced a record of the batch.
    pub fn resource_of(&self, record: &RecordView<'_>) -> ResourceView<'_> {
        self.batch.resource(record.resource())
    }

    /// The records, each with its index in the batch.
    pub fn records(&self) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        self.records_from(self.first_record)
    }

    /// The records from that index of the batch on.
    fn records_from(&self, first: usize) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        let mut records = self.batch.records();
        let routed = self.destination.map(|destination| self.batch.routed_rows(destination));
        // `Records::nth` is a jump, `skip` on it would be too, but only through `nth`.
        if first > 0 {
            records.nth(first - 1);
        }
        let is_routed = move |index| routed.as_ref().is_none_or(|rows| rows.contains(index));
        (first..).zip(records).filter(move |(index, _)| is_routed(*index))
    }

    /// Calls `visit` with each of the records number `range`, until it breaks.
    #[inline]
    pub fn visit(
        &self,
        range: Range<usize>,
        visit: impl FnMut(RecordView<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.destination.is_some() {
            return self.part(range).try_for_each(visit);
        }
        let (start, end) = (self.first_record + range.start, self.first_record + range.end);
        self.batch.records_in(start..end).try_for_each(visit)
    }

    /// The records number `range`.
    pub fn part(&self, range: Range<usize>) -> impl Iterator<Item = RecordView<'_>> {
        // Where every record is selected, their numbers are a matter of counting.
        let (jump, skip) =
            if self.destination.is_none() { (range.start, 0) } else { (0, range.start) };
        let records = self.records_from(self.first_record + jump);
        records.map(|(_, record)| record).skip(skip).take(range.len())
    }
}
