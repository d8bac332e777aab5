//! Search over HTTP: Datadog's explore API, so that its clients work, and additional paths.
//!
//! Reading order: [`query`] and [`time`] (parsing of requests), [`admission`] (which queries run
//! and when), [`search`] and [`aggregate`] (the two most important queries), [`record`] and
//! [`meta`] (form of answers), then the others.
//!
//! Invariants: a request is validated completely before it waits to run; it is answered by a
//! worker, never by the API's own thread; it ends at its deadline with the results so far, or when
//! its sender leaves; a partial answer is marked as such, with the reasons.

mod admission;
pub(crate) mod aggregate;
pub(crate) mod complete;
pub(crate) mod context;
mod cursor;
pub(crate) mod deletions;
mod deserialize;
pub(crate) mod export;
pub(crate) mod facets;
pub(crate) mod limits;
mod meta;
mod metrics;
pub(crate) mod path;
pub(crate) mod patterns;
mod prelude;
mod query;
mod record;
pub(crate) mod report;
pub(crate) mod search;
mod slots;
mod time;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde::Serialize;
use tokio::sync::Semaphore;
use weir_expr::CompileError;
use weir_host::Clock;
use weir_store::query::{
    Aggregate, Budget, CalculatedField, Coverage, Facets, FieldList, LogStore, PartialReason,
    Patterns, QueryError, RecordContext, SearchPage, StoreMetrics, Units,
};

use crate::access::Permission::{Everything, Operate, Records};
use crate::access::{Routes, needs};
use crate::problem::Problem;
use crate::response::json_text;
use meta::{Meta, RequestContext};

pub(crate) use admission::{Admission, AnswerStatus, Rejection};
pub(crate) use cursor::encode_id as record_id;
pub(crate) use metrics::{DurationHistogram, Outcome, QueryKind, TIME_BUCKETS_SECONDS};
pub(crate) use query::{RequestBody, body, parameters};

pub use aggregate::{AggregateAnswer, AggregateBucket, AggregateData};
pub use complete::{FieldEntry, FieldsAnswer, ValueEntry, ValuesAnswer};
pub use context::ContextAnswer;
pub use deletions::{DeletionAnswer, DeletionEntry, DeletionsAnswer};
pub use facets::{FacetEntry, FacetsAnswer};
pub use limits::{DEADLINE_MAX, QueryLimits};
pub use meta::{Meta as AnswerMeta, NextPage, ScanMeta, Warning};
pub use path::{HopKind, HopState, PathAnswer, PathHop, TimeOf};
pub use patterns::{PatternEntry, PatternsAnswer};
pub use record::{LogAttributes, LogDetails, LogEntry, nested_attributes, resource_tags};
pub use report::{StoreColumn, StoreDocument, StoreService};
pub use search::{Links, SearchAnswer};

/// The store to query, if there is one.
#[derive(Debug, Clone, Default)]
enum StoreState {
    /// The pipeline has not started yet, or is restarting.
    #[default]
    Starting,
    /// The store is disabled in the configuration.
    Disabled,
    /// This one.
    Available(Arc<dyn LogStore>),
}

/// The state that all queries share.
#[derive(Debug)]
pub(crate) struct Explore {
    store_state: RwLock<StoreState>,
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
        let (store_state, deadline) = (RwLock::default(), limits.deadline);
        Self { store_state, clock, admission, exports, deadline }
    }

    /// Queries this store from now on, or none.
    pub(crate) fn set_store(&self, store: Option<Arc<dyn LogStore>>) {
        if store.is_some()
            && let Err(error) = self.admission.start()
        {
            tracing::error!(%error, "could not start enough threads for searching");
        }
        let store_state = store.map_or(StoreState::Disabled, StoreState::Available);
        *self.store_state.write().unwrap_or_else(PoisonError::into_inner) = store_state;
    }

    /// Queries no store from now on, until another one is set.
    pub(crate) fn clear_store(&self) {
        *self.store_state.write().unwrap_or_else(PoisonError::into_inner) = StoreState::Starting;
    }

    /// The units of attributes.
    fn units(&self) -> Result<Units, Problem> {
        Ok(self.store()?.units().clone())
    }

    /// Calculated fields for a query: its own, followed by the configured ones. Returns an error if
    /// they become too long.
    fn calculated_fields(&self, own: &[CalculatedField]) -> Result<Vec<CalculatedField>, Problem> {
        let calculated_fields = self.store()?.calculated_fields_with(own);
        match CalculatedField::too_long(&calculated_fields) {
            None => Ok(calculated_fields),
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
        match self.store_state.read().unwrap_or_else(PoisonError::into_inner).clone() {
            StoreState::Available(store) => Ok(store),
            StoreState::Disabled => Err(Problem::new(
                StatusCode::CONFLICT,
                "the store is disabled: [store] enabled = false",
            )),
            StoreState::Starting => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "weir is starting: its journal is being recovered",
            )
            .retry_after(1)),
        }
    }

    /// Whether the configuration has no store.
    fn is_without_store(&self) -> bool {
        let state = self.store_state.read().unwrap_or_else(PoisonError::into_inner);
        matches!(*state, StoreState::Disabled)
    }

    /// Returns the statistics of the store; `None` if there is none.
    pub(crate) fn store_metrics(&self) -> Option<StoreMetrics> {
        self.store().ok().map(|store| store.metrics())
    }

    /// The deadline of a query: as requested, or the default.
    fn deadline(&self, name: &str, requested: Option<&str>) -> Result<Duration, Problem> {
        requested.map_or(Ok(self.deadline), |text| query::deadline(name, text))
    }

    fn request_context(&self) -> RequestContext {
        RequestContext::new(&self.clock)
    }

    /// Queries the store and creates the document of the answer, both on a worker.
    async fn run_query<A, D>(
        &self,
        kind: QueryKind,
        time: Option<Duration>,
        request_context: RequestContext,
        run: impl FnOnce(&dyn LogStore, &Budget) -> Result<A, QueryError> + Send + 'static,
        document: impl FnOnce(A, Meta) -> Result<D, Problem> + Send + 'static,
    ) -> Result<Response, Problem>
    where
        A: Answer,
        D: Serialize,
    {
        let store = self.store()?;
        let answering = self.admission.run(kind, time, move |budget| {
            let answer = match run(&*store, budget) {
                Ok(answer) => answer,
                Err(error) => return (Err(store_problem(&error)), AnswerStatus::Failed),
            };
            let coverage = answer.coverage();
            let status =
                if coverage.is_partial() { AnswerStatus::Partial } else { AnswerStatus::Complete };
            let meta = request_context.meta(&coverage);
            let scanned = coverage.scanned;
            let text = document(answer, meta).and_then(|document| {
                serde_json::to_string(&document).map_err(|error| internal_error(&error))
            });
            (text.map(|text| (text, scanned)), status)
        });
        let (text, scanned) = answering.await.map_err(rejection_problem)??;
        self.admission.metrics().scanned(&scanned);
        Ok(json_text(StatusCode::OK, text))
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
fn store_problem(error: &QueryError) -> Problem {
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
        QueryError::Expression(CompileError::Regexp { pattern, .. }) => problem.for_regexp(pattern),
        QueryError::Inconclusive(PartialReason::CatchingUp) | QueryError::Read(_) => {
            problem.retry_after(5)
        }
        _ => problem,
    }
}

fn rejection_problem(rejection: Rejection) -> Problem {
    match rejection {
        Rejection::Full(seconds) => {
            let title = "too many queries are waiting";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, title).retry_after(seconds)
        }
        Rejection::Late(seconds) => {
            let title = "too many queries: this one waited too long";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, title).retry_after(seconds)
        }
        Rejection::Failed => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the query failed: internal error")
        }
    }
}

fn internal_error(error: &dyn std::error::Error) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Every path.
pub(crate) const PATHS: [&str; 13] = [
    "/api/v2/logs/events",
    "/api/v2/logs/events/search",
    "/api/v2/logs/analytics/aggregate",
    "/weir/v1/fields",
    "/weir/v1/values",
    "/weir/v1/facets",
    "/weir/v1/context",
    "/weir/v1/path",
    "/weir/v1/patterns",
    "/weir/v1/export",
    "/weir/v1/store",
    "/weir/v1/store/deletions",
    "/weir/v1/store/deletions/{id}",
];

/// The routes.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .on("/api/v2/logs/events", [needs(Records, get(search::get))])
        .on(
            "/api/v2/logs/events/search",
            [needs(Records, get(search::get_in_place).post(search::post))],
        )
        .on("/api/v2/logs/analytics/aggregate", [needs(Records, post(aggregate::post))])
        .on("/weir/v1/fields", [needs(Records, get(complete::fields))])
        .on("/weir/v1/values", [needs(Records, get(complete::values))])
        .on("/weir/v1/facets", [needs(Records, get(facets::get))])
        .on("/weir/v1/context", [needs(Records, get(context::get))])
        .on("/weir/v1/path", [needs(Records, get(path::get))])
        .on("/weir/v1/patterns", [needs(Records, get(patterns::get))])
        .on("/weir/v1/export", [needs(Records, get(export::get))])
        .on("/weir/v1/store", [needs(Everything, get(report::get))])
        .on(
            "/weir/v1/store/deletions",
            [
                needs(Everything, get(deletions::get)),
                needs(Operate(deletions::ONLY_LOCAL), post(deletions::post)),
            ],
        )
        .on(
            "/weir/v1/store/deletions/{id}",
            [needs(Operate(deletions::ONLY_LOCAL), delete(deletions::cancel))],
        )
        .with_body_max(limits::BODY_BYTES_MAX)
        .compressed()
}
