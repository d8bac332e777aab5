//! Behavior while the writer is between two steps, or in the middle of one: these tests hold it
//! there, so nothing depends on the speed of a thread.

mod support;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use support::{
    ALL_IS_DUE, HeldWriter, KIB, MIB, Part, config, cursor, cursor_spec, drain, numbers, open,
    open_stream, take,
};
use weir_journal::{
    AppendTicket, Cursor, CursorSpec, Journal, JournalConfig, JournalWriter, Outcome,
    RefusedReason, Step, WhenFull, WritePolicy,
};
use weir_model::{Batch, DiscardReason, StreamId};
use weir_testkit::{CallKind, FakeClock, Fault, FaultKind, FaultyDisk, Pause};

const DIR: &str = "/data/journal";
const SAFE: WritePolicy = WritePolicy::OnAppend;

type Durable = Pin<Box<dyn Future<Output = Result<(), RefusedReason>>>>;

fn stepped(disk: &FaultyDisk, clock: &FakeClock) -> (Journal, JournalWriter) {
    let (disk, clock) = (Arc::new(disk.clone()), Arc::new(clock.clone()));
    Journal::open_with_writer(config(DIR), disk, clock).unwrap()
}

fn is_safe(ticket: &mut Durable) -> bool {
    let polled = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled == Poll::Ready(Ok(()))
}

fn durable(ticket: AppendTicket) -> Durable {
    Box::pin(ticket.durable())
}

#[test]
fn a_settled_batch_is_as_safe_as_what_its_stream_has_before_it() {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let (journal, mut writer) = stepped(&disk, &clock);
    let mut hec = cursor(&journal, "hec");
    let tickets = [0, 5, 10].map(|n| journal.append(Part::new(1, n, 5).build(), SAFE).unwrap());
    let [mut first, mut second, mut third] = tickets.map(durable);
    let [one, two, three] = [(); 3].map(|()| take(&mut hec).unwrap());
    // Acknowledged out of order: after a crash now, the first two would still be needed.
    hec.ack(&three, Outcome::delivered(5));
    assert!(!is_safe(&mut third));
    hec.ack(&two, Outcome::delivered(5));
    assert!(!is_safe(&mut third) && !is_safe(&mut second));
    clock.advance(ALL_IS_DUE);
    while writer.step() == Step::Worked {}
    assert!(is_safe(&mut first) && is_safe(&mut second) && is_safe(&mut third));
    // Including those that are settled: until the first one is, they are in no book that survives a
    // crash.
    assert_eq!(journal.ledger().journal.frames_written, 3);
    hec.ack(&one, Outcome::delivered(5));
}

#[test]
fn batches_that_are_settled_in_order_are_safe_without_being_written() {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let (journal, mut writer) = stepped(&disk, &clock);
    let mut hec = cursor(&journal, "hec");
    let tickets = [0, 5].map(|n| journal.append(Part::new(1, n, 5).build(), SAFE).unwrap());
    let [mut first, mut second] = tickets.map(durable);
    let [one, two] = [(); 2].map(|()| take(&mut hec).unwrap());
    hec.ack(&two, Outcome::delivered(5));
    hec.ack(&one, Outcome::delivered(5));
    assert!(is_safe(&mut first) && is_safe(&mut second));
    clock.advance(ALL_IS_DUE);
    while writer.step() == Step::Worked {}
    assert_eq!(journal.ledger().journal.frames_written, 0);
}

/// What a full buffer discards has nevertheless been acknowledged to its sender: after a crash it
/// is still counted. `in_flight`: something before it is in flight.
fn discards_and_crashes(in_flight: bool) {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let (journal, mut writer) = stepped(&disk, &clock);
    let spec = CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 32 * KIB,
        ..cursor_spec("hec")
    };
    let mut hec = journal.cursor(spec).unwrap();
    open_stream(&journal, 1);
    let append = |n| {
        let part = Part::new(1, n, 1).padding(12_000).unrepeatable();
        durable(journal.append(part.build(), SAFE).unwrap())
    };
    let mut tickets = vec![append(0)];
    let taken = in_flight.then(|| take(&mut hec).unwrap());
    tickets.extend([append(1), append(2)]);
    assert_eq!(journal.ledger().cursors[0].book.discarded_total(), 1);
    assert!(!tickets.iter_mut().any(is_safe), "nothing of it is confirmed yet");
    clock.advance(ALL_IS_DUE);
    // The frames, and nothing that states what became of them.
    assert_eq!(writer.step(), Step::Worked);
    assert!(tickets.iter_mut().all(is_safe));
    drop((journal, writer, hec, taken));
    let disk = disk.crash(1);
    let journal = open(config(DIR), Arc::new(disk));
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.release_unclaimed();
    // What is discarded may still arrive, if its space was not freed yet.
    let arrived = drain(&mut hec).len() as u64;
    let book = journal.ledger().cursors[0].book;
    assert_eq!((book.routed, book.delivered, book.discarded_total()), (3, arrived, 3 - arrived));
    journal.shutdown();
}

#[test]
fn what_is_discarded_before_it_was_written_is_counted_after_a_crash() {
    discards_and_crashes(false);
}

#[test]
fn what_is_discarded_behind_a_batch_in_flight_is_counted_after_a_crash() {
    discards_and_crashes(true);
}

/// Returns a journal whose first frames of stream 1 are only on disk, not flushed, while its file
/// is deleted, and the number of batches of [`ten`] records.
fn spilled(disk: &FaultyDisk, clock: &FakeClock) -> (Journal, JournalWriter, Cursor, u64) {
    let config = JournalConfig { ring_bytes: MIB / 2, spill_after: Duration::ZERO, ..config(DIR) };
    let opened = Journal::open_with_writer(config, Arc::new(disk.clone()), Arc::new(clock.clone()));
    let (journal, mut writer) = opened.unwrap();
    let hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    let mut count = 0;
    while journal.append(ten(count), WritePolicy::OnLag).is_ok() {
        count += 1;
    }
    catch_up(&mut writer, clock);
    assert!(journal.ledger().journal.frames_written > 1);
    journal.persist_stream(StreamId(1));
    (journal, writer, hec, count)
}

/// Ten records, too large to be merged with others.
fn ten(n: u64) -> Batch {
    Part::new(1, n * 10, 10).padding(6000).build()
}

/// Runs until everything that can be written is written, including what failed before.
fn catch_up(writer: &mut JournalWriter, clock: &FakeClock) {
    clock.advance(Duration::from_secs(1));
    while writer.step() == Step::Worked {}
}

#[test]
fn nothing_is_durable_after_an_unreadable_frame_of_a_failed_segment() {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let (journal, mut writer, mut hec, count) = spilled(&disk, &clock);
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData).path("segment"));
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::Read).path("segment").times(2));
    catch_up(&mut writer, &clock);
    assert_eq!(disk.faults().fired(), 3, "the first frame was read twice");
    catch_up(&mut writer, &clock);
    assert_eq!(journal.ledger().journal.disk_error, None, "writes succeed again");
    let mut last = durable(journal.append(ten(count), SAFE).unwrap());
    catch_up(&mut writer, &clock);
    assert!(!is_safe(&mut last), "what precedes it is not safe anywhere");
    let mut delivered = Vec::new();
    while let Some(delivery) = take(&mut hec) {
        delivered.extend(numbers(&delivery));
        hec.ack(&delivery, Outcome::delivered(delivery.record_count));
    }
    assert_eq!(delivered, (0..(count + 1) * 10).collect::<Vec<_>>());
    assert!(is_safe(&mut last), "all of it has reached its destinations");
    assert_eq!(disk.flushes_after_failure(), 0);
}

#[test]
fn waiters_for_an_unreadable_frame_are_notified() {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let (journal, mut writer, mut hec, count) = spilled(&disk, &clock);
    let _first_is_in_flight = take(&mut hec).unwrap();
    while let Some(delivery) = take(&mut hec) {
        hec.ack(&delivery, Outcome::delivered(delivery.record_count));
    }
    // Once more: it is as safe as the first one.
    let mut last = durable(journal.append(ten(count - 1), SAFE).unwrap());
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData).path("segment"));
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::Read).path("segment").forever());
    catch_up(&mut writer, &clock);
    let polled = last.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(RefusedReason::Disk { .. }))), "{polled:?}");
}

#[test]
fn an_unreadable_frame_does_not_block_a_stream_forever() {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let (journal, mut writer, mut hec, count) = spilled(&disk, &clock);
    let unreadable = || Fault::new(FaultKind::Io).on(CallKind::Read).path("segment").times(2);
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData).path("segment"));
    disk.inject(unreadable());
    catch_up(&mut writer, &clock);
    catch_up(&mut writer, &clock);
    assert_eq!(journal.ledger().journal.disk_error, None, "writes succeed again");
    let mut last = durable(journal.append(ten(count), SAFE).unwrap());
    catch_up(&mut writer, &clock);
    assert!(!is_safe(&mut last), "what precedes it is not safe anywhere");
    // The first one is discarded.
    disk.inject(unreadable());
    assert_eq!(drain(&mut hec).len() as u64, count * 10);
    let book = journal.ledger().cursors[0].book;
    assert_eq!(book.discarded[DiscardReason::Damaged as usize], 10);
    assert!(!is_safe(&mut last), "a crash now would lose that");
    catch_up(&mut writer, &clock);
    assert!(is_safe(&mut last), "the rest is delivered, and the discard is counted");
    journal.close_stream(StreamId(1));
    assert_eq!(journal.ledger().sources[0].streams, 0, "nothing is left of the stream");
    catch_up(&mut writer, &clock);
    drop((journal, writer, hec));
    let journal = open(config(DIR), Arc::new(disk.crash(1)));
    let book = journal.ledger().cursors[0].book;
    assert_eq!((book.delivered, book.discarded_total()), (count * 10, 10));
    assert_eq!(journal.ledger().sources[0].streams, 0);
    journal.shutdown();
}

/// A stream ends while its frame is being written, and the machine stops after this many further
/// disk calls. Returns false if there were not that many.
fn ends_while_its_frame_is_written(calls: u64) -> bool {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    let (journal, writer) = stepped(&disk, &clock);
    let pause = Pause::new();
    let here = pause.clone();
    disk.watch(move |_, _, _| here.pause());
    let mut hec = cursor(&journal, "hec");
    let _ticket = journal.append(Part::new(1, 0, 5).unrepeatable().build(), SAFE).unwrap();
    clock.advance(ALL_IS_DUE);
    let writer = HeldWriter::start(writer, &pause, clock.clone());
    // It is processing the batch and asks for space.
    while disk.faults().calls(CallKind::Space) == 0 {
        assert!(writer.thread.resume());
    }
    let delivery = take(&mut hec).unwrap();
    hec.ack(&delivery, Outcome::delivered(5));
    journal.close_stream(StreamId(1));
    clock.advance(ALL_IS_DUE);
    let made = (0..calls).take_while(|_| !writer.is_idle() && writer.thread.resume()).count();
    let is_durable = writer.is_idle() && journal.ledger().sources[0].streams == 0;
    let disk = disk.crash(calls);
    drop((journal, hec));
    drop(writer);

    let journal = open(config(DIR), Arc::new(disk));
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    let again = drain(&mut hec).len();
    assert!(again == 0 || !is_durable, "it was delivered, and that was durable");
    let ledger = journal.ledger();
    let lines = ledger.sources.first().map_or(0, |source| source.book.lines);
    assert!(lines == 5 || (lines == 0 && !is_durable), "{lines} lines after {calls} calls");
    assert_eq!(ledger.cursors[0].book.delivered, lines, "after {calls} calls");
    journal.shutdown();
    made as u64 == calls
}

#[test]
fn a_stream_that_ends_while_its_frame_is_written_does_not_come_back() {
    let calls = (0..10_000).find(|calls| !ends_while_its_frame_is_written(*calls)).unwrap();
    assert!(calls > 3, "expected calls to write, flush and settle it, not {calls}");
}

#[test]
fn what_is_written_while_more_comes_leaves_a_full_ring_too() {
    let (disk, clock, pause) = (FaultyDisk::new(), FakeClock::default(), Pause::new());
    let here = pause.clone();
    disk.watch(move |_, _, _| here.pause());
    let config = JournalConfig { ring_bytes: MIB / 2, ..config(DIR) };
    let opened = Journal::open_with_writer(config, Arc::new(disk.clone()), Arc::new(clock.clone()));
    let (journal, writer) = opened.unwrap();
    let hung = cursor(&journal, "hung");
    open_stream(&journal, 1);
    let mut count = 0u64;
    let mut append = |most: u64| {
        let before = count;
        while count - before < most && journal.append(ten(count), SAFE).is_ok() {
            count += 1;
        }
        count - before
    };
    // Nearly everything that fits.
    append(7);
    clock.advance(ALL_IS_DUE);
    let writer = HeldWriter::start(writer, &pause, clock);
    // It is processing that and asks for space.
    while disk.faults().calls(CallKind::Space) == 0 {
        assert!(writer.thread.resume());
    }
    append(u64::MAX);
    writer.catch_up();
    let accepted = append(2);
    // Its thread ends with the journal.
    drop((journal, hung));
    drop(writer);
    assert_eq!(accepted, 2);
}

/// A destination that discards when it is full holds up no sender, also if the disk is full before
/// its buffer is.
#[test]
fn a_full_disk_holds_up_nobody_if_most_of_it_waits_for_a_destination_that_discards() {
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    disk.set_capacity(Some(16 * MIB));
    let config = JournalConfig { segment_bytes: 2 * MIB, bytes_max: 1024 * MIB, ..config(DIR) };
    let shared = (Arc::new(disk), Arc::new(clock.clone()));
    let (journal, mut writer) = Journal::open_with_writer(config, shared.0, shared.1).unwrap();
    let spec = CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 1024 * MIB,
        ..cursor_spec("hec")
    };
    let _hec = journal.cursor(spec).unwrap();
    journal.release_unclaimed();
    for n in 0..300 {
        let mut is_safe = false;
        for _ in 0..20 {
            let part = Part::new(1, n * 100, 100).padding(1000).unrepeatable();
            let ticket = journal.append(part.build(), SAFE);
            clock.advance(Duration::from_millis(100));
            while writer.step() == Step::Worked {}
            is_safe = ticket.is_ok_and(|mut ticket| ticket.try_durable() == Some(Ok(())));
            if is_safe {
                break;
            }
        }
        assert!(is_safe, "the sender of {n} is held up: {:?}", journal.ledger().journal);
    }
    let hec = &journal.ledger().cursors[0];
    assert_eq!(hec.unaccounted(), 0, "{hec:?}");
    assert!(hec.book.discarded[DiscardReason::BufferFull as usize] >= 10_000, "{hec:?}");
    assert!(hec.pending_bytes > 8 * MIB, "more is discarded than necessary: {hec:?}");
}

/// Positions are written with every acknowledgement, so most of the cursor log is history.
#[test]
fn positions_do_not_fill_a_small_disk() {
    const BATCHES: u64 = 4000;
    let (disk, clock) = (FaultyDisk::new(), FakeClock::default());
    disk.set_capacity(Some(512 * KIB));
    let config = JournalConfig { segment_bytes: 64 * KIB, ..config(DIR) };
    let (shared, ticking) = (Arc::new(disk.clone()), Arc::new(clock.clone()));
    let (journal, mut writer) = Journal::open_with_writer(config, shared, ticking).unwrap();
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    let positions = || {
        let is_log = |name: &PathBuf| name.extension().is_some_and(|kind| kind == "wcur");
        let names = disk.names().into_iter().filter(is_log);
        names.map(|name| disk.content(&name).unwrap().len() as u64).sum::<u64>()
    };
    let mut written = 0;
    for n in 0..BATCHES {
        let ticket = journal.append(Part::new(1, n, 1).unrepeatable().build(), SAFE);
        clock.advance(ALL_IS_DUE);
        let before = positions();
        while writer.step() == Step::Worked {}
        written += positions().saturating_sub(before);
        let is_safe = ticket.is_ok_and(|mut ticket| ticket.try_durable() == Some(Ok(())));
        assert!(is_safe, "the sender of {n} is held up: {:?}", journal.ledger().journal);
        assert!(positions() < 64 * KIB, "{} bytes of positions", positions());
        let delivery = take(&mut hec).unwrap();
        hec.ack(&delivery, Outcome::delivered(1));
    }
    assert!(written > 512 * KIB, "all of them would not fit: {written}");
    let hec = &journal.ledger().cursors[0];
    assert_eq!((hec.unaccounted(), hec.book.delivered), (0, BATCHES), "{hec:?}");
}
