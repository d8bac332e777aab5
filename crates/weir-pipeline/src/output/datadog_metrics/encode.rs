//! Records as points of series: `{"series":[{"metric":..,"type":3,"points":[..],"tags":[..]}]}`.
//!
//! Format: <https://docs.datadoghq.com/api/latest/metrics/#submit-metrics>, version 2.
//!
//! Invariants: only counters and gauges have points; NaN and infinite values have none, since JSON
//! cannot represent them.

use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use weir_codec::{LoggregatorEnvelope, LoggregatorMessage, LoggregatorTags, escape_json_into};
use weir_model::{RecordKind, RecordView, Selection};

use crate::live::RecordEnvelopes;
use crate::source::SourceNames;

/// The type `gauge` of a series. Totals of counters are sent as gauges, as by the nozzle.
const GAUGE: u8 = 3;

/// Tags that are not sent: the origin is part of the name, and the other is the type in version 1
/// from which an envelope was converted.
const NO_TAGS: [&[u8]; 2] = [b"origin", b"__v1_type"];

/// Encodes records for one output.
#[derive(Debug)]
pub(in crate::output) struct SeriesEncoder {
    prefix: Vec<u8>,
    /// Tags from the configuration, each quoted and followed by a comma.
    own_tags: Vec<u8>,
    envelopes: RecordEnvelopes,
    tags: LoggregatorTags,
    /// The part after the points, common to all measurements of an envelope.
    ending: Vec<u8>,
}

impl SeriesEncoder {
    pub(super) fn new(prefix: &str, tags: &[String], sources: Arc<SourceNames>) -> Self {
        let mut own_tags = Vec::new();
        for tag in tags {
            own_tags.extend_from_slice(b",\"");
            escape_json_into(tag.as_bytes(), &mut own_tags);
            own_tags.push(b'"');
        }
        let mut escaped = Vec::new();
        escape_json_into(prefix.as_bytes(), &mut escaped);
        Self {
            prefix: escaped,
            own_tags,
            envelopes: RecordEnvelopes::new(sources),
            tags: LoggregatorTags::default(),
            ending: Vec::new(),
        }
    }

    /// Returns the numbers of the records that have no point.
    pub(in crate::output) fn without_points(&mut self, records: &Selection) -> Vec<usize> {
        let mut found = Vec::new();
        let mut points = Vec::new();
        for (number, record) in records.part(0..records.len()).enumerate() {
            points.clear();
            self.add(records, &record, &mut points);
            if points.is_empty() {
                found.push(number);
            }
        }
        found
    }

    /// Appends the points of the records in `range`, each after a comma.
    pub(in crate::output) fn encode(
        &mut self,
        records: &Selection,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) {
        for record in records.part(range) {
            self.add(records, &record, out);
        }
    }

    /// Completes a body: its beginning replaces the first comma.
    pub(in crate::output) fn complete(body: &mut Vec<u8>) {
        const BEGINNING: &[u8] = b"{\"series\":[";
        let comma = body.len().min(1);
        body.splice(..comma, BEGINNING.iter().copied());
        body.extend_from_slice(b"]}");
    }

    fn add(&mut self, records: &Selection, record: &RecordView<'_>, out: &mut Vec<u8>) {
        if !carries(record.kind()) {
            return;
        }
        let Self { prefix, own_tags, envelopes, tags, ending } = self;
        let Some(bytes) = envelopes.envelope(records.batch(), record) else { return };
        let Ok(envelope) = LoggregatorEnvelope::parse(bytes, tags) else { return };
        let seconds = match envelope.timestamp_ns {
            0 => record.timestamp_ns,
            stated => stated,
        } / 1_000_000_000;
        write_ending(&envelope, tags, own_tags, ending);
        let origin = origin_of(&envelope, tags);
        let mut point = |name: &[u8], unit: &[u8], value: &dyn std::fmt::Display| {
            out.extend_from_slice(b",{\"metric\":\"");
            out.extend_from_slice(prefix);
            if !origin.is_empty() {
                escape_json_into(&origin, out);
                out.push(b'.');
            }
            escape_json_into(&valid(name), out);
            // Writing to a vector cannot fail.
            let _ = write!(
                out,
                "\",\"type\":{GAUGE},\"points\":[{{\"timestamp\":{seconds},\"value\":{value}}}]"
            );
            if !unit.is_empty() {
                out.extend_from_slice(b",\"unit\":\"");
                escape_json_into(&valid(unit), out);
                out.push(b'"');
            }
            out.extend_from_slice(ending);
        };
        match envelope.message {
            LoggregatorMessage::Counter { name, total, .. } => point(name, b"", &total),
            LoggregatorMessage::Gauge(gauge) => {
                for metric in gauge.metrics().filter(|metric| metric.value.is_finite()) {
                    point(metric.name, metric.unit, &metric.value);
                }
            }
            LoggregatorMessage::None
            | LoggregatorMessage::Log { .. }
            | LoggregatorMessage::Timer { .. }
            | LoggregatorMessage::Event { .. } => {}
        }
    }
}

/// Returns whether records of a kind have points.
fn carries(kind: RecordKind) -> bool {
    match kind {
        RecordKind::Counter | RecordKind::Gauge => true,
        RecordKind::Log | RecordKind::Timer | RecordKind::Event => false,
    }
}

/// Returns a text with invalid UTF-8 replaced.
fn valid(bytes: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    match String::from_utf8_lossy(bytes) {
        std::borrow::Cow::Borrowed(_) => bytes.into(),
        std::borrow::Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// Returns the prefix of a name: the origin, which every metric of Loggregator's components has.
fn origin_of(envelope: &LoggregatorEnvelope<'_>, tags: &LoggregatorTags) -> Vec<u8> {
    let mut origin = Vec::new();
    for (_, value) in tags.iter(envelope.bytes).filter(|(name, _)| *name == b"origin") {
        origin.clear();
        value.write(&mut origin);
    }
    valid(&origin).into_owned()
}

/// Writes the tags of an envelope, and the end of an entry.
fn write_ending(
    envelope: &LoggregatorEnvelope<'_>,
    tags: &LoggregatorTags,
    own_tags: &[u8],
    ending: &mut Vec<u8>,
) {
    ending.clear();
    ending.extend_from_slice(b",\"tags\":[");
    let start = ending.len();
    let mut text = Vec::new();
    let mut tag = |name: &[u8], value: &[u8]| {
        if value.is_empty() {
            return;
        }
        ending.extend_from_slice(b",\"");
        escape_json_into(&valid(name), ending);
        ending.push(b':');
        escape_json_into(&valid(value), ending);
        ending.push(b'"');
    };
    let is_tag = |name: &[u8]| !NO_TAGS.contains(&name);
    let has = |wanted: &[u8]| tags.iter(envelope.bytes).any(|(name, _)| name == wanted);
    for (name, value) in tags.iter(envelope.bytes).filter(|(name, _)| is_tag(name)) {
        text.clear();
        value.write(&mut text);
        tag(name, &text);
    }
    let identity: [(&[u8], &[u8]); 2] =
        [(b"source_id", envelope.source_id), (b"instance_id", envelope.instance_id)];
    for (name, value) in identity.into_iter().filter(|(name, _)| !has(name)) {
        tag(name, value);
    }
    ending.extend_from_slice(own_tags);
    if ending.len() > start {
        ending.remove(start);
    }
    ending.extend_from_slice(b"]}");
}
