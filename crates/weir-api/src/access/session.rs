//! `/weir/v1/session`: signing in on the page, and signing out.
//!
//! The id of a session is in a cookie that scripts cannot read and that browsers do not send with
//! requests from other sites. Invariants: the cookie's name contains the port, since cookies of a
//! host are shared by all its ports; a cookie sent over TLS is never sent without.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cookies::cookie;
use super::gate::challenge;
use super::limits::COOKIE_PATH_BYTES_MAX;
use super::requester::{Permission, Requester};
use super::routes::{Routes, needs};
use crate::explore::limits::BODY_BYTES_MAX;
use crate::explore::{RequestBody, body};
use crate::problem::Problem;
use crate::response::json_response;
use crate::state::ApiState;

const SCHEMA: &str = "weir.session.v1";

/// How a proxy says that a request came over TLS.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The paths.
pub(crate) const PATHS: [&str; 1] = ["/weir/v1/session"];

/// The routes.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .on(
            "/weir/v1/session",
            [
                needs(Permission::SignedIn, get(show)),
                needs(Permission::Public, post(begin)),
                needs(Permission::Public, delete(end)),
            ],
        )
        .with_body_max(BODY_BYTES_MAX)
}

/// Who has sent the request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionDocument {
    /// `weir.session.v1`.
    pub schema: String,
    /// `operator`, `reader`, `developer`; `anyone` without access control; `none` after signing
    /// out.
    pub role: String,
}

/// A token to sign in with.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewSession {
    /// The token.
    token: String,
    /// The path for which the cookie is valid: that of the page, behind a proxy with a path prefix.
    /// Default: `/`.
    path: Option<String>,
}

/// The role of the sender
#[utoipa::path(
    get, path = "/weir/v1/session", tag = "session",
    responses((status = 200, description = "The role", body = SessionDocument))
)]
pub(crate) async fn show(Extension(requester): Extension<Requester>) -> Response {
    document(requester.role.name())
}

/// Signs in: sets a cookie that authorizes requests as the token does
#[utoipa::path(
    post, path = "/weir/v1/session", tag = "session", request_body = NewSession,
    responses(
        (status = 200, description = "The session was created", body = SessionDocument),
        (status = 401, description = "The token is not valid"),
        (status = 409, description = "Access control is not configured"),
    )
)]
pub(crate) async fn begin(
    State(state): State<Arc<ApiState>>,
    Parts { headers, extensions, .. }: Parts,
    received: RequestBody,
) -> Result<Response, Problem> {
    let NewSession { token, path } = body(&headers, received)?;
    let path = path.unwrap_or_else(|| "/".to_owned());
    if !is_cookie_path(&path) {
        return Err(Problem::parameter("path", "is not a path that begins with /"));
    }
    let Some(begun) = state.gate.sign_in(token.trim(), &path).await else {
        let title = "access control is not configured: no sign-in is needed";
        return Err(Problem::new(StatusCode::CONFLICT, title));
    };
    let (id, role) = match begun {
        Ok(begun) => begun,
        Err(refusal) => {
            let mut response = state.gate.refused(refusal, &extensions).await.into_response();
            challenge(&mut response);
            return Ok(response);
        }
    };
    let secure = if is_over_tls(&headers) { "; Secure" } else { "" };
    let name = cookie_name(&headers);
    let cookie = format!("{name}={id}; Path={path}; HttpOnly; SameSite=Strict{secure}");
    Ok(with_cookie(document(role.name()), &cookie))
}

/// Signs out: ends the session of the cookie
#[utoipa::path(
    delete, path = "/weir/v1/session", tag = "session",
    responses((status = 200, description = "There is no session", body = SessionDocument))
)]
pub(crate) async fn end(State(state): State<Arc<ApiState>>, headers: HeaderMap) -> Response {
    let path = cookie_id(&headers).and_then(|id| state.gate.sign_out(&id));
    let response = document("none");
    let Some(path) = path else { return response };
    let name = cookie_name(&headers);
    with_cookie(response, &format!("{name}=; Path={path}; HttpOnly; SameSite=Strict; Max-Age=0"))
}

/// The id of the session in the cookies of a request.
pub(super) fn cookie_id(headers: &HeaderMap) -> Option<String> {
    cookie(headers, &cookie_name(headers)).map(str::to_owned)
}

fn document(role: &str) -> Response {
    let document = SessionDocument { schema: SCHEMA.to_owned(), role: role.to_owned() };
    json_response(StatusCode::OK, &document)
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    // It contains only what was checked, so this does not fail.
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// `weir_session`, with the port to which the request was sent.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')?.1.parse::<u16>().ok());
    port.map_or_else(|| "weir_session".to_owned(), |port| format!("weir_session_{port}"))
}

/// Whether the browser uses TLS, perhaps to a proxy in front of weir.
fn is_over_tls(headers: &HeaderMap) -> bool {
    let starts = |name: &HeaderName, with: &str| {
        headers.get(name).is_some_and(|value| value.as_bytes().starts_with(with.as_bytes()))
    };
    starts(&header::ORIGIN, "https://") || starts(&FORWARDED_PROTO, "https")
}

/// Whether a path can be written in a cookie (RFC 6265, section 4.1.1).
fn is_cookie_path(path: &str) -> bool {
    path.starts_with('/')
        && path.len() <= COOKIE_PATH_BYTES_MAX
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(HeaderName, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn cookies_of_other_ports_are_ignored() {
        let id =
            |host, cookie| cookie_id(&headers(&[(header::HOST, host), (header::COOKIE, cookie)]));
        let cookie = "a=b; weir_session_7080=one;weir_session=two";
        assert_eq!(id("127.0.0.1:7080", cookie).as_deref(), Some("one"));
        assert_eq!(id("[::1]:7080", cookie).as_deref(), Some("one"));
        assert_eq!(id("logs.example", cookie).as_deref(), Some("two"));
        assert_eq!(id("127.0.0.1:7081", cookie), None);
        assert_eq!(id("127.0.0.1:7080", "weir_session_7080"), None);
    }

    #[test]
    fn cookies_are_secure_behind_a_proxy_with_tls() {
        assert!(is_over_tls(&headers(&[(header::ORIGIN, "https://logs.example")])));
        assert!(is_over_tls(&headers(&[(FORWARDED_PROTO, "https")])));
        assert!(!is_over_tls(&headers(&[(header::ORIGIN, "http://https.example")])));
        assert!(!is_over_tls(&HeaderMap::new()));
    }

    #[test]
    fn the_path_of_a_cookie_has_no_attributes() {
        for path in ["/", "/logs/", "/a%20b/"] {
            assert!(is_cookie_path(path), "{path}");
        }
        let long = format!("/{}", "x".repeat(COOKIE_PATH_BYTES_MAX));
        for path in ["", "logs", "/; Domain=example.org", "/a b", "/\r\nx: y", &long] {
            assert!(!is_cookie_path(path), "{path}");
        }
    }
}
