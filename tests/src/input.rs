//! Realistic input: damaged, oversized, unreadable, in every format.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_measure::load::{Content, LineFormat, LineId, LoadPlan, LoadReport};
use weir_testkit::{Collector, CollectorConfig, Oracle, PATIENCE, Weir, Writing, binary, wait_for};

use crate::scene::{OUTPUT, Scene, at_rest, hec, judge};

fn lines(scene: &Scene, name: &str, format: LineFormat, lines: u64) -> LoadReport {
    let mut plan = scene.plan();
    plan.format = format;
    plan.streams = vec![name.to_owned()];
    plan.lines = Some(lines);
    plan.content = Content::Escapes;
    Writing::all(plan)
}

#[test]
fn the_format_of_each_file_is_found_out() {
    let scene = Scene::new();
    let collector = Collector::start();
    let written = [
        lines(&scene, "docker", LineFormat::Docker, 3000),
        lines(&scene, "cri", LineFormat::Cri, 3000),
        lines(&scene, "raw", LineFormat::Raw, 3000),
        lines(&scene, "json", LineFormat::Json, 3000),
    ];
    let mut weir = scene.start(&(scene.source("auto") + &hec(OUTPUT, &collector, "")));
    let books = judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    assert_eq!(books.source("logs")["book"]["malformed"], 0, "{books}");
    weir.stop();
}

#[test]
fn bytes_that_are_not_utf8_arrive_replaced_and_nothing_else_changes() {
    let scene = Scene::new();
    let collector = Collector::start();
    let mut plan = scene.plan();
    plan.content = Content::InvalidUtf8;
    plan.lines = Some(5000);
    (plan.format, plan.streams) = (LineFormat::Raw, vec!["raw".to_owned()]);
    let raw = Writing::all(plan.clone());
    (plan.format, plan.streams) = (LineFormat::Docker, vec!["docker".to_owned()]);
    let docker = Writing::all(plan.clone());
    (plan.format, plan.streams) = (LineFormat::Cri, vec!["cri".to_owned()]);
    let cri = Writing::all(plan);
    let mut weir = scene.start(&(scene.source("auto") + &hec(OUTPUT, &collector, "")));
    judge(&Oracle::strict(OUTPUT), &[raw, docker, cri], &collector, &weir);
    weir.stop();
}

#[test]
fn malformed_oversized_and_empty_lines_are_kept_cut_and_counted() {
    let scene = Scene::new();
    let config = CollectorConfig { keep_records: true, ..CollectorConfig::default() };
    let collector = Collector::with(config);
    let mut content = Vec::new();
    content.extend_from_slice(b"{\"log\":\"good\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:00Z\",\"attrs\":{\"a\":\"b\"}}\n");
    content.extend_from_slice(b"this is not JSON\n{\"log\":\"cut\n");
    content.extend_from_slice(&[0; 5000]);
    content.extend_from_slice(b"\n");
    content.extend(std::iter::repeat_n(b'x', 1 << 20));
    content.extend_from_slice(
        b"\n{\"log\":\"last\\n\",\"stream\":\"stderr\",\"time\":\"2026-01-01T00:00:00Z\"}\n",
    );
    std::fs::write(scene.logs().join("a.log"), &content).unwrap();
    let mut weir = scene.start(&scene.config(&collector, ""));
    assert!(collector.wait(PATIENCE, |tally| tally.events >= 5), "{}", weir.books());
    let books = at_rest(&weir, OUTPUT);
    let texts: Vec<String> = collector
        .records()
        .iter()
        .map(|record| String::from_utf8_lossy(&record.text).into_owned())
        .collect();
    let starts: Vec<&str> = texts.iter().map(|text| text.get(..4).unwrap_or(text)).collect();
    assert_eq!(starts, ["good", "this", "{\"lo", "xxxx", "last"], "{books}");
    let book = &books.source("logs")["book"];
    assert_eq!(book["malformed"], 3, "{books}");
    assert_eq!(book["truncated"], 1, "{books}");
    assert_eq!(book["discarded"]["nul_bytes"], 1, "{books}");
    let read = book["bytes_read"].as_u64().unwrap() + books.bytes_abandoned();
    assert_eq!(read, content.len() as u64, "{books}");
    weir.stop();
}

#[test]
fn compressed_and_temporary_files_are_left_alone() {
    let scene = Scene::new();
    let collector = Collector::start();
    for name in ["a.log.1.gz", "a.log.2.zst", "a.log.tmp"] {
        std::fs::write(scene.logs().join(name), b"not for reading\n").unwrap();
    }
    let written = [lines(&scene, "a", LineFormat::Docker, 100)];
    let mut weir = scene.start(&scene.config(&collector, ""));
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    weir.stop();
}

#[test]
fn reading_from_the_end_skips_and_counts_what_was_there() {
    let scene = Scene::new();
    let collector = Collector::start();
    let old = lines(&scene, "old", LineFormat::Docker, 500);
    let config =
        scene.source("docker_json") + "read_from = \"end\"\n" + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let skipped = weir.wait_books("the old file is known", PATIENCE, |b| b.bytes_abandoned() > 0);
    assert_eq!(skipped.bytes_abandoned(), old.bytes, "{skipped}");
    let new = lines(&scene, "new", LineFormat::Docker, 500);
    judge(&Oracle::strict(OUTPUT), &[new], &collector, &weir);
    weir.stop();
}

/// Starts weir as a user who may not read everything.
fn start_as_nobody(scene: &Scene, config: &str) -> Weir {
    let path = scene.dir();
    let copy = path.join("weir");
    std::fs::copy(binary(), &copy).unwrap();
    std::fs::create_dir(path.join("data")).unwrap();
    for (path, mode) in
        [(path.to_owned(), 0o777), (path.join("data"), 0o777), (scene.logs(), 0o755)]
    {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let copy = copy.to_str().unwrap();
    let wrapper = as_other(copy);
    let wrapper = if rustix::process::geteuid().is_root() { &wrapper[..] } else { &[] };
    let mut weir = Weir::spawn(scene.dir(), config, wrapper);
    weir.wait_ready();
    weir
}

/// Returns `setpriv ... sh -c SCRIPT COPY BINARY ARGUMENTS`: runs the copy in place of the binary,
/// which may be in a directory that `nobody` cannot enter.
fn as_other(copy: &str) -> [&str; 8] {
    let script = "shift; exec \"$0\" \"$@\"";
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script, copy]
}

#[test]
fn a_file_that_may_not_be_read_is_named_and_read_once_it_may() {
    let scene = Scene::new();
    let collector = Collector::start();
    let open = lines(&scene, "open", LineFormat::Docker, 200);
    let closed = lines(&scene, "closed", LineFormat::Docker, 300);
    let path = scene.logs().join("closed.log");
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let mut weir = start_as_nobody(&scene, &scene.config(&collector, ""));
    assert!(collector.wait(PATIENCE, |tally| tally.unique_of("open") == open.lines));
    weir.wait_log("closed.log");
    let named =
        wait_for(PATIENCE, || weir.health().to_string().contains("closed.log").then_some(()));
    assert!(named.is_some(), "health: {}", weir.health());
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    judge(&Oracle::strict(OUTPUT), &[open, closed], &collector, &weir);
    weir.stop();
}

#[test]
fn a_directory_that_vanishes_and_comes_back_is_followed_again() {
    let scene = Scene::new();
    let collector = Collector::start();
    let mut weir = scene.start(&scene.config(&collector, ""));
    let mut written = Vec::new();
    for round in 0..3 {
        let mut plan = LoadPlan::new(scene.logs().join("app").join("deep"));
        plan.streams = vec![format!("round{round}")];
        plan.lines = Some(500);
        written.push(Writing::all(plan));
        judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
        std::fs::remove_dir_all(scene.logs().join("app")).unwrap();
    }
    assert_eq!(collector.tally().duplicates(), 0);
    weir.stop();
}

#[test]
fn files_with_equal_heads_and_links_to_them_are_told_apart() {
    let scene = Scene::new();
    let config = CollectorConfig { keep_records: true, ..CollectorConfig::default() };
    let collector = Collector::with(config);
    let head = "same head in every file\n".repeat(200);
    for i in 0..5 {
        let content = format!("{head}tail {i}\n");
        std::fs::write(scene.logs().join(format!("{i}.log")), content).unwrap();
    }
    std::os::unix::fs::symlink(scene.logs().join("0.log"), scene.logs().join("link.log")).unwrap();
    let mut weir = scene.start(&(scene.source("raw") + &hec(OUTPUT, &collector, "")));
    assert!(collector.wait(PATIENCE, |tally| tally.events >= 5 * 201));
    let books = at_rest(&weir, OUTPUT);
    assert_eq!(books.delivered(OUTPUT), 5 * 201, "the link is one of the files: {books}");
    weir.stop();
}

#[test]
fn a_rate_limit_sheds_and_counts_or_delays_and_keeps() {
    for (when, shed) in [("discard", true), ("delay", false)] {
        let scene = Scene::new();
        let collector = Collector::start();
        let written = lines(&scene, "app", LineFormat::Docker, 3000);
        let keys = format!("rate_limit = 1000\nwhen_limited = \"{when}\"\n");
        let config = scene.source("docker_json") + &keys + &hec(OUTPUT, &collector, "");
        let mut weir = scene.start(&config);
        let books = weir.wait_books("all was read", PATIENCE, |books| {
            books.records() + books.lines_discarded() == written.lines
                && books.in_flight(OUTPUT) == 0
        });
        at_rest(&weir, OUTPUT);
        let discarded = books.source("logs")["book"]["discarded"]["rate_limit"].as_u64();
        assert_eq!(discarded.is_some_and(|lines| lines > 0), shed, "{books}");
        assert_eq!(collector.tally().unique(), books.records());
        weir.stop();
    }
}

#[test]
fn new_files_are_read_within_a_tenth_of_a_second() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = scene.source("raw").replace("500ms", "1h");
    let config = config + &hec(OUTPUT, &collector, "").replace("50ms", "1ms");
    let mut weir = scene.start(&config);
    let mut times: Vec<Duration> = (0..21)
        .map(|i| {
            let start = Instant::now();
            let name = format!("new{i}");
            let path = scene.logs().join(format!("{name}.log"));
            let mut line = Vec::new();
            LineId::write(&name, 0, 0, b"x", &mut line);
            line.push(b'\n');
            std::fs::write(path, line).unwrap();
            assert!(collector.wait(PATIENCE, |tally| tally.unique_of(&name) == 1), "{name}");
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("median {:?}, worst {:?}", times[10], times[20]);
    assert!(times[10] < Duration::from_millis(100), "{times:?}");
    weir.stop();
}

#[test]
fn a_wrong_key_is_refused_with_its_place_and_the_nearest_key() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = scene.config(&collector, "compresion = \"gzip\"\n");
    let mut weir = Weir::spawn(scene.dir(), &config, &[]);
    let status = weir.wait_end(PATIENCE).expect("weir ends");
    assert_eq!(status.code(), Some(3), "{}", weir.log());
    let log = weir.log();
    assert!(log.contains("compresion") && log.contains("compression"), "{log}");
    assert!(log.contains("weir.toml:"), "the log does not contain the file name: {log}");
    assert!(!Path::new(&weir.data_dir()).exists(), "nothing was created");
}
