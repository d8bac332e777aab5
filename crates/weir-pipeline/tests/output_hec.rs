//! The output `splunk_hec` against a real collector with all kinds of behavior.

mod harness;

use std::sync::atomic::Ordering;
use std::time::Duration;

use harness::{DEADLINE, Line, Rig, hec, to_collector};
use weir_model::{DiscardReason, RecordFlags, Resource, Severity};
use weir_pipeline::config::{Compression, HecMode, OutputKind};
use weir_pipeline::output::dead_letter;
use weir_pipeline::stats::get;
use weir_testkit::{
    Answer, CallKind, Collector, CollectorConfig, FailingDisk, Fault, FaultKind, Record,
};

fn keeping_collector() -> Collector {
    Collector::with(CollectorConfig { keep_records: true, ..CollectorConfig::default() })
}

/// Appends three streams of numbered lines.
fn fill(rig: &mut Rig) {
    for stream in 1..=3 {
        rig.append_numbered(stream, 1000, 100);
    }
}

/// Asserts that everything arrived, in order, undamaged, and that the book agrees.
fn assert_delivered(rig: Rig, collector: &Collector) -> u64 {
    let (book, _dir) = rig.finish();
    let tally = collector.tally();
    assert_eq!(tally.unique(), 3000, "lines at the collector");
    for (name, stream) in &tally.streams {
        assert_eq!((stream.damaged, stream.disordered), (0, 0), "{name}");
    }
    assert_eq!((book.book.delivered, book.in_flight), (3000, 0));
    assert_eq!((book.book.dead_lettered, book.book.discarded_total()), (0, 0));
    tally.duplicates()
}

#[test]
fn records_arrive_once_and_in_order() {
    for compression in [Compression::None, Compression::Gzip] {
        for mode in [HecMode::Event, HecMode::Raw] {
            let collector = Collector::start();
            let mut rig = to_collector(&collector, |hec| {
                hec.requests.compression = compression;
                hec.mode = mode;
            });
            fill(&mut rig);
            rig.drain();
            assert_eq!(get(&rig.stats.retries), 0, "{}", rig.last_error());
            assert_eq!(assert_delivered(rig, &collector), 0, "{compression:?} {mode:?}");
        }
    }
}

#[test]
fn closing_the_journal_delivers_the_rest() {
    let collector = Collector::start();
    let mut rig = to_collector(&collector, |hec| hec.requests.batch_age = Duration::from_hours(1));
    fill(&mut rig);
    assert_eq!(assert_delivered(rig, &collector), 0);
}

fn event_of<'a>(records: &'a [Record], text: &str) -> &'a Record {
    let found = records.iter().find(|r| String::from_utf8_lossy(&r.text).contains(text));
    found.unwrap_or_else(|| panic!("no event with {text} in {records:#?}"))
}

#[test]
fn an_event_carries_body_time_metadata_and_fields() {
    let collector = keeping_collector();
    let mut rig = to_collector(&collector, |hec| {
        hec.index = Some("main".to_owned());
        hec.sourcetype = Some("app".to_owned());
    });
    let mut special = Line::new("special \u{e9} \"x\"\n\u{1}");
    special.severity = Severity::WARN;
    special.attributes = r#"{"user":"u","n":1,"deep":{"a":[1]},"nothing":null}"#.to_owned();
    special.flags = RecordFlags::STDERR.with(RecordFlags::TRUNCATED);
    let mut escaped = Line::new(r#"escaped \u003cb\u003e \"q\""#);
    escaped.flags = RecordFlags::JSON_ESCAPED;
    let broken = Line::new(b"broken \xff utf8".to_vec());
    let mut broken_escaped = Line::new(b"broken escaped \xff \\n".to_vec());
    broken_escaped.flags = RecordFlags::JSON_ESCAPED;
    rig.append(7, &[special, escaped, broken, broken_escaped, Line::new(""), Line::new(" \t")]);
    let resource = Resource::new()
        .with("com.splunk.index", "other")
        .with("com.splunk.sourcetype", "own")
        .with("com.splunk.source", "here");
    rig.append_with(8, &resource, &[Line::new("own metadata")]);
    let of_syslog = Resource::new().with("host.name", "web-1").with("service.name", "sshd");
    rig.append_with(9, &of_syslog, &[Line::syslog("denied")]);
    rig.drain();
    let records = collector.records();
    assert_eq!(records.len(), 8);

    let special = event_of(&records, "special");
    assert_eq!(special.text, "special \u{e9} \"x\"\n\u{1}".as_bytes());
    assert_eq!(special.time.as_deref(), Some("1700000000.000000001"));
    assert_eq!(special.host.as_deref(), Some("vm"));
    assert_eq!(special.source.as_deref(), Some("/log/7.log"));
    assert_eq!(special.sourcetype.as_deref(), Some("app"));
    assert_eq!(special.index.as_deref(), Some("main"));
    let fields: serde_json::Value = serde_json::from_str(&special.fields).unwrap();
    let want = serde_json::json!({
        "log.file.path": "/log/7.log", "container.id": "abc", "log.iostream": "stderr",
        "severity_text": "WARN", "log.truncated": "true",
        "user": "u", "n": 1, "deep": "{\"a\":[1]}",
    });
    assert_eq!(fields, want);

    assert_eq!(event_of(&records, "escaped <b>").event, br#""escaped \u003cb\u003e \"q\"""#);
    assert_eq!(event_of(&records, "broken \u{fffd} utf8").text, "broken \u{fffd} utf8".as_bytes());
    event_of(&records, "broken escaped \u{fffd} \n");
    assert_eq!(records.iter().filter(|r| r.event.starts_with(b"{\"message\"")).count(), 2);

    let own = event_of(&records, "own metadata");
    assert_eq!(own.index.as_deref(), Some("other"));
    assert_eq!(own.sourcetype.as_deref(), Some("own"));
    assert_eq!(own.source.as_deref(), Some("here"));
    assert!(own.host.is_some(), "this machine's name");

    let syslog = event_of(&records, "denied");
    assert_eq!(syslog.host.as_deref(), Some("web-1"));
    let fields: serde_json::Value = serde_json::from_str(&syslog.fields).unwrap();
    let want = serde_json::json!({
        "service.name": "sshd", "severity_text": "NOTICE",
        "syslog.facility": "auth", "syslog.procid": "4711", "syslog.msgid": "ID47",
    });
    assert_eq!(fields, want);
    let (book, _dir) = rig.finish();
    assert_eq!(book.book.delivered, 8);
}

#[test]
fn raw_lines_keep_their_bytes_and_their_metadata() {
    let collector = keeping_collector();
    let mut rig = to_collector(&collector, |hec| {
        hec.mode = HecMode::Raw;
        hec.sourcetype = Some("a b".to_owned());
    });
    rig.append(1, &[Line::new(b"bytes \xff\xfe".to_vec()), Line::new("two\nlines")]);
    rig.append(2, &[Line::new("another file")]);
    rig.drain();
    let records = collector.records();
    let texts: Vec<&[u8]> = records.iter().map(|r| r.text.as_slice()).collect();
    for want in [&b"bytes \xff\xfe"[..], b"two\\nlines", b"another file"] {
        assert!(texts.contains(&want), "{texts:?}");
    }
    assert_eq!(event_of(&records, "two").source.as_deref(), Some("/log/1.log"));
    assert_eq!(event_of(&records, "another").source.as_deref(), Some("/log/2.log"));
    assert_eq!(event_of(&records, "another").sourcetype.as_deref(), Some("a b"));
    assert_eq!(rig.finish().0.book.delivered, 3);
}

/// Returns all kinds of temporary failures, and whether they can leave duplicates.
fn failures() -> Vec<(Answer, bool)> {
    vec![
        (Answer::status(500), false),
        (Answer::status(503), false),
        (Answer::status(429), false),
        (Answer::status_retry_after(503, "0"), false),
        (Answer::status(403), false),
        (Answer::status(404), false),
        (Answer::NotHttp, false),
        (Answer::CloseBeforeReading, false),
        (Answer::CloseAfterReading, false),
        (Answer::Reset, false),
        (Answer::AcceptThenClose, true),
        (Answer::AcceptWithGarbage, true),
    ]
}

#[test]
fn a_collector_that_fails_every_third_request_gets_everything() {
    for (failure, may_duplicate) in failures() {
        let collector = Collector::start();
        let answer = failure.clone();
        collector.answer_with(move |n| if n % 3 == 1 { answer.clone() } else { Answer::Accept });
        let mut rig = to_collector(&collector, |hec| hec.requests.batch_bytes = 16 * 1024);
        fill(&mut rig);
        rig.drain();
        assert!(get(&rig.stats.retries) > 0, "{failure:?}");
        assert_eq!(rig.stats.errors.last(), None, "{failure:?}: the error has passed");
        assert!(!rig.stats.failing.load(Ordering::Relaxed), "{failure:?}");
        let resent = rig.book().book.resent;
        let duplicates = assert_delivered(rig, &collector);
        assert!(duplicates == 0 || may_duplicate, "{failure:?}: {duplicates} duplicates");
        assert!(resent > 0 && duplicates <= resent, "{failure:?}: {duplicates} of {resent}");
    }
}

#[test]
fn a_collector_that_hangs_is_left_after_the_timeout() {
    for answer in [Answer::Hang, Answer::HangBeforeReading] {
        let collector = Collector::start();
        collector.answer_with(move |n| if n == 0 { answer.clone() } else { Answer::Accept });
        let mut rig = to_collector(&collector, |hec| {
            hec.requests.request_timeout = Duration::from_millis(200);
        });
        fill(&mut rig);
        rig.drain();
        assert!(rig.errors("timeout") >= 1);
        assert_eq!(assert_delivered(rig, &collector), 0);
    }
}

#[test]
fn a_slow_collector_gets_everything_too() {
    let collector = Collector::start();
    collector.answer(Answer::AcceptAfter(Duration::from_millis(30)));
    let mut rig = to_collector(&collector, |hec| hec.requests.batch_bytes = 16 * 1024);
    fill(&mut rig);
    rig.drain();
    assert!(get(&rig.stats.service_ns) >= get(&rig.stats.requests) * 30_000_000);
    assert_eq!(assert_delivered(rig, &collector), 0);
}

#[test]
fn retry_after_is_honored() {
    let collector = Collector::start();
    collector.answer_with(|n| match n {
        0 => Answer::status_retry_after(503, "1"),
        _ => Answer::Accept,
    });
    let mut rig = to_collector(&collector, |_| {});
    let started = std::time::Instant::now();
    fill(&mut rig);
    rig.drain();
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(assert_delivered(rig, &collector), 0);
}

#[test]
fn a_refused_token_is_an_alert_and_nothing_is_dropped() {
    let collector = Collector::start();
    collector.answer(Answer::status(403));
    let mut rig = to_collector(&collector, |_| {});
    fill(&mut rig);
    rig.wait("several attempts", |rig| rig.errors("token") >= 3);
    assert!(rig.last_error().contains("token"), "{}", rig.last_error());
    assert!(rig.stats.failing.load(Ordering::Relaxed));
    assert_eq!(rig.book().in_flight, 3000);
    collector.answer(Answer::Accept);
    rig.drain();
    assert_eq!(assert_delivered(rig, &collector), 0);
}

#[test]
fn a_collector_that_is_down_gets_everything_when_it_is_back() {
    let mut collector = Collector::start();
    collector.pause();
    let mut rig = to_collector(&collector, |_| {});
    fill(&mut rig);
    rig.wait("refused connections", |rig| rig.errors("refused") >= 3);
    assert!(rig.last_error().contains("is the collector running"), "{}", rig.last_error());
    assert_eq!(rig.book().book.resent, 0, "nothing was sent yet");
    collector.resume();
    rig.drain();
    assert_eq!(assert_delivered(rig, &collector), 0);
}

#[test]
fn a_request_that_is_too_large_is_sent_in_parts() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseLargerThan(3000));
    let mut rig = to_collector(&collector, |_| {});
    fill(&mut rig);
    rig.drain();
    assert!(rig.errors("too_large") > 0);
    assert_eq!(assert_delivered(rig, &collector), 0);
}

#[test]
fn only_the_poison_record_becomes_a_dead_letter() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("poison".to_owned()));
    let mut rig = to_collector(&collector, |_| {});
    fill(&mut rig);
    let mut poison = Line::new(b"poison \xff bytes".to_vec());
    poison.severity = Severity::ERROR;
    poison.attributes = r#"{"a":"b"}"#.to_owned();
    rig.append(2, &[Line::numbered("s2", 1000), poison, Line::numbered("s2", 1001)]);
    rig.drain();
    let (book, dir) = rig.finish();
    assert_eq!((book.book.delivered, book.book.dead_lettered), (3002, 1));
    let tally = collector.tally();
    assert_eq!((tally.unique(), tally.duplicates(), tally.foreign), (3002, 0, 0));
    let letters: Vec<_> =
        dead_letter::list(dir.path(), "out").unwrap().map(Result::unwrap).collect();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].record.body, b"poison \xff bytes");
    assert_eq!(letters[0].record.severity_number, Severity::ERROR);
    assert_eq!(letters[0].record.attributes, r#"{"a":"b"}"#);
    assert_eq!(letters[0].record.resource.text("host.name"), Some("vm"));
    assert_eq!(letters[0].code, Some(6));
    assert!(letters[0].reason.contains("Invalid data format"), "{}", letters[0].reason);
}

#[test]
fn many_poison_records_in_a_row_end_quickly_and_exactly() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("poison".to_owned()));
    let mut rig = to_collector(&collector, |_| {});
    let bad: Vec<Line> = (0..200).map(|n| Line::new(format!("poison {n}"))).collect();
    rig.append(1, &bad);
    fill(&mut rig);
    rig.drain();
    let (book, dir) = rig.finish();
    assert_eq!((book.book.delivered, book.book.dead_lettered), (3000, 200));
    assert_eq!(collector.tally().duplicates(), 0);
    assert_eq!(dead_letter::list(dir.path(), "out").unwrap().count(), 200);
}

#[test]
fn refusals_without_a_number_are_narrowed_down() {
    // Refuses a request of two lines and then its first half, without naming the bad one.
    let collector = Collector::start();
    collector.answer_with(|n| match n {
        1 | 2 => Answer::status(400),
        _ => Answer::Accept,
    });
    let mut rig = to_collector(&collector, |_| {});
    rig.append(1, &[Line::numbered("s1", 0)]);
    rig.drain();
    rig.append(1, &[Line::numbered("s1", 1), Line::numbered("s1", 2)]);
    rig.drain();
    let (book, dir) = rig.finish();
    assert_eq!((book.book.delivered, book.book.dead_lettered), (2, 1));
    let letters: Vec<_> =
        dead_letter::list(dir.path(), "out").unwrap().map(Result::unwrap).collect();
    assert!(letters[0].record.body.starts_with(b"weir/s1/0/1/"));
    assert_eq!(collector.tally().unique(), 2);
}

#[test]
fn without_a_dead_letter_file_refused_records_are_counted_as_rejected() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("poison".to_owned()));
    let mut rig = Rig::prepare(
        tempfile::tempdir().unwrap(),
        std::sync::Arc::new(weir_host::RealDisk),
        OutputKind::SplunkHec(Box::new(hec(&collector.url()))),
    );
    rig.plan.dead_letter = false;
    rig.run();
    rig.append(1, &[Line::new("poison"), Line::numbered("s1", 0)]);
    rig.drain();
    let (book, dir) = rig.finish();
    assert_eq!(book.book.discarded[DiscardReason::Rejected as usize], 1);
    assert_eq!(book.book.delivered, 1);
    assert_eq!(dead_letter::outputs(dir.path()).unwrap(), Vec::<String>::new());
}

#[test]
fn dead_letters_can_be_sent_again() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("poison".to_owned()));
    let mut rig = to_collector(&collector, |_| {});
    rig.append(1, &[Line::new("poison 1"), Line::new("good"), Line::new("poison 2")]);
    rig.drain();
    let (plan, context) = (rig.plan.clone(), rig.context());
    let report = dead_letter::resend(&plan, &context, DEADLINE).unwrap();
    assert_eq!((report.delivered, report.refused, report.left), (0, 2, 0));
    assert_eq!(dead_letter::list(&context.data_dir, "out").unwrap().count(), 2);
    collector.answer(Answer::status(503));
    let report = dead_letter::resend(&plan, &context, Duration::from_millis(50)).unwrap();
    assert_eq!((report.delivered, report.refused, report.left), (0, 0, 2));
    collector.answer(Answer::Accept);
    let report = dead_letter::resend(&plan, &context, DEADLINE).unwrap();
    assert_eq!((report.delivered, report.refused, report.left), (2, 0, 0));
    assert_eq!(dead_letter::list(&context.data_dir, "out").unwrap().count(), 0);
    assert_eq!(collector.tally().events, 3);
    assert_eq!(rig.finish().0.book.dead_lettered, 2);
}

#[test]
fn dead_letters_stay_where_they_are_when_the_disk_fails_while_they_are_sent_again() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("poison".to_owned()));
    let disk = std::sync::Arc::new(FailingDisk::over(std::sync::Arc::new(weir_host::RealDisk)));
    let kind = OutputKind::SplunkHec(Box::new(hec(&collector.url())));
    let mut rig = Rig::start_in(tempfile::tempdir().unwrap(), disk.clone(), kind);
    rig.append(1, &[Line::new("poison 1"), Line::new("poison 2")]);
    rig.drain();
    collector.answer(Answer::status(503));
    let (plan, context) = (rig.plan.clone(), rig.context());
    let letters = || dead_letter::list(&context.data_dir, "out").unwrap().count();
    for (call, path) in [
        (CallKind::Rename, ".resending"),
        (CallKind::SyncData, ".resending-next"),
        (CallKind::Rename, ".resending"),
    ] {
        disk.faults().inject(Fault::new(FaultKind::Io).on(call).path(path));
        let failed = dead_letter::resend(&plan, &context, Duration::from_millis(50));
        assert!(failed.is_err(), "{call:?} of {path}: {failed:?}");
        assert_eq!(letters(), 2, "{call:?} of {path}");
    }
    collector.answer(Answer::Accept);
    let report = dead_letter::resend(&plan, &context, DEADLINE).unwrap();
    assert_eq!((report.delivered, report.left, letters()), (2, 0, 0));
    rig.finish();
}

#[test]
fn a_stop_during_an_outage_keeps_everything_for_the_next_start() {
    let mut collector = Collector::start();
    collector.pause();
    let mut rig = to_collector(&collector, |_| {});
    fill(&mut rig);
    rig.wait("an attempt", |rig| rig.errors("refused") >= 1);
    rig.stop(Duration::from_millis(50));
    assert_eq!(rig.book().unaccounted(), 0);
    assert_eq!(rig.book().in_flight, 3000);
    assert_eq!(rig.finish().0.book.delivered, 0);
}

#[test]
fn a_disk_that_does_not_take_a_dead_letter_delays_and_duplicates_nothing() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("poison".to_owned()));
    let disk = FailingDisk::over(std::sync::Arc::new(weir_host::RealDisk));
    for (call, fault) in [
        (CallKind::Open, FaultKind::ReadOnly),
        (CallKind::Write, FaultKind::NoSpace),
        (CallKind::SyncData, FaultKind::Io),
    ] {
        disk.faults().inject(Fault::new(fault).on(call).path(".jsonl"));
    }
    let kind = OutputKind::SplunkHec(Box::new(hec(&collector.url())));
    let disk = std::sync::Arc::new(disk);
    let mut rig = Rig::start_in(tempfile::tempdir().unwrap(), disk, kind);
    rig.append(1, &[Line::numbered("s1", 0), Line::new("poison"), Line::numbered("s1", 1)]);
    rig.drain();
    assert_eq!(rig.errors("dead_letter_file"), 3);
    let (book, dir) = rig.finish();
    assert_eq!((book.book.delivered, book.book.dead_lettered), (2, 1));
    let tally = collector.tally();
    assert_eq!((tally.unique(), tally.duplicates()), (2, 0));
    assert_eq!(dead_letter::list(dir.path(), "out").unwrap().count(), 1);
}
