//! The listener, its thread and the limits of every connection.
//!
//! Invariants: the port is bound before the thread starts, so a port in use is an error of
//! [`Api::bind`]; at most [`connections_max`] connections are served at once, and a new one
//! replaces one that is idle or slow, so health and the ledger are answered however many are open;
//! a client that accepts no data of a response holds a connection no longer than [`WRITE_TIMEOUT`],
//! however long the response is; no connection outlives the thread.

mod connection;
mod responses;
mod tls;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_host::{ConnectionSlot, ConnectionSlots, Disk, RealClock, ServerTlsFiles};
use weir_pipeline::view::PipelineView;
use weir_store::query::LogStore;

use self::connection::serve_connection;
pub(crate) use self::tls::ApiTls;
use crate::absence::prepare_connection;
use crate::access::{ApiAccess, Gate};
use crate::explore::QueryLimits;
use crate::guard::{AllowedHosts, Sender};
use crate::reliability::record_each_minute;
use crate::routes::router;
use crate::state::ApiState;
use crate::topology::STREAMS_MAX;

/// Connections served at once in addition to searches and live tails: scrapers, probes and pages
/// that keep theirs open. Many, so that a connection is not yet the oldest idle one when its
/// request arrives.
const CONNECTIONS_SPARE: usize = 1024;
/// Maximum time in which a client accepts no data. A person who reads an export or a live tail page
/// by page may look at one page for that long.
const WRITE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long connections may take to send their responses when weir stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// How the API is served.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiSettings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Certificates; without them there is no TLS.
    pub tls: Option<ServerTlsFiles>,
    /// Host names that requests may use, in addition to IP addresses, `localhost` and the machine's
    /// own name.
    pub allowed_hosts: Vec<String>,
    /// Limits of searches and live tails.
    pub queries: QueryLimits,
    /// Access control; without it requests need no token.
    pub access: Option<ApiAccess>,
}

impl ApiSettings {
    /// The defaults, at an address.
    pub fn at(listen: SocketAddr) -> Self {
        let queries = QueryLimits::default();
        Self { listen, tls: None, allowed_hosts: Vec::new(), queries, access: None }
    }
}

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
    /// starting. `version` is weir's own.
    pub fn bind(settings: &ApiSettings, version: &'static str) -> io::Result<Self> {
        let limits = &settings.queries;
        let gate = Gate::new(settings.access.as_ref(), Arc::new(RealClock::new()))?;
        let tls = settings.tls.clone().map(ApiTls::new).transpose().map_err(io::Error::other)?;
        let (listener, address) = weir_host::listen(settings.listen)?;
        let (stop, stopped) = watch::channel(false);
        let state = ApiState::new(version, limits, gate, tls.map(Arc::new), stopped.clone());
        let state = Arc::new(state);
        let router = router(state.clone(), AllowedHosts::new(&settings.allowed_hosts));
        let recording = record_each_minute(state.clone());
        let (tls, connections_max) = (state.tls.clone(), connections_max(limits));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("weir-api".to_owned()).spawn(move || {
            runtime.block_on(async {
                let serving = serve(listener, router, tls, connections_max, stopped);
                tokio::join!(serving, recording);
            });
        })?;
        Ok(Self { address, state, stop, thread: Some(thread) })
    }

    /// Whether clients must use TLS.
    pub fn is_encrypted(&self) -> bool {
        self.state.tls.is_some()
    }

    /// The address that was bound, with the actual port if port 0 was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows this pipeline and its store from now on; without a store, reports that it is disabled.
    pub fn set_pipeline(&self, view: Arc<PipelineView>, store: Option<Arc<dyn LogStore>>) {
        self.set_store(store);
        *self.state.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
        self.state.shown.send_replace(());
    }

    /// Sets whether `/metrics` also includes the metrics of Loggregator's programs.
    pub fn set_original_metrics(&self, is_on: bool) {
        self.state.has_originals.store(is_on, Ordering::Relaxed);
    }

    /// Keeps saved views of the page, and readings of the books, in this directory from now on.
    pub fn set_data_dir(&self, disk: Arc<dyn Disk>, dir: &Path) {
        self.state.reliability.set_dir(disk.clone(), dir);
        self.state.views.set_dir(disk, dir);
    }

    /// Reports in the pipeline's health whether renewed certificates could not be loaded, and which
    /// keys of tokens cannot be used.
    pub fn report_problems(&self) {
        let Some(view) = self.state.view() else { return };
        let certificates = self.state.tls.as_ref().and_then(|tls| tls.reload_error());
        let certificates = certificates
            .map(|error| format!("the API still uses the previous certificates: {error}"));
        view.set_service_problem("api_certificates", certificates);
        view.set_service_problem("api_token_keys", self.state.gate.key_problem());
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
        if let Some(view) = self.state.view() {
            self.state.reliability.record(&view.journal.ledger());
        }
        self.state.explore.admission.stop();
    }
}

/// Every query, waiting query and stream of events has a connection, and some connections remain.
fn connections_max(limits: &QueryLimits) -> usize {
    limits.workers + limits.waiting_max + limits.tails_max + STREAMS_MAX + CONNECTIONS_SPARE
}

async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<ApiTls>>,
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
                let (router, tls) = (router.clone(), tls.clone());
                connections.spawn(connection(stream, slot, router, tls, stopped.clone()));
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
        tracing::debug!("closed connections of the API that did not finish in time");
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
    tcp: TcpStream,
    slot: ConnectionSlot,
    router: Router,
    tls: Option<Arc<ApiTls>>,
    stopped: watch::Receiver<bool>,
) {
    let sender = Sender(tcp.peer_addr().map(|address| address.ip().to_canonical()).ok());
    prepare_connection(&tcp, WRITE_TIMEOUT);
    let Some(tls) = tls else { return serve_connection(tcp, sender, slot, router, stopped).await };
    let accepted = tokio::select! {
        accepted = tls.accept(tcp) => accepted,
        () = slot.evicted() => return,
    };
    if let Some(stream) = accepted {
        serve_connection(stream, sender, slot, router, stopped).await;
    }
}

#[cfg(test)]
mod tests;
