//! The built-in store.
//!
//! Records go from the journal into the head ([`columns`]), which queries can read while it grows,
//! and from there into segments ([`segment`], [`sidecar`]), which are never changed. Invariants: a
//! record is stored exactly once; a query sees one consistent snapshot ([`snapshot`]); the manifest
//! alone decides what is stored.
//!
//! Reading order: [`EmbeddedStore`] (`store.rs`), `write/` (from the journal to files), `keep/`
//! (start, catalog and deletions), `read/` (queries). Formats: `docs/internals/store.md`.

pub mod columns;
mod hash;
mod keep;
mod read;
pub mod segment;
pub mod sidecar;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub use keep::verify::{Fault, Verified, bytes_to_verify, verify};
pub use read::engine::QueryEngine;
pub use read::{scan, snapshot};
pub use store::{EmbeddedStore, StoreConfig};
pub use write::head::Upstream;
pub use write::manifest::ManifestError;
