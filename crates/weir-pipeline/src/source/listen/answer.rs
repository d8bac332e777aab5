//! Responses to requests, for all protocols.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

/// A response to a client.
#[derive(Debug, Clone)]
pub(in crate::source) struct Answer {
    pub(in crate::source) status: StatusCode,
    /// The body, JSON.
    pub(in crate::source) body: Bytes,
    /// When the client should retry.
    pub(in crate::source) retry_after: Option<Duration>,
}

impl Answer {
    /// Creates a response with this JSON body.
    pub(in crate::source) fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, body: body.into(), retry_after: None }
    }

    /// Adds a pause after which the client should retry.
    pub(in crate::source) fn retry_after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }

    /// Converts it to HTTP.
    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(pause) = self.retry_after {
            let seconds = HeaderValue::from(pause.as_secs().max(1));
            headers.insert(RETRY_AFTER, seconds.clone());
            // The header that Datadog's clients use.
            headers.insert("x-ratelimit-reset", seconds);
        }
        response
    }
}
