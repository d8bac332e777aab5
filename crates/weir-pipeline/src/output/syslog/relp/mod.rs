//! Messages over RELP: each is acknowledged by the server, and sent again until it is.
//!
//! A window of messages may be unanswered, so that the connection is used while answers are in
//! flight. A message that the server does not accept is sent again after a pause, like after any
//! other failure; other messages are sent meanwhile, within the window.
//!
//! Invariants: a record is settled when the server has acknowledged it, whatever the order of the
//! answers; after a connection failed, all unanswered messages are sent again, in order, before new
//! ones.

mod queue;
mod session;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_journal::{Cursor, Outcome};

use super::SyslogWriter;
use crate::output::pending::PendingBatch;
use crate::output::signal::until;
use crate::output::socket::{AGE, BYTES, Peer, Retry, SocketError, count_cut};
use crate::output::{Job, OutputContext};
use crate::stats::{OutputStats, add, set};
use queue::Queue;
use session::{Answer, Overdue, Session};

/// How long to wait for the answer to the end of the session: nothing depends on it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of the peer and the messages.
#[derive(Debug)]
pub(crate) struct Relp {
    pub(super) peer: Peer,
    pub(super) writer: SyslogWriter,
    pub(super) unanswered_max: usize,
    pub(super) ack_timeout: Duration,
}

struct RelpLoop<'a> {
    output: &'a str,
    context: &'a OutputContext,
    stats: Arc<OutputStats>,
    cursor: Cursor,
    peer: Peer,
    unanswered_max: usize,
    ack_timeout: Duration,
    queue: Queue,
    session: Option<Session>,
    retry: Retry,
    /// When the next connection is opened after a failure.
    paused: Option<Instant>,
    /// When refused messages are sent again.
    refused_until: Option<Instant>,
}

pub(crate) async fn run(job: &Job, relp: Relp, cursor: Cursor) {
    let mut sending = RelpLoop {
        output: &job.plan.name,
        context: &job.context,
        stats: job.stats.clone(),
        cursor,
        retry: Retry::new(job, &relp.peer),
        peer: relp.peer,
        unanswered_max: relp.unanswered_max,
        ack_timeout: relp.ack_timeout,
        queue: Queue::new(relp.writer),
        session: None,
        paused: None,
        refused_until: None,
    };
    set(&job.stats.concurrency_limit, relp.unanswered_max as u64);
    sending.run(job).await;
    set(&job.stats.in_flight_requests, 0);
}

impl RelpLoop<'_> {
    async fn run(&mut self, job: &Job) {
        let stop = job.stop.clone();
        let mut deadline: Option<Instant> = None;
        loop {
            if self.queue.is_empty() {
                self.take().await;
            }
            let is_idle = self.queue.is_empty();
            if is_idle && (deadline.is_some() || self.cursor.is_closing()) {
                return self.close().await;
            }
            tokio::select! {
                at = stop.requested(), if deadline.is_none() => deadline = Some(at),
                () = until(deadline), if deadline.is_some() => return,
                () = self.work() => {}
            }
        }
    }

    /// Waits for one event, and handles it. May be cancelled at any time.
    async fn work(&mut self) {
        let result = if self.session.is_some() { self.exchange().await } else { self.open().await };
        if let Err(error) = result {
            self.broken(&error);
        }
    }

    /// Waits for records and for the end of a pause; then connects.
    async fn open(&mut self) -> Result<(), SocketError> {
        if self.queue.is_empty() {
            self.cursor.ready(BYTES, AGE).await;
            self.take().await;
        } else if let Some(moment) = self.paused {
            tokio::time::sleep_until(moment).await;
            self.paused = None;
        } else {
            let stream = self.peer.dialer.connect().await?;
            self.session = Some(Session::new(stream, self.unanswered_max));
        }
        Ok(())
    }

    /// Sends and receives, or takes more records.
    async fn exchange(&mut self) -> Result<(), SocketError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if self.queue.refused_count() < self.unanswered_max {
            session.fill(&mut self.queue);
        }
        set(&self.stats.in_flight_requests, session.unanswered_count() as u64);
        let overdue = session.deadline(self.peer.write_timeout, self.ack_timeout);
        let wants_more = (self.queue.waiting_bytes() as u64) < BYTES;
        tokio::select! {
            result = session.exchange() => {
                let target = || self.peer.dialer.target();
                let sent =
                    result.map_err(|error| SocketError::Broken { target: target(), error })?;
                add(&self.stats.bytes_sent, sent as u64);
                self.answers()
            }
            () = until(overdue.map(|(at, _)| at)), if overdue.is_some() => self.is_overdue(),
            () = until(self.refused_until), if self.refused_until.is_some() => {
                self.refused_until = None;
                self.queue.release_refused();
                Ok(())
            }
            () = self.cursor.ready(BYTES, AGE), if wants_more => {
                self.take().await;
                Ok(())
            }
        }
    }

    /// Fails if a deadline of the session has passed.
    fn is_overdue(&self) -> Result<(), SocketError> {
        let Some(session) = &self.session else { return Ok(()) };
        let (write_timeout, ack_timeout) = (self.peer.write_timeout, self.ack_timeout);
        let target = self.peer.dialer.target();
        match session.deadline(write_timeout, ack_timeout) {
            Some((at, overdue)) if at <= Instant::now() => Err(match overdue {
                Overdue::Write => SocketError::Timeout { target, after: write_timeout },
                Overdue::Opening => SocketError::Unanswered { target, after: write_timeout },
                Overdue::Answer => SocketError::Unanswered { target, after: ack_timeout },
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Takes available batches, up to a limit.
    async fn take(&mut self) {
        let now_ns = self.context.clock.unix_ns();
        while (self.queue.waiting_bytes() as u64) < BYTES {
            let Some(delivery) = self.cursor.take(|_| false).await else { return };
            if delivery.record_count == 0 {
                self.cursor.ack(&delivery, Outcome::default());
                continue;
            }
            self.stats.count_queueing([&*delivery.batch], now_ns);
            let pending = PendingBatch::of_delivery(delivery);
            let (cut, size) = self.queue.push(pending);
            add(&self.stats.bytes_encoded, size as u64);
            count_cut(self.output, &self.stats, cut);
        }
    }

    /// Handles the answers that have arrived.
    fn answers(&mut self) -> Result<(), SocketError> {
        let mut acknowledged = 0;
        let mut result = Ok(());
        while let Some(answer) = self.session.as_mut().and_then(Session::answer) {
            match answer {
                Answer::Opened => {}
                Answer::Acknowledged { id, took } => {
                    acknowledged += 1;
                    add(&self.stats.service_ns, took.as_nanos() as u64);
                    if let Some(done) = self.queue.acknowledge(id) {
                        self.settle(&done);
                    }
                }
                Answer::Refused { id, reason } => self.refused(id, reason),
                Answer::Closed => {
                    result = Err(SocketError::Closed { target: self.peer.dialer.target() });
                    break;
                }
                Answer::Failed(error) => {
                    result = Err(SocketError::Relp { target: self.peer.dialer.target(), error });
                    break;
                }
            }
        }
        if acknowledged > 0 {
            add(&self.stats.requests, acknowledged);
            if !self.queue.is_troubled() {
                self.retry.recovered();
            }
        }
        result
    }

    fn settle(&mut self, done: &queue::Acknowledged) {
        let queue::Acknowledged { pending, resent } = done;
        if let Some(delivery) = &pending.delivery {
            let outcome = Outcome { resent: *resent, ..Outcome::delivered(pending.len() as u64) };
            self.cursor.ack(delivery, outcome);
        }
    }

    /// Handles a message that the server did not accept. All refusals until the end of the pause
    /// count as one failure.
    fn refused(&mut self, id: queue::MessageId, reason: String) {
        self.queue.refuse(id);
        if self.refused_until.is_none() {
            let error = SocketError::Rejected { target: self.peer.dialer.target(), reason };
            self.refused_until = Some(Instant::now() + self.retry.failed(&error));
        }
    }

    /// Handles a connection that is lost, or could not be opened. It is not a failure while there
    /// is nothing to send: servers close idle connections.
    fn broken(&mut self, error: &SocketError) {
        if let Some(session) = self.session.take() {
            self.queue.take_back(session.into_unanswered());
        }
        set(&self.stats.in_flight_requests, 0);
        if self.queue.is_empty() {
            tracing::debug!(output = self.output, "{error}");
        } else {
            self.paused = Some(Instant::now() + self.retry.failed(error));
        }
    }

    /// Ends the session properly, so that the server does not report a broken connection.
    async fn close(&mut self) {
        let Some(mut session) = self.session.take() else { return };
        session.close();
        let closing = async {
            while session.exchange().await.is_ok() {
                while let Some(answer) = session.answer() {
                    if matches!(answer, Answer::Closed | Answer::Failed(_)) {
                        return;
                    }
                }
            }
        };
        // Without an answer in time the connection is just closed.
        let _answered = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    }
}
