//! Compaction: a stuck destination keeps only its own records, no destination loses a record
//! because of it, and a crash at any disk call during compaction changes nothing.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{
    ALL_IS_DUE, KIB, MIB, Part, STEP, assert_books_balance, config, cursor, cursor_spec, drain,
    numbers, open_stream, push_record_of, sealed, settle, take, write_all_due,
};
use weir_journal::{
    Cursor, CursorSpec, Journal, JournalConfig, JournalWriter, Outcome, RefusedReason, Step,
    WhenFull, WritePolicy,
};
use weir_model::{Batch, BatchBuilder, DiscardReason, Position};
use weir_testkit::{CallKind, FakeClock, Fault, FaultKind, FaultyDisk};

const DIR: &str = "/data/journal";
const ROWS: u64 = 100;
/// Every batch has one record for the stuck destination.
const BATCHES: u64 = 400;

/// Record `n` goes to the first destination, and every hundredth also to the second.
fn batch(first: u64) -> Batch {
    let mut builder = builder(first, |_| 0);
    builder.route_all(&[0]);
    builder.route(7, &[0, 1]).unwrap();
    sealed(&mut builder, 1, first + ROWS)
}

/// Every record goes to both destinations; nine of ten have the same key.
fn mixed(first: u64) -> Batch {
    let mut builder = builder(first, key_of);
    builder.route_all(&[0, 1]);
    sealed(&mut builder, 1, first + ROWS)
}

const NOISY: u64 = 1;

fn key_of(n: u64) -> u64 {
    if n.is_multiple_of(10) { NOISY + 1 + n / 10 % 30 } else { NOISY }
}

fn builder(first: u64, key_of: impl Fn(u64) -> u64) -> BatchBuilder {
    let mut builder = BatchBuilder::new(Position::new(0, first * STEP));
    for n in first..first + ROWS {
        let mut body = support::body(1, 0, n);
        body.resize(100, b'.');
        let resource = builder.resource(key_of(n), b"{}").unwrap();
        push_record_of(&mut builder, n, resource, &body);
    }
    builder
}

struct World {
    disk: FaultyDisk,
    clock: FakeClock,
    journal: Journal,
    writer: JournalWriter,
    all: Cursor,
    stuck: Cursor,
    /// Number of records that its source knew at the start.
    known: u64,
}

fn small() -> JournalConfig {
    JournalConfig {
        segment_bytes: 256 * KIB,
        ring_bytes: MIB,
        commit_interval: Duration::from_millis(20),
        merge_from_batches: usize::MAX,
        ..config(DIR)
    }
}

impl World {
    fn start(disk: FaultyDisk) -> Self {
        Self::start_with(disk, cursor_spec("stuck"))
    }

    fn start_with(disk: FaultyDisk, stuck: CursorSpec) -> Self {
        Self::open(small(), disk, stuck)
    }

    /// Small frames are also merged, from four batches on.
    fn start_merging(disk: FaultyDisk) -> Self {
        Self::open(JournalConfig { merge_from_batches: 4, ..small() }, disk, dropping())
    }

    fn open(config: JournalConfig, disk: FaultyDisk, stuck: CursorSpec) -> Self {
        let clock = FakeClock::default();
        let opened =
            Journal::open_with_writer(config, Arc::new(disk.clone()), Arc::new(clock.clone()));
        let (journal, writer) = opened.unwrap();
        let all = cursor(&journal, "all");
        let stuck = journal.cursor(stuck).unwrap();
        let resume = open_stream(&journal, 1);
        journal.release_unclaimed();
        assert_eq!(resume.position.offset % (ROWS * STEP), 0);
        let known = resume.position.offset / STEP;
        Self { disk, clock, journal, writer, all, stuck, known }
    }

    /// Appends batches that the first destination receives at once, and writes what is due.
    fn run(&mut self, from: u64, count: u64) {
        self.run_with(batch, from, count);
    }

    fn run_with(&mut self, batch: fn(u64) -> Batch, from: u64, count: u64) {
        for number in from..from + count {
            while let Err(refused) =
                self.journal.append(batch(number * ROWS), WritePolicy::OnAppend)
            {
                assert!(matches!(refused.reason, RefusedReason::Disk { .. }), "{refused:?}");
                self.clock.advance(Duration::from_secs(1));
                self.steps();
            }
            self.clock.advance(ALL_IS_DUE);
            self.steps();
            while let Some(delivery) = take(&mut self.all) {
                assert_eq!(numbers(&delivery).len() as u64, ROWS);
                self.all.ack(&delivery, Outcome::delivered(delivery.record_count));
            }
            assert_books_balance(&self.journal);
        }
    }

    /// Waits longer than the interval between two checks.
    fn settle(&mut self) {
        settle(&mut self.writer, &self.clock);
    }

    fn steps(&mut self) {
        write_all_due(&mut self.writer);
    }
}

fn wanted(batches: u64) -> Vec<(u64, u64)> {
    (0..batches).map(|number| (1, number * ROWS + 7)).collect()
}

#[test]
fn a_stuck_destination_uses_at_most_twice_its_charge_plus_two_segments() {
    let mut world = World::start(FaultyDisk::new());
    world.run(0, BATCHES);
    world.settle();
    let ledger = world.journal.ledger();
    let charge = ledger.cursors[1].pending_bytes;
    let status = &ledger.journal;
    let written = BATCHES * batch(0).frame_bytes() as u64;
    assert!(written > 4 * MIB && charge < written / 10, "{charge} of {written}");
    assert!(
        status.disk_bytes <= 2 * charge + 2 * small().segment_bytes,
        "{} bytes for {charge}",
        status.disk_bytes
    );
    assert!(status.frames_compacted >= BATCHES / 2, "{status:?}");
    // What cannot be reduced is left alone.
    let compacted = status.frames_compacted;
    world.settle();
    world.settle();
    assert_eq!(world.journal.ledger().journal.frames_compacted, compacted);
    assert_eq!(drain(&mut world.stuck), wanted(BATCHES));
    world.settle();
    assert_books_balance(&world.journal);
    assert!(world.journal.ledger().journal.segments <= 1, "all space is freed");
}

#[test]
fn a_batch_that_was_taken_is_read_where_it_stands_now() {
    let mut world = World::start(FaultyDisk::new());
    world.run(0, BATCHES);
    let clones: Vec<_> = std::iter::from_fn(|| take(&mut world.stuck)).collect();
    assert_eq!(clones.len() as u64, BATCHES);
    world.settle();
    assert!(world.journal.ledger().journal.frames_compacted > 0);
    for delivery in clones {
        world.stuck.ack(&delivery, Outcome::delivered(delivery.record_count));
    }
    world.settle();
    assert_books_balance(&world.journal);
}

#[test]
fn a_crash_at_any_call_of_the_disk_loses_and_repeats_nothing() {
    let batches = 100;
    let mut number = 0;
    loop {
        let mut world = World::start(FaultyDisk::new());
        world.run(0, batches);
        number += 1;
        world.disk.inject(Fault::new(FaultKind::Crash).nth(number));
        world.settle();
        let is_over = !world.disk.is_dead();
        if is_over {
            assert!(world.journal.ledger().journal.frames_compacted > 0, "it was compacted");
        }
        let disk = world.disk.crash(number);
        drop(world);
        let mut world = World::start(disk);
        let again = drain(&mut world.all);
        assert!(again.len() as u64 <= ROWS, "acknowledged and flushed before: {}", again.len());
        assert_eq!(drain(&mut world.stuck), wanted(batches), "crash at call {number}");
        assert!(world.journal.ledger().journal.recovery.lost.is_empty());
        assert_books_balance(&world.journal);
        if is_over {
            assert!(number > 4, "compaction makes several disk calls");
            return;
        }
    }
}

/// Number of batches of [`mixed`] whose quiet keys fit in the buffer of [`dropping`].
const MIXED_BATCHES: u64 = 120;

fn dropping() -> CursorSpec {
    CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 224 * KIB,
        ..cursor_spec("stuck")
    }
}

/// Drains the stuck destination, and asserts that every record of the quiet keys arrives, and each
/// other one arrives or is counted as discarded, of `all` records. Returns how many arrive.
fn assert_quiet_keys_are_whole(world: &mut World, all: u64) -> u64 {
    let arrived: Vec<u64> = drain(&mut world.stuck).into_iter().map(|(_, n)| n).collect();
    assert!(arrived.is_sorted_by(|a, b| a < b), "in order, and none twice");
    let is_quiet = |n: &u64| key_of(*n) != NOISY;
    let missing = (0..all).filter(is_quiet).filter(|n| arrived.binary_search(n).is_err());
    assert_eq!(missing.count(), 0, "of {} that arrived", arrived.len());
    let ledger = world.journal.ledger();
    let (book, count) = (&ledger.cursors[1].book, arrived.len() as u64);
    assert_eq!((book.routed, book.delivered), (all, count), "{book:?}");
    let buffer_full = book.discarded[DiscardReason::BufferFull as usize];
    assert_eq!((buffer_full, book.discarded_total()), (all - count, all - count), "{book:?}");
    assert!(ledger.journal.recovery.lost.is_empty(), "{:?}", ledger.journal.recovery);
    assert_books_balance(&world.journal);
    count
}

#[test]
fn what_is_discarded_by_key_keeps_no_space() {
    let mut world = World::start_with(FaultyDisk::new(), dropping());
    world.run_with(mixed, 0, MIXED_BATCHES);
    world.settle();
    let ledger = world.journal.ledger();
    let (charge, status) = (ledger.cursors[1].pending_bytes, ledger.journal);
    let written = MIXED_BATCHES * mixed(0).frame_bytes() as u64;
    assert!(charge <= dropping().buffer_bytes_max && written > 5 * charge, "{charge}");
    assert!(status.frames_compacted > MIXED_BATCHES / 2, "{status:?}");
    assert!(
        status.disk_bytes <= 2 * charge + 2 * small().segment_bytes,
        "{} bytes for {charge}",
        status.disk_bytes
    );
    assert_quiet_keys_are_whole(&mut world, MIXED_BATCHES * ROWS);
    world.settle();
    assert!(world.journal.ledger().journal.segments <= 1, "all space is freed");
}

/// Crashes at each call of the disk. Returns how many frames were merged.
fn crash_at_any_call(start: impl Fn(FaultyDisk) -> World) -> u64 {
    let before = 60;
    let (mut number, mut again, mut merged) = (0, 0, 0);
    let less = loop {
        let mut world = start(FaultyDisk::new());
        world.run_with(mixed, 0, before);
        assert_eq!(world.journal.ledger().journal.frames_compacted, 0);
        number += 1;
        world.disk.inject(Fault::new(FaultKind::Crash).nth(number));
        for batch in before..MIXED_BATCHES {
            world.run_with(mixed, batch, 1);
            if world.disk.is_dead() {
                break;
            }
        }
        world.settle();
        let is_over = !world.disk.is_dead();
        if is_over {
            assert!(world.journal.ledger().journal.frames_compacted > 0, "it was compacted");
        }
        merged += world.journal.ledger().journal.frames_merged;
        let disk = if number % 2 == 0 { world.disk.crash(number) } else { world.disk.kill() };
        drop(world);
        let mut world = start(disk);
        let known = world.known;
        assert!(known >= before * ROWS);
        let arrived = assert_quiet_keys_are_whole(&mut world, known);
        // What was discarded is owed again until it is removed from its frame.
        again += u64::from(arrived == known);
        if is_over {
            break arrived;
        }
    };
    assert!(number > 100 && again > 10, "{number} calls, {again} times before it was compacted");
    assert!(less < MIXED_BATCHES * ROWS * 3 / 4, "{less}");
    merged
}

#[test]
fn a_crash_at_any_call_of_the_disk_counts_what_was_discarded_by_key_once() {
    assert_eq!(crash_at_any_call(|disk| World::start_with(disk, dropping())), 0);
}

#[test]
fn a_crash_at_any_call_of_the_disk_during_merging_counts_what_was_discarded_by_key_once() {
    let merged = crash_at_any_call(World::start_merging);
    assert!(merged > 1000, "{merged}");
}

/// Has one flush after the other fail. Returns how many frames were merged.
fn flushes_that_fail(start: impl Fn(FaultyDisk) -> World) -> u64 {
    let (mut compacted, mut failed, mut merged) = (0, 0, 0);
    for number in 1..80 {
        let mut world = start(FaultyDisk::new());
        world.run_with(mixed, 0, 60);
        let fault = Fault::new(FaultKind::Io).on(CallKind::SyncData).path("segment");
        world.disk.inject(fault.nth(number).times(number % 3 + 1));
        world.run_with(mixed, 60, MIXED_BATCHES - 60);
        failed += world.disk.faults().fired();
        if number % 4 == 0 {
            world.settle();
        }
        compacted += world.journal.ledger().journal.frames_compacted;
        merged += world.journal.ledger().journal.frames_merged;
        let disk = if number % 2 == 0 { world.disk.crash(number) } else { world.disk.kill() };
        drop(world);
        let mut world = start(disk);
        let known = world.known;
        assert_quiet_keys_are_whole(&mut world, known);
    }
    assert!(compacted + merged > 1000 && failed > 60, "{compacted} frames, {failed} failures");
    merged
}

#[test]
fn a_flush_that_fails_during_compaction_changes_nothing() {
    assert_eq!(flushes_that_fail(|disk| World::start_with(disk, dropping())), 0);
}

#[test]
fn a_flush_that_fails_during_merging_changes_nothing() {
    let merged = flushes_that_fail(World::start_merging);
    assert!(merged > 1000, "{merged}");
}

/// Two streams, each with its own destination, one of which is stuck.
fn stuck_beside_a_healthy_one(when_full: WhenFull) -> (u64, u64, weir_journal::Ledger) {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let config = JournalConfig { bytes_max: 4 * MIB, ring_bytes: 16 * MIB, ..small() };
    let limit = config.bytes_max;
    let opened = Journal::open_with_writer(config, Arc::new(disk), Arc::new(clock.clone()));
    let (journal, mut writer) = opened.unwrap();
    let mut healthy = cursor(&journal, "healthy");
    journal.cursor(CursorSpec { when_full, ..cursor_spec("stuck") }).unwrap();
    open_stream(&journal, 1);
    open_stream(&journal, 2);
    journal.release_unclaimed();
    let (mut next, mut refused, mut full) = ([0, 0], [0, 0], 0);
    while next[0] < 40_000 {
        for (index, mask) in [0b01, 0b10].into_iter().enumerate() {
            let part = Part::new(index as u64 + 1, next[index], 20).mask(mask).padding(300);
            match journal.append(part.unrepeatable().build(), WritePolicy::OnAppend) {
                Ok(_) => next[index] += 20,
                // It drains by itself.
                Err(error) if error.reason == RefusedReason::RingFull => full += 1,
                Err(error) => {
                    let cursor = "stuck".to_owned();
                    assert_eq!(error.reason, RefusedReason::BufferFull { cursor });
                    refused[index] += 1;
                }
            }
        }
        clock.advance(ALL_IS_DUE);
        while writer.step() == Step::Worked {}
        drain(&mut healthy);
        assert_books_balance(&journal);
        // Compaction may take an additional segment.
        assert!(journal.ledger().journal.disk_bytes <= limit + small().segment_bytes);
    }
    assert!(full < 200, "the ring was full {full} times");
    (refused[0], refused[1], journal.ledger())
}

#[test]
fn at_the_limit_of_the_disk_only_the_destination_that_keeps_most_of_it_is_refused() {
    let (healthy, stuck, ledger) = stuck_beside_a_healthy_one(WhenFull::Block);
    assert!(healthy == 0 && stuck > 1000, "{healthy} and {stuck} refused");
    assert!(ledger.journal.disk_error.is_none() && ledger.cursors[1].blocking);
}

#[test]
fn at_the_limit_of_the_disk_the_destination_that_keeps_most_of_it_discards() {
    let (healthy, stuck, ledger) = stuck_beside_a_healthy_one(WhenFull::DropOldest);
    assert_eq!((healthy, stuck), (0, 0));
    let book = &ledger.cursors[1].book;
    let discarded = book.discarded[DiscardReason::BufferFull as usize];
    assert!(discarded > 20_000 && discarded < book.routed, "{book:?}");
}
