//! What a running weir says over HTTP: metrics, health, the ledger, the figures that `weir top`
//! shows, and records as they come in.
//!
//! Invariants: nothing here changes anything (only GET and HEAD are answered); the API has a
//! thread of its own, so it answers while a pipeline is stuck and cannot slow one down; requests,
//! connections and their time are bounded; an error is `application/problem+json`.
#![forbid(unsafe_code)]

mod ledger;
mod metrics;
mod problem;
mod routes;
mod rules;
mod server;
mod status;
mod tail;

pub use ledger::{
    ByReason, CursorCounts, CursorEntry, FileBytes, LedgerDocument, SourceCounts, SourceEntry,
};
pub use metrics::{FAMILIES, FamilyInfo, FamilyType};
pub use rules::{RuleEntry, RulesDocument};
pub use server::Api;
pub use status::{OutputStatus, SourceStatus, StatusDocument};
