//! Answering queries: [`snapshot`] (what a query sees), [`scan`] (how it is searched) and `engine`
//! (the common query interface).
//!
//! Invariant: nothing here changes what is stored.

pub(super) mod engine;
pub mod scan;
pub mod snapshot;
