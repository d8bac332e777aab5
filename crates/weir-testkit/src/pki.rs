//! Certificates for tests: an authority, and valid and invalid servers.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What is wrong with a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCertificate {
    /// Nothing: valid for `localhost` and `127.0.0.1`.
    Good,
    /// It expired in 2020.
    Expired,
    /// It is valid from 2090.
    NotYetValid,
    /// It is valid for `elsewhere.example`.
    WrongName,
}

/// A certificate authority.
pub struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pki")
    }
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

impl Pki {
    /// Creates a new authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "weir test authority");
        let key = KeyPair::generate().expect("the key generator works");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("the parameters are valid");
        Self { issuer }
    }

    /// Returns the certificate that a client has to trust.
    pub fn ca_pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns TLS settings of a server with such a certificate.
    pub fn server(&self, kind: ServerCertificate) -> Arc<ServerConfig> {
        let (certificate, key) = self.issue(kind);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has all default suites")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("the key fits the certificate");
        Arc::new(config)
    }

    /// Returns a valid server certificate and its key, as the files that a server reads.
    pub fn server_pem(&self) -> (String, String) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("the names are valid");
        let key = KeyPair::generate().expect("the key generator works");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority can sign");
        (certificate.pem(), key.serialize_pem())
    }

    /// Returns a self-signed certificate for `localhost` and its key, marked as that of an
    /// authority, as `openssl req -x509` makes it.
    pub fn self_signed_pem() -> (String, String) {
        let names = vec!["localhost".to_owned()];
        let mut params = CertificateParams::new(names).expect("the name is valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("the key generator works");
        let certificate = params.self_signed(&key).expect("the parameters are valid");
        (certificate.pem(), key.serialize_pem())
    }

    fn issue(&self, kind: ServerCertificate) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let names = match kind {
            ServerCertificate::WrongName => vec!["elsewhere.example".to_owned()],
            _ => vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
        };
        let mut params = CertificateParams::new(names).expect("the names are valid");
        match kind {
            ServerCertificate::Expired => params.not_after = date_time_ymd(2020, 1, 1),
            ServerCertificate::NotYetValid => params.not_before = date_time_ymd(2090, 1, 1),
            ServerCertificate::Good | ServerCertificate::WrongName => {}
        }
        let key = KeyPair::generate().expect("the key generator works");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority can sign");
        (certificate.der().clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }
}
