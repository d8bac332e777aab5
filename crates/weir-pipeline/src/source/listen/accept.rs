//! Accepting connections: each gets a slot, and is served by the source's service.
//!
//! A connection waits for a slot before it is served; when all are taken, a newer one may displace
//! another ([`ConnectionSlots`]). One address has a limited share of them.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_expr::Network;
use weir_host::{
    Acceptor, AddressShare, AddressShares, ConnectError, ConnectionSlot, ConnectionSlots,
    Handshakes, WakeFd,
};

use super::Parts;
use super::connection;
use super::grpc::GrpcService;
use super::http::HttpService;
use super::limits::{ACCEPT_PAUSE, HANDSHAKE_TIMEOUT};
use super::socket::{Accepted, Socket};
use super::stream::{LineService, RelpService};
use super::wakes::Wakes;
use crate::config::ListenSettings;
use crate::stats::SourceStats;

/// The service for the connections of a source.
pub(super) enum Service {
    Http(Rc<HttpService>),
    Lines(LineService),
    Relp(RelpService),
    Grpc(Rc<GrpcService>),
}

/// An accepted connection.
pub(super) struct Connection {
    /// Number of the connection, which selects the lane of its requests.
    pub(super) number: usize,
    pub(super) slot: ConnectionSlot,
    /// The address of the sender; `None` for Unix sockets.
    pub(super) peer: Option<IpAddr>,
    _share: Option<AddressShare>,
}

impl Service {
    pub(super) fn stats(&self) -> &Arc<SourceStats> {
        match self {
            Self::Http(service) => service.stats(),
            Self::Lines(service) => service.stats(),
            Self::Relp(service) => service.stats(),
            Self::Grpc(service) => service.stats(),
        }
    }

    /// Serves a connection until it ends.
    pub(super) async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        connection: &Rc<Connection>,
        stopped: watch::Receiver<bool>,
    ) {
        match self {
            Self::Http(service) => service.serve(stream, connection, stopped).await,
            Self::Lines(service) => service.serve(stream, connection, stopped).await,
            Self::Relp(service) => service.serve(stream, connection, stopped).await,
            Self::Grpc(service) => service.serve(stream, connection, stopped).await,
        }
    }

    /// Notifies the service that the journal has room.
    fn wake(&self) {
        match self {
            Self::Http(service) => service.wake(),
            Self::Lines(service) => service.wake(),
            Self::Relp(service) => service.wake(),
            Self::Grpc(service) => service.wake(),
        }
    }

    /// Does the periodic work of the service; never returns.
    async fn run(&self) {
        match self {
            Self::Http(service) => service.run().await,
            Self::Lines(service) => service.run().await,
            Self::Relp(service) => service.run().await,
            Self::Grpc(service) => service.run().await,
        }
    }

    /// Completes the work of the service, after all connections have ended.
    async fn finish(&self) {
        match self {
            Self::Http(service) => service.finish(),
            Self::Lines(service) => service.finish().await,
            Self::Relp(service) => service.finish(),
            Self::Grpc(service) => service.finish().await,
        }
    }
}

/// Accepts connections until told to stop, then lets existing ones finish.
pub(super) async fn serve(
    service: Rc<Service>,
    socket: Socket,
    mut admission: Admission,
    wake: &WakeFd,
    parts: &Parts,
) -> io::Result<()> {
    let (socket, _name) = socket.accepting()?;
    let wakes = Wakes::new(wake)?;
    let (stopping, stopped) = watch::channel(false);
    let tls = admission.tls.take().map(|acceptor| Rc::new((acceptor, Handshakes::default())));
    let mut connections = JoinSet::new();
    let mut waiting = None;
    let mut running = std::pin::pin!(service.run());
    loop {
        let event = tokio::select! {
            woken = wakes.next() => {
                woken?;
                if parts.stop.load(Ordering::Acquire) {
                    break;
                }
                service.wake();
                continue;
            }
            () = running.as_mut() => continue,
            slot = admission.slots.take(), if waiting.is_some() => Ok(slot),
            accepted = socket.accept(), if waiting.is_none() => Err(accepted),
        };
        while connections.try_join_next().is_some() {}
        match event {
            Err(Ok(accepted)) => waiting = admission.admit(accepted, service.stats()),
            Ok(slot) => {
                let Some((accepted, share)) = waiting.take() else { continue };
                let connection = Rc::new(admission.connection(&accepted, slot, share));
                let (service, tls) = (Rc::clone(&service), tls.clone());
                let stopped = stopped.clone();
                connections.spawn_local(async move {
                    connection::serve(accepted, &service, tls, &connection, stopped).await;
                });
            }
            // Out of descriptors: others must close before a retry makes sense.
            Err(Err(error)) => {
                admission.report(&error, service.stats());
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // New connections are refused at once instead of waiting.
    drop(socket);
    stopping.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let ended = async {
        tokio::select! {
            () = all_ended => {}
            () = running.as_mut() => {}
        }
    };
    if !wakes.finish(|| service.wake(), ended).await {
        tracing::debug!("closed connections that did not finish in time");
    }
    if !wakes.finish(|| service.wake(), service.finish()).await {
        tracing::warn!(source = parts.name, "the journal has no room for the last records");
    }
    Ok(())
}

/// Decides which connections are accepted. The threads of a source have clones, which share the
/// limits.
#[derive(Clone)]
pub(super) struct Admission {
    tls: Option<Arc<Acceptor>>,
    slots: ConnectionSlots,
    allowed: Vec<Network>,
    by_address: AddressShares,
    count: usize,
    cannot_accept: bool,
}

impl Admission {
    /// Reads the certificates, if there are any.
    pub(super) fn new(settings: &ListenSettings) -> Result<Self, ConnectError> {
        let tls = settings.tls.clone();
        let tls = tls.map(|files| Acceptor::new(files, HANDSHAKE_TIMEOUT)).transpose()?;
        Ok(Self {
            tls: tls.map(Arc::new),
            slots: ConnectionSlots::new(settings.connections_max),
            allowed: settings.allowed_networks.clone(),
            by_address: AddressShares::new(settings.connections_per_address_max),
            count: 0,
            cannot_accept: false,
        })
    }

    /// Returns a connection that may be served; closes any other.
    fn admit(
        &mut self,
        accepted: Accepted,
        stats: &SourceStats,
    ) -> Option<(Accepted, Option<AddressShare>)> {
        if std::mem::take(&mut self.cannot_accept) {
            stats.listener.set_accept_error(None);
        }
        let Some(address) = accepted.peer() else { return Some((accepted, None)) };
        if !Network::allow(&self.allowed, address) {
            stats.errors.count("not_allowed", &format!("{address} may not send to this source"));
            return None;
        }
        let Some(share) = self.by_address.take(address) else {
            let text = format!("{address} has too many connections");
            stats.errors.count("too_many_connections", &text);
            return None;
        };
        Some((accepted, Some(share)))
    }

    fn connection(
        &mut self,
        accepted: &Accepted,
        slot: ConnectionSlot,
        share: Option<AddressShare>,
    ) -> Connection {
        self.count += 1;
        Connection { number: self.count, slot, peer: accepted.peer(), _share: share }
    }

    fn report(&mut self, error: &io::Error, stats: &SourceStats) {
        stats.errors.count("accept", &error.to_string());
        if !std::mem::replace(&mut self.cannot_accept, true) {
            tracing::warn!(%error, "source cannot accept connections");
        }
        stats.listener.set_accept_error(Some(error.to_string()));
    }
}
