//! The loggregator source, with the official client of gRPC: every envelope that was received is
//! delivered or counted, whatever happens.
//!
//! Needs Python with the package `grpcio`, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorMessage, add_to_loggregator_batch, encode_loggregator_envelope,
};
use weir_testkit::{Answer, Books, Collector, LineId, PATIENCE, Pki, Tally, Weir};

use crate::scene::{OUTPUT, Scene, at_rest, hec};
use crate::syslog::{file, records};

const CLIENT: &str =
    concat!(include_str!("loggregator_wire.py"), include_str!("loggregator_client.py"));

/// Maximum size of a message.
const MESSAGE_BYTES_MAX: usize = 10 << 20;

/// Where `xtask` has installed the client.
pub(crate) fn python() -> OsString {
    let python = std::env::var_os("WEIR_PYTHON");
    python.expect("WEIR_PYTHON is set: run this test with `cargo xtask test`")
}

/// Returns a source with these keys.
pub(crate) fn source(keys: &str) -> String {
    format!("[source.cf]\ntype = \"loggregator\"\nlisten = \"127.0.0.1:0\"\n{keys}\n")
}

/// A log of an application.
pub(crate) fn log(app: &str, payload: &[u8]) -> Vec<u8> {
    let envelope = LoggregatorEnvelope {
        timestamp_ns: 1_795_288_351_000_000_000,
        source_id: app.as_bytes(),
        instance_id: b"0",
        message: LoggregatorMessage::Log { payload, is_error: false },
        ..LoggregatorEnvelope::default()
    };
    let mut bytes = Vec::new();
    encode_loggregator_envelope(&envelope, &[("job", "cell")], &mut bytes);
    bytes
}

/// Batches of a hundred numbered logs each.
pub(crate) fn batches(app: &str, batches: u64) -> Vec<Vec<u8>> {
    let batch = |number: u64| {
        let mut batch = Vec::new();
        for seq in number * 100..(number + 1) * 100 {
            let mut line = Vec::new();
            LineId::write(app, 0, seq, &[b'x'; 150], &mut line);
            add_to_loggregator_batch(&log(app, &line), &mut batch);
        }
        batch
    };
    (0..batches).map(batch).collect()
}

/// Writes messages to a file for the client.
pub(crate) fn messages(scene: &Scene, name: &str, messages: &[Vec<u8>]) -> PathBuf {
    let path = scene.dir().join(name);
    let mut bytes = Vec::new();
    for message in messages {
        bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
        bytes.extend_from_slice(message);
    }
    std::fs::write(&path, bytes).expect("a file can be written");
    path
}

/// Starts the client; its output is the status and the number of messages.
pub(crate) fn send(
    python: &OsString,
    weir: &Weir,
    method: &str,
    file: &Path,
    tls: &[&str],
) -> Child {
    let address = weir.source_address("cf").to_string();
    let mut command = Command::new(python);
    command.args(["-c", CLIENT, &address, method]).arg(file).args(tls);
    command.stdout(Stdio::piped()).spawn().expect("python runs")
}

pub(crate) fn said(client: Child) -> String {
    let out = client.wait_with_output().expect("the client ends");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Returns how many envelopes were discarded for this reason.
pub(crate) fn lost(books: &Books, reason: &str) -> u64 {
    books.source("cf")["book"]["discarded"][reason].as_u64().unwrap_or(0)
}

fn delivered(weir: &Weir, count: u64) {
    let books = weir.wait_books("all arrived", PATIENCE, |books| books.delivered(OUTPUT) == count);
    books.assert_balanced();
}

#[test]
fn every_kind_of_envelope_arrives_over_every_method() {
    let python = python();
    let scene = Scene::new();
    let mut weir = scene.start(&(source("tags = { deployment = \"cf\" }") + &file(&scene)));
    for method in ["BatchSender", "Send"] {
        assert_eq!(said(send(&python, &weir, method, Path::new(""), &[])), "OK 1\n");
    }
    let counter = LoggregatorMessage::Counter { name: b"increments", delta: 2, total: 0 };
    let counter = LoggregatorEnvelope { source_id: b"job", message: counter, ..Default::default() };
    let mut bytes = Vec::new();
    encode_loggregator_envelope(&counter, &[], &mut bytes);
    let counters = messages(&scene, "counters", &[bytes.clone(), bytes]);
    assert_eq!(said(send(&python, &weir, "Sender", &counters, &[])), "OK 2\n");
    let one = messages(&scene, "one", &[log("other", b"alone")]);
    assert_eq!(said(send(&python, &weir, "Sender", &one, &[])), "OK 1\n");
    delivered(&weir, 17);
    let all = records(&scene.dir().join("out.log"));
    assert_eq!(all.len(), 17);
    let bodies = all.iter().filter_map(|record| record["body"].as_str());
    let counters = bodies.filter_map(|body| serde_json::from_str::<Value>(body).ok());
    let counters = counters.filter(|counter| counter["name"] == "increments");
    let totals: Vec<u64> = counters.filter_map(|counter| counter["total"].as_u64()).collect();
    assert_eq!(totals, [2, 4]);
    let of = |start: &str| -> Value {
        let is_of = |record: &&Value| {
            let body = &record["body"];
            body.as_str().map_or_else(|| body.to_string(), str::to_owned).contains(start)
        };
        all.iter().find(is_of).unwrap_or_else(|| panic!("{start}: {all:?}")).clone()
    };
    let out = of("to stdout ü");
    assert_eq!(out["resource"]["service.name"], "app-guid");
    assert_eq!(out["resource"]["service.instance.id"], "3");
    let tags = json!(["deployment:cf", "job:cell", "source_type:APP/PROC/WEB"]);
    assert_eq!(out["resource"]["tags"], tags);
    assert_eq!(out["attributes"]["request_id"], "r 1");
    assert_eq!(out["attributes"]["old"], "-7");
    assert_eq!(of("to stderr")["severity_text"], "ERROR");
    for metric in ["requests", "memory", "disk", "http", "crash"] {
        assert_eq!(of(metric)["resource"]["service.name"], "app-guid");
    }
    assert_eq!(of("alone")["resource"]["service.name"], "other");
    weir.stop();
}

/// Files for mutual TLS: certificates and keys by their paths.
pub(crate) struct Certificates {
    pub(crate) ca: String,
    /// Of a client that the authority knows.
    pub(crate) good: (String, String),
    /// Of a client of another authority.
    pub(crate) bad: (String, String),
    /// Of a server.
    pub(crate) server: (String, String),
    /// The keys of a server that verifies its clients.
    pub(crate) tls: String,
}

impl Certificates {
    pub(crate) fn write(scene: &Scene) -> Self {
        let write = |name: &str, text: String| {
            let path = scene.dir().join(name);
            std::fs::write(&path, text).expect("a file can be written");
            path.display().to_string()
        };
        let (own, other) = (Pki::new(), Pki::new());
        let pair = |pki: &Pki, name: &str| {
            let (certificate, key) = pki.server_pem();
            (write(&format!("{name}.pem"), certificate), write(&format!("{name}.key"), key))
        };
        let (ca, server) = (write("ca.pem", own.ca_pem()), pair(&own, "server"));
        let tls = format!(
            "tls = {{ cert_file = {:?}, key_file = {:?}, client_ca_file = {ca:?} }}\n",
            server.0, server.1
        );
        Self { ca, good: pair(&own, "good"), bad: pair(&other, "bad"), server, tls }
    }
}

#[test]
fn only_clients_with_a_certificate_of_the_authority_may_send() {
    let python = python();
    let scene = Scene::new();
    let files = Certificates::write(&scene);
    let Certificates { ca, good, bad, .. } = &files;
    let mut weir = scene.start(&(source(&files.tls) + &file(&scene)));
    let with = |pair: &(String, String)| {
        said(send(&python, &weir, "Send", Path::new(""), &[ca, &pair.0, &pair.1]))
    };
    assert_eq!(with(good), "OK 1\n");
    assert!(with(bad).starts_with("UNAVAILABLE 0"));
    assert!(with(&(String::new(), String::new())).starts_with("UNAVAILABLE 0"));
    assert_eq!(with(good), "OK 1\n");
    delivered(&weir, 14);
    assert!(weir.metrics().contains("error_type=\"tls\""));
    weir.stop();
}

#[test]
fn invalid_calls_get_a_grpc_status_and_do_not_affect_others() {
    let python = python();
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + &file(&scene)));
    let status = |method: &str, name: &str, all: &[Vec<u8>]| {
        said(send(&python, &weir, method, &messages(&scene, name, all), &[]))
    };
    let fits = {
        // Field 15 is unknown, and kept.
        let mut envelope = log("big", b"line");
        let rest = MESSAGE_BYTES_MAX - envelope.len() - 5;
        envelope.extend_from_slice(&[0x7a]);
        let mut left = rest;
        while left >= 0x80 {
            envelope.push(left as u8 | 0x80);
            left >>= 7;
        }
        envelope.push(left as u8);
        envelope.resize(MESSAGE_BYTES_MAX, 0);
        envelope
    };
    assert_eq!(status("Sender", "fits", &[fits]), "OK 1\n");
    let long = status("Sender", "long", &[vec![0; MESSAGE_BYTES_MAX + 1]]);
    assert!(long.starts_with("RESOURCE_EXHAUSTED"), "{long}");
    let unknown = status("/loggregator.v2.Egress/Receiver", "unknown", &[Vec::new()]);
    assert!(unknown.starts_with("UNIMPLEMENTED"), "{unknown}");
    assert!(unknown.contains("unknown service loggregator.v2.Egress"), "{unknown}");
    // A batch that ends within an envelope, after a whole one and one that is not an envelope.
    let mut broken = Vec::new();
    add_to_loggregator_batch(&log("app", b"whole"), &mut broken);
    add_to_loggregator_batch(&[0x12, 200], &mut broken);
    broken.extend_from_slice(&[0x0a, 100, 1]);
    let broken = status("BatchSender", "broken", &[broken]);
    assert!(broken.starts_with("INTERNAL"), "{broken}");
    half_a_message(&weir);
    assert_eq!(status("Sender", "last", &[log("app", b"last")]), "OK 1\n");
    // Big, whole, malformed, last; the ends of a batch and of a message are lost.
    delivered(&weir, 4);
    let books = weir.wait_books("the rest is counted", PATIENCE, |b| lost(b, "partial_lost") == 2);
    books.assert_balanced();
    assert_eq!(books.source("cf")["book"]["lines"], 6);
    assert_eq!(books.source("cf")["book"]["malformed"], 1);
    let metrics = weir.metrics();
    let kinds =
        ["malformed_message", "malformed_envelope", "message_too_long", "incomplete_message"];
    for kind in kinds {
        assert!(metrics.contains(&format!("error_type=\"{kind}\"")), "{kind}: {metrics}");
    }
    weir.stop();
}

/// Ends a stream within a message, which client libraries never do.
fn half_a_message(weir: &Weir) {
    let mut headers = vec![0x83, 0x86]; // POST, http
    let named = [
        (":path", "/loggregator.v2.Ingress/Sender"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
    ];
    for (name, value) in named {
        headers.push(0);
        for text in [name, value] {
            headers.push(text.len() as u8);
            headers.extend_from_slice(text.as_bytes());
        }
    }
    let frame = |kind: u8, flags: u8, stream: u8, content: &[u8]| {
        let mut frame = (content.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags, 0, 0, 0, stream]);
        frame.extend_from_slice(content);
        frame
    };
    let mut tcp = TcpStream::connect(weir.source_address("cf")).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend_from_slice(&frame(4, 0, 0, b""));
    bytes.extend_from_slice(&frame(1, 4, 1, &headers));
    bytes.extend_from_slice(&frame(0, 1, 1, &[0, 0, 0, 0, 100, 0x12, 3]));
    tcp.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    let mut space = [0; 4096];
    // The status is compressed; what follows the settings is enough.
    while answer.len() < 60 {
        let count = tcp.read(&mut space).expect("an answer arrives");
        assert!(count > 0, "the connection ends without a status: {answer:?}");
        answer.extend_from_slice(&space[..count]);
    }
}

#[test]
fn kills_under_load_count_envelopes_that_were_received_and_not_stored() {
    let python = python();
    let scene = Scene::new();
    let collector = Collector::start();
    let config = source("") + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    for kill in 0..3 {
        let before = weir.books().records();
        let client = |name: &str| {
            let app = format!("{name}{kill}");
            let path = messages(&scene, &app, &batches(&app, 1_000));
            send(&python, &weir, "BatchSender", &path, &[])
        };
        let clients = [client("a"), client("b")];
        let received = |books: &Books| books.records() >= before + 3_000 + kill * 7_000;
        weir.wait_books("some have arrived", PATIENCE, received);
        weir.kill();
        for client in clients {
            said(client);
        }
        weir = scene.start(&config);
    }
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    let crash = lost(&books, "crash");
    let lines = books.source("cf")["book"]["lines"].as_u64().unwrap();
    assert_eq!(books.records() + crash, lines, "{books}");
    // Records that were delivered before a kill, and never written, are in the book of the output
    // as well.
    let book = &books.output(OUTPUT)["book"];
    assert_eq!(book["routed"], books.records(), "{book}");
    assert_eq!(book["delivered"], books.records(), "{book}");
    let arrived = collector.look(Tally::unique);
    // Everything that is stored has arrived; records that arrived beyond that were counted as lost,
    // since they were delivered but not on disk.
    assert!(books.records() <= arrived && arrived <= lines, "{arrived} {books}");
    weir.stop();
}

#[test]
fn a_full_buffer_stops_streams_and_loses_nothing() {
    let python = python();
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let keys = "window = \"1MiB\"\nbuffer_max = \"4MiB\"\n";
    let mut weir = scene.start(&(source("") + &hec(OUTPUT, &collector, keys)));
    let batch = messages(&scene, "batches", &batches("b", 400));
    // One envelope per message: many small frames wait at once.
    let single: Vec<Vec<u8>> = (0..5_000_u64)
        .map(|seq| {
            let mut line = Vec::new();
            LineId::write("s", 0, seq, b"", &mut line);
            log("s", &line)
        })
        .collect();
    let single = messages(&scene, "single", &single);
    let clients = [
        send(&python, &weir, "BatchSender", &batch, &[]),
        send(&python, &weir, "Sender", &single, &[]),
    ];
    let is_full = |books: &Books| books.output(OUTPUT)["blocking"] == true;
    weir.wait_books("the buffer is full", PATIENCE, is_full);
    collector.answer(Answer::Accept);
    let ends = clients.map(said);
    assert_eq!(ends, ["OK 400\n", "OK 5000\n"]);
    weir.wait_books("all is read", PATIENCE, |books| books.records() == 45_000);
    at_rest(&weir, OUTPUT).assert_balanced();
    assert_eq!(collector.look(|tally| tally.unique_of("b")), 40_000);
    assert_eq!(collector.look(|tally| tally.unique_of("s")), 5_000);
    weir.stop();
}

#[test]
fn a_stop_under_load_ends_streams_in_time_and_keeps_what_was_received() {
    let python = python();
    let scene = Scene::new();
    let collector = Collector::start();
    let config = source("") + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let path = messages(&scene, "load", &batches("a", 5_000));
    let client = send(&python, &weir, "BatchSender", &path, &[]);
    weir.wait_books("some has arrived", PATIENCE, |books| books.records() > 5_000);
    let begun = Instant::now();
    weir.stop();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let end = said(client);
    let mut weir = scene.start(&config);
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    assert_eq!(lost(&books, "crash"), 0, "{end} {books}");
    assert_eq!(collector.look(Tally::unique), books.records());
    if !end.starts_with("OK") {
        assert!(end.starts_with("UNAVAILABLE"), "{end}");
    }
    weir.stop();
}

#[test]
fn a_noisy_application_is_held_back_alone() {
    let python = python();
    let scene = Scene::new();
    let limit = "rate_limit = { by = [\"service\"], records_per_second = 1000, \
                 when_limited = \"discard\" }";
    let mut weir = scene.start(&(source(limit) + &file(&scene)));
    let noisy = messages(&scene, "noisy", &batches("noisy", 200));
    let quiet = messages(&scene, "quiet", &batches("quiet", 10));
    let clients = [&noisy, &quiet].map(|path| send(&python, &weir, "BatchSender", path, &[]));
    assert_eq!(clients.map(said), ["OK 200\n", "OK 10\n"]);
    let read = |books: &Books| books.records() + lost(books, "rate_limit") >= 21_000;
    weir.wait_books("all is read", PATIENCE, read);
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    assert!(lost(&books, "rate_limit") > 5_000, "{books}");
    let all = records(&scene.dir().join("out.log"));
    let quiet = all.iter().filter(|record| record["resource"]["service.name"] == "quiet");
    assert_eq!(quiet.count(), 1_000);
    weir.stop();
}
