//! The output `file` with fields in its path, and with rotation.

mod harness;

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harness::{Line, Rig};
use weir_host::RealDisk;
use weir_model::{Facility, Resource};
use weir_pipeline::config::{Compression, Encoding, FilePath, OutputKind};
use weir_pipeline::output::dead_letter;
use weir_pipeline::output::{FileOutput, FsyncPolicy, Rotation};
use weir_testkit::{CallKind, FailingDisk, Fault, FaultKind, LineId};

fn output(dir: &Path, template: &str) -> FileOutput {
    FileOutput {
        path: FilePath::parse(&format!("{}/{template}", dir.display())).unwrap(),
        encoding: Encoding::Raw,
        fsync: FsyncPolicy::Always,
        rotation: Rotation::default(),
        open_files_max: 4,
    }
}

/// Starts a rig that writes below a directory `tree` of its own.
fn start(template: &str, change: impl FnOnce(&mut FileOutput)) -> (Rig, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let mut plan = output(&tree, template);
    change(&mut plan);
    (Rig::start_in(dir, Arc::new(RealDisk), OutputKind::File(plan)), tree)
}

fn of_service(name: &str) -> Resource {
    Resource::new().with("host.name", "vm").with("service.name", name)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns every file below a directory, relative to it.
fn tree(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            } else {
                let path = entry.path();
                found.insert(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

/// Returns the uncompressed content of a file.
fn content(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
            plain
        }
        Some("zst") => zstd::decode_all(&bytes[..]).unwrap(),
        _ => bytes,
    }
}

/// Returns the numbers of the lines of a stream in all files of a directory, oldest file first.
fn numbers(dir: &Path, stream: &str) -> Vec<u64> {
    let mut names: Vec<String> = tree(dir).into_iter().collect();
    // The current file, whose name is the shortest, comes last.
    let rank = |name: &String| (name.rsplit('.').next() == Some("log"), name.clone());
    names.sort_by_key(rank);
    let mut found = Vec::new();
    for name in names {
        for line in content(&dir.join(name)).split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let id = LineId::parse(line).unwrap();
            assert!(id.intact);
            if id.stream == stream {
                found.push(id.seq);
            }
        }
    }
    found
}

#[test]
fn records_go_to_the_files_that_they_name() {
    let (mut rig, tree_dir) = start("{host}/{service}-{@user}.log", |_| {});
    rig.append_with(
        1,
        &of_service("web"),
        &[Line::new(r#"{"user":"ann"}"#), Line::new(r#"{"user":"bob"}"#), Line::new("no user")],
    );
    rig.append_with(2, &of_service("db"), &[Line::new(r#"{"user":"ann","n":2}"#)]);
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 4);
    assert_eq!(text(&tree_dir.join("vm/web-ann.log")), "{\"user\":\"ann\"}\n");
    assert_eq!(text(&tree_dir.join("vm/web-bob.log")), "{\"user\":\"bob\"}\n");
    assert_eq!(text(&tree_dir.join("vm/web-_.log")), "no user\n");
    assert_eq!(text(&tree_dir.join("vm/db-ann.log")), "{\"user\":\"ann\",\"n\":2}\n");
}

#[test]
fn records_go_to_the_file_of_the_hour_in_which_they_were_received() {
    let (mut rig, tree_dir) = start("{arrival:%Y%m%d}/{service}-{arrival:%H}.log", |_| {});
    // The first at 22:13:21.
    for (hours, line) in [(0, "first"), (0, "second"), (1, "third"), (2, "fourth")] {
        rig.observed_ns = 1_700_000_001_000_000_000 + hours * 3_600_000_000_000;
        rig.append_with(1, &of_service("web"), &[Line::new(line)]);
        rig.drain();
    }
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 4);
    assert_eq!(text(&tree_dir.join("20231114/web-22.log")), "first\nsecond\n");
    assert_eq!(text(&tree_dir.join("20231114/web-23.log")), "third\n");
    assert_eq!(text(&tree_dir.join("20231115/web-00.log")), "fourth\n");
}

#[test]
fn messages_of_syslog_go_below_the_host_that_they_name() {
    let from = |host: &str, app: &str, peer: &str| {
        Resource::new()
            .with("host.name", host)
            .with("service.name", app)
            .with("network.peer.address", peer)
    };
    let web = from("web-1", "sshd", "10.0.0.7");
    // The same through another relay, and names that must not leave the directory.
    let relayed = from("web-1", "sshd", "10.0.0.8");
    let strange = from("../..", "a/b", "10.0.0.8");
    let mail = |body: &str| Line { facility: Facility::of_code(2), ..Line::syslog(body) };
    let lines = [
        (&web, Line::syslog("one")),
        (&strange, Line::syslog("two")),
        (&relayed, Line::syslog("three")),
        (&web, mail("four")),
        (&strange, mail("five")),
    ];
    for (template, wanted) in [
        (
            "{host}/{app_name}.log",
            &[("web-1/sshd.log", "one\nthree\nfour\n"), (".._../a_b.log", "two\nfive\n")][..],
        ),
        (
            "{host}/{facility}-{procid}.log",
            &[
                ("web-1/auth-4711.log", "one\nthree\n"),
                ("web-1/mail-4711.log", "four\n"),
                (".._../auth-4711.log", "two\n"),
                (".._../mail-4711.log", "five\n"),
            ],
        ),
        (
            "{peer}/{@syslog.appname}.log",
            &[
                ("10.0.0.7/sshd.log", "one\nfour\n"),
                ("10.0.0.8/sshd.log", "three\n"),
                ("10.0.0.8/a_b.log", "two\nfive\n"),
            ],
        ),
    ] {
        // Files are closed and opened again all the time.
        let (mut rig, tree_dir) = start(template, |plan| plan.open_files_max = 1);
        rig.append_from(1, &lines);
        rig.drain();
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 5);
        assert_eq!(tree(&tree_dir).len(), wanted.len(), "{template}");
        for (path, lines) in wanted {
            assert_eq!(text(&tree_dir.join(path)), *lines, "{template}");
        }
    }
}

#[test]
fn the_name_of_the_source_is_a_field() {
    let (mut rig, tree_dir) = start("{source}.log", |_| {});
    rig.append_numbered(1, 10, 10);
    rig.drain();
    let (_ledger, _dir) = rig.finish();
    assert_eq!(tree(&tree_dir), ["test.log".to_owned()].into());
}

#[test]
fn hostile_values_stay_in_the_directory() {
    let long = "x".repeat(10_000);
    let hostile =
        ["..", ".", "", "../../../etc/passwd", "/etc/passwd", "a\0b", "a\nb", "\u{1b}[2J", &long];
    let (mut rig, tree_dir) = start("{service}/{service}", |_| {});
    for (stream, value) in (1..).zip(hostile) {
        rig.append_with(stream, &of_service(value), &[Line::new(format!("line {stream}"))]);
    }
    rig.drain();
    let (ledger, dir) = rig.finish();
    assert_eq!(ledger.book.delivered, hostile.len() as u64);
    let files = tree(&tree_dir);
    for expected in ["_/_", ".._.._.._etc_passwd/.._.._.._etc_passwd", "a_b/a_b", "_[2J/_[2J"] {
        assert!(files.contains(expected), "{expected} of {files:?}");
    }
    let beside: BTreeSet<String> = tree(dir.path()).into_iter().collect();
    let is_known = |name: &String| {
        ["tree/", "journal/", "dead-letter/"].iter().any(|known| name.starts_with(known))
    };
    assert!(beside.iter().all(is_known), "{beside:?}");
    let lines: usize = files.iter().map(|f| text(&tree_dir.join(f)).lines().count()).sum();
    assert_eq!(lines, hostile.len());
}

#[test]
fn links_below_the_base_are_not_followed_and_the_records_are_dead_letters() {
    let dir = tempfile::tempdir().unwrap();
    let (tree_dir, outside) = (dir.path().join("tree"), dir.path().join("outside"));
    std::fs::create_dir_all(&tree_dir).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("victim"), "untouched\n").unwrap();
    symlink(&outside, tree_dir.join("dirlink")).unwrap();
    std::fs::create_dir_all(tree_dir.join("plain")).unwrap();
    symlink(outside.join("victim"), tree_dir.join("plain/plain.log")).unwrap();
    std::fs::create_dir_all(tree_dir.join("isdir/isdir.log")).unwrap();
    let plan = output(&tree_dir, "{service}/{service}.log");
    let mut rig = Rig::start_in(dir, Arc::new(RealDisk), OutputKind::File(plan));
    for (stream, service) in (1..).zip(["dirlink", "plain", "isdir", "good"]) {
        rig.append_with(stream, &of_service(service), &[Line::new("one"), Line::new("two")]);
    }
    rig.drain();
    let (ledger, dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.dead_lettered), (2, 6));
    assert_eq!(text(&tree_dir.join("good/good.log")), "one\ntwo\n");
    assert_eq!(tree(&outside), ["victim".to_owned()].into());
    assert_eq!(text(&outside.join("victim")), "untouched\n");
    let letters: Vec<_> =
        dead_letter::list(dir.path(), "out").unwrap().map(Result::unwrap).collect();
    assert_eq!(letters.len(), 6);
    assert!(letters.iter().any(|letter| letter.reason.contains("plain/plain.log")));
}

#[test]
fn without_dead_letters_refused_records_are_counted_as_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let tree_dir = dir.path().join("tree");
    std::fs::create_dir_all(tree_dir.join("a.log")).unwrap();
    let plan = output(&tree_dir, "{service}.log");
    let mut rig = Rig::prepare(dir, Arc::new(RealDisk), OutputKind::File(plan));
    rig.plan.dead_letter = false;
    rig.run();
    rig.append_with(1, &of_service("a"), &[Line::new("one"), Line::new("two")]);
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.discarded_total(), 2);
}

#[test]
fn more_files_than_may_be_open_all_get_their_lines() {
    let (mut rig, tree_dir) = start("{@n}.log", |_| {});
    for round in 0..3 {
        let lines: Vec<Line> =
            (0..50).map(|n| Line::new(format!(r#"{{"n":{n},"round":{round}}}"#))).collect();
        rig.append(1, &lines);
        rig.drain();
    }
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 150);
    for n in 0..50 {
        let line = |round: u32| format!("{{\"n\":{n},\"round\":{round}}}\n");
        let expected = [line(0), line(1), line(2)].concat();
        assert_eq!(text(&tree_dir.join(format!("{n}.log"))), expected);
    }
}

#[test]
fn a_directory_that_is_removed_is_made_again() {
    let (mut rig, tree_dir) = start("{host}/{service}.log", |_| {});
    rig.append_with(1, &of_service("a"), &[Line::new("one")]);
    rig.drain();
    std::fs::remove_dir_all(tree_dir.join("vm")).unwrap();
    rig.append_with(1, &of_service("a"), &[Line::new("two")]);
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 2);
    assert_eq!(text(&tree_dir.join("vm/a.log")), "two\n");
}

#[test]
fn a_full_disk_delays_many_files_and_neither_tears_nor_doubles_a_line() {
    let faults = [
        (CallKind::Write, FaultKind::NoSpace),
        (CallKind::Open, FaultKind::NoSpace),
        (CallKind::SyncData, FaultKind::Io),
    ];
    for (call, fault) in faults {
        let dir = tempfile::tempdir().unwrap();
        let tree_dir = dir.path().join("tree");
        let disk = FailingDisk::over(Arc::new(RealDisk));
        disk.faults().inject(Fault::new(FaultKind::Short(777)).on(CallKind::Write));
        disk.faults().inject(Fault::new(fault).on(call).times(2));
        let plan = FileOutput { open_files_max: 100, ..output(&tree_dir, "{service}.log") };
        let mut rig = Rig::start_in(dir, Arc::new(disk), OutputKind::File(plan));
        for stream in 1..=3 {
            let lines: Vec<Line> =
                (0..200).map(|seq| Line::numbered(&format!("s{stream}"), seq)).collect();
            rig.append_with(stream, &of_service(&format!("s{stream}")), &lines);
        }
        rig.drain();
        let (ledger, _dir) = rig.finish();
        assert_eq!((ledger.book.delivered, ledger.book.dead_lettered), (600, 0));
        for stream in ["s1", "s2", "s3"] {
            assert_eq!(numbers(&tree_dir, stream), (0..200).collect::<Vec<_>>(), "{call:?}");
        }
    }
}

/// Maximum size of a rotated file.
const ROTATE_BYTES: u64 = 64 * 1024;

#[test]
fn files_are_rotated_by_size_under_load_and_every_line_is_in_one_of_them() {
    for compress in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let (mut rig, tree_dir) = start("app.log", |plan| {
            plan.rotation.size_bytes = Some(ROTATE_BYTES);
            plan.rotation.compress = compress;
        });
        for _ in 0..20 {
            rig.append_numbered(1, 500, 50);
        }
        rig.drain();
        let is_packed = |name: &String| name.ends_with(compress.suffix()) || name == "app.log";
        if compress != Compression::None {
            rig.wait("rotated files are compressed", |_| tree(&tree_dir).iter().all(is_packed));
        }
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 10_000);
        assert_eq!(numbers(&tree_dir, "s1"), (0..10_000).collect::<Vec<_>>());
        let files = tree(&tree_dir);
        assert!(files.len() > 5, "{files:?}");
        for file in &files {
            assert!(content(&tree_dir.join(file)).len() as u64 <= ROTATE_BYTES, "{file}");
        }
    }
}

#[test]
fn only_the_newest_rotated_files_are_kept() {
    let (mut rig, tree_dir) = start("app.log", |plan| {
        plan.rotation.size_bytes = Some(ROTATE_BYTES);
        plan.rotation.keep = Some(2);
    });
    rig.append_numbered(1, 10_000, 50);
    rig.drain();
    // There may be three files before that, too: the last line shows that rotation has ended.
    rig.wait("three files are left, with the last line", |_| {
        let is_over = || numbers(&tree_dir, "s1").last() == Some(&9_999);
        tree(&tree_dir).len() == 3 && is_over() && tree(&tree_dir).len() == 3
    });
    let left = numbers(&tree_dir, "s1");
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 10_000);
    assert_eq!(left, (10_000 - left.len() as u64..10_000).collect::<Vec<_>>());
}

#[test]
fn a_file_of_an_earlier_period_is_put_aside_at_the_first_line_of_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let tree_dir = dir.path().join("tree");
    std::fs::create_dir_all(&tree_dir).unwrap();
    let old = tree_dir.join("app.log");
    std::fs::write(&old, "of yesterday\n").unwrap();
    let day = Duration::from_hours(24);
    let yesterday = std::fs::metadata(&old).unwrap().modified().unwrap() - day;
    std::fs::File::options().append(true).open(&old).unwrap().set_modified(yesterday).unwrap();
    let mut plan = output(&tree_dir, "app.log");
    plan.rotation.every = Some(day);
    let mut rig = Rig::start_in(dir, Arc::new(RealDisk), OutputKind::File(plan));
    rig.append(1, &[Line::new("of today")]);
    rig.drain();
    let (_ledger, _dir) = rig.finish();
    let files: Vec<String> = tree(&tree_dir).into_iter().collect();
    assert_eq!(files.len(), 2);
    assert_eq!(text(&tree_dir.join(&files[0])), "of today\n");
    assert_eq!(text(&tree_dir.join(&files[1])), "of yesterday\n");
}

#[test]
fn a_rotation_interrupted_by_a_crash_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let tree_dir = dir.path().join("tree");
    std::fs::create_dir_all(&tree_dir).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(tree_dir.join(name), bytes).unwrap();
    // Rotated and not started; started; finished and not removed; and one of another file.
    write("app.log.20260101T000000.000Z", b"first\n");
    write("app.log.20260102T000000.000Z", b"second\n");
    write("app.log.20260102T000000.000Z.gz.tmp", b"\x1f\x8bgarbage");
    write("app.log.20260103T000000.000Z", b"third\n");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, b"third\n").unwrap();
    write("app.log.20260103T000000.000Z.gz", &packed.finish().unwrap());
    write("other.log.20260101T000000.000Z", b"other\n");
    let mut plan = output(&tree_dir, "app.log");
    plan.rotation = Rotation {
        size_bytes: Some(ROTATE_BYTES),
        compress: Compression::Gzip,
        ..Rotation::default()
    };
    let mut rig = Rig::start_in(dir, Arc::new(RealDisk), OutputKind::File(plan));
    rig.append(1, &[Line::new("new")]);
    rig.drain();
    let expected: BTreeSet<String> = [
        "app.log",
        "app.log.20260101T000000.000Z.gz",
        "app.log.20260102T000000.000Z.gz",
        "app.log.20260103T000000.000Z.gz",
        "other.log.20260101T000000.000Z",
    ]
    .map(str::to_owned)
    .into();
    rig.wait("the work is finished", |_| tree(&tree_dir) == expected);
    let (_ledger, _dir) = rig.finish();
    for (day, text) in [("01", "first\n"), ("02", "second\n"), ("03", "third\n")] {
        let name = format!("app.log.202601{day}T000000.000Z.gz");
        assert_eq!(content(&tree_dir.join(name)), text.as_bytes());
    }
}

#[test]
fn a_disk_that_fails_while_rotating_loses_no_line() {
    for call in [CallKind::Rename, CallKind::SyncDir, CallKind::SyncData, CallKind::Open] {
        let dir = tempfile::tempdir().unwrap();
        let tree_dir = dir.path().join("tree");
        std::fs::create_dir_all(&tree_dir).unwrap();
        let disk = FailingDisk::over(Arc::new(RealDisk));
        let mut plan = output(&tree_dir, "app.log");
        plan.rotation.size_bytes = Some(ROTATE_BYTES);
        let kind = OutputKind::File(plan);
        let mut rig = Rig::start_in(dir, Arc::new(disk.clone()), kind);
        rig.append_numbered(1, 100, 50);
        rig.drain();
        disk.faults().inject(Fault::new(FaultKind::Io).on(call).times(2));
        rig.append_numbered(1, 5000, 50);
        rig.drain();
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 5100, "{call:?}");
        // At least once: a round that failed may be in two files.
        let found: BTreeSet<u64> = numbers(&tree_dir, "s1").into_iter().collect();
        assert_eq!(found, (0..5100).collect(), "{call:?}");
    }
}
