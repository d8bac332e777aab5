//! gRPC calls over HTTP/2: which method a request calls, and how a call ends. For services that
//! receive records and for those that serve them.

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request;
use hyper::{Method, StatusCode};
use weir_codec::{GrpcStatus, LoggregatorError};

/// Services that receive envelopes.
const RECEIVING: [&str; 3] =
    ["loggregator.v2.Ingress", "plumbing.DopplerIngestor", "logcache.v1.Ingress"];

/// Services that readers call.
const READ: [&str; 2] = ["loggregator.v2.Egress", "plumbing.Doppler"];

/// How a call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its code.
    pub code: GrpcStatus,
    /// Its message.
    pub message: String,
}

/// Why a request is not served.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not a gRPC request.
    Http(StatusCode),
    /// The call is refused with a gRPC status.
    Status(Status),
}

impl Status {
    /// Creates a status.
    pub fn new(code: GrpcStatus, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns the status for a method that the service does not have.
    pub fn unknown_method(service: &str, method: &str) -> Self {
        let text = format!("unknown method {method} for service {service}");
        Self::new(GrpcStatus::Unimplemented, text)
    }

    /// Returns the status for a service that a port does not have. Loggregator's router has one
    /// port for senders and readers, so those that are sent to the wrong one are told where to
    /// connect.
    pub fn unknown_service(service: &str) -> Self {
        let advice = if RECEIVING.contains(&service) {
            ": envelopes are received by a source of type \"loggregator\", on its own port"
        } else if READ.contains(&service) {
            ": readers connect to the port of loggregator.egress"
        } else {
            ""
        };
        Self::new(GrpcStatus::Unimplemented, format!("unknown service {service}{advice}"))
    }

    /// Returns the status for a message that cannot be decoded.
    pub fn unreadable(error: &LoggregatorError) -> Self {
        Self::new(GrpcStatus::Internal, format!("grpc: error unmarshalling request: {error}"))
    }

    /// Adds the status to headers or trailers.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.insert("grpc-status", HeaderValue::from(self.code as u16));
        if let Ok(message) = HeaderValue::from_str(&GrpcStatus::percent_encoded(&self.message)) {
            headers.insert("grpc-message", message);
        }
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// Returns which of these services a request calls, and the name of the method.
///
/// # Errors
/// If it is not a gRPC request, or for another service.
pub fn method<'h>(
    head: &'h request::Parts,
    services: &[&'static str],
) -> Result<(&'static str, &'h str), Refused> {
    if head.method != Method::POST {
        return Err(Refused::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !content_type.is_some_and(|kind| kind.starts_with("application/grpc")) {
        return Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let (called, method) = called(head);
    services
        .iter()
        .find(|service| **service == called)
        .map(|service| (*service, method))
        .ok_or_else(|| Status::unknown_service(called).into())
}

/// Returns whether a request sends envelopes, wherever it arrives.
pub fn is_from_sender(head: &request::Parts) -> bool {
    RECEIVING.contains(&called(head).0)
}

/// Returns the names of the service and of the method that a request calls.
fn called(head: &request::Parts) -> (&str, &str) {
    let path = head.uri.path();
    path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).unwrap_or((path, ""))
}

/// Adds the headers of every response.
pub fn add_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
}
