//! Errors before a connection is established, in terms that an operator can act on.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use rustls::CertificateError;

/// Why there is no connection. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The host's name did not resolve.
    #[error("cannot resolve {host}: {error}")]
    Dns {
        /// The name.
        host: String,
        /// The resolver error.
        error: String,
    },
    /// No process listens on that port.
    #[error("{target} ({address}) refused the connection: is the collector running?")]
    Refused {
        /// Host and port.
        target: String,
        /// The address tried last.
        address: SocketAddr,
    },
    /// No response to the connection request.
    #[error("{target} ({address}) did not accept a connection within {after:?}")]
    ConnectTimeout {
        /// Host and port.
        target: String,
        /// The address tried last.
        address: SocketAddr,
        /// The timeout.
        after: Duration,
    },
    /// Any other failure of the TCP connection.
    #[error("cannot connect to {target} ({address}): {error}")]
    Connect {
        /// Host and port.
        target: String,
        /// The address tried last.
        address: SocketAddr,
        /// The system error.
        error: io::Error,
    },
    /// The TLS handshake timed out.
    #[error("{target} did not finish the TLS handshake within {after:?}")]
    HandshakeTimeout {
        /// Host and port.
        target: String,
        /// The timeout.
        after: Duration,
    },
    /// The peer's certificate is not trusted.
    #[error("certificate of {target} {problem}{}", after_colon(*.advice))]
    Certificate {
        /// Host and port.
        target: String,
        /// Fixed identifier for counters.
        kind: &'static str,
        /// What is wrong.
        problem: String,
        /// What to do in the configuration.
        advice: Option<&'static str>,
    },
    /// Any other failure of the TLS handshake.
    #[error("TLS handshake with {target} failed: {error}")]
    Tls {
        /// Host and port.
        target: String,
        /// The error of the TLS library or the operating system.
        error: String,
    },
    /// The name to verify in the certificate is not a valid host name.
    #[error("{name} is not a valid TLS server name")]
    ServerName {
        /// The name.
        name: String,
    },
    /// A configured certificate or key file cannot be used.
    #[error("{what} {path}: {problem}")]
    File {
        /// The name of the setting.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// All addresses of the host are denied.
    #[error("{host} resolves to {address}, and connections to that address are not allowed")]
    Denied {
        /// The name.
        host: String,
        /// One of its addresses.
        address: IpAddr,
    },
    /// A certificate or key given as text cannot be used.
    #[error("{what}: {problem}")]
    Pem {
        /// Which one.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// There is no trusted authority.
    #[error("no trusted certificate authorities: the system has none and no ca_file is set")]
    NoRoots,
}

impl ConnectError {
    /// Returns a fixed identifier for counters.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dns { .. } => "dns",
            Self::Refused { .. } => "refused",
            Self::ConnectTimeout { .. } => "connect_timeout",
            Self::Connect { .. } => "connect",
            Self::HandshakeTimeout { .. } => "handshake_timeout",
            Self::Certificate { kind, .. } => kind,
            Self::Tls { .. } | Self::ServerName { .. } => "tls",
            Self::File { .. } | Self::Pem { .. } | Self::NoRoots => "tls_files",
            Self::Denied { .. } => "denied",
        }
    }
}

/// Describes the failure of a handshake with `target`, whose certificate should be for `name`.
pub(super) fn from_handshake(target: &str, name: &str, error: &io::Error) -> ConnectError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let target = target.to_owned();
    match tls {
        Some(rustls::Error::InvalidCertificate(fault)) => {
            let (kind, problem, advice) = describe(fault, name);
            ConnectError::Certificate { target, kind, problem, advice }
        }
        Some(rustls::Error::AlertReceived(alert)) => ConnectError::Tls {
            target,
            error: format!(
                "the peer sent an alert ({alert:?}): does it require a client certificate?"
            ),
        },
        Some(rustls::Error::InvalidMessage(_)) => ConnectError::Tls {
            target,
            error: format!("{error}: does the peer speak TLS on this port?"),
        },
        _ if error.kind() == io::ErrorKind::UnexpectedEof => {
            ConnectError::Tls { target, error: "the peer closed the connection".to_owned() }
        }
        _ => ConnectError::Tls { target, error: error.to_string() },
    }
}

fn after_colon(advice: Option<&str>) -> String {
    advice.map(|advice| format!(": {advice}")).unwrap_or_default()
}

/// Returns the kind, the problem, and what to do in the configuration.
fn describe(fault: &CertificateError, name: &str) -> (&'static str, String, Option<&'static str>) {
    let (kind, problem, advice) = match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("certificate_expired", "has expired", Some("renew it, or check this machine's clock"))
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("certificate_not_yet_valid", "is not valid yet", Some("check this machine's clock"))
        }
        // Not signed by the trusted authority of the same name, which has another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => (
            "certificate_unknown_authority",
            "is signed by an unknown authority",
            Some("set tls.ca_file to the authority's certificate"),
        ),
        CertificateError::NotValidForName => {
            let problem = format!("is not valid for {name}");
            let advice = Some("set tls.server_name to a name in the certificate");
            return ("certificate_wrong_name", problem, advice);
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let problem = format!("is valid for {}, not for {name}", presented.join(", "));
            let advice = Some("set tls.server_name to one of these names");
            return ("certificate_wrong_name", problem, advice);
        }
        CertificateError::Revoked => ("certificate_revoked", "has been revoked", None),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => (
            "certificate_of_an_authority",
            "is that of an authority (CA:TRUE), not of a server",
            None,
        ),
        other => return ("certificate", format!("is not valid: {other}"), None),
    };
    (kind, problem.to_owned(), advice)
}
