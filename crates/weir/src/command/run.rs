//! `weir run`: from a valid plan to a running process, and its shutdown.
//!
//! Invariants: the port is bound before anything is read, so a second weir does not start reading;
//! the first signal stops reading and gives the outputs [`STOP_DEADLINE`], a second one ends the
//! process at once, which is safe: undelivered records are delivered at the next start.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::MissedTickBehavior;
use weir_api::{Api, ReaderServices};
use weir_host::units::group_digits;
use weir_host::{Clock, Disk, RealClock, RealDisk};
use weir_journal::JournalError;
use weir_pipeline::config::OutputType;
use weir_pipeline::health::{Health, Severity};
use weir_pipeline::source::SourceError;
use weir_pipeline::view::{OutputView, PipelineView};
use weir_pipeline::{Applied, ChangedComponents, Pipeline, StartError};
use weir_store::embedded::{EmbeddedStore, QueryEngine};

use crate::cli::ConfigArgs;
use crate::command::config::{api_url, load_plan, summary};
use crate::command::reload::{self, ConfigChange, Watch};
use crate::config::Plan;
use crate::exit::{Exit, ExitError};
use crate::logging;
use crate::signal::{SIGHUP, Signals};
use crate::store::StoreSlot;
use crate::term::{ColorChoice, Paint, Style, note, note_painted};

/// How long outputs may take to finish deliveries when stopping.
const STOP_DEADLINE: Duration = Duration::from_secs(10);
/// How often health is checked, so that its changes are logged with their time.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);

/// Runs until a signal.
pub(crate) fn run(args: &ConfigArgs, color: ColorChoice) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Signal handlers are installed first, so that no signal ends the process in the middle of the
    // start.
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new().context("failed to install signal handlers")?
    };
    let plan = load_plan(args, color)?;
    logging::init(&plan.log, color)?;
    let api = bind(&plan)?;
    let reader_services = bind_reader_services(&plan)?;
    let (pipeline, store) = start(&plan)?;
    print_started(&plan, args, api.as_ref(), color);
    let mut running = Running { pipeline, store, plan, api, reader_services };
    running.publish();
    let mut files = args.config.as_deref().map(Watch::new);
    let name = loop {
        match runtime.block_on(watch(&running, &mut signals, files.as_mut())) {
            Event::Stop(name) => break name,
            Event::Reload(why) => {
                if let Some(path) = &args.config {
                    running.reload(path, why)?;
                }
            }
        }
    };
    let Running { pipeline, api, reader_services, .. } = running;
    let view = pipeline.view();
    tracing::info!(
        "{name}: stopping; outputs have {} s to finish deliveries (a second signal exits at once)",
        STOP_DEADLINE.as_secs()
    );
    view.set_stopping();
    let exit = runtime.block_on(stop(pipeline, &mut signals))?;
    if exit != Exit::Ok {
        return Ok(exit);
    }
    let exit = print_stopped(&view);
    reader_services.shutdown();
    if let Some(api) = api {
        api.shutdown();
    }
    Ok(exit)
}

/// The running parts, and their plan.
struct Running {
    pipeline: Pipeline,
    store: Option<Arc<EmbeddedStore>>,
    plan: Plan,
    api: Option<Api>,
    reader_services: ReaderServices,
}

impl Running {
    /// Connects the API and the readers' services to the current pipeline and its store.
    fn publish(&self) {
        let view = self.pipeline.view();
        view.set_envelope_bytes_max(self.plan.envelope_bytes_max);
        let calculated_fields = &self.plan.calculated_fields;
        let explorer = self.store.as_ref().map(|store| {
            let explorer = QueryEngine::new(Arc::clone(store));
            let explorer = explorer.with_calculated_fields(calculated_fields.clone());
            Arc::new(explorer.with_units(self.plan.units.clone())) as Arc<_>
        });
        self.reader_services.set_pipeline(&view, explorer.clone(), &self.plan.envelope_sources);
        if let Some(api) = &self.api {
            view.set_names(calculated_fields, &self.plan.renames, &self.plan.units);
            api.set_data_dir(Arc::new(RealDisk), &self.plan.pipeline.data_dir);
            api.set_original_metrics(self.plan.has_original_metrics);
            api.set_pipeline(view, explorer);
        }
    }

    /// Applies the current configuration files if they are valid.
    fn reload(&mut self, path: &Path, why: &str) -> Result<()> {
        tracing::info!("{why}: reloading the configuration");
        let is_applied = match reload::read(path, &self.plan) {
            ConfigChange::Refused => false,
            ConfigChange::Components(plan) => self.apply(*plan)?,
            ConfigChange::Everything(plan) => self.restart(*plan)?,
        };
        if let Some(api) = &self.api {
            api.count_reload(is_applied);
        }
        Ok(())
    }

    /// Changes sources, outputs, drains and rules while everything else continues.
    fn apply(&mut self, plan: Plan) -> Result<bool> {
        match self.pipeline.apply(&plan.pipeline) {
            Ok(Applied::Done { generation, changes }) => {
                log_changed("sources", &changes.sources);
                log_changed("outputs", &changes.outputs);
                if changes.drains {
                    tracing::info!("drains changed");
                }
                let rules = plan.pipeline.rules.len();
                tracing::info!(generation, rules, "rules of generation {generation} are active");
                self.plan = plan;
                self.publish();
                Ok(true)
            }
            Ok(Applied::NeedsRestart) => self.restart(plan),
            Err(error) => {
                tracing::error!("keeping the previous configuration: {error}");
                Ok(false)
            }
        }
    }

    /// Stops sources and outputs at their positions and restarts them with the new plan, or with
    /// the old one if the new one cannot be started.
    fn restart(&mut self, plan: Plan) -> Result<bool> {
        tracing::info!("restarting sources and outputs");
        // The store is opened again: no reference to the current one may remain.
        if let Some(api) = &self.api {
            api.clear_store();
        }
        self.reader_services.clear_store();
        self.store = None;
        self.pipeline.stop(STOP_DEADLINE);
        let ((pipeline, store), is_applied) = match start(&plan) {
            Ok(started) => (started, true),
            Err(error) => {
                tracing::error!(
                    "the new configuration cannot be started: {error:#}; returning to the previous \
                     one"
                );
                (start(&self.plan)?, false)
            }
        };
        self.pipeline = pipeline;
        self.store = store;
        if is_applied {
            let url = self.api.as_ref().map(url_of);
            tracing::info!("{}", summary(&plan, url.as_deref()));
            self.plan = plan;
        }
        self.publish();
        Ok(is_applied)
    }
}

fn log_changed(what: &str, changed: &ChangedComponents) {
    let ChangedComponents { added, changed, removed } = changed;
    for (how, names) in [("added", added), ("changed", changed), ("removed", removed)] {
        if !names.is_empty() {
            tracing::info!("{what} {how}: {}", names.join(", "));
        }
    }
}

fn bind(plan: &Plan) -> Result<Option<Api>> {
    let Some(settings) = &plan.api else { return Ok(None) };
    let listen = settings.listen;
    match Api::bind(settings, env!("CARGO_PKG_VERSION")) {
        Ok(api) => {
            tracing::info!(address = %api.address(), "api listens");
            Ok(Some(api))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let message = format!(
                "the API cannot listen on {listen}: the port is in use; is another weir running? Choose another with api.listen"
            );
            Err(ExitError::with(Exit::Temporary, message))
        }
        Err(error) => {
            let message = format!("the API cannot listen on {listen} (api.listen): {error}");
            Err(ExitError::with(Exit::Failed, message))
        }
    }
}

fn bind_reader_services(plan: &Plan) -> Result<ReaderServices> {
    let bound = ReaderServices::bind(&plan.reader_services, plan.stored_deadline, &plan.health);
    let reader_services = bound.map_err(|(service, error)| {
        let what = format!("the service loggregator.{service} cannot");
        match error.kind() {
            std::io::ErrorKind::AddrInUse => ExitError::with(
                Exit::Temporary,
                format!("{what} listen: the port is in use; is another weir running?"),
            ),
            _ => ExitError::with(Exit::Failed, format!("{what} be started: {error}")),
        }
    })?;
    for (service, address) in reader_services.addresses() {
        tracing::info!(%address, "loggregator.{} listens", service.name());
    }
    for (of, address) in reader_services.health_addresses() {
        tracing::info!(%address, "loggregator.health.{} listens", of.name());
    }
    Ok(reader_services)
}

fn start(plan: &Plan) -> Result<(Pipeline, Option<Arc<EmbeddedStore>>)> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let dir = plan.pipeline.data_dir.display();
    let slot = StoreSlot::default();
    let others = plan.store.iter().map(|config| {
        crate::store::destination(config.clone(), disk.clone(), clock.clone(), slot.clone())
    });
    let started = Pipeline::start(&plan.pipeline, others.collect(), &disk, &clock);
    let pipeline = started.map_err(|error| match error {
        StartError::Journal(JournalError::Locked { .. }) => ExitError::with(
            Exit::Temporary,
            format!(
                "data_dir {dir} is in use by another weir process: stop it, or choose another \
                 data_dir"
            ),
        ),
        StartError::Journal(error @ JournalError::Io { .. }) => ExitError::with(
            Exit::Failed,
            format!("data_dir {dir} cannot be used: {error}; weir must be able to write there"),
        ),
        StartError::Source(SourceError::Listen { ref name, error: ref cause })
            if cause.is_in_use() =>
        {
            let hint = format!("is another weir running? Choose another in [source.{name}]");
            ExitError::with(Exit::Temporary, format!("{error}; {hint}"))
        }
        error => error.into(),
    })?;
    Ok((pipeline, slot.get().cloned()))
}

/// The address on which the API listens, as a URL.
fn url_of(api: &Api) -> String {
    api_url(api.address(), api.is_encrypted())
}

/// Prints a summary of what runs, the addresses, and commands to try.
fn print_started(plan: &Plan, args: &ConfigArgs, api: Option<&Api>, color: ColorChoice) {
    let version = env!("CARGO_PKG_VERSION");
    let data_dir = plan.pipeline.data_dir.display();
    let address = api.map(url_of);
    let shown = address.as_deref().unwrap_or("off");
    if args.config.is_some() || !logging::is_text(&plan.log) {
        let sources = plan.pipeline.sources.len();
        let outputs = plan.pipeline.outputs.len();
        tracing::info!(version, sources, outputs, api = shown, %data_dir, "weir runs");
    }
    if !logging::is_text(&plan.log) {
        return;
    }
    let paint = Paint::for_stderr(color);
    let strong = |text: &str| paint.paint(Style::Strong, text);
    if args.config.is_none() {
        note_painted(&format!(
            "{} follows the logs of all containers and of this machine, and prints each new line.",
            strong(&format!("weir {version}")),
        ));
        note("It runs its built-in default; `weir config default` prints it.");
    }
    note(&format!("  runs   {}", summary(plan, address.as_deref())));
    let absent = absent_roots(plan);
    if !absent.is_empty() {
        note(&format!(
            "  waits  for {}: does not exist yet, followed once it does",
            absent.join(", ")
        ));
    }
    note(&format!("  data   {data_dir}"));
    note(&format!("  see    {shown}/metrics  {shown}/health  {shown}/weir/v1/ledger"));
    note_painted(&format!("  try    {}         rates, lag and loss, live", strong("weir top")));
    if plan.store.is_some() {
        note_painted(&format!("         {}      search stored records", strong("weir search")));
    }
    if args.config.is_none() {
        note_painted(&format!("         {}   write numbered test lines", strong("weir load file")));
    }
    note("  stop   Ctrl-C");
}

/// Container directories that do not exist. On a machine without docker or Kubernetes this is
/// normal, but operators who expect container logs should see it.
fn absent_roots(plan: &Plan) -> Vec<String> {
    let roots = plan.pipeline.sources.iter().flat_map(|source| source.kind.roots());
    roots.filter(|root| !root.exists()).map(|root| root.display().to_string()).collect()
}

/// A request to the process.
enum Event {
    Stop(&'static str),
    Reload(&'static str),
}

/// Waits for a reason to stop or reload; meanwhile logs the start and end of health problems.
async fn watch(running: &Running, signals: &mut Signals, mut files: Option<&mut Watch>) -> Event {
    let view = running.pipeline.view();
    let mut known = BTreeSet::new();
    let mut ticks = tokio::time::interval(HEALTH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut polls = tokio::time::interval(reload::POLL_INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            name = signals.next() => match &mut files {
                Some(files) if name == SIGHUP => {
                    files.take();
                    return Event::Reload(name);
                }
                _ => return Event::Stop(name),
            },
            _ = ticks.tick() => {
                if let Some(api) = &running.api {
                    api.report_problems();
                }
                running.reader_services.report_problems();
                log_changes(&view.health(), &mut known);
                if is_only_stdout_and_closed(&view) {
                    return Event::Stop("standard output, the only output, was closed");
                }
            }
            _ = polls.tick(), if files.is_some() => {
                if files.as_mut().is_some_and(|files| files.has_changed()) {
                    return Event::Reload("the configuration has changed");
                }
            }
        }
    }
}

/// `weir run | head` ends when `head` has read enough. With another output weir continues.
fn is_only_stdout_and_closed(view: &PipelineView) -> bool {
    let is_closed = |output: &Arc<OutputView>| {
        output.output_type == Some(OutputType::Stdout)
            && output.stats.failing.load(Ordering::Relaxed)
    };
    // The store alone does not keep weir running, since that is not what `weir run | head` expects.
    let outputs = view.outputs();
    let mut outputs = outputs.iter().filter(|output| output.running.is_none()).peekable();
    outputs.peek().is_some() && outputs.all(is_closed)
}

/// Component kind, component and reason.
type Key = (&'static str, String, &'static str);

fn log_changes(health: &Health, known: &mut BTreeSet<Key>) {
    let mut present = BTreeSet::new();
    for reason in &health.reasons {
        let key = (reason.component_kind, reason.component.clone(), reason.reason);
        if !known.contains(&key) {
            let (kind, name, text) = (reason.component_kind, &reason.component, &reason.text);
            let (what, subject) = (reason.reason, subject(kind, name));
            match reason.severity {
                Severity::Failing => {
                    tracing::error!(component = %name, kind, reason = what, "{subject}: {text}");
                }
                Severity::Degraded => {
                    tracing::warn!(component = %name, kind, reason = what, "{subject}: {text}");
                }
            }
        }
        present.insert(key);
    }
    for (kind, name, reason) in known.difference(&present) {
        let subject = subject(kind, name);
        tracing::info!(component = %name, kind, reason, "{subject}: resolved: {reason}");
    }
    *known = present;
}

/// `output web`, or `journal`, of which there is only one.
fn subject(kind: &str, name: &str) -> String {
    if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") }
}

/// Stops in a separate thread, so that a second signal is noticed meanwhile.
async fn stop(pipeline: Pipeline, signals: &mut Signals) -> Result<Exit> {
    let (done, mut is_done) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("weir-stop".to_owned()).spawn(move || {
        pipeline.shutdown(STOP_DEADLINE);
        // The receiver is gone if a second signal came first.
        let _ended_at_once = done.send(());
    })?;
    tokio::select! {
        ended = &mut is_done => {
            ended.context("the shutdown failed")?;
            Ok(Exit::Ok)
        }
        name = signals.next() => {
            tracing::warn!("{name} again: exiting at once; undelivered records are delivered at \
                            the next start");
            Ok(Exit::Interrupted)
        }
    }
}

/// Prints the totals. What waits is on disk only if the journal could be written.
fn print_stopped(view: &PipelineView) -> Exit {
    let ledger = view.journal.ledger();
    let records: u64 = ledger.sources.iter().map(|source| source.book.records).sum();
    let waiting: u64 = ledger.cursors.iter().map(|cursor| cursor.in_flight).sum();
    let lost: u64 = ledger.cursors.iter().map(|cursor| cursor.book.discarded_total()).sum();
    let dead: u64 = ledger.cursors.iter().map(|cursor| cursor.book.dead_lettered).sum();
    tracing::info!(
        records,
        waiting,
        discarded = lost,
        dead_lettered = dead,
        "stopped: {} records read, {} wait for the next start, {} discarded, {} dead-lettered",
        group_digits(records),
        group_digits(waiting),
        group_digits(lost),
        group_digits(dead),
    );
    let Some(error) = ledger.journal.disk_error else { return Exit::Ok };
    tracing::error!(
        %error,
        "the journal could not be written: records that wait may be lost, unless their source still \
         has them; records that were delivered may be delivered again"
    );
    Exit::Failed
}
