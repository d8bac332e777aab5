//! Concatenated segments contain the same as the separate ones, and so do their sidecars.

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::{Input, bytes_of, file, open, read_all, rows_of};
use weir_codec::Scalar;
use weir_host::DiskFile;
use weir_store::embedded::columns::{NewRow, Rows, StoredRecord};
use weir_store::embedded::segment::{Segment, SegmentSummary, concat_columns, concat_segments};
use weir_store::embedded::sidecar::{
    Sidecar, concat_sidecars, rebuild_sidecar, word_term, write_segment_with_sidecar,
};

fn write(rows: &Rows) -> (Segment, Sidecar) {
    let (segment, sidecar) = (file(b""), file(b""));
    write_segment_with_sidecar(rows, 1, None, &*segment, &*sidecar).unwrap();
    let segment = open(&segment);
    let sidecar = Sidecar::open(sidecar, &segment).unwrap();
    (segment, sidecar)
}

fn concat(
    parts: &[(Segment, Sidecar)],
) -> Option<(Segment, Sidecar, SegmentSummary, Arc<dyn DiskFile>)> {
    let segments: Vec<&Segment> = parts.iter().map(|(segment, _)| segment).collect();
    let sidecars: Vec<&Sidecar> = parts.iter().map(|(_, sidecar)| sidecar).collect();
    let columns = concat_columns(&segments)?;
    let (segment_file, sidecar_file) = (file(b""), file(b""));
    let summary = concat_segments(&segments, &columns, None, &*segment_file).unwrap();
    concat_sidecars(&sidecars, &summary, &*sidecar_file).unwrap();
    let segment = open(&segment_file);
    let sidecar = Sidecar::open(Arc::clone(&sidecar_file), &segment).unwrap();
    Some((segment, sidecar, summary, sidecar_file))
}

/// Records whose values have the type determined by their path; no text is a number.
fn record() -> impl Strategy<Value = Vec<(String, i64, String)>> {
    proptest::collection::vec(("[a-f]", any::<i64>(), "[g-z][a-z0-9 ]{0,8}"), 0..5)
}

fn input<'a>(
    number: usize,
    attributes: &'a [(String, i64, String)],
    message: &'a str,
) -> Input<'a> {
    let value = |path: &str, number: i64, text: &'a str| match path {
        "a" | "b" => Scalar::Int(number),
        "c" => Scalar::Bool(number > 0),
        "d" => Scalar::Float(0.5),
        _ => Scalar::Text(text.as_bytes()),
    };
    Input {
        row: NewRow {
            time_ns: number as i64 * 1000,
            sequence: number as u64,
            service: (!number.is_multiple_of(3)).then_some(b"web".as_slice()),
            message: Some(message.as_bytes()),
            ..NewRow::default()
        },
        attributes: attributes
            .iter()
            .map(|(path, number, text)| (path.as_bytes(), value(path, *number, text)))
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn concatenation_loses_and_changes_nothing(
        parts in proptest::collection::vec(proptest::collection::vec(record(), 0..20), 1..4),
    ) {
        let mut wanted: Vec<StoredRecord> = Vec::new();
        let mut written = Vec::new();
        for (part, records) in parts.iter().enumerate() {
            let message = format!("part{part} of it");
            let inputs: Vec<Input<'_>> = records
                .iter()
                .enumerate()
                .map(|(number, attributes)| input(part * 100 + number, attributes, &message))
                .collect();
            let pair = write(&rows_of(&inputs));
            wanted.extend(read_all(&pair.0));
            written.push(pair);
        }
        let Some((segment, sidecar, summary, sidecar_file)) = concat(&written) else {
            return Err(TestCaseError::fail("expected columns that can be concatenated"));
        };
        prop_assert_eq!(read_all(&segment), wanted);
        prop_assert_eq!(summary.rows, segment.row_count());
        prop_assert_eq!(summary.time_range_ns, segment.time_range_ns());
        let mut group = 0;
        for (part, records) in parts.iter().enumerate() {
            if records.is_empty() {
                continue;
            }
            let pages = sidecar.pages(group, word_term(format!("part{part}").as_bytes()));
            prop_assert_eq!(pages.unwrap(), 1);
            group += 1;
        }
        prop_assert_eq!(group, segment.group_count());
        let rebuilt = file(b"");
        rebuild_sidecar(&segment, Arc::clone(&rebuilt)).unwrap();
        prop_assert_eq!(bytes_of(&*rebuilt), bytes_of(&*sidecar_file));
    }
}

fn with_value(value: Scalar<'_>) -> (Segment, Sidecar) {
    write(&rows_of(&[Input { row: NewRow::default(), attributes: vec![(b"a", value)] }]))
}

#[test]
fn columns_of_different_types_or_units_are_not_concatenated() {
    let fit = |a: Scalar<'_>, b: Scalar<'_>| concat(&[with_value(a), with_value(b)]).is_some();
    assert!(fit(Scalar::Int(1), Scalar::Int(2)));
    assert!(!fit(Scalar::Int(1), Scalar::Text(b"two")));
    assert!(!fit(Scalar::Text(b"1s"), Scalar::Text(b"1MiB")));
    assert!(fit(Scalar::Text(b"1s"), Scalar::Text(b"two")));
}

#[test]
fn damaged_page_is_not_copied() {
    let (segment_file, sidecar) = (file(b""), file(b""));
    let rows = rows_of(&[Input { row: NewRow::default(), attributes: Vec::new() }]);
    write_segment_with_sidecar(&rows, 1, None, &*segment_file, &*sidecar).unwrap();
    let mut bytes = bytes_of(&*segment_file);
    bytes[40] ^= 1;
    let segment = open(&file(&bytes));
    let columns = concat_columns(&[&segment]).unwrap();
    let error = concat_segments(&[&segment], &columns, None, &*file(b"")).unwrap_err();
    assert!(error.is_damage(), "{error}");
}

#[test]
fn read_records_can_be_written_again() {
    let inputs: Vec<Input<'_>> = (0..50)
        .map(|number| Input {
            row: NewRow { sequence: number, message: Some(b"a\xff"), ..NewRow::default() },
            attributes: vec![(b"n".as_slice(), Scalar::Int(5)), (b"n", Scalar::Null)],
        })
        .collect();
    let (segment, _) = write(&rows_of(&inputs));
    let records = read_all(&segment);
    let mut rows = Rows::new();
    for record in &records {
        rows.push_record(record).unwrap();
    }
    let (again, _) = write(&rows);
    assert_eq!(read_all(&again), records);
}
