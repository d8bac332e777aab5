//! Streams of envelopes over websockets: each is a binary message.
//!
//! Invariants: a client that does not answer a ping in time, or does not accept an envelope in
//! time, is closed with the reason, if it still accepts that; envelopes that were not sent to it
//! are counted; messages from clients are discarded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::http::uri::PathAndQuery;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use weir_codec::LoggregatorBatch;
use weir_pipeline::live::{EnvelopeChunk, EnvelopeStream};
use weir_pipeline::originals::{Original, OriginalEvent};

use super::ServiceState;
use super::limits::{
    CLIENT_MESSAGE_BYTES_MAX, CLIENT_TEXT_CHARS_MAX, CLOSE_TIMEOUT, PING_PAUSE, PONG_TIMEOUT,
    SLOW_TIMEOUT, SOCKET_READ_BYTES, SOCKET_WRITE_BYTES,
};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A requested stream, once its connection is a WebSocket.
pub(super) struct Session {
    pub(super) on_upgrade: OnUpgrade,
    pub(super) envelopes: EnvelopeStream,
    pub(super) state: Arc<ServiceState>,
    pub(super) client: Client,
    pub(super) _permit: OwnedSemaphorePermit,
}

/// The client of a stream, for messages.
#[derive(Debug)]
pub(super) struct Client {
    address: SocketAddr,
    /// Its `X-Forwarded-For`.
    forwarded_for: String,
    /// The requested URL.
    url: String,
}

impl Client {
    pub(super) fn new(address: SocketAddr, headers: &HeaderMap, uri: &Uri) -> Self {
        let values = headers.get_all("x-forwarded-for").iter();
        let values: Vec<_> =
            values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let url = uri.path_and_query().map_or("", PathAndQuery::as_str);
        let shortened = |text: &str| text.chars().take(CLIENT_TEXT_CHARS_MAX).collect();
        Self { address, forwarded_for: shortened(&values.join(", ")), url: shortened(url) }
    }

    /// The event that the original sends when it ends a stream.
    fn slow_event(&self, timestamp_ns: i64) -> OriginalEvent {
        let Self { address, forwarded_for, url } = self;
        OriginalEvent {
            of: Original::TrafficController,
            timestamp_ns,
            title: "Traffic Controller has disconnected slow consumer",
            body: format!(
                "Remote Address: {address}\nX-Forwarded-For: {forwarded_for}\nPath: {url}\n\n\
                 When Loggregator detects a slow connection, that connection is disconnected to \
                 prevent back pressure on the system. This may be due to improperly scaled nozzles, \
                 or slow user connections to Loggregator"
            ),
        }
    }
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client has disconnected.
    Left,
    /// It did not answer a ping.
    Silent,
    /// It did not accept an envelope in time.
    Slow,
    /// Weir is stopping, or has a new configuration.
    Over,
}

/// Checks whether a request asks for a WebSocket. Returns its future connection, and the value of
/// the header with which it is accepted.
pub(super) fn handshake<B>(request: &mut Request<B>) -> Result<(OnUpgrade, String), StatusCode> {
    let headers = request.headers();
    if !has_token(headers, &CONNECTION, "upgrade") || !has_token(headers, &UPGRADE, "websocket") {
        return Err(StatusCode::BAD_REQUEST);
    }
    if request.method() != Method::GET {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !has_token(headers, &SEC_WEBSOCKET_VERSION, "13") {
        return Err(StatusCode::BAD_REQUEST);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
    let accept = derive_accept_key(key.ok_or(StatusCode::BAD_REQUEST)?.as_bytes());
    Ok((hyper::upgrade::on(request), accept))
}

/// The headers with which a websocket is accepted.
pub(super) fn accept(headers: &mut HeaderMap, accept: &str) {
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(accept) = HeaderValue::from_str(accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

impl Session {
    /// Sends envelopes until the stream ends.
    pub(super) async fn run(self) {
        let Self { on_upgrade, envelopes, state, client, _permit } = self;
        let Ok(connection) = on_upgrade.await else { return };
        let config = WebSocketConfig::default()
            .read_buffer_size(SOCKET_READ_BYTES)
            .write_buffer_size(SOCKET_WRITE_BYTES)
            .max_message_size(Some(CLIENT_MESSAGE_BYTES_MAX))
            .max_frame_size(Some(CLIENT_MESSAGE_BYTES_MAX));
        let connection = TokioIo::new(connection);
        let socket = Socket::from_raw_socket(connection, Role::Server, Some(config)).await;
        let (mut sink, mut stream) = socket.split();
        let (ping, pong) = (Notify::new(), Notify::new());
        let mut sender = Sender { sink: &mut sink, envelopes, ping: &ping };
        let mut stopped = state.stopped.clone();
        let end = tokio::select! {
            () = read(&mut stream, &pong) => End::Left,
            () = keep_alive(&ping, &pong) => End::Silent,
            end = sender.send() => end,
            _ = stopped.wait_for(|stopped| *stopped) => End::Over,
        };
        // Discards and counts the envelopes that wait.
        drop(sender);
        match end {
            End::Left => return,
            End::Slow => {
                if let Some(view) = state.view() {
                    view.reader_service(state.settings.service).cut.fetch_add(1, Ordering::Relaxed);
                    view.note_original_event(client.slow_event(state.clock.unix_ns()));
                }
                let Client { address, url, .. } = client;
                tracing::info!(%address, url, "a reader was too slow: ended its stream");
            }
            End::Silent => tracing::debug!(url = client.url, "a reader did not answer a ping"),
            End::Over => {}
        }
        let closing = async {
            if sink.send(Message::Close(Some(end.frame()))).await.is_ok() {
                // The client confirms; closing earlier could discard data in flight.
                read(&mut stream, &pong).await;
            }
        };
        let _gone = timeout(CLOSE_TIMEOUT, closing).await;
    }
}

impl End {
    /// Code and reason.
    fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Left => (CloseCode::Normal, ""),
            Self::Silent => (
                CloseCode::Policy,
                "Client did not respond to ping before keep-alive timeout expired.",
            ),
            Self::Slow => {
                (CloseCode::Policy, "Client was too slow: it accepted no envelope within 5 s.")
            }
            Self::Over => (CloseCode::Away, "The server is stopping, or has a new configuration."),
        };
        CloseFrame { code, reason: reason.into() }
    }
}

/// Reads until the client disconnects. Pings are answered, and messages discarded.
async fn read(stream: &mut SplitStream<Socket>, pong: &Notify) {
    loop {
        match stream.next().await {
            Some(Ok(Message::Pong(_))) => pong.notify_one(),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            Some(Ok(
                Message::Text(_) | Message::Binary(_) | Message::Ping(_) | Message::Frame(_),
            )) => {}
        }
    }
}

/// Pings the client; returns if it does not answer.
async fn keep_alive(ping: &Notify, pong: &Notify) {
    loop {
        ping.notify_one();
        if timeout(PONG_TIMEOUT, pong.notified()).await.is_err() {
            return;
        }
        sleep(PING_PAUSE).await;
    }
}

/// Sends envelopes and pings.
struct Sender<'s> {
    sink: &'s mut SplitSink<Socket, Message>,
    envelopes: EnvelopeStream,
    ping: &'s Notify,
}

impl Sender<'_> {
    async fn send(&mut self) -> End {
        loop {
            let sent = tokio::select! {
                biased;
                () = self.ping.notified() => in_time(self.sink.send(Message::Ping(Bytes::new()))).await,
                chunk = self.envelopes.next() => match chunk {
                    None => return End::Over,
                    Some(chunk) => self.send_chunk(chunk).await,
                },
            };
            if let Err(end) = sent {
                return end;
            }
        }
    }

    async fn send_chunk(&mut self, chunk: EnvelopeChunk) -> Result<(), End> {
        let mut left = chunk.envelopes();
        let batch = chunk.into_batch();
        for envelope in LoggregatorBatch::new(&batch).flatten() {
            let message = Message::Binary(batch.slice_ref(envelope));
            if let Err(end) = in_time(self.sink.feed(message)).await {
                self.envelopes.give_up(left as u64);
                return Err(end);
            }
            // Envelopes that report a loss are not counted, and are sent alone.
            left = left.saturating_sub(1);
        }
        in_time(self.sink.flush()).await
    }
}

/// Waits until the client has accepted data.
async fn in_time(taking: impl Future<Output = Result<(), Error>>) -> Result<(), End> {
    match timeout(SLOW_TIMEOUT, taking).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a WebSocket ended with an error");
            Err(End::Left)
        }
        Err(_) => Err(End::Slow),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_is_pinged_until_it_does_not_answer() {
        let (ping, pong) = (Notify::new(), Notify::new());
        let start = Instant::now();
        let client = async {
            for _ in 0..3 {
                ping.notified().await;
                pong.notify_one();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = keep_alive(&ping, &pong) => {}
            () = client => {}
        }
        assert_eq!(start.elapsed(), 3 * PING_PAUSE + PONG_TIMEOUT);
    }

    #[test]
    fn reasons_fit_into_the_frame_that_closes() {
        for end in [End::Left, End::Silent, End::Slow, End::Over] {
            assert!(end.frame().reason.len() <= 123);
        }
    }

    #[test]
    fn the_event_about_a_slow_client_identifies_it_and_is_limited() {
        let mut headers = HeaderMap::new();
        for address in ["192.0.2.1", "192.0.2.2"] {
            headers.append("x-forwarded-for", HeaderValue::from_static(address));
        }
        let peer = SocketAddr::from(([192, 0, 2, 9], 4321));
        let uri = Uri::from_static("/firehose/a?filter-type=logs");
        let event = Client::new(peer, &headers, &uri).slow_event(7);
        let start = "Remote Address: 192.0.2.9:4321\nX-Forwarded-For: 192.0.2.1, 192.0.2.2\n\
                     Path: /firehose/a?filter-type=logs\n\nWhen Loggregator detects";
        assert!(event.body.starts_with(start), "{}", event.body);
        let long: Uri = format!("/firehose/{}", "x".repeat(9000)).parse().unwrap();
        let event = Client::new(peer, &headers, &long).slow_event(7);
        assert!(event.body.len() < 2 * CLIENT_TEXT_CHARS_MAX, "{}", event.body.len());
    }

    #[test]
    fn only_requests_for_websockets_are_accepted() {
        let usual = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let shake = |method: Method, without: &str| {
            let mut request = Request::builder().method(method);
            for (name, value) in usual.iter().filter(|(name, _)| *name != without) {
                request = request.header(*name, *value);
            }
            handshake(&mut request.body(()).unwrap()).map(|(_, accept)| accept)
        };
        // The example of RFC 6455.
        assert_eq!(shake(Method::GET, "").unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(shake(Method::POST, ""), Err(StatusCode::METHOD_NOT_ALLOWED));
        for (name, _) in usual {
            assert_eq!(shake(Method::GET, name), Err(StatusCode::BAD_REQUEST));
        }
    }
}
