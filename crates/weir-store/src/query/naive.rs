//! Reference implementation of queries: every record is examined, every value kept, nothing is
//! estimated. It is slow, and every engine is tested against it.

use std::collections::{BTreeMap, BTreeSet};

use weir_expr::{Field, Fields as _, Numeric, Unit, Value, WithCalculatedFields, naive};

use super::answer::{Aggregate, Bucket, ComputeValue, Coverage, GroupKey, SearchPage};
use super::fields::StoredFields;
use super::request::{
    AggregateRequest, Aggregation, Compute, Filter, GroupBy, Order, PageKey, SearchRequest, SortBy,
};
use crate::embedded::columns::{AttributeValue, StoredRecord, value_of};

/// Returns whether the record matches the filter.
pub fn matches(filter: &Filter, record: &StoredRecord) -> bool {
    let fields = StoredFields::new(record);
    let may_be_seen = match filter.access.restriction() {
        Some(only) => naive::matches(only, &fields),
        None => true,
    };
    let computed = WithCalculatedFields::new(&fields, &filter.calculated_fields);
    let query = filter.query.clone().in_units(&filter.units, &filter.calculated_fields);
    filter.range.contains(record.time_ns) && may_be_seen && naive::matches(&query, &computed)
}

fn key_of(record: &StoredRecord) -> PageKey {
    PageKey { time_ns: record.time_ns, sequence: record.sequence }
}

/// Returns a page of records.
pub fn search(records: &[StoredRecord], request: &SearchRequest) -> SearchPage {
    let is_after = |record: &&StoredRecord| match (request.after, request.order) {
        (None, _) => true,
        (Some(key), Order::NewestFirst) => key_of(record) < key,
        (Some(key), Order::OldestFirst) => key_of(record) > key,
    };
    let mut found: Vec<&StoredRecord> =
        records.iter().filter(|r| matches(&request.filter, r)).filter(is_after).collect();
    found.sort_by_key(|record| key_of(record));
    if request.order == Order::NewestFirst {
        found.reverse();
    }
    let has_more = found.len() > request.limit;
    found.truncate(request.limit);
    let next = if has_more { found.last().map(|record| key_of(record)) } else { None };
    SearchPage {
        records: found.into_iter().cloned().collect(),
        next,
        coverage: Coverage::default(),
    }
}

/// Returns the values of a field of a record, without nulls and objects.
fn values(record: &StoredRecord, filter: &Filter, field: &Field) -> Vec<AttributeValue> {
    let mut found: Vec<AttributeValue> = Vec::new();
    if *field == Field::Message {
        found.extend(record.message.clone().map(AttributeValue::Text));
        return found;
    }
    let fields = StoredFields::new(record);
    WithCalculatedFields::new(&fields, &filter.calculated_fields).visit(field, &mut |value| {
        if !matches!(value, Value::Null | Value::Object) {
            found.push(value.into());
        }
    });
    found
}

/// Returns the text by which values are distinguished.
fn text_of(value: &AttributeValue) -> String {
    let scalar = value_of(value.as_scalar());
    let mut buffer = Vec::new();
    String::from_utf8_lossy(scalar.text(&mut buffer).unwrap_or_default()).into_owned()
}

fn unit_of(field: &Field, filter: &Filter) -> Option<Unit> {
    filter.units.of(field, &filter.calculated_fields)
}

/// Returns the value as a number in the unit of the field.
fn number_of(value: &AttributeValue, unit: Option<Unit>) -> Option<f64> {
    numeric_of(value, unit).map(float_of)
}

fn numeric_of(value: &AttributeValue, unit: Option<Unit>) -> Option<Numeric> {
    value_of(value.as_scalar()).number_in(unit)
}

fn float_of(number: Numeric) -> f64 {
    match number {
        Numeric::Int(number) => number as f64,
        Numeric::Float(number) => number,
    }
}

/// Returns aggregates of groups. Of values with equal texts the first is returned.
pub fn aggregate(records: &[StoredRecord], request: &AggregateRequest) -> Aggregate {
    let matched: Vec<&StoredRecord> =
        records.iter().filter(|record| matches(&request.filter, record)).collect();
    let mut buckets = Vec::new();
    add_groups(&matched, request, &request.group_by, &mut Vec::new(), &mut buckets);
    let is_grouped = |record: &&&StoredRecord| {
        request.group_by.iter().all(|group| !keys_of(record, request, group).is_empty())
    };
    let grouped = matched.iter().filter(is_grouped).count() as u64;
    Aggregate { buckets, matched: matched.len() as u64, grouped, ..Aggregate::default() }
}

fn add_groups(
    records: &[&StoredRecord],
    request: &AggregateRequest,
    group_by: &[GroupBy],
    by: &mut Vec<GroupKey>,
    buckets: &mut Vec<Bucket>,
) {
    let Some((group, inner)) = group_by.split_first() else {
        let compute = |compute: &Compute| compute_value(records, request, compute);
        let computes = request.computes.iter().map(compute).collect();
        buckets.push(Bucket { by: by.clone(), computes });
        return;
    };
    let (groups, all) = groups_of(records, request, group);
    for (key, members) in groups {
        by.push(key);
        add_groups(&members, request, inner, by, buckets);
        by.pop();
    }
    if let Some(total) = group.total.as_ref().filter(|_| !all.is_empty()) {
        by.push(GroupKey::Total(total.clone()));
        add_groups(&all, request, inner, by, buckets);
        by.pop();
    }
}

type Groups<'a> = Vec<(GroupKey, Vec<&'a StoredRecord>)>;

/// Returns the groups in order, and all records in any group, including groups beyond the limit.
fn groups_of<'a>(
    records: &[&'a StoredRecord],
    request: &AggregateRequest,
    group: &GroupBy,
) -> (Groups<'a>, Vec<&'a StoredRecord>) {
    let mut found: BTreeMap<String, (GroupKey, Vec<&StoredRecord>)> = BTreeMap::new();
    let mut all = Vec::new();
    for record in records {
        let keys = keys_of(record, request, group);
        if !keys.is_empty() {
            all.push(*record);
        }
        for (text, key) in keys {
            found.entry(text).or_insert_with(|| (key, Vec::new())).1.push(record);
        }
    }
    let mut groups: Groups<'a> = found.into_values().collect();
    sort_groups(&mut groups, request, group);
    groups.truncate(group.limit);
    (groups, all)
}

/// Returns the groups that a record is in, by their texts.
fn keys_of(
    record: &StoredRecord,
    request: &AggregateRequest,
    group: &GroupBy,
) -> BTreeMap<String, GroupKey> {
    let unit = unit_of(&group.field, &request.filter);
    let mut keys: BTreeMap<String, GroupKey> = BTreeMap::new();
    for value in values(record, &request.filter, &group.field) {
        if let Some((text, key)) = key_of_value(value, group, unit) {
            keys.entry(text).or_insert(key);
        }
    }
    if keys.is_empty()
        && let Some(missing) = &group.missing
    {
        keys.insert("\u{0}missing".to_owned(), GroupKey::Missing(missing.clone()));
    }
    keys
}

fn key_of_value(
    value: AttributeValue,
    group: &GroupBy,
    unit: Option<Unit>,
) -> Option<(String, GroupKey)> {
    let Some(histogram) = group.histogram else {
        return Some((text_of(&value), GroupKey::Value(value)));
    };
    let number = number_of(&value, unit)?;
    let is_within = histogram.min <= number && number <= histogram.max;
    let step = ((number - histogram.min) / histogram.interval).floor();
    let from = histogram.min + step * histogram.interval;
    is_within.then(|| (from.to_string(), GroupKey::From(from)))
}

/// Sorts by value: numbers before texts, numbers by size. Sorts by aggregate: groups without one
/// last. Ties are sorted by value, the smallest first.
fn sort_groups(groups: &mut Groups<'_>, request: &AggregateRequest, group: &GroupBy) {
    groups.sort_by(|a, b| super::answer::compare_keys(&a.0, &b.0));
    match &group.sort.by {
        SortBy::Value if group.sort.descending => groups.reverse(),
        SortBy::Value => {}
        SortBy::Aggregate(compute) => {
            let rank = |members: &[&StoredRecord]| {
                super::answer::rank_of(&compute_value(members, request, compute))
            };
            let descending = group.sort.descending;
            groups.sort_by(|a, b| super::answer::compare_ranks(rank(&a.1), rank(&b.1), descending));
        }
    }
}

fn compute_value(
    records: &[&StoredRecord],
    request: &AggregateRequest,
    compute: &Compute,
) -> ComputeValue {
    let filter = &request.filter;
    let Some(interval_ns) = compute.interval_ns else {
        return total(records, filter, compute);
    };
    let mut steps: BTreeMap<i64, Vec<&StoredRecord>> = BTreeMap::new();
    for record in records {
        let step = request.zone.begin_of(record.time_ns, interval_ns);
        steps.entry(step).or_default().push(record);
    }
    let of_step =
        |(step, members): (i64, Vec<&StoredRecord>)| (step, total(&members, filter, compute));
    ComputeValue::Series(steps.into_iter().map(of_step).collect())
}

fn total(records: &[&StoredRecord], filter: &Filter, compute: &Compute) -> ComputeValue {
    let Some(field) = &compute.field else { return ComputeValue::Count(records.len() as u64) };
    let values: Vec<AttributeValue> =
        records.iter().flat_map(|record| values(record, filter, field)).collect();
    let unit = unit_of(field, filter);
    let numbers = || values.iter().filter_map(|value| numeric_of(value, unit));
    // Of integers it is exact: the extremes of two lags cancel each other out.
    let (whole, float) = numbers().fold((0_i128, 0.0), |(whole, float), number| match number {
        Numeric::Int(number) => (whole + i128::from(number), float),
        Numeric::Float(number) => (whole, float + number),
    });
    let sum = whole as f64 + float;
    let mut numbers: Vec<f64> = numbers().map(float_of).collect();
    numbers.sort_by(f64::total_cmp);
    let or_none = |number: Option<f64>| number.map_or(ComputeValue::None, ComputeValue::Number);
    match compute.aggregation {
        Aggregation::Count => ComputeValue::Count(values.len() as u64),
        Aggregation::Cardinality => {
            let distinct: BTreeSet<String> = values.iter().map(text_of).collect();
            ComputeValue::Count(distinct.len() as u64)
        }
        Aggregation::Sum => or_none((!numbers.is_empty()).then_some(sum)),
        Aggregation::Average => or_none((!numbers.is_empty()).then(|| sum / numbers.len() as f64)),
        Aggregation::Min => or_none(numbers.first().copied()),
        Aggregation::Max => or_none(numbers.last().copied()),
        Aggregation::Percentile(percent) => {
            let last = numbers.len().saturating_sub(1) as f64;
            or_none(numbers.get((percent / 100.0 * last).round() as usize).copied())
        }
    }
}
