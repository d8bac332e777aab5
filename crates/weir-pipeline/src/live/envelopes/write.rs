//! Records as envelopes.
//!
//! Invariant: the bytes of a received envelope are copied while the record has them; a record that
//! a rule has changed has none, and its envelope is written from its fields.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_codec::{
    DropsondeConverter, LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage,
    LoggregatorMetric, convert_loggregator_tags, encode_loggregator_envelope,
    encode_loggregator_metrics,
};
use weir_model::{RecordFlags, RecordKind, RecordView, Resource, Severity, TAGS};

use super::Form;

/// Attributes of a resource that have a field of their own in an envelope.
const SERVICE: &str = "service.name";
const INSTANCE: &str = "service.instance.id";

/// The fields of an envelope that describe the source of a record.
#[derive(Debug, Default)]
pub struct Origin {
    /// The application or job.
    pub source_id: String,
    /// Its instance.
    pub instance_id: String,
    /// Tags of all its envelopes.
    pub tags: BTreeMap<String, String>,
}

impl Origin {
    /// Creates the origin of records with this resource. `is_envelope`: the records were received
    /// as envelopes, and only the tags of the resource become tags. A log without a service has the
    /// name of its source as source id.
    pub fn new(encoded: &[u8], is_envelope: bool, source: &str) -> Self {
        let resource = Resource::decode(encoded);
        let service = resource.text(SERVICE).or((!is_envelope).then_some(source));
        let mut tags = BTreeMap::new();
        for tag in resource.tags() {
            let (name, value) = tag.split_once(':').unwrap_or((tag, ""));
            tags.insert(name.to_owned(), value.to_owned());
        }
        let others = resource.iter().filter(|(name, _)| ![SERVICE, INSTANCE, TAGS].contains(name));
        for (name, value) in others.filter(|_| !is_envelope) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            tags.entry(name.to_owned()).or_insert(text);
        }
        Self {
            source_id: service.unwrap_or_default().to_owned(),
            instance_id: resource.text(INSTANCE).unwrap_or_default().to_owned(),
            tags,
        }
    }
}

/// A metric in the body of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    name: String,
    value: Option<serde_json::Number>,
    total: u64,
    unit: String,
    metrics: Vec<Self>,
    tags: Vec<(String, String)>,
}

impl Body {
    fn measurements(&self) -> impl Iterator<Item = LoggregatorMetric<'_>> {
        let all = if self.metrics.is_empty() { std::slice::from_ref(self) } else { &self.metrics };
        all.iter().map(|metric| LoggregatorMetric {
            name: metric.name.as_bytes(),
            unit: metric.unit.as_bytes(),
            value: metric.number(),
        })
    }

    fn number(&self) -> f64 {
        self.value.as_ref().and_then(serde_json::Number::as_f64).unwrap_or(f64::NAN)
    }

    /// Removes a tag that has a field of its own.
    fn take_tag(&mut self, name: &str) -> String {
        let found = self.tags.iter().position(|(tag, _)| tag == name);
        found.map(|at| self.tags.remove(at).1).unwrap_or_default()
    }
}

/// Appends an envelope with the fields of a record. Returns false if it is a metric that cannot be
/// read.
pub(crate) fn write_from_fields(
    view: &RecordView<'_>,
    origin: &Origin,
    is_envelope: bool,
    out: &mut Vec<u8>,
) -> bool {
    let plain = view.plain_body();
    let mut body = Body::default();
    if view.kind() != RecordKind::Log {
        match serde_json::from_slice(&plain) {
            Ok(read) => body = read,
            Err(_) => return false,
        }
    }
    let (title, text) = match view.kind() {
        RecordKind::Event => (body.take_tag("title"), body.take_tag("text")),
        RecordKind::Log | RecordKind::Counter | RecordKind::Gauge | RecordKind::Timer => {
            Default::default()
        }
    };
    let mut metrics = Vec::new();
    let timestamp_ns = view.timestamp_ns;
    let message = match view.kind() {
        RecordKind::Log => LoggregatorMessage::Log { payload: &plain, is_error: is_error(view) },
        RecordKind::Counter => {
            let delta = body.value.as_ref().and_then(serde_json::Number::as_u64);
            let (name, delta) = (body.name.as_bytes(), delta.unwrap_or(body.number() as u64));
            LoggregatorMessage::Counter { name, delta, total: body.total }
        }
        RecordKind::Gauge => {
            let all: Vec<_> = body.measurements().collect();
            encode_loggregator_metrics(&all, &mut metrics);
            LoggregatorMessage::Gauge(LoggregatorGauge(&metrics))
        }
        RecordKind::Timer => {
            let start_ns = timestamp_ns.saturating_sub((body.number() * 1e9) as i64);
            LoggregatorMessage::Timer {
                name: body.name.as_bytes(),
                start_ns,
                stop_ns: timestamp_ns,
            }
        }
        RecordKind::Event => {
            LoggregatorMessage::Event { title: title.as_bytes(), body: text.as_bytes() }
        }
    };
    let envelope = LoggregatorEnvelope {
        timestamp_ns,
        source_id: origin.source_id.as_bytes(),
        instance_id: origin.instance_id.as_bytes(),
        message,
        ..LoggregatorEnvelope::default()
    };
    let attributes = if is_envelope { own_tags(view) } else { BTreeMap::new() };
    let shared = origin.tags.iter().chain(&attributes);
    let tags: Vec<(&str, &str)> = shared
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .chain(body.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())))
        .collect();
    encode_loggregator_envelope(&envelope, &tags, out);
    true
}

/// Returns the tags of a log that are not from its source.
fn own_tags(view: &RecordView<'_>) -> BTreeMap<String, String> {
    if view.kind() != RecordKind::Log || view.attributes.is_empty() {
        return BTreeMap::new();
    }
    let attributes: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(view.attributes).unwrap_or_default();
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    attributes.into_iter().map(|(name, value)| (name, text(value))).collect()
}

fn is_error(view: &RecordView<'_>) -> bool {
    view.flags.contains(RecordFlags::STDERR)
        || !view.flags.contains(RecordFlags::STDOUT) && view.severity >= Severity::ERROR
}

/// Collects the names that determine the reader of a metric: that of a counter, or all of a gauge,
/// sorted.
pub(super) fn names_of(envelope: &LoggregatorEnvelope<'_>, names: &mut Vec<String>) {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    names.clear();
    match envelope.message {
        LoggregatorMessage::Counter { name, .. } => names.push(text(name)),
        LoggregatorMessage::Gauge(gauge) => {
            names.extend(gauge.metrics().map(|metric| text(metric.name)));
            names.sort_unstable();
            names.dedup();
        }
        LoggregatorMessage::None
        | LoggregatorMessage::Log { .. }
        | LoggregatorMessage::Timer { .. }
        | LoggregatorMessage::Event { .. } => {}
    }
}

/// Envelopes that did not reach a reader.
pub(super) struct Loss {
    pub(super) timestamp_ns: i64,
    pub(super) delta: u64,
    pub(super) total: u64,
    /// All of them matched the reader.
    pub(super) is_exact: bool,
}

impl Loss {
    /// Returns the loss as the counter that the original uses, over all its readers.
    pub(super) fn envelope(&self, form: &Form) -> Vec<u8> {
        let Self { timestamp_ns, delta, total, is_exact } = *self;
        let (source_id, origin): (&[u8], _) = match form {
            Form::Tags | Form::DeprecatedTags => (b"reverse_log_proxy", "loggregator.rlp"),
            Form::V1(_) => (b"doppler", "loggregator.doppler"),
        };
        let envelope = LoggregatorEnvelope {
            timestamp_ns,
            source_id,
            message: LoggregatorMessage::Counter { name: b"dropped", delta, total },
            ..LoggregatorEnvelope::default()
        };
        let mut tags = vec![("direction", "egress"), ("metric_version", "2.0"), ("origin", origin)];
        if !is_exact {
            tags.push(("accuracy", "at_most"));
        }
        let (mut preferred, mut bytes) = (Vec::new(), Vec::new());
        encode_loggregator_envelope(&envelope, &tags, &mut preferred);
        let converted = match form {
            Form::Tags => return preferred,
            Form::DeprecatedTags => convert_loggregator_tags(&preferred, false, &mut bytes),
            Form::V1(_) => {
                let mut converter = DropsondeConverter::default();
                let mut take = |one: &[u8]| bytes.extend_from_slice(one);
                converter.to_v1(&preferred, usize::MAX, &mut take).map(drop)
            }
        };
        if converted.is_err() {
            return preferred;
        }
        bytes
    }
}
