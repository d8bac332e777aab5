//! The types of sources and outputs, as closed lists: their names, and their settings.
//!
//! Invariant: code that depends on the type of a component (its keys, checks, plan, memory, wiring
//! and documentation) matches on these enums without a wildcard, so that a forgotten type does not
//! compile. `cargo xtask check` reports wildcards.

use weir_model::{Kinds, RecordKind};

use crate::config::{
    ContainerMetricsSource, ContainersSource, DatadogIntake, DatadogMetricsOutput,
    DrainMessagesSource, DropsondeSource, Encoding, FileOutput, FileSource, HttpOutput,
    ListenSettings, LoggregatorMetricsSource, LoggregatorOutput, LoggregatorSource,
    PrometheusSource, SocketOutput, SplunkHec, StatsdSource, SyslogOutput, SyslogSource,
};

macro_rules! component_types {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`type = \"", $text, "\"`.")] $variant,)*
        }

        impl $name {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value of `type` in the configuration, and the label `component_type` of metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

component_types! {
    /// Types of sources.
    SourceType {
        Containers = "containers",
        File = "file",
        Syslog = "syslog",
        Loggregator = "loggregator",
        Dropsonde = "dropsonde",
        Statsd = "statsd",
        LoggregatorMetrics = "loggregator_metrics",
        DrainMessages = "drain_messages",
        Prometheus = "prometheus",
        ContainerMetrics = "container_metrics",
        DatadogIntake = "datadog_intake",
    }
}

component_types! {
    /// Types of outputs.
    OutputType {
        SplunkHec = "splunk_hec",
        Http = "http",
        Socket = "socket",
        Loggregator = "loggregator",
        DatadogMetrics = "datadog_metrics",
        Syslog = "syslog",
        File = "file",
        Stdout = "stdout",
        Blackhole = "blackhole",
    }
}

impl OutputType {
    /// The kinds of records that it carries; others are not routed to it.
    pub const fn carries(self) -> Kinds {
        match self {
            Self::DatadogMetrics => Kinds::NONE.with(RecordKind::Counter).with(RecordKind::Gauge),
            Self::SplunkHec
            | Self::Http
            | Self::Socket
            | Self::Loggregator
            | Self::Syslog
            | Self::File
            | Self::Stdout
            | Self::Blackhole => Kinds::ALL,
        }
    }
}

impl SourceType {
    /// Whether its records are Loggregator envelopes.
    pub const fn has_envelopes(self) -> bool {
        match self {
            Self::Loggregator
            | Self::Dropsonde
            | Self::Statsd
            | Self::Prometheus
            | Self::ContainerMetrics
            | Self::LoggregatorMetrics
            | Self::DrainMessages => true,
            Self::Containers | Self::File | Self::Syslog | Self::DatadogIntake => false,
        }
    }
}

impl OutputType {
    /// Whether it posts requests, each of which is accepted or refused: then what was refused can be
    /// sent again.
    pub const fn posts(self) -> bool {
        match self {
            Self::SplunkHec | Self::Http | Self::Loggregator | Self::DatadogMetrics => true,
            Self::Socket | Self::Syslog | Self::File | Self::Stdout | Self::Blackhole => false,
        }
    }
}

/// The kind of a source and its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// Plain files by glob.
    File(FileSource),
    /// Containers of docker and of Kubernetes nodes.
    Containers(ContainersSource),
    /// Messages of syslog, over any transport.
    Syslog(Box<SyslogSource>),
    /// Envelopes of Loggregator, over gRPC.
    Loggregator(Box<LoggregatorSource>),
    /// Envelopes of Loggregator, version 1, over UDP.
    Dropsonde(Box<DropsondeSource>),
    /// Metrics of statsd, over UDP.
    Statsd(Box<StatsdSource>),
    /// Weir's own counts, as metrics of Loggregator.
    LoggregatorMetrics(Box<LoggregatorMetricsSource>),
    /// Messages for the owners of applications about their drains.
    DrainMessages(Box<DrainMessagesSource>),
    /// Metrics of targets in the Prometheus text format.
    Prometheus(Box<PrometheusSource>),
    /// Metrics of containers.
    ContainerMetrics(Box<ContainerMetricsSource>),
    /// Datadog's logs intake over HTTP.
    DatadogIntake(DatadogIntake),
}

impl SourceKind {
    /// Its type.
    pub fn source_type(&self) -> SourceType {
        match self {
            Self::File(_) => SourceType::File,
            Self::Containers(_) => SourceType::Containers,
            Self::Syslog(_) => SourceType::Syslog,
            Self::Loggregator(_) => SourceType::Loggregator,
            Self::Dropsonde(_) => SourceType::Dropsonde,
            Self::Statsd(_) => SourceType::Statsd,
            Self::LoggregatorMetrics(_) => SourceType::LoggregatorMetrics,
            Self::DrainMessages(_) => SourceType::DrainMessages,
            Self::Prometheus(_) => SourceType::Prometheus,
            Self::ContainerMetrics(_) => SourceType::ContainerMetrics,
            Self::DatadogIntake(_) => SourceType::DatadogIntake,
        }
    }

    /// Number of its threads.
    pub fn threads(&self) -> usize {
        self.listen().map_or(1, |listen| listen.threads)
    }

    /// Where it listens; `None` if it does not.
    pub fn listen(&self) -> Option<&ListenSettings> {
        match self {
            Self::File(_)
            | Self::Containers(_)
            | Self::Prometheus(_)
            | Self::ContainerMetrics(_)
            | Self::LoggregatorMetrics(_)
            | Self::DrainMessages(_) => None,
            Self::Syslog(source) => Some(&source.listen),
            Self::Loggregator(source) => Some(&source.listen),
            Self::Dropsonde(source) => Some(&source.listen),
            Self::Statsd(source) => Some(&source.listen),
            Self::DatadogIntake(source) => Some(&source.listen),
        }
    }
}

/// The kind of an output and its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputKind {
    /// Splunk HTTP event collector.
    SplunkHec(Box<SplunkHec>),
    /// An endpoint that accepts JSON over HTTP.
    Http(Box<HttpOutput>),
    /// Lines over TCP or TLS, datagrams over UDP.
    Socket(Box<SocketOutput>),
    /// Envelopes of Loggregator, over gRPC.
    Loggregator(Box<LoggregatorOutput>),
    /// Metrics to Datadog.
    DatadogMetrics(Box<DatadogMetricsOutput>),
    /// Messages of syslog, over any transport.
    Syslog(Box<SyslogOutput>),
    /// A local file, one line per record.
    File(FileOutput),
    /// Standard output, one line per record.
    Stdout(Encoding),
    /// Discards everything and counts it.
    Blackhole,
}

impl OutputKind {
    /// Its type.
    pub fn output_type(&self) -> OutputType {
        match self {
            Self::SplunkHec(_) => OutputType::SplunkHec,
            Self::Http(_) => OutputType::Http,
            Self::Socket(_) => OutputType::Socket,
            Self::Loggregator(_) => OutputType::Loggregator,
            Self::DatadogMetrics(_) => OutputType::DatadogMetrics,
            Self::Syslog(_) => OutputType::Syslog,
            Self::File(_) => OutputType::File,
            Self::Stdout(_) => OutputType::Stdout,
            Self::Blackhole => OutputType::Blackhole,
        }
    }

    /// Whether it accepts any certificate of its destination.
    pub fn is_insecure(&self) -> bool {
        match self {
            Self::SplunkHec(hec) => hec.requests.tls.insecure_skip_verify,
            Self::Http(http) => http.requests.tls.insecure_skip_verify,
            Self::Socket(socket) => socket.tls.insecure_skip_verify,
            Self::Loggregator(output) => output.requests.tls.insecure_skip_verify,
            Self::DatadogMetrics(output) => output.requests.tls.insecure_skip_verify,
            Self::Syslog(syslog) => syslog.tls.as_ref().is_some_and(|tls| tls.insecure_skip_verify),
            Self::File(_) | Self::Stdout(_) | Self::Blackhole => false,
        }
    }
}
