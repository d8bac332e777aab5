//! Time. Wall-clock time is for stamping records only; every interval uses the monotonic clock,
//! so that a clock jump neither stalls nor hurries anything.

use std::time::{Duration, Instant, SystemTime};

/// The clocks of the machine.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Wall-clock time in nanoseconds since 1970.
    fn unix_ns(&self) -> i64;
    /// Time since some fixed moment, never going back.
    fn monotonic(&self) -> Duration;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time starts now.
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
    #[expect(clippy::disallowed_methods, reason = "the one place that asks for the time")]
    fn unix_ns(&self) -> i64 {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
