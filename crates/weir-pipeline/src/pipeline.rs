//! The wiring: journal, cursors, outputs and sources, in the order in which they start and stop.
//!
//! Start: the journal recovers, every output gets its cursor and starts (so that data left by an
//! earlier run is sent at once), then the sources start. Once all sources have opened the files
//! that they found, recovered batches of files that no longer exist are released.
//! Stop: the sources stop first, then the journal closes and the outputs drain what they can within
//! the deadline; the rest stays after their positions and is delivered by the next run.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock, Disk};
use weir_journal::{Cursor, CursorSpec, Journal, JournalConfig, JournalError, WhenFull};

use crate::config::{OutputKind, OutputPlan, PipelinePlan, SourcePlan};
use crate::health::Severity;
use crate::output::{self, OutputContext, OutputError, OutputHandle};
use crate::rule::{Generations, GenerationsError, RuleSwitch, Rules};
use crate::source::{self, Discovered, OwnPath, SourceContext, SourceError, SourceHandle};
use crate::view::{OutputView, PipelineView, SourceView};

/// Maximum time that positions and appended batches wait for others before they are flushed.
const COMMIT_INTERVAL: Duration = Duration::from_millis(20);
/// A ring that its slowest output keeps full for this long is spilled to disk.
const SPILL_AFTER: Duration = Duration::from_secs(1);
/// Large enough that files are few, small enough that space is freed soon.
const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// How long batches of apparently missing files wait for a source to open them.
const DISCOVERY_MAX: Duration = Duration::from_mins(1);

/// A running pipeline.
#[derive(Debug)]
pub struct Pipeline {
    view: Arc<PipelineView>,
    sources: Vec<SourceHandle>,
    outputs: Vec<OutputHandle>,
    destinations: Vec<Arc<dyn Running>>,
    /// Names and cursor indexes of the outputs and the other destinations, in order.
    names: Vec<(String, usize)>,
    generations: Generations,
}

/// A destination other than an output, supplied by the caller that starts the pipeline.
pub struct Destination {
    /// Its name, as used in rules and in the ledger.
    pub name: String,
    /// Its type name, like the `type` of an output.
    pub type_name: &'static str,
    /// Maximum size of the batches waiting for it, in ring and segments together, in bytes. When it
    /// is reached, the destination blocks its sources.
    pub buffer_limit_bytes: u64,
    /// Maximum size of the batches that it has taken and neither stored nor acknowledged, in bytes.
    pub window_bytes: u64,
    /// Starts it once the data directory is locked.
    pub start: Box<StartDestination>,
}

/// Starts a destination with its cursor.
pub type StartDestination =
    dyn FnOnce(Cursor) -> Result<Arc<dyn Running>, Box<dyn std::error::Error + Send + Sync>>;

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A running destination.
pub trait Running: Send + Sync + std::fmt::Debug {
    /// Tells it to process what is left within the deadline and then end. The journal is already
    /// closed.
    fn stop(&self, deadline: Duration);
    /// Waits for it to end. Returns false if it panicked.
    fn join(&self) -> bool;
    /// Returns its active problems.
    fn problems(&self) -> Vec<ActiveProblem>;
    /// Returns the CPU time of its threads, nanoseconds.
    fn cpu_ns(&self) -> u64;
}

/// An active problem of a destination, for health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveProblem {
    /// A short fixed identifier.
    pub reason: &'static str,
    /// Severity of the problem.
    pub severity: Severity,
    /// Description of the problem.
    pub text: String,
}

/// Why a pipeline could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An output cannot be set up.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A destination other than an output cannot be set up.
    #[error("{name}: {error}")]
    Destination {
        /// Its name.
        name: String,
        /// The cause.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A source cannot be set up.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file of rule generations cannot be used by this release.
    #[error(transparent)]
    Generations(#[from] GenerationsError),
    /// The rules cannot be compiled.
    #[error(transparent)]
    Rules(#[from] weir_expr::CompileError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl Pipeline {
    /// Starts everything in the plan, and the given additional destinations.
    pub fn start(
        plan: &PipelinePlan,
        others: Vec<Destination>,
        disk: &Arc<dyn Disk>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let journal = Journal::open(journal_config(plan), disk.clone(), clock.clone())?;
        let mut outputs = Vec::new();
        let mut output_views = Vec::new();
        let mut names = Vec::new();
        for output in &plan.outputs {
            let (handle, view, index) = start_output(output, plan, &journal, disk, clock)?;
            outputs.push(handle);
            output_views.push(view);
            names.push((output.name.clone(), index));
        }
        let mut destinations = Vec::new();
        for other in others {
            let (running, view, index) = start_destination(other, &journal)?;
            names.push((view.name.clone(), index));
            output_views.push(view);
            destinations.push(running);
        }
        let mut generations = Generations::open(disk.clone(), &plan.data_dir)?;
        let generation = generations.number(plan, &names_of(&names), clock.unix_ns());
        let rules = Arc::new(RuleSwitch::new(compile(plan, &names, generation)?, clock.unix_ns()));
        let mut sources = Vec::new();
        let mut source_views = Vec::new();
        for source in &plan.sources {
            let (handle, view) = start_source(source, plan, &journal, &rules, disk, clock)?;
            sources.push(handle);
            source_views.push(view);
        }
        release_when_discovered(&sources, journal.clone())?;
        let view = PipelineView::new(journal, source_views, output_views, rules, clock.clone());
        Ok(Self { view: Arc::new(view), sources, outputs, destinations, names, generations })
    }

    /// Applies the rules of another plan, which must be identical except for the rules (see
    /// [`PipelinePlan::differs_only_in_rules`]). Each source uses them from its next batch on.
    /// Returns their generation.
    pub fn replace_rules(&mut self, plan: &PipelinePlan) -> Result<u32, weir_expr::CompileError> {
        let now = self.view.clock.unix_ns();
        let generation = self.generations.number(plan, &names_of(&self.names), now);
        let rules = compile(plan, &self.names, generation)?;
        self.view.rules.replace(rules, self.view.clock.unix_ns());
        Ok(generation)
    }

    /// Returns the live statistics and books.
    pub fn view(&self) -> Arc<PipelineView> {
        self.view.clone()
    }

    /// Stops reading, lets the outputs deliver what they can within `deadline`, and flushes the
    /// books.
    pub fn shutdown(mut self, deadline: Duration) {
        self.stop(deadline);
    }

    /// Stops a pipeline that is being replaced: afterwards nothing runs, and its data directory can
    /// be opened again.
    pub fn stop(&mut self, deadline: Duration) {
        self.view.set_stopping();
        for source in &self.sources {
            source.stop();
        }
        for source in self.sources.drain(..) {
            let name = source.name().to_owned();
            if !source.join() {
                tracing::error!(source = name, "source thread panicked");
            }
        }
        self.view.journal.close();
        for output in &self.outputs {
            output.stop(deadline);
        }
        for destination in &self.destinations {
            destination.stop(deadline);
        }
        for output in self.outputs.drain(..) {
            let name = output.name().to_owned();
            if !output.join() {
                tracing::error!(output = name, "output thread panicked");
            }
        }
        for destination in self.destinations.drain(..) {
            if !destination.join() {
                tracing::error!(?destination, "destination thread panicked");
            }
        }
        self.view.journal.shutdown();
    }
}

fn journal_config(plan: &PipelinePlan) -> JournalConfig {
    JournalConfig {
        dir: plan.data_dir.join("journal"),
        ring_bytes: plan.ring_bytes,
        limit_bytes: plan.journal_limit_bytes,
        free_bytes_min: plan.disk_free_bytes_min,
        segment_bytes: SEGMENT_BYTES,
        commit_interval: COMMIT_INTERVAL,
        spill_after: SPILL_AFTER,
    }
}

fn start_output(
    plan: &OutputPlan,
    pipeline: &PipelinePlan,
    journal: &Journal,
    disk: &Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
) -> Result<(OutputHandle, OutputView, usize), StartError> {
    let cursor = journal.cursor(CursorSpec {
        name: plan.name.clone(),
        when_full: plan.when_full,
        buffer_limit_bytes: plan.buffer_limit_bytes,
        window_bytes: plan.window_bytes,
    })?;
    let index = cursor.index();
    let view = OutputView::new(plan);
    let context = OutputContext {
        data_dir: pipeline.data_dir.clone(),
        clock: clock.clone(),
        disk: disk.clone(),
    };
    let handle = output::spawn(plan.clone(), cursor, context, view.stats.clone())?;
    Ok((handle, view, index))
}

fn start_destination(
    destination: Destination,
    journal: &Journal,
) -> Result<(Arc<dyn Running>, OutputView, usize), StartError> {
    let Destination { name, type_name, buffer_limit_bytes, window_bytes, start } = destination;
    let cursor = journal.cursor(CursorSpec {
        name: name.clone(),
        when_full: WhenFull::Block,
        buffer_limit_bytes,
        window_bytes,
    })?;
    let index = cursor.index();
    let started = start(cursor);
    let running = started.map_err(|error| StartError::Destination { name: name.clone(), error })?;
    Ok((running.clone(), OutputView::other(name, type_name, running), index))
}

fn names_of(names: &[(String, usize)]) -> Vec<String> {
    names.iter().map(|(name, _)| name.clone()).collect()
}

fn start_source(
    plan: &SourcePlan,
    pipeline: &PipelinePlan,
    journal: &Journal,
    rules: &Arc<RuleSwitch>,
    disk: &Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
) -> Result<(SourceHandle, SourceView), StartError> {
    let view = SourceView::new(plan);
    let context = SourceContext {
        journal: journal.clone(),
        rules: rules.clone(),
        clock: clock.clone(),
        disk: disk.clone(),
        data_dir: pipeline.data_dir.clone(),
        stats: view.stats.clone(),
        own_paths: own_paths(pipeline),
    };
    Ok((source::spawn(plan, context)?, view))
}

/// Compiles the rules of a plan whose destinations have these cursor indexes.
fn compile(
    plan: &PipelinePlan,
    names: &[(String, usize)],
    generation: u32,
) -> Result<Rules, weir_expr::CompileError> {
    let cursor_of =
        |name: &str| names.iter().find(|(known, _)| known == name).map(|(_, index)| *index);
    let default_to: Vec<usize> = match &plan.default_to {
        Some(names) => names.iter().filter_map(|name| cursor_of(name)).collect(),
        None => names.iter().map(|(_, index)| *index).collect(),
    };
    Rules::new(generation, &plan.rules, &default_to, cursor_of)
}

/// Returns the paths that weir itself writes and therefore never tails.
fn own_paths(plan: &PipelinePlan) -> Vec<OwnPath> {
    let mut own = vec![OwnPath::Below(plan.data_dir.clone())];
    for output in &plan.outputs {
        let OutputKind::File(file) = &output.kind else { continue };
        own.push(OwnPath::Files(file.path.clone()));
        if !file.path.is_template() {
            // The resolved path, in case it is a link.
            own.push(OwnPath::Below(file.path.base().to_owned()));
        }
    }
    own
}

/// Waits for the first discovery of every source, then releases batches that none of them claimed.
fn release_when_discovered(sources: &[SourceHandle], journal: Journal) -> Result<(), StartError> {
    let discovered: Vec<Discovered> = sources.iter().map(SourceHandle::discovered).collect();
    let wait = move || {
        for source in &discovered {
            source.wait(DISCOVERY_MAX);
        }
        journal.release_unclaimed();
    };
    let thread = std::thread::Builder::new().name("discovery".to_owned()).spawn(wait);
    thread.map(drop).map_err(StartError::Thread)
}
