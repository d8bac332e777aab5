//! Accepting connections of the readers' services, and serving them with HTTP/1.1 and 2.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, LOCATION};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use weir_expr::Network;
use weir_host::{AddressShare, AddressShares, ConnectionSlot, ConnectionSlots};
use weir_pipeline::live::ReaderService;

use super::body::ServiceBody;
use super::health::{HealthOf, HealthState};
use super::limits::{
    ACCEPT_PAUSE, HEAD_BYTES_MAX, HEAD_TIMEOUT, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT,
    SEND_BYTES_MAX, SHUTDOWN_TIMEOUT, WRITE_TIMEOUT,
};
use super::query::cleaned_path;
use super::websocket::Session;
use super::{ServiceState, containers, egress, gateway, health, log_cache, traffic_controller};
use crate::absence::{prepare_connection, with_write_timeout};
use crate::gathering::gathered;
use crate::guard::set_host;

/// The origin that Go clients of the traffic controller (noaa) send, which are not pages.
const CLIENT_ORIGIN: &str = "http://localhost";

/// A path without data, for pages of other sites: they set the cookie with which a browser reads
/// what needs a token.
const SET_COOKIE_PATH: &str = "/set-cookie";

/// Path prefix of the log-cache, which is also served on the ports that it shared with others.
const LOG_CACHE_PATHS: &str = "/api/v1/";

/// Starts the thread.
pub(super) fn spawn(
    listeners: Vec<(Arc<ServiceState>, TcpListener)>,
    (health_state, ports): (Arc<HealthState>, Vec<(HealthOf, TcpListener)>),
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("weir-readers".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut all = JoinSet::new();
            for (state, listener) in listeners {
                if state.settings.service == ReaderService::TrafficController {
                    all.spawn(containers::follow(state.clone()));
                }
                all.spawn(serve(state, listener));
            }
            for (of, listener) in ports {
                all.spawn(health::serve(health_state.clone(), of, listener));
            }
            while all.join_next().await.is_some() {}
        });
    })
}

async fn serve(state: Arc<ServiceState>, listener: TcpListener) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the readers' service cannot listen"),
    };
    let slots = ConnectionSlots::new(state.settings.connections_max);
    let by_address = AddressShares::new(state.settings.connections_per_address_max);
    let mut stopped = state.stopped.clone();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => {
                let address = peer.ip().to_canonical();
                let Some(share) = admit(&state, &by_address, address) else { continue };
                let slot = slots.take().await;
                let state = state.clone();
                connections.spawn(async move {
                    connection(&state, stream, peer, slot).await;
                    drop(share);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the readers' service cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(SHUTDOWN_TIMEOUT, all_ended).await.is_err() {
        tracing::debug!("connections of readers were cut off");
    }
}

/// Whether an address may connect.
fn admit(
    state: &ServiceState,
    by_address: &AddressShares,
    address: IpAddr,
) -> Option<AddressShare> {
    if !Network::allow(&state.settings.allowed_networks, address) {
        state.refuse("the address is not allowed");
        return None;
    }
    let share = by_address.take(address);
    if share.is_none() {
        state.refuse("the address has too many connections");
    }
    share
}

async fn connection(
    state: &Arc<ServiceState>,
    tcp: TcpStream,
    peer: SocketAddr,
    slot: ConnectionSlot,
) {
    prepare_connection(&tcp, WRITE_TIMEOUT);
    let Some(tls) = &state.tls else { return serve_stream(state, tcp, peer, &slot).await };
    let accepted = tokio::select! {
        accepted = tls.accept(tcp) => accepted,
        () = slot.evicted() => return,
    };
    match accepted {
        Ok(stream) => serve_stream(state, stream, peer, &slot).await,
        Err(error) => state.refuse(&format!("no TLS: {error}")),
    }
}

async fn serve_stream(
    state: &Arc<ServiceState>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    slot: &ConnectionSlot,
) {
    let (stream, gatherer) = gathered(with_write_timeout(stream, WRITE_TIMEOUT));
    let working = OnceLock::new();
    let upgraded: Arc<Mutex<Option<Session>>> = Arc::default();
    let service = service_fn(|request: Request<Incoming>| {
        slot.admit();
        // An open connection is never considered idle: its streams may be silent for hours.
        working.get_or_init(|| slot.working());
        let (state, upgraded) = (state.clone(), upgraded.clone());
        async move { Ok::<_, Infallible>(answer(&state, request, peer, &upgraded).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_concurrent_streams(state.settings.streams_max.min(u32::MAX as usize) as u32);
    match state.settings.service {
        ReaderService::Egress => builder = builder.http2_only(),
        ReaderService::Gateway | ReaderService::LogCache => {}
        ReaderService::TrafficController => builder = builder.http1_only(),
    }
    let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut stopped = state.stopped.clone();
    let ended = tokio::select! {
        ended = gatherer.drive(serving.as_mut()) => Some(ended),
        _ = stopped.wait_for(|stopped| *stopped) => None,
        () = slot.evicted() => return,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        serving.as_mut().graceful_shutdown();
        gatherer.drive(serving.as_mut()).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the connection of a reader ended with an error");
        return;
    }
    let session = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(session) = session {
        session.run().await;
    }
}

/// Redirects to another path, as the original does.
fn moved(path: &str, query: Option<&str>) -> Option<Response<ServiceBody>> {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(ServiceBody::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let location = HeaderValue::from_str(&format!("{path}{query}")).ok()?;
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

/// Rejects a request that a page of another site may have sent, if clients are not identified:
/// browsers let any page open and read a `WebSocket` connection to any site.
fn foreign(state: &ServiceState, headers: &HeaderMap) -> Option<Response<ServiceBody>> {
    let (code, reason) = state.hosts.as_ref()?.foreign(headers, Some(CLIENT_ORIGIN))?;
    state.refuse(&reason);
    let mut response = Response::new(ServiceBody::Whole(Some((reason + "\n").into())));
    *response.status_mut() = code;
    Some(response)
}

/// Answers a request. If its connection becomes a WebSocket, the stream is put into `upgraded`.
async fn answer(
    state: &Arc<ServiceState>,
    mut request: Request<Incoming>,
    peer: SocketAddr,
    upgraded: &Mutex<Option<Session>>,
) -> Response<ServiceBody> {
    set_host(&mut request);
    if request.uri().path() != SET_COOKIE_PATH
        && let Some(rejection) = foreign(state, request.headers())
    {
        return rejection;
    }
    if state.settings.service != ReaderService::Egress
        && let Some(cleaned) = cleaned_path(request.uri().path())
        && let Some(response) = moved(&cleaned, request.uri().query())
    {
        return response;
    }
    if request.uri().path().starts_with(LOG_CACHE_PATHS)
        && let Some(log_cache) = state.log_cache.get()
    {
        return log_cache::answer(log_cache, request).await;
    }
    match state.settings.service {
        ReaderService::Egress => egress::answer(state, request, peer).await,
        ReaderService::Gateway => gateway::answer(state, request, peer).await,
        ReaderService::TrafficController => {
            let (response, session) = traffic_controller::answer(state, request, peer).await;
            *upgraded.lock().unwrap_or_else(PoisonError::into_inner) = session;
            response
        }
        ReaderService::LogCache => log_cache::answer(state, request).await,
    }
}
