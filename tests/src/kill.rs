//! SIGKILL at random moments.

use std::time::Duration;

use fastrand::Rng;
use weir_measure::load::{RotateWhen, Rotation};
use weir_testkit::{Answer, Books, Collector, Oracle, PATIENCE, Tally, Weir, Writing, wait_for};

use crate::scene::{OUTPUT, Scene, judge, moment};

/// Waits for a moment at which weir has processed the responses for everything that has arrived,
/// and then until its positions are flushed. From then on none of it may arrive again. Returns
/// false if there is no such moment within a second: a slow collector with a backlog is rarely at
/// rest.
fn settle(weir: &Weir, collector: &Collector) -> bool {
    let ends = wait_for(Duration::from_secs(1), || {
        let (before, ends) = collector.look(|tally| (tally.unique(), tally.contiguous_ends()));
        let delivered = weir.books().delivered(OUTPUT);
        // Every counted line has arrived: if the numbers are equal, so are the lines.
        (delivered == before && collector.look(Tally::unique) == before).then_some(ends)
    });
    let Some(ends) = ends else { return false };
    let flushes = |books: &Books| books.json()["journal"]["flushes"].as_u64().unwrap();
    // The flush after the next one begins after this moment.
    let before = flushes(&weir.books());
    weir.wait_books("positions are flushed", PATIENCE, |books| flushes(books) >= before + 2);
    collector.settle(&ends);
    true
}

/// Kills weir repeatedly while a container writes and its log is rotated; then everything must have
/// arrived.
fn kills(count: u64, seed: u64, keys: &str, answer: &Answer) {
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(answer.clone());
    let config = scene.config(&collector, keys);
    let mut plan = scene.plan();
    plan.lines_per_second = Some(6000.0);
    // Nothing is deleted: what is written while weir is down can still be read.
    plan.rotation = Some(Rotation::Rename { when: RotateWhen::Bytes(1 << 20), keep: 10_000 });
    let oracle = Oracle {
        crashes: count,
        body_bytes_min: plan.body_bytes.0 as u64,
        ..Oracle::strict(OUTPUT)
    };
    let writing = Writing::start(plan);
    let mut settled = 0;
    for round in 0..count {
        let mut weir = Weir::spawn(scene.dir(), &config, &[]);
        if round % 10 == 9 {
            weir.wait_ready();
            weir.books().assert_balanced();
            settled += u64::from(settle(&weir, &collector));
        }
        moment(Duration::from_millis(rng.u64(..200)));
        assert!(!weir.has_ended(), "weir exited unexpectedly:\n{}", weir.log());
        weir.kill();
    }
    collector.answer(Answer::Accept);
    let written = [writing.stop()];
    let mut weir = scene.start(&config);
    judge(&oracle, &written, &collector, &weir);
    let tally = collector.tally();
    println!("{} lines, {} copies, {settled} times settled", tally.unique(), tally.duplicates());
    assert!(settled > 0 || *answer != Answer::Accept, "positions were never known to be flushed");
    assert_eq!(tally.repeated_settled(), 0, "lines arrived again after a flush of positions");
    weir.stop();
}

#[test]
fn a_hundred_kills_with_a_fast_collector_lose_nothing() {
    kills(100, fastrand::u64(..), "", &Answer::Accept);
}

#[test]
fn a_hundred_kills_with_a_slow_collector_lose_nothing() {
    let slow = Answer::AcceptAfter(Duration::from_millis(150));
    kills(100, fastrand::u64(..), "batch_size = \"64KiB\"", &slow);
}

#[test]
fn a_graceful_stop_with_the_collector_down_loses_nothing_and_sends_nothing_twice() {
    let scene = Scene::new();
    let mut collector = Collector::start();
    let config = scene.config(&collector, "");
    let mut plan = scene.plan();
    plan.lines = Some(5000);
    let mut written = vec![Writing::all(plan.clone())];
    let mut weir = scene.start(&config);
    assert!(collector.wait(PATIENCE, |tally| tally.unique() == 5000));
    weir.wait_books("all is settled", PATIENCE, |b| b.in_flight(OUTPUT) == 0);
    collector.pause();
    plan.first_seq = 5000;
    written.push(Writing::all(plan));
    weir.wait_books("the rest was read", PATIENCE, |b| b.records() == 10_000);
    weir.stop();
    collector.resume();
    let weir = scene.start(&config);
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
}

#[test]
fn a_kill_repeats_no_more_than_the_window_and_twenty_milliseconds() {
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::AcceptAfter(Duration::from_millis(10)));
    let mut plan = scene.plan();
    plan.body_bytes = (500, 500);
    plan.lines = Some(60_000);
    plan.streams = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let written = [Writing::all(plan)];
    let config = scene.config(&collector, "window = \"1MiB\"\nbatch_size = \"128KiB\"\n");
    for arrived in [10_000, 25_000, 40_000] {
        let mut weir = scene.start(&config);
        assert!(collector.wait(PATIENCE, |tally| tally.unique() >= arrived));
        weir.kill();
    }
    let mut weir = scene.start(&config);
    // 20 ms of responses are two rounds of at most four requests.
    let oracle = Oracle {
        crashes: 3,
        window_bytes: (1 << 20) + 2 * 4 * (128 << 10),
        body_bytes_min: 500,
        ..Oracle::strict(OUTPUT)
    };
    judge(&oracle, &written, &collector, &weir);
    println!("{} copies", collector.tally().duplicates());
    weir.stop();
}
