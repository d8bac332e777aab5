//! Receives syslog: splits a byte stream or a datagram into messages, and converts each to a
//! record.
//!
//! [`SyslogFraming`] finds the messages of a byte stream (TCP, TLS, Unix), [`syslog_datagram`] the
//! one of a datagram. [`SyslogDecoder::parse`] parses one: RFC 5424, RFC 3164 as programs and
//! devices write it, or any other bytes. The caller chooses the record's resource by what the
//! message states (`hostname`, `app_name`) and by its sender; [`SyslogDecoder::push`] adds the
//! record to a batch:
//!
//! ```
//! use weir_codec::{SyslogDecoder, SyslogFormat, SyslogOrigin};
//! use weir_model::{BatchBuilder, Position, SourceBook};
//!
//! let mut decoder = SyslogDecoder::new();
//! let mut batch = BatchBuilder::new(Position::default());
//! let mut book = SourceBook::default();
//! let message = decoder.parse(b"<34>Oct 11 22:14:15 mymachine su[42]: failed", 0);
//! assert_eq!(message.format, Some(SyslogFormat::Rfc3164));
//! assert_eq!(message.hostname, b"mymachine");
//! assert_eq!(message.app_name, b"su");
//! let resource = batch.resource(0, br#"{"host.name":"mymachine","service.name":"su"}"#).unwrap();
//! let origin = SyslogOrigin { resource, end_offset: 1, ..SyslogOrigin::default() };
//! decoder.push(&mut batch, &message, &origin, &mut book).unwrap();
//! assert_eq!(batch.record(0).body, b"failed");
//! assert_eq!(batch.record(0).process_id(), b"42");
//! assert_eq!(batch.record(0).original(), b"<34>Oct 11 22:14:15 mymachine su[42]: failed");
//! ```
//!
//! Missing fields stay unset: facility and severity without a priority (RFC 3164 lets relays assume
//! 13), and host and program if there are none. The time of a message without one is that of
//! receipt.
//!
//! Invariants: any bytes are accepted and nothing is lost: the message, without its line end, is
//! the record's original; body, process id and message id are parts of it.

pub(crate) mod elements;
mod framing;
pub(crate) mod header;
mod message;
pub(crate) mod stamp;

pub(crate) use framing::{LIMIT_BYTES_MIN, without_line_end};
pub use framing::{
    SYSLOG_MESSAGE_BYTES_DEFAULT, SyslogEnd, SyslogFraming, SyslogFramingError, SyslogFramingKind,
    SyslogStep, syslog_datagram,
};
pub use message::{SyslogDecoder, SyslogFormat, SyslogMessage, SyslogOrigin};
