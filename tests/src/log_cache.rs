//! The log-cache, over HTTP and with the official gRPC client: received envelopes are read back
//! unchanged, from memory and after a restart.
//!
//! Needs Python with the package `grpcio`, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    add_to_loggregator_batch, encode_loggregator_envelope, encode_loggregator_metrics,
};
use weir_testkit::{PATIENCE, Weir, wait_for};

use crate::loggregator::{messages, python, said, send, source};
use crate::loggregator_egress::{address, service};
use crate::scene::{Scene, apply, at_rest};

const CLIENT: &str =
    concat!(include_str!("loggregator_wire.py"), include_str!("log_cache_reader.py"));

const LOG_CACHE: &str = "[loggregator.log_cache]\nlisten = \"127.0.0.1:0\"\n\
                         [store]\nflush_interval = \"1s\"\n";

/// Time of the first envelope, nanoseconds since 1970.
const FIRST_NS: i64 = 1_795_288_351_000_000_000;

fn log_cache(weir: &Weir) -> Value {
    service(&weir.books(), "log_cache")
}

/// Status, headers and body of an answer.
fn get(weir: &Weir, method: &str, path: &str) -> (u16, String, String) {
    let address = address(weir, "log_cache");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

/// The JSON of an answer.
fn json_of(weir: &Weir, path: &str) -> Value {
    let (status, head, body) = get(weir, "GET", path);
    assert_eq!(status, 200, "{path}: {body}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(body.ends_with("}\n"), "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Returns the output of the gRPC client.
fn call(weir: &Weir, method: &str, request: &Value) -> Vec<String> {
    let mut command = Command::new(python());
    command.args([
        "-c",
        CLIENT,
        &address(weir, "log_cache").to_string(),
        method,
        &request.to_string(),
    ]);
    let out = command.output().expect("python runs");
    String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect()
}

/// The envelopes of an answer over gRPC, as hexadecimal digits.
fn read(weir: &Weir, request: &Value) -> Vec<String> {
    let mut lines = call(weir, "Read", request);
    assert_eq!(lines.pop().as_deref(), Some("OK"), "{request}");
    lines
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

fn sent(scene: &Scene, weir: &Weir, envelopes: &[Vec<u8>]) {
    let batch = |envelopes: &[Vec<u8>]| {
        let mut batch = Vec::new();
        for envelope in envelopes {
            add_to_loggregator_batch(envelope, &mut batch);
        }
        batch
    };
    let batches: Vec<Vec<u8>> = envelopes.chunks(100).map(batch).collect();
    let path = messages(scene, "sent", &batches);
    let expected = format!("OK {}\n", batches.len());
    assert_eq!(said(send(&python(), weir, "BatchSender", &path, &[])), expected);
}

/// Waits until all envelopes can be read. Returns the number by source.
fn wait_read(weir: &Weir, count: u64) -> BTreeMap<String, u64> {
    let counts = || {
        let meta = json_of(weir, "/api/v1/meta");
        let meta = meta["meta"].as_object().unwrap().clone();
        let of_source = |(name, info): (String, Value)| {
            (name, info["count"].as_str().unwrap().parse().unwrap())
        };
        let counts: BTreeMap<String, u64> = meta.into_iter().map(of_source).collect();
        (counts.values().sum::<u64>() == count).then_some(counts)
    };
    wait_for(PATIENCE, counts).expect("everything can be read")
}

fn envelope(source: &str, at: i64, message: LoggregatorMessage<'_>) -> Vec<u8> {
    let envelope = LoggregatorEnvelope {
        timestamp_ns: FIRST_NS + at,
        source_id: source.as_bytes(),
        instance_id: b"0",
        message,
        ..LoggregatorEnvelope::default()
    };
    let tags =
        [("zone", "z1"), ("deployment", "cf"), ("request_id", "r \"1\""), ("app_name", "\u{fc}")];
    let mut bytes = Vec::new();
    encode_loggregator_envelope(&envelope, &tags, &mut bytes);
    bytes
}

fn log(source: &str, at: i64, payload: &[u8]) -> Vec<u8> {
    envelope(source, at, LoggregatorMessage::Log { payload, is_error: at % 2 == 1 })
}

/// Envelopes of each kind, one per nanosecond; payloads of every form.
fn every_kind(source: &str) -> Vec<(&'static str, Vec<u8>)> {
    let payloads: [&[u8]; 7] = [
        b"a plain line",
        b"{ \"b\" : 1.50,  \"a\":[ ], \"message\": \"in JSON\" }",
        b"level=info msg=\"key value\"",
        b"\xff\xfe not text",
        b"",
        b"  2026-11-25T00:00:00Z ERROR spaces around  ",
        b"{\"truncated\": ",
    ];
    let mut metrics = Vec::new();
    let metric = |name: &'static [u8], value| LoggregatorMetric { name, unit: b"By", value };
    let values = [
        metric(b"memory", -0.0),
        metric(b"disk", f64::MAX),
        metric(b"cpu", f64::NAN),
        metric(b"other", 1e-300),
    ];
    encode_loggregator_metrics(&values, &mut metrics);
    let mut all: Vec<(&'static str, Vec<u8>)> = Vec::new();
    for payload in payloads {
        all.push(("LOG", log(source, all.len() as i64, payload)));
    }
    let counter = LoggregatorMessage::Counter { name: b"requests", delta: 3, total: u64::MAX };
    let gauge = LoggregatorMessage::Gauge(LoggregatorGauge(&metrics));
    let timer = LoggregatorMessage::Timer { name: b"http", start_ns: i64::MIN, stop_ns: 7 };
    let event = LoggregatorMessage::Event { title: b"crash", body: b"exit\n1" };
    let messages = [("COUNTER", counter), ("GAUGE", gauge), ("TIMER", timer), ("EVENT", event)];
    for (kind, message) in messages {
        all.push((kind, envelope(source, all.len() as i64, message)));
    }
    // A field that no release knows.
    let last = all.len() as i64;
    let unknown = [log(source, last, b"with more"), b"\x9a\x06\x03new".to_vec()].concat();
    all.push(("LOG", unknown));
    all
}

/// Asserts the answers to every kind of request about [`every_kind`], over gRPC.
fn assert_read_back(weir: &Weir, app: &str) {
    let all = every_kind(app);
    let expected = |kind: &str| -> Vec<String> {
        let is_of = |(of, _): &&(&str, Vec<u8>)| kind == "ANY" || *of == kind;
        all.iter().filter(is_of).map(|(_, bytes)| hex(bytes)).collect()
    };
    for kind in ["ANY", "LOG", "COUNTER", "GAUGE", "TIMER", "EVENT"] {
        let mut request = json!({ "source_id": app, "envelope_types": [kind], "start_time": -5 });
        assert_eq!(read(weir, &request), expected(kind), "{kind}");
        request["descending"] = json!(true);
        let mut newest_first = expected(kind);
        newest_first.reverse();
        assert_eq!(read(weir, &request), newest_first, "{kind}");
        request["limit"] = json!(2);
        newest_first.truncate(2);
        assert_eq!(read(weir, &request), newest_first, "{kind}");
    }
    let (start, end) = (FIRST_NS + 3, FIRST_NS + 9);
    let request = json!({ "source_id": app, "start_time": start, "end_time": end });
    assert_eq!(read(weir, &request), expected("ANY")[3..9]);
}

#[test]
fn source_that_a_reload_adds_is_read_back_too() {
    let scene = Scene::new();
    let unrelated = "[source.other]\ntype = \"statsd\"\nlisten = \"127.0.0.1:0\"\n";
    let mut weir = scene.start(&format!("{unrelated}{LOG_CACHE}"));
    apply(&weir, &format!("{unrelated}{}{LOG_CACHE}", source("")));
    let all: Vec<Vec<u8>> = every_kind("app").into_iter().map(|(_, bytes)| bytes).collect();
    sent(&scene, &weir, &all);
    wait_read(&weir, all.len() as u64);
    assert_read_back(&weir, "app");
    assert!(!weir.log().contains("take effect at the next start"), "{}", weir.log());
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn every_kind_is_read_back_as_it_came_also_after_a_restart() {
    let scene = Scene::new();
    let config = source("tags = { deployment = \"other\" }") + LOG_CACHE;
    let mut weir = scene.start(&config);
    let apps = ["app", "6f1b", "job"];
    let all: Vec<Vec<u8>> =
        apps.iter().flat_map(|app| every_kind(app)).map(|(_, bytes)| bytes).collect();
    sent(&scene, &weir, &all);
    let assert_all = |weir: &Weir| {
        for app in apps {
            assert_read_back(weir, app);
        }
    };
    let each = (all.len() / apps.len()) as u64;
    let counts = wait_read(&weir, all.len() as u64);
    assert_eq!(counts, apps.iter().map(|app| ((*app).to_owned(), each)).collect());
    assert_all(&weir);
    at_rest(&weir, "store");
    assert_all(&weir);
    weir.stop();
    let mut weir = scene.start(&config);
    wait_read(&weir, all.len() as u64);
    assert_all(&weir);
    let last = FIRST_NS + each as i64 - 1;
    let mut lines = call(&weir, "Meta", &json!({}));
    assert_eq!(lines.pop().unwrap(), "OK");
    let expected = apps.iter().map(|app| format!("{app} {each} 0 {FIRST_NS} {last}"));
    let mut expected: Vec<String> = expected.collect();
    expected.sort();
    assert_eq!(lines, expected);
    let service = log_cache(&weir);
    assert_eq!(service["matched"], service["delivered"]);
    assert_eq!(service["unaccounted"], 0);
    weir.stop();
}

#[test]
fn answers_over_http_have_the_form_of_the_original() {
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + LOG_CACHE));
    let info = json_of(&weir, "/api/v1/info");
    assert!(info["version"].as_str().unwrap() >= "2.0.0", "{info}");
    assert!(info["vm_uptime"].as_str().unwrap().parse::<u64>().unwrap() > 0, "{info}");
    let empty = json_of(&weir, "/api/v1/read/nobody");
    assert_eq!(empty, json!({ "envelopes": { "batch": [] } }));
    assert_eq!(json_of(&weir, "/api/v1/meta"), json!({ "meta": {} }));
    let mut metrics = Vec::new();
    let metric = |name: &'static [u8]| LoggregatorMetric { name, unit: b"By", value: 0.5 };
    encode_loggregator_metrics(&[metric(b"memory"), metric(b"disk")], &mut metrics);
    let gauge = LoggregatorMessage::Gauge(LoggregatorGauge(&metrics));
    let counter = LoggregatorMessage::Counter { name: b"requests", delta: 3, total: 17 };
    let all =
        [log("a b/c", 0, b"line"), envelope("a b/c", 1, gauge), envelope("a b/c", 2, counter)];
    sent(&scene, &weir, &all);
    wait_read(&weir, 3);
    let (_, _, body) = get(&weir, "GET", "/api/v1/read/a%20b/c?limit=1");
    let expected = concat!(
        r#"{"envelopes":{"batch":[{"timestamp":"1795288351000000000","source_id":"a b/c","#,
        r#""instance_id":"0","deprecated_tags":{},"tags":{"app_name":"ü","deployment":"cf","#,
        r#""request_id":"r \"1\"","zone":"z1"},"log":{"payload":"bGluZQ==","type":"OUT"}}]}}"#,
        "\n",
    );
    assert_eq!(body, expected);
    let names = |query: &str| -> Vec<String> {
        let found = json_of(&weir, &format!("/api/v1/read/a%20b%2Fc?{query}"));
        let batch = found["envelopes"]["batch"].as_array().unwrap().clone();
        let name = |envelope: &Value| match &envelope["gauge"]["metrics"] {
            Value::Object(metrics) => metrics.keys().cloned().collect::<Vec<_>>().join(","),
            _ => envelope["counter"]["name"].as_str().unwrap_or("log").to_owned(),
        };
        batch.iter().map(name).collect()
    };
    assert_eq!(names("descending=true"), ["requests", "disk,memory", "log"]);
    assert_eq!(names("name_filter=%5Ed"), ["disk"]);
    assert_eq!(names("name_filter=e&descending=1&limit=1"), ["requests"]);
    assert_eq!(names("name_filter=nothing"), Vec::<String>::new());
    assert_eq!(names("envelope_types=LOG&envelope_types=COUNTER"), ["log", "requests"]);
    assert_eq!(names("start_time=-6795364578871345152"), ["log", "disk,memory", "requests"]);
    at_rest(&weir, "store");
    weir.stop();
}

#[test]
fn hostile_requests_are_answered_with_an_error() {
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + LOG_CACHE));
    let long = format!("/api/v1/read/app?name_filter={}", "(a%7B1000%7D)".repeat(500));
    let cases: [(&str, &str, u16, &str); 15] = [
        ("GET", "/api/v1/read/app?limit=1001", 500, "Limit (1001) must be 1000 or less"),
        ("GET", "/api/v1/read/app?limit=-1", 500, "Limit (-1) must be greater than zero"),
        ("GET", "/api/v1/read/app?start_time=9&end_time=8", 500, "StartTime (9) must be before"),
        ("GET", "/api/v1/read/app?name_filter=%28", 500, "must be a valid regular expression"),
        ("GET", &long, 500, "must be a valid regular expression"),
        ("GET", "/api/v1/read/app?limit=9223372036854775808", 400, "value out of range"),
        ("GET", "/api/v1/read/app?start_time=now", 400, "invalid syntax"),
        ("GET", "/api/v1/read/app?descending=maybe", 400, "strconv.ParseBool"),
        ("GET", "/api/v1/read/app?envelope_types=PROFILE", 400, "is not a valid value"),
        (
            "GET",
            "/api/v1/read/app?limit=1&limit=2",
            400,
            "too many values for field \"limit\": 1, 2",
        ),
        ("GET", "/api/v1/read/app?limit=%zz", 400, "invalid URL escape \"%zz\""),
        ("GET", "/api/v1/other", 404, "Not Found"),
        ("GET", "/", 404, "Not Found"),
        ("POST", "/api/v1/read/app", 501, "Method Not Allowed"),
        ("DELETE", "/api/v1/meta", 501, "Method Not Allowed"),
    ];
    for (method, path, status, message) in cases {
        let (found, _, body) = get(&weir, method, path);
        let body: Value = serde_json::from_str(&body).expect(&body);
        assert_eq!(found, status, "{path}: {body}");
        assert!(body["message"].as_str().unwrap().contains(message), "{path}: {body}");
        assert!(body["code"].is_u64() && body["details"] == json!([]), "{path}: {body}");
    }
    let refused = json!({ "source_id": "app", "limit": 1001 });
    let error = "UNKNOWN Limit (1001) must be 1000 or less";
    assert_eq!(call(&weir, "Read", &refused), [error]);
    let unknown = call(&weir, "Delete", &json!({}));
    assert_eq!(unknown, ["UNIMPLEMENTED unknown method Delete for service logcache.v1.Egress"]);
    // Any text can be the name of a source, and is only a name.
    for name in ["%22%29%20OR%20%2A", "%00%FF", "-service:x", "*", ""] {
        let found = json_of(&weir, &format!("/api/v1/read/{name}"));
        assert_eq!(found, json!({ "envelopes": { "batch": [] } }), "{name}");
    }
    let ingress = call(&weir, "Send", &json!({}));
    assert!(
        ingress[0].contains("logcache.v1.Ingress: envelopes are received by a source"),
        "{ingress:?}"
    );
    for query in ["cpu", "topk(1,cpu{source_id=\"app\"})"] {
        let answer = call(&weir, "InstantQuery", &json!({ "query": query }));
        assert!(answer[0].starts_with("UNKNOWN "), "{answer:?}");
    }
    assert_eq!(log_cache(&weir)["refused"], 20);
    let (status, head, _) = get(&weir, "GET", "//api/v1//read/app?limit=1");
    assert_eq!(status, 301);
    assert!(head.contains("location: /api/v1/read/app?limit=1"), "{head}");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_client_that_reads_onwards_gets_every_log_once() {
    const LOGS: i64 = 2500;
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + LOG_CACHE));
    // Three logs share each time.
    let logs: Vec<Vec<u8>> =
        (0..LOGS).map(|n| log("app", n / 3, format!("line {n}").as_bytes())).collect();
    sent(&scene, &weir, &logs);
    wait_read(&weir, LOGS as u64);
    let payloads = |query: &str| -> Vec<(i64, String)> {
        let found = json_of(&weir, &format!("/api/v1/read/app?envelope_types=LOG&{query}"));
        let batch = found["envelopes"]["batch"].as_array().unwrap().clone();
        let of = |envelope: &Value| {
            let time = envelope["timestamp"].as_str().unwrap().parse().unwrap();
            (time, envelope["log"]["payload"].as_str().unwrap().to_owned())
        };
        batch.iter().map(of).collect()
    };
    let newest = payloads("limit=1&descending=true");
    assert_eq!(newest.len(), 1);
    let mut start = newest[0].0;
    assert_eq!(start, FIRST_NS + (LOGS - 1) / 3);
    assert_eq!(payloads(&format!("start_time={}", start + 1)), []);
    let mut all = Vec::new();
    start = i64::MIN / 2;
    loop {
        let page = payloads(&format!("start_time={start}"));
        let Some((last, _)) = page.last() else { break };
        assert!(page.len() <= 102, "{}", page.len());
        start = last + 1;
        all.extend(page);
    }
    assert!(all.is_sorted_by_key(|(time, _)| *time));
    all.sort_by(|a, b| a.1.cmp(&b.1));
    all.dedup();
    assert_eq!(all.len() as i64, LOGS);
    at_rest(&weir, "store");
    weir.stop();
}

#[test]
fn ten_thousand_sources_are_told_apart() {
    const SOURCES: u64 = 10_000;
    let scene = Scene::new();
    let config = source("") + LOG_CACHE;
    let mut weir = scene.start(&config);
    let name = |number: u64| format!("5d1c{number:08x}-0000-4000-8000-000000000000");
    let of = |round: i64| {
        (0..SOURCES).map(move |number| (number, round * SOURCES as i64 + number as i64, round))
    };
    let logs: Vec<Vec<u8>> = (0..3)
        .flat_map(of)
        .map(|(number, at, round)| log(&name(number), at, format!("{number} {round}").as_bytes()))
        .collect();
    sent(&scene, &weir, &logs);
    let counts = wait_read(&weir, 3 * SOURCES);
    assert_eq!(counts.len() as u64, SOURCES);
    assert!(counts.values().all(|count| *count == 3));
    let assert_read = |weir: &Weir| {
        for number in [0, 1, 4999, SOURCES - 1] {
            let found = read(weir, &json!({ "source_id": name(number) }));
            let expected = logs.iter().skip(number as usize).step_by(SOURCES as usize);
            assert_eq!(found, expected.map(|bytes| hex(bytes)).collect::<Vec<_>>());
        }
    };
    assert_read(&weir);
    at_rest(&weir, "store");
    weir.stop();
    let mut weir = scene.start(&config);
    assert_eq!(wait_read(&weir, 3 * SOURCES), counts);
    assert_read(&weir);
    weir.stop();
}

#[test]
fn lines_of_files_and_changed_records_are_logs() {
    let scene = Scene::new();
    let rule = "[[rule]]\nname = \"hide\"\nwhen = \"*\"\n\
                redact = [{ pattern = 'card ([0-9]+)', with = \"****\" }]\n";
    let mut weir = scene.start(&(source("") + &scene.source("raw") + LOG_CACHE + rule));
    std::fs::write(scene.logs().join("app.log"), "a line\n{\"a\": 1,  \"b\":\"x\"}\n").unwrap();
    sent(&scene, &weir, &[log("app", 0, b"card 1234"), log("app", 1, b"nothing to hide")]);
    let counts = wait_read(&weir, 4);
    assert_eq!(counts, [("app".to_owned(), 2), ("logs".to_owned(), 2)].into());
    let payloads = |source: &str| -> Vec<String> {
        let found = json_of(&weir, &format!("/api/v1/read/{source}"));
        let batch = found["envelopes"]["batch"].as_array().unwrap().clone();
        batch
            .iter()
            .map(|envelope| {
                assert_eq!(envelope["source_id"], source);
                envelope["log"]["payload"].as_str().unwrap().to_owned()
            })
            .collect()
    };
    // "card ****", "nothing to hide"
    assert_eq!(payloads("app"), ["Y2FyZCAqKioq", "bm90aGluZyB0byBoaWRl"]);
    // "a line", "{"a":1,"b":"x"}"
    assert_eq!(payloads("logs"), ["YSBsaW5l", "eyJhIjoxLCJiIjoieCJ9"]);
    at_rest(&weir, "store");
    weir.stop();
}

/// Asserts the answers over gRPC: `cpu` has these labels, and the number of the second as its
/// value.
fn assert_queries_over_grpc(weir: &Weir, at: i64, labels: &Value) {
    let result = |method: &str, query: Value| -> Value {
        let mut lines = call(weir, method, &query);
        assert_eq!(lines.pop().as_deref(), Some("OK"), "{query}: {lines:?}");
        serde_json::from_str(&lines[0]).unwrap()
    };
    let time = |at: i64| format!("{at}.000");
    let end = (at + 60).to_string();
    let cpu = "cpu{source_id=\"app\"}";
    let newest = result("InstantQuery", json!({ "query": cpu, "time": end }));
    let value = json!([[labels, [[time(at + 60), 59.0]]]]);
    assert_eq!(newest, json!({ "kind": "vector", "value": value }));
    let none = result("InstantQuery", json!({ "query": "cpu{source_id=\"nobody\"}" }));
    assert_eq!(none, json!({ "kind": "vector", "value": [] }));
    let number = result("InstantQuery", json!({ "query": "1+2", "time": end }));
    assert_eq!(number, json!({ "kind": "scalar", "value": [time(at + 60), 3.0] }));
    let query = json!({ "query": format!("{cpu}[3s]"), "time": end });
    let value =
        json!([[labels, [[time(at + 57), 57.0], [time(at + 58), 58.0], [time(at + 59), 59.0]]]]);
    assert_eq!(result("InstantQuery", query), json!({ "kind": "matrix", "value": value }));
    let (start, end) = ((at + 10).to_string(), (at + 15).to_string());
    let query = json!({ "query": cpu, "start": start, "end": end, "step": "5s" });
    let value = json!([[labels, [[time(at + 10), 10.0], [time(at + 15), 14.0]]]]);
    assert_eq!(result("RangeQuery", query), json!({ "kind": "matrix", "value": value }));
}

#[test]
fn envelopes_that_programs_write_to_the_log_cache_are_received() {
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + LOG_CACHE));
    let logs: Vec<Vec<u8>> = (0..5).map(|at| log("app", at, b"from a nozzle")).collect();
    let request = |envelopes: &[Vec<u8>]| {
        let (mut batch, mut request) = (Vec::new(), Vec::new());
        for envelope in envelopes {
            add_to_loggregator_batch(envelope, &mut batch);
        }
        // The batch is the first field of the request, as an envelope is of a batch.
        add_to_loggregator_batch(&batch, &mut request);
        request
    };
    // The parts of a field that occurs twice are merged, and `local_only` has no meaning here.
    let mut both = request(&logs[2..4]);
    both.extend_from_slice(&request(&logs[4..]));
    both.extend_from_slice(b"\x10\x01");
    let path = messages(&scene, "sent", &[request(&logs[..2]), both, Vec::new()]);
    let method = "/logcache.v1.Ingress/Send";
    assert_eq!(said(send(&python(), &weir, method, &path, &[])), "OK 3\n");
    wait_read(&weir, 5);
    let found = read(&weir, &json!({ "source_id": "app" }));
    assert_eq!(found, logs.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>());
    at_rest(&weir, "store");
    let books = weir.books();
    assert_eq!(books.source("cf")["book"]["records"], 5);
    let damaged = messages(&scene, "damaged", &[b"\x0a\x02\x0a\x09".to_vec()]);
    let answer = said(send(&python(), &weir, method, &damaged, &[]));
    assert!(answer.starts_with("INTERNAL 0 grpc: error unmarshalling request"), "{answer}");
    let books = weir.books();
    books.assert_balanced();
    assert_eq!(books.source("cf")["book"]["discarded"]["partial_lost"], 1);
    weir.stop();
}

#[test]
fn metrics_are_queried_in_the_language_of_prometheus() {
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + LOG_CACHE));
    let second = 1_000_000_000;
    let counter = |at: i64, total: u64| {
        let message = LoggregatorMessage::Counter { name: b"http.requests", delta: 0, total };
        envelope("app", at * second, message)
    };
    let gauge = |at: i64, value: f64| {
        let mut metrics = Vec::new();
        let metric = LoggregatorMetric { name: b"cpu", unit: b"percentage", value };
        encode_loggregator_metrics(&[metric], &mut metrics);
        let message = LoggregatorMessage::Gauge(LoggregatorGauge(&metrics));
        envelope("app", at * second, message)
    };
    let mut all: Vec<Vec<u8>> = (0..60).map(|at| counter(at, at as u64 * 10)).collect();
    all.extend((0..60).map(|at| gauge(at, at as f64)));
    sent(&scene, &weir, &all);
    wait_read(&weir, 120);
    let at = FIRST_NS / second;
    let result = |query: &str| -> Value {
        let path = format!("/api/v1/query?time={}&query={query}", at + 60);
        let answer = json_of(&weir, &path);
        assert_eq!(answer["status"], "success");
        answer["data"].clone()
    };
    let newest = result("cpu%7Bsource_id%3D%22app%22%7D");
    let labels = json!({
        "source_id": "app", "instance_id": "0", "zone": "z1", "deployment": "cf",
        "request_id": "r \"1\"", "app_name": "\u{fc}",
    });
    let sample = json!({ "metric": labels, "value": [at + 60, "59"] });
    assert_eq!(newest, json!({ "resultType": "vector", "result": [sample] }));
    let rate = result("sum(rate(http_requests%7Bsource_id%3D%22app%22%7D%5B50s%5D))*60");
    let sample = json!({ "metric": {}, "value": [at + 60, "600"] });
    assert_eq!(rate, json!({ "resultType": "vector", "result": [sample] }));
    assert_eq!(result("1%2B2"), json!({ "resultType": "scalar", "result": [at + 60, "3"] }));
    let path = format!(
        "/api/v1/query_range?query=max_over_time(cpu%7Bsource_id%3D%22app%22%7D%5B5s%5D)\
         &start={}&end={}&step=5s",
        at + 10,
        at + 20
    );
    let range = json_of(&weir, &path);
    // As in the original, the end of the range is exclusive.
    let values = json!([[at + 10, "10"], [at + 15, "15"], [at + 20, "19"]]);
    assert_eq!(range["data"]["result"][0]["values"], values, "{range}");
    // With an offset, the value at the earlier time is included.
    let earlier = result("cpu%7Bsource_id%3D%22app%22%7D%20offset%2010s");
    assert_eq!(earlier["result"][0]["value"], json!([at + 60, "50"]));
    assert_queries_over_grpc(&weir, at, &labels);
    for (query, what) in [
        ("cpu", "query does not request any source_ids"),
        ("cpu%7Bsource_id%3D%22app%22", ""),
        ("topk(1,cpu%7Bsource_id%3D%22app%22%7D)", "topk is not supported"),
        ("", ""),
    ] {
        let (status, _, body) = get(&weir, "GET", &format!("/api/v1/query?query={query}"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["errorType"]), (400, &json!("bad_data")), "{query}: {body}");
        assert!(body["error"].as_str().unwrap().contains(what), "{query}: {body}");
    }
    at_rest(&weir, "store");
    weir.stop();
}
