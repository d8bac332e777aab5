//! Memory for the bodies being received, over all connections and threads of a listener.
//!
//! Invariant: bytes are charged as they arrive, so a client occupies no more memory than it has
//! sent, and released when the request is done, however it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::stats::{SourceStats, sub};

/// The limit; the amount in use is a gauge of the source.
#[derive(Debug, Clone)]
pub(in crate::source) struct Budget {
    max: u64,
    stats: Arc<SourceStats>,
}

impl Budget {
    /// Creates a budget of this many bytes.
    pub(in crate::source) fn new(max: usize, stats: Arc<SourceStats>) -> Self {
        Self { max: max as u64, stats }
    }
}

/// The share of one request.
#[derive(Debug)]
pub(in crate::source) struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Charge {
    /// Creates an empty charge.
    pub(in crate::source) fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    /// Charges more bytes. Returns false, without charging anything, if they are not available.
    pub(in crate::source) fn grow(&mut self, bytes: usize) -> bool {
        let used = &self.budget.stats.listener.in_flight_bytes;
        let before = used.fetch_add(bytes as u64, Ordering::Relaxed);
        if before + bytes as u64 > self.budget.max {
            sub(used, bytes as u64);
            return false;
        }
        self.bytes += bytes as u64;
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        sub(&self.budget.stats.listener.in_flight_bytes, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::get;

    #[test]
    fn dropping_a_charge_releases_its_bytes() {
        let stats = Arc::<SourceStats>::default();
        let budget = Budget::new(100, stats.clone());
        let mut first = Charge::new(&budget);
        let mut second = Charge::new(&budget);
        assert!(first.grow(60) && second.grow(40));
        assert!(!first.grow(1), "nothing is left");
        drop(second);
        assert!(first.grow(40));
        drop(first);
        assert_eq!(get(&stats.listener.in_flight_bytes), 0);
    }
}
