//! `type = "statsd"`: statsd metrics over UDP, as Loggregator envelopes.
//!
//! Invariants: each value of a line becomes one record, except increments of zero, and so does a
//! line that is not a metric or has too many values; a datagram is decoded once, however often its
//! records have to wait for room.

use std::collections::VecDeque;
use std::net::IpAddr;

use weir_codec::{StatsdDecoder, StatsdError};

use super::listen::KeyFields;
use super::loggregator::{LoggregatorIntake, LoggregatorVersion, ParsedEnvelope};
use crate::config::ListenSettings;

/// `type = "statsd"`.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsdSource {
    /// Address and limits of the listener.
    pub listen: ListenSettings,
    /// Default tags: added to metrics that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// Turns datagrams into records of a listener.
#[derive(Debug)]
pub(super) struct StatsdIntake {
    decoder: StatsdDecoder,
    envelopes: LoggregatorIntake,
    /// Source id of metrics that have none: that of the configuration.
    default_source: String,
    /// Parts of the datagram that were not taken yet.
    left: VecDeque<DatagramPart>,
}

/// A part of a datagram.
#[derive(Debug)]
enum DatagramPart {
    Envelope(Vec<u8>),
    /// A line that is not a metric.
    Malformed(Vec<u8>),
}

impl StatsdIntake {
    /// Creates an intake with default tags for metrics. `quota_fields` make up the key of a quota,
    /// if there is one.
    pub(super) fn new(source: &str, tags: &[(String, String)], quota_fields: KeyFields) -> Self {
        Self {
            decoder: StatsdDecoder::default(),
            envelopes: LoggregatorIntake::new(tags, quota_fields),
            default_source: source.to_owned(),
            left: VecDeque::new(),
        }
    }

    /// Decodes a datagram, unless a part of it is still to be taken. Calls `report` for each line
    /// that is not a metric.
    pub(super) fn open(
        &mut self,
        datagram: &[u8],
        now_ns: i64,
        mut report: impl FnMut(StatsdError),
    ) {
        if !self.left.is_empty() {
            return;
        }
        let Self { decoder, default_source, left, .. } = self;
        for line in datagram.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end) {
            if line.is_empty() {
                continue;
            }
            let add = |envelope: &[u8]| left.push_back(DatagramPart::Envelope(envelope.to_vec()));
            if let Err(error) = decoder.decode(line, default_source, now_ns, add) {
                left.push_back(DatagramPart::Malformed(line.to_vec()));
                report(error);
            }
        }
    }

    /// Returns the next part of the datagram; the same until it is [taken](Self::taken).
    pub(super) fn next(
        &mut self,
        peer: Option<IpAddr>,
        observed_ns: i64,
    ) -> Option<ParsedEnvelope<'_, '_>> {
        let Self { envelopes, left, .. } = self;
        let (version, bytes) = match left.front()? {
            DatagramPart::Envelope(bytes) => (LoggregatorVersion::V2, bytes),
            DatagramPart::Malformed(line) => (LoggregatorVersion::None, line),
        };
        Some(envelopes.parse(version, bytes, peer, observed_ns))
    }

    /// Removes the part that was taken.
    pub(super) fn taken(&mut self) {
        self.left.pop_front();
    }
}
