//! Constraints of sources that listen, each on its own and between them.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::net::SocketAddr;
use std::time::Duration;

use weir_host::Acceptor;
use weir_pipeline::source::LISTENER_BYTES;

use super::check::readable_file;
use super::check_hec::secret_file;
use super::diagnostic::Diagnostics;
use super::plan::{Sections, server_tls};
use super::section::Section;
use super::text::SourceLocation;

/// All checks of one source.
pub(crate) fn listener(section: &Section, diagnostics: &mut Diagnostics) {
    secret_file(section, "api_keys", diagnostics);
    if section.secret("api_keys").is_some_and(|keys| keys.list().is_none()) {
        let message = "one of the keys is empty: clients without a key would be accepted";
        diagnostics
            .error(section.location("api_keys"), &section.key_path("api_keys"), message.to_owned())
            .help(
                "separate keys by single commas, and check that every variable they are built from \
                 is set",
            );
    }
    if let Some(tls) = section.table("tls") {
        readable_file(tls, "cert_file", "CERTIFICATE", diagnostics);
        readable_file(tls, "key_file", "PRIVATE KEY", diagnostics);
        readable_file(tls, "client_ca_file", "CERTIFICATE", diagnostics);
        tls_loads(tls, diagnostics);
    }
    let Some(listen) = section.listen("listen") else { return };
    let knows_clients = section.secret("api_keys").is_some()
        || section.table("tls").is_some_and(|tls| tls.is_set("client_ca_file"));
    if !listen.ip().is_loopback() && !knows_clients {
        let message = format!("any client that reaches {listen} can send records");
        diagnostics
            .warn(section.location("listen"), &section.key_path("listen"), message)
            .help("add api_keys, or listen on an address that only trusted senders can reach");
    }
}

/// Loads the files in the same way as the source does.
fn tls_loads(tls: &Section, diagnostics: &mut Diagnostics) {
    let is_wrong = diagnostics.0.iter().any(|d| d.key_path.starts_with(&tls.path));
    let Some(files) = server_tls(tls).filter(|_| !is_wrong) else { return };
    if let Err(error) = Acceptor::new(files, Duration::ZERO) {
        let message = format!("{} cannot be used: {error}", tls.path);
        diagnostics.error(tls.location.clone(), &tls.path, message);
    }
}

/// Memory of all sources that listen, bytes.
pub(crate) fn memory_bytes(sections: &Sections) -> u64 {
    let listeners = sections.sources.iter().filter(|source| source.component_type.is_listener());
    listeners.map(|source| source.section.size("in_flight_max") + LISTENER_BYTES).sum()
}

/// No two components may listen on the same port of the same address.
pub(crate) fn listen_twice(sections: &Sections, diagnostics: &mut Diagnostics) {
    let api = sections.table("api");
    let mut taken: Vec<(SocketAddr, Option<SourceLocation>)> = Vec::new();
    if let Some(listen) = api.listen("listen").filter(|_| api.bool("enabled")) {
        taken.push((listen, api.location("listen")));
    }
    for source in sections.sources.iter().filter(|source| source.component_type.is_listener()) {
        let section = &source.section;
        let Some(listen) = section.listen("listen").filter(|listen| listen.port() != 0) else {
            continue;
        };
        let clashes = |other: &SocketAddr| {
            let is_any = other.ip().is_unspecified() || listen.ip().is_unspecified();
            other.port() == listen.port() && (is_any || other.ip() == listen.ip())
        };
        if let Some((_, location)) = taken.iter().find(|(other, _)| clashes(other)) {
            diagnostics
                .error(
                    section.location("listen"),
                    &section.key_path("listen"),
                    format!("the port {} is already used by another part of weir", listen.port()),
                )
                .other(location.clone(), "it is also used at")
                .help("choose another port");
        }
        taken.push((listen, section.location("listen")));
    }
}
