//! `/weir/v1/tail`: live tail of records as server-sent events.
//!
//! Events: `row` (one record as JSON, with the `id` that it has in the store), `gap` (`records`
//! were missed), `stat` (once a second while records match: `matched`, `shown`, `skipped`,
//! `sample_ratio`, `missed`), `end` (the reason for the end). Rows are numbered over all records
//! that match, shown or not, so a gap in the numbers is exactly what was skipped.
//!
//! Invariants: a slow or absent reader costs a bounded amount of memory for a bounded time, and
//! blocks nothing; what it misses is counted; a reader that reconnects with `Last-Event-ID` within
//! [`sessions::SESSION_LIFETIME`] continues after that row, if it may still see the same records;
//! one whose token is from UAA must reconnect from time to time.

mod sampler;
mod session;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::channel::Channel;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_expr::CompileError;
use weir_pipeline::live::{LiveError, LiveTail};

use crate::access::Requester;
use crate::explore::parameters;
use crate::problem::Problem;
use crate::response::{events, invalid_expression, problem, starting};
use crate::state::ApiState;
use session::Session;
pub(crate) use sessions::Sessions;

/// Default number of rows per second.
const ROWS_PER_SECOND: u32 = 500;

/// Maximum number of rows per second that a reader may request, and that all readers together
/// receive: writing them takes about a third of a processor.
const ROWS_PER_SECOND_MAX: u32 = 100_000;

/// Chunks that may wait for a reader's connection; each has at most the rows of one batch.
const CHUNKS_WAITING: usize = 2;

/// Whether a connection carries a stream of events, which may go on forever.
#[derive(Debug, Clone, Default)]
pub(crate) struct IsLive(Arc<AtomicBool>);

impl IsLive {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Parameters of a live tail.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TailQuery {
    /// An expression; if empty, every record.
    #[serde(default)]
    query: String,
    /// Maximum rows per second; above it, a uniform sample is sent.
    #[serde(default)]
    max_rate: Option<u32>,
}

/// Live tail of records as server-sent events, until the client disconnects or weir stops
///
/// With `Last-Event-ID` it continues after that row. The `id` in the data of a row is that of the
/// record, as a search returns it once the record is stored.
#[utoipa::path(
    get, path = "/weir/v1/tail", tag = "search", params(TailQuery),
    responses(
        (status = 200, description = "Events `row`, `gap`, `stat` and `end`",
         content_type = "text/event-stream", body = String),
        (status = 503, description = "The maximum number of live tails was reached, or the memory \
                                      for their regular expressions is exhausted"),
    )
)]
pub(crate) async fn tail(
    State(state): State<Arc<ApiState>>,
    Extension(is_live): Extension<IsLive>,
    Extension(requester): Extension<Requester>,
    query: Result<Query<TailQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let params = match parameters(query) {
        Ok(params) => params,
        Err(problem) => return problem.into_response(),
    };
    let Some(permit) = state.tails.admit() else {
        let title = "the maximum number of live tails was reached (api.queries.tails_max); end \
                     one, or try again later";
        return unavailable(title);
    };
    let (session, first) = match session(&state, &requester, &params, &headers).await {
        Ok(begun) => begun,
        Err(refusal) => return refusal,
    };
    is_live.set();
    let (sender, body) = Channel::new(CHUNKS_WAITING);
    let stopped = state.stopped.clone();
    tokio::spawn(async move {
        session.run(sender, first, &requester, &state.tails, stopped).await;
        drop(permit);
    });
    events(Body::new(body))
}

fn unavailable(title: &str) -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, title)
}

/// The response if a valid expression cannot be compiled.
fn compile_problem(query: &str, error: &CompileError) -> Response {
    let problem = Problem::new(StatusCode::BAD_REQUEST, error.to_string());
    let CompileError::Regexp { pattern, .. } = error else {
        return problem.for_parameter("query").into_response();
    };
    match weir_expr::parse(query) {
        Ok(expr) => problem.for_regexp(pattern).with_span("query", query, &expr).into_response(),
        Err(error) => invalid_expression(&error),
    }
}

/// The session that the reader continues or a new one, and the events that it starts with.
async fn session(
    state: &Arc<ApiState>,
    requester: &Requester,
    params: &TailQuery,
    headers: &HeaderMap,
) -> Result<(Session, Vec<u8>), Response> {
    let max_rate = params.max_rate.unwrap_or(ROWS_PER_SECOND);
    if !(1..=ROWS_PER_SECOND_MAX).contains(&max_rate) {
        let what = format!("is {max_rate}; it must be from 1 to {ROWS_PER_SECOND_MAX}");
        return Err(Problem::parameter("max_rate", what).into_response());
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    if let Some(last) = last
        && let Some((id, seq)) = session::parse_id(last)
        && let Some(mut session) = state.tails.take(id).await
        && session.query == params.query
        && session.access == requester.access()
    {
        let first = session.resume(seq);
        return Ok((session, first));
    }
    let expression = weir_expr::parse(&params.query).map_err(|error| invalid_expression(&error))?;
    let expression = requester.restricted(expression);
    let view = state.view().ok_or_else(starting)?;
    // Compiling large expressions must not block others, nor take every processor.
    let _turn = state.tails.compiling().await;
    let joining = tokio::task::spawn_blocking(move || LiveTail::new(&view, &expression)).await;
    let tail = match joining {
        Ok(Ok(tail)) => tail,
        Ok(Err(LiveError::Expression(error))) => {
            return Err(compile_problem(&params.query, &error));
        }
        Ok(Err(error)) => {
            if matches!(error, LiveError::TooLargeTogether { .. }) {
                state.tails.count_refused();
            }
            return Err(unavailable(&error.to_string()));
        }
        Err(error) => return Err(unavailable(&error.to_string())),
    };
    let session = Session::new(&params.query, requester, tail, max_rate)
        .ok_or_else(|| unavailable("the system cannot provide random numbers"))?;
    let first = if last.is_some() { session::unknown_gap() } else { Vec::new() };
    Ok((session, first))
}
