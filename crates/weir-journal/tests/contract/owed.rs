//! What each destination is owed of a stream whose content is gone: counted in its own book.

use std::time::Duration;

use weir_journal::{Journal, JournalConfig, Outcome, WritePolicy};
use weir_model::{DiscardReason, Position, StreamId};

use crate::Opener;
use crate::support::{
    Part, STEP, assert_books_balance, block_on, book_of, config, cursor, drain, open_gone,
    open_stream, source, state_of, take,
};

const LAG: WritePolicy = WritePolicy::OnLag;

fn append_safely(journal: &Journal, part: &Part) {
    let ticket = journal.append(part.build(), WritePolicy::OnAppend).unwrap();
    block_on(ticket.durable()).unwrap();
}

/// Ten records are settled by both destinations; further ones, (epoch, first, count) each, only by
/// the first one, and none of those reaches a segment.
fn one_destination_behind(opener: &mut impl Opener, epochs: &[(u32, u64, u64)]) {
    let journal = opener.open();
    let [mut first, mut second] = ["first", "second"].map(|name| cursor(&journal, name));
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 10).mask(0b11).build(), LAG).unwrap();
    drain(&mut first);
    drain(&mut second);
    let mut lines = 10;
    for (epoch, from, count) in epochs.iter().copied() {
        if from == 0 {
            let begin = Part::new(1, 0, 0).epoch(epoch, lines);
            journal.append(begin.build(), LAG).unwrap();
        }
        let part = Part::new(1, from, count).mask(0b11).epoch(epoch, lines - from);
        journal.append(part.build(), LAG).unwrap();
        lines += count;
        drain(&mut first);
    }
    journal.flush();
    opener.crash(journal);
}

pub(crate) fn what_a_destination_is_owed_of_a_file_that_is_gone_is_counted(
    opener: &mut impl Opener,
) {
    one_destination_behind(opener, &[(0, 10, 7)]);
    let journal = opener.open();
    let [mut first, mut second] = ["first", "second"].map(|name| cursor(&journal, name));
    let known = journal.known_streams(source());
    assert_eq!(known[0].resume.position, Position::new(0, 10 * STEP));
    assert_eq!(known[0].furthest.position, Position::new(0, 17 * STEP));
    let resume = open_gone(&journal, 1);
    assert_eq!((resume.position, resume.book), (Position::new(0, 17 * STEP), book_of(17)));
    journal.close_stream(StreamId(1));
    journal.release_unclaimed();
    assert_eq!((drain(&mut first), drain(&mut second)), (vec![], vec![]));
    for _ in 0..2 {
        let ledger = journal.ledger();
        assert_eq!(ledger.sources[0].book, book_of(17));
        let [first, second] = [0, 1].map(|index| ledger.cursors[index].book);
        assert_eq!((first.delivered, first.discarded_total()), (17, 0));
        assert_eq!((second.delivered, second.routed), (10, 17));
        assert_eq!(second.discarded[DiscardReason::Vanished as usize], 7);
        assert_books_balance(&journal);
        journal.flush();
    }
    opener.crash(journal);
    let journal = opener.open();
    drop((first, second));
    let again = journal.ledger().cursors[1].book;
    assert_eq!((again.delivered, again.discarded_total()), (10, 7), "it is counted permanently");
    opener.close(journal);
}

pub(crate) fn of_a_file_that_was_cut_only_what_is_gone_is_counted(opener: &mut impl Opener) {
    one_destination_behind(opener, &[(0, 10, 7), (1, 0, 4), (1, 4, 2)]);
    let journal = opener.open();
    let [mut first, mut second] = ["first", "second"].map(|name| cursor(&journal, name));
    let resume = open_stream(&journal, 1);
    assert_eq!(resume.position, Position::new(1, 0), "the present content is read from its start");
    assert_eq!(resume.book, book_of(17));
    journal.append(Part::new(1, 0, 6).mask(0b11).epoch(1, 17).build(), LAG).unwrap();
    assert_eq!(drain(&mut first), []);
    assert_eq!(drain(&mut second).len(), 6);
    let second = journal.ledger().cursors[1].book;
    assert_eq!((second.delivered, second.discarded[DiscardReason::Vanished as usize]), (16, 7));
    assert_books_balance(&journal);
    opener.close(journal);
}

pub(crate) fn what_cannot_be_read_again_after_all_is_counted(opener: &mut impl Opener) {
    one_destination_behind(opener, &[(0, 10, 7)]);
    let journal = opener.open();
    let [_first, mut second] = ["first", "second"].map(|name| cursor(&journal, name));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 10 * STEP));
    journal.append(Part::new(1, 10, 3).mask(0b11).build(), LAG).unwrap();
    drain(&mut second);
    // The file is truncated before the rest was read again.
    let resume = journal.skip_to_furthest(StreamId(1)).unwrap();
    assert_eq!((resume.position, resume.book), (Position::new(0, 17 * STEP), book_of(17)));
    assert_eq!(journal.skip_to_furthest(StreamId(1)), None);
    journal.append(Part::new(1, 0, 0).epoch(1, 17).build(), LAG).unwrap();
    journal.append(Part::new(1, 0, 2).mask(0b11).epoch(1, 17).build(), LAG).unwrap();
    assert_eq!(drain(&mut second).len(), 2);
    let second = journal.ledger().cursors[1].book;
    assert_eq!((second.delivered, second.discarded[DiscardReason::Vanished as usize]), (15, 4));
    assert_books_balance(&journal);
    opener.close(journal);
}

/// The stream is gone; returns how many of its records each destination has discarded as vanished.
fn vanished(opener: &mut impl Opener, names: &[&str]) -> Vec<u64> {
    let journal = opener.open();
    let cursors: Vec<_> = names.iter().map(|name| cursor(&journal, name)).collect();
    open_gone(&journal, 1);
    journal.close_stream(StreamId(1));
    journal.release_unclaimed();
    let ledger = journal.ledger();
    assert!(ledger.cursors.iter().all(|cursor| cursor.in_flight == 0));
    let of = |index: usize| ledger.cursors[index].book.discarded[DiscardReason::Vanished as usize];
    let counts = (0..names.len()).map(of).collect();
    opener.close(journal);
    drop(cursors);
    counts
}

pub(crate) fn what_is_owed_does_not_depend_on_where_batches_are_cut(opener: &mut impl Opener) {
    one_destination_behind(opener, &[(0, 10, 7)]);
    let journal = opener.open();
    let [first, second] = ["first", "second"].map(|name| cursor(&journal, name));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 10 * STEP));
    // One batch from before the furthest position to after it.
    journal.append(Part::new(1, 10, 9).mask(0b11).build(), LAG).unwrap();
    journal.flush();
    opener.crash(journal);
    drop((first, second));
    assert_eq!(vanished(opener, &["first", "second"]), [0, 7]);
}

pub(crate) fn what_was_lost_of_an_earlier_content_is_lost_once(opener: &mut impl Opener) {
    one_destination_behind(opener, &[(0, 10, 7), (1, 0, 4), (1, 4, 2)]);
    for _ in 0..2 {
        let journal = opener.open();
        let [_first, second] = ["first", "second"].map(|name| cursor(&journal, name));
        assert_eq!(open_stream(&journal, 1).position, Position::new(1, 0));
        let book = journal.ledger().cursors[second.index()].book;
        assert_eq!(book.discarded[DiscardReason::Vanished as usize], 7);
        journal.flush();
        opener.crash(journal);
    }
}

pub(crate) fn a_new_destination_is_owed_what_is_read_again_for_it(opener: &mut impl Opener) {
    one_destination_behind(opener, &[(0, 10, 7)]);
    let names = ["first", "second", "third"];
    let journal = opener.open();
    let cursors = names.map(|name| cursor(&journal, name));
    open_stream(&journal, 1);
    journal.flush();
    journal.append(Part::new(1, 10, 7).mask(0b111).build(), LAG).unwrap();
    journal.flush();
    opener.crash(journal);
    drop(cursors);
    assert_eq!(vanished(opener, &names), [0, 7, 7]);
}

pub(crate) fn where_a_content_began_is_known_before_anybody_has_read_it(opener: &mut impl Opener) {
    let journal = opener.open();
    let first = cursor(&journal, "first");
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 5).build(), LAG).unwrap();
    journal.flush();
    journal.append(Part::new(1, 0, 0).epoch(1, 5).build(), LAG).unwrap();
    journal.append(Part::new(1, 0, 4).epoch(1, 5).build(), LAG).unwrap();
    let later = Part::new(1, 4, 2).epoch(1, 5).build();
    let ticket = journal.append(later, WritePolicy::OnAppend).unwrap();
    block_on(ticket.durable()).unwrap();
    opener.crash(journal);
    drop(first);
    let journal = opener.open();
    let _first = cursor(&journal, "first");
    let resume = open_stream(&journal, 1);
    // Either the log already knows that it started, or nothing of it is known.
    let is_known = resume.position == Position::new(1, 0)
        && (resume.book, &resume.state[..]) == (book_of(5), &state_of(1, 0));
    assert!(is_known || resume.position == Position::default(), "{resume:?}");
    opener.close(journal);
}

/// Six records of a replaced content are lost; before them three wait on disk, after them `behind`
/// more of the same content.
fn lost_behind_what_waits(opener: &mut impl Opener, behind: u64) {
    let hour = Duration::from_hours(1);
    let config = JournalConfig { commit_interval: hour, ..config("/data/journal") };
    let journal = opener.open_with(config);
    let [mut first, mut second] = ["first", "second"].map(|name| cursor(&journal, name));
    open_stream(&journal, 1);
    append_safely(&journal, &Part::new(1, 0, 3).mask(0b11));
    journal.append(Part::new(1, 3, 6).mask(0b11).build(), LAG).unwrap();
    let [one, two] = [(); 2].map(|()| take(&mut first).unwrap());
    let [_in_flight, other] = [(); 2].map(|()| take(&mut second).unwrap());
    if behind > 0 {
        journal.append(Part::new(1, 9, behind).mask(0b11).build(), LAG).unwrap();
    }
    let lines = 9 + behind;
    journal.append(Part::new(1, 0, 0).epoch(1, lines).build(), LAG).unwrap();
    let replaced_by = Part::new(1, 0, 4).mask(0b11).epoch(1, lines);
    journal.append(replaced_by.build(), LAG).unwrap();
    // One destination has nine records. The other one has six of them, which are in no book that
    // survives a crash.
    first.ack(&one, Outcome::delivered(3));
    first.ack(&two, Outcome::delivered(6));
    second.ack(&other, Outcome::delivered(6));
    journal.flush();
    journal.persist_stream(StreamId(1));
    append_safely(&journal, &replaced_by);
    opener.crash(journal);
    drop((first, second));
    for start in 0..3 {
        let journal = opener.open();
        let [_first, second] = ["first", "second"].map(|name| cursor(&journal, name));
        assert_eq!(open_stream(&journal, 1).position, Position::new(1, 4 * STEP));
        let ledger = &journal.ledger().cursors[second.index()];
        let lost = ledger.book.discarded[DiscardReason::Vanished as usize];
        assert_eq!((ledger.in_flight, lost), (3 + behind + 4, 6), "start {start}");
        journal.flush();
        opener.crash(journal);
    }
}

pub(crate) fn what_is_lost_behind_what_waits_stays_lost(opener: &mut impl Opener) {
    lost_behind_what_waits(opener, 0);
}

pub(crate) fn what_is_lost_between_what_waits_stays_lost(opener: &mut impl Opener) {
    lost_behind_what_waits(opener, 3);
}

pub(crate) fn the_furthest_place_is_stated_when_frames_overlap(opener: &mut impl Opener) {
    let journal = opener.open();
    let first = cursor(&journal, "first");
    open_stream(&journal, 1);
    // It keeps the segment.
    append_safely(&journal, &Part::new(2, 0, 1).unrepeatable());
    journal.append(Part::new(1, 0, 10).build(), LAG).unwrap();
    append_safely(&journal, &Part::new(1, 10, 6));
    opener.crash(journal);
    drop(first);
    let journal = opener.open();
    let first = cursor(&journal, "first");
    assert_eq!(open_stream(&journal, 1).position, Position::default(), "the start is gone");
    journal.append(Part::new(1, 0, 10).build(), LAG).unwrap();
    append_safely(&journal, &Part::new(1, 10, 3));
    journal.flush();
    append_safely(&journal, &Part::new(1, 13, 1));
    opener.crash(journal);
    drop(first);
    let journal = opener.open();
    let mut first = cursor(&journal, "first");
    let end = Position::new(0, 16 * STEP);
    assert_eq!(open_gone(&journal, 1).position, end);
    let known = journal.known_streams(source());
    let known = known.iter().find(|known| known.stream == StreamId(1));
    assert_eq!(known.map(|known| known.furthest.position), Some(end));
    journal.close_stream(StreamId(1));
    journal.release_unclaimed();
    let got: Vec<u64> =
        drain(&mut first).into_iter().filter(|(stream, _)| *stream == 1).map(|(_, n)| n).collect();
    assert_eq!(got, (10..16).collect::<Vec<_>>());
    opener.close(journal);
}
