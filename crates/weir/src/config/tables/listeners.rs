//! Keys of the sources that listen for requests.

use super::{Default, Field, Kind, field};
use Default::{None, Required, Value};

/// Keys of every source that listens.
pub(super) const LISTEN: &[Field] = &[
    field(
        "listen",
        Kind::Listen,
        Required,
        "Address to listen on. Port 0 takes a free port, which is logged and shown in the status.",
    ),
    field(
        "connections_max",
        Kind::Count { min: 1, max: 65_536 },
        Value("1024"),
        "Most connections that are served at once; further ones wait to be accepted.",
    ),
    field(
        "in_flight_limit",
        Kind::Size { min: 8 << 20, max: 4 << 30 },
        Value("\"16MiB\""),
        "Memory for requests that are being read, over all connections. Who comes when it is used \
         up is told to come again.",
    ),
    field(
        "tls",
        Kind::Table(SERVER_TLS),
        None("no TLS"),
        "Certificates. The files are read again when they change.",
    ),
];

/// Server side of TLS.
const SERVER_TLS: &[Field] = &[
    field("cert_file", Kind::Path, Required, "PEM file of the certificate and its chain."),
    field("key_file", Kind::Path, Required, "PEM file of its private key."),
    field(
        "client_ca_file",
        Kind::Path,
        None("clients need no certificate"),
        "PEM file of authorities: a client must show a certificate of one of them.",
    ),
];

pub(super) const DATADOG_INTAKE: &[Field] = &[field(
    "api_keys",
    Kind::Secret,
    None("whoever reaches the port may send"),
    "Keys, separated by commas, that clients must send one of in the header `DD-API-KEY`.",
)];
