//! gRPC on accepted connections, for protocols without acknowledgement: streams of messages, and
//! calls with one message.
//!
//! A connection is HTTP/2. Each of its streams is served by a task of the listener's event loop,
//! which splits the received data into messages and passes their records to the lanes. Flow control
//! is the back pressure: while the journal has no room, or a key is above its quota, a stream is
//! not read and its window is not extended. Windows are small, but those of a connection that has
//! sent much are wide, so that its client need not wait for each answer.
//!
//! Modules: `call` (which method is called, and statuses), `receive` (one stream).
//!
//! Invariants: a connection buffers at most one window per stream; incomplete messages share a
//! memory limit; the records of a complete message are taken even after its connection has ended.

mod call;
mod receive;

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use weir_host::ConnectionSlot;

use super::accept::Connection;
use super::connection::count_evicted;
use super::cpu::CpuTime;
use super::lanes::{GatheredLanes, LaneContext};
use super::limiter::Limiter;
use super::limits::{
    GRPC_CONNECTION_BYTES, GRPC_FRAME_BYTES_MAX, GRPC_STREAMS_MAX, GRPC_WIDE_CONNECTION_BYTES,
    GRPC_WIDE_MAX, GRPC_WIDE_WINDOW_BYTES, GRPC_WINDOW_BYTES, HEAD_TIMEOUT, KEEP_ALIVE_INTERVAL,
    KEEP_ALIVE_TIMEOUT, METADATA_BYTES_MAX, SMALL_FRAMES_BYTES_MAX,
};
use crate::source::LoggregatorSource;
use crate::source::loggregator::LoggregatorIntake;
use crate::stats::SourceStats;

/// Serves the connections of a source.
pub(super) struct GrpcService {
    intake: RefCell<LoggregatorIntake>,
    lanes: Rc<GatheredLanes>,
    context: LaneContext,
    limiter: Option<Rc<Limiter>>,
    /// A permit for each byte of incomplete messages.
    memory: Arc<Semaphore>,
    /// A permit for each connection with wide windows.
    wide: Arc<Semaphore>,
    /// Unused buffers for incomplete messages.
    spare: RefCell<Vec<Vec<u8>>>,
    cpu_time: CpuTime,
}

/// Properties that a stream has from its connection.
#[derive(Clone)]
struct Caller {
    peer: Option<IpAddr>,
    slot: ConnectionSlot,
    /// A stream has sent so much that its connection should have wide windows.
    is_heavy: Rc<Notify>,
    stopped: watch::Receiver<bool>,
}

impl GrpcService {
    pub(super) fn new(
        source: &LoggregatorSource,
        lanes: Rc<GatheredLanes>,
        context: LaneContext,
        limiter: Option<Rc<Limiter>>,
    ) -> Rc<Self> {
        let fields = Limiter::fields_of(limiter.as_ref());
        Rc::new(Self {
            intake: RefCell::new(LoggregatorIntake::new(&source.tags, fields)),
            lanes,
            context,
            limiter,
            memory: Arc::new(Semaphore::new(source.in_flight_bytes_max)),
            wide: Arc::new(Semaphore::new(GRPC_WIDE_MAX)),
            spare: RefCell::default(),
            cpu_time: CpuTime::default(),
        })
    }

    pub(super) fn stats(&self) -> &Arc<SourceStats> {
        &self.context.stats
    }

    pub(super) fn wake(&self) {
        self.lanes.wake();
    }

    /// Appends gathered records in time; never returns.
    pub(super) async fn run(&self) {
        match &self.limiter {
            None => self.lanes.flush_in_time().await,
            Some(limiter) => {
                tokio::join!(self.lanes.flush_in_time(), limiter.run_gathered(&self.lanes));
            }
        }
    }

    pub(super) async fn finish(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.finish_gathered(&self.lanes);
        }
        self.lanes.drain().await;
        self.cpu_time.publish_now(&self.context.stats);
    }

    /// Serves the streams of a connection until it ends.
    pub(super) async fn serve(
        self: &Rc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: &Connection,
        stopped: watch::Receiver<bool>,
    ) {
        let (peer, slot) = (connection.peer, connection.slot.clone());
        let caller = Caller { peer, slot, is_heavy: Rc::default(), stopped };
        let mut streams = JoinSet::new();
        self.accept(stream, connection, &caller, &mut streams).await;
        // Their received records are taken.
        while streams.join_next().await.is_some() {}
    }

    async fn accept(
        self: &Rc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: &Connection,
        caller: &Caller,
        streams: &mut JoinSet<()>,
    ) {
        let mut evicted = std::pin::pin!(connection.slot.evicted());
        let mut stopped = caller.stopped.clone();
        let handshake = timeout(HEAD_TIMEOUT, settings().handshake::<_, Bytes>(stream));
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            () = evicted.as_mut() => return count_evicted(self.stats()),
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let mut transport = match shaken {
            Ok(Ok(transport)) => transport,
            Ok(Err(error)) => return self.count("connection", &error.to_string()),
            Err(_) => return self.count("connection", "the client did not start HTTP/2 in time"),
        };
        let mut dead = std::pin::pin!(keep_alive(transport.ping_pong()));
        let mut is_stopping = false;
        let mut wide = None;
        loop {
            let accepted = tokio::select! {
                accepted = poll_fn(|context| transport.poll_accept(context)) => accepted,
                () = caller.is_heavy.notified(), if wide.is_none() => {
                    wide = self.widen(&mut transport);
                    continue;
                }
                () = evicted.as_mut() => return count_evicted(self.stats()),
                () = dead.as_mut() => return self.count("connection", "the client is unresponsive"),
                _ = stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                    is_stopping = true;
                    transport.graceful_shutdown();
                    continue;
                }
            };
            while streams.try_join_next().is_some() {}
            match accepted {
                None => return,
                Some(Err(error)) => return self.count("connection", &error.to_string()),
                Some(Ok((request, respond))) => {
                    let (service, caller) = (Rc::clone(self), caller.clone());
                    streams.spawn_local(async move {
                        service.answer(request, respond, caller).await;
                    });
                }
            }
        }
    }

    /// Lets a client send more before it is read, if not too many do.
    fn widen<T>(
        &self,
        transport: &mut h2::server::Connection<T, Bytes>,
    ) -> Option<OwnedSemaphorePermit>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let permit = Arc::clone(&self.wide).try_acquire_owned().ok()?;
        // Fails if the client has not acknowledged the first settings.
        transport.set_initial_window_size(GRPC_WIDE_WINDOW_BYTES).ok()?;
        transport.set_target_window_size(GRPC_WIDE_CONNECTION_BYTES);
        Some(permit)
    }

    fn count(&self, kind: &'static str, text: &str) {
        self.stats().errors.count(kind, text);
    }
}

fn settings() -> h2::server::Builder {
    let mut settings = h2::server::Builder::new();
    settings
        .initial_window_size(GRPC_WINDOW_BYTES)
        .initial_connection_window_size(GRPC_CONNECTION_BYTES)
        .max_concurrent_streams(GRPC_STREAMS_MAX)
        .max_frame_size(GRPC_FRAME_BYTES_MAX)
        .max_header_list_size(METADATA_BYTES_MAX)
        .data_frame_budget(SMALL_FRAMES_BYTES_MAX);
    settings
}

/// Returns when the client does not answer a ping in time.
async fn keep_alive(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(KEEP_ALIVE_INTERVAL).await;
        match timeout(KEEP_ALIVE_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection is ending, which `serve` notices itself.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
