//! The peer of an output, and one connection or UDP socket to it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::UdpSocket;
use weir_host::{Connector, ConnectorSettings, Stream};

use super::SocketError;
use crate::config::TlsSettings;
use crate::output::OutputError;
use crate::output::post::Endpoint;

/// Maximum time to open a connection, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A peer, with timeouts and pauses.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) dialer: Dialer,
    /// How long it may accept no data.
    pub(crate) write_timeout: Duration,
    /// Minimum pause between attempts.
    pub(crate) retry_min: Duration,
    /// Maximum pause between attempts.
    pub(crate) retry_max: Duration,
}

/// Opens links to one address.
#[derive(Debug)]
pub(crate) struct Dialer {
    connector: Connector,
    host: String,
    port: u16,
    is_udp: bool,
}

/// An open link.
#[derive(Debug)]
pub(super) enum Link {
    Stream(Box<Stream>),
    Datagrams(UdpSocket),
}

impl Dialer {
    /// Checks the address and reads the certificate files.
    pub(crate) fn new(
        output: &str,
        address: &str,
        tls: Option<&TlsSettings>,
        is_udp: bool,
    ) -> Result<Self, OutputError> {
        let wrong = |problem| OutputError::Endpoint {
            output: output.to_owned(),
            endpoint: address.to_owned(),
            problem,
        };
        let endpoint = Endpoint::address(address).map_err(wrong)?;
        let settings = ConnectorSettings {
            host: endpoint.host.clone(),
            port: endpoint.port,
            tls: tls.map(TlsSettings::files),
            connect_timeout: CONNECT_TIMEOUT,
            handshake_timeout: CONNECT_TIMEOUT,
        };
        let connector = Connector::new(settings)
            .map_err(|error| OutputError::Tls { output: output.to_owned(), error })?;
        Ok(Self { connector, host: endpoint.host, port: endpoint.port, is_udp })
    }

    /// Returns `host:port`, for messages.
    pub(crate) fn target(&self) -> String {
        self.connector.target()
    }

    /// Opens a connection, even if it is for UDP.
    pub(crate) async fn connect(&self) -> Result<Stream, SocketError> {
        Ok(self.connector.connect().await?)
    }

    pub(super) async fn link(&self) -> Result<Link, SocketError> {
        if !self.is_udp {
            return Ok(Link::Stream(Box::new(self.connect().await?)));
        }
        self.bind()
            .await
            .map(Link::Datagrams)
            .map_err(|error| SocketError::Broken { target: self.target(), error })
    }

    async fn bind(&self) -> io::Result<UdpSocket> {
        let lookup = tokio::net::lookup_host((self.host.as_str(), self.port));
        let found = tokio::time::timeout(CONNECT_TIMEOUT, lookup).await;
        let found = found.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let mut last =
            io::Error::new(io::ErrorKind::NotFound, "the name does not resolve to an address");
        for address in found {
            let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(own).await?;
            match socket.connect(address).await {
                Ok(()) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Link {
    /// Returns true if the peer has closed its side. Data from the peer is ignored.
    pub(super) fn is_closed(&mut self) -> bool {
        let Self::Stream(stream) = self else { return false };
        let mut space = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(&mut **stream).poll_read(&mut context, &mut buffer) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return true,
            }
        }
    }

    /// Passes buffered data to the kernel.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.flush().await,
            Self::Datagrams(_) => Ok(()),
        }
    }

    /// Sends as much as is accepted, or one datagram. Returns the number of bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => match stream.write(bytes).await? {
                0 => Err(io::ErrorKind::WriteZero.into()),
                sent => Ok(sent),
            },
            Self::Datagrams(socket) => socket.send(bytes).await,
        }
    }
}
