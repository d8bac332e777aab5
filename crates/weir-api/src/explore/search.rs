//! `/api/v2/logs/events/search` and `/api/v2/logs/events`: records, page by page.
//!
//! Invariants: pages of one query do not overlap and omit nothing, even while records arrive: the
//! range is that of the first page; a cursor of another query is rejected.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_codec::percent_encoded;
use weir_expr::{CalculatedField, Field};
use weir_store::query::{Order, PageKey, SearchPage, SearchRequest};

use super::Kind;
use super::access::access;
use super::cursor::Cursor;
use super::limits::{PAGE_RECORDS, PAGE_RECORDS_MAX};
use super::meta::{Meta, NextPage, Warning, unit_symbol};
use super::question::{
    FilterBody, Names, OptionsBody, Question, Received, WeirOptions, body, bounded, measures_of,
    parameters,
};
use super::record::LogEntry;
use super::time::TimeText;
use super::words::object;
use crate::problem::{DatadogProblem, Problem};
use crate::routes::Shared;

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
    #[serde(rename = "weir.measures")]
    measures: Option<String>,
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
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    received: Received,
) -> Result<Response, DatadogProblem> {
    let asked: SearchBody = body(&headers, received)?;
    Ok(answer(&shared, &headers, asked, Names::BODY).await?)
}

/// Records in a range that match an expression, page by page
#[utoipa::path(
    get, path = "/api/v2/logs/events", tag = "search", params(SearchQuery),
    responses((status = 200, description = "The records", body = SearchAnswer))
)]
pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Response, DatadogProblem> {
    let asked = parameters(query)?;
    let measures = measures_of(Names::ADDRESS.measures, asked.measures.as_deref())?;
    let indexes = asked.indexes.iter().flat_map(|list| list.split(',')).map(str::to_owned);
    let filter = FilterBody {
        query: asked.query,
        from: asked.from.map(TimeText::Text),
        to: asked.to.map(TimeText::Text),
        indexes: indexes.collect(),
        storage_tier: asked.storage_tier,
    };
    let asked = SearchBody {
        filter,
        sort: asked.sort,
        page: PageBody { limit: asked.limit, cursor: asked.cursor },
        options: OptionsBody::default(),
        weir: WeirOptions {
            measures,
            timeout: asked.timeout,
            details: asked.details,
            points: None,
        },
    };
    Ok(answer(&shared, &headers, asked, Names::ADDRESS).await?)
}

/// The same as `/api/v2/logs/events`
#[utoipa::path(
    get, path = "/api/v2/logs/events/search", tag = "search", params(SearchQuery),
    responses((status = 200, description = "The records", body = SearchAnswer))
)]
pub(crate) async fn get_in_place(
    state: State<Arc<Shared>>,
    headers: HeaderMap,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Response, DatadogProblem> {
    get(state, headers, query).await
}

async fn answer(
    shared: &Shared,
    headers: &HeaderMap,
    asked: SearchBody,
    names: Names,
) -> Result<Response, Problem> {
    let mut arrival = shared.explore.arrival();
    let zone = asked.options.zone()?;
    let question = Question::new(names, &asked.filter, &asked.weir.measures).in_zone(zone);
    let mut filter = question.filter(arrival.now_ns(), access(headers))?;
    arrival.look_at(&question.query, &filter.query);
    let hash = question.hash(&format!("search {:?}", asked.sort));
    let after = question.go_on(asked.page.cursor.as_deref(), hash, &mut filter)?;
    let range = filter.range;
    let limit = bounded(names.limit, asked.page.limit, PAGE_RECORDS, PAGE_RECORDS_MAX)?;
    let time = shared.explore.time(names.timeout, asked.weir.timeout.as_deref())?;
    let order = match asked.sort {
        Sort::Oldest => Order::OldestFirst,
        Sort::Newest => Order::NewestFirst,
    };
    let measures = shared.explore.measures(&filter.calculated_fields)?;
    let request = SearchRequest { filter, order, limit, after };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let document = move |page: SearchPage, mut meta: Meta| {
        meta.warnings.extend(asked.options.ignored().map(Warning::ignored));
        let after = |key: PageKey| Cursor { question: hash, range, key }.encode();
        let next = page.next.map(after);
        let links = next.as_deref().map(|next| Links { next: next_page(&asked, host, next) });
        meta.page = next.map(|after| NextPage { after });
        meta.weir.set_range(range);
        meta.weir.units =
            measures.iter().filter_map(|named| computed_unit(named, &measures)).collect();
        let details = asked.weir.details;
        let entry = |record| LogEntry::new(record, details, &measures);
        let data = page.records.into_iter().map(entry).collect();
        Ok(SearchAnswer { data, meta, links })
    };
    let ask =
        move |store: &dyn weir_store::query::LogStore, budget: &_| store.search(&request, budget);
    let asking = shared.explore.ask(Kind::Search, Some(time), arrival, ask, document).await;
    asking.map_err(|problem| question.placed(problem))
}

/// A calculated field as written, and its unit.
fn computed_unit(
    named: &CalculatedField,
    measures: &[CalculatedField],
) -> Option<(String, String)> {
    let field = Field::Attribute(named.path.clone());
    Some((format!("@{}", named.path), unit_symbol(&field, measures)?))
}

/// The URL of the next page.
fn next_page(asked: &SearchBody, host: Option<String>, cursor: &str) -> String {
    let mut address = host.map(|host| format!("http://{host}")).unwrap_or_default();
    address.push_str("/api/v2/logs/events?filter[query]=");
    address.push_str(&percent_encoded(&asked.filter.query));
    let mut add = |name: &str, value: &str| {
        address.extend(["&", name, "=", &percent_encoded(value)]);
    };
    for (name, time) in [("filter[from]", &asked.filter.from), ("filter[to]", &asked.filter.to)] {
        if let Some(time) = time {
            add(name, &time.to_string());
        }
    }
    if asked.sort == Sort::Oldest {
        add("sort", "timestamp");
    }
    if let Some(limit) = asked.page.limit {
        add("page[limit]", &limit.to_string());
    }
    if !asked.weir.measures.is_empty() {
        add("weir.measures", &serde_json::json!(asked.weir.measures).to_string());
    }
    if let Some(timeout) = &asked.weir.timeout {
        add("weir.timeout", timeout);
    }
    if asked.weir.details {
        add("weir.details", "true");
    }
    add("page[cursor]", cursor);
    address
}
