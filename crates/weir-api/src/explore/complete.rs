//! `/weir/v1/fields` and `/weir/v1/values`: completions while a query is being typed.

use serde_json::Value;
use weir_expr::{Expr, ExprKind, Field, Glob, Piece, Test};
use weir_host::Zone;
use weir_store::query::{
    Aggregate, AggregateRequest, Aggregation, Compute, ComputeValue, FieldInfo, FieldList, GroupBy,
    GroupKey, ValueType,
};

use super::limits::{COMPLETIONS, COMPLETIONS_MAX};
use super::meta::Warning;
use super::prelude::*;
use super::query::field;
use super::record::json_value;

/// Request for fields.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FieldsQuery {
    /// Prefix of the names, such as `@http.`; case-insensitive.
    #[serde(default)]
    prefix: String,
    /// Start of the range (inclusive). Default: `now-15m`.
    from: Option<String>,
    /// End of the range (exclusive). Default: `now`.
    to: Option<String>,
    /// Maximum number of fields. Default: 20.
    limit: Option<usize>,
    /// Deadline of the query. Default: 1500ms.
    timeout: Option<String>,
}

/// Fields of records.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FieldsAnswer {
    /// The fields, most common first.
    pub fields: Vec<FieldEntry>,
    /// Information about the answer.
    pub meta: Meta,
}

/// A field of records.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FieldEntry {
    /// The field as written in an expression.
    pub name: String,
    /// `bool`, `number` or `text`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Number of row groups of segments, and of chunks not yet in a segment, in which it has
    /// values.
    pub parts: u64,
}

/// Fields of the records in a range, most common first
#[utoipa::path(
    get, path = "/weir/v1/fields", tag = "complete", params(FieldsQuery),
    responses((status = 200, description = "The fields", body = FieldsAnswer))
)]
pub(crate) async fn fields(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    query: Result<Query<FieldsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let params = parameters(query)?;
    let request_context = state.explore.request_context();
    let spec =
        QuerySpec::from_query_string("", params.from.as_deref(), params.to.as_deref(), None)?;
    let filter = spec.filter(request_context.now_ns(), requester.access())?;
    let limit = bounded("limit", params.limit, COMPLETIONS, COMPLETIONS_MAX)?;
    let time = state.explore.deadline("timeout", params.timeout.as_deref())?;
    let prefix = params.prefix.to_lowercase();
    let document = move |list: FieldList, meta| {
        let fields = list.fields.into_iter().filter(|field| {
            let name = field.name.to_lowercase();
            name.starts_with(&prefix)
                || name.strip_prefix('@').is_some_and(|n| n.starts_with(&prefix))
        });
        Ok(FieldsAnswer { fields: fields.take(limit).map(entry).collect(), meta })
    };
    let run =
        move |store: &dyn LogStore, budget: &_| store.fields(filter.range, &filter.access, budget);
    state.explore.run_query(QueryKind::Complete, Some(time), request_context, run, document).await
}

fn entry(field: FieldInfo) -> FieldEntry {
    let type_name = type_name(field.value_type).to_owned();
    FieldEntry { name: field.name, type_name, parts: field.parts }
}

/// The type of a field's values, as named in answers.
pub(super) fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Bool => "bool",
        ValueType::Number => "number",
        ValueType::Text => "text",
    }
}

/// A field whose values can be listed.
pub(super) fn listed_field(name: &str, text: &str) -> Result<Field, Problem> {
    match field(name, text)? {
        Field::Message => Err(Problem::parameter(
            name,
            "values of message cannot be listed; search for words in it",
        )),
        field => Ok(field),
    }
}

/// Request for values of a field.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ValuesQuery {
    /// The field, such as `service` or `@http.status_code`.
    field: String,
    /// Prefix of the values.
    #[serde(default)]
    prefix: String,
    /// An expression that selects the records. Default: all.
    #[serde(default)]
    query: String,
    /// Start of the range (inclusive). Default: `now-15m`.
    from: Option<String>,
    /// End of the range (exclusive). Default: `now`.
    to: Option<String>,
    /// Maximum number of values. Default: 20.
    limit: Option<usize>,
    /// Calculated fields: a JSON object from name to expression.
    calculated_fields: Option<String>,
    /// Deadline of the query. Default: 1500ms.
    timeout: Option<String>,
}

/// Values of a field.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ValuesAnswer {
    /// The values, most frequent first.
    pub values: Vec<ValueEntry>,
    /// Information about the answer.
    pub meta: Meta,
}

/// A value of a field.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ValueEntry {
    /// The value.
    pub value: Value,
    /// Number of records with this value.
    pub count: u64,
}

/// Values of a field, most frequent first
#[utoipa::path(
    get, path = "/weir/v1/values", tag = "complete", params(ValuesQuery),
    responses((status = 200, description = "The values", body = ValuesAnswer))
)]
pub(crate) async fn values(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    query: Result<Query<ValuesQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let params = parameters(query)?;
    let request_context = state.explore.request_context();
    let (from, to) = (params.from.as_deref(), params.to.as_deref());
    let spec =
        QuerySpec::from_query_string(&params.query, from, to, params.calculated_fields.as_deref())?;
    let mut filter = spec.filter(request_context.now_ns(), requester.access())?;
    let _can_be_computed = state.explore.calculated_fields(&filter.calculated_fields)?;
    let field = listed_field("field", &params.field)?;
    let limit = bounded("limit", params.limit, COMPLETIONS, COMPLETIONS_MAX)?;
    let time = state.explore.deadline("timeout", params.timeout.as_deref())?;
    if !params.prefix.is_empty() {
        let glob = Glob::new([Piece::Text(params.prefix.clone()), Piece::Any]);
        let begins = Expr::term(field.clone(), Test::Glob(glob));
        filter.query = Expr::new(ExprKind::And(vec![filter.query, begins]));
    }
    let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
    let group_by = vec![GroupBy::top(field, limit)];
    let request = AggregateRequest { filter, computes: vec![count], group_by, zone: Zone::UTC };
    let prefix = params.prefix;
    let document = move |aggregate: Aggregate, mut meta: Meta| {
        meta.warnings.extend(aggregate.is_approximate.then(Warning::approximate));
        meta.weir.matched = Some(aggregate.matched);
        let entries = aggregate.buckets.iter().filter_map(|bucket| {
            match (bucket.by.first()?, bucket.computes.first()?) {
                (GroupKey::Value(value), ComputeValue::Count(count)) => {
                    Some(ValueEntry { value: json_value(value), count: *count })
                }
                _ => None,
            }
        });
        // A record with several values also has values that do not start with the prefix.
        let values = entries.filter(|entry| begins_with(&entry.value, &prefix)).collect();
        Ok(ValuesAnswer { values, meta })
    };
    let run = move |store: &dyn LogStore, budget: &_| store.aggregate(&request, budget);
    state.explore.run_query(QueryKind::Complete, Some(time), request_context, run, document).await
}

fn begins_with(value: &Value, prefix: &str) -> bool {
    match value {
        Value::String(text) => text.starts_with(prefix),
        value => value.to_string().starts_with(prefix),
    }
}
