//! All limits of searching over HTTP, with their reasons.
//!
//! Invariant: limits that are not in [`QueryLimits`] are fixed.

use std::time::Duration;

/// Maximum body of a request: enough for sixteen of the longest expressions.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Maximum wait for the whole body of a request: enough for the longest body over a line of 300
/// kbit/s. A client that sends it byte by byte, or incompletely, holds a connection no longer than
/// this.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of records per page, as known to Datadog's clients.
pub(super) const PAGE_RECORDS_MAX: usize = 1000;

/// Maximum number of records that an export reads at once: one page of the store's columns. Each
/// page is decoded as a whole, however few of its rows are needed.
pub(super) const EXPORT_RECORDS_MAX: usize = weir_store::limits::PAGE_ROWS;

/// Approximate memory for the records that an export reads at once, in addition to the text of two
/// pages.
pub(super) const EXPORT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Default number of records per page, as known to Datadog's clients.
pub(super) const PAGE_RECORDS: usize = 10;

/// Maximum number of values per group field, as known to Datadog's clients.
pub(super) const GROUP_VALUES_MAX: usize = 10_000;

/// Default number of values per group field, as known to Datadog's clients.
pub(super) const GROUP_VALUES: usize = 10;

/// Maximum number of group fields: groups are the product of their values.
pub(super) const GROUP_FIELDS_MAX: usize = 4;

/// Maximum number of ranges in a histogram of values, as known to Datadog's clients.
pub(super) const HISTOGRAM_STEPS_MAX: f64 = 100.0;

/// Maximum number of aggregates per query.
pub(super) const COMPUTES_MAX: usize = 32;

/// Groups per page of aggregates, as known to Datadog's clients.
pub(super) const PAGE_BUCKETS: usize = 1000;

/// Default number of points of a series, as known to Datadog's clients.
pub(super) const SERIES_POINTS: usize = 150;

/// Maximum number of points of a series: one pixel each on the widest screen.
pub(super) const SERIES_POINTS_MAX: usize = 10_000;

/// Maximum number of calculated fields per query.
pub(super) const CALCULATED_FIELDS_MAX: usize = 32;

/// Maximum number of values or fields of a completion.
pub(super) const COMPLETIONS_MAX: usize = 1000;

/// Default number of values or fields of a completion.
pub(super) const COMPLETIONS: usize = 20;

/// Maximum number of facets.
pub(super) const FACETS_MAX: usize = weir_store::limits::FACET_FIELDS_MAX;

/// Default number of facets.
pub(super) const FACETS: usize = 20;

/// Maximum number of values per facet: an answer can contain the product of both.
pub(super) const FACET_VALUES_MAX: usize = 100;

/// Default number of values per facet.
pub(super) const FACET_VALUES: usize = 5;

/// Maximum number of records before and after a record.
pub(super) const CONTEXT_RECORDS_MAX: usize = 1000;

/// Default number of records before and after a record.
pub(super) const CONTEXT_RECORDS: usize = 50;

/// Maximum number of patterns.
pub(super) const PATTERNS_MAX: usize = 1000;

/// Default number of patterns.
pub(super) const PATTERNS: usize = 50;

/// Maximum deadline of a query, which occupies a worker for that time.
pub const DEADLINE_MAX: Duration = Duration::from_mins(1);

/// How long the shutdown waits for cancelled queries. They check for cancellation every few
/// milliseconds.
pub(super) const STOP_MAX: Duration = Duration::from_secs(2);

/// How long a query may run before it counts as long: queries of indexed fields and short ranges
/// need a few milliseconds of CPU time, also while others use the same processors.
pub(super) const SHORT_QUERY_TIME_MAX: Duration = Duration::from_millis(25);

/// One of so many slots is for short queries only; at least one if there are two.
pub(super) const SLOTS_PER_SHORT_SLOT: usize = 4;

/// Queries that may be paused, for each slot. Each of them occupies a thread and some memory.
pub(super) const PAUSED_PER_SLOT: usize = 4;

/// How often a paused query checks its deadline and whether its sender has left.
pub(super) const PAUSE_CHECK: Duration = Duration::from_millis(10);

/// How long a deletion may take to become durable: the head is flushed first.
pub(super) const DELETE_TIMEOUT: Duration = Duration::from_secs(20);

/// Workers per processor: while one reads from disk another computes.
const WORKERS_PER_CORE: usize = 2;

/// Limits of searches and live tails that can be configured (`[api.queries]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Number of queries that run at once.
    pub workers: usize,
    /// Number of queries that may wait. It is more than interactive use needs; programs that send
    /// more are told to slow down.
    pub waiting_max: usize,
    /// How long a query may wait; also how long the queue must not be empty to count as overload.
    pub wait_max: Duration,
    /// Default deadline of a query: how long a person is willing to wait.
    pub deadline: Duration,
    /// Memory limit of a query for intermediate results. Paused queries together keep at most half
    /// as much as those that run: [`Self::paused_bytes_max`].
    pub query_bytes_max: usize,
    /// Maximum number of live tails.
    pub tails_max: usize,
}

impl QueryLimits {
    /// Maximum memory of all paused queries together.
    pub fn paused_bytes_max(&self) -> usize {
        self.query_bytes_max.saturating_mul(self.workers).div_ceil(2)
    }

    /// How long a query may wait during overload: then it is not a burst, so waiting longer does
    /// not help.
    pub(super) fn wait_target(&self) -> Duration {
        self.wait_max / 10
    }
}

impl Default for QueryLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            workers: cores * WORKERS_PER_CORE,
            waiting_max: 64,
            wait_max: Duration::from_secs(1),
            deadline: Duration::from_millis(1500),
            query_bytes_max: 32 * 1024 * 1024,
            tails_max: 64,
        }
    }
}
