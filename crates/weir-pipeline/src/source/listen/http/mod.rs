//! HTTP on accepted connections: requests, their bodies, and answers.
//!
//! Modules: `connection` (one connection and its limits), `body` and `budget` (receiving bodies),
//! `answer` (responses).

mod answer;
mod body;
mod budget;
mod connection;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::EXPECT;
use hyper::http::request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use weir_host::{Clock, ConnectionSlot};

pub(in crate::source) use answer::{Answer, retry_after_seconds};
pub(in crate::source) use body::{Body, BodyError};
pub(in crate::source) use budget::{Budget, Charge};

use super::accept::Connection;
use super::cpu::CpuTime;
use super::lanes::{AcknowledgedLanes, LaneContext};
use super::limiter::Limiter;
use super::limits::BODY_BYTES_MAX;
use crate::source::datadog_intake::Intake;
use crate::stats::{SourceStats, add};

/// The meaning of requests: one variant per protocol.
pub(super) enum Protocol {
    /// Datadog's logs intake.
    DatadogIntake(Intake),
}

impl Protocol {
    async fn respond(&self, context: &RequestContext, request: Request) -> Answer {
        match self {
            Self::DatadogIntake(intake) => intake.respond(context, request).await,
        }
    }
}

/// A request, and the lane of its connection.
pub(in crate::source) struct Request {
    pub(in crate::source) head: request::Parts,
    /// `None` once it was read or discarded.
    body: Option<Incoming>,
    pub(in crate::source) lane: usize,
    /// The address of the client.
    pub(in crate::source) peer: Option<IpAddr>,
    slot: ConnectionSlot,
}

impl Request {
    /// The client is authenticated, or authentication is not required.
    pub(in crate::source) fn admit(&self) {
        self.slot.admit();
    }

    /// Discards an unwanted body while the client receives the response. A client that expects
    /// `100 Continue` has not sent it.
    pub(in crate::source) fn discard_body(&mut self) {
        let is_asked_for = self.head.headers.contains_key(EXPECT);
        if let Some(body) = self.body.take().filter(|_| !is_asked_for) {
            tokio::task::spawn_local(body::discard(body, BODY_BYTES_MAX));
        }
    }
}

/// Dependencies for answering requests.
pub(in crate::source) struct RequestContext {
    pub(in crate::source) lanes: Rc<AcknowledgedLanes>,
    pub(in crate::source) clock: Arc<dyn Clock>,
    pub(in crate::source) limiter: Option<Rc<Limiter>>,
    budget: Budget,
}

impl RequestContext {
    /// Reads the body of a request, of at most `max` bytes. The rest of a body that is too large,
    /// or for which there is no memory, is discarded.
    pub(in crate::source) async fn body(
        &self,
        request: &mut Request,
        max: usize,
    ) -> Result<Body, BodyError> {
        let Some(body) = &mut request.body else { return Err(BodyError::Broken) };
        let receiving = request.slot.receiving();
        let read = body::read(body, max, Charge::new(&self.budget)).await;
        drop(receiving);
        if matches!(read, Err(BodyError::TooLarge | BodyError::NoRoom)) {
            request.discard_body();
        }
        read
    }
}

/// Answers the requests of all connections of a listener.
pub(super) struct HttpService {
    context: RequestContext,
    protocol: Protocol,
    stats: Arc<SourceStats>,
    cpu_time: CpuTime,
}

impl HttpService {
    /// Creates a service whose bodies being received occupy at most `in_flight_bytes_max`.
    pub(super) fn new(
        protocol: Protocol,
        lanes: Rc<AcknowledgedLanes>,
        context: LaneContext,
        limiter: Option<Rc<Limiter>>,
        in_flight_bytes_max: usize,
    ) -> Rc<Self> {
        let LaneContext { clock, stats, .. } = context;
        let budget = Budget::new(in_flight_bytes_max, stats.clone());
        let context = RequestContext { lanes, clock, limiter, budget };
        Rc::new(Self { context, protocol, stats, cpu_time: CpuTime::default() })
    }

    pub(super) fn stats(&self) -> &Arc<SourceStats> {
        &self.stats
    }

    /// Notifies waiting requests that the journal has room.
    pub(super) fn wake(&self) {
        self.context.lanes.wake();
    }

    /// Reports records above the rate limit, if there is one; never returns.
    pub(super) async fn run(&self) {
        match &self.context.limiter {
            Some(limiter) => limiter.run_acknowledged(&self.context.lanes).await,
            None => std::future::pending().await,
        }
    }

    /// Completes the work of the service, after all connections have ended.
    pub(super) fn finish(&self) {
        if let Some(limiter) = &self.context.limiter {
            limiter.publish();
        }
        self.cpu_time.publish_now(&self.stats);
    }

    /// Answers the requests of a connection until it ends.
    pub(super) async fn serve(
        self: &Rc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        connection: &Rc<Connection>,
        stopped: watch::Receiver<bool>,
    ) {
        connection::serve(stream, self, connection, stopped).await;
    }

    /// Answers a request and counts it.
    async fn answer(&self, connection: &Connection, request: hyper::Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let begun = self.context.clock.monotonic();
        let _working = connection.slot.working();
        let request = Request {
            head,
            body: Some(body),
            lane: connection.number,
            peer: connection.peer,
            slot: connection.slot.clone(),
        };
        let answer = self.protocol.respond(&self.context, request).await;
        let took = self.context.clock.monotonic().saturating_sub(begun);
        let listener = &self.stats.listener;
        listener.count(answer.status.as_u16());
        add(&listener.service_ns, took.as_nanos() as u64);
        self.cpu_time.publish(&*self.context.clock, &self.stats);
        answer
    }
}
