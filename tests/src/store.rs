//! SIGKILL while the store ingests, writes and merges: every line is stored exactly once, next to a
//! fast output, a slow one, and with files that disappear.

use std::collections::HashSet;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use weir_measure::load::{RotateWhen, Rotation};
use weir_testkit::{Answer, Books, Collector, PATIENCE, Weir, Writing, wait_for};

use crate::drains::api;
use crate::explore::{said, wait_found};
use crate::scene::{OUTPUT, Scene, at_rest, moment, total_lines};

/// Segments are written once a second, so that kills hit every step of it.
const STORE: &str = "[store]\nenabled = true\nflush_interval = \"1s\"\n";

/// Returns the messages of all stored records.
fn stored(weir: &Weir) -> Vec<String> {
    let export = said(weir, &["store", "export"], &["*", "--since", "1h"]);
    let message = |line: &str| -> String {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["attributes"]["message"].as_str().unwrap().to_owned()
    };
    export.lines().map(message).collect()
}

fn kills(count: u64, seed: u64, keys: &str, answer: &Answer) {
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let mut scene = Scene::new();
    STORE.clone_into(&mut scene.extra);
    let collector = Collector::start();
    collector.answer(answer.clone());
    let config = scene.config(&collector, keys);
    let mut plan = scene.plan();
    plan.lines_per_second = Some(3000.0);
    plan.rotation = Some(Rotation::Rename { when: RotateWhen::Bytes(1 << 20), keep: 10_000 });
    let writing = Writing::start(plan);
    for _ in 0..count {
        let mut weir = Weir::spawn(scene.dir(), &config, &[]);
        moment(Duration::from_millis(rng.u64(100..900)));
        assert!(!weir.has_ended(), "weir exited unexpectedly:\n{}", weir.log());
        weir.kill();
    }
    collector.answer(Answer::Accept);
    let lines = total_lines(&[writing.stop()]);
    let mut weir = scene.start(&config);
    let is_read = || (weir.books().records() >= lines).then_some(());
    assert!(wait_for(PATIENCE, is_read).is_some(), "{lines} lines are not read: {}", weir.books());
    at_rest(&weir, OUTPUT);
    weir.wait_books("everything is stored", PATIENCE, |books| books.in_flight("store") == 0);
    let messages = stored(&weir);
    let distinct: HashSet<&String> = messages.iter().collect();
    assert_eq!(distinct.len() as u64, lines, "lines are missing from the store");
    assert_eq!(messages.len() as u64, lines, "lines are stored twice");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn thirty_kills_beside_a_fast_output_store_every_line_once() {
    kills(30, fastrand::u64(..), "", &Answer::Accept);
}

#[test]
fn thirty_kills_beside_a_slow_output_store_every_line_once() {
    let slow = Answer::AcceptAfter(Duration::from_millis(150));
    kills(30, fastrand::u64(..), "batch_size = \"64KiB\"", &slow);
}

#[test]
fn lines_of_files_that_go_while_they_are_only_in_memory_are_stored_once() {
    let mut scene = Scene::new();
    // Nothing is written for an hour, unless it cannot be read again.
    "[store]\nenabled = true\nflush_interval = \"1h\"\n".clone_into(&mut scene.extra);
    let collector = Collector::start();
    let config = scene.config(&collector, "");
    let is_in_memory = |weir: &Weir, lines: u64| {
        let all_held =
            |books: &Books| books.records() == lines && books.in_flight("store") == lines;
        weir.wait_books("all is in memory", PATIENCE, all_held);
        wait_found(weir, lines);
    };
    let mut weir = scene.start(&config);
    let mut plan = scene.plan();
    plan.lines = Some(2000);
    let live = plan.path("app");
    let rotated = live.with_extension("log.1");
    Writing::all(plan.clone());
    is_in_memory(&weir, 2000);
    // Rotated, and written to: what was in memory is read again from both files.
    std::fs::rename(&live, &rotated).unwrap();
    (plan.first_seq, plan.lines) = (2000, Some(1000));
    Writing::all(plan);
    is_in_memory(&weir, 3000);
    weir.kill();
    let mut weir = scene.start(&config);
    is_in_memory(&weir, 3000);
    // Deleted: it is written to the store now, and after another crash nothing is stored twice.
    std::fs::remove_file(rotated).unwrap();
    std::fs::remove_file(live).unwrap();
    weir.wait_books("everything is stored", PATIENCE, |books| books.in_flight("store") == 0);
    weir.kill();
    let mut weir = scene.start(&config);
    wait_found(&weir, 3000);
    at_rest(&weir, OUTPUT);
    let messages = stored(&weir);
    let distinct: HashSet<&String> = messages.iter().collect();
    assert_eq!((messages.len(), distinct.len()), (3000, 3000));
    weir.books().assert_balanced();
    weir.stop();
}

/// Returns how many records an answer counts, and whether it says that the store is catching up.
fn counted(weir: &Weir) -> (u64, bool) {
    let body = json!({
        "filter": { "query": "*", "from": "now-1h", "to": "now" },
        "compute": [{ "aggregation": "count" }],
    });
    let (status, answer) = api(weir, "POST", "/api/v2/logs/analytics/aggregate", &body);
    assert_eq!(status, 200, "{answer}");
    let count = answer["data"]["buckets"][0]["computes"]["c0"].as_u64().unwrap_or(0);
    let is_partial = answer["meta"]["weir"]["partial"].as_bool().unwrap();
    let mut warnings = answer["meta"]["warnings"].as_array().into_iter().flatten();
    assert_eq!(is_partial, warnings.any(|warning| warning["code"] == "catching_up"), "{answer}");
    (count, is_partial)
}

/// Waits for an answer that is not partial; it must count at least `backlog` records. Returns the
/// number of partial answers before it.
fn wait_caught_up(weir: &Weir, backlog: u64) -> u64 {
    let mut partial = 0;
    let whole = wait_for(PATIENCE, || {
        let (count, is_partial) = counted(weir);
        partial += u64::from(is_partial);
        (!is_partial).then_some(count)
    });
    let count = whole.unwrap_or_else(|| panic!("every answer is partial: {}", weir.books()));
    assert!(count >= backlog, "an answer of {count} records is said to be whole");
    let (_, report) = api(weir, "GET", "/weir/v1/store", &Value::Null);
    assert_eq!(report["has_caught_up"], true, "{report}");
    partial
}

#[test]
fn answers_are_whole_soon_after_a_restart_under_steady_traffic() {
    let scene = Scene::new();
    let config = scene.source("docker_json") + STORE;
    let mut plan = scene.plan();
    plan.lines_per_second = Some(200.0);
    let writing = Writing::start(plan);
    let mut weir = scene.start(&config);
    weir.wait_books("some are stored", PATIENCE, |books| books.delivered("store") > 100);
    weir.kill();
    let before = writing.lines();
    let mut weir = scene.start(&config);
    wait_caught_up(&weir, before);
    let lines = writing.stop().lines;
    assert!(lines > before, "the traffic went on");
    wait_found(&weir, lines);
    at_rest(&weir, "store");
    weir.stop();
}

#[test]
fn answers_are_partial_while_the_backlog_of_a_file_is_read() {
    let mut scene = Scene::new();
    let mut plan = scene.plan();
    plan.lines = Some(900);
    Writing::all(plan.clone());
    // The other source always has something new, and no backlog to speak of.
    std::fs::create_dir(scene.dir().join("live")).unwrap();
    plan.dir = scene.dir().join("live");
    (plan.lines, plan.lines_per_second) = (None, Some(200.0));
    scene.extra = format!(
        "[source.live]\ntype = \"file\"\ninclude = [\"{}/*.log\"]\nformat = \"docker_json\"\n",
        plan.dir.display()
    );
    let writing = Writing::start(plan);
    let limited = scene.source("docker_json") + "rate_limit = 300\n";
    let mut weir = scene.start(&(limited + &scene.extra + STORE));
    let partial = wait_caught_up(&weir, 900);
    assert!(partial > 0, "900 lines at 300 a second take two seconds");
    let lines = 900 + writing.stop().lines;
    wait_found(&weir, lines);
    at_rest(&weir, "store");
    weir.stop();
}
