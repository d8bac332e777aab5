//! Where records store reserved keys and tags: the naming convention shared by rules, live tail and
//! the store, so that a query finds what a rule has matched.

use crate::ast::Reserved;
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
            Self::Service => &["service.name"],
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
}

/// Names that agents and dashboards use for attributes of the resource.
const TAG_ALIASES: [(&str, &str); 10] = [
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
