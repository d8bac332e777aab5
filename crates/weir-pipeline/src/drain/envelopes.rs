//! Records as envelopes of Loggregator, which is what drains send.
//!
//! Invariant: every record becomes one envelope; the bytes of one that no rule has changed are those
//! that were received.

use std::collections::HashMap;
use std::sync::Arc;

use weir_model::{SourceId, hash64};

use super::limits::RESOURCES_MAX;
use super::taken::{Origin, Row};
use crate::live::{EnvelopeOrigin, write_envelope};
use crate::source::SourceNames;

/// What is known about the records of a resource.
#[derive(Debug)]
struct Known {
    resource: Box<[u8]>,
    origin: EnvelopeOrigin,
}

/// Finds or writes envelopes.
#[derive(Debug)]
pub(super) struct Envelopes {
    sources: Arc<SourceNames>,
    /// By a hash of the resource and its source.
    known: HashMap<u64, Known>,
    anew: Vec<u8>,
}

impl Envelopes {
    pub(super) fn new(sources: Arc<SourceNames>) -> Self {
        Self { sources, known: HashMap::new(), anew: Vec::new() }
    }

    /// Returns the envelope of a record. It is empty if it should be a metric and cannot be read as
    /// one.
    pub(super) fn of<'a>(&'a mut self, row: &'a Row) -> &'a [u8] {
        let record = row.record();
        let batch = &row.taken.delivery.batch;
        let source = batch.header().source;
        if row.taken.origin == Origin::Stream {
            return record.original();
        }
        let is_envelope = self.sources.get(source).1;
        if is_envelope && !record.original().is_empty() {
            return record.original();
        }
        let hash = self.know(batch.resource_of(row.index as usize).encoded, source, is_envelope);
        self.anew.clear();
        if let Some(known) = self.known.get(&hash)
            && !write_envelope(&record, &known.origin, is_envelope, &mut self.anew)
        {
            self.anew.clear();
        }
        &self.anew
    }

    fn know(&mut self, resource: &[u8], source: SourceId, is_envelope: bool) -> u64 {
        let hash = hash64(resource) ^ source.0;
        if self.known.get(&hash).is_some_and(|known| *known.resource == *resource) {
            return hash;
        }
        if self.known.len() >= RESOURCES_MAX {
            self.known.clear();
        }
        let origin = EnvelopeOrigin::new(resource, is_envelope, self.sources.get(source).0);
        self.known.insert(hash, Known { resource: resource.into(), origin });
        hash
    }
}
