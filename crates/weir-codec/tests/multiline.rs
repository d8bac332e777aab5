//! Joining of lines: the corpus of stack traces in `tests/golden/codec/multiline` (`LANGUAGE.in` is
//! a plain file, `LANGUAGE.out` its records; `WEIR_BLESS=1` writes the results instead), the
//! limits, and that the records depend on the text alone, in whatever form and blocks it is read.

mod common;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use common::{Outcome, Plan, Reader, bodies};
use proptest::prelude::*;
use serde_json::json;
use weir_codec::{Format, LineDecoder, Multiline, MultilineError, MultilinePreset};
use weir_model::RecordFlags;
use weir_model::limits::{LINE_BYTES_DEFAULT, LINE_BYTES_MAX};

const LANGUAGES: [(&str, MultilinePreset); 7] = [
    ("java", MultilinePreset::Java),
    ("python", MultilinePreset::Python),
    ("go", MultilinePreset::Go),
    ("node", MultilinePreset::Node),
    ("dotnet", MultilinePreset::Dotnet),
    ("ruby", MultilinePreset::Ruby),
    ("php", MultilinePreset::Php),
];

fn preset(preset: MultilinePreset) -> Arc<Multiline> {
    Arc::new(Multiline::preset(preset))
}

fn pattern(start: Option<&str>, next: Option<&str>) -> Multiline {
    Multiline::pattern(start, next).unwrap()
}

fn golden(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/codec/multiline");
    std::fs::read_to_string(root.join(name)).unwrap_or_default()
}

fn read(file: &[u8], format: Format, limit: usize, rule: &Arc<Multiline>, plan: &Plan) -> Outcome {
    let mut reader = Reader::new(file, format, limit).joining(rule);
    reader.read_to_end(plan);
    reader.flush();
    reader.out
}

fn joined(text: &str, rule: Multiline) -> Vec<String> {
    let rule = Arc::new(rule);
    bodies(&read(text.as_bytes(), Format::Raw, LINE_BYTES_DEFAULT, &rule, &Plan::at_once()))
}

/// Lines as the runtimes write them, each with its output stream; docker and CRI split long ones
/// into pieces.
fn wrapped(lines: &[(&str, bool)], format: Format, piece: usize) -> Vec<u8> {
    let mut file = String::new();
    for (line, is_stderr) in lines {
        let iostream = if *is_stderr { "stderr" } else { "stdout" };
        let chars: Vec<char> = line.chars().collect();
        let mut pieces: Vec<String> = chars.chunks(piece).map(|p| p.iter().collect()).collect();
        if pieces.is_empty() {
            pieces.push(String::new());
        }
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let is_last = index == last;
            match format {
                Format::DockerJson => {
                    let log = json!(piece + if is_last { "\n" } else { "" }).to_string();
                    // Go's JSON writer escapes these too.
                    let log = log.replace('<', "\\u003c").replace('>', "\\u003e");
                    let log = log.replace('&', "\\u0026");
                    let time = "2026-11-21T19:12:31.5Z";
                    writeln!(file, r#"{{"log":{log},"stream":"{iostream}","time":"{time}"}}"#)
                }
                Format::Cri => {
                    let tag = if is_last { 'F' } else { 'P' };
                    writeln!(file, "2026-11-21T19:12:31.5Z {iostream} {tag} {piece}")
                }
                Format::Raw | Format::Json | Format::Logfmt => writeln!(file, "{piece}"),
            }
            .unwrap();
        }
    }
    file.into_bytes()
}

fn rendered(out: &Outcome) -> String {
    let mut text = String::new();
    for (record, body) in out.records.iter().zip(bodies(out)) {
        let is_joined = record.flags.contains(RecordFlags::JOINED);
        let line = json!({ "offset": record.offset, "joined": is_joined, "body": body });
        writeln!(text, "{line}").unwrap();
    }
    writeln!(text, "{}", json!({ "book": serde_json::to_value(out.book).unwrap() })).unwrap();
    text
}

#[test]
fn the_stack_traces_of_every_language_are_joined_as_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/codec/multiline");
    for (language, of_language) in LANGUAGES {
        let text = golden(&format!("{language}.in"));
        let at_once = Plan::at_once();
        let rule = preset(of_language);
        let out = read(text.as_bytes(), Format::Raw, LINE_BYTES_DEFAULT, &rule, &at_once);
        let got = rendered(&out);
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(root.join(format!("{language}.out")), &got).unwrap();
        }
        assert_eq!(got, golden(&format!("{language}.out")), "{language}");
        let auto = preset(MultilinePreset::Auto);
        let by_auto = read(text.as_bytes(), Format::Raw, LINE_BYTES_DEFAULT, &auto, &at_once);
        assert_eq!(bodies(&by_auto), bodies(&out), "{language} by auto");
    }
}

#[test]
fn plain_files_cri_and_docker_give_the_same_records() {
    for (language, of_language) in LANGUAGES {
        let text = golden(&format!("{language}.in"));
        let lines: Vec<(&str, bool)> = text.lines().map(|line| (line, true)).collect();
        let at_once = Plan::at_once();
        let rule = preset(of_language);
        let plain = read(text.as_bytes(), Format::Raw, LINE_BYTES_DEFAULT, &rule, &at_once);
        for format in [Format::DockerJson, Format::Cri] {
            for piece in [usize::MAX, 30] {
                let file = wrapped(&lines, format, piece);
                let out = read(&file, format, LINE_BYTES_DEFAULT, &rule, &at_once);
                assert_eq!(bodies(&out), bodies(&plain), "{language} as {format:?}");
            }
        }
    }
}

#[test]
fn the_output_streams_of_a_container_are_joined_apart() {
    let lines = [
        ("java.lang.RuntimeException: one", true),
        ("request 1", false),
        ("\tat a.B.c(B.java:1)", true),
        ("request 2", false),
        ("\tat a.B.d(B.java:2)", true),
        ("request 3", true),
    ];
    let rule = preset(MultilinePreset::Java);
    for format in [Format::DockerJson, Format::Cri] {
        let file = wrapped(&lines, format, usize::MAX);
        let out = read(&file, format, LINE_BYTES_DEFAULT, &rule, &Plan::at_once());
        let trace = "java.lang.RuntimeException: one\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)";
        assert_eq!(bodies(&out), ["request 1", "request 2", trace, "request 3"]);
        assert_eq!((out.book.lines, out.book.records, out.book.joined), (6, 4, 2));
    }
}

#[test]
fn a_start_pattern_takes_every_other_line_with_it() {
    let text = "before\n[1] a\n b\nc\n[2] d\n";
    assert_eq!(joined(text, pattern(Some(r"^\["), None)), ["before", "[1] a\n b\nc", "[2] d"]);
}

#[test]
fn a_continuation_pattern_joins_to_any_line() {
    let text = "a\n b\n c\nd\ne\n f\n";
    assert_eq!(joined(text, pattern(None, Some(r"^\s"))), ["a\n b\n c", "d", "e\n f"]);
}

#[test]
fn with_both_patterns_lines_that_match_neither_are_records() {
    let text = "x\n y\n[1]\n a\nz\n b\n";
    let rule = pattern(Some(r"^\["), Some(r"^\s"));
    assert_eq!(joined(text, rule), ["x", " y", "[1]\n a", "z", " b"]);
}

#[test]
fn a_record_ends_at_its_most_lines_and_the_rest_begins_another() {
    let text = "Traceback (most recent call last):\n  a\n  b\n  c\n  d\nE: x\nnext\n";
    let rule = Multiline::preset(MultilinePreset::Python).lines_max(3);
    let want = ["Traceback (most recent call last):\n  a\n  b", "  c\n  d\nE: x", "next"];
    assert_eq!(joined(text, rule), want);
}

#[test]
fn a_record_ends_at_its_most_bytes_and_nothing_is_cut() {
    let rule = Arc::new(pattern(Some("^S"), None));
    let out = read(b"S12345\n67\n89\nab\n", Format::Raw, 10, &rule, &Plan::at_once());
    assert_eq!(bodies(&out), ["S12345\n67", "89\nab"]);
    assert_eq!((out.book.truncated, out.book.abandoned_total()), (0, 0));
}

#[test]
fn records_at_the_hard_limit_pass_through() {
    let line = |byte: char| byte.to_string().repeat(LINE_BYTES_MAX / 3) + "\n";
    let lines = [line('S'), line('a'), line('b'), line('S'), line('c')];
    let out = {
        let rule = Arc::new(pattern(Some("^S"), None));
        read(lines.concat().as_bytes(), Format::Raw, LINE_BYTES_MAX, &rule, &Plan::at_once())
    };
    assert_eq!(out.book.abandoned_total(), 0);
    let text: usize = out.records.iter().map(|r| r.body.len()).sum();
    assert!(text >= lines.concat().len() - lines.len(), "nothing is lost");
}

#[test]
fn a_flushed_record_is_not_continued() {
    let file = b"Error: x\n    at a (b.js:1:2)\n    at c (d.js:3:4)\n";
    let rule = preset(MultilinePreset::Node);
    let mut reader = Reader::new(&file[..29], Format::Raw, 1000).joining(&rule);
    reader.read_to_end(&Plan::at_once());
    assert_eq!(reader.out.records.len(), 0, "it waits");
    reader.flush_records();
    assert_eq!(bodies(&reader.out), ["Error: x\n    at a (b.js:1:2)"]);
    let mut reader = reader.grown(file);
    reader.read_to_end(&Plan::at_once());
    reader.flush();
    assert_eq!(bodies(&reader.out), ["Error: x\n    at a (b.js:1:2)", "    at c (d.js:3:4)"]);
}

#[test]
fn the_next_file_goes_on_with_the_record() {
    let rule = preset(MultilinePreset::Java);
    let mut old = Reader::new(b"a.BException: x\n", Format::Raw, 1000).joining(&rule);
    old.read_to_end(&Plan::at_once());
    let mut new = Reader::new(b"\tat c.D.e(D.java:1)\nplain\n", Format::Raw, 1000).joining(&rule);
    new.adopt(&mut old.decoder);
    new.read_to_end(&Plan::at_once());
    assert_eq!(bodies(&new.out), ["a.BException: x\n\tat c.D.e(D.java:1)", "plain"]);
    assert_eq!((new.out.book.lines, new.out.book.joined), (3, 1));
}

#[test]
fn held_records_are_emitted_when_joining_ends() {
    let rule = preset(MultilinePreset::Java);
    let file = b"a.BException: x\n\tat c.D.e(D.java:1)\n";
    let mut reader = Reader::new(&file[..16], Format::Raw, 1000).joining(&rule);
    reader.read_to_end(&Plan::at_once());
    reader.decoder.set_multiline(None);
    let mut reader = reader.grown(file);
    reader.read_to_end(&Plan::at_once());
    assert_eq!(bodies(&reader.out), ["a.BException: x", "\tat c.D.e(D.java:1)"]);
}

#[test]
fn objects_are_not_joined() {
    let rule = preset(MultilinePreset::Auto);
    let file = b"{\"msg\":\"Error: x\"}\n    at a (b.js:1:2)\nTypeError: y\n    at a (b.js:1:2)\n";
    let out = read(file, Format::Json, 1000, &rule, &Plan::at_once());
    let bodies = bodies(&out);
    assert_eq!(bodies.len(), 3, "{bodies:?}");
    assert_eq!(bodies[2], "TypeError: y\n    at a (b.js:1:2)");
}

#[test]
fn patterns_that_are_wrong_or_costly_are_refused() {
    let refused = |start: &str| Multiline::pattern(Some(start), None).unwrap_err();
    assert!(matches!(refused("(a"), MultilineError::Syntax(_)));
    assert!(matches!(refused(r"(?=a)b"), MultilineError::Syntax(_)));
    assert!(matches!(refused(r"(\w{500}){500}"), MultilineError::TooLarge));
}

#[test]
fn a_damaged_state_with_a_record_is_refused() {
    let rule = preset(MultilinePreset::Java);
    let file = wrapped(&[("a.BException: x", true)], Format::DockerJson, usize::MAX);
    let mut reader = Reader::new(&file, Format::DockerJson, 1000).joining(&rule);
    reader.read_to_end(&Plan::at_once());
    let mut state = Vec::new();
    reader.decoder.state(&mut state);
    for len in 0..state.len() {
        assert!(LineDecoder::restore(&state[..len], 1000, 1 << 20).is_err(), "{len} bytes");
    }
    let last = state.len() - 1;
    state[last] = b'"';
    assert!(LineDecoder::restore(&state, 1000, 1 << 20).is_err(), "an unescaped quote");
}

/// Lines of all traces in any order, and others.
fn line() -> impl Strategy<Value = String> {
    let corpus: Vec<String> = LANGUAGES
        .iter()
        .flat_map(|(language, _)| {
            golden(&format!("{language}.in")).lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    prop_oneof![
        8 => prop::sample::select(corpus),
        2 => "[ -~]{0,30}",
        1 => "\t[a-zéß\"\\\\<>&]{0,20}",
        1 => Just(String::new()),
        1 => (0_usize..3000).prop_map(|n| format!("Error: {}", "x".repeat(n))),
    ]
}

fn rule() -> impl Strategy<Value = Arc<Multiline>> {
    let rule = prop_oneof![
        4 => Just(Multiline::preset(MultilinePreset::Auto)),
        1 => Just(pattern(Some("^[A-Z]"), None)),
        1 => Just(pattern(None, Some(r"^\s|^$"))),
        1 => Just(pattern(Some("Error|[0-9]"), Some(r"^\s"))),
    ];
    (rule, prop_oneof![2 => Just(500_u32), 1 => 1_u32..5])
        .prop_map(|(rule, lines)| Arc::new(rule.lines_max(lines)))
}

fn plan() -> impl Strategy<Value = Plan> {
    (prop::collection::vec(1_usize..400, 1..6), 1_usize..5, any::<bool>())
        .prop_map(|(growth, seal_after, forget)| Plan { growth, seal_after, forget })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn records_do_not_depend_on_blocks_batches_or_restarts(
        lines in prop::collection::vec((line(), any::<bool>()), 0..40),
        format in prop::sample::select(vec![
            Format::Raw, Format::DockerJson, Format::Cri, Format::Json, Format::Logfmt,
        ]),
        piece in prop_oneof![Just(usize::MAX), 1_usize..40],
        limit in prop_oneof![20_usize..300, Just(LINE_BYTES_DEFAULT), Just(LINE_BYTES_MAX)],
        rule in rule(),
        plan in plan(),
    ) {
        let lines: Vec<(&str, bool)> = lines.iter().map(|(l, s)| (l.as_str(), *s)).collect();
        let piece = if format == Format::Raw { usize::MAX } else { piece };
        let file = wrapped(&lines, format, piece);
        let at_once = read(&file, format, limit, &rule, &Plan::at_once());
        let in_blocks = read(&file, format, limit, &rule, &plan);
        prop_assert_eq!(in_blocks, at_once);
    }

    #[test]
    fn joining_neither_loses_nor_changes_text(
        lines in prop::collection::vec(line(), 0..40), rule in rule(),
    ) {
        let plain: Vec<(&str, bool)> = lines.iter().map(|l| (l.as_str(), false)).collect();
        for format in [Format::Raw, Format::Cri, Format::DockerJson] {
            let file = wrapped(&plain, format, usize::MAX);
            let out = read(&file, format, LINE_BYTES_DEFAULT, &rule, &Plan::at_once());
            prop_assert_eq!(bodies(&out).join("\n"), lines.join("\n"));
            prop_assert_eq!(out.book.lines, lines.len() as u64);
        }
    }
}
