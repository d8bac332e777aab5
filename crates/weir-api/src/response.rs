//! Responses that several handlers return: JSON documents, events, and problems by path.

use axum::body::Body;
use axum::http::{HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use weir_expr::ParseError;

use crate::problem::{DatadogProblem, Problem};

/// Current values must not be cached.
pub(crate) const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// Tells nginx, and proxies that understand its header, to pass on each event at once: by default
/// nginx collects some kilobytes first.
const NOT_BUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// Response with server-sent events.
pub(crate) fn events(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream"), NO_STORE, NOT_BUFFERED], body).into_response()
}

/// Response with a JSON document.
pub(crate) fn json_response(code: StatusCode, document: &impl Serialize) -> Response {
    match serde_json::to_string(document) {
        Ok(text) => json_text(code, text),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Response with the text of a JSON document.
pub(crate) fn json_text(code: StatusCode, text: String) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json"), NO_STORE], text + "\n").into_response()
}

/// Response for an error.
pub(crate) fn problem(code: StatusCode, title: &str) -> Response {
    Problem::new(code, title).into_response()
}

/// Response while there is no pipeline yet.
pub(crate) fn starting() -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, "weir is starting: its journal is being recovered")
}

/// Response for an invalid expression.
pub(crate) fn invalid_expression(error: &ParseError) -> Response {
    Problem::expression("query", error).into_response()
}

/// A problem in the format of the responses on its path.
pub(crate) fn problem_for_path(uri: &Uri, problem: Problem) -> Response {
    if uri.path().starts_with("/api/") {
        DatadogProblem(problem).into_response()
    } else {
        problem.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_asked_to_pass_on_each_event() {
        let response = events(Body::empty());
        let header = |name| response.headers()[name].to_str().unwrap();
        assert_eq!(header(header::CONTENT_TYPE), "text/event-stream");
        assert_eq!(header(header::CACHE_CONTROL), "no-store");
        assert_eq!(header(NOT_BUFFERED.0), "no");
    }
}
