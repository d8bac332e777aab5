//! Certificates of one private authority, as for agents and readers of Loggregator.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority, and one certificate of it that everyone uses.
#[derive(Debug)]
pub(super) struct Pki {
    /// Keys of a TLS table of weir that serves, and requires certificates of clients.
    pub(super) served: String,
    /// Keys that make weir's drains trust the authority.
    pub(super) trusted: String,
    /// For clients.
    pub(super) client: Arc<ClientConfig>,
    /// For servers.
    pub(super) server: Arc<ServerConfig>,
}

impl Pki {
    /// Creates the authority and the certificate, with files in `dir`.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let own = CertificateParams::new(vec!["localhost".to_owned()])?.signed_by(&key, &issuer)?;
        let file = |name: &str, text: String| -> Result<String> {
            let path = dir.join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let ca_file = file("ca.pem", authority.pem())?;
        let served = format!(
            "tls = {{ cert_file = \"{}\", key_file = \"{}\", client_ca_file = \"{ca_file}\" }}",
            file("cert.pem", own.pem())?,
            file("key.pem", key.serialize_pem())?,
        );
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let chain = || vec![CertificateDer::from(own.der().to_vec())];
        let private = || PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg);
        let provider = Arc::new(ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain(), private()?)?;
        client.alpn_protocols = vec![b"h2".to_vec()];
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain(), private()?)?;
        Ok(Self {
            served,
            trusted: format!("ca_file = \"{ca_file}\""),
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }
}
