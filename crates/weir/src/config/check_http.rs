//! What must hold within an output of type `http` or `socket`.
//!
//! Invariant: as in `check`: only reads, names the place and says what would be right.

use super::check_hec::{bounds, parse_url, pauses, secret_file, tls};
use super::diagnostic::Diagnostics;
use super::section::Section;
use super::tree::NodeValue;

/// All checks of one output.
pub(crate) fn http(section: &Section, diagnostics: &mut Diagnostics) {
    let is_https = url(section, diagnostics);
    tls(section, is_https, diagnostics);
    bounds(section, diagnostics);
    credentials(section, diagnostics);
    header_values(section, diagnostics);
}

/// All checks of one output of type `socket`.
pub(crate) fn socket(section: &Section, diagnostics: &mut Diagnostics) {
    if let Some(address) = section.text("address") {
        let key_path = section.key_path("address");
        let has_port = parse_url(&format!("http://{address}")).is_ok_and(|url| {
            url.path.is_empty() && url.user.is_none() && !address.ends_with(url.host)
        });
        if !has_port {
            diagnostics
                .error(
                    section.place("address"),
                    &key_path,
                    format!("{key_path} {address:?} is no host with a port"),
                )
                .help("write \"logs.example:514\" or \"[2001:db8::1]:514\"");
        }
    }
    tls(section, Some(section.word("protocol") == "tls"), diagnostics);
    pauses(section, diagnostics);
    if section.is_set("datagram_max") && section.word("protocol") != "udp" {
        let key_path = section.key_path("datagram_max");
        diagnostics
            .warn(
                section.place("datagram_max"),
                &key_path,
                format!("{key_path} has no effect without protocol = \"udp\""),
            )
            .help("take it out");
    }
}

/// The headers that are texts.
pub(crate) fn headers(section: &Section) -> Vec<(String, String)> {
    let text = |value: &NodeValue| match value {
        NodeValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    let entries = section.values("headers").iter();
    entries.filter_map(|entry| Some((entry.key.clone(), text(&entry.node.value)?))).collect()
}

/// Whether it is `https`; none when it is no URL.
fn url(section: &Section, diagnostics: &mut Diagnostics) -> Option<bool> {
    let text = section.text("url")?;
    let key_path = section.key_path("url");
    let place = section.place("url");
    // Here a query is part of the address.
    let bare = text.split('?').next().unwrap_or(text);
    let url = match parse_url(bare) {
        Ok(url) => url,
        Err((what, help)) => {
            diagnostics.error(place, &key_path, format!("{key_path} {what}")).help(help);
            return None;
        }
    };
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii() || c == '#') {
        diagnostics
            .error(place.clone(), &key_path, format!("{key_path} has characters that no URL has"))
            .help("take out spaces, accents and everything from # on");
    }
    if url.user.is_some() {
        let message = format!("{key_path} has a user name or password in it");
        diagnostics
            .error(place.clone(), &key_path, message)
            .help("write user and password as keys of their own")
            .secret();
    }
    if !url.is_https && !url.is_local() {
        diagnostics
            .warn(place, &key_path, "all records, and credentials, cross the network unencrypted")
            .help("write https:// where the endpoint speaks it");
    }
    Some(url.is_https)
}

fn credentials(section: &Section, diagnostics: &mut Diagnostics) {
    for (one, other) in [("user", "password"), ("password", "user")] {
        if section.is_set(one) && !section.is_set(other) {
            let key_path = section.key_path(one);
            diagnostics
                .error(section.place(one), &key_path, format!("{key_path} needs {other} too"))
                .help(format!("add {other}, or take {one} out"));
        }
    }
    if section.is_set("bearer") && section.is_set("user") {
        let key_path = section.key_path("bearer");
        diagnostics
            .error(section.place("bearer"), &key_path, "bearer and user cannot both be sent")
            .help("take one of them out");
    }
    if section.text("user").is_some_and(|user| user.contains(':')) {
        let key_path = section.key_path("user");
        let message = format!("{key_path} has a colon, which would end it");
        diagnostics.error(section.place("user"), &key_path, message);
    }
    secret_file(section, "bearer", diagnostics);
    secret_file(section, "password", diagnostics);
}

/// Headers are names and texts that HTTP can carry, and not those that weir must write itself.
fn header_values(section: &Section, diagnostics: &mut Diagnostics) {
    const OWN: [&str; 4] = ["host", "content-length", "content-encoding", "transfer-encoding"];
    let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for entry in section.values("headers") {
        let key_path = format!("{}.{}", section.key_path("headers"), entry.key);
        let place = Some(entry.node.place.clone());
        let fits = |text: &str| text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        match &entry.node.value {
            NodeValue::Text(text) if fits(text) => {}
            _ => {
                diagnostics
                    .error(
                        place.clone(),
                        &key_path,
                        format!("{key_path} must be text without line ends"),
                    )
                    .help("headers = { \"X-Tenant\" = \"a\" }");
            }
        }
        if entry.key.is_empty() || !entry.key.chars().all(is_name) {
            diagnostics.error(place, &key_path, format!("no header can be called {:?}", entry.key));
        } else if OWN.contains(&entry.key.to_ascii_lowercase().as_str()) {
            diagnostics
                .error(place, &key_path, format!("{key_path} is written by weir itself"))
                .help("take it out");
        }
    }
}
