//! `DuckDB` and `ClickHouse` return the same results from a segment as weir.
//!
//! Requires Python with the packages `duckdb` and `chdb-core`, given by `WEIR_PYTHON`; `cargo xtask
//! test` provides it. The queries are generated from a fixed seed.

#[path = "../support/mod.rs"]
mod support;

mod sql;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use sql::Dialect;
use support::{Input, bytes_of, file, rows_of};
use weir_codec::Scalar;
use weir_expr::{Field, Reserved, parse};
use weir_host::{RealClock, Zone};
use weir_store::embedded::columns::{AttributeValue, NewRow, Rows};
use weir_store::embedded::scan;
use weir_store::embedded::segment::Segment;
use weir_store::embedded::sidecar::{Sidecar, write_segment_with_sidecar};
use weir_store::embedded::snapshot::{OpenSegment, Snapshot};
use weir_store::query::{
    Access, AggregateRequest, Aggregation, Budget, Compute, ComputeValue, Filter, GroupBy,
    GroupKey, TimeRange,
};

/// Reads one statement per line and prints its rows.
const SCRIPT: &str = r"
import json, sys
engine, path = sys.argv[1:3]
if engine == 'duckdb':
    import duckdb
    def ask(sql):
        return duckdb.sql(sql.replace('SEGMENT', f'read_parquet({path!r})')).fetchall()
else:
    import chdb
    def ask(sql):
        sql = sql.replace('SEGMENT', f'file({path!r}, Parquet)')
        return json.loads(str(chdb.query(sql, 'JSONCompact')))['data']
for line in sys.stdin:
    rows = ask(json.loads(line))
    print(json.dumps([[None if v is None else str(v) for v in row] for row in rows]))
";

const ROWS: usize = 40_000;
const START_NS: i64 = 1_700_000_000_000_000_000;
const WORDS: [&str; 12] = [
    "checkout",
    "timeout",
    "Request",
    "server",
    "connection",
    "ORDER",
    "payment",
    "user_id",
    "session",
    "café",
    "cache-miss",
    "x1",
];

/// Returns rows with columns of every type, on more than two pages.
fn sample() -> Rows {
    let mut rng = fastrand::Rng::with_seed(23);
    let messages: Vec<String> = (0..ROWS)
        .map(|_| {
            let count = 1 + rng.usize(..6);
            let words = (0..count).map(|_| WORDS[rng.usize(..WORDS.len())]);
            words.collect::<Vec<_>>().join([" ", ": ", "/", " - "][rng.usize(..4)])
        })
        .collect();
    let ids: Vec<String> = (0..ROWS).map(|_| format!("{:016x}", rng.u64(..))).collect();
    let took: Vec<String> = (0..ROWS).map(|_| format!("{}ms", rng.u32(..900))).collect();
    let inputs: Vec<Input<'_>> = (0..ROWS)
        .map(|number| {
            let row = NewRow {
                time_ns: START_NS + rng.i64(0..3_600_000_000_000),
                sequence: number as u64,
                stream: 7 + number as u64 % 3,
                position: weir_model::Position::new(1, number as u64 * 100),
                service: (number % 7 != 0).then_some([b"web", b"api"][number % 2]),
                host: Some([b"a1".as_slice(), b"b2", b"c3"][rng.usize(..3)]),
                status: [None, Some(b"info".as_slice()), Some(b"warn"), Some(b"error")]
                    [rng.usize(..4)],
                message: (number % 11 != 0).then_some(messages[number].as_bytes()),
                ..NewRow::default()
            };
            let mut attributes: Vec<(&[u8], Scalar<'_>)> = vec![
                (b"code", Scalar::Int([200, 200, 201, 301, 404, 500][rng.usize(..6)])),
                (b"id", Scalar::Text(ids[number].as_bytes())),
                (b"took", Scalar::Text(took[number].as_bytes())),
            ];
            if number % 3 != 0 {
                attributes.push((b"size", Scalar::Int(rng.i64(-50..5000))));
                attributes.push((b"load", Scalar::Float(f64::from(rng.u32(..1000)) / 8.0)));
            }
            if number % 5 == 0 {
                attributes.push((b"http.ok", Scalar::Bool(rng.bool())));
            }
            Input { row, attributes }
        })
        .collect();
    rows_of(&inputs)
}

/// Returns a term of a random kind, with values from `rng`.
fn term(rng: &mut fastrand::Rng) -> String {
    let word = WORDS[rng.usize(..WORDS.len())];
    match rng.u8(..22) {
        0 | 1 => word.to_lowercase(),
        2 => format!("\"{word} {}\"", WORDS[rng.usize(..WORDS.len())]),
        3 => format!("{}*", &word[..2]),
        4 => ["/time.*server/", "/^check/", "/miss$/", "/[A-Z]{5}/", "/x\\d/"][rng.usize(..5)]
            .to_owned(),
        5 => format!("service:{}", ["web", "api", "none"][rng.usize(..3)]),
        6 => "service:w*".to_owned(),
        7 => format!("host:{}", ["a1", "b2"][rng.usize(..2)]),
        8 => format!("status:{}", ["info", "err", "warning"][rng.usize(..3)]),
        9 => format!("status:>={}", ["info", "warn"][rng.usize(..2)]),
        10 => format!("@code:{}", [200, 201, 404, 999][rng.usize(..4)]),
        11 => format!("@code:[{} TO {}}}", rng.u32(200..400), rng.u32(300..600)),
        12 => format!("@size:>{}", rng.i32(-60..5000)),
        13 => format!("@size:[{} TO {}]", rng.i32(-60..0), rng.i32(0..5000)),
        14 => format!("@load:<={}", f64::from(rng.u32(..1000)) / 8.0),
        15 => format!("@load:{}", rng.u32(..100)),
        16 => format!("@took:>{}ms", rng.u32(..900)),
        17 => format!("@took:<{}s", f64::from(rng.u32(..900)) / 1000.0),
        18 => format!("@id:{:x}*", rng.u8(16..)),
        19 => format!("@id:/{:x}/", rng.u8(16..)),
        20 => format!("@http.ok:{}", rng.bool()),
        _ => ["@http.ok:*", "_missing_:@size", "@http:*", "_exists_:status", "message:*"]
            [rng.usize(..5)]
        .to_owned(),
    }
}

fn query(rng: &mut fastrand::Rng) -> String {
    match rng.u8(..6) {
        0 => format!("{} AND {}", term(rng), term(rng)),
        1 => format!("{} OR {}", term(rng), term(rng)),
        2 => format!("{} NOT ({} OR {})", term(rng), term(rng), term(rng)),
        3 => format!("({} OR {}) {}", term(rng), term(rng), term(rng)),
        _ => term(rng),
    }
}

/// Returns the column of which every query computes an aggregate, and how SQL computes it. The
/// columns are very different from each other.
fn sql_of(aggregation: Aggregation, dialect: Dialect) -> (&'static str, String) {
    match aggregation {
        Aggregation::Count => ("size", "count(\"@size\")".to_owned()),
        Aggregation::Cardinality => ("code", "count(distinct \"@code\")".to_owned()),
        Aggregation::Sum => ("size", "sum(\"@size\")".to_owned()),
        Aggregation::Average => ("load", "avg(\"@load\")".to_owned()),
        Aggregation::Min => ("size", "min(\"@size\")".to_owned()),
        Aggregation::Max => ("load", "max(\"@load\")".to_owned()),
        Aggregation::Percentile(percent) => {
            ("load", dialect.quantile("\"@load\"", percent / 100.0))
        }
    }
}

/// Returns the aggregations of every query: all of them, and one more percentile.
fn aggregations() -> impl Iterator<Item = Aggregation> {
    let named = Aggregation::NAMED.iter().map(|(_, aggregation)| *aggregation);
    named.chain([Aggregation::Percentile(90.0)])
}

/// Returns the aggregates of every query: the number of records, then the aggregations.
fn computes() -> Vec<Compute> {
    let of_field = |aggregation| {
        let (path, _) = sql_of(aggregation, Dialect::DuckDb);
        let field = Some(Field::Attribute(path.to_owned()));
        Compute { aggregation, field, interval_ns: None }
    };
    let records = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
    std::iter::once(records).chain(aggregations().map(of_field)).collect()
}

/// Returns how far an aggregate may be from that of another engine, as a share of it.
fn tolerance(compute: &Compute) -> f64 {
    match compute.aggregation {
        Aggregation::Percentile(_) => 0.01,
        Aggregation::Count
        | Aggregation::Cardinality
        | Aggregation::Sum
        | Aggregation::Average
        | Aggregation::Min
        | Aggregation::Max => 1e-9,
    }
}

fn groups(number: usize) -> (Vec<GroupBy>, Vec<&'static str>) {
    let service = Field::Reserved(Reserved::Service);
    let code = Field::Attribute("code".to_owned());
    let with_missing = |field| GroupBy { missing: Some(String::new()), ..GroupBy::top(field, 100) };
    match number % 4 {
        0 => (vec![with_missing(service)], vec!["\"service\""]),
        1 => (vec![GroupBy::top(code, 100)], vec!["\"@code\""]),
        2 => {
            (vec![with_missing(service), GroupBy::top(code, 100)], vec!["\"service\"", "\"@code\""])
        }
        _ => (vec![], vec![]),
    }
}

/// A query: the request to weir, and the equivalent SQL.
struct Question {
    query: String,
    request: AggregateRequest,
    keys: Vec<&'static str>,
}

fn questions() -> Vec<Question> {
    let mut rng = fastrand::Rng::with_seed(42);
    (0..320)
        .map(|number| {
            let query = query(&mut rng);
            let (group_by, keys) = groups(number);
            let from_ns = START_NS + rng.i64(0..1_800_000_000_000);
            let range = match number % 3 {
                0 => TimeRange { from_ns, to_ns: from_ns + 1_200_000_000_000 },
                _ => TimeRange { from_ns: START_NS, to_ns: START_NS + 3_600_000_000_000 },
            };
            let filter =
                Filter { query: parse(&query).unwrap(), range, ..Filter::all(Access::all()) };
            Question {
                query,
                request: AggregateRequest {
                    filter,
                    computes: computes(),
                    group_by,
                    zone: Zone::UTC,
                },
                keys,
            }
        })
        .collect()
}

fn statement(question: &Question, dialect: Dialect) -> String {
    let computes = aggregations().map(|aggregation| sql_of(aggregation, dialect).1);
    let keys = question.keys.iter().map(|key| (*key).to_owned());
    let shown: Vec<String> = keys.chain(["count(*)".to_owned()]).chain(computes).collect();
    let range = question.request.filter.range;
    let mut statement = format!(
        "select {} from SEGMENT where {} and {}",
        shown.join(", "),
        dialect.in_range(range.from_ns, range.to_ns),
        dialect.condition(&question.request.filter.query),
    );
    if !question.keys.is_empty() {
        statement.push_str(" group by ");
        statement.push_str(&question.keys.join(", "));
    }
    statement
}

/// Returns the results of an engine, one list of rows per statement.
fn ask(engine: &str, path: &str, statements: &[String]) -> Vec<Value> {
    let python = std::env::var("WEIR_PYTHON").expect("WEIR_PYTHON names a Python with the engines");
    let mut child = Command::new(python)
        .args(["-c", SCRIPT, engine, path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = statements.iter().map(|sql| json!(sql).to_string()).collect();
    let input = lines.join("\n");
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{engine} failed");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// Returns keys and aggregates as texts, in order. A group without records is left out.
fn by_weir(snapshot: &Snapshot, question: &Question) -> Vec<Vec<Option<String>>> {
    let budget = Budget::new(Arc::new(RealClock::new()), None, 64 << 20);
    let found = scan::aggregate(snapshot, &question.request, &budget).unwrap();
    assert!(!found.coverage.is_partial() && !found.is_approximate);
    let key = |key: &GroupKey| match key {
        GroupKey::Value(AttributeValue::Text(text)) => Some(text.clone()),
        GroupKey::Value(AttributeValue::Int(number)) => Some(number.to_string()),
        _ => None,
    };
    let text = |value: &ComputeValue| match value {
        ComputeValue::Count(count) => Some(count.to_string()),
        ComputeValue::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let rows = found.buckets.iter();
    let mut rows: Vec<Vec<_>> = rows
        .map(|row| row.by.iter().map(key).chain(row.computes.iter().map(text)).collect())
        .collect();
    rows.sort();
    rows
}

fn by_engine(answer: &Value) -> Vec<Vec<Option<String>>> {
    let text = |value: &Value| value.as_str().filter(|text| *text != "nan").map(str::to_owned);
    let rows = answer.as_array().unwrap().iter();
    let mut rows: Vec<Vec<_>> =
        rows.map(|row| row.as_array().unwrap().iter().map(text).collect()).collect();
    rows.sort();
    rows
}

/// Compares texts, or numbers except for rounding; percentiles within one percent.
fn is_same(ours: Option<&str>, theirs: Option<&str>, tolerance: f64) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
    match (number(ours), number(theirs)) {
        (Some(a), Some(b)) => (a - b).abs() <= a.abs().max(b.abs()) * tolerance,
        _ => ours == theirs,
    }
}

#[test]
fn three_hundred_queries_agree_with_other_engines() {
    let rows = sample();
    let (data, filters) = (file(b""), file(b""));
    write_segment_with_sidecar(&rows, 1, None, &*data, &*filters).unwrap();
    let path = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap().into_temp_path();
    std::fs::write(&path, bytes_of(&*data)).unwrap();
    let segment = Segment::open(data).unwrap();
    let sidecar = Some(Sidecar::open(filters, &segment).unwrap());
    let open = OpenSegment { name: "segment".to_owned(), segment, sidecar };
    let snapshot = Snapshot { segments: vec![Arc::new(open)], ..Snapshot::default() };

    let questions = questions();
    let ours: Vec<_> = questions.iter().map(|question| by_weir(&snapshot, question)).collect();
    let has_records = |(question, rows): &(&Question, &Vec<Vec<Option<String>>>)| {
        rows.iter().any(|row| row[question.keys.len()].as_deref() != Some("0"))
    };
    let answered = questions.iter().zip(&ours).filter(has_records).count();
    assert!(answered > 250, "only {answered} queries match any record");
    for (engine, dialect) in [("duckdb", Dialect::DuckDb), ("chdb", Dialect::ClickHouse)] {
        let statements: Vec<String> =
            questions.iter().map(|question| statement(question, dialect)).collect();
        let answers = ask(engine, path.to_str().unwrap(), &statements);
        assert_eq!(answers.len(), questions.len());
        for (number, (question, answer)) in questions.iter().zip(&answers).enumerate() {
            let (ours, theirs) = (&ours[number], by_engine(answer));
            let (keys, computes) = (question.keys.len(), &question.request.computes);
            let are_same = ours.len() == theirs.len()
                && ours.iter().zip(&theirs).all(|(ours, theirs)| {
                    ours.iter().zip(theirs).enumerate().all(|(place, (a, b))| {
                        // Engines disagree about aggregates over nothing.
                        let is_nothing = a.is_none() && b.as_deref() == Some("0");
                        let compute = place.checked_sub(keys).map(|n| &computes[n]);
                        let tolerance = compute.map_or(0.0, tolerance);
                        is_nothing || is_same(a.as_deref(), b.as_deref(), tolerance)
                    })
                });
            assert!(
                are_same,
                "{engine}: {}\n{}\nweir   {ours:?}\nengine {theirs:?}",
                question.query, statements[number],
            );
        }
    }
}
