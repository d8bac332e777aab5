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
          acknowledges messages; with the others, a crash loses at most what arrived within the last \
          20 ms, and the loss is counted.",
    fields: &[SYSLOG, THREADS, LISTEN],
};

pub(super) const DROPSONDE_SOURCE: Component = Component {
    doc: "Loggregator v1 envelopes (dropsonde) over UDP, from programs on this machine.",
    fields: &[DROPSONDE, &[ALLOW, RATE_LIMIT]],
};

pub(super) const STATSD_SOURCE: Component = Component {
    doc: "statsd metrics over UDP, including the tags of Datadog's clients: counters, gauges, \
          timers, histograms and distributions. Each becomes a Loggregator envelope.",
    fields: &[STATSD, &[ALLOW, RATE_LIMIT]],
};

pub(super) const LOGGREGATOR_METRICS_SOURCE: Component = Component {
    doc: "Weir's own metrics as envelopes, under the metric names of the Loggregator programs that it \
          replaces. See [metrics](../guide/loggregator.md#metrics-by-the-names-of-the-originals).",
    fields: &[LOGGREGATOR_METRICS],
};

pub(super) const DRAIN_MESSAGES_SOURCE: Component = Component {
    doc: "Reports problems of an application's [drains](../guide/drains.md) in the application's own \
          log: a drain is invalid, does not accept records, or has lost some. If drains are on and \
          no source of this type is configured, there is one named `drain_messages`.",
    fields: &[&[TAGS]],
};

const LOGGREGATOR_METRICS: &[Field] = &[
    field(
        "interval",
        time(Duration::from_millis(10), Duration::from_hours(1)),
        Value("\"5s\""),
        "Interval of the metrics of agents and routers. Those of the other programs are sent every \
         twelfth interval, as by the originals.",
    ),
    TAGS,
];

pub(super) const LOGGREGATOR_SOURCE: Component = Component {
    doc: "Loggregator v2 envelopes over gRPC, from agents and clients.",
    fields: &[LOGGREGATOR, LISTEN],
};

pub(super) const DATADOG_INTAKE_SOURCE: Component = Component {
    doc: "Logs that Datadog's agents and client libraries send over HTTP (`POST /api/v2/logs`, and \
          `/v1/input` for older ones). A request is acknowledged once all its records are on stable \
          storage.",
    fields: &[DATADOG_INTAKE, THREADS, LISTEN],
};

/// Keys of the sources that can receive with several threads.
const THREADS: &[Field] = &[field(
    "threads",
    ValueType::Count { min: 1, max: LISTENER_THREADS_MAX as u64 },
    Value("1"),
    "Number of threads that receive. The kernel distributes connections over them, and datagrams by \
     their sender. One thread receives hundreds of thousands of messages per second. A `rate_limit` \
     applies to all threads together.",
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
    "Limit for each sender, so that a noisy one does not fill the buffers that others need. See \
     [noisy senders](../guide/noisy-senders.md).",
);

/// Quotas by key.
const QUOTAS: &[Field] = &[
    field(
        "by",
        ValueType::Names,
        Value("[\"host\"]"),
        "Fields that make up a key; the limits apply to each key separately. `host`: the host named \
         in the record, or otherwise its sender; `app_name` or `service`: the program named in the \
         record; `peer`: the address of the sender. Up to 65,536 keys are distinguished; further \
         ones share a limit.",
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
        "Size of a burst that a key may send after a pause, as a time: with 1000 records per second \
         and `\"5s\"`, 5000 records.",
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

/// Of a server that identifies its clients in another way.
pub(super) const CERTIFICATE: &[Field] = SERVER_TLS.split_at(2).0;

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
        "Memory for messages that have not been received completely, over all connections. When it \
         is exhausted, further streams are not read until memory is released.",
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
    "Tags to add to envelopes that do not have them, as an agent does: `{ deployment = \"cf\", job = \
     \"cell\" }`.",
);

const RECEIVE_BUFFER: Field = field(
    "receive_buffer",
    ValueType::Size { min: 64 << 10, max: 1 << 30 },
    Value("\"8MiB\""),
    "Size of the receive buffer of the UDP socket, which holds datagrams until weir reads them. \
     Without the capability `CAP_NET_ADMIN`, the kernel limits it to `net.core.rmem_max`.",
);

const SYSLOG: &[Field] = &[
    field(
        "protocol",
        ValueType::Choice(SyslogProtocol::WORDS),
        Value("\"tcp\""),
        "Transport protocol.",
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
        "Path of the Unix socket. An existing socket is replaced if no process listens on it.",
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
        "Maximum length of a message; a longer one is truncated, and the missing bytes are counted.",
    ),
    field(
        "timezone",
        ValueType::Text,
        Value("\"UTC\""),
        "Time zone of timestamps without one, as in RFC 3164: a name such as `Europe/Berlin`, or an \
         offset such as `+02:00`.",
    ),
    RECEIVE_BUFFER,
];
