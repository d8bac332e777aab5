//! Power cuts and kills at random moments, checked against one model: whatever the seed, nothing
//! that was confirmed is lost, nothing that was durably committed is delivered twice, every stream
//! keeps its order, and the books balance.
//!
//! A seed is the same history on every machine. `WEIR_CRASH_SEEDS` sets the number of seeds,
//! `WEIR_CRASH_FROM` the first seed, and `WEIR_CRASH_SEED` runs a single one; a seed that fails
//! prints its history.

#[path = "../support/mod.rs"]
mod support;

mod world;

use world::{Settings, Trace, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn run_seeds(default_count: u64, settings: &Settings) {
    let first = number("WEIR_CRASH_FROM").unwrap_or(0);
    let count = number("WEIR_CRASH_SEEDS").unwrap_or(default_count);
    let seeds = number("WEIR_CRASH_SEED").map_or(first..first + count, |seed| seed..seed + 1);
    for seed in seeds {
        // A panic prints the name of the thread first.
        let (ended, history) = run_seed(seed, settings);
        assert!(ended, "seed {seed} failed after\n{}", history.join("\n"));
    }
}

/// Returns whether the history ended well, and what happened in it.
fn run_seed(seed: u64, settings: &Settings) -> (bool, Vec<String>) {
    let (settings, trace) = (settings.clone(), Trace::default());
    let noted = trace.clone();
    let run = std::thread::Builder::new()
        .name(format!("seed {seed} of {settings:?}"))
        .spawn(move || World::run(seed, &settings, &noted));
    let ended = run.expect("a thread").join();
    (ended.is_ok(), trace.lines())
}

#[test]
fn equal_seeds_give_equal_histories() {
    for seed in 0..100 {
        let settings = Settings { files: 3, unlink: true, connections: 2, removal: false };
        let [(_, first), (_, second)] = [0, 1].map(|_| run_seed(seed, &settings));
        let parted = first.iter().zip(&second).position(|(a, b)| a != b);
        let before = parted.map_or(&[][..], |at| &first[..=at]).join("\n");
        assert_eq!(first, second, "seed {seed} diverges after\n{before}");
    }
}

#[test]
fn files_lose_nothing_and_are_counted_exactly_once_over_any_crash() {
    run_seeds(2000, &Settings { files: 3, unlink: false, connections: 0, removal: false });
}

#[test]
fn what_was_acknowledged_survives_any_crash() {
    run_seeds(1500, &Settings { files: 0, unlink: false, connections: 3, removal: false });
}

#[test]
fn files_that_are_deleted_beside_connections_survive_any_crash() {
    run_seeds(2000, &Settings { files: 3, unlink: true, connections: 2, removal: false });
}

#[test]
fn a_destination_that_is_missing_for_a_while_finds_what_is_owed_to_it() {
    run_seeds(1500, &Settings { files: 3, unlink: true, connections: 2, removal: true });
}
