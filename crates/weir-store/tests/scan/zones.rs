//! Aggregates over time follow the clocks of a time zone, wherever the records are: in the head, in
//! segments, or in the counts per minute.

use proptest::prelude::*;
use weir_host::{Calendar, Zone};
use weir_store::embedded::columns::{AttributeValue, Form};
use weir_store::embedded::scan;
use weir_store::query::{
    AggregateRequest, Aggregation, Compute, ComputeValue, GroupBy, TimeRange, naive,
};

use super::{are_close, budget, by_name, filter, random::Record, snapshots};

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;
const DAY_NS: i64 = 24 * HOUR_NS;

/// Zones, each with a time (seconds since 1970) at which its offset changes.
const CHANGES: [(&str, i64); 9] = [
    ("Europe/Berlin", 1_774_746_000),
    ("Europe/Berlin", 1_792_890_000),
    ("America/New_York", 1_772_953_200),
    ("America/New_York", 1_793_512_800),
    ("Australia/Lord_Howe", 1_775_314_800),
    ("Australia/Lord_Howe", 1_791_041_400),
    // Has been 5 h 45 min ahead since then.
    ("Asia/Kathmandu", 504_901_800),
    // Skipped from the 29th to the 31st of December.
    ("Pacific/Apia", 1_325_239_200),
    // Was 44 min and 30 s behind until then.
    ("Africa/Monrovia", 63_593_070),
];

fn record(time_ns: i64, service: Option<&'static str>, n: i64) -> Record {
    Record {
        time_ns,
        stream: 1,
        form: Form::default(),
        service,
        status: Some("info"),
        tags: None,
        resource: None,
        message: None,
        trace_id: None,
        arrival_ns: None,
        attributes: vec![("n", AttributeValue::Int(n))],
    }
}

fn count(interval_ns: i64) -> Compute {
    Compute { aggregation: Aggregation::Count, field: None, interval_ns: Some(interval_ns) }
}

/// A change of the clock of a zone, and records around it.
fn around() -> impl Strategy<Value = (&'static str, Vec<Record>)> {
    let seconds = prop_oneof![3 => -7200_i64..7200, 2 => -200_000_i64..200_000];
    let service = prop::sample::select(vec![None, Some("web"), Some("db")]);
    let record = (seconds, 0..SECOND_NS, service, 0_i64..9);
    (prop::sample::select(CHANGES.to_vec()), prop::collection::vec(record, 1..40)).prop_map(
        |((zone, at), records)| {
            let of = |(seconds, ns, service, n): (i64, i64, _, _)| {
                record_at(at + seconds, ns, service, n)
            };
            (zone, records.into_iter().map(of).collect())
        },
    )
}

fn record_at(second: i64, ns: i64, service: Option<&'static str>, n: i64) -> Record {
    record(second * SECOND_NS + ns, service, n)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn aggregates_in_a_time_zone_agree_with_the_naive_implementation(
        (zone, records) in around(),
        minutes in prop::sample::select(vec![1, 20, 30, 60, 120, 360, 720, 1440, 2880, 10_080]),
        cut in 0_usize..40,
        is_counted in any::<bool>(),
        by_service in any::<bool>(),
        to_s in prop_oneof![Just(None), (-7200_i64..7200).prop_map(Some)],
    ) {
        let interval_ns = minutes * 60 * SECOND_NS;
        let (older, newer) = records.split_at(cut.min(records.len() - 1));
        let (all, snapshots) = snapshots(older, newer);
        let field = weir_expr::Field::Attribute("n".to_owned());
        let mut computes = vec![count(interval_ns), count(3 * interval_ns)];
        if !is_counted {
            let aggregation = Aggregation::Sum;
            computes.push(Compute { aggregation, field: Some(field), interval_ns: Some(interval_ns) });
        }
        let mut top = GroupBy::top(weir_expr::Field::Reserved(weir_expr::Reserved::Service), 10);
        top.missing = Some("none".to_owned());
        let range = to_s.map_or(TimeRange::ALL, |to_s| TimeRange {
            to_ns: records[0].time_ns + to_s * SECOND_NS,
            ..TimeRange::ALL
        });
        let request = AggregateRequest {
            filter: filter("*", range),
            computes,
            group_by: by_service.then_some(top).into_iter().collect(),
            zone: Zone::parse(zone).unwrap(),
        };
        let wanted = naive::aggregate(&all, &request);
        for (number, snapshot) in snapshots.iter().enumerate() {
            let found = scan::aggregate(snapshot, &request, &budget()).unwrap();
            prop_assert_eq!((found.matched, found.grouped), (wanted.matched, wanted.grouped));
            let (found, wanted) = (by_name(&found), by_name(&wanted));
            prop_assert!(
                are_close(&found, &wanted),
                "in snapshot {}: {:#?}\ninstead of {:#?}\nfor {:?}", number, found, wanted, request,
            );
        }
    }
}

/// Counts records by day, with one record for each hour of some days.
fn by_day(zone: &str, first_day: i64, interval_ns: i64) -> Vec<Vec<u64>> {
    let zone = Zone::parse(zone).unwrap();
    let calendar = Calendar::new(&zone, DAY_NS);
    let begin = calendar.bucket(first_day * SECOND_NS).0;
    let mut end = begin;
    for _ in 0..3 {
        end = calendar.bucket(end).1;
    }
    let hours = (begin..end).step_by(HOUR_NS as usize);
    let records: Vec<Record> = hours.map(|at| record(at, Some("web"), 1)).collect();
    let request = AggregateRequest {
        filter: filter("*", TimeRange::ALL),
        computes: vec![count(interval_ns)],
        group_by: Vec::new(),
        zone,
    };
    let counts = |snapshot| {
        let found = scan::aggregate(snapshot, &request, &budget()).unwrap();
        let ComputeValue::Series(steps) = &found.buckets[0].computes[0] else {
            panic!("{found:?}")
        };
        let count = |(_, value): &(i64, ComputeValue)| match value {
            ComputeValue::Count(count) => *count,
            value => panic!("{value:?}"),
        };
        steps.iter().map(count).collect()
    };
    snapshots(&records, &records[..0]).1.iter().map(counts).collect()
}

#[test]
fn day_of_23_or_25_hours_is_one_bucket() {
    for (zone, second, want) in [
        ("Europe/Berlin", 1_774_700_000, vec![24, 23, 24]),
        ("Europe/Berlin", 1_792_800_000, vec![24, 25, 24]),
        ("America/New_York", 1_793_420_000, vec![24, 25, 24]),
        ("Asia/Kathmandu", 1_793_420_000, vec![24, 24, 24]),
    ] {
        for found in by_day(zone, second, DAY_NS) {
            assert_eq!(found, want, "{zone}");
        }
    }
    let found = by_day("Europe/Berlin", 1_792_800_000, HOUR_NS);
    assert!(found.iter().all(|counts| counts == &[1; 73]), "{found:?}");
}

#[test]
fn minute_counts_are_not_used_for_days_that_begin_within_a_minute() {
    // 1971-06-01, 44 minutes and 30 seconds after midnight of UTC.
    let midnight = 44_582_400 + 44 * 60 + 30;
    let times = [midnight - 1, midnight, midnight + 1];
    let records: Vec<Record> = times.map(|at| record_at(at, 0, Some("web"), 1)).into();
    let (all, snapshots) = snapshots(&records, &[]);
    let request = AggregateRequest {
        filter: filter("*", TimeRange::ALL),
        computes: vec![count(DAY_NS)],
        group_by: Vec::new(),
        zone: Zone::parse("Africa/Monrovia").unwrap(),
    };
    let wanted = naive::aggregate(&all, &request);
    let begins = [midnight - 86_400, midnight].map(|at| at * SECOND_NS);
    let steps = vec![(begins[0], ComputeValue::Count(1)), (begins[1], ComputeValue::Count(2))];
    assert_eq!(wanted.buckets[0].computes, [ComputeValue::Series(steps)]);
    for snapshot in &snapshots {
        assert_eq!(scan::aggregate(snapshot, &request, &budget()).unwrap().buckets, wanted.buckets);
    }
}
