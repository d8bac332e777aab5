//! The store beside a journal, both driven step by step over a disk that fails and forgets.

mod basics;
mod compaction;
mod crash;
mod deletion;
mod faults;
mod tidying;
mod world;
