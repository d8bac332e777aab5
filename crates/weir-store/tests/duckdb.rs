//! Another engine reads the same rows out of a segment.
//!
//! Requires Python with the package `duckdb`, given by `WEIR_PYTHON`; `cargo xtask test` provides
//! it.

mod support;

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use support::{Input, bytes_of, rows_of, write};
use weir_codec::Scalar;
use weir_store::embedded::columns::{AttributeValue, NewRow, Rows, StoredRecord};

const SCRIPT: &str = r#"
import duckdb, json, sys
found = duckdb.sql(f"""
    select epoch_ns(ts) as ts, * exclude (ts) from read_parquet('{sys.argv[1]}') order by seq
""")
names = found.columns
for row in found.fetchall():
    # Floats as text: not every reader of JSON keeps their last digit.
    print(json.dumps({
        name: repr(value) if isinstance(value, float) else value
        for name, value in zip(names, row) if value is not None
    }))
"#;

/// Returns rows with columns of every type, on more than two pages.
fn sample() -> Rows {
    let mut rng = fastrand::Rng::with_seed(11);
    let texts: Vec<String> = (0..40_000).map(|_| format!("{:016x} ünïcode", rng.u64(..))).collect();
    let took: Vec<String> = (0..40_000).map(|_| format!("{}ms", rng.u32(..9000))).collect();
    let inputs: Vec<Input<'_>> = texts
        .iter()
        .zip(&took)
        .enumerate()
        .map(|(number, (text, took))| {
            let row = NewRow {
                time_ns: 1_700_000_000_000_000_000 + rng.i64(..1_000_000_000_000),
                sequence: number as u64,
                stream: u64::MAX - number as u64 % 3,
                position: weir_model::Position::new(1, number as u64 * 100),
                service: (number % 7 != 0).then_some([b"web", b"api"][number % 2]),
                message: (number % 11 != 0).then_some(text.as_bytes()),
                ..NewRow::default()
            };
            let mut attributes: Vec<(&[u8], Scalar<'_>)> = vec![
                (b"int", Scalar::Int(rng.i64(..))),
                (b"code", Scalar::Int(rng.i64(200..206))),
                (b"double", Scalar::Float(rng.f64())),
                (b"id.hex", Scalar::Text(text.as_bytes())),
                (b"took", Scalar::Text(took.as_bytes())),
            ];
            if number % 5 == 0 {
                attributes.push((b"bool", Scalar::Bool(rng.bool())));
                attributes.push((b"mixed", Scalar::Int(number as i64)));
                attributes.push((b"list", Scalar::Int(1)));
                attributes.push((b"list", Scalar::Int(2)));
            } else {
                attributes.push((b"mixed", Scalar::Text(took.as_bytes())));
            }
            Input { row, attributes }
        })
        .collect();
    rows_of(&inputs)
}

fn float(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap()
}

fn compare(row: &BTreeMap<String, Value>, record: &StoredRecord) {
    assert_eq!(row["ts"], record.time_ns);
    assert_eq!(row["stream"], record.stream.0);
    assert_eq!(row["offset"], record.position.offset);
    let text = |name: &str| row.get(name).map(|value| value.as_str().unwrap().to_owned());
    assert_eq!(text("service"), record.service);
    assert_eq!(text("message"), record.message);
    for (path, values) in &record.attributes {
        let [value] = values.as_slice() else {
            assert_eq!(row["_rest"], r#"{"list":[1,2]}"#);
            continue;
        };
        let found = &row[&format!("@{path}")];
        match value {
            AttributeValue::Int(number) if path == "mixed" => {
                assert_eq!(*found, number.to_string());
                assert_eq!(row["kind@mixed"], 1);
            }
            AttributeValue::Int(number) => assert_eq!(found, number),
            AttributeValue::Float(number) => assert_eq!(float(found).to_bits(), number.to_bits()),
            AttributeValue::Bool(truth) => assert_eq!(found, truth),
            AttributeValue::Text(text) => assert_eq!(found, text),
            AttributeValue::Null => panic!("nulls are in the rest"),
        }
    }
    let took: f64 = text("@took").unwrap().trim_end_matches("ms").parse().unwrap();
    assert_eq!(float(&row["number@took"]).to_bits(), (took * 1e6).to_bits());
}

#[test]
fn duckdb_reads_every_column_of_every_row() {
    let Some(python) = std::env::var_os("WEIR_PYTHON") else { return };
    let rows = sample();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("segment.parquet");
    std::fs::write(&path, bytes_of(&*write(&rows))).unwrap();
    let output = Command::new(python).args(["-c", SCRIPT]).arg(&path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut count = 0;
    for (number, line) in lines.lines().enumerate() {
        let row: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
        compare(&row, &rows.record(number).unwrap());
        count += 1;
    }
    assert_eq!(count, rows.len());
}
