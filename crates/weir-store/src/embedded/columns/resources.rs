//! Attributes of the resources of records, parsed once for each resource.
//!
//! Invariants: parsed resources are cached for later batches, so many batches from the same
//! producers cost little; the size of the cache is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use weir_codec::{Attributes, Scalar};
use weir_expr::Reserved;
use weir_model::{Batch, RecordView};

use super::record::value_of;

/// Maximum number of cached resources: several times those of a full frame. A cached one is at most
/// as long as a resource may be, and most are a few hundred bytes.
const RESOURCES_MAX: usize = 2048;

/// What is known about a resource.
#[derive(Debug, Default)]
pub(super) struct ParsedResource {
    /// As encoded in the frame; `None` when it is empty.
    pub(super) json: Option<Box<[u8]>>,
    /// Its service and host, which no record overrides.
    pub(super) service: Option<Box<[u8]>>,
    pub(super) host: Option<Box<[u8]>>,
}

/// The resources of a batch, and the cache of those parsed before.
#[derive(Debug, Default)]
pub(super) struct Resources {
    /// By their number in the current batch, filled on demand.
    of_batch: Vec<Option<Arc<ParsedResource>>>,
    /// By their text.
    known: HashMap<Box<[u8]>, Arc<ParsedResource>>,
    attributes: Attributes,
}

impl Resources {
    /// Starts a new batch: resource numbers now refer to that batch.
    pub(super) fn begin(&mut self) {
        self.of_batch.clear();
    }

    /// Returns what is known about the resource of a record of the current batch.
    pub(super) fn of(&mut self, batch: &Batch, view: &RecordView<'_>) -> Arc<ParsedResource> {
        let number = usize::from(view.resource());
        if let Some(Some(known)) = self.of_batch.get(number) {
            return known.clone();
        }
        let known = self.find(batch.resource(view.resource()).encoded);
        if self.of_batch.len() <= number {
            self.of_batch.resize(number + 1, None);
        }
        self.of_batch[number] = Some(known.clone());
        known
    }

    fn find(&mut self, encoded: &[u8]) -> Arc<ParsedResource> {
        if let Some(known) = self.known.get(encoded) {
            return known.clone();
        }
        let known = Arc::new(self.read(encoded));
        if self.known.len() >= RESOURCES_MAX {
            self.known.clear();
        }
        self.known.insert(encoded.into(), known.clone());
        known
    }

    fn read(&mut self, encoded: &[u8]) -> ParsedResource {
        self.attributes.clear();
        // A resource that is not an object is treated as empty, as everywhere.
        let _ = self.attributes.read_json(encoded);
        let text_of = |key: Reserved| {
            let mut buffer = Vec::new();
            let mut found = FirstText::new(&mut buffer);
            for path in key.resource_paths() {
                self.attributes.values(path.as_bytes()).for_each(|value| found.take(value));
            }
            let is_found = found.is_found();
            is_found.then(|| buffer.into_boxed_slice())
        };
        ParsedResource {
            json: (!self.attributes.is_empty()).then(|| encoded.into()),
            service: text_of(Reserved::Service),
            host: text_of(Reserved::Host),
        }
    }
}

/// Takes the first value that has a text.
pub(super) struct FirstText<'a> {
    buffer: &'a mut Vec<u8>,
    is_found: bool,
}

impl<'a> FirstText<'a> {
    pub(super) fn new(buffer: &'a mut Vec<u8>) -> Self {
        Self { buffer, is_found: false }
    }

    pub(super) fn is_found(&self) -> bool {
        self.is_found
    }

    pub(super) fn take(&mut self, value: Scalar<'_>) {
        if self.is_found {
            return;
        }
        if let Scalar::Text(text) = value {
            self.buffer.extend_from_slice(text);
            self.is_found = true;
            return;
        }
        let mut buffer = Vec::new();
        if let Some(text) = value_of(value).text(&mut buffer) {
            self.buffer.extend_from_slice(text);
            self.is_found = true;
        }
    }
}
