//! Access control of the log-cache.
//!
//! Invariants: a request without access is answered with 404; the list of sources has only those
//! that the owner of the token may read; calls over gRPC are restricted to operators.

use std::sync::Arc;

use hyper::http::request::Parts as Head;
use hyper::{Response, StatusCode};
use weir_codec::GrpcStatus;
use weir_pipeline::grpc::{self, Status};

use super::super::ServiceState;
use super::super::body::ServiceBody;
use super::{promql, request};
use crate::access::tokens::Denied;

/// The sources that may be listed; `None`: all.
pub(super) type Listed = Option<Arc<[String]>>;

/// Checks access to the requested sources; an error is the response.
pub(super) async fn check(
    state: &ServiceState,
    head: &Head,
    is_grpc: bool,
) -> Result<Listed, Response<ServiceBody>> {
    let path = head.uri.path();
    // Clients that have not logged in yet ask which release this is.
    let Some(access) = state.access.as_ref().filter(|_| path != "/api/v1/info") else {
        return Ok(None);
    };
    // As in the original, a request that needs a token must name a source.
    if !is_grpc && ["/api/v1/read", "/api/v1/read/"].contains(&path) {
        return Err(in_http(&Denied::Forbidden));
    }
    let sources = if is_grpc { Vec::new() } else { sources(path, head.uri.query()) };
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let checked = if !is_grpc && path == "/api/v1/meta" {
        access.readable(&head.headers).await
    } else {
        access.check(&head.headers, &sources).await.map(|()| None)
    };
    checked.map_err(|denied| {
        state.refuse(&denied.to_string());
        if is_grpc { in_grpc(&denied) } else { in_http(&denied) }
    })
}

/// The sources that a request names; empty if it requests all.
fn sources(path: &str, query: Option<&str>) -> Vec<String> {
    let query = query.unwrap_or_default();
    match path.strip_prefix("/api/v1/") {
        Some("query" | "query_range") => promql::sources(query),
        Some(path) => match path.strip_prefix("read/").map(|source| request::read(source, "")) {
            Some(Ok(read)) => vec![read.source_id],
            Some(Err(_)) | None => Vec::new(),
        },
        None => Vec::new(),
    }
}

fn in_http(denied: &Denied) -> Response<ServiceBody> {
    let mut response = Response::new(ServiceBody::empty());
    *response.status_mut() = match denied {
        Denied::Unknown | Denied::Forbidden => StatusCode::NOT_FOUND,
        Denied::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    response
}

fn in_grpc(denied: &Denied) -> Response<ServiceBody> {
    let code = match denied {
        Denied::Unknown | Denied::Forbidden => GrpcStatus::Unauthenticated,
        Denied::Unavailable(_) => GrpcStatus::Unavailable,
    };
    let mut response = Response::new(ServiceBody::empty());
    grpc::add_headers(response.headers_mut());
    Status::new(code, denied.to_string()).write(response.headers_mut());
    response
}
