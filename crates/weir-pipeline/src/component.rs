//! The types of sources and outputs, as closed lists: their names, and their settings.
//!
//! Invariant: code that depends on the type of a component (its keys, checks, plan, memory, wiring
//! and documentation) matches on these enums without a wildcard, so that a forgotten type does not
//! compile. `cargo xtask check` reports wildcards.

use crate::config::{
    ContainersSource, DatadogIntake, DropsondeSource, Encoding, FileOutput, FileSource, HttpOutput,
    ListenSettings, LoggregatorOutput, LoggregatorSource, SocketOutput, SplunkHec, StatsdSource,
    SyslogOutput, SyslogSource,
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
        Syslog = "syslog",
        File = "file",
        Stdout = "stdout",
        Blackhole = "blackhole",
    }
}

impl SourceType {
    /// Whether its records are envelopes of Loggregator.
    pub const fn has_envelopes(self) -> bool {
        match self {
            Self::Loggregator | Self::Dropsonde | Self::Statsd => true,
            Self::Containers | Self::File | Self::Syslog | Self::DatadogIntake => false,
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
            Self::DatadogIntake(_) => SourceType::DatadogIntake,
        }
    }

    /// Number of its threads.
    pub fn threads(&self) -> usize {
        self.listen().map_or(1, |listen| listen.threads)
    }

    /// Where it listens; `None` if it follows files.
    pub fn listen(&self) -> Option<&ListenSettings> {
        match self {
            Self::File(_) | Self::Containers(_) => None,
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
            Self::Syslog(syslog) => syslog.tls.as_ref().is_some_and(|tls| tls.insecure_skip_verify),
            Self::File(_) | Self::Stdout(_) | Self::Blackhole => false,
        }
    }
}
