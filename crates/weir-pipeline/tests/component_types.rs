//! Every type of source and output is used by a test: of the pipeline, or end to end.

use std::fmt::Debug;
use std::path::Path;

use weir_pipeline::config::{OutputType, SourceType};

/// The texts of all tests that run components.
fn tests() -> Vec<String> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = ["tests", "tests/tailing", "tests/harness", "../../tests/src"];
    let files = dirs.iter().flat_map(|dir| {
        std::fs::read_dir(crate_dir.join(dir)).expect("the folder of tests exists")
    });
    let paths = files.map(|file| file.expect("it can be listed").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    sources.map(|path| std::fs::read_to_string(path).expect("a test is text")).collect()
}

fn assert_tested(tests: &[String], kind: &str, component: impl Debug, name: &str) {
    let planned = format!("{kind}::{component:?}");
    let configured = format!("type = \\\"{name}\\\"");
    let is_tested = |test: &String| test.contains(&planned) || test.contains(&configured);
    assert!(
        tests.iter().any(is_tested),
        "no test runs the type {name}: see \"Adding a source\" and \"Adding an output\" in \
         CONTRIBUTING.md"
    );
}

#[test]
fn every_component_type_has_a_test() {
    let tests = tests();
    for source in SourceType::ALL {
        assert_tested(&tests, "SourceKind", source, source.name());
    }
    for output in OutputType::ALL {
        assert_tested(&tests, "OutputKind", output, output.name());
    }
}
