//! Live figures beside the books: gauges, timings and states, read by metrics, health and `top`.
//!
//! Invariant: nothing here decides anything; the books (in the journal) are the truth about
//! records. All fields are atomics that one component writes and anybody reads.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

pub use weir_host::process::publish_cpu;
use weir_model::Batch;

/// Figures of one source.
#[derive(Debug, Default)]
pub struct SourceStats {
    /// Files (streams) being followed.
    pub files: AtomicU64,
    /// Sum of growth of all files as seen by stat: the left side of book 3.
    pub bytes_seen: AtomicU64,
    /// Bytes there and not yet read.
    pub bytes_unread: AtomicU64,
    /// Age of the oldest unread byte, nanoseconds (0 = nothing unread).
    pub lag_ns: AtomicU64,
    /// Directories that are watched by rescan only, because inotify refused.
    pub unwatched_dirs: AtomicU64,
    /// Files that cannot be opened or read at present.
    pub unreadable_files: AtomicU64,
    /// Sum and count of the time between a file's creation and its first byte read.
    pub discovery_ns: AtomicU64,
    /// See `discovery_ns`.
    pub discovered_files: AtomicU64,
    /// Times that an append was refused.
    pub blocked_total: AtomicU64,
    /// Nanoseconds in which at least one stream was refused.
    pub blocked_ns: AtomicU64,
    /// At least one stream is refused now.
    pub is_blocked: AtomicBool,
    /// Errors by kind, as counters with text for health.
    pub errors: ErrorCounts,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: AtomicU64,
    /// What a source that listens has beside these.
    pub listener: ListenerStats,
}

/// Statuses of answers that a listener counts; what is none of them counts as the last.
pub const LISTENER_STATUSES: [u16; 13] =
    [200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 429, 503, 500];

/// Figures of a source that listens.
#[derive(Debug, Default)]
pub struct ListenerStats {
    address: OnceLock<SocketAddr>,
    tls_error: Mutex<Option<String>>,
    accept_error: Mutex<Option<String>>,
    /// Open connections.
    pub connections: AtomicU64,
    /// Connections ever accepted.
    pub connections_total: AtomicU64,
    /// Connections that were closed to make room for newer ones.
    pub evicted_total: AtomicU64,
    /// Answers by status, in the order of [`LISTENER_STATUSES`].
    answers: [AtomicU64; LISTENER_STATUSES.len()],
    /// Sum of the time from the head of a request to its answer, nanoseconds.
    pub service_ns: AtomicU64,
    /// Bytes of bodies that are being read.
    pub in_flight_bytes: AtomicU64,
}

impl ListenerStats {
    /// Where it listens, once it does; none for sources that do not.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address.get().copied()
    }

    /// Answers by status.
    pub fn answers(&self) -> impl Iterator<Item = (u16, u64)> {
        LISTENER_STATUSES.into_iter().zip(self.answers.iter().map(get))
    }

    /// Why certificate files that have changed are not in use, while that is so.
    pub fn tls_error(&self) -> Option<String> {
        lock(&self.tls_error).clone()
    }

    pub(crate) fn set_tls_error(&self, error: Option<String>) {
        *lock(&self.tls_error) = error;
    }

    /// Why connections cannot be accepted, while that is so.
    pub fn accept_error(&self) -> Option<String> {
        lock(&self.accept_error).clone()
    }

    pub(crate) fn set_accept_error(&self, error: Option<String>) {
        *lock(&self.accept_error) = error;
    }

    pub(crate) fn open(&self, address: SocketAddr) {
        // Once in the life of these figures.
        let _first = self.address.set(address);
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

/// Figures of one output.
#[derive(Debug, Default)]
pub struct OutputStats {
    /// Requests (or writes) that ended well.
    pub requests: AtomicU64,
    /// Attempts that failed and were made again.
    pub retries: AtomicU64,
    /// Bytes handed to the destination, after compression.
    pub bytes_sent: AtomicU64,
    /// Bytes before compression.
    pub bytes_encoded: AtomicU64,
    /// Sum of the time from sending to answer, nanoseconds: service time.
    pub service_ns: AtomicU64,
    /// Sum over batches of the time from reading to sending, nanoseconds: queueing delay.
    pub queueing_ns: AtomicU64,
    /// Batches in `queueing_ns`.
    pub batches: AtomicU64,
    /// Requests in flight now.
    pub in_flight_requests: AtomicU64,
    /// Present bound of requests in flight (adaptive).
    pub concurrency_limit: AtomicU64,
    /// The destination does not accept at present.
    pub failing: AtomicBool,
    /// Errors by kind, as counters with text for health.
    pub errors: ErrorCounts,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: AtomicU64,
}

impl OutputStats {
    /// Counts how long batches that are sent now have waited since they were read.
    pub(crate) fn count_queueing<'a>(
        &self,
        batches: impl IntoIterator<Item = &'a Batch>,
        now_unix_ns: i64,
    ) {
        let (mut waited_ns, mut count) = (0_u64, 0);
        for batch in batches {
            let waited = now_unix_ns.saturating_sub(batch.header().observed_ns).max(0);
            // A clock that was decades wrong when they were read must not stop an output.
            waited_ns = waited_ns.saturating_add(waited.cast_unsigned());
            count += 1;
        }
        add(&self.queueing_ns, waited_ns);
        add(&self.batches, count);
    }
}

/// Counts of errors by a short fixed kind, and the text of the last one.
#[derive(Debug, Default)]
pub struct ErrorCounts(Mutex<ErrorCountsInner>);

#[derive(Debug, Default)]
struct ErrorCountsInner {
    by_kind: Vec<(&'static str, u64)>,
    last: Option<String>,
}

impl ErrorCounts {
    /// Counts an error and remembers its text.
    pub fn count(&self, kind: &'static str, text: &str) {
        self.count_times(1, kind, text);
    }

    /// Counts an error that happened that often.
    pub(crate) fn count_times(&self, times: u64, kind: &'static str, text: &str) {
        let mut inner = self.lock();
        match inner.by_kind.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, n)) => *n += times,
            None => inner.by_kind.push((kind, times)),
        }
        inner.last = Some(text.to_owned());
    }

    /// Forgets the text, when the component works again.
    pub fn clear_last(&self) {
        self.lock().last = None;
    }

    /// Every kind with its count.
    pub fn by_kind(&self) -> Vec<(&'static str, u64)> {
        self.lock().by_kind.clone()
    }

    /// Text of the last error, while it stands.
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

/// Takes from a gauge.
pub(crate) fn sub(gauge: &AtomicU64, n: u64) {
    gauge.fetch_sub(n, Ordering::Relaxed);
}

/// What one of many contributes to a gauge has changed.
pub(crate) fn shift(gauge: &AtomicU64, before: u64, now: u64) {
    // Wraps where it is less than before, and so does the sum: the gauge is right.
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
