//! The outputs `file` and `blackhole`.

mod harness;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use harness::{Line, Rig};
use weir_host::{Disk, RealDisk};
use weir_model::{RecordFlags, Severity};
use weir_pipeline::config::{Encoding, FilePath, OutputKind};
use weir_pipeline::output::{FileOutput, FsyncPolicy, Rotation};
use weir_pipeline::stats::get;
use weir_testkit::{CallKind, FailingDisk, Fault, FaultKind, LineId};

struct Setup {
    dir: tempfile::TempDir,
    path: PathBuf,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/out.log");
        Self { dir, path }
    }

    fn kind(&self, encoding: Encoding, fsync: FsyncPolicy) -> OutputKind {
        OutputKind::File(FileOutput {
            path: FilePath::parse(self.path.to_str().unwrap()).unwrap(),
            encoding,
            fsync,
            rotation: Rotation::default(),
            open_files_max: 4,
        })
    }

    fn start(self, encoding: Encoding, fsync: FsyncPolicy) -> (Rig, PathBuf) {
        self.start_on(Arc::new(RealDisk), encoding, fsync)
    }

    fn start_on(
        self,
        disk: Arc<dyn Disk>,
        encoding: Encoding,
        fsync: FsyncPolicy,
    ) -> (Rig, PathBuf) {
        let kind = self.kind(encoding, fsync);
        (Rig::start_in(self.dir, disk, kind), self.path)
    }
}

const POLICIES: [FsyncPolicy; 3] =
    [FsyncPolicy::Never, FsyncPolicy::Always, FsyncPolicy::Interval(Duration::from_millis(50))];

fn lines(path: &Path) -> Vec<Vec<u8>> {
    let content = std::fs::read(path).unwrap();
    assert!(content.is_empty() || content.ends_with(b"\n"), "the last line is incomplete");
    content.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Returns the numbers of the intact lines of a stream, in file order.
fn numbers(paths: &[&Path], stream: &str) -> Vec<u64> {
    let of_line = |line: Vec<u8>| {
        let id = LineId::parse(&line).unwrap_or_else(|| panic!("no id in {line:?}"));
        assert!(id.intact, "{}", String::from_utf8_lossy(&line));
        (id.stream == stream).then_some(id.seq)
    };
    paths.iter().flat_map(|path| lines(path)).filter_map(of_line).collect()
}

#[test]
fn lines_are_appended_in_order_under_every_policy() {
    for fsync in POLICIES {
        let (mut rig, path) = Setup::new().start(Encoding::Raw, fsync);
        for stream in 1..=3 {
            rig.append_numbered(stream, 500, 50);
        }
        rig.drain();
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 1500);
        for stream in ["s1", "s2", "s3"] {
            assert_eq!(numbers(&[&path], stream), (0..500).collect::<Vec<_>>(), "{fsync:?}");
        }
    }
}

#[test]
fn closing_the_journal_flushes_the_rest() {
    let fsync = FsyncPolicy::Interval(Duration::from_hours(1));
    let (mut rig, path) = Setup::new().start(Encoding::Raw, fsync);
    rig.append_numbered(1, 100, 10);
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 100);
    assert_eq!(numbers(&[&path], "s1").len(), 100);
}

#[test]
fn raw_lines_keep_bytes_and_json_lines_carry_everything() {
    let special = |rig: &mut Rig| {
        let mut escaped = Line::new(r"tab\tnewline\nend");
        escaped.flags = RecordFlags::JSON_ESCAPED.with(RecordFlags::STDERR);
        let mut full = Line::new(b"bytes \xff".to_vec());
        full.severity = Severity::ERROR;
        full.attributes = r#"{"a":{"b":1}}"#.to_owned();
        let mut syslog = Line::syslog("denied");
        syslog.attributes = r#"{"syslog.msgid":"set by a rule"}"#.to_owned();
        rig.append(1, &[escaped, full, Line::new("two\nlines"), syslog]);
        rig.drain();
    };
    let (mut rig, path) = Setup::new().start(Encoding::Raw, FsyncPolicy::Never);
    special(&mut rig);
    assert_eq!(
        lines(&path),
        [&b"tab\tnewline\\nend"[..], b"bytes \xff", b"two\\nlines", b"denied"].map(<[u8]>::to_vec)
    );
    let (_ledger, _dir) = rig.finish();
    let (mut rig, path) = Setup::new().start(Encoding::Json, FsyncPolicy::Never);
    special(&mut rig);
    let objects: Vec<serde_json::Value> =
        lines(&path).iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
    assert_eq!(objects[0]["body"], "tab\tnewline\nend");
    assert_eq!(objects[0]["attributes"]["log.iostream"], "stderr");
    assert_eq!(objects[1]["body"], "bytes \u{fffd}");
    assert_eq!(objects[1]["severity_text"], "ERROR");
    assert_eq!(objects[1]["attributes"]["a"]["b"], 1);
    assert_eq!(objects[1]["resource"]["host.name"], "vm");
    assert_eq!(objects[2]["timestamp"], "2023-11-14T22:13:20.000000003Z");
    assert_eq!(
        objects[3]["attributes"],
        serde_json::json!({
            "syslog.msgid": "set by a rule", "syslog.facility": "auth", "syslog.procid": "4711",
        })
    );
    let (_ledger, _dir) = rig.finish();
}

#[test]
fn a_renamed_file_is_followed_by_a_new_one() {
    for fsync in POLICIES {
        let (mut rig, path) = Setup::new().start(Encoding::Raw, fsync);
        rig.append_numbered(1, 100, 10);
        rig.drain();
        let rotated = path.with_extension("1");
        std::fs::rename(&path, &rotated).unwrap();
        rig.append_numbered(1, 100, 10);
        rig.drain();
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 200);
        assert_eq!(numbers(&[&rotated], "s1"), (0..100).collect::<Vec<_>>());
        assert_eq!(numbers(&[&path], "s1"), (100..200).collect::<Vec<_>>());
    }
}

#[test]
fn a_truncated_file_goes_on_without_a_hole() {
    let (mut rig, path) = Setup::new().start(Encoding::Raw, FsyncPolicy::Never);
    rig.append_numbered(1, 100, 10);
    rig.drain();
    std::fs::write(&path, "").unwrap();
    rig.append_numbered(1, 100, 10);
    rig.drain();
    let (_ledger, _dir) = rig.finish();
    assert_eq!(numbers(&[&path], "s1"), (100..200).collect::<Vec<_>>());
}

#[test]
fn a_torn_last_line_is_cut_off_at_start() {
    let setup = Setup::new();
    std::fs::create_dir_all(setup.path.parent().unwrap()).unwrap();
    let mut whole = Vec::new();
    LineId::write("old", 0, 0, b"whole", &mut whole);
    let torn = [&whole[..], b"\n", &whole[..20]].concat();
    std::fs::write(&setup.path, torn).unwrap();
    let (mut rig, path) = setup.start(Encoding::Raw, FsyncPolicy::Always);
    rig.append_numbered(1, 10, 10);
    rig.drain();
    let (_ledger, _dir) = rig.finish();
    assert_eq!(lines(&path).len(), 11);
    assert_eq!(numbers(&[&path], "old"), [0]);
}

#[test]
fn a_disk_that_is_full_or_fails_delays_and_neither_tears_nor_doubles_a_line() {
    let faults = [
        (CallKind::Write, FaultKind::NoSpace, "disk_full"),
        (CallKind::Write, FaultKind::Io, "io"),
        (CallKind::Write, FaultKind::ReadOnly, "read_only"),
        (CallKind::Open, FaultKind::ReadOnly, "read_only"),
        (CallKind::SyncData, FaultKind::Io, "io"),
    ];
    for (call, fault, kind) in faults {
        let disk = FailingDisk::over(Arc::new(RealDisk));
        // A short write first, so that there is something to undo.
        disk.faults().inject(Fault::new(FaultKind::Short(777)).on(CallKind::Write));
        disk.faults().inject(Fault::new(fault).on(call).times(2));
        let (mut rig, path) =
            Setup::new().start_on(Arc::new(disk.clone()), Encoding::Raw, FsyncPolicy::Always);
        rig.append_numbered(1, 500, 100);
        rig.drain();
        assert_eq!(rig.errors(kind), 2, "{call:?} {fault:?}: {:?}", rig.stats.errors);
        assert!(!rig.stats.failing.load(Ordering::Relaxed));
        assert_eq!(rig.last_error(), "");
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 500);
        assert_eq!(numbers(&[&path], "s1"), (0..500).collect::<Vec<_>>(), "{call:?} {fault:?}");
    }
}

#[test]
fn a_failing_disk_is_named_and_a_stop_keeps_the_rest() {
    let disk = FailingDisk::over(Arc::new(RealDisk));
    disk.faults().inject(Fault::new(FaultKind::NoSpace).on(CallKind::Write).forever());
    let (mut rig, path) =
        Setup::new().start_on(Arc::new(disk.clone()), Encoding::Raw, FsyncPolicy::Never);
    rig.append_numbered(1, 10, 10);
    rig.wait("an error", |rig| rig.errors("disk_full") > 0);
    let error = rig.last_error();
    assert!(error.contains("out.log") && error.contains("free some space"), "{error}");
    assert!(rig.stats.failing.load(Ordering::Relaxed));
    rig.stop(Duration::ZERO);
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.in_flight, 10);
    assert_eq!(lines(&path).len(), 0);
}

#[test]
fn a_path_that_is_no_file_is_named() {
    let setup = Setup::new();
    std::fs::create_dir_all(&setup.path).unwrap();
    let (mut rig, path) = setup.start(Encoding::Raw, FsyncPolicy::Never);
    rig.append_numbered(1, 10, 10);
    rig.wait("an error", |rig| rig.errors("is_directory") > 0);
    assert!(rig.last_error().contains("set path to a file"), "{}", rig.last_error());
    // The operator removes the directory: the output recovers by itself.
    std::fs::remove_dir(&path).unwrap();
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 10);
}

#[test]
fn asked_to_reopen_the_output_opens_its_path_anew() {
    let (mut rig, path) = Setup::new().start(Encoding::Raw, FsyncPolicy::Never);
    rig.append_numbered(1, 10, 10);
    rig.drain();
    rig.handle().reopen();
    rig.append_numbered(1, 10, 10);
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 20);
    assert_eq!(numbers(&[&path], "s1"), (0..20).collect::<Vec<_>>());
}

#[test]
fn the_blackhole_counts_everything() {
    let mut rig = Rig::start(OutputKind::Blackhole);
    rig.append_numbered(1, 1000, 100);
    rig.append_numbered(2, 1000, 100);
    rig.drain();
    assert!(get(&rig.stats.bytes_encoded) > 0);
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 2000);
}
