//! Grouping by a field of which nearly every record has a value of its own, in less memory than the
//! groups need: frequent values are found nevertheless.

mod support;

use std::sync::Arc;

use weir_codec::Scalar;
use weir_expr::Field;
use weir_host::RealClock;
use weir_model::Position;
use weir_store::embedded::columns::{AttributeValue, NewRow};
use weir_store::embedded::scan;
use weir_store::embedded::segment::Segment;
use weir_store::embedded::sidecar::write_segment_with_sidecar;
use weir_store::embedded::snapshot::{OpenSegment, Snapshot};
use weir_store::query::{
    Aggregate, AggregateRequest, Aggregation, Bucket, Budget, Compute, ComputeValue, GroupBy,
    GroupKey,
};

use support::{Input, count_of, file, rows_of};

const SEGMENTS: usize = 3;
const SEGMENT_RECORDS: usize = 20_000;
const RECORDS: usize = SEGMENTS * SEGMENT_RECORDS;

/// Memory for about a thirtieth of the groups.
const MEMORY_BYTES: usize = 400_000;

/// Returns the address of a record: three are frequent, every other record has its own.
fn address(number: usize) -> String {
    match number {
        n if n % 20 == 3 => "often".to_owned(),
        n if n % 100 == 17 => "seldom".to_owned(),
        n if n % 500 == 44 => "rarely".to_owned(),
        n => format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255),
    }
}

/// The largest service has no frequent address.
fn service(number: usize) -> &'static str {
    let is_frequent = !address(number).starts_with("10.");
    if is_frequent || number.is_multiple_of(5) { "small" } else { "large" }
}

fn snapshot() -> Snapshot {
    let segment = |number: usize| {
        let first = number * SEGMENT_RECORDS;
        let addresses: Vec<String> = (first..first + SEGMENT_RECORDS).map(address).collect();
        segment_of(first, &addresses)
    };
    Snapshot { segments: (0..SEGMENTS).map(segment).collect(), ..Snapshot::default() }
}

/// Returns a segment of records numbered from `first` on, each with its address.
fn segment_of(first: usize, addresses: &[String]) -> Arc<OpenSegment> {
    let inputs: Vec<Input<'_>> = (first..)
        .zip(addresses)
        .map(|(number, address)| Input {
            row: NewRow {
                time_ns: number as i64,
                sequence: number as u64,
                position: Position::new(1, number as u64),
                service: Some(service(number).as_bytes()),
                ..NewRow::default()
            },
            attributes: vec![(&b"ip"[..], Scalar::Text(address.as_bytes()))],
        })
        .collect();
    let (data, filters) = (file(b""), file(b""));
    write_segment_with_sidecar(&rows_of(&inputs), 1, None, &*data, &*filters).unwrap();
    let segment = Segment::open(data).unwrap();
    Arc::new(OpenSegment { name: format!("seg-{first}"), segment, sidecar: None })
}

fn count(interval_ns: Option<i64>) -> Compute {
    Compute { aggregation: Aggregation::Count, field: None, interval_ns }
}

fn grouped(fields: Vec<GroupBy>, computes: Vec<Compute>, memory_bytes: usize) -> Aggregate {
    let found = grouped_of(&snapshot(), fields, computes, memory_bytes);
    assert_eq!(found.matched, RECORDS as u64);
    found
}

fn grouped_of(
    snapshot: &Snapshot,
    group_by: Vec<GroupBy>,
    computes: Vec<Compute>,
    memory_bytes: usize,
) -> Aggregate {
    let request = AggregateRequest { computes, group_by, ..count_of("*") };
    let budget = Budget::new(Arc::new(RealClock::new()), None, memory_bytes);
    let found = scan::aggregate(snapshot, &request, &budget).unwrap();
    assert!(!found.coverage.is_partial());
    found
}

fn by_ip(limit: usize) -> GroupBy {
    GroupBy::top(Field::Attribute("ip".to_owned()), limit)
}

fn names(bucket: &Bucket) -> Vec<String> {
    let name = |key: &GroupKey| match key {
        GroupKey::Value(AttributeValue::Text(text)) => text.clone(),
        other => panic!("{other:?} is no text"),
    };
    bucket.by.iter().map(name).collect()
}

/// Returns how many records have the address.
fn records_of(wanted: &str) -> u64 {
    (0..RECORDS).filter(|number| address(*number) == wanted).count() as u64
}

#[test]
fn frequent_groups_are_counted_exactly() {
    let found = grouped(vec![by_ip(3)], vec![count(None)], MEMORY_BYTES);
    assert!(found.is_approximate, "other groups were merged");
    let counts: Vec<_> =
        found.buckets.iter().map(|bucket| (names(bucket), bucket.computes.clone())).collect();
    let wanted = ["often", "seldom", "rarely"];
    let wanted =
        wanted.map(|name| (vec![name.to_owned()], vec![ComputeValue::Count(records_of(name))]));
    assert_eq!(counts, wanted);
}

#[test]
fn result_is_exact_if_all_groups_fit_into_memory() {
    let found = grouped(vec![by_ip(100_000)], vec![count(None)], 64 << 20);
    assert!(!found.is_approximate);
    let (own, others) = found.buckets[3..].iter().fold((0, 0), |(own, others), bucket| {
        let is_own = bucket.computes == [ComputeValue::Count(1)];
        (own + u64::from(is_own), others + u64::from(!is_own))
    });
    let frequent: u64 = ["often", "seldom", "rarely"].map(records_of).iter().sum();
    assert_eq!((own, others), (RECORDS as u64 - frequent, 0));
}

#[test]
fn leading_fields_are_ordered_by_all_their_records() {
    let service = GroupBy::top(Field::Reserved(weir_expr::Reserved::Service), 2);
    let found = grouped(vec![service, by_ip(2)], vec![count(None)], MEMORY_BYTES);
    assert!(found.is_approximate);
    let found: Vec<_> = found.buckets.iter().map(names).collect();
    let services: Vec<&str> = found.iter().map(|names| names[0].as_str()).collect();
    assert_eq!(services, ["large", "large", "small", "small"], "{found:?}");
    assert_eq!([&found[2][1], &found[3][1]], ["often", "seldom"]);
}

#[test]
fn time_buckets_count_against_memory() {
    let interval_ns = 1000;
    let found = grouped(vec![by_ip(1)], vec![count(Some(interval_ns))], MEMORY_BYTES);
    assert!(found.is_approximate);
    let [bucket] = &found.buckets[..] else { panic!("one group was requested") };
    let ComputeValue::Series(steps) = &bucket.computes[0] else { panic!("no series") };
    assert_eq!((names(bucket), steps.len()), (vec!["often".to_owned()], RECORDS / 1000));
    assert!(steps.iter().all(|(_, count)| *count == ComputeValue::Count(50)), "{steps:?}");
}

#[test]
fn long_values_count_against_memory() {
    // Few groups, but 20 MB of texts on one page.
    let long = |number: usize| match number {
        n if n % 10 == 3 => "often".to_owned(),
        n => format!("{n} ").repeat(2000),
    };
    let values: Vec<String> = (0..2000).map(long).collect();
    let snapshot = Snapshot { segments: vec![segment_of(0, &values)], ..Snapshot::default() };
    let found = |limit, memory_bytes| {
        grouped_of(&snapshot, vec![by_ip(limit)], vec![count(None)], memory_bytes)
    };
    let exact = found(10_000, 64 << 20);
    assert_eq!((exact.is_approximate, exact.buckets.len()), (false, 1801));
    let some = found(10_000, 4 << 20);
    assert!(some.is_approximate, "infrequent groups were merged");
    assert!(some.buckets.len() < 4 * 1024 / 20, "{} of 10 KB each", some.buckets.len());
    for found in [exact, some] {
        let first = &found.buckets[0];
        assert_eq!(
            (names(first), &first.computes[0]),
            (vec!["often".to_owned()], &ComputeValue::Count(200))
        );
    }
}
