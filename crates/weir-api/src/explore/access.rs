//! Who asks, and what may therefore be seen: the one place where it is decided.

use axum::http::HeaderMap;
use weir_store::query::Access;

/// What the sender of a request may see. Weir knows no users yet: whoever reaches the port, which
/// is on loopback unless configured otherwise, sees everything.
pub(super) fn access(_headers: &HeaderMap) -> Access {
    Access::all()
}
