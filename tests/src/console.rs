//! Standard output as a destination.

use weir_measure::load::Content;
use weir_testkit::{Oracle, PATIENCE, Tally, Weir, Writing};

use crate::scene::{Scene, at_rest};

const CONSOLE: &str = "console";

/// Returns everything that was printed, by the IDs in the lines.
fn printed(weir: &Weir) -> (Tally, Vec<u8>) {
    let bytes = std::fs::read(weir.stdout()).unwrap();
    let mut tally = Tally::default();
    bytes.split_inclusive(|byte| *byte == b'\n').for_each(|line| tally.count(line));
    (tally, bytes)
}

#[test]
fn every_line_is_printed_once_raw_or_as_json() {
    for encoding in ["raw", "json"] {
        let scene = Scene::new();
        let mut plan = scene.plan();
        plan.content = Content::Escapes;
        plan.lines = Some(10_000);
        let written = [Writing::all(plan)];
        let output = format!("[output.{CONSOLE}]\ntype = \"stdout\"\nencoding = \"{encoding}\"\n");
        let mut weir = scene.start(&(scene.source("docker_json") + &output));
        weir.wait_books("all is printed", PATIENCE, |b| b.delivered(CONSOLE) == 10_000);
        let books = at_rest(&weir, CONSOLE);
        let (tally, bytes) = printed(&weir);
        if encoding == "raw" {
            Oracle::strict(CONSOLE).check(&written, &tally, &books);
        } else {
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let texts =
                lines.map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
            let mut tally = Tally::default();
            texts.for_each(|text| tally.count(text["body"].as_str().unwrap().as_bytes()));
            Oracle::strict(CONSOLE).check(&written, &tally, &books);
        }
        weir.stop();
    }
}
