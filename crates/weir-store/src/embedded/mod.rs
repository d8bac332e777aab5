//! The store that is built in.
//!
//! Invariant: every part works on what it is given; who owns files, threads and time is the
//! business of whoever puts the parts together.

pub mod columns;
mod hash;
mod log_store;
pub mod scan;
pub mod segment;
pub mod sidecar;
pub mod snapshot;

pub use log_store::{Explorer, Snapshots};
