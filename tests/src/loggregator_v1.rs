//! Envelopes of version 1 with foreign clients: what programs send over UDP and agents push over
//! gRPC arrives at firehoses and streams of applications, exactly, or is counted.
//!
//! Needs Python with the packages `grpcio` and `websocket-client`, given in `WEIR_PYTHON`; `cargo
//! xtask test` provides it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;

use serde_json::json;
use weir_codec::{
    DropsondeContainer, DropsondeEnvelope, DropsondeHttp, DropsondeMessage, DropsondeUuid,
    add_to_loggregator_batch,
};
use weir_testkit::{Books, PATIENCE, Weir};

use crate::loggregator::{messages, python, said, send, source};
use crate::loggregator_egress::{self, BLACKHOLE, EGRESS, LINES_MAX, address, service, settled};
use crate::scene::{Scene, at_rest};

const CLIENT: &str =
    concat!(include_str!("loggregator_wire.py"), include_str!("loggregator_v1_client.py"));

pub(crate) const CONTROLLER: &str = "[loggregator.traffic_controller]\nlisten = \"127.0.0.1:0\"\n";
const UDP: &str = "[source.udp]\ntype = \"dropsonde\"\nlisten = \"127.0.0.1:0\"\n";
const APP: &str = "b3015d69-09cd-476d-aace-ad2d824d5ab7";
const OTHER_APP: &str = "00000000-0000-4000-8000-000000000001";

/// A client that reads; it is killed at the end.
pub(crate) struct Reader {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(python());
        command.args(["-c", CLIENT]).args(arguments);
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

    /// Opens a websocket and reads this many envelopes.
    pub(crate) fn websocket(weir: &Weir, path: &str, count: i64) -> Self {
        let url = format!("ws://{}{path}", address(weir, "traffic_controller"));
        let reader = Self::start(&[&url, &count.to_string()]);
        assert_eq!(reader.line(), "open");
        reader
    }

    /// Calls a method of the older service.
    fn subscribe(weir: &Weir, method: &str, request: [&str; 3], count: u64) -> Self {
        let target = format!("{}/{method}", address(weir, "egress"));
        let [shard, app, filter] = request;
        let reader = Self::start(&[&target, &count.to_string(), shard, app, filter]);
        assert_eq!(reader.line(), "open");
        reader
    }

    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the client writes")
    }

    /// Returns its output until its end.
    pub(crate) fn rest(self) -> Vec<String> {
        self.lines.iter().collect()
    }
}

fn envelope(message: DropsondeMessage<'_>) -> Vec<u8> {
    let envelope = DropsondeEnvelope {
        origin: b"program",
        timestamp_ns: 1_795_288_351_000_000_000,
        message,
        ..DropsondeEnvelope::default()
    };
    let mut bytes = Vec::new();
    envelope.encode([].into_iter(), &mut bytes);
    bytes
}

fn log(app: &str, message: &[u8]) -> Vec<u8> {
    envelope(DropsondeMessage::LogMessage {
        message,
        is_error: false,
        timestamp_ns: 1_795_288_351_000_000_000,
        app_id: app.as_bytes(),
        source_type: b"APP/PROC/WEB",
        source_instance: b"0",
    })
}

fn counter(name: &str) -> Vec<u8> {
    envelope(DropsondeMessage::CounterEvent { name: name.as_bytes(), delta: 2, total: 0 })
}

fn http(app: &str) -> Vec<u8> {
    envelope(DropsondeMessage::HttpStartStop(DropsondeHttp {
        application_id: DropsondeUuid::parse(app.as_bytes()),
        request_id: DropsondeUuid { low: 1, high: 2 },
        method: 1,
        peer_type: 1,
        uri: b"/path",
        ..DropsondeHttp::default()
    }))
}

fn container(app: &str, instance_index: i32, cpu_percentage: f64) -> Vec<u8> {
    envelope(DropsondeMessage::ContainerMetric(DropsondeContainer {
        application_id: app.as_bytes(),
        instance_index,
        cpu_percentage,
        memory_bytes: 1,
        disk_bytes: 2,
        memory_bytes_quota: 3,
        disk_bytes_quota: 4,
    }))
}

fn error(message: &str) -> Vec<u8> {
    envelope(DropsondeMessage::Error { source: b"disk", code: 5, message: message.as_bytes() })
}

fn value(name: &str) -> Vec<u8> {
    envelope(DropsondeMessage::ValueMetric { name: name.as_bytes(), value: 0.5, unit: b"s" })
}

/// Sends datagrams, no more at once than the receive buffer holds.
fn datagrams(weir: &Weir, all: &[Vec<u8>]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = weir.source_address("udp");
    let before = weir.books().records();
    for (number, part) in all.chunks(200).enumerate() {
        for datagram in part {
            socket.send_to(datagram, address).unwrap();
        }
        let sent = before + (number * 200 + part.len()) as u64;
        weir.wait_books("datagrams are read", PATIENCE, |books| books.records() == sent);
    }
}

/// The last words of lines of a type.
fn texts(lines: &[String], kind: &str) -> Vec<String> {
    let of = lines.iter().filter(|line| line.starts_with(&format!("{kind} ")));
    of.map(|line| line.split(' ').nth(3).unwrap().to_owned()).collect()
}

fn balanced(weir: &Weir) -> Books {
    let books = at_rest(weir, "none");
    books.assert_balanced();
    books
}

#[test]
fn what_arrives_over_udp_reaches_firehoses_and_streams_exactly() {
    const LOGS: u64 = 4000;
    let scene = Scene::new();
    let mut weir = scene
        .start(&(UDP.to_owned() + "tags = { deployment = \"cf\" }\n" + BLACKHOLE + CONTROLLER));
    // 4000 logs of two applications, 2000 counters, and one each of the others.
    let total = LOGS + LOGS / 2 + 4;
    let logs = |app: &str, from: u64| -> Vec<Vec<u8>> {
        (from..LOGS)
            .step_by(2)
            .map(|n| log(app, format!("{n} {}", "x".repeat(200)).as_bytes()))
            .collect()
    };
    let firehose = Reader::websocket(&weir, "/firehose/alone", total as i64);
    let shards = [(); 2].map(|()| Reader::websocket(&weir, "/firehose/shared", 0));
    let only_logs = Reader::websocket(&weir, "/firehose/shared?filter-type=logs", LOGS as i64);
    let metrics =
        Reader::websocket(&weir, "/firehose/shared?filter-type=metrics", (total - LOGS) as i64);
    let stream = Reader::websocket(&weir, &format!("/apps/{APP}/stream"), (LOGS / 2 + 2) as i64);
    let mut all = [logs(APP, 0), logs(OTHER_APP, 1)].concat();
    all.extend((0..LOGS / 2).map(|n| counter(&format!("c{}", n % 7))));
    all.extend([http(APP), container(APP, 0, 0.5), error("failed"), value("load")]);
    datagrams(&weir, &all);
    let numbers = |lines: &[String]| {
        let mut found: Vec<u64> =
            texts(lines, "log").iter().map(|text| text.parse().unwrap()).collect();
        found.sort_unstable();
        found
    };
    let everything: Vec<u64> = (0..LOGS).collect();
    let lines = firehose.rest();
    assert_eq!((lines.len() as u64, numbers(&lines)), (total, everything.clone()));
    assert_eq!(texts(&lines, "counter").len() as u64, LOGS / 2);
    for line in [
        format!("http program {APP} /path"),
        format!("container program {APP} {APP}"),
        "error program program failed".to_owned(),
        "value program program load".to_owned(),
        "counter program program c0 2".to_owned(),
    ] {
        assert!(lines.contains(&line), "{line}");
    }
    let lines = only_logs.rest();
    assert_eq!((lines.len() as u64, numbers(&lines)), (LOGS, everything.clone()));
    let lines = metrics.rest();
    assert_eq!((lines.len() as u64, texts(&lines, "log").len()), (total - LOGS, 0));
    assert_eq!(texts(&lines, "error"), ["failed"]);
    let lines = stream.rest();
    assert_eq!(numbers(&lines), (0..LOGS).step_by(2).collect::<Vec<_>>());
    assert_eq!((texts(&lines, "http").len(), texts(&lines, "container").len()), (1, 1));
    // Alone, both shards together, and the others.
    let matched = 2 * total + LOGS + (total - LOGS) + LOGS / 2 + 2;
    let controller = settled(&weir, "traffic_controller", matched);
    assert_eq!((&controller["lost"], &controller["cut"]), (&json!(0), &json!(0)));
    let books = balanced(&weir);
    assert_eq!(books.records(), total);
    weir.stop();
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    let mut count = 0;
    for shard in shards {
        let mut lines = shard.rest();
        let closed = lines.pop().unwrap();
        assert_eq!(closed, "closed 1001 The server is stopping, or has a new configuration.");
        assert!(lines.len() as u64 > total / 10, "each has its part: {}", lines.len());
        count += lines.len() as u64;
        for number in numbers(&lines) {
            *times.entry(number).or_default() += 1;
        }
    }
    assert_eq!(count, total);
    assert_eq!(times, everything.into_iter().map(|number| (number, 1)).collect());
}

#[test]
fn a_slow_reader_is_cut_and_told_and_costs_others_nothing() {
    const LOGS: u64 = 9000;
    let scene = Scene::new();
    let mut weir = scene.start(&(UDP.to_owned() + BLACKHOLE + CONTROLLER));
    let mut slow = Reader::websocket(&weir, "/firehose/slow", -1);
    let quick = Reader::websocket(&weir, "/firehose/quick", LOGS as i64);
    let line = |n: u64| log(APP, format!("{n} {}", "x".repeat(1000)).as_bytes());
    datagrams(&weir, &(0..LOGS).map(line).collect::<Vec<_>>());
    let lines = quick.rest();
    let numbers: Vec<u64> = texts(&lines, "log").iter().map(|text| text.parse().unwrap()).collect();
    assert!(numbers.into_iter().eq(0..LOGS), "the other has everything, in order");
    weir.wait_books("the slow one is cut", PATIENCE, |books| {
        service(books, "traffic_controller")["cut"] == 1
    });
    slow.stdin.write_all(b"go on\n").unwrap();
    let mut lines = slow.rest();
    let expected = "closed 1008 Client was too slow: it accepted no envelope within 5 s.";
    assert_eq!(lines.pop().unwrap(), expected);
    assert!(lines.len() < LOGS as usize / 2, "{}", lines.len());
    let controller = settled(&weir, "traffic_controller", 2 * LOGS);
    assert_eq!(controller["readers"], 0);
    // Envelopes that it had not read are counted, except for those that were on their way.
    let abandoned = controller["abandoned"].as_u64().unwrap();
    assert!(abandoned + lines.len() as u64 <= LOGS && abandoned > LOGS / 4, "{controller}");
    balanced(&weir);
    weir.stop();
}

#[test]
fn invalid_datagrams_are_counted_and_do_not_affect_others() {
    let scene = Scene::new();
    let mut weir = scene.start(&(UDP.to_owned() + BLACKHOLE + CONTROLLER));
    let reader = Reader::websocket(&weir, "/firehose/all", 2);
    let good = log(APP, b"good");
    let mut hostile = vec![vec![0xff; 60_000], b"\x0a\x01a\x10\x05".to_vec(), b"hello".to_vec()];
    hostile.extend((1..good.len()).map(|end| good[..end].to_vec()));
    // A name and a text that are not valid: readers of version 2 would reject them.
    let odd = envelope(DropsondeMessage::CounterEvent { name: b"a\xff", delta: 1, total: 1 });
    datagrams(&weir, &[hostile.clone(), vec![odd, good]].concat());
    assert_eq!(
        reader.rest(),
        ["counter program program a\u{fffd} 1", &format!("log program {APP} good")]
    );
    let books = balanced(&weir);
    assert_eq!(books.records(), hostile.len() as u64 + 2);
    assert_eq!(books.source("udp")["book"]["malformed"], hostile.len() as u64, "{books}");
    assert_eq!(settled(&weir, "traffic_controller", 2)["delivered"], 2);
    weir.stop();
}

/// Sends a request; returns the answer once the connection ends.
pub(crate) fn get(weir: &Weir, request: &str) -> (String, Vec<u8>) {
    let mut tcp = TcpStream::connect(address(weir, "traffic_controller")).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(tcp, "{request}").unwrap();
    let mut answer = Vec::new();
    tcp.read_to_end(&mut answer).expect("an answer arrives");
    let at = answer.windows(4).position(|part| part == b"\r\n\r\n").expect("there is a head");
    (String::from_utf8_lossy(&answer[..at]).to_lowercase(), answer[at + 4..].to_vec())
}

pub(crate) fn plain(request_line: &str) -> String {
    format!("{request_line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

/// The instances and processor times in an answer, if there are any.
pub(crate) fn containers_in(head: &str, body: &[u8]) -> Option<Vec<(i32, f64)>> {
    let (_, boundary) = head.split_once("content-type: multipart/x-protobuf; boundary=")?;
    let separator = format!("--{}", boundary.lines().next()?).into_bytes();
    let (mut found, mut rest) = (Vec::new(), body);
    while let Some(at) = rest.windows(separator.len()).position(|part| part == separator) {
        let part = rest[..at].strip_suffix(b"\r\n").unwrap_or(&rest[..at]);
        if let Some(envelope) = part.strip_prefix(b"\r\n\r\n") {
            match DropsondeEnvelope::parse(envelope).unwrap().message {
                DropsondeMessage::ContainerMetric(metric) => {
                    found.push((metric.instance_index, metric.cpu_percentage));
                }
                other => panic!("{other:?}"),
            }
        }
        rest = &rest[at + separator.len()..];
    }
    assert_eq!(rest, b"--\r\n");
    Some(found)
}

#[test]
fn the_newest_metrics_of_each_container_are_answered_at_once() {
    let scene = Scene::new();
    let mut weir = scene.start(&(UDP.to_owned() + BLACKHOLE + CONTROLLER));
    let all = [(APP, 1, 10.0), (APP, 0, 20.0), (OTHER_APP, 0, 30.0), (APP, 1, 40.0)];
    datagrams(&weir, &all.map(|(app, instance, cpu)| container(app, instance, cpu)));
    let request = plain(&format!("GET /apps/{APP}/containermetrics"));
    let found = weir_testkit::wait_for(PATIENCE, || {
        let (head, body) = get(&weir, &request);
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        containers_in(&head, &body).filter(|found| *found == [(0, 20.0), (1, 40.0)])
    });
    assert!(found.is_some());
    let (head, body) = get(&weir, &plain("GET /apps/none/containermetrics"));
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert_eq!(containers_in(&head, &body), Some(Vec::new()));
    assert_eq!(service(&weir.books(), "traffic_controller")["matched"], 0, "nobody reads");
    balanced(&weir);
    weir.stop();
}

#[test]
fn cookies_and_refusals_are_those_of_the_original() {
    let scene = Scene::new();
    let limit =
        CONTROLLER.to_owned() + "streams_max = 1\ncookie_domain = \"doppler.example.org\"\n";
    let mut weir = scene.start(&(UDP.to_owned() + BLACKHOLE + &limit));
    let form = "CookieName=authorization&CookieValue=bearer%20token";
    let request = format!(
        "POST /set-cookie HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: https://a.org\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let (head, _) = get(&weir, &request);
    let cookie = "set-cookie: authorization=\"bearer token\"; domain=doppler.example.org; httponly; \
                  secure; samesite=lax";
    assert!(head.starts_with("http/1.1 200 ") && head.contains(cookie), "{head}");
    assert!(head.contains("access-control-allow-origin: https://a.org"), "{head}");
    assert!(head.contains("access-control-allow-credentials: true"), "{head}");
    assert!(get(&weir, &plain("GET /set-cookie")).0.starts_with("http/1.1 400 "));

    let (head, body) = get(&weir, &plain("GET /apps/a/b"));
    assert!(head.starts_with("http/1.1 404 "), "{head}");
    assert_eq!(body, b"404 page not found\n");
    let (head, body) = get(&weir, &plain("GET /firehose/a"));
    assert!(head.starts_with("http/1.1 400 ") && head.contains("sec-websocket-version: 13"));
    assert_eq!(body, b"Bad Request\n");
    let first = Reader::websocket(&weir, "/firehose/a", 1);
    let url = format!("ws://{}/firehose/b", address(&weir, "traffic_controller"));
    assert_eq!(Reader::start(&[&url, "1"]).rest(), ["refused 503"]);
    drop(first);
    weir.wait_books("its reader has left", PATIENCE, |books| {
        service(books, "traffic_controller")["readers"] == 0
    });
    drop(Reader::websocket(&weir, "/firehose/a", 1));
    assert_eq!(service(&weir.books(), "traffic_controller")["refused"], 2);
    balanced(&weir);
    weir.stop();
}

#[test]
fn the_older_grpc_services_take_and_give_the_same() {
    let scene = Scene::new();
    let mut weir = scene.start(&(source("") + BLACKHOLE + EGRESS + CONTROLLER));
    let batched = Reader::subscribe(&weir, "BatchSubscribe", ["", "", ""], 4);
    let single = Reader::subscribe(&weir, "Subscribe", ["s", APP, "logs"], 1);
    let metrics = Reader::subscribe(&weir, "Subscribe", ["", "", "metrics"], 3);
    let stream = Reader::websocket(&weir, &format!("/apps/{APP}/stream"), 2);
    let pushed: Vec<Vec<u8>> =
        [log(APP, b"line"), counter("hits"), http(APP), error("failed"), b"no envelope".to_vec()]
            .iter()
            .map(|envelope| {
                let mut message = Vec::new();
                add_to_loggregator_batch(envelope, &mut message);
                message
            })
            .collect();
    let path = messages(&scene, "pushed", &pushed);
    let method = "/plumbing.DopplerIngestor/Pusher";
    assert_eq!(said(send(&python(), &weir, method, &path, &[])), "OK 5\n");
    let all = [
        format!("log program {APP} line"),
        "counter program / hits 2".to_owned(),
        format!("http program {APP} /path"),
        "error program / failed".to_owned(),
    ];
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(batched.rest()), sorted(all.to_vec()));
    assert_eq!(single.rest(), [all[0].clone()]);
    assert_eq!(sorted(metrics.rest()), sorted(all[1..].to_vec()));
    assert_eq!(sorted(stream.rest()), sorted(vec![all[0].clone(), all[2].clone()]));
    assert_eq!(settled(&weir, "egress", 8)["lost"], 0);
    let books = balanced(&weir);
    assert_eq!(books.source("cf")["book"]["malformed"], 1, "{books}");
    weir.stop();
}

#[test]
fn operators_read_that_a_reader_was_too_slow() {
    const BATCHES: u64 = 90;
    let scene = Scene::new();
    let own = "[source.own]\ntype = \"loggregator_metrics\"\ninterval = \"100ms\"\n";
    let mut weir = scene.start(&(source("") + own + BLACKHOLE + CONTROLLER + EGRESS));
    let events = json!({ "selectors": [["traffic_controller", "event"]] });
    let events = loggregator_egress::Reader::open(&weir, "BatchedReceiver", &events, 1);
    let mut slow = Reader::websocket(&weir, "/firehose/slow?filter-type=logs", -1);
    let (line, mut batch) = ("x".repeat(1000), Vec::new());
    for _ in 0..100 {
        add_to_loggregator_batch(&crate::loggregator::log(APP, line.as_bytes()), &mut batch);
    }
    let path = messages(&scene, "lines", &vec![batch; BATCHES as usize]);
    let sent = said(send(&python(), &weir, "BatchSender", &path, &[]));
    assert_eq!(sent, format!("OK {BATCHES}\n"));
    // The title, up to its first space.
    assert_eq!(events.rest(), ["event traffic_controller Traffic 0"]);
    assert_eq!(service(&weir.books(), "traffic_controller")["cut"], 1);
    // The metric is emitted, too, without another event.
    let both = [["traffic_controller", "counter"], ["traffic_controller", "event"]];
    let both = json!({ "selectors": both });
    let both = loggregator_egress::Reader::open(&weir, "BatchedReceiver", &both, 1).rest();
    assert!(both.iter().all(|line| line.starts_with("counter traffic_controller ")), "{both:?}");
    slow.stdin.write_all(b"go on\n").unwrap();
    assert!(slow.rest().pop().unwrap().starts_with("closed 1008 "));
    weir.books().assert_balanced();
    weir.stop();
}
