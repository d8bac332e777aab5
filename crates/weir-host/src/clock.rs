//! Clocks. Wall-clock time is only used to stamp records; every interval uses the monotonic clock,
//! so that a clock jump neither stalls nor hurries anything.

use std::time::{Duration, Instant, SystemTime};

/// The clocks of the machine.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the wall-clock time in nanoseconds since 1970.
    fn unix_ns(&self) -> i64;
    /// Returns the time since some fixed moment; never decreases.
    fn monotonic(&self) -> Duration;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// Creates a clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the time")]
    fn unix_ns(&self) -> i64 {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
