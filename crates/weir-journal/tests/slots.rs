//! Slots of destinations: the slot of a dropped destination is reused, but never while anything on
//! disk refers to its predecessor.

mod support;

use std::sync::Arc;

use support::{
    KIB, Part, assert_books_balance, block_on, config, cursor, drain, open, open_stream, take,
};
use weir_journal::{Journal, JournalConfig, WritePolicy};
use weir_testkit::FaultyDisk;

const DIR: &str = "/data/journal";

fn start(disk: &FaultyDisk) -> Journal {
    let config = JournalConfig { segment_bytes: 64 * KIB, ..config(DIR) };
    open(config, Arc::new(disk.clone()))
}

fn append(journal: &Journal, first: u64, mask: u64) {
    let batch = Part::new(1, first, 10).mask(mask).unrepeatable().build();
    block_on(journal.append(batch, WritePolicy::OnAppend).unwrap().durable()).unwrap();
}

fn numbers(cursor: &mut weir_journal::Cursor) -> Vec<u64> {
    drain(cursor).into_iter().map(|(_, number)| number).collect()
}

#[test]
fn a_slot_is_not_used_again_while_a_batch_of_its_predecessor_is_kept() {
    let disk = FaultyDisk::new();
    let journal = start(&disk);
    let (hec, old) = (cursor(&journal, "hec"), cursor(&journal, "old"));
    open_stream(&journal, 1);
    append(&journal, 0, 0b11);
    drop((hec, old));
    journal.shutdown();

    // It is no longer configured, and dropped; its batch is kept for the other one.
    let journal = start(&disk);
    let mut hec = cursor(&journal, "hec");
    assert_eq!(journal.drop_cursor("old"), Ok(10));
    let mut new = cursor(&journal, "new");
    assert_eq!(new.index(), 2);
    open_stream(&journal, 1);
    journal.release_unclaimed();
    append(&journal, 10, 0b101);
    assert_eq!(numbers(&mut new), (10..20).collect::<Vec<_>>());
    assert_eq!(take(&mut hec).unwrap().record_count, 10);
    journal.shutdown();

    let journal = start(&disk);
    let (mut hec, mut new) = (cursor(&journal, "hec"), cursor(&journal, "new"));
    open_stream(&journal, 1);
    journal.release_unclaimed();
    assert_eq!(numbers(&mut hec), (0..20).collect::<Vec<_>>());
    assert_eq!(numbers(&mut new), Vec::<u64>::new());
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn an_unreferenced_slot_is_reused() {
    let disk = FaultyDisk::new();
    for round in 0..20 {
        let journal = start(&disk);
        let mut hec = cursor(&journal, "hec");
        if round > 0 {
            assert_eq!(journal.drop_cursor(&format!("d{}", round - 1)), Ok(0));
        }
        let mut mine = cursor(&journal, &format!("d{round}"));
        assert!(mine.index() <= 2, "slot {} in round {round}", mine.index());
        open_stream(&journal, 1);
        journal.release_unclaimed();
        let (first, mask) = (round * 10, 1 | 1 << mine.index());
        append(&journal, first, mask);
        // It starts where it was added, with its own book.
        assert_eq!(numbers(&mut mine), (first..first + 10).collect::<Vec<_>>());
        assert_eq!(numbers(&mut hec), (first..first + 10).collect::<Vec<_>>());
        let ledger = journal.ledger();
        assert_eq!(ledger.cursors.len(), 2);
        let book = ledger.cursors.iter().find(|c| c.index == mine.index()).unwrap().book;
        assert_eq!((book.routed, book.delivered), (10, 10));
        assert_books_balance(&journal);
        journal.shutdown();
        // What it had acknowledged is still settled after another start.
        let journal = start(&disk);
        let again = cursor(&journal, &format!("d{round}"));
        assert_eq!(again.memory().committed(weir_model::StreamId(1)).unwrap().offset, {
            (first + 10) * support::STEP
        });
        drop(again);
        journal.shutdown();
    }
}
