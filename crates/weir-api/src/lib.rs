//! The HTTP API of a running weir: metrics, health, the ledger, the status that `weir top` shows,
//! live tails, and searches of the store.
//!
//! Invariants: the only requests that change anything are deletions in the store, changes to drains
//! and saved views, and drops of cursors (POST is otherwise used for queries that are too long for
//! a URL); the API has its own thread, so it responds while a pipeline is stuck and cannot slow it
//! down, and separate threads for searching; requests, connections and their time are bounded; each
//! route states who may use it; an error is `application/problem+json`, on Datadog's paths together
//! with their `errors`.
#![forbid(unsafe_code)]

mod absence;
mod access;
mod compression;
mod cursors;
mod drains;
mod explore;
mod gathering;
mod guard;
mod journal;
mod ledger;
mod loggregator;
mod metrics;
mod openapi;
mod page;
mod problem;
mod readers;
mod reliability;
mod response;
mod routes;
mod rules;
mod server;
mod state;
mod status;
mod stream;
mod tail;
mod topology;
mod views;

pub use access::ApiAccess;
pub use access::session::SessionDocument;
pub use access::tokens::{AccessSettings, UaaClient, UaaSettings};
pub use cursors::DroppedCursor;
pub use drains::{
    DrainChange, DrainCounts, DrainEntry, DrainProviderEntry, DrainsDocument, NewDrain,
};
pub use explore::{
    AggregateAnswer, AggregateBucket, AggregateData, AnswerMeta, ContextAnswer, DEADLINE_MAX,
    DeletionAnswer, DeletionEntry, DeletionsAnswer, FacetEntry, FacetsAnswer, FieldEntry,
    FieldsAnswer, HopKind, HopState, Links, LogAttributes, LogDetails, LogEntry, NextPage,
    PathAnswer, PathHop, PatternEntry, PatternsAnswer, QueryLimits, ScanMeta, SearchAnswer,
    StoreColumn, StoreDocument, StoreService, TimeOf, ValueEntry, ValuesAnswer, Warning,
    nested_attributes, resource_tags,
};
pub use journal::{JournalEntry, LostRecordsEntry, RecoveryEntry};
pub use ledger::{
    ApplicationLimitEntry, ByReason, CursorCounts, CursorEntry, FileBytes, LedgerDocument,
    LimitedEntry, LimitedKeyEntry, RateLimitEntry, SourceCounts, SourceEntry,
};
pub use loggregator::{HealthOf, HealthSettings, ReaderServiceSettings, ReaderServices};
pub use metrics::{FAMILIES, FamilyInfo, FamilyType};
pub use openapi::openapi;
pub use readers::{ReaderEntry, ReadersEntry};
pub use reliability::{
    ComponentKind, DeliveryCounts, ReliabilityDocument, ReliabilityEntry, StepEntry, StepsDocument,
    Window, WindowEntry,
};
pub use rules::{RuleEntry, RulesDocument};
pub use server::{Api, ApiSettings};
pub use status::{OutputStatus, SourceStatus, StatusDocument};
pub use views::{NewView, RunQuery, SavedView, ViewsDocument};
