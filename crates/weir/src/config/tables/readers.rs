//! Keys of the services to which Loggregator's clients (readers) connect.

use std::time::Duration;

use super::super::server::SERVER_TLS;
use super::{Field, FieldDefault, Table, ValueType, access, field, time};
use FieldDefault::{Unset, Value};

pub(super) const LOGGREGATOR: Table = Table {
    name: "loggregator",
    doc: "Services for programs that read from Loggregator: nozzles, client libraries, and programs \
          that follow single applications. Each is off unless its table exists or the usual set is \
          on. See [Loggregator](../guide/loggregator.md).",
    fields: &[
        field(
            "usual_set",
            ValueType::Bool,
            Unset("`true` if the table exists and configures no part of it"),
            "Whether to enable everything that makes up a Loggregator: sources of the types \
             `loggregator`, `dropsonde` and `loggregator_metrics`, all services below, and `health`, \
             each with its defaults unless it is configured, and a `buffer_max` of 64 MiB. See \
             [the usual set](../guide/loggregator.md#the-usual-set).",
        ),
        field(
            "without",
            ValueType::Names,
            Value("[]"),
            "Parts of the usual set to disable, such as `[\"dropsonde\", \"health\"]`.",
        ),
        field(
            "metrics",
            ValueType::Bool,
            Value("false"),
            "Whether `/metrics` also includes the metrics of Loggregator's programs, under their \
             original names.",
        ),
        field(
            "health",
            ValueType::Table(HEALTH),
            Unset("no such ports"),
            "Ports that serve `GET /health` in the format of Loggregator's programs.",
        ),
        field(
            "buffer_max",
            ValueType::Size { min: 8 << 20, max: 16 << 30 },
            Value("\"128MiB\""),
            "Memory for envelopes that wait for readers: half of it before they are distributed, half \
             for the queues of all readers, of which a single one may use a quarter. A reader that \
             is too slow loses its oldest envelopes and is told how many.",
        ),
        field(
            "access",
            ValueType::Table(access::READERS),
            Unset("every client that can connect may read everything"),
            "Access control over HTTP. Requests must have a token from UAA or one of `tokens`.",
        ),
        field(
            "egress",
            ValueType::Table(EGRESS),
            Unset("no such service"),
            "The reverse log proxy over gRPC (`loggregator.v2.Egress`).",
        ),
        field(
            "gateway",
            ValueType::Table(GATEWAY),
            Unset("no such service"),
            "The reverse log proxy's gateway over HTTP (`/v2/read`).",
        ),
        field(
            "traffic_controller",
            ValueType::Table(TRAFFIC_CONTROLLER),
            Unset("no such service"),
            "The traffic controller over WebSockets, with v1 envelopes.",
        ),
        field(
            "log_cache",
            ValueType::Table(LOG_CACHE),
            Unset("no such service"),
            "The log-cache over HTTP (`/api/v1/read` and others) and gRPC (`logcache.v1`), which \
             answers from the store.",
        ),
    ],
};

const HEALTH: &[Field] = &[
    field(
        "metron",
        ValueType::Listen,
        Value("\"127.0.0.1:14824\""),
        "Address for the health of the agent. The response contains only numbers of connections, so \
         any address is safe.",
    ),
    field(
        "doppler",
        ValueType::Listen,
        Value("\"127.0.0.1:14825\""),
        "Address for the health of the router and the traffic controller.",
    ),
    field(
        "reverse_log_proxy",
        ValueType::Listen,
        Value("\"127.0.0.1:33333\""),
        "Address for the health of the reverse log proxy.",
    ),
    field(
        "drains",
        ValueType::Listen,
        Unset("the address of the log-cache; without it, `127.0.0.1:8080`"),
        "Address for the health of the scheduler and the adapters of drains.",
    ),
];

const CONNECTIONS_MAX: Field = field(
    "connections_max",
    ValueType::Count { min: 1, max: 65_536 },
    Value("500"),
    "Maximum number of connections; further ones wait to be accepted.",
);

const CONNECTIONS_PER_ADDRESS_MAX: Field = field(
    "connections_per_address_max",
    ValueType::Count { min: 1, max: 65_536 },
    Unset("no limit"),
    "Maximum number of connections from one IP address; further ones are closed at once.",
);

const STREAMS_MAX: Field = field(
    "streams_max",
    ValueType::Count { min: 1, max: 65_536 },
    Value("500"),
    "Maximum number of streams over all connections; further ones are refused.",
);

const ALLOW: Field = field(
    "allow",
    ValueType::Networks,
    Unset("any address"),
    "Networks and addresses that may connect.",
);

const TLS: Field = field(
    "tls",
    ValueType::Table(SERVER_TLS),
    Unset("no TLS"),
    "Certificates. The files are reloaded when they change. Clients verify that the certificate is \
     valid for the name `reverselogproxy`.",
);

const TRAFFIC_CONTROLLER: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:8081\""),
        "Address to listen on, as for `egress`.",
    ),
    TLS,
    ALLOW,
    field(
        "connections_max",
        ValueType::Count { min: 1, max: 65_536 },
        Value("2048"),
        "Maximum number of connections; further ones wait to be accepted.",
    ),
    CONNECTIONS_PER_ADDRESS_MAX,
    field(
        "streams_max",
        ValueType::Count { min: 1, max: 65_536 },
        Value("2000"),
        "Maximum number of streams; further ones are refused.",
    ),
    field(
        "cookie_domain",
        ValueType::Text,
        Unset("that of the request"),
        "Domain of cookies set by `/set-cookie`.",
    ),
];

const EGRESS: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:8082\""),
        "Address to listen on. Every client that can connect can read the logs of all applications: \
         an address other than the loopback address requires `tls.client_ca_file`. Port 0 picks a \
         free port, which is logged and shown in the ledger.",
    ),
    TLS,
    ALLOW,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_ADDRESS_MAX,
    STREAMS_MAX,
];

const GATEWAY: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:8088\""),
        "Address to listen on, as for `egress`.",
    ),
    TLS,
    ALLOW,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_ADDRESS_MAX,
    STREAMS_MAX,
    field(
        "stream_timeout",
        time(Duration::from_secs(1), Duration::from_hours(24)),
        Value("\"14m\""),
        "Time after which a stream is ended; its client then opens another.",
    ),
];

const LOG_CACHE: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:8080\""),
        "Address to listen on, as for `egress`; HTTP and gRPC share it.",
    ),
    TLS,
    ALLOW,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_ADDRESS_MAX,
    field(
        "requests_max",
        ValueType::Count { min: 1, max: 65_536 },
        Value("500"),
        "Maximum number of concurrent requests; further ones are refused.",
    ),
    field(
        "deadline",
        time(Duration::from_millis(10), Duration::from_mins(1)),
        Value("\"1500ms\""),
        "Deadline of a request. A request for the newest envelopes is then answered with those found \
         so far and the header `x-weir-partial`.",
    ),
];
