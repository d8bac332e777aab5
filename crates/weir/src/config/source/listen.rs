//! Sources that listen: the keys that they share, their checks, and the settings of their
//! listeners.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::net::SocketAddr;
use std::path::PathBuf;

use weir_host::ServerProtocol;
use weir_pipeline::config::{ListenEndpoint, ListenSettings};
use weir_pipeline::source::{LISTENER_THREADS_MAX, QUOTA_BYTES, SYSLOG_LISTENER_BYTES};

use super::rate_limit::{self, RATE_LIMIT};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{self, Unset, Value};
use crate::config::field::{Field, ValueType, field};
use crate::config::readers;
use crate::config::section::Section;
use crate::config::sections::Sections;
use crate::config::server::{self, SERVER_TLS};
use crate::config::text::SourceLocation;

/// Keys of the sources that can receive with several threads.
pub(super) const THREADS: &[Field] = &[field(
    "threads",
    ValueType::Count { min: 1, max: LISTENER_THREADS_MAX as u64 },
    Value("1"),
    "Number of threads that receive. The kernel distributes connections over them, and datagrams by \
     their sender. One thread receives hundreds of thousands of messages per second. A `rate_limit` \
     applies to all threads together.",
)];

/// Keys of every source that accepts connections.
pub(super) const LISTEN: &[Field] = &[
    field(
        "connections_max",
        ValueType::Count { min: 1, max: 65_536 },
        Value("1024"),
        "Maximum number of connections served at once; further connections wait to be accepted.",
    ),
    field(
        "connections_per_address_max",
        ValueType::Count { min: 1, max: 65_536 },
        Unset("no limit"),
        "Maximum number of connections from one IP address; further ones are closed at once.",
    ),
    ALLOW,
    field(
        "tls",
        ValueType::Table(SERVER_TLS),
        Unset("no TLS"),
        "Certificates. The files are reloaded when they change.",
    ),
    RATE_LIMIT,
];

/// Keys of every source that receives datagrams alone.
pub(super) const DATAGRAMS: &[Field] = &[ALLOW, RATE_LIMIT];

const ALLOW: Field = field(
    "allow",
    ValueType::Networks,
    Unset("any address"),
    "Networks and addresses that may send. Connections and datagrams from others are refused and \
     counted.",
);

/// The key of the address.
pub(super) const fn address(default: FieldDefault) -> Field {
    field(
        "listen",
        ValueType::Listen,
        default,
        "Address to listen on. Port 0 picks a free port, which is logged and shown in the status.",
    )
}

/// The key of the receive buffer.
pub(super) const RECEIVE_BUFFER: Field = field(
    "receive_buffer",
    ValueType::Size { min: 64 << 10, max: 1 << 30 },
    Value("\"8MiB\""),
    "Size of the receive buffer of the UDP socket, which holds datagrams until weir reads them. \
     Without the capability `CAP_NET_ADMIN`, the kernel limits it to `net.core.rmem_max`.",
);

/// Checks the networks and the limit of a source, and that it is not open to everybody unless that
/// is intended; `remedy` says what to add to the configuration if it is open.
pub(super) fn check(
    section: &Section,
    has_keys: bool,
    remedy: &str,
    diagnostics: &mut Diagnostics,
) {
    server::networks(section, diagnostics);
    open_to_all(section, has_keys, remedy, diagnostics);
    rate_limit::check(section, diagnostics);
}

fn open_to_all(section: &Section, has_keys: bool, remedy: &str, diagnostics: &mut Diagnostics) {
    let Some(listen) = section.listen("listen") else { return };
    let knows_clients = has_keys
        || !section.list("allow").is_empty()
        || section.has("tls")
            && section.table("tls").is_some_and(|tls| tls.is_set("client_ca_file"));
    if !listen.ip().is_loopback() && !knows_clients {
        let message = format!("any client that reaches {listen} can send records");
        diagnostics
            .warn(section.location("listen"), &section.key_path("listen"), message)
            .help(format!("{remedy}, or listen on an address that only trusted senders can reach"));
    }
}

/// The settings of a listener; its certificates are for `protocol`.
pub(super) fn settings(
    section: &Section,
    endpoint: ListenEndpoint,
    protocol: ServerProtocol,
) -> ListenSettings {
    // Datagrams have no connections.
    let count = |key| section.has(key).then(|| section.count(key)).flatten();
    let count = |key| count(key).map_or(usize::MAX, |count| count as usize);
    let tls = section.has("tls").then(|| section.table("tls")).flatten();
    ListenSettings {
        threads: threads(section),
        endpoint,
        connections_max: count("connections_max"),
        connections_per_address_max: count("connections_per_address_max"),
        allowed_networks: server::allowed_networks(section),
        tls: tls.and_then(|tls| server::server_tls(tls, protocol)),
        rate_limit: rate_limit::settings(section),
    }
}

/// The number of threads that receive. A socket in the file system can be bound only once.
pub(super) fn threads(section: &Section) -> usize {
    let is_one = !section.has("threads") || rate_limit::is_unix(section);
    let configured = || section.count("threads").map_or(1, |count| count as usize);
    if is_one { 1 } else { configured() }
}

/// The TCP address of a source; `None` if it is missing, which has been reported.
pub(super) fn tcp(section: &Section) -> Option<ListenEndpoint> {
    Some(ListenEndpoint::Tcp(section.listen("listen")?))
}

/// The UDP address of a source; `None` if it is missing, which has been reported.
pub(super) fn udp(section: &Section) -> Option<ListenEndpoint> {
    let buffer_bytes = section.size("receive_buffer") as usize;
    Some(ListenEndpoint::Udp { address: section.listen("listen")?, buffer_bytes })
}

/// Memory of the listeners of a source without requests, bytes.
pub(super) fn memory_bytes(section: &Section) -> u64 {
    threads(section) as u64 * SYSLOG_LISTENER_BYTES + quota_bytes(section)
}

/// Memory of the limit of a source, bytes.
pub(super) fn quota_bytes(section: &Section) -> u64 {
    section.table("rate_limit").map_or(0, |_| QUOTA_BYTES)
}

/// A socket that a component binds.
#[derive(Debug, Clone, PartialEq)]
enum Bound {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Path(PathBuf),
}

impl Bound {
    /// What an endpoint binds; `None` if its port is chosen by the system.
    fn of(endpoint: ListenEndpoint) -> Option<Self> {
        let bound = match endpoint {
            ListenEndpoint::Tcp(address) => Self::Tcp(address),
            ListenEndpoint::Udp { address, .. } => Self::Udp(address),
            ListenEndpoint::UnixStream { path, .. } | ListenEndpoint::UnixDatagram { path, .. } => {
                Self::Path(path)
            }
        };
        Some(bound).filter(|bound| match bound {
            Self::Tcp(address) | Self::Udp(address) => address.port() != 0,
            Self::Path(_) => true,
        })
    }

    /// The key that defines it.
    fn key(&self) -> &'static str {
        match self {
            Self::Tcp(_) | Self::Udp(_) => "listen",
            Self::Path(_) => "path",
        }
    }

    /// Whether only one of them can be bound.
    fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) | (Self::Udp(one), Self::Udp(other)) => {
                let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
                one.port() == other.port() && (is_any || one.ip() == other.ip())
            }
            (Self::Path(one), Self::Path(other)) => one == other,
            (Self::Tcp(_) | Self::Udp(_) | Self::Path(_), _) => false,
        }
    }
}

/// No two components may listen on the same port of the same address, or at the same path.
pub(crate) fn listen_twice(sections: &Sections, diagnostics: &mut Diagnostics) {
    let api = sections.table("api");
    let mut taken: Vec<(Bound, Option<SourceLocation>)> = Vec::new();
    if let Some(listen) = api.listen("listen").filter(|_| api.bool("enabled")) {
        taken.push((Bound::Tcp(listen), api.location("listen")));
    }
    let services =
        readers::ports(sections).map(|(key, listen, location)| (key, Bound::Tcp(listen), location));
    let sources = sections.sources.iter().filter_map(|source| {
        let bound = Bound::of(super::endpoint(source)?)?;
        let key = bound.key();
        Some((source.section.key_path(key), bound, source.section.location(key)))
    });
    for (key, bound, place) in sources.chain(services) {
        let (what, remedy) = match &bound {
            Bound::Tcp(address) | Bound::Udp(address) => {
                (format!("the port {}", address.port()), "choose another port")
            }
            Bound::Path(path) => (path.display().to_string(), "choose another path"),
        };
        if let Some((_, location)) = taken.iter().find(|(other, _)| bound.clashes(other)) {
            diagnostics
                .error(
                    place.clone(),
                    &key,
                    format!("{what} is already used by another part of weir"),
                )
                .other(location.clone(), "it is also used at")
                .help(remedy);
        }
        taken.push((bound, place));
    }
}
