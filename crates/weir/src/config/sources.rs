//! The plan of each source, made from its section: its settings, memory and socket.

use weir_expr::Network;
use weir_host::{ServerProtocol, Zone};
use weir_pipeline::config::{
    ContainersSource, DatadogIntake, DrainMessagesSource, DropsondeSource, FileSource,
    ListenEndpoint, ListenSettings, LoggregatorSource, RateLimit, ServerTlsFiles, SourceKind,
    SourcePlan, SourceType, StatsdSource, SyslogSource, TailSettings,
};
use weir_pipeline::source::{
    CONTAINER_METRICS_BYTES, LISTENER_BYTES, LOGGREGATOR_LISTENER_BYTES, QUOTA_BYTES,
    SYSLOG_LISTENER_BYTES,
};

use super::check_listen::{self, Bound};
use super::choices::{SyslogProtocol, WhenLimited};
use super::collect;
use super::glob;
use super::metrics;
use super::rate_limit;
use super::section::Section;
use super::sections::{ComponentSection, texts};

/// `None` only if a required address is missing, which has been reported.
pub(super) fn source(named: &ComponentSection<SourceType>) -> Option<SourcePlan> {
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
fn threads(source_type: SourceType, section: &Section) -> usize {
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
    let client_ca_file = tls.has("client_ca_file").then(|| tls.file("client_ca_file")).flatten();
    Some(ServerTlsFiles {
        cert_file: tls.file("cert_file")?,
        key_file: tls.file("key_file")?,
        client_ca_file,
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

/// Memory of a source that is planned for it alone, bytes: for its listeners, and for what is
/// being received.
pub(super) fn memory_bytes(source: &ComponentSection<SourceType>) -> u64 {
    let section = &source.section;
    match source.component_type {
        SourceType::DatadogIntake => {
            let listeners = threads(source.component_type, section) as u64 * LISTENER_BYTES;
            section.size("in_flight_max") + listeners + quota_bytes(section)
        }
        SourceType::Loggregator => {
            section.size("in_flight_max") + LOGGREGATOR_LISTENER_BYTES + quota_bytes(section)
        }
        SourceType::LoggregatorMetrics | SourceType::DrainMessages => SYSLOG_LISTENER_BYTES,
        SourceType::Syslog | SourceType::Dropsonde | SourceType::Statsd => {
            threads(source.component_type, section) as u64 * SYSLOG_LISTENER_BYTES
                + quota_bytes(section)
        }
        SourceType::Prometheus => collect::prometheus_bytes(section),
        SourceType::ContainerMetrics => CONTAINER_METRICS_BYTES,
        SourceType::Containers | SourceType::File => 0,
    }
}

fn quota_bytes(section: &Section) -> u64 {
    section.table("rate_limit").map_or(0, |_| QUOTA_BYTES)
}

/// The socket of a source; `None` if it is missing, or its port is chosen by the system.
pub(super) fn socket(source: &ComponentSection<SourceType>) -> Option<Bound> {
    let section = &source.section;
    let listen = || section.listen("listen").filter(|listen| listen.port() != 0);
    match source.component_type {
        SourceType::Loggregator | SourceType::DatadogIntake => Some(Bound::Tcp(listen()?)),
        SourceType::Dropsonde | SourceType::Statsd => Some(Bound::Udp(listen()?)),
        SourceType::Syslog => match section.choice("protocol") {
            SyslogProtocol::Tcp | SyslogProtocol::Relp => Some(Bound::Tcp(listen()?)),
            SyslogProtocol::Udp => Some(Bound::Udp(listen()?)),
            SyslogProtocol::UnixStream | SyslogProtocol::UnixDatagram => {
                Some(Bound::Path(section.text("path")?.to_owned()))
            }
        },
        SourceType::LoggregatorMetrics
        | SourceType::DrainMessages
        | SourceType::Prometheus
        | SourceType::ContainerMetrics
        | SourceType::Containers
        | SourceType::File => None,
    }
}
