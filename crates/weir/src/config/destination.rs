//! What everything that connects to others has in common: the keys of its certificates, and the
//! checks and settings of these, of URLs, credentials and headers.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::net::IpAddr;
use std::time::Duration;

use weir_host::{Connector, ConnectorSettings, TlsFiles};
use weir_pipeline::config::{Endpoint, EndpointError, HttpAuth, TlsSettings};

use super::check::{kept_secret, readable_file};
use super::diagnostic::Diagnostics;
use super::field::FieldDefault::{Unset, Value};
use super::field::{Field, ValueType, field};
use super::section::Section;
use super::tree::NodeValue;

/// Client side of TLS.
pub(crate) const TLS: &[Field] = &[
    field(
        "ca_file",
        ValueType::Path,
        Unset("the system's CA certificates only"),
        "PEM file of CA certificates to trust in addition to the system's.",
    ),
    field(
        "cert_file",
        ValueType::Path,
        Unset("no client certificate"),
        "PEM file of the client certificate and its chain. Needs `key_file`.",
    ),
    field(
        "key_file",
        ValueType::Path,
        Unset("no client certificate"),
        "PEM file of the client certificate's private key. Needs `cert_file`.",
    ),
    field(
        "server_name",
        ValueType::Text,
        Unset("the host of the endpoint"),
        "Name for which the server's certificate must be valid.",
    ),
    field(
        "insecure_skip_verify",
        ValueType::Bool,
        Value("false"),
        "Accept any certificate. An attacker on the network path can then read everything; weir \
         reports this in its health.",
    ),
];

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

/// Checks the TLS settings, if there are any; `is_https` is `None` if that is not known.
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

/// Loads the files in the same way as the connection does.
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

/// Checks the file that a secret was read from.
pub(crate) fn secret_file(section: &Section, key: &str, diagnostics: &mut Diagnostics) {
    if let Some(path) = section.secret_file(key) {
        kept_secret(path, section.location(key), &section.key_path(key), diagnostics);
    }
}

/// TLS settings of connections to others.
pub(crate) fn tls_settings(section: &Section) -> TlsSettings {
    section.table("tls").map_or_else(TlsSettings::default, |tls| TlsSettings {
        ca_file: tls.file("ca_file"),
        cert_file: tls.file("cert_file"),
        key_file: tls.file("key_file"),
        server_name: tls.text("server_name").map(str::to_owned),
        insecure_skip_verify: tls.bool("insecure_skip_verify"),
    })
}

/// Checks the credentials of requests.
pub(crate) fn credentials(section: &Section, diagnostics: &mut Diagnostics) {
    for (one, other) in [("user", "password"), ("password", "user")] {
        if section.is_set(one) && !section.is_set(other) {
            let key_path = section.key_path(one);
            diagnostics
                .error(section.location(one), &key_path, format!("{key_path} requires {other}"))
                .help(format!("add {other}, or remove {one}"));
        }
    }
    if section.is_set("bearer") && section.is_set("user") {
        let key_path = section.key_path("bearer");
        diagnostics
            .error(section.location("bearer"), &key_path, "bearer and user cannot be combined")
            .help("remove one of them");
    }
    if section.text("user").is_some_and(|user| user.contains(':')) {
        let key_path = section.key_path("user");
        let message = format!("{key_path} contains a colon, which would end it");
        diagnostics.error(section.location("user"), &key_path, message);
    }
    secret_file(section, "bearer", diagnostics);
    secret_file(section, "password", diagnostics);
}

/// Credentials of requests.
pub(crate) fn http_auth(section: &Section) -> HttpAuth {
    match (section.text("user"), section.secret("password"), section.secret("bearer")) {
        (Some(user), Some(password), _) => HttpAuth::Basic { user: user.to_owned(), password },
        (_, _, Some(token)) => HttpAuth::Bearer(token),
        _ => HttpAuth::None,
    }
}

/// Headers must be names and texts that HTTP can carry, and not those that weir sets itself.
pub(crate) fn header_values(section: &Section, diagnostics: &mut Diagnostics) {
    const OWN: [&str; 4] = ["host", "content-length", "content-encoding", "transfer-encoding"];
    let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for entry in section.values("headers") {
        let key_path = format!("{}.{}", section.key_path("headers"), entry.key);
        let location = Some(entry.node.location.clone());
        let fits = |text: &str| text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        match &entry.node.value {
            NodeValue::Text(text) if fits(text) => {}
            _ => {
                diagnostics
                    .error(
                        location.clone(),
                        &key_path,
                        format!("{key_path} must be text without line breaks"),
                    )
                    .help("headers = { \"X-Tenant\" = \"a\" }");
            }
        }
        if entry.key.is_empty() || !entry.key.chars().all(is_name) {
            diagnostics.error(
                location,
                &key_path,
                format!("{:?} is not a valid header name", entry.key),
            );
        } else if OWN.contains(&entry.key.to_ascii_lowercase().as_str()) {
            diagnostics
                .error(location, &key_path, format!("{key_path} is set by weir itself"))
                .help("remove it");
        }
    }
}

/// The headers whose values are text.
pub(crate) fn headers(section: &Section) -> Vec<(String, String)> {
    let text = |value: &NodeValue| match value {
        NodeValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    let entries = section.values("headers").iter();
    entries.filter_map(|entry| Some((entry.key.clone(), text(&entry.node.value)?))).collect()
}
