//! gRPC messages in a byte stream: each has a prefix of five bytes, with a compression flag and its
//! length.
//!
//! Invariants: a message that is complete in the received bytes is not copied; at most one
//! incomplete message is buffered, up to the length in its prefix, after that length was checked.

use std::fmt::Write as _;

/// Length of the prefix of a message.
pub const GRPC_PREFIX_LEN: usize = 5;

/// Status codes of gRPC that are in use, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrpcStatus {
    /// It has succeeded.
    Ok = 0,
    /// It has failed for an unknown reason.
    Unknown = 2,
    /// The request is invalid.
    InvalidArgument = 3,
    /// The deadline was exceeded.
    DeadlineExceeded = 4,
    /// A limit was reached.
    ResourceExhausted = 8,
    /// There is no such method.
    Unimplemented = 12,
    /// A message cannot be decoded.
    Internal = 13,
    /// The client should retry later.
    Unavailable = 14,
    /// The client has no valid token.
    Unauthenticated = 16,
}

impl GrpcStatus {
    /// Returns the message of a status, percent-encoded for headers.
    pub fn percent_encoded(message: &str) -> String {
        let mut encoded = String::with_capacity(message.len());
        for byte in message.bytes() {
            if (b' '..=b'~').contains(&byte) && byte != b'%' {
                encoded.push(char::from(byte));
            } else {
                let _infallible = write!(encoded, "%{byte:02X}");
            }
        }
        encoded
    }
}

/// Why the stream cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrpcError {
    /// A message is longer than the limit.
    #[error("received message larger than max ({len} vs. {max})")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// A message is compressed.
    #[error("compressed messages are not supported")]
    Compressed,
}

/// Result of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum GrpcStep<'b> {
    /// A complete message.
    Message(&'b [u8]),
    /// All bytes were taken, and no message is complete. If `len` is set, a message of that length
    /// has begun.
    NeedMore {
        /// Length of the message that has begun, without its prefix.
        len: Option<usize>,
    },
}

/// Finds the messages of a stream.
#[derive(Debug)]
pub struct GrpcFraming {
    bytes_max: usize,
    /// The beginning of a message with its prefix, or the last returned message.
    kept: Vec<u8>,
    is_returned: bool,
}

impl GrpcFraming {
    /// Creates a framing with messages of at most `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Vec::new(), is_returned: false }
    }

    /// Returns the next message in `bytes`, and removes it from them.
    pub fn next<'s, 'b: 's>(&'s mut self, bytes: &mut &'b [u8]) -> Result<GrpcStep<'s>, GrpcError> {
        if std::mem::take(&mut self.is_returned) {
            self.kept.clear();
        }
        if self.kept.is_empty() {
            let Some((prefix, rest)) = bytes.split_first_chunk() else {
                self.keep(bytes, GRPC_PREFIX_LEN);
                return Ok(GrpcStep::NeedMore { len: None });
            };
            let len = self.len(*prefix)?;
            if let Some((message, rest)) = rest.split_at_checked(len) {
                *bytes = rest;
                return Ok(GrpcStep::Message(message));
            }
            self.kept.reserve_exact((GRPC_PREFIX_LEN + len).min(bytes.len().max(RESERVED_BYTES)));
            self.keep(bytes, GRPC_PREFIX_LEN + len);
            return Ok(GrpcStep::NeedMore { len: Some(len) });
        }
        self.keep(bytes, GRPC_PREFIX_LEN);
        let Some(prefix) = self.kept.first_chunk() else {
            return Ok(GrpcStep::NeedMore { len: None });
        };
        let len = self.len(*prefix)?;
        self.keep(bytes, GRPC_PREFIX_LEN + len);
        if self.kept.len() < GRPC_PREFIX_LEN + len {
            return Ok(GrpcStep::NeedMore { len: Some(len) });
        }
        self.is_returned = true;
        Ok(GrpcStep::Message(self.kept.get(GRPC_PREFIX_LEN..).unwrap_or_default()))
    }

    /// Returns how many bytes of an incomplete message have arrived.
    pub fn unfinished_bytes(&self) -> usize {
        if self.is_returned { 0 } else { self.kept.len() }
    }

    /// Replaces the buffer for incomplete messages, while there are none.
    pub fn exchange(&mut self, memory: Vec<u8>) -> Vec<u8> {
        debug_assert!(self.unfinished_bytes() == 0, "the beginning of a message is kept");
        self.is_returned = false;
        let mut old = std::mem::replace(&mut self.kept, memory);
        self.kept.clear();
        old.clear();
        old
    }

    fn len(&self, prefix: [u8; GRPC_PREFIX_LEN]) -> Result<usize, GrpcError> {
        let [flag, len @ ..] = prefix;
        if flag != 0 {
            return Err(GrpcError::Compressed);
        }
        let (len, max) = (u32::from_be_bytes(len) as usize, self.bytes_max);
        if len > max { Err(GrpcError::TooLong { len, max }) } else { Ok(len) }
    }

    /// Moves bytes to the buffer until it has `end` bytes.
    fn keep(&mut self, bytes: &mut &[u8], end: usize) {
        let count = end.saturating_sub(self.kept.len()).min(bytes.len());
        let (more, rest) = bytes.split_at_checked(count).unwrap_or((bytes, b""));
        self.kept.extend_from_slice(more);
        *bytes = rest;
    }
}

/// Memory for the beginning of a message, unless more has arrived: a batch of a hundred lines fits.
const RESERVED_BYTES: usize = 128 * 1024;

/// Appends a message with its prefix.
pub fn write_grpc_message(message: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads pieces of a stream.
    fn read(pieces: &[&[u8]], bytes_max: usize) -> Result<(Vec<Vec<u8>>, usize), GrpcError> {
        let mut framing = GrpcFraming::new(bytes_max);
        let mut messages = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let GrpcStep::Message(message) = framing.next(&mut piece)? {
                messages.push(message.to_vec());
            }
            assert!(piece.is_empty());
        }
        Ok((messages, framing.unfinished_bytes()))
    }

    proptest! {
        #[test]
        fn messages_do_not_depend_on_how_the_stream_is_divided(
            messages in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..40), 0..12),
            piece in 1_usize..64,
            missing in 0_usize..6,
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                write_grpc_message(message, &mut stream);
            }
            let whole = stream.len();
            write_grpc_message(b"", &mut stream);
            stream.truncate(whole + 5 - missing.min(5));
            let pieces: Vec<&[u8]> = stream.chunks(piece).collect();
            let (found, unfinished) = read(&pieces, 40).unwrap();
            let mut expected = messages;
            if missing == 0 {
                expected.push(Vec::new());
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(unfinished, if missing == 0 { 0 } else { 5 - missing.min(5) });
        }
    }

    #[test]
    fn messages_of_a_status_are_ascii() {
        assert_eq!(GrpcStatus::percent_encoded("50% \u{e4}\n"), "50%25 %C3%A4%0A");
    }

    #[test]
    fn long_and_compressed_messages_are_refused_by_their_prefix() {
        let long = Err(GrpcError::TooLong { len: 11, max: 10 });
        assert_eq!(read(&[&[0, 0, 0, 0, 11]], 10), long);
        assert_eq!(read(&[&[0, 0], &[0, 0, 11]], 10), long);
        assert_eq!(read(&[&[1, 0, 0, 0, 1]], 10), Err(GrpcError::Compressed));
        assert_eq!(read(&[&[0, 0, 0, 0, 10], &[7; 4]], 10), Ok((Vec::new(), 9)));
    }
}
