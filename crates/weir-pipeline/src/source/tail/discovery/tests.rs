//! Discovery without help from the kernel: refused watches, lost events, link loops.

use std::fs::{create_dir, remove_file, rename, write};

use weir_host::RealFileTree;
use weir_host::file_tree::Inotify;

use super::*;
use crate::config::{FileSource, Format, TailSettings};
use crate::source::tail::test_settings;
use crate::stats::get;

fn discovery(include: &str) -> Discovery {
    let source = FileSource {
        include: vec![include.to_owned()],
        exclude: Vec::new(),
        format: Format::Raw,
        tail: TailSettings { deleted_bytes_max: 0, ..test_settings() },
    };
    let layout = Layout::files(&source, Path::new("/")).unwrap();
    let mut discovery = Discovery::new(
        layout,
        crate::source::OwnPaths::default(),
        Arc::default(),
        Arc::new(RealFileTree),
    );
    discovery.rescan();
    discovery
}

/// Returns the names of the files that a look finds.
fn found(discovery: &mut Discovery) -> Vec<String> {
    let report = discovery.look(&Nothing);
    let mut names: Vec<String> = report
        .sightings
        .iter()
        .map(|s| s.shown.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn directories_that_inotify_refuses_are_counted_and_rescanned() {
    let dir = tempfile::tempdir().unwrap();
    create_dir(dir.path().join("sub")).unwrap();
    write(dir.path().join("sub/a.log"), "").unwrap();
    let mut discovery = discovery(&format!("{}/**/*.log", dir.path().display()));
    discovery.watcher = Box::new(Inotify::refusing());
    assert_eq!(found(&mut discovery), ["a.log"]);
    assert_eq!(get(&discovery.stats.unwatched_dirs), 2);
    write(dir.path().join("b.log"), "").unwrap();
    discovery.drain(&mut Vec::new());
    assert!(!discovery.has_touched(), "no events were reported");
    discovery.rescan_unwatched();
    assert_eq!(found(&mut discovery), ["a.log", "b.log"]);
    let errors = discovery.stats.errors.by_kind();
    assert_eq!(errors, [("inotify", 2)], "logged once per directory");
}

#[test]
fn an_overflow_of_the_kernels_queue_leads_to_a_rescan() {
    let dir = tempfile::tempdir().unwrap();
    let mut discovery = discovery(&format!("{}/*.log", dir.path().display()));
    assert!(found(&mut discovery).is_empty());
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    for _ in 0..=limit / 2 {
        write(dir.path().join("noise"), "").unwrap();
        remove_file(dir.path().join("noise")).unwrap();
    }
    write(dir.path().join("lost.log"), "").unwrap();
    // A drain is bounded; the storm is over after a few.
    for _ in 0..4 {
        discovery.drain(&mut Vec::new());
    }
    let overflows = discovery.stats.errors.by_kind();
    assert_eq!(overflows, [("inotify_overflow", 1)]);
    assert_eq!(found(&mut discovery), ["lost.log"]);
}

#[test]
fn cyclic_links_between_directories_are_not_followed_forever() {
    let dir = tempfile::tempdir().unwrap();
    create_dir(dir.path().join("sub")).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("sub/back")).unwrap();
    write(dir.path().join("a.log"), "").unwrap();
    let mut deep = discovery(&format!("{}/**/*.log", dir.path().display()));
    assert_eq!(found(&mut deep), ["a.log"]);
    let mut flat = discovery(&format!("{}/*/*/*.log", dir.path().display()));
    assert_eq!(found(&mut flat), ["a.log"], "once, by its own path");
}

#[test]
fn foreign_files_are_not_examined() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..10_000 {
        write(dir.path().join(format!("{n}.txt")), "").unwrap();
    }
    let mut discovery = discovery(&format!("{}/*.log", dir.path().display()));
    assert!(found(&mut discovery).is_empty());
    write(dir.path().join("one.log"), "").unwrap();
    discovery.drain(&mut Vec::new());
    assert_eq!(found(&mut discovery), ["one.log"]);
}

/// Does what the engine does with a file that it follows.
fn adopt(discovery: &mut Discovery, sighting: &Sighting) {
    let found = discovery.adopted(&sighting.location, &sighting.shown);
    discovery.found(&sighting.location, Some(found));
}

/// Returns the names of unseen files, once all events were reported.
fn unseen(discovery: &mut Discovery) -> Vec<OsString> {
    discovery.drain(&mut Vec::new());
    let mut names = Vec::new();
    let mut turns = 0;
    while discovery.has_touched() {
        let unseen = discovery.look(&Nothing).unseen;
        names.extend(unseen.iter().map(|path| path.file_name().unwrap().to_owned()));
        discovery.end_turn();
        turns += 1;
        assert!(turns < 100, "it never settles");
    }
    names
}

#[test]
fn a_file_that_goes_before_it_is_found_is_unseen_and_one_that_was_renamed_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut discovery = discovery(&format!("{}/*.log", dir.path().display()));
    assert!(found(&mut discovery).is_empty());
    write(path("a.log"), "").unwrap();
    write(path("b.log"), "").unwrap();
    discovery.drain(&mut Vec::new());
    remove_file(path("a.log")).unwrap();
    rename(path("b.log"), path("b.old")).unwrap();
    // Their creation has been reported, but not yet what became of them.
    let report = discovery.look(&Nothing);
    assert!(report.unseen.is_empty() && report.sightings.is_empty());
    discovery.drain(&mut Vec::new());
    let sighting = discovery.look(&Nothing).sightings.remove(0);
    assert_eq!(sighting.shown, path("b.old"));
    assert_eq!(sighting.expected.as_ref().unwrap().shown, path("b.log"));
    adopt(&mut discovery, &sighting);
    assert_eq!(unseen(&mut discovery), ["a.log"]);
    // It was found; its removal is not reported as unseen.
    remove_file(path("b.old")).unwrap();
    write(path("c.log"), "").unwrap();
    write(path("c.new"), "").unwrap();
    rename(path("c.new"), path("c.log")).unwrap();
    write(path("d.txt"), "").unwrap();
    remove_file(path("d.txt")).unwrap();
    assert_eq!(unseen(&mut discovery), ["c.log"], "another file took its name");
}

#[test]
fn every_file_that_was_made_and_removed_is_counted_however_often_its_name_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut discovery = discovery(&format!("{}/*.log", dir.path().display()));
    assert!(found(&mut discovery).is_empty());
    let mut count = 0;
    for round in 0..50 {
        // More names than are looked at one by one, and one of them repeatedly.
        for n in 0..10 {
            let name = if n % 2 == 0 { "again.log".into() } else { format!("{round}-{n}.log") };
            write(dir.path().join(&name), "").unwrap();
            remove_file(dir.path().join(&name)).unwrap();
        }
        if round % 7 == 0 {
            count += unseen(&mut discovery).len();
        }
    }
    assert_eq!(count + unseen(&mut discovery).len(), 500);
}

#[test]
fn a_file_that_is_moved_out_of_every_watched_directory_is_unseen_after_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let away = tempfile::tempdir().unwrap();
    let mut discovery = discovery(&format!("{}/*.log", dir.path().display()));
    assert!(found(&mut discovery).is_empty());
    write(dir.path().join("a.log"), "").unwrap();
    rename(dir.path().join("a.log"), away.path().join("a.log")).unwrap();
    assert_eq!(unseen(&mut discovery), ["a.log"]);
    // A file that has been found may be moved anywhere.
    write(dir.path().join("b.log"), "").unwrap();
    discovery.drain(&mut Vec::new());
    let sighting = discovery.look(&Nothing).sightings.remove(0);
    adopt(&mut discovery, &sighting);
    rename(dir.path().join("b.log"), away.path().join("b.log")).unwrap();
    assert!(unseen(&mut discovery).is_empty());
}

#[test]
fn renamed_files_are_found_among_more_names_than_are_looked_at_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: String| dir.path().join(name);
    let mut discovery = discovery(&format!("{}/r*.log", dir.path().display()));
    assert!(found(&mut discovery).is_empty());
    for n in 0..500 {
        write(path(format!("r{n}.log")), "").unwrap();
    }
    for n in 0..500 {
        rename(path(format!("r{n}.log")), path(format!("done-{n}"))).unwrap();
    }
    discovery.drain(&mut Vec::new());
    let report = discovery.look(&Nothing);
    assert_eq!(report.sightings.iter().filter(|s| s.expected.is_some()).count(), 500);
    assert!(report.unseen.is_empty());
}
