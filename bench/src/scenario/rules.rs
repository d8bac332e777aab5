//! Rules in the whole pipeline: what a record costs with 1, 10, 100 and 1,000 of them, in two
//! orders. Everything goes to one blackhole, so nothing but reading and rules is measured.

use std::fmt::Write as _;

use anyhow::Result;

use super::Options;
use super::bulk::{median_of, one_run};
use crate::data::{self, Shape};
use crate::report::{Figure, Outcome, Target};

/// Words of the lines and of the patterns: what a rule looks for is rare, its parts are not.
const WORDS: [&str; 12] = [
    "account", "bucket", "cache", "checkout", "customer", "gateway", "invoice", "lease", "order",
    "payment", "session", "upstream",
];

/// Numbers of rules.
const COUNTS: [usize; 4] = [1, 10, 100, 1000];

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
    let measure = |rules: &[String]| {
        let config = config(rules);
        median_of(options, || one_run(&path, "raw", &config, lines))
    };
    let cost = |cpu: f64| cpu * 1e9 / lines as f64;
    let none = measure(&[])?.cpu.total.as_secs_f64();
    let mut outcome = Outcome::new(format!("{lines} lines of 216 bytes in one file; {what}."));
    outcome.figures.push(Figure::new("ns per record without rules", cost(none)));
    let mut first = 0.0;
    for count in COUNTS {
        // The busiest is the last.
        let mut all: Vec<String> = (1..count).map(&when).collect();
        all.push("GET".to_owned());
        let run = measure(&all)?;
        let cpu = run.cpu.total.as_secs_f64();
        if count == 1 {
            first = cpu;
        }
        let figure = format!("ns per record with {count} rules");
        outcome.figures.push(Figure::new(&figure, cost(cpu)));
        if count == COUNTS[COUNTS.len() - 1] {
            all.reverse();
            let reversed = measure(&all)?.cpu.total.as_secs_f64();
            outcome.set_cpu(&run.cpu);
            outcome.figures.insert(
                0,
                Figure::new("1,000 rules, as a multiple of one", cpu / first)
                    .target(Target::AtMost(most)),
            );
            let order = (reversed - cpu).abs() / cpu * 100.0;
            outcome.figures.push(
                Figure::new("difference in the other order, %", order).target(Target::AtMost(5.0)),
            );
        }
    }
    Ok(outcome)
}

fn config(rules: &[String]) -> String {
    let mut config = String::from("[output.bench]\ntype = \"blackhole\"\n");
    for (index, when) in rules.iter().enumerate() {
        // Writing into a String cannot fail.
        let _ = write!(config, "[[rule]]\nname = \"r{index}\"\nwhen = '{when}'\n");
    }
    config
}
