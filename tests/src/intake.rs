//! Datadog's intake: logs reported as accepted to a client are delivered, despite kills and
//! failures.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use weir_measure::load::{LoadReport, StreamReport};
use weir_testkit::{
    Answer, Collector, CollectorConfig, HttpAnswer, HttpSender, LineId, Oracle, PATIENCE, Weir,
    wait_for,
};

use crate::disk::{JOURNAL, SmallDisk};
use crate::scene::{OUTPUT, Scene, hec, judge};

pub(crate) const PATH: &str = "/api/v2/logs";
pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

/// Returns the configuration of a listener and an output, with additional keys for each.
pub(crate) fn config(collector: &Collector, source_keys: &str, output_keys: &str) -> String {
    format!(
        "[source.intake]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n{source_keys}{}",
        hec(OUTPUT, collector, output_keys)
    )
}

pub(crate) fn sender(weir: &Weir) -> HttpSender {
    HttpSender::new(weir.source_address("intake"))
}

/// Returns items that contain the stream and number of their line.
fn items(stream: &str, first: u64, count: u64, rng: &mut Rng) -> Vec<u8> {
    let item = |seq: u64| {
        let payload: String = (0..rng.usize(20..400)).map(|_| rng.alphanumeric()).collect();
        let mut line = Vec::new();
        LineId::write(stream, 0, seq, payload.as_bytes(), &mut line);
        let message = String::from_utf8_lossy(&line).into_owned();
        json!({"message": message, "service": stream, "status": "info", "n": seq})
    };
    let items: Vec<Value> = (first..first + count).map(item).collect();
    serde_json::to_vec(&items).expect("it is JSON")
}

/// Clients that send until enough was reported as accepted, and resend what was not.
pub(crate) struct Senders {
    address: Arc<Mutex<SocketAddr>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<StreamReport>>,
}

impl Senders {
    /// Starts `count` clients that send `lines` lines each, or until they are told to stop.
    pub(crate) fn start(weir: &Weir, count: usize, lines: u64) -> Self {
        let address = Arc::new(Mutex::new(weir.source_address("intake")));
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|number| {
            let (address, stop) = (Arc::clone(&address), Arc::clone(&stop));
            std::thread::spawn(move || send(&format!("s{number}"), lines, &address, &stop))
        });
        let threads = threads.collect();
        Self { address, stop, threads }
    }

    /// Tells them the current address of weir.
    pub(crate) fn follow(&self, weir: &Weir) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) =
            weir.source_address("intake");
    }

    pub(crate) fn stop(self) -> Vec<LoadReport> {
        self.stop.store(true, Ordering::Relaxed);
        self.finish()
    }

    /// Returns what weir has accepted from all of them.
    fn finish(self) -> Vec<LoadReport> {
        let streams: Vec<StreamReport> =
            self.threads.into_iter().map(|thread| thread.join().expect("it ends well")).collect();
        let lines = streams.iter().map(|stream| stream.lines).sum();
        vec![LoadReport {
            lines,
            bytes: 0,
            rotations: 0,
            seconds: 0.0,
            lateness_max_seconds: 0.0,
            streams,
        }]
    }
}

fn send(stream: &str, lines: u64, address: &Mutex<SocketAddr>, stop: &AtomicBool) -> StreamReport {
    let mut rng = Rng::new();
    let here = || *address.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sender = HttpSender::new(here());
    let mut accepted = 0;
    while accepted < lines && !stop.load(Ordering::Relaxed) {
        let count = rng.u64(1..300).min(lines - accepted);
        let body = items(stream, accepted, count, &mut rng);
        // The same request again until it is accepted.
        let told = wait_for(PATIENCE, || {
            sender.set_address(here());
            let answer = sender.post(PATH, &[JSON], &body).ok()?;
            assert!([202, 429, 503].contains(&answer.status), "{answer:?}");
            (answer.status == 202).then_some(())
        });
        assert!(told.is_some(), "{stream}: line {accepted} was never accepted");
        accepted += count;
    }
    StreamReport { name: stream.to_owned(), first_seq: 0, lines: accepted }
}

/// Resent lines arrive twice, and in another order over another connection.
pub(crate) fn at_least_once(output: &str) -> Oracle {
    Oracle { ordered: false, lost_answers_lines: u64::MAX / 2, ..Oracle::strict(output) }
}

#[test]
fn accepted_records_arrive_once_in_connection_order() {
    let scene = Scene::new();
    let collector = Collector::start();
    let mut weir = scene.start(&config(&collector, "", ""));
    let written = Senders::start(&weir, 6, 8_000).finish();
    let books = judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    assert_eq!((books.records(), collector.tally().duplicates()), (48_000, 0));
    let metrics = weir.metrics();
    assert!(metrics.contains("status=\"202\"") && metrics.contains("weir_source_connections"));
    weir.stop();
}

#[test]
fn kills_under_load_lose_nothing_that_was_accepted() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = config(&collector, "", "window = \"1MiB\"\nbatch_size = \"128KiB\"\n");
    let mut weir = scene.start(&config);
    let senders = Senders::start(&weir, 4, 15_000);
    for arrived in [8_000, 20_000, 35_000, 50_000] {
        assert!(collector.wait(PATIENCE, |tally| tally.unique() >= arrived));
        weir.kill();
        weir = scene.start(&config);
        senders.follow(&weir);
    }
    let written = senders.finish();
    judge(&at_least_once(OUTPUT), &written, &collector, &weir);
    println!("{} copies of {} lines", collector.tally().duplicates(), written[0].lines);
    weir.stop();
}

#[test]
fn kills_with_a_backlog_lose_nothing_that_was_accepted() {
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let config = config(&collector, "", "");
    for _ in 0..3 {
        let mut weir = scene.start(&config);
        let before = weir.books().records();
        let senders = Senders::start(&weir, 3, 1 << 40);
        weir.wait_books("more arrived", PATIENCE, |books| books.records() > before + 5_000);
        // Clients that are gone do not retry.
        let written = senders.stop();
        weir.kill();
        let mut weir = scene.start(&config);
        assert!(weir.books().records() >= before + written[0].lines, "{}", weir.books());
        weir.books().assert_balanced();
        weir.kill();
    }
    collector.answer(Answer::Accept);
    let mut weir = scene.start(&config);
    let books = weir.wait_books("all is delivered", PATIENCE, |books| books.in_flight(OUTPUT) == 0);
    books.assert_balanced();
    assert_eq!(books.delivered(OUTPUT), books.records());
    assert!(collector.look(|tally| tally.events) >= books.records());
    weir.stop();
}

#[test]
fn a_stop_under_load_loses_nothing_that_was_accepted() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = config(&collector, "", "");
    let mut weir = scene.start(&config);
    let senders = Senders::start(&weir, 4, 20_000);
    for arrived in [10_000, 40_000] {
        assert!(collector.wait(PATIENCE, |tally| tally.unique() >= arrived));
        weir.stop();
        weir = scene.start(&config);
        senders.follow(&weir);
    }
    let written = senders.finish();
    let mut oracle = at_least_once(OUTPUT);
    // One request per client that was in flight when weir stopped listening.
    oracle.lost_answers_lines = 2 * 4 * 300;
    judge(&oracle, &written, &collector, &weir);
    weir.stop();
}

#[test]
fn a_full_disk_returns_503_until_there_is_space() {
    let mut scene = Scene::new();
    scene.extra = JOURNAL.to_owned();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let disk = SmallDisk::mount(scene.dir().join("data"), "12m");
    let keys = "window = \"1MiB\"\nbatch_size = \"256KiB\"\n";
    let mut weir = scene.start(&(config(&collector, "", keys) + &scene.extra));
    let senders = Senders::start(&weir, 3, 20_000);
    let mut asking = sender(&weir);
    let probe = br#"[{"message":"does anybody listen?"}]"#;
    let refused = wait_for(PATIENCE, || {
        let answer = asking.post(PATH, &[JSON], probe).ok()?;
        (answer.status == 503).then_some(answer)
    });
    let refused = refused.unwrap_or_else(|| panic!("the disk never filled: {}", weir.books()));
    let seconds = refused.header("retry-after").and_then(|text| text.parse::<u64>().ok());
    assert!(seconds > Some(0), "{refused:?}");
    assert_eq!(refused.header("x-ratelimit-reset"), refused.header("retry-after"));
    assert!(refused.body.contains("stored"), "{refused:?}");
    // The journal keeps trying, and whenever there is room again, health is `ok` for a moment.
    let is_named = |weir: &Weir| {
        let reasons = weir.health()["reasons"].to_string();
        reasons.contains("\"intake\"") && reasons.contains("a disk error")
    };
    assert!(wait_for(PATIENCE, || is_named(&weir).then_some(())).is_some(), "{}", weir.health());
    weir.books().assert_balanced();
    collector.answer(Answer::Accept);
    let written = senders.finish();
    let is_ok = |weir: &Weir| weir.health()["status"] == "ok";
    assert!(wait_for(PATIENCE, || is_ok(&weir).then_some(())).is_some(), "{}", weir.health());
    // The accepted probes have no number.
    let lines = written[0].lines;
    assert!(collector.wait(PATIENCE, |tally| tally.unique() == lines));
    let books = weir.wait_books("it is at rest", PATIENCE, |b| b.in_flight(OUTPUT) == 0);
    books.assert_balanced();
    weir.stop();
    drop(disk);
}

/// Journal and store on disks that are too small for both, in many proportions: the journal stops
/// while the store can still write, so what is accepted is stored, and there is room again.
#[test]
fn a_journal_and_a_store_on_a_small_disk_never_deadlock() {
    for (disk_mib, limit_mib, keep_free, retention) in [
        (24, 16, "1MiB", "64MiB"),
        (16, 16, "0B", "20%"),
        (20, 64, "5%", "64MiB"),
        (32, 16, "10%", "50%"),
        (48, 40, "2MiB", "90%"),
    ] {
        let scene = Scene::new();
        let _disk = SmallDisk::mount(scene.dir().join("data"), &format!("{disk_mib}m"));
        let mut weir = scene.start(&format!(
            "[source.intake]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n\
             [store]\nenabled = true\nflush_interval = \"1s\"\nretention_size = \"{retention}\"\n\
             [journal]\nring = \"4MiB\"\nsize_max = \"{limit_mib}MiB\"\nkeep_free = \"{keep_free}\"\n"
        ));
        // Twice the disk, of what cannot be compressed much.
        let lines = disk_mib * 2 * (1 << 20) / 250;
        let written = Senders::start(&weir, 3, lines / 3).finish();
        let accepted = written[0].lines;
        let books = weir.wait_books("it is stored", PATIENCE, |b| b.delivered("store") >= accepted);
        books.assert_balanced();
        let is_ok = |weir: &Weir| weir.health()["status"] == "ok";
        assert!(wait_for(PATIENCE, || is_ok(&weir).then_some(())).is_some(), "{}", weir.health());
        weir.stop();
    }
}

#[test]
fn a_full_buffer_returns_429_with_retry_after() {
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let keys = "window = \"1MiB\"\nbuffer_max = \"4MiB\"\n";
    let mut weir = scene.start(&config(&collector, "", keys));
    let mut sender = sender(&weir);
    let mut rng = Rng::new();
    let (mut lines, mut refused) = (0, None);
    while refused.is_none() {
        let body = items("s0", lines, 900, &mut rng);
        let answer = sender.post(PATH, &[JSON], &body).expect("weir answers");
        match answer.status {
            202 => lines += 900,
            _ => refused = Some((answer, body)),
        }
        assert!(lines < 1_000_000, "the buffer never fills up");
    }
    let Some((answer, body)) = refused else { unreachable!("the loop ends with one") };
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.header("x-ratelimit-reset"), Some("1"));
    assert!(answer.body.contains(&format!("output {OUTPUT} is full")), "{answer:?}");
    collector.answer(Answer::Accept);
    let again = wait_for(PATIENCE, || {
        let answer = sender.post(PATH, &[JSON], &body).ok()?;
        (answer.status == 202).then_some(())
    });
    assert!(again.is_some(), "{}", weir.log());
    lines += 900;
    // Refused as a whole: no line of it arrived twice.
    assert!(collector.wait(PATIENCE, |tally| tally.unique() == lines));
    let books = weir.wait_books("it is at rest", PATIENCE, |b| b.in_flight(OUTPUT) == 0);
    assert_eq!((books.records(), collector.tally().duplicates()), (lines, 0));
    weir.stop();
}

#[test]
fn a_full_buffer_refuses_queued_requests_at_once() {
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let mut weir =
        scene.start(&config(&collector, "", "window = \"1MiB\"\nbuffer_max = \"4MiB\"\n"));
    let address = weir.source_address("intake");
    let fill = items("s0", 0, 900, &mut Rng::new());
    let mut first = sender(&weir);
    let is_full = || {
        let answer = first.post(PATH, &[JSON], &fill).ok()?;
        (answer.status == 429).then_some(())
    };
    assert!(wait_for(PATIENCE, is_full).is_some());
    let begun = Instant::now();
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let fill = fill.clone();
            std::thread::spawn(move || HttpSender::new(address).post(PATH, &[JSON], &fill))
        })
        .collect();
    for client in clients {
        let answer = client.join().expect("it ends").expect("weir answers");
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")), "{answer:?}");
    }
    // One after the other they would take 50 s.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    weir.kill();
}

#[test]
fn unauthenticated_connections_do_not_block_clients() {
    let scene = Scene::new();
    let collector = Collector::start();
    let file = scene.dir().join("keys");
    std::fs::write(&file, "right\n").unwrap();
    let keys = format!("connections_max = 16\napi_keys = {{ file = {:?} }}\n", file.display());
    let mut weir = scene.start(&config(&collector, &keys, ""));
    let address = weir.source_address("intake");
    let head = |key: &str| {
        format!(
            "POST {PATH} HTTP/1.1\r\nhost: x\r\ndd-api-key: {key}\r\ncontent-length: 5000000\r\n\r\n["
        )
    };
    let mut crowd = Vec::new();
    for sent in [String::new(), "POST ".to_owned(), head("wrong"), head("right")] {
        for _ in 0..16 {
            let mut stranger = TcpStream::connect(address).expect("it is accepted");
            // A connection that was already closed for another cannot send it.
            let _sent = stranger.write_all(sent.as_bytes());
            crowd.push(stranger);
        }
        let item = items("s0", crowd.len() as u64, 1, &mut Rng::new());
        let answer = sender(&weir).post(PATH, &[JSON, ("dd-api-key", "right")], &item);
        assert_eq!(answer.expect("weir answers").status, 202);
    }
    weir.wait_books("four came", PATIENCE, |books| books.delivered(OUTPUT) == 4);
    assert!(!weir.metrics().contains("weir_source_evicted_connections_total{component_id=\"intake\",component_type=\"datadog_intake\"} 0"));
    drop(crowd);
    weir.stop();
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut compressor = weir_host::Compressor::new(weir_host::Compression::Gzip);
    let compressor = compressor.as_mut().expect("gzip is there");
    compressor.compress(body, &mut packed).expect("it compresses");
    packed
}

/// Path, headers, body, status, and a word of the response.
type Wrong = (&'static str, Vec<(&'static str, &'static str)>, Vec<u8>, u16, &'static str);

/// Returns requests that are permanently refused.
fn wrong_requests() -> Vec<Wrong> {
    let large = format!("[{{\"message\":\"{}\"}}]", "x".repeat(5 << 20)).into_bytes();
    let many = format!("[{}{{}}]", "{\"message\":\"x\"},".repeat(1000)).into_bytes();
    let gzipped = ("content-encoding", "gzip");
    vec![
        (PATH, vec![JSON], b"hello".to_vec(), 400, "array"),
        (PATH, vec![JSON], b"[{\"message\":\"a\"},2]".to_vec(), 400, "log 1"),
        (PATH, vec![JSON], b"[{\"message\":\"a\"".to_vec(), 400, "log 0"),
        (PATH, vec![JSON], b"{\"message\":\"\xff\"}".to_vec(), 400, "UTF-8"),
        (PATH, vec![JSON, gzipped], b"no gzip".to_vec(), 400, "gzip"),
        (PATH, vec![JSON, ("content-encoding", "br")], b"[]".to_vec(), 415, "Content-Encoding"),
        (PATH, vec![("content-type", "application/logplex-1")], b"x".to_vec(), 400, "frame 0"),
        (PATH, vec![JSON], large, 413, "larger"),
        (PATH, vec![JSON], many, 413, "1000"),
        // 64 MiB of zeros, compressed to 64 KiB.
        (PATH, vec![JSON, gzipped], gzip(&vec![0; 64 << 20]), 413, "bytes"),
        ("/api/v2/nothing", vec![JSON], b"[]".to_vec(), 404, "path"),
        ("/api/v1/validate", vec![JSON], b"[]".to_vec(), 405, "GET"),
    ]
}

#[test]
fn wrong_requests_are_refused_whole_with_their_reason() {
    let scene = Scene::new();
    let collector = Collector::start();
    let mut weir = scene.start(&config(&collector, "", ""));
    let mut sender = sender(&weir);
    for (path, headers, body, status, word) in wrong_requests() {
        let answer = sender.post(path, &headers, &body).expect("weir answers");
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        assert_eq!(answer.status, status, "{shown}: {answer:?}");
        let error: Value = serde_json::from_str(&answer.body).expect("errors are JSON");
        let error = &error["errors"][0];
        assert_eq!(error["status"], status.to_string());
        assert!(error["detail"].as_str().is_some_and(|d| d.contains(word)), "{shown}: {error}");
        assert!(error["title"].is_string());
    }
    for bytes in ["POST / HTTP/9\r\n\r\n", "\u{0}\u{1}\u{2}\r\n\r\n"] {
        let answer = sender.exchange(bytes.as_bytes());
        assert!(answer.as_ref().map_or(true, |answer| answer.status == 400), "{answer:?}");
    }
    let huge = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let answer = sender.exchange(huge.as_bytes());
    assert!(answer.as_ref().map_or(true, |answer| answer.status == 431), "{answer:?}");
    for probe in [&b"{}"[..], b"[]"] {
        assert_eq!(sender.post(PATH, &[JSON], probe).unwrap().status, 202);
    }
    let books = weir.books();
    books.assert_balanced();
    assert_eq!(books.records(), 0, "{books}");
    // Independent of the lengths that those requests announced.
    assert!(weir.memory_max_bytes() < 128 << 20, "{}", weir.memory_max_bytes());
    weir.stop();
}

#[test]
fn requests_without_a_valid_api_key_are_refused() {
    let scene = Scene::new();
    let collector = Collector::start();
    let file = scene.dir().join("keys");
    std::fs::write(&file, "first-key, second-key\n").unwrap();
    let keys = format!("api_keys = {{ file = {:?} }}\n", file.display().to_string());
    let mut weir = scene.start(&config(&collector, &keys, ""));
    let mut sender = sender(&weir);
    let body = br#"[{"message":"x"}]"#;
    let mut status = |path: &str, headers: &[(&str, &str)]| {
        sender.post(path, headers, body).expect("weir answers").status
    };
    assert_eq!(status(PATH, &[JSON]), 401);
    assert_eq!(status(PATH, &[JSON, ("dd-api-key", "third-key")]), 403);
    assert_eq!(status(PATH, &[JSON, ("dd-api-key", "first")]), 403);
    assert_eq!(status(PATH, &[JSON, ("DD-API-KEY", "first-key")]), 202);
    assert_eq!(status(&format!("{PATH}?dd-api-key=second-key"), &[JSON]), 202);
    assert_eq!(status("/v1/input/second-key", &[JSON]), 200);
    assert_eq!(status("/v1/input/wrong", &[JSON]), 403);
    let mut validate = |key: &str| {
        let request =
            format!("GET /api/v1/validate HTTP/1.1\r\nhost: x\r\ndd-api-key: {key}\r\n\r\n");
        sender.exchange(request.as_bytes()).expect("weir answers").status
    };
    assert_eq!((validate("first-key"), validate("wrong")), (200, 403));
    weir.wait_books("three arrived", PATIENCE, |books| books.delivered(OUTPUT) == 3);
    assert!(!weir.log().contains("-key"), "keys are not in the log");
    weir.stop();
}

#[test]
fn a_missing_body_closes_only_its_own_connection() {
    let scene = Scene::new();
    let collector = Collector::start();
    let mut weir = scene.start(&config(&collector, "in_flight_max = \"8MiB\"\n", ""));
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000\r\n\r\n[");
    let address = weir.source_address("intake");
    let slow: Vec<JoinHandle<std::io::Result<HttpAnswer>>> = (0..20)
        .map(|_| {
            let head = head.clone();
            std::thread::spawn(move || HttpSender::new(address).exchange(head.as_bytes()))
        })
        .collect();
    let open = |at_least: u64| {
        weir.metrics().lines().any(|line| {
            let count = line.split(' ').nth(1).and_then(|count| count.parse().ok());
            line.starts_with("weir_source_connections{") && count >= Some(at_least)
        })
    };
    assert!(wait_for(PATIENCE, || open(20).then_some(())).is_some());
    let written = Senders::start(&weir, 2, 2_000).finish();
    judge(&Oracle::strict(OUTPUT), &written, &collector, &weir);
    for thread in slow {
        let answer = thread.join().expect("it ends").expect("weir answers");
        assert_eq!(answer.status, 408, "{answer:?}");
    }
    weir.stop();
}

#[test]
fn a_source_without_descriptors_for_more_connections_goes_on_once_there_are_some() {
    let scene = Scene::new();
    let collector = Collector::start();
    let few = ["prlimit", "--nofile=48:48"];
    let mut weir = Weir::spawn(scene.dir(), &config(&collector, "", ""), &few);
    weir.wait_ready();
    let address = weir.source_address("intake");
    let crowd: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(address).expect("the kernel accepts it")).collect();
    weir.wait_log("source cannot accept connections");
    drop(crowd);
    let written = Senders::start(&weir, 2, 2_000).finish();
    judge(&at_least_once(OUTPUT), &written, &collector, &weir);
    assert_eq!(weir.health()["status"], "ok", "{}", weir.health());
    assert!(weir.metrics().contains("error_type=\"accept\""));
    weir.stop();
}

#[test]
fn rules_see_what_the_items_and_the_request_say() {
    let scene = Scene::new();
    let collector =
        Collector::with(CollectorConfig { keep_records: true, ..CollectorConfig::default() });
    let rules = "[[rule]]\nname = \"noise\"\nwhen = 'status:debug'\ndrop = true\n\
                 [[rule]]\nname = \"mark\"\nwhen = 'service:web env:prod @http.status_code:>=500'\n\
                 set = { \"@marked\" = true }\n";
    let mut weir = scene.start(&(config(&collector, "", "") + rules));
    let mut sender = sender(&weir);
    let body = br#"[{"message":"a","http":{"status_code":503}},
                    {"message":"b","service":"other","http":{"status_code":503}},
                    {"message":"c","status":"debug"}]"#;
    let path = format!("{PATH}?service=web&ddtags=env%3Aprod%2Cteam:x");
    assert_eq!(sender.post(&path, &[JSON], body).unwrap().status, 202);
    let books = weir.wait_books("two arrived", PATIENCE, |books| books.delivered(OUTPUT) == 2);
    assert_eq!((books.records(), books.lines_discarded()), (2, 1));
    books.assert_balanced();
    let records = collector.records();
    let marked: Vec<bool> = records.iter().map(|r| r.fields.contains("marked")).collect();
    assert_eq!(marked, [true, false], "{records:?}");
    weir.stop();
}

#[test]
fn a_port_that_is_taken_is_named_at_the_start() {
    let scene = Scene::new();
    let collector = Collector::start();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let config = config(&collector, "", "").replace("127.0.0.1:0", &address);
    let mut weir = Weir::spawn(scene.dir(), &config, &[]);
    let status = weir.wait_end(PATIENCE).expect("weir ends");
    assert!(!status.success());
    let log = weir.log();
    assert!(log.contains("intake") && log.contains(&address), "{log}");
}
