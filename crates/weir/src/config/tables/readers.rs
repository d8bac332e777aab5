//! Keys of the services that readers of Loggregator connect to.

use std::time::Duration;

use super::super::choices::{Choice as _, TokenCheck};
use super::listeners::SERVER_TLS;
use super::{Field, FieldDefault, TLS as CLIENT_TLS, Table, ValueType, field, time};
use FieldDefault::{None, Value};

pub(super) const LOGGREGATOR: Table = Table {
    name: "loggregator",
    doc: "Services for those who read from Loggregator: nozzles, client libraries, and programs \
          that follow single applications. Each is off unless its table exists, or the usual set is \
          on. See [Loggregator](../guide/loggregator.md).",
    fields: &[
        field(
            "usual_set",
            ValueType::Bool,
            None("`true` if the table exists and configures no part of it"),
            "Whether what makes up a Loggregator is on: sources of the types `loggregator`, \
             `dropsonde` and `loggregator_metrics`, all services below, and `health`, each with its \
             defaults unless it is configured, and a `buffer_max` of 64 MiB. See \
             [the usual set](../guide/loggregator.md#the-usual-set).",
        ),
        field(
            "without",
            ValueType::Names,
            Value("[]"),
            "Parts of the usual set that are off, such as `[\"dropsonde\", \"health\"]`.",
        ),
        field(
            "metrics",
            ValueType::Bool,
            Value("false"),
            "Whether `/metrics` has the metrics of Loggregator's programs in addition, by their names.",
        ),
        field(
            "health",
            ValueType::Table(HEALTH),
            None("no such ports"),
            "Ports at which health is asked for in the form of Loggregator's programs: `GET /health`.",
        ),
        field(
            "buffer_max",
            ValueType::Size { min: 8 << 20, max: 16 << 30 },
            Value("\"128MiB\""),
            "Memory for what waits for readers: half of it until it is distributed, half for the \
             envelopes of all readers, of which a single one may use a quarter. A reader that is \
             too slow loses its oldest envelopes, and is told how many.",
        ),
        field(
            "access",
            ValueType::Table(ACCESS),
            None("everyone who can connect may read everything"),
            "Who may read what over HTTP. Requests must have a token of UAA, or one of `tokens`.",
        ),
        field(
            "egress",
            ValueType::Table(EGRESS),
            None("no such service"),
            "The service of the reverse log proxy over gRPC (`loggregator.v2.Egress`).",
        ),
        field(
            "gateway",
            ValueType::Table(GATEWAY),
            None("no such service"),
            "The service of its gateway over HTTP (`/v2/read`).",
        ),
        field(
            "traffic_controller",
            ValueType::Table(TRAFFIC_CONTROLLER),
            None("no such service"),
            "The service of the traffic controller over websockets, with envelopes of version 1.",
        ),
        field(
            "log_cache",
            ValueType::Table(LOG_CACHE),
            None("no such service"),
            "The service of the log-cache over HTTP (`/api/v1/read` and others) and gRPC \
             (`logcache.v1`), which answers from the store.",
        ),
    ],
};

const HEALTH: &[Field] = &[
    field(
        "metron",
        ValueType::Listen,
        Value("\"127.0.0.1:14824\""),
        "Address for the health of the agent. It states numbers of connections and nothing else, so \
         it may be any address.",
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
        None("the port of the log-cache answers; without it, `127.0.0.1:8080`"),
        "Address for the health of the scheduler and the adapters of drains.",
    ),
];

const ACCESS: &[Field] = &[
    field(
        "tokens",
        ValueType::Secret,
        None("no tokens of weir"),
        "Comma-separated list of tokens that may read everything, besides those of UAA.",
    ),
    field(
        "uaa",
        ValueType::Url,
        None("no tokens of UAA"),
        "URL of UAA, which checks tokens. Those with the scope `doppler.firehose` or `logs.admin` may \
         read everything.",
    ),
    field(
        "uaa_verify",
        ValueType::Choice(TokenCheck::WORDS),
        Value("\"check_token\""),
        "How tokens of UAA are checked.",
    ),
    field(
        "uaa_client",
        ValueType::Text,
        None("required with `uaa`, unless `uaa_verify` is `keys`"),
        "Name of a client of UAA with the authority `uaa.resource`.",
    ),
    field(
        "uaa_secret",
        ValueType::Secret,
        None("required with `uaa`, unless `uaa_verify` is `keys`"),
        "Its secret.",
    ),
    field(
        "uaa_audience",
        ValueType::Text,
        None("any audience"),
        "For whom tokens of UAA must be (`aud`), such as `doppler`; others are refused.",
    ),
    field(
        "cloud_controller",
        ValueType::Url,
        None("only operators may read"),
        "URL of the Cloud Controller, which is asked whether the owner of a token may read the logs \
         of an application. A positive answer is believed for a minute.",
    ),
    field(
        "tls",
        ValueType::Table(CLIENT_TLS),
        None("the system's CA certificates"),
        "TLS settings for both.",
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
    None("no limit"),
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
    None("any address"),
    "Networks and addresses that may connect.",
);

const TLS: Field = field(
    "tls",
    ValueType::Table(SERVER_TLS),
    None("no TLS"),
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
        None("that of the request"),
        "Domain of cookies that are set with `/set-cookie`.",
    ),
];

const EGRESS: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Value("\"127.0.0.1:8082\""),
        "Address to listen on. Everyone who can connect reads the logs of all applications: an \
         address other than the loopback address requires `tls.client_ca_file`. Port 0 picks a \
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
        "After this time a stream ends, and its client opens another.",
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
        "Maximum number of requests that are being answered; further ones are refused.",
    ),
    field(
        "deadline",
        time(Duration::from_millis(10), Duration::from_mins(1)),
        Value("\"1500ms\""),
        "Maximum time of a request. A request for the newest envelopes is then answered with what \
         was found, and the header `x-weir-partial`.",
    ),
];
