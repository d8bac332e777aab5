//! Tools for tests only: a disk that fails and loses unflushed data, files that change between any
//! two calls, a clock that is moved by hand, a thread that runs only when it is told to, a stand-in
//! for UAA and the Cloud Controller, and the real binary as a process. The collector and the oracle
//! are those of `weir-measure`, which `weir torture` uses as well.
//!
//! Invariants: nothing here is linked into the product; nothing here shares code with what it
//! checks except the traits that it implements.
#![forbid(unsafe_code)]

mod clock;
mod cloud;
pub mod disk;
mod file_tree;
pub mod history;
mod journal;
mod lockstep;
mod pki;
mod process;
mod sender;
mod token_key;
mod writing;

pub use clock::FakeClock;
pub use cloud::Cloud;
pub use disk::{CallKind, FailingDisk, Fault, FaultKind, Faults, FaultyDisk, Moment};
pub use file_tree::{FakeTree, FakeWriter, TreeLimits};
pub use journal::journal_config;
pub use lockstep::{Lockstep, Pause};
pub use pki::{Pki, ServerCertificate};
pub use process::{Weir, binary};
pub use sender::{HttpAnswer, HttpSender};
pub use token_key::TokenKey;
pub use weir_measure::collector::{
    Acks, Answer, Collector, CollectorConfig, Record, StreamTally, Tally,
};
pub use weir_measure::load::LineId;
pub use weir_measure::{Books, Oracle, PATIENCE, wait_for};
pub use writing::Writing;
