//! TLS configurations that follow their files, and the configuration of a client.
//!
//! Invariant: a configuration in use was loaded completely from files that are valid together.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{ConnectError, TlsFiles};
use crate::named_file::{PEM_FILE_BYTES_MAX, read_named_file};

/// Detects that a file changed: its modification time and its size.
type Stamp = Option<(SystemTime, u64)>;

/// Files that a configuration is loaded from.
pub(super) trait Files {
    /// The configuration built from them.
    type Config;

    /// Returns the paths of all files.
    fn paths(&self) -> Vec<&PathBuf>;

    /// Reads the files and builds the configuration.
    fn build(&self) -> Result<Self::Config, ConnectError>;
}

/// A configuration with the state of the files that it was loaded from.
#[derive(Debug)]
pub(super) struct Reloading<F: Files> {
    files: F,
    stamps: Vec<Stamp>,
    config: Arc<F::Config>,
    reload_error: Option<String>,
}

/// The configuration of a client.
pub(super) type Client = Reloading<TlsFiles>;

impl<F: Files> Reloading<F> {
    pub(super) fn load(files: F) -> Result<Self, ConnectError> {
        let stamps = stamps(&files);
        let config = Arc::new(files.build()?);
        Ok(Self { files, stamps, config, reload_error: None })
    }

    /// Returns the configuration, reloaded if a file has changed.
    pub(super) fn current_config(&mut self) -> Arc<F::Config> {
        let now = stamps(&self.files);
        if now != self.stamps {
            match self.files.build() {
                Ok(config) => {
                    self.config = Arc::new(config);
                    self.reload_error = None;
                }
                Err(error) => self.reload_error = Some(error.to_string()),
            }
            self.stamps = now;
        }
        Arc::clone(&self.config)
    }

    pub(super) fn reload_error(&self) -> Option<String> {
        self.reload_error.clone()
    }
}

fn stamps(files: &impl Files) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    };
    files.paths().into_iter().map(stamp).collect()
}

impl Files for TlsFiles {
    type Config = ClientConfig;

    fn paths(&self) -> Vec<&PathBuf> {
        [&self.ca_file, &self.cert_file, &self.key_file].into_iter().flatten().collect()
    }

    fn build(&self) -> Result<ClientConfig, ConnectError> {
        build(self)
    }
}

fn build(files: &TlsFiles) -> Result<ClientConfig, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Tls {
            target: "this machine".to_owned(),
            error: error.to_string(),
        })?;
    let builder = if files.insecure_skip_verify {
        builder
            .dangerous()
            .with_custom_certificate_verifier(PolicyVerifier::shared(AnyCertificate, &provider))
    } else {
        builder.with_root_certificates(roots(files.ca_file.as_deref())?)
    };
    let mut config = match (&files.cert_file, &files.key_file) {
        (Some(cert), Some(key)) => {
            let chain = certificates("tls.cert_file", cert)?;
            builder
                .with_client_auth_cert(chain, private_key(key)?)
                .map_err(|error| file_error("tls.cert_file", cert, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    let protocol = if files.is_http_2 { "h2" } else { "http/1.1" };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(config)
}

/// Returns the system's authorities, and those in a file.
pub(super) fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, ConnectError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        add_authorities("tls.ca_file", path, &mut store)?;
    }
    if store.is_empty() { Err(ConnectError::NoRoots) } else { Ok(store) }
}

/// Returns the authorities in a file, and no others.
pub(super) fn authorities(what: &'static str, path: &Path) -> Result<RootCertStore, ConnectError> {
    let mut store = RootCertStore::empty();
    add_authorities(what, path, &mut store)?;
    Ok(store)
}

fn add_authorities(
    what: &'static str,
    path: &Path,
    store: &mut RootCertStore,
) -> Result<(), ConnectError> {
    for certificate in certificates(what, path)? {
        store.add(certificate).map_err(|error| file_error(what, path, &error))?;
    }
    Ok(())
}

pub(super) fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let bytes = pem_file(what, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| pem_error(what, path, error))?;
    if found.is_empty() {
        return Err(file_error(what, path, &"contains no PEM certificate"));
    }
    Ok(found)
}

pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConnectError> {
    let what = "tls.key_file";
    let key = PrivateKeyDer::from_pem_slice(&pem_file(what, path)?)
        .map_err(|error| pem_error(what, path, error))?;
    if !is_usable(&key) {
        return Err(file_error(what, path, &UNUSABLE_KEY));
    }
    Ok(key)
}

/// Why a key is rejected that [`is_usable`] does not accept.
pub(super) const UNUSABLE_KEY: &str = "is not a key that can be used; create an RSA key of 2048 to \
                                       4096 bits, or one for ECDSA (P-256, P-384) or Ed25519";

/// Returns whether the TLS library can sign with a key: shorter RSA keys are not secure.
pub(super) fn is_usable(key: &PrivateKeyDer<'_>) -> bool {
    rustls::crypto::ring::sign::any_supported_type(key).is_ok()
}

fn pem_file(what: &'static str, path: &Path) -> Result<Vec<u8>, ConnectError> {
    read_named_file(path, PEM_FILE_BYTES_MAX).map_err(|error| file_error(what, path, &error))
}

fn pem_error(
    what: &'static str,
    path: &Path,
    error: rustls::pki_types::pem::Error,
) -> ConnectError {
    use rustls::pki_types::pem::Error;
    match error {
        Error::NoItemsFound => file_error(what, path, &"contains no such item in PEM format"),
        Error::Io(error) => file_error(what, path, &error),
        other => file_error(what, path, &format!("is not valid PEM: {other}")),
    }
}

pub(super) fn file_error(what: &'static str, path: &Path, problem: &impl ToString) -> ConnectError {
    ConnectError::File { what, path: path.to_owned(), problem: problem.to_string() }
}

/// A certificate as a server presents it.
pub(super) struct Presented<'a> {
    pub(super) end_entity: &'a CertificateDer<'a>,
    intermediates: &'a [CertificateDer<'a>],
    pub(super) server_name: &'a ServerName<'a>,
    ocsp_response: &'a [u8],
    now: UnixTime,
}

impl Presented<'_> {
    /// Returns an error unless authorities accept it.
    pub(super) fn verify_by(
        &self,
        authorities: &WebPkiServerVerifier,
    ) -> Result<(), rustls::Error> {
        let Self { end_entity, intermediates, server_name, ocsp_response, now } = *self;
        authorities
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map(|_| ())
    }
}

/// Decides which certificates are accepted.
pub(super) trait Policy: Debug + Send + Sync {
    /// Returns an error unless the certificate is accepted.
    fn verify(&self, presented: &Presented<'_>) -> Result<(), rustls::Error>;
}

/// Accepts certificates by a policy. Signatures are verified, whatever the policy.
#[derive(Debug)]
pub(super) struct PolicyVerifier<P> {
    policy: P,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<P: Policy + 'static> PolicyVerifier<P> {
    pub(super) fn shared(policy: P, provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { policy, algorithms: provider.signature_verification_algorithms })
    }
}

impl<P: Policy> ServerCertVerifier for PolicyVerifier<P> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let presented = Presented { end_entity, intermediates, server_name, ocsp_response, now };
        self.policy.verify(&presented).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Accepts any certificate, for `insecure_skip_verify`.
#[derive(Debug)]
pub(super) struct AnyCertificate;

impl Policy for AnyCertificate {
    fn verify(&self, _presented: &Presented<'_>) -> Result<(), rustls::Error> {
        Ok(())
    }
}
