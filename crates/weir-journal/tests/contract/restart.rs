//! Guarantees across a restart or a crash.

use std::time::Duration;

use weir_journal::{DropCursorError, JournalConfig, Outcome, WritePolicy};
use weir_model::{DiscardReason, Position, StreamId};

use crate::Opener;
use crate::support::{
    KIB, Part, STEP, assert_books_balance, block_on, book_of, config, cursor, drain, numbers,
    open_gone, open_stream, source, state_of, take,
};

const LAG: WritePolicy = WritePolicy::OnLag;
const SAFE: WritePolicy = WritePolicy::OnAppend;
const HOUR: Duration = Duration::from_hours(1);

pub(crate) fn append_safely(journal: &weir_journal::Journal, part: &Part) {
    block_on(journal.append(part.build(), SAFE).unwrap().durable()).unwrap();
}

fn only_numbers(got: Vec<(u64, u64)>) -> Vec<u64> {
    got.into_iter().map(|(_, n)| n).collect()
}

pub(crate) fn a_book_goes_back_with_its_position(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).padding(6000).build(), LAG).unwrap();
    journal.append(Part::new(1, 10, 10).padding(6000).build(), LAG).unwrap();
    let first = take(&mut hec).unwrap();
    hec.ack(&first, Outcome::delivered(10));
    journal.flush();
    // Taken and even delivered, but the acknowledgement never arrived.
    drop(take(&mut hec).unwrap());
    assert_eq!(journal.ledger().sources[0].book, book_of(20));
    opener.crash(journal);
    let journal = opener.open();
    hec = {
        drop(hec);
        cursor(&journal, "hec")
    };
    let resume = open_stream(&journal, 1);
    assert_eq!((resume.position, resume.book), (Position::new(0, 10 * STEP), book_of(10)));
    assert_eq!(resume.state, state_of(0, 10));
    let ledger = journal.ledger();
    assert_eq!(ledger.sources[0].book, book_of(10));
    assert_eq!((ledger.cursors[0].book.routed, ledger.cursors[0].book.delivered), (10, 10));
    journal.append(Part::new(1, 10, 10).build(), LAG).unwrap();
    assert_eq!(only_numbers(drain(&mut hec)), (10..20).collect::<Vec<_>>());
    opener.close(journal);
}

pub(crate) fn batches_that_are_cut_differently_are_skipped_record_by_record(
    opener: &mut impl Opener,
) {
    let journal = opener.open();
    let mut first = cursor(&journal, "first");
    let mut second = cursor(&journal, "second");
    open_stream(&journal, 1);
    for n in 0..5 {
        journal.append(Part::new(1, n * 7, 7).mask(0b11).padding(9000).build(), LAG).unwrap();
    }
    for _ in 0..3 {
        let delivery = take(&mut first).unwrap();
        first.ack(&delivery, Outcome::delivered(7));
    }
    let delivery = take(&mut second).unwrap();
    second.ack(&delivery, Outcome::delivered(7));
    journal.flush();
    opener.crash(journal);
    let journal = opener.open();
    first = {
        drop(first);
        cursor(&journal, "first")
    };
    second = {
        drop(second);
        cursor(&journal, "second")
    };
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 7 * STEP));
    // 21 is inside a batch now.
    for (from, count) in [(7, 4), (11, 13), (24, 11)] {
        journal.append(Part::new(1, from, count).mask(0b11).padding(9000).build(), LAG).unwrap();
        assert_books_balance(&journal);
    }
    assert_eq!(only_numbers(drain(&mut first)), (21..35).collect::<Vec<_>>());
    assert_eq!(only_numbers(drain(&mut second)), (7..35).collect::<Vec<_>>());
    let ledger = journal.ledger();
    assert!(ledger.cursors.iter().all(|c| c.book.delivered == 35), "each record is counted once");
    opener.close(journal);
}

pub(crate) fn two_destinations_skip_what_each_has(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut ahead = cursor(&journal, "ahead");
    drop(cursor(&journal, "behind"));
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).mask(0b11).build(), LAG).unwrap();
    drain(&mut ahead);
    opener.close(journal);
    for _ in 0..2 {
        let journal = opener.open();
        let mut ahead = cursor(&journal, "ahead");
        drop(cursor(&journal, "behind"));
        assert_eq!(open_stream(&journal, 1).position, Position::default());
        journal.append(Part::new(1, 0, 10).mask(0b11).build(), LAG).unwrap();
        assert_eq!(drain(&mut ahead), []);
        opener.close(journal);
    }
    let journal = opener.open();
    let mut behind = cursor(&journal, "behind");
    drop(cursor(&journal, "ahead"));
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).mask(0b11).build(), LAG).unwrap();
    assert_eq!(drain(&mut behind).len(), 10);
    opener.close(journal);
}

/// More than a source may read ahead waits on disk, and nothing in memory: a source must continue.
pub(crate) fn a_backlog_from_before_holds_no_source_back(opener: &mut impl Opener) {
    const BATCHES: u64 = 40;
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    open_stream(&journal, 1);
    for n in 0..BATCHES {
        append_safely(&journal, &Part::new(1, n * 10, 10).padding(10_000));
    }
    opener.close(journal);
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.append(Part::new(1, BATCHES * 10, 10).padding(10_000).build(), LAG).unwrap();
    assert_eq!(only_numbers(drain(&mut hec)), (0..BATCHES * 10 + 10).collect::<Vec<_>>());
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn a_source_that_cannot_repeat_itself_learns_the_latest_epoch(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut ahead = cursor(&journal, "ahead");
    drop(cursor(&journal, "behind"));
    assert_eq!(open_stream(&journal, 1).last_epoch, 0);
    append_safely(&journal, &Part::new(1, 0, 10).mask(0b11).epoch(3, 0).unrepeatable());
    // Delivered and committed by one destination; it is on no disk, and was never confirmed as
    // safe.
    let fleeting = Part::new(1, 0, 5).mask(0b11).epoch(4, 10).unrepeatable();
    journal.append(fleeting.build(), LAG).unwrap();
    assert_eq!(drain(&mut ahead).len(), 15);
    journal.flush();
    opener.crash(journal);
    let journal = opener.open();
    drop(ahead);
    let mut ahead = cursor(&journal, "ahead");
    let mut behind = cursor(&journal, "behind");
    let resume = open_stream(&journal, 1);
    assert_eq!((resume.position, resume.last_epoch), (Position::new(4, 5 * STEP), 4));
    let behind_book = journal.ledger().cursors[1].book;
    assert_eq!(behind_book.discarded[DiscardReason::Vanished as usize], 5);
    // Records numbered in the epoch that one destination knows would be skipped by it.
    append_safely(&journal, &Part::new(1, 0, 8).mask(0b11).epoch(5, 10).unrepeatable());
    assert_eq!(only_numbers(drain(&mut ahead)), (0..8).collect::<Vec<_>>());
    assert_eq!(only_numbers(drain(&mut behind)), (0..10).chain(0..8).collect::<Vec<_>>());
    opener.close(journal);
}

pub(crate) fn epochs_are_kept_apart(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).build(), LAG).unwrap();
    // The file was truncated: the same offsets again.
    journal.append(Part::new(1, 0, 4).epoch(1, 10).build(), LAG).unwrap();
    let old = take(&mut hec).unwrap();
    let new = take(&mut hec).unwrap();
    assert_eq!(numbers(&new), [0, 1, 2, 3]);
    hec.ack(&old, Outcome::delivered(10));
    hec.ack(&new, Outcome::delivered(4));
    opener.close(journal);
    let journal = opener.open();
    hec = {
        drop(hec);
        cursor(&journal, "hec")
    };
    let resume = open_stream(&journal, 1);
    assert_eq!((resume.position, resume.book), (Position::new(1, 4 * STEP), book_of(14)));
    journal.append(Part::new(1, 4, 2).epoch(1, 10).build(), LAG).unwrap();
    assert_eq!(only_numbers(drain(&mut hec)), [4, 5]);
    opener.close(journal);
}

pub(crate) fn recovered_frames_are_claimed_and_not_read_twice(opener: &mut impl Opener) {
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    open_stream(&journal, 1);
    append_safely(&journal, &Part::new(1, 0, 10));
    append_safely(&journal, &Part::new(1, 10, 10));
    opener.crash(journal);
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    let resume = open_stream(&journal, 1);
    assert_eq!((resume.position, resume.book), (Position::new(0, 20 * STEP), book_of(20)));
    assert_eq!(resume.state, state_of(0, 20));
    journal.append(Part::new(1, 20, 5).build(), LAG).unwrap();
    journal.release_unclaimed();
    assert_eq!(only_numbers(drain(&mut hec)), (0..25).collect::<Vec<_>>());
    opener.close(journal);
}

pub(crate) fn recovered_frames_behind_a_hole_are_read_again(opener: &mut impl Opener) {
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    open_stream(&journal, 1);
    append_safely(&journal, &Part::new(1, 0, 10));
    journal.append(Part::new(1, 10, 10).padding(9000).build(), LAG).unwrap();
    append_safely(&journal, &Part::new(1, 20, 10));
    opener.crash(journal);
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 10 * STEP));
    journal.append(Part::new(1, 10, 25).build(), LAG).unwrap();
    assert_eq!(only_numbers(drain(&mut hec)), (0..35).collect::<Vec<_>>());
    opener.close(journal);
}

pub(crate) fn frames_of_unclaimed_streams_are_released(opener: &mut impl Opener) {
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    append_safely(&journal, &Part::new(7, 0, 10));
    append_safely(&journal, &Part::new(8, 0, 10).unrepeatable());
    opener.crash(journal);
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    assert!(take(&mut hec).is_none(), "not before every source has opened its streams");
    let ledger = journal.ledger();
    assert_eq!((ledger.opening, ledger.cursors[0].in_flight), (true, 0));
    journal.release_unclaimed();
    assert_eq!(drain(&mut hec).len(), 20);
    let ledger = journal.ledger();
    assert!(!ledger.opening);
    assert_eq!(ledger.sources[0].streams, 0, "they have ended");
    assert_eq!(ledger.sources[0].book.lines, 20);
    opener.close(journal);
}

pub(crate) fn a_frame_that_was_partly_committed_is_delivered_in_part(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 6).build(), LAG).unwrap();
    drain(&mut hec);
    journal.flush();
    opener.crash(journal);
    // Read again from the start by a source that lost its position, and divided differently.
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    append_safely(&journal, &Part::new(1, 0, 10));
    let ledger = journal.ledger();
    assert_eq!(ledger.cursors[0].in_flight, 4);
    opener.crash(journal);
    let journal = opener.open();
    hec = {
        drop(hec);
        cursor(&journal, "hec")
    };
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 10 * STEP));
    let delivery = take(&mut hec).unwrap();
    assert_eq!((delivery.first_record, numbers(&delivery)), (6, vec![6, 7, 8, 9]));
    hec.ack(&delivery, Outcome::delivered(4));
    assert_eq!(journal.ledger().cursors[0].book.delivered, 10);
    opener.close(journal);
}

pub(crate) fn a_deleted_file_survives_once_it_is_persisted(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    for n in 0..3 {
        journal.append(Part::new(1, n * 10, 10).padding(6000).build(), LAG).unwrap();
    }
    let first = take(&mut hec).unwrap();
    hec.ack(&first, Outcome::delivered(10));
    journal.persist_stream(StreamId(1));
    append_safely(&journal, &Part::new(1, 30, 5));
    journal.close_stream(StreamId(1));
    journal.flush();
    opener.crash(journal);
    let journal = opener.open();
    hec = {
        drop(hec);
        cursor(&journal, "hec")
    };
    let known = journal.known_streams(source());
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].resume.position, Position::new(0, 35 * STEP), "nothing is missing");
    journal.close_stream(known[0].stream);
    journal.release_unclaimed();
    assert_eq!(only_numbers(drain(&mut hec)), (10..35).collect::<Vec<_>>());
    assert_eq!(journal.ledger().journal.recovery.lost_bytes, 0);
    assert_eq!(journal.ledger().sources[0].streams, 0);
    opener.close(journal);
}

pub(crate) fn a_removed_destination_keeps_its_frames_until_it_is_dropped(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut kept = cursor(&journal, "kept");
    drop(cursor(&journal, "removed"));
    append_safely(&journal, &Part::new(8, 0, 10).mask(0b11).unrepeatable());
    drain(&mut kept);
    opener.close(journal);
    // It is no longer configured.
    let journal = opener.open();
    kept = {
        drop(kept);
        cursor(&journal, "kept")
    };
    journal.release_unclaimed();
    assert_eq!(drain(&mut kept), []);
    let ledger = journal.ledger();
    assert!(!ledger.cursors[1].active);
    assert_eq!((ledger.cursors[1].name.as_str(), ledger.cursors[1].in_flight), ("removed", 10));
    opener.close(journal);
    // It returns.
    let journal = opener.open();
    drop(cursor(&journal, "kept"));
    let mut removed = cursor(&journal, "removed");
    journal.release_unclaimed();
    assert_eq!(numbers(&take(&mut removed).unwrap()).len(), 10);
    let configured = DropCursorError::Configured { name: "removed".to_owned() };
    assert_eq!(journal.drop_cursor("removed"), Err(configured));
    opener.close(journal);
    // It is dropped.
    let journal = opener.open();
    drop(cursor(&journal, "kept"));
    journal.release_unclaimed();
    let before = journal.ledger().cursors[1].clone();
    assert_eq!(before.in_flight, 10);
    assert_eq!(journal.drop_cursor("removed"), Ok(10));
    let (name, existing) = ("removed".to_owned(), vec!["kept".to_owned()]);
    let unknown = DropCursorError::Unknown { name, existing };
    assert_eq!(journal.drop_cursor("removed"), Err(unknown));
    assert_eq!(journal.ledger().cursors.len(), 1);
    journal.flush();
    assert_eq!(journal.ledger().journal.disk_bytes, 0, "its space is freed");
    opener.close(journal);
    let journal = opener.open();
    assert_eq!(journal.ledger().cursors.len(), 1);
    assert_eq!(journal.ledger().journal.recovery.frames, 0);
    assert_eq!(before.book.discarded[DiscardReason::CursorDropped as usize], 0);
    opener.close(journal);
}

/// The first ten records of a file went to both destinations, the next ten were read and written to
/// disk while one of them was missing.
fn missing_for_ten_records(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut destinations = ["kept", "missing"].map(|name| cursor(&journal, name));
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).mask(0b11).build(), LAG).unwrap();
    for destination in &mut destinations {
        assert_eq!(drain(destination).len(), 10);
    }
    opener.close(journal);
    let journal = opener.open();
    drop(cursor(&journal, "kept"));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 10 * STEP));
    append_safely(&journal, &Part::new(1, 10, 10).mask(0b01));
    opener.crash(journal);
}

pub(crate) fn a_destination_that_comes_back_goes_on_where_it_stopped(opener: &mut impl Opener) {
    missing_for_ten_records(opener);
    // It is still missing: what is on disk is used.
    let journal = opener.open();
    drop(cursor(&journal, "kept"));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 20 * STEP));
    opener.crash(journal);
    let journal = opener.open();
    let mut destinations = ["kept", "missing"].map(|name| cursor(&journal, name));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 10 * STEP));
    journal.append(Part::new(1, 10, 15).mask(0b11).build(), LAG).unwrap();
    for destination in &mut destinations {
        assert_eq!(only_numbers(drain(destination)), (10..25).collect::<Vec<_>>());
    }
    assert_eq!(journal.ledger().journal.recovery.lost_bytes, 0);
    opener.close(journal);
}

pub(crate) fn what_a_missing_destination_cannot_get_any_more_is_counted(opener: &mut impl Opener) {
    missing_for_ten_records(opener);
    let journal = opener.open();
    let [mut kept, mut missing] = ["kept", "missing"].map(|name| cursor(&journal, name));
    assert_eq!(open_gone(&journal, 1).position, Position::new(0, 20 * STEP));
    assert_eq!(only_numbers(drain(&mut kept)), (10..20).collect::<Vec<_>>());
    assert_eq!(drain(&mut missing), []);
    assert_eq!(journal.ledger().journal.recovery.lost_bytes, 10 * STEP);
    opener.close(journal);
}

pub(crate) fn what_a_connection_was_told_is_there_after_a_crash(opener: &mut impl Opener) {
    for boot in 0..8 {
        let journal = opener.open();
        let mut hec = cursor(&journal, "hec");
        journal.release_unclaimed();
        let told = if boot == 0 { 0 } else { 20 };
        assert_eq!(drain(&mut hec).len(), told, "boot {boot}");
        journal.flush();
        for n in 0..20 {
            append_safely(&journal, &Part::new(50 + boot, n, 1).unrepeatable());
        }
        opener.crash(journal);
    }
}

pub(crate) fn a_forgotten_stream_does_not_come_back(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    append_safely(&journal, &Part::new(8, 0, 5).unrepeatable());
    append_safely(&journal, &Part::new(9, 0, 5).unrepeatable());
    // Stream 8 ends and is forgotten; the segment stays because of stream 9.
    let delivery = hec.take_blocking(|stream| stream == StreamId(9)).unwrap();
    hec.ack(&delivery, Outcome::delivered(5));
    journal.close_stream(StreamId(8));
    journal.flush();
    assert_eq!(journal.ledger().sources[0].streams, 1);
    opener.crash(journal);
    for _ in 0..2 {
        let journal = opener.open();
        hec = {
            drop(hec);
            cursor(&journal, "hec")
        };
        journal.release_unclaimed();
        let got: Vec<_> = std::iter::from_fn(|| take(&mut hec)).map(|d| d.stream().0).collect();
        assert_eq!(got, [9]);
        assert_eq!(journal.ledger().cursors[0].book.delivered, 5);
        opener.close(journal);
    }
}

pub(crate) fn the_state_of_a_place_is_the_last_one_given_for_it(opener: &mut impl Opener) {
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 5).build(), LAG).unwrap();
    drain(&mut hec);
    // The same position, with other counts: abandoned bytes, for instance.
    let mut again = Part::new(1, 5, 0);
    again.lines_before = 3;
    journal.append(again.build(), LAG).unwrap();
    opener.close(journal);
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    assert_eq!(open_stream(&journal, 1).book, book_of(8));
    opener.close(journal);
}

/// The destination that has nothing to deliver finishes first: that alone must not end the stream
/// before the other one has its records.
pub(crate) fn a_closed_stream_stays_until_its_recovered_frames_are_delivered(
    opener: &mut impl Opener,
) {
    // Positions are flushed only on request.
    let rarely = JournalConfig { commit_interval: HOUR, ..config("/data/journal") };
    let journal = opener.open_with(rarely);
    drop(cursor(&journal, "nothing"));
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    append_safely(&journal, &Part::new(1, 0, 5).mask(0b10));
    assert_eq!(drain(&mut hec).len(), 5);
    journal.flush();
    append_safely(&journal, &Part::new(1, 5, 5).mask(0b10));
    append_safely(&journal, &Part::new(1, 10, 5).mask(0b10));
    // The file is deleted, and the machine stops before any position has advanced.
    opener.crash(journal);
    for _ in 0..3 {
        let journal = opener.open();
        drop(cursor(&journal, "nothing"));
        hec = {
            drop(hec);
            cursor(&journal, "hec")
        };
        for known in journal.known_streams(source()) {
            journal.close_stream(known.stream);
        }
        journal.release_unclaimed();
        let got: Vec<u64> =
            std::iter::from_fn(|| take(&mut hec)).flat_map(|d| numbers(&d)).collect();
        assert_eq!(got, (5..15).collect::<Vec<_>>());
        journal.flush();
        opener.crash(journal);
    }
    let journal = opener.open();
    drop(cursor(&journal, "nothing"));
    hec = {
        drop(hec);
        cursor(&journal, "hec")
    };
    journal.release_unclaimed();
    assert_eq!(drain(&mut hec).len(), 10);
    journal.flush();
    assert_eq!(journal.ledger().sources[0].streams, 0);
    assert_eq!(journal.ledger().sources[0].book, book_of(15));
    opener.close(journal);
}

/// A stream that only a missing destination still needs has not ended.
pub(crate) fn frames_for_a_missing_destination_outlive_their_stream(opener: &mut impl Opener) {
    let rarely = JournalConfig { commit_interval: HOUR, ..config("/data/journal") };
    let journal = opener.open_with(rarely);
    drop(cursor(&journal, "hec"));
    drop(cursor(&journal, "missing"));
    journal.flush();
    // The machine stops before the log knows the stream.
    append_safely(&journal, &Part::new(50, 0, 5).mask(0b10).unrepeatable());
    opener.crash(journal);
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    journal.release_unclaimed();
    journal.flush();
    assert_eq!(journal.ledger().cursors[1].in_flight, 5);
    opener.crash(journal);
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    let mut missing = cursor(&journal, "missing");
    journal.release_unclaimed();
    assert_eq!(drain(&mut missing).len(), 5);
    opener.close(journal);
}

/// Once the missing destination is no longer waited for, its streams end.
pub(crate) fn streams_end_when_a_missing_destination_is_dropped(opener: &mut impl Opener) {
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    drop(cursor(&journal, "missing"));
    append_safely(&journal, &Part::new(50, 0, 5).mask(0b10).unrepeatable());
    journal.flush();
    opener.close(journal);
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    journal.release_unclaimed();
    assert_eq!(journal.ledger().sources[0].streams, 1);
    assert_eq!(journal.drop_cursor("missing"), Ok(5));
    assert_eq!(journal.ledger().sources[0].streams, 0);
    assert_eq!(journal.ledger().sources[0].book, book_of(5));
    opener.close(journal);
}

pub(crate) fn frames_behind_a_hole_are_delivered_when_their_file_is_gone(opener: &mut impl Opener) {
    let journal = opener.open();
    drop(cursor(&journal, "hec"));
    open_stream(&journal, 1);
    append_safely(&journal, &Part::new(1, 0, 5));
    journal.append(Part::new(1, 5, 5).build(), LAG).unwrap();
    append_safely(&journal, &Part::new(1, 10, 5));
    append_safely(&journal, &Part::new(1, 15, 5));
    journal.flush();
    opener.crash(journal);
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    let resume = open_gone(&journal, 1);
    assert_eq!((resume.position, resume.book), (Position::new(0, 20 * STEP), book_of(20)));
    assert_eq!((resume.state, resume.known), (state_of(0, 20), true));
    // What the source still has to report, for instance what was never read.
    let mut last = Part::new(1, 20, 0);
    last.lines_before = 1;
    journal.append(last.build(), LAG).unwrap();
    journal.close_stream(StreamId(1));
    journal.release_unclaimed();
    assert_books_balance(&journal);
    assert_eq!(only_numbers(drain(&mut hec)), (0..5).chain(10..20).collect::<Vec<_>>());
    let ledger = journal.ledger();
    assert_eq!(ledger.cursors[0].book.discarded[DiscardReason::Vanished as usize], 5);
    assert_eq!(ledger.journal.recovery.lost[0].records, 5);
    assert_eq!((ledger.sources[0].streams, ledger.sources[0].book), (0, book_of(21)));
    opener.close(journal);
    let journal = opener.open();
    drop(hec);
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    assert_eq!(drain(&mut hec), []);
    opener.close(journal);
}

/// In a stream that the log did not know, one destination skips a frame before the other one has
/// it: that must not make the other one look as if it had started after it.
pub(crate) fn a_released_frame_waits_for_its_destination_over_any_number_of_restarts(
    opener: &mut impl Opener,
) {
    let rarely = JournalConfig { commit_interval: HOUR, ..config("/data/journal") };
    let journal = opener.open_with(rarely);
    drop(cursor(&journal, "hec"));
    drop(cursor(&journal, "nothing"));
    journal.flush();
    append_safely(&journal, &Part::new(1, 0, 5));
    opener.crash(journal);
    for missing in [false, true, false] {
        let journal = opener.open();
        let mut hec = (!missing).then(|| cursor(&journal, "hec"));
        drop(cursor(&journal, "nothing"));
        for known in journal.known_streams(source()) {
            open_gone(&journal, known.stream.0);
            journal.close_stream(known.stream);
        }
        journal.release_unclaimed();
        if let Some(hec) = &mut hec {
            assert_eq!(numbers(&take(hec).unwrap()), [0, 1, 2, 3, 4]);
        }
        journal.flush();
        opener.crash(journal);
    }
}

pub(crate) fn space_that_was_given_back_is_no_loss_once_its_stream_has_ended(
    opener: &mut impl Opener,
) {
    let config = || JournalConfig { segment_bytes: 64 * KIB, ..config("/data/journal") };
    let journal = opener.open_with(config());
    let mut first = cursor(&journal, "first");
    // A state that is only in its frame: each start reads every frame of this segment.
    let looked_at = Part { state_len: 2000, ..Part::new(2, 0, 1).unrepeatable() };
    append_safely(&journal, &looked_at);
    append_safely(&journal, &Part::new(1, 0, 20).padding(1500));
    for n in 0..2 {
        append_safely(&journal, &Part::new(3, n * 20, 20).padding(2500).unrepeatable());
    }
    while let Some(delivery) = take(&mut first) {
        if delivery.stream() == StreamId(1) {
            first.ack(&delivery, Outcome::delivered(20));
        }
    }
    // Now it frees the space of stream 1.
    journal.flush();
    opener.close(journal);
    drop(first);
    for start in 0..3 {
        let journal = opener.open_with(config());
        let first = cursor(&journal, "first");
        if start == 0 {
            assert_eq!(open_gone(&journal, 1).position, Position::new(0, 20 * STEP));
            journal.close_stream(StreamId(1));
        }
        journal.release_unclaimed();
        let ledger = journal.ledger();
        assert_eq!(ledger.journal.recovery.lost, [], "start {start}");
        let book = ledger.cursors[0].book;
        assert_eq!((book.delivered, book.discarded_total()), (20, 0), "start {start}");
        assert_eq!(ledger.sources[0].streams, 2, "start {start}");
        journal.flush();
        opener.close(journal);
        drop(first);
    }
}

/// Returns what is in flight for the first destination at several successive starts, and the
/// source's lines at the last one. The content of the file is that of the epoch of `begin`.
fn starts_in_another_content(opener: &mut impl Opener, begin: Position) -> (Vec<u64>, u64) {
    let mut in_flight = Vec::new();
    let mut lines = 0;
    for _ in 0..2 {
        let journal = opener.open();
        let first = cursor(&journal, "first");
        assert_eq!(open_stream(&journal, 1).position, begin);
        journal.release_unclaimed();
        let ledger = journal.ledger();
        in_flight.push(ledger.cursors[0].in_flight);
        lines = ledger.sources[0].book.lines;
        journal.flush();
        opener.close(journal);
        drop(first);
    }
    (in_flight, lines)
}

/// A frame for another destination, which keeps the segment.
fn keep_segment(journal: &weir_journal::Journal) -> weir_journal::Cursor {
    let second = cursor(journal, "second");
    append_safely(journal, &Part::new(2, 0, 1).mask(0b10).unrepeatable());
    second
}

pub(crate) fn frames_of_a_content_that_was_read_again_as_another_one_stay_dead(
    opener: &mut impl Opener,
) {
    let journal =
        opener.open_with(JournalConfig { commit_interval: HOUR, ..config("/data/journal") });
    let first = cursor(&journal, "first");
    let mut second = keep_segment(&journal);
    open_stream(&journal, 1);
    let _keeps_the_segment = take(&mut second).unwrap();
    journal.append(Part::new(1, 0, 5).mask(0b11).build(), LAG).unwrap();
    let five = take(&mut second).unwrap();
    second.ack(&five, Outcome::delivered(5));
    journal.flush();
    // Only the frame shows that there was a second content.
    journal.append(Part::new(1, 0, 0).epoch(1, 5).build(), LAG).unwrap();
    append_safely(&journal, &Part::new(1, 0, 4).epoch(1, 5));
    opener.crash(journal);
    drop((first, second));
    let journal = opener.open();
    let [first, second] = ["first", "second"].map(|name| cursor(&journal, name));
    let resume = open_stream(&journal, 1);
    assert_eq!((resume.position, resume.last_epoch), (Position::default(), 1));
    journal.append(Part::new(1, 0, 5).mask(0b11).build(), LAG).unwrap();
    // The source reads the second content from its start, as a third one.
    journal.append(Part::new(1, 0, 0).epoch(2, 5).build(), LAG).unwrap();
    journal.flush();
    opener.close(journal);
    drop((first, second));
    assert_eq!(starts_in_another_content(opener, Position::new(2, 0)), (vec![0, 0], 5 + 1));
}

pub(crate) fn frames_that_were_to_be_read_again_stay_dead_when_their_file_is_cut(
    opener: &mut impl Opener,
) {
    let journal =
        opener.open_with(JournalConfig { commit_interval: HOUR, ..config("/data/journal") });
    let first = cursor(&journal, "first");
    let second = keep_segment(&journal);
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).mask(0b11).build(), LAG).unwrap();
    journal.flush();
    append_safely(&journal, &Part::new(1, 10, 6).mask(0b11));
    opener.crash(journal);
    drop((first, second));
    let journal = opener.open();
    let [first, mut second] = ["first", "second"].map(|name| cursor(&journal, name));
    assert_eq!(open_stream(&journal, 1).position, Position::default());
    journal.append(Part::new(1, 0, 12).mask(0b11).build(), LAG).unwrap();
    assert_eq!(drain(&mut second).len(), 12);
    assert_eq!(journal.skip_to_furthest(StreamId(1)), None);
    journal.append(Part::new(1, 0, 0).epoch(1, 12).build(), LAG).unwrap();
    journal.flush();
    opener.close(journal);
    drop((first, second));
    assert_eq!(starts_in_another_content(opener, Position::new(1, 0)), (vec![0, 0], 12 + 1));
}
