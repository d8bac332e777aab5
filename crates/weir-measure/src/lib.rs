//! Black-box measurement of log systems: numbered load, a counting collector, weir as a process,
//! and the oracle that judges a whole run.
//!
//! Invariant: knows files and protocols, but nothing of weir's internals; it reports only what it
//! counted itself.
#![forbid(unsafe_code)]

mod books;
pub mod collector;
pub mod demo;
pub mod load;
mod oracle;
mod process;
pub mod torture;

pub use books::Books;
pub use oracle::{Missing, Oracle};
pub use process::{PATIENCE, Process, wait_for};
