//! Rules in the whole pipeline: what a record costs with 1, 10, 100 and 1,000 of them, in two
//! orders. Everything goes to one blackhole, so nothing but reading and rules is measured.

use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::Options;
use super::bulk::{Run, one_run};
use crate::data::{self, Shape};
use crate::report::{Figure, Outcome, Target};

/// Words of the lines and of the patterns: what a rule looks for is rare, its parts are not.
const WORDS: [&str; 12] = [
    "account", "bucket", "cache", "checkout", "customer", "gateway", "invoice", "lease", "order",
    "payment", "session", "upstream",
];

/// A rule that every record matches.
const BUSIEST: &str = r"/ GET \/api\/v\d/";

/// Numbers of rules.
const COUNTS: [usize; 5] = [0, 1, 10, 100, 1000];

/// `rules-simple`: nine in ten a regular expression with a rare literal, the rest by service, the
/// busiest last.
pub(crate) fn simple(options: &Options) -> Result<Outcome> {
    rules(options, "rules with a rare literal, some by service", 1.5, |index| match index % 10 {
        9 => format!("service:svc-{index}"),
        _ => format!(r"/{} {} refused after \d+ attempts/", word(index), word(index / 7 + 3)),
    })
}

/// `rules-real`: as operators write them. Of ten rules three without regard to case, one without a
/// literal, one whose literal is in many records, two on fields.
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
    // In turns, and of each the run that cost least: what the machine does beside it differs more
    // from minute to minute than the sets do.
    let mut least: Vec<Option<Run>> = sets.iter().map(|_| None).collect();
    for _ in 0..options.runs.max(1) {
        for (set, least) in sets.iter().zip(&mut least) {
            let run = one_run(&path, "raw", &config(set), lines)?;
            eprintln!("  {} rules: {:.3} CPU-s", set.len(), run.cpu.total.as_secs_f64());
            if least.as_ref().is_none_or(|least| run.cpu.total < least.cpu.total) {
                *least = Some(run);
            }
        }
    }
    let least: Vec<Run> = least.into_iter().flatten().collect();
    let mut outcome = Outcome::new(format!("{lines} lines of 216 bytes in one file; {what}."));
    let ns = |run: &Run| run.cpu.total.as_secs_f64() * 1e9 / lines as f64;
    let [_none, one, .., all, reversed] = &least[..] else { bail!("no runs") };
    outcome.set_cpu(&all.cpu);
    outcome.figures.push(
        Figure::new("1,000 rules, as a multiple of one", ns(all) / ns(one))
            .target(Target::AtMost(most)),
    );
    outcome.figures.push(
        Figure::new(
            "difference in the other order, %",
            (ns(reversed) / ns(all) - 1.0).abs() * 100.0,
        )
        .target(Target::AtMost(5.0)),
    );
    for (count, run) in COUNTS.iter().zip(&least) {
        outcome.figures.push(Figure::new(&format!("ns per record with {count} rules"), ns(run)));
    }
    Ok(outcome)
}

/// So many rules; the busiest is the last.
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
