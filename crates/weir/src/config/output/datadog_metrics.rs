//! `type = "datadog_metrics"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_pipeline::config::{Endpoint, OutputKind};
use weir_pipeline::output::DatadogMetricsOutput;

use super::requests::{
    self, COMPRESSION, CONNECTIONS_MAX, HTTPS_TLS, REQUEST_TIMEOUT, RETRY_MAX, RETRY_MIN,
};
use super::{DELIVERY, OutputDefinition};
use crate::config::choices::HttpCompression;
use crate::config::destination::{secret_file, tls};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Value};
use crate::config::field::{Field, MS, ValueType, field, time};
use crate::config::section::Section;
use crate::config::sections::{Sections, texts};
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "Metrics to Datadog (`POST /api/v2/series`): counters, as totals, and gauges. Other \
              records are not routed to it. Names and tags are those of Loggregator's Datadog \
              nozzle. See [metrics in Datadog](../guide/loggregator.md#metrics-in-datadog).",
        fields: &[DATADOG_METRICS, DELIVERY],
    },
    check,
    kind: |section| Some(OutputKind::DatadogMetrics(Box::new(settings(section)?))),
    written_path: |_| None,
};

const DATADOG_METRICS: &[Field] = &[
    field(
        "url",
        ValueType::Url,
        Value("\"https://api.datadoghq.com\""),
        "URL of the API, which depends on the site: `https://api.datadoghq.eu` and others. Weir appends \
         `/api/v2/series`.",
    ),
    field(
        "api_key",
        ValueType::Secret,
        Required,
        "API key: `{ env = \"NAME\" }` or `{ file = \"/path\" }`.",
    ),
    field(
        "prefix",
        ValueType::Text,
        Value("\"datadog.nozzle.\""),
        "Prefix of every name; it is followed by the origin, a dot, and the name of the metric.",
    ),
    field(
        "tags",
        ValueType::Names,
        Value("[]"),
        "Tags of every point, in addition to those of its envelope: `[\"environment:production\"]`.",
    ),
    COMPRESSION,
    field(
        "batch_size",
        ValueType::Size { min: 1 << 10, max: 5_000_000 },
        Value("\"2MiB\""),
        "Target size of a request, before compression. Datadog accepts 5 MiB before and 500 kB after \
         compression: without compression, choose a smaller size.",
    ),
    field(
        "batch_age",
        time(MS, Duration::from_mins(5)),
        Value("\"10s\""),
        "Maximum time that a record waits for a batch to fill.",
    ),
    CONNECTIONS_MAX,
    REQUEST_TIMEOUT,
    RETRY_MIN,
    RETRY_MAX,
    HTTPS_TLS,
];

fn check(section: &Section, sections: &Sections, diagnostics: &mut Diagnostics) {
    let is_https = requests::is_https(section, diagnostics);
    if let Ok(endpoint) = Endpoint::url(section.text("url").unwrap_or_default())
        && endpoint.path.contains('?')
    {
        let key_path = section.key_path("url");
        let message = format!("{key_path} has a query");
        diagnostics.error(section.location("url"), &key_path, message).help("remove it");
    }
    tls(section, is_https, diagnostics);
    requests::bounds(section, diagnostics);
    secret_file(section, "api_key", diagnostics);
    let has_metrics = sections.sources.iter().any(|source| source.component_type.has_envelopes());
    if !has_metrics && !sections.sources.is_empty() {
        let message = format!("{} carries metrics only, and no source receives any", section.path);
        diagnostics
            .error(section.location.clone(), &section.path, message)
            .help("add a source of type \"loggregator\", or send logs to another output");
    }
}

fn settings(section: &Section) -> Option<DatadogMetricsOutput> {
    Some(DatadogMetricsOutput {
        url: section.text("url")?.to_owned(),
        api_key: section.secret("api_key")?,
        prefix: section.text("prefix")?.to_owned(),
        tags: texts(section, "tags"),
        requests: requests::settings(
            section,
            section.choice::<HttpCompression>("compression").into(),
        ),
    })
}
