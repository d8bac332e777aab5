//! Encodes records: the encoding of a record (`line`, `syslog_line`, `hec`, `syslog`), and how
//! encoded records are delimited (`framing`). The transport of the bytes is up to the caller.

mod framing;
mod hec;
mod line;
mod syslog;
mod syslog_line;

pub use framing::{Framing, datagram};
pub use hec::{HecEncoder, HecMetadata, HecMode};
pub use line::{Encoding, open_json};
pub use syslog::{SyslogEncoder, SyslogOutputFraming};
