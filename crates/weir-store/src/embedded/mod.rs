//! The built-in store.
//!
//! Records go from the journal into the head ([`columns`]), which queries can read while it grows,
//! and from there into segments ([`segment`], [`sidecar`]), which are never changed. Invariants: a
//! record is stored exactly once; a query sees one consistent snapshot ([`snapshot`]); the manifest
//! alone decides what is stored.
//!
//! Reading order: [`EmbeddedStore`] (`store.rs`), `head.rs` (intake), `flusher.rs` (disk writes),
//! `manifest`, `opening.rs`. Format: `docs/internals/store.md`.

mod catalog;
pub mod columns;
mod deletion;
mod files;
mod flusher;
mod hash;
mod head;
mod log_store;
mod manifest;
mod merge;
mod opening;
mod requests;
mod rewrite;
pub mod scan;
pub mod segment;
pub mod sidecar;
pub mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod threads;
mod verify;

pub use head::Upstream;
pub use log_store::{Explorer, Snapshots};
pub use manifest::ManifestError;
pub use store::{EmbeddedStore, StoreConfig};
pub use verify::{Fault, Verified, bytes_to_verify, verify};
