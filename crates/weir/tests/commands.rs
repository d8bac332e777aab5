//! Commands that do not need a running weir: their output and exit codes.

mod support;

use std::io::Read as _;
use std::process::Stdio;

use support::{run, stderr, stdout, weir, write};

const WRONG: &str = "[journal]\nrnig = \"64MiB\"\n[source.a]\ntype = \"containers\"\n[output.b]\ntype = \"stdout\"\n";

#[test]
fn invalid_configuration_is_shown_and_exits_with_3() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "weir.toml", WRONG);
    for arguments in [&["config", "check", "-c", "weir.toml"][..], &["run", "-c", "weir.toml"]] {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(stdout(&output), "");
        let expected = "\
error: unknown key \"rnig\" in [journal]
 --> weir.toml:2:1  journal.rnig
  |
2 | rnig = \"64MiB\"
  | ^^^^
  = did you mean \"ring\"?

1 error in weir.toml
";
        assert_eq!(stderr(&output), expected);
    }
    assert!(!dir.path().join("weir-data").exists(), "nothing is opened before everything is valid");
}

#[test]
fn check_has_json_output() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "weir.toml", WRONG);
    let output = run(dir.path(), &["config", "check", "-c", "weir.toml", "--output", "json"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(stderr(&output), "");
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["schema"], "weir.config_check.v1");
    assert_eq!(report["valid"], false);
    let found = &report["diagnostics"][0];
    assert_eq!(found["place"], serde_json::json!({"file": "weir.toml", "line": 2, "column": 1}));
    assert_eq!(found["key"], "journal.rnig");
}

#[test]
fn check_says_how_long_buffers_last_at_a_rate() {
    let dir = tempfile::tempdir().unwrap();
    let config = "[source.central]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n\
                  connections_max = 500\n[output.slow]\ntype = \"stdout\"\nbuffer_max = \"64MiB\"\n";
    write(dir.path(), "weir.toml", config);
    let check = ["config", "check", "-c", "weir.toml", "--rate", "60000"];
    let text = stdout(&run(dir.path(), &check));
    for part in
        ["50,000", "500,000 to 1,000,000", "buffer_max of output slow", "warning: buffer_max"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = run(dir.path(), &[&check[..], &["-o", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let sizing = &report["sizing"];
    let source = &sizing["sources"][0];
    assert_eq!(source["source"], "central");
    assert_eq!(source["log_iw_size"], 50_000);
    assert_eq!([&source["log_fifo_size_min"], &source["log_fifo_size_max"]], [500_000, 1_000_000]);
    assert_eq!(source["fifo_bytes_max"], 200_000_000);
    let buffer = &sizing["buffers"][0];
    assert_eq!(buffer["bytes"], 64 << 20);
    // Of 200 bytes, and 64 for the columns of each.
    assert_eq!(buffer["messages"], (64 << 20) / 264);
    let seconds = buffer["seconds"].as_f64().unwrap();
    assert!((4.2..4.3).contains(&seconds), "{seconds}");
    assert_eq!(buffer["is_below_log_fifo_size"], true);
    let output = run(dir.path(), &["config", "check", "-c", "weir.toml", "-o", "json"]);
    assert!(!stdout(&output).contains("sizing"));
}

#[test]
fn the_printed_default_is_a_valid_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let default = run(dir.path(), &["config", "default"]);
    write(dir.path(), "weir.toml", &stdout(&default));
    let output = run(dir.path(), &["config", "check", "-c", "weir.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = "the configuration is valid: 3 sources, 1 output, the store, API on http://127.0.0.1:7080\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn unreadable_configuration_exits_with_3() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty.d")).unwrap();
    std::fs::write(dir.path().join("binary.toml"), b"\xff\xfe").unwrap();
    for (name, said) in [
        ("missing.toml", "error: missing.toml could not be read: No such file or directory"),
        ("empty.d", "error: the directory empty.d contains no *.toml files"),
        ("binary.toml", "error: binary.toml is not UTF-8 text (byte 0)"),
    ] {
        let output = run(dir.path(), &["run", "-c", name]);
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert!(stderr(&output).starts_with(said), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
}

#[test]
fn a_directory_is_one_configuration() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("weir.d")).unwrap();
    write(dir.path(), "weir.d/10-in.toml", "[source.a]\ntype = \"containers\"\n");
    write(dir.path(), "weir.d/20-out.toml", "[output.b]\ntype = \"stdout\"\n");
    let output = run(dir.path(), &["config", "check", "-c", "weir.d"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    write(dir.path(), "weir.d/30-again.toml", "[source.a]\ntype = \"containers\"\n");
    let output = run(dir.path(), &["config", "check", "-c", "weir.d"]);
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(said.contains("source.a is defined twice"), "{said}");
    assert!(said.contains("--> weir.d/30-again.toml:1:9"), "{said}");
    assert!(said.contains("it is also defined at: weir.d/10-in.toml:1:9"), "{said}");
}

#[test]
fn color_is_for_terminals_unless_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "weir.toml", WRONG);
    let escapes = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = weir(dir.path());
        command.args(["config", "check", "-c", "weir.toml"]).args(arguments);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        stderr(&output).contains('\u{1b}')
    };
    assert!(!escapes(&[], &[]), "a pipe");
    assert!(escapes(&["--color", "always"], &[]));
    assert!(escapes(&["--color", "always"], &[("NO_COLOR", "1")]), "the flag takes precedence");
    assert!(escapes(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!escapes(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!escapes(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn closed_stdout_ends_a_command_quietly() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["config", "schema"][..], &["config", "reference"], &["completions", "bash"]]
    {
        let mut command = weir(dir.path());
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(stderr(&output), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    for (names, title) in
        [(&[][..], ".TH weir 1"), (&["run"], ".TH weir-run 1"), (&["load", "file"], "rotate")]
    {
        let output = run(dir.path(), &[&["man"], names].concat());
        let page = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(page.contains(title) && page.contains(".SH SYNOPSIS"), "{names:?}: {page}");
    }
    let output = run(dir.path(), &["man", "load", "nope"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("load nope"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_exits_with_2() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [
        &["runn"][..],
        &["run", "--verbose"],
        &["top", "--interval", "1ms"],
        &["load", "file", "--rate", "max"],
        &["load", "file", "--size", "20-10"],
        &["load", "file", "--rotate-size", "10"],
    ] {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn unreachable_api_gives_help() {
    let dir = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    for command in [&["ledger"][..], &["top", "--once"], &["cursor", "list"]] {
        let output = run(dir.path(), &[command, &["--api", &address]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(&format!("no weir is running at {address}")), "{said}");
        assert!(said.contains("weir run") && said.contains("--api"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
fn empty_data_dir_has_no_cursor_or_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["cursor", "drop", "gone"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let output = run(dir.path(), &["dead-letter", "list"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()));
    let output = run(dir.path(), &["dead-letter", "list", "gone"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let output = run(dir.path(), &["dead-letter", "resend", "gone"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("existing outputs: console"), "{}", stderr(&output));
}

#[test]
fn load_writes_numbered_lines_and_reports_on_stdout() {
    let dir = tempfile::tempdir().unwrap();
    let arguments =
        ["load", "file", "logs", "--rate", "max", "--lines", "100", "--files", "2", "-o", "json"];
    let output = run(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["schema"], "weir.load.v1");
    assert_eq!(report["report"]["lines"], 100);
    assert!(stderr(&output).starts_with("writing logs/app-0.log, logs/app-1.log"));
    let lines = std::fs::read_to_string(dir.path().join("logs/app-0.log")).unwrap();
    assert_eq!(lines.lines().count(), 50);
}

#[test]
fn invalid_log_filter_exits_with_3() {
    let dir = tempfile::tempdir().unwrap();
    let output = weir(dir.path()).arg("run").env("WEIR_LOG", "weir=loud").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("WEIR_LOG=\"weir=loud\""), "{}", stderr(&output));
}

#[test]
fn reference_pages_are_current() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let dir = tempfile::tempdir().unwrap();
    for (page, arguments) in [
        ("configuration.md", ["config", "reference"]),
        ("metrics.md", ["config", "metrics"]),
        ("weir.schema.json", ["config", "schema"]),
        ("default.toml", ["config", "default"]),
    ] {
        let written = std::fs::read_to_string(root.join(page)).unwrap_or_default();
        let is_current = written == stdout(&run(dir.path(), &arguments));
        assert!(is_current, "docs/reference/{page} is stale; run `cargo xtask gen` to update it");
    }
}

#[test]
fn nothing_from_outside_is_printed_raw() {
    const EVIL: &str = "\u{1b}[8mx\u{1b}]0;t\u{7}\u{9b}\u{202e}\u{2800}\u{fe0f}";
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "weir.toml", &WRONG.replace("rnig", "\"\\u001b[8mx\\u2800\""));
    let file = format!("no{EVIL}");
    for arguments in [
        &["config", "check", "-c", "weir.toml"][..],
        &["config", "check", "-c", &file],
        &["config", "check", "-c", "weir.toml", &format!("--{EVIL}")],
        &["config", EVIL],
        &["ledger", "--output", EVIL],
        &["ledger", "--api", EVIL],
        &["completions", EVIL],
    ] {
        for color in ["always", "never"] {
            let mut command = weir(dir.path());
            command.args(arguments).args(["--color", color]).env("CLICOLOR_FORCE", "1");
            let said = stderr(&command.output().unwrap());
            let is_raw = ["\u{1b}[8m", "\u{1b}]", "\u{7}", "\u{9b}", "\u{202e}", "\u{2800}"];
            assert!(!is_raw.iter().any(|raw| said.contains(raw)), "{arguments:?}: {said:?}");
            assert!(said.contains("\\u{1b}[8m"), "{arguments:?}: {said:?}");
        }
    }
    let output = weir(dir.path()).arg("ledger").env("WEIR_API", EVIL).output().unwrap();
    assert!(stderr(&output).contains("\\u{1b}[8mx"), "{}", stderr(&output));
}

#[test]
fn sizes_beyond_all_bounds_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "weir.toml", &WRONG.replace("rnig", "ring"));
    let most = "18446744073709551615";
    for (option, value) in [
        ("--rate", most),
        ("--fetch-limit", most),
        ("--message-size", "16777216TiB"),
        ("--message-size", "17MiB"),
    ] {
        let mut arguments = vec!["config", "check", "-c", "weir.toml", option, value];
        if option != "--rate" {
            arguments.extend(["--rate", "1"]);
        }
        let output = run(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{option}: {}", stderr(&output));
        assert!(stderr(&output).contains(option), "{}", stderr(&output));
    }
    let greatest = ["--rate", "1000000000", "--message-size", "16MiB", "--fetch-limit", "100000"];
    let mut command = weir(dir.path());
    let output = command.args(["config", "check", "-c", "weir.toml"]).args(greatest).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
}
