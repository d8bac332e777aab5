//! Envelopes of every kind, and invalid bytes.

use proptest::prelude::*;
use weir_model::limits::LINE_BYTES_MAX;
use weir_model::{BatchBuilder, Position, RecordFlags, RecordKind, Severity, SourceBook};

use super::*;

fn encoded(envelope: &LoggregatorEnvelope<'_>, tags: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_loggregator_envelope(envelope, tags, &mut bytes);
    bytes
}

fn of(message: LoggregatorMessage<'_>) -> LoggregatorEnvelope<'_> {
    let (source_id, instance_id) = (&b"app"[..], &b"3"[..]);
    LoggregatorEnvelope { timestamp_ns: 7, source_id, instance_id, message, ..Default::default() }
}

/// Adds bytes to a batch in the way that a source does.
fn push(bytes: &[u8], batch: &mut BatchBuilder, book: &mut SourceBook) -> bool {
    let mut tags = LoggregatorTags::default();
    let mut decoder = LoggregatorDecoder::default();
    let origin = LoggregatorOrigin { end_offset: 1, observed_ns: 99, ..Default::default() };
    match LoggregatorEnvelope::parse(bytes, &mut tags) {
        Ok(envelope) => decoder.push(batch, &envelope, tags.iter(bytes), &origin, book),
        Err(_) => decoder.push_malformed(batch, bytes, &origin, book),
    }
    .is_ok()
}

/// The body and kind of the record of an envelope.
fn record(bytes: &[u8]) -> (RecordKind, String) {
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    assert!(push(bytes, &mut batch, &mut book));
    assert_eq!((book.lines, book.records, book.unaccounted_lines()), (1, 1, 0));
    let record = batch.record(0);
    assert_eq!(record.original(), bytes);
    (record.kind(), String::from_utf8(record.body.to_vec()).unwrap())
}

#[test]
fn every_kind_becomes_a_record_with_the_bytes_as_its_original() {
    let tags = [("zone", "z1")];
    let log = LoggregatorMessage::Log { payload: b"out of memory", is_error: true };
    let mut batch = BatchBuilder::new(Position::default());
    assert!(push(&encoded(&of(log), &tags), &mut batch, &mut SourceBook::default()));
    let line = batch.record(0);
    assert_eq!((line.body, line.attributes), (&b"out of memory"[..], &br#"{"zone":"z1"}"#[..]));
    assert_eq!((line.timestamp_ns, line.severity), (7, Severity::ERROR));
    assert_eq!((line.kind(), line.flags), (RecordKind::Log, RecordFlags::STDERR));

    let counter = LoggregatorMessage::Counter { name: b"hits", delta: u64::MAX, total: 9 };
    let body = r#"{"name":"hits","value":18446744073709551615,"total":9,"tags":[["zone","z1"]]}"#;
    assert_eq!(record(&encoded(&of(counter), &tags)), (RecordKind::Counter, body.to_owned()));

    let timer = LoggregatorMessage::Timer { name: b"http", start_ns: 5, stop_ns: 2_500_000_005 };
    let body = r#"{"name":"http","value":2.5,"unit":"s"}"#;
    assert_eq!(record(&encoded(&of(timer), &[])), (RecordKind::Timer, body.to_owned()));

    let event = LoggregatorMessage::Event { title: b"crash", body: b"exit \"1\"" };
    let body = r#"{"name":"crash","value":1,"tags":[["title","crash"],["text","exit \"1\""]]}"#;
    assert_eq!(record(&encoded(&of(event), &[])), (RecordKind::Event, body.to_owned()));

    assert_eq!(record(b"\x10\x01"), (RecordKind::Log, String::new()), "nothing that is known");
}

#[test]
fn fields_that_are_added_are_in_the_original_alone() {
    let bytes = encoded(&of(LoggregatorMessage::Log { payload: b"line", is_error: false }), &[]);
    let mut added = Vec::new();
    encode_loggregator_tag("zone", "z1", &mut added);
    let mut tags = LoggregatorTags::default();
    let envelope = LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
    let origin = LoggregatorOrigin { added: &added, ..Default::default() };
    let mut batch = BatchBuilder::new(Position::default());
    let (mut decoder, mut book) = (LoggregatorDecoder::default(), SourceBook::default());
    decoder.push(&mut batch, &envelope, tags.iter(&bytes), &origin, &mut book).unwrap();
    let record = batch.record(0);
    let original = record.original();
    LoggregatorEnvelope::parse(original, &mut tags).unwrap();
    let tag = (&b"zone"[..], LoggregatorTagValue::Text(b"z1"));
    assert_eq!(tags.iter(original).collect::<Vec<_>>(), [tag]);
    assert_eq!((record.body, book.bytes_read), (&b"line"[..], bytes.len() as u64));
}

#[test]
fn a_gauge_is_a_metric_or_a_list_of_metrics() {
    let metric =
        |name: &'static str, value| LoggregatorMetric { name: name.as_bytes(), unit: b"By", value };
    let gauge = |metrics: &[LoggregatorMetric<'_>]| {
        let mut bytes = Vec::new();
        encode_loggregator_metrics(metrics, &mut bytes);
        let message = LoggregatorMessage::Gauge(LoggregatorGauge(&bytes));
        let (kind, body) = record(&encoded(&of(message), &[("zone", "z1")]));
        assert_eq!(kind, RecordKind::Gauge);
        body
    };
    let one = r#"{"name":"memory","value":0.5,"unit":"By","tags":[["zone","z1"]]}"#;
    assert_eq!(gauge(&[metric("memory", 0.5)]), one);
    let two = r#"{"metrics":[{"name":"memory","value":1.0,"unit":"By"},{"name":"disk","value":null,"unit":"By"}],"tags":[["zone","z1"]]}"#;
    assert_eq!(gauge(&[metric("memory", 1.0), metric("disk", f64::NAN)]), two);
    assert_eq!(gauge(&[]), r#"{"name":"","value":null,"tags":[["zone","z1"]]}"#);
}

#[test]
fn a_total_is_replaced_and_unknown_fields_stay() {
    let counter = |total| of(LoggregatorMessage::Counter { name: b"hits", delta: 3, total });
    for before in [0, 9, u64::MAX] {
        let mut bytes = encoded(&counter(before), &[("zone", "z1")]);
        bytes.extend_from_slice(b"\xa0\x06\x01");
        let mut changed = Vec::new();
        encode_loggregator_total(&bytes, 300, &mut changed).unwrap();
        let mut tags = LoggregatorTags::default();
        let read = LoggregatorEnvelope::parse(&changed, &mut tags).unwrap();
        let expected = LoggregatorEnvelope { bytes: &changed, ..counter(300) };
        assert_eq!((read, tags.iter(&changed).count()), (expected, 1));
        assert!(changed.windows(3).any(|field| field == b"\xa0\x06\x01"));
    }
    assert!(encode_loggregator_total(b"\x0a\x05", 1, &mut Vec::new()).is_err());
}

#[test]
fn deprecated_tags_come_last_as_text_and_order_does_not_matter() {
    // deprecated_tags: n -> integer -2, d -> decimal 0.5, t -> text; then tags: t -> new.
    let minus_two = [0x10, 254, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    let mut bytes = Vec::new();
    let half = [&[0x19][..], &0.5_f64.to_le_bytes()].concat();
    for (key, value) in [(b"n", &minus_two[..]), (b"d", &half), (b"t", b"\x0a\x03old")] {
        let mut entry = Vec::new();
        super::wire::put_bytes_field(1, key, &mut entry);
        super::wire::put_bytes_field(2, value, &mut entry);
        super::wire::put_bytes_field(3, &entry, &mut bytes);
    }
    bytes.extend_from_slice(&encoded(&LoggregatorEnvelope::default(), &[("t", "new")]));
    let mut tags = LoggregatorTags::default();
    LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
    let texts: Vec<(String, String)> = tags
        .iter(&bytes)
        .map(|(key, value)| {
            let mut text = Vec::new();
            value.write(&mut text);
            (String::from_utf8(key.to_vec()).unwrap(), String::from_utf8(text).unwrap())
        })
        .collect();
    let expected = [("t", "new"), ("n", "-2"), ("d", "0.5"), ("t", "old")];
    assert_eq!(texts, expected.map(|(key, text)| (key.to_owned(), text.to_owned())));
}

#[test]
fn batches_are_read_up_to_the_first_error() {
    let log = LoggregatorMessage::Log { payload: b"line", is_error: false };
    let one = encoded(&of(log), &[]);
    let mut batch = Vec::new();
    add_to_loggregator_batch(&one, &mut batch);
    add_to_loggregator_batch(b"", &mut batch);
    batch.extend_from_slice(&[0x10, 7, 0x0a, 100, 1]);
    let found: Vec<_> = LoggregatorBatch::new(&batch).collect();
    assert_eq!(found, [Ok(&one[..]), Ok(&b""[..]), Err(LoggregatorError::Truncated)]);
}

#[test]
fn a_long_envelope_is_truncated_and_counted() {
    let payload = vec![b'x'; 2 * LINE_BYTES_MAX];
    let log = LoggregatorMessage::Log { payload: &payload, is_error: false };
    let bytes = encoded(&of(log), &[]);
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    assert!(push(&bytes, &mut batch, &mut book));
    let record = batch.record(0);
    assert_eq!((record.body.len(), record.original()), (LINE_BYTES_MAX, &b""[..]));
    assert!(record.flags.contains(RecordFlags::TRUNCATED));
    assert_eq!((book.truncated, book.unaccounted_lines()), (1, 0));
    assert_eq!(book.bytes_read, LINE_BYTES_MAX as u64);
}

#[test]
fn a_million_tags_cost_nothing() {
    let tag = encoded(&LoggregatorEnvelope::default(), &[("k", "v")]);
    let bytes = tag.repeat(1_000_000);
    let mut tags = LoggregatorTags::default();
    assert!(LoggregatorEnvelope::parse(&bytes, &mut tags).is_ok());
    assert_eq!(tags.iter(&bytes).count(), super::envelope::TAGS_MAX);
}

/// An envelope with all kinds of fields.
fn sample() -> Vec<u8> {
    let mut metrics = Vec::new();
    let metric = LoggregatorMetric { name: b"cpu", unit: b"percentage", value: 0.25 };
    encode_loggregator_metrics(&[metric, metric], &mut metrics);
    let gauge = of(LoggregatorMessage::Gauge(LoggregatorGauge(&metrics)));
    let mut bytes = encoded(&gauge, &[("job", "router"), ("zone", "z1")]);
    let log = LoggregatorMessage::Log { payload: b"a line", is_error: true };
    bytes.extend_from_slice(&encoded(&of(log), &[]));
    bytes.extend_from_slice(b"\x1a\x07\x0a\x01k\x12\x02\x10\x05\xa0\x06\x01");
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn hostile_bytes_are_one_record_each(
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut changed = sample();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        changed.truncate(cut.index(changed.len()) + 1);
        let mut batch = BatchBuilder::new(Position::default());
        let mut book = SourceBook::default();
        for bytes in [&noise, &changed] {
            prop_assert!(push(bytes, &mut batch, &mut book));
        }
        prop_assert_eq!((book.records, book.unaccounted_lines()), (2, 0));
        for (index, bytes) in [noise, changed].iter().enumerate() {
            let record = batch.record(index);
            if record.flags.contains(RecordFlags::MALFORMED) {
                prop_assert_eq!(record.body, &bytes[..]);
            } else {
                prop_assert_eq!(record.original(), &bytes[..]);
            }
            if record.flags.contains(RecordFlags::JSON_OBJECT) {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(record.body).is_ok());
            }
        }
        let _envelopes = LoggregatorBatch::new(batch.record(0).body).count();
    }
}
