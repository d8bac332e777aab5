//! Sends messages in HTTP requests, with one or many in each.
//!
//! Requests are sent one at a time on a connection, so that messages stay in order. A status from
//! 200 to 299 accepts the messages of the request. A few others reject them permanently; everything
//! else is retried.

use std::ops::Range;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use super::limits::{
    ANSWER_BYTES_MAX, BATCH_BYTES_MAX, CONNECTION_AGE_MAX, HTTP_IDLE_MAX, REQUEST_TIMEOUT,
};
use super::{Dialer, Failure, Messages, SendResult};
use crate::drain::binding::DrainUrl;

/// Sends requests to one URL.
#[derive(Debug)]
pub(super) struct Poster {
    /// Sends many messages per request.
    is_batch: bool,
    headers: HeaderMap,
    target: String,
    open: Option<HttpConnection>,
}

#[derive(Debug)]
struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    opened: Instant,
    last_used: Instant,
}

/// The meaning of a response status.
enum Verdict {
    Accepted,
    /// The messages would be rejected again.
    Rejected,
    Retry,
}

impl Verdict {
    fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Accepted,
            // Bad request, too large, unsupported type, unprocessable.
            400 | 413 | 415 | 422 => Self::Rejected,
            _ => Self::Retry,
        }
    }
}

impl HttpConnection {
    fn is_usable(&self) -> bool {
        self.sender.is_ready()
            && self.opened.elapsed() < CONNECTION_AGE_MAX
            && self.last_used.elapsed() < HTTP_IDLE_MAX
    }
}

impl Poster {
    pub(super) fn new(url: &DrainUrl, is_batch: bool) -> Self {
        let mut headers = url.endpoint().headers().unwrap_or_default();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let credentials = url.authorization().map(|value| HeaderValue::from_str(value.expose()));
        if let Some(Ok(mut value)) = credentials {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Self { is_batch, headers, target: url.endpoint().target(), open: None }
    }

    /// Returns one that sends the same kind of requests over a connection of its own.
    pub(super) fn for_another_connection(&self) -> Self {
        let (headers, target) = (self.headers.clone(), self.target.clone());
        Self { is_batch: self.is_batch, headers, target, open: None }
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|connection| !connection.sender.is_closed())
    }

    /// Sends messages, request by request, until one is not accepted. Counts those that are.
    pub(super) async fn send(
        &mut self,
        dialer: &Dialer,
        messages: &Messages,
        accepted: &mut usize,
    ) -> SendResult {
        while *accepted < messages.len() {
            let part = self.part(messages, *accepted);
            let body = &messages.bytes[messages.start(part.start)..messages.ends[part.end - 1]];
            match self.send_body(dialer, body, part.len()).await {
                SendResult::Done => *accepted = part.end,
                result => return result,
            }
        }
        SendResult::Done
    }

    /// Sends a request with this many messages.
    pub(super) async fn send_body(
        &mut self,
        dialer: &Dialer,
        body: &[u8],
        messages: usize,
    ) -> SendResult {
        let status = match self.post(dialer, Bytes::copy_from_slice(body)).await {
            Ok(status) => status,
            Err(failure) => return failure.into(),
        };
        let text = || dialer.failure("status", &format!("responded with status {status}"));
        match Verdict::of(status) {
            Verdict::Accepted => SendResult::Done,
            Verdict::Rejected => SendResult::Rejected { messages, text: text().text },
            Verdict::Retry => text().into(),
        }
    }

    /// Returns the messages of the next request: at least one.
    fn part(&self, messages: &Messages, first: usize) -> Range<usize> {
        if !self.is_batch {
            return first..first + 1;
        }
        let limit = messages.start(first) + BATCH_BYTES_MAX;
        let fitting = messages.ends[first..].partition_point(|end| *end <= limit);
        first..first + fitting.max(1)
    }

    /// Sends a request. Returns the status of the response.
    async fn post(&mut self, dialer: &Dialer, body: Bytes) -> Result<u16, Failure> {
        if let Some(connection) = self.open.take().filter(HttpConnection::is_usable) {
            // The server may have just closed it: retry at once on a new one.
            match self.exchange(dialer, connection, body.clone()).await {
                Err(failure) if failure.kind == "reset" => {}
                answered => return answered,
            }
        }
        let (sender, connection) = http1::handshake(TokioIo::new(dialer.dial().await?))
            .await
            .map_err(|error| broken(dialer, &error))?;
        // Ends with the connection; the request reports its errors.
        tokio::spawn(connection);
        let now = Instant::now();
        let connection = HttpConnection { sender, opened: now, last_used: now };
        self.exchange(dialer, connection, body).await
    }

    async fn exchange(
        &mut self,
        dialer: &Dialer,
        mut connection: HttpConnection,
        body: Bytes,
    ) -> Result<u16, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self
            .target
            .parse()
            .map_err(|_| dialer.failure("path", "the path is not valid in HTTP"))?;
        request.headers_mut().clone_from(&self.headers);
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let response = timeout_at(deadline, connection.sender.send_request(request))
            .await
            .map_err(|_| {
                let text = format!("no response within {REQUEST_TIMEOUT:?}");
                dialer.failure("timeout", &text)
            })?
            .map_err(|error| broken(dialer, &error))?;
        let status = response.status().as_u16();
        if has_ended(response, deadline).await {
            connection.last_used = Instant::now();
            self.open = Some(connection);
        }
        Ok(status)
    }
}

fn broken(dialer: &Dialer, error: &hyper::Error) -> Failure {
    if error.is_parse() {
        return dialer.failure("garbage", &format!("sent an invalid HTTP response ({error})"));
    }
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let cause = cause.unwrap_or_default();
    dialer.failure("reset", &format!("the connection failed before a response ({error}{cause})"))
}

/// Reads a response up to a limit, so that its connection can be reused, and returns whether it
/// ended before that. The body is discarded and must not be shown: the owner of a drain that points
/// to a server inside the platform could read internal data.
async fn has_ended(response: Response<Incoming>, deadline: Instant) -> bool {
    let mut body = response.into_body();
    let mut len = 0;
    while len <= ANSWER_BYTES_MAX {
        match timeout_at(deadline, body.frame()).await {
            Ok(None) => return true,
            Ok(Some(Ok(frame))) => len += frame.data_ref().map_or(0, Bytes::len),
            Ok(Some(Err(_))) | Err(_) => return false,
        }
    }
    false
}
