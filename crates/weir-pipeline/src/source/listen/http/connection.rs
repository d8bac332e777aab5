//! One connection: HTTP/1.1 with limits of head and age, and an orderly end.

use std::convert::Infallible;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::super::accept::Connection;
use super::super::connection::count_evicted;
use super::super::limits::{CONNECTION_AGE_MAX, GRACE, HEAD_BYTES_MAX, HEAD_TIMEOUT};
use super::HttpService;

/// Answers the requests of a connection, one after the other, until it ends or is asked to end.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: &HttpService,
    connection: &Connection,
    mut stopped: watch::Receiver<bool>,
) {
    let answering = service_fn(|request| async move {
        Ok::<_, Infallible>(service.answer(connection, request).await.into_response())
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answering);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = tokio::time::sleep(CONNECTION_AGE_MAX) => None,
        _ = stopped.wait_for(|stopped| *stopped) => None,
        () = connection.slot.evicted() => return count_evicted(service.stats()),
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        serving.as_mut().graceful_shutdown();
        let Ok(ended) = tokio::time::timeout(GRACE, serving).await else { return };
        ended
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
