//! `type = "prometheus"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_pipeline::config::{Endpoint, SourceKind};
use weir_pipeline::source::{
    PROMETHEUS_SOURCE_BYTES, PrometheusSource, SCRAPE_TARGETS_MAX, ScrapeTarget,
};

use super::SourceDefinition;
use super::tags::{self, TAGS};
use crate::config::destination::{
    TLS, credentials, header_values, headers, http_auth, tls, tls_settings, url,
};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{Field, FieldDefault, ValueType, field, time};
use crate::config::glob;
use crate::config::section::Section;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "Scrapes metrics of targets over HTTP in the Prometheus text format. Each sample \
              becomes a Loggregator envelope.",
        fields: &[PROMETHEUS],
    },
    check,
    kind: |name, section| Some(SourceKind::Prometheus(Box::new(settings(name, section)?))),
    memory_bytes,
    endpoint: |_| None,
};

/// The interval of Loggregator's own scraper.
const INTERVAL: &str = "\"15s\"";

const fn interval(default: FieldDefault) -> Field {
    field(
        "scrape_interval",
        time(Duration::from_millis(100), Duration::from_hours(24)),
        default,
        "Interval between scrapes of a target. Scrapes of different targets are spread over the \
         interval.",
    )
}

const fn timeout(default: FieldDefault) -> Field {
    field(
        "scrape_timeout",
        time(Duration::from_millis(10), Duration::from_hours(1)),
        default,
        "Timeout of a scrape; at most the interval.",
    )
}

const PROMETHEUS: &[Field] = &[
    field(
        "targets",
        ValueType::Tables(TARGET),
        Value("[]"),
        "Targets to scrape: one `[[source.NAME.targets]]` for each.",
    ),
    field(
        "target_files",
        ValueType::Globs,
        Value("[]"),
        "Files that each describe one target on this machine, as for Loggregator's own scraper: \
         `[\"/var/vcap/jobs/*/config/prom_scraper_config.yml\"]`. See the \
         [guide](../guide/metrics.md).",
    ),
    field(
        "rescan_interval",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"30s\""),
        "How often to search for these files and read them.",
    ),
    field(
        "source_id",
        ValueType::Text,
        Unset("the name of the source"),
        "Source ID of the metrics of targets that do not set one.",
    ),
    interval(Value(INTERVAL)),
    timeout(Value("\"10s\"")),
    field(
        "body_max",
        ValueType::Size { min: 64 << 10, max: 256 << 20 },
        Value("\"8MiB\""),
        "Maximum size of a response, also after decompression. The scrape of a larger one fails.",
    ),
    field(
        "in_flight_max",
        ValueType::Size { min: 128 << 10, max: 4 << 30 },
        Value("\"32MiB\""),
        "Memory for all responses that are being received or parsed. When it is exhausted, further \
         scrapes fail.",
    ),
    TAGS,
    field(
        "tls",
        ValueType::Table(TLS),
        Unset("the system's CA certificates, and no client certificate"),
        "TLS settings for targets without their own `tls`, and for targets from files.",
    ),
];

/// Keys of a target.
const TARGET: &[Field] = &[
    field("url", ValueType::Url, Required, "URL to scrape: `\"http://127.0.0.1:9100/metrics\"`."),
    field("source_id", ValueType::Text, Unset("that of the source"), "The source of its metrics."),
    field("instance_id", ValueType::Text, Unset("none"), "The instance of its metrics."),
    field(
        "labels",
        ValueType::Values,
        Unset("none"),
        "Tags for metrics that have no label of the same name.",
    ),
    field(
        "headers",
        ValueType::Values,
        Unset("none"),
        "Additional headers, `{ \"X-Tenant\" = \"a\" }`.",
    ),
    field("bearer", ValueType::Secret, Unset("no token"), "Token for `Authorization: Bearer`."),
    field("user", ValueType::Text, Unset("no user"), "User for `Authorization: Basic`."),
    field("password", ValueType::Secret, Unset("no password"), "Password of `user`."),
    interval(Unset("that of the source")),
    timeout(Unset("that of the source")),
    field(
        "tls",
        ValueType::Table(TLS),
        Unset("that of the source"),
        "TLS settings for this target.",
    ),
];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    let targets = section.tables("targets");
    if targets.is_empty() && section.list("target_files").is_empty() {
        diagnostics
            .error(
                section.location.clone(),
                &section.path,
                format!("{} has no target", section.path),
            )
            .help("add targets = [{ url = \"http://127.0.0.1:9100/metrics\" }]");
    }
    if targets.len() > SCRAPE_TARGETS_MAX {
        let key_path = section.key_path("targets");
        let message = format!("{key_path} has more than {SCRAPE_TARGETS_MAX} targets");
        diagnostics.error(section.location("targets"), &key_path, message);
    }
    for (pattern, location) in section.list("target_files") {
        if let Err(error) = glob::compile(pattern) {
            let message = format!("{pattern:?} is not a valid pattern: {error}");
            diagnostics.error(Some(location.clone()), &section.key_path("target_files"), message);
        }
    }
    tags::check(section, "tags", diagnostics);
    tls(section, Some(true), diagnostics);
    for target in targets {
        check_target(target, diagnostics);
    }
}

fn check_target(target: &Section, diagnostics: &mut Diagnostics) {
    let is_https = url(target, "url", Endpoint::url, diagnostics).map(|url| url.tls);
    tls(target, is_https, diagnostics);
    credentials(target, diagnostics);
    header_values(target, diagnostics);
    tags::check(target, "labels", diagnostics);
}

fn settings(name: &str, section: &Section) -> Option<PrometheusSource> {
    let source_id = section.text("source_id").unwrap_or(name);
    let targets = section.tables("targets").iter().map(|target| {
        let own = |key: &str| target.is_set(key).then(|| target.duration(key));
        let interval = own("scrape_interval").unwrap_or(section.duration("scrape_interval"));
        let timeout = own("scrape_timeout").unwrap_or(section.duration("scrape_timeout"));
        Some(ScrapeTarget {
            url: target.text("url")?.to_owned(),
            source_id: target.text("source_id").unwrap_or(source_id).to_owned(),
            instance_id: target.text("instance_id").unwrap_or_default().to_owned(),
            headers: headers(target),
            auth: http_auth(target),
            labels: tags::tags_of(target, "labels"),
            interval,
            timeout: timeout.min(interval),
            tls: tls_settings(if target.is_set("tls") { target } else { section }),
        })
    });
    let patterns = section.list("target_files").iter();
    Some(PrometheusSource {
        targets: targets.collect::<Option<_>>()?,
        target_files: patterns.map(|(pattern, _)| glob::inclusion(pattern)).collect(),
        rescan_interval: section.duration("rescan_interval"),
        source_id: source_id.to_owned(),
        interval: section.duration("scrape_interval"),
        timeout: section.duration("scrape_timeout"),
        tls: tls_settings(section),
        body_bytes_max: section.size("body_max") as usize,
        in_flight_bytes_max: section.size("in_flight_max") as usize,
        tags: tags::tags_of(section, "tags"),
    })
}

fn memory_bytes(section: &Section) -> u64 {
    // Decompressed answers are charged once they are complete.
    PROMETHEUS_SOURCE_BYTES + section.size("in_flight_max") + section.size("body_max")
}
