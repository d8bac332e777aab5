//! Mistakes in the settings of outputs that send syslog, and metrics.

use super::check;
use crate::config::tests::{REST, loaded};
use weir_pipeline::config::{OutputKind, SyslogFormat, SyslogOutputFraming};
use weir_pipeline::output::{SyslogOutput, SyslogTransport};

#[test]
fn wrong_syslog_outputs() {
    check(&[
        ("[output.b]\ntype = \"syslog\"\n", 1, "output.b.address", ""),
        ("[output.b]\ntype = \"syslog\"\naddress = \"logs\"", 3, "not a host with a port", "514"),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nprotocol = \"dtls\"",
            4,
            "\"relp\"",
            "",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nformat = \"rfc5425\"",
            4,
            "\"rfc5424\" or \"rfc3164\"",
            "",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nframing = \"auto\"",
            4,
            "\"octet_counted\" or \"newline\"",
            "",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\ntls = { server_name = \"a\" }",
            4,
            "is not encrypted",
            "protocol",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nprotocol = \"udp\"\nframing = \"newline\"",
            5,
            "has no effect with protocol = \"udp\"",
            "remove it",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nprotocol = \"relp\"\nframing = \"newline\"",
            5,
            "has no effect with protocol = \"relp\"",
            "remove it",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nunanswered_max = 8",
            4,
            "has no effect with protocol = \"tcp\"",
            "remove it",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nprotocol = \"tls\"\nack_timeout = \"1m\"",
            5,
            "has no effect with protocol = \"tls\"",
            "remove it",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nprotocol = \"relp\"\nunanswered_max = 2000",
            5,
            "1024",
            "",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nprotocol = \"udp\"\nmessage_max = \"64KiB\"",
            5,
            "at most 65507 bytes",
            "tcp",
        ),
    ]);
}

#[test]
fn wrong_metrics_outputs() {
    let key = "api_key = { env = \"PATH\" }";
    let without_metrics = format!("[output.b]\ntype = \"datadog_metrics\"\n{key}");
    let with_query = format!("{without_metrics}\nurl = \"https://api.datadoghq.com?a=b\"");
    let metrics = "[source.cf]\ntype = \"loggregator\"\n";
    let [one, other, no_key] = [
        without_metrics,
        format!("{metrics}{with_query}"),
        format!("{metrics}[output.b]\ntype = \"datadog_metrics\""),
    ]
    .map(|text| &*text.leak());
    check(&[
        (one, 1, "carries metrics only", "another output"),
        (other, 6, "has a query", "remove it"),
        (no_key, 3, "output.b.api_key is missing", ""),
    ]);
}

#[test]
fn more_wrong_syslog_outputs() {
    check(&[
        ("[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nmessage_max = \"479B\"", 4, "480", ""),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\ntimezone = \"Berlin\"",
            4,
            "not a time zone",
            "",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\ntimezone = \"Europe/Berlin\"",
            4,
            "RFC 5424 timestamps include their zone",
            "remove it",
        ),
        (
            "[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\nretry_min = \"40s\"",
            4,
            "exceeds its retry_max",
            "",
        ),
    ]);
}

/// Returns the settings of an output with these keys.
fn planned(keys: &str) -> SyslogOutput {
    let text = format!("{REST}[output.b]\ntype = \"syslog\"\naddress = \"a:1\"\n{keys}\n");
    let loaded = loaded(&text);
    assert!(loaded.diagnostics.0.is_empty(), "{keys}: {:?}", loaded.diagnostics.0);
    let plan = loaded.plan.unwrap();
    let output = plan.pipeline.outputs.into_iter().find(|output| output.name == "b").unwrap();
    let OutputKind::Syslog(syslog) = output.kind else { panic!("{:?}", output.kind) };
    *syslog
}

#[test]
fn the_protocol_of_a_syslog_output_determines_framing_size_and_tls() {
    let lines = SyslogTransport::Stream(SyslogOutputFraming::Lines);
    let counted = SyslogTransport::Stream(SyslogOutputFraming::OctetCounted);
    let relp = SyslogTransport::Relp {
        unanswered_max: 128,
        ack_timeout: std::time::Duration::from_secs(90),
    };
    let cases = [
        ("", lines, 65_536, false),
        ("framing = \"octet_counted\"", counted, 65_536, false),
        ("protocol = \"tls\"", counted, 65_536, true),
        ("protocol = \"tls\"\nframing = \"newline\"", lines, 65_536, true),
        ("protocol = \"udp\"", SyslogTransport::Datagrams, 8192, false),
        ("protocol = \"udp\"\nmessage_max = \"480B\"", SyslogTransport::Datagrams, 480, false),
        ("protocol = \"relp\"", relp, 65_536, false),
        ("protocol = \"relp\"\ntls = {}", relp, 65_536, true),
    ];
    for (keys, transport, bytes_max, is_tls) in cases {
        let planned = planned(keys);
        assert_eq!(planned.transport, transport, "{keys}");
        assert_eq!(planned.message_bytes_max, bytes_max, "{keys}");
        assert_eq!(planned.tls.is_some(), is_tls, "{keys}");
        assert_eq!(planned.format, SyslogFormat::Rfc5424, "{keys}");
    }
    assert_eq!(planned("format = \"rfc3164\"").format, SyslogFormat::Rfc3164);
}
