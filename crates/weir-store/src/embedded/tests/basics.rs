//! Behavior when nothing goes wrong.

use std::time::Duration;

use weir_model::StreamId;
use weir_testkit::FaultyDisk;

use super::world::{Process, assert_each_once, config, count_records, files, names};
use crate::embedded::QueryEngine;
use crate::embedded::store::StoreConfig;
use crate::embedded::write::threads::Wait;
use crate::query::{
    Access, Budget, CalculatedField, DeleteError, DeletionRequest, Filter, LogStore, Order,
    SearchRequest, TimeRange, Units,
};

fn start(
    disk: &FaultyDisk,
    files: &mut std::collections::BTreeMap<u64, super::world::File>,
) -> Process {
    Process::start(disk, config(), files, false).unwrap()
}

#[test]
fn records_are_visible_at_once_and_stored_once() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 50));
    let mut process = start(&disk, &mut files);
    for (stream, file) in &mut files {
        process.read(*stream, file, 30);
    }
    assert!(matches!(process.intake.step(), Wait::Records(_)));
    assert_eq!(process.records().len(), 60);
    assert!(process.flush());
    assert_eq!(process.records().len(), 60);
    for (stream, file) in &mut files {
        process.read(*stream, file, 20);
    }
    process.intake.step();
    let snapshot = process.store.snapshot(TimeRange::ALL);
    assert_eq!((snapshot.chunks.len(), snapshot.segments.len()), (1, 1));
    assert_each_once(&process.records(), &files, "");
    let ledger = process.journal.ledger();
    assert_eq!((ledger.cursors[0].book.delivered, ledger.cursors[0].in_flight), (60, 40));
    // An old snapshot does not change.
    assert!(process.flush());
    assert_eq!(super::world::records_of(&snapshot).len(), 100);
    assert_eq!(process.journal.ledger().cursors[0].in_flight, 0);
}

#[test]
fn restart_keeps_stored_records_and_reads_the_others_again() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 100));
    let mut process = start(&disk, &mut files);
    process.read(1, files.get_mut(&1).unwrap(), 40);
    assert!(process.flush());
    process.read(1, files.get_mut(&1).unwrap(), 40);
    process.intake.step();
    drop(process);
    let disk = disk.kill();
    let mut process = start(&disk, &mut files);
    assert_eq!(files[&1].next, 40);
    assert_eq!(process.records().len(), 40);
    process.read(1, files.get_mut(&1).unwrap(), 60);
    assert!(process.flush());
    assert_each_once(&process.records(), &files, "");
}

#[test]
fn stored_records_are_skipped_when_sent_again() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 100));
    let mut process = start(&disk, &mut files);
    process.read(1, files.get_mut(&1).unwrap(), 40);
    process.intake.step();
    process.clock.advance(Duration::from_secs(61));
    process.intake.step();
    // The manifest is written, and the machine stops before the journal is notified.
    process.flusher.step();
    assert_eq!(names(&disk, "parquet").len(), 1);
    drop(process);
    let disk = disk.kill();
    let mut process = start(&disk, &mut files);
    assert_eq!(files[&1].next, 0, "the journal starts from the beginning");
    process.read(1, files.get_mut(&1).unwrap(), 70);
    assert!(process.flush());
    process.read(1, files.get_mut(&1).unwrap(), 30);
    assert!(process.flush());
    assert_each_once(&process.records(), &files, "");
    let metrics = process.store.metrics();
    assert_eq!((metrics.skipped_rows, metrics.received_rows, metrics.rows), (40, 100, 100));
    assert_eq!(process.journal.ledger().cursors[0].book.delivered, 100);
}

#[test]
fn full_head_stops_the_intake_and_loses_nothing() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 20_000));
    let head_bytes = 512 * 1024;
    let config = StoreConfig { head_bytes, ..config() };
    let mut process = Process::start(&disk, config, &mut files, false).unwrap();
    let (mut was_full, mut had_spare) = (false, false);
    while files.values().any(|file| file.next < file.written) {
        for (stream, file) in &mut files {
            process.read(*stream, file, 500);
        }
        if process.intake.step() == Wait::Room {
            was_full = true;
            assert!(process.store.metrics().is_full);
            process.flusher.step();
            had_spare |= process.store.shared.queue().spare.is_some();
        }
    }
    assert!(was_full && had_spare);
    assert!(process.flush());
    for (stream, file) in &mut files {
        file.written += 1;
        process.read(*stream, file, 1);
    }
    assert!(process.flush());
    assert!(process.store.shared.queue().spare.is_none(), "memory is kept needlessly");
    assert_each_once(&process.records(), &files, "");
    let metrics = process.store.metrics();
    assert!(metrics.flushes > 5 && !metrics.is_full, "{metrics:?}");
}

#[test]
fn ended_streams_are_removed_from_the_manifest() {
    let (disk, mut files) = (FaultyDisk::new(), files(20, 5));
    let mut process = start(&disk, &mut files);
    for (stream, file) in &mut files {
        process.read(*stream, file, 5);
    }
    assert!(process.flush());
    assert_eq!(process.flusher.contents().positions.len(), 20);
    for stream in 1..=19 {
        process.journal.close_stream(StreamId(stream));
    }
    let file = files.get_mut(&20).unwrap();
    file.written = 10;
    process.read(20, file, 5);
    assert!(process.flush());
    assert_eq!(process.flusher.contents().positions.len(), 1);
    assert_each_once(&process.records(), &files, "");
}

#[test]
fn stream_unknown_to_the_journal_is_new() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 30));
    let mut process = start(&disk, &mut files);
    process.read(1, files.get_mut(&1).unwrap(), 30);
    assert!(process.flush());
    process.journal.close_stream(StreamId(1));
    process.write_journal();
    drop(process);
    let disk = disk.kill();
    let mut process = start(&disk, &mut files);
    // Whatever has this name now, nothing of it may be skipped.
    assert_eq!(files[&1].next, 0);
    process.read(1, files.get_mut(&1).unwrap(), 30);
    assert!(process.flush());
    assert!(count_records(&process.records()).values().all(|count| *count == 2));
}

#[test]
fn deleted_file_causes_an_early_flush() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 30));
    let mut process = start(&disk, &mut files);
    process.read(1, files.get_mut(&1).unwrap(), 20);
    process.intake.step();
    process.delete(1, files.get_mut(&1).unwrap());
    assert!(process.run());
    assert_eq!(process.store.metrics().flushes, 1, "without waiting for the interval");
    drop(process);
    let disk = disk.crash(7);
    let process = start(&disk, &mut files);
    assert_each_once(&process.records(), &files, "");
}

#[test]
fn closing_the_journal_flushes_the_head() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 40));
    let mut process = start(&disk, &mut files);
    for (stream, file) in &mut files {
        process.read(*stream, file, 40);
    }
    process.journal.close();
    assert!(process.run());
    assert_eq!(process.intake.step(), Wait::Ended);
    assert_eq!(process.journal.ledger().cursors[0].in_flight, 0);
    assert_each_once(&process.records(), &files, "");
    assert_eq!(names(&disk, "parquet").len(), 1);
    assert_eq!(names(&disk, "tmp").len(), 0);
}

#[test]
fn configured_calculated_fields_apply_to_every_query() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 3));
    let mut process = start(&disk, &mut files);
    process.read(1, files.get_mut(&1).unwrap(), 3);
    process.intake.step();
    let calculated = |text| CalculatedField {
        path: "answer".to_owned(),
        formula: weir_expr::Formula::parse(text).unwrap(),
    };
    let units = Units::new([("took".to_owned(), weir_expr::Unit::Millisecond)].into());
    let engine = QueryEngine::new(process.store.clone())
        .with_calculated_fields(vec![calculated("40 + 2")])
        .with_units(units);
    let budget = Budget::new(std::sync::Arc::new(process.clock.clone()), None, usize::MAX);
    let count = |query, calculated_fields| {
        let query = weir_expr::parse(query).unwrap();
        let filter = Filter { query, calculated_fields, ..Filter::all(Access::all()) };
        let request = SearchRequest { filter, order: Order::default(), limit: 9, after: None };
        engine.search(&request, &budget).unwrap().records.len()
    };
    assert_eq!((count("@answer:42", vec![]), count("@answer:41", vec![])), (3, 0));
    assert_eq!(count("@answer:41", vec![calculated("41")]), 3, "the query's own field wins");
    let fields = engine.fields(TimeRange::ALL, &Access::all(), &budget).unwrap().fields;
    assert!(fields.iter().any(|field| field.name == "@answer"), "{fields:?}");
    let delete = |query| {
        let query = weir_expr::parse(query).unwrap();
        let request = DeletionRequest { query, range: TimeRange::ALL, access: Access::all() };
        engine.delete(&request, Duration::ZERO)
    };
    assert_eq!(delete("@answer:42"), Err(DeleteError::CalculatedField("answer".to_owned())));
    let declared = DeleteError::DeclaredUnit("took".to_owned());
    assert_eq!(delete("a OR NOT @took:>5ms"), Err(declared), "it could change meanwhile");
    assert_eq!(delete("other"), Err(DeleteError::NotRunning), "passed on to the store");
}

#[test]
fn report_describes_the_stored_records() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 40));
    let mut process = start(&disk, &mut files);
    for (stream, file) in &mut files {
        process.read(*stream, file, 40);
    }
    assert!(process.flush());
    let report = process.store.report();
    assert_eq!((report.rows, report.segments, report.head_rows), (80, 1, 0));
    assert_eq!(report.services[0].name, "web");
    assert_eq!(report.services[0].rows, 80);
    assert!(report.columns.iter().any(|c| c.name == "message" && c.packed_bytes > 0));
    let on_disk: usize = disk
        .names()
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "parquet" || e == "widx"))
        .map(|p| disk.content(p).unwrap().len())
        .sum();
    assert_eq!(report.segment_bytes + report.sidecar_bytes, on_disk as u64);
    assert_eq!(report.first_time_ns, Some(0));
}

#[test]
fn a_restarted_store_has_caught_up_when_it_has_the_backlog_whatever_arrives() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 1000));
    let mut process = start(&disk, &mut files);
    process.read(1, files.get_mut(&1).unwrap(), 40);
    assert!(process.flush());
    drop(process);
    let mut process = start(&disk.kill(), &mut files);
    assert_eq!((files[&1].next, process.store.is_catching_up()), (40, true));
    // Traffic that never pauses, while the source reads its backlog: up to record 100 of a file.
    while files[&1].next < 100 {
        process.read(1, files.get_mut(&1).unwrap(), 20);
        process.read(2, files.get_mut(&2).unwrap(), 1);
        process.intake.step();
        assert!(process.store.is_catching_up(), "the source may read on");
    }
    process.read(1, files.get_mut(&1).unwrap(), 1);
    process.journal.end_backlog();
    assert!(process.store.is_catching_up(), "one record is on its way");
    process.read(2, files.get_mut(&2).unwrap(), 1);
    process.intake.step();
    assert!(!process.store.is_catching_up());
    process.read_on(&mut files);
    assert_each_once(&process.records(), &files, "");
    let ledger = process.journal.ledger();
    assert_eq!(ledger.cursors[0].unaccounted(), 0);
}

#[test]
fn a_store_that_cannot_keep_up_has_caught_up_once_it_has_the_backlog() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 60_000));
    let config = StoreConfig { head_bytes: 512 * 1024, ..config() };
    let mut process = Process::start(&disk, config, &mut files, false).unwrap();
    let backlog = 20_000;
    while files[&1].next < backlog {
        process.read(1, files.get_mut(&1).unwrap(), 500);
    }
    process.journal.end_backlog();
    let has_backlog = |process: &Process| {
        let counts = count_records(&process.records());
        (0..backlog).all(|n| counts.contains_key(&(1, n)))
    };
    let mut was_full = false;
    while process.store.is_catching_up() {
        assert!(!has_backlog(&process), "it has what there was");
        // More than it takes in.
        process.read(2, files.get_mut(&2).unwrap(), 3000);
        was_full |= process.intake.step() == Wait::Room;
        process.flusher.step();
    }
    assert!(was_full && has_backlog(&process));
    process.read_on(&mut files);
    assert!(process.flush());
    assert_eq!(process.journal.ledger().cursors[0].unaccounted(), 0);
}
