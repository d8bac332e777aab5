//! Constraints within an output of type `syslog`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_host::Zone;
use weir_host::units::format_size;
use weir_pipeline::config::{Endpoint, SyslogFormat};

use super::check_hec::{pauses, tls, url};
use super::check_listen::without_effect;
use super::choices::SyslogOutputProtocol;
use super::diagnostic::Diagnostics;
use super::section::Section;

/// Maximum size of a message, unless it is a datagram.
const MESSAGE_BYTES: u64 = 64 << 10;
/// Maximum size of a message in a datagram.
const DATAGRAM_BYTES: u64 = 8 << 10;
/// What fits into a UDP datagram over IPv4.
const DATAGRAM_BYTES_MAX: u64 = 65_507;

/// All checks of one output.
pub(crate) fn syslog(section: &Section, diagnostics: &mut Diagnostics) {
    let _is_used_as_it_is = url(section, "address", Endpoint::address, diagnostics);
    let protocol: SyslogOutputProtocol = section.choice("protocol");
    match protocol {
        SyslogOutputProtocol::Tcp | SyslogOutputProtocol::Tls => {
            without_effect(section, &["unanswered_max", "ack_timeout"], diagnostics);
        }
        SyslogOutputProtocol::Udp => {
            without_effect(section, &["framing", "unanswered_max", "ack_timeout"], diagnostics);
            datagram_size(section, diagnostics);
        }
        SyslogOutputProtocol::Relp => without_effect(section, &["framing"], diagnostics),
    }
    tls(section, Some(is_tls(section)), diagnostics);
    pauses(section, diagnostics);
    zone(section, diagnostics);
}

/// Whether the connection is encrypted.
pub(crate) fn is_tls(section: &Section) -> bool {
    match section.choice("protocol") {
        SyslogOutputProtocol::Tcp | SyslogOutputProtocol::Udp => false,
        SyslogOutputProtocol::Tls => true,
        SyslogOutputProtocol::Relp => section.table("tls").is_some(),
    }
}

/// The configured maximum size of a message, or the default of the protocol.
pub(crate) fn message_bytes_max(section: &Section) -> u64 {
    if section.is_set("message_max") {
        return section.size("message_max");
    }
    match section.choice("protocol") {
        SyslogOutputProtocol::Udp => DATAGRAM_BYTES,
        SyslogOutputProtocol::Tcp | SyslogOutputProtocol::Tls | SyslogOutputProtocol::Relp => {
            MESSAGE_BYTES
        }
    }
}

fn datagram_size(section: &Section, diagnostics: &mut Diagnostics) {
    let bytes = message_bytes_max(section);
    if bytes > DATAGRAM_BYTES_MAX {
        let key_path = section.key_path("message_max");
        let message = format!(
            "{key_path} is {}, but a datagram has at most {DATAGRAM_BYTES_MAX} bytes",
            format_size(bytes)
        );
        diagnostics
            .error(section.location("message_max"), &key_path, message)
            .help("choose less, or protocol = \"tcp\"");
    }
}

fn zone(section: &Section, diagnostics: &mut Diagnostics) {
    let key_path = section.key_path("timezone");
    let location = section.location("timezone");
    if let Err(error) = Zone::parse(section.text("timezone").unwrap_or_default()) {
        diagnostics.error(location, &key_path, error.to_string());
    } else if section.is_set("timezone")
        && section.choice::<SyslogFormat>("format") == SyslogFormat::Rfc5424
    {
        let message = format!("{key_path} has no effect: RFC 5424 timestamps include their zone");
        diagnostics.warn(location, &key_path, message).help("remove it");
    }
}
