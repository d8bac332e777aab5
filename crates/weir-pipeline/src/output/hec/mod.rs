//! `type = "splunk_hec"`: the HTTP event collector.
//!
//! The content of requests and the meaning of responses; `post` sends the requests.

mod answer;

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderValue};
use weir_codec::{HecEncoder, HecMetadata};
use weir_host::Secret;

use super::post::{Encoder, Endpoint, EndpointError, Protocol, Sender, SenderSettings};
use super::{OutputContext, OutputError, machine_name};
use crate::config::{HecMode, OutputPlan, RequestSettings};
use crate::stats::OutputStats;

/// `type = "splunk_hec"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SplunkHec {
    /// `http://host:port` or `https://host:port`, with an optional path prefix.
    pub endpoint: String,
    /// HEC token.
    pub token: Secret,
    /// Events (`/services/collector/event`) or raw text (`/services/collector/raw`).
    pub mode: HecMode,
    /// Poll for the indexer acknowledgement before a batch counts as delivered.
    pub indexer_ack: bool,
    /// How long to wait for the indexer acknowledgement before sending again.
    pub ack_timeout: Duration,
    /// Index for all events; a resource attribute of the record takes precedence.
    pub index: Option<String>,
    /// Sourcetype.
    pub sourcetype: Option<String>,
    /// Source; default: the path of the log file.
    pub source: Option<String>,
    /// Host; default: the record's `host.name`, then the name of this machine.
    pub host: Option<String>,
    /// Batching, concurrency, retries and TLS.
    pub requests: RequestSettings,
}

/// Checks the settings and reads the certificate files.
pub(super) fn sender(
    plan: &OutputPlan,
    hec: &SplunkHec,
    context: &OutputContext,
    stats: &Arc<OutputStats>,
) -> Result<Sender, OutputError> {
    let wrong = |problem| OutputError::Endpoint {
        output: plan.name.clone(),
        endpoint: hec.endpoint.clone(),
        problem,
    };
    let endpoint = endpoint(&hec.endpoint).map_err(wrong)?;
    let headers =
        headers(&endpoint, hec).ok_or_else(|| OutputError::Token { output: plan.name.clone() })?;
    let collector = format!("{}/services/collector", endpoint.path);
    let kind = if hec.mode == HecMode::Raw { "raw" } else { "event" };
    let sending = SenderSettings {
        protocol: Protocol::Collector,
        method: Method::POST,
        path: format!("{collector}/{kind}"),
        endpoints: vec![endpoint],
        headers,
        send_channel: hec.indexer_ack || hec.mode == HecMode::Raw,
        acks: hec.indexer_ack.then(|| (format!("{collector}/ack"), hec.ack_timeout)),
        requests: hec.requests.clone(),
    };
    let metadata = HecMetadata {
        index: hec.index.clone(),
        sourcetype: hec.sourcetype.clone(),
        source: hec.source.clone(),
        host: hec.host.clone().unwrap_or_else(machine_name),
    };
    let encoder = Encoder::Event(HecEncoder::new(hec.mode, metadata));
    Sender::new(plan, sending, encoder, context, stats)
}

/// Parses the endpoint. A complete collector URL is accepted too: the path after the prefix is
/// fixed.
fn endpoint(text: &str) -> Result<Endpoint, EndpointError> {
    let mut endpoint = Endpoint::collector(text)?;
    let prefix = endpoint.path.split("/services/collector").next().unwrap_or_default();
    endpoint.path = prefix.trim_end_matches('/').to_owned();
    Ok(endpoint)
}

/// Returns the headers of every request; `None` if the token is not valid in a header.
fn headers(endpoint: &Endpoint, hec: &SplunkHec) -> Option<HeaderMap> {
    let mut headers = endpoint.headers()?;
    let mut token = HeaderValue::from_str(&format!("Splunk {}", hec.token.expose())).ok()?;
    token.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, token);
    let content_type = if hec.mode == HecMode::Raw { "text/plain" } else { "application/json" };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_taken_apart() {
        let check = |text: &str, tls, host: &str, port, prefix: &str| {
            let e = endpoint(text).unwrap();
            let seen = (e.tls, e.host, e.port, e.path);
            assert_eq!(seen, (tls, host.to_owned(), port, prefix.to_owned()));
        };
        check("http://127.0.0.1:1234", false, "127.0.0.1", 1234, "");
        check("https://splunk.example", true, "splunk.example", 8088, "");
        check("https://[::1]:8088/", true, "::1", 8088, "");
        check("https://[::1]", true, "::1", 8088, "");
        check("https://a:1/gateway/", true, "a", 1, "/gateway");
        check("HTTPS://a:1", true, "a", 1, "");
        check("https://a:1/x/services/collector/event", true, "a", 1, "/x");
    }
}
