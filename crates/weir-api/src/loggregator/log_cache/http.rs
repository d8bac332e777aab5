//! `/api/v1/info`, `/read/{source_id}`, `/meta` and queries: the log-cache over HTTP.
//!
//! Invariant: an error is a status of gRPC as JSON, with the HTTP status that belongs to it.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use weir_codec::{GrpcStatus, write_log_cache_meta_json, write_loggregator_json};

use super::super::ServiceState;
use super::super::body::ServiceBody;
use super::super::health::drains;
use super::super::stored::{ReadError, StoredBatch};
use super::access::Listed;
use super::request::{self, InvalidParameter};
use super::{of_answer, promql, read, sources};

/// The release of the original with which these paths are compatible; clients use it to choose
/// paths.
const VERSION: &str = "3.0.0";

/// The header with the reason why a response may be incomplete.
const PARTIAL: &str = "x-weir-partial";

/// A status of gRPC, over HTTP.
#[derive(Debug)]
struct Problem {
    http: StatusCode,
    code: u16,
    message: String,
}

impl Problem {
    const NOT_FOUND: u16 = 5;

    fn new(http: StatusCode, code: u16, message: impl Into<String>) -> Self {
        Self { http, code, message: message.into() }
    }

    fn response(&self) -> Response<ServiceBody> {
        let Self { http, code, message } = self;
        let message = serde_json::Value::from(message.as_str());
        let body = format!("{{\"code\":{code},\"message\":{message},\"details\":[]}}");
        json(*http, body.into_bytes())
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let http = match &error {
            ReadError::Invalid(_) | ReadError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
            ReadError::TooLarge => StatusCode::TOO_MANY_REQUESTS,
            ReadError::Late => StatusCode::GATEWAY_TIMEOUT,
            ReadError::Busy | ReadError::Starting => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(http, error.code() as u16, error.to_string())
    }
}

impl From<InvalidParameter> for Problem {
    fn from(error: InvalidParameter) -> Self {
        Self::new(StatusCode::BAD_REQUEST, GrpcStatus::InvalidArgument as u16, error.0)
    }
}

fn json(status: StatusCode, mut text: Vec<u8>) -> Response<ServiceBody> {
    text.push(b'\n');
    let mut response = Response::new(ServiceBody::Whole(Some(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The health of drains, which the originals serve on the port of the log-cache; no token is
/// needed.
pub(super) fn health(state: &ServiceState) -> Response<ServiceBody> {
    match state.view() {
        Some(view) => json(StatusCode::OK, drains(&view).trim_end().as_bytes().to_vec()),
        None => Problem::from(ReadError::Starting).response(),
    }
}

/// Answers a request.
pub(super) async fn answer<B>(
    state: &ServiceState,
    request: &Request<B>,
    listed: &Listed,
) -> Response<ServiceBody> {
    match respond(state, request, listed).await {
        Ok(response) => response,
        Err(problem) => {
            state.refuse(&problem.message);
            problem.response()
        }
    }
}

async fn respond<B>(
    state: &ServiceState,
    request: &Request<B>,
    listed: &Listed,
) -> Result<Response<ServiceBody>, Problem> {
    let path = request.uri().path();
    let Some(path) = path.strip_prefix("/api/v1/") else {
        return Err(Problem::new(StatusCode::NOT_FOUND, Problem::NOT_FOUND, "Not Found"));
    };
    if request.method() != Method::GET {
        let code = GrpcStatus::Unimplemented as u16;
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, code, "Method Not Allowed"));
    }
    let query = request.uri().query().unwrap_or_default();
    // As in the original, a source without a name is one, too.
    let source_id = if path == "read" { Some("") } else { path.strip_prefix("read/") };
    match (path, source_id) {
        ("info", _) => Ok(info()),
        ("meta", _) => meta(state, listed).await,
        ("query", _) => Ok(promql::query(state, query).await),
        ("query_range", _) => Ok(promql::query_range(state, query).await),
        (_, Some(source_id)) => envelopes(state, source_id, query).await,
        (_, None) => Err(Problem::new(StatusCode::NOT_FOUND, Problem::NOT_FOUND, "Not Found")),
    }
}

fn info() -> Response<ServiceBody> {
    let uptime = rustix::system::sysinfo().uptime;
    let text = format!("{{\"version\":\"{VERSION}\",\"vm_uptime\":\"{uptime}\"}}");
    json(StatusCode::OK, text.into_bytes())
}

async fn meta(state: &ServiceState, listed: &Listed) -> Result<Response<ServiceBody>, Problem> {
    let sources = sources(state).await?;
    let mut text = Vec::with_capacity(128 * sources.spans.len() + 16);
    write_log_cache_meta_json(of_answer(&sources, listed), &mut text);
    let mut response = json(StatusCode::OK, text);
    if sources.coverage.is_partial() {
        response.headers_mut().insert(PARTIAL, HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn envelopes(
    state: &ServiceState,
    source_id: &str,
    query: &str,
) -> Result<Response<ServiceBody>, Problem> {
    let asked = request::read(source_id, query)?;
    let (text, partial) = read(state, asked, text_of).await?;
    let mut response = json(StatusCode::OK, text);
    if let Some(reason) = partial {
        response.headers_mut().insert(PARTIAL, HeaderValue::from_static(reason));
    }
    Ok(response)
}

fn text_of(batch: &StoredBatch) -> Vec<u8> {
    let mut text = b"{\"envelopes\":{\"batch\":[".to_vec();
    let before = text.len();
    for envelope in batch.envelopes() {
        let end = text.len();
        if end > before {
            text.push(b',');
        }
        if write_loggregator_json(envelope, &mut text).is_err() {
            text.truncate(end);
        }
    }
    text.extend_from_slice(b"]}}");
    text
}
