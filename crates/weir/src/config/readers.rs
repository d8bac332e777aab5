//! `[loggregator]`: checks of the readers' services, and their settings.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weir_api::{HealthOf, HealthSettings, ReaderServiceSettings};
use weir_host::ServerProtocol;
use weir_pipeline::config::SourceType;
use weir_pipeline::live::ReaderService;

use super::access;
use super::diagnostic::Diagnostics;
use super::section::Section;
use super::sections::{ComponentSection, Sections, texts};
use super::server;
use super::text::SourceLocation;

/// Memory of the services in addition to the queues of readers: connections, and the data in flight
/// of a few hundred streams.
const BASE_BYTES: u64 = 16 << 20;

/// Memory of the traffic controller for the metrics of containers.
const CONTAINERS_BYTES: u64 = 16 << 20;

/// Additional memory of the services that read the store: queries and responses in flight, and the
/// cached sources of segments.
const STORED_BYTES: u64 = 64 << 20;

/// Default deadline of a read; the same as in the guide.
const STORED_DEADLINE: Duration = Duration::from_millis(1500);

/// The configured services.
fn services(sections: &Sections) -> impl Iterator<Item = (ReaderService, &Section)> {
    let loggregator = sections.table("loggregator");
    ReaderService::ALL.into_iter().filter_map(|reader_service| {
        Some((reader_service, loggregator.table(reader_service.name())?))
    })
}

/// All checks.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    for (reader_service, service) in services(sections) {
        server::tls(service, diagnostics);
        server::networks(service, diagnostics);
        if reader_service == ReaderService::TrafficController {
            cookie_domain(service, diagnostics);
        }
        let Some(listen) = service.listen("listen") else { continue };
        let knows_clients = service.table("tls").is_some_and(|tls| tls.is_set("client_ca_file"));
        let asks_for_tokens = reader_service.has_tokens() && access::of_readers(sections).is_some();
        if !listen.ip().is_loopback() && !knows_clients && !asks_for_tokens {
            let remedy = if reader_service.has_tokens() { "[loggregator.access], " } else { "" };
            let message = format!(
                "every client that can connect to {listen} could read the logs of all applications: \
                 client certificates are required"
            );
            diagnostics
                .error(service.location("listen"), &service.key_path("listen"), message)
                .help(format!(
                    "add {remedy}tls with client_ca_file, or listen on the loopback address"
                ));
        }
    }
    let loggregator = sections.table("loggregator");
    if buffer_bytes(sections) == 0 && loggregator.is_set("buffer_max") {
        let message =
            "loggregator.buffer_max has no effect without a service that streams envelopes";
        diagnostics
            .warn(loggregator.location("buffer_max"), "loggregator.buffer_max", message.to_owned())
            .help("add [loggregator.egress], or the table of another service");
    }
    if let Some(log_cache) = loggregator.table("log_cache")
        && !sections.has_store()
    {
        let message = "the log-cache answers from the store, which is disabled";
        diagnostics
            .error(log_cache.location.clone(), "loggregator.log_cache", message.to_owned())
            .help("set store.enabled = true");
    }
}

fn cookie_domain(service: &Section, diagnostics: &mut Diagnostics) {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let domain = service.text("cookie_domain").unwrap_or_default();
    if !domain.bytes().all(is_allowed) {
        let message = format!("{domain:?} is not a domain");
        diagnostics
            .error(service.location("cookie_domain"), &service.key_path("cookie_domain"), message)
            .help("write a name such as \"doppler.example.org\"");
    }
}

/// Default address for the health of drains.
const DRAINS_HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Addresses for health. That of drains is served on the port of the log-cache, if there is one.
pub(crate) fn health(sections: &Sections) -> Vec<HealthSettings> {
    let loggregator = sections.table("loggregator");
    let Some(health) = loggregator.table("health") else { return Vec::new() };
    let at = |of: HealthOf| {
        let listen = health.listen(of.name());
        let has_own = of == HealthOf::Drains && loggregator.table("log_cache").is_none();
        Some(HealthSettings { of, listen: listen.or(has_own.then_some(DRAINS_HEALTH))? })
    };
    HealthOf::ALL.into_iter().filter_map(at).collect()
}

/// The ports that the services bind, with the keys and the places where they are configured.
pub(crate) fn ports(
    sections: &Sections,
) -> impl Iterator<Item = (String, SocketAddr, Option<SourceLocation>)> {
    let of_services = services(sections).map(|(_, service)| (service, "listen"));
    let table = sections.table("loggregator").table("health");
    let of_health = table.into_iter().flat_map(|table| HealthOf::ALL.map(|of| (table, of.name())));
    let configured = of_services.chain(of_health).filter_map(|(table, key)| {
        let listen = table.listen(key).filter(|listen| listen.port() != 0)?;
        Some((table.key_path(key), listen, table.location(key).or(table.location.clone())))
    });
    let drains = health(sections).into_iter().filter_map(move |port| {
        let table =
            table.filter(|_| port.of == HealthOf::Drains && port.listen == DRAINS_HEALTH)?;
        let is_default = !table.is_set("drains");
        is_default.then(|| (table.key_path("drains"), port.listen, table.location.clone()))
    });
    configured.chain(drains)
}

/// Memory of all services.
pub(crate) fn memory_bytes(sections: &Sections) -> u64 {
    let own = services(sections).map(|(reader_service, _)| match reader_service {
        ReaderService::Egress | ReaderService::Gateway | ReaderService::LogCache => BASE_BYTES,
        ReaderService::TrafficController => BASE_BYTES + CONTAINERS_BYTES,
    });
    let reads_store = services(sections).any(|(reader_service, _)| reader_service.reads_store());
    let stored = if reads_store && sections.has_store() { STORED_BYTES } else { 0 };
    buffer_bytes(sections) + own.sum::<u64>() + stored
}

/// Memory for envelopes that wait for readers; 0 without a service that streams them.
pub(crate) fn buffer_bytes(sections: &Sections) -> u64 {
    let is_live = |(reader_service, _): (ReaderService, &Section)| match reader_service {
        ReaderService::Egress | ReaderService::Gateway | ReaderService::TrafficController => true,
        ReaderService::LogCache => false,
    };
    if services(sections).any(is_live) {
        sections.table("loggregator").size("buffer_max")
    } else {
        0
    }
}

/// Names of the sources of which the store keeps the original envelopes. Empty without a service
/// that reads the store.
pub(crate) fn envelope_sources(sections: &Sections) -> BTreeSet<String> {
    if !services(sections).any(|(reader_service, _)| reader_service.reads_store()) {
        return BTreeSet::new();
    }
    let is_envelope =
        |source: &&ComponentSection<SourceType>| source.component_type.has_envelopes();
    sections.sources.iter().filter(is_envelope).map(|source| source.name.clone()).collect()
}

/// Deadline of a read from the store.
pub(crate) fn stored_deadline(sections: &Sections) -> Duration {
    let log_cache = sections.table("loggregator").table("log_cache");
    log_cache.map_or(STORED_DEADLINE, |table| table.duration("deadline"))
}

/// Settings of the services; `None` if a required file is missing.
pub(crate) fn settings(sections: &Sections) -> Option<Vec<ReaderServiceSettings>> {
    let access = match access::of_readers(sections) {
        Some(section) => Some(Arc::new(access::settings(section)?)),
        None => None,
    };
    services(sections)
        .map(|(reader_service, service)| {
            let access = access.clone().filter(|_| reader_service.has_tokens());
            let has_health_of_drains =
                reader_service == ReaderService::LogCache && answers_health_of_drains(sections);
            Some(ReaderServiceSettings {
                access,
                has_health_of_drains,
                allowed_hosts: texts(sections.table("api"), "allowed_hosts"),
                ..reader_service_settings(reader_service, service)?
            })
        })
        .collect()
}

/// Whether the port of the log-cache answers for drains.
fn answers_health_of_drains(sections: &Sections) -> bool {
    let health = sections.table("loggregator").table("health");
    health.is_some_and(|health| health.listen("drains").is_none())
}

fn reader_service_settings(
    reader_service: ReaderService,
    service: &Section,
) -> Option<ReaderServiceSettings> {
    let count = |key| service.count(key).map_or(usize::MAX, |count| count as usize);
    let protocol = match reader_service {
        ReaderService::Egress => ServerProtocol::Http2,
        ReaderService::Gateway | ReaderService::LogCache => ServerProtocol::Http1And2,
        ReaderService::TrafficController => ServerProtocol::Http1,
    };
    let tls = match service.table("tls") {
        Some(tls) => Some(server::server_tls(tls, protocol)?),
        None => None,
    };
    Some(ReaderServiceSettings {
        service: reader_service,
        listen: service.listen("listen")?,
        tls,
        allowed_networks: server::allowed_networks(service),
        connections_max: count("connections_max"),
        connections_per_address_max: count("connections_per_address_max"),
        streams_max: match reader_service {
            ReaderService::Egress | ReaderService::Gateway | ReaderService::TrafficController => {
                count("streams_max")
            }
            ReaderService::LogCache => count("requests_max"),
        },
        access: None,
        has_health_of_drains: false,
        allowed_hosts: Vec::new(),
        stream_timeout: match reader_service {
            ReaderService::Egress | ReaderService::TrafficController | ReaderService::LogCache => {
                Duration::MAX
            }
            ReaderService::Gateway => service.duration("stream_timeout"),
        },
        cookie_domain: match reader_service {
            ReaderService::Egress | ReaderService::Gateway | ReaderService::LogCache => None,
            ReaderService::TrafficController => service.text("cookie_domain").map(str::to_owned),
        },
    })
}
