//! The traffic controller: v1 envelopes over websockets, and container metrics and recent logs of
//! applications over HTTP.
//!
//! Invariants: paths, statuses and headers are those of the original; a request that does not ask
//! for a WebSocket opens no stream.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN,
    CONTENT_TYPE, HeaderMap, HeaderValue, ORIGIN, SEC_WEBSOCKET_VERSION, SET_COOKIE,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::{Instant, timeout};
use weir_codec::{DropsondeConverter, DropsondeFilter, DropsondeRequest};
use weir_pipeline::live::{EnvelopeStream, ReaderClient, ReaderService};

use super::ServiceState;
use super::body::ServiceBody;
use super::limits::{FORM_BYTES_MAX, RECENT_LOGS_MAX, REQUEST_TIMEOUT};
use super::query::{parameters, path_decoded};
use super::websocket::{self, Client, Session};
use crate::access::tokens::Denied;

/// A request.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    /// The stream of one application.
    Stream(String),
    /// The stream of everything, shared by those with the same name.
    Firehose(String),
    /// The newest metrics of the containers of an application.
    ContainerMetrics(String),
    /// The newest logs of an application, up to `limit`.
    RecentLogs(String),
    /// A cookie that authorizes further requests.
    SetCookie,
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let parts = (parts.next()?, parts.next(), parts.next(), parts.next());
        Some(match parts {
            ("set-cookie", None, None, None) => Self::SetCookie,
            ("firehose", Some(name), None, None) if !name.is_empty() => {
                Self::Firehose(path_decoded(name))
            }
            ("apps", Some(app), Some("stream"), None) if !app.is_empty() => {
                Self::Stream(path_decoded(app))
            }
            ("apps", Some(app), Some("containermetrics"), None) if !app.is_empty() => {
                Self::ContainerMetrics(path_decoded(app))
            }
            ("apps", Some(app), Some("recentlogs"), None) if !app.is_empty() => {
                Self::RecentLogs(path_decoded(app))
            }
            _ => return None,
        })
    }
}

/// Answers a request; the second value is a stream if its connection becomes a WebSocket.
pub(super) async fn answer<B: Body>(
    state: &Arc<ServiceState>,
    mut request: Request<B>,
    peer: SocketAddr,
) -> (Response<ServiceBody>, Option<Session>)
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Some(route) = Route::of(request.uri().path()) else {
        return (text(StatusCode::NOT_FOUND, "404 page not found\n"), None);
    };
    let headers = request.headers().clone();
    if let Err(denied) = allowed(state, &route, &headers).await {
        state.refuse(&denied.to_string());
        return (not_allowed(&route, &denied), None);
    }
    let asked = match route {
        Route::SetCookie => return (set_cookie(state, request).await, None),
        Route::ContainerMetrics(app) => {
            let newest = state.containers().of(&app, Instant::now());
            return (multipart(&newest), None);
        }
        Route::RecentLogs(app) => {
            let query = request.uri().query().unwrap_or_default().to_owned();
            return (recent_logs(state, app, &query).await, None);
        }
        Route::Stream(app_id) => DropsondeRequest { app_id, ..DropsondeRequest::default() },
        Route::Firehose(shard_id) => {
            let filter = filter_of(request.uri().query().unwrap_or_default());
            DropsondeRequest { shard_id, filter, ..DropsondeRequest::default() }
        }
    };
    match open(state, &mut request, peer, asked) {
        Ok((session, accept)) => {
            let mut response = status(StatusCode::SWITCHING_PROTOCOLS);
            websocket::accept(response.headers_mut(), &accept);
            (response, Some(session))
        }
        Err(code) => {
            state.refuse(code.canonical_reason().unwrap_or_default());
            (refused(code), None)
        }
    }
}

/// Checks access to the requested sources.
async fn allowed(state: &ServiceState, route: &Route, headers: &HeaderMap) -> Result<(), Denied> {
    let Some(access) = &state.access else { return Ok(()) };
    match route {
        Route::SetCookie => Ok(()),
        Route::Firehose(_) => access.check(headers, &[]).await,
        Route::Stream(app) | Route::ContainerMetrics(app) | Route::RecentLogs(app) => {
            access.check(headers, &[app]).await
        }
    }
}

/// The response to a request without access.
fn not_allowed(route: &Route, denied: &Denied) -> Response<ServiceBody> {
    match (denied, route) {
        (
            Denied::Forbidden,
            Route::Stream(_) | Route::ContainerMetrics(_) | Route::RecentLogs(_),
        ) => status(StatusCode::NOT_FOUND),
        (Denied::Unknown | Denied::Forbidden, _) => {
            let what = "You are not authorized. Error: Invalid authorization";
            let mut response = text(StatusCode::UNAUTHORIZED, what);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
            response
        }
        (Denied::Unavailable(_), _) => status(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Opens a stream.
fn open<B>(
    state: &Arc<ServiceState>,
    request: &mut Request<B>,
    peer: SocketAddr,
    asked: DropsondeRequest,
) -> Result<(Session, String), StatusCode> {
    const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
    let (on_upgrade, accept) = websocket::handshake(request)?;
    let permit = state.streams.clone().try_acquire_owned().map_err(|_| UNAVAILABLE)?;
    let view = state.view().ok_or(UNAVAILABLE)?;
    let reader = ReaderClient { service: ReaderService::TrafficController, peer };
    let envelopes = EnvelopeStream::of_v1(&view, reader, asked);
    let envelopes = envelopes.map_err(|_| UNAVAILABLE)?;
    let client = Client::new(peer, request.headers(), request.uri());
    let session = Session { on_upgrade, envelopes, state: state.clone(), client, _permit: permit };
    Ok((session, accept))
}

/// The newest logs of an application, oldest first. A response that may be incomplete has a header
/// with the reason.
async fn recent_logs(state: &ServiceState, app: String, query: &str) -> Response<ServiceBody> {
    let parameters = parameters(query);
    let limit = parameters.iter().find(|(key, _)| key == "limit");
    let limit = limit.and_then(|(_, value)| value.parse().ok());
    let batch = match state.stored.recent_logs(app, limit.unwrap_or(RECENT_LOGS_MAX)).await {
        Ok(batch) => batch,
        Err(error) => {
            state.refuse(&error.to_string());
            return status(StatusCode::SERVICE_UNAVAILABLE);
        }
    };
    let mut converter = DropsondeConverter::default();
    let mut logs = Vec::with_capacity(batch.count());
    for envelope in batch.envelopes() {
        // A record that cannot be converted is not a log.
        let _converted =
            converter.to_v1(envelope, usize::MAX, |bytes| logs.push(Bytes::copy_from_slice(bytes)));
    }
    let mut response = multipart(&logs);
    if let Some(reason) = batch.partial {
        response.headers_mut().insert("x-weir-partial", HeaderValue::from_static(reason));
    }
    response
}

fn filter_of(query: &str) -> DropsondeFilter {
    let parameters = parameters(query);
    let wanted = parameters.iter().find(|(key, _)| key == "filter-type");
    match wanted.map(|(_, value)| value.as_str()) {
        Some("logs") => DropsondeFilter::Logs,
        Some("metrics") => DropsondeFilter::Metrics,
        Some(_) | None => DropsondeFilter::All,
    }
}

fn status(code: StatusCode) -> Response<ServiceBody> {
    let mut response = Response::new(ServiceBody::empty());
    *response.status_mut() = code;
    response
}

fn text(code: StatusCode, text: &str) -> Response<ServiceBody> {
    let mut response =
        Response::new(ServiceBody::Whole(Some(Bytes::copy_from_slice(text.as_bytes()))));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The response to a refused request for a stream.
fn refused(code: StatusCode) -> Response<ServiceBody> {
    if code == StatusCode::SERVICE_UNAVAILABLE {
        return status(code);
    }
    let mut response = text(code, &format!("{}\n", code.canonical_reason().unwrap_or_default()));
    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}

/// Envelopes as the parts of one body, each without headers.
fn multipart(envelopes: &[Bytes]) -> Response<ServiceBody> {
    let boundary = format!("{:032x}{:016x}", fastrand::u128(..), fastrand::u64(..));
    let mut body = Vec::new();
    for (number, envelope) in envelopes.iter().enumerate() {
        let before = if number == 0 { "" } else { "\r\n" };
        body.extend_from_slice(format!("{before}--{boundary}\r\n\r\n").as_bytes());
        body.extend_from_slice(envelope);
    }
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    let mut response = Response::new(ServiceBody::Whole(Some(body.into())));
    let content_type = format!("multipart/x-protobuf; boundary={boundary}");
    if let Ok(content_type) = HeaderValue::from_str(&content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// Sets the cookie that a form names.
async fn set_cookie<B: Body>(state: &ServiceState, request: Request<B>) -> Response<ServiceBody>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let has_form = [Method::POST, Method::PUT, Method::PATCH].contains(&head.method)
        && head.headers.get(CONTENT_TYPE).is_some_and(|value| {
            value.as_bytes().starts_with(b"application/x-www-form-urlencoded")
        });
    let mut response = status(StatusCode::OK);
    let mut fields = Vec::new();
    let mut is_valid = true;
    if has_form {
        match timeout(REQUEST_TIMEOUT, Limited::new(body, FORM_BYTES_MAX).collect()).await {
            Ok(Ok(form)) => {
                fields = parameters(&String::from_utf8_lossy(&form.to_bytes()));
            }
            Ok(Err(_)) | Err(_) => is_valid = false,
        }
    }
    fields.extend(parameters(head.uri.query().unwrap_or_default()));
    let value = |name: &str| {
        let found = fields.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    match (is_valid, value("CookieName"), value("CookieValue")) {
        (true, Some(name), Some(value)) => {
            if let Some(cookie) = cookie(name, value, state.settings.cookie_domain.as_deref()) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
        }
        _ => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    let headers = response.headers_mut();
    let origin = head.headers.get(ORIGIN).cloned();
    let origin = origin.unwrap_or_else(|| HeaderValue::from_static(""));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
    response
}

/// A cookie for encrypted connections that scripts cannot read. `None` if its name is invalid.
fn cookie(name: &str, value: &str, domain: Option<&str>) -> Option<HeaderValue> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !name.bytes().all(is_token) {
        return None;
    }
    let is_allowed = |c: &char| matches!(c, ' '..='~') && !['"', ';', '\\'].contains(c);
    let mut value: String = value.chars().filter(is_allowed).collect();
    if value.contains([' ', ',']) {
        value = format!("\"{value}\"");
    }
    let domain = domain.map(|domain| format!("; Domain={domain}")).unwrap_or_default();
    HeaderValue::from_str(&format!("{name}={value}{domain}; HttpOnly; Secure; SameSite=Lax")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_original() {
        let guid = "b3015d69-09cd-476d-aace-ad2d824d5ab7";
        let stream = format!("/apps/{guid}/stream");
        assert_eq!(Route::of(&stream), Some(Route::Stream(guid.to_owned())));
        assert_eq!(Route::of("/firehose/a%20b+c"), Some(Route::Firehose("a b+c".to_owned())));
        assert_eq!(Route::of("/set-cookie"), Some(Route::SetCookie));
        let recent = Route::RecentLogs(guid.to_owned());
        assert_eq!(Route::of(&format!("/apps/{guid}/recentlogs")), Some(recent));
        let metrics = Route::ContainerMetrics("x".to_owned());
        assert_eq!(Route::of("/apps/x/containermetrics"), Some(metrics));
        for path in ["/", "/firehose", "/firehose/", "/firehose/a/b", "/apps/x", "/apps//stream"] {
            assert_eq!(Route::of(path), None, "{path}");
        }
        assert_eq!(filter_of("filter-type=logs&filter-type=metrics"), DropsondeFilter::Logs);
        assert_eq!(filter_of("filter-type=metrics"), DropsondeFilter::Metrics);
        assert_eq!(filter_of("filter-type=all"), DropsondeFilter::All);
    }

    #[test]
    fn cookies_cannot_be_more_than_they_say() {
        let cookie = |name, value, domain| {
            cookie(name, value, domain).map(|header| header.to_str().unwrap().to_owned())
        };
        let plain = "authorization=bearer%20a; HttpOnly; Secure; SameSite=Lax";
        assert_eq!(cookie("authorization", "bearer%20a", None).unwrap(), plain);
        let split = cookie("a", "x\r\nSet-Cookie: b=c; Domain=d", Some("doppler.example.org"));
        let expected = "a=\"xSet-Cookie: b=c Domain=d\"; Domain=doppler.example.org; HttpOnly; \
                        Secure; SameSite=Lax";
        assert_eq!(split.unwrap(), expected);
        assert_eq!(cookie("a b", "c", None), None);
    }
}
