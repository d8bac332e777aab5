//! Heads as programs write them, and lines that only look like one.

use proptest::prelude::*;

use super::*;
use crate::parse_rfc3339;

const TRACE: Severity = Severity::TRACE;
const DEBUG: Severity = Severity::DEBUG;
const INFO: Severity = Severity::INFO;
const NOTICE: Severity = Severity::NOTICE;
const WARN: Severity = Severity::WARN;
const ERROR: Severity = Severity::ERROR;
const CRITICAL: Severity = Severity::CRITICAL;
const FATAL: Severity = Severity::FATAL;
const NONE: Severity = Severity::UNSPECIFIED;

fn expect(cases: &[(&str, Severity)]) {
    for (line, want) in cases {
        assert_eq!(severity_of_text(line.as_bytes()), *want, "{line:?}");
    }
}

#[test]
fn a_level_in_capitals_counts_behind_times_numbers_and_names() {
    expect(&[
        ("ERROR out of memory", ERROR),
        ("  WARN: low on disk", WARN),
        ("ERROR:root:no such file", ERROR),
        ("INFO:     127.0.0.1:8000 - \"GET / HTTP/1.1\" 200", INFO),
        ("INFO[0012] started", INFO),
        ("SEVERE: cannot start", ERROR),
        ("2026-01-31 12:00:00,123 INFO [main] org.apache.Foo: started", INFO),
        ("2026-01-31 12:00:00,123 - my.module - ERROR - failed", ERROR),
        ("2026-01-31 12:00:00,123 - root - ERROR - failed", ERROR),
        ("2026-01-31T12:00:00.123Z  INFO 1234 --- [main] c.e.Foo : started", INFO),
        ("12:00:00.123 [http-nio-8080-exec-1] DEBUG c.e.Foo - asked", DEBUG),
        ("17/06/09 20:10:40 INFO executor.Backend: registered", INFO),
        ("081109 203615 148 INFO dfs.DataNode$PacketResponder: terminating", INFO),
        ("2015-07-29 17:41:44,747 - WARN  [QuorumPeer[myid=1]/0:0@774] - time out", WARN),
        ("api.log.1.2017-05-16_13:53:08 2017-05-16 00:00:00.008 25746 INFO nova.wsgi x", INFO),
        ("2026-01-31 12:00:00 UTC [4711] app@shop ERROR:  relation is missing", ERROR),
        ("2026-01-31 12:00:00.123 | WARNING  | app.main:run:12 - slow", WARN),
        ("2026-01-31T12:00:00.123Z\tERROR\tserver/main.go:12\tfailed", ERROR),
        ("2026/01/31 12:00:00 WARN slow query=1", WARN),
        ("12:00PM INF started", INFO),
        ("2026-01-31T12:00:00Z FTL stopped", FATAL),
        ("web-1  | 2026-01-31 12:00:00 ERROR failed", ERROR),
        ("[2026-01-31 12:00:00] production.ERROR: failed", ERROR),
        ("[31-Jan-2026 12:00:00 UTC] PHP Warning:  undefined", WARN),
        ("[31-Jan-2026 12:00:00 UTC] PHP Fatal error:  Uncaught", FATAL),
        ("Jan 31 12:00:00 web-1 app[12]: ERROR failed", ERROR),
        ("Jan  1 12:00:00 app[12]: WARN slow", WARN),
    ]);
}

#[test]
fn a_level_in_brackets_or_with_a_colon_counts_in_any_case() {
    expect(&[
        ("[error] failed", ERROR),
        ("[Sat Dec 04 04:47:44 2005] [notice] workerEnv.init() ok", NOTICE),
        ("[Wed Oct 11 14:32:52.123456 2026] [core:error] [pid 12:tid 1] denied", ERROR),
        ("2026/01/31 12:00:00 [warn] 123#0: *1 upstream", WARN),
        ("2026-01-31T12:00:00.123456Z 0 [Warning] [MY-010068] [Server] CA", WARN),
        ("2026-01-31 12:00:00.123456+00:00 [info] <0.1.0> started", INFO),
        ("<info>  [1234.5] manager: started", INFO),
        ("[2026-01-31T12:00:00,123][WARN ][o.e.n.Node] [host] slow", WARN),
        ("[2026-01-31 12:00:00,123: ERROR/MainProcess] Task failed", ERROR),
        ("[2026-01-31T12:00:00Z INFO  my_crate::part] started", INFO),
        ("[INFO  my_crate::part] started", INFO),
        ("[12:00:00 DBG] asked", DEBUG),
        ("[2026-01-31 12:00:00 +0000] [1234] [CRITICAL] failed", CRITICAL),
        ("[2026-01-31, 12:00:00 UTC] {task.py:12} INFO - started", INFO),
        ("error: linker failed", ERROR),
        ("Error: Cannot find module", ERROR),
        ("warn: Microsoft.Hosting.Lifetime[14]", WARN),
        ("panic: runtime error: index out of range", FATAL),
        ("2026-01-31 12:00:00 error: failed", ERROR),
        ("2026-01-31T12:00:00.123Z\tinfo\tmain.go:12\tstarted", INFO),
        ("12:00:00 - warn - slow", WARN),
    ]);
}

#[test]
fn the_priority_of_syslog_and_the_letters_of_loggers_count() {
    expect(&[
        ("<34>Oct 11 22:14:15 mymachine su: failed", CRITICAL),
        ("<165>1 2003-10-11T22:14:15.003Z host app 8710 ID47 - ERROR is a word here", NOTICE),
        ("<999>no priority", NONE),
        ("I0131 12:34:56.789012    1234 file.go:12] started", INFO),
        ("E20260131 12:34:56.789012 1234 file.cc:12] failed", ERROR),
        ("W, [2026-01-31T12:00:00.123456 #1234]  WARN -- : slow", WARN),
        ("E0131 is a room", NONE),
        ("I, for one, agree", NONE),
    ]);
}

#[test]
fn stack_traces_are_errors_by_how_they_begin() {
    expect(&[
        ("Traceback (most recent call last):\n  File \"a.py\"", ERROR),
        ("Exception in thread \"main\" java.lang.Error", ERROR),
        ("java.lang.IllegalStateException: closed\n\tat a.b.C", ERROR),
        ("TypeError: undefined is not a function", ERROR),
        ("fatal error: all goroutines are asleep - deadlock!", FATAL),
        ("thread 'main' panicked at src/main.rs:2:5:", FATAL),
        ("thread 'main' was started", NONE),
        ("\tat java.lang.Error.raise(Error.java:12)", NONE),
    ]);
}

#[test]
fn colors_are_skipped() {
    expect(&[
        ("\x1b[32mINFO\x1b[0m started", INFO),
        ("\x1b[2m2026-01-31T12:00:00Z\x1b[0m \x1b[1;31mERROR\x1b[0m failed", ERROR),
        ("\x1b]0;title\x07 ERROR", NONE),
    ]);
}

#[test]
fn words_in_running_text_are_not_levels() {
    expect(&[
        ("", NONE),
        ("no ERROR found", NONE),
        ("2026-01-31 12:00:00 no ERROR found", NONE),
        ("2026-01-31 12:00:00 the last [error] was yesterday", NONE),
        ("[main] found an ERROR", NONE),
        ("Jan 31 12:00:00 combo sshd(pam_unix)[19939]: authentication failure", NONE),
        ("Jan 31 12:00:00 LabSZ sshd[24200]: Invalid user ERROR from 1.2.3.4", NONE),
        ("Jan 31 12:00:00 no ERROR found", NONE),
        (r#"1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET /ERROR HTTP/1.0" 200 2326"#, NONE),
        ("GET /index.html ERROR", NONE),
        ("error rate is low", NONE),
        ("Information about errors", NONE),
        ("ERRORS were found", NONE),
        ("ERROR_CODE=5", NONE),
        ("WARNINGS: 3", NONE),
        ("result: ERROR", NONE),
        ("level=error msg=x", NONE),
        ("time=12:00:00 ERROR", NONE),
        ("\"ERROR\"", NONE),
        ("all done. ERROR", NONE),
        (r#"{"message":"ERROR"}"#, NONE),
        ("{ERROR}", NONE),
        ("[ERROR was here yesterday] x", NONE),
        ("   at com.example.ERROR.run(ERROR.java:1)", NONE),
        ("ALERTNESS", NONE),
        ("OK then", NONE),
    ]);
}

#[test]
fn scanning_stops_at_its_maximum() {
    let digits = "1".repeat(HEAD_BYTES);
    assert_eq!(severity_of_text(format!("{digits} ERROR x").as_bytes()), NONE);
    let cut = format!("{} ERROR_CODE", "1".repeat(HEAD_BYTES - 6));
    assert_eq!(severity_of_text(cut.as_bytes()), NONE);
    let fits = format!("{} ERROR x", "1".repeat(HEAD_BYTES - 7));
    assert_eq!(severity_of_text(fits.as_bytes()), ERROR);
    assert_eq!(severity_of_text("1 ".repeat(ITEMS_MAX - 1).as_bytes()), NONE);
    let many = format!("{}ERROR x", "1 ".repeat(ITEMS_MAX));
    assert_eq!(severity_of_text(many.as_bytes()), NONE);
    assert_eq!(severity_of_text(format!("TRACE {}", "x".repeat(1000)).as_bytes()), TRACE);
}

fn time_of(line: &str, near: &str) -> Option<String> {
    let near_ns = parse_rfc3339(near.as_bytes()).unwrap();
    let time_ns = read_text(line.as_bytes(), near_ns)?.time_ns?;
    let mut out = Vec::new();
    crate::format_rfc3339_ns(time_ns, &mut out);
    String::from_utf8(out).ok()
}

#[test]
fn times_are_read_at_the_beginning_of_a_line() {
    for (line, want) in [
        ("2026-01-31T12:00:00.123Z INFO x", "2026-01-31T12:00:00.123000000Z"),
        ("2026-01-31 12:00:00,123 INFO x", "2026-01-31T12:00:00.123000000Z"),
        ("2026-01-31 12:00:00 - INFO x", "2026-01-31T12:00:00.000000000Z"),
        ("2026-01-31T12:00:00+01:00 x", "2026-01-31T11:00:00.000000000Z"),
        ("[2026-01-31 12:00:00 -0130] [1] [INFO] x", "2026-01-31T13:30:00.000000000Z"),
        ("2026/01/31 12:00:00 [warn] x", "2026-01-31T12:00:00.000000000Z"),
        ("[Sat Jan 31 04:47:44 2026] [notice] x", "2026-01-31T04:47:44.000000000Z"),
        ("[Sat Jan 31 04:47:44.123456 2026] [x:notice] x", "2026-01-31T04:47:44.123456000Z"),
        ("<34>Jan 31 12:00:00 host su: x", "2026-01-31T12:00:00.000000000Z"),
        ("Jan  1 12:00:00 host su: x", "2026-01-01T12:00:00.000000000Z"),
        ("Dec 31 23:59:59 host su: x", "2025-12-31T23:59:59.000000000Z"),
        ("Feb 29 12:00:00 host su: x", "none"),
        ("I0131 12:00:00.000001 1 a.go:1] x", "2026-01-31T12:00:00.000001000Z"),
        ("I20250131 12:00:00.000001 1 a.cc:1] x", "2025-01-31T12:00:00.000001000Z"),
        ("<165>1 2026-01-31T12:00:00.003Z host app - - - x", "2026-01-31T12:00:00.003000000Z"),
        ("2026-01-31 12:34:56.789 CET [123] ERROR: x", "none"),
        ("2026-01-31 12:34:56.789 UTC [123] ERROR: x", "2026-01-31T12:34:56.789000000Z"),
        ("2026-01-31 01:34:56 PM x", "none"),
        ("2026-01-31 12:00:00 -1234 bytes freed", "2026-01-31T12:00:00.000000000Z"),
        ("2026-01-31 12:00:00 +12345 items", "2026-01-31T12:00:00.000000000Z"),
        ("2026-01-31 12:00:00 -99 x", "2026-01-31T12:00:00.000000000Z"),
        ("2026-01-31 12:00:00+99:00 x", "none"),
        ("2026-01-31 12:00:00-05 x", "2026-01-31T17:00:00.000000000Z"),
        ("17/06/09 20:10:40 INFO x", "none"),
        ("2026-01-31 12:00 INFO x", "none"),
        ("2026-13-31 12:00:00 INFO x", "none"),
        ("2026-01-31 12:00:00x INFO", "none"),
        ("at 2026-01-31 12:00:00", "none"),
    ] {
        let found = time_of(line, "2026-02-01T00:00:00Z");
        assert_eq!(found.as_deref().unwrap_or("none"), want, "{line}");
    }
    let next = time_of("Jan  1 00:00:01 host su: x", "2025-12-31T23:59:58Z");
    assert_eq!(next.as_deref(), Some("2026-01-01T00:00:01.000000000Z"));
    assert_eq!(read_text(b"neither time nor level", 0), None);
}

proptest! {
    #[test]
    fn escapes_make_no_difference(
        head in "(\\[\u{1b}\"é😀\t]{0,60} ?|x{250,260})(ERROR|\\[warn\\]|x) .{0,300}",
    ) {
        let mut escaped = Vec::new();
        crate::escape_json_into(head.as_bytes(), &mut escaped);
        let all: Vec<String> = head.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let want = severity_of_text(head.as_bytes());
        prop_assert_eq!(severity_of_escaped_text(&escaped), want);
        prop_assert_eq!(severity_of_escaped_text(all.concat().as_bytes()), want);
    }

    #[test]
    fn any_bytes_are_looked_at(line in proptest::collection::vec(any::<u8>(), 0..400), near: i64) {
        let _stated = read_text(&line, near);
    }

    #[test]
    fn any_head_is_looked_at(line in "[\\[\\]<>(){}A-Z0-9:., \t-]{0,80}", near: i64) {
        let _stated = read_text(line.as_bytes(), near);
    }

    #[test]
    fn a_level_after_two_words_is_ignored(words in "[a-z]{2,9} [a-z]{2,9} (ERROR|\\[error\\]) x") {
        prop_assume!(any_case(words.split(' ').next().unwrap().as_bytes()).is_none());
        prop_assert_eq!(severity_of_text(words.as_bytes()), NONE);
    }
}
