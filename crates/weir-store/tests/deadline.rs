//! A query stops at its deadline even within a page: a regular expression may take long for the
//! texts of a single page.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_codec::Scalar;
use weir_host::Clock;
use weir_model::Position;
use weir_store::embedded::columns::NewRow;
use weir_store::embedded::scan;
use weir_store::embedded::snapshot::{HeadChunk, Snapshot};
use weir_store::query::{Budget, PartialReason};

use support::{Input, count_of, rows_of};

/// They all fit into one page; together they are far more than is searched at once.
const RECORDS: usize = 64;
const MESSAGE_BYTES: usize = 100_000;

/// Every reading of it takes a second.
#[derive(Debug, Default)]
struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn unix_ns(&self) -> i64 {
        0
    }
}

fn snapshot() -> Snapshot {
    let text = "ab".repeat(MESSAGE_BYTES / 2);
    let texts: Vec<String> = (0..RECORDS).map(|number| format!("{text}{number}")).collect();
    let row = |number: usize| NewRow {
        sequence: number as u64,
        position: Position::new(1, number as u64),
        message: Some(text.as_bytes()),
        ..NewRow::default()
    };
    let attributes = |number: usize| {
        [("same", &text), ("own", &texts[number])]
            .map(|(path, text)| (path.as_bytes(), Scalar::Text(text.as_bytes())))
            .into()
    };
    let input = |number| Input { row: row(number), attributes: attributes(number) };
    let rows = rows_of(&(0..RECORDS).map(input).collect::<Vec<_>>());
    let len = rows.len();
    Snapshot { chunks: vec![(Arc::new(HeadChunk::new(rows)), len)], ..Snapshot::default() }
}

#[test]
fn text_search_stops_within_a_page_at_the_deadline() {
    let snapshot = snapshot();
    for query in ["/[ab]*[c-z]/", "/b$/", "\"ab ab\"", "@own:/[ab]*[c-z]/", "@own:*x", "@same:*x"] {
        let found = |seconds| {
            let time = Some(Duration::from_secs(seconds));
            let budget = Budget::new(Arc::new(SlowClock::default()), time, usize::MAX);
            scan::aggregate(&snapshot, &count_of(query), &budget).unwrap().coverage.partial_reasons
        };
        // The clock is read before and between pages, and then within this one.
        assert_eq!(found(8), [PartialReason::Deadline], "{query}");
        assert_eq!(found(1000), [], "{query}");
    }
}
