//! `[loggregator]`: checks of the readers' services, and their settings.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_api::FaceSettings;
use weir_expr::Network;
use weir_host::ServerProtocol;
use weir_pipeline::live::Face;

use super::access;
use super::check_listen;
use super::diagnostic::Diagnostics;
use super::plan::{Sections, server_tls};
use super::section::Section;
use super::text::SourceLocation;

/// Memory of the services in addition to what waits for readers: connections, and for each of some
/// hundred streams what is on its way.
const BASE_BYTES: u64 = 16 << 20;

/// The configured services.
fn services(sections: &Sections) -> impl Iterator<Item = (Face, &Section)> {
    let loggregator = sections.table("loggregator");
    Face::ALL.into_iter().filter_map(|face| Some((face, loggregator.table(face.name())?)))
}

/// All checks.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    access::check(sections, diagnostics);
    for (face, service) in services(sections) {
        check_listen::tls(service, diagnostics);
        check_listen::networks(service, diagnostics);
        let Some(listen) = service.listen("listen") else { continue };
        let knows_clients = service.table("tls").is_some_and(|tls| tls.is_set("client_ca_file"));
        let asks_for_tokens = face.has_tokens() && access::section(sections).is_some();
        if !listen.ip().is_loopback() && !knows_clients && !asks_for_tokens {
            let remedy = if face.has_tokens() { "[loggregator.access], " } else { "" };
            let message = format!(
                "anyone who reaches {listen} could read the logs of all applications: clients must \
                 have certificates"
            );
            diagnostics
                .error(service.location("listen"), &service.key_path("listen"), message)
                .help(format!(
                    "add {remedy}tls with client_ca_file, or listen on the loopback address"
                ));
        }
    }
    let loggregator = sections.table("loggregator");
    if services(sections).next().is_none() && loggregator.is_set("buffer_max") {
        let message = "loggregator.buffer_max has no effect without a service for readers";
        diagnostics
            .warn(loggregator.location("buffer_max"), "loggregator.buffer_max", message.to_owned())
            .help("add [loggregator.egress] or [loggregator.gateway]");
    }
}

/// The ports that the services bind, with the places where they are configured.
pub(crate) fn ports(
    sections: &Sections,
) -> impl Iterator<Item = (&Section, SocketAddr, Option<SourceLocation>)> {
    services(sections).filter_map(|(_, service)| {
        let listen = service.listen("listen").filter(|listen| listen.port() != 0)?;
        Some((service, listen, service.location("listen").or(service.location.clone())))
    })
}

/// Memory of all services.
pub(crate) fn memory_bytes(sections: &Sections) -> u64 {
    match services(sections).count() as u64 {
        0 => 0,
        count => buffer_bytes(sections) + count * BASE_BYTES,
    }
}

/// Memory for what waits for readers; 0 without a service.
pub(crate) fn buffer_bytes(sections: &Sections) -> u64 {
    match services(sections).next() {
        None => 0,
        Some(_) => sections.table("loggregator").size("buffer_max"),
    }
}

/// Settings of the services; `None` if a required file is missing.
pub(crate) fn settings(sections: &Sections) -> Option<Vec<FaceSettings>> {
    let access = match access::section(sections) {
        Some(section) => Some(Arc::new(access::settings(section)?)),
        None => None,
    };
    services(sections)
        .map(|(face, service)| {
            let access = access.clone().filter(|_| face.has_tokens());
            Some(FaceSettings { access, ..face_settings(face, service)? })
        })
        .collect()
}

fn face_settings(face: Face, service: &Section) -> Option<FaceSettings> {
    let count = |key| service.count(key).map_or(usize::MAX, |count| count as usize);
    let protocol = match face {
        Face::Egress => ServerProtocol::Http2,
        Face::Gateway => ServerProtocol::Http1And2,
    };
    let tls = match service.table("tls") {
        Some(tls) => Some(server_tls(tls, protocol)?),
        None => None,
    };
    let networks = service.list("allow").iter();
    Some(FaceSettings {
        face,
        listen: service.listen("listen")?,
        tls,
        allowed_networks: networks.filter_map(|(text, _)| Network::parse(text)).collect(),
        connections_max: count("connections_max"),
        connections_per_address_max: count("connections_per_address_max"),
        streams_max: count("streams_max"),
        access: None,
        stream_timeout: match face {
            Face::Egress => std::time::Duration::MAX,
            Face::Gateway => service.duration("stream_timeout"),
        },
    })
}
