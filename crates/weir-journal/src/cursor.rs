//! The reading side of one required destination.

use std::sync::Arc;
use std::time::Duration;

use weir_model::{Batch, DiscardReason, RecordView, StreamId};

/// A required destination's reader. Exactly one task uses it.
#[derive(Debug)]
pub struct Cursor {
    pub(crate) index: usize,
}

/// A batch that the destination has taken. It stays in flight until [`Cursor::ack`].
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The batch.
    pub batch: Arc<Batch>,
    /// Records of the batch below this index were committed before a restart: skip them.
    pub first_record: usize,
    /// Records from there on that are routed to this destination.
    pub record_count: u64,
    pub(crate) cursor: usize,
    pub(crate) seq: u64,
}

/// What became of a delivery's records. The numbers add up to its `record_count`, else the book
/// does not balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Acknowledged by the destination.
    pub delivered: u64,
    /// Written to the dead-letter file, which was synced.
    pub dead_lettered: u64,
    /// Given up.
    pub discarded: Option<(DiscardReason, u64)>,
    /// Further sendings of records (beside the first one).
    pub resent: u64,
}

impl Delivery {
    /// The stream that the batch belongs to.
    pub fn stream(&self) -> StreamId {
        self.batch.header().stream
    }

    /// The records that this destination must deliver, in order, each with its index.
    pub fn records(&self) -> impl Iterator<Item = (usize, RecordView<'_>)> {
        let all = self.record_count as usize == self.batch.record_count();
        self.batch
            .records()
            .enumerate()
            .skip(self.first_record)
            .filter(move |(i, _)| all || self.batch.is_routed(*i, self.cursor))
    }
}

impl Outcome {
    /// Everything was delivered.
    pub fn delivered(count: u64) -> Self {
        Self { delivered: count, ..Self::default() }
    }
}

impl Cursor {
    /// Index of this destination's bit in route masks.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Waits until there is something worth sending: `bytes` of batches wait, or the oldest has
    /// waited for `age`, or (at once) nothing of the above but the journal is closing.
    /// Batches of streams that `take` refused do not count again until one is acknowledged.
    pub async fn ready(&mut self, _bytes: u64, _age: Duration) {
        todo!()
    }

    /// Takes the next batch, fairly over streams (deficit round robin in bytes), passing over
    /// streams for which `busy` is true (an earlier batch of theirs is in flight). `None` when
    /// there is nothing to take or the window is used up.
    pub fn take(&mut self, _busy: impl Fn(StreamId) -> bool) -> Option<Delivery> {
        todo!()
    }

    /// Settles a delivery. Positions move on when all earlier batches of the stream are settled,
    /// and are durable within the commit interval.
    pub fn ack(&mut self, _delivery: &Delivery, _outcome: Outcome) {
        todo!()
    }

    /// Bytes that wait and are not taken yet.
    pub fn waiting_bytes(&self) -> u64 {
        todo!()
    }

    /// True once the journal is closing and nothing more will come.
    pub fn is_closing(&self) -> bool {
        todo!()
    }
}
