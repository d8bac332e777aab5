//! Peers of every kind: that read, refuse, hang, trickle, close, redirect, and ask for
//! certificates.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use weir_host::{Acceptor, Secret, ServerProtocol, ServerTlsFiles};
use weir_testkit::Pki;

use super::*;
use crate::drain::binding::DrainCredentials;

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_mins(1);

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}
type Accepted = Box<dyn Duplex>;

/// A server, with the connections that it has accepted.
struct Peer {
    address: SocketAddr,
    accepted: mpsc::Receiver<Accepted>,
}

impl Peer {
    /// Starts a server, with TLS if there is an authority; one that asks for certificates of
    /// clients if they have to be signed by a second one.
    async fn start(tls: Option<(&Pki, Option<&Pki>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tls.map(|(own, clients)| Arc::new(acceptor(own, clients)));
        let (sender, accepted) = mpsc::channel(100);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    let stream: Accepted = match acceptor {
                        None => Box::new(tcp),
                        Some(acceptor) => match acceptor.accept(tcp).await {
                            Ok(tls) => Box::new(tls),
                            Err(_) => return,
                        },
                    };
                    let _sent = sender.send(stream).await;
                });
            }
        });
        Self { address, accepted }
    }

    async fn next(&mut self) -> Accepted {
        timeout(PATIENCE, self.accepted.recv()).await.unwrap().unwrap()
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://user:hidden@localhost:{}/path?token=hidden", self.address.port())
    }
}

fn acceptor(own: &Pki, clients: Option<&Pki>) -> Acceptor {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (cert, key) = own.server_pem();
    let files = ServerTlsFiles {
        cert_file: file("cert", &cert),
        key_file: file("key", &key),
        client_ca_file: clients.map(|pki| file("ca", &pki.ca_pem())),
        protocol: ServerProtocol::Http1,
    };
    let acceptor = Acceptor::new(files, PATIENCE).unwrap();
    // The files would be read again if they changed; without them the last ones stay.
    drop(dir);
    acceptor
}

fn credentials(ca: Option<&Pki>, client: Option<&Pki>) -> DrainCredentials {
    let secret = |text: String| Some(Secret::new(text));
    let (cert, key) = client.map(Pki::server_pem).unzip();
    let ca = ca.map(Pki::ca_pem);
    DrainCredentials {
        cert: cert.and_then(secret),
        key: key.and_then(secret),
        ca: ca.and_then(secret),
    }
}

fn sender_with(url: &str, credentials: DrainCredentials, denied: &[&str]) -> DrainSender {
    let denied = DeniedAddresses::parse(denied.iter().copied()).unwrap();
    sender_of(url, credentials, &DrainNetworkSettings { denied, ..Default::default() })
}

fn sender_of(
    url: &str,
    credentials: DrainCredentials,
    settings: &DrainNetworkSettings,
) -> DrainSender {
    let binding = Binding::new(None, String::new(), url, credentials).unwrap();
    DrainSender::new(Arc::new(binding), DrainNetwork::new(settings).unwrap())
}

fn sender(url: &str) -> DrainSender {
    sender_with(url, DrainCredentials::default(), &[])
}

fn messages(texts: &[&str]) -> Messages {
    let mut messages = Messages::default();
    for text in texts {
        messages.bytes.extend_from_slice(text.as_bytes());
        messages.ends.push(messages.bytes.len());
    }
    messages
}

fn done(accepted: usize) -> Sent {
    Sent { accepted, result: SendResult::Done, others: Vec::new() }
}

/// Returns the number of accepted messages, and identifier and text of the failure.
fn retried(sent: Sent) -> (usize, &'static str, String) {
    match sent.result {
        SendResult::Retry { kind, text } => {
            assert!(!text.contains("hidden"), "{text}");
            (sent.accepted, kind, text)
        }
        other => panic!("{other:?}"),
    }
}

async fn read(stream: &mut Accepted, len: usize) -> String {
    let mut bytes = vec![0; len];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn messages_arrive_in_order_and_a_closed_connection_is_replaced() {
    let mut peer = Peer::start(None).await;
    let mut sender = sender(&peer.url("syslog"));
    assert!(!sender.is_open());
    assert_eq!(sender.send(&messages(&["3 one", "3 two"])).await, done(2));
    let mut first = peer.next().await;
    assert_eq!(read(&mut first, 10).await, "3 one3 two");
    assert_eq!(sender.send(&messages(&["5 three"])).await, done(1));
    assert_eq!(read(&mut first, 7).await, "5 three");
    assert!(sender.is_open());
    drop(first);
    // Data sent before the end of the connection arrives is lost.
    tokio::task::yield_now().await;
    let mut arrived = String::new();
    while arrived.is_empty() {
        if sender.send(&messages(&["4 four"])).await == done(1)
            && let Ok(mut second) = peer.accepted.try_recv()
        {
            arrived = read(&mut second, 6).await;
        }
    }
    assert_eq!(arrived, "4 four");
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let mut peer = Peer::start(None).await;
    let mut sender = sender(&peer.url("syslog"));
    assert_eq!(sender.send(&messages(&["1 a"])).await, done(1));
    let mut stream = peer.next().await;
    let now = Instant::now();
    assert!(!sender.close_if_idle(now + Duration::from_secs(599)));
    assert!(sender.close_if_idle(now + Duration::from_mins(10)));
    assert!(!sender.close_if_idle(now + Duration::from_mins(10)) && !sender.is_open());
    let mut all = String::new();
    stream.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "1 a");
}

#[tokio::test]
async fn a_peer_that_refuses_or_has_no_address_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("syslog://127.0.0.1:{}", listener.local_addr().unwrap().port());
    drop(listener);
    let (accepted, kind, text) = retried(sender(&url).send(&messages(&["1 a"])).await);
    assert_eq!((accepted, kind), (0, "refused"));
    assert!(text.starts_with(&url), "{text}");
    let sent = sender("syslog://user:hidden@no-such-host.invalid").send(&messages(&["1 a"])).await;
    assert_eq!(retried(sent).1, "dns");
}

#[tokio::test]
async fn a_peer_that_closes_after_the_first_message_has_accepted_nothing() {
    let mut peer = Peer::start(None).await;
    let mut sender = sender(&peer.url("syslog"));
    let messages = messages(&["1 a", "1 b"]);
    let (sent, ()) = tokio::join!(sender.send(&messages), async {
        let mut stream = peer.next().await;
        assert_eq!(read(&mut stream, 3).await, "1 a");
    });
    let (accepted, kind, _) = retried(sent);
    assert_eq!((accepted, kind, sender.is_open()), (0, "reset", false));
}

#[tokio::test]
async fn a_peer_that_hangs_holds_up_a_message_for_ten_seconds() {
    let mut peer = Peer::start(None).await;
    let mut sender = sender(&peer.url("syslog"));
    assert_eq!(sender.send(&messages(&["1 a"])).await, done(1));
    let _stream = peer.next().await;
    tokio::time::pause();
    let started = Instant::now();
    let text = "x".repeat(16 * 1024 * 1024);
    let (accepted, kind, text) = retried(sender.send(&messages(&["1 b", &text])).await);
    assert_eq!((accepted, kind), (1, "timeout"), "{text}");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
}

#[tokio::test]
async fn a_slow_reading_peer_cannot_extend_the_timeout_of_a_message() {
    let mut peer = Peer::start(None).await;
    let mut sender = sender(&peer.url("syslog"));
    assert_eq!(sender.send(&messages(&["1 a"])).await, done(1));
    let mut stream = peer.next().await;
    tokio::time::pause();
    let trickle = tokio::spawn(async move {
        while stream.read_u8().await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let text = "x".repeat(16 * 1024 * 1024);
    let (accepted, kind, _) = retried(sender.send(&messages(&[&text])).await);
    assert_eq!((accepted, kind), (0, "timeout"));
    trickle.abort();
}

#[tokio::test]
async fn a_cancelled_send_leaves_no_connection_with_half_a_message() {
    let mut peer = Peer::start(None).await;
    let mut sender = sender(&peer.url("syslog"));
    assert_eq!(sender.send(&messages(&["1 a"])).await, done(1));
    let _stream = peer.next().await;
    let messages = messages(&["x".repeat(16 * 1024 * 1024).as_str()]);
    tokio::time::pause();
    assert!(timeout(Duration::from_secs(1), sender.send(&messages)).await.is_err());
    assert!(!sender.is_open());
}

#[tokio::test]
async fn denied_addresses_are_not_connected_to_whatever_their_names() {
    let mut peer = Peer::start(None).await;
    let port = peer.address.port();
    for (host, denied) in [
        ("localhost", &["127.0.0.0/8", "::1"][..]),
        ("127.0.0.1", &["127.0.0.1-127.0.0.9"]),
        ("[::ffff:127.0.0.1]", &["127.0.0.0/8"]),
        ("0.0.0.0", &["127.0.0.0/8"]),
        ("[::]", &["127.0.0.0/8"]),
        ("2130706433", &["127.0.0.0/8"]),
        ("0x7f.1", &["127.0.0.0/8"]),
    ] {
        let url = format!("syslog://{host}:{port}");
        let mut sender = sender_with(&url, DrainCredentials::default(), denied);
        let (_, kind, text) = retried(sender.send(&messages(&["1 a"])).await);
        assert_eq!(kind, "denied", "{text}");
    }
    assert!(peer.accepted.try_recv().is_err());
    let url = format!("syslog://localhost:{port}");
    let mut sender = sender_with(&url, DrainCredentials::default(), &["10.0.0.0/8"]);
    assert_eq!(sender.send(&messages(&["1 a"])).await, done(1));
}

#[tokio::test]
async fn certificates_are_those_of_the_binding() {
    let (own, clients, stranger) = (Pki::new(), Pki::new(), Pki::new());
    let mut peer = Peer::start(Some((&own, Some(&clients)))).await;
    let url = peer.url("syslog-tls");
    let message = messages(&["1 a"]);
    let untrusted = sender(&url).send(&message).await;
    let (_, kind, text) = retried(untrusted);
    assert_eq!(kind, "certificate_unknown_authority");
    assert!(text.ends_with("add it to the credentials"), "{text}");
    for client in [None, Some(&stranger)] {
        let mut sender = sender_with(&url, credentials(Some(&own), client), &[]);
        let (accepted, kind, text) = retried(sender.send(&message).await);
        assert_eq!((accepted, kind), (0, "reset"), "{text}");
    }
    for parameter in ["", "&ssl-strict-internal=true"] {
        let credentials = credentials(Some(&own), Some(&clients));
        let mut sender = sender_with(&format!("{url}{parameter}"), credentials, &[]);
        assert_eq!(sender.send(&message).await, done(1));
        assert_eq!(sender.send(&message).await, done(1));
        assert_eq!(read(&mut peer.next().await, 6).await, "1 a1 a");
    }
}

#[tokio::test]
async fn a_peer_without_tls_and_one_with_the_wrong_name_are_told_apart() {
    let peer = Peer::start(None).await;
    let mut sender = sender(&peer.url("syslog-tls"));
    let mut accepted = peer.accepted;
    let message = messages(&["1 a"]);
    let (sent, ()) = tokio::join!(sender.send(&message), async {
        accepted.recv().await.unwrap().write_all(b"220 ready\r\n").await.unwrap();
    });
    let (_, kind, text) = retried(sent);
    assert_eq!(kind, "tls", "{text}");
}

/// A server of HTTP that answers with these statuses, one after the other.
struct Web {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(String, String)>>>,
    connections: Arc<AtomicUsize>,
}

impl Web {
    async fn start(pki: &Pki, answers: &'static [&'static str]) -> Self {
        let mut peer = Peer::start(Some((pki, None))).await;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let web = Self { address: peer.address, requests, connections };
        let (requests, connections) = (Arc::clone(&web.requests), Arc::clone(&web.connections));
        tokio::spawn(async move {
            while let Some(mut stream) = peer.accepted.recv().await {
                connections.fetch_add(1, Ordering::Relaxed);
                while let Some(request) = request(&mut stream).await {
                    let index = requests.lock().unwrap().len();
                    requests.lock().unwrap().push(request);
                    let answer = answers[index.min(answers.len() - 1)];
                    let text = format!("HTTP/1.1 {answer}\r\ncontent-length: 6\r\n\r\nhidden");
                    stream.write_all(text.as_bytes()).await.unwrap();
                    if answer.contains("close") {
                        break;
                    }
                }
            }
        });
        web
    }

    fn sender(&self, pki: &Pki, scheme: &str) -> DrainSender {
        let url = format!(
            "{scheme}://user:hidden@localhost:{}/in?drain-data=all&token=hidden",
            self.address.port()
        );
        sender_with(&url, credentials(Some(pki), None), &[])
    }

    fn bodies(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }
}

/// Reads head and body of a request.
async fn request(stream: &mut Accepted) -> Option<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let len = head.split("content-length: ").nth(1)?.split('\r').next()?.parse().ok()?;
    Some((head, read(stream, len).await))
}

#[tokio::test]
async fn each_message_is_a_request_on_one_connection() {
    let pki = Pki::new();
    let web = Web::start(&pki, &["200 OK", "202 Accepted\r\nx: y"]).await;
    let mut sender = web.sender(&pki, "https");
    assert_eq!(sender.send(&messages(&["one\n", "two\n"])).await, done(2));
    assert_eq!(sender.send(&messages(&["three\n"])).await, done(1));
    assert_eq!(web.bodies(), ["one\n", "two\n", "three\n"]);
    assert_eq!(web.connections.load(Ordering::Relaxed), 1);
    let head = web.requests.lock().unwrap()[0].0.clone();
    assert!(head.starts_with("post /in?drain-data=all&token=hidden http/1.1\r\n"), "{head}");
    for line in [
        "content-type: text/plain",
        "authorization: basic dxnlcjpoawrkzw4=",
        &format!("host: localhost:{}", web.address.port()),
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
    assert!(sender.is_open() && sender.close() && !sender.close());
}

/// Answers requests; the first ones of four connections when all of them have arrived. Returns the
/// numbers of the messages.
async fn answer_four_at_once(peer: &mut Peer, refused: u64) -> mpsc::Receiver<u64> {
    let (received, numbers) = mpsc::channel(1000);
    let all_there = Arc::new(tokio::sync::Barrier::new(4));
    for _ in 0..4 {
        let (mut stream, received) = (peer.next().await, received.clone());
        let all_there = all_there.clone();
        tokio::spawn(async move {
            let mut is_first = true;
            while let Some((_, body)) = request(&mut stream).await {
                if std::mem::take(&mut is_first) {
                    all_there.wait().await;
                }
                let number = body.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
                received.send(number).await.unwrap();
                let status = if number == refused { "503 Down" } else { "200 OK" };
                let text = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        });
    }
    numbers
}

#[tokio::test]
async fn with_several_requests_in_flight_each_instance_stays_in_order() {
    const INSTANCES: u64 = 12;
    const REFUSED: u64 = 50;
    let pki = Pki::new();
    let mut peer = Peer::start(Some((&pki, None))).await;
    let settings = DrainNetworkSettings { https_in_flight_max: 4, ..Default::default() };
    let mut sender = sender_of(&peer.url("https"), credentials(Some(&pki), None), &settings);
    let message = |number: u64| {
        let instance = number % INSTANCES;
        format!("<14>1 2026-01-01T00:00:00+00:00 - app [APP/PROC/WEB/{instance}] - - {number}\n")
    };
    let texts: Vec<String> = (0..96).map(message).collect();
    let all = messages(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let (sent, mut numbers) =
        tokio::join!(sender.send(&all), answer_four_at_once(&mut peer, REFUSED));
    assert!(matches!(sent.result, SendResult::Retry { kind: "status", .. }), "{sent:?}");
    let others = sent.others.iter().map(|(index, is_accepted)| {
        assert!(is_accepted, "none was rejected");
        *index as u64
    });
    let accepted: std::collections::BTreeSet<u64> =
        (0..sent.accepted as u64).chain(others).collect();
    let mut last = [None; INSTANCES as usize];
    let mut received = 0;
    while let Ok(number) = numbers.try_recv() {
        let last = &mut last[(number % INSTANCES) as usize];
        assert!(last.replace(number) < Some(number), "{number} is in order");
        assert_eq!(accepted.contains(&number), number != REFUSED, "{number}");
        received += 1;
    }
    assert_eq!(received, accepted.len() + 1);
    assert_eq!(last[(REFUSED % INSTANCES) as usize], Some(REFUSED), "none was sent after it");
    assert!(accepted.len() > 60, "the other connections were not affected: {}", accepted.len());
    // With few messages one connection is enough.
    assert!(sender.close() && !sender.is_open());
}

#[tokio::test]
async fn many_messages_are_in_a_request_of_a_batch() {
    let pki = Pki::new();
    let web = Web::start(&pki, &["200 OK", "500 Error", "200 OK"]).await;
    let mut sender = web.sender(&pki, "https-batch");
    let large = "x".repeat(300 * 1024);
    let huge = "y".repeat(600 * 1024);
    let all = messages(&["a\n", "b\n", &large, &large, &huge, "c\n"]);
    let (accepted, kind, text) = retried(sender.send(&all).await);
    assert_eq!((accepted, kind), (3, "status"));
    assert!(text.ends_with("/in: responded with status 500"), "{text}");
    let rest = messages(&[&large, &huge, "c\n"]);
    assert_eq!(sender.send(&rest).await, done(3));
    let lens: Vec<usize> = web.bodies().iter().map(String::len).collect();
    let (large, huge) = (large.len(), huge.len());
    assert_eq!(lens, [large + 4, large, large, huge, 2]);
}

#[tokio::test]
async fn statuses_say_whether_messages_are_sent_again() {
    let pki = Pki::new();
    let statuses =
        &["200 OK", "400 Bad", "413 Large", "401 Who", "404 Where", "429 Slow", "503 Down"];
    let web = Web::start(&pki, statuses).await;
    let mut sender = web.sender(&pki, "https");
    let Sent { accepted, result, .. } = sender.send(&messages(&["a", "b", "c"])).await;
    let SendResult::Rejected { messages: 1, text } = result else { panic!("{result:?}") };
    assert_eq!(accepted, 1);
    assert!(text.ends_with("/in: responded with status 400") && !text.contains("hidden"));
    let sent = sender.send(&messages(&["c"])).await;
    assert_eq!(sent.accepted, 0);
    assert!(matches!(sent.result, SendResult::Rejected { messages: 1, .. }), "{sent:?}");
    for _ in 3..statuses.len() {
        assert_eq!(retried(sender.send(&messages(&["d"])).await).1, "status");
    }
    assert_eq!(web.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let pki = Pki::new();
    let web = Web::start(&pki, &["302 Found\r\nlocation: https://127.0.0.1:1/hidden"]).await;
    let (_, kind, text) = retried(web.sender(&pki, "https").send(&messages(&["a"])).await);
    assert_eq!(kind, "status");
    assert!(text.ends_with("responded with status 302"), "{text}");
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closes_is_replaced_at_once() {
    let pki = Pki::new();
    let web = Web::start(&pki, &["200 closes silently", "200 OK"]).await;
    let mut sender = web.sender(&pki, "https");
    for message in ["a", "b", "c"] {
        assert_eq!(sender.send(&messages(&[message])).await, done(1));
    }
    assert_eq!(web.bodies(), ["a", "b", "c"]);
    assert_eq!(web.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_after_twenty_seconds() {
    let pki = Pki::new();
    let mut peer = Peer::start(Some((&pki, None))).await;
    let mut sender = sender_with(&peer.url("https"), credentials(Some(&pki), None), &[]);
    let message = messages(&["a"]);
    let sending = sender.send(&message);
    let (sent, _stream) = tokio::join!(sending, async {
        let mut stream = peer.next().await;
        assert_eq!(request(&mut stream).await.unwrap().1, "a");
        tokio::time::pause();
        stream
    });
    let (_, kind, text) = retried(sent);
    assert_eq!(kind, "timeout");
    assert!(text.ends_with("/path: no response within 20s"), "{text}");
}

#[tokio::test]
async fn a_probe_connects_and_sends_nothing() {
    let pki = Pki::new();
    let mut peer = Peer::start(Some((&pki, None))).await;
    let mut sender = sender_with(&peer.url("syslog-tls"), credentials(Some(&pki), None), &[]);
    assert_eq!(sender.probe().await, SendResult::Done);
    assert!(!sender.is_open());
    let mut all = Vec::new();
    let _ended = peer.next().await.read_to_end(&mut all).await;
    assert!(all.is_empty());
}
