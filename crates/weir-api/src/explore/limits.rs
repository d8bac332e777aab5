//! Every bound of searching over HTTP, with its reason.
//!
//! Invariant: what is not in [`QueryLimits`] is the same for everybody.

use std::time::Duration;

/// Longest body of a request: sixteen of the longest expressions.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Longest wait for the whole body of a request: the longest over a line of 300 kbit/s. Who sends
/// it byte by byte, or not to its end, holds a connection for no longer.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Most records of a page. Clients know this number.
pub(super) const PAGE_RECORDS_MAX: usize = 1000;

/// Most records that an export reads at once: a page of the store's columns. Each is decoded whole,
/// however few of its rows are wanted.
pub(super) const EXPORT_RECORDS_MAX: usize = weir_store::limits::PAGE_ROWS;

/// Memory of the records that an export reads at once, about: what it has beside the text of two
/// pages.
pub(super) const EXPORT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Records of a page, unless asked otherwise. Clients know this number.
pub(super) const PAGE_RECORDS: usize = 10;

/// Most values of one field of a group. Clients know this number.
pub(super) const GROUP_VALUES_MAX: usize = 10_000;

/// Values of one field of a group, unless asked otherwise. Clients know this number.
pub(super) const GROUP_VALUES: usize = 10;

/// Fields of a group: groups are the product of their values.
pub(super) const GROUP_FIELDS_MAX: usize = 4;

/// Steps of a histogram of values. Clients know this number.
pub(super) const HISTOGRAM_STEPS_MAX: f64 = 100.0;

/// Figures of one question.
pub(super) const COMPUTES_MAX: usize = 32;

/// Groups of a page of figures. Clients know this number.
pub(super) const PAGE_BUCKETS: usize = 1000;

/// Points of a series, unless asked otherwise. Clients know this number.
pub(super) const SERIES_POINTS: usize = 150;

/// Most points of a series: a pixel each on the widest screen.
pub(super) const SERIES_POINTS_MAX: usize = 10_000;

/// Computed attributes of one question.
pub(super) const MEASURES_MAX: usize = 32;

/// Values or fields of a completion.
pub(super) const COMPLETIONS_MAX: usize = 1000;

/// The same, unless asked otherwise.
pub(super) const COMPLETIONS: usize = 20;

/// Fields with their values.
pub(super) const FACETS_MAX: usize = weir_store::limits::FACET_FIELDS_MAX;

/// The same, unless asked otherwise.
pub(super) const FACETS: usize = 20;

/// Values of each of them: an answer has the product of both.
pub(super) const FACET_VALUES_MAX: usize = 100;

/// The same, unless asked otherwise.
pub(super) const FACET_VALUES: usize = 5;

/// Records on each side of one.
pub(super) const CONTEXT_RECORDS_MAX: usize = 1000;

/// The same, unless asked otherwise.
pub(super) const CONTEXT_RECORDS: usize = 50;

/// Patterns of one question.
pub(super) const PATTERNS_MAX: usize = 1000;

/// The same, unless asked otherwise.
pub(super) const PATTERNS: usize = 50;

/// How long a question may take at most: a worker is its own for that time.
pub const DEADLINE_MAX: Duration = Duration::from_mins(1);

/// How long an end waits for questions that were told that nobody waits for them. They look every
/// few milliseconds.
pub(super) const STOP_MAX: Duration = Duration::from_secs(2);

/// How long a deletion may take to become durable: the head is flushed before.
pub(super) const DELETE_TIMEOUT: Duration = Duration::from_secs(20);

/// Workers per processor: while one reads from disk another computes.
const WORKERS_PER_CORE: usize = 2;

/// Bounds of searching and following that the configuration may change (`[api.queries]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Questions that run at once.
    pub workers: usize,
    /// Questions that may wait. More than people ask; programs that ask more are told to slow down.
    pub waiting_max: usize,
    /// How long one may wait; also how long the queue must stand to count as standing.
    pub wait_max: Duration,
    /// How long a question may take unless it says otherwise: what people wait for.
    pub deadline: Duration,
    /// Memory of one question, for what is gathered.
    pub query_bytes_max: usize,
    /// Live tails that are served at once.
    pub tails_max: usize,
}

impl QueryLimits {
    /// How long a question may wait while the queue stands: then it is not a burst but more than
    /// can be answered, and waiting longer helps nobody.
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
