//! HTTP/1.1 or 2 to one destination over a few kept-alive connections.
//!
//! Invariants: a connection carries one request at a time; it returns to the pool only after a
//! complete, well-formed response; every request has a deadline; responses are read up to a limit,
//! and the meaning of a status does not depend on whether its body was received completely.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::Instant;
use weir_host::{Clock, ConnectError, Connector, Stream};

use super::answer::{self, Answer, GrpcEnd};
use super::body::{Body, Outgoing};
use super::sender::SenderSettings;

/// Maximum number of bytes read of a response: a collector's responses are one line.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Age at which a connection is replaced, so that changed names, certificates and load balancers
/// take effect even if the collector is never down.
const CONNECTION_AGE_MAX: Duration = Duration::from_mins(5);
/// Once this much waits to be written, hyper writes it before it asks for more of the body: each
/// chunk of a body is written while it is in the processor cache, and before the next one is
/// created. The chunks themselves are handed over as they are, however large.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// Interval of keep-alive pings during a request. Loggregator's servers close connections whose
/// clients send pings more often than every ten seconds.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How long the answer to a ping may take.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

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
    /// The connection failed, or the response was not HTTP.
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

/// Sends the requests of a connection.
#[derive(Debug)]
enum RequestSender {
    Http1(http1::SendRequest<Outgoing>),
    Http2(http2::SendRequest<Outgoing>),
}

impl RequestSender {
    fn is_ready(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_ready(),
            Self::Http2(sender) => sender.is_ready(),
        }
    }

    async fn send(&mut self, request: Request<Outgoing>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

#[derive(Debug)]
struct Connection {
    sender: RequestSender,
    /// The `:authority` of HTTP/2 requests.
    authority: String,
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
    /// One for each address; new connections try them in turn.
    connectors: Vec<Connector>,
    next_connector: AtomicUsize,
    is_http_2: bool,
    method: Method,
    headers: HeaderMap,
    send_channel: bool,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    pub(crate) fn new(
        connectors: Vec<Connector>,
        sending: &SenderSettings,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            connectors,
            next_connector: AtomicUsize::new(0),
            is_http_2: sending.protocol.is_http_2(),
            method: sending.method.clone(),
            headers: sending.headers.clone(),
            send_channel: sending.send_channel,
            timeout: sending.requests.request_timeout,
            clock,
            idle: Mutex::default(),
        }
    }

    pub(crate) fn target(&self) -> String {
        let targets: Vec<String> = self.connectors.iter().map(Connector::target).collect();
        targets.join(", ")
    }

    /// Returns the error of changed certificate files, if there is one.
    pub(crate) fn reload_error(&self) -> Option<String> {
        self.connectors.iter().find_map(Connector::reload_error)
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
        let request = self.request(&connection, path, body, &channel)?;
        let deadline = Instant::now() + self.timeout;
        let response = tokio::time::timeout_at(deadline, connection.sender.send(request))
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
        let at_once = GrpcEnd::of(response.headers());
        let (body, trailers, is_whole) = read_answer(response.into_body(), deadline).await;
        let grpc = at_once.or_else(|| GrpcEnd::of(&trailers?));
        Answer { status, retry_after, grpc, is_splunk, body, is_whole }
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
        let (stream, authority) = self.open().await?;
        let stream = TokioIo::new(stream);
        // The task ends with the connection; the request reports its errors.
        let sender = if self.is_http_2 {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .handshake(stream)
                .await
                .map_err(|e| self.broken(&e))?;
            tokio::spawn(connection);
            RequestSender::Http2(sender)
        } else {
            let (sender, connection) = http1::Builder::new()
                .max_buf_size(WRITE_BUFFER_BYTES)
                .handshake(stream)
                .await
                .map_err(|e| self.broken(&e))?;
            tokio::spawn(connection);
            RequestSender::Http1(sender)
        };
        let (opened, channel) = (Instant::now(), new_channel().into());
        Ok(Connection { sender, authority, opened, channel })
    }

    /// Opens a connection to the next address that accepts one.
    async fn open(&self) -> Result<(Stream, String), SendError> {
        let first = self.next_connector.fetch_add(1, Ordering::Relaxed);
        let mut attempt = 0;
        loop {
            let connector = &self.connectors[(first + attempt) % self.connectors.len()];
            attempt += 1;
            match connector.connect().await {
                Ok(stream) => return Ok((stream, connector.target())),
                Err(error) if attempt >= self.connectors.len() => return Err(error.into()),
                Err(error) => tracing::debug!(%error, "trying the next address"),
            }
        }
    }

    fn request(
        &self,
        connection: &Connection,
        path: &str,
        body: &Body,
        channel: &str,
    ) -> Result<Request<Outgoing>, SendError> {
        let mut request = Request::new(body.outgoing());
        *request.method_mut() = self.method.clone();
        let uri = match connection.sender {
            RequestSender::Http1(_) => path.parse(),
            RequestSender::Http2(_) => format!("http://{}{path}", connection.authority).parse(),
        };
        *request.uri_mut() = uri.map_err(|_| self.unsendable())?;
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

/// Reads a body up to the limit, and its trailers; false if it is longer than that, or is not
/// received completely.
async fn read_answer(mut body: Incoming, deadline: Instant) -> (Vec<u8>, Option<HeaderMap>, bool) {
    let (mut read, mut trailers) = (Vec::new(), None);
    loop {
        let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return (read, trailers, true),
            Ok(Some(Err(_))) | Err(_) => return (read, trailers, false),
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(other) => {
                trailers = other.into_trailers().ok();
                continue;
            }
        };
        let room = ANSWER_BYTES_MAX - read.len();
        if data.len() > room {
            read.extend_from_slice(&data[..room]);
            return (read, trailers, false);
        }
        read.extend_from_slice(&data);
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
