//! Batches that were read from disk, for the other destinations that wait for them.
//!
//! Where a batch has records for hundreds of destinations that are behind, each of them would read
//! and check all of it for its few records.
//!
//! Invariants: a frame does not change while it is at a location, and no segment's number is used
//! twice, so nothing has to be invalidated; at most [`READ_CACHE_BYTES`] are kept, the last ones
//! that were read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use weir_model::Batch;

use crate::limits::READ_CACHE_BYTES;
use crate::state::Location;

/// The batches that were read last.
#[derive(Debug, Default)]
pub(crate) struct ReadCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The oldest first.
    batches: VecDeque<(Location, Arc<Batch>)>,
    bytes: usize,
}

impl ReadCache {
    /// Returns the batch at a location, if it is kept.
    pub(crate) fn get(&self, location: Location) -> Option<Arc<Batch>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The one that was read last is the most likely one.
        let found = kept.batches.iter().rev().find(|(at, _)| *at == location);
        found.map(|(_, batch)| batch.clone())
    }

    /// Keeps a batch in place of the oldest ones.
    pub(crate) fn put(&self, location: Location, batch: &Arc<Batch>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = batch.memory_bytes();
        while kept.bytes + bytes > READ_CACHE_BYTES
            && let Some((_, oldest)) = kept.batches.pop_front()
        {
            kept.bytes -= oldest.memory_bytes();
        }
        if bytes <= READ_CACHE_BYTES {
            kept.bytes += bytes;
            kept.batches.push_back((location, batch.clone()));
        }
    }
}
