//! One connection: HTTP/1.1 or 2, as the client starts it, until it ends or is closed.
//!
//! Invariants: a client that sends no request, or an incomplete one, holds a connection no longer
//! than [`HEAD_TIMEOUT`] and [`BODY_TIMEOUT`](crate::explore::limits::BODY_TIMEOUT); a request with
//! HTTP/2 has its host in the header `Host`, like any other, so that every check sees it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::sleep;
use weir_host::ConnectionSlot;

use super::WRITE_TIMEOUT;
use super::responses::Responses;
use crate::absence::with_write_timeout;
use crate::guard::{Sender, set_host};
use crate::tail::IsLive;

/// Maximum length of a request head: a query in the URL, and headers.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum wait for a request head, also between two requests. A client that sends it byte by byte
/// holds a connection no longer than this.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Age at which a connection is closed after its current request.
pub(super) const CONNECTION_AGE_MAX: Duration = Duration::from_mins(10);
/// Requests of one connection with HTTP/2 at once: a page has a live tail or two and about twenty
/// requests.
const STREAMS_MAX: u32 = 100;
/// Bytes of a request body that a client may send with HTTP/2 before they are read, for a request
/// and for a connection: queries are small.
const WINDOW_BYTES: u32 = 256 * 1024;
/// Interval at which an idle connection with HTTP/2 is asked whether its client still exists.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum wait for the answer.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves the requests of a connection.
pub(super) async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    sender: Sender,
    slot: ConnectionSlot,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let (is_live, responses) = (IsLive::default(), Responses::default());
    let has_begun = Arc::new(AtomicBool::new(false));
    let router = router
        .layer(Extension(is_live.clone()))
        .layer(Extension(sender))
        .layer(Extension(slot.clone()));
    let service = service_fn(|mut request: Request<Incoming>| {
        has_begun.store(true, Ordering::Relaxed);
        set_host(&mut request);
        let answering = TowerToHyperService::new(router.clone()).call(request);
        let (working, responses) = (slot.working(), responses.clone());
        async move {
            let whole = answering.await?;
            // A body with a known length is complete: from then on the client is waited for.
            let working = whole.body().size_hint().exact().is_none().then_some(working);
            Ok::<_, Infallible>(whole.map(|body| responses.track(body, working)))
        }
    });
    let builder = builder();
    let stream = with_write_timeout(stream, WRITE_TIMEOUT);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let closing = async {
        tokio::select! {
            () = max_age_reached(&is_live) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    };
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = closing => None,
        () = slot.evicted() => return tracing::debug!("connection closed to make room for a newer one"),
        () = responses.stalled(WRITE_TIMEOUT) => return tracing::debug!("a client stopped reading its response"),
        () = is_silent(&has_begun) => return,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        serving.as_mut().graceful_shutdown();
        // A response in progress is sent to its end, unless weir stops meanwhile.
        tokio::select! {
            ended = serving => ended,
            () = responses.stalled(WRITE_TIMEOUT) => return,
            () = responses.ended(WRITE_TIMEOUT) => return,
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection to the API ended with an error");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX);
    builder
}

/// Waits until it is clear that the client sends no request.
async fn is_silent(has_begun: &AtomicBool) {
    sleep(HEAD_TIMEOUT).await;
    if has_begun.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Waits until the connection reaches its maximum age; a connection with a stream of events has
/// none.
async fn max_age_reached(is_live: &IsLive) {
    loop {
        sleep(CONNECTION_AGE_MAX).await;
        if !is_live.get() {
            return;
        }
    }
}
