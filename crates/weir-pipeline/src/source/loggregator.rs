//! `type = "loggregator"` and `type = "dropsonde"`: envelopes from Loggregator's agents and client
//! libraries, as records with their source, instance and tags.
//!
//! Envelopes of version 1 are converted to version 2 as they arrive, so later stages handle only
//! version 2.
//!
//! It does the work of an agent: default tags are added to envelopes without a tag of that name,
//! tags in the deprecated form count as tags, the source id of an envelope without one is its tag
//! `origin`, and the total is added to counters that contain only an increment.
//!
//! Invariants: every envelope, valid or not, becomes one record and counts as one line; its bytes
//! are unchanged, except for the total of a counter, and fields that are appended.

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
use crate::config::ListenSettings;
use producers::{Producer, Producers};
use totals::Totals;

/// `type = "loggregator"`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggregatorSource {
    /// Address, limits and TLS of the listener.
    pub listen: ListenSettings,
    /// Maximum size of the messages being received, over all connections.
    pub in_flight_bytes_max: usize,
    /// Default tags: added to envelopes that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// `type = "dropsonde"`.
#[derive(Debug, Clone, PartialEq)]
pub struct DropsondeSource {
    /// Address and limits of the listener.
    pub listen: ListenSettings,
    /// Default tags: added to envelopes that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// Turns envelopes into records of a listener.
#[derive(Debug)]
pub(super) struct LoggregatorIntake {
    decoder: LoggregatorDecoder,
    producers: Producers,
    tags: LoggregatorTags,
    quota_fields: KeyFields,
    totals: Totals,
    /// A changed envelope.
    changed: Vec<u8>,
    converter: DropsondeConverter,
}

/// The version of a received envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoggregatorVersion {
    /// Version 1, from programs on this machine, which expect an agent, or from agents, which
    /// expect a router.
    V1 {
        /// It is from a program, so weir acts as the agent.
        is_agent: bool,
    },
    /// Version 2.
    V2,
    /// Neither: data that cannot be converted to an envelope.
    None,
}

/// A parsed envelope, with its producer.
pub(super) struct ParsedEnvelope<'p, 'e> {
    decoder: &'p mut LoggregatorDecoder,
    totals: &'p mut Totals,
    changed: &'p mut Vec<u8>,
    quota_fields: &'p KeyFields,
    tags: &'p LoggregatorTags,
    default_tags: &'p [(String, String)],
    producer: &'p Producer,
    envelope: LoggregatorEnvelope<'e>,
    /// Received length, in bytes.
    len: usize,
    /// It is not a valid envelope.
    is_malformed: bool,
    /// Why it could not be parsed.
    error: Option<LoggregatorError>,
    observed_ns: i64,
}

impl LoggregatorIntake {
    /// Creates an intake with default tags for envelopes. `quota_fields` make up the key of a
    /// quota, if there is one.
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
    /// Returns why it could not be parsed; it becomes a record nevertheless.
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
        // The received length counts, not that of the changed envelope.
        book.bytes_read += self.len as u64;
        book.bytes_read = book.bytes_read.saturating_sub(envelope.bytes.len() as u64);
        Ok(())
    }
}

/// Returns an envelope with this total of its counter, written to `space` if it has to be changed.
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
