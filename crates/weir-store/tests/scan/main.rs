//! Searches on the head and on segments find what the reference implementation finds.

#[path = "../support/mod.rs"]
mod support;

mod facets;
mod random;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_expr::{Formula, Unit, Units, parse};
use weir_host::{RealClock, Zone};
use weir_store::embedded::columns::{AttributeValue, Form, Rows, StoredRecord};
use weir_store::embedded::scan;
use weir_store::embedded::segment::Segment;
use weir_store::embedded::sidecar::{Sidecar, write_segment_with_sidecar};
use weir_store::embedded::snapshot::{Deletion, HeadChunk, OpenSegment, Snapshot};
use weir_store::query::{
    Access, Aggregate, AggregateRequest, Aggregation, Budget, CalculatedField, Compute,
    ComputeValue, ContextRequest, Filter, GroupBy, GroupHistogram, GroupKey, Order, PartialReason,
    PatternsRequest, QueryError, RecordId, SearchRequest, SortBy, TimeRange, naive,
};

use random::{PATHS, Record, query, record, rows};
use support::file;

/// Returns the records as they are read back.
fn stored(rows: &Rows) -> Vec<StoredRecord> {
    (0..rows.len()).map(|row| rows.record(row).unwrap()).collect()
}

fn segment(rows: &Rows, has_sidecar: bool) -> Arc<OpenSegment> {
    let (data, filters) = (file(b""), file(b""));
    write_segment_with_sidecar(rows, 1, None, &*data, &*filters).unwrap();
    let segment = Segment::open(data).unwrap();
    let sidecar = has_sidecar.then(|| Sidecar::open(filters, &segment).unwrap());
    Arc::new(OpenSegment { name: "seg".to_owned(), segment, sidecar })
}

fn head(rows: Rows) -> (Arc<HeadChunk>, usize) {
    let len = rows.len();
    (Arc::new(HeadChunk::new(rows)), len)
}

/// Returns the same records in all forms of storage.
fn snapshots(older: &[Record], newer: &[Record]) -> (Vec<StoredRecord>, Vec<Snapshot>) {
    let (old, new) = (rows(older, 0), rows(newer, older.len() as u64));
    let mut all = stored(&old);
    all.extend(stored(&new));
    let of = |segments: Vec<Arc<OpenSegment>>, chunks| Snapshot {
        segments,
        chunks,
        ..Snapshot::default()
    };
    let snapshots = vec![
        of(vec![], vec![head(old.clone()), head(new.clone())]),
        of(vec![segment(&old, true), segment(&new, true)], vec![]),
        of(vec![segment(&old, false)], vec![head(new)]),
    ];
    (all, snapshots)
}

fn budget() -> Budget {
    Budget::new(Arc::new(RealClock::new()), None::<Duration>, 64 << 20)
}

/// Of two attributes of random records.
fn units() -> Units {
    let units = [("n", Unit::Millisecond), ("a.b", Unit::Second)];
    Units::new(units.map(|(path, unit)| (path.to_owned(), unit)).into())
}

fn filter(query: &str, range: TimeRange) -> Filter {
    let calculated_fields =
        [("sum", "@a + @n"), ("late", "@wait_ms - 1ms")].map(|(path, formula)| CalculatedField {
            path: path.to_owned(),
            formula: Formula::parse(formula).unwrap(),
        });
    Filter {
        query: parse(query).unwrap(),
        range,
        access: Access::all(),
        calculated_fields: CalculatedField::resolve_units(calculated_fields, &units()),
        units: units(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn search_agrees_with_the_naive_implementation(
        older in prop::collection::vec(record(), 0..12),
        newer in prop::collection::vec(record(), 1..12),
        query in query(),
        range in prop_oneof![
            Just(TimeRange::ALL),
            (0_i64..30, 1_i64..30).prop_map(|(from_ns, len)| TimeRange { from_ns, to_ns: from_ns + len }),
        ],
        limit in prop_oneof![Just(100_usize), 1_usize..5],
        order in prop_oneof![Just(Order::NewestFirst), Just(Order::OldestFirst)],
    ) {
        let (all, snapshots) = snapshots(&older, &newer);
        for (number, snapshot) in snapshots.iter().enumerate() {
            let mut request =
                SearchRequest { filter: filter(&query, range), order, limit, after: None };
            loop {
                let wanted = naive::search(&all, &request);
                let found = scan::search(snapshot, &request, &budget()).unwrap();
                prop_assert_eq!(&found.records, &wanted.records, "{} in snapshot {}", query, number);
                prop_assert_eq!(found.next, wanted.next, "{} in snapshot {}", query, number);
                request.after = found.next;
                if request.after.is_none() {
                    break;
                }
            }
        }
    }

    #[test]
    fn access_and_deletions_apply_to_any_query(
        records in prop::collection::vec(record(), 1..16),
        query in query(),
        only in query(),
        deleted in query(),
        before_sequence in 0_u64..16,
    ) {
        let (all, snapshots) = snapshots(&records, &[]);
        let mut asked = filter(&query, TimeRange::ALL);
        asked.access = Access::only(parse(&only).unwrap());
        let deletion = Deletion {
            query: parse(&deleted).unwrap(),
            range: TimeRange { from_ns: 5, to_ns: 40 },
            before_sequence,
        };
        let is_deleted = |record: &StoredRecord| {
            let filter = Filter {
                query: deletion.query.clone(),
                range: deletion.range,
                ..Filter::all(Access::all())
            };
            record.sequence < before_sequence && naive::matches(&filter, record)
        };
        let left: Vec<StoredRecord> = all.iter().filter(|record| !is_deleted(record)).cloned().collect();
        let request =
            SearchRequest { filter: asked, order: Order::NewestFirst, limit: 100, after: None };
        let wanted = naive::search(&left, &request);
        for snapshot in snapshots {
            let snapshot = Snapshot { deletions: vec![deletion.clone()].into(), ..snapshot };
            let found = scan::search(&snapshot, &request, &budget()).unwrap();
            prop_assert_eq!(&found.records, &wanted.records, "{} of {} without {}", query, only, deleted);
        }
    }
}

fn field() -> impl Strategy<Value = weir_expr::Field> {
    use weir_expr::{Field, Reserved};
    let attribute = |path: &str| Field::Attribute(path.to_owned());
    prop::sample::select(vec![
        Field::Reserved(Reserved::Service),
        Field::Reserved(Reserved::Status),
        Field::Reserved(Reserved::TraceId),
        Field::Reserved(Reserved::SourceId),
        Field::Tag("env".to_owned()),
        Field::Tags,
        Field::Message,
        attribute("a"),
        attribute("n"),
        attribute("a.b"),
        attribute("sum"),
        attribute("missing"),
        attribute("message"),
        attribute("lag"),
    ])
}

fn compute() -> impl Strategy<Value = Compute> {
    let named = Aggregation::NAMED.iter().map(|(_, aggregation)| *aggregation);
    let aggregations: Vec<_> = named.chain([Aggregation::Percentile(99.0)]).collect();
    let aggregation = prop::sample::select(aggregations);
    let interval =
        prop_oneof![3 => Just(None), 1 => Just(Some(7)), 1 => Just(Some(60_000_000_000))];
    let of_field = (aggregation, field(), interval.clone()).prop_map(|(aggregation, field, ns)| {
        Compute { aggregation, field: Some(field), interval_ns: ns }
    });
    let of_records = interval.prop_map(|ns| Compute {
        aggregation: Aggregation::Count,
        field: None,
        interval_ns: ns,
    });
    prop_oneof![of_records, of_field]
}

fn group_by() -> impl Strategy<Value = GroupBy> {
    let histogram = GroupHistogram { interval: 2.0, min: -3.0, max: 5.0 };
    let name = |name: &str| prop_oneof![Just(None), Just(Some(name.to_owned()))];
    let histogram = prop_oneof![3 => Just(None), 1 => Just(Some(histogram))];
    (field(), histogram, name("none"), name("all")).prop_map(
        |(field, histogram, missing, total)| {
            let mut group = GroupBy::top(field, 1000);
            (group.histogram, group.missing, group.total) = (histogram, missing, total);
            group
        },
    )
}

/// Returns the name of a group, whatever the type of its value.
fn name_of(key: &GroupKey) -> String {
    match key {
        GroupKey::Value(AttributeValue::Text(text)) => format!("value {text}"),
        GroupKey::Value(AttributeValue::Int(number)) => format!("value {number}"),
        GroupKey::Value(AttributeValue::Float(number)) => format!("value {number}"),
        GroupKey::Value(AttributeValue::Bool(truth)) => format!("value {truth}"),
        key => format!("{key:?}"),
    }
}

type Aggregates = BTreeMap<Vec<String>, Vec<ComputeValue>>;

fn by_name(found: &Aggregate) -> Aggregates {
    let of_bucket = |bucket: &weir_store::query::Bucket| {
        (bucket.by.iter().map(name_of).collect(), bucket.computes.clone())
    };
    let aggregates: Aggregates = found.buckets.iter().map(of_bucket).collect();
    assert_eq!(aggregates.len(), found.buckets.len(), "duplicate group: {found:?}");
    aggregates
}

/// Compares aggregates; sums may differ by rounding. Percentiles are of few numbers, hence exact.
fn is_close(a: &ComputeValue, b: &ComputeValue) -> bool {
    match (a, b) {
        (ComputeValue::Number(a), ComputeValue::Number(b)) => {
            (a - b).abs() <= a.abs().max(b.abs()) * 1e-12 + 1e-9 || a.to_bits() == b.to_bits()
        }
        (ComputeValue::Series(a), ComputeValue::Series(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && is_close(&a.1, &b.1))
        }
        (a, b) => a == b,
    }
}

fn are_close(a: &Aggregates, b: &Aggregates) -> bool {
    let are_same = |a: &[ComputeValue], b: &[ComputeValue]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_close(a, b))
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && are_same(a.1, b.1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn aggregates_agree_with_the_naive_implementation(
        older in prop::collection::vec(record(), 0..12),
        newer in prop::collection::vec(record(), 1..12),
        query in prop_oneof![Just("*".to_owned()), query()],
        computes in prop::collection::vec(compute(), 1..4),
        group_by in prop::collection::vec(group_by(), 0..3),
    ) {
        let (all, snapshots) = snapshots(&older, &newer);
        let filter = filter(&query, TimeRange::ALL);
        let request = AggregateRequest { filter, computes, group_by, zone: Zone::UTC };
        let wanted = naive::aggregate(&all, &request);
        for (number, snapshot) in snapshots.iter().enumerate() {
            let found = scan::aggregate(snapshot, &request, &budget()).unwrap();
            prop_assert_eq!((found.matched, found.grouped), (wanted.matched, wanted.grouped));
            prop_assert!(!found.is_approximate);
            let (found, wanted) = (by_name(&found), by_name(&wanted));
            prop_assert!(
                are_close(&found, &wanted),
                "{} in snapshot {}: {:#?}\ninstead of {:#?}\nfor {:?}", query, number, found, wanted, request,
            );
        }
    }
}

#[test]
fn groups_are_ordered_and_limited_field_by_field() {
    let mut records = Vec::new();
    for (service, status, count) in
        [("web", "error", 3), ("web", "info", 1), ("db", "info", 1), ("db", "error", 2)]
    {
        for _ in 0..count {
            records.push(Record {
                time_ns: 1,
                stream: 1,
                form: Form::default(),
                service: Some(service),
                status: Some(status),
                tags: None,
                resource: None,
                message: None,
                trace_id: None,
                arrival_ns: None,
                attributes: vec![("n", AttributeValue::Int(i64::from(count)))],
            });
        }
    }
    let (all, snapshots) = snapshots(&records, &[]);
    let field = |key| weir_expr::Field::Reserved(key);
    let mut by_status = GroupBy::top(field(weir_expr::Reserved::Status), 1);
    by_status.sort.by = SortBy::Aggregate(Compute {
        aggregation: Aggregation::Sum,
        field: Some(weir_expr::Field::Attribute("n".to_owned())),
        interval_ns: None,
    });
    let mut by_service = GroupBy::top(field(weir_expr::Reserved::Service), 1);
    let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
    let mut names = Vec::new();
    for descending in [true, false] {
        (by_service.sort.descending, by_status.sort.descending) = (descending, descending);
        let request = AggregateRequest {
            filter: filter("*", TimeRange::ALL),
            computes: vec![count.clone()],
            group_by: vec![by_service.clone(), by_status.clone()],
            zone: Zone::UTC,
        };
        let wanted = naive::aggregate(&all, &request).buckets;
        for snapshot in &snapshots {
            let found = scan::aggregate(snapshot, &request, &budget()).unwrap();
            assert_eq!(found.buckets, wanted);
        }
        names.extend(wanted[0].by.iter().map(name_of));
    }
    assert_eq!(names, ["value web", "value error", "value db", "value info"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn context_contains_the_neighbors_in_the_stream(
        older in prop::collection::vec(record(), 0..16),
        newer in prop::collection::vec(record(), 1..16),
        which in any::<prop::sample::Index>(),
        (before, after) in (0_usize..5, 0_usize..5),
    ) {
        let (all, snapshots) = snapshots(&older, &newer);
        let wanted = which.get(&all).clone();
        let mut stream: Vec<&StoredRecord> =
            all.iter().filter(|record| record.stream == wanted.stream).collect();
        stream.sort_by_key(|record| (record.position.epoch, record.position.offset));
        let at = stream.iter().position(|record| **record == wanted).unwrap();
        let id = RecordId { time_ns: wanted.time_ns, stream: wanted.stream, position: wanted.position };
        let request = ContextRequest { id, before, after, access: Access::all() };
        for snapshot in &snapshots {
            let found = scan::context(snapshot, &request, &budget()).unwrap().unwrap();
            prop_assert_eq!(&found.record, &wanted);
            let (from, to) = (at.saturating_sub(before), (at + 1 + after).min(stream.len()));
            prop_assert_eq!(found.before.iter().collect::<Vec<_>>(), &stream[from..at]);
            prop_assert_eq!(found.after.iter().collect::<Vec<_>>(), &stream[at + 1..to]);
            let mut hidden = request.clone();
            hidden.access = Access::only(parse("-*").unwrap());
            prop_assert_eq!(scan::context(snapshot, &hidden, &budget()).unwrap(), None);
        }
    }
}

/// Messages that each have a kind, and contain numbers.
fn numbered(count: usize) -> Vec<Record> {
    let record = |number: usize| Record {
        time_ns: number as i64,
        stream: 1,
        form: Form::default(),
        service: Some(["web", "db"][number % 2]),
        status: None,
        tags: None,
        resource: None,
        message: Some(format!("request {number} took {} ms", number % 7)),
        trace_id: None,
        arrival_ns: None,
        attributes: vec![("n", AttributeValue::Int(number as i64))],
    };
    (0..count).map(record).collect()
}

#[test]
fn neighbors_far_apart_in_time_are_found() {
    let far = |record: Record| Record { time_ns: record.time_ns * 3_456_000_000_000_000, ..record };
    let records: Vec<Record> = numbered(12).into_iter().map(far).collect();
    let (all, snapshots) = snapshots(&records[..6], &records[6..]);
    let StoredRecord { time_ns, stream, position, .. } = all[5];
    let id = RecordId { time_ns, stream, position };
    let request = ContextRequest { id, before: 100, after: 3, access: Access::all() };
    let found = |snapshot| scan::context(snapshot, &request, &budget()).unwrap().unwrap();
    assert!(snapshots.iter().map(found).all(|it| it.before == all[..5] && it.after == all[6..9]));
}

#[test]
fn exhausted_budget_marks_the_result_as_partial() {
    let (_, snapshots) = snapshots(&numbered(40_000), &numbered(100));
    let clock = || Arc::new(RealClock::new());
    let by_number = AggregateRequest {
        filter: filter("*", TimeRange::ALL),
        computes: vec![Compute { aggregation: Aggregation::Count, field: None, interval_ns: None }],
        group_by: vec![GroupBy::top(weir_expr::Field::Attribute("n".to_owned()), 10)],
        zone: Zone::UTC,
    };
    let patterns = PatternsRequest { filter: filter("*", TimeRange::ALL), limit: 10 };
    for snapshot in &snapshots {
        let late = Budget::new(clock(), Some(Duration::ZERO), 1 << 20);
        let found = scan::aggregate(snapshot, &by_number, &late).unwrap();
        assert_eq!(found.coverage.partial_reasons, [PartialReason::Deadline]);
        let found = scan::fields(snapshot, TimeRange::ALL, &Access::all(), &late).unwrap();
        assert_eq!(found.coverage.partial_reasons, [PartialReason::Deadline]);

        let small = Budget::new(clock(), None, 100_000);
        let found = scan::aggregate(snapshot, &by_number, &small).unwrap();
        assert!(found.is_approximate && (found.matched, found.grouped) == (40_100, 40_100));

        let cancelled = Budget::new(clock(), None, 1 << 20);
        cancelled.cancelled().store(true, std::sync::atomic::Ordering::Relaxed);
        let refused = scan::patterns(snapshot, &patterns, &cancelled);
        assert!(matches!(refused, Err(QueryError::Cancelled)));

        let found = scan::patterns(snapshot, &patterns, &budget()).unwrap();
        assert_eq!(found.patterns.len(), 1);
        assert_eq!(found.patterns[0].template, "request * took * ms");
        assert_eq!((found.patterns[0].count, found.patterns[0].examples.len()), (40_100, 3));
    }
}

#[test]
fn pruning_never_drops_a_matching_page() {
    let (all, snapshots) = snapshots(&numbered(40_000), &numbered(20_000));
    for (query, order) in [
        ("31234", Order::NewestFirst),
        ("@n:31234", Order::OldestFirst),
        ("@n:>39990", Order::NewestFirst),
        ("took -6", Order::OldestFirst),
        ("service:db @n:<9", Order::NewestFirst),
    ] {
        for range in [TimeRange::ALL, TimeRange { from_ns: 7, to_ns: 39_000 }] {
            let request =
                SearchRequest { filter: filter(query, range), order, limit: 50, after: None };
            let wanted = naive::search(&all, &request);
            for snapshot in &snapshots {
                let found = scan::search(snapshot, &request, &budget()).unwrap();
                assert!(found.records == wanted.records, "{query} {order:?} {range:?}");
                assert_eq!(found.next, wanted.next);
            }
        }
    }
}

#[test]
fn codes_numbers_and_words_are_found_on_every_page() {
    let mut records = numbered(20_000);
    for (number, record) in records.iter_mut().enumerate() {
        // One page has upper-case letters, the other none; two rows of three have a kind.
        if (500..600).contains(&number) {
            record.message = Some(format!("Request {number} FAILED"));
        }
        if number % 3 > 0 {
            let kind = ["a", "b", "c", "d", "e"][number * number / 7 % 5];
            record.attributes.push(("kind", AttributeValue::Text(kind.to_owned())));
        }
    }
    let (all, snapshots) = snapshots(&records, &[]);
    for query in
        ["failed", "REQUEST 503", "took", "@kind:b", "@kind:(a OR d) @n:<19000", "-@kind:*"]
    {
        let request = AggregateRequest {
            filter: filter(query, TimeRange::ALL),
            computes: vec![Compute {
                aggregation: Aggregation::Count,
                field: None,
                interval_ns: None,
            }],
            group_by: Vec::new(),
            zone: Zone::UTC,
        };
        let wanted = naive::aggregate(&all, &request);
        assert!(wanted.matched > 0, "{query}");
        for snapshot in &snapshots {
            let found = scan::aggregate(snapshot, &request, &budget()).unwrap();
            assert_eq!(
                (found.matched, found.grouped, &found.buckets),
                (wanted.matched, wanted.grouped, &wanted.buckets),
                "{query}"
            );
        }
    }
}

#[test]
fn damaged_segment_is_reported_and_the_others_are_searched() {
    let (whole, broken) = (rows(&numbered(10), 0), rows(&numbered(10), 10));
    let (data, filters) = (file(b""), file(b""));
    write_segment_with_sidecar(&broken, 1, None, &*data, &*filters).unwrap();
    // Outside the footer: pages are read on demand.
    let byte = [std::io::IoSlice::new(b"\xff\xff\xff\xff")];
    data.write_at(&byte, 10).unwrap();
    let damaged = OpenSegment {
        name: "broken".to_owned(),
        segment: Segment::open(data).unwrap(),
        sidecar: None,
    };
    let snapshot = Snapshot {
        segments: vec![segment(&whole, true), Arc::new(damaged)],
        ..Snapshot::default()
    };
    let request = SearchRequest {
        filter: filter("took", TimeRange::ALL),
        order: Order::NewestFirst,
        limit: 100,
        after: None,
    };
    let found = scan::search(&snapshot, &request, &budget()).unwrap();
    let wanted = PartialReason::Damaged { segments: vec!["broken".to_owned()] };
    assert_eq!(found.coverage.partial_reasons, [wanted]);
    assert_eq!(found.records.len(), 10);
}

#[test]
fn unknown_fields_are_reported() {
    let (_, snapshots) = snapshots(&numbered(5), &numbered(5));
    for snapshot in &snapshots[..2] {
        let request = SearchRequest {
            filter: filter("@n:1 OR @nn:1 OR @sum:2", TimeRange::ALL),
            order: Order::NewestFirst,
            limit: 10,
            after: None,
        };
        let found = scan::search(snapshot, &request, &budget()).unwrap();
        assert_eq!(found.coverage.unknown_fields, ["@nn"]);
        let names = field_names(snapshot, TimeRange::ALL, &Access::all());
        assert!(names.contains("@n") && names.contains("service"));
    }
}

#[test]
fn units_of_fields_texts_and_calculated_fields_agree() {
    let wait = [AttributeValue::Int(2_000), AttributeValue::Text("2s".to_owned())];
    let waits = |record: Record, value: &AttributeValue| Record {
        attributes: vec![("wait_ms", value.clone())],
        ..record
    };
    let records: Vec<Record> =
        numbered(2).into_iter().zip(&wait).map(|(r, v)| waits(r, v)).collect();
    let (all, snapshots) = snapshots(&records, &records);
    for query in ["@wait_ms:>1s", "@wait_ms:[1s TO 2000ms]", "@late:[1s TO 2s]", "@late:1999ms"] {
        let filter = filter(query, TimeRange::ALL);
        let request = SearchRequest { filter, order: Order::NewestFirst, limit: 9, after: None };
        assert_eq!(naive::search(&all, &request).records.len(), 4, "{query}");
        for snapshot in &snapshots {
            let found = scan::search(snapshot, &request, &budget()).unwrap();
            assert_eq!(found.records.len(), 4, "{query}");
        }
    }
    let aggregates = [Aggregation::Average, Aggregation::Max, Aggregation::Percentile(0.0)];
    let field = weir_expr::Field::Attribute("wait_ms".to_owned());
    let compute =
        |aggregation| Compute { aggregation, field: Some(field.clone()), interval_ns: None };
    let step = GroupHistogram { interval: 1000.0, min: 0.0, max: 1e4 };
    let by_step = GroupBy { histogram: Some(step), ..GroupBy::top(field.clone(), 9) };
    let request = AggregateRequest {
        filter: filter("*", TimeRange::ALL),
        computes: aggregates.map(compute).to_vec(),
        group_by: vec![by_step],
        zone: Zone::UTC,
    };
    let wanted = vec![ComputeValue::Number(2000.0); 3];
    let wanted: Aggregates = [(vec![format!("{:?}", GroupKey::From(2000.0))], wanted)].into();
    assert_eq!(by_name(&naive::aggregate(&all, &request)), wanted);
    for snapshot in &snapshots {
        assert_eq!(by_name(&scan::aggregate(snapshot, &request, &budget()).unwrap()), wanted);
    }
}

#[test]
fn unknown_tags_are_reported_if_nothing_was_found() {
    let records: Vec<Record> = numbered(5)
        .into_iter()
        .map(|record| Record { tags: Some(r#"["env:prod"]"#), ..record })
        .collect();
    let (_, snapshots) = snapshots(&records, &records);
    let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
    for snapshot in &snapshots {
        let mut request = AggregateRequest {
            filter: filter("env:test sevice:web", TimeRange::ALL),
            computes: vec![count.clone()],
            group_by: Vec::new(),
            zone: Zone::UTC,
        };
        let mut unknown = |query: &str, group_by: Option<&str>, access: &Access| {
            request.filter.query = parse(query).unwrap();
            request.filter.access = access.clone();
            let top = |key: &str| GroupBy::top(weir_expr::Field::Tag(key.to_owned()), 10);
            request.group_by = group_by.map(top).into_iter().collect();
            scan::aggregate(snapshot, &request, &budget()).unwrap().coverage.unknown_fields
        };
        assert_eq!(unknown("env:test sevice:web", None, &Access::all()), ["sevice"]);
        assert!(unknown("env:prod -sevice:web", None, &Access::all()).is_empty());
        assert_eq!(unknown("*", Some("sevice"), &Access::all()), ["sevice"]);
        assert!(unknown("*", Some("env"), &Access::all()).is_empty());
        let none = Access::only(parse("service:nobody").unwrap());
        assert_eq!(unknown("env:prod", None, &none), ["env"], "as unknown as a missing field");
    }
}

fn field_names(snapshot: &Snapshot, range: TimeRange, access: &Access) -> BTreeSet<String> {
    let fields = scan::fields(snapshot, range, access, &budget()).unwrap().fields;
    let names: BTreeSet<String> = fields.iter().map(|field| field.name.clone()).collect();
    assert_eq!(names.len(), fields.len(), "duplicate field: {fields:?}");
    names
}

#[test]
fn most_common_fields_come_first() {
    let names: Vec<&'static str> =
        (0..15_000).map(|number| &*format!("k{number:05}").leak()).collect();
    let mut records = numbered(3000);
    for (record, names) in records.iter_mut().zip(names.chunks(5)) {
        record.attributes.extend(names.iter().map(|name| (*name, AttributeValue::Int(1))));
    }
    let (_, snapshots) = snapshots(&records, &[]);
    for snapshot in &snapshots {
        let list = scan::fields(snapshot, TimeRange::ALL, &Access::all(), &budget()).unwrap();
        let fields = list.fields;
        let place = fields.iter().position(|field| field.name == "@n").unwrap();
        assert!(place < 20, "after {place} others");
        if snapshot.chunks.is_empty() {
            assert!((10_000..11_000).contains(&fields.len()), "{} fields are listed", fields.len());
        }
        // A field that is not listed is not necessarily unknown.
        let filter = filter("@k14999:* OR @k00000:*", TimeRange::ALL);
        let request = SearchRequest { filter, order: Order::NewestFirst, limit: 9, after: None };
        let found = scan::search(snapshot, &request, &budget()).unwrap();
        assert_eq!((found.records.len(), found.coverage.unknown_fields), (2, vec![]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn field_list_respects_access(
        older in prop::collection::vec(record(), 0..12),
        newer in prop::collection::vec(record(), 1..12),
        only in prop_oneof![Just(None), query().prop_map(Some)],
        range in prop_oneof![
            Just(TimeRange::ALL),
            (0_i64..30, 1_i64..30).prop_map(|(from_ns, len)| TimeRange { from_ns, to_ns: from_ns + len }),
        ],
    ) {
        let (all, snapshots) = snapshots(&older, &newer);
        let access = only.as_ref().map_or(Access::all(), |only| Access::only(parse(only).unwrap()));
        let visible = Filter { range, ..Filter::all(access.clone()) };
        let seen = all.iter().filter(|record| naive::matches(&visible, record));
        let has_value = |values: &[AttributeValue]| values.iter().any(|value| *value != AttributeValue::Null);
        let seen: BTreeSet<String> = seen
            .flat_map(|record| {
                let named = record.attributes.iter().filter(|(_, values)| has_value(values));
                let lag = record.arrival_ns.map(|_| "@lag".to_owned());
                named.map(|(path, _)| format!("@{path}")).chain(lag)
            })
            .collect();
        // An attribute of this name may be kept in a field of the record's own.
        let is_own = |name: &String| ["@message", "@trace_id", "@lag"].contains(&name.as_str());
        for (number, snapshot) in snapshots.iter().enumerate() {
            let found = field_names(snapshot, range, &access);
            let (found, others): (BTreeSet<String>, BTreeSet<String>) =
                found.into_iter().partition(|name| name.starts_with('@'));
            prop_assert_eq!(&found, &seen, "{:?} in snapshot {}", only, number);
            let has_tag = |key: &str| {
                let query = parse(&format!("{key}:*")).unwrap();
                let filter = Filter { query, ..visible.clone() };
                all.iter().any(|record| naive::matches(&filter, record))
            };
            for key in ["env", "k", "source_id"] {
                let is_reserved = key == "source_id";
                prop_assert_eq!(others.contains(key), is_reserved || has_tag(key), "{} of {:?}", key, only);
            }
            prop_assert!(!others.contains("urgent"), "a word is not a key");
            let named = PATHS.map(|path| format!("@{path}:*")).join(" OR ");
            let mut request = SearchRequest {
                filter: filter(&named, range), order: Order::NewestFirst, limit: 1, after: None,
            };
            request.filter.access = access.clone();
            let unknown = scan::search(snapshot, &request, &budget()).unwrap().coverage.unknown_fields;
            let has = |name: &String| seen.iter().any(|known| {
                known.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            for name in PATHS.map(|path| format!("@{path}")).iter().filter(|name| !is_own(name)) {
                if only.is_some() {
                    prop_assert_eq!(unknown.contains(name), !has(name), "{} of {:?} in snapshot {}", name, only, number);
                } else {
                    // Without restrictions only the columns are examined.
                    prop_assert!(!(unknown.contains(name) && has(name)), "{} in snapshot {}", name, number);
                }
            }
        }
    }
}

#[test]
fn fields_and_values_of_invisible_records_stay_hidden() {
    let mut records = numbered(40_000);
    for (number, record) in records.iter_mut().enumerate() {
        let path = if number % 2 == 0 { "of.web" } else { "of.db" };
        record.attributes.push((path, AttributeValue::Text(format!("value {}", number % 4))));
    }
    let (_, snapshots) = snapshots(&records, &records[..100]);
    let access = Access::only(parse("service:web").unwrap());
    for snapshot in &snapshots {
        let names = field_names(snapshot, TimeRange::ALL, &access);
        assert!(names.contains("@of.web") && names.contains("@n"));
        assert!(!names.contains("@of.db"), "{names:?}");
        let mut request = AggregateRequest {
            filter: filter("@of.db:* OR @of.web:* OR @of.none:*", TimeRange::ALL),
            computes: vec![Compute {
                aggregation: Aggregation::Count,
                field: None,
                interval_ns: None,
            }],
            group_by: vec![GroupBy::top(weir_expr::Field::Attribute("of.web".to_owned()), 10)],
            zone: Zone::UTC,
        };
        request.filter.access = access.clone();
        let found = scan::aggregate(snapshot, &request, &budget()).unwrap();
        // A field that only hidden records have is as unknown as one that does not exist.
        assert_eq!(found.coverage.unknown_fields, ["@of.db", "@of.none"]);
        assert_eq!(
            by_name(&found).into_keys().collect::<Vec<_>>(),
            [["value value 0"], ["value value 2"]]
        );
        request.group_by = vec![GroupBy::top(weir_expr::Field::Attribute("of.db".to_owned()), 10)];
        assert_eq!(scan::aggregate(snapshot, &request, &budget()).unwrap().buckets, []);
    }
}
