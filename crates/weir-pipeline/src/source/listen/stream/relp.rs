//! RELP: messages over a byte stream, each acknowledged once it is on stable storage.
//!
//! The messages of one read are a batch: they are appended together, and answered together. If the
//! journal has no room, or the disk fails, the client is not answered and waits; it has a window of
//! unanswered messages, so it stops sending on its own.
//!
//! Invariants: a message is acknowledged only when it is on stable storage; messages that are not
//! acknowledged when a connection ends are sent again by their client.

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use weir_codec::{RelpServer, RelpStep, RelpTransaction};

use super::super::accept::Connection;
use super::super::connection::count_evicted;
use super::super::cpu::CpuTime;
use super::super::lanes::{AcknowledgedLanes, LaneContext, Refusal};
use super::super::limiter::{Incoming as _, Limiter, Wait};
use super::super::limits::{GRACE, MESSAGE_TIMEOUT, READ_BYTES, RETRY_AFTER_DISK, WRITE_TIMEOUT};
use crate::source::SyslogSource;
use crate::source::syslog::{Received, SyslogIntake};
use crate::stats::SourceStats;

/// Serves all connections of a listener.
pub(in super::super) struct RelpService {
    message_bytes_max: usize,
    intake: RefCell<SyslogIntake>,
    lanes: Rc<AcknowledgedLanes>,
    context: LaneContext,
    limiter: Option<Rc<Limiter>>,
    cpu_time: CpuTime,
}

/// The state of a connection.
struct Session {
    server: RelpServer,
    peer: Option<IpAddr>,
    lane: usize,
    /// Received bytes that are not consumed.
    buffer: Vec<u8>,
    replies: Vec<u8>,
    /// Unanswered messages, as spans of the buffer.
    messages: Vec<Message>,
    /// Bytes of messages that were too long, and are in no book yet.
    skipped_bytes: u64,
    /// Deadline for the rest of an incomplete frame.
    deadline: Option<Instant>,
    is_open: bool,
    /// Pause before the next read, for the rate limit.
    wait: Option<Wait>,
}

struct Message {
    transaction: RelpTransaction,
    span: Range<usize>,
    is_truncated: bool,
    /// It is above the limit of its key.
    is_discarded: bool,
}

/// Whether a connection continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Open,
    Ended,
}

impl RelpService {
    pub(in super::super) fn new(
        source: &SyslogSource,
        lanes: Rc<AcknowledgedLanes>,
        context: LaneContext,
        limiter: Option<Rc<Limiter>>,
    ) -> Self {
        let fields = Limiter::fields_of(limiter.as_ref());
        Self {
            message_bytes_max: source.message_bytes_max,
            intake: RefCell::new(SyslogIntake::new(source.zone.clone(), fields)),
            lanes,
            context,
            limiter,
            cpu_time: CpuTime::default(),
        }
    }

    pub(in super::super) fn stats(&self) -> &Arc<SourceStats> {
        &self.context.stats
    }

    pub(in super::super) fn wake(&self) {
        self.lanes.wake();
    }

    /// Reports records above the rate limit, if there is one; never returns.
    pub(in super::super) async fn run(&self) {
        match &self.limiter {
            Some(limiter) => limiter.run_acknowledged(&self.lanes).await,
            None => std::future::pending().await,
        }
    }

    pub(in super::super) fn finish(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.publish();
        }
        self.cpu_time.publish_now(&self.context.stats);
    }

    /// Serves a session until it ends.
    pub(in super::super) async fn serve(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: &Connection,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut session = Session::new(connection, self.message_bytes_max);
        let mut evicted = std::pin::pin!(connection.slot.evicted());
        let mut working = None;
        let mut progress = Progress::Open;
        while progress == Progress::Open {
            tokio::select! {
                read = self.read(&mut stream, &mut session) => progress = read,
                () = evicted.as_mut() => return count_evicted(self.stats()),
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
            // Outside of the select, so that received messages are always appended and answered.
            if progress == Progress::Open {
                progress = self.handle(&mut stream, &mut session, &mut stopped).await;
            }
            if working.is_none() && session.is_open {
                connection.slot.admit();
                // A connection is not closed even if its sender is silent for days.
                working = Some(connection.slot.working());
            }
        }
        if progress == Progress::Open {
            session.server.shut_down(&mut session.replies);
            let _sent = timeout(GRACE, stream.write_all(&session.replies)).await;
        }
    }

    async fn read(&self, stream: &mut (impl AsyncRead + Unpin), session: &mut Session) -> Progress {
        if let Some(limiter) = &self.limiter
            && limiter.wait(&mut session.wait).await
            && session.deadline.is_some()
        {
            // The client is not to blame for the delay.
            session.deadline = Some(Instant::now() + MESSAGE_TIMEOUT);
        }
        session.buffer.reserve(READ_BYTES);
        let deadline = session.deadline;
        let read = stream.read_buf(&mut session.buffer);
        let read = match deadline {
            None => read.await,
            Some(deadline) => timeout_at(deadline, read)
                .await
                .unwrap_or_else(|_| Err(std::io::Error::other("a frame was not received in time"))),
        };
        match read {
            Ok(0) => Progress::Ended,
            Ok(_) => Progress::Open,
            Err(error) => {
                self.stats().errors.count("connection", &error.to_string());
                Progress::Ended
            }
        }
    }

    /// Stores complete messages, and answers them.
    async fn handle(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        session: &mut Session,
        stopped: &mut watch::Receiver<bool>,
    ) -> Progress {
        loop {
            let (consumed, has_more, progress) = self.parse(session);
            if !self.store(session, stopped).await {
                return Progress::Ended;
            }
            session.consume(consumed);
            let sent = timeout(WRITE_TIMEOUT, stream.write_all(&session.replies)).await;
            session.replies.clear();
            if !matches!(sent, Ok(Ok(()))) {
                self.stats().errors.count("connection", "cannot send responses");
                return Progress::Ended;
            }
            if progress == Progress::Ended || !has_more {
                self.cpu_time.publish(&*self.context.clock, &self.context.stats);
                return progress;
            }
        }
    }

    /// Parses complete frames. Returns their length, and whether more can be parsed once these
    /// messages are answered.
    fn parse(&self, session: &mut Session) -> (usize, bool, Progress) {
        let mut at = 0;
        let Session { server, buffer, replies, .. } = session;
        loop {
            let rest = buffer.get(at..).unwrap_or_default();
            match server.next(rest, replies) {
                RelpStep::Opened { consumed } => {
                    session.is_open = true;
                    at += consumed;
                }
                RelpStep::Message { transaction, span, consumed, is_truncated } => {
                    let span = at + span.start..at + span.end;
                    let is_discarded = false;
                    let message = Message { transaction, span, is_truncated, is_discarded };
                    session.messages.push(message);
                    at += consumed;
                }
                RelpStep::Skipped { consumed } => {
                    session.skipped_bytes += consumed as u64;
                    at += consumed;
                }
                RelpStep::Closed { consumed } => return (at + consumed, false, Progress::Ended),
                RelpStep::NeedMore { consumed } => return (at + consumed, false, Progress::Open),
                RelpStep::Full { consumed } => return (at + consumed, true, Progress::Open),
                RelpStep::Failed(error) => {
                    self.stats().errors.count("protocol", &error.to_string());
                    return (at, false, Progress::Ended);
                }
            }
        }
    }

    /// Appends the messages and acknowledges them, as soon as that is possible. Returns false if it
    /// never will be.
    async fn store(&self, session: &mut Session, stopped: &mut watch::Receiver<bool>) -> bool {
        while !session.messages.is_empty() {
            match self.append(session).await {
                Ok(()) => session.acknowledge(),
                // Its client sends them again.
                Err(Refusal::Closed | Refusal::TooLarge) => return false,
                Err(_) if *stopped.borrow() => return false,
                // The client waits for its answers meanwhile.
                Err(Refusal::Full(_)) => {}
                Err(Refusal::Disk(_) | Refusal::Slow) => sleep(RETRY_AFTER_DISK).await,
            }
        }
        true
    }

    async fn append(&self, session: &mut Session) -> Result<(), Refusal> {
        let turn = self.lanes.enter(session.lane).await?;
        let observed_ns = self.context.clock.unix_ns();
        let mut wait = None;
        let prepared = {
            let mut intake = self.intake.borrow_mut();
            let claim = self.limiter.as_ref().map(|limiter| {
                let mut claim = limiter.claim();
                for index in 0..session.messages.len() {
                    let parsed = intake.parse(session.received(index, observed_ns));
                    let name = || parsed.quota_name();
                    let is_discarded = claim.take(parsed.quota_key(), parsed.len(), name);
                    session.messages[index].is_discarded = is_discarded;
                }
                wait = claim.wait();
                claim
            });
            let push = &mut |index: usize, batch: &mut _, end, book: &mut _| {
                let mut parsed = intake.parse(session.received(index, observed_ns));
                if session.messages[index].is_discarded {
                    parsed.discard(book);
                    return Ok(());
                }
                parsed.push(batch, end, book)
            };
            self.lanes.prepare(&turn, session.messages.len(), push)?.with_claim(claim)
        };
        self.lanes.append(turn, prepared).await?;
        session.wait = session.wait.max(wait);
        Ok(())
    }
}

impl Session {
    fn new(connection: &Connection, message_bytes_max: usize) -> Self {
        Self {
            server: RelpServer::new(message_bytes_max),
            peer: connection.peer,
            lane: connection.number,
            buffer: Vec::new(),
            replies: Vec::new(),
            messages: Vec::new(),
            skipped_bytes: 0,
            deadline: Some(Instant::now() + MESSAGE_TIMEOUT),
            is_open: false,
            wait: None,
        }
    }

    fn received(&self, index: usize, observed_ns: i64) -> Received<'_> {
        let Message { span, is_truncated, .. } = &self.messages[index];
        Received {
            line: self.buffer.get(span.clone()).unwrap_or_default(),
            is_truncated: *is_truncated,
            skipped_bytes: if index == 0 { self.skipped_bytes } else { 0 },
            peer: self.peer,
            observed_ns,
        }
    }

    fn acknowledge(&mut self) {
        for message in self.messages.drain(..) {
            self.server.acknowledge(message.transaction, &mut self.replies);
        }
        self.skipped_bytes = 0;
    }

    /// Removes parsed bytes, and sets the deadline for the rest.
    fn consume(&mut self, consumed: usize) {
        self.buffer.drain(..consumed);
        if self.buffer.is_empty() {
            // An idle connection keeps no memory.
            self.buffer = Vec::new();
            self.deadline = (!self.is_open).then(|| self.deadline.unwrap_or_else(Instant::now));
        } else if consumed > 0 || self.deadline.is_none() {
            self.deadline = Some(Instant::now() + MESSAGE_TIMEOUT);
        }
    }
}
