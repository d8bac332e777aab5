//! How much came in at which rate, and how much of it was lost.
//!
//! Invariants: a rate is that of the interval between two readings, a minute as a rule; intervals
//! that are merged keep their rates; ranges of rates begin at 1, 2 and 5 times a power of ten, so
//! that there are few of them.

use super::history::Step;

/// Minimum length of an interval: shorter ones, at a start or at the end, say little about a rate.
const RUNNING_NS_MIN: u64 = 5_000_000_000;

/// The first digits at which ranges begin.
const DIGITS: [u32; 3] = [1, 2, 5];

/// Number of the highest range: it begins at 50 billion records per second, which no machine
/// reaches.
const RANGE_MAX: u8 = 33;

/// What came in at rates of one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AtRate {
    /// Number of the range; 0 is below one record per second.
    pub(super) range: u8,
    /// For how long.
    pub(super) running_ns: u64,
    pub(super) received: u64,
    pub(super) delivered: u64,
    pub(super) lost: u64,
}

/// What came in by ranges of rates, the lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rates(Vec<AtRate>);

/// The number of the range of a rate.
fn range_of(per_second: f64) -> u8 {
    (1..=RANGE_MAX).rev().find(|range| bound(*range) <= per_second).unwrap_or(0)
}

/// Where a range begins, in records per second. It ends where the next one begins.
pub(super) fn bound(range: u8) -> f64 {
    let Some(place) = range.checked_sub(1) else { return 0.0 };
    let digit = DIGITS[usize::from(place) % DIGITS.len()];
    f64::from(digit) * 10_f64.powi(i32::from(place) / DIGITS.len() as i32)
}

impl Rates {
    /// The rate of an interval; none if the interval is too short, or nothing came in or was lost.
    pub(super) fn of(step: &Step) -> Self {
        let count = |number: i64| number.max(0).cast_unsigned();
        let change = &step.change;
        let (received, lost) = (count(change.received), count(change.lost));
        if step.running_ns < RUNNING_NS_MIN || (received == 0 && lost == 0) {
            return Self::default();
        }
        let range = range_of(received as f64 * 1e9 / step.running_ns as f64);
        let (running_ns, delivered) = (step.running_ns, count(change.delivered));
        Self(vec![AtRate { range, running_ns, received, delivered, lost }])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AtRate> {
        self.0.iter()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|rate| self.add(rate));
    }

    pub(super) fn add(&mut self, rate: &AtRate) {
        let rate = AtRate { range: rate.range.min(RANGE_MAX), ..*rate };
        match self.0.binary_search_by(|known| known.range.cmp(&rate.range)) {
            Ok(at) => {
                let known = &mut self.0[at];
                known.running_ns = known.running_ns.saturating_add(rate.running_ns);
                known.received = known.received.saturating_add(rate.received);
                known.delivered = known.delivered.saturating_add(rate.delivered);
                known.lost = known.lost.saturating_add(rate.lost);
            }
            Err(at) => self.0.insert(at, rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Change;
    use super::*;

    fn step(seconds: u64, received: i64, lost: i64) -> Step {
        let change = Change { received, delivered: received - lost, lost, ..Change::default() };
        Step { from_ns: 0, to_ns: 0, running_ns: seconds * 1_000_000_000, change }
    }

    fn found(steps: &[Step]) -> Vec<(f64, f64, u64, u64, u64)> {
        let mut rates = Rates::default();
        for step in steps {
            rates.merge(&Rates::of(step));
        }
        let row = |r: &AtRate| {
            let seconds = r.running_ns / 1_000_000_000;
            (bound(r.range), bound(r.range + 1), seconds, r.received, r.lost)
        };
        rates.iter().map(row).collect()
    }

    #[test]
    fn loss_stands_at_the_rate_at_which_it_happened() {
        let steps = [
            step(60, 600, 0),
            step(60, 900, 0),
            step(60, 60_000, 600),
            step(60, 30, 0),
            step(60, 0, 0),
            step(2, 90_000, 9_000),
            step(60, -5, 0),
        ];
        let wanted = [
            (0.0, 1.0, 60, 30, 0),
            (10.0, 20.0, 120, 1_500, 0),
            (1_000.0, 2_000.0, 60, 60_000, 600),
        ];
        assert_eq!(found(&steps), wanted);
    }

    #[test]
    fn a_rate_at_a_bound_is_in_the_range_above_it() {
        for (rate, from, to) in [
            (0.99, 0.0, 1.0),
            (1.0, 1.0, 2.0),
            (2.0, 2.0, 5.0),
            (4.99, 2.0, 5.0),
            (5.0, 5.0, 10.0),
            (1_000.0, 1_000.0, 2_000.0),
            (99_999.0, 50_000.0, 100_000.0),
            (1e18, 5e10, 1e11),
        ] {
            let range = range_of(rate);
            assert_eq!((bound(range), bound(range + 1)), (from, to), "{rate}");
        }
    }
}
