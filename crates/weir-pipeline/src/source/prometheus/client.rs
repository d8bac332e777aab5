//! The requests to one target, over a connection that is reused from one scrape to the next.
//!
//! Invariants: a connection is reused only after a complete response; a response never exceeds its
//! limit, compressed or not, and its bytes are charged as they arrive; redirects are not followed.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use weir_codec::PrometheusError;
use weir_host::{
    ConnectError, Connector, ConnectorSettings, ContentCoding, DecompressError, TlsFiles,
};

use super::ScrapeTarget;
use crate::config::{Endpoint, EndpointError};
use crate::output::http_credentials;
use crate::source::listen::{Budget, Charge};

/// The text format is preferred: it is what Loggregator's own scraper reads.
const ACCEPTED: &str =
    "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5, */*;q=0.1";

/// Why a scrape failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScrapeError {
    /// The URL cannot be used.
    #[error("the URL {0}")]
    Url(#[from] EndpointError),
    /// A header cannot be sent.
    #[error("the header {0:?} is not valid")]
    Header(String),
    /// The connection could not be established.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The response was not complete in time.
    #[error("no complete response within {after:?}")]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The connection failed, or the response is not HTTP.
    #[error("the connection failed: {0}")]
    Broken(#[from] hyper::Error),
    /// A status other than 200.
    #[error("the target responded with status {0}")]
    Status(StatusCode),
    /// The response is too large.
    #[error("the response exceeds {max_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// All targets together have sent too much at once.
    #[error("no memory for the response: other targets use all of in_flight_max")]
    NoMemory,
    /// The content coding of the response is not supported.
    #[error("the response has an unsupported content coding")]
    Coding,
    /// The response cannot be decompressed.
    #[error(transparent)]
    Decompress(#[from] DecompressError),
    /// The response is not in the text format.
    #[error("the response is not in the text format: {0}")]
    Text(#[from] PrometheusError),
}

impl ScrapeError {
    /// Returns a fixed identifier for counters.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::Header(_) => "target",
            Self::Connect(error) => error.kind(),
            Self::Timeout { .. } => "timeout",
            Self::Broken(_) => "reset",
            Self::Status(_) => "status",
            Self::TooLarge { .. } | Self::Decompress(DecompressError::TooLarge { .. }) => {
                "too_large"
            }
            Self::NoMemory => "no_memory",
            Self::Coding | Self::Decompress(DecompressError::Corrupt { .. }) => "encoding",
            Self::Text(_) => "malformed_metrics",
        }
    }
}

/// A response, with its share of the memory limit.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    _charge: Charge,
}

/// Sends requests to one target.
#[derive(Debug)]
pub(super) struct Client {
    connector: Connector,
    path: String,
    headers: HeaderMap,
    body_bytes_max: usize,
    open: Option<SendRequest<Empty<Bytes>>>,
}

impl Client {
    /// Reads the certificates of a target, and prepares its requests.
    pub(super) fn new(target: &ScrapeTarget, body_bytes_max: usize) -> Result<Self, ScrapeError> {
        let endpoint = Endpoint::url(&target.url)?;
        let tls = TlsFiles { is_http_2: false, ..target.tls.files() };
        let connector = Connector::new(ConnectorSettings {
            host: endpoint.host.clone(),
            port: endpoint.port,
            tls: endpoint.tls.then_some(tls),
            connect_timeout: target.timeout,
            handshake_timeout: target.timeout,
        })?;
        let headers = headers(&endpoint, target)?;
        Ok(Self { connector, path: endpoint.target(), headers, body_bytes_max, open: None })
    }

    /// Requests the metrics. If it is cancelled, the connection is closed.
    pub(super) async fn fetch(&mut self, budget: &Budget) -> Result<Answer, ScrapeError> {
        let (sender, response) = self.send().await?;
        let (response, body) = response.into_parts();
        if response.status != StatusCode::OK {
            return Err(ScrapeError::Status(response.status));
        }
        let coding = response.headers.get(header::CONTENT_ENCODING);
        let coding = coding.map_or(Some(""), |value| value.to_str().ok());
        let coding = coding.and_then(ContentCoding::parse).ok_or(ScrapeError::Coding)?;
        let mut charge = Charge::new(budget);
        let mut read = self.read(body, &mut charge).await?;
        self.open = Some(sender);
        if coding != ContentCoding::Identity {
            let mut plain = Vec::new();
            coding.decompress(&read, self.body_bytes_max, &mut plain)?;
            if !charge.grow(plain.len()) {
                return Err(ScrapeError::NoMemory);
            }
            read = plain;
        }
        Ok(Answer { body: read, _charge: charge })
    }

    /// Sends a request over the open connection, or over a new one if that fails.
    async fn send(
        &mut self,
    ) -> Result<(SendRequest<Empty<Bytes>>, Response<Incoming>), ScrapeError> {
        if let Some(mut sender) = self.open.take()
            && sender.ready().await.is_ok()
            // The target may have closed it meanwhile.
            && let Ok(response) = sender.send_request(self.request()).await
        {
            return Ok((sender, response));
        }
        let stream = TokioIo::new(self.connector.connect().await?);
        let (mut sender, connection) = http1::handshake(stream).await?;
        // The task ends with the connection; the request reports its errors.
        tokio::spawn(connection);
        let response = sender.send_request(self.request()).await?;
        Ok((sender, response))
    }

    fn request(&self) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        // The path of an endpoint is valid.
        *request.uri_mut() = self.path.parse().unwrap_or_default();
        request.headers_mut().clone_from(&self.headers);
        request
    }

    async fn read(&self, mut body: Incoming, charge: &mut Charge) -> Result<Vec<u8>, ScrapeError> {
        let mut read = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            if read.len() + data.len() > self.body_bytes_max {
                return Err(ScrapeError::TooLarge { max_bytes: self.body_bytes_max });
            }
            if !charge.grow(data.len()) {
                return Err(ScrapeError::NoMemory);
            }
            read.extend_from_slice(&data);
        }
        Ok(read)
    }
}

fn headers(endpoint: &Endpoint, target: &ScrapeTarget) -> Result<HeaderMap, ScrapeError> {
    let invalid = |name: &str| ScrapeError::Header(name.to_owned());
    let mut headers = endpoint.headers().ok_or_else(|| invalid("host"))?;
    headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    if let Some(credentials) = http_credentials(&target.auth) {
        let value = HeaderValue::from_str(&credentials);
        let mut value = value.map_err(|_| invalid("authorization"))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    for (name, value) in &target.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
        let value = HeaderValue::from_str(value).ok();
        let (parsed, mut value) = parsed.zip(value).ok_or_else(|| invalid(name))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}
