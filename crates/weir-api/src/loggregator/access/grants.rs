//! Cache of positive access decisions.
//!
//! Invariant: at most [`GRANTS_MAX`] are kept; when the cache is full, it is cleared.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of decisions: a thousand readers of sixty applications each, in 5 MiB.
const GRANTS_MAX: usize = 65_536;

/// Allowed accesses, by hash, with their times.
#[derive(Debug)]
pub(super) struct Grants {
    time: Duration,
    all: Mutex<HashMap<[u8; 32], Duration>>,
}

impl Grants {
    /// Keeps decisions for this time.
    pub(super) fn new(time: Duration) -> Self {
        Self { time, all: Mutex::default() }
    }

    /// Whether it was allowed recently.
    pub(super) fn has(&self, grant: &[u8; 32], now: Duration) -> bool {
        let mut all = self.lock();
        let Some(since) = all.get(grant) else { return false };
        if now.saturating_sub(*since) < self.time {
            return true;
        }
        all.remove(grant);
        false
    }

    /// Adds an allowed access.
    pub(super) fn add(&self, grant: [u8; 32], now: Duration) {
        let mut all = self.lock();
        if all.len() >= GRANTS_MAX {
            all.clear();
        }
        all.insert(grant, now);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Duration>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_cached_for_a_limited_time() {
        let grants = Grants::new(Duration::from_mins(1));
        let at = Duration::from_secs;
        assert!(!grants.has(&[1; 32], at(0)));
        grants.add([1; 32], at(0));
        assert!(grants.has(&[1; 32], at(59)) && !grants.has(&[2; 32], at(59)));
        assert!(!grants.has(&[1; 32], at(60)) && !grants.has(&[1; 32], at(1)));
    }
}
