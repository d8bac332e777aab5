//! `[drains]` and `[[drain]]`: checks, and settings.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix; neither a URL nor
//! a certificate is printed.

use std::io;

use weir_host::{PEM_FILE_BYTES_MAX, read_named_file};
use weir_pipeline::config::Endpoint;
use weir_pipeline::drain::binding::DRAIN_SCHEMES;
use weir_pipeline::drain::provider::{ProviderKind, ProviderSettings};
use weir_pipeline::drain::sender::{DeniedAddresses, DrainNetworkSettings};
use weir_pipeline::drain::{Definition, DefinitionError, DrainsPlan, StoredDrain};

use super::destination::{tls, tls_settings, url};
use super::diagnostic::Diagnostics;
use super::section::Section;
use super::sections::Sections;

const PROVIDERS: [&str; 2] = ["binding_cache", "cloud_controller"];

/// Whether there are drains.
pub(crate) fn are_enabled(sections: &Sections) -> bool {
    let drains = sections.table("drains");
    (drains.location.is_some() || !sections.drains.is_empty()) && drains.bool("enabled")
}

/// Memory for drains.
pub(crate) fn memory_bytes(sections: &Sections) -> u64 {
    if are_enabled(sections) { sections.table("drains").size("window") } else { 0 }
}

/// All checks.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    let drains = sections.table("drains");
    if let Err(text) = denied(drains) {
        let message = format!("{text:?} is neither a network nor a range of addresses");
        diagnostics
            .error(drains.location("denied_networks"), "drains.denied_networks", message)
            .help("write \"10.0.0.0/8\", or \"10.0.0.5-10.0.0.9\"");
    }
    for name in PROVIDERS {
        let Some(provider) = drains.table(name) else { continue };
        let endpoint = url(provider, "url", Endpoint::url, diagnostics);
        let is_encrypted = endpoint.as_ref().is_some_and(|endpoint| endpoint.tls);
        if let Some(endpoint) = endpoint
            && !endpoint.tls
            && !endpoint.is_local()
        {
            let message = "certificates and keys of drains cross the network unencrypted";
            diagnostics
                .warn(provider.location("url"), &provider.key_path("url"), message)
                .help("write https://");
        }
        if provider.is_set("tls") {
            tls(provider, Some(is_encrypted), diagnostics);
        }
    }
    for section in &sections.drains {
        if let Err((key, message)) = definition(section) {
            let location = section.location(key).or_else(|| section.location.clone());
            diagnostics.error(location, &section.key_path(key), message);
        }
    }
}

fn denied(drains: &Section) -> Result<DeniedAddresses, &str> {
    DeniedAddresses::parse(drains.list("denied_networks").iter().map(|(text, _)| text.as_str()))
}

/// Reads a drain with its files. The error is about a key.
fn definition(section: &Section) -> Result<Definition, (&'static str, String)> {
    let text = |key| section.text(key).map(str::to_owned);
    let url = match (text("url"), section.secret("url_secret")) {
        (Some(url), None) => url,
        (None, Some(url)) => url.expose().to_owned(),
        (None, None) => return Err(("url", "a drain requires url or url_secret".to_owned())),
        (Some(_), Some(_)) => {
            return Err(("url", "url and url_secret cannot be combined".to_owned()));
        }
    };
    let file = |key: &'static str| match section.file(key) {
        None => Ok(None),
        Some(path) => read_named_file(&path, PEM_FILE_BYTES_MAX)
            .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
            .map(Some)
            .map_err(|error| (key, format!("cannot read {}: {error}", path.display()))),
    };
    let stored = StoredDrain {
        app: text("app"),
        space: text("space"),
        organization: text("organization"),
        url,
        hostname: text("hostname").unwrap_or_default(),
        cert: file("cert_file")?,
        key: file("key_file")?,
        ca: file("ca_file")?,
    };
    stored.define("config").map_err(|error| match error {
        DefinitionError::Url(_) if section.secret("url_secret").is_some() => {
            ("url_secret", format!("url_secret is not a drain URL: write {DRAIN_SCHEMES}"))
        }
        error => ("url", error.to_string()),
    })
}

/// The settings; `None` if there are no drains.
pub(crate) fn settings(sections: &Sections) -> Option<DrainsPlan> {
    if !are_enabled(sections) {
        return None;
    }
    let drains = sections.table("drains");
    Some(DrainsPlan {
        bytes_max: drains.size("size_max"),
        window_bytes: drains.size("window"),
        retry_for: drains.duration("retry_for"),
        with_metadata: drains.bool("metadata"),
        network: DrainNetworkSettings {
            denied: denied(drains).ok()?,
            ca_file: drains.file("ca_file"),
            insecure_skip_verify: drains.bool("insecure_skip_verify"),
            https_in_flight_max: drains.count("https_in_flight").map_or(1, |count| count as usize),
        },
        drains: sections.drains.iter().filter_map(|drain| definition(drain).ok()).collect(),
        providers: PROVIDERS
            .iter()
            .filter_map(|name| provider(drains.table(name)?, name))
            .collect(),
    })
}

fn provider(section: &Section, name: &str) -> Option<ProviderSettings> {
    let kind = match name {
        "binding_cache" => ProviderKind::BindingCache,
        _ if section.count("version") == Some(4) => ProviderKind::CloudControllerV4,
        _ => ProviderKind::CloudController,
    };
    let per_app = section.count("drains_per_app_max").unwrap_or(1);
    Some(ProviderSettings {
        kind,
        endpoint: Endpoint::url(section.text("url")?).ok()?,
        tls: tls_settings(section),
        interval: section.duration("interval"),
        drains_per_app_max: usize::try_from(per_app).unwrap_or(usize::MAX),
    })
}
