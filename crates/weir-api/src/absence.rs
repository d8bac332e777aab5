//! Time limits for clients that accept no data or have disappeared without closing the connection.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutStream;

/// Limits the time in which a client accepts no data.
pub(crate) fn with_write_timeout<S: AsyncRead + AsyncWrite>(
    stream: S,
    timeout: Duration,
) -> Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(timeout));
    Box::pin(stream)
}

/// The same for data that the kernel has accepted and the client has not.
pub(crate) fn limit_absence(tcp: &TcpStream, timeout: Duration) {
    let millis = timeout.as_millis() as u32;
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(tcp, millis) {
        tracing::debug!(%error, "could not set the TCP user timeout of a client");
    }
}
