//! Protects against requests from web pages of other sites that a browser on this machine may show.
//!
//! Without access control any client that reaches the port may send requests, and with it a browser
//! may add the cookie of a session. A page in a browser reaches whatever the browser reaches.
//! Invariants, for every path: if the page uses a host name that resolves to weir (DNS rebinding),
//! the name in `Host` reveals it; if it uses weir's address, browsers send its `Origin` or mark the
//! request as `cross-site`; and a body that is not JSON, which a page may send without a preflight
//! request, is not read.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::Body as _;

use crate::problem::Problem;
use crate::response::problem_for_path;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The address of the sender of a request; `None` if it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sender(pub(crate) Option<IpAddr>);

impl Sender {
    /// Whether it is on this machine. Without access control, what cannot be undone (deletions) or
    /// sends records elsewhere (drains) is accepted only from here.
    pub(crate) fn is_local(self) -> bool {
        self.0.is_some_and(|address| address.is_loopback())
    }
}

/// The host names that weir accepts, in addition to IP addresses and `localhost`.
#[derive(Debug, Clone)]
pub(crate) struct AllowedHosts(Arc<[String]>);

impl AllowedHosts {
    /// The configured names, and the machine's own name.
    pub(crate) fn new(configured: &[String]) -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let localhost = "localhost".to_owned();
        let all = configured.iter().cloned().chain([machine, localhost]);
        Self(all.map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect())
    }

    /// Whether a host, with or without a port, is an IP address or one of the names.
    fn has(&self, host: &str) -> bool {
        if host.parse::<SocketAddr>().is_ok() {
            return true;
        }
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        // Behind brackets there may be more than a port, before the name a user.
        let is_port = |rest: &str| {
            rest.is_empty()
                || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        };
        if !authority.as_str().strip_prefix(name).is_some_and(is_port) {
            return false;
        }
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        is_address || self.0.contains(&name)
    }

    /// The status and reason for rejecting a request that a page of another site may have sent.
    /// Pages of `trusted_origin` are trusted as well.
    pub(crate) fn foreign(
        &self,
        headers: &HeaderMap,
        trusted_origin: Option<&str>,
    ) -> Option<(StatusCode, String)> {
        // Different programs would believe different ones.
        for name in [header::HOST, header::ORIGIN] {
            if headers.get_all(&name).iter().nth(1).is_some() {
                return Some((StatusCode::BAD_REQUEST, format!("header {name} is sent twice")));
            }
        }
        let host = text(headers, header::HOST);
        if let Some(host) = host.filter(|host| !self.has(host)) {
            let shown: String = host.chars().take(80).collect();
            let title = format!(
                "host name {shown:?} is not allowed: use the IP address, or add the name to \
                 api.allowed_hosts"
            );
            return Some((StatusCode::MISDIRECTED_REQUEST, title));
        }
        let is_same = |origin: &str| {
            if trusted_origin == Some(origin) {
                return true;
            }
            let from = origin.split_once("://").map(|(_, from)| from);
            from.is_some_and(|from| Some(from) == host)
        };
        let is_embedded = || {
            let site = text(headers, FETCH_SITE);
            let is_foreign = matches!(site, Some("cross-site" | "same-site"));
            is_foreign && text(headers, FETCH_MODE) != Some("navigate")
        };
        let origin = text(headers, header::ORIGIN);
        let is_foreign = origin.is_some_and(|origin| !is_same(origin)) || is_embedded();
        is_foreign.then(|| {
            let title = "requests from pages of other sites are not allowed";
            (StatusCode::FORBIDDEN, title.to_owned())
        })
    }

    /// The problem with the sender of a request, or with its form.
    fn rejection(&self, headers: &HeaderMap, has_body: bool) -> Option<Problem> {
        if let Some((code, title)) = self.foreign(headers, None) {
            return Some(Problem::new(code, title));
        }
        let is_json = |media: &HeaderValue| {
            let media = media.to_str().unwrap_or_default();
            let media = media.split(';').next().unwrap_or_default();
            media.trim().eq_ignore_ascii_case("application/json")
        };
        let mut types = headers.get_all(header::CONTENT_TYPE).iter().peekable();
        if has_body && (types.peek().is_none() || !types.all(is_json)) {
            let title = "the body must be sent as application/json (Content-Type)";
            return Some(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, title));
        }
        None
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// Sets `Host` to the name in the target of the request, which takes precedence: HTTP/2 clients
/// send it as `:authority` (RFC 9113, section 8.3.1), proxies in the URL (RFC 9112, section 3.2.2).
pub(crate) fn set_host<B>(request: &mut axum::http::Request<B>) {
    if let Some(authority) = request.uri().authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        request.headers_mut().insert(header::HOST, host);
    }
}

/// Rejects requests that may come from a page of another site.
pub(crate) async fn guard(
    State(allowed): State<AllowedHosts>,
    request: Request,
    next: Next,
) -> Response {
    match allowed.rejection(request.headers(), !request.body().is_end_stream()) {
        Some(problem) => problem_for_path(request.uri(), problem),
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(sent: &[(&str, &str)]) -> u16 {
        let allowed = AllowedHosts::new(&["logs.example".to_owned()]);
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let has_body = headers.contains_key(header::TRANSFER_ENCODING)
            || headers.get(header::CONTENT_LENGTH).is_some_and(|len| len != "0");
        let problem = allowed.rejection(&headers, has_body);
        problem.map_or(200, |problem| problem.code().as_u16())
    }

    #[test]
    fn only_local_and_configured_hosts_are_accepted() {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let known =
            ["127.0.0.1:7080", "[::1]:7080", "[::1]", "10.1.2.3", "localhost", "LOCALHOST:1"];
        for host in known.into_iter().chain(["logs.example", "Logs.Example.:7080", &machine]) {
            assert_eq!(status(&[("host", host)]), 200, "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:7080", "127.0.0.1.evil.example", "", "a b"]
                .into_iter()
                .chain(["[::1].evil.example", "[::1]x:7080", "evil@127.0.0.1", "[::1]:x"])
        {
            assert_eq!(status(&[("host", host)]), 421, "{host}");
        }
        assert_eq!(status(&[]), 200, "every browser sends it");
        let (known, foreign) = (("host", "localhost"), ("host", "evil.example"));
        assert_eq!((status(&[known, foreign]), status(&[foreign, known])), (400, 400));
    }

    #[test]
    fn the_target_of_a_request_takes_precedence_over_its_host_header() {
        for (target, expected) in
            [("/health", "known"), ("http://evil.example/health", "evil.example")]
        {
            let request = axum::http::Request::builder().uri(target).header("host", "known");
            let mut request = request.body(()).unwrap();
            set_host(&mut request);
            assert_eq!(request.headers()[header::HOST], expected);
        }
    }

    #[test]
    fn cross_site_requests_are_rejected() {
        let host = ("host", "127.0.0.1:7080");
        let with = |name, value| status(&[host, (name, value)]);
        for origin in
            ["http://evil.example", "null", "http://127.0.0.1:8080", "http://localhost:7080"]
        {
            assert_eq!(with("origin", origin), 403, "{origin}");
        }
        assert_eq!(with("origin", "http://127.0.0.1:7080"), 200);
        let own = ("origin", "http://127.0.0.1:7080");
        assert_eq!(status(&[host, own, ("origin", "http://evil.example")]), 400);
        assert_eq!(with("sec-fetch-site", "cross-site"), 403);
        assert_eq!(with("sec-fetch-site", "same-origin"), 200);
        let link = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(status(&link), 200, "a user followed a link");
    }

    #[test]
    fn only_json_bodies_are_accepted() {
        let host = ("host", "127.0.0.1:7080");
        let with_body = |media: Option<&str>| {
            let media = media.map(|media| ("content-type", media));
            let len = ("content-length", "2");
            let headers: Vec<_> = [host, len].into_iter().chain(media).collect();
            status(&headers)
        };
        for media in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"] {
            assert_eq!(with_body(Some(media)), 415, "{media}");
        }
        assert_eq!(with_body(None), 415);
        assert_eq!(with_body(Some("application/JSON; charset=utf-8")), 200);
        let both = [("content-type", "application/json"), ("content-type", "text/plain")];
        assert_eq!(status(&[host, ("content-length", "2"), both[0], both[1]]), 415);
        assert_eq!(status(&[host, ("transfer-encoding", "chunked")]), 415);
        assert_eq!(status(&[host, ("content-length", "0")]), 200);
    }
}
