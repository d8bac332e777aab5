//! Measures the cost of rules: CPU nanoseconds per record of 200 bytes, for growing numbers of
//! rules, in several orders, compared with `regex::RegexSet` and individual regexps on the same
//! data.
//!
//! `cargo bench -p weir-expr` prints the table; `-- real 1000` only that line.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod data;

use std::hint::black_box;

use data::{MESSAGE_BYTES, Random};
use weir_expr::{
    Body, Constants, Field, Fields, Hits, Limits, Reserved, Rule, RuleSet, Value, Visitor, parse,
};

/// Together they fit in a second-level cache, as does a batch that was just read.
const BATCHES: usize = 8;
const RECORDS: usize = 600;
const ROUNDS: usize = 60;

/// Consecutive records of one service.
struct Batch {
    service: String,
    arena: String,
}

impl Batch {
    fn messages(&self) -> impl Iterator<Item = &str> {
        (0..RECORDS).map(|index| &self.arena[index * MESSAGE_BYTES..][..MESSAGE_BYTES])
    }
}

struct Record<'a>(&'a str);

impl Fields for Record<'_> {
    fn body(&self) -> Body<'_> {
        Body { bytes: self.0.as_bytes(), json_escaped: false }
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        if *field == Field::Reserved(Reserved::Status) {
            let status = if self.0.len().is_multiple_of(7) { "error" } else { "info" };
            visit(Value::Text(status.as_bytes()));
        }
    }
}

impl Constants for Batch {
    fn constant(&self, field: &Field, visit: &mut Visitor<'_>) -> bool {
        match field {
            Field::Reserved(Reserved::Service) => visit(Value::Text(self.service.as_bytes())),
            Field::Tag(key) if key == "env" => visit(Value::Text(b"prod")),
            _ => return false,
        }
        true
    }
}

/// Returns the CPU time that this thread has used, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the minimum of several rounds, which excludes interference by other work on the machine.
fn per_record(rounds: usize, records: usize, mut round: impl FnMut()) -> f64 {
    round();
    let mut least = u64::MAX;
    for _ in 0..rounds {
        let start = cpu_ns();
        round();
        least = least.min(cpu_ns() - start);
    }
    least as f64 / records as f64
}

fn compile(queries: &[String]) -> RuleSet {
    let rule = |query: &String| Rule {
        name: query.clone(),
        when: parse(query).unwrap_or_else(|error| panic!("{error}")),
    };
    let rules: Vec<Rule> = queries.iter().map(rule).collect();
    RuleSet::compile(&rules, Limits::default()).expect("the rules compile")
}

fn measure(queries: &[String], batches: &[Batch]) -> (f64, usize) {
    let set = compile(queries);
    let mut scratch = set.scratch();
    let mut hits = Hits::default();
    let mut matched = 0;
    let ns = per_record(ROUNDS, BATCHES * RECORDS, || {
        matched = 0;
        for batch in batches {
            let mut pass = set.batch(batch, &mut scratch);
            for message in batch.messages() {
                pass.record(&Record(message), &mut hits);
                matched += black_box(hits.len());
            }
        }
    });
    (ns, matched)
}

/// Measures the regexps of the rules alone, by other means.
fn others(queries: &[String], batches: &[Batch]) -> (f64, f64) {
    let patterns: Vec<String> = queries
        .iter()
        .filter_map(|query| {
            let ignore = query.ends_with("/i");
            let inner = query.strip_prefix('/')?.trim_end_matches('i').strip_suffix('/')?;
            Some(format!("{}{}", if ignore { "(?i)" } else { "" }, inner.replace("\\/", "/")))
        })
        .collect();
    let few: Vec<&str> = batches.iter().take(4).flat_map(|b| b.messages().take(100)).collect();
    let set = regex::bytes::RegexSetBuilder::new(&patterns)
        .size_limit(1 << 30)
        .dfa_size_limit(1 << 28)
        .build()
        .expect("the patterns compile");
    let set_ns = per_record(1, few.len(), || {
        for message in &few {
            black_box(set.matches(message.as_bytes()).iter().count());
        }
    });
    let each: Vec<regex::bytes::Regex> =
        patterns.iter().filter_map(|p| regex::bytes::Regex::new(p).ok()).collect();
    let each_ns = per_record(1, few.len(), || {
        for message in &few {
            black_box(each.iter().filter(|regexp| regexp.is_match(message.as_bytes())).count());
        }
    });
    (set_ns, each_ns)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wants = |kind: &str, count: usize| {
        arguments.is_empty()
            || (arguments.iter().any(|a| a == kind)
                && (arguments.len() < 2 || arguments.contains(&count.to_string())))
    };
    let mut random = Random::new(3);
    let batches: Vec<Batch> = (0..BATCHES)
        .map(|_| Batch {
            service: data::service(&mut random),
            arena: (0..RECORDS).map(|_| data::message(&mut random)).collect(),
        })
        .collect();
    println!(
        "{:<14}{:>6}{:>12}{:>10}{:>12}{:>12}{:>14}{:>14}",
        "rules", "count", "ns/record", "hits", "reversed", "shuffled", "RegexSet", "one by one"
    );
    for (kind, make) in [("simple", data::simple as fn(usize) -> Vec<String>), ("real", data::real)]
    {
        for count in [1, 10, 100, 1000] {
            if !wants(kind, count) {
                continue;
            }
            let mut queries = make(count);
            let (ns, hits) = measure(&queries, &batches);
            queries.reverse();
            let (reversed, _) = measure(&queries, &batches);
            random.shuffle(&mut queries);
            let (shuffled, _) = measure(&queries, &batches);
            let skips = arguments.iter().any(|argument| argument == "alone");
            let (set, each) = if skips { (0.0, 0.0) } else { others(&queries, &batches) };
            println!(
                "{:<14}{count:>6}{ns:>12.1}{hits:>10}{reversed:>12.1}{shuffled:>12.1}{set:>14.1}{each:>14.1}",
                format!("rules-{kind}")
            );
        }
    }
}
