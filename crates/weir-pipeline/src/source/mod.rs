//! Sources: the components that take records in, as a closed list with their names and settings.
//!
//! Each source has one thread, named `source:<name>`, or several if it listens and is configured
//! so. A source appends to the journal and knows nothing of destinations; when the journal has no
//! room, it keeps its position and continues when woken.
//!
//! Invariant: what depends on the type of a source matches on the enums in this file without a
//! wildcard, so that a forgotten type does not compile. `cargo xtask check` reports wildcards.

mod container_metrics;
mod containers;
mod datadog_intake;
mod drain_messages;
mod file;
mod listen;
mod loggregator;
mod loggregator_metrics;
mod names;
mod own_paths;
mod produce;
mod prometheus;
mod running;
#[cfg(test)]
mod simulated;
mod statsd;
mod syslog;
mod tail;

use std::path::PathBuf;
use std::rc::Rc;

use crate::component::component_types;
use crate::config::{Format, ListenSettings};
use listen::Protocol;
use produce::Emitter;
use running::{SourceThread, Start};
use tail::Tail;

pub use container_metrics::ContainerMetricsSource;
pub use container_metrics::limits::CONTAINER_METRICS_BYTES;
pub use containers::ContainersSource;
pub use datadog_intake::DatadogIntake;
pub use drain_messages::DrainMessagesSource;
pub use file::FileSource;
pub use listen::ListenError;
pub use listen::limits::{
    LISTENER_BYTES, LISTENER_THREADS_MAX, LOGGREGATOR_LISTENER_BYTES, QUOTA_BYTES,
    SYSLOG_LISTENER_BYTES,
};
pub use loggregator::{DropsondeSource, LoggregatorSource};
pub use loggregator_metrics::{LoggregatorMetricsSource, ViewSlot};
pub use names::SourceNames;
pub use own_paths::{OwnPath, OwnPaths};
pub use prometheus::limits::{PROMETHEUS_SOURCE_BYTES, SCRAPE_TARGETS_MAX};
pub use prometheus::{PrometheusSource, ScrapeTarget};
pub use running::{PreparedSource, Progress, SourceContext, SourceError, SourceHandle};
pub use statsd::StatsdSource;
pub use syslog::SyslogSource;
pub use tail::{LayoutError, is_compressed_or_temporary};

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

/// The Loggregator envelopes that the records of a source are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelopes {
    /// They are not envelopes.
    None,
    /// They arrived in version 1.
    V1,
    /// They arrived in version 2, or were made of metrics that arrived.
    V2,
    /// Weir's own metrics and messages, which did not arrive.
    Own,
}

impl SourceType {
    /// The envelopes that its records are.
    pub const fn envelopes(self) -> Envelopes {
        match self {
            Self::Dropsonde => Envelopes::V1,
            Self::Loggregator | Self::Statsd | Self::Prometheus | Self::ContainerMetrics => {
                Envelopes::V2
            }
            Self::LoggregatorMetrics | Self::DrainMessages => Envelopes::Own,
            Self::Containers | Self::File | Self::Syslog | Self::DatadogIntake => Envelopes::None,
        }
    }

    /// Whether its records are Loggregator envelopes.
    pub const fn has_envelopes(self) -> bool {
        match self.envelopes() {
            Envelopes::None => false,
            Envelopes::V1 | Envelopes::V2 | Envelopes::Own => true,
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

    /// The directories that it follows, also once they appear.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        let roots: [&[PathBuf]; 3] = match self {
            Self::Containers(source) => {
                [&source.docker_roots, &source.pod_roots, &source.link_roots]
            }
            // Their patterns say what is followed.
            Self::File(_)
            | Self::Syslog(_)
            | Self::Loggregator(_)
            | Self::Dropsonde(_)
            | Self::Statsd(_)
            | Self::LoggregatorMetrics(_)
            | Self::DrainMessages(_)
            | Self::Prometheus(_)
            | Self::ContainerMetrics(_)
            | Self::DatadogIntake(_) => [&[]; 3],
        };
        roots.into_iter().flatten()
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

/// Checks whether a source can run: its globs and its port. Returns its threads.
fn prepare(start: Start<'_>) -> Result<Vec<SourceThread>, SourceError> {
    let view = start.context.view.clone();
    Ok(match &start.plan.kind {
        SourceKind::File(source) => {
            let layout = tail::files(source)?;
            let create = |parts, hidden| Tail::new(layout, parts, hidden);
            start.tail(&source.tail, source.format, create)
        }
        SourceKind::Containers(source) => {
            let layout = tail::containers(source)?;
            let create = |parts, hidden| Tail::new(layout, parts, hidden);
            start.tail(&source.tail, Format::Auto, create)
        }
        SourceKind::DatadogIntake(source) => {
            let intake = || datadog_intake::Intake::new(source.api_keys.as_ref());
            let protocol = || Protocol::DatadogIntake(intake(), source.in_flight_bytes_max);
            start.listen(&source.listen, protocol)?
        }
        SourceKind::Syslog(source) => start.listen(&source.listen, || Protocol::syslog(source))?,
        SourceKind::Loggregator(source) => {
            start.listen(&source.listen, || Protocol::Loggregator(source.clone()))?
        }
        SourceKind::Dropsonde(source) => {
            start.listen(&source.listen, || Protocol::Dropsonde(source.clone()))?
        }
        SourceKind::Statsd(source) => {
            start.listen(&source.listen, || Protocol::Statsd(source.clone()))?
        }
        SourceKind::LoggregatorMetrics(source) => {
            start.produce(&source.tags, Production::LoggregatorMetrics(source.clone(), view))
        }
        SourceKind::DrainMessages(source) => {
            start.produce(&source.tags, Production::DrainMessages(view))
        }
        SourceKind::Prometheus(source) => {
            start.produce(&source.tags, Production::Prometheus(source.clone()))
        }
        SourceKind::ContainerMetrics(source) => {
            start.produce(&source.tags, Production::ContainerMetrics(source.clone()))
        }
    })
}

/// What a source that obtains its records itself does (`produce`).
enum Production {
    LoggregatorMetrics(Box<LoggregatorMetricsSource>, ViewSlot),
    DrainMessages(ViewSlot),
    Prometheus(Box<PrometheusSource>),
    ContainerMetrics(Box<ContainerMetricsSource>),
}

impl Production {
    /// Emits envelopes; never returns.
    async fn run(self, emitter: &Rc<Emitter>) {
        match self {
            Self::LoggregatorMetrics(source, view) => {
                loggregator_metrics::run(&source, &view, emitter).await;
            }
            Self::DrainMessages(view) => drain_messages::run(&view, emitter).await,
            Self::Prometheus(source) => prometheus::run(&source, emitter).await,
            Self::ContainerMetrics(source) => container_metrics::run(&source, emitter).await,
        }
    }
}
