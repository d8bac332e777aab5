//! Sends the messages of one drain.
//!
//! Over a connection of syslog there is no acknowledgement: a message counts as accepted when the
//! kernel has taken all of it. What a connection had taken in part is sent again on the next one. A
//! request of HTTP is accepted with its status.
//!
//! Reading order: this file, `network`, `connection`, `post`.
//!
//! Invariants: messages are sent in order, and the first ones that were accepted are told exactly;
//! a connection on which anything went wrong is not used again, also if sending is cancelled; the
//! address of every connection is checked after its name was resolved; redirects are not followed;
//! every step has a deadline; no text contains the user or the query of a URL.

mod connection;
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
use limits::{ADDRESS_TIMEOUT, DIAL_TIMEOUT, IDLE_TIMEOUT, KEEP_ALIVE};
pub use network::{DeniedAddresses, DrainNetwork, DrainNetworkSettings};
use post::Poster;

/// Messages that are ready to be sent, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Messages {
    /// All of them, with their lengths in front if the drain needs that.
    pub bytes: Vec<u8>,
    /// The end of each.
    pub ends: Vec<usize>,
}

/// What became of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// So many were accepted, from the front.
    pub accepted: usize,
    /// What about the next ones.
    pub result: SendResult,
}

/// Why messages were not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendResult {
    /// All were.
    Done,
    /// They may be later.
    Retry {
        /// Fixed identifier for counters.
        kind: &'static str,
        /// What is wrong, without credentials.
        text: String,
    },
    /// The next ones never will be.
    Rejected {
        /// How many.
        messages: usize,
        /// What is wrong, without credentials.
        text: String,
    },
}

/// Why there was no success, as long as it is not a result.
#[derive(Debug)]
struct Failure {
    kind: &'static str,
    text: String,
}

/// Sends the messages of one drain. At most one connection is open.
#[derive(Debug)]
pub struct DrainSender {
    dialer: Dialer,
    state: State,
    last_used: Instant,
}

#[derive(Debug)]
enum State {
    /// Messages with their lengths, over a connection.
    Stream(Option<Connection>),
    /// One message in a request, or many.
    Http(Poster),
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

    /// Where a message begins.
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

impl DrainSender {
    /// Opens nothing until there is something to send.
    pub fn new(binding: Arc<Binding>, network: DrainNetwork) -> Self {
        let state = match binding.url.scheme {
            DrainScheme::Syslog | DrainScheme::SyslogTls => State::Stream(None),
            DrainScheme::Https => State::Http(Poster::new(&binding.url, false)),
            DrainScheme::HttpsBatch => State::Http(Poster::new(&binding.url, true)),
        };
        Self { dialer: Dialer { binding, network }, state, last_used: Instant::now() }
    }

    /// Sends messages in order, until all are accepted or one is not. May be cancelled: then it is
    /// not known what was accepted.
    pub async fn send(&mut self, messages: &Messages) -> Sent {
        let mut accepted = 0;
        let result = match &mut self.state {
            State::Stream(open) => {
                // Not put back unless all is well.
                let connection = open.take();
                match connection::send(&self.dialer, connection, messages, &mut accepted).await {
                    Ok(connection) => {
                        *open = Some(connection);
                        SendResult::Done
                    }
                    Err(failure) => failure.into(),
                }
            }
            State::Http(poster) => poster.send(&self.dialer, messages, &mut accepted).await,
        };
        self.last_used = Instant::now();
        Sent { accepted, result }
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
            State::Stream(open) => open.take().is_some(),
            State::Http(poster) => poster.close(),
        }
    }

    /// Returns whether a connection is open, as far as is known.
    pub fn is_open(&self) -> bool {
        match &self.state {
            State::Stream(open) => open.is_some(),
            State::Http(poster) => poster.is_open(),
        }
    }
}

impl Dialer {
    /// Opens a connection.
    async fn dial(&self) -> Result<Stream, Failure> {
        let connector = self.connector().map_err(|error| self.unreachable(&error))?;
        match timeout(DIAL_TIMEOUT, connector.connect()).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => Err(self.failure(
                "connect_timeout",
                &format!("not connected within {DIAL_TIMEOUT:?}"),
            )),
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

    /// A failure with the drain in its text.
    fn failure(&self, kind: &'static str, text: &str) -> Failure {
        Failure { kind, text: format!("{}: {text}", self.binding.url) }
    }
}

impl From<Failure> for SendResult {
    fn from(Failure { kind, text }: Failure) -> Self {
        Self::Retry { kind, text }
    }
}
