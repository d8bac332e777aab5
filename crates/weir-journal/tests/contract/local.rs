//! Behavior specific to the local journal: when it writes to disk, and how much.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use weir_host::WakeFd;
use weir_journal::{
    Cursor, CursorSpec, Journal, JournalConfig, Outcome, RefusedReason, WhenFull, WritePolicy,
};
use weir_model::{DiscardReason, StreamId};
use weir_testkit::{CallKind, Fault, FaultKind};

use crate::support::{
    KIB, MIB, Part, STEP, assert_books_balance, block_on, config, cursor, cursor_spec, drain,
    open_stream, take, until,
};
use crate::{Local, Opener};

const LAG: WritePolicy = WritePolicy::OnLag;
const DIR: &str = "/data/journal";

#[test]
fn no_frame_is_written_while_destinations_keep_up() {
    let opener = Local::default();
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    for n in 0..500 {
        journal.append(Part::new(1, n * 10, 10).padding(6000).build(), LAG).unwrap();
        drain(&mut hec);
    }
    journal.flush();
    let status = journal.ledger().journal;
    assert_eq!((status.frames_written, status.segments, status.disk_bytes), (0, 0, 0));
    opener.close(journal);
}

#[test]
fn a_ticket_resolves_only_after_a_flush() {
    let opener = Local::default();
    let journal = opener.open();
    let _hec = cursor(&journal, "hec");
    let syncs = || opener.disk.faults().calls(CallKind::SyncData);
    for n in 0..5 {
        let before = syncs();
        let part = Part::new(2, n, 1).unrepeatable();
        let ticket = journal.append(part.build(), WritePolicy::OnAppend).unwrap();
        block_on(ticket.durable()).unwrap();
        assert!(syncs() > before);
    }
    // A ticket that is never resolved is an error, not a success.
    opener.disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData).forever());
    let part = Part::new(2, 5, 1).unrepeatable();
    let ticket = journal.append(part.build(), WritePolicy::OnAppend).unwrap();
    assert!(block_on(ticket.durable()).is_err());
    opener.close(journal);
}

#[test]
fn the_same_batch_again_waits_for_the_same_flush() {
    let opener = Local::default();
    let journal = opener.open();
    let _hec = cursor(&journal, "hec");
    opener.disk.inject(Fault::new(FaultKind::Io).on(CallKind::Write).path("segment").times(1));
    let part = Part::new(2, 0, 1).unrepeatable();
    let failed = journal.append(part.build(), WritePolicy::OnAppend).unwrap();
    assert!(block_on(failed.durable()).is_err());
    let mut again = None;
    until("the disk is used again", || {
        again = journal.append(part.build(), WritePolicy::OnAppend).ok();
        again.is_some()
    });
    block_on(again.unwrap().durable()).unwrap();
    assert_eq!(journal.ledger().cursors[0].in_flight, 1, "it is counted once");
    let mut opener = opener;
    opener.crash(journal);
    let journal = opener.open();
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    assert_eq!(drain(&mut hec), [(2, 0)]);
    opener.close(journal);
}

/// Appends until the ring is full.
fn fill(journal: &weir_journal::Journal, stream: u64, mask: u64) -> u64 {
    let mut n = 0;
    loop {
        let part = Part::new(stream, n, 1).mask(mask).padding(60_000);
        match journal.append(part.build(), LAG) {
            Ok(_) => n += 1,
            Err(refused) => {
                assert_eq!(refused.reason, RefusedReason::RingFull);
                return n;
            }
        }
    }
}

#[test]
fn a_full_ring_spills_to_disk_only_when_due() {
    let opener = Local::default();
    let spill_after = Duration::from_millis(150);
    let journal = opener.open_with(JournalConfig { ring_bytes: MIB, spill_after, ..config(DIR) });
    let wake = WakeFd::new().unwrap();
    journal.on_room(wake.clone());
    let mut hec = cursor(&journal, "hec");
    let begun = std::time::Instant::now();
    let sent = fill(&journal, 1, 1);
    assert_eq!(journal.ledger().journal.frames_written, 0);
    // No one appends, takes or acknowledges: the timeout takes effect nevertheless.
    until("the ring is spilled", || journal.ledger().journal.frames_written > 0);
    assert!(begun.elapsed() >= spill_after);
    until("sources are woken", || wake.take());
    journal.append(Part::new(1, sent, 1).padding(60_000).build(), LAG).unwrap();
    assert_books_balance(&journal);
    assert_eq!(drain(&mut hec).len() as u64, sent + 1);
    opener.close(journal);
}

#[test]
fn a_hung_destination_uses_disk_without_delaying_others() {
    let opener = Local::default();
    let config = JournalConfig { ring_bytes: MIB, spill_after: Duration::MAX / 4, ..config(DIR) };
    let journal = opener.open_with(config);
    let wake = WakeFd::new().unwrap();
    journal.on_room(wake.clone());
    let mut hung = cursor(&journal, "hung");
    let mut healthy = cursor(&journal, "healthy");
    let (mut sent, mut got) = (0, 0);
    until("much more than the ring has passed through", || {
        let part = Part::new(1, sent, 1).mask(0b11).padding(60_000);
        if journal.append(part.build(), LAG).is_ok() {
            sent += 1;
        } else {
            got += drain(&mut healthy).len() as u64;
            until("there is room", || wake.take());
        }
        sent == 100
    });
    got += drain(&mut healthy).len() as u64;
    assert_eq!(got, 100);
    let status = journal.ledger().journal;
    assert!(status.ring_bytes <= MIB && status.frames_written > 80, "{status:?}");
    assert_books_balance(&journal);
    let all: Vec<u64> = drain(&mut hung).into_iter().map(|(_, n)| n).collect();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    journal.flush();
    until("its space is freed", || journal.ledger().journal.disk_bytes < 2 * MIB);
    opener.close(journal);
}

/// Returns whether so much waits that the destination starts to send.
fn is_ready(cursor: &mut Cursor, bytes: u64) -> bool {
    block_on(async {
        let mut ready = pin!(cursor.ready(bytes, Duration::MAX / 4));
        ready.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    })
}

#[test]
fn a_destination_that_waits_for_a_full_request_is_not_held_back_by_a_hung_one() {
    let opener = Local::default();
    let config = JournalConfig { ring_bytes: MIB, spill_after: Duration::MAX / 4, ..config(DIR) };
    let journal = opener.open_with(config);
    let wake = WakeFd::new().unwrap();
    journal.on_room(wake.clone());
    let _hung = cursor(&journal, "hung");
    let mut healthy = cursor(&journal, "healthy");
    let (mut sent, mut got) = (0, 0);
    while sent < 100 {
        let part = Part::new(1, sent, 1).mask(0b11).padding(60_000);
        if journal.append(part.build(), LAG).is_ok() {
            sent += 1;
        } else {
            until("there is room", || wake.take());
        }
        // The ring does not hold a multiple of a request: the rest is too little to send.
        if is_ready(&mut healthy, 4 * 60_000) {
            got += drain(&mut healthy).len() as u64;
        }
    }
    got += drain(&mut healthy).len() as u64;
    assert_eq!(got, 100);
    assert_books_balance(&journal);
    opener.close(journal);
}

#[test]
fn acknowledged_batches_leave_a_full_ring_without_being_written_again() {
    let opener = Local::default();
    let journal = opener.open_with(JournalConfig { ring_bytes: MIB, ..config(DIR) });
    let _hung = cursor(&journal, "hung");
    for n in 0..60 {
        let part = Part::new(2, n, 1).padding(60_000).unrepeatable();
        let mut ticket = None;
        until("it is accepted", || {
            ticket = journal.append(part.build(), WritePolicy::OnAppend).ok();
            ticket.is_some()
        });
        block_on(ticket.unwrap().durable()).unwrap();
    }
    let status = journal.ledger().journal;
    assert_eq!(status.frames_written, 60);
    assert!(status.ring_bytes <= MIB);
    opener.close(journal);
}

#[test]
fn disk_space_is_bounded_while_a_hung_destination_drops_the_oldest() {
    let opener = Local::default();
    let journal = opener.open_with(JournalConfig {
        ring_bytes: 512 * KIB,
        segment_bytes: 256 * KIB,
        bytes_max: 16 * MIB,
        spill_after: Duration::ZERO,
        ..config(DIR)
    });
    let spec = CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 2 * MIB,
        ..cursor_spec("hung")
    };
    let _hung = journal.cursor(spec).unwrap();
    for n in 0..400 {
        for (stream, padding) in [(1, 60_000), (100 + n, 100)] {
            let part = Part::new(stream, if stream == 1 { n } else { 0 }, 1).padding(padding);
            until("it is accepted", || journal.append(part.build(), LAG).is_ok());
        }
    }
    journal.flush();
    assert_books_balance(&journal);
    let status = journal.ledger().journal;
    assert!(status.disk_bytes < 8 * MIB, "{status:?}");
    assert!(opener.disk.used_bytes() < 8 * MIB, "{} bytes", opener.disk.used_bytes());
    opener.close(journal);
}

#[test]
fn segments_go_when_everything_in_them_is_committed() {
    let opener = Local::default();
    let journal = opener.open_with(JournalConfig { segment_bytes: 128 * KIB, ..config(DIR) });
    let mut hec = cursor(&journal, "hec");
    for n in 0..30 {
        let part = Part::new(2, n, 1).padding(60_000).unrepeatable();
        block_on(journal.append(part.build(), WritePolicy::OnAppend).unwrap().durable()).unwrap();
    }
    let segments = || {
        opener.disk.names().iter().filter(|p| p.extension().is_some_and(|e| e == "wseg")).count()
    };
    assert!(segments() > 8);
    drain(&mut hec);
    journal.flush();
    until("they are deleted", || segments() <= 1);
    opener.close(journal);
    let journal = opener.open();
    journal.flush();
    until("the last one is deleted, too", || segments() == 0);
    opener.close(journal);
}

/// Uses separate streams, so that nothing can be merged; returns how many were accepted.
fn append_to_streams(journal: &Journal, streams: std::ops::Range<u64>, mask: u64) -> usize {
    let append = |stream| journal.append(Part::new(stream, 0, 1).mask(mask).build(), LAG);
    streams.filter(|stream| append(*stream).is_ok()).count()
}

#[test]
fn too_many_waiting_batches_stop_only_what_feeds_their_destination() {
    let opener = Local::default();
    let journal = opener.open_with(JournalConfig { ring_bytes: 512 * MIB, ..config(DIR) });
    let wake = WakeFd::new().unwrap();
    journal.on_room(wake.clone());
    let spec = CursorSpec { buffer_bytes_max: 512 * MIB, ..cursor_spec("hung") };
    let mut hung = journal.cursor(spec).unwrap();
    let mut quick = cursor(&journal, "quick");
    assert_eq!(append_to_streams(&journal, 0..250_001, 0b01), 250_000, "there is a limit");
    let refused = journal.append(Part::new(250_001, 0, 1).mask(0b11).build(), LAG).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::BufferFull { cursor: "hung".to_owned() });
    assert_books_balance(&journal);
    // The other destination has its share.
    assert_eq!(append_to_streams(&journal, 300_000..300_100, 0b10), 100);
    assert_eq!(drain(&mut quick).len(), 100);
    assert!(!wake.take());
    // It is worth retrying when part of them are gone.
    for n in 0..15_625 {
        assert!(!wake.take(), "after {n}");
        let delivery = take(&mut hung).unwrap();
        hung.ack(&delivery, Outcome::delivered(1));
    }
    assert!(wake.take());
    assert_eq!(append_to_streams(&journal, 250_001..250_002, 0b11), 1);
    opener.close(journal);
}

#[test]
fn too_many_waiting_batches_make_room_where_the_oldest_may_go() {
    let opener = Local::default();
    let journal = opener.open_with(JournalConfig { ring_bytes: 512 * MIB, ..config(DIR) });
    let spec = CursorSpec {
        when_full: WhenFull::DropOldest,
        buffer_bytes_max: 512 * MIB,
        ..cursor_spec("hung")
    };
    let mut hung = journal.cursor(spec).unwrap();
    let _quick = cursor(&journal, "quick");
    // All have the same weight.
    assert_eq!(append_to_streams(&journal, 200_000..450_100, 0b01), 250_100);
    assert_books_balance(&journal);
    let discarded = journal.ledger().cursors[0].book.discarded[DiscardReason::BufferFull as usize];
    assert!((100..25_000).contains(&discarded), "{discarded} were discarded");
    let oldest = take(&mut hung).unwrap().stream();
    assert_eq!(oldest, StreamId(200_000 + discarded), "the oldest were discarded");
    opener.close(journal);
}

#[test]
fn frames_are_found_by_their_keys() {
    let opener = Local::default();
    let config =
        || JournalConfig { segment_bytes: 4 * KIB, merge_from_batches: 1024, ..config(DIR) };
    let journal = opener.open_with(config());
    let mut hec = cursor(&journal, "hec");
    for n in 0..20 {
        let part = Part::new(2, n, 1).padding(600).unrepeatable().keys(&[n % 3, 99]);
        block_on(journal.append(part.build(), WritePolicy::OnAppend).unwrap().durable()).unwrap();
    }
    let find = |journal: &weir_journal::Journal, key| -> Vec<u64> {
        let frames = journal.frames_with_key(key);
        let first =
            |f: &weir_journal::IndexedFrame| f.read().map(|b| b.header().base_offset / STEP);
        frames.iter().filter_map(first).collect()
    };
    let expected: Vec<u64> = (0..20).filter(|n| n % 3 == 1).collect();
    assert_eq!(find(&journal, 1), expected);
    assert_eq!(find(&journal, 99).len(), 20);
    assert!(find(&journal, 7).is_empty());
    journal.shutdown();
    let journal = opener.open_with(config());
    hec = {
        drop(hec);
        cursor(&journal, "hec")
    };
    journal.release_unclaimed();
    assert_eq!(find(&journal, 1), expected);
    drain(&mut hec);
    drop(hec);
    // Frames that were rewritten while others were taken are in a segment that is still open.
    opener.close(journal);
    let journal = opener.open_with(config());
    journal.flush();
    until("delivered frames are gone", || find(&journal, 1).is_empty());
    opener.close(journal);
}
