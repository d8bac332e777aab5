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

/// Returns whether the text contains this as a whole word, not as the beginning of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_whole = |(at, _): (usize, &str)| {
        let next = text[at + word.len()..].chars().next();
        !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
    };
    text.match_indices(word).any(is_whole)
}

/// Returns whether a test configures a component of this family and type: the table before the type
/// is one of the family.
fn configures(text: &str, family: &str, name: &str) -> bool {
    let configured = format!("type = \\\"{name}\\\"");
    let is_of_family = |(at, _): (usize, &str)| {
        let other = if family == "source" { "output" } else { "source" };
        let table = |family: &str| text[..at].rfind(&format!("[{family}."));
        table(family).is_some_and(|at| table(other).is_none_or(|other| other < at))
    };
    text.match_indices(&configured).any(is_of_family)
}

fn assert_tested(tests: &[String], family: &str, component: impl Debug, name: &str) {
    let kind = if family == "source" { "SourceKind" } else { "OutputKind" };
    let planned = format!("{kind}::{component:?}");
    let is_tested = |test: &String| has_word(test, &planned) || configures(test, family, name);
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
        assert_tested(&tests, "source", source, source.name());
    }
    for output in OutputType::ALL {
        assert_tested(&tests, "output", output, output.name());
    }
}
