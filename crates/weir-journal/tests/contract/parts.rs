//! The books of a destination's parts: they are persisted with the position, and end with it.

use weir_journal::{CursorSpec, Outcome, PartOutcome, WhenFull};
use weir_model::{DiscardReason, StreamId};

use crate::Opener;
use crate::restart::append_safely;
use crate::support::{Part, assert_books_balance, cursor, cursor_spec, drain, open_stream, take};

pub(crate) fn the_books_of_parts_go_back_with_the_position(opener: &mut impl Opener) {
    let delivered =
        |part: u64, count: u64| PartOutcome { part, outcome: Outcome::delivered(count) };
    let expired = |part: u64, count: u64| {
        let discarded = Some((DiscardReason::Expired, count));
        PartOutcome { part, outcome: Outcome { discarded, ..Outcome::default() } }
    };
    let mut journal = opener.open();
    let mut drains = cursor(&journal, "drains");
    open_stream(&journal, 1);
    for first in [0, 10, 20] {
        append_safely(&journal, &Part::new(1, first, 10).padding(6000));
    }
    let taken: Vec<_> = std::iter::from_fn(|| take(&mut drains)).collect();
    // More than one part may have had a record.
    drains.ack_parts(&taken[0], Outcome::delivered(10), vec![delivered(7, 9), delivered(8, 4)]);
    drains.ack_parts(&taken[2], Outcome::delivered(10), vec![delivered(7, 10), expired(9, 3)]);
    let of = |drains: &weir_journal::Cursor, part: u64| {
        let book = drains.memory().part(part);
        assert_eq!(book.routed, book.settled(), "{book:?}");
        (book.delivered, book.discarded_total())
    };
    assert_eq!([7, 8, 9].map(|part| of(&drains, part)), [(9, 0), (4, 0), (0, 0)]);
    assert_eq!(drains.memory().uncommitted(StreamId(1)), 20);
    for (settles_all, expected) in [
        (false, [(9, 0), (4, 0), (0, 0)]),
        (true, [(9, 0), (4, 0), (0, 0)]),
        (false, [(29, 0), (4, 0), (0, 6)]),
    ] {
        journal.flush();
        opener.crash(journal);
        journal = opener.open();
        drains = cursor(&journal, "drains");
        open_stream(&journal, 1);
        assert_eq!([7, 8, 9].map(|part| of(&drains, part)), expected);
        if settles_all {
            for delivery in std::iter::from_fn(|| take(&mut drains)).collect::<Vec<_>>() {
                let parts = vec![delivered(7, delivery.record_count), expired(9, 3)];
                drains.ack_parts(&delivery, Outcome::delivered(delivery.record_count), parts);
            }
            assert_eq!(drains.memory().uncommitted(StreamId(1)), 0);
        }
    }
    assert_books_balance(&journal);
    drains.forget_part(7);
    journal.flush();
    opener.crash(journal);
    journal = opener.open();
    drains = cursor(&journal, "drains");
    let mut parts = drains.parts();
    parts.sort_unstable();
    assert_eq!(parts, [8, 9]);
    opener.close(journal);
}

pub(crate) fn streams_are_parts_until_they_end(opener: &mut impl Opener) {
    let spec = || CursorSpec { when_full: WhenFull::DropOldestOfStream, ..cursor_spec("lagging") };
    let journal = opener.open();
    let mut lagging = journal.cursor(spec()).unwrap();
    open_stream(&journal, 1);
    open_stream(&journal, 2);
    for (stream, first) in [(1, 0), (2, 0), (1, 10)] {
        append_safely(&journal, &Part::new(stream, first, 10).padding(6000));
    }
    let discarded = Some((DiscardReason::Expired, 4));
    let outcome = Outcome { discarded, ..Outcome::delivered(6) };
    let first = take(&mut lagging).unwrap();
    lagging.ack(&first, outcome);
    let stream = first.stream();
    journal.flush();
    opener.crash(journal);
    let journal = opener.open();
    lagging = journal.cursor(spec()).unwrap();
    open_stream(&journal, 1);
    open_stream(&journal, 2);
    journal.release_unclaimed();
    let book = lagging.memory().part(stream.0);
    assert_eq!((book.delivered, book.discarded[DiscardReason::Expired as usize]), (6, 4));
    let uncommitted = [1, 2].map(|id| lagging.memory().uncommitted(StreamId(id)));
    assert_eq!(uncommitted.iter().sum::<u64>(), 20);
    assert_eq!(drain(&mut lagging).len(), 20);
    for id in [1, 2] {
        journal.close_stream(StreamId(id));
    }
    journal.flush();
    assert!(lagging.parts().is_empty());
    assert_books_balance(&journal);
    opener.crash(journal);
    let journal = opener.open();
    lagging = journal.cursor(spec()).unwrap();
    assert!(lagging.parts().is_empty());
    opener.close(journal);
}
