//! Batches of sources that neither acknowledge nor repeat what they receive: when they are written,
//! and what their source counts as lost after a crash. The writer is stepped, so nothing depends on
//! the speed of a thread; a process can be stopped between any two disk calls.

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use support::{
    KIB, MIB, Part, assert_books_balance, config, cursor, cursor_spec, drain, open_stream,
    parse_body, take,
};
use weir_host::Clock;
use weir_journal::{
    AppendTicket, Cursor, CursorSpec, Journal, JournalConfig, JournalWriter, Outcome,
    RefusedReason, SOON_INTERVAL, Step, WhenFull, WritePolicy,
};
use weir_model::{DiscardReason, Position, SourceBook};
use weir_testkit::{CallKind, FakeClock, Fault, FaultKind, FaultyDisk};

const SOON: WritePolicy = WritePolicy::Soon;
const SAFE: WritePolicy = WritePolicy::OnAppend;
/// The stream that the tests use.
const STREAM: u64 = 1;

/// What a source stores outside the journal about what it received: it survives a crash.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// All lines that were ever received.
    lines: u64,
    /// The latest epoch that the journal knew at the start.
    known_epoch: u32,
    epoch: u32,
}

/// A source that does not acknowledge what it receives.
#[derive(Debug)]
struct Lane {
    count: Count,
    /// Lines of earlier epochs, and how many of them are counted as lost.
    lines_before: u64,
    lost_before: u64,
    /// The next record of this epoch.
    next: u64,
}

impl Lane {
    /// Opens the stream, and counts what did not survive.
    fn open(journal: &Journal, count: Count) -> Self {
        let resume = open_stream(journal, STREAM);
        let survived = resume.furthest.book;
        assert_eq!((resume.position, resume.book), (resume.furthest.position, survived));
        let is_unknown = resume.last_epoch == 0 && count.known_epoch > 0;
        assert!(resume.last_epoch <= count.epoch && !is_unknown);
        assert!(survived.lines <= count.lines, "more than was ever received: {survived:?}");
        let lost_before = survived.discarded_total() + count.lines - survived.lines;
        let (known_epoch, epoch) = (resume.last_epoch, resume.last_epoch + 1);
        let lines_before = count.lines;
        let count = Count { lines: lines_before, known_epoch, epoch };
        Self { count, lines_before, lost_before, next: 0 }
    }

    fn part(&self, records: u64) -> Part {
        let part = Part::new(STREAM, self.next, records).mask(0b11).lost(self.lost_before);
        part.epoch(self.count.epoch, self.lines_before).unrepeatable()
    }

    /// Appends a batch that carries only the counts.
    fn begin(&self, journal: &Journal, policy: WritePolicy) -> AppendTicket {
        journal.append(self.part(0).build(), policy).unwrap()
    }

    fn receive(&mut self, journal: &Journal, records: u64) {
        self.count.lines += records;
        journal.append(self.part(records).build(), SOON).unwrap();
        self.next += records;
    }
}

/// A process whose journal has a writer that is stepped.
struct Process {
    clock: FakeClock,
    journal: Journal,
    writer: JournalWriter,
}

impl Process {
    fn open(disk: &FaultyDisk) -> Self {
        Self::open_with(disk, config("/data/journal"))
    }

    fn open_with(disk: &FaultyDisk, config: JournalConfig) -> Self {
        let clock = FakeClock::default();
        let (disk, timer) = (Arc::new(disk.clone()), Arc::new(clock.clone()));
        let (journal, writer) = Journal::open_with_writer(config, disk, timer).unwrap();
        journal.register_source("app");
        Self { clock, journal, writer }
    }

    /// Lets time pass and performs everything that is due then.
    fn work(&mut self, time: Duration) {
        self.clock.advance(time);
        while self.writer.step() == Step::Worked {}
    }

    fn append(&self, first: u64, count: u64) {
        self.journal.append(part(first, count).build(), SOON).unwrap();
    }

    fn frames_written(&self) -> u64 {
        self.journal.ledger().journal.frames_written
    }

    fn disk_error(&self) -> Option<String> {
        self.journal.ledger().journal.disk_error
    }

    fn source_book(&self) -> SourceBook {
        self.journal.ledger().sources[0].book
    }
}

fn part(first: u64, count: u64) -> Part {
    Part::new(STREAM, first, count).unrepeatable()
}

fn deliver(cursor: &mut Cursor) {
    let delivery = take(cursor).unwrap();
    cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
}

fn drained(cursor: &mut Cursor) -> Vec<u64> {
    drain(cursor).into_iter().map(|(_, n)| n).collect()
}

type Durable = Pin<Box<dyn Future<Output = Result<(), RefusedReason>>>>;

fn is_safe(ticket: &mut Durable) -> bool {
    let polled = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled == Poll::Ready(Ok(()))
}

#[test]
fn what_is_received_without_acknowledgement_is_flushed_within_the_interval() {
    let disk = FaultyDisk::new();
    let mut process = Process::open(&disk);
    let hec = cursor(&process.journal, "hec");
    open_stream(&process.journal, STREAM);
    process.append(0, 5);
    process.work(SOON_INTERVAL / 4);
    process.append(5, 5);
    assert_eq!(process.frames_written(), 0, "it waits for others and for its destinations");
    process.work(SOON_INTERVAL / 4);
    assert_eq!(process.frames_written(), 2, "together, but not merged");
    drop((process, hec));
    let process = Process::open(&disk.crash(1));
    let mut hec = cursor(&process.journal, "hec");
    assert_eq!(open_stream(&process.journal, STREAM).furthest.book.lines, 10);
    assert_eq!(drained(&mut hec), (0..10).collect::<Vec<_>>());
    assert_books_balance(&process.journal);
}

#[test]
fn what_every_destination_has_settled_in_time_is_not_written() {
    let mut process = Process::open(&FaultyDisk::new());
    let mut quick = cursor(&process.journal, "quick");
    let mut slow = cursor(&process.journal, "slow");
    for first in [0, 5] {
        process.journal.append(part(first, 5).mask(0b11).build(), SOON).unwrap();
        deliver(&mut quick);
    }
    deliver(&mut slow);
    process.work(SOON_INTERVAL);
    assert_eq!(process.frames_written(), 1, "the one that a destination still needs");
    assert_books_balance(&process.journal);
}

#[test]
fn what_was_delivered_and_not_written_is_in_the_books_of_a_kill_that_finds_what_follows_it() {
    for policy in [SOON, SAFE] {
        let disk = FaultyDisk::new();
        let mut process = Process::open(&disk);
        let mut hec = cursor(&process.journal, "hec");
        process.work(SOON_INTERVAL);
        open_stream(&process.journal, STREAM);
        process.journal.append(part(0, 5).build(), policy).unwrap();
        deliver(&mut hec);
        process.journal.append(part(5, 5).build(), policy).unwrap();
        process.clock.advance(SOON_INTERVAL / 2);
        while process.frames_written() == 0 {
            assert_eq!(process.writer.step(), Step::Worked);
        }
        drop((process, hec));
        let process = Process::open(&disk.kill());
        let mut hec = cursor(&process.journal, "hec");
        assert_eq!(open_stream(&process.journal, STREAM).furthest.book.lines, 10);
        assert_eq!(drained(&mut hec), (5..10).collect::<Vec<_>>());
        let book = process.journal.ledger().cursors[0].book;
        assert_eq!((book.routed, book.delivered), (10, 10), "{policy:?}: {book:?}");
        assert_books_balance(&process.journal);
    }
}

#[test]
fn what_is_received_while_the_disk_fails_is_written_in_order_when_it_works_again() {
    let disk = FaultyDisk::new();
    let mut process = Process::open(&disk);
    let hec = cursor(&process.journal, "hec");
    open_stream(&process.journal, STREAM);
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData).path("segment").forever());
    process.append(0, 5);
    process.work(SOON_INTERVAL);
    assert!(process.disk_error().is_some());
    let refused = process.journal.append(part(5, 5).build(), SAFE).unwrap_err();
    assert!(matches!(refused.reason, RefusedReason::Disk { .. }));
    process.append(5, 5);
    process.work(Duration::from_secs(1));
    process.append(10, 5);
    disk.faults().clear();
    process.work(Duration::from_secs(1));
    process.work(SOON_INTERVAL);
    assert_eq!(process.disk_error(), None);
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wseg");
    let newest = disk.names().into_iter().filter(is_segment).max();
    let bytes = disk.content(&newest.unwrap()).unwrap();
    let place = |body: &str| bytes.windows(body.len()).position(|window| window == body.as_bytes());
    let places = ["1/0/0;", "1/0/5;", "1/0/10;"].map(place);
    assert!(places.is_sorted() && places[0].is_some(), "{places:?}");
    drop((process, hec));
    let process = Process::open(&disk.crash(1));
    let mut hec = cursor(&process.journal, "hec");
    assert_eq!(open_stream(&process.journal, STREAM).furthest.book.lines, 15);
    assert_eq!(drained(&mut hec), (0..15).collect::<Vec<_>>());
    assert_books_balance(&process.journal);
}

#[test]
fn it_is_refused_only_when_ring_or_buffer_are_full_and_spilled_like_others() {
    let limits = JournalConfig {
        ring_bytes: MIB / 2,
        spill_after: Duration::from_secs(1),
        ..config("/data/journal")
    };
    let mut process = Process::open_with(&FaultyDisk::new(), limits);
    let spec = CursorSpec { buffer_bytes_max: 4 * MIB, ..cursor_spec("hec") };
    let mut hec = process.journal.cursor(spec).unwrap();
    let mut count = 0;
    let mut fill = |process: &Process| loop {
        let part = part(count * 10, 10).padding(6000);
        match process.journal.append(part.build(), SOON) {
            Ok(_) => count += 1,
            Err(refused) => return refused.reason,
        }
    };
    assert_eq!(fill(&process), RefusedReason::RingFull);
    let full = RefusedReason::BufferFull { cursor: "hec".to_owned() };
    let mut reason = RefusedReason::RingFull;
    for _ in 0..100 {
        // It is written anyway, so the ring has room as soon as it is.
        process.work(SOON_INTERVAL);
        reason = fill(&process);
    }
    assert_eq!(reason, full);
    assert!(process.journal.ledger().journal.ring_bytes <= MIB / 2);
    assert_eq!(drained(&mut hec).len() as u64, count * 10);
    assert_books_balance(&process.journal);
    process.journal.close();
    let refused = process.journal.append(part(0, 1).build(), SOON).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::Closed);
}

#[test]
fn what_is_discarded_while_the_disk_fails_makes_room_and_is_counted_after_a_kill() {
    let disk = FaultyDisk::new();
    let limits = JournalConfig { ring_bytes: 128 * KIB, ..config("/data/journal") };
    let mut process = Process::open_with(&disk, limits);
    let spec = CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 96 * KIB,
        ..cursor_spec("hec")
    };
    let mut hec = process.journal.cursor(spec.clone()).unwrap();
    process.work(SOON_INTERVAL);
    open_stream(&process.journal, STREAM);
    process.append(0, 1);
    let in_flight = take(&mut hec).unwrap();
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::Write).path("segment").forever());
    process.work(SOON_INTERVAL);
    assert!(process.disk_error().is_some());
    for n in 1..40 {
        let part = part(n, 1).padding(12_000);
        process.journal.append(part.build(), SOON).expect("older ones are discarded for it");
    }
    let discarded = process.journal.ledger().cursors[0].book.discarded_total();
    assert!(discarded > 20, "{discarded} were discarded");
    assert_books_balance(&process.journal);
    disk.faults().clear();
    process.clock.advance(Duration::from_secs(1));
    // Up to the frames, and nothing that follows.
    let before = disk.faults().calls(CallKind::SyncData);
    while process.frames_written() == 0 {
        assert_eq!(process.writer.step(), Step::Worked);
    }
    assert!(disk.faults().calls(CallKind::SyncData) > before);
    drop((process, hec, in_flight));
    let process = Process::open(&disk.kill());
    let mut hec = process.journal.cursor(spec).unwrap();
    assert_eq!(open_stream(&process.journal, STREAM).furthest.book.lines, 40);
    let arrived = drained(&mut hec).len() as u64;
    let book = process.journal.ledger().cursors[0].book;
    assert_eq!((book.routed, book.delivered), (40, arrived), "{book:?}");
    assert_eq!(book.discarded_total(), 40 - arrived, "each is delivered or counted");
    assert_books_balance(&process.journal);
}

#[test]
fn a_ticket_also_stands_for_what_its_stream_received_before_without_one() {
    let mut process = Process::open(&FaultyDisk::new());
    let _hec = cursor(&process.journal, "hec");
    process.append(0, 5);
    let mut ticket: Durable =
        Box::pin(process.journal.append(part(5, 5).build(), SAFE).unwrap().durable());
    process.work(SOON_INTERVAL / 4);
    assert!(is_safe(&mut ticket));
    assert_eq!(process.frames_written(), 2);
}

#[test]
fn the_counts_with_which_an_epoch_begins_are_durable_when_its_ticket_resolves() {
    let disk = FaultyDisk::new();
    let mut process = Process::open(&disk);
    let mut behind = cursor(&process.journal, "behind");
    let lane = &mut Lane::open(&process.journal, Count::default());
    lane.receive(&process.journal, 5);
    process.work(SOON_INTERVAL);
    drop((process, behind));
    let disk = disk.kill();
    let mut process = Process::open(&disk);
    behind = cursor(&process.journal, "behind");
    lane.count.lines += 3;
    let lane = Lane::open(&process.journal, lane.count);
    assert_eq!(lane.lost_before, 3);
    let mut ticket: Durable = Box::pin(lane.begin(&process.journal, SAFE).durable());
    assert_eq!(process.source_book().discarded[DiscardReason::Crash as usize], 3);
    assert!(!is_safe(&mut ticket));
    process.work(SOON_INTERVAL);
    assert!(is_safe(&mut ticket));
    // The only destination still needs what came before.
    drop((process, behind));
    let process = Process::open(&disk.crash(1));
    let mut behind = cursor(&process.journal, "behind");
    let furthest = open_stream(&process.journal, STREAM).furthest;
    assert_eq!(furthest.position, Position::new(lane.count.epoch, 0));
    assert_eq!((furthest.book.lines, furthest.book.discarded_total()), (8, 3));
    assert_eq!(process.source_book(), furthest.book);
    assert_eq!(drained(&mut behind), [0, 1, 2, 3, 4]);
    assert_books_balance(&process.journal);
}

#[test]
fn counts_that_cannot_be_written_are_reported_and_kept() {
    let disk = FaultyDisk::new();
    let mut process = Process::open(&disk);
    let _hec = cursor(&process.journal, "hec");
    process.work(SOON_INTERVAL);
    let lane = Lane::open(&process.journal, Count { lines: 3, ..Count::default() });
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::Write).path("cursors").forever());
    let mut ticket: Durable = Box::pin(lane.begin(&process.journal, SAFE).durable());
    process.work(SOON_INTERVAL);
    let polled = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(RefusedReason::Disk { .. }))), "{polled:?}");
    disk.faults().clear();
    process.work(Duration::from_secs(1));
    drop(process);
    let process = Process::open(&disk.crash(1));
    assert_eq!(open_stream(&process.journal, STREAM).furthest.book.discarded_total(), 3);
}

/// What a source is told about four batches of five records, after `settle` and a kill.
fn lines_after_a_kill(settle: impl FnOnce(&mut Process, &mut [Cursor; 2])) -> [u64; 3] {
    let disk = FaultyDisk::new();
    let mut process = Process::open(&disk);
    let mut cursors = ["quick", "slow"].map(|name| cursor(&process.journal, name));
    process.work(SOON_INTERVAL);
    let mut lane = Lane::open(&process.journal, Count::default());
    for _ in 0..4 {
        lane.receive(&process.journal, 5);
    }
    settle(&mut process, &mut cursors);
    drop((process, cursors));
    let process = Process::open(&disk.kill());
    let mut cursors = ["quick", "slow"].map(|name| cursor(&process.journal, name));
    let lane = Lane::open(&process.journal, lane.count);
    let _ticket = lane.begin(&process.journal, SOON);
    let arrived = cursors.each_mut().map(|cursor| drained(cursor).len() as u64);
    assert_books_balance(&process.journal);
    let book = process.source_book();
    assert_eq!((book.lines, book.records), (20, 20 - lane.lost_before));
    for (cursor, arrived) in process.journal.ledger().cursors.iter().zip(arrived) {
        let book = cursor.book;
        assert_eq!(book.routed, book.delivered + book.discarded[DiscardReason::Vanished as usize]);
        assert!(book.delivered >= arrived && book.routed <= 20 - lane.lost_before);
    }
    [lane.lost_before, arrived[0], arrived[1]]
}

#[test]
fn a_source_is_told_exactly_what_survived() {
    let shut_down = lines_after_a_kill(|process, _| {
        process.journal.shutdown();
        while process.writer.step() != Step::Ended {}
    });
    assert_eq!(shut_down, [0, 20, 20], "everything is written at the end");
    let flushed = lines_after_a_kill(|process, _| process.work(SOON_INTERVAL));
    assert_eq!(flushed, [0, 20, 20]);
    let unwritten = lines_after_a_kill(|_, _| {});
    assert_eq!(unwritten, [20, 0, 0], "none of it is anywhere");
    // Nothing is on disk but the position of one destination: what the other one has not received
    // is in that one's discards.
    let settled = lines_after_a_kill(|process, [quick, _]| {
        (0..3).for_each(|_| deliver(quick));
        process.work(config("").commit_interval);
        assert_eq!(process.frames_written(), 0);
    });
    assert_eq!(settled, [5, 0, 0]);
    let behind = lines_after_a_kill(|process, [quick, slow]| {
        (0..4).for_each(|_| deliver(quick));
        deliver(slow);
        process.work(SOON_INTERVAL);
    });
    assert_eq!(behind, [0, 0, 15]);
}

/// A batch that was received: its records, when, and whether it must have survived.
#[derive(Debug)]
struct Received {
    records: std::ops::Range<u64>,
    at: Duration,
    is_safe: bool,
}

/// What two destinations have received and acknowledged, by epoch and number.
type Sinks = [BTreeSet<(u32, u64)>; 2];

fn settle(cursor: &mut Cursor, sink: &mut BTreeSet<(u32, u64)>) {
    let Some(delivery) = take(cursor) else { return };
    let bodies = delivery.records().map(|(_, record)| parse_body(record.body));
    sink.extend(bodies.map(|(_, epoch, n)| (epoch, n)));
    cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
}

/// A process receives and delivers until it has made that many disk calls.
fn live(process: &mut Process, disk: &FaultyDisk, lane: &mut Lane) -> (Vec<Received>, Sinks) {
    let mut quick = cursor(&process.journal, "quick");
    let mut slow = cursor(&process.journal, "slow");
    let _ticket = lane.begin(&process.journal, SOON);
    let mut received: Vec<Received> = Vec::new();
    let mut sinks = Sinks::default();
    for n in 0..16 {
        let at = process.clock.monotonic();
        let records = lane.next..lane.next + 3;
        lane.receive(&process.journal, 3);
        received.push(Received { records, at, is_safe: false });
        if n % 4 == 3 {
            (0..3).for_each(|_| settle(&mut quick, &mut sinks[0]));
        }
        if n == 9 {
            settle(&mut slow, &mut sinks[1]);
        }
        process.work(Duration::from_millis(3));
        if disk.is_dead() {
            break;
        }
        let now = process.clock.monotonic();
        for batch in received.iter_mut().filter(|batch| batch.at + SOON_INTERVAL <= now) {
            batch.is_safe = true;
        }
    }
    (received, sinks)
}

/// A process stops after that many disk calls, alone or with the machine; the next one is told what
/// survived, and stops at once if `again`. Returns false if there were not that many calls.
fn stops(calls: u64, is_alone: bool, again: bool) -> bool {
    let disk = FaultyDisk::new();
    let mut process = Process::open(&disk);
    let mut lane = Lane::open(&process.journal, Count::default());
    disk.inject(Fault::new(FaultKind::Crash).nth(calls));
    let (received, mut sinks) = live(&mut process, &disk, &mut lane);
    let (is_stopped, count) = (disk.is_dead(), lane.count);
    drop(process);
    let mut disk = if is_alone { disk.kill() } else { disk.crash(calls) };
    if again {
        let process = Process::open(&disk);
        let lane = Lane::open(&process.journal, count);
        let _never_written = lane.begin(&process.journal, SOON);
        drop(process);
        disk = disk.kill();
    }
    let mut process = Process::open(&disk);
    let mut cursors = ["quick", "slow"].map(|name| cursor(&process.journal, name));
    let lane = Lane::open(&process.journal, count);
    let survived = count.lines - lane.lost_before;
    let safe = received.iter().filter(|batch| batch.is_safe).map(|batch| batch.records.end).max();
    assert!(survived >= safe.unwrap_or(0), "only what was received last may be lost");
    let _ticket = lane.begin(&process.journal, SOON);
    process.journal.release_unclaimed();
    for (cursor, sink) in cursors.iter_mut().zip(&mut sinks) {
        while cursor.waiting_bytes() > 0 {
            settle(cursor, sink);
        }
    }
    process.work(SOON_INTERVAL);
    assert_books_balance(&process.journal);
    let book = process.source_book();
    assert_eq!((book.lines, book.records), (count.lines, survived));
    for (cursor, sink) in process.journal.ledger().cursors.iter().zip(&sinks) {
        let gone = |records: std::ops::Range<u64>| {
            records.filter(|n| !sink.contains(&(count.epoch, *n))).count() as u64
        };
        let discarded = cursor.book.discarded_total();
        if is_alone {
            assert!(gone(0..survived) <= discarded, "after {calls}: {cursor:?}");
        }
        let of_safe = received.iter().filter(|batch| batch.is_safe);
        let gone = of_safe.map(|batch| gone(batch.records.clone())).sum::<u64>();
        assert!(gone <= discarded, "after {calls}: {gone} lost of {cursor:?}");
    }
    is_stopped
}

#[test]
fn a_kill_between_any_two_disk_calls_loses_only_the_last_interval_and_all_of_it_is_counted() {
    for again in [false, true] {
        let calls = (1..1000).find(|calls| !stops(*calls, true, again)).unwrap();
        assert!(calls > 20, "{calls} calls");
    }
}

#[test]
fn a_power_loss_between_any_two_disk_calls_loses_nothing_that_was_flushed() {
    for again in [false, true] {
        let calls = (1..1000).find(|calls| !stops(*calls, false, again)).unwrap();
        assert!(calls > 20, "{calls} calls");
    }
}
