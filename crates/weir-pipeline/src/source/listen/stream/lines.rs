//! Messages over a byte stream without acknowledgement: syslog over TCP, TLS and Unix sockets.
//!
//! All connections of a listener read into one buffer. Complete messages become records at once;
//! only the rest, the beginning of a message, is kept for its connection, so an idle connection
//! costs almost nothing.
//!
//! Invariants: messages do not depend on their division into packets; an incomplete message at the
//! end of a connection is kept if it is delimited by a terminator, and counted as lost if it has a
//! length prefix.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use weir_codec::{SyslogEnd, SyslogFraming, SyslogFramingKind, SyslogStep};
use weir_model::DiscardReason;

use super::super::accept::Connection;
use super::super::connection::count_evicted;
use super::super::cpu::CpuTime;
use super::super::lanes::{Blocked, GatheredLanes, LaneContext};
use super::super::limiter::{Incoming as _, Limiter, Round, Wait};
use super::super::limits::{DRAIN_TIME, MESSAGE_TIMEOUT, READ_BYTES};
use crate::source::SyslogSource;
use crate::source::syslog::{Received, SyslogIntake};
use crate::stats::SourceStats;

/// Reads the messages of all connections of a listener.
pub(in super::super) struct LineService {
    framing: SyslogFramingKind,
    message_bytes_max: usize,
    intake: RefCell<SyslogIntake>,
    lanes: Rc<GatheredLanes>,
    context: LaneContext,
    limiter: Option<Rc<Limiter>>,
    /// Buffer into which all connections read, one after the other.
    buffer: RefCell<Vec<u8>>,
    cpu_time: CpuTime,
}

/// The state of a connection.
struct Session {
    framing: SyslogFraming,
    peer: Option<IpAddr>,
    /// Received bytes that were not taken: the beginning of a message.
    kept: Vec<u8>,
    /// The journal had no room for the kept bytes.
    is_blocked: bool,
    /// Deadline for the rest of an incomplete message.
    deadline: Option<Instant>,
    /// It has sent a message.
    is_known: bool,
    /// Pause before the next read, for the rate limit.
    wait: Option<Wait>,
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The connection continues.
    Open,
    /// The stream has ended, or failed.
    Ended,
    /// The received data is malformed.
    Failed,
}

impl LineService {
    pub(in super::super) fn new(
        source: &SyslogSource,
        lanes: Rc<GatheredLanes>,
        context: LaneContext,
        limiter: Option<Rc<Limiter>>,
    ) -> Self {
        let fields = Limiter::fields_of(limiter.as_ref());
        let room = SyslogFraming::new(source.framing, source.message_bytes_max).buffer_bytes();
        Self {
            framing: source.framing,
            message_bytes_max: source.message_bytes_max,
            intake: RefCell::new(SyslogIntake::new(source.zone.clone(), fields)),
            lanes,
            context,
            limiter,
            buffer: RefCell::new(vec![0; room + READ_BYTES]),
            cpu_time: CpuTime::default(),
        }
    }

    pub(in super::super) fn stats(&self) -> &Arc<SourceStats> {
        &self.context.stats
    }

    pub(in super::super) fn wake(&self) {
        self.lanes.wake();
    }

    /// Appends gathered records in time; never returns.
    pub(in super::super) async fn run(&self) {
        match &self.limiter {
            None => self.lanes.flush_in_time().await,
            Some(limiter) => {
                tokio::join!(self.lanes.flush_in_time(), limiter.run_gathered(&self.lanes));
            }
        }
    }

    pub(in super::super) async fn finish(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.finish_gathered(&self.lanes);
        }
        self.lanes.drain().await;
        self.cpu_time.publish_now(&self.context.stats);
    }

    /// Reads the messages of a connection until it ends.
    pub(in super::super) async fn serve(
        &self,
        mut stream: impl AsyncRead + Unpin,
        connection: &Connection,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut session = Session {
            framing: SyslogFraming::new(self.framing, self.message_bytes_max),
            peer: connection.peer,
            kept: Vec::new(),
            is_blocked: false,
            deadline: None,
            is_known: false,
            wait: None,
        };
        let mut evicted = std::pin::pin!(connection.slot.evicted());
        let mut working = None;
        let mut progress = Progress::Open;
        while progress == Progress::Open {
            progress = tokio::select! {
                progress = self.next(&mut stream, &mut session) => progress,
                () = evicted.as_mut() => return count_evicted(self.stats()),
                _ = stopped.wait_for(|stopped| *stopped) => break,
            };
            if working.is_none() && session.is_known {
                connection.slot.admit();
                // A connection is not closed even if its sender is silent for days.
                working = Some(connection.slot.working());
            }
        }
        if progress == Progress::Open {
            // Arrived data is read, for a limited time if the sender does not stop, and without
            // waiting for a debt to be paid off.
            let rest = async {
                let mut progress = Progress::Open;
                while progress == Progress::Open {
                    session.wait = None;
                    progress = self.next(&mut stream, &mut session).await;
                }
            };
            let _ended = timeout(DRAIN_TIME, rest).await;
        }
        if progress != Progress::Failed {
            self.finish_session(&mut session).await;
        }
    }

    /// Waits for room, then takes kept or newly received bytes.
    async fn next(&self, stream: &mut (impl AsyncRead + Unpin), session: &mut Session) -> Progress {
        if let Some(limiter) = &self.limiter
            && !session.is_blocked
            && limiter.wait(&mut session.wait).await
            && session.deadline.is_some()
        {
            // The sender is not to blame for the delay.
            session.deadline = Some(Instant::now() + MESSAGE_TIMEOUT);
        }
        self.lanes.room().await;
        if session.is_blocked {
            let kept = std::mem::take(&mut session.kept);
            return self.take(&kept, session);
        }
        let deadline = session.deadline;
        let read = poll_fn(|context| self.poll_read(context, stream, session));
        let read = match deadline {
            None => read.await,
            Some(deadline) => timeout_at(deadline, read)
                .await
                .unwrap_or_else(|_| Err(io::Error::other("a message was not received in time"))),
        };
        read.unwrap_or_else(|error| {
            self.stats().errors.count("connection", &error.to_string());
            Progress::Ended
        })
    }

    /// Reads into the common buffer and takes complete messages, without a pause in between.
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        stream: &mut (impl AsyncRead + Unpin),
        session: &mut Session,
    ) -> Poll<io::Result<Progress>> {
        let mut buffer = self.buffer.borrow_mut();
        let kept = session.kept.len();
        let mut space = ReadBuf::new(&mut buffer[kept..kept + READ_BYTES]);
        ready!(Pin::new(stream).poll_read(context, &mut space))?;
        let count = space.filled().len();
        if count == 0 {
            return Poll::Ready(Ok(Progress::Ended));
        }
        buffer[..kept].copy_from_slice(&session.kept);
        Poll::Ready(Ok(self.take(&buffer[..kept + count], session)))
    }

    /// Takes complete messages, and keeps the rest.
    fn take(&self, bytes: &[u8], session: &mut Session) -> Progress {
        let observed_ns = self.context.clock.unix_ns();
        let (mut at, mut messages) = (0, 0);
        let mut round = self.round();
        session.is_blocked = false;
        loop {
            let rest = &bytes[at..];
            let before = session.framing.clone();
            match session.framing.next(rest) {
                SyslogStep::Message { span, consumed, is_truncated } => {
                    let line = &rest[span];
                    let peer = session.peer;
                    let received =
                        Received { line, is_truncated, skipped_bytes: 0, peer, observed_ns };
                    if self.push(received, &mut round).is_err() {
                        session.framing = before;
                        session.is_blocked = true;
                        break;
                    }
                    messages += 1;
                    at += consumed;
                }
                SyslogStep::Skipped { consumed } => {
                    self.lanes.count_skipped(consumed as u64);
                    at += consumed;
                }
                SyslogStep::NeedMore { consumed } => {
                    at += consumed;
                    break;
                }
                SyslogStep::Failed(error) => {
                    round.count(&self.lanes);
                    self.lanes.mark_received();
                    self.stats().errors.count("framing", &describe(session.peer, &error));
                    return Progress::Failed;
                }
            }
        }
        round.count(&self.lanes);
        session.wait = session.wait.max(round.wait());
        self.lanes.mark_received();
        session.keep(&bytes[at..], messages > 0);
        self.cpu_time.publish(&*self.context.clock, &self.context.stats);
        Progress::Open
    }

    fn round(&self) -> Round {
        self.limiter.as_ref().map(|limiter| limiter.round()).unwrap_or_default()
    }

    fn push(&self, received: Received<'_>, round: &mut Round) -> Result<(), Blocked> {
        let mut intake = self.intake.borrow_mut();
        let mut parsed = intake.parse(received);
        if let Some(limiter) = &self.limiter {
            return limiter.push(&self.lanes, &mut parsed, round);
        }
        let lane = GatheredLanes::lane_of(parsed.lane_hash());
        self.lanes.push(lane, |batch, end, book| parsed.push(batch, end, book))
    }

    /// Takes the kept bytes when a connection has ended.
    async fn finish_session(&self, session: &mut Session) {
        while session.is_blocked {
            self.lanes.room().await;
            let kept = std::mem::take(&mut session.kept);
            if self.take(&kept, session) == Progress::Failed {
                return;
            }
        }
        let kept = std::mem::take(&mut session.kept);
        match session.framing.finish(&kept) {
            SyslogEnd::Nothing => {}
            SyslogEnd::Message { span, skipped } => {
                let received = Received {
                    line: &kept[span],
                    is_truncated: skipped > 0,
                    skipped_bytes: skipped as u64,
                    peer: session.peer,
                    observed_ns: self.context.clock.unix_ns(),
                };
                let mut round = self.round();
                while self.push(received, &mut round).is_err() {
                    self.lanes.room().await;
                }
                round.count(&self.lanes);
            }
            SyslogEnd::Unfinished { received } => {
                let text = format!("connection ended {received} bytes into a message");
                self.stats().errors.count("incomplete_message", &text);
                self.lanes.count_lost(DiscardReason::PartialLost, 1);
            }
        }
        self.lanes.mark_received();
    }
}

impl Session {
    /// Keeps bytes that were not taken.
    fn keep(&mut self, rest: &[u8], has_taken: bool) {
        self.is_known |= has_taken;
        self.kept = rest.to_vec();
        let is_waiting = !(self.kept.is_empty() && self.framing.is_between_frames());
        if !is_waiting || self.is_blocked {
            self.deadline = None;
        } else if has_taken || self.deadline.is_none() {
            self.deadline = Some(Instant::now() + MESSAGE_TIMEOUT);
        }
    }
}

fn describe(peer: Option<IpAddr>, error: &dyn std::error::Error) -> String {
    match peer {
        Some(peer) => format!("{peer}: {error}"),
        None => error.to_string(),
    }
}
