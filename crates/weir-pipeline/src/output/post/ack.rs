//! Indexer acknowledgement: asks the collector which requests have been indexed.
//!
//! Invariants: an ack ID waits under the channel of the connection that it was received on; the
//! wait ends when it is acknowledged, when it is lost (the collector issued it a second time, so it
//! had forgotten the first), or at its request's deadline; nothing is asked while nothing waits.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{Notify, oneshot};

use super::body::Body;
use super::client::Client;

/// Number of IDs per query.
const QUESTION_IDS_MAX: usize = 1000;
/// Pause between queries, unless acknowledgements are due much sooner.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Number of queries that fit in the acknowledgement timeout.
const POLLS_PER_TIMEOUT: u32 = 20;

type Waiting = HashMap<(Arc<str>, u64), oneshot::Sender<()>>;

/// Everything that waits for an acknowledgement.
#[derive(Debug)]
pub(crate) struct Acks {
    waiting: Mutex<Waiting>,
    added: Notify,
    timeout: Duration,
    interval: Duration,
    path: String,
}

#[derive(Deserialize)]
struct Acknowledged {
    acks: HashMap<u64, bool>,
}

impl Acks {
    /// Creates a poller that queries `path`; acknowledgements are due within `timeout`.
    pub(crate) fn new(path: String, timeout: Duration) -> Self {
        let interval = POLL_INTERVAL.min(timeout / POLLS_PER_TIMEOUT);
        let interval = interval.max(Duration::from_millis(1));
        Self { waiting: Mutex::default(), added: Notify::new(), timeout, interval, path }
    }

    /// Returns the acknowledgement timeout.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Waits for an ID. An earlier wait for the same ID is lost: its receiver closes.
    pub(crate) fn wait_for(&self, channel: Arc<str>, id: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.lock().insert((channel, id), sender);
        self.added.notify_one();
        receiver
    }

    /// Polls forever. Ends only when dropped.
    pub(crate) async fn poll(&self, client: &Client, report: impl Fn(&str)) -> Infallible {
        loop {
            self.forget_abandoned();
            if self.lock().is_empty() {
                self.added.notified().await;
            }
            tokio::time::sleep(self.interval).await;
            for (channel, ids) in self.questions() {
                self.ask(client, &channel, &ids, &report).await;
            }
        }
    }

    /// Removes IDs of requests that gave up waiting, which have dropped their receivers.
    fn forget_abandoned(&self) {
        self.lock().retain(|_, sender| !sender.is_closed());
    }

    fn questions(&self) -> Vec<(Arc<str>, Vec<u64>)> {
        let mut by_channel: HashMap<Arc<str>, Vec<u64>> = HashMap::new();
        for (channel, id) in self.lock().keys() {
            by_channel.entry(channel.clone()).or_default().push(*id);
        }
        let chunks = |(channel, ids): (Arc<str>, Vec<u64>)| {
            let chunks: Vec<_> = ids.chunks(QUESTION_IDS_MAX).map(<[u64]>::to_vec).collect();
            chunks.into_iter().map(move |ids| (channel.clone(), ids))
        };
        by_channel.into_iter().flat_map(chunks).collect()
    }

    async fn ask(&self, client: &Client, channel: &Arc<str>, ids: &[u64], report: &impl Fn(&str)) {
        let question = serde_json::json!({ "acks": ids }).to_string();
        let body = Body::plain(question.into());
        let reply = match client.post(&self.path, &body, Some(channel)).await {
            Ok(reply) => reply,
            Err(error) => return report(&error.to_string()),
        };
        let Ok(said) = serde_json::from_slice::<Acknowledged>(&reply.answer.body) else {
            let text = String::from_utf8_lossy(&reply.answer.body);
            return report(&format!(
                "{} did not report acknowledgements (HTTP {}: {text})",
                client.target(),
                reply.answer.status
            ));
        };
        let mut waiting = self.lock();
        for (id, _) in said.acks.into_iter().filter(|(_, done)| *done) {
            if let Some(sender) = waiting.remove(&(channel.clone(), id)) {
                // A closed receiver means that the request is already being sent again.
                let _sent = sender.send(());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
