//! Answers that say what is wrong: problem documents (RFC 9457).

use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weir_expr::ParseError;

/// Figures of this moment are of no use later.
pub(crate) const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// Something is wrong, and this is what.
pub(crate) fn problem(code: StatusCode, title: &str) -> Response {
    answer(code, &json!({ "type": "about:blank", "status": code.as_u16(), "title": title }))
}

/// The expression cannot be read: where (bytes of the query), what was expected, what would
/// probably be right.
pub(crate) fn wrong_expression(error: &ParseError) -> Response {
    let code = StatusCode::BAD_REQUEST;
    let document = json!({
        "type": "about:blank",
        "status": code.as_u16(),
        "title": error.message,
        "detail": error.to_string(),
        "span": { "start": error.span.start, "end": error.span.end },
        "expected": error.expected,
        "suggestion": error.suggestion,
    });
    answer(code, &document)
}

fn answer(code: StatusCode, document: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/problem+json"), NO_STORE];
    (code, headers, format!("{document}\n")).into_response()
}
