//! Sources that receive records in HTTP requests: the listener, its connections, its streams.
//!
//! Modules: `connection` (one connection and its limits), `body` and `budget` (receiving bodies),
//! `lanes` (records to batches to the journal), and one module per protocol next to this directory,
//! which defines requests and responses.
//!
//! Invariants: the port is bound before the thread starts, so a port in use is an error at start; a
//! source is one thread with one event loop, so nothing here is shared with other threads except
//! statistics; a request is answered with success only when all of its records are on stable
//! storage.

mod answer;
mod body;
mod budget;
mod connection;
mod lanes;
pub(in crate::source) mod limits;

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::EXPECT;
use hyper::http::request;
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use weir_host::{Acceptor, Clock, ConnectError, ConnectionSlot, ConnectionSlots, WakeFd, listen};
use weir_journal::Journal;

pub(super) use answer::Answer;
pub(super) use body::{Body, BodyError};
pub(super) use lanes::{Lanes, Refusal};

use crate::config::ListenSettings;
use crate::rule::RuleSwitch;
use crate::stats::{SourceStats, add, publish_cpu};
use budget::{Budget, Charge};
use limits::{ACCEPT_PAUSE, GRACE, HANDSHAKE_TIMEOUT, PUBLISH_PAUSE};

/// Dependencies and settings of a listening source.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) settings: ListenSettings,
    pub(super) journal: Journal,
    pub(super) rules: Arc<RuleSwitch>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stats: Arc<SourceStats>,
    pub(super) wake: WakeFd,
    pub(super) stop: Arc<AtomicBool>,
}

/// The meaning of requests: one variant per protocol.
pub(super) enum Protocol {
    /// Datadog's logs intake.
    DatadogIntake(super::datadog_intake::Intake),
}

impl Protocol {
    async fn respond(&self, site: &Site, request: Request) -> Answer {
        match self {
            Self::DatadogIntake(intake) => intake.respond(site, request).await,
        }
    }
}

/// A request, and the lane of its connection.
pub(super) struct Request {
    pub(super) head: request::Parts,
    /// `None`: nobody wants it.
    body: Option<Incoming>,
    pub(super) lane: usize,
    slot: ConnectionSlot,
}

impl Request {
    /// The client is authenticated, or authentication is not required.
    pub(super) fn admit(&self) {
        self.slot.admit();
    }

    /// Discards an unwanted body while the client receives the response. A client that expects
    /// `100 Continue` has not sent it.
    pub(super) fn discard_body(&mut self) {
        let is_asked_for = self.head.headers.contains_key(EXPECT);
        if let Some(body) = self.body.take().filter(|_| !is_asked_for) {
            tokio::task::spawn_local(body::discard(body, limits::BODY_BYTES_MAX));
        }
    }
}

/// What is needed to answer any request.
pub(super) struct Site {
    pub(super) lanes: Rc<Lanes>,
    pub(super) clock: Arc<dyn Clock>,
    budget: Budget,
}

impl Site {
    /// Reads the body of a request, of at most `max` bytes. The rest of a body that is too large,
    /// or for which there is no memory, is discarded.
    pub(super) async fn body(&self, request: &mut Request, max: usize) -> Result<Body, BodyError> {
        let Some(body) = &mut request.body else { return Err(BodyError::Broken) };
        let receiving = request.slot.receiving();
        let read = body::read(body, max, Charge::new(&self.budget)).await;
        drop(receiving);
        if matches!(read, Err(BodyError::TooLarge | BodyError::NoRoom)) {
            request.discard_body();
        }
        read
    }
}

/// A bound port.
pub(super) struct Listener {
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

/// The lane and the slot of a connection.
struct Place {
    lane: usize,
    slot: ConnectionSlot,
}

/// State shared by all connections.
struct Shared {
    site: Site,
    protocol: Protocol,
    tls: Option<Acceptor>,
    stats: Arc<SourceStats>,
    published_at: Cell<Duration>,
    /// The last connection could not be accepted.
    cannot_accept: Cell<bool>,
}

impl Listener {
    /// Binds the port.
    pub(super) fn bind(parts: Parts, protocol: Protocol) -> Result<Self, ListenError> {
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
    pub(super) fn run(self, opened: impl FnOnce()) {
        let Self { parts, protocol, socket, tls } = self;
        let journal = parts.journal.clone();
        let (clock, stats) = (parts.clock.clone(), parts.stats.clone());
        let lanes = Lanes::open(&parts.name, journal, parts.rules, clock, stats);
        parts.journal.on_room(parts.wake.clone());
        opened();
        let shared = Rc::new(Shared {
            site: Site {
                lanes,
                clock: parts.clock,
                budget: Budget::new(parts.settings.in_flight_bytes_max, parts.stats.clone()),
            },
            protocol,
            tls,
            stats: parts.stats,
            published_at: Cell::default(),
            cannot_accept: Cell::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let serving = serve(shared, socket, parts.settings.connections_max, parts.wake, parts.stop);
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
    shared: Rc<Shared>,
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
    let mut newcomer = None;
    loop {
        let event = tokio::select! {
            woken = wakes.next() => {
                woken?;
                if stop.load(Ordering::Acquire) {
                    break;
                }
                shared.site.lanes.wake();
                continue;
            }
            slot = slots.take(), if newcomer.is_some() => Ok(slot),
            accepted = accept(&socket), if newcomer.is_none() => Err(accepted),
        };
        while connections.try_join_next().is_some() {}
        match event {
            Err(Ok(stream)) => {
                newcomer = Some(stream);
                if shared.cannot_accept.take() {
                    shared.stats.listener.set_accept_error(None);
                }
            }
            Ok(slot) => {
                let Some(stream) = newcomer.take() else { continue };
                next_lane += 1;
                let (shared, stopped) = (Rc::clone(&shared), stopped.clone());
                let place = Place { lane: next_lane, slot };
                connections.spawn_local(connection::serve(stream, shared, place, stopped));
            }
            // Out of descriptors: others must close before a retry makes sense.
            Err(Err(error)) => {
                shared.stats.errors.count("accept", &error.to_string());
                if !shared.cannot_accept.replace(true) {
                    tracing::warn!(%error, "source cannot accept connections");
                }
                shared.stats.listener.set_accept_error(Some(error.to_string()));
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
    shared.publish(true);
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

impl Shared {
    /// Answers a request and counts it.
    async fn answer(&self, at: &Place, request: hyper::Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let begun = self.site.clock.monotonic();
        let _working = at.slot.working();
        let request = Request { head, body: Some(body), lane: at.lane, slot: at.slot.clone() };
        let answer = self.protocol.respond(&self.site, request).await;
        let took = self.site.clock.monotonic().saturating_sub(begun);
        let figures = &self.stats.listener;
        figures.count(answer.status.as_u16());
        add(&figures.service_ns, took.as_nanos() as u64);
        self.publish(false);
        answer
    }

    fn publish(&self, is_due: bool) {
        let now = self.site.clock.monotonic();
        if is_due || now.saturating_sub(self.published_at.get()) >= PUBLISH_PAUSE {
            self.published_at.set(now);
            publish_cpu(&self.stats.cpu_ns);
        }
    }
}
