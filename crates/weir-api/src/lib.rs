//! What a running weir says over HTTP: metrics, health, the ledger, the figures that `weir top`
//! shows, records as they come in, and records that are stored.
//!
//! Invariants: nothing here changes anything but what the store is asked to delete (POST otherwise
//! asks questions that are too long for an address); the API has a thread of its own, so it answers while a pipeline is stuck and cannot
//! slow one down, and threads of their own for searching; requests, connections and their time
//! are bounded; an error is `application/problem+json`, on Datadog's paths with their `errors`.
#![forbid(unsafe_code)]

mod compression;
mod explore;
mod guard;
mod ledger;
mod metrics;
mod openapi;
mod problem;
mod routes;
mod rules;
mod server;
mod status;
mod stream;
mod tail;

pub use explore::{
    AggregateAnswer, AggregateBucket, AggregateData, AnswerMeta, ContextAnswer, DEADLINE_MAX,
    DeletionAnswer, DeletionEntry, DeletionsAnswer, FacetEntry, FacetsAnswer, FieldEntry,
    FieldsAnswer, Links, LogAttributes, LogDetails, LogEntry, NextPage, PatternEntry,
    PatternsAnswer, QueryLimits, ScanMeta, SearchAnswer, StoreColumn, StoreDocument, StoreService,
    ValueEntry, ValuesAnswer, Warning, nested_attributes, resource_tags,
};
pub use ledger::{
    ByReason, CursorCounts, CursorEntry, FileBytes, LedgerDocument, SourceCounts, SourceEntry,
};
pub use metrics::{FAMILIES, FamilyInfo, FamilyType};
pub use openapi::openapi;
pub use rules::{RuleEntry, RulesDocument};
pub use server::Api;
pub use status::{OutputStatus, SourceStatus, StatusDocument};
