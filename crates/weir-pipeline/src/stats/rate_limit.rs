//! Statistics of the rate limit of a listening source, by key.
//!
//! Invariants: a report is a consistent snapshot by one thread, so the named keys and the others
//! add up to the total; it names at most [`KEYS_REPORTED_MAX`] keys; names contain no control
//! characters.

use std::sync::{Mutex, PoisonError};

/// Maximum number of keys in a report: enough for a screen, and for labels of metrics.
pub const KEYS_REPORTED_MAX: usize = 10;

/// Counts of records above a rate limit, by how they were handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitedCounts {
    /// Records that were discarded.
    pub discarded_records: u64,
    /// Bytes of these records.
    pub discarded_bytes: u64,
    /// Records above the limit that were accepted; their connections were not read for a while.
    pub delayed_records: u64,
    /// Bytes of these records.
    pub delayed_bytes: u64,
    /// Records of requests that were answered with 429.
    pub refused_records: u64,
    /// Bytes of these records.
    pub refused_bytes: u64,
    /// Time for which connections were not read, nanoseconds.
    pub delayed_ns: u64,
}

/// A key and its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedKey {
    /// Such as `host=web7 app_name=nginx`.
    pub name: String,
    /// The service in it; empty if there is none.
    pub service: String,
    /// Its counts.
    pub counts: LimitedCounts,
    /// It currently exceeds the limit.
    pub is_over: bool,
}

/// The effect of a rate limit since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RateLimitReport {
    /// Such as `1000 records/s`.
    pub limit: String,
    /// Records above the limit are discarded.
    pub discards: bool,
    /// Of all keys.
    pub total: LimitedCounts,
    /// The keys with the most records above the limit, in this order.
    pub keys: Vec<LimitedKey>,
    /// Further keys, as far as they are known; `others` includes them.
    pub more: Vec<LimitedKey>,
    /// Of all other keys.
    pub others: LimitedCounts,
    /// Names of keys that currently exceed the limit; a part of them if there are many.
    pub over: Vec<String>,
    /// Number of these keys.
    pub over_count: u64,
    /// Records that name such keys, written by weir itself.
    pub notices: u64,
}

/// The latest report of a source.
#[derive(Debug, Default)]
pub struct RateLimitStats(Mutex<Option<RateLimitReport>>);

impl LimitedCounts {
    /// Adds another key's counts.
    pub fn add(&mut self, other: &Self) {
        self.discarded_records += other.discarded_records;
        self.discarded_bytes += other.discarded_bytes;
        self.delayed_records += other.delayed_records;
        self.delayed_bytes += other.delayed_bytes;
        self.refused_records += other.refused_records;
        self.refused_bytes += other.refused_bytes;
        self.delayed_ns += other.delayed_ns;
    }

    /// Returns the difference to earlier counts.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            discarded_records: self.discarded_records - earlier.discarded_records,
            discarded_bytes: self.discarded_bytes - earlier.discarded_bytes,
            delayed_records: self.delayed_records - earlier.delayed_records,
            delayed_bytes: self.delayed_bytes - earlier.delayed_bytes,
            refused_records: self.refused_records - earlier.refused_records,
            refused_bytes: self.refused_bytes - earlier.refused_bytes,
            delayed_ns: self.delayed_ns - earlier.delayed_ns,
        }
    }

    /// Returns the number of records above the limit.
    pub fn records(&self) -> u64 {
        self.discarded_records + self.delayed_records + self.refused_records
    }
}

impl RateLimitStats {
    /// Returns the latest report; `None` for sources without a rate limit by key.
    pub fn report(&self) -> Option<RateLimitReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn publish(&self, report: RateLimitReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }
}
