//! Records sent in HTTP requests: the shared implementation of `splunk_hec` and `http`.
//!
//! One loop owns the cursor: it takes deliveries, encodes them into requests and settles them; each
//! request in flight is a task of the same thread, so the next request is encoded and compressed
//! while the kernel sends the previous one.
//!
//! Invariants: a stream is in at most one request in flight, so its records arrive in order, also
//! after a retry and over several connections. (With indexer acknowledgement, a stream's next
//! request follows once the collector accepted the previous one; records that the indexer then
//! loses are sent again, late.) At most one request is prepared ahead of need. A request contains
//! whole deliveries.
//!
//! Reading order: this file, `sender`, `request`, `answer`, `concurrency`, `client`, `body`, `ack`.

mod ack;
pub(super) mod answer;
mod body;
mod client;
mod concurrency;
mod endpoint;
mod request;
mod sender;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use weir_journal::{Cursor, Outcome};
use weir_model::StreamId;

use crate::output::Job;
use crate::output::pending::PendingBatch;
use crate::output::signal::until;
use crate::output::threads::Metered;
use ack::Acks;
pub(crate) use concurrency::ConcurrencyLimiter;
pub use endpoint::{Endpoint, EndpointError};
pub(crate) use request::Encoder;
use request::{Request, RequestBuilder};
pub(crate) use sender::{NO_ACK_ID, Protocol, Sender, SenderSettings};

/// Requests prepared and not yet sent: one that waits for its streams, and one that waits for its
/// turn.
const PREPARED_MAX: usize = 2;

struct Driver {
    cursor: Cursor,
    sender: Arc<Sender>,
    in_flight: JoinSet<Request>,
    unacknowledged: JoinSet<Request>,
    /// Streams of the requests in flight.
    busy: HashSet<StreamId>,
    /// Encoded requests, in sending order.
    prepared: VecDeque<Request>,
    /// Taken for the request after the one that was just prepared.
    left_over: Option<PendingBatch>,
    /// Batches wait for streams that became free without being settled, which the journal does not
    /// know: look again without waiting for it.
    look_again: bool,
}

/// Runs the output until it is stopped, or until the journal is closed and empty.
pub(crate) async fn run(job: &Job, cursor: Cursor, sender: Arc<Sender>) {
    let mut driver = Driver {
        cursor,
        sender: sender.clone(),
        in_flight: JoinSet::new(),
        unacknowledged: JoinSet::new(),
        busy: HashSet::new(),
        prepared: VecDeque::new(),
        left_over: None,
        look_again: false,
    };
    let polling = async {
        // Only while the driver runs.
        match &sender.acks {
            Some(acks) => {
                let report = |text: &str| sender.stats.errors.count("ack", text);
                match acks.poll(&sender.client, report).await {}
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = driver.run(job) => {}
        () = polling => {}
    }
    sender.publish();
}

impl Driver {
    async fn run(&mut self, job: &Job) {
        let stop = job.stop.clone();
        let mut deadline: Option<Instant> = None;
        let bytes = self.sender.sending.requests.batch_bytes as u64;
        loop {
            self.dispatch();
            self.sender.publish();
            // Lets the tasks of requests run before more is encoded.
            tokio::task::yield_now().await;
            let ending = deadline.is_some() || self.cursor.is_closing();
            let at_once = ending || self.left_over.is_some() || self.look_again;
            if at_once && self.wants_more() && self.prepare().await {
                continue;
            }
            if ending && self.is_idle() {
                return;
            }
            let wants_more = !ending && self.wants_more();
            tokio::select! {
                at = stop.requested(), if deadline.is_none() => deadline = Some(at),
                () = until(deadline), if deadline.is_some() => return,
                Some(done) = self.in_flight.join_next() => self.sent(finished(done)),
                Some(done) = self.unacknowledged.join_next() => self.acknowledged(finished(done)),
                () = self.cursor.ready(bytes, self.sender.sending.requests.batch_age), if wants_more => {
                    self.prepare().await;
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
            && self.unacknowledged.is_empty()
            && self.prepared.is_empty()
            && self.left_over.is_none()
    }

    fn wants_more(&self) -> bool {
        self.prepared.len() < PREPARED_MAX && (self.prepared.is_empty() || self.has_connection())
    }

    fn has_connection(&self) -> bool {
        self.in_flight.len() < self.sender.sending.requests.connections_max.max(1)
    }

    /// Sends every prepared request whose streams are free. One that must wait also delays later
    /// requests of its streams.
    fn dispatch(&mut self) {
        let mut waiting: HashSet<StreamId> = HashSet::new();
        let mut at = 0;
        while at < self.prepared.len() && self.has_connection() {
            let held = |s: StreamId| self.busy.contains(&s) || waiting.contains(&s);
            if self.prepared[at].streams().any(held) {
                waiting.extend(self.prepared[at].streams());
                at += 1;
                continue;
            }
            let Some(request) = self.prepared.remove(at) else { break };
            self.busy.extend(request.streams());
            let sending = self.sender.clone().send(request);
            self.in_flight.spawn(Metered::new(sending, self.sender.stats.clone()));
        }
    }

    /// Encodes one more request, from streams that are free or, if there are none, from streams
    /// whose last request is still in flight. Returns false if there was nothing to take.
    async fn prepare(&mut self) -> bool {
        let waiting: HashSet<StreamId> = self.prepared.iter().flat_map(Request::streams).collect();
        let busy = std::mem::take(&mut self.busy);
        let held = |s: StreamId| busy.contains(&s) || waiting.contains(&s);
        let free = |s: StreamId| !busy.contains(&s);
        let mut first = self.left_over.take();
        let mut ahead = false;
        if first.is_none() {
            first = take(&mut self.cursor, held).await;
        }
        if first.is_none() && waiting.is_empty() {
            ahead = true;
            first = take(&mut self.cursor, free).await;
        }
        let request = match first {
            None => None,
            Some(first) if ahead => Some(self.gather(first, free).await),
            Some(first) => Some(self.gather(first, held).await),
        };
        self.busy = busy;
        let found = request.is_some();
        self.look_again &= found;
        self.prepared.extend(request);
        found
    }

    /// Takes and encodes until the request has its target size.
    async fn gather(&mut self, first: PendingBatch, refuse: impl Fn(StreamId) -> bool) -> Request {
        let batch_bytes = self.sender.batch_bytes();
        let query = self.sender.renderer().encoder.first_query(&first);
        let mut request_builder = RequestBuilder::default();
        let mut largest = 0;
        let mut next = Some(first);
        while let Some(pending) = next.take() {
            let before = request_builder.len;
            if let Err(pending) = self.sender.add(pending, &query, &mut request_builder) {
                self.left_over = Some(pending);
                break;
            }
            largest = largest.max(request_builder.len - before);
            if request_builder.len + largest > batch_bytes {
                break;
            }
            next = take(&mut self.cursor, &refuse).await;
        }
        request_builder.finish(&mut self.sender.renderer())
    }

    /// Handles a request that was sent completely: its streams are free for the next one.
    fn sent(&mut self, request: Request) {
        for stream in request.streams() {
            self.busy.remove(&stream);
        }
        if request.unacknowledged.is_empty() {
            self.settle(&request);
        } else {
            self.look_again = self.cursor.waiting_bytes() > 0;
            let timeout = self.sender.acks.as_ref().map_or(Duration::ZERO, Acks::timeout);
            self.unacknowledged.spawn(request.acknowledged(timeout));
        }
    }

    fn acknowledged(&mut self, request: Request) {
        if request.todo.is_empty() {
            self.settle(&request);
        } else {
            let text = "the indexer did not acknowledge a request in time; sending it again";
            self.sender.stats.errors.count("ack_timeout", text);
            self.prepared.push_front(request);
        }
    }

    fn settle(&mut self, request: &Request) {
        for (pending, outcome) in request.batches.iter().zip(&request.outcomes) {
            if let Some(delivery) = &pending.delivery {
                self.cursor.ack(delivery, *outcome);
            }
        }
    }
}

/// Takes the next batch of a stream that `refuse` accepts. Batches without a record for this
/// output are settled on the way.
async fn take(cursor: &mut Cursor, refuse: impl Fn(StreamId) -> bool) -> Option<PendingBatch> {
    loop {
        let delivery = cursor.take(&refuse).await?;
        if delivery.record_count == 0 {
            cursor.ack(&delivery, Outcome::default());
            continue;
        }
        return Some(PendingBatch::of_delivery(delivery));
    }
}

/// Returns a task's result; a panic of the task is propagated.
fn finished(done: Result<Request, JoinError>) -> Request {
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
