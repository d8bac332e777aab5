//! `type = "syslog"`: messages in the formats of RFC 5424 and RFC 3164, as records with their host
//! and program, over any transport.
//!
//! Invariants: every message, valid or not, becomes one record and counts as one line; a message
//! that is longer than the limit is truncated, and the missing bytes are counted.

mod producers;

use std::net::IpAddr;

use weir_codec::{SyslogDecoder, SyslogFramingKind, SyslogMessage, SyslogOrigin};
use weir_host::Zone;
use weir_model::{AbandonReason, BatchBuilder, Full, SourceBook};

use super::listen::{Incoming, KeyFields, KeyName};
use super::running::host_name;
use crate::config::ListenSettings;
use producers::Producers;

/// `type = "syslog"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SyslogSource {
    /// Address, limits and TLS of the listener.
    pub listen: ListenSettings,
    /// Messages are acknowledged with RELP.
    pub is_relp: bool,
    /// How messages are delimited in a connection.
    pub framing: SyslogFramingKind,
    /// Length at which a message is truncated, in bytes.
    pub message_bytes_max: usize,
    /// Time zone of timestamps without one.
    pub zone: Zone,
}

/// How often the offset of a time zone is looked up: zones change at whole minutes.
const ZONE_INTERVAL_NS: i64 = 60 * 1_000_000_000;

/// Turns messages into records of a listener.
#[derive(Debug)]
pub(super) struct SyslogIntake {
    decoder: SyslogDecoder,
    producers: Producers,
    quota_fields: KeyFields,
    zone: Zone,
    zone_checked_ns: i64,
}

/// A message as it was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received<'l> {
    /// The message, without its framing.
    pub(super) line: &'l [u8],
    /// It is the beginning of a longer one.
    pub(super) is_truncated: bool,
    /// Bytes of it that are already known to be missing.
    pub(super) skipped_bytes: u64,
    /// The address of the sender; `None` for Unix sockets.
    pub(super) peer: Option<IpAddr>,
    /// When it was received, nanoseconds since 1970.
    pub(super) observed_ns: i64,
}

/// A parsed message, with its producer.
pub(super) struct Parsed<'p, 'l> {
    decoder: &'p mut SyslogDecoder,
    quota_fields: &'p KeyFields,
    producer: &'p producers::Producer,
    message: SyslogMessage<'l>,
    received: Received<'l>,
}

impl SyslogIntake {
    /// Creates an intake that reads times without a zone in this one. `quota_fields` make up the
    /// key of a quota, if there is one.
    pub(super) fn new(zone: Zone, quota_fields: KeyFields) -> Self {
        Self {
            decoder: SyslogDecoder::new(),
            producers: Producers::new(host_name(), quota_fields.clone()),
            quota_fields,
            zone,
            zone_checked_ns: i64::MIN,
        }
    }

    /// Parses a message.
    pub(super) fn parse<'l>(&mut self, received: Received<'l>) -> Parsed<'_, 'l> {
        let now_ns = received.observed_ns;
        if now_ns.saturating_sub(self.zone_checked_ns) >= ZONE_INTERVAL_NS {
            self.zone_checked_ns = now_ns;
            self.decoder.set_utc_offset((self.zone.offset_ns(now_ns) / 1_000_000_000) as i32);
        }
        let message = self.decoder.parse(received.line, now_ns);
        let producer = self.producers.find(message.hostname, message.app_name, received.peer);
        let Self { decoder, quota_fields, .. } = self;
        Parsed { decoder, quota_fields, producer, message, received }
    }
}

impl Incoming for Parsed<'_, '_> {
    fn lane_hash(&self) -> u64 {
        self.producer.host_hash
    }

    fn quota_key(&self) -> u64 {
        self.producer.quota_key
    }

    fn quota_name(&self) -> KeyName {
        self.quota_fields.name(&self.producer.origin())
    }

    fn len(&self) -> usize {
        self.message.line.len()
    }

    fn skipped_bytes(&self) -> u64 {
        self.received.skipped_bytes
    }

    fn push(
        &mut self,
        batch: &mut BatchBuilder,
        end_offset: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let resource = batch.resource(self.producer.key, &self.producer.encoded)?;
        let Received { is_truncated, observed_ns, .. } = self.received;
        let origin = SyslogOrigin { resource, end_offset, observed_ns, is_truncated };
        self.decoder.push(batch, &self.message, &origin, book)?;
        if self.received.skipped_bytes > 0 {
            book.abandon(AbandonReason::LineTooLong, self.received.skipped_bytes);
        }
        Ok(())
    }
}
