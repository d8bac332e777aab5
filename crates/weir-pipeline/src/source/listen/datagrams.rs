//! Messages in datagrams: syslog over UDP and Unix datagram sockets, and Loggregator envelopes and
//! statsd metrics over UDP.
//!
//! While the journal has no room, no datagram is read. The kernel then buffers datagrams up to the
//! size of its receive buffer and counts further ones as dropped; these drops are in the source's
//! book. Senders to a Unix socket wait instead.
//!
//! Invariants: one datagram is one message, except with statsd; drops of the kernel are counted
//! exactly; a datagram from a sender that is not allowed only costs the check of its address.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use weir_codec::syslog_datagram;
use weir_expr::Network;
use weir_host::{Datagram, DatagramBuffers, DatagramSocket, WakeFd};
use weir_model::DiscardReason;

use super::KeyFields;
use super::Parts;
use super::cpu::CpuTime;
use super::lanes::{Blocked, GatheredLanes, LaneContext};
use super::limiter::{Incoming, Limiter, Round};
use super::limits::{DRAIN_TIME, DROPS_INTERVAL};
use super::socket::Socket;
use super::wakes::Wakes;
use crate::source::loggregator::{LoggregatorIntake, LoggregatorVersion};
use crate::source::statsd::StatsdIntake;
use crate::source::syslog::{Received, SyslogIntake};
use crate::source::{DropsondeSource, StatsdSource, SyslogSource};

/// The protocol of datagrams.
pub(super) enum DatagramIntake {
    /// Syslog messages, truncated at this length.
    Syslog(Box<SyslogIntake>, usize),
    /// Loggregator envelopes of version 1.
    Dropsonde(Box<LoggregatorIntake>),
    /// Metrics of statsd.
    Statsd(Box<StatsdIntake>),
}

impl DatagramIntake {
    pub(super) fn syslog(source: &SyslogSource, quota_fields: KeyFields) -> Self {
        let intake = SyslogIntake::new(source.zone.clone(), quota_fields);
        Self::Syslog(Box::new(intake), source.message_bytes_max)
    }

    pub(super) fn dropsonde(source: &DropsondeSource, quota_fields: KeyFields) -> Self {
        Self::Dropsonde(Box::new(LoggregatorIntake::new(&source.tags, quota_fields)))
    }

    pub(super) fn statsd(name: &str, source: &StatsdSource, quota_fields: KeyFields) -> Self {
        Self::Statsd(Box::new(StatsdIntake::new(name, &source.tags, quota_fields)))
    }
}

/// Receives the datagrams of one socket.
struct Receiver<'p> {
    socket: DatagramSocket,
    buffers: DatagramBuffers,
    /// The first of the received datagrams that was not taken yet.
    next: usize,
    intake: RefCell<DatagramIntake>,
    limiter: Option<Rc<Limiter>>,
    allowed: &'p [Network],
    lanes: Rc<GatheredLanes>,
    context: &'p LaneContext,
    /// Drops of the kernel that are in the book.
    drops: Cell<u64>,
    drops_checked_at: Cell<Duration>,
    cpu_time: CpuTime,
}

/// Receives until told to stop, then reads the datagrams that have arrived by then.
pub(super) async fn serve(
    socket: Socket,
    intake: DatagramIntake,
    lanes: Rc<GatheredLanes>,
    context: &LaneContext,
    limiter: Option<Rc<Limiter>>,
    wake: &WakeFd,
    parts: &Parts,
) -> io::Result<()> {
    let (socket, _name) = socket.datagrams()?;
    let wakes = Wakes::new(wake)?;
    let mut receiver = Receiver {
        socket,
        buffers: DatagramBuffers::default(),
        next: 0,
        intake: RefCell::new(intake),
        limiter: limiter.clone(),
        allowed: &parts.settings.allowed_networks,
        lanes: Rc::clone(&lanes),
        context,
        drops: Cell::new(0),
        drops_checked_at: Cell::default(),
        cpu_time: CpuTime::default(),
    };
    let stopped = async {
        while !parts.stop.load(Ordering::Acquire) {
            wakes.next().await?;
            lanes.wake();
        }
        io::Result::Ok(())
    };
    tokio::select! {
        stopped = stopped => stopped?,
        failed = receiver.run() => failed?,
        () = lanes.flush_in_time() => {}
        () = report(limiter.as_deref(), &lanes) => {}
    }
    let ending = async {
        receiver.drain().await;
        if let Some(limiter) = &limiter {
            limiter.finish_gathered(&lanes);
        }
        lanes.drain().await;
    };
    if !wakes.finish(|| lanes.wake(), ending).await {
        tracing::warn!(source = parts.name, "the journal has no room for the last records");
    }
    receiver.cpu_time.publish_now(&context.stats);
    Ok(())
}

/// Reports records above the rate limit, if there is one; never returns.
async fn report(limiter: Option<&Limiter>, lanes: &GatheredLanes) {
    match limiter {
        Some(limiter) => limiter.run_gathered(lanes).await,
        None => std::future::pending().await,
    }
}

impl Receiver<'_> {
    /// Receives until the socket fails.
    async fn run(&mut self) -> io::Result<()> {
        loop {
            self.lanes.room().await;
            // Drops are counted even while nothing arrives.
            match timeout(DROPS_INTERVAL, self.socket.readable()).await {
                Ok(readable) => {
                    readable?;
                    self.receive().await?;
                }
                Err(_) => self.count_drops(),
            }
        }
    }

    /// Receives the datagrams that have arrived, for a limited time if senders do not stop.
    async fn drain(&mut self) {
        let until = Instant::now() + DRAIN_TIME;
        while Instant::now() < until && self.receive().await.is_ok_and(|count| count > 0) {}
        self.count_drops();
    }

    /// Receives some datagrams and takes them; returns their number. If it is cancelled while there
    /// is no room, the next call continues with the received ones.
    async fn receive(&mut self) -> io::Result<usize> {
        if self.next == self.buffers.len() {
            self.next = 0;
            self.socket.receive(&mut self.buffers)?;
        }
        let observed_ns = self.context.clock.unix_ns();
        let mut round = self.limiter.as_ref().map(|limiter| limiter.round()).unwrap_or_default();
        loop {
            while let Some(datagram) = self.buffers.get(self.next)
                && self.take(&datagram, observed_ns, &mut round)
            {
                self.next += 1;
            }
            round.count(&self.lanes);
            self.lanes.mark_received();
            if self.next == self.buffers.len() {
                break;
            }
            self.lanes.room().await;
        }
        let now = self.context.clock.monotonic();
        if now.saturating_sub(self.drops_checked_at.get()) >= DROPS_INTERVAL {
            self.count_drops();
        }
        // A socket that is never empty must not starve the other tasks of this thread.
        tokio::task::yield_now().await;
        Ok(self.buffers.len())
    }

    /// Takes a datagram. Returns false if the journal has no room for it.
    fn take(&self, datagram: &Datagram<'_>, observed_ns: i64, round: &mut Round) -> bool {
        if let Some(peer) = datagram.peer
            && !Network::allow(self.allowed, peer)
        {
            let text = format!("{peer} may not send to this source");
            self.context.stats.errors.count("not_allowed", &text);
            return true;
        }
        match &mut *self.intake.borrow_mut() {
            DatagramIntake::Syslog(intake, bytes_max) => {
                let (line, skipped) = syslog_datagram(datagram.bytes, *bytes_max);
                if line.is_empty() {
                    return true;
                }
                let mut parsed = intake.parse(Received {
                    line,
                    is_truncated: skipped > 0 || datagram.is_truncated,
                    skipped_bytes: skipped as u64,
                    peer: datagram.peer,
                    observed_ns,
                });
                self.push(&mut parsed, round).is_ok()
            }
            DatagramIntake::Dropsonde(intake) => {
                let version = LoggregatorVersion::V1 { is_agent: true };
                let mut parsed = intake.parse(version, datagram.bytes, datagram.peer, observed_ns);
                let error = parsed.error();
                let pushed = self.push(&mut parsed, round);
                if let Some(error) = error.filter(|_| pushed.is_ok()) {
                    self.context.stats.errors.count("malformed_envelope", &error.to_string());
                }
                pushed.is_ok()
            }
            DatagramIntake::Statsd(intake) => {
                let errors = &self.context.stats.errors;
                intake.open(datagram.bytes, observed_ns, |error| {
                    errors.count("malformed_metric", &error.to_string());
                });
                while let Some(mut parsed) = intake.next(datagram.peer, observed_ns) {
                    if self.push(&mut parsed, round).is_err() {
                        return false;
                    }
                    intake.taken();
                }
                true
            }
        }
    }

    fn push(&self, parsed: &mut impl Incoming, round: &mut Round) -> Result<(), Blocked> {
        if let Some(limiter) = &self.limiter {
            return limiter.push(&self.lanes, parsed, round);
        }
        let lane = GatheredLanes::lane_of(parsed.lane_hash());
        self.lanes.push(lane, |batch, end, book| parsed.push(batch, end, book))
    }

    /// Adds the datagrams that the kernel has dropped since the last call to the book.
    fn count_drops(&self) {
        self.drops_checked_at.set(self.context.clock.monotonic());
        let drops = self.socket.kernel_drops();
        let more = drops.saturating_sub(self.drops.get());
        if more > 0 {
            self.drops.set(drops);
            self.lanes.count_lost(DiscardReason::ReceiveBuffer, more);
            let text = format!("the kernel dropped {more} datagrams: the receive buffer was full");
            self.context.stats.errors.count("receive_buffer", &text);
        }
        self.cpu_time.publish_now(&self.context.stats);
    }
}
