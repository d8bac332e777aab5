//! Histories of a simulator: lists of events that follow from a seed, run one after the other.
//!
//! Invariants: the effect of an event depends only on its own seed and the state of the world, so
//! any event can be left out, and the shortest history that still fails can be searched; a seed is
//! the same history on every machine.
//!
//! The environment determines what runs: `WEIR_SIMULATE_SEEDS` (a number of seeds),
//! `WEIR_SIMULATE_FROM` (the first one), `WEIR_SIMULATE_SEED` (a single one, whose events are
//! returned to be printed) and `WEIR_SIMULATE_FAILURES` (the number of failures after which to
//! stop).

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Instant;

use fastrand::Rng;

/// An event of a history.
#[derive(Debug, Clone, Copy)]
pub struct Event<W> {
    /// What happens.
    pub what: W,
    /// Determines how, together with the state of the world.
    pub seed: u64,
}

/// Returns one of them, with a probability in proportion to its weight.
pub fn pick<W: Copy>(rng: &mut Rng, weights: &[(W, u32)]) -> W {
    let mut at = rng.u32(..weights.iter().map(|(_, weight)| *weight).sum::<u32>());
    for (what, weight) in weights {
        if at < *weight {
            return *what;
        }
        at -= weight;
    }
    unreachable!("the number is below the sum of the weights")
}

/// What happened, line by line; kept only if it will be printed.
#[derive(Debug, Clone, Default)]
pub struct Trace(Option<Arc<Mutex<Vec<String>>>>);

impl Trace {
    /// Creates a trace that keeps its lines.
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// Adds a line, if lines are kept.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line());
        }
    }

    /// Returns the lines.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.0.as_ref().map(|lines| lines.lock());
        lines.map(|lines| lines.unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }
}

thread_local! {
    /// The message of the last panic of this thread, while its panics are expected.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps a history's failure instead of printing it: shortening it causes hundreds.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            SAID.with(|said| match &mut *said.borrow_mut() {
                Some(said) => *said = info.to_string(),
                None => before(info),
            });
        }));
    });
}

/// Runs a history; returns why it failed, if it did.
pub fn attempt(run: impl FnOnce()) -> Result<(), String> {
    keep_panics();
    SAID.with(|said| *said.borrow_mut() = Some(String::new()));
    let ended = catch_unwind(AssertUnwindSafe(run));
    let said = SAID.with(|said| said.borrow_mut().take()).unwrap_or_default();
    ended.map_err(|_| said)
}

/// Leaves out events, in ever smaller groups, as long as the rest still fails.
fn shrink<E: Clone>(events: Vec<E>, fails: impl Fn(&[E]) -> bool) -> Vec<E> {
    let mut left = events;
    let mut size = left.len().div_ceil(2);
    loop {
        let before = left.len();
        let mut at = 0;
        while at < left.len() {
            let end = (at + size).min(left.len());
            let candidate = [&left[..at], &left[end..]].concat();
            if fails(&candidate) {
                left = candidate;
            } else {
                at = end;
            }
        }
        if size <= 1 && left.len() == before {
            return left;
        }
        size = size.div_ceil(2);
    }
}

/// Returns the shortest part of a failing history that still fails, and its course.
pub fn shortest<E: Clone>(
    seed: u64,
    events: Vec<E>,
    run: impl Fn(&[E], &Trace) -> Result<(), String>,
) -> String {
    let all = events.len();
    let events = shrink(events, |events| run(events, &Trace::default()).is_err());
    let trace = Trace::kept();
    let why = run(&events, &trace).expect_err("the history fails again");
    format!(
        "seed {seed} fails with {} of its {all} events:\n{}\n{why}",
        events.len(),
        trace.lines().join("\n")
    )
}

/// Runs the histories of the first `count` seeds, or of those that the environment names, and
/// prints those that fail in their shortest form. `plan` returns the settings and the events of a
/// seed.
///
/// # Panics
///
/// Panics if a history fails.
#[expect(clippy::print_stdout, reason = "a part of tests, which print the failing history")]
pub fn check<S: Copy, E: Clone>(
    count: u64,
    plan: impl Fn(u64) -> (S, Vec<E>),
    run: impl Fn(S, &[E], &Trace),
) {
    let report = Seeds::from_env(count).run(|seed, trace| {
        let (settings, events) = plan(seed);
        let run = |events: &[E], trace: &Trace| attempt(|| run(settings, events, trace));
        let ended = run(&events, trace);
        trace.lines().iter().for_each(|line| println!("{line}"));
        if ended.is_err() {
            println!("{}", shortest(seed, events, run));
        }
        ended.is_ok()
    });
    println!("{}", report.summary);
    assert!(report.failed.is_empty(), "seeds {:?} fail", report.failed);
}

/// Checks that each of the first seeds gives the same history twice.
///
/// # Panics
///
/// Panics if one does not.
pub fn check_repeatable<S: Copy, E: Clone>(
    count: u64,
    plan: impl Fn(u64) -> (S, Vec<E>),
    run: impl Fn(S, &[E], &Trace),
) {
    for seed in 0..count {
        let (settings, events) = plan(seed);
        let [first, second] = [0, 1].map(|_| {
            let trace = Trace::kept();
            let ended = attempt(|| run(settings, &events, &trace));
            (trace.lines(), ended)
        });
        assert_eq!(first, second, "seed {seed}");
    }
}

/// Which seeds to run.
#[derive(Debug, Clone)]
pub struct Seeds {
    /// The seeds.
    pub range: std::ops::Range<u64>,
    /// Whether the events of each are kept.
    pub is_traced: bool,
    failures_max: usize,
}

/// The results of the seeds.
#[derive(Debug)]
pub struct SeedsReport {
    /// The seeds that failed.
    pub failed: Vec<u64>,
    /// How many ran, and how long that took.
    pub summary: String,
}

impl Seeds {
    /// Reads the environment; without it, the first `count` seeds run.
    pub fn from_env(count: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let single = number("WEIR_SIMULATE_SEED");
        let first = single.or(number("WEIR_SIMULATE_FROM")).unwrap_or(0);
        let count =
            if single.is_some() { 1 } else { number("WEIR_SIMULATE_SEEDS").unwrap_or(count) };
        let failures_max = number("WEIR_SIMULATE_FAILURES").unwrap_or(1) as usize;
        Self { range: first..first + count, is_traced: single.is_some(), failures_max }
    }

    /// Runs them one after the other, until too many have failed. `run` returns true if the seed
    /// has passed.
    pub fn run(&self, mut run: impl FnMut(u64, &Trace) -> bool) -> SeedsReport {
        let (mut failed, mut done) = (Vec::new(), 0_u64);
        let started = Instant::now();
        for seed in self.range.clone() {
            let trace = if self.is_traced { Trace::kept() } else { Trace::default() };
            done += 1;
            if !run(seed, &trace) {
                failed.push(seed);
            }
            if failed.len() >= self.failures_max {
                break;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        let rate = done as f64 / seconds;
        let summary = format!("{done} seeds in {seconds:.1} s: {rate:.0}/s on one core");
        SeedsReport { failed, summary }
    }
}
