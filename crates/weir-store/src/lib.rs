//! The record store of weir: plain Parquet files, each with a filter file next to it, and search
//! over them.
//!
//! Invariants of this crate: a record is read back exactly as it was stored; a damaged byte results
//! in an error, never in another record or a panic; nothing is kept that other engines cannot read
//! or that cannot be rebuilt from what they can read. Formats: `docs/internals/segment.md`.
//!
//! Reading order: [`limits`], then [`embedded::columns`] (records become columns in memory),
//! [`embedded::segment`] (columns are written to a file and read back), [`embedded::sidecar`] (what
//! is known about a file without reading it), and [`query`] (the query interface).
#![forbid(unsafe_code)]

pub mod embedded;
pub mod limits;
pub mod query;
