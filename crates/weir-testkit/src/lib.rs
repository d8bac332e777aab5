//! Tools for tests only: a disk that fails and forgets, a clock that is moved by hand.
//!
//! Invariants: everything is deterministic by its seed; nothing here is linked into the product.
#![forbid(unsafe_code)]

mod clock;
pub mod disk;

pub use clock::FakeClock;
pub use disk::{CallKind, FailingDisk, Fault, FaultKind, FaultyDisk};
