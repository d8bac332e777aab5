//! Keys of the sources that listen.

use std::time::Duration;

use weir_model::limits::LINE_BYTES_MAX;
use weir_pipeline::config::SyslogFramingKind;
use weir_pipeline::source::LISTENER_THREADS_MAX;

use super::super::choices::{Choice as _, SyslogProtocol, WhenOverQuota};
use super::{Component, Field, FieldDefault, ValueType, field, time};
use FieldDefault::{None, Required, Value};

pub(super) const SYSLOG_SOURCE: Component = Component {
    doc: "Syslog (RFC 5424 and RFC 3164) over UDP, TCP, TLS, RELP or a Unix socket. Only RELP \
          acknowledges messages; of the others, a crash loses at most what arrived within the last \
          20 ms, and counts it.",
    fields: &[SYSLOG, THREADS, LISTEN],
};

pub(super) const DROPSONDE_SOURCE: Component = Component {
    doc: "Envelopes of Loggregator v1 (dropsonde) over UDP, from programs on this machine.",
    fields: &[DROPSONDE, &[ALLOW, RATE_LIMIT]],
};

pub(super) const STATSD_SOURCE: Component = Component {
    doc: "Metrics of statsd over UDP, with the tags of Datadog's clients: counters, gauges, times, \
          histograms and distributions. Each becomes an envelope of Loggregator.",
    fields: &[STATSD, &[ALLOW, RATE_LIMIT]],
};

pub(super) const LOGGREGATOR_METRICS_SOURCE: Component = Component {
    doc: "What weir has counted, as envelopes with the metrics of the programs of Loggregator that it \
          replaces, by their names. See [metrics](../guide/loggregator.md#metrics-by-the-names-of-the-originals).",
    fields: &[LOGGREGATOR_METRICS],
};

pub(super) const DRAIN_MESSAGES_SOURCE: Component = Component {
    doc: "What the owner of an application should know about its [drains](../guide/drains.md), as logs \
          of the application: that one cannot be used, does not accept records, or has lost some. \
          There is one named `drain_messages` if there are drains, unless another one is configured.",
    fields: &[&[TAGS]],
};

const LOGGREGATOR_METRICS: &[Field] = &[
    field(
        "interval",
        time(Duration::from_millis(10), Duration::from_hours(1)),
        Value("\"5s\""),
        "How often agents and routers state their metrics. Others do it after each twelfth interval, \
         as the originals do.",
    ),
    TAGS,
];

pub(super) const LOGGREGATOR_SOURCE: Component = Component {
    doc: "Envelopes of Loggregator v2 over gRPC, from agents and clients.",
    fields: &[LOGGREGATOR, LISTEN],
};

pub(super) const DATADOG_INTAKE_SOURCE: Component = Component {
    doc: "Logs that Datadog's agents and client libraries send over HTTP (`POST /api/v2/logs`, and \
          `/v1/input` for older ones). A request is accepted once all its records are on stable \
          storage.",
    fields: &[DATADOG_INTAKE, THREADS, LISTEN],
};

/// Keys of the sources that can receive with several threads.
const THREADS: &[Field] = &[field(
    "threads",
    ValueType::Count { min: 1, max: LISTENER_THREADS_MAX as u64 },
    Value("1"),
    "Number of threads that receive. The kernel distributes connections over them, and datagrams by \
     their sender. One thread receives hundreds of thousands of messages per second.",
)];

/// Keys of every source that accepts connections.
const LISTEN: &[Field] = &[
    field(
        "connections_max",
        ValueType::Count { min: 1, max: 65_536 },
        Value("1024"),
        "Maximum number of connections served at once; further connections wait to be accepted.",
    ),
    field(
        "connections_per_address_max",
        ValueType::Count { min: 1, max: 65_536 },
        None("no limit"),
        "Maximum number of connections from one IP address; further ones are closed at once.",
    ),
    ALLOW,
    field(
        "tls",
        ValueType::Table(SERVER_TLS),
        None("no TLS"),
        "Certificates. The files are reloaded when they change.",
    ),
    RATE_LIMIT,
];

const ALLOW: Field = field(
    "allow",
    ValueType::Networks,
    None("any address"),
    "Networks and addresses that may send. Connections and datagrams from others are refused and \
     counted.",
);

const RATE_LIMIT: Field = field(
    "rate_limit",
    ValueType::Table(QUOTAS),
    None("no limit"),
    "What each sender may send, so that one that sends too much does not fill the buffers of \
     others. See [noisy senders](../guide/noisy-senders.md).",
);

/// Quotas by key.
const QUOTAS: &[Field] = &[
    field(
        "by",
        ValueType::Names,
        Value("[\"host\"]"),
        "Fields that make up a key; each key has the whole limit for itself. `host`: the host that \
         a record states, or else its sender; `app_name` or `service`: the program that it states; \
         `peer`: the address of the sender. Up to 65,536 keys are told apart; further ones share a \
         limit.",
    ),
    field(
        "records_per_second",
        ValueType::Count { min: 1, max: 1_000_000_000 },
        None("no limit of records; one of the two limits is required"),
        "Records per second and key.",
    ),
    field(
        "bytes_per_second",
        ValueType::Size { min: 1 << 10, max: 1 << 40 },
        None("no limit of bytes"),
        "Bytes per second and key.",
    ),
    field(
        "burst",
        time(Duration::from_millis(100), Duration::from_hours(1)),
        Value("\"5s\""),
        "What a key may send at once after a pause, as the time in which it is earned: with 1000 \
         records per second and `\"5s\"`, 5000 records.",
    ),
    field(
        "when_limited",
        ValueType::Choice(WhenOverQuota::WORDS),
        None("`\"delay\"`; `\"discard\"` for datagrams, which cannot be delayed"),
        "What to do with records above the limit.",
    ),
];

/// Server side of TLS.
pub(super) const SERVER_TLS: &[Field] = &[
    field("cert_file", ValueType::Path, Required, "PEM file of the certificate and its chain."),
    field("key_file", ValueType::Path, Required, "PEM file of its private key."),
    field(
        "client_ca_file",
        ValueType::Path,
        None("no client certificate required"),
        "PEM file of CA certificates: clients must present a certificate issued by one of them.",
    ),
];

const DATADOG_INTAKE: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Required,
        "Address to listen on. Port 0 picks a free port, which is logged and shown in the status.",
    ),
    field(
        "api_keys",
        ValueType::Secret,
        None("any client that reaches the port may send"),
        "Comma-separated list of keys; clients must send one of them in the header `DD-API-KEY`.",
    ),
    field(
        "in_flight_max",
        ValueType::Size { min: 8 << 20, max: 4 << 30 },
        Value("\"16MiB\""),
        "Memory for requests that are being read, over all connections. When it is exhausted, \
         further requests are answered with 429 and a Retry-After header.",
    ),
];

const LOGGREGATOR: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:3458\""),
        "Address to listen on. Port 0 picks a free port, which is logged and shown in the status.",
    ),
    TAGS,
    field(
        "in_flight_max",
        ValueType::Size { min: 11 << 20, max: 4 << 30 },
        Value("\"32MiB\""),
        "Memory for messages that have not arrived completely, over all connections. When it is \
         exhausted, further streams are not read until there is room.",
    ),
];

const DROPSONDE: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:3457\""),
        "Address to listen on. Port 0 picks a free port, which is logged and shown in the status.",
    ),
    TAGS,
    RECEIVE_BUFFER,
];

const STATSD: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:8125\""),
        "Address to listen on. Port 0 picks a free port, which is logged and shown in the status.",
    ),
    TAGS,
    RECEIVE_BUFFER,
];

pub(super) const TAGS: Field = field(
    "tags",
    ValueType::Values,
    None("no tags"),
    "Tags of envelopes that have none of that name, as an agent adds them: `{ deployment = \"cf\", \
     job = \"cell\" }`.",
);

const RECEIVE_BUFFER: Field = field(
    "receive_buffer",
    ValueType::Size { min: 64 << 10, max: 1 << 30 },
    Value("\"8MiB\""),
    "Receive buffer of a UDP socket: it holds what arrives while weir cannot read. Without the \
     privilege `CAP_NET_ADMIN`, the kernel limits it to `net.core.rmem_max`.",
);

const SYSLOG: &[Field] = &[
    field(
        "protocol",
        ValueType::Choice(SyslogProtocol::WORDS),
        Value("\"tcp\""),
        "How messages arrive.",
    ),
    field(
        "listen",
        ValueType::Listen,
        None("required, except for Unix sockets"),
        "Address to listen on. Port 0 picks a free port, which is logged and shown in the status.",
    ),
    field(
        "path",
        ValueType::Path,
        None("required for Unix sockets"),
        "Path of the Unix socket. A socket that nobody listens on is replaced.",
    ),
    field(
        "path_mode",
        ValueType::Text,
        Value("\"0666\""),
        "Permissions of the Unix socket, in octal.",
    ),
    field(
        "framing",
        ValueType::Choice(SyslogFramingKind::WORDS),
        Value("\"auto\""),
        "How messages are delimited in a connection.",
    ),
    field(
        "message_max",
        ValueType::Size { min: 480, max: LINE_BYTES_MAX as u64 },
        Value("\"64KiB\""),
        "Length at which a message is truncated; what is missing is counted.",
    ),
    field(
        "timezone",
        ValueType::Text,
        Value("\"UTC\""),
        "Time zone of times that state none, as in RFC 3164: a name such as `Europe/Berlin`, or an \
         offset such as `+02:00`.",
    ),
    RECEIVE_BUFFER,
];
