//! TLS for many clients that trust the same authorities: each may also have its own certificate and
//! its own authority, as PEM text.
//!
//! Invariants: the common authorities are in memory once, however many clients there are; a peer is
//! accepted if either the common or the client's own authorities accept it completely.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, CipherSuite, ClientConfig, RootCertStore};

use super::ConnectError;
use super::tls::{
    AnyCertificate, Policy, PolicyVerifier, Presented, UNUSABLE_KEY, is_usable, roots,
};

/// The TLS 1.2 ciphers that components of Cloud Foundry use with each other.
const STRICT_CIPHERS: [CipherSuite; 2] = [
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// Certificates as PEM text.
#[derive(Clone, Copy, Default)]
pub struct TlsPem<'p> {
    /// Authorities to trust in addition.
    pub ca: Option<&'p [u8]>,
    /// The client's certificate chain, and its key.
    pub client: Option<(&'p [u8], &'p [u8])>,
}

/// How a client speaks TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// Only the ciphers that components of Cloud Foundry use with each other.
    pub is_strict: bool,
    /// HTTP/1.1 is negotiated; otherwise no protocol is.
    pub is_http: bool,
}

/// The configuration of a client.
#[derive(Debug, Clone)]
pub struct ClientTlsConfig(pub(super) Arc<ClientConfig>);

/// The part of the configuration that all clients share.
#[derive(Debug)]
pub struct ClientTls {
    provider: Arc<CryptoProvider>,
    strict_provider: Arc<CryptoProvider>,
    trust: Trust,
    /// Configurations of clients without certificates of their own, by options.
    shared: [OnceLock<Arc<ClientConfig>>; 4],
}

#[derive(Debug)]
enum Trust {
    /// Any certificate is accepted.
    Any,
    /// Certificates that this verifier accepts.
    Verified(Arc<WebPkiServerVerifier>),
    /// There are no common authorities: clients need their own.
    OwnOnly,
}

impl TlsPem<'_> {
    /// Checks that the certificate and its key can be used with each other.
    pub fn check_client(&self) -> Result<(), ConnectError> {
        let provider = rustls::crypto::ring::default_provider();
        let Some((chain, key)) = self.client()? else { return Ok(()) };
        rustls::sign::CertifiedKey::from_der(chain, key, &provider)
            .map_err(|error| unusable("client certificate", &error))?;
        Ok(())
    }

    /// Checks that the authorities can be used.
    pub fn check_ca(&self) -> Result<(), ConnectError> {
        self.authorities().map(|_| ())
    }

    fn client(
        &self,
    ) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, ConnectError> {
        let Some((cert, key)) = self.client else { return Ok(None) };
        let chain = certificates("client certificate", cert)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("key", &error))?;
        if !is_usable(&key) {
            return Err(unusable("key", &UNUSABLE_KEY));
        }
        Ok(Some((chain, key)))
    }

    fn authorities(&self) -> Result<Option<RootCertStore>, ConnectError> {
        let Some(pem) = self.ca else { return Ok(None) };
        let mut store = RootCertStore::empty();
        for certificate in certificates("authority", pem)? {
            store.add(certificate).map_err(|error| unusable("authority", &error))?;
        }
        Ok(Some(store))
    }
}

fn certificates(
    what: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| unusable(what, &error))?;
    if found.is_empty() {
        return Err(unusable(what, &"contains no PEM certificate"));
    }
    Ok(found)
}

fn unusable(what: &'static str, problem: &impl ToString) -> ConnectError {
    ConnectError::Pem { what, problem: problem.to_string() }
}

impl ClientTls {
    /// Reads the system's authorities, and those of a file.
    pub fn new(ca_file: Option<&Path>, insecure_skip_verify: bool) -> Result<Self, ConnectError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut strict_provider = CryptoProvider::clone(&provider);
        strict_provider
            .cipher_suites
            .retain(|suite| suite.tls13().is_some() || STRICT_CIPHERS.contains(&suite.suite()));
        let trust = if insecure_skip_verify {
            Trust::Any
        } else {
            match roots(ca_file) {
                Ok(roots) => Trust::Verified(verifier(roots, &provider)?),
                Err(ConnectError::NoRoots) => Trust::OwnOnly,
                Err(error) => return Err(error),
            }
        };
        let strict_provider = Arc::new(strict_provider);
        Ok(Self { provider, strict_provider, trust, shared: Default::default() })
    }

    /// Returns the configuration of a client with these certificates.
    pub fn config(
        &self,
        pem: &TlsPem<'_>,
        options: TlsOptions,
    ) -> Result<ClientTlsConfig, ConnectError> {
        if pem.ca.is_some() || pem.client.is_some() {
            return Ok(ClientTlsConfig(Arc::new(self.build(pem, options)?)));
        }
        let index = usize::from(options.is_strict) * 2 + usize::from(options.is_http);
        let shared = &self.shared[index];
        if let Some(config) = shared.get() {
            return Ok(ClientTlsConfig(Arc::clone(config)));
        }
        let config = Arc::new(self.build(pem, options)?);
        Ok(ClientTlsConfig(Arc::clone(shared.get_or_init(|| config))))
    }

    fn build(&self, pem: &TlsPem<'_>, options: TlsOptions) -> Result<ClientConfig, ConnectError> {
        let provider = if options.is_strict { &self.strict_provider } else { &self.provider };
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("TLS library", &error))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(pem)?);
        let mut config = match pem.client()? {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable("client certificate", &error))?,
            None => builder.with_no_client_auth(),
        };
        if options.is_http {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        Ok(config)
    }

    fn verifier(&self, pem: &TlsPem<'_>) -> Result<Arc<dyn ServerCertVerifier>, ConnectError> {
        let own = pem.authorities()?.map(|own| verifier(own, &self.provider)).transpose()?;
        Ok(match (&self.trust, own) {
            (Trust::Any, _) => PolicyVerifier::shared(AnyCertificate, &self.provider),
            (Trust::Verified(common), None) => Arc::<WebPkiServerVerifier>::clone(common),
            (Trust::Verified(common), Some(own)) => {
                let common = Arc::clone(common);
                PolicyVerifier::shared(EitherAuthority { common, own }, &self.provider)
            }
            (Trust::OwnOnly, Some(own)) => own,
            (Trust::OwnOnly, None) => return Err(ConnectError::NoRoots),
        })
    }
}

pub(super) fn verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, ConnectError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| unusable("authority", &error))
}

/// Accepts certificates that either of two sets of authorities accepts.
#[derive(Debug)]
struct EitherAuthority {
    common: Arc<WebPkiServerVerifier>,
    own: Arc<WebPkiServerVerifier>,
}

impl Policy for EitherAuthority {
    fn verify(&self, presented: &Presented<'_>) -> Result<(), rustls::Error> {
        let Err(common) = presented.verify_by(&self.common) else { return Ok(()) };
        presented.verify_by(&self.own).map_err(|own| {
            // Return the error of the set that knows the authority.
            let is_unknown = matches!(
                own,
                rustls::Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::BadSignature
                )
            );
            if is_unknown { common } else { own }
        })
    }
}
