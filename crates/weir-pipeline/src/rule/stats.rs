//! Statistics of rules: hits, time and last match of each, and parse failures.
//!
//! Times are sampled: one record in [`SAMPLE_EVERY`] is measured and counts for that many.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use weir_expr::Meter;
use weir_host::Clock;

/// Measuring costs as much as a few rules: at this rate it is negligible.
pub(super) const SAMPLE_EVERY: u64 = 256;

/// Live statistics of one generation of rules, shared by all sources.
#[derive(Debug, Default)]
pub struct RuleStats {
    by_rule: Vec<Arc<RuleCounters>>,
    all: Arc<Totals>,
    since_ns: i64,
}

#[derive(Debug, Default)]
struct Totals {
    records: AtomicU64,
    unrouted: AtomicU64,
    time_ns: AtomicU64,
}

#[derive(Debug)]
struct RuleCounters {
    name: String,
    hits: AtomicU64,
    unparsed: AtomicU64,
    last_hit_ns: AtomicI64,
    time_ns: AtomicU64,
}

/// Statistics of one rule at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleMetrics {
    /// Name of the rule.
    pub name: String,
    /// Number of records that it matched.
    pub hits: u64,
    /// Number of these records that were in none of the formats that it parses.
    pub unparsed: u64,
    /// When it last matched, nanoseconds since 1970; `None` = not yet.
    pub last_hit_ns: Option<i64>,
    /// CPU time of this rule alone, nanoseconds.
    pub time_ns: u64,
}

/// The contribution of one batch.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Hits of each rule.
    pub(super) hits: Vec<u64>,
    /// Number of these records that each rule could not parse.
    pub(super) unparsed: Vec<u64>,
    pub(super) records: u64,
    pub(super) unrouted: u64,
}

impl Tally {
    pub(super) fn clear(&mut self, rules: usize) {
        for counts in [&mut self.hits, &mut self.unparsed] {
            counts.clear();
            counts.resize(rules, 0);
        }
        (self.records, self.unrouted) = (0, 0);
    }
}

impl RuleStats {
    /// Creates zeroed statistics for rules of these names.
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let metrics = |name| {
            Arc::new(RuleCounters {
                name,
                hits: AtomicU64::new(0),
                unparsed: AtomicU64::new(0),
                last_hit_ns: AtomicI64::new(i64::MIN),
                time_ns: AtomicU64::new(0),
            })
        };
        Self { by_rule: names.into_iter().map(metrics).collect(), ..Self::default() }
    }

    /// Continues the counts of an earlier generation, for each rule of the same name: exported
    /// counters never decrease, and the last batches of the earlier generation are not missed.
    pub(super) fn continue_from(&mut self, earlier: &Self, now_ns: i64) {
        self.since_ns = now_ns;
        self.all = earlier.all.clone();
        for metrics in &mut self.by_rule {
            if let Some(old) = earlier.by_rule.iter().find(|old| old.name == metrics.name) {
                *metrics = old.clone();
            }
        }
    }

    /// Adds the contribution of a batch.
    pub(super) fn add(&self, tally: &Tally, now_ns: i64) {
        let counts = tally.hits.iter().zip(&tally.unparsed);
        for (metrics, (hits, unparsed)) in self.by_rule.iter().zip(counts) {
            if *hits > 0 {
                metrics.hits.fetch_add(*hits, Ordering::Relaxed);
                metrics.unparsed.fetch_add(*unparsed, Ordering::Relaxed);
                metrics.last_hit_ns.fetch_max(now_ns, Ordering::Relaxed);
            }
        }
        self.all.records.fetch_add(tally.records, Ordering::Relaxed);
        self.all.unrouted.fetch_add(tally.unrouted, Ordering::Relaxed);
    }

    /// Returns when these rules came into force, nanoseconds since 1970.
    pub fn since_ns(&self) -> i64 {
        self.since_ns
    }

    /// Returns the number of records that rules were applied to.
    pub fn records(&self) -> u64 {
        load(&self.all.records)
    }

    /// Returns the number of records that no rule routed.
    pub fn unrouted(&self) -> u64 {
        load(&self.all.unrouted)
    }

    /// Returns the CPU time of matching all rules, nanoseconds.
    pub fn time_ns(&self) -> u64 {
        load(&self.all.time_ns)
    }

    /// Returns the statistics of every rule, in the order of the configuration.
    pub fn metrics(&self) -> Vec<RuleMetrics> {
        self.by_rule
            .iter()
            .map(|metrics| RuleMetrics {
                name: metrics.name.clone(),
                hits: load(&metrics.hits),
                unparsed: load(&metrics.unparsed),
                last_hit_ns: Some(metrics.last_hit_ns.load(Ordering::Relaxed))
                    .filter(|at| *at > i64::MIN),
                time_ns: load(&metrics.time_ns),
            })
            .collect()
    }
}

fn load(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

/// Measures the time of one record.
pub(super) struct Stopwatch<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) stats: &'a RuleStats,
}

impl Meter for Stopwatch<'_> {
    fn now_ns(&mut self) -> u64 {
        self.clock.monotonic().as_nanos() as u64
    }

    fn shared(&mut self, ns: u64) {
        self.stats.all.time_ns.fetch_add(ns * SAMPLE_EVERY, Ordering::Relaxed);
    }

    fn rule(&mut self, rule: usize, ns: u64) {
        self.shared(ns);
        if let Some(metrics) = self.stats.by_rule.get(rule) {
            metrics.time_ns.fetch_add(ns * SAMPLE_EVERY, Ordering::Relaxed);
        }
    }
}
