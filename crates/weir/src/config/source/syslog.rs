//! `type = "syslog"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_host::{ServerProtocol, Zone};
use weir_model::limits::LINE_BYTES_MAX;
use weir_pipeline::config::{ListenEndpoint, SourceKind, SyslogFramingKind};
use weir_pipeline::source::SyslogSource;

use super::SourceDefinition;
use super::listen::{self, LISTEN, RECEIVE_BUFFER, THREADS};
use crate::config::check::without_effect;
use crate::config::choices::{Choice as _, SyslogProtocol};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Unset, Value};
use crate::config::field::{Field, ValueType, field};
use crate::config::section::Section;
use crate::config::server;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "Syslog (RFC 5424 and RFC 3164) over UDP, TCP, TLS, RELP or a Unix socket. Only \
              RELP acknowledges messages; with the others, a crash loses at most what arrived \
              within the last 20 ms, and the loss is counted.",
        fields: &[SYSLOG, THREADS, LISTEN],
    },
    check,
    kind: |_, section| Some(SourceKind::Syslog(Box::new(settings(section)?))),
    memory_bytes: listen::memory_bytes,
    endpoint,
};

const SYSLOG: &[Field] = &[
    field(
        "protocol",
        ValueType::Choice(SyslogProtocol::WORDS),
        Value("\"tcp\""),
        "Transport protocol.",
    ),
    listen::address(Unset("required, except for Unix sockets")),
    field(
        "path",
        ValueType::Path,
        Unset("required for Unix sockets"),
        "Path of the Unix socket. An existing socket is replaced if no process listens on it.",
    ),
    field(
        "path_mode",
        ValueType::Text,
        Value("\"0666\""),
        "Permissions of the Unix socket, in octal.",
    ),
    field(
        "framing",
        ValueType::Choice(SyslogFramingKind::WORDS),
        Value("\"auto\""),
        "How messages are delimited in a connection.",
    ),
    field(
        "message_max",
        ValueType::Size { min: 480, max: LINE_BYTES_MAX as u64 },
        Value("\"64KiB\""),
        "Maximum length of a message; a longer one is truncated, and the missing bytes are counted.",
    ),
    field(
        "timezone",
        ValueType::Text,
        Value("\"UTC\""),
        "Time zone of timestamps without one, as in RFC 3164: a name such as `Europe/Berlin`, or an \
         offset such as `+02:00`.",
    ),
    RECEIVE_BUFFER,
];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
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
    server::tls(section, diagnostics);
    listen::check(section, false, "add allow", diagnostics);
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

/// Permissions of a Unix socket.
fn socket_mode(section: &Section) -> Option<u32> {
    let digits = section.text("path_mode")?;
    u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777)
}

fn endpoint(section: &Section) -> Option<ListenEndpoint> {
    let path = || Some((section.text("path")?.into(), socket_mode(section).unwrap_or_default()));
    match section.choice("protocol") {
        SyslogProtocol::Tcp | SyslogProtocol::Relp => listen::tcp(section),
        SyslogProtocol::Udp => listen::udp(section),
        SyslogProtocol::UnixStream => {
            let (path, mode) = path()?;
            Some(ListenEndpoint::UnixStream { path, mode })
        }
        SyslogProtocol::UnixDatagram => {
            let (path, mode) = path()?;
            Some(ListenEndpoint::UnixDatagram { path, mode })
        }
    }
}

fn settings(section: &Section) -> Option<SyslogSource> {
    Some(SyslogSource {
        listen: listen::settings(section, endpoint(section)?, ServerProtocol::Http1),
        is_relp: section.choice::<SyslogProtocol>("protocol") == SyslogProtocol::Relp,
        framing: section.choice("framing"),
        message_bytes_max: section.size("message_max") as usize,
        zone: Zone::parse(section.text("timezone")?).ok()?,
    })
}
