//! From batches to records: what becomes the message and what an attribute, and that nothing of a
//! body is lost.

mod support;

use proptest::prelude::*;
use serde_json::json;
use support::{open, read_all, write};
use weir_codec::{Attributes, Renames, Scalar};
use weir_model::{
    Batch, BatchBuilder, Facility, NewRecord, Position, RecordFlags, Resource, Seal, Severity,
    SourceBook, SourceId, StreamId,
};
use weir_store::embedded::columns::{AttributeValue, Intake, Rows, StoredRecord};
use weir_store::query::{Access, Filter, UnparsedRows, naive};

const TIME_NS: i64 = 1_700_000_000_123_456_000;

/// A record as a source provides it: attributes besides the body, body, severity, flags.
type Given<'a> = (&'a str, &'a [u8], Severity, RecordFlags);

fn batch(records: &[Given<'_>], resource: &Resource) -> Batch {
    let mut builder = BatchBuilder::new(Position::new(2, 100));
    for (number, (attributes, body, severity, flags)) in records.iter().enumerate() {
        let body = builder.append(body).unwrap();
        let attributes = builder.append(attributes.as_bytes()).unwrap();
        let record = NewRecord {
            timestamp_ns: TIME_NS,
            end_offset: 101 + number as u64,
            body,
            attributes,
            severity: *severity,
            flags: *flags,
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    builder.resource(0, &resource.encode()).unwrap();
    sealed(builder, Position::new(2, 101 + records.len() as u64))
}

fn sealed(mut builder: BatchBuilder, end: Position) -> Batch {
    builder.route_all(&[0]);
    builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(7),
        group: 0,
        source: SourceId::of("app"),
        end,
        observed_ns: 0,
        rule_generation: 0,
        book: &SourceBook::default(),
        state: b"",
    })
}

fn stored_with(intake: Intake, records: &[Given<'_>], resource: &Resource) -> Vec<StoredRecord> {
    records_of(intake, &batch(records, resource))
}

fn records_of(mut intake: Intake, batch: &Batch) -> Vec<StoredRecord> {
    let mut rows = Rows::new();
    intake.begin_batch("app", batch);
    for (sequence, view) in batch.records().enumerate() {
        intake.push(&mut rows, sequence as u64, batch, &view).unwrap();
    }
    let found = read_all(&open(&write(&rows)));
    assert_eq!(found, (0..rows.len()).map(|row| rows.record(row).unwrap()).collect::<Vec<_>>());
    found
}

fn stored(body: &str) -> StoredRecord {
    let given = ("", body.as_bytes(), Severity::UNSPECIFIED, RecordFlags::default());
    stored_with(Intake::new(), &[given], &Resource::new()).remove(0)
}

fn attributes_of(record: &StoredRecord) -> serde_json::Value {
    let value = |value: &AttributeValue| match value {
        AttributeValue::Null => json!(null),
        AttributeValue::Bool(truth) => json!(truth),
        AttributeValue::Int(number) => json!(number),
        AttributeValue::Float(number) => json!(number),
        AttributeValue::Text(text) => json!(text),
    };
    let attributes = record.attributes.iter();
    let list = |values: &[AttributeValue]| values.iter().map(value).collect::<Vec<_>>();
    attributes.map(|(path, values)| (path.clone(), list(values))).collect()
}

const SYSLOG_LINE: &str = "<37>1 2023-11-14T22:13:20.123456Z web-1 sshd 4711 ID47 - denied";

/// Returns the record of a line in a file, whose header a rule has parsed.
fn parsed_line() -> StoredRecord {
    let mut parsed = Attributes::new();
    parsed.read_syslog(SYSLOG_LINE.as_bytes(), TIME_NS).unwrap();
    let mut attributes = Vec::new();
    parsed.write_json(&mut attributes);
    let attributes = String::from_utf8(attributes).unwrap();
    let given = (&*attributes, SYSLOG_LINE.as_bytes(), Severity::NOTICE, RecordFlags::default());
    stored_with(Intake::new(), &[given], &Resource::new()).remove(0)
}

/// Returns the record of the same line as a message that was received.
fn received_message() -> StoredRecord {
    let mut builder = BatchBuilder::new(Position::default());
    let original = builder.append(SYSLOG_LINE.as_bytes()).unwrap();
    let part = |text: &str| {
        let start = original.start + SYSLOG_LINE.find(text).unwrap();
        start..start + text.len()
    };
    let sender = Resource::new()
        .with("host.name", "web-1")
        .with("service.name", "sshd")
        .with("network.peer.address", "10.0.0.7");
    let record = NewRecord {
        timestamp_ns: TIME_NS,
        end_offset: 1,
        body: part("denied"),
        process_id: part("4711"),
        message_id: part("ID47"),
        severity: Severity::NOTICE,
        facility: Facility::of_code(4),
        original: original.clone(),
        resource: builder.resource(9, &sender.encode()).unwrap(),
        ..NewRecord::default()
    };
    builder.push(&record).unwrap();
    records_of(Intake::new(), &sealed(builder, Position::new(0, 1))).remove(0)
}

#[test]
fn the_header_of_syslog_is_stored_like_that_of_a_parsed_line() {
    let (received, parsed) = (received_message(), parsed_line());
    assert_eq!(attributes_of(&received), attributes_of(&parsed));
    assert_eq!(received.message.as_deref(), Some("denied"), "without the rest of the line");
    assert_eq!((&received.host, &received.service), (&parsed.host, &parsed.service));
    assert_eq!(received.status, parsed.status);
    let found = |query: &str, record: &StoredRecord| {
        let query = weir_expr::parse(query).unwrap();
        naive::matches(&Filter { query, ..Filter::all(Access::all()) }, record)
    };
    for query in [
        "facility:auth",
        "app_name:sshd",
        "procid:4711",
        "msgid:ID47",
        "host:web*",
        "@syslog.severity:notice",
        "@syslog.hostname:web-1",
        "@syslog.appname:sshd",
    ] {
        assert!(found(query, &received) && found(query, &parsed), "{query}");
    }
    for query in ["peer:10.0.0.7", "CIDR(peer,10.0.0.0/8)"] {
        assert!(found(query, &received) && !found(query, &parsed), "{query}");
    }
}

#[test]
fn duplicate_tags_are_stored_once() {
    let given = (
        r#"{"ddtags":"env:prod,a\"b"}"#,
        br#"{"ddtags":"a\"b,env:prod,prod","tags":["env:prod","c"]}"#.as_slice(),
        Severity::UNSPECIFIED,
        RecordFlags::default(),
    );
    let record = stored_with(Intake::new(), &[given], &Resource::new()).remove(0);
    assert_eq!(record.tags.as_deref(), Some(r#"["env:prod","a\"b","prod","c"]"#));
}

#[test]
fn json_body_becomes_attributes_and_a_message() {
    let record = stored(
        r#"{"time":"2023-11-14T22:13:20.123456Z","level":"warn","http":{"status_code":500},
            "message":"out of \"memory\"","trace_id":"abc","tags":["env:prod","b"],"n":null}"#,
    );
    assert_eq!(record.message.as_deref(), Some("out of \"memory\""));
    assert_eq!(record.status.as_deref(), Some("warn"));
    assert_eq!(record.trace_id.as_deref(), Some("abc"));
    assert_eq!(record.tags.as_deref(), Some(r#"["env:prod","b"]"#));
    assert_eq!((record.time_ns, record.stream), (TIME_NS, StreamId(7)));
    assert_eq!(record.position, Position::new(2, 101));
    assert_eq!(
        attributes_of(&record),
        json!({"level":["warn"],"http.status_code":[500],"tags":["env:prod","b"],"n":[null]})
    );
    let all: Vec<String> = record.all_attributes().into_iter().map(|(path, _)| path).collect();
    let paths = ["http.status_code", "level", "message", "n", "tags", "time", "trace_id"];
    assert_eq!(all, paths);
}

#[test]
fn message_is_the_first_text_under_its_usual_names() {
    let message = |body: &str| stored(body).message;
    assert_eq!(message(r#"{"log":"c","msg":"b","message":"a"}"#).as_deref(), Some("a"));
    assert_eq!(message(r#"{"log":"c","msg":"b","message":{"x":1}}"#).as_deref(), Some("b"));
    assert_eq!(message(r#"{"log":"c\n","date":1700000000.5}"#).as_deref(), Some("c\n"));
    assert_eq!(message(r#"{"log":{"level":"info"}}"#), None);
    let twice = stored(r#"{"message":"a","message":"b","msg":"c"}"#);
    assert_eq!(twice.message.as_deref(), Some("a"));
    assert_eq!(attributes_of(&twice), json!({"message":["a","b"],"msg":["c"]}));
    assert_eq!(message(r#"{"message":["a","b"]}"#).as_deref(), Some("a"));
    let second = stored(r#"{"message":null,"message":"b"}"#);
    assert_eq!(second.message.as_deref(), Some("b"));
    assert_eq!(attributes_of(&second), json!({"message":[null,"b"]}));
    assert_eq!(message(r#"{"message":[1,"b"],"msg":"c"}"#).as_deref(), Some("b"));
    assert_eq!(message(r#"{"message":[1,2],"msg":"c"}"#).as_deref(), Some("c"));
}

#[test]
fn object_with_a_lone_surrogate_is_parsed() {
    let record = stored(r#"{"message":"cut \ud83d","n":1}"#);
    assert_eq!(record.message.as_deref(), Some("cut \u{fffd}"));
    assert_eq!(attributes_of(&record), json!({"n":[1]}));
}

#[test]
fn body_that_is_not_an_object_is_stored_unchanged() {
    for body in ["plain text", "", "[1,2]", "{not json}", "{\"a\":1} and more", "a=b c=d"] {
        let record = stored(body);
        assert_eq!(record.message.as_deref(), Some(body));
        assert_eq!(record.attributes, []);
    }
}

#[test]
fn level_at_the_start_of_a_text_is_its_status() {
    let status = |body: &str| stored(body).status;
    assert_eq!(status("2026-01-31 12:00:00 ERROR failed").as_deref(), Some("error"));
    assert_eq!(status("<34>Oct 11 22:14:15 host su: failed").as_deref(), Some("critical"));
    assert_eq!(status("no ERROR found"), None);
    assert_eq!(status(r#"{"message":"ERROR failed"}"#), None);
    let given = |attributes, severity| {
        let given = (attributes, b"ERROR failed".as_slice(), severity, RecordFlags::default());
        stored_with(Intake::new(), &[given], &Resource::new()).remove(0).status
    };
    // What the source or an attribute states takes precedence.
    assert_eq!(given("", Severity::INFO).as_deref(), Some("info"));
    assert_eq!(given(r#"{"level":"debug"}"#, Severity::UNSPECIFIED).as_deref(), Some("debug"));
}

#[test]
fn logfmt_is_stored_unchanged_and_parsed() {
    let body = br#"level=error msg="a b" took=12.5 and a word"#;
    let given = ("", body.as_slice(), Severity::UNSPECIFIED, RecordFlags::LOGFMT);
    let record = stored_with(Intake::new(), &[given], &Resource::new()).remove(0);
    assert_eq!(record.message.as_deref().map(str::as_bytes), Some(body.as_slice()));
    assert_eq!(record.status.as_deref(), Some("error"));
    assert_eq!(attributes_of(&record)["took"], json!([12.5]));
}

#[test]
fn attributes_are_stored_under_their_new_names() {
    let names = [("http.response.status", "http.status_code"), ("text", "message")];
    let names = names.map(|(from, to)| (from.to_owned(), to.to_owned()));
    let intake = Intake::new().with_renames(Renames::new(names.to_vec()));
    let body = br#"{"http":{"response":{"status":500}},"text":"failed"}"#.as_slice();
    let given = ("", body, Severity::UNSPECIFIED, RecordFlags::default());
    let record = stored_with(intake, &[given], &Resource::new()).remove(0);
    assert_eq!(record.message.as_deref(), Some("failed"));
    assert_eq!(attributes_of(&record), json!({"http.status_code":[500]}));
}

#[test]
fn unparsable_bodies_are_counted_and_stored() {
    let [plain, logfmt, malformed] =
        [RecordFlags::default(), RecordFlags::LOGFMT, RecordFlags::MALFORMED];
    let given: [(&[u8], RecordFlags); 8] = [
        (b"{not json}", plain),
        (b" {\"a\":1,} ", malformed),
        (b"{\"a\":1}", malformed),
        (b"{template} and text", plain),
        (b"words alone", plain),
        (b"words alone", logfmt),
        (b"a=1", logfmt),
        (b"no line of its format", malformed),
    ];
    let given = given.map(|(body, flags)| ("", body, Severity::UNSPECIFIED, flags));
    let batch = batch(&given, &Resource::new());
    let (mut rows, mut intake) = (Rows::new(), Intake::new());
    intake.begin_batch("app", &batch);
    for (sequence, view) in batch.records().enumerate() {
        intake.push(&mut rows, sequence as u64, &batch, &view).unwrap();
        let message = rows.record(sequence).unwrap().message;
        let is_object = view.body == b"{\"a\":1}";
        assert_eq!(message.is_none(), is_object);
        assert!(is_object || message.unwrap().as_bytes() == view.body);
    }
    assert_eq!(intake.unparsed(), UnparsedRows { json: 2, logfmt: 1, format: 1 });
}

#[test]
fn resource_precedes_record_attributes_and_those_precede_the_body() {
    let resource = Resource::new().with("service.name", "shop").with("k8s.pod.name", "shop-1");
    let body = br#"{"service":"inner","host":"inner","a":1,"b":2}"#.as_slice();
    let given = (r#"{"host":"outer","a":5}"#, body, Severity::ERROR, RecordFlags::STDERR);
    let record = stored_with(Intake::new(), &[given], &resource).remove(0);
    assert_eq!(record.service.as_deref(), Some("shop"));
    assert_eq!(record.host.as_deref(), Some("outer"));
    assert_eq!(record.source.as_deref(), Some("app"));
    assert_eq!(record.status.as_deref(), Some("error"));
    assert_eq!(record.form.flags(), RecordFlags::STDERR);
    assert_eq!(record.form.severity(), Severity::ERROR);
    let encoded = resource.encode();
    assert_eq!(record.resource.as_deref().map(str::as_bytes), Some(encoded.as_slice()));
    assert_eq!(
        attributes_of(&record),
        json!({"service":["inner"],"host":["outer"],"a":[5],"b":[2]})
    );
}

#[test]
fn body_is_unescaped_and_other_bytes_survive() {
    let bodies: [&[u8]; 2] = [br"{\u0022message\u0022:\u0022x\\ny\u0022}", b"broken \xff\\n"];
    let given = bodies.map(|body| ("", body, Severity::UNSPECIFIED, RecordFlags::JSON_ESCAPED));
    let mut records = stored_with(Intake::new(), &given, &Resource::new());
    records.sort_by_key(|record| record.sequence);
    assert_eq!(records[0].message.as_deref(), Some("x\ny"));
    assert_eq!(records[1].message.as_deref(), Some("broken \u{fffd}\n"));
    assert_eq!(records[1].original.as_ref().unwrap().message(), b"broken \xff\n");
}

#[test]
fn truncated_object_is_stored_unchanged() {
    let members: Vec<String> = (0..2000).map(|i| format!("\"k{i}\":{i}")).collect();
    let body = format!("{{\"message\":\"m\",{}}}", members.join(","));
    let record = stored(&body);
    assert_eq!(record.message.as_deref(), Some(body.as_str()));
    assert!(record.attributes.len() > 900);
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        ".{0,12}".prop_map(|text| json!(text)),
        Just(json!("2023-11-14T22:13:20.123456Z")),
        Just(json!("1e400")),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            proptest::collection::btree_map("[a-c.]{1,3}", inner, 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        Just("message".to_owned()),
        Just("msg".to_owned()),
        Just("log".to_owned()),
        Just("time".to_owned()),
        Just("date".to_owned()),
        Just("trace_id".to_owned()),
        Just("tags".to_owned()),
        Just("level".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_attribute_of_an_object_is_lost(
        members in proptest::collection::btree_map(key(), json_value(), 0..6),
    ) {
        let object = serde_json::Value::Object(members.into_iter().collect()).to_string();
        let record = stored(&object);
        let mut wanted: Vec<(String, Vec<AttributeValue>)> = Vec::new();
        let mut attributes = Attributes::new();
        attributes.read_json(object.as_bytes()).unwrap();
        for (path, value) in attributes.iter() {
            let path = String::from_utf8(path.to_vec()).unwrap();
            let value = AttributeValue::from(weir_store::embedded::columns::canonical(value));
            match wanted.iter_mut().find(|(known, _)| *known == path) {
                Some((_, values)) => values.push(value),
                None => wanted.push((path, vec![value])),
            }
        }
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        prop_assert_eq!(record.all_attributes(), wanted);
    }
}

#[test]
fn stored_scalars_round_trip() {
    for value in [Scalar::Null, Scalar::Bool(true), Scalar::Int(5), Scalar::Text(b"x")] {
        assert_eq!(AttributeValue::from(value).as_scalar(), value);
    }
}
