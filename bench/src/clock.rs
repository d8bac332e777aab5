//! Time for the benchmarks: pacing by absolute deadlines, and CPU time of a thread.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How often a paced sender sends.
const TICK: Duration = Duration::from_millis(5);

/// Waits until an instant; pacing by absolute instants does not drift.
pub(crate) fn wait_until(deadline: Instant) {
    let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
    let left = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    // An early return because of a signal only makes the next tick early.
    let _ = rustix::thread::clock_nanosleep_relative(ClockId::Monotonic, &left);
}

/// Waits for a duration.
pub(crate) fn wait(duration: Duration) {
    wait_until(Instant::now() + duration);
}

/// Waits for a condition, checking it again after each pause. Returns false if it does not become
/// true in time.
pub(crate) fn wait_for(
    pause: Duration,
    limit: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<bool> {
    let deadline = Instant::now() + limit;
    while !is_so()? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        wait(pause);
    }
    Ok(true)
}

/// Passes the numbers on in chunks: with a rate, those that are due at each tick, otherwise all
/// without a pause.
pub(crate) fn pace(
    numbers: std::ops::Range<u64>,
    rate: Option<f64>,
    chunk: u64,
    mut send: impl FnMut(std::ops::Range<u64>) -> Result<()>,
) -> Result<()> {
    let begun = Instant::now();
    let mut next = numbers.start;
    let mut tick = begun;
    while next < numbers.end {
        let due = match rate {
            None => next + chunk,
            Some(rate) => {
                tick += TICK;
                wait_until(tick);
                numbers.start + (begun.elapsed().as_secs_f64() * rate) as u64
            }
        };
        let end = due.min(numbers.end);
        if end > next {
            send(next..end)?;
            next = end;
        }
    }
    Ok(())
}

/// Returns the CPU time that the calling thread has used.
pub(crate) fn thread_cpu() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the CPU time that this process has used.
pub(crate) fn process_cpu() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// Returns the CPU time of child processes that have ended and been waited for.
pub(crate) fn children_cpu() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').context("no name in stat")?.1;
    let ticks: u64 =
        after_name.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
