//! `/weir/v1/facets`: the fields of records, with their most frequent values.

use weir_expr::{CalculatedField, Field, Units};
use weir_store::query::{Facet, Facets, FacetsRequest};

use super::complete::{ValueEntry, listed_field, type_name};
use super::limits::{FACET_VALUES, FACET_VALUES_MAX, FACETS, FACETS_MAX};
use super::meta::unit_symbol;
use super::prelude::*;
use super::record::json_value;

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
    calculated_fields: Option<String>,
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
    /// Unit of its numbers, if known: as in `units` of `meta.weir`.
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
    fn new(facet: Facet, units: &Units, calculated_fields: &[CalculatedField]) -> Self {
        let field = listed_field("fields", &facet.name).ok();
        let unit = field.and_then(|field| unit_symbol(&field, units, calculated_fields));
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
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    query: Result<Query<FacetsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let params = parameters(query)?;
    let mut request_context = state.explore.request_context();
    let (from, to) = (params.from.as_deref(), params.to.as_deref());
    let spec =
        QuerySpec::from_query_string(&params.query, from, to, params.calculated_fields.as_deref())?;
    let filter = spec.filter(request_context.now_ns(), requester.access())?;
    request_context.lint(&spec.query, &filter.query);
    let calculated_fields = state.explore.calculated_fields(&filter.calculated_fields)?;
    let units = state.explore.units()?;
    let fields = fields(params.fields.as_deref())?;
    let limit = bounded("limit", params.limit, FACETS, FACETS_MAX)?;
    let values = bounded("values", params.values, FACET_VALUES, FACET_VALUES_MAX)?;
    let time = state.explore.deadline("timeout", params.timeout.as_deref())?;
    let request = FacetsRequest { filter, fields, limit, values };
    let document = move |answer: Facets, mut meta: Meta| {
        meta.weir.matched = Some(answer.matched);
        let facets = answer
            .facets
            .into_iter()
            .map(|facet| FacetEntry::new(facet, &units, &calculated_fields))
            .collect();
        Ok(FacetsAnswer { facets, left_out: answer.left_out, meta })
    };
    let run = move |store: &dyn LogStore, budget: &_| store.facets(&request, budget);
    let answer = state
        .explore
        .run_query(QueryKind::Aggregate, Some(time), request_context, run, document)
        .await;
    answer.map_err(|problem| spec.with_span(problem))
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
