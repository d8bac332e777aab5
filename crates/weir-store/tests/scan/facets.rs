//! Facets equal those of the reference implementation, and fields with many values are
//! distinguished from identifiers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use weir_expr::{CalculatedField, Field, Reserved, parse};
use weir_host::{RealClock, Zone};
use weir_store::embedded::columns::{AttributeValue, StoredRecord};
use weir_store::embedded::scan;
use weir_store::embedded::snapshot::Snapshot;
use weir_store::query::{
    Access, AggregateRequest, Aggregation, Budget, Compute, ComputeValue, Facet, Facets,
    FacetsRequest, Filter, GroupBy, GroupKey, TimeRange, ValueType, naive,
};

use crate::random::{query, record};
use crate::{budget, filter, name_of, numbered, snapshots};

/// Requests every field with every value.
fn all_of(filter: Filter) -> FacetsRequest {
    FacetsRequest { filter, fields: Vec::new(), limit: 1000, values: usize::MAX }
}

fn found(snapshot: &Snapshot, request: &FacetsRequest) -> Facets {
    let found = scan::facets(snapshot, request, &budget()).unwrap();
    assert!(!found.coverage.is_partial());
    found
}

fn field_of(name: &str, calculated_fields: &[CalculatedField]) -> Field {
    let path =
        name.strip_prefix('@').filter(|path| calculated_fields.iter().any(|m| m.path == *path));
    path.map_or_else(
        || weir_expr::parse_field(name).unwrap(),
        |path| Field::Attribute(path.to_owned()),
    )
}

/// Returns the smallest and the largest number.
fn range_of(all: &[StoredRecord], filter: &Filter, field: &Field) -> Option<(f64, f64)> {
    let computes = [Aggregation::Min, Aggregation::Max].map(|aggregation| Compute {
        aggregation,
        field: Some(field.clone()),
        interval_ns: None,
    });
    let request = AggregateRequest {
        filter: filter.clone(),
        computes: computes.to_vec(),
        group_by: Vec::new(),
        zone: Zone::UTC,
    };
    match naive::aggregate(all, &request).buckets[0].computes[..] {
        [ComputeValue::Number(min), ComputeValue::Number(max)] => Some((min, max)),
        _ => None,
    }
}

/// Returns how many records have each value of a field, and how many have any.
fn counts(all: &[StoredRecord], filter: &Filter, field: Field) -> (BTreeMap<String, u64>, u64) {
    let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
    let by = GroupBy { total: Some("all".to_owned()), ..GroupBy::top(field, usize::MAX) };
    let request = AggregateRequest {
        filter: filter.clone(),
        computes: vec![count],
        group_by: vec![by],
        zone: Zone::UTC,
    };
    let (mut counts, mut records) = (BTreeMap::new(), 0);
    for bucket in naive::aggregate(all, &request).buckets {
        let ComputeValue::Count(count) = bucket.computes[0] else { panic!("{bucket:?}") };
        match &bucket.by[0] {
            GroupKey::Total(_) => records = count,
            key => drop(counts.insert(name_of(key), count)),
        }
    }
    (counts, records)
}

fn counts_of(facet: &Facet) -> BTreeMap<String, u64> {
    let name = |value: &AttributeValue| name_of(&GroupKey::Value(value.clone()));
    facet.values.iter().map(|(value, records)| (name(value), *records)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn facets_agree_with_the_naive_implementation(
        older in prop::collection::vec(record(), 0..12),
        newer in prop::collection::vec(record(), 1..12),
        query in prop_oneof![Just("*".to_owned()), query()],
        only in prop_oneof![Just(None), query().prop_map(Some)],
    ) {
        let (all, snapshots) = snapshots(&older, &newer);
        let access = only.as_ref().map_or(Access::all(), |only| Access::only(parse(only).unwrap()));
        let filter = Filter { access: access.clone(), ..filter(&query, TimeRange::ALL) };
        for (number, snapshot) in snapshots.iter().enumerate() {
            let answer = found(snapshot, &all_of(filter.clone()));
            let matched = all.iter().filter(|record| naive::matches(&filter, record)).count();
            prop_assert_eq!((answer.matched, answer.left_out), (matched as u64, 0));
            let records: Vec<u64> = answer.facets.iter().map(|facet| facet.records).collect();
            prop_assert!(records.is_sorted_by(|a, b| a >= b), "{:?}", records);
            for facet in &answer.facets {
                let field = field_of(&facet.name, &filter.calculated_fields);
                let is_number = facet.value_type == ValueType::Number;
                let range = is_number.then(|| range_of(&all, &filter, &field)).flatten();
                let wanted = counts(&all, &filter, field);
                let what = format!("{} of {query} in snapshot {number}", facet.name);
                prop_assert_eq!((counts_of(facet), facet.records), wanted.clone(), "{}", &what);
                prop_assert_eq!(facet.range, range, "{}", &what);
                prop_assert_eq!(facet.distinct, Some(wanted.0.len() as u64), "{}", &what);
                let sizes: Vec<u64> = facet.values.iter().map(|(_, records)| *records).collect();
                prop_assert!(sizes.is_sorted_by(|a, b| a >= b), "{}: {:?}", what, sizes);
            }
            // Fields that are not in the answer are in no record.
            let named: BTreeSet<&String> = answer.facets.iter().map(|facet| &facet.name).collect();
            for info in scan::fields(snapshot, TimeRange::ALL, &access, &budget()).unwrap().fields {
                if !named.contains(&info.name) {
                    let (_, records) = counts(&all, &filter, field_of(&info.name, &[]));
                    prop_assert_eq!(records, 0, "{} of {}", info.name, query);
                }
            }
        }
    }
}

/// A tenth of these records has more distinct values than are held.
const RECORDS: usize = 150_000;

#[test]
fn ids_have_no_facet_values_and_frequent_values_do() {
    let mut records = numbered(RECORDS);
    for (number, record) in records.iter_mut().enumerate() {
        let user = if number % 50 < 45 { number % 9 } else { number };
        record.attributes.push(("id", AttributeValue::Text(format!("{number:016x}"))));
        record.attributes.push(("user", AttributeValue::Text(format!("user {user}"))));
    }
    let (_, snapshots) = snapshots(&records, &[]);
    for snapshot in &snapshots {
        let answer =
            found(snapshot, &FacetsRequest { values: 9, ..all_of(filter("*", TimeRange::ALL)) });
        let facet = |name: &str| answer.facets.iter().find(|facet| facet.name == name).unwrap();
        let id = facet("@id");
        assert_eq!((id.records, id.distinct, &id.values[..]), (RECORDS as u64, None, &[][..]));
        let user = facet("@user");
        assert_eq!(
            (user.records, user.distinct, user.value_type),
            (RECORDS as u64, None, ValueType::Text)
        );
        let names: BTreeSet<String> = counts_of(user).into_keys().collect();
        assert_eq!(names, (0..9).map(|n| format!("value user {n}")).collect());
        assert!(
            user.values.iter().all(|(_, records)| (13_000..=15_000).contains(records)),
            "{user:?}"
        );
    }
}

#[test]
fn repeated_long_texts_take_little_memory() {
    let mut records = numbered(20_000);
    for (number, record) in records.iter_mut().enumerate() {
        let agent = format!("agent {} ", number % 10).repeat(20);
        record.attributes.push(("agent", AttributeValue::Text(agent)));
        let text = format!("{number} ").repeat(30);
        record.attributes.push(("text", AttributeValue::Text(text)));
    }
    let (_, snapshots) = snapshots(&records, &[]);
    for snapshot in &snapshots {
        let budget = Budget::new(Arc::new(RealClock::new()), None, 1 << 20);
        let asked = all_of(filter("*", TimeRange::ALL));
        let answer = scan::facets(snapshot, &asked, &budget).unwrap();
        let facet = |name: &str| answer.facets.iter().find(|facet| facet.name == name).unwrap();
        let agent = facet("@agent");
        assert_eq!((agent.records, agent.distinct), (20_000, Some(10)));
        assert!(agent.values.iter().all(|(_, records)| *records == 2000), "{agent:?}");
        let text = facet("@text");
        assert_eq!((text.records, text.distinct, text.values.len()), (20_000, None, 0));
    }
}

#[test]
fn requested_facets_are_limited_and_unknown_fields_reported() {
    let (_, snapshots) = snapshots(&numbered(1000), &[]);
    for snapshot in &snapshots {
        let filter = filter("*", TimeRange::ALL);
        let fields = ["n", "nosuch"].map(|path| Field::Attribute(path.to_owned()));
        let fields = [fields.to_vec(), vec![Field::Reserved(Reserved::Service)]].concat();
        let asked = FacetsRequest { fields, values: 2, ..all_of(filter.clone()) };
        let answer = found(snapshot, &asked);
        let named: Vec<(&str, ValueType, usize)> = answer
            .facets
            .iter()
            .map(|facet| (facet.name.as_str(), facet.value_type, facet.values.len()))
            .collect();
        assert_eq!(named, [("@n", ValueType::Number, 2), ("service", ValueType::Text, 2)]);
        let ranges: Vec<_> = answer.facets.iter().map(|facet| facet.range).collect();
        assert_eq!(ranges, [Some((0.0, 999.0)), None]);
        assert_eq!(answer.coverage.unknown_fields, ["@nosuch"]);
        let few = found(snapshot, &FacetsRequest { limit: 1, ..asked });
        assert_eq!((few.facets.len(), few.left_out), (1, 1));
        let all = found(snapshot, &all_of(filter));
        assert!(all.facets.iter().any(|facet| facet.name == "@n"));
    }
}
