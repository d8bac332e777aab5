//! `/api/v2/logs/analytics/aggregate`: aggregates of groups of records.
//!
//! Invariants: a query that could have more groups, steps or points than allowed is rejected with
//! that number; all pages of a result are taken from the same order of groups.

use serde_json::{Map, Value, json};
use weir_expr::Units;
use weir_host::units::{format_rfc3339, parse_duration};
use weir_store::query::{
    Aggregate, AggregateRequest, Aggregation, Bucket, CalculatedField, Compute, ComputeValue,
    GroupBy, GroupHistogram, GroupKey, GroupSort, PageKey, SortBy, TimeRange,
};

use super::cursor::Cursor;
use super::deserialize::{object, objects, optional_object};
use super::limits::{
    COMPUTES_MAX, GROUP_FIELDS_MAX, GROUP_VALUES, GROUP_VALUES_MAX, HISTOGRAM_STEPS_MAX,
    PAGE_BUCKETS, SERIES_POINTS, SERIES_POINTS_MAX,
};
use super::meta::{NextPage, Warning, aggregate_name, unit_symbol};
use super::prelude::*;
use super::query::{
    FilterBody, OptionsBody, ParameterNames, RequestBody, WeirOptions, body, field,
};
use super::record::json_value;
use crate::problem::DatadogProblem;

/// Request for aggregates of groups.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AggregateBody {
    /// The records to aggregate.
    #[serde(deserialize_with = "object")]
    filter: FilterBody,
    /// The aggregates. Default: the number of records.
    #[serde(deserialize_with = "objects")]
    compute: Vec<ComputeBody>,
    /// The fields to group by; without any there is one group of all records.
    #[serde(deserialize_with = "objects")]
    group_by: Vec<GroupByBody>,
    /// The page of groups to return.
    #[serde(deserialize_with = "object")]
    page: GroupPageBody,
    /// Time options.
    #[serde(deserialize_with = "object")]
    options: OptionsBody,
    /// Options specific to weir.
    #[serde(deserialize_with = "object")]
    weir: WeirOptions,
}

/// The page of groups to return.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct GroupPageBody {
    /// `meta.page.after` of the previous page.
    cursor: Option<String>,
}

/// An aggregate.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ComputeBody {
    /// A name, or a percentile: `openapi.rs` lists them.
    aggregation: String,
    /// A single value, or one for each interval.
    #[serde(rename = "type", default)]
    compute_type: ComputeType,
    /// Length of an interval, such as `5m`, `1d` or `1w`. Default: a length that gives about 150
    /// intervals.
    interval: Option<String>,
    /// The field, such as `@duration`; optional for a count.
    metric: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ComputeType {
    /// A single value.
    #[default]
    Total,
    /// One value for each interval.
    Timeseries,
}

/// A field to group by.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct GroupByBody {
    /// The field, such as `service` or `@http.status_code`.
    facet: String,
    /// Maximum number of values of the field, at most 10000. Default: 10.
    limit: Option<usize>,
    /// Order of the values. Default: by number of records, descending.
    #[serde(default, deserialize_with = "optional_object")]
    sort: Option<SortBody>,
    /// Groups numbers into ranges.
    #[serde(default, deserialize_with = "optional_object")]
    histogram: Option<HistogramBody>,
    /// Name of the group of records without a value; by default they are omitted.
    missing: Option<Value>,
    /// Name of an additional group of all records that are in any group (`true` means `total`).
    total: Option<Value>,
}

/// Order of groups.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct SortBody {
    /// Sort by an aggregate or by the value. Default: by the aggregate if one is given.
    #[serde(rename = "type")]
    sort_type: Option<SortType>,
    /// The aggregate, as in `compute`. Default: `count`.
    aggregation: Option<String>,
    /// Its field.
    metric: Option<String>,
    /// Default: descending for an aggregate, ascending for the value.
    order: Option<Direction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum SortType {
    /// By value.
    Alphabetical,
    /// By aggregate.
    Measure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    /// Smallest first.
    Asc,
    /// Largest first.
    Desc,
}

/// Ranges of numbers; at most 100.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct HistogramBody {
    /// Width of a range.
    interval: f64,
    /// Minimum of the numbers that are counted.
    min: f64,
    /// Maximum of the numbers that are counted.
    max: f64,
}

/// Aggregates of groups.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AggregateAnswer {
    /// The groups.
    pub data: AggregateData,
    /// Information about the answer.
    pub meta: Meta,
}

/// A page of groups, in order.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct AggregateData {
    /// The groups.
    pub buckets: Vec<AggregateBucket>,
}

/// One group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct AggregateBucket {
    /// The common values of its records, by field.
    pub by: Map<String, Value>,
    /// Its aggregates: `c0` is the first of the request. A number, or for a series a list of `time`
    /// and `value`; absent if no record has a number.
    pub computes: Map<String, Value>,
}

impl AggregateBucket {
    /// The aggregate with this index, counted from 0.
    pub fn value(&self, index: usize) -> Option<&Value> {
        self.computes.get(&aggregate_name(index))
    }
}

/// Aggregates of groups of records
#[utoipa::path(
    post, path = "/api/v2/logs/analytics/aggregate", tag = "search",
    request_body = AggregateBody,
    responses((status = 200, description = "The aggregates", body = AggregateAnswer))
)]
pub(crate) async fn post(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    received: RequestBody,
) -> Result<Response, DatadogProblem> {
    Ok(answer(&state, &requester, body(&headers, received)?).await?)
}

async fn answer(
    state: &ApiState,
    requester: &Requester,
    params: AggregateBody,
) -> Result<Response, Problem> {
    let names = ParameterNames::BODY;
    let mut request_context = state.explore.request_context();
    let zone = params.options.zone()?;
    let spec = QuerySpec::new(names, &params.filter, &params.weir.calculated_fields)
        .with_zone(zone.clone());
    let mut filter = spec.filter(request_context.now_ns(), requester.access())?;
    request_context.lint(&spec.query, &filter.query);
    let rest = json!([params.compute, params.group_by, zone.name()]);
    let hash = spec.hash(&format!("aggregate {rest}"));
    let begin = spec.resume_from(params.page.cursor.as_deref(), hash, &mut filter)?;
    let first = begin.map_or(0, |key| key.sequence as usize);
    let range = filter.range;
    let points = bounded("weir.points", params.weir.points, SERIES_POINTS, SERIES_POINTS_MAX)?;
    let computes = computes(&params.compute, range, points)?;
    let group_by = group_by(&params.group_by)?;
    let time = state.explore.deadline(names.timeout, params.weir.timeout.as_deref())?;
    let interval_ns = computes.iter().find_map(|compute| compute.interval_ns);
    let calculated_fields = state.explore.calculated_fields(&filter.calculated_fields)?;
    let known = state.explore.units()?;
    let grouped = params.group_by.iter().zip(&group_by).filter_map(|(params, group)| {
        Some((params.facet.clone(), unit_symbol(&group.field, &known, &calculated_fields)?))
    });
    let units = units(&computes, &known, &calculated_fields).chain(grouped).collect();
    let request = AggregateRequest { filter, computes, group_by, zone };
    let document = move |aggregate: Aggregate, mut meta: Meta| {
        meta.warnings.extend(params.options.ignored().map(Warning::ignored));
        meta.warnings.extend(aggregate.is_approximate.then(Warning::approximate));
        meta.weir.matched = Some(aggregate.matched);
        meta.weir.grouped = Some(aggregate.grouped);
        meta.weir.interval_ns = interval_ns;
        meta.weir.units = units;
        meta.weir.set_range(range);
        let rest = aggregate.buckets.len().saturating_sub(first);
        if rest > PAGE_BUCKETS {
            let key = PageKey { time_ns: 0, sequence: (first + PAGE_BUCKETS) as u64 };
            let after = Cursor { query_hash: hash, range, key }.encode();
            meta.page = Some(NextPage { after });
        }
        let facets: Vec<&str> = params.group_by.iter().map(|group| &*group.facet).collect();
        let page = aggregate.buckets.iter().skip(first).take(PAGE_BUCKETS);
        let buckets = page.map(|bucket| bucket_document(bucket, &facets)).collect();
        Ok(AggregateAnswer { data: AggregateData { buckets }, meta })
    };
    let run = move |store: &dyn LogStore, budget: &_| store.aggregate(&request, budget);
    let answer = state
        .explore
        .run_query(QueryKind::Aggregate, Some(time), request_context, run, document)
        .await;
    answer.map_err(|problem| spec.with_span(problem))
}

/// The units of the aggregates.
fn units(
    computes: &[Compute],
    known: &Units,
    calculated_fields: &[CalculatedField],
) -> impl Iterator<Item = (String, String)> {
    let unit = |(index, compute): (usize, &Compute)| {
        let field = compute.field.as_ref().filter(|_| !compute.aggregation.is_count())?;
        Some((aggregate_name(index), unit_symbol(field, known, calculated_fields)?))
    };
    computes.iter().enumerate().filter_map(unit)
}

fn bucket_document(bucket: &Bucket, facets: &[&str]) -> AggregateBucket {
    let by = facets.iter().zip(&bucket.by).map(|(facet, key)| ((*facet).to_owned(), key_json(key)));
    let computes = bucket
        .computes
        .iter()
        .enumerate()
        .filter_map(|(index, value)| Some((aggregate_name(index), compute_json(value)?)));
    AggregateBucket { by: by.collect(), computes: computes.collect() }
}

fn key_json(key: &GroupKey) -> Value {
    match key {
        GroupKey::Value(value) => json_value(value),
        GroupKey::From(number) => (*number).into(),
        GroupKey::Missing(name) | GroupKey::Total(name) => name.as_str().into(),
    }
}

fn compute_json(value: &ComputeValue) -> Option<Value> {
    Some(match value {
        ComputeValue::None => return None,
        ComputeValue::Count(count) => (*count).into(),
        ComputeValue::Number(number) => (*number).into(),
        ComputeValue::Series(points) => points
            .iter()
            .filter_map(|(time_ns, value)| {
                let value = compute_json(value)?;
                Some(json!({ "time": format_rfc3339(*time_ns), "value": value }))
            })
            .collect(),
    })
}

/// Reads the requested aggregates.
fn computes(
    params: &[ComputeBody],
    range: TimeRange,
    points: usize,
) -> Result<Vec<Compute>, Problem> {
    if params.len() > COMPUTES_MAX {
        let what = format!("has {} items; the maximum is {COMPUTES_MAX}", params.len());
        return Err(Problem::parameter("compute", what));
    }
    if params.is_empty() {
        return Ok(vec![Compute {
            aggregation: Aggregation::Count,
            field: None,
            interval_ns: None,
        }]);
    }
    let read = |(index, params): (usize, &ComputeBody)| {
        let at = format!("compute[{index}]");
        let mut compute = compute(&at, &params.aggregation, params.metric.as_deref())?;
        match (params.compute_type, &params.interval) {
            (ComputeType::Timeseries, interval) => {
                let name = format!("{at}.interval");
                compute.interval_ns = Some(interval_ns(&name, interval.as_deref(), range, points)?);
            }
            (ComputeType::Total, None) => {}
            (ComputeType::Total, Some(_)) => {
                let what = "requires type \"timeseries\"";
                return Err(Problem::parameter(&format!("{at}.interval"), what));
            }
        }
        Ok(compute)
    };
    params.iter().enumerate().map(read).collect()
}

/// Reads an aggregate by its name; `at` is its place in the request.
fn compute(at: &str, name: &str, metric: Option<&str>) -> Result<Compute, Problem> {
    let aggregation = aggregation(name).ok_or_else(|| {
        let known: Vec<&str> = Aggregation::NAMED.iter().map(|(name, _)| *name).collect();
        let what = format!(
            "unknown aggregation {name:?}; known are {} and percentiles such as p99",
            known.join(", ")
        );
        Problem::parameter(&format!("{at}.aggregation"), what)
    })?;
    let at = format!("{at}.metric");
    let field = metric.filter(|text| *text != "*").map(|text| field(&at, text)).transpose()?;
    if field.is_none() && aggregation != Aggregation::Count {
        let what = format!("{name} requires a field, such as @duration");
        return Err(Problem::parameter(&at, what));
    }
    Ok(Compute { aggregation, field, interval_ns: None })
}

fn aggregation(name: &str) -> Option<Aggregation> {
    if let Some((_, aggregation)) = Aggregation::NAMED.iter().find(|(known, _)| *known == name) {
        return Some(*aggregation);
    }
    let share: f64 = name.strip_prefix("pc").or(name.strip_prefix('p'))?.parse().ok()?;
    (0.0..=100.0).contains(&share).then_some(Aggregation::Percentile(share))
}

/// Length of the intervals of a series, nanoseconds.
fn interval_ns(
    name: &str,
    text: Option<&str>,
    range: TimeRange,
    points: usize,
) -> Result<i64, Problem> {
    let span_ns = range.to_ns.saturating_sub(range.from_ns);
    let Some(text) = text else { return Ok(nice_interval_ns(span_ns, points as i64)) };
    let interval = parse_duration(text).map_err(|error| Problem::parameter(name, error))?;
    let interval_ns = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
    if interval_ns == 0 {
        return Err(Problem::parameter(name, "must be greater than 0"));
    }
    let points = (span_ns / interval_ns) as usize;
    if points > SERIES_POINTS_MAX {
        let what =
            format!("gives {points} points for this range; the maximum is {SERIES_POINTS_MAX}");
        return Err(Problem::parameter(name, what));
    }
    Ok(interval_ns)
}

/// A round interval that divides the range into about this many parts at most.
fn nice_interval_ns(span_ns: i64, points: i64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    const SECONDS: [i64; 17] =
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];
    let wanted_ns = span_ns / points;
    let whole = SECONDS.into_iter().map(|seconds| seconds * SECOND);
    let below = [1_000_000, 10_000_000, 100_000_000, 250_000_000, 500_000_000].into_iter();
    below.chain(whole).find(|interval_ns| *interval_ns >= wanted_ns).unwrap_or_else(|| {
        let days = (wanted_ns / (86_400 * SECOND)).saturating_add(1);
        days.saturating_mul(86_400 * SECOND)
    })
}

/// Reads the fields to group by.
fn group_by(params: &[GroupByBody]) -> Result<Vec<GroupBy>, Problem> {
    if params.len() > GROUP_FIELDS_MAX {
        let what = format!("has {} items; the maximum is {GROUP_FIELDS_MAX}", params.len());
        return Err(Problem::parameter("group_by", what));
    }
    let read = |(index, params): (usize, &GroupByBody)| {
        let at = |member: &str| format!("group_by[{index}].{member}");
        let field = field(&at("facet"), &params.facet)?;
        let limit = bounded(&at("limit"), params.limit, GROUP_VALUES, GROUP_VALUES_MAX)?;
        let sort = sort(&at("sort"), params.sort.as_ref())?;
        let histogram =
            params.histogram.map(|histogram| steps(&at("histogram"), histogram)).transpose()?;
        let missing = name(&at("missing"), params.missing.as_ref())?;
        let total = name(&at("total"), params.total.as_ref())?;
        Ok(GroupBy { field, limit, sort, histogram, missing, total })
    };
    params.iter().enumerate().map(read).collect()
}

fn sort(at: &str, params: Option<&SortBody>) -> Result<GroupSort, Problem> {
    let default = SortBody::default();
    let is_given = params.is_some();
    let params = params.unwrap_or(&default);
    let has_aggregate = params.aggregation.is_some() || params.metric.is_some();
    let by_aggregate = match params.sort_type {
        Some(SortType::Alphabetical) if has_aggregate => {
            let what = "sorts by the value; an aggregate requires type \"measure\"";
            return Err(Problem::parameter(&format!("{at}.type"), what));
        }
        Some(sort_type) => sort_type == SortType::Measure,
        None => has_aggregate || !is_given,
    };
    let by = if by_aggregate {
        let name = params.aggregation.as_deref().unwrap_or("count");
        SortBy::Aggregate(compute(at, name, params.metric.as_deref())?)
    } else {
        SortBy::Value
    };
    let descending = params.order.map_or(by_aggregate, |order| order == Direction::Desc);
    Ok(GroupSort { by, descending })
}

fn steps(at: &str, params: HistogramBody) -> Result<GroupHistogram, Problem> {
    let HistogramBody { interval, min, max } = params;
    let is_finite = [interval, min, max].iter().all(|number| number.is_finite());
    if !is_finite || interval <= 0.0 || min >= max {
        return Err(Problem::parameter(
            at,
            "interval must be greater than 0, and min less than max",
        ));
    }
    let steps = ((max - min) / interval).ceil();
    if steps > HISTOGRAM_STEPS_MAX {
        let what = format!("gives {steps} ranges; the maximum is {HISTOGRAM_STEPS_MAX}");
        return Err(Problem::parameter(&format!("{at}.interval"), what));
    }
    Ok(GroupHistogram { interval, min, max })
}

/// The name of a special group.
fn name(at: &str, params: Option<&Value>) -> Result<Option<String>, Problem> {
    match params {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some("total".to_owned())),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(Problem::parameter(at, "must be text or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_round() {
        let minutes = |minutes: i64| nice_interval_ns(minutes * 60_000_000_000, 150) / 1_000_000;
        assert_eq!(minutes(15), 10_000);
        assert_eq!(minutes(60), 30_000);
        assert_eq!(minutes(24 * 60), 600_000);
        assert_eq!(minutes(7 * 24 * 60), 7_200_000);
        assert_eq!(minutes(365 * 24 * 60), 3 * 86_400_000);
        assert_eq!(nice_interval_ns(1_000_000_000, 150), 10_000_000);
        assert!(nice_interval_ns(i64::MAX, 1) > 0);
    }

    #[test]
    fn aggregates_are_validated() {
        assert_eq!(aggregation("pc99"), Some(Aggregation::Percentile(99.0)));
        assert_eq!(aggregation("p99.9"), Some(Aggregation::Percentile(99.9)));
        for wrong in ["pc101", "pc", "pcnan", "mean", "pc-1"] {
            assert_eq!(aggregation(wrong), None, "{wrong}");
        }
        assert!(compute("c", "avg", None).is_err() && compute("c", "count", Some("*")).is_ok());
        let range = TimeRange { from_ns: 0, to_ns: 3_600_000_000_000 };
        assert_eq!(interval_ns("i", Some("1m"), range, 150), Ok(60_000_000_000));
        assert!(interval_ns("i", Some("1ms"), range, 150).is_err());
        let steps_of = |interval, min, max| steps("h", HistogramBody { interval, min, max });
        assert!(steps_of(1.0, 0.0, 100.0).is_ok());
        for (interval, min, max) in [(1.0, 0.0, 101.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0)] {
            assert!(steps_of(interval, min, max).is_err());
        }
    }

    #[test]
    fn named_aggregations_are_documented() {
        let guide = include_str!("../../../../docs/guide/search.md");
        let page = include_str!("../../../../page/src/explore/groups.ts");
        for (name, _) in Aggregation::NAMED {
            assert!(guide.contains(&format!("`{name}`")), "docs/guide/search.md lacks {name}");
            assert!(
                page.contains(&format!("  {name}: '")),
                "page/src/explore/groups.ts lacks {name}"
            );
        }
    }

    #[test]
    fn groups_have_the_requested_order() {
        let read = |text: &str| {
            let params: SortBody = serde_json::from_str(text).unwrap();
            sort("s", Some(&params)).map(|sort| (sort.by == SortBy::Value, sort.descending))
        };
        assert!(sort("s", None).unwrap().descending, "most records first");
        assert_eq!(read("{}"), Ok((true, false)));
        assert_eq!(read(r#"{"type":"measure"}"#), Ok((false, true)));
        assert_eq!(read(r#"{"aggregation":"avg","metric":"@d"}"#), Ok((false, true)));
        assert_eq!(read(r#"{"order":"desc"}"#), Ok((true, true)));
        assert!(read(r#"{"type":"alphabetical","aggregation":"count"}"#).is_err());
    }
}
