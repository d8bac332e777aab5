//! Server side of TLS: accepts connections, with certificates that are reloaded when their files
//! change.
//!
//! Invariants: the handshake has a deadline; if the files cannot be loaded, the last valid set
//! remains in use, and the error is reported.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::ConnectError;
use super::tls::{Files, Reloading, authorities, certificates, file_error, private_key};

/// The application protocol over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProtocol {
    /// HTTP/1.1, or a protocol without ALPN.
    Http1,
    /// HTTP/2; a client that sends ALPN must offer it.
    Http2,
    /// Either of them, as the client prefers.
    Http1And2,
}

/// Files of a TLS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// PEM file of the certificate and its chain.
    pub cert_file: PathBuf,
    /// PEM file of its key.
    pub key_file: PathBuf,
    /// PEM file of authorities, one of which must have signed the client's certificate.
    pub client_ca_file: Option<PathBuf>,
    /// The application protocol.
    pub protocol: ServerProtocol,
}

impl Files for ServerTlsFiles {
    type Config = ServerConfig;

    fn paths(&self) -> Vec<&PathBuf> {
        [Some(&self.cert_file), Some(&self.key_file), self.client_ca_file.as_ref()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn build(&self) -> Result<ServerConfig, ConnectError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| file_error("tls.cert_file", &self.cert_file, &error))?;
        let builder = match &self.client_ca_file {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities("tls.client_ca_file", path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| file_error("tls.client_ca_file", path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates("tls.cert_file", &self.cert_file)?;
        let mut config = builder
            .with_single_cert(chain, private_key(&self.key_file)?)
            .map_err(|error| file_error("tls.cert_file", &self.cert_file, &error))?;
        config.alpn_protocols = match self.protocol {
            ServerProtocol::Http1 => vec![b"http/1.1".to_vec()],
            ServerProtocol::Http2 => vec![b"h2".to_vec()],
            ServerProtocol::Http1And2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        Ok(config)
    }
}

/// Performs the TLS handshake of accepted connections.
#[derive(Debug)]
pub struct Acceptor {
    tls: Mutex<Reloading<ServerTlsFiles>>,
    handshake_timeout: Duration,
}

impl Acceptor {
    /// Reads the files; a missing or invalid one is an error already here.
    pub fn new(files: ServerTlsFiles, handshake_timeout: Duration) -> Result<Self, ConnectError> {
        Ok(Self { tls: Mutex::new(Reloading::load(files)?), handshake_timeout })
    }

    /// Returns the error of the last reload of the files, if it failed.
    pub fn reload_error(&self) -> Option<String> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).reload_error()
    }

    /// Performs the handshake, with the files as they are now.
    pub async fn accept(&self, tcp: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.tls.lock().unwrap_or_else(PoisonError::into_inner).current_config();
        match timeout(self.handshake_timeout, TlsAcceptor::from(config).accept(tcp)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
