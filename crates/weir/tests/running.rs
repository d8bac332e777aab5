//! A running weir: what it serves, how it starts next to other processes and how it stops.

mod support;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use support::{Running, run, stderr, stdout, wait_for, weir, write};

/// A configuration that tails `in/*.log` to `out.log`, with additional lines.
fn config(dir: &Path, more: &str) -> PathBuf {
    let text = format!(
        "\
data_dir = \"data\"
[api]
listen = \"127.0.0.1:0\"
[source.app]
type = \"file\"
include = [\"in/*.log\"]
[output.copy]
type = \"file\"
path = \"out.log\"
fsync = \"never\"
{more}"
    );
    std::fs::create_dir_all(dir.join("in")).unwrap();
    write(dir, "weir.toml", &text)
}

fn api(running: &Running) -> String {
    running.api.to_string()
}

#[test]
fn lines_arrive_and_all_pages_agree() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "");
    write(dir.path(), "in/a.log", "one\ntwo\nthree\n");
    let running = Running::start(dir.path(), &config);
    running.wait_delivered("copy", 3);
    assert_eq!(std::fs::read_to_string(dir.path().join("out.log")).unwrap(), "one\ntwo\nthree\n");

    let (status, health) = running.get("/health");
    assert_eq!(status, 200, "{health}");
    let ledger = running.json("/weir/v1/ledger");
    assert_eq!(ledger["balanced"], true);
    assert_eq!(ledger["sources"][0]["book"]["lines"], 3);
    assert_eq!(ledger["sources"][0]["files"]["bytes_seen"], 14);
    assert_eq!(ledger["sources"][0]["files"]["unaccounted_bytes"], 0);

    let metrics = running.get("/metrics").1;
    let labels = "component_id=\"app\",component_kind=\"source\",component_type=\"file\"";
    let line = format!("weir_component_received_events_total{{{labels}}} 3\n");
    assert!(metrics.contains(&line), "{metrics}");
    let line = "reason=\"buffer_full\",intentional=\"false\",direction=\"out\"} 0\n";
    assert!(metrics.contains(line), "every reason starts at 0: {metrics}");
    check_with_promtool(&metrics);

    let shown = run(dir.path(), &["ledger", "--api", &api(&running)]);
    assert_eq!(shown.status.code(), Some(0));
    assert!(stdout(&shown).contains("The books balance."), "{}", stdout(&shown));
    let shown = run(dir.path(), &["ledger", "--api", &api(&running), "--output", "json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout(&shown)).unwrap();
    assert_eq!(document["schema"], "weir.ledger.v1");

    let (status, said) = running.stop();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("3 records read, 0 wait for the next start"), "{said}");
}

/// `cargo xtask test` sets the path of the program; otherwise only the other tests check the page.
fn check_with_promtool(metrics: &str) {
    let Some(promtool) = std::env::var_os("PROMTOOL") else { return };
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output) + &stderr(&output), "");
    assert!(output.status.success());
}

#[test]
fn top_prints_plain_lines_without_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "");
    write(dir.path(), "in/a.log", "one\n");
    let running = Running::start(dir.path(), &config);
    running.wait_delivered("copy", 1);
    let arguments = ["top", "--once", "--interval", "250ms", "--api", &api(&running)];
    let shown = run(dir.path(), &arguments);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    let text = stdout(&shown);
    for part in
        ["weir ", "journal: ring", "Sources\n", "  app   file", "Outputs\n", "  copy   file"]
    {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    // Without --once it runs until the reader closes the pipe.
    let mut command = weir(dir.path());
    command.args(["top", "--interval", "250ms", "--api", &api(&running)]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    drop(out);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), stderr(&ended)), (Some(0), String::new()));
}

#[test]
fn top_shows_what_rules_match() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[[rule]]\nname = \"ones\"\nwhen = 'one'\nparse = [\"json\"]\n\
                 [[rule]]\nname = \"nothing\"\nwhen = 'nowhere'\n";
    let config = config(dir.path(), rules);
    write(dir.path(), "in/a.log", "one\ntwo\n");
    let running = Running::start(dir.path(), &config);
    running.wait_delivered("copy", 2);
    let shown = run(dir.path(), &["top", "--once", "--interval", "250ms", "--api", &api(&running)]);
    let text = stdout(&shown);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    let line = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("{name} is not in:\n{text}")).to_owned()
    };
    let cells = |name: &str| line(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells("RULE")[..3], ["RULE", "HITS/S", "SHARE"]);
    assert_eq!(cells("ones")[4..6], ["1", "1"], "it matched and is not JSON");
    assert_eq!(cells("nothing")[4..7], ["0", "0", "never"]);
    let (_, page) = running.get("/metrics");
    for (rule, count) in [("ones", 1), ("nothing", 0)] {
        let row = format!("\nweir_rule_unparsed_events_total{{rule=\"{rule}\"}} {count}\n");
        assert!(page.contains(&row), "{page}");
    }
}

#[test]
fn second_weir_on_same_data_or_port_fails() {
    let dir = tempfile::tempdir().unwrap();
    let first = Running::start(dir.path(), &config(dir.path(), ""));
    let output = run(dir.path(), &["run", "-c", "weir.toml"]);
    assert_eq!(output.status.code(), Some(75));
    let said = stderr(&output);
    assert!(said.contains("error: data_dir data is in use by another weir"), "{said}");

    let text = std::fs::read_to_string(dir.path().join("weir.toml")).unwrap();
    let text = text.replace("127.0.0.1:0", &api(&first)).replace("\"data\"", "\"data2\"");
    write(dir.path(), "second.toml", &text);
    let output = run(dir.path(), &["run", "-c", "second.toml"]);
    assert_eq!(output.status.code(), Some(75));
    let said = stderr(&output);
    let expected = format!("error: the API cannot listen on {}: the port is in use", first.api);
    assert!(said.contains(&expected), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!dir.path().join("data2").exists(), "nothing was created");

    let source = "[source.late]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n";
    let text = std::fs::read_to_string(dir.path().join("weir.toml")).unwrap();
    let text = text.replace("\"data\"", "\"data3\"");
    let source = source.replace("127.0.0.1:0", &api(&first));
    write(dir.path(), "third.toml", &format!("{text}{source}"));
    let output = run(dir.path(), &["run", "-c", "third.toml"]);
    assert_eq!(output.status.code(), Some(75));
    let expected = format!("source late: cannot listen on {}: the port is in use", first.api);
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}

#[test]
fn unwritable_data_dir_is_a_one_line_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = config(dir.path(), "");
    let text = std::fs::read_to_string(&path).unwrap();
    write(dir.path(), "weir.toml", &text.replace("\"data\"", "\"/proc/weir-test\""));
    let output = run(dir.path(), &["run", "-c", "weir.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    assert!(errors[0].contains("data_dir /proc/weir-test cannot be used"), "{said}");
}

#[test]
fn saved_drains_that_cannot_be_used_are_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = config(dir.path(), "[drains]\n");
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let saved = write(dir.path(), "data/drains.json", r#"{"version": 99, "drains": 1}"#);
    let before = std::fs::read_to_string(&saved).unwrap();
    let output = run(dir.path(), &["run", "-c", "weir.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("data/drains.json has version 99"), "{said}");
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), before);
    write(dir.path(), "data/drains.json", r#"{"version": 1, "lis"#);
    let running = Running::start(dir.path(), &path);
    let text = wait_for("the file is reported", || {
        let health = running.json("/health");
        let mut reasons = health["reasons"].as_array()?.iter();
        let reason = reasons.find(|reason| reason["reason"] == "drains_file")?;
        reason["text"].as_str().map(str::to_owned)
    });
    assert!(text.contains("data/drains.json.damaged"), "{text}");
    let added = ["drains", "add", "syslog://127.0.0.1:1", "--app", "a", "--api", &api(&running)];
    assert_eq!(run(dir.path(), &added).status.code(), Some(0));
    let unknown = ["drains", "remove", "00000000000000ff", "--api", &api(&running)];
    let output = run(dir.path(), &unknown);
    assert!(stderr(&output).contains("there is no drain 00000000000000ff"), "{output:?}");
    running.stop();
    let aside = std::fs::read_to_string(dir.path().join("data/drains.json.damaged")).unwrap();
    assert_eq!(aside, r#"{"version": 1, "lis"#);
    assert!(std::fs::read_to_string(&saved).unwrap().contains("syslog://127.0.0.1:1"));
}

#[test]
fn hung_output_is_unhealthy_and_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // Accepts connections in the kernel's backlog and never responds.
    let hole = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let more = format!(
        "[output.hole]\ntype = \"splunk_hec\"\nendpoint = \"http://{}\"\n\
         token = {{ env = \"PATH\" }}\nbatch_age = \"1ms\"\nrequest_timeout = \"300ms\"\n",
        hole.local_addr().unwrap()
    );
    let config = config(dir.path(), &more);
    write(dir.path(), "in/a.log", "one\n");
    let mut running = Running::start(dir.path(), &config);
    running.wait_delivered("copy", 1);
    // Logged once the health check has noticed, within 5 seconds of the first failure.
    running.wait_line("output hole: cannot deliver");
    let (status, health) = running.get("/health");
    assert_eq!(status, 503, "{health}");
    let health: serde_json::Value = serde_json::from_str(&health).unwrap();
    let reason = &health["reasons"][0];
    assert_eq!((&reason["component"], &reason["reason"]), (&"hole".into(), &"failing".into()));
    assert!(reason["since"].as_str().unwrap().starts_with("20"), "{health}");
    assert_eq!(running.get("/health/live").0, 200);

    running.signal(Signal::INT);
    running.wait_line("stopping");
    let asked = Instant::now();
    running.signal(Signal::INT);
    let (status, said) = running.end();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(asked.elapsed().as_secs() < 9, "it did not wait for the deadline");
    assert!(said.contains("undelivered records are delivered at the next start"), "{said}");
}

#[test]
fn closed_stdout_output_ends_weir() {
    let dir = tempfile::tempdir().unwrap();
    let path = config(dir.path(), "");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, _) = text.split_once("[output.copy]").unwrap();
    write(dir.path(), "weir.toml", &format!("{head}[output.out]\ntype = \"stdout\"\n"));
    let log = write(dir.path(), "in/a.log", "one\n");
    let mut command = weir(dir.path());
    command.args(["run", "-c", "weir.toml"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "one\n");
    drop(out);
    let mut file = std::fs::OpenOptions::new().append(true).open(log).unwrap();
    file.write_all(b"two\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("1 wait for the next start"), "{said}");
}

#[test]
fn terminal_log_is_short_and_colored() {
    let dir = tempfile::tempdir().unwrap();
    let containers = "[source.containers]\ntype = \"containers\"\ndocker_roots = [\"no/docker\"]\n\
                      pod_roots = [\"in\"]\nlink_roots = []\n";
    config(dir.path(), &format!("[log]\nformat = \"text\"\n{containers}"));
    let mut command = weir(dir.path());
    command.args(["run", "-c", "weir.toml", "--color", "always"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
    while !said.contains("stop   Ctrl-C") {
        let read = std::io::BufRead::read_line(&mut log, &mut said).unwrap();
        assert!(read > 0, "it ended early:\n{said}");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    std::io::Read::read_to_string(&mut log, &mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert!(said.contains("\u{1b}[32mINFO \u{1b}[0m api listens address=127.0.0.1:"), "{said}");
    assert!(said.contains("weir top"), "{said}");
    assert!(said.contains("waits  for no/docker: does not exist yet"), "{said}");
}

#[test]
fn a_removed_output_keeps_its_cursor_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let more = "[output.extra]\ntype = \"blackhole\"\n";
    let running = Running::start(dir.path(), &config(dir.path(), more));
    let output = run(dir.path(), &["cursor", "drop", "gone", "-c", "weir.toml"]);
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    assert!(stderr(&output).contains("data is in use"), "{}", stderr(&output));
    let (status, said) = running.stop();
    assert_eq!(status.code(), Some(0), "{said}");

    config(dir.path(), "");
    let cursor = |arguments: &[&str]| {
        run(dir.path(), &[&["cursor"], arguments, &["-c", "weir.toml"]].concat())
    };
    let list = cursor(&["list"]);
    assert_eq!(list.status.code(), Some(0), "{}", stderr(&list));
    let lines = stdout(&list);
    assert!(lines.contains("  copy   yes"), "{lines}");
    assert!(lines.contains("  extra  no"), "{lines}");
    assert_eq!(cursor(&["drop", "copy"]).status.code(), Some(1), "it is configured");
    assert_eq!(cursor(&["drop", "nope"]).status.code(), Some(4));
    let dropped = cursor(&["drop", "extra"]);
    assert_eq!(dropped.status.code(), Some(0), "{}", stderr(&dropped));
    assert_eq!(stdout(&dropped), "dropped extra: 0 records discarded\n");
    assert!(!stdout(&cursor(&["list"])).contains("extra"));
}
