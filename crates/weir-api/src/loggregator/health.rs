//! `/health` of Loggregator's programs, in their format and on their ports.
//!
//! Where two programs had the same port, the response contains the values of both. Invariants:
//! values are those of the books and statistics at the moment of the request; these ports serve
//! nothing else; a client holds a connection for a limited time.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use weir_host::{ConnectionSlot, ConnectionSlots};
use weir_pipeline::live::ReaderService;
use weir_pipeline::view::PipelineView;

use super::ServiceState;
use super::limits::{ACCEPT_PAUSE, HEAD_BYTES_MAX, HEALTH_CONNECTIONS_MAX, HEALTH_TIMEOUT};
use super::stored::StoredEnvelopes;

/// The programs with a health endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthOf {
    /// Of the agent.
    Metron,
    /// Of the router and the traffic controller, which had the same port.
    Doppler,
    /// Of the reverse log proxy.
    ReverseLogProxy,
    /// Of the scheduler and the adapters of drains, which had the same port.
    Drains,
}

impl HealthOf {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Metron, Self::Doppler, Self::ReverseLogProxy, Self::Drains];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metron => "metron",
            Self::Doppler => "doppler",
            Self::ReverseLogProxy => "reverse_log_proxy",
            Self::Drains => "drains",
        }
    }
}

/// The address for the health of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthSettings {
    /// The program.
    pub of: HealthOf,
    /// The address to listen on.
    pub listen: SocketAddr,
}

/// What all ports share.
#[derive(Debug)]
pub(super) struct HealthState {
    pub(super) view: watch::Sender<Option<Arc<PipelineView>>>,
    pub(super) stored: Arc<StoredEnvelopes>,
    /// The service that keeps the metrics of containers, if there is one.
    pub(super) containers: Option<Arc<ServiceState>>,
    /// Whether a service reads stored records.
    pub(super) has_stored: bool,
    pub(super) stopped: watch::Receiver<bool>,
}

/// Serves a port until told to stop.
pub(super) async fn serve(state: Arc<HealthState>, of: HealthOf, listener: TcpListener) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a health port cannot be served"),
    };
    let slots = ConnectionSlots::new(HEALTH_CONNECTIONS_MAX);
    let mut stopped = state.stopped.clone();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let slot = slots.take().await;
                connections.spawn(connection(state.clone(), of, stream, slot));
            }
            Err(error) => {
                tracing::warn!(%error, "a health port cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(state: Arc<HealthState>, of: HealthOf, tcp: TcpStream, slot: ConnectionSlot) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        slot.admit();
        let state = state.clone();
        async move { Ok::<_, Infallible>(answer(&state, of, &request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEALTH_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        // A probe sends one request; an open connection would count against others.
        .keep_alive(false)
        .serve_connection(TokioIo::new(tcp), service);
    let ended = tokio::select! {
        ended = timeout(2 * HEALTH_TIMEOUT, serving) => ended,
        () = slot.evicted() => return,
    };
    if let Ok(Err(error)) = ended {
        tracing::debug!(%error, "a health request failed");
    }
}

async fn answer<B>(
    state: &HealthState,
    of: HealthOf,
    request: &Request<B>,
) -> Response<Full<Bytes>> {
    if request.uri().path() != "/health" {
        return response(StatusCode::NOT_FOUND, "text/plain", "404 page not found\n".to_owned());
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let text = "405 method not allowed\n".to_owned();
        return response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", text);
    }
    let view = state.view.borrow().clone();
    let Some(view) = view else {
        let text = "weir is starting\n".to_owned();
        return response(StatusCode::SERVICE_UNAVAILABLE, "text/plain", text);
    };
    let gauges = match of {
        HealthOf::Metron => metron(&view),
        HealthOf::Doppler => doppler(state, &view).await,
        HealthOf::ReverseLogProxy => {
            let proxy = view.readers(&[ReaderService::Egress, ReaderService::Gateway]);
            vec![(
                "loggregator_reverseLogProxy_subscriptionCount",
                "Number of open subscriptions",
                proxy.readers,
            )]
        }
        HealthOf::Drains => {
            return response(StatusCode::OK, "application/json", drains(&view));
        }
    };
    response(StatusCode::OK, "text/plain; version=0.0.4", page(&gauges))
}

/// Name, meaning and value.
type Gauge = (&'static str, &'static str, u64);

fn metron(view: &PipelineView) -> Vec<Gauge> {
    let routers = view.routers();
    vec![
        ("loggregator_metron_dopplerConnections", "Number of connected routers", routers),
        ("loggregator_metron_dopplerV1Streams", "Number of v1 streams to routers", 0),
        ("loggregator_metron_dopplerV2Streams", "Number of v2 streams to routers", routers),
    ]
}

async fn doppler(state: &HealthState, view: &PipelineView) -> Vec<Gauge> {
    let all = view.readers(&[
        ReaderService::Egress,
        ReaderService::Gateway,
        ReaderService::TrafficController,
    ]);
    let v1 = view.readers(&[ReaderService::TrafficController]);
    let containers = state.containers.as_ref();
    let containers = containers.map_or(0, |service| service.containers().count(Instant::now()));
    let mut stored = 0;
    if state.has_stored
        && let Ok(sources) = state.stored.sources().await
    {
        stored = sources.spans.len() as u64;
    }
    vec![
        (
            "loggregator_doppler_containerMetricCacheCount",
            "Number of containers with metrics",
            containers,
        ),
        (
            "loggregator_doppler_ingressStreamCount",
            "Number of open connections of senders",
            view.ingress_streams(),
        ),
        (
            "loggregator_doppler_recentLogCacheCount",
            "Number of sources with stored envelopes",
            stored,
        ),
        ("loggregator_doppler_subscriptionCount", "Number of open subscriptions", all.readers),
        (
            "loggregator_trafficcontroller_appStreamCount",
            "Number of open streams of applications",
            v1.readers.saturating_sub(v1.firehoses),
        ),
        (
            "loggregator_trafficcontroller_firehoseStreamCount",
            "Number of open firehoses",
            v1.firehoses,
        ),
        (
            "loggregator_trafficcontroller_slowConsumerCount",
            "Number of streams that were ended because their clients were too slow",
            v1.cut,
        ),
    ]
}

/// The health of the scheduler and an adapter of drains.
pub(super) fn drains(view: &PipelineView) -> String {
    let drains = view.drain_counts().unwrap_or_default();
    let adapters = u64::from(view.drain_counts().is_some());
    let (count, refused) = (drains.drains, drains.refused_drains);
    format!(
        "{{\"adapterCount\":{adapters},\"drainCount\":{count},\
         \"blacklistedOrInvalidUrlCount\":{refused}}}\n"
    )
}

fn page(gauges: &[Gauge]) -> String {
    let mut text = String::new();
    for (name, help, value) in gauges {
        let _infallible =
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
    text
}

fn response(code: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
