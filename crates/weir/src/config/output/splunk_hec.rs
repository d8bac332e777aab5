//! `type = "splunk_hec"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_pipeline::config::{Endpoint, HecMode, OutputKind};
use weir_pipeline::output::SplunkHec;

use super::requests::{
    self, BATCH_AGE, BATCH_SIZE, CONNECTIONS_MAX, HTTPS_TLS, REQUEST_TIMEOUT, RETRY_MAX, RETRY_MIN,
};
use super::{DELIVERY, OutputDefinition};
use crate::config::choices::{Choice as _, HecCompression};
use crate::config::destination::{secret_file, tls, url};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{DAY, Field, ValueType, field, time};
use crate::config::section::Section;
use crate::config::sections::Sections;
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "A Splunk HTTP Event Collector, or anything that speaks its protocol.",
        fields: &[SPLUNK_HEC, DELIVERY],
    },
    check,
    kind: |section| Some(OutputKind::SplunkHec(Box::new(settings(section)?))),
    written_path: |_| None,
};

const SPLUNK_HEC: &[Field] = &[
    field(
        "endpoint",
        ValueType::Url,
        Required,
        "Scheme, host, port and an optional path prefix of `/services/collector`, which weir \
         appends.",
    ),
    field(
        "token",
        ValueType::Secret,
        Required,
        "The collector's token: `{ env = \"NAME\" }` or `{ file = \"/path\" }`. It cannot be \
         written in the configuration itself and is never printed.",
    ),
    field(
        "mode",
        ValueType::Choice(HecMode::WORDS),
        Value("\"event\""),
        "Which endpoint of the collector to use.",
    ),
    field(
        "compression",
        ValueType::Choice(HecCompression::WORDS),
        Value("\"gzip\""),
        "Compression of requests.",
    ),
    BATCH_SIZE,
    BATCH_AGE,
    CONNECTIONS_MAX,
    field(
        "indexer_ack",
        ValueType::Bool,
        Value("false"),
        "Count records as delivered only when the indexers have acknowledged them, rather than \
         when the collector has accepted them. Indexer acknowledgement must be enabled for the \
         token: without it records count as delivered when accepted, which health reports.",
    ),
    field(
        "ack_timeout",
        time(Duration::from_secs(1), DAY),
        Value("\"2m\""),
        "How long to wait for the indexers' acknowledgement before sending again.",
    ),
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    field("index", ValueType::Text, Unset("the token's default"), "Index for all records."),
    field(
        "sourcetype",
        ValueType::Text,
        Unset("the token's default"),
        "Source type for all records.",
    ),
    field("source", ValueType::Text, Unset("the path of the log file"), "Source for all records."),
    field(
        "host",
        ValueType::Text,
        Unset("the record's `host.name`, otherwise this machine's name"),
        "Host for all records.",
    ),
    HTTPS_TLS,
];

fn check(section: &Section, _: &Sections, diagnostics: &mut Diagnostics) {
    let is_https = endpoint(section, diagnostics);
    tls(section, is_https, diagnostics);
    requests::bounds(section, diagnostics);
    no_effect(section, diagnostics);
    index(section, diagnostics);
    secret_file(section, "token", diagnostics);
}

/// Whether it is `https`; `None` if it is not a valid URL.
fn endpoint(section: &Section, diagnostics: &mut Diagnostics) -> Option<bool> {
    let url = url(section, "endpoint", Endpoint::collector, diagnostics)?;
    let text = section.text("endpoint").unwrap_or_default();
    let key_path = section.key_path("endpoint");
    let location = section.location("endpoint");
    if url.path.contains("/services/collector") {
        let (front, _) = text.split_once("/services/collector").unwrap_or((text, ""));
        diagnostics
            .error(
                location.clone(),
                &key_path,
                format!("{key_path} ends in the collector's own path"),
            )
            .help(format!("weir appends /services/collector itself: write {front:?}"));
    }
    if !url.tls && !url.is_local() {
        diagnostics
            .warn(location, &key_path, "the token and all records cross the network unencrypted")
            .help("write https:// if the collector supports it");
    }
    Some(url.tls)
}

/// Keys that have no effect.
fn no_effect(section: &Section, diagnostics: &mut Diagnostics) {
    if section.is_set("ack_timeout") && !section.bool("indexer_ack") {
        let key_path = section.key_path("ack_timeout");
        diagnostics
            .warn(
                section.location("ack_timeout"),
                &key_path,
                format!("{key_path} has no effect without indexer_ack"),
            )
            .help("add indexer_ack = true, or remove it");
    }
}

/// With a name that no index can have, every record would be rejected.
fn index(section: &Section, diagnostics: &mut Diagnostics) {
    let Some(index) = section.text("index") else { return };
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    if !index.chars().all(allowed) || index.starts_with('-') {
        let key_path = section.key_path("index");
        diagnostics
            .error(
                section.location("index"),
                &key_path,
                format!("{key_path}: {index:?} is not a valid index name"),
            )
            .help("index names use the characters a-z, 0-9, _ and -");
    }
}

fn settings(section: &Section) -> Option<SplunkHec> {
    let text = |name| section.text(name).map(str::to_owned);
    Some(SplunkHec {
        endpoint: text("endpoint")?.trim_end_matches('/').to_owned(),
        token: section.secret("token")?,
        mode: section.choice("mode"),
        indexer_ack: section.bool("indexer_ack"),
        ack_timeout: section.duration("ack_timeout"),
        index: text("index"),
        sourcetype: text("sourcetype"),
        source: text("source"),
        host: text("host"),
        requests: requests::settings(
            section,
            section.choice::<HecCompression>("compression").into(),
        ),
    })
}
