//! Records as syslog messages: what arrived as one leaves as it arrived, everything else strictly
//! by its RFC.

use std::sync::Arc;

use proptest::prelude::*;
use weir_codec::{
    Encoding, SyslogDecoder, SyslogEncoder, SyslogFormat, SyslogFraming, SyslogFramingKind,
    SyslogOrigin, SyslogOutputFraming, SyslogStep,
};
use weir_model::{
    BatchBuilder, NewRecord, Position, RecordFlags, Seal, Selection, Severity, SourceBook,
    SourceId, StreamId,
};

/// 2026-11-21T19:12:31.335106123Z.
const NOW_NS: i64 = 1_795_288_351_335_106_123;

const RESOURCE: &[u8] = br#"{"host.name":"my host","service.name":"app:[1]"}"#;

fn sealed(mut batch: BatchBuilder, book: &SourceBook) -> Selection {
    batch.route_all(&[0]);
    Selection::all(Arc::new(batch.seal(&Seal {
        repeatable: false,
        stream: StreamId(1),
        group: 0,
        source: SourceId::of("test"),
        end: Position::new(0, 1000),
        observed_ns: NOW_NS,
        rule_generation: 0,
        book,
        state: b"",
    })))
}

/// A record that did not arrive by syslog.
#[derive(Debug, Clone, Copy, Default)]
struct Plain<'a> {
    resource: &'a [u8],
    body: &'a [u8],
    attributes: &'a [u8],
    process_id: &'a [u8],
    message_id: &'a [u8],
    severity: u8,
    flags: RecordFlags,
}

fn plain(record: &Plain<'_>) -> Selection {
    let mut batch = BatchBuilder::new(Position::default());
    batch.resource(1, record.resource).unwrap();
    let [body, attributes, process_id, message_id] =
        [record.body, record.attributes, record.process_id, record.message_id]
            .map(|part| batch.append(part).unwrap());
    let new = NewRecord {
        timestamp_ns: NOW_NS,
        end_offset: 1,
        body,
        attributes,
        process_id,
        message_id,
        severity: Severity(record.severity),
        flags: record.flags,
        ..NewRecord::default()
    };
    batch.push(&new).unwrap();
    sealed(batch, &SourceBook::default())
}

fn received(lines: &[&[u8]]) -> Selection {
    let mut decoder = SyslogDecoder::new();
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    batch.resource(1, RESOURCE).unwrap();
    for line in lines {
        let message = decoder.parse(line, NOW_NS);
        let origin = SyslogOrigin { observed_ns: NOW_NS, ..SyslogOrigin::default() };
        decoder.push(&mut batch, &message, &origin, &mut book).unwrap();
    }
    assert_eq!(book.unaccounted_lines(), 0);
    sealed(batch, &book)
}

fn encoded_bytes(
    format: SyslogFormat,
    framing: SyslogOutputFraming,
    max: usize,
    records: &Selection,
) -> (Vec<u8>, bool) {
    let mut encoder = SyslogEncoder::new(format, "default");
    let (mut out, mut is_whole) = (Vec::new(), true);
    for (_, record) in records.records() {
        is_whole &= encoder.encode(framing, records, &record, max, &mut out);
    }
    (out, is_whole)
}

fn encoded(format: SyslogFormat, framing: SyslogOutputFraming, records: &Selection) -> String {
    let (out, is_whole) = encoded_bytes(format, framing, usize::MAX, records);
    assert!(is_whole);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_message_of_the_wanted_format_leaves_as_it_arrived() {
    let new: &[u8] = b"<165>1 2003-10-11T22:14:15.003000001z h app 8710 ID47 [ex@1 a=\"1\"] text";
    let old: &[u8] = b"<34>Oct 11 22:14:15 mymachine su[42]: failed";
    let lines = SyslogOutputFraming::Lines;
    let both = received(&[new, old]);
    let want = "<165>1 2003-10-11T22:14:15.003000001z h app 8710 ID47 [ex@1 a=\"1\"] text\n\
                <34>1 2026-10-11T22:14:15.000000Z my_host app:[1] 42 - - failed\n";
    assert_eq!(encoded(SyslogFormat::Rfc5424, lines, &both), want);
    let want = "<165>Oct 11 22:14:15 my_host app__1_[8710]: text\n\
                <34>Oct 11 22:14:15 mymachine su[42]: failed\n";
    assert_eq!(encoded(SyslogFormat::Rfc3164, lines, &both), want);
}

#[test]
fn messages_in_a_loose_form_are_rewritten_strictly() {
    let records = received(&[
        b"<13>1 - h a - - [broken",
        b"<189>45: *Nov 21 19:12:31.123: %SYS-5-CONFIG_I: x",
        b"no header",
        b"<14>Nov 21 19:12:31 app: local",
    ]);
    let want = "<13>1 2026-11-21T19:12:31.335106Z my_host app:[1] - - - [broken\n\
                <189>1 2026-11-21T19:12:31.123000Z my_host app:[1] - - - x\n\
                <13>1 2026-11-21T19:12:31.335106Z my_host app:[1] - - - no header\n\
                <14>1 2026-11-21T19:12:31.000000Z my_host app:[1] - - - local\n";
    assert_eq!(encoded(SyslogFormat::Rfc5424, SyslogOutputFraming::Lines, &records), want);
    let old = encoded(SyslogFormat::Rfc3164, SyslogOutputFraming::Lines, &records);
    assert!(old.ends_with("<14>Nov 21 19:12:31 my_host app__1_: local\n"), "{old}");
}

fn file_lines(records: &Selection) -> String {
    let mut out = Vec::new();
    Encoding::Syslog.lines(records, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn lines_of_a_file_have_time_host_and_program() {
    let records = received(&[
        b"<34>Oct 11 22:14:15 h su[42]: failed",
        b"<165>1 2003-10-11T22:14:15.003000001z h a 8710 ID47 [ex@1 a=\"1\"] two\nlines",
        b"no header",
    ]);
    let want = "2026-10-11T22:14:15.000000Z my_host app:[1][42]: failed\n\
                2003-10-11T22:14:15.003000Z my_host app:[1][8710]: two\\nlines\n\
                2026-11-21T19:12:31.335106Z my_host app:[1]: no header\n";
    assert_eq!(file_lines(&records), want);
}

#[test]
fn lines_of_a_file_name_what_is_known() {
    let line = |resource: &[u8]| {
        file_lines(&plain(&Plain { resource, body: b"text", ..Plain::default() }))
    };
    let time = "2026-11-21T19:12:31.335106Z";
    assert_eq!(line(b"{}"), format!("{time} - text\n"));
    let peer = br#"{"network.peer.address":"10.0.0.7","service.name":"app"}"#;
    assert_eq!(line(peer), format!("{time} 10.0.0.7 app: text\n"));
    let escaped = br#"{"host.name":"a\"b","service.name":"c d"}"#;
    assert_eq!(line(escaped), format!("{time} a\"b c_d: text\n"));
    let nested = br#"{"a":{"host.name":"no"},"host.name":"yes"}"#;
    assert_eq!(line(nested), format!("{time} yes text\n"));
}

#[test]
fn lines_of_a_file_are_parsed_again() {
    let resource = br#"{"host.name":"web1","service.name":"sshd"}"#;
    let record = Plain { resource, body: b"a: b", process_id: b"42", ..Plain::default() };
    let line = file_lines(&plain(&record));
    let mut decoder = SyslogDecoder::new();
    let message = decoder.parse(line.trim_end().as_bytes(), NOW_NS);
    let parts = [message.hostname, message.app_name, message.process_id, message.body];
    assert_eq!(parts, [b"web1".as_slice(), b"sshd", b"42", b"a: b"]);
    assert_eq!(message.time_ns, Some(NOW_NS / 1000 * 1000));
}

#[test]
fn attributes_become_structured_data() {
    let attributes = r#"{"syslog.ex@1.a":"1\"]\\","http.status":200,"syslog.meta.x":true,
        "syslog.ex@1.b":["2","3"],"not permitted":1,"none":null,"syslog.hostname":"h",
        "a name that is much too long for structured data":1}"#;
    let records = plain(&Plain {
        attributes: attributes.as_bytes(),
        body: b"text",
        severity: 17,
        process_id: b"pid 1",
        message_id: b"M\xc3\xa9",
        ..Plain::default()
    });
    let want = concat!(
        "<11>1 2026-11-21T19:12:31.335106Z default - pid_1 M__ ",
        r#"[ex@1 a="1\"\]\\" b="2" b="3"][attributes@32473 http.status="200" none=""]"#,
        r#"[meta x="true"] text"#
    );
    assert_eq!(encoded(SyslogFormat::Rfc5424, SyslogOutputFraming::Unframed, &records), want);
}

#[test]
fn framing_keeps_newlines_or_writes_them_as_text() {
    let records = plain(&Plain {
        body: br"a\nb\u0000",
        flags: RecordFlags::JSON_ESCAPED,
        ..Plain::default()
    });
    let all = |framing| encoded(SyslogFormat::Rfc3164, framing, &records);
    assert_eq!(all(SyslogOutputFraming::Lines), "<13>Nov 21 19:12:31 default a\\nb\\0\n");
    assert_eq!(all(SyslogOutputFraming::Unframed), "<13>Nov 21 19:12:31 default a\nb\0");
    assert_eq!(all(SyslogOutputFraming::OctetCounted), "32 <13>Nov 21 19:12:31 default a\nb\0");
}

#[test]
fn a_message_is_shortened_to_the_limit() {
    let records = plain(&Plain { body: "é".repeat(100).as_bytes(), ..Plain::default() });
    let (out, is_whole) =
        encoded_bytes(SyslogFormat::Rfc5424, SyslogOutputFraming::OctetCounted, 100, &records);
    let text = String::from_utf8(out).unwrap();
    assert!(!is_whole && text.starts_with("100 <13>1 "), "{text}");
    assert_eq!(text.len(), 104);
}

#[test]
fn severities_of_opentelemetry_become_those_of_syslog() {
    let numbers: Vec<u8> = (0..=24).collect();
    let codes: String = numbers
        .iter()
        .map(|severity| {
            let records = plain(&Plain { severity: *severity, ..Plain::default() });
            let text = encoded(SyslogFormat::Rfc5424, SyslogOutputFraming::Unframed, &records);
            let priority: u8 = text[1..text.find('>').unwrap()].parse().unwrap();
            assert_eq!(priority / 8, 1);
            char::from(b'0' + priority % 8)
        })
        .collect();
    assert_eq!(codes, "5777777776555444432110000");
}

#[test]
fn the_time_of_rfc_3164_is_in_the_configured_zone() {
    let records = plain(&Plain { body: b"x", ..Plain::default() });
    let mut encoder = SyslogEncoder::new(SyslogFormat::Rfc3164, "");
    encoder.set_utc_offset(-20 * 3600);
    let mut out = Vec::new();
    let record = records.records().next().unwrap().1;
    encoder.encode(SyslogOutputFraming::Unframed, &records, &record, 1000, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "<13>Nov 20 23:12:31 - x");
}

proptest! {
    #[test]
    fn written_attributes_are_read_back(
        body in proptest::collection::vec(any::<u8>(), 0..60),
        values in proptest::collection::vec(("[a-z]{1,8}", ".{0,20}"), 0..4),
        process_id in "[!-Z^-~]{0,10}",
        is_counted: bool,
    ) {
        let attributes: serde_json::Map<_, _> = values
            .iter()
            .map(|(name, value)| (format!("syslog.id@1.{name}"), value.clone().into()))
            .collect();
        let json = if attributes.is_empty() { vec![] } else { serde_json::to_vec(&attributes).unwrap() };
        let process_id = if process_id == "-" { "" } else { &process_id };
        let records = plain(&Plain {
            resource: br#"{"host.name":"h","service.name":"a"}"#,
            body: &body,
            attributes: &json,
            process_id: process_id.as_bytes(),
            ..Plain::default()
        });
        let (framing, kind) = if is_counted {
            (SyslogOutputFraming::OctetCounted, SyslogFramingKind::OctetCounted)
        } else {
            (SyslogOutputFraming::Lines, SyslogFramingKind::Lines)
        };
        let (out, _) = encoded_bytes(SyslogFormat::Rfc5424, framing, usize::MAX, &records);
        let SyslogStep::Message { span, consumed, .. } =
            SyslogFraming::new(kind, 10_000).next(&out) else { panic!("no message") };
        prop_assert_eq!(consumed, out.len());
        let again = received(&[&out[span]]);
        let record = again.records().next().unwrap().1;
        prop_assert_eq!(record.flags, RecordFlags::default());
        prop_assert_eq!(record.process_id(), process_id.as_bytes());
        prop_assert_eq!(record.timestamp_ns, NOW_NS / 1000 * 1000);
        if is_counted {
            let body = weir_codec::syslog_datagram(&body, usize::MAX).0;
            let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
            prop_assert_eq!(record.body, body);
            let read: serde_json::Map<String, serde_json::Value> = match record.attributes {
                b"" => serde_json::Map::new(),
                text => serde_json::from_slice(text).unwrap(),
            };
            prop_assert_eq!(read, attributes);
        }
    }
}
