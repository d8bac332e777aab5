//! Readings of books over time and restarts.

use weir_host::RealDisk;
use weir_journal::{CursorLedger, JournalStatus, SourceLedger, WhenFull};
use weir_model::{CursorBook, DiscardReason, SourceBook, SourceId};
use weir_testkit::FakeClock;

use super::*;

/// Books of a source and an output with this many records, of which the output has lost some and
/// discarded one as configured.
fn ledger(records: u64, lost: u64) -> Ledger {
    let mut book = CursorBook { routed: records, ..CursorBook::default() };
    book.discarded[DiscardReason::Rejected as usize] = lost;
    book.discarded[DiscardReason::RateLimit as usize] = 1;
    book.delivered = records - lost - 1;
    let output = CursorLedger {
        name: "hec".to_owned(),
        index: 0,
        active: true,
        when_full: WhenFull::Block,
        book,
        in_flight: 0,
        taken: 0,
        pending_bytes: 0,
        buffer_bytes_max: 1,
        lag_seconds: 0.0,
        blocking: false,
    };
    assert_eq!(output.unaccounted(), 0);
    let book = SourceBook { lines: records, records, ..SourceBook::default() };
    let (id, name) = (SourceId::of("app"), "app".to_owned());
    let source = SourceLedger { id, name, streams: 1, book };
    let journal = JournalStatus::default();
    Ledger { sources: vec![source], cursors: vec![output], journal, opening: false }
}

fn recorder(clock: &FakeClock, dir: &Path) -> Recorder {
    let recorder = Recorder::new(Arc::new(clock.clone()));
    recorder.set_dir(Arc::new(RealDisk), dir);
    recorder
}

fn window(document: &ReliabilityDocument, name: &str, at: usize) -> WindowEntry {
    let entry = document.components.iter().find(|entry| entry.name == name).unwrap();
    entry.windows[at].clone()
}

const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn windows_go_on_over_a_restart_and_tell_for_how_long_weir_ran() {
    let (clock, dir) = (FakeClock::default(), tempfile::tempdir().unwrap());
    let first = recorder(&clock, dir.path());
    assert!(first.document(&ledger(1, 0)).is_none(), "nothing was read yet");
    first.record(&ledger(1, 0));
    clock.advance(MINUTE);
    first.record(&ledger(601, 0));
    let since = first.document(&ledger(601, 0)).unwrap().recorded_since;
    drop(first);

    // Down for ten minutes.
    clock.advance(10 * MINUTE);
    let second = recorder(&clock, dir.path());
    second.record(&ledger(601, 0));
    clock.advance(MINUTE);
    second.record(&ledger(1201, 6));
    clock.advance(MINUTE / 2);
    let document = second.document(&ledger(1501, 6)).unwrap();
    assert_eq!((document.recorded_since, document.left_out, document.problem), (since, 0, None));
    let document = second.document(&ledger(1501, 6)).unwrap();
    let hour = window(&document, "hec", 0);
    let wanted = DeliveryCounts { received: 1500, delivered: 1494, lost: 6, discarded: 0 };
    assert_eq!((hour.window, hour.counts), (Window::Hour, wanted));
    assert_eq!((hour.lossy_minutes, hour.running_seconds), (1, 150.0));
    assert_eq!(hour.arrived, Some(1494.0 / 1500.0));
    assert_eq!(window(&document, "app", 4).counts.delivered, 1500);

    let hec = Component { kind: ComponentKind::Output, name: "hec".to_owned() };
    let steps = second.steps(&hec, Window::Hour, &ledger(1501, 6)).unwrap().steps;
    let found: Vec<_> =
        steps.iter().map(|s| (s.running_seconds, s.counts.received, s.counts.lost)).collect();
    assert_eq!(found, [(60.0, 600, 0), (0.0, 0, 0), (60.0, 600, 6), (30.0, 300, 0)]);

    let all = second.steps(&Component::ALL_SOURCES, Window::Hour, &ledger(1501, 6)).unwrap();
    let received: Vec<u64> = all.steps.iter().map(|step| step.counts.received).collect();
    assert_eq!(received, [600, 0, 600, 300]);
    let rates: Vec<_> =
        all.rates.iter().map(|rate| (rate.from, rate.running_seconds, rate.received)).collect();
    assert_eq!(rates, [(10.0, 150.0, 1500)]);
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_readings_go_on_in_memory() {
    let (clock, dir) = (FakeClock::default(), tempfile::tempdir().unwrap());
    let later = "{\"schema\":\"weir.reliability.v2\"}\n";
    std::fs::write(dir.path().join(FILE), later).unwrap();
    let recorder = recorder(&clock, dir.path());
    recorder.record(&ledger(1, 0));
    clock.advance(MINUTE);
    recorder.record(&ledger(9, 0));
    let document = recorder.document(&ledger(9, 0)).unwrap();
    assert!(document.problem.as_ref().unwrap().contains("weir.reliability.v2"));
    assert_eq!(window(&document, "hec", 0).counts.received, 8);
    assert_eq!(std::fs::read_to_string(dir.path().join(FILE)).unwrap(), later);
}

#[test]
fn a_disk_that_fails_is_reported_until_it_works_again() {
    let (clock, dir) = (FakeClock::default(), tempfile::tempdir().unwrap());
    let inside = dir.path().join("data");
    let recorder = recorder(&clock, &inside);
    recorder.record(&ledger(1, 0));
    assert!(recorder.document(&ledger(1, 0)).unwrap().problem.is_some());
    std::fs::create_dir(&inside).unwrap();
    clock.advance(MINUTE);
    recorder.record(&ledger(3, 0));
    assert_eq!(recorder.document(&ledger(3, 0)).unwrap().problem, None);
    let (_, history) = HistoryFile::open(Arc::new(RealDisk), &inside).unwrap();
    assert_eq!(history.readings().len(), 2, "what could not be written is written now");
}
