//! A clock that stands still until it is moved.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_host::Clock;

/// A clock that a test moves by hand. Clones share the time.
#[derive(Debug, Clone)]
pub struct FakeClock(Arc<Mutex<Times>>);

#[derive(Debug)]
struct Times {
    unix_ns: i64,
    monotonic: Duration,
}

impl FakeClock {
    /// Creates a clock that shows this wall-clock time, in nanoseconds since 1970.
    pub fn at(unix_ns: i64) -> Self {
        Self(Arc::new(Mutex::new(Times { unix_ns, monotonic: Duration::ZERO })))
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let mut times = self.lock();
        times.unix_ns += i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        times.monotonic += by;
    }

    /// Sets the wall clock, forwards or backwards; the monotonic clock is not affected.
    pub fn jump_to(&self, unix_ns: i64) {
        self.lock().unix_ns = unix_ns;
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for FakeClock {
    /// 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(1_767_225_600_000_000_000)
    }
}

impl Clock for FakeClock {
    fn unix_ns(&self) -> i64 {
        self.lock().unix_ns
    }

    fn monotonic(&self) -> Duration {
        self.lock().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_wall_clock_leaves_intervals_alone() {
        let clock = FakeClock::default();
        let start = clock.unix_ns();
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.unix_ns(), start + 1_000_000_000);
        clock.jump_to(0);
        assert_eq!(clock.unix_ns(), 0);
        assert_eq!(clock.monotonic(), Duration::from_secs(1));
    }
}
