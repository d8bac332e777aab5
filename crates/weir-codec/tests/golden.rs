//! The corpus in `tests/golden/codec`: every `NAME.in` is a file in the format of its folder,
//! `NAME.out` the expected result, one JSON object per record and the book in the last line. With
//! `WEIR_BLESS=1` the results are written instead of compared; review them like code.

mod common;

use std::fmt::Write;
use std::path::Path;

use common::{Outcome, Plan, bodies, read_file};
use serde_json::json;
use weir_codec::{Format, detect};
use weir_model::limits::LINE_BYTES_DEFAULT;

/// Bodies longer than this are shown by their length and ends.
const SHOWN_BYTES_MAX: usize = 200;

fn shown(body: &str) -> String {
    if body.len() <= SHOWN_BYTES_MAX {
        return body.to_owned();
    }
    format!("{}…{} ({} bytes)", &body[..8], &body[body.len() - 8..], body.len())
}

fn rendered(out: &Outcome) -> String {
    let mut text = String::new();
    for (record, body) in out.records.iter().zip(bodies(out)) {
        let line = json!({
            "offset": record.offset,
            "time_ns": record.time_ns,
            "severity": record.severity,
            "flags": format!("{:#010b}", record.flags.0),
            "body": shown(&body),
            "attributes": String::from_utf8_lossy(&record.attributes),
        });
        writeln!(text, "{line}").unwrap();
    }
    writeln!(text, "{}", json!({ "book": serde_json::to_value(out.book).unwrap() })).unwrap();
    text
}

fn check_folder(format: Format) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/codec");
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut cases = 0;
    for entry in std::fs::read_dir(root.join(format.text())).unwrap() {
        let input = entry.unwrap().path();
        if input.extension().is_none_or(|extension| extension != "in") {
            continue;
        }
        cases += 1;
        let file = std::fs::read(&input).unwrap();
        let got = rendered(&read_file(&file, format, LINE_BYTES_DEFAULT, &Plan::at_once()));
        let expected = input.with_extension("out");
        if bless {
            std::fs::write(&expected, &got).unwrap();
        }
        let want = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(got, want, "{}", input.display());
        let is_usual = input.file_stem().is_some_and(|stem| stem == "usual");
        assert!(!is_usual || detect(&file) == Some(format), "{} is detected", input.display());
    }
    assert!(cases > 0, "no corpus for {format:?}");
}

#[test]
fn the_corpus_decodes_as_recorded() {
    for format in [Format::Raw, Format::DockerJson, Format::Cri, Format::Json, Format::Logfmt] {
        check_folder(format);
    }
}
