//! Readers of destinations that are replaced, and destinations that are removed and added while the
//! journal runs.

mod support;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use support::{
    KIB, Part, assert_books_balance, block_on, config, cursor, cursor_spec, drain, numbers, open,
    open_stream, take, until,
};
use weir_journal::{
    Cursor, CursorSpec, DropCursorError, Journal, JournalConfig, Outcome, WritePolicy,
};
use weir_model::DiscardReason;
use weir_testkit::{CallKind, FaultyDisk, Moment};

const DIR: &str = "/data/journal";

fn start(disk: &FaultyDisk) -> Journal {
    let config = JournalConfig { segment_bytes: 64 * KIB, ..config(DIR) };
    open(config, Arc::new(disk.clone()))
}

fn append(journal: &Journal, first: u64, mask: u64) {
    let batch = Part::new(1, first, 10).mask(mask).padding(2000).build();
    journal.append(batch, WritePolicy::OnLag).unwrap();
}

fn all_numbers(cursor: &mut Cursor) -> Vec<u64> {
    drain(cursor).into_iter().map(|(_, number)| number).collect()
}

#[test]
fn the_next_reader_gets_what_the_last_one_has_not_settled() {
    let journal = start(&FaultyDisk::new());
    let mut first = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.release_unclaimed();
    for batch in 0..4 {
        append(&journal, batch * 10, 1);
    }
    let deliveries: Vec<_> = std::iter::from_fn(|| take(&mut first)).collect();
    assert_eq!(deliveries.len(), 4);
    let ack = |cursor: &mut Cursor, at: usize| {
        let delivery = &deliveries[at];
        cursor.ack(delivery, Outcome::delivered(delivery.record_count));
    };
    ack(&mut first, 0);
    ack(&mut first, 2);

    let mut second = cursor(&journal, "hec");
    assert_eq!(second.index(), first.index());
    ack(&mut first, 1);
    assert!(first.is_closing() && !second.is_closing());
    assert!(take(&mut first).is_none());
    assert_eq!(journal.ledger().cursors[0].book.delivered, 20);
    assert_eq!(all_numbers(&mut second), (10..20).chain(30..40).collect::<Vec<_>>());
    let ledger = &journal.ledger().cursors[0];
    assert_eq!((ledger.book.routed, ledger.book.delivered, ledger.taken), (40, 40, 0));
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn a_removed_destination_keeps_its_records_and_holds_up_no_other() {
    let disk = FaultyDisk::new();
    let journal = start(&disk);
    let (mut stays, mut goes) = (cursor(&journal, "stays"), {
        journal.cursor(CursorSpec { buffer_bytes_max: 64 * KIB, ..cursor_spec("goes") }).unwrap()
    });
    open_stream(&journal, 1);
    journal.release_unclaimed();
    append(&journal, 0, 0b11);
    let taken = take(&mut goes).unwrap();
    assert_eq!(numbers(&taken), (0..10).collect::<Vec<_>>());
    journal.close_destination(goes.index());
    assert!(goes.is_closing() && !stays.is_closing());
    journal.detach(goes.index());
    // Batches that were routed before its removal are still on their way: more than its buffer.
    for batch in 1..20 {
        append(&journal, batch * 10, 0b11);
    }
    assert_eq!(all_numbers(&mut stays), (0..200).collect::<Vec<_>>());
    let of_goes = |journal: &Journal| {
        let ledger = journal.ledger();
        ledger.cursors.into_iter().find(|cursor| cursor.name == "goes").unwrap()
    };
    let ledger = of_goes(&journal);
    assert_eq!((ledger.active, ledger.in_flight, ledger.taken), (false, 200, 0));
    assert_books_balance(&journal);
    journal.shutdown();

    // It is still not configured at the next start, and returns at the one after that.
    let journal = start(&disk);
    let mut stays = cursor(&journal, "stays");
    open_stream(&journal, 1);
    journal.release_unclaimed();
    assert!(journal.is_absent("goes") && !journal.is_absent("stays"));
    assert_eq!(all_numbers(&mut stays), Vec::<u64>::new());
    assert_eq!(of_goes(&journal).in_flight, 200);
    journal.shutdown();

    let journal = start(&disk);
    let mut goes = cursor(&journal, "goes");
    let _stays = cursor(&journal, "stays");
    open_stream(&journal, 1);
    journal.release_unclaimed();
    assert_eq!(all_numbers(&mut goes), (0..200).collect::<Vec<_>>());
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn a_destination_that_returns_continues_and_one_that_is_dropped_discards() {
    let disk = FaultyDisk::new();
    let journal = start(&disk);
    let (returns, dropped) = (cursor(&journal, "returns"), cursor(&journal, "dropped"));
    open_stream(&journal, 1);
    journal.release_unclaimed();
    append(&journal, 0, 0b11);
    journal.detach(returns.index());
    journal.detach(dropped.index());
    append(&journal, 10, 0b11);
    let mut returns = cursor(&journal, "returns");
    append(&journal, 20, 0b01);
    assert_eq!(all_numbers(&mut returns), (0..30).collect::<Vec<_>>());
    let configured = DropCursorError::Configured { name: "returns".to_owned() };
    assert_eq!(journal.drop_cursor("returns"), Err(configured));
    assert_eq!(journal.drop_cursor("dropped"), Ok(20));
    assert_eq!(journal.ledger().cursors.len(), 1);
    // A batch may still be on its way to it: its slot is not given to another one in this run.
    let other = cursor(&journal, "other");
    assert_eq!(other.index(), 2);
    append(&journal, 30, 0b011);
    assert_eq!(all_numbers(&mut returns), (30..40).collect::<Vec<_>>());
    let ledger = journal.ledger();
    let discarded: u64 = ledger
        .cursors
        .iter()
        .map(|c| c.book.discarded[DiscardReason::CursorDropped as usize])
        .sum();
    assert_eq!(discarded, 0);
    assert_books_balance(&journal);
    journal.shutdown();

    let journal = start(&disk);
    let mut returns = cursor(&journal, "returns");
    assert!(!journal.is_absent("dropped"), "it is forgotten");
    open_stream(&journal, 1);
    journal.release_unclaimed();
    assert_eq!(all_numbers(&mut returns), Vec::<u64>::new());
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn an_unrepeatable_batch_of_a_removed_destination_is_written() {
    let disk = FaultyDisk::new();
    let journal = start(&disk);
    let goes = cursor(&journal, "goes");
    open_stream(&journal, 1);
    journal.release_unclaimed();
    let batch = || Part::new(1, 0, 10).unrepeatable();
    block_on(journal.append(batch().build(), WritePolicy::OnAppend).unwrap().durable()).unwrap();
    journal.detach(goes.index());
    drop(goes);
    let mut goes = cursor(&journal, "goes");
    assert_eq!(all_numbers(&mut goes), (0..10).collect::<Vec<_>>());
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn destinations_share_what_may_be_taken_and_each_may_take_one_batch() {
    let limits = JournalConfig { taken_bytes_max: 60 * KIB, ..config(DIR) };
    let journal = open(limits, Arc::new(FaultyDisk::new()));
    let (mut fast, mut slow) = (cursor(&journal, "fast"), cursor(&journal, "slow"));
    open_stream(&journal, 1);
    journal.release_unclaimed();
    for batch in 0..8 {
        append(&journal, batch * 10, 0b11);
    }
    // About 20 KiB each.
    let taken: Vec<_> = std::iter::from_fn(|| take(&mut slow)).collect();
    assert!((2..=3).contains(&taken.len()), "{}", taken.len());
    let one = take(&mut fast).unwrap();
    assert!(take(&mut fast).is_none());
    fast.ack(&one, Outcome::delivered(one.record_count));
    assert_eq!(all_numbers(&mut fast), (10..80).collect::<Vec<_>>());
    for delivery in &taken {
        slow.ack(delivery, Outcome::delivered(10));
    }
    assert_eq!(all_numbers(&mut slow).len(), 80 - 10 * taken.len());
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn a_destination_can_be_dropped_once_it_has_stopped_and_stays_dropped_after_a_crash() {
    let disk = FaultyDisk::new();
    let journal = start(&disk);
    let (mut stays, mut goes) = (cursor(&journal, "stays"), cursor(&journal, "goes"));
    open_stream(&journal, 1);
    journal.release_unclaimed();
    for batch in 0..80 {
        append(&journal, batch * 10, 0b11);
    }
    let taken = take(&mut goes).unwrap();
    journal.close_destination(goes.index());
    let stopping = DropCursorError::Stopping { name: "goes".to_owned() };
    assert_eq!(journal.drop_cursor("goes"), Err(stopping));
    goes.ack(&taken, Outcome::delivered(taken.record_count));
    let _taken_and_never_settled = take(&mut goes).unwrap();
    journal.detach(goes.index());
    journal.try_flush().unwrap();
    let kept_bytes = journal.ledger().journal.disk_bytes;
    let book = |name: &str| {
        let ledger = journal.ledger();
        ledger.cursors.into_iter().find(|cursor| cursor.name == name)
    };
    let before = book("goes").unwrap();
    assert_eq!(before.in_flight, 800 - taken.record_count);
    assert_eq!(journal.drop_cursor("goes"), Ok(before.in_flight));
    // Batches that were routed before its removal are still on their way.
    append(&journal, 800, 0b11);
    assert!(book("goes").is_none() && !journal.has_cursor("goes"));
    assert_eq!(all_numbers(&mut stays), (0..810).collect::<Vec<_>>());
    assert_books_balance(&journal);
    journal.try_flush().unwrap();
    journal.free_space();
    let disk_bytes = || journal.ledger().journal.disk_bytes;
    until("its space is freed", || disk_bytes() < kept_bytes / 4);
    journal.close();
    assert_eq!(journal.drop_cursor("stays"), Err(DropCursorError::Closed));

    let journal = start(&disk.crash(1));
    let _stays = cursor(&journal, "stays");
    assert!(!journal.has_cursor("goes") && !journal.is_absent("goes"));
    assert_books_balance(&journal);
    journal.shutdown();
}

/// Drops a destination and lets it return, in two threads at once.
fn return_and_drop(journal: &Journal, stays: &mut Cursor, first: u64) {
    let goes = cursor(journal, "goes");
    append(journal, first, 1 | 1 << goes.index());
    journal.detach(goes.index());
    let (mut returns, dropped) = std::thread::scope(|scope| {
        let dropping = scope.spawn(|| journal.drop_cursor("goes"));
        (cursor(journal, "goes"), dropping.join().unwrap())
    });
    let arrived = all_numbers(&mut returns);
    if let Ok(records) = dropped {
        assert_eq!((records, arrived), (10, Vec::new()));
    } else {
        let configured = DropCursorError::Configured { name: "goes".to_owned() };
        assert_eq!(dropped, Err(configured));
        assert_eq!(arrived, (first..first + 10).collect::<Vec<_>>());
    }
    assert_eq!(all_numbers(stays).len(), 10);
    assert_books_balance(journal);
    journal.detach(returns.index());
    assert_eq!(journal.drop_cursor("goes"), Ok(0));
}

#[test]
fn a_destination_that_returns_while_it_is_dropped_has_all_its_records_or_is_new() {
    for _ in 0..10 {
        let journal = start(&FaultyDisk::new());
        let mut stays = cursor(&journal, "stays");
        open_stream(&journal, 1);
        journal.release_unclaimed();
        // Slots are not reused in this run, and a mask has 64.
        for round in 0..30 {
            return_and_drop(&journal, &mut stays, round * 10);
        }
        journal.shutdown();
    }
}

#[test]
fn a_disk_that_hangs_while_reading_holds_up_only_who_waits_for_it() {
    let disk = FaultyDisk::new();
    let (hung, is_hung) = mpsc::sync_channel(8);
    let (release, released) = mpsc::sync_channel::<()>(1);
    let released = Mutex::new(released);
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = is_armed.clone();
    disk.watch(move |kind, path, moment| {
        let is_frame = kind == CallKind::Read && path.extension().is_some_and(|e| e == "wseg");
        if is_frame && moment == Moment::Before && armed.load(Ordering::Relaxed) {
            hung.send(()).unwrap();
            // Disconnected at the end of the test.
            let _released = released.lock().unwrap().recv();
        }
    });
    // Less than two batches fit in the ring, so those of the destination that is behind are only
    // on disk.
    let limits = JournalConfig { ring_bytes: 64 * KIB, spill_after: Duration::ZERO, ..config(DIR) };
    let journal = open(limits, Arc::new(disk.clone()));
    let (mut behind, mut healthy) = (cursor(&journal, "behind"), cursor(&journal, "healthy"));
    open_stream(&journal, 1);
    journal.release_unclaimed();
    for batch in 0..10 {
        let appended = || {
            let batch = Part::new(1, batch * 10, 10).mask(0b11).padding(2000).build();
            journal.append(batch, WritePolicy::OnLag).is_ok()
        };
        until("it is written", appended);
        assert_eq!(all_numbers(&mut healthy).len(), 10);
    }
    is_armed.store(true, Ordering::Relaxed);
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut taking = pin!(behind.take(|_| false));
        assert!(taking.as_mut().poll(&mut context).is_pending());
        is_hung.recv().unwrap();
        let last = || Part::new(1, 100, 10).mask(0b11).build();
        until("it is appended", || journal.append(last(), WritePolicy::OnLag).is_ok());
        assert_eq!(all_numbers(&mut healthy), (100..110).collect::<Vec<_>>());
        assert!(taking.as_mut().poll(&mut context).is_pending());
        assert_eq!(journal.ledger().cursors[0].taken, 10);
    }
    assert_eq!(journal.ledger().cursors[0].taken, 0, "it stopped waiting");
    is_armed.store(false, Ordering::Relaxed);
    release.send(()).unwrap();
    let mut first = block_on(behind.take(|_| false));
    let mut all = Vec::new();
    while let Some(delivery) = first {
        all.extend(numbers(&delivery));
        behind.ack(&delivery, Outcome::delivered(delivery.record_count));
        first = block_on(behind.take(|_| false));
    }
    assert_eq!(all, (0..110).collect::<Vec<_>>());
    assert_books_balance(&journal);
    journal.shutdown();
}
