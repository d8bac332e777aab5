//! One connection to a RELP server.
//!
//! Invariants: frames are written while answers arrive; answers that arrived before a connection
//! failed are handled before the failure; every wait can be cancelled.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use weir_codec::{RelpClient, RelpClientStep, RelpError, RelpTransaction};
use weir_host::Stream;

use super::queue::{MessageId, Queue};

/// Size of unwritten frames at which no more are added: more than the kernel accepts at once.
const OUTGOING_BYTES_MAX: usize = 256 * 1024;
/// Size of one read: hundreds of answers.
const READ_BYTES: usize = 8 * 1024;

/// An answer of the server.
#[derive(Debug)]
pub(super) enum Answer {
    /// The session is open.
    Opened,
    /// A message is stored.
    Acknowledged { id: MessageId, took: Duration },
    /// A message is not accepted.
    Refused { id: MessageId, reason: String },
    /// The session is over.
    Closed,
    /// The session cannot continue.
    Failed(RelpError),
}

/// Which deadline of a session has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The server accepts no data.
    Write,
    /// The server does not answer the opening of the session.
    Opening,
    /// The server does not answer a message.
    Answer,
}

/// An unanswered message.
#[derive(Debug)]
struct Sent {
    transaction: RelpTransaction,
    id: MessageId,
    /// Number of bytes before its frame, since the session began.
    start: u64,
    at: Instant,
}

#[derive(Debug)]
pub(super) struct Session {
    stream: Stream,
    client: RelpClient,
    is_open: bool,
    outgoing: Vec<u8>,
    /// Written length of `outgoing`.
    written: usize,
    /// Bytes before `outgoing`, since the session began.
    written_before: u64,
    written_at: Instant,
    needs_flush: bool,
    incoming: Vec<u8>,
    /// Parsed length of `incoming`.
    consumed: usize,
    /// In the order in which they were sent.
    sent: VecDeque<Sent>,
}

impl Session {
    /// Opens a session over a new connection.
    pub(super) fn new(stream: Stream, unanswered_max: usize) -> Self {
        let mut client = RelpClient::new(unanswered_max);
        let mut outgoing = Vec::new();
        client.open(&mut outgoing);
        Self {
            stream,
            client,
            is_open: false,
            outgoing,
            written: 0,
            written_before: 0,
            written_at: Instant::now(),
            needs_flush: false,
            incoming: Vec::new(),
            consumed: 0,
            sent: VecDeque::new(),
        }
    }

    /// Takes as many messages as may be sent now.
    pub(super) fn fill(&mut self, queue: &mut Queue) {
        let now = Instant::now();
        while self.outgoing.len() - self.written < OUTGOING_BYTES_MAX && self.client.can_send() {
            let Some((id, message)) = queue.next() else { return };
            let is_idle = self.written == self.outgoing.len();
            let start = self.written_before + self.outgoing.len() as u64;
            let Some(transaction) = self.client.send(message, &mut self.outgoing) else { return };
            self.sent.push_back(Sent { transaction, id, start, at: now });
            queue.taken();
            if is_idle {
                self.written_at = now;
            }
        }
    }

    /// Returns the number of unanswered messages.
    pub(super) fn unanswered_count(&self) -> usize {
        self.sent.len()
    }

    /// Begins to close the session. Answers still arrive.
    pub(super) fn close(&mut self) {
        self.client.close(&mut self.outgoing);
    }

    /// Returns the next deadline of the server, and which one it is.
    pub(super) fn deadline(
        &self,
        write_timeout: Duration,
        ack_timeout: Duration,
    ) -> Option<(Instant, Overdue)> {
        let is_writing = self.written < self.outgoing.len() || self.needs_flush;
        let write = is_writing.then_some((self.written_at + write_timeout, Overdue::Write));
        let opening =
            (!self.is_open).then_some((self.written_at + write_timeout, Overdue::Opening));
        let answer = self.sent.front().map(|sent| (sent.at + ack_timeout, Overdue::Answer));
        [write, opening, answer].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Writes and reads until something has arrived or was written. Returns how many bytes were
    /// written.
    pub(super) async fn exchange(&mut self) -> io::Result<usize> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = self.poll_read(context);
        if let Poll::Ready(Err(error)) = read {
            return Poll::Ready(Err(error));
        }
        match self.poll_write(context) {
            // Arrived data is handled first; the next write fails again.
            Poll::Ready(Err(error)) if read.is_pending() => Poll::Ready(Err(error)),
            Poll::Ready(Ok(written)) => Poll::Ready(Ok(written)),
            Poll::Ready(Err(_)) | Poll::Pending => read.map_ok(|()| 0),
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [0; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut space);
        match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                let text = "the connection was closed";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)))
            }
            Poll::Ready(Ok(())) => {
                self.incoming.extend_from_slice(buffer.filled());
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    /// Writes all it can. Ready if anything was written.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut total = 0;
        while self.written < self.outgoing.len() {
            let rest = &self.outgoing[self.written..];
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    self.written += written;
                    total += written;
                    self.needs_flush = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if total > 0 => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        if total > 0 {
            self.written_at = Instant::now();
        }
        let is_all = self.written == self.outgoing.len();
        if is_all || self.written >= OUTGOING_BYTES_MAX {
            self.outgoing.drain(..self.written);
            self.written_before += self.written as u64;
            self.written = 0;
        }
        if is_all && self.needs_flush {
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Ok(())) => self.needs_flush = false,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        if total > 0 { Poll::Ready(Ok(total)) } else { Poll::Pending }
    }

    /// Returns the next answer that has arrived.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        let arrived = &self.incoming[self.consumed..];
        let (answer, consumed) = match self.client.next(arrived) {
            RelpClientStep::NeedMore { consumed } => {
                self.incoming.drain(..self.consumed + consumed);
                self.consumed = 0;
                return None;
            }
            RelpClientStep::Failed(error) => return Some(Answer::Failed(error)),
            RelpClientStep::Opened { consumed } => {
                self.is_open = true;
                (Answer::Opened, consumed)
            }
            RelpClientStep::Closed { consumed } => (Answer::Closed, consumed),
            RelpClientStep::Acknowledged { transaction, consumed } => {
                let Some(sent) = self.take_sent(transaction) else {
                    return Some(Answer::Failed(RelpError::Answer));
                };
                (Answer::Acknowledged { id: sent.id, took: sent.at.elapsed() }, consumed)
            }
            RelpClientStep::Refused { transaction, reason, consumed } => {
                let reason = String::from_utf8_lossy(&arrived[reason]).into_owned();
                let Some(sent) = self.take_sent(transaction) else {
                    return Some(Answer::Failed(RelpError::Answer));
                };
                (Answer::Refused { id: sent.id, reason }, consumed)
            }
        };
        self.consumed += consumed;
        Some(answer)
    }

    fn take_sent(&mut self, transaction: RelpTransaction) -> Option<Sent> {
        let place = self.sent.iter().position(|sent| sent.transaction == transaction)?;
        self.sent.remove(place)
    }

    /// Ends the session. Returns the unanswered messages, and whether any of their bytes were sent.
    pub(super) fn into_unanswered(self) -> impl DoubleEndedIterator<Item = (MessageId, bool)> {
        let written = self.written_before + self.written as u64;
        self.sent.into_iter().map(move |sent| (sent.id, sent.start < written))
    }
}
