//! The log-cache: stored envelopes of one source, over HTTP (`/api/v1`) and gRPC (`logcache.v1`),
//! and queries over metrics ([`promql`]).
//!
//! One port serves both protocols. Invariants: requests, responses and errors have the format of
//! the original; responses come from the store, so they survive a restart.

mod access;
mod grpc;
mod http;
mod promql;
mod request;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Body;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response};
use tokio::sync::Mutex;
use tokio::time::Instant;
use weir_codec::{LogCacheRead, LogCacheSource};
use weir_pipeline::live::ReaderService;
use weir_store::query::Services;

use super::ServiceState;
use super::body::ServiceBody;
use super::limits::META_AGE_MAX;
use super::stored::{ReadError, StoredBatch, StoredRead};
use access::Listed;

/// The sources when they were last requested.
#[derive(Debug, Default)]
pub(super) struct KnownSources(Mutex<Option<(Instant, Arc<Services>)>>);

/// Answers a request.
pub(super) async fn answer<B: Body>(
    state: &ServiceState,
    request: Request<B>,
) -> Response<ServiceBody>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_grpc = content_type.is_some_and(|kind| kind.starts_with("application/grpc"));
    if state.settings.has_health_of_drains && request.uri().path() == "/health" {
        return http::health(state);
    }
    let (head, body) = request.into_parts();
    let listed = match access::check(state, &head, is_grpc).await {
        Ok(listed) => listed,
        Err(refusal) => return refusal,
    };
    if is_grpc {
        grpc::answer(state, Request::from_parts(head, body)).await
    } else {
        http::answer(state, &Request::from_parts(head, ()), &listed).await
    }
}

/// Reads envelopes and creates a response, with the reason why it may be incomplete.
async fn read<T: Send + 'static>(
    state: &ServiceState,
    read: LogCacheRead,
    answer: impl FnOnce(&StoredBatch) -> T + Send + 'static,
) -> Result<(T, Option<&'static str>), ReadError> {
    let _permit = state.streams.clone().try_acquire_owned().map_err(|_| ReadError::Busy)?;
    let read = StoredRead::new(read, state.stored.now_ns())?;
    let answer = move |batch: StoredBatch| (answer(&batch), batch.partial, batch.count() as u64);
    let (answer, partial, count) = state.stored.read(read, answer).await?;
    if let Some(view) = state.view() {
        let stats = view.reader_service(ReaderService::LogCache);
        stats.matched.fetch_add(count, Ordering::Relaxed);
        stats.delivered.fetch_add(count, Ordering::Relaxed);
    }
    Ok((answer, partial))
}

/// Returns the sources, at most as old as in the original.
async fn sources(state: &ServiceState) -> Result<Arc<Services>, ReadError> {
    let _permit = state.streams.clone().try_acquire_owned().map_err(|_| ReadError::Busy)?;
    // Concurrent requests wait for the same result.
    let mut known = state.sources.0.lock().await;
    if let Some((at, sources)) = &*known
        && at.elapsed() < META_AGE_MAX
    {
        return Ok(sources.clone());
    }
    let sources = Arc::new(state.stored.sources().await?);
    *known = Some((Instant::now(), sources.clone()));
    Ok(sources)
}

/// The sources as a response. The number of expired envelopes of a source is not known: they are
/// removed by segment, not by source.
fn of_answer<'s>(
    sources: &'s Services,
    listed: &Listed,
) -> impl Iterator<Item = LogCacheSource<'s>> {
    let is_listed = |name: &String| listed.as_ref().is_none_or(|only| only.contains(name));
    sources.spans.iter().filter(move |span| is_listed(&span.name)).map(|span| LogCacheSource {
        source_id: &span.name,
        count: i64::try_from(span.rows).unwrap_or(i64::MAX),
        expired: 0,
        oldest_ns: span.first_ns,
        newest_ns: span.last_ns,
    })
}
