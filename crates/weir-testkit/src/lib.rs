//! Tools for tests only: a disk that fails and forgets, a clock that is moved by hand, a thread
//! that runs only when it is told to, a collector that misbehaves on command and counts exactly,
//! the real binary as a process, and the oracle that judges a whole run.
//!
//! Invariants: nothing here is linked into the product; nothing here shares code with what it
//! checks beyond the traits that it stands in for.
#![forbid(unsafe_code)]

mod books;
mod clock;
pub mod collector;
pub mod disk;
mod lockstep;
mod oracle;
mod pki;
mod process;
mod sender;
mod writing;

pub use books::Books;
pub use clock::FakeClock;
pub use collector::{Acks, Answer, Collector, CollectorConfig, Record, StreamTally, Tally};
pub use disk::{CallKind, FailingDisk, Fault, FaultKind, Faults, FaultyDisk, Moment};
pub use lockstep::{Lockstep, Pause};
pub use oracle::Oracle;
pub use pki::{Pki, ServerCertificate};
pub use process::{PATIENCE, Weir, binary, wait_for};
pub use sender::{HttpAnswer, HttpSender};
pub use weir_measure::load::LineId;
pub use writing::Writing;
