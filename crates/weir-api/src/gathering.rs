//! Writes of a connection gathered into larger ones.
//!
//! An HTTP/2 connection writes each frame of at most 16 KiB separately, and most of the cost of a
//! write to a socket does not depend on its length. So the writes of a connection while it is
//! polled are buffered, and written together at the end of the poll.
//!
//! Invariants: bytes keep their order; no byte is buffered after the poll has ended; a connection
//! that is no longer driven by its [`Gatherer`], such as one that became a WebSocket, writes
//! directly; the buffer is limited; a busy connection reuses its buffer, and an idle one releases
//! it with its next ping.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are gathered at most: five frames, which is somewhat more than the largest segment
/// that the kernel makes of a write.
const GATHERED_BYTES_MAX: usize = 80 * 1024;

/// The stream for a connection.
#[derive(Debug)]
pub(crate) struct Gathering<S>(Arc<Mutex<GatheringWriter<S>>>);

/// Drives the connection.
#[derive(Debug)]
pub(crate) struct Gatherer<S>(Arc<Mutex<GatheringWriter<S>>>);

#[derive(Debug)]
struct GatheringWriter<S> {
    stream: S,
    /// The connection is being polled.
    holds: bool,
    waiting: Vec<u8>,
    /// How much of `waiting` has been written.
    written: usize,
    /// The error to report to the connection.
    error: Option<io::Error>,
}

/// Returns the stream for a connection, and its driver.
pub(crate) fn gathered<S>(stream: S) -> (Gathering<S>, Gatherer<S>) {
    let writer =
        GatheringWriter { stream, holds: false, waiting: Vec::new(), written: 0, error: None };
    let writer = Arc::new(Mutex::new(writer));
    (Gathering(writer.clone()), Gatherer(writer))
}

impl<S: AsyncWrite + Unpin> Gatherer<S> {
    /// Polls a connection with the other end of this one until it ends.
    pub(crate) async fn drive<F: Future>(&self, mut connection: Pin<&mut F>) -> F::Output {
        let output = poll_fn(|context| {
            lock(&self.0).holds = true;
            let polled = connection.as_mut().poll(context);
            let mut writer = lock(&self.0);
            writer.holds = false;
            if polled.is_pending()
                && let Poll::Ready(Err(error)) = writer.poll_drain(context)
            {
                writer.error = Some(error);
                context.waker().wake_by_ref();
            }
            polled
        });
        let output = output.await;
        if let Err(error) = poll_fn(|context| lock(&self.0).poll_drain(context)).await {
            tracing::debug!(%error, "the end of a connection could not be written");
        }
        output
    }
}

fn lock<S>(writer: &Mutex<GatheringWriter<S>>) -> MutexGuard<'_, GatheringWriter<S>> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncWrite + Unpin> GatheringWriter<S> {
    /// Writes the buffered bytes. A buffer of which less than a quarter was used is released.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.written < self.waiting.len() {
            let waiting = &self.waiting[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, waiting))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.written = 0;
        if self.waiting.len() < self.waiting.capacity() / 4 {
            self.waiting = Vec::new();
        }
        self.waiting.clear();
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error));
        }
        if !self.holds || self.waiting.len() >= GATHERED_BYTES_MAX {
            ready!(self.poll_drain(context))?;
        }
        if !self.holds {
            return Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        }
        let before = self.waiting.len();
        for part in parts {
            let room = GATHERED_BYTES_MAX - self.waiting.len();
            self.waiting.extend_from_slice(&part[..part.len().min(room)]);
        }
        Poll::Ready(Ok(self.waiting.len() - before))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error));
        }
        if self.holds {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_write(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut writer = lock(&self.0);
        ready!(writer.poll_drain(context))?;
        Pin::new(&mut writer.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const MESSAGE: [u8; 9] = *b"a message";

    fn streams(
        bytes_max: usize,
    ) -> (Gathering<DuplexStream>, Gatherer<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(bytes_max);
        let (stream, gatherer) = gathered(near);
        (stream, gatherer, far)
    }

    #[tokio::test]
    async fn writes_of_one_poll_are_written_together() {
        let (mut stream, gatherer, mut far) = streams(1 << 20);
        let writer = gatherer.0.clone();
        let connection = async {
            for _ in 0..100 {
                stream.write_all(&MESSAGE).await.unwrap();
                stream.flush().await.unwrap();
            }
            assert_eq!(lock(&writer).waiting.len(), 900);
            // It is written although the connection is only waiting now.
            tokio::task::yield_now().await;
            assert!(lock(&writer).waiting.is_empty());
            stream.write_all(&MESSAGE).await.unwrap();
        };
        gatherer.drive(pin!(connection)).await;
        drop((stream, gatherer, writer));
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, MESSAGE.repeat(101));
    }

    #[tokio::test]
    async fn writes_above_the_buffer_wait_for_the_peer_and_keep_their_order() {
        let (mut stream, gatherer, mut far) = streams(1000);
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        let writer = gatherer.0.clone();
        let connection = async {
            for part in sent.chunks(16_393) {
                stream.write_all(part).await.unwrap();
                assert!(lock(&writer).waiting.len() <= GATHERED_BYTES_MAX);
            }
            stream.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let connection = pin!(connection);
        let ((), received) = tokio::join!(gatherer.drive(connection), far.read_to_end(&mut read));
        assert_eq!(received.unwrap(), sent.len());
        assert!(read == sent);
    }

    #[tokio::test]
    async fn a_connection_that_is_not_driven_writes_directly() {
        let (mut stream, gatherer, mut far) = streams(1000);
        stream.write_all(&MESSAGE).await.unwrap();
        let mut read = [0; MESSAGE.len()];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(read, MESSAGE);
        gatherer.drive(pin!(stream.write_all(&MESSAGE))).await.unwrap();
        stream.write_all(&MESSAGE).await.unwrap();
        let mut both = [0; 2 * MESSAGE.len()];
        far.read_exact(&mut both).await.unwrap();
        assert_eq!(both.as_slice(), MESSAGE.repeat(2));
    }

    #[tokio::test]
    async fn a_connection_detects_that_its_peer_has_closed() {
        let (mut stream, gatherer, far) = streams(1000);
        drop(far);
        let connection = async {
            stream.write_all(&MESSAGE).await.unwrap();
            tokio::task::yield_now().await;
            stream.flush().await.unwrap_err()
        };
        let error = gatherer.drive(pin!(connection)).await;
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
