//! Where weir keeps records and finds them again: plain Parquet files with a filter beside each.
//!
//! Invariants of this crate: a record comes back as it was put in; a damaged byte gives an error,
//! never another record and never a panic; nothing is kept that cannot be read by other engines
//! or built anew from what they can read. Formats: `docs/internals/segment.md`.
//!
//! Reading order: [`limits`], then [`embedded::columns`] (records become columns in memory),
//! [`embedded::segment`] (columns become a file and come back), [`embedded::sidecar`] (what is
//! known about a file without reading it), and [`query`] (what can be asked).
#![forbid(unsafe_code)]

pub mod embedded;
pub mod limits;
pub mod query;
