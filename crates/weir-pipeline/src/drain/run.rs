//! The thread of the drains: all of them on one event loop.
//!
//! Invariants: it never waits for a drain; a change to the set of drains is saved in the file
//! before the request for it is answered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::LocalSet;
use weir_host::process::thread_cpu_ns;
use weir_host::{Clock, ConnectError, Disk};
use weir_journal::{Cursor, CursorSpec, Journal, JournalError, WhenFull};

use super::core::Mode;
use super::envelopes::Envelopes;
use super::limits::{
    COMMANDS_MAX, DRAINS_MAX, PUBLISH_INTERVAL, PUBLISH_SHARE, READY_AFTER, READY_BYTES, TICK,
};
use super::message::{DrainMessage, Messages};
use super::plan::{DrainsPlan, Selector};
use super::provider::{Provider, ProviderKind, ProviderState};
use super::pump::Pump;
use super::registry::{
    ADDED, BINDING_CACHE, CLOUD_CONTROLLER, CONFIG, Definition, Difference, Registry,
};
use super::sender::{DrainNetwork, DrainSender, SendResult};
use super::status::{DrainState, DrainStatus, ProviderStatus};
use super::worker::{WorkerContext, work};
use crate::health::Severity;
use crate::pipeline::{ActiveProblem, Running};
use crate::source::SourceNames;

/// The name of the destination, for rules and the ledger.
pub const NAME: &str = "drains";
/// The name of the destination with the records of lagging drains.
pub const LAGGING: &str = "drains/lagging";

/// The error about a drain that does not exist.
pub const UNKNOWN: &str = "there is no such drain";

/// Buffer for records that the drains have not taken yet. They take them at once, so it is unused.
const BUFFER_BYTES: u64 = 256 << 20;
/// Memory limit for records of lagging drains.
const LAGGING_WINDOW_BYTES: u64 = 32 << 20;

/// Why drains cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DrainsError {
    /// The journal has no cursor for them.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A certificate file cannot be used.
    #[error("drains: {0}")]
    Tls(#[from] ConnectError),
    /// A thread cannot be started.
    #[error("drains: cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A change requested by a user.
#[derive(Debug)]
enum Command {
    Add(Box<Definition>),
    Remove(u64),
    Pause(u64, bool),
    Test(u64),
}

/// The answer to a command; for a test, the reason if the destination cannot be reached.
type Answer = Result<Option<String>, String>;

/// State shared with the thread.
#[derive(Debug, Default)]
struct Shared {
    drains: Mutex<Arc<[DrainStatus]>>,
    providers: Mutex<Vec<ProviderStatus>>,
    messages: Mutex<Messages>,
    cpu_ns: AtomicU64,
    stop: Notify,
    grace_ms: AtomicU64,
}

/// Running drains.
#[derive(Debug)]
pub struct Drains {
    shared: Arc<Shared>,
    commands: mpsc::Sender<(Command, oneshot::Sender<Answer>)>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Index of the destination.
    pub(crate) cursor: usize,
}

/// Everything that the thread needs to start.
struct Start {
    plan: DrainsPlan,
    journal: Journal,
    cursors: (Cursor, Cursor),
    clock: Arc<dyn Clock>,
    sources: Arc<SourceNames>,
    registry: Registry,
    network: DrainNetwork,
    providers: Vec<(&'static str, Provider)>,
}

impl Drains {
    /// Starts drains over a journal.
    pub(crate) fn start(
        plan: &DrainsPlan,
        journal: &Journal,
        (disk, data_dir): (Arc<dyn Disk>, &Path),
        clock: Arc<dyn Clock>,
        sources: Arc<SourceNames>,
    ) -> Result<Self, DrainsError> {
        let spec = |name: &str, when_full, buffer_limit_bytes, window_bytes| CursorSpec {
            name: name.to_owned(),
            when_full,
            buffer_limit_bytes,
            window_bytes,
        };
        let window = plan.window_bytes;
        let direct = spec(NAME, WhenFull::Block, BUFFER_BYTES.max(window * 2), window);
        let lagging = spec(LAGGING, WhenFull::DropOldest, plan.limit_bytes, LAGGING_WINDOW_BYTES);
        let cursors = (journal.cursor(direct)?, journal.cursor(lagging)?);
        let cursor = cursors.0.index();
        let network = DrainNetwork::new(&plan.network)?;
        let providers: Vec<_> = plan
            .providers
            .iter()
            .map(|settings| Ok((name_of(settings), Provider::new(settings)?)))
            .collect::<Result<_, ConnectError>>()?;
        let names: Vec<_> = providers.iter().map(|(name, _)| *name).collect();
        let registry = Registry::open(disk, data_dir, &names);
        let start = Start {
            plan: plan.clone(),
            journal: journal.clone(),
            cursors,
            clock,
            sources,
            registry,
            network,
            providers,
        };
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let shared = Arc::new(Shared::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let here = shared.clone();
        let thread = std::thread::Builder::new().name("drains".to_owned()).spawn(move || {
            let mut all = DrainLoop::new(start, here);
            LocalSet::new().block_on(&runtime, async move { all.run(receiver).await });
        })?;
        Ok(Self { shared, commands, thread: Mutex::new(Some(thread)), cursor })
    }

    /// Returns the state of all drains as last published.
    pub fn statuses(&self) -> Arc<[DrainStatus]> {
        lock(&self.shared.drains).clone()
    }

    /// Returns the state of the providers.
    pub fn providers(&self) -> Vec<ProviderStatus> {
        lock(&self.shared.providers).clone()
    }

    /// Takes the queued messages for the owners of applications.
    pub(crate) fn take_messages(&self) -> Vec<DrainMessage> {
        lock(&self.shared.messages).waiting.drain(..).collect()
    }

    /// Adds a drain, which persists until it is removed.
    pub async fn add(&self, drain: Definition) -> Result<(), String> {
        self.command(Command::Add(Box::new(drain))).await.map(drop)
    }

    /// Removes a manually added drain and discards its waiting records.
    pub async fn remove(&self, id: u64) -> Result<(), String> {
        self.command(Command::Remove(id)).await.map(drop)
    }

    /// Pauses or resumes a drain; meanwhile its records wait in its stream.
    pub async fn pause(&self, id: u64, is_paused: bool) -> Result<(), String> {
        self.command(Command::Pause(id, is_paused)).await.map(drop)
    }

    /// Opens a connection to the destination of a drain. Returns the reason if that fails.
    pub async fn test(&self, id: u64) -> Result<Option<String>, String> {
        self.command(Command::Test(id)).await
    }

    async fn command(&self, command: Command) -> Answer {
        let (sender, answer) = oneshot::channel();
        let ended = || "weir is stopping".to_owned();
        self.commands.send((command, sender)).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Running for Drains {
    fn stop(&self, deadline: Duration) {
        let grace_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.shared.grace_ms.store(grace_ms, Ordering::Relaxed);
        self.shared.stop.notify_one();
    }

    fn join(&self) -> bool {
        lock(&self.thread).take().is_none_or(|thread| thread.join().is_ok())
    }

    fn problems(&self) -> Vec<ActiveProblem> {
        let statuses = self.statuses();
        let failing = statuses.iter().filter(|drain| drain.state == DrainState::Failing).count();
        let mut problems = Vec::new();
        if failing > 0 {
            let text = format!("{failing} of {} drains do not accept records", statuses.len());
            let severity = Severity::Degraded;
            problems.push(ActiveProblem { reason: "drains_failing", severity, text });
        }
        for provider in self.providers() {
            let Some(error) = provider.error else { continue };
            let text = format!("using the last drain list of the {}: {error}", provider.name);
            let severity = Severity::Degraded;
            problems.push(ActiveProblem { reason: "drains_list", severity, text });
        }
        problems
    }

    fn cpu_ns(&self) -> u64 {
        self.shared.cpu_ns.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(settings: &super::provider::ProviderSettings) -> &'static str {
    match settings.kind {
        ProviderKind::BindingCache => BINDING_CACHE,
        ProviderKind::CloudController | ProviderKind::CloudControllerV4 => CLOUD_CONTROLLER,
    }
}

/// The event loop of all drains.
struct DrainLoop {
    pump: Pump,
    context: Rc<WorkerContext>,
    registry: Registry,
    definitions: HashMap<u64, Arc<Definition>>,
    providers: Vec<(&'static str, watch::Receiver<ProviderState>)>,
    waiting_providers: Vec<(Provider, watch::Sender<ProviderState>)>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    published_at: Duration,
    /// How long the last publishing took.
    publish_time: Duration,
    /// The published state may be out of date.
    has_changed: bool,
}

impl DrainLoop {
    fn new(start: Start, shared: Arc<Shared>) -> Self {
        let envelopes = Rc::new(RefCell::new(Envelopes::new(start.sources)));
        let window = usize::try_from(start.plan.window_bytes).unwrap_or(usize::MAX);
        // The journal takes one batch more than the window at most.
        let limits = (window / 4 * 3, start.plan.retry_for);
        let clock = start.clock.clone();
        let pump = Pump::new(start.journal, start.cursors, start.clock, envelopes.clone(), limits);
        let context = Rc::new(WorkerContext {
            core: pump.core.clone(),
            envelopes,
            network: start.network,
            clock: clock.clone(),
            with_metadata: start.plan.with_metadata,
        });
        let (mut providers, mut waiting_providers) = (Vec::new(), Vec::new());
        for (name, provider) in start.providers {
            let (sender, receiver) = watch::channel(ProviderState::default());
            providers.push((name, receiver));
            waiting_providers.push((provider, sender));
        }
        let mut all = Self {
            pump,
            context,
            registry: start.registry,
            definitions: HashMap::new(),
            providers,
            waiting_providers,
            shared,
            clock,
            published_at: Duration::ZERO,
            publish_time: Duration::ZERO,
            has_changed: false,
        };
        all.begin(start.plan.drains);
        all
    }

    /// Adds the drains that are known at the start.
    fn begin(&mut self, configured: Vec<Definition>) {
        self.registry.replace(CONFIG, configured);
        let known: Vec<Definition> = self.registry.all().into_values().cloned().collect();
        for drain in known {
            self.add(drain);
        }
        for id in self.registry.paused.clone() {
            self.pump.core.borrow_mut().pause(id, true);
        }
        self.note_completeness();
        self.publish();
    }

    /// Once every provider has answered, records without a drain will not get one.
    fn note_completeness(&self) {
        let has_list = |state: &ProviderState| state.list.is_some();
        let is_complete = self.providers.iter().all(|(_, state)| has_list(&state.borrow()));
        self.pump.core.borrow_mut().is_complete = is_complete;
    }

    fn add(&mut self, drain: Definition) {
        if self.definitions.len() >= DRAINS_MAX {
            tracing::error!(limit = DRAINS_MAX, "too many drains: a drain was not started");
            return;
        }
        self.pump.add(drain.spec());
        self.definitions.insert(drain.id, Arc::new(drain));
    }

    fn change(&mut self, difference: Difference) {
        for id in difference.removed {
            self.definitions.remove(&id);
            lock(&self.shared.messages).forget(id);
            self.pump.remove(id);
        }
        for drain in difference.added {
            self.add(drain);
        }
    }

    async fn run(&mut self, mut commands: mpsc::Receiver<(Command, oneshot::Sender<Answer>)>) {
        for (provider, states) in std::mem::take(&mut self.waiting_providers) {
            tokio::task::spawn_local(provider.run(states));
        }
        let wake = self.pump.core.borrow().wake.clone();
        let shared = self.shared.clone();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut end = None;
        loop {
            let is_busy = self.pump.step();
            self.start_workers();
            if is_busy {
                // The workers' turn.
                tokio::task::yield_now().await;
            }
            let has_room = self.pump.has_room();
            let is_closing = self.pump.sources.is_closing();
            tokio::select! {
                biased;
                () = shared.stop.notified() => {
                    let grace = Duration::from_millis(shared.grace_ms.load(Ordering::Relaxed));
                    end = Some(self.clock.monotonic() + grace);
                }
                Some((command, answer)) = commands.recv() => {
                    self.carry_out(command, answer);
                }
                // Even when there are always batches to take: relocating makes room.
                _ = ticks.tick() => self.tick(end.is_some()),
                () = std::future::ready(()), if is_busy => {}
                () = self.pump.sources.ready(READY_BYTES, READY_AFTER), if has_room && !is_closing => {}
                () = self.pump.lagging.ready(1, Duration::ZERO), if !is_closing => {}
                () = wake.notified() => {}
            }
            if end.is_some_and(|end| self.clock.monotonic() >= end || self.pump.is_done()) {
                self.tick(true);
                self.publish();
                return;
            }
        }
    }

    fn tick(&mut self, is_final: bool) {
        // Also where nothing is left of it afterwards.
        {
            let mut core = self.pump.core.borrow_mut();
            self.has_changed |= !core.active.is_empty() || std::mem::take(&mut core.has_sent);
        }
        self.pump.tick(is_final);
        self.look_at_providers();
        self.shared.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        let pause = PUBLISH_INTERVAL.max(self.publish_time * PUBLISH_SHARE);
        if self.has_changed && self.clock.monotonic() >= self.published_at + pause {
            self.publish();
        }
    }

    fn start_workers(&self) {
        let to_start = std::mem::take(&mut self.pump.core.borrow_mut().to_start);
        for id in to_start {
            if let Some(drain) = self.definitions.get(&id) {
                tokio::task::spawn_local(work(self.context.clone(), drain.clone()));
            }
        }
    }

    fn look_at_providers(&mut self) {
        let mut lists = Vec::new();
        for (name, state) in &mut self.providers {
            if !state.has_changed().unwrap_or(false) {
                continue;
            }
            self.has_changed = true;
            if let Some(list) = &state.borrow_and_update().list {
                lists.push((*name, list.clone()));
            }
        }
        for (name, list) in lists {
            let now = self.clock.monotonic();
            lock(&self.shared.messages).note_rejected(&list.rejected, now);
            let drains =
                list.bindings.iter().map(|binding| Definition::of_provider(binding.clone(), name));
            let difference = self.registry.replace(name, drains.collect());
            let is_change = !difference.added.is_empty() || !difference.removed.is_empty();
            self.change(difference);
            if is_change {
                self.keep();
            }
        }
        self.note_completeness();
    }

    /// Saves the drains that did not come from the configuration.
    fn keep(&self) -> bool {
        let kept = self.registry.write();
        if let Err(error) = &kept {
            tracing::error!(%error, "cannot save the list of drains");
        }
        kept.is_ok()
    }

    fn carry_out(&mut self, command: Command, answer: oneshot::Sender<Answer>) {
        let unknown = || Err(UNKNOWN.to_owned());
        let result = match command {
            Command::Add(drain) => {
                let mut added = self.registry.of(ADDED);
                if added.iter().any(|known| known.id == drain.id) {
                    Err("the drain already exists".to_owned())
                } else {
                    added.push(*drain);
                    self.replace_added(added)
                }
            }
            Command::Remove(id) => {
                let mut added = self.registry.of(ADDED);
                let count = added.len();
                added.retain(|known| known.id != id);
                if added.len() < count {
                    self.replace_added(added)
                } else if self.definitions.contains_key(&id) {
                    Err("only manually added drains can be removed".to_owned())
                } else {
                    unknown()
                }
            }
            Command::Pause(id, is_paused) => {
                if self.definitions.contains_key(&id) {
                    self.pause(id, is_paused)
                } else {
                    unknown()
                }
            }
            Command::Test(id) => match self.definitions.get(&id) {
                Some(drain) => return self.test(drain.clone(), answer),
                None => unknown(),
            },
        };
        self.publish();
        // The caller may be gone.
        let _waited_for = answer.send(result);
    }

    fn replace_added(&mut self, added: Vec<Definition>) -> Answer {
        let difference = self.registry.replace(ADDED, added);
        self.change(difference);
        self.kept()
    }

    fn pause(&mut self, id: u64, is_paused: bool) -> Answer {
        if is_paused {
            self.registry.paused.insert(id);
        } else {
            self.registry.paused.remove(&id);
        }
        self.pump.core.borrow_mut().pause(id, is_paused);
        self.kept()
    }

    fn kept(&self) -> Answer {
        if self.keep() {
            Ok(None)
        } else {
            Err("the change applies until the next start, but could not be saved: see the log"
                .to_owned())
        }
    }

    fn test(&self, drain: Arc<Definition>, answer: oneshot::Sender<Answer>) {
        let network = self.context.network.clone();
        tokio::task::spawn_local(async move {
            let result = DrainSender::new(drain.binding.clone(), network).probe().await;
            let error = match result {
                SendResult::Done => None,
                SendResult::Retry { text, .. } | SendResult::Rejected { text, .. } => Some(text),
            };
            let _waited_for = answer.send(Ok(error));
        });
    }

    fn publish(&mut self) {
        let now = self.clock.monotonic();
        (self.published_at, self.has_changed) = (now, false);
        let core = self.pump.core.borrow();
        let mut messages = lock(&self.shared.messages);
        let status = |(id, drain): (&u64, &super::core::Drain)| {
            let definition = self.definitions.get(id)?;
            let failure = drain.failure.as_ref();
            messages.note(definition, &drain.book, failure, now);
            let state = match (drain.is_paused, failure, drain.mode) {
                (true, _, _) => DrainState::Paused,
                (false, Some(_), _) => DrainState::Failing,
                (false, None, Mode::Lagging) => DrainState::Lagging,
                (false, None, Mode::Direct) if drain.queue.is_empty() => DrainState::Idle,
                (false, None, Mode::Direct) => DrainState::Sending,
            };
            Some(DrainStatus {
                id: format!("{id:016x}"),
                origin: definition.origin,
                selects: match &definition.selector {
                    Selector::App(app) => format!("app {app}"),
                    Selector::Space(space) => format!("space {space}"),
                    Selector::Organization(organization) => format!("organization {organization}"),
                    Selector::All => "all".to_owned(),
                },
                url: definition.binding.url.to_string(),
                state,
                error: failure.map(|failure| failure.error.clone()),
                failing_seconds: failure
                    .map_or(0.0, |failure| now.saturating_sub(failure.since).as_secs_f64()),
                book: drain.book,
                unaccounted: drain.book.unaccounted(),
            })
        };
        let mut statuses: Vec<DrainStatus> = core.drains.iter().filter_map(status).collect();
        statuses.sort_by(|a, b| (&a.selects, &a.url, &a.id).cmp(&(&b.selects, &b.url, &b.id)));
        *lock(&self.shared.drains) = statuses.into();
        let providers = self.providers.iter().map(|(name, state)| {
            let state = state.borrow();
            let list = state.list.as_ref();
            ProviderStatus {
                name,
                drains: list.map_or(0, |list| list.bindings.len()),
                rejected: list.map_or(0, |list| list.rejected.len()),
                refreshes: state.refreshes,
                errors: state.errors,
                error: state.last_error.as_ref().map(ToString::to_string),
            }
        });
        *lock(&self.shared.providers) = providers.collect();
        self.publish_time = self.clock.monotonic().saturating_sub(now);
    }
}
