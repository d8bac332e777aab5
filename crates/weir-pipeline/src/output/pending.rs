//! A batch in transit: the unit that an output encodes and settles.

use std::sync::Arc;

use weir_journal::Delivery;
use weir_model::{Batch, Selection, StreamId};

/// The records of one batch that one output must deliver, in order. Taken from the journal or
/// (without a delivery to settle) from the dead-letter file.
#[derive(Debug)]
pub(crate) struct PendingBatch {
    pub(crate) records: Selection,
    pub(crate) delivery: Option<Delivery>,
}

impl PendingBatch {
    /// Creates a batch from a delivery.
    pub(crate) fn of_delivery(delivery: Delivery) -> Self {
        Self { records: delivery.selection(), delivery: Some(delivery) }
    }

    /// Creates a batch of every record of a batch that no cursor holds.
    pub(crate) fn of_batch(batch: Arc<Batch>) -> Self {
        Self { records: Selection::all(batch), delivery: None }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.records.stream()
    }

    /// Returns the number of records to deliver.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
}
