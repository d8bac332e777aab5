//! Measures the CPU time of rules per record of syslog: 90 regular expressions that never match and
//! 10 rules on the application, on records of 20 hosts with 5 applications each in random order.
//!
//! `cargo run --release -p weir-pipeline --example rules_cost [RECORDS_PER_BATCH...]`
#![expect(clippy::print_stdout, reason = "a measuring program")]

use weir_host::RealClock;
use weir_host::process::thread_cpu_ns;
use weir_model::{
    BatchBuilder, Facility, NewRecord, Position, Resource, Severity, SourceBook, StreamId,
};
use weir_pipeline::rule::{Keep, RulePlan, Rules, Subject, Workspace};

const HOSTS: usize = 20;
const APPLICATIONS: [&str; 5] = ["sshd", "cron", "kernel", "nginx", "postfix"];
const BODY_BYTES: usize = 200;
/// Time to measure each set of rules for.
const MEASURED_NS: u64 = 1_000_000_000;

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![1000, 100, 20] } else { asked };
    let regexps: Vec<String> =
        (0..90).map(|n| format!("/user{n} (accepted|denied) [a-z]+/")).collect();
    let names: Vec<String> =
        (0..10).map(|n| format!("app_name:{}", APPLICATIONS.get(n).unwrap_or(&"other"))).collect();
    let sets = [
        ("none", Vec::new()),
        ("10 on app_name", names.clone()),
        ("90 regular expressions", regexps.clone()),
        ("both", [&regexps[..], &names[..]].concat()),
        ("facility", vec!["facility:auth".to_owned()]),
        ("CIDR of peer", vec!["CIDR(peer,10.0.0.0/8)".to_owned()]),
        ("both and facility", [&regexps[..], &names[..], &["facility:auth".to_owned()]].concat()),
    ];
    println!("{:24}{:>10}{:>10}{:>10}", "rules", "batch", "ns", "hits");
    for (name, conditions) in &sets {
        for size in &sizes {
            let (ns, hits) = measure(conditions, *size);
            println!("{name:24}{size:>10}{ns:>10.0}{hits:>10.2}");
        }
    }
}

/// Returns nanoseconds and matching rules per record.
fn measure(conditions: &[String], records: usize) -> (f64, f64) {
    let plan = |(number, when): (usize, &String)| RulePlan {
        name: format!("rule {number}"),
        when: weir_expr::parse(when).expect("valid"),
        to: vec!["output".to_owned()],
        is_final: false,
        keep: Keep::All,
        actions: Vec::new(),
    };
    let plans: Vec<RulePlan> = conditions.iter().enumerate().map(plan).collect();
    let rules = Rules::new(1, &plans, &[0], |_| Some(1)).expect("compiles");
    let mut batches: Vec<BatchBuilder> = (0..8).map(|seed| batch(seed, records)).collect();
    let mut work = Workspace::new("syslog");
    let clock = RealClock::new();
    let mut run = || {
        for batch in &mut batches {
            let mut book = SourceBook { records: records as u64, ..SourceBook::default() };
            let mut subject = Subject {
                observed_ns: 0,
                batch,
                stream: StreamId(1),
                book: &mut book,
                clock: &clock,
                must_fit: true,
            };
            rules.apply(&mut work, &mut subject).expect("fits");
        }
    };
    for _ in 0..20 {
        run();
    }
    let start_ns = thread_cpu_ns();
    let mut rounds = 0;
    while thread_cpu_ns() - start_ns < MEASURED_NS {
        (0..10).for_each(|_| run());
        rounds += 10;
    }
    let count = (rounds * batches.len() * records) as f64;
    let ns = (thread_cpu_ns() - start_ns) as f64 / count;
    let hits: u64 = rules.stats().metrics().iter().map(|rule| rule.hits).sum();
    let seen = ((rounds + 20) * batches.len() * records) as f64;
    (ns, hits as f64 / seen)
}

/// Creates a batch of records as the decoder of syslog leaves them.
fn batch(seed: u64, records: usize) -> BatchBuilder {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut batch = BatchBuilder::new(Position::default());
    for number in 0..records {
        let (host, application) =
            (random.usize(..HOSTS), random.choice(APPLICATIONS).expect("some"));
        let resource = Resource::new()
            .with("host.name", format!("web-{host}.example.com"))
            .with("service.name", application)
            .with("network.peer.address", format!("10.0.0.{host}"));
        let key = (host * APPLICATIONS.len() + 1) as u64;
        let resource = batch.resource(key, &resource.encode()).expect("fits");
        let mut body = format!("session {number} opened by (uid=0)");
        while body.len() < BODY_BYTES {
            body.push(' ');
            (0..random.usize(2..9)).for_each(|_| body.push(random.lowercase()));
        }
        let head = format!("<38>Oct 11 22:14:15 web-{host} {application}[{number}]: ");
        let original = batch.append(format!("{head}{body}").as_bytes()).expect("fits");
        let body = original.start + head.len()..original.end;
        let process_id = body.start - 3 - number.to_string().len()..body.start - 3;
        let record = NewRecord {
            timestamp_ns: 1_700_000_000_000_000_000 + number as i64,
            end_offset: original.end as u64,
            body,
            severity: Severity::INFO,
            original,
            process_id,
            resource,
            facility: Facility::of_code(4),
            ..NewRecord::default()
        };
        batch.push(&record).expect("fits");
    }
    batch
}
