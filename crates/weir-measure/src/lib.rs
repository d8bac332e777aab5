//! Measuring log systems from outside, as a black box: load that is numbered, a collector that
//! counts, weir as a process, and the oracle that judges a whole run.
//!
//! Invariant: knows files and protocols, nothing of weir's insides; what it reports was counted
//! by itself.
#![forbid(unsafe_code)]

mod books;
pub mod collector;
pub mod load;
mod oracle;
mod process;
pub mod torture;

pub use books::Books;
pub use oracle::{Missing, Oracle};
pub use process::{PATIENCE, Process, wait_for};
