//! Sends the messages of one drain.
//!
//! Syslog over TCP has no acknowledgements: a message counts as accepted when the kernel has taken
//! all of it. A message that was taken in part is sent again on the next connection. With HTTP, the
//! status of the response tells whether messages were accepted.
//!
//! Reading order: this file, `network`, `connection`, `post`, `lanes`.
//!
//! Invariants: messages are sent in order, or with several requests in flight, those of an
//! application instance are; and the number of accepted ones is exact; a connection
//! is not reused after an error, nor if sending was cancelled; the address of every connection is
//! checked after its name was resolved; redirects are not followed; every step has a deadline; no
//! text contains the user or the query of a URL.

mod connection;
mod lanes;
mod limits;
mod network;
mod post;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::time::{Instant, timeout};
use weir_host::{ConnectError, Connector, ConnectorSettings, Stream, TlsOptions};

use super::binding::{Binding, DrainScheme};
use connection::Connection;
use lanes::Lanes;
use limits::{ADDRESS_TIMEOUT, DIAL_TIMEOUT, IDLE_TIMEOUT, KEEP_ALIVE};
pub use network::{DeniedAddresses, DrainNetwork, DrainNetworkSettings};
use post::Poster;

/// Encoded messages, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Messages {
    /// The messages, with octet-counted framing if the drain needs it.
    pub bytes: Vec<u8>,
    /// The end of each message.
    pub ends: Vec<usize>,
}

/// The outcome of sending messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Number of accepted messages, from the first on.
    pub accepted: usize,
    /// The outcome for the next messages.
    pub result: SendResult,
    /// If several requests were in flight: later messages that were accepted (true) or rejected.
    pub others: Vec<(usize, bool)>,
}

/// Why messages were not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendResult {
    /// All were accepted.
    Done,
    /// Sending them again later may succeed.
    Retry {
        /// Fixed identifier for counters.
        kind: &'static str,
        /// What is wrong, without credentials.
        text: String,
    },
    /// The next messages are rejected permanently.
    Rejected {
        /// Number of rejected messages.
        messages: usize,
        /// What is wrong, without credentials.
        text: String,
    },
}

/// A failed attempt, which may be retried.
#[derive(Debug)]
struct Failure {
    kind: &'static str,
    text: String,
}

/// Sends the messages of one drain. At most one connection is open, or one for each request that
/// may be in flight.
#[derive(Debug)]
pub struct DrainSender {
    dialer: Dialer,
    state: ConnectionState,
    last_used: Instant,
}

#[derive(Debug)]
enum ConnectionState {
    /// Framed messages over a connection.
    Stream(Option<Connection>),
    /// HTTP requests with one message or many.
    Http(Lanes),
}

/// Opens connections to a drain.
#[derive(Debug)]
struct Dialer {
    binding: Arc<Binding>,
    network: DrainNetwork,
}

impl Messages {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all of them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns a message.
    fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index]]
    }

    /// Where a message begins.
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

impl DrainSender {
    /// Creates a sender, which connects when there is something to send.
    pub fn new(binding: Arc<Binding>, network: DrainNetwork) -> Self {
        let state = match binding.url.scheme {
            DrainScheme::Syslog | DrainScheme::SyslogTls => ConnectionState::Stream(None),
            DrainScheme::Https => {
                let poster = Poster::new(&binding.url, false);
                ConnectionState::Http(Lanes::new(poster, network.https_in_flight_max))
            }
            DrainScheme::HttpsBatch => {
                ConnectionState::Http(Lanes::new(Poster::new(&binding.url, true), 1))
            }
        };
        Self { dialer: Dialer { binding, network }, state, last_used: Instant::now() }
    }

    /// Sends messages in order, until all are accepted or one is not. If it is cancelled, the
    /// number of accepted messages is unknown.
    pub async fn send(&mut self, messages: &Messages) -> Sent {
        let mut accepted = 0;
        let result = match &mut self.state {
            ConnectionState::Stream(open) => {
                // Only put back after success.
                let connection = open.take();
                match connection::send(&self.dialer, connection, messages, &mut accepted).await {
                    Ok(connection) => {
                        *open = Some(connection);
                        SendResult::Done
                    }
                    Err(failure) => failure.into(),
                }
            }
            ConnectionState::Http(lanes) => {
                let sent = lanes.send(&self.dialer, messages).await;
                self.last_used = Instant::now();
                return sent;
            }
        };
        self.last_used = Instant::now();
        Sent { accepted, result, others: Vec::new() }
    }

    /// Opens a connection, if none is open, without sending anything.
    pub async fn probe(&mut self) -> SendResult {
        match self.dialer.dial().await {
            Ok(stream) => {
                drop(stream);
                SendResult::Done
            }
            Err(failure) => failure.into(),
        }
    }

    /// Closes the connection if nothing was sent for ten minutes. Returns whether one was closed.
    pub fn close_if_idle(&mut self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_used) >= IDLE_TIMEOUT && self.close()
    }

    /// Closes the connection. Returns whether one was open.
    pub fn close(&mut self) -> bool {
        match &mut self.state {
            ConnectionState::Stream(open) => open.take().is_some(),
            ConnectionState::Http(lanes) => lanes.close(),
        }
    }

    /// Returns whether a connection is open, as far as is known.
    pub fn is_open(&self) -> bool {
        match &self.state {
            ConnectionState::Stream(open) => open.is_some(),
            ConnectionState::Http(lanes) => lanes.is_open(),
        }
    }
}

impl Dialer {
    /// Opens a connection.
    async fn dial(&self) -> Result<Stream, Failure> {
        let connector = self.connector().map_err(|error| self.unreachable(&error))?;
        let connected = self.network.handshakes.run(connector.connect());
        match timeout(DIAL_TIMEOUT, connected).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => {
                Err(self
                    .failure("connect_timeout", &format!("not connected within {DIAL_TIMEOUT:?}")))
            }
        }
    }

    /// Built anew for each connection instead of kept, since most drains are idle.
    fn connector(&self) -> Result<Connector, ConnectError> {
        let url = &self.binding.url;
        let connector = Connector::new(ConnectorSettings {
            host: url.host.clone(),
            port: url.port,
            tls: None,
            connect_timeout: ADDRESS_TIMEOUT,
            handshake_timeout: DIAL_TIMEOUT,
        })?
        .filtered(Arc::clone(&self.network.denied) as _)
        .kept_alive(KEEP_ALIVE);
        if !url.scheme.is_tls() {
            return Ok(connector);
        }
        let options = TlsOptions { is_strict: url.is_strict, is_http: url.scheme.is_http() };
        let config = self.network.tls.config(&self.binding.credentials.pem(), options)?;
        Ok(connector.secured(config))
    }

    fn unreachable(&self, error: &ConnectError) -> Failure {
        let kind = error.kind();
        let text = match kind {
            "certificate_unknown_authority" => {
                "its certificate is signed by an unknown authority: add it to the credentials"
            }
            "certificate_wrong_name" => "its certificate is not valid for this host",
            _ => return self.failure(kind, &error.to_string()),
        };
        self.failure(kind, text)
    }

    /// Creates a failure whose text names the drain.
    fn failure(&self, kind: &'static str, text: &str) -> Failure {
        Failure { kind, text: format!("{}: {text}", self.binding.url) }
    }
}

impl From<Failure> for SendResult {
    fn from(Failure { kind, text }: Failure) -> Self {
        Self::Retry { kind, text }
    }
}
