//! TCP and TLS connections (complete outgoing ones, and TLS of accepted ones), datagrams, and Unix
//! sockets.
//!
//! Invariants: every step has a deadline; names are resolved again for each connection; the
//! certificate files are checked before each TLS connection and reloaded if they changed (if they
//! cannot be loaded, the last valid set remains in use); every error describes the cause, and its
//! kind is a fixed identifier for counters.

mod bind;
mod blocking;
mod datagram;
mod error;
mod handshakes;
mod pem;
mod server;
mod shares;
mod slots;
mod stream;
mod tls;
mod unix;

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use bind::{listen, listen_many};
pub use blocking::{BlockingTls, ServerTrust, TlsConnection};
pub use datagram::{
    BoundDatagrams, DATAGRAM_BYTES_MAX, Datagram, DatagramBuffers, DatagramSocket, bind_udp,
    bind_unix_datagrams,
};
pub use error::ConnectError;
pub use handshakes::Handshakes;
pub use pem::{ClientTls, ClientTlsConfig, TlsOptions, TlsPem};
pub use server::{Acceptor, ServerProtocol, ServerTlsFiles};
pub use shares::{AddressShare, AddressShares};
pub use slots::{ConnectionSlot, ConnectionSlots, Receiving, Working};
pub use stream::Stream;
pub use unix::listen_unix;

/// How long sent bytes may remain unacknowledged by the peer's kernel before the connection counts
/// as dead: detects a peer that vanished without a reset.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Files and options of a TLS client.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// PEM file of certificate authorities to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client's certificate chain.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
    /// Name to verify in the certificate instead of the host.
    pub server_name: Option<String>,
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
    /// Speak HTTP/2 instead of HTTP/1.1, if the protocol is one of them.
    pub is_http_2: bool,
}

/// Where to connect, and timeouts.
#[derive(Debug, Clone)]
pub struct ConnectorSettings {
    /// Name or address of the host, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// TLS settings; `None` = no TLS.
    pub tls: Option<TlsFiles>,
    /// Timeout of name resolution, and of the TCP connection to each address.
    pub connect_timeout: Duration,
    /// Timeout of the TLS handshake.
    pub handshake_timeout: Duration,
}

/// Decides to which addresses connections are allowed.
pub trait AddressFilter: Debug + Send + Sync {
    /// Returns whether connections to the address are allowed.
    fn allows(&self, address: IpAddr) -> bool;
}

/// Opens connections to one host and port.
#[derive(Debug)]
pub struct Connector {
    settings: ConnectorSettings,
    tls: Option<Tls>,
    filter: Option<Arc<dyn AddressFilter>>,
    keep_alive: Option<Duration>,
}

#[derive(Debug)]
enum Tls {
    Files(Mutex<tls::Client>),
    Given(ClientTlsConfig),
}

impl Connector {
    /// Reads the certificate files; a missing or invalid file is an error already here.
    pub fn new(settings: ConnectorSettings) -> Result<Self, ConnectError> {
        let tls = settings.tls.clone().map(tls::Client::load).transpose()?;
        let tls = tls.map(|tls| Tls::Files(Mutex::new(tls)));
        Ok(Self { settings, tls, filter: None, keep_alive: None })
    }

    /// Uses TLS with this configuration, which depends on no files.
    #[must_use]
    pub fn secured(self, config: ClientTlsConfig) -> Self {
        Self { tls: Some(Tls::Given(config)), ..self }
    }

    /// Connects only to addresses that the filter allows. It is applied to each address that the
    /// name resolves to at that moment, so that a change of the name cannot bypass it.
    #[must_use]
    pub fn filtered(self, filter: Arc<dyn AddressFilter>) -> Self {
        Self { filter: Some(filter), ..self }
    }

    /// Sends TCP keep-alive probes to the peer after this idle time.
    #[must_use]
    pub fn kept_alive(self, interval: Duration) -> Self {
        Self { keep_alive: Some(interval), ..self }
    }

    /// Returns `host:port`, for messages.
    pub fn target(&self) -> String {
        if self.settings.host.contains(':') {
            format!("[{}]:{}", self.settings.host, self.settings.port)
        } else {
            format!("{}:{}", self.settings.host, self.settings.port)
        }
    }

    /// Returns the error of the last reload of the certificate files, if it failed.
    pub fn reload_error(&self) -> Option<String> {
        match self.tls.as_ref()? {
            Tls::Files(tls) => {
                tls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).reload_error()
            }
            Tls::Given(_) => None,
        }
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Stream, ConnectError> {
        let tcp = self.connect_tcp().await?;
        let config = match &self.tls {
            None => return Ok(Stream::Plain(tcp)),
            Some(Tls::Files(tls)) => {
                tls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).current_config()
            }
            Some(Tls::Given(config)) => Arc::clone(&config.0),
        };
        self.handshake(tcp, config).await
    }

    async fn connect_tcp(&self) -> Result<TcpStream, ConnectError> {
        let deadline = self.settings.connect_timeout;
        let lookup = tokio::net::lookup_host((self.settings.host.as_str(), self.settings.port));
        let addresses: Vec<SocketAddr> = match timeout(deadline, lookup).await {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(error)) => return Err(self.dns_error(error.to_string())),
            Err(_) => return Err(self.dns_error(format!("no response within {deadline:?}"))),
        };
        let mut last = self.dns_error("the name has no addresses".to_owned());
        for address in addresses {
            if self.filter.as_ref().is_some_and(|filter| !filter.allows(address.ip())) {
                let host = self.settings.host.clone();
                last = ConnectError::Denied { host, address: address.ip() };
                continue;
            }
            match timeout(deadline, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => match prepare(&tcp, self.keep_alive) {
                    Ok(()) => return Ok(tcp),
                    Err(error) => last = self.tcp_error(address, error),
                },
                Ok(Err(error)) => last = self.tcp_error(address, error),
                Err(_) => {
                    last = ConnectError::ConnectTimeout {
                        target: self.target(),
                        address,
                        after: deadline,
                    };
                }
            }
        }
        Err(last)
    }

    async fn handshake(
        &self,
        tcp: TcpStream,
        config: Arc<rustls::ClientConfig>,
    ) -> Result<Stream, ConnectError> {
        let name = self.server_name();
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| ConnectError::ServerName { name: name.to_owned() })?;
        let after = self.settings.handshake_timeout;
        match timeout(after, TlsConnector::from(config).connect(server, tcp)).await {
            Ok(Ok(tls)) => Ok(Stream::Tls(Box::new(tls))),
            Ok(Err(error)) => Err(error::from_handshake(&self.target(), name, &error)),
            Err(_) => Err(ConnectError::HandshakeTimeout { target: self.target(), after }),
        }
    }

    fn server_name(&self) -> &str {
        let chosen = self.settings.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        chosen.unwrap_or(&self.settings.host)
    }

    fn dns_error(&self, error: String) -> ConnectError {
        ConnectError::Dns { host: self.settings.host.clone(), error }
    }

    fn tcp_error(&self, address: SocketAddr, error: io::Error) -> ConnectError {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            return ConnectError::Refused { target: self.target(), address };
        }
        ConnectError::Connect { target: self.target(), address, error }
    }
}

fn prepare(tcp: &TcpStream, keep_alive: Option<Duration>) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    if let Some(interval) = keep_alive {
        rustix::net::sockopt::set_socket_keepalive(tcp, true)?;
        rustix::net::sockopt::set_tcp_keepidle(tcp, interval)?;
        rustix::net::sockopt::set_tcp_keepintvl(tcp, interval)?;
    }
    let unacknowledged_max_ms = UNACKNOWLEDGED_MAX.as_millis() as u32;
    Ok(rustix::net::sockopt::set_tcp_user_timeout(tcp, unacknowledged_max_ms)?)
}
