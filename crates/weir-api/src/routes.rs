//! The paths and their handlers.
//!
//! Invariants: every response except that of a live tail is complete before it is sent, and is
//! based on one reading of the books; an error is a problem document (RFC 9457) with a title that
//! describes it.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use weir_pipeline::health::Health;
use weir_pipeline::view::PipelineView;

pub(crate) use axum::Router;

use crate::explore::{self, Explore};
use crate::guard::{Names, guard};
use crate::ledger::LedgerDocument;
use crate::metrics;
use crate::page;
use crate::problem::{DatadogProblem, NO_STORE, Problem, problem};
use crate::rules::RulesDocument;
use crate::status::StatusDocument;
use crate::tail::{Sessions, tail};

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) version: &'static str,
    /// `None` until the pipeline has started; replaced by a reload.
    pub(crate) view: RwLock<Option<Arc<PipelineView>>>,
    pub(crate) reloads: Reloads,
    pub(crate) tails: Arc<Sessions>,
    pub(crate) explore: Explore,
    /// Set when the API ends.
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Results of configuration reloads.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) applied: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// The last one was refused.
    pub(crate) is_refused: AtomicBool,
}

impl Shared {
    pub(crate) fn view(&self) -> Option<Arc<PipelineView>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The paths of this file; the others are in [`explore::PATHS`].
const PATHS: [&str; 9] = [
    "/metrics",
    "/health",
    "/health/live",
    "/health/ready",
    "/weir/v1/ledger",
    "/weir/v1/rules",
    "/weir/v1/status",
    "/weir/v1/tail",
    "/weir/v1/openapi.json",
];

/// The routes.
pub(crate) fn router(shared: Arc<Shared>, names: Names) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/health", get(health))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/weir/v1/ledger", get(ledger))
        .route("/weir/v1/rules", get(rules))
        .route("/weir/v1/status", get(status))
        .route("/weir/v1/tail", get(tail))
        .route("/weir/v1/openapi.json", get(openapi))
        .merge(explore::routes())
        .merge(page::routes())
        .method_not_allowed_fallback(other_method)
        .fallback(not_found)
        .layer(from_fn_with_state(names, guard))
        .with_state(shared)
}

pub(crate) fn paths() -> Vec<&'static str> {
    PATHS.into_iter().chain(explore::PATHS).collect()
}

pub(crate) async fn index(State(shared): State<Arc<Shared>>) -> Response {
    json_response(
        StatusCode::OK,
        &json!({ "name": "weir", "version": shared.version, "paths": paths() }),
    )
}

/// Metrics
#[utoipa::path(
    get, path = "/metrics", tag = "figures",
    responses((status = 200, description = "Metrics in the Prometheus text \
                                            format", body = String, content_type = "text/plain"))
)]
pub(crate) async fn metrics_page(State(shared): State<Arc<Shared>>) -> Response {
    let store = shared.explore.figures();
    let page = metrics::page(
        shared.version,
        shared.view().as_deref(),
        &shared.reloads,
        &shared.explore.admission,
        &shared.tails,
        store.as_ref(),
    );
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), NO_STORE], page)
        .into_response()
}

/// Health: whether everything works as configured, and the active problems
#[utoipa::path(
    get, path = "/health", tag = "health",
    responses((status = 200, description = "Everything works as configured"),
        (status = 503, description = "There are health problems, listed in the body"))
)]
pub(crate) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let health = current_health(&shared);
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
pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    health(State(shared)).await
}

/// The ledger: what was read, where it went, what was lost
#[utoipa::path(
    get, path = "/weir/v1/ledger", tag = "figures",
    responses((status = 200, description = "The ledger", body = LedgerDocument))
)]
pub(crate) async fn ledger(State(shared): State<Arc<Shared>>) -> Response {
    match shared.view() {
        Some(view) => json_response(StatusCode::OK, &LedgerDocument::of(&view)),
        None => starting(),
    }
}

/// Statistics for each rule
#[utoipa::path(
    get, path = "/weir/v1/rules", tag = "figures",
    responses((status = 200, description = "Statistics for each rule", body = RulesDocument))
)]
pub(crate) async fn rules(State(shared): State<Arc<Shared>>) -> Response {
    match shared.view() {
        Some(view) => json_response(StatusCode::OK, &RulesDocument::of(&view)),
        None => starting(),
    }
}

/// Current status of sources and outputs
#[utoipa::path(
    get, path = "/weir/v1/status", tag = "figures",
    responses((status = 200, description = "Status of sources and outputs", body = StatusDocument))
)]
pub(crate) async fn status(State(shared): State<Arc<Shared>>) -> Response {
    match shared.view() {
        Some(view) => json_response(StatusCode::OK, &StatusDocument::of(&view, shared.version)),
        None => starting(),
    }
}

/// This document
#[utoipa::path(
    get, path = "/weir/v1/openapi.json", tag = "figures",
    responses((status = 200, description = "The document"))
)]
pub(crate) async fn openapi() -> Response {
    json_response(StatusCode::OK, &crate::openapi::openapi())
}

fn current_health(shared: &Shared) -> Health {
    match shared.view() {
        Some(view) => view.health(),
        None => Health { status: "starting", live: true, ready: false, reasons: Vec::new() },
    }
}

pub(crate) fn starting() -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, "weir is starting: its journal is being recovered")
}

async fn other_method(method: Method, uri: Uri) -> Response {
    let allowed = match uri.path() {
        "/api/v2/logs/events/search" | "/weir/v1/store/deletions" => "GET, HEAD, POST",
        "/api/v2/logs/analytics/aggregate" => "POST",
        path if path.starts_with("/weir/v1/store/deletions/") => "DELETE",
        _ => "GET, HEAD",
    };
    let title = format!("{} only accepts {allowed}, not {method}", shown(&uri));
    let mut response = wrong_path(&uri, StatusCode::METHOD_NOT_ALLOWED, title);
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allowed));
    response
}

pub(crate) async fn not_found(uri: Uri) -> Response {
    let title = format!("{} does not exist; available paths: {}", shown(&uri), paths().join(", "));
    wrong_path(&uri, StatusCode::NOT_FOUND, title)
}

/// An error about a path or its method, in the format of neighboring paths.
fn wrong_path(uri: &Uri, code: StatusCode, title: String) -> Response {
    in_form_of(uri, Problem::new(code, title))
}

/// A problem in the format of the responses on its path.
pub(crate) fn in_form_of(uri: &Uri, problem: Problem) -> Response {
    if uri.path().starts_with("/api/") {
        DatadogProblem(problem).into_response()
    } else {
        problem.into_response()
    }
}

/// A path, truncated so that it fits on a line.
fn shown(uri: &Uri) -> String {
    uri.path().chars().take(80).collect()
}

fn json_response(code: StatusCode, document: &impl Serialize) -> Response {
    match serde_json::to_string(document) {
        Ok(text) => (code, [(header::CONTENT_TYPE, "application/json"), NO_STORE], text + "\n")
            .into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
