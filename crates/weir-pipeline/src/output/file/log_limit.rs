//! Limits logging about files that cannot be created: each reason is logged at most once per
//! interval, however many records are refused because of it.
//!
//! Invariant: at most `REASONS_MAX` reasons are remembered, and logged, within `SILENCE`.

use std::collections::HashMap;
use std::time::Duration;

/// How long a reason is not repeated.
const SILENCE: Duration = Duration::from_hours(1);

/// Reasons logged within that time: hostile names must not fill weir's own log.
const REASONS_MAX: usize = 100;

/// Reasons, each with the (monotonic) time at which it was logged.
#[derive(Debug, Default)]
pub(super) struct LogLimiter(HashMap<String, Duration>);

/// Whether to log a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogDecision {
    Yes,
    /// Log this one, and then nothing until `SILENCE` is over.
    Last,
    No,
}

impl LogLimiter {
    /// Records a reason.
    pub(super) fn check(&mut self, reason: &str, now: Duration) -> LogDecision {
        let is_fresh = |at: &Duration| now.saturating_sub(*at) < SILENCE;
        if self.0.get(reason).is_some_and(is_fresh) {
            return LogDecision::No;
        }
        if self.0.len() >= REASONS_MAX {
            self.0.retain(|_, at| is_fresh(at));
        }
        if self.0.len() >= REASONS_MAX {
            return LogDecision::No;
        }
        self.0.insert(reason.to_owned(), now);
        if self.0.len() == REASONS_MAX { LogDecision::Last } else { LogDecision::Yes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_logged_once_an_hour_up_to_a_maximum() {
        let mut log_limiter = LogLimiter::default();
        let at = Duration::from_secs;
        assert_eq!(log_limiter.check("a", at(0)), LogDecision::Yes);
        assert_eq!(log_limiter.check("a", at(3599)), LogDecision::No);
        assert_eq!(log_limiter.check("b", at(3599)), LogDecision::Yes);
        assert_eq!(log_limiter.check("a", at(3600)), LogDecision::Yes);
        let mut more = |from: u64| -> Vec<LogDecision> {
            (0..REASONS_MAX as u64)
                .map(|n| log_limiter.check(&n.to_string(), at(from + n)))
                .collect()
        };
        let decisions = more(3600);
        assert_eq!(decisions.iter().filter(|n| **n == LogDecision::Yes).count(), REASONS_MAX - 3);
        assert_eq!(
            decisions[REASONS_MAX - 3..],
            [LogDecision::Last, LogDecision::No, LogDecision::No]
        );
        assert_eq!(more(7300)[0], LogDecision::Yes);
    }
}
