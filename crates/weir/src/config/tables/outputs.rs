//! Keys of the outputs that send over a network.

use std::time::Duration;

use super::{
    Component, DAY, DELIVERY, ENCODING, Field,
    FieldDefault::{None, Required, Value},
    MS, TLS, ValueType, field, time,
};
use crate::config::choices::{
    Choice as _, HecCompression, HttpCompression, SyslogOutputDelimiter, SyslogOutputProtocol,
};
use weir_codec::RELP_UNANSWERED_MAX;
use weir_model::limits::LINE_BYTES_MAX;
use weir_pipeline::config::{Framing, HecMode, HttpMethod, SocketProtocol, SyslogFormat};

const COMPRESSION: Field = field(
    "compression",
    ValueType::Choice(HecCompression::WORDS),
    Value("\"gzip\""),
    "Compression of requests.",
);

const BATCH_SIZE: Field = field(
    "batch_size",
    ValueType::Size { min: 1 << 10, max: 64 << 20 },
    Value("\"1MiB\""),
    "Target size of a request, before compression.",
);

const BATCH_AGE: Field = field(
    "batch_age",
    time(MS, Duration::from_mins(5)),
    Value("\"1s\""),
    "Maximum time that a record waits for a batch to fill.",
);

const CONNECTIONS_MAX: Field = field(
    "connections_max",
    ValueType::Count { min: 1, max: 64 },
    Value("4"),
    "Maximum number of concurrent requests. The order within a file or container is preserved.",
);

const REQUEST_TIMEOUT: Field = field(
    "request_timeout",
    time(Duration::from_millis(100), Duration::from_hours(1)),
    Value("\"30s\""),
    "Timeout of one request.",
);

const RETRY_MIN: Field = field(
    "retry_min",
    time(MS, Duration::from_hours(1)),
    Value("\"500ms\""),
    "Pause after the first failure; it doubles with each further one. Half of each pause is \
     random.",
);

const RETRY_MAX: Field = field(
    "retry_max",
    time(MS, DAY),
    Value("\"30s\""),
    "Maximum pause between attempts. Attempts continue indefinitely. A destination may ask for a \
     longer pause with `Retry-After`, which is respected up to 10 minutes.",
);

const WRITE_TIMEOUT: Field = field(
    "write_timeout",
    time(Duration::from_millis(100), Duration::from_hours(1)),
    Value("\"30s\""),
    "Time without progress in writing to the peer after which the connection is closed.",
);

pub(super) const SPLUNK_HEC: &[Field] = &[
    field(
        "endpoint",
        ValueType::Url,
        Required,
        "Scheme, host, port and an optional path prefix of `/services/collector`, which weir \
         appends.",
    ),
    field(
        "token",
        ValueType::Secret,
        Required,
        "The collector's token: `{ env = \"NAME\" }` or `{ file = \"/path\" }`. It cannot be \
         written in the configuration itself and is never printed.",
    ),
    field(
        "mode",
        ValueType::Choice(HecMode::WORDS),
        Value("\"event\""),
        "Which endpoint of the collector to use.",
    ),
    COMPRESSION,
    BATCH_SIZE,
    BATCH_AGE,
    CONNECTIONS_MAX,
    field(
        "indexer_ack",
        ValueType::Bool,
        Value("false"),
        "Count records as delivered only when the indexers have acknowledged them, rather than \
         when the collector has accepted them. Indexer acknowledgement must be enabled for the \
         token: without it records count as delivered when accepted, which health reports.",
    ),
    field(
        "ack_timeout",
        time(Duration::from_secs(1), DAY),
        Value("\"2m\""),
        "How long to wait for the indexers' acknowledgement before sending again.",
    ),
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field("index", ValueType::Text, None("the token's default"), "Index for all records."),
    field(
        "sourcetype",
        ValueType::Text,
        None("the token's default"),
        "Source type for all records.",
    ),
    field("source", ValueType::Text, None("the path of the log file"), "Source for all records."),
    field(
        "host",
        ValueType::Text,
        None("the record's `host.name`, otherwise this machine's name"),
        "Host for all records.",
    ),
    field(
        "tls",
        ValueType::Table(TLS),
        None("the system's CA certificates"),
        "TLS settings for `https`.",
    ),
];

pub(super) const HTTP: &[Field] = &[
    field("url", ValueType::Url, Required, "URL for requests: scheme, host, port, path and query."),
    field(
        "method",
        ValueType::Choice(HttpMethod::WORDS),
        Value("\"post\""),
        "HTTP method of the requests.",
    ),
    field(
        "format",
        ValueType::Choice(Framing::WORDS),
        Value("\"ndjson\""),
        "How records are combined into a request. Each is an object that follows OpenTelemetry's \
         log data model, as with `encoding = \"json\"` of a file.",
    ),
    field(
        "headers",
        ValueType::Values,
        None("none"),
        "Additional headers, `{ \"X-Tenant\" = \"a\" }`; they override weir's own.",
    ),
    field(
        "bearer",
        ValueType::Secret,
        None("no token"),
        "Token for `Authorization: Bearer`: `{ env = \"NAME\" }` or `{ file = \"/path\" }`.",
    ),
    field(
        "user",
        ValueType::Text,
        None("no user"),
        "User for `Authorization: Basic`. Needs `password`.",
    ),
    field("password", ValueType::Secret, None("no user"), "Password of `user`."),
    field(
        "compression",
        ValueType::Choice(HttpCompression::WORDS),
        Value("\"gzip\""),
        "Compression of requests.",
    ),
    BATCH_SIZE,
    BATCH_AGE,
    CONNECTIONS_MAX,
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        None("the system's CA certificates"),
        "TLS settings for `https`.",
    ),
];

pub(super) const SOCKET: &[Field] = &[
    field("address", ValueType::Text, Required, "Host and port: `\"logs.example:514\"`."),
    field(
        "protocol",
        ValueType::Choice(SocketProtocol::WORDS),
        Value("\"tcp\""),
        "Transport protocol.",
    ),
    ENCODING,
    field(
        "datagram_max",
        ValueType::Size { min: 256, max: 65_507 },
        Value("\"8KiB\""),
        "Maximum size of a datagram. The body of a longer record is cut, and the record is counted \
         with the error `cut`. Only for `udp`.",
    ),
    WRITE_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        None("the system's CA certificates"),
        "TLS settings for `tls`.",
    ),
];

pub(super) const LOGGREGATOR_OUTPUT: Component = Component {
    doc: "Loggregator v2 envelopes over gRPC: to Loggregator's routers and agents, or to a source of \
          type `loggregator` of another weir. Records of other sources are sent as logs. A record \
          counts as delivered once the receiver has read it; records that the receiver then loses in \
          a crash are not detected.",
    fields: &[LOGGREGATOR, DELIVERY],
};

const LOGGREGATOR: &[Field] = &[
    field(
        "addresses",
        ValueType::Names,
        Required,
        "Hosts and ports of the receivers: `[\"doppler.service.cf.internal:8082\"]`. Connections are \
         distributed over them, and reopened after five minutes, with a new DNS lookup.",
    ),
    field(
        "batch_size",
        ValueType::Size { min: 1 << 10, max: 64 << 20 },
        Value("\"1MiB\""),
        "Target size of a call. Its messages have at most a hundred envelopes each.",
    ),
    field(
        "batch_age",
        time(MS, Duration::from_mins(5)),
        Value("\"100ms\""),
        "Maximum time that a record waits for a batch to fill.",
    ),
    CONNECTIONS_MAX,
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        None("no TLS"),
        "TLS settings. Loggregator's receivers require `cert_file` and `key_file`; use `server_name = \
         \"doppler\"` for routers and `server_name = \"metron\"` for agents.",
    ),
];

pub(super) const DATADOG_METRICS_OUTPUT: Component = Component {
    doc: "Metrics to Datadog (`POST /api/v2/series`): counters, as totals, and gauges. Other records \
          are not routed to it. Names and tags are those of Loggregator's Datadog nozzle. \
          See [metrics in Datadog](../guide/loggregator.md#metrics-in-datadog).",
    fields: &[DATADOG_METRICS, DELIVERY],
};

const DATADOG_METRICS: &[Field] = &[
    field(
        "url",
        ValueType::Url,
        Value("\"https://api.datadoghq.com\""),
        "URL of the API, which depends on the site: `https://api.datadoghq.eu` and others. Weir appends \
         `/api/v2/series`.",
    ),
    field(
        "api_key",
        ValueType::Secret,
        Required,
        "API key: `{ env = \"NAME\" }` or `{ file = \"/path\" }`.",
    ),
    field(
        "prefix",
        ValueType::Text,
        Value("\"datadog.nozzle.\""),
        "Prefix of every name; it is followed by the origin, a dot, and the name of the metric.",
    ),
    field(
        "tags",
        ValueType::Names,
        Value("[]"),
        "Tags of every point, in addition to those of its envelope: `[\"environment:production\"]`.",
    ),
    field(
        "compression",
        ValueType::Choice(HttpCompression::WORDS),
        Value("\"gzip\""),
        "Compression of requests.",
    ),
    field(
        "batch_size",
        ValueType::Size { min: 1 << 10, max: 5_000_000 },
        Value("\"2MiB\""),
        "Target size of a request, before compression. Datadog accepts 5 MiB before and 500 kB after \
         compression: without compression, choose a smaller size.",
    ),
    field(
        "batch_age",
        time(MS, Duration::from_mins(5)),
        Value("\"10s\""),
        "Maximum time that a record waits for a batch to fill.",
    ),
    CONNECTIONS_MAX,
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        None("the system's CA certificates"),
        "TLS settings for `https`.",
    ),
];

pub(super) const SYSLOG_OUTPUT: &[Field] = &[
    field("address", ValueType::Text, Required, "Host and port: `\"logs.example:514\"`."),
    field(
        "protocol",
        ValueType::Choice(SyslogOutputProtocol::WORDS),
        Value("\"tcp\""),
        "Transport protocol.",
    ),
    field(
        "format",
        ValueType::Choice(SyslogFormat::WORDS),
        Value("\"rfc5424\""),
        "Format of the messages. A record that arrived as a message of this format, and that no \
         rule has changed, is sent byte for byte as it arrived.",
    ),
    field(
        "framing",
        ValueType::Choice(SyslogOutputDelimiter::WORDS),
        None("`newline` for `tcp`, which every receiver accepts; `octet_counted` for `tls`"),
        "How messages are delimited in a connection of `tcp` or `tls`.",
    ),
    field(
        "message_max",
        ValueType::Size { min: 480, max: LINE_BYTES_MAX as u64 },
        None("`64KiB`, and `8KiB` for `udp`"),
        "Maximum size of a message. A longer one is cut, and counted with the error `cut`. At most \
         65507 bytes for `udp`.",
    ),
    field(
        "timezone",
        ValueType::Text,
        Value("\"UTC\""),
        "Time zone of timestamps with `rfc3164`, which do not include it: a name such as \
         `Europe/Berlin`, or an offset such as `+02:00`.",
    ),
    field(
        "unanswered_max",
        ValueType::Count { min: 1, max: RELP_UNANSWERED_MAX as u64 },
        Value("128"),
        "Maximum number of messages that wait for their acknowledgement. Only for `relp`.",
    ),
    field(
        "ack_timeout",
        time(Duration::from_millis(100), DAY),
        Value("\"90s\""),
        "How long to wait for the acknowledgement of a message before the connection is closed and \
         all unacknowledged messages are sent again. Only for `relp`.",
    ),
    WRITE_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        None("the system's CA certificates; with `relp`, no TLS"),
        "TLS settings for `tls` and `relp`. With `relp`, `tls = {}` is sufficient to use TLS.",
    ),
];
