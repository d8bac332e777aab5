//! The concurrency limiter: how many requests to send at once, and when to pause.
//!
//! Additive increase, multiplicative decrease: every success while the limit was in use raises it
//! slightly, every sign of overload (a refusal to accept more, a timeout, a response much later
//! than usual) lowers it. Consecutive failures pause the whole output, longer each time, with
//! jitter, so that many instances do not retry at the same moment.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Responses that are slower than usual by this factor are a sign of overload.
const SLOW_FACTOR: f64 = 3.0;
/// Responses faster than this are never considered slow.
const SLOW_MIN_SECONDS: f64 = 0.1;
/// Weight of the latest response in the usual time.
const NEWEST_WEIGHT: f64 = 0.1;
/// Factors by which slow responses and requests to slow down, and failures, reduce the limit.
const KEEP_WHEN_SLOW: f64 = 0.8;
const KEEP_WHEN_FAILED: f64 = 0.5;

/// The state of one output's connection to its destination.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter {
    inner: Mutex<Inner>,
    changed: Notify,
    limit_max: f64,
    retry_min: Duration,
    retry_max: Duration,
}

#[derive(Debug)]
struct Inner {
    limit: f64,
    in_flight: usize,
    failures: u32,
    closed_until: Option<Instant>,
    usual_seconds: Option<f64>,
}

/// Permission to have one request in flight.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a ConcurrencyLimiter);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
        self.0.changed.notify_waiters();
    }
}

impl ConcurrencyLimiter {
    pub(crate) fn new(connections_max: usize, retry_min: Duration, retry_max: Duration) -> Self {
        let limit_max = connections_max.max(1) as f64;
        let inner = Inner {
            limit: limit_max.min(2.0),
            in_flight: 0,
            failures: 0,
            closed_until: None,
            usual_seconds: None,
        };
        let retry_max = retry_max.max(retry_min);
        Self { inner: Mutex::new(inner), changed: Notify::new(), limit_max, retry_min, retry_max }
    }

    /// Waits for the end of a pause and for a free permit.
    pub(crate) async fn acquire(&self) -> Permit<'_> {
        loop {
            // Registered before the check, so that no change is missed.
            let changed = self.changed.notified();
            let pause = {
                let mut inner = self.lock();
                let pause = inner.closed_until.filter(|until| *until > Instant::now());
                if pause.is_none() && inner.in_flight < inner.limit as usize {
                    inner.in_flight += 1;
                    return Permit(self);
                }
                pause
            };
            match pause {
                Some(until) => tokio::time::sleep_until(until).await,
                None => changed.await,
            }
        }
    }

    /// Records a successful response.
    pub(crate) fn success(&self, took: Duration, slow_down: bool) {
        let mut inner = self.lock();
        let seconds = took.as_secs_f64();
        let usual = inner.usual_seconds.unwrap_or(seconds);
        inner.usual_seconds = Some(usual + (seconds - usual) * NEWEST_WEIGHT);
        let slow = seconds > SLOW_MIN_SECONDS && seconds > usual * SLOW_FACTOR;
        if slow || slow_down {
            inner.limit = (inner.limit * KEEP_WHEN_SLOW).max(1.0);
        } else if inner.in_flight + 1 >= inner.limit as usize {
            inner.limit = (inner.limit + 1.0 / inner.limit).min(self.limit_max);
        }
        inner.failures = 0;
        inner.closed_until = None;
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Records a failed request; returns how long it must wait at least. From the second
    /// consecutive failure on, and if the collector asked for a pause, all requests wait.
    pub(crate) fn failure(&self, overload: bool, asked: Option<Duration>) -> Duration {
        let mut inner = self.lock();
        if overload || inner.failures > 0 {
            inner.limit = (inner.limit * KEEP_WHEN_FAILED).max(1.0);
        }
        let longest = self.retry_min.saturating_mul(1 << inner.failures.min(20));
        let pause = jittered(longest.min(self.retry_max)).max(asked.unwrap_or_default());
        inner.failures += 1;
        if inner.failures > 1 || asked.is_some() {
            inner.closed_until = Some(Instant::now() + pause);
        }
        pause
    }

    /// Records that only an operator can help: all requests wait as long as allowed.
    pub(crate) fn alert(&self, asked: Option<Duration>) -> Duration {
        let pause = jittered(self.retry_max).max(asked.unwrap_or_default());
        let mut inner = self.lock();
        inner.failures += 1;
        inner.limit = 1.0;
        inner.closed_until = Some(Instant::now() + pause);
        pause
    }

    /// Returns the current limit on requests in flight.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit as usize
    }

    /// Returns the number of failures since the last success.
    pub(crate) fn failures(&self) -> u32 {
        self.lock().failures
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a random duration in the upper half of `longest`.
fn jittered(longest: Duration) -> Duration {
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(10);

    #[test]
    fn pauses_grow_to_the_maximum_and_reset_on_success() {
        let limiter = ConcurrencyLimiter::new(8, MIN, MAX);
        let pauses: Vec<_> = (0..12).map(|_| limiter.failure(true, None)).collect();
        assert!(pauses[0] >= MIN / 2 && pauses[0] <= MIN);
        assert!(pauses[11] >= MAX / 2 && pauses[11] <= MAX);
        limiter.success(MIN, false);
        assert!(limiter.failure(true, None) <= MIN);
    }

    #[test]
    fn requested_pause_overrides_own_pause() {
        let limiter = ConcurrencyLimiter::new(8, MIN, MAX);
        assert_eq!(limiter.failure(true, Some(MAX * 3)), MAX * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrency_grows_on_success_and_halves_on_overload() {
        let limiter = ConcurrencyLimiter::new(8, MIN, MAX);
        assert_eq!(limiter.limit(), 2);
        for _ in 0..100 {
            let mut permits = Vec::new();
            for _ in 0..limiter.limit() {
                permits.push(limiter.acquire().await);
            }
            limiter.success(MIN, false);
        }
        assert_eq!(limiter.limit(), 8);
        limiter.failure(true, None);
        assert_eq!(limiter.limit(), 4);
        limiter.success(MAX, false);
        assert_eq!(limiter.limit(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_pauses_and_permits() {
        let limiter = ConcurrencyLimiter::new(1, MIN, MAX);
        let permit = limiter.acquire().await;
        let waits = tokio::time::timeout(MAX, limiter.acquire()).await;
        assert!(waits.is_err(), "only one at a time");
        limiter.alert(None);
        drop(permit);
        let before = Instant::now();
        drop(limiter.acquire().await);
        assert!(before.elapsed() >= MAX / 2);
    }
}
