//! What is known about a segment without reading it: which pages may hold a word, a part of one or
//! a value, which rows have one of the frequent words, how many rows there are per minute, service
//! and status, and which paths are in `_rest`.
//!
//! A sidecar is a file beside its segment (`.widx`), and can be built anew from it at any time.
//! Format: `docs/internals/segment.md`. Invariants: a filter says yes to every page that holds the
//! term, and to few others; what is read is checked first; one that belongs to another segment,
//! or is damaged in any byte that is read, is an error and never an answer.

mod bloom;
mod build;
mod counts;
mod file;
mod frequent;
mod fuse;
mod grams;
mod paths;
mod terms;

pub use build::{cut_sidecar, rebuild_sidecar, stitch_sidecars, write_segment_with_sidecar};
pub use counts::{MinuteCount, MinuteCounts};
pub use file::{Sidecar, SidecarError};
pub use grams::Grams;
pub use paths::{RestPath, RestPaths};
pub use terms::{value_term, word_term, words_of};
