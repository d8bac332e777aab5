//! Deletion on request: hidden at once, and then gone from every byte of every file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_testkit::{CallKind, Fault, FaultKind, FaultyDisk, Moment};

use super::crash::{begin, cut_everywhere_and};
use super::world::{
    File, Process, SECRET_STREAM, STEP, arrival_of, config, files, names, records_of,
};
use crate::embedded::columns::StoredRecord;
use crate::embedded::keep::deletion::{request_cancellation, request_deletion};
use crate::embedded::read::scan;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::write::flusher::Step;
use crate::embedded::write::requests::{NoReply, PendingReply};
use crate::query::{
    Access, Budget, CancelError, DeleteError, DeletionReport, DeletionRequest, Filter, Order,
    SearchRequest, TimeRange,
};

const ALL: TimeRange = TimeRange::ALL;

fn start(disk: &FaultyDisk, files: &mut BTreeMap<u64, File>) -> Process {
    Process::start(disk, config(), files, false).unwrap()
}

fn add_some(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    for (stream, file) in &mut *files {
        file.written += 3;
        process.read(*stream, file, 1000);
    }
    process.drain_other();
}

fn flush_some(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    add_some(process, files);
    process.flush();
}

/// Requests the deletion of everything that matches.
fn delete(process: &Process, query: &str) -> PendingReply {
    let query = weir_expr::parse(query).unwrap();
    let request = DeletionRequest { query, range: ALL, access: Access::all() };
    request_deletion(&process.store.shared, &request).expect("one is allowed")
}

/// Requests a deletion and waits until it is durable, no more.
fn hide(process: &mut Process, query: &str, range: TimeRange) -> u64 {
    let query = weir_expr::parse(query).unwrap();
    let request = DeletionRequest { query, range, access: Access::all() };
    let pending = request_deletion(&process.store.shared, &request).unwrap();
    for _ in 0..100 {
        process.intake.step();
        if let Ok(id) = pending.reply.try_recv() {
            return id;
        }
        process.flusher.step();
    }
    panic!("the deletion did not become durable");
}

/// Returns what a query finds.
fn found(snapshot: &Snapshot, process: &Process) -> Vec<StoredRecord> {
    let request = SearchRequest {
        filter: Filter::all(Access::all()),
        order: Order::OldestFirst,
        limit: 100_000,
        after: None,
    };
    let budget = Budget::new(std::sync::Arc::new(process.clock.clone()), None, usize::MAX);
    scan::search(snapshot, &request, &budget).unwrap().records
}

fn is_secret(record: &StoredRecord) -> bool {
    record.message.as_ref().is_some_and(|message| message.contains("hunter"))
}

/// Counts the secrets that a query finds, and the other records.
pub(super) fn split(process: &Process) -> (usize, usize) {
    let records = found(&process.store.snapshot(ALL), process);
    let secrets = records.iter().filter(|record| is_secret(record)).count();
    (secrets, records.len() - secrets)
}

pub(super) fn list(process: &Process) -> Vec<DeletionReport> {
    process.store.deletions(&Access::all())
}

fn has_text(disk: &FaultyDisk, path: &Path, text: &str) -> bool {
    memchr::memmem::find(&disk.content(path).unwrap(), text.as_bytes()).is_some()
}

/// Counts the files below the data directory that contain the text, plain or in a record.
fn files_with(disk: &FaultyDisk, process: &Process, text: &str) -> usize {
    let plain = disk.names().iter().filter(|path| has_text(disk, path, text)).count();
    let snapshot = process.store.snapshot(ALL);
    plain + records_of(&snapshot).iter().filter(|record| is_secret(record)).count()
}

/// Creates sixteen segments merged into one, two concatenations of eight, and a few small segments.
fn store_in_all_forms(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    for _ in 0..8 {
        flush_some(process, files);
        flush_some(process, files);
        process.clock.advance(Duration::from_hours(2));
        assert!(process.run());
    }
    flush_some(process, files);
}

/// Returns the number of a record in its stream.
fn number_of(record: &StoredRecord) -> u64 {
    record.position.offset / STEP - 1
}

/// Asserts that each record has the arrival of its batch of three, and that as many records are
/// found by their lag as there should be.
fn assert_arrivals(process: &Process, records: usize) {
    let snapshot = process.store.snapshot(ALL);
    let all = found(&snapshot, process);
    assert_eq!(all.len(), records);
    for record in &all {
        let number = number_of(record);
        assert_eq!(record.arrival_ns, Some(arrival_of(number / 3 * 3)), "{record:?}");
    }
    let first = all.iter().filter(|record| number_of(record).is_multiple_of(3)).count();
    for (query, wanted) in
        [("@lag:>=5s", first), ("@lag:<5s", records - first), ("@lag:[4.998s TO 5s]", records)]
    {
        let query = weir_expr::parse(query).unwrap();
        let request = SearchRequest {
            filter: Filter { query, ..Filter::all(Access::all()) },
            order: Order::OldestFirst,
            limit: 100_000,
            after: None,
        };
        let budget = Budget::new(Arc::new(process.clock.clone()), None, usize::MAX);
        let found = scan::search(&snapshot, &request, &budget).unwrap().records;
        assert_eq!(found.len(), wanted, "{}", request.filter.query);
    }
}

#[test]
fn arrival_is_kept_in_memory_and_through_flush_merge_deletion_and_restart() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    add_some(&mut process, &mut files);
    process.intake.step();
    assert_arrivals(&process, 9);
    assert!(process.flush());
    assert_arrivals(&process, 9);
    store_in_all_forms(&mut process, &mut files);
    assert_arrivals(&process, 9 + 17 * 9);
    hide(&mut process, "hunter7", ALL);
    assert!(process.run());
    assert_arrivals(&process, 9 + 17 * 9 - 1);
    drop(process);
    let disk = disk.kill();
    assert_arrivals(&start(&disk, &mut files), 9 + 17 * 9 - 1);
}

#[test]
fn deletion_hides_earlier_records_at_once_but_not_later_ones() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    flush_some(&mut process, &mut files);
    add_some(&mut process, &mut files);
    assert_eq!(split(&process), (3, 6), "the rest is in the journal");
    let id = hide(&mut process, "password", ALL);
    assert_eq!((id, split(&process)), (1, (0, 12)), "including records that were not in a segment");
    let entry = &list(&process)[0];
    assert_eq!((entry.id, entry.query.as_deref(), entry.rows), (1, Some("password"), 0));
    assert!(entry.done_ns.is_none() && entry.segments_left > 0, "{entry:?}");
    assert!(
        process.store.deletions(&Access::only(weir_expr::parse("a").unwrap()))[0].query.is_none()
    );
    add_some(&mut process, &mut files);
    process.intake.step();
    assert_eq!(split(&process), (3, 18));
    assert!(process.flush());
    assert_eq!(split(&process), (3, 18));
    assert_eq!(process.store.metrics().deleted_rows, 6);
}

#[test]
fn deleted_records_are_gone_from_every_file() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    store_in_all_forms(&mut process, &mut files);
    let snapshot = process.store.snapshot(ALL);
    let groups = snapshot.segments.iter().map(|open| open.segment.group_count());
    assert_eq!(groups.collect::<Vec<_>>(), [8, 1], "one was concatenated unchanged");
    drop(snapshot);
    assert!(files_with(&disk, &process, "hunter7") > 0, "the test can find the secret");
    hide(&mut process, "hunter7", ALL);
    hide(&mut process, "password", TimeRange { from_ns: 20_000_000, to_ns: 24_000_000 });
    assert!(process.run());
    // Two of eight row groups lost records; those between them stay together.
    let snapshot = process.store.snapshot(ALL);
    let groups = snapshot.segments.iter().map(|open| open.segment.group_count());
    assert_eq!(groups.sum::<usize>(), 9);
    assert!(snapshot.segments.len() >= 4 && snapshot.segments.iter().all(|s| s.sidecar.is_some()));
    drop(snapshot);
    assert_eq!(split(&process), (51 - 1 - 4, 102));
    assert_eq!(files_with(&disk, &process, "hunter7"), 46, "only other records contain it");
    for number in [7, 20, 23] {
        let text = format!("hunter{number}");
        assert!(!disk.names().iter().any(|path| has_text(&disk, path, &text)), "{text}");
    }
    let entries = list(&process);
    let done: Vec<_> = entries.iter().map(|d| (d.id, d.rows, d.segments_left)).collect();
    assert_eq!(done, [(2, 4, 0), (1, 1, 0)]);
    assert!(entries.iter().all(|d| d.done_ns.is_some() && d.query.is_none()), "{entries:?}");
    let metrics = process.store.metrics();
    assert_eq!((metrics.deleted_rows, metrics.deletions_pending, metrics.rows), (5, 0, 148));
    drop(process);
    let disk = disk.kill();
    let mut process = start(&disk, &mut files);
    assert_eq!((list(&process), process.store.metrics().deleted_rows), (entries, 5));
    flush_some(&mut process, &mut files);
    assert_eq!(split(&process), (49, 108));
}

#[test]
fn segment_without_remaining_records_is_removed() {
    let (disk, mut files) = (FaultyDisk::new(), files(2, 0));
    let mut process = start(&disk, &mut files);
    flush_some(&mut process, &mut files);
    hide(&mut process, "*", ALL);
    assert!(process.run());
    assert_eq!((names(&disk, "parquet").len(), process.store.metrics().deleted_rows), (0, 6));
    assert!(list(&process)[0].done_ns.is_some());
    drop(process);
    let disk = disk.kill();
    let mut process = start(&disk, &mut files);
    flush_some(&mut process, &mut files);
    assert_eq!(split(&process), (0, 6), "secrets do not reappear, other records do");
}

#[test]
fn deletion_ends_only_when_no_query_reads_the_old_file() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    flush_some(&mut process, &mut files);
    let reader = process.store.snapshot(ALL);
    hide(&mut process, "password", ALL);
    assert!(process.run());
    let entry = &list(&process)[0];
    assert_eq!((entry.done_ns, entry.rows, entry.segments_left), (None, 3, 0));
    assert_eq!(found(&reader, &process).len(), 9, "an earlier reader still sees the old state");
    drop(reader);
    assert!(process.run());
    assert!(list(&process)[0].done_ns.is_some());
    assert_eq!(names(&disk, "parquet").len(), 1);
}

#[test]
fn deletion_respects_access_and_the_maximum_of_pending_ones() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    flush_some(&mut process, &mut files);
    let reader = process.store.snapshot(ALL);
    let parse = |text| weir_expr::parse(text).unwrap();
    let shared = &process.store.shared.clone();
    let delete = |query| {
        let access = Access::only(parse("password"));
        let request = DeletionRequest { query: parse(query), range: ALL, access };
        request_deletion(shared, &request)
    };
    let _pending = delete("-hunter1").unwrap();
    assert!(process.run());
    assert_eq!(split(&process), (1, 6));
    let _pending: Vec<_> = (1..64).map(|_| delete("nothing").unwrap()).collect();
    assert_eq!(delete("a").unwrap_err(), DeleteError::TooMany);
    drop(reader);
    assert!(process.run());
    assert!(delete("a").is_ok());
    assert!(list(&process).iter().all(|entry| entry.rows <= 2));
}

#[test]
fn cancelled_deletion_restores_what_is_not_removed_yet() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    store_in_all_forms(&mut process, &mut files);
    let id = hide(&mut process, "password", ALL);
    assert_eq!(split(&process).0, 0);
    // The first segment loses its secrets, the others no longer do.
    while list(&process)[0].rows == 0 {
        assert_eq!(process.flusher.step(), Step::Worked);
    }
    let removed = list(&process)[0].rows as usize;
    assert!((1..51).contains(&removed), "{removed}");
    let reply = request_cancellation(&process.store.shared, id).unwrap().reply;
    assert!(process.run());
    assert_eq!((reply.try_recv(), split(&process)), (Ok(1), (51 - removed, 102)));
    let entry = list(&process).remove(0);
    assert!(entry.is_cancelled && entry.done_ns.is_some() && entry.query.is_none(), "{entry:?}");
    assert_eq!((entry.rows as usize, entry.segments_left), (removed, 0));
    assert_eq!(process.store.metrics().deletions_pending, 0);
    let is_manifest = |path: &&std::path::PathBuf| path.to_string_lossy().contains("MANIFEST");
    let manifests: Vec<_> = disk.names().iter().filter(is_manifest).cloned().collect();
    assert!(!manifests.iter().any(|path| has_text(&disk, path, "password")), "query forgotten");
    // Cancelling again changes nothing; a deletion that is done or unknown cannot be cancelled.
    let again = request_cancellation(&process.store.shared, id).unwrap().reply;
    let done = hide(&mut process, "hunter50", ALL);
    assert!(process.run() && again.try_recv() == Ok(1));
    let cancel = |id| request_cancellation(&process.store.shared, id).unwrap_err();
    assert_eq!((cancel(done), cancel(9)), (CancelError::Done(2), CancelError::Unknown(9)));
    drop(process);
    let disk = disk.kill();
    let process = start(&disk, &mut files);
    assert_eq!(list(&process)[1], entry);
    assert_eq!(split(&process), (51 - removed - 1, 102));
}

/// The result of a cancellation, once it was requested.
type LaterReply = Arc<Mutex<Option<PendingReply>>>;

/// Cancels the deletion as soon as the next segment file gets its final name.
fn cancel_after_a_piece(disk: &FaultyDisk, process: &Process, id: u64) -> LaterReply {
    let cancelled = LaterReply::default();
    let (shared, pending) = (Arc::downgrade(&process.store.shared), cancelled.clone());
    disk.watch(move |call, path, moment| {
        let is_piece = call == CallKind::Rename && moment == Moment::After;
        let mut pending = pending.lock().unwrap();
        if is_piece && path.to_string_lossy().contains("seg-") && pending.is_none() {
            *pending = shared.upgrade().and_then(|shared| request_cancellation(&shared, id).ok());
        }
    });
    cancelled
}

/// Works until the cancellation was requested; returns the number reported by then.
fn work_until_asked(process: &mut Process, cancelled: &LaterReply) -> Option<u64> {
    while cancelled.lock().unwrap().is_none() {
        assert_eq!(process.flusher.step(), Step::Worked);
    }
    cancelled.lock().unwrap().as_ref()?.reply.try_recv().ok()
}

#[test]
fn cancellation_takes_effect_during_a_rewrite() {
    let (disk, mut files) = stored();
    let disk = disk.kill();
    let mut process = begin(&disk, &mut files);
    process.run_on();
    let (before, known) = (names(&disk, "parquet"), process.store.metrics().segments);
    let id = hide(&mut process, "password", ALL);
    let cancelled = cancel_after_a_piece(&disk, &process, id);
    // No further step is needed, and nothing was lost or left behind.
    assert_eq!(work_until_asked(&mut process, &cancelled), Some(id));
    let entry = list(&process).remove(0);
    assert!(entry.is_cancelled && entry.rows == 0, "{entry:?}");
    assert_eq!((split(&process), names(&disk, "parquet")), ((51, 102), before));
    assert!(process.run());
    let metrics = process.store.metrics();
    assert_eq!((metrics.segments, metrics.deleted_rows, metrics.failures), (known, 0, 0));
}

#[test]
fn cancellation_does_not_stop_another_deletion() {
    let (disk, mut files) = stored();
    let disk = disk.kill();
    let mut process = begin(&disk, &mut files);
    process.run_on();
    hide(&mut process, "password", ALL);
    let other = hide(&mut process, "nothing", ALL);
    let cancelled = cancel_after_a_piece(&disk, &process, other);
    assert_eq!(work_until_asked(&mut process, &cancelled), Some(other));
    let entries = list(&process);
    assert!(entries[0].is_cancelled && !entries[1].is_cancelled && entries[1].rows > 0);
    assert!(process.run());
    assert_eq!((split(&process), list(&process)[1].rows), ((0, 102), 51));
}

#[test]
fn cancellation_does_not_wait_for_a_failing_flush() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    flush_some(&mut process, &mut files);
    let id = hide(&mut process, "password", ALL);
    disk.inject(Fault::new(FaultKind::NoSpace).on(CallKind::Write).path("seg-").forever());
    add_some(&mut process, &mut files);
    process.flush();
    for _ in 0..5 {
        process.flusher.step();
    }
    let pause = process.flusher.step();
    assert!(matches!(pause, Step::Failed(_)) && process.flusher.step() == pause, "{pause:?}");
    // Cancelled during the pause after the failure, which is not cut short.
    let reply = request_cancellation(&process.store.shared, id).unwrap().reply;
    assert_eq!(process.flusher.step(), Step::Worked);
    assert_eq!((reply.try_recv(), split(&process)), (Ok(id), (6, 12)));
    assert_eq!(process.flusher.step(), pause);
    assert!(process.store.metrics().error.is_some());
    // What was cancelled meanwhile does not affect what waits.
    disk.faults().clear();
    process.clock.advance(Duration::from_secs(20));
    process.run_on();
    assert_eq!((split(&process), process.store.metrics().error), ((6, 12), None));
    drop(process);
    let mut process = start(&disk.kill(), &mut files);
    process.run_on();
    assert_eq!((split(&process), list(&process)[0].is_cancelled), ((6, 12), true));
}

#[test]
fn timeout_withdraws_only_its_own_request() {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = start(&disk, &mut files);
    flush_some(&mut process, &mut files);
    let shared = process.store.shared.clone();
    let wait =
        |pending: &PendingReply| pending.wait(&shared, |queue| &mut queue.cancels, Duration::ZERO);
    let id = hide(&mut process, "password", ALL);
    let [first, second, third] = [(); 3].map(|()| request_cancellation(&shared, id).unwrap());
    assert_eq!(wait(&second), Err(NoReply::Withdrawn));
    let begun = shared.queue().cancels.pop();
    assert_eq!(wait(&first), Err(NoReply::Uncertain), "it is being carried out");
    drop(begun);
    assert_eq!(wait(&first), Err(NoReply::Ended));
    assert_eq!(process.flusher.step(), Step::Worked);
    assert_eq!(wait(&third), Ok(id));
    assert!(list(&process)[0].is_cancelled && split(&process) == (3, 6));
    // Two requests for the same deletion are two deletions.
    let [mine, other] = [(); 2].map(|()| delete(&process, "password"));
    let late = mine.wait(&shared, |queue| &mut queue.deletions, Duration::ZERO);
    assert!(process.run());
    assert_eq!((late, other.reply.try_recv()), (Err(NoReply::Withdrawn), Ok(id + 1)));
    assert_eq!((split(&process), list(&process).len()), ((0, 6), 2));
}

#[test]
fn deletion_survives_any_failed_disk_call() {
    let (disk, files) = stored();
    for kind in [FaultKind::NoSpace, FaultKind::Io] {
        for nth in 1.. {
            let (disk, mut files) = (disk.kill(), files.clone());
            let mut process = begin(&disk, &mut files);
            disk.inject(Fault::new(kind).path("store").nth(nth));
            let reply = delete(&process, "password -hunter0").reply;
            process.run_on();
            process.clock.advance(Duration::from_secs(20));
            process.run_on();
            assert_eq!((reply.try_recv(), split(&process)), (Ok(1), (1, 102)), "call {nth}");
            assert!(list(&process)[0].done_ns.is_some(), "call {nth}: {:?}", list(&process));
            assert_eq!(list(&process)[0].rows, 50, "call {nth}");
            assert_eq!(files_with(&disk, &process, "hunter7"), 1, "call {nth}");
            assert!(process.flusher.step() == Step::Idle && disk.flushes_after_failure() == 0);
            if disk.faults().fired() == 0 {
                break;
            }
        }
    }
}

pub(super) fn delete_secrets(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    add_some(process, files);
    let reply = delete(process, "password").reply;
    process.run();
    process.clock.advance(Duration::from_secs(20));
    process.run();
    if reply.try_recv().is_ok() {
        // Once a deletion has been reported as done, it must stay done.
        files.entry(SECRET_STREAM).or_default().is_deletion_confirmed = true;
    }
}

/// After a start either all or none are hidden, and then the deletion is completed.
pub(super) fn check_secrets(
    disk: &FaultyDisk,
    files: &mut BTreeMap<u64, File>,
    nth: u64,
    seed: u64,
) {
    let shown = format!("cut at call {nth}, seed {seed}");
    let is_told = files[&SECRET_STREAM].is_deletion_confirmed;
    let mut process = begin(disk, files);
    let is_hidden = !list(&process).is_empty();
    assert!(is_hidden || !is_told, "{shown}: the deletion was forgotten");
    if is_hidden {
        assert_eq!(split(&process).0, 0, "{shown}: secrets visible after the start");
    }
    for _ in 0..3 {
        process.read_on(files);
        process.clock.advance(Duration::from_secs(61));
    }
    process.run_on();
    let written: u64 = files.values().map(|file| file.written).sum();
    let secrets = files[&SECRET_STREAM].written;
    let want = if is_hidden { 0 } else { secrets };
    assert_eq!(split(&process), (want as usize, (written - secrets) as usize), "{shown}");
    if is_hidden {
        let entry = &list(&process)[0];
        assert!(entry.done_ns.is_some() && entry.rows == secrets, "{shown}: {entry:?}");
        assert_eq!(files_with(disk, &process, "hunter"), 0, "{shown}");
        assert_eq!(process.store.metrics().deleted_rows, secrets, "{shown}");
    }
    assert!(process.store.metrics().damaged.is_empty(), "{shown}");
}

/// Returns a disk with records in all forms of storage, and no running process.
fn stored() -> (FaultyDisk, BTreeMap<u64, File>) {
    let (disk, mut files) = (FaultyDisk::new(), files(3, 0));
    let mut process = begin(&disk, &mut files);
    store_in_all_forms(&mut process, &mut files);
    process.write_journal();
    (disk, files)
}

#[test]
fn deletion_survives_a_crash_anywhere() {
    let (disk, files) = stored();
    let prepared = || {
        let (disk, mut files) = (disk.kill(), files.clone());
        let process = begin(&disk, &mut files);
        (disk, files, process)
    };
    cut_everywhere_and(prepared, delete_secrets, 2, check_secrets);
}

/// The deletion is cancelled when the first segment has lost its secrets.
fn delete_and_cancel(process: &mut Process, files: &mut BTreeMap<u64, File>) {
    let reply = delete(process, "password").reply;
    for _ in 0..100 {
        process.intake.step();
        if list(process).first().is_some_and(|entry| entry.rows > 0) {
            break;
        }
        process.flusher.step();
    }
    if let (Ok(id), Ok(pending)) =
        (reply.try_recv(), request_cancellation(&process.store.shared, 1))
    {
        process.run();
        // Marks that the reply was sent: the remaining secrets then stay for good.
        files.entry(SECRET_STREAM).or_default().is_deletion_confirmed =
            pending.reply.try_recv() == Ok(id);
    }
}

/// The deletion applies completely, or is cancelled and nothing more is removed.
fn check_remaining_records(
    disk: &FaultyDisk,
    files: &mut BTreeMap<u64, File>,
    nth: u64,
    seed: u64,
) {
    let shown = format!("cut at call {nth}, seed {seed}");
    let is_told = files[&SECRET_STREAM].is_deletion_confirmed;
    let mut process = begin(disk, files);
    let is_cancelled = |process: &Process| list(process).first().map(|entry| entry.is_cancelled);
    let known = is_cancelled(&process);
    assert!(!is_told || known == Some(true), "{shown}: the confirmed cancellation was forgotten");
    process.clock.advance(Duration::from_secs(61));
    process.run_on();
    assert_eq!(is_cancelled(&process), known, "{shown}");
    let entry = list(&process).first().cloned();
    let removed = entry.as_ref().map_or(0, |entry| entry.rows);
    assert_eq!(process.store.metrics().deleted_rows, removed, "{shown}");
    assert_eq!(split(&process), (51 - removed as usize, 102), "{shown}");
    let is_whole = removed == 51 || known != Some(false);
    assert!(is_whole && entry.is_none_or(|entry| entry.done_ns.is_some()), "{shown}");
}

#[test]
fn cancelled_deletion_survives_a_crash_anywhere() {
    let (disk, files) = stored();
    let prepared = || {
        let (disk, mut files) = (disk.kill(), files.clone());
        let process = begin(&disk, &mut files);
        (disk, files, process)
    };
    cut_everywhere_and(prepared, delete_and_cancel, 2, check_remaining_records);
}

/// The deletion is cancelled while the first segment is being rewritten.
fn delete_and_cancel_at_work(process: &mut Process, _: &mut BTreeMap<u64, File>) {
    let _pending = delete(process, "password");
    process.run();
}

#[test]
fn deletion_cancelled_during_a_rewrite_survives_a_crash_anywhere() {
    let (disk, files) = stored();
    let prepared = || {
        let (disk, mut files) = (disk.kill(), files.clone());
        let process = begin(&disk, &mut files);
        let _asked = cancel_after_a_piece(&disk, &process, 1);
        (disk, files, process)
    };
    cut_everywhere_and(prepared, delete_and_cancel_at_work, 2, check_remaining_records);
}
