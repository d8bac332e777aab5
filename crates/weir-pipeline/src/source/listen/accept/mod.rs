//! Accepting connections: the port, a slot for each connection, and the lanes in which their
//! records go to the journal.
//!
//! A connection waits for a slot before it is served; when all are taken, a newer one may displace
//! another ([`ConnectionSlots`]).

mod lanes;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use weir_host::{Acceptor, ConnectError, ConnectionSlot, ConnectionSlots, WakeFd, listen};

pub(in crate::source) use lanes::{Lanes, Refusal};

use super::http::{self, HttpService};
use super::limits::{ACCEPT_PAUSE, GRACE, HANDSHAKE_TIMEOUT};
use super::{Parts, Protocol};

/// A bound port.
pub(in crate::source) struct Listener {
    parts: Parts,
    protocol: Protocol,
    socket: TcpListener,
    tls: Option<Acceptor>,
}

/// Why a listener could not start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Its port cannot be opened.
    #[error("cannot listen on {address}: {error}")]
    Port {
        /// The address.
        address: SocketAddr,
        /// The system error.
        error: io::Error,
    },
    /// Its certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] ConnectError),
}

/// The lane and the slot of an accepted connection.
pub(super) struct Connection {
    pub(super) lane: usize,
    pub(super) slot: ConnectionSlot,
}

impl Listener {
    /// Binds the port.
    pub(in crate::source) fn bind(parts: Parts, protocol: Protocol) -> Result<Self, ListenError> {
        let tls = parts.settings.tls.clone();
        let tls = tls.map(|files| Acceptor::new(files, HANDSHAKE_TIMEOUT)).transpose()?;
        let address = parts.settings.address;
        let (socket, address) =
            listen(address).map_err(|error| ListenError::Port { address, error })?;
        parts.journal.register_source(&parts.name);
        parts.stats.listener.open(address);
        tracing::info!(source = parts.name, %address, tls = tls.is_some(), "source listens");
        Ok(Self { parts, protocol, socket, tls })
    }

    /// Opens the streams, calls `opened`, and serves until told to stop.
    pub(in crate::source) fn run(self, opened: impl FnOnce()) {
        let Self { parts, protocol, socket, tls } = self;
        let journal = parts.journal.clone();
        let (clock, stats) = (parts.clock.clone(), parts.stats.clone());
        let lanes = Lanes::open(&parts.name, journal, parts.rules, clock, stats);
        parts.journal.on_room(parts.wake.clone());
        opened();
        let service = Rc::new(HttpService::new(
            protocol,
            tls,
            lanes,
            parts.clock,
            parts.stats,
            parts.settings.in_flight_bytes_max,
        ));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let serving =
            serve(service, socket, parts.settings.connections_max, parts.wake, parts.stop);
        match runtime {
            Ok(runtime) => LocalSet::new().block_on(&runtime, async {
                if let Err(error) = serving.await {
                    tracing::error!(source = parts.name, %error, "source cannot listen");
                }
            }),
            Err(error) => tracing::error!(source = parts.name, %error, "cannot start event loop"),
        }
    }
}

/// Accepts connections until told to stop, then lets existing ones finish.
async fn serve(
    service: Rc<HttpService>,
    socket: TcpListener,
    connections_max: usize,
    wake: WakeFd,
    stop: Arc<AtomicBool>,
) -> io::Result<()> {
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let wakes = Wakes::new(&wake)?;
    let (stopping, stopped) = watch::channel(false);
    let slots = ConnectionSlots::new(connections_max);
    let mut connections = JoinSet::new();
    let mut next_lane = 0;
    let mut waiting = None;
    let mut cannot_accept = false;
    loop {
        let event = tokio::select! {
            woken = wakes.next() => {
                woken?;
                if stop.load(Ordering::Acquire) {
                    break;
                }
                service.lanes().wake();
                continue;
            }
            slot = slots.take(), if waiting.is_some() => Ok(slot),
            accepted = accept(&socket), if waiting.is_none() => Err(accepted),
        };
        while connections.try_join_next().is_some() {}
        match event {
            Err(Ok(stream)) => {
                waiting = Some(stream);
                if std::mem::take(&mut cannot_accept) {
                    service.stats().listener.set_accept_error(None);
                }
            }
            Ok(slot) => {
                let Some(stream) = waiting.take() else { continue };
                next_lane += 1;
                let (service, stopped) = (Rc::clone(&service), stopped.clone());
                let connection = Connection { lane: next_lane, slot };
                connections.spawn_local(http::serve(stream, service, connection, stopped));
            }
            // Out of descriptors: others must close before a retry makes sense.
            Err(Err(error)) => {
                service.stats().errors.count("accept", &error.to_string());
                if !std::mem::replace(&mut cannot_accept, true) {
                    tracing::warn!(%error, "source cannot accept connections");
                }
                service.stats().listener.set_accept_error(Some(error.to_string()));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // New connections are refused at once instead of waiting.
    drop(socket);
    stopping.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_ended).await.is_err() {
        tracing::debug!("closed connections that did not finish in time");
    }
    service.publish(true);
    Ok(())
}

/// The wake-ups of a source, in an event loop.
struct Wakes(pipe::Receiver);

impl Wakes {
    /// An eventfd is read like a pipe: nothing in that type is specific to pipes.
    fn new(wake: &WakeFd) -> io::Result<Self> {
        let fd = wake.as_fd().try_clone_to_owned()?;
        pipe::Receiver::from_owned_fd_unchecked(fd).map(Self)
    }

    /// Waits until the journal has room, or the source is to stop.
    async fn next(&self) -> io::Result<()> {
        self.0.readable().await?;
        loop {
            match self.0.try_read(&mut [0; 8]) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

async fn accept(socket: &tokio::net::TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = socket.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
