//! Constraints within an output of type `http`, `socket`, `loggregator` or `datadog_metrics`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_pipeline::config::{Endpoint, OutputType, SocketProtocol};

use super::check_hec::{bounds, pauses, secret_file, tls, url};
use super::diagnostic::Diagnostics;
use super::section::Section;
use super::sections::{ComponentSection, Sections};
use super::tree::NodeValue;

/// All checks of one output.
pub(crate) fn http(section: &Section, diagnostics: &mut Diagnostics) {
    let is_https = is_https(section, diagnostics);
    tls(section, is_https, diagnostics);
    bounds(section, diagnostics);
    credentials(section, diagnostics);
    header_values(section, diagnostics);
}

/// All checks of one output of type `socket`.
pub(crate) fn socket(section: &Section, diagnostics: &mut Diagnostics) {
    let _is_used_as_it_is = url(section, "address", Endpoint::address, diagnostics);
    let protocol: SocketProtocol = section.choice("protocol");
    tls(section, Some(protocol == SocketProtocol::Tls), diagnostics);
    pauses(section, diagnostics);
    if section.is_set("datagram_max") && protocol != SocketProtocol::Udp {
        let key_path = section.key_path("datagram_max");
        diagnostics
            .warn(
                section.location("datagram_max"),
                &key_path,
                format!("{key_path} has no effect without protocol = \"udp\""),
            )
            .help("remove it");
    }
}

/// All checks of one output of type `loggregator`.
pub(crate) fn loggregator(section: &Section, diagnostics: &mut Diagnostics) {
    let key_path = section.key_path("addresses");
    if section.is_empty_list("addresses") {
        let message = format!("{key_path} is empty");
        diagnostics
            .error(section.location("addresses"), &key_path, message)
            .help("write [\"doppler.service.cf.internal:8082\"]");
    }
    let is_encrypted = section.is_set("tls");
    let mut is_local = true;
    for (text, location) in section.list("addresses") {
        match Endpoint::address(text) {
            Ok(endpoint) => is_local &= endpoint.is_local(),
            Err(problem) => {
                diagnostics
                    .error(Some(location.clone()), &key_path, format!("{text:?} {problem}"))
                    .help(problem.help());
            }
        }
    }
    if !is_local && !is_encrypted {
        let message = "all records cross the network unencrypted";
        diagnostics
            .warn(section.location("addresses"), &key_path, message)
            .help("add tls = { ca_file = \"/path\", cert_file = \"/path\", key_file = \"/path\" }");
    }
    tls(section, Some(is_encrypted), diagnostics);
    bounds(section, diagnostics);
}

/// All checks of one output of type `datadog_metrics`.
pub(crate) fn datadog_metrics(
    named: &ComponentSection<OutputType>,
    sections: &Sections,
    diagnostics: &mut Diagnostics,
) {
    let section = &named.section;
    let is_https = is_https(section, diagnostics);
    if let Ok(endpoint) = Endpoint::url(section.text("url").unwrap_or_default())
        && endpoint.path.contains('?')
    {
        let key_path = section.key_path("url");
        let message = format!("{key_path} has a query");
        diagnostics.error(section.location("url"), &key_path, message).help("remove it");
    }
    tls(section, is_https, diagnostics);
    bounds(section, diagnostics);
    secret_file(section, "api_key", diagnostics);
    let has_metrics = sections.sources.iter().any(|source| source.component_type.has_envelopes());
    if !has_metrics && !sections.sources.is_empty() {
        let message = format!("{} carries metrics only, and no source receives any", section.path);
        diagnostics
            .error(section.location.clone(), &section.path, message)
            .help("add a source of type \"loggregator\", or send logs to another output");
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

/// Whether it is `https`; `None` if it is not a valid URL.
fn is_https(section: &Section, diagnostics: &mut Diagnostics) -> Option<bool> {
    let url = url(section, "url", Endpoint::url, diagnostics)?;
    if !url.tls && !url.is_local() {
        let message = "all records, and credentials, cross the network unencrypted";
        diagnostics
            .warn(section.location("url"), &section.key_path("url"), message)
            .help("write https:// if the endpoint supports it");
    }
    Some(url.tls)
}

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
