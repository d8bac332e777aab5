//! Damaged, cut, missing, strange files: the journal always starts (except before a version that
//! it does not know), loses only what was damaged, counts it and keeps a copy.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use support::{KIB, Part, assert_books_balance, block_on, config, cursor, drain, open};
use support::{cursor_spec, numbers, take};
use weir_host::RealClock;
use weir_journal::{Journal, JournalConfig, JournalError, Recovery, WritePolicy};
use weir_model::DiscardReason;
use weir_testkit::FaultyDisk;

const DIR: &str = "/data/journal";
const FRAMES: u64 = 12;

fn small() -> JournalConfig {
    JournalConfig { segment_bytes: 3 * KIB, ..config(DIR) }
}

/// A disk with `FRAMES` acknowledged frames of one record in several segments, nothing delivered.
fn filled() -> FaultyDisk {
    let disk = FaultyDisk::new();
    let journal = open(small(), Arc::new(disk.clone()));
    journal.register_source("app");
    let _hec = cursor(&journal, "hec");
    for n in 0..FRAMES {
        let part = Part::new(2, n, 1).padding(600).unrepeatable();
        block_on(journal.append(part.build(), WritePolicy::OnAppend).unwrap().durable()).unwrap();
    }
    journal.flush();
    disk.kill()
}

fn files(disk: &FaultyDisk, extension: &str) -> Vec<PathBuf> {
    disk.names().into_iter().filter(|p| p.extension().is_some_and(|e| e == extension)).collect()
}

/// Opens a disk and delivers everything; returns what came, what opening found, and how many
/// records turned out to be damaged only when they were read.
fn recover(disk: &FaultyDisk) -> (Vec<u64>, Recovery, u64) {
    let journal = open(small(), Arc::new(disk.clone()));
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    assert_books_balance(&journal);
    let got: Vec<u64> = drain(&mut hec).into_iter().map(|(_, n)| n).collect();
    assert_books_balance(&journal);
    let ledger = journal.ledger();
    let corrupt = ledger.cursors[0].book.discarded[DiscardReason::Damaged as usize];
    journal.shutdown();
    (got, ledger.journal.recovery, corrupt)
}

fn changed(disk: &FaultyDisk, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> FaultyDisk {
    let disk = disk.kill();
    let mut bytes = disk.content(path).unwrap();
    change(&mut bytes);
    disk.put(path, &bytes);
    disk
}

/// At most one frame is missing, and then it was counted.
fn assert_one_lost_at_most(disk: &FaultyDisk, what: &str) {
    let (got, recovery, corrupt) = recover(disk);
    let missing = FRAMES - got.len() as u64;
    assert!(missing <= 1, "{what}: {missing} of {FRAMES} frames are lost, {recovery:?}");
    assert!(got.is_sorted(), "{what}: out of order {got:?}");
    let counted = recovery.damaged_bytes + recovery.torn_bytes + corrupt > 0;
    assert!(missing == 0 || counted, "{what}: a lost frame was not counted, {recovery:?}");
    for path in &recovery.set_aside {
        assert!(disk.content(Path::new(path)).is_some(), "{what}: {path} is not there");
    }
}

#[test]
fn nothing_is_lost_without_damage() {
    let (got, recovery, _) = recover(&filled());
    assert_eq!(got, (0..FRAMES).collect::<Vec<_>>());
    assert_eq!((recovery.damaged_bytes, recovery.damaged_cursor_records), (0, 0));
    assert_eq!(recovery.frames, FRAMES);
}

#[test]
fn a_flipped_bit_costs_one_frame_at_most() {
    let disk = filled();
    let segments = files(&disk, "wseg");
    assert!(segments.len() > 2);
    let mut rng = Rng::with_seed(7);
    for round in 0..1000 {
        let path = &segments[rng.usize(..segments.len())];
        let len = disk.content(path).unwrap().len();
        // Versions have a test of their own.
        let at = std::iter::repeat_with(|| rng.usize(..len)).find(|at| !(4..6).contains(at));
        let at = at.unwrap();
        let bit = 1 << rng.u8(..8);
        let damaged = changed(&disk, path, |bytes| bytes[at] ^= bit);
        assert_one_lost_at_most(&damaged, &format!("round {round}, {} byte {at}", path.display()));
    }
}

#[test]
fn a_damaged_header_field_costs_one_frame_at_most() {
    let disk = filled();
    let segment = &files(&disk, "wseg")[0];
    let first_frame = disk.content(segment).unwrap().windows(4).position(|w| w == b"WFRM").unwrap();
    for at in (0..first_frame + 128).filter(|at| !(4..6).contains(at)) {
        for value in [0, 0xff, 0x55] {
            let damaged = changed(&disk, segment, |bytes| bytes[at] = value);
            assert_one_lost_at_most(&damaged, &format!("byte {at} = {value}"));
        }
    }
}

#[test]
fn damage_is_set_aside_once_however_often_weir_starts() {
    let disk = filled();
    let segment = files(&disk, "wseg")[0].clone();
    let damaged = changed(&disk, &segment, |bytes| bytes[900] ^= 1);
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let journal = open(small(), Arc::new(damaged.clone()));
        let _holds_the_segment = cursor(&journal, "hec");
        assert!(journal.ledger().journal.recovery.damaged_bytes > 0);
        journal.shutdown();
        let bad = files(&damaged, "bad");
        sizes.push(bad.iter().map(|p| damaged.content(p).unwrap().len()).collect::<Vec<_>>());
    }
    assert_eq!(sizes[0].len(), 1);
    assert!(sizes.iter().all(|s| *s == sizes[0]), "{sizes:?}");
}

#[test]
fn a_last_segment_of_any_length_gives_its_whole_frames() {
    let disk = filled();
    let last = files(&disk, "wseg").pop().unwrap();
    let len = disk.content(&last).unwrap().len();
    for cut in (0..len).step_by(7) {
        let damaged = changed(&disk, &last, |bytes| bytes.truncate(cut));
        let (got, recovery, _) = recover(&damaged);
        assert_eq!(got, (0..got.len() as u64).collect::<Vec<_>>(), "cut at {cut}");
        assert!(got.len() >= 8, "cut at {cut}: other segments lost frames, {recovery:?}");
    }
    let zeroed = changed(&disk, &last, |bytes| bytes[len / 2..].fill(0));
    assert!(recover(&zeroed).0.len() >= 8);
    let longer = changed(&disk, &last, |bytes| bytes.resize(len + 8192, 0));
    assert_eq!(recover(&longer).0.len() as u64, FRAMES);
}

#[test]
fn a_cursor_log_of_any_length_loses_nothing() {
    let disk = filled();
    let log = files(&disk, "wcur").pop().unwrap();
    let len = disk.content(&log).unwrap().len();
    for cut in (0..len).step_by(7) {
        let damaged = changed(&disk, &log, |bytes| bytes.truncate(cut));
        assert_eq!(recover(&damaged).0, (0..FRAMES).collect::<Vec<_>>(), "cut at {cut}");
    }
    for at in (0..len).filter(|at| !(4..6).contains(at)).step_by(3) {
        let damaged = changed(&disk, &log, |bytes| bytes[at] ^= 0x10);
        assert_eq!(recover(&damaged).0, (0..FRAMES).collect::<Vec<_>>(), "byte {at}");
    }
}

#[test]
fn a_missing_cursor_log_loses_nothing() {
    let disk = filled();
    let gone = disk.kill();
    for path in files(&gone, "wcur") {
        weir_host::Disk::remove(&gone, &path).unwrap();
    }
    assert_eq!(recover(&gone).0, (0..FRAMES).collect::<Vec<_>>());
}

#[test]
fn a_missing_segment_loses_only_itself() {
    let disk = filled();
    let segments = files(&disk, "wseg");
    let gone = disk.kill();
    weir_host::Disk::remove(&gone, &segments[1]).unwrap();
    let (got, _, _) = recover(&gone);
    assert!(got.contains(&0) && got.contains(&(FRAMES - 1)), "{got:?}");
    assert!((got.len() as u64) < FRAMES);
}

#[test]
fn strange_files_are_left_alone() {
    let disk = filled();
    let strangers = ["notes.txt", "segment-x.wseg", "cursors-.wcur", "segment-1.wseg.bak"];
    for name in strangers {
        disk.put(&Path::new(DIR).join(name), b"not ours");
    }
    disk.put(&Path::new(DIR).join("cursors.tmp"), b"half a snapshot");
    disk.put(&Path::new(DIR).join("segment-00000000000000000099.wseg"), b"");
    assert_eq!(recover(&disk).0.len() as u64, FRAMES);
    for name in strangers {
        assert_eq!(disk.content(&Path::new(DIR).join(name)).unwrap(), b"not ours");
    }
}

#[test]
fn an_unknown_version_is_refused_and_left_untouched() {
    let disk = filled();
    for extension in ["wseg", "wcur"] {
        let path = files(&disk, extension).pop().unwrap();
        let newer = changed(&disk, &path, |bytes| {
            bytes[4] = 9;
            let check = crc32c::crc32c_append(crc32c::crc32c(&bytes[..6]), &bytes[8..16]);
            bytes[6..8].copy_from_slice(&check.to_le_bytes()[..2]);
        });
        let before: Vec<_> = newer.names().iter().map(|p| newer.content(p)).collect();
        let opened = Journal::open(small(), Arc::new(newer.clone()), Arc::new(RealClock::new()));
        let error = opened.unwrap_err();
        assert!(matches!(&error, JournalError::Version { version: 9, file } if *file == path));
        assert!(error.to_string().contains("left untouched"), "{error}");
        let after: Vec<_> = newer.names().iter().map(|p| newer.content(p)).collect();
        assert_eq!(before, after, "{extension}");
    }
}

#[test]
fn a_frame_inside_a_damaged_frame_is_not_believed() {
    // What a log says may look like a frame.
    let disk = FaultyDisk::new();
    let journal = open(small(), Arc::new(disk.clone()));
    let _hec = cursor(&journal, "hec");
    let forged = Part::new(2, 77, 1).unrepeatable().build();
    let (head, rest) = forged.frame_parts();
    let forged = [&head[..], rest].concat();
    for n in 0..3 {
        let mut part = Part::new(2, n, 1).unrepeatable();
        part.carries = forged.clone();
        block_on(journal.append(part.build(), WritePolicy::OnAppend).unwrap().durable()).unwrap();
    }
    let disk = disk.kill();
    drop(journal);
    let segment = &files(&disk, "wseg")[0];
    let content = disk.content(segment).unwrap();
    let frames: Vec<usize> =
        (0..content.len()).filter(|at| content[*at..].starts_with(b"WFRM")).collect();
    assert_eq!(frames.len(), 6, "three frames, each with one inside");
    let damaged = changed(&disk, segment, |bytes| bytes[frames[2] + 60] ^= 1);
    let (got, recovery, _) = recover(&damaged);
    assert_eq!(got, [0, 2]);
    assert!(recovery.damaged_bytes > 0);
}

#[test]
fn a_frame_that_is_damaged_while_weir_runs_is_counted() {
    let disk = filled();
    let journal = open(small(), Arc::new(disk.clone()));
    let mut hec = journal.cursor(cursor_spec("hec")).unwrap();
    journal.release_unclaimed();
    let segment = &files(&disk, "wseg")[0];
    let mut bytes = disk.content(segment).unwrap();
    let len = bytes.len();
    bytes[len - 200..].fill(0xaa);
    bytes[700..760].fill(0xaa);
    disk.put(segment, &bytes);
    let mut got = 0;
    while let Some(delivery) = take(&mut hec) {
        got += numbers(&delivery).len() as u64;
        hec.ack(&delivery, weir_journal::Outcome::delivered(delivery.record_count));
    }
    let book = journal.ledger().cursors[0].book;
    assert_eq!(got + book.discarded[DiscardReason::Damaged as usize], FRAMES);
    assert!(book.discarded[DiscardReason::Damaged as usize] > 0);
    assert_books_balance(&journal);
    journal.shutdown();
}
