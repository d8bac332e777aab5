//! Where records store reserved keys and tags: the naming convention shared by rules, live tail and
//! the store, so that a query finds what a rule has matched.

use weir_model::{HeaderField, PEER};

use crate::ast::{Field, Reserved};
use crate::fields::Value;
use crate::status::Status;
use crate::unit::Unit;

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

/// Names that well-known programs use for times, and the units of their values: nginx's
/// variables (documentation of `ngx_http_core_module`, `ngx_http_upstream_module` and the stream
/// modules: seconds), the timers of `HAProxy` ("Timing events" in its configuration manual:
/// milliseconds) and their names in the usual grok pattern, Envoy's command operators and header
/// (documentation of its access log: milliseconds), delays and times of Unicorn (seconds), and the
/// `X-Runtime` of Rack. The timestamp in a header such as `X-Request-Start` has its own unit
/// ([`crate::Number::parse_moment`]) and is converted to nanoseconds, which is exact.
const KNOWN_NAMES: [(&str, Unit); 44] = [
    ("msec", Unit::Second),
    ("request_time", Unit::Second),
    ("session_time", Unit::Second),
    ("upstream_response_time", Unit::Second),
    ("upstream_connect_time", Unit::Second),
    ("upstream_header_time", Unit::Second),
    ("upstream_queue_time", Unit::Second),
    ("upstream_first_byte_time", Unit::Second),
    ("upstream_session_time", Unit::Second),
    ("Ta", Unit::Millisecond),
    ("Tc", Unit::Millisecond),
    ("Td", Unit::Millisecond),
    ("Th", Unit::Millisecond),
    ("Ti", Unit::Millisecond),
    ("Tq", Unit::Millisecond),
    ("TR", Unit::Millisecond),
    ("Tr", Unit::Millisecond),
    ("Tt", Unit::Millisecond),
    ("Tu", Unit::Millisecond),
    ("Tw", Unit::Millisecond),
    ("time_request", Unit::Millisecond),
    ("time_queue", Unit::Millisecond),
    ("time_backend_connect", Unit::Millisecond),
    ("time_backend_response", Unit::Millisecond),
    ("time_duration", Unit::Millisecond),
    ("DURATION", Unit::Millisecond),
    ("REQUEST_DURATION", Unit::Millisecond),
    ("REQUEST_TX_DURATION", Unit::Millisecond),
    ("RESPONSE_DURATION", Unit::Millisecond),
    ("RESPONSE_TX_DURATION", Unit::Millisecond),
    ("upstream_service_time", Unit::Millisecond),
    ("x_envoy_upstream_service_time", Unit::Millisecond),
    ("x-envoy-upstream-service-time", Unit::Millisecond),
    ("X-ENVOY-UPSTREAM-SERVICE-TIME", Unit::Millisecond),
    ("unicorn.queueing_delay", Unit::Second),
    ("unicorn.service_time", Unit::Second),
    ("unicorn.total_time", Unit::Second),
    ("x_runtime", Unit::Second),
    ("http_x_request_start", Unit::Nanosecond),
    ("http_x_queue_start", Unit::Nanosecond),
    ("x_request_start", Unit::Nanosecond),
    ("x_queue_start", Unit::Nanosecond),
    ("x-request-start", Unit::Nanosecond),
    ("X-Request-Start", Unit::Nanosecond),
];

/// Returns the unit of an attribute of a well-known program, by its path, regardless of the object
/// that contains it.
pub(crate) fn unit_of_known_name(path: &str) -> Option<Unit> {
    let is_it = |name: &str| {
        path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    KNOWN_NAMES.iter().find(|(name, _)| is_it(name)).map(|(_, unit)| *unit)
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
