//! Guarantees while a journal is open.

use std::time::Duration;

use weir_host::WakeFd;
use weir_journal::{CursorSpec, Next, Outcome, RefusedReason, WhenFull, WritePolicy};
use weir_model::{DiscardReason, Position, StreamId};

use crate::Opener;
use crate::support::{
    KIB, MIB, Part, STEP, assert_books_balance, block_on, book_of, config, cursor, cursor_spec,
    drain, numbers, open_gone, open_stream, source, state_of, take, until,
};

const LAG: WritePolicy = WritePolicy::OnLag;

pub(crate) fn what_is_appended_is_taken_in_order_and_settled(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    for n in 0..10 {
        journal.append(Part::new(1, n * 5, 5).padding(20_000).build(), LAG).unwrap();
        assert_books_balance(&journal);
    }
    let ledger = journal.ledger();
    assert_eq!((ledger.cursors[0].book.routed, ledger.cursors[0].in_flight), (50, 50));
    assert_eq!(ledger.sources[0].book, book_of(50));
    let got: Vec<u64> = drain(&mut hec).into_iter().map(|(_, n)| n).collect();
    assert_eq!(got, (0..50).collect::<Vec<_>>());
    let ledger = journal.ledger();
    assert_eq!((ledger.cursors[0].book.delivered, ledger.cursors[0].in_flight), (50, 0));
    assert_eq!(ledger.journal.ring_bytes, 0);
    opener.close(journal);
}

pub(crate) fn a_taken_batch_stays_in_flight_until_it_is_acknowledged(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    journal.append(Part::new(1, 0, 3).build(), LAG).unwrap();
    let delivery = take(&mut hec).unwrap();
    let of = |journal: &weir_journal::Journal| {
        let ledger = journal.ledger();
        (ledger.cursors[0].in_flight, ledger.cursors[0].taken, ledger.cursors[0].book.delivered)
    };
    assert_eq!(of(&journal), (3, 3, 0));
    hec.ack(&delivery, Outcome::delivered(3));
    assert_eq!(of(&journal), (0, 0, 3));
    // A second acknowledgement of the same delivery has no effect.
    hec.ack(&delivery, Outcome::delivered(3));
    assert_eq!(of(&journal), (0, 0, 3));
    opener.close(journal);
}

pub(crate) fn a_position_moves_over_a_prefix_only(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    for n in 0..4 {
        journal.append(Part::new(1, n * 10, 10).padding(6000).build(), LAG).unwrap();
    }
    let deliveries: Vec<_> = std::iter::from_fn(|| take(&mut hec)).collect();
    assert_eq!(deliveries.len(), 4);
    for index in [0, 2, 3] {
        hec.ack(&deliveries[index], Outcome::delivered(10));
        assert_books_balance(&journal);
    }
    opener.close(journal);
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 10 * STEP));
    assert_eq!(journal.ledger().cursors[0].book.delivered, 10);
    opener.close(journal);
}

pub(crate) fn reading_is_fair_between_a_noisy_and_a_quiet_stream(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    // Less than a source may read ahead.
    for n in 0..15 {
        journal.append(Part::new(1, n * 10, 10).padding(10_000).build(), LAG).unwrap();
    }
    for n in 0..3 {
        let part = Part::new(2, n, 1).padding(60_000);
        journal.append(part.build(), LAG).unwrap();
    }
    let order: Vec<u64> =
        std::iter::from_fn(|| take(&mut hec)).take(9).map(|d| d.stream().0).collect();
    let quiet = order.iter().filter(|s| **s == 2).count();
    assert_eq!(quiet, 3, "the quiet stream must not wait for the noisy one: {order:?}");
    opener.close(journal);
}

pub(crate) fn a_busy_stream_is_passed_over(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    for stream in 1..4 {
        journal.append(Part::new(stream, 0, 1).build(), LAG).unwrap();
    }
    let delivery = hec.take_blocking(|stream| stream != StreamId(2)).unwrap();
    assert_eq!(delivery.stream(), StreamId(2));
    assert!(hec.take_blocking(|_| true).is_none());
    // Nothing can be taken: `ready` waits for an acknowledgement.
    block_on(async {
        let soon = tokio::time::timeout(Duration::from_millis(20), hec.ready(1, Duration::ZERO));
        assert!(soon.await.is_err(), "ready must wait while everything is busy");
        hec.ack(&delivery, Outcome::delivered(1));
        hec.ready(1, Duration::ZERO).await;
    });
    assert_eq!(drain(&mut hec).len(), 2);
    opener.close(journal);
}

pub(crate) fn a_window_bounds_what_is_taken(opener: &mut impl Opener) {
    let journal = opener.open();
    let spec = CursorSpec { window_bytes: 150_000, ..cursor_spec("hec") };
    let mut hec = journal.cursor(spec).unwrap();
    for stream in 1..5 {
        journal.append(Part::new(stream, 0, 1).padding(60_000).build(), LAG).unwrap();
    }
    let first = take(&mut hec).unwrap();
    let second = take(&mut hec).unwrap();
    assert!(take(&mut hec).is_none(), "the window is exhausted");
    hec.ack(&first, Outcome::delivered(1));
    let third = take(&mut hec).unwrap();
    assert!(take(&mut hec).is_none());
    for delivery in [second, third] {
        hec.ack(&delivery, Outcome::delivered(1));
    }
    assert_eq!(drain(&mut hec).len(), 1);
    opener.close(journal);
}

pub(crate) fn no_stream_holds_more_than_a_quarter_while_others_wait(opener: &mut impl Opener) {
    let journal = opener.open();
    let spec = CursorSpec { buffer_bytes_max: MIB, ..cursor_spec("hec") };
    let mut hec = journal.cursor(spec).unwrap();
    journal.append(Part::new(2, 0, 1).build(), LAG).unwrap();
    let mut accepted = 0;
    let refused = loop {
        match journal.append(Part::new(1, accepted, 1).padding(60_000).build(), LAG) {
            Ok(_) => accepted += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.reason, RefusedReason::BufferFull { cursor: "hec".to_owned() });
    assert_eq!(refused.batch.record_count(), 1, "the batch is returned");
    assert_eq!(accepted, 4, "a quarter of a mebibyte");
    // The quiet stream is not refused, and on its own the noisy one may have everything.
    journal.append(Part::new(2, 1, 1).build(), LAG).unwrap();
    let quiet = hec.take_blocking(|stream| stream == StreamId(1)).unwrap();
    hec.ack(&quiet, Outcome::delivered(quiet.record_count));
    journal.append(*refused.batch, LAG).unwrap();
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn block_refuses_only_what_feeds_the_full_destination_and_wakes_on_room(
    opener: &mut impl Opener,
) {
    let journal = opener.open();
    let wake = WakeFd::new().unwrap();
    journal.on_room(wake.clone());
    let spec = CursorSpec { buffer_bytes_max: 300_000, ..cursor_spec("slow") };
    let mut slow = journal.cursor(spec).unwrap();
    let mut fast = cursor(&journal, "fast");
    let mut n = 0;
    while journal.append(Part::new(1, n, 1).mask(0b11).padding(60_000).build(), LAG).is_ok() {
        n += 1;
    }
    assert_eq!(n, 4);
    assert!(journal.ledger().cursors[0].blocking);
    assert!(!wake.take());
    // Another source, which does not feed the slow destination, continues.
    for m in 0..20 {
        journal.append(Part::new(2, m, 1).mask(0b10).padding(60_000).build(), LAG).unwrap();
    }
    assert_eq!(drain(&mut fast).len(), 24);
    assert!(!wake.take(), "the full destination has made no room");
    let delivery = take(&mut slow).unwrap();
    slow.ack(&delivery, Outcome::delivered(1));
    assert!(wake.take(), "there is room");
    assert!(!journal.ledger().cursors[0].blocking);
    journal.append(Part::new(1, n, 1).mask(0b11).padding(60_000).build(), LAG).unwrap();
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn drop_oldest_discards_exactly_what_it_counts_and_never_the_quiet(
    opener: &mut impl Opener,
) {
    let journal = opener.open();
    let spec = CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: MIB,
        window_bytes: 128 * KIB,
        ..cursor_spec("hec")
    };
    let mut hec = journal.cursor(spec).unwrap();
    let quiet_streams = 99;
    for n in 0..100 {
        journal.append(Part::new(1, n * 10, 10).padding(6000).build(), LAG).unwrap();
        if n < quiet_streams {
            journal.append(Part::new(100 + n, 0, 2).build(), LAG).unwrap();
        }
        assert_books_balance(&journal);
    }
    let ledger = journal.ledger();
    assert!(ledger.cursors[0].pending_bytes <= MIB);
    let discarded = ledger.cursors[0].book.discarded[DiscardReason::BufferFull as usize];
    assert!(discarded > 0);
    let got = drain(&mut hec);
    let quiet = got.iter().filter(|(stream, _)| *stream >= 100).count() as u64;
    assert_eq!(quiet, quiet_streams * 2, "quiet streams lose nothing");
    let noisy: Vec<u64> = got.iter().filter(|(s, _)| *s == 1).map(|(_, n)| *n).collect();
    assert_eq!(noisy.len() as u64 + discarded, 1000, "what is missing is what was counted");
    assert_eq!(noisy.last(), Some(&999), "the newest stays");
    assert!(noisy.is_sorted());
    opener.close(journal);
}

pub(crate) fn a_slow_subscriber_gets_an_exact_gap(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    let mut slow = journal.subscribe(130_000, None);
    let mut quick = journal.subscribe(10_000_000, None);
    let mut without = journal.subscribe(10_000_000, Some(crate::support::source()));
    for n in 0..10 {
        journal.append(Part::new(1, n, 1).padding(60_000).build(), LAG).unwrap();
    }
    let Some(Next::Gap { first, last, count }) = block_on(slow.next()) else {
        panic!("expected a gap first")
    };
    assert_eq!((first, last, count), (1, 8, 8));
    for _ in 0..2 {
        assert!(matches!(block_on(slow.next()), Some(Next::Batch(_))));
    }
    for _ in 0..10 {
        assert!(matches!(block_on(quick.next()), Some(Next::Batch(_))));
    }
    assert_eq!(drain(&mut hec).len(), 10, "subscribers do not hold back others");
    journal.close();
    assert!(block_on(slow.next()).is_none());
    assert!(block_on(without.next()).is_none(), "it has got nothing of that source");
    assert!(
        block_on(journal.subscribe(1000, None).next()).is_none(),
        "even when subscribing too late"
    );
    opener.close(journal);
}

pub(crate) fn several_batches_are_taken_together_or_not_at_all(opener: &mut impl Opener) {
    let journal = opener.open();
    let limited = CursorSpec { buffer_bytes_max: 4 * MIB, ..cursor_spec("hec") };
    let mut hec = journal.cursor(limited).unwrap();
    open_stream(&journal, 1);
    let part = |n: u64| Part::new(1, n * 10, 10).padding(30_000).unrepeatable().build();
    let parts = |from: u64, count: u64| (from..from + count).map(part).collect::<Vec<_>>();
    let tickets = journal.append_all(parts(0, 4), WritePolicy::OnAppend).unwrap();
    for ticket in tickets {
        block_on(ticket.durable()).unwrap();
    }
    // The first of them would fit, but not all together.
    let refused = journal.append_all(parts(4, 12), WritePolicy::OnAppend).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::BufferFull { cursor: "hec".into() });
    assert_eq!(refused.batches.len(), 12);
    assert_eq!(journal.ledger().cursors[0].book.routed, 40);
    assert_books_balance(&journal);
    assert_eq!(drain(&mut hec).len(), 40);
    // They are reported as safe a moment before their memory is freed.
    until("nothing is held", || journal.ledger().journal.ring_bytes == 0);
    let tickets = journal.append_all(refused.batches, WritePolicy::OnAppend).unwrap();
    assert_eq!(tickets.len(), 12);
    assert!(journal.append_all(Vec::new(), LAG).unwrap().is_empty());
    let got: Vec<u64> = drain(&mut hec).into_iter().map(|(_, n)| n).collect();
    assert_eq!(got, (40..160).collect::<Vec<_>>());
    opener.close(journal);
}

pub(crate) fn a_new_destination_starts_at_now(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut old = cursor(&journal, "old");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).padding(6000).build(), LAG).unwrap();
    let mut new = cursor(&journal, "new");
    journal.append(Part::new(1, 10, 5).mask(0b11).build(), LAG).unwrap();
    let got: Vec<u64> = drain(&mut new).into_iter().map(|(_, n)| n).collect();
    assert_eq!(got, (10..15).collect::<Vec<_>>());
    opener.close(journal);
    // Nor does it receive what came before it when the stream is read again.
    let journal = opener.open();
    old = {
        drop(old);
        cursor(&journal, "old")
    };
    new = {
        drop(new);
        cursor(&journal, "new")
    };
    assert_eq!(open_stream(&journal, 1).position, Position::default());
    journal.append(Part::new(1, 0, 15).mask(0b11).build(), LAG).unwrap();
    assert_eq!(drain(&mut old).len(), 15);
    assert_eq!(drain(&mut new).len(), 0);
    opener.close(journal);
}

pub(crate) fn batches_without_records_move_positions(opener: &mut impl Opener) {
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    open_stream(&journal, 1);
    // Records that are routed elsewhere, and no records at all.
    journal.append(Part::new(1, 0, 10).mask(0b10).build(), LAG).unwrap();
    let mut nothing = Part::new(1, 10, 0);
    nothing.first = 25;
    journal.append(nothing.build(), LAG).unwrap();
    assert_eq!(journal.ledger().journal.ring_bytes, 0);
    opener.close(journal);
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    let resume = open_stream(&journal, 1);
    assert_eq!(resume.position, Position::new(0, 25 * STEP));
    assert_eq!(resume.book, book_of(25));
    opener.close(journal);
}

pub(crate) fn small_waiting_batches_are_merged(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    for n in 0..1000 {
        journal.append(Part::new(1, n, 1).build(), LAG).unwrap();
    }
    assert_books_balance(&journal);
    let deliveries: Vec<_> = std::iter::from_fn(|| take(&mut hec)).collect();
    assert!(deliveries.len() < 10, "{} batches for a few lines", deliveries.len());
    let all: Vec<u64> = deliveries.iter().flat_map(numbers).collect();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    // A batch that was taken is not modified any more.
    journal.append(Part::new(1, 1000, 1).build(), LAG).unwrap();
    for delivery in &deliveries {
        hec.ack(delivery, Outcome::delivered(delivery.record_count));
    }
    assert_eq!(drain(&mut hec), [(1, 1000)]);
    assert_eq!(journal.ledger().journal.ring_bytes, 0);
    opener.close(journal);
}

pub(crate) fn batches_that_arrived_apart_are_merged_only_in_a_backlog(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    // Two in each second, the clock going back once.
    let arrived = |n: u64| if n == 9 { 1_000_000_000 } else { n as i64 / 2 * 2_000_000_000 };
    let append = |stream, n| {
        journal.append(Part::new(stream, n, 1).arrived(arrived(n)).build(), LAG).unwrap();
    };
    (0..10).for_each(|n| append(1, n));
    let deliveries: Vec<_> = std::iter::from_fn(|| take(&mut hec)).collect();
    let arrivals: Vec<i64> = deliveries.iter().map(|it| it.batch.header().observed_ns).collect();
    assert_eq!(arrivals, [0, 2, 4, 6, 8, 1].map(|second| second * 1_000_000_000));
    let all: Vec<u64> = deliveries.iter().flat_map(numbers).collect();
    assert_eq!(all, (0..10).collect::<Vec<_>>());
    for delivery in &deliveries {
        hec.ack(delivery, Outcome::delivered(delivery.record_count));
    }
    (0..3000).for_each(|n| append(2, n));
    let deliveries: Vec<_> = std::iter::from_fn(|| take(&mut hec)).collect();
    assert!((1024..1100).contains(&deliveries.len()), "{} batches", deliveries.len());
    let all: Vec<u64> = deliveries.iter().flat_map(numbers).collect();
    assert_eq!(all, (0..3000).collect::<Vec<_>>());
    for delivery in &deliveries {
        hec.ack(delivery, Outcome::delivered(delivery.record_count));
    }
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn merging_works_beside_destinations_that_get_nothing(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    let mut other = cursor(&journal, "other");
    open_stream(&journal, 1);
    for n in 0..200 {
        journal.append(Part::new(1, n, 1).build(), LAG).unwrap();
    }
    assert_eq!(drain(&mut other), []);
    let first = take(&mut hec).unwrap();
    assert!(numbers(&first).len() > 50);
    hec.ack(&first, Outcome::delivered(first.record_count));
    drain(&mut hec);
    opener.close(journal);
    let journal = opener.open();
    drop((cursor(&journal, "hec"), cursor(&journal, "other")));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 200 * STEP));
    opener.close(journal);
}

pub(crate) fn every_outcome_is_in_the_book(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    journal.append(Part::new(1, 0, 10).build(), LAG).unwrap();
    let delivery = take(&mut hec).unwrap();
    let outcome = Outcome {
        delivered: 6,
        dead_lettered: 3,
        discarded: Some((DiscardReason::Rejected, 1)),
        resent: 2,
        ..Outcome::default()
    };
    hec.ack(&delivery, outcome);
    let check = |journal: &weir_journal::Journal| {
        let book = journal.ledger().cursors[0].book;
        assert_eq!((book.routed, book.delivered, book.dead_lettered, book.resent), (10, 6, 3, 2));
        assert_eq!(book.discarded[DiscardReason::Rejected as usize], 1);
    };
    check(&journal);
    opener.close(journal);
    let journal = opener.open();
    check(&journal);
    opener.close(journal);
}

pub(crate) fn a_closed_stream_folds_into_its_source(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    for stream in 1..4 {
        open_stream(&journal, stream);
        journal.append(Part::new(stream, 0, 10).build(), LAG).unwrap();
    }
    journal.close_stream(StreamId(1));
    journal.close_stream(StreamId(2));
    assert_eq!(journal.ledger().sources[0].streams, 3, "not before everything is delivered");
    drain(&mut hec);
    let check = |journal: &weir_journal::Journal| {
        let ledger = journal.ledger();
        assert_eq!(ledger.sources[0].streams, 1);
        assert_eq!(ledger.sources[0].book, book_of(10).sum(&book_of(20)));
        assert_eq!(ledger.cursors[0].book.delivered, 30);
        assert_eq!(journal.known_streams(crate::support::source()).len(), 1);
    };
    check(&journal);
    opener.close(journal);
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    check(&journal);
    assert!(!open_stream(&journal, 1).known, "the stream is forgotten");
    opener.close(journal);
}

trait Sum {
    fn sum(self, other: &Self) -> Self;
}

impl Sum for weir_model::SourceBook {
    fn sum(mut self, other: &Self) -> Self {
        self.add(other);
        self
    }
}

pub(crate) fn a_closed_journal_refuses_and_drains(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    journal.append(Part::new(1, 0, 3).build(), LAG).unwrap();
    journal.close();
    let refused = journal.append(Part::new(1, 3, 1).build(), LAG).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::Closed);
    assert!(hec.is_closing());
    block_on(hec.ready(u64::MAX, Duration::MAX));
    assert_eq!(drain(&mut hec).len(), 3);
    opener.close(journal);
}

pub(crate) fn ready_waits_for_bytes_or_age_or_the_end(opener: &mut impl Opener) {
    let journal = opener.open_with(config("/data/journal"));
    let mut hec = cursor(&journal, "hec");
    let other = journal.clone();
    block_on(async {
        let soon = Duration::from_millis(15);
        let day = Duration::from_hours(24);
        assert!(tokio::time::timeout(soon, hec.ready(1, day)).await.is_err(), "nothing is waiting");
        other.append(Part::new(1, 0, 1).build(), LAG).unwrap();
        hec.ready(1, day).await;
        assert!(tokio::time::timeout(soon, hec.ready(100_000, day)).await.is_err(), "too little");
        hec.ready(100_000, Duration::from_millis(5)).await;
        let appender = std::thread::spawn(move || {
            other.append(Part::new(2, 0, 1).padding(100_000).build(), LAG).unwrap();
        });
        hec.ready(100_000, day).await;
        appender.join().unwrap();
    });
    drain(&mut hec);
    until("nothing is held", || journal.ledger().journal.ring_bytes == 0);
    opener.close(journal);
}

/// One destination has everything, the other one nothing, and nothing is on disk.
pub(crate) fn a_source_that_is_replaced_continues_after_what_was_appended(
    opener: &mut impl Opener,
) {
    let journal = opener.open();
    journal.register_source("app");
    let [mut first, mut second] = ["first", "second"].map(|name| cursor(&journal, name));
    for stream in [1, 2, 3] {
        open_stream(&journal, stream);
        journal.append(Part::new(stream, 0, 10).mask(0b11).build(), LAG).unwrap();
    }
    assert_eq!(drain(&mut first).len(), 30);
    journal.close_stream(StreamId(3));
    let known = journal.known_streams(source());
    let known: Vec<_> = known.iter().map(|known| (known.stream.0, known.resume.position)).collect();
    let end = Position::new(0, 10 * STEP);
    assert_eq!(known, [(1, end), (2, end)], "the third one has ended");
    let resume = open_stream(&journal, 1);
    assert!(resume.known);
    assert_eq!((resume.position, resume.furthest.position), (end, end));
    assert_eq!((resume.state, resume.book), (state_of(0, 10), book_of(10)));
    journal.append(Part::new(1, 10, 5).mask(0b11).build(), LAG).unwrap();
    // The file of the second one is gone meanwhile.
    assert_eq!(open_gone(&journal, 2).book, book_of(10));
    journal.close_stream(StreamId(2));
    assert_books_balance(&journal);
    assert_eq!(journal.ledger().sources[0].book, book_of(35));
    assert_eq!((drain(&mut first).len(), drain(&mut second).len()), (5, 35));
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn what_a_removed_source_has_read_survives_a_crash(opener: &mut impl Opener) {
    let journal = opener.open();
    journal.register_source("app");
    let hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).build(), LAG).unwrap();
    journal.persist_source(source());
    // Batches are written in order.
    let last = journal.append(Part::new(2, 0, 1).unrepeatable().build(), WritePolicy::OnAppend);
    block_on(last.unwrap().durable()).unwrap();
    opener.crash(journal);
    drop(hec);
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    assert_eq!(drain(&mut hec).len(), 11);
    assert_books_balance(&journal);
    opener.close(journal);
}
