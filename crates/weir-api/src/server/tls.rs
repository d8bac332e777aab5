//! TLS of the API's listener.
//!
//! Invariants: a client that does not use TLS is told so in plain HTTP and receives nothing else;
//! if renewed certificate files cannot be loaded, the previous ones remain in use and the error is
//! reported until they can.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use weir_host::{Acceptor, ConnectError, Handshakes, ServerTlsFiles};

/// Maximum duration of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// First byte of a TLS connection: a handshake record (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// The response to a client that has sent a request without TLS.
const NO_TLS: &str = "{\"type\":\"about:blank\",\"title\":\"this port requires TLS: use https://\",\
                      \"status\":400}";

/// Certificates, and the handshakes of clients.
#[derive(Debug)]
pub(crate) struct ApiTls {
    acceptor: Acceptor,
    handshakes: Handshakes,
    failed: AtomicU64,
}

impl ApiTls {
    /// Reads the files; a missing or invalid one is an error already here.
    pub(super) fn new(files: ServerTlsFiles) -> Result<Self, ConnectError> {
        let acceptor = Acceptor::new(files, HANDSHAKE_TIMEOUT)?;
        Ok(Self { acceptor, handshakes: Handshakes::default(), failed: AtomicU64::new(0) })
    }

    /// Handshakes that failed, including clients without TLS.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Why renewed certificates are not in use.
    pub(crate) fn reload_error(&self) -> Option<String> {
        self.acceptor.reload_error()
    }

    /// Performs the handshake; `None` if it fails.
    pub(super) async fn accept(
        &self,
        tcp: TcpStream,
    ) -> Option<impl AsyncRead + AsyncWrite + Send + use<>> {
        let error = match timeout(HANDSHAKE_TIMEOUT, is_plain_text(&tcp)).await {
            Ok(true) => {
                refuse(tcp).await;
                "the client does not use TLS".to_owned()
            }
            Ok(false) => match self.handshakes.run(self.acceptor.accept(tcp)).await {
                Ok(stream) => return Some(stream),
                Err(error) => error.to_string(),
            },
            Err(_) => "the client sends nothing".to_owned(),
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(error, "a TLS handshake of the API failed");
        None
    }
}

/// Whether the client sends anything but a handshake.
async fn is_plain_text(tcp: &TcpStream) -> bool {
    let mut first = [HANDSHAKE_RECORD];
    matches!(tcp.peek(&mut first).await, Ok(1)) && first != [HANDSHAKE_RECORD]
}

async fn refuse(mut tcp: TcpStream) {
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{NO_TLS}",
        NO_TLS.len()
    );
    // The request is received first, if it is there: closing a socket with unread data resets the
    // connection, and the client would not see the response.
    let mut head = [0; 4096];
    let _received = tcp.try_read(&mut head);
    if let Err(error) = tcp.write_all(response.as_bytes()).await {
        tracing::debug!(%error, "could not answer a client without TLS");
    }
}
