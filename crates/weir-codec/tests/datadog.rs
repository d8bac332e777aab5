//! Datadog's intake against a naive implementation with another JSON parser.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use weir_codec::{
    DATADOG_ITEMS_MAX, DATADOG_LINES_MAX, DatadogDefaults, DatadogError, DatadogFormat,
    DatadogItems, DatadogRequest, is_json_object,
};
use weir_model::limits::LINE_BYTES_MAX;
use weir_model::{
    AbandonReason, Batch, BatchBuilder, Position, RecordFlags, Seal, Severity, SourceBook,
    SourceId, StreamId,
};

const OBSERVED_NS: i64 = 42;

/// Returns the result for a body: batches until everything is written, and the book.
fn records(
    body: &[u8],
    format: DatadogFormat,
    defaults: &DatadogDefaults,
    item_bytes_max: usize,
) -> Result<(Vec<Batch>, SourceBook), DatadogError> {
    let mut items = DatadogItems::default();
    let mut body = body.to_vec();
    items.read(&mut body, format)?;
    let request =
        DatadogRequest { body: &body, defaults, observed_ns: OBSERVED_NS, item_bytes_max };
    let mut book = SourceBook::default();
    let mut builder = BatchBuilder::new(Position::default());
    let mut batches = Vec::new();
    let mut done = 0;
    while done < items.len() {
        let first = done;
        while done < items.len()
            && items.push(done, &request, &mut builder, done as u64 + 1, &mut book).is_ok()
        {
            done += 1;
        }
        assert!(done > first, "a record alone always fits");
        builder.route_all(&[0]);
        batches.push(seal(&mut builder, done as u64, &book));
    }
    assert_eq!(book.unaccounted_lines(), 0);
    Ok((batches, book))
}

fn seal(builder: &mut BatchBuilder, end: u64, book: &SourceBook) -> Batch {
    builder.seal(&Seal {
        repeatable: false,
        stream: StreamId(1),
        group: 0,
        source: SourceId::of("intake"),
        end: Position::new(0, end),
        observed_ns: OBSERVED_NS,
        rule_generation: 1,
        book,
        state: b"",
    })
}

/// One record as text: body, attributes, time, severity, flags.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    body: String,
    attributes: Value,
    time_ns: i64,
    severity: Severity,
    flags: RecordFlags,
}

fn seen(batches: &[Batch]) -> Vec<Seen> {
    let all = batches.iter().flat_map(Batch::records);
    all.map(|record| Seen {
        body: String::from_utf8_lossy(record.body).into_owned(),
        attributes: match record.attributes {
            b"" => Value::Null,
            text => serde_json::from_slice(text).expect("attributes are an object"),
        },
        time_ns: record.timestamp_ns,
        severity: record.severity,
        flags: record.flags,
    })
    .collect()
}

fn read(body: &str, format: DatadogFormat) -> Result<Vec<Seen>, DatadogError> {
    records(body.as_bytes(), format, &DatadogDefaults::default(), LINE_BYTES_MAX)
        .map(|(batches, _)| seen(&batches))
}

fn bodies(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|record| record.body.as_str()).collect()
}

fn all_defaults() -> DatadogDefaults {
    let mut defaults = DatadogDefaults::default();
    defaults.set("ddsource", b"nginx");
    defaults.set("service", "wéb \"1\"".as_bytes());
    defaults.set("hostname", b"h\n1");
    defaults.set("ddtags", b"env:prod,team:a");
    defaults.set("unknown", b"x");
    defaults
}

#[test]
fn an_array_an_object_and_lines_are_read() {
    let json = |body| read(body, DatadogFormat::Json).unwrap();
    let both = json(" [ {\"message\" : \"a\"} , {\"n\": [1, {}]} ] ");
    assert_eq!(bodies(&both), ["{\"message\" : \"a\"}", "{\"n\": [1, {}]}"]);
    assert!(both.iter().all(|record| record.flags == RecordFlags::JSON_OBJECT));
    assert_eq!(bodies(&json("{\"message\":\n\"a\"}\n")), ["{\"message\":\n\"a\"}"]);
    assert_eq!(bodies(&json("[{},{\"a\":1}]")), ["{}", "{\"a\":1}"]);
    let lines = read("one\r\n\n  {\"a\":1} \n{\"b\":\nlast", DatadogFormat::Lines).unwrap();
    assert_eq!(bodies(&lines), ["one", "{\"a\":1}", "{\"b\":", "last"]);
    assert_eq!(lines[1].flags, RecordFlags::JSON_OBJECT);
    assert_eq!(lines[2].flags, RecordFlags::default());
    let framed = read("4 one\n8 {\"a\":1}5 <13>1", DatadogFormat::Logplex);
    assert_eq!(framed, Err(DatadogError::Frame { index: 2 }), "a length is wrong");
    let framed = read("4 one\n7 {\"a\":1}5 <13>1", DatadogFormat::Logplex).unwrap();
    assert_eq!(bodies(&framed), ["one", "{\"a\":1}", "<13>1"]);
}

#[test]
fn empty_requests_hold_no_record() {
    for body in ["{}", "[]", " { } ", "[ ]\n"] {
        assert_eq!(read(body, DatadogFormat::Json).unwrap(), [], "{body:?}");
    }
    assert_eq!(read("", DatadogFormat::Lines).unwrap(), []);
    assert_eq!(read("", DatadogFormat::Logplex).unwrap(), []);
}

#[test]
fn invalid_requests_are_rejected_whole() {
    let long = format!("[{}{{}}]", "{\"a\":1},".repeat(DATADOG_ITEMS_MAX));
    let deep = format!("[{{\"a\":{}1{}}}]", "[".repeat(200), "]".repeat(200));
    let cases = [
        ("", DatadogError::Shape { at: 0 }),
        ("hello", DatadogError::Shape { at: 0 }),
        ("\"text\"", DatadogError::Shape { at: 0 }),
        ("[{}] x", DatadogError::Shape { at: 5 }),
        ("[{}{}]", DatadogError::Shape { at: 3 }),
        ("[{},2]", DatadogError::Item { index: 1 }),
        ("[{},]", DatadogError::Item { index: 1 }),
        ("[{\"a\":1]", DatadogError::Item { index: 0 }),
        ("{\"a\":tru}", DatadogError::Item { index: 0 }),
        ("{\"a\":\"\u{1}\"}", DatadogError::Item { index: 0 }),
        (&deep, DatadogError::Item { index: 0 }),
        (&long, DatadogError::TooMany { max: DATADOG_ITEMS_MAX }),
    ];
    for (body, error) in cases {
        assert_eq!(read(body, DatadogFormat::Json), Err(error), "{body:?}");
    }
    for depth in [63, 64] {
        let body = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let is_read = read(&body, DatadogFormat::Json).is_ok();
        assert_eq!(is_read, is_json_object(body.as_bytes()), "what outputs consider an object");
        assert_eq!(is_read, depth == 63);
    }
    let mut items = DatadogItems::default();
    items.read(&mut b"[{\"a\":1}]".to_vec(), DatadogFormat::Json).unwrap();
    let refused = items.read(&mut b"{\"a\":\"\xff\"}".to_vec(), DatadogFormat::Json);
    assert_eq!(refused, Err(DatadogError::Utf8));
    assert!(items.is_empty());
    let lines = "x\n".repeat(DATADOG_LINES_MAX + 1);
    let many = DatadogError::TooMany { max: DATADOG_LINES_MAX };
    assert_eq!(read(&lines, DatadogFormat::Lines), Err(many));
    for body in ["x", "5", "5 abc", " 3 abc", "-1 a", "99999999999 a", "3 abcd"] {
        let refused = read(body, DatadogFormat::Logplex);
        assert!(matches!(refused, Err(DatadogError::Frame { .. })), "{body:?}");
    }
}

#[test]
fn half_a_pair_of_surrogates_does_not_refuse_a_request() {
    let body = r#"[{"message":"x"},{"message":"cut \ud83d","n":"\\ud83d \ud83d\ude00"}]"#;
    let seen = read(body, DatadogFormat::Json).unwrap();
    assert_eq!(seen[1].body, r#"{"message":"cut \ufffd","n":"\\ud83d \ud83d\ude00"}"#);
    assert_eq!((seen.len(), seen[1].flags), (2, RecordFlags::JSON_OBJECT));
    let wrong = r#"[{"message":"x"},{"message":"cut \ud83d",]"#;
    assert_eq!(read(wrong, DatadogFormat::Json), Err(DatadogError::Item { index: 1 }));
}

#[test]
fn time_and_status_of_an_item_count() {
    let of = |item: &str| {
        let seen = read(&format!("[{item}]"), DatadogFormat::Json).unwrap();
        (seen[0].time_ns, seen[0].severity)
    };
    assert_eq!(of(r#"{"message":"x"}"#), (OBSERVED_NS, Severity::UNSPECIFIED));
    let (at, ns) = ("2023-11-14T22:13:20.123Z", 1_700_000_000_123_000_000);
    assert_eq!(of(&format!(r#"{{"timestamp":"{at}","status":"ERROR"}}"#)), (ns, Severity::ERROR));
    assert_eq!(of(r#"{"date":1700000000123,"level":"warn"}"#), (ns, Severity::WARN));
    assert_eq!(of(r#"{"timestamp":"1700000000123"}"#).0, ns);
    let far = format!(r#"{{"message":"{}","date":1700000000123}}"#, "x".repeat(5000));
    assert_eq!(of(&far).0, ns, "also after a long message");
    for wrong in ["null", "\"yesterday\"", "-5", "{}", "true"] {
        assert_eq!(of(&format!(r#"{{"date":{wrong}}}"#)).0, OBSERVED_NS, "{wrong}");
    }
    assert_eq!(of(r#"{"level":"info","status":"error"}"#).1, Severity::ERROR, "status is reserved");
    assert_eq!(of(r#"{"status":"error","level":"info"}"#).1, Severity::ERROR);
    assert_eq!(of(r#"{"status":200,"level":"info"}"#).1, Severity::INFO);
}

#[test]
fn defaults_of_the_request_apply_to_items_without_their_own_values() {
    let body = r#"[{"message":"x"},{"service":"own","ddsource":"o","host":"i","ddtags":"x:y"},
                   {"service":"","ddsource":null,"ddtags":""}]"#;
    let (batches, _) =
        records(body.as_bytes(), DatadogFormat::Json, &all_defaults(), LINE_BYTES_MAX).unwrap();
    let found: Vec<Value> = seen(&batches).into_iter().map(|record| record.attributes).collect();
    let all = json!({
        "ddsource": "nginx", "service": "wéb \"1\"", "hostname": "h\n1",
        "ddtags": "env:prod,team:a",
    });
    // Tags are combined, under a name that does not hide the item's own.
    assert_eq!(found, [all.clone(), json!({"tags": ["env:prod", "team:a"]}), all]);
}

#[test]
fn an_item_that_is_too_long_loses_the_end_of_its_message_only_and_that_is_counted() {
    let item = format!(r#"{{"a":1,"message":"{}","z":[2]}}"#, "é\\n".repeat(100));
    for max in [60, 61, 62, 63, 64, 100, item.len() - 1] {
        let body = format!("[{item}]");
        let (batches, book) =
            records(body.as_bytes(), DatadogFormat::Json, &DatadogDefaults::default(), max)
                .unwrap();
        let record = &seen(&batches)[0];
        let value: Value = serde_json::from_str(&record.body).unwrap();
        assert_eq!((&value["a"], &value["z"]), (&json!(1), &json!([2])));
        let kept = value["message"].as_str().unwrap();
        assert!("é\n".repeat(100).starts_with(kept), "{kept:?}");
        assert!(record.body.len() <= max && record.body.len() + 4 > max);
        assert_eq!(record.flags, RecordFlags::JSON_OBJECT.with(RecordFlags::TRUNCATED));
        let abandoned = (item.len() - record.body.len()) as u64;
        assert_eq!((book.truncated, book.bytes_read), (1, record.body.len() as u64));
        assert_eq!(book.bytes_abandoned[AbandonReason::LineTooLong as usize], abandoned);
    }
}

#[test]
fn where_the_message_is_not_long_enough_the_longest_text_is_cut() {
    let long = "é\\\"".repeat(100);
    let key = "k".repeat(20);
    for item in [
        format!(r#"{{"message":"m","service":"web","a":"{long}","z":[2]}}"#),
        format!(r#"{{"message":"m","a":{{"{key}":["x",{{"b" : "{long}"}}]}},"service":"web"}}"#),
        format!(r#"{{"a":"{long}","service":"web","message":5}}"#),
    ] {
        let body = format!(r#"[{{"a":"{}"}},{item}]"#, "other".repeat(4));
        let (batches, book) =
            records(body.as_bytes(), DatadogFormat::Json, &DatadogDefaults::default(), 90).unwrap();
        let record = &seen(&batches)[1];
        let value: Value = serde_json::from_str(&record.body).unwrap();
        assert_eq!(value["service"], "web", "{}", record.body);
        assert!(record.body.len() <= 90 && record.body.len() + 5 > 90, "{}", record.body);
        assert_eq!(record.flags, RecordFlags::JSON_OBJECT.with(RecordFlags::TRUNCATED));
        let abandoned = (item.len() - record.body.len()) as u64;
        assert_eq!(book.bytes_abandoned[AbandonReason::LineTooLong as usize], abandoned);
    }
}

#[test]
fn an_item_without_a_long_text_is_not_kept_as_an_object() {
    for item in [
        format!(r#"{{"message":"m","a":["{}"]}}"#, ["é"; 100].join("\",\"")),
        format!(r#"no object with a "{}""#, "é".repeat(100)),
    ] {
        let (batches, book) =
            records(item.as_bytes(), DatadogFormat::Lines, &DatadogDefaults::default(), 40)
                .unwrap();
        let record = &seen(&batches)[0];
        assert!(item.starts_with(&record.body) && record.body.len() >= 39);
        assert_eq!((record.flags, book.truncated), (RecordFlags::TRUNCATED, 1));
    }
}

#[test]
fn content_types_name_the_format() {
    for (text, format) in [
        ("application/json", DatadogFormat::Json),
        ("application/json; charset=utf-8", DatadogFormat::Json),
        ("application/x-www-form-urlencoded", DatadogFormat::Json),
        ("", DatadogFormat::Json),
        ("Text/Plain; charset=utf-8", DatadogFormat::Lines),
        ("application/logplex-1", DatadogFormat::Logplex),
    ] {
        assert_eq!(DatadogFormat::of_content_type(text), format, "{text}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,5}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_item() -> impl Strategy<Value = Map<String, Value>> {
    let key = prop_oneof![
        Just("message".to_owned()),
        Just("service".to_owned()),
        Just("ddtags".to_owned()),
        Just("ddsource".to_owned()),
        Just("hostname".to_owned()),
        Just("status".to_owned()),
        Just("timestamp".to_owned()),
        ".{0,6}",
    ];
    prop::collection::vec((key, any_value()), 0..8)
        .prop_map(|members| members.into_iter().collect())
}

/// Returns the attributes that a naive reader would set outside an item.
fn expected_attributes(item: &Map<String, Value>) -> Value {
    let says = |names: &[&str]| {
        names.iter().any(|name| {
            item.get(*name).is_some_and(|value| !value.is_null() && value != &Value::from(""))
        })
    };
    let mut expected = Map::new();
    for (name, names, value) in [
        ("ddsource", &["ddsource"][..], "nginx"),
        ("service", &["service"], "wéb \"1\""),
        ("hostname", &["hostname", "host"], "h\n1"),
    ] {
        if !says(names) {
            expected.insert(name.to_owned(), value.into());
        }
    }
    if says(&["ddtags"]) {
        expected.insert("tags".to_owned(), json!(["env:prod", "team:a"]));
    } else {
        expected.insert("ddtags".to_owned(), "env:prod,team:a".into());
    }
    Value::Object(expected)
}

proptest! {
    #[test]
    fn every_item_of_an_array_becomes_the_record_that_it_says(
        items in prop::collection::vec(any_item(), 0..6),
        pretty in any::<bool>(),
    ) {
        let print = |value: &Vec<Map<String, Value>>| {
            if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
        };
        let body = print(&items).unwrap();
        // As the other parser reads its own numbers.
        let items: Vec<Map<String, Value>> = serde_json::from_str(&body).unwrap();
        let (batches, book) =
            records(body.as_bytes(), DatadogFormat::Json, &all_defaults(), LINE_BYTES_MAX).unwrap();
        let found = seen(&batches);
        prop_assert_eq!(found.len(), items.len());
        prop_assert_eq!((book.lines, book.records), (items.len() as u64, items.len() as u64));
        for (record, item) in found.iter().zip(&items) {
            let value: Map<String, Value> = serde_json::from_str(&record.body).unwrap();
            prop_assert_eq!(&value, item);
            prop_assert_eq!(&record.attributes, &expected_attributes(item));
        }
        prop_assert!(batches.iter().all(Batch::is_utf8));
    }

    #[test]
    fn bytes_of_any_kind_are_taken_whole_or_refused_whole(
        mut body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[\\[\\]{}\",:0-9a-z\\\\ \n]{0,80}".prop_map(String::into_bytes),
            prop::collection::vec(any_item(), 0..5)
                .prop_map(|items| serde_json::to_vec(&items).unwrap()),
        ],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        max in 1_usize..100,
    ) {
        for (at, byte) in changes {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = byte;
            }
        }
        for format in [DatadogFormat::Json, DatadogFormat::Lines, DatadogFormat::Logplex] {
            let taken = records(&body, format, &all_defaults(), max);
            if format == DatadogFormat::Json {
                let is_probe = serde_json::from_slice::<Map<String, Value>>(&body)
                    .is_ok_and(|object| object.is_empty());
                // The other parser refuses numbers that a double cannot represent.
                let is_refused = |error: &serde_json::Error| {
                    error.to_string().starts_with("number out of range")
                };
                let other = serde_json::from_slice::<Vec<Map<String, Value>>>(&body)
                    .map(|items| items.len())
                    .or_else(|error| {
                        if is_refused(&error) {
                            return Err(error);
                        }
                        serde_json::from_slice::<Map<String, Value>>(&body)
                            .map(|_| usize::from(!is_probe))
                    });
                if !other.as_ref().is_err_and(is_refused) {
                    let found = taken.as_ref().ok().map(|(batches, _)| seen(batches).len());
                    prop_assert_eq!(found, other.ok());
                }
            }
            if let Ok((batches, book)) = taken {
                let bodies: usize =
                    batches.iter().flat_map(Batch::records).map(|r| r.body.len()).sum();
                prop_assert_eq!(book.bytes_read, bodies as u64);
                prop_assert!(book.bytes_read + book.abandoned_total() <= body.len() as u64);
            }
        }
    }
}
