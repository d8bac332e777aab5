//! `type = "loggregator"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_host::ServerProtocol;
use weir_pipeline::config::SourceKind;
use weir_pipeline::source::{LOGGREGATOR_LISTENER_BYTES, LoggregatorSource};

use super::SourceDefinition;
use super::listen::{self, LISTEN};
use super::tags::{self, TAGS};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::Value;
use crate::config::field::{Field, ValueType, field};
use crate::config::section::Section;
use crate::config::server;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "Loggregator v2 envelopes over gRPC, from agents and clients.",
        fields: &[LOGGREGATOR, LISTEN],
    },
    check,
    kind: |_, section| Some(SourceKind::Loggregator(Box::new(settings(section)?))),
    memory_bytes,
    endpoint: listen::tcp,
};

const LOGGREGATOR: &[Field] = &[
    listen::address(Value("\"127.0.0.1:3458\"")),
    TAGS,
    field(
        "in_flight_max",
        ValueType::Size { min: 11 << 20, max: 4 << 30 },
        Value("\"32MiB\""),
        "Memory for messages that have not been received completely, over all connections. When it \
         is exhausted, further streams are not read until memory is released.",
    ),
];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    tags::check(section, "tags", diagnostics);
    server::tls(section, diagnostics);
    listen::check(section, false, "add tls.client_ca_file, or allow", diagnostics);
}

fn settings(section: &Section) -> Option<LoggregatorSource> {
    Some(LoggregatorSource {
        listen: listen::settings(section, listen::tcp(section)?, ServerProtocol::Http2),
        in_flight_bytes_max: section.size("in_flight_max") as usize,
        tags: tags::default_tags(section),
    })
}

fn memory_bytes(section: &Section) -> u64 {
    section.size("in_flight_max") + LOGGREGATOR_LISTENER_BYTES + listen::quota_bytes(section)
}
