//! The wiring: journal, cursors, outputs and sources, in the order in which they start and stop,
//! and what can change in between ([`Pipeline::apply`]).
//!
//! Start: the journal recovers, every output gets its cursor and starts (so that data left by an
//! earlier run is sent at once), then the sources start. Once all sources have opened the files
//! that they found, recovered batches of files that no longer exist are released.
//! Stop: the sources stop first, then the journal closes and the outputs drain what they can within
//! the deadline; the rest stays after their positions and is delivered by the next run.

mod drains;
mod outputs;
mod sources;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock, Disk};
use weir_journal::{Cursor, CursorSpec, Journal, JournalConfig, JournalError, WhenFull};
use weir_model::Kinds;

use crate::config::{OutputPlan, PipelinePlan};
use crate::drain::{DrainsError, PreparedDrains};
use crate::health::Severity;
use crate::output::{OutputContext, OutputError};
use crate::rule::{Generations, GenerationsError, RuleSwitch, Rules};
use crate::source::{
    OwnPath, OwnPaths, Progress, SourceContext, SourceError, SourceNames, ViewSlot,
};
use crate::view::{OutputView, PipelineView};
use drains::{DrainsChange, DrainsContext, RunningDrains};
use outputs::Outputs;
use sources::Sources;

/// Maximum time that positions and appended batches wait for others before they are flushed.
const COMMIT_INTERVAL: Duration = Duration::from_millis(20);
/// A ring that its slowest output keeps full for this long is spilled to disk.
const SPILL_AFTER: Duration = Duration::from_secs(1);
/// Maximum time for verifying what waits in the journal at a start, however much it is.
const VERIFY_TIME_MAX: Duration = Duration::from_secs(1);
/// Size of a segment: large enough for few files, small enough to free space soon.
const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// How long batches of apparently missing files wait for a source to open them.
const DISCOVERY_MAX: Duration = Duration::from_mins(1);
/// How long one wait for a source to read its backlog takes; there is another one after it.
const BACKLOG_WAIT: Duration = Duration::from_mins(1);

/// The type of weir's own store, in place of the type of an output. No output has a type of that
/// name.
pub const STORE_TYPE_NAME: &str = "store";

/// A running pipeline.
#[derive(Debug)]
pub struct Pipeline {
    view: Arc<PipelineView>,
    sources: Sources,
    source_names: Arc<SourceNames>,
    outputs: Outputs,
    destinations: Vec<OtherDestination>,
    drains: Option<RunningDrains>,
    drains_context: DrainsContext,
    own_paths: OwnPaths,
    generations: Generations,
}

/// A running destination other than an output.
#[derive(Debug)]
struct OtherDestination {
    running: Arc<dyn Running>,
    view: Arc<OutputView>,
    cursor: usize,
}

/// Result of [`Pipeline::apply`].
#[derive(Debug)]
pub enum Applied {
    /// The change was applied.
    Done {
        /// Generation of the rules.
        generation: u32,
        /// What else has changed.
        changes: Changes,
    },
    /// Nothing was changed: this change needs a restart.
    NeedsRestart,
}

/// The components affected by a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Sources.
    pub sources: ChangedComponents,
    /// Outputs.
    pub outputs: ChangedComponents,
    /// Whether the settings of drains have changed.
    pub drains: bool,
}

/// Sources or outputs that are affected by a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedComponents {
    /// Names of new ones.
    pub added: Vec<String>,
    /// Names of those with other settings.
    pub changed: Vec<String>,
    /// Names of those that are no longer configured.
    pub removed: Vec<String>,
}

/// A destination other than an output, supplied by the caller that starts the pipeline.
pub struct Destination {
    /// Its name, as used in rules and in the ledger.
    pub name: String,
    /// Its type name, like the `type` of an output.
    pub type_name: &'static str,
    /// Maximum size of the batches waiting for it, in ring and segments together, in bytes. When it
    /// is reached, the destination blocks its sources.
    pub buffer_bytes_max: u64,
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
    /// Drains cannot be set up.
    #[error(transparent)]
    Drains(#[from] DrainsError),
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
        let source_names = Arc::new(SourceNames::new(&plan.sources));
        let context = OutputContext::new(plan.data_dir.clone(), clock.clone(), disk.clone())
            .with_sources(source_names.clone());
        let mut outputs = Outputs::new(journal.clone(), context);
        let change = outputs.prepare(&plan.outputs)?;
        let names = change.names.clone();
        outputs.begin(change)?;
        let others = others.into_iter().map(|other| start_destination(other, &journal));
        let destinations: Vec<_> = others.collect::<Result<_, _>>()?;
        let drains_context = DrainsContext {
            journal: journal.clone(),
            disk: disk.clone(),
            data_dir: plan.data_dir.clone(),
            clock: clock.clone(),
            sources: source_names.clone(),
        };
        let prepared = plan.drains.as_ref().map(PreparedDrains::new).transpose()?;
        let drains = prepared.map(|prepared| RunningDrains::start(prepared, &drains_context));
        let drains = drains.transpose()?;
        let mut generations = Generations::open(disk.clone(), &plan.data_dir)?;
        let names = with_others(names, &destinations, drains.as_ref());
        let generation = generations.number(plan, &names_of(&names), clock.unix_ns());
        let rules = Arc::new(RuleSwitch::new(compile(plan, &names, generation)?, clock.unix_ns()));
        let own_paths = OwnPaths::new(&own_paths(plan.outputs.iter(), plan));
        let slot = ViewSlot::default();
        let mut sources = Sources::new(SourceContext {
            journal: journal.clone(),
            rules: rules.clone(),
            clock: clock.clone(),
            disk: disk.clone(),
            data_dir: plan.data_dir.clone(),
            stats: Arc::default(),
            view: slot.clone(),
            own_paths: own_paths.clone(),
        });
        let change = sources.prepare(&plan.sources)?;
        sources.begin(change, &mut ChangedComponents::default())?;
        release_when_discovered(sources.progress(), journal.clone())?;
        let views = views_with_others(&outputs, &destinations, drains.as_ref());
        let view = PipelineView::new(journal, sources.views(), views, rules, clock.clone());
        let view = Arc::new(view.with_source_names(source_names.clone()));
        view.set_drains(drains.as_ref().map(|running| running.drains.clone()));
        let _first = slot.set(Arc::downgrade(&view));
        Ok(Self {
            view,
            sources,
            source_names,
            outputs,
            destinations,
            drains,
            drains_context,
            own_paths,
            generations,
        })
    }

    /// Applies the sources, outputs, drains and rules of another plan, which must be identical
    /// otherwise (see [`PipelinePlan::differs_only_in_components`]). Unchanged components continue
    /// undisturbed. Each source uses the new rules from its next batch on; records that were routed
    /// before still go where they were routed to. After an error in the configuration nothing has
    /// changed; a component that cannot be started is missing until the next change.
    pub fn apply(&mut self, plan: &PipelinePlan) -> Result<Applied, StartError> {
        if self.outputs.needs_restart(&plan.outputs)
            || self.drains.is_some() != plan.drains.is_some()
        {
            return Ok(Applied::NeedsRestart);
        }
        let drains = match (&self.drains, &plan.drains) {
            (Some(running), Some(plan)) => running.prepare(plan)?,
            _ => DrainsChange::None,
        };
        let change = self.outputs.prepare(&plan.outputs)?;
        let names = with_others(change.names.clone(), &self.destinations, self.drains.as_ref());
        let now = self.view.clock.unix_ns();
        let generation = self.generations.number(plan, &names_of(&names), now);
        let prepared = compile(plan, &names, generation).map_err(StartError::from);
        let prepared = prepared.and_then(|rules| Ok((rules, self.sources.prepare(&plan.sources)?)));
        let (rules, sources) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.outputs.give_up(change);
                return Err(error);
            }
        };
        // Removed outputs still write.
        let all = self.outputs.plans().chain(&plan.outputs);
        self.own_paths.replace(&own_paths(all, plan));
        let output_names = change.names.clone();
        let outputs = match self.outputs.begin(change) {
            Ok(outputs) => outputs,
            Err(error) => {
                self.sources.give_up(sources);
                return Err(error);
            }
        };
        let mut changes = Changes { outputs, ..Changes::default() };
        self.view.rules.replace(rules, now);
        self.source_names.add(&plan.sources);
        let started = self.sources.begin(sources, &mut changes.sources);
        self.view.set_sources(self.sources.views());
        changes.outputs.removed = self.outputs.end_others(&output_names);
        let drains = self.change_drains(drains, &mut changes);
        let views = views_with_others(&self.outputs, &self.destinations, self.drains.as_ref());
        self.view.set_outputs(views);
        started?;
        drains?;
        Ok(Applied::Done { generation, changes })
    }

    fn change_drains(
        &mut self,
        change: DrainsChange,
        changes: &mut Changes,
    ) -> Result<(), DrainsError> {
        let Some(running) = self.drains.take() else { return Ok(()) };
        changes.drains = !matches!(change, DrainsChange::None);
        let changed = running.change(change, &self.drains_context);
        let result = changed.map(|running| self.drains = Some(running));
        self.view.set_drains(self.drains.as_ref().map(|running| running.drains.clone()));
        result
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
        self.sources.stop();
        self.view.journal.close();
        self.outputs.stop(deadline);
        for destination in &self.destinations {
            destination.running.stop(deadline);
        }
        if let Some(running) = &self.drains {
            running.drains.stop(deadline);
        }
        self.outputs.join();
        for destination in self.destinations.drain(..) {
            if !destination.running.join() {
                tracing::error!(?destination, "destination thread panicked");
            }
        }
        if let Some(running) = self.drains.take()
            && !running.drains.join()
        {
            tracing::error!("the drains panicked");
        }
        self.view.journal.shutdown();
    }
}

fn journal_config(plan: &PipelinePlan) -> JournalConfig {
    JournalConfig {
        dir: plan.data_dir.join("journal"),
        ring_bytes: plan.ring_bytes,
        bytes_max: plan.journal_bytes_max,
        free_bytes_min: plan.disk_free_bytes_min,
        segment_bytes: SEGMENT_BYTES,
        taken_bytes_max: plan.taken_bytes_max,
        commit_interval: COMMIT_INTERVAL,
        spill_after: SPILL_AFTER,
        merge_from_batches: weir_journal::MERGE_FROM_BATCHES,
        punch_bytes_min: weir_journal::PUNCH_BYTES_MIN,
        verify_time_max: VERIFY_TIME_MAX,
    }
}

fn start_destination(
    destination: Destination,
    journal: &Journal,
) -> Result<OtherDestination, StartError> {
    let Destination { name, type_name, buffer_bytes_max, window_bytes, start } = destination;
    let cursor = journal.cursor(CursorSpec {
        name: name.clone(),
        when_full: WhenFull::Block,
        buffer_bytes_max,
        window_bytes,
    })?;
    let index = cursor.index();
    let started = start(cursor);
    let running = started.map_err(|error| StartError::Destination { name: name.clone(), error })?;
    let view = Arc::new(OutputView::other(name, type_name, running.clone()));
    Ok(OtherDestination { running, view, cursor: index })
}

/// Returns names and cursor indexes of outputs, other destinations and drains.
fn with_others(
    mut names: Vec<(String, usize)>,
    others: &[OtherDestination],
    drains: Option<&RunningDrains>,
) -> Vec<(String, usize)> {
    names.extend(others.iter().map(|other| (other.view.name.clone(), other.cursor)));
    names.extend(drains.map(|running| (running.view.name.clone(), running.drains.cursor)));
    names
}

fn views_with_others(
    outputs: &Outputs,
    others: &[OtherDestination],
    drains: Option<&RunningDrains>,
) -> Vec<Arc<OutputView>> {
    let mut views = outputs.views();
    views.extend(others.iter().map(|other| other.view.clone()));
    views.extend(drains.map(|running| running.view.clone()));
    views
}

fn names_of(names: &[(String, usize)]) -> Vec<String> {
    names.iter().map(|(name, _)| name.clone()).collect()
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
    let partial = plan.outputs.iter().filter_map(|output| {
        let kinds = output.kind.output_type().carries();
        Some((cursor_of(&output.name)?, kinds)).filter(|_| kinds != Kinds::ALL)
    });
    let rules = Rules::new(generation, &plan.rules, &default_to, cursor_of)?;
    Ok(rules.with_partial(partial))
}

/// Returns the paths that weir itself writes and therefore never tails.
fn own_paths<'a>(
    outputs: impl Iterator<Item = &'a OutputPlan>,
    plan: &PipelinePlan,
) -> Vec<OwnPath> {
    let mut own = vec![OwnPath::Below(plan.data_dir.clone())];
    for output in outputs {
        let Some(path) = output.kind.written_path() else { continue };
        own.push(OwnPath::Files(path.clone()));
        if !path.is_template() {
            // The resolved path, in case it is a link.
            own.push(OwnPath::Below(path.base().to_owned()));
        }
    }
    own
}

/// Waits for the first discovery of every source, then releases batches that none of them claimed.
/// Tells the journal also when every source has read what it found, or has ended.
fn release_when_discovered(sources: Vec<Progress>, journal: Journal) -> Result<(), StartError> {
    let wait = move || {
        for source in &sources {
            source.wait_discovered(DISCOVERY_MAX);
        }
        journal.release_unclaimed();
        for source in &sources {
            while !source.wait_backlog_read(BACKLOG_WAIT) {}
        }
        journal.end_backlog();
    };
    let thread = std::thread::Builder::new().name("discovery".to_owned()).spawn(wait);
    thread.map(drop).map_err(StartError::Thread)
}
