//! Mistakes in the settings of sources that listen.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::check;

#[test]
fn wrong_listeners() {
    check(&[
        (
            "[source.b]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\nin_flight_max = \"400MiB\"\n[limits]\nmemory = \"512MiB\"",
            6,
            "listening sources 438MiB",
            "set limits.memory to 614MiB",
        ),
        (
            "[source.b]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:7080\"",
            3,
            "the port 7080 is already used",
            "another port",
        ),
        (
            "[source.b]\ntype = \"datadog_intake\"\nlisten = \"[::1]:8282\"\n[source.c]\ntype = \"datadog_intake\"\nlisten = \"[::]:8282\"\napi_keys = { env = \"PATH\" }",
            6,
            "the port 8282 is already used",
            "another port",
        ),
        (
            "[source.b]\ntype = \"datadog_intake\"\nlisten = \"0.0.0.0:8282\"",
            3,
            "any client that reaches 0.0.0.0:8282",
            "add api_keys",
        ),
        ("[source.b]\ntype = \"datadog_intake\"", 1, "source.b.listen is missing", ""),
        (
            "[source.b]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\napi_keys = \"abc\"",
            4,
            "api_keys cannot be written",
            "",
        ),
    ]);
}

#[test]
fn wrong_syslog_sources() {
    check(&[
        ("[source.b]\ntype = \"syslog\"", 1, "source.b.listen is missing", "an address such as"),
        (
            "[source.b]\ntype = \"syslog\"\nprotocol = \"unix_datagram\"",
            1,
            "source.b.path is missing",
            "a path such as",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nprotocol = \"tpc\"\nlisten = \"127.0.0.1:0\"",
            3,
            "\"tpc\"",
            "\"tcp\"",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nprotocol = \"udp\"\nlisten = \"127.0.0.1:0\"\nframing = \"newline\"",
            5,
            "has no effect with protocol = \"udp\"",
            "remove it",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\npath = \"/run/x\"",
            4,
            "has no effect with protocol = \"tcp\"",
            "remove it",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\nallow = [\"10.0.0.0/8\", \"10.0/8\"]",
            4,
            "\"10.0/8\" is not a network",
            "\"10.0.0.0/8\"",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\ntimezone = \"Europe/Berln\"",
            4,
            "is not a time zone",
            "",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nprotocol = \"unix_stream\"\npath = \"/run/x\"\npath_mode = \"rw\"",
            5,
            "is not a mode in octal",
            "\"0666\"",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"0.0.0.0:514\"",
            3,
            "any client that reaches 0.0.0.0:514",
            "add allow",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:5140\"\n[source.c]\ntype = \"syslog\"\nlisten = \"127.0.0.1:5140\"\nprotocol = \"relp\"",
            6,
            "the port 5140 is already used",
            "another port",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nprotocol = \"unix_stream\"\npath = \"/run/x\"\n[source.c]\ntype = \"syslog\"\nprotocol = \"unix_datagram\"\npath = \"/run/x\"",
            8,
            "/run/x is already used",
            "another path",
        ),
    ]);
}

#[test]
fn wrong_rate_limits() {
    check(&[
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n[source.b.rate_limit]\nburst = \"5s\"",
            4,
            "source.b.rate_limit limits nothing",
            "records_per_second, bytes_per_second, or both",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\nrate_limit = 1000",
            4,
            "source.b.rate_limit must be",
            "",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\nthreads = 17",
            4,
            "must be from 1 to 16",
            "",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nprotocol = \"udp\"\nlisten = \"127.0.0.1:0\"\n[source.b.rate_limit]\nrecords_per_second = 10\nwhen_limited = \"delay\"",
            7,
            "source.b.rate_limit.when_limited cannot be \"delay\": datagrams cannot be delayed",
            "\"discard\"",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n[source.b.rate_limit]\nrecords_per_second = 10\nby = [\"host\", \"app_nam\"]",
            6,
            "\"app_nam\" is not a field of source.b.rate_limit.by",
            "\"app_name\"",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n[source.b.rate_limit]\nrecords_per_second = 10\nby = [\"service\", \"app_name\"]",
            6,
            "names the same field twice",
            "remove one",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n[source.b.rate_limit]\nrecords_per_second = 10\nby = []",
            6,
            "source.b.rate_limit.by is empty",
            "[\"host\"]",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nprotocol = \"unix_stream\"\npath = \"/run/x\"\n[source.b.rate_limit]\nrecords_per_second = 10\nby = [\"peer\"]",
            7,
            "senders to a Unix socket have no address",
            "\"app_name\"",
        ),
        (
            "[source.b]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n[source.b.rate_limit]\nrecords_per_second = 10\nby = [\"app_name\"]",
            6,
            "have no app_name",
            "\"service\"",
        ),
        (
            "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n[source.b.rate_limit]\nbytes_per_second = \"1B\"",
            5,
            "source.b.rate_limit.bytes_per_second",
            "",
        ),
    ]);
}

#[test]
fn the_memory_of_a_rate_limit_is_planned() {
    let source = "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:0\"\n";
    let limit = "[source.b.rate_limit]\nrecords_per_second = 10\n";
    let rest = "[output.a]\ntype = \"blackhole\"\n[limits]\nmemory = \"48MiB\"\n";
    let needed = |text: &str| {
        let found = super::loaded(text).diagnostics.0;
        found[0].message.clone()
    };
    let (without, with) =
        (needed(&[source, rest].concat()), needed(&[source, limit, rest].concat()));
    assert_ne!(without, with);
    assert!(with.contains("listening sources"), "{with}");
}

#[test]
fn tcp_and_udp_may_have_the_same_port() {
    let loaded = super::loaded(
        "[source.b]\ntype = \"syslog\"\nlisten = \"127.0.0.1:5140\"\n\
         [source.c]\ntype = \"syslog\"\nprotocol = \"udp\"\nlisten = \"127.0.0.1:5140\"\n\
         [output.a]\ntype = \"blackhole\"\n",
    );
    assert!(loaded.diagnostics.0.is_empty(), "{:?}", loaded.diagnostics.0);
}

#[test]
fn wrong_services_for_readers() {
    check(&[
        (
            "[loggregator.egress]\nlisten = \"0.0.0.0:8082\"",
            2,
            "every client that can connect to 0.0.0.0:8082 could read the logs of all applications",
            "client_ca_file",
        ),
        (
            "[loggregator.gateway]\nlisten = \"127.0.0.1:7080\"",
            2,
            "the port 7080 is already used",
            "another port",
        ),
        (
            "[loggregator]\nbuffer_max = \"400MiB\"\n[loggregator.gateway]\n[limits]\nmemory = \"512MiB\"",
            5,
            "readers of envelopes 416MiB",
            "set limits.memory to",
        ),
        (
            "[loggregator]\nusual_set = false\nbuffer_max = \"400MiB\"",
            3,
            "loggregator.buffer_max has no effect",
            "add [loggregator.egress]",
        ),
        ("[loggregator.egress]\nport = 1", 2, "port", ""),
        (
            "[loggregator.log_cache]\n[store]\nenabled = false",
            1,
            "the log-cache answers from the store, which is disabled",
            "set store.enabled = true",
        ),
    ]);
}

#[test]
fn keys_that_no_client_or_every_client_could_send_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let source = |name: &str, keys: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, keys).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        format!(
            "[source.b]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n\
             api_keys = {{ file = {path:?} }}"
        )
    };
    let (empty, invisible) =
        (source("empty", ","), source("invisible", "\u{feff}0123456789abcdef"));
    check(&[
        (&empty, 4, "one of the keys is empty", "single commas"),
        (&invisible, 4, "a key contains a character that is not ASCII", "byte order mark"),
    ]);
}
