//! The acceptor against the client connector: whom it accepts, and that it follows its files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_host::{
    Acceptor, ConnectError, Connector, ConnectorSettings, ServerProtocol, ServerTlsFiles, TlsFiles,
};

const DEADLINE: Duration = Duration::from_secs(10);

/// An authority that writes the certificates of a test to files.
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

    /// Writes `NAME.pem` and `NAME.key` to the directory.
    fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let paths = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }

    fn write_own(&self, dir: &Path) -> PathBuf {
        let path = dir.join("ca.pem");
        std::fs::write(&path, &self.pem).unwrap();
        path
    }
}

/// Connects with these files, and reads a byte that the server sends once it accepted the client.
async fn is_let_in(acceptor: &Acceptor, client: TlsFiles) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(tcp).await else { return };
        let _gone = stream.write_all(b"!").await;
        let _gone = stream.shutdown().await;
    };
    let connector = Connector::new(ConnectorSettings {
        host: "localhost".to_owned(),
        port,
        tls: Some(client),
        connect_timeout: DEADLINE,
        handshake_timeout: DEADLINE,
    });
    let connect = async {
        let Ok(mut stream) = connector.unwrap().connect().await else { return false };
        let mut byte = [0];
        matches!(stream.read_exact(&mut byte).await, Ok(1)) && byte == *b"!"
    };
    tokio::join!(serve, connect).1
}

fn trusting(ca_file: &Path) -> TlsFiles {
    TlsFiles { ca_file: Some(ca_file.to_owned()), ..TlsFiles::default() }
}

#[tokio::test]
async fn a_server_reloads_certificates_and_keeps_old_ones_while_new_are_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = authority.write_own(dir.path());
    let (cert_file, key_file) = authority.write(dir.path(), "server");
    let protocol = ServerProtocol::Http1;
    let files =
        ServerTlsFiles { cert_file, key_file: key_file.clone(), client_ca_file: None, protocol };
    let acceptor = Acceptor::new(files, DEADLINE).unwrap();
    assert!(is_let_in(&acceptor, trusting(&ca)).await);
    std::fs::write(&key_file, "no key").unwrap();
    assert!(is_let_in(&acceptor, trusting(&ca)).await, "the previous ones remain in use");
    assert!(acceptor.reload_error().is_some_and(|error| error.contains("server.key")));
    let other = Authority::new();
    other.write(dir.path(), "server");
    assert!(!is_let_in(&acceptor, trusting(&ca)).await, "another authority signed the new ones");
    let ca = other.write_own(dir.path());
    assert!(is_let_in(&acceptor, trusting(&ca)).await);
    assert_eq!(acceptor.reload_error(), None);
}

#[tokio::test]
async fn only_clients_of_the_authority_are_let_in_where_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = authority.write_own(dir.path());
    let (cert_file, key_file) = authority.write(dir.path(), "server");
    let protocol = ServerProtocol::Http1;
    let files = ServerTlsFiles { cert_file, key_file, client_ca_file: Some(ca.clone()), protocol };
    let acceptor = Acceptor::new(files, DEADLINE).unwrap();
    let with = |(cert, key): (PathBuf, PathBuf)| TlsFiles {
        cert_file: Some(cert),
        key_file: Some(key),
        ..trusting(&ca)
    };
    assert!(is_let_in(&acceptor, with(authority.write(dir.path(), "client"))).await);
    assert!(!is_let_in(&acceptor, trusting(&ca)).await, "without a certificate");
    assert!(!is_let_in(&acceptor, with(Authority::new().write(dir.path(), "stranger"))).await);
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (cert_file, key_file) = authority.write(dir.path(), "server");
    let (_, other_key) = authority.write(dir.path(), "other");
    let protocol = ServerProtocol::Http1;
    let good = ServerTlsFiles { cert_file, key_file, client_ca_file: None, protocol };
    let missing = dir.path().join("missing.pem");
    for (files, named) in [
        (ServerTlsFiles { cert_file: missing.clone(), ..good.clone() }, "missing.pem"),
        (ServerTlsFiles { key_file: missing.clone(), ..good.clone() }, "missing.pem"),
        (ServerTlsFiles { client_ca_file: Some(missing), ..good.clone() }, "missing.pem"),
        (ServerTlsFiles { key_file: other_key, ..good.clone() }, "server.pem"),
    ] {
        let error = Acceptor::new(files, DEADLINE).unwrap_err();
        assert!(matches!(error, ConnectError::File { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}
