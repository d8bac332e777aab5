//! Sends syslog messages over one connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};
use weir_host::Stream;

use super::limits::{PROOF_TIME, WRITE_BYTES_MAX, WRITE_TIMEOUT};
use super::{Dialer, Failure, Messages};

/// An open connection without errors so far.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Box<Stream>,
    /// It has stayed open for [`PROOF_TIME`] after its first message.
    is_proven: bool,
}

impl Connection {
    /// Returns the reason if the peer has closed its side. Data from the peer is ignored.
    fn end(&mut self) -> Option<String> {
        let mut space = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(&mut *self.stream).poll_read(&mut context, &mut buffer) {
                Poll::Pending => return None,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(Ok(())) => return Some(closed()),
                Poll::Ready(Err(error)) => return Some(broken(&error)),
            }
        }
    }

    /// Waits to see whether the peer closes the connection right after its first message.
    async fn prove(&mut self) -> Result<(), String> {
        let mut space = [0; 1024];
        let end = async {
            loop {
                match self.stream.read(&mut space).await {
                    Ok(0) => return closed(),
                    Ok(_) => {}
                    Err(error) => return broken(&error),
                }
            }
        };
        if let Ok(end) = timeout(PROOF_TIME, end).await {
            return Err(end);
        }
        self.is_proven = true;
        Ok(())
    }

    /// Writes some bytes, and returns how many the kernel has taken.
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let written = self.stream.write(bytes).await.map_err(|error| broken(&error))?;
        if written == 0 {
            return Err(closed());
        }
        // Data that TLS has encrypted may not be written yet.
        self.stream.flush().await.map_err(|error| broken(&error))?;
        Ok(written)
    }
}

fn closed() -> String {
    "the peer closed the connection".to_owned()
}

fn broken(error: &io::Error) -> String {
    format!("the connection failed: {error}")
}

/// Sends messages over the open connection, or a new one if the peer has closed that. Counts those
/// that the kernel has taken. Returns the connection if it can be used again.
pub(super) async fn send(
    dialer: &Dialer,
    open: Option<Connection>,
    messages: &Messages,
    accepted: &mut usize,
) -> Result<Connection, Failure> {
    let open = open.and_then(|mut open| open.end().is_none().then_some(open));
    let mut connection = match open {
        Some(connection) => connection,
        None => Connection { stream: Box::new(dialer.dial().await?), is_proven: false },
    };
    let reset = |text: String| dialer.failure("reset", &text);
    let mut sent = 0;
    let mut deadline = Instant::now() + WRITE_TIMEOUT;
    while *accepted < messages.len() {
        // A write succeeds on a connection that the peer has closed.
        if let Some(end) = connection.end() {
            return Err(reset(end));
        }
        let end = messages.bytes.len().min(sent + WRITE_BYTES_MAX);
        let written = connection.write(&messages.bytes[sent..end]);
        let written = timeout_at(deadline, written).await.map_err(|_| {
            let text = format!("the peer accepted no message within {WRITE_TIMEOUT:?}");
            dialer.failure("timeout", &text)
        })?;
        sent += written.map_err(reset)?;
        let whole = messages.ends[*accepted..].partition_point(|end| *end <= sent);
        if whole > 0 {
            if !connection.is_proven {
                connection.prove().await.map_err(reset)?;
            }
            *accepted += whole;
            deadline = Instant::now() + WRITE_TIMEOUT;
        }
    }
    Ok(connection)
}
