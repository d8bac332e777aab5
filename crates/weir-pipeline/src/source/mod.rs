//! Sources: the components that take records in.
//!
//! The set of kinds is closed. Each source has one thread, named `source:<name>`, or several if it
//! listens and is configured so. A source appends to the journal and knows nothing of destinations;
//! when the journal has no room, it keeps its position and continues when woken.

mod container_metrics;
mod datadog_intake;
mod drain_messages;
mod listen;
mod loggregator;
mod loggregator_metrics;
mod names;
mod own_paths;
mod produce;
mod prometheus;
mod statsd;
mod syslog;
mod tail;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_host::{Clock, Disk, RealFileTree, WakeFd};
use weir_journal::Journal;

use crate::config::{Format, ListenSettings, SourceKind, SourcePlan};
use crate::rule::RuleSwitch;
use crate::stats::SourceStats;

pub use container_metrics::limits::CONTAINER_METRICS_BYTES;
pub use listen::ListenError;
pub use listen::limits::{
    LISTENER_BYTES, LISTENER_THREADS_MAX, LOGGREGATOR_LISTENER_BYTES, QUOTA_BYTES,
    SYSLOG_LISTENER_BYTES,
};
pub use loggregator_metrics::ViewSlot;
pub use names::SourceNames;
pub use own_paths::{OwnPath, OwnPaths};
pub use prometheus::limits::{PROMETHEUS_SOURCE_BYTES, SCRAPE_TARGETS_MAX};
pub use tail::{LayoutError, is_compressed_or_temporary};

/// What a source needs from the process.
#[derive(Debug, Clone)]
pub struct SourceContext {
    /// The journal to append to.
    pub journal: Journal,
    /// Determines the destinations of records and modifies them.
    pub rules: Arc<RuleSwitch>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The disk for files of a source other than the journal.
    pub disk: Arc<dyn Disk>,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Live statistics of this source.
    pub stats: Arc<SourceStats>,
    /// The pipeline; set once it is started.
    pub view: ViewSlot,
    /// Files and directories that weir itself writes: they are never tailed.
    pub own_paths: OwnPaths,
}

/// Why a source could not start.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// One of its globs is invalid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The system refused a thread or descriptor.
    #[error("cannot start source {name:?}: {error}")]
    Io {
        /// Name of the source.
        name: String,
        /// The system error.
        error: std::io::Error,
    },
    /// Its port cannot be opened, or its certificates cannot be used.
    #[error("source {name}: {error}")]
    Listen {
        /// Name of the source.
        name: String,
        /// The error.
        error: ListenError,
    },
}

/// A flag that is set once and that others wait for.
#[derive(Debug, Default)]
struct Flag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(is_set, left);
            is_set = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Waits for the first discovery of a source.
#[derive(Debug, Clone)]
pub struct Discovered(Arc<Flag>);

impl Discovered {
    /// Waits until it is done. Returns false when `limit` has passed.
    pub fn wait(&self, limit: Duration) -> bool {
        self.0.wait(limit)
    }
}

/// Sets the flag however the thread ends, so that a failed source does not keep others waiting.
struct SetOnDrop(Arc<Flag>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A running source.
#[derive(Debug)]
pub struct SourceHandle {
    name: String,
    /// One for each thread.
    wakes: Vec<WakeFd>,
    stop: Arc<AtomicBool>,
    discovered: Arc<Flag>,
    threads: Vec<JoinHandle<()>>,
}

impl SourceHandle {
    /// Name of the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the source check again whatever it is waiting for.
    pub fn wake(&self) {
        for wake in &self.wakes {
            wake.wake();
        }
    }

    /// Returns a handle that reports when the source has opened the streams of all existing files.
    pub fn discovered(&self) -> Discovered {
        Discovered(self.discovered.clone())
    }

    /// Tells the source to stop, without waiting.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns true if its threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for its threads to end. Returns false if one of them panicked.
    pub fn join(self) -> bool {
        let failed = self.threads.into_iter().map(JoinHandle::join).filter(Result::is_err);
        failed.count() == 0
    }
}

/// Starts a source.
pub fn spawn(plan: &SourcePlan, context: SourceContext) -> Result<SourceHandle, SourceError> {
    let io = |error| SourceError::Io { name: plan.name.clone(), error };
    let wakes = (0..plan.kind.threads()).map(|_| WakeFd::new());
    let wakes = wakes.collect::<Result<Vec<_>, _>>().map_err(io)?;
    raise_descriptor_limit();
    let stop = Arc::new(AtomicBool::new(false));
    let discovered = Arc::new(Flag::default());
    let works = prepare(plan, context, &wakes, &stop)?;
    let mut source =
        SourceHandle { name: plan.name.clone(), wakes, stop, discovered, threads: Vec::new() };
    // Set when the last thread has finished its first discovery.
    let when_discovered = Arc::new(SetOnDrop(source.discovered.clone()));
    for (number, work) in works.into_iter().enumerate() {
        let name = match number {
            0 => format!("source:{}", plan.name),
            _ => format!("source:{}.{number}", plan.name),
        };
        let when_discovered = when_discovered.clone();
        let thread = std::thread::Builder::new().name(name);
        match thread.spawn(move || work.run(when_discovered)) {
            Ok(thread) => source.threads.push(thread),
            Err(error) => {
                source.stop();
                source.join();
                return Err(io(error));
            }
        }
    }
    Ok(source)
}

/// The work of one thread of a source.
enum Work {
    Tail(Box<tail::Tail>),
    Listen(Box<listen::Listener>),
    Produce(Box<produce::Producer>),
}

impl Work {
    fn run(self, discovered: Arc<SetOnDrop>) {
        match self {
            Self::Tail(mut source) => {
                source.start();
                drop(discovered);
                source.run();
            }
            Self::Listen(source) => source.run(move || drop(discovered)),
            Self::Produce(source) => source.run(move || drop(discovered)),
        }
    }
}

/// Checks whether a source can run: its globs and its port. Returns the work of each thread, which
/// is woken by one of `wakes`.
fn prepare(
    plan: &SourcePlan,
    context: SourceContext,
    wakes: &[WakeFd],
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Work>, SourceError> {
    let (layout, settings, format) = match &plan.kind {
        SourceKind::File(source) => (tail::files(source)?, &source.tail, source.format),
        SourceKind::Containers(source) => (tail::containers(source)?, &source.tail, Format::Auto),
        SourceKind::DatadogIntake(source) => {
            let protocol = || {
                let intake = datadog_intake::Intake::new(source.api_keys.as_ref());
                listen::Protocol::DatadogIntake(intake, source.in_flight_bytes_max)
            };
            return listen(plan, &source.listen, protocol, context, wakes, stop);
        }
        SourceKind::Syslog(source) => {
            let protocol = || listen::Protocol::syslog(source);
            return listen(plan, &source.listen, protocol, context, wakes, stop);
        }
        SourceKind::Dropsonde(source) => {
            let protocol = || listen::Protocol::Dropsonde(source.clone());
            return listen(plan, &source.listen, protocol, context, wakes, stop);
        }
        SourceKind::Statsd(source) => {
            let protocol = || listen::Protocol::Statsd(source.clone());
            return listen(plan, &source.listen, protocol, context, wakes, stop);
        }
        SourceKind::LoggregatorMetrics(source) => {
            let work = produce::Work::Originals(source.clone(), context.view.clone());
            return Ok(vec![produce(plan, work, context, &wakes[0], stop)]);
        }
        SourceKind::DrainMessages(source) => {
            let work = produce::Work::DrainMessages(source.clone(), context.view.clone());
            return Ok(vec![produce(plan, work, context, &wakes[0], stop)]);
        }
        SourceKind::Loggregator(source) => {
            let protocol = || listen::Protocol::Loggregator(source.clone());
            return listen(plan, &source.listen, protocol, context, wakes, stop);
        }
        SourceKind::Prometheus(source) => {
            let work = produce::Work::Prometheus(source.clone());
            return Ok(vec![produce(plan, work, context, &wakes[0], stop)]);
        }
        SourceKind::ContainerMetrics(source) => {
            let work = produce::Work::Containers(source.clone());
            return Ok(vec![produce(plan, work, context, &wakes[0], stop)]);
        }
    };
    let parts = tail::Parts {
        name: plan.name.clone(),
        settings: settings.clone(),
        format,
        journal: context.journal,
        rules: context.rules,
        clock: context.clock,
        tree: Arc::new(RealFileTree),
        stats: context.stats,
        wake: wakes[0].clone(),
        stop: stop.clone(),
        host: host_name(),
    };
    Ok(vec![Work::Tail(Box::new(tail::Tail::new(layout, parts, context.own_paths)))])
}

/// Returns the work of a source that obtains its records itself.
fn produce(
    plan: &SourcePlan,
    work: produce::Work,
    context: SourceContext,
    wake: &WakeFd,
    stop: &Arc<AtomicBool>,
) -> Work {
    Work::Produce(Box::new(produce::Producer {
        context: listen::LaneContext {
            name: plan.name.clone(),
            thread: 0,
            journal: context.journal,
            rules: context.rules,
            clock: context.clock,
            stats: context.stats,
            gather_time: listen::GATHER_TIME,
        },
        received_file: context.data_dir.join("received").join(&plan.name),
        disk: context.disk,
        wake: wake.clone(),
        stop: stop.clone(),
        work,
    }))
}

fn listen(
    plan: &SourcePlan,
    settings: &ListenSettings,
    protocol: impl Fn() -> listen::Protocol,
    context: SourceContext,
    wakes: &[WakeFd],
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Work>, SourceError> {
    let parts = listen::Parts {
        name: plan.name.clone(),
        settings: settings.clone(),
        journal: context.journal,
        rules: context.rules,
        clock: context.clock,
        received_file: context.data_dir.join("received").join(&plan.name),
        disk: context.disk,
        stats: context.stats,
        stop: stop.clone(),
    };
    let bound = listen::Listener::bind(&parts, wakes, protocol);
    let listeners =
        bound.map_err(|error| SourceError::Listen { name: plan.name.clone(), error })?;
    Ok(listeners.into_iter().map(|listener| Work::Listen(Box::new(listener))).collect())
}

/// Raises the soft limit on open files to the hard limit: every followed file is kept open.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this is refused, fewer files are open at a time.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the name of this machine, empty if it has none.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
