//! Records as gRPC messages, each with a batch of envelopes.
//!
//! Invariant: a batch is within the limit of every server, unless a single envelope exceeds it.

use std::ops::Range;
use std::sync::Arc;

use weir_codec::{add_to_loggregator_batch, write_grpc_message};
use weir_model::Selection;

use crate::live::RecordEnvelopes;
use crate::source::SourceNames;

/// Maximum number of envelopes of a batch, as in Loggregator's agents.
const BATCH_ENVELOPES_MAX: usize = 100;

/// Size at which a batch ends. The smallest limit of a receiver is 4 MiB.
const BATCH_BYTES: usize = 512 * 1024;

/// Encodes records for one output.
#[derive(Debug)]
pub(in crate::output) struct EnvelopeEncoder {
    envelopes: RecordEnvelopes,
    /// The current batch.
    batch: Vec<u8>,
    batch_envelopes: usize,
}

impl EnvelopeEncoder {
    pub(super) fn new(sources: Arc<SourceNames>) -> Self {
        let envelopes = RecordEnvelopes::new(sources);
        Self { envelopes, batch: Vec::new(), batch_envelopes: 0 }
    }

    /// Appends messages with the records in `range`.
    pub(in crate::output) fn encode(
        &mut self,
        records: &Selection,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) {
        for record in records.part(range) {
            if let Some(envelope) = self.envelopes.envelope(records.batch(), &record) {
                self.batch_envelopes += 1;
                add_to_loggregator_batch(envelope, &mut self.batch);
            }
            if self.batch_envelopes >= BATCH_ENVELOPES_MAX || self.batch.len() >= BATCH_BYTES {
                self.finish_batch(out);
            }
        }
        self.finish_batch(out);
    }

    fn finish_batch(&mut self, out: &mut Vec<u8>) {
        if self.batch_envelopes > 0 {
            write_grpc_message(&self.batch, out);
            self.batch.clear();
            self.batch_envelopes = 0;
        }
    }
}
