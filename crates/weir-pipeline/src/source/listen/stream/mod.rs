//! Byte streams with a session: messages without acknowledgement, and RELP.
//!
//! Invariants: a connection keeps only the part of a message that has not arrived completely; a
//! message has a deadline from its first byte to its last; nothing is read while the journal has
//! no room.

mod lines;
mod relp;

pub(super) use lines::LineService;
pub(super) use relp::RelpService;
