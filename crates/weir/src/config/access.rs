//! `[api.access]` and `[loggregator.access]`: checks and settings of access control by tokens.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_api::{AccessSettings, ApiAccess, UaaClient, UaaSettings};
use weir_host::Secret;
use weir_pipeline::config::Endpoint;

use super::choices::TokenCheck;
use super::destination::{secret_file, tls, tls_settings, url};
use super::diagnostic::Diagnostics;
use super::section::Section;
use super::sections::Sections;

/// Minimum length of the tokens of the API: shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// The table of the API, if there is one.
pub(crate) fn of_api(sections: &Sections) -> Option<&Section> {
    sections.table("api").table("access")
}

/// The table of the services for readers, if there is one.
pub(crate) fn of_readers(sections: &Sections) -> Option<&Section> {
    sections.table("loggregator").table("access")
}

/// All checks.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    if let Some(section) = of_api(sections) {
        checked(section, &["tokens", "read_tokens"], diagnostics);
        different(section, diagnostics);
    }
    if let Some(section) = of_readers(sections) {
        checked(section, &["tokens"], diagnostics);
    }
}

/// Checks a table with these lists of tokens.
fn checked(section: &Section, lists: &[&'static str], diagnostics: &mut Diagnostics) {
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
    secret_file(section, "uaa_secret", diagnostics);
    for key in lists {
        secret_file(section, key, diagnostics);
        if section.secret(key).is_some_and(|tokens| tokens.list().is_none()) {
            let message = "a token is empty, so every client could read everything";
            diagnostics
                .error(section.location(key), &section.key_path(key), message.to_owned())
                .help("separate tokens by single commas");
        }
        usable(section, key, diagnostics);
    }
    together(section, lists, diagnostics);
}

/// Checks that no token is in both lists of the API: it would be unclear what it permits.
fn different(section: &Section, diagnostics: &mut Diagnostics) {
    let lists = ["tokens", "read_tokens"].map(|key| section.secret(key));
    let [all, read] =
        lists.each_ref().map(|list| list.as_ref().and_then(Secret::list).unwrap_or_default());
    if all.iter().any(|token| read.contains(token)) {
        let message = "a token is also in tokens, which permit more".to_owned();
        diagnostics
            .error(section.location("read_tokens"), &section.key_path("read_tokens"), message)
            .help("remove it from one of the lists");
    }
}

/// Checks that tokens can be sent, and cannot be guessed.
fn usable(section: &Section, key: &str, diagnostics: &mut Diagnostics) {
    let tokens = section.secret(key);
    let tokens = tokens.as_ref().and_then(Secret::list).unwrap_or_default();
    let mut report = |message| {
        diagnostics
            .error(section.location(key), &section.key_path(key), message)
            .help("for example: openssl rand -hex 32");
    };
    if tokens.iter().any(|token| token.to_ascii_lowercase().starts_with("bearer ")) {
        return report("a token begins with \"bearer\", which is not a part of it".to_owned());
    }
    if tokens.iter().any(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        let message = "a token contains a space or a character that is not ASCII: no request can \
                       send it";
        report(message.to_owned());
    }
    if tokens.iter().any(|token| (1..TOKEN_BYTES_MIN).contains(&token.len())) {
        report(format!("a token is shorter than {TOKEN_BYTES_MIN} characters: it can be guessed"));
    }
}

/// Keys that only have an effect together.
fn together(section: &Section, lists: &[&str], diagnostics: &mut Diagnostics) {
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
    if !section.is_set("uaa") && !lists.iter().any(|key| section.is_set(key)) {
        let message = format!("{} denies all access", section.path);
        diagnostics
            .error(section.location.clone(), &section.path, message)
            .help("add tokens, or uaa with uaa_client and uaa_secret");
    }
}

/// The settings of the API; `None` if something required is missing, which was reported.
pub(crate) fn api_settings(section: &Section) -> Option<ApiAccess> {
    Some(ApiAccess { tokens: settings(section)?, read_tokens: section.secret("read_tokens") })
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
