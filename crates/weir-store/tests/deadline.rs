//! A query stops at its deadline even within a page: a regular expression may take long for the
//! texts of a single page, and so may thousands of terms for any values.

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

/// Records with the same long message, each with an attribute of its own.
fn large_records() -> Snapshot {
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
    snapshot(&(0..RECORDS).map(input).collect::<Vec<_>>())
}

/// A page of records with short messages and attributes.
fn small_records() -> Snapshot {
    let texts: Vec<String> = (0..1000).map(|number| format!("t{number}")).collect();
    let row = |number: usize| NewRow {
        position: Position::new(1, number as u64),
        message: Some(texts[number].as_bytes()),
        ..NewRow::default()
    };
    let attributes = |number: usize| {
        let text = texts[number].as_bytes();
        let number = number as i64;
        let own = ("own", Scalar::Text(text));
        [own, ("number", Scalar::Int(number)), ("few", Scalar::Text(&text[..2]))]
            .map(|(path, value)| (path.as_bytes(), value))
            .into()
    };
    let input = |number| Input { row: row(number), attributes: attributes(number) };
    snapshot(&(0..texts.len()).map(input).collect::<Vec<_>>())
}

fn snapshot(inputs: &[Input<'_>]) -> Snapshot {
    let rows = rows_of(inputs);
    let len = rows.len();
    Snapshot { chunks: vec![(Arc::new(HeadChunk::new(rows)), len)], ..Snapshot::default() }
}

fn reasons(snapshot: &Snapshot, query: &str, seconds: u64) -> Vec<PartialReason> {
    let time = Some(Duration::from_secs(seconds));
    let budget = Budget::new(Arc::new(SlowClock::default()), time, usize::MAX);
    scan::aggregate(snapshot, &count_of(query), &budget).unwrap().coverage.partial_reasons
}

#[test]
fn text_search_stops_within_a_page_at_the_deadline() {
    let snapshot = large_records();
    for query in ["/[ab]*[c-z]/", "/b$/", "\"ab ab\"", "@own:/[ab]*[c-z]/", "@own:*x", "@same:*x"] {
        // The clock is read before and between pages, and then within this one.
        assert_eq!(reasons(&snapshot, query, 8), [PartialReason::Deadline], "{query}");
        assert_eq!(reasons(&snapshot, query, 1000), [], "{query}");
    }
}

#[test]
fn many_terms_stop_within_a_page_at_the_deadline() {
    const TERMS: u64 = 500;
    let snapshot = small_records();
    for term in ["@own:x", "@own:*x", "@number:-1", "@few:x", "*:*x", "message:*x"] {
        let terms: Vec<String> = (0..TERMS).map(|number| format!("{term}{number}")).collect();
        let query = terms.join(" OR ");
        // The clock is also read for each term that is compiled.
        assert_eq!(reasons(&snapshot, &query, TERMS + 8), [PartialReason::Deadline], "{term}");
        assert_eq!(reasons(&snapshot, &query, 100 * TERMS), [], "{term}");
    }
}
