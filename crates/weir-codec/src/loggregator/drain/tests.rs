//! Expected messages, byte for byte, and arbitrary envelopes.

use proptest::prelude::*;

use super::super::{LoggregatorGauge, encode_loggregator_envelope, encode_loggregator_metrics};
use super::*;
use crate::syslog::{SyslogDecoder, SyslogFormat};

const TIME_NS: i64 = 1_795_288_497_064_689_882;
const TIME: &str = "2026-11-21T19:14:57.064689+00:00";

fn of(message: LoggregatorMessage<'_>) -> LoggregatorEnvelope<'_> {
    LoggregatorEnvelope {
        timestamp_ns: TIME_NS,
        source_id: b"guid",
        instance_id: b"3",
        message,
        ..Default::default()
    }
}

fn line(payload: &[u8]) -> LoggregatorEnvelope<'_> {
    of(LoggregatorMessage::Log { payload, is_error: false })
}

fn format() -> DrainFormat {
    DrainFormat { hostname: "org.space.app".to_owned(), with_metadata: true, with_length: false }
}

/// The messages of an envelope.
fn messages(
    envelope: &LoggregatorEnvelope<'_>,
    tags: &[(&str, &str)],
    format: &DrainFormat,
) -> Result<Vec<String>, DrainError> {
    let (mut bytes, mut out, mut ends) = (Vec::new(), b"before".to_vec(), vec![6]);
    encode_loggregator_envelope(envelope, tags, &mut bytes);
    let count = DrainEncoder::default().encode(&bytes, format, &mut out, &mut ends)?;
    assert_eq!((count, &out[..6], ends.last()), (ends.len() - 1, &b"before"[..], Some(&out.len())));
    let text = |ends: &[usize]| String::from_utf8_lossy(&out[ends[0]..ends[1]]).into_owned();
    Ok(ends.windows(2).map(text).collect())
}

fn message(envelope: &LoggregatorEnvelope<'_>, tags: &[(&str, &str)]) -> String {
    messages(envelope, tags, &format()).unwrap().remove(0)
}

#[test]
fn a_log_has_its_tags_sorted_and_ends_in_a_newline() {
    let tags = [("source_type", "APP/PROC WEB"), ("zone", "z1"), ("a", "first"), ("a", "1")];
    let rest = r#"[tags@47450 a="1" source_type="APP/PROC WEB" zone="z1"] out of memory"#;
    let expected = format!("<14>1 {TIME} org.space.app guid [APP/PROC-WEB/3] - {rest}\n");
    assert_eq!(message(&line(b"out of memory"), &tags), expected);
    assert_eq!(message(&line(b"out of\0 memory\0\n"), &tags), expected);
    let error = of(LoggregatorMessage::Log { payload: b"", is_error: true });
    assert_eq!(message(&error, &[]), format!("<11>1 {TIME} org.space.app guid [/3] - - \n"));
    let without = DrainFormat { with_metadata: false, with_length: true, ..format() };
    let expected = format!("<14>1 {TIME} org.space.app guid [APP/PROC-WEB/3] - - x\n");
    let expected = format!("{} {expected}", expected.len());
    assert_eq!(messages(&line(b"x"), &tags, &without).unwrap(), [expected]);
}

#[test]
fn metrics_and_events_are_structured_data_without_text() {
    let head = format!("<14>1 {TIME} org.space.app guid [3] - ");
    let counter = of(LoggregatorMessage::Counter { name: b"hits", delta: 1, total: u64::MAX });
    let element = r#"[counter@47450 name="hits" total="18446744073709551615" delta="1"]"#;
    let tags = r#"[tags@47450 k="a\"\]\\b"]"#;
    assert_eq!(message(&counter, &[("k", "a\"]\\b")]), format!("{head}{element}{tags} \n"));
    let timer = of(LoggregatorMessage::Timer { name: b"http", start_ns: -5, stop_ns: 20 });
    let element = r#"[timer@47450 name="http" start="-5" stop="20"]"#;
    assert_eq!(message(&timer, &[]), format!("{head}{element} \n"));
    let event = of(LoggregatorMessage::Event { title: b"crash", body: "é\n".as_bytes() });
    let element = "[event@47450 title=\"crash\" body=\"é\n\"]";
    assert_eq!(message(&event, &[]), format!("{head}{element} \n"));
    assert_eq!(messages(&of(LoggregatorMessage::None), &[], &format()), Ok(vec![]));
}

#[test]
fn a_gauge_is_one_message_for_each_measurement() {
    let mut metrics = Vec::new();
    let metric = |name: &'static [u8], value| LoggregatorMetric { name, unit: b"bytes", value };
    let all = [metric(b"memory", 1.0), metric(b"cpu", 0.23), metric(b"memory", 536_870_912.0)];
    encode_loggregator_metrics(&all, &mut metrics);
    let gauge = of(LoggregatorMessage::Gauge(LoggregatorGauge(&metrics)));
    let head = format!("<14>1 {TIME} org.space.app guid [3] - ");
    let expected = [
        format!("{head}[gauge@47450 name=\"cpu\" value=\"0.23\" unit=\"bytes\"] \n"),
        format!("{head}[gauge@47450 name=\"memory\" value=\"5.36870912e+08\" unit=\"bytes\"] \n"),
    ];
    assert_eq!(messages(&gauge, &[], &format()).unwrap(), expected);
    assert_eq!(messages(&gauge, &[("a b", "")], &format()), Err(DrainError::TagName));
}

#[test]
fn a_gauge_that_grows_beyond_the_limit_is_refused() {
    let mut metrics = Vec::new();
    for index in 0..3000 {
        let name = index.to_string();
        let metric = LoggregatorMetric { name: name.as_bytes(), unit: b"", value: 1.0 };
        encode_loggregator_metrics(&[metric], &mut metrics);
    }
    let gauge = of(LoggregatorMessage::Gauge(LoggregatorGauge(&metrics)));
    let tag = "x".repeat(1000);
    assert_eq!(messages(&gauge, &[("k", &tag)], &format()), Err(DrainError::TooLong));
    assert_eq!(messages(&gauge, &[], &format()).unwrap().len(), 3000);
}

#[test]
fn times_have_microseconds_without_zeros_at_the_end() {
    for (time_ns, expected) in [
        (0, "1970-01-01T00:00:00+00:00"),
        (12_345_000, "1970-01-01T00:00:00.012345+00:00"),
        (999, "1970-01-01T00:00:00+00:00"),
        (-1, "1969-12-31T23:59:59.999999+00:00"),
        (1_100_000_000, "1970-01-01T00:00:01.1+00:00"),
        (i64::MAX, "2262-04-11T23:47:16.854775+00:00"),
    ] {
        let envelope = LoggregatorEnvelope { timestamp_ns: time_ns, ..line(b"x") };
        assert_eq!(message(&envelope, &[]).split(' ').nth(1), Some(expected));
    }
}

#[test]
fn the_host_is_named_by_the_tags_of_the_application() {
    let host = |tags: &[(&str, &str)]| {
        message(&line(b"x"), tags).split(' ').nth(2).map(str::to_owned).unwrap()
    };
    assert_eq!(host(&[]), "org.space.app");
    let (org, space, app) = ("organization_name", "space_name", "app_name");
    assert_eq!(host(&[(org, "some_org"), (space, "a \t b"), (app, "app__--")]), "someorg.a-b.app");
    assert_eq!(host(&[(app, "Ünit é x")]), "..nit--x");
    assert_eq!(host(&[(space, "")]), "..");
    let long = "a".repeat(100);
    let part = "a".repeat(63);
    assert_eq!(
        host(&[(org, &long), (space, &long), (app, &long)]),
        format!("{part}.{part}.{part}")
    );
    let named = |hostname: &str| {
        let format = DrainFormat { hostname: hostname.to_owned(), ..format() };
        messages(&line(b"x"), &[], &format)
    };
    assert!(named("").unwrap()[0].contains("+00:00 - guid "));
    assert!(named(&"A".repeat(300)).unwrap()[0].contains(&format!(" {} guid ", "A".repeat(255))));
    assert_eq!(named("a b"), Err(DrainError::Hostname));
}

#[test]
fn words_that_are_too_long_are_cut_and_others_are_refused() {
    let process = |source_type: &str, instance: &str| {
        let envelope = LoggregatorEnvelope { instance_id: instance.as_bytes(), ..line(b"x") };
        let text = messages(&envelope, &[("source_type", source_type)], &format())?.remove(0);
        Ok(text.split(' ').nth(4).map(str::to_owned).unwrap())
    };
    assert_eq!(process("task/こんにちは", "2").as_deref(), Ok("[TASK//2]"));
    assert_eq!(process("a  b -- ", "").as_deref(), Ok("[A-B]"));
    assert_eq!(process("", "").as_deref(), Ok("[]"));
    let long = "A".repeat(300);
    assert_eq!(process("MY TASK", &long), Ok(format!("[MY-TASK/{}]", "A".repeat(118))));
    assert_eq!(process(&long, "2"), Ok(format!("[{}", "A".repeat(127))));
    assert_eq!(process("A", "a b"), Err(DrainError::InstanceId));
    assert_eq!(process("A", "é"), Err(DrainError::InstanceId));
    let source = |source_id: &str| {
        let envelope = LoggregatorEnvelope { source_id: source_id.as_bytes(), ..line(b"x") };
        let text = messages(&envelope, &[], &format())?.remove(0);
        Ok(text.split(' ').nth(3).map(str::to_owned).unwrap())
    };
    assert_eq!(source("").as_deref(), Ok("-"));
    assert_eq!(source(&long), Ok("A".repeat(48)));
    assert_eq!(source("   "), Err(DrainError::SourceId));
    let metric = LoggregatorEnvelope {
        instance_id: long.as_bytes(),
        ..of(LoggregatorMessage::Counter { name: b"c", delta: 0, total: 0 })
    };
    assert!(message(&metric, &[]).contains(&format!(" [{} - ", "A".repeat(127))));
}

#[test]
fn tags_that_syslog_cannot_carry_make_an_envelope_unserializable() {
    let with = |name: &[u8], value: &[u8]| {
        let (mut bytes, mut out, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        encode_loggregator_envelope(&line(b"x"), &[], &mut bytes);
        super::super::wire::put_entry(9, name, value, &mut bytes);
        let result = DrainEncoder::default().encode(&bytes, &format(), &mut out, &mut ends);
        assert!(result.is_ok() || out.is_empty() && ends.is_empty());
        result
    };
    for name in ["a b", "a=b", "a]", "a\"", "é", "a\n", "\x7f"] {
        assert_eq!(with(name.as_bytes(), b"x"), Err(DrainError::TagName), "{name:?}");
    }
    assert_eq!(with(b"a", b"\xff"), Err(DrainError::Encoding));
    assert_eq!(with(b"a", "é\n".as_bytes()), Ok(1));
    let without = DrainFormat { with_metadata: false, ..format() };
    assert_eq!(messages(&line(b"x"), &[("a b", "")], &without).unwrap().len(), 1);
}

#[test]
fn numbers_have_the_shortest_form() {
    for (number, expected) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (100_000.0, "100000"),
        (1_000_000.0, "1e+06"),
        (1_234_567.5, "1.2345675e+06"),
        (0.0001, "0.0001"),
        (-0.000_012, "-1.2e-05"),
        (1e100, "1e+100"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
    ] {
        let mut out = Vec::new();
        Parameter::Float(number).write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

proptest! {
    #[test]
    fn whatever_is_written_is_a_message_of_syslog(
        payload in proptest::collection::vec(any::<u8>(), 0..40),
        tags in proptest::collection::btree_map("[!#-<>-Z^-~]{1,8}", "[ -~é\n]{0,8}", 0..5),
        (source, instance, hostname) in ("[!-~]{1,60}", "[!-~]{1,140}", "[!-~]{1,10}"),
        with_metadata in any::<bool>(),
        time_ns in any::<i64>(),
    ) {
        let tags: Vec<(&str, &str)> = tags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let envelope = LoggregatorEnvelope {
            timestamp_ns: time_ns,
            source_id: source.as_bytes(),
            instance_id: instance.as_bytes(),
            ..line(&payload)
        };
        let mut bytes = Vec::new();
        encode_loggregator_envelope(&envelope, &tags, &mut bytes);
        let format = DrainFormat { hostname, with_metadata, with_length: false };
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        let count = DrainEncoder::default().encode(&bytes, &format, &mut out, &mut ends);
        prop_assert_eq!((count, ends), (Ok(1), vec![out.len()]));
        let read = SyslogDecoder::new().parse(&out, 0);
        prop_assert_eq!(read.format, Some(SyslogFormat::Rfc5424));
        prop_assert!(!read.is_malformed);
        prop_assert_eq!(read.time_ns, Some(time_ns.div_euclid(1000) * 1000));
        // A message without an application has a hyphen there.
        let app_name = if source == "-" { "" } else { &source[..source.len().min(48)] };
        prop_assert_eq!(read.app_name, app_name.as_bytes());
        prop_assert_eq!(read.structured_data.is_empty(), tags.is_empty() || !with_metadata);
        let mut text: Vec<u8> = payload.iter().copied().filter(|byte| *byte != 0).collect();
        text.extend((!text.ends_with(b"\n")).then_some(b'\n'));
        prop_assert!(out.ends_with(&text));
    }

    #[test]
    fn hostile_bytes_are_an_error_or_messages(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        with_length in any::<bool>(),
    ) {
        let format = DrainFormat { with_length, ..format() };
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        match DrainEncoder::default().encode(&bytes, &format, &mut out, &mut ends) {
            Ok(count) => {
                prop_assert_eq!(count, ends.len());
                prop_assert_eq!(ends.last().copied().unwrap_or(0), out.len());
            }
            Err(_) => prop_assert!(out.is_empty() && ends.is_empty()),
        }
    }
}
