//! Searching what is stored, over HTTP: Datadog's explore API, so that its clients work, and paths
//! of our own for what it does not have.
//!
//! Reading order: [`question`] and [`time`] (what is asked), [`admission`] (who is answered and
//! when), [`search`] and [`aggregate`] (the two questions that matter), [`record`] and [`meta`]
//! (what answers look like), then the others.
//!
//! Invariants: a question is checked whole before it waits for its turn; it is answered by a
//! worker, never by the API's own thread; it ends at its deadline with what is there, and when
//! whoever asked leaves; an answer that is not the whole one says so and why.

mod access;
mod admission;
pub(crate) mod aggregate;
pub(crate) mod complete;
pub(crate) mod context;
mod cursor;
pub(crate) mod deletions;
pub(crate) mod export;
pub(crate) mod facets;
mod figures;
pub(crate) mod limits;
mod meta;
pub(crate) mod patterns;
mod question;
mod record;
pub(crate) mod report;
pub(crate) mod search;
mod time;
mod words;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde::Serialize;
use tokio::sync::Semaphore;
use weir_expr::CompileError;
use weir_host::Clock;
use weir_store::query::{
    Aggregate, Budget, Coverage, Facets, FieldList, LogStore, NamedMeasure, Patterns, QueryError,
    RecordContext, SearchPage, Shortfall, StoreFigures,
};

use crate::compression::compressed;
use crate::problem::{NO_STORE, Problem};
use crate::routes::{Router, Shared};
use admission::{Ending, Refused};
use meta::{Arrival, Meta};

pub(crate) use admission::Admission;
pub(crate) use figures::{Kind, Outcome, TIME_BUCKETS_SECONDS, Times};
pub(crate) use question::parameters;

pub use aggregate::{AggregateAnswer, AggregateBucket, AggregateData};
pub use complete::{FieldEntry, FieldsAnswer, ValueEntry, ValuesAnswer};
pub use context::ContextAnswer;
pub use deletions::{DeletionAnswer, DeletionEntry, DeletionsAnswer};
pub use facets::{FacetEntry, FacetsAnswer};
pub use limits::{DEADLINE_MAX, QueryLimits};
pub use meta::{Meta as AnswerMeta, NextPage, ScanMeta, Warning};
pub use patterns::{PatternEntry, PatternsAnswer};
pub use record::{LogAttributes, LogDetails, LogEntry, nested_attributes, resource_tags};
pub use report::{StoreColumn, StoreDocument, StoreService};
pub use search::{Links, SearchAnswer};

/// The store that is asked, if there is one.
#[derive(Debug, Clone, Default)]
enum Slot {
    /// The pipeline has not started yet, or starts anew.
    #[default]
    Starting,
    /// There is none by configuration.
    Off,
    /// This one.
    On(Arc<dyn LogStore>),
}

/// Everything that questions need.
#[derive(Debug)]
pub(crate) struct Explore {
    slot: RwLock<Slot>,
    clock: Arc<dyn Clock>,
    pub(crate) admission: Admission,
    /// Leave to export.
    exports: Arc<Semaphore>,
    /// How long a question may take unless it says otherwise.
    deadline: Duration,
}

impl Explore {
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: QueryLimits) -> Self {
        let exports = Arc::new(Semaphore::new(export::exports_max(limits.workers)));
        let admission = Admission::new(limits, Arc::clone(&clock));
        let (slot, deadline) = (RwLock::default(), limits.deadline);
        Self { slot, clock, admission, exports, deadline }
    }

    /// From now on this store is asked, or none.
    pub(crate) fn show(&self, store: Option<Arc<dyn LogStore>>) {
        if store.is_some()
            && let Err(error) = self.admission.start()
        {
            tracing::error!(%error, "too few threads for searching can be started");
        }
        let slot = store.map_or(Slot::Off, Slot::On);
        *self.slot.write().unwrap_or_else(PoisonError::into_inner) = slot;
    }

    /// From now on no store is asked, until there is another one.
    pub(crate) fn hide(&self) {
        *self.slot.write().unwrap_or_else(PoisonError::into_inner) = Slot::Starting;
    }

    /// Attributes that are computed for a question: its own, then those of every question. An error
    /// when that takes too long.
    fn measures(&self, own: &[NamedMeasure]) -> Result<Vec<NamedMeasure>, Problem> {
        let measures = self.store()?.measures_with(own);
        match NamedMeasure::too_long(&measures) {
            None => Ok(measures),
            Some(path) => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                format!("the measure {path} is too long with those that it is computed from"),
            )),
        }
    }

    /// The store, or why there is none.
    fn store(&self) -> Result<Arc<dyn LogStore>, Problem> {
        match self.slot.read().unwrap_or_else(PoisonError::into_inner).clone() {
            Slot::On(store) => Ok(store),
            Slot::Off => {
                Err(Problem::new(StatusCode::CONFLICT, "the store is off: [store] enabled = false"))
            }
            Slot::Starting => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "weir is starting: its journal is being recovered",
            )
            .retry_after(1)),
        }
    }

    /// What the store does; `None` without one.
    pub(crate) fn figures(&self) -> Option<StoreFigures> {
        self.store().ok().map(|store| store.figures())
    }

    /// How long a question may take: as it says, or as usual.
    fn time(&self, name: &str, asked: Option<&str>) -> Result<Duration, Problem> {
        asked.map_or(Ok(self.deadline), |text| question::deadline(name, text))
    }

    fn arrival(&self) -> Arrival {
        Arrival::new(&self.clock)
    }

    /// Asks the store when the turn comes, and makes the document of the answer, both on a worker.
    async fn ask<A, D>(
        &self,
        kind: Kind,
        time: Option<Duration>,
        arrival: Arrival,
        question: impl FnOnce(&dyn LogStore, &Budget) -> Result<A, QueryError> + Send + 'static,
        document: impl FnOnce(A, Meta) -> Result<D, Problem> + Send + 'static,
    ) -> Result<Response, Problem>
    where
        A: Answer,
        D: Serialize,
    {
        let store = self.store()?;
        let ask = self.admission.run(kind, time, move |budget| {
            let answer = match question(&*store, budget) {
                Ok(answer) => answer,
                Err(error) => return (Err(failed(&error)), Ending::Failed),
            };
            let coverage = answer.coverage();
            let ending = if coverage.is_partial() { Ending::Partial } else { Ending::Complete };
            let meta = arrival.meta(&coverage);
            let scanned = coverage.scanned;
            let text = document(answer, meta).and_then(|document| {
                serde_json::to_string(&document).map_err(|error| unexpected(&error))
            });
            (text.map(|text| (text, scanned)), ending)
        });
        let (text, scanned) = ask.await.map_err(refused)??;
        self.admission.figures().scanned(&scanned);
        Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json"), NO_STORE], text + "\n")
            .into_response())
    }
}

/// An answer of the store.
trait Answer {
    /// What it rests on.
    fn coverage(&self) -> Coverage;
}

impl Answer for SearchPage {
    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }
}

impl Answer for Aggregate {
    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }
}

impl Answer for Facets {
    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }
}

impl Answer for Patterns {
    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }
}

impl Answer for Option<RecordContext> {
    fn coverage(&self) -> Coverage {
        self.as_ref().map(|context| context.coverage.clone()).unwrap_or_default()
    }
}

impl Answer for FieldList {
    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }
}

/// Why the store has no answer, for whoever asked.
fn failed(error: &QueryError) -> Problem {
    let code = match error {
        QueryError::Expression(_) | QueryError::Invalid(_) => StatusCode::BAD_REQUEST,
        // Nobody reads this.
        QueryError::Cancelled => StatusCode::REQUEST_TIMEOUT,
        QueryError::TooSlow | QueryError::Unfound(_) | QueryError::Read(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let problem = Problem::new(code, error.to_string());
    match error {
        QueryError::Expression(CompileError::Regexp { pattern, .. }) => problem.of_regexp(pattern),
        QueryError::Unfound(Shortfall::CatchingUp) | QueryError::Read(_) => problem.retry_after(5),
        _ => problem,
    }
}

fn refused(refused: Refused) -> Problem {
    match refused {
        Refused::Full(seconds) => {
            let title = "too many queries wait already";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, title).retry_after(seconds)
        }
        Refused::Late(seconds) => {
            let title = "more queries are asked than can be answered: this one waited too long";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, title).retry_after(seconds)
        }
        Refused::Failed => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the query failed: a fault of weir")
        }
    }
}

fn unexpected(error: &dyn std::error::Error) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Every path.
pub(crate) const PATHS: [&str; 12] = [
    "/api/v2/logs/events",
    "/api/v2/logs/events/search",
    "/api/v2/logs/analytics/aggregate",
    "/weir/v1/fields",
    "/weir/v1/values",
    "/weir/v1/facets",
    "/weir/v1/context",
    "/weir/v1/patterns",
    "/weir/v1/export",
    "/weir/v1/store",
    "/weir/v1/store/deletions",
    "/weir/v1/store/deletions/{id}",
];

/// The routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/api/v2/logs/events", get(search::get))
        .route("/api/v2/logs/events/search", get(search::get_in_place).post(search::post))
        .route("/api/v2/logs/analytics/aggregate", post(aggregate::post))
        .route("/weir/v1/fields", get(complete::fields))
        .route("/weir/v1/values", get(complete::values))
        .route("/weir/v1/facets", get(facets::get))
        .route("/weir/v1/context", get(context::get))
        .route("/weir/v1/patterns", get(patterns::get))
        .route("/weir/v1/export", get(export::get))
        .route("/weir/v1/store", get(report::get))
        .route("/weir/v1/store/deletions", get(deletions::get).post(deletions::post))
        .route("/weir/v1/store/deletions/{id}", delete(deletions::cancel))
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn(compressed))
}
