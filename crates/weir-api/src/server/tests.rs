//! How long a stalled client can hold a connection: real sockets, and a clock that jumps to the
//! next timer whenever nothing else can happen.

use axum::Extension;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::connection::{CONNECTION_AGE_MAX, HEAD_TIMEOUT};
use super::*;
use crate::access::tokens::AccessSettings;
use crate::explore::limits::BODY_TIMEOUT;

/// The state of an API with this access control.
fn state_with(access: Option<&ApiAccess>, stopped: watch::Receiver<bool>) -> Arc<ApiState> {
    let gate = Gate::new(access, Arc::new(RealClock::new())).unwrap();
    Arc::new(ApiState::new("1.2.3", &QueryLimits::default(), gate, None, stopped))
}

/// A server with room for one connection, so that the next client is served only when the previous
/// one is gone.
struct Served {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl Served {
    fn start() -> Self {
        Self::serving(|stopped| router(state_with(None, stopped), AllowedHosts::new(&[])))
    }

    fn serving(router: impl FnOnce(watch::Receiver<bool>) -> Router) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let router = router(stopped.clone());
        Self { address, stop, serving: tokio::spawn(serve(listener, router, None, 1, stopped)) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// How long another client waits for the slot.
    async fn wait_for_slot(&self) -> Duration {
        let mut next = self.connect().await;
        let head = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        next.write_all(head).await.unwrap();
        let started = Instant::now();
        let answer = rest(&mut next).await;
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
        started.elapsed()
    }

    /// Another client has the slot now.
    async fn finish(self) {
        assert!(self.wait_for_slot().await < Duration::from_secs(1), "the slot is free at once");
        self.stop.send_replace(true);
        self.serving.await.unwrap();
    }
}

/// Reads everything up to the end of the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends it as well.
    let _reset = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// Sends a byte each second until the connection ends; returns how long that took, and the
/// response.
async fn trickle(stream: &mut TcpStream, byte: u8) -> (Duration, String) {
    let started = Instant::now();
    let (mut reader, mut writer) = stream.split();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let send = async {
        loop {
            seconds.tick().await;
            if writer.write_all(&[byte]).await.is_err() {
                return std::future::pending::<()>().await;
            }
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        () = send => {}
        _ = reader.read_to_end(&mut answer) => {}
    }
    (started.elapsed(), String::from_utf8(answer).unwrap())
}

#[track_caller]
fn assert_about(took: Duration, limit: Duration) {
    let slack = Duration::from_secs(1);
    assert!(took + slack >= limit && took <= limit + slack, "{took:?} instead of {limit:?}");
}

const SEARCH: &[u8] = b"POST /api/v2/logs/events/search HTTP/1.1\r\nhost: localhost\r\n\
    content-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"filter\":";

#[tokio::test(start_paused = true)]
async fn incomplete_request_head_times_out() {
    for sent in ["", "G", "GET /health/live HTTP/1.1\r\nhost: localhost\r\nx-padding: 0123"] {
        let served = Served::start();
        let mut stalled = served.connect().await;
        stalled.write_all(sent.as_bytes()).await.unwrap();
        let started = Instant::now();
        let answer = rest(&mut stalled).await;
        assert_about(started.elapsed(), HEAD_TIMEOUT);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
        served.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_request_head_times_out() {
    let served = Served::start();
    let mut slow = served.connect().await;
    slow.write_all(b"GET /health/live HTTP/1.1\r\nx-padding: ").await.unwrap();
    let (took, _) = trickle(&mut slow, b'0').await;
    assert_about(took, HEAD_TIMEOUT);
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed() {
    let served = Served::start();
    let mut idle = served.connect().await;
    for _ in 0..3 {
        idle.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}\n") {
            assert!(idle.read_buf(&mut answer).await.unwrap() > 0, "it ended too early");
        }
        // Much later the next one is still accepted.
        tokio::time::advance(HEAD_TIMEOUT * 5 / 6).await;
    }
    let started = Instant::now();
    assert_eq!(rest(&mut idle).await, "");
    assert_about(started.elapsed(), HEAD_TIMEOUT / 6);
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn incomplete_body_returns_408_and_closes() {
    let served = Served::start();
    let mut stalled = served.connect().await;
    stalled.write_all(SEARCH).await.unwrap();
    let started = Instant::now();
    let answer = rest(&mut stalled).await;
    assert_about(started.elapsed(), BODY_TIMEOUT);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("within 30 s"), "{answer}");
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn slow_body_times_out() {
    let served = Served::start();
    let mut slow = served.connect().await;
    slow.write_all(SEARCH).await.unwrap();
    let (took, answer) = trickle(&mut slow, b' ').await;
    assert_about(took, BODY_TIMEOUT);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn unused_body_is_not_read() {
    for line in ["GET /health/live", "POST /health", "POST /nowhere"] {
        let served = Served::start();
        let mut stalled = served.connect().await;
        let head =
            format!("{line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nhalf");
        stalled.write_all(head.as_bytes()).await.unwrap();
        let started = Instant::now();
        let answer = rest(&mut stalled).await;
        assert!(started.elapsed() < Duration::from_secs(1), "{line}: {:?}", started.elapsed());
        assert!(answer.starts_with("HTTP/1.1 "), "{line}: {answer}");
        served.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_stops_reading_is_disconnected() {
    let endless = async || {
        let (mut body, answer) = http_body_util::channel::Channel::<Bytes>::new(1);
        tokio::spawn(async move {
            while body.send_data(Bytes::from_static(b"and so on ")).await.is_ok() {}
        });
        axum::body::Body::new(answer)
    };
    let served = Served::serving(|_| Router::new().route("/endless", axum::routing::get(endless)));
    let mut deaf = served.connect().await;
    deaf.write_all(b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut started = [0; 8];
    deaf.read_exact(&mut started).await.unwrap();
    assert_about(served.wait_for_slot().await, WRITE_TIMEOUT);
    served.finish().await;
}

/// A client of HTTP/2 that accepts this many bytes of a response before it has read them.
async fn http_2(served: &Served, window: u32) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(served.connect().await);
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let handshake = builder.initial_stream_window_size(window).handshake(stream);
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> Request<Full<Bytes>> {
    let mut builder = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Full::from(body)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn http_2_response_that_is_not_read_is_disconnected() {
    let endless = async || {
        axum::body::Body::from_stream(stream::repeat_with(|| Ok::<_, io::Error>("and so on ")))
    };
    let served = Served::serving(|_| Router::new().route("/endless", axum::routing::get(endless)));
    let mut client = http_2(&served, 1000).await;
    let unread = client.send_request(request("GET", "http://localhost/endless", &[], "")).await;
    let unread = unread.unwrap();
    assert_about(served.wait_for_slot().await, WRITE_TIMEOUT);
    drop(unread);
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn http_2_requests_share_a_connection() {
    let served = Served::start();
    let client = http_2(&served, 1 << 20).await;
    let all = (0..50).map(|_| {
        let mut client = client.clone();
        async move {
            let request = request("GET", "http://localhost/weir/v1/openapi.json", &[], "");
            let response = client.send_request(request).await.unwrap();
            assert_eq!(response.status(), 200);
            response.into_body().collect().await.unwrap().to_bytes().len()
        }
    });
    let lengths = futures_util::future::join_all(all).await;
    assert!(lengths[0] > 50_000 && lengths.iter().all(|len| *len == lengths[0]), "{lengths:?}");
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn idle_http_2_connection_is_closed() {
    for is_used in [false, true] {
        let served = Served::start();
        let mut client = http_2(&served, 1 << 20).await;
        let started = Instant::now();
        if is_used {
            let request = request("GET", "http://localhost/health/live", &[], "");
            assert_eq!(client.send_request(request).await.unwrap().status(), 200);
        }
        while client.ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let limit = if is_used { CONNECTION_AGE_MAX } else { HEAD_TIMEOUT };
        assert_about(started.elapsed(), limit);
        served.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn http_2_requests_from_other_sites_are_rejected() {
    const JSON: (&str, &str) = ("content-type", "application/json");
    let served = Served::start();
    let mut client = http_2(&served, 1 << 20).await;
    let search = "http://localhost/api/v2/logs/events/search";
    for (code, request) in [
        (200, request("GET", "http://localhost/health/live", &[], "")),
        (421, request("GET", "http://evil.example/health/live", &[], "")),
        (421, request("GET", "http://evil.example/health/live", &[("host", "localhost")], "")),
        (403, request("POST", search, &[JSON, ("origin", "http://evil.example")], "{}")),
        (415, request("POST", search, &[("content-type", "text/plain")], "{}")),
        (415, request("POST", search, &[], "{}")),
        // Accepted; the store has not started.
        (503, request("POST", search, &[JSON, ("origin", "http://localhost")], "{}")),
    ] {
        let shown = format!("{request:?}");
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), code, "{shown}");
    }
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn stalled_connection_is_evicted_at_once() {
    let head = "GET /weir/v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for sent in ["", "GET /health/live HTTP/1.1\r\nx-padding: 0", &head.repeat(1000)] {
        let served = Served::start();
        let mut crowd = Vec::new();
        for _ in 0..20 {
            let mut stalled = served.connect().await;
            // A connection that was already replaced cannot send everything.
            let _sent = stalled.write_all(sent.as_bytes()).await;
            crowd.push(stalled);
        }
        assert!(served.wait_for_slot().await < Duration::from_secs(1), "{sent:.40}");
        served.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_body_is_evicted_soon() {
    let served = Served::start();
    let mut slow = served.connect().await;
    slow.write_all(SEARCH).await.unwrap();
    assert!(served.wait_for_slot().await < Duration::from_secs(3));
    assert_eq!(rest(&mut slow).await, "", "there is no answer");
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn slow_client_is_served_when_not_at_limit() {
    let served = Served::start();
    let mut deaf = served.connect().await;
    // Together they are longer than what the kernel buffers on both sides.
    let head = "GET /weir/v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    deaf.write_all(head.repeat(1000).as_bytes()).await.unwrap();
    tokio::time::sleep(WRITE_TIMEOUT / 2).await;
    assert!(rest(&mut deaf).await.starts_with("HTTP/1.1 200"));
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn long_response_outlives_connection_age() {
    const MINUTES: usize = 3 * CONNECTION_AGE_MAX.as_secs() as usize / 60;
    let long = async || {
        let (mut body, answer) = http_body_util::channel::Channel::<Bytes>::new(1);
        tokio::spawn(async move {
            for _ in 0..MINUTES {
                tokio::time::sleep(Duration::from_mins(1)).await;
                body.send_data(Bytes::from_static(b"minute ")).await.unwrap();
            }
        });
        axum::body::Body::new(answer)
    };
    let served = Served::serving(|_| Router::new().route("/long", axum::routing::get(long)));
    let mut client = served.connect().await;
    client.write_all(b"GET /long HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let answer = rest(&mut client).await;
    assert_eq!(answer.matches("minute ").count(), MINUTES, "{answer}");
    assert!(answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    served.finish().await;
}

#[tokio::test(start_paused = true)]
async fn what_only_this_machine_may_change_is_rejected_from_others() {
    let changes = [
        ("POST", "/weir/v1/drains"),
        ("DELETE", "/weir/v1/drains/00000000000000ff"),
        ("POST", "/weir/v1/drains/00000000000000ff/pause"),
        ("POST", "/weir/v1/drains/00000000000000ff/resume"),
        ("POST", "/weir/v1/store/deletions"),
        ("DELETE", "/weir/v1/store/deletions/1"),
    ];
    let others = [("GET", "/weir/v1/drains"), ("POST", "/weir/v1/drains/00000000000000ff/test")];
    for is_local in [true, false] {
        let served = Served::serving(|stopped| {
            let address = if is_local { [127, 0, 0, 1] } else { [10, 1, 2, 3] };
            // The innermost of several values applies.
            let sender = Extension(Sender(Some(address.into())));
            router(state_with(None, stopped), AllowedHosts::new(&[])).layer(sender)
        });
        for (method, path) in changes.into_iter().chain(others) {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
            );
            let mut stream = served.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let answer = rest(&mut stream).await;
            let is_rejected = !is_local && changes.contains(&(method, path));
            let is_forbidden = answer.starts_with("HTTP/1.1 403");
            assert_eq!(is_forbidden, is_rejected, "{method} {path}: {answer}");
        }
        served.finish().await;
    }
}

/// Access control with one operator and one reader.
fn access() -> ApiAccess {
    let secret = |text: &str| Some(weir_host::Secret::new(text.to_owned()));
    let (uaa, cloud_controller, tls) = (None, None, weir_pipeline::config::TlsSettings::default());
    let tokens = AccessSettings { tokens: secret("operator"), uaa, cloud_controller, tls };
    ApiAccess { tokens, read_tokens: secret("reader") }
}

#[tokio::test(start_paused = true)]
async fn with_access_control_a_token_is_needed_from_everywhere() {
    for address in [[127, 0, 0, 1], [10, 1, 2, 3]] {
        let served = Served::serving(|stopped| {
            let sender = Extension(Sender(Some(address.into())));
            router(state_with(Some(&access()), stopped), AllowedHosts::new(&[])).layer(sender)
        });
        // Without a pipeline there are no drains yet.
        for (token, status) in
            [("operator", 503), ("reader", 403), ("Operator", 401), ("operator,", 401), ("", 401)]
        {
            let request = format!(
                "DELETE /weir/v1/drains/00000000000000ff HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 authorization: Bearer {token}\r\n\r\n"
            );
            let mut stream = served.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let answer = rest(&mut stream).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{token}: {answer}");
        }
        served.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_invalid_tokens_are_answered_after_a_pause() {
    let served = Served::serving(|stopped| {
        router(state_with(Some(&access()), stopped), AllowedHosts::new(&[]))
    });
    for (headers, waits) in [
        ("authorization: Bearer guess\r\n", true),
        ("authorization: Bearer reader\r\n", false),
        ("cookie: weir_session=guess\r\n", false),
        ("", false),
    ] {
        let request = format!(
            "GET /weir/v1/session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n"
        );
        let mut stream = served.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let started = Instant::now();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 "), "{headers}: {answer}");
        assert_eq!(started.elapsed() >= Duration::from_millis(200), waits, "{headers}: {answer}");
    }
    served.finish().await;
}
