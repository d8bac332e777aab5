//! The validated plan of the whole process, made from the sections of the configuration.
//!
//! Invariant: every value that a component receives has been read through a field of `tables`, so
//! no default or bound is defined in a second place.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use weir_api::{ApiAccess, HealthSettings, QueryLimits, ReaderServiceSettings};
use weir_codec::Renames;
use weir_expr::Network;
use weir_host::{ServerProtocol, Zone};
use weir_pipeline::config::{
    Compression, ContainersSource, DatadogIntake, DrainMessagesSource, DropsondeSource, FileOutput,
    FilePath, FileSource, FsyncPolicy, HttpAuth, HttpOutput, ListenEndpoint, ListenSettings,
    LoggregatorOutput, LoggregatorSource, OutputKind, OutputPlan, OutputType, PipelinePlan,
    RateLimit, RequestSettings, Rotation, ServerTlsFiles, SocketOutput, SourceKind, SourcePlan,
    SourceType, SplunkHec, StatsdSource, SyslogOutput, SyslogOutputFraming, SyslogSource,
    SyslogTransport, TailSettings, TlsSettings,
};
use weir_store::embedded::StoreConfig;
use weir_store::query::{CalculatedField, Units};

use super::access;
use super::check;
use super::check_listen;
use super::check_syslog;
use super::choices::{
    FileCompression, Fsync, HecCompression, HttpCompression, LogLevel, SyslogOutputDelimiter,
    SyslogOutputProtocol, SyslogProtocol, WhenFull, WhenLimited,
};
use super::collect;
use super::diagnostic::Diagnostics;
use super::disk::{self, DiskParts};
use super::drains;
use super::field::list_or;
use super::glob;
use super::metrics;
use super::rate_limit;
use super::readers;
use super::rules::{self, RuleTest};
use super::section::{self, Section};
use super::tables::{
    BASE_BYTES, BATCH_BYTES_MAX, ComponentType, HEAD_BYTES, HEAD_BYTES_MIN, LISTS, STORE_PER_HEAD,
    TABLES, TOP,
};
use super::text::SourceLocation;
use super::tree::{Entry, Node, NodeTable, NodeValue};
use super::usual;

/// Name of weir's own store as a destination, and of its directory.
pub(crate) const STORE: &str = "store";

/// What weir runs.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Address of the API; `None` if it is disabled.
    pub(crate) api_listen: Option<SocketAddr>,
    /// Host names that the API accepts in addition to its addresses.
    pub(crate) api_allowed_hosts: Vec<String>,
    /// Limits of searches and live tails.
    pub(crate) queries: QueryLimits,
    /// Access control of the API.
    pub(crate) api_access: Option<ApiAccess>,
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

/// A source or output as a section, before it becomes part of a plan.
#[derive(Debug)]
pub(crate) struct ComponentSection<T> {
    pub(crate) name: String,
    pub(crate) component_type: T,
    pub(crate) section: Section,
    pub(crate) name_location: SourceLocation,
}

/// All sections.
#[derive(Debug)]
pub(crate) struct Sections {
    pub(crate) top: Section,
    pub(crate) tables: Vec<Section>,
    pub(crate) sources: Vec<ComponentSection<SourceType>>,
    pub(crate) outputs: Vec<ComponentSection<OutputType>>,
    pub(crate) rules: Vec<Section>,
    pub(crate) tests: Vec<Section>,
    pub(crate) drains: Vec<Section>,
}

impl Sections {
    /// The section of one of [`TABLES`].
    pub(crate) fn table(&self, name: &str) -> &Section {
        let index = TABLES.iter().position(|table| table.name == name).unwrap_or_default();
        &self.tables[index]
    }

    /// Whether records are stored.
    pub(crate) fn has_store(&self) -> bool {
        self.table("store").bool("enabled")
    }

    /// The names of everything that a rule can route to.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = &str> {
        let store = self.has_store().then_some(STORE);
        let drains = drains::are_enabled(self).then_some(weir_pipeline::drain::NAME);
        self.outputs.iter().map(|output| output.name.as_str()).chain(store).chain(drains)
    }

    /// Memory planned for everything except the store.
    pub(crate) fn memory_beside_store(&self) -> u64 {
        let listeners = check_listen::memory_bytes(self)
            + readers::memory_bytes(self)
            + drains::memory_bytes(self);
        let ring = self.table("journal").size("ring");
        let windows = self.windows_bytes();
        ring.saturating_add(windows).saturating_add(listeners).saturating_add(BASE_BYTES)
    }

    /// Memory for the records in flight of all outputs: an eighth of the budget, but at least the
    /// largest window, and one batch for each output. It changes with the number of outputs only in
    /// large steps, so that most outputs can be added to a running weir without changing anything
    /// else.
    pub(crate) fn windows_bytes(&self) -> u64 {
        let largest = self.outputs.iter().map(|o| o.section.size("window")).max();
        let outputs = (self.outputs.len() as u64).next_power_of_two();
        let share = self.table("limits").size("memory") / 8;
        share.max(largest.unwrap_or_default()).max(outputs.saturating_mul(BATCH_BYTES_MAX))
    }

    /// Memory of the store's head: as configured, or what fits.
    pub(crate) fn head_bytes(&self) -> u64 {
        let store = self.table("store");
        if store.is_set("head") {
            return store.size("head");
        }
        let left = self.table("limits").size("memory").saturating_sub(self.memory_beside_store());
        let most = HEAD_BYTES.min(disk::head_bytes_max(&self.data_dir()));
        (left / STORE_PER_HEAD).clamp(HEAD_BYTES_MIN, most)
    }

    /// The journal's directory.
    pub(crate) fn data_dir(&self) -> std::path::PathBuf {
        self.top.file("data_dir").unwrap_or_default()
    }
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
    let api = sections.table("api");
    let journal = sections.table("journal");
    let parts = DiskParts::of(&sections);
    let store = sections
        .has_store()
        .then(|| StoreConfig { renames: renames.clone(), ..store(&sections, &parts) });
    Some(Plan {
        api_listen: api.listen("listen").filter(|_| api.bool("enabled")),
        api_allowed_hosts: texts(api, "allowed_hosts"),
        queries: api.table("queries").map(queries).unwrap_or_default(),
        api_access: match access::of_api(&sections) {
            Some(section) => Some(access::api_settings(section)?),
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
            journal_limit_bytes: parts.journal_max,
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

/// Stage one: reads every table against its fields.
fn sections(tree: &NodeTable, diagnostics: &mut Diagnostics) -> Sections {
    let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let families =
        [SourceType::FAMILY, OutputType::FAMILY].into_iter().chain(LISTS.iter().map(|l| l.name));
    let others: Vec<&str> = tables.iter().copied().chain(families).collect();
    let top = section::read(tree, &[TOP], &others, "", None, diagnostics);
    let empty = NodeTable::default();
    let tables = TABLES
        .iter()
        .map(|table| {
            let entry = tree.get(table.name);
            let (node, location) = match entry.map(|entry| (entry, &entry.node.value)) {
                Some((entry, NodeValue::Table(node))) => (node, Some(entry.key_location.clone())),
                Some((entry, other)) => {
                    let message =
                        format!("{} must be a table, not {}", table.name, other.type_name());
                    diagnostics
                        .error(Some(entry.key_location.clone()), table.name, message)
                        .help(format!("write [{}], followed by its keys", table.name));
                    (&empty, None)
                }
                None => (&empty, None),
            };
            section::read(node, &[table.fields], &[], table.name, location, diagnostics)
        })
        .collect();
    Sections {
        top,
        tables,
        sources: family(tree, diagnostics),
        outputs: family(tree, diagnostics),
        rules: list(tree, "rule", diagnostics),
        tests: list(tree, "test", diagnostics),
        drains: list(tree, "drain", diagnostics),
    }
}

/// The sections of one of [`LISTS`], in order.
fn list(tree: &NodeTable, name: &str, diagnostics: &mut Diagnostics) -> Vec<Section> {
    let Some(list) = LISTS.iter().find(|list| list.name == name) else { return Vec::new() };
    let Some(entry) = tree.get(name) else { return Vec::new() };
    let mut items: &[Node] = &[];
    let mut all_tables = false;
    if let NodeValue::Array(nodes) = &entry.node.value {
        items = nodes;
        all_tables = items.iter().all(|node| matches!(node.value, NodeValue::Table(_)));
    }
    if !all_tables {
        diagnostics
            .error(
                Some(entry.key_location.clone()),
                name,
                format!("{name} must be a list of tables"),
            )
            .help(format!("write [[{name}]], in double brackets, followed by its keys"));
        return Vec::new();
    }
    let mut sections = Vec::new();
    for node in items {
        if let NodeValue::Table(table) = &node.value {
            let location = Some(node.location.clone());
            sections.push(section::read(table, &[list.fields], &[], name, location, diagnostics));
        }
    }
    sections
}

/// Maximum length of the name of a source or output: it is part of file names and of metrics.
const NAME_CHARS_MAX: usize = 64;

fn family<T: ComponentType>(
    tree: &NodeTable,
    diagnostics: &mut Diagnostics,
) -> Vec<ComponentSection<T>> {
    let Some(entry) = tree.get(T::FAMILY) else { return Vec::new() };
    let NodeValue::Table(named) = &entry.node.value else {
        let message = format!("{} must be a table of tables", T::FAMILY);
        diagnostics
            .error(Some(entry.key_location.clone()), T::FAMILY, message)
            .help(format!("write [{}.NAME], with a name of your choice", T::FAMILY));
        return Vec::new();
    };
    named.entries.iter().filter_map(|entry| component(entry, diagnostics)).collect()
}

fn component<T: ComponentType>(
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Option<ComponentSection<T>> {
    let path = format!("{}.{}", T::FAMILY, entry.key);
    let location = Some(entry.key_location.clone());
    let NodeValue::Table(table) = &entry.node.value else {
        diagnostics
            .error(
                location,
                &path,
                format!("{path} must be a table, not {}", entry.node.value.type_name()),
            )
            .help(format!("{} has its own name: [{}.NAME]", T::with_article(), T::FAMILY));
        return None;
    };
    check_name::<T>(entry, &path, diagnostics);
    let component_type: T = component_type(table, &path, location.as_ref(), diagnostics)?;
    let fields = component_type.component().fields;
    let section = section::read(table, fields, &["type"], &path, location, diagnostics);
    Some(ComponentSection {
        name: entry.key.clone(),
        component_type,
        section,
        name_location: entry.key_location.clone(),
    })
}

fn check_name<T: ComponentType>(entry: &Entry, path: &str, diagnostics: &mut Diagnostics) {
    let name = &entry.key;
    let location = Some(entry.key_location.clone());
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(allowed) || name.len() > NAME_CHARS_MAX {
        diagnostics
            .error(location, path, format!("{name:?} cannot be the name of {}", T::with_article()))
            .help("names consist of 1 to 64 of the characters A-Z, a-z, 0-9, _ and -");
    } else if T::FAMILY == OutputType::FAMILY && name == STORE {
        diagnostics
            .error(location, path, "the name \"store\" is reserved for weir's own store")
            .help("choose another name");
    } else if T::FAMILY == OutputType::FAMILY && name == weir_pipeline::drain::NAME {
        diagnostics
            .error(location, path, "the name \"drains\" is reserved for drains")
            .help("choose another name");
    }
}

/// The component type that `type` names.
fn component_type<T: ComponentType>(
    table: &NodeTable,
    path: &str,
    location: Option<&SourceLocation>,
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let names = || T::ALL.iter().map(|known| known.name());
    let key_path = format!("{path}.type");
    let Some(entry) = table.get("type") else {
        let near = table
            .entries
            .iter()
            .find(|entry| super::diagnostic::nearest(&entry.key, ["type"].into_iter()).is_some());
        let at = near.map(|entry| entry.key_location.clone()).or_else(|| location.cloned());
        let diagnostic = diagnostics.error(at, &key_path, format!("{key_path} is missing"));
        if let Some(entry) = near {
            diagnostic.help(format!("did you mean \"type\" instead of {:?}?", entry.key));
        }
        diagnostic.help(format!("the type of {} is {}", T::with_article(), list_or(names())));
        return None;
    };
    let NodeValue::Text(written) = &entry.node.value else {
        diagnostics
            .error(Some(entry.node.location.clone()), &key_path, format!("{key_path} must be text"))
            .help(format!("write {}", list_or(names())));
        return None;
    };
    let found = T::ALL.iter().copied().find(|known| known.name() == written);
    if found.is_none() {
        let near = super::diagnostic::nearest(written, names()).or_else(|| {
            names().find(|name| written.len() > 3 && name.starts_with(written.as_str()))
        });
        let message = format!("unknown type {written:?} of {}", T::FAMILY);
        let diagnostic = diagnostics.error(Some(entry.node.location.clone()), &key_path, message);
        match near {
            Some(near) => diagnostic.help(format!("did you mean {near:?}?")),
            None => diagnostic.help(format!("write {}", list_or(names()))),
        };
    }
    found
}

pub(crate) fn texts(section: &Section, name: &str) -> Vec<String> {
    section.list(name).iter().map(|(text, _)| text.clone()).collect()
}

/// `None` only if a required address is missing, which has been reported.
fn source(named: &ComponentSection<SourceType>) -> Option<SourcePlan> {
    let section = &named.section;
    let paths = |name| section.list(name).iter().map(|(text, _)| text.into()).collect();
    let kind = match named.component_type {
        SourceType::Containers => SourceKind::Containers(ContainersSource {
            docker_roots: paths("docker_roots"),
            pod_roots: paths("pod_roots"),
            link_roots: paths("link_roots"),
            exclude_containers: texts(section, "exclude_containers"),
            tail: tail(section),
        }),
        SourceType::Syslog => SourceKind::Syslog(Box::new(syslog(section)?)),
        SourceType::Loggregator => SourceKind::Loggregator(Box::new(loggregator(section)?)),
        SourceType::Dropsonde => {
            let (listen, tags) = udp(section)?;
            SourceKind::Dropsonde(Box::new(DropsondeSource { listen, tags }))
        }
        SourceType::Statsd => {
            let (listen, tags) = udp(section)?;
            SourceKind::Statsd(Box::new(StatsdSource { listen, tags }))
        }
        SourceType::LoggregatorMetrics => {
            SourceKind::LoggregatorMetrics(Box::new(metrics::loggregator_metrics(section)))
        }
        SourceType::DrainMessages => {
            let tags = check_listen::default_tags(section);
            SourceKind::DrainMessages(Box::new(DrainMessagesSource { tags }))
        }
        SourceType::Prometheus => {
            SourceKind::Prometheus(Box::new(collect::prometheus(&named.name, section)?))
        }
        SourceType::ContainerMetrics => {
            SourceKind::ContainerMetrics(Box::new(collect::container_metrics(section)?))
        }
        SourceType::DatadogIntake => SourceKind::DatadogIntake(DatadogIntake {
            listen: listen(
                section,
                ListenEndpoint::Tcp(section.listen("listen")?),
                threads(named.component_type, section),
                ServerProtocol::Http1And2,
            ),
            in_flight_bytes_max: section.size("in_flight_max") as usize,
            api_keys: section.secret("api_keys"),
        }),
        SourceType::File => SourceKind::File(FileSource {
            include: texts(section, "include").iter().map(|p| glob::inclusion(p)).collect(),
            exclude: texts(section, "exclude").iter().map(|p| glob::exclusion(p)).collect(),
            format: section.choice("format"),
            tail: tail(section),
        }),
    };
    Some(SourcePlan { name: named.name.clone(), kind })
}

fn syslog(section: &Section) -> Option<SyslogSource> {
    let protocol: SyslogProtocol = section.choice("protocol");
    let path = || Some((section.text("path")?.into(), check_listen::socket_mode(section)?));
    let endpoint = match protocol {
        SyslogProtocol::Tcp | SyslogProtocol::Relp => {
            ListenEndpoint::Tcp(section.listen("listen")?)
        }
        SyslogProtocol::Udp => ListenEndpoint::Udp {
            address: section.listen("listen")?,
            buffer_bytes: section.size("receive_buffer") as usize,
        },
        SyslogProtocol::UnixStream => {
            let (path, mode) = path()?;
            ListenEndpoint::UnixStream { path, mode }
        }
        SyslogProtocol::UnixDatagram => {
            let (path, mode) = path()?;
            ListenEndpoint::UnixDatagram { path, mode }
        }
    };
    Some(SyslogSource {
        listen: listen(
            section,
            endpoint,
            threads(SourceType::Syslog, section),
            ServerProtocol::Http1,
        ),
        is_relp: protocol == SyslogProtocol::Relp,
        framing: section.choice("framing"),
        message_bytes_max: section.size("message_max") as usize,
        zone: Zone::parse(section.text("timezone")?).ok()?,
    })
}

fn loggregator(section: &Section) -> Option<LoggregatorSource> {
    let endpoint = ListenEndpoint::Tcp(section.listen("listen")?);
    Some(LoggregatorSource {
        listen: listen(section, endpoint, 1, ServerProtocol::Http2),
        in_flight_bytes_max: section.size("in_flight_max") as usize,
        tags: check_listen::default_tags(section),
    })
}

/// Settings of a source over UDP: those of its listener, and its tags.
fn udp(section: &Section) -> Option<(ListenSettings, Vec<(String, String)>)> {
    let buffer_bytes = section.size("receive_buffer") as usize;
    let endpoint = ListenEndpoint::Udp { address: section.listen("listen")?, buffer_bytes };
    let tags = check_listen::default_tags(section);
    let listen = listen(section, endpoint, 1, ServerProtocol::Http1);
    Some((listen, tags))
}

fn listen(
    section: &Section,
    endpoint: ListenEndpoint,
    threads: usize,
    protocol: ServerProtocol,
) -> ListenSettings {
    // Datagrams have no connections.
    let count = |key| section.has(key).then(|| section.count(key)).flatten();
    let count = |key| count(key).map_or(usize::MAX, |count| count as usize);
    let tls = section.has("tls").then(|| section.table("tls")).flatten();
    let networks = section.list("allow").iter();
    ListenSettings {
        threads,
        endpoint,
        connections_max: count("connections_max"),
        connections_per_address_max: count("connections_per_address_max"),
        allowed_networks: networks.filter_map(|(text, _)| Network::parse(text)).collect(),
        tls: tls.and_then(|tls| server_tls(tls, protocol)),
        rate_limit: rate_limit::settings(section),
    }
}

/// Number of threads of a source. A socket in the file system can only be bound once.
pub(crate) fn threads(source_type: SourceType, section: &Section) -> usize {
    let configured = || section.count("threads").map_or(1, |count| count as usize);
    match source_type {
        SourceType::DatadogIntake => configured(),
        SourceType::Syslog => match section.choice("protocol") {
            SyslogProtocol::UnixStream | SyslogProtocol::UnixDatagram => 1,
            SyslogProtocol::Tcp | SyslogProtocol::Relp | SyslogProtocol::Udp => configured(),
        },
        SourceType::Loggregator
        | SourceType::Dropsonde
        | SourceType::Statsd
        | SourceType::LoggregatorMetrics
        | SourceType::DrainMessages
        | SourceType::Prometheus
        | SourceType::ContainerMetrics
        | SourceType::Containers
        | SourceType::File => 1,
    }
}

/// `None` if a required file is missing.
pub(crate) fn server_tls(tls: &Section, protocol: ServerProtocol) -> Option<ServerTlsFiles> {
    Some(ServerTlsFiles {
        cert_file: tls.file("cert_file")?,
        key_file: tls.file("key_file")?,
        client_ca_file: tls.file("client_ca_file"),
        protocol,
    })
}

fn tail(section: &Section) -> TailSettings {
    TailSettings {
        read_from: section.choice("read_from"),
        line_bytes_max: section.size("line_max") as usize,
        rescan_interval: section.duration("rescan_interval"),
        multiline: super::multiline::joining(section),
        partial_timeout: section.duration("partial_timeout"),
        rotated_grace: section.duration("rotated_grace"),
        deleted_bytes_max: section.size("deleted_max"),
        rate_limit: section.count("rate_limit").map(|lines| RateLimit {
            lines_per_second: lines as f64,
            shed: section.choice::<WhenLimited>("when_limited") == WhenLimited::Discard,
        }),
        read_interval: section.duration("read_interval"),
    }
}

/// `None` only if a required secret or path is missing, which has been reported.
fn output(named: &ComponentSection<OutputType>) -> Option<OutputPlan> {
    let section = &named.section;
    let kind = match named.component_type {
        OutputType::SplunkHec => OutputKind::SplunkHec(Box::new(splunk_hec(section)?)),
        OutputType::Http => OutputKind::Http(Box::new(http(section)?)),
        OutputType::Socket => OutputKind::Socket(Box::new(socket(section)?)),
        OutputType::Loggregator => OutputKind::Loggregator(Box::new(loggregator_output(section))),
        OutputType::DatadogMetrics => {
            OutputKind::DatadogMetrics(Box::new(metrics::datadog(section)?))
        }
        OutputType::Syslog => OutputKind::Syslog(Box::new(syslog_output(section)?)),
        OutputType::File => OutputKind::File(file(section)?),
        OutputType::Stdout => OutputKind::Stdout(section.choice("encoding")),
        OutputType::Blackhole => OutputKind::Blackhole,
    };
    Some(OutputPlan {
        name: named.name.clone(),
        when_full: section.choice::<WhenFull>("when_full").into(),
        buffer_limit_bytes: section.size("buffer_max"),
        window_bytes: section.size("window"),
        dead_letter: section.bool("dead_letter"),
        kind,
    })
}

fn file(section: &Section) -> Option<FileOutput> {
    Some(FileOutput {
        path: FilePath::parse(section.text("path")?).ok()?,
        encoding: section.choice("encoding"),
        fsync: match section.optional_choice("fsync") {
            Some(Fsync::Always) => FsyncPolicy::Always,
            Some(Fsync::Never) => FsyncPolicy::Never,
            None => FsyncPolicy::Interval(section.duration("fsync")),
        },
        rotation: Rotation {
            size_bytes: section.is_set("rotate_size").then(|| section.size("rotate_size")),
            every: section.is_set("rotate_every").then(|| section.duration("rotate_every")),
            keep: section.count("keep").map(|count| count as usize),
            compress: section.choice::<FileCompression>("compress").into(),
        },
        open_files_max: section.count("open_files_max").unwrap_or(1) as usize,
    })
}

fn splunk_hec(section: &Section) -> Option<SplunkHec> {
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
        requests: requests(section, section.choice::<HecCompression>("compression").into()),
    })
}

/// Credentials of requests.
pub(crate) fn http_auth(section: &Section) -> HttpAuth {
    match (section.text("user"), section.secret("password"), section.secret("bearer")) {
        (Some(user), Some(password), _) => HttpAuth::Basic { user: user.to_owned(), password },
        (_, _, Some(token)) => HttpAuth::Bearer(token),
        _ => HttpAuth::None,
    }
}

fn http(section: &Section) -> Option<HttpOutput> {
    Some(HttpOutput {
        url: section.text("url")?.to_owned(),
        method: section.choice("method"),
        framing: section.choice("format"),
        headers: super::check_http::headers(section),
        auth: http_auth(section),
        requests: requests(section, section.choice::<HttpCompression>("compression").into()),
    })
}

fn loggregator_output(section: &Section) -> LoggregatorOutput {
    LoggregatorOutput {
        addresses: texts(section, "addresses"),
        is_encrypted: section.is_set("tls"),
        requests: requests(section, Compression::None),
    }
}

pub(crate) fn requests(section: &Section, compression: Compression) -> RequestSettings {
    RequestSettings {
        compression,
        batch_bytes: section.size("batch_size") as usize,
        batch_age: section.duration("batch_age"),
        connections_max: section.count("connections_max").unwrap_or(1) as usize,
        request_timeout: section.duration("request_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
        tls: tls_settings(section),
    }
}

/// TLS settings of connections to others.
pub(crate) fn tls_settings(section: &Section) -> TlsSettings {
    section.table("tls").map_or_else(TlsSettings::default, |tls| TlsSettings {
        ca_file: tls.file("ca_file"),
        cert_file: tls.file("cert_file"),
        key_file: tls.file("key_file"),
        server_name: tls.text("server_name").map(str::to_owned),
        insecure_skip_verify: tls.bool("insecure_skip_verify"),
    })
}

fn socket(section: &Section) -> Option<SocketOutput> {
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

fn syslog_output(section: &Section) -> Option<SyslogOutput> {
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
        tls: check_syslog::is_tls(section).then(|| tls_settings(section)),
        format: section.choice("format"),
        zone: Zone::parse(section.text("timezone")?).ok()?,
        message_bytes_max: check_syslog::message_bytes_max(section) as usize,
        write_timeout: section.duration("write_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
    })
}
