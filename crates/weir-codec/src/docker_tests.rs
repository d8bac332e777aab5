//! Tests of the docker json-file decoder, beside it.

use super::*;

fn parsed(line: &str) -> Option<DockerLine> {
    parse(line.as_bytes(), false, &mut TimeParser::default())
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
