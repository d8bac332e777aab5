//! The validated plan of the whole process, made from the sections of the configuration.
//!
//! Invariant: every value that a component receives has been read through a field of `tables`, so
//! no default or bound is defined in a second place.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use weir_api::{ApiSettings, HealthSettings, QueryLimits, ReaderServiceSettings};
use weir_codec::Renames;
use weir_host::ServerProtocol;
use weir_pipeline::config::PipelinePlan;
use weir_store::embedded::StoreConfig;
use weir_store::query::{CalculatedField, Units};

use super::access;
use super::check;
use super::choices::LogLevel;
use super::diagnostic::Diagnostics;
use super::disk::DiskParts;
use super::drains;
use super::output::output;
use super::readers;
use super::rules::{self, RuleTest};
use super::section::Section;
use super::sections::{Sections, sections, texts};
use super::server::server_tls;
use super::source::source;
use super::tree::NodeTable;
use super::usual;

/// Name of weir's own store as a destination, and of its directory.
pub(crate) const STORE: &str = "store";

/// What weir runs.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The API; `None` if it is disabled.
    pub(crate) api: Option<ApiSettings>,
    /// Services for readers of envelopes.
    pub(crate) reader_services: Vec<ReaderServiceSettings>,
    /// Addresses that serve the health of Loggregator's programs.
    pub(crate) health: Vec<HealthSettings>,
    /// Whether `/metrics` also includes the metrics of Loggregator's programs.
    pub(crate) has_original_metrics: bool,
    /// Maximum time for which these services read from the store.
    pub(crate) stored_deadline: Duration,
    /// Sources of which the store keeps the original envelopes, for these services.
    pub(crate) envelope_sources: BTreeSet<String>,
    /// Memory for envelopes that wait for their readers.
    pub(crate) envelope_bytes_max: u64,
    pub(crate) log: LogPlan,
    pub(crate) pipeline: PipelinePlan,
    /// Weir's own store; `None` if it is disabled.
    pub(crate) store: Option<StoreConfig>,
    /// Calculated fields of the store.
    pub(crate) calculated_fields: Vec<CalculatedField>,
    /// Names under which the store and live tails use attributes.
    pub(crate) renames: Renames,
    /// Units of attributes, for rules, live tails and the store.
    pub(crate) units: Units,
    /// Records and what the rules must do with them.
    pub(crate) tests: Vec<RuleTest>,
}

/// Settings of weir's own log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogPlan {
    /// Minimum severity.
    pub(crate) level: tracing::Level,
    pub(crate) format: LogFormat,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, otherwise JSON.
    Auto,
    /// A short human-readable line.
    Text,
    /// One JSON object per line.
    Json,
}

/// Reads the whole tree. The plan is valid only if no error was reported.
pub(crate) fn plan(tree: &NodeTable, diagnostics: &mut Diagnostics) -> Option<Plan> {
    let sections = sections(&usual::completed(tree, diagnostics), diagnostics);
    check::check(&sections, diagnostics);
    let renames = super::renames::renames(sections.table("store"), diagnostics);
    let units = super::units::units(&sections.top, &renames, diagnostics);
    let calculated_fields =
        super::calculated_fields::calculated_fields(sections.table("store"), &units, diagnostics);
    let rules = rules::rules(&sections, &units, diagnostics);
    let tests = rules::tests(&sections, diagnostics);
    if diagnostics.has_errors() {
        return None;
    }
    let sources: Option<Vec<_>> = sections.sources.iter().map(source).collect();
    let outputs: Option<Vec<_>> = sections.outputs.iter().map(output).collect();
    let log = sections.table("log");
    let table = sections.table("api");
    let api_listen = table.listen("listen").filter(|_| table.bool("enabled"));
    let journal = sections.table("journal");
    let parts = DiskParts::of(&sections);
    let store = sections
        .has_store()
        .then(|| StoreConfig { renames: renames.clone(), ..store(&sections, &parts) });
    Some(Plan {
        api: match api_listen {
            Some(listen) => Some(api(&sections, listen)?),
            None => None,
        },
        reader_services: readers::settings(&sections)?,
        health: readers::health(&sections),
        has_original_metrics: sections.table("loggregator").bool("metrics"),
        stored_deadline: readers::stored_deadline(&sections),
        envelope_sources: readers::envelope_sources(&sections),
        envelope_bytes_max: readers::buffer_bytes(&sections),
        log: LogPlan {
            level: log.choice::<LogLevel>("level").into(),
            format: log.choice("format"),
        },
        pipeline: PipelinePlan {
            data_dir: sections.data_dir(),
            ring_bytes: journal.size("ring"),
            journal_bytes_max: parts.journal_max,
            disk_free_bytes_min: parts.journal_free_min,
            taken_bytes_max: sections.windows_bytes(),
            sources: sources?,
            outputs: outputs?,
            default_to: default_to(&sections),
            rules,
            drains: drains::settings(&sections),
        },
        store,
        calculated_fields,
        renames,
        units,
        tests,
    })
}

fn api(sections: &Sections, listen: SocketAddr) -> Option<ApiSettings> {
    let api = sections.table("api");
    let (mut tls, mut access) = (None, None);
    if let Some(section) = api.table("tls") {
        tls = Some(server_tls(section, ServerProtocol::Http1And2)?);
    }
    if let Some(section) = access::of_api(sections) {
        access = Some(access::api_settings(section)?);
    }
    Some(ApiSettings {
        listen,
        tls,
        allowed_hosts: texts(api, "allowed_hosts"),
        queries: api.table("queries").map(queries).unwrap_or_default(),
        access,
    })
}

/// Where records go that no rule routes; `None` means everywhere.
fn default_to(sections: &Sections) -> Option<Vec<String>> {
    if sections.top.is_set("default_to") {
        return Some(texts(&sections.top, "default_to"));
    }
    let routes = sections.rules.iter().any(|rule| !rule.list("to").is_empty());
    let drains = drains::are_enabled(sections).then(|| weir_pipeline::drain::NAME.to_owned());
    let beside_outputs = sections.has_store().then(|| STORE.to_owned()).into_iter().chain(drains);
    let beside_outputs: Vec<String> = beside_outputs.collect();
    (routes && !beside_outputs.is_empty()).then_some(beside_outputs)
}

pub(crate) fn queries(section: &Section) -> QueryLimits {
    let default = QueryLimits::default();
    let count = |key: &str| section.count(key).and_then(|count| usize::try_from(count).ok());
    QueryLimits {
        workers: count("concurrent_max").unwrap_or(default.workers),
        waiting_max: count("waiting_max").unwrap_or(default.waiting_max),
        wait_max: section.duration("wait_max"),
        deadline: section.duration("deadline"),
        query_bytes_max: usize::try_from(section.size("memory_max")).unwrap_or(usize::MAX),
        tails_max: count("tails_max").unwrap_or(default.tails_max),
    }
}

fn store(sections: &Sections, parts: &DiskParts) -> StoreConfig {
    let store = sections.table("store");
    StoreConfig {
        dir: sections.data_dir().join(STORE),
        head_bytes: sections.head_bytes(),
        flush_interval: store.duration("flush_interval"),
        retention: Some(store.duration("retention")),
        retention_bytes: Some(parts.store_max),
        level: store.count("level").map_or(1, |level| i32::try_from(level).unwrap_or(1)),
        free_bytes_min: parts.store_free_min,
        flush_bytes_reserved: parts.journal_free_min - parts.store_free_min,
        renames: Renames::default(),
        received_of: readers::envelope_sources(sections),
    }
}
