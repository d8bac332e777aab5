//! Common code of the store's tests.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::Path;
use std::sync::Arc;

use weir_codec::Scalar;
use weir_host::{Disk, DiskFile, OpenMode, Zone};
use weir_store::embedded::columns::{NewRow, Rows, StoredRecord};
use weir_store::embedded::segment::{Segment, write_segment};
use weir_store::query::{Access, AggregateRequest, Aggregation, Compute, Filter};
use weir_testkit::FaultyDisk;

/// A row with its attributes.
#[derive(Debug, Clone)]
pub(crate) struct Input<'a> {
    pub(crate) row: NewRow<'a>,
    pub(crate) attributes: Vec<(&'a [u8], Scalar<'a>)>,
}

pub(crate) fn rows_of(inputs: &[Input<'_>]) -> Rows {
    let mut rows = Rows::new();
    for input in inputs {
        rows.push(&input.row, input.attributes.iter().copied()).unwrap();
    }
    rows
}

/// Creates a file in memory.
pub(crate) fn file(bytes: &[u8]) -> Arc<dyn DiskFile> {
    let disk = FaultyDisk::new();
    disk.put(Path::new("/file"), bytes);
    Arc::from(disk.open(Path::new("/file"), OpenMode::ReadWrite).unwrap())
}

pub(crate) fn bytes_of(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub(crate) fn write(rows: &Rows) -> Arc<dyn DiskFile> {
    let file = file(b"");
    let summary = write_segment(rows, 1, &*file).unwrap();
    assert_eq!(summary.rows, rows.len() as u64);
    assert_eq!(summary.file_bytes, file.len().unwrap());
    file
}

pub(crate) fn open(file: &Arc<dyn DiskFile>) -> Segment {
    Segment::open(Arc::clone(file)).unwrap()
}

/// Returns every record of a segment, in order.
pub(crate) fn read_all(segment: &Segment) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    let add = |record| {
        records.push(record);
        Ok(())
    };
    segment.for_each_record(add).unwrap();
    records
}

/// Counts the records that match an expression.
pub(crate) fn count_of(query: &str) -> AggregateRequest {
    let query = weir_expr::parse(query).unwrap();
    let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
    let filter = Filter { query, ..Filter::all(Access::all()) };
    AggregateRequest { filter, computes: vec![count], group_by: Vec::new(), zone: Zone::UTC }
}
