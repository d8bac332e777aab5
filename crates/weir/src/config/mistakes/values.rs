//! Mistakes in values for which the message must name what is accepted.

use super::check;
use crate::config::tests::{REST, loaded};
use crate::term::Paint;

#[test]
fn message_names_what_is_accepted() {
    check(&[
        ("[api]\nallowed_hosts = [\"*\"]", 2, "\"*\" is not a host name", "there are no wildcards"),
        ("[api]\nallowed_hosts = [\"logs:80\"]", 2, "\"logs:80\" is not a host name", "port"),
        (
            "[[rule]]\nname = \"x\"\nset = { status = \"xyz\" }",
            3,
            "\"xyz\" is not a status",
            "write emergency, alert",
        ),
        (
            "[[rule]]\nname = \"x\"\nparse = [\"xml\"]",
            3,
            "unknown format \"xml\"",
            "\"json\", \"logfmt\", \"syslog\", \"text\", \"common\", \"combined\" or \"nginx\"",
        ),
        ("[[rule]]\nname = \"x\"\nto = [\"p\"]", 3, "there is no output \"p\"", "available"),
        (
            "[[rule]]\nname = \"x\"\nredact = [{ pattern = \"(\" }]",
            3,
            "is not a valid regular expression: unclosed group",
            "",
        ),
        (
            "[[drain]]\nurl = \"u:hidden@foo?hidden\"",
            2,
            "\"foo\" is not a drain URL: write syslog://, syslog-tls://, https:// or https-batch://",
            "",
        ),
        ("[[drain]]\nurl = \"ftp://h\"", 2, "Invalid Scheme ftp", ""),
    ]);
}

/// The status of a record is recognized by its beginning, so a value is one in the same way.
#[test]
fn status_may_be_any_word_that_begins_as_one() {
    for status in ["warn", "WARNING", "err", "3", "{@level}", "nonsense"] {
        let text = format!("{REST}[[rule]]\nname = \"x\"\nset = {{ status = \"{status}\" }}\n");
        assert!(loaded(&text).plan.is_some(), "{status}");
    }
}

#[test]
fn terms_of_the_memory_add_up() {
    let text = format!(
        "{REST}[limits]\nmemory = \"64MiB\"\n[[drain]]\nurl = \"syslog://h\"\n\
         [drains]\nwindow = \"40MiB\"\n"
    );
    let loaded = loaded(&text);
    let shown = loaded.diagnostics.render(&loaded.texts, Paint::off());
    let (_, terms) = shown.split_once("less than ").expect("an error");
    let (terms, sum) = terms.lines().next().unwrap().split_once(" = ").unwrap();
    let mib = |text: &str| -> u64 {
        let word = text.split(' ').find(|word| word.ends_with("MiB")).expect("a size");
        word.trim_end_matches("MiB").parse().unwrap()
    };
    let total: u64 = terms.split(" + ").map(mib).sum();
    assert_eq!(total, mib(sum), "{shown}");
    assert!(shown.contains("the window of drains 40MiB"), "{shown}");
}
