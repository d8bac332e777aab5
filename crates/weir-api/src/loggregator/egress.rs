//! `loggregator.v2.Egress` over gRPC: `Receiver` and `BatchedReceiver`; and `plumbing.Doppler` with
//! v1 envelopes: `Subscribe` and `BatchSubscribe`.
//!
//! Invariants: an invalid request gets the response of the original; a stream always ends with a
//! status, unless the client closes it.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame};
use hyper::header::HeaderMap;
use hyper::http::request::Parts as Head;
use hyper::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};
use weir_codec::{
    DropsondeRequest, GrpcError, GrpcFraming, GrpcStatus, GrpcStep, LoggregatorBatch,
    LoggregatorRequest, add_to_loggregator_batch, write_grpc_message,
};
use weir_pipeline::grpc::{self, Refused, Status};
use weir_pipeline::live::{EnvelopeChunk, EnvelopeStream, ReaderClient, ReaderService};

use super::ServiceState;
use super::body::{Parts, ServiceBody, Step};
use super::limits::{REFUSAL_PAUSE, REQUEST_BYTES_MAX, REQUEST_TIMEOUT, SELECTORS_MAX};

const SERVICE: &str = "loggregator.v2.Egress";

/// The service for envelopes of version 1.
const SERVICE_V1: &str = "plumbing.Doppler";

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A stream of envelopes.
    Receiver,
    /// A stream of batches.
    BatchedReceiver,
    /// A stream of envelopes of version 1.
    Subscribe,
    /// A stream of batches of them.
    BatchSubscribe,
}

fn stopping() -> Status {
    Status::new(GrpcStatus::Unavailable, "the server is stopping")
}

impl Call {
    fn of(head: &Head) -> Result<Self, Refused> {
        match grpc::method(head, &[SERVICE, SERVICE_V1])? {
            (SERVICE, "Receiver") => Ok(Self::Receiver),
            (SERVICE, "BatchedReceiver") => Ok(Self::BatchedReceiver),
            (SERVICE_V1, "Subscribe") => Ok(Self::Subscribe),
            (SERVICE_V1, "BatchSubscribe") => Ok(Self::BatchSubscribe),
            (service, other) => Err(Status::unknown_method(service, other).into()),
        }
    }
}

/// Answers a request.
pub(super) async fn answer<B: Body>(
    state: &ServiceState,
    request: Request<B>,
    peer: SocketAddr,
) -> Response<ServiceBody>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let mut response = Response::new(ServiceBody::empty());
    match open(state, &head, body, peer).await {
        Ok(stream) => {
            *response.body_mut() = ServiceBody::stream(stream);
            grpc::add_headers(response.headers_mut());
        }
        Err(Refused::Http(code)) => *response.status_mut() = code,
        Err(Refused::Status(status)) => {
            state.refuse(&status.message);
            if grpc::is_from_sender(&head) {
                state.warn_of_sender(peer);
            }
            let mut stopped = state.stopped.clone();
            tokio::select! {
                () = sleep(REFUSAL_PAUSE) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
            grpc::add_headers(response.headers_mut());
            status.write(response.headers_mut());
        }
    }
    response
}

/// Opens the requested stream.
async fn open<B: Body>(
    state: &ServiceState,
    head: &Head,
    body: B,
    peer: SocketAddr,
) -> Result<EgressStream, Refused>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let call = Call::of(head)?;
    let message = read_message(body, REQUEST_BYTES_MAX).await?;
    let request = match call {
        Call::Receiver | Call::BatchedReceiver => EnvelopeRequest::V2(parse_request(&message)?),
        Call::Subscribe | Call::BatchSubscribe => EnvelopeRequest::V1(
            DropsondeRequest::parse(&message).map_err(|error| Status::unreadable(&error))?,
        ),
    };
    let Ok(permit) = state.streams.clone().try_acquire_owned() else {
        let max = state.settings.streams_max;
        let text = format!("unable to create stream, max egress streams reached: {max}");
        return Err(Status::new(GrpcStatus::ResourceExhausted, text).into());
    };
    let starting = || Status::new(GrpcStatus::Unavailable, "the server is starting");
    let view = state.view().ok_or_else(starting)?;
    let client = ReaderClient { service: ReaderService::Egress, peer };
    let envelopes = match request {
        EnvelopeRequest::V2(request) => EnvelopeStream::new(&view, client, &request),
        EnvelopeRequest::V1(request) => EnvelopeStream::of_v1(&view, client, request),
    };
    let envelopes =
        envelopes.map_err(|error| Status::new(GrpcStatus::Unavailable, error.to_string()))?;
    let stopped = state.stopped.clone();
    Ok(EgressStream { call, envelopes: Some(envelopes), stopped, _permit: permit })
}

/// A request for envelopes, by version.
enum EnvelopeRequest {
    V2(LoggregatorRequest),
    V1(DropsondeRequest),
}

/// Reads a request for envelopes of version 2.
fn parse_request(message: &[u8]) -> Result<LoggregatorRequest, Status> {
    let request = LoggregatorRequest::parse(message).map_err(|error| Status::unreadable(&error))?;
    if request.selectors.is_empty() {
        let text = "Selectors cannot be empty";
        return Err(Status::new(GrpcStatus::InvalidArgument, text));
    }
    if request.selectors.iter().any(|selector| selector.message.is_none()) {
        let text = "Selectors must have a Message";
        return Err(Status::new(GrpcStatus::InvalidArgument, text));
    }
    if request.selectors.len() > SELECTORS_MAX {
        let text = format!("a stream can have at most {SELECTORS_MAX} selectors");
        return Err(Status::new(GrpcStatus::InvalidArgument, text));
    }
    Ok(request)
}

/// Reads the one message of a call, of at most `bytes_max` with its prefix.
pub(super) async fn read_message<B: Body>(body: B, bytes_max: usize) -> Result<Bytes, Status>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collecting = Limited::new(body, bytes_max).collect();
    let bytes = match timeout(REQUEST_TIMEOUT, collecting).await {
        Err(_) => {
            let text = "the request was not received in time";
            return Err(Status::new(GrpcStatus::DeadlineExceeded, text));
        }
        Ok(Err(error)) => {
            let text = format!("grpc: the request could not be received: {error}");
            return Err(Status::new(GrpcStatus::ResourceExhausted, text));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    let mut framing = GrpcFraming::new(bytes_max);
    match framing.next(&mut &bytes[..]) {
        Ok(GrpcStep::Message(message)) => Ok(bytes.slice_ref(message)),
        Ok(GrpcStep::NeedMore { .. }) => {
            Err(Status::new(GrpcStatus::Internal, "the call has no message"))
        }
        Err(error) => {
            let status = match error {
                GrpcError::TooLong { .. } => GrpcStatus::ResourceExhausted,
                GrpcError::Compressed => GrpcStatus::Unimplemented,
            };
            Err(Status::new(status, format!("grpc: {error}")))
        }
    }
}

/// The envelopes of one call.
struct EgressStream {
    call: Call,
    /// `None` after the status.
    envelopes: Option<EnvelopeStream>,
    stopped: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl EgressStream {
    async fn part(mut self: Box<Self>) -> Option<(Frame<Bytes>, Box<dyn Parts>)> {
        let envelopes = self.envelopes.as_mut()?;
        let chunk = tokio::select! {
            biased;
            chunk = envelopes.next() => chunk,
            _ = self.stopped.wait_for(|stopped| *stopped) => None,
        };
        let frame = match (chunk, self.call) {
            (Some(chunk), Call::BatchedReceiver | Call::BatchSubscribe) => {
                Frame::data(chunk.into_message().into())
            }
            (Some(chunk), Call::Receiver) => Frame::data(one_by_one(&chunk).into()),
            (Some(chunk), Call::Subscribe) => Frame::data(one_by_one_in_v1(&chunk).into()),
            (None, _) => {
                self.envelopes = None;
                let mut trailers = HeaderMap::new();
                stopping().write(&mut trailers);
                Frame::trailers(trailers)
            }
        };
        Some((frame, self))
    }
}

impl Parts for EgressStream {
    fn next(self: Box<Self>) -> Step {
        Box::pin(self.part())
    }
}

/// The envelopes of a batch as a message each.
fn one_by_one(chunk: &EnvelopeChunk) -> Vec<u8> {
    let mut messages = Vec::with_capacity(chunk.batch().len() + 8 * chunk.envelopes());
    for envelope in LoggregatorBatch::new(chunk.batch()).flatten() {
        write_grpc_message(envelope, &mut messages);
    }
    messages
}

/// The envelopes of a batch of version 1 as a message each: a batch of one.
fn one_by_one_in_v1(chunk: &EnvelopeChunk) -> Vec<u8> {
    let mut messages = Vec::with_capacity(chunk.batch().len() + 16 * chunk.envelopes());
    let mut message = Vec::new();
    for envelope in LoggregatorBatch::new(chunk.batch()).flatten() {
        message.clear();
        add_to_loggregator_batch(envelope, &mut message);
        write_grpc_message(&message, &mut messages);
    }
    messages
}
