//! `type = "loggregator"`: envelopes over gRPC, to routers and agents of Loggregator or to another
//! weir.
//!
//! The content of requests and the meaning of responses; `post` sends the requests. A request is a
//! call of `BatchSender` that ends after a few batches: the response to a completely read call is
//! the only acknowledgement of the protocol. Loggregator's servers end such a call with the error
//! `EOF`.
//!
//! Invariant: a record counts as delivered only after the server has read its whole call.

mod answer;
mod encode;

use std::sync::Arc;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderValue};

use super::post::{Encoder, Endpoint, Protocol, Sender, SenderSettings};
use super::{OutputContext, OutputError};
use crate::config::{OutputPlan, RequestSettings};
use crate::stats::OutputStats;

pub(super) use encode::EnvelopeEncoder;

/// `type = "loggregator"`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggregatorOutput {
    /// `host:port` of each receiver.
    pub addresses: Vec<String>,
    /// Connections use TLS.
    pub is_encrypted: bool,
    /// Batching, concurrency, retries and TLS.
    pub requests: RequestSettings,
}

const METHOD: &str = "/loggregator.v2.Ingress/BatchSender";

/// Checks the settings and reads the certificate files.
pub(super) fn sender(
    plan: &OutputPlan,
    loggregator: &LoggregatorOutput,
    context: &OutputContext,
    stats: &Arc<OutputStats>,
) -> Result<Sender, OutputError> {
    let endpoint = |text: &String| {
        let endpoint = Endpoint::address(text).map_err(|problem| OutputError::Endpoint {
            output: plan.name.clone(),
            endpoint: text.clone(),
            problem,
        })?;
        Ok(Endpoint { tls: loggregator.is_encrypted, ..endpoint })
    };
    let endpoints = loggregator.addresses.iter().map(endpoint).collect::<Result<_, _>>()?;
    let sending = SenderSettings {
        protocol: Protocol::Grpc,
        method: Method::POST,
        path: METHOD.to_owned(),
        endpoints,
        headers: headers(),
        send_channel: false,
        acks: None,
        requests: loggregator.requests.clone(),
    };
    let encoder = EnvelopeEncoder::new(Arc::clone(&context.sources));
    Sender::new(plan, sending, Encoder::Envelopes(Box::new(encoder)), context, stats)
}

/// Returns the headers of every request. HTTP/2 requests contain the host separately.
fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    headers
}
