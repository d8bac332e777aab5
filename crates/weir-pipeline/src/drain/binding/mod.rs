//! A binding: an application, or all of them, and the drain that receives its envelopes.
//!
//! Reading order: `url`, this file.
//!
//! Invariants: neither credentials nor the query of a URL are printed, not even by `Debug`; the
//! same binding has the same id in every run, and bindings that differ in a relevant field have
//! different ids.

mod url;

use std::fmt;

use ring::digest::{Context, SHA256};
use weir_host::{Secret, TlsPem};

pub(crate) use url::describe;
pub use url::{DRAIN_SCHEMES, DrainData, DrainScheme, DrainUrl, DrainUrlError};

/// A binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// GUID of the application; `None` if it receives the envelopes of all.
    pub app: Option<String>,
    /// Host name in messages of envelopes without the tags of an application.
    pub hostname: String,
    /// Destination of the envelopes.
    pub url: DrainUrl,
    /// Certificates of its connections.
    pub credentials: DrainCredentials,
}

/// Certificates of a binding, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DrainCredentials {
    /// Certificate of the client.
    pub cert: Option<Secret>,
    /// Its key.
    pub key: Option<Secret>,
    /// Authorities to trust in addition.
    pub ca: Option<Secret>,
}

/// Why a binding cannot be used. The texts are those of the original, for the log of the
/// application.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    /// Its URL.
    #[error(transparent)]
    Url(#[from] DrainUrlError),
    /// The certificate and the key do not match, or are not PEM.
    #[error("failed to load certificate for {url}")]
    Certificate {
        /// The URL without user and query.
        url: String,
    },
    /// The authorities are not PEM.
    #[error("failed to load root CA for {url}")]
    Authority {
        /// The URL without user and query.
        url: String,
    },
}

impl DrainCredentials {
    /// Returns the parts that are set, for connections. A certificate without a key, or the other
    /// way round, is ignored, as in the original.
    pub fn pem(&self) -> TlsPem<'_> {
        let client = self.cert.as_ref().zip(self.key.as_ref());
        TlsPem {
            ca: self.ca.as_ref().map(|ca| ca.expose().as_bytes()),
            client: client.map(|(cert, key)| (cert.expose().as_bytes(), key.expose().as_bytes())),
        }
    }
}

impl Binding {
    /// Checks a binding: its URL, and that its certificates can be used.
    pub fn new(
        app: Option<String>,
        hostname: String,
        url: &str,
        credentials: DrainCredentials,
    ) -> Result<Self, BindingError> {
        let url = DrainUrl::parse(url)?;
        let pem = credentials.pem();
        if pem.check_client().is_err() {
            return Err(BindingError::Certificate { url: url.to_string() });
        }
        if pem.check_ca().is_err() {
            return Err(BindingError::Authority { url: url.to_string() });
        }
        Ok(Self { app, hostname, url, credentials })
    }

    /// Identifies the binding, also after a restart.
    pub fn id(&self) -> u64 {
        let mut hash = Context::new(&SHA256);
        let secret =
            |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        let DrainCredentials { cert, key, ca } = &self.credentials;
        let parts = [
            self.app.clone(),
            Some(self.hostname.clone()),
            Some(self.url.written().to_owned()),
            secret(cert),
            secret(key),
            secret(ca),
        ];
        for part in parts {
            // With their lengths, so that the boundary between two parts is unambiguous.
            let len = part.as_ref().map_or(u64::MAX, |part| part.len() as u64);
            hash.update(&len.to_le_bytes());
            hash.update(part.unwrap_or_default().as_bytes());
        }
        let digest = hash.finish();
        let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(first)
    }
}

/// Describes the binding for messages and logs.
impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.app {
            Some(app) => write!(f, "{app} to {}", self.url),
            None => write!(f, "all applications to {}", self.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(app: Option<&str>, url: &str, ca: Option<&str>) -> Result<Binding, BindingError> {
        let ca = ca.map(|ca| Secret::new(ca.to_owned()));
        let credentials = DrainCredentials { ca, ..Default::default() };
        Binding::new(app.map(str::to_owned), "host".to_owned(), url, credentials)
    }

    #[test]
    fn an_id_changes_with_everything_that_matters() {
        let pki = weir_testkit::Pki::new().ca_pem();
        let url = "syslog-tls://user:hidden@logs.example?token=hidden";
        let all = [
            binding(Some("a"), url, None),
            binding(Some("b"), url, None),
            binding(None, url, None),
            binding(Some("a"), "syslog-tls://logs.example", None),
            binding(Some("a"), url, Some(&pki)),
        ];
        let ids: std::collections::BTreeSet<u64> =
            all.iter().map(|binding| binding.as_ref().unwrap().id()).collect();
        assert_eq!(ids.len(), all.len());
        let again = binding(Some("a"), url, None).unwrap();
        assert_eq!(again.id(), all[0].as_ref().unwrap().id());
        assert_eq!(again.to_string(), "a to syslog-tls://logs.example");
        assert!(!format!("{all:?}").contains("hidden") && !format!("{all:?}").contains("BEGIN"));
    }

    #[test]
    fn credentials_that_are_none_are_refused_by_the_texts_of_the_original() {
        let error = binding(Some("a"), "syslog-tls://u:p@logs.example/?q", Some("nothing"));
        assert_eq!(
            error.unwrap_err().to_string(),
            "failed to load root CA for syslog-tls://logs.example/"
        );
        let (cert, key) = weir_testkit::Pki::new().server_pem();
        let with = |cert: &str, key: Option<&str>| {
            let secret = |text: &str| Some(Secret::new(text.to_owned()));
            let credentials =
                DrainCredentials { cert: secret(cert), key: key.and_then(secret), ca: None };
            Binding::new(None, String::new(), "https://logs.example", credentials)
        };
        assert!(with(&cert, Some(&key)).is_ok());
        assert!(with("nothing", None).is_ok(), "without a key it is not used");
        let (_, other) = weir_testkit::Pki::new().server_pem();
        for (cert, key) in [(&cert, &other), (&key, &key), (&cert, &cert)] {
            let error = with(cert, Some(key)).unwrap_err().to_string();
            assert_eq!(error, "failed to load certificate for https://logs.example");
        }
    }
}
