//! The simulator of intake: lanes and quotas of two listening sources with a real journal, on a
//! disk and a clock that are simulated, in one thread.
//!
//! Senders without acknowledgement send to one source, clients that wait for it and send again what
//! was not acknowledged to the other; some exceed their quota. The journal is full, destinations
//! hang, the disk fails and loses writes; sources are replaced while the process runs; processes
//! are killed, crash and end. Afterwards everything that was acknowledged has arrived at each
//! destination, what was lost without acknowledgement is a number, and every record that a quota
//! has discarded is counted for its key.
//!
//! `cargo xtask simulate --intake` runs many seeds, see [`weir_testkit::history`].

mod clients;
mod oracle;
mod plan;
mod process;
mod world;

use weir_testkit::history::{self, Trace};

use plan::{Event, Settings};
use world::World;

fn plan(seed: u64) -> (Settings, Vec<Event>) {
    let settings = Settings::of(seed);
    (settings, plan::events(seed, settings))
}

fn run(settings: Settings, events: &[Event], trace: &Trace) {
    World::run(settings, events, trace);
}

#[test]
fn what_was_acknowledged_has_arrived_and_what_was_lost_or_discarded_is_counted_exactly() {
    history::check(400, plan, run);
}

#[test]
fn equal_seeds_give_equal_histories() {
    history::check_repeatable(20, plan, run);
}
