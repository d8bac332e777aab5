//! A batch in transit: the unit that an output encodes and settles.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use weir_journal::Delivery;
use weir_model::{Batch, RecordView, ResourceView, StreamId};

/// The records of one batch that one output must deliver, in order. Taken from the journal or
/// (without a delivery to settle) from the dead-letter file.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) batch: Arc<Batch>,
    first_record: usize,
    count: usize,
    /// The cursor whose routed records are delivered; `None` = all records.
    cursor: Option<usize>,
    pub(crate) delivery: Option<Delivery>,
}

impl Parcel {
    /// Creates a parcel from what the cursor with index `cursor` took.
    pub(crate) fn of_delivery(delivery: Delivery, cursor: usize) -> Self {
        let batch = delivery.batch.clone();
        let count = delivery.record_count as usize;
        let all_routed = count == batch.record_count() - delivery.first_record;
        Self {
            first_record: delivery.first_record,
            count,
            cursor: (!all_routed).then_some(cursor),
            delivery: Some(delivery),
            batch,
        }
    }

    /// Creates a parcel of every record of a batch that no cursor holds.
    pub(crate) fn of_batch(batch: Arc<Batch>) -> Self {
        Self { first_record: 0, count: batch.record_count(), cursor: None, delivery: None, batch }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.batch.header().stream
    }

    /// Returns the number of records to deliver.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the resource of a record of the batch.
    pub(crate) fn resource_of(&self, record: &RecordView<'_>) -> ResourceView<'_> {
        self.batch.resource(record.resource())
    }

    /// Returns the records to deliver, each with its index in the batch.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        self.records_from(self.first_record)
    }

    /// Returns the records to deliver from that index of the batch on.
    fn records_from(&self, first: usize) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        let mut records = self.batch.records();
        let routed = self.cursor.map(|cursor| self.batch.routed_rows(cursor));
        // `Records::nth` is a jump; `skip` on it would be one too, but only through `nth`.
        if first > 0 {
            records.nth(first - 1);
        }
        let is_routed = move |index| routed.as_ref().is_none_or(|rows| rows.contains(index));
        (first..).zip(records).filter(move |(index, _)| is_routed(*index))
    }

    /// Calls `visit` for each record in `range`, which counts the records to deliver, until it
    /// breaks.
    #[inline]
    pub(crate) fn visit(
        &self,
        range: Range<usize>,
        visit: impl FnMut(RecordView<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.cursor.is_some() {
            return self.part(range).try_for_each(visit);
        }
        let (start, end) = (self.first_record + range.start, self.first_record + range.end);
        self.batch.records_in(start..end).try_for_each(visit)
    }

    /// Returns the records in `range`, which counts the records to deliver.
    pub(crate) fn part(&self, range: Range<usize>) -> impl Iterator<Item = RecordView<'_>> {
        // If every record is to be delivered, their numbers are simply their indexes.
        let (jump, skip) = if self.cursor.is_none() { (range.start, 0) } else { (0, range.start) };
        let records = self.records_from(self.first_record + jump);
        records.map(|(_, record)| record).skip(skip).take(range.len())
    }
}
