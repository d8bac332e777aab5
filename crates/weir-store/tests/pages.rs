//! A page of records ends where the query's memory does, and the next page continues there.

mod support;

use std::sync::Arc;

use weir_host::RealClock;
use weir_model::Position;
use weir_store::embedded::columns::NewRow;
use weir_store::embedded::scan;
use weir_store::embedded::snapshot::{HeadChunk, OpenSegment, Snapshot};
use weir_store::query::{Access, Budget, Filter, Order, SearchRequest};

use support::{Input, open, rows_of, write};

const RECORDS: usize = 700;

fn input(number: usize, message: &str) -> Input<'_> {
    let row = NewRow {
        time_ns: number as i64,
        sequence: number as u64,
        position: Position::new(1, number as u64),
        message: Some(message.as_bytes()),
        ..NewRow::default()
    };
    Input { row, attributes: Vec::new() }
}

/// Returns the same records in the head, and in a segment.
fn snapshots() -> [Snapshot; 2] {
    let messages: Vec<String> = (0..RECORDS).map(|n| format!("request {n} done")).collect();
    let inputs: Vec<_> = messages.iter().enumerate().map(|(n, text)| input(n, text)).collect();
    let rows = rows_of(&inputs);
    let (name, segment) = ("seg".to_owned(), open(&write(&rows)));
    let segment = Arc::new(OpenSegment { name, segment, sidecar: None });
    [
        Snapshot { chunks: vec![(Arc::new(HeadChunk::new(rows)), RECORDS)], ..Snapshot::default() },
        Snapshot { segments: vec![segment], ..Snapshot::default() },
    ]
}

#[test]
fn page_ends_at_the_memory_limit_and_the_next_continues() {
    for snapshot in snapshots() {
        let filter = Filter::all(Access::all());
        let mut request =
            SearchRequest { filter, order: Order::OldestFirst, limit: 500, after: None };
        let page = |request: &SearchRequest, memory_bytes| {
            let budget = Budget::new(Arc::new(RealClock::new()), None, memory_bytes);
            scan::search(&snapshot, request, &budget).unwrap()
        };
        assert_eq!(page(&request, usize::MAX).records.len(), 500);
        assert_eq!(page(&request, 0).records.len(), 1, "a page has at least one record");
        let mut sequences = Vec::new();
        loop {
            let page = page(&request, 100_000);
            assert_eq!(page.coverage.partial_reasons, [], "nothing is missing");
            assert!((1..500).contains(&page.records.len()), "{}", page.records.len());
            sequences.extend(page.records.iter().map(|record| record.sequence));
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        assert_eq!(sequences, (0..RECORDS as u64).collect::<Vec<_>>());
    }
}
