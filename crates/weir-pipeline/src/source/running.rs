//! Running sources: how they are started, woken and stopped.
//!
//! Invariants: everything that can fail is tried before a thread starts; a source whose thread
//! fails, or cannot be started, does not keep others waiting; a source that could be started in
//! part only is stopped.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_host::{Clock, Disk, RealFileTree, WakeFd};
use weir_journal::Journal;

use super::listen::{self, LaneContext, ListenError, Listener};
use super::loggregator_metrics::ViewSlot;
use super::own_paths::OwnPaths;
use super::produce::Producer;
use super::tail::{self, LayoutError, Tail};
use super::{Production, prepare};
use crate::config::{Format, ListenSettings, SourcePlan, TailSettings};
use crate::rule::RuleSwitch;
use crate::stats::SourceStats;

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

/// How far a source has come since it was started.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// All its threads have opened the streams of what exists.
    discovered: Arc<Flag>,
    /// The journal has all that was there then.
    backlog_read: Arc<Flag>,
}

impl Progress {
    /// Waits until the source has opened the streams of all existing files. Returns false when
    /// `limit` has passed. A source that has ended counts as done.
    pub fn wait_discovered(&self, limit: Duration) -> bool {
        self.discovered.wait(limit)
    }

    /// Waits until the source has appended what was in these files, or has ended. Returns false
    /// when `limit` has passed.
    pub fn wait_backlog_read(&self, limit: Duration) -> bool {
        self.backlog_read.wait(limit)
    }
}

/// Sets the flag however the thread ends, so that a failed source does not keep others waiting.
struct SetOnDrop(Arc<Flag>);

/// What the threads of a source report, each by dropping it.
#[derive(Clone)]
struct Reports {
    discovered: Arc<SetOnDrop>,
    backlog_read: Arc<SetOnDrop>,
}

impl Reports {
    fn to(progress: &Progress) -> Self {
        let set = |flag: &Arc<Flag>| Arc::new(SetOnDrop(flag.clone()));
        Self { discovered: set(&progress.discovered), backlog_read: set(&progress.backlog_read) }
    }
}

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
    progress: Progress,
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

    /// Returns how far the source has come, to be waited for.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
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

    /// Waits for its threads to end; `journal` no longer wakes them. Returns false if one of them
    /// panicked.
    pub fn join(self, journal: &Journal) -> bool {
        let failed = self.threads.into_iter().map(JoinHandle::join).filter(Result::is_err);
        let is_well = failed.count() == 0;
        self.wakes.iter().for_each(|wake| journal.forget_wake(wake));
        is_well
    }
}

/// A source that can be started: its port is bound.
pub struct PreparedSource {
    source: SourceHandle,
    journal: Journal,
    threads: Vec<SourceThread>,
}

impl PreparedSource {
    /// Does the steps of a start that can fail.
    pub fn new(plan: &SourcePlan, context: SourceContext) -> Result<Self, SourceError> {
        let io = |error| SourceError::Io { name: plan.name.clone(), error };
        let wakes = (0..plan.kind.threads()).map(|_| WakeFd::new());
        let wakes = wakes.collect::<Result<Vec<_>, _>>().map_err(io)?;
        raise_descriptor_limit();
        let stop = Arc::new(AtomicBool::new(false));
        let progress = Progress::default();
        let journal = context.journal.clone();
        let threads = prepare(Start { plan, context, wakes: &wakes, stop: &stop })?;
        let name = plan.name.clone();
        let source = SourceHandle { name, wakes, stop, progress, threads: Vec::new() };
        Ok(Self { source, journal, threads })
    }

    /// Starts its threads.
    pub fn start(self) -> Result<SourceHandle, SourceError> {
        let Self { mut source, journal, threads } = self;
        // The last thread sets the flags.
        let reports = Reports::to(&source.progress);
        for (number, source_thread) in threads.into_iter().enumerate() {
            let name = match number {
                0 => format!("source:{}", source.name),
                _ => format!("source:{}.{number}", source.name),
            };
            let reports = reports.clone();
            let thread = std::thread::Builder::new().name(name);
            match thread.spawn(move || source_thread.run(reports)) {
                Ok(thread) => source.threads.push(thread),
                Err(error) => {
                    let name = source.name.clone();
                    source.stop();
                    source.join(&journal);
                    return Err(SourceError::Io { name, error });
                }
            }
        }
        Ok(source)
    }
}

/// What one thread of a source does.
pub(super) enum SourceThread {
    Tail(Box<Tail>),
    Listen(Box<Listener>),
    Produce(Box<Producer>),
}

impl SourceThread {
    fn run(self, reports: Reports) {
        match self {
            Self::Tail(mut source) => {
                source.start();
                drop(reports.discovered);
                source.run(move || drop(reports.backlog_read));
            }
            // What they received earlier is in the journal.
            Self::Listen(source) => source.run(move || drop(reports)),
            Self::Produce(source) => source.run(move || drop(reports)),
        }
    }
}

/// A source that is about to start, and what its threads need.
pub(super) struct Start<'a> {
    pub(super) plan: &'a SourcePlan,
    pub(super) context: SourceContext,
    /// One for each thread.
    pub(super) wakes: &'a [WakeFd],
    pub(super) stop: &'a Arc<AtomicBool>,
}

impl Start<'_> {
    /// Returns the thread of a source that follows files; `create` creates it for its layout, and
    /// for the files that are never tailed.
    pub(super) fn tail(
        self,
        settings: &TailSettings,
        format: Format,
        create: impl FnOnce(tail::Parts, OwnPaths) -> Tail,
    ) -> Vec<SourceThread> {
        let Self { plan, context, wakes, stop } = self;
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
        vec![SourceThread::Tail(Box::new(create(parts, context.own_paths)))]
    }

    /// Returns the threads of a source that listens, with bound sockets.
    pub(super) fn listen(
        self,
        settings: &ListenSettings,
        protocol: impl Fn() -> listen::Protocol,
    ) -> Result<Vec<SourceThread>, SourceError> {
        let Self { plan, context, wakes, stop } = self;
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
        let bound = Listener::bind(&parts, wakes, protocol);
        let listeners =
            bound.map_err(|error| SourceError::Listen { name: plan.name.clone(), error })?;
        Ok(listeners.into_iter().map(|thread| SourceThread::Listen(Box::new(thread))).collect())
    }

    /// Returns the thread of a source that obtains its records itself. `tags` are added to its
    /// envelopes.
    pub(super) fn produce(
        self,
        tags: &[(String, String)],
        production: Production,
    ) -> Vec<SourceThread> {
        let Self { plan, context, wakes, stop } = self;
        vec![SourceThread::Produce(Box::new(Producer {
            context: LaneContext {
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
            wake: wakes[0].clone(),
            stop: stop.clone(),
            tags: tags.to_vec(),
            production,
        }))]
    }
}

/// Raises the soft limit on open files to the hard limit: every followed file is kept open.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this is refused, fewer files are open at a time.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the name of this machine, empty if it has none.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
