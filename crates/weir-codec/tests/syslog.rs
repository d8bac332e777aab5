//! Received syslog: framing and messages, with the forms of real programs and devices.

use proptest::prelude::*;
use weir_codec::{
    SyslogDecoder, SyslogEnd, SyslogFormat, SyslogFraming, SyslogFramingError, SyslogFramingKind,
    SyslogMessage, SyslogOrigin, SyslogStep, parse_rfc3339, syslog_datagram,
};
use weir_model::{BatchBuilder, Facility, Position, RecordFlags, Severity, SourceBook};

/// 2026-11-21T19:12:31Z.
const NOW_NS: i64 = 1_795_288_351_000_000_000;

/// What a stream contained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Received {
    messages: Vec<(Vec<u8>, bool)>,
    skipped: usize,
    unfinished: Option<usize>,
    error: Option<SyslogFramingError>,
}

/// Reads a stream in pieces of these lengths, repeatedly, as a session does.
fn receive(kind: SyslogFramingKind, max: usize, stream: &[u8], pieces: &[usize]) -> Received {
    let mut framing = SyslogFraming::new(kind, max);
    let mut out = Received::default();
    let (mut buffer, mut at) = (Vec::new(), 0);
    for piece in pieces.iter().cycle() {
        if at == stream.len() {
            break;
        }
        // A session reads only into the room that it has.
        let room = framing.buffer_bytes() - buffer.len();
        assert!(room > 0, "no progress with a full buffer");
        let end = (at + piece.min(&room)).min(stream.len());
        buffer.extend_from_slice(&stream[at..end]);
        at = end;
        if let Err(error) = drain(&mut framing, &mut buffer, &mut out) {
            out.error = Some(error);
            return out;
        }
    }
    match framing.finish(&buffer) {
        SyslogEnd::Nothing => {}
        SyslogEnd::Message { span, skipped } => {
            out.messages.push((buffer[span].to_vec(), skipped > 0));
            out.skipped += skipped;
        }
        SyslogEnd::Unfinished { received } => out.unfinished = Some(received),
    }
    out
}

fn drain(
    framing: &mut SyslogFraming,
    buffer: &mut Vec<u8>,
    out: &mut Received,
) -> Result<(), SyslogFramingError> {
    loop {
        let consumed = match framing.next(buffer) {
            SyslogStep::Message { span, consumed, is_truncated } => {
                assert!(!span.is_empty() && span.end <= consumed);
                out.messages.push((buffer[span].to_vec(), is_truncated));
                consumed
            }
            SyslogStep::Skipped { consumed } => {
                out.skipped += consumed;
                consumed
            }
            SyslogStep::NeedMore { consumed } => {
                buffer.drain(..consumed);
                return Ok(());
            }
            SyslogStep::Failed(error) => return Err(error),
        };
        assert!(consumed > 0, "a step without progress");
        buffer.drain(..consumed);
    }
}

fn detect(stream: &[u8]) -> Received {
    receive(SyslogFramingKind::Detect, 64, stream, &[usize::MAX])
}

fn texts(received: &Received) -> Vec<&str> {
    received.messages.iter().map(|(text, _)| std::str::from_utf8(text).unwrap()).collect()
}

#[test]
fn both_framings_are_found_in_one_stream() {
    let received = detect(b"<1>a\n5 <2>bc<3>d\r\n\n7 <4>e\nf\n\n6 <5>g\r\n<6>h\0<7>i");
    assert_eq!(texts(&received), ["<1>a", "<2>bc", "<3>d", "<4>e\nf", "<5>g", "<6>h", "<7>i"]);
    assert_eq!((received.skipped, received.unfinished, received.error), (0, None, None));
}

#[test]
fn a_line_may_begin_with_digits_if_it_is_no_length() {
    let received = detect(b"2026-11-21T19:12:31Z host app: x\n10.0.0.1 y\n42\n0 z\n");
    assert_eq!(texts(&received), ["2026-11-21T19:12:31Z host app: x", "10.0.0.1 y", "42", "0 z"]);
    let received = receive(SyslogFramingKind::Lines, 64, b"3 <1>\n<2>\n", &[1]);
    assert_eq!(texts(&received), ["3 <1>", "<2>"]);
}

#[test]
fn an_invalid_length_ends_the_session() {
    use SyslogFramingError::{LengthTooLong, NoLength, NoSpace};
    let error = |kind, stream: &[u8]| receive(kind, 64, stream, &[1]).error;
    let (detect, counted) = (SyslogFramingKind::Detect, SyslogFramingKind::OctetCounted);
    for digits in ["12345678", "4294967296", "18446744073709551616", "99999999999999999999"] {
        assert_eq!(error(detect, digits.as_bytes()), Some(LengthTooLong));
        assert_eq!(error(counted, format!("{digits} <1>").as_bytes()), Some(LengthTooLong));
    }
    assert_eq!(error(counted, b"0 "), Some(NoLength { byte: b'0' }));
    assert_eq!(error(counted, b"4 <1>a<2>b\n"), Some(NoLength { byte: b'<' }));
    assert_eq!(error(counted, b"4\n"), Some(NoSpace { byte: b'\n' }));
    assert_eq!(error(detect, b"9999999 x"), None);
}

#[test]
fn a_message_that_is_too_long_is_truncated_and_the_rest_counted() {
    let long = "a".repeat(100);
    for (stream, is_counted) in
        [(format!("{long}\n<1>b\n"), false), (format!("100 {long}<1>b\n"), true)]
    {
        let received = detect(stream.as_bytes());
        assert_eq!(received.messages[0], (vec![b'a'; 64], true));
        assert_eq!(received.messages[1], (b"<1>b".to_vec(), false));
        assert_eq!((received.messages.len(), received.skipped), (2, 36), "{is_counted}");
    }
    // Exactly the limit, with each line end.
    for end in ["\n", "\r\n", "\0", ""] {
        let received = detect(format!("{}{end}", "b".repeat(64)).as_bytes());
        assert_eq!(received.messages, [(vec![b'b'; 64], false)]);
        assert_eq!(received.skipped, 0);
    }
    // A character is not split.
    let received = detect(format!("{}é tail\n", "c".repeat(63)).as_bytes());
    assert_eq!(received.messages, [(vec![b'c'; 63], true)]);
    assert_eq!(received.skipped, "é tail".len());
}

#[test]
fn the_end_of_a_stream_keeps_a_line_and_reports_an_unfinished_message() {
    assert_eq!(texts(&detect(b"<1>a\n<2>b")), ["<1>a", "<2>b"]);
    assert_eq!(texts(&detect(b"<1>a\n<2>b\r")), ["<1>a", "<2>b"]);
    let received = detect(b"4 <1>a10 <2>b");
    assert_eq!((texts(&received), received.unfinished), (vec!["<1>a"], Some(4)));
    assert_eq!(detect(b"4 <1>a10").unfinished, Some(0));
    assert_eq!(detect(b"\n\r\n\0"), Received::default());
    // The rest of a truncated message is missing: it is a message nevertheless.
    let received = detect(format!("200 {}", "x".repeat(80)).as_bytes());
    assert_eq!((received.messages.len(), received.skipped), (1, 16));
}

#[test]
fn a_datagram_is_one_message() {
    assert_eq!(syslog_datagram(b"<1>a\nb\r\n\0", 64), (b"<1>a\nb".as_slice(), 0));
    assert_eq!(syslog_datagram(b"<1>abc", 4), (b"<1>a".as_slice(), 2));
    assert_eq!(syslog_datagram(b"", 4), (b"".as_slice(), 0));
}

/// Expected parts of a message: time, host, program, process, message id, body.
type Parts<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, &'a str);

fn text(part: &[u8]) -> &str {
    std::str::from_utf8(part).unwrap()
}

fn assert_parts(message: &SyslogMessage<'_>, want: Parts<'_>) {
    let (time, hostname, app_name, process_id, message_id, body) = want;
    let line = text(message.line);
    assert_eq!(message.time_ns, parse_rfc3339(time.as_bytes()), "{line}");
    assert_eq!(text(message.hostname), hostname, "{line}");
    assert_eq!(text(message.app_name), app_name, "{line}");
    assert_eq!(text(message.process_id), process_id, "{line}");
    assert_eq!(text(message.message_id), message_id, "{line}");
    assert_eq!(text(message.body), body, "{line}");
}

const T: &str = "2026-10-11T22:14:15Z";

/// Forms of RFC 3164, as written by programs and devices.
const BSD: &[(&str, Parts<'_>)] = &[
    (
        "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
        (T, "mymachine", "su", "", "", "'su root' failed"),
    ),
    (
        "<13>Oct  1 02:04:05 10.0.0.99 Use the BFG!",
        ("2026-10-01T02:04:05Z", "10.0.0.99", "", "", "", "Use the BFG!"),
    ),
    (
        "Oct 11 22:14:15 combo sshd(pam_unix)[19939]: failure",
        (T, "combo", "sshd(pam_unix)", "19939", "", "failure"),
    ),
    (
        "<22>Oct 11 22:14:15 mx postfix/smtpd[123]: connect",
        (T, "mx", "postfix/smtpd", "123", "", "connect"),
    ),
    (
        "<6>Oct 11 22:14:15 host kernel: [   12.345678] eth0: up",
        (T, "host", "kernel", "", "", "[   12.345678] eth0: up"),
    ),
    (
        "<30>Oct 11 22:14:15 mac Google Chrome[35628]: text",
        (T, "mac", "Google Chrome", "35628", "", "text"),
    ),
    (
        "<30>Oct 11 22:14:15 mac com.apple.xpc.launchd[1] (com.foo[9]): Exited",
        (T, "mac", "com.apple.xpc.launchd", "1", "", "(com.foo[9]): Exited"),
    ),
    // Without a host, as programs write to the local socket.
    ("<13>Oct 11 22:14:15 app[42]: text", (T, "", "app", "42", "", "text")),
    ("<13>Oct 11 22:14:15 app: text", (T, "", "app", "", "", "text")),
    (
        "<13>Oct 11 22:14:15 last message repeated 3 times",
        (T, "", "", "", "", "last message repeated 3 times"),
    ),
    (
        "<13>Oct 11 22:14:15 host last message repeated 3 times",
        (T, "host", "", "", "", "last message repeated 3 times"),
    ),
    ("<13>Oct 11 22:14:15 fe80::1 app: text", (T, "fe80::1", "app", "", "", "text")),
    // Not a year.
    ("<13>Oct 11 22:14:15 2001:db8::1 app: text", (T, "2001:db8::1", "app", "", "", "text")),
    (
        "<13>Oct 11 2025 22:14:15 2001:db8::1 app[4]: text",
        ("2025-10-11T22:14:15Z", "2001:db8::1", "app", "4", "", "text"),
    ),
    // The text is not taken for a program.
    (
        "<13>Oct 11 22:14:15 h http://example.com/ fetched",
        (T, "h", "", "", "", "http://example.com/ fetched"),
    ),
    ("<13>Oct 11 22:14:15 h std::bad_alloc", (T, "h", "", "", "", "std::bad_alloc")),
    ("<13>Oct 11 22:14:15 h {\"a\": 1}", (T, "h", "", "", "", "{\"a\": 1}")),
    ("<13>Oct 11 22:14:15 {\"a\": 1}", (T, "", "", "", "", "{\"a\": 1}")),
    ("<13>Oct 11 22:14:15 h two words: text", (T, "h", "", "", "", "two words: text")),
    ("<13>Oct 11 22:14:15 h app:", (T, "h", "app", "", "", "")),
    ("<13>Oct 11 22:14:15 h", (T, "h", "", "", "", "")),
    // Other times.
    (
        "<13>2026-10-11T22:14:15.5+02:00 host app: text",
        ("2026-10-11T20:14:15.5Z", "host", "app", "", "", "text"),
    ),
    (
        "<13>2026-10-11 22:14:15,25 host app: text",
        ("2026-10-11T22:14:15.25Z", "host", "app", "", "", "text"),
    ),
    (
        "<13>2026-10-11T22:14:15+0200 host app: text",
        ("2026-10-11T20:14:15Z", "host", "app", "", "", "text"),
    ),
    (
        "<13>Oct 11 22:14:15.123456 host app: text",
        ("2026-10-11T22:14:15.123456Z", "host", "app", "", "", "text"),
    ),
    ("<13>Oct 1 22:14:15 host app: text", ("2026-10-01T22:14:15Z", "host", "app", "", "", "text")),
    (
        "<13>Oct 11 22:14:15 2024 host app: text",
        ("2024-10-11T22:14:15Z", "host", "app", "", "", "text"),
    ),
    (
        "<13>2024 Oct 11 22:14:15 host app: text",
        ("2024-10-11T22:14:15Z", "host", "app", "", "", "text"),
    ),
    (
        "<13>Oct 11 22:14:15 CEST host app: text",
        ("2026-10-11T20:14:15Z", "host", "app", "", "", "text"),
    ),
    (
        "<13>Oct 11 22:14:15 -0500 host app: text",
        ("2026-10-12T03:14:15Z", "host", "app", "", "", "text"),
    ),
    // There is no such time.
    ("<13>Oct 32 22:14:15 host app: x", ("", "host", "app", "", "", "x")),
    ("<13>Oct 11 24:14:15 host app: x", ("", "host", "app", "", "", "x")),
    ("<13>Feb 29 22:14:15 host app: x", ("", "host", "app", "", "", "x")),
    ("<13>Dec 31 23:59:59 host app: x", ("2026-12-31T23:59:59Z", "host", "app", "", "", "x")),
    ("<13>Jan  1 00:00:00 host app: x", ("2027-01-01T00:00:00Z", "host", "app", "", "", "x")),
];

/// Network devices.
const DEVICES: &[(&str, Parts<'_>)] = &[
    (
        "<166>Oct 11 2025 22:14:15: %ASA-6-302013: Built outbound",
        ("2025-10-11T22:14:15Z", "", "%ASA-6-302013", "", "", "Built outbound"),
    ),
    (
        "<166>Oct 11 2025 22:14:15 fw1 : %ASA-6-302013: Built",
        ("2025-10-11T22:14:15Z", "fw1", "%ASA-6-302013", "", "", "Built"),
    ),
    (
        "<166>Oct 11 2025 22:14:15 fw1: %ASA-6-302013: Built",
        ("2025-10-11T22:14:15Z", "fw1", "%ASA-6-302013", "", "", "Built"),
    ),
    (
        "<166>Oct 11 22:14:15 app[4]: %ASA-6-302013: Built",
        (T, "", "app", "4", "", "%ASA-6-302013: Built"),
    ),
    ("<166>Oct 11 22:14:15 app: %d of 5: x", (T, "", "app", "", "", "%d of 5: x")),
    (
        "<166>:Oct 11 22:14:15 UTC: %ASA-session-5-1: text",
        (T, "", "%ASA-session-5-1", "", "", "text"),
    ),
    ("<166>%ASA-6-302013: Built", ("", "", "%ASA-6-302013", "", "", "Built")),
    (
        "<189>45: *Oct 11 22:14:15.123: %SYS-5-CONFIG_I: Configured",
        ("2026-10-11T22:14:15.123Z", "", "%SYS-5-CONFIG_I", "", "", "Configured"),
    ),
    (
        "<189>000045: .Oct 11 22:14:15.123 CET: %LINK-3-UPDOWN: up",
        ("2026-10-11T21:14:15.123Z", "", "%LINK-3-UPDOWN", "", "", "up"),
    ),
    (
        "<189>45: router1: *Oct 11 22:14:15: %SYS-5-CONFIG_I: x",
        (T, "router1", "%SYS-5-CONFIG_I", "", "", "x"),
    ),
    (
        "<187>: 2025 Oct 11 22:14:15.5 UTC: %ETHPORT-5-IF_UP: up",
        ("2025-10-11T22:14:15.5Z", "", "%ETHPORT-5-IF_UP", "", "", "up"),
    ),
    (
        "*Oct 11 22:14:15.123: %SYS-5-CONFIG_I: Configured",
        ("2026-10-11T22:14:15.123Z", "", "%SYS-5-CONFIG_I", "", "", "Configured"),
    ),
];

const RFC5424: &[(&str, Parts<'_>, &str)] = &[
    (
        "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed",
        ("2003-10-11T22:14:15.003Z", "mymachine.example.com", "su", "", "ID47", "'su root' failed"),
        "",
    ),
    (
        "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time",
        ("2003-08-24T12:14:15.000003Z", "192.0.2.1", "myproc", "8710", "", "%% It's time"),
        "",
    ),
    (
        "<165>1 2003-10-11T22:14:15.003Z h evntslog - ID47 [ex@32473 iut=\"3\" q=\"a\\]\"][p@1 c=\"high\"]",
        ("2003-10-11T22:14:15.003Z", "h", "evntslog", "", "ID47", ""),
        "[ex@32473 iut=\"3\" q=\"a\\]\"][p@1 c=\"high\"]",
    ),
    (
        "<13>1 2026-11-21t19:15:55.143114123z vm app 42 M1 [t x=\"1\"] wörld",
        ("2026-11-21T19:15:55.143114123Z", "vm", "app", "42", "M1", "wörld"),
        "[t x=\"1\"]",
    ),
    ("<13>1 - - app - - - udp 5424", ("", "", "app", "", "", "udp 5424"), ""),
    ("<13>1 - - - - - -", ("", "", "", "", "", ""), ""),
    (
        "<13>1 2026-11-21T19:15:55 h app - - - no zone",
        ("2026-11-21T19:15:55Z", "h", "app", "", "", "no zone"),
        "",
    ),
    ("<13>1 - h a - - - -", ("", "h", "a", "", "", "-"), ""),
    ("<13>1 - h a - - - [not data] x", ("", "h", "a", "", "", "[not data] x"), ""),
];

#[test]
fn bsd_messages_are_read_as_programs_write_them() {
    let mut decoder = SyslogDecoder::new();
    for (line, want) in BSD {
        let message = decoder.parse(line.as_bytes(), NOW_NS);
        assert_parts(&message, *want);
        assert_eq!((message.format, message.is_malformed), (Some(SyslogFormat::Rfc3164), false));
        // Again, with what the decoder remembers.
        assert_parts(&decoder.parse(line.as_bytes(), NOW_NS), *want);
    }
}

#[test]
fn messages_of_network_devices_are_read() {
    let mut decoder = SyslogDecoder::new();
    for (line, want) in DEVICES.iter().chain(DEVICES) {
        let message = decoder.parse(line.as_bytes(), NOW_NS);
        assert_parts(&message, *want);
        assert!(!message.is_malformed);
    }
}

#[test]
fn rfc_5424_is_read() {
    let mut decoder = SyslogDecoder::new();
    for (line, want, data) in RFC5424 {
        let message = decoder.parse(line.as_bytes(), NOW_NS);
        assert_parts(&message, *want);
        assert_eq!(text(message.structured_data), *data, "{line}");
        assert_eq!((message.format, message.is_malformed), (Some(SyslogFormat::Rfc5424), false));
    }
}

#[test]
fn malformed_structured_data_is_part_of_the_text() {
    let mut decoder = SyslogDecoder::new();
    for rest in
        ["[a b=\"c", "[a b=c] text", "[] x", "text without data", "", "-x", "[a b=\"\\\"] x"]
    {
        let line = format!("<13>1 - h app - - {rest}");
        let message = decoder.parse(line.as_bytes(), NOW_NS);
        assert!(message.is_malformed, "{line}");
        assert_parts(&message, ("", "h", "app", "", "", rest));
    }
}

#[test]
fn anything_else_is_text() {
    let mut decoder = SyslogDecoder::new();
    for (line, body, is_malformed) in [
        ("hello world", "hello world", true),
        ("<14>hello: world", "hello: world", false),
        ("<14>app[42]: world", "world", false),
        ("<192>x", "<192>x", true),
        ("<>x", "<>x", true),
        ("<-1>x", "<-1>x", true),
        ("</>x", "</>x", true),
        ("<1234>x", "<1234>x", true),
        ("<13>1 yesterday h a - - - x", "1 yesterday h a - - - x", false),
        ("<13>1 - h a  - - x", "1 - h a  - - x", false),
        ("<13>Oct 11 22:14:15abc", "Oct 11 22:14:15abc", false),
        ("<13>", "", false),
        ("", "", true),
        ("\u{16}\u{3}\u{1}", "\u{16}\u{3}\u{1}", true),
        ("GET / HTTP/1.1", "GET / HTTP/1.1", true),
    ] {
        let message = decoder.parse(line.as_bytes(), NOW_NS);
        assert_eq!((text(message.body), message.is_malformed), (body, is_malformed), "{line}");
        assert_eq!((message.format, message.time_ns), (None, None), "{line}");
    }
}

#[test]
fn a_priority_states_facility_and_severity_and_nothing_else_does() {
    let mut decoder = SyslogDecoder::new();
    let mut stated = |line: &str| {
        let message = decoder.parse(line.as_bytes(), NOW_NS);
        (message.facility.code(), message.severity)
    };
    assert_eq!(stated("<0>x"), (Some(0), Severity::FATAL));
    assert_eq!(stated("<191>x"), (Some(23), Severity::DEBUG));
    assert_eq!(stated("<013>x"), (Some(1), Severity::NOTICE));
    assert_eq!(stated("Oct 11 22:14:15 h app: x"), (None, Severity::UNSPECIFIED));
    assert_eq!(Facility::NONE.code(), None);
}

#[test]
fn a_time_without_zone_is_in_the_configured_one() {
    let mut decoder = SyslogDecoder::new();
    decoder.set_utc_offset(-5 * 3600);
    let mut time = |line: &str, near: &str| {
        let near_ns = parse_rfc3339(near.as_bytes()).unwrap();
        decoder.parse(line.as_bytes(), near_ns).time_ns
    };
    let at = |text: &str| parse_rfc3339(text.as_bytes());
    let line = "<13>Dec 31 23:30:00 h a: x";
    assert_eq!(time(line, "2027-01-01T04:31:00Z"), at("2027-01-01T04:30:00Z"));
    assert_eq!(time(line, "2026-01-01T04:31:00Z"), at("2026-01-01T04:30:00Z"));
    assert_eq!(
        time("<13>Dec 31 23:30:00 UTC h a: x", "2027-01-01T04:31:00Z"),
        at("2026-12-31T23:30:00Z")
    );
    assert_eq!(
        time("<13>2026-12-31 23:30:00 h a: x", "2027-01-01T04:31:00Z"),
        at("2027-01-01T04:30:00Z")
    );
    let leap_day = time("<13>Feb 29 00:00:00 h a: x", "2029-01-01T00:00:00Z");
    assert_eq!(leap_day, at("2028-02-29T05:00:00Z"));
    decoder.set_utc_offset(0);
    let near_ns = at("2027-01-01T04:31:00Z").unwrap();
    assert_eq!(decoder.parse(line.as_bytes(), near_ns).time_ns, at("2026-12-31T23:30:00Z"));
}

/// Adds messages to one batch, which must hold them all.
fn push(lines: &[&[u8]]) -> (BatchBuilder, SourceBook) {
    let mut decoder = SyslogDecoder::new();
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    for (index, line) in lines.iter().enumerate() {
        let message = decoder.parse(line, NOW_NS);
        let origin = SyslogOrigin {
            end_offset: index as u64 + 1,
            observed_ns: NOW_NS,
            ..SyslogOrigin::default()
        };
        decoder.push(&mut batch, &message, &origin, &mut book).expect("it has room");
    }
    assert_eq!(book.unaccounted_lines(), 0);
    assert_eq!(book.records, lines.len() as u64);
    (batch, book)
}

#[test]
fn a_message_becomes_a_record_with_its_columns() {
    let line = br#"<165>1 2003-10-11T22:14:15.003Z h app 8710 ID47 [ex@1 a="1" b="\"x\]"] text"#;
    let (batch, book) = push(&[line, b"<14>plain\r\n"]);
    let record = batch.record(0);
    assert_eq!(record.original(), line);
    assert_eq!((record.body, record.flags), (b"text".as_slice(), RecordFlags::default()));
    assert_eq!(
        (record.process_id(), record.message_id()),
        (b"8710".as_slice(), b"ID47".as_slice())
    );
    assert_eq!(text(record.attributes), r#"{"syslog.ex@1.a":"1","syslog.ex@1.b":"\"x]"}"#);
    assert_eq!((record.facility().code(), record.severity), (Some(20), Severity::NOTICE));
    assert_eq!(record.timestamp_ns, parse_rfc3339(b"2003-10-11T22:14:15.003Z").unwrap());
    let plain = batch.record(1);
    assert_eq!((plain.original(), plain.body), (b"<14>plain".as_slice(), b"plain".as_slice()));
    assert_eq!((plain.timestamp_ns, plain.process_id()), (NOW_NS, b"".as_slice()));
    assert_eq!((book.malformed, book.truncated), (0, 0));
    assert_eq!(book.bytes_read, (line.len() + 9) as u64);
}

#[test]
fn a_full_batch_takes_nothing_of_a_message() {
    let mut decoder = SyslogDecoder::new();
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    let line = format!("<13>1 - h a - - [i n=\"{}\"] x", "v".repeat(60_000));
    let message = decoder.parse(line.as_bytes(), NOW_NS);
    let origin = SyslogOrigin { is_truncated: true, ..SyslogOrigin::default() };
    let mut count = 0;
    while decoder.push(&mut batch, &message, &origin, &mut book).is_ok() {
        count += 1;
    }
    assert!(count > 1);
    assert_eq!((book.records, book.truncated), (count, count));
    assert_eq!((batch.record_count() as u64, book.unaccounted_lines()), (count, 0));
    assert_eq!(
        batch.arena().len() - weir_model::HEADER_LEN,
        batch.record(0).original().len() * count as usize
            + batch.record(0).attributes.len() * count as usize
    );
    assert!(batch.record(0).flags.contains(RecordFlags::TRUNCATED));
}

/// Anything that can be part of a stream: both framings, right and wrong.
fn chunk() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "<[0-9]{1,3}>[a-zé ]{0,30}\n".prop_map(String::into_bytes),
        "[a-z<>é]{1,40}".prop_map(|text| format!("{} {text}", text.len()).into_bytes()),
        "[0-9]{1,9} ?".prop_map(String::into_bytes),
        "(\r|\n|\0){1,3}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

fn header_like() -> impl Strategy<Value = Vec<u8>> {
    let dialects = BSD.iter().map(|case| case.0).chain(DEVICES.iter().map(|case| case.0));
    let lines: Vec<&str> = dialects.chain(RFC5424.iter().map(|case| case.0)).collect();
    let damaged = (proptest::sample::select(lines), any::<prop::sample::Index>(), any::<u8>());
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..100),
        damaged.prop_map(|(line, at, byte)| {
            let mut line = line.as_bytes().to_vec();
            let at = at.index(line.len());
            if byte % 3 == 0 {
                line.truncate(at);
            } else {
                line[at] = byte;
            }
            line
        }),
    ]
}

proptest! {
    #[test]
    fn any_split_of_a_stream_gives_the_same_messages(
        chunks in proptest::collection::vec(chunk(), 0..20),
        pieces in proptest::collection::vec(1_usize..20, 1..5),
        max in 4_usize..40,
        kind in 0..3,
    ) {
        let kind = match kind {
            0 => SyslogFramingKind::Detect,
            1 => SyslogFramingKind::OctetCounted,
            _ => SyslogFramingKind::Lines,
        };
        let stream = chunks.concat();
        let whole = receive(kind, max, &stream, &[usize::MAX]);
        prop_assert_eq!(&receive(kind, max, &stream, &pieces), &whole);
        prop_assert_eq!(&receive(kind, max, &stream, &[1]), &whole);
        prop_assert!(whole.messages.iter().all(|(message, _)| message.len() <= max));
    }

    #[test]
    fn any_bytes_become_one_record_that_keeps_them(lines in proptest::collection::vec(header_like(), 1..10)) {
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let (batch, _) = push(&lines);
        for (index, line) in lines.iter().enumerate() {
            let record = batch.record(index);
            let trimmed = syslog_datagram(line, usize::MAX).0;
            prop_assert_eq!(record.original(), trimmed);
            prop_assert!(trimmed.ends_with(record.body));
            prop_assert!(record.attributes.is_empty() || weir_codec::is_json_object(record.attributes));
        }
    }

    #[test]
    fn a_decoder_that_remembers_reads_like_a_new_one(lines in proptest::collection::vec(header_like(), 1..20)) {
        let mut decoder = SyslogDecoder::new();
        for line in &lines {
            let message = decoder.parse(line, NOW_NS);
            let fresh = SyslogDecoder::new().parse(line, NOW_NS).time_ns;
            prop_assert_eq!(message.time_ns, fresh);
        }
    }
}
