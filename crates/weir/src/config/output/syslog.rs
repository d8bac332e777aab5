//! `type = "syslog"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_codec::RELP_UNANSWERED_MAX;
use weir_host::Zone;
use weir_host::units::format_size;
use weir_model::limits::LINE_BYTES_MAX;
use weir_pipeline::config::{Endpoint, OutputKind, SyslogFormat, SyslogOutputFraming};
use weir_pipeline::output::{SyslogOutput, SyslogTransport};

use super::requests::{self, RETRY_MAX, RETRY_MIN, WRITE_TIMEOUT};
use super::{DELIVERY, OutputDefinition};
use crate::config::check::without_effect;
use crate::config::choices::{Choice as _, SyslogOutputDelimiter, SyslogOutputProtocol};
use crate::config::destination::{TLS, tls, tls_settings, url};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{DAY, Field, ValueType, field, time};
use crate::config::section::Section;
use crate::config::sections::Sections;
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "Syslog (RFC 5424 or RFC 3164) over TCP, TLS, UDP or RELP. Only RELP acknowledges \
              messages; with the others, a record counts as delivered as in `socket`.",
        fields: &[SYSLOG, DELIVERY],
    },
    check,
    kind: |section| Some(OutputKind::Syslog(Box::new(settings(section)?))),
    written_path: |_| None,
};

const SYSLOG: &[Field] = &[
    field("address", ValueType::Text, Required, "Host and port: `\"logs.example:514\"`."),
    field(
        "protocol",
        ValueType::Choice(SyslogOutputProtocol::WORDS),
        Value("\"tcp\""),
        "Transport protocol.",
    ),
    field(
        "format",
        ValueType::Choice(SyslogFormat::WORDS),
        Value("\"rfc5424\""),
        "Format of the messages. A record that arrived as a message of this format, and that no \
         rule has changed, is sent byte for byte as it arrived.",
    ),
    field(
        "framing",
        ValueType::Choice(SyslogOutputDelimiter::WORDS),
        Unset("`newline` for `tcp`, which every receiver accepts; `octet_counted` for `tls`"),
        "How messages are delimited in a connection of `tcp` or `tls`.",
    ),
    field(
        "message_max",
        ValueType::Size { min: 480, max: LINE_BYTES_MAX as u64 },
        Unset("`64KiB`, and `8KiB` for `udp`"),
        "Maximum size of a message. A longer one is cut, and counted with the error `cut`. At most \
         65507 bytes for `udp`.",
    ),
    field(
        "timezone",
        ValueType::Text,
        Value("\"UTC\""),
        "Time zone of timestamps with `rfc3164`, which do not include it: a name such as \
         `Europe/Berlin`, or an offset such as `+02:00`.",
    ),
    field(
        "unanswered_max",
        ValueType::Count { min: 1, max: RELP_UNANSWERED_MAX as u64 },
        Value("128"),
        "Maximum number of messages that wait for their acknowledgement. Only for `relp`.",
    ),
    field(
        "ack_timeout",
        time(Duration::from_millis(100), DAY),
        Value("\"90s\""),
        "How long to wait for the acknowledgement of a message before the connection is closed and \
         all unacknowledged messages are sent again. Only for `relp`.",
    ),
    WRITE_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        Unset("the system's CA certificates; with `relp`, no TLS"),
        "TLS settings for `tls` and `relp`. With `relp`, `tls = {}` is sufficient to use TLS.",
    ),
];

/// Maximum size of a message, unless it is a datagram.
const MESSAGE_BYTES: u64 = 64 << 10;

/// Maximum size of a message in a datagram.
const DATAGRAM_BYTES: u64 = 8 << 10;

/// What fits into a UDP datagram over IPv4.
const DATAGRAM_BYTES_MAX: u64 = 65_507;

fn check(section: &Section, _: &Sections, diagnostics: &mut Diagnostics) {
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
    requests::pauses(section, diagnostics);
    zone(section, diagnostics);
}

/// Whether the connection is encrypted.
fn is_tls(section: &Section) -> bool {
    match section.choice("protocol") {
        SyslogOutputProtocol::Tcp | SyslogOutputProtocol::Udp => false,
        SyslogOutputProtocol::Tls => true,
        SyslogOutputProtocol::Relp => section.table("tls").is_some(),
    }
}

/// The configured maximum size of a message, or the default of the protocol.
fn message_bytes_max(section: &Section) -> u64 {
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

fn settings(section: &Section) -> Option<SyslogOutput> {
    let framing = |default: SyslogOutputDelimiter| {
        let delimiter = section.optional_choice("framing").unwrap_or(default);
        SyslogTransport::Stream(SyslogOutputFraming::from(delimiter))
    };
    let transport = match section.choice("protocol") {
        SyslogOutputProtocol::Tcp => framing(SyslogOutputDelimiter::Newline),
        SyslogOutputProtocol::Tls => framing(SyslogOutputDelimiter::OctetCounted),
        SyslogOutputProtocol::Udp => SyslogTransport::Datagrams,
        SyslogOutputProtocol::Relp => SyslogTransport::Relp {
            unanswered_max: section.count("unanswered_max").unwrap_or(1) as usize,
            ack_timeout: section.duration("ack_timeout"),
        },
    };
    Some(SyslogOutput {
        address: section.text("address")?.to_owned(),
        transport,
        tls: is_tls(section).then(|| tls_settings(section)),
        format: section.choice("format"),
        zone: Zone::parse(section.text("timezone")?).ok()?,
        message_bytes_max: message_bytes_max(section) as usize,
        write_timeout: section.duration("write_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
    })
}
