//! What every engine does.

use super::answer::{Aggregate, FieldInfo, Patterns, RecordContext, SearchPage};
use super::budget::Budget;
use super::error::QueryError;
use super::request::{
    Access, AggregateRequest, ContextRequest, PatternsRequest, SearchRequest, TimeRange,
};

/// A store that can be asked. All calls block: they are made from threads that may wait.
pub trait LogStore: Send + Sync + std::fmt::Debug {
    /// A page of records.
    ///
    /// # Errors
    /// See [`QueryError`]; an answer that is cut short by the budget is not an error.
    fn search(&self, request: &SearchRequest, budget: &Budget) -> Result<SearchPage, QueryError>;

    /// Figures of groups of records.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn aggregate(
        &self,
        request: &AggregateRequest,
        budget: &Budget,
    ) -> Result<Aggregate, QueryError>;

    /// The records around one; `None` when there is no such record, or it may not be seen.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn context(
        &self,
        request: &ContextRequest,
        budget: &Budget,
    ) -> Result<Option<RecordContext>, QueryError>;

    /// Messages by what they have in common.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn patterns(&self, request: &PatternsRequest, budget: &Budget) -> Result<Patterns, QueryError>;

    /// Fields of records of the range that may be seen, the most common first.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn fields(
        &self,
        range: TimeRange,
        access: &Access,
        budget: &Budget,
    ) -> Result<Vec<FieldInfo>, QueryError>;

    /// What is stored and what it takes.
    fn report(&self) -> StoreReport;
}

/// What is stored under one name, and what it takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassReport {
    /// The service; empty = records without one.
    pub name: String,
    /// Records.
    pub rows: u64,
}

/// What a column takes on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnReport {
    /// Its name in the files.
    pub name: String,
    /// Bytes on disk.
    pub packed_bytes: u64,
    /// Bytes when decompressed.
    pub plain_bytes: u64,
}

/// What a store holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreReport {
    /// Segments.
    pub segments: u64,
    /// Records in segments.
    pub rows: u64,
    /// Records that are not in a segment yet.
    pub head_rows: u64,
    /// Memory of those.
    pub head_bytes: u64,
    /// Bytes of the records in segments as they came in.
    pub raw_bytes: u64,
    /// Bytes of the segments.
    pub segment_bytes: u64,
    /// Bytes of the sidecars.
    pub sidecar_bytes: u64,
    /// Time of the earliest record in a segment, nanoseconds since 1970.
    pub first_time_ns: Option<i64>,
    /// Time of the latest record in a segment, nanoseconds since 1970.
    pub last_time_ns: Option<i64>,
    /// The store has taken in what was received before it started.
    pub has_caught_up: bool,
    /// Segments that are damaged and were set aside.
    pub damaged: Vec<String>,
    /// Records by service, most first.
    pub services: Vec<ClassReport>,
    /// Columns, the largest first.
    pub columns: Vec<ColumnReport>,
}
