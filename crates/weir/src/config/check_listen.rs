//! Constraints of sources that listen, each on its own and between them.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::net::SocketAddr;
use std::time::Duration;

use weir_expr::Network;
use weir_host::{Acceptor, ServerProtocol, Zone};

use super::check::readable_file;
use super::check_hec::secret_file;
use super::choices::SyslogProtocol;
use super::diagnostic::Diagnostics;
use super::rate_limit;
use super::section::Section;
use super::sections::Sections;
use super::sources::{self, server_tls};
use super::text::SourceLocation;
use super::tree::NodeValue;

/// Maximum number of tags that a source adds, and length of each with its name: they are in every
/// resource, together with the attributes from its sender.
const TAGS_MAX: usize = 32;
const TAG_BYTES_MAX: usize = 128;

/// All checks of a source of type `datadog_intake`.
pub(crate) fn datadog_intake(section: &Section, diagnostics: &mut Diagnostics) {
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
    tls(section, diagnostics);
    networks(section, diagnostics);
    let has_keys = section.secret("api_keys").is_some();
    open_to_all(section, has_keys, "add api_keys", diagnostics);
    rate_limit::check(section, diagnostics);
}

/// All checks of a source of type `loggregator`.
pub(crate) fn loggregator(section: &Section, diagnostics: &mut Diagnostics) {
    tags(section, "tags", diagnostics);
    tls(section, diagnostics);
    networks(section, diagnostics);
    open_to_all(section, false, "add tls.client_ca_file, or allow", diagnostics);
    rate_limit::check(section, diagnostics);
}

/// All checks of a source of type `dropsonde` or `statsd`.
pub(crate) fn dropsonde(section: &Section, diagnostics: &mut Diagnostics) {
    tags(section, "tags", diagnostics);
    networks(section, diagnostics);
    open_to_all(section, false, "add allow", diagnostics);
    rate_limit::check(section, diagnostics);
}

/// Checks the tags that a source adds to envelopes.
pub(crate) fn tags(section: &Section, key: &str, diagnostics: &mut Diagnostics) {
    for entry in section.values(key) {
        let is_tag = match &entry.node.value {
            NodeValue::Text(text) => entry.key.len() + text.len() <= TAG_BYTES_MAX,
            _ => false,
        };
        if !is_tag || entry.key.is_empty() {
            let key_path = format!("{}.{}", section.key_path(key), entry.key);
            let message = format!("{key_path} must be a name and a short text");
            diagnostics
                .error(Some(entry.node.location.clone()), &key_path, message)
                .help(format!("{key} = {{ deployment = \"cf\" }}"));
        }
    }
    if section.values(key).len() > TAGS_MAX {
        let key_path = section.key_path(key);
        let message = format!("{key_path} has more than {TAGS_MAX} tags");
        diagnostics
            .error(section.location(key), &key_path, message)
            .help("tag records with a rule instead");
    }
}

/// The tags that a source adds to envelopes.
pub(crate) fn default_tags(section: &Section) -> Vec<(String, String)> {
    tags_of(section, "tags")
}

/// The texts in a table of tags.
pub(crate) fn tags_of(section: &Section, key: &str) -> Vec<(String, String)> {
    let text = |value: &NodeValue| match value {
        NodeValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    let entries = section.values(key).iter();
    entries.filter_map(|entry| Some((entry.key.clone(), text(&entry.node.value)?))).collect()
}

/// All checks of a source of type `syslog`.
pub(crate) fn syslog(section: &Section, diagnostics: &mut Diagnostics) {
    let protocol: SyslogProtocol = section.choice("protocol");
    match protocol {
        SyslogProtocol::Tcp | SyslogProtocol::Relp => {
            required(section, "listen", "an address such as \"127.0.0.1:6514\"", diagnostics);
            without_effect(section, &["path", "path_mode", "receive_buffer"], diagnostics);
        }
        SyslogProtocol::Udp => {
            required(section, "listen", "an address such as \"127.0.0.1:514\"", diagnostics);
            let keys = ["path", "path_mode", "framing", "connections_max", "tls"];
            without_effect(section, &keys, diagnostics);
            without_effect(section, &["connections_per_address_max"], diagnostics);
        }
        SyslogProtocol::UnixStream | SyslogProtocol::UnixDatagram => {
            required(section, "path", "a path such as \"/run/weir/log.sock\"", diagnostics);
            let keys = ["listen", "tls", "allow", "receive_buffer", "connections_per_address_max"];
            without_effect(section, &keys, diagnostics);
            without_effect(section, &["threads"], diagnostics);
        }
    }
    if protocol == SyslogProtocol::Relp {
        without_effect(section, &["framing"], diagnostics);
    }
    if let Err(error) = Zone::parse(section.text("timezone").unwrap_or_default()) {
        let location = section.location("timezone");
        diagnostics.error(location, &section.key_path("timezone"), error.to_string());
    }
    if socket_mode(section).is_none() {
        let message = format!("{} is not a mode in octal", section.key_path("path_mode"));
        diagnostics
            .error(section.location("path_mode"), &section.key_path("path_mode"), message)
            .help("write \"0666\" so that every user may send, or \"0660\" for a group");
    }
    tls(section, diagnostics);
    networks(section, diagnostics);
    open_to_all(section, false, "add allow", diagnostics);
    rate_limit::check(section, diagnostics);
}

/// Permissions of a Unix socket.
pub(crate) fn socket_mode(section: &Section) -> Option<u32> {
    let digits = section.text("path_mode")?;
    u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777)
}

fn required(section: &Section, key: &str, example: &str, diagnostics: &mut Diagnostics) {
    if !section.is_set(key) {
        let key_path = section.key_path(key);
        let message = format!("{key_path} is missing");
        diagnostics
            .error(section.location.clone(), &key_path, message)
            .help(format!("write {example}"));
    }
}

pub(crate) fn without_effect(section: &Section, keys: &[&str], diagnostics: &mut Diagnostics) {
    for key in keys.iter().filter(|key| section.is_set(key)) {
        let key_path = section.key_path(key);
        let protocol = section.word("protocol").unwrap_or_default();
        diagnostics
            .warn(
                section.location(key),
                &key_path,
                format!("{key_path} has no effect with protocol = \"{protocol}\""),
            )
            .help("remove it");
    }
}

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

fn open_to_all(section: &Section, has_keys: bool, remedy: &str, diagnostics: &mut Diagnostics) {
    let Some(listen) = section.listen("listen") else { return };
    let knows_clients = has_keys
        || !section.list("allow").is_empty()
        || section.has("tls")
            && section.table("tls").is_some_and(|tls| tls.is_set("client_ca_file"));
    if !listen.ip().is_loopback() && !knows_clients {
        let message = format!("any client that reaches {listen} can send records");
        diagnostics
            .warn(section.location("listen"), &section.key_path("listen"), message)
            .help(format!("{remedy}, or listen on an address that only trusted senders can reach"));
    }
}

/// Loads the files in the same way as the source does.
fn tls_loads(tls: &Section, diagnostics: &mut Diagnostics) {
    let is_wrong = diagnostics.0.iter().any(|d| d.key_path.starts_with(&tls.path));
    let Some(files) = server_tls(tls, ServerProtocol::Http1).filter(|_| !is_wrong) else { return };
    if let Err(error) = Acceptor::new(files, Duration::ZERO) {
        let message = format!("{} cannot be used: {error}", tls.path);
        diagnostics.error(tls.location.clone(), &tls.path, message);
    }
}

/// A socket that a component binds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Bound {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Path(String),
}

impl Bound {
    /// The key that defines it.
    fn key(&self) -> &'static str {
        match self {
            Self::Tcp(_) | Self::Udp(_) => "listen",
            Self::Path(_) => "path",
        }
    }

    /// Whether only one of them can be bound.
    fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) | (Self::Udp(one), Self::Udp(other)) => {
                let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
                one.port() == other.port() && (is_any || one.ip() == other.ip())
            }
            (Self::Path(one), Self::Path(other)) => one == other,
            (Self::Tcp(_) | Self::Udp(_) | Self::Path(_), _) => false,
        }
    }
}

/// No two components may listen on the same port of the same address, or at the same path.
pub(crate) fn listen_twice(sections: &Sections, diagnostics: &mut Diagnostics) {
    let api = sections.table("api");
    let mut taken: Vec<(Bound, Option<SourceLocation>)> = Vec::new();
    if let Some(listen) = api.listen("listen").filter(|_| api.bool("enabled")) {
        taken.push((Bound::Tcp(listen), api.location("listen")));
    }
    let services = super::readers::ports(sections)
        .map(|(key, listen, location)| (key, Bound::Tcp(listen), location));
    let sources = sections.sources.iter().filter_map(|source| {
        let bound = sources::socket(source)?;
        let key = bound.key();
        Some((source.section.key_path(key), bound, source.section.location(key)))
    });
    for (key, bound, place) in sources.chain(services) {
        let (what, remedy) = match &bound {
            Bound::Tcp(address) | Bound::Udp(address) => {
                (format!("the port {}", address.port()), "choose another port")
            }
            Bound::Path(path) => (path.clone(), "choose another path"),
        };
        if let Some((_, location)) = taken.iter().find(|(other, _)| bound.clashes(other)) {
            diagnostics
                .error(
                    place.clone(),
                    &key,
                    format!("{what} is already used by another part of weir"),
                )
                .other(location.clone(), "it is also used at")
                .help(remedy);
        }
        taken.push((bound, place));
    }
}
