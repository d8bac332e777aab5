//! HTTP/1.1 to one destination over a few kept-alive connections.
//!
//! Invariants: a connection carries one request at a time; it returns to the pool only after a
//! complete, well-formed response; every request has a deadline; responses are read up to a limit,
//! and the meaning of a status does not depend on whether its body was received completely.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use weir_host::{Clock, ConnectError, Connector};

use super::answer::{self, Answer};
use super::body::{Body, Outgoing};
use super::sender::Sending;

/// Maximum number of bytes read of a response: a collector's responses are one line.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Age at which a connection is replaced, so that changed names, certificates and load balancers
/// take effect even if the collector is never down.
const CONNECTION_AGE_MAX: Duration = Duration::from_mins(5);
/// Once this much waits to be written, hyper writes it before it asks for more of the body: each
/// chunk of a body is written while it is in the processor cache, and before the next one is
/// created. The chunks themselves are handed over as they are, however large.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

const CHANNEL: HeaderName = HeaderName::from_static("x-splunk-request-channel");

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// No connection; nothing was sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The deadline passed.
    #[error("{target} did not respond within {after:?}")]
    Timeout { target: String, after: Duration },
    /// The connection broke, or the response was not HTTP.
    #[error("{target} {problem}")]
    Broken { target: String, kind: &'static str, problem: String },
}

impl SendError {
    /// Returns a fixed identifier for counters.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Connect(error) => error.kind(),
            Self::Timeout { .. } => "timeout",
            Self::Broken { kind, .. } => kind,
        }
    }

    /// Returns true if the collector may have received the records.
    pub(crate) fn may_have_arrived(&self) -> bool {
        !matches!(self, Self::Connect(_))
    }
}

/// A response with the channel of the connection that it was received on.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    pub(crate) channel: Arc<str>,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Outgoing>,
    opened: Instant,
    channel: Arc<str>,
}

impl Connection {
    fn is_usable(&self) -> bool {
        self.sender.is_ready() && self.opened.elapsed() < CONNECTION_AGE_MAX
    }
}

/// The connection pool.
#[derive(Debug)]
pub(crate) struct Client {
    connector: Connector,
    method: Method,
    headers: HeaderMap,
    send_channel: bool,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    pub(crate) fn new(connector: Connector, sending: &Sending, clock: Arc<dyn Clock>) -> Self {
        Self {
            connector,
            method: sending.method.clone(),
            headers: sending.headers.clone(),
            send_channel: sending.send_channel,
            timeout: sending.requests.request_timeout,
            clock,
            idle: Mutex::default(),
        }
    }

    pub(crate) fn target(&self) -> String {
        self.connector.target()
    }

    /// Returns what is wrong with changed certificate files, if anything.
    pub(crate) fn reload_error(&self) -> Option<String> {
        self.connector.reload_error()
    }

    /// Posts a body and reads the response. `channel` is set for queries about an earlier one.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Body,
        channel: Option<&Arc<str>>,
    ) -> Result<Reply, SendError> {
        let mut connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let channel = channel.cloned().unwrap_or_else(|| connection.channel.clone());
        let request = self.request(path, body, &channel)?;
        let deadline = Instant::now() + self.timeout;
        let response = tokio::time::timeout_at(deadline, connection.sender.send_request(request))
            .await
            .map_err(|_| SendError::Timeout { target: self.target(), after: self.timeout })?
            .map_err(|e| self.broken(&e))?;
        let answer = self.answer(response, deadline).await;
        if answer.is_whole {
            self.lock().push(connection);
        }
        Ok(Reply { answer, channel })
    }

    async fn answer(&self, response: Response<Incoming>, deadline: Instant) -> Answer {
        let (status, retry_after) = (response.status().as_u16(), self.retry_after(&response));
        let server = response.headers().get(header::SERVER);
        let is_splunk = server.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(b"splunkd"));
        let (body, is_whole) = read_answer(response.into_body(), deadline).await;
        Answer { status, retry_after, is_splunk, body, is_whole }
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.lock();
        while let Some(connection) = idle.pop() {
            if connection.is_usable() {
                return Some(connection);
            }
        }
        None
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let stream = self.connector.connect().await?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(WRITE_BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|e| self.broken(&e))?;
        // Ends with the connection; the request reports its errors.
        tokio::spawn(connection);
        Ok(Connection { sender, opened: Instant::now(), channel: new_channel().into() })
    }

    fn request(
        &self,
        path: &str,
        body: &Body,
        channel: &str,
    ) -> Result<Request<Outgoing>, SendError> {
        let mut request = Request::new(body.outgoing());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = path.parse().map_err(|_| self.unsendable())?;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        if let Some(encoding) = body.compression().content_encoding() {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        if self.send_channel {
            let value = HeaderValue::from_str(channel).map_err(|_| self.unsendable())?;
            headers.insert(CHANNEL, value);
        }
        Ok(request)
    }

    fn unsendable(&self) -> SendError {
        let problem = "cannot be reached: the path of the request is not valid".to_owned();
        SendError::Broken { target: self.target(), kind: "path", problem }
    }

    fn retry_after<T>(&self, response: &Response<T>) -> Option<Duration> {
        let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
        answer::retry_after(value, self.clock.unix_ns())
    }

    fn broken(&self, error: &hyper::Error) -> SendError {
        let (kind, problem) = if error.is_parse() {
            ("garbage", format!("sent an invalid HTTP response ({error})"))
        } else {
            let cause = std::error::Error::source(error).map(|e| format!(": {e}"));
            let cause = cause.unwrap_or_default();
            ("reset", format!("closed the connection before responding ({error}{cause})"))
        };
        SendError::Broken { target: self.target(), kind, problem }
    }
}

/// Reads a body up to the limit; false if it is longer than that, or is not received completely.
async fn read_answer(mut body: Incoming, deadline: Instant) -> (Vec<u8>, bool) {
    let mut read = Vec::new();
    loop {
        let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return (read, true),
            Ok(Some(Err(_))) | Err(_) => return (read, false),
        };
        let Some(data) = frame.data_ref() else { continue };
        let room = ANSWER_BYTES_MAX - read.len();
        if data.len() > room {
            read.extend_from_slice(&data[..room]);
            return (read, false);
        }
        read.extend_from_slice(data);
    }
}

/// Returns a random (version 4) GUID.
fn new_channel() -> String {
    let n = (fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{n:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_channel_is_a_guid() {
        let channel = super::new_channel();
        let lens: Vec<usize> = channel.split('-').map(str::len).collect();
        assert_eq!(lens, [8, 4, 4, 4, 12]);
        assert_eq!(channel.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&channel.as_bytes()[19]));
        assert_ne!(channel, super::new_channel());
    }
}
