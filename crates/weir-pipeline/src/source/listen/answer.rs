//! Answers to requests, whatever the protocol.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

/// What a client is told.
#[derive(Debug, Clone)]
pub(in crate::source) struct Answer {
    pub(in crate::source) status: StatusCode,
    /// JSON.
    pub(in crate::source) body: Bytes,
    /// When it is worth coming again.
    pub(in crate::source) retry_after: Option<Duration>,
}

impl Answer {
    /// With this JSON.
    pub(in crate::source) fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, body: body.into(), retry_after: None }
    }

    /// The same, and that the client shall come again.
    pub(in crate::source) fn retry_after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }

    /// As HTTP.
    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(pause) = self.retry_after {
            let seconds = HeaderValue::from(pause.as_secs().max(1));
            headers.insert(RETRY_AFTER, seconds.clone());
            // What Datadog's clients look at.
            headers.insert("x-ratelimit-reset", seconds);
        }
        response
    }
}
