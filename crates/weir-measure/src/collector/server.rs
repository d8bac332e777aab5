//! The collector's connections and requests.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::hec::{self, BadEvent};
use super::{Acks, Answer, CollectorState, Received};

type Reply = Response<Full<Bytes>>;

/// Serves until `stopped` resolves; then every connection is dropped.
pub(super) fn run(
    listener: std::net::TcpListener,
    shared: Arc<CollectorState>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).expect("the socket is non-blocking");
        tokio::select! {
            () = accept(listener, shared) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: TcpListener, shared: Arc<CollectorState>) {
    loop {
        // An error here means that the connection is already gone.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        shared.change(|state| state.tally.connections += 1);
        tokio::spawn(async move {
            // Broken connections are what the tests are about.
            let _broken = connection(stream, shared).await;
        });
    }
}

async fn connection(stream: TcpStream, shared: Arc<CollectorState>) -> io::Result<()> {
    // A second descriptor of the same socket, to reset it or to write something that is not HTTP.
    let socket = Arc::new(stream.as_fd().try_clone_to_owned()?);
    match shared.config.tls.clone() {
        None => serve(stream, socket, shared).await,
        Some(tls) => {
            let stream = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await?;
            serve(stream, socket, shared).await;
        }
    }
    Ok(())
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    socket: Arc<OwnedFd>,
    shared: Arc<CollectorState>,
) {
    let service = service_fn(|request| handle(request, &socket, &shared));
    let _broken = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The connection is to be closed without a response.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
struct Close;

impl From<Infallible> for Close {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

async fn handle(
    request: Request<Incoming>,
    socket: &OwnedFd,
    shared: &CollectorState,
) -> Result<Reply, Close> {
    let path = request.uri().path().trim_end_matches("/1.0").to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET, "/services/collector/health") => Ok(reply(200, 17)),
        (&Method::OPTIONS, _) => Ok(reply(200, 0)),
        (&Method::POST, "/services/collector/ack") => acks(request, shared).await,
        (&Method::POST, "/services/collector" | "/services/collector/event") => {
            data(request, false, socket, shared).await
        }
        (&Method::POST, "/services/collector/raw") => data(request, true, socket, shared).await,
        _ => Ok(reply(404, 404)),
    }
}

/// Handles a request that carries events.
async fn data(
    request: Request<Incoming>,
    is_raw: bool,
    socket: &OwnedFd,
    shared: &CollectorState,
) -> Result<Reply, Close> {
    let answer = shared.change(|state| {
        state.tally.requests += 1;
        (state.script)(state.tally.requests - 1)
    });
    match &answer {
        Answer::CloseBeforeReading => return Err(Close),
        Answer::HangBeforeReading => std::future::pending().await,
        _ => {}
    }
    let pace = if let Answer::AcceptSlowly(rate) = answer { Some(rate) } else { None };
    let (head, body) = request.into_parts();
    let body = read(body, pace).await?;
    match &answer {
        Answer::CloseAfterReading => return Err(Close),
        Answer::Hang => std::future::pending().await,
        Answer::Reset => {
            // Closing with a linger time of zero resets.
            let _gone = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
            return Err(Close);
        }
        Answer::NotHttp => {
            let _gone = rustix::io::write(socket, b"\x00\x01 this is not HTTP\r\n\r\n");
            return Err(Close);
        }
        Answer::Refuse { status, code, retry_after } => {
            let mut reply = reply(*status, *code);
            if let Some(value) = retry_after.as_ref().and_then(|text| text.parse().ok()) {
                reply.headers_mut().insert("retry-after", value);
            }
            return Ok(reply);
        }
        Answer::RefuseLargerThan(limit) if body.len() as u64 > *limit => {
            return Ok(html(413, "<html><body>Content-Length too large</body></html>"));
        }
        Answer::AcceptAfter(delay) => tokio::time::sleep(*delay).await,
        _ => {}
    }
    let reply = shared.change(|state| receive(state, shared, &head, is_raw, &body, &answer));
    match answer {
        Answer::AcceptThenClose => Err(Close),
        Answer::AcceptWithGarbage => Ok(html(200, "<html>it works</html>")),
        _ => Ok(reply),
    }
}

/// Reads a body, at a given rate if there is one. A broken transfer closes the connection.
async fn read(mut body: Incoming, bytes_per_second: Option<u64>) -> Result<Vec<u8>, Close> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Close)?;
        let Ok(data) = frame.into_data() else { continue };
        bytes.extend_from_slice(&data);
        if let Some(rate) = bytes_per_second {
            tokio::time::sleep(Duration::from_secs_f64(data.len() as f64 / rate as f64)).await;
        }
    }
    Ok(bytes)
}

fn receive(
    state: &mut Received,
    shared: &CollectorState,
    head: &hyper::http::request::Parts,
    is_raw: bool,
    body: &[u8],
    answer: &Answer,
) -> Reply {
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    state.tally.wire_bytes += body.len() as u64;
    if let Err(code) = authorize(shared.config.token.as_deref(), header("authorization")) {
        return reply(if code == 4 { 403 } else { 401 }, code);
    }
    let query = head.uri.query().unwrap_or_default();
    let channel = header("x-splunk-request-channel")
        .or_else(|| query.split('&').find_map(|pair| pair.strip_prefix("channel=")));
    if shared.config.acks != Acks::Off && channel.is_none() {
        return reply(400, 10);
    }
    let inflated = match header("content-encoding") {
        None => Ok(body.to_vec()),
        Some("gzip") => hec::inflate(body),
        Some(_) => return html(415, "<html>Unsupported Media Type</html>"),
    };
    let Ok(body) = inflated else {
        state.tally.malformed += 1;
        return reply(400, 6);
    };
    state.tally.body_bytes += body.len() as u64;
    let lost = matches!(shared.config.acks, Acks::FirstLost(n) if state.batches < n);
    state.batches += 1;
    let result = if lost {
        Ok(())
    } else if is_raw {
        store_raw(state, shared, &body, query, answer)
    } else {
        store_events(state, shared, &body, answer)
    };
    match (result, shared.config.acks, channel) {
        (Err(bad), ..) => bad_event(bad),
        (Ok(()), Acks::Off, _) | (Ok(()), _, None) => reply(200, 0),
        (Ok(()), _, Some(channel)) => {
            let channel = state.channels.entry(channel.to_owned()).or_default();
            let id = channel.next_id;
            channel.next_id += 1;
            channel.polls.insert(id, 0);
            if lost {
                channel.lost.insert(id);
            }
            json_reply(200, &json!({"text": "Success", "code": 0, "ackId": id}))
        }
    }
}

/// Checks the token; the error is the HEC code of the refusal.
fn authorize(token: Option<&str>, header: Option<&str>) -> Result<(), u16> {
    let Some(token) = token else { return Ok(()) };
    let given = header.ok_or(2_u16)?.strip_prefix("Splunk ").ok_or(3_u16)?;
    if given == token { Ok(()) } else { Err(4) }
}

fn store_events(
    state: &mut Received,
    shared: &CollectorState,
    body: &[u8],
    answer: &Answer,
) -> Result<(), BadEvent> {
    let events = hec::events(body).inspect_err(|_| state.tally.malformed += 1)?;
    for (number, event) in events.iter().enumerate() {
        let text = event.text();
        if matches!(answer, Answer::RefuseContaining(bad) if text.contains(bad.as_str())) {
            return Err(BadEvent { code: 6, number });
        }
        state.tally.count(text.as_bytes());
        if matches!(answer, Answer::AcceptThenClose | Answer::AcceptWithGarbage) {
            state.tally.unanswered += 1;
        }
        if shared.config.keep_records {
            state.records.push(event.to_record());
        }
    }
    Ok(())
}

fn store_raw(
    state: &mut Received,
    shared: &CollectorState,
    body: &[u8],
    query: &str,
    answer: &Answer,
) -> Result<(), BadEvent> {
    if body.is_empty() {
        return Err(BadEvent { code: 5, number: 0 });
    }
    let lines = body.strip_suffix(b"\n").unwrap_or(body).split(|byte| *byte == b'\n');
    for (number, line) in lines.enumerate() {
        let text = String::from_utf8_lossy(line);
        if matches!(answer, Answer::RefuseContaining(bad) if text.contains(bad.as_str())) {
            return Err(BadEvent { code: 6, number });
        }
        state.tally.count(line);
        if shared.config.keep_records {
            state.records.push(hec::raw_record(line, query));
        }
    }
    Ok(())
}

/// Handles a poll for acknowledgements.
async fn acks(request: Request<Incoming>, shared: &CollectorState) -> Result<Reply, Close> {
    #[derive(serde::Deserialize)]
    struct Poll {
        acks: Vec<u64>,
    }
    let (head, body) = request.into_parts();
    let body = read(body, None).await?;
    if shared.config.acks == Acks::Off {
        return Ok(reply(400, 14));
    }
    let channel = head.headers.get("x-splunk-request-channel").and_then(|v| v.to_str().ok());
    let query = head.uri.query().unwrap_or_default();
    let channel =
        channel.or_else(|| query.split('&').find_map(|pair| pair.strip_prefix("channel=")));
    let Some(channel) = channel else { return Ok(reply(400, 10)) };
    let Ok(poll) = serde_json::from_slice::<Poll>(&body) else { return Ok(reply(400, 6)) };
    let answers = shared.change(|state| {
        let channel = state.channels.entry(channel.to_owned()).or_default();
        let answers = poll.acks.iter().map(|id| (id.to_string(), channel.poll(*id, shared)));
        answers.collect::<std::collections::BTreeMap<_, _>>()
    });
    Ok(json_reply(200, &json!({ "acks": answers })))
}

impl super::Channel {
    /// Returns true if a batch is acknowledged; it is forgotten afterwards.
    fn poll(&mut self, id: u64, shared: &CollectorState) -> bool {
        let Some(polls) = self.polls.get_mut(&id) else { return false };
        *polls += 1;
        let acknowledged = match shared.config.acks {
            Acks::Off | Acks::Never => false,
            Acks::AtPoll(n) => *polls >= n,
            Acks::FirstLost(_) => !self.lost.contains(&id),
        };
        if acknowledged {
            self.polls.remove(&id);
        }
        acknowledged
    }
}

fn bad_event(bad: BadEvent) -> Reply {
    let text = hec::text_of_code(bad.code);
    let body = json!({"text": text, "code": bad.code, "invalid-event-number": bad.number});
    let mut reply = json_reply(400, &body);
    // This name identifies a server that keeps the events before a bad one.
    reply.headers_mut().insert("server", hyper::header::HeaderValue::from_static("Splunkd"));
    reply
}

fn reply(status: u16, code: u16) -> Reply {
    json_reply(status, &json!({"text": hec::text_of_code(code), "code": code}))
}

fn json_reply(status: u16, body: &serde_json::Value) -> Reply {
    let mut reply = html(status, &body.to_string());
    reply
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    reply
}

fn html(status: u16, body: &str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply
}
