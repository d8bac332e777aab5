//! `/api/v2/logs/events/search` and `/api/v2/logs/events`: records, page by page.
//!
//! Invariants: pages of one query do not overlap and omit nothing, even while records arrive: the
//! range is that of the first page; a cursor of another query is rejected.

use std::collections::BTreeMap;

use axum::http::header;
use weir_codec::percent_encoded;
use weir_expr::{CalculatedField, Field, Units};
use weir_store::query::{Order, PageKey, SearchPage, SearchRequest};

use super::cursor::Cursor;
use super::deserialize::object;
use super::limits::{PAGE_RECORDS, PAGE_RECORDS_MAX};
use super::meta::{NextPage, Warning, unit_symbol};
use super::prelude::*;
use super::query::{
    FilterBody, OptionsBody, ParameterNames, RequestBody, WeirOptions, body,
    parse_calculated_fields,
};
use super::record::LogEntry;
use super::time::TimeText;
use crate::problem::DatadogProblem;

/// Request for a page of records.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SearchBody {
    /// The records to return.
    #[serde(deserialize_with = "object")]
    filter: FilterBody,
    /// Sort order.
    sort: Sort,
    /// The page to return.
    #[serde(deserialize_with = "object")]
    page: PageBody,
    /// Time options.
    #[serde(deserialize_with = "object")]
    options: OptionsBody,
    /// Options specific to weir.
    #[serde(deserialize_with = "object")]
    weir: WeirOptions,
}

/// Sort order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) enum Sort {
    /// Oldest first.
    #[serde(rename = "timestamp")]
    Oldest,
    /// Newest first.
    #[default]
    #[serde(rename = "-timestamp")]
    Newest,
}

/// The page to return.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct PageBody {
    /// Number of records, at most 1000. Default: 10.
    limit: Option<usize>,
    /// `meta.page.after` of the previous page.
    cursor: Option<String>,
}

/// Request for a page of records, in a query string.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// An expression; if empty, every record.
    #[serde(rename = "filter[query]", default)]
    query: String,
    /// Start of the range (inclusive): `now-15m`, ISO 8601, or milliseconds since 1970. Default:
    /// `now-15m`.
    #[serde(rename = "filter[from]")]
    from: Option<String>,
    /// End of the range (exclusive). Default: `now`.
    #[serde(rename = "filter[to]")]
    to: Option<String>,
    /// Ignored: there is one index.
    #[serde(rename = "filter[indexes]")]
    indexes: Option<String>,
    /// Ignored: there is one storage tier.
    #[serde(rename = "filter[storage_tier]")]
    storage_tier: Option<String>,
    /// Sort order. Default: `-timestamp`.
    #[serde(default)]
    #[param(inline)]
    sort: Sort,
    /// `meta.page.after` of the previous page.
    #[serde(rename = "page[cursor]")]
    cursor: Option<String>,
    /// Number of records, at most 1000. Default: 10.
    #[serde(rename = "page[limit]")]
    limit: Option<usize>,
    /// Calculated fields: a JSON object from name to expression.
    #[serde(rename = "weir.calculated_fields")]
    calculated_fields: Option<String>,
    /// Deadline of the query, such as `5s`. Default: 1500ms.
    #[serde(rename = "weir.timeout")]
    timeout: Option<String>,
    /// Adds stream, position and exact time to each record.
    #[serde(rename = "weir.details", default)]
    details: bool,
}

/// A page of records.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SearchAnswer {
    /// The records, in order.
    pub data: Vec<LogEntry>,
    /// Information about the answer.
    pub meta: Meta,
    /// Link to the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Links>,
}

/// Link to the next page.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Links {
    /// URL of the next page.
    pub next: String,
}

/// Records in a range that match an expression, page by page
///
/// For the next page set `page.cursor` to `meta.page.after` of the previous page, and leave
/// everything else unchanged.
#[utoipa::path(
    post, path = "/api/v2/logs/events/search", tag = "search",
    request_body = SearchBody,
    responses((status = 200, description = "The records", body = SearchAnswer))
)]
pub(crate) async fn post(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    received: RequestBody,
) -> Result<Response, DatadogProblem> {
    let params: SearchBody = body(&headers, received)?;
    Ok(answer(&state, &requester, &headers, params, ParameterNames::BODY).await?)
}

/// Records in a range that match an expression, page by page
#[utoipa::path(
    get, path = "/api/v2/logs/events", tag = "search", params(SearchQuery),
    responses((status = 200, description = "The records", body = SearchAnswer))
)]
pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Response, DatadogProblem> {
    let params = parameters(query)?;
    let calculated_fields = parse_calculated_fields(
        ParameterNames::DATADOG.calculated_fields,
        params.calculated_fields.as_deref(),
    )?;
    let indexes = params.indexes.iter().flat_map(|list| list.split(',')).map(str::to_owned);
    let filter = FilterBody {
        query: params.query,
        from: params.from.map(TimeText::Text),
        to: params.to.map(TimeText::Text),
        indexes: indexes.collect(),
        storage_tier: params.storage_tier,
    };
    let params = SearchBody {
        filter,
        sort: params.sort,
        page: PageBody { limit: params.limit, cursor: params.cursor },
        options: OptionsBody::default(),
        weir: WeirOptions {
            calculated_fields,
            timeout: params.timeout,
            details: params.details,
            points: None,
        },
    };
    Ok(answer(&state, &requester, &headers, params, ParameterNames::DATADOG).await?)
}

/// The same as `/api/v2/logs/events`
#[utoipa::path(
    get, path = "/api/v2/logs/events/search", tag = "search", params(SearchQuery),
    responses((status = 200, description = "The records", body = SearchAnswer))
)]
pub(crate) async fn get_in_place(
    state: State<Arc<ApiState>>,
    requester: Extension<Requester>,
    headers: HeaderMap,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Response, DatadogProblem> {
    get(state, requester, headers, query).await
}

async fn answer(
    state: &ApiState,
    requester: &Requester,
    headers: &HeaderMap,
    params: SearchBody,
    names: ParameterNames,
) -> Result<Response, Problem> {
    let mut request_context = state.explore.request_context();
    let zone = params.options.zone()?;
    let spec =
        QuerySpec::new(names, &params.filter, &params.weir.calculated_fields).with_zone(zone);
    let mut filter = spec.filter(request_context.now_ns(), requester.access())?;
    request_context.lint(&spec.query, &filter.query);
    let hash = spec.hash(&format!("search {:?}", params.sort));
    let after = spec.resume_from(params.page.cursor.as_deref(), hash, &mut filter)?;
    let range = filter.range;
    let limit = bounded(names.limit, params.page.limit, PAGE_RECORDS, PAGE_RECORDS_MAX)?;
    let time = state.explore.deadline(names.timeout, params.weir.timeout.as_deref())?;
    let order = match params.sort {
        Sort::Oldest => Order::OldestFirst,
        Sort::Newest => Order::NewestFirst,
    };
    let calculated_fields = state.explore.calculated_fields(&filter.calculated_fields)?;
    let units = reported_units(&state.explore.units()?, &calculated_fields);
    let request = SearchRequest { filter, order, limit, after };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let document = move |page: SearchPage, mut meta: Meta| {
        meta.warnings.extend(params.options.ignored().map(Warning::ignored));
        let after = |key: PageKey| Cursor { query_hash: hash, range, key }.encode();
        let next = page.next.map(after);
        let links = next.as_deref().map(|next| Links { next: next_page(&params, host, next) });
        meta.page = next.map(|after| NextPage { after });
        meta.weir.set_range(range);
        meta.weir.units = units;
        let details = params.weir.details;
        let entry = |record| LogEntry::new(record, details, &calculated_fields);
        let data = page.records.into_iter().map(entry).collect();
        Ok(SearchAnswer { data, meta, links })
    };
    let run = move |store: &dyn LogStore, budget: &_| store.search(&request, budget);
    let answer = state
        .explore
        .run_query(QueryKind::Search, Some(time), request_context, run, document)
        .await;
    answer.map_err(|problem| spec.with_span(problem))
}

/// Units that the names of attributes do not tell: those of calculated fields, and declared ones.
fn reported_units(
    units: &Units,
    calculated_fields: &[CalculatedField],
) -> BTreeMap<String, String> {
    let computed = calculated_fields.iter().map(|calculated| &calculated.path);
    let unit = |path: &String| {
        let field = Field::Attribute(path.clone());
        Some((format!("@{path}"), unit_symbol(&field, units, calculated_fields)?))
    };
    units.declared().keys().chain(computed).filter_map(unit).collect()
}

/// The URL of the next page.
fn next_page(params: &SearchBody, host: Option<String>, cursor: &str) -> String {
    let mut address = host.map(|host| format!("http://{host}")).unwrap_or_default();
    address.push_str("/api/v2/logs/events?filter[query]=");
    address.push_str(&percent_encoded(&params.filter.query));
    let mut add = |name: &str, value: &str| {
        address.extend(["&", name, "=", &percent_encoded(value)]);
    };
    for (name, time) in [("filter[from]", &params.filter.from), ("filter[to]", &params.filter.to)] {
        if let Some(time) = time {
            add(name, &time.to_string());
        }
    }
    if params.sort == Sort::Oldest {
        add("sort", "timestamp");
    }
    if let Some(limit) = params.page.limit {
        add("page[limit]", &limit.to_string());
    }
    if !params.weir.calculated_fields.is_empty() {
        add(
            "weir.calculated_fields",
            &serde_json::json!(params.weir.calculated_fields).to_string(),
        );
    }
    if let Some(timeout) = &params.weir.timeout {
        add("weir.timeout", timeout);
    }
    if params.weir.details {
        add("weir.details", "true");
    }
    add("page[cursor]", cursor);
    address
}
