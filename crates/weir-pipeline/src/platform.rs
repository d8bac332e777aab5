//! Requests to the servers of a platform, such as UAA and the Cloud Controller of Cloud Foundry.
//!
//! Invariants: each request has its own connection, as they are rare; it has a deadline and a limit
//! on its answer, and only a few are open at a time; redirects are not followed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use weir_host::{ConnectError, Connector, ConnectorSettings, TlsFiles};

use crate::config::Endpoint;

/// Maximum time of a request, shorter than in the original (20 s), since readers give up earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent requests; others wait.
const REQUESTS_MAX: usize = 32;

/// A client of one server.
#[derive(Debug)]
pub struct PlatformClient {
    connector: Connector,
    authority: String,
    /// Prefix of every path.
    prefix: String,
    answer_bytes_max: usize,
    open: Semaphore,
}

/// A request.
pub enum PlatformRequest<'a> {
    /// A form, with the credentials of a client.
    Form {
        /// The path of the request.
        path: &'a str,
        /// Name of the client.
        user: &'a str,
        /// Its secret.
        password: &'a str,
        /// The form, encoded.
        form: String,
    },
    /// A `GET` request with a token.
    Get {
        /// The path of the request.
        path: &'a str,
        /// The token; `None` if the client certificate is enough.
        token: Option<&'a str>,
    },
}

/// A response.
#[derive(Debug)]
pub struct PlatformResponse {
    /// Its status.
    pub status: u16,
    /// All of its body.
    pub body: Vec<u8>,
}

impl PlatformResponse {
    /// Returns whether the body contains a word.
    pub fn says(&self, word: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(word)
    }
}

impl PlatformClient {
    /// Reads the certificate files. Responses longer than `answer_bytes_max` are errors.
    pub fn new(
        endpoint: &Endpoint,
        tls: TlsFiles,
        answer_bytes_max: usize,
    ) -> Result<Self, ConnectError> {
        let connector = Connector::new(ConnectorSettings {
            host: endpoint.host.clone(),
            port: endpoint.port,
            tls: endpoint.tls.then_some(tls),
            connect_timeout: REQUEST_TIMEOUT,
            handshake_timeout: REQUEST_TIMEOUT,
        })?;
        Ok(Self {
            connector,
            authority: endpoint.authority.clone(),
            prefix: endpoint.path.trim_end_matches('/').to_owned(),
            answer_bytes_max,
            open: Semaphore::new(REQUESTS_MAX),
        })
    }

    /// Sends a request. The error text does not contain the request.
    pub async fn send(&self, request: &PlatformRequest<'_>) -> Result<PlatformResponse, String> {
        let target = self.connector.target();
        // The semaphore is never closed.
        let _turn = self.open.acquire().await;
        match timeout(REQUEST_TIMEOUT, self.exchange(request)).await {
            Ok(answer) => answer.map_err(|error| format!("{target}: {error}")),
            Err(_) => Err(format!("{target} did not respond within {REQUEST_TIMEOUT:?}")),
        }
    }

    async fn exchange(
        &self,
        request: &PlatformRequest<'_>,
    ) -> Result<PlatformResponse, Box<dyn std::error::Error + Send + Sync>> {
        let stream = self.connector.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the connection; the request reports its errors.
        tokio::spawn(connection);
        let response = sender.send_request(self.http_request(request)?).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), self.answer_bytes_max).collect().await?;
        Ok(PlatformResponse { status, body: body.to_bytes().into() })
    }

    fn http_request(
        &self,
        request: &PlatformRequest<'_>,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let builder = |path: &str| {
            Request::builder()
                .uri(format!("{}{path}", self.prefix))
                .header(HOST, &self.authority)
                .header(ACCEPT, "application/json")
        };
        match request {
            PlatformRequest::Form { path, user, password, form } => builder(path)
                .method(Method::POST)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .header(AUTHORIZATION, secret(&basic(user, password))?)
                .body(Full::new(form.clone().into())),
            PlatformRequest::Get { path, token } => {
                let mut builder = builder(path).method(Method::GET);
                if let Some(token) = token {
                    builder = builder.header(AUTHORIZATION, secret(&format!("bearer {token}"))?);
                }
                builder.body(Full::default())
            }
        }
    }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn secret(text: &str) -> Result<HeaderValue, hyper::http::Error> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
