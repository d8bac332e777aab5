//! All ways in which a collector can misbehave.

use std::net::TcpListener;
use std::time::Duration;

use weir_measure::load::Content;
use weir_testkit::{
    Acks, Answer, Books, Collector, CollectorConfig, Oracle, PATIENCE, Pki, ServerCertificate,
    Weir, Writing, wait_for,
};

use crate::scene::{OUTPUT, Scene, hec, judge, total_lines};

const LINES: u64 = 20_000;

/// Small requests, so that there are many.
const SMALL: &str = "batch_size = \"64KiB\"\nrequest_timeout = \"1s\"\n";

/// Delivers `LINES` lines through a collector with the given behavior.
fn deliver(collector: &Collector, keys: &str, oracle: &Oracle) -> Books {
    let scene = Scene::new();
    let mut plan = scene.plan();
    plan.lines = Some(LINES);
    plan.streams = ["a", "b", "c"].map(str::to_owned).to_vec();
    let written = [Writing::all(plan)];
    let mut weir = scene.start(&scene.config(collector, keys));
    let books = judge(oracle, &written, collector, &weir);
    weir.stop();
    books
}

/// Makes every second request fail in this way.
fn every_second(collector: &Collector, bad: Answer) {
    collector.answer_with(move |n| if n % 2 == 0 { bad.clone() } else { Answer::Accept });
}

#[test]
fn a_collector_that_fails_every_third_request_gets_everything_once() {
    let collector = Collector::start();
    collector.answer_with(|n| if n % 3 == 2 { Answer::status(503) } else { Answer::Accept });
    let books = deliver(&collector, SMALL, &Oracle::strict(OUTPUT));
    assert_eq!(collector.tally().duplicates(), 0);
    assert!(books.resent(OUTPUT) > 0, "{books}");
}

#[test]
fn answers_that_ask_to_come_again_are_obeyed_and_nothing_is_lost() {
    for bad in [
        Answer::status(500),
        Answer::status(503),
        Answer::status_retry_after(429, "0"),
        Answer::CloseBeforeReading,
        Answer::CloseAfterReading,
        Answer::Reset,
        Answer::NotHttp,
    ] {
        println!("{bad:?}");
        let collector = Collector::start();
        every_second(&collector, bad);
        deliver(&collector, SMALL, &Oracle::strict(OUTPUT));
        assert_eq!(collector.tally().duplicates(), 0);
    }
}

#[test]
fn a_request_that_is_never_answered_is_sent_again_after_its_deadline() {
    for bad in [Answer::Hang, Answer::HangBeforeReading] {
        let collector = Collector::start();
        collector.answer_with(move |n| if n == 3 { bad.clone() } else { Answer::Accept });
        deliver(&collector, SMALL, &Oracle::strict(OUTPUT));
        assert_eq!(collector.tally().duplicates(), 0);
    }
}

#[test]
fn a_peer_that_never_reads_is_disconnected() {
    let mut collector = Collector::start();
    // The kernel accepts connections for a listener that nobody serves, until its buffers are full.
    collector.pause();
    let half_open = TcpListener::bind(collector.address()).unwrap();
    let scene = Scene::new();
    let mut plan = scene.plan();
    plan.lines = Some(LINES);
    let written = [Writing::all(plan)];
    let keys = "compression = \"none\"\nrequest_timeout = \"1s\"\nwindow = \"8MiB\"\n";
    let mut weir = scene.start(&scene.config(&collector, keys));
    let named = wait_for(PATIENCE, || weir.health().to_string().contains("1s").then_some(()));
    assert!(named.is_some(), "health: {}", weir.health());
    let books = weir.wait_books("all was read", PATIENCE, |b| b.records() == LINES);
    assert_eq!((books.delivered(OUTPUT), books.in_flight(OUTPUT)), (0, LINES), "{books}");
    drop(half_open);
    collector.resume();
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    assert_eq!(collector.tally().duplicates(), 0);
    weir.stop();
}

#[test]
fn lost_answers_cost_one_request_each_and_are_counted_as_resent() {
    for lost in [Answer::AcceptThenClose, Answer::AcceptWithGarbage] {
        println!("{lost:?}");
        let collector = Collector::start();
        let script = lost.clone();
        collector
            .answer_with(move |n| if n == 2 || n == 5 { script.clone() } else { Answer::Accept });
        let mut oracle = Oracle::strict(OUTPUT);
        // Two requests of 64 KiB, in events of at least 100 bytes.
        oracle.lost_answers_lines = 2 * 4 * 65_536 / 100;
        let books = deliver(&collector, SMALL, &oracle);
        let copies = collector.tally().duplicates();
        if lost == Answer::AcceptThenClose {
            assert!(copies > 0);
        }
        assert!(books.resent(OUTPUT) >= copies, "{copies} copies, {books}");
    }
}

#[test]
fn a_slow_collector_gets_everything_in_its_own_time() {
    let collector = Collector::start();
    collector.answer(Answer::AcceptSlowly(4 << 20));
    deliver(&collector, "compression = \"none\"\nbatch_size = \"256KiB\"", &Oracle::strict(OUTPUT));
}

#[test]
fn a_request_that_is_too_large_is_cut_in_halves() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseLargerThan(20_000));
    deliver(&collector, "compression = \"none\"\nbatch_size = \"256KiB\"", &Oracle::strict(OUTPUT));
    assert_eq!(collector.tally().duplicates(), 0);
}

#[test]
fn a_record_that_the_collector_refuses_goes_to_the_dead_letter_file_alone() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("/0/77/".to_owned()));
    let books = deliver(&collector, SMALL, &Oracle::strict(OUTPUT));
    assert_eq!(books.dead_lettered(OUTPUT), 3, "one of each stream: {books}");
    assert_eq!(collector.tally().duplicates(), 0);
    assert_eq!(collector.tally().unique(), LINES - 3);
}

#[test]
fn without_a_dead_letter_file_a_refused_record_is_discarded_and_counted() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("/0/77/".to_owned()));
    let keys = SMALL.to_owned() + "dead_letter = false\n";
    let books = deliver(&collector, &keys, &Oracle::strict(OUTPUT));
    assert_eq!((books.discarded(OUTPUT), books.dead_lettered(OUTPUT)), (3, 0));
}

#[test]
fn indexer_acknowledgement_late_or_lost_loses_nothing() {
    for (acks, timeout) in [(Acks::AtPoll(2), "1m"), (Acks::FirstLost(2), "3s")] {
        println!("{acks:?}");
        let collector = Collector::with(CollectorConfig { acks, ..CollectorConfig::default() });
        let keys = format!("{SMALL}indexer_ack = true\nack_timeout = \"{timeout}\"\n");
        // Events that the indexers lost are sent again after those that they have received since.
        let oracle = Oracle { ordered: acks != Acks::FirstLost(2), ..Oracle::strict(OUTPUT) };
        let books = deliver(&collector, &keys, &oracle);
        assert_eq!(books.resent(OUTPUT) > 0, acks == Acks::FirstLost(2), "{books}");
    }
}

#[test]
fn raw_mode_delivers_the_same_lines() {
    let collector = Collector::start();
    deliver(&collector, "mode = \"raw\"\n", &Oracle::strict(OUTPUT));
}

/// Waits until health reports the problem, then ends it and judges the run.
fn trouble_then_cure(collector: &Collector, keys: &str, word: &str, cure: impl FnOnce()) {
    let scene = Scene::new();
    let mut plan = scene.plan();
    plan.lines = Some(1000);
    let written = [Writing::all(plan)];
    let mut weir = Weir::spawn(scene.dir(), &scene.config(collector, keys), &[]);
    weir.wait_log(OUTPUT);
    weir.wait_log(word);
    let ready = weir_testkit::wait_for(PATIENCE, || weir.try_api().then_some(()));
    assert!(ready.is_some(), "{}", weir.log());
    let health = weir.health().to_string();
    assert!(health.contains(word), "health does not contain {word:?}: {health}");
    cure();
    judge(&Oracle::strict(OUTPUT), &written, collector, &weir);
    weir.stop();
}

#[test]
fn a_wrong_token_is_named_and_nothing_is_lost_until_it_is_right() {
    let collector = Collector::start();
    collector.answer(Answer::status(403));
    trouble_then_cure(&collector, "", "403", || collector.answer(Answer::Accept));
    assert_eq!(collector.tally().duplicates(), 0);
}

#[test]
fn records_refused_with_400_as_a_whole_are_isolated_and_kept() {
    let collector = Collector::start();
    // An index that does not exist: HEC refuses every request.
    collector.answer(Answer::Refuse { status: 400, code: 7, retry_after: None });
    let scene = Scene::new();
    let mut plan = scene.plan();
    plan.lines = Some(200);
    let written = Writing::all(plan);
    let weir = scene.start(&scene.config(&collector, SMALL));
    let books = weir.wait_books("all has an end", PATIENCE, |books| {
        books.routed(OUTPUT) == written.lines && books.in_flight(OUTPUT) == 0
            || weir.health().to_string().contains("400")
    });
    books.assert_balanced();
    assert_eq!(books.delivered(OUTPUT), 0);
    assert_eq!(collector.tally().events, 0);
}

fn tls_config(pki: &Pki, kind: ServerCertificate) -> CollectorConfig {
    CollectorConfig { tls: Some(pki.server(kind)), ..CollectorConfig::default() }
}

#[test]
fn tls_with_an_own_authority_delivers() {
    let pki = Pki::new();
    let collector = Collector::with(tls_config(&pki, ServerCertificate::Good));
    let scene = Scene::new();
    let ca = scene.dir().join("ca.pem");
    std::fs::write(&ca, pki.ca_pem()).unwrap();
    let mut plan = scene.plan();
    plan.lines = Some(LINES);
    plan.content = Content::InvalidUtf8;
    let written = [Writing::all(plan)];
    let keys = format!("tls = {{ ca_file = \"{}\" }}\n", ca.display());
    let mut weir = scene.start(&scene.config(&collector, &keys));
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    weir.stop();
}

#[test]
fn a_certificate_that_cannot_be_trusted_is_named_and_nothing_is_sent() {
    let pki = Pki::new();
    for (kind, word) in [
        (ServerCertificate::Expired, "expired"),
        (ServerCertificate::NotYetValid, "not valid yet"),
        (ServerCertificate::WrongName, "name"),
    ] {
        let collector = Collector::with(tls_config(&pki, kind));
        let scene = Scene::new();
        let ca = scene.dir().join("ca.pem");
        std::fs::write(&ca, pki.ca_pem()).unwrap();
        let mut plan = scene.plan();
        plan.lines = Some(100);
        let written = [Writing::all(plan)];
        let keys = format!("tls = {{ ca_file = \"{}\" }}\n", ca.display());
        let weir = scene.start(&scene.config(&collector, &keys));
        let log = weir.wait_log("certificate");
        assert!(log.to_lowercase().contains(word), "{kind:?}: {log}");
        let books = weir.wait_books("all waits", PATIENCE, |b| b.in_flight(OUTPUT) == 100);
        books.assert_balanced();
        assert_eq!(collector.tally().requests, 0, "{kind:?}");
        assert_eq!(total_lines(&written), 100);
    }
}

#[test]
fn two_collectors_get_the_same_lines() {
    let (one, two) = (Collector::start(), Collector::start());
    two.answer(Answer::AcceptAfter(Duration::from_millis(20)));
    let mut scene = Scene::new();
    scene.extra = hec("second", &two, "");
    let mut plan = scene.plan();
    plan.lines = Some(LINES);
    let written = [Writing::all(plan)];
    let mut weir = scene.start(&scene.config(&one, ""));
    judge(&Oracle::strict(OUTPUT), &written, &one, &weir);
    judge(&Oracle::strict("second"), &written, &two, &weir);
    weir.stop();
}
