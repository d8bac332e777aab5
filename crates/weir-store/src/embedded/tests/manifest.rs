//! The manifest is rewritten because it has become long, while a deletion is pending.

use std::collections::BTreeMap;
use std::path::Path;

use weir_testkit::{Fault, FaultKind, FaultyDisk};

use super::crash::{begin, cut_everywhere_and};
use super::deletion::{check_secrets, delete_secrets, list, split};
use super::world::{DIR, File, Process, SECRET_STREAM, files};
use crate::query::TimeRange;

type World = (FaultyDisk, BTreeMap<u64, File>, Process);

/// Creates a store with few records whose manifest is rewritten as soon as most of it is history.
fn stored_a_little() -> World {
    let (disk, mut files) = (FaultyDisk::new(), files(SECRET_STREAM, 0));
    let mut process = begin(&disk, &mut files);
    process.flusher.manifest.set_bytes_min(0);
    add_to(&mut process, &mut files, SECRET_STREAM);
    assert!(process.flush());
    process.write_journal();
    (disk, files, process)
}

/// Appends a little to the files up to `last`.
fn add_to(process: &mut Process, files: &mut BTreeMap<u64, File>, last: u64) {
    for (stream, file) in files.range_mut(..=last) {
        file.written += 3;
        process.read(*stream, file, 1000);
    }
    process.drain_other();
}

/// Returns the newest generation of the manifest, and how many there are.
fn generations(process: &Process) -> (Option<String>, usize) {
    let names = process.store.shared.disk.list(Path::new(DIR)).unwrap_or_default();
    let logs = names.iter().filter(|path| path.extension().is_some_and(|e| e == "log"));
    (logs.clone().max().map(|path| path.display().to_string()), logs.count())
}

/// Deletes the secrets and keeps writing while a reader still uses them. Returns false on failure.
fn write_much(process: &mut Process, files: &mut BTreeMap<u64, File>) -> bool {
    let reader = process.store.snapshot(TimeRange::ALL);
    delete_secrets(process, files);
    let before = generations(process).0;
    let mut is_well = true;
    for _ in 0..10 {
        add_to(process, files, SECRET_STREAM - 1);
        is_well &= process.flush();
    }
    let is_pending = list(process).iter().any(|entry| entry.done_ns.is_none());
    let (newest, count) = generations(process);
    is_well &= is_pending && newest > before && count == 2;
    drop(reader);
    is_well & process.run()
}

#[test]
fn long_manifest_is_rewritten_with_the_same_contents() {
    let (disk, mut files, mut process) = stored_a_little();
    assert!(write_much(&mut process, &mut files));
    drop(process);
    check_secrets(&disk.kill(), &mut files, 0, 0);
}

fn write_until_the_machine_stops(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    write_much(process, files);
}

#[test]
fn manifest_rewrite_survives_a_crash_anywhere() {
    cut_everywhere_and(stored_a_little, write_until_the_machine_stops, 4, check_secrets);
}

#[test]
fn any_failed_manifest_call_loses_nothing() {
    for kind in [FaultKind::NoSpace, FaultKind::Io] {
        for nth in 1.. {
            let (disk, mut files, mut process) = stored_a_little();
            disk.inject(Fault::new(kind).path("MANIFEST").nth(nth));
            write_much(&mut process, &mut files);
            process.run_on();
            assert_eq!(split(&process), (0, 2 * 3 * 12), "call {nth}");
            assert_eq!(disk.flushes_after_failure(), 0, "call {nth}");
            let has_failed = disk.faults().fired() > 0;
            drop(process);
            check_secrets(&disk.kill(), &mut files, nth, 0);
            if !has_failed {
                break;
            }
        }
    }
}
