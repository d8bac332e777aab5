//! Rules in the whole pipeline: the cost per record with 1, 10, 100 and 1,000 of them, in two
//! orders. Everything goes to one blackhole output, so only reading and rules are measured.
//!
//! Other guests of the host change the speed of a virtual machine by a factor of 1.8, for
//! milliseconds or for minutes. Processes that run one after the other cannot be compared then. So
//! one process per set runs at the same time, each for a moment while the others are paused: any
//! disturbance affects all of them. Ratios are computed per round; the median counts.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::Options;
use super::bulk::{Run, Running};
use crate::clock;
use crate::data::{self, Shape};
use crate::report::{Measurement, Outcome, Target};

/// Words of the lines and of the patterns: what a rule searches for is rare, its parts are not.
const WORDS: [&str; 12] = [
    "account", "bucket", "cache", "checkout", "customer", "gateway", "invoice", "lease", "order",
    "payment", "session", "upstream",
];

/// A rule that every record matches.
const BUSIEST: &str = r"/ GET \/api\/v\d/";

/// Numbers of rules.
const COUNTS: [usize; 5] = [0, 1, 10, 100, 1000];

/// `rules-simple`: nine in ten rules are a regular expression with a rare literal, the others match
/// by service, and the busiest is the last.
pub(crate) fn simple(options: &Options) -> Result<Outcome> {
    rules(options, "rules with a rare literal, some by service", 1.5, |index| match index % 10 {
        9 => format!("service:svc-{index}"),
        _ => format!(r"/{} {} refused after \d+ attempts/", word(index), word(index / 7 + 3)),
    })
}

/// `rules-real`: as operators write them. Of ten rules, three are case-insensitive, one has no
/// literal, one has a literal that occurs in many records, two match on fields.
pub(crate) fn real(options: &Options) -> Result<Outcome> {
    rules(options, "rules as operators write them", 4.0, |index| {
        let (one, other) = (word(index), word(index / 5 + 1));
        match index % 10 {
            0..=2 => format!(r"/{one} {other} rejected by \w+/i"),
            3 => format!(r"/\b{}\d{{5}}[a-f]{{3}}\b/", 10 + index % 90),
            4 => format!(r"/status=200 .*{one}_{other}/"),
            5 => format!("service:svc-{index}"),
            6 => format!("status:error service:svc-{index} {one}"),
            7 => format!("\"{one} lookup missed\" -{other}"),
            _ => format!(r"/{one} {other} failed: E{}/", 1000 + index),
        }
    })
}

fn word(index: usize) -> &'static str {
    WORDS[index % WORDS.len()]
}

fn rules(
    options: &Options,
    what: &str,
    most: f64,
    when: impl Fn(usize) -> String,
) -> Result<Outcome> {
    let lines = options.scaled(4_000_000);
    let path = data::file(Shape::Raw, 216, lines)?;
    let mut sets: Vec<Vec<String>> = COUNTS.map(|count| rules_of(count, &when)).into();
    let reversed = sets[COUNTS.len() - 1].iter().rev().cloned().collect();
    sets.push(reversed);
    let (one, all, other_order) = (1, COUNTS.len() - 1, COUNTS.len());
    let mut rounds = Vec::new();
    for _ in 0..options.runs.max(1) {
        let round = in_turns(&path, &sets, lines)?;
        let ns: Vec<f64> = round.iter().map(|run| ns_per_record(run, lines)).collect();
        let text: Vec<String> = ns.iter().map(|ns| format!("{ns:.0}")).collect();
        eprintln!("  ns per record with {COUNTS:?} and reversed: {}", text.join(" "));
        rounds.push((ns, round));
    }
    rounds.sort_by(|(a, _), (b, _)| a[all].total_cmp(&b[all]));
    let ratio = |of: usize, to: usize| median(rounds.iter().map(|(ns, _)| ns[of] / ns[to]));
    let mut outcome = Outcome::new(format!("{lines} lines of 216 bytes in one file; {what}."));
    outcome.set_cpu(&rounds[rounds.len() / 2].1[all].cpu);
    outcome.measurements.push(
        Measurement::new("1,000 rules, as a multiple of one", ratio(all, one))
            .target(Target::AtMost(most)),
    );
    outcome.measurements.push(
        Measurement::new(
            "difference in the other order, %",
            (ratio(other_order, all) - 1.0).abs() * 100.0,
        )
        .target(Target::AtMost(5.0)),
    );
    for (set, count) in COUNTS.iter().enumerate() {
        let ns = median(rounds.iter().map(|(ns, _)| ns[set]));
        outcome
            .measurements
            .push(Measurement::new(&format!("ns per record with {count} rules"), ns));
    }
    Ok(outcome)
}

/// How long one process runs while the others wait.
const TURN: Duration = Duration::from_millis(10);

/// Does a run with each set, all at the same time; only one of them proceeds at any moment.
fn in_turns(path: &Path, sets: &[Vec<String>], lines: u64) -> Result<Vec<Run>> {
    let bytes = path.metadata()?.len();
    let mut waiting = Vec::new();
    for (set, rules) in sets.iter().enumerate() {
        let running = Running::start(path, "raw", &config(rules))?;
        running.weir.process().pause()?;
        waiting.push((set, running));
    }
    let mut runs: Vec<(usize, Run)> = Vec::new();
    while !waiting.is_empty() {
        // In alternating order, so that none always follows the same one.
        waiting.reverse();
        for (set, running) in std::mem::take(&mut waiting) {
            let process = running.weir.process();
            process.resume()?;
            clock::wait(TURN);
            if process.bytes_read()? >= bytes {
                runs.push((set, running.finish(lines)?));
            } else {
                process.pause()?;
                waiting.push((set, running));
            }
        }
    }
    runs.sort_by_key(|(set, _)| *set);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

fn ns_per_record(run: &Run, lines: u64) -> f64 {
    run.cpu.total.as_secs_f64() * 1e9 / lines as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns this many rules; the busiest is the last.
fn rules_of(count: usize, when: impl Fn(usize) -> String) -> Vec<String> {
    let rare = (1..count).map(when);
    rare.chain((count > 0).then(|| BUSIEST.to_owned())).collect()
}

fn config(rules: &[String]) -> String {
    let mut config = String::from("[output.bench]\ntype = \"blackhole\"\n");
    for (index, when) in rules.iter().enumerate() {
        // Writing into a String cannot fail.
        let _ = write!(config, "[[rule]]\nname = \"r{index}\"\nwhen = '{when}'\n");
    }
    config
}
