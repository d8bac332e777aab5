//! `/weir/v1/facets`: what fields records have, with their most common values.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_expr::{Field, NamedMeasure};
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

/// Fields with their values are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FacetsQuery {
    /// An expression; empty: every record.
    #[serde(default)]
    query: String,
    /// Which fields, with commas between them. Default: those that most records have.
    fields: Option<String>,
    /// The first time. Default: `now-15m`.
    from: Option<String>,
    /// Behind the last time. Default: `now`.
    to: Option<String>,
    /// How many fields at most. Default: 20.
    limit: Option<usize>,
    /// How many values of each at most. Default: 5.
    values: Option<usize>,
    /// Attributes that are computed: a JSON object from name to measure.
    measures: Option<String>,
    /// How long it may take. Default: 1500ms.
    timeout: Option<String>,
}

/// Fields of records, with their values.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FacetsAnswer {
    /// Those that most records have first.
    pub facets: Vec<FacetEntry>,
    /// How many fields the records have beside, as far as they were looked at: 200 of those that
    /// are common in the range.
    pub left_out: u64,
    /// What the answer says about itself; `weir.matched` counts the records.
    pub meta: Meta,
}

/// A field of some records.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FacetEntry {
    /// As it is written in an expression.
    pub name: String,
    /// `bool`, `number` or `text`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What its numbers measure, where that is known: `ns`, `us`, `ms`, `s` or `B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How many records have it.
    pub count: u64,
    /// How many values it has. Without it there are too many to count each: `values` are the most
    /// common ones then, with counts that may be too low, or none when hardly one comes twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct: Option<u64>,
    /// Those of most records first.
    pub values: Vec<ValueEntry>,
    /// The least, where values are numbers; in the unit of the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The greatest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl FacetEntry {
    fn new(facet: Facet, measures: &[NamedMeasure]) -> Self {
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

/// Fields that records have, those of most records first, with their most common values
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
    let measures = shared.explore.measures(&filter.measures)?;
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
        return Err(Problem::parameter("fields", format!("are more than {FACETS_MAX}")));
    }
    Ok(fields)
}
