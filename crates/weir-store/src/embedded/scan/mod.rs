//! Answers questions from a snapshot.
//!
//! A query becomes a [`plan`]; units (row groups, chunks of the head) are shared out over threads
//! ([`run`]); of each unit the pages that may match are found ([`prune`]); on each page the query
//! is evaluated column by column ([`eval`]) and a sink takes the rows: [`search`], [`aggregate`].
//!
//! Invariant: the answer is the one of [`crate::query::naive`] on the same records, whatever is
//! pruned, and wherever the records are.

mod column;
mod eval;
mod fields;
mod number;
mod page;
mod plan;
mod prune;
mod row_set;
mod run;
mod search;
mod sources;
mod unit;

pub use fields::fields;
pub use search::search;
