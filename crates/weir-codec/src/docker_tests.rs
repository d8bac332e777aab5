//! Tests of the docker json-file decoder.

use super::*;

fn parsed(line: &str) -> Option<DockerLine> {
    parse(line.as_bytes(), &mut TimeParser::default(), &mut KnownAttributes::default())
}

#[test]
fn the_form_that_docker_writes_is_read() {
    let line = r#"{"log":"a\"b\\n\n","stream":"stderr","time":"1970-01-01T00:00:01Z"}"#;
    let read = parsed(line).unwrap();
    assert_eq!(&line[read.body.clone()], r#"a\"b\\n"#);
    assert!(read.is_last);
    assert_eq!(read.time_ns, Some(1_000_000_000));
    assert_eq!(read.iostream, RecordFlags::STDERR);
}

#[test]
fn both_ways_of_reading_agree() {
    let time = "2026-11-21T19:12:31.335106123Z";
    let attributes = r#"{"tag":"a\"b","n":"{}"}"#;
    let mut known = KnownAttributes::default();
    known.learn(attributes.as_bytes());
    let mut is_usual = 0;
    for log in [
        r"a\n",
        r"a\\n",
        r"a\\\n",
        r"a\nb\u000a",
        "",
        r"\n",
        r"a\u00e9",
        r"a\x",
        "a\"b",
        r"\ud83d\ude00",
        "tab\t",
        "a\nb\n",
    ] {
        for middle in
            ["", r#","attrs":{"tag":"a\"b","n":"{}"}"#, r#","attrs":{"tag":"other"}"#, r#","x":1"#]
        {
            for stream in ["stdout", "stderr", "other"] {
                for time in [time, "2026-11-21T19:12:31Z", "2026-11-21T20:12:31.5+01:00"] {
                    let line =
                        format!(r#"{{"log":"{log}","stream":"{stream}"{middle},"time":"{time}"}}"#);
                    let mut times = TimeParser::default();
                    let any = parse_any(line.as_bytes(), &mut times);
                    // What follows on the next lines does not matter.
                    let file = format!("{line}\n{line}\n");
                    let read = parse_usual(file.as_bytes(), &mut times, &known);
                    if let Some((usual, end)) = read {
                        assert_eq!(end, line.len(), "{line}");
                        let usual = DockerLine { is_ascii: false, ..usual };
                        assert_eq!(Some(usual), any, "{line}");
                        is_usual += 1;
                    }
                }
            }
        }
    }
    assert_eq!(is_usual, 8 * 2 * 2 * 3, "the form that docker writes takes the fast path");
}
