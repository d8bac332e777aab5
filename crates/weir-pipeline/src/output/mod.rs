//! Everything that sends records out. Each output is one thread with its own event loop, so that
//! a slow one holds up nobody else; it owns one journal cursor and settles every delivery exactly
//! once, or not at all when it is stopped (the journal then keeps it).
//!
//! Reading order: this file, `file`, then `post`, `hec`, `http`, `socket`.
//!
//! Invariants: an output never drops a record on its own account: it delivers, writes to the
//! dead-letter file, or (dead letters switched off, or their file full) counts it as rejected;
//! transport errors are retried for ever.

mod blackhole;
pub mod dead_letter;
mod file;
mod hec;
mod http;
pub(crate) mod parcel;
mod post;
mod signal;
mod socket;
mod stdout;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_host::{Clock, ConnectError, Disk};
use weir_journal::Cursor;

use crate::config::{Encoding, FileOutput, OutputKind, OutputPlan, SocketOutput};
use crate::stats::{self, OutputStats};

pub use file::{FilePath, FilePathError};
pub use post::{Endpoint, EndpointError};
pub use signal::Stop;

/// What every output gets from outside.
#[derive(Debug, Clone)]
pub struct OutputContext {
    /// Home of the dead-letter files.
    pub data_dir: PathBuf,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// Where files are written.
    pub disk: Arc<dyn Disk>,
}

/// Why an output cannot start. Nothing was taken from its cursor.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The endpoint is no URL that weir understands.
    #[error("output {output}: endpoint {endpoint} {problem}: {}", problem.help())]
    Endpoint {
        /// Name of the output.
        output: String,
        /// The setting.
        endpoint: String,
        /// What is wrong with it.
        problem: EndpointError,
    },
    /// The token cannot stand in a header.
    #[error("output {output}: the token holds characters that no HTTP header may hold")]
    Token {
        /// Name of the output.
        output: String,
    },
    /// A header cannot be sent.
    #[error("output {output}: the header {name:?} or its value cannot be sent")]
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
        /// What is wrong.
        error: ConnectError,
    },
    /// No thread or event loop.
    #[error("output {output}: cannot start a thread: {error}")]
    Thread {
        /// Name of the output.
        output: String,
        /// What the operating system said.
        error: io::Error,
    },
}

/// A running output.
#[derive(Debug)]
pub struct OutputHandle {
    name: String,
    stop: Stop,
    reopen: Stop,
    thread: JoinHandle<()>,
    /// Disconnects when the thread ends.
    ended: mpsc::Receiver<()>,
}

/// How much longer than its grace a stopped output may take before it is left behind: one that
/// is stuck in the kernel (a full pipe that nobody reads, a dead network disk) cannot be ended.
const LEAVE_BEHIND_AFTER: Duration = Duration::from_secs(2);

impl OutputHandle {
    /// Name of the output.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the output to deliver what it can within `grace` and then to end. Returns at once.
    pub fn stop(&self, grace: Duration) {
        self.stop.request(grace);
    }

    /// Asks a file output to open its path anew (after `logrotate`); others ignore it.
    pub fn reopen(&self) {
        self.reopen.request(Duration::ZERO);
    }

    /// True once the output's thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the thread; after [`Self::stop`] no longer than its grace and a
    /// little, then a thread that is stuck in the kernel is left behind. False when it panicked.
    pub fn join(self) -> bool {
        if let Some(grace) = self.stop.grace() {
            let waited = self.ended.recv_timeout(grace + LEAVE_BEHIND_AFTER);
            if waited == Err(RecvTimeoutError::Timeout) {
                tracing::warn!(output = %self.name, "the output is stuck in a system call and is left behind; the next start delivers its rest");
                return true;
            }
        }
        self.thread.join().is_ok()
    }
}

/// What the thread of an output works with.
pub(crate) struct Job {
    pub(crate) plan: OutputPlan,
    pub(crate) context: OutputContext,
    pub(crate) stats: Arc<OutputStats>,
    pub(crate) stop: Stop,
    pub(crate) reopen: Stop,
}

/// An output whose settings were checked, with what was read for it.
enum Ready {
    Post(Arc<post::Sender>),
    Socket(Box<SocketOutput>, Box<socket::Dialer>),
    File(FileOutput),
    Stdout(Encoding),
    Blackhole,
}

/// Starts an output: checks its settings and files here, so that mistakes are the caller's to
/// report, then runs on a thread of its own until [`OutputHandle::stop`], or until the journal is
/// closed and everything is delivered.
pub fn spawn(
    plan: OutputPlan,
    cursor: Cursor,
    context: OutputContext,
    stats: Arc<OutputStats>,
) -> Result<OutputHandle, OutputError> {
    let name = plan.name.clone();
    let thread_error = |error| OutputError::Thread { output: name.clone(), error };
    let ready = match &plan.kind {
        OutputKind::SplunkHec(hec) => {
            Ready::Post(Arc::new(hec::sender(&plan, hec, &context, &stats)?))
        }
        OutputKind::Http(http) => {
            Ready::Post(Arc::new(http::sender(&plan, http, &context, &stats)?))
        }
        OutputKind::Socket(socket) => {
            let dialer = socket::Dialer::new(&plan.name, socket)?;
            Ready::Socket(socket.clone(), Box::new(dialer))
        }
        OutputKind::File(file) => Ready::File(file.clone()),
        OutputKind::Stdout(encoding) => Ready::Stdout(*encoding),
        OutputKind::Blackhole => Ready::Blackhole,
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(thread_error)?;
    let job = Job { plan, context, stats, stop: Stop::new(), reopen: Stop::new() };
    let (stop, reopen) = (job.stop.clone(), job.reopen.clone());
    let (ends, ended) = mpsc::sync_channel(0);
    let thread = std::thread::Builder::new()
        .name(format!("output:{name}"))
        .spawn(move || {
            let _ends: mpsc::SyncSender<()> = ends;
            runtime.block_on(run(job, cursor, ready));
        })
        .map_err(thread_error)?;
    Ok(OutputHandle { name: name.clone(), stop, reopen, thread, ended })
}

async fn run(job: Job, cursor: Cursor, ready: Ready) {
    match ready {
        Ready::Post(sender) => post::run(&job, cursor, sender).await,
        Ready::Socket(plan, dialer) => socket::run(&job, &plan, cursor, *dialer).await,
        Ready::File(plan) => file::run(&job, &plan, cursor).await,
        Ready::Stdout(encoding) => stdout::run(&job, encoding, cursor).await,
        Ready::Blackhole => blackhole::run(&job, cursor).await,
    }
    stats::publish_cpu(&job.stats.cpu_ns);
}
