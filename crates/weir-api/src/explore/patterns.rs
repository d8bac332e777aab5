//! `/weir/v1/patterns`: common patterns of messages.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_store::query::{LogStore, Patterns, PatternsRequest};

use super::Kind;
use super::access::access;
use super::limits::{PATTERNS, PATTERNS_MAX};
use super::meta::{Meta, Warning};
use super::question::{Question, bounded, parameters};
use super::record::LogEntry;
use crate::problem::Problem;
use crate::routes::Shared;

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
    measures: Option<String>,
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
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Result<Query<PatternsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let asked = parameters(query)?;
    let mut arrival = shared.explore.arrival();
    let (from, to) = (asked.from.as_deref(), asked.to.as_deref());
    let question = Question::own(&asked.query, from, to, asked.measures.as_deref())?;
    let filter = question.filter(arrival.now_ns(), access(&headers))?;
    arrival.look_at(&question.query, &filter.query);
    let limit = bounded("limit", asked.limit, PATTERNS, PATTERNS_MAX)?;
    let time = shared.explore.time("timeout", asked.timeout.as_deref())?;
    let measures = shared.explore.measures(&filter.calculated_fields)?;
    let request = PatternsRequest { filter, limit };
    let document = move |answer: Patterns, mut meta: Meta| {
        meta.weir.matched = Some(answer.matched);
        meta.warnings.extend(answer.is_approximate.then(Warning::approximate));
        let all = answer.matched.max(1) as f64;
        let entry = |record| LogEntry::new(record, false, &measures);
        let entries = answer.patterns.into_iter().map(|pattern| PatternEntry {
            template: pattern.template,
            count: pattern.count,
            share: pattern.count as f64 / all,
            examples: pattern.examples.into_iter().map(entry).collect(),
        });
        Ok(PatternsAnswer { patterns: entries.collect(), meta })
    };
    let ask = move |store: &dyn LogStore, budget: &_| store.patterns(&request, budget);
    let asking = shared.explore.ask(Kind::Patterns, Some(time), arrival, ask, document).await;
    asking.map_err(|problem| question.placed(problem))
}
