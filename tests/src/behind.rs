//! A destination that is behind when data that it has not received vanishes: exactly this loss is
//! counted in its own book, and in no other.

use std::time::Duration;

use fastrand::Rng;
use weir_measure::load::{RotateWhen, Rotation};
use weir_testkit::{Answer, Books, Collector, Oracle, PATIENCE, Weir, Writing};

use crate::scene::{OUTPUT, Scene, at_rest, hec, judge, moment};

/// Positions are flushed every 20 ms.
const FLUSHED: Duration = Duration::from_millis(200);

const SECOND: &str = "second";

fn end(weir: &mut Weir, is_killed: bool) {
    if is_killed {
        moment(FLUSHED);
        weir.kill();
    } else {
        weir.stop();
    }
}

fn vanished(books: &Books, output: &str) -> u64 {
    books.output(output)["book"]["discarded"]["vanished"].as_u64().unwrap_or(0)
}

/// Writes 100 lines that both destinations receive, and 5,000 more that only the first one has
/// received when weir ends and the file is removed.
fn loses_what_only_the_first_has(is_killed: bool) {
    let (first, mut second) = (Collector::start(), Collector::start());
    let mut scene = Scene::new();
    scene.extra = hec(SECOND, &second, "");
    let config = scene.config(&first, "");
    let mut weir = scene.start(&config);
    let mut plan = scene.plan();
    plan.lines = Some(100);
    let path = plan.path("app");
    let mut written = vec![Writing::all(plan.clone())];
    weir.wait_books("both have it", PATIENCE, |books| {
        [OUTPUT, SECOND].iter().all(|name| books.delivered(name) == 100)
    });
    second.pause();
    plan.first_seq = 100;
    plan.lines = Some(5000);
    written.push(Writing::all(plan));
    weir.wait_books("the first has the rest", PATIENCE, |books| books.delivered(OUTPUT) == 5100);
    end(&mut weir, is_killed);
    std::fs::remove_file(path).unwrap();
    second.resume();
    for _ in 0..2 {
        let mut weir = scene.start(&config);
        judge(&Oracle::strict(OUTPUT), &written, &first, &weir);
        let books = judge(&Oracle::strict(SECOND), &written, &second, &weir);
        assert_eq!((books.delivered(SECOND), vanished(&books, SECOND)), (100, 5000), "{books}");
        assert_eq!(books.discarded(OUTPUT), 0, "{books}");
        let files = &books.source("logs")["files"];
        assert_eq!((&files["at_least"], &files["files_vanished"]), (&true.into(), &1.into()));
        weir.stop();
    }
}

#[test]
fn a_destination_that_is_behind_at_a_kill_counts_what_vanishes() {
    loses_what_only_the_first_has(true);
}

#[test]
fn a_destination_that_is_behind_at_a_stop_counts_what_vanishes() {
    loses_what_only_the_first_has(false);
}

#[test]
fn a_store_that_is_behind_counts_what_vanishes() {
    let collector = Collector::start();
    let mut scene = Scene::new();
    scene.extra = "[store]\nflush_interval = \"1h\"\n".to_owned();
    let config = scene.config(&collector, "");
    let mut weir = scene.start(&config);
    let mut plan = scene.plan();
    plan.lines = Some(1000);
    let path = plan.path("app");
    let written = [Writing::all(plan)];
    weir.wait_books("the collector has it", PATIENCE, |b| b.delivered(OUTPUT) == 1000);
    end(&mut weir, true);
    std::fs::remove_file(path).unwrap();
    let mut weir = scene.start(&config);
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    let books = weir.books();
    assert_eq!((books.routed("store"), vanished(&books, "store")), (1000, 1000), "{books}");
    weir.stop();
}

#[test]
fn what_was_written_to_a_file_that_is_gone_is_said_to_be_unknown() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = scene.config(&collector, "");
    let mut weir = scene.start(&config);
    let mut plan = scene.plan();
    plan.lines = Some(100);
    let path = plan.path("app");
    let written = Writing::all(plan.clone());
    weir.wait_books("it is delivered", PATIENCE, |books| books.delivered(OUTPUT) == 100);
    weir.stop();
    plan.first_seq = 100;
    plan.lines = Some(1000);
    let _nobody_sees_it = Writing::all(plan);
    std::fs::remove_file(path).unwrap();
    let mut weir = scene.start(&config);
    let books = judge(&Oracle::strict(OUTPUT), &[written], &collector, &weir);
    let files = &books.source("logs")["files"];
    assert_eq!(
        (&files["at_least"], &files["files_vanished"]),
        (&true.into(), &1.into()),
        "{books}"
    );
    assert!(weir.log().contains("removed while weir was not running"), "{}", weir.log());
    weir.stop();
}

/// Compares what one destination received with its book, after crashes: lines that arrived just
/// before a crash, and were truncated before they could be read again, are not counted. Nothing
/// else may differ.
fn compare(collector: &Collector, books: &Books, output: &str) {
    let (arrived, delivered) = (collector.tally().unique(), books.delivered(output));
    assert_eq!(books.routed(output), books.records(), "{output}: {books}");
    assert!(arrived >= delivered, "{output}: {arrived} arrived: {books}");
}

#[test]
fn files_that_are_cut_between_kills_are_in_the_book_of_each_destination() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let (first, second) = (Collector::start(), Collector::start());
    second.answer(Answer::AcceptAfter(Duration::from_millis(80)));
    let mut scene = Scene::new();
    scene.extra = hec(SECOND, &second, "batch_size = \"64KiB\"\n");
    // Without the copies, as with `copytruncate`.
    let source = format!(
        "[source.logs]\ntype = \"file\"\ninclude = [\"{}/app.log\"]\nformat = \"docker_json\"\n",
        scene.logs().display()
    );
    let config = source + &hec(OUTPUT, &first, "") + &scene.extra;
    let mut plan = scene.plan();
    plan.lines_per_second = Some(8000.0);
    plan.rotation =
        Some(Rotation::CopyTruncate { when: RotateWhen::Every(Duration::from_millis(300)) });
    let writing = Writing::start(plan);
    for _ in 0..12 {
        let mut weir = Weir::spawn(scene.dir(), &config, &[]);
        moment(Duration::from_millis(rng.u64(100..700)));
        assert!(!weir.has_ended(), "weir exited unexpectedly:\n{}", weir.log());
        weir.kill();
    }
    second.answer(Answer::Accept);
    let _some_of_it_is_never_seen = writing.stop();
    let mut weir = scene.start(&config);
    at_rest(&weir, OUTPUT);
    let books = at_rest(&weir, SECOND);
    for (collector, output) in [(&first, OUTPUT), (&second, SECOND)] {
        compare(collector, &books, output);
    }
    println!("discarded: {} and {}", books.discarded(OUTPUT), books.discarded(SECOND));
    weir.stop();
}
