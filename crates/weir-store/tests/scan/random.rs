//! Random records and expressions, drawn from few values so that they match.

use proptest::prelude::*;
use weir_model::{Position, RecordFlags, Severity};
use weir_store::embedded::columns::{AttributeValue, Form, NewRow, Rows};

use crate::support::{Input, rows_of};

#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) time_ns: i64,
    pub(crate) stream: u64,
    pub(crate) form: Form,
    pub(crate) service: Option<&'static str>,
    pub(crate) status: Option<&'static str>,
    pub(crate) tags: Option<&'static str>,
    pub(crate) resource: Option<&'static str>,
    pub(crate) message: Option<String>,
    pub(crate) trace_id: Option<&'static str>,
    pub(crate) arrival_ns: Option<i64>,
    pub(crate) attributes: Vec<(&'static str, AttributeValue)>,
}

fn value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        1 => Just(AttributeValue::Null),
        1 => any::<bool>().prop_map(AttributeValue::Bool),
        4 => (-5_i64..6).prop_map(AttributeValue::Int),
        1 => Just(AttributeValue::Int((1 << 53) + 1)),
        2 => prop::sample::select(vec![0.5, 5.0, 1e300, -2.5]).prop_map(AttributeValue::Float),
        4 => prop::sample::select(vec!["5", "05", "web", "web-1", "", "300ms", "2s", "t=1700000000.5", "10.1.2.3", "18446744073709551615"])
            .prop_map(|text| AttributeValue::Text(text.to_owned())),
    ]
}

pub(crate) const PATHS: [&str; 9] =
    ["a", "a.b", "n", "http.status_code", "wait_ms", "trace_id", "message", "lag", "lag.of"];

fn attributes() -> impl Strategy<Value = Vec<(&'static str, AttributeValue)>> {
    prop::collection::vec((prop::sample::select(PATHS.to_vec()), value()), 0..5)
}

/// Some times are the same, as those of a batch.
fn arrival() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![2 => Just(None), 3 => Just(Some(20)), 3 => (0_i64..60).prop_map(Some), 1 => Just(Some(i64::MAX))]
}

pub(crate) fn record() -> impl Strategy<Value = Record> {
    let form = (0_u8..4, 0_u8..3).prop_map(|(flags, taken)| {
        let form = Form::new(RecordFlags(flags), Severity::UNSPECIFIED);
        match taken {
            0 => form,
            1 => form.with_message(0),
            _ => form.with_message(1).with_trace(1),
        }
    });
    let message = prop_oneof![
        Just(None),
        prop::sample::select(vec![
            "",
            "error",
            "an ERROR: timed out",
            "user_id=42",
            "café web-1",
            "b a",
            "a b",
            "5",
        ])
        .prop_map(|text| Some(text.to_owned())),
    ];
    let select = |values: &[Option<&'static str>]| prop::sample::select(values.to_vec());
    (
        (prop_oneof![9 => 0_i64..50, 1 => Just(i64::MIN), 1 => Just(i64::MAX)], 0_u64..3, form),
        (select(&[None, Some("web"), Some("db")]), select(&[None, Some("error"), Some("info")])),
        select(&[None, Some(r#"["env:prod","urgent"]"#), Some(r#"["env:test"]"#)]),
        select(&[
            None,
            Some(r#"{"env":"lab","source_id":"s1","k":5}"#),
            Some(r#"{"service.name":"web","network.peer.address":"10.0.0.7"}"#),
            Some("{}"),
        ]),
        message,
        (select(&[None, Some("t1"), Some("t2")]), arrival(), attributes()),
    )
        .prop_map(
            |((time_ns, stream, form), (service, status), tags, resource, message, rest)| {
                let (trace_id, arrival_ns, attributes) = rest;
                Record {
                    time_ns,
                    stream,
                    form,
                    service,
                    status,
                    tags,
                    resource,
                    message,
                    trace_id,
                    arrival_ns,
                    attributes,
                }
            },
        )
}

pub(crate) fn rows(records: &[Record], first_sequence: u64) -> Rows {
    let inputs: Vec<Input<'_>> = records
        .iter()
        .enumerate()
        .map(|(number, record)| Input {
            row: NewRow {
                time_ns: record.time_ns,
                sequence: first_sequence + number as u64,
                stream: record.stream,
                position: Position::new(1, first_sequence + number as u64),
                form: record.form,
                service: record.service.map(str::as_bytes),
                host: None,
                source: Some(b"app"),
                status: record.status.map(str::as_bytes),
                tags: record.tags.map(str::as_bytes),
                resource: record.resource.map(str::as_bytes),
                message: record.message.as_ref().map(String::as_bytes),
                trace_id: record.trace_id.map(str::as_bytes),
                span_id: None,
                received: None,
                arrival_ns: record.arrival_ns,
            },
            attributes: record
                .attributes
                .iter()
                .map(|(path, value)| (path.as_bytes(), value.as_scalar()))
                .collect(),
        })
        .collect();
    rows_of(&inputs)
}

/// Terms that match some of the records.
const TERMS: [&str; 80] = [
    "error",
    "ERROR",
    "\"b a\"",
    "er*",
    "\"\"",
    "/a.*b/",
    "/^a/",
    "/x*/",
    "message:*",
    "service:web",
    "service:w*",
    "-service:*",
    "status:error",
    "status:>=warn",
    "status:err*",
    "source:app",
    "env:prod",
    "env:lab",
    "env:*",
    "tags:urgent",
    "source_id:s1",
    "app_name:web",
    "app_name:*",
    "CIDR(peer,10.0.0.0/8)",
    "iostream:*",
    "trace_id:t1",
    "@trace_id:*",
    "trace_id:*",
    "@message:error",
    "@message:*",
    "*:web",
    "*:5",
    "*:error",
    "@a:*",
    "@a.b:*",
    "@http:*",
    "@http.status_code:5",
    "@missing:x",
    "@missing:*",
    "_missing_:@a",
    "@a:5",
    "@a:\"5\"",
    "@a:05",
    "@a:5.0",
    "@a:>1s",
    "@a:web*",
    "@a:/e/",
    "@n:>0",
    "@n:[-2 TO 3}",
    "@n:<0.75",
    "@n:true",
    "@n:>1e299",
    "@n:\"0.5\"",
    "CIDR(@a,10.0.0.0/8)",
    "@a:(\"\" OR web)",
    "@n:9007199254740993",
    "@n:18446744073709551615",
    "@n:>9223372036854775807",
    "@sum:>3",
    "@wait_ms:>3ms",
    "@wait_ms:[1us TO 2s]",
    "@wait_ms:5ms",
    "@wait_ms:<0.001s",
    "@late:>2ms",
    "@late:4ms",
    "@late:[1s TO 3s]",
    "@sum:*",
    "@lag:*",
    "@lag.of:*",
    "-@lag:*",
    "@lag:>5ns",
    "@lag:<0",
    "@lag:[2 TO 30}",
    "@lag:7",
    "@lag:>1s",
    "@lag:web",
    "@n:[a TO x]",
    "k:5",
    "*:*",
    "_exists_:status",
];

fn term() -> impl Strategy<Value = String> {
    prop::sample::select(TERMS.to_vec()).prop_map(str::to_owned)
}

pub(crate) fn query() -> impl Strategy<Value = String> {
    term().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" AND "))),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" OR "))),
            inner.prop_map(|part| format!("NOT {part}")),
        ]
    })
}
