//! A limit of lines per second with a burst of one second.
//!
//! Invariant: uses the monotonic clock; never sleeps, only returns how long to wait. A block that
//! was read may overdraw the bucket; the debt is waited off, so the average holds.

use std::time::Duration;

use crate::config::RateLimit;

/// The token bucket of one stream.
#[derive(Debug)]
pub(super) struct TokenBucket {
    limit: RateLimit,
    lines: f64,
    filled_at: Duration,
    /// It was emptied, and does not hold enough yet to be worth a wake-up.
    is_refilling: bool,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(super) fn new(limit: RateLimit, now: Duration) -> Self {
        Self { limit, lines: limit.lines_per_second, filled_at: now, is_refilling: false }
    }

    /// Returns true if excess lines are discarded and counted rather than read later.
    pub(super) fn sheds(&self) -> bool {
        self.limit.shed
    }

    fn fill(&mut self, now: Duration) {
        let gained = now.saturating_sub(self.filled_at).as_secs_f64() * self.limit.lines_per_second;
        self.lines = (self.lines + gained).min(self.limit.lines_per_second.max(1.0));
        self.filled_at = now;
    }

    /// Returns the number of whole lines that may pass now.
    pub(super) fn available(&mut self, now: Duration) -> u64 {
        self.fill(now);
        self.lines.max(0.0) as u64
    }

    /// Returns true if it is as if nothing had been taken out.
    pub(super) fn is_full(&mut self, now: Duration) -> bool {
        self.fill(now);
        self.lines >= self.limit.lines_per_second.max(1.0)
    }

    /// Takes lines out; may overdraw the bucket.
    pub(super) fn take(&mut self, lines: u64) {
        self.lines -= lines as f64;
        self.is_refilling = self.lines < 1.0;
    }

    /// Returns how long to wait until lines may pass; `None` = now. Once it is empty, that is a
    /// tenth of a second: each wake-up reads a block, however few of its lines may pass.
    pub(super) fn wait(&mut self, now: Duration) -> Option<Duration> {
        self.fill(now);
        let enough = (self.limit.lines_per_second / 10.0).max(1.0);
        let missing = enough - self.lines;
        self.is_refilling &= missing > 0.0;
        self.is_refilling.then(|| Duration::from_secs_f64(missing / self.limit.lines_per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_limit_holds_over_time() {
        let limit = RateLimit { lines_per_second: 100.0, shed: false };
        let mut now = Duration::from_secs(5);
        let mut bucket = TokenBucket::new(limit, now);
        let mut passed = 0;
        while now < Duration::from_secs(15) {
            if let Some(pause) = bucket.wait(now) {
                now += pause;
                continue;
            }
            bucket.take(250);
            passed += 250;
        }
        assert!((1000..=1500).contains(&passed), "{passed}");
    }

    #[test]
    fn at_a_high_rate_a_wake_up_passes_a_tenth_of_a_second_of_lines() {
        let limit = RateLimit { lines_per_second: 200_000.0, shed: false };
        let visit = Duration::from_micros(10);
        let mut now = Duration::from_secs(5);
        let mut bucket = TokenBucket::new(limit, now);
        let (mut passed, mut visits) = (0, 0);
        while now < Duration::from_secs(15) {
            now += bucket.wait(now).unwrap_or_default() + visit;
            let lines = bucket.available(now).min(1_000);
            bucket.take(lines);
            passed += lines;
            visits += 1;
        }
        assert!((2_000_000..=2_220_000).contains(&passed), "{passed}");
        assert!(visits < 2_500, "{visits} visits");
    }
}
