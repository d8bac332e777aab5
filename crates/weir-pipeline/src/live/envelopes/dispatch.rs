//! Distributes each batch: determines which readers receive which record, and writes the envelopes.
//!
//! Invariants: the origin of a record is decoded once for many records; a batch is processed once
//! for all readers; while the thread is behind, envelopes are only counted as lost for the readers
//! that match, which is many times faster, so that it catches up before batches are missed.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use weir_codec::{
    DropsondeConverter, DropsondeOutline, DropsondeType, LoggregatorBatch, LoggregatorEnvelope,
    LoggregatorMessage, LoggregatorTags, add_to_loggregator_batch, convert_loggregator_tags,
    has_loggregator_tags,
};
use weir_model::{Batch, RecordFlags, RecordKind, RecordView, hash64};

use super::super::limits::{ORIGINS_MAX, V1_BYTES_MAX};
use super::Form;
use super::index::{Candidate, Index, Targets};
use super::queue::Staged;
use super::write::{Origin, names_of, write_from_fields};

/// Cached properties of the records of one resource.
#[derive(Debug)]
struct CachedResource {
    encoded: Box<[u8]>,
    is_envelope: bool,
    origin: Origin,
    targets: Targets,
}

/// The state of the distribution.
#[derive(Debug, Default)]
pub(in super::super) struct Dispatcher {
    index: Arc<Index>,
    known: HashMap<u64, Rc<CachedResource>>,
    /// For each reader.
    staged: Vec<Staged>,
    /// The cached properties of each resource of the batch.
    of_batch: Vec<Rc<CachedResource>>,
    chosen: Vec<usize>,
    writer: EnvelopeWriter,
}

/// The envelope of one record.
#[derive(Debug, Default)]
struct EnvelopeWriter {
    tags: LoggregatorTags,
    names: Vec<String>,
    /// The envelope, if it was rewritten.
    rewritten: Vec<u8>,
    /// The envelope with its tags in the other form.
    converted: Vec<u8>,
    converter: DropsondeConverter,
    /// The envelope in version 1, as a batch.
    in_v1: Vec<u8>,
}

impl Dispatcher {
    /// Replaces the index of readers.
    pub(in super::super) fn change(&mut self, index: Arc<Index>) {
        if Arc::ptr_eq(&self.index, &index) {
            return;
        }
        self.staged.clear();
        self.staged.resize_with(index.readers.len(), Staged::default);
        // It refers to the previous index.
        self.known.clear();
        self.index = index;
    }

    /// Gives the records of a batch to matching readers. `is_envelope`: the source receives
    /// envelopes. `is_behind`: they are only counted, as lost.
    pub(in super::super) fn dispatch(
        &mut self,
        batch: &Batch,
        source: &str,
        is_envelope: bool,
        is_behind: bool,
    ) {
        if self.index.readers.is_empty() || !self.know(batch, source, is_envelope) {
            return;
        }
        let Self { index, staged, of_batch, chosen, writer, .. } = self;
        let none = Rc::clone(&of_batch[0]);
        for view in batch.records() {
            let known = of_batch.get(usize::from(view.resource())).unwrap_or(&none);
            let nodes = &known.targets[view.kind() as usize];
            if nodes.is_empty() {
                continue;
            }
            let Some(envelope) = writer.envelope(&view, known, index.needs_names(nodes), is_behind)
            else {
                continue;
            };
            let candidate = Candidate { random: fastrand::u64(..), names: &writer.names };
            index.choose(nodes, &candidate, chosen);
            if is_behind {
                writer.lose(envelope, index, chosen, staged);
            } else {
                writer.stage(envelope, index, chosen, staged);
            }
        }
        for (reader, staged) in index.readers.iter().zip(staged) {
            if !staged.is_empty() {
                reader.push(staged);
            }
        }
        self.relieve();
    }

    /// Counts records that all readers missed.
    pub(in super::super) fn missed(&self, records: u64) {
        for reader in &self.index.readers {
            reader.miss(records);
        }
    }

    /// Looks up the resources of a batch. Returns whether any record can match a reader.
    fn know(&mut self, batch: &Batch, source: &str, is_envelope: bool) -> bool {
        self.of_batch.clear();
        for number in 0..batch.resource_count().max(1) {
            let encoded = batch.resource(number as u16).encoded;
            let hash = hash64(encoded) ^ hash64(source.as_bytes());
            let found = self
                .known
                .get(&hash)
                .filter(|known| *known.encoded == *encoded && known.is_envelope == is_envelope);
            let known = found.cloned().unwrap_or_else(|| {
                let origin = Origin::new(encoded, is_envelope, source);
                let targets = self.index.targets(&origin.source_id);
                Rc::new(CachedResource { encoded: encoded.into(), is_envelope, origin, targets })
            });
            if found.is_none() {
                if self.known.len() >= ORIGINS_MAX {
                    self.known.clear();
                }
                self.known.insert(hash, known.clone());
            }
            self.of_batch.push(known);
        }
        let is_wanted =
            |known: &Rc<CachedResource>| known.targets.iter().any(|nodes| !nodes.is_empty());
        self.of_batch.iter().any(is_wanted)
    }

    /// Frees memory while the limit is exceeded: the reader with the longest queue loses first.
    fn relieve(&self) {
        while self.index.readers.first().is_some_and(|reader| reader.is_over_budget()) {
            let heaviest = self.index.readers.iter().max_by_key(|reader| reader.queued_bytes());
            if !heaviest.is_some_and(|reader| reader.lose()) {
                return;
            }
        }
    }
}

/// The bytes of the envelope of a record.
#[derive(Clone, Copy)]
enum Bytes<'b> {
    /// As it was received.
    Received(&'b [u8]),
    /// In [`EnvelopeWriter::rewritten`].
    Rewritten,
    /// Not written: it is a log that is only counted.
    Unwritten,
}

impl EnvelopeWriter {
    /// Finds or writes the envelope of a record, and its names if they are needed. `None` if the
    /// record has no envelope.
    fn envelope<'v>(
        &mut self,
        view: &RecordView<'v>,
        known: &CachedResource,
        needs_names: bool,
        is_behind: bool,
    ) -> Option<Bytes<'v>> {
        self.names.clear();
        let original = if known.is_envelope { view.original() } else { b"" };
        if original.is_empty() {
            if known.is_envelope && view.flags.contains(RecordFlags::MALFORMED) {
                return None;
            }
            // A log always has an envelope.
            if view.kind() == RecordKind::Log && is_behind {
                return Some(Bytes::Unwritten);
            }
            self.rewritten.clear();
            if !write_from_fields(view, &known.origin, known.is_envelope, &mut self.rewritten) {
                return None;
            }
            if needs_names {
                let envelope = LoggregatorEnvelope::parse(&self.rewritten, &mut self.tags).ok()?;
                names_of(&envelope, &mut self.names);
            }
            return Some(Bytes::Rewritten);
        }
        let is_empty = view.body.is_empty() && view.kind() == RecordKind::Log;
        if needs_names || is_empty {
            let envelope = LoggregatorEnvelope::parse(original, &mut self.tags).ok()?;
            // It may be of a type that only later releases know.
            if envelope.message == LoggregatorMessage::None {
                return None;
            }
            names_of(&envelope, &mut self.names);
        }
        Some(Bytes::Received(original))
    }
}

impl EnvelopeWriter {
    /// Stages an envelope for its readers.
    fn stage(
        &mut self,
        envelope: Bytes<'_>,
        index: &Index,
        chosen: &[usize],
        staged: &mut [Staged],
    ) {
        let Self { rewritten, converted, converter, in_v1, .. } = self;
        let bytes = match envelope {
            Bytes::Received(bytes) => bytes,
            Bytes::Rewritten => rewritten,
            Bytes::Unwritten => return,
        };
        for (form, prefers_tags) in [(Form::Tags, true), (Form::DeprecatedTags, false)] {
            let mut readers =
                chosen.iter().filter(|reader| index.readers[**reader].form == form).peekable();
            if readers.peek().is_some() {
                let bytes = in_form(bytes, prefers_tags, converted);
                readers.for_each(|reader| staged[*reader].add(bytes));
            }
        }
        if !chosen.iter().any(|reader| index.readers[*reader].is_of_v1()) {
            return;
        }
        let Ok(Some(outline)) = converter.outline(bytes) else { return };
        in_v1.clear();
        let mut left = 0;
        for reader in chosen.iter().filter(|reader| index.readers[**reader].wants(outline)) {
            if in_v1.is_empty() {
                let add = |one: &[u8]| add_to_loggregator_batch(one, in_v1);
                left = converter.to_v1(bytes, V1_BYTES_MAX, add).unwrap_or(outline.envelopes);
            }
            let staged = &mut staged[*reader];
            for one in LoggregatorBatch::new(in_v1).flatten() {
                staged.add(one);
            }
            staged.lose(left);
        }
    }

    /// Counts an envelope as lost for its readers.
    fn lose(
        &mut self,
        envelope: Bytes<'_>,
        index: &Index,
        chosen: &[usize],
        staged: &mut [Staged],
    ) {
        let mut outline = None;
        for at in chosen {
            let reader = &index.readers[*at];
            if !reader.is_of_v1() {
                staged[*at].lose(1);
                continue;
            }
            let found = *outline.get_or_insert_with(|| self.outline(envelope));
            if let Some(found) = found.filter(|found| reader.wants(*found)) {
                staged[*at].lose(found.envelopes);
            }
        }
    }

    /// Returns the outline of an envelope in version 1.
    fn outline(&mut self, envelope: Bytes<'_>) -> Option<DropsondeOutline> {
        let bytes = match envelope {
            Bytes::Received(bytes) => bytes,
            Bytes::Rewritten => &self.rewritten,
            Bytes::Unwritten => {
                let event_type = DropsondeType::LogMessage;
                return Some(DropsondeOutline { event_type, envelopes: 1 });
            }
        };
        self.converter.outline(bytes).ok().flatten()
    }
}

/// Returns an envelope with its tags in the requested form.
fn in_form<'b>(bytes: &'b [u8], prefers_tags: bool, space: &'b mut Vec<u8>) -> &'b [u8] {
    if !has_loggregator_tags(bytes, !prefers_tags) {
        return bytes;
    }
    space.clear();
    if convert_loggregator_tags(bytes, prefers_tags, space).is_err() {
        return bytes;
    }
    space
}
