//! Outputs: the components that deliver records, as a closed list with their names and settings.
//! Each output is a task on one of a few threads (`threads`), and blocking disk work runs on other
//! threads (`devices`), so that a slow output does not hold up others; it owns one journal cursor
//! and settles every delivery exactly once, or not at all if it is stopped (the journal then keeps
//! it).
//!
//! Reading order: this file, `file`, then `post`, `hec`, `http`, `socket`, `syslog`.
//!
//! Invariants: an output never drops a record by itself: it delivers it, writes it to the
//! dead-letter file, or (if dead letters are disabled or their file is full) counts it as rejected;
//! transport errors are retried forever. What depends on the type of an output matches on the enums
//! in this file without a wildcard, so that a forgotten type does not compile.

mod blackhole;
mod datadog_metrics;
pub mod dead_letter;
mod devices;
mod file;
mod hec;
mod http;
mod loggregator;
pub(crate) mod pending;
mod post;
mod signal;
mod socket;
mod stdout;
mod syslog;
mod threads;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock, ConnectError, Disk};
use weir_journal::Cursor;
use weir_model::{Kinds, RecordKind};

use crate::component::component_types;
use crate::config::{Encoding, OutputPlan};
use crate::source::SourceNames;
use crate::stats::OutputStats;
use devices::Devices;
use threads::{End, Ended, OutputThreads};

pub use datadog_metrics::DatadogMetricsOutput;
pub use file::{FileOutput, FilePath, FilePathError, FsyncPolicy, Rotation};
pub use hec::SplunkHec;
pub(crate) use http::credentials as http_credentials;
pub use http::{HttpMethod, HttpOutput};
pub use loggregator::LoggregatorOutput;
pub(crate) use post::NO_ACK_ID;
pub use post::{Endpoint, EndpointError};
pub use signal::Stop;
pub use socket::{SocketOutput, SocketProtocol};
pub use syslog::{SyslogOutput, SyslogTransport};

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

    /// Whether it posts requests, each of which is accepted or refused: then what was refused can
    /// be sent again.
    pub const fn posts(self) -> bool {
        match self {
            Self::SplunkHec | Self::Http | Self::Loggregator | Self::DatadogMetrics => true,
            Self::Socket | Self::Syslog | Self::File | Self::Stdout | Self::Blackhole => false,
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

    /// The files that it writes, which no source may read; `None` if it writes none.
    pub fn written_path(&self) -> Option<&FilePath> {
        match self {
            Self::File(file) => Some(&file.path),
            Self::SplunkHec(_)
            | Self::Http(_)
            | Self::Socket(_)
            | Self::Loggregator(_)
            | Self::DatadogMetrics(_)
            | Self::Syslog(_)
            | Self::Stdout(_)
            | Self::Blackhole => None,
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

/// Dependencies of every output.
#[derive(Debug, Clone)]
pub struct OutputContext {
    /// Parent directory of the dead-letter files.
    pub data_dir: PathBuf,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// The disk that files are written to.
    pub disk: Arc<dyn Disk>,
    /// The sources whose records may arrive.
    pub sources: Arc<SourceNames>,
    /// Refused records are kept for the caller of a resend, and not written.
    is_resend: bool,
    threads: OutputThreads,
    devices: Devices,
}

impl OutputContext {
    /// Creates a context whose outputs share threads.
    pub fn new(data_dir: PathBuf, clock: Arc<dyn Clock>, disk: Arc<dyn Disk>) -> Self {
        let (threads, devices) = (OutputThreads::default(), Devices::default());
        let sources = Arc::default();
        Self { data_dir, clock, disk, sources, is_resend: false, threads, devices }
    }

    /// Returns the context of a resend of dead letters.
    fn for_resend(&self) -> Self {
        Self { is_resend: true, ..self.clone() }
    }

    /// Sets the names of the sources whose records may arrive.
    #[must_use]
    pub fn with_sources(self, sources: Arc<SourceNames>) -> Self {
        Self { sources, ..self }
    }
}

/// Why an output could not start. Nothing was taken from its cursor.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The endpoint is not a valid URL.
    #[error("output {output}: endpoint {endpoint} {problem}: {}", problem.help())]
    Endpoint {
        /// Name of the output.
        output: String,
        /// The configured value.
        endpoint: String,
        /// What is wrong with it.
        problem: EndpointError,
    },
    /// The token cannot be sent in a header.
    #[error("output {output}: the token contains characters not allowed in an HTTP header")]
    Token {
        /// Name of the output.
        output: String,
    },
    /// A header cannot be sent.
    #[error("output {output}: header {name:?} or its value is not valid in HTTP")]
    Header {
        /// Name of the output.
        output: String,
        /// Name of the header.
        name: String,
    },
    /// Certificate files cannot be used.
    #[error("output {output}: {error}")]
    Tls {
        /// Name of the output.
        output: String,
        /// The error.
        error: ConnectError,
    },
    /// A thread or event loop could not be started.
    #[error("output {output}: cannot start a thread: {error}")]
    Thread {
        /// Name of the output.
        output: String,
        /// The system error.
        error: io::Error,
    },
}

/// A running output.
#[derive(Debug)]
pub struct OutputHandle {
    name: String,
    stop: Stop,
    reopen: Stop,
    ended: Ended,
}

/// How long after its grace period a stopped output is abandoned: one that is stuck in the kernel
/// (a full pipe without a reader, a dead network disk) cannot be ended.
const LEAVE_BEHIND_AFTER: Duration = Duration::from_secs(2);

impl OutputHandle {
    /// Name of the output.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the output to deliver what it can within `grace` and then end. Returns at once.
    pub fn stop(&self, grace: Duration) {
        self.stop.request(grace);
    }

    /// Asks a file output to reopen its path (after `logrotate`); other outputs ignore it.
    pub fn reopen(&self) {
        self.reopen.request(Duration::ZERO);
    }

    /// Waits for the output to end. After [`Self::stop`], waits slightly longer than its grace
    /// period, then abandons an output that is stuck in the kernel. Returns false if it panicked.
    pub fn join(self) -> bool {
        let limit = self.stop.grace().map(|grace| grace + LEAVE_BEHIND_AFTER);
        let end = self.ended.wait(limit);
        if end == End::Not {
            tracing::warn!(
                output = %self.name,
                "output is stuck in a system call and was abandoned; undelivered records stay \
                 in the journal"
            );
        }
        end != End::Panicked
    }
}

/// The context of an output's task.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) plan: OutputPlan,
    pub(crate) context: OutputContext,
    pub(crate) stats: Arc<OutputStats>,
    pub(crate) stop: Stop,
    pub(crate) reopen: Stop,
}

/// An output whose settings were checked, with the files read for it.
#[derive(Debug)]
enum Ready {
    Post(Arc<post::Sender>),
    Socket(Box<socket::Peer>, Box<socket::Writer>),
    Relp(Box<syslog::Relp>),
    File(FileOutput),
    Stdout(Encoding),
    Blackhole,
}

impl Ready {
    /// Returns whether it may block its thread for any length of time: it then has a thread of its
    /// own.
    fn is_blocking(&self) -> bool {
        match self {
            Self::Stdout(_) => true,
            Self::Post(_) | Self::Socket(..) | Self::Relp(_) | Self::File(_) | Self::Blackhole => {
                false
            }
        }
    }
}

/// An output that can be started: its settings were checked, and its files were read.
#[derive(Debug)]
pub struct Prepared {
    job: Job,
    ready: Ready,
}

impl Prepared {
    /// Checks an output.
    pub fn new(
        plan: OutputPlan,
        context: OutputContext,
        stats: Arc<OutputStats>,
    ) -> Result<Self, OutputError> {
        let ready = prepare(&plan, &context, &stats)?;
        let job = Job { plan, context, stats, stop: Stop::new(), reopen: Stop::new() };
        Ok(Self { job, ready })
    }

    /// Starts it. It runs until [`OutputHandle::stop`], or until nothing more is appended for it
    /// and everything is delivered.
    pub fn start(self, cursor: Cursor) -> Result<OutputHandle, OutputError> {
        let Self { job, ready } = self;
        let (stop, reopen) = (job.stop.clone(), job.reopen.clone());
        let (name, stats, threads) =
            (job.plan.name.clone(), job.stats.clone(), job.context.threads.clone());
        let is_blocking = ready.is_blocking();
        let output = move || run(job, cursor, ready);
        let spawned = if is_blocking {
            OutputThreads::spawn_alone(&name, stats, output)
        } else {
            threads.spawn(stats, output)
        };
        let ended = spawned.map_err(|error| OutputError::Thread { output: name.clone(), error })?;
        Ok(OutputHandle { name, stop, reopen, ended })
    }
}

/// Checks and starts an output.
pub fn spawn(
    plan: OutputPlan,
    cursor: Cursor,
    context: OutputContext,
    stats: Arc<OutputStats>,
) -> Result<OutputHandle, OutputError> {
    Prepared::new(plan, context, stats)?.start(cursor)
}

/// Checks whether an output can run: its address, headers and certificates.
fn prepare(
    plan: &OutputPlan,
    context: &OutputContext,
    stats: &Arc<OutputStats>,
) -> Result<Ready, OutputError> {
    Ok(match &plan.kind {
        OutputKind::SplunkHec(hec) => {
            Ready::Post(Arc::new(hec::sender(plan, hec, context, stats)?))
        }
        OutputKind::Http(http) => Ready::Post(Arc::new(http::sender(plan, http, context, stats)?)),
        OutputKind::Socket(socket) => {
            let peer = socket::peer(&plan.name, socket)?;
            Ready::Socket(Box::new(peer), Box::new(socket::writer(socket)))
        }
        OutputKind::Loggregator(output) => {
            Ready::Post(Arc::new(loggregator::sender(plan, output, context, stats)?))
        }
        OutputKind::DatadogMetrics(output) => {
            Ready::Post(Arc::new(datadog_metrics::sender(plan, output, context, stats)?))
        }
        OutputKind::Syslog(syslog) => syslog::prepare(&plan.name, syslog)?,
        OutputKind::File(file) => Ready::File(file.clone()),
        OutputKind::Stdout(encoding) => Ready::Stdout(*encoding),
        OutputKind::Blackhole => Ready::Blackhole,
    })
}

/// Returns the name of this machine.
fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

async fn run(job: Job, cursor: Cursor, ready: Ready) {
    match ready {
        Ready::Post(sender) => post::run(&job, cursor, sender).await,
        Ready::Socket(peer, writer) => socket::run(&job, *peer, *writer, cursor).await,
        Ready::Relp(relp) => syslog::run(&job, *relp, cursor).await,
        Ready::File(plan) => file::run(&job, &plan, cursor).await,
        Ready::Stdout(encoding) => stdout::run(&job, encoding, cursor).await,
        Ready::Blackhole => blackhole::run(&job, cursor).await,
    }
}
