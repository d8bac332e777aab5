//! The store that is built in.
//!
//! Records go from the journal into the head ([`columns`]), which queries read while it grows,
//! and from there into segments ([`segment`], [`sidecar`]) that are never changed. Invariants: a
//! record is stored exactly once; what a query sees is one moment ([`snapshot`]); the manifest is
//! the only truth of what is stored.
//!
//! Reading order: [`EmbeddedStore`] (`store.rs`), `head.rs` (what is taken in), `flusher.rs`
//! (what is done to the disk), `manifest`, `opening.rs`. Format: `docs/internals/store.md`.

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
