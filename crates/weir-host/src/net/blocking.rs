//! TLS over a blocking connection, for commands that send a request and wait for its response.
//!
//! Invariant: data is sent only to a server whose certificate is trusted; a connection that ends
//! without TLS's own end is an error of the reader.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::ConnectError;
use super::error::from_handshake;
use super::tls::{AnyCertificate, certificates, file_error, roots};

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
        let unusable = |error: &dyn ToString| ConnectError::Tls {
            target: host.to_owned(),
            error: error.to_string(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?;
        let signatures = AnyCertificate::new(&provider);
        let verifier = match trust {
            ServerTrust::Authorities(file) => {
                let roots = Arc::new(roots(file.as_deref())?);
                let authorities = WebPkiServerVerifier::builder_with_provider(roots, provider);
                let authorities = Some(authorities.build().map_err(|error| unusable(&error))?);
                let own = file.as_deref().map(|file| certificates("ca_file", file)).transpose()?;
                Verifier { known: own.unwrap_or_default(), authorities, signatures }
            }
            ServerTrust::Certificate(file) => {
                Verifier { known: vec![first(file)?], authorities: None, signatures }
            }
        };
        let verifier = Arc::new(verifier);
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
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

fn first(file: &Path) -> Result<CertificateDer<'static>, ConnectError> {
    const WHAT: &str = "tls.cert_file";
    let found = certificates(WHAT, file)?.into_iter().next();
    found.ok_or_else(|| file_error(WHAT, file, &"contains no PEM certificate"))
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

/// Accepts known certificates, and others that authorities have issued. Signatures are verified.
#[derive(Debug)]
struct Verifier {
    known: Vec<CertificateDer<'static>>,
    /// `None`: only known ones are accepted, under any name.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    signatures: AnyCertificate,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match (self.known.contains(end_entity), &self.authorities) {
            (true, None) => Ok(ServerCertVerified::assertion()),
            (true, Some(_)) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            (false, Some(authorities)) => authorities.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            (false, None) => {
                let text =
                    "the server's certificate is not that of the configuration (tls.cert_file)";
                Err(rustls::Error::General(text.to_owned()))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.supported_verify_schemes()
    }
}
