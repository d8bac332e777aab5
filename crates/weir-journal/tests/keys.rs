//! A full destination discards records of its heaviest key: those of other keys in the same batches
//! arrive whole and in order, and what is missing is what was counted.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use support::{
    ALL_IS_DUE, KIB, MIB, STEP, assert_books_balance, config, cursor_spec, drain, numbers,
    open_stream, push_record_of, take,
};
use weir_journal::{
    Cursor, CursorSpec, Held, Journal, JournalConfig, JournalWriter, Outcome, Step, WhenFull,
    WritePolicy,
};
use weir_model::{Batch, BatchBuilder, DiscardReason, Position};
use weir_testkit::{FakeClock, FaultyDisk};

const STREAM: u64 = 1;
const ROWS: u64 = 40;
/// Three of four records.
const NOISY: u64 = 1;
const QUIET_KEYS: u64 = 5;

/// Returns the key of a record.
type KeyOf = fn(u64) -> u64;

fn key_of(n: u64) -> u64 {
    if n.is_multiple_of(4) { 2 + n / 4 % QUIET_KEYS } else { NOISY }
}

fn batch_of(stream: u64, first: u64, key_of: KeyOf) -> Batch {
    let mut builder = BatchBuilder::new(Position::new(0, first * STEP));
    for n in first..first + ROWS {
        let mut body = support::body(stream, 0, n);
        body.resize(200, b'.');
        let resource = builder.resource(key_of(n), b"{}").unwrap();
        push_record_of(&mut builder, n, resource, &body);
    }
    builder.route_all(&[0]);
    support::sealed(&mut builder, stream, first + ROWS)
}

fn dropping() -> CursorSpec {
    CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 256 * KIB,
        window_bytes: 32 * KIB,
        ..cursor_spec("hec")
    }
}

struct World {
    disk: FaultyDisk,
    clock: FakeClock,
    journal: Journal,
    writer: JournalWriter,
    hec: Cursor,
    next: u64,
    /// Number of records that its source knew at the start.
    known: u64,
}

impl World {
    fn start(disk: FaultyDisk, spec: CursorSpec, next: u64) -> Self {
        let clock = FakeClock::default();
        let config = JournalConfig { ring_bytes: MIB, ..config("/data/journal") };
        let opened =
            Journal::open_with_writer(config, Arc::new(disk.clone()), Arc::new(clock.clone()));
        let (journal, writer) = opened.unwrap();
        let hec = journal.cursor(spec).unwrap();
        let known = open_stream(&journal, STREAM).furthest.book.lines;
        journal.release_unclaimed();
        Self { disk, clock, journal, writer, hec, next, known }
    }

    fn append_with(&mut self, count: u64, key_of: KeyOf) {
        for _ in 0..count {
            let batch = batch_of(STREAM, self.next, key_of);
            self.journal.append(batch, WritePolicy::Soon).unwrap();
            self.next += ROWS;
            self.work();
            assert_books_balance(&self.journal);
        }
    }

    fn append(&mut self, count: u64) {
        self.append_with(count, key_of);
    }

    fn work(&mut self) {
        self.clock.advance(ALL_IS_DUE);
        while self.writer.step() == Step::Worked {}
    }

    /// Takes and settles everything; returns the record numbers.
    fn drain(&mut self) -> Vec<u64> {
        drain(&mut self.hec).into_iter().map(|(_, n)| n).collect()
    }

    fn discarded(&self) -> u64 {
        let ledger = self.journal.ledger();
        let book = &ledger.cursors[0].book;
        assert_eq!(book.discarded_total(), book.discarded[DiscardReason::BufferFull as usize]);
        book.discarded_total()
    }

    /// Asserts that these arrived in order: all records of quiet keys, and those of the noisy one
    /// that were not discarded.
    fn assert_quiet_keys_are_whole(&self, arrived: &[u64]) {
        assert!(arrived.is_sorted_by(|a, b| a < b), "in order, and none twice");
        assert_eq!(arrived.len() as u64 + self.discarded(), self.next);
        assert!(self.discarded() > 0);
        let is_quiet = |n: &u64| key_of(*n) != NOISY;
        let missing = (0..self.next).filter(is_quiet).filter(|n| arrived.binary_search(n).is_err());
        assert_eq!(missing.count(), 0, "of {} that arrived", arrived.len());
        assert_books_balance(&self.journal);
    }
}

#[test]
fn only_the_heaviest_key_loses_records_and_the_newest_stay() {
    let mut world = World::start(FaultyDisk::new(), dropping(), 0);
    // Quiet keys have at most three quarters of the buffer.
    world.append(60);
    assert!(world.journal.ledger().cursors[0].pending_bytes <= dropping().buffer_bytes_max);
    let arrived = world.drain();
    world.assert_quiet_keys_are_whole(&arrived);
    assert_eq!(arrived.last(), Some(&(world.next - 1)), "the newest stays");
    let noisy: Vec<u64> = arrived.into_iter().filter(|n| key_of(*n) == NOISY).collect();
    let oldest = noisy.first().copied().unwrap_or_default();
    let newer = (oldest..world.next).filter(|n| key_of(*n) == NOISY).collect::<Vec<_>>();
    assert_eq!(noisy, newer, "the oldest were discarded");
}

#[test]
fn keys_of_equal_weight_lose_alike() {
    let mut world = World::start(FaultyDisk::new(), dropping(), 0);
    let even: KeyOf = |n| 1 + n % 8;
    world.append_with(100, even);
    let mut left: BTreeMap<u64, u64> = BTreeMap::new();
    for n in world.drain() {
        *left.entry(even(n)).or_default() += 1;
    }
    let (least, most) = (left.values().min().unwrap(), left.values().max().unwrap());
    assert!(left.len() == 8 && most - least <= ROWS / 8, "{left:?}");
    assert_books_balance(&world.journal);
}

#[test]
fn among_more_keys_than_are_listed_the_noisy_one_loses() {
    let mut world = World::start(FaultyDisk::new(), dropping(), 0);
    let many: KeyOf = |n| if n % 4 == 0 { 2 + n / 4 } else { NOISY };
    world.append_with(60, many);
    let arrived = world.drain();
    let quiet = arrived.iter().filter(|n| many(**n) != NOISY).count() as u64;
    assert_eq!(quiet, world.next / 4);
    assert_eq!(arrived.len() as u64 + world.discarded(), world.next);
    assert_books_balance(&world.journal);
}

#[test]
fn when_nothing_of_the_heaviest_key_waits_the_next_one_loses() {
    let mut world = World::start(FaultyDisk::new(), dropping(), 0);
    world.append(300);
    let arrived = world.drain();
    assert!(arrived.is_sorted_by(|a, b| a < b));
    assert_eq!(arrived.len() as u64 + world.discarded(), world.next);
    assert_eq!(arrived.last(), Some(&(world.next - 1)), "the newest stays");
    let mut left: BTreeMap<u64, u64> = BTreeMap::new();
    for n in arrived {
        *left.entry(key_of(n)).or_default() += 1;
    }
    let (least, most) = (left.values().min().unwrap(), left.values().max().unwrap());
    assert!(left.len() as u64 == 1 + QUIET_KEYS && most - least <= ROWS, "{left:?}");
    assert_books_balance(&world.journal);
}

#[test]
fn keys_of_what_an_earlier_run_left_on_disk_are_counted() {
    let mut world = World::start(FaultyDisk::new(), dropping(), 0);
    world.append(50);
    world.work();
    let (next, disk) = (world.next, world.disk.kill());
    drop(world);
    let mut world = World::start(disk, dropping(), next);
    // What was discarded is owed again, so the buffer is full at once.
    let ledger = world.journal.ledger();
    assert_eq!(ledger.cursors[0].in_flight, next);
    assert!(ledger.cursors[0].pending_bytes > dropping().buffer_bytes_max * 3 / 2);
    world.append(10);
    assert!(world.journal.ledger().cursors[0].pending_bytes <= dropping().buffer_bytes_max);
    let arrived = world.drain();
    world.assert_quiet_keys_are_whole(&arrived);
}

#[test]
fn what_was_discarded_stays_so_whatever_its_reader_does() {
    let mut world = World::start(FaultyDisk::new(), dropping(), 0);
    world.append(40);
    let discarded = world.discarded();
    assert!(discarded > 0);
    let waits = |world: &World| {
        let ledger = world.journal.ledger();
        assert_books_balance(&world.journal);
        (ledger.cursors[0].in_flight, ledger.cursors[0].taken)
    };
    let all = world.next - discarded;
    // Put back, replaced, and removed for a while.
    let first = take(&mut world.hec).unwrap();
    assert_eq!(waits(&world), (all, first.record_count));
    world.hec.put_back(&first);
    let again = take(&mut world.hec).unwrap();
    assert_eq!(numbers(&again), numbers(&first));
    let blocking = CursorSpec { when_full: WhenFull::Block, ..dropping() };
    world.hec = world.journal.cursor(blocking).unwrap();
    assert_eq!(waits(&world), (all, 0));
    world.journal.detach(world.hec.index());
    world.work();
    assert_eq!(waits(&world), (all, 0));
    world.hec = world.journal.cursor(dropping()).unwrap();
    let arrived = world.drain();
    assert_eq!(world.discarded(), discarded);
    world.assert_quiet_keys_are_whole(&arrived);
}

#[test]
fn what_is_taken_or_held_is_not_discarded() {
    let spec = CursorSpec { window_bytes: 64 * KIB, ..dropping() };
    let mut world = World::start(FaultyDisk::new(), spec, 0);
    world.append(4);
    let mut held = Held::default();
    let mut arrived = Vec::new();
    for _ in 0..2 {
        let delivery = take(&mut world.hec).unwrap();
        arrived.extend(numbers(&delivery));
        world.hec.hold(&delivery, &mut held);
    }
    let taken = take(&mut world.hec).unwrap();
    arrived.extend(numbers(&taken));
    world.append(36);
    assert_eq!(arrived.len() as u64, 3 * ROWS);
    world.hec.ack(&taken, Outcome::delivered(taken.record_count));
    world.hec.ack_held(held);
    arrived.extend(world.drain());
    world.assert_quiet_keys_are_whole(&arrived);
}

#[test]
fn a_dropped_destination_discards_what_was_left_of_each_batch() {
    let mut world = World::start(FaultyDisk::new(), dropping(), 0);
    world.append(40);
    let discarded = world.discarded();
    world.journal.detach(world.hec.index());
    let left = world.journal.drop_cursor("hec").unwrap();
    assert_eq!(left + discarded, world.next);
    world.work();
    let ledger = world.journal.ledger();
    assert!(ledger.cursors.is_empty() && discarded > 0);
    assert_eq!(ledger.journal.ring_bytes, 0);
    assert!(ledger.journal.segments <= 1, "{:?}", ledger.journal);
}

#[test]
fn a_destination_that_divides_by_stream_discards_whole_batches() {
    let spec = CursorSpec { when_full: WhenFull::DropOldestOfStream, ..dropping() };
    let mut world = World::start(FaultyDisk::new(), spec, 0);
    world.append(60);
    let arrived = world.drain();
    assert_eq!(arrived.len() as u64 + world.discarded(), world.next);
    assert_eq!(arrived, (world.discarded()..world.next).collect::<Vec<_>>());
    assert_books_balance(&world.journal);
}

/// After a crash, what was discarded is owed again, or counted: wherever positions were written.
#[test]
fn a_kill_at_any_disk_call_discards_or_delivers_each_record() {
    for call in 1.. {
        let mut world = World::start(FaultyDisk::new(), dropping(), 0);
        world.append(30);
        world.disk.inject(weir_testkit::Fault::new(weir_testkit::FaultKind::Crash).nth(call));
        let mut settled = 0;
        for n in 0..10 {
            if n % 3 != 1
                && let Some(delivery) = take(&mut world.hec)
            {
                settled += delivery.record_count;
                world.hec.ack(&delivery, Outcome::delivered(delivery.record_count));
            }
            let batch = batch_of(STREAM, world.next, key_of);
            world.journal.append(batch, WritePolicy::Soon).unwrap();
            world.next += ROWS;
            world.work();
        }
        let is_over = !world.disk.is_dead();
        let disk = world.disk.kill();
        drop(world);
        let mut world = World::start(disk, dropping(), 0);
        let arrived = world.drain().len() as u64;
        let book = world.journal.ledger().cursors[0].book;
        assert_eq!(book.routed, world.known, "killed at call {call}: {book:?}");
        assert_eq!(book.delivered + book.discarded_total(), book.routed, "{book:?}");
        assert!(book.delivered <= arrived + settled, "{book:?}");
        assert!(book.delivered >= arrived, "{book:?}");
        assert!(world.journal.ledger().journal.recovery.lost.is_empty());
        assert_books_balance(&world.journal);
        if is_over {
            return;
        }
    }
}
