//! Access control: the only place that decides what a client may see.

use axum::http::HeaderMap;
use weir_store::query::Access;

/// What the sender of a request may see. Weir has no users yet: any client that reaches the port,
/// which is on loopback unless configured otherwise, sees everything.
pub(super) fn access(_headers: &HeaderMap) -> Access {
    Access::all()
}
