//! Logs written and rotated by docker's own json-file logger.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_measure::load::{Content, LineFormat, LoadPlan};
use weir_testkit::{Collector, Oracle, Writing};

use crate::scene::{OUTPUT, Scene, hec, judge};

/// Builds `tests/foreign/dockerlog`.
fn dockerlog(dir: &Path) -> PathBuf {
    let found = Command::new("go").arg("version").output().is_ok_and(|out| out.status.success());
    assert!(found, "this test needs Go 1.19 or later (Debian package golang-go)");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/dockerlog");
    let program = dir.join("dockerlog");
    let mut build = Command::new("go");
    build.args(["build", "-mod=readonly", "-o"]).arg(&program).arg(".").current_dir(source);
    let status = build.status().expect("go can be started");
    assert!(status.success(), "docker's logger does not build");
    program
}

/// Writes lines like a program in a container, as fast as docker reads them, into the pipe
/// `DIR/STREAM.log`.
fn printing(dir: &Path, stream: &str, content: Content, body_bytes: (usize, usize)) -> Writing {
    let made = Command::new("mkfifo").arg(dir.join(format!("{stream}.log"))).status();
    assert!(made.is_ok_and(|status| status.success()), "a pipe can be made");
    let mut plan = LoadPlan::new(dir);
    plan.format = LineFormat::Raw;
    plan.streams = vec![stream.to_owned()];
    plan.content = content;
    plan.body_bytes = body_bytes;
    plan.duration = Some(Duration::from_secs(5));
    Writing::start(plan)
}

/// Runs docker's logger on what comes through a pipe.
fn log(program: &Path, printed: &Path, log: &Path, compress: &str) -> Child {
    std::fs::create_dir_all(log.parent().expect("a log is in a directory"))
        .expect("it can be made");
    Command::new(program)
        .arg(log)
        .args(["1m", "200", compress])
        .stdin(File::open(printed).expect("the pipe is there"))
        .stderr(Stdio::inherit())
        .spawn()
        .expect("docker's logger starts")
}

#[test]
fn logs_of_dockers_own_logger_arrive_whole_over_its_own_rotation() {
    let scene = Scene::new();
    let program = dockerlog(scene.dir());
    let pipes = scene.dir().join("pipes");
    std::fs::create_dir(&pipes).unwrap();
    // docker encodes each part separately and damages characters that it splits: long lines are
    // plain, short ones are not.
    let printing = [
        printing(&pipes, "long", Content::Plain, (10, 50_000)),
        printing(&pipes, "odd", Content::InvalidUtf8, (10, 4000)),
    ];
    let collector = Collector::start();
    let root = scene.dir().join("containers");
    std::fs::create_dir(&root).unwrap();
    let config = format!(
        "[source.docker]\ntype = \"containers\"\ndocker_roots = [{root:?}]\npod_roots = []\n\
         link_roots = []\n{}",
        hec(OUTPUT, &collector, "")
    );
    let mut weir = scene.start(&config);
    let loggers: Vec<Child> = [("long", 'a'), ("odd", 'b')]
        .into_iter()
        .map(|(stream, digit)| {
            let id = digit.to_string().repeat(64);
            let path = root.join(&id).join(format!("{id}-json.log"));
            log(&program, &pipes.join(format!("{stream}.log")), &path, "false")
        })
        .collect();
    let written = printing.map(Writing::finish);
    for mut logger in loggers {
        assert!(logger.wait().unwrap().success());
    }
    // A joined line is a record of the file that contains its end.
    let oracle = Oracle { ordered: false, ..Oracle::strict(OUTPUT) };
    let books = judge(&oracle, &written, &collector, &weir);
    println!("{} MB", books.json()["sources"][0]["files"]["bytes_seen"].as_u64().unwrap() >> 20);
    assert_eq!(collector.tally().duplicates(), 0);
    weir.stop();
}
