//! Answers queries from a snapshot.
//!
//! A query becomes a [`plan`]; units (row groups, chunks of the head) are distributed over threads
//! ([`run`]); in each unit the pages that may match are determined ([`prune`]); on each page the
//! query is evaluated column by column ([`eval`]), and a sink takes the rows: [`search()`],
//! [`aggregate()`], [`facets()`], [`context()`], [`patterns()`].
//!
//! Invariant: the answer is that of [`crate::query::naive`] on the same records, whatever is pruned
//! and wherever the records are stored.

mod accumulator;
mod aggregate;
mod clusters;
mod column;
mod context;
mod deleted_rows;
mod eval;
mod facets;
mod fields;
mod group;
mod number;
mod page;
mod patterns;
mod plan;
mod prune;
mod received;
mod row_set;
mod run;
mod search;
mod services;
mod sketch;
mod sources;
mod tags;
mod unit;
mod words;

pub use aggregate::aggregate;
pub use context::context;
pub(in crate::embedded) use deleted_rows::{DeletedRows, find_deleted_rows};
pub use facets::facets;
pub use fields::fields;
pub use patterns::patterns;
pub use received::received;
pub use search::search;
pub use services::{SpanCache, services};
