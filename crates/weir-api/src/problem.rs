//! Error responses: problem documents (RFC 9457).
//!
//! There is one type of error, [`Problem`]. Weir's own paths return it directly; Datadog's paths
//! return their `errors`, with the problem in the additional member `weir`.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use weir_expr::{Expr, ParseError, Span, Test};

use crate::response::NO_STORE;

/// When to retry, in seconds, as clients of Datadog read it.
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// An error in a request, or in weir.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem(Box<ProblemDocument>);

/// An error in a request, or in weir (RFC 9457).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ProblemDocument {
    /// Always `about:blank`: the kind of problem is given by the status.
    #[serde(rename = "type")]
    type_uri: &'static str,
    /// The HTTP status of the response.
    status: u16,
    /// A one-line summary of the problem.
    title: String,
    /// The full description, with the place marked in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The parameter or member of the request that is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// The place in its text, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<TextRange>,
    /// What is expected at that place.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    /// A suggested replacement, in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
    /// When to retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
    /// The pattern of the invalid regular expression, until its place is known.
    #[serde(skip)]
    #[schema(ignore)]
    regexp: Option<String>,
}

/// A range of bytes in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TextRange {
    /// Start of the range (inclusive).
    start: usize,
    /// End of the range (exclusive).
    end: usize,
}

impl From<Span> for TextRange {
    fn from(span: Span) -> Self {
        Self { start: span.start, end: span.end }
    }
}

impl Problem {
    /// Creates a problem with a status and a title.
    pub(crate) fn new(code: StatusCode, title: impl Into<String>) -> Self {
        let (type_uri, status) = ("about:blank", code.as_u16());
        let document =
            ProblemDocument { type_uri, status, title: title.into(), ..Default::default() };
        Self(Box::new(document))
    }

    /// Creates a problem about an invalid parameter.
    pub(crate) fn parameter(name: &str, what: impl std::fmt::Display) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, format!("{name}: {what}"));
        problem.0.parameter = Some(name.to_owned());
        problem
    }

    /// Creates a problem about a parameter that is an invalid expression, field or calculated
    /// field: the place, what was expected, and a suggestion.
    pub(crate) fn expression(name: &str, error: &ParseError) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, error.message.clone());
        problem.0.detail = Some(error.to_string());
        problem.0.parameter = Some(name.to_owned());
        problem.0.span = Some(error.span.into());
        problem.0.expected.clone_from(&error.expected);
        problem.0.suggestion.clone_from(&error.suggestion);
        problem
    }

    /// Marks the problem as temporary.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_seconds = Some(seconds);
        self
    }

    /// Sets the parameter that the problem is about.
    pub(crate) fn for_parameter(mut self, parameter: &str) -> Self {
        self.0.parameter = Some(parameter.to_owned());
        self
    }

    /// Marks the problem as one of a regular expression with this pattern, wherever it occurs.
    pub(crate) fn for_regexp(mut self, pattern: &str) -> Self {
        self.0.regexp = Some(pattern.to_owned());
        self
    }

    /// Adds the place, if the problem is about a regular expression in the expression of the
    /// parameter: `text` is the expression as it was parsed.
    pub(crate) fn with_span(self, parameter: &str, text: &str, expr: &Expr) -> Self {
        let Some(pattern) = &self.0.regexp else { return self };
        let mut found = None;
        expr.for_each_term(&mut |term, span| match &term.test {
            Test::Regexp(regexp) if regexp.pattern == *pattern => found = found.or(Some(span)),
            _ => {}
        });
        let Some(span) = found else { return self };
        let (text, message) = (text.to_owned(), self.0.title);
        let error = ParseError { text, span, message, expected: None, suggestion: None };
        Self::expression(parameter, &error)
    }

    pub(crate) fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn response(&self, content_type: &'static str, document: &Value) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(seconds) = self.0.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            headers.insert(RATELIMIT_RESET, HeaderValue::from(seconds));
        }
        let always = [(header::CONTENT_TYPE, content_type), NO_STORE];
        (self.code(), headers, always, format!("{document}\n")).into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.response("application/problem+json", &json!(self))
    }
}

/// Error response in the format of Datadog's API.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DatadogErrors<'a> {
    /// A single text with the full description.
    errors: [&'a str; 1],
    /// The same for programs.
    weir: &'a ProblemDocument,
}

/// A problem on one of Datadog's paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatadogProblem(pub(crate) Problem);

impl From<Problem> for DatadogProblem {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for DatadogProblem {
    fn into_response(self) -> Response {
        let document = &self.0.0;
        let errors = [document.detail.as_ref().unwrap_or(&document.title).as_str()];
        self.0.response("application/json", &json!(DatadogErrors { errors, weir: document }))
    }
}
