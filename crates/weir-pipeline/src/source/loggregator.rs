//! `type = "loggregator"` and `type = "dropsonde"`: envelopes of Loggregator's agents and client
//! libraries, in records with their source, instance and tags.
//!
//! Those of version 1 are converted to version 2 as they arrive, so everything behind this treats
//! both in the same way.
//!
//! What an agent does is done here: tags of the configuration are added where an envelope has none
//! of that name, tags in the deprecated form count as tags, an envelope without a source is from its
//! tag `origin`, and a counter that states only its increment gets its total.
//!
//! Invariants: every envelope becomes one record and counts as one line, whatever it consists of;
//! its bytes stay as they came, except for the total of a counter, and fields that are added after
//! them.

mod producers;
mod totals;

use std::net::IpAddr;

use weir_codec::{
    DropsondeConverter, DropsondeReceiver, LoggregatorDecoder, LoggregatorEnvelope,
    LoggregatorError, LoggregatorMessage, LoggregatorOrigin, LoggregatorTags,
    encode_loggregator_total,
};
use weir_model::{BatchBuilder, Full, SourceBook};

use super::listen::{Incoming, KeyFields, KeyName};
use producers::{Producer, Producers};
use totals::Totals;

/// Turns envelopes into records of a listener.
#[derive(Debug)]
pub(super) struct LoggregatorIntake {
    decoder: LoggregatorDecoder,
    producers: Producers,
    tags: LoggregatorTags,
    quota_fields: KeyFields,
    totals: Totals,
    /// An envelope that was changed.
    changed: Vec<u8>,
    converter: DropsondeConverter,
}

/// In which form an envelope arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoggregatorVersion {
    /// An older one: of programs on this machine, which expect an agent, or of agents, which expect
    /// a router.
    V1 {
        /// It is from a program.
        is_agent: bool,
    },
    /// The current one.
    V2,
    /// None: what should have become an envelope, and cannot.
    None,
}

/// An envelope that was parsed, and what is known about its producer.
pub(super) struct ParsedEnvelope<'p, 'e> {
    decoder: &'p mut LoggregatorDecoder,
    totals: &'p mut Totals,
    changed: &'p mut Vec<u8>,
    quota_fields: &'p KeyFields,
    tags: &'p LoggregatorTags,
    default_tags: &'p [(String, String)],
    producer: &'p Producer,
    envelope: LoggregatorEnvelope<'e>,
    /// Length of what was received.
    len: usize,
    /// It is no envelope.
    is_malformed: bool,
    /// Why it could not be parsed.
    error: Option<LoggregatorError>,
    observed_ns: i64,
}

impl LoggregatorIntake {
    /// Creates an intake that adds tags to envelopes without them. `quota_fields` make up the key
    /// of a quota, if there is one.
    pub(super) fn new(default_tags: &[(String, String)], quota_fields: KeyFields) -> Self {
        Self {
            decoder: LoggregatorDecoder::default(),
            producers: Producers::new(default_tags.to_vec(), quota_fields.clone()),
            tags: LoggregatorTags::default(),
            quota_fields,
            totals: Totals::default(),
            changed: Vec::new(),
            converter: DropsondeConverter::default(),
        }
    }

    /// Parses an envelope that was received from this address at that time.
    pub(super) fn parse<'e>(
        &'e mut self,
        version: LoggregatorVersion,
        received: &'e [u8],
        peer: Option<IpAddr>,
        observed_ns: i64,
    ) -> ParsedEnvelope<'e, 'e> {
        let Self { decoder, producers, tags, quota_fields, totals, changed, converter } = self;
        let bytes = match version {
            LoggregatorVersion::V2 => Some(Ok(received)),
            LoggregatorVersion::V1 { is_agent } => {
                let receiver = DropsondeReceiver { tags: producers.default_tags(), is_agent };
                Some(converter.to_v2(received, &receiver))
            }
            LoggregatorVersion::None => None,
        };
        let parsed = bytes.map(|bytes| bytes.and_then(|b| LoggregatorEnvelope::parse(b, tags)));
        let error = parsed.and_then(Result::err);
        let envelope = parsed.and_then(Result::ok);
        let is_malformed = envelope.is_none();
        let envelope = envelope.unwrap_or_else(|| {
            *tags = LoggregatorTags::default();
            LoggregatorEnvelope { bytes: received, ..LoggregatorEnvelope::default() }
        });
        producers.find(&envelope, tags, peer);
        let producers = &*producers;
        let default_tags = producers.default_tags();
        let producer = producers.last();
        ParsedEnvelope {
            decoder,
            totals,
            changed,
            quota_fields,
            tags,
            default_tags,
            producer,
            envelope,
            len: received.len(),
            is_malformed,
            error,
            observed_ns,
        }
    }
}

impl ParsedEnvelope<'_, '_> {
    /// Why it could not be parsed; it becomes a record all the same.
    pub(super) fn error(&self) -> Option<LoggregatorError> {
        self.error
    }
}

impl Incoming for ParsedEnvelope<'_, '_> {
    fn lane_hash(&self) -> u64 {
        self.producer.key
    }

    fn quota_key(&self) -> u64 {
        self.producer.quota_key
    }

    fn quota_name(&self) -> KeyName {
        self.quota_fields.name(&self.producer.origin())
    }

    fn len(&self) -> usize {
        self.len
    }

    fn push(
        &mut self,
        batch: &mut BatchBuilder,
        end_offset: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let resource = batch.resource(self.producer.key, &self.producer.encoded)?;
        let (observed_ns, added) = (self.observed_ns, self.producer.added());
        let origin = LoggregatorOrigin { resource, end_offset, observed_ns, added };
        if self.is_malformed {
            return self.decoder.push_malformed(batch, self.envelope.bytes, &origin, book);
        }
        let tags = self.tags.iter(self.envelope.bytes);
        let own = tags.filter(|(name, _)| !Producers::has_tag(self.default_tags, name));
        let counted = self.totals.with(&self.envelope, self.producer.source_id(), self.tags);
        let envelope = match counted {
            Some(total) => with_total(&self.envelope, total, self.changed),
            None => self.envelope,
        };
        self.decoder.push(batch, &envelope, own, &origin, book)?;
        if let Some(total) = counted {
            self.totals.set(total);
        }
        // What was received counts, not what it was changed to.
        book.bytes_read += self.len as u64;
        book.bytes_read = book.bytes_read.saturating_sub(envelope.bytes.len() as u64);
        Ok(())
    }
}

/// Returns an envelope with this total of its counter, in `space` if that has to be changed.
fn with_total<'e>(
    envelope: &LoggregatorEnvelope<'e>,
    now: u64,
    space: &'e mut Vec<u8>,
) -> LoggregatorEnvelope<'e> {
    match envelope.message {
        LoggregatorMessage::Counter { name, delta, total } if total != now => {
            space.clear();
            if encode_loggregator_total(envelope.bytes, now, space).is_err() {
                return *envelope;
            }
            let message = LoggregatorMessage::Counter { name, delta, total: now };
            LoggregatorEnvelope { bytes: space, message, ..*envelope }
        }
        _ => *envelope,
    }
}
