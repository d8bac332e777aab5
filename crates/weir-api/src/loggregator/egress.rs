//! `loggregator.v2.Egress` over gRPC: `Receiver` and `BatchedReceiver`.
//!
//! Invariants: a request that is not valid is answered as by the original; a stream ends only with a
//! status: the client's, or that weir is stopping.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};
use weir_codec::{
    GrpcError, GrpcFraming, GrpcStatus, GrpcStep, LoggregatorBatch, LoggregatorRequest,
    write_grpc_message,
};
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

/// How a call ends.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    status: GrpcStatus,
    message: String,
}

impl Ended {
    fn new(status: GrpcStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn stopping() -> Self {
        Self::new(GrpcStatus::Unavailable, "the server is stopping")
    }

    fn write(&self, headers: &mut HeaderMap) {
        headers.insert("grpc-status", HeaderValue::from(self.status as u16));
        if let Ok(message) = HeaderValue::from_str(&GrpcStatus::percent_encoded(&self.message)) {
            headers.insert("grpc-message", message);
        }
    }
}

/// Why a request is not served.
enum Refused {
    /// It is not gRPC.
    Http(StatusCode),
    /// It cannot be served.
    Ended(Ended),
}

impl From<Ended> for Refused {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

impl Call {
    fn of(head: &Head) -> Result<Self, Refused> {
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        if head.method != Method::POST {
            return Err(Refused::Http(StatusCode::METHOD_NOT_ALLOWED));
        }
        if !header("content-type").is_some_and(|kind| kind.starts_with("application/grpc")) {
            return Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let unimplemented = |text| Err(Ended::new(GrpcStatus::Unimplemented, text).into());
        let path = head.uri.path();
        let (service, method) =
            path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).unwrap_or((path, ""));
        if service != SERVICE {
            return unimplemented(format!("unknown service {service}"));
        }
        match method {
            "Receiver" => Ok(Self::Receiver),
            "BatchedReceiver" => Ok(Self::BatchedReceiver),
            _ => unimplemented(format!("unknown method {method} for service {service}")),
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
            grpc_headers(response.headers_mut());
        }
        Err(Refused::Http(status)) => *response.status_mut() = status,
        Err(Refused::Ended(ended)) => {
            state.refuse(&ended.message);
            let mut stopped = state.stopped.clone();
            tokio::select! {
                () = sleep(REFUSAL_PAUSE) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
            grpc_headers(response.headers_mut());
            ended.write(response.headers_mut());
        }
    }
    response
}

fn grpc_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
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
        return Err(Ended::new(GrpcStatus::InvalidArgument, text).into());
    }
    if request.selectors.iter().any(|selector| selector.message.is_none()) {
        let text = "Selectors must have a Message";
        return Err(Ended::new(GrpcStatus::InvalidArgument, text).into());
    }
    let Ok(permit) = state.streams.clone().try_acquire_owned() else {
        let max = state.settings.streams_max;
        let text = format!("unable to create stream, max egress streams reached: {max}");
        return Err(Ended::new(GrpcStatus::ResourceExhausted, text).into());
    };
    let starting = || Ended::new(GrpcStatus::Unavailable, "the server is starting");
    let view = state.view().ok_or_else(starting)?;
    let envelopes = EnvelopeStream::new(&view, Face::Egress, &request)
        .map_err(|error| Ended::new(GrpcStatus::Unavailable, error.to_string()))?;
    let stopped = state.stopped.clone();
    Ok(EgressStream { call, envelopes: Some(envelopes), stopped, _permit: permit })
}

/// Reads the one message of a request.
async fn read_request<B: Body>(body: B) -> Result<LoggregatorRequest, Ended>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collecting = Limited::new(body, REQUEST_BYTES_MAX).collect();
    let bytes = match timeout(REQUEST_TIMEOUT, collecting).await {
        Err(_) => {
            let text = "the request was not complete in time";
            return Err(Ended::new(GrpcStatus::DeadlineExceeded, text));
        }
        Ok(Err(error)) => {
            let text = format!("grpc: the request cannot be received: {error}");
            return Err(Ended::new(GrpcStatus::ResourceExhausted, text));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    let mut framing = GrpcFraming::new(REQUEST_BYTES_MAX);
    let message = match framing.next(&mut &bytes[..]) {
        Ok(GrpcStep::Message(message)) => message,
        Ok(GrpcStep::NeedMore { .. }) => {
            return Err(Ended::new(GrpcStatus::Internal, "the call has no message"));
        }
        Err(error) => {
            let status = match error {
                GrpcError::TooLong { .. } => GrpcStatus::ResourceExhausted,
                GrpcError::Compressed => GrpcStatus::Unimplemented,
            };
            return Err(Ended::new(status, format!("grpc: {error}")));
        }
    };
    LoggregatorRequest::parse(message).map_err(|error| {
        let text = format!("grpc: error unmarshalling request: {error}");
        Ended::new(GrpcStatus::Internal, text)
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
                Ended::stopping().write(&mut trailers);
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
