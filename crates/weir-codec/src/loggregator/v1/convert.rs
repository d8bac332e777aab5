//! Converts envelopes between version 1 and version 2.
//!
//! Invariants: the same data is kept as in the original, in the same fields; a tag that has become
//! a field is no longer a tag; an envelope of version 2 with many measurements and long tags, which
//! each envelope of version 1 repeats, is converted up to a limited number of bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;

use super::super::envelope::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    LoggregatorTagValue, LoggregatorTags,
};
use super::super::tags::{convert_loggregator_tags, has_loggregator_tags};
use super::super::wire::{
    LoggregatorError, put_bytes_field, put_entry, put_metric, put_number_field,
};
use super::envelope::{
    DropsondeContainer, DropsondeEnvelope, DropsondeForwarded, DropsondeHttp, DropsondeMessage,
    DropsondeType, DropsondeUuid,
};
use super::names::{method_name, method_number, peer_name, peer_number};

const EMPTY: &[u8] = b"";

/// The tag with the type in version 1.
const TYPE_TAG: &[u8] = b"__v1_type";

/// The receiver of envelopes of version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropsondeReceiver<'r> {
    /// Names and values that are added to envelopes without them: `deployment`, `job`, `index` and
    /// `ip`.
    pub tags: &'r [(String, String)],
    /// The source id of an envelope without one is its origin for an agent, and its deployment and
    /// job for a router.
    pub is_agent: bool,
}

/// The outline of an envelope of version 2 in version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropsondeOutline {
    /// Its type.
    pub event_type: DropsondeType,
    /// Number of envelopes.
    pub envelopes: usize,
}

/// Converts envelopes; one per thread.
#[derive(Debug, Clone, Default)]
pub struct DropsondeConverter {
    tags: LoggregatorTags,
    text: Vec<u8>,
    message: Vec<u8>,
    preferred: Vec<u8>,
    out: Vec<u8>,
}

impl DropsondeConverter {
    /// Returns an envelope of version 1 as one of version 2.
    pub fn to_v2(
        &mut self,
        bytes: &[u8],
        receiver: &DropsondeReceiver<'_>,
    ) -> Result<&[u8], LoggregatorError> {
        let envelope = DropsondeEnvelope::parse(bytes)?;
        let Self { text, message, out, .. } = self;
        out.clear();
        put_number_field(1, envelope.timestamp_ns as u64, out);
        text.clear();
        write_source(&envelope, receiver, text);
        put_text_field(2, text, out);
        text.clear();
        write_instance(&envelope, text);
        put_text_field(8, text, out);
        put_message(&envelope.message, message, out);
        let default = |name: &str| {
            let tag = receiver.tags.iter().find(|(tag, _)| tag == name);
            tag.map_or(EMPTY, |(_, value)| value.as_bytes())
        };
        put_tag("origin", envelope.origin, out);
        put_tag("deployment", envelope.deployment.unwrap_or(default("deployment")), out);
        put_tag("job", envelope.job.unwrap_or(default("job")), out);
        put_tag("index", envelope.index.unwrap_or(default("index")), out);
        put_tag("ip", envelope.ip.unwrap_or(default("ip")), out);
        let event_type = envelope.message.event_type();
        put_tag("__v1_type", event_type.name().as_bytes(), out);
        put_message_tags(&envelope.message, text, out);
        for (name, value) in envelope.tags() {
            if !is_field_of_v1(name) && !is_replaced(name, event_type) {
                put_entry(9, &valid(name), &valid(value), out);
            }
        }
        Ok(out)
    }

    /// Returns the outline of an envelope of version 2; `None` if it cannot be converted.
    pub fn outline(&mut self, bytes: &[u8]) -> Result<Option<DropsondeOutline>, LoggregatorError> {
        let envelope = LoggregatorEnvelope::parse(bytes, &mut self.tags)?;
        let one = |event_type| Some(DropsondeOutline { event_type, envelopes: 1 });
        Ok(match envelope.message {
            LoggregatorMessage::Log { .. } => one(log_type(self.tags.iter(bytes))),
            LoggregatorMessage::Counter { .. } => one(DropsondeType::CounterEvent),
            LoggregatorMessage::Timer { .. } => one(DropsondeType::HttpStartStop),
            LoggregatorMessage::Gauge(gauge) => {
                let metrics = metrics_of(gauge);
                if container_of(&envelope, &metrics).is_some() {
                    one(DropsondeType::ContainerMetric)
                } else {
                    let (event_type, envelopes) = (DropsondeType::ValueMetric, metrics.len());
                    Some(DropsondeOutline { event_type, envelopes }).filter(|_| envelopes > 0)
                }
            }
            LoggregatorMessage::Event { .. } | LoggregatorMessage::None => None,
        })
    }

    /// Calls `each` with the envelopes of version 1 into which an envelope of version 2 is
    /// converted: none, one, or one for each measurement. Once these have `bytes_max` bytes,
    /// further ones are only counted; returns their number.
    pub fn to_v1(
        &mut self,
        bytes: &[u8],
        bytes_max: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<usize, LoggregatorError> {
        let Self { tags, message, preferred, out, .. } = self;
        let bytes = if has_loggregator_tags(bytes, false) {
            preferred.clear();
            convert_loggregator_tags(bytes, true, preferred)?;
            preferred
        } else {
            bytes
        };
        let envelope = LoggregatorEnvelope::parse(bytes, tags)?;
        let known = KnownTags::of(tags.iter(bytes));
        let mut write = |one: DropsondeMessage<'_>| {
            out.clear();
            let base = known.envelope(&envelope, one);
            base.encode_with(kept_tags(&envelope, tags, &one), message, out);
            each(out);
            out.len()
        };
        match envelope.message {
            LoggregatorMessage::Log { payload, is_error } => {
                write(known.log(&envelope, payload, is_error));
            }
            LoggregatorMessage::Counter { name, delta, total } => {
                write(DropsondeMessage::CounterEvent { name, delta, total });
            }
            LoggregatorMessage::Timer { start_ns, stop_ns, .. } => {
                write(DropsondeMessage::HttpStartStop(known.http(&envelope, start_ns, stop_ns)));
            }
            LoggregatorMessage::Gauge(gauge) => {
                let metrics = metrics_of(gauge);
                if let Some(container) = container_of(&envelope, &metrics) {
                    write(DropsondeMessage::ContainerMetric(container));
                    return Ok(0);
                }
                let (mut written, mut left) = (0, metrics.len());
                for LoggregatorMetric { name, unit, value } in metrics.into_values() {
                    if written >= bytes_max {
                        return Ok(left);
                    }
                    written += write(DropsondeMessage::ValueMetric { name, value, unit });
                    left -= 1;
                }
            }
            LoggregatorMessage::Event { .. } | LoggregatorMessage::None => {}
        }
        Ok(0)
    }
}

/// Returns a text with invalid UTF-8 replaced.
fn valid(bytes: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Appends a text, unless it is empty.
fn put_text_field(field: u64, text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() {
        put_bytes_field(field, &valid(text), out);
    }
}

fn put_tag(name: &str, value: &[u8], out: &mut Vec<u8>) {
    put_entry(9, name.as_bytes(), &valid(value), out);
}

/// Appends the source id of an envelope: its application, or else its tag, or else the default of
/// its receiver.
fn write_source(
    envelope: &DropsondeEnvelope<'_>,
    receiver: &DropsondeReceiver<'_>,
    out: &mut Vec<u8>,
) {
    match envelope.message {
        DropsondeMessage::LogMessage { app_id, .. } => out.extend_from_slice(app_id),
        DropsondeMessage::ContainerMetric(metric) => out.extend_from_slice(metric.application_id),
        DropsondeMessage::HttpStartStop(http) => {
            let stated = http.application_id.filter(|id| *id != DropsondeUuid::default());
            if let Some(id) = stated {
                id.write(out);
            }
        }
        DropsondeMessage::ValueMetric { .. }
        | DropsondeMessage::CounterEvent { .. }
        | DropsondeMessage::Error { .. } => {}
    }
    if !out.is_empty() {
        return;
    }
    match tag(envelope, b"source_id") {
        Some(source_id) if !source_id.is_empty() || !receiver.is_agent => {
            out.extend_from_slice(source_id);
        }
        _ if receiver.is_agent => out.extend_from_slice(envelope.origin),
        _ => {
            out.extend_from_slice(envelope.deployment.unwrap_or(EMPTY));
            out.push(b'/');
            out.extend_from_slice(envelope.job.unwrap_or(EMPTY));
        }
    }
}

/// Appends the instance id of an envelope.
fn write_instance(envelope: &DropsondeEnvelope<'_>, out: &mut Vec<u8>) {
    match envelope.message {
        DropsondeMessage::LogMessage { source_instance, .. } => {
            out.extend_from_slice(source_instance);
        }
        DropsondeMessage::HttpStartStop(http) => write_number(http.instance_index.into(), out),
        DropsondeMessage::ContainerMetric(metric) => {
            write_number(metric.instance_index.into(), out);
        }
        DropsondeMessage::ValueMetric { .. } | DropsondeMessage::CounterEvent { .. } => {
            out.extend_from_slice(tag(envelope, b"instance_id").unwrap_or(EMPTY));
        }
        DropsondeMessage::Error { .. } => {}
    }
}

fn write_number(number: i64, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _written = write!(out, "{number}");
}

/// Returns the value of a tag.
fn tag<'e>(envelope: &DropsondeEnvelope<'e>, name: &[u8]) -> Option<&'e [u8]> {
    envelope.tags().filter(|(tag, _)| *tag == name).last().map(|(_, value)| value)
}

/// Appends the message of version 2.
fn put_message(message: &DropsondeMessage<'_>, space: &mut Vec<u8>, out: &mut Vec<u8>) {
    space.clear();
    let field = match *message {
        DropsondeMessage::LogMessage { message, is_error, .. } => {
            put_bytes_field(1, message, space);
            put_number_field(2, u64::from(is_error), space);
            4
        }
        DropsondeMessage::Error { message, .. } => {
            put_bytes_field(1, message, space);
            4
        }
        DropsondeMessage::CounterEvent { name, delta, total } => {
            put_bytes_field(1, &valid(name), space);
            put_number_field(2, delta, space);
            put_number_field(3, total, space);
            5
        }
        DropsondeMessage::ValueMetric { name, value, unit } => {
            put_metric(&valid(name), &valid(unit), value, space);
            6
        }
        DropsondeMessage::ContainerMetric(metric) => {
            put_metric(b"cpu", b"percentage", metric.cpu_percentage, space);
            for (name, bytes) in [
                ("memory", metric.memory_bytes),
                ("disk", metric.disk_bytes),
                ("memory_quota", metric.memory_bytes_quota),
                ("disk_quota", metric.disk_bytes_quota),
            ] {
                put_metric(name.as_bytes(), b"bytes", bytes as f64, space);
            }
            6
        }
        DropsondeMessage::HttpStartStop(http) => {
            put_bytes_field(1, b"http", space);
            put_number_field(2, http.start_ns as u64, space);
            put_number_field(3, http.stop_ns as u64, space);
            7
        }
    };
    put_bytes_field(field, space, out);
}

/// Appends as tags the parts of a message that have no field in version 2.
fn put_message_tags(message: &DropsondeMessage<'_>, space: &mut Vec<u8>, out: &mut Vec<u8>) {
    let mut number = |name: &str, number: i64, out: &mut Vec<u8>| {
        space.clear();
        write_number(number, space);
        put_tag(name, space, out);
    };
    match *message {
        DropsondeMessage::LogMessage { source_type, .. } => {
            put_tag("source_type", source_type, out);
        }
        DropsondeMessage::Error { source, code, .. } => {
            put_tag("source", source, out);
            number("code", code.into(), out);
        }
        DropsondeMessage::HttpStartStop(http) => {
            match peer_name(http.peer_type) {
                Some(name) => put_tag("peer_type", name.as_bytes(), out),
                None => number("peer_type", http.peer_type as i64, out),
            }
            match method_name(http.method) {
                Some(name) => put_tag("method", name.as_bytes(), out),
                None => number("method", http.method as i64, out),
            }
            number("status_code", http.status_code.into(), out);
            number("content_length", http.content_length, out);
            space.clear();
            http.request_id.write(space);
            put_tag("request_id", space, out);
            put_tag("uri", http.uri, out);
            put_tag("remote_address", http.remote_address, out);
            put_tag("user_agent", http.user_agent, out);
            put_tag("routing_instance_id", http.instance_id, out);
            space.clear();
            let mut count = 0;
            http.forwarded.for_all(|address| {
                if count > 0 {
                    space.push(b'\n');
                }
                count += 1;
                space.extend_from_slice(address);
            });
            put_tag("forwarded", space, out);
        }
        DropsondeMessage::ValueMetric { .. }
        | DropsondeMessage::CounterEvent { .. }
        | DropsondeMessage::ContainerMetric(_) => {}
    }
}

/// Returns whether a tag of version 2 is a field of every envelope of version 1, or has no meaning
/// there.
fn is_field_of_v1(name: &[u8]) -> bool {
    name == TYPE_TAG || matches!(name, b"origin" | b"deployment" | b"job" | b"index" | b"ip")
}

/// Returns whether a tag is removed, or replaced by one for a field of envelopes of this type.
fn is_replaced(name: &[u8], event_type: DropsondeType) -> bool {
    name == b"source_id"
        || is_field_of(name, event_type)
        || event_type == DropsondeType::CounterEvent && name == b"instance_id"
}

/// Returns whether a tag of version 2 is a field of envelopes of this type in version 1.
fn is_field_of(name: &[u8], event_type: DropsondeType) -> bool {
    match event_type {
        DropsondeType::LogMessage => name == b"source_type",
        DropsondeType::Error => matches!(name, b"source" | b"code"),
        DropsondeType::HttpStartStop => matches!(
            name,
            b"peer_type"
                | b"method"
                | b"request_id"
                | b"uri"
                | b"remote_address"
                | b"user_agent"
                | b"status_code"
                | b"content_length"
                | b"routing_instance_id"
                | b"forwarded"
        ),
        DropsondeType::ValueMetric
        | DropsondeType::CounterEvent
        | DropsondeType::ContainerMetric => false,
    }
}

/// Returns the type of a log in version 1.
fn log_type<'t>(tags: impl Iterator<Item = (&'t [u8], LoggregatorTagValue<'t>)>) -> DropsondeType {
    let stated = tags.filter(|(name, _)| *name == TYPE_TAG).last();
    match stated {
        Some((_, LoggregatorTagValue::Text(b"Error"))) => DropsondeType::Error,
        _ => DropsondeType::LogMessage,
    }
}

/// Returns the measurements of a gauge; the last one of each name is used.
fn metrics_of(gauge: LoggregatorGauge<'_>) -> BTreeMap<&[u8], LoggregatorMetric<'_>> {
    gauge.metrics().map(|metric| (metric.name, metric)).collect()
}

/// Returns the metrics of a container, if a gauge has all of them.
fn container_of<'e>(
    envelope: &LoggregatorEnvelope<'e>,
    metrics: &BTreeMap<&[u8], LoggregatorMetric<'_>>,
) -> Option<DropsondeContainer<'e>> {
    let value = |name: &str| {
        let metric = metrics.get(name.as_bytes())?;
        let is_there = !metric.unit.is_empty() || metric.value != 0.0;
        is_there.then_some(metric.value)
    };
    Some(DropsondeContainer {
        application_id: envelope.source_id,
        cpu_percentage: value("cpu")?,
        memory_bytes: value("memory")? as u64,
        disk_bytes: value("disk")? as u64,
        memory_bytes_quota: value("memory_quota")? as u64,
        disk_bytes_quota: value("disk_quota")? as u64,
        instance_index: metrics
            .get(&b"instance_index"[..])
            .map_or_else(|| number(envelope.instance_id), |metric| metric.value as i32),
    })
}

/// Parses a number; 0 if it is invalid, as in the original.
fn number<N: std::str::FromStr + Default>(text: &[u8]) -> N {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The tags that are fields in version 1.
#[derive(Default)]
struct KnownTags<'t> {
    origin: &'t [u8],
    deployment: &'t [u8],
    job: &'t [u8],
    index: &'t [u8],
    ip: &'t [u8],
    v1_type: &'t [u8],
    source_type: &'t [u8],
    source: &'t [u8],
    code: &'t [u8],
    peer_type: &'t [u8],
    method: &'t [u8],
    request_id: &'t [u8],
    uri: &'t [u8],
    remote_address: &'t [u8],
    user_agent: &'t [u8],
    status_code: &'t [u8],
    content_length: &'t [u8],
    routing_instance_id: &'t [u8],
    forwarded: &'t [u8],
}

impl<'t> KnownTags<'t> {
    fn of(tags: impl Iterator<Item = (&'t [u8], LoggregatorTagValue<'t>)>) -> Self {
        let mut known = Self::default();
        for (name, value) in tags {
            let place = match name {
                b"origin" => &mut known.origin,
                b"deployment" => &mut known.deployment,
                b"job" => &mut known.job,
                b"index" => &mut known.index,
                b"ip" => &mut known.ip,
                b"__v1_type" => &mut known.v1_type,
                b"source_type" => &mut known.source_type,
                b"source" => &mut known.source,
                b"code" => &mut known.code,
                b"peer_type" => &mut known.peer_type,
                b"method" => &mut known.method,
                b"request_id" => &mut known.request_id,
                b"uri" => &mut known.uri,
                b"remote_address" => &mut known.remote_address,
                b"user_agent" => &mut known.user_agent,
                b"status_code" => &mut known.status_code,
                b"content_length" => &mut known.content_length,
                b"routing_instance_id" => &mut known.routing_instance_id,
                b"forwarded" => &mut known.forwarded,
                _ => continue,
            };
            *place = text_of(value);
        }
        known
    }

    fn envelope(
        &self,
        envelope: &LoggregatorEnvelope<'_>,
        message: DropsondeMessage<'t>,
    ) -> DropsondeEnvelope<'t> {
        DropsondeEnvelope {
            bytes: EMPTY,
            origin: self.origin,
            timestamp_ns: envelope.timestamp_ns,
            deployment: Some(self.deployment),
            job: Some(self.job),
            index: Some(self.index),
            ip: Some(self.ip),
            message,
        }
    }

    fn log(
        &self,
        envelope: &LoggregatorEnvelope<'t>,
        payload: &'t [u8],
        is_error: bool,
    ) -> DropsondeMessage<'t> {
        if self.v1_type == b"Error" {
            let code = number::<i64>(self.code) as i32;
            return DropsondeMessage::Error { source: self.source, code, message: payload };
        }
        DropsondeMessage::LogMessage {
            message: payload,
            is_error,
            timestamp_ns: envelope.timestamp_ns,
            app_id: envelope.source_id,
            source_type: self.source_type,
            source_instance: envelope.instance_id,
        }
    }

    /// Returns the message of a request. One without an identifier gets an empty one: the field is
    /// required, and the original loses such envelopes.
    fn http(
        &self,
        envelope: &LoggregatorEnvelope<'_>,
        start_ns: i64,
        stop_ns: i64,
    ) -> DropsondeHttp<'t> {
        DropsondeHttp {
            start_ns,
            stop_ns,
            request_id: DropsondeUuid::parse(self.request_id).unwrap_or_default(),
            peer_type: peer_number(self.peer_type),
            method: method_number(self.method),
            uri: self.uri,
            remote_address: self.remote_address,
            user_agent: self.user_agent,
            status_code: number::<i64>(self.status_code) as i32,
            content_length: number(self.content_length),
            application_id: DropsondeUuid::parse(envelope.source_id),
            instance_index: number(envelope.instance_id),
            instance_id: self.routing_instance_id,
            forwarded: DropsondeForwarded::Lines(self.forwarded),
        }
    }
}

/// Returns the text of a tag in the preferred form, where every value is text.
fn text_of(value: LoggregatorTagValue<'_>) -> &[u8] {
    match value {
        LoggregatorTagValue::Text(text) => text,
        LoggregatorTagValue::Integer(_) | LoggregatorTagValue::Decimal(_) => EMPTY,
    }
}

/// Returns the tags of an envelope in version 1.
fn kept_tags<'t>(
    envelope: &LoggregatorEnvelope<'t>,
    tags: &'t LoggregatorTags,
    message: &DropsondeMessage<'_>,
) -> impl Iterator<Item = (&'t [u8], &'t [u8])> {
    let event_type = message.event_type();
    let instance_id = match event_type {
        DropsondeType::ValueMetric | DropsondeType::CounterEvent => envelope.instance_id,
        DropsondeType::LogMessage
        | DropsondeType::Error
        | DropsondeType::HttpStartStop
        | DropsondeType::ContainerMetric => EMPTY,
    };
    let added = [(&b"source_id"[..], envelope.source_id), (&b"instance_id"[..], instance_id)];
    let added = added.into_iter().filter(|(_, value)| !value.is_empty());
    let kept = tags.iter(envelope.bytes).filter(move |(name, _)| {
        let is_added = added.clone().any(|(added, _)| added == *name);
        !is_added && !is_field_of_v1(name) && !is_field_of(name, event_type)
    });
    let added = [(&b"source_id"[..], envelope.source_id), (&b"instance_id"[..], instance_id)];
    kept.map(|(name, value)| (name, text_of(value)))
        .chain(added.into_iter().filter(|(_, value)| !value.is_empty()))
}
