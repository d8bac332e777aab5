//! Cache of positive decisions.
//!
//! Invariant: at most as many are kept as it was created for; when the cache is full, it is
//! cleared.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Decisions by hash, with their times.
#[derive(Debug)]
pub(super) struct Grants<T> {
    time: Duration,
    max: usize,
    all: Mutex<HashMap<[u8; 32], (T, Duration)>>,
}

impl<T: Clone> Grants<T> {
    /// Keeps at most `max` decisions, each for this time.
    pub(super) fn new(time: Duration, max: usize) -> Self {
        Self { time, max, all: Mutex::default() }
    }

    /// A decision that was made recently.
    pub(super) fn get(&self, key: &[u8; 32], now: Duration) -> Option<T> {
        self.recent(&mut self.lock(), key, now)
    }

    /// Adds a decision.
    pub(super) fn add(&self, key: [u8; 32], decision: T, now: Duration) {
        self.insert(&mut self.lock(), key, decision, now);
    }

    /// A decision that was made recently, or else this one, which is added.
    pub(super) fn get_or_add(
        &self,
        key: [u8; 32],
        now: Duration,
        decision: impl FnOnce() -> T,
    ) -> T {
        let mut all = self.lock();
        if let Some(known) = self.recent(&mut all, &key, now) {
            return known;
        }
        let decision = decision();
        self.insert(&mut all, key, decision.clone(), now);
        decision
    }

    fn recent(
        &self,
        all: &mut HashMap<[u8; 32], (T, Duration)>,
        key: &[u8; 32],
        now: Duration,
    ) -> Option<T> {
        let (decision, since) = all.get(key)?;
        if now.saturating_sub(*since) < self.time {
            return Some(decision.clone());
        }
        all.remove(key);
        None
    }

    fn insert(
        &self,
        all: &mut HashMap<[u8; 32], (T, Duration)>,
        key: [u8; 32],
        decision: T,
        now: Duration,
    ) {
        if all.len() >= self.max {
            all.clear();
        }
        all.insert(key, (decision, now));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], (T, Duration)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_cached_for_a_limited_time() {
        let grants = Grants::new(Duration::from_mins(1), 2);
        let at = Duration::from_secs;
        assert_eq!(grants.get(&[1; 32], at(0)), None);
        grants.add([1; 32], "a", at(0));
        assert_eq!(grants.get(&[1; 32], at(59)), Some("a"));
        assert_eq!(grants.get(&[2; 32], at(59)), None);
        assert_eq!(grants.get_or_add([1; 32], at(59), || "b"), "a");
        assert_eq!(grants.get(&[1; 32], at(60)), None);
        assert_eq!(grants.get(&[1; 32], at(1)), None, "it was removed");
        assert_eq!(grants.get_or_add([1; 32], at(60), || "b"), "b");
        assert_eq!(grants.get(&[1; 32], at(61)), Some("b"));
    }

    #[test]
    fn a_full_cache_is_cleared() {
        let grants = Grants::new(Duration::from_mins(1), 2);
        for key in 0..3 {
            grants.add([key; 32], key, Duration::ZERO);
        }
        let kept = |key: u8| grants.get(&[key; 32], Duration::ZERO);
        assert_eq!([kept(0), kept(1), kept(2)], [None, None, Some(2)]);
    }
}
