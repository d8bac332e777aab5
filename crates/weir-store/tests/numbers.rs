//! Numbers in an attribute that is mostly text are found by any equal number, in whatever form they
//! are stored.

mod support;

use std::sync::Arc;

use weir_codec::Scalar;
use weir_host::RealClock;
use weir_model::Position;
use weir_store::embedded::columns::NewRow;
use weir_store::embedded::scan;
use weir_store::embedded::segment::Segment;
use weir_store::embedded::sidecar::{Sidecar, write_segment_with_sidecar};
use weir_store::embedded::snapshot::{HeadChunk, OpenSegment, Snapshot};
use weir_store::query::{Budget, ComputeValue};

use support::{Input, count_of, file, rows_of};

/// Enough distinct texts that the column has no dictionary and every page has a number.
const RECORDS: usize = 40_000;

const NUMBERS: [Scalar<'static>; 7] = [
    Scalar::Float(-0.0),
    Scalar::Int(0),
    Scalar::Float(1e16),
    Scalar::Int(10_000_000_000_000_002),
    Scalar::Float(10_000_000_000_000_002.0),
    Scalar::Float(2.5),
    Scalar::Int(7),
];

fn snapshots() -> [Snapshot; 2] {
    let texts: Vec<String> = (0..RECORDS).map(|number| format!("text {number}")).collect();
    let inputs: Vec<Input<'_>> = (0..RECORDS)
        .map(|number| {
            let value = match number % 1000 {
                0 => NUMBERS[number / 1000 % NUMBERS.len()],
                _ => Scalar::Text(texts[number].as_bytes()),
            };
            let position = Position::new(1, number as u64);
            let row = NewRow { time_ns: 1, sequence: number as u64, position, ..NewRow::default() };
            Input { row, attributes: vec![(&b"v"[..], value)] }
        })
        .collect();
    let rows = rows_of(&inputs);
    let (data, filters) = (file(b""), file(b""));
    write_segment_with_sidecar(&rows, 1, None, &*data, &*filters).unwrap();
    let segment = Segment::open(data).unwrap();
    let sidecar = Some(Sidecar::open(filters, &segment).unwrap());
    let segment = Arc::new(OpenSegment { name: "seg".to_owned(), segment, sidecar });
    let len = rows.len();
    [
        Snapshot { chunks: vec![(Arc::new(HeadChunk::new(rows)), len)], ..Snapshot::default() },
        Snapshot { segments: vec![segment], ..Snapshot::default() },
    ]
}

fn count(snapshot: &Snapshot, query: &str) -> ComputeValue {
    let budget = Budget::new(Arc::new(RealClock::new()), None, usize::MAX);
    let found = scan::aggregate(snapshot, &count_of(query), &budget).unwrap();
    found.buckets[0].computes[0].clone()
}

#[test]
fn equal_numbers_match_in_head_and_segment() {
    let [head, segment] = snapshots();
    for (query, wanted) in [
        ("@v:0", 12),
        ("@v:-0.0", 12),
        ("@v:[0 TO 0]", 12),
        ("@v:10000000000000000", 6),
        ("@v:1e16", 6),
        ("@v:10000000000000002", 12),
        ("@v:1.0000000000000002e16", 12),
        ("@v:2.5", 5),
        ("@v:7", 5),
        ("@v:7.0", 5),
        ("@v:8", 0),
    ] {
        let found = [&head, &segment].map(|snapshot| count(snapshot, query));
        assert_eq!(found, [(); 2].map(|()| ComputeValue::Count(wanted)), "{query}");
    }
}
