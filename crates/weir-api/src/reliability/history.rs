//! Readings of the books over the last month, and what they say about a window of time.
//!
//! Invariants: a reading has the counts of the books as they were, so it may be missing or left out
//! without changing the sum over a longer time; the rates of the minutes that are left out are kept
//! by the reading after them; there are at most [`READINGS_MAX`] with [`COMPONENTS_MAX`] components
//! each; their times increase.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::Ledger;
use weir_model::DiscardReason;

use super::rates::Rates;

const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;
const DAY_NS: i64 = 24 * HOUR_NS;

/// How long a reading of each minute is kept: somewhat longer than the windows that need them.
const BY_MINUTE_NS: i64 = 25 * HOUR_NS;
/// How long a reading of each hour is kept: somewhat longer than the longest window.
const BY_HOUR_NS: i64 = 31 * DAY_NS;
/// Maximum number of readings: one for each minute and then for each hour, with one more at either
/// end.
pub(super) const READINGS_MAX: usize =
    (BY_MINUTE_NS / MINUTE_NS + (BY_HOUR_NS - BY_MINUTE_NS) / HOUR_NS) as usize + 4;
/// Maximum number of components in a reading: 100 sources and outputs, and all sources together.
/// All readings then take about 13 MB, and the rates of hours, of which few are different, about as
/// much; with ten components 2 MB.
pub(super) const COMPONENTS_MAX: usize = 101;

/// The windows that are reported, by name and length.
pub(super) const WINDOWS: [(Window, i64); 5] = [
    (Window::Hour, HOUR_NS),
    (Window::SixHours, 6 * HOUR_NS),
    (Window::Day, DAY_NS),
    (Window::Week, 7 * DAY_NS),
    (Window::Month, 30 * DAY_NS),
];

/// A range of time that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Window {
    /// One hour.
    #[serde(rename = "1h")]
    Hour,
    /// Six hours.
    #[serde(rename = "6h")]
    SixHours,
    /// One day.
    #[serde(rename = "1d")]
    Day,
    /// Seven days.
    #[serde(rename = "7d")]
    Week,
    /// Thirty days.
    #[serde(rename = "30d")]
    Month,
}

impl Window {
    /// Its length in nanoseconds.
    pub(super) fn length_ns(self) -> i64 {
        WINDOWS.iter().find(|(window, _)| *window == self).map_or(0, |(_, length)| *length)
    }
}

/// Whether records come from it or go to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComponentKind {
    /// A source.
    Source,
    /// An output, the store, or all drains.
    Output,
}

/// A source or output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Component {
    pub(super) kind: ComponentKind,
    /// Its name; empty for all sources together.
    pub(super) name: String,
}

impl Component {
    /// All sources together: their rates cannot be computed from those of each.
    pub(super) const ALL_SOURCES: Self = Self { kind: ComponentKind::Source, name: String::new() };
}

/// Counts of a component, from the beginning of its book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Lines of a source; records routed to an output.
    pub(super) received: u64,
    /// Records and parts of records of a source; records that an output has delivered or passed on.
    pub(super) delivered: u64,
    /// Discarded against the will of the operator, or dead-lettered.
    pub(super) lost: u64,
    /// Discarded as configured.
    pub(super) discarded: u64,
    /// Number of intervals between two readings in which something was lost.
    pub(super) lossy: u64,
}

/// The rates of a component.
pub(super) type ComponentRates = (Arc<Component>, Rates);

/// One reading of the books.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reading {
    pub(super) time_ns: i64,
    /// For how long weir had been running and reading the books, since the first reading.
    pub(super) running_ns: u64,
    /// Sorted by component.
    pub(super) counts: Vec<(Arc<Component>, Counts)>,
    /// The rates since the reading before it, sorted by component, if readings between them were
    /// left out; `None`: that of the whole time.
    pub(super) rates: Option<Arc<[ComponentRates]>>,
    /// Number of components that were left out.
    pub(super) left_out: usize,
}

/// What happened to the records of a component during a range of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Change {
    pub(super) received: i64,
    pub(super) delivered: i64,
    pub(super) lost: i64,
    pub(super) discarded: i64,
    pub(super) lossy: i64,
}

/// The time between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
    /// For how long weir ran in it.
    pub(super) running_ns: u64,
    pub(super) change: Change,
}

impl Reading {
    /// Reads the books. `before` is the reading before it, and `elapsed_ns` for how long weir ran
    /// since then.
    pub(super) fn of(
        ledger: &Ledger,
        time_ns: i64,
        before: Option<&Self>,
        elapsed_ns: u64,
    ) -> Self {
        let discarded = |counts: &[u64; DiscardReason::COUNT], is_intentional: bool| -> u64 {
            let pairs = DiscardReason::ALL.iter().zip(counts);
            pairs
                .filter(|(reason, _)| reason.is_intentional() == is_intentional)
                .map(|(_, n)| n)
                .sum()
        };
        let sources =
            ledger.sources.iter().filter(|source| !source.name.is_empty()).map(|source| {
                let book = &source.book;
                let counts = Counts {
                    received: book.lines,
                    delivered: book.records + book.joined,
                    lost: discarded(&book.discarded, false),
                    discarded: discarded(&book.discarded, true),
                    lossy: 0,
                };
                (ComponentKind::Source, &source.name, counts)
            });
        let outputs = ledger.cursors.iter().map(|cursor| {
            let book = &cursor.book;
            let counts = Counts {
                received: book.routed,
                delivered: book.delivered + book.moved + book.unbound,
                lost: discarded(&book.discarded, false) + book.dead_lettered,
                discarded: discarded(&book.discarded, true),
                lossy: 0,
            };
            (ComponentKind::Output, &cursor.name, counts)
        });
        let mut total = Counts::default();
        sources.clone().for_each(|(_, _, counts)| total.add(&counts));
        let all_sources = Component::ALL_SOURCES.name;
        let total = (ComponentKind::Source, &all_sources, total);
        let all = std::iter::once(total).chain(sources).chain(outputs);
        let mut counts: Vec<_> = all
            .map(|(kind, name, counts)| {
                let component = Component { kind, name: name.clone() };
                let known = before.and_then(|before| before.entry(&component));
                let was = known.map(|(_, counts)| *counts).unwrap_or_default();
                let lossy = was.lossy + u64::from(before.is_some() && counts.lost > was.lost);
                let component =
                    known.map_or_else(|| Arc::new(component), |(known, _)| known.clone());
                (component, Counts { lossy, ..counts })
            })
            .collect();
        let left_out = counts.len().saturating_sub(COMPONENTS_MAX);
        counts.truncate(COMPONENTS_MAX);
        counts.sort_by(|a, b| a.0.cmp(&b.0));
        let running_ns = before.map_or(0, |before| before.running_ns) + elapsed_ns;
        Self { time_ns, running_ns, counts, rates: None, left_out }
    }

    fn entry(&self, component: &Component) -> Option<&(Arc<Component>, Counts)> {
        let at = self.counts.binary_search_by(|(known, _)| (**known).cmp(component)).ok()?;
        self.counts.get(at)
    }

    fn of_component(&self, component: &Component) -> Option<Counts> {
        self.entry(component).map(|(_, counts)| *counts)
    }

    /// What happened since the reading before this one.
    fn step(&self, before: &Self, component: &Component) -> Step {
        // A component that is gone has no counts any more.
        let change = self.of_component(component).map_or_else(Change::default, |counts| {
            Change::between(before.of_component(component), counts)
        });
        Step {
            from_ns: before.time_ns,
            to_ns: self.time_ns,
            running_ns: self.running_ns.saturating_sub(before.running_ns),
            change,
        }
    }

    /// The rates since the reading before this one.
    fn rates(&self, before: &Self, component: &Component) -> Rates {
        let Some(rates) = &self.rates else { return Rates::of(&self.step(before, component)) };
        let at = rates.binary_search_by(|(known, _)| (**known).cmp(component));
        at.map(|at| rates[at].1.clone()).unwrap_or_default()
    }

    /// Keeps the rates of a reading that is left out, which lies between `before` and this one.
    fn keep_rates(&mut self, before: &Self, left_out: &Self) {
        let kept = self.counts.iter().filter_map(|(component, _)| {
            let mut rates = left_out.rates(before, component);
            rates.merge(&self.rates(left_out, component));
            (!rates.is_empty()).then(|| (component.clone(), rates))
        });
        self.rates = Some(kept.collect());
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.discarded += other.discarded;
        self.lossy += other.lossy;
    }
}

impl Change {
    /// From one reading to the next. Counts that a crash has rolled back are subtracted; a book
    /// that has lost more than half of its counts is treated as a new one.
    fn between(before: Option<Counts>, after: Counts) -> Self {
        let is_new = |before: &Counts| after.received < before.received / 2;
        let before = before.filter(|before| !is_new(before)).unwrap_or_default();
        let difference =
            |of: fn(&Counts) -> u64| of(&after).cast_signed() - of(&before).cast_signed();
        Self {
            received: difference(|counts| counts.received),
            delivered: difference(|counts| counts.delivered),
            lost: difference(|counts| counts.lost),
            discarded: difference(|counts| counts.discarded),
            lossy: difference(|counts| counts.lossy),
        }
    }

    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.discarded += other.discarded;
        self.lossy += other.lossy;
    }

    /// The share of what was decided that was delivered; `None` if nothing was decided.
    pub(super) fn arrived(&self) -> Option<f64> {
        let (delivered, lost) = (self.delivered.max(0) as f64, self.lost.max(0) as f64);
        (delivered + lost > 0.0).then(|| delivered / (delivered + lost))
    }
}

impl Step {
    /// Several steps as one.
    pub(super) fn sum(steps: &[Self]) -> Option<Self> {
        let (first, last) = (steps.first()?, steps.last()?);
        let mut sum = Self { to_ns: last.to_ns, ..*first };
        for step in &steps[1..] {
            sum.running_ns += step.running_ns;
            sum.change.add(&step.change);
        }
        Some(sum)
    }
}

/// The readings, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct History(VecDeque<Reading>);

impl History {
    pub(super) fn readings(&self) -> impl ExactSizeIterator<Item = &Reading> {
        self.0.iter()
    }

    pub(super) fn first(&self) -> Option<&Reading> {
        self.0.front()
    }

    pub(super) fn last(&self) -> Option<&Reading> {
        self.0.back()
    }

    /// Adds a reading. Earlier ones whose time is not before it were made by a clock that was
    /// ahead, and are dropped.
    pub(super) fn add(&mut self, reading: Reading) {
        while self.last().is_some_and(|last| last.time_ns >= reading.time_ns) {
            self.0.pop_back();
        }
        let now_ns = reading.time_ns;
        self.0.push_back(reading);
        self.thin(now_ns);
    }

    /// Keeps the first reading of each minute, of each hour further back, and none beyond that; and
    /// the last one. So what was counted since the very first reading stays known.
    fn thin(&mut self, now_ns: i64) {
        let step = |time_ns: i64| match now_ns.saturating_sub(time_ns) {
            age if age <= BY_MINUTE_NS => (true, time_ns.div_euclid(MINUTE_NS)),
            _ => (false, time_ns.div_euclid(HOUR_NS)),
        };
        let mut before = None;
        let mut left_out: Option<Reading> = None;
        let mut kept: VecDeque<Reading> = VecDeque::with_capacity(self.0.len());
        for mut reading in std::mem::take(&mut self.0) {
            let age = now_ns.saturating_sub(reading.time_ns);
            let current = Some(step(reading.time_ns));
            let is_first = std::mem::replace(&mut before, current) != current;
            if let (Some(before), Some(left_out)) = (kept.back(), left_out.take()) {
                reading.keep_rates(before, &left_out);
            }
            if age == 0 || (is_first && age <= BY_HOUR_NS) {
                kept.push_back(reading);
            } else if age > BY_MINUTE_NS {
                left_out = Some(reading);
            }
        }
        self.0 = kept;
    }

    /// The readings of a window that ends with `now`, a reading that need not be in the history. It
    /// begins with the last reading before it, or the first of all.
    fn window<'a>(&'a self, window: Window, now: &'a Reading) -> Vec<&'a Reading> {
        let from_ns = now.time_ns.saturating_sub(window.length_ns());
        let first = self.0.partition_point(|reading| reading.time_ns <= from_ns).saturating_sub(1);
        self.0.range(first..).chain([now]).collect()
    }

    /// Returns the steps of a component in a window that ends with `now`.
    pub(super) fn steps(&self, component: &Component, window: Window, now: &Reading) -> Vec<Step> {
        let readings = self.window(window, now);
        let pairs = readings.iter().zip(readings.iter().skip(1));
        pairs.map(|(before, after)| after.step(before, component)).collect()
    }

    /// Returns the rates at which records of a component came in, in a window that ends with `now`.
    pub(super) fn rates(&self, component: &Component, window: Window, now: &Reading) -> Rates {
        let readings = self.window(window, now);
        let mut sum = Rates::default();
        for (before, after) in readings.iter().zip(readings.iter().skip(1)) {
            sum.merge(&after.rates(before, component));
        }
        sum
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
