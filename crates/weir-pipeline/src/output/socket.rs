//! `type = "socket"`: one line per record over TCP or TLS, or one datagram per record over UDP.
//! Syslog messages without acknowledgement are sent in the same way.
//!
//! The protocol has no acknowledgement: a record counts as delivered when the kernel has accepted
//! all of it. Data in the kernel's buffers is lost silently when a connection fails; records that
//! the kernel had not accepted completely are sent again.
//!
//! Reading order: this file, `link`, `payload`, `retry`.
//!
//! Invariants: after a connection failed, the next one begins with a complete line; a peer that
//! accepts nothing within the write timeout is disconnected and retried; a cancelled wait resumes
//! where it was.

mod link;
mod payload;
mod retry;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_codec::RelpError;
use weir_host::ConnectError;
use weir_journal::{Cursor, Outcome};

use super::pending::PendingBatch;
use super::signal::until;
use super::{Job, OutputContext, OutputError};
use crate::config::{Encoding, TlsSettings};
use crate::stats::{OutputStats, add};
use link::Link;
pub(super) use link::{Dialer, Peer};
use payload::Payload;
pub(super) use payload::Writer;
pub(super) use retry::Retry;

/// `type = "socket"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketOutput {
    /// `host:port`.
    pub address: String,
    /// TCP, TLS or UDP.
    pub protocol: SocketProtocol,
    /// How records are encoded.
    pub encoding: Encoding,
    /// Maximum size of a UDP datagram in bytes; longer ones are truncated.
    pub datagram_bytes_max: usize,
    /// How long the peer may accept no data before the connection is closed.
    pub write_timeout: Duration,
    /// Minimum pause between attempts.
    pub retry_min: Duration,
    /// Maximum pause between attempts.
    pub retry_max: Duration,
    /// TLS settings.
    pub tls: TlsSettings,
}

/// Protocol of a socket output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketProtocol {
    /// Lines over TCP.
    Tcp,
    /// Lines over TLS.
    Tls,
    /// One UDP datagram per record.
    Udp,
}

/// Maximum time that records wait for others before they are sent.
pub(super) const AGE: Duration = Duration::from_millis(50);
/// Size of the batches at which they are sent at once, and the most sent in one cycle.
pub(super) const BYTES: u64 = 256 * 1024;

/// Why nothing can be sent at the moment.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// Connecting failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection failed.
    #[error("{target}: {error}")]
    Broken { target: String, error: io::Error },
    /// The peer accepts nothing.
    #[error("{target} accepted no data for {after:?}")]
    Timeout { target: String, after: Duration },
    /// The server does not follow RELP, or refused the session.
    #[error("{target}: RELP: {error}")]
    Relp { target: String, error: RelpError },
    /// The server has ended the session.
    #[error("{target} closed the session")]
    Closed { target: String },
    /// The server does not answer.
    #[error("{target} did not answer within {after:?}")]
    Unanswered { target: String, after: Duration },
    /// The server did not accept a message.
    #[error("{target} did not accept a message: {reason}")]
    Rejected { target: String, reason: String },
}

impl SocketError {
    /// Returns a fixed identifier for counters.
    fn kind(&self) -> &'static str {
        match self {
            Self::Connect(error) => error.kind(),
            Self::Broken { .. } => "reset",
            Self::Timeout { .. } => "timeout",
            Self::Relp { .. } => "protocol",
            Self::Closed { .. } => "closed",
            Self::Unanswered { .. } => "ack",
            Self::Rejected { .. } => "rejected",
        }
    }
}

struct SocketLoop<'a> {
    output: &'a str,
    context: &'a OutputContext,
    stats: Arc<OutputStats>,
    cursor: Cursor,
    dialer: Dialer,
    write_timeout: Duration,
    link: Option<Link>,
    payload: Payload,
    retry: Retry,
    paused: Option<Instant>,
}

/// Checks the address and reads the certificate files.
pub(super) fn peer(output: &str, socket: &SocketOutput) -> Result<Peer, OutputError> {
    let tls = (socket.protocol == SocketProtocol::Tls).then_some(&socket.tls);
    let is_udp = socket.protocol == SocketProtocol::Udp;
    Ok(Peer {
        dialer: Dialer::new(output, &socket.address, tls, is_udp)?,
        write_timeout: socket.write_timeout,
        retry_min: socket.retry_min,
        retry_max: socket.retry_max,
    })
}

pub(super) fn writer(socket: &SocketOutput) -> Writer {
    let (encoding, bytes_max) = (socket.encoding, socket.datagram_bytes_max);
    match socket.protocol {
        SocketProtocol::Tcp | SocketProtocol::Tls => Writer::Lines(encoding),
        SocketProtocol::Udp => Writer::Datagrams { encoding, bytes_max },
    }
}

pub(super) async fn run(job: &Job, peer: Peer, writer: Writer, cursor: Cursor) {
    let mut sending = SocketLoop {
        output: &job.plan.name,
        context: &job.context,
        stats: job.stats.clone(),
        cursor,
        write_timeout: peer.write_timeout,
        link: None,
        payload: Payload::new(writer),
        retry: Retry::new(job, &peer),
        dialer: peer.dialer,
        paused: None,
    };
    sending.run(job).await;
}

/// Counts records that had to be truncated.
pub(super) fn count_cut(output: &str, stats: &OutputStats, cut: u64) {
    if cut > 0 {
        stats.errors.count_times(cut, "cut", "records were truncated");
        tracing::debug!(output, cut, "records truncated to the maximum size of a message");
    }
}

impl SocketLoop<'_> {
    async fn run(&mut self, job: &Job) {
        let stop = job.stop.clone();
        let mut deadline: Option<Instant> = None;
        loop {
            if self.payload.is_sent() {
                self.take().await;
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
    async fn take(&mut self) {
        self.payload.clear();
        let now_ns = self.context.clock.unix_ns();
        let mut bytes = 0;
        while bytes < BYTES {
            let Some(delivery) = self.cursor.take(|_| false).await else { break };
            if delivery.record_count == 0 {
                self.cursor.ack(&delivery, Outcome::default());
                continue;
            }
            bytes += delivery.batch.arena().len() as u64;
            self.stats.count_queueing([&*delivery.batch], now_ns);
            let cut = self.payload.push(PendingBatch::of_delivery(delivery));
            count_cut(self.output, &self.stats, cut);
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
                self.retry.recovered();
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn send(&mut self) -> Result<(), SocketError> {
        if self.link.as_mut().is_none_or(Link::is_closed) {
            self.payload.rewind();
            self.link = Some(self.dialer.link().await?);
        }
        let after = self.write_timeout;
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

    /// Acknowledges batches that the kernel has accepted completely.
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
        self.paused = Some(Instant::now() + self.retry.failed(error));
    }
}
