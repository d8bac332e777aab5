//! The side that receives messages.
//!
//! Answers are sent in the order of the frames, although the protocol's documents contradict each
//! other there: clients exist that depend on it. A message that is too long is truncated and its
//! rest skipped, as in a plain stream: refusing it would make its client send it again forever.
//!
//! Invariants: each message is answered once, when the caller says so; nothing is answered before
//! its frame has arrived completely; at most [`RELP_UNANSWERED_MAX`] answers are outstanding.

use std::collections::VecDeque;
use std::ops::Range;

use super::{
    CONTROL_BYTES_MAX, Control, Header, OFFER, OVERHEAD_BYTES, RelpError, RelpTransaction, control,
    header, is_acceptable, push_frame,
};
use crate::json::cut_utf8;
use crate::syslog::{LIMIT_BYTES_MIN, without_line_end};

/// Maximum number of messages that wait for their answers: eight times the window of librelp.
/// [`RelpServer::next`] returns no more until some are answered.
pub const RELP_UNANSWERED_MAX: usize = 1024;

/// Maximum length of the text of a refusal.
const REASON_BYTES_MAX: usize = 256;

/// Result of looking for the next frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelpStep {
    /// The client has opened the session, and was answered.
    Opened {
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// A message: answer it with [`RelpServer::acknowledge`] once it is on stable storage.
    Message {
        /// The number to answer it with.
        transaction: RelpTransaction,
        /// Where it is in the buffer, without a line end.
        span: Range<usize>,
        /// How many bytes of the buffer to remove.
        consumed: usize,
        /// It is longer than the limit, and this is its beginning. The rest will be skipped.
        is_truncated: bool,
    },
    /// A part of the rest of a truncated message, or all of it.
    Skipped {
        /// How many bytes of the buffer to remove: all of them were skipped.
        consumed: usize,
    },
    /// The client has closed the session. It is answered after all messages are; then close the
    /// connection ([`RelpServer::is_answered`]).
    Closed {
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// No complete frame.
    NeedMore {
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// Too many messages wait for their answers: acknowledge some first.
    Full {
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// The session cannot continue: send the replies and close the connection.
    Failed(RelpError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerState {
    /// No session yet.
    Start,
    /// Between the frames of a session.
    Open,
    /// In the rest of a message that was truncated, before the newline.
    Rest { left: usize },
    /// The client has closed the session.
    Closed,
}

/// A frame whose answer is not sent.
#[derive(Debug)]
struct Unanswered {
    transaction: RelpTransaction,
    answer: Option<Answer>,
}

#[derive(Debug)]
enum Answer {
    Acknowledged,
    Refused(Box<str>),
    Closed,
}

/// One session of a client.
#[derive(Debug)]
pub struct RelpServer {
    message_bytes_max: usize,
    state: ServerState,
    unanswered: VecDeque<Unanswered>,
}

impl RelpServer {
    /// Creates the session of a new connection. Messages longer than `message_bytes_max` (at least
    /// 4) are truncated.
    pub fn new(message_bytes_max: usize) -> Self {
        let message_bytes_max = message_bytes_max.max(LIMIT_BYTES_MIN);
        Self { message_bytes_max, state: ServerState::Start, unanswered: VecDeque::new() }
    }

    /// Returns the maximum number of bytes that a caller has to keep for [`Self::next`].
    pub fn buffer_bytes(&self) -> usize {
        self.message_bytes_max.max(CONTROL_BYTES_MAX) + OVERHEAD_BYTES
    }

    /// Returns whether every frame so far has been answered.
    pub fn is_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Returns the number of frames that wait for their answers.
    pub fn unanswered_count(&self) -> usize {
        self.unanswered.len()
    }

    /// Looks for the next frame in the received bytes; answers that need no decision are appended
    /// to `replies`. Until bytes are consumed, the buffer may only grow at its end.
    pub fn next(&mut self, buffer: &[u8], replies: &mut Vec<u8>) -> RelpStep {
        let mut at = 0;
        if let ServerState::Rest { left } = self.state {
            match self.rest(buffer, left, replies) {
                Ok(consumed) => at = consumed,
                Err(step) => return step,
            }
        }
        loop {
            if self.unanswered.len() >= RELP_UNANSWERED_MAX {
                return RelpStep::Full { consumed: at };
            }
            let frame = buffer.get(at..).unwrap_or_default();
            let step = match header(frame) {
                Ok(Some(header)) => self.frame(buffer, at, &header, replies),
                Ok(None) => return RelpStep::NeedMore { consumed: at },
                Err(error) => return Self::fail(error, replies),
            };
            match step {
                FrameOutcome::Step(step) => return step,
                FrameOutcome::Unfinished => return RelpStep::NeedMore { consumed: at },
                FrameOutcome::Answered { consumed } => at = consumed,
            }
        }
    }

    /// Ends a session that cannot continue.
    fn fail(error: RelpError, replies: &mut Vec<u8>) -> RelpStep {
        push_frame(0, "serverclose", &[], replies);
        RelpStep::Failed(error)
    }

    /// Skips the rest of a message; returns how many bytes are before the next frame.
    fn rest(
        &mut self,
        buffer: &[u8],
        left: usize,
        replies: &mut Vec<u8>,
    ) -> Result<usize, RelpStep> {
        let consumed = left.min(buffer.len());
        if consumed > 0 {
            self.state = ServerState::Rest { left: left - consumed };
            return Err(RelpStep::Skipped { consumed });
        }
        match buffer.first() {
            None => Err(RelpStep::NeedMore { consumed: 0 }),
            Some(b'\n') => {
                self.state = ServerState::Open;
                self.send(replies);
                Ok(1)
            }
            Some(_) => Err(Self::fail(RelpError::End, replies)),
        }
    }

    fn frame(
        &mut self,
        buffer: &[u8],
        at: usize,
        header: &Header,
        replies: &mut Vec<u8>,
    ) -> FrameOutcome {
        let transaction = header.transaction;
        let command = buffer.get(at + header.command.start..at + header.command.end);
        let is_syslog = command == Some(b"syslog");
        if transaction == 0 {
            return FrameOutcome::Step(Self::fail(RelpError::Transaction, replies));
        }
        if is_syslog && self.state == ServerState::Open {
            return self.message(buffer, at, header, replies);
        }
        let Control { data, consumed } = match control(buffer, at, header) {
            Ok(Some(control)) => control,
            Ok(None) => return FrameOutcome::Unfinished,
            Err(error) => return FrameOutcome::Step(Self::fail(error, replies)),
        };
        let data = buffer.get(data).unwrap_or_default();
        match (self.state, command.unwrap_or_default()) {
            (ServerState::Start, b"open") if is_acceptable(data) => {
                push_frame(transaction, "rsp", &[b"200 OK\n", OFFER], replies);
                self.state = ServerState::Open;
                FrameOutcome::Step(RelpStep::Opened { consumed })
            }
            (ServerState::Start, b"open") => {
                push_frame(transaction, "rsp", &[b"500 syslog is not offered"], replies);
                FrameOutcome::Step(Self::fail(RelpError::Offer, replies))
            }
            (ServerState::Open, b"close") => {
                self.state = ServerState::Closed;
                self.answer_later(transaction, Answer::Closed, replies);
                FrameOutcome::Step(RelpStep::Closed { consumed })
            }
            (ServerState::Open, _) => {
                let answer = Answer::Refused("unknown command".into());
                self.answer_later(transaction, answer, replies);
                FrameOutcome::Answered { consumed }
            }
            (ServerState::Start | ServerState::Rest { .. } | ServerState::Closed, _) => {
                push_frame(transaction, "rsp", &[b"500 the session is not open"], replies);
                FrameOutcome::Step(Self::fail(RelpError::NotOpen, replies))
            }
        }
    }

    fn message(
        &mut self,
        buffer: &[u8],
        at: usize,
        header: &Header,
        replies: &mut Vec<u8>,
    ) -> FrameOutcome {
        let Header { transaction, data_len, len, .. } = *header;
        let start = at + len;
        let arrived = buffer.get(start..).unwrap_or_default();
        if data_len > self.message_bytes_max {
            // One more byte shows whether the limit splits a character.
            if arrived.len() <= self.message_bytes_max {
                return FrameOutcome::Unfinished;
            }
            let keep = cut_utf8(arrived, self.message_bytes_max);
            self.unanswered.push_back(Unanswered { transaction, answer: None });
            self.state = ServerState::Rest { left: data_len - keep };
            let (span, consumed) = (start..start + keep, start + keep);
            return FrameOutcome::Step(RelpStep::Message {
                transaction,
                span,
                consumed,
                is_truncated: true,
            });
        }
        match arrived.get(data_len) {
            None => return FrameOutcome::Unfinished,
            Some(b'\n') => {}
            Some(_) => return FrameOutcome::Step(Self::fail(RelpError::End, replies)),
        }
        let consumed = start + data_len + 1;
        let message = without_line_end(arrived.get(..data_len).unwrap_or_default());
        if message.is_empty() {
            self.answer_later(transaction, Answer::Acknowledged, replies);
            return FrameOutcome::Answered { consumed };
        }
        self.unanswered.push_back(Unanswered { transaction, answer: None });
        let span = start..start + message.len();
        FrameOutcome::Step(RelpStep::Message { transaction, span, consumed, is_truncated: false })
    }

    /// Answers a message that is on stable storage. The answer is appended to `replies` once all
    /// earlier messages are answered.
    pub fn acknowledge(&mut self, transaction: RelpTransaction, replies: &mut Vec<u8>) {
        self.answer(transaction, Answer::Acknowledged, replies);
    }

    /// Answers a message that was not accepted; the client may send it again.
    pub fn refuse(&mut self, transaction: RelpTransaction, text: &str, replies: &mut Vec<u8>) {
        let kept = text.get(..cut_utf8(text.as_bytes(), REASON_BYTES_MAX)).unwrap_or_default();
        self.answer(transaction, Answer::Refused(kept.into()), replies);
    }

    fn answer(&mut self, transaction: RelpTransaction, answer: Answer, replies: &mut Vec<u8>) {
        let mut waiting = self.unanswered.iter_mut();
        let found = waiting.find(|one| one.transaction == transaction && one.answer.is_none());
        debug_assert!(found.is_some(), "a message is answered once");
        if let Some(one) = found {
            one.answer = Some(answer);
        }
        self.send(replies);
    }

    fn answer_later(
        &mut self,
        transaction: RelpTransaction,
        answer: Answer,
        replies: &mut Vec<u8>,
    ) {
        self.unanswered.push_back(Unanswered { transaction, answer: Some(answer) });
        self.send(replies);
    }

    /// Tells the client that the server will close the connection, so that it does not wait for
    /// more answers.
    pub fn shut_down(&self, replies: &mut Vec<u8>) {
        push_frame(0, "serverclose", &[], replies);
    }

    /// Appends the answers that are known and next in order.
    fn send(&mut self, replies: &mut Vec<u8>) {
        let is_in_frame = matches!(self.state, ServerState::Rest { .. });
        let sendable = self.unanswered.len() - usize::from(is_in_frame);
        for _ in 0..sendable {
            match self.unanswered.pop_front_if(|one| one.answer.is_some()) {
                Some(Unanswered { transaction, answer: Some(answer) }) => {
                    answer.push(transaction, replies);
                }
                Some(_) | None => return,
            }
        }
    }
}

/// Result of looking at a frame whose header is complete.
enum FrameOutcome {
    /// Something for the caller.
    Step(RelpStep),
    /// It has not arrived completely.
    Unfinished,
    /// It was answered here.
    Answered { consumed: usize },
}

impl Answer {
    fn push(&self, transaction: RelpTransaction, replies: &mut Vec<u8>) {
        match self {
            Self::Acknowledged => push_frame(transaction, "rsp", &[b"200 OK"], replies),
            Self::Refused(text) => {
                push_frame(transaction, "rsp", &[b"500 ", text.as_bytes()], replies);
            }
            Self::Closed => {
                push_frame(transaction, "rsp", &[], replies);
                push_frame(0, "serverclose", &[], replies);
            }
        }
    }
}
