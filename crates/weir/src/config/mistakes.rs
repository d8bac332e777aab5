//! Mistakes of every kind, as data: the text, its line, the expected message and the expected help.

mod access;
mod listeners;
mod queries;
mod syslog_output;
mod values;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::tests::{REST, loaded};
use crate::term::Paint;

/// Lines before every mistake, which are valid.
const LINES_BEFORE: usize = 7;

/// The text, the line of the error (counted from the start of the text), the message, the help.
type Mistake<'a> = (&'a str, usize, &'a str, &'a str);

/// Loads every text and reports all differences from what is expected at once.
fn check(mistakes: &[Mistake<'_>]) {
    let wrong: Vec<String> = mistakes.iter().filter_map(difference).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// How the result for one of them differs from what is expected.
fn difference((written, line, message, help): &Mistake<'_>) -> Option<String> {
    let loaded = loaded(&format!("{REST}{written}\n"));
    let shown = loaded.diagnostics.render(&loaded.texts, Paint::off());
    let problem = |what: String| Some(format!("{written:?} {what}:\n{shown}"));
    let found = loaded.diagnostics.0.iter().find(|d| d.message.contains(message));
    let Some(found) = found else { return problem(format!("does not report {message:?}")) };
    let location = found.location.as_ref().map(|location| loaded.texts.line(location).number);
    if location != Some(LINES_BEFORE + line) {
        return problem(format!("is reported at line {location:?}"));
    }
    if !found.help.join("\n").contains(help) {
        return problem(format!("does not suggest {help:?}"));
    }
    if loaded.diagnostics.0.len() != 1 {
        return problem("has several errors".to_owned());
    }
    None
}

#[test]
fn wrong_keys_and_tables() {
    check(&[
        ("[jurnal]", 1, "unknown key \"jurnal\"", "did you mean \"journal\"?"),
        ("[journal]\nrnig = \"8MiB\"", 2, "unknown key \"rnig\" in [journal]", "\"ring\"?"),
        (
            "[journal]\ncolour = 1",
            2,
            "unknown key \"colour\"",
            "known keys: keep_free, ring, size_max",
        ),
        ("[api]\nListen = \"127.0.0.1:1\"", 2, "unknown key \"Listen\"", "\"listen\"?"),
        ("[limits]\nmemory-max = \"1GiB\"", 2, "unknown key", "\"memory\"?"),
        ("[log]\nlevl = \"info\"", 2, "unknown key \"levl\"", "\"level\"?"),
        ("[store]\nretenton = \"7d\"", 2, "unknown key \"retenton\"", "\"retention\"?"),
        ("[sources.a]\ntype = \"file\"", 1, "unknown key \"sources\"", "\"source\"?"),
        ("[sinks.a]", 1, "unknown key \"sinks\"", "known keys"),
        ("[source.ok.more]\na = 1", 1, "unknown key \"more\" in [source.ok]", ""),
        ("[[journal]]\nring = \"8MiB\"", 1, "journal must be a table, not a list", "[journal]"),
        ("[source.a]\nkind = \"file\"", 1, "source.a.type is missing", "\"containers\", \"file\""),
        ("[source.a]\ntype = \"flie\"", 2, "unknown type \"flie\" of source", "\"file\"?"),
        ("[source.a]\ntype = \"kafka\"", 2, "unknown type \"kafka\"", "\"containers\", \"file\""),
        (
            "[output.a]\ntype = \"splunk\"",
            2,
            "unknown type \"splunk\" of output",
            "\"splunk_hec\"?",
        ),
        ("[output.a]\ntype = 5", 2, "output.a.type must be text", "\"stdout\""),
        ("[output.a]\ntpye = \"file\"", 2, "output.a.type is missing", "did you mean \"type\""),
        ("[output]\na = \"file\"", 2, "output.a must be a table, not text", "[output.NAME]"),
        ("[output.\"a b\"]\ntype = \"blackhole\"", 1, "cannot be the name", "1 to 64"),
        ("[output.\"\"]\ntype = \"blackhole\"", 1, "cannot be the name", "1 to 64"),
        ("[output.store]\ntype = \"blackhole\"", 1, "reserved", "another name"),
        ("[source.\"../x\"]\ntype = \"containers\"", 1, "cannot be the name", "1 to 64"),
        ("[output.\"a b\"]\ntype = \"blackhole\"", 1, "the name of an output", "1 to 64"),
        ("[output.x]", 1, "output.x.type is missing", "the type of an output is"),
        (
            "[output.b]\ntype = \"stdout\"\ndata_dir = \"x\"",
            3,
            "unknown key \"data_dir\" in [output.b]",
            "above the first [table]",
        ),
        (
            "[output.b]\ntype = \"stdout\"\noutput.c.type = \"stdout\"",
            3,
            "unknown key \"output\" in [output.b]",
            "write [output.NAME]",
        ),
        ("[journal]\nring = \"8MiB\"\napi.listen = \"127.0.0.1:1\"", 3, "unknown key", "[api"),
    ]);
}

#[test]
fn wrong_toml() {
    check(&[
        ("[journal", 1, "not valid TOML", ""),
        ("[journal]\nring = \"8MiB", 2, "not valid TOML", ""),
        ("[journal]\nring = \"8MiB\"\nring = \"9MiB\"", 3, "defined twice", ""),
        ("[journal]\n[journal]", 2, "defined twice", ""),
        ("[source.ok]\ntype = \"containers\"", 1, "defined twice", ""),
        ("[log]\nlevel = info # all", 2, "not valid TOML", "straight quotes: level = \"...\""),
        ("[output.b]\ntype = file", 2, "not valid TOML", "straight quotes: type"),
        ("[output.b]\ntype = “file”", 2, "not valid TOML", "straight quotes: type"),
        ("[output.b]\ntype = 'file", 2, "not valid TOML", ""),
        ("[output.b]\ntype = \"file\"\npath = /tmp/x", 3, "not valid TOML", "straight quotes"),
        ("log:\n", 1, "not valid TOML", "this is YAML"),
        ("{\"log\": {}}", 1, "not valid TOML", "this is JSON"),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"C:\\logs\\*.log\"]",
            3,
            "not valid TOML",
            "a backslash is written",
        ),
        ("[log]\nlevel = \"in\u{1}fo\"", 2, "not valid TOML", ""),
        ("[output.ü]\ntype = \"blackhole\"", 1, "not valid TOML", ""),
    ]);
}

#[test]
fn wrong_types_of_values() {
    check(&[
        ("[journal]\nring = 64", 2, "must be a size such as \"64MiB\", not a whole", "\"64MiB\""),
        ("[journal]\nring = 64.5", 2, "not a number with a fraction", ""),
        ("[journal]\nring = true", 2, "not true or false", ""),
        ("[journal]\nring = [\"8MiB\"]", 2, "not a list", ""),
        ("[journal]\nring = 1979-05-27", 2, "not a date or time", ""),
        ("[log]\nlevel = { a = 1 }", 2, "not a table", ""),
        ("[log]\nlevel = \"verbose\"", 2, "must be \"error\", \"warn\"", ""),
        ("[log]\nlevel = \"inf\"", 2, "not \"inf\"", "\"info\"?"),
        ("[log]\nformat = \"JSON\"", 2, "not \"JSON\"", "\"json\"?"),
        ("[api]\nenabled = \"true\"", 2, "must be true or false, not text", "without quotes"),
        ("[source.b]\ntype = \"file\"\ninclude = \"/a.log\"", 3, "must be a list", "[\"/a.log\"]"),
        ("[source.b]\ntype = \"file\"\ninclude = [5]", 3, "contains a whole number", ""),
        ("[source.b]\ntype = \"file\"\ninclude = [\"\"]", 3, "contains an empty item", "remove it"),
        ("[source.b]\ntype = \"containers\"\nrate_limit = \"9\"", 3, "not text", "without quotes"),
        ("[source.b]\ntype = \"containers\"\nrate_limit = 0", 3, "from 1 to 1000000000", ""),
        ("[source.b]\ntype = \"containers\"\nrate_limit = -1", 3, "from 1 to", ""),
        (
            "[source.b]\ntype = \"containers\"\nread_from = \"start\"",
            3,
            "\"beginning\" or \"end\"",
            "",
        ),
        ("[source.b]\ntype = \"containers\"\nrescan_interval = 10", 3, "a duration", "\"10s\""),
        ("[output.b]\ntype = \"file\"\npath = \" \"", 3, "is empty", ""),
        ("[output.b]\ntype = \"file\"\npath = 5", 3, "must be a path in quotes", ""),
        (
            "[output.b]\ntype = \"stdout\"\nencoding = \"xml\"",
            3,
            "\"raw\", \"json\" or \"syslog\"",
            "",
        ),
        (
            "[output.b]\ntype = \"stdout\"\nwhen_full = \"drop\"",
            3,
            "not \"drop\"",
            "\"drop_oldest\"?",
        ),
    ]);
}

#[test]
fn wrong_units_and_bounds() {
    check(&[
        ("[journal]\nring = \"64\"", 2, "has no unit", "64B or 64MiB"),
        ("[journal]\nring = \"64mb\"", 2, "unknown unit \"mb\"", "64MiB or 64MB"),
        ("[journal]\nring = \"lots\"", 2, "does not begin with a number", "64MiB"),
        ("[journal]\nring = \"1MiB\"", 2, "is 1MiB; the minimum is 4MiB", ""),
        ("[journal]\nring = \"100GiB\"", 2, "the maximum is 64GiB", ""),
        ("[journal]\nsize_max = \"110%\"", 2, "not between 0% and 100%", ""),
        ("[journal]\nsize_max = \"0%\"", 2, "leaves no disk space for the journal", "10%"),
        ("[journal]\nsize_max = \"1MiB\"", 2, "the minimum is 16MiB", ""),
        ("[journal]\nsize_max = \"99%\"", 2, "together exceed 100%", ""),
        ("[journal]\nkeep_free = \"100%\"", 2, "together exceed 100%", ""),
        ("[limits]\nmemory = \"1MiB\"", 2, "the minimum is 48MiB", ""),
        ("[source.b]\ntype = \"containers\"\npartial_timeout = \"10\"", 3, "has no unit", "10s"),
        (
            "[source.b]\ntype = \"containers\"\npartial_timeout = \"10sec\"",
            3,
            "unit \"sec\"",
            "10s",
        ),
        (
            "[source.b]\ntype = \"containers\"\npartial_timeout = \"1ms\"",
            3,
            "the minimum is 50ms",
            "",
        ),
        ("[source.b]\ntype = \"containers\"\nread_interval = \"1h\"", 3, "the maximum is 10s", ""),
        ("[source.b]\ntype = \"containers\"\nline_max = \"1MiB\"", 3, "the maximum is 256KiB", ""),
        ("[output.b]\ntype = \"stdout\"\nbuffer_max = \"1MiB\"", 3, "the minimum is 4MiB", ""),
        (
            "[output.b]\ntype = \"file\"\npath = \"/tmp/weir-x\"\nfsync = \"alwys\"",
            4,
            "or a duration",
            "\"always\"?",
        ),
        (
            "[output.b]\ntype = \"file\"\npath = \"/tmp/weir-x\"\nfsync = \"5\"",
            4,
            "has no unit",
            "5s",
        ),
        ("[api]\nlisten = \"localhost:7080\"", 2, "is not an IP address", "\"127.0.0.1:7080\""),
        ("[api]\nlisten = \":7080\"", 2, "is not an IP address", "\"127.0.0.1:7080\""),
        ("[api]\nlisten = \"127.0.0.1\"", 2, "is not an IP address", "an address and a port"),
        ("[api]\nlisten = \"127.0.0.1:99999\"", 2, "is not an IP address", "0 to 65535"),
        ("[api]\nlisten = \"weir.example:7080\"", 2, "is not an IP address", "write an IP address"),
    ]);
}

#[test]
fn conflicting_settings() {
    check(&[
        ("[journal]\nring = \"1GiB\"", 2, "limits.memory is 512MiB", "set limits.memory to"),
        ("[limits]\nmemory = \"64MiB\"", 2, "less than ring 64MiB", "128MiB or more"),
        ("[store]\nhead = \"1GiB\"", 2, "2GiB for the store", "store.head"),
        (
            "[output.b]\ntype = \"stdout\"\nwindow = \"1GiB\"\nbuffer_max = \"900MiB\"\n[limits]\nmemory = \"4GiB\"",
            4,
            "less than its window",
            "increase",
        ),
        (
            "[output.b]\ntype = \"stdout\"\n[output.c]\ntype = \"stdout\"",
            3,
            "already written by output \"b\"",
            "at most one",
        ),
        (
            "[output.b]\ntype = \"file\"\npath = \"/tmp/weir-x\"\n[output.c]\ntype = \"file\"\npath = \"/tmp/../tmp/weir-x\"",
            6,
            "already written by output \"b\"",
            "a different file",
        ),
        ("[output.b]\ntype = \"file\"\npath = \"/tmp\"", 3, "is a directory", "/tmp/weir.log"),
        (
            "[output.b]\ntype = \"file\"\npath = \"/tmp/{host\"",
            3,
            "the { at byte 5 is never closed",
            "fields are written in braces",
        ),
        ("[output.b]\ntype = \"file\"\npath = \"/tmp/{host}/../x\"", 3, "after the first", ""),
        (
            "[output.b]\ntype = \"file\"\npath = \"/etc/passwd/x.log\"",
            3,
            "/etc/passwd is not a directory",
            "",
        ),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"/var/log\"]",
            3,
            "is a directory",
            "/var/log/*.log",
        ),
        ("[source.b]\ntype = \"file\"\ninclude = [\"/var/[log\"]", 3, "not a valid pattern", "[[]"),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"~/a.log\"]",
            3,
            "are not expanded",
            "full path",
        ),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"$HOME/a.log\"]",
            3,
            "are not expanded",
            "full path",
        ),
        ("[source.b]\ntype = \"file\"\ninclude = []", 3, "names no file", "at least one"),
        ("[source.b]\ntype = \"file\"", 1, "source.b.include is missing", "add include ="),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"weir-data/*.log\"]",
            3,
            "in data_dir",
            "separate directories",
        ),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"/var/log/weir-test/*.log\"]",
            3,
            "included twice",
            "",
        ),
        (
            "[source.b]\ntype = \"containers\"\ndocker_roots = []\npod_roots = []\nlink_roots = []",
            3,
            "no root",
            "remove the keys",
        ),
        (
            "[source.b]\ntype = \"containers\"\nwhen_limited = \"discard\"",
            3,
            "no effect without rate_limit",
            "add rate_limit",
        ),
        ("[api]\nlisten = \"0.0.0.0:7080\"", 2, "open to the network", "127.0.0.1:7080"),
    ]);
}

#[test]
fn sources_that_overlap_or_match_nothing() {
    check(&[
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"/var/log/*.gz\"]",
            3,
            "are never read",
            "while it is written",
        ),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"file:///var/log/a.log\"]",
            3,
            "is a URL, not a path",
            "write \"/var/log/a.log\"",
        ),
        (
            "[source.b]\ntype = \"file\"\ninclude = [\"/a/*.log\"]\nexclude = [\"/a/*.log\"]",
            3,
            "is also excluded",
            "remove it",
        ),
        (
            "[source.b]\ntype = \"containers\"\nexclude_containers = [\"web[\"]",
            3,
            "not a valid pattern",
            "[[]",
        ),
        (
            "[source.b]\ntype = \"containers\"\ndocker_roots = [\"/var/lib/docker/*\"]",
            3,
            "is a pattern",
            "one directory",
        ),
        (
            "[source.b]\ntype = \"containers\"\npod_roots = [\"/etc/passwd\"]",
            3,
            "is not a directory",
            "write the directory",
        ),
        (
            "[source.b]\ntype = \"containers\"\npod_roots = [\"~/pods\"]",
            3,
            "not expanded",
            "full path",
        ),
        (
            "[source.b]\ntype = \"containers\"\npod_roots = [\"/a\"]\nlink_roots = [\"/a/\"]",
            4,
            "included twice",
            "",
        ),
        (
            "[output.b]\ntype = \"file\"\npath = \"weir-data/out.log\"",
            3,
            "is in data_dir",
            "elsewhere",
        ),
        ("[output.b]\ntype = \"file\"\npath = \"$HOME/out.log\"", 3, "not expanded", "full path"),
    ]);
}

#[test]
fn wrong_data_dir_is_one_error() {
    for (written, message) in [
        ("data_dir = 5", "must be a path in quotes"),
        ("data_dir = \"\"", "is empty"),
        ("data_dir = \"~/weir\"", "not expanded"),
        ("data_dir = \"/etc/passwd/x\"", "/etc/passwd is not a directory"),
    ] {
        let loaded = loaded(&format!("{written}\n{REST}"));
        let shown = loaded.diagnostics.render(&loaded.texts, Paint::off());
        assert_eq!(loaded.diagnostics.0.len(), 1, "{shown}");
        assert!(shown.contains(message) && shown.contains("weir.toml:1:12"), "{shown}");
    }
}

#[test]
fn output_read_by_a_source_is_an_error() {
    for path in ["/var/log/weir-test/out.log", "/var/log/../log/weir-test/./out.log"] {
        let written = format!("{REST}[output.b]\ntype = \"file\"\npath = \"{path}\"\n");
        let first = loaded(&written);
        let shown = first.diagnostics.render(&first.texts, Paint::off());
        assert!(shown.contains("--> weir.toml:3:12  source.ok.include"), "{shown}");
        assert!(shown.contains("every line would loop endlessly"), "{shown}");
        assert!(shown.contains("the output's path is at: weir.toml:10:8"), "{shown}");
        let exclude = "exclude = [\"/var/log/weir-test/out.log\"]\n[output.ok]";
        let second = loaded(&written.replace("[output.ok]", exclude));
        assert!(!second.diagnostics.has_errors(), "{path} is excluded");
    }
}

#[test]
fn empty_configuration_suggests_a_start() {
    for (text, message) in [
        ("[store]\nenabled = false\n", "there is no source and no output"),
        ("[source.a]\ntype = \"containers\"\n[store]\nenabled = false\n", "there is no output"),
        ("", "there is no source"),
        ("[output.a]\ntype = \"stdout\"\n", "there is no source"),
    ] {
        let loaded = loaded(text);
        let shown = loaded.diagnostics.render(&loaded.texts, Paint::off());
        assert!(shown.contains(message) && shown.contains("for example: ["), "{shown}");
    }
}

/// A HEC output in which these lines replace the valid ones.
fn check_hec(mistakes: &[(&'static str, &'static str, &'static str)]) {
    for (lines, message, help) in mistakes {
        let right = [
            ("endpoint", "endpoint = \"https://splunk.example:8088\"\n"),
            ("token", "token = { env = \"PATH\" }\n"),
        ];
        let mut text = "[output.b]\ntype = \"splunk_hec\"\n".to_owned();
        for (key, line) in right {
            if !lines.lines().any(|l| l.starts_with(key)) {
                text.push_str(line);
            }
        }
        let line = text.lines().count() + 1;
        text.push_str(lines);
        let text: &'static str = text.leak();
        check(&[(text, line, message, help)]);
    }
}

#[test]
fn wrong_hec_outputs() {
    check_hec(&[
        ("endpoint = \"splunk:8088\"", "has no scheme", "https://splunk:8088"),
        ("endpoint = \"ftp://splunk\"", "has the unsupported scheme \"ftp\"", "https://"),
        ("endpoint = \"https://\"", "has no host", "HOST"),
        ("endpoint = \"https://splunk:port\"", "has the invalid port \"port\"", "1 to 65535"),
        ("endpoint = \"https://a b\"", "not valid in a URL", "spaces"),
        ("endpoint = \"https://[::1:8088\"", "the invalid host", "a name or an IP address"),
        ("endpoint = \"https://[a]:8088\"", "the invalid host", "a name or an IP address"),
        ("endpoint = \"https://::1:8088\"", "invalid host \"::1\"", "IPv6 addresses in brackets"),
        ("endpoint = \"https://splunk/a<b\"", "a path with invalid characters", "%3C"),
        ("index = \"Main Index\"", "is not a valid index name", "a-z, 0-9"),
        ("token = { env = \"$HEC_TOKEN\" }", "is not the name", "the bare name"),
        ("token = { env = \"\" }", "is not the name", "the bare name"),
        ("tls = { server_name = \"https://splunk\" }", "server_name is", "without scheme"),
        ("endpoint = \"https://splunk?x=1\"", "a query", "remove"),
        (
            "endpoint = \"https://splunk:1/services/collector/event\"",
            "own path",
            "\"https://splunk:1\"",
        ),
        ("endpoint = \"https://user:pw@splunk\"", "user name or password", "the @"),
        ("endpoint = \"http://splunk.example\"", "unencrypted", "https://"),
        ("token = \"abc\"", "cannot be written in the configuration", "{ env ="),
        ("token = { env = \"WEIR_NO_SUCH_VARIABLE\" }", "is not set", "export"),
        ("token = { file = \"/no/such/token\" }", "cannot be read", "readable by weir"),
        (
            "token = { file = \"/dev/null\" }",
            "cannot be read: not a regular file",
            "readable by weir",
        ),
        ("token = { env = \"A\", file = \"b\" }", "exactly one of env and file", "{ env ="),
        ("token = { }", "exactly one of env and file", "{ env ="),
        ("token = { vault = \"a\" }", "unknown key \"vault\"", "{ file ="),
        ("token = { env = 5 }", "must be a name in quotes", ""),
        ("tokn = \"abc\"", "unknown key \"tokn\"", "\"token\"?"),
        ("compression = \"zstd\"", "must be \"gzip\" or \"none\"", ""),
        ("connections_max = 1000", "must be from 1 to 64", ""),
        ("batch_size = \"32MiB\"", "exceeds its window 16MiB", "window"),
        ("retry_min = \"1m\"", "exceeds its retry_max 30s", ""),
        ("ack_timeout = \"5m\"", "no effect without indexer_ack", "indexer_ack = true"),
        ("tls = { ca_flie = \"/x\" }", "unknown key \"ca_flie\" in [output.b.tls]", "\"ca_file\"?"),
        ("tls = { ca_file = \"/no/such/ca.pem\" }", "could not be read: No such file", ""),
        (
            "tls = { ca_file = \"/etc/passwd\" }",
            "does not contain a PEM certificate",
            "BEGIN CERTIFICATE",
        ),
        ("tls = { insecure_skip_verify = true }", "any certificate is accepted", "ca_file"),
        ("tls = 5", "must be a table", ""),
        (
            "tls.server_name = \"x\"\nendpoint = \"http://127.0.0.1:1\"",
            "is not encrypted",
            "https://",
        ),
    ]);
}

#[test]
fn wrong_multiline() {
    macro_rules! value {
        ($value:literal) => {
            concat!("[source.b]\ntype = \"containers\"\nmultiline = ", $value)
        };
    }
    check(&[
        (value!("\"jave\""), 3, "not \"jave\"", "\"java\"?"),
        (value!("true"), 3, "one of \"off\", \"auto\"", ""),
        (value!("{ }"), 3, "does not define which lines belong together", "for example start"),
        (value!("{ timeout = \"2s\" }"), 3, "does not define which lines belong", "add preset"),
        (value!("{ start = '(a' }"), 3, "unclosed group", "RE2"),
        (value!("{ continue = '(?=a)' }"), 3, "look-around", "RE2"),
        (value!("{ start = '(\\w{500}){500}' }"), 3, "needs too much memory", "RE2"),
        (value!("{ preset = \"go\", start = 'a' }"), 3, "combined with preset", "remove one"),
        (value!("{ preset = \"cobol\" }"), 3, "not \"cobol\"", ""),
        (value!("{ start = 'a', timeout = \"1ms\" }"), 3, "the minimum is 50ms", ""),
        (value!("{ start = 'a', lines_max = 1 }"), 3, "from 2 to 100000", ""),
        (value!("{ start = 'a', begin = 'b' }"), 3, "unknown key \"begin\"", ""),
    ]);
}

#[test]
fn wrong_rules() {
    check(&[
        ("[rule]\nname = \"x\"", 1, "rule must be a list of tables", "[[rule]]"),
        ("[[rule]]\nwhen = \"a\"", 1, "rule.name is missing", "name ="),
        ("[[rule]]\nname = \"x\"\nwhen = 'a:('", 3, "rule.when: ", ""),
        ("[[rule]]\nname = \"x\"\nwhen = '@n:[1 TO'", 3, "rule.when: ", ""),
        ("[[rule]]\nname = \"x\"\nwhen = '/(/'", 3, "", ""),
        ("[[rule]]\nname = \"x\"\nwhne = 'a'", 3, "unknown key \"whne\"", "\"when\"?"),
        (
            "[[rule]]\nname = \"x\"\nto = [\"okk\"]\n[api]",
            3,
            "there is no output \"okk\"",
            "\"ok\"?",
        ),
        (
            "[store]\nenabled = false\n[[rule]]\nname = \"x\"\nto = [\"ok\"]",
            5,
            "default_to is missing",
            "default_to = [\"NAME\"]",
        ),
        (
            "[store]\nenabled = false\n[[rule]]\nname = \"x\"\nto = [\"store\"]",
            5,
            "there is no output \"store\"",
            "disabled",
        ),
        (
            "[[rule]]\nname = \"x\"\n[[rule]]\nname = \"x\"\nwhen = \"b\"",
            4,
            "two rules are called \"x\"",
            "unique",
        ),
        (
            "[[rule]]\nname = \"x\"\ndrop = true\nset = {\"@a\" = 1}",
            4,
            "rule.set has no effect",
            "remove one",
        ),
        ("[[rule]]\nname = \"x\"\nsample = \"0%\"", 3, "keeps nothing", "drop = true"),
        ("[[rule]]\nname = \"x\"\nsample = \"150%\"", 3, "rule.sample", ""),
        ("[[rule]]\nname = \"x\"\nsample = 0.1", 3, "rule.sample must be a share", ""),
        ("[[rule]]\nname = \"x\"\nparse = [\"jsn\"]", 3, "unknown format \"jsn\"", "\"json\"?"),
        ("[[rule]]\nname = \"x\"\nparse = [\"$a$b\"]", 3, "$a and $b have no separator", ""),
        ("[[rule]]\nname = \"x\"\nextract = '(a'", 3, "not a valid regular", ""),
        ("[[rule]]\nname = \"x\"\nextract = '(a)'", 3, "no named group", "(?<name>...)"),
    ]);
}

#[test]
fn wrong_changes_and_tests() {
    check(&[
        ("[[rule]]\nname = \"x\"\nset = { env = \"a\" }", 3, "\"env\" cannot be set", "\"@env\""),
        ("[[rule]]\nname = \"x\"\nset = { \"@a\" = \"{b\" }", 3, "never closed", ""),
        ("[[rule]]\nname = \"x\"\nset = { message = 1 }", 3, "message must be text", ""),
        (
            "[[rule]]\nname = \"x\"\nset = { \"@a\" = { calculated = \"1 +\" } }",
            3,
            "missing operand",
            "",
        ),
        (
            "[[rule]]\nname = \"x\"\nset = { \"@a\" = { calculated = \"5ms + 1KiB\" } }",
            3,
            "cannot be added",
            "",
        ),
        (
            "[[rule]]\nname = \"x\"\nset = { \"@a\" = { mesure = \"1\" } }",
            3,
            "exactly one key, calculated",
            "calculated =",
        ),
        (
            "[[rule]]\nname = \"x\"\nremove = [\"password\"]",
            3,
            "is not an attribute",
            "\"@password\"",
        ),
        (
            "[[rule]]\nname = \"x\"\nredact = [\"cards\"]",
            3,
            "unknown preset \"cards\"",
            "\"card\"?",
        ),
        (
            "[[rule]]\nname = \"x\"\nredact = [{ patern = \"x\" }]",
            3,
            "unknown key \"patern\"",
            "\"pattern\"?",
        ),
        (
            "[[rule]]\nname = \"x\"\nredact = [{ with = \"x\" }]",
            3,
            "either preset or pattern",
            "preset =",
        ),
        (
            "[[rule]]\nname = \"x\"\nredact = [{ preset = \"ip\", with = \"hash\" }]",
            3,
            "a hash needs a key",
            "key =",
        ),
        (
            "[[rule]]\nname = \"x\"\nredact = [{ pattern = 'a', field = \"b\" }]",
            3,
            "cannot be redacted",
            "@attribute",
        ),
        (
            "[[test]]\nname = \"t\"\nrecord = { message = [1] }",
            3,
            "cannot be a list",
            "text, a number",
        ),
        ("[[test]]\nname = \"t\"\nrecord = {}\nrules = [\"x\"]", 4, "there is no rule \"x\"", ""),
    ]);
}

#[test]
fn rule_lints() {
    check(&[
        (
            "[[rule]]\nname = \"x\"\nwhen = 'a'\n[[rule]]\nname = \"y\"\nwhen = 'a'",
            6,
            "matches the same records as \"x\"",
            "several outputs",
        ),
        ("[[rule]]\nname = \"x\"\nwhen = 'a -a'", 3, "can never match", ""),
        (
            "[[rule]]\nname = \"x\"\nwhen = 'a servce:web'",
            3,
            "rule.when: servce is not a reserved key",
            "did you mean service?",
        ),
        (
            "[[rule]]\nname = \"x\"\nwhen = 'host:10.0.0.0/33'",
            3,
            "10.0.0.0/33 is compared as text",
            "CIDR(host,10.0.0.0/32)",
        ),
        (
            "[[rule]]\nname = \"x\"\nwhen = '@d:>300parsecs'",
            3,
            "unknown unit parsecs",
            "units are ns us ms",
        ),
        (
            "[[rule]]\nname = \"x\"\nwhen = '/[0-9]+[a-z]+/'",
            3,
            "/[0-9]+[a-z]+/ contains no required literal",
            "word AND",
        ),
        (
            "[[rule]]\nname = \"x\"\nfinal = true\n[[rule]]\nname = \"y\"\nwhen = 'a'",
            6,
            "never reached",
            "",
        ),
    ]);
}

#[test]
fn wrong_http_outputs() {
    check(&[
        ("[output.b]\ntype = \"http\"", 1, "output.b.url", ""),
        ("[output.b]\ntype = \"http\"\nurl = \"http://a b/\"", 3, "not valid in a URL", ""),
        ("[output.b]\ntype = \"http\"\nurl = \"https://a/b<c\"", 3, "\"/b<c\"", "< as %3C"),
        ("[output.b]\ntype = \"http\"\nurl = \"https://a/#b\"", 3, "or a fragment", "from ? or #"),
        ("[output.b]\ntype = \"http\"\nurl = \"https://a:+1\"", 3, "invalid port \"+1\"", "1 to"),
        ("[output.b]\ntype = \"http\"\nurl = \"https://u:p@a\"", 3, "or password", "the @"),
        (
            "[output.b]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nuser = \"me\"",
            4,
            "requires password",
            "add password",
        ),
        (
            "[output.b]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nheaders = { \"a b\" = \"c\" }",
            4,
            "is not a valid header name",
            "",
        ),
        (
            "[output.b]\ntype = \"http\"\nurl = \"http://127.0.0.1/\"\nheaders = { Host = \"c\" }",
            4,
            "set by weir itself",
            "remove it",
        ),
        (
            "[output.b]\ntype = \"http\"\nurl = \"http://127.0.0.1/?a=b\"\nformat = \"xml\"",
            4,
            "\"ndjson\" or \"json\"",
            "",
        ),
    ]);
}

#[test]
fn wrong_socket_outputs() {
    check(&[
        ("[output.b]\ntype = \"socket\"\naddress = \"logs\"", 3, "not a host with a port", "514"),
        ("[output.b]\ntype = \"socket\"\naddress = \"logs:x\"", 3, "invalid port \"x\"", "65535"),
        ("[output.b]\ntype = \"socket\"\naddress = \"::1:514\"", 3, "invalid host", "in brackets"),
        ("[output.b]\ntype = \"socket\"\naddress = \"a:1/b\"", 3, "not a host with a port", "514"),
        (
            "[output.b]\ntype = \"socket\"\naddress = \"a:1\"\ntls = { server_name = \"a\" }",
            4,
            "is not encrypted",
            "protocol",
        ),
        ("[output.b]\ntype = \"socket\"\naddress = \"a:1\"\nprotocol = \"sctp\"", 4, "\"tcp\"", ""),
    ]);
}

#[test]
fn world_readable_secret_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    let path = secret.display();
    let outputs = |lines: &str| format!("[output.b]\n{lines}\n");
    let http = "type = \"http\"\nurl = \"https://a/\"";
    let uses = [
        outputs(&format!(
            "type = \"splunk_hec\"\nendpoint = \"https://a\"\ntoken = {{ file = {path:?} }}"
        )),
        outputs(&format!("{http}\nbearer = {{ file = {path:?} }}")),
        outputs(&format!("{http}\nuser = \"me\"\npassword = {{ file = {path:?} }}")),
        outputs(&format!("{http}\ntls = {{ key_file = {path:?} }}")),
        format!(
            "[[rule]]\nwhen = \"*\"\nredact = [{{ preset = \"card\", with = \"hash\", \
             key = {{ file = {path:?} }} }}]"
        ),
    ];
    for text in uses {
        for (mode, is_reported) in [(0o644, true), (0o640, false)] {
            std::fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
            let loaded = loaded(&format!("{REST}{text}\n"));
            let warning = loaded.diagnostics.0.iter().find(|d| d.message.contains("every user"));
            assert_eq!(warning.is_some(), is_reported, "{text}");
            if let Some(warning) = warning {
                assert_eq!(warning.message, format!("every user can read {path}"), "{text}");
                assert_eq!(warning.help, [format!("chmod 600 {path}")], "{text}");
            }
        }
    }
}

#[test]
fn a_file_that_the_fields_of_another_output_could_name_is_a_warning() {
    let file = |name: &str, path: &str| {
        format!("[output.{name}]\ntype = \"file\"\npath = \"/tmp/weir-x/{path}\"\n")
    };
    let loaded =
        loaded(&format!("{REST}{}{}", file("b", "{host}/access.log"), file("c", "web/access.log")));
    let [warning] = &loaded.diagnostics.0[..] else { panic!("{:?}", loaded.diagnostics.0) };
    assert!(!loaded.diagnostics.has_errors());
    let text = "/tmp/weir-x/web/access.log could also be written by output \"b\"";
    assert_eq!(warning.message, text);
}
