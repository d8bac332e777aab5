//! Constraints within an output of type `splunk_hec`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::net::IpAddr;
use std::time::Duration;

use weir_host::units::{format_duration, format_size};
use weir_host::{Connector, ConnectorSettings, TlsFiles};
use weir_pipeline::config::{Endpoint, EndpointError};

use super::check::{kept_secret, readable_file};
use super::diagnostic::Diagnostics;
use super::section::Section;

/// All checks of one output.
pub(crate) fn splunk_hec(section: &Section, diagnostics: &mut Diagnostics) {
    let is_https = endpoint(section, diagnostics);
    tls(section, is_https, diagnostics);
    bounds(section, diagnostics);
    no_effect(section, diagnostics);
    index(section, diagnostics);
    secret_file(section, "token", diagnostics);
}

/// The URL of a key, or an error.
pub(crate) fn url(
    section: &Section,
    key: &str,
    parse: impl FnOnce(&str) -> Result<Endpoint, EndpointError>,
    diagnostics: &mut Diagnostics,
) -> Option<Endpoint> {
    match parse(section.text(key)?) {
        Ok(url) => Some(url),
        Err(problem) => {
            let key_path = section.key_path(key);
            let message = format!("{key_path} {problem}");
            let diagnostic = diagnostics.error(section.location(key), &key_path, message);
            diagnostic.help(problem.help());
            if problem == EndpointError::Credentials {
                diagnostic.secret();
            }
            None
        }
    }
}

/// Whether it is `https`; `None` if it is not a valid URL.
fn endpoint(section: &Section, diagnostics: &mut Diagnostics) -> Option<bool> {
    let url = url(section, "endpoint", Endpoint::collector, diagnostics)?;
    let text = section.text("endpoint").unwrap_or_default();
    let key_path = section.key_path("endpoint");
    let location = section.location("endpoint");
    if url.path.contains("/services/collector") {
        let (front, _) = text.split_once("/services/collector").unwrap_or((text, ""));
        diagnostics
            .error(
                location.clone(),
                &key_path,
                format!("{key_path} ends in the collector's own path"),
            )
            .help(format!("weir appends /services/collector itself: write {front:?}"));
    }
    if !url.tls && !url.is_local() {
        diagnostics
            .warn(location, &key_path, "the token and all records cross the network unencrypted")
            .help("write https:// if the collector supports it");
    }
    Some(url.tls)
}

pub(crate) fn tls(section: &Section, is_https: Option<bool>, diagnostics: &mut Diagnostics) {
    let Some(tls) = section.table("tls") else { return };
    if is_https == Some(false) {
        diagnostics
            .error(
                section.location("tls"),
                &tls.path,
                format!("{} is set, but the connection is not encrypted", tls.path),
            )
            .help("write https:// (for a socket: protocol = \"tls\"), or remove the TLS settings");
    }
    readable_file(tls, "ca_file", "CERTIFICATE", diagnostics);
    readable_file(tls, "cert_file", "CERTIFICATE", diagnostics);
    readable_file(tls, "key_file", "PRIVATE KEY", diagnostics);
    for (one, other) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
        if tls.is_set(one) && !tls.is_set(other) {
            diagnostics
                .error(
                    tls.location(one),
                    &tls.key_path(one),
                    format!("{} requires {other}", tls.key_path(one)),
                )
                .help(format!("add {other} = \"/path\", or remove {one}"));
        }
    }
    server_name(tls, diagnostics);
    tls_loads(tls, is_https, diagnostics);
    if tls.bool("insecure_skip_verify") {
        let key_path = tls.key_path("insecure_skip_verify");
        let message = "any certificate is accepted: an attacker on the network path can read the \
                       token and all records";
        diagnostics
            .warn(tls.location("insecure_skip_verify"), &key_path, message)
            .help("set ca_file to the server's CA certificate instead");
    }
}

/// Loads the files in the same way as the output does.
fn tls_loads(tls: &Section, is_https: Option<bool>, diagnostics: &mut Diagnostics) {
    let is_wrong = |path: &str| path.starts_with(&tls.path);
    if is_https != Some(true) || diagnostics.0.iter().any(|d| is_wrong(&d.key_path)) {
        return;
    }
    let settings = ConnectorSettings {
        host: "localhost".to_owned(),
        port: 443,
        tls: Some(TlsFiles {
            ca_file: tls.file("ca_file"),
            cert_file: tls.file("cert_file"),
            key_file: tls.file("key_file"),
            server_name: tls.text("server_name").map(str::to_owned),
            insecure_skip_verify: tls.bool("insecure_skip_verify"),
            is_http_2: false,
        }),
        connect_timeout: Duration::from_secs(1),
        handshake_timeout: Duration::from_secs(1),
    };
    if let Err(error) = Connector::new(settings) {
        let message = format!("{} cannot be used: {error}", tls.path);
        diagnostics.error(tls.location.clone(), &tls.path, message);
    }
}

pub(crate) fn bounds(section: &Section, diagnostics: &mut Diagnostics) {
    let (batch, window) = (section.size("batch_size"), section.size("window"));
    if batch != 0 && window != 0 && batch > window {
        let key = if section.is_set("batch_size") { "batch_size" } else { "window" };
        let message = format!(
            "batch_size {} of {} exceeds its window {}",
            format_size(batch),
            section.path,
            format_size(window),
        );
        diagnostics
            .error(section.location(key), &section.key_path(key), message)
            .help("increase window to at least the size of one request");
    }
    pauses(section, diagnostics);
}

pub(crate) fn pauses(section: &Section, diagnostics: &mut Diagnostics) {
    let (min, max) = (section.duration("retry_min"), section.duration("retry_max"));
    if !max.is_zero() && min > max {
        let key = if section.is_set("retry_max") { "retry_max" } else { "retry_min" };
        let message = format!(
            "retry_min {} of {} exceeds its retry_max {}",
            format_duration(min),
            section.path,
            format_duration(max),
        );
        diagnostics.error(section.location(key), &section.key_path(key), message);
    }
}

/// With a name that no index can have, every record would be rejected.
fn index(section: &Section, diagnostics: &mut Diagnostics) {
    let Some(index) = section.text("index") else { return };
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    if !index.chars().all(allowed) || index.starts_with('-') {
        let key_path = section.key_path("index");
        diagnostics
            .error(
                section.location("index"),
                &key_path,
                format!("{key_path}: {index:?} is not a valid index name"),
            )
            .help("index names use the characters a-z, 0-9, _ and -");
    }
}

/// The name that the server's certificate must be valid for.
fn server_name(tls: &Section, diagnostics: &mut Diagnostics) {
    let Some(name) = tls.text("server_name") else { return };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.parse::<IpAddr>().is_err() && !name.chars().all(allowed) {
        let key_path = tls.key_path("server_name");
        diagnostics
            .error(tls.location("server_name"), &key_path, format!("{key_path} is {name:?}"))
            .help("write a name or an IP address, without scheme and port");
    }
}

/// Keys that have no effect.
fn no_effect(section: &Section, diagnostics: &mut Diagnostics) {
    if section.is_set("ack_timeout") && !section.bool("indexer_ack") {
        let key_path = section.key_path("ack_timeout");
        diagnostics
            .warn(
                section.location("ack_timeout"),
                &key_path,
                format!("{key_path} has no effect without indexer_ack"),
            )
            .help("add indexer_ack = true, or remove it");
    }
}

/// The file that a secret was read from.
pub(crate) fn secret_file(section: &Section, key: &str, diagnostics: &mut Diagnostics) {
    if let Some(path) = section.secret_file(key) {
        kept_secret(path, section.location(key), &section.key_path(key), diagnostics);
    }
}
