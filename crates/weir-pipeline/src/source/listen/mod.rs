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
use hyper::http::request;
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinSet, LocalSet};
use weir_host::{Acceptor, Clock, ConnectError, WakeFd};
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
    body: Incoming,
    pub(super) lane: usize,
}

impl Request {
    /// Discards an unwanted body, so that the client sees the response.
    pub(super) async fn discard_body(&mut self) {
        body::discard(&mut self.body, limits::BODY_BYTES_MAX).await;
    }
}

/// What is needed to answer any request.
pub(super) struct Site {
    pub(super) lanes: Rc<Lanes>,
    pub(super) clock: Arc<dyn Clock>,
    budget: Budget,
}

impl Site {
    /// Reads the body of a request, of at most `max` bytes.
    pub(super) async fn body(&self, request: &mut Request, max: usize) -> Result<Body, BodyError> {
        body::read(&mut request.body, max, Charge::new(&self.budget)).await
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
            bind(address).map_err(|error| ListenError::Port { address, error })?;
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

fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
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
    let permits = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    let mut next_lane = 0;
    loop {
        let accepted = tokio::select! {
            woken = wakes.next() => {
                woken?;
                if stop.load(Ordering::Acquire) {
                    break;
                }
                shared.site.lanes.wake();
                continue;
            }
            accepted = accept(&socket, &permits) => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, permit)) => {
                next_lane += 1;
                if shared.cannot_accept.take() {
                    shared.stats.listener.set_accept_error(None);
                }
                let (shared, stopped) = (Rc::clone(&shared), stopped.clone());
                connections.spawn_local(async move {
                    connection::serve(stream, shared, next_lane, stopped).await;
                    drop(permit);
                });
            }
            // Out of descriptors: others must close before a retry makes sense.
            Err(error) => {
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

async fn accept(
    socket: &tokio::net::TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = socket.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

impl Shared {
    /// Answers a request and counts it.
    async fn answer(&self, lane: usize, request: hyper::Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let begun = self.site.clock.monotonic();
        let answer = self.protocol.respond(&self.site, Request { head, body, lane }).await;
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
