//! Destinations that hold what they take, and settle it later.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_journal::{Cursor, CursorSpec, Held, Journal, Outcome, WhenFull, WritePolicy};
use weir_model::{DiscardReason, Position, StreamId};

use crate::Opener;
use crate::support::{
    KIB, MIB, Part, STEP, assert_books_balance, block_on, cursor, cursor_spec, drain, numbers,
    open_stream, take, until,
};

const LAG: WritePolicy = WritePolicy::OnLag;

/// Takes and holds everything that is waiting; returns the numbers of the records.
fn hold_all(cursor: &mut Cursor, held: &mut Held) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some(delivery) = take(cursor) {
        all.extend(numbers(&delivery));
        cursor.hold(&delivery, held);
    }
    all
}

fn in_flight(journal: &Journal, index: usize) -> (u64, u64) {
    let ledger = journal.ledger();
    (ledger.cursors[index].in_flight, ledger.cursors[index].book.delivered)
}

pub(crate) fn what_is_held_takes_no_room_and_is_in_flight_until_it_is_settled(
    opener: &mut impl Opener,
) {
    let journal = opener.open();
    let spec = CursorSpec { window_bytes: 150_000, buffer_bytes_max: MIB, ..cursor_spec("store") };
    let mut store = journal.cursor(spec).unwrap();
    open_stream(&journal, 1);
    let mut held = Held::default();
    // Many times the size of the ring, the window and the buffer.
    for n in 0..400 {
        journal.append(Part::new(1, n, 1).padding(60_000).build(), LAG).unwrap();
        assert_eq!(hold_all(&mut store, &mut held), [n]);
    }
    let ledger = journal.ledger();
    assert_eq!((ledger.journal.ring_bytes, ledger.journal.frames_written), (0, 0));
    assert_eq!((ledger.cursors[0].pending_bytes, in_flight(&journal, 0)), (0, (400, 0)));
    assert_books_balance(&journal);
    store.ack_held(held);
    assert_eq!(in_flight(&journal, 0), (0, 400));
    opener.close(journal);
}

pub(crate) fn what_is_held_stays_for_those_that_still_need_it(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    let mut slow = cursor(&journal, "slow");
    for n in 0..20 {
        journal.append(Part::new(1, n, 1).mask(0b11).padding(60_000).build(), LAG).unwrap();
    }
    let mut held = Held::default();
    hold_all(&mut store, &mut held);
    assert!(journal.ledger().journal.ring_bytes > MIB);
    assert_eq!(drain(&mut slow).len(), 20);
    assert_eq!(journal.ledger().journal.ring_bytes, 0);
    store.ack_held(held);
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn what_was_held_comes_again_after_a_restart(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    open_stream(&journal, 1);
    let append = |journal: &Journal, n| {
        journal.append(Part::new(1, n, 5).build(), LAG).unwrap();
    };
    append(&journal, 0);
    let (mut first, mut second) = (Held::default(), Held::default());
    hold_all(&mut store, &mut first);
    append(&journal, 5);
    hold_all(&mut store, &mut second);
    store.ack_held(first);
    journal.flush();
    assert_eq!(store.memory().committed(StreamId(1)), Some(Position::new(0, 5 * STEP)));
    opener.crash(journal);
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    let resume = open_stream(&journal, 1);
    assert_eq!(resume.position, Position::new(0, 5 * STEP));
    append(&journal, 5);
    assert_eq!(drain(&mut store).len(), 5);
    assert_eq!(in_flight(&journal, 0), (0, 10));
    opener.close(journal);
}

pub(crate) fn a_trickle_that_is_held_costs_one_batch_for_each_stream(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    let mut held = Held::default();
    for n in 0..1000 {
        for stream in 1..4 {
            journal.append(Part::new(stream, n, 1).build(), LAG).unwrap();
        }
        hold_all(&mut store, &mut held);
        assert_eq!(held.len(), 3);
    }
    assert_eq!(in_flight(&journal, 0), (3000, 0));
    assert_books_balance(&journal);
    store.ack_held(held);
    assert_eq!(in_flight(&journal, 0), (0, 3000));
    opener.close(journal);
}

pub(crate) fn what_two_parts_hold_is_settled_one_after_the_other(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    open_stream(&journal, 1);
    let mut parts = [Held::default(), Held::default()];
    for (part, held) in (0..).zip(&mut parts) {
        for n in 0..3 {
            journal.append(Part::new(1, part * 30 + n * 10, 10).build(), LAG).unwrap();
            hold_all(&mut store, held);
        }
        assert_eq!(held.len(), 1);
    }
    let [first, second] = parts;
    let memory = store.memory();
    // Out of order: nothing advances before the first.
    store.ack_held(second);
    assert_eq!(memory.committed(StreamId(1)), Some(Position::default()));
    assert_books_balance(&journal);
    store.ack_held(first);
    assert_eq!(memory.committed(StreamId(1)), Some(Position::new(0, 60 * STEP)));
    memory.flush().unwrap();
    opener.close(journal);
}

pub(crate) fn what_is_held_is_never_discarded_to_make_room(opener: &mut impl Opener) {
    let journal = opener.open();
    let spec = CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 512 * KIB,
        ..cursor_spec("store")
    };
    let mut store = journal.cursor(spec).unwrap();
    let append = |n| {
        journal.append(Part::new(1, n, 1).padding(60_000).build(), LAG).unwrap();
    };
    (0..5).for_each(append);
    let mut held = Held::default();
    assert_eq!(hold_all(&mut store, &mut held), [0, 1, 2, 3, 4]);
    (5..40).for_each(append);
    let ledger = journal.ledger();
    let discarded = ledger.cursors[0].book.discarded[DiscardReason::BufferFull as usize];
    assert!((20..35).contains(&discarded), "{discarded}");
    assert_books_balance(&journal);
    store.ack_held(held);
    let rest = drain(&mut store).len() as u64;
    assert_eq!(in_flight(&journal, 0), (0, 5 + rest));
    assert_eq!(5 + rest + discarded, 40);
    opener.close(journal);
}

pub(crate) fn what_only_a_destination_holds_is_asked_for_when_its_file_is_gone(
    opener: &mut impl Opener,
) {
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 5).build(), LAG).unwrap();
    let mut held = Held::default();
    hold_all(&mut store, &mut held);
    assert!(!store.take_settle_wanted());
    journal.persist_stream(StreamId(1));
    // `ready` returns although nothing is waiting.
    block_on(store.ready(1, std::time::Duration::MAX));
    assert!(store.take_settle_wanted());
    assert!(!store.take_settle_wanted(), "once");
    // The ticket of what follows represents the whole file.
    let rest = Part::new(1, 5, 1);
    let ticket = journal.append(rest.build(), WritePolicy::OnAppend).unwrap();
    let mut ticket = Box::pin(ticket.durable());
    let mut is_safe = move || {
        let polled = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        polled == Poll::Ready(Ok(()))
    };
    until("the rest is written", || journal.ledger().journal.frames_written == 1);
    assert!(!is_safe());
    assert_eq!(hold_all(&mut store, &mut held), [5]);
    store.ack_held(held);
    until("the ticket resolves", &mut is_safe);
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn a_stream_that_is_held_is_not_forgotten(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    let memory = Arc::new(store.memory());
    journal.append(Part::new(1, 0, 5).build(), LAG).unwrap();
    let mut held = Held::default();
    hold_all(&mut store, &mut held);
    journal.close_stream(StreamId(1));
    assert!(memory.committed(StreamId(1)).is_some());
    assert_eq!(journal.ledger().sources[0].streams, 1);
    store.ack_held(held);
    assert_eq!(memory.committed(StreamId(1)), None);
    assert_eq!(journal.ledger().sources[0].streams, 0);
    opener.close(journal);
}

pub(crate) fn records_that_go_elsewhere_are_no_burden_behind_what_is_held(
    opener: &mut impl Opener,
) {
    let journal = opener.open();
    let mut store = cursor(&journal, "store");
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    let mut held = Held::default();
    // One of ten batches is for the store.
    for n in 0..100 {
        let mask = if n % 10 == 0 { 0b11 } else { 0b10 };
        journal.append(Part::new(1, n, 1).mask(mask).padding(5000).build(), LAG).unwrap();
        hold_all(&mut store, &mut held);
        drain(&mut hec);
    }
    assert_eq!(held.len(), 1);
    let last = take(&mut store);
    assert!(last.is_none());
    store.ack_held(held);
    assert_eq!(store.memory().committed(StreamId(1)), Some(Position::new(0, 100 * STEP)));
    assert_eq!((in_flight(&journal, 0), in_flight(&journal, 1)), ((0, 10), (0, 100)));
    hec.ack_held(Held::default());
    assert_eq!(Outcome::default(), Outcome::delivered(0));
    opener.close(journal);
}
