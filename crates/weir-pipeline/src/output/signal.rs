//! What an event loop waits for: a request from another thread, a moment that may never come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A request to stop within some time (or, with no time, simply a request). Clones share it.
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
    /// Not requested.
    pub fn new() -> Self {
        let (sender, receiver) = watch::channel(None);
        Self { sender: Arc::new(sender), receiver }
    }

    /// Makes the request.
    pub fn request(&self, grace: Duration) {
        self.sender.send_replace(Some(grace));
    }

    /// The time that the request gave, when it was made.
    pub(crate) fn grace(&self) -> Option<Duration> {
        *self.receiver.borrow()
    }

    /// Takes a request back, for requests that repeat. True when there was one.
    pub(crate) fn take(&self) -> bool {
        self.sender.send_replace(None).is_some()
    }

    /// Waits for the request; the moment at which its time will be up.
    pub(crate) async fn requested(&self) -> Instant {
        let mut receiver = self.receiver.clone();
        match receiver.wait_for(Option::is_some).await {
            Ok(grace) => Instant::now() + grace.unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Waits until then; without a moment for ever.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
