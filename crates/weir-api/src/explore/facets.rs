//! `/weir/v1/facets`: the fields of records, with their most frequent values.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_expr::{CalculatedField, Field};
use weir_store::query::{Facet, Facets, FacetsRequest, LogStore};

use super::Kind;
use super::access::access;
use super::complete::{ValueEntry, listed_field, type_name};
use super::limits::{FACET_VALUES, FACET_VALUES_MAX, FACETS, FACETS_MAX};
use super::meta::{Meta, unit_symbol};
use super::question::{Question, bounded, parameters};
use super::record::json_value;
use crate::problem::Problem;
use crate::routes::Shared;

/// Request for facets.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FacetsQuery {
    /// An expression; if empty, every record.
    #[serde(default)]
    query: String,
    /// Comma-separated list of fields. Default: the fields that most records have.
    fields: Option<String>,
    /// Start of the range (inclusive). Default: `now-15m`.
    from: Option<String>,
    /// End of the range (exclusive). Default: `now`.
    to: Option<String>,
    /// Maximum number of fields. Default: 20.
    limit: Option<usize>,
    /// Maximum number of values per field. Default: 5.
    values: Option<usize>,
    /// Calculated fields: a JSON object from name to expression.
    measures: Option<String>,
    /// Deadline of the query. Default: 1500ms.
    timeout: Option<String>,
}

/// Fields of records, with their values.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FacetsAnswer {
    /// The facets, by number of records, descending.
    pub facets: Vec<FacetEntry>,
    /// Number of further fields, as far as they were examined: of the common fields in the range,
    /// at most 200 are examined.
    pub left_out: u64,
    /// Information about the answer; `weir.matched` is the number of records.
    pub meta: Meta,
}

/// A field of the matching records.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FacetEntry {
    /// The field as written in an expression.
    pub name: String,
    /// `bool`, `number` or `text`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Unit of its numbers, if known: `ns`, `us`, `ms`, `s` or `B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Number of records that have it.
    pub count: u64,
    /// Number of distinct values. Absent if there are too many to count: then `values` are the most
    /// frequent ones, with counts that may be too low, or empty if hardly any value occurs twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct: Option<u64>,
    /// The values, most frequent first.
    pub values: Vec<ValueEntry>,
    /// The minimum, for numbers; in the unit of the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl FacetEntry {
    fn new(facet: Facet, measures: &[CalculatedField]) -> Self {
        let field = listed_field("fields", &facet.name).ok();
        let unit = field.and_then(|field| unit_symbol(&field, measures));
        let value = |(value, count)| ValueEntry { value: json_value(&value), count };
        Self {
            name: facet.name,
            unit,
            type_name: type_name(facet.value_type).to_owned(),
            count: facet.records,
            distinct: facet.distinct,
            values: facet.values.into_iter().map(value).collect(),
            min: facet.range.map(|(min, _)| min),
            max: facet.range.map(|(_, max)| max),
        }
    }
}

/// Fields of the matching records, by number of records, with their most frequent values
#[utoipa::path(
    get, path = "/weir/v1/facets", tag = "complete", params(FacetsQuery),
    responses((status = 200, description = "The fields with their values", body = FacetsAnswer))
)]
pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Result<Query<FacetsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let asked = parameters(query)?;
    let mut arrival = shared.explore.arrival();
    let (from, to) = (asked.from.as_deref(), asked.to.as_deref());
    let question = Question::own(&asked.query, from, to, asked.measures.as_deref())?;
    let filter = question.filter(arrival.now_ns(), access(&headers))?;
    arrival.look_at(&question.query, &filter.query);
    let measures = shared.explore.measures(&filter.calculated_fields)?;
    let fields = fields(asked.fields.as_deref())?;
    let limit = bounded("limit", asked.limit, FACETS, FACETS_MAX)?;
    let values = bounded("values", asked.values, FACET_VALUES, FACET_VALUES_MAX)?;
    let time = shared.explore.time("timeout", asked.timeout.as_deref())?;
    let request = FacetsRequest { filter, fields, limit, values };
    let document = move |answer: Facets, mut meta: Meta| {
        meta.weir.matched = Some(answer.matched);
        let facets =
            answer.facets.into_iter().map(|facet| FacetEntry::new(facet, &measures)).collect();
        Ok(FacetsAnswer { facets, left_out: answer.left_out, meta })
    };
    let ask = move |store: &dyn LogStore, budget: &_| store.facets(&request, budget);
    let asking = shared.explore.ask(Kind::Aggregate, Some(time), arrival, ask, document).await;
    asking.map_err(|problem| question.placed(problem))
}

fn fields(text: Option<&str>) -> Result<Vec<Field>, Problem> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let fields: Vec<Field> =
        text.split(',').map(|name| listed_field("fields", name)).collect::<Result<_, _>>()?;
    if fields.len() > FACETS_MAX {
        return Err(Problem::parameter("fields", format!("has more than {FACETS_MAX} items")));
    }
    Ok(fields)
}
