//! The envelopes of records, for components that send them.
//!
//! Invariants: every record becomes one envelope; an envelope that no rule has changed has the
//! bytes that were received, except that deprecated tags become tags, as with agents. The resource
//! of such a record is not looked at: there may be tens of thousands.

use std::collections::HashMap;
use std::sync::Arc;

use weir_codec::{
    LoggregatorEnvelope, LoggregatorMessage, convert_loggregator_tags, encode_loggregator_envelope,
    has_loggregator_tags,
};
use weir_model::{Batch, RecordKind, RecordView, Severity, SourceId, hash64};

use super::write::{Origin, write_from_fields};
use crate::source::SourceNames;

/// Number of resources cached in decoded form.
const ORIGINS_MAX: usize = 4096;

/// Converts records to envelopes.
#[derive(Debug)]
pub(crate) struct RecordEnvelopes {
    sources: Arc<SourceNames>,
    /// Version of the names from which the other properties were made.
    version: u64,
    /// The source that was last asked for, and whether it receives envelopes.
    source: Option<(SourceId, bool)>,
    /// By a hash of the resource and its source.
    known: HashMap<u64, CachedResource>,
    /// A rewritten envelope.
    rewritten: Vec<u8>,
    /// An envelope with converted tags.
    converted: Vec<u8>,
}

/// Cached properties of the records of a resource.
#[derive(Debug)]
struct CachedResource {
    resource: Box<[u8]>,
    origin: Origin,
}

impl RecordEnvelopes {
    pub(crate) fn new(sources: Arc<SourceNames>) -> Self {
        Self {
            sources,
            version: 0,
            source: None,
            known: HashMap::new(),
            rewritten: Vec::new(),
            converted: Vec::new(),
        }
    }

    /// Returns whether a source receives envelopes.
    fn receives_envelopes(&mut self, source: SourceId) -> bool {
        let version = self.sources.version();
        if std::mem::replace(&mut self.version, version) != version {
            self.known.clear();
            self.source = None;
        }
        match self.source {
            Some((known, is_envelope)) if known == source => is_envelope,
            _ => {
                let (_, is_envelope) = self.sources.get(source);
                self.source = Some((source, is_envelope));
                is_envelope
            }
        }
    }

    fn know(&mut self, hash: u64, resource: &[u8], source: SourceId) {
        if self.known.get(&hash).is_some_and(|known| *known.resource == *resource) {
            return;
        }
        if self.known.len() >= ORIGINS_MAX {
            self.known.clear();
        }
        let (name, is_envelope) = self.sources.get(source);
        let origin = Origin::new(resource, is_envelope, &name);
        self.known.insert(hash, CachedResource { resource: resource.into(), origin });
    }

    /// Returns the envelope of a record: as received, or rewritten if it was not received as one or
    /// a rule has changed it.
    pub(crate) fn envelope<'a>(
        &'a mut self,
        batch: &Batch,
        record: &RecordView<'a>,
    ) -> Option<&'a [u8]> {
        let source = batch.header().source;
        let is_envelope = self.receives_envelopes(source);
        let received = if is_envelope { record.original() } else { b"" };
        if received.is_empty() {
            let resource = batch.resource(record.resource()).encoded;
            let hash = hash64(resource) ^ source.0;
            self.know(hash, resource, source);
            let Self { known, rewritten, .. } = self;
            let known = known.get(&hash)?;
            rewritten.clear();
            if !write_from_fields(record, &known.origin, is_envelope, rewritten) {
                rewritten.clear();
                write_as_log(record, &known.origin, rewritten);
            }
            return Some(rewritten);
        }
        let converted = &mut self.converted;
        if has_loggregator_tags(received, false) {
            converted.clear();
            if convert_loggregator_tags(received, true, converted).is_ok() {
                return Some(converted);
            }
        }
        Some(received)
    }
}

/// Appends a log with the body of a record that is marked as a metric but cannot be read as one.
fn write_as_log(record: &RecordView<'_>, origin: &Origin, out: &mut Vec<u8>) {
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
