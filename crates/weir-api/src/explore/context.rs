//! `/weir/v1/context`: the records before and after a record, in its stream.

use weir_store::query::{ContextRequest, RecordContext};

use super::cursor::decode_id;
use super::limits::{CONTEXT_RECORDS, CONTEXT_RECORDS_MAX};
use super::prelude::*;
use super::record::LogEntry;

/// Request for the context of a record.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContextQuery {
    /// The `id` of the record.
    id: String,
    /// Number of records before it, at most 1000. Default: 50.
    before: Option<usize>,
    /// Number of records after it, at most 1000. Default: 50.
    after: Option<usize>,
    /// Deadline of the query. Default: 1500ms.
    timeout: Option<String>,
}

/// A record and its neighbors, in the order of the stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ContextAnswer {
    /// The records before it.
    pub before: Vec<LogEntry>,
    /// The record.
    pub record: LogEntry,
    /// The records after it.
    pub after: Vec<LogEntry>,
    /// Information about the answer.
    pub meta: Meta,
}

/// The records before and after a record in its stream
///
/// The order is that of the stream, not of time.
#[utoipa::path(
    get, path = "/weir/v1/context", tag = "search", params(ContextQuery),
    responses(
        (status = 200, description = "The records", body = ContextAnswer),
        (status = 404, description = "The record does not exist, or the client may not read it"),
        (status = 503, description = "The record was not found, but the search was incomplete"),
    )
)]
pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    query: Result<Query<ContextQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let params = parameters(query)?;
    let id = decode_id(&params.id)
        .ok_or_else(|| Problem::parameter("id", "is not a valid record ID"))?;
    let count = |name: &str, number: Option<usize>| match number.unwrap_or(CONTEXT_RECORDS) {
        number if number <= CONTEXT_RECORDS_MAX => Ok(number),
        number => {
            let what = format!("is {number}; the maximum is {CONTEXT_RECORDS_MAX}");
            Err(Problem::parameter(name, what))
        }
    };
    let (before, after) = (count("before", params.before)?, count("after", params.after)?);
    let time = state.explore.deadline("timeout", params.timeout.as_deref())?;
    let request = ContextRequest { id, before, after, access: requester.access() };
    let calculated_fields = state.explore.calculated_fields(&[])?;
    let document = move |context: Option<RecordContext>, meta| {
        let entry = |record| LogEntry::new(record, true, &calculated_fields);
        let context = context
            .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "the record no longer exists"))?;
        Ok(ContextAnswer {
            before: context.before.into_iter().map(entry).collect(),
            record: entry(context.record),
            after: context.after.into_iter().map(entry).collect(),
            meta,
        })
    };
    let run = move |store: &dyn LogStore, budget: &_| store.context(&request, budget);
    state
        .explore
        .run_query(QueryKind::Context, Some(time), state.explore.request_context(), run, document)
        .await
}
