//! `/weir/v1/topology/stream`: the topology as server-sent events, one each second.
//!
//! Events: `snapshot` (the whole document) first, then `change` (what differs from what was sent
//! before, and the time).
//!
//! Invariants: the state is read once a second, however many streams there are, and not at all
//! while there is none; a slow reader skips states, costs at most two events, and blocks nothing;
//! a stream ends with the session of its reader, and with weir.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::channel::{Channel, SendError, Sender};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::TopologyDocument;
use crate::access::Requester;
use crate::response::{events, problem, starting};
use crate::state::ApiState;
use crate::tail::IsLive;

/// Maximum number of streams: the pages that the operators of an installation keep open.
pub(crate) const STREAMS_MAX: usize = 64;

/// Interval at which the state is read: what a person can follow.
const INTERVAL: Duration = Duration::from_secs(1);

/// Events that may wait for a reader's connection; while one does, states are skipped.
const EVENTS_WAITING: usize = 1;

/// All streams.
#[derive(Debug)]
pub(crate) struct TopologyStreams {
    permits: Arc<Semaphore>,
    /// What they read; it lives as long as one of them.
    feed: Mutex<Weak<Feed>>,
}

/// The current topology, read once for all streams until the last one drops it.
#[derive(Debug)]
struct Feed {
    latest: watch::Receiver<Arc<TopologyDocument>>,
    /// Aborted when dropped.
    _reading: JoinSet<()>,
}

/// Reads the current topology; `None` while there is no pipeline.
type Read = Box<dyn Fn() -> Option<TopologyDocument> + Send>;

impl Default for TopologyStreams {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(STREAMS_MAX)), feed: Mutex::default() }
    }
}

impl TopologyStreams {
    fn admit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Returns the feed, which begins with the first stream. `None`: there is no pipeline yet.
    fn feed(&self, read: Read) -> Option<Arc<Feed>> {
        let mut shared = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = shared.upgrade() {
            return Some(feed);
        }
        let (sender, latest) = watch::channel(Arc::new(read()?));
        let mut reading = JoinSet::new();
        reading.spawn(read_each_second(read, sender));
        let feed = Arc::new(Feed { latest, _reading: reading });
        *shared = Arc::downgrade(&feed);
        Some(feed)
    }
}

async fn read_each_second(read: Read, latest: watch::Sender<Arc<TopologyDocument>>) {
    let mut seconds = tokio::time::interval(INTERVAL);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate, and the first state was just read.
    seconds.tick().await;
    loop {
        seconds.tick().await;
        if let Some(document) = read() {
            latest.send_replace(Arc::new(document));
        }
    }
}

/// The topology as server-sent events, until the client disconnects or weir stops
///
/// The first event is a `TopologyDocument`. Then follows each second a `TopologyChange`; if nothing
/// has changed, it has only the time.
#[utoipa::path(
    get, path = "/weir/v1/topology/stream", tag = "status",
    responses(
        (status = 200, description = "Events `snapshot` and `change`",
         content_type = "text/event-stream", body = String),
        (status = 503, description = "The maximum number of streams was reached"),
    )
)]
pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(is_live): Extension<IsLive>,
    Extension(requester): Extension<Requester>,
) -> Response {
    let Some(permit) = state.topology.admit() else {
        let title = format!("the maximum of {STREAMS_MAX} streams was reached; try again later");
        return problem(StatusCode::SERVICE_UNAVAILABLE, &title);
    };
    // A reload replaces the pipeline.
    let reading = state.clone();
    let read = move || reading.view().map(|view| TopologyDocument::of(&view, reading.version));
    let Some(feed) = state.topology.feed(Box::new(read)) else { return starting() };
    is_live.set();
    let (sender, body) = Channel::new(EVENTS_WAITING);
    let mut stopped = state.stopped.clone();
    tokio::spawn(async move {
        tokio::select! {
            _disconnected = send_all(sender, &feed) => {}
            () = requester.must_reconnect() => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        drop(permit);
    });
    events(Body::new(body))
}

/// Sends events until the reader has left.
async fn send_all(mut body: Sender<Bytes>, feed: &Feed) -> Result<(), SendError> {
    let mut latest = feed.latest.clone();
    let mut sent = latest.borrow_and_update().clone();
    body.send_data(event("snapshot", &*sent)).await?;
    while latest.changed().await.is_ok() {
        let current = latest.borrow_and_update().clone();
        body.send_data(event("change", &current.since(&sent))).await?;
        sent = current;
    }
    Ok(())
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use http_body_util::BodyExt as _;

    use super::super::tests::document;
    use super::*;

    #[test]
    fn number_of_streams_is_limited() {
        let streams = TopologyStreams::default();
        let mut permits: Vec<_> = (0..STREAMS_MAX).map(|_| streams.admit().unwrap()).collect();
        assert!(streams.admit().is_none());
        permits.pop();
        assert!(streams.admit().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn state_is_read_once_a_second_for_all_streams_and_not_without_one() {
        let (streams, reads) = (TopologyStreams::default(), Arc::new(AtomicU64::new(0)));
        let counted = reads.clone();
        // Every second state differs from the one before.
        let read = move || Some(document(counted.fetch_add(1, Ordering::Relaxed) / 2));
        let mut bodies = Vec::new();
        let mut sending = JoinSet::new();
        for _ in 0..3 {
            let (sender, body) = Channel::new(EVENTS_WAITING);
            let feed = streams.feed(Box::new(read.clone())).unwrap();
            sending.spawn(async move { send_all(sender, &feed).await });
            bodies.push(body);
        }
        for (name, has_nodes) in
            [("snapshot", true), ("change", false), ("change", true), ("change", false)]
        {
            for body in &mut bodies {
                let sent = body.frame().await.unwrap().unwrap().into_data().unwrap();
                let sent = String::from_utf8(sent.to_vec()).unwrap();
                assert!(sent.starts_with(&format!("event: {name}\n")), "{sent} is no {name}");
                assert_eq!(!sent.contains("\"nodes\":[]"), has_nodes, "{sent}");
            }
        }
        assert_eq!(reads.load(Ordering::Relaxed), 4);
        drop(bodies);
        while sending.join_next().await.is_some() {}
        let last = reads.load(Ordering::Relaxed);
        tokio::time::advance(INTERVAL * 5).await;
        assert_eq!(reads.load(Ordering::Relaxed), last);
        assert!(streams.feed(Box::new(|| None)).is_none(), "the next stream begins anew");
    }
}
