//! Live statistics that complement the ledger: gauges, timings and states, read by metrics, health
//! and `top`.
//!
//! Invariant: nothing here makes a decision; the books (in the journal) are authoritative for
//! records. All fields are atomics with one writing component and any number of readers; of a
//! component with several threads, each adds to them.

mod collect;
mod rate_limit;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

pub use collect::CollectStats;
pub use rate_limit::{
    KEYS_REPORTED_MAX, LimitedCounts, LimitedKey, RateLimitReport, RateLimitStats,
};
pub use weir_host::process::publish_cpu;
use weir_journal::{Ledger, RefusedReason};
use weir_model::Batch;

/// Statistics of one source.
#[derive(Debug, Default)]
pub struct SourceStats {
    /// Files (streams) being followed.
    pub files: AtomicU64,
    /// Total growth of all files as seen by stat: the left side of book 3.
    pub bytes_seen: AtomicU64,
    /// Bytes available but not yet read.
    pub bytes_unread: AtomicU64,
    /// Age of the oldest unread byte in nanoseconds (0 = nothing unread).
    pub lag_ns: AtomicU64,
    /// Directories that are only rescanned because inotify refused to watch them.
    pub unwatched_dirs: AtomicU64,
    /// Files that currently cannot be opened or read.
    pub unreadable_files: AtomicU64,
    /// Total time between the creation of a file and the reading of its first byte, nanoseconds.
    pub discovery_ns: AtomicU64,
    /// Number of files in `discovery_ns`.
    pub discovered_files: AtomicU64,
    /// Number of refused appends.
    pub blocked_total: AtomicU64,
    /// Time during which at least one stream was refused, nanoseconds.
    pub blocked_ns: AtomicU64,
    /// Number of threads with at least one stream that is currently refused.
    pub blocked_threads: AtomicU64,
    /// The output whose full buffer has refused it last; `None`: the disk has.
    refused_by: Mutex<Option<String>>,
    /// Errors by kind, with the text of the last one for health.
    pub errors: ErrorCounts,
    /// CPU time of its threads, nanoseconds.
    pub cpu_ns: AtomicU64,
    /// Additional statistics of a source that listens.
    pub listener: ListenerStats,
    /// Additional statistics of a source that obtains metrics itself.
    pub collect: CollectStats,
}

impl SourceStats {
    /// Returns whether at least one stream is currently refused.
    pub fn is_blocked(&self) -> bool {
        get(&self.blocked_threads) > 0
    }

    /// Returns the output whose full buffer has refused it last; `None` if the disk has. It may
    /// have room again.
    pub fn refused_by(&self) -> Option<String> {
        lock(&self.refused_by).clone()
    }

    /// Returns the output that blocks it now; `None` if it is not blocked, or not by an output.
    pub fn blocked_by(&self, ledger: &Ledger) -> Option<String> {
        let is_full = |name: &String| ledger.cursors.iter().any(|c| c.blocking && c.name == *name);
        self.refused_by().filter(|name| self.is_blocked() && is_full(name))
    }

    /// Counts a refused append.
    pub(crate) fn count_refused(&self, reason: &RefusedReason) {
        add(&self.blocked_total, 1);
        let by = match reason {
            // A ring that is full for a moment is normal back pressure.
            RefusedReason::RingFull | RefusedReason::Closed => return,
            RefusedReason::BufferFull { cursor } => Some(cursor),
            RefusedReason::Disk { error } => {
                self.errors.count("journal_disk", error);
                None
            }
        };
        let mut refused_by = lock(&self.refused_by);
        if refused_by.as_ref() != by {
            *refused_by = by.cloned();
        }
    }
}

/// Response statuses that a listener counts; any other status is counted as the last one.
pub const LISTENER_STATUSES: [u16; 13] =
    [200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 429, 503, 500];

/// Statistics of a source that listens.
#[derive(Debug, Default)]
pub struct ListenerStats {
    endpoint: OnceLock<String>,
    tls_error: Mutex<Option<String>>,
    accept_error: Mutex<Option<String>>,
    /// Open connections.
    pub connections: AtomicU64,
    /// Total number of accepted connections.
    pub connections_total: AtomicU64,
    /// Connections that were closed to make room for newer ones.
    pub evicted_total: AtomicU64,
    /// Responses by status, in the order of [`LISTENER_STATUSES`].
    answers: [AtomicU64; LISTENER_STATUSES.len()],
    /// Total time from the head of a request to its response, nanoseconds.
    pub service_ns: AtomicU64,
    /// Size of the bodies being received, in bytes.
    pub in_flight_bytes: AtomicU64,
    /// What its rate limit did, by key.
    pub rate_limit: RateLimitStats,
}

impl ListenerStats {
    /// Returns the address or path it listens on, once it does; `None` for sources that do not
    /// listen.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.get().map(String::as_str)
    }

    /// Returns the number of responses by status.
    pub fn answers(&self) -> impl Iterator<Item = (u16, u64)> {
        LISTENER_STATUSES.into_iter().zip(self.answers.iter().map(get))
    }

    /// Returns why changed certificate files are not in use; `None` if they are.
    pub fn tls_error(&self) -> Option<String> {
        lock(&self.tls_error).clone()
    }

    pub(crate) fn set_tls_error(&self, error: Option<String>) {
        *lock(&self.tls_error) = error;
    }

    /// Returns why connections cannot be accepted; `None` if they can.
    pub fn accept_error(&self) -> Option<String> {
        lock(&self.accept_error).clone()
    }

    pub(crate) fn set_accept_error(&self, error: Option<String>) {
        *lock(&self.accept_error) = error;
    }

    pub(crate) fn open(&self, endpoint: &str) {
        // Set only once.
        let _first = self.endpoint.set(endpoint.to_owned());
    }

    pub(crate) fn count(&self, status: u16) {
        let known = LISTENER_STATUSES.iter().position(|known| *known == status);
        add(&self.answers[known.unwrap_or(LISTENER_STATUSES.len() - 1)], 1);
    }

    pub(crate) fn connection_opened(&self) {
        add(&self.connections, 1);
        add(&self.connections_total, 1);
    }

    pub(crate) fn connection_closed(&self) {
        sub(&self.connections, 1);
    }
}

fn lock(text: &Mutex<Option<String>>) -> std::sync::MutexGuard<'_, Option<String>> {
    text.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Statistics of one output.
#[derive(Debug, Default)]
pub struct OutputStats {
    /// Successful requests (or writes).
    pub requests: AtomicU64,
    /// Failed attempts that were retried.
    pub retries: AtomicU64,
    /// Bytes sent to the destination, after compression.
    pub bytes_sent: AtomicU64,
    /// Bytes before compression.
    pub bytes_encoded: AtomicU64,
    /// Total time from sending to the response (service time), nanoseconds.
    pub service_ns: AtomicU64,
    /// Total time batches waited between being read and being sent (queueing delay), nanoseconds.
    pub queueing_ns: AtomicU64,
    /// Number of batches in `queueing_ns`.
    pub batches: AtomicU64,
    /// Requests currently in flight.
    pub in_flight_requests: AtomicU64,
    /// Current limit on requests in flight (adaptive).
    pub concurrency_limit: AtomicU64,
    /// The destination currently does not accept data.
    pub failing: AtomicBool,
    /// The destination accepts records without the IDs that acknowledgements require.
    pub no_ack_ids: AtomicBool,
    /// Errors by kind, with the text of the last one for health.
    pub errors: ErrorCounts,
    /// CPU time, nanoseconds.
    pub cpu_ns: AtomicU64,
}

impl OutputStats {
    /// Counts how long the batches being sent now have waited since they were read.
    pub(crate) fn count_queueing<'a>(
        &self,
        batches: impl IntoIterator<Item = &'a Batch>,
        now_unix_ns: i64,
    ) {
        let (mut waited_ns, mut count) = (0_u64, 0);
        for batch in batches {
            let waited = now_unix_ns.saturating_sub(batch.header().observed_ns).max(0);
            // A clock that was decades off when they were read must not stop an output.
            waited_ns = waited_ns.saturating_add(waited.cast_unsigned());
            count += 1;
        }
        add(&self.queueing_ns, waited_ns);
        add(&self.batches, count);
    }
}

/// Error counts by a short fixed kind, and the text of the last error.
#[derive(Debug, Default)]
pub struct ErrorCounts(Mutex<ErrorCountsInner>);

#[derive(Debug, Default)]
struct ErrorCountsInner {
    by_kind: Vec<(&'static str, u64)>,
    last: Option<String>,
}

impl ErrorCounts {
    /// Counts an error and stores its text.
    pub fn count(&self, kind: &'static str, text: &str) {
        self.count_times(1, kind, text);
    }

    /// Counts `times` errors and stores the text.
    pub(crate) fn count_times(&self, times: u64, kind: &'static str, text: &str) {
        let mut inner = self.lock();
        match inner.by_kind.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, n)) => *n += times,
            None => inner.by_kind.push((kind, times)),
        }
        inner.last = Some(text.to_owned());
    }

    /// Clears the text once the component works again.
    pub fn clear_last(&self) {
        self.lock().last = None;
    }

    /// Returns every kind with its count.
    pub fn by_kind(&self) -> Vec<(&'static str, u64)> {
        self.lock().by_kind.clone()
    }

    /// Returns the text of the last error, unless it was cleared.
    pub fn last(&self) -> Option<String> {
        self.lock().last.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ErrorCountsInner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Subtracts from a gauge.
pub(crate) fn sub(gauge: &AtomicU64, n: u64) {
    gauge.fetch_sub(n, Ordering::Relaxed);
}

/// Updates a gauge for one contributor whose value changed from `before` to `now`.
pub(crate) fn shift(gauge: &AtomicU64, before: u64, now: u64) {
    // The difference wraps when it is negative, and so does the addition: the gauge is correct.
    gauge.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
}

/// Sets a gauge.
pub fn set(gauge: &AtomicU64, n: u64) {
    gauge.store(n, Ordering::Relaxed);
}

/// Reads a counter or gauge.
pub fn get(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}
