//! `type = "loggregator"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_pipeline::config::{Compression, Endpoint, OutputKind};
use weir_pipeline::output::LoggregatorOutput;

use super::requests::{self, CONNECTIONS_MAX, REQUEST_TIMEOUT, RETRY_MAX, RETRY_MIN};
use super::{DELIVERY, OutputDefinition};
use crate::config::destination::{TLS, tls};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{Field, MS, ValueType, field, time};
use crate::config::section::Section;
use crate::config::sections::{Sections, texts};
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "Loggregator v2 envelopes over gRPC: to Loggregator's routers and agents, or to a \
              source of type `loggregator` of another weir. Records of other sources are sent as \
              logs. A record counts as delivered once the receiver has read it; records that the \
              receiver then loses in a crash are not detected.",
        fields: &[LOGGREGATOR, DELIVERY],
    },
    check,
    kind: |section| Some(OutputKind::Loggregator(Box::new(settings(section)))),
    written_path: |_| None,
};

const LOGGREGATOR: &[Field] = &[
    field(
        "addresses",
        ValueType::Names,
        Required,
        "Hosts and ports of the receivers: `[\"doppler.service.cf.internal:8082\"]`. Connections are \
         distributed over them, and reopened after five minutes, with a new DNS lookup.",
    ),
    field(
        "batch_size",
        ValueType::Size { min: 1 << 10, max: 64 << 20 },
        Value("\"1MiB\""),
        "Target size of a call. Its messages have at most a hundred envelopes each.",
    ),
    field(
        "batch_age",
        time(MS, Duration::from_mins(5)),
        Value("\"100ms\""),
        "Maximum time that a record waits for a batch to fill.",
    ),
    CONNECTIONS_MAX,
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field(
        "tls",
        ValueType::Table(TLS),
        Unset("no TLS"),
        "TLS settings. Loggregator's receivers require `cert_file` and `key_file`; use `server_name = \
         \"doppler\"` for routers and `server_name = \"metron\"` for agents.",
    ),
];

fn check(section: &Section, _: &Sections, diagnostics: &mut Diagnostics) {
    let key_path = section.key_path("addresses");
    if section.is_empty_list("addresses") {
        let message = format!("{key_path} is empty");
        diagnostics
            .error(section.location("addresses"), &key_path, message)
            .help("write [\"doppler.service.cf.internal:8082\"]");
    }
    let is_encrypted = section.is_set("tls");
    let mut is_local = true;
    for (text, location) in section.list("addresses") {
        match Endpoint::address(text) {
            Ok(endpoint) => is_local &= endpoint.is_local(),
            Err(problem) => {
                diagnostics
                    .error(Some(location.clone()), &key_path, format!("{text:?} {problem}"))
                    .help(problem.help());
            }
        }
    }
    if !is_local && !is_encrypted {
        let message = "all records cross the network unencrypted";
        diagnostics
            .warn(section.location("addresses"), &key_path, message)
            .help("add tls = { ca_file = \"/path\", cert_file = \"/path\", key_file = \"/path\" }");
    }
    tls(section, Some(is_encrypted), diagnostics);
    requests::bounds(section, diagnostics);
}

fn settings(section: &Section) -> LoggregatorOutput {
    LoggregatorOutput {
        addresses: texts(section, "addresses"),
        is_encrypted: section.is_set("tls"),
        requests: requests::settings(section, Compression::None),
    }
}
