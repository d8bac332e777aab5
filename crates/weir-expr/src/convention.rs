//! Where records store reserved keys and tags: the naming convention shared by rules, live tail and
//! the store, so that a query finds what a rule has matched.

use weir_model::{HeaderField, PEER};

use crate::ast::{Field, Reserved};
use crate::fields::Value;
use crate::status::Status;

/// Attributes of a JSON body that hold its message; the first one that is a text is used. Stored
/// records refer to them by index, so the order must never change.
pub const MESSAGE_PATHS: [&str; 3] = ["message", "msg", "log"];

impl Reserved {
    /// Returns where a resource stores the key; the first path that exists is used, and takes
    /// precedence over the record itself.
    pub fn resource_paths(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["host.name"],
            // The application that a syslog message names is the service of its resource.
            Self::Service | Self::AppName => &["service.name"],
            Self::SourceId => &["source_id"],
            Self::InstanceId => &["service.instance.id", "instance_id"],
            _ => &[],
        }
    }

    /// Returns where a record stores the key; the first path that exists is used.
    pub fn record_paths(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["host.name", "hostname", "host", "syslog.hostname"],
            Self::Service => &["service.name", "service", "syslog.appname"],
            Self::Status => &["status", "level", "severity", "lvl", "syslog.severity"],
            Self::TraceId => &["trace_id", "traceId", "trace.id", "dd.trace_id"],
            Self::SpanId => &["span_id", "spanId", "span.id", "dd.span_id"],
            Self::SourceId => &["source_id"],
            Self::InstanceId => &["instance_id"],
            Self::Facility => &["syslog.facility"],
            Self::AppName => &["syslog.appname"],
            Self::ProcId => &["syslog.procid"],
            Self::MsgId => &["syslog.msgid"],
            Self::Source | Self::IoStream => &[],
        }
    }

    /// Returns the column of a syslog header that holds the key, if there is one; the rest of a
    /// header is the severity, and in the resource.
    pub fn of_header(self) -> Option<HeaderField> {
        match self {
            Self::Facility => Some(HeaderField::Facility),
            Self::ProcId => Some(HeaderField::ProcessId),
            Self::MsgId => Some(HeaderField::MessageId),
            Self::Host
            | Self::Service
            | Self::Source
            | Self::Status
            | Self::TraceId
            | Self::SpanId
            | Self::SourceId
            | Self::InstanceId
            | Self::AppName
            | Self::IoStream => None,
        }
    }
}

impl Field {
    /// Returns the field of a syslog header that this refers to, if any. Received messages have it
    /// in a column or in their resource, parsed lines in an attribute; one outside of the body
    /// takes precedence.
    pub fn of_header(&self) -> Option<HeaderField> {
        match self {
            Self::Attribute(path) => HeaderField::of_attribute(path),
            Self::Reserved(key) => key.of_header(),
            Self::Message | Self::Tag(_) | Self::Tags | Self::Any => None,
        }
    }
}

/// Names that agents and dashboards use for attributes of the resource.
const TAG_ALIASES: [(&str, &str); 11] = [
    ("peer", PEER),
    ("container_id", "container.id"),
    ("container_name", "container.name"),
    ("image_name", "container.image.name"),
    ("image_tag", "container.image.tags"),
    ("kube_namespace", "k8s.namespace.name"),
    ("kube_container_name", "k8s.container.name"),
    ("pod_name", "k8s.pod.name"),
    ("pod_uid", "k8s.pod.uid"),
    ("filename", "log.file.path"),
    ("compose_project", "service.namespace"),
];

/// Returns where the resource stores a tag.
pub fn tag_path(tag: &str) -> &str {
    TAG_ALIASES.iter().find(|(known, _)| *known == tag).map_or(tag, |(_, path)| path)
}

impl Status {
    /// Returns the status for a value: a word, or a syslog severity.
    pub fn of_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Self::parse(text),
            Value::Int(number) => Self::from_syslog(number),
            _ => None,
        }
    }
}
