//! The simplest use of a journal on the real disk, on which every other test relies.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Part, assert_books_balance, block_on, config, cursor, numbers, open, open_stream};
use support::{STEP, book_of, state_of, take, until};
use weir_host::RealDisk;
use weir_journal::{Held, Outcome, RecordState, RecordTrace, WritePolicy};
use weir_model::{Position, StreamId};

#[test]
fn a_stream_resumes_at_its_committed_position_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path().join("journal"));
    let disk = Arc::new(RealDisk);
    let journal = open(config.clone(), disk.clone());
    assert!(journal.register_source("app"));
    let mut hec = cursor(&journal, "hec");
    let resume = open_stream(&journal, 7);
    assert!(!resume.known);
    assert_eq!(resume.position, Position::default());
    for first in [0, 10, 20] {
        journal
            .append(Part::new(7, first, 10).padding(60_000 / 10).build(), WritePolicy::OnLag)
            .unwrap();
    }
    assert_books_balance(&journal);
    block_on(hec.ready(1, Duration::from_secs(1)));
    let first = take(&mut hec).unwrap();
    let second = take(&mut hec).unwrap();
    assert_eq!(numbers(&first), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&second), (10..20).collect::<Vec<_>>());
    hec.ack(&first, Outcome::delivered(10));
    hec.ack(&second, Outcome::delivered(10));
    assert_books_balance(&journal);
    assert_eq!(journal.ledger().journal.frames_written, 0);
    journal.shutdown();

    let journal = open(config, disk);
    assert!(!journal.register_source("app"));
    let mut hec = cursor(&journal, "hec");
    let resume = open_stream(&journal, 7);
    assert!(resume.known);
    assert_eq!(resume.position, Position::new(0, 20 * STEP));
    assert_eq!(resume.state, state_of(0, 20));
    assert_eq!(resume.book, book_of(20));
    journal.release_unclaimed();
    assert_books_balance(&journal);
    assert_eq!(journal.ledger().cursors[0].book.delivered, 20);
    journal.append(Part::new(7, 20, 10).build(), WritePolicy::OnLag).unwrap();
    assert_eq!(numbers(&take(&mut hec).unwrap()), (20..30).collect::<Vec<_>>());
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn a_record_is_traced_to_each_destination() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(config(dir.path().join("journal")), Arc::new(RealDisk));
    assert!(journal.register_source("app"));
    let (mut fast, mut slow) = (cursor(&journal, "fast"), cursor(&journal, "slow"));
    open_stream(&journal, 7);
    let of =
        |n: u64| -> Vec<RecordTrace> { journal.trace(StreamId(7), Position::new(0, n * STEP)) };
    let states = |n| -> Vec<RecordState> { of(n).iter().map(|trace| trace.state).collect() };
    journal.append(Part::new(7, 0, 10).mask(0b11).build(), WritePolicy::OnLag).unwrap();
    journal.append(Part::new(7, 10, 10).mask(0b01).build(), WritePolicy::OnLag).unwrap();
    assert_eq!(states(3), [RecordState::Waiting; 2]);
    assert!(of(3).iter().all(|trace| trace.appended_ns.is_some() && trace.done_ns.is_none()));
    assert_eq!(states(21), [RecordState::Unknown; 2], "not appended yet");

    let taken = take(&mut fast).unwrap();
    let count = taken.record_count;
    fast.ack(&taken, Outcome::delivered(count));
    let traces = of(3);
    assert_eq!(states(3), [RecordState::Settled, RecordState::Waiting]);
    assert!(traces[0].done_ns >= traces[0].appended_ns && traces[0].is_delivered);
    assert!(!traces[1].is_delivered && traces[1].done_ns.is_none());

    let taken = take(&mut slow).unwrap();
    let mut held = Held::default();
    slow.hold(&taken, &mut held);
    assert_eq!(states(3), [RecordState::Settled, RecordState::Held]);
    assert!(of(3)[1].done_ns.is_some());
    slow.ack_held(held);
    assert_eq!(states(3), [RecordState::Settled; 2]);
    while let Some(taken) = take(&mut fast) {
        let count = taken.record_count;
        fast.ack(&taken, Outcome::delivered(count));
    }
    // Nothing of it was for the second destination, which has no receipt for it.
    assert_eq!(states(13), [RecordState::Settled; 2]);
    assert_eq!(of(13)[1].done_ns, None);
    assert_eq!(journal.trace(StreamId(8), Position::new(0, STEP))[0].done_ns, None);
    assert_books_balance(&journal);
    journal.shutdown();
}

/// What is written to a directory that was removed or replaced by another of the same name is not
/// safe.
#[test]
fn a_directory_that_is_removed_or_replaced_is_no_stable_storage() {
    let dir = tempfile::tempdir().unwrap();
    let [path, away] = ["journal", "away"].map(|name| dir.path().join(name));
    let journal = open(config(path.clone()), Arc::new(RealDisk));
    let mut hec = cursor(&journal, "hec");
    let mut next = 0;
    let mut append = || {
        let part = Part::new(7, next, 1).unrepeatable();
        next += 1;
        let ticket = journal.append(part.build(), WritePolicy::OnAppend);
        ticket.is_ok_and(|ticket| block_on(ticket.durable()).is_ok())
    };
    let settle_one = |hec: &mut weir_journal::Cursor| {
        let delivery = take(hec).unwrap();
        hec.ack(&delivery, Outcome::delivered(1));
        journal.flush();
        journal.ledger().journal.disk_error
    };
    assert!(append());
    assert_eq!(settle_one(&mut hec), None);
    for replaced in [false, true] {
        std::fs::rename(&path, &away).unwrap();
        if replaced {
            std::fs::create_dir(&path).unwrap();
        }
        assert!(!append(), "it is not confirmed as safe");
        let error = settle_one(&mut hec).unwrap();
        assert!(error.contains("removed or replaced"), "{error}");
        if replaced {
            assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "nothing is written there");
            std::fs::remove_dir(&path).unwrap();
        }
        std::fs::rename(&away, &path).unwrap();
        until("the journal writes again", || {
            journal.flush();
            journal.ledger().journal.disk_error.is_none()
        });
        assert!(append());
        assert_eq!(settle_one(&mut hec), None);
    }
    assert_books_balance(&journal);
    journal.shutdown();
}
