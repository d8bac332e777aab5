//! `[loggregator.access]`: checks and settings of access control.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_api::{AccessSettings, UaaClient, UaaSettings};
use weir_pipeline::config::Endpoint;

use super::check_hec::{secret_file, tls, url};
use super::choices::TokenCheck;
use super::diagnostic::Diagnostics;
use super::plan::{Sections, tls_settings};
use super::section::Section;

/// The table, if there is one.
pub(crate) fn section(sections: &Sections) -> Option<&Section> {
    sections.table("loggregator").table("access")
}

/// All checks.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    let Some(section) = section(sections) else { return };
    let mut is_encrypted = false;
    for key in ["uaa", "cloud_controller"] {
        let Some(endpoint) = url(section, key, Endpoint::url, diagnostics) else { continue };
        is_encrypted |= endpoint.tls;
        let key_path = section.key_path(key);
        if endpoint.path.contains('?') {
            let message = format!("{key_path} has a query");
            diagnostics.error(section.location(key), &key_path, message).help("remove it");
        }
        if !endpoint.tls && !endpoint.is_local() {
            let message = "tokens cross the network unencrypted";
            diagnostics.warn(section.location(key), &key_path, message).help("write https://");
        }
    }
    if section.is_set("tls") {
        tls(section, Some(is_encrypted), diagnostics);
    }
    for key in ["tokens", "uaa_secret"] {
        secret_file(section, key, diagnostics);
    }
    if section.secret("tokens").is_some_and(|tokens| tokens.list().is_none()) {
        let message = "a token is empty, so every client could read everything";
        diagnostics
            .error(section.location("tokens"), &section.key_path("tokens"), message.to_owned())
            .help("separate tokens by single commas");
    }
    together(section, diagnostics);
}

/// Keys that only have an effect together.
fn together(section: &Section, diagnostics: &mut Diagnostics) {
    let needs = [
        ("uaa_client", "uaa"),
        ("uaa_secret", "uaa"),
        ("uaa_verify", "uaa"),
        ("uaa_audience", "uaa"),
        ("cloud_controller", "uaa"),
    ];
    let of_client = [("uaa", "uaa_client"), ("uaa", "uaa_secret")];
    let asks = section.choice::<TokenCheck>("uaa_verify") == TokenCheck::CheckToken;
    for (_, key) in of_client.iter().filter(|(_, key)| !asks && section.is_set(key)) {
        let message = format!("{} has no effect if uaa_verify is \"keys\"", section.key_path(key));
        diagnostics
            .error(section.location(key), &section.key_path(key), message)
            .help(format!("remove {key}, or uaa_verify"));
    }
    for (key, other) in needs.iter().chain(of_client.iter().filter(|_| asks)).copied() {
        if section.is_set(key) && !section.is_set(other) {
            let message = format!("{} requires {other}", section.key_path(key));
            diagnostics
                .error(section.location(key), &section.key_path(key), message)
                .help(format!("add {other}, or remove {key}"));
        }
    }
    if !section.is_set("uaa") && !section.is_set("tokens") {
        let message = format!("{} denies all access", section.path);
        diagnostics
            .error(section.location.clone(), &section.path, message)
            .help("add tokens, or uaa with uaa_client and uaa_secret");
    }
}

/// The settings; `None` if something required is missing, which was reported.
pub(crate) fn settings(section: &Section) -> Option<AccessSettings> {
    let endpoint = |key| Endpoint::url(section.text(key)?).ok();
    let mut uaa = None;
    if section.is_set("uaa") {
        let client = match section.choice("uaa_verify") {
            TokenCheck::Keys => None,
            TokenCheck::CheckToken => Some(UaaClient {
                name: section.text("uaa_client")?.to_owned(),
                secret: section.secret("uaa_secret")?,
            }),
        };
        let audience = section.text("uaa_audience").map(str::to_owned);
        uaa = Some(UaaSettings { endpoint: endpoint("uaa")?, client, audience });
    }
    Some(AccessSettings {
        tokens: section.secret("tokens"),
        uaa,
        cloud_controller: endpoint("cloud_controller"),
        tls: tls_settings(section),
    })
}
