//! When records arrived: the size of the column, and segments that do not have it yet.

mod support;

use std::sync::Arc;

use support::{Input, file, open, read_all, rows_of};
use weir_host::DiskFile;
use weir_store::embedded::columns::{NewRow, Rows, StoredRecord};
use weir_store::embedded::segment::{
    Role, Segment, concat_columns, concat_segments, write_segment,
};

/// A segment of version 1, written by a release that did not store arrivals: a record with an
/// attribute `lag`, one without, and a line of text.
const VERSION_1: &[u8] = include_bytes!("data/segment-1.parquet");

const SECOND_NS: i64 = 1_000_000_000;

/// Rows of batches that arrive every second, each with `records` events spread over the second
/// before.
fn batches(count: usize, records: usize) -> Rows {
    let rows = (0..count * records).map(|number| {
        let (batch, index) = (number / records, number % records);
        let arrival_ns = batch as i64 * SECOND_NS;
        // Not in order, as those of several senders.
        let place = (index * 37 % records) as i64 * SECOND_NS / records as i64;
        NewRow {
            time_ns: arrival_ns - SECOND_NS + place,
            sequence: number as u64,
            message: Some(b"hello"),
            arrival_ns: Some(arrival_ns),
            ..NewRow::default()
        }
    });
    rows_of(&rows.map(|row| Input { row, attributes: Vec::new() }).collect::<Vec<_>>())
}

/// Returns how many bytes of a segment an arrival takes.
fn bytes_per_record(rows: &Rows) -> f64 {
    let summary = write_segment(rows, 1, &*file(b"")).unwrap();
    let arrivals = summary.columns.iter().find(|summary| summary.column.role == Role::Arrival);
    arrivals.unwrap().packed_bytes as f64 / rows.len() as f64
}

#[test]
fn arrival_of_a_record_of_an_ordinary_batch_takes_a_fraction_of_a_byte() {
    for (count, records, bytes_max) in [(2_000, 100, 0.2), (100, 1_000, 0.02), (20_000, 5, 3.0)] {
        let bytes = bytes_per_record(&batches(count, records));
        println!("{records} records in a batch: {bytes:.4} bytes for each");
        assert!(bytes < bytes_max, "{bytes} bytes for each of {records} in a batch");
    }
}

#[test]
fn records_of_version_1_have_no_arrival() {
    let records = read_all(&open(&file(VERSION_1)));
    let arrivals: Vec<_> =
        records.iter().map(|record| (record.arrival_ns, record.lag_ns())).collect();
    assert_eq!(arrivals, [(None, None); 3]);
    assert!(records.iter().any(|record| record.message.as_deref() == Some("plain text")));
}

/// Asserts that these are the records of version 1, and those of a new segment after them.
fn assert_are_both(found: &[StoredRecord], old: &[StoredRecord], new: &[StoredRecord]) {
    let key = |record: &StoredRecord| (record.arrival_ns, record.time_ns);
    let sorted = |records: &[StoredRecord]| {
        let mut sorted = records.to_vec();
        sorted.sort_by_key(key);
        sorted
    };
    assert_eq!(sorted(found), sorted(&[old, new].concat()));
}

#[test]
fn segments_of_both_versions_are_merged_into_one() {
    let new: Arc<dyn DiskFile> = file(b"");
    write_segment(&batches(2, 3), 1, &*new).unwrap();
    let segments = [open(&file(VERSION_1)), open(&new)];
    let records = segments.each_ref().map(read_all);
    let parts: Vec<&Segment> = segments.iter().collect();
    let columns = concat_columns(&parts).unwrap();
    let concatenated = file(b"");
    concat_segments(&parts, &columns, None, &*concatenated).unwrap();
    assert_are_both(&read_all(&open(&concatenated)), &records[0], &records[1]);
    let mut rows = Rows::new();
    for segment in &segments {
        segment.copy_group(0, |_| true, &mut rows).unwrap();
    }
    let merged = file(b"");
    write_segment(&rows, 3, &*merged).unwrap();
    assert_are_both(&read_all(&open(&merged)), &records[0], &records[1]);
}
