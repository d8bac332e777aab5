//! Merging, retention, and missing sidecars.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_host::Disk as _;
use weir_testkit::FaultyDisk;

use super::crash::{begin, cut_everywhere, cut_everywhere_and};
use super::world::{
    File, Process, assert_each_once, config, count_records, files, names, records_of,
};
use crate::embedded::store::StoreConfig;
use crate::query::TimeRange;

/// Stores a few records from every file.
fn flush_some(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    for (stream, file) in &mut *files {
        file.written += 3;
        process.read(*stream, file, 1000);
    }
    process.drain_other();
    process.flush();
}

fn flush_often(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    for _ in 0..15 {
        flush_some(process, files);
    }
}

#[test]
fn small_segments_are_merged_without_changing_records() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
    flush_often(&mut process, &mut files);
    assert_eq!(process.store.metrics().segments, 15);
    let before = process.store.snapshot(TimeRange::ALL);
    flush_some(&mut process, &mut files);
    let metrics = process.store.metrics();
    assert_eq!((metrics.segments, metrics.merges), (1, 1));
    assert_each_once(&process.records(), &files, "");
    // Readers continue with the old segments, which exist as long as they are needed.
    assert_eq!(records_of(&before).len(), 15 * 9);
    assert_eq!(names(&disk, "parquet").len(), 16);
    drop(before);
    assert!(process.run());
    assert_eq!(names(&disk, "parquet").len(), 1);
    assert_eq!(names(&disk, "widx").len(), 1);
    let snapshot = process.store.snapshot(TimeRange::ALL);
    assert!(snapshot.segments[0].sidecar.is_some());
}

#[test]
fn few_old_segments_are_merged_and_merged_ones_concatenated() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 0));
    let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
    for _ in 0..8 {
        flush_some(&mut process, &mut files);
        flush_some(&mut process, &mut files);
        process.clock.advance(Duration::from_hours(2));
        assert!(process.run());
    }
    let metrics = process.store.metrics();
    assert_eq!((metrics.segments, metrics.merges), (1, 9), "{metrics:?}");
    assert_each_once(&process.records(), &files, "");
    drop(process);
    let disk = disk.kill();
    let process = Process::start(&disk, config(), &mut files, false).unwrap();
    assert_each_once(&process.records(), &files, "");
}

#[test]
fn merge_survives_a_crash_anywhere() {
    cut_everywhere(flush_often, flush_some, 4);
}

#[test]
fn retention_removes_the_oldest_segments_first() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 0));
    let day = Duration::from_hours(24);
    let config = StoreConfig { retention: Some(day * 7), ..config() };
    let mut process = Process::start(&disk, config.clone(), &mut files, false).unwrap();
    for _ in 0..10 {
        flush_some(&mut process, &mut files);
        process.clock.advance(day);
        assert!(process.run());
    }
    let metrics = process.store.metrics();
    // Merged segments stay as long as their newest record.
    let retired = metrics.retired_rows;
    assert!((6..=12).contains(&retired), "{metrics:?}");
    assert_eq!(retired + metrics.rows, 30);
    assert_eq!(names(&disk, "parquet").len() as u64, metrics.segments);
    drop(process);
    let disk = disk.kill();
    let bytes = metrics.disk_bytes / 2;
    let config = StoreConfig { retention_bytes: Some(bytes), ..config };
    let mut process = Process::start(&disk, config, &mut files, false).unwrap();
    assert_eq!(process.store.metrics().retired_rows, retired, "the total is remembered");
    process.run();
    let metrics = process.store.metrics();
    assert!(metrics.disk_bytes <= bytes && metrics.rows > 0, "{metrics:?}");
    let first = process.records().iter().map(|record| record.position.offset).min();
    assert!(first > Some(9 * super::world::STEP), "the newest records are left");
}

fn keeping_a_day() -> StoreConfig {
    StoreConfig { retention: Some(Duration::from_hours(24)), ..config() }
}

fn outlive_retention(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    process.clock.advance(Duration::from_hours(48));
    flush_some(process, files);
    process.run();
}

/// Missing records were counted as retired, and their files are gone; all others exist once.
fn check_remaining_records(
    disk: &FaultyDisk,
    files: &mut BTreeMap<u64, File>,
    nth: u64,
    seed: u64,
) {
    let shown = format!("cut at call {nth}, seed {seed}");
    let mut process = Process::start(disk, keeping_a_day(), files, true).expect("no faults");
    for _ in 0..3 {
        process.read_on(files);
        process.clock.advance(Duration::from_secs(61));
    }
    process.run_on();
    let counts = count_records(&process.records());
    assert!(counts.values().all(|count| *count == 1), "{shown}: twice");
    let metrics = process.store.metrics();
    let written: u64 = files.values().map(|file| file.written).sum();
    assert_eq!(counts.len() as u64 + metrics.retired_rows, written, "{shown}: {metrics:?}");
    for (stream, file) in files.iter() {
        let newest = file.written - 3..file.written;
        assert!(newest.clone().all(|n| counts.contains_key(&(*stream, n))), "{shown}: too much");
    }
    assert_eq!(names(disk, "parquet").len() as u64, metrics.segments, "{shown}");
    assert!(metrics.damaged.is_empty(), "{shown}: {:?}", metrics.damaged);
}

#[test]
fn retention_survives_a_crash_anywhere() {
    let (disk, mut stored) = (FaultyDisk::new(), files(3, 0));
    let mut process = begin(&disk, &mut stored);
    (0..5).for_each(|_| flush_some(&mut process, &mut stored));
    process.write_journal();
    let prepared = || {
        let (disk, mut files) = (disk.kill(), stored.clone());
        let process = Process::start(&disk, keeping_a_day(), &mut files, true);
        (disk, files, process.expect("no faults"))
    };
    let (_disk, mut files, mut process) = prepared();
    outlive_retention(&mut process, &mut files);
    assert_eq!(process.store.metrics().retired_rows, 45, "without a crash");
    cut_everywhere_and(prepared, outlive_retention, 6, check_remaining_records);
}

#[test]
fn wrong_clock_at_the_start_removes_nothing() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 0));
    let config = StoreConfig { retention: Some(Duration::from_hours(24)), ..config() };
    let mut process = Process::start(&disk, config.clone(), &mut files, false).unwrap();
    flush_some(&mut process, &mut files);
    drop(process);
    let disk = disk.kill();
    let mut process = Process::start(&disk, config, &mut files, false).unwrap();
    process.clock.jump_to(i64::MAX / 2);
    assert!(process.run());
    assert_eq!(process.store.metrics().rows, 3);
    // Unless the clock stays like that.
    process.clock.advance(Duration::from_hours(2));
    assert!(process.run());
    assert_eq!(process.store.metrics().rows, 0);
}

#[test]
fn missing_or_damaged_sidecar_is_rebuilt() {
    for is_missing in [true, false] {
        let (disk, mut files) = (FaultyDisk::new(), files(2, 0));
        let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
        flush_some(&mut process, &mut files);
        drop(process);
        let disk = disk.kill();
        let is_sidecar = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "widx");
        let path = disk.names().iter().find(is_sidecar).unwrap().clone();
        let whole = disk.content(&path).unwrap();
        if is_missing {
            weir_host::Disk::remove(&disk, &path).unwrap();
        } else {
            disk.put(&path, &whole[..whole.len() / 2]);
        }
        let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
        assert!(process.store.snapshot(TimeRange::ALL).segments[0].sidecar.is_none());
        assert!(process.run());
        assert!(process.store.snapshot(TimeRange::ALL).segments[0].sidecar.is_some());
        assert_eq!(disk.content(&path).unwrap(), whole);
    }
}

#[test]
fn damaged_segment_is_set_aside_and_the_others_are_searched() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 0));
    let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
    flush_some(&mut process, &mut files);
    flush_some(&mut process, &mut files);
    drop(process);
    let disk = disk.kill();
    let is_segment = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "parquet");
    let path = disk.names().iter().find(is_segment).unwrap().clone();
    let mut bytes = disk.content(&path).unwrap();
    let end = bytes.len() - 30;
    bytes[end] ^= 1;
    disk.put(&path, &bytes);
    for _ in 0..2 {
        let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
        let metrics = process.store.metrics();
        assert_eq!((metrics.rows, metrics.damaged.len()), (3, 1), "{metrics:?}");
        assert!(metrics.damaged[0].ends_with(", with 3 records"), "{metrics:?}");
        assert_eq!(process.records().len(), 3);
        assert!(process.run());
    }
    assert_eq!(names(&disk, "bad").len(), 1);
}

#[test]
fn missing_segment_is_reported_and_the_others_are_searched() {
    let (disk, mut files) = (FaultyDisk::new(), files(1, 0));
    let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
    flush_some(&mut process, &mut files);
    flush_some(&mut process, &mut files);
    drop(process);
    let disk = disk.kill();
    let is_segment = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "parquet");
    let path = disk.names().into_iter().find(is_segment).unwrap();
    let content = disk.content(&path).unwrap();
    disk.remove(&path).unwrap();
    for _ in 0..2 {
        let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
        let metrics = process.store.metrics();
        assert!(metrics.damaged[0].ends_with(", with 3 records"), "{metrics:?}");
        assert_eq!((process.records().len(), metrics.damaged.len()), (3, 1), "{metrics:?}");
        assert!(process.run());
    }
    // The file reappears from a backup, or with a disk that was not mounted.
    disk.put(&path, &content);
    let process = Process::start(&disk, config(), &mut files, false).unwrap();
    assert_eq!((process.records().len(), process.store.metrics().damaged.len()), (6, 0));
}

#[test]
fn damaged_manifest_loses_and_duplicates_no_record() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 0));
    let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
    for _ in 0..3 {
        flush_some(&mut process, &mut files);
    }
    process.write_journal();
    drop(process);
    let disk = disk.kill();
    let is_manifest = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "log");
    let path = disk.names().iter().find(is_manifest).unwrap().clone();
    let whole = disk.content(&path).unwrap();
    let cuts = (0..whole.len()).map(|len| whole[..len].to_vec());
    let flips = (0..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        bytes
    });
    for (number, bytes) in cuts.chain(flips).enumerate() {
        let disk = disk.kill();
        disk.put(&path, &bytes);
        let mut files = files.clone();
        let mut process = Process::start(&disk, config(), &mut files, false).unwrap();
        flush_some(&mut process, &mut files);
        assert_each_once(&process.records(), &files, &format!("damage {number}"));
    }
}
