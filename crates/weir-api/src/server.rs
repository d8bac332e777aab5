//! The listener, its thread and the limits of every connection.
//!
//! Invariants: the port is bound before the thread starts, so a port in use is an error of
//! [`Api::bind`]; at most [`connections_max`] connections are served at once, and a new one
//! replaces one that is idle or slow, so health and the ledger are answered however many are open;
//! a client that sends no request, or an incomplete one, holds a connection no longer than
//! [`HEAD_TIMEOUT`] and [`BODY_TIMEOUT`](crate::explore::limits::BODY_TIMEOUT), and a client that
//! accepts no data of a response no longer than [`WRITE_TIMEOUT`], however long the response is; no
//! connection outlives the thread.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::{Extension, Router};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_host::{ConnectionSlot, ConnectionSlots, Disk, RealClock, Working};
use weir_pipeline::view::PipelineView;
use weir_store::query::LogStore;

use crate::absence::{limit_absence, with_write_timeout};
use crate::access::{ApiAccess, Gate};
use crate::explore::{Explore, QueryLimits};
use crate::guard::{AllowedHosts, Sender};
use crate::routes::router;
use crate::state::{ApiState, Reloads};
use crate::tail::{IsLive, Sessions};

/// Connections served at once in addition to searches and live tails: scrapers, probes and pages
/// that keep theirs open. Many, so that a connection is not yet the oldest idle one when its
/// request arrives.
const CONNECTIONS_SPARE: usize = 1024;
/// Maximum length of a request head: a query in the URL, and headers.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum wait for a request head, also between two requests. A client that sends it byte by byte
/// holds a connection no longer than this.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time in which a client accepts no data. A person who reads an export or a live tail page
/// by page may look at one page for that long.
const WRITE_TIMEOUT: Duration = Duration::from_mins(5);
/// Age at which a connection is closed after its current request.
const CONNECTION_AGE_MAX: Duration = Duration::from_mins(10);
/// How long connections may take to send their responses when weir stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A bound port, and later the thread that serves it.
#[derive(Debug)]
pub struct Api {
    address: SocketAddr,
    state: Arc<ApiState>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Api {
    /// Binds the port and serves; until [`Self::set_pipeline`] every response says that weir is
    /// starting. Clients must use an IP address, `localhost`, the machine's own name, or one of
    /// `allowed_hosts`, and without `access` need no token.
    pub fn bind(
        listen: SocketAddr,
        allowed_hosts: &[String],
        version: &'static str,
        limits: &QueryLimits,
        access: Option<&ApiAccess>,
    ) -> io::Result<Self> {
        let gate = Gate::new(access, Arc::new(RealClock::new()))?;
        let (listener, address) = weir_host::listen(listen)?;
        let (stop, stopped) = watch::channel(false);
        let state = state(version, limits, gate, stopped.clone());
        let router = router(state.clone(), AllowedHosts::new(allowed_hosts));
        let connections_max = connections_max(limits);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("weir-api".to_owned())
            .spawn(move || runtime.block_on(serve(listener, router, connections_max, stopped)))?;
        Ok(Self { address, state, stop, thread: Some(thread) })
    }

    /// The address that was bound, with the actual port if port 0 was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows this pipeline and its store from now on; without a store, reports that it is disabled.
    pub fn set_pipeline(&self, view: Arc<PipelineView>, store: Option<Arc<dyn LogStore>>) {
        self.set_store(store);
        *self.state.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }

    /// Sets whether `/metrics` also includes the metrics of Loggregator's programs.
    pub fn set_original_metrics(&self, is_on: bool) {
        self.state.has_originals.store(is_on, Ordering::Relaxed);
    }

    /// Keeps saved views of the page in this directory from now on.
    pub fn set_data_dir(&self, disk: Arc<dyn Disk>, dir: &Path) {
        self.state.views.set_dir(disk, dir);
    }

    /// Queries this store from now on, or reports that it is disabled.
    pub fn set_store(&self, store: Option<Arc<dyn LogStore>>) {
        self.state.explore.set_store(store);
    }

    /// Releases the store until another one is shown.
    pub fn clear_store(&self) {
        self.state.explore.clear_store();
    }

    /// Counts a reload of the configuration, applied or refused.
    pub fn count_reload(&self, is_applied: bool) {
        let reloads = &self.state.reloads;
        let count = if is_applied { &reloads.applied } else { &reloads.refused };
        count.fetch_add(1, Ordering::Relaxed);
        reloads.is_refused.store(!is_applied, Ordering::Relaxed);
    }

    /// Closes all connections and ends the thread.
    pub fn shutdown(mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the API's thread panicked");
        }
        self.state.explore.admission.stop();
    }
}

fn state(
    version: &'static str,
    limits: &QueryLimits,
    gate: Gate,
    stopped: watch::Receiver<bool>,
) -> Arc<ApiState> {
    Arc::new(ApiState {
        version,
        gate: Arc::new(gate),
        view: RwLock::new(None),
        reloads: Reloads::default(),
        has_originals: AtomicBool::new(false),
        views: Arc::default(),
        tails: Sessions::new(limits.tails_max),
        explore: Explore::new(Arc::new(RealClock::new()), *limits),
        stopped,
    })
}

/// Every query, waiting query and live tail has a connection, and some connections remain.
fn connections_max(limits: &QueryLimits) -> usize {
    limits.workers + limits.waiting_max + limits.tails_max + CONNECTIONS_SPARE
}

async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the API cannot listen"),
    };
    let slots = ConnectionSlots::new(connections_max);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, slot)) => {
                connections.spawn(connection(stream, slot, router.clone(), stopped.clone()));
            }
            // Out of file descriptors: others must be closed before a retry makes sense.
            Err(error) => {
                tracing::warn!(%error, "the API cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, all_ended).await.is_err() {
        tracing::debug!("connections of the API were cut off");
    }
}

async fn accept(
    listener: &tokio::net::TcpListener,
    slots: &ConnectionSlots,
) -> io::Result<(TcpStream, ConnectionSlot)> {
    let (stream, _) = listener.accept().await?;
    Ok((stream, slots.take().await))
}

async fn connection(
    stream: TcpStream,
    slot: ConnectionSlot,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let is_live = IsLive::default();
    let sender = stream.peer_addr().map(|address| address.ip().to_canonical());
    let sender = Sender(sender.ok());
    let router = router
        .layer(Extension(is_live.clone()))
        .layer(Extension(sender))
        .layer(Extension(slot.clone()));
    let service = service_fn(|request| {
        let answering = TowerToHyperService::new(router.clone()).call(request);
        let working = slot.working();
        async move {
            let whole = answering.await?;
            // A body with a known length is complete: from then on the client is waited for.
            let working = whole.body().size_hint().exact().is_none().then_some(working);
            Ok::<_, Infallible>(whole.map(|body| ResponseBody { body, working }))
        }
    });
    limit_absence(&stream, WRITE_TIMEOUT);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(with_write_timeout(stream, WRITE_TIMEOUT)), service);
    let mut serving = std::pin::pin!(serving);
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
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        serving.as_mut().graceful_shutdown();
        // A response in progress is sent to its end, unless weir stops meanwhile.
        serving.await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the API ended with an error");
    }
}

/// The body of a response, and a guard: the connection is not idle while the body is produced.
struct ResponseBody {
    body: axum::body::Body,
    #[expect(dead_code, reason = "held, and dropped with the body")]
    working: Option<Working>,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waits until the connection reaches its maximum age; a connection with a live tail has none.
async fn max_age_reached(is_live: &IsLive) {
    loop {
        tokio::time::sleep(CONNECTION_AGE_MAX).await;
        if !is_live.get() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
