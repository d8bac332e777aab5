//! Sources that receive records over the network or from Unix sockets.
//!
//! A listening source is a transport, a session and lanes. The *transport* owns the sockets:
//! `accept` takes connections, and `http`, `grpc` or `stream` serve them; `datagrams` receives without
//! connections. The *session* turns bytes into records and replies, without any I/O: framings and
//! protocols of `weir-codec`, and one module per protocol next to this directory. The *lanes* carry
//! records to the journal: for senders that are acknowledged, and for those that are not. In
//! between, the *limiter* holds back records of keys above their *quota*, if there is one.
//!
//! Invariants: the socket is bound before the thread starts, so a port in use is an error at start;
//! a source is one thread with one event loop, so nothing here is shared with other threads except
//! statistics; a request is answered with success only when all of its records are on stable
//! storage; while the journal has no room, nothing more is read.

mod accept;
mod connection;
mod cpu;
mod datagrams;
mod grpc;
mod handshakes;
mod http;
mod lanes;
mod limiter;
pub(in crate::source) mod limits;
mod quota;
mod socket;
mod stream;
mod wakes;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::task::LocalSet;
use weir_host::{Acceptor, Clock, ConnectError, Disk, WakeFd};
use weir_journal::Journal;

use crate::config::{ListenEndpoint, ListenSettings, LoggregatorSource, SyslogSource};
use crate::rule::RuleSwitch;
use crate::stats::SourceStats;

pub(super) use http::{Answer, Body, BodyError, Request, RequestContext, retry_after_seconds};
pub(super) use lanes::Refusal;
pub(super) use limiter::{Claim, Incoming, Limiter};
pub(super) use quota::{BuildIdentity, KeyFields, KeyName, Origin};

use accept::Service;
use grpc::GrpcService;
use http::HttpService;
use lanes::{AcknowledgedLanes, GatheredLanes, LaneContext};
use limits::HANDSHAKE_TIMEOUT;
use socket::Socket;
use stream::{LineService, RelpService};

/// Dependencies and settings of a listening source.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) settings: ListenSettings,
    pub(super) journal: Journal,
    pub(super) rules: Arc<RuleSwitch>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) stats: Arc<SourceStats>,
    /// File for the number of records received without acknowledgement.
    pub(super) received_file: PathBuf,
    pub(super) wake: WakeFd,
    pub(super) stop: Arc<AtomicBool>,
}

/// The meaning of what is received: one variant per protocol.
pub(super) enum Protocol {
    /// Datadog's logs intake, over HTTP.
    DatadogIntake(super::datadog_intake::Intake, usize),
    /// Syslog over connections, without acknowledgement.
    SyslogStream(SyslogSource),
    /// Syslog in datagrams.
    SyslogDatagrams(SyslogSource),
    /// Syslog with acknowledgement.
    Relp(SyslogSource),
    /// Envelopes of Loggregator, over gRPC.
    Loggregator(Box<LoggregatorSource>),
}

impl Protocol {
    /// Returns the protocol of a syslog source.
    pub(super) fn syslog(source: &SyslogSource) -> Self {
        let own = source.clone();
        match source.listen.endpoint {
            ListenEndpoint::Udp { .. } | ListenEndpoint::UnixDatagram { .. } => {
                Self::SyslogDatagrams(own)
            }
            ListenEndpoint::Tcp(_) | ListenEndpoint::UnixStream { .. } if source.is_relp => {
                Self::Relp(own)
            }
            ListenEndpoint::Tcp(_) | ListenEndpoint::UnixStream { .. } => Self::SyslogStream(own),
        }
    }
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
    /// Its socket in the file system cannot be created.
    #[error("cannot listen on {}: {error}", path.display())]
    Path {
        /// The path of the socket.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
    /// Its certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] ConnectError),
}

/// A bound socket with its protocol.
pub(super) struct Listener {
    parts: Parts,
    protocol: Protocol,
    socket: Socket,
    tls: Option<Acceptor>,
}

impl Listener {
    /// Binds the socket.
    pub(super) fn bind(parts: Parts, protocol: Protocol) -> Result<Self, ListenError> {
        let tls = parts.settings.tls.clone();
        let tls = tls.map(|files| Acceptor::new(files, HANDSHAKE_TIMEOUT)).transpose()?;
        let (socket, endpoint) = Socket::bind(&parts.settings.endpoint)?;
        parts.journal.register_source(&parts.name);
        parts.stats.listener.open(&endpoint);
        tracing::info!(source = parts.name, endpoint, tls = tls.is_some(), "source listens");
        Ok(Self { parts, protocol, socket, tls })
    }

    /// Opens the streams, calls `opened`, and serves until told to stop.
    pub(super) fn run(self, opened: impl FnOnce()) {
        let name = self.parts.name.clone();
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => LocalSet::new().block_on(&runtime, async {
                if let Err(error) = self.serve(opened).await {
                    tracing::error!(source = name, %error, "source cannot listen");
                }
            }),
            Err(error) => tracing::error!(source = name, %error, "cannot start event loop"),
        }
    }

    async fn serve(self, opened: impl FnOnce()) -> io::Result<()> {
        let Self { parts, protocol, socket, tls } = self;
        parts.journal.on_room(parts.wake.clone());
        let context = LaneContext {
            name: parts.name.clone(),
            journal: parts.journal.clone(),
            rules: parts.rules.clone(),
            clock: parts.clock.clone(),
            stats: parts.stats.clone(),
        };
        let gathered = || GatheredLanes::open(context.clone(), &*parts.disk, &parts.received_file);
        let acknowledged = || AcknowledgedLanes::open(context.clone());
        let settings = parts.settings.rate_limit.as_ref();
        let limiter = settings.map(|settings| Limiter::new(settings, &context));
        let service = match protocol {
            Protocol::DatadogIntake(intake, in_flight_bytes_max) => {
                let protocol = http::Protocol::DatadogIntake(intake);
                let lanes = acknowledged();
                let budget_bytes = in_flight_bytes_max;
                Service::Http(HttpService::new(protocol, lanes, context, limiter, budget_bytes))
            }
            Protocol::SyslogStream(source) => {
                Service::Lines(LineService::new(&source, gathered(), context, limiter))
            }
            Protocol::Relp(source) => {
                Service::Relp(RelpService::new(&source, acknowledged(), context, limiter))
            }
            Protocol::Loggregator(source) => {
                Service::Grpc(GrpcService::new(&source, gathered(), context, limiter))
            }
            Protocol::SyslogDatagrams(source) => {
                let lanes = gathered();
                opened();
                return datagrams::serve(socket, &source, lanes, &context, limiter, &parts).await;
            }
        };
        opened();
        accept::serve(Rc::new(service), socket, tls, &parts).await
    }
}
