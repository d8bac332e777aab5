//! The decoders against a naive reference built on a JSON parser, on generated and mutated files;
//! and each decoder against itself when the same file is read in different blocks.

mod common;
mod reference;

use common::{Plan, Record, read_file};
use proptest::prelude::*;
use weir_codec::Format;
use weir_model::RecordFlags;
use weir_model::limits::{LINE_BYTES_DEFAULT, LINE_BYTES_MAX};

fn log_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ -~]{0,60}",
        2 => "(.|\n|\r|\t|\"|\\\\){0,20}",
        1 => "[\\\\\"nu0-9a]{0,12}",
        1 => Just(String::new()),
    ]
}

fn time_text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "2026-11-21T19:12:[0-5][0-9]\\.[0-9]{1,9}Z",
        1 => "19[0-9]{2}-0[1-9]-1[0-9]T00:00:00(Z|\\+05:30|-08:00)",
        1 => "[0-9T:.Z-]{0,25}",
    ]
}

/// One line as docker writes it.
fn docker_usual() -> impl Strategy<Value = Vec<u8>> {
    (log_text(), prop::bool::weighted(0.7), prop::bool::ANY, time_text()).prop_map(
        |(text, is_last, is_stdout, time)| {
            let text = if is_last { text + "\n" } else { text };
            let stream = if is_stdout { "stdout" } else { "stderr" };
            let log = serde_json::to_string(&text).unwrap();
            format!(r#"{{"log":{log},"stream":"{stream}","time":"{time}"}}"#).into_bytes()
        },
    )
}

/// One line with any keys in any order.
fn docker_unusual() -> impl Strategy<Value = Vec<u8>> {
    let member = prop_oneof![
        3 => log_text().prop_map(|t| format!(r#""log":{}"#, serde_json::to_string(&t).unwrap())),
        2 => log_text().prop_map(|t| format!(r#""log" : {}"#, serde_json::to_string(&(t + "\n")).unwrap())),
        3 => time_text().prop_map(|t| format!(r#""time":"{t}""#)),
        2 => "(stdout|stderr|console|)".prop_map(|s| format!(r#""stream": "{s}""#)),
        1 => Just(r#""attrs":{"a":"b","c":"\"}"}"#.to_owned()),
        1 => Just(r#""attrs":{ }"#.to_owned()),
        1 => Just(r#""log":null"#.to_owned()),
        1 => Just("\"l\\u006fg\":\"x\\u000a\"".to_owned()),
        1 => Just(r#""extra":[1,-2.5e3,{"log":"inner\n"},true,null,[]]"#.to_owned()),
    ];
    prop::collection::vec(member, 0..6)
        .prop_map(|members| format!("{{{}}} ", members.join(" ,")).into_bytes())
}

fn cri_line() -> impl Strategy<Value = Vec<u8>> {
    (time_text(), "(stdout|stderr|stdin)", "(F|P|F:x|P:x:y|X)", log_text()).prop_map(
        |(time, stream, tags, text)| {
            format!("{time} {stream} {tags} {}", text.replace('\n', "")).into_bytes()
        },
    )
}

fn other_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (0_usize..200).prop_map(|n| vec![0; n]),
        1 => (0_usize..3000).prop_map(|n| vec![b'x'; n]),
        1 => Just(br#"{"log":"cut in ha"#.to_vec()),
        1 => Just(b"{\"log\":\"half\0\0\0{\"log\":\"whole\\n\",\"stream\":\"stdout\",\"time\":\"x\"}".to_vec()),
        1 => Just(br#"{"time":"2026-11-21T19:12:31Z","level":"warn","msg":"x"}"#.to_vec()),
        1 => Just(b"ts=1700000000 level=error msg=\"a b\"".to_vec()),
    ]
}

/// Flips some bytes.
fn mutated(line: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (line, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)).prop_map(
        |(mut line, flips)| {
            for (index, byte) in flips {
                if !line.is_empty() {
                    let at = index.index(line.len());
                    line[at] = byte;
                }
            }
            line
        },
    )
}

/// A generated file; prints as a string.
#[derive(Clone)]
struct File(Vec<u8>);

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

fn file() -> impl Strategy<Value = File> {
    let line = prop_oneof![
        6 => docker_usual(),
        2 => docker_unusual(),
        2 => mutated(docker_usual()),
        2 => mutated(docker_unusual()),
        6 => cri_line(),
        2 => mutated(cri_line()),
        2 => other_line(),
    ];
    let start = prop_oneof![
        8 => Just(&b""[..]),
        1 => Just(&b"\xef\xbb\xbf"[..]),
        1 => Just(&b"\xff\xfe"[..]),
    ];
    (start, prop::collection::vec(line, 0..20), any::<bool>()).prop_map(|(start, lines, ends)| {
        let mut file = [start, &lines.join(&b'\n')].concat();
        if ends {
            file.push(b'\n');
        }
        File(file)
    })
}

fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(vec![
        Format::Raw,
        Format::DockerJson,
        Format::Cri,
        Format::Json,
        Format::Logfmt,
    ])
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![1_usize..100, Just(LINE_BYTES_DEFAULT), Just(LINE_BYTES_MAX)]
}

fn plan() -> impl Strategy<Value = Plan> {
    (prop::collection::vec(1_usize..400, 1..6), 1_usize..5, any::<bool>())
        .prop_map(|(growth, seal_after, forget)| Plan { growth, seal_after, forget })
}

/// Attributes are compared as values; white space in them does not matter, and none equals none.
fn normal(record: &Record) -> reference::Expected {
    let attributes = reference::to_text(&record.attributes);
    let attributes: serde_json::Value = serde_json::from_str(&attributes).unwrap_or_default();
    let is_empty = attributes.as_object().is_none_or(serde_json::Map::is_empty);
    reference::Expected {
        offset: record.offset,
        time_ns: record.time_ns,
        flags: RecordFlags(record.flags.0 & !RecordFlags::JSON_ESCAPED.0),
        body: if record.flags.contains(RecordFlags::JSON_ESCAPED) {
            weir_model::unescape_json(&record.body).into_owned()
        } else {
            record.body.clone()
        },
        attributes: if is_empty { serde_json::Value::Null } else { attributes },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn decoders_agree_with_the_reference(file in file(), is_docker: bool) {
        let format = if is_docker { Format::DockerJson } else { Format::Cri };
        let outcome = read_file(&file.0, format, LINE_BYTES_MAX, &Plan::at_once());
        let got: Vec<_> = outcome.records.iter().map(normal).collect();
        let want = reference::read(&file.0, format);
        prop_assert_eq!(&got, &want.records);
        prop_assert_eq!(outcome.book.lines, want.lines);
        prop_assert_eq!(outcome.book.malformed, want.malformed);
    }

    #[test]
    fn records_do_not_depend_on_blocks_batches_or_restarts(
        file in file(), format in format(), limit in limit(), plan in plan(),
    ) {
        let at_once = read_file(&file.0, format, limit, &Plan::at_once());
        let in_blocks = read_file(&file.0, format, limit, &plan);
        prop_assert_eq!(in_blocks, at_once);
    }

    #[test]
    fn a_limit_only_shortens(file in file(), format in format(), limit in 1_usize..100) {
        let whole = read_file(&file.0, format, LINE_BYTES_MAX, &Plan::at_once());
        let cut = read_file(&file.0, format, limit, &Plan::at_once());
        prop_assert_eq!(whole.records.len(), cut.records.len());
        prop_assert_eq!(whole.book.lines, cut.book.lines);
        for (whole, cut) in whole.records.iter().zip(&cut.records) {
            prop_assert!(cut.body.len() <= limit);
            prop_assert!(whole.body.starts_with(&cut.body));
            let is_shorter = cut.body.len() < whole.body.len();
            prop_assert_eq!(cut.flags.contains(RecordFlags::TRUNCATED), is_shorter);
        }
    }
}
