//! The simulator of tailing: a real source with a real journal, on files, a disk and a clock that
//! are simulated, in one thread.
//!
//! Programs write, rotate, truncate, move and remove logs, also between any two calls of the source;
//! reports are lost; destinations hang; the disk of the journal fails and loses writes; processes
//! are killed, crash and end. Afterwards every line has arrived at each destination, or the books
//! say why it could not.
//!
//! `cargo xtask simulate --tail` runs many seeds, see [`weir_testkit::history`].

mod oracle;
mod plan;
mod process;
mod programs;
mod world;

use weir_testkit::history::{Seeds, Trace, attempt, shortest};

use plan::{Event, Settings};
use world::World;

fn run(settings: Settings, events: &[Event], trace: &Trace) -> Result<(), String> {
    attempt(|| World::new(settings, trace.clone()).run(events))
}

#[test]
fn every_line_has_arrived_at_each_destination_or_the_books_say_why_not() {
    let report = Seeds::from_env(300).run(|seed, trace| {
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
