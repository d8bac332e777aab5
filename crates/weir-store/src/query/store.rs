//! What every engine does.

use std::time::Duration;

use weir_expr::{Expr, NamedMeasure};
use weir_model::RecordFlags;

use super::answer::{Aggregate, Facets, FieldList, Patterns, RecordContext, SearchPage};
use super::budget::Budget;
use super::error::{CancelError, DeleteError, QueryError};
use super::request::{
    Access, AggregateRequest, ContextRequest, FacetsRequest, PatternsRequest, SearchRequest,
    TimeRange,
};

/// A store that can be asked. All calls block: they are made from threads that may wait.
pub trait LogStore: Send + Sync + std::fmt::Debug {
    /// A page of records.
    ///
    /// # Errors
    /// See [`QueryError`]; an answer that is cut short by the budget is not an error.
    fn search(&self, request: &SearchRequest, budget: &Budget) -> Result<SearchPage, QueryError>;

    /// Attributes that are computed for every question, behind those of the question.
    fn measures(&self) -> &[NamedMeasure];

    /// Attributes that are computed for a question that has such measures of its own.
    fn measures_with(&self, own: &[NamedMeasure]) -> Vec<NamedMeasure> {
        NamedMeasure::together(own.iter().chain(self.measures()).cloned())
    }

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
    /// As [`Self::search`]; [`QueryError::Unfound`] when it may be where nobody could look.
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

    /// The fields of records, with their most common values.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn facets(&self, request: &FacetsRequest, budget: &Budget) -> Result<Facets, QueryError>;

    /// Fields of records of the range that may be seen, the most common first.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn fields(
        &self,
        range: TimeRange,
        access: &Access,
        budget: &Budget,
    ) -> Result<FieldList, QueryError>;

    /// What is stored and what it takes.
    fn report(&self) -> StoreReport;

    /// What it does; cheap enough to be asked every few seconds.
    fn figures(&self) -> StoreFigures;

    /// Hides the records of the range that the query describes and that may be seen, of those that
    /// were received before, and deletes them in the background. Returns the number of the
    /// deletion once it is durable, within `timeout`.
    ///
    /// # Errors
    /// See [`DeleteError`].
    fn delete(
        &self,
        query: &Expr,
        range: TimeRange,
        access: &Access,
        timeout: Duration,
    ) -> Result<u64, DeleteError>;

    /// What was asked to be deleted, the latest first, with what became of it.
    fn deletions(&self, access: &Access) -> Vec<DeletionReport>;

    /// Ends a deletion that is not done: what it has not removed yet is shown again, as soon as
    /// that is durable, within `timeout`. One that was cancelled before stays so. Only for those
    /// who may see everything.
    ///
    /// # Errors
    /// See [`CancelError`].
    fn cancel_deletion(
        &self,
        id: u64,
        access: &Access,
        timeout: Duration,
    ) -> Result<DeletionReport, CancelError>;
}

/// What a store does, in figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreFigures {
    /// Records in segments.
    pub rows: u64,
    /// Records in memory.
    pub head_rows: u64,
    /// Memory of those.
    pub head_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of segments and sidecars.
    pub disk_bytes: u64,
    /// Bytes of the records in segments as they came in.
    pub raw_bytes: u64,
    /// Records taken in since start.
    pub taken_rows: u64,
    /// Of these, those that were stored already.
    pub skipped_rows: u64,
    /// Of these, those that were not what they look like.
    pub unparsed: UnparsedRows,
    /// Bytes of records that were made into segments since start, as they came in.
    pub flushed_bytes: u64,
    /// Chunks that were made into segments since start.
    pub flushes: u64,
    /// Time that took.
    pub flush_seconds: f64,
    /// Merges since start.
    pub merges: u64,
    /// Time that they took.
    pub merge_seconds: f64,
    /// CPU time of the thread that takes in.
    pub intake_cpu_seconds: f64,
    /// CPU time of the thread that writes, merges and deletes.
    pub flush_cpu_seconds: f64,
    /// Attempts that failed since start.
    pub failures: u64,
    /// What is wrong at present.
    pub error: Option<String>,
    /// Nothing is taken in at present, because the head is full.
    pub is_full: bool,
    /// It still takes in what was received before it started.
    pub is_catching_up: bool,
    /// Segments that cannot be read, and why.
    pub damaged: Vec<String>,
    /// Segments that retention removed since the store began.
    pub retired_segments: u64,
    /// Their records.
    pub retired_rows: u64,
    /// Their bytes on disk.
    pub retired_bytes: u64,
    /// Records that were deleted on request since the store began.
    pub deleted_rows: u64,
    /// Deletions that are not done yet: their records are hidden, and still in files.
    pub deletions_pending: u64,
}

/// Records that are stored as they stand, because they are not what they look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnparsedRows {
    /// `{...}` that is no JSON object.
    pub json: u64,
    /// No `key=value` pairs where the source says so.
    pub logfmt: u64,
    /// In another format than that of their source.
    pub format: u64,
}

impl UnparsedRows {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.json + self.logfmt + self.format
    }

    /// Counts a record whose body was not parsed, if one would think that it can be.
    pub(crate) fn count(&mut self, flags: RecordFlags, body: &[u8]) {
        let looks_like_json = matches!(body.trim_ascii(), [b'{', .., b'}']);
        self.json += u64::from(looks_like_json);
        if !looks_like_json {
            self.logfmt += u64::from(flags.contains(RecordFlags::LOGFMT));
            self.format += u64::from(flags.contains(RecordFlags::MALFORMED));
        }
    }
}

/// What became of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionReport {
    /// Its number.
    pub id: u64,
    /// What was to be deleted; forgotten once it is done, since it may be what was to be deleted.
    pub query: Option<String>,
    /// Of which time.
    pub range: TimeRange,
    /// When it was asked for, nanoseconds since 1970.
    pub requested_ns: i64,
    /// When the last of the records was gone from the disk, or it was cancelled, nanoseconds since
    /// 1970.
    pub done_ns: Option<i64>,
    /// It was cancelled: what it had not removed by then is shown again.
    pub is_cancelled: bool,
    /// Records that are gone from the disk.
    pub rows: u64,
    /// Segments that may still have such records, which are hidden.
    pub segments_left: u64,
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
    /// Records since start that were not what they look like.
    pub unparsed: UnparsedRows,
    /// The store has taken in what was received before it started.
    pub has_caught_up: bool,
    /// Segments that are damaged and were set aside.
    pub damaged: Vec<String>,
    /// Records by service, most first.
    pub services: Vec<ClassReport>,
    /// Columns, the largest first.
    pub columns: Vec<ColumnReport>,
}
