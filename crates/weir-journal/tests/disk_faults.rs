//! Every disk call fails once, in every way; the disk fills up; a flush fails. The journal never
//! panics, never confirms that something is safe when it is not, and resumes by itself.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use support::{
    KIB, MIB, Part, STEP, assert_books_balance, block_on, config, cursor, drain, numbers, open,
    open_stream, source, take, until,
};
use weir_host::{Disk, RealClock};
use weir_journal::{
    Journal, JournalConfig, JournalError, Outcome, RefusedReason, StreamSpec, WritePolicy,
};
use weir_model::{Position, SourceBook, StreamId};
use weir_testkit::{CallKind, Fault, FaultKind, FaultyDisk};

const DIR: &str = "/data/journal";

/// Performs a few operations on a disk, with a fault pending somewhere. Returns the records of the
/// connection that were acknowledged.
fn exercise(disk: &FaultyDisk) -> Option<Vec<u64>> {
    let config = JournalConfig { segment_bytes: 2 * KIB, ring_bytes: 16 * KIB, ..config(DIR) };
    let opened = Journal::open(config, Arc::new(disk.clone()), Arc::new(RealClock::new()));
    let journal = opened.ok()?;
    journal.register_source("app");
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    journal.release_unclaimed();
    let mut acknowledged = Vec::new();
    for n in 0..6 {
        let part = Part::new(2, n, 1).padding(900).unrepeatable();
        if let Ok(ticket) = journal.append(part.build(), WritePolicy::OnAppend)
            && block_on(ticket.durable()).is_ok()
        {
            acknowledged.push(n);
        }
        let part = Part::new(1, n * 10, 10).padding(200);
        let _refused_when_full = journal.append(part.build(), WritePolicy::OnLag);
        assert_books_balance(&journal);
    }
    journal.persist_stream(StreamId(1));
    if let Some(delivery) = take(&mut hec) {
        hec.ack(&delivery, Outcome::delivered(delivery.record_count));
    }
    journal.flush();
    assert_books_balance(&journal);
    journal.shutdown();
    Some(acknowledged)
}

/// After the fault: everything that was acknowledged can be read from what a crash leaves.
fn assert_all_there(disk: &FaultyDisk, acknowledged: &[u64], seed: u64, what: &str) {
    assert_eq!(disk.flushes_after_failure(), 0, "{what}: a failed flush was repeated");
    let disk = disk.crash(seed);
    let journal = open(config(DIR), Arc::new(disk));
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    let settled = journal.ledger().cursors[0].book.delivered;
    let left: Vec<u64> =
        drain(&mut hec).into_iter().filter(|(stream, _)| *stream == 2).map(|(_, n)| n).collect();
    let missing = acknowledged.iter().filter(|n| !left.contains(n)).count() as u64;
    assert!(
        missing <= settled,
        "{what}: {missing} acknowledged records are lost, {settled} settled"
    );
    assert_books_balance(&journal);
    journal.shutdown();
}

fn fail_every_call(kind: FaultKind) {
    for n in 1.. {
        let disk = FaultyDisk::new();
        disk.inject(Fault::new(kind).nth(n));
        let what = format!("{kind:?} in call {n}");
        let acknowledged = exercise(&disk).unwrap_or_default();
        if disk.faults().fired() == 0 {
            assert!(n > 20, "the exercise hardly touches the disk");
            return;
        }
        assert_all_there(&disk, &acknowledged, n, &what);
        // Once more on the same disk, without faults: it continues as if nothing had happened.
        disk.faults().clear();
        let disk = disk.kill();
        assert!(exercise(&disk).is_some(), "{what}: does not restart");
    }
}

#[test]
fn a_full_disk_in_any_call_is_survived() {
    fail_every_call(FaultKind::NoSpace);
}

#[test]
fn an_io_error_in_any_call_is_survived() {
    fail_every_call(FaultKind::Io);
}

#[test]
fn a_read_only_disk_in_any_call_is_survived() {
    fail_every_call(FaultKind::ReadOnly);
}

#[test]
fn an_interruption_in_any_call_is_survived() {
    fail_every_call(FaultKind::Interrupted);
}

#[test]
fn a_short_write_in_any_call_changes_nothing() {
    fail_every_call(FaultKind::Short(7));
}

#[test]
fn a_disk_that_always_fails_ends_nothing_and_hangs_nothing() {
    for call in [CallKind::Write, CallKind::SyncData, CallKind::Open, CallKind::Space] {
        let disk = FaultyDisk::new();
        let journal = open(config(DIR), Arc::new(disk.clone()));
        let mut hec = cursor(&journal, "hec");
        open_stream(&journal, 1);
        disk.inject(Fault::new(FaultKind::Io).on(call).forever());
        let part = Part::new(2, 0, 1).unrepeatable();
        let ticket = journal.append(part.build(), WritePolicy::OnAppend).unwrap();
        let refused = block_on(ticket.durable());
        assert!(matches!(refused, Err(RefusedReason::Disk { .. })), "{call:?}: {refused:?}");
        // Deliveries continue.
        journal.append(Part::new(1, 0, 10).build(), WritePolicy::OnLag).unwrap();
        assert_eq!(drain(&mut hec).len(), 11);
        journal.flush();
        let again =
            journal.append(Part::new(2, 1, 1).unrepeatable().build(), WritePolicy::OnAppend);
        assert!(matches!(again.unwrap_err().reason, RefusedReason::Disk { .. }));
        assert!(journal.ledger().journal.disk_error.is_some());
        assert_books_balance(&journal);
        journal.shutdown();
    }
}

#[test]
fn a_journal_resumes_by_itself_when_there_is_space_again() {
    let disk = FaultyDisk::new();
    let journal = open(config(DIR), Arc::new(disk.clone()));
    let _hec = cursor(&journal, "hec");
    let wake = weir_host::WakeFd::new().unwrap();
    journal.on_room(wake.clone());
    let send = |n| {
        let part = Part::new(2, n, 1).padding(3000).unrepeatable();
        match journal.append(part.build(), WritePolicy::OnAppend) {
            Ok(ticket) => block_on(ticket.durable()),
            Err(refused) => Err(refused.reason),
        }
    };
    assert_eq!(send(0), Ok(()));
    disk.set_capacity(Some(disk.used_bytes()));
    assert!(send(1).is_err());
    assert!(send(2).is_err());
    assert!(journal.ledger().journal.disk_error.is_some());
    disk.set_capacity(None);
    until("sources are woken", || wake.take());
    until("the error has passed", || journal.ledger().journal.disk_error.is_none());
    assert_eq!(send(3), Ok(()));
    assert_eq!(disk.flushes_after_failure(), 0);
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn what_was_spilled_to_a_segment_that_fails_to_flush_is_written_elsewhere() {
    let disk = FaultyDisk::new();
    let config = JournalConfig { ring_bytes: 64 * KIB, spill_after: Duration::ZERO, ..config(DIR) };
    let journal = open(config.clone(), Arc::new(disk.clone()));
    let mut hec = cursor(&journal, "hec");
    open_stream(&journal, 1);
    let mut sent = 0;
    until("frames are spilled", || {
        let part = Part::new(1, sent * 10, 10).padding(500);
        sent += u64::from(journal.append(part.build(), WritePolicy::OnLag).is_ok());
        journal.ledger().journal.frames_written > 3
    });
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData).path("segment"));
    // The file is deleted: now all of it must be safe.
    journal.persist_stream(StreamId(1));
    until("the flush has failed", || disk.faults().fired() == 1);
    let ticket = || journal.append(Part::new(1, sent * 10, 10).build(), WritePolicy::OnAppend);
    // Refused, or an error reported, until the disk is used again; the same batch is counted once.
    until("the rest is safe", || ticket().is_ok_and(|ticket| block_on(ticket.durable()).is_ok()));
    sent += 1;
    assert_books_balance(&journal);
    assert_eq!(disk.flushes_after_failure(), 0);
    let in_memory: Vec<u64> =
        std::iter::from_fn(|| take(&mut hec)).flat_map(|d| numbers(&d)).collect();
    assert_eq!(in_memory, (0..sent * 10).collect::<Vec<_>>());

    let disk = disk.crash(3);
    drop(journal);
    let journal = open(config, Arc::new(disk));
    let mut hec = cursor(&journal, "hec");
    journal.release_unclaimed();
    let left: Vec<u64> = drain(&mut hec).into_iter().map(|(_, n)| n).collect();
    assert_eq!(left, (0..sent * 10).collect::<Vec<_>>());
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn a_read_only_disk_at_start_is_a_clear_error() {
    let disk = FaultyDisk::new();
    open(config(DIR), Arc::new(disk.clone())).shutdown();
    disk.set_read_only(true);
    let error = Journal::open(config(DIR), Arc::new(disk), Arc::new(RealClock::new())).unwrap_err();
    assert!(matches!(error, JournalError::Io { .. }));
    assert!(error.to_string().contains("Read-only"), "{error}");
}

#[test]
fn weir_starts_on_a_full_disk() {
    let disk = FaultyDisk::new();
    let journal = open(config(DIR), Arc::new(disk.clone()));
    drop(cursor(&journal, "hec"));
    journal.shutdown();
    disk.set_capacity(Some(disk.used_bytes()));
    let disk = disk.kill();
    let journal = open(config(DIR), Arc::new(disk.clone()));
    let mut hec = cursor(&journal, "hec");
    assert!(journal.ledger().journal.disk_error.is_some());
    open_stream(&journal, 1);
    journal.append(Part::new(1, 0, 5).build(), WritePolicy::OnLag).unwrap();
    assert_eq!(drain(&mut hec).len(), 5);
    disk.set_capacity(None);
    until("positions are written", || journal.ledger().journal.disk_error.is_none());
    journal.flush();
    drop(journal);
    let journal = open(config(DIR), Arc::new(disk.crash(1)));
    drop(cursor(&journal, "hec"));
    assert_eq!(open_stream(&journal, 1).position, Position::new(0, 5 * STEP));
    journal.shutdown();
}

#[test]
fn a_second_process_on_the_directory_is_told_so() {
    let disk = FaultyDisk::new();
    let journal = open(config(DIR), Arc::new(disk.clone()));
    let second = Journal::open(config(DIR), Arc::new(disk.clone()), Arc::new(RealClock::new()));
    let error = second.unwrap_err();
    assert!(matches!(&error, JournalError::Locked { dir } if dir == Path::new(DIR)), "{error}");
    assert!(error.to_string().contains(DIR));
    journal.shutdown();
    open(config(DIR), Arc::new(disk)).shutdown();
}

#[test]
fn files_removed_under_a_running_journal_cost_no_false_acknowledgement() {
    let disk = FaultyDisk::new();
    let config = JournalConfig { segment_bytes: KIB, ..config(DIR) };
    let journal = open(config.clone(), Arc::new(disk.clone()));
    let _hec = cursor(&journal, "hec");
    let send = |n| {
        let part = Part::new(2, n, 1).padding(900).unrepeatable();
        block_on(journal.append(part.build(), WritePolicy::OnAppend).unwrap().durable()).unwrap();
    };
    send(0);
    for path in disk.names() {
        if path.extension().is_some_and(|e| e == "wseg" || e == "wcur") {
            disk.remove(&path).unwrap();
        }
    }
    // The segment that was open has lost its name; the next ones have not.
    send(1);
    send(2);
    send(3);
    let disk = disk.kill();
    drop(journal);
    let journal = open(config, Arc::new(disk));
    let mut hec = cursor(&journal, "hec");
    let spec = StreamSpec {
        stream: StreamId(2),
        group: 0,
        source: source(),
        start: Position::default(),
        state: b"",
        book: SourceBook::default(),
        gone: false,
    };
    journal.open_stream(&spec);
    let left: Vec<u64> = drain(&mut hec).into_iter().map(|(_, n)| n).collect();
    assert!(left.ends_with(&[2, 3]), "{left:?}");
    assert_books_balance(&journal);
    journal.shutdown();
}

#[test]
fn the_limit_of_the_journal_is_kept() {
    let disk = FaultyDisk::new();
    let config = JournalConfig { bytes_max: MIB, segment_bytes: 64 * KIB, ..config(DIR) };
    let journal = open(config, Arc::new(disk.clone()));
    let mut hec = cursor(&journal, "hec");
    let mut n = 0;
    let refused = loop {
        let part = Part::new(2, n, 1).padding(60_000).unrepeatable();
        let sent = match journal.append(part.build(), WritePolicy::OnAppend) {
            Ok(ticket) => block_on(ticket.durable()),
            Err(refused) => Err(refused.reason),
        };
        match sent {
            Ok(()) => n += 1,
            Err(reason) => break reason,
        }
        assert!(disk.used_bytes() <= MIB + 128 * KIB, "{} bytes", disk.used_bytes());
    };
    // Most of the disk is kept for this destination: it is the one that counts as full.
    assert_eq!(refused, RefusedReason::BufferFull { cursor: "hec".to_owned() });
    assert!(journal.ledger().journal.disk_error.is_none());
    assert!(drain(&mut hec).len() as u64 >= n);
    until("there is room again", || {
        let part = Part::new(2, n, 1).padding(60_000).unrepeatable();
        let ticket = journal.append(part.build(), WritePolicy::OnAppend);
        ticket.is_ok_and(|ticket| block_on(ticket.durable()).is_ok())
    });
    assert_books_balance(&journal);
    journal.shutdown();
}
