//! Drains: their state, and changes by an operator.
//!
//! Invariants: a response contains neither the credentials nor the query of a URL; developers see
//! the drains of their applications alone; a change is saved before it is acknowledged; only
//! operators can make one, or without access control clients on this machine, since a drain may
//! send all records anywhere.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_pipeline::drain::{DrainChangeError, DrainStatus, Drains, StoredDrain};
use weir_pipeline::view::PipelineView;

use crate::access::Permission::{Change, Operate, Records};
use crate::access::{Permission, Requester, Routes, needs};
use crate::ledger::{ByReason, discarded};
use crate::problem::Problem;
use crate::response::{json_response, problem, starting};
use crate::state::ApiState;

/// The title of the problem with a change from another machine, without access control.
const ONLY_LOCAL: &str = "drains can only be changed from the machine that weir runs on";

/// The paths.
pub(crate) const PATHS: [&str; 5] = [
    "/weir/v1/drains",
    "/weir/v1/drains/{id}",
    "/weir/v1/drains/{id}/pause",
    "/weir/v1/drains/{id}/resume",
    "/weir/v1/drains/{id}/test",
];

/// The routes.
pub(crate) fn routes() -> Routes {
    const OPERATE: Permission = Operate(ONLY_LOCAL);
    Routes::default()
        .on("/weir/v1/drains", [needs(Records, get(list)), needs(OPERATE, post(add))])
        .on("/weir/v1/drains/{id}", [needs(OPERATE, delete(remove))])
        .on("/weir/v1/drains/{id}/pause", [needs(OPERATE, post(pause))])
        .on("/weir/v1/drains/{id}/resume", [needs(OPERATE, post(resume))])
        .on("/weir/v1/drains/{id}/test", [needs(Change, post(test))])
}

/// All drains.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DrainsDocument {
    /// `weir.drains.v1`.
    pub schema: String,
    /// When it was read, nanoseconds since 1970, for computing rates.
    pub time_unix_ns: i64,
    /// The drains, by what they select; for developers, those of their applications.
    pub drains: Vec<DrainEntry>,
    /// The servers from which drains are obtained; for developers, none.
    pub providers: Vec<DrainProviderEntry>,
    /// Whether every book balances.
    pub balanced: bool,
}

/// A drain.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DrainEntry {
    /// Its id.
    pub id: String,
    /// Where it is defined: `config`, `added`, `binding_cache` or `cloud_controller`.
    pub origin: String,
    /// Which records it receives.
    pub selects: String,
    /// Its URL, without user and query.
    pub url: String,
    /// `idle`, `sending`, `lagging`, `failing` or `paused`.
    pub state: String,
    /// Why it fails.
    pub error: Option<String>,
    /// How long it has been failing, seconds.
    pub failing_seconds: f64,
    /// Age of its oldest waiting record, seconds: 0 if none waits, and `null` if it is not known,
    /// since an earlier run has left the records and none was read yet.
    pub lag_seconds: Option<f64>,
    /// Its counts since it was added, over all starts.
    pub book: DrainCounts,
    /// 0 when the book balances.
    pub unaccounted: i64,
}

/// `routed = delivered + discarded + waiting`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct DrainCounts {
    /// Records that were routed to the drain.
    pub routed: u64,
    /// Records that its destination has accepted.
    pub delivered: u64,
    /// Records discarded, by reason.
    pub discarded: ByReason,
    /// Records that wait.
    pub waiting: u64,
    /// Records that were moved to the drain's own stream because it lagged.
    pub moved: u64,
    /// Records that an earlier run has left, as found at the last start.
    pub recovered: u64,
}

/// A server from which drains are obtained.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DrainProviderEntry {
    /// `binding_cache` or `cloud_controller`.
    pub name: String,
    /// Number of drains that it lists.
    pub drains: u64,
    /// Number of invalid drains among them.
    pub rejected: u64,
    /// Number of requests.
    pub refreshes: u64,
    /// Number of failed requests.
    pub errors: u64,
    /// Error of the last request, if it failed.
    pub error: Option<String>,
}

/// A drain to add: for one of `app`, `space` and `organization`, or for everything.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDrain {
    /// ID of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// ID of a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// ID of an organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// `syslog://`, `syslog-tls://`, `https://` or `https-batch://`, with parameters.
    pub url: String,
    /// Host name in messages whose record has no application in its tags.
    #[serde(default)]
    pub hostname: String,
    /// Client certificate (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// Private key of the client certificate (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// CA certificates to trust in addition (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl From<NewDrain> for StoredDrain {
    fn from(drain: NewDrain) -> Self {
        let NewDrain { app, space, organization, url, hostname, cert, key, ca } = drain;
        Self { app, space, organization, url, hostname, cert, key, ca }
    }
}

/// Result of a change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DrainChange {
    /// ID of the drain.
    pub id: String,
    /// For a test: why the destination cannot be reached.
    #[serde(default)]
    pub error: Option<String>,
}

impl From<&DrainStatus> for DrainEntry {
    fn from(status: &DrainStatus) -> Self {
        let (drain, book) = (&status.drain, &status.book);
        Self {
            id: drain.id.clone(),
            origin: drain.origin.to_owned(),
            selects: drain.selects.clone(),
            url: drain.url.clone(),
            state: status.state.name().to_owned(),
            error: status.error.as_deref().map(str::to_owned),
            failing_seconds: status.failing_seconds,
            lag_seconds: status.lag_seconds,
            book: DrainCounts {
                routed: book.routed,
                delivered: book.delivered,
                discarded: discarded(&book.discarded),
                waiting: book.waiting,
                moved: book.moved,
                recovered: book.recovered,
            },
            unaccounted: status.unaccounted,
        }
    }
}

impl DrainEntry {
    /// The drains that the requester may see.
    pub(crate) fn all(view: &PipelineView, requester: &Requester) -> Vec<Self> {
        let statuses = view.drains().as_deref().map(Drains::statuses).unwrap_or_default();
        let may_see = |status: &&DrainStatus| match &status.drain.app {
            Some(app) => requester.may_see(app),
            None => requester.sees_everything(),
        };
        statuses.iter().filter(may_see).map(Self::from).collect()
    }
}

impl DrainsDocument {
    /// The drains that the requester may see.
    fn of(view: &PipelineView, requester: &Requester) -> Self {
        let drains = view.drains();
        let drains = drains.as_deref();
        let entries = DrainEntry::all(view, requester);
        let sees_all = requester.sees_everything();
        let providers = drains.filter(|_| sees_all).map(Drains::providers).unwrap_or_default();
        Self {
            schema: "weir.drains.v1".to_owned(),
            time_unix_ns: view.now_unix_ns(),
            balanced: entries.iter().all(|drain| drain.unaccounted == 0),
            drains: entries,
            providers: providers
                .into_iter()
                .map(|provider| DrainProviderEntry {
                    name: provider.name.to_owned(),
                    drains: provider.drains as u64,
                    rejected: provider.rejected as u64,
                    refreshes: provider.refreshes,
                    errors: provider.errors,
                    error: provider.error,
                })
                .collect(),
        }
    }
}

/// The drains, with their books
#[utoipa::path(
    get, path = "/weir/v1/drains", tag = "status",
    responses((status = 200, description = "The drains", body = DrainsDocument))
)]
pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
) -> Response {
    match state.view() {
        Some(view) => json_response(StatusCode::OK, &DrainsDocument::of(&view, &requester)),
        None => starting(),
    }
}

/// Adds a drain
///
/// Only requests of operators are accepted; without access control, only from this machine.
#[utoipa::path(
    post, path = "/weir/v1/drains", tag = "status", request_body = NewDrain,
    responses(
        (status = 200, description = "The drain was added", body = DrainChange),
        (status = 400, description = "The drain is not valid"),
        (status = 403, description = "The sender may not change drains"),
        (status = 409, description = "The drain exists, there are too many, or drains are off"),
        (status = 503, description = "The change could not be saved"),
    )
)]
pub(crate) async fn add(
    State(state): State<Arc<ApiState>>,
    body: Bytes,
) -> Result<Response, Problem> {
    let drain: NewDrain = match serde_json::from_slice(&body) {
        Ok(drain) => drain,
        Err(error) => {
            let title = format!("the body is not a valid drain: {error}");
            return Err(Problem::new(StatusCode::BAD_REQUEST, title));
        }
    };
    let definition = StoredDrain::from(drain)
        .define("added")
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let id = definition.id;
    Ok(changed(&state, id, async |drains| drains.add(definition).await.map(|()| None)).await)
}

/// Removes a drain that was added; its waiting records are discarded and counted
///
/// Only requests of operators are accepted; without access control, only from this machine.
#[utoipa::path(
    delete, path = "/weir/v1/drains/{id}", tag = "status",
    params(("id" = String, Path, description = "ID of the drain")),
    responses(
        (status = 200, description = "The drain was removed", body = DrainChange),
        (status = 403, description = "The sender may not change drains"),
        (status = 404, description = "There is no drain with this ID"),
        (status = 409, description = "The change is not possible, or drains are off"),
        (status = 503, description = "The change could not be saved"),
    )
)]
pub(crate) async fn remove(
    State(state): State<Arc<ApiState>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    Ok(of_id(&state, &id, async |drains, id| drains.remove(id).await.map(|()| None)).await)
}

/// Pauses a drain; its records wait on disk
///
/// Only requests of operators are accepted; without access control, only from this machine.
#[utoipa::path(
    post, path = "/weir/v1/drains/{id}/pause", tag = "status",
    params(("id" = String, Path, description = "ID of the drain")),
    responses(
        (status = 200, description = "The drain is paused", body = DrainChange),
        (status = 403, description = "The sender may not change drains"),
        (status = 404, description = "There is no drain with this ID"),
        (status = 409, description = "The change is not possible, or drains are off"),
        (status = 503, description = "The change could not be saved"),
    )
)]
pub(crate) async fn pause(
    State(state): State<Arc<ApiState>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    Ok(of_id(&state, &id, async |drains, id| drains.pause(id, true).await.map(|()| None)).await)
}

/// Resumes a drain that was paused
///
/// Only requests of operators are accepted; without access control, only from this machine.
#[utoipa::path(
    post, path = "/weir/v1/drains/{id}/resume", tag = "status",
    params(("id" = String, Path, description = "ID of the drain")),
    responses(
        (status = 200, description = "The drain is resumed", body = DrainChange),
        (status = 403, description = "The sender may not change drains"),
        (status = 404, description = "There is no drain with this ID"),
        (status = 409, description = "The change is not possible, or drains are off"),
        (status = 503, description = "The change could not be saved"),
    )
)]
pub(crate) async fn resume(
    State(state): State<Arc<ApiState>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    Ok(of_id(&state, &id, async |drains, id| drains.pause(id, false).await.map(|()| None)).await)
}

/// Opens a connection to the destination of a drain, without sending anything
#[utoipa::path(
    post, path = "/weir/v1/drains/{id}/test", tag = "status",
    params(("id" = String, Path, description = "ID of the drain")),
    responses((status = 200, description = "The result", body = DrainChange))
)]
pub(crate) async fn test(State(state): State<Arc<ApiState>>, Path(id): Path<String>) -> Response {
    of_id(&state, &id, async |drains, id| drains.test(id).await).await
}

async fn of_id(
    state: &ApiState,
    id: &str,
    change: impl AsyncFnOnce(&Drains, u64) -> Result<Option<String>, DrainChangeError>,
) -> Response {
    let Ok(id) = u64::from_str_radix(id, 16) else {
        return problem(StatusCode::NOT_FOUND, &format!("there is no drain {id:?}"));
    };
    changed(state, id, async |drains| change(drains, id).await).await
}

async fn changed(
    state: &ApiState,
    id: u64,
    change: impl AsyncFnOnce(&Drains) -> Result<Option<String>, DrainChangeError>,
) -> Response {
    let Some(view) = state.view() else { return starting() };
    let Some(drains) = view.drains() else {
        let title = "drains are off: add [drains] to the configuration";
        return problem(StatusCode::CONFLICT, title);
    };
    match change(&drains).await {
        Ok(error) => {
            json_response(StatusCode::OK, &DrainChange { id: format!("{id:016x}"), error })
        }
        Err(error) => problem(status_of(&error), &error.to_string()),
    }
}

fn status_of(error: &DrainChangeError) -> StatusCode {
    match error {
        DrainChangeError::Unknown(_) => StatusCode::NOT_FOUND,
        DrainChangeError::Exists(_)
        | DrainChangeError::NotAdded(_)
        | DrainChangeError::TooMany(_)
        | DrainChangeError::TooManyPaused(_) => StatusCode::CONFLICT,
        DrainChangeError::NotSaved | DrainChangeError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    }
}
