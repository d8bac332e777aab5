//! One connection: HTTP/1.1 or 2, as the client starts it, with limits on head size and age, and a
//! graceful end.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::accept::Connection;
use super::super::connection::count_evicted;
use super::super::limits::{
    CONNECTION_AGE_MAX, GRACE, HEAD_BYTES_MAX, HEAD_TIMEOUT, HTTP2_CONNECTION_BYTES,
    HTTP2_REQUESTS_MAX, HTTP2_WINDOW_BYTES, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT,
};
use super::HttpService;

/// Runs the requests of a connection with HTTP/2 on the event loop of the calling thread.
#[derive(Debug, Clone, Copy)]
struct LocalExecutor;

impl<F> Executor<F> for LocalExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, request: F) {
        tokio::task::spawn_local(request);
    }
}

/// Answers the requests of a connection until it ends or is asked to end.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    service: &Rc<HttpService>,
    connection: &Rc<Connection>,
    mut stopped: watch::Receiver<bool>,
) {
    let has_begun = Rc::new(Cell::new(false));
    let answering = service_fn(|request| {
        has_begun.set(true);
        let (service, connection) = (Rc::clone(service), Rc::clone(connection));
        async move { Ok::<_, Infallible>(service.answer(&connection, request).await.into_response()) }
    });
    let builder = builder();
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answering));
    let is_silent = async {
        sleep(HEAD_TIMEOUT).await;
        if has_begun.get() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = is_silent => return,
        () = sleep(CONNECTION_AGE_MAX) => None,
        _ = stopped.wait_for(|stopped| *stopped) => None,
        () = connection.slot.evicted() => return count_evicted(service.stats()),
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        serving.as_mut().graceful_shutdown();
        let Ok(ended) = timeout(GRACE, serving).await else { return };
        ended
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended with an error");
    }
}

fn builder() -> auto::Builder<LocalExecutor> {
    let mut builder = auto::Builder::new(LocalExecutor);
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
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_BYTES)
        .max_concurrent_streams(HTTP2_REQUESTS_MAX);
    builder
}
