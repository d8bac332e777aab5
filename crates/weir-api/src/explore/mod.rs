//! Search over HTTP: Datadog's explore API, so that its clients work, and additional paths.
//!
//! Reading order: [`question`] and [`time`] (parsing of requests), [`admission`] (which queries run
//! and when), [`search`] and [`aggregate`] (the two most important queries), [`record`] and
//! [`meta`] (form of answers), then the others.
//!
//! Invariants: a request is validated completely before it waits to run; it is answered by a
//! worker, never by the API's own thread; it ends at its deadline with the results so far, or when
//! its sender leaves; a partial answer is marked as such, with the reasons.

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
    Aggregate, Budget, CalculatedField, Coverage, Facets, FieldList, LogStore, PartialReason,
    Patterns, QueryError, RecordContext, SearchPage, StoreMetrics,
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

/// The store to query, if there is one.
#[derive(Debug, Clone, Default)]
enum Slot {
    /// The pipeline has not started yet, or is restarting.
    #[default]
    Starting,
    /// The store is disabled in the configuration.
    Off,
    /// This one.
    On(Arc<dyn LogStore>),
}

/// The state that all queries share.
#[derive(Debug)]
pub(crate) struct Explore {
    slot: RwLock<Slot>,
    clock: Arc<dyn Clock>,
    pub(crate) admission: Admission,
    /// Permits for exports.
    exports: Arc<Semaphore>,
    /// Default deadline of a query.
    deadline: Duration,
}

impl Explore {
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: QueryLimits) -> Self {
        let exports = Arc::new(Semaphore::new(export::exports_max(limits.workers)));
        let admission = Admission::new(limits, Arc::clone(&clock));
        let (slot, deadline) = (RwLock::default(), limits.deadline);
        Self { slot, clock, admission, exports, deadline }
    }

    /// Queries this store from now on, or none.
    pub(crate) fn show(&self, store: Option<Arc<dyn LogStore>>) {
        if store.is_some()
            && let Err(error) = self.admission.start()
        {
            tracing::error!(%error, "could not start enough threads for searching");
        }
        let slot = store.map_or(Slot::Off, Slot::On);
        *self.slot.write().unwrap_or_else(PoisonError::into_inner) = slot;
    }

    /// Queries no store from now on, until another one is set.
    pub(crate) fn hide(&self) {
        *self.slot.write().unwrap_or_else(PoisonError::into_inner) = Slot::Starting;
    }

    /// Calculated fields for a query: its own, followed by the configured ones. Returns an error if
    /// they become too long.
    fn measures(&self, own: &[CalculatedField]) -> Result<Vec<CalculatedField>, Problem> {
        let measures = self.store()?.calculated_fields_with(own);
        match CalculatedField::too_long(&measures) {
            None => Ok(measures),
            Some(path) => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                format!(
                    "the calculated field {path} is too long after the fields that it uses are \
                     expanded"
                ),
            )),
        }
    }

    /// Returns the store, or an error that explains why there is none.
    fn store(&self) -> Result<Arc<dyn LogStore>, Problem> {
        match self.slot.read().unwrap_or_else(PoisonError::into_inner).clone() {
            Slot::On(store) => Ok(store),
            Slot::Off => Err(Problem::new(
                StatusCode::CONFLICT,
                "the store is disabled: [store] enabled = false",
            )),
            Slot::Starting => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "weir is starting: its journal is being recovered",
            )
            .retry_after(1)),
        }
    }

    /// Returns the statistics of the store; `None` if there is none.
    pub(crate) fn figures(&self) -> Option<StoreMetrics> {
        self.store().ok().map(|store| store.metrics())
    }

    /// The deadline of a query: as requested, or the default.
    fn time(&self, name: &str, asked: Option<&str>) -> Result<Duration, Problem> {
        asked.map_or(Ok(self.deadline), |text| question::deadline(name, text))
    }

    fn arrival(&self) -> Arrival {
        Arrival::new(&self.clock)
    }

    /// Queries the store and creates the document of the answer, both on a worker.
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

/// A result of the store.
trait Answer {
    /// What was read for the result.
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

/// Converts an error of the store to a problem.
fn failed(error: &QueryError) -> Problem {
    let code = match error {
        QueryError::Expression(_) | QueryError::Invalid(_) => StatusCode::BAD_REQUEST,
        // This response is never sent.
        QueryError::Cancelled => StatusCode::REQUEST_TIMEOUT,
        QueryError::TooSlow | QueryError::Inconclusive(_) | QueryError::Read(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let problem = Problem::new(code, error.to_string());
    match error {
        QueryError::Expression(CompileError::Regexp { pattern, .. }) => problem.of_regexp(pattern),
        QueryError::Inconclusive(PartialReason::CatchingUp) | QueryError::Read(_) => {
            problem.retry_after(5)
        }
        _ => problem,
    }
}

fn refused(refused: Refused) -> Problem {
    match refused {
        Refused::Full(seconds) => {
            let title = "too many queries are waiting";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, title).retry_after(seconds)
        }
        Refused::Late(seconds) => {
            let title = "too many queries: this one waited too long";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, title).retry_after(seconds)
        }
        Refused::Failed => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the query failed: internal error")
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
