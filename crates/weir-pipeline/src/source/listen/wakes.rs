//! The wake-ups of a source, in an event loop.

use std::io;
use std::os::fd::AsFd;

use tokio::net::unix::pipe;
use tokio::time::timeout;
use weir_host::WakeFd;

use super::limits::GRACE;

/// Signals that the journal has room, or that the source must stop.
pub(in crate::source) struct Wakes(pipe::Receiver);

impl Wakes {
    /// An eventfd is read like a pipe: nothing in that type is specific to pipes.
    pub(in crate::source) fn new(wake: &WakeFd) -> io::Result<Self> {
        let fd = wake.as_fd().try_clone_to_owned()?;
        pipe::Receiver::from_owned_fd_unchecked(fd).map(Self)
    }

    /// Waits for the next wake-up.
    pub(in crate::source) async fn next(&self) -> io::Result<()> {
        self.0.readable().await?;
        loop {
            match self.0.try_read(&mut [0; 8]) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Completes the work of a source, and calls `wake` for each wake-up meanwhile. Returns false
    /// if it took longer than [`GRACE`], and was abandoned.
    pub(in crate::source) async fn finish(
        &self,
        wake: impl Fn(),
        work: impl Future<Output = ()>,
    ) -> bool {
        let waking = async {
            while self.next().await.is_ok() {
                wake();
            }
        };
        let ended = async {
            tokio::select! {
                () = work => {}
                () = waking => {}
            }
        };
        timeout(GRACE, ended).await.is_ok()
    }
}
