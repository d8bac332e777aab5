//! The side that sends messages.
//!
//! Invariants: at most a window of messages is unanswered; an answer is matched with its message by
//! its number, in any order; an answer to anything else ends the session.

use std::collections::VecDeque;
use std::ops::Range;

use super::{
    CONTROL_BYTES_MAX, Control, Header, OFFER, OVERHEAD_BYTES, RelpError, RelpTransaction,
    TRANSACTION_MAX, control, header, is_acceptable, push_frame,
};

/// Default number of unanswered messages: the window of librelp.
pub const RELP_WINDOW_DEFAULT: usize = 128;

/// Result of looking for the next answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelpClientStep {
    /// The server has accepted the session: messages can be sent.
    Opened {
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// The server has stored a message.
    Acknowledged {
        /// The message, as numbered by [`RelpClient::send`].
        transaction: RelpTransaction,
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// The server has not accepted a message.
    Refused {
        /// The message, as numbered by [`RelpClient::send`].
        transaction: RelpTransaction,
        /// The server's reason in the buffer.
        reason: Range<usize>,
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// The session is over: the server has answered [`RelpClient::close`], or closes it itself.
    /// Messages that are unanswered must be sent again.
    Closed {
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// No complete answer.
    NeedMore {
        /// How many bytes of the buffer to remove.
        consumed: usize,
    },
    /// The session cannot continue: close the connection, and send unanswered messages again.
    Failed(RelpError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientState {
    Start,
    Opening(RelpTransaction),
    Open,
    Closing(RelpTransaction),
    Closed,
}

/// One session with a server.
#[derive(Debug)]
pub struct RelpClient {
    state: ClientState,
    window: usize,
    next: RelpTransaction,
    /// In the order in which they were sent.
    unanswered: VecDeque<RelpTransaction>,
}

impl RelpClient {
    /// Maximum number of bytes that a caller has to keep for [`Self::next`].
    pub const BUFFER_BYTES: usize = CONTROL_BYTES_MAX + OVERHEAD_BYTES;

    /// Creates a session that leaves at most `window` (at least 1) messages unanswered.
    pub fn new(window: usize) -> Self {
        Self {
            state: ClientState::Start,
            window: window.max(1),
            next: 1,
            unanswered: VecDeque::new(),
        }
    }

    /// Returns the number of a new frame.
    fn number(&mut self) -> RelpTransaction {
        let number = self.next;
        self.next = if number >= TRANSACTION_MAX { 1 } else { number + 1 };
        number
    }

    /// Appends the frame that opens the session.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        if self.state == ClientState::Start {
            let number = self.number();
            self.state = ClientState::Opening(number);
            push_frame(number, "open", &[OFFER], out);
        }
    }

    /// Returns whether a message may be sent now.
    pub fn can_send(&self) -> bool {
        self.state == ClientState::Open && self.unanswered.len() < self.window
    }

    /// Appends a message; returns the number that its answer will have. `None` if none may be sent
    /// now.
    pub fn send(&mut self, message: &[u8], out: &mut Vec<u8>) -> Option<RelpTransaction> {
        if !self.can_send() {
            return None;
        }
        let number = self.number();
        push_frame(number, "syslog", &[message], out);
        self.unanswered.push_back(number);
        Some(number)
    }

    /// Appends the frame that closes the session. Answers to unanswered messages still arrive.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.state == ClientState::Open {
            let number = self.number();
            self.state = ClientState::Closing(number);
            push_frame(number, "close", &[], out);
        }
    }

    /// Returns the messages that are unanswered, in the order in which they were sent.
    pub fn unanswered(&self) -> impl Iterator<Item = RelpTransaction> + '_ {
        self.unanswered.iter().copied()
    }

    /// Looks for the next answer in the received bytes. Until bytes are consumed, the buffer may
    /// only grow at its end.
    pub fn next(&mut self, buffer: &[u8]) -> RelpClientStep {
        let header = match header(buffer) {
            Ok(Some(header)) => header,
            Ok(None) => return RelpClientStep::NeedMore { consumed: 0 },
            Err(error) => return RelpClientStep::Failed(error),
        };
        match control(buffer, 0, &header) {
            Ok(Some(control)) => self.answer(buffer, &header, &control),
            Ok(None) => RelpClientStep::NeedMore { consumed: 0 },
            Err(error) => RelpClientStep::Failed(error),
        }
    }

    fn answer(&mut self, buffer: &[u8], header: &Header, frame: &Control) -> RelpClientStep {
        let Control { data, consumed } = frame;
        let consumed = *consumed;
        let transaction = header.transaction;
        match buffer.get(header.command.clone()).unwrap_or_default() {
            b"serverclose" => {
                self.state = ClientState::Closed;
                return RelpClientStep::Closed { consumed };
            }
            b"rsp" => {}
            _ => return RelpClientStep::Failed(RelpError::Command),
        }
        let answer = buffer.get(data.clone()).unwrap_or_default();
        let is_good = matches!(answer, [b'2', b'0', b'0'] | [b'2', b'0', b'0', b' ' | b'\n', ..]);
        match self.state {
            ClientState::Opening(number) if number == transaction => {
                let offer = answer.iter().position(|b| *b == b'\n').unwrap_or(answer.len());
                if !is_good {
                    return RelpClientStep::Failed(RelpError::Refused);
                }
                if !is_acceptable(answer.get(offer..).unwrap_or_default()) {
                    return RelpClientStep::Failed(RelpError::Offer);
                }
                self.state = ClientState::Open;
                return RelpClientStep::Opened { consumed };
            }
            ClientState::Closing(number) if number == transaction => {
                self.state = ClientState::Closed;
                return RelpClientStep::Closed { consumed };
            }
            ClientState::Start
            | ClientState::Opening(_)
            | ClientState::Open
            | ClientState::Closing(_)
            | ClientState::Closed => {}
        }
        let is_status = matches!(answer, [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', ..]);
        let Some(place) = self.unanswered.iter().position(|one| *one == transaction) else {
            return RelpClientStep::Failed(RelpError::Answer);
        };
        if !is_status {
            return RelpClientStep::Failed(RelpError::Answer);
        }
        self.unanswered.remove(place);
        if is_good {
            return RelpClientStep::Acknowledged { transaction, consumed };
        }
        let reason = data.start + answer.len().min(4)..data.end;
        RelpClientStep::Refused { transaction, reason, consumed }
    }
}
