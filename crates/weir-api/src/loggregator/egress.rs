//! `loggregator.v2.Egress` over gRPC: `Receiver` and `BatchedReceiver`.
//!
//! Invariants: a request that is not valid is answered as by the original; a stream ends only with a
//! status: the client's, or that weir is stopping.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame};
use hyper::header::HeaderMap;
use hyper::http::request::Parts as Head;
use hyper::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};
use weir_codec::{
    GrpcError, GrpcFraming, GrpcStatus, GrpcStep, LoggregatorBatch, LoggregatorRequest,
    write_grpc_message,
};
use weir_pipeline::grpc::{self, Refused, Status};
use weir_pipeline::live::{EnvelopeChunk, EnvelopeStream, Face};

use super::FaceState;
use super::body::{FaceBody, Parts, Step};
use super::limits::{REFUSAL_PAUSE, REQUEST_BYTES_MAX, REQUEST_TIMEOUT};

const SERVICE: &str = "loggregator.v2.Egress";

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A stream of envelopes.
    Receiver,
    /// A stream of batches.
    BatchedReceiver,
}

fn stopping() -> Status {
    Status::new(GrpcStatus::Unavailable, "the server is stopping")
}

impl Call {
    fn of(head: &Head) -> Result<Self, Refused> {
        match grpc::method(head, SERVICE)? {
            "Receiver" => Ok(Self::Receiver),
            "BatchedReceiver" => Ok(Self::BatchedReceiver),
            other => Err(Status::unknown_method(SERVICE, other).into()),
        }
    }
}

/// Answers a request.
pub(super) async fn answer<B: Body>(state: &FaceState, request: Request<B>) -> Response<FaceBody>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let mut response = Response::new(FaceBody::empty());
    match open(state, &head, body).await {
        Ok(stream) => {
            *response.body_mut() = FaceBody::stream(stream);
            grpc::add_headers(response.headers_mut());
        }
        Err(Refused::Http(code)) => *response.status_mut() = code,
        Err(Refused::Status(status)) => {
            state.refuse(&status.message);
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

/// Opens the stream that a request asks for.
async fn open<B: Body>(state: &FaceState, head: &Head, body: B) -> Result<EgressStream, Refused>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let call = Call::of(head)?;
    let request = read_request(body).await?;
    if request.selectors.is_empty() {
        let text = "Selectors cannot be empty";
        return Err(Status::new(GrpcStatus::InvalidArgument, text).into());
    }
    if request.selectors.iter().any(|selector| selector.message.is_none()) {
        let text = "Selectors must have a Message";
        return Err(Status::new(GrpcStatus::InvalidArgument, text).into());
    }
    let Ok(permit) = state.streams.clone().try_acquire_owned() else {
        let max = state.settings.streams_max;
        let text = format!("unable to create stream, max egress streams reached: {max}");
        return Err(Status::new(GrpcStatus::ResourceExhausted, text).into());
    };
    let starting = || Status::new(GrpcStatus::Unavailable, "the server is starting");
    let view = state.view().ok_or_else(starting)?;
    let envelopes = EnvelopeStream::new(&view, Face::Egress, &request)
        .map_err(|error| Status::new(GrpcStatus::Unavailable, error.to_string()))?;
    let stopped = state.stopped.clone();
    Ok(EgressStream { call, envelopes: Some(envelopes), stopped, _permit: permit })
}

/// Reads the one message of a request.
async fn read_request<B: Body>(body: B) -> Result<LoggregatorRequest, Status>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collecting = Limited::new(body, REQUEST_BYTES_MAX).collect();
    let bytes = match timeout(REQUEST_TIMEOUT, collecting).await {
        Err(_) => {
            let text = "the request was not complete in time";
            return Err(Status::new(GrpcStatus::DeadlineExceeded, text));
        }
        Ok(Err(error)) => {
            let text = format!("grpc: the request cannot be received: {error}");
            return Err(Status::new(GrpcStatus::ResourceExhausted, text));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    let mut framing = GrpcFraming::new(REQUEST_BYTES_MAX);
    let message = match framing.next(&mut &bytes[..]) {
        Ok(GrpcStep::Message(message)) => message,
        Ok(GrpcStep::NeedMore { .. }) => {
            return Err(Status::new(GrpcStatus::Internal, "the call has no message"));
        }
        Err(error) => {
            let status = match error {
                GrpcError::TooLong { .. } => GrpcStatus::ResourceExhausted,
                GrpcError::Compressed => GrpcStatus::Unimplemented,
            };
            return Err(Status::new(status, format!("grpc: {error}")));
        }
    };
    LoggregatorRequest::parse(message).map_err(|error| {
        let text = format!("grpc: error unmarshalling request: {error}");
        Status::new(GrpcStatus::Internal, text)
    })
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
            (Some(chunk), Call::BatchedReceiver) => Frame::data(chunk.into_message().into()),
            (Some(chunk), Call::Receiver) => Frame::data(one_by_one(&chunk).into()),
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
