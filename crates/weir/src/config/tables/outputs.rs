//! Keys of the outputs that send over a network.

use std::time::Duration;

use super::{
    DAY,
    Default::{None, Required, Value},
    ENCODING, Field, Kind, MS, TLS, field, time,
};
use crate::config::choices::{Choice as _, HecCompression, HttpCompression};
use weir_pipeline::config::{Framing, HecMode, HttpMethod, SocketProtocol};

const COMPRESSION: Field = field(
    "compression",
    Kind::Choice(HecCompression::WORDS),
    Value("\"gzip\""),
    "Compression of requests.",
);

const BATCH_SIZE: Field = field(
    "batch_size",
    Kind::Size { min: 1 << 10, max: 64 << 20 },
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
    Kind::Count { min: 1, max: 64 },
    Value("4"),
    "Maximum number of concurrent requests. The order within a file or container is kept.",
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
    "Maximum pause between attempts. Attempts continue indefinitely.",
);

pub(super) const SPLUNK_HEC: &[Field] = &[
    field(
        "endpoint",
        Kind::Url,
        Required,
        "Scheme, host, port and an optional path prefix of `/services/collector`, which weir \
         appends.",
    ),
    field(
        "token",
        Kind::Secret,
        Required,
        "The collector's token: `{ env = \"NAME\" }` or `{ file = \"/path\" }`. It cannot be \
         written in the configuration itself and is never printed.",
    ),
    field(
        "mode",
        Kind::Choice(HecMode::WORDS),
        Value("\"event\""),
        "Which endpoint of the collector to use.",
    ),
    COMPRESSION,
    BATCH_SIZE,
    BATCH_AGE,
    CONNECTIONS_MAX,
    field(
        "indexer_ack",
        Kind::Bool,
        Value("false"),
        "Count records as delivered only when the indexers have acknowledged them, rather than \
         when the collector has accepted them. Indexer acknowledgement must be enabled for the \
         token.",
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
    field("index", Kind::Text, None("the token's default"), "Index for all records."),
    field("sourcetype", Kind::Text, None("the token's default"), "Source type for all records."),
    field("source", Kind::Text, None("the path of the log file"), "Source for all records."),
    field(
        "host",
        Kind::Text,
        None("the record's `host.name`, otherwise this machine's name"),
        "Host for all records.",
    ),
    field(
        "tls",
        Kind::Table(TLS),
        None("the system's CA certificates"),
        "TLS settings for `https`.",
    ),
];

pub(super) const HTTP: &[Field] = &[
    field("url", Kind::Url, Required, "URL for requests: scheme, host, port, path and query."),
    field(
        "method",
        Kind::Choice(HttpMethod::WORDS),
        Value("\"post\""),
        "HTTP method of the requests.",
    ),
    field(
        "format",
        Kind::Choice(Framing::WORDS),
        Value("\"ndjson\""),
        "How records are combined into a request. Each is an object that follows OpenTelemetry's \
         log data model, as with `encoding = \"json\"` of a file.",
    ),
    field(
        "headers",
        Kind::Values,
        None("none"),
        "Additional headers, `{ \"X-Tenant\" = \"a\" }`; they override weir's own.",
    ),
    field(
        "bearer",
        Kind::Secret,
        None("no token"),
        "Token for `Authorization: Bearer`: `{ env = \"NAME\" }` or `{ file = \"/path\" }`.",
    ),
    field(
        "user",
        Kind::Text,
        None("no user"),
        "User for `Authorization: Basic`. Needs `password`.",
    ),
    field("password", Kind::Secret, None("no user"), "Password of `user`."),
    field(
        "compression",
        Kind::Choice(HttpCompression::WORDS),
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
        Kind::Table(TLS),
        None("the system's CA certificates"),
        "TLS settings for `https`.",
    ),
];

pub(super) const SOCKET: &[Field] = &[
    field("address", Kind::Text, Required, "Host and port: `\"logs.example:514\"`."),
    field("protocol", Kind::Choice(SocketProtocol::WORDS), Value("\"tcp\""), "Transport protocol."),
    ENCODING,
    field(
        "datagram_max",
        Kind::Size { min: 256, max: 65_507 },
        Value("\"8KiB\""),
        "Maximum size of a datagram. The body of a longer record is cut, and the record is counted \
         with the error `cut`. Only for `udp`.",
    ),
    field(
        "write_timeout",
        time(Duration::from_millis(100), Duration::from_hours(1)),
        Value("\"30s\""),
        "How long the peer may accept no data before the connection is closed.",
    ),
    RETRY_MIN,
    RETRY_MAX,
    field("tls", Kind::Table(TLS), None("the system's CA certificates"), "TLS settings for `tls`."),
];
