//! The paths and their handlers.
//!
//! Invariants: every response except a stream of events is complete before it is sent, and is
//! based on one reading of the books; an error is a problem document (RFC 9457) with a title that
//! describes it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde_json::json;
use weir_pipeline::health::Health;

use crate::access::Permission::{Everything, Public, Records, SignedIn};
use crate::access::{Requester, Routes, needs, session};
use crate::cursors;
use crate::drains;
use crate::explore;
use crate::guard::{AllowedHosts, guard};
use crate::ledger::LedgerDocument;
use crate::metrics;
use crate::page;
use crate::problem::Problem;
use crate::reliability;
use crate::response::{NO_STORE, json_response, json_text, problem, problem_for_path, starting};
use crate::rules::RulesDocument;
use crate::state::ApiState;
use crate::status::StatusDocument;
use crate::tail::tail;
use crate::topology;
use crate::views;

/// The paths of this file; the others are in [`explore::PATHS`].
const PATHS: [&str; 11] = [
    "/metrics",
    "/health",
    "/health/live",
    "/health/ready",
    "/weir/v1/ledger",
    "/weir/v1/rules",
    "/weir/v1/status",
    "/weir/v1/tail",
    "/weir/v1/topology",
    "/weir/v1/topology/stream",
    "/weir/v1/openapi.json",
];

/// The routes.
pub(crate) fn router(state: Arc<ApiState>, allowed_hosts: AllowedHosts) -> Router {
    Routes::default()
        .on("/", [needs(Public, get(index))])
        .on("/metrics", [needs(Everything, get(metrics_page))])
        .on("/health", [needs(Public, get(health))])
        .on("/health/live", [needs(Public, get(live))])
        .on("/health/ready", [needs(Public, get(ready))])
        .on("/weir/v1/ledger", [needs(Records, get(ledger))])
        .on("/weir/v1/rules", [needs(Everything, get(rules))])
        .on("/weir/v1/status", [needs(Everything, get(status))])
        .on("/weir/v1/tail", [needs(Records, get(tail))])
        .on("/weir/v1/topology", [needs(Everything, get(topology::get))])
        .on("/weir/v1/topology/stream", [needs(Everything, get(topology::stream::get))])
        .on("/weir/v1/openapi.json", [needs(SignedIn, get(openapi))])
        .merge(session::routes())
        .merge(cursors::routes())
        .merge(drains::routes())
        .merge(reliability::routes())
        .merge(views::routes())
        .merge(explore::routes())
        .merge(page::routes())
        .behind(state.gate.clone())
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(from_fn_with_state(allowed_hosts, guard))
        .with_state(state)
}

pub(crate) fn paths() -> Vec<&'static str> {
    PATHS
        .into_iter()
        .chain(session::PATHS)
        .chain(cursors::PATHS)
        .chain(drains::PATHS)
        .chain(reliability::PATHS)
        .chain(views::PATHS)
        .chain(explore::PATHS)
        .collect()
}

/// The page for browsers; for other clients the paths of the API.
async fn index(State(state): State<Arc<ApiState>>, headers: HeaderMap) -> Response {
    if page::is_wanted(&headers) {
        return page::screen(&headers);
    }
    // A client without a token is not told which release this is.
    let version = (!state.gate.is_closed()).then_some(state.version);
    json_response(StatusCode::OK, &json!({ "name": "weir", "version": version, "paths": paths() }))
}

/// Metrics
#[utoipa::path(
    get, path = "/metrics", tag = "metrics",
    responses((status = 200, description = "Metrics in the Prometheus text \
                                            format", body = String, content_type = "text/plain"))
)]
pub(crate) async fn metrics_page(State(state): State<Arc<ApiState>>) -> Response {
    let store = state.explore.store_metrics();
    let view = state.view();
    let mut page = metrics::render(&state, view.as_deref(), store.as_ref());
    if let Some(view) = view.filter(|_| state.has_originals.load(Ordering::Relaxed)) {
        page.push_str(&metrics::originals(&view));
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), NO_STORE], page)
        .into_response()
}

/// Health: whether everything works as configured, and the active problems
///
/// It needs no token. With access control the problems are not listed; they are part of
/// `/weir/v1/status`.
#[utoipa::path(
    get, path = "/health", tag = "health",
    responses((status = 200, description = "Everything works as configured"),
        (status = 503, description = "There are health problems, listed in the body"))
)]
pub(crate) async fn health(State(state): State<Arc<ApiState>>) -> Response {
    let health = current_health(&state);
    let code = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json_response(code, &health)
}

/// Liveness: whether the process responds, so that a restart would not help
#[utoipa::path(
    get, path = "/health/live", tag = "health",
    responses((status = 200, description = "The process responds"))
)]
pub(crate) async fn live() -> Response {
    json_response(StatusCode::OK, &json!({ "live": true }))
}

/// The same as `/health`
#[utoipa::path(
    get, path = "/health/ready", tag = "health",
    responses((status = 200, description = "Everything works as configured"),
        (status = 503, description = "There are health problems, listed in the body"))
)]
pub(crate) async fn ready(State(state): State<Arc<ApiState>>) -> Response {
    health(State(state)).await
}

/// The ledger: what was read, where it went, what was lost
///
/// For developers: the drains, readers and exceeded rate limits of their applications.
#[utoipa::path(
    get, path = "/weir/v1/ledger", tag = "status",
    responses((status = 200, description = "The ledger", body = LedgerDocument))
)]
pub(crate) async fn ledger(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
) -> Response {
    match state.view() {
        Some(view) => {
            json_response(StatusCode::OK, &LedgerDocument::of_requester(&view, &requester))
        }
        None => starting(),
    }
}

/// Statistics for each rule
#[utoipa::path(
    get, path = "/weir/v1/rules", tag = "status",
    responses((status = 200, description = "Statistics for each rule", body = RulesDocument))
)]
pub(crate) async fn rules(State(state): State<Arc<ApiState>>) -> Response {
    match state.view() {
        Some(view) => json_response(StatusCode::OK, &RulesDocument::of(&view)),
        None => starting(),
    }
}

/// Current status of sources and outputs
#[utoipa::path(
    get, path = "/weir/v1/status", tag = "status",
    responses((status = 200, description = "Status of sources and outputs", body = StatusDocument))
)]
pub(crate) async fn status(State(state): State<Arc<ApiState>>) -> Response {
    match state.view() {
        Some(view) => json_response(StatusCode::OK, &StatusDocument::of(&view, state.version)),
        None => starting(),
    }
}

/// This document
#[utoipa::path(
    get, path = "/weir/v1/openapi.json", tag = "openapi",
    responses((status = 200, description = "The document"))
)]
pub(crate) async fn openapi() -> Response {
    /// It is the same for every request, and takes milliseconds to create.
    static DOCUMENT: LazyLock<Option<String>> =
        LazyLock::new(|| serde_json::to_string(&crate::openapi::openapi()).ok());
    match &*DOCUMENT {
        Some(text) => json_text(StatusCode::OK, text.clone()),
        None => problem(StatusCode::INTERNAL_SERVER_ERROR, "the response cannot be serialized"),
    }
}

/// The health; with access control without the problems, which name components and destinations.
fn current_health(state: &ApiState) -> Health {
    let health = match state.view() {
        Some(view) => view.health(),
        None => Health { status: "starting", live: true, ready: false, reasons: Vec::new() },
    };
    let reasons = if state.gate.is_closed() { Vec::new() } else { health.reasons };
    Health { reasons, ..health }
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let allowed = match uri.path() {
        "/api/v2/logs/events/search" | "/weir/v1/store/deletions" | "/weir/v1/drains" => {
            "GET, HEAD, POST"
        }
        "/api/v2/logs/analytics/aggregate" => "POST",
        path if path.starts_with("/weir/v1/drains/") => {
            let is_action = path.trim_start_matches("/weir/v1/drains/").contains('/');
            if is_action { "POST" } else { "DELETE" }
        }
        path if path.starts_with("/weir/v1/store/deletions/") => "DELETE",
        path if path.starts_with("/weir/v1/cursors/") => "DELETE",
        path if path.starts_with("/weir/v1/views/") => "DELETE, PUT",
        "/weir/v1/queries" => "DELETE, POST",
        "/weir/v1/session" => "DELETE, GET, HEAD, POST",
        _ => "GET, HEAD",
    };
    let title = format!("{} only accepts {allowed}, not {method}", truncated_path(&uri));
    let mut response = path_problem(&uri, StatusCode::METHOD_NOT_ALLOWED, title);
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allowed));
    response
}

async fn not_found(uri: Uri) -> Response {
    let title =
        format!("{} does not exist; available paths: {}", truncated_path(&uri), paths().join(", "));
    path_problem(&uri, StatusCode::NOT_FOUND, title)
}

/// An error about a path or its method, in the format of neighboring paths.
fn path_problem(uri: &Uri, code: StatusCode, title: String) -> Response {
    problem_for_path(uri, Problem::new(code, title))
}

/// A path, truncated so that it fits on a line.
fn truncated_path(uri: &Uri) -> String {
    uri.path().chars().take(80).collect()
}
