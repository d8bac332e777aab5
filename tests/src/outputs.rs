//! Outputs that are added, changed and removed while weir runs, and many of them at once.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use weir_testkit::{Answer, Books, Collector, PATIENCE, Tally, Weir, Writing};

use crate::scene::{Scene, apply, hec, metric};

fn file_output(name: &str, path: &Path) -> String {
    format!(
        "[output.{name}]\ntype = \"file\"\npath = \"{}\"\nencoding = \"raw\"\nfsync = \"100ms\"\n",
        path.display()
    )
}

/// Returns the lines of a file; asserts that each occurs once.
fn lines_of(path: &Path) -> HashSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let all: HashSet<String> = text.lines().map(ToOwned::to_owned).collect();
    assert_eq!(all.len(), text.lines().count(), "{} has a line twice", path.display());
    all
}

fn settled(weir: &Weir, lines: u64) -> Books {
    let books = weir.wait_books("everything is read and delivered", PATIENCE, |books| {
        let cursors = books.json()["cursors"].as_array().cloned().unwrap_or_default();
        let is_waiting = cursors.iter().any(|cursor| cursor["in_flight"] != 0);
        books.records() == lines && !is_waiting && books.files_balance()
    });
    books.assert_balanced();
    books
}

#[test]
fn a_hundred_outputs_are_added_and_removed_under_load_and_nothing_else_restarts() {
    let scene = Scene::new();
    let all = scene.dir().join("all.txt");
    let base = scene.source("docker_json") + &file_output("all", &all);
    let path = |n: usize| scene.dir().join(format!("out-{n}.txt"));
    let config = |outputs: &mut dyn Iterator<Item = usize>| {
        outputs.fold(base.clone(), |config, n| config + &file_output(&format!("out-{n}"), &path(n)))
    };
    let mut weir = scene.start(&base);
    let mut plan = scene.plan();
    plan.lines_per_second = Some(5000.0);
    let writing = Writing::start(plan);
    for n in 0..25 {
        // Four are added and four are removed each time.
        apply(&weir, &config(&mut (n * 4..n * 4 + 4)));
    }
    apply(&weir, &base);
    let lines = writing.stop().lines;
    let books = settled(&weir, lines);
    assert_eq!(lines_of(&all).len() as u64, lines, "{books}");
    let mut delivered = 0;
    for n in 0..100 {
        let of_output = books.delivered(&format!("out-{n}"));
        assert_eq!(lines_of(&path(n)).len() as u64, of_output, "output {n}: {books}");
        delivered += of_output;
    }
    assert!(delivered > 0, "{books}");
    assert!(!weir.log().contains("restarting"), "{}", weir.log());
    weir.stop();
}

#[test]
fn an_output_that_is_removed_keeps_what_it_could_not_deliver() {
    let scene = Scene::new();
    let (well, hung) = (Collector::start(), Collector::start());
    let base = scene.source("docker_json") + &hec("well", &well, "");
    let both = base.clone() + &hec("hung", &hung, "");
    let mut weir = scene.start(&both);
    hung.answer(Answer::status(503));
    let mut plan = scene.plan();
    plan.lines = Some(3000);
    let first = Writing::all(plan.clone()).lines;
    weir.wait_books("one output has everything", PATIENCE, |books| {
        books.delivered("well") == first && books.in_flight("hung") == first
    });
    apply(&weir, &base);
    // It is given time to deliver.
    weir.wait_log("output hung was removed before it could deliver 3,000 records");
    let reasons = weir.health()["reasons"].to_string();
    assert!(reasons.contains("no longer configured, with 3,000 records waiting"), "{reasons}");
    plan.streams = vec!["second".to_owned()];
    let second = Writing::all(plan.clone()).lines;
    weir.wait_books("the other one continues", PATIENCE, |books| {
        books.delivered("well") == first + second
    });
    hung.answer(Answer::Accept);
    apply(&weir, &both);
    assert!(hung.wait(PATIENCE, |tally| tally.unique() == first), "{}", weir.books());
    let books = settled(&weir, first + second);
    assert_eq!(books.delivered("hung"), first, "it gets nothing that was read without it: {books}");
    assert!(!weir.log().contains("restarting"), "{}", weir.log());
    weir.stop();
}

#[test]
fn an_output_whose_destination_hangs_is_pointed_elsewhere() {
    let scene = Scene::new();
    let (hung, next) = (Collector::start(), Collector::start());
    let base = scene.source("docker_json");
    let config = |collector: &Collector| base.clone() + &hec("out", collector, "");
    let mut weir = scene.start(&config(&hung));
    let mut plan = scene.plan();
    plan.lines_per_second = Some(5000.0);
    let writing = Writing::start(plan);
    assert!(hung.wait(PATIENCE, |tally| tally.unique() > 1000), "{}", weir.books());
    hung.answer(Answer::status(503));
    apply(&weir, &config(&next));
    assert!(next.wait(PATIENCE, |tally| tally.unique() > 1000), "{}", weir.books());
    let lines = writing.stop().lines;
    let books = settled(&weir, lines);
    let seen = hung.look(Tally::unique) + next.look(Tally::unique);
    assert_eq!(seen, lines, "{books}");
    assert_eq!(books.delivered("out"), lines, "{books}");
    weir.stop();
}

#[test]
fn five_hundred_file_outputs_fit_into_the_default_memory() {
    let scene = Scene::new();
    let paths: Vec<PathBuf> = (0..500).map(|n| scene.dir().join(format!("out-{n}.txt"))).collect();
    let mut config = scene.source("docker_json");
    for (n, path) in paths.iter().enumerate() {
        let _ = write!(config, "{}", file_output(&format!("out-{n}"), path));
    }
    let mut weir = scene.start(&config);
    let mut plan = scene.plan();
    plan.lines = Some(2000);
    let lines = Writing::all(plan).lines;
    let books = settled(&weir, lines);
    for (n, path) in paths.iter().enumerate() {
        assert_eq!(books.delivered(&format!("out-{n}")), lines);
        assert_eq!(lines_of(path).len() as u64, lines);
    }
    let resident_bytes = metric(&weir, "process_resident_memory_bytes");
    assert!(resident_bytes < 512 << 20, "{resident_bytes} bytes");
    let threads = metric(&weir, "process_threads");
    assert!(threads < 100, "{threads} threads");
    weir.stop();
}
