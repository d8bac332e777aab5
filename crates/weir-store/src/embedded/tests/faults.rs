//! Disks that are full, or fail.

use weir_testkit::{CallKind, Fault, FaultKind, FaultyDisk};

use super::world::{Process, assert_each_once, config, files, names};
use crate::embedded::write::threads::Wait;

#[test]
fn any_failed_disk_call_loses_nothing() {
    for kind in [FaultKind::NoSpace, FaultKind::Io] {
        for nth in 1.. {
            let (disk, mut files) = (FaultyDisk::new(), files(2, 40));
            let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
            disk.inject(Fault::new(kind).path("store").nth(nth));
            for _ in 0..2 {
                for (stream, file) in &mut files {
                    process.read(*stream, file, 20);
                }
                process.intake.step();
                process.clock.advance(std::time::Duration::from_secs(61));
                process.run_on();
            }
            assert_each_once(&process.records(), &files, "");
            assert_eq!(process.journal.ledger().cursors[0].in_flight, 0, "call {nth}");
            assert_eq!(process.store.metrics().error, None);
            assert_eq!(disk.flushes_after_failure(), 0, "call {nth}");
            let is_over = disk.faults().fired() == 0;
            drop(process);
            let disk = disk.kill();
            let process = Process::start(&disk, config(), &mut files, false).unwrap();
            assert_each_once(&process.records(), &files, "");
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn full_disk_stops_the_intake_until_there_is_room() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 300));
    let head = crate::embedded::store::StoreConfig { head_bytes: 32 * 1024, ..config() };
    let mut process = Process::start(&disk, head, &mut files, false).unwrap();
    disk.inject(Fault::new(FaultKind::NoSpace).on(CallKind::Write).path("seg-").forever());
    let mut rounds = 0;
    while process.intake.step() != Wait::Room && rounds < 1000 {
        process.read(1, files.get_mut(&1).unwrap(), 50);
        files.get_mut(&1).unwrap().written += 50;
        process.flusher.step();
        rounds += 1;
    }
    let metrics = process.store.metrics();
    assert!(metrics.is_full && metrics.error.is_some(), "{metrics:?}");
    assert!(metrics.head_rows > 0);
    disk.faults().clear();
    files.get_mut(&1).unwrap().written = files[&1].next;
    process.clock.advance(std::time::Duration::from_secs(61));
    process.run_on();
    process.clock.advance(std::time::Duration::from_secs(61));
    process.run_on();
    let metrics = process.store.metrics();
    assert!(!metrics.is_full && metrics.error.is_none(), "{metrics:?}");
    assert_each_once(&process.records(), &files, "");
    assert!(names(&disk, "tmp").is_empty());
}
