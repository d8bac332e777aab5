//! `type = "datadog_intake"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_host::ServerProtocol;
use weir_pipeline::config::SourceKind;
use weir_pipeline::source::{DatadogIntake, LISTENER_BYTES};

use super::SourceDefinition;
use super::listen::{self, LISTEN, THREADS};
use crate::config::destination::secret_file;
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{Field, ValueType, field};
use crate::config::section::Section;
use crate::config::server;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "Logs that Datadog's agents and client libraries send over HTTP (`POST \
              /api/v2/logs`, and `/v1/input` for older ones). A request is acknowledged once all \
              its records are on stable storage.",
        fields: &[DATADOG_INTAKE, THREADS, LISTEN],
    },
    check,
    kind: |_, section| Some(SourceKind::DatadogIntake(settings(section)?)),
    memory_bytes,
    endpoint: listen::tcp,
};

const DATADOG_INTAKE: &[Field] = &[
    listen::address(Required),
    field(
        "api_keys",
        ValueType::Secret,
        Unset("any client that reaches the port may send"),
        "Comma-separated list of keys; clients must send one of them in the header `DD-API-KEY`.",
    ),
    field(
        "in_flight_max",
        ValueType::Size { min: 8 << 20, max: 4 << 30 },
        Value("\"16MiB\""),
        "Memory for requests that are being read, over all connections. When it is exhausted, \
         further requests are answered with 429 and a Retry-After header.",
    ),
];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    secret_file(section, "api_keys", diagnostics);
    check_keys(section, diagnostics);
    server::tls(section, diagnostics);
    let has_keys = section.secret("api_keys").is_some();
    listen::check(section, has_keys, "add api_keys", diagnostics);
}

fn check_keys(section: &Section, diagnostics: &mut Diagnostics) {
    let Some(keys) = section.secret("api_keys") else { return };
    let mut report = |message: &str, help: &str| {
        let (place, key_path) = (section.location("api_keys"), section.key_path("api_keys"));
        diagnostics.error(place, &key_path, message.to_owned()).help(help);
    };
    match keys.list() {
        None => report(
            "one of the keys is empty: clients without a key would be accepted",
            "separate keys by single commas, and check that every variable they are built from is \
             set",
        ),
        Some(keys) if !keys.iter().all(|key| key.is_ascii()) => report(
            "a key contains a character that is not ASCII: no client can send it",
            "it may be invisible, such as a byte order mark: save the file again without it",
        ),
        Some(_) => {}
    }
}

fn settings(section: &Section) -> Option<DatadogIntake> {
    Some(DatadogIntake {
        listen: listen::settings(section, listen::tcp(section)?, ServerProtocol::Http1And2),
        in_flight_bytes_max: section.size("in_flight_max") as usize,
        api_keys: section.secret("api_keys"),
    })
}

fn memory_bytes(section: &Section) -> u64 {
    let listeners = listen::threads(section) as u64 * LISTENER_BYTES;
    section.size("in_flight_max") + listeners + listen::quota_bytes(section)
}
