//! RELP, rsyslog's protocol for syslog messages with acknowledgements: what both sides share.
//!
//! A frame is `TRANSACTION COMMAND LENGTH[ DATA]` and a newline. The client opens a session, sends
//! `syslog` frames, of which a window may be unanswered, and closes the session; the server answers
//! each frame with `rsp` and a status (`200 OK`, `500 text`). A client sends unanswered messages
//! again on its next connection, so messages arrive at least once.
//!
//! [`RelpServer`] and [`RelpClient`] are the two sides, without I/O: the caller keeps received
//! bytes until they are consumed, and sends the bytes that they append to a buffer.
//!
//! Invariants: any bytes are accepted as input; a caller never has to keep more than one frame
//! within the limits ([`RelpServer::buffer_bytes`], [`RelpClient::BUFFER_BYTES`]).

mod client;
mod server;

use std::ops::Range;

use crate::time::push_number;

pub use client::{RELP_WINDOW_DEFAULT, RelpClient, RelpClientStep};
pub use server::{RELP_UNANSWERED_MAX, RelpServer, RelpStep};

/// Maximum number of digits of a transaction number, and of a length.
const DIGITS_MAX: usize = 9;
/// Largest transaction number; 1 follows.
const TRANSACTION_MAX: u32 = 999_999_999;
/// Maximum length of a command, in letters.
const COMMAND_BYTES_MAX: usize = 32;
/// Maximum length of the data of frames that are not messages (offers, answers): real ones have
/// less than 200 bytes.
const CONTROL_BYTES_MAX: usize = 4096;

/// Maximum length of a frame without its data.
const OVERHEAD_BYTES: usize = 2 * DIGITS_MAX + COMMAND_BYTES_MAX + 4;

/// The number of a frame, which its answer repeats.
pub type RelpTransaction = u32;

/// Why a session cannot continue: close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RelpError {
    /// A frame does not begin with a transaction number of at most 9 digits and a space.
    #[error("a frame must begin with a transaction number of at most {DIGITS_MAX} digits")]
    Transaction,
    /// There is no command of at most 32 letters and a space after the transaction number.
    #[error("a command of at most {COMMAND_BYTES_MAX} letters must follow a transaction number")]
    Command,
    /// There is no length of at most 9 digits after the command.
    #[error("a length of at most {DIGITS_MAX} digits must follow a command")]
    Length,
    /// The data of a frame is not followed by a newline.
    #[error("a newline must follow the data of a frame")]
    End,
    /// The data of a frame that is not a message is too long.
    #[error("a frame that is not a message has more than {CONTROL_BYTES_MAX} bytes")]
    TooLong,
    /// A frame was sent before the session was opened, or after it was closed.
    #[error("the session is not open")]
    NotOpen,
    /// The peer does not offer the command `syslog`, or its version is unknown.
    #[error("the peer does not offer the command syslog")]
    Offer,
    /// The server answered a frame that was not sent, or without a status.
    #[error("unexpected response")]
    Answer,
    /// The server refused to open the session.
    #[error("the server refused the session")]
    Refused,
}

/// The header of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    transaction: RelpTransaction,
    command: Range<usize>,
    data_len: usize,
    /// Length of the header, with the space before the data if there are any.
    len: usize,
}

/// Parses the header at the start of a frame; `None` if it has not arrived completely.
fn header(frame: &[u8]) -> Result<Option<Header>, RelpError> {
    let Some((transaction, at)) = number(frame, RelpError::Transaction)? else { return Ok(None) };
    if frame.get(at) != Some(&b' ') {
        return Err(RelpError::Transaction);
    }
    let start = at + 1;
    let after = frame.get(start..).unwrap_or_default();
    let letters = after.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    if letters > COMMAND_BYTES_MAX {
        return Err(RelpError::Command);
    }
    match after.get(letters) {
        None => return Ok(None),
        Some(b' ') if letters > 0 => {}
        Some(_) => return Err(RelpError::Command),
    }
    let length_at = start + letters + 1;
    let length = frame.get(length_at..).unwrap_or_default();
    let Some((data_len, digits)) = number(length, RelpError::Length)? else { return Ok(None) };
    let end = length_at + digits;
    let has_space = match frame.get(end) {
        Some(b' ') => true,
        Some(b'\n') if data_len == 0 => false,
        _ => return Err(RelpError::Length),
    };
    Ok(Some(Header {
        transaction,
        command: start..start + letters,
        data_len: data_len as usize,
        len: end + usize::from(has_space),
    }))
}

/// Parses a number; also returns how many digits it has. `None` if more digits may arrive.
fn number(text: &[u8], error: RelpError) -> Result<Option<(u32, usize)>, RelpError> {
    let digits = text.iter().take(DIGITS_MAX + 1).take_while(|b| b.is_ascii_digit()).count();
    if digits > DIGITS_MAX || (digits == 0 && !text.is_empty()) {
        return Err(error);
    }
    if digits == text.len() {
        return Ok(None);
    }
    let value = text.iter().take(digits).fold(0, |n, b| n * 10 + u32::from(b & 0x0f));
    Ok(Some((value, digits)))
}

/// A complete frame with short data.
struct Control {
    data: Range<usize>,
    consumed: usize,
}

/// Returns the data of a frame with this header, if it has arrived completely.
fn control(buffer: &[u8], at: usize, header: &Header) -> Result<Option<Control>, RelpError> {
    if header.data_len > CONTROL_BYTES_MAX {
        return Err(RelpError::TooLong);
    }
    let start = at + header.len;
    let end = start + header.data_len;
    match buffer.get(end) {
        None => Ok(None),
        Some(b'\n') => Ok(Some(Control { data: start..end, consumed: end + 1 })),
        Some(_) => Err(RelpError::End),
    }
}

/// Appends a frame.
fn push_frame(transaction: RelpTransaction, command: &str, data: &[&[u8]], out: &mut Vec<u8>) {
    push_number(u64::from(transaction), out);
    out.push(b' ');
    out.extend_from_slice(command.as_bytes());
    out.push(b' ');
    let len: usize = data.iter().map(|part| part.len()).sum();
    push_number(len as u64, out);
    if len > 0 {
        out.push(b' ');
    }
    for part in data {
        out.extend_from_slice(part);
    }
    out.push(b'\n');
}

/// What each side offers when a session is opened.
const OFFER: &[u8] = b"relp_version=0\nrelp_software=weir\ncommands=syslog";

/// Returns whether an offer includes the command `syslog` in a known version.
fn is_acceptable(offer: &[u8]) -> bool {
    let value = |name: &[u8]| {
        let mut lines = offer.split(|b| *b == b'\n');
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(b"="))
    };
    let is_known = matches!(value(b"relp_version").map(<[u8]>::trim_ascii), Some(b"0" | b"1"));
    let commands = value(b"commands").unwrap_or_default();
    is_known && commands.split(|b| *b == b',').any(|name| name.trim_ascii() == b"syslog")
}
