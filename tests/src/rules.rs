//! Rules in a running weir: replaced while records flow, rejected if invalid, with exact counts.

use std::time::Duration;

use weir_testkit::{Books, Collector, PATIENCE, Tally, Weir, Writing, wait_for};

use crate::scene::{Scene, apply, hec, metric};

/// Returns `default_to` and two outputs to one collector, with these rules.
fn config(scene: &Scene, collector: &Collector, rules: &str) -> String {
    format!(
        "default_to = [\"b\"]\n{}{}{}{rules}",
        scene.source("docker_json"),
        hec("a", collector, ""),
        hec("b", collector, "")
    )
}

/// Returns a rule by which lines whose number ends in one of these digits go to `a`, all others to
/// `b`.
fn split(digits: &str) -> String {
    format!(
        "[[rule]]\nname = \"split\"\nwhen = '/^weir\\/[^\\/]+\\/\\d+\\/\\d*[{digits}]\\//'\nto = [\"a\"]\nfinal = true\n"
    )
}

fn applied(weir: &Weir) -> u64 {
    metric(weir, "weir_config_reloads_total{result=\"applied\"}")
}

/// Asserts that every line arrived once at the collector, and that every book balances.
fn assert_each_once(weir: &Weir, collector: &Collector, lines: u64) {
    let is_there = wait_for(PATIENCE, || collector.look(|t| t.unique() >= lines).then_some(()));
    let seen = collector.look(|t| (t.unique(), t.duplicates(), t.foreign));
    assert!(is_there.is_some(), "{lines} lines, seen {seen:?}: {}\n{}", weir.books(), weir.log());
    let books = at_rest_both(weir);
    assert_eq!(collector.look(|t| (t.unique(), t.duplicates())), (lines, 0), "{books}");
    assert_eq!(books.delivered("a") + books.delivered("b"), lines, "{books}");
    assert_eq!(books.records(), lines, "{books}");
}

fn at_rest_both(weir: &Weir) -> Books {
    let books = weir.wait_books("the books balance at rest", PATIENCE, |books| {
        books.in_flight("a") == 0 && books.in_flight("b") == 0 && books.files_balance()
    });
    books.assert_balanced();
    books
}

#[test]
fn rules_are_exchanged_a_hundred_times_under_load_and_nothing_is_lost_or_repeated() {
    let scene = Scene::new();
    let collector = Collector::start();
    let mut weir = scene.start(&config(&scene, &collector, &split("02468")));
    let mut plan = scene.plan();
    plan.lines_per_second = Some(10_000.0);
    let writing = Writing::start(plan);
    for n in 1..=100 {
        let digits = if n % 2 == 0 { "02468" } else { "13579" };
        apply(&weir, &config(&scene, &collector, &split(digits)));
    }
    let lines = writing.stop().lines;
    assert_each_once(&weir, &collector, lines);
    assert!(metric(&weir, "weir_rules_generation") > 100);
    // Both sets were in force for a time, so both outputs received a part of every digit.
    let hits = metric(&weir, "weir_rule_hits_total{rule=\"split\"}");
    assert_eq!(hits, weir.books().delivered("a"));
    weir.stop();
}

#[test]
fn outputs_come_and_go_by_reload_and_each_gets_its_lines_once() {
    let scene = Scene::new();
    let (a, b) = (Collector::start(), Collector::start());
    let source = scene.source("docker_json");
    let without = format!("default_to = [\"b\"]\n{source}{}", hec("b", &b, ""));
    let with = format!("{without}{}{}", hec("a", &a, ""), split("02468"));
    let mut weir = scene.start(&with);
    let mut plan = scene.plan();
    plan.lines_per_second = Some(5000.0);
    let writing = Writing::start(plan);
    // An output starts with the lines that are read once it exists.
    assert!(a.wait(PATIENCE, |tally| tally.unique() > 0), "{}", weir.books());
    for n in 1..=10 {
        apply(&weir, if n % 2 == 0 { &with } else { &without });
    }
    let lines = writing.stop().lines;
    // Each line was for one of them: a half for `a` while it was there, everything else for `b`.
    let is_there = wait_for(PATIENCE, || {
        (a.look(Tally::unique) + b.look(Tally::unique) >= lines).then_some(())
    });
    let seen = (a.look(Tally::unique), b.look(Tally::unique));
    assert!(is_there.is_some(), "{lines} lines, seen {seen:?}: {}\n{}", weir.books(), weir.log());
    let books = at_rest_both(&weir);
    assert_eq!(books.records(), lines, "{books}");
    assert_eq!((a.look(Tally::duplicates), b.look(Tally::duplicates)), (0, 0), "{books}");
    assert_eq!(books.delivered("a"), a.look(Tally::unique), "{books}");
    assert_eq!(books.delivered("b"), b.look(Tally::unique), "{books}");
    assert_eq!(books.delivered("a") + books.delivered("b"), lines, "{books}");
    weir.stop();
}

#[test]
fn a_wrong_configuration_is_refused_as_a_whole_and_the_old_one_goes_on() {
    let scene = Scene::new();
    let collector = Collector::start();
    let right = config(&scene, &collector, &split("02468"));
    let mut weir = scene.start(&right);
    let wrong = [
        config(&scene, &collector, "[[rule]]\nname = \"x\"\nwhen = '('\nto = [\"a\"]\n"),
        config(&scene, &collector, "[[rule]]\nname = \"x\"\nto = [\"nowhere\"]\n"),
        "not TOML at all".to_owned(),
        String::new(),
    ];
    for (n, wrong) in wrong.iter().enumerate() {
        weir.reload(wrong);
        let refused = "weir_config_reloads_total{result=\"refused\"}";
        let is_refused = wait_for(PATIENCE, || (metric(&weir, refused) > n as u64).then_some(()));
        assert!(is_refused.is_some(), "{}", weir.log());
        assert_eq!(metric(&weir, "weir_config_refused"), 1);
    }
    assert!(weir.log().contains("there is no output"), "{}", weir.log());
    let mut plan = scene.plan();
    plan.lines = Some(2000);
    let lines = Writing::all(plan).lines;
    assert_each_once(&weir, &collector, lines);
    weir.reload(&right);
    let is_right = wait_for(PATIENCE, || (metric(&weir, "weir_config_refused") == 0).then_some(()));
    assert!(is_right.is_some(), "{}", weir.log());
    weir.stop();
}

#[test]
fn a_changed_file_is_noticed_without_a_signal() {
    let scene = Scene::new();
    let collector = Collector::start();
    let mut weir = scene.start(&config(&scene, &collector, &split("0")));
    let file = scene.dir().join("weir.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("[0]", "[1]");
    std::fs::write(&file, text).unwrap();
    let is_noticed = wait_for(Duration::from_secs(30), || (applied(&weir) == 1).then_some(()));
    assert!(is_noticed.is_some(), "{}", weir.log());
    weir.stop();
}
