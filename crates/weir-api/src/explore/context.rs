//! `/weir/v1/context`: the records around one, in its stream.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_store::query::{ContextRequest, LogStore, RecordContext};

use super::Kind;
use super::access::access;
use super::cursor::decode_id;
use super::limits::{CONTEXT_RECORDS, CONTEXT_RECORDS_MAX};
use super::meta::Meta;
use super::question::parameters;
use super::record::LogEntry;
use crate::problem::Problem;
use crate::routes::Shared;

/// The records around one are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContextQuery {
    /// The `id` of the record.
    id: String,
    /// How many before it, at most 1000. Default: 50.
    before: Option<usize>,
    /// How many behind it, at most 1000. Default: 50.
    after: Option<usize>,
    /// How long it may take. Default: 1500ms.
    timeout: Option<String>,
}

/// A record and those around it in its stream, in the order of the stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ContextAnswer {
    /// Those before it.
    pub before: Vec<LogEntry>,
    /// The record.
    pub record: LogEntry,
    /// Those behind it.
    pub after: Vec<LogEntry>,
    /// What the answer says about itself.
    pub meta: Meta,
}

/// A record and those around it in its stream
///
/// The order is that of the stream, not of time.
#[utoipa::path(
    get, path = "/weir/v1/context", tag = "search", params(ContextQuery),
    responses(
        (status = 200, description = "The records", body = ContextAnswer),
        (status = 404, description = "There is no such record, or it may not be seen"),
        (status = 503, description = "It was not found, but may be where could not be looked in time, or at all"),
    )
)]
pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Result<Query<ContextQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let asked = parameters(query)?;
    let id = decode_id(&asked.id)
        .ok_or_else(|| Problem::parameter("id", "is no id that weir has given"))?;
    let count = |name: &str, number: Option<usize>| match number.unwrap_or(CONTEXT_RECORDS) {
        number if number <= CONTEXT_RECORDS_MAX => Ok(number),
        number => {
            let what = format!("is {number}; it must be at most {CONTEXT_RECORDS_MAX}");
            Err(Problem::parameter(name, what))
        }
    };
    let (before, after) = (count("before", asked.before)?, count("after", asked.after)?);
    let time = shared.explore.time("timeout", asked.timeout.as_deref())?;
    let request = ContextRequest { id, before, after, access: access(&headers) };
    let measures = shared.explore.measures(&[])?;
    let document = move |context: Option<RecordContext>, meta| {
        let entry = |record| LogEntry::new(record, true, &measures);
        let context = context.ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, "there is no such record any more")
        })?;
        Ok(ContextAnswer {
            before: context.before.into_iter().map(entry).collect(),
            record: entry(context.record),
            after: context.after.into_iter().map(entry).collect(),
            meta,
        })
    };
    let ask = move |store: &dyn LogStore, budget: &_| store.context(&request, budget);
    shared.explore.ask(Kind::Context, Some(time), shared.explore.arrival(), ask, document).await
}
