//! Sidecars: what is known about a segment without reading it. A sidecar tells which pages may
//! contain a word, a part of one or a value, which rows have one of the frequent words, how many
//! rows there are per minute, service and status, and which paths are in `_rest`.
//!
//! A sidecar is a file next to its segment (`.widx`), and can be rebuilt from it at any time.
//! Format: `docs/internals/segment.md`. Invariants: a filter matches every page that contains the
//! term, and few others; data is checked before use; a sidecar that belongs to another segment, or
//! is damaged in any byte that is read, yields an error and never an answer.

mod bloom;
mod build;
mod counts;
mod file;
mod frequent;
mod fuse;
mod grams;
mod paths;
mod terms;

pub use build::{concat_sidecars, cut_sidecar, rebuild_sidecar, write_segment_with_sidecar};
pub use counts::{MinuteCount, MinuteCounts};
pub use file::{Sidecar, SidecarError};
pub use grams::Grams;
pub use paths::{RestPath, RestPaths};
pub use terms::{value_term, word_term, words_of};
