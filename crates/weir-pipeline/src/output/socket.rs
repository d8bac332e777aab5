//! `type = "socket"`: one line per record over TCP or TLS, or one datagram per record over UDP.
//!
//! The protocol has no acknowledgement: a record counts as delivered when the kernel has accepted
//! all of it. Data in the kernel's buffers is lost without notice when a connection breaks; records
//! that the kernel had not accepted completely are sent again.
//!
//! Reading order: this file, then `link`, `payload`.
//!
//! Invariants: after a connection broke, the next one begins with a complete line; a peer that
//! accepts nothing within the write timeout is disconnected and retried; a cancelled wait resumes
//! where it was.

mod link;
mod payload;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use weir_host::ConnectError;
use weir_journal::{Cursor, Outcome};

use super::pending::PendingBatch;
use super::post::ConcurrencyLimiter;
use super::signal::until;
use super::{Job, OutputContext};
use crate::config::SocketOutput;
use crate::stats::{self, OutputStats, add};
pub(super) use link::Dialer;
use link::Link;
use payload::Payload;

/// Maximum time that records wait for others before they are sent.
const AGE: Duration = Duration::from_millis(50);
/// Size of the batches at which they are sent at once, and the most sent in one cycle.
const BYTES: u64 = 256 * 1024;

/// Why nothing can be sent at present.
#[derive(Debug, thiserror::Error)]
enum SocketError {
    /// Connecting failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke.
    #[error("{target}: {error}")]
    Broken { target: String, error: io::Error },
    /// The peer accepts nothing.
    #[error("{target} accepted no data for {after:?}")]
    Timeout { target: String, after: Duration },
}

impl SocketError {
    /// Returns a fixed identifier for counters.
    fn kind(&self) -> &'static str {
        match self {
            Self::Connect(error) => error.kind(),
            Self::Broken { .. } => "reset",
            Self::Timeout { .. } => "timeout",
        }
    }
}

struct SocketLoop<'a> {
    plan: &'a SocketOutput,
    output: &'a str,
    context: &'a OutputContext,
    stats: Arc<OutputStats>,
    cursor: Cursor,
    dialer: Dialer,
    link: Option<Link>,
    payload: Payload,
    limiter: ConcurrencyLimiter,
    paused: Option<Instant>,
}

pub(super) async fn run(job: &Job, plan: &SocketOutput, cursor: Cursor, dialer: Dialer) {
    let mut sending = SocketLoop {
        plan,
        output: &job.plan.name,
        context: &job.context,
        stats: job.stats.clone(),
        cursor,
        dialer,
        link: None,
        payload: Payload::new(plan),
        limiter: ConcurrencyLimiter::new(1, plan.retry_min, plan.retry_max),
        paused: None,
    };
    sending.run(job).await;
}

impl SocketLoop<'_> {
    async fn run(&mut self, job: &Job) {
        let stop = job.stop.clone();
        let mut deadline: Option<Instant> = None;
        loop {
            stats::publish_cpu(&self.stats.cpu_ns);
            if self.payload.is_sent() {
                self.take();
            }
            let is_idle = self.payload.is_sent();
            if is_idle && (deadline.is_some() || self.cursor.is_closing()) {
                return;
            }
            tokio::select! {
                at = stop.requested(), if deadline.is_none() => deadline = Some(at),
                () = until(deadline), if deadline.is_some() => return,
                () = self.work(is_idle) => {}
            }
        }
    }

    /// Waits for records, or for the end of a pause, or sends. May be cancelled at any time.
    async fn work(&mut self, is_idle: bool) {
        if is_idle {
            self.cursor.ready(BYTES, AGE).await;
        } else if let Some(moment) = self.paused {
            tokio::time::sleep_until(moment).await;
            self.paused = None;
        } else {
            self.attempt().await;
        }
    }

    /// Takes available batches, up to a limit.
    fn take(&mut self) {
        self.payload.clear();
        let now_ns = self.context.clock.unix_ns();
        let mut bytes = 0;
        while bytes < BYTES {
            let Some(delivery) = self.cursor.take(|_| false) else { break };
            if delivery.record_count == 0 {
                self.cursor.ack(&delivery, Outcome::default());
                continue;
            }
            bytes += delivery.batch.arena().len() as u64;
            self.stats.count_queueing([&*delivery.batch], now_ns);
            let cut = self.payload.push(PendingBatch::of_delivery(delivery, self.cursor.index()));
            if cut > 0 {
                self.stats.errors.count_times(cut, "cut", "records were truncated");
                tracing::debug!(
                    output = self.output,
                    cut,
                    "records truncated to fit in a datagram"
                );
            }
        }
        add(&self.stats.bytes_encoded, self.payload.len() as u64);
    }

    /// Sends pending data, or fails and starts a pause.
    async fn attempt(&mut self) {
        let started = self.context.clock.monotonic();
        match self.send().await {
            Ok(()) => {
                let took = self.context.clock.monotonic().saturating_sub(started);
                add(&self.stats.service_ns, took.as_nanos() as u64);
                add(&self.stats.requests, 1);
                self.recovered();
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn send(&mut self) -> Result<(), SocketError> {
        if self.link.as_mut().is_none_or(Link::is_closed) {
            self.payload.rewind();
            self.link = Some(self.dialer.connect().await?);
        }
        let after = self.plan.write_timeout;
        while let Some(link) = &mut self.link {
            // Data that a cancelled wait left in the TLS buffers goes first.
            let step = async {
                link.flush().await?;
                Self::settle(&mut self.payload, &mut self.cursor);
                if self.payload.is_sent() {
                    return Ok(true);
                }
                let sent = link.send(self.payload.rest()).await?;
                self.payload.advance(sent);
                add(&self.stats.bytes_sent, sent as u64);
                Ok(false)
            };
            match tokio::time::timeout(after, step).await {
                Ok(Ok(true)) => return Ok(()),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    return Err(SocketError::Broken { target: self.dialer.target(), error });
                }
                Err(_) => return Err(SocketError::Timeout { target: self.dialer.target(), after }),
            }
        }
        Ok(())
    }

    /// Acknowledges what the kernel has accepted completely.
    fn settle(payload: &mut Payload, cursor: &mut Cursor) {
        while let Some((pending, resent)) = payload.settled() {
            if let Some(delivery) = &pending.delivery {
                let outcome = Outcome { resent, ..Outcome::delivered(pending.len() as u64) };
                cursor.ack(delivery, outcome);
            }
        }
    }

    fn failed(&mut self, error: &SocketError) {
        self.link = None;
        self.payload.rewind();
        let pause = self.limiter.failure(false, None);
        self.paused = Some(Instant::now() + pause);
        let text = error.to_string();
        self.stats.errors.count(error.kind(), &text);
        add(&self.stats.retries, 1);
        if self.limiter.failures() > 1 && !self.stats.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(output = self.output, "{text}; retrying until it succeeds");
        }
    }

    fn recovered(&mut self) {
        self.limiter.success(Duration::ZERO, false);
        self.stats.errors.clear_last();
        if self.stats.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(output = self.output, "{} accepts records again", self.dialer.target());
        }
    }
}
