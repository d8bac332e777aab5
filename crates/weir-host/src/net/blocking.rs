//! TLS over a blocking connection, for commands that send a request and wait for its response.
//!
//! Invariant: data is sent only to a server whose certificate is trusted; a connection that ends
//! without TLS's own end is an error of the reader.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::ConnectError;
use super::error::from_handshake;
use super::pem::verifier;
use super::tls::{Policy, PolicyVerifier, Presented, certificates, roots};

/// The certificates that a server may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTrust {
    /// Issued by an authority of the system, or one of this PEM file, for the name of the host. A
    /// certificate in the file is also accepted itself, if it is for that name: a self-signed one
    /// has no other issuer.
    Authorities(Option<PathBuf>),
    /// The first certificate of this PEM file and no other, whatever its names, issuer and dates.
    Certificate(PathBuf),
}

/// TLS settings of a client for one server.
#[derive(Debug, Clone)]
pub struct BlockingTls {
    config: Arc<ClientConfig>,
    host: String,
    name: ServerName<'static>,
}

impl BlockingTls {
    /// Reads the file; a missing or invalid one is an error already here. `host` is a name or an IP
    /// address, without brackets.
    pub fn new(trust: &ServerTrust, host: &str) -> Result<Self, ConnectError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| ConnectError::Tls {
                target: host.to_owned(),
                error: error.to_string(),
            })?;
        let policy = match trust {
            ServerTrust::Authorities(file) => {
                let authorities = Some(verifier(roots(file.as_deref())?, &provider)?);
                let known =
                    file.as_deref().map(|file| certificates("ca_file", file)).transpose()?;
                KnownOrIssued { known: known.unwrap_or_default(), authorities }
            }
            ServerTrust::Certificate(file) => {
                let mut known = certificates("tls.cert_file", file)?;
                known.truncate(1);
                KnownOrIssued { known, authorities: None }
            }
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(PolicyVerifier::shared(policy, &provider));
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ConnectError::ServerName { name: host.to_owned() })?;
        Ok(Self { config: Arc::new(config), host: host.to_owned(), name })
    }

    /// Performs the handshake, within the timeouts of the connection.
    pub fn connect(&self, mut tcp: TcpStream) -> Result<TlsConnection, ConnectError> {
        let target = tcp.peer_addr().map_or_else(|_| self.host.clone(), |peer| peer.to_string());
        let failed = |error: &io::Error| from_handshake(&target, &self.host, error);
        let tls = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut tls = tls.map_err(|error| failed(&io::Error::other(error)))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut tcp).map_err(|error| failed(&error))?;
        }
        Ok(TlsConnection(Box::new(StreamOwned::new(tls, tcp))))
    }
}

/// An encrypted connection.
#[derive(Debug)]
pub struct TlsConnection(Box<StreamOwned<ClientConnection, TcpStream>>);

impl TlsConnection {
    /// Sets the timeout of each read.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.sock.set_read_timeout(timeout)
    }
}

impl Read for TlsConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for TlsConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Accepts known certificates, and others that authorities have issued.
#[derive(Debug)]
struct KnownOrIssued {
    known: Vec<CertificateDer<'static>>,
    /// `None`: only known ones are accepted, under any name.
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl Policy for KnownOrIssued {
    fn verify(&self, presented: &Presented<'_>) -> Result<(), rustls::Error> {
        let end_entity = presented.end_entity;
        match (self.known.contains(end_entity), &self.authorities) {
            (true, None) => Ok(()),
            (true, Some(_)) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, presented.server_name)
            }
            (false, Some(authorities)) => presented.verify_by(authorities),
            (false, None) => {
                let text =
                    "the server's certificate is not that of the configuration (tls.cert_file)";
                Err(rustls::Error::General(text.to_owned()))
            }
        }
    }
}
