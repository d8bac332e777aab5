//! Determines when lines are due: an exact rate at the cost of one wake-up per tick.

use std::time::Duration;

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

/// Returns how many lines are due. Late lines are never skipped, so the count over time is exact;
/// the clock is monotonic.
#[derive(Debug)]
pub(crate) struct Pace {
    start: Duration,
    lines_per_second: Option<f64>,
    tick: Duration,
    given: u64,
    /// Maximum delay of a line.
    pub(crate) lateness_max: Duration,
}

impl Pace {
    /// Creates a pace that starts now. `None` = as fast as possible, in portions of `PORTION`
    /// lines.
    pub(crate) fn new(lines_per_second: Option<f64>, tick: Duration) -> Self {
        let start = now();
        Self { start, lines_per_second, tick, given: 0, lateness_max: Duration::ZERO }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        now().saturating_sub(self.start)
    }

    /// Waits until lines are due and returns their number.
    pub(crate) fn next(&mut self) -> u64 {
        /// Small enough that rotation and the caller's decision are checked often.
        const PORTION: u64 = 256;
        let Some(rate) = self.lines_per_second else { return PORTION };
        loop {
            // Line number n is due at n / rate.
            let due = (self.elapsed().as_secs_f64() * rate) as u64 + 1;
            if due > self.given {
                let late = self.elapsed().as_secs_f64() - self.given as f64 / rate;
                self.lateness_max =
                    self.lateness_max.max(Duration::try_from_secs_f64(late).unwrap_or_default());
                let portion = (due - self.given).min(PORTION);
                self.given += portion;
                return portion;
            }
            let next = Duration::try_from_secs_f64(self.given as f64 / rate).unwrap_or(self.tick);
            sleep_until(self.start + next.max(self.elapsed() + self.tick));
        }
    }
}

fn now() -> Duration {
    let time = clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Sleeps until a time of the monotonic clock; an interrupted sleep just ends early.
fn sleep_until(moment: Duration) {
    let request = Timespec {
        tv_sec: i64::try_from(moment.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(moment.subsec_nanos()),
    };
    let _woken_early = clock_nanosleep_absolute(ClockId::Monotonic, &request);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_over_time_is_exact() {
        let mut pace = Pace::new(Some(20_000.0), Duration::from_millis(1));
        let mut lines = 0;
        while lines < 2000 {
            lines += pace.next();
            let due = (pace.elapsed().as_secs_f64() * 20_000.0) as u64 + 1;
            assert!(lines <= due, "{lines} lines, {due} are due");
        }
    }
}
