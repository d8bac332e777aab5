//! `/weir/v1/cursors`: cursors of outputs that are no longer configured.
//!
//! Invariants: only operators can drop a cursor, or without access control clients on this machine,
//! since its records are gone; a drop is on stable storage before it is acknowledged.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::delete;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::DropCursorError;
use weir_pipeline::cursors::CursorChangeError;

use crate::access::Permission::Operate;
use crate::access::{Permission, Routes, needs};
use crate::response::{json_response, problem, starting};
use crate::state::ApiState;

/// The title of the problem with a request from another machine, without access control.
const ONLY_LOCAL: &str = "cursors can only be dropped from the machine that weir runs on";

/// The paths.
pub(crate) const PATHS: [&str; 1] = ["/weir/v1/cursors/{name}"];

/// The routes.
pub(crate) fn routes() -> Routes {
    const OPERATE: Permission = Operate(ONLY_LOCAL);
    Routes::default().on("/weir/v1/cursors/{name}", [needs(OPERATE, delete(remove))])
}

/// A cursor that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedCursor {
    /// Name of the output.
    pub name: String,
    /// Number of records that waited for it; its book counts them as discarded (`cursor_dropped`).
    pub discarded_records: u64,
}

/// Drops the cursor of an output that is no longer configured, with all records that wait for it
///
/// The records are gone, and their disk space is freed; other outputs are not affected. Only
/// requests of operators are accepted; without access control, only from this machine.
#[utoipa::path(
    delete, path = "/weir/v1/cursors/{name}", tag = "status",
    params(("name" = String, Path, description = "Name of the output")),
    responses(
        (status = 200, description = "The cursor was durably dropped", body = DroppedCursor),
        (status = 403, description = "The sender may not drop cursors"),
        (status = 404, description = "There is no cursor of this name; the title lists those that \
                                      exist"),
        (status = 409, description = "The output is configured, or is still stopping"),
        (status = 503, description = "The change could not be saved, or weir is stopping"),
    )
)]
pub(crate) async fn remove(
    State(state): State<Arc<ApiState>>,
    Path(name): Path<String>,
) -> Response {
    let Some(view) = state.view() else { return starting() };
    let dropped = tokio::task::spawn_blocking(move || {
        let discarded_records = view.drop_cursor(&name)?;
        Ok::<_, CursorChangeError>(DroppedCursor { name, discarded_records })
    });
    match dropped.await {
        Ok(Ok(dropped)) => json_response(StatusCode::OK, &dropped),
        Ok(Err(error)) => problem(status_of(&error), &error.to_string()),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn status_of(error: &CursorChangeError) -> StatusCode {
    use DropCursorError::{Closed, Configured, Stopping, Unknown};
    match error {
        CursorChangeError::Refused(Unknown { .. }) => StatusCode::NOT_FOUND,
        CursorChangeError::Refused(Configured { .. } | Stopping { .. }) => StatusCode::CONFLICT,
        CursorChangeError::Refused(Closed) | CursorChangeError::NotSaved { .. } => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}
