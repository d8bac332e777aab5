//! The reference page is correct about levels in plain text: every line of its examples is read,
//! both as it is and with JSON escapes.

use weir_codec::{escape_json_into, severity_of_escaped_text, severity_of_text};
use weir_model::Severity;

const PAGE: &str = include_str!("../../../docs/reference/expressions.md");

fn severity_of(status: &str) -> Severity {
    match status {
        "none" => Severity::UNSPECIFIED,
        "debug" => Severity::DEBUG,
        "info" => Severity::INFO,
        "notice" => Severity::NOTICE,
        "warn" => Severity::WARN,
        "error" => Severity::ERROR,
        "critical" => Severity::CRITICAL,
        "emergency" => Severity::FATAL,
        other => panic!("{other} is not a status"),
    }
}

#[test]
fn every_message_of_the_page_has_the_status_that_it_says() {
    let blocks = PAGE.split("```status\n").skip(1);
    let lines = blocks.flat_map(|rest| rest.split("```").next().unwrap().lines());
    let mut count = 0;
    for line in lines {
        let (message, status) = line.rsplit_once(" | ").expect(line);
        let message = message.replace(r"\t", "\t").replace(r"\e", "\u{1b}");
        let mut escaped = Vec::new();
        escape_json_into(message.as_bytes(), &mut escaped);
        assert_eq!(severity_of_text(message.as_bytes()), severity_of(status), "{line}");
        assert_eq!(severity_of_escaped_text(&escaped), severity_of(status), "{line}");
        count += 1;
    }
    assert!(count > 30, "only {count} examples were found");
}
