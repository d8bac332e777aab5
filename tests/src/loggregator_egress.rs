//! Readers of envelopes, with the official gRPC client: every requested envelope arrives, or the
//! reader is told how many did not.
//!
//! Needs Python with the package `grpcio`, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorMessage, add_to_loggregator_batch, encode_loggregator_envelope,
};
use weir_testkit::{Books, PATIENCE, Weir};

use crate::loggregator::{Certificates, log, messages, python, said, send, source};
use crate::scene::Scene;
use crate::syslog::file;

const CLIENT: &str =
    concat!(include_str!("loggregator_wire.py"), include_str!("loggregator_reader.py"));

pub(crate) const EGRESS: &str = "[loggregator.egress]\nlisten = \"127.0.0.1:0\"\n";
const GATEWAY: &str = "[loggregator.gateway]\nlisten = \"127.0.0.1:0\"\n";
pub(crate) const BLACKHOLE: &str = "[output.none]\ntype = \"blackhole\"\n";

/// Lines of a client that wait: more than any test reads, so that no client waits for its test.
pub(crate) const LINES_MAX: usize = 200_000;

/// What the ledger says about a service.
pub(crate) fn service(books: &Books, name: &str) -> Value {
    let services = books.json()["readers"].as_array().cloned().unwrap_or_default();
    services.into_iter().find(|service| service["name"] == name).expect("the service is there")
}

pub(crate) fn address(weir: &Weir, name: &str) -> SocketAddr {
    service(&weir.books(), name)["address"].as_str().unwrap().parse().unwrap()
}

/// Waits until nothing waits for readers, and all envelopes that they requested are accounted for.
pub(crate) fn settled(weir: &Weir, name: &str, matched: u64) -> Value {
    let books = weir.wait_books("readers have everything", PATIENCE, |books| {
        let service = service(books, name);
        service["matched"] == matched && service["queued"] == 0 && service["unaccounted"] == 0
    });
    service(&books, name)
}

/// A client that reads; it is killed at the end.
pub(crate) struct Reader {
    child: Child,
    stdin: ChildStdin,
    /// Its output, read line by line as it is written.
    lines: Receiver<String>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    /// Starts a client, which reads until it has this many envelopes.
    fn start(weir: &Weir, method: &str, request: &Value, count: u64, tls: &[&str]) -> Self {
        let mut command = Command::new(python());
        command.args(["-c", CLIENT, &address(weir, "egress").to_string(), method]);
        command.args([request.to_string(), count.to_string()]).args(tls);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python runs");
        let stdin = child.stdin.take().expect("it has an input");
        let stdout = BufReader::new(child.stdout.take().expect("it has an output"));
        let (said, lines) = std::sync::mpsc::sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| said.send(line))
        });
        Self { child, stdin, lines }
    }

    /// Starts a client that has opened its stream.
    pub(crate) fn open(weir: &Weir, method: &str, request: &Value, count: u64) -> Self {
        let reader = Self::start(weir, method, request, count, &[]);
        assert_eq!(reader.line(), "open");
        reader
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the client writes")
    }

    /// Returns its output until its end.
    pub(crate) fn rest(self) -> Vec<String> {
        self.lines.iter().collect()
    }
}

/// A request for envelopes of all sources.
fn all(kind: &str) -> Value {
    json!({ "selectors": [["", kind]] })
}

/// Numbered logs in batches.
fn numbered(logs: u64, per_batch: u64, bytes: usize) -> Vec<Vec<u8>> {
    numbered_of("app", logs, per_batch, bytes)
}

fn numbered_of(app: &str, logs: u64, per_batch: u64, bytes: usize) -> Vec<Vec<u8>> {
    let batch = |first: u64| {
        let mut batch = Vec::new();
        for number in first..(first + per_batch).min(logs) {
            let mut line = format!("{number} ").into_bytes();
            line.resize(bytes.max(line.len()), b'x');
            add_to_loggregator_batch(&log(app, &line), &mut batch);
        }
        batch
    };
    (0..logs).step_by(per_batch as usize).map(batch).collect()
}

/// The numbers of logs, and how many were dropped.
fn numbers(lines: &[String]) -> (Vec<u64>, u64) {
    let (mut found, mut dropped) = (Vec::new(), 0);
    for line in lines {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["log", "app", number, _] => found.push(number.parse().unwrap()),
            ["counter", "reverse_log_proxy", "dropped", delta] => {
                dropped += delta.parse::<u64>().unwrap();
            }
            _ => panic!("{line}"),
        }
    }
    (found, dropped)
}

fn sent(scene: &Scene, weir: &Weir, name: &str, batches: &[Vec<u8>]) {
    let path = messages(scene, name, batches);
    let expected = format!("OK {}\n", batches.len());
    assert_eq!(said(send(&python(), weir, "BatchSender", &path, &[])), expected);
}

#[test]
fn every_selector_matches_its_envelopes_over_both_methods() {
    let scene = Scene::new();
    let mut weir =
        scene.start(&(source("tags = { deployment = \"cf\" }") + &file(&scene) + EGRESS));
    let cases: [(&str, Value, &[&str]); 8] = [
        ("BatchedReceiver", all("log"), &["log app-guid to 0", "log app-guid to 0"]),
        ("Receiver", all("log"), &["log app-guid to 0", "log app-guid to 0"]),
        ("BatchedReceiver", all("counter"), &["counter app-guid requests 3"]),
        (
            "Receiver",
            json!({"selectors": [["app-guid", "counter", "requests"]]}),
            &["counter app-guid requests 3"],
        ),
        (
            "BatchedReceiver",
            json!({"selectors": [["", "gauge", "memory", "disk"]]}),
            &["gauge app-guid disk,memory 0"],
        ),
        (
            "BatchedReceiver",
            all("gauge"),
            &["gauge app-guid memory 0", "gauge app-guid disk,memory 0"],
        ),
        ("BatchedReceiver", all("timer"), &["timer app-guid http 0"]),
        (
            "BatchedReceiver",
            json!({"preferred": false, "selectors": [["", "event"], ["app-guid", "event"]]}),
            &["event app-guid crash 0"],
        ),
    ];
    let start = |(method, request, lines): &(&str, Value, &[&str])| {
        Reader::open(&weir, method, request, lines.len() as u64)
    };
    let readers: Vec<Reader> = cases.iter().map(start).collect();
    let elsewhere = Reader::open(&weir, "Receiver", &json!({"selectors": [["other", "log"]]}), 1);
    assert_eq!(said(send(&python(), &weir, "Send", Path::new(""), &[])), "OK 1\n");
    for ((_, request, expected), reader) in cases.iter().zip(readers) {
        assert_eq!(reader.rest(), *expected, "{request}");
    }
    sent(
        &scene,
        &weir,
        "other",
        &[{
            let mut batch = Vec::new();
            add_to_loggregator_batch(&log("other", b"line"), &mut batch);
            batch
        }],
    );
    assert_eq!(elsewhere.rest(), ["log other line 0"]);
    let egress = settled(&weir, "egress", 12);
    assert_eq!((&egress["delivered"], &egress["lost"]), (&json!(12), &json!(0)));
    weir.stop();
}

#[test]
fn each_reader_gets_all_logs_and_a_shard_each_once() {
    const LOGS: u64 = 60_000;
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + BLACKHOLE + EGRESS));
    let shard = json!({ "shard_id": "s", "selectors": [["", "log"]] });
    let alone: Vec<Reader> =
        (0..2).map(|_| Reader::open(&weir, "BatchedReceiver", &all("log"), LOGS)).collect();
    let shards: Vec<Reader> =
        (0..3).map(|_| Reader::open(&weir, "BatchedReceiver", &shard, LOGS)).collect();
    sent(&scene, &weir, "sent", &numbered(LOGS, 100, 200));
    for reader in alone {
        assert_eq!(numbers(&reader.rest()), ((0..LOGS).collect(), 0));
    }
    let egress = settled(&weir, "egress", 3 * LOGS);
    assert_eq!(egress["lost"], 0);
    weir.stop();
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    for reader in shards {
        let mut lines = reader.rest();
        assert_eq!(lines.pop().unwrap(), "UNAVAILABLE the server is stopping");
        let (found, dropped) = numbers(&lines);
        assert!(found.len() as u64 > LOGS / 10 && dropped == 0, "{}", found.len());
        assert!(found.is_sorted(), "in order");
        for number in found {
            *times.entry(number).or_default() += 1;
        }
    }
    assert_eq!(times, (0..LOGS).map(|number| (number, 1)).collect());
}

#[test]
fn large_logs_reach_a_client_with_the_usual_limit_of_its_messages() {
    const LOGS: u64 = 2000;
    let scene = Scene::new();
    // Readers in Python on a busy machine may be slow: an eighth is enough for all logs.
    let buffer = "[limits]\nmemory = \"2GiB\"\n[loggregator]\nbuffer_max = \"1GiB\"\n";
    let mut weir = scene.start(&(source("") + BLACKHOLE + buffer + EGRESS));
    let readers: Vec<Reader> = ["BatchedReceiver", "Receiver"]
        .map(|method| Reader::open(&weir, method, &all("log"), LOGS))
        .into();
    sent(&scene, &weir, "sent", &numbered(LOGS, 10, 60_000));
    for reader in readers {
        assert_eq!(numbers(&reader.rest()), ((0..LOGS).collect(), 0));
    }
    assert_eq!(settled(&weir, "egress", 2 * LOGS)["lost"], 0);
    weir.stop();
}

#[test]
fn large_logs_over_several_connections_arrive_once_or_are_counted_within_the_memory_limit() {
    const LOGS: u64 = 1000;
    const MEMORY: u64 = 512 << 20;
    let apps = ["app-1", "app-2", "app-3", "app-4"];
    let all_logs = LOGS * apps.len() as u64;
    let scene = Scene::new();
    let limits = format!("[limits]\nmemory = \"{MEMORY}B\"\n");
    let mut weir = scene.start(&(source("") + BLACKHOLE + EGRESS + &limits));
    let reader = Reader::open(&weir, "BatchedReceiver", &all("log"), all_logs);
    let path = |app: &str| messages(&scene, app, &numbered_of(app, LOGS, 10, 60_000));
    let files = apps.map(path);
    let client = |file| send(&python(), &weir, "BatchSender", file, &[]);
    let clients: Vec<Child> = files.iter().map(|file| client(file)).collect();
    for client in clients {
        assert_eq!(said(client), format!("OK {}\n", LOGS / 10));
    }
    let mut dropped = 0;
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in reader.rest() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["log", app, number, _] => {
                found.entry(app.to_owned()).or_default().push(number.parse().unwrap());
            }
            ["counter", "reverse_log_proxy", "dropped", delta] => {
                dropped += delta.parse::<u64>().unwrap();
            }
            _ => panic!("{line}"),
        }
    }
    let is_rising = |numbers: &Vec<u64>| numbers.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(found.values().all(is_rising), "in order, and each once");
    assert_eq!(found.values().map(|of| of.len() as u64).sum::<u64>() + dropped, all_logs);
    let of = |books: &Books, name: &str| service(books, "egress")[name].as_u64().unwrap();
    let books = weir.wait_books("all is delivered", PATIENCE, |books| {
        // On a busy machine some are not even compared with what readers want.
        let compared = of(books, "matched") + of(books, "missed");
        compared == all_logs
            && of(books, "queued") == 0
            && books.delivered("none") == all_logs
            && books.in_flight("none") == 0
    });
    books.assert_balanced();
    assert_eq!(of(&books, "lost") + of(&books, "missed"), dropped, "{books}");
    assert_eq!(service(&books, "egress")["unaccounted"], 0);
    assert_eq!(books.records(), all_logs, "{books}");
    let memory = weir.memory_max_bytes();
    println!("{dropped} of {all_logs} dropped, {} MiB", memory >> 20);
    assert!(memory < MEMORY, "{} MiB", memory >> 20);
    weir.stop();
}

#[test]
fn a_stuck_reader_is_told_exactly_what_it_lost_and_costs_others_nothing() {
    const LOGS: u64 = 30_000;
    let scene = Scene::new();
    let buffer = "[loggregator]\nbuffer_max = \"16MiB\"\n";
    let mut weir = scene.start(&(source("") + BLACKHOLE + buffer + EGRESS));
    let mut paused = all("log");
    paused["pause"] = json!(true);
    let mut stuck = Reader::open(&weir, "BatchedReceiver", &paused, LOGS);
    let quick = Reader::open(&weir, "BatchedReceiver", &all("log"), LOGS);
    // A part is less than half of what may wait for a reader, and the next one follows only when
    // the quick reader has it.
    let mut found = Vec::new();
    for part in numbered(LOGS, 100, 1000).chunks(10) {
        sent(&scene, &weir, "sent", part);
        found.extend((0..1000).map(|_| quick.line()));
    }
    assert_eq!(numbers(&found), ((0..LOGS).collect(), 0));
    let books = weir.wait_books("all is read", PATIENCE, |books| {
        service(books, "egress")["matched"] == 2 * LOGS
    });
    let lost = service(&books, "egress")["lost"].as_u64().unwrap();
    // The ledger says which reader has lost it. The quick one has everything, and may have left.
    let connected = service(&books, "egress")["connected"].as_array().unwrap().clone();
    assert_eq!(connected[0]["lost"], lost);
    for reader in &connected {
        assert_eq!(reader["unaccounted"], 0, "{reader}");
        assert_eq!((&reader["matched"], &reader["selects"]), (&json!(LOGS), &json!("log of all")));
        assert!(reader["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{reader}");
    }
    stuck.stdin.write_all(b"go on\n").unwrap();
    let (found, dropped) = numbers(&stuck.rest());
    assert_eq!(found.len() as u64 + dropped, LOGS);
    assert!(dropped > LOGS / 2, "{dropped}");
    assert_eq!(dropped, lost);
    assert_eq!(settled(&weir, "egress", 2 * LOGS)["lost"], lost);
    weir.stop();
}

#[test]
fn requests_that_are_not_valid_are_answered_as_by_the_original() {
    let scene = Scene::new();
    let limit = EGRESS.to_owned() + "streams_max = 1\n";
    let mut weir = scene.start(&(source("") + BLACKHOLE + &limit));
    let answer = |method: &str, request: &Value| {
        Reader::start(&weir, method, request, 1, &[]).rest().join("\n")
    };
    let empty = json!({ "selectors": [] });
    for method in ["Receiver", "BatchedReceiver"] {
        assert_eq!(answer(method, &empty), "INVALID_ARGUMENT Selectors cannot be empty");
    }
    let none = json!({ "selectors": [["app", ""]] });
    assert_eq!(answer("BatchedReceiver", &none), "INVALID_ARGUMENT Selectors must have a Message");
    let unknown = answer("/loggregator.v2.Egress/Query", &all("log"));
    assert_eq!(unknown, "UNIMPLEMENTED unknown method Query for service loggregator.v2.Egress");
    // An agent whose router has one port for senders and readers.
    for method in ["loggregator.v2.Ingress/BatchSender", "plumbing.DopplerIngestor/Pusher"] {
        let sent = answer(&format!("/{method}"), &all("log"));
        let service = method.split('/').next().unwrap();
        let text = "envelopes are received by a source of type \"loggregator\", on its own port";
        assert_eq!(sent, format!("UNIMPLEMENTED unknown service {service}: {text}"));
    }
    let log = weir.wait_log("sends envelopes to a port for readers");
    assert_eq!(log.matches("to a port for readers").count(), 1, "{log}");
    let first = Reader::open(&weir, "BatchedReceiver", &all("log"), 1);
    let text = "RESOURCE_EXHAUSTED unable to create stream, max egress streams reached: 1";
    assert_eq!(answer("BatchedReceiver", &all("log")), text);
    drop(first);
    weir.wait_books("its reader has left", PATIENCE, |books| {
        service(books, "egress")["readers"] == 0
    });
    assert_eq!(service(&weir.books(), "egress")["refused"], 7);
    drop(Reader::open(&weir, "BatchedReceiver", &all("log"), 1));
    weir.stop();
}

#[test]
fn only_readers_with_a_certificate_of_the_authority_are_served() {
    let scene = Scene::new();
    let files = Certificates::write(&scene);
    let Certificates { ca, good, bad, .. } = &files;
    let mut weir = scene.start(&(source("") + BLACKHOLE + EGRESS + &files.tls));
    let request = all("log");
    let read = |pair: &(String, String)| {
        Reader::start(&weir, "BatchedReceiver", &request, 1, &[ca, &pair.0, &pair.1])
    };
    for pair in [bad, &(String::new(), String::new())] {
        assert!(read(pair).line().starts_with("UNAVAILABLE"));
    }
    let reader = read(good);
    assert_eq!(reader.line(), "open");
    sent(&scene, &weir, "log", &numbered(1, 1, 0));
    assert_eq!(reader.rest(), ["log app 0 0"]);
    weir.stop();
}

/// Sends a request to the gateway; returns what has arrived once `is_done`.
fn get(weir: &Weir, request: &str, mut is_done: impl FnMut(&str) -> bool) -> String {
    let mut tcp = TcpStream::connect(address(weir, "gateway")).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(tcp, "{request} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (mut answer, mut space) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if is_done(&text) {
            return text;
        }
        let count = tcp.read(&mut space).expect("an answer arrives");
        assert!(count > 0, "the connection ends: {text}");
        answer.extend_from_slice(&space[..count]);
    }
}

#[test]
fn the_gateway_sends_events_and_errors_of_the_original() {
    let scene = Scene::new();
    let keys = "stream_timeout = \"3s\"\n";
    let mut weir = scene.start(&(source("") + BLACKHOLE + GATEWAY + keys));
    let error = |request: &str| get(&weir, request, |text| text.ends_with("}\n\n"));
    let empty = error("GET /v2/read");
    assert!(empty.starts_with("HTTP/1.1 400 "), "{empty}");
    assert!(empty.contains("content-type: text/plain; charset=utf-8\r\n"), "{empty}");
    assert!(empty.contains("x-content-type-options: nosniff\r\n"), "{empty}");
    assert!(
        empty.ends_with("{\"message\":\"query cannot be empty\",\"error\":\"empty_query\"}\n\n")
    );
    assert!(error("GET /v2/read?source_id=a").contains("\"missing_envelope_type\""));
    assert!(error("POST /v2/read?log").starts_with("HTTP/1.1 405 "));
    let undecodable = error("GET /v2/read?log=%zz");
    assert!(undecodable.contains("\"empty_query\""), "{undecodable}");
    let moved = get(&weir, "GET //v2/read?log", |text| text.contains("\r\n\r\n"));
    assert!(moved.starts_with("HTTP/1.1 301 "), "{moved}");
    assert!(moved.contains("location: /v2/read?log\r\n"), "{moved}");
    let missing = get(&weir, "GET /v2/read/", |text| text.ends_with("404 page not found\n"));
    assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
    let mut is_sent = false;
    let events = get(&weir, "GET /v2/read?log&counter.name=hits&source_id=app", |text| {
        // The headers arrive before there is anything to send.
        if text.contains("\r\n\r\n") && !std::mem::replace(&mut is_sent, true) {
            let message = LoggregatorMessage::Counter { name: b"hits", delta: 2, total: 0 };
            let counter = LoggregatorEnvelope { source_id: b"app", message, ..Default::default() };
            let (mut bytes, mut batch) = (Vec::new(), Vec::new());
            encode_loggregator_envelope(&counter, &[], &mut bytes);
            add_to_loggregator_batch(&log("app", b"a line"), &mut batch);
            add_to_loggregator_batch(&bytes, &mut batch);
            sent(&scene, &weir, "batch", &[batch]);
        }
        text.ends_with("0\r\n\r\n")
    });
    assert!(events.contains("content-type: text/event-stream\r\n"), "{events}");
    assert!(events.contains("cache-control: no-cache\r\n"), "{events}");
    let expected = concat!(
        r#"data: {"batch":[{"timestamp":"1795288351000000000","source_id":"app","instance_id":"0","#,
        r#""deprecated_tags":{},"tags":{"job":"cell"},"log":{"payload":"YSBsaW5l","type":"OUT"}},"#,
        r#"{"timestamp":"0","source_id":"app","instance_id":"","deprecated_tags":{},"tags":{},"#,
        r#""counter":{"name":"hits","delta":"2","total":"2"}}]}"#,
        "\n\n",
    );
    assert!(events.contains(expected), "{events}");
    assert!(events.contains("event: closing\ndata: closing due to stream timeout\n\n"), "{events}");
    let gateway = settled(&weir, "gateway", 2);
    assert_eq!((&gateway["delivered"], &gateway["refused"]), (&json!(2), &json!(4)));
    weir.stop();
}

#[test]
fn logs_of_other_sources_are_read_as_envelopes() {
    let scene = Scene::new();
    let logs = scene.source("raw");
    let mut weir = scene.start(&(logs + BLACKHOLE + GATEWAY));
    let path = scene.logs().join("app.log");
    let mut is_written = false;
    let events = get(&weir, "GET /v2/read?log&source_id=logs", |text| {
        if text.contains("\r\n\r\n") && !std::mem::replace(&mut is_written, true) {
            std::fs::write(&path, "a line\n").unwrap();
        }
        text.contains("YSBsaW5l")
    });
    assert!(events.contains("\"source_id\":\"logs\""), "{events}");
    weir.stop();
}
