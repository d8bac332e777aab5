//! `GET /v2/read`: envelopes as server-sent events.
//!
//! Invariants: events, errors and their headers are those of the original; an error after the
//! headers ends the stream.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};
use weir_codec::{LoggregatorBatch, write_loggregator_json};
use weir_host::Clock;
use weir_pipeline::live::{EnvelopeChunk, EnvelopeStream, ReaderClient, ReaderService};

use super::ServiceState;
use super::body::{self, ServiceBody, Step};
use super::limits::HEARTBEAT;
use super::query::{self, QueryError};
use crate::access::tokens::Denied;

/// An error of the original: status, name, text.
struct Problem(StatusCode, &'static str, &'static str);

impl Problem {
    const EMPTY: Self = Self(StatusCode::BAD_REQUEST, "empty_query", "query cannot be empty");
    const NO_TYPE: Self = Self(
        StatusCode::BAD_REQUEST,
        "missing_envelope_type",
        "query must provide at least one envelope type",
    );
    const METHOD: Self =
        Self(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "method not allowed");
    const NOT_FOUND: Self = Self(StatusCode::NOT_FOUND, "not_found", "resource not found");
    const UNAVAILABLE: Self = Self(
        StatusCode::SERVICE_UNAVAILABLE,
        "streaming_unavailable",
        "streaming is temporarily unavailable",
    );

    fn response(&self) -> Response<ServiceBody> {
        let Self(status, name, text) = self;
        error(*status, format!("{{\"message\":\"{text}\",\"error\":\"{name}\"}}\n\n"))
    }
}

fn error(status: StatusCode, text: String) -> Response<ServiceBody> {
    let mut response = Response::new(ServiceBody::Whole(Some(text.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Answers a request.
pub(super) async fn answer<B>(
    state: &ServiceState,
    request: Request<B>,
    peer: SocketAddr,
) -> Response<ServiceBody> {
    // The body is not needed, and would have to be shared between threads.
    let (head, _) = request.into_parts();
    if head.uri.path() != "/v2/read" {
        return error(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
    }
    let opened = match allowed(state, &head).await {
        Ok(()) => open(state, &head, peer),
        Err(problem) => Err(problem),
    };
    let stream = match opened {
        Ok(stream) => stream,
        Err(problem) => {
            state.refuse(problem.2);
            return problem.response();
        }
    };
    let mut response = Response::new(ServiceBody::stream(stream));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if head.version < Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    }
    response
}

/// Checks access to the requested sources. As in the original, this is the first check, and a
/// request without access is answered with 404.
async fn allowed(state: &ServiceState, head: &Parts) -> Result<(), Problem> {
    let Some(access) = &state.access else { return Ok(()) };
    let asked = query::parse(head.uri.query().unwrap_or_default()).ok();
    let selectors = asked.iter().flat_map(|asked| &asked.selectors);
    let mut sources: Vec<&str> = selectors.map(|selector| selector.source_id.as_str()).collect();
    sources.dedup();
    // A selector without a source selects everything.
    let sources = if sources.contains(&"") { &[] } else { &*sources };
    match access.check(&head.headers, sources).await {
        Ok(()) => Ok(()),
        Err(Denied::Unknown | Denied::Forbidden) => Err(Problem::NOT_FOUND),
        Err(Denied::Unavailable(reason)) => {
            tracing::warn!(reason, "access could not be checked");
            Err(Problem::UNAVAILABLE)
        }
    }
}

fn open(state: &ServiceState, head: &Parts, peer: SocketAddr) -> Result<Events, Problem> {
    if head.method != Method::GET {
        return Err(Problem::METHOD);
    }
    let asked = query::parse(head.uri.query().unwrap_or_default());
    let asked = asked.map_err(|error| match error {
        QueryError::Empty => Problem::EMPTY,
        QueryError::NoType => Problem::NO_TYPE,
    })?;
    let permit = state.streams.clone().try_acquire_owned().map_err(|_| Problem::UNAVAILABLE)?;
    let view = state.view().ok_or(Problem::UNAVAILABLE)?;
    let client = ReaderClient { service: ReaderService::Gateway, peer };
    let envelopes = EnvelopeStream::new(&view, client, &asked);
    let envelopes = envelopes.map_err(|_| Problem::UNAVAILABLE)?;
    let now = Instant::now();
    Ok(Events {
        envelopes: Some(envelopes),
        heartbeat: now + HEARTBEAT,
        end: now + state.settings.stream_timeout,
        clock: state.clock.clone(),
        stopped: state.stopped.clone(),
        _permit: permit,
    })
}

/// The events of one stream.
struct Events {
    /// `None` after the last event.
    envelopes: Option<EnvelopeStream>,
    heartbeat: Instant,
    end: Instant,
    clock: Arc<dyn Clock>,
    stopped: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

/// The next event of a stream.
enum Event {
    Envelopes(EnvelopeChunk),
    Heartbeat,
    Closing,
}

impl Events {
    async fn part(mut self: Box<Self>) -> Option<(Frame<Bytes>, Box<dyn body::Parts>)> {
        let envelopes = self.envelopes.as_mut()?;
        let event = tokio::select! {
            biased;
            () = sleep_until(self.end) => Event::Closing,
            chunk = envelopes.next() => Event::Envelopes(chunk?),
            () = sleep_until(self.heartbeat) => Event::Heartbeat,
            _ = self.stopped.wait_for(|stopped| *stopped) => return None,
        };
        let text = match event {
            Event::Envelopes(chunk) => data(&chunk),
            Event::Heartbeat => {
                let now = self.clock.unix_ns() / 1_000_000_000;
                format!("event: heartbeat\ndata: {now}\n\n").into_bytes()
            }
            Event::Closing => {
                self.envelopes = None;
                b"event: closing\ndata: closing due to stream timeout\n\n".to_vec()
            }
        };
        self.heartbeat = Instant::now() + HEARTBEAT;
        Some((Frame::data(text.into()), self))
    }
}

impl body::Parts for Events {
    fn next(self: Box<Self>) -> Step {
        Box::pin(self.part())
    }
}

/// The event of a batch.
fn data(chunk: &EnvelopeChunk) -> Vec<u8> {
    let mut text = Vec::with_capacity(2 * chunk.batch().len() + 64);
    text.extend_from_slice(b"data: {\"batch\":[");
    let before = text.len();
    for envelope in LoggregatorBatch::new(chunk.batch()).flatten() {
        let end = text.len();
        if end > before {
            text.push(b',');
        }
        if write_loggregator_json(envelope, &mut text).is_err() {
            text.truncate(end);
        }
    }
    text.extend_from_slice(b"]}\n\n");
    text
}
