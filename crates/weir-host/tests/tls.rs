//! The client connector against real TLS servers: what it accepts, what it rejects, and whether the
//! message names what is wrong.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use weir_host::{ConnectError, Connector, ConnectorSettings, TlsFiles};

const DEADLINE: Duration = Duration::from_secs(10);

/// An authority that signs the certificates of a test.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self, name: &str, last_year: i32) -> (CertificateDer<'static>, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().der().clone(), key)
    }
}

/// Starts a server that sends one byte on every connection after the handshake.
async fn serve(certificate: CertificateDer<'static>, key: &KeyPair) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(mut tls) = acceptor.accept(tcp).await {
                    tls.write_all(b"!").await.ok();
                    tls.read_u8().await.ok();
                }
            });
        }
    });
    address
}

fn connector(address: SocketAddr, tls: Option<TlsFiles>) -> Result<Connector, ConnectError> {
    Connector::new(ConnectorSettings {
        host: address.ip().to_string(),
        port: address.port(),
        tls,
        connect_timeout: DEADLINE,
        handshake_timeout: DEADLINE,
    })
}

fn trusting(dir: &Path, pem: &str) -> TlsFiles {
    let ca_file = dir.join("ca.pem");
    std::fs::write(&ca_file, pem).unwrap();
    TlsFiles { ca_file: Some(ca_file), ..TlsFiles::default() }
}

async fn refusal(address: SocketAddr, files: TlsFiles) -> ConnectError {
    connector(address, Some(files)).unwrap().connect().await.expect_err("must be refused")
}

#[tokio::test]
async fn a_valid_certificate_is_accepted() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.sign("127.0.0.1", 2100);
    let address = serve(certificate, &key).await;
    let connector = connector(address, Some(trusting(dir.path(), &authority.pem))).unwrap();
    let mut stream = connector.connect().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'!');
}

#[tokio::test]
async fn an_expired_certificate_is_named() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.sign("127.0.0.1", 2020);
    let address = serve(certificate, &key).await;
    let error = refusal(address, trusting(dir.path(), &authority.pem)).await;
    assert_eq!(error.kind(), "certificate_expired", "{error}");
    assert!(error.to_string().contains("has expired"), "{error}");
}

#[tokio::test]
async fn a_wrong_name_is_named_and_can_be_configured() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.sign("collector.example", 2100);
    let address = serve(certificate, &key).await;
    let files = trusting(dir.path(), &authority.pem);
    let error = refusal(address, files.clone()).await;
    assert_eq!(error.kind(), "certificate_wrong_name", "{error}");
    assert!(error.to_string().contains("collector.example"), "{error}");
    let files = TlsFiles { server_name: Some("collector.example".to_owned()), ..files };
    connector(address, Some(files)).unwrap().connect().await.unwrap();
}

#[tokio::test]
async fn an_unknown_authority_is_named_and_can_be_overridden() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = Authority::new().sign("127.0.0.1", 2100);
    let address = serve(certificate, &key).await;
    let files = trusting(dir.path(), &Authority::new().pem);
    let error = refusal(address, files.clone()).await;
    assert_eq!(error.kind(), "certificate_unknown_authority", "{error}");
    assert!(error.to_string().contains("ca_file"), "{error}");
    let files = TlsFiles { insecure_skip_verify: true, ..files };
    connector(address, Some(files)).unwrap().connect().await.unwrap();
}

#[tokio::test]
async fn a_changed_authority_file_is_read_again() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.sign("127.0.0.1", 2100);
    let address = serve(certificate, &key).await;
    let files = trusting(dir.path(), &Authority::new().pem);
    let connector = connector(address, Some(files.clone())).unwrap();
    connector.connect().await.expect_err("signed by another authority");
    std::fs::write(files.ca_file.as_ref().unwrap(), "no certificate at all").unwrap();
    connector.connect().await.expect_err("the last valid file remains in use");
    assert!(connector.reload_error().unwrap().contains("ca_file"));
    trusting(dir.path(), &authority.pem);
    connector.connect().await.unwrap();
    assert_eq!(connector.reload_error(), None);
}

#[tokio::test]
async fn a_closed_port_and_an_unknown_name_are_reported() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = connector(free, None).unwrap().connect().await.expect_err("nothing listens");
    assert_eq!(error.kind(), "refused", "{error}");
    let settings = ConnectorSettings {
        host: "no-such-host.invalid".to_owned(),
        port: 1,
        tls: None,
        connect_timeout: DEADLINE,
        handshake_timeout: DEADLINE,
    };
    let error = Connector::new(settings).unwrap().connect().await.expect_err("no such name");
    assert_eq!(error.kind(), "dns", "{error}");
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_or_hangs_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let held = tokio::spawn(async move {
        let (mut talks, _) = listener.accept().await.unwrap();
        talks.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let hangs = listener.accept().await.unwrap();
        (talks, hangs)
    });
    let dir = tempfile::tempdir().unwrap();
    let files = trusting(dir.path(), &Authority::new().pem);
    let error = refusal(address, files.clone()).await;
    assert!(error.to_string().contains("speak TLS"), "{error}");
    let settings = ConnectorSettings {
        host: address.ip().to_string(),
        port: address.port(),
        tls: Some(files),
        connect_timeout: DEADLINE,
        handshake_timeout: Duration::from_millis(50),
    };
    let error = Connector::new(settings).unwrap().connect().await.expect_err("hangs");
    assert_eq!(error.kind(), "handshake_timeout", "{error}");
    drop(held.await.unwrap());
}

#[tokio::test]
async fn a_missing_certificate_file_is_named_before_any_connection() {
    let files = TlsFiles { ca_file: Some("/nowhere/ca.pem".into()), ..TlsFiles::default() };
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let error = connector(address, Some(files)).expect_err("no such file");
    assert_eq!(error.kind(), "tls_files");
    assert!(error.to_string().contains("tls.ca_file /nowhere/ca.pem"), "{error}");
}
