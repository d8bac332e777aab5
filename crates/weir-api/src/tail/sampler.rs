//! Selects the rows that are sent when more match than the reader can take.
//!
//! Invariants: within a second each matching row has the same chance; at most the requested number
//! of rows is sent in a second; matched = shown + skipped, always.

use serde::Serialize;

/// A uniform sample, adapted once a second to the number of matching rows.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Rows per second that the reader requested, and its current limit.
    requested_rate: u64,
    max_rate: u64,
    /// Of this many rows, `max_rate` are sent: as many as matched in the previous second, if that
    /// was more.
    total: u64,
    /// Grows by `max_rate` with every row; a row is sent whenever it reaches `total`.
    accumulated: u64,
    second: Stat,
}

/// What happened to the rows of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Stat {
    /// Records that match.
    pub(super) matched: u64,
    /// Of these, sent.
    pub(super) shown: u64,
    /// Of these, not sent.
    pub(super) skipped: u64,
    /// Share of the rows that were sent.
    pub(super) sample_ratio: f64,
    /// Records that were missed, whether or not they would have matched.
    pub(super) missed: u64,
}

impl Sampler {
    pub(super) fn new(max_rate: u32) -> Self {
        let max_rate = u64::from(max_rate);
        Self {
            requested_rate: max_rate,
            max_rate,
            total: max_rate,
            accumulated: 0,
            second: Stat::default(),
        }
    }

    /// Counts a matching row; returns whether to send it.
    pub(super) fn is_shown(&mut self) -> bool {
        self.second.matched += 1;
        self.accumulated += self.max_rate;
        let is_selected = self.accumulated >= self.total;
        if is_selected {
            self.accumulated -= self.total;
        }
        // If more arrive than in the previous second, the rest of this one is not sent.
        let is_shown = is_selected && self.second.shown < self.max_rate;
        if is_shown {
            self.second.shown += 1;
        } else {
            self.second.skipped += 1;
        }
        is_shown
    }

    /// Counts missed records.
    pub(super) fn missed(&mut self, records: u64) {
        self.second.missed += records;
    }

    /// Ends the second: returns what happened to its rows, unless there were none. In the next one
    /// at most `rate_share` are sent.
    pub(super) fn end_second(&mut self, rate_share: u32) -> Option<Stat> {
        let mut second = std::mem::take(&mut self.second);
        self.max_rate = self.requested_rate.min(u64::from(rate_share));
        self.total = second.matched.max(self.max_rate);
        self.accumulated = 0;
        if second.matched + second.missed == 0 {
            return None;
        }
        second.sample_ratio = second.shown as f64 / second.matched.max(1) as f64;
        Some(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_sampled_uniformly_and_counted() {
        let mut sampler = Sampler::new(100);
        assert_eq!((0..60).filter(|_| sampler.is_shown()).count(), 60);
        let stat = sampler.end_second(u32::MAX).unwrap();
        assert_eq!((stat.matched, stat.shown, stat.skipped), (60, 60, 0));
        for _ in 0..1000 {
            sampler.is_shown();
        }
        let stat = sampler.end_second(u32::MAX).unwrap();
        assert_eq!((stat.matched, stat.shown, stat.skipped), (1000, 100, 900));
        // Known now: every tenth, over the whole second.
        let shown: Vec<usize> = (0..1000).filter(|_| sampler.is_shown()).collect();
        assert_eq!(shown.len(), 100);
        assert!(shown.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))), "{shown:?}");
        let stat = sampler.end_second(u32::MAX).unwrap();
        assert!((stat.sample_ratio - 0.1).abs() < 0.001);
        assert_eq!(sampler.end_second(u32::MAX), None);
        let mut sampler = Sampler { total: 1000, ..Sampler::new(300) };
        assert_eq!((0..1000).filter(|_| sampler.is_shown()).count(), 300);
        // Other readers are active too.
        sampler.end_second(50);
        assert_eq!((0..1000).filter(|_| sampler.is_shown()).count(), 50);
        sampler.end_second(1000);
        assert_eq!((0..1000).filter(|_| sampler.is_shown()).count(), 300);
    }

    #[test]
    fn missed_records_are_reported_without_matches() {
        let mut sampler = Sampler::new(100);
        sampler.missed(7);
        assert_eq!(sampler.end_second(u32::MAX).map(|stat| stat.missed), Some(7));
    }
}
