//! Connections of clients: what is written is sent at once, and clients that accept no data or have
//! disappeared without closing the connection do not hold it for longer than a limit.

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

/// Limits the time in which a client accepts no data that the kernel has accepted, and turns off
/// Nagle's algorithm: with it, the end of a response that is written in parts waits for the
/// acknowledgement of the parts before it, which clients delay by up to 40 ms.
pub(crate) fn prepare_connection(tcp: &TcpStream, timeout: Duration) {
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY: responses may be delayed");
    }
    let millis = timeout.as_millis() as u32;
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(tcp, millis) {
        tracing::debug!(%error, "could not set the TCP user timeout of a client");
    }
}
