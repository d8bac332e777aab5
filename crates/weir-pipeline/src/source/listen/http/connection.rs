//! One connection: HTTP/1.1 with limits of head and age, and an orderly end.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::super::limits::{CONNECTION_AGE_MAX, GRACE, HEAD_BYTES_MAX, HEAD_TIMEOUT};
use super::{Connection, HttpService};
use crate::stats::{SourceStats, add};

/// Counts a connection while it is open.
struct OpenConnection(Arc<SourceStats>);

impl OpenConnection {
    fn new(stats: &Arc<SourceStats>) -> Self {
        stats.listener.connection_opened();
        Self(Arc::clone(stats))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.listener.connection_closed();
    }
}

/// Answers its requests, one after the other, until it ends or is asked to end.
pub(in super::super) async fn serve(
    stream: TcpStream,
    service: Rc<HttpService>,
    connection: Connection,
    mut stopped: watch::Receiver<bool>,
) {
    let _open = OpenConnection::new(&service.stats);
    let Some(tls) = &service.tls else {
        return answer(stream, &service, &connection, stopped).await;
    };
    let accepted = tokio::select! {
        accepted = tls.accept(stream) => accepted,
        () = connection.slot.evicted() => return close_evicted(&service),
        _ = stopped.wait_for(|stopped| *stopped) => return,
    };
    service.stats.listener.set_tls_error(tls.reload_error());
    match accepted {
        Ok(stream) => answer(stream, &service, &connection, stopped).await,
        Err(error) => service.stats.errors.count("tls", &error.to_string()),
    }
}

fn close_evicted(service: &HttpService) {
    add(&service.stats.listener.evicted_total, 1);
    tracing::debug!("connection closed to make room for a newer one");
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: &Rc<HttpService>,
    connection: &Connection,
    mut stopped: watch::Receiver<bool>,
) {
    let answering = service_fn(|request| {
        let service = Rc::clone(service);
        async move { Ok::<_, Infallible>(service.answer(connection, request).await.into_response()) }
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
        () = connection.slot.evicted() => return close_evicted(service),
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
