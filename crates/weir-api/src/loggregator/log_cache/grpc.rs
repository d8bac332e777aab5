//! `logcache.v1.Egress` over gRPC: `Read` and `Meta`; and `logcache.v1.PromQLQuerier`:
//! `InstantQuery` and `RangeQuery`.
//!
//! Invariant: a call has one request and one response, or a status.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Request, Response};
use weir_codec::{
    GrpcStatus, LogCacheRead, PromqlInstant, PromqlRange, encode_log_cache_meta,
    encode_log_cache_read, write_grpc_message,
};
use weir_pipeline::grpc::{self, Refused, Status};

use super::super::ServiceState;
use super::super::body::{Parts, ServiceBody, Step};
use super::super::egress::read_message;
use super::super::limits::STORED_REQUEST_BYTES_MAX;
use super::super::stored::ReadError;
use super::promql::{self, QueryError};
use super::{of_answer, read, sources};

const EGRESS: &str = "logcache.v1.Egress";

/// The service for queries over metrics.
const QUERIER: &str = "logcache.v1.PromQLQuerier";

/// The metadata with the reason why a response may be incomplete.
const PARTIAL: &str = "weir-partial";

impl From<ReadError> for Refused {
    fn from(error: ReadError) -> Self {
        Status::new(error.code(), error.to_string()).into()
    }
}

impl From<QueryError> for Refused {
    fn from(error: QueryError) -> Self {
        Status::from(error).into()
    }
}

/// Answers a request.
pub(super) async fn answer<B: Body>(
    state: &ServiceState,
    request: Request<B>,
) -> Response<ServiceBody>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let mut response = Response::new(ServiceBody::empty());
    match call(state, &head, body).await {
        Ok((message, partial)) => {
            let mut bytes = Vec::with_capacity(message.len() + 8);
            write_grpc_message(&message, &mut bytes);
            *response.body_mut() = ServiceBody::stream(Answer(Some(bytes.into())));
            grpc::add_headers(response.headers_mut());
            if let Some(reason) = partial {
                response.headers_mut().insert(PARTIAL, HeaderValue::from_static(reason));
            }
        }
        Err(Refused::Http(code)) => *response.status_mut() = code,
        Err(Refused::Status(status)) => {
            state.refuse(&status.message);
            grpc::add_headers(response.headers_mut());
            status.write(response.headers_mut());
        }
    }
    response
}

async fn call<B: Body>(
    state: &ServiceState,
    head: &Head,
    body: B,
) -> Result<(Vec<u8>, Option<&'static str>), Refused>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (service, method) = grpc::method(head, &[EGRESS, QUERIER])?;
    let message = read_message(body, STORED_REQUEST_BYTES_MAX).await?;
    let unreadable = |error| Status::unreadable(&error);
    match (service, method) {
        (EGRESS, "Read") => {
            let asked = LogCacheRead::parse(&message).map_err(unreadable)?;
            let answer = |batch: &super::StoredBatch| encode_log_cache_read(&batch.message());
            Ok(read(state, asked, answer).await?)
        }
        (EGRESS, "Meta") => {
            let sources = sources(state).await?;
            let partial = sources.coverage.is_partial().then_some("true");
            Ok((encode_log_cache_meta(of_answer(&sources, &None)), partial))
        }
        (QUERIER, "InstantQuery") => {
            let asked = PromqlInstant::parse(&message).map_err(unreadable)?;
            Ok((promql::instant_message(state, &asked).await?, None))
        }
        (QUERIER, "RangeQuery") => {
            let asked = PromqlRange::parse(&message).map_err(unreadable)?;
            Ok((promql::range_message(state, &asked).await?, None))
        }
        (service, other) => Err(Status::unknown_method(service, other).into()),
    }
}

/// The message of a response, and its status.
struct Answer(Option<Bytes>);

impl Answer {
    fn part(mut self: Box<Self>) -> (Frame<Bytes>, Box<dyn Parts>) {
        let Some(message) = self.0.take() else {
            let mut trailers = HeaderMap::new();
            Status::new(GrpcStatus::Ok, "").write(&mut trailers);
            return (Frame::trailers(trailers), Box::new(End));
        };
        (Frame::data(message), self)
    }
}

impl Parts for Answer {
    fn next(self: Box<Self>) -> Step {
        Box::pin(async move { Some(self.part()) })
    }
}

/// Nothing more.
struct End;

impl Parts for End {
    fn next(self: Box<Self>) -> Step {
        Box::pin(async { None })
    }
}
