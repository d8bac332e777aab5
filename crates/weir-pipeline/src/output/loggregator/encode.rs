//! Records as messages of gRPC, each a batch of envelopes.
//!
//! Invariants: every record becomes one envelope, whatever it is; the bytes of an envelope that no
//! rule has changed are those that were received, except that deprecated tags become tags, as agents
//! do it; a batch is smaller than what every server accepts, unless a single envelope is not.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use weir_codec::{
    LoggregatorEnvelope, LoggregatorMessage, add_to_loggregator_batch, convert_loggregator_tags,
    encode_loggregator_envelope, has_loggregator_tags, write_grpc_message,
};
use weir_model::{RecordKind, RecordView, Selection, Severity, hash64};

use crate::live::{EnvelopeOrigin, write_envelope};
use crate::source::SourceNames;

/// Envelopes of a batch: that of Loggregator's agents.
const BATCH_ENVELOPES_MAX: usize = 100;

/// Size at which a batch ends. The smallest limit of a receiver is 4 MiB.
const BATCH_BYTES: usize = 512 * 1024;

/// Resources that are remembered in decoded form.
const ORIGINS_MAX: usize = 4096;

/// Encodes records for one output.
#[derive(Debug)]
pub(in crate::output) struct EnvelopeEncoder {
    envelopes: RecordEnvelopes,
    /// The batch that is being filled.
    batch: Vec<u8>,
    batch_envelopes: usize,
}

/// Records as envelopes, one after the other.
#[derive(Debug)]
pub(in crate::output) struct RecordEnvelopes {
    sources: Arc<SourceNames>,
    /// By a hash of the resource and its source.
    known: HashMap<u64, Known>,
    /// An envelope that is written anew.
    anew: Vec<u8>,
    /// One whose tags are converted.
    converted: Vec<u8>,
}

/// What is known about the records of a resource.
#[derive(Debug)]
struct Known {
    resource: Box<[u8]>,
    origin: EnvelopeOrigin,
    is_envelope: bool,
}

impl RecordEnvelopes {
    pub(in crate::output) fn new(sources: Arc<SourceNames>) -> Self {
        Self { sources, known: HashMap::new(), anew: Vec::new(), converted: Vec::new() }
    }

    fn know(&mut self, hash: u64, resource: &[u8], source: weir_model::SourceId) {
        if self.known.get(&hash).is_some_and(|known| *known.resource == *resource) {
            return;
        }
        if self.known.len() >= ORIGINS_MAX {
            self.known.clear();
        }
        let (name, is_envelope) = self.sources.get(source);
        let origin = EnvelopeOrigin::new(resource, is_envelope, name);
        self.known.insert(hash, Known { resource: resource.into(), origin, is_envelope });
    }

    /// Returns the envelope of a record: what was received, or else one that is written anew.
    pub(in crate::output) fn envelope<'a>(
        &'a mut self,
        records: &Selection,
        record: &RecordView<'a>,
    ) -> Option<&'a [u8]> {
        let source = records.batch().header().source;
        let resource = records.resource_of(record).encoded;
        let hash = hash64(resource) ^ source.0;
        self.know(hash, resource, source);
        let Self { known, anew, converted, .. } = self;
        let known = known.get(&hash)?;
        let received = if known.is_envelope { record.original() } else { b"" };
        if received.is_empty() {
            anew.clear();
            if !write_envelope(record, &known.origin, known.is_envelope, anew) {
                anew.clear();
                write_as_log(record, &known.origin, anew);
            }
            return Some(anew);
        }
        if has_loggregator_tags(received, false) {
            converted.clear();
            if convert_loggregator_tags(received, true, converted).is_ok() {
                return Some(converted);
            }
        }
        Some(received)
    }
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
            if let Some(envelope) = self.envelopes.envelope(records, &record) {
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

/// Appends a log with the body of a record that should be a metric and cannot be read as one.
fn write_as_log(record: &RecordView<'_>, origin: &EnvelopeOrigin, out: &mut Vec<u8>) {
    debug_assert!(record.kind() != RecordKind::Log, "a log can always be written");
    let body = record.plain_body();
    let is_error = record.severity >= Severity::ERROR;
    let envelope = LoggregatorEnvelope {
        timestamp_ns: record.timestamp_ns,
        source_id: origin.source_id.as_bytes(),
        message: LoggregatorMessage::Log { payload: &body, is_error },
        ..LoggregatorEnvelope::default()
    };
    encode_loggregator_envelope(&envelope, &[], out);
}
