//! Limits logging about files that cannot be created: each reason is logged once in a while,
//! however many records are refused because of it.
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
pub(super) struct Told(HashMap<String, Duration>);

/// Whether a reason is to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Yes,
    /// Log this one, and then nothing until `SILENCE` is over.
    Last,
    No,
}

impl Told {
    /// Records a reason.
    pub(super) fn note(&mut self, reason: &str, now: Duration) -> News {
        let is_fresh = |at: &Duration| now.saturating_sub(*at) < SILENCE;
        if self.0.get(reason).is_some_and(is_fresh) {
            return News::No;
        }
        if self.0.len() >= REASONS_MAX {
            self.0.retain(|_, at| is_fresh(at));
        }
        if self.0.len() >= REASONS_MAX {
            return News::No;
        }
        self.0.insert(reason.to_owned(), now);
        if self.0.len() == REASONS_MAX { News::Last } else { News::Yes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_once_an_hour_and_only_so_many_are() {
        let mut told = Told::default();
        let at = Duration::from_secs;
        assert_eq!(told.note("a", at(0)), News::Yes);
        assert_eq!(told.note("a", at(3599)), News::No);
        assert_eq!(told.note("b", at(3599)), News::Yes);
        assert_eq!(told.note("a", at(3600)), News::Yes);
        let mut more = |from: u64| -> Vec<News> {
            (0..REASONS_MAX as u64).map(|n| told.note(&n.to_string(), at(from + n))).collect()
        };
        let news = more(3600);
        assert_eq!(news.iter().filter(|n| **n == News::Yes).count(), REASONS_MAX - 3);
        assert_eq!(news[REASONS_MAX - 3..], [News::Last, News::No, News::No]);
        assert_eq!(more(7300)[0], News::Yes);
    }
}
