//! The engine turn by turn: what it does between two looks at changing names.

use std::fs::{rename, write};

use weir_host::{RealClock, RealDisk, RealFileTree};
use weir_journal::{Cursor, CursorSpec, JournalConfig, Outcome, WhenFull};
use weir_testkit::{FakeClock, journal_config};

use super::super::discovery::Nothing;
use super::super::layout::Layout;
use super::super::parked::PARKED_AFTER;
use super::*;
use crate::config::{FileSource, RateLimit};
use crate::rule::{Keep, RulePlan, Rules};
use crate::source::tail::test_settings;

/// Number of turns that suffices for anything that waits for nothing.
const TURNS: usize = 20;

/// Timeout of partial lines, and grace period of rotated files.
const TIMEOUT: Duration = Duration::from_millis(100);

/// A directory with `logs`, and a journal next to it.
struct World {
    home: tempfile::TempDir,
    clock: FakeClock,
}

fn cursor_spec(name: &str) -> CursorSpec {
    CursorSpec {
        name: name.into(),
        when_full: WhenFull::Block,
        buffer_bytes_max: 1 << 30,
        window_bytes: 16 << 20,
    }
}

/// Everything that runs until a restart.
struct Run {
    engine: Engine,
    cursor: Cursor,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("logs")).unwrap();
        Self { home, clock: FakeClock::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn start(&self, rate_limit: Option<RateLimit>) -> Run {
        self.start_with("app.log*", rate_limit)
    }

    fn start_with(&self, include: &str, rate_limit: Option<RateLimit>) -> Run {
        let config = JournalConfig {
            ring_bytes: 64 << 20,
            segment_bytes: 16 << 20,
            commit_interval: Duration::from_millis(5),
            spill_after: Duration::from_secs(2),
            ..journal_config(self.path("data"))
        };
        let journal =
            Journal::open(config, Arc::new(RealDisk), Arc::new(RealClock::new())).unwrap();
        let cursor = journal.cursor(cursor_spec("out")).unwrap();
        let source = FileSource {
            include: vec![format!("{}/{include}", self.path("logs").display())],
            exclude: Vec::new(),
            format: Format::DockerJson,
            tail: TailSettings {
                line_bytes_max: 192 * 1024,
                rescan_interval: Duration::from_mins(10),
                partial_timeout: TIMEOUT,
                rotated_grace: TIMEOUT,
                rate_limit,
                ..test_settings()
            },
        };
        let stats = Arc::new(SourceStats::default());
        let layout = Layout::files(&source, "/".as_ref()).unwrap();
        let discovery = Discovery::new(
            layout,
            crate::source::OwnPaths::default(),
            stats.clone(),
            Arc::new(RealFileTree),
        );
        let parts = Parts {
            name: "app".into(),
            settings: source.tail,
            format: source.format,
            journal: journal.clone(),
            rules: Arc::new(RuleSwitch::new(Rules::to_all(1, [cursor.index()]), 0)),
            clock: Arc::new(self.clock.clone()),
            tree: Arc::new(RealFileTree),
            stats,
            wake: WakeFd::new().unwrap(),
            stop: Arc::default(),
            host: "host".into(),
        };
        let mut engine = Engine::new(parts, discovery);
        engine.start();
        journal.release_unclaimed();
        Run { engine, cursor }
    }
}

impl World {
    /// Runs turns in which time passes: all events have been reported afterwards.
    fn turns(&self, run: &mut Run) {
        for _ in 0..2 * TURNS {
            self.clock.advance(NAMES_PAUSE);
            run.engine.turn();
        }
    }
}

impl Run {
    fn turns(&mut self) {
        for _ in 0..TURNS {
            self.engine.turn();
        }
    }

    /// Returns the bodies received since the last call.
    fn bodies(&mut self) -> Vec<String> {
        let mut bodies = Vec::new();
        while let Some(delivery) = self.cursor.take_blocking(|_| false) {
            let new = delivery.records().map(|(_, r)| r.plain_body().into_owned());
            bodies.extend(new.map(|body| String::from_utf8(body).unwrap()));
            self.cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
        }
        bodies
    }

    fn stop(self) {
        self.engine.parts.journal.flush();
        self.engine.parts.journal.shutdown();
    }
}

/// Encodes a line as docker writes it; without a line feed at its end it is a partial line.
fn docker(log: &str) -> String {
    format!("{{\"log\":\"{log}\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:00Z\"}}\n")
}

#[test]
fn a_line_finds_its_beginning_in_a_file_that_the_last_look_passed_over() {
    let world = World::new();
    write(world.path("aside"), docker("begin ")).unwrap();
    write(world.path("logs/app.log"), docker("end\\n")).unwrap();
    let mut run = world.start(None);
    // Like a file that was rotated while the names were being listed.
    rename(world.path("aside"), world.path("logs/app.log.1")).unwrap();
    run.engine.visit_ready();
    run.turns();
    assert_eq!(run.bodies(), ["begin end"]);
    run.stop();
}

#[test]
fn constantly_changing_names_do_not_block_reading_a_file() {
    let world = World::new();
    write(world.path("logs/app.log"), docker("a line\\n")).unwrap();
    let mut run = world.start(None);
    for n in 0..=LOOKS_MAX {
        write(world.path("logs").join(n.to_string()), "").unwrap();
        run.engine.visit_ready();
    }
    assert_eq!(run.bodies(), ["a line"]);
    run.stop();
}

#[test]
fn a_part_waits_for_the_next_file_as_long_as_that_waits_for_older_ones() {
    let world = World::new();
    let whole: String = (0..3).map(|n| docker(&format!("line {n}\\n"))).collect();
    write(world.path("logs/app.log.2"), whole).unwrap();
    write(world.path("logs/app.log.1"), docker("begin ")).unwrap();
    let mut run = world.start(None);
    run.turns();
    // Nothing of it was delivered.
    run.stop();
    write(world.path("logs/app.log"), docker("end\\n")).unwrap();
    let mut run = world.start(Some(RateLimit { lines_per_second: 1.0, shed: false }));
    run.turns();
    world.clock.advance(TIMEOUT * 3);
    run.turns();
    assert_eq!(run.bodies(), ["line 0"], "the oldest file is not read to its end yet");
    for _ in 0..5 {
        world.clock.advance(Duration::from_secs(1));
        run.turns();
    }
    assert_eq!(run.bodies(), ["line 1", "line 2", "begin end"]);
    run.stop();
}

#[test]
fn a_part_that_was_handed_over_does_not_come_back() {
    let world = World::new();
    write(world.path("logs/app.log.1"), docker("begin ")).unwrap();
    write(world.path("logs/app.log"), docker("end\\n")).unwrap();
    let mut run = world.start(None);
    run.turns();
    let engine = &mut run.engine;
    let keys: Vec<FileKey> = engine.files.keys().copied().collect();
    for key in keys {
        let mut file = engine.files.remove(&key).unwrap();
        engine.rewind(&mut file);
        assert!(!file.has_partials(), "{file:?}");
        engine.files.insert(key, file);
    }
    assert_eq!(run.bodies(), ["begin end"]);
    run.stop();
}

#[test]
fn many_generations_are_begun_one_after_the_other_with_a_few_visits_each() {
    const FILES: usize = 60;
    let world = World::new();
    for n in (1..=FILES).rev() {
        write(world.path(&format!("logs/app.log.{n}")), docker(&format!("file {n}\\n"))).unwrap();
    }
    let mut run = world.start(None);
    let mut visits = 0;
    while !run.engine.ready.is_empty() {
        visits += run.engine.ready.len();
        run.engine.visit_ready();
        run.engine.take_events(run.engine.now());
    }
    let oldest_first: Vec<String> = (1..=FILES).rev().map(|n| format!("file {n}")).collect();
    assert_eq!(run.bodies(), oldest_first);
    assert!(visits < FILES * 8, "{visits} visits to {FILES} files");
    run.stop();
}

#[test]
fn records_that_do_not_fit_in_a_frame_are_read_again_even_where_they_should_be_cut() {
    // Twelve outputs out of many, plus the one that gets every line, and at least half of them for
    // each line: more sets than a frame can name.
    let others: Vec<String> = ('a'..='l').map(String::from).collect();
    let lines: Vec<String> = (1..1 << others.len())
        .filter(|n: &usize| n.count_ones() > 6)
        .map(|n| {
            (0..others.len()).filter(|bit| n >> bit & 1 == 1).map(|bit| &*others[bit]).collect()
        })
        .collect();
    let world = World::new();
    let text: String = lines.iter().map(|line| docker(&format!("{line}\\n"))).collect();
    write(world.path("logs/app.log"), &text).unwrap();
    let mut run = world.start(None);
    let engine = &mut run.engine;
    let cursor = |name: &str| engine.parts.journal.cursor(cursor_spec(name)).unwrap();
    let with_others_before = |name: &String| {
        (0..20).for_each(|n| _ = cursor(&format!("before {name}: {n}")));
        cursor(name)
    };
    let cursors: Vec<Cursor> = others.iter().map(with_others_before).collect();
    let index = |name: &str| {
        others.iter().position(|other| other == name).map_or(0, |at| cursors[at].index())
    };
    let rule = |when: &str, to: &str| RulePlan {
        name: to.to_owned(),
        when: weir_expr::parse(when).unwrap(),
        to: vec![to.to_owned()],
        is_final: false,
        keep: Keep::All,
        actions: Vec::new(),
    };
    let letters = others.iter().map(|name| rule(&format!("/{name}/"), name));
    let plans: Vec<RulePlan> = [rule("*", "out")].into_iter().chain(letters).collect();
    engine.parts.rules.replace(Rules::new(2, &plans, &[], |name| Some(index(name))).unwrap(), 0);

    let key = *engine.files.keys().next().unwrap();
    let mut file = engine.files.remove(&key).unwrap();
    (file.size, file.seen) = (text.len() as u64, text.len() as u64);
    assert!(engine.begin(&mut file));
    engine.set_decoder(&mut file, weir_codec::Format::DockerJson);
    let block = engine.fill(&mut file).unwrap().unwrap();
    let decoder = file.decoder.as_mut().unwrap();
    decoder.decode(&mut engine.builder, block, 0, &mut file.book);
    assert_eq!(engine.builder.record_count(), lines.len());
    assert!(!engine.append(&mut file), "all of it fits in one frame");
    assert_eq!((file.at(), file.book.records), (0, 0), "nothing counts as read");
    engine.files.insert(key, file);
    engine.make_ready(key);
    run.turns();
    assert_eq!(run.bodies(), lines);
    run.stop();
}

#[test]
fn a_file_reusing_the_name_of_an_unopened_one_is_not_a_copy() {
    let world = World::new();
    let log = |name: &str| world.path("logs").join(name);
    let mut run = world.start_with("app.log", None);
    for n in 0..2 {
        write(log("app.log"), docker(&format!("file {n}\\n"))).unwrap();
        if log("app.log.1").exists() {
            rename(log("app.log.1"), log("app.log.2")).unwrap();
        }
        rename(log("app.log"), log("app.log.1")).unwrap();
    }
    run.engine.drain();
    // Between the look and the opening everything moves on.
    let report = run.engine.discovery.look(&Nothing);
    rename(log("app.log.2"), log("app.log.3")).unwrap();
    rename(log("app.log.1"), log("app.log.2")).unwrap();
    write(log("app.log"), docker("file 2\\n")).unwrap();
    rename(log("app.log"), log("app.log.1")).unwrap();
    run.engine.take_in(report);
    // And the events have not been reported yet when the names are looked at again.
    run.engine.look();
    world.turns(&mut run);
    let mut bodies = run.bodies();
    bodies.sort();
    assert_eq!(bodies, ["file 0", "file 1", "file 2"]);
    assert_eq!(run.engine.files_unseen, 0);
    run.stop();
}

#[test]
fn files_whose_names_are_made_anew_between_look_and_kernel_are_counted_each_once() {
    let world = World::new();
    let log = world.path("logs/app.log");
    let mut run = world.start(None);
    write(&log, docker("never seen\\n")).unwrap();
    run.engine.drain();
    std::fs::remove_file(&log).unwrap();
    write(&log, docker("seen\\n")).unwrap();
    // The kernel has reported the first file, and the look finds the second.
    run.engine.look();
    assert_eq!(run.engine.files_unseen, 0, "it cannot be known yet");
    world.turns(&mut run);
    assert_eq!(run.engine.files_unseen, 1);
    // And once more, gone between look and opening.
    std::fs::remove_file(&log).unwrap();
    write(&log, docker("never read\\n")).unwrap();
    run.engine.drain();
    let report = run.engine.discovery.look(&Nothing);
    std::fs::remove_file(&log).unwrap();
    run.engine.take_in(report);
    world.turns(&mut run);
    assert_eq!(run.engine.files_unseen, 2);
    assert_eq!(run.bodies(), ["seen"]);
    // Neither a second name nor moving away and back makes it another file.
    write(&log, docker("known\\n")).unwrap();
    world.turns(&mut run);
    std::fs::hard_link(&log, world.path("logs/app.log.1")).unwrap();
    world.turns(&mut run);
    std::fs::remove_file(&log).unwrap();
    world.turns(&mut run);
    rename(world.path("logs/app.log.1"), world.path("aside")).unwrap();
    world.turns(&mut run);
    rename(world.path("aside"), &log).unwrap();
    world.turns(&mut run);
    assert_eq!(run.engine.files_unseen, 2);
    assert_eq!(run.bodies(), ["known"]);
    run.stop();
}

#[test]
fn reported_files_are_read_or_counted_before_the_end() {
    let world = World::new();
    let log = |name: &str| world.path("logs").join(name);
    let mut run = world.start(None);
    write(log("app.log"), docker("renamed\\n")).unwrap();
    rename(log("app.log"), log("done")).unwrap();
    write(log("app.log"), docker("removed\\n")).unwrap();
    std::fs::remove_file(log("app.log")).unwrap();
    run.engine.parts.stop.store(true, Ordering::Release);
    run.engine.run(|| ());
    assert_eq!(run.bodies(), ["renamed"]);
    assert_eq!(run.engine.files_unseen, 1);
    run.stop();
}

#[test]
fn the_backlog_is_what_was_in_the_files_at_the_start() {
    let world = World::new();
    let log = |name: &str| world.path("logs").join(name);
    let lines =
        |from: u32, to: u32| -> String { (from..to).map(|n| docker(&format!("{n}\\n"))).collect() };
    write(log("old.log"), lines(0, 3)).unwrap();
    // The writer has not completed its last line.
    write(log("open.log"), lines(3, 4) + "{\"log\":\"").unwrap();
    write(log("empty.log"), "").unwrap();
    let limit = RateLimit { lines_per_second: 1.0, shed: false };
    let mut run = world.start_with("*.log", Some(limit));
    let append = |name: &str, text: String| {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().append(true).open(log(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    };
    let mut seen = Vec::new();
    for n in 10..40 {
        // Neither more lines in these files nor new files are part of it.
        append("old.log", lines(n, n + 1));
        write(log(&format!("{n}.log")), lines(n + 100, n + 110)).unwrap();
        run.turns();
        seen.extend(run.bodies());
        let has_all = ["0", "1", "2", "3"].iter().all(|line| seen.iter().any(|s| s == line));
        assert_eq!(run.engine.with_backlog.is_empty(), has_all, "{seen:?}");
        if has_all {
            assert!(n > 11, "one line a second is read");
            return run.stop();
        }
        world.clock.advance(Duration::from_millis(300));
    }
    panic!("the backlog is never read: {seen:?}");
}

#[test]
fn a_backlog_that_a_full_buffer_holds_up_or_that_is_gone_is_not_read() {
    let world = World::new();
    let log = world.path("logs/app.log");
    let line = docker(&format!("{}\\n", "x".repeat(1000)));
    write(&log, line.repeat(20_000)).unwrap();
    let mut run = world.start(None);
    for _ in 0..TURNS {
        world.turns(&mut run);
    }
    assert!(!run.engine.blocked.is_empty(), "more than the journal takes");
    assert!(!run.engine.with_backlog.is_empty());
    // Truncated: nobody will ever read it.
    write(&log, docker("after\\n")).unwrap();
    run.bodies();
    for _ in 0..TURNS {
        world.clock.advance(RETRY_PAUSE);
        world.turns(&mut run);
        run.bodies();
    }
    assert!(run.engine.with_backlog.is_empty());
    run.stop();
}

#[test]
fn after_a_turn_that_takes_long_an_incomplete_report_is_completed_without_delay() {
    let world = World::new();
    let mut run = world.start(None);
    write(world.path("logs/app.log"), docker("a line\\n")).unwrap();
    std::fs::remove_file(world.path("logs/app.log")).unwrap();
    for _ in 0..TURNS {
        // Until the end of the turn, much longer than the pause after it.
        world.clock.advance(RETRY_PAUSE);
        run.engine.turn();
        world.clock.advance(RETRY_PAUSE);
        let wait = run.engine.next_wait();
        let is_waiting = wait.is_some_and(|wait| wait.timeout > NAMES_PAUSE);
        assert!(!is_waiting || !run.engine.discovery.has_touched());
    }
    assert!(!run.engine.discovery.has_touched());
    assert_eq!(run.engine.files_unseen, 1);
    assert!(run.bodies().is_empty());
    run.stop();
}

impl World {
    /// Lets time pass until quiet files are parked.
    fn rest(&self, run: &mut Run) {
        self.turns(run);
        self.clock.advance(2 * PARKED_AFTER);
        self.turns(run);
    }
}

#[test]
fn a_quiet_file_is_parked_and_continues_where_it_was() {
    let world = World::new();
    let log = |name: &str| world.path("logs").join(name);
    let mut run = world.start(None);
    write(log("app.log"), docker("one\\n")).unwrap();
    world.rest(&mut run);
    let is_parked = |run: &Run| run.engine.files.is_empty() && run.engine.groups.len() == 1;
    assert!(is_parked(&run), "{:?}", run.engine.files);
    assert_eq!(run.bodies(), ["one"]);

    let append = |text: &str| {
        use std::io::Write as _;
        let mut file = std::fs::File::options().append(true).open(log("app.log")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append(&docker("begin "));
    world.clock.advance(TIMEOUT / 2);
    run.turns();
    assert!(!is_parked(&run));
    append(&docker("end\\n"));
    world.rest(&mut run);
    assert!(is_parked(&run));
    assert_eq!(run.bodies(), ["begin end"]);

    // Another content shows when it is looked at, as it would in a file that is not parked.
    let len = std::fs::metadata(log("app.log")).unwrap().len();
    let lines = ["another", "content", "that is", "longer"];
    let other: String = lines.iter().map(|line| docker(&format!("{line}\\n"))).collect();
    assert!(other.len() as u64 > len);
    write(log("app.log"), &other).unwrap();
    world.rest(&mut run);
    assert_eq!(run.bodies(), lines);
    assert!(is_parked(&run));
    run.stop();
}

#[test]
fn parked_files_are_renamed_followed_by_others_and_removed() {
    let world = World::new();
    let log = |name: &str| world.path("logs").join(name);
    let mut run = world.start(None);
    write(log("app.log"), docker("first\\n")).unwrap();
    world.rest(&mut run);
    assert!(run.engine.files.is_empty());
    rename(log("app.log"), log("app.log.1")).unwrap();
    write(log("app.log"), docker("second\\n")).unwrap();
    world.rest(&mut run);
    assert!(run.engine.files.is_empty(), "the finished one is parked too");
    assert_eq!(run.engine.groups.len(), 2);
    std::fs::remove_file(log("app.log.1")).unwrap();
    std::fs::remove_file(log("app.log")).unwrap();
    world.rest(&mut run);
    world.rest(&mut run);
    assert!(run.engine.groups.is_empty(), "{:?}", run.engine.files);
    assert_eq!((run.engine.open_files, run.engine.followed), (0, 0));
    assert_eq!(run.bodies(), ["first", "second"]);
    run.stop();
}

#[test]
fn a_rescan_leaves_parked_files_alone_and_finds_what_happened_unreported() {
    let world = World::new();
    let log = |name: &str| world.path("logs").join(name);
    let mut run = world.start(None);
    write(log("app.log"), docker("one\\n")).unwrap();
    write(log("other.txt"), docker("not collected\\n")).unwrap();
    world.rest(&mut run);
    run.engine.discovery.rescan();
    let known = Followed { inodes: &run.engine.inodes, parked: &run.engine.parked };
    let report = run.engine.discovery.look(&known);
    assert!(report.sightings.is_empty(), "{:?}", report.sightings);
    write(log("app.log"), docker("one\\n") + &docker("two\\n")).unwrap();
    run.engine.discovery.rescan();
    let known = Followed { inodes: &run.engine.inodes, parked: &run.engine.parked };
    let report = run.engine.discovery.look(&known);
    assert_eq!(report.sightings.len(), 1);
    run.engine.take_in(report);
    world.turns(&mut run);
    assert_eq!(run.bodies(), ["one", "two"]);
    run.stop();
}
