//! Multi-line records through rotation and SIGKILL: none is split, none is lost.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use weir_testkit::{PATIENCE, Weir, wait_for};

use crate::scene::{Scene, at_rest, moment};

const RECORDS: u64 = 1000;
const KILLS: u64 = 20;

/// Returns a record of three lines, as an application writes it.
fn record(number: u64) -> [String; 3] {
    let frame = |n| format!("\tat frame {n} of {number}");
    [format!("record {number}"), frame(1), frame(2)]
}

/// Writes line by line, and rotates in the middle of records.
fn write_all(logs: &Path) {
    let open = |path| OpenOptions::new().create(true).append(true).open(path).expect("it opens");
    let path = logs.join("app.log");
    let mut file: File = open(&path);
    for number in 0..RECORDS {
        for (index, line) in record(number).iter().enumerate() {
            if number % 125 == 50 && index == 1 {
                let aside = logs.join(format!("app.log.{}", RECORDS - number));
                std::fs::rename(&path, aside).expect("it can be renamed");
                file = open(&path);
            }
            file.write_all(format!("{line}\n").as_bytes()).expect("it can be written");
        }
        moment(Duration::from_micros(500));
    }
}

/// Returns how often each body arrived.
fn arrived(path: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut bodies = BTreeMap::new();
    // The last line may still be being written.
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let record: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let body = record["body"].as_str().expect("a body is a text").to_owned();
        *bodies.entry(body).or_default() += 1;
    }
    bodies
}

#[test]
fn records_of_several_lines_survive_rotation_and_kill() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let scene = Scene::new();
    let out = scene.dir().join("out.json");
    let config = scene.source("raw")
        + "multiline = { start = '^record ', timeout = \"5s\" }\n[output.out]\ntype = \"file\"\n"
        + &format!("path = \"{}\"\nencoding = \"json\"\n", out.display());
    let logs = scene.logs();
    let writing = std::thread::spawn(move || write_all(&logs));
    for _ in 0..KILLS {
        let mut weir = Weir::spawn(scene.dir(), &config, &[]);
        moment(Duration::from_millis(rng.u64(..200)));
        assert!(!weir.has_ended(), "weir exited unexpectedly:\n{}", weir.log());
        weir.kill();
    }
    writing.join().expect("everything was written");
    let mut weir = scene.start(&config);
    let expected: Vec<String> = (0..RECORDS).map(|number| record(number).join("\n")).collect();
    let is_all_there =
        |bodies: &BTreeMap<String, u64>| expected.iter().all(|body| bodies.contains_key(body));
    let found = wait_for(PATIENCE, || Some(arrived(&out)).filter(is_all_there));
    let bodies = found.unwrap_or_else(|| arrived(&out));
    let missing: Vec<&String> = expected.iter().filter(|b| !bodies.contains_key(*b)).collect();
    let foreign: Vec<&String> = bodies.keys().filter(|b| !expected.contains(b)).collect();
    assert!(
        missing.is_empty() && foreign.is_empty(),
        "missing {missing:?}, in their place {foreign:?}\n{}",
        weir.log()
    );
    let books = at_rest(&weir, "out");
    assert_eq!(books.source("logs")["book"]["joined"].as_u64(), Some(2 * RECORDS), "{books}");
    weir.stop();
}
