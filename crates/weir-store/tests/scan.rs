//! Searches on the head and on segments find what the naive program finds on the records.

mod support;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_codec::Scalar;
use weir_expr::{Measure, parse};
use weir_host::RealClock;
use weir_model::{Position, RecordFlags, Severity};
use weir_store::embedded::columns::{Form, NewRow, Rows, StoredRecord};
use weir_store::embedded::scan;
use weir_store::embedded::segment::Segment;
use weir_store::embedded::sidecar::{Sidecar, write_segment_with_sidecar};
use weir_store::embedded::snapshot::{Deletion, HeadChunk, OpenSegment, Snapshot};
use weir_store::query::{
    Access, Budget, Filter, NamedMeasure, Order, SearchRequest, TimeRange, naive,
};

use support::{Input, file, rows_of};

/// A value of an attribute, owned.
#[derive(Debug, Clone)]
enum Given {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Given {
    fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Null => Scalar::Null,
            Self::Bool(truth) => Scalar::Bool(*truth),
            Self::Int(number) => Scalar::Int(*number),
            Self::Float(number) => Scalar::Float(*number),
            Self::Text(text) => Scalar::Text(text.as_bytes()),
        }
    }
}

#[derive(Debug, Clone)]
struct Record {
    time_ns: i64,
    stream: u64,
    form: Form,
    service: Option<&'static str>,
    status: Option<&'static str>,
    tags: Option<&'static str>,
    resource: Option<&'static str>,
    message: Option<String>,
    trace_id: Option<&'static str>,
    attributes: Vec<(&'static str, Given)>,
}

fn value() -> impl Strategy<Value = Given> {
    prop_oneof![
        1 => Just(Given::Null),
        1 => any::<bool>().prop_map(Given::Bool),
        4 => (-5_i64..6).prop_map(Given::Int),
        1 => Just(Given::Int((1 << 53) + 1)),
        2 => prop::sample::select(vec![0.5, 5.0, 1e300, -2.5]).prop_map(Given::Float),
        4 => prop::sample::select(vec!["5", "05", "web", "web-1", "", "300ms", "2s", "10.1.2.3"])
            .prop_map(|text| Given::Text(text.to_owned())),
    ]
}

const PATHS: [&str; 6] = ["a", "a.b", "n", "http.status_code", "trace_id", "message"];

fn attributes() -> impl Strategy<Value = Vec<(&'static str, Given)>> {
    prop::collection::vec((prop::sample::select(PATHS.to_vec()), value()), 0..5)
}

fn record() -> impl Strategy<Value = Record> {
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
        (0_i64..50, 0_u64..3, form),
        (select(&[None, Some("web"), Some("db")]), select(&[None, Some("error"), Some("info")])),
        select(&[None, Some(r#"["env:prod","urgent"]"#), Some(r#"["env:test"]"#)]),
        select(&[None, Some(r#"{"env":"lab","source_id":"s1","k":5}"#), Some("{}")]),
        message,
        (select(&[None, Some("t1"), Some("t2")]), attributes()),
    )
        .prop_map(
            |((time_ns, stream, form), (service, status), tags, resource, message, rest)| {
                let (trace_id, attributes) = rest;
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
                    attributes,
                }
            },
        )
}

fn rows(records: &[Record], first_sequence: u64) -> Rows {
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
            },
            attributes: record
                .attributes
                .iter()
                .map(|(path, value)| (path.as_bytes(), value.scalar()))
                .collect(),
        })
        .collect();
    rows_of(&inputs)
}

/// The records as they come back.
fn stored(rows: &Rows) -> Vec<StoredRecord> {
    (0..rows.len()).map(|row| rows.record(row).unwrap()).collect()
}

fn segment(rows: &Rows, has_sidecar: bool) -> Arc<OpenSegment> {
    let (data, filters) = (file(b""), file(b""));
    write_segment_with_sidecar(rows, 1, &*data, &*filters).unwrap();
    let segment = Segment::open(data).unwrap();
    let sidecar = has_sidecar.then(|| Sidecar::open(filters, &segment).unwrap());
    Arc::new(OpenSegment { name: "seg".to_owned(), segment, sidecar })
}

fn head(rows: Rows) -> (Arc<HeadChunk>, usize) {
    let len = rows.len();
    (Arc::new(HeadChunk::new(rows)), len)
}

/// The same records wherever they can be.
fn snapshots(older: &[Record], newer: &[Record]) -> (Vec<StoredRecord>, Vec<Snapshot>) {
    let (old, new) = (rows(older, 0), rows(newer, older.len() as u64));
    let mut all = stored(&old);
    all.extend(stored(&new));
    let of = |segments: Vec<Arc<OpenSegment>>, chunks| Snapshot {
        segments,
        chunks,
        ..Snapshot::default()
    };
    let snapshots = vec![
        of(vec![], vec![head(old.clone()), head(new.clone())]),
        of(vec![segment(&old, true), segment(&new, true)], vec![]),
        of(vec![segment(&old, false)], vec![head(new)]),
    ];
    (all, snapshots)
}

fn term() -> impl Strategy<Value = String> {
    let fixed = vec![
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
        "@sum:>3",
        "@sum:*",
        "@n:[a TO x]",
        "k:5",
        "*:*",
        "_exists_:status",
    ];
    prop::sample::select(fixed).prop_map(str::to_owned)
}

fn query() -> impl Strategy<Value = String> {
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

fn budget() -> Budget {
    Budget::new(Arc::new(RealClock::new()), None::<Duration>, 64 << 20)
}

fn filter(query: &str, range: TimeRange) -> Filter {
    let measure = Measure::parse("@a + @n").unwrap();
    Filter {
        query: parse(query).unwrap(),
        range,
        access: Access::all(),
        measures: vec![NamedMeasure { path: "sum".to_owned(), measure }],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_search_finds_what_the_naive_program_finds(
        older in prop::collection::vec(record(), 0..12),
        newer in prop::collection::vec(record(), 1..12),
        query in query(),
        range in prop_oneof![
            Just(TimeRange::ALL),
            (0_i64..30, 1_i64..30).prop_map(|(from_ns, len)| TimeRange { from_ns, to_ns: from_ns + len }),
        ],
        limit in prop_oneof![Just(100_usize), 1_usize..5],
        order in prop_oneof![Just(Order::NewestFirst), Just(Order::OldestFirst)],
    ) {
        let (all, snapshots) = snapshots(&older, &newer);
        for (number, snapshot) in snapshots.iter().enumerate() {
            let mut request =
                SearchRequest { filter: filter(&query, range), order, limit, after: None };
            loop {
                let wanted = naive::search(&all, &request);
                let found = scan::search(snapshot, &request, &budget()).unwrap();
                prop_assert_eq!(&found.records, &wanted.records, "{} in snapshot {}", query, number);
                prop_assert_eq!(found.next, wanted.next, "{} in snapshot {}", query, number);
                request.after = found.next;
                if request.after.is_none() {
                    break;
                }
            }
        }
    }

    #[test]
    fn access_and_deletions_hold_beside_any_query(
        records in prop::collection::vec(record(), 1..16),
        query in query(),
        only in query(),
        deleted in query(),
        before_sequence in 0_u64..16,
    ) {
        let (all, snapshots) = snapshots(&records, &[]);
        let mut asked = filter(&query, TimeRange::ALL);
        asked.access = Access::only(parse(&only).unwrap());
        let deletion = Deletion {
            query: parse(&deleted).unwrap(),
            range: TimeRange { from_ns: 5, to_ns: 40 },
            before_sequence,
        };
        let is_deleted = |record: &StoredRecord| {
            let filter = Filter {
                query: deletion.query.clone(),
                range: deletion.range,
                access: Access::all(),
                measures: Vec::new(),
            };
            record.sequence < before_sequence && naive::matches(&filter, record)
        };
        let left: Vec<StoredRecord> = all.iter().filter(|record| !is_deleted(record)).cloned().collect();
        let request =
            SearchRequest { filter: asked, order: Order::NewestFirst, limit: 100, after: None };
        let wanted = naive::search(&left, &request);
        for snapshot in snapshots {
            let snapshot = Snapshot { deletions: vec![deletion.clone()].into(), ..snapshot };
            let found = scan::search(&snapshot, &request, &budget()).unwrap();
            prop_assert_eq!(&found.records, &wanted.records, "{} of {} without {}", query, only, deleted);
        }
    }
}
