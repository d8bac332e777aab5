//! Statistics of a source that collects metrics itself: its targets, and failures.
//!
//! Invariant: the number of names is limited, whatever the source ids of targets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{add, get, set};

/// Maximum number of names under which failures are counted; further ones share [`OTHER`].
const FAILED_NAMES_MAX: usize = 256;

/// The name of all others.
const OTHER: &str = "other";

/// Statistics of a source that collects metrics itself.
#[derive(Debug, Default)]
pub struct CollectStats {
    is_open: AtomicBool,
    targets: AtomicU64,
    duration_ns: AtomicU64,
    rounds: AtomicU64,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    /// Failing targets, with the errors.
    current: BTreeMap<String, String>,
    /// Number of failures, by the source id of a target.
    counts: BTreeMap<String, u64>,
}

impl CollectStats {
    /// Marks the source as one that collects metrics itself.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Returns whether the source collects metrics itself.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(crate) fn set_targets(&self, count: u64) {
        set(&self.targets, count);
    }

    /// Returns the number of targets or containers.
    pub fn targets(&self) -> u64 {
        get(&self.targets)
    }

    pub(crate) fn count_duration(&self, duration: Duration) {
        add(&self.duration_ns, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        add(&self.rounds, 1);
    }

    /// Returns the total time of all scrapes, in nanoseconds, and their number.
    pub fn durations(&self) -> (u64, u64) {
        (get(&self.duration_ns), get(&self.rounds))
    }

    /// Notes that a target cannot be used. Returns true if it could be used before.
    pub(crate) fn set_problem(&self, target: &str, text: &str) -> bool {
        self.lock().current.insert(target.to_owned(), text.to_owned()).is_none()
    }

    /// Counts a failure. Returns true if the target did not fail before.
    pub(crate) fn failed(&self, target: &str, source_id: &str, text: &str) -> bool {
        let mut failures = self.lock();
        let counts = &mut failures.counts;
        let is_new = !counts.contains_key(source_id) && counts.len() >= FAILED_NAMES_MAX;
        *counts.entry(if is_new { OTHER } else { source_id }.to_owned()).or_default() += 1;
        failures.current.insert(target.to_owned(), text.to_owned()).is_none()
    }

    /// Notes that a target can be used. Returns true if it could not before.
    pub(crate) fn recovered(&self, target: &str) -> bool {
        self.lock().current.remove(target).is_some()
    }

    /// Returns the failing targets with the errors.
    pub fn failing(&self) -> Vec<(String, String)> {
        let current = &self.lock().current;
        current.iter().map(|(target, text)| (target.clone(), text.clone())).collect()
    }

    /// Returns the failures by the source id of the target.
    pub fn failed_counts(&self) -> Vec<(String, u64)> {
        let counts = &self.lock().counts;
        counts.iter().map(|(name, count)| (name.clone(), *count)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_under_a_limited_number_of_names() {
        let stats = CollectStats::default();
        assert!(stats.failed("http://a", "a", "refused"));
        assert!(!stats.failed("http://a", "a", "timeout"));
        assert_eq!(stats.failing(), [("http://a".to_owned(), "timeout".to_owned())]);
        assert!(stats.recovered("http://a") && !stats.recovered("http://a"));
        for number in 0..2 * FAILED_NAMES_MAX {
            stats.failed("http://b", &format!("b{number}"), "refused");
        }
        let counts = stats.failed_counts();
        assert_eq!(counts.len(), FAILED_NAMES_MAX + 1);
        let total: u64 = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(total, 2 + 2 * FAILED_NAMES_MAX as u64);
        assert!(counts.contains(&("a".to_owned(), 2)));
    }
}
