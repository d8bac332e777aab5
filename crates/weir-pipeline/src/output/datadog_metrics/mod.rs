//! `type = "datadog_metrics"`: counters and gauges as points of series, to Datadog.
//!
//! The content of requests; `post` sends them. Names and tags are those of Loggregator's nozzle for
//! Datadog, so that existing dashboards keep working: a counter is sent as its total.
//!
//! Invariants: each measurement of a record is one point; a point that is sent again has the same
//! time, name, tags and value, so it changes nothing; a record without a point is set aside, and
//! never counts as delivered.

mod encode;

use std::sync::Arc;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use weir_host::Secret;

use super::post::{Encoder, Endpoint, Protocol, Sender, SenderSettings};
use super::{OutputContext, OutputError};
use crate::config::{OutputPlan, RequestSettings};
use crate::stats::OutputStats;

pub(super) use encode::SeriesEncoder;

/// `type = "datadog_metrics"`.
#[derive(Debug, Clone, PartialEq)]
pub struct DatadogMetricsOutput {
    /// URL of the API, without the path of the series.
    pub url: String,
    /// The key that is sent with each request.
    pub api_key: Secret,
    /// Prefix of every name.
    pub prefix: String,
    /// Tags added to every point.
    pub tags: Vec<String>,
    /// How requests are sent.
    pub requests: RequestSettings,
}

const PATH: &str = "/api/v2/series";
const API_KEY: HeaderName = HeaderName::from_static("dd-api-key");

/// Checks the settings and reads the certificate files.
pub(super) fn sender(
    plan: &OutputPlan,
    settings: &DatadogMetricsOutput,
    context: &OutputContext,
    stats: &Arc<OutputStats>,
) -> Result<Sender, OutputError> {
    let output = plan.name.clone();
    let endpoint = Endpoint::url(&settings.url).map_err(|problem| OutputError::Endpoint {
        output: output.clone(),
        endpoint: settings.url.clone(),
        problem,
    })?;
    let headers = headers(&endpoint, settings).ok_or(OutputError::Token { output })?;
    let sending = SenderSettings {
        protocol: Protocol::Status,
        method: Method::POST,
        path: format!("{}{PATH}", endpoint.path.trim_end_matches('/')),
        endpoints: vec![endpoint],
        headers,
        send_channel: false,
        acks: None,
        requests: settings.requests.clone(),
    };
    let encoder = SeriesEncoder::new(&settings.prefix, &settings.tags, context.sources.clone());
    Sender::new(plan, sending, Encoder::Series(Box::new(encoder)), context, stats)
}

/// Returns the headers of every request; `None` if the key is not valid in a header.
fn headers(endpoint: &Endpoint, settings: &DatadogMetricsOutput) -> Option<HeaderMap> {
    let mut headers = endpoint.headers()?;
    let mut key = HeaderValue::from_str(settings.api_key.expose()).ok()?;
    key.set_sensitive(true);
    headers.insert(API_KEY, key);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(headers)
}
