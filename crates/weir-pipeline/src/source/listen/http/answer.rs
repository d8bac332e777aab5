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
    /// An additional header of the protocol.
    header: Option<(&'static str, HeaderValue)>,
}

impl Answer {
    /// Creates a response with this JSON body.
    pub(in crate::source) fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, body: body.into(), retry_after: None, header: None }
    }

    /// Adds a pause after which the client should retry.
    pub(in crate::source) fn retry_after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }

    /// Adds a header that is specific to the protocol.
    pub(in crate::source) fn header(self, name: &'static str, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// Converts it to HTTP.
    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(pause) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds(pause)));
        }
        if let Some((name, value)) = self.header {
            headers.insert(name, value);
        }
        response
    }
}

/// Returns the pause in seconds, as sent to the client.
pub(in crate::source) fn retry_after_seconds(pause: Duration) -> u64 {
    pause.as_secs().max(1)
}
