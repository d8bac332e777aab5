//! Round trips between the versions, and invalid bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric, LoggregatorTags,
    encode_loggregator_envelope, encode_loggregator_metrics,
};
use super::*;

const ROUTER: DropsondeReceiver<'static> = DropsondeReceiver { tags: &[], is_agent: false };
const GUID: &str = "b3015d69-09cd-476d-aace-ad2d824d5ab7";

fn encoded(envelope: &DropsondeEnvelope<'_>, tags: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let tags = tags.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    envelope.encode(tags, &mut bytes);
    bytes
}

fn of(message: DropsondeMessage<'_>) -> DropsondeEnvelope<'_> {
    DropsondeEnvelope {
        origin: b"gorouter",
        timestamp_ns: 7,
        deployment: Some(b"cf"),
        job: Some(b"router"),
        index: Some(b"i-1"),
        ip: Some(b"10.0.0.1"),
        message,
        ..DropsondeEnvelope::default()
    }
}

fn http() -> DropsondeHttp<'static> {
    DropsondeHttp {
        start_ns: 1,
        stop_ns: 5,
        request_id: DropsondeUuid { low: 1, high: u64::MAX },
        peer_type: 2,
        method: 44,
        uri: b"/index",
        remote_address: b"10.0.0.9:80",
        user_agent: b"curl",
        status_code: -404,
        content_length: 12,
        application_id: DropsondeUuid::parse(GUID.as_bytes()),
        instance_index: 3,
        instance_id: b"i",
        forwarded: DropsondeForwarded::Lines(b"1.1.1.1\n2.2.2.2"),
    }
}

/// An envelope of version 2, its message and its tags in order.
fn in_v2(bytes: &[u8], receiver: &DropsondeReceiver<'_>) -> (Vec<u8>, BTreeMap<String, String>) {
    let mut converter = DropsondeConverter::default();
    let bytes = converter.to_v2(bytes, receiver).unwrap().to_vec();
    let mut tags = LoggregatorTags::default();
    LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
    let mut named = BTreeMap::new();
    for (name, value) in tags.iter(&bytes) {
        let mut text = Vec::new();
        value.write(&mut text);
        let name = String::from_utf8(name.to_vec()).unwrap();
        assert!(named.insert(name, String::from_utf8(text).unwrap()).is_none(), "each tag once");
    }
    (bytes, named)
}

fn in_v1(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut converter = DropsondeConverter::default();
    assert_eq!(converter.to_v1(bytes, usize::MAX, |one| all.push(one.to_vec())), Ok(0));
    let outline = converter.outline(bytes).unwrap();
    assert_eq!(outline.map_or(0, |outline| outline.envelopes), all.len());
    for one in &all {
        let event_type = DropsondeEnvelope::parse(one).unwrap().message.event_type();
        assert_eq!(event_type, outline.unwrap().event_type);
    }
    all
}

fn v2_of(bytes: &[u8]) -> LoggregatorEnvelope<'_> {
    LoggregatorEnvelope::parse(bytes, &mut LoggregatorTags::default()).unwrap()
}

fn tags_of(envelope: &DropsondeEnvelope<'_>) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    envelope.tags().map(|(name, value)| (text(name), text(value))).collect()
}

fn named(tags: &[(&str, &str)]) -> BTreeMap<String, String> {
    tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Tags for the fields of [`of`].
const FIELDS: [(&str, &str); 5] = [
    ("origin", "gorouter"),
    ("deployment", "cf"),
    ("job", "router"),
    ("index", "i-1"),
    ("ip", "10.0.0.1"),
];

#[test]
fn a_request_becomes_a_timer_with_tags_and_a_request_again() {
    let bytes = encoded(&of(DropsondeMessage::HttpStartStop(http())), &[("zone", "z1")]);
    let (v2, tags) = in_v2(&bytes, &ROUTER);
    let timer = v2_of(&v2);
    assert_eq!((timer.source_id, timer.instance_id), (GUID.as_bytes(), &b"3"[..]));
    let message = LoggregatorMessage::Timer { name: b"http", start_ns: 1, stop_ns: 5 };
    assert_eq!((timer.timestamp_ns, timer.message), (7, message));
    let mut expected = named(&FIELDS);
    expected.extend(named(&[
        ("__v1_type", "HttpStartStop"),
        ("zone", "z1"),
        ("request_id", "01000000-0000-0000-ffff-ffffffffffff"),
        ("peer_type", "Server"),
        ("method", "VERSION_CONTROL"),
        ("uri", "/index"),
        ("remote_address", "10.0.0.9:80"),
        ("user_agent", "curl"),
        ("status_code", "-404"),
        ("content_length", "12"),
        ("routing_instance_id", "i"),
        ("forwarded", "1.1.1.1\n2.2.2.2"),
    ]));
    assert_eq!(tags, expected);
    let back = in_v1(&v2);
    let back = DropsondeEnvelope::parse(&back[0]).unwrap();
    assert_eq!(tags_of(&back), named(&[("zone", "z1"), ("source_id", GUID)]));
    let DropsondeMessage::HttpStartStop(found) = back.message else { panic!("{back:?}") };
    assert_eq!(DropsondeHttp { forwarded: http().forwarded, ..found }, http());
    assert_eq!(DropsondeEnvelope { bytes: b"", message: of(back.message).message, ..back }, {
        of(back.message)
    });
    let mut unknown = http();
    (unknown.peer_type, unknown.method, unknown.application_id) = (9, 0, None);
    let bytes = encoded(&of(DropsondeMessage::HttpStartStop(unknown)), &[]);
    let (v2, tags) = in_v2(&bytes, &ROUTER);
    assert_eq!((v2_of(&v2).source_id, &*tags["method"]), (&b"cf/router"[..], "0"));
    assert_eq!(tags["peer_type"], "9");
}

#[test]
fn logs_and_errors_are_logs() {
    let line = DropsondeMessage::LogMessage {
        message: b"out of \xff memory",
        is_error: true,
        timestamp_ns: 6,
        app_id: GUID.as_bytes(),
        source_type: b"APP/PROC/WEB",
        source_instance: b"2",
    };
    let (v2, tags) = in_v2(&encoded(&of(line), &[("source_id", "other")]), &ROUTER);
    let log = v2_of(&v2);
    assert_eq!((log.source_id, log.instance_id), (GUID.as_bytes(), &b"2"[..]));
    let expected = LoggregatorMessage::Log { payload: b"out of \xff memory", is_error: true };
    assert_eq!(log.message, expected);
    assert_eq!((tags["source_type"].as_str(), tags["__v1_type"].as_str()), {
        ("APP/PROC/WEB", "LogMessage")
    });
    assert!(!tags.contains_key("source_id"));
    let back = in_v1(&v2);
    let back = DropsondeEnvelope::parse(&back[0]).unwrap();
    let DropsondeMessage::LogMessage { message, timestamp_ns, app_id, source_type, .. } =
        back.message
    else {
        panic!("{back:?}")
    };
    assert_eq!((message, timestamp_ns), (&b"out of \xff memory"[..], 7));
    assert_eq!((app_id, source_type), (GUID.as_bytes(), &b"APP/PROC/WEB"[..]));
    assert_eq!(tags_of(&back), named(&[("source_id", GUID)]));

    // As in the original, an unknown type becomes that of errors.
    let back = in_v1(b"\x22\x05\x0a\x01x\x10\x07");
    let back = DropsondeEnvelope::parse(&back[0]).unwrap();
    assert!(matches!(back.message, DropsondeMessage::LogMessage { is_error: true, .. }));

    let error = DropsondeMessage::Error { source: b"disk", code: -5, message: b"failed" };
    let (v2, tags) = in_v2(&encoded(&of(error), &[]), &ROUTER);
    let log = LoggregatorMessage::Log { payload: b"failed", is_error: false };
    assert_eq!((v2_of(&v2).source_id, v2_of(&v2).message), (&b"cf/router"[..], log));
    assert_eq!((tags["source"].as_str(), tags["code"].as_str()), ("disk", "-5"));
    let back = in_v1(&v2);
    let back = DropsondeEnvelope::parse(&back[0]).unwrap();
    assert_eq!((back.message, back.deployment), (error, Some(&b"cf"[..])));
    assert_eq!(tags_of(&back), named(&[("source_id", "cf/router")]));
}

#[test]
fn metrics_keep_their_instances() {
    let counter = DropsondeMessage::CounterEvent { name: b"hits", delta: 3, total: u64::MAX };
    let level = DropsondeMessage::ValueMetric { name: b"load", value: -0.5, unit: b"s" };
    for (message, is_kept) in [(counter, false), (level, true)] {
        let given = [("instance_id", "i-9"), ("source_id", "jobs")];
        let (v2, tags) = in_v2(&encoded(&of(message), &given), &ROUTER);
        let metric = v2_of(&v2);
        assert_eq!((metric.source_id, metric.instance_id), (&b"jobs"[..], &b"i-9"[..]));
        assert_eq!(tags.contains_key("instance_id"), is_kept);
        let back = in_v1(&v2);
        let back = DropsondeEnvelope::parse(&back[0]).unwrap();
        assert_eq!((back.message, tags_of(&back)), (message, named(&given)));
    }
}

#[test]
fn a_gauge_is_the_metrics_of_a_container_or_one_metric_for_each_measurement() {
    let container = DropsondeContainer {
        application_id: GUID.as_bytes(),
        instance_index: 4,
        cpu_percentage: 12.5,
        memory_bytes: 1 << 30,
        disk_bytes: 2,
        memory_bytes_quota: 3,
        disk_bytes_quota: 4,
    };
    let message = DropsondeMessage::ContainerMetric(container);
    let (v2, _) = in_v2(&encoded(&of(message), &[]), &ROUTER);
    assert_eq!((v2_of(&v2).source_id, v2_of(&v2).instance_id), (GUID.as_bytes(), &b"4"[..]));
    let back = in_v1(&v2);
    assert_eq!(DropsondeEnvelope::parse(&back[0]).unwrap().message, message);

    let names = ["cpu", "memory", "disk", "memory_quota", "disk_quota"];
    let metric = |(at, name): (usize, &&'static str)| LoggregatorMetric {
        name: name.as_bytes(),
        unit: if at == 4 { b"" } else { b"bytes" },
        value: if at == 4 { 0.0 } else { 1.0 },
    };
    let metrics: Vec<_> = names.iter().enumerate().map(metric).collect();
    let mut bytes = Vec::new();
    encode_loggregator_metrics(&metrics, &mut bytes);
    let gauge = LoggregatorMessage::Gauge(LoggregatorGauge(&bytes));
    let envelope = LoggregatorEnvelope {
        source_id: b"app",
        instance_id: b"1",
        message: gauge,
        ..LoggregatorEnvelope::default()
    };
    let mut v2 = Vec::new();
    encode_loggregator_envelope(&envelope, &[("origin", "rep")], &mut v2);
    let all = in_v1(&v2);
    assert_eq!(all.len(), 5, "one of the measurements is missing");
    let one = DropsondeEnvelope::parse(&all[0]).unwrap();
    assert_eq!(tags_of(&one), named(&[("source_id", "app"), ("instance_id", "1")]));
    assert_eq!(one.origin, b"rep");
    let mut count = 0;
    let left = DropsondeConverter::default().to_v1(&v2, all[0].len() + 1, |_| count += 1);
    assert_eq!((count, left), (2, Ok(3)), "no more than was allowed");
}

#[test]
fn events_and_empty_envelopes_have_no_older_form() {
    let event = LoggregatorMessage::Event { title: b"crash", body: b"exit 1" };
    let gauge = LoggregatorMessage::Gauge(LoggregatorGauge(b""));
    for message in [event, gauge, LoggregatorMessage::None] {
        let envelope = LoggregatorEnvelope { message, ..LoggregatorEnvelope::default() };
        let mut bytes = Vec::new();
        encode_loggregator_envelope(&envelope, &[], &mut bytes);
        assert!(in_v1(&bytes).is_empty());
    }
}

#[test]
fn an_agent_adds_where_an_envelope_is_from() {
    let tags = [("deployment", "cf"), ("job", "cell"), ("zone", "z1")];
    let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let agent = DropsondeReceiver { tags: &tags, is_agent: true };
    let message = DropsondeMessage::CounterEvent { name: b"hits", delta: 1, total: 0 };
    let stated = DropsondeEnvelope {
        origin: b"rep",
        job: Some(b"own"),
        message,
        ..DropsondeEnvelope::default()
    };
    let (v2, found) = in_v2(&encoded(&stated, &[]), &agent);
    assert_eq!(v2_of(&v2).source_id, b"rep");
    let expected = [
        ("origin", "rep"),
        ("deployment", "cf"),
        ("job", "own"),
        ("index", ""),
        ("ip", ""),
        ("__v1_type", "CounterEvent"),
    ];
    assert_eq!(found, named(&expected));
}

#[test]
fn bytes_without_a_required_field_are_not_an_envelope() {
    let error = |bytes: &[u8]| DropsondeEnvelope::parse(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "required field origin is missing");
    assert_eq!(error(b"\x0a\x01a"), "required field eventType is missing");
    assert_eq!(error(b"\x0a\x01a\x10\x01"), "unknown event type 1");
    assert_eq!(error(b"\x0a\x01a\x10\x07"), "required field counterEvent is missing");
    assert_eq!(error(b"\x0a\x01a\x10\x07\x52\x03\x0a\x01n"), "required field delta is missing");
    let mut bytes = encoded(&of(DropsondeMessage::HttpStartStop(http())), &[]);
    let at = bytes.windows(6).position(|part| part == b"/index").unwrap();
    bytes[at - 2] = 0x5a;
    assert_eq!(error(&bytes), "required field uri is missing");
}

#[test]
fn requests_of_readers_are_decoded() {
    // shardID "s", filter with application "a" and metrics.
    let request = DropsondeRequest::parse(b"\x0a\x01s\x12\x05\x0a\x01a\x1a\x00").unwrap();
    let expected = DropsondeRequest {
        shard_id: "s".to_owned(),
        app_id: "a".to_owned(),
        filter: DropsondeFilter::Metrics,
    };
    assert_eq!(request, expected);
    assert!(request.wants(DropsondeType::ContainerMetric));
    assert!(!request.wants(DropsondeType::LogMessage) && !request.wants(DropsondeType::Error));
    assert_eq!(request.in_v2().selectors.len(), 2);
    let all = DropsondeRequest::parse(b"").unwrap();
    assert!(all.wants(DropsondeType::Error));
    assert_eq!((all.in_v2().selectors.len(), all.in_v2().shard_id.as_str()), (4, ""));
    assert!(DropsondeRequest::parse(b"\x0a\x05").is_err());
    let firehose = DropsondeRequest { app_id: String::new(), ..request };
    assert_eq!(firehose.in_v2().selectors.len(), 4, "errors are logs in version 2");
    assert_ne!(
        firehose.in_v2().shard_id,
        DropsondeRequest { shard_id: "s".into(), ..all }.in_v2().shard_id
    );
}

fn text() -> impl Strategy<Value = String> {
    "[a-z/é ]{0,12}"
}

/// A message with the texts `a`, `b` and the numbers that are given.
fn message<'m>(kind: u8, a: &'m str, b: &'m str, numbers: [u64; 2]) -> DropsondeMessage<'m> {
    let [one, two] = numbers;
    match kind {
        0 => DropsondeMessage::LogMessage {
            message: a.as_bytes(),
            is_error: one % 2 == 1,
            timestamp_ns: 7,
            app_id: b"app",
            source_type: b.as_bytes(),
            source_instance: a.as_bytes(),
        },
        1 => DropsondeMessage::ValueMetric {
            name: a.as_bytes(),
            value: one as f64,
            unit: b.as_bytes(),
        },
        2 => DropsondeMessage::CounterEvent { name: a.as_bytes(), delta: one, total: two },
        3 => DropsondeMessage::Error {
            source: a.as_bytes(),
            code: one as i32,
            message: b.as_bytes(),
        },
        4 => DropsondeMessage::ContainerMetric(DropsondeContainer {
            application_id: b"app",
            instance_index: one as i32,
            cpu_percentage: two as f64,
            memory_bytes: one % (1 << 52),
            disk_bytes: two % (1 << 52),
            memory_bytes_quota: 1,
            disk_bytes_quota: 2,
        }),
        _ => DropsondeMessage::HttpStartStop(DropsondeHttp {
            start_ns: one as i64,
            stop_ns: two as i64,
            request_id: DropsondeUuid { low: one, high: two },
            method: 1 + one % 44,
            peer_type: 1 + one % 2,
            uri: a.as_bytes(),
            user_agent: b.as_bytes(),
            status_code: two as i32,
            content_length: one as i64,
            instance_index: one as i32,
            ..http()
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn an_envelope_comes_back_as_it_was(
        kind in 0_u8..6,
        a in text(),
        b in text(),
        numbers in any::<[u64; 2]>(),
        tag in text(),
    ) {
        let message = message(kind, &a, &b, numbers);
        let bytes = encoded(&of(message), &[("zone", &tag), ("source_id", "app")]);
        let (v2, _) = in_v2(&bytes, &ROUTER);
        let all = in_v1(&v2);
        prop_assert_eq!(all.len(), 1);
        let back = DropsondeEnvelope::parse(&all[0]).unwrap();
        let mut tags = tags_of(&back);
        let source_id = tags.remove("source_id").unwrap();
        prop_assert_eq!(source_id, if kind == 5 { GUID } else { "app" });
        prop_assert_eq!(tags, named(&[("zone", &tag)]));
        let again = encoded(&DropsondeEnvelope { bytes: b"", ..back }, &[]);
        prop_assert_eq!(again, encoded(&of(message), &[]));
    }

    #[test]
    fn hostile_bytes_are_converted_or_refused(
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0_u8..6,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut changed = encoded(&of(message(kind, "a", "b", [3, 5])), &[("zone", "z1")]);
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        changed.truncate(cut.index(changed.len()) + 1);
        let mut converter = DropsondeConverter::default();
        for bytes in [&noise, &changed] {
            let converted = converter.to_v2(bytes, &ROUTER).map(<[u8]>::to_vec);
            if let Ok(v2) = converted {
                // A few bytes become at most the names of all tags, and three bytes each.
                prop_assert!(v2.len() < 1000 + 3 * bytes.len());
                let mut tags = LoggregatorTags::default();
                let envelope = LoggregatorEnvelope::parse(&v2, &mut tags);
                prop_assert!(envelope.is_ok());
                for (name, value) in tags.iter(&v2) {
                    let mut text = name.to_vec();
                    value.write(&mut text);
                    prop_assert!(String::from_utf8(text).is_ok());
                }
                prop_assert_eq!(in_v1(&v2).len(), 1);
            }
            let _outline = converter.outline(bytes);
            let _left = converter.to_v1(bytes, 1 << 16, |_| {});
            let _request = DropsondeRequest::parse(bytes);
        }
    }
}
