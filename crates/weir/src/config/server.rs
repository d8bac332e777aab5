//! What everything that listens has in common: the keys of its certificates, and the checks and
//! settings of these and of the networks that it accepts.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_expr::Network;
use weir_host::{Acceptor, ServerProtocol, ServerTlsFiles};

use super::check::readable_file;
use super::diagnostic::Diagnostics;
use super::field::FieldDefault::{Required, Unset};
use super::field::{Field, ValueType, field};
use super::section::Section;

/// Server side of TLS.
pub(crate) const SERVER_TLS: &[Field] = &[
    field("cert_file", ValueType::Path, Required, "PEM file of the certificate and its chain."),
    field(
        "key_file",
        ValueType::Path,
        Required,
        "PEM file of its private key: RSA of 2048 to 4096 bits, ECDSA (P-256, P-384) or Ed25519.",
    ),
    field(
        "client_ca_file",
        ValueType::Path,
        Unset("no client certificate required"),
        "PEM file of CA certificates: clients must present a certificate issued by one of them.",
    ),
];

/// Of a server that identifies its clients in another way.
pub(crate) const CERTIFICATE: &[Field] = SERVER_TLS.split_at(2).0;

/// Checks the networks in `allow`.
pub(crate) fn networks(section: &Section, diagnostics: &mut Diagnostics) {
    for (text, location) in section.list("allow") {
        if Network::parse(text).is_none() {
            let message = format!("{text:?} is not a network");
            diagnostics
                .error(Some(location.clone()), &section.key_path("allow"), message)
                .help("write an address, or a network such as \"10.0.0.0/8\"");
        }
    }
}

/// The networks that may connect; empty = all.
pub(crate) fn allowed_networks(section: &Section) -> Vec<Network> {
    section.list("allow").iter().filter_map(|(text, _)| Network::parse(text)).collect()
}

/// Checks the certificates, if there are any.
pub(crate) fn tls(section: &Section, diagnostics: &mut Diagnostics) {
    if let Some(tls) = section.table("tls") {
        readable_file(tls, "cert_file", "CERTIFICATE", diagnostics);
        readable_file(tls, "key_file", "PRIVATE KEY", diagnostics);
        if tls.has("client_ca_file") {
            readable_file(tls, "client_ca_file", "CERTIFICATE", diagnostics);
        }
        tls_loads(tls, diagnostics);
    }
}

/// Loads the files in the same way as the listener does.
fn tls_loads(tls: &Section, diagnostics: &mut Diagnostics) {
    let is_wrong = diagnostics.0.iter().any(|d| d.key_path.starts_with(&tls.path));
    let Some(files) = server_tls(tls, ServerProtocol::Http1).filter(|_| !is_wrong) else { return };
    if let Err(error) = Acceptor::new(files, Duration::ZERO) {
        let message = format!("{} cannot be used: {error}", tls.path);
        diagnostics.error(tls.location.clone(), &tls.path, message);
    }
}

/// The certificates of a listener; `None` if a required file is missing.
pub(crate) fn server_tls(tls: &Section, protocol: ServerProtocol) -> Option<ServerTlsFiles> {
    let client_ca_file = tls.has("client_ca_file").then(|| tls.file("client_ca_file")).flatten();
    Some(ServerTlsFiles {
        cert_file: tls.file("cert_file")?,
        key_file: tls.file("key_file")?,
        client_ca_file,
        protocol,
    })
}
