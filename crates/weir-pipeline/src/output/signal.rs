//! Signals for event loops: a request from another thread, and an optional deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A request to stop within some time (or, without a time, just a request). Clones share it.
#[derive(Debug, Clone)]
pub struct Stop {
    sender: Arc<watch::Sender<Option<Duration>>>,
    receiver: watch::Receiver<Option<Duration>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// Creates a request that was not made yet.
    pub fn new() -> Self {
        let (sender, receiver) = watch::channel(None);
        Self { sender: Arc::new(sender), receiver }
    }

    /// Makes the request.
    pub fn request(&self, grace: Duration) {
        self.sender.send_replace(Some(grace));
    }

    /// Returns the time given with the request, if it was made.
    pub(crate) fn grace(&self) -> Option<Duration> {
        *self.receiver.borrow()
    }

    /// Takes back a request, for repeatable requests. Returns true if there was one.
    pub(crate) fn take(&self) -> bool {
        self.sender.send_replace(None).is_some()
    }

    /// Waits for the request; returns the time at which its grace period ends.
    pub(crate) async fn requested(&self) -> Instant {
        let mut receiver = self.receiver.clone();
        match receiver.wait_for(Option::is_some).await {
            Ok(grace) => Instant::now() + grace.unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Waits until `moment`; forever if it is `None`.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
