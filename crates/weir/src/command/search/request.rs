//! API requests built from the arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use weir_codec::percent_encoded;
use weir_host::Zone;
use weir_host::units::format_duration;

use crate::cli::{RangeArgs, RowOrder, SearchArgs};
use crate::exit::{Exit, ExitError};

/// Approximate number of bars of a histogram.
const BARS: usize = 30;

/// The parts that all requests have in common.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) query: String,
    pub(super) from: String,
    pub(super) to: Option<String>,
    pub(super) calculated_fields: BTreeMap<String, String>,
    timeout: Option<String>,
    zone: Option<String>,
    newest_first: bool,
}

impl Request {
    /// The query.
    pub(super) fn new(args: &SearchArgs) -> Result<Self> {
        let mut calculated_fields = BTreeMap::new();
        for (name, expression) in &args.calculated_fields {
            let name = name.strip_prefix('@').unwrap_or(name);
            if calculated_fields.insert(name.to_owned(), expression.clone()).is_some() {
                let message = format!("--calculate {name} is given twice");
                return Err(ExitError::with(Exit::Usage, message));
            }
        }
        Ok(Self {
            query: args.query.join(" "),
            from: from(&args.range),
            to: args.range.to.clone(),
            calculated_fields,
            timeout: args.timeout.map(format_duration),
            zone: args.timezone.as_ref().map(Zone::name),
            newest_first: args.order == RowOrder::Newest,
        })
    }

    fn body(&self) -> Value {
        let mut body = json!({
            "filter": { "query": self.query, "from": self.from },
            "weir": { "calculated_fields": self.calculated_fields, "details": true, "points": BARS },
        });
        if let Some(to) = &self.to {
            body["filter"]["to"] = to.as_str().into();
        }
        if let Some(zone) = &self.zone {
            body["options"] = json!({ "timezone": zone });
        }
        if let Some(timeout) = &self.timeout {
            body["weir"]["timeout"] = timeout.as_str().into();
        }
        body
    }

    /// The address of one of weir's own paths, with the maximum number of items in the answer.
    pub(super) fn address(&self, path: &str, limit: u64) -> String {
        let mut address = format!("{path}?limit={limit}");
        let mut add = |name: &str, value: &str| {
            address.extend(["&", name, "=", &percent_encoded(value)]);
        };
        add("query", &self.query);
        add("from", &self.from);
        if let Some(to) = &self.to {
            add("to", to);
        }
        if !self.calculated_fields.is_empty() {
            add("calculated_fields", &json!(self.calculated_fields).to_string());
        }
        if let Some(timeout) = &self.timeout {
            add("timeout", timeout);
        }
        address
    }

    /// Requests a page of records.
    pub(super) fn page(&self, limit: u64, cursor: Option<&str>) -> Value {
        let mut body = self.body();
        body["sort"] = if self.newest_first { "-timestamp" } else { "timestamp" }.into();
        body["page"] = json!({ "limit": limit });
        if let Some(cursor) = cursor {
            body["page"]["cursor"] = cursor.into();
        }
        body
    }

    /// Requests aggregates of groups.
    pub(super) fn aggregates_body(
        &self,
        aggregates: &[Aggregate],
        fields: &[String],
        limit: u64,
    ) -> Value {
        let mut body = self.body();
        body["compute"] = aggregates.iter().map(Aggregate::json).collect();
        let sort = aggregates.first().map(|aggregate| {
            let mut sort = aggregate.json();
            sort["type"] = "measure".into();
            sort["order"] = "desc".into();
            sort
        });
        let group = |facet: &String| json!({ "facet": facet, "limit": limit, "sort": sort });
        body["group_by"] = fields.iter().map(group).collect();
        body
    }

    /// Requests an aggregate over time; counts are split by status.
    pub(super) fn series(&self, aggregate: &Aggregate, interval: Option<&str>) -> Value {
        let mut body = self.body();
        let mut compute = aggregate.json();
        compute["type"] = "timeseries".into();
        if let Some(interval) = interval {
            compute["interval"] = interval.into();
        }
        body["compute"] = json!([compute]);
        if aggregate.is_count() {
            body["group_by"] = json!([{ "facet": "status", "limit": 20, "missing": "" }]);
        }
        body
    }
}

/// The start of the range, as the API reads it.
fn from(range: &RangeArgs) -> String {
    range.from.clone().unwrap_or_else(|| back(range.since))
}

/// A time in the past, as the API reads it.
pub(crate) fn back(time: Duration) -> String {
    format!("now-{}ms", time.as_millis())
}

/// An aggregate of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Aggregate {
    pub(super) aggregation: String,
    pub(super) metric: Option<String>,
}

impl Aggregate {
    /// `count`, `avg:@duration`.
    pub(super) fn parse(text: &str) -> Self {
        let (aggregation, metric) = match text.split_once(':') {
            Some((aggregation, metric)) => (aggregation, Some(metric.to_owned())),
            None => (text, None),
        };
        Self { aggregation: aggregation.to_owned(), metric }
    }

    /// The requested aggregates; by default the number of records.
    pub(super) fn all(args: &SearchArgs) -> Vec<Self> {
        match &args.compute[..] {
            [] => vec![Self::parse("count")],
            aggregates => aggregates.iter().map(|text| Self::parse(text)).collect(),
        }
    }

    /// As requested: `count`, `avg:@duration`.
    pub(super) fn name(&self) -> String {
        match &self.metric {
            Some(metric) => format!("{}:{metric}", self.aggregation),
            None => self.aggregation.clone(),
        }
    }

    fn json(&self) -> Value {
        match &self.metric {
            Some(metric) => json!({ "aggregation": self.aggregation, "metric": metric }),
            None => json!({ "aggregation": self.aggregation }),
        }
    }

    /// The number of records.
    pub(super) fn is_count(&self) -> bool {
        self.aggregation == "count" && self.metric.is_none()
    }

    /// As a column header.
    pub(super) fn title(&self) -> String {
        match &self.metric {
            Some(metric) => format!("{}({metric})", self.aggregation),
            None => self.aggregation.clone(),
        }
    }
}
