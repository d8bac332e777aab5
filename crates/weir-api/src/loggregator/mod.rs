//! The services to which readers of Loggregator connect: the reverse log proxy over gRPC
//! ([`egress`]), its gateway over HTTP ([`gateway`]), and the traffic controller over websockets
//! ([`traffic_controller`]), which stream envelopes as they arrive; and the log-cache
//! ([`log_cache`]), which answers from the store ([`stored`]).
//!
//! They have their own ports and share one thread; what they send comes from
//! [`EnvelopeStream`](weir_pipeline::live::EnvelopeStream). Streams end when the pipeline is
//! restarted, and clients open them again.
//!
//! Invariants: ports are bound before the thread starts; connections, streams and requests are
//! limited; a body is produced only when the client can accept it, so the envelopes of a slow
//! client wait, and are counted, in its queue; no connection outlives the thread.

mod body;
mod containers;
mod egress;
mod gateway;
mod health;
mod limits;
mod log_cache;
mod query;
mod server;
mod stored;
mod traffic_controller;
mod websocket;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use weir_expr::Network;
use weir_host::{Acceptor, Clock, RealClock, ServerTlsFiles};
use weir_pipeline::live::ReaderService;
use weir_pipeline::view::PipelineView;
use weir_store::query::LogStore;

use crate::access::tokens::{AccessSettings, Tokens};
use crate::guard::AllowedHosts;
use log_cache::KnownSources;
use stored::StoredEnvelopes;

pub use health::{HealthOf, HealthSettings};

use containers::Containers;
use health::HealthState;

/// Settings of one service.
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderServiceSettings {
    /// Which one.
    pub service: ReaderService,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// TLS certificate files; `None`: connections are not encrypted.
    pub tls: Option<ServerTlsFiles>,
    /// Networks that may connect; empty: any.
    pub allowed_networks: Vec<Network>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Maximum number of connections from one address.
    pub connections_per_address_max: usize,
    /// Maximum number of streams.
    pub streams_max: usize,
    /// Access control; `None`: every client that can connect may read everything.
    pub access: Option<Arc<AccessSettings>>,
    /// Host names that requests may use if clients are not identified, in addition to IP addresses,
    /// `localhost` and the machine's own name.
    pub allowed_hosts: Vec<String>,
    /// Age at which a stream of the gateway is ended, so that its client reconnects.
    pub stream_timeout: Duration,
    /// The domain of cookies that the traffic controller sets.
    pub cookie_domain: Option<String>,
    /// Whether this port also serves the health of drains.
    pub has_health_of_drains: bool,
}

/// The state that all connections of a service share.
#[derive(Debug)]
struct ServiceState {
    settings: ReaderServiceSettings,
    tls: Option<Acceptor>,
    access: Option<Arc<Tokens>>,
    /// `None`: clients are authenticated, and a page of another site cannot be in their place.
    hosts: Option<AllowedHosts>,
    view: watch::Sender<Option<Arc<PipelineView>>>,
    streams: Arc<Semaphore>,
    stored: Arc<StoredEnvelopes>,
    sources: KnownSources,
    clock: Arc<dyn Clock>,
    stopped: watch::Receiver<bool>,
    /// Empty except for the traffic controller.
    containers: Mutex<Containers>,
    /// Whether a sender has connected to this port.
    sender_warning: Once,
    /// The log-cache, if this service also serves its paths.
    log_cache: OnceLock<Arc<ServiceState>>,
}

impl ServiceState {
    fn view(&self) -> Option<Arc<PipelineView>> {
        self.view.borrow().clone()
    }

    /// Counts a request that is refused.
    fn refuse(&self, reason: &str) {
        tracing::debug!(service = self.settings.service.name(), reason, "refused a request");
        if let Some(view) = self.view() {
            view.reader_service(self.settings.service).refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reports the first sender that is connected to this port, which serves readers.
    fn warn_of_sender(&self, peer: SocketAddr) {
        let service = self.settings.service.name();
        self.sender_warning.call_once(|| {
            tracing::warn!(
                service,
                %peer,
                "a program sends envelopes to a port for readers, where they are refused: it must \
                 connect to the port of a source of type \"loggregator\""
            );
        });
    }
}

/// Returns the host names to check for, unless clients need tokens or certificates.
fn hosts_of(settings: &ReaderServiceSettings) -> Option<AllowedHosts> {
    let needs_certificate = settings.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
    let is_open = settings.access.is_none() && !needs_certificate;
    is_open.then(|| AllowedHosts::new(&settings.allowed_hosts))
}

/// Returns the access control that all services share, if one of them needs it.
fn shared_access(
    settings: &[ReaderServiceSettings],
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Tokens>>, (&'static str, io::Error)> {
    let asks =
        |service: &ReaderServiceSettings| Some((service.service.name(), service.access.clone()?));
    let Some((service, access)) = settings.iter().find_map(asks) else { return Ok(None) };
    let access = Tokens::new(&access, clock.clone()).map_err(|error| (service, error))?;
    Ok(Some(Arc::new(access)))
}

/// Connects services to the log-cache, whose paths the originals also serve on their ports.
fn connect(all: &[(Arc<ServiceState>, SocketAddr)]) {
    let log_cache = all.iter().find(|(state, _)| state.settings.service == ReaderService::LogCache);
    let Some((log_cache, _)) = log_cache else { return };
    for (state, _) in all {
        if matches!(
            state.settings.service,
            ReaderService::TrafficController | ReaderService::Gateway
        ) {
            let _set_once = state.log_cache.set(log_cache.clone());
        }
    }
}

/// The services, and the thread that serves them.
#[derive(Debug)]
pub struct ReaderServices {
    all: Vec<(Arc<ServiceState>, SocketAddr)>,
    health: Vec<(HealthOf, SocketAddr)>,
    health_state: Arc<HealthState>,
    stored: Arc<StoredEnvelopes>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ReaderServices {
    /// Binds the ports and serves; until [`Self::set_pipeline`] clients are told to retry. A read
    /// from the store takes at most `stored_deadline`.
    ///
    /// # Errors
    /// With the name of the service that cannot be started.
    pub fn bind(
        settings: &[ReaderServiceSettings],
        stored_deadline: Duration,
        health: &[HealthSettings],
    ) -> Result<Self, (&'static str, io::Error)> {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let stored = Arc::new(StoredEnvelopes::new(stored_deadline, clock.clone()));
        let (stop, stopped) = watch::channel(false);
        let mut all = Vec::new();
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let access = shared_access(settings, &clock)?;
        let mut listeners = Vec::new();
        for settings in settings {
            let at = |error| (settings.service.name(), error);
            let acceptor = |files: &ServerTlsFiles| {
                Acceptor::new(files.clone(), limits::HANDSHAKE_TIMEOUT).map_err(io::Error::other)
            };
            let tls = settings.tls.as_ref().map(acceptor).transpose().map_err(at)?;
            let (listener, address) = weir_host::listen(settings.listen).map_err(at)?;
            let state = ServiceState {
                settings: settings.clone(),
                tls,
                access: settings.access.as_ref().and(access.clone()),
                hosts: hosts_of(settings),
                view: watch::Sender::new(None),
                streams: Arc::new(Semaphore::new(settings.streams_max)),
                stored: stored.clone(),
                sources: KnownSources::default(),
                clock: clock.clone(),
                stopped: stopped.clone(),
                containers: Mutex::default(),
                sender_warning: Once::new(),
                log_cache: OnceLock::new(),
            };
            let state = Arc::new(state);
            listeners.push((state.clone(), listener));
            all.push((state, address));
        }
        connect(&all);
        let find = |service| all.iter().find(|(state, _)| state.settings.service == service);
        let health_state = Arc::new(HealthState {
            view: watch::Sender::new(None),
            stored: stored.clone(),
            containers: find(ReaderService::TrafficController).map(|(state, _)| state.clone()),
            has_stored: all.iter().any(|(state, _)| state.settings.service.reads_store()),
            stopped,
        });
        let (mut addresses, mut ports) = (Vec::new(), Vec::new());
        for HealthSettings { of, listen } in health {
            let at = |error| (of.name(), error);
            let (listener, address) = weir_host::listen(*listen).map_err(at)?;
            addresses.push((*of, address));
            ports.push((*of, listener));
        }
        let mut thread = None;
        if !listeners.is_empty() || !ports.is_empty() {
            let spawned = server::spawn(listeners, (health_state.clone(), ports));
            thread = Some(spawned.map_err(|error| ("readers", error))?);
        }
        Ok(Self { all, health: addresses, health_state, stored, stop, thread })
    }

    /// The addresses that were bound.
    pub fn addresses(&self) -> impl Iterator<Item = (ReaderService, SocketAddr)> {
        self.all.iter().map(|(state, address)| (state.settings.service, *address))
    }

    /// The addresses of the health ports.
    pub fn health_addresses(&self) -> impl Iterator<Item = (HealthOf, SocketAddr)> {
        self.health.iter().copied()
    }

    /// Serves this pipeline and its store from now on. `envelope_sources` receive envelopes.
    pub fn set_pipeline(
        &self,
        view: &Arc<PipelineView>,
        store: Option<Arc<dyn LogStore>>,
        envelope_sources: &BTreeSet<String>,
    ) {
        if self.all.iter().any(|(state, _)| state.settings.service.reads_store()) {
            self.stored.set_store(store, envelope_sources.clone());
        }
        self.health_state.view.send_replace(Some(view.clone()));
        for (state, address) in &self.all {
            let _already_set = view.reader_service(state.settings.service).address.set(*address);
            state.view.send_replace(Some(view.clone()));
        }
    }

    /// Reports in the pipeline's health which keys of tokens cannot be used.
    pub fn report_problems(&self) {
        let access = self.all.iter().find_map(|(state, _)| state.access.as_ref());
        if let (Some(access), Some(view)) = (access, self.all.first().and_then(|it| it.0.view())) {
            view.set_service_problem("reader_token_keys", access.key_problem());
        }
    }

    /// Releases the store until another one is set.
    pub fn clear_store(&self) {
        self.stored.set_store(None, BTreeSet::new());
    }

    /// Ends all streams, closes all connections and ends the thread.
    pub fn shutdown(mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the readers' services panicked");
        }
        self.stored.stop();
    }
}
