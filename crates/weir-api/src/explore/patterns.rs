//! `/weir/v1/patterns`: common patterns of messages.

use weir_store::query::{Patterns, PatternsRequest};

use super::limits::{PATTERNS, PATTERNS_MAX};
use super::meta::Warning;
use super::prelude::*;
use super::record::LogEntry;

/// Request for patterns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PatternsQuery {
    /// An expression; if empty, every record.
    #[serde(default)]
    query: String,
    /// Start of the range (inclusive). Default: `now-15m`.
    from: Option<String>,
    /// End of the range (exclusive). Default: `now`.
    to: Option<String>,
    /// Maximum number of patterns. Default: 50.
    limit: Option<usize>,
    /// Calculated fields: a JSON object from name to expression.
    calculated_fields: Option<String>,
    /// Deadline of the query. Default: 1500ms.
    timeout: Option<String>,
}

/// Common patterns of messages.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PatternsAnswer {
    /// The patterns, by number of records, descending.
    pub patterns: Vec<PatternEntry>,
    /// Information about the answer; `weir.matched` is the number of records of all patterns.
    pub meta: Meta,
}

/// Messages that differ only in numbers and identifiers.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PatternEntry {
    /// The common words, with `*` for the parts that differ.
    pub template: String,
    /// Number of records.
    pub count: u64,
    /// Share of all matching records, 0 to 1.
    pub share: f64,
    /// Example records.
    pub examples: Vec<LogEntry>,
}

/// Common patterns of messages, by number of records
#[utoipa::path(
    get, path = "/weir/v1/patterns", tag = "search", params(PatternsQuery),
    responses((status = 200, description = "The patterns", body = PatternsAnswer))
)]
pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    query: Result<Query<PatternsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let params = parameters(query)?;
    let mut request_context = state.explore.request_context();
    let (from, to) = (params.from.as_deref(), params.to.as_deref());
    let spec =
        QuerySpec::from_query_string(&params.query, from, to, params.calculated_fields.as_deref())?;
    let filter = spec.filter(request_context.now_ns(), requester.access())?;
    request_context.lint(&spec.query, &filter.query);
    let limit = bounded("limit", params.limit, PATTERNS, PATTERNS_MAX)?;
    let time = state.explore.deadline("timeout", params.timeout.as_deref())?;
    let calculated_fields = state.explore.calculated_fields(&filter.calculated_fields)?;
    let request = PatternsRequest { filter, limit };
    let document = move |answer: Patterns, mut meta: Meta| {
        meta.weir.matched = Some(answer.matched);
        meta.warnings.extend(answer.is_approximate.then(Warning::approximate));
        let all = answer.matched.max(1) as f64;
        let entry = |record| LogEntry::new(record, false, &calculated_fields);
        let entries = answer.patterns.into_iter().map(|pattern| PatternEntry {
            template: pattern.template,
            count: pattern.count,
            share: pattern.count as f64 / all,
            examples: pattern.examples.into_iter().map(entry).collect(),
        });
        Ok(PatternsAnswer { patterns: entries.collect(), meta })
    };
    let run = move |store: &dyn LogStore, budget: &_| store.patterns(&request, budget);
    let answer = state
        .explore
        .run_query(QueryKind::Patterns, Some(time), request_context, run, document)
        .await;
    answer.map_err(|problem| spec.with_span(problem))
}
