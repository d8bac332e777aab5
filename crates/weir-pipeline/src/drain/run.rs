//! The thread of the drains: all of them on one event loop.
//!
//! Invariants: it never waits for a drain; a change to the set of drains is saved in the file
//! before the request for it is answered; a paused drain is paused whenever a list has it, until a
//! user resumes or removes it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::LocalSet;
use weir_host::process::thread_cpu_ns;
use weir_host::{Clock, ConnectError, Disk};
use weir_journal::{Cursor, CursorSpec, Journal, JournalError, WhenFull};

use super::envelopes::Envelopes;
use super::limits::{
    COMMANDS_MAX, DRAINS_MAX, PAUSED_MAX, PUBLISH_INTERVAL, PUBLISH_SHARE, READY_AFTER,
    READY_BYTES, TICK, UNUSABLE_REPORTED_MAX,
};
use super::message::{DrainMessage, Messages};
use super::plan::DrainsPlan;
use super::provider::{Provider, ProviderKind, ProviderState};
use super::pump::Pump;
use super::registry::{
    ADDED, BINDING_CACHE, CLOUD_CONTROLLER, CONFIG, Definition, Difference, DrainsFileError, FILE,
    FileProblems, Registry,
};
use super::sender::{DrainNetwork, DrainSender, SendResult};
use super::status::{DrainIdentity, DrainState, DrainStatus, ProviderStatus};
use super::worker::{WorkerContext, work};
use crate::health::Severity;
use crate::pipeline::{ActiveProblem, Running};
use crate::source::SourceNames;

/// The name of the destination, for rules and the ledger.
pub const NAME: &str = "drains";
/// The name of the destination with the records of lagging drains.
pub const LAGGING: &str = "drains/lagging";
/// The type of both, in place of the type of an output.
pub const TYPE_NAME: &str = "drains";

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
    /// The saved drains cannot be used.
    #[error(transparent)]
    File(#[from] DrainsFileError),
    /// A thread cannot be started.
    #[error("drains: cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a change was not made, or not completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DrainChangeError {
    /// There is no drain with this id.
    #[error("there is no drain {0:016x}")]
    Unknown(u64),
    /// A drain with this id was added before.
    #[error("drain {0:016x} already exists")]
    Exists(u64),
    /// The drain comes from the configuration or a provider.
    #[error("drain {0:016x} was not added manually: only manually added drains can be removed")]
    NotAdded(u64),
    /// The maximum number of drains is reached.
    #[error("there are {0} drains already, which is the maximum: remove others first")]
    TooMany(usize),
    /// The maximum number of paused drains is reached.
    #[error("{0} drains are paused already, which is the maximum: resume others first")]
    TooManyPaused(usize),
    /// It was made, but not saved.
    #[error("the change applies until the next start, but could not be saved: see the log")]
    NotSaved,
    /// Nothing is changed any more.
    #[error(
        "weir is stopping, or its drains restart with other settings: try again in a few seconds"
    )]
    Stopping,
}

/// A change requested by a user.
#[derive(Debug)]
enum Command {
    Add(Box<Definition>),
    Remove(u64),
    Pause(u64, bool),
    Test(u64),
    /// Other settings ([`DrainsPlan::continues`]).
    Follow(Box<DrainsPlan>),
}

/// The answer to a command; for a test, the reason if the destination cannot be reached.
type Answer = Result<Option<String>, DrainChangeError>;

/// State shared with the thread.
#[derive(Debug, Default)]
struct Published {
    drains: Mutex<Arc<[DrainStatus]>>,
    providers: Mutex<Vec<ProviderStatus>>,
    messages: Mutex<Messages>,
    /// What was wrong with the file of drains at the start.
    file_problems: FileProblems,
    /// Drains that were not started because there are too many.
    left_out: AtomicUsize,
    cpu_ns: AtomicU64,
    stop: Notify,
    grace_ms: AtomicU64,
    is_handing_over: AtomicBool,
}

/// Drains that can be started: their certificates can be used.
pub(crate) struct PreparedDrains {
    plan: DrainsPlan,
    network: DrainNetwork,
    providers: Vec<(&'static str, Provider)>,
}

impl PreparedDrains {
    /// Their settings.
    pub(crate) fn plan(&self) -> &DrainsPlan {
        &self.plan
    }

    /// Does the steps of a start that can fail because of the settings.
    pub(crate) fn new(plan: &DrainsPlan) -> Result<Self, DrainsError> {
        let network = DrainNetwork::new(&plan.network)?;
        let provider = |settings| Ok((name_of(settings), Provider::new(settings)?));
        let providers = plan.providers.iter().map(provider);
        let providers = providers.collect::<Result<_, ConnectError>>()?;
        Ok(Self { plan: plan.clone(), network, providers })
    }
}

/// Running drains.
#[derive(Debug)]
pub struct Drains {
    shared: Arc<Published>,
    commands: mpsc::Sender<(Command, oneshot::Sender<Answer>)>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Index of the destination.
    pub(crate) cursor: usize,
    /// Index of the destination with the records of lagging drains.
    pub(crate) lagging_cursor: usize,
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
        prepared: PreparedDrains,
        journal: &Journal,
        (disk, data_dir): (Arc<dyn Disk>, &Path),
        clock: Arc<dyn Clock>,
        sources: Arc<SourceNames>,
    ) -> Result<Self, DrainsError> {
        let PreparedDrains { plan, network, providers } = prepared;
        let names: Vec<_> = providers.iter().map(|(name, _)| *name).collect();
        let mut registry = Registry::open(disk, data_dir, &names)?;
        let file_problems = std::mem::take(&mut registry.problems);
        let spec = |name: &str, when_full, buffer_bytes_max, window_bytes| CursorSpec {
            name: name.to_owned(),
            when_full,
            buffer_bytes_max,
            window_bytes,
        };
        let window = plan.window_bytes;
        let direct = spec(NAME, WhenFull::Block, BUFFER_BYTES.max(window * 2), window);
        let lagging =
            spec(LAGGING, WhenFull::DropOldestOfStream, plan.bytes_max, LAGGING_WINDOW_BYTES);
        let cursors = (journal.cursor(direct)?, journal.cursor(lagging)?);
        let (cursor, lagging_cursor) = (cursors.0.index(), cursors.1.index());
        let start = Start {
            plan,
            journal: journal.clone(),
            cursors,
            clock,
            sources,
            registry,
            network,
            providers,
        };
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let shared = Arc::new(Published { file_problems, ..Published::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let here = shared.clone();
        let thread = std::thread::Builder::new().name("drains".to_owned()).spawn(move || {
            let mut all = DrainLoop::new(start, here);
            LocalSet::new().block_on(&runtime, async move { all.run(receiver).await });
        })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { shared, commands, thread, cursor, lagging_cursor })
    }

    /// Returns the state of all drains as last published.
    pub fn statuses(&self) -> Arc<[DrainStatus]> {
        lock(&self.shared.drains).clone()
    }

    /// Returns the state of the providers.
    pub fn providers(&self) -> Vec<ProviderStatus> {
        lock(&self.shared.providers).clone()
    }

    /// Takes the queued messages for the owners of applications, and the number of those that were
    /// discarded since the last call because the queue was full.
    pub(crate) fn take_messages(&self) -> (Vec<DrainMessage>, u64) {
        lock(&self.shared.messages).take()
    }

    /// Adds a drain, which persists until it is removed.
    pub async fn add(&self, drain: Definition) -> Result<(), DrainChangeError> {
        self.command(Command::Add(Box::new(drain))).await.map(drop)
    }

    /// Removes a manually added drain and discards its waiting records.
    pub async fn remove(&self, id: u64) -> Result<(), DrainChangeError> {
        self.command(Command::Remove(id)).await.map(drop)
    }

    /// Pauses or resumes a drain; meanwhile its records wait in its stream.
    pub async fn pause(&self, id: u64, is_paused: bool) -> Result<(), DrainChangeError> {
        self.command(Command::Pause(id, is_paused)).await.map(drop)
    }

    /// Opens a connection to the destination of a drain. Returns the reason if that fails.
    pub async fn test(&self, id: u64) -> Result<Option<String>, DrainChangeError> {
        self.command(Command::Test(id)).await
    }

    /// Continues with other settings ([`DrainsPlan::continues`]). Must not be called in an event
    /// loop.
    pub(crate) fn follow(&self, plan: &DrainsPlan) -> Result<(), DrainChangeError> {
        let (sender, answer) = oneshot::channel();
        let ended = DrainChangeError::Stopping;
        let command = Command::Follow(Box::new(plan.clone()));
        self.commands.blocking_send((command, sender)).map_err(|_| ended.clone())?;
        answer.blocking_recv().unwrap_or(Err(ended)).map(drop)
    }

    /// Tells them to finish the records that they have taken within `grace` and then end, because
    /// others continue with the rest.
    pub(crate) fn hand_over(&self, grace: Duration) {
        self.shared.is_handing_over.store(true, Ordering::Relaxed);
        self.stop(grace);
    }

    async fn command(&self, command: Command) -> Answer {
        let (sender, answer) = oneshot::channel();
        let ended = DrainChangeError::Stopping;
        self.commands.send((command, sender)).await.map_err(|_| ended.clone())?;
        answer.await.unwrap_or(Err(ended))
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
        let left_out = self.shared.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            let text = format!("{left_out} drains are not started: {DRAINS_MAX} is the maximum");
            let severity = Severity::Failing;
            problems.push(ActiveProblem { reason: "drains_limit", severity, text });
        }
        problems.extend(file_problems(&self.shared.file_problems));
        problems
    }

    fn cpu_ns(&self) -> u64 {
        self.shared.cpu_ns.load(Ordering::Relaxed)
    }
}

/// Reports what was wrong with the file of drains at the start.
fn file_problems(found: &FileProblems) -> impl Iterator<Item = ActiveProblem> + use<> {
    let problem = |text| {
        let severity = Severity::Degraded;
        ActiveProblem { reason: "drains_file", severity, text }
    };
    let damaged = found.damaged.as_ref().map(|aside| {
        let aside = aside.display();
        format!("{FILE} was damaged: added drains and pauses are lost; moved aside to {aside}")
    });
    let unusable = (!found.unusable.is_empty()).then(|| {
        let first: Vec<&str> =
            found.unusable.iter().take(UNUSABLE_REPORTED_MAX).map(String::as_str).collect();
        let (count, first) = (found.unusable.len(), first.join("; "));
        format!("saved drains that cannot be used, but stay in {FILE}: {count} ({first})")
    });
    damaged.into_iter().chain(unusable).map(problem)
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
    /// The same in the order in which they are listed; empty if that is not known.
    listed: Vec<(Arc<Definition>, Arc<DrainIdentity>)>,
    providers: Vec<(&'static str, watch::Receiver<ProviderState>)>,
    waiting_providers: Vec<(Provider, watch::Sender<ProviderState>)>,
    /// Maximum number of drains.
    drains_max: usize,
    shared: Arc<Published>,
    clock: Arc<dyn Clock>,
    published_at: Duration,
    /// How long the last publishing took.
    publish_time: Duration,
    /// The published state may be out of date.
    has_changed: bool,
}

impl DrainLoop {
    fn new(start: Start, shared: Arc<Published>) -> Self {
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
            with_metadata: Cell::new(start.plan.with_metadata),
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
            listed: Vec::new(),
            providers,
            waiting_providers,
            drains_max: DRAINS_MAX,
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
        self.add_missing();
        self.note_completeness();
        self.publish();
    }

    /// Once every provider has answered, records without a drain will not get one, unless drains
    /// were left out. Then the counts of drains that no list has are forgotten.
    fn note_completeness(&mut self) {
        let has_list = |state: &ProviderState| state.list.is_some();
        let has_all = self.shared.left_out.load(Ordering::Relaxed) == 0;
        let is_complete =
            has_all && self.providers.iter().all(|(_, state)| has_list(&state.borrow()));
        let was_complete =
            std::mem::replace(&mut self.pump.core.borrow_mut().is_complete, is_complete);
        if is_complete && !was_complete {
            self.pump.forget_others();
        }
    }

    /// Adds the drains of the registry that were not added yet, as far as there is room.
    fn add_missing(&mut self) {
        let all = self.registry.all().into_iter();
        let missing = all.filter(|(id, _)| !self.definitions.contains_key(id));
        let missing: Vec<Definition> = missing.map(|(_, drain)| drain.clone()).collect();
        let room = self.drains_max.saturating_sub(self.definitions.len());
        let left_out = missing.len().saturating_sub(room);
        for drain in missing.into_iter().take(room) {
            self.add(drain);
        }
        let before = self.shared.left_out.swap(left_out, Ordering::Relaxed);
        if before == 0 && left_out > 0 {
            let limit = self.drains_max;
            tracing::error!(limit, left_out, "too many drains: some are not started");
        }
    }

    fn add(&mut self, drain: Definition) {
        let id = drain.id;
        self.pump.add(drain.spec());
        let mut core = self.pump.core.borrow_mut();
        if let Some(added) = core.drains.get(&id) {
            lock(&self.shared.messages).begin(&drain, &added.book);
        }
        self.definitions.insert(id, Arc::new(drain));
        self.listed.clear();
        if self.registry.paused.contains(&id) {
            core.pause(id, true);
        }
    }

    fn change(&mut self, difference: Difference) {
        for id in difference.removed {
            self.definitions.remove(&id);
            self.listed.clear();
            lock(&self.shared.messages).forget(id);
            self.pump.remove(id);
        }
        self.add_missing();
        self.note_completeness();
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
            let is_busy = self.pump.step().await;
            self.start_workers();
            if is_busy {
                // The workers' turn.
                tokio::task::yield_now().await;
            }
            let has_room = self.pump.has_room();
            let takes = !self.pump.sources.is_closing() && !self.pump.is_handing_over;
            tokio::select! {
                biased;
                () = shared.stop.notified() => {
                    let grace = Duration::from_millis(shared.grace_ms.load(Ordering::Relaxed));
                    end = Some(self.clock.monotonic() + grace);
                    self.pump.is_handing_over = shared.is_handing_over.load(Ordering::Relaxed);
                }
                Some((command, answer)) = commands.recv() => {
                    self.carry_out(command, answer);
                }
                // Even when there are always batches to take: relocating makes room.
                _ = ticks.tick() => self.tick(end.is_some()),
                () = std::future::ready(()), if is_busy => {}
                () = self.pump.sources.ready(READY_BYTES, READY_AFTER), if has_room && takes => {}
                () = self.pump.lagging.ready(1, Duration::ZERO), if takes => {}
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
            let difference = self.registry.replace_list(name, drains.collect());
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
        let result = match command {
            Command::Add(drain) => self.add_by_user(*drain),
            Command::Remove(id) => self.remove_by_user(id),
            Command::Pause(id, is_paused) => self.pause(id, is_paused),
            Command::Follow(plan) => {
                self.follow(*plan);
                Ok(None)
            }
            Command::Test(id) => match self.definitions.get(&id) {
                Some(drain) => return self.test(drain.clone(), answer),
                None => Err(DrainChangeError::Unknown(id)),
            },
        };
        self.publish();
        // The caller may be gone.
        let _waited_for = answer.send(result);
    }

    /// Continues with other settings.
    fn follow(&mut self, plan: DrainsPlan) {
        self.pump.retry_for = plan.retry_for;
        self.context.with_metadata.set(plan.with_metadata);
        let difference = self.registry.replace(CONFIG, plan.drains);
        self.change(difference);
    }

    fn add_by_user(&mut self, drain: Definition) -> Answer {
        let mut added = self.registry.of(ADDED);
        if added.iter().any(|known| known.id == drain.id) {
            return Err(DrainChangeError::Exists(drain.id));
        }
        let is_known = self.definitions.contains_key(&drain.id);
        if !is_known && self.definitions.len() >= self.drains_max {
            return Err(DrainChangeError::TooMany(self.drains_max));
        }
        added.push(drain);
        let difference = self.registry.replace(ADDED, added);
        self.change(difference);
        self.kept()
    }

    fn remove_by_user(&mut self, id: u64) -> Answer {
        let mut added = self.registry.of(ADDED);
        let count = added.len();
        added.retain(|known| known.id != id);
        if added.len() == count {
            let is_known = self.registry.all().contains_key(&id);
            let error =
                if is_known { DrainChangeError::NotAdded } else { DrainChangeError::Unknown };
            return Err(error(id));
        }
        let difference = self.registry.replace(ADDED, added);
        if difference.removed.contains(&id) {
            self.registry.paused.remove(&id);
        }
        self.change(difference);
        self.kept()
    }

    /// Pauses or resumes a drain. A pause of a drain that no list has now can be ended, too.
    fn pause(&mut self, id: u64, is_paused: bool) -> Answer {
        let was_paused = self.registry.paused.contains(&id);
        if !self.definitions.contains_key(&id) && (is_paused || !was_paused) {
            return Err(DrainChangeError::Unknown(id));
        }
        if is_paused && !was_paused && self.registry.paused.len() >= PAUSED_MAX {
            return Err(DrainChangeError::TooManyPaused(PAUSED_MAX));
        }
        if is_paused {
            self.registry.paused.insert(id);
        } else {
            self.registry.paused.remove(&id);
        }
        self.pump.core.borrow_mut().pause(id, is_paused);
        self.kept()
    }

    fn kept(&self) -> Answer {
        if self.keep() { Ok(None) } else { Err(DrainChangeError::NotSaved) }
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
        let wall_ns = self.clock.unix_ns();
        let mut messages = lock(&self.shared.messages);
        let mut core = self.pump.core.borrow_mut();
        let mut statuses = Vec::with_capacity(core.drains.len());
        for (definition, identity) in in_order(&mut self.listed, &self.definitions) {
            let Some(drain) = core.drains.get_mut(&definition.id) else { continue };
            drain.note_oldest();
            messages.note(definition, &drain.book, drain.failure.as_ref(), now);
            statuses.push(DrainStatus::new(identity.clone(), drain, (now, wall_ns)));
        }
        drop((core, messages));
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

/// Returns all drains in the order in which they are listed.
fn in_order<'l>(
    listed: &'l mut Vec<(Arc<Definition>, Arc<DrainIdentity>)>,
    definitions: &HashMap<u64, Arc<Definition>>,
) -> &'l [(Arc<Definition>, Arc<DrainIdentity>)] {
    if listed.len() != definitions.len() {
        let identified = |definition: &Arc<Definition>| {
            (definition.clone(), Arc::new(DrainIdentity::new(definition)))
        };
        *listed = definitions.values().map(identified).collect();
        listed.sort_by(|(_, a), (_, b)| {
            (&a.selects, &a.url, &a.id).cmp(&(&b.selects, &b.url, &b.id))
        });
    }
    listed
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
