//! What questions cost, and what became of them: counted here, shown in `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_store::query::Scanned;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A page of records.
    Search,
    /// Figures of groups.
    Aggregate,
    /// Fields and values.
    Complete,
    /// The records around one.
    Context,
    /// Messages by what they have in common.
    Patterns,
    /// A part of an export.
    Export,
    /// Records that are to be deleted.
    Delete,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Search,
        Self::Aggregate,
        Self::Complete,
        Self::Context,
        Self::Patterns,
        Self::Export,
        Self::Delete,
    ];

    /// As in a label.
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

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Answered whole.
    Complete,
    /// Answered in part.
    Partial,
    /// Too many waited already.
    RefusedFull,
    /// It waited too long.
    RefusedLate,
    /// Whoever asked has left.
    Cancelled,
    /// It failed.
    Failed,
}

impl Outcome {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Complete,
        Self::Partial,
        Self::RefusedFull,
        Self::RefusedLate,
        Self::Cancelled,
        Self::Failed,
    ];

    /// As in a label.
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

/// Upper ends of the buckets of times, seconds.
pub(crate) const TIME_BUCKETS_SECONDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Times, counted by their size.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// By bucket; the last is for what is longer than all.
    counts: [AtomicU64; TIME_BUCKETS_SECONDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Times {
    /// One more.
    pub(crate) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = TIME_BUCKETS_SECONDS.partition_point(|end| *end < seconds);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// How many are at most as long as each of [`TIME_BUCKETS_SECONDS`], how many there are in
    /// all, and their sum, nanoseconds.
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

    /// The mean; nothing without any.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let (_, count, sum_ns) = self.read();
        sum_ns.checked_div(count).map(Duration::from_nanos)
    }
}

/// What all questions have cost, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    outcomes: [[AtomicU64; Outcome::ALL.len()]; Kind::ALL.len()],
    /// From the arrival of a question to its turn.
    pub(crate) queueing: Times,
    /// From its turn to its answer.
    pub(crate) service: Times,
    /// Rows that were looked at.
    pub(crate) scanned_rows: AtomicU64,
    /// Bytes that were decompressed.
    pub(crate) scanned_bytes: AtomicU64,
    /// Pages that were read.
    pub(crate) pages: AtomicU64,
    /// Pages that did not have to be.
    pub(crate) pages_pruned: AtomicU64,
}

impl Figures {
    /// Counts a question.
    pub(crate) fn count(&self, kind: Kind, outcome: Outcome) {
        self.outcomes[kind as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what was read for an answer.
    pub(super) fn scanned(&self, scanned: &Scanned) {
        self.scanned_rows.fetch_add(scanned.rows, Ordering::Relaxed);
        self.scanned_bytes.fetch_add(scanned.bytes, Ordering::Relaxed);
        self.pages.fetch_add(scanned.pages, Ordering::Relaxed);
        self.pages_pruned.fetch_add(scanned.pages_pruned, Ordering::Relaxed);
    }

    /// How many questions of a kind came to this.
    pub(crate) fn outcomes(&self, kind: Kind, outcome: Outcome) -> u64 {
        self.outcomes[kind as usize][outcome as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_below_the_ends_of_their_buckets() {
        let times = Times::default();
        assert_eq!(times.mean(), None);
        for ms in [1, 2, 200, 60_000] {
            times.observe(Duration::from_millis(ms));
        }
        let (below, count, sum_ns) = times.read();
        assert_eq!(below, [1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
        assert_eq!((count, sum_ns), (4, 60_203_000_000));
    }
}
