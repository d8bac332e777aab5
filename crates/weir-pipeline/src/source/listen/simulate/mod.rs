//! The simulator of intake: lanes and quotas of two listening sources with a real journal, on a disk
//! and a clock that are simulated, in one thread.
//!
//! Senders without acknowledgement send to one source, clients that wait for it and send again what
//! was not acknowledged to the other; some exceed their quota. The journal is full, destinations
//! hang, the disk fails and loses writes; sources are replaced while the process runs; processes are
//! killed, crash and end. Afterwards everything that was acknowledged has arrived at each
//! destination, what was lost without acknowledgement is a number, and every record that a quota
//! has discarded is counted for its key.
//!
//! `cargo xtask simulate --intake` runs many seeds, see [`weir_testkit::history`].

mod clients;
mod oracle;
mod plan;
mod process;
mod world;

use weir_testkit::history::{Seeds, Trace, attempt, shortest};

use plan::{Event, Settings};
use world::World;

fn run(settings: Settings, events: &[Event], trace: &Trace) -> Result<(), String> {
    attempt(|| World::run(settings, events, trace))
}

#[test]
fn what_was_acknowledged_has_arrived_and_what_was_lost_or_discarded_is_counted_exactly() {
    let report = Seeds::from_env(400).run(|seed, trace| {
        let settings = Settings::of(seed);
        let events = plan::events(seed, settings);
        let ended = run(settings, &events, trace);
        trace.lines().iter().for_each(|line| println!("{line}"));
        if ended.is_err() {
            println!("{}", shortest(seed, events, |events, trace| run(settings, events, trace)));
        }
        ended.is_ok()
    });
    println!("{}", report.summary);
    assert!(report.failed.is_empty(), "seeds {:?} fail", report.failed);
}

#[test]
fn equal_seeds_give_equal_histories() {
    for seed in 0..20 {
        let settings = Settings::of(seed);
        let events = plan::events(seed, settings);
        let [first, second] = [0, 1].map(|_| {
            let trace = Trace::kept();
            let ended = run(settings, &events, &trace);
            (trace.lines(), ended)
        });
        assert_eq!(first, second, "seed {seed}");
    }
}
