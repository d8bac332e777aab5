//! Weir's own disk: full, failing, read-only, damaged; and a clock that jumps.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;
use weir_measure::load::LoadReport;
use weir_testkit::{Answer, Books, Collector, Oracle, PATIENCE, Weir, Writing, wait_for};

use crate::scene::{OUTPUT, Scene, judge};

/// A small ring, so that a backlog is written to disk.
pub(crate) const JOURNAL: &str =
    "[journal]\nring = \"4MiB\"\nkeep_free = \"0B\"\nsize_max = \"1GiB\"\n";
const WINDOW: &str = "window = \"1MiB\"\nbatch_size = \"256KiB\"\n";

/// About 40 MB of lines.
fn backlog(scene: &Scene) -> LoadReport {
    let mut plan = scene.plan();
    plan.body_bytes = (800, 1200);
    plan.lines = Some(40_000);
    Writing::all(plan)
}

/// Returns a scene with a small journal, and a collector that accepts nothing yet.
fn backed_up() -> (Scene, Collector) {
    let mut scene = Scene::new();
    scene.extra = JOURNAL.to_owned();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    (scene, collector)
}

/// The collector accepts records again, and weir starts after a kill: asserts that nothing is
/// missing.
fn all_is_delivered_after_a_crash(
    scene: &Scene,
    config: &str,
    collector: &Collector,
    written: &[LoadReport],
) {
    collector.answer(Answer::Accept);
    let mut weir = scene.start(config);
    let oracle = Oracle { crashes: 1, body_bytes_min: 800, ..Oracle::strict(OUTPUT) };
    judge(&oracle, written, collector, &weir);
    weir.stop();
}

/// A small file system at the data directory.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn mount(at: PathBuf, size: &str) -> Self {
        std::fs::create_dir(&at).unwrap();
        let size = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).status();
        assert!(
            mount.is_ok_and(|status| status.success()),
            "this test mounts and must run as root"
        );
        Self(at)
    }

    /// Remounts it read-only (`ro`) or writable (`rw`); no file may be open for writing.
    fn remount(&self, mode: &str) {
        let how = format!("remount,{mode}");
        let status = Command::new("mount").args(["-o", &how]).arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "it can be mounted as {mode}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because the process that uses it may be about to end.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stops_only_reading_until_there_is_space() {
    let (scene, collector) = backed_up();
    let disk = SmallDisk::mount(scene.dir().join("data"), "12m");
    let written = [backlog(&scene)];
    let mut weir = scene.start(&scene.config(&collector, WINDOW));
    let full = wait_for(PATIENCE, || {
        let books = weir.books();
        books.json()["journal"]["disk_error"].is_string().then_some(books)
    });
    let books = full.unwrap_or_else(|| panic!("the disk never filled: {}", weir.books()));
    books.assert_balanced();
    assert!(books.records() < written[0].lines, "not everything fits: {books}");
    let health = weir.health().to_string();
    assert!(health.contains("disk") || health.contains("space"), "health: {health}");
    assert!(!weir.has_ended());
    collector.answer(Answer::Accept);
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    let healed =
        wait_for(PATIENCE, || weir.books().json()["journal"]["disk_error"].is_null().then_some(()));
    assert!(healed.is_some(), "{}", weir.books());
    weir.stop();
    drop(disk);
}

/// An outage of one output fills the journal, which then waits for the store, and the store for
/// space: the journal frees what nothing needs any more, also in the segment that it appends to,
/// and where only the store could free more, its oldest records make room.
#[test]
fn journal_and_store_on_a_small_disk_continue_after_an_outage() {
    for (disk_mib, size_max_mib) in [(24, 16), (34, 32)] {
        let (mut scene, collector) = backed_up();
        let _disk = SmallDisk::mount(scene.dir().join("data"), &format!("{disk_mib}m"));
        scene.extra = format!(
            "[output.other]\ntype = \"blackhole\"\n\
             [store]\nenabled = true\nflush_interval = \"2s\"\nretention_size = \"64MiB\"\n\
             [journal]\nring = \"4MiB\"\nkeep_free = \"1MiB\"\nsize_max = \"{size_max_mib}MiB\"\n"
        );
        let mut plan = scene.plan();
        plan.body_bytes = (500, 700);
        plan.lines = Some(100_000);
        let written = [Writing::all(plan)];
        let mut weir = scene.start(&scene.config(&collector, WINDOW));
        let is_blocked = |weir: &Weir| {
            let health = weir.health().to_string();
            health.contains("buffer is full") || health.contains("cannot write")
        };
        assert!(wait_for(PATIENCE, || is_blocked(&weir).then_some(())).is_some());
        collector.answer(Answer::Accept);
        judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
        weir.stop();
    }
}

#[test]
fn a_disk_that_is_filled_by_others_is_used_again_once_there_is_room() {
    let (scene, collector) = backed_up();
    let disk = SmallDisk::mount(scene.dir().join("data"), "64m");
    let config = scene.config(&collector, WINDOW);
    let mut weir = scene.start(&config);
    let filler = scene.dir().join("data").join("filler");
    // Fails when nothing fits any more.
    let _full = std::fs::write(&filler, vec![1_u8; 80 << 20]);
    let written = [backlog(&scene)];
    let full = wait_for(PATIENCE, || {
        weir.books().json()["journal"]["disk_error"].is_string().then_some(())
    });
    assert!(full.is_some(), "{}", weir.books());
    std::fs::remove_file(&filler).unwrap();
    weir.wait_books("the rest was read", PATIENCE, |b| b.records() == written[0].lines);
    // Killed right after that: only stored data counts.
    weir.kill();
    all_is_delivered_after_a_crash(&scene, &config, &collector, &written);
    drop(disk);
}

/// Writes a backlog to disk and reads it back while system calls fail.
fn failing_calls(inject: &[&str]) {
    let (scene, collector) = backed_up();
    let written = [backlog(&scene)];
    let config = scene.config(&collector, WINDOW);
    let mut wrapper = vec!["strace", "-D", "-f", "-qqq", "-o", "/dev/null"];
    wrapper.extend(inject.iter().flat_map(|what| ["-e", what]));
    let mut weir = Weir::spawn(scene.dir(), &config, &wrapper);
    weir.wait_ready();
    weir.wait_books("all was read", PATIENCE * 2, |books| books.records() == written[0].lines);
    weir.books().assert_balanced();
    collector.answer(Answer::Accept);
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    weir.stop();
}

#[test]
fn a_disk_that_is_full_for_a_while_loses_nothing() {
    let writes = "pwritev,pwrite64,pwritev2";
    failing_calls(&[
        &format!("trace={writes}"),
        &format!("inject={writes}:error=ENOSPC:when=5..30"),
    ]);
}

#[test]
fn a_disk_that_turns_read_only_for_a_while_loses_nothing() {
    let writes = "pwritev,pwrite64,pwritev2,fallocate,ftruncate";
    failing_calls(&[
        &format!("trace={writes}"),
        &format!("inject={writes}:error=EROFS:when=3..20"),
    ]);
}

#[test]
fn a_read_only_data_directory_is_named_and_used_again_once_it_is_writable() {
    let (scene, collector) = backed_up();
    let disk = SmallDisk::mount(scene.dir().join("data"), "256m");
    let written = [backlog(&scene)];
    let config = scene.config(&collector, WINDOW);
    let mut weir = scene.start(&config);
    weir.wait_books("something is on disk", PATIENCE, is_on_disk);
    weir.kill();
    disk.remount("ro");
    let mut weir = Weir::spawn(scene.dir(), &config, &[]);
    let status = weir.wait_end(PATIENCE).expect("weir ends");
    assert_eq!(status.code(), Some(1), "{}", weir.log());
    let log = weir.log();
    assert!(log.contains("data_dir") && log.contains("Read-only file system"), "{log}");
    disk.remount("rw");
    all_is_delivered_after_a_crash(&scene, &config, &collector, &written);
    drop(disk);
}

fn is_on_disk(books: &Books) -> bool {
    books.json()["journal"]["disk_bytes"].as_u64() > Some(4 << 20)
}

/// Sets another version in the first 16 bytes of a journal file, with a correct check. Returns the
/// previous version.
fn set_version(path: &Path, version: u16) -> u16 {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut head = [0; 16];
    file.read_exact_at(&mut head, 0).unwrap();
    let before = u16::from_le_bytes([head[4], head[5]]);
    head[4..6].copy_from_slice(&version.to_le_bytes());
    let check = crc32c::crc32c_append(crc32c::crc32c(&head[..6]), &head[8..]);
    head[6..8].copy_from_slice(&check.to_le_bytes()[..2]);
    file.write_all_at(&head, 0).unwrap();
    before
}

#[test]
fn a_format_of_a_later_release_is_refused_with_its_file_and_nothing_is_touched() {
    let (scene, collector) = backed_up();
    let written = [backlog(&scene)];
    let config = scene.config(&collector, WINDOW);
    let mut weir = scene.start(&config);
    weir.wait_books("something is on disk", PATIENCE, is_on_disk);
    weir.kill();
    let journal: Vec<PathBuf> = files(&weir.data_dir());
    for ending in ["wseg", "wcur"] {
        let path = journal.iter().find(|path| path.extension().is_some_and(|e| e == ending));
        let path = path.unwrap_or_else(|| panic!("no {ending} among {journal:?}"));
        let version = set_version(path, 9);
        let contents = || {
            let mut all = files(&weir.data_dir());
            all.sort();
            all.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
        };
        let before = contents();
        let mut refused = Weir::spawn(scene.dir(), &config, &[]);
        let status = refused.wait_end(PATIENCE).expect("weir ends");
        assert!(!status.success());
        let log = refused.log();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(log.contains(name) && log.contains("version 9"), "{log}");
        assert!(contents() == before, "files of a later release were touched");
        set_version(path, version);
    }
    all_is_delivered_after_a_crash(&scene, &config, &collector, &written);
}

#[test]
fn weir_fails_if_its_data_directory_is_gone_when_it_stops() {
    let (scene, collector) = backed_up();
    backlog(&scene);
    let mut weir = scene.start(&scene.config(&collector, WINDOW));
    weir.wait_books("something is on disk", PATIENCE, is_on_disk);
    std::fs::remove_dir_all(weir.data_dir()).unwrap();
    assert!(weir.signal(Signal::TERM));
    let status = weir.wait_end(PATIENCE).expect("weir ends");
    let log = weir.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        log.contains("the journal could not be written: records that wait may be lost"),
        "{log}"
    );
}

#[test]
fn flushes_that_fail_lose_nothing() {
    failing_calls(&["trace=fdatasync,fsync", "inject=fdatasync:error=EIO:when=3..6"]);
}

#[test]
fn a_data_directory_that_cannot_be_written_is_named() {
    let scene = Scene::new();
    let collector = Collector::start();
    // A file is in place of the directory: this fails for root, too.
    std::fs::write(scene.dir().join("data"), b"").unwrap();
    let mut weir = Weir::spawn(scene.dir(), &scene.config(&collector, ""), &[]);
    let status = weir.wait_end(PATIENCE).expect("weir ends");
    assert!(!status.success());
    assert!(weir.log().contains("data"), "{}", weir.log());
}

#[test]
fn a_second_weir_on_the_same_data_directory_is_refused_with_its_reason() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = scene.config(&collector, "");
    let mut first = scene.start(&config);
    let mut second = Weir::spawn(scene.dir(), &config, &[]);
    let status = second.wait_end(PATIENCE).expect("the second one ends");
    assert!(!status.success());
    assert!(second.log().contains("in use"), "{}", second.log());
    first.stop();
}

/// Returns the files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Flips bytes of a file, truncates it, or overwrites its end with zeros.
fn damage(path: &Path, rng: &mut Rng) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let len = file.metadata().unwrap().len();
    if len == 0 {
        return;
    }
    match rng.u8(..4) {
        0 => file.set_len(rng.u64(..len)).unwrap(),
        1 => {
            let start = rng.u64(..len);
            let zeros = vec![0; (len - start).min(1 << 20) as usize];
            file.write_all_at(&zeros, start).unwrap();
        }
        _ => {
            for _ in 0..rng.usize(1..20) {
                file.write_all_at(&[rng.u8(..)], rng.u64(..len)).unwrap();
            }
        }
    }
}

#[test]
fn damage_in_any_file_of_the_journal_never_stops_weir_and_loses_nothing_that_can_be_read_again() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let (scene, collector) = backed_up();
    let written = [backlog(&scene)];
    let config = scene.config(&collector, WINDOW);
    for round in 0..25 {
        let mut weir = scene.start(&config);
        weir.wait_books("something is on disk", PATIENCE, is_on_disk);
        if round % 5 == 4 {
            // Some is delivered in between, so that the cursor log is not empty.
            let before = collector.tally().unique();
            collector.answer(Answer::Accept);
            assert!(
                collector.wait(PATIENCE, |t| t.unique() > before || t.unique() == written[0].lines)
            );
            collector.answer(Answer::status(503));
        }
        if round % 2 == 0 {
            weir.kill();
        } else {
            weir.stop();
        }
        for path in files(&weir.data_dir()) {
            if rng.bool() {
                damage(&path, &mut rng);
            }
        }
        if collector.tally().unique() == written[0].lines {
            break;
        }
    }
    collector.answer(Answer::Accept);
    let mut weir = scene.start(&config);
    let oracle = Oracle {
        // If a position is damaged, reading starts again at the beginning.
        lost_answers_lines: u64::MAX / 2,
        ordered: false,
        ..Oracle::strict(OUTPUT)
    };
    judge(&oracle, &written, &collector, &weir);
    weir.stop();
}

/// Builds a library that shifts the wall clock by the number of seconds in a file.
fn clock_library(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/clockjump.c");
    let library = dir.join("clockjump.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    assert!(compile.status().is_ok_and(|status| status.success()), "the C compiler works");
    library
}

#[test]
fn a_clock_that_jumps_by_years_neither_stalls_nor_loses_anything() {
    let scene = Scene::new();
    let collector = Collector::start();
    let library = format!("LD_PRELOAD={}", clock_library(scene.dir()).display());
    let offset = scene.dir().join("offset");
    std::fs::write(&offset, "0").unwrap();
    let file = format!("CLOCK_OFFSET_FILE={}", offset.display());
    let wrapper = ["env", library.as_str(), file.as_str()];
    let mut weir = Weir::spawn(scene.dir(), &scene.config(&collector, ""), &wrapper);
    weir.wait_ready();
    let mut plan = scene.plan();
    plan.lines_per_second = Some(5000.0);
    plan.duration = Some(Duration::from_secs(4));
    let writing = Writing::start(plan);
    for seconds in [3600_i64, -3600, 315_000_000, -315_000_000, -2_000_000_000, 0] {
        std::fs::write(&offset, seconds.to_string()).unwrap();
        let before = collector.tally().unique();
        assert!(collector.wait(PATIENCE, |t| t.unique() > before + 1000), "stalled at {seconds}");
    }
    let written = [writing.finish()];
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    weir.stop();
}
