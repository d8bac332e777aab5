//! The records of one batch that one destination gets.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use crate::{Batch, RecordView, ResourceView, Share, StreamId};

/// Some records of a batch, in order: from one on, the share of a destination.
#[derive(Debug, Clone)]
pub struct Selection {
    batch: Arc<Batch>,
    first_record: usize,
    count: usize,
    /// The share that the records belong to; `None` = all of them.
    share: Option<Share>,
}

impl Selection {
    /// Selects `count` records of the share, from the one with index `first_record` on.
    pub fn of_share(batch: Arc<Batch>, first_record: usize, count: usize, share: Share) -> Self {
        let is_all = count == batch.record_count() - first_record;
        Self { first_record, count, share: (!is_all).then_some(share), batch }
    }

    /// Selects every record of a batch.
    pub fn all(batch: Arc<Batch>) -> Self {
        Self { first_record: 0, count: batch.record_count(), share: None, batch }
    }

    /// Returns the batch.
    pub fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    /// Returns the stream of the batch.
    pub fn stream(&self) -> StreamId {
        self.batch.header().stream
    }

    /// Returns the number of selected records.
    #[expect(clippy::len_without_is_empty, reason = "a selection is never empty")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the producer of a record of the batch.
    pub fn resource_of(&self, record: &RecordView<'_>) -> ResourceView<'_> {
        self.batch.resource(record.resource())
    }

    /// Returns the records, each with its index in the batch.
    pub fn records(&self) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        self.records_from(self.first_record)
    }

    /// Returns the records from that index of the batch on.
    fn records_from(&self, first: usize) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        let mut records = self.batch.records();
        let rows = |share: &Share| self.batch.routed_rows_without(share.cursor, &share.without);
        let routed = self.share.as_ref().map(rows);
        // `Records::nth` takes constant time; `skip` would only get that through `nth`.
        if first > 0 {
            records.nth(first - 1);
        }
        let is_routed = move |index| routed.as_ref().is_none_or(|rows| rows.contains(index));
        (first..).zip(records).filter(move |(index, _)| is_routed(*index))
    }

    /// Calls `visit` with the selected records whose numbers are in `range`, until it breaks.
    #[inline]
    pub fn visit(
        &self,
        range: Range<usize>,
        visit: impl FnMut(RecordView<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.share.is_some() {
            return self.part(range).try_for_each(visit);
        }
        let (start, end) = (self.first_record + range.start, self.first_record + range.end);
        self.batch.records_in(start..end).try_for_each(visit)
    }

    /// Returns the selected records whose numbers are in `range`.
    pub fn part(&self, range: Range<usize>) -> impl Iterator<Item = RecordView<'_>> {
        // If every record is selected, the one with a given number can be found by its index.
        let (jump, skip) = if self.share.is_none() { (range.start, 0) } else { (0, range.start) };
        let records = self.records_from(self.first_record + jump);
        records.map(|(_, record)| record).skip(skip).take(range.len())
    }
}
