//! The simulator of tailing: a real source with a real journal, on files, a disk and a clock that
//! are simulated, in one thread.
//!
//! Programs write, rotate, truncate, move and remove logs, also between any two calls of the
//! source; reports are lost; destinations hang; the disk of the journal fails and loses writes;
//! processes are killed, crash and end. Afterwards every line has arrived at each destination, or
//! the books say why it could not.
//!
//! `cargo xtask simulate --tail` runs many seeds, see [`weir_testkit::history`].

mod oracle;
mod plan;
mod process;
mod programs;
mod world;

use weir_testkit::history::{self, Trace};

use super::super::parked::WOKEN;
use plan::{Event, Settings};
use world::World;

fn plan(seed: u64) -> (Settings, Vec<Event>) {
    let settings = Settings::of(seed);
    (settings, plan::events(seed, settings))
}

fn run(settings: Settings, events: &[Event], trace: &Trace) {
    World::new(settings, trace.clone()).run(events);
}

#[test]
fn every_line_has_arrived_at_each_destination_or_the_books_say_why_not() {
    history::check(300, plan, run);
}

#[test]
fn equal_seeds_give_equal_histories() {
    history::check_repeatable(20, plan, run);
}

#[test]
fn files_are_parked_and_woken_in_most_histories() {
    const SEEDS: u64 = 50;
    for seed in 0..SEEDS {
        let (settings, events) = plan(seed);
        run(settings, &events, &Trace::default());
    }
    let woken = WOKEN.get();
    assert!(woken > SEEDS, "{woken} parked files were woken in {SEEDS} histories");
}
