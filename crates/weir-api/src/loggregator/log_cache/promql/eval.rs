//! Evaluates queries, as Prometheus does.

use std::collections::{BTreeMap, BTreeSet};

use weir_store::query::{Budget, LogStore, TimeRange};

use super::super::super::limits::PROMQL_ENVELOPES_MAX;
use super::super::super::stored::{ReadError, StoredRead};
use super::plan::{Aggregator, Grouping, Node, Operator, Query, RangeFunction, Selector};
use super::series::{Labels, Series, SeriesSet};
use super::{LOOKBACK, QueryError};

/// The times at which a query is evaluated, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    At(i64),
    Range { first_ms: i64, last_ms: i64, step_ms: i64 },
}

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Scalar(i64, f64),
    /// One value of each series.
    Vector(Vec<Series>),
    Matrix(Vec<Series>),
}

/// The values of series at one time.
type Vector = Vec<(Labels, f64)>;

/// An evaluation.
pub(super) struct Evaluation<'e> {
    pub(super) times: Times,
    pub(super) store: &'e dyn LogStore,
    pub(super) sources: &'e BTreeSet<String>,
    pub(super) budget: &'e Budget,
}

/// The series of the selectors of a query, in order.
type Loaded<'q> = Vec<(&'q Selector, Vec<Series>)>;

impl Evaluation<'_> {
    pub(super) fn run(&self, query: &Query) -> Result<Value, QueryError> {
        let loaded = self.load(&query.0)?;
        match self.times {
            Times::At(at_ms) => self.instant(&query.0, &loaded, at_ms),
            Times::Range { first_ms, last_ms, step_ms } => {
                let mut matrix: BTreeMap<Labels, Vec<(i64, f64)>> = BTreeMap::new();
                let mut at_ms = first_ms;
                while at_ms <= last_ms {
                    for (labels, value) in self.vector(&query.0, &loaded, at_ms)? {
                        matrix.entry(labels).or_default().push((at_ms, value));
                    }
                    at_ms += step_ms;
                }
                let series = |(labels, points)| Series { labels, points };
                Ok(Value::Matrix(matrix.into_iter().map(series).collect()))
            }
        }
    }

    fn instant(&self, node: &Node, loaded: &Loaded<'_>, at_ms: i64) -> Result<Value, QueryError> {
        if let Node::Range(selector, range_ms) = node {
            let end_ms = at_ms - selector.offset_ms;
            let within = |series: &Series| Series {
                labels: series.labels.clone(),
                points: series.between(end_ms - range_ms, end_ms).to_vec(),
            };
            let all = of(loaded, selector).iter().map(within);
            return Ok(Value::Matrix(all.filter(|series| !series.points.is_empty()).collect()));
        }
        let vector = self.vector(node, loaded, at_ms)?;
        if node.is_number() {
            return Ok(Value::Scalar(at_ms, vector.first().map_or(f64::NAN, |(_, value)| *value)));
        }
        let series = |(labels, value)| Series { labels, points: vec![(at_ms, value)] };
        Ok(Value::Vector(vector.into_iter().map(series).collect()))
    }

    /// Reads the series of all selectors.
    fn load<'q>(&self, node: &'q Node) -> Result<Loaded<'q>, QueryError> {
        let mut wanted = Vec::new();
        node.for_each_selector(&mut |selector, back_ms| wanted.push((selector, back_ms)));
        let (first_ms, last_ms) = match self.times {
            Times::At(at_ms) => (at_ms, at_ms),
            Times::Range { first_ms, last_ms, .. } => (first_ms, last_ms),
        };
        let load = |(selector, back_ms): (&'q Selector, i64)| {
            // Times are truncated to whole seconds, so reading starts a second earlier. As in the
            // original, the end of a query is exclusive before the offset is applied: a selector
            // with an offset includes the whole second of its end.
            let ns = |ms: i64| ms.saturating_mul(1_000_000);
            let from_ns = ns((first_ms - back_ms - 1000).saturating_sub(selector.offset_ms));
            let end_ms = last_ms.saturating_sub(selector.offset_ms);
            let is_earlier = selector.offset_ms > 0;
            let to_ms = if is_earlier { last_ms.min(end_ms.saturating_add(1000)) } else { end_ms };
            let range = TimeRange { from_ns, to_ns: ns(to_ms).max(from_ns) };
            let mut set = SeriesSet::default();
            for source in &selector.sources {
                let read = StoredRead::metrics(source.clone(), range, PROMQL_ENVELOPES_MAX);
                let batch = read.run(self.store, self.sources, self.budget)?;
                if batch.count() >= PROMQL_ENVELOPES_MAX {
                    return Err(ReadError::TooLarge.into());
                }
                set.add(selector, &batch)?;
            }
            Ok((selector, set.finish()))
        };
        wanted.into_iter().map(load).collect()
    }

    fn vector(&self, node: &Node, loaded: &Loaded<'_>, at_ms: i64) -> Result<Vector, QueryError> {
        self.budget.check().map_err(|_| ReadError::Late)?;
        Ok(match node {
            Node::Number(number) => vec![(Labels::new(), *number)],
            // A range can only be the whole query.
            Node::Range(..) => Vector::new(),
            Node::Newest(selector) => {
                let end_ms = at_ms - selector.offset_ms;
                let start_ms = end_ms - LOOKBACK.as_millis() as i64 + 1;
                let newest = |series: &Series| {
                    let (_, value) = series.between(start_ms, end_ms).last()?;
                    Some((series.labels.clone(), *value))
                };
                of(loaded, selector).iter().filter_map(newest).collect()
            }
            Node::Over(function, selector, range_ms) => {
                let end_ms = at_ms - selector.offset_ms;
                let range = (end_ms - range_ms, end_ms);
                let over = |series: &Series| {
                    let value = over(*function, series.between(range.0, range.1), range)?;
                    Some((series.labels.clone(), value))
                };
                of(loaded, selector).iter().filter_map(over).collect()
            }
            Node::Aggregate(aggregator, grouping, inner) => {
                aggregate(*aggregator, grouping, self.vector(inner, loaded, at_ms)?)
            }
            Node::Negate(inner) => {
                let negated = |(labels, value): (Labels, f64)| (labels, -value);
                self.vector(inner, loaded, at_ms)?.into_iter().map(negated).collect()
            }
            Node::Arithmetic(operator, left, right) => {
                let is_left = left.is_number();
                let (number, vector) = if is_left { (left, right) } else { (right, left) };
                let number = self.vector(number, loaded, at_ms)?;
                let number = number.first().map_or(f64::NAN, |(_, value)| *value);
                let apply = |(labels, value)| {
                    let (left, right) = if is_left { (number, value) } else { (value, number) };
                    (labels, calculate(*operator, left, right))
                };
                self.vector(vector, loaded, at_ms)?.into_iter().map(apply).collect()
            }
        })
    }
}

fn of<'l>(loaded: &'l Loaded<'_>, selector: &Selector) -> &'l [Series] {
    let found = loaded.iter().find(|(known, _)| std::ptr::eq(*known, selector));
    found.map_or(&[], |(_, series)| series.as_slice())
}

fn calculate(operator: Operator, left: f64, right: f64) -> f64 {
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Modulo => left % right,
        Operator::Power => left.powf(right),
    }
}

fn aggregate(aggregator: Aggregator, grouping: &Grouping, vector: Vector) -> Vector {
    let mut groups: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
    for (mut labels, value) in vector {
        match grouping {
            Grouping::By(names) => labels.retain(|name, _| names.contains(name)),
            Grouping::Without(names) => labels.retain(|name, _| !names.contains(name)),
        }
        groups.entry(labels).or_default().push(value);
    }
    let of_group = |(labels, values): (Labels, Vec<f64>)| {
        let value = match aggregator {
            Aggregator::Sum => values.iter().sum(),
            Aggregator::Average => values.iter().sum::<f64>() / values.len() as f64,
            Aggregator::Least => values.iter().copied().fold(f64::NAN, f64::min),
            Aggregator::Most => values.iter().copied().fold(f64::NAN, f64::max),
            Aggregator::Count => values.len() as f64,
        };
        (labels, value)
    };
    groups.into_iter().map(of_group).collect()
}

/// Applies a function to the values in a range from and to these milliseconds.
fn over(
    function: RangeFunction,
    points: &[(i64, f64)],
    (from_ms, to_ms): (i64, i64),
) -> Option<f64> {
    let values = || points.iter().map(|(_, value)| *value);
    if points.is_empty() {
        return None;
    }
    let range = (from_ms, to_ms);
    match function {
        RangeFunction::Rate => {
            Some(extrapolated(points, range, true)? * 1000.0 / (to_ms - from_ms) as f64)
        }
        RangeFunction::Increase => extrapolated(points, range, true),
        RangeFunction::Delta => extrapolated(points, range, false),
        RangeFunction::Average => Some(values().sum::<f64>() / points.len() as f64),
        RangeFunction::Least => Some(values().fold(f64::NAN, f64::min)),
        RangeFunction::Most => Some(values().fold(f64::NAN, f64::max)),
        RangeFunction::Sum => Some(values().sum()),
        RangeFunction::Count => Some(points.len() as f64),
    }
}

/// The change over the whole range: that between the first and the last value, extrapolated to the
/// ends of the range unless these are far from any value. A decrease of a counter is a reset.
fn extrapolated(
    points: &[(i64, f64)],
    (from_ms, to_ms): (i64, i64),
    is_counter: bool,
) -> Option<f64> {
    let [(first_ms, first), .., (last_ms, last)] = points else { return None };
    let mut change = last - first;
    if is_counter {
        let falls = points.windows(2).filter(|pair| pair[1].1 < pair[0].1);
        change += falls.map(|pair| pair[0].1).sum::<f64>();
    }
    let sampled = (last_ms - first_ms) as f64;
    let average = sampled / (points.len() - 1) as f64;
    let mut to_start = (first_ms - from_ms) as f64;
    let to_end = (to_ms - last_ms) as f64;
    if is_counter && change > 0.0 && *first >= 0.0 {
        // The counter was not below zero before.
        to_start = to_start.min(sampled * first / change);
    }
    let near = average * 1.1;
    let extended = |gap: f64| if gap < near { gap } else { average / 2.0 };
    Some(change * (sampled + extended(to_start) + extended(to_end)) / sampled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Vec<(i64, f64)> {
        values.iter().enumerate().map(|(n, value)| (n as i64 * 10_000, *value)).collect()
    }

    #[test]
    fn functions_of_a_range_have_the_values_of_prometheus() {
        let all = points(&[0.0, 10.0, 20.0, 5.0, 15.0]);
        let range = (0, 40_000);
        let value = |function| over(function, &all, range);
        assert_eq!(value(RangeFunction::Increase), Some(35.0));
        assert_eq!(value(RangeFunction::Rate), Some(35.0 / 40.0));
        assert_eq!(value(RangeFunction::Delta), Some(15.0));
        assert_eq!(value(RangeFunction::Average), Some(10.0));
        assert_eq!(value(RangeFunction::Least), Some(0.0));
        assert_eq!(value(RangeFunction::Most), Some(20.0));
        assert_eq!(value(RangeFunction::Sum), Some(50.0));
        assert_eq!(value(RangeFunction::Count), Some(5.0));
        // Half an interval is added where no value is near.
        let some = [(100_000, 1.0), (110_000, 2.0)];
        assert_eq!(over(RangeFunction::Delta, &some, (0, 110_000)), Some(1.5));
        // A counter is not extrapolated below zero.
        let some = [(5_000, 1.0), (15_000, 11.0)];
        assert_eq!(over(RangeFunction::Increase, &some, (0, 15_000)), Some(11.0));
        assert_eq!(over(RangeFunction::Rate, &some[..1], (0, 15_000)), None);
        assert_eq!(over(RangeFunction::Count, &[], (0, 1)), None);
    }

    #[test]
    fn series_are_grouped_by_their_labels() {
        let labels = |zone: &str, app: &str| -> Labels {
            [("zone".to_owned(), zone.to_owned()), ("app".to_owned(), app.to_owned())].into()
        };
        let vector: Vector =
            vec![(labels("1", "a"), 1.0), (labels("1", "b"), 3.0), (labels("2", "a"), f64::NAN)];
        let by_zone = Grouping::By(["zone".to_owned()].into());
        let values = |aggregator, grouping: &Grouping| -> Vec<f64> {
            let all = aggregate(aggregator, grouping, vector.clone());
            all.into_iter().map(|(_, value)| value).collect()
        };
        assert_eq!(values(Aggregator::Sum, &by_zone)[..1], [4.0]);
        assert_eq!(values(Aggregator::Average, &by_zone)[..1], [2.0]);
        assert_eq!(values(Aggregator::Least, &Grouping::By(BTreeSet::new())), [1.0]);
        assert_eq!(values(Aggregator::Most, &Grouping::By(BTreeSet::new())), [3.0]);
        let without = Grouping::Without(["app".to_owned()].into());
        assert_eq!(values(Aggregator::Count, &without), [2.0, 1.0]);
    }
}
