//! Answers that say what is wrong: problem documents (RFC 9457).
//!
//! There is one shape of error, [`Problem`]. Paths of our own answer with it as it is; paths that
//! are Datadog's answer with their `errors` and have the problem beside, under `weir`.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use weir_expr::{Expr, ParseError, Span, Test};

/// Figures of this moment are of no use later.
pub(crate) const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// When to try again, as clients of Datadog read it, seconds.
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What is wrong with a request, or with weir.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem(Box<ProblemDocument>);

/// What is wrong with a request, or with weir (RFC 9457).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ProblemDocument {
    /// Always `about:blank`: the status says what kind it is.
    #[serde(rename = "type")]
    type_uri: &'static str,
    /// The status of the answer.
    status: u16,
    /// What is wrong, one line.
    title: String,
    /// The same at length, with the place marked in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The parameter or member of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// Where in its text, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<Place>,
    /// What could stand there.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    /// What would probably be right, in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
    /// The pattern of the regular expression that is wrong, until its place is known.
    #[serde(skip)]
    #[schema(ignore)]
    regexp: Option<String>,
}

/// Bytes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Place {
    /// The first.
    start: usize,
    /// Behind the last.
    end: usize,
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        Self { start: span.start, end: span.end }
    }
}

impl Problem {
    /// Something is wrong, and this is what.
    pub(crate) fn new(code: StatusCode, title: impl Into<String>) -> Self {
        let (type_uri, status) = ("about:blank", code.as_u16());
        let document =
            ProblemDocument { type_uri, status, title: title.into(), ..Default::default() };
        Self(Box::new(document))
    }

    /// A parameter of the request is wrong.
    pub(crate) fn parameter(name: &str, what: impl std::fmt::Display) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, format!("{name}: {what}"));
        problem.0.parameter = Some(name.to_owned());
        problem
    }

    /// A parameter that is an expression, a field or a measure cannot be read: where, what was
    /// expected, what would probably be right.
    pub(crate) fn expression(name: &str, error: &ParseError) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, error.message.clone());
        problem.0.detail = Some(error.to_string());
        problem.0.parameter = Some(name.to_owned());
        problem.0.span = Some(error.span.into());
        problem.0.expected.clone_from(&error.expected);
        problem.0.suggestion.clone_from(&error.suggestion);
        problem
    }

    /// Later it may go well.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_seconds = Some(seconds);
        self
    }

    /// It is about this parameter.
    pub(crate) fn of(mut self, parameter: &str) -> Self {
        self.0.parameter = Some(parameter.to_owned());
        self
    }

    /// It is about a regular expression with this pattern, wherever that stands.
    pub(crate) fn of_regexp(mut self, pattern: &str) -> Self {
        self.0.regexp = Some(pattern.to_owned());
        self
    }

    /// The same with its place, if it is about a regular expression of the expression that the
    /// parameter is: `text` as it was parsed.
    pub(crate) fn placed(self, parameter: &str, text: &str, expr: &Expr) -> Self {
        let Some(pattern) = &self.0.regexp else { return self };
        let mut place = None;
        expr.for_each_term(&mut |term, span| match &term.test {
            Test::Regexp(regexp) if regexp.pattern == *pattern => place = place.or(Some(span)),
            _ => {}
        });
        let Some(span) = place else { return self };
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

/// What is wrong, as clients of Datadog read it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DatadogErrors<'a> {
    /// One text, at length.
    errors: [&'a str; 1],
    /// The same for programs.
    weir: &'a ProblemDocument,
}

/// A problem on a path that is Datadog's.
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

/// The answer that something is wrong.
pub(crate) fn problem(code: StatusCode, title: &str) -> Response {
    Problem::new(code, title).into_response()
}

/// The answer that the expression cannot be read.
pub(crate) fn wrong_expression(error: &ParseError) -> Response {
    Problem::expression("query", error).into_response()
}
