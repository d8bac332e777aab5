//! Where messages begin and end in a byte stream (RFC 6587, RFC 5425).
//!
//! Both framings are recognized, frame by frame: a length, a space and that many bytes (`11
//! <13>message`), or a line. The caller keeps received bytes in a buffer, calls
//! [`SyslogFraming::next`] until it returns [`SyslogStep::NeedMore`], and removes the bytes that
//! each step has consumed from the front before the next call:
//!
//! ```
//! use weir_codec::{SyslogFraming, SyslogFramingKind, SyslogStep};
//!
//! let mut framing = SyslogFraming::new(SyslogFramingKind::Detect, 64 * 1024);
//! let received = b"<13>one\n8 <13>twos<13>unfini";
//! let (mut messages, mut at) = (Vec::new(), 0);
//! loop {
//!     let buffer = &received[at..];
//!     match framing.next(buffer) {
//!         SyslogStep::Message { span, consumed, .. } => {
//!             messages.push(&buffer[span]);
//!             at += consumed;
//!         }
//!         SyslogStep::Skipped { consumed } => at += consumed,
//!         SyslogStep::NeedMore { consumed } => {
//!             at += consumed;
//!             break;
//!         }
//!         SyslogStep::Failed(error) => panic!("close the connection: {error}"),
//!     }
//! }
//! assert_eq!(messages, [b"<13>one".as_slice(), b"<13>twos"]);
//! assert_eq!(&received[at..], b"<13>unfini");
//! ```
//!
//! Invariants: however a stream is split into reads, the messages are the same; a caller never has
//! to keep more than [`SyslogFraming::buffer_bytes`]; no byte is searched twice for the end of a
//! line; every byte is part of a message, part of the framing (lengths, line ends, blank lines), or
//! reported as skipped.

use std::ops::Range;

use crate::json::cut_utf8;

/// Default length at which a message is truncated, in bytes: that of syslog-ng, and eight times
/// what RFC 5425 asks of a receiver.
pub const SYSLOG_MESSAGE_BYTES_DEFAULT: usize = 64 * 1024;

/// Maximum number of digits of a message length: no message of 10 MB or more is real, and no
/// number that long overflows.
const LENGTH_DIGITS_MAX: usize = 7;

/// Minimum of the length limit: that of the longest character, so that something is left of one.
pub(crate) const LIMIT_BYTES_MIN: usize = 4;

/// How many bytes a caller may have to keep in addition to a message of the maximum length: its
/// length, the space after it, and one byte that shows whether a character would be split.
const OVERHEAD_BYTES: usize = LENGTH_DIGITS_MAX + 2;

/// How messages are delimited in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyslogFramingKind {
    /// Either way, determined for each frame by its first byte: a digit from 1 to 9 begins a
    /// length. Digits that are not followed by a space begin a line (a message without priority
    /// whose time comes first).
    #[default]
    Detect,
    /// A length before each message (octet counting), as RFC 5425 requires over TLS.
    OctetCounted,
    /// One message per line; a digit has no meaning.
    Lines,
}

/// Result of looking for the next message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyslogStep {
    /// A message, without its length or line end; never empty.
    Message {
        /// Where it is in the buffer.
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
    /// No complete message.
    NeedMore {
        /// How many bytes of the buffer to remove; they were only framing.
        consumed: usize,
    },
    /// The stream is invalid from here on: close the connection.
    Failed(SyslogFramingError),
}

/// The rest at the end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyslogEnd {
    /// Nothing.
    Nothing,
    /// A last line without its line end.
    Message {
        /// Where it is in the buffer.
        span: Range<usize>,
        /// How many bytes of it exceed the limit; they follow the span.
        skipped: usize,
    },
    /// The beginning of a message whose length was given. It is not a message.
    Unfinished {
        /// How many bytes of the message have arrived and are lost.
        received: usize,
    },
}

/// Why a stream is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyslogFramingError {
    /// The length of a message has too many digits.
    #[error("a message length has more than {LENGTH_DIGITS_MAX} digits")]
    LengthTooLong,
    /// There is no message length where one must be.
    #[error("expected a message length, found byte {byte:#04x}")]
    NoLength {
        /// The byte found.
        byte: u8,
    },
    /// There is no space after a message length.
    #[error("expected a space after a message length, found byte {byte:#04x}")]
    NoSpace {
        /// The byte found.
        byte: u8,
    },
}

/// Where in a frame the buffer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FramingState {
    /// At its start.
    Start,
    /// At the start of a line whose end is not within this many bytes.
    Line { searched: usize },
    /// In the rest of a line that was truncated.
    RestOfLine,
    /// In the rest of a counted message that was truncated.
    RestOfCounted { left: usize },
}

/// A length in front of a message.
enum Length {
    /// There is none: this is a line.
    None,
    /// Its end has not arrived.
    Unfinished,
    /// It is complete.
    Complete {
        /// Length of the message.
        message_len: usize,
        /// Length of what is before the message.
        header_len: usize,
    },
}

/// Finds the messages of one stream.
#[derive(Debug, Clone)]
pub struct SyslogFraming {
    kind: SyslogFramingKind,
    message_bytes_max: usize,
    state: FramingState,
}

impl SyslogFraming {
    /// Creates the framing for the start of a stream. Messages longer than `message_bytes_max` (at
    /// least 4) are truncated.
    pub fn new(kind: SyslogFramingKind, message_bytes_max: usize) -> Self {
        Self {
            kind,
            message_bytes_max: message_bytes_max.max(LIMIT_BYTES_MIN),
            state: FramingState::Start,
        }
    }

    /// Returns the maximum number of bytes that a caller has to keep for [`Self::next`].
    pub fn buffer_bytes(&self) -> usize {
        self.message_bytes_max + OVERHEAD_BYTES
    }

    /// Returns whether the next byte begins a frame, so that closing the connection loses nothing.
    pub fn is_between_frames(&self) -> bool {
        self.state == FramingState::Start
    }

    /// Looks for the next message in the received bytes. Until bytes are consumed, the buffer may
    /// only grow at its end.
    #[inline]
    pub fn next(&mut self, buffer: &[u8]) -> SyslogStep {
        match self.state {
            FramingState::Start => self.frame(buffer),
            FramingState::Line { searched } => self.line(buffer, 0, searched),
            FramingState::RestOfLine => self.rest_of_line(buffer),
            FramingState::RestOfCounted { left } => self.rest_of_counted(buffer, left),
        }
    }

    fn frame(&mut self, buffer: &[u8]) -> SyslogStep {
        let mut at = 0;
        loop {
            at += blank_len(buffer.get(at..).unwrap_or_default());
            let rest = buffer.get(at..).unwrap_or_default();
            if rest.is_empty() {
                return SyslogStep::NeedMore { consumed: at };
            }
            let (message_len, header_len) = match self.length(rest) {
                Err(error) => return SyslogStep::Failed(error),
                Ok(Length::None) => return self.line(buffer, at, 0),
                Ok(Length::Unfinished) => return SyslogStep::NeedMore { consumed: at },
                Ok(Length::Complete { message_len, header_len }) => (message_len, header_len),
            };
            let start = at + header_len;
            let Some(message) = rest.get(header_len..header_len + message_len) else {
                return self.long_counted(buffer, at, start, message_len);
            };
            let consumed = start + message_len;
            if message_len > self.message_bytes_max {
                return self.long_counted(buffer, at, start, message_len);
            }
            let trimmed = without_line_end(message);
            if !trimmed.is_empty() {
                let span = start..start + trimmed.len();
                return SyslogStep::Message { span, consumed, is_truncated: false };
            }
            at = consumed;
        }
    }

    /// Parses the length at the start of a frame, if there is one.
    fn length(&self, frame: &[u8]) -> Result<Length, SyslogFramingError> {
        let byte = frame.first().copied().unwrap_or_default();
        let is_length = matches!(byte, b'1'..=b'9');
        match self.kind {
            SyslogFramingKind::Lines => return Ok(Length::None),
            SyslogFramingKind::Detect if !is_length => return Ok(Length::None),
            SyslogFramingKind::OctetCounted if !is_length => {
                return Err(SyslogFramingError::NoLength { byte });
            }
            SyslogFramingKind::Detect | SyslogFramingKind::OctetCounted => {}
        }
        let mut message_len = 0;
        for (index, byte) in frame.iter().enumerate() {
            match byte {
                b'0'..=b'9' if index == LENGTH_DIGITS_MAX => {
                    return Err(SyslogFramingError::LengthTooLong);
                }
                b'0'..=b'9' => message_len = message_len * 10 + usize::from(byte - b'0'),
                b' ' => return Ok(Length::Complete { message_len, header_len: index + 1 }),
                byte => return self.no_length(*byte),
            }
        }
        Ok(Length::Unfinished)
    }

    /// Digits that are followed by this instead of a space.
    fn no_length(&self, byte: u8) -> Result<Length, SyslogFramingError> {
        match self.kind {
            SyslogFramingKind::Detect => Ok(Length::None),
            SyslogFramingKind::Lines | SyslogFramingKind::OctetCounted => {
                Err(SyslogFramingError::NoSpace { byte })
            }
        }
    }

    /// A counted message that has not arrived completely, or is too long.
    fn long_counted(
        &mut self,
        buffer: &[u8],
        at: usize,
        start: usize,
        message_len: usize,
    ) -> SyslogStep {
        let arrived = buffer.get(start..).unwrap_or_default();
        // One more byte shows whether the limit splits a character.
        if message_len <= self.message_bytes_max || arrived.len() <= self.message_bytes_max {
            return SyslogStep::NeedMore { consumed: at };
        }
        let keep = cut_utf8(arrived, self.message_bytes_max);
        self.state = FramingState::RestOfCounted { left: message_len - keep };
        SyslogStep::Message {
            span: start..start + keep,
            consumed: start + keep,
            is_truncated: true,
        }
    }

    /// Looks for the end of the line at `at`, of which `searched` bytes have been searched.
    #[inline]
    fn line(&mut self, buffer: &[u8], at: usize, searched: usize) -> SyslogStep {
        let rest = buffer.get(at..).unwrap_or_default();
        // A line end of two bytes may follow a message of the maximum length.
        let window_len = rest.len().min(self.message_bytes_max + 2);
        let unsearched = rest.get(searched..window_len).unwrap_or_default();
        let Some(found) = memchr::memchr2(b'\n', 0, unsearched) else {
            if window_len < self.message_bytes_max + 2 {
                self.state = FramingState::Line { searched: window_len };
                return SyslogStep::NeedMore { consumed: at };
            }
            return self.long_line(rest, at);
        };
        let end = searched + found;
        let line = rest.get(..=end).unwrap_or_default();
        let len = match line {
            [.., b'\r', b'\n'] => end - 1,
            _ => end,
        };
        if len > self.message_bytes_max {
            return self.long_line(rest, at);
        }
        self.state = FramingState::Start;
        SyslogStep::Message { span: at..at + len, consumed: at + end + 1, is_truncated: false }
    }

    fn long_line(&mut self, line: &[u8], at: usize) -> SyslogStep {
        let keep = cut_utf8(line, self.message_bytes_max);
        self.state = FramingState::RestOfLine;
        SyslogStep::Message { span: at..at + keep, consumed: at + keep, is_truncated: true }
    }

    /// The line end itself is left: it is a blank line.
    fn rest_of_line(&mut self, buffer: &[u8]) -> SyslogStep {
        match memchr::memchr2(b'\n', 0, buffer) {
            Some(0) => {
                self.state = FramingState::Start;
                self.frame(buffer)
            }
            Some(consumed) => {
                self.state = FramingState::Start;
                SyslogStep::Skipped { consumed }
            }
            None if buffer.is_empty() => SyslogStep::NeedMore { consumed: 0 },
            None => SyslogStep::Skipped { consumed: buffer.len() },
        }
    }

    fn rest_of_counted(&mut self, buffer: &[u8], left: usize) -> SyslogStep {
        let consumed = left.min(buffer.len());
        if consumed == 0 {
            return SyslogStep::NeedMore { consumed: 0 };
        }
        self.state = match left - consumed {
            0 => FramingState::Start,
            left => FramingState::RestOfCounted { left },
        };
        SyslogStep::Skipped { consumed }
    }

    /// Returns what is left at the end of the stream, after [`Self::next`] has asked for more.
    pub fn finish(&mut self, buffer: &[u8]) -> SyslogEnd {
        let state = std::mem::replace(&mut self.state, FramingState::Start);
        match state {
            FramingState::RestOfLine | FramingState::RestOfCounted { .. } => {
                return SyslogEnd::Nothing;
            }
            FramingState::Start | FramingState::Line { .. } => {}
        }
        let at = blank_len(buffer);
        let rest = buffer.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return SyslogEnd::Nothing;
        }
        if state == FramingState::Start {
            match self.length(rest) {
                Ok(Length::None) => {}
                Ok(Length::Complete { header_len, .. }) => {
                    return SyslogEnd::Unfinished { received: rest.len() - header_len };
                }
                Ok(Length::Unfinished) | Err(_) => return SyslogEnd::Unfinished { received: 0 },
            }
        }
        let line = without_line_end(rest);
        let keep = cut_utf8(line, self.message_bytes_max);
        SyslogEnd::Message { span: at..at + keep, skipped: line.len() - keep }
    }
}

/// Returns the length of the line ends that `buffer` begins with: blank lines, and what rsyslog and
/// syslog-ng send between counted messages.
fn blank_len(buffer: &[u8]) -> usize {
    buffer.iter().take_while(|byte| matches!(byte, b'\n' | b'\r' | 0)).count()
}

/// Returns a message without the line end that some senders count as a part of it, or that ends a
/// datagram.
pub(crate) fn without_line_end(message: &[u8]) -> &[u8] {
    let len = message.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r' | 0)).count();
    message.get(..message.len() - len).unwrap_or_default()
}

/// Returns the message in a datagram (RFC 5426): without a line end, and at most
/// `message_bytes_max` bytes long; also how many bytes exceed that.
pub fn syslog_datagram(datagram: &[u8], message_bytes_max: usize) -> (&[u8], usize) {
    let message = without_line_end(datagram);
    let keep = cut_utf8(message, message_bytes_max);
    (message.get(..keep).unwrap_or_default(), message.len() - keep)
}
