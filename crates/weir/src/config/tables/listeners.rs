//! Keys of the sources that listen for requests.

use super::{Field, FieldDefault, ValueType, field};
use FieldDefault::{None, Required, Value};

/// Keys of every source that listens.
pub(super) const LISTEN: &[Field] = &[
    field(
        "listen",
        ValueType::Listen,
        Required,
        "Address to listen on. Port 0 picks a free port, which is logged and shown in the status.",
    ),
    field(
        "connections_max",
        ValueType::Count { min: 1, max: 65_536 },
        Value("1024"),
        "Maximum number of connections served at once; further connections wait to be accepted.",
    ),
    field(
        "in_flight_max",
        ValueType::Size { min: 8 << 20, max: 4 << 30 },
        Value("\"16MiB\""),
        "Memory for requests that are being read, over all connections. When it is exhausted, \
         further requests are answered with 429 and a Retry-After header.",
    ),
    field(
        "tls",
        ValueType::Table(SERVER_TLS),
        None("no TLS"),
        "Certificates. The files are reloaded when they change.",
    ),
];

/// Server side of TLS.
const SERVER_TLS: &[Field] = &[
    field("cert_file", ValueType::Path, Required, "PEM file of the certificate and its chain."),
    field("key_file", ValueType::Path, Required, "PEM file of its private key."),
    field(
        "client_ca_file",
        ValueType::Path,
        None("no client certificate required"),
        "PEM file of CA certificates: clients must present a certificate issued by one of them.",
    ),
];

pub(super) const DATADOG_INTAKE: &[Field] = &[field(
    "api_keys",
    ValueType::Secret,
    None("any client that reaches the port may send"),
    "Comma-separated list of keys; clients must send one of them in the header `DD-API-KEY`.",
)];
