//! Statistics of queries: cost and outcomes, counted here and shown in `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_store::query::ScanStats;

/// The kind of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// A page of records.
    Search,
    /// Aggregates of groups.
    Aggregate,
    /// Fields and values.
    Complete,
    /// The context of a record.
    Context,
    /// Common patterns of messages.
    Patterns,
    /// One part of an export.
    Export,
    /// A deletion of records.
    Delete,
}

impl QueryKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 7] = [
        Self::Search,
        Self::Aggregate,
        Self::Complete,
        Self::Context,
        Self::Patterns,
        Self::Export,
        Self::Delete,
    ];

    /// The name in a label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Aggregate => "aggregate",
            Self::Complete => "complete",
            Self::Context => "context",
            Self::Patterns => "patterns",
            Self::Export => "export",
            Self::Delete => "delete",
        }
    }
}

/// The outcome of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A complete answer.
    Complete,
    /// A partial answer.
    Partial,
    /// Too many queries were already waiting.
    RefusedFull,
    /// It waited too long.
    RefusedLate,
    /// The sender has left.
    Cancelled,
    /// It failed.
    Failed,
}

impl Outcome {
    /// All outcomes.
    pub(crate) const ALL: [Self; 6] = [
        Self::Complete,
        Self::Partial,
        Self::RefusedFull,
        Self::RefusedLate,
        Self::Cancelled,
        Self::Failed,
    ];

    /// The name in a label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::RefusedFull => "refused_full",
            Self::RefusedLate => "refused_late",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// Upper bounds of the time buckets, seconds.
pub(crate) const TIME_BUCKETS_SECONDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A histogram of times.
#[derive(Debug, Default)]
pub(crate) struct DurationHistogram {
    /// Counts by bucket; the last one is for times above all bounds.
    counts: [AtomicU64; TIME_BUCKETS_SECONDS.len() + 1],
    sum_ns: AtomicU64,
}

impl DurationHistogram {
    /// Adds a time.
    pub(crate) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = TIME_BUCKETS_SECONDS.partition_point(|end| *end < seconds);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns how many times are at most as long as each of [`TIME_BUCKETS_SECONDS`], the total
    /// number, and the sum in nanoseconds.
    pub(crate) fn read(&self) -> ([u64; TIME_BUCKETS_SECONDS.len()], u64, u64) {
        let mut below = [0; TIME_BUCKETS_SECONDS.len()];
        let mut total = 0;
        for (index, count) in self.counts.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            if let Some(below) = below.get_mut(index) {
                *below = total;
            }
        }
        (below, total, self.sum_ns.load(Ordering::Relaxed))
    }

    /// The mean; `None` if there are no times.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let (_, count, sum_ns) = self.read();
        sum_ns.checked_div(count).map(Duration::from_nanos)
    }
}

/// Cost and outcomes of all queries.
#[derive(Debug, Default)]
pub(crate) struct QueryMetrics {
    outcomes: [[AtomicU64; Outcome::ALL.len()]; QueryKind::ALL.len()],
    /// From the arrival of a query to its start.
    pub(crate) queueing: DurationHistogram,
    /// From its start to its response.
    pub(crate) service: DurationHistogram,
    /// Rows that were scanned.
    pub(crate) scanned_rows: AtomicU64,
    /// Bytes that were decompressed.
    pub(crate) scanned_bytes: AtomicU64,
    /// Pages that were read.
    pub(crate) pages: AtomicU64,
    /// Pages that did not have to be read.
    pub(crate) pages_pruned: AtomicU64,
}

impl QueryMetrics {
    /// Counts a query.
    pub(crate) fn count(&self, kind: QueryKind, outcome: Outcome) {
        self.outcomes[kind as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what was read for an answer.
    pub(super) fn scanned(&self, scanned: &ScanStats) {
        self.scanned_rows.fetch_add(scanned.rows, Ordering::Relaxed);
        self.scanned_bytes.fetch_add(scanned.bytes, Ordering::Relaxed);
        self.pages.fetch_add(scanned.pages, Ordering::Relaxed);
        self.pages_pruned.fetch_add(scanned.pages_pruned, Ordering::Relaxed);
    }

    /// The number of queries of a kind with this outcome.
    pub(crate) fn outcomes(&self, kind: QueryKind, outcome: Outcome) -> u64 {
        self.outcomes[kind as usize][outcome as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_buckets() {
        let times = DurationHistogram::default();
        assert_eq!(times.mean(), None);
        for ms in [1, 2, 200, 60_000] {
            times.observe(Duration::from_millis(ms));
        }
        let (below, count, sum_ns) = times.read();
        assert_eq!(below, [1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
        assert_eq!((count, sum_ns), (4, 60_203_000_000));
    }
}
