//! `type = "socket"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_pipeline::config::{Endpoint, OutputKind};
use weir_pipeline::output::{SocketOutput, SocketProtocol};

use super::requests::{self, RETRY_MAX, RETRY_MIN, WRITE_TIMEOUT};
use super::{DELIVERY, ENCODING, OutputDefinition};
use crate::config::choices::Choice as _;
use crate::config::destination::{TLS, tls, tls_settings, url};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{Field, ValueType, field};
use crate::config::section::Section;
use crate::config::sections::Sections;
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "Lines over TCP or TLS, or one datagram per record over UDP. The protocol has no \
              acknowledgements: a record counts as delivered once the kernel has accepted it, \
              and records in flight when a connection breaks are lost without being noticed.",
        fields: &[SOCKET, DELIVERY],
    },
    check,
    kind: |section| Some(OutputKind::Socket(Box::new(settings(section)?))),
    written_path: |_| None,
};

const SOCKET: &[Field] = &[
    field("address", ValueType::Text, Required, "Host and port: `\"logs.example:514\"`."),
    field(
        "protocol",
        ValueType::Choice(SocketProtocol::WORDS),
        Value("\"tcp\""),
        "Transport protocol.",
    ),
    ENCODING,
    field(
        "datagram_max",
        ValueType::Size { min: 256, max: 65_507 },
        Value("\"8KiB\""),
        "Maximum size of a datagram. The body of a longer record is cut, and the record is counted \
         with the error `cut`. Only for `udp`.",
    ),
    WRITE_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        Unset("the system's CA certificates"),
        "TLS settings for `tls`.",
    ),
];

fn check(section: &Section, _: &Sections, diagnostics: &mut Diagnostics) {
    let _is_used_as_it_is = url(section, "address", Endpoint::address, diagnostics);
    let protocol: SocketProtocol = section.choice("protocol");
    tls(section, Some(protocol == SocketProtocol::Tls), diagnostics);
    requests::pauses(section, diagnostics);
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

fn settings(section: &Section) -> Option<SocketOutput> {
    Some(SocketOutput {
        address: section.text("address")?.to_owned(),
        protocol: section.choice("protocol"),
        encoding: section.choice("encoding"),
        datagram_bytes_max: section.size("datagram_max") as usize,
        write_timeout: section.duration("write_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
        tls: tls_settings(section),
    })
}
