//! The output for Loggregator: every envelope reaches a router or another weir unchanged, despite
//! failures.
//!
//! Needs Python with the package `grpcio`, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use weir_codec::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric, LoggregatorTags,
    add_to_loggregator_batch, encode_loggregator_envelope, encode_loggregator_metrics,
};
use weir_testkit::{Collector, PATIENCE, Tally};

use crate::loggregator::{Certificates, batches, log, lost, messages, python, said, send, source};
use crate::scene::{OUTPUT, Scene, apply, at_rest, hec, metric};

const ROUTER: &str =
    concat!(include_str!("loggregator_wire.py"), include_str!("loggregator_router.py"));

/// A router that another implementation of gRPC serves.
struct Router {
    process: Child,
    port: u16,
    received: PathBuf,
}

impl Router {
    fn start(scene: &Scene, refusals: u32, bytes_max: usize, tls: &[&str]) -> Self {
        let received = scene.dir().join("received");
        let mut command = Command::new(python());
        command.args(["-c", ROUTER]).arg(&received);
        command.arg(refusals.to_string()).arg(bytes_max.to_string()).args(tls);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.expect("python runs");
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().expect("it is piped"));
        said.read_line(&mut line).expect("the router says its port");
        Self { process, port: line.trim().parse().expect("it is a port"), received }
    }

    /// Returns the envelopes that it has received, in order.
    fn received(&self) -> Vec<Vec<u8>> {
        let text = std::fs::read_to_string(&self.received).unwrap_or_default();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        text.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}

/// Returns an output to these ports, with quick retries.
fn output(ports: &[u16], keys: &str) -> String {
    let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!(
        "[output.{OUTPUT}]\ntype = \"loggregator\"\naddresses = {addresses:?}\n\
         batch_age = \"50ms\"\nretry_min = \"10ms\"\nretry_max = \"200ms\"\n{keys}\n"
    )
}

/// Returns one envelope of each kind.
fn kinds() -> Vec<Vec<u8>> {
    let mut gauge = Vec::new();
    let measurement = |name, value| LoggregatorMetric { name, unit: b"percentage", value };
    encode_loggregator_metrics(&[measurement(b"cpu", 1.5), measurement(b"x", -2.0)], &mut gauge);
    let all = [
        LoggregatorMessage::Log { payload: b"a line", is_error: true },
        LoggregatorMessage::Counter { name: b"requests", delta: 3, total: 17 },
        LoggregatorMessage::Gauge(LoggregatorGauge(&gauge)),
        LoggregatorMessage::Timer { name: b"http", start_ns: 5, stop_ns: 1_500_000_005 },
        LoggregatorMessage::Event { title: b"crash", body: b"exit 1" },
    ];
    let envelope = |message| {
        let envelope = LoggregatorEnvelope {
            timestamp_ns: 1_795_288_351_000_000_000,
            source_id: b"app-guid",
            instance_id: b"3",
            message,
            ..LoggregatorEnvelope::default()
        };
        let mut bytes = Vec::new();
        encode_loggregator_envelope(&envelope, &[("job", "cell"), ("id", "r 1")], &mut bytes);
        bytes
    };
    all.map(envelope).into()
}

fn batch(envelopes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for envelope in envelopes {
        add_to_loggregator_batch(envelope, &mut bytes);
    }
    bytes
}

#[test]
fn a_router_gets_every_envelope_as_it_came_with_mutual_tls_and_after_refusals() {
    let scene = Scene::new();
    let files = Certificates::write(&scene);
    let Certificates { ca, good, server, .. } = &files;
    let router = Router::start(&scene, 3, 4 << 20, &[ca, &server.0, &server.1]);
    let tls =
        format!("tls = {{ ca_file = {ca:?}, cert_file = {:?}, key_file = {:?} }}", good.0, good.1);
    std::fs::write(scene.logs().join("app.log"), "a line of a file\n").unwrap();
    let config = source("") + &scene.source("raw") + &output(&[router.port], &tls);
    let mut weir = scene.start(&config);
    let envelopes = kinds();
    let path = messages(&scene, "kinds", &[batch(&envelopes)]);
    assert_eq!(said(send(&python(), &weir, "BatchSender", &path, &[])), "OK 1\n");
    let total = envelopes.len() as u64 + 1;
    weir.wait_books("all are delivered", PATIENCE, |books| books.delivered(OUTPUT) == total);
    let received = router.received();
    let others: Vec<_> = received.iter().filter(|one| !envelopes.contains(one)).collect();
    assert_eq!((received.len() as u64, others.len()), (total, 1), "{received:?}");
    let mut tags = LoggregatorTags::default();
    let line = LoggregatorEnvelope::parse(others[0], &mut tags).unwrap();
    assert_eq!(line.source_id, b"logs");
    let expected = LoggregatorMessage::Log { payload: b"a line of a file", is_error: false };
    assert_eq!(line.message, expected);
    let retries = format!("weir_component_retries_total{{component_id=\"{OUTPUT}\"");
    assert!(metric(&weir, &retries) >= 3, "{}", weir.metrics());
    at_rest(&weir, OUTPUT).assert_balanced();
    weir.stop();
}

#[test]
fn calls_that_are_too_large_for_a_router_are_divided() {
    let scene = Scene::new();
    let router = Router::start(&scene, 0, 40_000, &[]);
    let mut weir = scene.start(&(source("") + &output(&[router.port], "")));
    let app = batches("app", 50);
    let path = messages(&scene, "lines", &app);
    assert_eq!(said(send(&python(), &weir, "BatchSender", &path, &[])), "OK 50\n");
    weir.wait_books("all are delivered", PATIENCE, |books| books.delivered(OUTPUT) == 5_000);
    let received = router.received();
    let distinct: BTreeSet<&Vec<u8>> = received.iter().collect();
    // A message that is refused is sent again with those that came before it in its call.
    assert_eq!(distinct.len(), 5_000, "{}", received.len());
    at_rest(&weir, OUTPUT).assert_balanced();
    weir.stop();
}

#[test]
fn nothing_is_lost_while_another_weir_is_killed_and_moves() {
    const BATCHES: u64 = 400;
    let (near, far) = (Scene::new(), Scene::new());
    let collector = Collector::start();
    let far_config = source("") + &hec(OUTPUT, &collector, "");
    let mut receiver = far.start(&far_config);
    // A port on which nobody listens: another address is tried.
    let config = |port: u16| source("") + &output(&[1, port], "batch_size = \"64KiB\"");
    let mut sender = near.start(&config(receiver.source_address("cf").port()));
    let path = messages(&near, "lines", &batches("app", BATCHES));
    let client = send(&python(), &sender, "BatchSender", &path, &[]);
    for kill in 1..4 {
        assert!(collector.wait(PATIENCE, |tally| tally.unique() >= kill * 6_000));
        receiver.kill();
        receiver = far.start(&far_config);
        apply(&sender, &config(receiver.source_address("cf").port()));
    }
    assert_eq!(said(client), format!("OK {BATCHES}\n"));
    let total = BATCHES * 100;
    let all = |books: &weir_testkit::Books| books.delivered(OUTPUT) == total;
    sender.wait_books("all are delivered", PATIENCE, all);
    at_rest(&sender, OUTPUT).assert_balanced();
    let books = at_rest(&receiver, OUTPUT);
    let (crash, arrived) = (lost(&books, "crash"), collector.look(Tally::unique));
    assert!(arrived + crash >= total, "{arrived} of {total} arrived, {crash} were lost: {books}");
    println!("{arrived} of {total} arrived, {crash} were counted as lost by the killed receiver");
    sender.stop();
    receiver.stop();
}

#[test]
fn an_address_that_is_no_router_is_reported_and_loses_nothing() {
    let scene = Scene::new();
    let collector = Collector::start();
    let port = collector.url().rsplit(':').next().unwrap().parse().unwrap();
    let mut weir = scene.start(&(source("") + &output(&[port], "")));
    let path = messages(&scene, "one", &[batch(&[log("app", b"kept")])]);
    assert_eq!(said(send(&python(), &weir, "BatchSender", &path, &[])), "OK 1\n");
    weir.wait_log("retrying, no records are lost");
    let router = Router::start(&scene, 0, 4 << 20, &[]);
    apply(&weir, &(source("") + &output(&[router.port], "")));
    weir.wait_books("it is delivered", PATIENCE, |books| books.delivered(OUTPUT) == 1);
    assert_eq!(router.received(), [log("app", b"kept")]);
    at_rest(&weir, OUTPUT).assert_balanced();
    weir.stop();
}
