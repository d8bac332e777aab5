//! Records to bytes: how a record is written (`line`, `hec`), and how several are put together
//! (`framing`). What carries the bytes is the caller's business.

mod framing;
mod hec;
mod line;

pub use framing::{Framing, datagram};
pub use hec::{HecEncoder, HecMetadata, HecMode};
pub use line::{Encoding, open_json};
