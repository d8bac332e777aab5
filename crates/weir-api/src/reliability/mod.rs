//! `/weir/v1/reliability`: how much of what came in has arrived, in windows of up to a month, from
//! readings of the books that the running weir makes itself.
//!
//! Reading order: [`history`] (readings, and what they say of a window), [`rates`] (what came in
//! at which rate), [`file`] (how they survive a restart), then this file: when the books are read,
//! and the documents.
//!
//! Invariants: a reading is made at the start, each minute and at the end; an answer includes the
//! books as they are now; a failing disk costs only what a restart then forgets; files are read and
//! written on another thread than the API's own.

mod file;
mod history;
mod rates;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use utoipa::{IntoParams, ToSchema};
use weir_host::units::format_rfc3339;
use weir_host::{Clock, Disk};
use weir_journal::Ledger;

use self::file::{FILE, HistoryFile};
use self::history::{Change, Component, History, Reading, Step, WINDOWS};
use self::rates::AtRate;
use crate::access::Permission::Everything;
use crate::access::{Routes, needs};
use crate::explore::parameters;
use crate::problem::Problem;
use crate::response::{json_response, starting};
use crate::state::ApiState;

pub use self::history::{ComponentKind, Window};

/// How often the books are read.
const INTERVAL: Duration = Duration::from_mins(1);

/// The paths.
pub(crate) const PATHS: [&str; 2] = ["/weir/v1/reliability", "/weir/v1/reliability/steps"];

/// The routes.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .on("/weir/v1/reliability", [needs(Everything, axum::routing::get(get))])
        .on("/weir/v1/reliability/steps", [needs(Everything, axum::routing::get(steps))])
        .compressed()
}

/// `/weir/v1/reliability`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReliabilityDocument {
    /// `weir.reliability.v1`.
    pub schema: String,
    /// When it was read, RFC 3339.
    pub time: String,
    /// When the first reading was made, RFC 3339: windows that begin before it are shorter.
    pub recorded_since: String,
    /// Every source and output that has a book.
    pub components: Vec<ReliabilityEntry>,
    /// Number of components that are not recorded because there are too many.
    pub left_out: usize,
    /// Why the readings do not survive a restart; absent if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The records of a source or output, by window.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReliabilityEntry {
    /// Whether it is a source or an output.
    pub kind: ComponentKind,
    /// Its name.
    pub name: String,
    /// What happened in the last hour, six hours, day, seven days and thirty days.
    pub windows: Vec<WindowEntry>,
}

/// What happened during a window.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WindowEntry {
    /// The window.
    pub window: Window,
    /// Where it begins, RFC 3339: at a reading, so up to a minute earlier than its name says, and
    /// up to an hour for windows longer than a day; later if readings began later.
    pub from: String,
    /// For how long weir ran in it, seconds.
    pub running_seconds: f64,
    /// The counts.
    #[serde(flatten)]
    pub counts: DeliveryCounts,
    /// Delivered / (delivered + lost); absent if nothing was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<f64>,
    /// Number of intervals of a minute in which something was lost.
    pub lossy_minutes: u64,
}

/// Counts of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryCounts {
    /// Lines of a source; records routed to an output.
    pub received: u64,
    /// Lines of a source that became records or parts of them; records that an output has
    /// delivered, or passed on to drains.
    pub delivered: u64,
    /// Discarded unintentionally, or written to the dead-letter file.
    pub lost: u64,
    /// Discarded as configured.
    pub discarded: u64,
}

/// Which steps of which component.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StepsQuery {
    /// Whether it is a source or an output.
    kind: ComponentKind,
    /// Its name; without one, all sources together.
    name: Option<String>,
    /// The window.
    window: Window,
}

/// `/weir/v1/reliability/steps`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StepsDocument {
    /// `weir.reliability.steps.v1`.
    pub schema: String,
    /// The times between two readings, in order: a minute each within the last day, before that an
    /// hour; longer if weir did not run.
    pub steps: Vec<StepEntry>,
    /// What came in at which rate, the lowest rate first: rates of minutes, throughout the window.
    pub rates: Vec<RateEntry>,
}

/// What came in at rates within a range.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RateEntry {
    /// Start of the range (inclusive), records per second.
    pub from: f64,
    /// End of the range (exclusive), records per second.
    pub to: f64,
    /// For how long records came in at such a rate, seconds.
    pub running_seconds: f64,
    /// Lines of a source; records routed to an output.
    pub received: u64,
    /// Lines that became records or parts of them; records that an output has delivered, or passed
    /// on to drains.
    pub delivered: u64,
    /// Discarded unintentionally, or written to the dead-letter file.
    pub lost: u64,
}

/// The time between two readings of the books.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StepEntry {
    /// Where it begins, RFC 3339.
    pub from: String,
    /// Where it ends, RFC 3339.
    pub to: String,
    /// For how long weir ran in it, seconds.
    pub running_seconds: f64,
    /// The counts.
    #[serde(flatten)]
    pub counts: DeliveryCounts,
}

/// How much of what came in has arrived, by source, output and window
///
/// Weir reads its books each minute, and keeps the readings for 31 days, across restarts.
#[utoipa::path(
    get, path = "/weir/v1/reliability", tag = "status",
    responses((status = 200, description = "What arrived", body = ReliabilityDocument))
)]
pub(crate) async fn get(State(state): State<Arc<ApiState>>) -> Response {
    let Some(view) = state.view() else { return starting() };
    let document = state.reliability.document(&view.journal.ledger());
    document.map_or_else(starting, |document| json_response(StatusCode::OK, &document))
}

/// What came in and arrived over time, for a source or output, and the loss at each rate
#[utoipa::path(
    get, path = "/weir/v1/reliability/steps", tag = "status", params(StepsQuery),
    responses((status = 200, description = "The steps", body = StepsDocument))
)]
pub(crate) async fn steps(
    State(state): State<Arc<ApiState>>,
    query: Result<Query<StepsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let StepsQuery { kind, name, window } = parameters(query)?;
    let component = match (kind, name) {
        (kind, Some(name)) => Component { kind, name },
        (ComponentKind::Source, None) => Component::ALL_SOURCES,
        (ComponentKind::Output, None) => {
            return Err(Problem::parameter("name", "it is required for outputs"));
        }
    };
    let Some(view) = state.view() else { return Ok(starting()) };
    let found = state.reliability.steps(&component, window, &view.journal.ledger());
    Ok(found.map_or_else(starting, |document| json_response(StatusCode::OK, &document)))
}

/// Reads the books at the start, each minute and at the end.
#[derive(Debug)]
pub(crate) struct Recorder {
    clock: Arc<dyn Clock>,
    /// Held while files are read and written; locked before the other.
    place: Mutex<Place>,
    inner: Mutex<Inner>,
}

/// Where readings are kept.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Memory,
    /// The file in this directory, which was not read yet.
    Unread(Arc<dyn Disk>, PathBuf),
    File(HistoryFile),
}

#[derive(Debug, Default)]
struct Inner {
    dir: Option<PathBuf>,
    /// `None` until the first reading.
    history: Option<History>,
    /// Start of the time for which weir has been running and that is in no reading yet.
    running_since: Option<Duration>,
    problem: Option<String>,
}

impl Recorder {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, place: Mutex::default(), inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps readings in this directory from now on.
    pub(crate) fn set_dir(&self, disk: Arc<dyn Disk>, dir: &Path) {
        let mut place = self.place();
        let mut inner = self.inner();
        if inner.dir.as_ref().is_none_or(|known| known != dir) {
            *place = Place::Unread(disk, dir.to_owned());
            *inner = Inner { dir: Some(dir.to_owned()), ..Inner::default() };
        }
    }

    /// Reads the books, and writes what they say. Blocks for as long as the disk does.
    pub(crate) fn record(&self, ledger: &Ledger) {
        let mut place = self.place();
        self.open(&mut place);
        let history = {
            let mut inner = self.inner();
            let (now_ns, now) = (self.clock.unix_ns(), self.clock.monotonic());
            let reading = inner.reading(ledger, now_ns, now);
            inner.running_since = Some(now);
            let history = inner.history.get_or_insert_default();
            history.add(reading);
            history.clone()
        };
        let Place::File(file) = &mut *place else { return };
        let problem = file.write(&history).err();
        let problem = problem.map(|error| format!("cannot write {FILE} in data_dir: {error}"));
        let before = std::mem::replace(&mut self.inner().problem, problem.clone());
        if let Some(text) = problem.filter(|_| before.is_none()) {
            warn_of(&text);
        }
    }

    /// Reads the file of earlier runs, once.
    fn open(&self, place: &mut Place) {
        let (disk, dir) = match std::mem::take(place) {
            Place::Unread(disk, dir) => (disk, dir),
            opened => {
                *place = opened;
                return;
            }
        };
        match HistoryFile::open(disk, &dir) {
            Ok((file, history)) => {
                *place = Place::File(file);
                self.inner().history = Some(history);
            }
            Err(error) => {
                let text = format!(
                    "cannot read {FILE} in data_dir: {error}; move it away to start a new one"
                );
                warn_of(&text);
                self.inner().problem = Some(text);
            }
        }
    }

    /// `None` before the first reading.
    fn document(&self, ledger: &Ledger) -> Option<ReliabilityDocument> {
        let inner = self.inner();
        let history = inner.history.as_ref()?;
        let now = inner.reading(ledger, self.clock.unix_ns(), self.clock.monotonic());
        let first = history.first()?;
        let entry = |component: &Component| ReliabilityEntry {
            kind: component.kind,
            name: component.name.clone(),
            windows: WINDOWS
                .iter()
                .filter_map(|(window, _)| {
                    let steps = history.steps(component, *window, &now);
                    Some(WindowEntry::of(*window, &Step::sum(&steps)?))
                })
                .collect(),
        };
        Some(ReliabilityDocument {
            schema: "weir.reliability.v1".to_owned(),
            time: format_rfc3339(now.time_ns),
            recorded_since: format_rfc3339(first.time_ns),
            components: now
                .counts
                .iter()
                .filter(|(component, _)| **component != Component::ALL_SOURCES)
                .map(|(component, _)| entry(component))
                .collect(),
            left_out: now.left_out,
            problem: inner.problem.clone(),
        })
    }

    fn steps(
        &self,
        component: &Component,
        window: Window,
        ledger: &Ledger,
    ) -> Option<StepsDocument> {
        let inner = self.inner();
        let now = inner.reading(ledger, self.clock.unix_ns(), self.clock.monotonic());
        let history = inner.history.as_ref()?;
        let steps = history.steps(component, window, &now);
        let rates = history.rates(component, window, &now);
        Some(StepsDocument {
            schema: "weir.reliability.steps.v1".to_owned(),
            steps: steps.iter().map(StepEntry::of).collect(),
            rates: rates.iter().map(RateEntry::of).collect(),
        })
    }
}

impl Inner {
    /// The books as they are now.
    fn reading(&self, ledger: &Ledger, now_ns: i64, now: Duration) -> Reading {
        let ran = self.running_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let ran_ns = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        let before = self.history.as_ref().and_then(History::last);
        Reading::of(ledger, now_ns, before, ran_ns)
    }
}

fn warn_of(problem: &str) {
    tracing::warn!("readings of the books will not survive a restart: {problem}");
}

/// Makes readings until the API ends.
pub(crate) async fn record_each_minute(state: Arc<ApiState>) {
    let mut stopped = state.stopped.clone();
    let mut minutes = tokio::time::interval(INTERVAL);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shown = state.shown.subscribe();
    loop {
        tokio::select! {
            _ = minutes.tick() => {}
            changed = shown.changed() => if changed.is_err() { return },
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let Some(view) = state.view() else { continue };
        let reading = state.clone();
        let recorded = tokio::task::spawn_blocking(move || {
            reading.reliability.record(&view.journal.ledger());
        });
        if let Err(error) = recorded.await {
            tracing::error!(%error, "the books could not be read");
        }
    }
}

/// Announces pipelines that are shown, so that their books are read at once.
pub(crate) type Shown = watch::Sender<()>;

impl DeliveryCounts {
    fn of(change: &Change) -> Self {
        let count = |number: i64| number.max(0).cast_unsigned();
        Self {
            received: count(change.received),
            delivered: count(change.delivered),
            lost: count(change.lost),
            discarded: count(change.discarded),
        }
    }
}

impl WindowEntry {
    fn of(window: Window, sum: &Step) -> Self {
        Self {
            window,
            from: format_rfc3339(sum.from_ns),
            running_seconds: sum.running_ns as f64 / 1e9,
            counts: DeliveryCounts::of(&sum.change),
            arrived: sum.change.arrived(),
            lossy_minutes: sum.change.lossy.max(0).cast_unsigned(),
        }
    }
}

impl StepEntry {
    fn of(step: &Step) -> Self {
        Self {
            from: format_rfc3339(step.from_ns),
            to: format_rfc3339(step.to_ns),
            running_seconds: step.running_ns as f64 / 1e9,
            counts: DeliveryCounts::of(&step.change),
        }
    }
}

impl RateEntry {
    fn of(rate: &AtRate) -> Self {
        Self {
            from: rates::bound(rate.range),
            to: rates::bound(rate.range + 1),
            running_seconds: rate.running_ns as f64 / 1e9,
            received: rate.received,
            delivered: rate.delivered,
            lost: rate.lost,
        }
    }
}

#[cfg(test)]
mod tests;
