//! The interface that every engine implements.

use std::time::Duration;

use weir_expr::{CalculatedField, Units};
use weir_model::RecordFlags;

use super::answer::{Aggregate, Facets, FieldList, Patterns, RecordContext, SearchPage, Services};
use super::budget::Budget;
use super::error::{CancelError, DeleteError, QueryError};
use super::request::{
    Access, AggregateRequest, ContextRequest, DeletionRequest, FacetsRequest, PatternsRequest,
    ReceivedRequest, SearchRequest, ServicesRequest, TimeRange,
};

/// A store that can be queried. All calls block, so call them only from threads that may wait.
pub trait LogStore: Send + Sync + std::fmt::Debug {
    /// Returns a page of records.
    ///
    /// # Errors
    /// See [`QueryError`]; a result that is cut short by the budget is not an error.
    fn search(&self, request: &SearchRequest, budget: &Budget) -> Result<SearchPage, QueryError>;

    /// Returns a page of records with the bytes in which they were received; those that have them
    /// have no attributes.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn received(
        &self,
        request: &ReceivedRequest,
        budget: &Budget,
    ) -> Result<SearchPage, QueryError>;

    /// Returns the services of which records are stored.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn services(&self, request: &ServicesRequest, budget: &Budget) -> Result<Services, QueryError>;

    /// Returns the fields that are calculated for every query; those of the query take precedence.
    fn calculated_fields(&self) -> &[CalculatedField];

    /// Returns the fields that are calculated for a query that has calculated fields of its own.
    fn calculated_fields_with(&self, own: &[CalculatedField]) -> Vec<CalculatedField> {
        let all = own.iter().chain(self.calculated_fields()).cloned();
        CalculatedField::resolve_units(all, self.units())
    }

    /// Returns the units of attributes, for every query.
    fn units(&self) -> &Units;

    /// Returns aggregates of groups of records.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn aggregate(
        &self,
        request: &AggregateRequest,
        budget: &Budget,
    ) -> Result<Aggregate, QueryError>;

    /// Returns the records around a given one; `None` when there is no such record, or it may not
    /// be seen.
    ///
    /// # Errors
    /// As [`Self::search`]; [`QueryError::Inconclusive`] when it may be in a part that could not be
    /// searched.
    fn context(
        &self,
        request: &ContextRequest,
        budget: &Budget,
    ) -> Result<Option<RecordContext>, QueryError>;

    /// Returns the patterns of messages.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn patterns(&self, request: &PatternsRequest, budget: &Budget) -> Result<Patterns, QueryError>;

    /// Returns the fields of records, with their most common values.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn facets(&self, request: &FacetsRequest, budget: &Budget) -> Result<Facets, QueryError>;

    /// Returns the fields of the visible records in the range, the most common first.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn fields(
        &self,
        range: TimeRange,
        access: &Access,
        budget: &Budget,
    ) -> Result<FieldList, QueryError>;

    /// Returns what is stored and how much space it uses.
    fn report(&self) -> StoreReport;

    /// Returns the metrics of the store; cheap enough to be called every few seconds.
    fn metrics(&self) -> StoreMetrics;

    /// Hides the requested records, among those received so far, and deletes them in the
    /// background. Returns the number of the deletion once it is durable, within `timeout`.
    ///
    /// # Errors
    /// See [`DeleteError`].
    fn delete(&self, request: &DeletionRequest, timeout: Duration) -> Result<u64, DeleteError>;

    /// Returns the requested deletions with their state, latest first.
    fn deletions(&self, access: &Access) -> Vec<DeletionReport>;

    /// Cancels a deletion that is not done: what it has not removed yet becomes visible again as
    /// soon as the cancellation is durable, within `timeout`. Cancelling again has no effect.
    /// Requires access to all records.
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

/// Metrics of a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreMetrics {
    /// Records in segments.
    pub rows: u64,
    /// Records in memory.
    pub head_rows: u64,
    /// Memory used by those.
    pub head_bytes: u64,
    /// Number of segments.
    pub segments: u64,
    /// Size of segments and sidecars, in bytes.
    pub disk_bytes: u64,
    /// Size of the records in segments as received, in bytes.
    pub raw_bytes: u64,
    /// Records taken in since start.
    pub received_rows: u64,
    /// Of these, records that were already stored.
    pub skipped_rows: u64,
    /// Of these, records that could not be parsed as what they look like.
    pub unparsed: UnparsedRows,
    /// Size, as received, of the records that were written to segments since start.
    pub flushed_bytes: u64,
    /// Chunks that were written as segments since start.
    pub flushes: u64,
    /// Time spent on that.
    pub flush_seconds: f64,
    /// Merges since start.
    pub merges: u64,
    /// Time spent on merges.
    pub merge_seconds: f64,
    /// CPU time of the intake thread.
    pub intake_cpu_seconds: f64,
    /// CPU time of the thread that writes, merges and deletes.
    pub flush_cpu_seconds: f64,
    /// Failed attempts since start.
    pub failures: u64,
    /// The current error.
    pub error: Option<String>,
    /// Nothing is taken in at the moment, because the head is full.
    pub is_full: bool,
    /// It is still taking in what the journal and the sources had when weir started.
    pub is_catching_up: bool,
    /// Segments that cannot be read, with the reason.
    pub damaged: Vec<String>,
    /// Segments removed by retention since the store was created.
    pub retired_segments: u64,
    /// Records in those.
    pub retired_rows: u64,
    /// Disk space that those used.
    pub retired_bytes: u64,
    /// Records deleted on request since the store was created.
    pub deleted_rows: u64,
    /// Deletions that are not done: their records are hidden, but still in files.
    pub deletions_pending: u64,
}

/// Records that are stored unparsed, because they are not what they look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnparsedRows {
    /// `{...}` that is not a JSON object.
    pub json: u64,
    /// No `key=value` pairs although the source is declared as logfmt.
    pub logfmt: u64,
    /// Not in the declared format of their source.
    pub format: u64,
}

impl UnparsedRows {
    /// Returns the total.
    pub fn total(&self) -> u64 {
        self.json + self.logfmt + self.format
    }

    /// Counts a record whose body was not parsed, if it looks as if it could be.
    pub(crate) fn count(&mut self, flags: RecordFlags, body: &[u8]) {
        let looks_like_json = matches!(body.trim_ascii(), [b'{', .., b'}']);
        self.json += u64::from(looks_like_json);
        if !looks_like_json {
            self.logfmt += u64::from(flags.contains(RecordFlags::LOGFMT));
            self.format += u64::from(flags.contains(RecordFlags::MALFORMED));
        }
    }
}

/// The state of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionReport {
    /// Its number.
    pub id: u64,
    /// The query; removed once the deletion is done, because it may contain the deleted data.
    pub query: Option<String>,
    /// The time range of the deleted records.
    pub range: TimeRange,
    /// When it was requested, nanoseconds since 1970.
    pub requested_ns: i64,
    /// When the last record was removed from disk or the deletion was cancelled, nanoseconds since
    /// 1970.
    pub done_ns: Option<i64>,
    /// It was cancelled: what it had not removed by then is visible again.
    pub is_cancelled: bool,
    /// Number of records removed from disk.
    pub rows: u64,
    /// Segments that may still have such records, which are hidden.
    pub segments_left: u64,
}

/// What is stored for one service, and its size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceReport {
    /// The service; empty = records without one.
    pub name: String,
    /// Number of records.
    pub rows: u64,
}

/// The disk space used by a column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnReport {
    /// Its name in the files.
    pub name: String,
    /// Compressed size in bytes.
    pub packed_bytes: u64,
    /// Uncompressed size in bytes.
    pub plain_bytes: u64,
}

/// The content of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreReport {
    /// Number of segments.
    pub segments: u64,
    /// Records in segments.
    pub rows: u64,
    /// Records that are not in a segment yet.
    pub head_rows: u64,
    /// Memory used by those.
    pub head_bytes: u64,
    /// Size of the records in segments as received, in bytes.
    pub raw_bytes: u64,
    /// Size of the segments, in bytes.
    pub segment_bytes: u64,
    /// Size of the sidecars, in bytes.
    pub sidecar_bytes: u64,
    /// Time of the earliest record in a segment, nanoseconds since 1970.
    pub first_time_ns: Option<i64>,
    /// Time of the latest record in a segment, nanoseconds since 1970.
    pub last_time_ns: Option<i64>,
    /// Records since start that could not be parsed as what they look like.
    pub unparsed: UnparsedRows,
    /// The store has taken in everything that the journal and the sources had when weir started.
    pub has_caught_up: bool,
    /// Segments that are damaged and were set aside.
    pub damaged: Vec<String>,
    /// Records by service, the largest first.
    pub services: Vec<ServiceReport>,
    /// Columns, the largest first.
    pub columns: Vec<ColumnReport>,
}
