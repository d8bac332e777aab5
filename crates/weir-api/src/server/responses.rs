//! The responses of a connection that are being sent, and how long their client has accepted none
//! of their data.
//!
//! With HTTP/2 a client may stop accepting one response while the connection itself moves on, which
//! no timeout of the connection notices.
//!
//! Invariants: a body is handed over in parts of at most [`PART_BYTES`], the next one when the
//! client has accepted the previous one, so a stalled response holds no more than a part in the
//! connection's buffer; the slot is not idle while a body is being produced.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use weir_host::Working;

/// Maximum size of a part of a response.
const PART_BYTES: usize = 64 * 1024;

/// The responses of a connection. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Responses(Arc<Tracked>);

#[derive(Debug, Default)]
struct Tracked {
    bodies: Mutex<Bodies>,
    has_ended: Notify,
}

#[derive(Debug, Default)]
struct Bodies {
    next: u64,
    /// Since when each response has waited for its client; `None`: weir is producing data.
    waiting: BTreeMap<u64, Option<Instant>>,
}

impl Responses {
    /// Tracks a body until it is dropped; the slot is busy until then.
    pub(super) fn track(&self, body: axum::body::Body, working: Option<Working>) -> ResponseBody {
        let mut bodies = self.0.lock();
        let id = bodies.next;
        bodies.next += 1;
        bodies.waiting.insert(id, None);
        drop(bodies);
        let entry = BodyEntry { id, responses: self.clone() };
        ResponseBody { body, rest: Bytes::new(), entry, _working: working }
    }

    /// Waits until the client has accepted nothing of some response for this long.
    pub(super) async fn stalled(&self, timeout: Duration) {
        loop {
            let longest = self.0.lock().waiting.values().copied().flatten().min();
            let now = Instant::now();
            let until = longest.unwrap_or(now) + timeout;
            if until <= now {
                return;
            }
            sleep_until(until).await;
        }
    }

    /// Waits until there has been no response for this long.
    pub(super) async fn ended(&self, timeout: Duration) {
        loop {
            let ended = self.0.has_ended.notified();
            if self.0.lock().waiting.is_empty() {
                return sleep_until(Instant::now() + timeout).await;
            }
            ended.await;
        }
    }
}

impl Tracked {
    fn lock(&self) -> MutexGuard<'_, Bodies> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a body.
struct BodyEntry {
    id: u64,
    responses: Responses,
}

impl BodyEntry {
    fn set_waiting_since(&self, since: Option<Instant>) {
        self.responses.0.lock().waiting.insert(self.id, since);
    }
}

impl Drop for BodyEntry {
    fn drop(&mut self) {
        self.responses.0.lock().waiting.remove(&self.id);
        self.responses.0.has_ended.notify_one();
    }
}

/// The body of a response.
pub(super) struct ResponseBody {
    body: axum::body::Body,
    /// The rest of the frame that is being handed over.
    rest: Bytes,
    entry: BodyEntry,
    _working: Option<Working>,
}

impl ResponseBody {
    fn poll_part(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return other,
            }
        }
        let part = self.rest.split_to(self.rest.len().min(PART_BYTES));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = self.poll_part(context);
        self.entry.set_waiting_since(polled.is_ready().then(Instant::now));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_response_that_waits_for_its_client_stalls() {
        let timeout = Duration::from_secs(10);
        let responses = Responses::default();
        let mut bodies: Vec<_> = [vec![1; 3 * PART_BYTES / 2], vec![2]]
            .into_iter()
            .map(|bytes| responses.track(axum::body::Body::from(bytes), None))
            .collect();
        assert_eq!(bodies[0].size_hint().exact(), Some(3 * PART_BYTES as u64 / 2));
        tokio::time::advance(timeout * 2).await;
        assert!(tokio::time::timeout(timeout / 2, responses.stalled(timeout)).await.is_err());

        let mut first = bodies.remove(0);
        let part = poll_fn(|context| Pin::new(&mut first).poll_frame(context)).await;
        assert_eq!(part.unwrap().unwrap().into_data().unwrap().len(), PART_BYTES);
        assert!(!first.is_end_stream());
        assert_eq!(first.size_hint().exact(), Some(PART_BYTES as u64 / 2));
        let started = Instant::now();
        responses.stalled(timeout).await;
        assert!(started.elapsed() >= timeout);

        let part = poll_fn(|context| Pin::new(&mut first).poll_frame(context)).await;
        assert_eq!(part.unwrap().unwrap().into_data().unwrap().len(), PART_BYTES / 2);
        assert!(first.is_end_stream());
        drop((first, bodies));
        responses.ended(timeout).await;
    }
}
