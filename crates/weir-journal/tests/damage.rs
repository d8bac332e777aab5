//! Damaged, truncated, missing and foreign files: the journal always starts (except with an
//! unsupported version), loses only what was damaged, counts it and keeps a copy.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use support::{KIB, Part, STEP, assert_books_balance, block_on, config, cursor, drain, open};
use support::{cursor_spec, numbers, open_gone, open_stream, take};
use weir_host::RealClock;
use weir_journal::{Journal, JournalConfig, JournalError, Recovery, WritePolicy};
use weir_model::{DiscardReason, FrameHeader, StreamId};
use weir_testkit::{CallKind, FaultyDisk};

const DIR: &str = "/data/journal";
const FRAMES: u64 = 12;

fn small() -> JournalConfig {
    JournalConfig { segment_bytes: 3 * KIB, ..config(DIR) }
}

/// Returns a disk with `FRAMES` acknowledged frames of one record in several segments, nothing
/// delivered.
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

/// Opens a disk and delivers everything; returns what was delivered, what opening found, and how
/// many records were found to be damaged only when they were read.
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

/// Asserts that at most one frame is missing, and that it was counted.
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
    // Without its index, every byte is read at each start.
    let damaged = changed(&disk, &segment, |bytes| {
        bytes[900] ^= 1;
        let len = bytes.len();
        bytes[len - 1] ^= 1;
    });
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let journal = open(small(), Arc::new(damaged.clone()));
        let _holds_the_segment = cursor(&journal, "hec");
        assert!(journal.ledger().journal.recovery.damaged_bytes > 0);
        journal.shutdown();
        sizes.push(sizes_of_bad(&damaged));
        // The start has rewritten the index.
        let at = damaged.content(&segment).unwrap().len() - 1;
        damaged.put(&segment, &{
            let mut bytes = damaged.content(&segment).unwrap();
            bytes[at] ^= 1;
            bytes
        });
    }
    assert!(sizes.iter().all(|s| !s.is_empty() && s[0] == sizes[0][0]), "{sizes:?}");
}

fn sizes_of_bad(disk: &FaultyDisk) -> Vec<usize> {
    files(disk, "bad").iter().map(|path| disk.content(path).unwrap().len()).collect()
}

#[test]
fn a_start_reads_indexes_and_what_is_damaged_is_found_when_it_is_taken() {
    let disk = filled();
    let segments = files(&disk, "wseg");
    let copy = disk.kill();
    let before = copy.faults().calls(CallKind::Read);
    let journal = open(small(), Arc::new(copy.clone()));
    assert_eq!(journal.ledger().journal.recovery.frames, FRAMES);
    journal.shutdown();
    let reads = copy.faults().calls(CallKind::Read) - before;
    assert!(reads <= 6 * segments.len() as u64, "{reads} reads for {} segments", segments.len());

    let damaged = changed(&disk, &segments[0], |bytes| bytes[900] ^= 1);
    for start in 0..3 {
        let journal = open(small(), Arc::new(damaged.clone()));
        let mut hec = cursor(&journal, "hec");
        journal.release_unclaimed();
        let got = drain(&mut hec).len() as u64;
        let recovery = journal.ledger().journal.recovery;
        if start == 0 {
            assert_eq!(got, FRAMES - 1);
            assert_eq!(recovery.lost.iter().map(|lost| lost.records).sum::<u64>(), 1);
            assert!(recovery.damaged_bytes > 0);
        }
        assert_books_balance(&journal);
        journal.shutdown();
        // The segment is kept unchanged for inspection.
        assert_eq!(sizes_of_bad(&damaged).len(), 1, "start {start}");
    }
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
fn a_frame_of_a_later_release_is_refused_and_left_untouched() {
    let disk = filled();
    // A version, a column and a kind of record that do not exist yet.
    for (at, value) in [(4, 3_u16), (78, 1), (112, 1 << 9)] {
        for path in files(&disk, "wseg") {
            let begin = frames_begin(&disk.content(&path).unwrap());
            let newer = changed(&disk, &path, |bytes| {
                bytes[begin + at..begin + at + 2].copy_from_slice(&value.to_le_bytes());
                let len = FrameHeader::stated_len(&bytes[begin..]).unwrap();
                let frame = &mut bytes[begin..begin + len];
                let sum = crc32c::crc32c_append(crc32c::crc32c(&frame[..12]), &frame[16..]);
                frame[12..16].copy_from_slice(&sum.to_le_bytes());
                let features =
                    [frame[4..8].to_vec(), frame[76..80].to_vec(), frame[112..114].to_vec()];
                set_features(bytes, &features.concat());
            });
            let before = newer.content(&path);
            let opened =
                Journal::open(small(), Arc::new(newer.clone()), Arc::new(RealClock::new()));
            let error = opened.unwrap_err();
            assert!(
                matches!(&error, JournalError::Unknown { file, offset, .. }
                    if *file == path && *offset == begin as u64),
                "{at}: {error}"
            );
            assert!(error.to_string().contains("not supported by this release"), "{error}");
            assert_eq!((before, files(&newer, "bad")), (newer.content(&path), Vec::new()));
        }
        // With a wrong checksum it is damage, whatever it seems to be.
        for path in files(&disk, "wseg") {
            let damaged = changed(&disk, &path, |bytes| {
                let begin = frames_begin(bytes);
                bytes[begin + at..begin + at + 2].copy_from_slice(&value.to_le_bytes());
            });
            let (_, recovery, _) = recover(&damaged);
            assert!(recovery.damaged_bytes + recovery.torn_bytes > 0, "{recovery:?}");
        }
    }
}

#[test]
fn a_frame_inside_a_damaged_frame_is_not_believed() {
    // Logged content may look like a frame.
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

/// Frames, records in each, destinations: the second one gets every other frame.
const MANY: u64 = 24;
const EACH: u64 = 5;
const NAMES: [&str; 2] = ["first", "second"];

fn mask_of(frame: u64) -> u64 {
    if frame.is_multiple_of(2) { 0b11 } else { 0b01 }
}

fn expected(destination: usize, frames: impl Iterator<Item = u64>) -> Vec<u64> {
    let is_routed = |frame: &u64| mask_of(*frame) & (1 << destination) != 0;
    frames.filter(is_routed).flat_map(|frame| frame * EACH..(frame + 1) * EACH).collect()
}

/// What the cursor log contains about what was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// What each destination is owed.
    States,
    /// Nothing: the machine stopped before it was written. Only the indexes of segments exist.
    KnowsNothing,
}

/// Creates `MANY` acknowledged frames in several segments, of which each destination has settled
/// the first `settled`.
fn owed(log: Log, settled: u64, carries: &[u8]) -> FaultyDisk {
    let disk = FaultyDisk::new();
    let journal = open(small(), Arc::new(disk.clone()));
    journal.register_source("app");
    let mut cursors = NAMES.map(|name| cursor(&journal, name));
    journal.flush();
    let before = files(&disk, "wcur").pop().map(|path| (disk.content(&path).unwrap(), path));
    for frame in 0..MANY {
        let mut part = Part::new(2, frame * EACH, EACH).padding(60).mask(mask_of(frame));
        part.carries = carries.to_vec();
        let part = part.unrepeatable().build();
        block_on(journal.append(part, WritePolicy::OnAppend).unwrap().durable()).unwrap();
        if frame + 1 == settled {
            let _everything = cursors.each_mut().map(drain);
        }
    }
    journal.flush();
    let disk = disk.kill();
    if let (Log::KnowsNothing, Some((bytes, path))) = (log, before) {
        disk.put(&path, &bytes);
    }
    assert!(settled > 0 || closed(&disk).len() >= 3);
    disk
}

/// Returns the segments that end with their index, and contain frames that are still owed.
fn closed(disk: &FaultyDisk) -> Vec<PathBuf> {
    let is_closed = |path: &PathBuf| disk.content(path).unwrap().ends_with(b"WIDX");
    files(disk, "wseg").into_iter().filter(is_closed).collect()
}

/// Opens the damaged disk twice: what was routed to each destination is delivered or counted as
/// damaged, exactly, and the second start counts nothing again. Returns what was lost.
#[track_caller]
fn assert_exact(disk: &FaultyDisk, settled: u64, what: &str) -> [u64; 2] {
    let mut lost = [0; 2];
    for start in 0..2 {
        let journal = open(small(), Arc::new(disk.clone()));
        journal.register_source("app");
        let mut cursors = NAMES.map(|name| cursor(&journal, name));
        journal.release_unclaimed();
        assert_books_balance(&journal);
        let got = cursors.each_mut().map(drain);
        let ledger = journal.ledger();
        for (index, got) in got.iter().enumerate() {
            let book = ledger.cursors[index].book;
            let damaged = book.discarded[DiscardReason::Damaged as usize];
            let before = expected(index, 0..settled).len() as u64;
            let all = expected(index, 0..MANY).len() as u64;
            assert_eq!(book.routed, all, "{what}, {}, start {start}", NAMES[index]);
            assert_eq!(book.delivered + damaged, all, "{what}, {}, start {start}", NAMES[index]);
            let noted: u64 = {
                let of_destination = |l: &&weir_journal::LostRecords| {
                    l.destination == NAMES[index] && l.source == "app" && l.reason == "damaged"
                };
                let lost = ledger.journal.recovery.lost.iter();
                lost.filter(of_destination).map(|lost| lost.records).sum()
            };
            if start == 0 {
                let numbers: Vec<u64> = got.iter().map(|(_, n)| *n).collect();
                assert!(numbers.is_sorted(), "{what}: out of order {numbers:?}");
                assert_eq!(book.delivered, before + numbers.len() as u64, "{what}");
                assert_eq!(noted, damaged, "{what}: reported by health");
                lost[index] = damaged;
            } else {
                assert!(got.is_empty(), "{what}: delivered twice {got:?}");
                assert_eq!((damaged, noted), (lost[index], 0), "{what}: counted twice");
            }
        }
        assert_books_balance(&journal);
        journal.shutdown();
    }
    lost
}

/// Counts the records of frames in a segment, by the index of the intact disk: found by their
/// bodies.
fn records_in(disk: &FaultyDisk, path: &Path) -> [u64; 2] {
    let content = disk.content(path).unwrap();
    let is_there = |frame: &u64| {
        let first = format!("2/0/{};", frame * EACH);
        content.windows(first.len()).any(|bytes| bytes == first.as_bytes())
    };
    [0, 1].map(|index| expected(index, (0..MANY).filter(is_there)).len() as u64)
}

fn both_logs(check: impl Fn(Log)) {
    [Log::States, Log::KnowsNothing].into_iter().for_each(check);
}

#[test]
fn nothing_is_counted_as_damaged_where_nothing_is() {
    both_logs(|log| {
        assert_eq!(assert_exact(&owed(log, 0, b""), 0, &format!("{log:?}")), [0, 0]);
    });
    assert_eq!(assert_exact(&owed(Log::States, 10, b""), 10, "settled"), [0, 0]);
}

#[test]
fn a_segment_whose_frames_are_zeroed_is_counted_to_the_record() {
    both_logs(|log| {
        let disk = owed(log, 0, b"");
        for path in closed(&disk) {
            let lost = records_in(&disk, &path);
            let damaged = changed(&disk, &path, |bytes| {
                let index = index_len(bytes);
                let (begin, end) = (frames_begin(bytes), bytes.len() - index);
                bytes[begin..end].fill(0);
            });
            let what = format!("{log:?}, {}", path.display());
            assert_eq!(assert_exact(&damaged, 0, &what), lost, "{what}");
            assert!(damaged.content(&path.with_extension("bad")).is_some(), "{what}: set aside");
        }
    });
}

fn index_len(bytes: &[u8]) -> usize {
    let at = bytes.len() - 8;
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i])) as usize
}

/// Sets the features that a reader of the frames must support, in the index of the segment if it
/// has one.
fn set_features(segment: &mut [u8], features: &[u8]) {
    if !segment.ends_with(b"WIDX") {
        return;
    }
    let len = index_len(segment);
    let salt = segment[16..24].to_vec();
    let begin = segment.len() - len;
    let index = &mut segment[begin..];
    index[..features.len()].copy_from_slice(features);
    let (content, end) = index.split_at_mut(len - 12);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&salt), content);
    end[..4].copy_from_slice(&sum.to_le_bytes());
}

fn frames_begin(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|bytes| bytes == b"WFRM").unwrap()
}

#[test]
fn a_segment_that_is_all_zeros_is_counted_and_set_aside() {
    let disk = owed(Log::States, 0, b"");
    for path in files(&disk, "wseg") {
        let lost = records_in(&disk, &path);
        let damaged = changed(&disk, &path, |bytes| bytes.fill(0));
        assert_eq!(assert_exact(&damaged, 0, &path.display().to_string()), lost);
        if !closed(&disk).contains(&path) {
            continue;
        }
        let aside = damaged.content(&path.with_extension("bad")).unwrap();
        assert_eq!(aside.len(), disk.content(&path).unwrap().len());
        assert!(damaged.content(&path).is_none());
    }
}

#[test]
fn space_that_was_given_back_is_no_damage() {
    for settled in [6, 10, MANY] {
        let disk = owed(Log::States, settled, b"");
        for path in closed(&disk) {
            // As punching does.
            let damaged = changed(&disk, &path, |bytes| {
                for at in 0..bytes.len() {
                    let is_settled = |frame: u64| {
                        let first = format!("2/0/{};", frame * EACH);
                        bytes[at + 128..].starts_with(first.as_bytes())
                    };
                    if bytes[at..].starts_with(b"WFRM") && (0..settled).any(is_settled) {
                        let len = u32::from_le_bytes(std::array::from_fn(|i| bytes[at + 8 + i]));
                        bytes[at..at + len as usize].fill(0);
                    }
                }
            });
            assert_eq!(assert_exact(&damaged, settled, &format!("{settled} settled")), [0, 0]);
            assert_eq!(files(&damaged, "bad"), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn a_closed_segment_that_is_cut_is_counted_to_the_record() {
    let disk = owed(Log::States, 0, b"");
    for path in closed(&disk) {
        let whole = disk.content(&path).unwrap();
        let lost = records_in(&disk, &path);
        for cut in (0..whole.len()).step_by(97) {
            let damaged = changed(&disk, &path, |bytes| bytes.truncate(cut));
            let kept = records_in(&damaged, &path);
            let counted = assert_exact(&damaged, 0, &format!("{} cut at {cut}", path.display()));
            for index in 0..2 {
                assert!(counted[index] <= lost[index], "only what was there: {counted:?}");
                assert!(counted[index] + kept[index] >= lost[index], "cut at {cut}: {counted:?}");
            }
        }
    }
}

fn without_segments(disk: &FaultyDisk) -> FaultyDisk {
    let gone = disk.kill();
    for path in files(&gone, "wseg") {
        weir_host::Disk::remove(&gone, &path).unwrap();
    }
    gone
}

#[test]
fn a_segment_that_is_gone_is_counted_to_the_record() {
    let disk = owed(Log::States, 0, b"");
    for path in closed(&disk) {
        let lost = records_in(&disk, &path);
        let gone = disk.kill();
        weir_host::Disk::remove(&gone, &path).unwrap();
        assert_eq!(assert_exact(&gone, 0, &path.display().to_string()), lost);
    }
    let gone = without_segments(&disk);
    let all = [0, 1].map(|index| expected(index, 0..MANY).len() as u64);
    assert_eq!(assert_exact(&gone, 0, "all of them"), all);
}

#[test]
fn what_a_destination_has_is_not_lost_with_a_segment() {
    let disk = owed(Log::States, 10, b"");
    let gone = without_segments(&disk);
    let lost = [0, 1].map(|index| expected(index, 10..MANY).len() as u64);
    assert_eq!(assert_exact(&gone, 10, "all of them"), lost);
}

#[test]
fn bytes_that_come_or_go_cost_one_frame_at_most() {
    both_logs(|log| {
        let disk = owed(log, 0, b"");
        let mut rng = Rng::with_seed(11);
        for round in 0..150 {
            let segments = closed(&disk);
            let path = &segments[rng.usize(..segments.len())];
            let whole = disk.content(path).unwrap();
            let end = whole.len() - index_len(&whole);
            let at = rng.usize(frames_begin(&whole)..end);
            let (count, is_removed) = (rng.usize(1..=9), rng.bool());
            let damaged = changed(&disk, path, |bytes| {
                let to = if is_removed { (at + count).min(end) } else { at };
                let put = if is_removed { 0 } else { count };
                bytes.splice(at..to, std::iter::repeat_n(b'x', put));
            });
            let what = format!("{log:?}, round {round}, {count} bytes at {at}, {is_removed}");
            let lost = assert_exact(&damaged, 0, &what);
            // What is removed may belong to two neighbors.
            assert!(lost[0] <= 2 * EACH, "{what}: {lost:?}");
            assert!(!files(&damaged, "bad").is_empty(), "{what}: kept");
        }
    });
}

#[test]
fn a_segment_with_a_damaged_index_is_searched_for_frames() {
    both_logs(|log| {
        let disk = owed(log, 0, b"");
        for path in closed(&disk) {
            let whole = disk.content(&path).unwrap();
            let index = whole.len() - index_len(&whole);
            for at in (index..whole.len()).step_by(41).chain([whole.len() - 1]) {
                let damaged = changed(&disk, &path, |bytes| bytes[at] ^= 0x20);
                assert_eq!(assert_exact(&damaged, 0, &format!("{log:?} byte {at}")), [0, 0]);
                assert!(!files(&damaged, "bad").is_empty(), "byte {at}: kept");
            }
        }
    });
    let disk = owed(Log::States, 0, b"");
    let damaged = changed(&disk, &closed(&disk)[1], |bytes| {
        let begin = frames_begin(bytes);
        bytes.pop();
        bytes.remove(begin + 300);
    });
    let lost = assert_exact(&damaged, 0, "without its index, and a byte less");
    assert_eq!(lost[0], EACH);
}

#[test]
fn frames_inside_logged_content_are_ignored() {
    // The same stream, and records that could follow.
    let forged = Part::new(2, 7_000, 1).unrepeatable().mask(0b11).build();
    let (head, rest) = forged.frame_parts();
    let forged = [b"WFRM", &b"WFRM"[..], &head[..], rest].concat();
    let disk = owed(Log::States, 0, &forged);
    for path in closed(&disk) {
        let whole = disk.content(&path).unwrap();
        let begin = frames_begin(&whole);
        for at in (begin..begin + 140).step_by(3) {
            let removed = changed(&disk, &path, |bytes| _ = bytes.remove(at));
            let lost = assert_exact(&removed, 0, &format!("without byte {at}"));
            assert_eq!(lost[0], EACH, "without byte {at}");
        }
    }
}

#[test]
fn what_its_source_can_read_again_is_not_lost_with_its_segment() {
    let disk = FaultyDisk::new();
    let journal = open(small(), Arc::new(disk.clone()));
    journal.register_source("app");
    let _second = NAMES.map(|name| cursor(&journal, name));
    open_stream(&journal, 2);
    let part = |frame| Part::new(2, frame * EACH, EACH).padding(60).mask(mask_of(frame)).build();
    for frame in 0..MANY {
        journal.append(part(frame), WritePolicy::OnLag).unwrap();
    }
    journal.persist_stream(StreamId(2));
    journal.flush();
    journal.shutdown();
    let disk = disk.kill();
    let path = &closed(&disk)[0];
    let zeroed = changed(&disk, path, |bytes| {
        let (begin, end) = (frames_begin(bytes), bytes.len() - index_len(bytes));
        bytes[begin..end].fill(0);
    });
    for is_gone in [false, true] {
        let zeroed = zeroed.kill();
        let journal = open(small(), Arc::new(zeroed));
        journal.register_source("app");
        let mut cursors = NAMES.map(|name| cursor(&journal, name));
        let resume = if is_gone { open_gone(&journal, 2) } else { open_stream(&journal, 2) };
        let next = resume.position.offset / (EACH * STEP);
        for frame in next..MANY {
            journal.append(part(frame), WritePolicy::OnLag).unwrap();
        }
        journal.release_unclaimed();
        let got = cursors.each_mut().map(drain);
        for (index, got) in got.iter().enumerate() {
            let book = journal.ledger().cursors[index].book;
            let all = expected(index, 0..MANY);
            let damaged = book.discarded[DiscardReason::Damaged as usize];
            let numbers = got.iter().filter(|(stream, _)| *stream == 2).count() as u64;
            assert_eq!(numbers + damaged, all.len() as u64, "gone: {is_gone}");
            assert_eq!(damaged > 0, is_gone);
        }
        assert_books_balance(&journal);
        journal.shutdown();
    }
}

#[test]
fn without_time_to_verify_a_damaged_frame_is_found_when_it_is_taken() {
    let disk = FaultyDisk::new();
    let journal = open(small(), Arc::new(disk.clone()));
    journal.register_source("app");
    let _hec = cursor(&journal, "hec");
    open_stream(&journal, 2);
    let part = |n| Part::new(2, n, 1).padding(600).build();
    for n in 0..FRAMES {
        journal.append(part(n), WritePolicy::OnLag).unwrap();
    }
    journal.persist_stream(StreamId(2));
    journal.flush();
    journal.shutdown();
    let disk = disk.kill();
    let damaged = changed(&disk, &files(&disk, "wseg")[0], |bytes| bytes[900] ^= 1);
    // All records are in one frame.
    for (verify_time_max, resumes_at, lost) in
        [(Duration::from_secs(1), 0, 0), (Duration::ZERO, FRAMES, FRAMES)]
    {
        let config = JournalConfig { verify_time_max, ..small() };
        let journal = open(config, Arc::new(damaged.kill()));
        journal.register_source("app");
        let mut hec = cursor(&journal, "hec");
        let next = open_stream(&journal, 2).position.offset / STEP;
        assert_eq!(next, resumes_at);
        for n in next..FRAMES {
            journal.append(part(n), WritePolicy::OnLag).unwrap();
        }
        journal.release_unclaimed();
        assert_eq!(drain(&mut hec).len() as u64, FRAMES - lost);
        let book = journal.ledger().cursors[0].book;
        assert_eq!(book.discarded[DiscardReason::Damaged as usize], lost);
        assert_books_balance(&journal);
        journal.shutdown();
    }
}
