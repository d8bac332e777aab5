//! `/weir/v1/store/deletions`: deletion of records from the store.
//!
//! Invariants: only operators can delete, or without access control clients on this machine (and
//! pages of other sites cannot: see [`crate::guard`]); what a deletion would hide can be counted
//! first, by the same query over the same range.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use weir_expr::{Expr, parse};
use weir_host::Zone;
use weir_store::query::{
    Aggregate, AggregateRequest, Aggregation, CancelError, Compute, ComputeValue, DeleteError,
    DeletionReport, DeletionRequest, Filter, QueryError, TimeRange,
};

use super::limits::{DEADLINE_MAX, DELETE_TIMEOUT};
use super::prelude::*;
use super::query::{RequestBody, body};
use super::record::precise_time;
use super::time::TimeText;

/// The title of the problem with a request from another machine, without access control.
pub(super) const ONLY_LOCAL: &str =
    "records can only be deleted from the machine that weir runs on";

/// Request for a deletion.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DeletionBody {
    /// An expression; `*` matches every record.
    query: String,
    /// Start of the range (inclusive). Default: no limit.
    from: Option<TimeText>,
    /// End of the range (exclusive). Default: no limit.
    to: Option<TimeText>,
    /// Only counts the records that would be hidden.
    dry_run: bool,
}

/// The result of a request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeletionAnswer {
    /// ID of the deletion; absent for a dry run.
    pub id: Option<u64>,
    /// The number of records that would be hidden; only for a dry run.
    pub records: Option<u64>,
    /// Information about the answer, including whether the count is incomplete.
    pub meta: Meta,
}

/// The requested deletions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeletionsAnswer {
    /// `weir.deletions.v1`.
    pub schema: String,
    /// The deletions, newest first; at most the last 256 finished ones.
    pub deletions: Vec<DeletionEntry>,
}

/// A deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletionEntry {
    /// Its id.
    pub id: u64,
    /// `pending`: its records are hidden, and may still be in files; `done`: they are no longer in
    /// any file; `cancelled`: records that were still in files at that time are visible again.
    pub status: String,
    /// The expression; removed once the deletion is done or cancelled.
    pub query: Option<String>,
    /// Start of the range (inclusive), RFC 3339; absent if there is no limit.
    pub from: Option<String>,
    /// End of the range (exclusive), RFC 3339; absent if there is no limit.
    pub to: Option<String>,
    /// Time of the request, RFC 3339.
    pub requested: String,
    /// When it was done or cancelled, RFC 3339.
    pub done: Option<String>,
    /// Number of records removed from files.
    pub records: u64,
    /// Number of segments that may still contain such records.
    pub segments_left: u64,
}

impl From<DeletionReport> for DeletionEntry {
    fn from(report: DeletionReport) -> Self {
        let TimeRange { from_ns, to_ns } = report.range;
        let time = |ns: i64, open: i64| (ns != open).then(|| precise_time(ns));
        Self {
            id: report.id,
            status: match report.done_ns {
                _ if report.is_cancelled => "cancelled",
                Some(_) => "done",
                None => "pending",
            }
            .to_owned(),
            query: report.query,
            from: time(from_ns, TimeRange::ALL.from_ns),
            to: time(to_ns, TimeRange::ALL.to_ns),
            requested: precise_time(report.requested_ns),
            done: report.done_ns.map(precise_time),
            records: report.rows,
            segments_left: report.segments_left,
        }
    }
}

/// The response for an error of a deletion request.
type Deleted = Result<u64, DeleteError>;

impl Answer for Deleted {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }
}

/// The response for an error of a cancellation.
type Cancelled = Result<DeletionReport, CancelError>;

impl Answer for Cancelled {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }
}

impl Answer for Vec<DeletionReport> {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }
}

/// The requested deletions and their progress
#[utoipa::path(
    get, path = "/weir/v1/store/deletions", tag = "store",
    responses((status = 200, description = "The deletions", body = DeletionsAnswer))
)]
pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
) -> Result<Response, Problem> {
    let access = requester.access();
    let run = move |store: &dyn LogStore, _budget: &_| Ok(store.deletions(&access));
    let document = |reports: Vec<DeletionReport>, _meta: Meta| {
        let deletions = reports.into_iter().map(DeletionEntry::from).collect();
        Ok(DeletionsAnswer { schema: "weir.deletions.v1".to_owned(), deletions })
    };
    let request_context = state.explore.request_context();
    state
        .explore
        .run_query(
            QueryKind::Complete,
            Some(state.explore.deadline),
            request_context,
            run,
            document,
        )
        .await
}

/// Deletes records
///
/// Records that match the expression and were received before the request are hidden from every
/// query that starts after the response, and removed from the files in the background. Removed
/// records cannot be restored, even if the deletion is cancelled. Only requests of operators are
/// accepted, without access control only from this machine, and only with a JSON body.
#[utoipa::path(
    post, path = "/weir/v1/store/deletions", tag = "store", request_body = DeletionBody,
    responses(
        (status = 200, description = "The records are durably hidden; or, for a dry run, the \
                                      number of records that would be",
            body = DeletionAnswer),
        (status = 403, description = "The sender may not delete records"),
        (status = 415, description = "The body was not sent as application/json"),
        (status = 503, description = "The store cannot write"),
    )
)]
pub(crate) async fn post(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    received: RequestBody,
) -> Result<Response, Problem> {
    let params: DeletionBody = body(&headers, received)?;
    let request_context = state.explore.request_context();
    let query = parse_query(&params)?;
    let range = parse_range(&params, request_context.now_ns())?;
    let access = requester.access();
    if params.dry_run {
        let filter = Filter { query, range, ..Filter::all(access) };
        let run = move |store: &dyn LogStore, budget: &_| count(store, filter, budget);
        let document = |answer: Aggregate, meta: Meta| {
            let value = answer.buckets.first().and_then(|bucket| bucket.computes.first());
            let records = match value {
                Some(ComputeValue::Count(count)) => *count,
                _ => 0,
            };
            Ok(DeletionAnswer { id: None, records: Some(records), meta })
        };
        return state
            .explore
            .run_query(QueryKind::Aggregate, Some(DEADLINE_MAX), request_context, run, document)
            .await;
    }
    let deletion = DeletionRequest { query, range, access };
    let run = move |store: &dyn LogStore, _budget: &_| Ok(store.delete(&deletion, DELETE_TIMEOUT));
    let document = |answer: Deleted, meta: Meta| match answer {
        Ok(id) => Ok(DeletionAnswer { id: Some(id), records: None, meta }),
        Err(error) => Err(delete_problem(&error)),
    };
    state.explore.run_query(QueryKind::Delete, None, request_context, run, document).await
}

/// Cancels a deletion
///
/// Records that have not been removed from the files yet are visible again for every query that
/// starts after the response; removed records are gone. Repeating the request has no effect. Only
/// requests of operators are accepted, without access control only from this machine.
#[utoipa::path(
    delete, path = "/weir/v1/store/deletions/{id}", tag = "store",
    params(("id" = u64, Path, description = "ID of the deletion")),
    responses(
        (status = 200, description = "The deletion is durably cancelled", body = DeletionEntry),
        (status = 403, description = "The sender may not delete records"),
        (status = 404, description = "There is no deletion with this ID"),
        (status = 409, description = "The deletion is done: there is nothing left to restore"),
        (status = 503, description = "The store cannot write"),
    )
)]
pub(crate) async fn cancel(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    id: Result<Path<u64>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(id) = id.map_err(|_| Problem::parameter("id", "is not a valid deletion ID"))?;
    let access = requester.access();
    let run = move |store: &dyn LogStore, _budget: &_| {
        Ok(store.cancel_deletion(id, &access, DELETE_TIMEOUT))
    };
    let document = |answer: Cancelled, _meta: Meta| match answer {
        Ok(report) => Ok(DeletionEntry::from(report)),
        Err(error) => Err(cancel_problem(error)),
    };
    state
        .explore
        .run_query(QueryKind::Delete, None, state.explore.request_context(), run, document)
        .await
}

fn cancel_problem(error: CancelError) -> Problem {
    let code = match error {
        CancelError::Unknown(_) => StatusCode::NOT_FOUND,
        CancelError::Done(_) => StatusCode::CONFLICT,
        CancelError::NotRunning | CancelError::Late | CancelError::Uncertain => {
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()).retry_after(5);
        }
    };
    Problem::new(code, error.to_string())
}

fn count(
    store: &dyn LogStore,
    filter: Filter,
    budget: &weir_store::query::Budget,
) -> Result<Aggregate, QueryError> {
    let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
    let (computes, group_by) = (vec![count], Vec::new());
    let request = AggregateRequest { filter, computes, group_by, zone: Zone::UTC };
    store.aggregate(&request, budget)
}

/// The records to delete. The expression is required, so that a forgotten parameter does not delete
/// everything.
fn parse_query(params: &DeletionBody) -> Result<Expr, Problem> {
    if params.query.trim().is_empty() {
        return Err(Problem::parameter("query", "is empty; use * for every record"));
    }
    parse(&params.query).map_err(|error| Problem::expression("query", &error))
}

fn parse_range(params: &DeletionBody, now_ns: i64) -> Result<TimeRange, Problem> {
    let time = |name: &str, text: &Option<TimeText>, open: i64| match text {
        Some(text) => {
            text.resolve(now_ns, &Zone::UTC).map_err(|error| Problem::parameter(name, error))
        }
        None => Ok(open),
    };
    let from_ns = time("from", &params.from, TimeRange::ALL.from_ns)?;
    let to_ns = time("to", &params.to, TimeRange::ALL.to_ns)?;
    let range = TimeRange { from_ns, to_ns };
    if range.is_empty() {
        let what = format!("{} must be before {}", precise_time(from_ns), precise_time(to_ns));
        return Err(Problem::parameter("from", what));
    }
    Ok(range)
}

fn delete_problem(error: &DeleteError) -> Problem {
    let code = match error {
        DeleteError::CalculatedField(_) | DeleteError::DeclaredUnit(_) => {
            return Problem::parameter("query", error);
        }
        DeleteError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        DeleteError::NotRunning | DeleteError::Late | DeleteError::Uncertain => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    Problem::new(code, error.to_string()).retry_after(5)
}
