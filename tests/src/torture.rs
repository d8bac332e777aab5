//! `weir torture`, for a few seconds: it passes, cleans up, and can be repeated with its seed.

use std::process::{Command, Output};

use serde_json::Value;
use weir_testkit::binary;

fn torture(dir: &std::path::Path, args: &[&str]) -> Output {
    let output = Command::new(binary()).arg("torture").arg("--dir").arg(dir).args(args).output();
    output.expect("weir can be started")
}

#[test]
fn a_short_torture_passes_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("torture");
    let output = torture(&dir, &["--for", "8s", "--rate", "1000", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    let history = std::fs::read_to_string(dir.join("history.txt")).unwrap_or_default();
    assert!(output.status.success(), "{said}\n{text}\n{history}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let report = &document["report"];
    assert_eq!(
        (&document["schema"], &document["passed"]),
        (&"weir.torture.v1".into(), &true.into())
    );
    assert!(report["written"].as_u64() > Some(1000), "{text}");
    assert!(report["faults"].as_object().is_some_and(|faults| !faults.is_empty()), "{text}");
    let targets = report["targets"].as_array().unwrap();
    let names: Vec<_> = targets.iter().map(|target| target["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second", "dropping", "store"]);
    assert!(targets.iter().all(|target| target["arrived"].as_u64() > Some(0)), "{text}");
    assert!(!dir.exists());
}

#[test]
fn the_torture_test_refuses_a_non_empty_directory() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("mine"), "mine").unwrap();
    let output = torture(home.path(), &["--for", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("not empty"), "{said}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}
