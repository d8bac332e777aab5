//! The machine stops at every single disk call; each record is stored exactly once.

use std::collections::BTreeMap;

use weir_testkit::{Fault, FaultKind, FaultyDisk};

use super::world::{File, Process, assert_each_once, config, count_records, files, records_of};
use crate::query::TimeRange;

/// One run of the process, cut short when the machine stops.
pub(super) type Script = fn(&mut Process, &mut BTreeMap<u64, File>);

/// Runs the script with the machine stopping at every disk call in turn, in several ways each, and
/// then continues until everything is stored.
pub(super) fn cut_everywhere(prepare: Script, script: Script, seeds: u64) {
    let prepared = || {
        let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
        let mut process = begin(&disk, &mut files);
        prepare(&mut process, &mut files);
        (disk, files, process)
    };
    cut_everywhere_and(prepared, script, seeds, go_on);
}

/// Starts without faults.
pub(super) fn begin(disk: &FaultyDisk, files: &mut BTreeMap<u64, File>) -> Process {
    Process::start(disk, config(), files, true).expect("no faults")
}

/// Checks the state after the machine stopped: at which call, with which seed.
pub(super) type Check = fn(&FaultyDisk, &mut BTreeMap<u64, File>, u64, u64);

/// Like [`cut_everywhere`], with any starting state and another check.
pub(super) fn cut_everywhere_and(
    prepared: impl Fn() -> (FaultyDisk, BTreeMap<u64, File>, Process),
    script: Script,
    seeds: u64,
    check: Check,
) {
    for nth in 1.. {
        let (disk, mut files, mut process) = prepared();
        disk.inject(Fault::new(FaultKind::Crash).nth(nth));
        script(&mut process, &mut files);
        let is_over = !disk.is_dead();
        drop(process);
        if is_over {
            return;
        }
        for seed in 0..seeds {
            let mut files = files.clone();
            let next = if seed == 0 { disk.kill() } else { disk.crash(seed * 1000 + nth) };
            check(&next, &mut files, nth, seed);
        }
    }
}

fn go_on(disk: &FaultyDisk, files: &mut BTreeMap<u64, File>, nth: u64, seed: u64) {
    let shown = format!("cut at call {nth}, seed {seed}");
    let Some(mut process) = Process::start(disk, config(), files, true) else {
        unreachable!("no more faults")
    };
    let found = records_of(&process.store.snapshot(TimeRange::ALL));
    assert!(count_records(&found).values().all(|count| *count == 1), "{shown}: stored twice");
    let damaged = process.store.metrics().damaged;
    assert!(damaged.is_empty(), "{shown}: {damaged:?}");
    for file in files.values_mut() {
        file.written += 5;
    }
    for _ in 0..3 {
        process.read_on(files);
    }
    process.clock.advance(std::time::Duration::from_secs(61));
    process.run_on();
    assert_each_once(&process.records(), files, &shown);
    assert_eq!(process.journal.ledger().cursors[0].in_flight, 0, "{shown}");
    assert_eq!(disk.flushes_after_failure(), 0);
}

fn nothing(_: &mut Process, _: &mut BTreeMap<u64, File>) {}

fn store_some(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    for (stream, file) in &mut *files {
        file.written += 10 * stream;
        process.read(*stream, file, 1000);
    }
    process.drain_other();
    process.flush();
    process.write_journal();
}

fn store_twice(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    store_some(process, files);
    store_some(process, files);
}

#[test]
fn first_flush_survives_a_crash_anywhere() {
    cut_everywhere(nothing, store_twice, 6);
}

#[test]
fn later_flush_survives_a_crash_anywhere() {
    cut_everywhere(store_twice, store_some, 6);
}
