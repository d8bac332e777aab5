//! Sources that receive records over the network or from Unix sockets.
//!
//! A listening source is a transport, a session and lanes. The *transport* owns the sockets:
//! `accept` takes connections, and `http`, `grpc` or `stream` serve them; `datagrams` receives
//! without connections. The *session* turns bytes into records and replies, without any I/O:
//! framings and protocols of `weir-codec`, and one module per protocol next to this directory. The
//! *lanes* carry records to the journal: for senders that are acknowledged, and for those that are
//! not. In between, the *limiter* holds back records of keys above their *quota*, if there is one.
//!
//! Invariants: the socket is bound before the thread starts, so a port in use is an error at start;
//! each thread of a source has one event loop with a socket and lanes of its own, so threads share
//! only statistics and the limits on connections; a request is answered with success only when all
//! of its records are on stable storage; while the journal has no room, nothing more is read.

mod accept;
mod connection;
mod cpu;
mod datagrams;
mod grpc;
mod http;
mod lanes;
mod limiter;
pub(in crate::source) mod limits;
mod quota;
#[cfg(test)]
mod simulate;
mod socket;
mod stream;
mod wakes;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::task::LocalSet;
use weir_host::{Clock, ConnectError, Disk, OpenMode, WakeFd};
use weir_journal::Journal;

use crate::config::{ListenEndpoint, ListenSettings};
use crate::rule::RuleSwitch;
use crate::source::{DropsondeSource, LoggregatorSource, StatsdSource, SyslogSource};
use crate::stats::SourceStats;

pub(super) use cpu::CpuTime;
pub(super) use http::{
    Answer, Body, BodyError, Budget, Charge, Request, RequestContext, retry_after_seconds,
};
pub(super) use lanes::{GatheredLanes, LaneContext, Refusal};
use limiter::SharedQuota;
pub(super) use limiter::{Claim, Incoming, Limiter};
pub(super) use limits::GATHER_TIME;
pub(super) use quota::{BuildIdentity, KeyFields, KeyName, Origin};
pub(super) use wakes::Wakes;

use accept::{Admission, Service};
use datagrams::DatagramIntake;
use grpc::GrpcService;
use http::HttpService;
use lanes::AcknowledgedLanes;
use limits::{GATHER_TIME_OF_ENVELOPES, LISTENER_THREADS_MAX};
use socket::Socket;
use stream::{LineService, RelpService};

/// Dependencies and settings of a listening source.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) settings: ListenSettings,
    pub(super) journal: Journal,
    pub(super) rules: Arc<RuleSwitch>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) stats: Arc<SourceStats>,
    /// File for the number of records that the first thread received without acknowledgement; those
    /// of other threads are next to it.
    pub(super) received_file: PathBuf,
    pub(super) stop: Arc<AtomicBool>,
}

impl Parts {
    /// Returns the file with the number of records that a thread received.
    fn received_file(&self, thread: usize) -> PathBuf {
        if thread == 0 {
            return self.received_file.clone();
        }
        // Names of sources have no dots.
        let mut path = self.received_file.clone().into_os_string();
        path.push(format!(".{thread}"));
        path.into()
    }

    /// Counts records that threads that are no longer configured received but did not store before
    /// weir was killed. If the journal has no room, they are counted at the next start.
    fn count_losses_of_former_threads(&self, context: &LaneContext) {
        for thread in self.settings.threads..LISTENER_THREADS_MAX {
            let path = self.received_file(thread);
            if self.disk.open(&path, OpenMode::Read).is_ok() {
                let context = LaneContext { thread, ..context.clone() };
                GatheredLanes::open(context, &*self.disk, &path);
            }
        }
    }
}

/// The protocol of a listener.
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
    /// Envelopes of Loggregator, version 1, in datagrams.
    Dropsonde(Box<DropsondeSource>),
    /// Metrics of statsd, in datagrams.
    Statsd(Box<StatsdSource>),
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

    fn gather_time(&self) -> Duration {
        match self {
            Self::Loggregator(_) | Self::Dropsonde(_) => GATHER_TIME_OF_ENVELOPES,
            Self::DatadogIntake(..)
            | Self::SyslogStream(_)
            | Self::SyslogDatagrams(_)
            | Self::Relp(_)
            | Self::Statsd(_) => GATHER_TIME,
        }
    }
}

/// Why a listener could not start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Its port cannot be opened.
    #[error("cannot listen on {address}: {}", reason(error))]
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

/// An address in use without the number of the system error.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is in use".to_owned(),
        _ => error.to_string(),
    }
}

impl ListenError {
    /// Whether another process, or another part of weir, uses the address or the path.
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Port { error, .. } | Self::Path { error, .. } => {
                error.kind() == io::ErrorKind::AddrInUse
            }
            Self::Tls(_) => false,
        }
    }
}

/// One thread of a source: a bound socket with its protocol.
pub(super) struct Listener {
    parts: Parts,
    thread: usize,
    wake: WakeFd,
    protocol: Protocol,
    socket: Socket,
    admission: Admission,
    /// The quotas, which the threads share.
    quota: Option<Arc<SharedQuota>>,
}

impl Listener {
    /// Binds a socket for each thread, which is woken by one of `wakes`.
    pub(super) fn bind(
        parts: &Parts,
        wakes: &[WakeFd],
        protocol: impl Fn() -> Protocol,
    ) -> Result<Vec<Self>, ListenError> {
        let admission = Admission::new(&parts.settings)?;
        let (sockets, endpoint) = Socket::bind(&parts.settings.endpoint, wakes.len())?;
        parts.journal.register_source(&parts.name);
        parts.stats.listener.open(&endpoint);
        let quota = parts.settings.rate_limit.as_ref().map(SharedQuota::new);
        let has_tls = parts.settings.tls.is_some();
        tracing::info!(source = parts.name, endpoint, tls = has_tls, "source listens");
        let listener = |(thread, (socket, wake)): (usize, (Socket, &WakeFd))| Self {
            parts: parts.clone(),
            thread,
            wake: wake.clone(),
            protocol: protocol(),
            socket,
            admission: admission.clone(),
            quota: quota.clone(),
        };
        Ok(sockets.into_iter().zip(wakes).enumerate().map(listener).collect())
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
        let Self { parts, thread, wake, protocol, socket, admission, quota } = self;
        parts.journal.on_room(wake.clone());
        let context = LaneContext {
            name: parts.name.clone(),
            thread,
            journal: parts.journal.clone(),
            rules: parts.rules.clone(),
            clock: parts.clock.clone(),
            stats: parts.stats.clone(),
            gather_time: protocol.gather_time(),
        };
        let gathered = || {
            if thread == 0 {
                parts.count_losses_of_former_threads(&context);
            }
            GatheredLanes::open(context.clone(), &*parts.disk, &parts.received_file(thread))
        };
        let acknowledged = || AcknowledgedLanes::open(context.clone());
        let settings = parts.settings.rate_limit.as_ref();
        let limiter =
            settings.zip(quota).map(|(settings, quota)| Limiter::new(settings, quota, &context));
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
                let fields = Limiter::fields_of(limiter.as_ref());
                let intake = DatagramIntake::syslog(&source, fields);
                let lanes = gathered();
                opened();
                return datagrams::serve(socket, intake, lanes, &context, limiter, &wake, &parts)
                    .await;
            }
            Protocol::Dropsonde(source) => {
                let fields = Limiter::fields_of(limiter.as_ref());
                let intake = DatagramIntake::dropsonde(&source, fields);
                let lanes = gathered();
                opened();
                return datagrams::serve(socket, intake, lanes, &context, limiter, &wake, &parts)
                    .await;
            }
            Protocol::Statsd(source) => {
                let fields = Limiter::fields_of(limiter.as_ref());
                let intake = DatagramIntake::statsd(&parts.name, &source, fields);
                let lanes = gathered();
                opened();
                return datagrams::serve(socket, intake, lanes, &context, limiter, &wake, &parts)
                    .await;
            }
        };
        opened();
        accept::serve(Rc::new(service), socket, admission, &wake, &parts).await
    }
}
