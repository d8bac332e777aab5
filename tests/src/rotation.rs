//! Rotation of every kind, under load and unnoticed by weir.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use weir_measure::load::{LineFormat, LoadPlan, RotateWhen, Rotation};
use weir_testkit::{Answer, Books, Collector, Oracle, PATIENCE, Writing};

use crate::scene::{OUTPUT, Scene, at_rest, judge};

const TENTH: RotateWhen = RotateWhen::Every(Duration::from_millis(100));

/// 5 s at 20,000 lines/s with a rotation every 100 ms.
fn ten_times_a_second(plan: LoadPlan, rotation: Rotation) -> LoadPlan {
    let (lines, duration) = (Some(20_000.0), Some(Duration::from_secs(5)));
    LoadPlan { lines_per_second: lines, duration, rotation: Some(rotation), ..plan }
}

fn loses_and_repeats_nothing(plan: LoadPlan, scene: &Scene, format: &str) {
    let collector = Collector::start();
    let config = scene.source(format) + &crate::scene::hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let written = [Writing::all(plan)];
    assert!(written[0].rotations >= 25, "{}", written[0]);
    let books = judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    assert_eq!(collector.tally().duplicates(), 0);
    assert_eq!(books.bytes_abandoned(), 0, "{books}");
    weir.stop();
}

#[test]
fn rotation_by_rename_ten_times_a_second_loses_and_repeats_nothing() {
    let scene = Scene::new();
    let plan = ten_times_a_second(scene.plan(), Rotation::Rename { when: TENTH, keep: 3 });
    loses_and_repeats_nothing(plan, &scene, "docker_json");
}

#[test]
fn rotation_by_kubelet_ten_times_a_second_loses_and_repeats_nothing() {
    let scene = Scene::new();
    let mut plan = ten_times_a_second(scene.plan(), Rotation::Kubelet { when: TENTH, keep: 4 });
    plan.format = LineFormat::Cri;
    loses_and_repeats_nothing(plan, &scene, "cri");
}

/// On a machine that does not run weir for a tenth of a second, a file can be removed before weir
/// has opened it: then nobody can read it, and it is counted.
#[test]
fn a_file_that_is_removed_and_made_anew_ten_times_a_second_loses_nothing_uncounted() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = scene.source("docker_json") + &crate::scene::hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let plan = ten_times_a_second(scene.plan(), Rotation::Rename { when: TENTH, keep: 0 });
    let written = [Writing::all(plan)];
    assert!(written[0].rotations >= 25, "{}", written[0]);
    let last = written[0].lines - 1;
    let arrived = collector.wait(PATIENCE, |t| t.streams.get("app").is_some_and(|s| s.has(last)));
    assert!(arrived, "{}", weir.log());
    let books = at_rest(&weir, OUTPUT);
    let tally = collector.tally();
    let files = &books.source("logs")["files"];
    let unseen = files["files_unseen"].as_u64().unwrap();
    assert_eq!(files["at_least"], unseen > 0, "{books}");
    let mut oracle = Oracle::strict(OUTPUT);
    let runs = oracle.first_missing(&written, &tally, usize::MAX).len() as u64;
    assert!(runs <= unseen, "{runs} files are missing, {books}");
    // All lines of an unseen file are missing.
    let lines_max = 2 * 20_000 / 10 * unseen;
    oracle.lost_at_source = lines_max.min(written[0].lines - tally.unique());
    oracle.check(&written, &tally, &books);
    assert_eq!(tally.duplicates(), 0);
    assert_eq!(books.bytes_abandoned(), 0, "{books}");
    weir.stop();
}

#[test]
fn copytruncate_loses_only_what_was_cut_before_it_could_be_read() {
    let scene = Scene::new();
    let collector = Collector::start();
    // Only the live file: its copy contains the same lines again.
    let source = format!(
        "[source.logs]\ntype = \"file\"\ninclude = [\"{}/app.log\"]\nformat = \"docker_json\"\n\
         read_interval = \"20ms\"\n",
        scene.logs().display()
    );
    let config = source + &crate::scene::hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let mut plan = scene.plan();
    plan.lines_per_second = Some(5000.0);
    plan.duration = Some(Duration::from_secs(3));
    plan.rotation =
        Some(Rotation::CopyTruncate { when: RotateWhen::Every(Duration::from_millis(250)) });
    let written = Writing::all(plan);
    let last = written.lines - 1;
    let arrived = collector.wait(PATIENCE, |t| t.streams.get("app").is_some_and(|s| s.has(last)));
    assert!(arrived, "{}", weir.log());
    let books = at_rest(&weir, OUTPUT);
    let tally = collector.tally();
    let missing = written.lines - tally.unique();
    println!("{missing} of {} lines lost", written.lines);
    assert_eq!(tally.streams["app"].damaged, 0);
    assert_eq!(tally.duplicates(), 0);
    // Lines that were written and truncated between two looks (20 ms apart) cannot be counted.
    assert!(missing < written.lines / 10, "{missing} of {} lines lost, {books}", written.lines);
    assert!(books.bytes_abandoned() < written.bytes / 10, "{books}");
    // The book therefore reports "at least" from then on.
    let says_so = |books: &Books| {
        let files = &books.source("logs")["files"];
        let cut = files["files_cut"].as_u64().unwrap_or(0);
        files["at_least"] == true && (1..=written.rotations).contains(&cut)
    };
    assert!(says_so(&books), "{} rotations, {books}", written.rotations);
    let marker = "weir_source_seen_bytes_at_least{component_id=\"logs\",component_kind=\"source\",\
                  component_type=\"file\"} 1\n";
    assert!(weir.metrics().contains(marker), "{}", weir.metrics());
    weir.stop();
    let mut weir = scene.start(&config);
    assert!(says_so(&weir.books()), "{}", weir.books());
    weir.stop();
}

#[test]
fn rotation_while_weir_is_stopped_loses_and_repeats_nothing() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = scene.config(&collector, "");
    let mut plan = scene.plan();
    plan.rotation = Some(Rotation::Rename { when: RotateWhen::Bytes(200_000), keep: 100 });
    plan.lines = Some(3000);
    let mut written = Vec::new();
    for round in 0..4 {
        plan.first_seq = round * 3000;
        written.push(Writing::all(plan.clone()));
        let mut weir = scene.start(&config);
        judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
        weir.stop();
    }
    assert_eq!(collector.tally().duplicates(), 0);
}

#[test]
fn files_deleted_while_the_collector_is_down_are_delivered_after_a_restart() {
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let config = scene.config(&collector, "");
    let mut weir = scene.start(&config);
    let mut plan = scene.plan();
    plan.lines = Some(5000);
    let path = plan.path("app");
    let written = [Writing::all(plan)];
    weir.wait_books("all was read", PATIENCE, |books| books.records() == 5000);
    std::fs::remove_file(path).unwrap();
    // A graceful stop has time to save what no file contains any more.
    weir.stop();
    collector.answer(Answer::Accept);
    let weir = scene.start(&config);
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
}

#[test]
fn what_happens_while_weir_is_held_is_delivered_or_counted_to_the_last_file() {
    const FILES: usize = 200;
    let scene = Scene::new();
    let collector = Collector::start();
    let mut weir = scene.start(&scene.config(&collector, ""));
    // The kernel keeps its events; weir sees nothing before all is over.
    assert!(weir.signal(Signal::STOP));
    let mut plan = scene.plan();
    plan.streams = (0..FILES).map(|n| format!("r{n}")).collect();
    plan.lines = Some(10 * FILES as u64);
    let paths: Vec<PathBuf> = plan.streams.iter().map(|stream| plan.path(stream)).collect();
    let written = [Writing::all(plan)];
    for (n, path) in paths.iter().enumerate() {
        // To names outside the pattern, and some of them twice.
        std::fs::rename(path, scene.logs().join(format!("done-{n}"))).unwrap();
        if n % 3 == 0 {
            let done = scene.logs().join(format!("done-{n}"));
            std::fs::rename(done, scene.logs().join(format!("old-{n}"))).unwrap();
        }
        let gone = scene.logs().join(format!("gone-{}.log", n % 2 * n));
        std::fs::write(&gone, "nobody sees this\n").unwrap();
        if n % 4 == 0 {
            std::fs::rename(gone, scene.dir().join("out-of-reach")).unwrap();
        } else {
            std::fs::remove_file(gone).unwrap();
        }
    }
    assert!(weir.signal(Signal::CONT));
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    let unseen = |books: &Books| books.source("logs")["files"]["files_unseen"].as_u64().unwrap();
    let books = weir.wait_books("all is counted", PATIENCE, |books| unseen(books) == FILES as u64);
    assert_eq!(books.source("logs")["files"]["at_least"], true, "{books}");
    weir.stop();
    assert_eq!(collector.tally().duplicates(), 0);
}
