//! `type = "http"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_pipeline::config::{Framing, OutputKind};
use weir_pipeline::output::{HttpMethod, HttpOutput};

use super::requests::{
    self, BATCH_AGE, BATCH_SIZE, COMPRESSION, CONNECTIONS_MAX, HTTPS_TLS, REQUEST_TIMEOUT,
    RETRY_MAX, RETRY_MIN,
};
use super::{DELIVERY, OutputDefinition};
use crate::config::choices::{Choice as _, HttpCompression};
use crate::config::destination::{credentials, header_values, headers, http_auth, tls};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{Field, ValueType, field};
use crate::config::section::Section;
use crate::config::sections::Sections;
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "Any endpoint that accepts JSON over HTTP. A status from 200 to 299 means that \
              the records were accepted.",
        fields: &[HTTP, DELIVERY],
    },
    check,
    kind: |section| Some(OutputKind::Http(Box::new(settings(section)?))),
    written_path: |_| None,
};

const HTTP: &[Field] = &[
    field("url", ValueType::Url, Required, "URL for requests: scheme, host, port, path and query."),
    field(
        "method",
        ValueType::Choice(HttpMethod::WORDS),
        Value("\"post\""),
        "HTTP method of the requests.",
    ),
    field(
        "format",
        ValueType::Choice(Framing::WORDS),
        Value("\"ndjson\""),
        "How records are combined into a request. Each is an object that follows OpenTelemetry's \
         log data model, as with `encoding = \"json\"` of a file.",
    ),
    field(
        "headers",
        ValueType::Values,
        Unset("none"),
        "Additional headers, `{ \"X-Tenant\" = \"a\" }`; they override \
         weir's own, except those that concern the connection and the body (`host`, \
         `content-length`, `content-encoding`, `transfer-encoding`), which are refused.",
    ),
    field(
        "bearer",
        ValueType::Secret,
        Unset("no token"),
        "Token for `Authorization: Bearer`: `{ env = \"NAME\" }` or `{ file = \"/path\" }`.",
    ),
    field(
        "user",
        ValueType::Text,
        Unset("no user"),
        "User for `Authorization: Basic`. Needs `password`.",
    ),
    field("password", ValueType::Secret, Unset("no user"), "Password of `user`."),
    COMPRESSION,
    BATCH_SIZE,
    BATCH_AGE,
    CONNECTIONS_MAX,
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    HTTPS_TLS,
];

fn check(section: &Section, _: &Sections, diagnostics: &mut Diagnostics) {
    let is_https = requests::is_https(section, diagnostics);
    tls(section, is_https, diagnostics);
    requests::bounds(section, diagnostics);
    credentials(section, diagnostics);
    header_values(section, diagnostics);
}

fn settings(section: &Section) -> Option<HttpOutput> {
    Some(HttpOutput {
        url: section.text("url")?.to_owned(),
        method: section.choice("method"),
        framing: section.choice("format"),
        headers: headers(section),
        auth: http_auth(section),
        requests: requests::settings(
            section,
            section.choice::<HttpCompression>("compression").into(),
        ),
    })
}
